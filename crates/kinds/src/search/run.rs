//! Runs one replication, and puts replications together.
//!
//! A cluster of servers that take sub-queries one at a time in order of arrival, without a network,
//! is a recursion over the times at which they are free: a sub-query begins when it comes or when
//! its server is free, and a query ends with its last part. That is exact, and needs no queue of
//! events where one front end knows all. Several front ends, and schemes that learn from answers,
//! hear of them when they come.

use super::balancing::{self, BalanceRun};
use super::copier::Copier;
use super::machines;
use super::plan::DealtPlan;
use super::rebuild;
use super::result::{Draw, Loss, Phase, Searched};
use super::scenario::{Scenario, Way};
use super::standing;
use crate::Latency;
use crate::halves::Halves;
use cavy_core::{Instant, Purpose, Stream};
use cavy_lab::statistics::histogram::Histogram;
use cavy_lab::theory;
use cavy_lab::trail::Trail;
use cavy_search::clusters::Pick;
use cavy_search::ring::WHOLE;
use cavy_search::scheme::{Planner, Ranges, Scheme, Start};
use cavy_search::{Load, Part, Slice, loss};
use cavy_study::outcome::Estimate;
use cavy_study::point::{Manner, RunError};
use cavy_study::subject::Summed;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What one replication came to.
pub struct Replication {
    pub(super) trail: Trail,
    pub(super) latency: Histogram,
    pub(super) served_per_s: f64,
    pub(super) busy_ratio: f64,
    pub(super) busiest_ratio: f64,
    pub(super) parts: f64,
    pub(super) met_ratio: f64,
    pub(super) copies: f64,
    pub(super) phases: Vec<PhaseRun>,
    /// Answers that lack something, have it twice, or in a version that is too old.
    pub(super) wrong: u64,
    /// Answers that say what they could not look at.
    pub(super) partial: u64,
    /// Share of the answers that were given at a deadline.
    pub(super) timed_out_ratio: f64,
    /// Writes that were acknowledged.
    pub(super) written: u64,
    pub(super) balance: Option<BalanceRun>,
    pub(super) halves: Halves,
    pub(super) loss: Option<Lost>,
}

/// Queries of some time: the sum of what they took, how many, and the longest; milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Span {
    pub(super) sum_ms: f64,
    pub(super) queries: u64,
    pub(super) most_ms: f64,
}

impl Span {
    fn mean(self) -> Option<f64> {
        (self.queries > 0).then(|| self.sum_ms / self.queries as f64)
    }
}

/// A query that ended: when it was sent, and what it took, nanoseconds.
#[derive(Clone, Copy)]
pub struct Ended {
    pub(super) sent: u64,
    pub(super) took: u64,
}

/// What queries took that were sent from `warm` on, nanoseconds: all, and by halves of that time.
pub(super) fn measured(ended: &[Ended], warm: u64) -> (Histogram, Halves) {
    let (mut latency, mut halves) = (Histogram::new(), Halves::default());
    let last = ended.iter().map(|one| one.sent).max().unwrap_or(0);
    let middle = warm.midpoint(last);
    for one in ended.iter().filter(|one| one.sent >= warm) {
        latency.record(one.took);
        halves.add(usize::from(one.sent >= middle), one.took);
    }
    (latency, halves)
}

/// Of queries that were sent from `from` and before `to`.
pub(super) fn between(ended: &[Ended], from: u64, to: u64) -> Span {
    let inside = ended.iter().filter(|one| (from..to).contains(&one.sent));
    inside.fold(Span::default(), |all, one| {
        let ms = one.took as f64 / 1e6;
        Span { sum_ms: all.sum_ms + ms, queries: all.queries + 1, most_ms: all.most_ms.max(ms) }
    })
}

