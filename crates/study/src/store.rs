//! Finished points, in memory and, if wanted, on disk, so that an interrupted run can go on.
//!
//! One line of JSON a point, appended when it is finished. A line cut short by a crash is skipped
//! when read. Keys name everything that decides a result, so a line is valid wherever its key is
//! asked for by the same version of the program.

use crate::network::NetResult;
use crate::point::{PointResult, RunError};
use crate::subject::Outcome;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Results by key.
#[derive(Debug, Default)]
pub struct Store {
    inner: Mutex<Inner>,
}

/// A result of any kind.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Kept {
    /// Of a server.
    Server(Box<PointResult>),
    /// Of a network.
    Network(Box<NetResult>),
}

impl Kept {
    fn key(&self) -> &str {
        match self {
            Kept::Server(result) => &result.key,
            Kept::Network(result) => &result.key,
        }
    }
}

#[derive(Debug, Default)]
struct Inner {
    results: BTreeMap<String, Kept>,
    file: Option<(String, File)>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    version: String,
    result: Kept,
}

impl Store {
    /// A store that forgets at the end.
    pub fn in_memory() -> Self {
        Store::default()
    }

    /// A store in `file`. With `resume` it starts with what the file holds of this `version`;
    /// without, it starts empty.
    pub fn in_file(file: &Path, resume: bool, version: &str) -> Result<Self, RunError> {
        let path = file.display().to_string();
        let wrong = |error| RunError::Store { path: path.clone(), error };
        let mut results = BTreeMap::new();
        if resume && file.exists() {
            // A crash may have cut a line within a character.
            let bytes = std::fs::read(file).map_err(wrong)?;
            for line in String::from_utf8_lossy(&bytes).lines() {
                if let Ok(line) = serde_json::from_str::<Line>(line)
                    && line.version == version
                {
                    results.insert(line.result.key().to_string(), line.result);
                }
            }
        }
        let mut opened = File::options().create(true).append(true).open(file).map_err(wrong)?;
        if !resume {
            opened.set_len(0).map_err(wrong)?;
        }
        // A line that a crash cut short must not swallow the next one.
        writeln!(opened).map_err(wrong)?;
        let inner = Inner { results, file: Some((path.clone(), opened)) };
        Ok(Store { inner: Mutex::new(inner) })
    }

    /// Points that are there already.
    pub fn len(&self) -> usize {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).results.len()
    }

    /// Nothing there?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The result for `key`.
    pub fn get<R: Outcome>(&self, key: &str) -> Option<R> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        R::recall(inner.results.get(key)?).cloned()
    }

    /// Is there a result for `key`?
    pub fn has(&self, key: &str) -> bool {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).results.contains_key(key)
    }

    /// Keeps a result.
    pub fn put<R: Outcome>(&self, result: &R, version: &str) -> Result<(), RunError> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = result.clone().keep();
        inner.results.insert(result.key().to_string(), kept.clone());
        if let Some((path, file)) = &mut inner.file {
            let line = Line { version: version.to_string(), result: kept };
            let mut text = serde_json::to_string(&line)
                .map_err(|e| RunError::Store { path: path.clone(), error: e.into() })?;
            text.push('\n');
            file.write_all(text.as_bytes())
                .map_err(|error| RunError::Store { path: path.clone(), error })?;
        }
        Ok(())
    }
}
