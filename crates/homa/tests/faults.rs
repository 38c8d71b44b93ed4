//! Thousands of seeds of a network that loses, doubles and reorders packets. Every message is
//! delivered once or reported failed, and nothing is left over. Machines with planted bugs show
//! that these oracles can fail.

use cavy_core::family::Node;
use cavy_core::family::packet::{Effect, Input, Message};
use cavy_core::laws::packet::{Ledger, Links, Network, Weather};
use cavy_core::{Cx, Instant, Machine, Packet, Purpose, Room, Span, Stream, Transmit};
use cavy_homa::packet::{Header, Kind};
use cavy_homa::{Config, Cutoffs, Homa, Timer, Why};
use std::panic::{AssertUnwindSafe, catch_unwind};

const HOSTS: u32 = 3;

/// Short packets and ticks: much happens with few events.
fn quick(config: Config) -> Config {
    let mut config = config;
    config.unscheduled_packet_bytes = 100;
    config.scheduled_packet_bytes = 100;
    config.unscheduled_bytes = 500;
    if let Some(recovery) = config.recovery.as_mut() {
        recovery.tick = Span::from_us(30);
        recovery.resend_guard = recovery.resend_guard.min(Span::from_us(30));
        recovery.timeout_ticks = 300;
        recovery.remember_ticks = recovery.remember_ticks.saturating_mul(4);
    }
    config.granting = match config.granting {
        cavy_homa::config::Granting::Arrivals { overcommit, .. } => {
            cavy_homa::config::Granting::Arrivals {
                overcommit,
                window_bytes: 500,
                increment_bytes: 100,
                incoming_max_bytes: 2_000,
            }
        }
        cavy_homa::config::Granting::Windows { overcommit, .. } => {
            cavy_homa::config::Granting::Windows {
                overcommit,
                window_bytes: 0,
                incoming_max_bytes: 4_000,
                increment_bytes: 100,
            }
        }
        other => other,
    };
    config
}

fn variants() -> Vec<(&'static str, Config)> {
    let cutoffs = Cutoffs::new(8, &[80, 300, 450]).expect("ascending");
    let spaced = Config {
        granting: Config::simulator(cutoffs, 2).granting,
        ..Config::cavy(cutoffs, 2, 8_000_000_000, 10_000)
    };
    let mut spaced = quick(spaced);
    if let cavy_homa::config::Granting::Spaced { window_wire_bytes, .. } = &mut spaced.granting {
        *window_wire_bytes = 800;
    }
    let plain = quick(Config::cavy(cutoffs, 2, 8_000_000_000, 10_000));
    let beyond = Config {
        quick: Some(cavy_homa::config::Quick { rtt: Span::from_us(6), round_trips: 5 }),
        informed: Some(cavy_homa::config::Informed { backlog_min: 1, spared_bytes: 0 }),
        learning: Some(cavy_homa::config::Learning {
            interval: Span::from_us(50),
            messages_min: 2,
            bytes_min: u64::MAX,
            keep_per_mille: 500,
            memory_bytes: 20_000,
            publish: cavy_homa::config::Publish::Imbalance { per_mille: 100 },
        }),
        order: cavy_homa::config::Order::Aged { credit_per_mille: 50, floor_bytes: 500 },
        incast: Some(cavy_homa::config::Incast {
            threshold: 2,
            marked_bytes: 100,
            automatic: true,
        }),
        ..plain
    };
    vec![
        ("LX", quick(Config::linux())),
        ("beyond the source", beyond),
        ("cavy", quick(Config::cavy(cutoffs, 2, 8_000_000_000, 10_000))),
        ("RC", quick(Config::ramcloud(cutoffs, 2))),
        ("SIM grants with recovery", spaced),
        ("Basic", quick(Config::basic())),
    ]
}

/// What one run amounted to.
#[derive(Default, Debug)]
struct Outcome {
    failed: u64,
    spurious: u64,
    resends: u64,
    restarts: u64,
}

fn run(config: &Config, seed: u64, lost: u64, bug: Bug) -> Outcome {
    let patient = |_| Patient { homa: Homa::new(config).expect("legal"), bug };
    let hosts = (0..HOSTS).map(patient).collect();
    let mut network: Network<Patient, _> = Network::new(hosts, Ledger::default(), seed);
    network.links = Links { bits_per_s: 4_000_000_000, delay: Span::from_us(1) };
    network.application.serve = Span::from_us(1);
    network.application.repeats = config.forget_answers;
    network.weather = Weather {
        lost,
        doubled: 50,
        delayed: 200,
        delay: Span::from_us(40),
        until: Instant::ZERO + Span::from_ms(3),
        outages: Vec::new(),
    };
    let mut draws = Stream::keyed(seed, 0, Purpose::Test);
    let mut messages = Vec::new();
    for n in 0..12u64 {
        let from = draws.below(HOSTS.into()) as u32;
        let to = (from + 1 + draws.below(u64::from(HOSTS) - 1) as u32) % HOSTS;
        let most = [90, 600, 3_000][draws.below(3) as usize];
        let size = 1 + draws.below(most) as u32;
        let asks = draws.below(3) != 0;
        let at = Instant::from_ns(draws.below(300_000));
        network.submit(at, (from, to), 2 * n, size, asks.then_some(size));
        messages.push((from, to, Message(2 * n), asks));
    }
    network.run(Instant::ZERO + Span::from_ms(400));
    let mut outcome = Outcome::default();
    for (from, to, message, asks) in messages {
        let fate = network.fate(from, to, message);
        let arrived = match asks {
            true => answered(&network, from, to, message),
            false => fate.delivered > 0,
        };
        let failed = fate.failed_at_sender > 0;
        assert!(arrived || failed, "{message:?} of {from} vanished: {fate:?}");
        assert!(!(asks && arrived && failed), "{message:?} arrived and failed");
        assert_eq!(fate.released, 1, "{message:?} of {from} was not released: {fate:?}");
        outcome.failed += u64::from(failed);
    }
    for node in 0..HOSTS {
        let machine = &network.machine(node).homa;
        assert_eq!(machine.exchange_count(), 0, "host {node}: exchanges left over");
        assert_eq!(machine.incoming_bytes() + machine.backlog_bytes(), 0, "host {node}");
        let counters = machine.counters();
        assert_eq!(counters.malformed, 0, "host {node}: {counters:?}");
        outcome.spurious += counters.spurious_resends;
        outcome.resends += counters.resends_sent;
        outcome.restarts += counters.restarts;
    }
    assert_eq!(network.armed(), 0, "timers left over");
    outcome
}

