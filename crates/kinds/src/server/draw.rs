//! What is drawn of experiments on a server.

use super::plan::{PhasePlan, ServerPlan};
use super::result::{ServerResult, TimelineResult};
use crate::bursts::{self, Run};
use cavy_report::model::{Cell, Panel, Point, Rule, Scale, Series, Table};
use cavy_study::draw::{self, Column, Curve, Drawn, Spread, axis, slug};
use cavy_study::experiment::{BASE, Experiment};
use cavy_study::objective::{self, Metric, Objective, Percentile, Quantity};
use cavy_study::outcome::Summary;
use cavy_study::subject::Subject;

/// What a panel shows.
#[derive(Clone, Copy, Debug)]
pub struct Tail<'a> {
    /// Percentile.
    pub percentile: Percentile,
    /// Latency or slowdown.
    pub quantity: Quantity,
    /// Type, or all requests.
    pub kind: Option<&'a str>,
}

impl Tail<'_> {
    /// 99.9th percentile slowdown of all requests.
    pub const SLOWDOWN: Tail<'static> =
        Tail { percentile: Percentile::P999, quantity: Quantity::Slowdown, kind: None };

    fn label(&self) -> String {
        let of = self.kind.map_or(String::new(), |kind| format!(" of {kind}"));
        let what = match self.quantity {
            Quantity::Us => "latency",
            Quantity::Slowdown => "slowdown",
        };
        format!("{} {what}{of}", self.percentile.title())
    }

    /// The tail as a curve over what is swept.
    fn curve(self, spread: Spread) -> Curve<ServerPlan> {
        let Tail { percentile, quantity, kind } = self;
        let (percent, unit) = (percentile.name(), quantity.name());
        let name = kind.unwrap_or("all");
        let kind = kind.map(str::to_string);
        let metric = Metric { name: format!("{percent}_{unit}"), whose: kind.clone() };
        let of = move |result: &ServerResult| {
            let estimate =
                result.summary(kind.as_deref()).and_then(|s| s.get(percentile, quantity));
            Drawn::of(estimate, spread, result.overall.samples)
        };
        Curve {
            id: format!("{percent}-{unit}-{name}"),
            y: axis(&self.label(), quantity.unit(), Scale::Log),
            of: Box::new(of),
            metric: Some(metric),
        }
    }
}

/// The tail that an objective bounds.
fn bounded(objective: &Objective) -> Option<(Percentile, Quantity, Option<String>)> {
    let Objective::Bound { metric, whose, .. } = objective else { return None };
    let (percentile, quantity) = objective::percentile(metric).ok()?;
    let kind = whose.as_deref().map(crate::types::type_name);
    Some((percentile, quantity, kind.map(str::to_string)))
}

/// A tail of every policy of a variant over the first swept key.
pub fn panel(
    experiment: &Experiment<ServerPlan>,
    variant: &str,
    tail: Tail<'_>,
    spread: Spread,
) -> Option<Panel> {
    draw::panel(experiment, variant, &tail.curve(spread))
}

/// Overall slowdown and the tail of every type, for each variant.
pub fn panels(experiment: &Experiment<ServerPlan>, spread: Spread) -> Vec<Panel> {
    let variants = experiment.variants();
    variants.into_iter().flat_map(|variant| panels_of(experiment, variant, spread)).collect()
}

/// Overall slowdown and the tail of every type, for one variant.
pub fn panels_of(experiment: &Experiment<ServerPlan>, variant: &str, spread: Spread) -> Vec<Panel> {
    let curves = curves(experiment, variant, spread);
    curves.iter().filter_map(|curve| draw::panel(experiment, variant, curve)).collect()
}

