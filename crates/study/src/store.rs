//! Finished points, in memory and, if wanted, on disk, so that an interrupted run can go on.
//!
//! One line of JSON a point, appended when it is finished. A line cut short by a crash is skipped
//! when read. Keys name everything that decides a result, so a line is valid wherever its key is
//! asked for by the same version of the program.

use crate::point::{PointResult, RunError};
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

#[derive(Debug, Default)]
struct Inner {
    results: BTreeMap<String, PointResult>,
    file: Option<(String, File)>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    version: String,
    result: PointResult,
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
                    results.insert(line.result.key.clone(), line.result);
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
    pub fn get(&self, key: &str) -> Option<PointResult> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).results.get(key).cloned()
    }

    /// Keeps a result.
    pub fn put(&self, result: &PointResult, version: &str) -> Result<(), RunError> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.results.insert(result.key.clone(), result.clone());
        if let Some((path, file)) = &mut inner.file {
            let line = Line { version: version.to_string(), result: result.clone() };
            let mut text = serde_json::to_string(&line)
                .map_err(|e| RunError::Store { path: path.clone(), error: e.into() })?;
            text.push('\n');
            file.write_all(text.as_bytes())
                .map_err(|error| RunError::Store { path: path.clone(), error })?;
        }
        Ok(())
    }
}
