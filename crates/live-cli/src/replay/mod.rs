//! `cavy-live replay`: a recorded run, decided again by a fresh machine.
//!
//! The run of a pool is predicted by the lab as well ([`cavy_trials::bridge`]); of an endpoint of
//! Homa it is told what it did and what waited ([`story`], [`endpoint`]), of Governors whom they
//! stopped ([`governor`]).

mod endpoint;
mod governor;
mod story;

use crate::args::Replay;
use crate::faults::{FAILED, Fault};
use crate::terminal;
use cavy_live::record::{Recorded, ReplayError};
use cavy_report::folder::Folder;
use cavy_report::model::{Cell, Document, Figure, Table};
use cavy_report::number::count;
use cavy_trials::bridge::{self, Bridge, Compared, RATIOS};
use std::process::ExitCode;

/// Runs the command.
pub fn replay(args: &Replay) -> Result<ExitCode, Fault> {
    let name = args.file.display().to_string();
    let by = format!("replay {name}");
    let folder = args.out.as_deref().map(|path| Folder::open(path, &by, false)).transpose()?;
    if let Some(moved) = folder.as_ref().and_then(Folder::moved) {
        terminal::talk(&format!("note: {moved}"));
    }
    let recorded = Recorded::in_file(&args.file).map_err(|error| fault(&name, &error))?;
    let (document, agrees) = match recorded {
        Recorded::Pool => {
            let bridge = bridge::examine(&args.file).map_err(|error| fault(&name, &error))?;
            let agrees = bridge.replayed.agrees() || bridge.replayed.recorded.is_none();
            (document(&name, &bridge), agrees)
        }
        Recorded::Homa => {
            let decided = endpoint::decide(&args.file).map_err(|error| fault(&name, &error))?;
            (decided.document(&name), decided.agrees())
        }
        Recorded::Other(machine) if machine == cavy_groups::record::MACHINE => {
            let decided = governor::decide(&args.file).map_err(|error| fault(&name, &error))?;
            (decided.document(&name), decided.agrees())
        }
        Recorded::Other(machine) => {
            let why = format!("a machine that this program lacks: {machine:?}");
            let text = format!("{name}: line 1 of the recording: {why}");
            return Err(Fault::new(text).hint("replay it by the program that recorded it"));
        }
    };
    if let Some(folder) = &folder {
        let report = folder.write_document(&document)?;
        terminal::talk(&format!("report: {}", report.display()));
    }
    if args.json {
        terminal::print(&cavy_report::series::json(&document))?;
    } else {
        terminal::print(&render(&document))?;
    }
    Ok(if agrees { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

fn fault(name: &str, error: &ReplayError) -> Fault {
    let fault = Fault::new(format!("{name}: {error}"));
    match error {
        ReplayError::Io(_) => fault,
        _ => fault.hint(
            "`cavy live sched --record FILE`, `cavy live homa serve --record FILE`, `cavy live \
             whatif --record FILE`, `Pool::builder().record(..)` and `homa::Options::record` \
             write recordings",
        ),
    }
}

/// What the digests say.
fn decisions(bridge: &Bridge) -> String {
    let digest = bridge.replayed.summary.digest;
    match bridge.replayed.recorded {
        _ if bridge.replayed.agrees() && bridge.replayed.stopped.is_some() => format!(
            "identical as far as it was recorded (digest {digest:016x}); it stopped there: {}",
            bridge.replayed.stopped.as_deref().unwrap_or_default()
        ),
        _ if bridge.replayed.agrees() => format!("identical (digest {digest:016x})"),
        None => format!("not known: the recording was cut off (digest so far {digest:016x})"),
        Some(recorded) => format!(
            "DIFFERENT: the run recorded digest {:016x} after {} inputs, the replay has \
             {digest:016x} after {}",
            recorded.digest, recorded.inputs, bridge.replayed.summary.inputs
        ),
    }
}

/// The document of one recording.
fn document(name: &str, bridge: &Bridge) -> Document {
    let fact = |name: &str, value: String| (name.to_string(), value);
    let command = format!("cavy-live replay {name}");
    Document {
        title: "A live run, decided again".to_string(),
        summary: format!(
            "Decisions of a fresh machine on the recorded inputs: {}.",
            decisions(bridge)
        ),
        command: command.clone(),
        version: env!("CARGO_PKG_VERSION").to_string(),
        seed: bridge.header.seed,
        digest: format!("{:016x}", bridge.replayed.summary.digest),
        elapsed_s: 0.0,
        facts: vec![
            fact("decisions", decisions(bridge)),
            fact("inputs", count(bridge.replayed.summary.inputs)),
            fact("requests", count(bridge.arrivals)),
            fact("workers", bridge.header.workers.to_string()),
            fact("types", bridge.header.types.join(", ")),
            fact("policy", format!("{:?}", bridge.header.policy)),
            fact("percentiles", "given where 100 requests lie beyond".to_string()),
        ],
        plan: None,
        claims: Vec::new(),
        figures: vec![Figure {
            id: "live.replay".to_string(),
            title: "Predicted against measured".to_string(),
            shows: SHOWS.to_string(),
            claimed: String::new(),
            found: match &bridge.prediction {
                Ok(types) => found(types),
                Err(reason) => format!("No prediction: {reason}."),
            },
            command,
            panels: Vec::new(),
            maps: Vec::new(),
            tables: bridge.prediction.iter().map(|types| table("replay", "", types)).collect(),
        }],
    }
}

/// What the table of [`table`] shows.
pub const SHOWS: &str = "Latency by type from arrival at the pool to the end of the job, live and \
                         in the ideal lab, which met the recorded arrivals with the service times \
                         that workers measured. The last columns take the time from hand-over to \
                         notice of completion for the service time, so that waking threads is part \
                         of it.";

/// One sentence on how far the lab is off.
pub fn found(types: &[Compared]) -> String {
    let worst = |ratio: f64, held: bool| {
        let error = |of: &Compared| {
            of.at(ratio).map(|pair| if held { pair.held_error() } else { pair.error() }.abs())
        };
        types.iter().filter_map(error).reduce(f64::max)
    };
    let percent = |error: Option<f64>| match error {
        Some(error) => format!("{:.1} %", 100.0 * error),
        None => "n/a (too few samples)".to_string(),
    };
    format!(
        "The lab is off by at most {} at p50 and {} at p99; from occupancy by {} and {}.",
        percent(worst(0.5, false)),
        percent(worst(0.99, false)),
        percent(worst(0.5, true)),
        percent(worst(0.99, true)),
    )
}

/// Predicted against measured, a row for each type and percentile.
pub fn table(id: &str, title: &str, types: &[Compared]) -> Table {
    let heads = [
        "type",
        "percentile",
        "samples",
        "measured (us)",
        "predicted (us)",
        "off (%)",
        "from occupancy (us)",
        "off (%)",
    ];
    let mut rows = Vec::new();
    for of in types {
        for (name, ratio) in RATIOS {
            let mut row = vec![
                Cell::Text(of.name.clone()),
                Cell::Text(name.to_string()),
                Cell::Text(count(of.measured.len())),
            ];
            match of.at(ratio) {
                None => row.extend((0..5).map(|_| Cell::Missing("n/a".to_string()))),
                Some(pair) => row.extend(
                    [
                        pair.measured_us,
                        pair.predicted_us,
                        100.0 * pair.error(),
                        pair.held_us,
                        100.0 * pair.held_error(),
                    ]
                    .map(Cell::Number),
                ),
            }
            rows.push(row);
        }
        if of.dropped + of.dropped_predicted > 0 {
            let mut row = vec![Cell::Text(of.name.clone()), Cell::Text("dropped".to_string())];
            row.push(Cell::Text(count(of.measured.len())));
            row.extend([of.dropped, of.dropped_predicted].map(|drops| Cell::Text(count(drops))));
            row.extend((0..3).map(|_| Cell::Text(String::new())));
            rows.push(row);
        }
    }
    let columns = heads.map(str::to_string).to_vec();
    Table { id: id.to_string(), title: title.to_string(), columns, rows }
}

/// The document for a terminal.
fn render(document: &Document) -> String {
    let mut out = String::new();
    for (name, value) in &document.facts {
        out.push_str(&format!("{name}: {value}\n"));
    }
    for figure in &document.figures {
        out.push_str(&format!("\n{}\n\n", figure.found));
        for table in &figure.tables {
            out.push_str(&cavy_report::terminal::table(table, terminal::width(), false));
        }
    }
    out
}
