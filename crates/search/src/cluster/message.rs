//! What front ends, servers and the directory say to each other `[roar 2.3]`.

use super::content::{Carried as _, Content, Ids};
use super::map::Map;
use crate::ring::{Id, Slice};
use alloc::sync::Arc;
use alloc::vec::Vec;
use cavy_core::family::message::{Message as Wire, Protocol};
use cavy_core::{Instant, Span};
use core::marker::PhantomData;

/// A document that was written while the cluster ran: its id and its newest version. The bulk of
/// the index has no names here, only ids.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Doc<B = ()> {
    /// Where it is on the ring.
    pub id: Id,
    /// The later write has the greater one.
    pub version: u64,
    /// It was deleted by that write.
    pub deleted: bool,
    /// What it says.
    pub body: B,
}

/// What became of a sub-query.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Outcome<C: Content = Ids> {
    /// All ids of the slice were met.
    Done {
        /// What it took of a processor.
        took: Span,
        /// What the server has before it, as it believes.
        backlog: Span,
        /// What is in the slice.
        found: C::Finding,
    },
    /// The server does not hold all of the slice, is out of step, or has no lease: it has the map
    /// of this epoch.
    Refused {
        /// Of its map.
        epoch: u64,
    },
    /// The server has too much before it.
    Overloaded {
        /// As it believes.
        backlog: Span,
    },
}

/// What travels between nodes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Message<C: Content = Ids> {
    /// Answer for a slice.
    Sub {
        /// The query, as its front end counts.
        query: u64,
        /// The part of it.
        part: u32,
        /// Which ids.
        slice: Slice,
        /// What is asked.
        question: C::Question,
        /// Its ids were asked of somebody before: a busy server takes it all the same.
        again: bool,
    },
    /// A sub-query ended.
    Answer {
        /// The query.
        query: u64,
        /// The part.
        part: u32,
        /// How.
        outcome: Outcome<C>,
    },
    /// Log a document.
    Put {
        /// The write, as its front end counts.
        write: u64,
        /// The document.
        doc: Doc<C::Body>,
    },
    /// It is logged, or a newer version already was.
    Logged {
        /// The write.
        write: u64,
        /// The version that was asked for.
        version: u64,
        /// The version that the server has, if that is newer.
        newer: Option<u64>,
    },
    /// I live, and want my lease renewed.
    Beat {
        /// Counted by the sender.
        serial: u64,
        /// Of the map that the sender goes by.
        epoch: u64,
        /// A server holds all that this map wants it to hold.
        complete: bool,
        /// A server wants to be on the ring.
        stays: bool,
        /// Names a server's log; zero of front ends.
        life: u64,
        /// What a part of a query takes a server, as far as it has seen; where borders move by
        /// load.
        takes: Option<Span>,
    },
    /// The lease that was asked for by that beat.
    Grant {
        /// Of the beat; zero when nobody asked and only the map is told.
        serial: u64,
        /// The map, where the asker has an older one.
        map: Option<Arc<Map>>,
    },
    /// Send me what you hold of this slice.
    Fetch {
        /// Names the request.
        ask: u64,
        /// Which ids.
        slice: Slice,
        /// Written documents alone: the bulk is there.
        written_only: bool,
    },
    /// What a server holds of a slice.
    Chunk {
        /// The request.
        ask: u64,
        /// Which ids.
        slice: Slice,
        /// Documents that were written or deleted.
        docs: Arc<[Doc<C::Body>]>,
        /// Length of all that is sent, the bulk included.
        bytes: u64,
    },
}

/// What clients ask.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Request<C: Content = Ids> {
    /// A front end: search everything.
    Search {
        /// What is asked.
        question: C::Question,
        /// It is answered so long after it came at the latest, with what has been met by then.
        within: Option<Span>,
    },
    /// A front end: write or delete a document.
    Write {
        /// Its id.
        id: Id,
        /// Delete it.
        deleted: bool,
        /// What it says from now on.
        body: C::Body,
    },
    /// The directory: spread queries over so many parts from now on.
    Spread {
        /// p, 1 to the number of servers.
        p: u32,
    },
    /// A front end: search a slice, by as few servers as can be.
    Look {
        /// Which ids.
        slice: Slice,
        /// What is asked.
        question: C::Question,
    },
    /// A front end: ask every server in step about its own range. Of several rings each has all
    /// ids.
    Everywhere(C::Question),
    /// A front end: search everything, each id where it is in a server's own range, on one ring.
    Ranges(C::Question),
    /// A server: leave the ring, or come back to it. One that starts comes back.
    Stay(bool),
}

/// What became of a part of a query.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Told {
    /// Who was asked.
    pub server: u32,
    /// Which ids.
    pub slice: Slice,
    /// From the question to the answer, as the front end predicted it.
    pub predicted: Span,
    /// And as it was; `None` where others answered for it, or nobody.
    pub measured: Option<Span>,
}

/// Whether of the ring each id was met by somebody or is said to be lost, and is not both.
pub fn tells_all(lost: &[Slice], told: &[Told]) -> bool {
    let met = || told.iter().filter(|part| part.measured.is_some()).map(|part| part.slice);
    let is_told = |id: Id| {
        let lost = lost.iter().filter(|slice| slice.contains(id)).count();
        lost == usize::from(!met().any(|slice| slice.contains(id)))
    };
    // All ids from one border to the next are in the same slices.
    let mut borders = lost.iter().copied().chain(met()).peekable();
    borders.peek().is_some() && borders.all(|slice| is_told(slice.lo) && is_told(slice.hi))
}

