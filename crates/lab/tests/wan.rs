//! The wide-area world: what it promises machines, what faults do, and that a run repeats.

#[path = "../../../tests/wasm/wan.rs"]
mod echo;

use cavy_core::family::Node;
use cavy_core::family::message::{Effect, Input, Talker, Via, Work};
use cavy_core::{Cx, Instant, Machine, Span};
use cavy_lab::net::{Outage, OutageKind, What};
use cavy_lab::pending::{Heap4, Wheel};
use cavy_lab::wan::{
    Ended, Jitter, Parts, Report, Rule, Setup, SetupError, Site, Unmetered, Unobserved, Which, run,
};
use echo::{Askers, Echoes, WAN, Word, echo, setup};

#[test]
fn golden_digests() {
    let found: Vec<u64> = (0..WAN.len())
        .map(|n| echo(&setup(n as u32), &mut Heap4::new()).0.trail.digest())
        .collect();
    let written: Vec<u64> = WAN.iter().map(|(_, digest)| *digest).collect();
    assert_eq!(found, written, "{found:#x?}");
}

#[test]
fn both_queues_of_events_give_the_same_run() {
    for number in 0..3 {
        let setup = setup(number);
        let (heap, ..) = echo(&setup, &mut Heap4::new());
        let (wheel, ..) = echo(&setup, &mut Wheel::new());
        assert_eq!(heap, wheel);
        let (again, ..) = echo(&setup, &mut Heap4::new());
        assert_eq!(heap, again);
        let other = cavy_lab::wan::Setup { seed: 1, ..setup };
        assert_ne!(echo(&other, &mut Heap4::new()).0.trail.digest(), heap.trail.digest());
    }
}

#[test]
fn a_quiet_run_takes_what_arithmetic_says() {
    // To a node of one's own region 2.5 ms, 10 us to take the call; stored at once; 10 us to hear
    // that; 50 ms; 10 us; 50 ms; 10 us for the pong; then the work, 10 us to hear of it, and back.
    // Nothing else is on the processors when a client is alone.
    let mut setup = setup(0);
    setup.duration = Span::from_ms(6);
    let (report, clients, _) = echo(&setup, &mut Heap4::new());
    assert_eq!(report.ended, Ended::Answered);
    let least = clients.took.iter().min().copied().unwrap_or(Span::ZERO);
    let floor = Span::from_us(2_500 + 50_000 + 50_000 + 300 + 2_500 + 10 * 5);
    assert!(least >= floor && least <= floor + Span::from_us(200), "{least} against {floor}");
    assert_eq!(report.counts.messages % 2, 0);
}

#[test]
fn everything_that_can_go_wrong_does_and_clients_are_served_in_the_end() {
    let setup = setup(2);
    let (report, clients, machines) = echo(&setup, &mut Heap4::new());
    let counts = report.counts;
    assert!(counts.lost > 20 && counts.broken > 10 && counts.retries > 0, "{counts:?}");
    assert!(machines.iter().all(Option::is_some));
    assert_eq!((counts.answered, clients.unknown), (counts.asked, 0), "{counts:?}");
    assert!(machines.iter().flatten().any(|echo| echo.strays > 5));
}

#[test]
fn a_crash_takes_what_was_not_stored_and_nothing_else() {
    let (mut lost, mut kept) = (0, 0);
    for at_ms in 300..310 {
        let mut setup = setup(0);
        setup.disk.sync = Span::from_ms(100);
        let at = |ms: u64| Instant::from_ns(ms * 1_000_000);
        let (from, until, kind) = (at(at_ms * 3), at(at_ms * 3 + 10), OutageKind::Crash);
        setup.faults.outages =
            [0, 2].map(|host| Outage { host: Node(host), from, until, kind }).to_vec();
        let (report, _, machines) = echo(&setup, &mut Heap4::new());
        lost += report.counts.records_lost;
        kept += machines.iter().flatten().map(|echo| echo.strays.min(1)).sum::<u64>();
        assert_eq!(report.ended, Ended::Answered);
    }
    assert!(lost > 0 && kept > 0, "{lost} records lost, {kept} nodes replayed some");
}

