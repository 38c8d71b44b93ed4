//! One port against queueing theory.

use crate::blast::Blast;
use crate::script::Script;
use cavy_core::Span;
use cavy_core::family::Node;
use cavy_lab::net::traffic::{Gaps, OpenLoop, Receivers};
use cavy_lab::net::{
    Bins, Done, Ideal, Network, Observer, Order, PortClass, Rate, Setup, Topology, run,
};
use cavy_lab::pending::Wheel;
use cavy_workload::Sizes;

/// Sum of waits over all messages but the first ones.
#[derive(Default)]
struct Waits {
    count: u64,
    sum: f64,
    sum_of_squares: f64,
    batch: f64,
    batches: Vec<f64>,
}

const BATCH: u64 = 10_000;

impl<M: ?Sized, H> Observer<M, H> for Waits {
    fn finished(&mut self, done: &Done) {
        if !done.counted {
            return;
        }
        let wait = (done.delays.queueing + done.delays.lag) as f64;
        self.count += 1;
        self.sum += wait;
        self.sum_of_squares += wait * wait;
        self.batch += wait;
        if self.count.is_multiple_of(BATCH) {
            self.batches.push(self.batch / BATCH as f64);
            self.batch = 0.0;
        }
    }
}

impl Waits {
    /// Mean and half its 99 % interval, by batch means.
    fn mean(&self) -> (f64, f64) {
        let n = self.batches.len() as f64;
        let mean = self.batches.iter().sum::<f64>() / n;
        let variance = self.batches.iter().map(|b| (b - mean).powi(2)).sum::<f64>() / (n - 1.0);
        (mean, 2.7 * (variance / n).sqrt())
    }
}

/// Many senders to one receiver, whose downlink is the only link that is slow.
fn fan_in(order: Order, duration: Span) -> (Setup, u32) {
    let senders = 40;
    let mut links = Vec::new();
    use cavy_lab::net::{Link, Place};
    for host in 0..=senders {
        let rate = if host == senders { Rate::gbps(10) } else { Rate::gbps(8_000) };
        links.push(Link {
            a: Place::Host(host),
            b: Place::Switch(0),
            rate,
            back: rate,
            propagation: Span::ZERO,
        });
    }
    let topology = Topology::new(senders + 1, 1, &links).unwrap();
    let network = Network { order, ..Network::new(topology) };
    let warmup = Span::from_ms(2);
    (Setup { warmup, ..Setup::new(network, 1, duration, Bins::up_to(vec![])) }, senders)
}

fn traffic(senders: u32, load: f64, length: u32) -> OpenLoop {
    let service_s = f64::from(length + 12 + 66) * 8.0 / 10e9;
    OpenLoop {
        senders: 0..senders,
        receivers: Receivers::Among(senders..senders + 1),
        sizes: Sizes::constant(length).unwrap(),
        block: None,
        rate_per_s: load / service_s / f64::from(senders),
        gaps: Gaps::Poisson,
        asks: false,
        class: 0,
    }
}

#[test]
fn a_port_under_poisson_arrivals_is_m_d_1() {
    for load in [0.5, 0.8] {
        let (setup, senders) = fan_in(Order::Fifo, Span::from_ms(600));
        let traffic = traffic(senders, load, 1000).start(senders + 1, 7).unwrap();
        let mut waits = Waits::default();
        let report = run(&setup, |_| Blast::default(), traffic, &mut Wheel::new(), &mut waits);
        let service = 1078.0 * 800.0;
        let expected = load * service / (2.0 * (1.0 - load));
        let (mean, half) = waits.mean();
        // Senders' cards add a thousandth of the service time, sometimes.
        assert!((mean - expected).abs() < half + 0.002 * expected, "{mean} {half} {expected}");
        assert!(half < 0.05 * expected, "too short to tell");
        // By Little's law the mean queue is the arrival rate times the mean wait.
        let downlink = report.class(PortClass::Downlink);
        let ports = f64::from(downlink.ports);
        let queue = mean / service * load * 1058.0;
        assert!((downlink.mean_bytes * ports / queue - 1.0).abs() < 0.01, "{downlink:?} {queue}");
        assert!((downlink.utilization * ports / load - 1.0).abs() < 0.01, "{downlink:?}");
        // Poisson arrivals see the time average: packets find that queue, and half a packet on the
        // wire for the share of the time that there is one.
        let found = queue + load * 1078.0 / 2.0;
        assert!((downlink.found_mean_bytes / found - 1.0).abs() < 0.01, "{downlink:?} {found}");
    }
}

