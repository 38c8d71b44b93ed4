//! Edge cases of [incast 2.14] that no script says: who goes first of two timers of one instant,
//! what happens before the card asks for packets, and a clock that stands still or steps back.

use cavy_core::family::Node;
use cavy_core::family::packet::{Extent, Message, Seen};
use cavy_core::family::stream::{Connection, Effect, Input};
use cavy_core::laws::packet::Stage;
use cavy_core::{Instant, Span};
use cavy_tcp::{Config, Counts, Flags, Rack, RtoConfig, Segment, Stack, Why};

const MSS: u32 = 1_460;
const NOTHING: Extent = Extent { message: Message(0), offset_bytes: 0, length_bytes: 0 };

/// A connection that was opened within a round trip of 10 ms, so that its timeout is 30 ms.
struct Talk {
    stage: Stage<Stack>,
    connection: Connection,
    port: u16,
    /// Our first octet.
    first: u32,
}

impl Talk {
    fn open(config: Config) -> Talk {
        let stack = Stack::new(config).expect("a legal configuration");
        let mut stage = Stage::new(stack, Instant::from_ns(1_000_000), 1);
        stage.input(Input::Open { ticket: 1, to: Node(1), port: 80 });
        let syn = stage.pull().expect("a SYN").header;
        stage.now += Span::from_ms(10);
        let (port, first) = (syn.source, syn.seq.wrapping_add(1));
        let mut answer = Segment::new(80, port, 5_000, Flags::SYN.with(Flags::ACK));
        (answer.ack, answer.window) = (first, 65_535);
        (answer.mss, answer.sack_permitted) = (Some(MSS as u16), true);
        stage.receive(1, answer, NOTHING, Seen::default());
        stage.pull_all();
        let opened = |effect: &Effect<Why>| match effect {
            Effect::Opened { connection, .. } => Some(*connection),
            _ => None,
        };
        let connection = stage.effects.iter().find_map(opened).expect("it is open");
        Talk { stage, connection, port, first }
    }

    fn write(&mut self, bytes: u32) {
        let (connection, bytes) = (self.connection, u64::from(bytes));
        self.stage.input(Input::Write { connection, bytes, whole: false });
    }

    /// The peer has our octets up to here, and those of a block above.
    fn acknowledge(&mut self, to: u32, block: Option<(u32, u32)>) {
        let mut segment = Segment::new(80, self.port, 5_001, Flags::ACK);
        (segment.ack, segment.window) = (self.first.wrapping_add(to), 65_535);
        if let Some((left, right)) = block {
            segment.sacks.push(self.first.wrapping_add(left), self.first.wrapping_add(right));
        }
        self.stage.receive(1, segment, NOTHING, Seen::default());
    }

    /// Where the segments begin that are sent now.
    fn sent(&mut self) -> Vec<u32> {
        let first = self.first;
        let all = self.stage.pull_all().into_iter();
        all.map(|packet| packet.header.seq.wrapping_sub(first)).collect()
    }

    fn counts(&self) -> Counts {
        *self.stage.machine.counts()
    }
}

/// Losses by time, as fine as the clock, with or without probes, and a greatest timeout.
fn racked(probe: bool, most: Span) -> Config {
    let rto = RtoConfig { max: most, ..RtoConfig::FINE };
    Config { rack: Some(Rack { probe, ..Rack::FINE }), ..Config::reference(rto) }
}

#[test]
fn incast_2_14_of_two_timers_a_probe_goes_first_and_puts_the_timeout_off() {
    // Two round trips are 20 ms, and so is the timeout.
    let mut talk = Talk::open(racked(true, Span::from_ms(20)));
    talk.write(2 * MSS);
    assert_eq!(talk.sent(), [0, MSS]);
    talk.stage.wait(Span::from_ms(20));
    assert_eq!(talk.sent(), [MSS], "the last one again, and the window is not shut");
    assert_eq!((talk.counts().probes, talk.counts().timeouts()), (1, 0));
    talk.stage.wait(Span::from_ms(20));
    assert_eq!(talk.sent(), [0], "and then the timer");
    assert_eq!((talk.counts().probes, talk.counts().timeouts()), (1, 1));
}

#[test]
fn incast_2_14_of_two_timers_disorder_goes_first() {
    // The last of four arrives: a quarter of a round trip later the others are lost, and the
    // timeout is due in that very nanosecond.
    let slack = Rack::FINE.slack;
    let both = Span::from_us(12_500) + slack;
    let mut talk = Talk::open(racked(false, both));
    talk.write(3 * MSS);
    assert_eq!(talk.sent(), [0, MSS, 2 * MSS]);
    talk.stage.wait(Span::from_ms(10));
    talk.acknowledge(0, Some((2 * MSS, 3 * MSS)));
    assert_eq!(talk.sent(), [], "perhaps they come late");
    talk.stage.wait(Span::from_us(2_500) + slack);
    assert_eq!(talk.sent(), [0], "the timeout shuts the window of the repair");
    assert_eq!((talk.counts().fast_recoveries, talk.counts().timeouts()), (1, 1));
    assert_eq!(talk.counts().timeouts_silent, 0);
}

#[test]
fn incast_2_14_a_timeout_before_a_repetition_left_does_not_send_it_twice() {
    let mut talk = Talk::open(Config::reference(RtoConfig::FINE));
    talk.write(MSS);
    assert_eq!(talk.sent(), [0]);
    // The card is busy: nobody asks for the repetition until the next timer has run out.
    assert!(talk.stage.expire_next());
    let first = talk.stage.now;
    assert!(talk.stage.expire_next());
    let second = talk.stage.now.since(first);
    assert_eq!(second, Span::from_ms(60), "doubled all the same");
    assert_eq!(talk.sent(), [0], "one repetition");
    assert_eq!((talk.counts().timeouts(), talk.counts().retransmitted), (2, 1));
    talk.acknowledge(MSS, None);
    assert_eq!(talk.sent(), []);
    assert!(talk.stage.timers.is_empty(), "{:?}", talk.stage.timers);
}

/// Live, a packet is stamped when it is read, and a thread that writes may hold the machine then:
/// so an arrival may be some microseconds before what was done last.
#[test]
fn incast_2_14_a_clock_that_stands_still_or_steps_back_spoils_nothing() {
    for back in [Span::ZERO, Span::from_us(50), Span::from_ms(5)] {
        let mut talk = Talk::open(racked(true, Span::from_ms(60_000)));
        talk.write(2 * MSS);
        assert_eq!(talk.sent(), [0, MSS]);
        let before = talk.stage.now;
        talk.stage.now = Instant::from_ns(before.as_ns() - back.as_ns());
        talk.acknowledge(MSS, None);
        talk.stage.now = before;
        talk.write(MSS);
        assert_eq!(talk.sent(), [2 * MSS]);
        // A round trip of nothing is none: the timeout stays above its granularity, and what is
        // not answered is repeated.
        let mut sent = Vec::new();
        while sent.is_empty() {
            assert!(talk.stage.expire_next(), "stuck at {back}");
            sent = talk.sent();
        }
        let waited = talk.stage.now.since(before);
        assert!((Span::from_ms(5)..Span::from_ms(60)).contains(&waited), "{waited} at {back}");
        assert_eq!(sent, [2 * MSS], "the probe");
        talk.acknowledge(3 * MSS, None);
        assert_eq!(talk.sent(), []);
    }
}
