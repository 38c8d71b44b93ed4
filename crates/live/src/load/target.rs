//! What is driven, and the ticket that accounts for one request.

use crate::load::clock;
use crate::load::ledger::{Ledger, Line};
use cavy_core::{Instant, Span};
use std::sync::Arc;

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Answered as it should be; only these have a latency.
    Answered,
    /// The server refused it for lack of room (HTTP 503 or 429, RESP `-ERR overloaded`).
    Overloaded,
    /// The server answered with another error.
    ServerError,
    /// The connection broke, or could not be made.
    ConnectionError,
    /// No answer came in time.
    TimedOut,
    /// The target dropped the ticket without a word: a defect of the target.
    Lost,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Outcome; 6] = [
        Outcome::Answered,
        Outcome::Overloaded,
        Outcome::ServerError,
        Outcome::ConnectionError,
        Outcome::TimedOut,
        Outcome::Lost,
    ];
}

/// Something that can be sent requests.
pub trait Target: Send {
    /// Begins the request of `ticket` and returns without waiting for its end; whatever finishes it
    /// calls [`Ticket::finish`], on any thread. A request that cannot be begun at once is kept by
    /// the target and not skipped.
    fn submit(&mut self, ticket: Ticket);

    /// Called once after the last request, from the sender's thread: gives what is under way until
    /// `deadline`, then finishes the rest as [`Outcome::TimedOut`]. Targets whose requests end by
    /// themselves need not do anything.
    fn drain(&mut self, deadline: Instant) {
        let _ = deadline;
    }
}

/// One request under way. Dropping it unfinished books it as [`Outcome::Lost`].
#[derive(Debug)]
pub struct Ticket {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) line: Line,
    pub(crate) finished: bool,
}

impl Ticket {
    /// Its place in the schedule, from 0.
    pub fn index(&self) -> usize {
        self.line.index as usize
    }

    /// Its type: an index into the types of the schedule.
    pub fn kind(&self) -> u16 {
        self.line.kind
    }

    /// How much work it is; zero when the target's own work decides.
    pub fn service(&self) -> Span {
        self.line.service
    }

    /// When it was to be sent.
    pub fn intended(&self) -> Instant {
        self.line.intended
    }

    /// When it was sent; the moment the sender took it up unless [`Ticket::sent_at`] said more.
    pub fn actual(&self) -> Instant {
        self.line.actual
    }

    /// Notes that it was sent at `time` only, because the target had no room before (for instance
    /// no free connection). Latency still counts from the intended time.
    pub fn sent_at(&mut self, time: Instant) {
        self.line.actual = time;
        self.line.waited = true;
    }

    /// Ends the request now.
    pub fn finish(self, outcome: Outcome) {
        self.finish_at(clock::now(), outcome);
    }

    /// Ends the request; its answer was there at `time`.
    pub fn finish_at(mut self, time: Instant, outcome: Outcome) {
        self.book(time, outcome, None);
    }

    /// Ends the request at `time` without the answer it asked for; `why` is what a reader of the
    /// report needs to find the cause, such as the status and the text of the server.
    pub fn fail_at(mut self, time: Instant, outcome: Outcome, why: &str) {
        self.book(time, outcome, Some(why));
    }

    fn book(&mut self, time: Instant, outcome: Outcome, why: Option<&str>) {
        self.finished = true;
        self.line.completed = time;
        self.line.outcome = outcome;
        self.ledger.book(&self.line, why);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.finished {
            self.book(clock::now(), Outcome::Lost, None);
        }
    }
}
