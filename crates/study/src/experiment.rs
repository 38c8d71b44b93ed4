//! A plan spread out into points, and the results of them all.

use crate::capacity::Capacity;
use crate::plan::read::{from_table, set};
use crate::plan::{Loaded, Plan, PlanError};
use crate::subject::{Outcome, Subject};
use cavy_core::Digest;
use std::collections::BTreeMap;
use std::path::Path;
use toml::Value;

/// Name of the plan as written, beside its variants.
pub const BASE: &str = "base";

/// One setting of one policy, or of one transport: a plan with exactly one of them and nothing left
/// to vary.
#[derive(Clone, Debug)]
pub struct Point<P = Plan> {
    /// The variant of the plan.
    pub variant: String,
    /// Label of the policy or transport.
    pub policy: String,
    /// Swept keys and their values, the horizontal axis first.
    pub axes: Vec<(String, Value)>,
    /// The plan.
    pub plan: P,
    /// Objectives of the variant.
    pub objectives: Vec<String>,
    /// Fingerprint of the contents of the files the plan names; zero when it names none.
    pub measured: u64,
}

impl<P: Subject> Point<P> {
    /// Names everything that decides the result: equal keys, equal results.
    pub fn key(&self) -> String {
        let mut plan = self.plan.clone();
        // Names and texts do not change results; neither does what was swept to get here.
        plan.forget_names();
        let text = serde_json::to_string(&plan).unwrap_or_default();
        let mut digest = Digest::new();
        digest.fold(self.measured);
        fold_bytes(&mut digest, text.as_bytes());
        let mut second = digest;
        second.fold(text.len() as u64);
        format!("{:016x}{:016x}", digest.value(), second.value())
    }

    /// Policy and swept values, for messages.
    pub fn policy_and_axis(&self) -> String {
        let axes: Vec<String> =
            self.axes.iter().map(|(key, value)| format!("{key}={value}")).collect();
        format!("{} {} {}", self.variant, self.policy, axes.join(" "))
    }

    /// The same point at another load.
    pub fn at_load(&self, load: f64) -> Point<P> {
        let mut point = self.clone();
        point.plan.set_load(load);
        for (key, value) in &mut point.axes {
            if key == "load" {
                *value = Value::Float(load);
            }
        }
        point
    }

