//! What a node takes for the time of day.

use cavy_core::Instant;
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;

/// How wrong a node's wall clock is made. All processes of one machine share a clock that is right,
/// so a cluster on one machine needs this to be like one on several. The default changes nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Skew {
    /// Ahead of the machine's clock by so many nanoseconds; negative: behind.
    pub offset_ns: i64,
    /// Faster by so many parts in 10^6 since the node was started; negative: slower.
    pub drift_ppm: i64,
}

/// A wall clock that can be stepped while it runs. Clones are one clock.
#[derive(Clone, Debug)]
pub struct Wall {
    skew: Arc<Mutex<Skew>>,
    since: u64,
}

impl Wall {
    /// The machine's clock, made wrong by `skew`.
    pub fn new(skew: Skew) -> Wall {
        Wall { skew: Arc::new(Mutex::new(skew)), since: real_ns() }
    }

    /// What it shows: nanoseconds since 1970.
    pub fn now(&self) -> Instant {
        let (real, skew) = (real_ns(), *self.skew.lock());
        let run = i128::from(real) - i128::from(self.since);
        let shown = i128::from(real)
            + i128::from(skew.offset_ns)
            + run * i128::from(skew.drift_ppm) / 1_000_000;
        Instant::from_ns(shown.clamp(0, i128::from(u64::MAX - 1)) as u64)
    }

    /// Moves it by so many nanoseconds, at once.
    pub fn step(&self, by_ns: i64) {
        let mut skew = self.skew.lock();
        skew.offset_ns = skew.offset_ns.saturating_add(by_ns);
    }
}

fn real_ns() -> u64 {
    let time = clock_gettime(ClockId::Realtime);
    time.tv_sec.unsigned_abs().saturating_mul(1_000_000_000) + time.tv_nsec.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_wrong_as_told() {
        let (right, ahead) = (
            Wall::new(Skew::default()),
            Wall::new(Skew { offset_ns: 5_000_000_000, drift_ppm: 0 }),
        );
        let apart = ahead.now().since(right.now()).as_ns();
        assert!((4_900_000_000..5_100_000_000).contains(&apart), "{apart}");
        ahead.step(-10_000_000_000);
        let apart = right.now().since(ahead.now()).as_ns();
        assert!((4_900_000_000..5_100_000_000).contains(&apart), "{apart}");
        let far = Wall::new(Skew { offset_ns: i64::MIN, drift_ppm: -1 });
        assert_eq!(far.now(), Instant::ZERO);
    }
}
