//! Cost of dispatch, with empty jobs and two workers, beside the pools a user would take instead.
//!
//! * throughput: one submitter, a window of 256 jobs in flight; wall time per job;
//! * ping: submit and join, one job at a time, which is two wake-ups of a sleeping thread;
//! * contention: four submitters; time from submission to start, p50 and p99.9;
//! * hand-off: the dispatcher's ring one way, both ends polling;
//! * memory: bytes allocated per queued job.
//!
//! Peers run in turns, three rounds, and the median round counts. Run on an idle machine:
//! `cargo bench` in this folder.
#![allow(clippy::disallowed_methods)]

use cavy_live::pool::{Driver, Handle};
use cavy_live::{Kind, Policy, Pool, Shutdown};
use hdrhistogram::Histogram;
use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

const WORKERS: u16 = 2;
const WINDOW: usize = 256;
const JOBS: usize = 100_000;
const PINGS: usize = 5_000;
const ROUNDS: usize = 3;

/// Something that runs a closure and lets us wait for it.
trait Peer: Sync {
    fn name(&self) -> &'static str;
    /// Submits, returns a wait.
    fn submit(&self, job: Box<dyn FnOnce() + Send>) -> Box<dyn FnOnce()>;
}

struct Ours(&'static str, Pool);

impl Peer for Ours {
    fn name(&self) -> &'static str {
        self.0
    }
    fn submit(&self, job: Box<dyn FnOnce() + Send>) -> Box<dyn FnOnce()> {
        let handle: Handle<()> = self.1.submit(Kind(1), job);
        Box::new(move || handle.join().expect("runs"))
    }
}

struct Tokio(tokio::runtime::Runtime);

impl Peer for Tokio {
    fn name(&self) -> &'static str {
        "tokio spawn_blocking"
    }
    fn submit(&self, job: Box<dyn FnOnce() + Send>) -> Box<dyn FnOnce()> {
        let handle = self.0.spawn_blocking(job);
        let runtime = self.0.handle().clone();
        Box::new(move || runtime.block_on(handle).expect("runs"))
    }
}

struct Rayon(rayon::ThreadPool);

impl Peer for Rayon {
    fn name(&self) -> &'static str {
        "rayon spawn"
    }
    fn submit(&self, job: Box<dyn FnOnce() + Send>) -> Box<dyn FnOnce()> {
        let (done, wait) = mpsc::sync_channel(1);
        self.0.spawn(move || {
            job();
            let _ = done.send(());
        });
        Box::new(move || wait.recv().expect("runs"))
    }
}

type Boxed = Box<dyn FnOnce() + Send>;

struct Threads(mpsc::Sender<Boxed>);

impl Threads {
    fn start() -> Self {
        let (sender, jobs) = mpsc::channel::<Boxed>();
        let jobs = Arc::new(Mutex::new(jobs));
        for _ in 0..WORKERS {
            let jobs = jobs.clone();
            std::thread::spawn(move || {
                loop {
                    let next = jobs.lock().expect("jobs do not panic").recv();
                    match next {
                        Ok(job) => job(),
                        Err(_) => return,
                    }
                }
            });
        }
        Threads(sender)
    }
}

impl Peer for Threads {
    fn name(&self) -> &'static str {
        "threads + channel"
    }
    fn submit(&self, job: Boxed) -> Box<dyn FnOnce()> {
        let (done, wait) = mpsc::sync_channel(1);
        let job: Boxed = Box::new(move || {
            job();
            let _ = done.send(());
        });
        self.0.send(job).expect("the threads live");
        Box::new(move || wait.recv().expect("runs"))
    }
}

/// Nanoseconds up to a minute, three digits.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(60_000_000_000, 3).expect("legal bounds")
}

fn throughput_ns(peer: &dyn Peer) -> f64 {
    let mut in_flight = VecDeque::with_capacity(WINDOW);
    let start = Instant::now();
    for _ in 0..JOBS {
        if in_flight.len() == WINDOW {
            let wait: Option<Box<dyn FnOnce()>> = in_flight.pop_front();
            if let Some(wait) = wait {
                wait();
            }
        }
        in_flight.push_back(peer.submit(Box::new(|| ())));
    }
    in_flight.into_iter().for_each(|wait| wait());
    start.elapsed().as_nanos() as f64 / JOBS as f64
}

fn ping_ns(peer: &dyn Peer) -> f64 {
    let mut times = histogram();
    for _ in 0..PINGS {
        let start = Instant::now();
        peer.submit(Box::new(|| ()))();
        times.saturating_record(start.elapsed().as_nanos() as u64);
    }
    times.value_at_quantile(0.5) as f64
}

/// Submission to start under four submitters, each with one job in flight: (p50, p99.9).
fn contention_ns(peer: &dyn Peer) -> (f64, f64) {
    let epoch = Instant::now();
    let all = Mutex::new(histogram());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut times = histogram();
                let started = Arc::new(AtomicU64::new(0));
                for _ in 0..PINGS {
                    let submitted = epoch.elapsed().as_nanos() as u64;
                    let stamp = started.clone();
                    peer.submit(Box::new(move || {
                        stamp.store(epoch.elapsed().as_nanos() as u64, Ordering::Release);
                    }))();
                    times.saturating_record(started.load(Ordering::Acquire) - submitted);
                }
                all.lock().expect("nobody panics").add(&times).expect("same bounds");
            });
        }
    });
    let all = all.into_inner().expect("nobody panics");
    (all.value_at_quantile(0.5) as f64, all.value_at_quantile(0.999) as f64)
}

