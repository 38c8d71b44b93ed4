//! Coordinates on a real network: who is near, before anybody has pinged.
//!
//! **Problem.** A player, a client or a replica should be served from near by; measuring every
//! candidate takes time that nobody has.
//!
//! **Promise.** [`Agent`] keeps this machine's coordinate: the machine that the lab simulates,
//! unchanged, over one UDP port ([htrae 7.1]). A round trip is the median of four, from the
//! kernel's stamps, less the time that the peer held the probe: a program that is late or stopped
//! measures no longer ones. The coordinate survives the process. Who cannot receive what is sent to
//! the address that he writes from changes nothing; with a key, nobody without it does
//! ([`cavy_seal`]). Nobody is sent more than was sent in his name, and all memory is bounded.
//!
//! **Not here.** No prediction of whether two machines can reach each other: that is told beside
//! the coordinate ([`wire::Reach`]) and never made into milliseconds. No defence against holders
//! of the key who lie.
//!
//! **Reading order.** [`wire`] and [`token`]; [`world`], the agent without socket and clock;
//! [`kept`], its file; `carrier`, its socket; [`Agent`], its thread. [`directory`], all nodes of
//! a service; [`service`], what it is asked, and [`http`], by whom; [`report`], what agents tell
//! it; [`echo`], for clients without an agent. Where addresses are is [`cavy_places`]'s.

mod carrier;
pub mod directory;
pub mod echo;
mod endpoint;
#[cfg(any(test, feature = "fuzz"))]
pub mod hostile;
pub mod http;
pub mod kept;
mod names;
pub mod options;
pub mod report;
pub mod service;
pub mod token;
pub mod wire;
pub mod world;

pub use cavy_seal::Key;
pub use endpoint::{Agent, Ended, OpenError, Status};
pub use options::Options;
pub use wire::{Nat, Reach};