#[test]
fn a_receivers_processor_under_poisson_arrivals_is_m_d_1() {
    /// Times beyond the least possible, which has the processor's time for one packet in it.
    struct Excess(Ideal, Waits);
    impl<M: ?Sized, H> Observer<M, H> for Excess {
        fn finished(&mut self, done: &Done) {
            let least = self.0.time(done.from, done.to, done.length_bytes);
            let mut alone = *done;
            alone.delays.lag = 0;
            alone.delays.queueing = (done.at - done.submitted_at - least) as _;
            Observer::<M, H>::finished(&mut self.1, &alone);
        }
    }
    for load in [0.5, 0.8] {
        // Packets of 0.86 us that come to a processor that takes 2 us for each.
        let each = Span::from_us(2);
        let (mut setup, senders) = fan_in(Order::Fifo, Span::from_ms(900));
        setup.network.hosts.receive_each = each;
        let link_load = load * 0.8624 / 2.0;
        let traffic = traffic(senders, link_load, 1000).start(senders + 1, 7).unwrap();
        let mut excess = Excess(Ideal::new(&setup.network), Waits::default());
        run(&setup, |_| Blast::default(), traffic, &mut Wheel::new(), &mut excess);
        // A link that spaces packets less than the processor does changes nothing of the sum of
        // both waits: a packet leaves the processor when it would have left one fed at once.
        let service = each.as_ns() as f64 * 1e3;
        let expected = load * service / (2.0 * (1.0 - load));
        let (mean, half) = excess.1.mean();
        assert!((mean - expected).abs() < half + 0.005 * expected, "{mean} {half} {expected}");
        assert!(half < 0.05 * expected, "too short to tell");
    }
}

/// Half of the messages high, half low: lengths 1000 and 1001.
fn halves(length: u32) -> (u8, u32) {
    (if length == 1000 { 7 } else { 0 }, 0)
}

#[test]
fn levels_are_nonpreemptive_priorities() {
    // Cobham: W_high = R / (1 - rho_high), W_low = W_high / (1 - rho), R = lambda E[S^2] / 2.
    #[derive(Default)]
    struct Both {
        high: Waits,
        low: Waits,
    }
    impl<M: ?Sized, H> Observer<M, H> for Both {
        fn finished(&mut self, done: &Done) {
            let waits = if done.length_bytes == 1000 { &mut self.high } else { &mut self.low };
            Observer::<M, H>::finished(waits, done);
        }
    }
    let load = 0.8;
    let (setup, senders) = fan_in(Order::Levels, Span::from_ms(900));
    let sizes = Sizes::new(&[(1000, 0.5), (1001, 1.0)]).unwrap();
    let what = OpenLoop { sizes, ..traffic(senders, load, 1000) };
    let traffic = what.start(senders + 1, 3).unwrap();
    let mut both = Both::default();
    run(&setup, |_| Script::new(halves), traffic, &mut Wheel::new(), &mut both);
    let residual = load * 1078.5 * 800.0 / 2.0;
    let high = residual / (1.0 - load / 2.0);
    let low = high / (1.0 - load);
    for (waits, expected) in [(both.high, high), (both.low, low)] {
        let (mean, half) = waits.mean();
        assert!((mean - expected).abs() < half + 0.003 * expected, "{mean} {half} {expected}");
        assert!(half < 0.05 * expected, "too short to tell");
    }
}

#[test]
fn homa_4_3_slowdown_is_time_over_the_ideal() {
    // A lone stream of messages of one packet, so far apart that most do not wait: slowdown is what
    // the header adds.
    let (setup, senders) = fan_in(Order::Levels, Span::from_ms(20));
    let ideal = Ideal::new(&setup.network);
    let traffic = OpenLoop { senders: 0..1, ..traffic(senders, 0.5, 1000) };
    let traffic = traffic.start(senders + 1, 3).unwrap();
    let report = run(
        &setup,
        |_| Blast::default(),
        traffic,
        &mut Wheel::new(),
        &mut cavy_lab::net::Unobserved,
    );
    let (from, to) = (Node(0), Node(senders));
    let expected = ideal.time(from, to, 1012) as f64 / ideal.time(from, to, 1000) as f64;
    let slowdown = report.slowdown(0..1, 0.5).unwrap();
    assert!((slowdown - expected).abs() < 1e-3, "{slowdown} {expected}");
}
