//! Debian packages in a folder of their own: fetched by `apt-get`, unpacked and not installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Programs of Debian in a folder.
#[derive(Clone, Debug)]
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    /// Fetches `packages` with what they need and is missing here, and unpacks all below `folder`.
    /// What an earlier call has left there is used as it is.
    ///
    /// # Errors
    /// A sentence, when this is no Debian or its registry cannot be reached.
    pub fn fetch(packages: &[&str], folder: &Path) -> Result<Tree, String> {
        let tree = Tree::below(&folder.join("root"));
        let stamp = folder.join("complete");
        if fs::read_to_string(&stamp).is_ok_and(|text| text == packages.join(" ")) {
            return Ok(tree);
        }
        let archives = folder.join("archives");
        let made = fs::create_dir_all(archives.join("partial"))
            .and_then(|()| fs::create_dir_all(&tree.root));
        made.map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        let first = download(packages, &archives);
        if first.is_err() {
            // Lists of packages are missing or old.
            let _ = run(Command::new("apt-get").arg("update"));
            download(packages, &archives)?;
        }
        let entries = fs::read_dir(&archives).into_iter().flatten().filter_map(Result::ok);
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        files.retain(|path| path.extension().is_some_and(|ext| ext == "deb"));
        files.sort();
        for file in &files {
            run(Command::new("dpkg").arg("-x").arg(file).arg(&tree.root))?;
        }
        let _ = fs::remove_dir_all(&archives);
        fs::write(&stamp, packages.join(" "))
            .map_err(|error| format!("cannot write {}: {error}", stamp.display()))?;
        Ok(tree)
    }

    /// What was unpacked below `root` before.
    pub fn below(root: &Path) -> Tree {
        Tree { root: root.to_path_buf() }
    }

    /// A file of the packages, or that of the machine where a package was there before.
    pub fn path(&self, relative: &str) -> PathBuf {
        let ours = self.root.join(relative);
        if ours.exists() { ours } else { Path::new("/").join(relative) }
    }

    /// A command that runs a program of the packages with their libraries, as `www-data`, and is
    /// told to end when the thread that starts it ends.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=www-data", "--regid=www-data", "--clear-groups"]);
        command.args(["--pdeathsig=TERM", "--"]).arg(self.path(program));
        command.env("LD_LIBRARY_PATH", self.root.join("usr/lib/x86_64-linux-gnu"));
        command.stdin(Stdio::null());
        command
    }
}

fn download(packages: &[&str], archives: &Path) -> Result<(), String> {
    let mut command = Command::new("apt-get");
    command.args(["install", "--yes", "--no-install-recommends", "--reinstall"]);
    command.args(["--download-only", "-o", "Debug::NoLocking=1", "-o"]);
    command.arg(format!("Dir::Cache::Archives={}", archives.display()));
    run(command.args(packages))
}

/// Runs a command to its end.
///
/// # Errors
/// What it said last.
pub fn run(command: &mut Command) -> Result<(), String> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot run {shown}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    let last: Vec<&str> = said.lines().rev().filter(|line| !line.is_empty()).take(3).collect();
    let last: Vec<&str> = last.into_iter().rev().collect();
    Err(format!("{shown} ended with {}: {}", output.status, last.join(" | ")))
}
