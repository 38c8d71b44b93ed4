//! Pools as people write them with the standard library.

use super::Errand;
use crate::study::work::Work;
use cavy_live::load::{Target, Ticket};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

/// Threads that take jobs from one channel in turn.
pub struct Channel {
    jobs: Option<mpsc::Sender<Errand>>,
    threads: Vec<JoinHandle<()>>,
}

fn spawn(body: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("peer".to_string()).spawn(body)
}

impl Channel {
    /// As many threads.
    pub fn start(threads: usize) -> std::io::Result<Channel> {
        let (jobs, receiver) = mpsc::channel::<Errand>();
        let receiver = Arc::new(Mutex::new(receiver));
        let thread = |_| {
            let receiver = Arc::clone(&receiver);
            spawn(move || {
                loop {
                    let next = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    match next {
                        Ok(errand) => errand.run(),
                        Err(_) => return,
                    }
                }
            })
        };
        let threads = (0..threads).map(thread).collect::<Result<_, _>>()?;
        Ok(Channel { jobs: Some(jobs), threads })
    }

    fn send(&self, errand: Errand) {
        if let Some(jobs) = &self.jobs {
            // A pool whose threads are gone drops the errand, which is then refused.
            let _ = jobs.send(errand);
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A pool for each type, or one for all.
pub struct Split {
    /// The pool of each type; types beyond the last share it.
    pub pools: Vec<Channel>,
    /// What requests do.
    pub work: Work,
}

impl Target for Split {
    fn submit(&mut self, ticket: Ticket) {
        let index = usize::from(ticket.kind()).min(self.pools.len().saturating_sub(1));
        if let Some(pool) = self.pools.get(index) {
            pool.send(Errand::new(ticket, &self.work));
        }
    }
}

/// A job in a priority queue: earlier types first, then first come first served.
struct Waiting {
    kind: u16,
    number: u64,
    errand: Errand,
}

impl Waiting {
    fn rank(&self) -> (u16, u64) {
        (self.kind, self.number)
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}
impl Eq for Waiting {}
impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Waiting {
    /// The heap gives the greatest first, so the order is turned round.
    fn cmp(&self, other: &Self) -> Ordering {
        other.rank().cmp(&self.rank())
    }
}

#[derive(Default)]
struct Line {
    waiting: BinaryHeap<Waiting>,
    closed: bool,
}

/// Threads that share a priority queue behind a lock.
pub struct ByPriority {
    line: Arc<(Mutex<Line>, Condvar)>,
    threads: Vec<JoinHandle<()>>,
    number: u64,
    work: Work,
}

impl ByPriority {
    /// As many threads.
    pub fn start(threads: usize, work: Work) -> std::io::Result<ByPriority> {
        let line = Arc::new((Mutex::new(Line::default()), Condvar::new()));
        let thread = |_| {
            let line = Arc::clone(&line);
            spawn(move || {
                while let Some(errand) = next(&line) {
                    errand.run();
                }
            })
        };
        let threads = (0..threads).map(thread).collect::<Result<_, _>>()?;
        Ok(ByPriority { line, threads, number: 0, work })
    }
}

fn next((line, bell): &(Mutex<Line>, Condvar)) -> Option<Errand> {
    let mut guard = line.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        match guard.waiting.pop() {
            Some(first) => return Some(first.errand),
            None if guard.closed => return None,
            None => guard = bell.wait(guard).unwrap_or_else(PoisonError::into_inner),
        }
    }
}

impl Target for ByPriority {
    fn submit(&mut self, ticket: Ticket) {
        let errand = Errand::new(ticket, &self.work);
        self.number += 1;
        let waiting = Waiting { kind: errand.kind(), number: self.number, errand };
        let (line, bell) = &*self.line;
        line.lock().unwrap_or_else(PoisonError::into_inner).waiting.push(waiting);
        bell.notify_one();
    }
}

impl Drop for ByPriority {
    fn drop(&mut self) {
        let (line, bell) = &*self.line;
        line.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        bell.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
