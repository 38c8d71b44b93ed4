//! Work that machines describe, on threads of its own.

use cavy_core::Span;
use cavy_core::family::message::{Protocol, Work};
use parking_lot::{Condvar, Mutex};
use rustix::time::{ClockId, clock_gettime};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;

/// Does the jobs of a protocol. Shared by the threads that work.
pub trait Jobs<P: Protocol>: Send + Sync + 'static {
    /// Does one. It looks at `cancelled` now and then and returns early when it is true. What it
    /// found it leaves where the [`Codec`](crate::Codec) finds it: the machine hears only that the
    /// work ended.
    fn run(&self, work: Work, job: &P::Job, cancelled: &AtomicBool);
}

/// For protocols whose machines ask for no work.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoJobs;

impl<P: Protocol> Jobs<P> for NoJobs {
    fn run(&self, _: Work, _: &P::Job, _: &AtomicBool) {}
}

/// A work that ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Done {
    pub work: Work,
    pub took: Span,
    pub finished: bool,
}

struct Asked<J> {
    work: Work,
    job: J,
    cancelled: Arc<AtomicBool>,
}

struct Queue<J> {
    waiting: VecDeque<Asked<J>>,
    running: Vec<(Work, Arc<AtomicBool>)>,
    ending: bool,
}

struct Shared<J> {
    queue: Mutex<Queue<J>>,
    more: Condvar,
}

type Told = Arc<dyn Fn(Done) + Send + Sync>;

/// The threads that work.
pub(crate) struct Bench<J> {
    shared: Arc<Shared<J>>,
    told: Told,
    threads: Vec<JoinHandle<()>>,
}

impl<J: Send + 'static> Bench<J> {
    pub fn start<P, W>(jobs: Arc<W>, threads: usize, told: Told) -> io::Result<Bench<J>>
    where
        P: Protocol<Job = J> + 'static,
        W: Jobs<P>,
    {
        let (waiting, running) = (VecDeque::new(), Vec::new());
        let queue = Mutex::new(Queue { waiting, running, ending: false });
        let shared = Arc::new(Shared { queue, more: Condvar::new() });
        let start = |number| {
            let (shared, jobs, told) = (Arc::clone(&shared), Arc::clone(&jobs), Arc::clone(&told));
            std::thread::Builder::new()
                .name(format!("cavy-work-{number}"))
                .spawn(move || work(&shared, &*jobs, &told))
        };
        let threads = (0..threads).map(start).collect::<io::Result<_>>()?;
        Ok(Bench { shared, told, threads })
    }

    pub fn ask(&self, work: Work, job: J) {
        let cancelled = Arc::new(AtomicBool::new(false));
        self.shared.queue.lock().waiting.push_back(Asked { work, job, cancelled });
        self.shared.more.notify_one();
    }

    pub fn cancel(&self, work: Work) {
        let mut queue = self.shared.queue.lock();
        if let Some((_, cancelled)) = queue.running.iter().find(|(running, _)| *running == work) {
            cancelled.store(true, Relaxed);
            return;
        }
        let before = queue.waiting.len();
        queue.waiting.retain(|asked| asked.work != work);
        let was_waiting = queue.waiting.len() < before;
        drop(queue);
        if was_waiting {
            (self.told)(Done { work, took: Span::ZERO, finished: false });
        }
    }

    /// Cancels everything and waits for the threads.
    pub fn finish(&mut self) {
        let mut queue = self.shared.queue.lock();
        queue.ending = true;
        queue.waiting.clear();
        for (_, cancelled) in &queue.running {
            cancelled.store(true, Relaxed);
        }
        drop(queue);
        self.shared.more.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn processor_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

fn work<P: Protocol>(shared: &Shared<P::Job>, jobs: &impl Jobs<P>, told: &Told) {
    loop {
        let mut queue = shared.queue.lock();
        let asked = loop {
            if queue.ending {
                return;
            }
            if let Some(asked) = queue.waiting.pop_front() {
                break asked;
            }
            shared.more.wait(&mut queue);
        };
        let Asked { work, job, cancelled } = asked;
        queue.running.push((work, Arc::clone(&cancelled)));
        drop(queue);
        let began = processor_ns();
        jobs.run(work, &job, &cancelled);
        let took = Span::from_ns(processor_ns().saturating_sub(began));
        shared.queue.lock().running.retain(|(running, _)| *running != work);
        told(Done { work, took, finished: !cancelled.load(Relaxed) });
    }
}
