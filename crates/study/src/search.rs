//! How far a contestant goes under an objective, by bisection of the searched axis.

use crate::experiment::{self, Point};
use crate::objective::Objective;
use crate::outcome::{Outcome, Standing};
use crate::plan::Loaded;
use crate::point::RunError;
use crate::runner::Runner;
use crate::subject::{Axis, Sense, Subject};
use cavy_core::Digest;
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;

/// What gives way where a contestant is not what its label says.
pub const NOT_JUDGED: &str = "not judged";

/// The last value of the searched axis at which an objective holds.
#[derive(Clone, Debug, Serialize)]
pub struct Capacity {
    /// The variant of the plan.
    pub variant: String,
    /// Label of the contestant.
    pub label: String,
    /// Swept keys other than the searched one, with their values.
    pub settings: BTreeMap<String, serde_json::Value>,
    /// The objective, in words.
    pub objective: String,
    /// Its place in the plan.
    pub objective_index: usize,
    /// The last value found to meet it, such as the highest load; `None` when not even the first
    /// value tried does.
    pub at: Option<f64>,
    /// That value as a rate, units of work per second.
    pub rate_per_s: Option<f64>,
    /// The first value found to miss it; `None` when it holds up to the last value tried.
    pub missed_at: Option<f64>,
    /// What gave way there, in a few words: the objective, stability, or the length of the run.
    pub limit: String,
    /// The search ended where the objective is missed, or nothing is left to try; and not where a
    /// run was too short to tell.
    #[serde(skip)]
    pub decided: bool,
    /// What was seen there, where more is known than that the objective is missed.
    pub why: Option<String>,
    /// The bounded value at the capacity.
    pub value: Option<f64>,
    /// Where the bounded value crosses its limit, between `at` and `missed_at`; `at` where there is
    /// no value beyond, such as where queues grow without end.
    #[serde(skip)]
    pub crossing: Option<f64>,
    /// The same in each section of each way to cut runs up, by the values of the section alone.
    #[serde(skip)]
    pub sections: Vec<Vec<Option<f64>>>,
    /// Units of work simulated for the search alone.
    pub work: u64,
    /// Every run that the search looked at beyond the plan's own points: its key and units of work.
    /// Searches share runs.
    #[serde(skip)]
    pub runs: Vec<(String, u64)>,
    /// Fingerprint of the search's runs.
    #[serde(skip)]
    pub digest: u64,
}

impl Capacity {
    /// What gave way, with what was seen of it.
    pub fn limit_in_full(&self) -> String {
        match &self.why {
            Some(why) => format!("{}: {why}", self.limit),
            None => self.limit.clone(),
        }
    }

    /// The capacity as one of its sections has it; without sections it is the same in all.
    pub(crate) fn section(&self, way: usize, index: usize) -> Capacity {
        let of_way = self.sections.get(way);
        let Some(&crossing) = of_way.and_then(|all| all.get(index)) else { return self.clone() };
        let (missed_at, sections) = (None, Vec::new());
        Capacity { at: crossing, crossing, missed_at, sections, ..self.clone() }
    }
}

/// One contestant in one setting: what its capacity depends on is its key at a fixed place.
struct Wanted<'p, S: Subject> {
    template: &'p Point<S>,
    system: String,
    objective_index: usize,
    objective: &'p Objective,
}

/// One search of a plan: a point like those run, and about how many runs it takes.
pub struct Ahead<'p, S: Subject> {
    /// The point.
    pub point: &'p Point<S>,
    /// Runs.
    pub runs: usize,
}

