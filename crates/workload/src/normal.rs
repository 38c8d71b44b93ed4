//! The quantile function of the standard normal distribution.
//!
//! Log-normal service times are drawn by inversion and not by Box-Muller or a ziggurat, so that a
//! draw costs exactly one random number, like that of every other law.

/// Wichura's algorithm AS 241, PPND16 (Applied Statistics 37, 1988, 477-484): about 16 digits.
///
/// `p` lies strictly between 0 and 1; the end points give infinities or NaN.
pub fn quantile(p: f64) -> f64 {
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180625 - q * q;
        return q * polynomial(&A, r) / polynomial(&B, r);
    }
    let tail = if q < 0.0 { p } else { 1.0 - p };
    let r = libm::sqrt(-libm::log(tail));
    let size = if r <= 5.0 {
        polynomial(&C, r - 1.6) / polynomial(&D, r - 1.6)
    } else {
        polynomial(&E, r - 5.0) / polynomial(&F, r - 5.0)
    };
    if q < 0.0 { -size } else { size }
}

/// Horner's rule; the coefficient of the highest power comes first.
fn polynomial(coefficients: &[f64; 8], x: f64) -> f64 {
    coefficients.iter().fold(0.0, |sum, c| sum * x + c)
}

const A: [f64; 8] = [
    2.509_080_928_730_122_6e3,
    3.343_057_558_358_813e4,
    6.726_577_092_700_87e4,
    4.592_195_393_154_987e4,
    1.373_169_376_550_946e4,
    1.971_590_950_306_551_3e3,
    1.331_416_678_917_843_8e2,
    3.387_132_872_796_366_5,
];
const B: [f64; 8] = [
    5.226_495_278_852_854e3,
    2.872_908_573_572_194_3e4,
    3.930_789_580_009_271e4,
    2.121_379_430_158_659_7e4,
    5.394_196_021_424_751e3,
    6.871_870_074_920_579e2,
    4.231_333_070_160_091e1,
    1.0,
];
const C: [f64; 8] = [
    7.745_450_142_783_414e-4,
    2.272_384_498_926_918_4e-2,
    2.417_807_251_774_506e-1,
    1.270_458_252_452_368_4,
    3.647_848_324_763_204_5,
    5.769_497_221_460_691,
    4.630_337_846_156_546,
    1.423_437_110_749_683_5,
];
const D: [f64; 8] = [
    1.050_750_071_644_416_9e-9,
    5.475_938_084_995_345e-4,
    1.519_866_656_361_645_7e-2,
    1.481_039_764_274_800_8e-1,
    6.897_673_349_851e-1,
    1.676_384_830_183_803_8,
    2.053_191_626_637_759,
    1.0,
];
const E: [f64; 8] = [
    2.010_334_399_292_288_1e-7,
    2.711_555_568_743_487_6e-5,
    1.242_660_947_388_078_4e-3,
    2.653_218_952_657_612_4e-2,
    2.965_605_718_285_048_7e-1,
    1.784_826_539_917_291_3,
    5.463_784_911_164_114,
    6.657_904_643_501_103,
];
const F: [f64; 8] = [
    2.044_263_103_389_939_8e-15,
    1.421_511_758_316_446e-7,
    1.846_318_317_510_054_8e-5,
    7.868_691_311_456_133e-4,
    1.487_536_129_085_061_5e-2,
    1.369_298_809_227_358e-1,
    5.998_322_065_558_88e-1,
    1.0,
];

#[cfg(test)]
mod tests {
    use super::quantile;

    /// Values of scipy.stats.norm.ppf, which takes another algorithm (Cephes).
    const GOLDEN: [(f64, f64); 15] = [
        (1e-16, -8.222082216130435),
        (1.1102230246251565e-16, -8.209536151601387),
        (1e-12, -7.034483825301131),
        (1e-05, -4.264890793922825),
        (0.001, -3.090232306167813),
        (0.0749999, -1.439532177375901),
        (0.075, -1.4395314709384563),
        (0.2, -0.8416212335729142),
        (0.4999, -0.0002506628300880075),
        (0.5, 0.0),
        (0.7, 0.5244005127080407),
        (0.925, 1.4395314709384563),
        (0.9251, 1.4402382675279635),
        (0.99, 2.3263478740408408),
        (0.999999, 4.753424308817087),
    ];

    #[test]
    fn quantile_agrees_with_scipy() {
        let golden = GOLDEN;
        for (p, z) in golden {
            assert!(
                (quantile(p) - z).abs() <= 4e-15 * z.abs().max(1.0),
                "{p}: {} {z}",
                quantile(p)
            );
        }
    }
}
