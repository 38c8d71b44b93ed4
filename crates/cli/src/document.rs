//! The document that both running commands end with, and the files it becomes.

use crate::VERSION;
use crate::faults::Fault;
use crate::folder::Folder;
use cavy_report::model::Document;
use cavy_report::number::count;
use cavy_report::{Theme, html, series, svg};
use std::path::PathBuf;

/// What every reader of our numbers must know.
pub fn facts(requests: u64) -> Vec<(String, String)> {
    let fact = |name: &str, value: &str| (name.to_string(), value.to_string());
    vec![
        fact("requests simulated", &count(requests)),
        fact("model", "open: requests arrive on schedule, whether or not earlier ones are done"),
        fact("latency", "from the intended arrival to the reply, waiting included"),
        fact("slowdown", "latency over the mean service time of the request's type"),
        fact("intervals", "95 %, by sectioning over independent replications"),
        fact(
            "percentiles",
            "given where every replication has 100 samples beyond; histograms are exact to 3 digits",
        ),
        fact("warm-up", "discarded by MSER-5"),
        fact(
            "unstable",
            "more than 0.1 % dropped, a backlog that grows with the arrivals, or latency still growing in the last third",
        ),
    ]
}

/// What every reader of numbers about networks must know.
pub fn network_facts(messages: u64) -> Vec<(String, String)> {
    let fact = |name: &str, value: &str| (name.to_string(), value.to_string());
    vec![
        fact("messages simulated", &count(messages)),
        fact("load", "wire bytes of messages, headers and grants over the rate of a host's link"),
        fact("latency", "from submission to delivery; of a question, to the answer's"),
        fact("slowdown", "latency over the least that this network allows for the size"),
        fact("short", "the smallest half of the messages"),
        fact("intervals", "95 %, by sectioning over independent replications"),
        fact("percentiles", "given where 100 messages of all replications lie beyond"),
        fact(
            "unstable",
            "the backlog of the second half is a fifth above that of the first, or packets or messages pile up or fail",
        ),
    ]
}

/// A number that JSON can carry without loss.
pub fn hex(digest: u64) -> String {
    format!("{digest:016x}")
}

/// A document without claims and figures yet.
pub fn blank(command: String, seed: u64, digest: u64, elapsed_s: f64) -> Document {
    Document {
        title: String::new(),
        summary: String::new(),
        command,
        version: VERSION.to_string(),
        seed,
        digest: hex(digest),
        elapsed_s,
        facts: Vec::new(),
        claims: Vec::new(),
        figures: Vec::new(),
    }
}

/// Writes all files of a document and returns the path of the report.
pub fn write(document: &Document, folder: &Folder) -> Result<PathBuf, Fault> {
    for figure in &document.figures {
        for panel in &figure.panels {
            let name = format!("{}-{}", file_name(&figure.id), file_name(&panel.id));
            folder.write(&format!("svg/{name}.svg"), &svg::panel(panel, Theme::Light))?;
            folder.write(&format!("svg/{name}-dark.svg"), &svg::panel(panel, Theme::Dark))?;
        }
    }
    folder.write("series.csv", &series::csv(document))?;
    folder.write("tables.csv", &series::tables_csv(document))?;
    let claims = serde_json::to_value(&document.claims).unwrap_or_default();
    folder.write("claims.json", &format!("{claims:#}\n"))?;
    folder.write("report.json", &series::json(document))?;
    // Last, so that a report is never newer than what it stands on.
    folder.write("report.html", &html::render(document))?;
    Ok(folder.join("report.html"))
}

/// A name as part of a file name.
fn file_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect()
}
