//! The books of a run: every request ends in them once.
//!
//! Memory does not grow with the number of requests unless lines are kept: histograms of about
//! 0.1 % resolution, and for the interval log the values that occurred in each interval.

use crate::load::run::Progress;
use crate::load::target::Outcome;
use cavy_core::{Instant, Span};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Books are kept in this many parts, so that workers that finish at once seldom meet.
const SHARDS: usize = 4;

/// Significant digits of the histograms.
const DIGITS: u8 = 3;

/// What is known of one request at its end.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// Its place in the schedule, from 0.
    pub index: u32,
    /// Its type.
    pub kind: u16,
    /// Whether the target had no room for it when it came (no free connection).
    pub waited: bool,
    /// How it ended.
    pub outcome: Outcome,
    /// Part of the warm-up, which no figure counts.
    pub warmup: bool,
    /// When it was to be sent.
    pub intended: Instant,
    /// When the sender took it up; `taken` less `intended` is the generator's lateness.
    pub taken: Instant,
    /// When it was sent.
    pub actual: Instant,
    /// When its end was known.
    pub completed: Instant,
    /// How much work the schedule says it is; zero when it does not say.
    pub service: Span,
}

/// Times in nanoseconds.
pub type Times = Histogram<u64>;

/// No times yet; grows with the values it is given.
pub fn times() -> Times {
    // Not reached: three digits is in the range that the constructor accepts.
    let mut times =
        Times::new(DIGITS).unwrap_or_else(|_| unreachable!("three digits are accepted"));
    times.auto(true);
    times
}

/// A day: longer times are held as this, so that no time makes a histogram large.
const LONGEST_NS: u64 = 86_400_000_000_000;

/// Records at least 1 ns, the least a histogram holds.
pub fn record(times: &mut Times, span: Span) {
    // It grows to hold what it is given, so this cannot fail.
    let _ = times.record(span.as_ns().clamp(1, LONGEST_NS));
}

/// What one type came to.
#[derive(Clone, Debug)]
pub struct Account {
    /// Requests by outcome, in the order of [`Outcome::ALL`].
    pub outcomes: [u64; Outcome::ALL.len()],
    /// From the intended time to the answer, of answered requests.
    pub response: Times,
    /// From when the sender took the request up to the answer: the response without the generator's
    /// lateness.
    pub since_taken: Times,
    /// From sending to the answer, of answered requests.
    pub since_sent: Times,
    /// What was said of requests that were not answered.
    pub complaints: Complaints,
}

impl Account {
    fn new() -> Self {
        Account {
            outcomes: [0; Outcome::ALL.len()],
            response: times(),
            since_taken: times(),
            since_sent: times(),
            complaints: Complaints::default(),
        }
    }

    /// Requests that ended with `outcome`.
    pub fn count(&self, outcome: Outcome) -> u64 {
        self.outcomes[outcome as usize]
    }

    /// Requests to which nothing came, so that nobody knows how long they would have taken.
    pub fn unanswered(&self) -> u64 {
        let nothing = [Outcome::TimedOut, Outcome::ConnectionError, Outcome::Lost];
        nothing.into_iter().map(|outcome| self.count(outcome)).sum()
    }

    fn add(&mut self, other: &Account) {
        for (mine, theirs) in self.outcomes.iter_mut().zip(other.outcomes) {
            *mine += theirs;
        }
        // Histograms of one precision that resize can always be added.
        let _ = self.response.add(&other.response);
        let _ = self.since_taken.add(&other.since_taken);
        let _ = self.since_sent.add(&other.since_sent);
        self.complaints.add(&other.complaints);
    }
}

/// Different complaints that are kept of one type.
const COMPLAINTS_MAX: usize = 8;

/// Longest complaint that is kept, in characters.
const COMPLAINT_CHARS_MAX: usize = 200;

/// Why requests were not answered, in the words of whoever knew: a status and a text of the server,
/// an error of the system. Bounded, whatever servers invent.
#[derive(Clone, Debug, Default)]
pub struct Complaints {
    kept: Vec<Complaint>,
    /// How many more there were, of other texts than those kept.
    others: u64,
}

/// One complaint.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Complaint {
    /// How these requests ended.
    pub outcome: Outcome,
    /// What was said of them; empty for those beyond what is kept apart.
    pub text: String,
    /// How many they are.
    pub count: u64,
}

