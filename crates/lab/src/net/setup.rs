//! What one run is made of, besides the machines and the traffic.

use super::faults::{Faults, What};
use super::ideal::OwnBest;
use super::network::{Network, NetworkError};
use super::report::Bins;
use cavy_core::family::Node;
use cavy_core::{Instant, Span};
use std::fmt;

/// What a run is made of.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The network.
    pub network: Network,
    /// Root of all random streams of the world and the machines. Traffic has its own.
    pub seed: u64,
    /// Shuffle the order of simultaneous events by this seed, to expose results that depend on it.
    pub shuffle_ties: Option<u64>,
    /// Messages submitted before this time do not count.
    pub warmup: Span,
    /// No message is submitted from this time on. Later than `warmup`.
    pub duration: Span,
    /// The run ends at most so long after `duration`, finished or not.
    pub drain: Span,
    /// How long the run goes on when every message has ended, so that machines can tidy up.
    pub linger: Span,
    /// Sizes that count together.
    pub bins: Bins,
    /// The transport's own least times, for the second denominator of slowdown.
    pub own_best: Option<OwnBest>,
    /// Compute least times as the source's simulator does `[homa 4.3]`.
    pub ideal_without_latency_in_rack: bool,
    /// What goes wrong.
    pub faults: Faults,
    /// Hosts that are not there from the beginning; the others are.
    pub starts: Vec<Start>,
    /// The run ends when more packets than this are under way: 64 bytes each, at most 2^23.
    pub packets_max: u32,
    /// Call each machine's own check after each of its steps.
    pub check: bool,
}

/// A host that starts at a time of its own. What comes before is lost, as at a host that is down;
/// its applications begin then too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start {
    /// Which host.
    pub host: Node,
    /// When.
    pub at: Instant,
}

impl Setup {
    /// A run of `duration` on `network` that counts everything, waits at most as long again for the
    /// last message, and in which nothing goes wrong.
    pub fn new(network: Network, seed: u64, duration: Span, bins: Bins) -> Setup {
        Setup {
            network,
            seed,
            shuffle_ties: None,
            warmup: Span::ZERO,
            duration,
            drain: duration,
            linger: Span::ZERO,
            bins,
            own_best: None,
            ideal_without_latency_in_rack: false,
            faults: Faults::default(),
            starts: Vec::new(),
            packets_max: 1 << 22,
            check: false,
        }
    }

    /// Whether the values are in the ranges that the fields document.
    pub fn check(&self) -> Result<(), SetupError> {
        self.network.check().map_err(SetupError::Network)?;
        if self.warmup >= self.duration {
            return Err(SetupError::Warmup { warmup: self.warmup, duration: self.duration });
        }
        // The last of picoseconds is in 213 days.
        let longest = Span::from_ms(1_000 * 3_600 * 24 * 100);
        let total = self.duration + self.drain + self.linger;
        if total > longest {
            return Err(SetupError::TooLong { total });
        }
        if self.packets_max == 0 || self.packets_max > 1 << 23 {
            return Err(SetupError::PacketsMax { packets_max: self.packets_max });
        }
        let hosts = self.network.topology.hosts();
        for outage in &self.faults.outages {
            if outage.host.0 >= hosts || outage.from >= outage.until {
                return Err(SetupError::Outage { host: outage.host.0, hosts });
            }
        }
        for (place, start) in self.starts.iter().enumerate() {
            let again = self.starts[..place].iter().any(|other| other.host == start.host);
            let mut outages = self.faults.outages.iter();
            let fails_before = outages.any(|o| o.host == start.host && o.from < start.at);
            if start.host.0 >= hosts || again || fails_before {
                return Err(SetupError::Start { host: start.host.0, hosts });
            }
        }
        for (rule, faults) in self.faults.rules.iter().enumerate() {
            if matches!(faults.what, What::LoseNth(0)) {
                return Err(SetupError::NthZero { rule });
            }
            if let What::Rough(rough) = faults.what
                && (rough.spike_least > rough.spike_most
                    || rough.jitter.max(rough.spike_most).max(rough.overtaken_by)
                        > Span::from_ms(100_000))
            {
                return Err(SetupError::Rough { rule });
            }
            if let Some((from, to)) = faults.which.link
                && !self.network.topology.ports().iter().any(|p| (p.from, p.to) == (from, to))
            {
                return Err(SetupError::NoLink { rule });
            }
        }
        Ok(())
    }
}

/// Why there can be no such run.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum SetupError {
    /// The network cannot be.
    Network(NetworkError),
    /// Nothing would count.
    Warmup {
        /// `warmup`.
        warmup: Span,
        /// `duration`.
        duration: Span,
    },
    /// Longer than the clock.
    TooLong {
        /// All spans together.
        total: Span,
    },
    /// `packets_max` is out of range.
    PacketsMax {
        /// Its value.
        packets_max: u32,
    },
    /// An outage of a host that is not there, or that ends before it begins.
    Outage {
        /// Whose.
        host: u32,
        /// How many hosts there are.
        hosts: u32,
    },
    /// A host that is not there, that starts twice, or that fails before it starts.
    Start {
        /// Whose.
        host: u32,
        /// How many hosts there are.
        hosts: u32,
    },
    /// The zeroth match of a rule.
    NthZero {
        /// Which rule, from 0.
        rule: usize,
    },
    /// Spikes from a longer time to a shorter one, or something of more than 100 s.
    Rough {
        /// Which rule, from 0.
        rule: usize,
    },
    /// A rule is about a link that is not there.
    NoLink {
        /// Which rule, from 0.
        rule: usize,
    },
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            SetupError::Network(ref error) => error.fmt(f),
            SetupError::Warmup { warmup, duration } => {
                write!(f, "warmup is {warmup}, must be shorter than duration, {duration}")
            }
            SetupError::TooLong { total } => {
                write!(f, "duration, drain and linger are {total} together, at most 100 days")
            }
            SetupError::PacketsMax { packets_max } => {
                write!(f, "packets_max is {packets_max}, must be from 1 to {}", 1 << 23)
            }
            SetupError::Outage { host, hosts } => write!(
                f,
                "an outage of host {host}: hosts are 0..{hosts}, and `until` must be after `from`"
            ),
            SetupError::Start { host, hosts } => write!(
                f,
                "a start of host {host}: hosts are 0..{hosts}, each starts once, and none fails \
                 before it starts"
            ),
            SetupError::NthZero { rule } => {
                write!(f, "fault rule {rule}: LoseNth counts from 1")
            }
            SetupError::Rough { rule } => write!(
                f,
                "fault rule {rule}: spikes go from the shorter time to the longer one, and nothing \
                 is held up for more than 100 s"
            ),
            SetupError::NoLink { rule } => {
                write!(
                    f,
                    "fault rule {rule}: there is no link between these two, in this direction"
                )
            }
        }
    }
}

impl std::error::Error for SetupError {}
