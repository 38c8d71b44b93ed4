//! Does a queue grow without end? A test over replications, with a stated level.
//!
//! A run is looked at in two parts of equal length, one after the other, after its warm-up. A
//! system that keeps up has the same mean in both; what is there more in the later part is chance.
//! A system that is offered more than it can do grows by the same amount from part to part. Between
//! them lies a system that is still filling, or that wanders near saturation: of it a run cannot
//! tell, and [`trend`] says how long one would have to be.

use super::interval;
use super::student;

/// The chance of calling a queue endless that is not, over all series that are judged together: one
/// in a hundred. It is shared out evenly among the series (Bonferroni). Being one of two conditions
/// it is an upper bound; what is measured is in the notes.
pub const LEVEL: f64 = 0.01;

/// How many times as long a run is told to be at most. Beyond, nobody would follow.
const TIMES_MAX: f64 = 100.0;

/// What growth means for some quantity.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rule {
    /// Later over earlier up to which it is settled.
    pub settled_ratio: f64,
    /// Later over earlier beyond which growth that is not chance is endless; at least
    /// `settled_ratio`.
    pub endless_ratio: f64,
    /// Growth of the mean up to which it is settled whatever the ratio, in the quantity's unit.
    pub floor: f64,
    /// How many series are judged together.
    pub series: usize,
}

/// What two parts of some runs say.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Trend {
    /// The later part is as the earlier one.
    Settled,
    /// It is not, and that may be chance, or a beginning that lasts.
    Unclear {
        /// Later over earlier.
        ratio: f64,
        /// Runs so many times as long would tell, about.
        times: f64,
    },
    /// It is not, that is no chance, and it grows as an overload does.
    Endless {
        /// Later over earlier.
        ratio: f64,
    },
}

