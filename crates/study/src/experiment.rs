//! A plan spread out into points, and the results of them all.

use crate::objective::Objective;
use crate::outcome::{Outcome, Standing};
use crate::plan::path::set;
use crate::plan::read::{Loaded, from_table, names};
use crate::plan::{Files, Frame, PlanError};
use crate::search::{self, Capacity};
use crate::subject::{Axis, Effort, Subject};
use cavy_core::Digest;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use toml::{Table, Value};

/// Name of the plan as written, beside its variants.
pub const BASE: &str = "base";

/// Points of one plan, at most.
const POINTS_MAX: usize = 100_000;

/// One setting of one contestant: a plan with exactly one of them and nothing left to vary.
#[derive(Clone, Debug)]
pub struct Point<S: Subject> {
    /// The variant of the plan.
    pub variant: String,
    /// Label of the contestant.
    pub label: String,
    /// Swept keys and their values, the searched axis first.
    pub axes: Vec<(String, Value)>,
    /// The plan.
    pub plan: S,
    /// Objectives of the variant.
    pub objectives: Vec<Objective>,
    /// Replications.
    pub replications: u32,
    /// Root of all random streams.
    pub seed: u64,
    /// Replicate until intervals are so narrow.
    pub precision_ratio: Option<f64>,
    /// Distance to which the searched axis is bisected, if the plan says.
    pub step: Option<f64>,
    /// Are claims judged by it? Then what each section says is kept as well.
    pub sectioned: bool,
    /// Fingerprint of the contents of the files that the plan names; zero when it names none.
    measured: u64,
    /// The variant as a table, without what is swept.
    base: Arc<Table>,
    /// Which of the variant's contestants it is.
    contestant: usize,
    built: Arc<Built<S>>,
}

/// What was built of a point: checking a plan builds it, an estimate asks what it costs, and the
/// run takes it.
struct Built<S: Subject> {
    effort: OnceLock<Effort>,
    scenario: Mutex<Option<S::Scenario>>,
}

impl<S: Subject> Default for Built<S> {
    fn default() -> Self {
        Built { effort: OnceLock::new(), scenario: Mutex::new(None) }
    }
}

impl<S: Subject> fmt::Debug for Built<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Built").field("effort", &self.effort).finish_non_exhaustive()
    }
}

impl<S: Subject> Point<S> {
    /// Names everything that decides the result: equal keys, equal results.
    pub fn key(&self) -> String {
        let mut plan = self.plan.clone();
        // Names and texts do not change results; neither does what was swept to get here.
        plan.forget_names();
        let text = serde_json::to_string(&plan).unwrap_or_default();
        let mut digest = Digest::new();
        digest.fold(self.measured);
        digest.fold(self.seed);
        digest.fold(u64::from(self.replications));
        digest.fold(self.precision_ratio.unwrap_or(0.0).to_bits());
        if self.sectioned {
            fold_bytes(&mut digest, b"sections by ways");
        }
        fold_bytes(&mut digest, S::ABOUT.name.as_bytes());
        fold_bytes(&mut digest, text.as_bytes());
        let mut second = digest;
        second.fold(text.len() as u64);
        format!("{:016x}{:016x}", digest.value(), second.value())
    }

    /// Builds the point, which finds every mistake in it, and keeps what was built for its run.
    pub(crate) fn build(&self, files: &Files) -> Result<(), PlanError> {
        let scenario = self.scenario(files)?;
        *self.built.scenario.lock().unwrap_or_else(PoisonError::into_inner) = Some(scenario);
        Ok(())
    }

    /// What a run needs: what was built of the point, if it was and nobody has taken it.
    pub(crate) fn scenario(&self, files: &Files) -> Result<S::Scenario, PlanError> {
        let kept = self.built.scenario.lock().unwrap_or_else(PoisonError::into_inner).take();
        let scenario = kept.map_or_else(|| self.plan.scenario(files), Ok)?;
        self.built.effort.get_or_init(|| self.plan.effort(&scenario, self.replications));
        Ok(scenario)
    }

    /// What its first replications cost. Nothing, where a file has gone since the plan was checked:
    /// the run says so.
    pub fn effort(&self, files: &Files) -> Effort {
        if let Some(known) = self.built.effort.get() {
            return *known;
        }
        // Measured data may be large, so that only what was checked by them is kept.
        let scenario = self.scenario(files);
        if let Ok(scenario) = scenario
            && self.plan.files().is_empty()
        {
            *self.built.scenario.lock().unwrap_or_else(PoisonError::into_inner) = Some(scenario);
        }
        self.built.effort.get().copied().unwrap_or_default()
    }

    /// Label and swept values, for messages.
    pub fn label_and_axes(&self) -> String {
        let axes: Vec<String> =
            self.axes.iter().map(|(key, value)| format!("{key}={value}")).collect();
        format!("{} {} {}", self.variant, self.label, axes.join(" "))
    }

