//! The requests themselves: phases, wrong labels, and the [`Source`] that yields one request after
//! another.

use crate::arrivals::{Arrivals, ArrivalsError, Gaps};
use crate::bits::{place, threshold};
use crate::mix::Mix;
use alloc::sync::Arc;
use alloc::vec::Vec;
use cavy_core::{Instant, Purpose, Span, Stream};
use core::fmt;

/// One request, as it arrives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Request {
    /// When it arrives. Never before the request ahead of it; several may share a nanosecond.
    pub at: Instant,
    /// Its true type: an index into the mix, from 0.
    pub kind: u16,
    /// The type the classifier says it is; equal to `kind` unless the request is mislabeled.
    pub label: u16,
    /// How long a worker is busy with it, at least 1 ns.
    pub service: Span,
}

/// A time during which mix, process and rate stay the same, as in `[persephone 5.11]`.
///
/// A phase holds the requests from its start, included, to its end, excluded. The end is absolute:
/// the sum of the durations so far, whatever has arrived. The gap that crosses the end is dropped,
/// and the next phase draws its first gap from the boundary on: for [`Arrivals::Poisson`] that is
/// the same law (memoryless); [`Arrivals::Constant`] starts a full gap of the new rate at the
/// boundary, and [`Arrivals::Bursty`] starts anew, in a burst with probability `burst_share`.
#[derive(Clone, PartialEq, Debug)]
pub struct Phase {
    /// The types that arrive.
    pub mix: Mix,
    /// How they arrive.
    pub arrivals: Arrivals,
    /// Mean rate in requests per second, from [`RATE_MIN_PER_S`] to [`RATE_MAX_PER_S`].
    pub rate_per_s: f64,
    /// How long the phase lasts, above zero. `None`: for ever, which only the last phase can.
    pub duration: Option<Span>,
}

/// The lowest rate of a phase: one request in 11.6 days.
pub const RATE_MIN_PER_S: f64 = 1e-6;

/// The highest rate of a phase: a thousand requests in each nanosecond.
pub const RATE_MAX_PER_S: f64 = 1e12;

/// Everything that decides which requests arrive, but the seed.
///
/// Always valid: whoever holds a workload has passed [`Workload::new`].
#[derive(Clone, PartialEq, Debug)]
pub struct Workload {
    phases: Vec<Phase>,
    mislabel: f64,
}

impl Workload {
    /// One phase after the other, all with equally many types, of which only the last may be
    /// endless.
    ///
    /// With probability `mislabel`, from 0 to 1, the label of a request is replaced by a type drawn
    /// uniformly from all types of the mix, its own included `[persephone 5.12]`: at 1 the
    /// classifier knows nothing, and still hits the true type once in as many times as there are
    /// types.
    pub fn new(phases: Vec<Phase>, mislabel: f64) -> Result<Workload, WorkloadError> {
        if !(0.0..=1.0).contains(&mislabel) {
            return Err(WorkloadError::Mislabel { mislabel });
        }
        let Some(first) = phases.first() else {
            return Err(WorkloadError::NoPhases);
        };
        let expected = first.mix.types().len();
        for (phase, one) in phases.iter().enumerate() {
            let rate_per_s = one.rate_per_s;
            if !(RATE_MIN_PER_S..=RATE_MAX_PER_S).contains(&rate_per_s) {
                return Err(WorkloadError::Rate { phase, rate_per_s });
            }
            let checked = one.arrivals.check().and_then(|()| one.arrivals.check_rate(rate_per_s));
            checked.map_err(|error| WorkloadError::Arrivals { phase, error })?;
            let count = one.mix.types().len();
            if count != expected {
                return Err(WorkloadError::TypeCount { phase, count, expected });
            }
            match one.duration {
                None if phase + 1 < phases.len() => return Err(WorkloadError::Endless { phase }),
                Some(Span::ZERO) => return Err(WorkloadError::ZeroDuration { phase }),
                _ => {}
            }
        }
        Ok(Workload { phases, mislabel })
    }

    /// The phases in order, at least one.
    pub fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// Probability that a label is replaced by a random one, from 0 to 1.
    pub fn mislabel(&self) -> f64 {
        self.mislabel
    }
}