impl Complaints {
    fn note(&mut self, outcome: Outcome, text: &str, count: u64) {
        let same = |one: &&mut Complaint| one.outcome == outcome && one.text == text;
        if let Some(one) = self.kept.iter_mut().find(same) {
            one.count += count;
        } else if self.kept.len() < COMPLAINTS_MAX {
            self.kept.push(Complaint { outcome, text: text.to_string(), count });
        } else {
            self.others += count;
        }
    }

    fn add(&mut self, other: &Complaints) {
        for one in &other.kept {
            self.note(one.outcome, &one.text, one.count);
        }
        self.others += other.others;
    }

    /// The most frequent first.
    pub fn list(&self) -> Vec<Complaint> {
        let mut list = self.kept.clone();
        list.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.text.cmp(&b.text)));
        list
    }

    /// Requests whose complaints differ from all that are kept.
    pub fn others(&self) -> u64 {
        self.others
    }
}

/// One line that moves no cursor and fills no memory, whatever a server wrote.
fn printable(text: &str) -> String {
    let one_line = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c });
    one_line.take(COMPLAINT_CHARS_MAX).collect()
}

/// Response times of one type within one interval, as (value, count).
type Sparse = Vec<(u64, u64)>;

/// One part of the books.
#[derive(Debug)]
struct Book {
    accounts: Vec<Account>,
    lateness: Times,
    waited: u64,
    waited_most: Span,
    interval: u32,
    current: Vec<Times>,
    past: BTreeMap<(u32, u16), Sparse>,
    lines: Vec<Line>,
}

impl Book {
    fn new(types: usize) -> Self {
        Book {
            accounts: (0..types).map(|_| Account::new()).collect(),
            lateness: times(),
            waited: 0,
            waited_most: Span::ZERO,
            interval: 0,
            current: (0..types).map(|_| times()).collect(),
            past: BTreeMap::new(),
            lines: Vec::new(),
        }
    }

    fn turn(&mut self, interval: u32) {
        for (kind, times) in self.current.iter_mut().enumerate() {
            if times.is_empty() {
                continue;
            }
            let values = times.iter_recorded();
            let sparse = values.map(|v| (v.value_iterated_to(), v.count_at_value())).collect();
            self.past.insert((self.interval, kind as u16), sparse);
            times.reset();
        }
        self.interval = interval;
    }
}

/// What to keep besides the histograms.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keep {
    /// Length of an interval of the interval log; `None` keeps no log.
    pub interval: Option<Span>,
    /// Every line.
    pub lines: bool,
}

/// The books while a run goes on; any thread may book.
#[derive(Debug)]
pub struct Ledger {
    start: Instant,
    keep: Keep,
    shards: Vec<Mutex<Book>>,
    sent: Vec<AtomicU64>,
    warmup: AtomicU64,
    /// Requests handed out and not finished.
    open: AtomicU64,
    closed: AtomicBool,
    /// Somebody waits for requests to finish; else nobody is woken, which would cost each a call.
    awaited: AtomicBool,
    room: Mutex<()>,
    one_finished: Condvar,
}

