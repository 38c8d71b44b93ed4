//! The folder for results: there and writable before anything is measured, one program at a time,
//! and no file in it ever half-written.

use crate::file::replace;
use crate::model::Document;
use crate::{Theme, html, series, svg};
use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// Files that a document becomes, beside those in `svg/`.
const FILES: [&str; 5] = ["report.html", "report.json", "claims.json", "series.csv", "tables.csv"];

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
}

impl Folder {
    /// Makes the folder if needed, and sees that files can be written and replaced in it.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
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
        let folder = Folder { path: path.to_path_buf(), _lock: lock };
        let trial = folder.path.join(".trial");
        replace(&trial, b"").and_then(|()| fs::remove_file(&trial)).map_err(wrong)?;
        // Directories in the place of our files would only be found out at the end.
        for name in FILES {
            if folder.path.join(name).is_dir() {
                let message = format!("`{}` is a folder", folder.path.join(name).display());
                return Err(FolderError { message, hint: ANOTHER });
            }
        }
        fs::create_dir_all(folder.path.join("svg")).map_err(wrong)?;
        Ok(folder)
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
        for figure in &document.figures {
            for panel in &figure.panels {
                let name = format!("{}-{}", file_name(&figure.id), file_name(&panel.id));
                self.write(&format!("svg/{name}.svg"), &svg::panel(panel, Theme::Light))?;
                self.write(&format!("svg/{name}-dark.svg"), &svg::panel(panel, Theme::Dark))?;
            }
        }
        self.write("series.csv", &series::csv(document))?;
        self.write("tables.csv", &series::tables_csv(document))?;
        let claims = serde_json::to_value(&document.claims).unwrap_or_default();
        self.write("claims.json", &format!("{claims:#}\n"))?;
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