/// Yields the requests of a workload in order of arrival.
///
/// Draws per request: from `Purpose::Arrivals` one for Poisson, none for constant gaps, one or more
/// for bursts; from `Purpose::Kinds` one; from `Purpose::Services` one (left out when all service
/// times of the workload are constant, where nobody can tell); from `Purpose::Labels` two (left out
/// when `mislabel` is 0). All streams are those of node 0. Since gaps are scaled and not redrawn,
/// two rates under one seed bring the same requests at proportional times.
///
/// Ends (`None`) when the last phase does, or the trace, or time itself, 584 years after the start.
#[derive(Clone, Debug)]
pub struct Source(Origin);

// One source exists per run: the larger variant wastes nothing, and a box would cost each request.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
enum Origin {
    Drawn(Drawn),
    Recorded { requests: Arc<[Request]>, next: usize },
}

impl Source {
    /// The requests of `workload` under `seed`.
    pub fn new(workload: &Workload, seed: u64) -> Source {
        Source(Origin::Drawn(Drawn::new(workload, seed)))
    }

    /// The requests of a trace, as they are. Who has it from a file calls [`check_trace`] first.
    pub fn recorded(requests: Arc<[Request]>) -> Source {
        Source(Origin::Recorded { requests, next: 0 })
    }
}

impl Iterator for Source {
    type Item = Request;

    #[inline]
    fn next(&mut self) -> Option<Request> {
        match &mut self.0 {
            Origin::Drawn(drawn) => drawn.next(),
            Origin::Recorded { requests, next } => {
                let request = *requests.get(*next)?;
                *next += 1;
                Some(request)
            }
        }
    }
}

#[derive(Clone, Debug)]
struct Drawn {
    arrivals: Stream,
    kinds: Stream,
    services: Stream,
    labels: Stream,
    /// The latest arrival, or the start of the phase, in units of 2^-64 ns. The fraction of a
    /// nanosecond is what keeps the rate exact: dropping it at each request would cost 0.2 % at
    /// 4.67 million requests a second.
    clock: u128,
    /// End of the current phase; the end of time for an endless one.
    end_ns: u64,
    gaps: Gaps,
    mix: Mix,
    /// False when all service times of all phases are constant.
    services_vary: bool,
    /// `bits >> 1` of a label draw lies below this when the label is replaced.
    mislabel_below: u64,
    /// The phases after the current one, the next one last.
    later: Vec<Phase>,
}

impl Drawn {
    fn new(workload: &Workload, seed: u64) -> Drawn {
        let stream = |purpose| Stream::keyed(seed, 0, purpose);
        let mut later = workload.phases.clone();
        later.reverse();
        // Cannot be empty: `Workload::new` has seen to it.
        let first = later.pop().expect("a workload has at least one phase");
        let mut arrivals = stream(Purpose::Arrivals);
        let gaps = Gaps::new(first.arrivals, first.rate_per_s, &mut arrivals);
        let mut samplers = workload.phases.iter().flat_map(|phase| phase.mix.samplers());
        Drawn {
            arrivals,
            kinds: stream(Purpose::Kinds),
            services: stream(Purpose::Services),
            labels: stream(Purpose::Labels),
            clock: 0,
            end_ns: first.duration.map_or(u64::MAX, Span::as_ns),
            gaps,
            mix: first.mix,
            services_vary: samplers.any(|sampler| !sampler.is_constant()),
            mislabel_below: threshold(workload.mislabel),
            later,
        }
    }

    #[inline]
    fn next(&mut self) -> Option<Request> {
        let mut at_ns = self.advance();
        while at_ns >= self.end_ns {
            self.enter_next_phase()?;
            at_ns = self.advance();
        }
        let kind = self.mix.draw_kind(&mut self.kinds);
        let sampler = &self.mix.samplers()[usize::from(kind)];
        let bits = if self.services_vary { self.services.bits() } else { 0 };
        let service = sampler.at(bits);
        let label = if self.mislabel_below == 0 { kind } else { self.draw_label(kind) };
        Some(Request { at: Instant::from_ns(at_ns), kind, label, service })
    }

    /// Moves on by one gap and tells the time, in whole nanoseconds.
    #[inline]
    fn advance(&mut self) -> u64 {
        self.clock = self.clock.saturating_add(self.gaps.draw(&mut self.arrivals));
        (self.clock >> 64) as u64
    }

