//! The laws of the seam, on one Homa among scripted peers that do all that peers may and some of
//! what they may not, and law 8 on several in a loop.

use cavy_core::family::Node;
use cavy_core::family::packet::{Effect, Extent, Input, Message, Seen};
use cavy_core::laws::{Environment, Punctuality, Rig, hold, pull_means_sending_only};
use cavy_core::{Cx, Instant, Machine, Out, Outbox, Packet, Purpose, Room, Span, Stream, Transmit};
use cavy_homa::config::{Quick, Recovery};
use cavy_homa::packet::{ALL_SENT, Acks, Data, Flags, Header, Kind, Published, Refusal};
use cavy_homa::{Config, Cutoffs, Homa, Timer, Why};
use std::collections::VecDeque;

fn variants() -> Vec<(&'static str, Config)> {
    let w3 = Cutoffs::new(8, &[469, 5521, 15267]).expect("ascending");
    let cavy = Config::cavy(w3, 4, 10_000_000_000, 10_000);
    vec![
        ("SIM", Config::simulator(w3, 4)),
        ("RC", Config::ramcloud(w3, 4)),
        ("LX", Config::linux()),
        ("cavy", cavy),
        ("quick", Config { quick: Some(Quick { rtt: Span::from_us(10), round_trips: 5 }), ..cavy }),
        ("Basic", Config::basic()),
    ]
}

/// A machine that is asked for its packets after each step, as worlds do: what it sends comes back
/// to haunt it as what its peers know of it.
struct Pulled {
    homa: Homa,
    sent: VecDeque<Packet<Header>>,
}

impl Machine for Pulled {
    type Input = Input<Header>;
    type Effect = Effect<Why>;
    type Timer = Timer;
    fn effects_max(&self) -> usize {
        self.homa.effects_max() + 16
    }
    fn start(&mut self, cx: &mut Cx<'_, Effect<Why>, Timer>) {
        self.homa.start(cx);
    }
    fn handle(&mut self, input: Input<Header>, cx: &mut Cx<'_, Effect<Why>, Timer>) {
        self.homa.handle(input, cx);
        self.pull_some(cx);
    }
    fn expire(&mut self, timer: Timer, cx: &mut Cx<'_, Effect<Why>, Timer>) {
        self.homa.expire(timer, cx);
        self.pull_some(cx);
    }
    fn check(&self) {
        self.homa.check();
    }
}

impl Pulled {
    fn pull_some(&mut self, cx: &mut Cx<'_, Effect<Why>, Timer>) {
        for _ in 0..4 {
            let room = Room { packets: 1, bytes: 1_500 };
            let Some(packet) = self.homa.pull(room, cx) else { return };
            self.sent.push_back(packet);
            self.sent.truncate(64);
        }
    }
}

/// Peers that send whatever comes to mind, most of it sensible.
struct Peers {
    config: Config,
    draws: Stream,
    next: u64,
    inputs: u32,
    delivered: u64,
}

impl Peers {
    fn name(&mut self) -> u64 {
        self.draws.below(40)
    }

    fn packet(&mut self) -> Input<Header> {
        let from = Node(1 + self.draws.below(4) as u32);
        let length = [90, 700, 30_000][self.draws.below(3) as usize];
        let offset = self.draws.below(u64::from(length)) as u32 / 100 * 100;
        let bytes = (length - offset).min(1 + self.draws.below(1_500) as u32);
        let mut payload_bytes = 0;
        let kind = match self.draws.below(13) {
            0 => Kind::Grant { offset_bytes: self.draws.bits() as u32 % 40_000, priority: 3 },
            1 => Kind::Resend { offset_bytes: offset, length_bytes: bytes, priority: 200 },
            2 => Kind::Resend { offset_bytes: 0, length_bytes: ALL_SENT, priority: 7 },
            3 => Kind::Busy,
            4 => Kind::Unknown,
            5 => Kind::NeedAck,
            6 => Kind::Ack(Acks([2, -4, 0, i32::MIN])),
            8 => Kind::Refused(Refusal::Overloaded),
            7 => Kind::Cutoffs(Published::new(&self.config.own_cutoffs, 3)),
            _ => {
                payload_bytes = bytes;
                let incoming = self.draws.below(60_000) as u32;
                let flags = Flags(self.draws.below(16) as u8);
                Kind::Data(Data {
                    message_bytes: length,
                    incoming_bytes: incoming,
                    ack: self.draws.below(9) as i32 - 4,
                    cutoffs_version: self.draws.below(3) as u16,
                    backlog: 0,
                    flags,
                })
            }
        };
        let header = Header { layout: self.config.layout, kind };
        let message = Message(self.name());
        let offset_bytes = if payload_bytes > 0 { offset } else { 0 };
        let payload = Extent { message, offset_bytes, length_bytes: payload_bytes };
        let seen = Seen { trimmed: self.draws.below(30) == 0, marked: false };
        Input::Rx { from, header, payload, seen }
    }
}

