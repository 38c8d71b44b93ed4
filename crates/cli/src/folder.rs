//! The folder for results: there and writable before anything is simulated, one program at a time,
//! and no file in it ever half-written.

use crate::faults::Fault;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// An output folder that is ours until this value is gone.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Held locked. The file stays when we leave: deleting it would race with the next program.
    _lock: File,
}

impl Folder {
    /// Makes the folder if needed, and sees that files can be written and replaced in it.
    pub fn open(path: &Path) -> Result<Self, Fault> {
        let wrong = |error: io::Error| {
            Fault::new(format!("cannot write to the output folder `{}`: {error}", path.display()))
                .hint("name another folder with `--out DIR`")
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
                let message = format!("another cavy is writing to `{}`", path.display());
                return Err(Fault::new(message)
                    .hint("wait for it, or name another folder with `--out DIR`"));
            }
            // Some network file systems have no locks; then the user must take care.
            Err(TryLockError::Error(_)) => {}
        }
        let folder = Folder { path: path.to_path_buf(), _lock: lock };
        let trial = folder.path.join(".trial");
        replace(&trial, b"").and_then(|()| fs::remove_file(&trial)).map_err(wrong)?;
        // Directories in the place of our files would only be found out at the end.
        for name in ["report.html", "report.json", "claims.json", "series.csv", "tables.csv"] {
            if folder.path.join(name).is_dir() {
                let message = format!("`{}` is a folder", folder.path.join(name).display());
                return Err(Fault::new(message).hint("name another folder with `--out DIR`"));
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
    pub fn write(&self, name: &str, text: &str) -> Result<(), Fault> {
        let file = self.path.join(name);
        replace(&file, text.as_bytes()).map_err(|error| {
            Fault::new(format!("cannot write `{}`: {error}", file.display()))
                .hint("results are kept; free some space and run again with `--resume`")
        })
    }
}

/// Puts `bytes` in the place of `file` in one step, by way of a file beside it.
pub fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = std::ffi::OsString::from(".");
    name.push(file.file_name().unwrap_or_default());
    name.push(format!(".{}.part", std::process::id()));
    let part = file.with_file_name(name);
    let written = File::create(&part)
        .and_then(|mut open| open.write_all(bytes).and_then(|()| open.sync_all()))
        .and_then(|()| fs::rename(&part, file));
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written
}
