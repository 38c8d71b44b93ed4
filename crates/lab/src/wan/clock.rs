//! The clocks of a node: one that only goes forward, and one that shows the time of day.

use cavy_core::Instant;

/// How far a node's clocks are from true time. The default is exact.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Clock {
    /// The wall clock is ahead by this at the start, in nanoseconds; negative: behind.
    pub offset_ns: i64,
    /// Both clocks run fast by this many parts in 10^9; negative: slow. Less than 10^8 either way.
    pub drift_ppb: i64,
    /// The wall clock is moved by the second at the first, which is true time, in order.
    pub steps: Vec<(Instant, i64)>,
}

const BILLION: i128 = 1_000_000_000;

impl Clock {
    /// What the monotonic clock shows at true time `at`.
    #[inline]
    pub fn monotonic(&self, at: u64) -> Instant {
        if self.drift_ppb == 0 {
            return Instant::from_ns(at);
        }
        let shown = i128::from(at) + i128::from(at) * i128::from(self.drift_ppb) / BILLION;
        Instant::from_ns(shown.max(0) as u64)
    }

    /// What the wall clock shows at true time `at`. Before the epoch it shows the epoch.
    #[inline]
    pub fn wall(&self, at: u64) -> Instant {
        let stepped: i64 =
            self.steps.iter().take_while(|(since, _)| since.as_ns() <= at).map(|(_, by)| by).sum();
        let shown = self.monotonic(at).as_ns();
        Instant::from_ns(shown.saturating_add_signed(self.offset_ns.saturating_add(stepped)))
    }

    /// The first true time at which the monotonic clock shows `shown` or more.
    #[inline]
    pub fn true_time(&self, shown: Instant) -> u64 {
        let shown = shown.as_ns();
        if self.drift_ppb == 0 || shown == u64::MAX {
            return shown;
        }
        let rate = BILLION + i128::from(self.drift_ppb);
        let mut at = (i128::from(shown) * BILLION / rate).max(0) as u64;
        // The division is off by a nanosecond or two.
        while at > 0 && self.monotonic(at - 1).as_ns() >= shown {
            at -= 1;
        }
        while self.monotonic(at).as_ns() < shown {
            at += 1;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavy_core::{Purpose, Stream};

    #[test]
    fn deadlines_are_met_and_not_early() {
        let mut draws = Stream::keyed(1, 0, Purpose::Test);
        for drift_ppb in [-99_999_999, -20_000, -1, 0, 1, 50_000, 99_999_999] {
            let clock = Clock { drift_ppb, ..Clock::default() };
            for _ in 0..2_000 {
                let shown = draws.below(1 << 40);
                let at = clock.true_time(Instant::from_ns(shown));
                assert!(clock.monotonic(at).as_ns() >= shown);
                assert!(at == 0 || clock.monotonic(at - 1).as_ns() < shown);
            }
        }
    }

    #[test]
    fn the_wall_clock_steps_and_the_other_does_not() {
        let steps = vec![(Instant::from_ns(100), -70), (Instant::from_ns(200), 1_000)];
        let clock = Clock { offset_ns: 5, drift_ppb: 0, steps };
        let walls: Vec<u64> = [99, 100, 199, 200].map(|at| clock.wall(at).as_ns()).to_vec();
        assert_eq!(walls, [104, 35, 134, 1_135]);
        assert_eq!(clock.monotonic(150).as_ns(), 150);
        assert_eq!(Clock { offset_ns: -50, ..Clock::default() }.wall(20).as_ns(), 0);
    }
}
