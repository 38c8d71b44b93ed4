//! What the dispatcher learns of the types: means and shares over a window of completions
//! ([persephone 2.6, 2.7]).

use crate::darc::reservation::Demand;
use alloc::vec::Vec;
use cavy_core::Span;
use cavy_core::family::cpu::Kind;

/// How a type's mean service time is estimated.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Estimator {
    /// Sum over count of the window: [persephone 2.6], free of the artifact's defect D1.
    Window,
    /// Exponentially weighted over completions of the type, corrected for its start; `weight` is
    /// that of the newest sample, in (0, 1]. Remembers across windows ([persephone 8.2 O1]).
    Weighted {
        /// Weight of the newest sample.
        weight: f64,
    },
    /// The artifact's integer running mean, truncated at each step: defect D1, kept only so that a
    /// study can show what it costs.
    Truncated,
}

/// Mean set for a type that did not complete in the window, so that it sorts last
/// ([persephone 2.6]).
const VANISHED_NS: f64 = 1e9;

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    /// Completions in the window.
    count: u64,
    /// Time on the worker, as the dispatcher saw it, ns.
    occupied_ns: u64,
    /// Time working, as the worker measured it, ns; equals `occupied_ns` where none measures.
    service_ns: u64,
    /// Sum of squares of `occupied_ns` samples, for the standard error.
    occupied_ns2: u128,
    /// The exponentially weighted means and the weight they have gathered.
    weighted: [f64; 2],
    weight: f64,
    /// The truncated running means.
    truncated_ns: [u64; 2],
}

/// Profile of all types over the current window.
#[derive(Clone, Debug)]
pub struct Profile {
    estimator: Estimator,
    /// Constant cost of a hand-over, taken off occupancy ([persephone 2.6]).
    correction: Span,
    tallies: Vec<Tally>,
    /// Completions of all types in the window.
    completions: u64,
}

impl Profile {
    /// An empty profile of `kinds` types.
    pub fn new(kinds: u16, estimator: Estimator, correction: Span) -> Self {
        let tallies = alloc::vec![Tally::default(); kinds as usize];
        Profile { estimator, correction, tallies, completions: 0 }
    }

    /// A request of `kind` ended. Unknown types are not profiled.
    #[inline]
    pub fn record(&mut self, kind: Kind, occupied: Span, service: Option<Span>) {
        let Some(tally) = (kind.0 as usize).checked_sub(1).and_then(|i| self.tallies.get_mut(i))
        else {
            return;
        };
        let occupied = occupied.as_ns();
        let service = service.map_or(occupied.saturating_sub(self.correction.as_ns()), Span::as_ns);
        match self.estimator {
            Estimator::Window => {}
            Estimator::Weighted { weight } => {
                let keep = 1.0 - weight;
                let [a, b] = tally.weighted;
                tally.weighted =
                    [keep * a + weight * occupied as f64, keep * b + weight * service as f64];
                tally.weight = keep * tally.weight + weight;
            }
            Estimator::Truncated => {
                let n = tally.count;
                let step = |mean: u64, x: u64| (x + mean * n) / (n + 1);
                let [a, b] = tally.truncated_ns;
                tally.truncated_ns = [step(a, occupied), step(b, service)];
            }
        }
        tally.count += 1;
        tally.occupied_ns += occupied;
        tally.service_ns += service;
        tally.occupied_ns2 += u128::from(occupied) * u128::from(occupied);
        self.completions += 1;
    }

    /// Completions since the window was reset.
    #[inline]
    pub fn completions(&self) -> u64 {
        self.completions
    }

    /// Starts a new window. A weighted mean goes on.
    pub fn reset(&mut self) {
        for tally in &mut self.tallies {
            *tally = Tally { weighted: tally.weighted, weight: tally.weight, ..Tally::default() };
        }
        self.completions = 0;
    }

    /// Types that completed in the window.
    pub fn active(&self) -> usize {
        self.tallies.iter().filter(|tally| tally.count > 0).count()
    }

    /// What the window says of each type. With `by_occupancy`, workers are shared out by the whole
    /// time a request holds one, and order goes by service alone ([persephone 8.2 O2]); without,
    /// both go by occupancy less the correction, as in the artifact.
    pub fn demands(&self, by_occupancy: bool, into: &mut Vec<Demand>) {
        into.clear();
        for (index, tally) in self.tallies.iter().enumerate() {
            let kind = Kind(index as u16 + 1);
            if tally.count == 0 {
                let vanished = VANISHED_NS;
                into.push(Demand { kind, order_ns: vanished, hold_ns: vanished, ratio: 0.0 });
                continue;
            }
            let count = tally.count as f64;
            let [occupied, service] = match self.estimator {
                Estimator::Window => {
                    [tally.occupied_ns as f64 / count, tally.service_ns as f64 / count]
                }
                Estimator::Weighted { .. } => tally.weighted.map(|sum| sum / tally.weight),
                Estimator::Truncated => tally.truncated_ns.map(|mean| mean as f64),
            };
            let corrected = (occupied - self.correction.as_ns() as f64).max(1.0);
            let (order_ns, hold_ns) =
                if by_occupancy { (service, occupied) } else { (corrected, corrected) };
            into.push(Demand { kind, order_ns, hold_ns, ratio: count / self.completions as f64 });
        }
    }

    /// Standard error, in workers, of the demand of `kind` among `demands`, from the number of
    /// completions and the spread of occupancy of every type: a share moves with its own work and
    /// against everybody else's.
    pub fn demand_error(&self, kind: Kind, demands: &[Demand], workers: u16) -> f64 {
        let work: f64 = demands.iter().map(|d| d.hold_ns * d.ratio).sum();
        let share = |demand: &Demand| demand.hold_ns * demand.ratio / work;
        // A type's work is a random count of random times.
        let relative2 = |demand: &Demand| {
            let tally = &self.tallies[demand.kind.0 as usize - 1];
            if tally.count == 0 {
                return 0.0;
            }
            let count = tally.count as f64;
            let mean = tally.occupied_ns as f64 / count;
            let spread = (tally.occupied_ns2 as f64 / count - mean * mean).max(0.0) / (mean * mean);
            (1.0 + spread) / count
        };
        let own: f64 = demands.iter().filter(|d| d.kind == kind).map(share).sum();
        let moves = |demand: &Demand| {
            let by = if demand.kind == kind { 1.0 - own } else { share(demand) };
            by * by * relative2(demand)
        };
        let relative = libm::sqrt(demands.iter().map(moves).sum());
        f64::from(workers) * own * relative
    }
}
