//! The machines of what-if analysis in the world of services: what they predict is what is then
//! true.

use super::stage::{close, closed, exponential, line, throughput, us};
use cavy_core::family::Node;
use cavy_core::family::probe::{Controller, Group};
use cavy_core::{Instant, Span};
use cavy_lab::pending::Heap4;
use cavy_lab::services::{
    Call, Discipline, Faults, Host, Law, Lock, Network, Observer, Outcome, Place, Setup, Step, run,
};
use cavy_whatif::daemon::{Order, SETS};
use cavy_whatif::{
    Busy, Change, Config, Daemon, Governor, Limits, Published, Reading, Target, Windows, published,
};
use core::ops::ControlFlow;

#[derive(Default)]
struct Readings(Vec<Reading>, usize);

impl Observer<Reading> for Readings {
    fn concluded(&mut self, _: usize, _: Instant, reading: &Reading) -> ControlFlow<()> {
        self.0.push(*reading);
        if self.0.len() >= self.1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

fn targets(network: &Network, changes: &[(usize, Change)]) -> (Vec<Target>, Vec<Group>) {
    let target = |(service, change): &(usize, Change)| Target {
        groups: network.groups_of(*service).map(Group).collect(),
        change: change.clone(),
    };
    let targets: Vec<Target> = changes.iter().map(target).collect();
    let taken = |group: &Group| targets.iter().any(|one| one.groups.contains(group));
    let rest = (0..network.groups()).map(Group).filter(|group| !taken(group)).collect();
    (targets, rest)
}

fn config(network: &Network, changes: &[(usize, Change)], pauses_us: [u64; 2]) -> Config {
    let (targets, rest) = targets(network, changes);
    Config {
        targets,
        rest,
        limits: Limits {
            pause_min: Span::from_us(pauses_us[0]),
            pause_max: Span::from_us(pauses_us[1]),
            tick: Span::from_us(100),
            ..Limits::default()
        },
        windows: Windows {
            settle: Span::from_ms(1_000),
            length: Span::from_ms(8_000),
            pattern: vec![true],
        },
        hosts: 0,
    }
}

fn govern(network: &Network, config: Config, faults: Faults) -> (Reading, Outcome) {
    let mut setup = Setup::new(network, 3, Instant::from_ns(60_000_000_000));
    setup.wiring.hears = vec![Some(0); network.groups() as usize];
    setup.wiring.edge = Some(0);
    setup.faults = faults;
    setup.check = true;
    let mut governor = [Governor::new(config).expect("a legal config")];
    let mut readings = Readings(Vec::new(), 1);
    let outcome = run(&setup, &mut governor, &mut Heap4::new(), &mut readings);
    (readings.0[0], outcome.expect("a legal network"))
}

fn count(saved_us: i64, parallel: u32) -> Change {
    Change::Count { saved_ns: vec![saved_us * 1_000], parallel }
}

/// Three services on cores of their own; the second one's time is given.
fn chain(law: Law) -> Network {
    let mut network = line(&[(us(600), 2), (law, 2), (us(500), 2)], closed(200, None));
    network.hop = Some(us(100));
    network
}

#[test]
fn count_clock_and_delivered_predict_what_a_faster_service_gives() {
    for law in [us, exponential] {
        let noise = if law(1) == us(1) { 0.005 } else { 0.03 };
        for (saved, share) in [(250, 0.25), (500, 0.5), (750, 0.75)] {
            let truth = throughput(&chain(law(1_000 - saved)), 3, 10.0, 1.0);
            let busy = Busy::Cpu;
            for change in [
                count(saved as i64, 2),
                Change::Clock { share, parallel: 2, busy },
                Change::Delivered { share, parallel: 2 },
            ] {
                // What saves the same of each visit is not what makes each faster by a share.
                if law(1) != us(1) && matches!(change, Change::Count { .. }) {
                    continue;
                }
                let slowed = chain(law(1_000));
                let config = config(&slowed, &[(1, change)], [2_000, 20_000]);
                let (reading, _) = govern(&slowed, config, Faults::default());
                close(reading.predicted_per_s(), truth, noise);
                assert!(reading.measured_per_s() < 0.9 * truth);
            }
        }
    }
}

#[test]
fn late_controllers_and_slow_stops_are_measured_and_carried() {
    let truth = throughput(&chain(us(500)), 3, 10.0, 1.0);
    let slowed = chain(us(1_000));
    let config = config(&slowed, &[(1, count(500, 2))], [2_500, 20_000]);
    let faults = Faults { stall_ratio: 0.02, stall: Span::from_us(3_000), ..Faults::measured() };
    let (reading, outcome) = govern(&slowed, config, faults);
    close(reading.predicted_per_s(), truth, 0.02);
    assert_eq!(outcome.groups.iter().map(|one| one.leases_ended).sum::<u64>(), 0);
}

#[test]
fn a_lock_has_one_server_however_many_cores_there_are() {
    let network = |section: u64| {
        let mut network = chain(us(300));
        network.services[1].place = Place::Own(Host { cores: 6, discipline: Discipline::Fcfs });
        network.services[1].locks.push(Lock { spins: false });
        network.services[1].endpoints[0]
            .steps
            .insert(1, Step::Locked { lock: 0, work: us(section) });
        network
    };
    let truth = throughput(&network(450), 3, 10.0, 1.0);
    let slowed = network(600);
    let (one, _) =
        govern(&slowed, config(&slowed, &[(1, count(150, 1))], [2_000, 20_000]), Faults::default());
    close(one.predicted_per_s(), truth, 0.02);
    let (cores, _) =
        govern(&slowed, config(&slowed, &[(1, count(150, 6))], [2_000, 20_000]), Faults::default());
    assert!(cores.predicted_per_s() < 0.9 * truth, "{} of {truth}", cores.predicted_per_s());
}

#[test]
fn replicas_two_targets_and_regressions_are_predicted() {
    // A service of two replicas, of which each gets faster.
    let replicated = |law| {
        let mut network = chain(law);
        network.services[1].replicas = 2;
        network.services[1].place = Place::Own(Host { cores: 1, discipline: Discipline::Fcfs });
        network
    };
    let truth = throughput(&replicated(us(600)), 3, 10.0, 1.0);
    let slowed = replicated(us(1_000));
    let config_of =
        |changes: &[(usize, Change)], slowed: &Network| config(slowed, changes, [2_000, 20_000]);
    let (reading, _) =
        govern(&slowed, config_of(&[(1, count(400, 2))], &slowed), Faults::default());
    close(reading.predicted_per_s(), truth, 0.006);
    // Two services at once: neither alone gives much.
    let both =
        |first, second| line(&[(us(200), 1), (us(first), 1), (us(second), 1)], closed(120, None));
    let truth = throughput(&both(500, 600), 3, 10.0, 1.0);
    let slowed = both(1_000, 950);
    let changes = [(1, count(500, 1)), (2, count(350, 1))];
    let (reading, _) = govern(&slowed, config_of(&changes, &slowed), Faults::default());
    close(reading.predicted_per_s(), truth, 0.01);
    // A service that gets slower.
    let truth = throughput(&both(1_000, 1_400), 3, 10.0, 1.0);
    let slowed = both(1_000, 950);
    let (reading, _) =
        govern(&slowed, config_of(&[(2, count(-450, 1))], &slowed), Faults::default());
    close(reading.predicted_per_s(), truth, 0.01);
    assert_eq!(reading.paused, Span::ZERO);
}

#[test]
fn delivered_mode_needs_no_cores_of_its_own_where_the_open_law_errs() {
    // [slowpoke 0]: all on one host of four cores, the target single-threaded.
    let shared = |share: f64| {
        let scaled = |time: u64| Law::Constant { ns: ((1.0 - share) * time as f64 * 1e3) as u64 };
        let mut network = line(&[(us(700), 1), (scaled(600), 1), (us(500), 1)], closed(60, None));
        network.hosts.push(Host { cores: 4, discipline: Discipline::Sharing });
        for service in &mut network.services {
            service.place = Place::On(0);
        }
        network.services[1].threads = Some(1);
        network.hop = Some(us(100));
        network
    };
    let truth = throughput(&shared(0.5), 3, 10.0, 1.0);
    let slowed = shared(0.0);
    let change = Change::Delivered { share: 0.5, parallel: 1 };
    let (reading, _) =
        govern(&slowed, config(&slowed, &[(1, change)], [100, 500]), Faults::default());
    close(reading.predicted_per_s(), truth, 0.03);
}

/// The Governor of one host, or the daemon of another.
pub enum Either {
    Leader(Box<Governor>),
    Daemon(Box<Daemon>),
}

impl cavy_core::Machine for Either {
    type Input = cavy_core::family::probe::Input<Order>;
    type Effect = cavy_core::family::probe::Effect<Order, Reading>;
    type Timer = cavy_core::family::probe::Timer;
    fn effects_max(&self) -> usize {
        match self {
            Either::Leader(one) => one.effects_max(),
            Either::Daemon(one) => one.effects_max(),
        }
    }
    fn start(&mut self, cx: &mut cavy_core::Cx<'_, Self::Effect, Self::Timer>) {
        if let Either::Leader(one) = self {
            one.start(cx);
        }
    }
    fn handle(
        &mut self,
        input: Self::Input,
        cx: &mut cavy_core::Cx<'_, Self::Effect, Self::Timer>,
    ) {
        match self {
            Either::Leader(one) => one.handle(input, cx),
            Either::Daemon(one) => one.handle(input, cx),
        }
    }
    fn expire(
        &mut self,
        timer: Self::Timer,
        cx: &mut cavy_core::Cx<'_, Self::Effect, Self::Timer>,
    ) {
        match self {
            Either::Leader(one) => one.expire(timer, cx),
            Either::Daemon(one) => one.expire(timer, cx),
        }
    }
}

impl Controller for Either {
    type Message = Order;
    type Finding = Reading;
    fn members(&self, set: cavy_core::family::probe::Set) -> &[Group] {
        match self {
            Either::Leader(one) => one.members(set),
            Either::Daemon(one) => one.members(set),
        }
    }
}

#[test]
fn daemons_of_hosts_stop_what_the_leader_says() {
    let truth = throughput(&chain(us(500)), 3, 10.0, 1.0);
    let slowed = chain(us(1_000));
    let mut config = config(&slowed, &[(1, count(500, 2))], [10_000, 30_000]);
    config.hosts = 2;
    let daemon = |groups: [u32; 2]| {
        let mut sets: [Vec<Group>; SETS] = Default::default();
        sets[0] = groups.map(Group).to_vec();
        Either::Daemon(Box::new(Daemon::new(Node(0), sets)))
    };
    let leader = Governor::new(config).expect("a legal config");
    let mut all = [Either::Leader(Box::new(leader)), daemon([0, 2]), daemon([3, 3])];
    if let Either::Daemon(one) = &mut all[2] {
        let mut sets: [Vec<Group>; SETS] = Default::default();
        sets[0] = vec![Group(3)];
        **one = Daemon::new(Node(0), sets);
    }
    let mut setup = Setup::new(&slowed, 3, Instant::from_ns(30_000_000_000));
    setup.wiring.hears = vec![None, Some(0), None];
    setup.wiring.edge = Some(0);
    // Orders take 50 us on average to each host, so that hosts stand at different times.
    setup.faults = Faults { message: Some(exponential(50)), ..Faults::default() };
    let mut readings = Readings(Vec::new(), 1);
    let outcome = run(&setup, &mut all, &mut Heap4::new(), &mut readings).expect("a network");
    close(readings.0[0].predicted_per_s(), truth, 0.03);
    assert_eq!(readings.0[0].doubts, 0);
    assert!(outcome.groups[3].stops > 50);
}

#[test]
fn slowpoke_as_published_floods_and_is_right_to_a_few_percent() {
    let network = |law| {
        let mut network = chain(law);
        network.services[2].endpoints[0].steps.push(Step::Call(Call::once(3)));
        network.services.push(network.services[2].clone());
        network.services[3].endpoints[0].steps = vec![Step::Cpu(us(700))];
        network
    };
    let truth = throughput(&network(us(500)), 3, 10.0, 1.0);
    let slowed = network(us(1_000));
    let mut services: Vec<Published> = (0..4)
        .map(|group| {
            let pause = published::delay(500.0, 1.0, 2, 1.0, 2, false);
            Published::new(Group(group), group == 1, pause, 60, 4)
        })
        .collect();
    let mut setup = Setup::new(&slowed, 3, Instant::from_ns(20_000_000_000));
    setup.wiring.hears = (0..4).map(Some).collect();
    setup.wiring.virtual_addresses = true;
    setup.faults = Faults { message: Some(exponential(300)), ..Faults::default() };
    let mut log = super::stage::Log { from: Instant::from_ns(2_000_000_000), ..Default::default() };
    let outcome = run(&setup, &mut services, &mut Heap4::new(), &mut log).expect("a legal network");
    let slow = log.done.len() as f64 / 18.0;
    let predicted = published::predict(slow, 250.0).expect("slower than its pauses");
    close(predicted, truth, 0.06);
    // Every service stands, the clients never, the target for no time at all.
    assert!(outcome.groups[0].stops > 100 && outcome.groups[3].stops > 100);
    assert_eq!((outcome.groups[4].stops, outcome.groups[1].frozen), (0, Span::ZERO));
}