/// The searches of a plan, for an estimate of what they cost.
pub fn ahead<S: Subject>(loaded: &Loaded<S>) -> Vec<Ahead<'_, S>> {
    let mut all: Vec<Ahead<'_, S>> = Vec::new();
    for point in &loaded.points {
        let Some(axis) = searched(point) else { continue };
        if point.objectives.is_empty() {
            continue;
        }
        let same = |other: &Point<S>| {
            other.variant == point.variant
                && other.label == point.label
                && other.facet() == point.facet()
        };
        if all.iter().any(|one| same(one.point)) {
            continue;
        }
        let swept = loaded.points.iter().filter(|other| same(other)).count();
        let range = axis.greatest - axis.least;
        // Swept values bracket the capacity; without them both ends are tried as well.
        let (gap, ends) = if swept > 1 { (range / swept as f64, 0.0) } else { (range, 2.0) };
        let halvings = (gap / step(point, &axis)).log2().max(0.0).ceil();
        all.push(Ahead { point, runs: (halvings + ends) as usize * point.objectives.len() });
    }
    all
}

fn searched<S: Subject>(point: &Point<S>) -> Option<Axis> {
    point.axis().filter(|axis| axis.searchable)
}

fn step<S: Subject>(point: &Point<S>, axis: &Axis) -> f64 {
    let step = point.step.unwrap_or(axis.step);
    if axis.whole { step.max(1.0).round() } else { step }
}

/// The searches of a plan as they are before anything was run.
pub(crate) fn blank<S: Subject>(loaded: &Loaded<S>) -> Vec<Capacity> {
    let of = |one: Ahead<'_, S>| {
        let point = one.point;
        let capacity = move |(objective_index, objective): (usize, &Objective)| Capacity {
            variant: point.variant.clone(),
            label: point.label.clone(),
            settings: experiment::settings(&point.facet()),
            objective: objective.to_string(),
            objective_index,
            at: None,
            rate_per_s: None,
            missed_at: None,
            limit: String::new(),
            decided: false,
            why: None,
            value: None,
            crossing: None,
            sections: Vec::new(),
            work: 0,
            runs: Vec::new(),
            digest: 0,
        };
        point.objectives.iter().enumerate().map(capacity).collect::<Vec<_>>()
    };
    ahead(loaded).into_iter().flat_map(of).collect()
}

/// Finds the capacity of every contestant for every objective of the plan.
///
/// Values that the plan sweeps bracket the capacity: it lies beyond the last value up to which all
/// meet the objective, which is what "sustains" means, and is then bisected. Variants that leave a
/// contestant as it was share one search, and the swept values of all of them bracket it.
pub(crate) fn capacities<S: Subject>(
    runner: &Runner<'_>,
    loaded: &Loaded<S>,
    results: &[Outcome<S::Data>],
) -> Result<Vec<Capacity>, RunError> {
    let system = |point: &Point<S>| match searched(point) {
        Some(axis) if !point.objectives.is_empty() => {
            point.at(&axis, axis.least).map(|point| point.key())
        }
        _ => Ok(String::new()),
    };
    let of_points: Vec<String> = loaded.points.iter().map(system).collect::<Result<_, _>>()?;
    // One capacity for each contestant in each setting that is not the searched axis.
    let mut wanted: Vec<Wanted<'_, S>> = Vec::new();
    for (point, system) in loaded.points.iter().zip(&of_points) {
        let same = |other: &Wanted<'_, S>| {
            other.template.variant == point.variant
                && other.template.label == point.label
                && other.template.facet() == point.facet()
        };
        if searched(point).is_none() || wanted.iter().any(same) {
            continue;
        }
        wanted.extend(point.objectives.iter().enumerate().map(|(objective_index, objective)| {
            Wanted { template: point, system: system.clone(), objective_index, objective }
        }));
    }
    let mut searches: BTreeMap<(&str, String), &Wanted<'_, S>> = BTreeMap::new();
    for one in &wanted {
        searches.entry((&one.system, one.objective.to_string())).or_insert(one);
    }
    if !searches.is_empty() {
        runner.progress.doing("searching capacities");
    }
    let found: BTreeMap<(&str, String), Capacity> = searches
        .into_par_iter()
        .map(|(key, one)| {
            let of_system = of_points.iter().zip(results).filter(|(system, _)| *system == key.0);
            let known = of_system.map(|(_, result)| result);
            let found = bisect(runner, loaded, one.template, one.objective, known)?;
            Ok((key, found))
        })
        .collect::<Result<_, RunError>>()?;
    let of =
        |one: &Wanted<'_, S>| named(one, &found[&(one.system.as_str(), one.objective.to_string())]);
    Ok(wanted.iter().map(of).collect())
}

