//! The monotonic clock of this machine, and waiting for a moment on it.
//!
//! All that runs in real time counts by it: generators, lines, live studies. It is the same for all
//! processes and network namespaces of a machine, so that stamps of one are read by another.
//!
//! A sleeping thread is woken 4 to 60 us late; a spinning one is not, but takes a core. Between the
//! two, a hybrid sleeps until shortly before the moment and spins the rest. An ordinary thread that
//! shares its core with busy ones is late by milliseconds however it waits; [`go_first`] helps.

use cavy_core::{Instant, Span};
use rustix::thread::{ClockId, clock_nanosleep_absolute};
use rustix::time::{Timespec, clock_gettime};
use std::num::NonZeroU64;
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadPriorityValue, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

/// The real-time priority, from 1 to 99: before ordinary threads, after what the kernel needs.
const FIRST: u8 = 20;

/// How a thread waits for a time, such as that of the next request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// Reads the clock until it is time: exact, and takes a whole core.
    Spin,
    /// Sleeps until shortly before the time, then spins.
    #[default]
    Hybrid,
    /// Sleeps until the time: gentle, and some microseconds late.
    Sleep,
}

/// How long before its time a hybrid wait stops sleeping: more than a sleeper is usually late.
pub const SPIN_SPAN: Span = Span::from_us(80);

/// The same for a thread that goes first: it is woken at once, and what it spins is taken from
/// others.
pub const SPIN_SPAN_FIRST: Span = Span::from_us(50);

/// Now, on the monotonic clock of this machine.
pub fn now() -> Instant {
    let time = clock_gettime(ClockId::Monotonic);
    // Neither part is negative on the monotonic clock, which starts at boot.
    Instant::from_ns(time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs())
}

impl Wait {
    /// Returns when `deadline` has come, with the time it then was. A hybrid spins for
    /// [`SPIN_SPAN`].
    pub fn until(self, deadline: Instant) -> Instant {
        self.until_with(deadline, SPIN_SPAN)
    }

    /// The same, with the time that a hybrid spins.
    pub fn until_with(self, deadline: Instant, spin: Span) -> Instant {
        match self {
            Wait::Spin => spin_until(deadline),
            Wait::Sleep => sleep_until(deadline),
            Wait::Hybrid => {
                let slept = Instant::from_ns(deadline.as_ns().saturating_sub(spin.as_ns()));
                if now() < slept {
                    sleep_until(slept);
                }
                spin_until(deadline)
            }
        }
    }
}

fn spin_until(deadline: Instant) -> Instant {
    loop {
        let time = now();
        if time >= deadline {
            return time;
        }
        std::hint::spin_loop();
    }
}

/// Sleeps to an absolute time, so that what happens before the sleep cannot delay its end.
fn sleep_until(deadline: Instant) -> Instant {
    let ns = deadline.as_ns();
    let request = Timespec {
        tv_sec: (ns / 1_000_000_000).try_into().unwrap_or(i64::MAX),
        tv_nsec: (ns % 1_000_000_000) as _,
    };
    loop {
        let time = now();
        if time >= deadline {
            return time;
        }
        // A signal ends the sleep early; then it goes on.
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &request);
    }
}

/// Asks the kernel to wake this thread within a nanosecond instead of 50 us after its time
/// (`PR_SET_TIMERSLACK`), and says what the slack now is in nanoseconds.
pub fn sharpen_timers() -> Option<u64> {
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    rustix::thread::current_timer_slack().ok()
}

/// Makes this thread go before all ordinary threads (`SCHED_FIFO`), if the system lets it: true
/// when it does now. It needs `CAP_SYS_NICE` or a limit on `rtprio`. Threads that it starts inherit
/// this, so whatever is to be ordinary must be started before.
pub fn go_first() -> bool {
    let Ok(priority) = ThreadPriorityValue::try_from(FIRST) else { return false };
    let fifo = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    let priority = ThreadPriority::Crossplatform(priority);
    set_thread_priority_and_policy(thread_native_id(), priority, fifo).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wait_ends_at_its_time_and_not_before() {
        for wait in [Wait::Spin, Wait::Hybrid, Wait::Sleep] {
            for us in [0, 20, 300, 2_000] {
                let deadline = now() + Span::from_us(us);
                let woken = wait.until(deadline);
                assert!(woken >= deadline && now() >= woken, "{wait:?} {us} us");
            }
        }
    }

    #[test]
    fn a_time_that_has_passed_is_not_waited_for() {
        for wait in [Wait::Spin, Wait::Hybrid, Wait::Sleep] {
            assert!(wait.until(Instant::ZERO) > Instant::ZERO);
        }
    }

    #[test]
    fn slack_is_one_nanosecond() {
        assert_eq!(sharpen_timers(), Some(1));
    }
}
