//! How long messages are: discrete size distributions, and the load they make.
//!
//! A distribution is a list of sizes with cumulative probabilities, read as steps: a size that is
//! not in the list never occurs. Interpolating between rows would lower the mean by 1 to 5 % and
//! invent sizes `[homa 4.1]`.
//!
//! Load counts everything a message puts on the wire: headers, gaps between frames, and the grants
//! that Homa pays for it. [`payload_ratio`] is the part of it that is payload `[homa 4.2]`; all
//! transports get the same messages, whatever their own headers cost.

mod published;

use crate::bits::place;
use alloc::vec::Vec;
use cavy_core::Stream;
use core::fmt;

/// The longest message: the offset of every byte fits 31 bits.
pub const BYTES_MAX: u32 = 1 << 31;

/// A published workload `[homa 4.1]`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Published {
    /// Facebook memcached, mean 188 bytes.
    W1,
    /// Google web search, mean 441 bytes.
    W2,
    /// All RPCs of a Google data center, mean 2.9 kB.
    W3,
    /// Facebook Hadoop, mean 128 kB.
    W4,
    /// Web search as measured for DCTCP, mean 2.6 MB.
    W5,
}

impl Published {
    /// All five, shortest messages first.
    pub const ALL: [Published; 5] =
        [Published::W1, Published::W2, Published::W3, Published::W4, Published::W5];

    /// `W1` to `W5`.
    pub const fn name(self) -> &'static str {
        match self {
            Published::W1 => "W1",
            Published::W2 => "W2",
            Published::W3 => "W3",
            Published::W4 => "W4",
            Published::W5 => "W5",
        }
    }

    /// Its sizes.
    pub fn sizes(self) -> Sizes {
        let rows = match self {
            Published::W1 => &published::W1,
            Published::W2 => &published::W2,
            Published::W3 => &published::W3,
            Published::W4 => &published::W4,
            Published::W5 => &published::W5,
        };
        Sizes::indexed(rows.to_vec())
    }
}

/// A distribution of message sizes, ready to draw from.
#[derive(Clone, PartialEq, Debug)]
pub struct Sizes {
    /// (bytes, cumulative probability); both ascend strictly, the last probability is 1.
    rows: Vec<(u32, f64)>,
    /// `guide[i]` is the first row whose probability reaches `i / GUIDE`, so that a draw looks at
    /// one or two rows and not at seven.
    guide: Vec<u32>,
}

const GUIDE: usize = 1024;

impl Sizes {
    /// The distribution with these (bytes, cumulative probability) rows: sizes from 1 to
    /// [`BYTES_MAX`], strictly ascending; probabilities above 0, not descending, the last within
    /// 10^-9 of 1. A row that adds no probability is left out.
    pub fn new(rows: &[(u32, f64)]) -> Result<Sizes, SizesError> {
        let mut kept: Vec<(u32, f64)> = Vec::with_capacity(rows.len());
        let mut before = (0, 0.0);
        for (row, &(bytes, cumulative)) in rows.iter().enumerate() {
            if bytes == 0 || bytes > BYTES_MAX {
                return Err(SizesError::Bytes { row, bytes });
            }
            if bytes <= before.0 {
                return Err(SizesError::Unsorted { row, bytes, before: before.0 });
            }
            if !(before.1..=1.0 + 1e-9).contains(&cumulative) {
                return Err(SizesError::Cumulative { row, cumulative, before: before.1 });
            }
            if cumulative > before.1 {
                kept.push((bytes, cumulative));
            }
            before = (bytes, cumulative);
        }
        match kept.last_mut() {
            None => return Err(SizesError::Empty),
            Some((_, last)) if *last < 1.0 - 1e-9 => {
                return Err(SizesError::Incomplete { cumulative: *last });
            }
            Some((_, last)) => *last = 1.0,
        }
        Ok(Sizes::indexed(kept))
    }

    /// Messages of one size, at least 1.
    pub fn constant(bytes: u32) -> Result<Sizes, SizesError> {
        Sizes::new(&[(bytes, 1.0)])
    }

