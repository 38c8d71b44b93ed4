//! A large share of the cores for what is measured, so that other work disturbs it less.
//!
//! Processes are put into a control group of the controller `cpu` of cgroup v1. Inside that group
//! they share as before. Where only cgroup v2 is, nothing is raised: a process is in one group
//! there, and that is the one which is stopped.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Weight beside ordinary processes, which have 1024 each.
const SHARES: &str = "65536";

/// A control group with a large share, until it is dropped.
#[derive(Debug)]
pub struct Share {
    dir: PathBuf,
}

impl Share {
    /// Makes the group below `mount`, where the controller `cpu` of cgroup v1 is.
    ///
    /// # Errors
    /// What the system says.
    pub fn make(mount: &Path) -> io::Result<Share> {
        let dir = mount.join(format!("cavy-share-{}", std::process::id()));
        fs::create_dir_all(&dir)?;
        let share = Share { dir };
        fs::write(share.dir.join("cpu.shares"), SHARES)?;
        Ok(share)
    }

    /// Takes in processes, and those that they start from now on.
    ///
    /// # Errors
    /// What the system says of one that is still there.
    pub fn take(&self, pids: impl IntoIterator<Item = i32>) -> io::Result<()> {
        for pid in pids {
            let moved = fs::write(self.dir.join("cgroup.procs"), pid.to_string());
            if moved.is_err() && Path::new(&format!("/proc/{pid}")).exists() {
                return moved;
            }
        }
        Ok(())
    }

    /// Takes in the threads of this program that bear a name.
    pub fn take_threads(&self, name: &str) {
        let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().filter_map(Result::ok);
        for task in tasks {
            let is = fs::read_to_string(task.path().join("comm")).is_ok_and(|n| n.trim() == name);
            if is {
                let id = task.file_name().to_string_lossy().into_owned();
                let _ = fs::write(self.dir.join("tasks"), id);
            }
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let root = self.dir.parent().unwrap_or(&self.dir).to_path_buf();
        for _ in 0..50 {
            let left = fs::read_to_string(self.dir.join("tasks")).unwrap_or_default();
            for id in left.lines() {
                let _ = fs::write(root.join("tasks"), id);
            }
            if fs::remove_dir(&self.dir).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}
