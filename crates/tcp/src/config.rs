//! What can be chosen ([incast 2.1], [incast 2.7], [incast 2.12]).

use crate::congestion::Congestion;
use crate::ecn::Ecn;
use crate::rack::Rack;
use crate::rto::{BackoffReset, RtoConfig};
use crate::schedule::Schedule;
use crate::undo::Undo;
use cavy_core::Span;

/// When a receiver acknowledges in-order segments ([incast 2.7]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DelayedAck {
    /// Each at once.
    Off,
    /// Every second full one at once, others after so long.
    Fixed(Span),
    /// The same, but one that fills a gap waits as well, which [incast 2.7] forbids: a habit of the
    /// reference simulator [incast 5.1].
    Lazy(Span),
    /// As Linux: the first sixteen at once, and again after disorder or a pause; else every second
    /// full one, and others after a time that follows the peer's pace between these two. A host
    /// that answers delays, since the answer may carry the acknowledgement.
    Adaptive {
        /// The least delay, 40 ms in Linux.
        least: Span,
        /// The greatest, 200 ms in Linux; a host with a short least timeout has less.
        most: Span,
    },
}

impl DelayedAck {
    /// Linux with its least timeout of 200 ms.
    pub const LINUX: DelayedAck =
        DelayedAck::Adaptive { least: Span::from_ms(40), most: Span::from_ms(200) };
}

/// Asking whether a silent peer is still there ([incast 2.12]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keepalive {
    /// Silence before the first question.
    pub idle: Span,
    /// Between questions.
    pub interval: Span,
    /// Questions without an answer after which the connection ends.
    pub probes: u8,
    /// Send an octet that the peer has already, whatever it is. Without one a peer drops the
    /// question before it looks at the timestamp, and forgets ours nevertheless [incast 0a].
    pub octet: bool,
}

impl Keepalive {
    /// Linux, where an application asks for it.
    pub const LINUX: Keepalive = Keepalive {
        idle: Span::from_ms(7_200_000),
        interval: Span::from_ms(75_000),
        probes: 9,
        octet: false,
    };
}

/// The parameters of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// The retransmission timer.
    pub rto: RtoConfig,
    /// Largest payload of a segment, 48 to 8 960 octets.
    pub mss_bytes: u16,
    /// Segments that a new connection may send unacknowledged, at least 1.
    pub initial_window: u16,
    /// Negotiate selective acknowledgements; without them recovery is NewReno's (RFC 6582).
    pub sack: bool,
    /// Without them, anything new that is acknowledged ends a recovery (Reno, RFC 2581), and what
    /// else was lost waits for its timer.
    pub reno: bool,
    /// Duplicate acknowledgements, or segments above, that say that one is lost; at least 1.
    pub dupthresh: u8,
    /// Send a new segment on each of the first two duplicates (RFC 3042).
    pub limited_transmit: bool,
    /// Double the window each round trip until the first loss. Without, it grows by a segment from
    /// the beginning, as ns-2 with a first `ssthresh_` of 1 [incast 3].
    pub slow_start: bool,
    /// Window after a pause longer than the timeout: the initial one at most (RFC 5681).
    pub idle_restart: bool,
    /// Wait with a short segment while anything is unacknowledged (Nagle).
    pub nagle: bool,
    /// How the window grows and shrinks.
    pub congestion: Congestion,
    /// Let it grow by acknowledgements of a sender that something else held back, such as the end
    /// of what it has to send: a habit of simulators, not of [incast 2.8].
    pub grows_unused: bool,
    /// A loss halves the window, where RFC 5681 halves what is under way: a habit of the reference
    /// simulator [incast 5.1]. The end of an answer leaves little under way. NewReno only.
    pub halves_window: bool,
    /// Marks of switches: whether they are asked for, and what they mean.
    pub ecn: Ecn,
    /// Spread what recovery sends over its round trip (RFC 6937).
    pub prr: bool,
    /// Find losses by time as well as by counting; needs selective acknowledgements.
    pub rack: Option<Rack>,
    /// Take back what was done for timeouts and losses that were none.
    pub undo: Undo,
    /// The tick of timestamps on the wire; `None` offers none [incast 2.6].
    pub stamps: Option<Span>,
    /// Drop segments without the timestamp that was agreed on, as RFC 7323 has it and Linux has
    /// not.
    pub strict_stamps: bool,
    /// When to acknowledge.
    pub delayed_ack: DelayedAck,
    /// What a connection keeps for its reader, 1 to 2^30 octets.
    pub receive_buffer_bytes: u32,
    /// Ask peers that are silent.
    pub keepalive: Option<Keepalive>,
    /// The least time between two answers of a connection to segments that tell nothing new
    /// (RFC 5961) [incast 2.4].
    pub challenge_interval: Span,
    /// Such answers of a host in a second, all connections together.
    pub challenges_per_s: u32,
    /// First wait before a closed window is probed, doubled up to a minute [incast 2.12].
    pub persist_min: Span,
    /// Give up after so many timeouts in a row, and not before `give_up_after`: with short timeouts
    /// a count alone would kill connections over a short outage [incast 2.12].
    pub give_up_retries: u16,
    /// The least time without progress before a connection is given up.
    pub give_up_after: Span,
    /// Unanswered SYNs after the first, 1 to 60, after which opening fails.
    pub handshake_retries: u8,
    /// How long a closed pair of ports is remembered.
    pub time_wait: Span,
    /// Servers that this host asks send in turn, so that a port holds what they send. Its buffer
    /// for readers should be below 64 KiB then: windows are exact only without a shift.
    pub schedule: Option<Schedule>,
    /// Connections at a time; more are refused.
    pub connections_max: u32,
    /// A bug that the tests are to catch; `None` everywhere else.
    #[doc(hidden)]
    pub planted: Option<Planted>,
}