/// What became of an event in one replication.
#[derive(Clone, Debug)]
pub struct PhaseRun {
    pub(super) what: String,
    pub(super) at_s: f64,
    pub(super) usable_s: Option<f64>,
    pub(super) reached_s: Option<f64>,
    pub(super) copied: f64,
    /// Nothing could be written for so long.
    pub(super) blocked_s: f64,
    pub(super) before: Span,
    pub(super) during: Span,
    pub(super) after: Span,
    /// Of a crash: the fewest live servers that still had the same document.
    pub(super) holders_least: Option<u32>,
}

impl PhaseRun {
    fn during_ratio(&self) -> Option<f64> {
        Some(self.during.mean()? / self.before.mean()?)
    }
}

#[derive(Clone, Copy, Default)]
pub(super) struct Lost {
    any: u64,
    more: u64,
    share: f64,
}

/// An answer under way to a front end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Answer {
    at: u64,
    serial: u64,
    front_end: usize,
    server: u32,
    sent: u64,
    service: u64,
}

/// A front end: what it believes, and how it plans.
pub(super) struct FrontEnd {
    pub(super) planner: Option<Planner>,
    pub(super) draws: Stream,
    /// When each server is free, as it believes.
    free_at: Vec<u64>,
}

/// The servers and all that is under way.
pub(super) struct Cluster<'a> {
    scenario: &'a Scenario,
    now: u64,
    /// When a processor of each server is free.
    free_at: Vec<u64>,
    /// When the other processors of each server are, the first one last.
    others: Vec<Vec<u64>>,
    pub(super) busy_ns: Vec<u64>,
    /// What servers copy beside queries, by server; none of a cluster that stays as it is.
    copiers: Vec<Copier>,
    /// Sub-queries at each server, the one that it works on included.
    waiting: Vec<u32>,
    pub(super) front_ends: Vec<FrontEnd>,
    answers: BinaryHeap<Reverse<Answer>>,
    /// Somebody has to hear of answers.
    hears: bool,
    next_report: u64,
    serial: u64,
}

impl<'a> Cluster<'a> {
    pub(super) fn new(scenario: &'a Scenario, seed: u64) -> Self {
        let n = scenario.speeds.len();
        let front_ends = (0..scenario.front_ends).map(|number| FrontEnd {
            planner: scenario.planner(seed),
            draws: Stream::keyed(seed, number as u32, Purpose::Machine),
            free_at: vec![0; if scenario.front_ends > 1 { n } else { 0 }],
        });
        let learns = matches!(
            scenario.way,
            Way::Scheme(Scheme::Clusters(Pick::Adaptive | Pick::LeastOutstanding))
        );
        Cluster {
            scenario,
            now: 0,
            free_at: vec![0; n],
            others: vec![vec![0; usize::from(scenario.cores) - 1]; n],
            busy_ns: vec![0; n],
            copiers: Vec::new(),
            waiting: vec![0; n],
            front_ends: front_ends.collect(),
            answers: BinaryHeap::new(),
            hears: learns || scenario.front_ends > 1,
            next_report: scenario.report_ns.unwrap_or(u64::MAX),
            serial: 0,
        }
    }

    /// Front ends hear what came until `now`.
    pub(super) fn hear(&mut self, now: u64) {
        self.now = now;
        if !self.hears {
            return;
        }
        loop {
            let next = self.answers.peek().map_or(u64::MAX, |answer| answer.0.at);
            if self.next_report <= now && self.next_report <= next {
                for front_end in &mut self.front_ends {
                    front_end.free_at.clone_from(&self.free_at);
                }
                self.next_report += self.scenario.report_ns.unwrap_or(u64::MAX);
            } else if next <= now {
                let Some(Reverse(answer)) = self.answers.pop() else { return };
                let server = answer.server as usize;
                self.waiting[server] -= 1;
                let front_end = &mut self.front_ends[answer.front_end];
                if let Some(free_at) = front_end.free_at.get_mut(server) {
                    *free_at = self.free_at[server];
                }
                if let Some(planner) = &mut front_end.planner {
                    let ms = |ns: u64| ns as f64 / 1e6;
                    let (took, service) = (ms(answer.at - answer.sent), ms(answer.service));
                    let queue = f64::from(self.waiting[server]);
                    planner.answered(answer.server, took, service, queue);
                }
            } else {
                return;
            }
        }
    }

