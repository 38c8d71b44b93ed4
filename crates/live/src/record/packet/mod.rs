//! The log of an endpoint whose machine is of the packet family: every step, in order.
//!
//! Not only inputs are steps: a pull for a packet changes the machine as well, and so does a timer,
//! which an endpoint lets fire late. So each stands in the log with its time. [`replay`] takes the
//! steps with a fresh machine and compares what it answers: effects, deadlines and packets.
//!
//! All of it is written for any such machine. What a protocol adds is how lines say its packets and
//! timers ([`Words`]) and its configuration, which stands in the header and builds the machine
//! ([`Configuration`]); [`homa`](super::homa) is the first.

mod recorder;
mod replay;
mod step;

pub use super::lines::Fields;
pub(crate) use recorder::Recorder;
pub use replay::{Differs, Reader, Replayed, Taken, replay, replay_watched};
pub use step::Step;
#[cfg(test)]
pub(super) use step::{Line, Read, fold, parse};

use cavy_core::Transmit;
use cavy_core::family::Node;
use cavy_core::family::packet::{self, Effect, Extent, Input};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::hash::Hash;
use std::io;

/// The format this code writes, and the only one it reads.
pub const VERSION: u32 = 1;

/// Steps from one mark to the next.
pub(super) const MARK_EVERY: u64 = 256;

/// The header of a protocol's packets, which a line can say.
pub trait Words: packet::Header + Copy + Eq + Hash + Debug + Send + 'static {
    /// The timers of its machine. Of several that are due, the smaller fires first.
    type Timer: Copy + Ord + Hash + Debug + Send + 'static;

    /// Those that are no more than a name, and the word of each.
    const TIMERS: &'static [(Self::Timer, &'static str)];
    /// The words of its packets, which are no words of timers or calls.
    const PACKETS: &'static [&'static str];

    /// Writes the line of a packet that came in: `[at,"word",from,name,...]`.
    fn write(&self, to: &mut Vec<u8>, at: u64, from: Node, payload: &Extent) -> io::Result<()>;

    /// The word of a timer, and its number where it is one of many alike.
    fn timer(timer: Self::Timer) -> (&'static str, Option<u64>) {
        let found = Self::TIMERS.iter().find(|(known, _)| *known == timer);
        (found.map_or("", |(_, word)| word), None)
    }

    /// The timer with this word, which may read its number; `None` if there is none.
    ///
    /// # Errors
    /// What is wrong with the number.
    fn timer_of(word: &str, _fields: &mut Fields) -> Result<Option<Self::Timer>, String> {
        let found = Self::TIMERS.iter().find(|(_, known)| *known == word);
        Ok(found.map(|(timer, _)| *timer))
    }

    /// Reads what follows the name in a line with one of [`Words::PACKETS`], the payload's place
    /// and length too if it has any. The error says what is wrong.
    fn parse(word: &str, payload: &mut Extent, fields: &mut Fields) -> Result<Self, String>;
}

/// The configuration of a machine of the packet family, which headers of recordings hold.
pub trait Configuration: Clone + Serialize + DeserializeOwned + Send + 'static {
    /// The machine that it builds.
    type Machine: Transmit<
            Header = Self::Words,
            Input = Input<Self::Words>,
            Effect = Effect<Self::Why>,
            Timer = TimerOf<Self>,
        > + Send
        + 'static;
    /// The header of its packets.
    type Words: Words;
    /// Why a message fails.
    type Why: Copy + Eq + Hash + Debug + Send + 'static;

    /// The machine's name, in lower case: what headers of recordings say that they are about.
    const MACHINE: &'static str;

    /// The machine, not yet started; otherwise which field is wrong, and what it must be.
    ///
    /// # Errors
    /// One sentence, which names the field.
    fn build(&self) -> Result<Self::Machine, String>;

    /// Is this a configuration that an endpoint can have and a recording can hold, so that what a
    /// file says cannot take all memory? Otherwise which field is wrong, and what it must be.
    ///
    /// # Errors
    /// The field's name, and what it must be.
    fn check_recorded(&self) -> Result<(), (&'static str, String)> {
        Ok(())
    }
}

/// The timers of a configuration's machine.
pub type TimerOf<C> = <<C as Configuration>::Words as Words>::Timer;

/// How the machine of a recording was built: its first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header<C> {
    /// [`VERSION`].
    #[serde(rename = "cavy_recording")]
    pub version: u32,
    /// [`Configuration::MACHINE`].
    pub machine: String,
    /// Version of the program that recorded. Another one may decide otherwise.
    pub program: String,
    /// The machine's configuration.
    pub config: C,
    /// Seed of the machine's random stream.
    pub seed: u64,
}

impl<C: Configuration> Header<C> {
    /// That of a recording which this program begins.
    pub fn new(config: &C, seed: u64) -> Header<C> {
        Header {
            version: VERSION,
            machine: C::MACHINE.to_string(),
            program: env!("CARGO_PKG_VERSION").to_string(),
            config: config.clone(),
            seed,
        }
    }

    pub(super) fn build(&self) -> Result<C::Machine, String> {
        let machine = self.config.build().map_err(|error| format!("config: {error}"))?;
        let wrong = |(field, must)| format!("config.{field}: {must}");
        self.config.check_recorded().map_err(wrong)?;
        Ok(machine)
    }
}
