//! The senders.

use crate::load::clock::{self, SPIN_SPAN, SPIN_SPAN_FIRST, Wait};
use crate::load::ledger::{Keep, Ledger, Line};
use crate::load::machine::{self, Machine};
use crate::load::report::{self, Report};
use crate::load::schedule::{Entry, Schedule};
use crate::load::target::{Outcome, Target, Ticket};
use cavy_core::{Instant, Span};
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// Time for all senders to be there before the first request.
const LEAD: Span = Span::from_ms(20);

/// A sender looks at least this often whether it shall stop.
const ATTENTION: Span = Span::from_ms(100);

/// Who decides when the next request is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "name")]
pub enum Model {
    /// The schedule: users who do not know of each other.
    Open,
    /// The answers: this many clients, each of which sends again when it has its answer. Times of
    /// the schedule are ignored but for its length, its types are taken in turn. What this measures
    /// hides queueing: a server that stalls is sent nothing.
    Closed {
        /// Clients, at least 1.
        clients: u32,
    },
}

/// How to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Who decides when the next request is sent.
    pub model: Model,
    /// How senders wait.
    pub wait: Wait,
    /// Senders go before all ordinary threads, where the system permits it; for runs that keep the
    /// cores busy which the senders share. The report says what came of it. Whatever a target
    /// starts while it sends inherits that, so it should start its threads before.
    pub first: bool,
    /// Requests before this time are sent, and counted nowhere.
    pub warmup: Span,
    /// How long to wait for answers after the last request.
    pub patience: Span,
    /// The shortest service time, against which lateness is held; when `None` the shortest that the
    /// schedule says, else the shortest median time from sending to answer of a type.
    pub shortest_service: Option<Span>,
    /// Give percentiles even when they should not be published; they are labelled.
    pub force: bool,
    /// What to keep besides histograms.
    pub keep: Keep,
    /// Length of the jitter probes before and after; zero leaves out probes and floors.
    pub probe: Span,
    /// Ends the run early when it becomes true.
    pub stop: Arc<AtomicBool>,
    /// Who is told how far the run is, from a thread of its own.
    pub watch: Option<Watch>,
}

/// How far a run is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Since the first request was due.
    pub passed: Span,
    /// Requests sent, those of the warm-up included.
    pub sent: u64,
    /// Requests sent and not finished.
    pub open: u64,
    /// Requests that ended without the answer they asked for, without those of the warm-up.
    pub failed: u64,
}

/// Somebody who is told how far a run is.
#[derive(Clone)]
pub struct Watch {
    /// How often.
    pub every: Duration,
    /// What to do with it.
    pub tell: Arc<dyn Fn(&Progress) + Send + Sync>,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Watch every {:?}", self.every)
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            model: Model::Open,
            wait: Wait::default(),
            first: false,
            warmup: Span::ZERO,
            patience: Span::from_ms(10_000),
            shortest_service: None,
            force: false,
            keep: Keep::default(),
            probe: Span::from_ms(200),
            stop: Arc::default(),
            watch: None,
        }
    }
}

/// Why a run did not happen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// Nothing to send, or nobody to send it to.
    #[error("there is nothing to run: {what}")]
    Nothing {
        /// What is missing.
        what: &'static str,
    },
    /// A thread could not be started, or died.
    #[error("a sender thread failed: {reason}")]
    Sender {
        /// Why.
        reason: String,
    },
}

