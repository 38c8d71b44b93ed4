//! Speeds of nodes: each has a share of a processor, by a group of the system `[roar 7.3]`.
//!
//! On two processors twelve servers are no faster than two, whatever a query is spread over. With a
//! tenth of a processor each, parts of a query are worked on side by side as on twelve machines.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Within each of these spans a node has its share. The usual hundred milliseconds would let it
/// stand for ninety.
const PERIOD_US: u64 = 10_000;

/// Groups of nodes, which end with this.
#[derive(Debug)]
pub struct Quotas {
    /// The group that this process is in.
    own: PathBuf,
    /// Of cgroup version 2.
    unified: bool,
    groups: Vec<(PathBuf, u32)>,
}

/// The group of a controller, by what `/proc/self/cgroup` says: lines of a number, controllers and
/// a path.
fn own_group(text: &str, controller: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        controllers.split(',').any(|one| one == controller).then(|| path.to_owned())
    })
}

/// What all threads of a process have had of a processor, nanoseconds.
pub fn used_ns(pid: u32) -> u64 {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return 0 };
    let of = |task: io::Result<fs::DirEntry>| {
        let text = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    };
    tasks.filter_map(of).sum()
}

impl Quotas {
    /// For the processes of these nodes. They are not held back yet.
    ///
    /// # Errors
    /// A sentence: the system lets no groups be made.
    pub fn new(pids: &[u32]) -> Result<Quotas, String> {
        let known = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let first = Path::new("/sys/fs/cgroup");
        let unified = first.join("cgroup.controllers").exists();
        let (top, path) = match unified {
            true => (first.to_owned(), own_group(&known, "")),
            false => (first.join("cpu"), own_group(&known, "cpu")),
        };
        let own = top.join(path.unwrap_or_default().trim_start_matches('/'));
        let mut quotas = Quotas { own, unified, groups: Vec::new() };
        for pid in pids {
            let group = quotas.own.join(format!("cavy-search-{}-{pid}", std::process::id()));
            let at = |error: io::Error| format!("{}: {error}", group.display());
            fs::create_dir(&group).map_err(at)?;
            quotas.groups.push((group.clone(), *pid));
            fs::write(group.join("cgroup.procs"), pid.to_string()).map_err(at)?;
        }
        quotas.set(None)?;
        Ok(quotas)
    }

    /// Each node has so many percent of a processor; `None`: what there is.
    ///
    /// # Errors
    /// A sentence: the system does not take the quota.
    pub fn set(&self, percent: Option<f64>) -> Result<(), String> {
        let quota = percent.map(|percent| (PERIOD_US as f64 * percent / 100.0).round() as u64);
        for (group, _) in &self.groups {
            let write = |file: &str, text: String| {
                let path = group.join(file);
                fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
            };
            if self.unified {
                let quota = quota.map_or("max".to_owned(), |quota| quota.to_string());
                write("cpu.max", format!("{quota} {PERIOD_US}"))?;
            } else {
                write("cpu.cfs_period_us", PERIOD_US.to_string())?;
                write("cpu.cfs_quota_us", quota.map_or("-1".to_owned(), |one| one.to_string()))?;
            }
        }
        Ok(())
    }

    /// What all nodes have had of processors, nanoseconds.
    pub fn used_ns(&self) -> u64 {
        self.groups.iter().map(|(_, pid)| used_ns(*pid)).sum()
    }
}

impl Drop for Quotas {
    fn drop(&mut self) {
        for (group, pid) in &self.groups {
            // A group with a process in it cannot be removed.
            let _ = fs::write(self.own.join("cgroup.procs"), pid.to_string());
            let _ = fs::remove_dir(group);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_found_by_its_controller() {
        let text = "4:memory:/a/b\n1:cpu,cpuacct:/c\n0::/d\n";
        assert_eq!(own_group(text, "cpu").as_deref(), Some("/c"));
        assert_eq!(own_group(text, "").as_deref(), Some("/d"));
        assert_eq!(own_group(text, "pids"), None);
    }

    #[test]
    fn what_was_worked_is_counted() {
        let pid = std::process::id();
        let before = used_ns(pid);
        let began = std::time::Instant::now();
        while began.elapsed().as_millis() < 30 {
            std::hint::black_box(began);
        }
        assert!(used_ns(pid) > before);
        assert_eq!(used_ns(u32::MAX), 0);
    }

    /// Where groups cannot be made, nothing can be shown.
    #[test]
    fn a_process_is_held_back() {
        let child = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn();
        let mut child = child.expect("a shell");
        let shown = Quotas::new(&[child.id()]).and_then(|quotas| {
            quotas.set(Some(10.0))?;
            let before = quotas.used_ns();
            std::thread::sleep(std::time::Duration::from_millis(500));
            Ok(quotas.used_ns() - before)
        });
        child.kill().expect("killed");
        child.wait().expect("ended");
        match shown {
            Ok(used) => assert!(used < 150_000_000, "{used} ns of half a second"),
            Err(why) => {
                use std::io::Write as _;
                writeln!(std::io::stderr(), "SKIPPED: {why}").expect("a terminal");
            }
        }
    }
}
