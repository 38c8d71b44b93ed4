//! The record of one replication: a histogram of latency per type after warm-up.
//!
//! How long a machine needs to become what its name says is known only at the end of a run, so
//! latencies are kept in six slices by request number, and those after it are merged: memory does
//! not depend on the length of the run.

use super::observer::{Done, Observer};
use super::{Outcome, Setup};
use crate::statistics::histogram::Histogram;
use crate::statistics::warmup::Series;
use cavy_core::Instant;

/// Where slices begin, in tenths of the run. The first is never counted: the source discards the
/// first 10 % of requests in the order of sending ([persephone 4.2]). A machine that learns first
/// may make it more, up to half.
///
/// MSER-5 is asked whether a run is long enough, and not where to cut: near saturation its later
/// cuts take away stretches that happened to be bad, and made p99.9 of M/M/7 at 0.95 too low by
/// 2.5 % in the mean.
const SLICES: usize = 6;

/// Records one replication.
#[derive(Clone, Debug)]
pub struct Recorder {
    requests: u64,
    kinds: usize,
    /// `slices[slice * kinds + kind]`.
    slices: Vec<Histogram>,
    /// Sum of waiting times in ns, in the same order.
    waited: Vec<u128>,
    dropped: Vec<u64>,
    sojourn: Series,
    in_system: Series,
    /// Sum of latency in ns and count, per third of the run and type.
    thirds: Vec<(u128, u64)>,
    /// Requests of each type, so far and now in the system.
    open: Vec<Open>,
    /// The same when half of the requests had arrived.
    halfway: Vec<Open>,
    /// What changed from then to the last arrival.
    growth: Vec<Backlog>,
    formation: Formation,
    /// Where the slices and thirds that `current` names begin and end, so that a request costs a
    /// comparison and not two divisions.
    current: Current,
}

/// Whether the machine has become what its name says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Formation {
    /// Not yet: its first reservation is awaited.
    Awaited,
    /// When so many requests had arrived; 0 when it was so from the start.
    At(u64),
}

/// Requests of one type.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Open {
    arrived: u64,
    /// Of these, that neither finished nor were dropped yet.
    present: u64,
}

/// How the requests of one type in the system grew over the second half of the arrivals.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Backlog {
    /// Requests that arrived in that half.
    pub arrived: u64,
    /// How many more were in the system at its end than at its beginning.
    pub more_present: i64,
}

/// The part of the run that the last request belonged to.
#[derive(Clone, Copy, Debug)]
struct Current {
    from: u64,
    to: u64,
    slice: usize,
    third: usize,
}

/// What one type experienced after warm-up.
#[derive(Clone, Debug)]
pub struct TypeRecord {
    /// Latency in ns.
    pub latency: Histogram,
    /// Mean of [`Done::waited`] in ns; 0 without requests.
    pub mean_waited_ns: f64,
    /// Requests dropped, over the whole run.
    pub dropped: u64,
}

/// One replication, warm-up removed.
#[derive(Clone, Debug)]
pub struct Replication {
    /// Per type, in the order of the mix.
    pub types: Vec<TypeRecord>,
    /// Mean latency of all requests in the order of completion, in batches; for the error of means.
    pub sojourn: Series,
    /// Part of the run that was discarded.
    pub warmup_ratio: f64,
    /// Share of the requests that had arrived when the machine became what its name says; 0 when
    /// it was so from the start, `None` when it never did.
    pub formed_ratio: Option<f64>,
    /// MSER-5 found no end of the warm-up in the first half.
    pub too_short: bool,
    /// Mean latency in ns over each third of the requests.
    pub thirds_ns: [f64; 3],
    /// The same for each type; zero where it has no requests.
    pub thirds_by_type_ns: Vec<[f64; 3]>,
    /// Per type, how its backlog grew over the second half of the arrivals; zero if the run ended
    /// before the requests it was to send.
    pub backlog: Vec<Backlog>,
    /// Share of worker time in use while requests arrived.
    pub utilization: f64,
    /// What the run came to.
    pub outcome: Outcome,
}

impl Recorder {
    /// A recorder for a run of `requests` requests of `kinds` types.
    pub fn new(requests: u64, kinds: usize) -> Self {
        Recorder {
            requests: requests.max(1),
            kinds,
            slices: (0..SLICES * kinds).map(|_| Histogram::new()).collect(),
            waited: vec![0; SLICES * kinds],
            dropped: vec![0; kinds],
            sojourn: Series::new(),
            in_system: Series::new(),
            thirds: vec![(0, 0); 3 * kinds],
            open: vec![Open::default(); kinds],
            halfway: vec![Open::default(); kinds],
            growth: vec![Backlog::default(); kinds],
            formation: Formation::At(0),
            current: Current { from: 0, to: 0, slice: 0, third: 0 },
        }
    }

    /// The same for a machine that is to learn first, until it makes its first reservation. What
    /// arrives before that is warm-up.
    pub fn awaiting_reservation(mut self) -> Self {
        self.formation = Formation::Awaited;
        self
    }

