//! Processes that are never stopped, each with the reason.

use crate::select::Seen;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Programs without which nobody could repair anything, or which would restart what stands.
const KEEPERS: [&str; 12] = [
    "systemd",
    "init",
    "sshd",
    "dockerd",
    "containerd",
    "containerd-shim",
    "crio",
    "kubelet",
    "dbus-daemon",
    "systemd-journald",
    "rsyslogd",
    "runsv",
];

/// The file name of the program in a command line.
fn program(command: &str) -> &str {
    let first = command.split_whitespace().next().unwrap_or("");
    let name = first.trim_start_matches('(').trim_end_matches([')', ':']);
    Path::new(name).file_name().and_then(|name| name.to_str()).unwrap_or(name)
}

/// Why the processes of `service` may not be stopped; nothing when they may.
pub fn faults(service: &str, pids: &BTreeSet<i32>, all: &BTreeMap<i32, Seen>) -> Vec<String> {
    let mut faults = Vec::new();
    let ancestors = ancestors(std::process::id() as i32, all);
    let outputs = outputs();
    for pid in pids {
        let Some(seen) = all.get(pid) else { continue };
        let mut say = |why: &str| {
            let shown: String = seen.command.chars().take(60).collect();
            faults.push(format!("service {service}: process {pid} (`{shown}`) {why}"));
        };
        if *pid == 1 {
            say("is the first process of this machine; select the service itself");
        } else if *pid == std::process::id() as i32 {
            say("is this program; select the service itself");
        } else if ancestors.contains(pid) {
            say("is an ancestor of this program, which would stand with it; start cavy from \
                 another terminal");
        } else if seen.command.starts_with('(') && seen.parent == 2 {
            say("is a thread of the kernel");
        } else if KEEPERS.contains(&program(&seen.command)) {
            say("keeps this machine or its containers going; select what it runs instead");
        } else if reads(*pid, &outputs) {
            say("reads what this program prints, which would wait for it while it stands; print \
                 to a file or a terminal");
        }
    }
    faults
}

/// Pipes into which this program prints and complains.
fn outputs() -> Vec<PathBuf> {
    let to = |number: &str| std::fs::read_link(format!("/proc/self/fd/{number}")).ok();
    let pipe = |to: &PathBuf| to.to_str().is_some_and(|to| to.starts_with("pipe:"));
    ["1", "2"].into_iter().filter_map(to).filter(pipe).collect()
}

/// Does process `pid` hold the reading end of one of `pipes`?
fn reads(pid: i32, pipes: &[PathBuf]) -> bool {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    entries.filter_map(Result::ok).any(|entry| {
        let number = entry.file_name().to_string_lossy().into_owned();
        std::fs::read_link(entry.path()).is_ok_and(|to| pipes.contains(&to))
            && std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}"))
                .is_ok_and(|info| is_for_reading(&info))
    })
}

/// The two lowest bits of the flags say what a descriptor is opened for: 0 for reading alone.
fn is_for_reading(fdinfo: &str) -> bool {
    let flags = fdinfo.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).is_some_and(|f| f & 3 == 0)
}

/// `pid` not included.
fn ancestors(pid: i32, all: &BTreeMap<i32, Seen>) -> BTreeSet<i32> {
    let mut found = BTreeSet::new();
    let mut at = pid;
    while let Some(seen) = all.get(&at) {
        if !found.insert(seen.parent) {
            break;
        }
        at = seen.parent;
    }
    found
}

/// Processes that two services share.
pub fn shared(services: &[(String, BTreeSet<i32>)]) -> Vec<String> {
    let mut faults = Vec::new();
    for (index, (name, pids)) in services.iter().enumerate() {
        for (other, theirs) in &services[index + 1..] {
            if let Some(pid) = pids.intersection(theirs).next() {
                faults.push(format!(
                    "services {name} and {other} share process {pid}; a group is stopped as a \
                     whole, so select them apart or name one service"
                ));
            }
        }
    }
    faults
}

