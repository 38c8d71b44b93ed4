//! Tables, plots, maps, and values to hold against claims.

use super::Measured;
use super::anchors::Anchors;
use super::bed::{Place, Run, WRONG, Who, at_start, of_places};
use super::lab::{self, orders};
use cavy_report::model::{
    Axis, Cell, Figure, Form, Layer, Map, Mark, Panel, Point, Scale, Series, Table, Way,
};
use cavy_trials::Finding;

/// A value over repetitions: median, smallest, greatest.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Over {
    pub median: f64,
    low: f64,
    high: f64,
}

pub fn over(values: impl Iterator<Item = f64>) -> Option<Over> {
    let mut all: Vec<f64> = values.collect();
    all.sort_by(f64::total_cmp);
    let (low, high) = (*all.first()?, *all.last()?);
    let middle = all.len() / 2;
    let median =
        if all.len() % 2 == 1 { all[middle] } else { (all[middle - 1] + all[middle]) / 2.0 };
    Some(Over { median, low, high })
}

/// Errors of one predictor: by repetition, at each mark.
struct Row {
    label: &'static str,
    /// Percentiles 50 and 90.
    runs: Vec<Vec<(f64, f64)>>,
}

impl Row {
    fn over(&self, mark: usize, of: impl Fn(&(f64, f64)) -> f64) -> Option<Over> {
        over(self.runs.iter().filter_map(|run| run.get(mark)).map(of))
    }
}

/// Trials of the lab that what was measured is held against.
const TRIALS: u64 = 100;

const GEO: &str = "geolocation, never learns";
const FLAGSHIP: &str = "flagship, nothing remembered";
const REMEMBERS: &str = "flagship; says measured pairs as measured";
const REPLAY: &str = "the lab's replay of both ends";

/// What all runs came to.
pub struct Shown<'a> {
    anchors: &'a Anchors,
    marks: &'a [u64],
    all: &'a [Measured],
    rows: Vec<Row>,
}

fn p50(errors: &(f64, f64)) -> f64 {
    errors.0
}

fn p90(errors: &(f64, f64)) -> f64 {
    errors.1
}

impl<'a> Shown<'a> {
    pub fn new(anchors: &'a Anchors, marks: &'a [u64], all: &'a [Measured]) -> Shown<'a> {
        let of = |who: Who| all.iter().filter(move |one| one.who == who).map(|one| &one.run);
        let row = |label, runs: Vec<Vec<(f64, f64)>>| Row { label, runs };
        let ours = |who: Who| of(who).map(|run| run.errors.clone()).collect::<Vec<_>>();
        let geo = |run: &Run| vec![of_places(anchors, None, &at_start(&run.said))];
        let flagship = |history| {
            let run = |run: &Run| lab::flagship(anchors, run, marks, history);
            of(Who::BothEnds).map(run).collect::<Vec<_>>()
        };
        let replay = |run: &Run| {
            let places = lab::replayed(anchors, run, true);
            places.iter().map(|of| of_places(anchors, None, of)).collect::<Vec<_>>()
        };
        let mut rows = vec![
            row(GEO, of(Who::BothEnds).take(1).map(geo).collect()),
            row(Who::OneSided.label(), ours(Who::OneSided)),
            row(Who::BothEnds.label(), ours(Who::BothEnds)),
            row(REPLAY, of(Who::BothEnds).map(replay).collect()),
            row(FLAGSHIP, flagship(false)),
            row(REMEMBERS, flagship(true)),
            row(Who::Serf.label(), ours(Who::Serf)),
        ];
        rows.retain(|row| !row.runs.is_empty());
        Shown { anchors, marks, all, rows }
    }

    fn row(&self, label: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.label == label)
    }

    fn runs(&self, who: Who) -> impl Iterator<Item = &Run> {
        self.all.iter().filter(move |one| one.who == who).map(|one| &one.run)
    }

    fn doubted(&self) -> f64 {
        let doubted = self.all.iter().filter(|one| !one.run.doubts().is_empty()).count();
        doubted as f64 / self.all.len().max(1) as f64
    }

    /// Errors of pairs with the anchor of the wrong row, percentile 50: before, and at a mark.
    fn wrong(&self, run: &Run, mark: usize) -> Option<(f64, f64)> {
        let before = of_places(self.anchors, Some(WRONG), &at_start(&run.said)).0;
        Some((before, of_places(self.anchors, Some(WRONG), run.places.get(mark)?).0))
    }

