//! A cluster that searches, in the wide-area world: whatever fails, answers hold what was written,
//! and what was asked for is reached when faults are over.
//!
//! `CAVY_SEEDS=1000 cargo test -p cavy-lab --test search NAME` tries more seeds; one that fails is
//! named and runs alone by `CAVY_SEED=n`.

mod bugs;
mod faults;
mod town;
