//! Labels and keys that the plans of this source have.

pub const OPT: &str = "OPT";
pub const PTN: &str = "PTN";
pub const SW: &str = "SW";
pub const DISSOLVED: &str = "PTN, dissolved";
pub const SHARDS: &str = "fixed shards";
pub const REINDEXED: &str = "fixed shards, reindexed";
pub const PLAIN: &str = "ROAR";
pub const ADJUST: &str = "ROAR + adjustment";
pub const SPLIT: &str = "ROAR + 3 splits";
pub const RINGS: &str = "ROAR, 2 rings";
pub const DOUBLE: &str = "ROAR, 2p parts";
pub const FREE: &str = "ROAR, free placement, 2p parts";

/// The swept keys.
pub const LOAD: &str = "load";
pub const P: &str = "p";
pub const DEAD: &str = "dead_servers";
pub const FRONT_ENDS: &str = "front_ends";
