//! Quantiles of Student's t distribution.
//!
//! Ours, because the crate that has them (`statrs`) brings a linear algebra library along for this
//! one function. The tail probability is the regularized incomplete beta function, by its continued
//! fraction; the quantile inverts it by bisection. That is slow (tens of microseconds) and has no
//! table, no case distinction and no digits to mistype; a study needs a few hundred of them.

/// Half the width, in standard errors, of a 95 % interval with `df` degrees of freedom.
///
/// # Panics
/// When `df` is zero.
pub fn t975(df: u64) -> f64 {
    two_sided(df, 0.95)
}

/// The t within which a Student variable of `df` degrees of freedom stays, either side of zero,
/// with probability `confidence`.
///
/// # Panics
/// When `df` is zero, or `confidence` is not between 0 and 1.
pub fn two_sided(df: u64, confidence: f64) -> f64 {
    assert!(df > 0, "one value has no spread to judge by");
    assert!(confidence > 0.0 && confidence < 1.0, "a confidence of {confidence} is none");
    let outside = 1.0 - confidence;
    // The normal limit is within 1e-8 from here on, and the continued fraction grows long.
    let df = df.min(100_000_000) as f64;
    let mut high = 1.0;
    while beyond(df, high) > outside {
        high *= 2.0;
    }
    let mut low = 0.0;
    loop {
        let middle = (low + high) / 2.0;
        if middle <= low || middle >= high {
            return middle;
        }
        if beyond(df, middle) > outside {
            low = middle;
        } else {
            high = middle;
        }
    }
}

/// P(|T| > t) for `df` degrees of freedom and t > 0.
fn beyond(df: f64, t: f64) -> f64 {
    incomplete_beta(df / 2.0, 0.5, df / (df + t * t), t * t / (df + t * t))
}

/// The regularized incomplete beta function I_x(a, b), given both `x` and `y` = 1 - x, because one
/// of the two is too close to 1 to give the other by subtraction.
fn incomplete_beta(a: f64, b: f64, x: f64, y: f64) -> f64 {
    // The fraction converges fast only below the mean of the distribution.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, y, x);
    }
    let ln_beta = libm::lgamma(a) + libm::lgamma(b) - libm::lgamma(a + b);
    // ln(1 - y) by log1p: for many degrees of freedom x itself has lost the digits.
    let (ln_x, ln_y) =
        if x > 0.5 { (libm::log1p(-y), libm::log(y)) } else { (libm::log(x), libm::log1p(-x)) };
    libm::exp(a * ln_x + b * ln_y - ln_beta) / a * beta_fraction(a, b, x)
}

/// The continued fraction of the incomplete beta function (Abramowitz and Stegun 26.5.8), evaluated
/// by the modified Lentz method.
fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let away = |v: f64| if v.abs() < TINY { TINY } else { v };
    let mut c = 1.0;
    let mut d = 1.0 / away(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for m in 1..100_000u32 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / away(1.0 + even * d);
        c = away(1.0 + even / c);
        fraction *= c * d;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / away(1.0 + odd * d);
        c = away(1.0 + odd / c);
        fraction *= c * d;
        if (c * d - 1.0).abs() < 1e-15 {
            break;
        }
    }
    fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_printed_tables() {
        // Any printed table of Student's t, two-sided 95 %.
        let table = [
            (1, 12.7062),
            (2, 4.30265),
            (3, 3.18245),
            (4, 2.77645),
            (5, 2.57058),
            (7, 2.36462),
            (9, 2.26216),
            (10, 2.22814),
            (15, 2.13145),
            (20, 2.08596),
            (30, 2.04227),
            (31, 2.03951),
            (60, 2.00030),
            (120, 1.97993),
            (1_000, 1.96234),
            (1_000_000, 1.95997),
            (u64::MAX, 1.95996),
        ];
        for (df, expected) in table {
            let t = t975(df);
            assert!((t - expected).abs() < 1e-4 / 2.0, "df {df}: {t}, table {expected}");
        }
    }

    #[test]
    fn agrees_with_the_closed_forms_of_one_and_two_degrees() {
        for confidence in [0.01, 0.5, 0.9, 0.95, 0.99, 0.9999] {
            // df = 1 is Cauchy's: t = tan(pi c / 2). df = 2: t = c sqrt(2 / (1 - c^2)).
            let one = libm::tan(std::f64::consts::FRAC_PI_2 * confidence);
            let two = confidence * libm::sqrt(2.0 / (1.0 - confidence * confidence));
            assert!((two_sided(1, confidence) / one - 1.0).abs() < 1e-9);
            assert!((two_sided(2, confidence) / two - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn falls_with_degrees_of_freedom() {
        let t: Vec<f64> = (1..200).map(t975).collect();
        assert!(t.is_sorted_by(|a, b| a > b));
    }
}
