//! Runs one replication, and puts replications together.

use super::contestant::{self, Given};
use super::kept::{Kept, Key, Made, Trace};
use super::plan::{CoordsPlan, DataPlan, PlayersPlan, PredictorPlan};
use super::replay::{self, Asked, Errors, Picked, Replayed};
use super::result::{Accuracy, Pick, Predicted};
use super::world::{Truth, World};
use super::worst;
use cavy_coords::Line;
use cavy_core::Span;
use cavy_lab::statistics::quantile;
use cavy_study::outcome::{Estimate, Quantile, Standing};
use cavy_study::point::Manner;
use cavy_study::subject::Summed;
use std::sync::Arc;

/// What one replication needs, apart from its seed.
pub struct Scenario {
    pub(super) plan: CoordsPlan,
    /// `None` where each replication makes machines up.
    pub(super) world: Option<Arc<World>>,
    /// The line that the predictor is given, of a world that is the same in all replications.
    pub(super) line: Option<Line>,
    /// Which pairs have a shorter way, where the worst pairs are told apart.
    pub(super) detours: Vec<bool>,
}

impl Scenario {
    /// Machines, measured or made up.
    pub(super) fn count(&self) -> u32 {
        match (&self.world, &self.plan.data) {
            (Some(world), _) => world.count(),
            (None, DataPlan::Players(own)) => own.count,
            (None, _) => 0,
        }
    }
}

/// Players and probes of the last plan that compares several predictors.
static LAST: Kept = Kept::new();

/// Players of a replication, with their probes where another predictor will meet them as well.
fn players(plan: &CoordsPlan, own: &PlayersPlan, seed: u64, keep: bool) -> Arc<Made> {
    let alone = || Made::new(own, seed);
    if !(keep && plan.has_rivals) {
        return Arc::new(alone());
    }
    let probes_per_node = plan.probes_per_node;
    let make = || {
        let mut made = alone();
        if let Truth::Players(players) = &made.world.truth {
            let probes = replay::of_players(players, probes_per_node, replay::PART_PROBES, seed);
            // Without room on the disk each point draws its own.
            made.trace = Trace::write(probes).ok();
        }
        made
    };
    LAST.of(&Key { players: own.clone(), probes_per_node }, seed, make, alone)
}

/// Runs one replication.
pub fn replicate(scenario: &Scenario, seed: u64, replication: u32, manner: &Manner) -> Replayed {
    // Who wants everything twice gets that, and what cannot be read again is drawn again.
    let kept = (!manner.twice).then(|| attempt(scenario, seed, replication, true)).flatten();
    kept.or_else(|| attempt(scenario, seed, replication, false))
        .unwrap_or_else(|| unreachable!("without a file nothing fails"))
}

/// The same, `None` when kept probes cannot be read.
fn attempt(scenario: &Scenario, seed: u64, replication: u32, keep: bool) -> Option<Replayed> {
    let made;
    let plan = &scenario.plan;
    let (world, line, trace) = match (&scenario.world, &plan.data) {
        (Some(world), _) => (world.as_ref(), scenario.line, None),
        (None, DataPlan::Players(own)) => {
            made = players(plan, own, seed, keep);
            let fit = contestant::fit(&plan.predictors[0]);
            let line = fit.and_then(|fit| contestant::line(&made.world, plan, fit));
            (&made.world, line, made.trace.as_ref())
        }
        (None, _) => unreachable!("all other data are read once, with the scenario"),
    };
    let mut given = contestant::given(world, plan, seed);
    let mut predictor = contestant::build(world, &plan.predictors[0], &given, line, seed);
    let map = plan.map && replication == 0;
    if !map && plan.worst_ratio.is_none() {
        // Nobody asks for them any more, and those of millions are a hundred megabytes.
        given.places = Vec::new();
    }
    let Given { systems, covered, places } = &given;
    let asked = Asked {
        probes_per_node: plan.probes_per_node,
        interval: Span::try_from_us(plan.interval_s * 1e6).unwrap_or(Span::ZERO),
        peers: plan.peers,
        covered,
        systems,
        picks: &plan.picks,
        said: places,
        worst: plan.worst_ratio.map(|ratio| (ratio, scenario.detours.as_slice())),
        map,
    };
    let replayed = match trace {
        Some(trace) => replay::replay(world, predictor.as_mut(), trace.read(), &asked, seed),
        None => {
            let probes = replay::probes(world, &asked, seed);
            replay::replay(world, predictor.as_mut(), probes, &asked, seed)
        }
    };
    (!trace.is_some_and(Trace::has_failed)).then_some(replayed)
}

/// The `p`-quantile of all samples together and of each replication, all in order of size.
fn at(pooled: &[f32], each: &[Vec<f32>], p: f64) -> Option<Quantile> {
    let of = |sorted: &[f32]| quantile::of_sorted(sorted, p).map(f64::from);
    let replications = each.iter().filter_map(|one| of(one)).collect();
    Some(Quantile::new(of(pooled)?, replications, pooled.len() as u64, p))
}

