//! Keyed random streams.
//!
//! A stream is addressed by (seed, node, purpose) and not taken from a shared generator, so a draw
//! added in one place shifts nothing anywhere else, and two policies compared under the same seed
//! meet the same arrivals (common random numbers).
//!
//! ChaCha8 derives the state from the key, because it mixes even adjacent keys; xoshiro256++ then
//! serves the draws at about a nanosecond each.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

/// What a stream is for. Two purposes never share draws.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u32)]
pub enum Purpose {
    /// Gaps between arrivals.
    Arrivals = 1,
    /// The type of each request.
    Kinds = 2,
    /// The service time of each request.
    Services = 3,
    /// What a classifier gets wrong.
    Labels = 4,
    /// Draws a machine makes for its own decisions.
    Machine = 5,
    /// Faults a world injects.
    Faults = 6,
    /// The order of simultaneous events, when a world shuffles ties.
    Ties = 7,
    /// Inputs made up by tests.
    Test = 8,
    /// Which of several equal paths a packet takes, and the coins switches toss.
    Routing = 9,
    /// To whom messages go.
    Destinations = 10,
    /// How long messages are.
    Sizes = 11,
    /// How late a host's thread looks at what has come for it, and how long it takes to send.
    Threads = 12,
    /// How long messages take between regions.
    Delays = 20,
    /// How long records take to be stored.
    Disks = 21,
}

/// One deterministic stream of random integers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream(Xoshiro256PlusPlus);

impl Stream {
    /// The stream of `node` for `purpose` under `seed`.
    pub fn keyed(seed: u64, node: u32, purpose: Purpose) -> Self {
        let mut key = [0u8; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..12].copy_from_slice(&node.to_le_bytes());
        key[12..16].copy_from_slice(&(purpose as u32).to_le_bytes());
        let mut state = [0u8; 32];
        ChaCha8Rng::from_seed(key).fill_bytes(&mut state);
        Stream(Xoshiro256PlusPlus::from_seed(state))
    }

    /// The next 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A uniform integer in `0..n`, without bias (Lemire's multiply and reject).
    ///
    /// # Panics
    /// When `n` is zero.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "no integer lies below zero");
        let mut wide = u128::from(self.bits()) * u128::from(n);
        if (wide as u64) < n {
            let reject_under = n.wrapping_neg() % n;
            while (wide as u64) < reject_under {
                wide = u128::from(self.bits()) * u128::from(n);
            }
        }
        (wide >> 64) as u64
    }

    /// A uniform number in `(0, 1]` with 53 random bits; never zero, so its logarithm is finite.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// True with probability `ratio`.
    #[inline]
    pub fn chance(&mut self, ratio: Ratio) -> bool {
        self.below(u64::from(ratio.den)) < u64::from(ratio.num)
    }
}

/// A probability as a fraction, so that configurations compare and hash exactly.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ratio {
    /// Numerator, at most `den`.
    pub num: u32,
    /// Denominator, at least 1.
    pub den: u32,
}

impl Ratio {
    /// Never.
    pub const ZERO: Ratio = Ratio { num: 0, den: 1 };

    /// `num` in `den`; `None` when that is no probability.
    pub const fn new(num: u32, den: u32) -> Option<Ratio> {
        if den == 0 || num > den { None } else { Some(Ratio { num, den }) }
    }
}
