//! Homa (Montazeri et al., SIGCOMM 2018) and its rivals: the figures and tables of [homa 5], and the
//! improvements of [homa 8.2].
//!
//! Each figure is a network plan under `plans/homa/` and the functions that turn its results into the
//! values its claims are about. What the claims expect is in `claims/homa.toml`, which nothing here
//! reads.
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

use crate::figure::System;

/// Homa and its figures.
pub fn system() -> System {
    System {
        id: "homa",
        title: "Homa: a receiver-driven transport that uses priority queues",
        summary: "Receivers grant the shortest messages first and say which of a switch's priority \
                  queues each packet takes; so short messages have short tails on busy networks. The \
                  published tables are made again with the transports Homa was compared with, on the \
                  same messages, and every claim is judged.",
        claims: include_str!("../../claims/homa.toml"),
        figures: vec![
            echo::ECHO.into(),
            slowdown::W1.into(),
            slowdown::W2.into(),
            slowdown::W3.into(),
            slowdown::W4.into(),
            slowdown::W5.into(),
            cluster::W3.into(),
            cluster::W4.into(),
            cluster::W5.into(),
            capacity::CAPACITY.into(),
            capacity::WASTE.into(),
            sweeps::UNSCHEDULED_LEVELS.into(),
            sweeps::CUTOFF.into(),
            sweeps::WEIGHTS.into(),
            sweeps::SCHEDULED_LEVELS.into(),
            sweeps::UNSCHEDULED_BYTES.into(),
            sweeps::BOOST.into(),
            sweeps::SPLIT.into(),
            incast::INCAST.into(),
            losses::LOSS.into(),
            losses::BUFFERS.into(),
            beyond::BEYOND.into(),
            switch::SWITCH.into(),
        ],
    }
}