    /// A value over repetitions, which rests on errors of `scale_ms`.
    fn finding(&self, id: &str, value: Option<Over>, scale_ms: f64, note: String) -> Finding {
        let id = format!("live.coords.{id}");
        let pairs = (self.anchors.count() * (self.anchors.count() - 1) / 2) as u64;
        Finding {
            value: value.map(|over| over.median),
            low: value.map(|over| over.low),
            high: value.map(|over| over.high),
            samples: pairs * self.all.len() as u64,
            note,
            scale_us: Some(1e3 * scale_ms),
            doubted_ratio: Some(self.doubted()),
            ..Finding::nothing(&id)
        }
        .of_median()
    }

    /// One row's percentile over another's at a mark, repetition by repetition.
    fn ratio(
        &self,
        id: &str,
        (above, below): (&str, &str),
        marks: &[usize],
        of: fn(&(f64, f64)) -> f64,
    ) -> Option<Finding> {
        let (above, below) = (self.row(above)?, self.row(below)?);
        let at = |run: &Vec<(f64, f64)>, mark: usize| run.get(mark.min(run.len() - 1)).map(of);
        let runs = above.runs.iter().zip(below.runs.iter().cycle());
        let each = runs.filter_map(|(a, b)| {
            let worst = marks.iter().filter_map(|mark| Some(at(a, *mark)? / at(b, *mark)?));
            worst.reduce(f64::max)
        });
        let scale = over(below.runs.iter().filter_map(|run| at(run, *marks.first()?)))?.median;
        Some(self.finding(id, over(each), scale, String::new()))
    }

    /// Where what was measured lies among trials of the lab: what the order of probes alone does.
    fn in_lab(&self, of: &Finding, each: Vec<f64>) -> Option<Finding> {
        let value = orders::Trials::share_at_least(&each, of.value?);
        let lab = over(each.iter().copied())?;
        let note = format!(
            "Of {} trials in the lab without a network: median {:.2}, {:.2} to {:.2}.",
            each.len(),
            lab.median,
            lab.low,
            lab.high
        );
        let id = format!("{}_in_lab", of.id);
        let samples = each.len() as u64;
        // It rests on what was measured, and is as much in doubt.
        let (scale_us, doubted_ratio) = (of.scale_us, of.doubted_ratio);
        let found = Finding { value: Some(value), samples, note, ..Finding::nothing(&id) };
        Some(Finding { scale_us, doubted_ratio, ..found }.of_median())
    }

