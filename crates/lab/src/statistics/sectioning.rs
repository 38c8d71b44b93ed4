//! Intervals by sectioning, for any value: a ratio of tails, the largest of a curve, a capacity.
//!
//! A run is cut into sections that say little about each other: replications, or the messages of
//! different hosts. The value is computed of everything together, and once more of each section
//! alone. How far the sections lie from the whole says how far the whole may lie from the truth. It
//! matters not how the value is computed, as long as it is the same way for both; and where several
//! contestants met the same arrivals, their sections come in pairs, and what the sections have in
//! common leaves a ratio or a difference by itself.
//!
//! Where a run can be cut up in two ways that have little in common, such as by who asks and by who
//! answers, each way misses the noise that its sections share: all askers wait at the same
//! answerers. The variances of both ways add up to that of the whole.
//!
//! The spread is taken about the whole and not about the sections' mean: the value of a short
//! section may be biased, and the interval then owns up to it.

use super::interval::{Interval, spread};

/// The interval of `whole` by the values of its sections, in which the truth lies with
/// `confidence`. `None` for fewer than two sections.
///
/// Values that are all above zero vary by factors, not by amounts: their interval is taken of the
/// logarithm, and stays above zero.
///
/// # Panics
/// When `confidence` is not between 0 and 1.
pub fn interval(whole: f64, sections: &[f64], confidence: f64) -> Option<Interval> {
    crossed(whole, &[sections], confidence)
}

/// The same by the values of the sections of several `ways` to cut up the same runs. What the
/// messages of one section of each way share is counted in each of them, so the interval is a
/// little wider than it would have to be. `None` without a way, and for fewer than two sections of
/// any.
///
/// # Panics
/// When `confidence` is not between 0 and 1.
pub fn crossed(whole: f64, ways: &[&[f64]], confidence: f64) -> Option<Interval> {
    if ways.is_empty() || ways.iter().any(|sections| sections.len() < 2) {
        return None;
    }
    let root = |spreads: &mut dyn Iterator<Item = f64>| {
        libm::sqrt(spreads.map(|spread| spread * spread).sum::<f64>())
    };
    if whole > 0.0 && ways.iter().all(|way| way.iter().all(|&value| value > 0.0)) {
        let factor = libm::exp(root(&mut ways.iter().map(|way| {
            let logs: Vec<f64> = way.iter().map(|&value| libm::log(value / whole)).collect();
            spread(&logs, 0.0, confidence)
        })));
        return Some(Interval { estimate: whole, low: whole / factor, high: whole * factor });
    }
    let spreads = &mut ways.iter().map(|way| spread(way, whole, confidence));
    Some(Interval::around(whole, root(spreads)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Histogram;
    use cavy_core::{Purpose, Stream};

    #[test]
    fn intervals_of_known_values() {
        // Squares about 3 sum to 10 over 4, t_{4, 0.995} is 4.604095.
        let linear = interval(3.0, &[1.0, 2.0, 3.0, 4.0, 5.0], 0.99).expect("five sections");
        assert!(linear.low < 3.0 && linear.high > 3.0 && linear.low > 0.0, "{linear:?}");
        let around_zero = interval(0.0, &[-2.0, -1.0, 0.0, 1.0, 2.0], 0.99).expect("five sections");
        assert!((around_zero.half_width() - 4.604_095 * 0.5f64.sqrt()).abs() < 1e-5);
        assert_eq!(interval(2.0, &[2.0; 4], 0.99).map(|i| i.half_width()), Some(0.0));
        assert_eq!(interval(2.0, &[2.0], 0.99), None);
        let factors = interval(1.0, &[0.5, 2.0], 0.5).expect("two sections");
        assert!((factors.low * factors.high - 1.0).abs() < 1e-12, "even in factors: {factors:?}");
    }

    /// Each asker and each answerer adds noise of its own to all that they exchange. Askers alone
    /// say nothing of what they share; both ways together cover.
    #[test]
    fn crossed_ways_cover_what_each_misses() {
        let (studies, of_each) = (400, 8);
        let mut covered = [0; 2];
        for study in 0..studies {
            let mut stream = Stream::keyed(11, study, Purpose::Test);
            let mut noise = |size: f64| -> Vec<f64> {
                (0..of_each).map(|_| size * (stream.unit() - 0.5)).collect()
            };
            let (askers, answerers) = (noise(1.0), noise(3.0));
            let cells: Vec<Vec<f64>> = askers
                .iter()
                .map(|a| noise(0.3).iter().zip(&answerers).map(|(e, b)| 10.0 + a + b + e).collect())
                .collect();
            let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
            let by_asker: Vec<f64> = cells.iter().map(|row| mean(row)).collect();
            let by_answerer: Vec<f64> = (0..of_each)
                .map(|at| mean(&cells.iter().map(|row| row[at]).collect::<Vec<f64>>()))
                .collect();
            let whole = mean(&by_asker);
            let found = [vec![&by_asker[..]], vec![&by_asker[..], &by_answerer[..]]]
                .map(|ways| crossed(whole, &ways, 0.99).expect("eight sections a way"));
            for (covered, interval) in covered.iter_mut().zip(found) {
                *covered += i32::from(interval.contains(10.0));
            }
        }
        assert!((390..=400).contains(&covered[1]), "{covered:?} of {studies}");
        assert!(covered[0] < 340, "{covered:?} of {studies}");
        assert_eq!(crossed(1.0, &[], 0.99), None);
        assert_eq!(crossed(1.0, &[&[1.0, 2.0], &[1.0]], 0.99), None);
    }

    /// The ratio of two tails whose noise is shared: intervals at 99 % miss in about one of a
    /// hundred studies, and are far narrower than those of tails that share nothing.
    #[test]
    fn intervals_of_ratios_of_tails_cover() {
        let (studies, sections) = (400, 10);
        let (mut covered, mut widths) = (0, [0.0f64; 2]);
        for study in 0..studies {
            let draw = |contestant: u32, shared: bool| {
                let mut all = Histogram::new();
                let each: Vec<f64> = (0..sections)
                    .map(|section| {
                        let one = if shared { 0 } else { contestant };
                        let number = (study * sections + section) * 2 + one;
                        let mut stream = Stream::keyed(7, number, Purpose::Test);
                        let mut own = Histogram::new();
                        // Exponential, 1 us and 3 us on average.
                        let mean = if contestant == 0 { 1e3 } else { 3e3 };
                        (0..600).for_each(|_| {
                            own.record((-mean * libm::log(1.0 - stream.unit())) as u64 + 10_000);
                        });
                        all.merge(&own);
                        own.quantile(0.99).expect("600 samples") as f64 - 1e4
                    })
                    .collect();
                (all.quantile(0.99).expect("6000 samples") as f64 - 1e4, each)
            };
            for (place, shared) in [false, true].into_iter().enumerate() {
                let ((a, each_a), (b, each_b)) = (draw(1, shared), draw(0, shared));
                let ratios: Vec<f64> = each_a.iter().zip(&each_b).map(|(a, b)| a / b).collect();
                let found = interval(a / b, &ratios, 0.99).expect("ten sections");
                widths[place] += found.high - found.low;
                covered += i32::from(!shared && found.contains(3.0));
            }
        }
        assert!((385..=400).contains(&covered), "{covered} of {studies}");
        assert!(widths[1] < 0.1 * widths[0], "{widths:?}");
    }
}