    /// Swept values other than the load.
    pub fn facet(&self) -> Vec<(String, Value)> {
        self.axes.iter().filter(|(key, _)| key != "load").cloned().collect()
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

/// Fingerprint of the measured data a plan names, so that changed data are not taken for the old.
/// A file that cannot be read counts as empty here; building the scenario says what is wrong with it.
fn measured<P: Subject>(plan: &P, folder: &Path) -> u64 {
    let files = plan.files();
    if files.is_empty() {
        return 0;
    }
    let mut digest = Digest::new();
    for file in files {
        fold_bytes(&mut digest, &std::fs::read(folder.join(file)).unwrap_or_default());
    }
    digest.value()
}

/// All points of a plan: variants, then swept values, then policies.
pub fn points<P: Subject>(loaded: &Loaded<P>) -> Result<Vec<Point<P>>, PlanError> {
    let mut all = Vec::new();
    let mut base = loaded.table.clone();
    base.remove("variants");
    base.remove("quick");
    points_of(BASE, &base, &loaded.plan, &loaded.folder, &mut all)?;
    // A variant that replaces nothing is left out: quick values say so of what takes too long.
    let variants = loaded.plan.variants().iter().filter(|(_, overrides)| !overrides.is_empty());
    for (name, overrides) in variants {
        let mut table = base.clone();
        for (key, value) in overrides {
            set(&mut table, key, value.clone())
                .map_err(|error| error.hint(format!("in `variants.{name}`")))?;
        }
        let plan: P =
            from_table(&table).map_err(|error| error.hint(format!("in `variants.{name}`")))?;
        points_of(name, &table, &plan, &loaded.folder, &mut all)?;
    }
    Ok(all)
}

fn points_of<P: Subject>(
    variant: &str,
    table: &toml::Table,
    plan: &P,
    folder: &Path,
    all: &mut Vec<Point<P>>,
) -> Result<(), PlanError> {
    let measured = measured(plan, folder);
    let mut axes = Vec::new();
    for (key, sweep) in plan.sweep() {
        axes.push((key.clone(), sweep.values(key)?));
    }
    axes.sort_by_key(|(key, _)| key != "load");
    let lengths = axes.iter().map(|(_, values)| values.len());
    let count = lengths.fold(1, usize::saturating_mul);
    if count.saturating_mul(plan.contestants()) > 100_000 {
        let message = format!("the sweep has {count} combinations; at most 100000 points are run");
        return Err(PlanError::text(message));
    }
    for index in 0..count {
        let mut rest = index;
        let mut swept = table.clone();
        let mut chosen = Vec::new();
        for (key, values) in axes.iter().rev() {
            let value = values[rest % values.len()].clone();
            rest /= values.len();
            set(&mut swept, key, value.clone())
                .map_err(|error| error.hint(format!("in `sweep.{key}`")))?;
            chosen.insert(0, (key.clone(), value));
        }
        let swept_plan: P = from_table(&swept).map_err(|error| {
            let keys: Vec<String> =
                chosen.iter().map(|(key, value)| format!("{key} = {value}")).collect();
            error.hint(format!("with swept {}", keys.join(", ")))
        })?;
        for (policy, plan) in swept_plan.split() {
            all.push(Point {
                variant: variant.to_string(),
                policy,
                axes: chosen.clone(),
                plan,
                objectives: swept_plan.objectives().to_vec(),
                measured,
            });
        }
    }
    Ok(())
}

/// A plan and everything that came of it.
#[derive(Clone, Debug)]
pub struct Experiment<P: Subject = Plan> {
    /// The plan.
    pub plan: P,
    /// Results in the order of [`points`].
    pub results: Vec<P::Outcome>,
    /// Highest sustainable loads, per variant, policy and objective.
    pub capacities: Vec<Capacity>,
}

impl<P: Subject> Experiment<P> {
    /// Fingerprint of all runs.
    pub fn digest(&self) -> u64 {
        let mut digest = Digest::new();
        let capacity_digests = self.capacities.iter().map(|capacity| capacity.digest);
        let digests = self.results.iter().map(|result| result.digest_value());
        for value in digests.chain(capacity_digests) {
            digest.fold(value);
        }
        digest.value()
    }

    /// Results of one policy in one variant, in the order of the sweep.
    pub fn of<'a>(
        &'a self,
        variant: &'a str,
        policy: &'a str,
    ) -> impl Iterator<Item = &'a P::Outcome> + 'a {
        self.results.iter().filter(move |r| r.variant() == variant && r.label() == policy)
    }

    /// The result of a policy at a load (to a millionth), in one variant.
    pub fn at(&self, variant: &str, policy: &str, load: f64) -> Option<&P::Outcome> {
        self.results.iter().find(|result| {
            result.variant() == variant
                && result.label() == policy
                && (result.load() - load).abs() < 1e-6
        })
    }

    /// The capacity of a policy in one variant for the objective numbered `objective`.
    pub fn capacity(&self, variant: &str, policy: &str, objective: usize) -> Option<&Capacity> {
        self.capacities.iter().find(|capacity| {
            capacity.variant == variant
                && capacity.policy == policy
                && capacity.objective_index == objective
        })
    }

    /// Variants in order.
    pub fn variants(&self) -> Vec<&str> {
        let mut seen: Vec<&str> = Vec::new();
        for result in &self.results {
            if !seen.contains(&result.variant()) {
                seen.push(result.variant());
            }
        }
        seen
    }

    /// Labels of the policies in one variant, in order.
    pub fn policies(&self, variant: &str) -> Vec<&str> {
        let mut seen: Vec<&str> = Vec::new();
        for result in self.results.iter().filter(|result| result.variant() == variant) {
            if !seen.contains(&result.label()) {
                seen.push(result.label());
            }
        }
        seen
    }

    /// All requests simulated.
    pub fn requests(&self) -> u64 {
        let of_points: BTreeMap<&str, u64> =
            self.results.iter().map(|result| (result.key(), result.requests())).collect();
        of_points.values().sum::<u64>() + self.capacities.iter().map(|c| c.requests).sum::<u64>()
    }
}
