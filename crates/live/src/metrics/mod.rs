//! What a pool or a set of slots did, per type: counters, histograms, reservations.
//!
//! [`Stats`] is a snapshot to read in code; [`prometheus`] turns it into text for a scraper.

pub mod prometheus;

use cavy_core::{Instant, Span};
use cavy_sched::darc::reservation::Table;
use hdrhistogram::Histogram;
use parking_lot::Mutex;

/// Longest time a histogram tells apart; longer ones count as this long.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// An empty histogram of nanoseconds with two significant digits, that is, within 1 %.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(LONGEST_NS, 2).expect("the bounds are constant and legal")
}

/// A reservation that was put in force.
#[derive(Clone, Debug, PartialEq)]
pub struct Reservation {
    /// When, on the pool's clock.
    pub at: Instant,
    /// Counts the tables applied, from 1.
    pub version: u32,
    /// Groups of types with their demands and workers.
    pub table: Table,
}

/// One type, since the pool was built. Times are in nanoseconds.
#[derive(Clone, Debug)]
pub struct TypeStats {
    /// Its name.
    pub name: String,
    /// Requests that came, those dropped included.
    pub arrivals: u64,
    /// Requests handed to a worker.
    pub starts: u64,
    /// Those among them that run on a worker of a longer type, or of another queue.
    pub stolen: u64,
    /// Requests the policy had no place for. With `OnFull::Block` each further try counts again.
    pub drops: u64,
    /// Requests that ran to their end and gave their worker back; those that were cancelled ran
    /// none.
    pub finished: u64,
    /// Jobs that panicked.
    pub panics: u64,
    /// Requests that were cancelled while they waited and never ran.
    pub cancelled: u64,
    /// Submission to start, as the worker saw it.
    pub wait: Histogram<u64>,
    /// Start to end, as the worker saw it.
    pub service: Histogram<u64>,
    /// Hand-over to notice of completion, as the dispatcher saw it: service and the cost of handing
    /// over ([persephone 7.3]).
    pub occupancy: Histogram<u64>,
    /// Submission to end.
    pub latency: Histogram<u64>,
}

/// A snapshot of a pool or of slots.
#[derive(Clone, Debug)]
pub struct Stats {
    /// When it was taken, on the pool's clock, whose epoch is the building of the pool.
    pub at: Instant,
    /// Workers in force.
    pub workers: u16,
    /// Requests that wait.
    pub waiting: usize,
    /// Requests that wait or run.
    pub in_system: usize,
    /// Worker threads that died and were replaced.
    pub workers_replaced: u64,
    /// Indexed by the number of the type; index 0 is what no type was known for.
    pub types: Vec<TypeStats>,
    /// The reservation in force; `None` for policies without, and while DARC profiles.
    pub reservation: Option<Reservation>,
    /// The last 1 024 reservations, oldest first.
    pub updates: Vec<Reservation>,
}

impl Stats {
    /// The type of this name.
    pub fn of(&self, name: &str) -> Option<&TypeStats> {
        self.types.iter().skip(1).find(|of| of.name == name)
    }
}

/// What workers measure of one type.
#[derive(Debug)]
struct Timings {
    panics: u64,
    cancelled: u64,
    wait: Histogram<u64>,
    service: Histogram<u64>,
    latency: Histogram<u64>,
}

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    Done,
    Panicked,
    Skipped,
}

/// What workers measure, a lock for each type so that they seldom meet.
#[derive(Debug)]
pub(crate) struct Measured {
    names: Vec<String>,
    of: Vec<Mutex<Timings>>,
}

impl Measured {
    pub(crate) fn new(types: &[String]) -> Self {
        let names: Vec<String> =
            std::iter::once("unknown".to_string()).chain(types.iter().cloned()).collect();
        let timings = || Timings {
            panics: 0,
            cancelled: 0,
            wait: histogram(),
            service: histogram(),
            latency: histogram(),
        };
        Measured { of: names.iter().map(|_| Mutex::new(timings())).collect(), names }
    }

    /// A request of type number `kind` ended.
    pub(crate) fn record(
        &self,
        kind: u16,
        arrived: Instant,
        started: Instant,
        ended: Instant,
        how: Ending,
    ) {
        let Some(timings) = self.of.get(kind as usize) else { return };
        let mut timings = timings.lock();
        match how {
            Ending::Skipped => {
                timings.cancelled += 1;
                return;
            }
            Ending::Panicked => timings.panics += 1,
            Ending::Done => {}
        }
        let ns = |span: Span| span.as_ns();
        timings.wait.saturating_record(ns(started.since(arrived)));
        timings.service.saturating_record(ns(ended.since(started)));
        timings.latency.saturating_record(ns(ended.since(arrived)));
    }

    /// Stats of each type, without what the dispatcher knows.
    pub(crate) fn types(&self) -> Vec<TypeStats> {
        let of = |(name, timings): (&String, &Mutex<Timings>)| {
            let timings = timings.lock();
            TypeStats {
                name: name.clone(),
                arrivals: 0,
                starts: 0,
                stolen: 0,
                drops: 0,
                finished: 0,
                panics: timings.panics,
                cancelled: timings.cancelled,
                wait: timings.wait.clone(),
                service: timings.service.clone(),
                occupancy: histogram(),
                latency: timings.latency.clone(),
            }
        };
        self.names.iter().zip(&self.of).map(of).collect()
    }
}
