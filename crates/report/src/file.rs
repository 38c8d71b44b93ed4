//! One file of results: there and writable before anything is measured, whole or not there at the
//! end.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

/// Names that a part of a file is tried under, should a killed program have left one of the same
/// name.
const NAMES_MAX: u32 = 100;

/// A file that is about to be written.
///
/// What stands under its name stays there until [`NewFile::finish`], and for ever when that is not
/// reached: the bytes go to a file beside it, which takes its place in one step. A pipe or a device
/// is opened as it is, since nothing can take its place.
#[derive(Debug)]
pub struct NewFile {
    path: PathBuf,
    open: File,
    /// The file beside it; `None` for pipes and devices, and once it has taken its place.
    part: Option<PathBuf>,
}

impl NewFile {
    /// Sees that `path` can be written.
    ///
    /// # Errors
    /// When it is a folder, or must not be written, or its folder is missing or must not be written
    /// to.
    pub fn open(path: &Path) -> io::Result<Self> {
        let there = match fs::metadata(path) {
            Ok(there) => Some(there),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let is_file = there.as_ref().is_some_and(fs::Metadata::is_file);
        if there.is_some() {
            // An error where it is a folder or must not be written; a file is not changed by this.
            let open = File::options().append(is_file).write(true).open(path)?;
            if !is_file {
                return Ok(NewFile { path: path.to_path_buf(), open, part: None });
            }
        }
        // Through a link, what it leads to is replaced, and not the link.
        let target = if is_file { fs::canonicalize(path)? } else { path.to_path_buf() };
        let (part, open) = begin(&target)?;
        if let Some(there) = there {
            open.set_permissions(there.permissions())?;
        }
        Ok(NewFile { path: target, open, part: Some(part) })
    }

    /// Puts `bytes` in its place, on disk before this returns.
    ///
    /// # Errors
    /// When they cannot be written: the disk is full, for one. What stood there stands there still.
    pub fn finish(mut self, bytes: &[u8]) -> io::Result<()> {
        self.open.write_all(bytes)?;
        let Some(part) = &self.part else { return Ok(()) };
        self.open.sync_all()?;
        fs::rename(part, &self.path)?;
        self.part = None;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            let _ = fs::remove_file(part);
        }
    }
}

/// A new file beside `path`.
fn begin(path: &Path) -> io::Result<(PathBuf, File)> {
    let name = path.file_name().ok_or(ErrorKind::InvalidFilename)?;
    for number in 0..NAMES_MAX {
        let mut of_part = OsString::from(".");
        of_part.push(name);
        of_part.push(format!(".{}-{number}.part", std::process::id()));
        let part = path.with_file_name(of_part);
        match File::options().write(true).create_new(true).open(&part) {
            Ok(open) => return Ok((part, open)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// Puts `bytes` in the place of `file` in one step.
///
/// # Errors
/// As those of [`NewFile::open`] and [`NewFile::finish`].
pub fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    NewFile::open(file)?.finish(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_whole_or_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.csv");
        fs::write(&path, "old").unwrap();
        drop(NewFile::open(&path).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"old", "given up");
        let two = [NewFile::open(&path).unwrap(), NewFile::open(&path).unwrap()];
        for (file, text) in two.into_iter().zip(["one", "two"]) {
            file.finish(text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(names(folder.path()), ["results.csv"], "nothing is left beside it");
    }

    #[test]
    fn what_cannot_be_written_is_known_before_anything_is_measured() {
        let folder = tempfile::tempdir().unwrap();
        assert!(NewFile::open(folder.path()).is_err(), "a folder");
        assert!(NewFile::open(&folder.path().join("missing/results.csv")).is_err());
        assert!(NewFile::open(Path::new("/proc/no-such-file")).is_err());
        assert!(NewFile::open(Path::new("")).is_err());
        // A device takes what comes: nothing is put in its place.
        NewFile::open(Path::new("/dev/null")).unwrap().finish(b"gone").unwrap();
        assert!(NewFile::open(Path::new("/dev/full")).unwrap().finish(b"x").is_err());
        assert!(fs::metadata("/dev/null").is_ok_and(|there| !there.is_file()));
    }

    #[cfg(unix)]
    #[test]
    fn links_and_permissions_stay() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("there"), folder.path().join("link"));
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        replace(&link, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    }
}
