//! The gamma law, whose quantiles have no closed form and come from a table.
//!
//! Half of the table is for the lower tail, evenly in the logarithm of the probability P(S <= x),
//! half for the upper one, evenly in that of P(S > x), so that both reach the rarest draw that 52
//! bits can stand for. Between its points the logarithm of x is a cubic through two values and two
//! slopes (Hermite), which is right to 7 digits and better.

use alloc::vec::Vec;

/// -ln of the rarest probability drawn, an odd multiple of 2^-53, with some room.
const FAR: f64 = 37.0;
const NEAR: f64 = core::f64::consts::LN_2;
const STEPS: usize = 1024;
const WIDTH: f64 = (FAR - NEAR) / STEPS as f64;

/// ln x and its growth over one step of the table.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Point {
    value: f64,
    slope: f64,
}

/// The quantile function of a gamma law.
#[derive(PartialEq, Debug)]
pub(crate) struct Quantiles {
    lower: Vec<Point>,
    upper: Vec<Point>,
}

impl Quantiles {
    /// Of `law`.
    pub(crate) fn of(law: &Gamma) -> Self {
        let median = median(law);
        let lower = table(median, |log_x| {
            let x = libm::exp(log_x);
            let (below, _) = law.tails(x);
            (-libm::log(below), -law.weight(x) / below)
        });
        let upper = table(median, |log_x| {
            let x = libm::exp(log_x);
            let (_, above) = law.tails(x);
            (-libm::log(above), law.weight(x) / above)
        });
        Quantiles { lower, upper }
    }

    /// The x that a draw exceeds with probability `above`, strictly between 0 and 1.
    #[inline]
    pub(crate) fn exceeded(&self, above: f64) -> f64 {
        let (points, tail) =
            if above <= 0.5 { (&self.upper, above) } else { (&self.lower, 1.0 - above) };
        let place = ((-libm::log(tail) - NEAR) / WIDTH).clamp(0.0, STEPS as f64 - 0.5);
        let index = place as usize;
        let (Some(from), Some(to)) = (points.get(index), points.get(index + 1)) else { return 0.0 };
        let t = place - index as f64;
        let rise = to.value - from.value;
        let cubic = from.slope + to.slope - 2.0 * rise;
        let square = 3.0 * rise - 2.0 * from.slope - to.slope;
        libm::exp(from.value + t * (from.slope + t * (square + t * cubic)))
    }
}

/// ln of the median, by halving.
fn median(law: &Gamma) -> f64 {
    let (mut low, mut high) = (-700.0, 700.0);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        let (below, above) = law.tails(libm::exp(middle));
        *(if below < above { &mut low } else { &mut high }) = middle;
    }
    (low + high) / 2.0
}

/// The values of ln x at which the depth of a tail, -ln of its probability, is that of each point.
/// `depth` gives it with its slope, and has no more than one turn; Newton's steps start from where
/// the point before leads.
fn table(median: f64, depth: impl Fn(f64) -> (f64, f64)) -> Vec<Point> {
    let mut points = Vec::with_capacity(STEPS + 1);
    let mut log_x = median;
    for step in 0..=STEPS {
        let wanted = NEAR + step as f64 * WIDTH;
        let mut slope = 0.0;
        for _ in 0..40 {
            let (found, per_log) = depth(log_x);
            slope = WIDTH / per_log;
            let off = (found - wanted) / per_log;
            log_x -= off;
            if libm::fabs(off) <= 1e-13 {
                break;
            }
        }
        points.push(Point { value: log_x, slope });
        log_x += slope;
    }
    points
}

/// The gamma law of a shape, its scale 1: the mean is the shape.
pub(crate) struct Gamma {
    shape: f64,
    /// ln of the gamma function at `shape`.
    log_gamma: f64,
}

impl Gamma {
    pub(crate) fn new(shape: f64) -> Self {
        Gamma { shape, log_gamma: libm::lgamma(shape) }
    }

    /// x^shape e^-x / gamma(shape).
    fn weight(&self, x: f64) -> f64 {
        libm::exp(self.shape * libm::log(x) - x - self.log_gamma)
    }

    /// P(S <= x) and P(S > x), by the series below the mean and by the continued fraction (modified
    /// Lentz) above it.
    fn tails(&self, x: f64) -> (f64, f64) {
        const TERMS: u32 = 100_000;
        let (shape, weight) = (self.shape, self.weight(x));
        if x < shape + 1.0 {
            let (mut term, mut sum) = (1.0 / shape, 1.0 / shape);
            for n in 1..TERMS {
                term *= x / (shape + f64::from(n));
                sum += term;
                if term < sum * 1e-17 {
                    break;
                }
            }
            let below = (weight * sum).min(1.0);
            return (below, 1.0 - below);
        }
        let mut b = x + 1.0 - shape;
        let mut c = 1e300;
        let mut d = 1.0 / b;
        let mut fraction = d;
        for n in 1..TERMS {
            let n = f64::from(n);
            let a = -n * (n - shape);
            b += 2.0;
            d = 1.0 / (a * d + b);
            c = b + a / c;
            fraction *= d * c;
            if libm::fabs(d * c - 1.0) < 1e-16 {
                break;
            }
        }
        let above = (weight * fraction).min(1.0);
        (1.0 - above, above)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tail beyond each quantile is the probability that was asked for.
    fn inverts(shape: f64) {
        let law = &Gamma::new(shape);
        let what = alloc::format!("shape {shape}");
        let quantiles = Quantiles::of(law);
        let mut last = f64::INFINITY;
        for step in 1..=3_000 {
            let tail = libm::exp(-36.7 * f64::from(step) / 3_000.0);
            let (_, above) = law.tails(quantiles.exceeded(tail));
            assert!((above / tail - 1.0).abs() < 1e-6, "{what} beyond {tail}: {above}");
            if tail > f64::EPSILON {
                let (below, _) = law.tails(quantiles.exceeded(1.0 - tail));
                // 1 - tail has been rounded before it is asked for.
                let asked = 1.0 - (1.0 - tail);
                assert!((below / asked - 1.0).abs() < 1e-6, "{what} up to {asked}: {below}");
            }
        }
        for step in 1..=10_000 {
            let x = quantiles.exceeded(f64::from(step) / 10_001.0);
            assert!(x < last, "{what}: {x} after {last}");
            last = x;
        }
    }

    #[test]
    fn gamma_laws_are_inverted_over_all_of_their_range() {
        for shape in [0.1, 0.3, 0.5, 1.0, 2.0, 3.7, 30.0, 1000.0] {
            inverts(shape);
        }
    }

    #[test]
    fn a_shape_of_one_is_the_exponential_law() {
        let one = Quantiles::of(&Gamma::new(1.0));
        for tail in [0.999, 0.7, 0.5, 0.2, 1e-3, 1e-12] {
            let exact = -libm::log(tail);
            assert!((one.exceeded(tail) / exact - 1.0).abs() < 1e-7, "{tail}");
        }
    }

    #[test]
    fn gamma_tails_agree_with_golden_values() {
        // scipy.special.gammainc and gammaincc.
        for (shape, x, below, above) in [
            (0.5, 0.2, 0.472_910_743_134_461_9, 0.527_089_256_865_538_1),
            (3.0, 2.5, 0.456_186_884_116_670_4, 0.543_813_115_883_329_6),
        ] {
            let (p, q) = Gamma::new(shape).tails(x);
            assert!((p - below).abs() < 1e-13 && (q - above).abs() < 1e-13, "{shape}: {p} {q}");
        }
    }
}
