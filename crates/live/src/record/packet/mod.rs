//! The log of an endpoint whose machine is of the packet family: every step, in order.
//!
//! Not only inputs are steps: a pull for a packet changes the machine as well, and so does a timer,
//! which an endpoint lets fire late. So each stands in the log with its time ([`steps`]); what is
//! compared are effects, deadlines and packets.
//!
//! All of it is written for any such machine. What a protocol adds is how lines say its packets and
//! timers ([`Words`]) and its configuration, which stands in the header and builds the machine
//! ([`Configuration`]); [`homa`](super::homa) is the first.

mod step;

pub use super::steps::{
    self, Differs, Fields, Header, Reader, Recorder, Replayed, Taken, VERSION, replay,
    replay_watched,
};
pub use step::Step;

use cavy_core::family::Node;
use cavy_core::family::packet::{self, Effect, Extent, Input};
use cavy_core::{Cx, Machine as _, Packet, Transmit};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::hash::Hash;
use std::io;

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

impl<C: Configuration> steps::Steps for C {
    type Machine = C::Machine;
    type Step = Step<C::Words, TimerOf<C>>;
    type Effect = Effect<C::Why>;
    type Timer = TimerOf<C>;
    type Given = Packet<C::Words>;

    const NAME: &'static str = <C as Configuration>::MACHINE;
    const MACHINES_MAX: u64 = 1;

    fn fresh(&self) -> Result<C::Machine, String> {
        let machine = self.build().map_err(|error| format!("config: {error}"))?;
        let wrong = |(field, must)| format!("config.{field}: {must}");
        self.check_recorded().map_err(wrong)?;
        Ok(machine)
    }

    fn effects_max(machine: &C::Machine) -> usize {
        machine.effects_max()
    }

    fn timer(step: &Self::Step) -> Option<TimerOf<C>> {
        match step {
            Step::Expire(timer) => Some(*timer),
            _ => None,
        }
    }

    fn take(
        step: Self::Step,
        machine: &mut C::Machine,
        cx: &mut Cx<'_, Effect<C::Why>, TimerOf<C>>,
    ) -> Result<Option<Packet<C::Words>>, String> {
        Ok(step.take(machine, cx))
    }
}
