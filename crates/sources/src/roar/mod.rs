//! ROAR (Raiciu et al., SIGCOMM 2009): search whose spread is an arc's length on a ring.
//!
//! The digits of the paper could not be had; its shapes are claimed, and the tables of the
//! specification, which come from a simulator of its own [roar 5].

mod changes;
mod cost;
mod measure;
mod plans;
mod rivals;
mod spread;

use cavy_study::source::Source;

/// ROAR and its figures.
pub fn source() -> Source {
    Source {
        id: "roar",
        title: "ROAR: search whose spread can be changed while it runs",
        question: "Over how many servers should a query be spread, at which load, and by which \
                   scheme?",
        summary: "A large p makes queries fast and their work dear, so the best p falls as load \
                  rises. ROAR makes p the length of an arc, free to change, for one more copy of \
                  each document; schemes with fixed parts choose better among unequal servers. \
                  Placement of servers on the ring, refinements and failures are measured beside.",
        claims: include_str!("claims.toml"),
        live_claims: include_str!("live.toml"),
        live: "cavy live search",
        live_study: "cavy live study search",
        figures: vec![
            &cost::COST,
            &spread::DELAY,
            &spread::THROUGHPUT,
            &rivals::IDENTICAL,
            &rivals::ALGORITHMS,
            &rivals::ORDERS,
            &rivals::PICKS,
            &rivals::PLACEMENT,
            &rivals::RINGS,
            &rivals::RECALL,
            &spread::FAILURES,
            &rivals::FRONTENDS,
            &spread::UPDATES,
            &changes::CHANGE,
            &changes::RIVALS_CHANGE,
            &changes::CRASHES,
            &changes::MEMBERSHIP,
            &changes::BALANCE,
            &changes::TAIL,
        ],
    }
}
