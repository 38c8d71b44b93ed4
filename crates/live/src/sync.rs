//! The primitives under the hand-offs: `parking_lot` and std in programs, loom's models of them
//! under `cfg(loom)`, which only `tests/loom` has: it compiles this file, and tries every
//! interleaving.

#[cfg(not(loom))]
mod primitives {
    pub use parking_lot::{Condvar, Mutex, MutexGuard};
    pub use std::sync::atomic::{AtomicBool, Ordering, fence};
    pub use std::thread::{Thread, current, park};

    /// Locks.
    pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock()
    }

    /// Waits until notified, or for no reason.
    pub fn wait<'a, T>(condvar: &Condvar, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        condvar.wait(&mut guard);
        guard
    }

    /// Waits until notified, for no reason, or for this long.
    pub fn wait_for<'a, T>(
        condvar: &Condvar,
        mut guard: MutexGuard<'a, T>,
        timeout: std::time::Duration,
    ) -> MutexGuard<'a, T> {
        condvar.wait_for(&mut guard, timeout);
        guard
    }
}

#[cfg(loom)]
mod primitives {
    pub use loom::sync::atomic::{AtomicBool, Ordering, fence};
    pub use loom::sync::{Condvar, Mutex, MutexGuard};
    pub use loom::thread::{Thread, current, park};
    use std::sync::PoisonError;

    /// Locks.
    pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until notified, or for no reason.
    pub fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        condvar.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// loom has no time: waits like [`wait`].
    pub fn wait_for<'a, T>(
        condvar: &Condvar,
        guard: MutexGuard<'a, T>,
        _timeout: std::time::Duration,
    ) -> MutexGuard<'a, T> {
        wait(condvar, guard)
    }
}

pub use primitives::*;
/// loom's own cannot hold a trait object.
pub use std::sync::Arc;
