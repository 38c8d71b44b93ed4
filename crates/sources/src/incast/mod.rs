//! Fine-grained TCP retransmissions against incast (Vasudevan et al., SIGCOMM 2009): the figures of
//! [incast 5].
//!
//! Each figure is a network plan under `plans/` and the functions that turn its results into
//! values. What the claims expect is in `claims.toml` and `live.toml`, which
//! nothing here reads.

mod beside;
mod cells;
mod cluster;
mod cure;
mod dctcp;
mod fragment;
mod rtomin;
mod thousands;

use cavy_study::source::Source;

/// Microsecond retransmissions and their figures.
pub fn source() -> Source {
    Source {
        id: "incast",
        title: "TCP with microsecond retransmissions against incast",
        question: "Many servers answer at once, and goodput collapses: which timeout cures it?",
        summary: "Many servers answer one client at once, their packets overflow a port, and a \
                  sender whose whole window is lost waits for its timer. The least timeout of 200 \
                  ms is a thousand round trips; without it the same TCP fills the link.",
        claims: include_str!("claims.toml"),
        live_claims: include_str!("live.toml"),
        live: "cavy live tcp",
        live_study: "cavy live tcp study",
        figures: vec![
            &rtomin::RTOMIN,
            &fragment::FRAGMENT,
            &fragment::BUFFERS,
            &fragment::CENSUS,
            &cluster::CLUSTER,
            &cluster::DELAYED,
            &thousands::THOUSANDS,
            &fragment::LATENCY,
            &cure::MODERN,
            &dctcp::DCTCP,
            &cure::CURE,
            &cure::THOUSANDS,
            &beside::BESIDE,
        ],
    }
}