    /// What front end `number` believes of each server.
    pub(super) fn loads(&self, number: usize, loads: &mut Vec<Load>) {
        let believed = &self.front_ends[number].free_at;
        let free_at = if believed.is_empty() { &self.free_at } else { believed };
        let costs = self.scenario.costs.iter().zip(free_at);
        loads.clear();
        loads.extend(
            costs.map(|(&cost, &free_at)| Load { free_ns: free_at.saturating_sub(self.now), cost }),
        );
    }

    /// Servers copy in what time queries leave them until `now`.
    pub(super) fn copy(&mut self, now: u64) {
        let servers = self.free_at.iter_mut().zip(&mut self.busy_ns);
        for (copier, (free_at, busy_ns)) in self.copiers.iter_mut().zip(servers) {
            let before = *free_at;
            *busy_ns += copier.copy(free_at, now);
            debug_assert!(*free_at >= before);
        }
    }

    /// Each server is to read `read` and to take in `merged` of the index.
    pub(super) fn begin_copies(&mut self, read: &[f64], merged: &[f64], now: u64) {
        let each = read.iter().zip(merged).zip(&self.scenario.costs);
        let percent = self.scenario.copy_percent;
        let waits = self.scenario.copies_wait;
        self.copiers = each
            .map(|((read, merged), cost)| {
                let ns =
                    |share: &f64| (share * machines::COPYING as f64 * cost.scan_ns as f64) as u64;
                Copier::new([ns(read), ns(merged)], percent, waits, now)
            })
            .collect();
    }

    /// All that was to be copied is.
    pub(super) fn has_copied(&self) -> bool {
        self.copiers.iter().all(Copier::is_done)
    }

    /// Sends a sub-query; returns when it is done.
    pub(super) fn send(&mut self, front_end: usize, server: u32, width: u128) -> u64 {
        let at = server as usize;
        let service = self.scenario.costs[at].of(width);
        let done = self.free_at[at].max(self.now) + service;
        self.free_at[at] = later(&mut self.others[at], done);
        self.busy_ns[at] += service;
        if !self.hears {
            return done;
        }
        self.waiting[at] += 1;
        self.serial += 1;
        let (serial, sent) = (self.serial, self.now);
        let own = &mut self.front_ends[front_end];
        if let Some(free_at) = own.free_at.get_mut(at) {
            // Of several processors it knows the first that is free, and not how far the others
            // are: on average each does a part of what it sends.
            *free_at = (*free_at).max(self.now) + service / u64::from(self.scenario.cores);
        }
        if let Some(planner) = &mut own.planner {
            planner.sent(server);
        }
        let answer = Answer { at: done, serial, front_end, server, sent, service };
        self.answers.push(Reverse(answer));
        done
    }
}

/// When a processor is free if the one that was free first is busy until `done`. `others` are those
/// of the other ones, the first one last.
fn later(others: &mut [u64], done: u64) -> u64 {
    match others.last().copied() {
        Some(first) if first < done => {
            let place = others.partition_point(|other| *other > done);
            others[place..].rotate_right(1);
            others[place] = done;
            first
        }
        _ => done,
    }
}

