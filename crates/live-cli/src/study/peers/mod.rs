//! Those that are compared: our pool with three policies, and what a user would take instead
//! `[persephone 7.6]`.
//!
//! All of them are handed the same tickets by the same generator, do the same work on as many
//! threads or slots, and refuse nothing before a backlog of [`QUEUE_LIMIT`] requests.

mod connections;
mod go;
mod threads;

use crate::args::PeerName;
use crate::faults::{FAILED, Fault};
use crate::study::work::Work;
use cavy_core::Instant;
use cavy_live::load::{Outcome, Target, Ticket, clock};
use cavy_live::metrics::Stats;
use cavy_live::pool::Driver;
use cavy_live::{Kind, Policy, Pool, Shutdown, darc};
use cavy_sched::darc::Config;
pub use connections::Database;
pub use go::Go;
use std::path::PathBuf;
use std::sync::{Arc, Barrier};
use std::time::Duration;
use threads::{ByPriority, Channel, Split};

/// Requests that wait in one queue of our pools; those of the others have no limit.
pub const QUEUE_LIMIT: u32 = 1 << 20;

impl PeerName {
    /// All, in the order in which they run.
    pub const ALL: [PeerName; 10] = [
        PeerName::Darc,
        PeerName::CFcfs,
        PeerName::FixedPriority,
        PeerName::SpawnBlocking,
        PeerName::Rayon,
        PeerName::Channel,
        PeerName::TwoPools,
        PeerName::PriorityPool,
        PeerName::Go,
        PeerName::Semaphore,
    ];

    /// As in tables.
    pub fn label(self) -> &'static str {
        match self {
            PeerName::Darc => "DARC",
            PeerName::CFcfs => "c-FCFS",
            PeerName::FixedPriority => "fixed priority",
            PeerName::SpawnBlocking => "tokio spawn_blocking",
            PeerName::Rayon => "rayon",
            PeerName::Channel => "threads + channel",
            PeerName::TwoPools => "two pools",
            PeerName::PriorityPool => "priority-queue pool",
            PeerName::Go => "Go runtime",
            PeerName::Semaphore => "tokio semaphore",
        }
    }

    /// As in names of files and claims.
    pub fn id(self) -> &'static str {
        match self {
            PeerName::Darc => "darc",
            PeerName::CFcfs => "c_fcfs",
            PeerName::FixedPriority => "fixed_priority",
            PeerName::SpawnBlocking => "spawn_blocking",
            PeerName::Rayon => "rayon",
            PeerName::Channel => "channel",
            PeerName::TwoPools => "two_pools",
            PeerName::PriorityPool => "priority_pool",
            PeerName::Go => "go",
            PeerName::Semaphore => "semaphore",
        }
    }

    /// The policy of our pool; `None` for what is not ours.
    pub fn policy(self, window: u64) -> Option<Policy> {
        match self {
            PeerName::Darc => Some(match darc() {
                Policy::Darc { config, hinted } => {
                    Policy::Darc { config: Config { window, ..config }, hinted }
                }
                other => other,
            }),
            PeerName::CFcfs => Some(Policy::CentralFcfs),
            PeerName::FixedPriority => Some(Policy::FixedPriority),
            _ => None,
        }
    }
}

/// What all peers have in common.
#[derive(Clone)]
pub struct Bench {
    /// Threads or slots.
    pub workers: u16,
    /// Names of the types, the shorter first where lengths do not change.
    pub types: Vec<String>,
    /// Completions between two looks at DARC's reservation.
    pub window: u64,
    /// What requests do.
    pub work: Work,
    /// Threads of each type's own pool, for two pools.
    pub split: Vec<u16>,
    /// Which driver our pools have.
    pub driver: Driver,
}

/// One request on its way through a pool. A pool that drops it has refused it.
pub struct Errand {
    ticket: Option<Ticket>,
    work: Work,
}

impl Errand {
    /// A request that `work` is to do.
    pub fn new(ticket: Ticket, work: &Work) -> Errand {
        Errand { ticket: Some(ticket), work: work.clone() }
    }

    /// Does the work, on the thread that calls.
    pub fn run(mut self) {
        if let Some(ticket) = self.ticket.take() {
            let outcome = self.work.run(ticket.kind(), ticket.service());
            ticket.finish(outcome);
        }
    }

    /// Its type, from 0.
    pub fn kind(&self) -> u16 {
        self.ticket.as_ref().map_or(0, Ticket::kind)
    }
}

impl Drop for Errand {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            ticket.finish(Outcome::Overloaded);
        }
    }
}

/// What a peer has to say after a run.
#[derive(Default)]
pub struct After {
    /// Figures of our pool.
    pub stats: Option<Stats>,
    /// When our pool was built, on the clock of the generator.
    pub epoch: Instant,
    /// The recording, when one was asked for.
    pub recording: Option<PathBuf>,
}

/// A peer that is ready to run.
pub struct Rig {
    /// What the generator drives.
    pub target: Box<dyn Target>,
    /// Ends it, after the run: threads stop, recordings are complete.
    pub end: Box<dyn FnOnce() -> Result<After, Fault>>,
}

