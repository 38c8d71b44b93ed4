//! The angle of a sine and a cosine, without branches that a processor would have to guess.
//!
//! `libm::atan2` takes one of five ways, and of places at random nobody can guess which. Here the
//! ways are rows of a table. Coefficients and the order of operations are those of the arc tangent
//! in `libm`, so results are the same to the bit.

use core::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};

/// What rounding takes from pi.
const PI_REST: f64 = 1.224_646_799_147_353_2e-16;

/// Where the next piece begins.
const EDGES: [f64; 4] = [0.4375, 0.6875, 1.1875, 2.4375];

/// A stretch of tangents `t` on which `atan(t) = base + rest + atan((a t - b) / (c t + d))`, where
/// the last tangent is small; `rest` is what rounding takes from `base`.
struct Piece {
    a: f64,
    b: f64,
    c: f64,
    d: f64,
    base: f64,
    rest: f64,
}

const fn piece([a, b, c, d]: [f64; 4], base: f64, rest: f64) -> Piece {
    Piece { a, b, c, d, base, rest }
}

const PIECES: [Piece; 5] = [
    piece([1.0, 0.0, 0.0, 1.0], 0.0, 0.0),
    piece([2.0, 1.0, 1.0, 2.0], 4.636_476_090_008_061e-1, 2.269_877_745_296_168_7e-17),
    piece([1.0, 1.0, 1.0, 1.0], FRAC_PI_4, 3.061_616_997_868_383e-17),
    piece([1.0, 1.5, 1.5, 1.0], 9.827_937_232_473_29e-1, 1.390_331_103_123_099_8e-17),
    piece([0.0, 1.0, 1.0, 0.0], FRAC_PI_2, 6.123_233_995_736_766e-17),
];

/// Coefficients of the series of `x - atan(x)` over `x`, the odd powers of `x * x`, then the even.
const ODD: [f64; 6] = [
    3.333_333_333_333_293e-1,
    1.428_571_427_250_346_6e-1,
    9.090_887_133_436_507e-2,
    6.661_073_137_387_531e-2,
    4.976_877_994_615_932_4e-2,
    1.628_582_011_536_578_2e-2,
];
const EVEN: [f64; 5] = [
    -1.999_999_999_987_648_3e-1,
    -1.111_111_040_546_235_6e-1,
    -7.691_876_205_044_83e-2,
    -5.833_570_133_790_573_5e-2,
    -3.653_157_274_421_691_6e-2,
];

/// The angle, 0 to pi, whose sine and cosine these are, or any multiple of both above zero.
#[inline]
pub fn angle(sine: f64, cosine: f64) -> f64 {
    let tangent = sine / cosine.abs();
    // Right angles, and what is no number.
    if !(0.0..1e18).contains(&tangent) {
        return libm::atan2(sine, cosine);
    }
    let at = EDGES.iter().map(|edge| usize::from(tangent >= *edge)).sum::<usize>();
    let Piece { a, b, c, d, base, rest } = PIECES[at];
    let x = (a * tangent - b) / (c * tangent + d);
    let z = x * x;
    let w = z * z;
    let odd = ODD[4] + w * ODD[5];
    let odd = ODD[2] + w * (ODD[3] + w * odd);
    let odd = z * (ODD[0] + w * (ODD[1] + w * odd));
    let even = EVEN[2] + w * (EVEN[3] + w * EVEN[4]);
    let even = w * (EVEN[0] + w * (EVEN[1] + w * even));
    let arc = base - ((x * (odd + even) - rest) - x);
    if cosine < 0.0 { PI - (arc - PI_REST) } else { arc }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavy_core::{Purpose, Stream};

    fn holds(sine: f64, cosine: f64) {
        let (ours, theirs) = (angle(sine, cosine), libm::atan2(sine, cosine));
        assert_eq!(ours.to_bits(), theirs.to_bits(), "{sine:e} {cosine:e}: {ours:e} {theirs:e}");
    }

    #[test]
    fn angles_are_those_of_libm_to_the_bit() {
        let mut rng = Stream::keyed(1, 0, Purpose::Test);
        for _ in 0..1_000_000 {
            let (sine, cosine) = (rng.unit(), 2.0 * rng.unit() - 1.0);
            holds(sine, cosine);
            // Of all sizes, also of neighbors and of antipodes.
            let size = libm::exp2(-80.0 * rng.unit());
            holds(sine * size, cosine);
            holds(sine, cosine * size);
        }
        let mut edges = EDGES.to_vec();
        edges.extend([0.0, 1.0, 1e-9, 7.5e-9, 1e17, 1e18, 1e19, 1e20, f64::MIN_POSITIVE, 5e-324]);
        for edge in edges {
            for sine in [edge, edge.next_up(), edge.next_down().max(0.0)] {
                for cosine in [1.0, -1.0, 0.0, -0.0, 5e-324, 1e300] {
                    holds(sine, cosine);
                }
            }
        }
    }
}