/// Asks servers by chance: the best of several sets. Returns when the last is done, and the share
/// of documents that have a copy on one of them, by `DOCUMENTS` documents of chance.
fn ask_by_chance(
    cluster: &mut Cluster<'_>,
    (copies, asked, best_of): (u32, u32, u32),
    loads: &[Load],
    draws: &mut Stream,
) -> (u64, f64) {
    const DOCUMENTS: u32 = 10;
    let n = loads.len() as u32;
    // Each server holds as much as all copies spread evenly come to.
    let width = (WHOLE as f64 * f64::from(copies) / f64::from(n)) as u128;
    let mut best: Option<(u64, Vec<bool>)> = None;
    for _ in 0..best_of {
        let left_out = loss::drawn(n, asked, draws);
        let set = || (0..n).filter(|&server| !left_out[server as usize]);
        let finish = set().map(|server| loads[server as usize].finish(width)).max().unwrap_or(0);
        if best.as_ref().is_none_or(|(least, _)| finish < *least) {
            best = Some((finish, left_out));
        }
    }
    let Some((_, left_out)) = best else { return (cluster.now, 0.0) };
    let mut end = cluster.now;
    for server in (0..n).filter(|&server| !left_out[server as usize]) {
        end = end.max(cluster.send(0, server, width));
    }
    let met = |draws: &mut Stream| {
        let elsewhere = loss::drawn(n, copies, draws);
        (0..n as usize).any(|server| !elsewhere[server] && !left_out[server])
    };
    let met = (0..DOCUMENTS).filter(|_| met(draws)).count();
    (end, met as f64 / f64::from(DOCUMENTS))
}

fn once(scenario: &Scenario, seed: u64) -> Replication {
    let n = scenario.speeds.len();
    let mut cluster = Cluster::new(scenario, seed);
    let mut arrivals = Stream::keyed(seed, 0, Purpose::Arrivals);
    let mut chance = Stream::keyed(seed, 0, Purpose::Destinations);
    let mut dealer = Stream::keyed(seed, 1, Purpose::Destinations);
    let mut faults = Stream::keyed(seed, 0, Purpose::Faults);
    let alive = loss::drawn(n as u32, scenario.dead, &mut faults);
    let (mut loads, mut parts, mut lost): (Vec<Load>, Vec<Part>, Vec<Slice>) = Default::default();
    let mut latency = Histogram::new();
    let mut trail = Trail::new();
    let (mut sent, mut met) = (0u64, 0.0f64);
    let (mut clock, mut last) = (0.0f64, 0u64);
    let measured = scenario.queries - scenario.warmup;
    let mut halves = Halves::default();
    for query in 0..scenario.queries {
        clock -= libm::log(arrivals.unit()) * scenario.gap_ns;
        let now = clock as u64;
        cluster.hear(now);
        let front_ends = scenario.front_ends as u64;
        let front_end = match scenario.dealt {
            DealtPlan::InTurn => query % front_ends,
            DealtPlan::ByChance => dealer.below(front_ends),
        } as usize;
        cluster.loads(front_end, &mut loads);
        let mut end = now;
        let mut share = 1.0;
        match scenario.way {
            Way::Random { copies, asked, best_of } => {
                let how = (copies, asked, best_of);
                (end, share) = ask_by_chance(&mut cluster, how, &loads, &mut chance);
                sent += u64::from(asked);
            }
            Way::Scheme(_) => {
                let own = &mut cluster.front_ends[front_end];
                if let Some(planner) = &mut own.planner {
                    planner.plan(&loads, &alive, &mut own.draws, &mut parts, &mut lost);
                    debug_assert!(
                        query % 64 > 0 || !lost.is_empty() || planner.verify(&parts).is_ok(),
                        "query {query} of seed {seed}: {:?}",
                        planner.verify(&parts)
                    );
                }
                for part in &parts {
                    end = end.max(cluster.send(front_end, part.server, part.slice.width()));
                }
                sent += parts.len() as u64;
                let gone: u128 = lost.iter().map(|slice| slice.width()).sum();
                share -= gone as f64 / WHOLE as f64;
            }
        }
        trail.fold(Instant::from_ns(now), end);
        last = last.max(end);
        if query < scenario.warmup {
            continue;
        }
        met += share;
        latency.record(end - now);
        halves.add(usize::from(2 * (query - scenario.warmup) >= measured), end - now);
    }
    let horizon = cluster.now.max(1) as f64;
    let busy = |ns: u64| ns as f64 / (horizon * f64::from(scenario.cores));
    let planner = cluster.front_ends.swap_remove(0).planner;
    let copies = match scenario.way {
        Way::Random { copies, .. } => f64::from(copies),
        Way::Scheme(_) => planner.as_ref().map_or(0.0, Planner::copies),
    };
    Replication {
        trail,
        latency,
        served_per_s: scenario.queries as f64 / (last.max(1) as f64 / 1e9),
        busy_ratio: busy(cluster.busy_ns.iter().sum()) / n as f64,
        busiest_ratio: cluster.busy_ns.iter().map(|&ns| busy(ns)).fold(0.0, f64::max),
        parts: sent as f64 / scenario.queries as f64,
        met_ratio: met / measured as f64,
        copies,
        phases: Vec::new(),
        wrong: 0,
        partial: 0,
        timed_out_ratio: 0.0,
        written: 0,
        balance: None,
        halves,
        loss: (scenario.loss_draws > 0).then(|| draw_losses(scenario, planner.as_ref(), seed)),
    }
}

