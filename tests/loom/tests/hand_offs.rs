//! Every interleaving of the small hand-offs.
#![allow(non_snake_case)]

use cavy_loom::handoff::{Bell, Mailbox};
use cavy_loom::task::{Job, JobError, Ran, Task};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

#[test]
fn mailbox__wakes_its_reader_for_every_letter() {
    loom::model(|| {
        let mailbox = Arc::new(Mailbox::default());
        let read = Arc::new(AtomicUsize::new(0));
        let reader = {
            let (mailbox, read) = (mailbox.clone(), read.clone());
            thread::spawn(move || {
                assert_eq!(mailbox.take(), 1);
                read.store(1, Ordering::Release);
                assert_eq!(mailbox.take(), 2);
            })
        };
        assert_eq!(mailbox.put(1), None);
        // The pool writes again only after the worker said that it ended.
        while read.load(Ordering::Acquire) == 0 {
            thread::yield_now();
        }
        assert_eq!(mailbox.put(2), None);
        reader.join().unwrap();
    });
}

#[test]
fn mailbox__survives_a_writer_before_the_reader() {
    loom::model(|| {
        let mailbox = Arc::new(Mailbox::default());
        let writer = {
            let mailbox = mailbox.clone();
            thread::spawn(move || mailbox.put(7))
        };
        assert_eq!(mailbox.take(), 7);
        assert_eq!(writer.join().unwrap(), None);
    });
}

/// The queue is a relaxed counter: weaker than any real ring, so that only the bell's fences can
/// order it.
#[test]
fn bell__never_sleeps_through_what_was_queued() {
    loom::model(|| {
        let bell = Arc::new(Bell::default());
        let queued = Arc::new(AtomicUsize::new(0));
        let sleeper = {
            let (bell, queued) = (bell.clone(), queued.clone());
            thread::spawn(move || {
                // A missed ring leaves this parked for ever, which loom reports as a deadlock.
                while queued.load(Ordering::Relaxed) < 1 {
                    bell.sleep_unless(|| queued.load(Ordering::Relaxed) > 0);
                }
            })
        };
        queued.store(1, Ordering::Relaxed);
        bell.ring();
        sleeper.join().unwrap();
    });
}

#[test]
fn bell__is_heard_from_two_sides() {
    // Three threads: all interleavings take too long, those with two preemptions do not.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let bell = Arc::new(Bell::default());
        let queued = Arc::new(AtomicUsize::new(0));
        let ringers: Vec<_> = (0..2)
            .map(|_| {
                let (bell, queued) = (bell.clone(), queued.clone());
                thread::spawn(move || {
                    queued.fetch_add(1, Ordering::Relaxed);
                    bell.ring();
                })
            })
            .collect();
        // Not on the first thread: loom takes a late unpark for the end of a join.
        let sleeper = thread::spawn(move || {
            loop {
                let seen = queued.load(Ordering::Relaxed);
                if seen == 2 {
                    return;
                }
                bell.sleep_unless(|| queued.load(Ordering::Relaxed) > seen);
            }
        });
        for ringer in ringers {
            ringer.join().unwrap();
        }
        sleeper.join().unwrap();
    });
}

#[test]
fn job__delivers_to_who_waits() {
    loom::model(|| {
        let (ours, handle) = Job::open(|| 7);
        let worker = thread::spawn(move || {
            assert_eq!(ours.run(), Ran::Returned);
            ours.deliver();
        });
        assert_eq!(handle.join(), Ok(7));
        worker.join().unwrap();
    });
}

#[test]
fn job__runs_or_is_cancelled_never_both() {
    loom::model(|| {
        let runs = Arc::new(AtomicUsize::new(0));
        let (ours, handle) = Job::open({
            let runs = runs.clone();
            move || runs.fetch_add(1, Ordering::Relaxed)
        });
        let worker = thread::spawn(move || {
            ours.run();
            ours.deliver();
        });
        let cancelled = handle.cancel();
        let result = handle.join();
        worker.join().unwrap();
        let ran = runs.load(Ordering::Relaxed);
        assert_eq!(ran, usize::from(!cancelled));
        assert_eq!(result.is_ok(), !cancelled);
        assert!(!cancelled || result == Err(JobError::Cancelled));
    });
}

#[test]
fn job__wakes_a_future() {
    loom::model(|| {
        let (ours, handle) = Job::open(|| 7);
        let worker = thread::spawn(move || {
            ours.run();
            ours.deliver();
        });
        assert_eq!(loom::future::block_on(handle), Ok(7));
        worker.join().unwrap();
    });
}
