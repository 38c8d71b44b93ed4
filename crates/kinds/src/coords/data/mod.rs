//! Measured round trips that the program carries, by name.
//!
//! | name | machines | what | from |
//! |---|---|---|---|
//! | `ripe-2018` | 213 | least of four minutes on 2018-01-29, anchors of RIPE Atlas | \[ripe\] |
//! | `aws-2025` | 32 | median of the year until 2025-05-29, regions of AWS | \[aws\] |
//!
//! \[ripe\]: repository menonsamir/CBG-replication, commit 1f8d4465, MIT; measured by RIPE NCC.
//! \[aws\]: repository oaustegard/oaustegard.github.io, commit 22f8adc2, Apache-2.0; from
//! cloudping.co.
//!
//! What RIPE's predictors are told of places is what DB-IP City Lite of June 2026 answers for the
//! anchors' addresses, licence CC BY 4.0: "IP Geolocation by DB-IP" (db-ip.com) stands in each
//! report that shows it. The files are made by `examples/pack_rtt.rs`.

pub mod pack;

use super::world::World;

/// A set of measurements.
#[derive(Clone, Copy, Debug)]
struct Carried {
    name: &'static str,
    bytes: &'static [u8],
    credits: &'static [&'static str],
}

const SETS: [Carried; 2] = [
    Carried {
        name: "ripe-2018",
        bytes: include_bytes!("ripe-2018.rtt"),
        credits: &[
            "round trips: RIPE Atlas anchors, RIPE NCC, 29 January 2018, by CBG-replication (MIT)",
            "positions given to predictors: IP Geolocation by DB-IP (db-ip.com), CC BY 4.0",
        ],
    },
    Carried {
        name: "aws-2025",
        bytes: include_bytes!("aws-2025.rtt"),
        credits: &["round trips: cloudping.co, 29 May 2025, by oaustegard.github.io (Apache-2.0)"],
    },
];

/// The set called `name`.
pub fn named(name: &str) -> Option<World> {
    let set = SETS.iter().find(|set| set.name == name)?;
    let world = pack::decode(set.bytes, set.credits);
    Some(world.expect("what the program carries is well formed: a test reads all of it"))
}

/// Whom to credit for what the program carries.
pub fn credits() -> impl Iterator<Item = &'static str> {
    SETS.iter().flat_map(|set| set.credits.iter().copied())
}
