//! Control groups for services, and the way back.
//!
//! Each service gets a control group of its own, unless it was named by one. Where its processes
//! came from is written to a file before any of them moves, so that this program, its
//! [`crate::guard`] or `cavy live whatif thaw` can bring them back, whatever happens in between.

use crate::RUN_FOLDER;
use crate::freezer::Mechanism;
use crate::refuse::{self, Mounts};
use crate::select::{self, Selector, processes};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// How often a service is looked through for processes born while it was moved.
const PASSES: u32 = 16;

/// Why processes cannot be taken over.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StageError {
    /// A selector selects nobody, or nobody that may be stopped. One sentence each.
    #[error("{}", .0.join("\n"))]
    Refused(Vec<String>),
    /// Another Governor runs.
    #[error(
        "another `cavy live whatif` runs on this machine ({path}); two would stop each other's \
         groups. Wait for it, or end it with Ctrl-C"
    )]
    Taken {
        /// The file that it holds.
        path: String,
    },
    /// The system refused.
    #[error("cannot {what}: {error}")]
    System {
        /// What was tried.
        what: String,
        /// What it said.
        error: std::io::Error,
    },
}

fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> StageError {
    let what = what.into();
    move |error| StageError::System { what, error }
}

/// One service on the stage.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Place {
    /// Its name.
    pub name: String,
    /// Its control group.
    pub dir: PathBuf,
    /// Made by us, and removed in the end.
    pub ours: bool,
    /// Where its processes came from.
    pub origins: Vec<Origin>,
}

/// Where a process came from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Origin {
    /// Its number.
    pub pid: i32,
    /// When it started, in ticks since boot.
    pub started: u64,
    /// Its control group.
    pub dir: PathBuf,
}

/// What is written down.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Kept {
    /// The program that took the services over.
    pub pid: i32,
    /// When it started, in ticks since boot.
    pub started: u64,
    /// The folder of all control groups that were made.
    pub dir: PathBuf,
    /// How they are stopped.
    pub mechanism: Mechanism,
    /// The services.
    pub places: Vec<Place>,
}

/// Services in control groups of their own, until this is dropped.
#[derive(Debug)]
pub struct Stage {
    kept: Kept,
    file: PathBuf,
    /// Held while this lives.
    _lock: File,
}

impl Stage {
    /// Takes over the processes of `services`.
    ///
    /// # Errors
    /// When one is refused, another Governor runs, or the system says no. Nothing is moved then.
    pub fn set(
        services: &[(String, Selector)],
        mounts: &Mounts,
        mechanism: Mechanism,
    ) -> Result<Stage, StageError> {
        let folder = Path::new(RUN_FOLDER);
        fs::create_dir_all(folder).map_err(system(format!("make {RUN_FOLDER}")))?;
        let lock_path = folder.join("whatif.lock");
        let lock =
            File::create(&lock_path).map_err(system(format!("write {}", lock_path.display())))?;
        if lock.try_lock().is_err() {
            return Err(StageError::Taken { path: lock_path.display().to_string() });
        }
        for stale in stale() {
            recover(&stale).map_err(system(format!("recover {}", stale.display())))?;
        }
        let chosen = choose(services)?;
        let own = std::process::id() as i32;
        let dir = mounts.unified.join(format!("cavy-whatif-{own}"));
        let mut places = Vec::new();
        for (index, ((name, selector), pids)) in services.iter().zip(&chosen).enumerate() {
            let origins = pids.iter().filter_map(|pid| origin(*pid, mounts)).collect();
            places.push(match selector {
                Selector::Cgroup(path) => {
                    Place { name: name.clone(), dir: path.clone(), ours: false, origins }
                }
                _ => Place {
                    name: name.clone(),
                    dir: dir.join(index.to_string()),
                    ours: true,
                    origins,
                },
            });
        }
        let started = processes().ok().and_then(|all| Some(all.get(&own)?.started)).unwrap_or(0);
        let kept = Kept { pid: own, started, dir, mechanism, places };
        let file = folder.join(format!("whatif-{own}.json"));
        write(&file, &kept).map_err(system(format!("write {}", file.display())))?;
        // From here on the drop brings back what was moved.
        let stage = Stage { kept, file, _lock: lock };
        stage.fill(services)?;
        Ok(stage)
    }

    fn fill(&self, services: &[(String, Selector)]) -> Result<(), StageError> {
        let made = |dir: &Path| {
            fs::create_dir_all(dir).map_err(system(format!("make control group {}", dir.display())))
        };
        for (place, (_, selector)) in self.kept.places.iter().zip(services) {
            if !place.ours {
                continue;
            }
            made(&place.dir)?;
            let procs = place.dir.join("cgroup.procs");
            let mut moved = BTreeSet::new();
            for _ in 0..PASSES {
                let all = processes().map_err(|why| StageError::Refused(vec![why]))?;
                let found = if moved.is_empty() {
                    place.origins.iter().map(|origin| origin.pid).collect()
                } else {
                    // What was born while its parents moved.
                    select::with_descendants(&all, &moved)
                };
                let new: Vec<i32> = found.difference(&moved).copied().collect();
                if new.is_empty() {
                    break;
                }
                for pid in new {
                    moved.insert(pid);
                    if let Err(error) = fs::write(&procs, pid.to_string())
                        && all.contains_key(&pid)
                        && Path::new(&format!("/proc/{pid}")).exists()
                    {
                        return Err(system(format!("move process {pid} of {selector}"))(error));
                    }
                }
            }
        }
        Ok(())
    }