/// `found` under the names by which `wanted` goes.
fn named<S: Subject>(wanted: &Wanted<'_, S>, found: &Capacity) -> Capacity {
    Capacity {
        variant: wanted.template.variant.clone(),
        label: wanted.template.label.clone(),
        settings: experiment::settings(&wanted.template.facet()),
        objective_index: wanted.objective_index,
        ..found.clone()
    }
}

fn bisect<'r, S: Subject>(
    runner: &Runner<'_>,
    loaded: &Loaded<S>,
    template: &Point<S>,
    objective: &Objective,
    known: impl Iterator<Item = &'r Outcome<S::Data>>,
) -> Result<Capacity, RunError> {
    let axis = searched(template).expect("only points with a searched axis are searched");
    // The way is from what is easily met to what is not; along it a value is worth more and more.
    let (first, last, sign) = match axis.sense {
        Sense::Greatest => (axis.least, axis.greatest, 1.0),
        Sense::Least => (axis.greatest, axis.least, -1.0),
    };
    let place = |outcome: &Outcome<S::Data>| sign * outcome.load();
    let holds = |outcome: &Outcome<S::Data>| objective.holds::<S>(outcome);
    let mut swept: Vec<&Outcome<S::Data>> = known.collect();
    swept.sort_by(|a, b| place(a).total_cmp(&place(b)));
    let mut digest = Digest::new();
    let mut runs: Vec<(String, u64)> = Vec::new();
    let mut try_at = |value: f64| -> Result<Outcome<S::Data>, RunError> {
        let result = runner.point(&template.at(&axis, value)?, &loaded.files)?;
        digest.fold(result.digest_value());
        runs.push((result.key.clone(), result.work));
        Ok(result)
    };

    let mut tried: Vec<Outcome<S::Data>> = swept.iter().map(|&result| result.clone()).collect();
    let mut seen: Seen<Outcome<S::Data>> = Seen { met: None, few: None, missed: None };
    for result in swept {
        seen.add(result.clone(), holds(result));
        if seen.missed.is_some() {
            break;
        }
    }
    if seen.near().is_none() && seen.missed.as_ref().is_none_or(|m| place(m) > sign * first) {
        let outcome = try_at(first)?;
        tried.push(outcome.clone());
        let held = holds(&outcome);
        seen.add(outcome, held);
    }
    if seen.near().is_some() && seen.missed.is_none() {
        let outcome = try_at(last)?;
        tried.push(outcome.clone());
        let held = holds(&outcome);
        seen.add(outcome, held);
    }
    let step = step(template, &axis);
    while let (Some(near), Some(far)) = (seen.near(), &seen.missed)
        && place(far) - place(near) > step * 1.0001
    {
        // On a grid of the step, so that searches for several objectives share points.
        let middle = ((near.load() + far.load()) / 2.0 / step).round() * step;
        let middle = (middle * 1e9).round() / 1e9;
        if sign * middle <= place(near) || sign * middle >= place(far) {
            break;
        }
        let outcome = try_at(middle)?;
        tried.push(outcome.clone());
        let held = holds(&outcome);
        seen.add(outcome, held);
    }
    let Seen { met, few, missed } = seen;
    // Nothing is promised that was not seen.
    let missed = few.map(|(first, _)| first).or(missed);
    let seen = |limit: &str, why: &str| (limit.to_string(), Some(why.to_string()));
    let (limit, why) = match &missed {
        None if axis.sense == Sense::Least => (format!("holds down to {}", axis.value(last)), None),
        None => (format!("holds up to {}", axis.value(last)), None),
        Some(result) if result.standing == Standing::Unstable => seen("unstable", &result.note),
        Some(result) if result.standing == Standing::TooShort => {
            seen("too short to judge", &result.note)
        }
        Some(Outcome { unformed: Some(why), .. }) => seen(NOT_JUDGED, why),
        Some(result) if holds(result).is_none() => ("too few samples to judge".to_string(), None),
        Some(_) => ("objective".to_string(), None),
    };
    let decided = match &missed {
        None => true,
        Some(result) if result.standing == Standing::Unstable => true,
        Some(result) => result.stable() && result.unformed.is_none() && holds(result).is_some(),
    };
    // What was passed over says nothing of where the objective ceases to hold.
    let passed = |outcome: &Outcome<S::Data>| {
        met.as_ref().is_some_and(|met| place(outcome) < place(met)) && holds(outcome).is_none()
    };
    tried.retain(|outcome| !passed(outcome));
    tried.sort_by(|a, b| place(a).total_cmp(&place(b)));
    let of_section = |way: usize, index: usize| {
        let section = tried.iter().filter_map(|outcome| outcome.section(way, index));
        crossing::<S>(objective, &section.collect::<Vec<_>>())
    };
    let ways = tried.iter().map(|outcome| outcome.sections.len()).min().unwrap_or(0);
    let of_way = |way: usize| {
        let fewest = tried.iter().map(|outcome| outcome.sections[way].len()).min().unwrap_or(0);
        (0..fewest).map(|index| of_section(way, index)).collect()
    };
    Ok(Capacity {
        variant: template.variant.clone(),
        label: template.label.clone(),
        settings: BTreeMap::new(),
        objective: objective.to_string(),
        objective_index: 0,
        at: met.as_ref().map(Outcome::load),
        rate_per_s: met.as_ref().and_then(|result| result.rate_per_s),
        missed_at: missed.as_ref().map(Outcome::load),
        limit,
        decided,
        why,
        value: met.as_ref().and_then(|result| objective.value::<S>(result)),
        crossing: crossing::<S>(objective, &tried),
        sections: (0..ways).map(of_way).collect(),
        work: runs.iter().map(|run| run.1).sum(),
        runs,
        digest: digest.value(),
    })
}

