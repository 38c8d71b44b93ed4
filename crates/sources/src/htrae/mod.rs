//! Htrae (Agarwal and Lorch, SIGCOMM 2009): network coordinates that begin where addresses are said
//! to be, on measured round trips.
//!
//! The source's trace is not public. What is claimed here is what its abstract says, and what the
//! specification measured on public data with programs of its own ([htrae 5]). Tolerances and the
//! choices that those experiments leave open were written down before a value was seen (decision
//! 19).

mod choices;
mod errors;
mod flagship;
mod measure;
mod parts;
mod peers;

use cavy_study::source::Source;

/// Htrae and its figures.
pub fn source() -> Source {
    Source {
        id: "htrae",
        title: "Htrae: who is near, before anybody has asked",
        question: "Which of many servers or players is near, when only a few can be probed?",
        summary: "Coordinates begin where a database says that addresses are, and every probe \
                  moves them. Beside them: geolocation, Vivaldi, Pyxida, serf and maps by \
                  landmarks, on 213 anchors of RIPE Atlas with a real database's answers. IP \
                  Geolocation by DB-IP (db-ip.com).",
        claims: include_str!("claims.toml"),
        live_claims: include_str!("live.toml"),
        live: "cavy live coords",
        live_study: "cavy live coords study",
        figures: vec![
            &errors::ERROR,
            &parts::PARTS,
            &choices::SERVER,
            &choices::PEER,
            &errors::CONVERGENCE,
            &errors::RIVALS,
            &errors::GEOIP,
            &parts::TRANSFER,
            &peers::PEERS,
            &peers::TAIL,
            &flagship::FLAGSHIP,
        ],
    }
}
