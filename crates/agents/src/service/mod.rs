//! The service: questions of HTTP as data, answers as data ([htrae 7.2]). Sockets are the face's.

mod consul;
mod native;
mod took;

use crate::directory::log::Log;
use crate::directory::{Change, Directory, Outcome, ProbesChange};
use cavy_places::Places;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;
use took::Took;

/// Round trips that are learnt while nobody else is answered.
const PIECE: usize = 64;
/// Between two pieces, for those who wait to be answered: a thread that gives the lock back and
/// takes it at once is faster than they are.
const BREATH: Duration = Duration::from_micros(20);

/// What is allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Nodes.
    pub nodes: usize,
    /// Bytes of a body; the face holds it to that.
    pub body_bytes: usize,
    /// Characters of an id, a class, or a property's name or value.
    pub word_chars: usize,
    /// Properties of a node.
    pub props: usize,
    /// Probes in a report, and nodes that are asked for at once.
    pub list: usize,
    /// Bytes of the log after which a snapshot takes its place.
    pub log_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            nodes: 2_000_000,
            body_bytes: 1 << 20,
            word_chars: 128,
            props: 16,
            list: 10_000,
            log_bytes: 64 << 20,
        }
    }
}

/// A question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask<'a> {
    /// `GET`, `POST`, ...
    pub method: &'a str,
    /// The path, as it came.
    pub path: &'a str,
    /// What follows `?`.
    pub query: &'a str,
    /// The body.
    pub body: &'a [u8],
}

impl Ask<'_> {
    /// Is it answered in less time than another thread would take to begin? Others change
    /// something, for which they may have to wait, or list everybody.
    pub fn is_quick(&self) -> bool {
        let lists = ["/v1/coordinate/", "/v1/catalog/"];
        let reads = self.method == "GET" || self.path == "/v1/rtt";
        reads && !lists.iter().any(|start| self.path.starts_with(start))
    }
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// What the body is.
    pub kind: &'static str,
    /// The body.
    pub body: String,
    /// Headers beside these.
    pub headers: &'static [(&'static str, &'static str)],
    /// The answer must not go out before this is on the disk: [`Service::wait`].
    pub after: Option<u64>,
}

/// Why there is no answer: status and one sentence with field, value and cure.
pub(crate) type Refusal = (u16, String);

impl Answer {
    fn json(status: u16, value: &impl Serialize) -> Answer {
        let body = serde_json::to_string(value).unwrap_or_default() + "\n";
        Answer { status, kind: "application/json", body, headers: &[], after: None }
    }

    /// A list, of about so many bytes, each of which is written as it is made.
    fn list(bytes: usize, all: impl Iterator<Item = impl Serialize>) -> Answer {
        let mut body = Vec::with_capacity(bytes);
        for one in all {
            body.push(if body.is_empty() { b'[' } else { b',' });
            // Writing to memory does not fail, and neither do our own lists of fields.
            let _ = serde_json::to_writer(&mut body, &one);
        }
        body.extend_from_slice(if body.is_empty() { b"[]\n" } else { b"]\n" });
        let body = String::from_utf8(body).unwrap_or_default();
        Answer { status: 200, kind: "application/json", body, headers: &[], after: None }
    }

    fn refused((status, why): Refusal) -> Answer {
        Answer::json(status, &serde_json::json!({ "error": why }))
    }
}

/// What was counted.
#[derive(Debug, Default)]
pub struct Counted {
    /// Questions answered as asked.
    pub answered: AtomicU64,
    /// Questions refused.
    pub refused: AtomicU64,
    /// Probes taken, reported twice, of unknown nodes, and no round trips.
    pub probes: [AtomicU64; 4],
    /// How long answers took.
    pub took: Took,
}

/// The service.
#[derive(Debug)]
pub struct Service {
    /// One change at a time, from the log to the end of the directory's. A lock of its own, so that
    /// a snapshot keeps out changes and nobody else.
    changing: Mutex<()>,
    directory: RwLock<Directory>,
    places: RwLock<Places>,
    log: Option<Log>,
    /// Bytes of the log after which a snapshot is tried.
    snapshot_at: AtomicU64,
    limits: Limits,
    /// Consul's calls are answered, with exact positions.
    consul: bool,
    /// What was counted.
    pub counted: Counted,
}