/// Who is dead, and what that takes, many times.
fn draw_losses(scenario: &Scenario, planner: Option<&Planner>, seed: u64) -> Lost {
    let n = scenario.speeds.len() as u32;
    let mut draws = Stream::keyed(seed, 1, Purpose::Faults);
    let mut sum = Lost::default();
    for _ in 0..scenario.loss_draws {
        let alive = loss::drawn(n, scenario.dead, &mut draws);
        let lost = planner.map_or(0, |planner| planner.unheld(&alive));
        sum.any += u64::from(planner.is_some_and(|planner| planner.loses(&alive)));
        sum.more += u64::from(lost > WHOLE / 100_000);
        sum.share += lost as f64 / WHOLE as f64;
    }
    sum
}

/// One replication.
pub fn replicate(scenario: &Scenario, seed: u64, manner: &Manner) -> Result<Replication, RunError> {
    let run = match scenario.way {
        _ if scenario.scheduling.is_some() || scenario.balance.is_some() => machines::once,
        _ if scenario.events.is_empty() => once,
        Way::Scheme(Scheme::Clusters(_)) => rebuild::once,
        _ => machines::once,
    };
    let one = run(scenario, seed);
    if manner.twice {
        let again = run(scenario, seed);
        if let Some(parts) = one.trail.parts_from(&again.trail) {
            return Err(RunError::Diverged(format!("{parts:?}")));
        }
    }
    Ok(one)
}

pub(super) fn over(each: Vec<f64>) -> Estimate {
    Estimate::new(each.iter().sum::<f64>() / each.len().max(1) as f64, each)
}

/// With identical servers and p a divisor of their number all schemes are one queue with r servers
/// `[roar 0.12]`: how many processors, and what each takes for a sub-query, in nanoseconds.
fn one_queue(scenario: &Scenario) -> Option<(u32, f64)> {
    let n = scenario.speeds.len() as u32;
    let alike = scenario.speeds.iter().all(|speed| *speed == scenario.speeds[0]);
    let one_point_each = match scenario.way {
        Way::Scheme(Scheme::Roar(roar)) => {
            roar.start == Start::Swept && roar.parts == 1 && roar.rings == 1 && roar.splits == 0
        }
        Way::Scheme(Scheme::Clusters(pick)) => pick == Pick::Earliest,
        Way::Scheme(Scheme::Window | Scheme::Ideal) => true,
        Way::Random { .. } => false,
    };
    let plain = scenario.front_ends == 1 && scenario.dead == 0 && scenario.events.is_empty();
    let plain = plain && scenario.scheduling.is_none() && scenario.balance.is_none();
    if !(alike && one_point_each && plain && n.is_multiple_of(scenario.p)) {
        return None;
    }
    let service_ns = scenario.costs[0].of(WHOLE / u128::from(scenario.p)) as f64;
    Some((n / scenario.p * u32::from(scenario.cores), service_ns))
}

