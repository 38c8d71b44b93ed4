//! What switches keep: as it is written, and for the world.

use cavy_lab::net::Buffer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What switches can keep.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected \"unlimited\", { per_port_bytes = 300000 } or { shared_bytes = 12000000, \
                 alpha = 1 }"
)]
pub enum BufferPlan {
    /// In a word.
    Word(BufferWord),
    /// So much at each port.
    PerPort(PerPortPlan),
    /// So much for all ports of a switch.
    Shared(SharedPlan),
}

/// Buffers in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BufferWord {
    /// Everything is kept.
    Unlimited,
}

/// A buffer at each port.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PerPortPlan {
    /// Its size; at least one full frame.
    pub per_port_bytes: u64,
}

/// One memory for all ports of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SharedPlan {
    /// Its size; at least one full frame.
    pub shared_bytes: u64,
    /// A port may hold so many times what is free.
    #[serde(default = "default_alpha")]
    pub alpha: f64,
}

fn default_alpha() -> f64 {
    1.0
}

/// The same for the world.
pub fn buffer(plan: &BufferPlan) -> Buffer {
    match *plan {
        BufferPlan::Word(_) => Buffer::Unlimited,
        BufferPlan::PerPort(one) => Buffer::PerPort { bytes: one.per_port_bytes },
        BufferPlan::Shared(one) => Buffer::Shared { bytes: one.shared_bytes, alpha: one.alpha },
    }
}