    /// The axis that can be searched.
    pub fn axis(&self) -> Option<Axis> {
        self.plan.axis()
    }

    /// The same point at another value of its searched axis.
    pub fn at(&self, axis: &Axis, value: f64) -> Result<Point<S>, PlanError> {
        let number = match axis.whole {
            true => Value::Integer(value as i64),
            false => Value::Float(value),
        };
        let mut table = (*self.base).clone();
        let mut point = self.clone();
        if let Some((_, known)) = point.axes.iter_mut().find(|(key, _)| key == axis.key) {
            *known = number.clone();
        }
        for (key, value) in point.axes.iter().filter(|(key, _)| key != axis.key) {
            set(&mut table, key, value.clone(), names::<S>())?;
        }
        set(&mut table, axis.key, number, names::<S>())?;
        let (_, body) = from_table::<S>(&table)?;
        let (_, plan) = body.contestants().into_iter().nth(self.contestant).ok_or_else(|| {
            PlanError::text(format!(
                "`{}` decides what is compared, so it cannot be searched",
                axis.key
            ))
        })?;
        point.plan = plan;
        point.built = Arc::default();
        Ok(point)
    }

    /// Swept values other than that of the searched axis.
    pub fn facet(&self) -> Vec<(String, Value)> {
        let searched = self.axis().map(|axis| axis.key);
        self.axes.iter().filter(|(key, _)| Some(key.as_str()) != searched).cloned().collect()
    }
}

fn fold_bytes(digest: &mut Digest, bytes: &[u8]) {
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        digest.fold(u64::from_le_bytes(word));
    }
    digest.fold(bytes.len() as u64);
}

/// Fingerprint of the measured data a plan names, so that changed data are not taken for the old. A
/// file that cannot be read counts as empty here; building the scenario says what is wrong with it.
fn measured<S: Subject>(plan: &S, files: &Files) -> u64 {
    let named = plan.files();
    if named.is_empty() {
        return 0;
    }
    let mut digest = Digest::new();
    for file in named {
        fold_bytes(&mut digest, &files.read(file).unwrap_or_default());
    }
    digest.value()
}

/// All points of a plan: variants, then swept values, then contestants.
pub(crate) fn points<S: Subject>(
    frame: &Frame,
    body: &S,
    mut table: Table,
    files: &Files,
) -> Result<Vec<Point<S>>, PlanError> {
    let mut all = Vec::new();
    table.remove("variants");
    table.remove("quick");
    points_of(BASE, &table, frame, body, files, &mut all)?;
    // A variant that replaces nothing is left out: quick values say so of what takes too long.
    for (name, overrides) in frame.variants.iter().filter(|(_, overrides)| !overrides.is_empty()) {
        let in_variant = |error: PlanError| error.hint(format!("in `variants.{name}`"));
        let mut table = table.clone();
        for (key, value) in overrides {
            set(&mut table, key, value.clone(), names::<S>()).map_err(in_variant)?;
        }
        let (frame, body) = from_table::<S>(&table).map_err(in_variant)?;
        points_of(name, &table, &frame, &body, files, &mut all)?;
    }
    Ok(all)
}

fn points_of<S: Subject>(
    variant: &str,
    table: &Table,
    frame: &Frame,
    body: &S,
    files: &Files,
    all: &mut Vec<Point<S>>,
) -> Result<(), PlanError> {
    let measured = measured(body, files);
    let base = Arc::new(table.clone());
    let searched = body.axis().map(|axis| axis.key);
    let mut axes = Vec::new();
    for (key, sweep) in &frame.sweep {
        axes.push((key.clone(), sweep.values(key)?));
    }
    axes.sort_by_key(|(key, _)| Some(key.as_str()) != searched);
    let lengths = axes.iter().map(|(_, values)| values.len());
    let count = lengths.fold(1, usize::saturating_mul);
    if count.saturating_mul(body.contestants().len()) > POINTS_MAX {
        let message =
            format!("the sweep has {count} combinations; at most {POINTS_MAX} points are run");
        return Err(PlanError::text(message));
    }
    for index in 0..count {
        let mut rest = index;
        let mut swept = table.clone();
        let mut chosen = Vec::new();
        for (key, values) in axes.iter().rev() {
            let value = values[rest % values.len()].clone();
            rest /= values.len();
            set(&mut swept, key, value.clone(), names::<S>())
                .map_err(|error| error.hint(format!("in `sweep.{key}`")))?;
            chosen.insert(0, (key.clone(), value));
        }
        let (swept_frame, swept_body) = from_table::<S>(&swept).map_err(|error| {
            let keys: Vec<String> =
                chosen.iter().map(|(key, value)| format!("{key} = {value}")).collect();
            error.hint(format!("with swept {}", keys.join(", ")))
        })?;
        let objectives =
            swept_frame.objectives.iter().map(|text| Objective::read::<S>(text, &swept_body));
        let objectives: Vec<Objective> = objectives.collect::<Result<_, _>>()?;
        let run = &swept_frame.run;
        for (contestant, (label, plan)) in swept_body.contestants().into_iter().enumerate() {
            all.push(Point {
                variant: variant.to_string(),
                label,
                axes: chosen.clone(),
                plan,
                objectives: objectives.clone(),
                replications: run.replications.unwrap_or(S::ABOUT.replications),
                seed: run.seed,
                precision_ratio: run.precision_ratio,
                step: run.capacity_step,
                sectioned: false,
                measured,
                base: base.clone(),
                contestant,
                built: Arc::default(),
            });
        }
    }
    Ok(())
}