    /// All values.
    pub fn findings(&self) -> Vec<Finding> {
        let (both, serf) = (Who::BothEnds.label(), Who::Serf.label());
        let mark = |probes: u64| self.marks.iter().position(|mark| *mark == probes);
        let Some(thirteen) = mark(13) else { return Vec::new() };
        let every: Vec<usize> = (0..self.marks.len()).collect();
        let mut all = vec![
            self.ratio("serf_p50", (both, serf), &[thirteen], p50),
            self.ratio("serf_p90", (both, serf), &[thirteen], p90),
            self.ratio("flagship", (FLAGSHIP, both), &every, p90),
        ];
        let repetitions = self.runs(Who::BothEnds).count();
        let trials = orders::Trials::new(self.anchors, self.marks, TRIALS, repetitions);
        let in_lab: [orders::Value<'_>; 2] =
            [&|order| order[thirteen].over_serf(), &orders::Trials::worst];
        for (of, ratio) in [1, 2].into_iter().zip(in_lab) {
            let found = all[of].as_ref().and_then(|of| self.in_lab(of, trials.each(ratio)));
            all.push(found);
        }
        if let Some(last) = mark(32) {
            all.push(self.ratio("geolocation", (both, GEO), &[last], p90));
        }
        // How far agents end from the lab's replay, in what is allowed [htrae 7.3].
        for (name, of, ratio, ms) in [
            ("bridge_p50", p50 as fn(&(f64, f64)) -> f64, 0.02, 0.3),
            ("bridge_p90", p90, 0.05, 1.0),
        ] {
            let both = self.row(both).zip(self.row(REPLAY));
            let of_allowed = both.map(|(live, lab)| {
                let pairs = live.runs.iter().zip(&lab.runs);
                let at = pairs.filter_map(|(a, b)| a.get(thirteen).zip(b.get(thirteen)));
                over(at.map(|(a, b)| (of(a) - of(b)).abs() / (ratio * of(b) + ms)))
            });
            let scale = both.and_then(|(live, _)| live.over(thirteen, of));
            let scale = scale.map_or(1.0, |over| over.median);
            all.push(of_allowed.map(|value| self.finding(name, value, scale, String::new())));
        }
        let repaired = over(
            self.runs(Who::WrongRow)
                .filter_map(|run| self.wrong(run, thirteen))
                .map(|(before, after)| after / before),
        );
        let note = self.runs(Who::WrongRow).filter_map(|run| self.wrong(run, thirteen)).next();
        let note = note.map_or(String::new(), |(a, b)| format!("{a:.0} ms became {b:.1} ms."));
        all.push(repaired.map(|value| self.finding("repaired", Some(value), 10.0, note)));
        let longer = over(self.runs(Who::BothEnds).map(|run| run.longer_ms(self.anchors, 0.9)));
        all.push(longer.map(|value| self.finding("longer", Some(value), 10.0, String::new())));
        all.into_iter().flatten().collect()
    }

    /// All figures.
    pub fn figures(&self, again: &str) -> Vec<Figure> {
        let heads = self.marks.iter().map(|mark| format!("{mark} probes"));
        let columns: Vec<String> = ["who".to_string()].into_iter().chain(heads).collect();
        let table = |id: &str, title: &str, of: fn(&(f64, f64)) -> f64| Table {
            id: id.to_string(),
            title: title.to_string(),
            columns: columns.clone(),
            rows: self.rows.iter().map(|row| self.cells(row, of)).collect(),
        };
        let found = self.rows.iter().filter_map(|row| {
            let last = row.runs.first()?.len().checked_sub(1)?.min(self.thirteen());
            let (p50, p90) = (row.over(last, p50)?.median, row.over(last, p90)?.median);
            Some(format!("{} {p50:.1} / {p90:.1}", row.label))
        });
        let found: Vec<String> = found.collect();
        let errors = Figure {
            id: "live.coords.errors".to_string(),
            title: "Errors over all pairs, by probes a node".to_string(),
            shows: format!(
                "{} anchors at their measured distances; of serf's agents seconds stand for \
                 probes. The flagship and the replay are told what the agents measured.",
                self.anchors.count()
            ),
            claimed: "Who begins where addresses are is less wrong than serf after the first \
                      probes, and who sees all probes less than either."
                .to_string(),
            found: format!(
                "p50 / p90 in ms at {} probes a node: {}.",
                self.marks.get(self.thirteen()).copied().unwrap_or(0),
                found.join("; ")
            ),
            command: again.to_string(),
            panels: vec![self.panel()],
            maps: Vec::new(),
            tables: vec![
                table("p50", "Median error, ms", p50),
                table("p90", "90th percentile of errors, ms", p90),
                self.machine(),
            ],
        };
        let mut all = vec![errors];
        all.extend(self.runs(Who::WrongRow).next().map(|run| self.repair(run, again)));
        all
    }

    /// The mark of thirteen probes, or the last one.
    fn thirteen(&self) -> usize {
        let last = self.marks.len().saturating_sub(1);
        self.marks.iter().position(|mark| *mark == 13).unwrap_or(last)
    }

    fn cells(&self, row: &Row, of: fn(&(f64, f64)) -> f64) -> Vec<Cell> {
        let cell = |mark| match row.over(mark, of) {
            Some(Over { median, low, high }) => Cell::Interval { value: median, low, high },
            None => Cell::Missing("the same".to_string()),
        };
        let cells = (0..self.marks.len()).map(cell);
        [Cell::Text(row.label.to_string())].into_iter().chain(cells).collect()
    }

    fn panel(&self) -> Panel {
        let series = self.rows.iter().map(|row| {
            let point = |(mark, probes): (usize, &u64)| {
                let over = row.over(mark.min(row.runs[0].len() - 1), p90)?;
                Some(Point {
                    x: *probes as f64,
                    y: Some(over.median),
                    low: Some(over.low),
                    high: Some(over.high),
                    samples: row.runs.len() as u64,
                    stable: true,
                })
            };
            let points = self.marks.iter().enumerate().filter_map(point).collect();
            Series { label: row.label.to_string(), points }
        });
        let axis = |label: &str, unit: &str, scale| Axis {
            label: label.to_string(),
            unit: unit.to_string(),
            scale,
            min: None,
            max: None,
        };
        Panel {
            id: "p90".to_string(),
            title: "90th percentile of errors over all pairs".to_string(),
            x: axis("Probes a node", "", Scale::Log),
            y: axis("Error", "ms", Scale::Linear),
            series: series.collect(),
            rules: Vec::new(),
        }
    }

    /// What a wrong row does, and where its anchor goes.
    fn repair(&self, run: &Run, again: &str) -> Figure {
        let start = at_start(&run.said);
        let of = |places: &[Place]| of_places(self.anchors, Some(WRONG), places);
        let row = |when: String, live: &[Place], lab: &[Place]| {
            let ((p50, p90), (lab_p50, lab_p90)) = (of(live), of(lab));
            let errors = [p50, p90, lab_p50, lab_p90].map(Cell::Number);
            [Cell::Text(when)].into_iter().chain(errors).collect::<Vec<Cell>>()
        };
        let mut rows = vec![row("before any probe".to_string(), &start, &start)];
        let lab = lab::replayed(self.anchors, run, true);
        let marks = self.marks.iter().zip(run.places.iter().zip(&lab));
        rows.extend(
            marks.map(|(mark, (live, lab))| row(format!("{mark} probes a node"), live, lab)),
        );
        let last = run.places.last().map_or(&start[..], |places| places);
        let name = self.anchors.names().nth(WRONG).unwrap_or("").to_string();
        let (before, after) = (of(&start).0, of(last).0);
        let probes = self.marks.last().copied().unwrap_or(0);
        Figure {
            id: "live.coords.repair".to_string(),
            title: "A wrong row of a database".to_string(),
            shows: format!(
                "The database puts {name} on the other side of the world. It is a file in \
                 MaxMind's format with a row for each anchor's address."
            ),
            claimed: "Coordinates repair what a database has wrong [htrae 5.4 H9].".to_string(),
            found: format!(
                "Its pairs are wrong by {before:.0} ms at first and by {after:.1} after {probes} \
                 probes a node (medians)."
            ),
            command: again.to_string(),
            panels: Vec::new(),
            maps: vec![
                self.map("before", "Before any probe", &start, run, &name),
                self.map("after", &format!("After {probes} probes a node"), last, run, &name),
            ],
            tables: vec![Table {
                id: "repair".to_string(),
                title: format!("Errors of pairs with {name}, ms"),
                columns: ["when", "p50", "p90", "the lab's replay p50", "its p90"]
                    .map(String::from)
                    .to_vec(),
                rows,
            }],
        }
    }

    fn map(&self, id: &str, title: &str, places: &[Place], run: &Run, name: &str) -> Map {
        let mark = |name: &str, at: (f64, f64), says: &str| Mark {
            name: name.to_string(),
            at,
            says: says.to_string(),
        };
        let layer =
            |label: &str, form, marks, ways| Layer { label: label.to_string(), form, marks, ways };
        let now = self.anchors.names().zip(places).map(|(name, place)| {
            mark(name, (place.latitude, place.longitude), "takes itself to be here")
        });
        let ways = self.anchors.names().zip(places).zip(&run.said).map(|((name, now), said)| {
            let says = format!("{name} moved");
            Way { from: *said, to: (now.latitude, now.longitude), says }
        });
        let wrong = mark(name, run.said[WRONG], "where the wrong row puts it");
        let right = mark(name, self.anchors.said(WRONG).degrees(), "where a right row puts it");
        Map {
            id: id.to_string(),
            title: title.to_string(),
            caption:
                "A line leads from where the database puts an anchor to where it takes itself to \
                 be. Coordinates are places in time and not on the Earth, so all move."
                    .to_string(),
            layers: vec![
                layer("coordinates", Form::Dot, now.collect(), ways.collect()),
                layer("the wrong row", Form::Ring, vec![wrong], Vec::new()),
                layer("the right row", Form::Square, vec![right], Vec::new()),
            ],
        }
    }

    /// What the machine and the line were like.
    fn machine(&self) -> Table {
        let columns = [
            "who",
            "repetition",
            "round trips",
            "longer than told p50 (ms)",
            "p90 (ms)",
            "line late p50 (us)",
            "p99 (us)",
            "met p99.9 (us)",
            "doubts",
        ];
        let row = |one: &Measured| {
            let run = &one.run;
            let longer = |share| match run.measured.is_empty() {
                true => Cell::Missing("serf's own".to_string()),
                false => Cell::Number(run.longer_ms(self.anchors, share)),
            };
            let met = run.weather.met_p999_us;
            vec![
                Cell::Text(one.who.label().to_string()),
                Cell::Text((one.repetition + 1).to_string()),
                Cell::Text(run.measured.len().to_string()),
                longer(0.5),
                longer(0.9),
                Cell::Number(run.late_p50_us),
                Cell::Number(run.late_p99_us),
                met.map_or(Cell::Missing("no probe".to_string()), Cell::Number),
                Cell::Text(run.doubts().join(", ")),
            ]
        };
        Table {
            id: "machine".to_string(),
            title: "The machine and the line during each run".to_string(),
            columns: columns.map(str::to_string).to_vec(),
            rows: self.all.iter().map(row).collect(),
        }
    }
}
