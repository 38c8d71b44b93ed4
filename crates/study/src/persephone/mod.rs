//! Perséphone and DARC (Demoulin et al., SOSP 2021): the figures of [persephone 5] and the
//! improvements of [persephone 8.2].
//!
//! Each figure is a plan under `plans/persephone/` and the functions that turn its results into the
//! values its claims are about. What the claims expect is in `claims/persephone.toml`, which nothing
//! here reads.

mod adaptation;
mod measure;
mod motivation;
mod options;
mod preemption;
mod reservation;
mod rivals;

use crate::figure::System;

/// Perséphone and its figures.
pub fn system() -> System {
    System {
        id: "persephone",
        title: "Perséphone: when idling is ideal",
        summary: "Reserving a few workers for short requests, and leaving them idle while long ones \
                  wait, lets a server meet a tight tail objective at more than twice the load. Every \
                  figure of the source is made again with the policies it was compared with, on the \
                  same arrivals, and every claim is judged.",
        claims: include_str!("../../claims/persephone.toml"),
        figures: vec![
            motivation::FIG1.into(),
            reservation::FIG3.into(),
            reservation::FIG4A.into(),
            reservation::FIG4B.into(),
            rivals::FIG5A.into(),
            rivals::FIG5B.into(),
            rivals::FIG6.into(),
            rivals::FIG7.into(),
            adaptation::FIG8.into(),
            adaptation::FIG9.into(),
            preemption::FIG10A.into(),
            preemption::FIG10B.into(),
            options::O1.into(),
            options::O2.into(),
            options::O4.into(),
        ],
    }
}
