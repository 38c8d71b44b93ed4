//! Delay by p at several rates, and what the lab says from the costs of the same runs.

use super::run::{Row, Run, Took};
use super::show::{checked, checked_words, counts, ms, value};
use crate::faults::{FAILED, Fault};
use cavy_kinds::search::SearchPlan;
use cavy_lab::statistics::{Interval, sectioning};
use cavy_report::model::{Cell, Figure, Panel, Point, Scale, Series, Table};
use cavy_study::draw::axis;
use cavy_study::plan::read::load;
use cavy_study::plan::{Files, Text};
use cavy_study::point;
use cavy_trials::Finding;

/// What is run: the grid of p rises, so that nothing is copied between.
/// Rates are a tenth, a half and all of what servers do at p = 12.
pub const ARGS: &str = "delay --p 2,3,4,6,12 --rates 5,25,52 --documents 10000 --quota-percent 10";
const QUOTA: f64 = 0.1;
const SERVERS: u32 = 12;
const DOCUMENTS: u32 = 10_000;
/// Each knows what its own answers said.
const FRONT_ENDS: u32 = 2;

/// A point: p, the rate, and what queries took live and in the lab.
#[derive(Clone, Debug)]
struct At {
    p: u32,
    per_s: f64,
    took: Took,
    /// Of the mean, by the rows of its cell, which follow each other; milliseconds.
    interval: Option<Interval>,
    lab_ms: Option<f64>,
}

/// All runs together.
#[derive(Debug)]
pub struct Delays<'a> {
    runs: &'a [(u32, Run)],
    points: Vec<At>,
    /// Fixed part of a sub-query and scanning everything, milliseconds of a processor, and R^2.
    line: Option<(f64, f64, f64)>,
}

/// A straight line by least squares: intercept, slope, R^2.
fn line(points: &[(f64, f64)]) -> Option<(f64, f64, f64)> {
    let n = points.len() as f64;
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(&|one| one.0), mean(&|one| one.1));
    let spread = mean(&|one| (one.0 - x).powi(2));
    let slope = mean(&|one| (one.0 - x) * (one.1 - y)) / spread;
    let first = y - slope * x;
    let off = mean(&|one| (one.1 - first - slope * one.0).powi(2));
    let explained = 1.0 - off / mean(&|one| (one.1 - y).powi(2));
    [first, slope, explained].iter().all(|one| one.is_finite()).then_some((first, slope, explained))
}

/// The lab's mean of each p and rate, in milliseconds.
fn lab(fixed_ms: f64, scan_ms: f64, grid: &[(u32, f64)]) -> Result<Vec<Option<f64>>, Fault> {
    let one = |&(p, per_s): &(u32, f64)| -> Result<Option<f64>, Fault> {
        let text = format!(
            "kind = \"search\"\ntitle = \"The cluster\"\nsummary = \"As it was measured.\"\n\
             servers = {SERVERS}\nfront_ends = {FRONT_ENDS}\norder = \"interleaved\"\ndocuments = \
             {DOCUMENTS}\nfixed_ms = {fixed_ms:.6}\ndocument_us = {:.6}\np = \
             {p}\nqueries_per_s = {per_s}\n[[schemes]]\nscheme = \"roar\"\n[run]\nqueries = \
             22000\nwarmup_queries = 2000\nreplications = 3\n",
            scan_ms * 1e3 / f64::from(DOCUMENTS)
        );
        let text = Text {
            text: &text,
            name: "the cluster in the lab",
            files: &Files::NONE,
            overrides: &[],
            quick: false,
        };
        let wrong = |error: String| Fault::new(error).code(FAILED);
        let loaded = load::<SearchPlan>(&text).map_err(|error| wrong(error.to_string()))?;
        let Some(first) = loaded.points.first() else { return Ok(None) };
        let outcome = point::run(first, &loaded.files, &point::Manner::default())
            .map_err(|error| wrong(error.to_string()))?;
        let mean = outcome.latency.get("mean_ms").map(|mean| mean.value);
        Ok(mean.filter(|_| outcome.stable()))
    };
    grid.iter().map(one).collect()
}

