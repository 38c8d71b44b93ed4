//! Choosing a reservation by what-if: play the last requests again under each candidate and keep
//! what would have served them best ([persephone 8.2 O7]).

use super::GroupOrder;
use super::reservation::{Group, Table, round_demand};
use crate::workers::WorkerSet;
use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec::Vec;
use cavy_core::family::cpu::{Kind, Worker};
use cavy_core::{Instant, Span};
use core::cmp::Reverse;

/// Share of its workers that a group may be loaded with before we call it unstable: the rounding
/// and the noise of one window stay below the rest.
pub(super) const STABLE_UTILIZATION: f64 = 0.98;

/// What is rehearsed and what counts as better.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Terms {
    /// Requests kept of the recent past; one rehearsal costs about this many times 100 ns for each
    /// candidate.
    pub trace: usize,
    /// The percentile of slowdown over all requests to minimize, as a ratio.
    pub percentile: f64,
    /// A candidate must be better by this ratio to displace one closer to the demand.
    pub margin: f64,
}

impl Default for Terms {
    fn default() -> Self {
        Terms { trace: 50_000, percentile: 0.999, margin: 0.05 }
    }
}

#[derive(Clone, Copy, Debug)]
struct Past {
    arrived: Instant,
    hold: Span,
    kind: Kind,
}

/// The recent past, and the room to play it again.
#[derive(Clone, Debug)]
pub struct Rehearsal {
    terms: Terms,
    kinds: u16,
    ring: Vec<Past>,
    /// Where the next one goes once the ring is full.
    oldest: usize,
}

impl Rehearsal {
    /// Remembers nothing yet.
    pub fn new(terms: Terms, kinds: u16) -> Self {
        Rehearsal { ring: Vec::with_capacity(terms.trace), oldest: 0, terms, kinds }
    }

    /// A request ended after holding its worker for `hold`.
    #[inline]
    pub fn remember(&mut self, kind: Kind, arrived: Instant, hold: Span, _now: Instant) {
        if kind == Kind::UNKNOWN || self.terms.trace == 0 {
            return;
        }
        let past = Past { arrived, hold, kind };
        if self.ring.len() < self.terms.trace {
            self.ring.push(past);
        } else {
            self.ring[self.oldest] = past;
            self.oldest = (self.oldest + 1) % self.terms.trace;
        }
    }

    /// Workers for each group: the rounded demand, then one pass over the groups from the shortest,
    /// each given the count that serves the remembered requests best. Candidates that would
    /// overload a longer group ([persephone 2.12]) are not tried.
    pub fn choose(&mut self, groups: &[Group], workers: u16, order: GroupOrder) -> Vec<u16> {
        let mut wants: Vec<u16> = groups.iter().map(|g| round_demand(g.demand)).collect();
        if self.ring.len() < 1_000 || groups.len() < 2 {
            return wants;
        }
        let mut trace = self.ring.clone();
        trace.sort_by_key(|past| past.arrived);
        let erlangs = self.erlangs(&trace, groups);
        let mut play = Play::new(self.kinds, &trace);
        for index in 0..groups.len() - 1 {
            let taken: u16 = wants[..index].iter().sum();
            let longer: f64 = erlangs[index + 1..].iter().sum();
            let needed = libm::ceil(longer / STABLE_UTILIZATION).max(1.0) as u16;
            let most = workers.saturating_sub(taken).saturating_sub(needed).max(1);
            let mut candidates: Vec<u16> = (1..=most).collect();
            let demand = wants[index];
            candidates.sort_by_key(|&want| (want.abs_diff(demand), want));
            let mut best: Option<(f64, u16)> = None;
            for want in candidates {
                let mut trial = wants.clone();
                trial[index] = want;
                // Later groups keep their share; the last takes what is left.
                let before_last: u16 = trial[..trial.len() - 1].iter().sum();
                if before_last >= workers {
                    continue;
                }
                let last = trial.len() - 1;
                trial[last] = workers - before_last;
                let table = Table::assign(groups.to_vec(), &trial, workers);
                let score = play.slowdown(&table, &trace, order, self.terms.percentile);
                if best.is_none_or(|(least, _)| score < least * (1.0 - self.terms.margin)) {
                    best = Some((score, want));
                }
            }
            if let Some((_, want)) = best {
                wants[index] = want;
            }
        }
        let before_last: u16 = wants[..wants.len() - 1].iter().sum();
        if let Some(last) = wants.last_mut() {
            *last = workers.saturating_sub(before_last).max(1);
        }
        wants
    }

