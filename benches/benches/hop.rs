//! A packet over one link: a loop written by hand, and the lab beside it in the same run.
//!
//! The network of the source, 144 hosts at 80 % load of W3, nobody in charge: whatever is submitted
//! is sent. The loop by hand has one kind of packet, ports that are first come first served and so
//! need no event of their own, the standard heap, and nothing to measure but the sum of latencies.
//! It is printed because a fast wrong answer is no floor. Full Homa, data and grants, carries the
//! same messages in the last row.
//!
//! `cargo bench --bench hop -- homa 20` runs full Homa alone so many times, for a profile; `fifo`
//! and `hand` are the others that can be named.

#[path = "../../crates/lab/examples/blast/transport.rs"]
mod blast;

use blast::Blast;
use cavy_bench::{in_turns, ns_per, print_machine};
use cavy_core::{Purpose, Span, Stream};
use cavy_homa::{Config, Cutoffs, Homa};
use cavy_lab::net::traffic::OpenLoop;
use cavy_lab::net::{Bins, Network, Order, Report, Setup, Topology, Unobserved, run};
use cavy_lab::pending::{Heap4, Pending, Wheel};
use cavy_workload::sizes::{Framing, Published, Sizes, rate_per_s};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

const HOSTS: u32 = 144;
const RACK: u32 = 16;
const LOAD: f64 = 0.8;
const DURATION_PS: u64 = 2_000_000_000;

fn sizes() -> Sizes {
    Published::W3.sizes().clamped(1, 100_000).expect("a legal clamp")
}

fn rate() -> f64 {
    rate_per_s(&sizes(), &Framing::default(), LOAD, 10e9)
}

/// A packet of the loop by hand.
#[derive(Clone, Copy)]
struct Packet {
    to: u32,
    wire_bytes: u32,
    submitted_at: u64,
    last: bool,
    /// 0: at the sender's rack, 1: at a spine, 2: at the receiver's rack, 3: at the receiver.
    at: u32,
    spine: u32,
    from: u32,
}

/// What the loop by hand says.
#[derive(Clone, Copy, Default)]
struct ByHand {
    hops: u64,
    messages: u64,
    latency_us: f64,
}

struct Loop {
    pending: BinaryHeap<Reverse<u128>>,
    sequence: u64,
    packets: Vec<Packet>,
    free: Vec<u32>,
    /// When each port is done with what it has.
    cards: Vec<u64>,
    downlinks: Vec<u64>,
    uplinks: Vec<u64>,
    spines: Vec<u64>,
    hops: u64,
}

impl Loop {
    fn push(&mut self, at: u64, slot: u32) {
        self.sequence += 1;
        let key = u128::from(at) << 64 | u128::from(self.sequence) << 24 | u128::from(slot);
        self.pending.push(Reverse(key));
    }

    /// Sends a packet over the port that is busy until `port`; when it has left.
    fn over(port: &mut u64, now: u64, wire_bytes: u32, ps_per_byte: u64) -> u64 {
        *port = (*port).max(now) + u64::from(wire_bytes) * ps_per_byte;
        *port
    }
}

fn by_hand(seed: u64) -> ByHand {
    let sizes = sizes();
    let mean_gap = 1e12 / rate();
    let mut gaps = Stream::keyed(seed, 0, Purpose::Arrivals);
    let mut routes = Stream::keyed(seed, 0, Purpose::Routing);
    let racks = HOSTS / RACK;
    let mut world = Loop {
        pending: BinaryHeap::new(),
        sequence: 0,
        packets: Vec::new(),
        free: Vec::new(),
        cards: vec![0; HOSTS as usize],
        downlinks: vec![0; HOSTS as usize],
        uplinks: vec![0; (racks * 4) as usize],
        spines: vec![0; (racks * 4) as usize],
        hops: 0,
    };
    let mut outcome = ByHand::default();
    for host in 0..HOSTS {
        let at = -mean_gap * libm::log(gaps.unit());
        world.push(at as u64, host);
    }
    while let Some(Reverse(key)) = world.pending.pop() {
        let (now, slot) = ((key >> 64) as u64, key as u32 & 0xFF_FFFF);
        if slot < HOSTS {
            let next = now + (-mean_gap * libm::log(gaps.unit())) as u64;
            if next < DURATION_PS {
                world.push(next, slot);
            }
            let other = routes.below(u64::from(HOSTS) - 1) as u32;
            let to = if other >= slot { other + 1 } else { other };
            let mut left = sizes.draw(&mut routes);
            while left > 0 {
                let payload = left.min(1460);
                left -= payload;
                let wire_bytes = (payload + 12 + 66).max(84);
                let left_at = Loop::over(&mut world.cards[slot as usize], now, wire_bytes, 800);
                let last = left == 0;
                let packet =
                    Packet { to, wire_bytes, submitted_at: now, last, at: 0, spine: 0, from: slot };
                let index = match world.free.pop() {
                    Some(index) => {
                        world.packets[index as usize] = packet;
                        index
                    }
                    None => {
                        world.packets.push(packet);
                        world.packets.len() as u32 - 1
                    }
                };
                world.hops += 1;
                world.push(left_at + 1_250_000, HOSTS + index);
            }
            continue;
        }
        let index = slot - HOSTS;
        let packet = &mut world.packets[index as usize];
        let Packet { to, wire_bytes, from, .. } = *packet;
        let (rack, far) = (from / RACK, to / RACK);
        let (left_at, delay) = match packet.at {
            0 if rack != far => {
                packet.at = 1;
                packet.spine = routes.below(4) as u32;
                let port = &mut world.uplinks[(rack * 4 + packet.spine) as usize];
                (Loop::over(port, now, wire_bytes, 200), 250_000)
            }
            1 => {
                packet.at = 2;
                let port = &mut world.spines[(packet.spine * racks + far) as usize];
                (Loop::over(port, now, wire_bytes, 200), 250_000)
            }
            3 => {
                outcome.messages += u64::from(packet.last);
                if packet.last {
                    outcome.latency_us += (now - packet.submitted_at) as f64 / 1e6;
                }
                world.free.push(index);
                continue;
            }
            _ => {
                packet.at = 3;
                let port = &mut world.downlinks[to as usize];
                (Loop::over(port, now, wire_bytes, 800), 500_000)
            }
        };
        world.hops += 1;
        world.push(left_at + delay, slot);
    }
    outcome.hops = world.hops;
    outcome.latency_us /= outcome.messages as f64;
    outcome
}