impl Service {
    /// A service of these nodes, which a log keeps if there is one.
    pub fn new(
        directory: Directory,
        log: Option<Log>,
        places: Places,
        limits: Limits,
        consul: bool,
    ) -> Service {
        Service {
            changing: Mutex::default(),
            snapshot_at: AtomicU64::new(limits.log_bytes),
            directory: RwLock::new(directory),
            places: RwLock::new(places),
            log,
            limits,
            consul,
            counted: Counted::default(),
        }
    }

    /// Everybody.
    pub fn directory(&self) -> RwLockReadGuard<'_, Directory> {
        self.directory.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// What may be asked at most.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    fn directory_alone(&self) -> RwLockWriteGuard<'_, Directory> {
        self.directory.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// To be called every second or so: takes up changed databases, and puts a snapshot in the
    /// place of a long log, during which changes wait. What there is to say.
    pub fn tend(&self) -> Vec<String> {
        let mut said = self.places.write().unwrap_or_else(PoisonError::into_inner).refresh();
        let is_long = |log: &&Log| log.bytes() > self.snapshot_at.load(Ordering::Relaxed);
        if let Some(log) = self.log.as_ref().filter(is_long) {
            let _turn = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
            let done = log.compact(&self.directory());
            // After a failure the log grows by as much again before the next attempt.
            let after = if done.is_ok() { 0 } else { log.bytes() };
            self.snapshot_at.store(after + self.limits.log_bytes, Ordering::Relaxed);
            said.extend(done.err().map(|error| format!("cannot write a snapshot: {error}")));
        }
        said
    }

    /// Returns when what an answer says is on the disk; an answer that says why it is not.
    pub fn wait(&self, answer: &Answer) -> Option<Answer> {
        let (log, number) = (self.log.as_ref()?, answer.after?);
        log.wait(number).err().map(|why| Answer::refused((503, why)))
    }

    /// Carries a change out and writes it down.
    fn change(&self, change: &Change) -> Result<(Outcome, Option<u64>), Refusal> {
        let _turn = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Change::Node(said) = change {
            let (directory, most) = (self.directory(), self.limits.nodes);
            if directory.len() >= most && directory.number(&said.id).is_none() {
                return Err((503, format!("there are {most} nodes already; delete some")));
            }
        }
        let after = match &self.log {
            Some(log) => {
                let full = || (503, "the disk does not keep up; try again later".to_string());
                Some(log.append(change).ok_or_else(full)?)
            }
            None => None,
        };
        let outcome = match change {
            Change::Probes(said) => self.learn(said),
            change => self.directory_alone().apply(change),
        };
        Ok((outcome, after))
    }

    /// Learns in pieces, so that those who ask need not wait for the end of a long report.
    fn learn(&self, said: &ProbesChange) -> Outcome {
        let (mut outcome, mut begun) = (Outcome::default(), 0);
        while begun < said.probes.len() {
            if begun > 0 {
                std::thread::sleep(BREATH);
            }
            let end = said.probes.len().min(begun + PIECE);
            outcome = outcome.and(self.directory_alone().learn(said, begun..end));
            begun = end;
        }
        outcome
    }

    /// Answers a question at `now_s`, seconds since 1970.
    pub fn answer(&self, ask: &Ask<'_>, now_s: u64) -> Answer {
        let answered = if self.consul { self.consul(ask) } else { None };
        let answer = match answered.unwrap_or_else(|| self.native(ask, now_s)) {
            Ok(answer) => answer,
            Err(refusal) => Answer::refused(refusal),
        };
        let counter =
            if answer.status < 400 { &self.counted.answered } else { &self.counted.refused };
        counter.fetch_add(1, Ordering::Relaxed);
        answer
    }
}

/// The values of a query.
pub(crate) fn values(query: &str) -> Vec<(String, String)> {
    let pairs = form_urlencoded::parse(query.as_bytes());
    pairs.map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
}

/// A part of a path, as it was meant.
pub(crate) fn unescaped(part: &str) -> String {
    // A plus is a plus in a path; only in a query it is a blank.
    let part = part.replace('+', "%2B");
    let pairs = form_urlencoded::parse(part.as_bytes()).next();
    pairs
        .map(
            |(name, value)| {
                if value.is_empty() { name.into_owned() } else { format!("{name}={value}") }
            },
        )
        .unwrap_or_default()
}
