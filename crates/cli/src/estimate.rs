//! What a run will cost, before it is begun.

use crate::faults::Fault;
use cavy_report::number::{count, significant};
use cavy_study::experiment::{self, Point};
use cavy_study::plan::{AnyPlan, Loaded, PlanError, build};
use cavy_study::runner::{Cost, cost};
use cavy_study::store::Store;
use cavy_study::subject::Subject;
use std::collections::BTreeSet;
use std::path::Path;

/// Estimated wall time beyond which a run must be asked for twice.
const WALL_S_MAX: f64 = 30.0 * 60.0;
/// Bytes of a timeline's histogram, of which there is one for each type and bin: the pages that the
/// latencies of one bin touch, out of 256 KB that are set aside.
const HISTOGRAM_BYTES: f64 = 16_384.0;

/// What a run will cost.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    /// Different points of the plan, and requests over all of them.
    pub planned: Cost,
    /// Runs that capacity searches will need, about.
    pub searched: usize,
    /// Seconds on one core for the searches.
    pub searched_core_s: f64,
    /// Requests of the searches.
    pub searched_requests: f64,
    /// Points that need not be run again, and seconds on one core that this saves.
    pub kept: usize,
    kept_core_s: f64,
    timeline_bytes: f64,
    /// What is simulated: requests, or messages.
    unit: &'static str,
}

impl Estimate {
    /// Estimates the cost of `plans` together; what `store` holds costs nothing.
    pub fn of<'a>(
        plans: impl IntoIterator<Item = &'a AnyPlan>,
        store: &Store,
    ) -> Result<Self, PlanError> {
        let nothing = cost::<cavy_study::plan::Plan>(&[], Path::new("."));
        let mut estimate = Estimate {
            planned: nothing,
            searched: 0,
            searched_core_s: 0.0,
            searched_requests: 0.0,
            kept: 0,
            kept_core_s: 0.0,
            timeline_bytes: 0.0,
            unit: "requests",
        };
        // Plans share points; each is counted once.
        let mut known = BTreeSet::new();
        for plan in plans {
            match plan {
                AnyPlan::Server(loaded) => {
                    let points = estimate.add(loaded, store, &mut known)?;
                    for point in points.iter().filter(|p| p.plan.run.timeline_ms.is_some()) {
                        let bytes = timeline_bytes(point, loaded);
                        estimate.timeline_bytes = estimate.timeline_bytes.max(bytes);
                    }
                }
                AnyPlan::Network(loaded) => {
                    estimate.add(loaded, store, &mut known)?;
                    estimate.unit = "messages";
                }
            }
        }
        Ok(estimate)
    }

    /// Adds the points of a plan that are not known yet, and its capacity searches.
    fn add<P: Subject>(
        &mut self,
        loaded: &Loaded<P>,
        store: &Store,
        known: &mut BTreeSet<String>,
    ) -> Result<Vec<Point<P>>, PlanError> {
        let points = experiment::points(loaded).map_err(|e| e.in_file(&loaded.name))?;
        for (point, runs) in searches(loaded, &points) {
            let each = cost(std::slice::from_ref(point), &loaded.folder);
            self.searched += runs;
            self.searched_core_s += each.core_s * runs as f64;
            self.searched_requests += each.requests * runs as f64;
        }
        for point in &points {
            let key = point.key();
            let is_kept = store.has(&key);
            if !known.insert(key) {
                continue;
            }
            let one = cost(std::slice::from_ref(point), &loaded.folder);
            self.planned.points += 1;
            self.planned.requests += one.requests;
            self.planned.core_s += one.core_s;
            self.planned.memory_bytes = self.planned.memory_bytes.max(one.memory_bytes);
            if is_kept {
                self.kept += 1;
                self.kept_core_s += one.core_s;
            }
        }
        Ok(points)
    }

    /// Runs that are not done yet.
    pub fn runs(&self) -> usize {
        self.planned.points - self.kept + self.searched
    }

    /// Seconds on one core that are not spent yet.
    pub fn core_s(&self) -> f64 {
        (self.planned.core_s - self.kept_core_s).max(0.0) + self.searched_core_s
    }

    /// Seconds on `jobs` cores.
    pub fn wall_s(&self, jobs: usize) -> f64 {
        let cores = std::thread::available_parallelism().map_or(1, usize::from).min(jobs.max(1));
        self.core_s() / cores as f64
    }

    /// Bytes while `jobs` cores work.
    pub fn memory_bytes(&self, jobs: usize) -> f64 {
        (self.planned.memory_bytes + self.timeline_bytes) * jobs.max(1) as f64
    }

    /// In words: `24 points, 96 000 000 requests, about 7 s on 2 cores and 40 MB of memory`.
    pub fn words(&self, jobs: usize) -> String {
        let searches = match self.searched {
            0 => String::new(),
            runs => format!(" and about {runs} runs to find capacities"),
        };
        let points = self.planned.points;
        format!(
            "{points} point{}{searches}, {} {}, about {} on {} and {} of memory",
            if points == 1 { "" } else { "s" },
            requests(self.planned.requests + self.searched_requests),
            self.unit,
            duration(self.wall_s(jobs)),
            cores(jobs),
            bytes(self.memory_bytes(jobs)),
        )
    }

    /// Refuses a run that would take too long or more memory than is good.
    pub fn refuse(&self, plan: &AnyPlan, jobs: usize) -> Result<(), Fault> {
        let wall_s = self.wall_s(jobs);
        let memory = self.memory_bytes(jobs);
        let free = memory_available();
        let too_long = wall_s > WALL_S_MAX;
        let too_big = free.is_some_and(|free| memory > free / 2.0);
        if !too_long && !too_big {
            return Ok(());
        }
        let why = match (too_long, free) {
            (true, _) => format!("about {} on {}", duration(wall_s), cores(jobs)),
            (false, free) => {
                let free = bytes(free.unwrap_or(0.0));
                format!("about {} of memory; {free} are free", bytes(memory))
            }
        };
        let (what, cure) = match plan {
            AnyPlan::Server(loaded) => refused(loaded, too_long),
            AnyPlan::Network(_) => (
                "this many messages are simulated".to_string(),
                "lower `run.duration_ms` or `run.messages`, `run.replications`, the number of hosts \
                 or of points, or try `--quick`",
            ),
        };
        Err(Fault::new(format!("{}: {what}, which needs {why}", plan.name()))
            .hint(cure)
            .hint("or pass `--accept-cost` to run it all the same"))
    }
}