/// Was the question answered? Where its server never got it, there is no answer to speak of.
fn answered(network: &Network<Patient, Ledger<Why>>, asker: u32, to: u32, asked: Message) -> bool {
    let name = (Node(to), Node(asker), asked.answer());
    network.application.fates.get(&name).is_some_and(|fate| fate.delivered > 0)
}

/// Homa as it is, or with one bug.
struct Patient {
    homa: Homa,
    bug: Bug,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bug {
    None,
    /// RESENDs never leave.
    NoResend,
    /// Whoever gets DATA for the second time delivers again.
    NoDuplicateDetection,
    /// What is sent again is one byte short.
    ShortResend,
    /// Acknowledgements never leave.
    NoAck,
    /// The end of a tick is forgotten.
    NoTick,
}

impl Machine for Patient {
    type Input = Input<Header>;
    type Effect = Effect<Why>;
    type Timer = Timer;

    fn effects_max(&self) -> usize {
        self.homa.effects_max() + 1
    }
    fn start(&mut self, cx: &mut Cx<'_, Effect<Why>, Timer>) {
        self.homa.start(cx);
    }
    fn handle(&mut self, input: Input<Header>, cx: &mut Cx<'_, Effect<Why>, Timer>) {
        let before = self.homa.counters().duplicates;
        self.homa.handle(input, cx);
        if self.bug == Bug::NoDuplicateDetection
            && self.homa.counters().duplicates > before
            && let Input::Rx { from, payload, .. } = input
        {
            cx.emit(Effect::Place { from, extent: payload });
        }
    }
    fn expire(&mut self, timer: Timer, cx: &mut Cx<'_, Effect<Why>, Timer>) {
        if self.bug != Bug::NoTick {
            self.homa.expire(timer, cx);
        }
    }
    fn check(&self) {
        self.homa.check();
    }
}

impl Transmit for Patient {
    type Header = Header;
    fn pull(&mut self, room: Room, cx: &mut Cx<'_, Effect<Why>, Timer>) -> Option<Packet<Header>> {
        let mut packet = self.homa.pull(room, cx)?;
        match (self.bug, &packet.header.kind) {
            (Bug::NoResend, Kind::Resend { .. }) | (Bug::NoAck, Kind::Ack(_)) => {
                return self.pull(room, cx);
            }
            (Bug::ShortResend, Kind::Data(data))
                if data.flags.has(cavy_homa::packet::Flags::RETRANSMIT) =>
            {
                packet.payload.length_bytes -= 1;
                if packet.payload.length_bytes == 0 {
                    return self.pull(room, cx);
                }
            }
            _ => {}
        }
        Some(packet)
    }
}

fn seeds(name: &str, config: &Config, lost: u64, count: u64) -> Outcome {
    let mut total = Outcome::default();
    for seed in 0..count {
        let result = catch_unwind(AssertUnwindSafe(|| run(config, seed, lost, Bug::None)));
        let outcome = result.unwrap_or_else(|_| panic!("{name}, lost {lost}, seed {seed}"));
        total.failed += outcome.failed;
        total.spurious += outcome.spurious;
        total.resends += outcome.resends;
        total.restarts += outcome.restarts;
    }
    total
}

#[test]
fn every_message_is_delivered_once_or_reported_failed() {
    for (name, config) in variants() {
        for (lost, count) in [(0, 150), (50, 250), (300, 250)] {
            let total = seeds(name, &config, lost, count);
            println!("{name}, {lost} of 1000 lost: {count} seeds, {total:?}");
            assert_eq!(total.failed, 0, "{name}: losses stopped long before the timeout");
            assert!(lost == 0 || total.resends > 100, "{name}: nothing was repaired");
        }
    }
}

#[test]
fn the_oracles_catch_planted_bugs() {
    let config = variants()[2].1;
    let caught = |bug: Bug| {
        std::panic::set_hook(Box::new(|_| {}));
        let caught = (0..60).filter(|&seed| {
            let result = catch_unwind(AssertUnwindSafe(|| run(&config, seed, 100, bug)));
            result.map_or(true, |outcome| outcome.failed > 0)
        });
        let caught = caught.count();
        let _ = std::panic::take_hook();
        caught
    };
    assert_eq!(caught(Bug::None), 0);
    for bug in [Bug::NoResend, Bug::NoDuplicateDetection, Bug::ShortResend, Bug::NoAck, Bug::NoTick]
    {
        let seeds = caught(bug);
        println!("{bug:?}: caught by {seeds} of 60 seeds");
        assert!(seeds > 0, "{bug:?} went unnoticed");
    }
}
