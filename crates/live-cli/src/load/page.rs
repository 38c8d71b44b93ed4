//! The report of a run: one HTML file with plots.

use crate::args::Load;
use crate::expect::{Judged, time};
use cavy_live::load::ledger::Times;
use cavy_live::load::report::{Percentiles, TypeReport, quantile_ns};
use cavy_live::load::{Model, Report, Verdict};
use cavy_report::model::{Axis, Cell, Document, Figure, Panel, Point, Scale, Series, Table};

/// The document of `report`.
pub fn document(args: &Load, report: &Report, judged: &[Judged], elapsed_s: f64) -> Document {
    let fact = |name: &str, value: String| (name.to_string(), value);
    let machine = &report.machine;
    let mut facts = vec![
        fact("server", args.url.clone()),
        fact(
            "model",
            match report.model {
                Model::Open => {
                    "open: a request is sent when it is due, whatever became of earlier ones"
                        .to_string()
                }
                Model::Closed { clients } => {
                    format!("closed: {clients} clients that wait for their answers")
                }
            },
        ),
        fact("latency", format!("counts from {}", report.latency_from)),
        fact("schedule", report.schedule.clone()),
        fact(
            "rate",
            format!(
                "{:.1} per s planned, {:.1} per s sent",
                report.planned_per_s, report.sent_per_s
            ),
        ),
        fact(
            "machine",
            format!("Linux {}, {}, {} cores", machine.kernel, machine.processor, machine.cores),
        ),
        fact(
            "percentiles",
            "given if at least 100 requests lie beyond; requests without an answer count as \
             slower than all others"
                .to_string(),
        ),
    ];
    facts.extend(report.notes.iter().map(|note| fact("note", note.clone())));
    let given = report.types.iter().any(|kind| kind.response_us.is_some());
    let panels = match report.verdict {
        Verdict::Refused(_) => Vec::new(),
        _ => vec![by_share(report), over_time(report, 0.5), over_time(report, 0.99)],
    };
    let panels = panels.into_iter().filter(|panel| !panel.series.is_empty()).collect();
    let mut tables = vec![outcomes(report)];
    tables.extend(given.then(|| latencies(report)));
    tables.extend(complaints(report));
    tables.extend((!judged.is_empty()).then(|| expectations(judged)));
    let figure = Figure {
        id: "load.latency".to_string(),
        title: format!("Latency of {}", args.url),
        shows:
            "How long requests took, by type, from the time they were due to their whole answer."
                .to_string(),
        claimed: String::new(),
        found: found(report, judged),
        command: command(args),
        panels,
        maps: Vec::new(),
        tables,
    };
    Document {
        title: format!("Load on {}", args.url),
        summary: format!("{} requests in {:.1} s, sent by cavy load.", report.sent, elapsed_s),
        command: command(args),
        version: env!("CARGO_PKG_VERSION").to_string(),
        seed: args.seed,
        digest: report.schedule_digest.clone(),
        elapsed_s,
        facts,
        plan: None,
        claims: Vec::new(),
        figures: vec![figure],
    }
}

/// The answer first: what may be concluded, and what was expected.
fn found(report: &Report, judged: &[Judged]) -> String {
    let mut sentences = Vec::new();
    match &report.verdict {
        Verdict::Published => {}
        Verdict::Refused(reasons) => sentences.push(format!(
            "Tails are not given, because they would show the generator or the machine, and not \
             the server: {}.",
            reasons.join("; ")
        )),
        Verdict::Forced(reasons) => sentences.push(format!(
            "Not for publication, given because of --force-publish: {}.",
            reasons.join("; ")
        )),
    }
    if report.interrupted {
        sentences.push("The run was ended early.".to_string());
    }
    for kind in &report.types {
        if let Some(times) = &kind.response_us {
            let figure = |value: Option<f64>| value.map_or("no figure".to_string(), time);
            sentences.push(format!(
                "Type {}: median {}, p99 {}; {} of {} answered.",
                kind.name,
                figure(times.p50),
                figure(times.p99),
                kind.answered,
                kind.sent
            ));
        }
    }
    sentences.extend(judged.iter().map(|one| format!("{}.", one.line().replacen('e', "E", 1))));
    sentences.join(" ")
}