/// Sends `schedule` to `targets`, one sender thread for each, requests taken in turn, and says what
/// came of it.
///
/// # Errors
/// When the schedule or `targets` is empty, the closed model has no clients, or no thread can be
/// started.
pub fn run(
    schedule: &Schedule,
    mut targets: Vec<Box<dyn Target>>,
    options: &Options,
) -> Result<Report, RunError> {
    if schedule.entries().is_empty() {
        return Err(RunError::Nothing { what: "the schedule is empty" });
    }
    if targets.is_empty() || options.model == (Model::Closed { clients: 0 }) {
        return Err(RunError::Nothing { what: "it has no targets or no clients" });
    }
    if options.model != Model::Open && targets.len() > 1 {
        return Err(RunError::Nothing { what: "the closed model has one sender and one target" });
    }
    let mut machine = Machine::before(options.probe);
    let start = clock::now() + LEAD;
    let ledger = Arc::new(Ledger::new(schedule.types().len(), start, options.keep));
    let senders = targets.len();
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        // The watcher ends when this side of the channel is gone.
        let (_while_it_runs, ended) = std::sync::mpsc::channel::<()>();
        if let Some(watch) = &options.watch {
            let ledger = &ledger;
            let builder = std::thread::Builder::new().name("watcher".to_string());
            // Without it the run goes on, and nobody is told.
            let _ = builder.spawn_scoped(scope, move || {
                while ended.recv_timeout(watch.every) == Err(RecvTimeoutError::Timeout) {
                    (watch.tell)(&ledger.progress(clock::now()));
                }
            });
        }
        let mut threads = Vec::new();
        for (place, target) in targets.iter_mut().enumerate() {
            let sender = Sender { schedule, options, start, ledger: &ledger, place, senders };
            let builder = std::thread::Builder::new().name(format!("sender-{place}"));
            threads.push(builder.spawn_scoped(scope, move || sender.send_all(target.as_mut())));
        }
        let failed = |reason: &str| RunError::Sender { reason: reason.to_string() };
        let join = |thread: std::io::Result<std::thread::ScopedJoinHandle<'_, Sent>>| {
            let thread = thread.map_err(|error| failed(&error.to_string()))?;
            thread.join().map_err(|_| failed("it panicked"))
        };
        threads.into_iter().map(join).collect()
    });
    let mut last = start;
    let mut slack = None;
    for outcome in outcomes {
        let sent = outcome?;
        last = last.max(sent.last);
        slack = slack.max(sent.timer_slack_ns);
        machine.senders = sent.scheduling;
    }
    // Targets that end by themselves get their time as well.
    let patience = Duration::from_nanos(options.patience.as_ns());
    let left = Instant::since(last + options.patience, clock::now());
    ledger.wait_for_room(1, patience.min(Duration::from_nanos(left.as_ns())));
    let totals = ledger.close();
    drop(targets);
    machine.timer_slack_ns = slack;
    machine.after(options.probe);
    let interrupted = options.stop.load(Ordering::Relaxed);
    Ok(report::conclude(schedule, options, machine, totals, last.since(start), interrupted))
}

/// What a sender says at its end.
struct Sent {
    last: Instant,
    timer_slack_ns: Option<u64>,
    scheduling: &'static str,
}

struct Sender<'a> {
    schedule: &'a Schedule,
    options: &'a Options,
    start: Instant,
    ledger: &'a Arc<Ledger>,
    place: usize,
    senders: usize,
}

impl Sender<'_> {
    fn send_all(&self, target: &mut dyn Target) -> Sent {
        let timer_slack_ns = clock::sharpen_timers();
        let first = self.options.first && clock::go_first();
        let scheduling = machine::scheduling_here();
        let spin = if first { SPIN_SPAN_FIRST } else { SPIN_SPAN };
        let last = match self.options.model {
            Model::Open => self.send_open(target, spin),
            Model::Closed { clients } => self.send_closed(target, clients),
        };
        target.drain(clock::now() + self.options.patience);
        Sent { last, timer_slack_ns, scheduling }
    }

    fn stopped(&self) -> bool {
        self.options.stop.load(Ordering::Relaxed)
    }

    fn send_open(&self, target: &mut dyn Target, spin: Span) -> Instant {
        let mut last = self.start;
        let entries = self.schedule.entries().iter().enumerate();
        for (index, entry) in entries.skip(self.place).step_by(self.senders) {
            let intended = self.start + entry.at;
            if !self.wait_for(intended) {
                break;
            }
            let taken = self.options.wait.until_with(intended, spin);
            target.submit(self.ticket(index, entry, intended, taken));
            last = taken;
        }
        last
    }

    /// Waits until shortly before `time`; false when the run shall stop.
    fn wait_for(&self, time: Instant) -> bool {
        loop {
            if self.stopped() {
                return false;
            }
            let now = clock::now();
            if time.since(now) <= ATTENTION {
                return true;
            }
            Wait::Sleep.until(now + Span::from_ns(ATTENTION.as_ns() / 2));
        }
    }

    fn send_closed(&self, target: &mut dyn Target, clients: u32) -> Instant {
        let entries = self.schedule.entries();
        let end = self.start + self.schedule.length();
        let mut last = Wait::Sleep.until(self.start);
        let attention = Duration::from_nanos(ATTENTION.as_ns());
        for index in 0..u32::MAX as usize {
            while !self.ledger.wait_for_room(u64::from(clients), attention) {
                if self.stopped() || clock::now() >= end {
                    return last;
                }
            }
            let now = clock::now();
            if self.stopped() || now >= end {
                break;
            }
            target.submit(self.ticket(index, &entries[index % entries.len()], now, now));
            last = now;
        }
        last
    }

    fn ticket(&self, index: usize, entry: &Entry, intended: Instant, taken: Instant) -> Ticket {
        let warmup = intended.since(self.start) < self.options.warmup;
        self.ledger.hand_out(entry.kind, warmup);
        let line = Line {
            // A schedule has fewer entries; the closed model stops before.
            index: index as u32,
            kind: entry.kind,
            waited: false,
            outcome: Outcome::Lost,
            warmup,
            intended,
            taken,
            actual: taken,
            completed: taken,
            service: entry.service,
        };
        Ticket { ledger: Arc::clone(self.ledger), line, finished: false }
    }
}