    /// The part of the run that request `number` belongs to.
    #[cold]
    fn find(&self, number: u64) -> Current {
        let requests = self.requests;
        // Parts end where number * 10 / requests or number * 3 / requests steps up.
        let part = |parts: u64, last: u64| {
            let index = (number * parts / requests).min(last);
            let from = (index * requests).div_ceil(parts);
            let to =
                if index == last { u64::MAX } else { ((index + 1) * requests).div_ceil(parts) };
            (index as usize, from, to)
        };
        let (slice, slice_from, slice_to) = part(10, SLICES as u64 - 1);
        let (third, third_from, third_to) = part(3, 2);
        Current { from: slice_from.max(third_from), to: slice_to.min(third_to), slice, third }
    }

    /// The record, once the run is over.
    pub fn finish(self, setup: &Setup, outcome: Outcome) -> Replication {
        let cut = self.sojourn.truncation().later(self.in_system.truncation());
        let formed_ratio = match self.formation {
            Formation::Awaited => None,
            Formation::At(number) => Some(number as f64 / self.requests as f64),
        };
        let formed = formed_ratio.unwrap_or(0.0);
        let first = ((formed * 10.0).ceil() as usize).clamp(1, SLICES - 1);
        let types = (0..self.kinds)
            .map(|kind| {
                let mut latency = Histogram::new();
                let mut waited = 0;
                for slice in first..SLICES {
                    latency.merge(&self.slices[slice * self.kinds + kind]);
                    waited += self.waited[slice * self.kinds + kind];
                }
                let mean_waited_ns = waited as f64 / (latency.count() as f64).max(1.0);
                TypeRecord { latency, mean_waited_ns, dropped: self.dropped[kind] }
            })
            .collect();
        let cores = match setup.cores {
            super::Cores::Own | super::Cores::Unequal(_) => setup.workers,
            super::Cores::Shared(cores) => cores,
        };
        let offered_ns = outcome.last_arrival.as_ns() as f64 * f64::from(cores);
        Replication {
            types,
            sojourn: self.sojourn,
            backlog: self.growth,
            warmup_ratio: first as f64 / 10.0,
            formed_ratio,
            too_short: cut.too_short,
            thirds_ns: core::array::from_fn(|third| {
                let from = third * self.kinds;
                mean(self.thirds[from..from + self.kinds].iter())
            }),
            thirds_by_type_ns: (0..self.kinds)
                .map(|kind| {
                    core::array::from_fn(|third| {
                        mean(core::iter::once(&self.thirds[third * self.kinds + kind]))
                    })
                })
                .collect(),
            utilization: if offered_ns > 0.0 { outcome.busy_ns as f64 / offered_ns } else { 0.0 },
            outcome,
        }
    }
}

/// Mean of sums with counts; zero for none.
fn mean<'a>(sums: impl Iterator<Item = &'a (u128, u64)>) -> f64 {
    let (sum, count) = sums.fold((0, 0), |(s, n), &(sum, count)| (s + sum, n + count));
    sum as f64 / (count as f64).max(1.0)
}

impl<M: ?Sized> Observer<M> for Recorder {
    #[inline]
    fn arrived(&mut self, number: u64, kind: u16, in_system: u64) {
        self.open[kind as usize].arrived += 1;
        self.open[kind as usize].present += 1;
        if number + 1 == self.requests / 2 {
            self.halfway.clone_from(&self.open);
        } else if number + 1 == self.requests {
            for (growth, (before, now)) in
                self.growth.iter_mut().zip(self.halfway.iter().zip(&self.open))
            {
                growth.arrived = now.arrived - before.arrived;
                growth.more_present = now.present as i64 - before.present as i64;
            }
        }
        // Neighbors see nearly the same system; one in four tells as much of the warm-up.
        if number.is_multiple_of(4) {
            self.in_system.record(in_system as f64);
        }
    }

    #[inline]
    fn finished(&mut self, done: &Done) {
        let ns = done.latency.as_ns();
        self.open[done.kind as usize].present -= 1;
        if !(self.current.from..self.current.to).contains(&done.number) {
            self.current = self.find(done.number);
        }
        let Current { slice, third, .. } = self.current;
        let of_kind = slice * self.kinds + done.kind as usize;
        self.slices[of_kind].record(ns);
        self.waited[of_kind] += u128::from(done.waited.as_ns());
        self.sojourn.record(ns as f64);
        let sum = &mut self.thirds[third * self.kinds + done.kind as usize];
        sum.0 += u128::from(ns);
        sum.1 += 1;
    }

    fn dropped(&mut self, _: u64, kind: u16, _: Instant) {
        self.dropped[kind as usize] += 1;
        self.open[kind as usize].present -= 1;
    }

    fn reserved(&mut self, _: Instant, _: &M) {
        if self.formation == Formation::Awaited {
            self.formation = Formation::At(self.open.iter().map(|open| open.arrived).sum());
        }
    }
}
