//! The folder for results: there and writable before anything is measured, one program at a time,
//! and no file in it ever half-written.

use crate::file::replace;
use crate::model::Document;
use crate::{Styles, Theme, html, map, markdown, series, svg};
use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// Files that a document becomes, beside those in `svg/`.
const FILES: [&str; 7] = [
    "report.html",
    "report.json",
    "claims.json",
    "claims.md",
    "series.csv",
    "tables.csv",
    "maps.csv",
];

/// Finished points, from which an interrupted run goes on.
const POINTS: &str = "points.jsonl";

/// Drawings.
const DRAWINGS: &str = "svg";

/// Says whose results these are.
const MADE_BY: &str = ".made-by";

/// Folders of earlier results that there may be.
const EARLIER_MAX: u32 = 10_000;

/// Why a folder cannot be used, and what would help.
#[derive(Debug)]
pub struct FolderError {
    /// One sentence.
    pub message: String,
    /// The cure.
    pub hint: &'static str,
}

impl fmt::Display for FolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for FolderError {}

const ANOTHER: &str = "name another folder with `--out DIR`";

/// An output folder that is ours until this value is gone.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Held locked. The file stays when we leave: deleting it would race with the next program.
    _lock: File,
    /// Where the results of somebody else went.
    moved: Option<Moved>,
}

/// Results that stood in a folder when another command began to write there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Moved {
    /// Whose they are, where that is known.
    pub by: Option<String>,
    /// Where they are now.
    pub to: PathBuf,
}

impl Folder {
    /// Makes the folder if needed, and sees that files can be written and replaced in it.
    ///
    /// `by` names the command and what it is about, such as `run plan.toml`. Results that another
    /// one left here are moved into a folder `earlier-1` (or 2, 3, ...) beside the new ones: nobody
    /// loses a night's run by a forgotten `--out`. With `resume` finished points stay, since they
    /// are asked for.
    ///
    /// # Errors
    /// When the folder cannot be written to, or another program writes to it.
    pub fn open(path: &Path, by: &str, resume: bool) -> Result<Self, FolderError> {
        let wrong = |error: io::Error| FolderError {
            message: format!("cannot write to the output folder `{}`: {error}", path.display()),
            hint: ANOTHER,
        };
        fs::create_dir_all(path).map_err(wrong)?;
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path.join(".lock"))
            .map_err(wrong)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(FolderError {
                    message: format!("another cavy is writing to `{}`", path.display()),
                    hint: "wait for it, or name another folder with `--out DIR`",
                });
            }
            // Some network file systems have no locks; then the user must take care.
            Err(TryLockError::Error(_)) => {}
        }
        let mut folder = Folder { path: path.to_path_buf(), _lock: lock, moved: None };
        let trial = folder.path.join(".trial");
        replace(&trial, b"").and_then(|()| fs::remove_file(&trial)).map_err(wrong)?;
        // Directories in the place of our files would only be found out at the end.
        for name in FILES {
            if folder.path.join(name).is_dir() {
                let message = format!("`{}` is a folder", folder.path.join(name).display());
                return Err(FolderError { message, hint: ANOTHER });
            }
        }
        folder.moved = folder.move_results_of_others(by, resume).map_err(wrong)?;
        replace(&folder.path.join(MADE_BY), by.as_bytes()).map_err(wrong)?;
        fs::create_dir_all(folder.path.join(DRAWINGS)).map_err(wrong)?;
        Ok(folder)
    }

    /// Results of another command that were here, and where they are now.
    pub fn moved(&self) -> Option<&Moved> {
        self.moved.as_ref()
    }

    fn move_results_of_others(&self, by: &str, resume: bool) -> io::Result<Option<Moved>> {
        let before = fs::read_to_string(self.path.join(MADE_BY)).ok();
        let names = FILES.iter().chain([&DRAWINGS]).chain((!resume).then_some(&POINTS));
        let there: Vec<&str> =
            names.copied().filter(|name| self.path.join(name).exists()).collect();
        if there.is_empty() || before.as_deref() == Some(by) {
            return Ok(None);
        }
        let free = |number: &u32| !self.path.join(format!("earlier-{number}")).exists();
        let number = (1..EARLIER_MAX).find(free).ok_or(io::ErrorKind::AlreadyExists)?;
        let to = self.path.join(format!("earlier-{number}"));
        fs::create_dir(&to)?;
        for name in there {
            fs::rename(self.path.join(name), to.join(name))?;
        }
        if let Some(before) = &before {
            replace(&to.join(MADE_BY), before.as_bytes())?;
        }
        Ok(Some(Moved { by: before, to }))
    }

    /// A path in it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file of it as a whole or not at all.
    pub fn write(&self, name: &str, text: &str) -> Result<(), FolderError> {
        let file = self.path.join(name);
        replace(&file, text.as_bytes()).map_err(|error| FolderError {
            message: format!("cannot write `{}`: {error}", file.display()),
            hint: "results are kept; free some space and run again with `--resume`",
        })
    }

    /// Writes all files of a document and returns the path of the report.
    pub fn write_document(&self, document: &Document) -> Result<PathBuf, FolderError> {
        let styles = Styles::of(document);
        for figure in &document.figures {
            for panel in &figure.panels {
                let name = format!("{}-{}", file_name(&figure.id), file_name(&panel.id));
                self.write(&format!("svg/{name}.svg"), &svg::panel(panel, &styles, Theme::Light))?;
                self.write(
                    &format!("svg/{name}-dark.svg"),
                    &svg::panel(panel, &styles, Theme::Dark),
                )?;
            }
        }
        for figure in &document.figures {
            for map in &figure.maps {
                let name = format!("{}-{}", file_name(&figure.id), file_name(&map.id));
                self.write(&format!("svg/{name}.svg"), &map::svg(map, Theme::Light))?;
                self.write(&format!("svg/{name}-dark.svg"), &map::svg(map, Theme::Dark))?;
            }
        }
        if document.figures.iter().any(|figure| !figure.maps.is_empty()) {
            self.write("maps.csv", &series::maps_csv(document))?;
        }
        self.write("series.csv", &series::csv(document))?;
        self.write("tables.csv", &series::tables_csv(document))?;
        let claims = serde_json::to_value(&document.claims).unwrap_or_default();
        self.write("claims.json", &format!("{claims:#}\n"))?;
        if !document.claims.is_empty() {
            self.write("claims.md", &markdown::claims_page(document))?;
        }
        self.write("report.json", &series::json(document))?;
        // Last, so that a report is never newer than what it stands on.
        self.write("report.html", &html::render(document))?;
        Ok(self.join("report.html"))
    }
}

