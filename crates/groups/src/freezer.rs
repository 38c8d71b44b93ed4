//! Stops and continues all processes of a control group: the freezer of cgroup v2, that of v1, or
//! signals.

use cavy_core::{Instant, Span};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// The file of the freezer of v1.
pub(crate) const STATE_V1: &str = "freezer.state";

/// How processes are stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mechanism {
    /// `cgroup.freeze` of cgroup v2: one write for all threads, invisible to parents.
    #[default]
    Cgroup,
    /// `freezer.state` of cgroup v1, in a group of its own beside that of v2, by which CPU time is
    /// counted: where the controllers are on v1. A process that stands there cannot be killed.
    CgroupV1,
    /// SIGSTOP and SIGCONT to every process: parents see it, and shells may react.
    Signals,
}

/// What a control group says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State {
    /// It has processes.
    pub populated: bool,
    /// All of them stand.
    pub frozen: bool,
}

/// How long before its time a group has to be told to go on. To tell it takes 10 to 90 us: every
/// thread is woken, and a core that slept for long wakes late.
#[derive(Clone, Copy, Debug)]
pub struct Lead(Span);

impl Lead {
    /// More than it ever took on an idle machine; what took longer was a thread that got no core.
    pub const MAX: Span = Span::from_us(100);

    /// When to tell a group that is to go on at `at`: so much before as it takes in the middle of
    /// all cases.
    pub fn before(self, at: Instant) -> Instant {
        Instant::from_ns(at.as_ns().saturating_sub(self.0.as_ns()))
    }

    /// It took so long. A case moves it by a microsecond at most, so that half of all are above it.
    pub fn took(&mut self, span: Span) {
        let step = Span::from_us(1);
        self.0 = match span > self.0 {
            true => span.min(self.0 + step).min(Lead::MAX),
            false => span.max(self.0.saturating_sub(step)),
        };
    }
}

impl Default for Lead {
    fn default() -> Lead {
        Lead(Span::from_us(20))
    }
}

/// Stops and continues one control group.
#[derive(Debug)]
pub struct Freezer {
    dir: PathBuf,
    mechanism: Mechanism,
    freeze: File,
    events: File,
    /// What v1 says of itself.
    state: Option<File>,
}

impl Freezer {
    /// Of the control group in `dir`.
    ///
    /// # Errors
    /// When it is not one of cgroup v2, or this program may not write to it; with
    /// [`Mechanism::CgroupV1`], when `v1` is no folder of its freezer.
    pub fn open(dir: &Path, mechanism: Mechanism, v1: Option<&Path>) -> io::Result<Freezer> {
        let (freeze, state) = match (mechanism, v1) {
            (Mechanism::CgroupV1, Some(v1)) => {
                (v1.join(STATE_V1), Some(File::open(v1.join(STATE_V1))?))
            }
            (Mechanism::CgroupV1, None) => {
                return Err(io::Error::other("it has no control group of the freezer of v1"));
            }
            _ => (dir.join("cgroup.freeze"), None),
        };
        Ok(Freezer {
            dir: dir.to_path_buf(),
            mechanism,
            freeze: OpenOptions::new().write(true).open(freeze)?,
            events: File::open(dir.join("cgroup.events"))?,
            state,
        })
    }

    /// Does a group do no work of its own as soon as [`Freezer::set`] has returned? cgroups mark
    /// every thread before it returns, and a marked thread does not get back to its program: it may
    /// only take long until all have noticed, where cores are busy. By SIGSTOP the first thread
    /// that runs marks the others.
    pub fn stands_at_once(&self) -> bool {
        self.mechanism != Mechanism::Signals
    }

    /// Its folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Asks for it to stand, or to go on. The kernel takes a moment: [`Freezer::state`] tells.
    ///
    /// # Errors
    /// What the kernel says; the group may be gone.
    pub fn set(&self, frozen: bool) -> io::Result<()> {
        match self.mechanism {
            Mechanism::Cgroup => {
                self.freeze.write_all_at(if frozen { b"1" } else { b"0" }, 0)?;
            }
            Mechanism::CgroupV1 => {
                self.freeze.write_all_at(if frozen { b"FROZEN" } else { b"THAWED" }, 0)?;
            }
            Mechanism::Signals => {
                let signal = if frozen { Signal::STOP } else { Signal::CONT };
                for pid in self.pids()? {
                    // One that ended meanwhile needs no signal.
                    let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, signal));
                }
            }
        }
        Ok(())
    }

    /// What it is now. 2 to 4 us for cgroups; with signals every thread is looked at.
    ///
    /// # Errors
    /// When the group is gone.
    pub fn state(&self) -> io::Result<State> {
        let mut bytes = [0_u8; 128];
        let read = self.events.read_at(&mut bytes, 0)?;
        let text = std::str::from_utf8(&bytes[..read]).unwrap_or("");
        let says = |line: &str| text.lines().any(|one| one == line);
        let populated = says("populated 1");
        let frozen = match self.mechanism {
            Mechanism::Cgroup => says("frozen 1"),
            Mechanism::CgroupV1 => {
                let mut word = [0_u8; 16];
                let state = self.state.as_ref().map_or(Ok(0), |file| file.read_at(&mut word, 0))?;
                word[..state].starts_with(b"FROZEN")
            }
            Mechanism::Signals => self.pids()?.into_iter().all(all_threads_stand),
        };
        Ok(State { populated, frozen })
    }

    /// Threads of all its processes.
    pub fn threads(&self) -> usize {
        let text = std::fs::read_to_string(self.dir.join("cgroup.threads")).unwrap_or_default();
        text.lines().count()
    }

    fn pids(&self) -> io::Result<Vec<i32>> {
        let text = std::fs::read_to_string(self.dir.join("cgroup.procs"))?;
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }
}

/// Do all threads of `pid` stand? One that is gone stands as well.
fn all_threads_stand(pid: i32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    tasks.filter_map(Result::ok).all(|task| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        // The state follows the name, which may hold anything but ends with the last parenthesis.
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        state.is_none_or(|state| "TtZX".contains(state))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lead_finds_the_middle_whatever_the_longest_are() {
        let mut lead = Lead::default();
        for case in 0..400_u64 {
            // Half are below 40 us, and every tenth takes 5 ms.
            let us = if case % 10 == 0 { 5_000 } else { 25 + case * 7 % 31 };
            lead.took(Span::from_us(us));
        }
        assert!((38..=46).contains(&(lead.0.as_ns() / 1_000)), "{lead:?}");
    }
}
