//! What a transport is built for, and how far that is from the published network.

use super::fabric::Fabric;
use super::plan::WorkloadName;
use cavy_core::Span;
use cavy_homa::rivals;
use cavy_workload::Sizes;

/// What the published constants assume a round trip to carry, and to take.
const RTT_BYTES: f64 = 10_000.0;
const RTT_NS: f64 = 7_800.0;

/// What a transport is built for.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// The network.
    pub fabric: &'a Fabric,
    /// Message sizes.
    pub sizes: &'a Sizes,
    /// A published workload, as it is.
    pub workload: Option<WorkloadName>,
    /// Are messages questions?
    pub asks: bool,
    /// Can packets be lost, beside what full buffers lose?
    pub lossy: bool,
    /// Was a buffer given by the plan?
    pub buffer_given: bool,
    /// Length of the whole run: nobody may give up before.
    pub length: Span,
}

impl Surroundings<'_> {
    /// How many times the published round trip's bytes, at least once.
    pub(super) fn growth(&self) -> f64 {
        (f64::from(self.fabric.rtt_bytes) / RTT_BYTES).max(1.0)
    }

    /// How many times the published round trip, at least once.
    pub(super) fn slowness(&self) -> f64 {
        (self.fabric.round_trip.as_ns() as f64 / RTT_NS).max(1.0)
    }

    pub(super) fn grown(&self, amount: u32) -> u32 {
        (f64::from(amount) * self.growth()).ceil() as u32
    }

    pub(super) fn slowed(&self, us: f64) -> Span {
        Span::from_ns((us * 1e3 * self.slowness()).round() as u64)
    }

    /// A rival's full packet on the wire.
    pub(super) fn frame_bytes(&self) -> u32 {
        self.fabric.network.framing.wire_bytes(rivals::HEADER_BYTES + rivals::PAYLOAD_BYTES)
    }

    pub(super) fn patience(&self) -> Span {
        Span::from_ms(1_000).max(self.length.saturating_mul(20))
    }
}