/// A name as part of a file name.
fn file_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect()
}

impl fmt::Display for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.by {
            Some(by) => write!(f, "the results of `{by}`")?,
            None => f.write_str("earlier results")?,
        }
        write!(f, " are in `{}` now", self.to.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_writes_over_the_results_of_another_command() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path();
        let open = |by: &str, resume| Folder::open(path, by, resume).unwrap();
        let write = |by: &str| {
            let folder = open(by, false);
            folder.write("report.json", by).unwrap();
            fs::write(folder.join("points.jsonl"), by).unwrap();
            folder.moved().cloned()
        };
        let read = |name: &str| fs::read_to_string(path.join(name)).unwrap();
        assert_eq!(write("run a.toml"), None, "an empty folder");
        assert_eq!(write("run a.toml"), None, "its own results are made anew");
        let moved = write("reproduce homa").expect("another command");
        assert_eq!((moved.by.as_deref(), moved.to), (Some("run a.toml"), path.join("earlier-1")));
        assert_eq!(read("earlier-1/report.json"), "run a.toml");
        assert_eq!(read("earlier-1/points.jsonl"), "run a.toml");
        assert_eq!(read("report.json"), "reproduce homa");
        // Who resumes wants the points that are there.
        let resumed = open("reproduce homa.w3", true);
        assert_eq!(resumed.moved().unwrap().to, path.join("earlier-2"));
        assert_eq!(read("points.jsonl"), "reproduce homa");
        drop(resumed);
        // Files of the user are nobody's results.
        fs::write(path.join("notes.txt"), "mine").unwrap();
        open("run b.toml", false);
        assert_eq!(read("notes.txt"), "mine");
    }

    #[test]
    fn one_program_at_a_time() {
        let place = tempfile::tempdir().unwrap();
        let held = Folder::open(place.path(), "run", false).unwrap();
        let second = Folder::open(place.path(), "run", false).unwrap_err();
        assert!(second.message.contains("another cavy is writing"), "{second}");
        drop(held);
        assert!(Folder::open(place.path(), "run", false).is_ok());
    }
}