/// Bugs of other stacks, which the tests plant to show that they would be caught.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// Retransmitted segments give round trips as if the first copy had been acknowledged.
    KarnIgnored,
    /// Sequence numbers are compared without regard to their wrap.
    UnsignedWrap,
    /// The right edge of the window moves left.
    EdgeRetreats,
    /// Nobody asks about a closed window.
    NoPersist,
    /// What was once reported as there is believed for ever.
    RenegingTrusted,
    /// A probe takes the place of the retransmission timer.
    ProbeWithoutTimer,
    /// The count of timeouts alone ends a connection.
    GivenUpByCount,
    /// Timeouts are never doubled.
    NoBackoff,
    /// A FIN is repeated to the application when it is repeated on the wire.
    FinishedTwice,
    /// Duplicate octets are placed again.
    PlacedTwice,
    /// Timestamps of old connections are believed.
    NoPaws,
    /// Every stray segment is answered.
    NoChallengeLimit,
    /// The window of a SYN is scaled.
    ScaledSyn,
    /// A reset anywhere in the window ends the connection.
    BlindReset,
}

impl Config {
    /// The sender of the reference simulator, with a timeout of one's own [incast 5.1].
    pub const fn reference(rto: RtoConfig) -> Config {
        Config {
            rto,
            mss_bytes: 1460,
            initial_window: 3,
            sack: true,
            reno: false,
            dupthresh: 3,
            limited_transmit: false,
            slow_start: true,
            idle_restart: true,
            nagle: false,
            congestion: Congestion::NewReno,
            grows_unused: false,
            halves_window: false,
            ecn: Ecn::Off,
            prr: false,
            rack: None,
            undo: Undo::NONE,
            stamps: None,
            strict_stamps: false,
            delayed_ack: DelayedAck::Off,
            receive_buffer_bytes: 4 << 20,
            keepalive: None,
            challenge_interval: Span::from_ms(500),
            challenges_per_s: 1_000,
            persist_min: Span::from_ms(200),
            give_up_retries: 15,
            give_up_after: Span::from_ms(100_000),
            handshake_retries: 6,
            time_wait: Span::from_ms(60_000),
            schedule: None,
            connections_max: 1 << 20,
            planted: None,
        }
    }

    /// What a Linux of today does, with a clock of 250 Hz: the defaults of 6.18 but for the rule of
    /// the window, which is `congestion` [incast 2.1].
    pub const fn linux(congestion: Congestion) -> Config {
        let jiffy = Span::from_ms(4);
        let rto = RtoConfig {
            granularity: jiffy,
            tick: jiffy,
            init: Span::from_ms(1_000),
            ..RtoConfig::STOCK
        };
        Config {
            initial_window: 10,
            limited_transmit: true,
            congestion,
            prr: true,
            rack: Some(Rack::JIFFIES),
            undo: Undo::ALL,
            stamps: Some(Span::from_ms(1)),
            delayed_ack: DelayedAck::LINUX,
            ..Config::reference(rto)
        }
    }

    /// The same machinery with timers as fine as the clock, and no least timeout.
    pub const fn fine(congestion: Congestion) -> Config {
        Config {
            rack: Some(Rack::FINE),
            rto: RtoConfig { backoff_reset: BackoffReset::Timestamp, ..RtoConfig::FINE },
            stamps: Some(Span::from_us(1)),
            delayed_ack: DelayedAck::Off,
            ..Config::linux(congestion)
        }
    }

    /// The window up to which a new connection doubles it, of segments of `mss` octets.
    pub(crate) fn first_threshold(&self, mss: u64) -> u64 {
        if self.slow_start { u64::MAX } else { mss }
    }

