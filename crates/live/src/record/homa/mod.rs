//! The log of an endpoint of Homa: every step of its machine, in order.
//!
//! What is common to all machines of packets stands in [`packet`].
//!
//! ```text
//! {"cavy_recording":1,"machine":"homa","program":"0.1.0","config":{...},"seed":...}
//! [0,"start"]
//! [52011,"call",0,4102,100]          a question to peer 0, named 4102, of 100 bytes
//! [52803,"pull"]                     which packet goes now?
//! [1105377,"tick"]                   a timer fired
//! [1230112,"mark",256,"91d2...","07aa..."]
//! {"inputs":300,"digest":"5c1f...","sum":"d00b..."}
//! ```
//!
//! A mark follows every 256 steps and says how many there were, the digest of the answers to them,
//! and the fingerprint of the lines before it. So the first stretch that is decided otherwise is
//! known, a log that was cut off is compared as far as it goes, and damage is not taken for another
//! decision. All lines are in `docs/reference/recordings.md`.

mod step;
#[cfg(test)]
mod tests;

pub use super::packet::{Differs, Replayed, VERSION, replay, replay_watched};

use super::packet::{self, Configuration};
use cavy_homa::packet::Layout;
use cavy_homa::{Config, Homa, Timer, Why};

/// What a header says that it is about.
pub const MACHINE: &str = "homa";

/// Something that an endpoint does with its machine.
pub type Step = packet::Step<cavy_homa::packet::Header, Timer>;
/// How the machine of a recording was built.
pub type Header = packet::Header<Config>;
/// A recording that is read: its header, then its steps one by one.
pub type Reader<R> = packet::Reader<Config, R>;
/// A step that a machine has taken.
pub type Taken<'a> = packet::Taken<'a, Config>;

/// Most of what a recorded machine may keep of each kind, so that a replay's memory is bounded
/// whatever a file says.
const KEPT_MAX: u32 = 1 << 20;

impl Configuration for Config {
    type Machine = Homa;
    type Words = cavy_homa::packet::Header;
    type Why = Why;

    const MACHINE: &'static str = MACHINE;

    fn build(&self) -> Result<Homa, String> {
        Homa::new(self).map_err(|error| error.to_string())
    }

    fn check_recorded(&self) -> Result<(), (&'static str, String)> {
        if self.layout != Layout::Linux || !self.answers || self.recovery.is_none() {
            return Err((
                "layout",
                "only endpoints are recorded: Linux, with answers and repair".into(),
            ));
        }
        let limits = &self.limits;
        for (field, value) in [
            ("limits.exchanges", limits.exchanges),
            ("limits.peers", limits.peers),
            ("limits.waiting", limits.waiting),
            ("limits.remembered", limits.remembered),
        ] {
            if value > KEPT_MAX {
                let must = format!("{value}; in a recording it must be at most {KEPT_MAX}");
                return Err((field, must));
            }
        }
        Ok(())
    }
}
