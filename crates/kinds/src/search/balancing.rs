//! What became of borders that move by load.

use super::machines::Told;
use super::result::Balanced;
use super::run::{Ended, over};
use super::scenario::Scenario;
use crate::Latency;
use cavy_core::{Instant, Span};
use cavy_lab::statistics::histogram::Histogram;
use cavy_search::cluster::{Config, Map, Move, Moving};
use cavy_search::ring::{Ring, WHOLE};

/// What became of them in one replication.
#[derive(Clone, Debug)]
pub struct BalanceRun {
    /// At the beginning and after each period.
    imbalance: Vec<f64>,
    steps: u32,
    /// How far borders went together, and what was copied meanwhile: shares of the ring.
    moved: f64,
    copied: f64,
    /// Queries that were sent while borders moved, and after the last step.
    moving: Histogram,
    after: Histogram,
}

/// The greatest load over the mean: ranges over speeds, on all rings.
fn imbalance(rings: &[Ring], speeds: &[f64]) -> f64 {
    let load = |ring: &Ring, at: usize| ring.width(at) as f64 / speeds[ring.server(at) as usize];
    let of = |ring| (0..Ring::count(ring)).map(move |at| load(ring, at));
    let all = || rings.iter().flat_map(of);
    all().fold(0.0, f64::max) * all().count() as f64 / all().sum::<f64>()
}

/// How far the borders of two sets of rings of the same servers are apart, together.
fn apart(before: &[Ring], after: &[Ring]) -> f64 {
    let off = |(one, other): (&Ring, &Ring)| {
        let off = |at: usize| {
            let start = other.position(one.server(at)).map(|place| other.start(place));
            start.map_or(0, |start| (one.start(at).wrapping_sub(start) as i64).unsigned_abs())
        };
        (0..one.count()).map(|at| off(at) as f64).sum::<f64>()
    };
    before.iter().zip(after).map(off).sum::<f64>() / WHOLE as f64
}

/// The replication in which these maps were published, and these queries ended.
pub fn run(
    scenario: &Scenario,
    config: &Config,
    told: &Told,
    ended: &[Ended],
) -> Option<BalanceRun> {
    let every = scenario.balance?.every;
    let rings = |map: &Map| config.rings(map).now;
    let mut imbalances = Vec::new();
    let mut at = Instant::ZERO;
    while at <= Instant::ZERO + scenario.duration {
        let map = told.maps.iter().rfind(|(when, _)| *when <= at).map(|(_, map)| rings(map));
        imbalances.push(imbalance(map.as_ref().unwrap_or(&config.ranges), &scenario.speeds));
        at += every;
    }
    let is_moving = |map: &Map| matches!(&map.moving, Some(Moving { what: Move::Borders(_), .. }));
    let (mut spans, mut moved): (Vec<(Instant, Instant)>, f64) = (Vec::new(), 0.0);
    let mut before = config.ranges.clone();
    for (number, (when, map)) in told.maps.iter().enumerate() {
        let was = number > 0 && is_moving(&told.maps[number - 1].1);
        match (was, is_moving(map)) {
            (false, true) => spans.push((*when, Instant::NEVER)),
            (true, false) => {
                spans.iter_mut().last().into_iter().for_each(|span| span.1 = *when);
                let now = rings(map);
                moved += apart(&before, &now);
                before = now;
            }
            _ => {}
        }
    }
    let last = spans.last().map_or(Instant::ZERO, |(_, until)| *until);
    let warm = Instant::ZERO + scenario.warm;
    let (mut moving, mut after) = (Histogram::new(), Histogram::new());
    for one in ended {
        let sent = Instant::from_ns(one.sent);
        if spans.iter().any(|(from, until)| (*from..*until).contains(&sent)) {
            moving.record(one.took);
        } else if sent >= last.max(warm) {
            after.record(one.took);
        }
    }
    let copied = told.copied.iter().fold(0.0, |all, (_, share)| all + share);
    let steps = spans.len() as u32;
    Some(BalanceRun { imbalance: imbalances, steps, moved, copied, moving, after })
}

/// What replications say together.
pub fn summarize<'a>(
    runs: impl Iterator<Item = Option<&'a BalanceRun>>,
    every: Option<Span>,
) -> Option<Balanced> {
    let runs: Vec<&BalanceRun> = runs.collect::<Option<_>>()?;
    let every = every.filter(|_| !runs.is_empty())?;
    let mean = |of: &dyn Fn(&BalanceRun) -> f64| over(runs.iter().map(|run| of(run)).collect());
    let periods = runs.iter().map(|run| run.imbalance.len()).min()?;
    let samples = |of: fn(&BalanceRun) -> &Histogram| -> Vec<&Histogram> {
        runs.iter().map(|run| of(run)).filter(|sample| sample.count() > 0).collect()
    };
    Some(Balanced {
        every_s: every.as_ns() as f64 / 1e9,
        imbalance: (0..periods).map(|at| mean(&|run| run.imbalance[at])).collect(),
        steps: mean(&|run| f64::from(run.steps)),
        moved: mean(&|run| run.moved),
        copied: mean(&|run| run.copied),
        moving: Latency::of(&samples(|run| &run.moving)),
        after: Latency::of(&samples(|run| &run.after)),
    })
}