/// What theory says of the mean, in milliseconds.
fn theory_mean_ms(scenario: &Scenario) -> Option<f64> {
    let (processors, service_ns) = one_queue(scenario)?;
    let wait = theory::mdn_mean_wait(processors, 1.0 / scenario.gap_ns, service_ns);
    let mean = (service_ns + wait) / 1e6;
    mean.is_finite().then_some(mean)
}

/// In how many stretches of time that know nothing of each other the queries of all `runs` came: a
/// queue forgets how long it was in the time of diffusion, by Poisson arrivals and times that do
/// not vary.
fn stretches(scenario: &Scenario, runs: u32) -> Option<f64> {
    let (processors, service_ns) = one_queue(scenario)?;
    let processors = f64::from(processors);
    let idle = 1.0 - service_ns / (scenario.gap_ns * processors);
    let forgets_ns = 2.0 * service_ns / (processors * idle * idle);
    let whole_ns = scenario.queries as f64 * scenario.gap_ns * f64::from(runs);
    (idle > 0.0).then(|| whole_ns / forgets_ns)
}

fn losses(scenario: &Scenario, runs: &[Replication]) -> Option<Loss> {
    let each: Vec<Lost> = runs.iter().filter_map(|run| run.loss).collect();
    let draws = each.len() as u64 * u64::from(scenario.loss_draws);
    if draws == 0 {
        return None;
    }
    let n = scenario.speeds.len() as u32;
    let alike = scenario.speeds.iter().all(|speed| *speed == scenario.speeds[0]);
    let (r, dead) = (n / scenario.p, scenario.dead);
    let exact = match scenario.way {
        Way::Scheme(Scheme::Roar(roar))
            if roar.rings == 1
                && n.is_multiple_of(scenario.p)
                && (alike || roar.ranges == Ranges::Equal) =>
        {
            Some((
                loss::run_of(n, dead, r),
                loss::run_of(n, dead, r + 1),
                loss::share(n, r + 1, dead),
            ))
        }
        Way::Scheme(Scheme::Clusters(_)) => {
            let any = loss::cluster_of(scenario.p, r, dead);
            Some((any, any, loss::share(n, r, dead)))
        }
        Way::Scheme(Scheme::Window) => {
            let any = loss::run_of(n, dead, r);
            Some((any, any, loss::share(n, r, dead)))
        }
        _ => None,
    };
    let ratio = |of: fn(&Lost) -> u64| each.iter().map(of).sum::<u64>() as f64 / draws as f64;
    Some(Loss {
        draws,
        any_ratio: ratio(|lost| lost.any),
        more_ratio: ratio(|lost| lost.more),
        share: each.iter().map(|lost| lost.share).sum::<f64>() / draws as f64,
        any_exact: exact.map(|(any, _, _)| any),
        more_exact: exact.map(|(_, more, _)| more),
        share_exact: exact.map(|(_, _, share)| share),
    })
}

