//! Cut-offs: which level an unscheduled byte gets, by the size of its message ([homa 2.6]).

use alloc::collections::BTreeMap;

/// Most levels a network has.
pub const LEVELS_MAX: u8 = 8;

/// Upper bounds of message sizes for the unscheduled levels, topmost level first. The lowest
/// unscheduled level has none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Cutoffs {
    levels: u8,
    count: u8,
    bounds: [u32; LEVELS_MAX as usize - 1],
}

impl Cutoffs {
    /// Cut-offs for a network of `levels` levels (1 to 8), `bounds` in ascending order, fewer than
    /// there are levels. `None` otherwise. An equal neighbour leaves a level empty, which is legal.
    pub fn new(levels: u8, bounds: &[u32]) -> Option<Cutoffs> {
        let fits = (1..=LEVELS_MAX).contains(&levels) && bounds.len() < usize::from(levels);
        if !fits || !bounds.is_sorted() {
            return None;
        }
        let mut kept = [0; LEVELS_MAX as usize - 1];
        kept[..bounds.len()].copy_from_slice(bounds);
        Some(Cutoffs { levels, count: bounds.len() as u8, bounds: kept })
    }

    /// All unscheduled bytes at the topmost of `levels` levels.
    pub fn none(levels: u8) -> Cutoffs {
        let levels = levels.clamp(1, LEVELS_MAX);
        Cutoffs { levels, count: 0, bounds: [0; LEVELS_MAX as usize - 1] }
    }

    /// The same for a network of `levels` levels of which `unscheduled` are for unscheduled bytes:
    /// the first bounds, as the source's cluster runs with fewer levels had them. `None` when they
    /// do not fit.
    pub fn fewer(&self, levels: u8, unscheduled: u8) -> Option<Cutoffs> {
        let kept = usize::from(unscheduled.checked_sub(1)?).min(self.bounds().len());
        if unscheduled > levels {
            return None;
        }
        Cutoffs::new(levels, &self.bounds()[..kept])
    }

    /// The level of a message of `size_bytes`: sizes up to and including a cut-off belong to it.
    #[inline]
    pub fn level(&self, size_bytes: u32) -> u8 {
        let above = self.bounds().iter().position(|&bound| size_bytes <= bound);
        self.levels - 1 - above.map_or(self.count, |index| index as u8)
    }

    /// The bounds, topmost level first.
    pub fn bounds(&self) -> &[u32] {
        &self.bounds[..usize::from(self.count)]
    }

    /// Levels for unscheduled bytes.
    pub fn unscheduled_levels(&self) -> u8 {
        self.count + 1
    }

    /// Levels of the network.
    pub fn levels(&self) -> u8 {
        self.levels
    }
}

/// How a simulated or real network packs messages: what the static algorithm counts ([homa 2.6]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packing {
    /// Payload of a full unscheduled packet.
    pub unscheduled_packet_bytes: u32,
    /// What an unscheduled packet costs beside.
    pub unscheduled_overhead_bytes: u32,
    /// Payload of a full scheduled packet.
    pub scheduled_packet_bytes: u32,
    /// What a scheduled packet costs beside.
    pub scheduled_overhead_bytes: u32,
    /// Payload that is sent unscheduled.
    pub unscheduled_bytes: u32,
    /// Bytes on the link that count as unscheduled, at the head and at the tail.
    pub rtt_wire_bytes: u32,
    /// Shortest frame, which is also the cost of a grant.
    pub frame_min_bytes: u32,
}

impl Packing {
    /// The simulator's, at 10 Gb/s.
    pub const SIMULATOR: Packing = Packing {
        unscheduled_packet_bytes: 1442,
        unscheduled_overhead_bytes: 96,
        scheduled_packet_bytes: 1456,
        scheduled_overhead_bytes: 82,
        unscheduled_bytes: 9328,
        rtt_wire_bytes: 10_000,
        frame_min_bytes: 84,
    };

