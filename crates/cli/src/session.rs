//! One run of the lab from the command: its cores, its folder, its store, and how it is stopped.

use crate::args::{Manner, Queue};
use crate::estimate::Estimate;
use crate::faults::{Fault, INTERRUPTED};
use crate::folder::Folder;
use crate::progress::Meter;
use crate::{Clock, VERSION, terminal};
use cavy_study::point::{Manner as HowRun, RunError};
use cavy_study::runner::Runner;
use cavy_study::store::Store;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Everything a run needs beside its plan.
pub struct Session {
    /// Where results go.
    pub folder: Folder,
    /// Finished points.
    pub store: Store,
    /// Cores used.
    pub jobs: usize,
    meter: Meter,
    stop: Arc<AtomicBool>,
    pool: rayon::ThreadPool,
    manner: HowRun,
}

/// Cores to use.
pub fn jobs(manner: &Manner) -> usize {
    match manner.jobs {
        Some(jobs) => jobs.into(),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    }
}

impl Session {
    /// Opens the folder and the store, and listens for Ctrl-C.
    pub fn open(manner: &Manner, clock: Clock) -> Result<Self, Fault> {
        let folder = Folder::open(&manner.out)?;
        let store = Store::in_file(&folder.join("points.jsonl"), manner.resume, VERSION)
            .map_err(|error| Fault::from(error).hint("name another folder with `--out DIR`"))?;
        let jobs = jobs(manner);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(jobs).build().map_err(|error| {
            Fault::new(format!("cannot start {jobs} threads: {error}"))
                .hint("ask for fewer with `--jobs N`")
        })?;
        Ok(Session {
            folder,
            store,
            jobs,
            meter: Meter::new(clock, jobs),
            stop: listen()?,
            pool,
            manner: HowRun {
                wheel: manner.queue == Queue::Wheel,
                shuffle_ties: manner.shuffle_ties,
                twice: manner.twice,
            },
        })
    }

    /// Does `work` on this session's cores, with progress.
    pub fn run<T: Send>(
        &self,
        estimate: &Estimate,
        work: impl FnOnce(&Runner<'_>) -> Result<T, RunError> + Send,
    ) -> Result<T, Fault> {
        let runner = Runner {
            store: &self.store,
            progress: &self.meter,
            stop: &self.stop,
            manner: self.manner,
            version: VERSION,
        };
        if estimate.kept > 0 {
            terminal::talk(&format!("resume: {} points are finished already", estimate.kept));
        }
        self.meter.begin(estimate);
        let outcome = self.pool.install(|| work(&runner));
        self.meter.end();
        outcome.map_err(|error| match error {
            RunError::Interrupted { .. } => self.interrupted(),
            other => other.into(),
        })
    }

    fn interrupted(&self) -> Fault {
        let (done, total) = self.meter.done();
        let mut command = terminal::command_line();
        if !command.split(' ').any(|word| word == "--resume") {
            command.push_str(" --resume");
        }
        Fault::new(format!("interrupted after {done} of {total} points; go on with: {command}"))
            .code(INTERRUPTED)
    }
}

/// Sets the flag at the first Ctrl-C (or request to terminate), and ends at once at the second.
fn listen() -> Result<Arc<AtomicBool>, Fault> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED.into());
        }
        terminal::talk("\nstopping after the points in hand; Ctrl-C again ends at once");
    })
    .map_err(|error| Fault::new(format!("cannot listen for Ctrl-C: {error}")))?;
    Ok(stop)
}
