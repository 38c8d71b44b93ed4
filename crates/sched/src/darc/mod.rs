//! DARC: dynamic application-aware reserved cores ([persephone 2]).
//!
//! Each group of similar types owns a whole number of workers, at least one, in order of service
//! time. Short types may also use workers of longer types; long types never use workers of shorter
//! ones, so a worker is sometimes idle while long requests wait. That idling is what keeps short
//! requests from waiting behind long ones.

pub mod profile;
pub mod rehearsal;
pub mod reservation;
pub mod sizing;

use crate::hint::TypeHint;
use crate::machine::{Admission, Discipline, Learning, Start};
use crate::queue::{Job, Queue};
use crate::workers::{Pool, WorkerSet};
use alloc::vec::Vec;
use cavy_core::family::cpu::{Kind, Worker};
use cavy_core::{Instant, Span, Stream};
use profile::{Estimator, Profile};
use rehearsal::Rehearsal;
use reservation::{Demand, Group, Table};
use sizing::Sizing;

/// Order among the types of one group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum GroupOrder {
    /// The shorter type first, as in the artifact.
    ByType,
    /// First come first served ([persephone 8.2 O4]).
    Fcfs,
}

/// Parameters of DARC; defaults and their sources in [persephone 2.11].
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Config {
    /// Relative distance within which types share a group: 0.2.
    pub delta: f64,
    /// Completions a window needs before it may be evaluated: 50 000. Start-up lasts as many.
    pub window: u64,
    /// Queueing delay, in multiples of a type's mean, that calls for a new evaluation: 10.
    pub delay_factor: u64,
    /// Relative change of demand that calls for a new reservation: 0.1.
    pub change_threshold: f64,
    /// Constant taken off measured occupancy: 230 ns.
    #[cfg_attr(feature = "serde", serde(with = "crate::written::span"))]
    pub correction: Span,
    /// Order within a group: by type.
    pub group_order: GroupOrder,
    /// Estimator of means: the window's sums.
    pub estimator: Estimator,
    /// Share out workers by occupancy, order types by service ([persephone 8.2 O2]): off.
    pub by_occupancy: bool,
    /// Throw away the window in which a change was noticed, and judge by the next one
    /// ([persephone 8.2 O3]): off.
    pub discard_straddling: bool,
    /// Change only when a demand leaves this many standard errors ([persephone 8.2 O3]): off.
    pub guard_z: Option<f64>,
    /// How many workers each group gets: its rounded demand.
    pub sizing: Sizing,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            delta: 0.2,
            window: 50_000,
            delay_factor: 10,
            change_threshold: 0.1,
            correction: Span::from_ns(230),
            group_order: GroupOrder::ByType,
            estimator: Estimator::Window,
            by_occupancy: false,
            discard_straddling: false,
            guard_z: None,
            sizing: Sizing::Demand,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Profiling under c-FCFS until the first window is full.
    StartUp,
    /// Reservations follow the profile.
    Adapting,
    /// The reservation is given and stays (DARC-static).
    Static,
}

/// DARC and DARC-static, with the state of [persephone 2.3].
#[derive(Clone, Debug)]
pub struct Darc {
    config: Config,
    phase: Phase,
    profile: Profile,
    table: Table,
    version: u32,
    /// Index 0 holds requests of unknown type.
    queues: Vec<Queue>,
    /// The one queue of start-up.
    common: Queue,
    /// Requests handed to workers so far.
    dispatched: u64,
    /// Waiting requests in `queues`.
    waiting: usize,
    /// Bit r: the queue of the type of rank r is not empty.
    waiting_ranks: u64,
    /// Type at each rank, by ascending mean.
    ranked: Vec<Kind>,
    /// Rank of each type, by index kind - 1.
    ranks: Vec<u8>,
    /// Group index at each rank.
    group_at: Vec<u8>,
    reserved: Vec<WorkerSet>,
    stealable: Vec<WorkerSet>,
    /// Per type: delay beyond which the window is evaluated.
    delay_limits: Vec<Span>,
    /// Per type: demand when the reservation was applied.
    applied: Vec<f64>,
    /// Types with completions at the last evaluation.
    active: usize,
    /// The window was reset because a change was noticed in it; evaluate the next full one.
    fresh: bool,
    demands: Vec<Demand>,
    window_started: Instant,
    rehearsal: Option<Rehearsal>,
}