    /// Whether all values are in their ranges; else which is not, and what it must be.
    pub fn check(&self) -> Result<(), &'static str> {
        if !(48..=8960).contains(&self.mss_bytes) {
            return Err("mss_bytes must be from 48 to 8960");
        }
        if self.initial_window == 0 || self.initial_window > 1000 {
            return Err("initial_window must be from 1 to 1000 segments");
        }
        if self.dupthresh == 0 {
            return Err("dupthresh must be at least 1");
        }
        if self.receive_buffer_bytes == 0 || self.receive_buffer_bytes > 1 << 30 {
            return Err("receive_buffer_bytes must be from 1 to 2^30");
        }
        if self.rto.max < self.rto.min {
            return Err("the ceiling of the timeout must not be below its floor");
        }
        if self.rto.init.is_zero() || self.persist_min.is_zero() {
            return Err("the first timeout and the first probe must wait for some time");
        }
        let packet = u32::from(self.mss_bytes) + 40;
        if self.schedule.and_then(|one| one.room_bytes).is_some_and(|room| room < packet) {
            return Err("the room of a schedule must be at least a full packet");
        }
        if self.stamps.is_some_and(Span::is_zero) {
            return Err("the tick of timestamps must be above zero");
        }
        if let DelayedAck::Adaptive { least, most } = self.delayed_ack
            && (least.is_zero() || least > most)
        {
            return Err(
                "the least delay of acknowledgements must be above zero and at most the most",
            );
        }
        if !(1..=60).contains(&self.handshake_retries) {
            return Err("handshake_retries must be from 1 to 60");
        }
        if let Some(alive) = self.keepalive
            && (alive.idle.is_zero() || alive.interval.is_zero() || alive.probes == 0)
        {
            return Err("keepalive must wait for some time, and ask at least once");
        }
        Ok(())
    }
}

/// Why a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Why {
    /// Both sides closed and know it.
    Closed,
    /// The other side reset it.
    Reset,
    /// Nobody listens there, or too many do.
    Refused,
    /// The other side did not answer for too long.
    TimedOut,
    /// This side aborted it.
    Aborted,
}

/// Lengths of runs of timeouts by which connections are counted [incast 5.6].
pub const RUNS: [u16; 5] = [1, 6, 10, 20, 50];

/// What connections did, all together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Segments with data that were sent.
    pub data_segments: u64,
    /// Of them such as were sent before.
    pub retransmitted: u64,
    /// Timers that ran out with nothing heard since the window began: all of it was lost.
    pub timeouts_whole: u64,
    /// With too few duplicates to repair the loss: the last segments.
    pub timeouts_tail: u64,
    /// Of a segment that was sent again already.
    pub timeouts_again: u64,
    /// Timers of any cause that ran out with no duplicate heard since the left edge moved.
    pub timeouts_silent: u64,
    /// The same for one who forgets duplicates at a timeout and counts none during a repair, as
    /// ns-2's sender with selective acknowledgements does: then the timer of a lost repetition is
    /// silent too.
    pub timeouts_unprompted: u64,
    /// The most timeouts in a row of one connection.
    pub run_longest: u64,
    /// Connections whose longest run of timeouts reached each of [`RUNS`].
    pub connections_by_run: [u64; 5],
    /// Connections whose most doublings that were not forgotten between reached each of [`RUNS`].
    pub connections_by_doublings: [u64; 5],
    /// Losses repaired without a timer.
    pub fast_recoveries: u64,
    /// Probes at the ends of flights.
    pub probes: u64,
    /// Timeouts that were found to be for nothing.
    pub spurious: u64,
    /// Reductions of the window that were taken back, theirs included.
    pub undone: u64,
    /// Segments of old connections that timestamps gave away (PAWS).
    pub stale: u64,
    /// Answers to segments that told nothing new which were held back (RFC 5961).
    pub unanswered: u64,
    /// Acknowledgements that told of marks.
    pub marks: u64,
    /// Reductions of the window because of marks.
    pub marked_reductions: u64,
    /// SYNs that were answered without keeping anything, at ports with enough half-open
    /// connections.
    pub cookies: u64,
    /// Segments that made no sense and were dropped.
    pub dropped: u64,
}

impl Counts {
    /// Adds those of another machine.
    pub fn add(&mut self, other: &Counts) {
        self.data_segments += other.data_segments;
        self.retransmitted += other.retransmitted;
        self.timeouts_whole += other.timeouts_whole;
        self.timeouts_tail += other.timeouts_tail;
        self.timeouts_again += other.timeouts_again;
        self.timeouts_silent += other.timeouts_silent;
        self.timeouts_unprompted += other.timeouts_unprompted;
        self.run_longest = self.run_longest.max(other.run_longest);
        let runs = self.connections_by_run.iter_mut().zip(other.connections_by_run);
        let doublings = &mut self.connections_by_doublings;
        for (own, more) in runs.chain(doublings.iter_mut().zip(other.connections_by_doublings)) {
            *own += more;
        }
        self.fast_recoveries += other.fast_recoveries;
        self.probes += other.probes;
        self.spurious += other.spurious;
        self.undone += other.undone;
        self.stale += other.stale;
        self.unanswered += other.unanswered;
        self.marks += other.marks;
        self.marked_reductions += other.marked_reductions;
        self.cookies += other.cookies;
        self.dropped += other.dropped;
    }

    /// Timers that ran out.
    pub fn timeouts(&self) -> u64 {
        self.timeouts_whole + self.timeouts_tail + self.timeouts_again
    }
}