/// What makes a plan of a server too long or too big, and the cure.
fn refused(loaded: &Loaded, too_long: bool) -> (String, &'static str) {
    let run = &loaded.plan.run;
    match (too_long, run.timeline_ms) {
        (false, Some(ms)) => (
            format!("`run.timeline_ms` is {ms}"),
            "raise `run.timeline_ms`: every bin keeps a histogram of each type",
        ),
        _ => (
            format!("`run.requests` is {}", count(run.requests)),
            "lower it, `run.replications` or the number of points, or try `--quick`",
        ),
    }
}

/// The capacity searches of a plan: a point like those run, and how many of them.
fn searches<'a, P: Subject>(
    loaded: &Loaded<P>,
    points: &'a [Point<P>],
) -> Vec<(&'a Point<P>, usize)> {
    let objectives = loaded.plan.objectives().len();
    let mut templates: Vec<(&Point<P>, usize)> = Vec::new();
    if objectives == 0 {
        return templates;
    }
    for point in points.iter().filter(|p| p.plan.has_capacity()) {
        let same = |other: &&Point<P>| {
            other.variant == point.variant
                && other.policy == point.policy
                && other.facet() == point.facet()
        };
        if templates.iter().any(|(other, _)| same(other)) {
            continue;
        }
        let loads = points.iter().filter(same).count();
        // Swept loads bracket the capacity; without them both ends are tried as well.
        let (gap, ends) = if loads > 1 { (1.0 / loads as f64, 0.0) } else { (0.94, 2.0) };
        let halvings = (gap / point.plan.capacity_step()).log2().max(0.0).ceil();
        templates.push((point, (halvings + ends) as usize * objectives));
    }
    templates
}

/// Bytes of one run's timeline.
fn timeline_bytes(point: &Point, loaded: &Loaded) -> f64 {
    let (Some(bin_ms), Ok(scenario)) =
        (point.plan.run.timeline_ms, build::scenario(&point.plan, &loaded.folder))
    else {
        return 0.0;
    };
    // Above capacity the queue is worked off after the last arrival.
    let duration_s = scenario.requests as f64 / scenario.rate_per_s * point.plan.load.max(1.0);
    duration_s * 1e3 / bin_ms * scenario.names.len() as f64 * HISTOGRAM_BYTES
}

/// Bytes that programs could have, if the system says.
fn memory_available() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024.0)
}

/// A count that may be too large for one.
fn requests(value: f64) -> String {
    if value < 1e15 { count(value as u64) } else { significant(value) }
}

/// `12 s`, `3 min`, `2.5 h`, `40 days`.
pub fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => "1 s".to_string(),
        s if s < 100.0 => format!("{s:.0} s"),
        s if s < 100.0 * 60.0 => format!("{:.0} min", s / 60.0),
        s if s < 48.0 * 3600.0 => format!("{:.1} h", s / 3600.0),
        s => format!("{} days", significant((s / 86_400.0).round())),
    }
}

fn cores(jobs: usize) -> String {
    format!("{jobs} core{}", if jobs == 1 { "" } else { "s" })
}

fn bytes(value: f64) -> String {
    match value {
        b if b < 1e9 => format!("{:.0} MB", (b / 1e6).max(1.0)),
        b => format!("{} GB", significant(b / 1e9)),
    }
}