impl Environment for Peers {
    type Machine = Pulled;

    fn machine(&self) -> Pulled {
        Pulled { homa: Homa::new(&self.config).expect("legal"), sent: VecDeque::new() }
    }

    fn next_at(&mut self, now: Instant, _: &mut Stream) -> Option<Instant> {
        if self.inputs == 0 {
            return None;
        }
        if self.next == 0 {
            self.next = now.as_ns() + 1 + self.draws.below(3_000);
        }
        Some(Instant::from_ns(self.next))
    }

    fn take(&mut self, _: Instant) -> Input<Header> {
        self.next = 0;
        self.inputs -= 1;
        let to = Node(1 + self.draws.below(4) as u32);
        match self.draws.below(10) {
            0 | 1 => Input::Submit {
                to,
                message: Message(self.name()),
                length_bytes: self.draws.below(40_000) as u32,
                asks: self.draws.below(2) == 0,
            },
            2 => {
                let question = Message(self.name() & !1);
                let length_bytes = self.draws.below(5_000) as u32;
                Input::Answer { to, question, length_bytes }
            }
            3 => Input::Cancel { message: Message(self.name()) },
            _ => self.packet(),
        }
    }

    fn apply(&mut self, _: Instant, effect: &Effect<Why>) {
        self.delivered += u64::from(matches!(effect, Effect::Delivered { .. }));
    }
}

fn peers(config: &Config, seed: u64) -> Peers {
    let draws = Stream::keyed(seed, 1, Purpose::Test);
    Peers { config: *config, draws, next: 0, inputs: 3_000, delivered: 0 }
}

#[test]
fn every_variant_keeps_the_laws() {
    for (name, config) in variants() {
        for seed in 0..4 {
            println!("{name}, seed {seed}");
            hold(|| peers(&config, seed), seed, 5_000);
        }
    }
}

/// Whatever peers send, nothing lives for ever and the invariants hold (checked at each step).
#[test]
fn hostile_peers_leave_nothing_behind() {
    for (name, config) in variants().into_iter().filter(|(_, c)| c.recovery.is_some()) {
        let mut rig = Rig::new(peers(&config, 77), 77, Punctuality::Exact);
        let ends = (0..1_000_000).any(|_| rig.step().is_none());
        assert!(ends, "{name}: timers for ever");
        let homa = &rig.machine().homa;
        assert!(rig.environment().delivered > 20, "{name}");
        assert!(homa.counters().malformed > 10, "{name}: {:?}", homa.counters());
        // What is left waits for the application to answer, and for nothing else.
        assert_eq!(homa.incoming_bytes() + homa.backlog_bytes(), 0, "{name}");
        assert!(homa.exchange_count() <= 4 * 40, "{name}");
    }
}

#[test]
fn law_6_pull_means_sending_only() {
    for (name, config) in variants() {
        let mut homa = Homa::new(&config).expect("legal");
        let mut rng = Stream::keyed(1, 0, Purpose::Machine);
        let mut outbox = Outbox::with_capacity(homa.effects_max());
        let now = Instant::from_ns(5_000);
        for n in 0..5 {
            let message = Message(2 * n);
            let input = Input::Submit { to: Node(1), message, length_bytes: 4_000, asks: true };
            homa.handle(input, &mut Cx::new(now, &mut rng, &mut outbox));
            outbox.clear();
        }
        for bytes in [0, 100, 1_500] {
            let room = Room { packets: 1, bytes };
            let sent = pull_means_sending_only(&mut homa, now, room, &mut rng);
            assert!(bytes > 0 || sent.is_empty(), "{name}");
        }
        homa.check();
    }
}

/// Hosts in a loop without losses, in arrays and rings: the driver allocates nothing itself.
struct Loop {
    homas: Vec<Homa>,
    wires: Vec<VecDeque<(u32, Packet<Header>)>>,
    timers: Vec<Vec<(Timer, Instant)>>,
    outbox: Outbox<Effect<Why>, Timer>,
    answers: VecDeque<(u32, Input<Header>)>,
    rng: Stream,
    draws: Stream,
    now: Instant,
    named: u64,
    open: u64,
    delivered: u64,
    packets: u64,
}

