//! A network of hosts on one machine: namespaces, one switch, links of a stated rate, eight strict
//! levels `[homa 7.5]`.
//!
//! **Problem.** What a transport does to tails shows when links are full and queues are those of a
//! switch; the loopback interface has neither.
//!
//! **Promise.** Each host is a network namespace with one interface; one more namespace is the
//! switch, a bridge with one port a host. Both ends of each link are shaped to its rate, counted as
//! Ethernet counts: with preamble, gap and shortest frame. A port sends the highest of eight levels
//! first, told by the upper three bits of TOS, and keeps so many bytes of each. Whatever is made
//! carries the name of the process that made it, and is removed with it, at the latest by whoever
//! builds next: also after kill -9.
//!
//! **Not here.** No marking, no random loss, no delay beyond that of the link: the kernels this is
//! for have no such queues. No claim about microseconds: all hosts share the cores of one machine.
//!
//! **Reading order.** [`Plan`] and [`Testbed`]; `script` (what `ip` and `tc` are told), [`owner`]
//! (whose it is), [`space`] (running in a host), [`queues`] (what ports counted), [`stalls`] (how
//! busy the machine is).

mod error;
pub mod line;
pub mod owner;
pub mod queues;
mod script;
pub mod space;
pub mod stalls;
mod testbed;
pub mod tools;
pub mod trial;

pub use error::Error;
pub use testbed::{LEVELS, Plan, Shaped, Testbed, obstacle};
