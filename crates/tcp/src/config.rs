//! What can be chosen ([incast 2.1], [incast 2.7], [incast 2.12]).

use crate::rto::RtoConfig;
use cavy_core::Span;

/// When a receiver acknowledges in-order segments ([incast 2.7]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DelayedAck {
    /// Each at once.
    Off,
    /// Every second full one at once, others after so long.
    Fixed(Span),
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
    /// Duplicate acknowledgements, or segments above, that say that one is lost; at least 1.
    pub dupthresh: u8,
    /// Send a new segment on each of the first two duplicates (RFC 3042).
    pub limited_transmit: bool,
    /// Window after a pause longer than the timeout: the initial one at most (RFC 5681).
    pub idle_restart: bool,
    /// When to acknowledge.
    pub delayed_ack: DelayedAck,
    /// What a connection keeps for its reader, 1 to 2^30 octets.
    pub receive_buffer_bytes: u32,
    /// First wait before a closed window is probed, doubled up to a minute [incast 2.12].
    pub persist_min: Span,
    /// Give up after so many timeouts in a row, and not before `give_up_after`: with short timeouts
    /// a count alone would kill connections over a short outage [incast 2.12].
    pub give_up_retries: u16,
    /// The least time without progress before a connection is given up.
    pub give_up_after: Span,
    /// How long a closed pair of ports is remembered.
    pub time_wait: Span,
    /// Connections at a time; more are refused.
    pub connections_max: u32,
}

impl Config {
    /// The sender of the reference simulator, with a timeout of one's own [incast 5.1].
    pub const fn reference(rto: RtoConfig) -> Config {
        Config {
            rto,
            mss_bytes: 1460,
            initial_window: 3,
            sack: true,
            dupthresh: 3,
            limited_transmit: false,
            idle_restart: true,
            delayed_ack: DelayedAck::Off,
            receive_buffer_bytes: 4 << 20,
            persist_min: Span::from_ms(200),
            give_up_retries: 15,
            give_up_after: Span::from_ms(100_000),
            time_wait: Span::from_ms(60_000),
            connections_max: 1 << 20,
        }
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
    /// The most timeouts in a row of one connection.
    pub run_longest: u64,
    /// Connections whose longest run of timeouts reached each of [`RUNS`].
    pub connections_by_run: [u64; 5],
    /// Losses repaired without a timer.
    pub fast_recoveries: u64,
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
        self.run_longest = self.run_longest.max(other.run_longest);
        for (own, more) in self.connections_by_run.iter_mut().zip(other.connections_by_run) {
            *own += more;
        }
        self.fast_recoveries += other.fast_recoveries;
        self.dropped += other.dropped;
    }

    /// Timers that ran out.
    pub fn timeouts(&self) -> u64 {
        self.timeouts_whole + self.timeouts_tail + self.timeouts_again
    }
}
