//! The files of the repository, for its tests of itself; see `tests/`.

pub mod conformance;
pub mod documents;
pub mod guides;
pub mod pages;
pub mod site;

use std::fs;
use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A text file of the repository.
#[derive(Clone, Debug)]
pub struct File {
    /// Path from the root, with `/` between its parts.
    pub path: String,
    /// What is in it.
    pub text: String,
}

impl File {
    /// Name without folder and extension.
    pub fn stem(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or("");
        name.split('.').next().unwrap_or("")
    }
}

/// Folders that builds and runs write, by name; `.gitignore` has them as well.
const MADE: [&str; 4] = ["target", "cavy-out", "node_modules", "__pycache__"];

/// All text files, in order of their paths. What starts with a dot is left out, but for `.ci`.
pub fn files() -> Vec<File> {
    let mut all = Vec::new();
    walk(&root(), "", &mut all);
    all.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(all.len() > 50, "the repository is somewhere else");
    all
}

/// All Rust files.
pub fn rust_files() -> Vec<File> {
    files().into_iter().filter(|file| file.path.ends_with(".rs")).collect()
}

fn walk(folder: &Path, prefix: &str, all: &mut Vec<File>) {
    let entries = fs::read_dir(folder).expect("a folder of the repository can be read");
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let hidden = name.starts_with('.') && name != ".ci";
        if hidden || MADE.contains(&name.as_str()) {
            continue;
        }
        let path = format!("{prefix}{name}");
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => walk(&entry.path(), &format!("{path}/"), all),
            Ok(kind) if kind.is_file() => {
                if let Ok(text) = fs::read_to_string(entry.path()) {
                    all.push(File { path, text });
                }
            }
            _ => {}
        }
    }
}

/// Names of the rooms: the folders of `crates/`.
pub fn rooms() -> Vec<String> {
    let entries = fs::read_dir(root().join("crates")).expect("the rooms are under `crates`");
    let mut names: Vec<String> = entries
        .flatten()
        .filter(|entry| entry.path().join("Cargo.toml").is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Fails with all of `faults`, one a line, under `rule`.
pub fn none(rule: &str, faults: &[String]) {
    assert!(faults.is_empty(), "{rule}:\n  {}\n", faults.join("\n  "));
}
