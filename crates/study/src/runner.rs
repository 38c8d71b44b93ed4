//! Running many points: over all cores, each only once, with progress, and so that it can stop.

use crate::capacity;
use crate::experiment::{self, Experiment, Point};
use crate::plan::{Loaded, PlanError};
use crate::point::{Manner, RunError};
use crate::store::Store;
use crate::subject::{self, Outcome, Subject};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Hears how work goes on.
pub trait Progress: Sync {
    /// So many points are ahead, costing about so many seconds of one core.
    fn ahead(&self, points: usize, core_s: f64);
    /// A point is finished, which was expected to cost so many seconds of one core.
    fn done(&self, core_s: f64);
    /// What is being done now.
    fn doing(&self, what: &str);
}

/// Tells nobody.
#[derive(Clone, Copy, Debug)]
pub struct Silent;

impl Progress for Silent {
    fn ahead(&self, _: usize, _: f64) {}
    fn done(&self, _: f64) {}
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

/// Estimates what `points` cost, each counted once. Their files are relative to `folder`.
pub fn cost<P: Subject>(points: &[Point<P>], folder: &Path) -> Cost {
    let unique: BTreeMap<String, &Point<P>> = points.iter().map(|p| (p.key(), p)).collect();
    let mut total = Cost { points: unique.len(), requests: 0.0, core_s: 0.0, memory_bytes: 0.0 };
    for point in unique.values() {
        let effort = point.plan.effort(folder);
        total.requests += effort.requests;
        total.core_s += effort.core_s;
        total.memory_bytes = total.memory_bytes.max(effort.memory_bytes);
    }
    total
}

impl Runner<'_> {
    /// Runs all points, each key once, and returns results in the order given.
    pub fn points<P: Subject>(
        &self,
        points: &[Point<P>],
        folder: &Path,
    ) -> Result<Vec<P::Outcome>, RunError> {
        let mut unique: BTreeMap<String, &Point<P>> = BTreeMap::new();
        for point in points {
            unique.entry(point.key()).or_insert(point);
        }
        // The longest first: what is left for one core at the end is short.
        let mut open: Vec<(f64, &Point<P>)> = unique
            .iter()
            .filter(|(key, _)| self.store.get::<P::Outcome>(key).is_none())
            .map(|(_, point)| (point.plan.effort(folder).core_s, *point))
            .collect();
        open.sort_by(|a, b| b.0.total_cmp(&a.0));
        self.progress.ahead(open.len(), open.iter().map(|one| one.0).sum());
        self.queue(&open, folder)?;
        Ok(points.iter().filter_map(|point| self.recall(point)).collect())
    }

    /// Every core takes the next point until none is left, or one failed, or all is to stop.
    fn queue<P: Subject>(&self, open: &[(f64, &Point<P>)], folder: &Path) -> Result<(), RunError> {
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let one = |(core_s, point): &(f64, &Point<P>)| {
            if self.stop.load(Ordering::Relaxed) {
                return Err(RunError::Interrupted { done: 0, total: open.len() });
            }
            self.progress.doing(&format!("{} at load {}", point.policy, point.plan.load()));
            let result = P::run(point, folder, &self.manner)?;
            self.store.put(&result, self.version)?;
            done.fetch_add(1, Ordering::Relaxed);
            self.progress.done(*core_s);
            Ok(())
        };
        // A parallel iterator would give each core a stretch of the list, so that one begins with the longest
        // and the other with the middle ones.
        let outcomes = rayon::broadcast(|_| {
            while let Some(open) = open.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Err(error) = one(open) {
                    next.store(usize::MAX / 2, Ordering::Relaxed);
                    return Err(error);
                }
            }
            Ok(())
        });
        match outcomes.into_iter().collect() {
            Err(RunError::Interrupted { total, .. }) => {
                let done = done.load(Ordering::Relaxed);
                Err(RunError::Interrupted { done, total })
            }
            other => other,
        }
    }

    /// Runs one point unless it is known.
    pub fn point<P: Subject>(
        &self,
        point: &Point<P>,
        folder: &Path,
    ) -> Result<P::Outcome, RunError> {
        if let Some(result) = self.recall(point) {
            return Ok(result);
        }
        if self.stop.load(Ordering::Relaxed) {
            return Err(RunError::Interrupted { done: 0, total: 1 });
        }
        let result = P::run(point, folder, &self.manner)?;
        self.store.put(&result, self.version)?;
        self.progress.done(point.plan.effort(folder).core_s);
        Ok(result)
    }

    /// The stored result of `point`, under the names by which this point goes.
    fn recall<P: Subject>(&self, point: &Point<P>) -> Option<P::Outcome> {
        let mut result: P::Outcome = self.store.get(&point.key())?;
        result.rename(&point.variant, &point.policy, subject::settings(&point.axes));
        Some(result)
    }

    /// Runs a whole plan: its points, then the capacity searches its objectives ask for.
    pub fn experiment<P: Subject>(&self, loaded: &Loaded<P>) -> Result<Experiment<P>, RunError> {
        let points = experiment::points(loaded).map_err(|e: PlanError| e.in_file(&loaded.name))?;
        let results = self.points(&points, &loaded.folder)?;
        let capacities = capacity::search(self, loaded, &points, &results)?;
        Ok(Experiment { plan: loaded.plan.clone(), results, capacities })
    }
}