/// Overall slowdown and the tail of every type.
pub fn curves(
    experiment: &Experiment<ServerPlan>,
    variant: &str,
    spread: Spread,
) -> Vec<Curve<ServerPlan>> {
    let Some(first) = experiment.of_variant(variant).next() else { return Vec::new() };
    let mut all = vec![Tail::SLOWDOWN.curve(spread)];
    for kind in &first.types {
        // The 99.9th percentile where any point has the samples for it, else the 99th.
        let known = |result: &ServerResult| result.stable() && result.tail_us(&kind.name).is_some();
        let percentile = match experiment.of_variant(variant).any(known) {
            true => Percentile::P999,
            false => Percentile::P99,
        };
        let tail = Tail { percentile, quantity: Quantity::Us, kind: Some(&kind.name) };
        all.push(tail.curve(spread));
    }
    // Whoever bounds another percentile wants to see that one as well.
    for text in &experiment.frame.objectives {
        let of = Objective::parse(text).ok().and_then(|objective| bounded(&objective));
        let Some((percentile, quantity, kind)) = of else { continue };
        let curve = Tail { percentile, quantity, kind: kind.as_deref() }.curve(spread);
        if !all.iter().any(|known| known.id == curve.id) {
            all.push(curve);
        }
    }
    all
}

/// The percentiles of which fewer bursts decide the value than an interval needs, and how many do.
fn few_bursts(summary: &Summary) -> Vec<(Percentile, f64)> {
    let of = |percentile: Percentile| {
        let quantile = summary.quantile(percentile, Quantity::Us)?;
        quantile.supported()?;
        Some((percentile, quantile.few_bursts()?))
    };
    Percentile::ALL.into_iter().filter_map(of).collect()
}

/// The head of the column that names intervals which are too narrow.
const NARROW: &str = "intervals too narrow (bursts)";

/// What stands in that column beside these percentiles.
fn narrow(result: &ServerResult, summary: &Summary, printed: &[Percentile]) -> Cell {
    let few = if result.stable() { few_bursts(summary) } else { Vec::new() };
    let few = few.iter().filter(|(percentile, _)| printed.contains(percentile));
    let one = |(p, bursts): &(Percentile, f64)| format!("{} ({bursts:.0})", p.title());
    Cell::Text(few.map(one).collect::<Vec<_>>().join(", "))
}

fn any_narrow<'a>(mut results: impl Iterator<Item = &'a ServerResult>) -> bool {
    results.any(|result| {
        let all = result.types.iter().map(|kind| &kind.summary).chain([&result.overall]);
        result.stable() && all.into_iter().any(|summary| !few_bursts(summary).is_empty())
    })
}

/// At how many points some percentile rests on few bursts, and which one rests on the fewest.
struct FewBursts {
    points: usize,
    least: f64,
    /// The percentile that rests on the fewest, of whom, and where.
    worst: String,
}

impl FewBursts {
    fn of(experiment: &Experiment<ServerPlan>) -> Option<FewBursts> {
        let axis = experiment.plan.axis();
        let fewest = |result: &ServerResult| {
            let of_types = result.types.iter().map(|kind| (&kind.summary, Some(&kind.name)));
            let all = of_types.chain([(&result.overall, None)]).flat_map(|(summary, whose)| {
                few_bursts(summary).into_iter().map(move |(p, bursts)| (bursts, p, whose))
            });
            let (bursts, percentile, whose) = all.min_by(|one, other| one.0.total_cmp(&other.0))?;
            let of = whose.map_or(String::new(), |kind| format!(" of {kind}"));
            let at = axis.as_ref().zip(result.at).map(|(axis, at)| format!(" {}", axis.place(at)));
            let (percentile, at) = (percentile.title(), at.unwrap_or_default());
            Some((bursts, format!("the {percentile}{of} under {}{at}", result.label)))
        };
        let stable = experiment.results.iter().filter(|result| result.stable());
        let few: Vec<(f64, String)> = stable.filter_map(fewest).collect();
        let points = few.len();
        let (least, worst) = few.into_iter().min_by(|one, other| one.0.total_cmp(&other.0))?;
        Some(FewBursts { points, least, worst })
    }
}

