//! The log of a machine, step by step, whatever its family.
//!
//! A step is anything that its world does with the machine: start it, tell it something, let a
//! timer fire, ask it for a packet. Each stands in the log with its time, and after every 256 steps
//! a mark says what the machine had answered until then. [`replay`] takes the steps with a fresh
//! machine and compares. What a family adds is how lines say its steps ([`Said`]), and what a
//! header holds and how a step is taken ([`Steps`]). [`packet`](super::packet) is one; the
//! controllers of the room `groups` are another.

mod line;
mod recorder;
mod replay;

pub use super::lines::Fields;
pub use recorder::Recorder;
pub use replay::{Differs, Reader, Replayed, Taken, replay, replay_watched};

#[cfg(test)]
pub(super) use line::{Line, Read, fold, parse};

use cavy_core::{Cx, Instant, Span};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::hash::Hash;
use std::io;

/// The format this code writes, and the only one it reads.
pub const VERSION: u32 = 1;

/// Steps from one mark to the next.
pub(super) const MARK_EVERY: u64 = 256;

/// A step that a line can say.
pub trait Said: Clone + PartialEq + Debug + Send + 'static {
    /// Writes its line, `[at,"word",...]`, without the line's end.
    ///
    /// # Errors
    /// What writing says; memory takes all.
    fn write(&self, to: &mut Vec<u8>, at: Instant) -> io::Result<()>;

    /// Reads what follows the time and `word`.
    ///
    /// # Errors
    /// What is wrong.
    fn read(word: &str, fields: &mut Fields) -> Result<Self, String>;

    /// Does a machine begin with it, at a time of its own?
    fn begins(&self) -> bool;
}

/// What a recording's header holds: how its machine is built, and takes a step.
pub trait Steps: Clone + Serialize + DeserializeOwned + Send + 'static {
    /// The machine, or what holds those that follow each other.
    type Machine;
    /// What it is made to do.
    type Step: Said;
    /// What it wants done.
    type Effect: Hash;
    /// Its timers.
    type Timer: Copy + Ord + Hash + Debug;
    /// What a step gives besides, such as a packet.
    type Given: Hash;

    /// The machine's name, in lower case: what headers say that they are about.
    const NAME: &'static str;
    /// So many machines follow each other in a recording at most.
    const MACHINES_MAX: u64;

    /// The machine before its first step.
    ///
    /// # Errors
    /// One sentence, which names the field of the header that is wrong.
    fn fresh(&self) -> Result<Self::Machine, String>;

    /// Entries that one step leaves in the outbox at most.
    fn effects_max(machine: &Self::Machine) -> usize;

    /// The timer that fires with this step.
    fn timer(step: &Self::Step) -> Option<Self::Timer>;

    /// So much before its deadline the world lets this timer fire at most.
    fn early(_timer: Self::Timer) -> Span {
        Span::ZERO
    }

    /// Lets `machine` take the step.
    ///
    /// # Errors
    /// One sentence, when the step says what no recorder writes.
    fn take(
        step: Self::Step,
        machine: &mut Self::Machine,
        cx: &mut Cx<'_, Self::Effect, Self::Timer>,
    ) -> Result<Option<Self::Given>, String>;
}

/// How the machine of a recording was built: its first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header<C> {
    /// [`VERSION`].
    #[serde(rename = "cavy_recording")]
    pub version: u32,
    /// [`Steps::NAME`].
    pub machine: String,
    /// Version of the program that recorded. Another one may decide otherwise.
    pub program: String,
    /// The machine's configuration.
    pub config: C,
    /// Seed of the machine's random stream.
    pub seed: u64,
}

impl<C: Steps> Header<C> {
    /// That of a recording which this program begins.
    pub fn new(config: &C, seed: u64) -> Header<C> {
        Header {
            version: VERSION,
            machine: C::NAME.to_string(),
            program: env!("CARGO_PKG_VERSION").to_string(),
            config: config.clone(),
            seed,
        }
    }
}
