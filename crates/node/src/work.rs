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

    /// What other threads took of processors for the job that this thread has just run. It counts
    /// as what the job took.
    fn done_elsewhere(&self) -> Span {
        Span::ZERO
    }

    /// A job that gives way is done by a thread of its own, so that no other job waits behind it.
    ///
    /// The thread has the priority of all others: one of a low priority, on a machine where others
    /// always want to run, keeps whatever lock it has for as long as they do. A job may have such a
    /// thread for what needs no lock ([`Jobs::done_elsewhere`]).
    fn gives_way(&self, _: &P::Job) -> bool {
        false
    }
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
    /// Those that give way are the second.
    waiting: [VecDeque<Asked<J>>; 2],
    running: Vec<(Work, Arc<AtomicBool>)>,
    ending: bool,
}

struct Shared<J> {
    queue: Mutex<Queue<J>>,
    more: [Condvar; 2],
}

type Told = Arc<dyn Fn(Done) + Send + Sync>;
type GivesWay<J> = Box<dyn Fn(&J) -> bool + Send + Sync>;

/// The threads that work.
pub(crate) struct Bench<J> {
    shared: Arc<Shared<J>>,
    told: Told,
    gives_way: GivesWay<J>,
    threads: Vec<JoinHandle<()>>,
}

impl<J: Send + 'static> Bench<J> {
    pub fn start<P, W>(jobs: Arc<W>, threads: usize, told: Told) -> io::Result<Bench<J>>
    where
        P: Protocol<Job = J> + 'static,
        W: Jobs<P>,
    {
        let (waiting, running) = (Default::default(), Vec::new());
        let queue = Mutex::new(Queue { waiting, running, ending: false });
        let shared = Arc::new(Shared { queue, more: Default::default() });
        let start = |(name, which): (String, usize)| {
            let (shared, jobs, told) = (Arc::clone(&shared), Arc::clone(&jobs), Arc::clone(&told));
            std::thread::Builder::new()
                .name(name)
                .spawn(move || work(&shared, which, &*jobs, &told))
        };
        let usual = (0..threads).map(|number| (format!("cavy-work-{number}"), 0));
        let threads = usual.chain([("cavy-work-aside".to_owned(), 1)]).map(start);
        let threads = threads.collect::<io::Result<_>>()?;
        let gives_way: GivesWay<J> = Box::new(move |job| jobs.gives_way(job));
        Ok(Bench { shared, told, gives_way, threads })
    }

    pub fn ask(&self, work: Work, job: J) {
        let which = usize::from((self.gives_way)(&job));
        let cancelled = Arc::new(AtomicBool::new(false));
        self.shared.queue.lock().waiting[which].push_back(Asked { work, job, cancelled });
        self.shared.more[which].notify_one();
    }

    pub fn cancel(&self, work: Work) {
        let mut queue = self.shared.queue.lock();
        if let Some((_, cancelled)) = queue.running.iter().find(|(running, _)| *running == work) {
            cancelled.store(true, Relaxed);
            return;
        }
        let count = |queue: &Queue<J>| queue.waiting.iter().map(VecDeque::len).sum::<usize>();
        let before = count(&queue);
        queue.waiting.iter_mut().for_each(|waiting| waiting.retain(|asked| asked.work != work));
        let was_waiting = count(&queue) < before;
        drop(queue);
        if was_waiting {
            (self.told)(Done { work, took: Span::ZERO, finished: false });
        }
    }

    /// Cancels everything and waits for the threads.
    pub fn finish(&mut self) {
        let mut queue = self.shared.queue.lock();
        queue.ending = true;
        queue.waiting.iter_mut().for_each(VecDeque::clear);
        for (_, cancelled) in &queue.running {
            cancelled.store(true, Relaxed);
        }
        drop(queue);
        for more in &self.shared.more {
            more.notify_all();
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn processor_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

fn work<P: Protocol>(shared: &Shared<P::Job>, which: usize, jobs: &impl Jobs<P>, told: &Told) {
    loop {
        let mut queue = shared.queue.lock();
        let asked = loop {
            if queue.ending {
                return;
            }
            if let Some(asked) = queue.waiting[which].pop_front() {
                break asked;
            }
            shared.more[which].wait(&mut queue);
        };
        let Asked { work, job, cancelled } = asked;
        queue.running.push((work, Arc::clone(&cancelled)));
        drop(queue);
        let began = processor_ns();
        jobs.run(work, &job, &cancelled);
        let own = Span::from_ns(processor_ns().saturating_sub(began));
        let took = own + jobs.done_elsewhere();
        shared.queue.lock().running.retain(|(running, _)| *running != work);
        told(Done { work, took, finished: !cancelled.load(Relaxed) });
    }
}