impl Rig {
    fn new<T: Target + 'static>(target: T) -> Rig {
        Rig { target: Box::new(target), end: Box::new(|| Ok(After::default())) }
    }
}

/// Starts a peer. Our pools write a recording to `record`.
pub fn start(
    peer: PeerName,
    bench: &Bench,
    go: Option<&Go>,
    record: Option<PathBuf>,
) -> Result<Rig, Fault> {
    let failed = |error: String| Fault::new(format!("{}: {error}", peer.label())).code(FAILED);
    if let Work::Query(database) = &bench.work {
        return connections::start(peer, bench, database);
    }
    if let Some(policy) = peer.policy(bench.window) {
        return ours(policy, bench, record).map_err(failed);
    }
    let workers = usize::from(bench.workers);
    let rig = match peer {
        PeerName::Rayon => {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).build();
            let pool = pool.map_err(|error| failed(error.to_string()))?;
            Rig::new(Rayon { pool, work: bench.work.clone() })
        }
        PeerName::SpawnBlocking => {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .max_blocking_threads(workers)
                .thread_keep_alive(Duration::from_secs(3_600))
                .build();
            let runtime = runtime.map_err(|error| failed(error.to_string()))?;
            warm(&runtime, workers);
            Rig::new(SpawnBlocking { runtime, work: bench.work.clone() })
        }
        PeerName::TwoPools => {
            let pools = bench.split.iter().map(|&threads| Channel::start(threads.into()));
            let pools = pools.collect::<std::io::Result<_>>();
            let pools = pools.map_err(|error| failed(error.to_string()))?;
            Rig::new(Split { pools, work: bench.work.clone() })
        }
        PeerName::PriorityPool => {
            let pool = ByPriority::start(workers, bench.work.clone());
            Rig::new(pool.map_err(|error| failed(error.to_string()))?)
        }
        PeerName::Go => match go {
            Some(go) => go.start(bench.workers).map_err(failed)?,
            None => return Err(failed("there is no Go program".to_string())),
        },
        PeerName::Semaphore => return Err(failed("it runs no jobs".to_string())),
        // The three of ours have been started above.
        PeerName::Channel | PeerName::Darc | PeerName::CFcfs | PeerName::FixedPriority => {
            let pool = Channel::start(workers).map_err(|error| failed(error.to_string()))?;
            Rig::new(Split { pools: vec![pool], work: bench.work.clone() })
        }
    };
    Ok(rig)
}

/// Makes tokio start all its blocking threads: otherwise the generator would start them, and they
/// would inherit that it goes first.
fn warm(runtime: &tokio::runtime::Runtime, workers: usize) {
    let meet = Arc::new(Barrier::new(workers));
    let wait = |_| {
        let meet = Arc::clone(&meet);
        runtime.spawn_blocking(move || {
            meet.wait();
        })
    };
    let all: Vec<_> = (0..workers).map(wait).collect();
    runtime.block_on(async {
        for one in all {
            let _ = one.await;
        }
    });
}

fn ours(policy: Policy, bench: &Bench, record: Option<PathBuf>) -> Result<Rig, String> {
    let mut builder = Pool::builder()
        .workers(bench.workers)
        .types(bench.types.iter().map(String::as_str))
        .policy(policy)
        .queue_limit(QUEUE_LIMIT)
        .driver(bench.driver)
        .thread_name("study");
    if let Some(file) = &record {
        builder = builder.record(file.clone());
    }
    let pool = builder.build().map_err(|error| error.to_string())?;
    // The pool's clock started a moment ago; both clocks are monotonic and run alike.
    let age = pool.stats().at;
    let epoch = Instant::from_ns(clock::now().as_ns().saturating_sub(age.as_ns()));
    let target = Ours { pool: pool.clone(), work: bench.work.clone() };
    let end = move || {
        pool.shutdown(Shutdown::Drain);
        let recording = match pool.finish_recording() {
            None => None,
            Some(Ok(_)) => record,
            Some(Err(error)) => {
                return Err(Fault::new(format!("the recording failed: {error}")).code(FAILED));
            }
        };
        Ok(After { stats: Some(pool.stats()), epoch, recording })
    };
    Ok(Rig { target: Box::new(target), end: Box::new(end) })
}

/// Our pool.
struct Ours {
    pool: Pool,
    work: Work,
}

impl Target for Ours {
    fn submit(&mut self, ticket: Ticket) {
        let kind = Kind(ticket.kind() + 1);
        let errand = Errand::new(ticket, &self.work);
        drop(self.pool.submit(kind, move || errand.run()));
    }
}

/// tokio's threads for blocking work. Dropping the runtime waits for what runs.
struct SpawnBlocking {
    runtime: tokio::runtime::Runtime,
    work: Work,
}

impl Target for SpawnBlocking {
    fn submit(&mut self, ticket: Ticket) {
        let errand = Errand::new(ticket, &self.work);
        drop(self.runtime.spawn_blocking(move || errand.run()));
    }
}

/// A rayon pool, given work from outside.
struct Rayon {
    pool: rayon::ThreadPool,
    work: Work,
}

impl Target for Rayon {
    fn submit(&mut self, ticket: Ticket) {
        let errand = Errand::new(ticket, &self.work);
        self.pool.spawn(move || errand.run());
    }
}