/// What clients get back.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Response<C: Content = Ids> {
    /// What was found, and what could not be looked at.
    Found {
        /// In all slices together.
        found: C::Found,
        /// Slices that no live server holds, or that nobody answered for in time: all ids that
        /// were asked for and not met.
        lost: Vec<Slice>,
        /// Parts that were sent, those sent again included.
        parts: u32,
        /// What became of each. A part that nobody was asked for is not among them.
        told: Vec<Told>,
        /// The deadline passed before all parts had come.
        timed_out: bool,
    },
    /// Every server in step that stores the document has logged it.
    Written {
        /// As it was written.
        doc: Doc<C::Body>,
    },
    /// A server has told the directory.
    Stays,
    /// The directory will see to it; or p is out of range.
    Spread {
        /// It will.
        accepted: bool,
    },
}

impl<C: Content> Request<C> {
    /// Until when somebody waits for the answer who asks `now`.
    pub(super) fn until(&self, now: Instant) -> Option<Instant> {
        match self {
            Request::Search { within, .. } => within.map(|within| now + within),
            _ => None,
        }
    }

    /// As it is asked `now` by somebody who waits until then.
    pub(super) fn until_then(self, now: Instant, until: Instant) -> Self {
        match self {
            Request::Search { question, .. } => {
                Request::Search { question, within: Some(until.since(now)) }
            }
            other => other,
        }
    }
}

impl<C: Content> Response<C> {
    /// No id was met.
    pub(super) fn nothing(timed_out: bool) -> Self {
        let (found, told) = (C::Found::default(), Vec::new());
        let lost = alloc::vec![Slice::new(0, 0)];
        Response::Found { found, lost, parts: 0, told, timed_out }
    }
}

/// What survives a crash.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Record<C: Content = Ids> {
    /// A server's: a document.
    Doc(Doc<C::Body>),
    /// A server's: the ids that it holds completely from here on.
    Held(Slice),
    /// A server's: it holds nothing from here on.
    Left,
    /// A server's: it has dropped what is not wanted, and what it holds completely is less than
    /// that. What was written beside it, among what is wanted, stays.
    Kept {
        /// What it holds; nothing if there is none.
        held: Option<Slice>,
        /// What it is to hold.
        wanted: Slice,
    },
    /// A server's: the name of this log, before all else.
    Life(u64),
    /// The directory's: a map that it may publish.
    Map(Arc<Map>),
    /// The directory's: the p that is wanted.
    Target(u32),
    /// The directory's: a server, and the log that it is known by from here on.
    Known(u32, u64),
}

/// Work of a server.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Job<C: Content = Ids> {
    /// Match all documents of a slice.
    Scan(Slice, C::Question),
    /// Read a slice for somebody who wants a copy.
    Read(Slice),
    /// Take in a slice.
    Merge(Slice),
}

/// What only observers hear.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Note {
    /// The directory publishes a map.
    Published(Arc<Map>),
    /// A server holds this much more or less than before.
    Holds {
        /// All of it.
        slice: Slice,
        /// Ids that were copied for it.
        copied: u64,
    },
    /// A server holds nothing.
    Left,
}

/// The types of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Words<C: Content = Ids>(PhantomData<C>);

/// What a document takes on the wire and in a log.
pub(super) const DOC: u64 = 17;

impl<C: Content> Wire for Message<C> {
    fn wire_bytes(&self) -> u64 {
        match self {
            Message::Sub { question, .. } => 160 + question.bytes(),
            Message::Answer { outcome: Outcome::Done { found, .. }, .. } => 60 + found.bytes(),
            Message::Put { doc, .. } => 40 + doc.body.bytes(),
            Message::Answer { .. } | Message::Logged { .. } => 40,
            Message::Beat { takes, .. } => 38 + 8 * u64::from(takes.is_some()),
            Message::Fetch { .. } => 30,
            Message::Grant { map, .. } => 20 + map.as_ref().map_or(0, |map| map.bytes()),
            Message::Chunk { bytes, docs, .. } => {
                let docs = docs.iter().map(|doc| DOC + doc.body.bytes());
                20 + bytes + docs.sum::<u64>()
            }
        }
    }
}

impl<C: Content> Wire for Request<C> {
    fn wire_bytes(&self) -> u64 {
        match self {
            Request::Search { question, .. }
            | Request::Look { question, .. }
            | Request::Everywhere(question)
            | Request::Ranges(question) => 100 + question.bytes(),
            Request::Write { body, .. } => 100 + body.bytes(),
            Request::Spread { .. } | Request::Stay(_) => 100,
        }
    }
}

impl<C: Content> Wire for Response<C> {
    fn wire_bytes(&self) -> u64 {
        match self {
            Response::Found { found, lost, .. } => 40 + found.bytes() + 16 * lost.len() as u64,
            _ => 40,
        }
    }
}

impl<C: Content> Wire for Record<C> {
    fn wire_bytes(&self) -> u64 {
        match self {
            Record::Doc(doc) => DOC + doc.body.bytes(),
            Record::Held(_) => DOC,
            Record::Kept { .. } => 2 * DOC,
            Record::Map(map) => 20 + map.bytes(),
            Record::Target(_) | Record::Left | Record::Life(_) => 8,
            Record::Known(..) => 12,
        }
    }
}

impl<C: Content> Protocol for Words<C> {
    type Message = Message<C>;
    type Request = Request<C>;
    type Response = Response<C>;
    type Record = Record<C>;
    type Job = Job<C>;
    type Group = ();
    type Note = Note;
}