/// The command that sends the same again, as a shell reads it. Values of headers may be secrets and
/// are left out.
fn command(args: &Load) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,%+".contains(c);
    let quoted = |word: &str| match !word.is_empty() && word.chars().all(plain) {
        true => word.to_string(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    let mut words = vec!["cavy-live load".to_string(), quoted(&args.url)];
    let mut say = |option: &str, value: &str| words.push(format!("--{option} {}", quoted(value)));
    for one in &args.types {
        let share = one.share.map_or(String::new(), |share| format!("@{share}"));
        say("type", &format!("{}{share}={}", one.name, one.text));
    }
    match (&args.schedule, args.rate) {
        (Some(file), _) => say("schedule", &file.display().to_string()),
        (None, rate) => {
            say("rate", &rate.unwrap_or(1.0).to_string());
            say("duration", &format!("{}ms", args.duration.as_us() / 1e3));
            say("seed", &args.seed.to_string());
            if args.arrivals == crate::args::Arrivals::Constant {
                say("arrivals", "constant");
            }
        }
    }
    if !args.warmup.is_zero() {
        say("warmup", &format!("{}ms", args.warmup.as_us() / 1e3));
    }
    say("connections", &args.connections.to_string());
    if let Some(clients) = args.closed {
        say("closed", &clients.to_string());
    }
    for text in &args.headers {
        let name = text.split(':').next().unwrap_or_default();
        say("header", &format!("{name}: ..."));
    }
    args.expectations.iter().for_each(|one| say("expect", one.text()));
    words.join(" ")
}

fn axis(label: &str, unit: &str, scale: Scale) -> Axis {
    Axis { label: label.to_string(), unit: unit.to_string(), scale, min: None, max: None }
}

fn point(x: f64, y: Option<f64>, samples: u64) -> Point {
    Point { x, y, low: None, high: None, samples, stable: true }
}

/// Latency of the slowest request in so many.
fn by_share(report: &Report) -> Panel {
    // Ten points a decade, as far as a percentile may be given.
    let many: Vec<f64> = (3..=70).map(|step| 10f64.powf(f64::from(step) / 10.0)).collect();
    let series = report.types.iter().zip(&report.accounts).map(|(kind, account)| {
        let unanswered = account.unanswered();
        let all = account.response.len() + unanswered;
        let at = |&of: &f64| {
            let y = quantile_ns(&account.response, unanswered, 1.0 - 1.0 / of)? / 1e3;
            Some(point(of, Some(y), all))
        };
        Series { label: kind.name.clone(), points: many.iter().filter_map(at).collect() }
    });
    Panel {
        id: "by-share".to_string(),
        title: "The slowest of how many".to_string(),
        x: axis("one request in this many is slower", "", Scale::Log),
        y: axis("latency", "us", Scale::Log),
        series: series.filter(|one| one.points.len() > 1).collect(),
        rules: Vec::new(),
    }
}

/// A percentile second by second, where there are enough requests for it.
fn over_time(report: &Report, ratio: f64) -> Panel {
    let of = |kind: usize| {
        let all = report.intervals.iter().filter(|((_, of), _)| usize::from(*of) == kind);
        let at = |((second, _), times): (&(u32, u16), &Times)| {
            let y_us = quantile_ns(times, 0, ratio).map(|ns| ns / 1e3);
            point(f64::from(*second), y_us, times.len())
        };
        all.map(at).collect::<Vec<Point>>()
    };
    let given = |points: &Vec<Point>| points.iter().filter(|point| point.y.is_some()).count() > 1;
    let series = report.types.iter().enumerate().map(|(kind, one)| (one.name.clone(), of(kind)));
    let (id, name) = match ratio {
        0.5 => ("median-over-time", "Median"),
        _ => ("p99-over-time", "99th percentile"),
    };
    Panel {
        id: id.to_string(),
        title: format!("{name} over time"),
        x: axis("time of the answer", "s", Scale::Linear),
        y: axis("latency", "us", Scale::Log),
        series: series
            .filter(|(_, points)| given(points))
            .map(|(label, points)| Series { label, points })
            .collect(),
        rules: Vec::new(),
    }
}

fn table(id: &str, title: &str, columns: &[&str], rows: Vec<Vec<Cell>>) -> Table {
    let columns = columns.iter().map(|name| name.to_string()).collect();
    Table { id: id.to_string(), title: title.to_string(), columns, rows }
}

/// Heads of a table with a row for each type.
fn heads<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    std::iter::once("type").chain(names).collect()
}

fn outcomes(report: &Report) -> Table {
    let row = |kind: &TypeReport| {
        let counts = kind.counts().map(|(_, count)| Cell::Text(count.to_string()));
        std::iter::once(Cell::Text(kind.name.clone())).chain(counts).collect()
    };
    let names = report.types.first().map(|kind| kind.counts().map(|(name, _)| name));
    let rows = report.types.iter().map(row).collect();
    table("outcomes", "How requests ended", &heads(names.into_iter().flatten()), rows)
}

fn latencies(report: &Report) -> Table {
    let mut rows = Vec::new();
    let mut row = |label: String, times: &Option<Percentiles>, withheld: &[&str]| {
        let Some(of) = times else { return };
        let cell = |(name, value): (&str, Option<f64>)| match value {
            Some(value) => Cell::Number(value),
            None if withheld.contains(&name) => Cell::Missing("late".to_string()),
            None => Cell::Missing("n/a".to_string()),
        };
        let name = std::iter::once(Cell::Text(label));
        rows.push(name.chain(of.figures().map(cell)).collect());
    };
    for kind in &report.types {
        row(format!("{} since due", kind.name), &kind.response_us, &kind.withheld);
        row(format!("{} since sent", kind.name), &kind.since_sent_us, &[]);
    }
    let names = Percentiles::NAMES.map(|name| format!("{name} (us)"));
    table("latencies", "Latency", &heads(names.iter().map(String::as_str)), rows)
}

fn complaints(report: &Report) -> Option<Table> {
    let of = |kind: &TypeReport| -> Vec<Vec<Cell>> {
        let row = |(text, count): (&str, u64)| {
            [kind.name.clone(), count.to_string(), text.to_string()].map(Cell::Text).to_vec()
        };
        kind.reasons().map(row).collect()
    };
    let rows: Vec<Vec<Cell>> = report.types.iter().flat_map(of).collect();
    let heads = ["type", "requests", "why they were not answered"];
    (!rows.is_empty()).then(|| table("complaints", "What went wrong", &heads, rows))
}

fn expectations(judged: &[Judged]) -> Table {
    let row = |one: &Judged| {
        let holds = match one.holds {
            Some(true) => "met",
            Some(false) => "missed",
            None => "cannot be told",
        };
        [one.expected.as_str(), holds, &one.found]
            .into_iter()
            .map(|text| Cell::Text(text.to_string()))
            .collect()
    };
    let rows = judged.iter().map(row).collect();
    table("expectations", "What was expected", &["expected", "verdict", "found"], rows)
}
