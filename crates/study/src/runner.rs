//! Running many points: over all cores, each only once, with progress, and so that it can stop.

use crate::capacity;
use crate::experiment::{self, Experiment, Point};
use crate::plan::{Loaded, PlanError, PolicyName};
use crate::point::{self, Manner, PointResult, RunError};
use crate::store::Store;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Hears how work goes on.
pub trait Progress: Sync {
    /// So many points are ahead, costing about so many seconds of one core.
    fn ahead(&self, points: usize, core_s: f64);
    /// A point is finished, which was expected to cost so many seconds of one core.
    fn done(&self, result: &PointResult, core_s: f64);
    /// What is being done now.
    fn doing(&self, what: &str);
}

/// Tells nobody.
#[derive(Clone, Copy, Debug)]
pub struct Silent;

impl Progress for Silent {
    fn ahead(&self, _: usize, _: f64) {}
    fn done(&self, _: &PointResult, _: f64) {}
    fn doing(&self, _: &str) {}
}

/// Runs points. Uses the current rayon pool; results do not depend on its size.
pub struct Runner<'a> {
    /// Finished points.
    pub store: &'a Store,
    /// Who hears of progress.
    pub progress: &'a dyn Progress,
    /// Set when the run should stop after the points in hand.
    pub stop: &'a AtomicBool,
    /// How runs are made.
    pub manner: Manner,
    /// Version of the program, kept with stored results.
    pub version: &'a str,
}

/// What a plan will cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Different points.
    pub points: usize,
    /// Requests over all points and replications, capacity searches not counted.
    pub requests: f64,
    /// Seconds on one core, from measured costs per request.
    pub core_s: f64,
    /// Memory of one core's runs, bytes.
    pub memory_bytes: f64,
}

/// Estimates what `points` cost, each counted once.
pub fn cost(points: &[Point]) -> Cost {
    let unique: BTreeMap<String, &Point> = points.iter().map(|p| (p.key(), p)).collect();
    let mut total = Cost { points: unique.len(), requests: 0.0, core_s: 0.0, memory_bytes: 0.0 };
    for point in unique.values() {
        let requests = point.plan.run.requests as f64 * f64::from(point.plan.run.replications);
        total.requests += requests;
        total.core_s += core_s(point);
        // Histograms of six slices a type, for the replications of one point.
        let histograms = 6.0 * point.plan.types.len().max(1) as f64 * 262_144.0;
        let memory = histograms * f64::from(point.plan.run.replications.min(16));
        total.memory_bytes = total.memory_bytes.max(memory);
    }
    total
}

/// Seconds on one core for a point, within a factor of two on machines of this decade.
fn core_s(point: &Point) -> f64 {
    let policy = &point.plan.policies[0];
    let ns = match policy.policy {
        PolicyName::TimeSharing => {
            // Each slice costs an expiry and a yield.
            let mean_us: f64 = point.plan.types.iter().map(|t| t.share * mean_us(&t.service)).sum();
            120.0 + 160.0 * mean_us / policy.slice_us.unwrap_or(5.0).max(0.01)
        }
        PolicyName::ProcessorSharing => 220.0,
        PolicyName::DFcfs | PolicyName::Stealing => 160.0,
        _ => 130.0,
    };
    let twice = f64::from(point.plan.run.replications) * point.plan.run.requests as f64;
    twice * ns / 1e9
}

fn mean_us(service: &crate::plan::ServicePlan) -> f64 {
    use crate::plan::ServicePlan as S;
    match service {
        S::Constant { us } => *us,
        S::Exponential { mean_us }
        | S::Lognormal { mean_us, .. }
        | S::Pareto { mean_us, .. }
        | S::Weibull { mean_us, .. } => *mean_us,
        S::Bimodal { short_us, long_us, long_ratio } => {
            short_us * (1.0 - long_ratio) + long_us * long_ratio
        }
        S::Uniform { low_us, high_us } => (low_us + high_us) / 2.0,
        S::Trace { .. } => 100.0,
    }
}

impl Runner<'_> {
    /// Runs all points, each key once, and returns results in the order given.
    pub fn points(&self, points: &[Point], folder: &Path) -> Result<Vec<PointResult>, RunError> {
        let mut unique: BTreeMap<String, &Point> = BTreeMap::new();
        for point in points {
            unique.entry(point.key()).or_insert(point);
        }
        let open: Vec<(&String, &Point)> = unique
            .iter()
            .filter(|(key, _)| self.store.get(key).is_none())
            .map(|(key, point)| (key, *point))
            .collect();
        self.progress.ahead(open.len(), open.iter().map(|(_, point)| core_s(point)).sum());
        let done = AtomicUsize::new(0);
        let outcome: Result<(), RunError> = open.par_iter().try_for_each(|(_, point)| {
            if self.stop.load(Ordering::Relaxed) {
                let done = done.load(Ordering::Relaxed);
                return Err(RunError::Interrupted { done, total: open.len() });
            }
            self.progress.doing(&format!("{} at load {}", point.policy, point.plan.load));
            let result = point::run(point, folder, &self.manner)?;
            self.store.put(&result, self.version)?;
            done.fetch_add(1, Ordering::Relaxed);
            self.progress.done(&result, core_s(point));
            Ok(())
        });
        match outcome {
            Err(RunError::Interrupted { total, .. }) => {
                let done = done.load(Ordering::Relaxed);
                return Err(RunError::Interrupted { done, total });
            }
            other => other?,
        }
        Ok(points.iter().filter_map(|point| self.recall(point)).collect())
    }

    /// Runs one point unless it is known.
    pub fn point(&self, point: &Point, folder: &Path) -> Result<PointResult, RunError> {
        if let Some(result) = self.recall(point) {
            return Ok(result);
        }
        if self.stop.load(Ordering::Relaxed) {
            return Err(RunError::Interrupted { done: 0, total: 1 });
        }
        let result = point::run(point, folder, &self.manner)?;
        self.store.put(&result, self.version)?;
        self.progress.done(&result, core_s(point));
        Ok(result)
    }

    /// The stored result of `point`, under the names by which this point goes.
    fn recall(&self, point: &Point) -> Option<PointResult> {
        let mut result = self.store.get(&point.key())?;
        result.variant.clone_from(&point.variant);
        result.policy.clone_from(&point.policy);
        result.settings = point
            .axes
            .iter()
            .map(|(key, value)| (key.clone(), serde_json::to_value(value).unwrap_or_default()))
            .collect();
        Some(result)
    }

    /// Runs a whole plan: its points, then the capacity searches its objectives ask for.
    pub fn experiment(&self, loaded: &Loaded) -> Result<Experiment, RunError> {
        let points = experiment::points(loaded).map_err(|e: PlanError| e.in_file(&loaded.name))?;
        let results = self.points(&points, &loaded.folder)?;
        let capacities = capacity::search(self, loaded, &points, &results)?;
        Ok(Experiment { plan: loaded.plan.clone(), results, capacities })
    }
}