/// Says of which intervals a reader should not expect what they promise, and what would help.
pub fn remark_of_bursts(experiment: &Experiment<ServerPlan>) -> Option<String> {
    let FewBursts { points, least, worst } = FewBursts::of(experiment)?;
    let run = Run { work: "requests", key: "run.requests", length: experiment.plan.run.requests };
    let said = bursts::remark((points, experiment.results.len()), least, &worst, &run);
    Some(format!("{said} Tables name these percentiles in a column of their own."))
}

/// Columns of the table of points.
pub fn columns(experiment: &Experiment<ServerPlan>) -> Vec<Column<ServerPlan>> {
    let mut all: Vec<Column<ServerPlan>> = Percentile::MAIN
        .into_iter()
        .map(|percentile| {
            Column::new(format!("{} slowdown", percentile.title()), move |result: &ServerResult| {
                draw::cell(result, result.overall.get(percentile, Quantity::Slowdown))
            })
        })
        .collect();
    all.push(Column::new("mean (us)", |result: &ServerResult| {
        draw::cell(result, result.overall.mean_us.as_ref())
    }));
    all.push(Column::new("mean wait (us)", |result: &ServerResult| {
        draw::cell(result, result.overall.mean_wait_us.as_ref())
    }));
    let types = experiment.results.first().map_or(&[][..], |result| &result.types);
    all.extend(types.iter().map(|kind| {
        let name = kind.name.clone();
        Column::new(format!("{name} p99.9 (us)"), move |result: &ServerResult| {
            draw::cell(result, result.tail_us(&name))
        })
    }));
    if any_narrow(experiment.results.iter()) {
        all.push(Column::new(NARROW, |result: &ServerResult| {
            narrow(result, &result.overall, &Percentile::MAIN)
        }));
    }
    if experiment.plan.clients.is_some() {
        all.push(Column::new("requests/s", |result: &ServerResult| {
            result.rate_per_s.map_or(Cell::Text(String::new()), Cell::Number)
        }));
    }
    all.push(Column::new("utilization", |result: &ServerResult| Cell::Number(result.utilization)));
    all.push(Column::new("dropped", |result: &ServerResult| Cell::Number(result.dropped as f64)));
    if experiment.results.iter().any(|result| result.reservation.is_some()) {
        all.push(Column::new("reservation", |result: &ServerResult| {
            Cell::Text(result.reservation.clone().unwrap_or_default())
        }));
    }
    all
}

/// What each type experienced at every point: means, waiting and percentiles with their intervals.
pub fn types_table(experiment: &Experiment<ServerPlan>, variant: &str) -> Option<Table> {
    let first = experiment.of_variant(variant).next()?;
    let keys: Vec<&String> = first.settings.keys().collect();
    let mut columns = vec!["policy".to_string()];
    columns.extend(keys.iter().map(|key| draw::words(key)));
    columns.extend(["type", "samples", "mean (us)", "mean wait (us)"].map(str::to_string));
    columns.extend(Percentile::ALL.map(|percentile| format!("{} (us)", percentile.title())));
    let with_narrow = any_narrow(experiment.of_variant(variant));
    columns.extend(with_narrow.then(|| NARROW.to_string()));
    columns.push("dropped".to_string());
    let mut rows = Vec::new();
    for result in experiment.of_variant(variant) {
        let types = result.types.iter().map(|t| (t.name.as_str(), &t.summary, t.dropped));
        let all = std::iter::once(("all", &result.overall, result.dropped)).chain(types);
        // Of one type, all is that type.
        for (name, summary, dropped) in all.skip(usize::from(result.types.len() == 1)) {
            let cell = |estimate| draw::cell(result, estimate);
            let mut row = vec![Cell::Text(result.label.clone())];
            row.extend(keys.iter().map(|key| draw::setting(result.settings.get(*key))));
            row.push(Cell::Text(name.to_string()));
            row.push(Cell::Number(summary.samples as f64));
            row.push(cell(summary.mean_us.as_ref()));
            row.push(cell(summary.mean_wait_us.as_ref()));
            row.extend(Percentile::ALL.map(|p| cell(summary.get(p, Quantity::Us))));
            row.extend(with_narrow.then(|| narrow(result, summary, &Percentile::ALL)));
            row.push(Cell::Number(dropped as f64));
            rows.push(row);
        }
    }
    Some(Table {
        id: format!("{variant}-types"),
        title: format!("What each type experienced{}", draw::suffix(variant)),
        columns,
        rows,
    })
}