/// The books after a run.
#[derive(Debug)]
pub struct Totals {
    /// By type.
    pub accounts: Vec<Account>,
    /// Requests sent by type, without those of the warm-up.
    pub sent: Vec<u64>,
    /// Requests sent in the warm-up.
    pub warmup: u64,
    /// How late the sender took up requests.
    pub lateness: Times,
    /// Requests for which the target had no room when they came.
    pub waited: u64,
    /// The longest such wait.
    pub waited_most: Span,
    /// Response times by interval and type, in order.
    pub intervals: BTreeMap<(u32, u16), Times>,
    /// All lines in order of the schedule, when they were to be kept.
    pub lines: Vec<Line>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Counts stay right whatever a thread that held the lock was doing when it panicked.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ledger {
    /// Empty books for `types` types and a run that begins at `start`.
    pub(crate) fn new(types: usize, start: Instant, keep: Keep) -> Self {
        Ledger {
            start,
            keep,
            shards: (0..SHARDS).map(|_| Mutex::new(Book::new(types))).collect(),
            sent: (0..types).map(|_| AtomicU64::new(0)).collect(),
            warmup: AtomicU64::new(0),
            open: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            awaited: AtomicBool::new(false),
            room: Mutex::new(()),
            one_finished: Condvar::new(),
        }
    }

    /// Notes that a request is handed out.
    pub(crate) fn hand_out(&self, kind: u16, warmup: bool) {
        self.open.fetch_add(1, Ordering::SeqCst);
        let counter = if warmup { &self.warmup } else { &self.sent[usize::from(kind)] };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Requests handed out and not finished.
    pub(crate) fn open(&self) -> u64 {
        self.open.load(Ordering::SeqCst)
    }

    /// How far the run is at `now`.
    pub(crate) fn progress(&self, now: Instant) -> Progress {
        let sent: u64 = self.sent.iter().map(|count| count.load(Ordering::Relaxed)).sum();
        let failed = |book: &Mutex<Book>| {
            let book = lock(book);
            let ended = book.accounts.iter().map(|account| {
                account.outcomes.iter().sum::<u64>() - account.count(Outcome::Answered)
            });
            ended.sum::<u64>()
        };
        Progress {
            passed: now.since(self.start),
            sent: sent + self.warmup.load(Ordering::Relaxed),
            open: self.open(),
            failed: self.shards.iter().map(failed).sum(),
        }
    }

    /// Waits until fewer than `limit` requests are open, at most `longest`; says whether they are.
    pub(crate) fn wait_for_room(&self, limit: u64, longest: Duration) -> bool {
        let guard = lock(&self.room);
        self.awaited.store(true, Ordering::SeqCst);
        let full = |_: &mut ()| self.open() >= limit;
        let waited = self.one_finished.wait_timeout_while(guard, longest, full);
        let (guard, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        self.awaited.store(false, Ordering::SeqCst);
        drop(guard);
        !timeout.timed_out()
    }

    pub(crate) fn book(&self, line: &Line, why: Option<&str>) {
        if !self.closed.load(Ordering::Acquire) && !line.warmup {
            self.enter(line, why);
        }
        self.open.fetch_sub(1, Ordering::SeqCst);
        if self.awaited.load(Ordering::SeqCst) {
            drop(lock(&self.room));
            self.one_finished.notify_one();
        }
    }

    fn enter(&self, line: &Line, why: Option<&str>) {
        let mut book = lock(&self.shards[line.index as usize % SHARDS]);
        let book = &mut *book;
        record(&mut book.lateness, line.taken.since(line.intended));
        if line.waited {
            book.waited += 1;
            book.waited_most = book.waited_most.max(line.actual.since(line.taken));
        }
        let kind = usize::from(line.kind);
        let account = &mut book.accounts[kind];
        account.outcomes[line.outcome as usize] += 1;
        if let Some(why) = why {
            account.complaints.note(line.outcome, &printable(why), 1);
        }
        if line.outcome == Outcome::Answered {
            let response = line.completed.since(line.intended);
            record(&mut account.response, response);
            record(&mut account.since_taken, line.completed.since(line.taken));
            record(&mut account.since_sent, line.completed.since(line.actual));
            if let Some(interval) = self.keep.interval {
                let passed = line.completed.since(self.start).as_ns();
                let now = u32::try_from(passed / interval.as_ns().max(1)).unwrap_or(u32::MAX);
                if now > book.interval {
                    book.turn(now);
                }
                record(&mut book.current[kind], response);
            }
        }
        if self.keep.lines {
            book.lines.push(*line);
        }
    }

    /// Closes the books; what is finished later is not in them.
    pub(crate) fn close(&self) -> Totals {
        self.closed.store(true, Ordering::Release);
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut totals = Totals {
            accounts: self.sent.iter().map(|_| Account::new()).collect(),
            sent: self.sent.iter().map(load).collect(),
            warmup: load(&self.warmup),
            lateness: times(),
            waited: 0,
            waited_most: Span::ZERO,
            intervals: BTreeMap::new(),
            lines: Vec::new(),
        };
        for shard in &self.shards {
            let mut book = lock(shard);
            let last = book.interval;
            book.turn(last);
            for (mine, theirs) in totals.accounts.iter_mut().zip(&book.accounts) {
                mine.add(theirs);
            }
            let _ = totals.lateness.add(&book.lateness);
            totals.waited += book.waited;
            totals.waited_most = totals.waited_most.max(book.waited_most);
            for (key, sparse) in std::mem::take(&mut book.past) {
                let times = totals.intervals.entry(key).or_insert_with(times);
                for (value, count) in sparse {
                    let _ = times.record_n(value, count);
                }
            }
            totals.lines.append(&mut book.lines);
        }
        // What never ended has timed out.
        for (account, sent) in totals.accounts.iter_mut().zip(&totals.sent) {
            let ended: u64 = account.outcomes.iter().sum();
            account.outcomes[Outcome::TimedOut as usize] += sent.saturating_sub(ended);
        }
        totals.lines.sort_by_key(|line| line.index);
        totals
    }
}
