//! Perséphone and DARC (Demoulin et al., SOSP 2021): the figures of [persephone 5] and the
//! improvements of [persephone 8.2].
//!
//! Each figure is a plan under `plans/persephone/` and the functions that turn its results into the
//! values its claims are about. What the claims expect is in `claims/persephone.toml`, which
//! nothing here reads.

mod adaptation;
mod measure;
mod motivation;
mod options;
mod preemption;
mod reservation;
mod rivals;

use cavy_study::source::Source;

/// Perséphone and its figures.
pub fn source() -> Source {
    Source {
        id: "persephone",
        title: "Perséphone: when idling is ideal",
        question: "Which policy keeps short requests fast beside long ones on one server, and \
                   whom does it cost?",
        summary: "Reserving a few workers for short requests, and leaving them idle while long \
                  ones wait, lets a server meet a tight tail objective at more than twice the \
                  load. Every figure of the source is made again with the policies it was compared \
                  with, on the same arrivals, and every claim is judged.",
        claims: include_str!("claims.toml"),
        live_claims: include_str!("live.toml"),
        live: "cavy live sched",
        live_study: "cavy live study",
        figures: vec![
            &motivation::FIG1,
            &reservation::FIG3,
            &reservation::FIG4A,
            &reservation::FIG4B,
            &rivals::FIG5A,
            &rivals::FIG5B,
            &rivals::FIG6,
            &rivals::FIG7,
            &adaptation::FIG8,
            &adaptation::FIG9,
            &preemption::FIG10A,
            &preemption::FIG10B,
            &options::O1,
            &options::O2,
            &options::O4,
        ],
    }
}
