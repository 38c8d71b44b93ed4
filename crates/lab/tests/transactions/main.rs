//! Protocols of transactions in the wide-area world: closed forms, failures, and that every run is
//! serializable.
//!
//! `CAVY_SEEDS=1000 cargo test -p cavy-lab --test transactions NAME` tries more seeds, and
//! `CAVY_SEEDS=1000-1999` a piece of them; one that fails is named and runs alone by `CAVY_SEED=n`.

mod bugs;
mod clocks;
mod dast;
mod faults;
mod judge;
mod phases;
mod power;
mod primary;
mod rivals;
mod schedules;
mod tokens;
mod town;
