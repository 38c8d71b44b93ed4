//! What a run will cost, in words, before it is begun.

use crate::faults::Fault;
use cavy_report::number::{count, significant};
use cavy_study::cost::Cost;
use cavy_study::kind::Prepared;
use cavy_study::store::Store;

/// Estimated wall time beyond which a run must be asked for twice.
const WALL_S_MAX: f64 = 30.0 * 60.0;

/// What a run will cost.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// Points and searches.
    pub cost: Cost,
}

impl Forecast {
    /// Estimates the cost of `plans` together; what `store` holds costs nothing.
    pub fn of<'a>(plans: impl IntoIterator<Item = &'a dyn Prepared>, store: &Store) -> Self {
        let mut cost = Cost::default();
        for plan in plans {
            plan.add_cost(&mut cost, store);
        }
        Forecast { cost }
    }

    /// Seconds on `jobs` cores for so many seconds of one core.
    fn wall_s(core_s: f64, jobs: usize) -> f64 {
        let cores = std::thread::available_parallelism().map_or(1, usize::from).min(jobs.max(1));
        core_s / cores as f64
    }

    /// Bytes while `jobs` cores work.
    fn memory_bytes(&self, jobs: usize) -> f64 {
        self.cost.memory_bytes * jobs.max(1) as f64
    }

    /// In words: `24 points, 96 000 000 requests, about 7 s on 2 cores and 40 MB of memory`.
    pub fn words(&self, jobs: usize) -> String {
        let searches = match self.cost.searched {
            0 => String::new(),
            runs => format!(" and about {runs} runs to find capacities"),
        };
        let points = self.cost.points;
        let work: Vec<String> = self
            .cost
            .work
            .iter()
            .map(|(what, amount)| format!("{} {what}", units(*amount)))
            .collect();
        let wall_s = Self::wall_s(self.cost.left_core_s(), jobs);
        let most_s = Self::wall_s(self.cost.left_core_s_max(), jobs);
        let time = match most_s > 1.5 * wall_s + 1.0 {
            true => format!(
                "at least {}, at most {} where the precision asks for it,",
                duration(wall_s),
                duration(most_s)
            ),
            false => format!("about {}", duration(wall_s)),
        };
        format!(
            "{points} point{}{searches}, {}, {time} on {} and {} of memory",
            if points == 1 { "" } else { "s" },
            work.join(" and "),
            cores(jobs),
            bytes(self.memory_bytes(jobs)),
        )
    }

    /// Refuses a run that would take too long or more memory than is good.
    pub fn refuse(&self, plan: &dyn Prepared, jobs: usize) -> Result<(), Fault> {
        let wall_s = Self::wall_s(self.cost.left_core_s(), jobs);
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
        let too_much = plan.too_much(!too_long);
        Err(Fault::new(format!(
            "{}: `{}` is {}, which needs {why}",
            plan.name(),
            too_much.key,
            too_much.value
        ))
        .hint(too_much.cure)
        .hint("or pass `--accept-cost` to run it all the same"))
    }
}

/// Bytes that programs could have, if the system says.
fn memory_available() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024.0)
}

/// A count that may be too large for one.
fn units(value: f64) -> String {
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