    /// W1 as the model it was made from: fifteen listed sizes, then a generalized Pareto law
    /// rounded up to whole bytes and cut at `max_bytes` (at least 16). The published cut-offs of W1
    /// need this form `[homa 2.6, 4.1]`.
    pub fn analytic_w1(max_bytes: u32) -> Result<Sizes, SizesError> {
        if max_bytes < 16 {
            return Err(SizesError::Bytes { row: 15, bytes: max_bytes });
        }
        const LISTED: [f64; 15] = [
            0.00583, 0.18403, 0.27642, 0.27660, 0.30400, 0.30465, 0.31071, 0.31094, 0.31931,
            0.32768, 0.41757, 0.41849, 0.42175, 0.44155, 0.47,
        ];
        const K: f64 = 0.348_238;
        const SIGMA: f64 = 214.476;
        let mut rows: Vec<(u32, f64)> = (1..).zip(LISTED).collect();
        // P(size <= s) = 1 - 0.53 (1 + (s - 15) K / SIGMA)^(-1/K). Above some thousand bytes single
        // bytes carry no visible probability: steps of a thousandth keep every quantile within
        // that.
        let mut bytes = 16;
        while bytes < max_bytes {
            let excess = f64::from(bytes - 15);
            let above = 0.53 * libm::pow(1.0 + excess * K / SIGMA, -1.0 / K);
            rows.push((bytes, 1.0 - above));
            bytes += 1.max(bytes / 1000);
        }
        rows.push((max_bytes, 1.0));
        Sizes::new(&rows)
    }

    fn indexed(rows: Vec<(u32, f64)>) -> Sizes {
        let mut guide = Vec::with_capacity(GUIDE);
        let mut row = 0;
        for i in 0..GUIDE {
            while rows[row].1 < i as f64 / GUIDE as f64 {
                row += 1;
            }
            guide.push(row as u32);
        }
        Sizes { rows, guide }
    }

    /// Shorter sizes become `min_bytes` and longer ones `max_bytes`, keeping their probability:
    /// what the benchmarks of the Linux module do with 8 and 1,000,000 `[homa 4.1]`.
    pub fn clamped(&self, min_bytes: u32, max_bytes: u32) -> Result<Sizes, SizesError> {
        if min_bytes == 0 || min_bytes > max_bytes || max_bytes > BYTES_MAX {
            return Err(SizesError::Clamp { min_bytes, max_bytes });
        }
        Ok(self.mapped(|bytes| bytes.clamp(min_bytes, max_bytes)))
    }

    /// Every size times `to / from`, rounded, one byte at least and [`BYTES_MAX`] at most; `from`
    /// is not 0. Sizes that become the same share one row. W5 was measured in packets, which the
    /// source's cluster takes for 1470 bytes and its simulations for 1442 `[homa 4.1]`.
    pub fn scaled(&self, from: u32, to: u32) -> Sizes {
        let (from, to) = (u64::from(from.max(1)), u64::from(to));
        self.mapped(|bytes| {
            let scaled = (u64::from(bytes) * to + from / 2) / from;
            scaled.clamp(1, u64::from(BYTES_MAX)) as u32
        })
    }

    /// With other sizes, which must not descend; those that become the same share one row.
    fn mapped(&self, size: impl Fn(u32) -> u32) -> Sizes {
        let mut rows: Vec<(u32, f64)> = Vec::with_capacity(self.rows.len());
        for &(bytes, cumulative) in &self.rows {
            let bytes = size(bytes);
            match rows.last_mut() {
                Some(last) if last.0 == bytes => last.1 = cumulative,
                _ => rows.push((bytes, cumulative)),
            }
        }
        Sizes::indexed(rows)
    }

    /// (bytes, cumulative probability), ascending; the last probability is 1.
    pub fn rows(&self) -> &[(u32, f64)] {
        &self.rows
    }

