//! Control groups for services, and the way back.
//!
//! Each service gets a control group of its own, unless it was named by one. Where its processes
//! came from is written to a file before any of them moves, so that this program, its
//! [`crate::guard`] or `cavy live whatif thaw` can bring them back, whatever happens in between.

use crate::RUN_FOLDER;
use crate::freezer::{Freezer, Mechanism, STATE_V1};
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
    /// That of the freezer of v1, which is always ours.
    #[serde(default)]
    pub v1: Option<PathBuf>,
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
    /// That of the freezer of v1.
    #[serde(default)]
    pub v1: Option<PathBuf>,
}

impl Place {
    /// What stops it.
    ///
    /// # Errors
    /// When its control group is gone, or may not be written to.
    pub fn freezer(&self, mechanism: Mechanism) -> std::io::Result<Freezer> {
        Freezer::open(&self.dir, mechanism, self.v1.as_deref())
    }
}

/// What is written down before anything is stopped, so that others can let it continue.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Journal {
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
    kept: Journal,
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
        let v1 = match (mechanism, &mounts.freezer) {
            (Mechanism::CgroupV1, None) => {
                return Err(StageError::Refused(vec![
                    "the freezer of cgroup v1 is not mounted; use that of v2".to_string(),
                ]));
            }
            (Mechanism::CgroupV1, Some(root)) => Some(root.clone()),
            _ => None,
        };
        let chosen = choose(services)?;
        let own = std::process::id() as i32;
        let v1 = v1.map(|root| root.join(format!("cavy-whatif-{own}")));
        let dir = mounts.unified.join(format!("cavy-whatif-{own}"));
        let mut places = Vec::new();
        for (index, ((name, selector), pids)) in services.iter().zip(&chosen).enumerate() {
            let origins = pids.iter().filter_map(|pid| origin(*pid, mounts)).collect();
            let (place, ours) = match selector {
                Selector::Cgroup(path) => (path.clone(), false),
                _ => (dir.join(index.to_string()), true),
            };
            let v1 = v1.as_ref().map(|v1| v1.join(index.to_string()));
            places.push(Place { name: name.clone(), dir: place, ours, v1, origins });
        }
        let started = processes().ok().and_then(|all| Some(all.get(&own)?.started)).unwrap_or(0);
        let kept = Journal { pid: own, started, dir, mechanism, places };
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
            let groups: Vec<&Path> = place
                .ours
                .then_some(place.dir.as_path())
                .into_iter()
                .chain(place.v1.as_deref())
                .collect();
            for dir in &groups {
                made(dir)?;
            }
            if groups.is_empty() {
                continue;
            }
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
                    for dir in &groups {
                        if let Err(error) = fs::write(dir.join("cgroup.procs"), pid.to_string())
                            && all.contains_key(&pid)
                            && Path::new(&format!("/proc/{pid}")).exists()
                        {
                            return Err(system(format!("move process {pid} of {selector}"))(error));
                        }
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
    let of_v1 = |line: &str| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let freezes = controllers.split(',').any(|one| one == "freezer");
        freezes.then(|| path.trim_start_matches('/').to_string())
    };
    let v1 = mounts.freezer.as_ref().zip(text.lines().find_map(of_v1));
    let v1 = v1.map(|(root, path)| root.join(path));
    Some(Origin { pid, started, dir: mounts.unified.join(path), v1 })
}

fn started(pid: i32) -> Option<u64> {
    Some(procfs::process::Process::new(pid).ok()?.stat().ok()?.starttime)
}

fn write(file: &Path, kept: &Journal) -> std::io::Result<()> {
    let mut out = File::create(file)?;
    out.write_all(&serde_json::to_vec_pretty(kept)?)?;
    out.sync_all()
}

/// Reads what a Governor wrote down.
///
/// # Errors
/// When the file is gone or broken.
pub fn read(file: &Path) -> std::io::Result<Journal> {
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
    read(path).is_ok_and(|kept| !runs(&kept))
}

/// Does the program that took the services over still run? A number may have been used again: the
/// time of the start tells. One that was killed and not yet buried by its parent does not run.
pub(crate) fn runs(kept: &Journal) -> bool {
    let stat = procfs::process::Process::new(kept.pid).and_then(|process| process.stat());
    stat.is_ok_and(|stat| stat.starttime == kept.started && !matches!(stat.state, 'Z' | 'X'))
}

/// Lets every group of `kept` go on.
///
/// # Errors
/// The first group that cannot be let go on and is still there; the others are all the same.
pub fn thaw(kept: &Journal) -> std::io::Result<()> {
    let mut result = Ok(());
    for place in &kept.places {
        let done = match kept.mechanism {
            Mechanism::Cgroup => fs::write(place.dir.join("cgroup.freeze"), "0"),
            Mechanism::CgroupV1 => match &place.v1 {
                Some(v1) => fs::write(v1.join(STATE_V1), "THAWED"),
                None => Ok(()),
            },
            Mechanism::Signals => {
                place.freezer(Mechanism::Signals).and_then(|freezer| freezer.set(false))
            }
        };
        if let Err(error) = done
            && place.v1.as_ref().unwrap_or(&place.dir).exists()
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
    for place in &kept.places {
        let unified = place.ours.then_some(&place.dir);
        let of_v2 = unified.map(|dir| (dir, (|origin| Some(&origin.dir)) as WayBack));
        let of_v1 = place.v1.as_ref().map(|dir| (dir, (|origin| origin.v1.as_ref()) as WayBack));
        for (dir, way_back) in of_v2.into_iter().chain(of_v1).filter(|(dir, _)| dir.exists()) {
            for _ in 0..PASSES {
                let pids = select::members(dir).unwrap_or_default();
                if pids.is_empty() {
                    break;
                }
                for pid in pids {
                    move_back(place, dir, way_back, pid);
                }
            }
            remove(dir)?;
        }
    }
    let of_v1 = kept.places.iter().find_map(|place| place.v1.as_ref()?.parent());
    for dir in [Some(kept.dir.as_path()), of_v1].into_iter().flatten() {
        if dir.exists() {
            remove(dir)?;
        }
    }
    match fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Where a process came from, in one of the hierarchies.
type WayBack = fn(&Origin) -> Option<&PathBuf>;

/// A process that was born on the stage goes where the first of its service came from.
fn move_back(place: &Place, dir: &Path, way_back: WayBack, pid: i32) {
    let of = |origin: &&Origin| origin.pid == pid && started(pid) == Some(origin.started);
    let origin = place.origins.iter().find(of).or(place.origins.first());
    let home = origin.and_then(way_back);
    let moved =
        home.is_some_and(|home| fs::write(home.join("cgroup.procs"), pid.to_string()).is_ok());
    if !moved && let Some(root) = dir.parent().and_then(Path::parent) {
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