fn lab(order: Order, pending: &mut impl Pending) -> Report {
    let network = Network { order, ..Network::new(Topology::paper()) };
    let duration = Span::from_ns(DURATION_PS / 1000);
    let setup = Setup::new(network, 1, duration, Bins::deciles(&sizes()));
    let setup = Setup { drain: Span::from_ms(100), ..setup };
    let traffic = OpenLoop::all_to_all(HOSTS, sizes(), rate()).start(HOSTS, 1).expect("legal");
    run(&setup, |_| Blast::default(), traffic, pending, &mut Unobserved)
}

/// Homa as its authors simulated it, on the same messages.
fn homa(pending: &mut impl Pending) -> Report {
    let network = Network::new(Topology::paper());
    let duration = Span::from_ns(DURATION_PS / 1000);
    let setup = Setup::new(network, 1, duration, Bins::deciles(&sizes()));
    let setup = Setup { drain: Span::from_ms(100), ..setup };
    let traffic = OpenLoop::all_to_all(HOSTS, sizes(), rate()).start(HOSTS, 1).expect("legal");
    let cutoffs = Cutoffs::new(8, &[469, 5521, 15267]).expect("ascending");
    let config = Arc::new(Config::simulator(cutoffs, 4));
    run(&setup, |_| Homa::sharing(&config).expect("legal"), traffic, pending, &mut Unobserved)
}

/// Nanoseconds a packet-hop, keeping the report.
fn measure(kept: &mut Option<Report>, work: impl FnOnce() -> Report) -> f64 {
    let total = ns_per(1, || *kept = Some(work()));
    total / kept.as_ref().map_or(1.0, |report| report.packets.hops as f64)
}

/// Runs one contender alone, as a profiler wants it. False when the arguments name none.
fn alone() -> bool {
    let mut words = std::env::args().skip(1).filter(|word| !word.starts_with('-'));
    let Some(name) = words.next() else { return false };
    let times: u32 = words.next().and_then(|word| word.parse().ok()).unwrap_or(1);
    for _ in 0..times {
        let hops = match name.as_str() {
            "homa" => homa(&mut Wheel::new()).packets.hops,
            "fifo" => lab(Order::Fifo, &mut Wheel::new()).packets.hops,
            "hand" => by_hand(1).hops,
            _ => return false,
        };
        std::hint::black_box(hops);
    }
    true
}

fn main() {
    if alone() {
        return;
    }
    print_machine();
    let mut hand = ByHand::default();
    let (mut fifo, mut levels, mut heap, mut full) = (None, None, None, None);
    let ns = in_turns(&mut [
        &mut || {
            let total = ns_per(1, || hand = by_hand(1));
            total / hand.hops as f64
        },
        &mut || measure(&mut fifo, || lab(Order::Fifo, &mut Wheel::new())),
        &mut || measure(&mut levels, || lab(Order::Levels, &mut Wheel::new())),
        &mut || measure(&mut heap, || lab(Order::Levels, &mut Heap4::new())),
        &mut || measure(&mut full, || homa(&mut Wheel::new())),
    ]);
    println!(
        "| how | ns/packet-hop | over the loop by hand | hops | events/hop | mean latency us |"
    );
    println!("|---|---|---|---|---|---|");
    println!(
        "| loop by hand, FIFO | {:.0} | 1 | {} | | {:.1} |",
        ns[0], hand.hops, hand.latency_us
    );
    let rows = [
        ("lab, FIFO, wheel", fifo),
        ("lab, levels, wheel", levels),
        ("lab, levels, heap", heap),
        ("lab, full Homa, wheel", full),
    ];
    for (ns_hop, (how, report)) in ns[1..].iter().zip(rows) {
        let report = report.expect("every contender has run");
        let (mut sum, mut count) = (0.0, 0);
        for bin in &report.bins {
            sum += bin.latency_ns.mean().unwrap_or(0.0) * bin.latency_ns.count() as f64;
            count += bin.latency_ns.count();
        }
        let mean_us = sum / count as f64 / 1e3;
        let events = report.events as f64 / report.packets.hops as f64;
        println!(
            "| {how} | {ns_hop:.0} | {:.2} | {} | {events:.2} | {mean_us:.1} |",
            ns_hop / ns[0],
            report.packets.hops
        );
    }
}
