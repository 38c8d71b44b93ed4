//! How long this machine keeps an ordinary thread waiting, for tests that judge times on machines
//! which other work shares.

use cavy_clock::{self as clock, Wait};
use cavy_core::Span;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// How often the thread wants to run.
const EVERY: Span = Span::from_ms(1);

/// A thread that wants to run every millisecond and remembers how late it was. It ends when this is
/// dropped.
#[derive(Debug)]
pub struct Stalls {
    seen: Arc<Seen>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Seen {
    worst_ns: AtomicU64,
    sum_ns: AtomicU64,
    ended: AtomicBool,
}

impl Stalls {
    /// Begins to watch.
    pub fn watch() -> Stalls {
        let seen = Arc::new(Seen::default());
        let of_thread = Arc::clone(&seen);
        let thread = std::thread::spawn(move || {
            while !of_thread.ended.load(Ordering::Relaxed) {
                let due = clock::now() + EVERY;
                let late = Wait::Sleep.until(due).since(due).as_ns();
                of_thread.worst_ns.fetch_max(late, Ordering::Relaxed);
                of_thread.sum_ns.fetch_add(late, Ordering::Relaxed);
            }
        });
        Stalls { seen, thread: Some(thread) }
    }

    /// The longest wait since this was asked last.
    pub fn worst(&self) -> Span {
        Span::from_ns(self.seen.worst_ns.swap(0, Ordering::Relaxed))
    }

    /// All waits together since this was asked last.
    pub fn sum(&self) -> Span {
        Span::from_ns(self.seen.sum_ns.swap(0, Ordering::Relaxed))
    }
}

impl Drop for Stalls {
    fn drop(&mut self) {
        self.seen.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeper_is_late_by_something_and_what_was_asked_is_forgotten() {
        let stalls = Stalls::watch();
        // Deadlines cannot be met to the nanosecond, so that some wait is always seen.
        let began = clock::now();
        let worst = loop {
            let worst = stalls.worst();
            if worst > Span::ZERO {
                break worst;
            }
            assert!(clock::now().since(began) < Span::from_ms(20_000), "nothing was seen");
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        assert!(stalls.sum() >= worst);
    }
}
