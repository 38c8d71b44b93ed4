//! The log of an endpoint of Homa: every step of its machine, in order.
//!
//! Not only inputs are steps: a pull for a packet changes the machine as well, and so does a timer,
//! which an endpoint lets fire late. So each stands in the log with its time. [`replay`] takes the
//! steps with a fresh machine and compares what it answers: effects, deadlines and packets.
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

mod config;
mod step;
#[cfg(test)]
mod tests;

pub use super::packet::{Differs, Replayed, replay, replay_watched};

use super::packet::{self, About};
use cavy_core::family::packet::Effect;
use cavy_homa::packet::Layout;
use cavy_homa::{Config, Homa, Timer, Why};
use serde::{Deserialize, Serialize};

/// The format this code writes, and the only one it reads.
pub const VERSION: u32 = 1;

/// What a header says that it is about.
pub const MACHINE: &str = "homa";

/// Something that an endpoint does with its machine.
pub type Step = packet::Step<cavy_homa::packet::Header, Timer>;
/// A recording that is read: its header, then its steps one by one.
pub type Reader<R> = packet::Reader<Header, R>;
/// A step that a machine has taken.
pub type Taken<'a> = packet::Taken<'a, Homa>;
/// A recording in progress.
pub(crate) type Recorder = packet::Recorder<cavy_homa::packet::Header>;

/// Most of what a recorded machine may keep of each kind, so that a replay's memory is bounded
/// whatever a file says.
const KEPT_MAX: u32 = 1 << 20;

/// How the machine of a recording was built.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// [`VERSION`].
    #[serde(rename = "cavy_recording")]
    pub version: u32,
    /// [`MACHINE`].
    pub machine: String,
    /// Version of the program that recorded. Another one may decide otherwise.
    pub program: String,
    /// The machine's configuration.
    #[serde(with = "config::ConfigForm")]
    pub config: Config,
    /// Seed of the machine's random stream.
    pub seed: u64,
}

impl Header {
    /// That of a recording which this program begins.
    pub fn new(config: &Config, seed: u64) -> Header {
        Header {
            version: VERSION,
            machine: MACHINE.to_string(),
            program: env!("CARGO_PKG_VERSION").to_string(),
            config: *config,
            seed,
        }
    }
}

impl About for Header {
    type Machine = Homa;
    type Words = cavy_homa::packet::Header;
    type Effect = Effect<Why>;

    const MACHINE: &'static str = MACHINE;
    const VERSION: u32 = VERSION;

    fn version(&self) -> u32 {
        self.version
    }

    fn machine(&self) -> &str {
        &self.machine
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn build(&self) -> Result<Homa, String> {
        let machine = Homa::new(&self.config).map_err(|error| format!("config: {error}"))?;
        check(&self.config).map_err(|(field, must)| format!("config.{field}: {must}"))?;
        Ok(machine)
    }
}

/// Is this a configuration that an endpoint can have and a recording can hold? Otherwise which
/// field is wrong, and what it must be.
pub(crate) fn check(config: &Config) -> Result<(), (&'static str, String)> {
    if config.layout != Layout::Linux || !config.answers || config.recovery.is_none() {
        return Err((
            "layout",
            "only endpoints are recorded: Linux, with answers and repair".into(),
        ));
    }
    let limits = &config.limits;
    for (field, value) in [
        ("limits.exchanges", limits.exchanges),
        ("limits.peers", limits.peers),
        ("limits.waiting", limits.waiting),
        ("limits.remembered", limits.remembered),
    ] {
        if value > KEPT_MAX {
            return Err((field, format!("{value}; in a recording it must be at most {KEPT_MAX}")));
        }
    }
    Ok(())
}
