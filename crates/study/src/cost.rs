//! What plans will cost, before they are run.

use crate::experiment::Point;
use crate::plan::Loaded;
use crate::search;
use crate::store::Store;
use crate::subject::{Effort, Subject};
use std::collections::BTreeSet;

/// What some plans will cost together. Points that several plans share are counted once.
#[derive(Clone, Debug, Default)]
pub struct Cost {
    /// Different points.
    pub points: usize,
    /// Units of work over all points and replications, by what they are called: requests, messages.
    pub work: Vec<(&'static str, f64)>,
    /// Seconds on one core for the points, from measured costs of a unit of work.
    pub core_s: f64,
    /// Memory of one core's runs, bytes.
    pub memory_bytes: f64,
    /// Runs that searches will need, about.
    pub searched: usize,
    /// Seconds on one core for them.
    pub searched_core_s: f64,
    /// Points that need not be run again.
    pub kept: usize,
    /// Seconds on one core that this saves.
    pub kept_core_s: f64,
    /// Seconds on one core for the points at most, where a precision decides how many replications
    /// there are.
    pub most_core_s: f64,
    /// The same for what searches will need.
    pub searched_most_core_s: f64,
    known: BTreeSet<String>,
}

impl Cost {
    /// Adds a plan; what `store` holds costs nothing.
    pub fn add<S: Subject>(&mut self, loaded: &Loaded<S>, store: &Store) {
        // How many times as much as its first replications a point may take.
        let growth = |point: &Point<S>, work: f64| match point.precision_ratio {
            Some(_) if work > 0.0 => (point.plan.work_max() as f64 / work).max(1.0),
            _ => 1.0,
        };
        for ahead in search::ahead(loaded) {
            let each = ahead.point.effort(&loaded.files);
            self.searched += ahead.runs;
            let core_s = each.core_s * ahead.runs as f64;
            self.searched_core_s += core_s;
            self.searched_most_core_s += core_s * growth(ahead.point, each.work);
            self.count(S::ABOUT.work.many, each.work * ahead.runs as f64);
        }
        for point in &loaded.points {
            let key = point.key();
            let is_kept = store.has(&key);
            if !self.known.insert(key) {
                continue;
            }
            let Effort { work, core_s, memory_bytes } = point.effort(&loaded.files);
            self.points += 1;
            self.count(S::ABOUT.work.many, work);
            self.core_s += core_s;
            self.memory_bytes = self.memory_bytes.max(memory_bytes);
            if is_kept {
                self.kept += 1;
                self.kept_core_s += core_s;
            } else {
                self.most_core_s += core_s * growth(point, work);
            }
        }
    }

    fn count(&mut self, what: &'static str, work: f64) {
        match self.work.iter_mut().find(|(known, _)| *known == what) {
            Some((_, all)) => *all += work,
            None => self.work.push((what, work)),
        }
    }

    /// Runs that are not done yet.
    pub fn runs(&self) -> usize {
        self.points - self.kept + self.searched
    }

    /// Seconds on one core that are not spent yet.
    pub fn left_core_s(&self) -> f64 {
        (self.core_s - self.kept_core_s).max(0.0) + self.searched_core_s
    }

    /// The same at most, where a precision decides.
    pub fn left_core_s_max(&self) -> f64 {
        self.left_core_s().max(self.most_core_s + self.searched_most_core_s)
    }
}
