//! Finished points, in memory and, if wanted, on disk, so that an interrupted run can go on.
//!
//! One line of JSON a point, appended when it is finished. A line cut short by a crash is skipped
//! when read. Keys name everything that decides a result, so a line is valid wherever its key is
//! asked for by the same version of the program. The store knows no kind of result: a line is read
//! when somebody who knows its type asks for it.

use crate::outcome::Outcome;
use crate::point::RunError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::any::Any;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Results by key.
#[derive(Default)]
pub struct Store {
    inner: Mutex<Inner>,
}

/// A result as it is kept.
#[derive(Clone)]
enum Entry {
    /// Made by this program, or read already.
    Known(Arc<dyn Any + Send + Sync>),
    /// As the file has it.
    Line(Arc<RawValue>),
}

#[derive(Default)]
struct Inner {
    entries: BTreeMap<String, Entry>,
    file: Option<(String, File)>,
}

/// What is written of a result.
#[derive(Serialize)]
struct Written<'a, R> {
    version: &'a str,
    key: &'a str,
    result: &'a R,
}

/// What is read of it.
#[derive(Deserialize)]
struct Read {
    version: String,
    key: String,
    result: Box<RawValue>,
}

/// What a file of results held that was not taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Lines that are no results: cut short, or not from this program.
    pub damaged: usize,
    /// Results of another version of the program.
    pub of_other_versions: usize,
}

impl Store {
    /// A store that forgets at the end.
    pub fn in_memory() -> Self {
        Store::default()
    }

    /// A store in `file`, and what was skipped of it. With `resume` it starts with what the file
    /// holds of this `version`; without, it starts empty.
    pub fn in_file(file: &Path, resume: bool, version: &str) -> Result<(Self, Skipped), RunError> {
        let path = file.display().to_string();
        let wrong = |error| RunError::Store { path: path.clone(), error };
        let mut entries = BTreeMap::new();
        let mut skipped = Skipped::default();
        if resume && file.exists() {
            // A crash may have cut a line within a character.
            let bytes = std::fs::read(file).map_err(wrong)?;
            let text = String::from_utf8_lossy(&bytes);
            for line in text.lines().filter(|line| !line.trim().is_empty()) {
                match serde_json::from_str::<Read>(line) {
                    Ok(line) if line.version == version => {
                        entries.insert(line.key, Entry::Line(line.result.into()));
                    }
                    Ok(_) => skipped.of_other_versions += 1,
                    Err(_) => skipped.damaged += 1,
                }
            }
        }
        let mut opened = File::options().create(true).append(true).open(file).map_err(wrong)?;
        if !resume {
            opened.set_len(0).map_err(wrong)?;
        }
        // A line that a crash cut short must not swallow the next one.
        writeln!(opened).map_err(wrong)?;
        let inner = Inner { entries, file: Some((path.clone(), opened)) };
        Ok((Store { inner: Mutex::new(inner) }, skipped))
    }

    /// Points that are there already.
    pub fn len(&self) -> usize {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).entries.len()
    }

    /// Nothing there?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The result for `key`, if it is of this type.
    pub fn get<D>(&self, key: &str) -> Option<Outcome<D>>
    where
        D: DeserializeOwned + Clone + Send + Sync + 'static,
    {
        let entry = {
            let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            inner.entries.get(key)?.clone()
        };
        match entry {
            Entry::Known(known) => known.downcast_ref::<Outcome<D>>().cloned(),
            Entry::Line(line) => {
                let result: Outcome<D> = serde_json::from_str(line.get()).ok()?;
                let known: Arc<dyn Any + Send + Sync> = Arc::new(result.clone());
                let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
                inner.entries.insert(key.to_string(), Entry::Known(known));
                Some(result)
            }
        }
    }

    /// Is there a result for `key`?
    pub fn has(&self, key: &str) -> bool {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).entries.contains_key(key)
    }

    /// Keeps a result.
    pub fn put<D>(&self, result: &Outcome<D>, version: &str) -> Result<(), RunError>
    where
        D: Serialize + Clone + Send + Sync + 'static,
    {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.entries.insert(result.key.clone(), Entry::Known(Arc::new(result.clone())));
        if let Some((path, file)) = &mut inner.file {
            let line = Written { version, key: &result.key, result };
            let mut text = serde_json::to_string(&line)
                .map_err(|e| RunError::Store { path: path.clone(), error: e.into() })?;
            text.push('\n');
            file.write_all(text.as_bytes())
                .map_err(|error| RunError::Store { path: path.clone(), error })?;
        }
        Ok(())
    }
}