/// Checks a plan as a whole: labels, objectives, and that every point can be built.
pub(crate) fn check<S: Subject>(loaded: &Loaded<S>) -> Result<(), PlanError> {
    let body = &loaded.body;
    check_labels(&loaded.frame, body)?;
    body.check()?;
    let searchable = body.axis().is_some_and(|axis| axis.searchable);
    if !loaded.frame.objectives.is_empty() && !searchable {
        let what = body.axis().map_or("there is nothing to search", |_| "its load is not searched");
        return Err(PlanError::text(format!("`objectives` are set, but in this plan {what}"))
            .hint("leave them out, and read the results of the points"));
    }
    // Points that differ in nothing but the searched axis build alike; building one of each
    // variant, contestant and other swept setting finds every mistake, and does not read a file
    // once for each.
    let mut built = BTreeSet::new();
    for point in &loaded.points {
        point.plan.check()?;
        let facet: Vec<String> = point.facet().iter().map(|(k, v)| format!("{k}={v}")).collect();
        if built.insert((point.variant.clone(), point.label.clone(), facet)) {
            point.build(&loaded.files)?;
        }
    }
    Ok(())
}

fn check_labels<S: Subject>(frame: &Frame, body: &S) -> Result<(), PlanError> {
    let noun = S::ABOUT.contestant;
    let contestants = body.contestants();
    if contestants.is_empty() {
        let message = format!("`{}` is empty; a plan compares at least one", noun.many);
        return Err(PlanError::text(message).hint(format!(
            "add `[[{}]]` with `{} = \"…\"`; `cavy plan new` shows which there are",
            noun.many, noun.one
        )));
    }
    let mut seen = BTreeSet::new();
    for (label, _) in contestants {
        if seen.contains(&label) {
            let message = format!("two {} are called `{label}`", noun.many);
            return Err(PlanError::text(message).hint("give one of them a `label`"));
        }
        seen.insert(label);
    }
    if let Some(baseline) = &frame.baseline
        && !seen.contains(baseline)
    {
        let must = format!("the label of a {}", noun.one);
        return Err(PlanError::field("baseline", format!("`{baseline}`"), &must)
            .hint(format!("there are: {}", seen.into_iter().collect::<Vec<_>>().join(", "))));
    }
    Ok(())
}

/// Swept values as results and reports have them.
pub(crate) fn settings(axes: &[(String, Value)]) -> BTreeMap<String, serde_json::Value> {
    let json = |value: &Value| serde_json::to_value(value).unwrap_or_default();
    axes.iter().map(|(key, value)| (key.clone(), json(value))).collect()
}

/// A plan and everything that came of it.
#[derive(Clone, Debug)]
pub struct Experiment<S: Subject> {
    /// What all plans have.
    pub frame: Frame,
    /// What this kind has.
    pub plan: S,
    /// Results in the order of the points.
    pub results: Vec<Outcome<S::Data>>,
    /// The last values of the searched axis that are good enough, per variant, contestant and
    /// objective.
    pub capacities: Vec<Capacity>,
}

impl<S: Subject> Experiment<S> {
    /// The experiment in form: a blank outcome for each point of the plan, and a capacity for each
    /// search. `None` where the kind has no blank outcomes.
    pub fn blank(loaded: &Loaded<S>) -> Option<Self> {
        let of = |point: &Point<S>| {
            Some(Outcome {
                key: String::new(),
                variant: point.variant.clone(),
                label: point.label.clone(),
                settings: settings(&point.axes),
                at: point.axis().map(|axis| axis.at),
                rate_per_s: None,
                standing: Standing::Stable,
                note: String::new(),
                unformed: None,
                replications: 1,
                work: 0,
                last_to_converge: None,
                digest: String::new(),
                sections: Vec::new(),
                data: point.plan.blank()?,
            })
        };
        let results = loaded.points.iter().map(of).collect::<Option<Vec<_>>>()?;
        let capacities = search::blank(loaded);
        let (frame, plan) = (loaded.frame.clone(), loaded.body.clone());
        Some(Experiment { frame, plan, results, capacities })
    }

