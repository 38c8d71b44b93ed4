//! How a pool is described.

use super::dedicated::{self, Dedicated};
use super::desk::Desk;
use super::{Core, Owner, Pool, Running};
use crate::clock::Clock;
use crate::dispatch::Dispatch;
use crate::metrics::Measured;
use crate::record::keep_flushed;
use crate::setup::{BuildError, Setup};
use cavy_core::Span;
use cavy_sched::Policy;
use cavy_sched::workers::WORKERS_MAX;
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// What happens to a job whose queue is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnFull {
    /// It is rejected.
    Reject,
    /// `submit` waits for room, but not longer than this; then the job is rejected.
    Block {
        /// The longest wait.
        deadline: Duration,
    },
}

/// Who dispatches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Driver {
    /// Whoever submits and whoever finishes, behind one lock; right for service times above about
    /// 20 us ([persephone 7.3]).
    Inline,
    /// A thread of its own, with rings to the workers; for machines with cores to spare.
    Dedicated {
        /// How long dispatcher and workers poll before they sleep. While they poll they burn a core
        /// each.
        spin: Duration,
    },
}

/// Describes a pool. See [`Pool::builder`] for the defaults.
#[derive(Clone, Debug)]
pub struct Builder {
    setup: Setup,
    on_full: OnFull,
    driver: Driver,
    cores: Option<Vec<usize>>,
    thread_name: String,
}

impl Default for Builder {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let workers = cores.min(usize::from(WORKERS_MAX)) as u16;
        Builder {
            setup: Setup { workers, ..Setup::default() },
            on_full: OnFull::Reject,
            driver: Driver::Inline,
            cores: None,
            thread_name: "cavy-worker".to_string(),
        }
    }
}

impl Builder {
    /// Worker threads, 1 to 4096.
    pub fn workers(mut self, workers: u16) -> Self {
        self.setup.workers = workers;
        self
    }

    /// Pins worker w to the core `cores[w mod len]`. Without this, threads go where the kernel
    /// likes.
    pub fn pin(mut self, cores: impl IntoIterator<Item = usize>) -> Self {
        self.cores = Some(cores.into_iter().collect());
        self
    }

    /// Names of the types, 1 to 63; they are numbered from 1 in this order, which is also the
    /// order of fixed priority.
    pub fn types<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.setup.names = names.into_iter().map(Into::into).collect();
        self
    }

    /// That many types without names of their own: "1", "2" and so on.
    pub fn type_count(mut self, count: u16) -> Self {
        self.setup.names = (1..=count).map(|number| number.to_string()).collect();
        self
    }

    /// What is known of a type beforehand: its mean service time and its share of the requests.
    /// Only policies that start from hints need it (`Policy::Darc { hinted: true, .. }`).
    pub fn hint(mut self, name: &str, mean: Duration, ratio: f64) -> Self {
        self.setup.hint(name, mean, ratio);
        self
    }

    /// The policy; [`crate::darc()`] unless given. Preemptive ones are refused.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.setup.policy = policy;
        self
    }

    /// Requests that each queue of the policy holds; 4 096 unless given.
    pub fn queue_limit(mut self, requests: u32) -> Self {
        self.setup.queue_limit = requests;
        self
    }

    /// What happens when a queue is full; reject unless given.
    pub fn on_full(mut self, on_full: OnFull) -> Self {
        self.on_full = on_full;
        self
    }

    /// Who dispatches; inline unless given.
    pub fn driver(mut self, driver: Driver) -> Self {
        self.driver = driver;
        self
    }

    /// Seed of the policy's random choices; 1 unless given.
    pub fn seed(mut self, seed: u64) -> Self {
        self.setup.seed = seed;
        self
    }

    /// Threads are called this and their number.
    pub fn thread_name(mut self, name: impl Into<String>) -> Self {
        self.thread_name = name.into();
        self
    }

    /// Records every input of the machine to this file; see [`crate::record`].
    pub fn record(mut self, path: impl Into<PathBuf>) -> Self {
        self.setup.record = Some(path.into());
        self
    }

    /// Starts the pool.
    ///
    /// # Errors
    /// What the machine refuses, types and hints that do not fit, cores that may not be used,
    /// threads that cannot be started, a recording that cannot be created.
    pub fn build(self) -> Result<Pool, BuildError> {
        let Builder { setup, on_full, driver, cores, thread_name } = self;
        if let Some(cores) = &cores {
            check_cores(cores)?;
        }
        let dispatch = Dispatch::new(&setup)?;
        let desk = Desk::new(dispatch, setup.names.len());
        let running = match driver {
            Driver::Inline => Running::Inline,
            Driver::Dedicated { spin } => {
                let spin = Span::from_ns(u64::try_from(spin.as_nanos()).unwrap_or(u64::MAX));
                Running::Dedicated(Arc::new(Dedicated::new(spin)))
            }
        };
        let core = Arc::new(Core {
            measured: Measured::new(&setup.names),
            on_full,
            thread_name,
            cores,
            clock: Clock::start(),
            desk: Mutex::new(desk),
            running,
            replaced: AtomicU64::new(0),
            threads: Mutex::new(Vec::new()),
            resizing: Mutex::new(()),
            joining: Mutex::new(()),
            setup,
        });
        // From here on, dropping the owner sends started threads home.
        let pool = Pool { owner: Arc::new(Owner { core: core.clone() }) };
        if let Running::Dedicated(dedicated) = &core.running {
            let (dedicated, shared) = (dedicated.clone(), core.clone());
            let name = format!("{}-dispatcher", core.thread_name);
            core.start(name, move || dedicated::main(&shared, &dedicated))?;
        }
        core.fill_seats(core.setup.workers)?;
        if core.setup.record.is_some() {
            keep_flushed(&core, |core| core.desk.lock().dispatch.flush_recording());
        }
        Ok(pool)
    }
}

#[cfg(target_os = "linux")]
fn check_cores(cores: &[usize]) -> Result<(), BuildError> {
    if cores.is_empty() {
        return Err(BuildError::NoCores);
    }
    let set = rustix::thread::sched_getaffinity(None).map_err(|_| BuildError::PinUnsupported)?;
    let max = rustix::thread::CpuSet::MAX_CPU;
    let allowed: Vec<usize> = (0..max).filter(|&core| set.is_set(core)).collect();
    match cores.iter().find(|core| !allowed.contains(core)) {
        Some(&core) => Err(BuildError::Core { core, allowed }),
        None => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
fn check_cores(_cores: &[usize]) -> Result<(), BuildError> {
    Err(BuildError::PinUnsupported)
}

/// Pins this thread; a core that was taken away since the check leaves it where it is.
#[cfg(target_os = "linux")]
pub(super) fn pin_current(core: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

#[cfg(not(target_os = "linux"))]
pub(super) fn pin_current(_core: usize) {}
