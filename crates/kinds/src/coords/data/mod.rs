//! Measured round trips that the program carries, by name.
//!
//! | name | machines | what | from |
//! |---|---|---|---|
//! | `ripe-2018` | 213 | least of four minutes on 2018-01-29, anchors of RIPE Atlas | \[ripe\] |
//! | `aws-2025` | 32 | median of the year until 2025-05-29, regions of AWS | \[aws\] |
//! | `planetlab-490` | 490 | median of 18 slices, PlanetLab | \[net\] |
//! | `seattle-99` | 99 | median of 688 slices, personal devices of the Seattle testbed | \[net\] |
//!
//! \[ripe\]: repository menonsamir/CBG-replication, commit 1f8d4465, MIT; measured by RIPE NCC.
//! \[aws\]: repository oaustegard/oaustegard.github.io, commit 22f8adc2, Apache-2.0; from
//! cloudping.co. \[net\]: repository uofa-rzhu3/NetLatency-Data, commit a5845579, MIT; Zhu, Liu,
//! Niu, Li and Zhao, "Network Latency Estimation for Personal Devices: A Matrix Completion
//! Approach", 2017. Nobody says where these machines were. Kept in steps of 0.1 and 0.5 ms.
//!
//! What RIPE's predictors are told of places is what DB-IP City Lite of June 2026 answers for the
//! anchors' addresses, licence CC BY 4.0: "IP Geolocation by DB-IP" (db-ip.com) stands in each
//! report that shows it. The files are made by `examples/pack_rtt.rs` and
//! `examples/pack_slices.rs`.

pub mod pack;

use super::world::World;

/// A set of measurements.
#[derive(Clone, Copy, Debug)]
struct Carried {
    name: &'static str,
    bytes: &'static [u8],
    credits: &'static [&'static str],
}

const SETS: [Carried; 4] = [
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
    Carried {
        name: "planetlab-490",
        bytes: include_bytes!("planetlab-490.rtt"),
        credits: &[NET_LATENCY],
    },
    Carried {
        name: "seattle-99",
        bytes: include_bytes!("seattle-99.rtt"),
        credits: &[NET_LATENCY],
    },
];

const NET_LATENCY: &str =
    "PlanetLab's and Seattle's round trips: Zhu, Liu, Niu, Li, Zhao 2017, NetLatency-Data (MIT)";

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