impl Darc {
    /// Adaptive DARC for `kinds` types. With a hint for every type it starts with a reservation;
    /// otherwise it starts profiling under c-FCFS ([persephone 2.2]).
    /// Each type's queue holds `queue_limit` requests.
    pub fn adaptive(
        config: Config,
        kinds: u16,
        workers: u16,
        queue_limit: u32,
        hints: Option<&[TypeHint]>,
    ) -> Self {
        let mut darc = Darc::blank(config, kinds, workers, queue_limit, Phase::StartUp);
        if let Some(hints) = hints {
            darc.phase = Phase::Adapting;
            darc.demands = hints
                .iter()
                .enumerate()
                .map(|(index, hint)| Demand {
                    kind: Kind(index as u16 + 1),
                    order_ns: hint.mean.as_ns() as f64,
                    hold_ns: hint.mean.as_ns() as f64,
                    ratio: hint.ratio,
                })
                .collect();
            darc.active = hints.iter().filter(|hint| hint.ratio > 0.0).count();
            darc.apply(workers, 0.0);
        }
        darc
    }

    /// DARC-static ([persephone 2.10]), for any number of groups: `groups` lists types and the
    /// number of workers reserved to them, shortest first; the last group has all that remain.
    /// No profiling, no update, no spillway: a group left without workers starves.
    pub fn fixed(queue_limit: u32, groups: &[(Vec<Kind>, u16)], workers: u16) -> Self {
        let kinds = groups.iter().map(|(members, _)| members.len() as u16).sum();
        let mut darc = Darc::blank(Config::default(), kinds, workers, queue_limit, Phase::Static);
        darc.table = fixed_table(groups, workers);
        darc.adopt();
        darc
    }

    fn blank(config: Config, kinds: u16, workers: u16, queue_limit: u32, phase: Phase) -> Self {
        let count = kinds as usize;
        let rehearsal = match config.sizing {
            Sizing::Rehearsed(ref terms) => Some(Rehearsal::new(terms.clone(), kinds)),
            _ => None,
        };
        Darc {
            profile: Profile::new(kinds, config.estimator, config.correction),
            queues: (0..=kinds).map(|_| Queue::new(queue_limit)).collect(),
            common: Queue::new(queue_limit),
            phase,
            table: Table { groups: Vec::new(), workers, left: workers },
            version: 0,
            dispatched: 0,
            waiting: 0,
            waiting_ranks: 0,
            ranked: (1..=kinds).map(Kind).collect(),
            ranks: (0..kinds as u8).collect(),
            group_at: alloc::vec![0; count],
            reserved: alloc::vec![WorkerSet::EMPTY; count],
            stealable: alloc::vec![WorkerSet::EMPTY; count],
            delay_limits: alloc::vec![Span::MAX; count],
            applied: alloc::vec![0.0; count],
            active: 0,
            fresh: false,
            demands: Vec::with_capacity(count),
            window_started: Instant::ZERO,
            rehearsal,
            config,
        }
    }

    /// Computes a reservation from `demands` and puts it in force ([persephone 2.8]). `elapsed_s`
    /// is the length of the window, for sizing by absolute load; 0 when there was none.
    fn apply(&mut self, workers: u16, elapsed_s: f64) {
        let groups = Table::group(&mut self.demands, self.config.delta, workers);
        let arrivals_per_s =
            if elapsed_s > 0.0 { self.profile.completions() as f64 / elapsed_s } else { 0.0 };
        let wants = match (&mut self.rehearsal, &self.config.sizing) {
            (Some(rehearsal), _) => rehearsal.choose(&groups, workers, self.config.group_order),
            (None, sizing) => sizing.wants(&groups, &self.demands, workers, arrivals_per_s),
        };
        self.table = Table::assign(groups, &wants, workers);
        let work: f64 = self.demands.iter().map(|d| d.hold_ns * d.ratio).sum();
        for demand in &self.demands {
            let index = demand.kind.0 as usize - 1;
            self.applied[index] = demand.hold_ns * demand.ratio / work * f64::from(workers);
            let mean = Span::from_ns(demand.order_ns as u64);
            self.delay_limits[index] = mean.saturating_mul(self.config.delay_factor);
        }
        self.adopt();
    }

    /// Derives the dispatch order from the table.
    fn adopt(&mut self) {
        let mut rank = 0;
        for (index, group) in self.table.groups.iter().enumerate() {
            for &kind in &group.members {
                self.ranked[rank] = kind;
                self.ranks[kind.0 as usize - 1] = rank as u8;
                self.group_at[rank] = index as u8;
                self.reserved[rank] = group.reserved;
                self.stealable[rank] = group.stealable;
                rank += 1;
            }
        }
        self.version += 1;
        self.waiting_ranks = 0;
        for (rank, kind) in self.ranked.iter().enumerate() {
            if !self.queues[kind.0 as usize].is_empty() {
                self.waiting_ranks |= 1 << rank;
            }
        }
    }

    /// Has some type's second oldest request waited beyond its limit? ([persephone 2.7])
    fn delayed(&self, now: Instant) -> bool {
        self.queues[1..].iter().zip(&self.delay_limits).any(|(queue, &limit)| {
            queue.second().is_some_and(|second| now.since(second.arrived) > limit)
        })
    }