/// Compares the means of two parts of independent replications, which are given in the same order.
///
/// With three and more replications growth is no chance when Student's t of the paired differences
/// says so at [`LEVEL`]. Of fewer, from which no spread can be seen, each must show it, and the
/// level is not known.
///
/// # Panics
/// When the two have not as many values.
pub fn trend(earlier: &[f64], later: &[f64], rule: Rule) -> Trend {
    assert_eq!(earlier.len(), later.len(), "two parts of each replication");
    let Rule { settled_ratio, endless_ratio, floor, series } = rule;
    if earlier.is_empty() {
        return Trend::Settled;
    }
    let (before, after) = (interval::mean(earlier), interval::mean(later));
    let growth = after - before;
    if after <= settled_ratio * before || growth <= floor {
        return Trend::Settled;
    }
    let ratio = if before > 0.0 { after / before } else { f64::INFINITY };
    let pairs = earlier.iter().zip(later);
    let differences: Vec<f64> = pairs.clone().map(|(before, after)| after - before).collect();
    let replications = differences.len();
    let (sure, noise) = if replications >= 3 {
        let df = replications as u64 - 1;
        let error = interval::half_width(&differences, growth) / student::t975(df);
        let level = LEVEL / series.max(1) as f64;
        (growth > error * student::two_sided(df, 1.0 - 2.0 * level), error * 2.0)
    } else {
        let shows = |(before, after): (&f64, &f64)| {
            *after > endless_ratio * before && after - before > floor
        };
        (pairs.clone().all(shows), 0.0)
    };
    if sure && ratio > endless_ratio {
        return Trend::Endless { ratio };
    }
    // What fills for a fixed time has its share in the growth halved by twice the length, chance by
    // four times.
    let bearable = (settled_ratio - 1.0) * before;
    let filling = 2.0 * growth / bearable;
    let chance = (2.0 * noise / bearable) * (2.0 * noise / bearable);
    let times = libm::ceil(filling.max(chance).clamp(2.0, TIMES_MAX));
    // No base to compare with makes both infinite, or undefined.
    Trend::Unclear { ratio, times: if times.is_finite() { times } else { TIMES_MAX } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavy_core::{Purpose, Stream};

    const RULE: Rule = Rule { settled_ratio: 1.5, endless_ratio: 1.5, floor: 0.0, series: 1 };

    /// A walk above zero that drifts by `drift` a step: the mean of its middle and last third.
    fn walk(seed: u64, steps: u32, drift: f64) -> [f64; 2] {
        let mut stream = Stream::keyed(seed, 0, Purpose::Test);
        let (mut at, mut sums) = (0.0f64, [0.0; 3]);
        for step in 0..steps {
            at = (at + drift + 2.0 * (stream.unit() - 0.5)).max(0.0);
            sums[(3 * step / steps) as usize] += at;
        }
        [1, 2].map(|third| sums[third] * 3.0 / f64::from(steps))
    }

    fn of(seeds: std::ops::Range<u64>, steps: u32, drift: f64, rule: Rule) -> Trend {
        let runs: Vec<[f64; 2]> = seeds.map(|seed| walk(seed, steps, drift)).collect();
        let part = |part: usize| runs.iter().map(|run| run[part]).collect::<Vec<_>>();
        trend(&part(0), &part(1), rule)
    }

    fn count(drift: f64, replications: u64, is: fn(&Trend) -> bool) -> usize {
        let points = (0..100).map(|point| point * replications..(point + 1) * replications);
        points.filter(|seeds| is(&of(seeds.clone(), 20_000, drift, RULE))).count()
    }

    #[test]
    fn what_keeps_up_is_endless_less_often_than_the_level_says() {
        // A drift of -0.02 forgets in about 1/3 / 0.02^2 = 800 steps: 8 times in a third.
        for replications in [3, 10] {
            let endless = count(-0.02, replications, |t| matches!(t, Trend::Endless { .. }));
            assert!(endless <= 1, "{replications}: {endless} of 100");
        }
        let settled = count(-0.02, 10, |t| *t == Trend::Settled);
        assert!(settled >= 97, "{settled} of 100");
    }

    #[test]
    fn what_drifts_upwards_is_endless() {
        // 20,000 steps of 0.08 go up by 1,600; chance makes 82 of it.
        for replications in [1, 2, 3, 10] {
            let endless = count(0.08, replications, |t| matches!(t, Trend::Endless { .. }));
            assert!(endless >= 97, "{replications}: {endless} of 100");
        }
    }

    #[test]
    fn what_neither_rises_nor_falls_is_hardly_ever_settled_over_ten() {
        // It grows with the root of time: by 1.29 from the middle to the last third.
        let rule = Rule { settled_ratio: 1.2, endless_ratio: 1.5, ..RULE };
        let unclear = (0..50)
            .map(|point| of(point * 10..point * 10 + 10, 20_000, 0.0, rule))
            .filter(|trend| matches!(trend, Trend::Unclear { .. }))
            .count();
        assert!(unclear >= 30, "{unclear} of 50");
    }

    #[test]
    fn a_length_that_would_tell_is_named() {
        let rule = Rule { settled_ratio: 1.2, endless_ratio: 1.7, floor: 0.0, series: 1 };
        // The backlogs of the issue: 693 to 1,180 kB under a rule of a fifth.
        let Trend::Unclear { ratio, times } = trend(&[693.0; 3], &[1180.0, 900.0, 1460.0], rule)
        else {
            panic!("neither kept up nor shown to be endless")
        };
        assert!((ratio - 1180.0 / 693.0).abs() < 1e-9 && (2.0..=100.0).contains(&times));
        assert_eq!(trend(&[693.0; 3], &[700.0, 720.0, 760.0], rule), Trend::Settled);
        // One run whose queue was empty first.
        let alone = trend(&[0.0], &[5.0], rule);
        assert!(matches!(alone, Trend::Endless { .. }), "{alone:?}");
        let floor = Rule { floor: 10.0, ..rule };
        assert_eq!(trend(&[0.0], &[5.0], floor), Trend::Settled);
        assert_eq!(trend(&[], &[], rule), Trend::Settled);
    }
}
