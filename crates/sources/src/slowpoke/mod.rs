//! Slowpoke (Xie et al., NSDI 2026): what-if analysis of end-to-end throughput by slowing
//! everything else down.
//!
//! Figures are plans of services. What they are compared with besides claims are the source's own
//! measurements, extracts of which are in `data/`.

mod applications;
mod logs;
mod measure;
mod studies;
mod synthetic;

use cavy_study::source::Source;

/// Slowpoke and its figures.
pub fn source() -> Source {
    Source {
        id: "slowpoke",
        title: "Slowpoke: what would a faster service buy?",
        question: "Which service is worth making faster, and what would the whole gain?",
        summary: "Stopping every other service for as long as a change would save shows what the \
                  change would give to a whole application, before anybody makes it. The source's \
                  applications are run again in the lab, with its mechanism and its slips; its own \
                  measurements are judged as well.",
        claims: include_str!("claims.toml"),
        live_claims: "",
        live: "cavy live whatif",
        live_study: "",
        figures: vec![
            &applications::FIG8,
            &synthetic::FIG9,
            &studies::FIG11,
            &studies::MUTEX,
            &studies::BATCH,
            &studies::COORDINATION,
            &studies::DELIVERED,
        ],
    }
}
