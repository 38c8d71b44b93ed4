//! What requests do while they hold a thread.

use super::peers::Database;
use crate::faults::{FAILED, Fault};
use crate::sched::store::{self, Store};
use cavy_core::Span;
use cavy_lab::statistics::quantile;
use cavy_live::load::{Outcome, Wait, clock};
use std::cell::Cell;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

/// Work; clones are the same.
#[derive(Clone)]
pub enum Work {
    /// Waiting as long as the schedule says `[persephone 7.7]`.
    Timed,
    /// Operations on a store `[persephone 7.4]`: so many GETs for the first type, so many SCANs for
    /// the second.
    Store {
        /// The store.
        store: Arc<dyn Store>,
        /// GETs of a short request, each a transaction.
        gets: u32,
        /// SCANs of a long one.
        scans: u32,
    },
    /// A query over a connection that is chosen for it.
    Query(Arc<Database>),
    /// Nothing: what remains is the cost of handing over.
    Nothing,
}

thread_local! {
    /// The kernel may wake a thread 50 us late unless asked not to; threads are asked once.
    static SHARP: Cell<bool> = const { Cell::new(false) };
}

impl Work {
    /// Does one request of type `kind`.
    pub fn run(&self, kind: u16, service: Span) -> Outcome {
        match self {
            Work::Nothing => Outcome::Answered,
            // Connections are asked, not threads: `peers::connections`.
            Work::Query(_) => Outcome::ServerError,
            Work::Timed => {
                let end = clock::now() + service;
                if !SHARP.replace(true) {
                    clock::sharpen_timers();
                }
                Wait::Sleep.until(end);
                Outcome::Answered
            }
            Work::Store { store, gets, scans } => {
                let done = match kind {
                    0 => (0..*gets).try_for_each(|_| get(&**store)),
                    _ => (0..*scans).try_for_each(|_| scan(&**store)),
                };
                if done.is_some() { Outcome::Answered } else { Outcome::ServerError }
            }
        }
    }
}

fn get(store: &dyn Store) -> Option<()> {
    black_box(store.get(b"key0").ok()??);
    Some(())
}

fn scan(store: &dyn Store) -> Option<()> {
    let mut bytes = 0;
    let mut visit = |key: &[u8], value: &[u8]| {
        bytes += key.len() + value.len();
        true
    };
    store.scan(&mut visit).ok()?;
    black_box(bytes);
    Some(())
}

/// What the store needs on this machine, one thread alone; medians in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct StoreCosts {
    /// One GET.
    pub get_us: f64,
    /// One SCAN of all keys.
    pub scan_us: f64,
    /// A short request: all its GETs.
    pub short_us: f64,
    /// A long request: all its SCANs.
    pub long_us: f64,
}

/// A short request lasts at least this long: waking a thread takes some microseconds, and shorter
/// requests would measure that `[persephone 7.1]`. The generator may be late by a tenth of it, and
/// is by some 10 us (p99) while both cores are busy.
const SHORT_US: f64 = 250.0;

/// A long request lasts at least this many short ones.
const DISPERSION: f64 = 50.0;

/// Opens a store in `folder`, measures it, and says how many operations a request has.
pub fn open(folder: &Path) -> Result<(Work, StoreCosts), Fault> {
    let broken = |what: String| Fault::new(format!("the store: {what}")).code(FAILED);
    let store = store::open(&folder.join("store"), false);
    let store: Arc<dyn Store> = store.map_err(|error| broken(format!("{error:?}")))?.into();
    let work = |gets, scans| Work::Store { store: Arc::clone(&store), gets, scans };
    let median = |work: &Work, kind: u16, times: usize| -> Result<f64, Fault> {
        let mut spans: Vec<Span> = Vec::with_capacity(times);
        for _ in 0..times {
            let start = clock::now();
            if work.run(kind, Span::ZERO) != Outcome::Answered {
                return Err(broken("an operation failed".to_string()));
            }
            spans.push(clock::now().since(start));
        }
        spans.sort();
        Ok(quantile::of_sorted(&spans, 0.5).map_or(0.0, Span::as_us))
    };
    let single = work(1, 1);
    // The first ones meet cold caches.
    median(&single, 0, 200)?;
    let (get_us, scan_us) = (median(&single, 0, 2_001)?, median(&single, 1, 101)?);
    let least = |whole: f64, part: f64| (whole / part.max(0.01)).ceil().clamp(1.0, 1e6) as u32;
    let gets = least(SHORT_US, get_us);
    let scans = least(DISPERSION * SHORT_US, scan_us);
    let whole = work(gets, scans);
    let (short_us, long_us) = (median(&whole, 0, 201)?, median(&whole, 1, 41)?);
    Ok((whole, StoreCosts { get_us, scan_us, short_us, long_us }))
}

impl StoreCosts {
    /// In words.
    pub fn words(&self, work: &Work) -> String {
        let (gets, scans) = match work {
            Work::Store { gets, scans, .. } => (*gets, *scans),
            _ => (1, 1),
        };
        format!(
            "GET {:.2} us, SCAN of 5000 keys {:.0} us (medians, one thread alone); a short request \
             is {gets} GETs, {:.0} us, a long one {scans} SCANs, {:.0} us",
            self.get_us, self.scan_us, self.short_us, self.long_us
        )
    }
}