    /// Offered load of each group over the trace.
    fn erlangs(&self, trace: &[Past], groups: &[Group]) -> Vec<f64> {
        let (Some(first), Some(last)) = (trace.first(), trace.last()) else {
            return alloc::vec![0.0; groups.len()];
        };
        let elapsed = last.arrived.since(first.arrived).as_ns().max(1) as f64;
        groups
            .iter()
            .map(|group| {
                let work = trace.iter().filter(|past| group.members.contains(&past.kind));
                work.map(|past| past.hold.as_ns() as f64).sum::<f64>() / elapsed
            })
            .collect()
    }
}

/// A stage: queues, workers and results, used again for each candidate.
struct Play {
    queues: Vec<VecDeque<u32>>,
    busy: BinaryHeap<Reverse<(Instant, u16)>>,
    means_ns: Vec<f64>,
    slowdowns: Vec<f64>,
}

impl Play {
    fn new(kinds: u16, trace: &[Past]) -> Self {
        let mut sums = alloc::vec![(0.0, 0.0); kinds as usize + 1];
        for past in trace {
            let (sum, count) = &mut sums[past.kind.0 as usize];
            *sum += past.hold.as_ns() as f64;
            *count += 1.0;
        }
        Play {
            queues: (0..=kinds).map(|_| VecDeque::new()).collect(),
            busy: BinaryHeap::new(),
            means_ns: sums
                .iter()
                .map(|&(sum, count): &(f64, f64)| (sum / count).max(1.0))
                .collect(),
            slowdowns: Vec::with_capacity(trace.len()),
        }
    }

    /// The percentile of slowdown when `trace` meets `table`.
    fn slowdown(&mut self, table: &Table, trace: &[Past], order: GroupOrder, p: f64) -> f64 {
        self.queues.iter_mut().for_each(VecDeque::clear);
        self.busy.clear();
        self.slowdowns.clear();
        let mut free = WorkerSet::range(0, table.workers);
        for (index, past) in trace.iter().enumerate() {
            while let Some(&Reverse((at, worker))) = self.busy.peek()
                && at <= past.arrived
            {
                self.busy.pop();
                self.refill(Worker(worker), at, table, trace, order, &mut free);
            }
            let eligible = table.group_of(past.kind).and_then(|group| {
                let own = free.first_common(&group.reserved);
                own.or_else(|| free.first_common(&group.stealable))
            });
            match eligible {
                Some(worker) if self.queues[past.kind.0 as usize].is_empty() => {
                    free.remove(worker);
                    self.run(past, worker, past.arrived);
                }
                _ => self.queues[past.kind.0 as usize].push_back(index as u32),
            }
        }
        while let Some(Reverse((at, worker))) = self.busy.pop() {
            self.refill(Worker(worker), at, table, trace, order, &mut free);
        }
        let rank = ((self.slowdowns.len() as f64 * p) as usize).min(self.slowdowns.len() - 1);
        *self.slowdowns.select_nth_unstable_by(rank, f64::total_cmp).1
    }

    fn run(&mut self, past: &Past, worker: Worker, at: Instant) {
        let end = at + past.hold;
        self.busy.push(Reverse((end, worker.0)));
        let mean = self.means_ns[past.kind.0 as usize];
        self.slowdowns.push(end.since(past.arrived).as_ns() as f64 / mean);
    }

    fn refill(
        &mut self,
        worker: Worker,
        at: Instant,
        table: &Table,
        trace: &[Past],
        order: GroupOrder,
        free: &mut WorkerSet,
    ) {
        for group in &table.groups {
            if !group.reserved.contains(worker) && !group.stealable.contains(worker) {
                continue;
            }
            let heads = group.members.iter().filter_map(|kind| {
                self.queues[kind.0 as usize].front().map(|&index| (index, kind.0))
            });
            let pick = match order {
                GroupOrder::ByType => heads.into_iter().next(),
                GroupOrder::Fcfs => heads.min(),
            };
            if let Some((index, kind)) = pick {
                self.queues[kind as usize].pop_front();
                self.run(&trace[index as usize], worker, at);
                return;
            }
        }
        free.insert(worker);
    }
}