/// Latency and reservation over time, for all variants.
pub fn timeline_panels(experiment: &Experiment<ServerPlan>) -> Vec<Panel> {
    let variants = experiment.variants();
    variants.into_iter().flat_map(|variant| timelines(experiment, variant)).collect()
}

/// Latency and reservation over time, for one variant.
pub fn timelines(experiment: &Experiment<ServerPlan>, variant: &str) -> Vec<Panel> {
    let mut all = Vec::new();
    let time = || axis("time", "ms", Scale::Linear);
    for result in experiment.of_variant(variant) {
        let Some(timeline) = &result.timeline else { continue };
        let names: Vec<&str> = result.types.iter().map(|t| t.name.as_str()).collect();
        let policy = match result.variant.as_str() {
            BASE => result.label.clone(),
            variant => format!("{}, {variant}", result.label),
        };
        all.push(Panel {
            id: format!("{}-{}-latency", result.variant, slug(&result.label)),
            title: format!("{policy}: tail latency over time"),
            x: time(),
            y: axis("p99.9 latency in each bin", "us", Scale::Log),
            series: latency_series(timeline, &names),
            rules: phases(experiment),
        });
        if !timeline.changes.is_empty() {
            all.push(Panel {
                id: format!("{}-{}-reserved", result.variant, slug(&result.label)),
                title: format!("{policy}: reserved workers over time"),
                x: time(),
                y: axis("reserved workers", "", Scale::Linear),
                series: reserved_series(timeline, &names),
                rules: phases(experiment),
            });
        }
    }
    all
}

/// Where each phase but the first begins.
fn phases(experiment: &Experiment<ServerPlan>) -> Vec<Rule> {
    let mut from_ms = 0.0;
    let mut begin = |(index, phase): (usize, &PhasePlan)| {
        let at = from_ms;
        from_ms += phase.duration_ms;
        Rule::upright(format!("phase {}", index + 1), at)
    };
    experiment.plan.phases.iter().enumerate().map(&mut begin).skip(1).collect()
}

fn latency_series(timeline: &TimelineResult, names: &[&str]) -> Vec<Series> {
    let of = |kind: usize| {
        timeline
            .bins
            .iter()
            .map(|bin| Point {
                x: bin.from_ms,
                y: bin.tail_us[kind],
                low: None,
                high: None,
                samples: bin.finished[kind],
                stable: true,
            })
            .collect()
    };
    let series =
        |(kind, name): (usize, &&str)| Series { label: (*name).to_string(), points: of(kind) };
    names.iter().enumerate().map(series).collect()
}

/// Reserved workers as steps: a point before and after each change, and one at the end.
fn reserved_series(timeline: &TimelineResult, names: &[&str]) -> Vec<Series> {
    let end = timeline.bins.len() as f64 * timeline.bin_ms;
    let dot = |x: f64, workers: u32| Point {
        x,
        y: Some(f64::from(workers)),
        low: None,
        high: None,
        samples: 0,
        stable: true,
    };
    let of = |kind: usize| {
        let mut points = Vec::new();
        let mut before = None;
        for change in &timeline.changes {
            if let Some(workers) = before {
                points.push(dot(change.at_ms, workers));
            }
            points.push(dot(change.at_ms + 1e-6, change.reserved[kind]));
            before = Some(change.reserved[kind]);
        }
        points.extend(before.map(|workers| dot(end, workers)));
        points
    };
    let series =
        |(kind, name): (usize, &&str)| Series { label: (*name).to_string(), points: of(kind) };
    names.iter().enumerate().map(series).collect()
}