/// What a search knows of its way.
struct Seen<O> {
    /// The last that holds.
    met: Option<O>,
    /// Beyond it, the first and the last with too few samples to tell. More load makes more
    /// samples, so the search goes on beyond them.
    few: Option<(O, O)>,
    /// The first that does not hold, or cannot be judged for another reason.
    missed: Option<O>,
}

impl<D: Clone> Seen<Outcome<D>> {
    /// The next of the way; whether it holds.
    fn add(&mut self, outcome: Outcome<D>, holds: Option<bool>) {
        match holds {
            Some(true) => (self.met, self.few) = (Some(outcome), None),
            None if outcome.stable() && outcome.unformed.is_none() => {
                let first = self.few.take().map_or_else(|| outcome.clone(), |(first, _)| first);
                self.few = Some((first, outcome));
            }
            _ => self.missed = Some(outcome),
        }
    }

    /// The last beyond which the search goes on.
    fn near(&self) -> Option<&Outcome<D>> {
        self.few.as_ref().map(|(_, last)| last).or(self.met.as_ref())
    }
}

/// Where the objective ceases to hold along the outcomes of one search, in their order: between the
/// last before which all hold and the next, where the bounded value, growing by the same factor
/// with each step, crosses its limit. The last that holds, where there is no value beyond it;
/// `None` where the first does not hold.
fn crossing<S: Subject>(objective: &Objective, tried: &[Outcome<S::Data>]) -> Option<f64> {
    let holding = tried.iter().take_while(|one| objective.holds::<S>(one) == Some(true)).count();
    let met = tried.get(holding.checked_sub(1)?)?;
    let Objective::Bound { limit, .. } = objective else { return Some(met.load()) };
    let missed = tried.get(holding).filter(|missed| missed.stable());
    let values = objective.value::<S>(met).zip(missed.and_then(|one| objective.value::<S>(one)));
    let share = values.map_or(0.0, |(near, far)| match near > 0.0 && far > 0.0 && near != far {
        true => (limit / near).ln() / (far / near).ln(),
        false => 0.0,
    });
    let beyond = missed.map_or(met.load(), Outcome::load);
    Some(met.load() + share.clamp(0.0, 1.0) * (beyond - met.load()))
}
