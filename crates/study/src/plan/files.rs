//! Where the files are that a plan names: in a folder, or in the program.

use super::PlanError;
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, IsTerminal as _, Read};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

/// A file that the program carries: its name, and what is in it.
pub type CarriedFile = (&'static str, &'static str);

/// Opens a file that is to be read to its end.
///
/// # Errors
/// When it cannot be opened, or is a device such as `/dev/zero`, which may have no end.
pub fn open(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    if file.metadata()?.file_type().is_char_device() && !file.is_terminal() {
        return Err(io::Error::other("it is a device, which may have no end"));
    }
    Ok(file)
}

/// All of a file.
///
/// # Errors
/// As of [`open`], and when it cannot be read.
pub fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    open(path)?.read_to_end(&mut all)?;
    Ok(all)
}

/// All of a file of text.
///
/// # Errors
/// As of [`bytes`], and when it is no UTF-8.
pub fn text(path: &Path) -> io::Result<String> {
    io::read_to_string(open(path)?)
}

/// The files that a plan names.
#[derive(Clone, Debug)]
pub enum Files {
    /// Relative to a folder: those of a user's plan.
    Folder(PathBuf),
    /// In the program: those of a figure's plan.
    Carried(&'static [CarriedFile]),
}

impl Files {
    /// Those of a plan that names none.
    pub const NONE: Files = Files::Carried(&[]);

    /// Those relative to the folder of `plan`.
    pub fn beside(plan: &Path) -> Files {
        Files::Folder(plan.parent().unwrap_or(Path::new(".")).to_path_buf())
    }

    /// The name of `file` for messages: with the folder, where there is one.
    pub fn shown(&self, file: &str) -> String {
        match self {
            Files::Folder(folder) => folder.join(file).display().to_string(),
            Files::Carried(_) => file.to_string(),
        }
    }

    /// Opens `file`.
    pub fn open(&self, file: &str) -> io::Result<Box<dyn Read>> {
        match self {
            Files::Folder(folder) => {
                open(&folder.join(file)).map(|open| Box::new(open) as Box<dyn Read>)
            }
            Files::Carried(files) => carried(files, file)
                .map(|text| Box::new(text.as_bytes()) as Box<dyn Read>)
                .ok_or_else(|| io::ErrorKind::NotFound.into()),
        }
    }

    /// All of `file`.
    pub fn read(&self, file: &str) -> io::Result<Cow<'static, [u8]>> {
        match self {
            Files::Folder(folder) => bytes(&folder.join(file)).map(Cow::Owned),
            Files::Carried(files) => carried(files, file)
                .map(|text| Cow::Borrowed(text.as_bytes()))
                .ok_or_else(|| io::ErrorKind::NotFound.into()),
        }
    }

    /// Bytes of `file`, where it is one that has a size.
    pub fn size(&self, file: &str) -> Option<u64> {
        match self {
            Files::Folder(folder) => {
                let found = std::fs::metadata(folder.join(file)).ok()?;
                found.is_file().then_some(found.len())
            }
            Files::Carried(files) => carried(files, file).map(|text| text.len() as u64),
        }
    }

    /// Why `file` could not be read, for a user.
    pub fn unreadable(&self, file: &str, what: &str, error: &dyn std::fmt::Display) -> PlanError {
        PlanError::text(format!("cannot read the {what}: {error}"))
            .in_file(self.shown(file))
            .hint("the path is relative to the plan")
    }
}

fn carried(files: &[CarriedFile], name: &str) -> Option<&'static str> {
    files.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}
