//! Running many points: over all cores, each only once, with progress, and so that it can stop.

use crate::experiment::{self, Experiment, Point};
use crate::outcome::Outcome;
use crate::plan::{Files, Loaded};
use crate::point::{self, Manner, RunError};
use crate::search;
use crate::store::Store;
use crate::subject::Subject;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Hears how work goes on.
pub trait Progress: Sync {
    /// A point is finished, which was expected to cost so many seconds of one core.
    fn done(&self, core_s: f64);
    /// What is being done now.
    fn doing(&self, what: &str);
}

/// Tells nobody.
#[derive(Clone, Copy, Debug)]
pub struct Silent;

impl Progress for Silent {
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

/// One point to run, whatever its kind.
pub trait Job: Send + Sync {
    /// The point's key.
    fn key(&self) -> &str;
    /// Seconds of one core that it will take, about.
    fn core_s(&self) -> f64;
    /// What it is, for progress.
    fn words(&self) -> String;
    /// Is its result in `store`, and readable?
    fn is_kept(&self, store: &Store) -> bool;
    /// Runs it and keeps the result.
    fn run(&self, runner: &Runner<'_>) -> Result<(), RunError>;
}

/// A point as a job.
struct OfPoint<'a, S: Subject> {
    key: String,
    core_s: f64,
    point: &'a Point<S>,
    files: &'a Files,
}

impl<S: Subject> Job for OfPoint<'_, S> {
    fn key(&self) -> &str {
        &self.key
    }
    fn core_s(&self) -> f64 {
        self.core_s
    }
    fn words(&self) -> String {
        match self.point.axis() {
            Some(axis) => format!("{} {}", self.point.label, axis.place(axis.at)),
            None => self.point.label.clone(),
        }
    }
    fn is_kept(&self, store: &Store) -> bool {
        store.get::<S::Data>(&self.key).is_some()
    }
    fn run(&self, runner: &Runner<'_>) -> Result<(), RunError> {
        let result = point::run(self.point, self.files, &runner.manner)?;
        runner.store.put(&result, runner.version)
    }
}

/// All points of a plan as jobs.
pub fn jobs<S: Subject>(loaded: &Loaded<S>) -> Vec<Box<dyn Job + '_>> {
    let files = &loaded.files;
    let mut all: Vec<Box<dyn Job + '_>> = Vec::new();
    for point in &loaded.points {
        let core_s = point.effort(files).core_s;
        all.push(Box::new(OfPoint { key: point.key(), core_s, point, files }));
    }
    all
}

impl Runner<'_> {
    /// Runs all jobs, each key once: every core takes the longest that is left, until none is, or
    /// one failed, or all is to stop.
    pub fn run(&self, jobs: &[Box<dyn Job + '_>]) -> Result<(), RunError> {
        let mut seen = BTreeSet::new();
        let mut open: Vec<&dyn Job> = Vec::new();
        for job in jobs {
            if seen.insert(job.key()) && !job.is_kept(self.store) {
                open.push(job.as_ref());
            }
        }
        // The longest first: what is left for one core at the end is short. Those that take as long
        // stay in the order of the plan, so that what points have in common is still at hand.
        open.sort_by(|a, b| b.core_s().total_cmp(&a.core_s()));
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let one = |job: &dyn Job| {
            if self.stop.load(Ordering::Relaxed) {
                return Err(RunError::Interrupted { done: 0, total: open.len() });
            }
            self.progress.doing(&job.words());
            job.run(self)?;
            done.fetch_add(1, Ordering::Relaxed);
            self.progress.done(job.core_s());
            Ok(())
        };
        // A parallel iterator would give each core a stretch of the list, so that one begins with
        // the longest and the other with the middle ones.
        let outcomes = rayon::broadcast(|_| {
            while let Some(job) = open.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Err(error) = one(*job) {
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
    pub fn point<S: Subject>(
        &self,
        point: &Point<S>,
        files: &Files,
    ) -> Result<Outcome<S::Data>, RunError> {
        if let Some(result) = self.recall(point) {
            return Ok(result);
        }
        if self.stop.load(Ordering::Relaxed) {
            return Err(RunError::Interrupted { done: 0, total: 1 });
        }
        let result = point::run(point, files, &self.manner)?;
        self.store.put(&result, self.version)?;
        self.progress.done(point.effort(files).core_s);
        Ok(result)
    }

    /// The stored result of `point`, under the names by which this point goes.
    fn recall<S: Subject>(&self, point: &Point<S>) -> Option<Outcome<S::Data>> {
        let mut result: Outcome<S::Data> = self.store.get(&point.key())?;
        result.variant.clone_from(&point.variant);
        result.label.clone_from(&point.label);
        result.settings = experiment::settings(&point.axes);
        Some(result)
    }

    /// Runs a whole plan: its points, then the searches its objectives ask for.
    pub fn experiment<S: Subject>(&self, loaded: &Loaded<S>) -> Result<Experiment<S>, RunError> {
        self.run(&jobs(loaded))?;
        let results: Vec<_> = loaded.points.iter().filter_map(|point| self.recall(point)).collect();
        let capacities = search::capacities(self, loaded, &results)?;
        let (frame, plan) = (loaded.frame.clone(), loaded.body.clone());
        Ok(Experiment { frame, plan, results, capacities })
    }
}
