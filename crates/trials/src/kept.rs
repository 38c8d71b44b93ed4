//! Runs as they are kept in the output folder, so that a study of hours can be done in parts.

use cavy_report::folder::{Folder, FolderError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where they are, within the folder.
const NAME: &str = "rounds";
/// A run in doubt is taken when so many in a row were: then it is not chance that was in its way.
pub const TRIES: u32 = 3;

/// What stands in each file beside the run.
#[derive(Deserialize)]
struct Label {
    version: String,
    /// How often this was run, this time included.
    #[serde(default = "once")]
    tries: u32,
}

fn once() -> u32 {
    1
}

/// The place where runs are kept: a file each, whose name has all that decides what comes of it.
#[derive(Debug)]
pub struct Shelf {
    path: PathBuf,
    resume: bool,
    version: &'static str,
}

impl Shelf {
    /// In this folder; what is there is only taken when `resume`, and when this `version` of the
    /// program made it.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn new(folder: &Folder, resume: bool, version: &'static str) -> Result<Shelf, FolderError> {
        let path = folder.join(NAME);
        fs::create_dir_all(&path).map_err(|error| unwritable(&path, &error))?;
        Ok(Shelf { path, resume, version })
    }

    fn read<R: DeserializeOwned>(&self, file: &str) -> Option<(u32, R)> {
        let text = fs::read_to_string(self.path.join(file)).ok().filter(|_| self.resume)?;
        let label: Label = serde_json::from_str(&text).ok()?;
        (label.version == self.version).then_some((label.tries, serde_json::from_str(&text).ok()?))
    }

    /// A run that was kept. One that is `doubted` is run again, whatever came of it, a few times.
    pub fn take<R: DeserializeOwned>(
        &self,
        file: &str,
        doubted: impl FnOnce(&R) -> bool,
    ) -> Option<R> {
        let (tries, kept) = self.read(file)?;
        (tries >= TRIES || !doubted(&kept)).then_some(kept)
    }

    /// Keeps a run, an object of JSON with other keys than `version` and `tries`.
    ///
    /// # Errors
    /// When the file cannot be written; then what was there stays.
    pub fn put<R: Serialize + DeserializeOwned>(
        &self,
        file: &str,
        run: &R,
    ) -> Result<(), FolderError> {
        let tries = 1 + self.read::<R>(file).map_or(0, |(tries, _)| tries);
        let path = self.path.join(file);
        let text = serde_json::to_value(run).and_then(|mut kept| {
            kept["version"] = Value::from(self.version);
            kept["tries"] = Value::from(tries);
            serde_json::to_string(&kept)
        });
        let text = text.map_err(|error| unwritable(&path, &error.into()))?;
        cavy_report::file::replace(&path, text.as_bytes())
            .map_err(|error| unwritable(&path, &error))
    }
}

fn unwritable(path: &Path, error: &io::Error) -> FolderError {
    FolderError {
        message: format!("cannot keep a run in {}: {error}", path.display()),
        hint: "is the disk full, or the folder somebody else's?",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct Run {
        samples: Vec<(u32, u64)>,
        idle: BTreeMap<u32, u64>,
        mean_us: f64,
        late: bool,
    }

    fn run(late: bool) -> Run {
        Run { samples: vec![(8, u64::MAX)], idle: [(8, 60)].into(), mean_us: 0.1 + 0.2, late }
    }

    #[test]
    fn a_run_comes_back_and_one_in_doubt_is_tried_three_times() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path(), "study", false).unwrap();
        let shelf = Shelf::new(&folder, true, "1").unwrap();
        let take = |shelf: &Shelf, file: &str| shelf.take(file, |run: &Run| run.late);
        assert_eq!(take(&shelf, "a.json"), None);
        shelf.put("a.json", &run(false)).unwrap();
        assert_eq!(take(&shelf, "a.json"), Some(run(false)));
        assert_eq!(take(&shelf, "b.json"), None);
        for _ in 1..TRIES {
            shelf.put("b.json", &run(true)).unwrap();
            assert_eq!(take(&shelf, "b.json"), None);
        }
        shelf.put("b.json", &run(true)).unwrap();
        assert_eq!(take(&shelf, "b.json"), Some(run(true)));
        // Who does not resume, or is another version, takes nothing.
        assert_eq!(take(&Shelf::new(&folder, false, "1").unwrap(), "a.json"), None);
        assert_eq!(take(&Shelf::new(&folder, true, "2").unwrap(), "a.json"), None);
        // Half a file is none.
        fs::write(folder.join("rounds").join("a.json"), "{\"version\":\"1\"").unwrap();
        assert_eq!(take(&shelf, "a.json"), None);
    }
}