impl<'a> Delays<'a> {
    /// Of these runs.
    pub fn of(runs: &'a [(u32, Run)]) -> Result<Delays<'a>, Fault> {
        let rows: Vec<&Row> = runs.iter().flat_map(|(_, run)| &run.rows).collect();
        let mut grid: Vec<(u32, f64)> = Vec::new();
        for row in &rows {
            let place = (row.p, row.queries_per_s.unwrap_or(0.0));
            if !grid.contains(&place) {
                grid.push(place);
            }
        }
        let at = |&(p, per_s): &(u32, f64)| {
            rows.iter().copied().filter(move |row| row.p == p && row.queries_per_s == Some(per_s))
        };
        // What servers do beside queries is taken off, and weighs least where there are most.
        let highest = grid.iter().map(|place| place.1).fold(0.0, f64::max);
        let high = rows.iter().filter(|row| row.queries_per_s == Some(highest));
        let costs: Vec<(f64, f64)> =
            high.filter_map(|row| Some((f64::from(row.p), row.processor_ms?))).collect();
        let line = line(&costs).map(|(scan, fixed, explained)| (fixed, scan, explained));
        let usable = line.filter(|(fixed, scan, _)| *fixed >= 0.0 && *scan > 0.0);
        let lab = match usable {
            Some((fixed, scan, _)) => lab(fixed / QUOTA, scan / QUOTA, &grid)?,
            None => vec![None; grid.len()],
        };
        let point = |(place, lab_ms): (&(u32, f64), Option<f64>)| {
            let ms = |row: &Row| Some(Took::of([row]).mean()? / 1e3);
            let sections: Vec<f64> = at(place).filter_map(ms).collect();
            let took = Took::of(at(place));
            let mean = took.mean().map(|us| us / 1e3);
            let interval = mean.and_then(|mean| sectioning::interval(mean, &sections, 0.95));
            At { p: place.0, per_s: place.1, took, interval, lab_ms }
        };
        let points = grid.iter().zip(lab).map(point).collect();
        Ok(Delays { runs, points, line })
    }

    fn rates(&self) -> Vec<f64> {
        let mut rates: Vec<f64> = self.points.iter().map(|at| at.per_s).collect();
        rates.sort_by(f64::total_cmp);
        rates.dedup();
        rates
    }

    fn grid(&self) -> Vec<u32> {
        let mut grid: Vec<u32> = self.points.iter().map(|at| at.p).collect();
        grid.sort_unstable();
        grid.dedup();
        grid
    }

    /// The point of the least mean at a rate, live or in the lab.
    fn best(&self, per_s: f64, of: impl Fn(&At) -> Option<f64>) -> Option<&At> {
        let here = self.points.iter().filter(|at| at.per_s == per_s);
        let means = here.filter_map(|at| Some((at, of(at)?)));
        means.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| at)
    }

    fn live(at: &At) -> Option<f64> {
        at.took.mean().map(|us| us / 1e3)
    }

    /// The best p at a rate, and those whose mean's interval meets that of the best.
    fn named(&self, best: &At) -> String {
        let meets = |at: &&At| {
            let both = at.interval.zip(best.interval);
            at.p != best.p && both.is_none_or(|(one, best)| one.low <= best.high)
        };
        let here = self.points.iter().filter(|at| at.per_s == best.per_s).filter(meets);
        let alike: Vec<String> = here.map(|at| at.p.to_string()).collect();
        match alike.is_empty() {
            true => best.p.to_string(),
            false => format!("{} (or {})", best.p, alike.join(", ")),
        }
    }

    /// Values for claims.
    pub fn findings(&self) -> Vec<Finding> {
        let rates = self.rates();
        let samples = self.points.iter().map(|at| at.took.count()).sum();
        let best: Option<Vec<&At>> =
            rates.iter().map(|rate| self.best(*rate, Delays::live)).collect();
        let lab: Option<Vec<&At>> =
            rates.iter().map(|rate| self.best(*rate, |at| at.lab_ms)).collect();
        let falls = best
            .as_ref()
            .and_then(|best| Some(f64::from(best.first()?.p) / f64::from(best.last()?.p)));
        let grid = self.grid();
        let step = |p: u32| grid.iter().position(|one| *one == p).unwrap_or(0);
        let both = best.as_ref().zip(lab.as_ref());
        let steps = both.and_then(|(best, lab)| {
            let apart = best.iter().zip(lab).map(|(a, b)| step(a.p).abs_diff(step(b.p)) as f64);
            apart.reduce(f64::max)
        });
        let near = both.and_then(|(best, lab)| {
            let over = |(best, lab): (&&At, &&At)| Some(Delays::live(lab)? / Delays::live(best)?);
            best.iter().zip(lab).filter_map(over).reduce(f64::max)
        });
        let names = |all: &Option<Vec<&At>>, name: &dyn Fn(&At) -> String| {
            let all = all.iter().flatten().map(|at| name(at));
            all.collect::<Vec<_>>().join(", ")
        };
        let live = names(&best, &|at| self.named(at));
        let note = format!("Live {live}; lab {}.", names(&lab, &|at| at.p.to_string()));
        let costs = self.line.map_or(String::new(), |(fixed, scan, _)| {
            format!("{fixed:.3} ms a sub-query and {scan:.3} ms for everything.")
        });
        let (faults, refused, looked) = counts(self.runs);
        let explained = self.line.map(|one| one.2);
        vec![
            value("delay_line", explained, samples, costs),
            value("delay_falls", falls, samples, note.clone()),
            value("delay_lab", steps, samples, note.clone()),
            value("delay_near", near, samples, note),
            value("delay_faults", Some((faults + refused) as f64), looked, String::new()),
        ]
    }

