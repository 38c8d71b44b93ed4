//! Runs a plan in which schemes with fixed parts get another p while queries go on: what they copy,
//! who answers meanwhile, and for how long nothing can be written `[roar 2.8, 3.1, 0.18]`.
//!
//! What is copied costs both ends what it costs ROAR's servers, at the same share of a processor,
//! and waits for queries likewise. In three things the rivals are better off here than they would
//! be: an end does not wait for the other one, nobody asks whether there is room on a disk, and the
//! shards of Elasticsearch answer by the old index until the new one is whole everywhere.

use super::plan::DealtPlan;
use super::run::{Cluster, Ended, PhaseRun, Replication, between};
use super::scenario::{Event, Scenario, Way};
use cavy_core::{Instant, Purpose, Stream};
use cavy_lab::statistics::histogram::Histogram;
use cavy_lab::trail::Trail;
use cavy_search::clusters::{Clusters, Pick};
use cavy_search::scheme::{Planner, Scheme};
use cavy_search::{Load, Part, Slice};

/// How a scheme with fixed parts changes p.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Change {
    /// Clusters are merged, and split.
    #[default]
    Merge,
    /// To lower p, clusters are dissolved: their servers load another part.
    Dissolve,
    /// `_shrink` and `_split`.
    Shards,
}

/// Until all of this is copied, `members` answer.
struct Stage {
    members: Vec<Vec<u32>>,
    /// What each server reads for others, and what it takes in: shares of the index.
    read: Vec<f64>,
    merged: Vec<f64>,
    /// Nothing can be written.
    blocked: bool,
    /// What is taken in was on this server before.
    local: bool,
}

/// The clusters that `old` ones become with `p` parts. p changes by a whole factor.
fn next(old: &[Vec<u32>], p: usize) -> Vec<Vec<u32>> {
    if p <= old.len() {
        return old.chunks(old.len() / p).map(|group| group.concat()).collect();
    }
    let into = p / old.len();
    old.iter().flat_map(|one| one.chunks(one.len() / into).map(<[u32]>::to_vec)).collect()
}