    /// (bytes, probability), ascending.
    pub fn steps(&self) -> impl Iterator<Item = (u32, f64)> + '_ {
        let before = core::iter::once(0.0).chain(self.rows.iter().map(|row| row.1));
        self.rows
            .iter()
            .zip(before)
            .map(|(&(bytes, cumulative), before)| (bytes, cumulative - before))
    }

    /// The mean in bytes.
    pub fn mean_bytes(&self) -> f64 {
        self.steps().map(|(bytes, probability)| f64::from(bytes) * probability).sum()
    }

    /// The longest size.
    pub fn max_bytes(&self) -> u32 {
        self.rows[self.rows.len() - 1].0
    }

    /// The size at `u` in (0, 1]: that of the first row whose cumulative probability is at least
    /// `u`. Values outside are taken for the nearer end.
    #[inline]
    pub fn at(&self, u: f64) -> u32 {
        let mut row = self.guide[((u * GUIDE as f64) as usize).min(GUIDE - 1)] as usize;
        // The guide may start one step late for u at the very edge of its cell.
        while row > 0 && self.rows[row - 1].1 >= u {
            row -= 1;
        }
        while row + 1 < self.rows.len() && self.rows[row].1 < u {
            row += 1;
        }
        self.rows[row].0
    }

    /// A size, from one random number.
    #[inline]
    pub fn draw(&self, stream: &mut Stream) -> u32 {
        self.at(stream.unit())
    }

    /// The least size that at least this share of messages does not exceed.
    pub fn quantile(&self, share: f64) -> u32 {
        self.at(share)
    }
}

/// What a message costs on the wire besides its payload, in bytes a packet. The defaults are those
/// by which loads are stated `[homa 2.6, 4.2]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Framing {
    /// Payload bytes of a message that are sent without grants.
    pub unscheduled_bytes: u32,
    /// Payload of a full packet sent without grants, and the rest of such a packet on the wire.
    pub unscheduled_packet: (u32, u32),
    /// Payload of a full packet that was granted, and the rest of such a packet on the wire.
    pub scheduled_packet: (u32, u32),
    /// A grant on the wire, one for each granted packet.
    pub grant_bytes: u32,
    /// The shortest frame on the wire.
    pub frame_min_bytes: u32,
}

impl Default for Framing {
    fn default() -> Self {
        Framing {
            unscheduled_bytes: 9328,
            unscheduled_packet: (1442, 96),
            scheduled_packet: (1456, 82),
            grant_bytes: 84,
            frame_min_bytes: 84,
        }
    }
}

impl Framing {
    /// Wire bytes of one message, with its grants.
    pub fn wire_bytes(&self, message_bytes: u32) -> u64 {
        let blind = message_bytes.min(self.unscheduled_bytes);
        let granted = message_bytes - blind;
        let grants = u64::from(granted.div_ceil(self.scheduled_packet.0));
        self.pieces(blind, self.unscheduled_packet)
            + self.pieces(granted, self.scheduled_packet)
            + grants * u64::from(self.grant_bytes)
    }

    fn pieces(&self, bytes: u32, (payload, rest): (u32, u32)) -> u64 {
        let (full, last) = (bytes / payload, bytes % payload);
        let last = if last > 0 { (last + rest).max(self.frame_min_bytes) } else { 0 };
        u64::from(full) * u64::from(payload + rest) + u64::from(last)
    }
}

/// Payload as a share of all wire bytes of these messages, the factor f of `[homa 4.2]`.
pub fn payload_ratio(sizes: &Sizes, framing: &Framing) -> f64 {
    let wire: f64 = sizes
        .steps()
        .map(|(bytes, probability)| framing.wire_bytes(bytes) as f64 * probability)
        .sum();
    sizes.mean_bytes() / wire
}

/// Messages per second at which a link of `link_bits_per_s` carries `load` (1 is full) of these
/// messages, headers and grants included `[homa 4.2]`.
pub fn rate_per_s(sizes: &Sizes, framing: &Framing, load: f64, link_bits_per_s: f64) -> f64 {
    load * link_bits_per_s * payload_ratio(sizes, framing) / (8.0 * sizes.mean_bytes())
}

