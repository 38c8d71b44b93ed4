//! Cut-offs from what arrives: the module's daemon, and an online variant ([homa 2.6], [homa 8.2]
//! point 6).
//!
//! Sizes are counted in logarithmic buckets of 1/8 octave. All sums have 64 bits. There is no
//! timer: a new look is taken when a message arrives and the last look is old.

use crate::config::{Config, Learning, Publish, TailBoost};
use crate::cutoffs::{Cutoffs, LEVELS_MAX};
use crate::machine::Homa;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use cavy_core::Instant;

const BUCKETS: usize = 256;
/// One message; a fraction is left of it after decay.
const ONE: u64 = 1 << 10;

/// What has arrived, and when it was last looked at.
#[derive(Clone, Debug)]
pub(crate) struct Sizes {
    weights: Vec<u64>,
    /// Messages, and their bytes, since the last look.
    fresh: u64,
    fresh_bytes: u64,
    /// Bytes since the last decay.
    decay_bytes: u64,
    next_look_at: Option<Instant>,
    deciles: [u32; 9],
}

/// What a message counts.
#[derive(Clone, Copy)]
struct Counting {
    /// Bytes of a message that travel without grants, or with those that do.
    limit: u32,
    /// Bytes that need no grant.
    blind: u32,
    /// Payload of a full packet.
    packet_bytes: u32,
    /// What a packet costs beside; 0 counts payload, as the module's daemon does.
    overhead_bytes: u32,
    /// A grant on the link, one a packet, which travels at the top; 0 likewise.
    grant_bytes: u32,
}

impl Counting {
    fn of(config: &Config, publish: Publish) -> Counting {
        // The last bytes of a message travel with the unscheduled ones when they are boosted.
        let ends = if config.tail_boost == TailBoost::Off { 1 } else { 2 };
        let (overhead_bytes, grant_bytes) = match publish {
            Publish::Deciles => (0, 0),
            Publish::Imbalance { .. } => {
                let beside = config.overhead_bytes + config.layout.unscheduled_header_bytes();
                (beside, config.frame_min_bytes)
            }
        };
        Counting {
            limit: config.unscheduled_bytes.saturating_mul(ends),
            blind: config.unscheduled_bytes,
            packet_bytes: config.unscheduled_packet_bytes.max(1),
            overhead_bytes,
            grant_bytes,
        }
    }

    fn wire(&self, bytes: u32) -> u64 {
        let packets = u64::from(bytes.div_ceil(self.packet_bytes));
        u64::from(bytes) + packets * u64::from(self.overhead_bytes)
    }

    fn grants(&self, size: u32) -> u64 {
        let packets = size.saturating_sub(self.blind).div_ceil(self.packet_bytes);
        u64::from(packets) * u64::from(self.grant_bytes)
    }
}

/// What a bucket in use holds.
struct Row {
    /// Its largest size.
    size: u32,
    /// Bytes that travel without grants.
    head: u64,
    /// Bytes of grants.
    grants: u64,
    /// All bytes, grants included.
    all: u64,
}

/// What the sizes say.
struct Proposal {
    cutoffs: Cutoffs,
    unscheduled_levels: u8,
    /// What the share of unscheduled bytes comes to, in quarters of a level.
    level_quarters: u32,
}

/// The bucket of a size; sizes below 8 have their own.
fn bucket(size: u32) -> usize {
    if size < 8 {
        return size as usize;
    }
    let octave = size.ilog2();
    let eighth = (size >> (octave - 3)) & 7;
    ((octave - 2) * 8 + eighth) as usize
}

/// The largest size in `bucket`.
fn largest(bucket: usize) -> u32 {
    if bucket < 8 {
        return bucket as u32;
    }
    let (octave, eighth) = (bucket as u32 / 8 + 2, bucket as u64 % 8);
    let end = (8 + eighth + 1) << (octave - 3);
    (end - 1).min(u32::MAX.into()) as u32
}

impl Sizes {
    pub(crate) fn new() -> Sizes {
        Sizes {
            weights: vec![0; BUCKETS],
            fresh: 0,
            fresh_bytes: 0,
            decay_bytes: 0,
            next_look_at: None,
            deciles: [0; 9],
        }
    }

    fn add(&mut self, size: u32) {
        self.weights[bucket(size)] += ONE;
        self.fresh += 1;
        self.fresh_bytes = self.fresh_bytes.saturating_add(size.into());
        self.decay_bytes = self.decay_bytes.saturating_add(size.into());
    }

    fn decay(&mut self, keep_per_mille: u32) {
        for weight in &mut self.weights {
            *weight = *weight / 1_000 * u64::from(keep_per_mille)
                + *weight % 1_000 * u64::from(keep_per_mille) / 1_000;
        }
    }

