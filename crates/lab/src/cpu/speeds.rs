//! Workers of unequal speed.

use cavy_core::Span;
use cavy_core::family::cpu::{Req, Worker};

/// Units of [`Speed`] in the speed that service times are given for.
const WHOLE: u32 = 1_000_000;

/// How much faster than in its service time a worker runs a request: 0.001 to 1000 times.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Speed(u32);

impl Speed {
    /// That for which service times are given.
    pub const ONE: Speed = Speed(WHOLE);

    /// `ratio` times as fast, exact to a millionth. `None` when that is out of range.
    pub const fn new(ratio: f64) -> Option<Speed> {
        if ratio >= 0.001 && ratio <= 1_000.0 {
            // Half a unit rounds to the nearest.
            Some(Speed((ratio * WHOLE as f64 + 0.5) as u32))
        } else {
            None
        }
    }

    /// How many times as fast.
    pub fn ratio(self) -> f64 {
        f64::from(self.0) / f64::from(WHOLE)
    }

    /// How long a worker is busy with `work`, at least as long as it takes.
    pub(crate) fn takes(self, work: Span) -> Span {
        let ns = (u128::from(work.as_ns()) * u128::from(WHOLE)).div_ceil(u128::from(self.0));
        Span::from_ns(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// The work that a worker does in `time`, at most.
    pub(crate) fn does(self, time: Span) -> Span {
        let ns = u128::from(time.as_ns()) * u128::from(self.0) / u128::from(WHOLE);
        Span::from_ns(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

/// Groups of workers that [`Speeds`] has room for.
pub const GROUPS_MAX: usize = 16;

/// The speeds of all workers, by groups in the order of their numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Speeds([(u16, Speed); GROUPS_MAX]);

impl Speeds {
    /// So many workers of each speed. `None` for more than [`GROUPS_MAX`] groups.
    pub const fn new(groups: &[(u16, Speed)]) -> Option<Speeds> {
        if groups.len() > GROUPS_MAX {
            return None;
        }
        let mut all = [(0, Speed::ONE); GROUPS_MAX];
        let mut index = 0;
        while index < groups.len() {
            all[index] = groups[index];
            index += 1;
        }
        Some(Speeds(all))
    }

    /// Workers of speed 1 that do as much as all of these.
    pub fn sum(&self) -> f64 {
        self.0.iter().map(|&(count, speed)| f64::from(count) * speed.ratio()).sum()
    }

    fn each(&self) -> impl Iterator<Item = Speed> + '_ {
        self.0.iter().flat_map(|&(count, speed)| (0..count).map(move |_| speed))
    }
}

/// The workers of a run, and what their requests owe to their speeds.
#[derive(Clone, Debug)]
pub(super) struct Unequal {
    speeds: Vec<Speed>,
    /// How much longer than its work each request has run, in ns; less where workers are fast.
    longer_ns: Vec<i64>,
}

impl Unequal {
    /// `workers` workers; those that `speeds` does not name are of speed 1.
    pub(super) fn new(speeds: &Speeds, workers: u16) -> Unequal {
        let named = speeds.each().chain(std::iter::repeat(Speed::ONE));
        Unequal { speeds: named.take(usize::from(workers)).collect(), longer_ns: Vec::new() }
    }

    /// How long `worker` is busy with `work`.
    pub(super) fn takes(&self, worker: Worker, work: Span) -> Span {
        self.speeds[worker.0 as usize].takes(work)
    }

    /// What `worker` did of `req` in `ran`, before it stopped.
    pub(super) fn stopped(&mut self, worker: Worker, req: Req, ran: Span) -> Span {
        let done = self.speeds[worker.0 as usize].does(ran);
        self.add(req, ran, done);
        done
    }

    /// `req` is over: it had `left` to do and ran for another `ran`. How much longer than its work
    /// it ran in all, in ns.
    pub(super) fn over(&mut self, req: Req, ran: Span, left: Span) -> i64 {
        self.add(req, ran, left);
        std::mem::take(&mut self.longer_ns[req.0 as usize])
    }

    fn add(&mut self, req: Req, ran: Span, done: Span) {
        let index = req.0 as usize;
        if self.longer_ns.len() <= index {
            self.longer_ns.resize(index + 1, 0);
        }
        self.longer_ns[index] += ran.as_ns() as i64 - done.as_ns() as i64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_and_time_are_told_apart_exactly() {
        let slow = Speed::new(0.6).expect("a speed");
        assert_eq!(slow.ratio(), 0.6);
        for ns in [0, 1, 2, 3, 600, 601, 1_000_000_007] {
            let work = Span::from_ns(ns);
            assert_eq!(Speed::ONE.takes(work), work);
            // Whoever has run as long as it takes has done all.
            assert_eq!(slow.does(slow.takes(work)), work);
        }
        assert_eq!(slow.takes(Span::from_ns(600)), Span::from_ns(1_000));
        assert_eq!([0.0, -1.0, 0.0009, 1_001.0, f64::NAN].map(Speed::new), [None; 5]);
    }
}