/// What has to be done before the clusters `old` have become those of `next`.
fn stages(change: Change, servers: usize, old: &[Vec<u32>], new: &[Vec<u32>]) -> Vec<Stage> {
    let (p, q) = (old.len() as f64, new.len() as f64);
    let stage = |members: &[Vec<u32>], blocked: bool| Stage {
        members: members.to_vec(),
        read: vec![0.0; servers],
        merged: vec![0.0; servers],
        blocked,
        local: false,
    };
    // The first server of each cluster gives what the others of it take in.
    let replicas = || {
        let mut last = stage(old, false);
        for (first, others) in new.iter().filter_map(|one| one.split_first()) {
            last.read[*first as usize] += others.len() as f64 / q;
            others.iter().for_each(|other| last.merged[*other as usize] += 1.0 / q);
        }
        last
    };
    let falls = new.len() < old.len();
    match change {
        // Both halves of a cluster drop, and nothing else.
        Change::Merge | Change::Dissolve if !falls => Vec::new(),
        Change::Merge => {
            let mut only = stage(old, false);
            let more = 1.0 / q - 1.0 / p;
            (only.read, only.merged) = (vec![more; servers], vec![more; servers]);
            vec![only]
        }
        Change::Dissolve => {
            let group = old.len() / new.len();
            let kept: Vec<Vec<u32>> = old.iter().step_by(group).cloned().collect();
            let (mut first, mut second) = (stage(old, false), stage(&kept, false));
            let is_kept = |server: &u32| kept.iter().any(|one| one.contains(server));
            let (stay, go): (Vec<u32>, Vec<u32>) = (0..servers as u32).partition(is_kept);
            let (more, all) = (1.0 / q - 1.0 / p, 1.0 / q);
            let ratio = stay.len() as f64 / go.len() as f64;
            for server in stay.iter().map(|server| *server as usize) {
                first.merged[server] = more;
                second.read[server] = all / ratio;
            }
            for server in go.iter().map(|server| *server as usize) {
                first.read[server] = more * ratio;
                second.merged[server] = all;
            }
            vec![first, second]
        }
        Change::Shards if falls => {
            // A copy of every shard to one node, while nothing may be written; it makes the new
            // shards by links, and gives all but one away.
            let (mut first, mut second) = (stage(old, true), stage(old, false));
            let node = old[0][0] as usize;
            for other in old.iter().skip(1) {
                first.read[other[0] as usize] += 1.0 / p;
                first.merged[node] += 1.0 / p;
            }
            for other in new.iter().skip(1) {
                second.read[node] += 1.0 / q;
                second.merged[other[0] as usize] += 1.0 / q;
            }
            vec![first, second, replicas()]
        }
        Change::Shards => {
            // Each shard is written anew where it is, without what belongs to others, while nothing
            // may be written; then the new ones are spread.
            let (mut first, mut second) = (stage(old, true), stage(old, false));
            first.local = true;
            let into = new.len() / old.len();
            for (one, parts) in old.iter().zip(new.chunks(into)) {
                first.merged[one[0] as usize] += 1.0 / p;
                for other in parts.iter().skip(1) {
                    second.read[one[0] as usize] += 1.0 / q;
                    second.merged[other[0] as usize] += 1.0 / q;
                }
            }
            vec![first, second, replicas()]
        }
    }
}

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
    let warm = scenario.warm.as_ns();
    let (mut histogram, mut sum_ns) = (Histogram::new(), 0u128);
    for one in ended.iter().filter(|one| one.sent >= warm) {
        histogram.record(one.took);
        sum_ns += u128::from(one.took);
    }
    let count = ended.len().max(1) as f64;
    let busy: Vec<f64> = cluster.busy_ns.iter().map(|&ns| ns as f64 / end as f64).collect();
    Replication {
        trail,
        histogram,
        sum_ns,
        served_per_s: count / (end as f64 / 1e9),
        busy_ratio: busy.iter().sum::<f64>() / n as f64,
        busiest_ratio: busy.iter().copied().fold(0.0, f64::max),
        parts: sent as f64 / count,
        met_ratio: 1.0,
        copies: n as f64 / f64::from(scenario.p),
        phases: phases(scenario, &ended, &told),
        wrong: 0,
        partial: 0,
        written: 0,
        backlog_ns: (0.0, 0.0),
        behind_ratio: 0.0,
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
        });
        calm_since = until;
    }
    phases
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clusters(p: u32) -> Vec<Vec<u32>> {
        (0..p).map(|j| (0..48).filter(|server| server % p == j).collect()).collect()
    }

    /// Every change of a whole factor: what is read is what is taken in, everybody is in one new
    /// cluster, and totals are those of the specification.
    #[test]
    fn clause_3_1_what_is_copied_is_read_somewhere() {
        for change in [Change::Merge, Change::Dissolve, Change::Shards] {
            for (p, q) in [(48, 24), (24, 6), (12, 6), (6, 12), (6, 48)] {
                let (old, new) = (clusters(p), next(&clusters(p), q as usize));
                let mut all: Vec<u32> = new.concat();
                all.sort_unstable();
                assert_eq!((new.len(), all), (q as usize, (0..48).collect::<Vec<u32>>()));
                let mut copied = 0.0;
                for stage in stages(change, 48, &old, &new) {
                    let sum = |all: &[f64]| all.iter().sum::<f64>();
                    let (read, merged) = (sum(&stage.read), sum(&stage.merged));
                    let known = if stage.local { 0.0 } else { merged };
                    assert!((read - known).abs() < 1e-9, "{change:?}, {p} to {q}: {read} {merged}");
                    copied += known;
                }
                let (old_p, new_p) = (f64::from(p), f64::from(q));
                let moved = 48.0 * (1.0 / new_p - 1.0 / old_p);
                match change {
                    _ if q > p && change != Change::Shards => assert_eq!(copied, 0.0),
                    Change::Merge => assert!((copied - moved).abs() < 1e-9),
                    // Half of the clusters dissolve: half as much again [roar 2.8].
                    Change::Dissolve if p == 2 * q => {
                        assert!((copied - 1.5 * moved).abs() < 1e-9, "{copied} of {moved}");
                    }
                    Change::Dissolve => assert!(copied > moved),
                    Change::Shards => assert!(copied > moved),
                }
            }
        }
    }
}