    /// The buckets in use, by size.
    fn rows(&self, counting: Counting) -> impl Iterator<Item = Row> + '_ {
        self.weights.iter().enumerate().filter(|(_, weight)| **weight > 0).map(
            move |(index, &weight)| {
                let size = largest(index);
                let times = |bytes: u64| bytes.saturating_mul(weight);
                let grants = counting.grants(size);
                let head = times(counting.wire(size.min(counting.limit)));
                let all = times(counting.wire(size) + grants);
                Row { size, head, grants: times(grants), all }
            },
        )
    }

    /// Equal shares of the unscheduled bytes for as many levels as their fraction of all bytes
    /// entitles them to.
    fn propose(&self, levels: u8, counting: Counting) -> Option<Proposal> {
        let (mut unscheduled, mut grants, mut all) = (0u64, 0u64, 0u64);
        for row in self.rows(counting) {
            unscheduled = unscheduled.saturating_add(row.head).saturating_add(row.grants);
            grants = grants.saturating_add(row.grants);
            all = all.saturating_add(row.all);
        }
        if all == 0 {
            return None;
        }
        let share = u128::from(unscheduled) * u128::from(levels) * 2 + u128::from(all);
        let share = (share / (2 * u128::from(all))) as u8;
        let most = (levels - 1).max(1);
        let count = share.clamp(1, most);
        let quarters = u128::from(unscheduled) * u128::from(levels) * 4 / u128::from(all);
        let level_quarters = (quarters as u32).clamp(4, 4 * u32::from(most));
        let target = 1 + unscheduled / u64::from(count);
        let mut bounds = [0; LEVELS_MAX as usize];
        let (mut found, mut sum, mut next) = (0usize, grants, target);
        for row in self.rows(counting) {
            sum = sum.saturating_add(row.head);
            while sum >= next && found + 1 < usize::from(count) {
                bounds[found] = row.size;
                found += 1;
                next = next.saturating_add(target);
            }
        }
        let cutoffs = Cutoffs::new(levels, &bounds[..found])?;
        Some(Proposal { cutoffs, unscheduled_levels: count, level_quarters })
    }

    /// The largest share of unscheduled bytes that one level has, per mille of an equal share.
    fn imbalance(&self, cutoffs: &Cutoffs, count: u8, counting: Counting) -> u64 {
        let mut shares = [0u64; LEVELS_MAX as usize];
        for row in self.rows(counting) {
            for (size, bytes) in [(0, row.grants), (row.size, row.head)] {
                let share = &mut shares[usize::from(cutoffs.level(size))];
                *share = share.saturating_add(bytes);
            }
        }
        let most = shares.iter().copied().max().unwrap_or(0);
        let all: u128 = shares.iter().map(|&share| u128::from(share)).sum();
        (u128::from(most) * u128::from(count) * 1_000 / all.max(1)) as u64
    }

    fn deciles(&self) -> [u32; 9] {
        let all: u128 = self.weights.iter().map(|&weight| u128::from(weight)).sum();
        let mut deciles = [0; 9];
        let (mut found, mut sum) = (0, 0u128);
        for (index, &weight) in self.weights.iter().enumerate() {
            sum += u128::from(weight);
            while found < 9 && sum * 10 >= all * (found as u128 + 1) && all > 0 {
                deciles[found] = largest(index);
                found += 1;
            }
        }
        deciles
    }
}

impl Homa {
    /// Is it to learn cut-offs, has seen messages, and never had enough of them to look at?
    pub fn never_looked(&self) -> bool {
        self.sizes.next_look_at.is_some() && self.counters.cutoffs_looked == 0
    }

    /// A message of `size` bytes has arrived: count it, and take a look when one is due.
    pub(crate) fn learn(&mut self, size: u32, now: Instant) {
        let Some(learning) = self.config.learning else { return };
        self.sizes.add(size);
        let due = *self.sizes.next_look_at.get_or_insert(now + learning.interval);
        let sizes = &self.sizes;
        let few = sizes.fresh < learning.messages_min && sizes.fresh_bytes < learning.bytes_min;
        if now < due || few {
            return;
        }
        self.sizes.next_look_at = Some(now + learning.interval);
        self.sizes.fresh = 0;
        self.sizes.fresh_bytes = 0;
        self.counters.cutoffs_looked += 1;
        self.look(&learning);
        if self.sizes.decay_bytes >= learning.memory_bytes {
            self.sizes.decay_bytes = 0;
            self.sizes.decay(learning.keep_per_mille);
        }
    }

    fn look(&mut self, learning: &Learning) {
        let counting = Counting::of(&self.config, learning.publish);
        let Some(proposal) = self.sizes.propose(self.config.levels, counting) else { return };
        let publish = match learning.publish {
            Publish::Deciles => {
                let deciles = self.sizes.deciles();
                let moved = |(&new, &old): (&u32, &u32)| {
                    u64::from(new.abs_diff(old)) * 1_000 / u64::from(old.max(1))
                };
                let moves = deciles.iter().zip(&self.sizes.deciles).map(moved).sum::<u64>();
                let far = moves >= 1_000;
                if far {
                    self.sizes.deciles = deciles;
                }
                far
            }
            Publish::Imbalance { per_mille } => {
                let count = proposal.unscheduled_levels;
                let now = self.sizes.imbalance(&self.own_cutoffs, count, counting);
                let then = self.sizes.imbalance(&proposal.cutoffs, count, counting);
                let levels = 4 * u32::from(self.own_cutoffs.unscheduled_levels());
                now > then + u64::from(per_mille) || levels.abs_diff(proposal.level_quarters) >= 3
            }
        };
        if publish && proposal.cutoffs != self.own_cutoffs {
            self.own_cutoffs = proposal.cutoffs;
            self.own_version = self.own_version.checked_add(1).unwrap_or(1);
            let before = self.config.scheduled_levels;
            let scheduled = (self.config.levels - proposal.unscheduled_levels).max(1);
            Arc::make_mut(&mut self.config).scheduled_levels = scheduled;
            if self.grants.overcommit == before {
                // As many senders are granted as there are levels for them ([homa 2.6]).
                self.grants.overcommit = scheduled;
                while self.grants.active.len() > usize::from(scheduled) {
                    self.demote(self.grants.active.len() - 1);
                }
                // Rungs belong to ranks, from the lowest up.
                for (rung, active) in (0u8..).zip(self.grants.active.iter_mut().rev()) {
                    active.rung = rung;
                }
                self.backfill();
            }
            self.counters.cutoffs_learned += 1;
        }
    }
}