    /// How many sections all points have, of those that have any, for each way to cut runs up.
    pub fn sections(&self) -> Vec<usize> {
        let ways = self.results.iter().map(|result| result.sections.len()).max().unwrap_or(0);
        let all = |way: usize| {
            let counts = self.results.iter().filter_map(|result| result.sections.get(way));
            counts.map(Vec::len).filter(|&count| count > 1).min().unwrap_or(0)
        };
        (0..ways).map(all).collect()
    }

    /// The experiment as one of its sections has it. A point without such sections is the same in
    /// all.
    pub fn section(&self, way: usize, index: usize) -> Self {
        let of = |result: &Outcome<S::Data>| {
            result.section(way, index).unwrap_or_else(|| result.clone())
        };
        Experiment {
            frame: self.frame.clone(),
            plan: self.plan.clone(),
            results: self.results.iter().map(of).collect(),
            capacities: self.capacities.iter().map(|one| one.section(way, index)).collect(),
        }
    }

    /// Fingerprint of all runs.
    pub fn digest(&self) -> u64 {
        let mut digest = Digest::new();
        let capacity_digests = self.capacities.iter().map(|capacity| capacity.digest);
        let digests = self.results.iter().map(Outcome::digest_value);
        for value in digests.chain(capacity_digests) {
            digest.fold(value);
        }
        digest.value()
    }

    /// Results of one contestant in one variant, in the order of the sweep.
    pub fn of<'a>(
        &'a self,
        variant: &'a str,
        label: &'a str,
    ) -> impl Iterator<Item = &'a Outcome<S::Data>> + 'a {
        self.of_variant(variant).filter(move |r| r.label == label)
    }

    /// Results of one variant.
    pub fn of_variant<'a>(
        &'a self,
        variant: &'a str,
    ) -> impl Iterator<Item = &'a Outcome<S::Data>> + 'a {
        self.results.iter().filter(move |r| r.variant == variant)
    }

    /// The result of a contestant at a load (to a millionth), or at another value of the axis that
    /// can be searched, in one variant.
    pub fn at(&self, variant: &str, label: &str, at: f64) -> Option<&Outcome<S::Data>> {
        let near = |result: &&Outcome<S::Data>| (result.load() - at).abs() < 1e-6;
        self.results.iter().filter(|r| r.variant == variant && r.label == label).find(near)
    }

    /// The result of a contestant in one variant at these values of swept keys.
    pub fn with(
        &self,
        variant: &str,
        label: &str,
        settings: &[(&str, f64)],
    ) -> Option<&Outcome<S::Data>> {
        let set = |result: &Outcome<S::Data>, (key, value): &(&str, f64)| {
            result.setting(key).is_some_and(|found| (found - value).abs() < 1e-9)
        };
        let mut here = self.results.iter().filter(|r| r.variant == variant && r.label == label);
        here.find(|result| settings.iter().all(|one| set(result, one)))
    }

    /// The capacity of a contestant in one variant for the objective numbered `objective`.
    pub fn capacity(&self, variant: &str, label: &str, objective: usize) -> Option<&Capacity> {
        self.capacities.iter().find(|capacity| {
            capacity.variant == variant
                && capacity.label == label
                && capacity.objective_index == objective
        })
    }

    /// Variants in order.
    pub fn variants(&self) -> Vec<&str> {
        let mut seen: Vec<&str> = Vec::new();
        for result in &self.results {
            if !seen.contains(&result.variant.as_str()) {
                seen.push(&result.variant);
            }
        }
        seen
    }

    /// Labels of the contestants in one variant, in order.
    pub fn labels(&self, variant: &str) -> Vec<&str> {
        let mut seen: Vec<&str> = Vec::new();
        for result in self.results.iter().filter(|result| result.variant == variant) {
            if !seen.contains(&result.label.as_str()) {
                seen.push(&result.label);
            }
        }
        seen
    }

    /// The label that others are compared with in one variant.
    pub fn baseline(&self, variant: &str) -> Option<&str> {
        match &self.frame.baseline {
            Some(label) => Some(label),
            None => self.labels(variant).first().copied(),
        }
    }

    /// Units of work simulated, each run counted once.
    pub fn work(&self) -> u64 {
        let of_points = self.results.iter().map(|result| (result.key.as_str(), result.work));
        let of_searches = self.capacities.iter().flat_map(|capacity| &capacity.runs);
        let of_searches = of_searches.map(|(key, work)| (key.as_str(), *work));
        of_points.chain(of_searches).collect::<BTreeMap<&str, u64>>().values().sum()
    }
}