    /// [persephone 2.7]: has the mix changed enough for a new reservation?
    fn changed(&mut self, workers: u16) -> bool {
        let work: f64 = self.demands.iter().map(|d| d.hold_ns * d.ratio).sum();
        let active = self.profile.active();
        let mut changed = active != self.active;
        self.active = active;
        for demand in &self.demands {
            let before = self.applied[demand.kind.0 as usize - 1];
            let now = demand.hold_ns * demand.ratio / work * f64::from(workers);
            let mut band = self.config.change_threshold * before;
            if let Some(z) = self.config.guard_z {
                let error = self.profile.demand_error(demand.kind, &self.demands, workers);
                band = band.max(z * error);
            }
            changed |= (now - before).abs() > band;
        }
        changed
    }

    fn next_window(&mut self, now: Instant) {
        self.profile.reset();
        self.window_started = now;
    }

    fn end_start_up(&mut self, workers: u16, now: Instant) {
        self.profile.demands(self.config.by_occupancy, &mut self.demands);
        self.active = self.profile.active();
        self.phase = Phase::Adapting;
        // The artifact leaves these to the spillway, one a round; sorted into their own queues they
        // wait no longer than they would have.
        while let Some(job) = self.common.pop() {
            self.queues[job.kind.0 as usize].push_admitted(job);
            self.waiting += 1;
        }
        self.apply(workers, now.since(self.window_started).as_ns() as f64 / 1e9);
        self.next_window(now);
    }

    #[inline]
    fn take(&mut self, rank: usize) -> Option<Job> {
        let queue = &mut self.queues[self.ranked[rank].0 as usize];
        let job = queue.pop()?;
        if queue.is_empty() {
            self.waiting_ranks &= !(1 << rank);
        }
        self.waiting -= 1;
        Some(job)
    }

    /// The rank that goes next on `worker`.
    #[inline]
    fn rank_for(&self, worker: Worker) -> Option<usize> {
        let mut left = self.waiting_ranks;
        while left != 0 {
            let rank = left.trailing_zeros() as usize;
            if self.reserved[rank].contains(worker) || self.stealable[rank].contains(worker) {
                return Some(match self.config.group_order {
                    GroupOrder::ByType => rank,
                    GroupOrder::Fcfs => self.oldest_in_group(rank),
                });
            }
            left &= left - 1;
        }
        None
    }

    fn oldest_in_group(&self, rank: usize) -> usize {
        let group = self.group_at[rank];
        let ranks = (rank..self.ranked.len()).take_while(|&r| self.group_at[r] == group);
        ranks
            .filter_map(|r| {
                let head = self.queues[self.ranked[r].0 as usize].head()?;
                Some((head.arrived, head.req, r))
            })
            .min()
            .map_or(rank, |(_, _, r)| r)
    }

    fn admit_typed(&mut self, job: Job, pool: &Pool) -> Admission {
        let rank = self.ranks[job.kind.0 as usize - 1] as usize;
        if self.waiting_ranks >> rank & 1 == 0 {
            if let Some(worker) = pool.free().first_common(&self.reserved[rank]) {
                return Admission::Run { worker, stolen: false };
            }
            if let Some(worker) = pool.free().first_common(&self.stealable[rank]) {
                return Admission::Run { worker, stolen: true };
            }
        }
        match self.queues[job.kind.0 as usize].push(job) {
            Ok(()) => {
                self.waiting_ranks |= 1 << rank;
                self.waiting += 1;
                Admission::Queued
            }
            Err(_) => Admission::Full,
        }
    }

    /// [persephone 2.9]: requests of unknown type use the spillway only.
    fn admit_unknown(&mut self, job: Job, pool: &Pool) -> Admission {
        let spillway = Table::spillway(pool.count());
        if pool.free().contains(spillway) {
            return Admission::Run { worker: spillway, stolen: false };
        }
        match self.queues[0].push(job) {
            Ok(()) => {
                self.waiting += 1;
                Admission::Queued
            }
            Err(_) => Admission::Full,
        }
    }
}

/// Groups in the given order on consecutive workers; the last one has the rest.
fn fixed_table(groups: &[(Vec<Kind>, u16)], workers: u16) -> Table {
    let mut next = 0;
    let last = groups.len().saturating_sub(1);
    let built = groups
        .iter()
        .enumerate()
        .map(|(index, (members, want))| {
            let take = if index == last { workers - next } else { (*want).min(workers - next) };
            let reserved = WorkerSet::range(next, next + take);
            next += take;
            let stealable = WorkerSet::range(next, workers);
            let demand = f64::from(take);
            Group {
                members: members.clone(),
                demand,
                reserved,
                own: take,
                spills: false,
                stealable,
            }
        })
        .collect();
    Table { groups: built, workers, left: workers - next }
}

