//! What 64 random bits stand for: a fraction, a place in a list, the outcome of a biased coin.
//!
//! Each takes exactly one random number and rejects none, which is what lets request n use number
//! n.

/// A number strictly between 0 and 1: an odd multiple of 2^-53, from the upper 52 bits. Neither end
/// occurs, so that both tails of every law stay finite.
///
/// The bits become a float in 1..2 as they are and not by conversion: that instruction of x86 waits
/// for whatever its register held before, here the logarithm of the draw before, so that Poisson
/// requests took 35 ns instead of 17.
#[inline]
pub(crate) fn unit(bits: u64) -> f64 {
    const BELOW_ONE: f64 = 1.0 - f64::EPSILON / 2.0;
    f64::from_bits(1.0f64.to_bits() | bits >> 12) - BELOW_ONE
}

/// A whole number in `0..count`; 0 when `count` is 0. The bias is below `count` / 2^64.
#[inline]
pub(crate) fn place(bits: u64, count: u64) -> u64 {
    ((u128::from(bits) * u128::from(count)) >> 64) as u64
}

/// The integer that `bits >> 1` lies below with probability `ratio`. One bit is given up so that
/// both never (0) and always (2^63) exist. NaN and negative ratios mean never.
pub(crate) fn threshold(ratio: f64) -> u64 {
    const ALWAYS: u64 = 1 << 63;
    ((ratio * ALWAYS as f64) as u64).min(ALWAYS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_odd_multiples_of_two_to_the_minus_53_and_never_an_end() {
        let step = f64::EPSILON / 2.0;
        assert_eq!(unit(0), step);
        assert_eq!(unit(1 << 12), 3.0 * step);
        assert_eq!(unit(1 << 63), 0.5 + step);
        assert_eq!(unit(u64::MAX), 1.0 - step);
    }

    #[test]
    fn thresholds_know_never_and_always() {
        assert_eq!(threshold(0.0), 0);
        assert_eq!(threshold(f64::NAN), 0);
        assert_eq!(threshold(-1.0), 0);
        assert_eq!(threshold(0.5), 1 << 62);
        assert!(u64::MAX >> 1 < threshold(1.0));
        assert_eq!(threshold(7.0), threshold(1.0));
    }

    #[test]
    fn places_fill_the_list_evenly() {
        assert_eq!(place(u64::MAX, 0), 0);
        assert_eq!((place(0, 3), place(1 << 63, 3), place(u64::MAX, 3)), (0, 1, 2));
        assert_eq!(place(u64::MAX, u64::MAX), u64::MAX - 1);
    }
}
