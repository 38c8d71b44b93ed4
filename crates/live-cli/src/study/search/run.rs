//! One run of the search cluster: the program `cavy-search` under its own load, with its checker.

use crate::faults::{FAILED, Fault};
use cavy_core::Span;
use cavy_lab::statistics::quantile;
use cavy_live::load::machine::Machine;
use cavy_trials::weather::Weather;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The program.
const PROGRAM: &str = "cavy-search";

/// A stretch of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// In words: `at 8`, `8 to 3`.
    pub what: String,
    pub p: u32,
    pub partial: u64,
    /// Until a new p was in use, seconds.
    #[serde(default)]
    pub settled_s: Option<f64>,
    /// Of `delay`.
    #[serde(default)]
    pub queries_per_s: Option<f64>,
    /// What a query took of all servers' processors, at the last of the rows of a cell.
    #[serde(default)]
    pub processor_ms: Option<f64>,
    /// Sub-queries.
    pub parts: u64,
    /// What queries took: microseconds, and how many.
    pub took: Vec<(u64, u64)>,
}

/// What the checker says.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Checker {
    pub answers_checked: u64,
    pub writes_acknowledged: u64,
    pub faults: u64,
    pub refused: u64,
    pub unanswered: u64,
}

/// What the program prints.
#[derive(Debug, Deserialize)]
struct Printed {
    rows: Vec<Row>,
    checker: Checker,
}

/// A run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    pub rows: Vec<Row>,
    pub checker: Checker,
    pub weather: Weather,
}

/// The program beside this one, or on the path.
pub fn program() -> PathBuf {
    let beside = std::env::current_exe().ok().and_then(|here| Some(here.parent()?.join(PROGRAM)));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| PROGRAM.into())
}

/// Runs `cavy-search study` with these arguments.
pub fn run(args: &[String], probe: Span) -> Result<Run, Fault> {
    let mut machine = Machine::before(probe);
    let mut command = Command::new(program());
    command.arg("study").args(args).arg("--json").stderr(Stdio::inherit());
    let output = command.output().map_err(|error| {
        Fault::new(format!("cannot start {PROGRAM}: {error}"))
            .code(FAILED)
            .hint("build it with `make search` (ten minutes: it compiles tantivy)")
    })?;
    machine.after(probe);
    // It ends with 1 if the checker found faults, which the result says, too.
    let printed: Printed = serde_json::from_slice(&output.stdout).map_err(|error| {
        let words = format!("{PROGRAM} study {} ended with {}", args.join(" "), output.status);
        Fault::new(format!("{words}, without a result: {error}")).code(FAILED)
    })?;
    Ok(Run { rows: printed.rows, checker: printed.checker, weather: Weather::of(&machine) })
}

/// What queries of several stretches took.
#[derive(Clone, Debug, Default)]
pub struct Took(Vec<(u64, u64)>);

impl Took {
    /// Of these stretches together.
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Took {
        let mut all: Vec<(u64, u64)> =
            rows.into_iter().flat_map(|row| row.took.iter().copied()).collect();
        all.sort_unstable();
        Took(all)
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(_, many)| many).sum()
    }

    /// Their mean, microseconds.
    pub fn mean(&self) -> Option<f64> {
        let sum: f64 = self.0.iter().map(|(us, many)| *us as f64 * *many as f64).sum();
        (self.count() > 0).then(|| sum / self.count() as f64)
    }

    /// What a share of them stays below, microseconds; `None` above the median where fewer than a
    /// hundred lie beyond it.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        quantile::given(self.count(), share).then(|| self.reached(share))?
    }

    /// The same, however few lie beyond it: for parts of what is put together.
    pub fn reached(&self, share: f64) -> Option<f64> {
        let wanted = quantile::rank(self.count(), share);
        let mut seen = 0;
        let reaches = |(_, many): &&(u64, u64)| {
            seen += many;
            seen >= wanted
        };
        self.0.iter().find(reaches).map(|(us, _)| *us as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_are_put_together() {
        let row = |took: &[(u64, u64)]| Row {
            what: String::new(),
            p: 1,
            partial: 0,
            settled_s: None,
            queries_per_s: None,
            processor_ms: None,
            parts: 0,
            took: took.to_vec(),
        };
        let rows = [row(&[(10, 9_800), (500, 100)]), row(&[(20, 100)])];
        let took = Took::of(&rows);
        assert_eq!(
            (took.count(), took.quantile(0.98), took.quantile(0.99)),
            (10_000, Some(10.0), Some(20.0))
        );
        assert_eq!(took.quantile(0.999), None, "ten lie beyond it");
        assert_eq!(took.mean(), Some(15.0));
        assert_eq!(Took::of([]).quantile(0.5), None);
    }
}