impl Discipline for Darc {
    #[inline]
    fn admit(&mut self, job: Job, pool: &Pool, _: &mut Stream) -> Admission {
        let admission = if self.phase == Phase::StartUp {
            match pool.free().first() {
                Some(worker) => Admission::Run { worker, stolen: false },
                None => match self.common.push(job) {
                    Ok(()) => Admission::Queued,
                    Err(_) => Admission::Full,
                },
            }
        } else if job.kind == Kind::UNKNOWN {
            self.admit_unknown(job, pool)
        } else {
            self.admit_typed(job, pool)
        };
        if matches!(admission, Admission::Run { .. }) {
            self.dispatched += 1;
        }
        admission
    }

    #[inline]
    fn next(&mut self, worker: Worker, pool: &Pool, _: Instant, _: &mut Stream) -> Option<Start> {
        let start = if self.phase == Phase::StartUp {
            self.common.pop().map(|job| Start { job, stolen: false })
        } else if self.waiting == 0 {
            None
        } else if let Some(rank) = self.rank_for(worker) {
            let stolen = !self.reserved[rank].contains(worker);
            self.take(rank).map(|job| Start { job, stolen })
        } else if worker == Table::spillway(pool.count()) {
            let job = self.queues[0].pop();
            self.waiting -= usize::from(job.is_some());
            job.map(|job| Start { job, stolen: false })
        } else {
            None
        };
        self.dispatched += u64::from(start.is_some());
        start
    }

    #[inline]
    fn finished(&mut self, job: Job, occupied: Span, service: Option<Span>, now: Instant) {
        if self.phase != Phase::Static {
            self.profile.record(job.kind, occupied, service);
            if let Some(rehearsal) = &mut self.rehearsal {
                rehearsal.remember(job.kind, job.arrived, occupied, now);
            }
        }
    }

    #[inline]
    fn revise(&mut self, pool: &Pool, now: Instant) -> Option<u32> {
        match self.phase {
            Phase::Static => None,
            Phase::StartUp => {
                let ready = self.dispatched >= self.config.window && self.profile.active() > 0;
                if !ready {
                    return None;
                }
                self.end_start_up(pool.count(), now);
                Some(self.version)
            }
            Phase::Adapting => {
                if self.profile.completions() <= self.config.window {
                    return None;
                }
                if !self.fresh {
                    if !self.delayed(now) {
                        return None;
                    }
                    if self.config.discard_straddling {
                        self.fresh = true;
                        self.next_window(now);
                        return None;
                    }
                }
                self.fresh = false;
                self.profile.demands(self.config.by_occupancy, &mut self.demands);
                // Other sizings than by demand may find a better table for the same mix.
                let by_demand = self.config.sizing == Sizing::Demand;
                let changed = self.changed(pool.count()) || !by_demand;
                if changed {
                    self.apply(pool.count(), now.since(self.window_started).as_ns() as f64 / 1e9);
                }
                self.next_window(now);
                changed.then_some(self.version)
            }
        }
    }

    fn resized(&mut self, pool: &Pool, _: Instant) -> Option<u32> {
        if self.table.groups.is_empty() || self.table.workers == pool.count() {
            return (self.version > 0).then_some(self.version);
        }
        if self.phase == Phase::Static {
            let groups: Vec<_> =
                self.table.groups.iter().map(|g| (g.members.clone(), g.own)).collect();
            self.table = fixed_table(&groups, pool.count());
            self.adopt();
        } else {
            self.apply(pool.count(), 0.0);
        }
        Some(self.version)
    }

    fn waiting(&self) -> usize {
        self.waiting + self.common.len()
    }

    fn could_run(&self, worker: Worker, pool: &Pool) -> bool {
        !self.common.is_empty()
            || self.rank_for(worker).is_some()
            || (worker == Table::spillway(pool.count()) && !self.queues[0].is_empty())
    }

    fn reservation(&self) -> Option<&Table> {
        (self.phase != Phase::StartUp).then_some(&self.table)
    }

    fn learning(&self) -> Option<Learning> {
        let (seen, needed) = (self.dispatched, self.config.window);
        let start_up = self.phase == Phase::StartUp;
        start_up.then_some(Learning { seen, needed, meanwhile: "c-FCFS" })
    }

    fn check(&self, pool: &Pool) {
        let queued: usize = self.queues.iter().map(Queue::len).sum();
        assert_eq!(queued, self.waiting);
        for (rank, kind) in self.ranked.iter().enumerate() {
            let waits = !self.queues[kind.0 as usize].is_empty();
            assert_eq!(self.waiting_ranks >> rank & 1 == 1, waits, "{kind:?}");
        }
        if self.phase == Phase::StartUp {
            return;
        }
        assert_eq!(self.table.workers, pool.count());
        if self.phase == Phase::Adapting {
            self.table.check();
        }
    }
}
