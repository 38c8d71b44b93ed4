//! The one clock of this room.

use cavy_core::Instant;

/// Nanoseconds on the monotonic clock since an epoch, as machines count time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch: std::time::Instant,
}

impl Clock {
    /// A clock whose epoch is now.
    #[allow(clippy::disallowed_methods)]
    pub fn start() -> Self {
        Clock { epoch: std::time::Instant::now() }
    }

    /// The time now.
    #[inline]
    #[allow(clippy::disallowed_methods)]
    pub fn now(&self) -> Instant {
        #[cfg(any(test, feature = "fuzz"))]
        if let Some(now) = by_hand::HANDS.get() {
            return now;
        }
        let since = std::time::Instant::now().duration_since(self.epoch);
        Instant::from_ns(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// Time since 1970, as the system stamps packets.
#[allow(clippy::disallowed_methods)]
pub(crate) fn wall() -> std::time::Duration {
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}

/// Time that a test or a fuzzer moves, on its own thread.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod by_hand {
    use cavy_core::Instant;
    use std::cell::Cell;

    thread_local! {
        pub(super) static HANDS: Cell<Option<Instant>> = const { Cell::new(None) };
    }

    /// From now on all clocks of this thread show `now`; `None` gives them back their own time.
    pub(crate) fn set(now: Option<Instant>) {
        HANDS.set(now);
    }
}