    /// Starts the phase after this one at its boundary, or stays beyond the end for good.
    #[cold]
    fn enter_next_phase(&mut self) -> Option<()> {
        // Also without a next phase, so that asking again gives `None` again.
        self.clock = u128::from(self.end_ns) << 64;
        let phase = self.later.pop()?;
        let duration_ns = phase.duration.map_or(u64::MAX, Span::as_ns);
        self.end_ns = self.end_ns.saturating_add(duration_ns);
        self.gaps = Gaps::new(phase.arrivals, phase.rate_per_s, &mut self.arrivals);
        self.mix = phase.mix;
        Some(())
    }

    /// What the classifier says of a request of type `kind`.
    ///
    /// Both numbers are drawn even if the label stays, so that the requests mislabeled at one ratio
    /// are, with the same wrong labels, among those mislabeled at any greater one.
    fn draw_label(&mut self, kind: u16) -> u16 {
        let replaced = self.labels.bits() >> 1 < self.mislabel_below;
        let other = place(self.labels.bits(), self.mix.types().len() as u64) as u16;
        if replaced { other } else { kind }
    }
}

/// Whether a trace can be replayed: times never go back and no service time is zero.
pub fn check_trace(requests: &[Request]) -> Result<(), TraceError> {
    let mut before = Instant::ZERO;
    for (index, request) in requests.iter().enumerate() {
        if request.at < before {
            return Err(TraceError::OutOfOrder { index, at: request.at, before });
        }
        if request.service.is_zero() {
            return Err(TraceError::ZeroService { index });
        }
        before = request.at;
    }
    Ok(())
}

/// Why phases make no [`Workload`]. Phases are counted from 0.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum WorkloadError {
    /// There is no phase at all.
    NoPhases,
    /// The probability of a wrong label is no probability.
    Mislabel {
        /// Its value.
        mislabel: f64,
    },
    /// The rate of a phase is outside [`RATE_MIN_PER_S`] to [`RATE_MAX_PER_S`], or not a number.
    Rate {
        /// Index of the phase.
        phase: usize,
        /// Its rate.
        rate_per_s: f64,
    },
    /// The arrivals of a phase are no process.
    Arrivals {
        /// Index of the phase.
        phase: usize,
        /// What is wrong with them.
        error: ArrivalsError,
    },
    /// A phase has more or fewer types than the first.
    TypeCount {
        /// Index of the phase.
        phase: usize,
        /// How many types it has.
        count: usize,
        /// How many the first phase has.
        expected: usize,
    },
    /// A phase that is not the last has no end.
    Endless {
        /// Index of the phase.
        phase: usize,
    },
    /// A phase ends as it starts.
    ZeroDuration {
        /// Index of the phase.
        phase: usize,
    },
}

impl fmt::Display for WorkloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            WorkloadError::NoPhases => write!(f, "there are 0 phases, must be at least 1"),
            WorkloadError::Mislabel { mislabel } => {
                write!(f, "mislabel is {mislabel}, must be from 0 to 1")
            }
            WorkloadError::Rate { phase, rate_per_s } => {
                write!(f, "rate_per_s of phase {phase} is {rate_per_s}, must be from 1e-6 to 1e12")
            }
            WorkloadError::Arrivals { phase, error } => {
                write!(f, "arrivals of phase {phase}: {error}")
            }
            WorkloadError::TypeCount { phase, count, expected } => {
                write!(f, "phase {phase} has {count} types, must be {expected} as in phase 0")
            }
            WorkloadError::Endless { phase } => {
                write!(f, "phase {phase} has no duration, which only the last phase may lack")
            }
            WorkloadError::ZeroDuration { phase } => {
                write!(f, "duration of phase {phase} is 0, must be above 0")
            }
        }
    }
}

impl core::error::Error for WorkloadError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            WorkloadError::Arrivals { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// Why a trace cannot be replayed. Requests are counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TraceError {
    /// A request arrives before the one ahead of it.
    OutOfOrder {
        /// Index of the request.
        index: usize,
        /// When it arrives.
        at: Instant,
        /// When the one ahead of it does.
        before: Instant,
    },
    /// A request is no work.
    ZeroService {
        /// Index of the request.
        index: usize,
    },
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            TraceError::OutOfOrder { index, at, before } => write!(
                f,
                "request {index} arrives at {} ns, before request {} at {} ns",
                at.as_ns(),
                // The first request cannot be out of order.
                index.saturating_sub(1),
                before.as_ns()
            ),
            TraceError::ZeroService { index } => {
                write!(f, "service of request {index} is 0 ns, must be at least 1")
            }
        }
    }
}

impl core::error::Error for TraceError {}
