//! What handing over costs on this machine at least, measured in the same run as everything else.

use cavy_core::Span;
use cavy_lab::statistics::quantile;
use cavy_live::load::clock;
use cavy_live::load::ledger::{Times, record, times};
use cavy_report::model::{Cell, Table};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

/// Wake-ups and round trips to measure.
const ROUNDS: u64 = 2_000;

/// How long a polling thread tries before it lets another one run: on a busy machine the other side
/// may need this very core.
const POLLS: u32 = 20_000;

/// The floors of `measurements.md` 3.5.
pub struct Floors {
    /// From waking a sleeping thread to its first instruction, one way.
    pub wake: Times,
    /// A value through shared memory to a polling thread and back.
    pub ring: Times,
}

impl Floors {
    /// Takes a fraction of a second, more on a busy machine.
    pub fn measure() -> std::io::Result<Floors> {
        Ok(Floors { wake: wake()?, ring: ring()? })
    }

    /// As a table.
    pub fn table(&self) -> Table {
        let mut rows = Vec::new();
        for (name, times, ways) in [
            ("waking a sleeping thread (futex), one way", &self.wake, 1.0),
            ("through shared memory, both ends polling, one way", &self.ring, 2.0),
        ] {
            let at = |p| match quantile::of_histogram(times, p) {
                Some(ns) => Cell::Number(ns as f64 / 1e3 / ways),
                None => Cell::Missing("n/a".to_string()),
            };
            rows.push(vec![Cell::Text(name.to_string()), at(0.5), at(0.9), at(0.99)]);
        }
        let columns = ["floor", "p50 (us)", "p90 (us)", "p99 (us)"].map(str::to_string).to_vec();
        let title = format!("Floors of this machine, {ROUNDS} rounds each");
        Table { id: "floors".to_string(), title, columns, rows }
    }
}

/// Unparks a thread that has been asleep for a while.
fn wake() -> std::io::Result<Times> {
    let stamp = Arc::new(AtomicU64::new(0));
    let over = Arc::new(AtomicBool::new(false));
    let (ready, awake) = mpsc::channel::<Span>();
    let (sent, ended) = (Arc::clone(&stamp), Arc::clone(&over));
    let sleeper = std::thread::Builder::new().name("floor".to_string()).spawn(move || {
        while !ended.load(Ordering::Acquire) {
            std::thread::park();
            let sent = sent.swap(0, Ordering::AcqRel);
            if sent != 0 {
                let passed = clock::now().as_ns().saturating_sub(sent);
                let _ = ready.send(Span::from_ns(passed));
            }
        }
    })?;
    let mut all = times();
    for _ in 0..ROUNDS {
        // Long enough for it to be asleep again.
        std::thread::sleep(std::time::Duration::from_micros(200));
        stamp.store(clock::now().as_ns(), Ordering::Release);
        sleeper.thread().unpark();
        if let Ok(span) = awake.recv() {
            record(&mut all, span);
        }
    }
    over.store(true, Ordering::Release);
    sleeper.thread().unpark();
    let _ = sleeper.join();
    Ok(all)
}

/// A value that goes through a ring and comes back through another.
fn ring() -> std::io::Result<Times> {
    let (mut to, mut there) = rtrb::RingBuffer::<u64>::new(2);
    let (mut back, mut here) = rtrb::RingBuffer::<u64>::new(2);
    let echo = std::thread::Builder::new().name("floor".to_string()).spawn(move || {
        while let Some(value) = poll(&mut there) {
            let _ = back.push(value);
            if value == ROUNDS {
                return;
            }
        }
    })?;
    let mut all = times();
    for round in 1..=ROUNDS {
        let start = clock::now();
        let _ = to.push(round);
        if poll(&mut here).is_none() {
            break;
        }
        record(&mut all, clock::now().since(start));
    }
    let _ = echo.join();
    Ok(all)
}

/// The next value; `None` when the other side is gone.
fn poll(ring: &mut rtrb::Consumer<u64>) -> Option<u64> {
    let mut polls = 0;
    loop {
        if let Ok(value) = ring.pop() {
            return Some(value);
        }
        if ring.is_abandoned() {
            return ring.pop().ok();
        }
        polls += 1;
        if polls % POLLS == 0 {
            std::thread::yield_now();
        }
        std::hint::spin_loop();
    }
}
