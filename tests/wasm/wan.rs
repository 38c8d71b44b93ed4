//! Golden runs of the wide-area world, on a machine that lets every promise of its family happen:
//! it stores a call, asks all others, does some work, and answers.
//!
//! Included by `crates/lab/tests/wan.rs` and by the package `cavy-wasm-check`.

use cavy_core::family::Node;
use cavy_core::family::message::{
    Call, Effect, Entry, Input, Message, Protocol, Talker, Via, Work,
};
use cavy_core::{Cx, Instant, Machine, Purpose, Ratio, Span, Stream};
use cavy_lab::net::{Outage, OutageKind, Rate, What};
use cavy_lab::pending::Pending;
use cavy_lab::wan::{
    Ask, Clients, Clock, ClockStep, End, Ending, Faults, Hardware, Jitter, Parts, Processors,
    Report, Rule, Setup, Site, Unobserved, Which, run,
};
use std::collections::BTreeMap;

/// The types of [`Echo`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Echoes;

/// What is said.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Word {
    /// Say it back.
    Ping(u64),
    /// Said back.
    Pong(u64),
}

impl Message for Word {
    fn wire_bytes(&self) -> u64 {
        100
    }
}

impl Protocol for Echoes {
    type Message = Word;
    type Request = Word;
    type Response = Word;
    type Record = Word;
    type Job = u64;
    type Group = ();
    type Note = u64;
}

/// The machine.
pub struct Echo {
    everybody: Vec<Node>,
    me: Node,
    appended: u64,
    waiting: BTreeMap<u64, Waiting>,
    /// Pongs heard as datagrams, and calls remembered from before a crash.
    pub strays: u64,
}

struct Waiting {
    call: Call,
    missing: Vec<Node>,
    asked: bool,
}

impl Echo {
    /// The machine of `me` among `nodes`.
    pub fn new(nodes: u32, me: Node) -> Echo {
        let everybody = (0..nodes).map(Node).collect();
        Echo { everybody, me, appended: 0, waiting: BTreeMap::new(), strays: 0 }
    }
}

impl Talker for Echo {
    type Protocol = Echoes;
    fn members(&self, (): ()) -> &[Node] {
        &self.everybody
    }
}

impl Machine for Echo {
    type Input = Input<Echoes>;
    type Effect = Effect<Echoes>;
    type Timer = u8;

    fn effects_max(&self) -> usize {
        64
    }

    fn start(&mut self, cx: &mut Cx<'_, Effect<Echoes>, u8>) {
        cx.arm(0, cx.now() + Span::from_ms(10));
    }

    fn handle(&mut self, input: Input<Echoes>, cx: &mut Cx<'_, Effect<Echoes>, u8>) {
        match input {
            Input::Call { call, request } => {
                self.appended += 1;
                let missing = self.everybody.iter().copied().filter(|n| *n != self.me).collect();
                self.waiting.insert(self.appended, Waiting { call, missing, asked: false });
                cx.emit(Effect::Store { entry: Entry(self.appended), record: request });
            }
            Input::Stored { upto } => {
                for (&entry, waiting) in self.waiting.range_mut(..=upto.0).rev().take(8) {
                    if !waiting.asked {
                        waiting.asked = true;
                        let message = Word::Ping(entry);
                        cx.emit(Effect::Cast { to: (), via: Via::Channel, message });
                    }
                }
            }
            Input::Rx { from, via, message: Word::Ping(entry), .. } => {
                cx.emit(Effect::Send { to: from, via, message: Word::Pong(entry) });
            }
            Input::Rx { from, via: Via::Channel, message: Word::Pong(entry), .. } => {
                let Some(waiting) = self.waiting.get_mut(&entry) else { return };
                waiting.missing.retain(|node| *node != from);
                if waiting.missing.is_empty() {
                    cx.emit(Effect::Work { work: Work(entry), job: entry });
                }
            }
            Input::Rx { .. } => self.strays += 1,
            Input::Broken { peer } => {
                let again = self.waiting.iter().filter(|(_, w)| w.missing.contains(&peer));
                for (&entry, _) in again.take(32) {
                    let message = Word::Ping(entry);
                    cx.emit(Effect::Send { to: peer, via: Via::Channel, message });
                }
            }
            Input::Replay { entry, .. } => {
                self.appended = entry.0;
                self.strays += 1;
            }
            Input::Recovered { torn } => cx.emit(Effect::Note(u64::from(torn))),
            Input::WorkDone { work, finished, .. } => {
                let Some(waiting) = self.waiting.remove(&work.0) else { return };
                if finished {
                    let (call, response) = (waiting.call, Word::Pong(work.0));
                    cx.emit(Effect::Reply { call, response });
                    cx.emit(Effect::Trim { upto: Entry(work.0.saturating_sub(20)) });
                }
            }
        }
    }

    fn expire(&mut self, timer: u8, cx: &mut Cx<'_, Effect<Echoes>, u8>) {
        let to = self.everybody[cx.rng().below(self.everybody.len() as u64) as usize];
        if to != self.me {
            let message = Word::Ping(cx.wall().as_ns());
            cx.emit(Effect::Send { to, via: Via::Datagram, message });
        }
        cx.arm(timer, cx.now() + Span::from_ms(10));
    }
}