    /// Calls `each(payload before, wire bytes, is scheduled)` for the packets of a message.
    fn packets(&self, size_bytes: u32, mut each: impl FnMut(u32, u32, bool)) {
        let mut before = 0;
        while before < size_bytes {
            let scheduled = before >= self.unscheduled_bytes;
            let (piece, wire) = if scheduled {
                let piece = (size_bytes - before).min(self.scheduled_packet_bytes);
                (piece, (piece + self.scheduled_overhead_bytes).max(self.frame_min_bytes))
            } else {
                let end = size_bytes.min(self.unscheduled_bytes);
                let piece = (end - before).min(self.unscheduled_packet_bytes);
                (piece, piece + self.unscheduled_overhead_bytes)
            };
            each(before, wire, scheduled);
            before += piece;
        }
    }

    fn wire_bytes(&self, size_bytes: u32) -> u64 {
        let mut total = 0;
        self.packets(size_bytes, |_, wire, _| total += u64::from(wire));
        total
    }
}

/// What the unscheduled levels divide among them, and how ([homa 5.6]). The published cut-offs
/// divide bytes evenly.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Shares {
    /// What is divided.
    pub of: Shared,
    /// Each level gets so many times what the level above it gets; above 0.
    pub ratio: f64,
}

/// What levels divide.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shared {
    /// Bytes on the link.
    Bytes,
    /// Packets, whatever their length.
    Packets,
}

impl Shares {
    /// The published: as many bytes to each level.
    pub const EVEN: Shares = Shares { of: Shared::Bytes, ratio: 1.0 };

    /// What a packet of so many bytes on the link counts.
    fn count(&self, wire_bytes: u32) -> f64 {
        match self.of {
            Shared::Bytes => f64::from(wire_bytes),
            Shared::Packets => 1.0,
        }
    }
}

/// The static algorithm: cut-offs that divide the unscheduled bytes on the link as `shares` has it
/// among `unscheduled_levels` levels, for messages of known sizes ([homa 2.6]).
///
/// `sizes` are (length in bytes, probability), ascending by length. The head of a message is
/// unscheduled, and its tail is treated as such ([homa 2.8]). With [`ClassedBy::Remaining`], the
/// graduated mode, each packet counts where the rest of its message puts it.
///
/// `None` when `sizes` is empty, the levels do not fit a network of `levels`, or the ratio is not
/// above 0.
///
/// [`ClassedBy::Remaining`]: crate::config::ClassedBy::Remaining
pub fn static_cutoffs(
    sizes: &[(u32, f64)],
    levels: u8,
    unscheduled_levels: u8,
    classed_by: crate::config::ClassedBy,
    packing: &Packing,
    shares: Shares,
) -> Option<Cutoffs> {
    let fits = (1..=levels).contains(&unscheduled_levels);
    if sizes.is_empty() || !fits || !(shares.ratio > 0.0 && shares.ratio.is_finite()) {
        return None;
    }
    let mut weights: BTreeMap<u32, f64> = BTreeMap::new();
    let mut grants = 0.0;
    let rtt = u64::from(packing.rtt_wire_bytes);
    for &(size, probability) in sizes {
        let (mut before, mut left) = (0, packing.wire_bytes(size));
        packing.packets(size, |offset, wire, scheduled| {
            if before < rtt || left < rtt {
                let class = match classed_by {
                    crate::config::ClassedBy::Length => size,
                    crate::config::ClassedBy::Remaining => size - offset,
                };
                *weights.entry(class).or_default() += probability * shares.count(wire);
            }
            before += u64::from(wire);
            left -= u64::from(wire);
            if scheduled {
                grants += probability * shares.count(packing.frame_min_bytes);
            }
        });
    }
    let total = grants + weights.values().sum::<f64>();
    let mut parts = [0.0; LEVELS_MAX as usize];
    let parts = &mut parts[..usize::from(unscheduled_levels)];
    let mut part = 1.0;
    for slot in parts.iter_mut() {
        *slot = part;
        part *= shares.ratio;
    }
    let whole: f64 = parts.iter().sum();
    let share = |level: usize| total * parts[level] / whole;
    let mut bounds = [0; LEVELS_MAX as usize];
    let mut count = 0;
    let (mut sum, mut next) = (grants, share(0));
    for (&size, &weight) in &weights {
        sum += weight;
        while sum >= next && count + 1 < parts.len() {
            bounds[count] = size;
            count += 1;
            next += share(count);
        }
    }
    Cutoffs::new(levels, &bounds[..count])
}
