//! The laws of the seam, on one Homa among scripted peers that do all that peers may and some of
//! what they may not, and law 8 on several in a loop.

use cavy_core::family::Node;
use cavy_core::family::packet::{Effect, Extent, Input, Message, Seen};
use cavy_core::laws::packet::{Done, Load, Served, Steady, Turn};
use cavy_core::laws::{Environment, Punctuality, Rig, hold, pull_means_sending_only};
use cavy_core::{Cx, Instant, Machine, Outbox, Purpose, Room, Span, Stream};
use cavy_homa::config::{Quick, Recovery};
use cavy_homa::packet::{ALL_SENT, Acks, Data, Flags, Header, Kind, Published, Refusal};
use cavy_homa::{Config, Cutoffs, Homa, Why};

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

/// Peers that send whatever comes to mind, most of it sensible.
struct Peers {
    config: Config,
    draws: Stream,
    next: u64,
    inputs: u32,
    /// When the port was last empty.
    empty_at: Instant,
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
    type Machine = Served<Homa>;

    fn machine(&self) -> Served<Homa> {
        Served::new(Homa::new(&self.config).expect("legal"), 1_500)
    }

    fn next_at(&mut self, now: Instant, _: &mut Stream) -> Option<Instant> {
        // As worlds do, the port asks for packets after each step.
        if self.empty_at != now {
            return Some(now);
        }
        if self.inputs == 0 {
            return None;
        }
        if self.next == 0 {
            self.next = now.as_ns() + 1 + self.draws.below(3_000);
        }
        Some(Instant::from_ns(self.next))
    }

    fn take(&mut self, now: Instant) -> Turn<Input<Header>> {
        if std::mem::replace(&mut self.empty_at, now) != now {
            return Turn::Pull(4);
        }
        self.empty_at = Instant::NEVER;
        self.next = 0;
        self.inputs -= 1;
        let to = Node(1 + self.draws.below(4) as u32);
        Turn::Input(match self.draws.below(10) {
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
        })
    }

    fn apply(&mut self, _: Instant, done: &Done<Effect<Why>, Header>) {
        match done {
            Done::Effect(effect) => {
                self.delivered += u64::from(matches!(effect, Effect::Delivered { .. }));
            }
            Done::Sent(_) => self.empty_at = Instant::NEVER,
        }
    }
}

fn peers(config: &Config, seed: u64) -> Peers {
    let draws = Stream::keyed(seed, 1, Purpose::Test);
    Peers { config: *config, draws, next: 0, inputs: 3_000, empty_at: Instant::NEVER, delivered: 0 }
}

#[test]
fn every_variant_keeps_the_laws() {
    for (name, config) in variants() {
        for seed in 0..4 {
            println!("{name}, seed {seed}");
            hold(|| peers(&config, seed), seed, 10_000);
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
        let homa = &rig.machine().machine;
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

#[test]
fn law_8_no_step_allocates_after_warm_up() {
    for (name, config) in variants() {
        let mut config = config;
        // What is remembered of finished exchanges fills once and is then full.
        config.limits.remembered = 256;
        if let Some(recovery) = config.recovery.as_mut() {
            *recovery = Recovery { tick: Span::from_ms(1), ..*recovery };
        }
        let homas = (0..6).map(|_| Homa::new(&config).expect("legal")).collect();
        let mut hosts = Steady::new(homas);
        let length_bytes = |n: u64, draws: &mut Stream| {
            1 + draws.below([300, 3_000, 60_000][(n % 3) as usize]) as u32
        };
        let asks = config.answers;
        let usual = Load { open: 40, asks, length_bytes, packets_per_us: 2, lost_every: 0 };
        // Bursts far above what the measured stretch reaches.
        let burst = Load { open: 400, ..usual };
        (0..40_000).for_each(|_| hosts.step(&burst));
        (0..40_000).for_each(|_| hosts.step(&usual));
        let (delivered, packets) = (hosts.delivered, hosts.packets);
        let info = allocation_counter::measure(|| (0..60_000).for_each(|_| hosts.step(&usual)));
        println!("{name}: {} packets, {info:?}", hosts.packets - packets);
        assert_eq!(info.count_total, 0, "{name}: {info:?}");
        assert!(hosts.delivered > delivered + 1_000, "{name}: {} delivered", hosts.delivered);
    }
}