/// What became of each event, over all replications.
fn phases(runs: &[Replication]) -> Vec<Phase> {
    let count = runs.iter().map(|run| run.phases.len()).min().unwrap_or(0);
    let of = |at: usize| {
        let all: Vec<&PhaseRun> = runs.iter().map(|run| &run.phases[at]).collect();
        let times = |of: fn(&PhaseRun) -> Option<f64>| {
            let each: Option<Vec<f64>> = all.iter().map(|phase| of(phase)).collect();
            each.map(over)
        };
        let means = |of: fn(&PhaseRun) -> Span| {
            let each: Vec<f64> = all.iter().filter_map(|phase| of(phase).mean()).collect();
            (!each.is_empty()).then(|| over(each))
        };
        let most = |of: fn(&PhaseRun) -> Span| {
            all.iter().map(|phase| of(phase).most_ms).fold(0.0, f64::max)
        };
        let ratios: Vec<f64> = all.iter().filter_map(|phase| phase.during_ratio()).collect();
        let draw = |phase: &&PhaseRun| {
            Some(Draw {
                holders_least: phase.holders_least?,
                reached_s: phase.reached_s,
                during_ratio: phase.during_ratio(),
            })
        };
        Phase {
            what: all[0].what.clone(),
            at_s: all[0].at_s,
            usable_s: times(|phase| phase.usable_s),
            reached_s: times(|phase| phase.reached_s),
            copied: over(all.iter().map(|phase| phase.copied).collect()),
            blocked_s: all.iter().map(|phase| phase.blocked_s).sum::<f64>() / all.len() as f64,
            before_mean_ms: means(|phase| phase.before),
            during_mean_ms: means(|phase| phase.during),
            during_most_ms: most(|phase| phase.during),
            before_most_ms: most(|phase| phase.before),
            after_mean_ms: means(|phase| phase.after),
            during_ratio: (!ratios.is_empty()).then(|| over(ratios)),
            during_queries: all.iter().map(|phase| phase.during.queries).sum(),
            draws: all.iter().filter_map(draw).collect(),
        }
    };
    (0..count).map(of).collect()
}

/// What replications say together.
pub fn summarize(scenario: &Scenario, runs: &[Replication]) -> Summed<Searched> {
    let mean =
        |of: fn(&Replication) -> f64| runs.iter().map(of).sum::<f64>() / runs.len().max(1) as f64;
    let (standing, note) = standing::judge(scenario, runs);
    let copies = mean(|run| run.copies);
    let bytes = copies * scenario.documents as f64 * f64::from(scenario.document_bytes);
    Summed {
        standing,
        note,
        unformed: None,
        rate_per_s: Some(1e9 / scenario.gap_ns),
        work: scenario.queries * runs.len() as u64,
        data: Searched {
            latency: Latency::of(&runs.iter().map(|run| &run.latency).collect::<Vec<_>>())
                .in_stretches(stretches(scenario, runs.len() as u32)),
            served_per_s: over(runs.iter().map(|run| run.served_per_s).collect()),
            busy_ratio: mean(|run| run.busy_ratio),
            busiest_ratio: mean(|run| run.busiest_ratio),
            parts: mean(|run| run.parts),
            met_ratio: over(runs.iter().map(|run| run.met_ratio).collect()),
            copies,
            stored_gb: bytes / 1e9,
            theory_mean_ms: theory_mean_ms(scenario),
            loss: losses(scenario, runs),
            cost_ms: scenario.cost_ms,
            explained: scenario.explained,
            phases: phases(runs),
            wrong: runs.iter().map(|run| run.wrong).sum(),
            partial: runs.iter().map(|run| run.partial).sum(),
            timed_out_ratio: mean(|run| run.timed_out_ratio),
            written: runs.iter().map(|run| run.written).sum(),
            balance: balancing::summarize(
                runs.iter().map(|run| run.balance.as_ref()),
                scenario.balance.map(|balance| balance.every),
            ),
        },
    }
}

/// Sub-queries of one query, about.
pub fn parts_of(scenario: &Scenario) -> f64 {
    let p = f64::from(scenario.p);
    match scenario.way {
        Way::Random { asked, best_of, .. } => f64::from(asked * best_of),
        Way::Scheme(Scheme::Roar(roar)) => p * f64::from(roar.parts),
        Way::Scheme(_) => p,
    }
}

/// How many servers' loads are looked at for a query, about.
pub fn looks(scenario: &Scenario) -> f64 {
    let n = scenario.speeds.len() as f64;
    match scenario.way {
        Way::Scheme(Scheme::Roar(roar)) if roar.start == Start::Free => {
            n + 4.0 * parts_of(scenario) * (n / f64::from(scenario.p) + 1.0)
        }
        Way::Scheme(Scheme::Ideal) => 40.0 * n,
        _ => n,
    }
}
