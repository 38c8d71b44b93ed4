//! Homa (Montazeri et al., SIGCOMM 2018) and its rivals: the figures and tables of [homa 5], and
//! the improvements of [homa 8.2].
//!
//! Each figure is a network plan under `plans/homa/` and the functions that turn its results into
//! the values its claims are about. What the claims expect is in `claims/homa.toml`, which nothing
//! here reads.
//!
//! **Reading order.** `slowdown`, the main table; `cluster`; then the rest in any order. `measure`
//! and `show` are what they share.

mod beyond;
mod capacity;
mod cluster;
mod echo;
mod incast;
mod losses;
mod measure;
mod show;
mod slowdown;
mod sweeps;
mod switch;

use cavy_study::source::Source;

/// Homa and its figures.
pub fn source() -> Source {
    Source {
        id: "homa",
        title: "Homa: a receiver-driven transport that uses priority queues",
        question: "Which transport keeps short messages fast in a loaded network, and at what \
                   price to long ones?",
        summary: "Receivers grant the shortest messages first and say which of a switch's priority \
                  queues each packet takes; so short messages have short tails on busy networks. \
                  The published tables are made again with the transports Homa was compared with, \
                  on the same messages, and every claim is judged.",
        claims: include_str!("claims.toml"),
        live_claims: include_str!("live.toml"),
        live: "cavy live homa",
        live_study: "cavy live study",
        figures: vec![
            &echo::ECHO,
            &slowdown::W1,
            &slowdown::W2,
            &slowdown::W3,
            &slowdown::W4,
            &slowdown::W5,
            &cluster::W3,
            &cluster::W4,
            &cluster::W5,
            &capacity::CAPACITY,
            &capacity::WASTE,
            &sweeps::UNSCHEDULED_LEVELS,
            &sweeps::CUTOFF,
            &sweeps::WEIGHTS,
            &sweeps::SCHEDULED_LEVELS,
            &sweeps::UNSCHEDULED_BYTES,
            &sweeps::BOOST,
            &sweeps::SPLIT,
            &incast::INCAST,
            &losses::LOSS,
            &losses::BUFFERS,
            &beyond::BEYOND,
            &switch::SWITCH,
        ],
    }
}
