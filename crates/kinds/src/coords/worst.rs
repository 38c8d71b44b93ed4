//! What the pairs with the worst predictions have in common (decision 41).
//!
//! A pair is a *detour* when the two legs over some third machine are together at least a fifth
//! shorter. An end is *misplaced* when it is said to be more than 500 km from where it is. Both are
//! facts of the world and not of the predictor; how often they hold of all pairs stands beside.

use super::world::World;
use cavy_coords::Point;
use cavy_coords::predictors::Predictor;
use cavy_coords::start::MOVED_MAX_KM;
use cavy_core::Instant;
use cavy_study::outcome::Estimate;
use serde::{Deserialize, Serialize};

/// Two legs are a shorter way when their sum is below this share of the direct one.
const SHORTER_RATIO: f64 = 0.8;
/// Machines in worlds where detours are looked for: it takes the cube of that.
pub const MACHINES_MAX: u32 = 500;

/// What may be wrong with a pair, in the order of [`Counts`].
pub const CAUSES: [&str; 4] =
    ["a shorter way exists", "an end is misplaced", "either of the two", "neither"];

/// Pairs by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All of them.
    pub pairs: u64,
    /// By cause.
    pub by_cause: [u64; CAUSES.len()],
}

impl Counts {
    fn add(&mut self, detour: bool, misplaced: bool) {
        self.pairs += 1;
        let either = detour || misplaced;
        for (count, holds) in self.by_cause.iter_mut().zip([detour, misplaced, either, !either]) {
            *count += u64::from(holds);
        }
    }
}

/// What one replication found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Found {
    /// The worst pairs.
    pub worst: Counts,
    /// All pairs.
    pub all: Counts,
    /// Share of the sum of all errors that the worst pairs have.
    pub of_error: f64,
}

/// What the worst pairs have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Worst {
    /// Share of all pairs that this is about.
    pub ratio: f64,
    /// Share of the sum of all errors that they have.
    pub of_error: Estimate,
    /// By cause, in the order of [`CAUSES`].
    pub causes: Vec<Cause>,
}

/// How often something holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// What.
    pub name: String,
    /// Share of the worst pairs.
    pub among_worst: Estimate,
    /// Share of all pairs.
    pub among_all: Estimate,
}

/// Is there a shorter way between the two ends, for each pair by rows of the upper triangle?
pub fn detours(world: &World) -> Vec<bool> {
    let count = world.count();
    let mut all = Vec::with_capacity(world.pairs() as usize);
    for a in 0..count {
        for b in a + 1..count {
            let shorter = world.rtt_ms(a, b).is_some_and(|direct| {
                let limit = SHORTER_RATIO * direct;
                (0..count).any(|c| {
                    let legs = world.rtt_ms(a, c).zip(world.rtt_ms(c, b));
                    c != a && c != b && legs.is_some_and(|(one, other)| one + other < limit)
                })
            });
            all.push(shorter);
        }
    }
    all
}

/// Tells the worst `ratio` of all pairs of `predictor` apart. `said` is where predictors are told
/// that machines are.
pub fn find(
    world: &World,
    predictor: &dyn Predictor,
    said: &[Option<Point>],
    detours: &[bool],
    ratio: f64,
    now: Instant,
) -> Found {
    let misplaced: Vec<bool> = world
        .machines
        .iter()
        .zip(said)
        .map(|(machine, said)| match (machine.place, said) {
            (Some(place), Some(said)) => place.distance_km(*said) > MOVED_MAX_KM,
            _ => false,
        })
        .collect();
    let count = world.count();
    let pairs = (0..count).flat_map(|a| (a + 1..count).map(move |b| (a, b)));
    let mut errors: Vec<(f64, bool, bool)> = Vec::new();
    let mut found = Found::default();
    for ((a, b), detour) in pairs.zip(detours) {
        let known = world.rtt_ms(a, b).zip(predictor.predict_ms(a, b, now));
        let Some((rtt_ms, estimate)) = known else { continue };
        let misplaced = misplaced[a as usize] || misplaced[b as usize];
        found.all.add(*detour, misplaced);
        errors.push(((estimate - rtt_ms).abs(), *detour, misplaced));
    }
    errors.sort_by(|a, b| b.0.total_cmp(&a.0));
    let worst = ((errors.len() as f64 * ratio).ceil() as usize).min(errors.len());
    let sum = |errors: &[(f64, bool, bool)]| errors.iter().map(|error| error.0).sum::<f64>();
    found.of_error = sum(&errors[..worst]) / sum(&errors).max(f64::MIN_POSITIVE);
    for (_, detour, misplaced) in &errors[..worst] {
        found.worst.add(*detour, *misplaced);
    }
    found
}

/// What replications found together.
pub fn summarize(ratio: f64, runs: &[Found]) -> Option<Worst> {
    if runs.iter().all(|run| run.worst.pairs == 0) {
        return None;
    }
    let share = |of: &dyn Fn(&Found) -> (u64, u64)| {
        let each: Vec<f64> = runs
            .iter()
            .map(|run| {
                let (part, whole) = of(run);
                part as f64 / whole.max(1) as f64
            })
            .collect();
        Estimate::new(each.iter().sum::<f64>() / each.len() as f64, each)
    };
    let errors: Vec<f64> = runs.iter().map(|run| run.of_error).collect();
    let cause = |(index, name): (usize, &&str)| Cause {
        name: name.to_string(),
        among_worst: share(&|run| (run.worst.by_cause[index], run.worst.pairs)),
        among_all: share(&|run| (run.all.by_cause[index], run.all.pairs)),
    };
    Some(Worst {
        ratio,
        of_error: Estimate::new(errors.iter().sum::<f64>() / errors.len() as f64, errors),
        causes: CAUSES.iter().enumerate().map(cause).collect(),
    })
}

impl Worst {
    /// The cause called `name`.
    pub fn cause(&self, name: &str) -> Option<&Cause> {
        self.causes.iter().find(|cause| cause.name == name)
    }
}
