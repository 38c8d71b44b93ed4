//! Runs a plan in which schemes with fixed parts get another p while queries go on: what they copy,
//! who answers meanwhile, and for how long nothing can be written `[roar 2.8, 3.1, 0.18]`.
//!
//! What is copied costs both ends what it costs ROAR's servers, at the same share of a processor,
//! and waits for queries likewise. In three things the rivals are better off here than they would
//! be: an end does not wait for the other one, nobody asks whether there is room on a disk, and the
//! shards of Elasticsearch answer by the old index until the new one is whole everywhere.

use super::changes::{Stage, next, stages};
use super::plan::DealtPlan;
use super::run::{Cluster, Ended, PhaseRun, Replication, between, measured};
use super::scenario::{Event, Scenario, Way};
use cavy_core::{Instant, Purpose, Stream};
use cavy_lab::trail::Trail;
use cavy_search::clusters::{Clusters, Pick};
use cavy_search::scheme::{Planner, Scheme};
use cavy_search::{Load, Part, Slice};

/// What became of a change.
#[derive(Clone, Copy)]
struct Told {
    /// Nanoseconds from when it was asked for; the greatest number while it goes on.
    took: u64,
    /// Indexes.
    copied: f64,
    /// Nanoseconds in which nothing could be written.
    blocked: u64,
}

/// A change that goes on.
struct UnderWay {
    number: usize,
    at: u64,
    since: u64,
    left: std::vec::IntoIter<Stage>,
    stage: Option<Stage>,
    new: Vec<Vec<u32>>,
}

/// One replication.
pub fn once(scenario: &Scenario, seed: u64) -> Replication {
    let n = scenario.speeds.len();
    let pick = match scenario.way {
        Way::Scheme(Scheme::Clusters(pick)) => pick,
        _ => Pick::Earliest,
    };
    let mut cluster = Cluster::new(scenario, seed);
    let first = Clusters::new(&scenario.speeds, scenario.p).expect("the plan was checked");
    let mut members: Vec<Vec<u32>> =
        (0..first.count()).map(|j| first.members(j).to_vec()).collect();
    let answer = |cluster: &mut Cluster<'_>, members: &[Vec<u32>]| {
        for front_end in &mut cluster.front_ends {
            let clusters = Clusters::of(members.to_vec(), n);
            front_end.planner = Some(Planner::on_clusters(pick, clusters, n as u32));
        }
    };
    let mut arrivals = Stream::keyed(seed, 0, Purpose::Arrivals);
    let mut dealer = Stream::keyed(seed, 1, Purpose::Destinations);
    let alive = vec![true; n];
    let (mut loads, mut parts, mut lost): (Vec<Load>, Vec<Part>, Vec<Slice>) = Default::default();
    let (mut trail, mut ended, mut sent) = (Trail::new(), Vec::new(), 0u64);
    let mut clock = 0.0f64;
    let end = scenario.duration.as_ns();
    let mut events = scenario.events.iter().copied().enumerate().peekable();
    let mut under_way: Option<UnderWay> = None;
    let nothing = Told { took: u64::MAX, copied: 0.0, blocked: 0 };
    let mut told = vec![nothing; scenario.events.len()];
    for query in 0..scenario.queries {
        clock -= libm::log(arrivals.unit()) * scenario.gap_ns();
        let now = clock as u64;
        if now >= end {
            break;
        }
        cluster.hear(now);
        cluster.copy(now);
        // A change begins when it is asked for, and not before the one before is over.
        if under_way.is_none()
            && let Some((number, Event::Spread { at, p })) =
                events.next_if(|(_, event)| event.at().as_ns() <= now)
        {
            let new = next(&members, p as usize);
            let left = stages(scenario.change, n, &members, &new).into_iter();
            let (at, since, stage) = (at.as_ns(), now, None);
            under_way = Some(UnderWay { number, at, since, left, stage, new });
        }
        while let Some(change) = under_way.as_mut().filter(|_| cluster.has_copied()) {
            let told = &mut told[change.number];
            if let Some(over) = change.stage.take() {
                told.copied += if over.local { 0.0 } else { over.merged.iter().sum::<f64>() };
                told.blocked += if over.blocked { now - change.since } else { 0 };
            }
            change.since = now;
            if let Some(stage) = change.left.next() {
                answer(&mut cluster, &stage.members);
                cluster.begin_copies(&stage.read, &stage.merged, now);
                change.stage = Some(stage);
                continue;
            }
            told.took = now - change.at;
            members = std::mem::take(&mut change.new);
            answer(&mut cluster, &members);
            under_way = None;
        }
        let front_ends = scenario.front_ends as u64;
        let front_end = match scenario.dealt {
            DealtPlan::InTurn => query % front_ends,
            DealtPlan::ByChance => dealer.below(front_ends),
        } as usize;
        cluster.loads(front_end, &mut loads);
        let own = &mut cluster.front_ends[front_end];
        if let Some(planner) = &mut own.planner {
            planner.plan(&loads, &alive, &mut own.draws, &mut parts, &mut lost);
        }
        let mut last = now;
        for part in &parts {
            last = last.max(cluster.send(front_end, part.server, part.slice.width()));
        }
        sent += parts.len() as u64;
        trail.fold(Instant::from_ns(now), last);
        ended.push(Ended { sent: now, took: last - now });
    }
    let (latency, halves) = measured(&ended, scenario.warm.as_ns());
    let count = ended.len().max(1) as f64;
    let busy: Vec<f64> = cluster.busy_ns.iter().map(|&ns| ns as f64 / end as f64).collect();
    Replication {
        trail,
        latency,
        served_per_s: count / (end as f64 / 1e9),
        busy_ratio: busy.iter().sum::<f64>() / n as f64,
        busiest_ratio: busy.iter().copied().fold(0.0, f64::max),
        parts: sent as f64 / count,
        met_ratio: 1.0,
        copies: n as f64 / f64::from(scenario.p),
        phases: phases(scenario, &ended, &told),
        wrong: 0,
        partial: 0,
        timed_out_ratio: 0.0,
        written: 0,
        balance: None,
        halves,
        loss: None,
    }
}

fn phases(scenario: &Scenario, ended: &[Ended], told: &[Told]) -> Vec<PhaseRun> {
    let end = scenario.duration.as_ns();
    let mut calm_since = scenario.warm.as_ns();
    let mut phases = Vec::new();
    for (number, (event, told)) in scenario.events.iter().zip(told).enumerate() {
        let at = event.at().as_ns();
        let next = scenario.events.get(number + 1).map_or(end, |event| event.at().as_ns());
        let took = Some(told.took).filter(|took| *took <= next - at);
        let until = took.map_or(next, |took| at + took);
        let seconds = took.map(|took| took as f64 / 1e9);
        phases.push(PhaseRun {
            what: event.words(),
            at_s: at as f64 / 1e9,
            usable_s: seconds,
            reached_s: seconds,
            copied: told.copied,
            blocked_s: told.blocked as f64 / 1e9,
            before: between(ended, calm_since, at),
            during: between(ended, at, until),
            after: between(ended, until, next),
            holders_least: None,
        });
        calm_since = until;
    }
    phases
}