    /// The services, in the order in which they were given.
    pub fn places(&self) -> &[Place] {
        &self.kept.places
    }

    /// The file that says how to bring everything back.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// How the groups are stopped.
    pub fn mechanism(&self) -> Mechanism {
        self.kept.mechanism
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // What fails here is tried again by the guard, and by the next start.
        let _ = recover(&self.file);
    }
}

/// The processes of each service, if all may be stopped.
///
/// # Errors
/// All reasons, one sentence each.
pub fn choose(services: &[(String, Selector)]) -> Result<Vec<BTreeSet<i32>>, StageError> {
    let all = processes().map_err(|why| StageError::Refused(vec![why]))?;
    let mut faults = Vec::new();
    let mut chosen = Vec::new();
    for (name, selector) in services {
        match selector.find(&all) {
            Ok(pids) => {
                faults.extend(refuse::faults(name, &pids, &all));
                chosen.push((name.clone(), pids));
            }
            Err(why) => faults.push(format!("service {name}: {why}")),
        }
    }
    faults.extend(refuse::shared(&chosen));
    if faults.is_empty() {
        Ok(chosen.into_iter().map(|(_, pids)| pids).collect())
    } else {
        Err(StageError::Refused(faults))
    }
}

fn origin(pid: i32, mounts: &Mounts) -> Option<Origin> {
    let started = started(pid)?;
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(Origin { pid, started, dir: mounts.unified.join(path) })
}

fn started(pid: i32) -> Option<u64> {
    Some(procfs::process::Process::new(pid).ok()?.stat().ok()?.starttime)
}

fn write(file: &Path, kept: &Kept) -> std::io::Result<()> {
    let mut out = File::create(file)?;
    out.write_all(&serde_json::to_vec_pretty(kept)?)?;
    out.sync_all()
}

/// Reads what a Governor wrote down.
///
/// # Errors
/// When the file is gone or broken.
pub fn read(file: &Path) -> std::io::Result<Kept> {
    Ok(serde_json::from_slice(&fs::read(file)?)?)
}

/// Files of Governors that are gone without having brought everything back.
pub fn stale() -> Vec<PathBuf> {
    let entries = fs::read_dir(RUN_FOLDER).into_iter().flatten().filter_map(Result::ok);
    let mut found: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| is_stale(path)).collect();
    found.sort();
    found
}

fn is_stale(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
    if !name.starts_with("whatif-") || !name.ends_with(".json") {
        return false;
    }
    // A number may have been used again: the time of the start tells.
    read(path).is_ok_and(|kept| started(kept.pid) != Some(kept.started))
}

/// Lets every group of `kept` go on.
///
/// # Errors
/// The first group that cannot be let go on and is still there; the others are all the same.
pub fn thaw(kept: &Kept) -> std::io::Result<()> {
    let mut result = Ok(());
    for place in &kept.places {
        let done = match kept.mechanism {
            Mechanism::Cgroup => fs::write(place.dir.join("cgroup.freeze"), "0"),
            Mechanism::Signals => crate::freezer::Freezer::open(&place.dir, Mechanism::Signals)
                .and_then(|freezer| freezer.set(false)),
        };
        if let Err(error) = done
            && place.dir.exists()
        {
            result = Err(error);
        }
    }
    result
}

/// Lets everything go on that `file` names, moves processes back to where they came from, and
/// removes what was made. May be called again, and by several programs at once.
///
/// # Errors
/// When a group stays.
pub fn recover(file: &Path) -> std::io::Result<()> {
    let kept = match read(file) {
        Ok(kept) => kept,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    thaw(&kept)?;
    for place in kept.places.iter().filter(|place| place.ours && place.dir.exists()) {
        for _ in 0..PASSES {
            let pids = select::members(&place.dir).unwrap_or_default();
            if pids.is_empty() {
                break;
            }
            for pid in pids {
                move_back(place, pid);
            }
        }
        remove(&place.dir)?;
    }
    if kept.dir.exists() {
        remove(&kept.dir)?;
    }
    match fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A process that was born on the stage goes where the first of its service came from.
fn move_back(place: &Place, pid: i32) {
    let of = |origin: &&Origin| origin.pid == pid && started(pid) == Some(origin.started);
    let origin = place.origins.iter().find(of).or(place.origins.first());
    let Some(origin) = origin else { return };
    let moved = fs::write(origin.dir.join("cgroup.procs"), pid.to_string());
    if moved.is_err()
        && let Some(root) = place.dir.parent().and_then(Path::parent)
    {
        // Its control group is gone: the root takes everybody.
        let _ = fs::write(root.join("cgroup.procs"), pid.to_string());
    }
}

/// A control group is busy for a moment after its last process has left.
fn remove(dir: &Path) -> std::io::Result<()> {
    let mut last = Ok(());
    for _ in 0..50 {
        match fs::remove_dir(dir) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => last = Err(error),
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    last
}
