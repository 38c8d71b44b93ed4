//! A clock that stretches `[dast 2.4]`.

use super::message::Attempt;
use crate::txn::Ts;
use alloc::collections::{BTreeMap, BTreeSet};
use cavy_core::{Instant, Span};

/// Gives timestamps, each greater than the last, and below every CRT that is pending in the region.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    /// Added to the wall clock, to follow the fastest of the region.
    offset_ns: u64,
    /// The last timestamp given, or run at.
    last: Ts,
    /// Timestamps stay at or below this time, if it is set: no later ones are reserved.
    pub ceiling: Option<u64>,
    by_attempt: BTreeMap<Attempt, Ts>,
    by_time: BTreeSet<(Ts, Attempt)>,
    /// Clocks that were too far ahead to be followed.
    pub refused: u64,
}

impl Clock {
    /// The time of day as this region has it, stretched by nothing.
    pub fn physical(&self, wall: Instant) -> u64 {
        wall.as_ns().saturating_add(self.offset_ns)
    }

    /// The timestamp that [`Clock::next`] would give.
    pub fn peek(&self, wall: Instant, me: u32, physical_k: bool) -> Ts {
        let p = self.physical(wall);
        let mut c = Ts { t: p, k: p, n: me };
        let held = self.by_time.first().filter(|(least, _)| c >= *least);
        let held = held.map(|(least, _)| least.t.saturating_sub(1));
        let most = self.ceiling.filter(|most| p > *most);
        if let Some(t) = held.into_iter().chain(most).min() {
            let k = if physical_k {
                p
            } else if self.last.t == t {
                self.last.k + 1
            } else {
                0
            };
            c = Ts { t, k, n: me };
        }
        if c <= self.last {
            // Held below what it has given already, or set back: it goes on with the others.
            let k = if physical_k { p.max(self.last.k + 1) } else { self.last.k + 1 };
            c = Ts { t: self.last.t, k, n: me };
        }
        c
    }

    /// The last one that was given, or run at.
    pub fn last(&self) -> Ts {
        self.last
    }

    /// A new timestamp.
    pub fn next(&mut self, wall: Instant, me: u32, physical_k: bool) -> Ts {
        self.last = self.peek(wall, me, physical_k);
        self.last
    }

    /// Something was run at `ts`, or promised: nothing is given at or below it any more.
    pub fn passed(&mut self, ts: Ts) {
        self.last = self.last.max(ts);
    }

    /// Follows a clock that is ahead, unless it is too far ahead to be right. Says whether this
    /// clock is as far as that one now.
    pub fn learn(&mut self, wall: Instant, seen: Ts, jump_max: Span) -> bool {
        let jump = seen.t.saturating_sub(self.physical(wall));
        if jump > jump_max.as_ns() {
            self.refused += 1;
            return false;
        }
        self.offset_ns += jump;
        true
    }

    /// Goes to `t`, if it is not there yet, however far that is.
    pub fn go_to(&mut self, wall: Instant, t: u64) {
        self.offset_ns += t.saturating_sub(self.physical(wall));
    }

    /// Timestamps stay below `ts` until [`Clock::let_go`].
    pub fn hold(&mut self, attempt: Attempt, ts: Ts) {
        self.let_go(attempt);
        self.by_attempt.insert(attempt, ts);
        self.by_time.insert((ts, attempt));
    }

    /// `attempt` holds the clock no longer.
    pub fn let_go(&mut self, attempt: Attempt) {
        if let Some(ts) = self.by_attempt.remove(&attempt) {
            self.by_time.remove(&(ts, attempt));
        }
    }

    /// What holds the clock.
    pub fn held_by(&self) -> impl Iterator<Item = (Attempt, Ts)> + '_ {
        self.by_attempt.iter().map(|(attempt, ts)| (*attempt, *ts))
    }

    /// `attempt` holds it.
    pub fn is_held_by(&self, attempt: Attempt) -> bool {
        self.by_attempt.contains_key(&attempt)
    }

    /// Nothing holds it.
    pub fn is_free(&self) -> bool {
        self.by_time.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::txn::TxnId;
    use cavy_core::family::Node;

    fn at(ns: u64) -> Instant {
        Instant::from_ns(ns)
    }

    fn attempt(number: u64) -> Attempt {
        Attempt { id: TxnId { client: 1, number }, coordinator: Node(0), round: 0 }
    }

    #[test]
    fn clause_2_4_a_clock_stays_below_what_is_pending_and_goes_on_counting() {
        let mut clock = Clock::default();
        clock.hold(attempt(1), Ts { t: 1_000, k: 0, n: 9 });
        assert_eq!(clock.next(at(500), 3, true), Ts { t: 500, k: 500, n: 3 });
        let first = clock.next(at(1_200), 3, true);
        let second = clock.next(at(1_300), 3, true);
        assert_eq!((first.t, first.k), (999, 1_200));
        assert_eq!((second.t, second.k), (999, 1_300));
        clock.let_go(attempt(1));
        // After a stretch the clock may jump, and the counter is physical time again.
        assert_eq!(clock.next(at(1_400), 3, true), Ts { t: 1_400, k: 1_400, n: 3 });
    }

    #[test]
    fn clause_2_14_a_clock_held_below_what_it_gave_goes_on_with_the_others() {
        let mut clock = Clock::default();
        assert_eq!(clock.next(at(2_000), 3, true).t, 2_000);
        clock.hold(attempt(1), Ts { t: 1_000, k: 0, n: 9 });
        // Another one, which gave nothing before, would count by physical time as well.
        assert_eq!(clock.next(at(7_000), 3, true), Ts { t: 2_000, k: 7_000, n: 3 });
        assert_eq!(clock.next(at(9_000), 3, true), Ts { t: 2_000, k: 9_000, n: 3 });
    }

    #[test]
    fn clause_2_4_a_wall_clock_that_steps_back_is_waited_for() {
        let mut clock = Clock::default();
        let first = clock.next(at(5_000), 3, true);
        let second = clock.next(at(100), 3, true);
        assert!(second > first && second.t == 5_000 && second.k == 5_001);
    }

    #[test]
    fn clause_2_4_the_fastest_clock_is_followed_but_not_any_distance() {
        let mut clock = Clock::default();
        clock.learn(at(100), Ts { t: 900, k: 0, n: 1 }, Span::from_ns(1_000));
        assert_eq!(clock.physical(at(100)), 900);
        clock.learn(at(100), Ts { t: 99_000, k: 0, n: 1 }, Span::from_ns(1_000));
        assert_eq!((clock.physical(at(100)), clock.refused), (900, 1));
    }
}