/// One way over a ring, both ends polling, from half of many round trips: the floor of the
/// dedicated dispatcher's hand-off.
fn ring_one_way_ns() -> f64 {
    let (mut to, mut there) = rtrb::RingBuffer::<u64>::new(2);
    let (mut back, mut here) = rtrb::RingBuffer::<u64>::new(2);
    let echo = std::thread::spawn(move || {
        loop {
            if let Ok(value) = there.pop() {
                let _ = back.push(value);
                if value == u64::MAX {
                    return;
                }
            }
            std::hint::spin_loop();
        }
    });
    let mut times = histogram();
    for n in 0..PINGS as u64 {
        let start = Instant::now();
        let _ = to.push(n);
        while here.pop().is_err() {
            std::hint::spin_loop();
        }
        times.saturating_record(start.elapsed().as_nanos() as u64);
    }
    let _ = to.push(u64::MAX);
    echo.join().expect("no panic");
    times.value_at_quantile(0.5) as f64 / 2.0
}

/// Submission to start with the dedicated driver, one worker, both threads polling: intake,
/// decision, ring. Two cores are needed for dispatcher and worker, so the submitter sleeps.
fn dedicated_start_ns() -> f64 {
    let pool = ours(1, Driver::Dedicated { spin: Duration::from_millis(5) });
    for _ in 0..2_000 {
        pool.submit(Kind(1), || ()).join().expect("runs");
        std::thread::sleep(Duration::from_micros(200));
    }
    pool.shutdown(Shutdown::Drain);
    pool.stats().types[1].wait.value_at_quantile(0.5) as f64
}

fn ours(workers: u16, driver: Driver) -> Pool {
    let pool = Pool::builder().workers(workers).types(["job"]).policy(Policy::CentralFcfs);
    pool.queue_limit(u32::MAX).driver(driver).build().expect("a legal pool")
}

/// Bytes allocated for each job that waits, closure of 16 bytes and handle included.
fn bytes_per_queued(driver: Driver) -> f64 {
    const QUEUED: u64 = 1 << 16;
    let pool = ours(1, driver);
    let (open, gate) = mpsc::channel::<()>();
    drop(pool.submit(Kind(1), move || {
        let _ = gate.recv();
    }));
    let mut handles = Vec::with_capacity(QUEUED as usize);
    let info = allocation_counter::measure(|| {
        for n in 0..QUEUED {
            let pair = (n, n + 1);
            handles.push(pool.submit(Kind(1), move || black_box(pair.0 + pair.1)));
        }
    });
    drop(open);
    handles.into_iter().for_each(|handle| drop(handle.join()));
    info.bytes_current as f64 / QUEUED as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(usize::from(WORKERS))
        .build()
        .expect("a runtime");
    let rayon = rayon::ThreadPoolBuilder::new().num_threads(usize::from(WORKERS)).build();
    let spin = Duration::from_micros(10);
    let darc = Pool::builder().workers(WORKERS).types(["job"]).queue_limit(u32::MAX);
    let peers: Vec<Box<dyn Peer>> = vec![
        Box::new(Ours("cavy inline, c-FCFS", ours(WORKERS, Driver::Inline))),
        Box::new(Ours("cavy inline, DARC", darc.build().expect("a legal pool"))),
        Box::new(Ours("cavy dedicated", ours(WORKERS, Driver::Dedicated { spin }))),
        Box::new(Tokio(runtime)),
        Box::new(Rayon(rayon.expect("a pool"))),
        Box::new(Threads::start()),
    ];
    for peer in &peers {
        throughput_ns(peer.as_ref());
    }
    let mut rows = vec![[const { Vec::new() }; 4]; peers.len()];
    for _ in 0..ROUNDS {
        for (peer, row) in peers.iter().zip(&mut rows) {
            row[0].push(throughput_ns(peer.as_ref()));
            row[1].push(ping_ns(peer.as_ref()));
            let (p50, p999) = contention_ns(peer.as_ref());
            row[2].push(p50);
            row[3].push(p999);
        }
    }
    println!(
        "{:22} {:>12} {:>12} {:>14} {:>14}",
        "ns", "per job", "ping p50", "start p50", "start p99.9"
    );
    for (peer, row) in peers.iter().zip(rows) {
        let [job, ping, p50, p999] = row.map(median);
        println!("{:22} {job:12.0} {ping:12.0} {p50:14.0} {p999:14.0}", peer.name());
    }
    drop(peers);
    println!("ring, one way, polling: {:.0} ns", ring_one_way_ns());
    println!("dedicated, submission to start, polling: {:.0} ns", dedicated_start_ns());
    println!("bytes per queued job: inline {:.0}", bytes_per_queued(Driver::Inline));
}
