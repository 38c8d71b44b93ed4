//! The log of an endpoint whose machine is of the packet family: every step, in order.
//!
//! All of it is written for any such machine. What a protocol adds is how lines say its packets and
//! timers ([`Words`]) and what its header has ([`About`]); [`homa`](super::homa) is the first.

mod recorder;
mod replay;
mod step;

pub(crate) use recorder::Recorder;
pub use replay::{Differs, Reader, Replayed, Taken, replay, replay_watched};
pub use step::Step;
#[cfg(test)]
pub(super) use step::{Line, Read, fold, parse};

use super::lines::Fields;
use cavy_core::Transmit;
use cavy_core::family::Node;
use cavy_core::family::packet::{self, Extent, Input};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::hash::Hash;
use std::io;

/// Steps from one mark to the next.
pub(super) const MARK_EVERY: u64 = 256;

/// The header of a protocol's packets, which a line can say.
pub trait Words: packet::Header + Copy + Eq + Hash + Debug + Send + 'static {
    /// The timers of its machine.
    type Timer: Copy + Ord + Hash + Debug + Send + 'static;

    /// All of them, and the word of each.
    const TIMERS: &'static [(Self::Timer, &'static str)];
    /// The words of its packets, which are no words of timers or calls.
    const PACKETS: &'static [&'static str];

    /// Writes the line of a packet that came in: `[at,"word",from,name,...]`.
    fn write(&self, to: &mut Vec<u8>, at: u64, from: Node, payload: &Extent) -> io::Result<()>;

    /// Reads what follows the name in a line with one of [`Words::PACKETS`], the payload's place
    /// and length too if it has any. The error says what is wrong.
    fn parse(word: &str, payload: &mut Extent, fields: &mut Fields) -> Result<Self, String>;
}

/// The header of a recording: it knows how the machine was built.
pub trait About: DeserializeOwned {
    /// The machine.
    type Machine: Transmit<
            Header = Self::Words,
            Input = Input<Self::Words>,
            Effect = Self::Effect,
            Timer = <Self::Words as Words>::Timer,
        >;
    /// The header of its packets.
    type Words: Words;
    /// What it wants done.
    type Effect: Hash + Debug;

    /// What a header says that it is about.
    const MACHINE: &'static str;
    /// The only format that is read.
    const VERSION: u32;

    /// The format.
    fn version(&self) -> u32;
    /// What it is about.
    fn machine(&self) -> &str;
    /// Seed of the machine's random stream.
    fn seed(&self) -> u64;
    /// The machine, not yet started; otherwise which field is wrong, and what it must be.
    fn build(&self) -> Result<Self::Machine, String>;
}
