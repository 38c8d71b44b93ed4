//! Windows of the unchanged application: how far they differ, and whether the speed of the machine
//! explains it.
//!
//! Measured before anything is predicted, so that how throughput goes with speed is known and
//! written down before the first truth.

use super::Point;
use crate::wordpress::Settings;
use cavy_groups::rank::Observed;
use cavy_groups::speed::{Rates, Spread};
use serde::{Deserialize, Serialize};

/// Settings of the application, and windows in which nothing was changed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Kind {
    /// The settings.
    pub settings: Settings,
    /// In order.
    pub seen: Vec<Observed>,
}

/// All kinds, and how far their windows differ.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Unchanged {
    /// One for each application that changes begin with.
    pub kinds: Vec<Kind>,
    /// How far windows differ; `None` of too few.
    pub spread: Option<Spread>,
}

impl Unchanged {
    /// What was seen. Windows in which others took much of the machine do not count.
    pub(super) fn of(kinds: Vec<Kind>) -> Unchanged {
        let quiet = |kind: &Kind| -> Vec<(f64, Rates)> {
            let quiet = kind.seen.iter().filter(|one| one.weather.quiet());
            quiet.filter_map(|one| Some((one.per_s, one.rates?))).collect()
        };
        let spread = Spread::of(&kinds.iter().map(quiet).collect::<Vec<_>>());
        Unchanged { kinds, spread }
    }
}

/// What changes begin with, each once.
pub(super) fn bases(points: &[Point]) -> Vec<Settings> {
    let mut bases = Vec::new();
    for point in points {
        if !bases.contains(&point.before) {
            bases.push(point.before);
        }
    }
    bases
}
