//! A store that speaks Redis's protocol, and whose transactions cross shards and regions.
//!
//! **Problem.** Redis's `MULTI` and scripts are transactions, but its cluster refuses those whose
//! keys are apart. Clients for it are everywhere.
//!
//! **Promise.** An unmodified client talks to any replica. Commands, `MULTI` with `WATCH`, and
//! scripts with declared keys are transactions of the protocol beneath ([`cavy_txn`]), whatever
//! shards and regions their keys are on. Whatever a client sends costs bounded memory and ends with
//! an answer in Redis's form.
//!
//! **Not here.** No protocol of transactions: pieces run on every replica by [`Engine`]. No
//! pub/sub, no blocking commands, no commands that look at all keys.
//!
//! **Reading order.** [`request`] and [`reply`] are the codec; [`datum`] what a key holds,
//! [`command`] what commands do, [`script`] Lua; [`engine`] what pieces do; [`place`] where keys
//! are, [`plan`] how commands become one transaction, [`native`] transactions without commands;
//! `session` is a client's state, [`front`] the thread with the sockets.

pub mod command;
pub mod datum;
pub mod engine;
pub mod front;
pub mod native;
pub mod place;
pub mod plan;
pub mod reply;
pub mod request;
pub mod script;
mod session;

pub use engine::Engine;
pub use front::{Front, FrontOptions};
pub use place::Places;
pub use reply::{Reply, Version};
