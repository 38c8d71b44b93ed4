//! How late the threads of hosts were: what software adds under load `[homa 7.6]`.

use cavy_core::Span;
use cavy_lab::statistics::quantile;
use cavy_live::homa;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Values that stand for a distribution: the 99.9th percentile is between the last two.
const VALUES: u32 = 1_000;

/// One of the times of [`homa::Lag`], over all hosts, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// The median with messages of one short packet on the idle network.
    pub idle_p50_ns: u64,
    /// Those of the run, in order: each of these is as likely as the others.
    pub values_ns: Vec<u64>,
}

impl Times {
    /// From what was counted before and after idle messages, and before and after the run.
    fn of(idle: [&Histogram<u64>; 2], run: [&Histogram<u64>; 2]) -> Option<Times> {
        let between = |[before, after]: [&Histogram<u64>; 2]| {
            let mut counted = after.clone();
            counted.subtract(before).ok().map(|()| counted)
        };
        let (idle, run) = (between(idle)?, between(run)?);
        let at = |place: u32| (f64::from(place) + 0.5) / f64::from(VALUES);
        let values_ns = (0..VALUES).filter_map(|one| quantile::of_histogram(&run, at(one)));
        let idle_p50_ns = quantile::of_histogram(&idle, 0.5).unwrap_or(0);
        Some(Times { idle_p50_ns, values_ns: values_ns.collect() })
    }

    /// A quantile of the run, in microseconds.
    pub fn us(&self, ratio: f64) -> Option<f64> {
        quantile::of_sorted(&self.values_ns, ratio).map(|ns| ns as f64 / 1e3)
    }

    /// The values of the run, less so much.
    pub fn beyond(&self, least_ns: u64) -> Vec<Span> {
        self.values_ns.iter().map(|ns| Span::from_ns(ns.saturating_sub(least_ns))).collect()
    }
}

/// How late threads were.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lag {
    /// Until they looked.
    pub looked: Times,
    /// From there until they had sent the one packet that came of a message or question.
    pub sent: Times,
}

impl Lag {
    /// From what a peer said before and after idle messages, and before and after the run.
    pub fn of(idle: [Option<homa::Lag>; 2], run: [Option<homa::Lag>; 2]) -> Option<Lag> {
        let ([Some(a), Some(b)], [Some(c), Some(d)]) = (idle, run) else { return None };
        let looked = Times::of([&a.looked, &b.looked], [&c.looked, &d.looked])?;
        Some(Lag { looked, sent: Times::of([&a.sent, &b.sent], [&c.sent, &d.sent])? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_messages_and_the_run_are_told_apart() {
        let mut all = Histogram::<u64>::new_with_max(1_000_000_000, 3).unwrap();
        all.record_n(900_000, 500).unwrap();
        let first = all.clone();
        all.record_n(10_000, 30).unwrap();
        let idle = all.clone();
        for wait_us in 1..=1_000 {
            all.record_n(wait_us * 1_000, 3).unwrap();
        }
        let times = Times::of([&first, &idle], [&idle, &all]).unwrap();
        let near = |value: f64, of: f64| (value / of - 1.0).abs() < 2e-3;
        assert!(near(times.idle_p50_ns as f64, 10_000.0), "{}", times.idle_p50_ns);
        assert_eq!(times.values_ns.len(), VALUES as usize);
        assert!(near(times.us(0.5).unwrap(), 500.0) && near(times.us(0.99).unwrap(), 990.0));
        let beyond = times.beyond(500_000);
        assert_eq!(beyond[0], Span::ZERO);
        assert!(near(beyond[999].as_us(), 500.0), "{:?}", beyond[999]);
        let quiet = Times::of([&first, &idle], [&idle, &idle]).unwrap();
        assert_eq!((quiet.us(0.5), quiet.values_ns.len()), (None, 0));
        assert_eq!(Lag::of([None, None], [None, None]), None);
    }
}
