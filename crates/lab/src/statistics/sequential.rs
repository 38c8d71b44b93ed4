//! When enough replications have been run: the sequential stop rule.
//!
//! Looking at an interval again and again and stopping when it is narrow favors moments at which it
//! is narrow by chance. A round adds several replications at once and the first look comes after
//! the first round, which keeps the looks few and the effect below what the coverage tests can see.

use super::interval::Interval;

/// How precisely one metric is wanted.
#[derive(Clone, PartialEq, Debug)]
pub struct Target {
    /// The metric's name, for the report.
    pub metric: String,
    /// Half width of its interval as a share of the estimate, at most: 0.05 for "plus or minus 5
    /// %".
    pub relative_max: f64,
}

/// Follows a set of metrics round by round until all are precise enough.
#[derive(Clone, PartialEq, Debug)]
pub struct Precision {
    targets: Vec<Target>,
    /// For each target, the round since which it has been met without a break.
    met_since: Vec<Option<u32>>,
    round: u32,
}

impl Precision {
    /// Nothing looked at yet.
    pub fn new(targets: Vec<Target>) -> Self {
        let met_since = vec![None; targets.len()];
        Precision { targets, met_since, round: 0 }
    }

    /// Looks at the intervals after one more round, in the order of the targets, `None` where there
    /// is none yet. True when every target is met, and the study may stop.
    ///
    /// # Panics
    /// When there is not one entry per target.
    pub fn round(&mut self, intervals: &[Option<Interval>]) -> bool {
        assert_eq!(intervals.len(), self.targets.len(), "one interval per target");
        self.round += 1;
        for ((since, target), interval) in
            self.met_since.iter_mut().zip(&self.targets).zip(intervals)
        {
            let met = interval.is_some_and(|i| i.relative() <= target.relative_max);
            // A metric that a new replication makes uncertain again starts over.
            *since = if met { since.or(Some(self.round)) } else { None };
        }
        self.done()
    }

    /// True when the last round met every target.
    pub fn done(&self) -> bool {
        self.met_since.iter().all(Option::is_some)
    }

    /// Rounds looked at.
    pub fn rounds(&self) -> u32 {
        self.round
    }

    /// The metric that held the study up: the last to converge, or the first listed of those that
    /// have not. `None` without targets, and before the first round.
    pub fn slowest(&self) -> Option<&Target> {
        if self.round == 0 {
            return None;
        }
        let mut slowest: Option<usize> = None;
        for (i, since) in self.met_since.iter().enumerate() {
            let rounds = since.unwrap_or(u32::MAX);
            if slowest.is_none_or(|s| rounds > self.met_since[s].unwrap_or(u32::MAX)) {
                slowest = Some(i);
            }
        }
        slowest.map(|i| &self.targets[i])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn precision() -> Precision {
        let target = |metric: &str| Target { metric: metric.into(), relative_max: 0.05 };
        Precision::new(vec![target("mean"), target("p99"), target("p99.9")])
    }

    fn wide(relative: f64) -> Option<Interval> {
        Some(Interval::around(200.0, 200.0 * relative))
    }

    #[test]
    fn stops_when_all_are_narrow_and_names_the_last() {
        let mut precision = precision();
        assert_eq!(precision.slowest(), None);
        assert!(!precision.round(&[wide(0.04), wide(0.2), None]));
        assert_eq!(precision.slowest().unwrap().metric, "p99");
        assert!(!precision.round(&[wide(0.03), wide(0.1), wide(0.05)]));
        assert!(precision.round(&[wide(0.02), wide(0.05), wide(0.01)]));
        assert_eq!(precision.slowest().unwrap().metric, "p99");
        assert_eq!(precision.rounds(), 3);
    }

    #[test]
    fn a_metric_that_widens_again_starts_over() {
        let mut precision = precision();
        precision.round(&[wide(0.01), wide(0.01), wide(0.01)]);
        assert!(precision.done());
        assert!(!precision.round(&[wide(0.06), wide(0.01), wide(0.01)]));
        assert!(precision.round(&[wide(0.05), wide(0.01), wide(0.01)]));
        assert_eq!(precision.slowest().unwrap().metric, "mean");
    }

    #[test]
    fn no_targets_are_met_at_once() {
        let mut precision = Precision::new(Vec::new());
        assert!(precision.round(&[]));
        assert_eq!(precision.slowest(), None);
    }
}
