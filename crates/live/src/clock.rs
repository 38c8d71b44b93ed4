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
        let since = std::time::Instant::now().duration_since(self.epoch);
        Instant::from_ns(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }
}
