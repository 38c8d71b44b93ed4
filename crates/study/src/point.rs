//! Running one point: its replications, side by side, as many as it asks for or its precision
//! needs.

use crate::experiment::{self, Point};
use crate::outcome::Outcome;
use crate::plan::{Files, PlanError};
use crate::subject::Subject;
use cavy_core::Digest;
use cavy_lab::statistics::interval::Interval;
use cavy_lab::statistics::sequential::{Precision, Target};
use rayon::prelude::*;
use std::ops::Range;

/// How runs are made, beyond what the plan says. None of it changes results, except `shuffle_ties`,
/// which must not.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// Keep pending events there, and not where the kind keeps them of its own accord.
    pub queue: Option<Queue>,
    /// Shuffle simultaneous events of one class by this seed.
    pub shuffle_ties: Option<u64>,
    /// Run everything twice and compare.
    pub twice: bool,
    /// Keep of every replication what is otherwise kept of the first, such as a timeline. Points
    /// whose claims are judged set it.
    pub sectioned: bool,
}

/// Where pending events wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// A heap of four children a node.
    Heap,
    /// A hierarchical timing wheel.
    Wheel,
}

/// Why a run could not be made.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The plan is wrong.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Two runs of one seed differ: a defect of this program.
    #[error("two runs differ: {0}")]
    Diverged(String),
    /// Somebody asked to stop.
    #[error("interrupted after {done} of {total} points")]
    Interrupted {
        /// Points that are finished and kept.
        done: usize,
        /// Points in all.
        total: usize,
    },
    /// Results could not be kept.
    #[error("cannot write {path}: {error}")]
    Store {
        /// The file.
        path: String,
        /// What the system said.
        error: std::io::Error,
    },
}

/// The seed of a replication. It does not depend on the contestant, so all meet the same arrivals;
/// nor on the load, so curves are smooth.
pub fn seed_of(root: u64, replication: u32) -> u64 {
    let mut digest = Digest::new();
    digest.fold(root);
    digest.fold(u64::from(replication));
    digest.value()
}

/// Runs a point: the replications its plan asks for, or as many as its precision needs.
pub fn run<S: Subject>(
    point: &Point<S>,
    files: &Files,
    manner: &Manner,
) -> Result<Outcome<S::Data>, RunError> {
    let mut scenario = point.scenario(files)?;
    let manner = &Manner { sectioned: point.sectioned, ..*manner };
    S::prepare(&mut scenario, manner);
    let mut runs = replications(point, &scenario, 0..point.replications, manner)?;
    let mut result = summarize(point, &scenario, &runs);
    if let Some(relative_max) = point.precision_ratio {
        // Rounds of a fixed size, so that results do not depend on the number of cores.
        const ROUND: u32 = 4;
        let target = |(metric, _): (String, _)| Target { metric, relative_max };
        let mut precision = Precision::new(S::precision(&result).into_iter().map(target).collect());
        while !precision.round(&intervals::<S>(&result)) {
            let each = result.work / u64::from(result.replications.max(1));
            let spent = result.work + u64::from(ROUND) * each;
            if !result.stable() || spent > point.plan.work_max() {
                break;
            }
            let from = runs.len() as u32;
            runs.extend(replications(point, &scenario, from..from + ROUND, manner)?);
            result = summarize(point, &scenario, &runs);
        }
        result.last_to_converge = precision.slowest().map(|target| target.metric.clone());
    }
    Ok(result)
}

fn intervals<S: Subject>(result: &Outcome<S::Data>) -> Vec<Option<Interval>> {
    S::precision(result).into_iter().map(|(_, interval)| interval).collect()
}

fn replications<S: Subject>(
    point: &Point<S>,
    scenario: &S::Scenario,
    which: Range<u32>,
    manner: &Manner,
) -> Result<Vec<S::Replication>, RunError> {
    which
        .into_par_iter()
        .map(|replication| {
            let seed = seed_of(point.seed, replication);
            let run = S::replicate(scenario, seed, replication, manner)?;
            if manner.twice {
                let again = S::replicate(scenario, seed, replication, manner)?;
                if let Some((agreed, parted)) = S::trail(&run).parts_from(S::trail(&again)) {
                    return Err(RunError::Diverged(format!(
                        "{}, seed {}, replication {replication}: agreed until {agreed:?}, \
                         differ at {parted:?}",
                        point.label_and_axes(),
                        point.seed
                    )));
                }
            }
            Ok(run)
        })
        .collect()
}

fn summarize<S: Subject>(
    point: &Point<S>,
    scenario: &S::Scenario,
    runs: &[S::Replication],
) -> Outcome<S::Data> {
    let mut digest = Digest::new();
    for run in runs {
        digest.fold(S::trail(run).digest());
    }
    let summed = point.plan.summarize(scenario, runs);
    let sections = match point.sectioned {
        true => point.plan.sections(scenario, runs, &summed.data),
        false => Vec::new(),
    };
    Outcome {
        key: point.key(),
        variant: point.variant.clone(),
        label: point.label.clone(),
        settings: experiment::settings(&point.axes),
        at: point.axis().map(|axis| axis.at),
        rate_per_s: summed.rate_per_s,
        standing: summed.standing,
        note: summed.note,
        unformed: summed.unformed,
        replications: runs.len() as u32,
        work: summed.work,
        last_to_converge: None,
        digest: format!("{:016x}", digest.value()),
        sections,
        data: summed.data,
    }
}