#[test]
fn a_node_that_stays_down_is_gone_and_its_clients_go_elsewhere() {
    let mut setup = setup(0);
    let kind = OutageKind::Crash;
    let from = Instant::from_ns(500_000_000);
    setup.faults.outages.push(Outage { host: Node(1), from, until: Instant::NEVER, kind });
    let (report, clients, machines) = echo(&setup, &mut Heap4::new());
    assert!(machines[1].is_none());
    // Every echo needs all nodes, so nothing is answered any more, and the run says so.
    assert_eq!(report.ended, Ended::Time);
    assert!(clients.unknown > 0 && report.counts.retries > 0);
}

#[test]
fn jitter_is_even_and_clipped_at_zero() {
    let mut setup = setup(0);
    for link in &mut setup.links {
        link.jitter = Jitter::Even(Span::from_ms(80));
    }
    let (report, clients, _) = echo(&setup, &mut Heap4::new());
    assert_eq!(report.ended, Ended::Answered);
    let mean =
        clients.took.iter().map(|span| span.as_us()).sum::<f64>() / clients.took.len() as f64;
    // The slowest of five round trips of two jittered ways each: well above two means.
    assert!((110_000.0..400_000.0).contains(&mean), "{mean}");
}

#[test]
fn impossible_setups_are_refused_in_words() {
    let mut wrong = setup(0);
    wrong.links.pop();
    assert_eq!(wrong.check(), Err(SetupError::Links { sites: 3, links: 8 }));
    let mut wrong = setup(0);
    wrong.nodes[4] = Site(3);
    let said = wrong.check().expect_err("nowhere").to_string();
    assert_eq!(said, "node 4 is at site 3, nowhere");
    let mut wrong = setup(2);
    wrong.faults.outages[0].until = wrong.faults.outages[0].from;
    let said = wrong.check().expect_err("backward").to_string();
    assert_eq!(said, "an outage of node 0 of 6 must end after it begins");
}

/// Tells everybody something each 10 ms; whoever hears it does some work, which takes no time.
struct Crier {
    everybody: Vec<Node>,
    me: Node,
    heard: u64,
}

impl Talker for Crier {
    type Protocol = Echoes;
    fn members(&self, (): ()) -> &[Node] {
        &self.everybody
    }
}

impl Machine for Crier {
    type Input = Input<Echoes>;
    type Effect = Effect<Echoes>;
    type Timer = u8;

    fn effects_max(&self) -> usize {
        4
    }
    fn start(&mut self, cx: &mut Cx<'_, Effect<Echoes>, u8>) {
        cx.arm(0, cx.now() + Span::from_ms(10));
    }
    fn handle(&mut self, input: Input<Echoes>, cx: &mut Cx<'_, Effect<Echoes>, u8>) {
        match input {
            Input::Rx { from, .. } => {
                self.heard += 1;
                let job = u64::from(from.0);
                cx.emit(Effect::Work { work: Work(self.heard), job });
            }
            Input::Call { call, request } => {
                cx.emit(Effect::Reply { call, response: request });
            }
            _ => {}
        }
    }
    fn expire(&mut self, timer: u8, cx: &mut Cx<'_, Effect<Echoes>, u8>) {
        let message = Word::Ping(u64::from(self.me.0));
        cx.emit(Effect::Cast { to: (), via: Via::Channel, message });
        cx.arm(timer, cx.now() + Span::from_ms(10));
    }
}

fn cry(setup: &Setup) -> Report {
    let parts = Parts {
        clients: &mut Askers::new(6, setup.seed),
        hardware: &mut Unmetered,
        pending: &mut Heap4::new(),
        observer: &mut Unobserved,
    };
    let everybody: Vec<Node> = (0..6).map(Node).collect();
    run(setup, |me| Crier { everybody: everybody.clone(), me, heard: 0 }, parts).0
}

/// Where nothing can fail, a message to many is one entry of the queue of events. A rule that never
/// applies takes that away, and nothing may change: not even that what ends in an instant comes
/// before the next arrival of that instant.
#[test]
fn what_arrives_together_is_heard_as_if_it_came_alone() {
    for number in [0, 1] {
        let together = setup(number);
        let mut alone = together.clone();
        let never = Which { since: Instant::NEVER, ..Which::any() };
        alone.faults.rules.push(Rule { which: never, what: What::Down });
        let both = [&together, &alone].map(cry);
        assert_eq!(both[0], both[1]);
        assert!(both[0].counts.messages > 5_000, "{:?}", both[0].counts);
    }
}
