//! The log of a run: everything a machine was told, and when; enough to let it decide again.
//!
//! **Problem.** What a service did last night at ten cannot be asked again: its threads and its
//! network are gone.
//!
//! **Promise.** A machine is a function of what it is told. So a log of that, with the
//! configuration and the seed in front, is enough for a fresh machine to decide the same at every
//! step; equal digests show that it did. Whoever is recorded never waits for a disk: lines are
//! written by a thread of their own, within half a second, and when that one cannot keep up, the
//! recording ends and says so. A log that was cut off in the middle of a line is read up to there.
//! Logs come from users: whatever is in a file, reading it costs bounded memory and ends with an
//! answer or an error that names the line.
//!
//! **Format.** JSON lines: a header with the configuration, one short array for each thing that the
//! machine was told, and at the end how many there were and the digest of what it answered. Pools
//! and slots have [`pool`]; machines whose every step is kept have [`steps`]: endpoints of the
//! packet family ([`packet`], of which [`homa`] is the first), and controllers of process groups in
//! the room above. What all share is in `lines`.
//!
//! **Not here.** No payload, no address, no key. No summary either: `cavy-live replay` has it.
//!
//! **Reading order.** [`pool`], then [`steps`], [`packet`] and [`homa`]; `lines` for how they are
//! written and read.

pub mod homa;
mod lines;
pub mod packet;
pub mod pool;
pub mod steps;

use serde::Deserialize;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// What a recording came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Inputs of the machine: all that it was told.
    pub inputs: u64,
    /// Fingerprint of all its decisions.
    pub digest: u64,
}

/// Why a recording cannot be read or replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The file cannot be read.
    #[error("cannot read the recording: {0}")]
    Io(#[from] io::Error),
    /// A line is not what it should be.
    #[error("line {line} of the recording: {what}")]
    Line {
        /// Counted from 1.
        line: u64,
        /// What is wrong.
        what: String,
    },
    /// The header describes a machine that cannot be built.
    #[error("the recording's machine cannot be built: {0}")]
    Policy(#[from] cavy_sched::PolicyError),
}

/// What was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// The policy of a pool or of slots: [`pool`].
    Pool,
    /// An endpoint of Homa: [`homa`].
    Homa,
    /// Another machine, by its name, whose steps a room above this one knows: [`steps`].
    Other(String),
}

/// What all headers have.
#[derive(Deserialize)]
struct Preamble {
    #[serde(rename = "cavy_recording")]
    version: u32,
    /// Headers of pools have none.
    machine: Option<String>,
}

impl Recorded {
    /// What is in the file at `path`, by its first line.
    ///
    /// # Errors
    /// A file that cannot be read or is no recording, or one that this program does not know.
    pub fn in_file(path: impl AsRef<Path>) -> Result<Recorded, ReplayError> {
        let mut lines = lines::Lines::new(std::fs::File::open(path)?);
        let Preamble { version, machine } = lines.header()?;
        let (recorded, known) = match machine.as_deref() {
            None => (Recorded::Pool, pool::VERSION),
            Some(homa::MACHINE) => (Recorded::Homa, homa::VERSION),
            // Whoever knows it checks its version.
            Some(other) => return Ok(Recorded::Other(other.chars().take(40).collect())),
        };
        lines.check_version(version, known)?;
        Ok(recorded)
    }
}

/// What was recorded is in its file at the latest after this time, however little it is.
const FLUSH_EVERY: Duration = Duration::from_millis(500);

/// Calls `flush` on `of` time and again, on a thread of its own, until it says that nothing is
/// recorded any more or `of` is gone. Where no thread can be had, only full batches are written.
pub(crate) fn keep_flushed<T: Send + Sync + 'static>(of: &Arc<T>, flush: fn(&T) -> bool) {
    let of = Arc::downgrade(of);
    let flushing = move || {
        loop {
            std::thread::sleep(FLUSH_EVERY);
            if !of.upgrade().is_some_and(|of| flush(&of)) {
                return;
            }
        }
    };
    let _ = std::thread::Builder::new().name("cavy-flush".to_string()).spawn(flushing);
}