/// Samples of all replications and of each one, in order of size.
fn sorted<'a>(samples: impl Iterator<Item = &'a Vec<f32>>) -> (Vec<f32>, Vec<Vec<f32>>) {
    let mut each: Vec<Vec<f32>> = samples.cloned().collect();
    each.iter_mut().for_each(|one| one.sort_unstable_by(f32::total_cmp));
    let mut pooled: Vec<f32> = each.concat();
    // The stable sort merges what is in order already.
    pooled.sort_by(f32::total_cmp);
    (pooled, each)
}

fn accuracy(runs: &[Replayed], of: impl Fn(&Replayed) -> &Errors) -> (Accuracy, Vec<f64>) {
    let (ms, each_ms) = sorted(runs.iter().map(|run| &of(run).ms));
    let (ratio, each_ratio) = sorted(runs.iter().map(|run| &of(run).ratio));
    let silent: u64 = runs.iter().map(|run| of(run).silent).sum();
    let samples = ms.len() as u64;
    let accuracy = Accuracy {
        samples,
        silent_ratio: silent as f64 / (samples + silent).max(1) as f64,
        p50_ms: at(&ms, &each_ms, 0.5),
        p90_ms: at(&ms, &each_ms, 0.9),
        p95_ms: at(&ms, &each_ms, 0.95),
        p99_ms: at(&ms, &each_ms, 0.99),
        p50_ratio: at(&ratio, &each_ratio, 0.5),
        p90_ratio: at(&ratio, &each_ratio, 0.9),
        p99_ratio: at(&ratio, &each_ratio, 0.99),
    };
    let cdf = (1..100).filter_map(|percent| quantile::of_sorted(&ms, f64::from(percent) / 100.0));
    (accuracy, cdf.map(f64::from).collect())
}

fn pick(runs: &[Replayed], index: usize, candidates: u32) -> Pick {
    let all: Vec<&Picked> = runs.iter().map(|run| &run.picks[index]).collect();
    let choices: u64 = all.iter().map(|one| one.choices).sum();
    let share = |count: &dyn Fn(&Picked) -> u64| {
        let sum: u64 = all.iter().map(|one| count(one)).sum();
        let each = all.iter().map(|one| count(one) as f64 / one.choices.max(1) as f64);
        Estimate::new(sum as f64 / choices.max(1) as f64, each.collect())
    };
    let (penalty, each) = sorted(all.iter().map(|one| &one.penalty_ms));
    let (probed, each_probed) = sorted(all.iter().map(|one| &one.probed_penalty_ms));
    Pick {
        candidates,
        choices,
        hit_ratio: share(&|one| one.hits),
        below_ratio: share(&|one| one.below),
        penalty_p90_ms: at(&penalty, &each, 0.9),
        penalty_p95_ms: at(&penalty, &each, 0.95),
        probed_hit_ratio: share(&|one| one.probed_hits),
        probed_penalty_p95_ms: at(&probed, &each_probed, 0.95),
    }
}

/// What replications say together.
pub fn summarize(scenario: &Scenario, runs: &[Replayed]) -> Summed<Predicted> {
    let (before, before_cdf_ms) = accuracy(runs, |run| &run.before);
    let (after, _) = accuracy(runs, |run| &run.after);
    let (covered, _) = accuracy(runs, |run| &run.covered);
    let (same_system, _) = accuracy(runs, |run| &run.same_system);
    let plan = &scenario.plan;
    let candidates = plan.picks.candidates.iter().enumerate();
    let picks = candidates.map(|(index, count)| pick(runs, index, *count)).collect();
    let landmark_probes = match &plan.predictors[0] {
        PredictorPlan::Composition(own) | PredictorPlan::Located(own) => own.landmarks,
        _ => 0,
    };
    let unformed = match (after.samples, contestant::fit(&plan.predictors[0])) {
        (0, Some(_)) => Some("it needs positions, and too few machines have one".to_string()),
        (0, None) => Some("it has nothing to predict by yet".to_string()),
        _ => None,
    };
    let worst = plan.worst_ratio.and_then(|ratio| {
        let found: Vec<worst::Found> = runs.iter().filter_map(|run| run.worst).collect();
        worst::summarize(ratio, &found)
    });
    Summed {
        standing: Standing::Stable,
        note: short(scenario, runs),
        unformed,
        rate_per_s: None,
        work: runs.iter().map(|run| run.probes).sum(),
        data: Predicted {
            before,
            before_cdf_ms,
            after,
            covered,
            same_system,
            landmark_probes,
            picks,
            worst,
            sketch: runs.first().and_then(|run| run.sketch.clone()),
        },
    }
}

/// What is to be said where a file has fewer measurements than the plan asks for, or a database
/// knows too little.
fn short(scenario: &Scenario, runs: &[Replayed]) -> String {
    let Some(world) = &scenario.world else { return String::new() };
    let (Truth::Recorded(..), Some(run)) = (&world.truth, runs.first()) else {
        return world.note.clone();
    };
    let wanted = u64::from(scenario.plan.probes_per_node) * u64::from(world.count());
    let few = (run.probes < wanted)
        .then(|| format!("the file has {} of {wanted} measurements", run.probes));
    let notes = few.into_iter().chain((!world.note.is_empty()).then(|| world.note.clone()));
    notes.collect::<Vec<_>>().join("; ")
}