/// Where in (0, 1] message `number` of one of `hosts` hosts is drawn from, so that in each block of
/// `block` messages a host, all hosts together hit each of `hosts` x `block` equal strata once.
/// Short runs then have the load they should have, instead of one that is 5 % off `[homa 4.4]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Strata {
    hosts: u64,
    block: u64,
    bits: u32,
    seed: u64,
}

impl Strata {
    /// Strata for `hosts` hosts (at least 1) and blocks of `block` messages each (at least 1).
    pub fn new(seed: u64, hosts: u32, block: u32) -> Strata {
        let (hosts, block) = (u64::from(hosts.max(1)), u64::from(block.max(1)));
        let bits = 64 - (hosts * block).saturating_sub(1).leading_zeros();
        Strata { hosts, block, bits: bits.max(2), seed }
    }

    /// The place of message `number` (from 0) of `host`; `jitter` are 64 random bits that place it
    /// within its stratum.
    pub fn unit(&self, host: u32, number: u64, jitter: u64) -> f64 {
        let count = self.hosts * self.block;
        let mut stratum = u64::from(host) % self.hosts * self.block + number % self.block;
        // A permutation of the next power of two, applied until it lands inside: a permutation of
        // the strata that needs no memory.
        loop {
            stratum = self.permuted(stratum, number / self.block);
            if stratum < count {
                break;
            }
        }
        // The middle of one of 2^20 parts, so that rounding never reaches the next stratum.
        let within = (place(jitter, 1 << 20) as f64 + 0.5) / (1u64 << 20) as f64;
        (stratum as f64 + within) / count as f64
    }

    /// Four rounds of steps that can each be undone: add a key, multiply by an odd number, fold the
    /// upper half onto the lower.
    fn permuted(&self, stratum: u64, block: u64) -> u64 {
        let mask = (1u64 << self.bits) - 1;
        let mut key = self.seed ^ block.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut x = stratum;
        for _ in 0..4 {
            key = (key ^ (key >> 31)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
            x = x.wrapping_add(key) & mask;
            x = x.wrapping_mul(key | 1) & mask;
            x ^= x >> (self.bits / 2);
        }
        x
    }
}

/// Why rows are no distribution of sizes. Rows count from 0.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum SizesError {
    /// There is no row with any probability.
    Empty,
    /// A size is zero or too long.
    Bytes {
        /// Which row.
        row: usize,
        /// Its size.
        bytes: u32,
    },
    /// A size is not above the one before it.
    Unsorted {
        /// Which row.
        row: usize,
        /// Its size.
        bytes: u32,
        /// The size before it.
        before: u32,
    },
    /// A cumulative probability is below the one before it, above 1, or not a number.
    Cumulative {
        /// Which row.
        row: usize,
        /// Its probability.
        cumulative: f64,
        /// The probability before it.
        before: f64,
    },
    /// The last cumulative probability is not 1.
    Incomplete {
        /// What it is.
        cumulative: f64,
    },
    /// The limits of [`Sizes::clamped`] leave no size.
    Clamp {
        /// The lower limit.
        min_bytes: u32,
        /// The upper limit.
        max_bytes: u32,
    },
}

impl fmt::Display for SizesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            SizesError::Empty => write!(f, "there are no sizes; give at least one row"),
            SizesError::Bytes { row, bytes } => {
                write!(f, "row {row}: bytes is {bytes}, must be from 1 to {BYTES_MAX}")
            }
            SizesError::Unsorted { row, bytes, before } => write!(
                f,
                "row {row}: bytes is {bytes} after {before}; sort the rows by size, each size once"
            ),
            SizesError::Cumulative { row, cumulative, before } => write!(
                f,
                "row {row}: cumulative is {cumulative}, must be from {before} (the row before) to 1"
            ),
            SizesError::Incomplete { cumulative } => write!(
                f,
                "the last cumulative is {cumulative}, must be 1; are these probabilities of single \
                 sizes?"
            ),
            SizesError::Clamp { min_bytes, max_bytes } => write!(
                f,
                "min_bytes {min_bytes} and max_bytes {max_bytes} must be from 1 to {BYTES_MAX} and \
                 ascend"
            ),
        }
    }
}

impl core::error::Error for SizesError {}
