//! The hand-offs of `live`, compiled with loom's locks and atomics in place of the real ones.
//!
//! The files are live's own. `tests/` runs every interleaving of them.

#[path = "../../../crates/live/src/handoff.rs"]
pub mod handoff;
#[path = "../../../crates/live/src/sync.rs"]
#[allow(dead_code)]
mod sync;
#[path = "../../../crates/live/src/pool/task.rs"]
#[allow(dead_code)]
pub mod task;
