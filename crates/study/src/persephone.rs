//! Perséphone (SOSP 2021).

use crate::figure::System;

/// Perséphone and its figures.
pub fn system() -> System {
    System {
        id: "persephone",
        title: "Perséphone: when idling is ideal",
        summary: "",
        claims: "claim = []",
        figures: Vec::new(),
    }
}
