//! The service: questions of HTTP as data, answers as data ([htrae 7.2]). Sockets are the face's.

mod consul;
mod native;

use crate::directory::log::Log;
use crate::directory::{Change, Directory, Outcome};
use crate::places::Places;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

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
}

/// The service.
#[derive(Debug)]
pub struct Service {
    directory: RwLock<Directory>,
    places: RwLock<Places>,
    log: Option<Log>,
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

    /// To be called every second or so: takes up changed databases, and puts a snapshot in the
    /// place of a long log. What there is to say.
    pub fn tend(&self) -> Vec<String> {
        let said = self.places.write().unwrap_or_else(PoisonError::into_inner).refresh();
        if let Some(log) = self.log.as_ref().filter(|log| log.bytes() > self.limits.log_bytes) {
            // Nobody changes anything meanwhile, so that the snapshot is the log's.
            let directory = self.directory.write().unwrap_or_else(PoisonError::into_inner);
            log.compact(directory.snapshot());
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
        let mut directory = self.directory.write().unwrap_or_else(PoisonError::into_inner);
        let new = matches!(change, Change::Node(said) if directory.number(&said.id).is_none());
        if new && directory.len() >= self.limits.nodes {
            let most = self.limits.nodes;
            return Err((503, format!("there are {most} nodes already; delete some")));
        }
        let after = match &self.log {
            Some(log) => {
                let full = || (503, "the disk does not keep up; try again later".to_string());
                Some(log.append(change).ok_or_else(full)?)
            }
            None => None,
        };
        Ok((directory.apply(change), after))
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