/// CPU quotas of a process that would refill while it stands, which makes every answer too good
/// ([slowpoke 7.4]): `cpu.max` of cgroup v2 or `cpu.cfs_quota_us` of v1, up to the root.
pub fn quota(pid: i32, mounts: &Mounts) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    for line in text.lines() {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let relative = path.trim_start_matches('/');
        if controllers.is_empty() {
            let found = up(&mounts.unified, relative, |dir| {
                let text = std::fs::read_to_string(dir.join("cpu.max")).ok()?;
                (!text.starts_with("max")).then(|| format!("cpu.max = {}", text.trim()))
            });
            if found.is_some() {
                return found;
            }
        } else if let (true, Some(cpu)) =
            (controllers.split(',').any(|one| one == "cpu"), &mounts.cpu)
        {
            let found = up(cpu, relative, |dir| {
                let text = std::fs::read_to_string(dir.join("cpu.cfs_quota_us")).ok()?;
                let quota: i64 = text.trim().parse().ok()?;
                (quota > 0).then(|| format!("cpu.cfs_quota_us = {quota}"))
            });
            if found.is_some() {
                return found;
            }
        }
    }
    None
}

fn up<T>(mount: &Path, relative: &str, look: impl Fn(&Path) -> Option<T>) -> Option<T> {
    let mut dir = mount.join(relative);
    loop {
        if let Some(found) = look(&dir) {
            return Some(found);
        }
        if dir == mount || !dir.pop() {
            return None;
        }
    }
}

/// Where control groups are.
#[derive(Clone, Debug)]
pub struct Mounts {
    /// cgroup v2.
    pub unified: std::path::PathBuf,
    /// The controller `cpu` of v1, where there is one.
    pub cpu: Option<std::path::PathBuf>,
    /// The freezer of v1, where there is one.
    pub freezer: Option<std::path::PathBuf>,
}

impl Mounts {
    /// Reads `/proc/mounts`.
    ///
    /// # Errors
    /// When cgroup v2 is not mounted, with the command that mounts it.
    pub fn find() -> Result<Mounts, String> {
        let text = std::fs::read_to_string("/proc/mounts")
            .map_err(|error| format!("cannot read /proc/mounts: {error}"))?;
        let rows = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let (mut unified, mut cpu, mut freezer) = (None, None, None);
        for row in rows {
            match row[..] {
                [_, path, "cgroup2", ..] if unified.is_none() => unified = Some(path.into()),
                [_, path, "cgroup", options, ..] if options.split(',').any(|one| one == "cpu") => {
                    cpu = Some(path.into());
                }
                [_, path, "cgroup", options, ..]
                    if options.split(',').any(|one| one == "freezer") =>
                {
                    freezer = Some(path.into());
                }
                _ => {}
            }
        }
        let unified = unified.ok_or(
            "cgroup v2 is not mounted; `mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 none \
             /sys/fs/cgroup/unified` mounts it beside v1",
        )?;
        Ok(Mounts { unified, cpu, freezer })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world() -> BTreeMap<i32, Seen> {
        let own = std::process::id() as i32;
        let one = |pid, parent, command: &str| {
            (pid, Seen { pid, parent, started: 1, command: command.to_string() })
        };
        [
            one(1, 0, "/sbin/init"),
            one(2, 0, "(kthreadd)"),
            one(30, 2, "(kworker/0:1)"),
            one(40, 1, "/usr/sbin/sshd -D"),
            one(50, 1, "nginx: worker process"),
            one(60, 1, "bash"),
            one(own, 60, "cavy-live whatif"),
        ]
        .into_iter()
        .collect()
    }

    #[test]
    fn what_keeps_the_machine_going_is_refused() {
        let own = std::process::id() as i32;
        for (pid, why) in [
            (1, "first process"),
            (30, "thread of the kernel"),
            (40, "keeps this machine"),
            (60, "ancestor"),
            (own, "this program"),
        ] {
            let said = faults("x", &BTreeSet::from([pid]), &world());
            assert!(said.len() == 1 && said[0].contains(why), "{pid}: {said:?}");
        }
        assert_eq!(faults("x", &BTreeSet::from([50]), &world()), Vec::<String>::new());
    }

    #[test]
    fn a_process_belongs_to_one_service() {
        let of = |name: &str, pids: &[i32]| (name.to_string(), pids.iter().copied().collect());
        assert_eq!(shared(&[of("a", &[1, 2]), of("b", &[3])]), Vec::<String>::new());
        let said = shared(&[of("a", &[1, 2]), of("b", &[3]), of("c", &[2])]);
        assert!(said.len() == 1 && said[0].contains("a and c share process 2"), "{said:?}");
    }
}