    /// To look at.
    pub fn figure(&self, again: &str) -> Figure {
        type Value = (Option<f64>, Option<Interval>);
        let series = |per_s: f64, name: &str, of: &dyn Fn(&At) -> Value| {
            let point = |at: &At| {
                let (y, interval) = of(at);
                let (low, high) = interval.map(|both| (both.low, both.high)).unzip();
                let (x, samples) = (f64::from(at.p), at.took.count());
                Point { x, y, low, high, samples, stable: true }
            };
            let here = self.points.iter().filter(|at| at.per_s == per_s);
            Series { label: format!("{name}, {per_s}/s"), points: here.map(point).collect() }
        };
        let rates = self.rates();
        let live =
            rates.iter().map(|rate| series(*rate, "live", &|at| (Delays::live(at), at.interval)));
        let lab = rates.iter().map(|rate| series(*rate, "lab", &|at| (at.lab_ms, None)));
        let panel = Panel {
            id: "delay-by-p".to_string(),
            title: "Mean latency by p".to_string(),
            x: axis("p", "", Scale::Log),
            y: axis("mean latency", "ms", Scale::Log),
            series: live.chain(lab).collect(),
            rules: Vec::new(),
        };
        let row = |at: &At| {
            vec![
                Cell::Number(at.per_s),
                Cell::Number(at.p.into()),
                Cell::Number(at.took.count() as f64),
                ms(at.took.mean()),
                ms(at.interval.map(|both| both.low * 1e3)),
                ms(at.interval.map(|both| both.high * 1e3)),
                ms(at.took.quantile(0.99)),
                ms(at.lab_ms.map(|mean| mean * 1e3)),
            ]
        };
        let table = Table {
            id: "delay-points".to_string(),
            title: "Latency by rate and p".to_string(),
            columns: [
                "queries/s",
                "p",
                "queries",
                "mean (ms)",
                "from (ms)",
                "to (ms)",
                "p99 (ms)",
                "lab, mean (ms)",
            ]
            .map(str::to_string)
            .to_vec(),
            rows: self.points.iter().map(row).collect(),
        };
        Figure {
            id: "live.roar.delay".to_string(),
            title: "Delay by p, at three rates".to_string(),
            shows: format!(
                "{SERVERS} servers as processes, each with {:.0} % of a processor; every query \
                 counts all of {DOCUMENTS} documents. The lab has what a sub-query took of \
                 processors in the same runs, a straight line in p.",
                100.0 * QUOTA
            ),
            claimed: "The best p falls as load rises.".to_string(),
            found: checked_words(self.runs),
            command: again.to_string(),
            panels: vec![panel],
            maps: Vec::new(),
            tables: vec![table, checked(self.runs, "delay")],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::search::run::Checker;
    use cavy_trials::weather::Weather;

    fn row(p: u32, per_s: f64, mean_us: u64) -> Row {
        Row {
            what: String::new(),
            p,
            partial: 0,
            settled_s: None,
            queries_per_s: Some(per_s),
            processor_ms: Some(4.0 + 0.5 * f64::from(p)),
            parts: u64::from(p),
            took: vec![(mean_us, 10)],
        }
    }

    #[test]
    fn the_best_p_and_the_lab_s_are_found() {
        // 4 ms for everything and 0.5 ms a part: alone, twelve parts are fastest.
        let rows = vec![row(2, 1.0, 31_000), row(12, 1.0, 10_000), row(2, 130.0, 40_000)];
        let rows = rows.into_iter().chain([row(12, 130.0, 90_000)]).collect();
        let checker = Checker { answers_checked: 40, ..Checker::default() };
        let runs = [(0, Run { rows, checker, weather: Weather::default() })];
        let delays = Delays::of(&runs).map_err(|fault| fault.render()).expect("delays");
        let (fixed, scan, explained) = delays.line.expect("a line");
        assert!((fixed - 0.5).abs() < 1e-9 && (scan - 4.0).abs() < 1e-9 && explained > 0.999);
        let findings = delays.findings();
        let found =
            |id: &str| findings.iter().find(|one| one.id == format!("live.roar.{id}"))?.value;
        assert_eq!(found("delay_falls"), Some(6.0));
        // At 130/s twelve parts are more than all servers can do: 10 ms of 12 x 10 %.
        assert_eq!(found("delay_lab"), Some(0.0), "{findings:?}");
        assert_eq!(found("delay_near"), Some(1.0));
    }

    #[test]
    fn means_that_the_rows_of_their_cells_do_not_separate_are_named() {
        let cell = |p: u32, means: [u64; 3]| means.map(|mean_us| row(p, 1.0, mean_us));
        let rows = [
            cell(2, [19_000, 20_000, 21_000]),
            cell(6, [18_000, 19_500, 21_000]),
            cell(12, [40_000, 41_000, 42_000]),
        ];
        let rows = rows.concat();
        let runs = [(0, Run { rows, checker: Checker::default(), weather: Weather::default() })];
        let delays = Delays::of(&runs).map_err(|fault| fault.render()).expect("delays");
        let best = delays.best(1.0, Delays::live).expect("a best p");
        assert_eq!(delays.named(best), "6 (or 2)");
        let interval = best.interval.expect("three rows");
        assert!(interval.low < 19.5 && interval.high > 19.5, "{interval:?}");
    }
}