impl Loop {
    fn new(config: &Config, hosts: usize) -> Loop {
        let homas: Vec<Homa> = (0..hosts).map(|_| Homa::new(config).expect("legal")).collect();
        Loop {
            wires: (0..hosts).map(|_| VecDeque::with_capacity(4_096)).collect(),
            timers: (0..hosts).map(|_| Vec::with_capacity(8)).collect(),
            outbox: Outbox::with_capacity(homas[0].effects_max()),
            answers: VecDeque::with_capacity(4_096),
            homas,
            rng: Stream::keyed(1, 0, Purpose::Machine),
            draws: Stream::keyed(2, 0, Purpose::Test),
            now: Instant::ZERO,
            named: 0,
            open: 0,
            delivered: 0,
            packets: 0,
        }
    }

    /// A microsecond: questions, a packet a host each way, timers.
    fn step(&mut self, most_open: u64, answers: bool) {
        self.now += Span::from_us(1);
        let hosts = self.homas.len() as u64;
        if self.open < most_open {
            let from = self.draws.below(hosts) as u32;
            let to = (from + 1 + self.draws.below(hosts - 1) as u32) % hosts as u32;
            let length_bytes =
                1 + self.draws.below([300, 3_000, 60_000][(self.named % 3) as usize]);
            let message = Message(2 * self.named);
            self.named += 1;
            self.open += 1;
            let (to, length_bytes) = (Node(to), length_bytes as u32);
            self.input(from, Input::Submit { to, message, length_bytes, asks: answers });
        }
        while let Some((node, input)) = self.answers.pop_front() {
            self.input(node, input);
        }
        for node in 0..hosts as u32 {
            if let Some((from, packet)) = self.wires[node as usize].pop_front() {
                let (header, payload, seen) = (packet.header, packet.payload, Seen::default());
                self.input(node, Input::Rx { from: Node(from), header, payload, seen });
            }
            let mut index = 0;
            while index < self.timers[node as usize].len() {
                let (timer, at) = self.timers[node as usize][index];
                if at > self.now {
                    index += 1;
                    continue;
                }
                self.timers[node as usize].swap_remove(index);
                let mut cx = Cx::new(self.now, &mut self.rng, &mut self.outbox);
                self.homas[node as usize].expire(timer, &mut cx);
                self.settle(node);
            }
            for _ in 0..2 {
                let room = Room { packets: 1, bytes: 1_500 };
                let mut cx = Cx::new(self.now, &mut self.rng, &mut self.outbox);
                let packet = self.homas[node as usize].pull(room, &mut cx);
                self.settle(node);
                if let Some(packet) = packet {
                    self.packets += 1;
                    self.wires[packet.to.0 as usize].push_back((node, packet));
                }
            }
        }
    }

    fn input(&mut self, node: u32, input: Input<Header>) {
        let mut cx = Cx::new(self.now, &mut self.rng, &mut self.outbox);
        self.homas[node as usize].handle(input, &mut cx);
        self.settle(node);
    }

    fn settle(&mut self, node: u32) {
        for out in self.outbox.drain() {
            match out {
                Out::Arm(timer, at) => {
                    let timers = &mut self.timers[node as usize];
                    timers.retain(|&(other, _)| other != timer);
                    timers.push((timer, at));
                }
                Out::Disarm(timer) => {
                    self.timers[node as usize].retain(|&(other, _)| other != timer);
                }
                Out::Effect(Effect::Delivered { from, message, length_bytes }) => {
                    self.delivered += 1;
                    let asked = self.homas[node as usize].config().answers;
                    if asked && !message.is_answer() {
                        let input = Input::Answer { to: from, question: message, length_bytes };
                        self.answers.push_back((node, input));
                    } else {
                        self.open -= 1;
                    }
                }
                Out::Effect(Effect::Failed { .. }) => self.open -= 1,
                Out::Effect(_) => {}
            }
        }
    }
}

#[test]
fn law_8_no_step_allocates_after_warm_up() {
    for (name, config) in variants() {
        let mut config = config;
        // What is remembered of finished exchanges fills once and is then full.
        config.limits.remembered = 256;
        if let Some(recovery) = config.recovery.as_mut() {
            *recovery = Recovery { tick: Span::from_ms(1), ..*recovery };
        }
        let answers = config.answers;
        let mut hosts = Loop::new(&config, 6);
        // Bursts far above what the measured stretch reaches.
        for _ in 0..40_000 {
            hosts.step(400, answers);
        }
        for _ in 0..40_000 {
            hosts.step(40, answers);
        }
        let (delivered, packets) = (hosts.delivered, hosts.packets);
        let info = allocation_counter::measure(|| {
            for _ in 0..60_000 {
                hosts.step(40, answers);
            }
        });
        println!("{name}: {} packets, {info:?}", hosts.packets - packets);
        assert_eq!(info.count_total, 0, "{name}: {info:?}");
        assert!(hosts.delivered > delivered + 1_000, "{name}: {} delivered", hosts.delivered);
    }
}