/// Closed clients, one a node, that ask until the end.
pub struct Askers {
    draws: Stream,
    nodes: u32,
    /// Latencies of what was answered.
    pub took: Vec<Span>,
    /// Requests without an answer in the end.
    pub unknown: u32,
}

impl Askers {
    /// One for each of `nodes`.
    pub fn new(nodes: u32, seed: u64) -> Askers {
        let draws = Stream::keyed(seed, 0, Purpose::Arrivals);
        Askers { draws, nodes, took: Vec::new(), unknown: 0 }
    }
}

impl Clients<Echoes> for Askers {
    fn count(&self) -> u32 {
        self.nodes
    }
    fn next(&mut self, client: u32, now: Instant) -> Option<(Instant, Word)> {
        let gap = Span::from_us(self.draws.below(5_000));
        Some((now + gap, Word::Ping(u64::from(client))))
    }
    fn target(&mut self, client: u32, _: &Word, attempt: u32) -> Node {
        Node((client + attempt) % self.nodes)
    }
    fn site(&self, client: u32) -> Option<Site> {
        Some(Site((client / 2) as u16))
    }
    fn patience(&self, _: u32, _: u32) -> Option<Span> {
        Some(Span::from_ms(400))
    }
    fn ended(&mut self, ask: &Ask<Echoes>, now: Instant, ending: Ending<Word>) {
        match ending {
            Ending::Answered(_) => self.took.push(now.since(ask.since)),
            Ending::Unknown => self.unknown += 1,
        }
    }
}

/// A message takes 10 us, a job 300 us on one of two processors.
pub struct Slow;

impl Hardware<Echoes> for Slow {
    fn handling(&mut self, _: Node, _: &Input<Echoes>) -> Span {
        Span::from_us(10)
    }
    fn work(&mut self, _: Node, _: &u64) -> Span {
        Span::from_us(300)
    }
    fn processors(&mut self, _: Node) -> Processors {
        Processors::in_order(2)
    }
}

/// Six nodes in three regions; the second of jitter, the third of everything that can go wrong.
pub fn setup(number: u32) -> Setup {
    let (inside, across) = (Span::from_us(2_500), Span::from_ms(50));
    let mut setup = Setup::regions(3, 2, inside, across);
    setup.seed = 0xEC40;
    setup.check = true;
    setup.duration = Span::from_ms(3_000);
    if number >= 1 {
        for link in &mut setup.links {
            link.jitter = Jitter::Even(Span::from_ns(link.one_way.as_ns() / 2));
        }
        setup.links[1].jitter = Jitter::Exponential { mean: Span::from_ms(3) };
    }
    if number >= 2 {
        let at = |ms: u64| Instant::from_ns(ms * 1_000_000);
        let ratio = Ratio { num: 1, den: 20 };
        let mut faults = Faults::loss(ratio);
        faults.cut_off(Site(1), at(700), at(900));
        faults.rules.rotate_left(1);
        let copies = What::Duplicate { ratio, after: Span::from_ms(7) };
        let which =
            Which { via: Some(Via::Datagram), ..Which::between(End::At(Site(0)), End::Any) };
        faults.rules.insert(0, Rule { which, what: copies });
        let outage = |host, from, until, kind| Outage {
            host: Node(host),
            from: at(from),
            until: at(until),
            kind,
        };
        faults.outages = vec![
            outage(0, 1_200, 1_500, OutageKind::Crash),
            outage(3, 1_300, 1_450, OutageKind::Freeze),
            outage(5, 1_400, 1_401, OutageKind::Crash),
        ];
        faults.steps = vec![ClockStep { node: Node(2), at: at(500), by_ns: -3_000_000_000 }];
        setup.faults = faults;
        setup.clocks = vec![Clock { drift_ppb: 50_000, offset_ns: 1_000, steps: Vec::new() }];
        setup.card = Rate::new(10_000_000);
        setup.links[2].rate = Rate::new(5_000_000);
        setup.patience = Span::from_ms(150);
        setup.disk.sync = Span::from_ms(60);
        setup.disk.spread = Span::from_ms(2);
    }
    setup
}

/// One run of `setup`.
pub fn echo<P: Pending>(setup: &Setup, pending: &mut P) -> (Report, Askers, Vec<Option<Echo>>) {
    let mut clients = Askers::new(6, setup.seed);
    let parts =
        Parts { clients: &mut clients, hardware: &mut Slow, pending, observer: &mut Unobserved };
    let (report, machines) = run(setup, |node| Echo::new(6, node), parts);
    (report, clients, machines)
}

/// The digest of each of the three.
pub const WAN: [(&str, u64); 3] = [
    ("echoes across regions", 0xC30C_35DC_AE64_4F9A),
    ("echoes with jitter", 0xC76F_7D14_7295_4F06),
    ("echoes with every fault", 0x2998_5685_4186_2CE8),
];
