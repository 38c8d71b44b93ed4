//! Time on links: whole picoseconds, because a byte at 40 Gb/s takes a fifth of a nanosecond.
//!
//! Every rate whose bits divide 8 x 10^12 evenly (1, 10, 25, 40, 100, 200, 400 Gb/s and all decimal
//! parts of them) has a whole number of picoseconds a byte, so packets take exactly the time they
//! should. Other rates keep 20 more binary digits and round each packet to a picosecond. Machines
//! see nanoseconds, rounded down: they have no finer clock.

use cavy_core::{Instant, Span};

/// Picoseconds since the epoch, or a length in picoseconds. 2^64 of them are 213 days.
pub type Ps = u64;

/// Picoseconds in a nanosecond.
pub const PS_PER_NS: u64 = 1_000;

const FRACTION_BITS: u32 = 20;

/// `span` in picoseconds.
pub const fn ps(span: Span) -> Ps {
    span.as_ns().saturating_mul(PS_PER_NS)
}

/// The nanosecond that `at` lies in: the time machines see.
#[inline]
pub const fn instant(at: Ps) -> Instant {
    Instant::from_ns(at / PS_PER_NS)
}

/// When the nanosecond `at` begins; the end of time when that is too late to tell.
#[inline]
pub const fn begin(at: Instant) -> Ps {
    at.as_ns().saturating_mul(PS_PER_NS)
}

/// The speed of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    bits_per_s: u64,
    /// Picoseconds a byte, with [`FRACTION_BITS`] binary digits of fraction.
    byte: u64,
}

impl Rate {
    /// The slowest link there is: 1 Mb/s.
    pub const MIN_BITS_PER_S: u64 = 1_000_000;
    /// The fastest link there is: 8 Tb/s.
    pub const MAX_BITS_PER_S: u64 = 8_000_000_000_000;

    /// `bits_per_s` from [`Rate::MIN_BITS_PER_S`] to [`Rate::MAX_BITS_PER_S`], or `None`.
    pub const fn new(bits_per_s: u64) -> Option<Rate> {
        if bits_per_s < Rate::MIN_BITS_PER_S || bits_per_s > Rate::MAX_BITS_PER_S {
            return None;
        }
        let scaled = 8_000_000_000_000u128 << FRACTION_BITS;
        let byte = (scaled + bits_per_s as u128 / 2) / bits_per_s as u128;
        Some(Rate { bits_per_s, byte: byte as u64 })
    }

    /// `gb` Gb/s.
    ///
    /// # Panics
    /// When that is no rate; meant for constants.
    pub const fn gbps(gb: u64) -> Rate {
        match Rate::new(gb * 1_000_000_000) {
            Some(rate) => rate,
            None => panic!("a rate is from 1 Mb/s to 8 Tb/s"),
        }
    }

    /// Bits per second.
    pub const fn bits_per_s(self) -> u64 {
        self.bits_per_s
    }

    /// How long `bytes` take. Exact when a byte takes whole picoseconds, else to the nearest
    /// picosecond but for `bytes` / 2^21.
    #[inline]
    pub const fn time(self, bytes: u32) -> Ps {
        (self.byte * bytes as u64 + (1 << (FRACTION_BITS - 1))) >> FRACTION_BITS
    }

    /// How long `bytes` take, for amounts longer than a packet.
    pub const fn time_long(self, bytes: u64) -> Ps {
        let scaled = self.byte as u128 * bytes as u128 + (1 << (FRACTION_BITS - 1));
        (scaled >> FRACTION_BITS) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_picoseconds_are_exact() {
        for (gb, per_byte) in [(1, 8_000), (10, 800), (25, 320), (40, 200), (100, 80), (400, 20)] {
            let rate = Rate::gbps(gb);
            for bytes in [0, 1, 84, 1538, 9_038, 65_535] {
                assert_eq!(rate.time(bytes), per_byte * u64::from(bytes));
                assert_eq!(rate.time_long(u64::from(bytes)), per_byte * u64::from(bytes));
            }
        }
        assert_eq!(Rate::new(100_000_000).map(|r| r.time(1538)), Some(123_040_000));
    }

    #[test]
    fn other_rates_round_each_packet() {
        for bits in [3_000_000_000u64, 7_000_000_001, 1_234_567] {
            let rate = Rate::new(bits).unwrap();
            for bytes in [1u32, 84, 1538, 65_535] {
                let exact = f64::from(bytes) * 8e12 / bits as f64;
                let off = (rate.time(bytes) as f64 - exact).abs();
                assert!(
                    off <= 0.51 + f64::from(bytes) / f64::from(1 << 21),
                    "{bits} {bytes}: {off}"
                );
            }
        }
    }

    #[test]
    fn rates_have_bounds() {
        assert_eq!(Rate::new(0), None);
        assert_eq!(Rate::new(Rate::MAX_BITS_PER_S + 1), None);
        assert_eq!(Rate::new(Rate::MAX_BITS_PER_S).map(|r| r.time(1)), Some(1));
    }
}
