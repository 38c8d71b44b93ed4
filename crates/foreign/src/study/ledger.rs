//! Predictions on disk before their truth is known.

use cavy_core::Digest;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

/// The file of predictions: each line holds one with the digest of it and of all before it, on disk
/// before the change is made.
pub(super) struct Ledger {
    file: File,
    digest: Digest,
}

impl Ledger {
    /// A new file, in the place of the one that was there.
    pub(super) fn begin(path: &Path) -> std::io::Result<Ledger> {
        Ok(Ledger { file: File::create(path)?, digest: Digest::new() })
    }

    /// Goes on with the file that an earlier study left, whose digests must hold.
    pub(super) fn go_on(path: &Path) -> Result<Ledger, String> {
        let (digest, _) = read(path)?;
        let file = File::options().append(true).open(path);
        let file = file.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Ledger { file, digest })
    }

    pub(super) fn predicted(&mut self, what: &Value) -> std::io::Result<String> {
        let text = what.to_string();
        self.digest.fold_value(&text);
        let digest = format!("{:016x}", self.digest.value());
        self.line(&json!({ "digest": digest, "predicted": text }))?;
        Ok(digest)
    }

    pub(super) fn learned(&mut self, of: &str, truth_percent: Option<f64>) -> std::io::Result<()> {
        self.line(&json!({ "of": of, "truth_percent": truth_percent }))
    }

    pub(super) fn line(&mut self, value: &Value) -> std::io::Result<()> {
        writeln!(self.file, "{value}")?;
        self.file.sync_all()
    }
}

/// Checks a file of predictions: how many there are, each with the digest of all until it, and each
/// truth after the prediction that it is about.
///
/// # Errors
/// A sentence about the first line that is wrong.
pub fn verify(path: &Path) -> Result<usize, String> {
    read(path).map(|(_, predictions)| predictions)
}

/// The digest of all predictions of a file, and how many there are.
fn read(path: &Path) -> Result<(Digest, usize), String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let (mut digest, mut seen) = (Digest::new(), Vec::new());
    for (index, line) in text.lines().enumerate() {
        let wrong = |why: &str| format!("{} line {}: {why}", path.display(), index + 1);
        let value: Value = serde_json::from_str(line).map_err(|_| wrong("is no JSON"))?;
        if let (Some(said), Some(predicted)) =
            (value["digest"].as_str(), value["predicted"].as_str())
        {
            digest.fold_value(&predicted.to_string());
            if format!("{:016x}", digest.value()) != said {
                return Err(wrong("its digest is another: it or one before it was changed"));
            }
            seen.push(said.to_string());
        } else if !value["of"].as_str().is_some_and(|of| seen.iter().any(|one| one == of)) {
            return Err(wrong("its truth has no prediction before it"));
        }
    }
    Ok((digest, seen.len()))
}
