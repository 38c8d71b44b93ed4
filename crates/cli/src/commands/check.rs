//! `cavy check`: judges a history of transactions.

use crate::args::{CheckHistory, HistoryFormat, PromisedModel};
use crate::faults::Fault;
use crate::{Outcome, terminal};
use cavy_check::read::{self, Format, ReadError};
use cavy_check::{Anomaly, History, Model, Options, Verdict, judge};
use cavy_study::plan::files;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{self, BufReader};
use std::path::Path;

/// Reads a history, judges it, and says what it shows.
pub fn check(args: &CheckHistory) -> Result<Outcome, Fault> {
    let format = args.format.map(|format| match format {
        HistoryFormat::Json => Format::Json,
        HistoryFormat::Edn => Format::Edn,
    });
    let file = &args.file;
    let history = if file == Path::new("-") {
        read::read(io::stdin().lock(), format)
    } else {
        let opened = files::open(file).map_err(|error| {
            Fault::new(format!("cannot read `{}`: {error}", file.display()))
                .hint("name a file with a history, or `-` for standard input")
        })?;
        read::read(BufReader::new(opened), format)
    };
    let of_file = |error| fault(file, error);
    let history = history.map_err(of_file)?;
    let options = Options { model: args.model.into(), shown: args.show };
    let verdict =
        judge(&history, options).map_err(|same| of_file(ReadError::same_value(&history, same)))?;
    if args.json {
        terminal::print_json(&as_json(&history, &verdict))?;
    } else {
        terminal::print(&as_text(&verdict))?;
    }
    Ok(if verdict.holds { Outcome::Success } else { Outcome::Failed })
}

fn fault(file: &Path, error: ReadError) -> Fault {
    let place = match error.line {
        0 => file.display().to_string(),
        line => format!("{}:{line}", file.display()),
    };
    Fault::new(format!("{place}: {}", error.message)).hint(error.hint)
}

impl From<PromisedModel> for Model {
    fn from(model: PromisedModel) -> Model {
        match model {
            PromisedModel::ReadUncommitted => Model::ReadUncommitted,
            PromisedModel::ReadCommitted => Model::ReadCommitted,
            PromisedModel::SnapshotIsolation => Model::SnapshotIsolation,
            PromisedModel::Serializable => Model::Serializable,
            PromisedModel::SessionSerializable => Model::SessionSerializable,
            PromisedModel::RegionalSerializable => Model::RegionalSerializable,
            PromisedModel::StrictSerializable => Model::StrictSerializable,
        }
    }
}

fn as_text(verdict: &Verdict) -> String {
    let mut out = String::new();
    let model = verdict.model.name();
    let judged = if verdict.holds { "no contradiction to" } else { "not" };
    let _ = writeln!(out, "{judged} {model}");
    let _ = writeln!(
        out,
        "  {} transactions answered, {} aborted, {} unknown; {} operations on {} keys; \
         {} dependencies",
        verdict.committed,
        verdict.aborted,
        verdict.unknown,
        verdict.operations,
        verdict.keys,
        verdict.dependencies
    );
    if verdict.unordered_keys > 0 {
        let keys = verdict.unordered_keys;
        let _ = writeln!(
            out,
            "  the version order of {keys} keys is not known: anomalies may remain undetected"
        );
    }
    if verdict.unsearched > 0 {
        let sets = verdict.unsearched;
        let _ =
            writeln!(out, "  {sets} more sets of transactions are in cycles too long to look for");
    }
    for (name, count) in &verdict.counts {
        let allowed = if verdict.model.forbids(*name) { "" } else { ", which the model allows" };
        let _ = writeln!(out, "  {name}: {count}{allowed}");
    }
    for anomaly in &verdict.anomalies {
        let _ = writeln!(out, "\n{}", heading(anomaly));
        for sentence in &anomaly.says {
            let _ = writeln!(out, "  {}", terminal::wrap(sentence, 96, "    "));
        }
    }
    out
}

fn heading(anomaly: &Anomaly) -> String {
    let mut out = anomaly.name.to_string();
    if let Some(pattern) = anomaly.pattern {
        let _ = write!(out, ", {pattern}");
    }
    if !anomaly.steps.is_empty() {
        let _ = write!(out, ": {} transactions", anomaly.steps.len());
        if anomaly.tangled > anomaly.steps.len() {
            let _ = write!(out, " of {} that hang together", anomaly.tangled);
        }
    }
    out
}

fn as_json(history: &History, verdict: &Verdict) -> Value {
    let txn = |at: u32| {
        let of = &history.txns[at as usize];
        json!({ "txn": history.texts.show(of.name), "line": of.line })
    };
    let anomaly = |one: &Anomaly| {
        let steps: Vec<Value> = one
            .steps
            .iter()
            .map(|step| {
                json!({
                    "from": txn(step.from)["txn"],
                    "to": txn(step.to)["txn"],
                    "dependency": format!("{:?}", step.kind).to_lowercase(),
                })
            })
            .collect();
        json!({
            "name": one.name.to_string(),
            "pattern": one.pattern,
            "forbidden": one.forbidden,
            "transactions": one.txns.iter().map(|at| txn(*at)).collect::<Vec<_>>(),
            "cycle": steps,
            "tangled": one.tangled,
            "says": one.says,
        })
    };
    let counts: serde_json::Map<String, Value> =
        verdict.counts.iter().map(|(name, count)| (name.to_string(), json!(count))).collect();
    json!({
        "model": verdict.model.name(),
        "holds": verdict.holds,
        "counts": counts,
        "anomalies": verdict.anomalies.iter().map(anomaly).collect::<Vec<_>>(),
        "unsearched": verdict.unsearched,
        "committed": verdict.committed,
        "aborted": verdict.aborted,
        "unknown": verdict.unknown,
        "operations": verdict.operations,
        "keys": verdict.keys,
        "unordered_keys": verdict.unordered_keys,
        "dependencies": verdict.dependencies,
    })
}
