//! Work that no client waits for, by a thread that goes after all others: segments of what was
//! copied, and merged segments.
//!
//! Where more wants to run than there are processors, a query would wait for such work, a few
//! milliseconds each time, and has many parts that can. The system runs this thread when nobody
//! else wants a processor. It never has a lock: whoever waits for it takes them before or after.

use cavy_core::Span;
use rustix::process::setpriority_process;
use rustix::thread::gettid;
use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

type Task = Box<dyn FnOnce() + Send>;

/// The lowest priority of ordinary threads, which needs no privilege.
const LAST: i32 = 19;

thread_local! {
    /// What was done for this thread, nanoseconds of a processor.
    static SPENT_NS: Cell<u64> = const { Cell::new(0) };
}

/// What this thread has had of a processor, nanoseconds.
pub fn processor_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Where tasks go; none if the system has no more threads.
fn bench() -> Option<&'static Sender<Task>> {
    static BENCH: OnceLock<Option<Sender<Task>>> = OnceLock::new();
    let start = || {
        let (give, tasks) = channel::<Task>();
        let work = move || {
            // Where it is refused, the thread goes as all others do.
            let _ = setpriority_process(Some(gettid()), LAST);
            tasks.iter().for_each(|task| task());
        };
        std::thread::Builder::new().name("cavy-last".to_owned()).spawn(work).ok().map(|_| give)
    };
    BENCH.get_or_init(start).as_ref()
}

/// Has something done when nobody else wants to run, and waits for it.
///
/// # Panics
/// When it panics.
pub fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let Some(bench) = bench() else { return work() };
    let (tell, told) = channel();
    let task = Box::new(move || {
        let began = processor_ns();
        let done = work();
        let _ = tell.send((done, processor_ns().saturating_sub(began)));
    });
    let given = bench.send(task);
    let (done, ns) = given.ok().and_then(|()| told.recv().ok()).expect("the last thread goes on");
    add(ns);
    done
}

/// What another thread did for this one counts as done aside, nanoseconds.
pub fn add(ns: u64) {
    SPENT_NS.with(|spent| spent.set(spent.get() + ns));
}

/// What was done aside for this thread since it asked last, of a processor.
pub fn spent() -> Span {
    Span::from_ns(SPENT_NS.with(|spent| spent.replace(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_aside_goes_last_and_is_counted() {
        let (priority, sum) = aside(|| {
            let own = rustix::process::getpriority_process(Some(gettid())).ok();
            (own, (0..3_000_000_u64).fold(0, |sum, n| std::hint::black_box(sum ^ n)))
        });
        assert_eq!(priority, Some(LAST));
        assert_eq!(sum, (0..3_000_000_u64).fold(0, |sum, n| sum ^ n));
        assert_ne!(rustix::process::getpriority_process(Some(gettid())).ok(), Some(LAST));
        assert!(spent() > Span::ZERO);
        assert_eq!(spent(), Span::ZERO);
    }
}
