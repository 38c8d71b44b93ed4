//! The document that both running commands end with, and the files it becomes.

use crate::VERSION;
use crate::faults::Fault;
use cavy_report::folder::Folder;
use cavy_report::model::Document;
use cavy_report::number::count;
use std::path::PathBuf;

/// How much was simulated.
pub fn work(work: &[(&'static str, u64)]) -> Vec<(String, String)> {
    work.iter().map(|(what, amount)| (format!("{what} simulated"), count(*amount))).collect()
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
        plan: None,
        claims: Vec::new(),
        figures: Vec::new(),
    }
}

/// Writes all files of a document and returns the path of the report.
pub fn write(document: &Document, folder: &Folder) -> Result<PathBuf, Fault> {
    folder.write_document(document).map_err(Fault::from)
}
