//! The words of the protocol as bytes: little-endian, a letter for each kind of word.
//!
//! Reading takes any bytes: what is none of these words is refused, and never asks for more memory
//! than a small multiple of the bytes that came.

use super::content::{Bytes, Finding, Live, Made};
use cavy_core::Span;
use cavy_node::Codec;
use cavy_search::cluster::catalogue::{Catalogue, Change, Index, Refusal};
use cavy_search::cluster::many::{Message, Record, Request, Wish, Words};
use cavy_search::cluster::{Doc, Map, Move, Moving, Outcome, State, message};
use cavy_search::ring::Slice;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The codec of one node; a server's has the findings that it has made.
#[derive(Clone, Debug, Default)]
pub struct Binary {
    made: Arc<Made>,
}

impl Binary {
    /// Of a node whose findings are in `made`.
    pub fn new(made: Arc<Made>) -> Binary {
        Binary { made }
    }
}

/// What is added to how a map's ring moves if the map says where ranges begin.
const STARTS: u8 = 8;

/// Writes.
struct Out<'a>(&'a mut Vec<u8>);

impl Out<'_> {
    fn byte(&mut self, value: u8) {
        self.0.push(value);
    }

    fn word(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn long(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn bytes(&mut self, value: &[u8]) {
        self.word(value.len() as u32);
        self.0.extend_from_slice(value);
    }

    fn slice(&mut self, slice: Slice) {
        self.long(slice.lo);
        self.long(slice.hi);
    }

    fn doc(&mut self, doc: &Doc<Bytes>) {
        self.long(doc.id);
        self.long(doc.version);
        self.byte(u8::from(doc.deleted));
        self.bytes(&doc.body);
    }

    fn map(&mut self, map: &Map) {
        self.long(map.epoch);
        self.word(map.p);
        self.word(map.stored);
        self.byte(u8::from(map.settled));
        self.word(map.states.len() as u32);
        let begin = if map.starts.is_some() { STARTS } else { 0 };
        match &map.moving {
            None => self.byte(begin),
            Some(Moving { what, switched }) => {
                let (what, server) = match what {
                    Move::Leaves(server) => (1, Some(*server)),
                    Move::Joins(server) => (3, Some(*server)),
                    Move::Borders(_) => (5, None),
                };
                self.byte(begin + what + u8::from(*switched));
                server.iter().for_each(|server| self.word(*server));
            }
        }
        let next = map.moving.iter().filter_map(|moving| match &moving.what {
            Move::Borders(starts) => Some(starts),
            Move::Leaves(_) | Move::Joins(_) => None,
        });
        // One for each server; their number is that of the states.
        let starts = map.starts.iter().chain(next).flat_map(|starts| starts.iter());
        starts.for_each(|start| self.long(*start));
        for state in &map.states {
            match state {
                State::Out => self.byte(3),
                State::Up => self.byte(0),
                State::Down => self.byte(1),
                State::Behind(since) => {
                    self.byte(2);
                    self.long(*since);
                }
            }
        }
    }

    fn catalogue(&mut self, catalogue: &Catalogue) {
        self.long(catalogue.version);
        self.word(catalogue.last);
        self.long(catalogue.token);
        self.word(catalogue.indices.len() as u32);
        for (name, index) in &catalogue.indices {
            self.bytes(name.as_bytes());
            self.word(index.number);
            self.long(index.changes);
            self.word(index.p);
            self.bytes(&index.about);
            self.long(index.token);
        }
    }

    fn change(&mut self, change: &Change) {
        match change {
            Change::Create { name, p, about } => {
                self.byte(0);
                self.bytes(name.as_bytes());
                self.word(*p);
                self.bytes(about);
            }
            Change::Alter { name, number, changes, about } => {
                self.byte(1);
                self.bytes(name.as_bytes());
                self.word(*number);
                self.long(*changes);
                self.bytes(about);
            }
            Change::Delete { name } => {
                self.byte(2);
                self.bytes(name.as_bytes());
            }
        }
    }
}

/// Reads.
struct In<'a>(&'a [u8]);

impl<'a> In<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn truth(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn word(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn long(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn bytes(&mut self) -> Option<Bytes> {
        let length = self.word()? as usize;
        Some(self.take(length)?.into())
    }

    fn name(&mut self) -> Option<String> {
        let length = self.word()? as usize;
        String::from_utf8(self.take(length)?.to_vec()).ok()
    }

    /// How many follow, each of `least` bytes at least.
    fn count(&mut self, least: usize) -> Option<usize> {
        let count = self.word()? as usize;
        (count.checked_mul(least)? <= self.0.len()).then_some(count)
    }

    fn slice(&mut self) -> Option<Slice> {
        Some(Slice::new(self.long()?, self.long()?))
    }

    fn doc(&mut self) -> Option<Doc<Bytes>> {
        let (id, version, deleted) = (self.long()?, self.long()?, self.truth()?);
        Some(Doc { id, version, deleted, body: self.bytes()? })
    }

    fn map(&mut self) -> Option<Map> {
        let (epoch, p, stored) = (self.long()?, self.word()?, self.word()?);
        let settled = self.truth()?;
        let count = self.count(1)?;
        let how = self.byte()?;
        let server = |from: &mut Self| from.word().filter(|server| (*server as usize) < count);
        let what = match how % STARTS {
            0 => None,
            1 | 2 => Some(Move::Leaves(server(self)?)),
            3 | 4 => Some(Move::Joins(server(self)?)),
            5 | 6 => Some(Move::Borders(Arc::new([]))),
            _ => return None,
        };
        let starts = match how / STARTS {
            0 => None,
            1 => Some(self.starts(count)?),
            _ => return None,
        };
        let what = match what {
            Some(Move::Borders(_)) => Some(Move::Borders(self.starts(count)?)),
            what => what,
        };
        let moving = what.map(|what| Moving { what, switched: how.is_multiple_of(2) });
        let mut states = Vec::with_capacity(count);
        for _ in 0..count {
            states.push(match self.byte()? {
                3 => State::Out,
                0 => State::Up,
                1 => State::Down,
                2 => State::Behind(self.long()?),
                _ => return None,
            });
        }
        // Arcs for no part at all would be endless.
        let map = Map { epoch, p, stored, settled, states, starts, moving };
        (p > 0 && stored > 0 && stored <= p).then_some(map)
    }

    /// Where so many ranges begin: at different ids, or there would be no such ring.
    fn starts(&mut self, count: usize) -> Option<Arc<[u64]>> {
        (count.checked_mul(8)? <= self.0.len()).then_some(())?;
        let starts = (0..count).map(|_| self.long()).collect::<Option<Arc<[u64]>>>()?;
        let mut sorted = starts.to_vec();
        sorted.sort_unstable();
        sorted.windows(2).all(|two| two[0] != two[1]).then_some(starts)
    }

    fn catalogue(&mut self) -> Option<Catalogue> {
        let (version, last, token) = (self.long()?, self.word()?, self.long()?);
        let mut indices = BTreeMap::new();
        for _ in 0..self.count(32)? {
            let name = self.name()?;
            let (number, changes, p) = (self.word()?, self.long()?, self.word()?);
            let (about, token) = (self.bytes()?, self.long()?);
            if p == 0 {
                return None;
            }
            indices.insert(name, Index { number, changes, p, about, token });
        }
        Some(Catalogue { version, last, indices, token })
    }

    fn change(&mut self) -> Option<Change> {
        Some(match self.byte()? {
            0 => Change::Create { name: self.name()?, p: self.word()?, about: self.bytes()? },
            1 => Change::Alter {
                name: self.name()?,
                number: self.word()?,
                changes: self.long()?,
                about: self.bytes()?,
            },
            2 => Change::Delete { name: self.name()? },
            _ => return None,
        })
    }
}

fn refusal(done: Result<(), Refusal>) -> u8 {
    match done {
        Ok(()) => 0,
        Err(Refusal::Exists) => 1,
        Err(Refusal::Missing) => 2,
        Err(Refusal::Changed) => 3,
        Err(Refusal::Full) => 4,
        Err(Refusal::Spread) => 5,
    }
}

fn read_refusal(byte: u8) -> Option<Result<(), Refusal>> {
    use Refusal::{Changed, Exists, Full, Missing, Spread};
    let all = [Ok(()), Err(Exists), Err(Missing), Err(Changed), Err(Full), Err(Spread)];
    all.into_iter().find(|done| refusal(*done) == byte)
}

impl Binary {
    fn of(&self, index: u32, message: &message::Message<Live>, out: &mut Out<'_>) {
        match message {
            message::Message::Sub { query, part, slice, question, again } => {
                out.byte(if *again { 8 } else { 0 });
                out.long(*query);
                out.word(*part);
                out.slice(*slice);
                out.bytes(question);
            }
            message::Message::Answer { query, part, outcome } => {
                out.byte(1);
                out.long(*query);
                out.word(*part);
                match outcome {
                    Outcome::Refused { epoch } => {
                        out.byte(0);
                        out.long(*epoch);
                    }
                    Outcome::Overloaded { backlog } => {
                        out.byte(2);
                        out.long(backlog.as_ns());
                    }
                    Outcome::Done { took, backlog, found } => {
                        out.byte(1);
                        out.long(took.as_ns());
                        out.long(backlog.as_ns());
                        match found {
                            Finding::Made(work) => out.bytes(&self.made.take(index, *work)),
                            Finding::Bytes(bytes) => out.bytes(bytes),
                        }
                    }
                }
            }
            message::Message::Put { write, doc } => {
                out.byte(2);
                out.long(*write);
                out.doc(doc);
            }
            message::Message::Logged { write, version, newer } => {
                out.byte(3);
                out.long(*write);
                out.long(*version);
                out.byte(u8::from(newer.is_some()));
                newer.iter().for_each(|newer| out.long(*newer));
            }
            message::Message::Beat { serial, epoch, complete, stays, life, takes } => {
                out.byte(if takes.is_some() { 9 } else { 4 });
                takes.iter().for_each(|takes| out.long(takes.as_ns()));
                out.long(*serial);
                out.long(*epoch);
                out.byte(u8::from(*complete));
                out.byte(u8::from(*stays));
                out.long(*life);
            }
            message::Message::Grant { serial, map } => {
                out.byte(5);
                out.long(*serial);
                out.byte(u8::from(map.is_some()));
                map.iter().for_each(|map| out.map(map));
            }
            message::Message::Fetch { ask, slice, written_only } => {
                out.byte(6);
                out.long(*ask);
                out.slice(*slice);
                out.byte(u8::from(*written_only));
            }
            message::Message::Chunk { ask, slice, docs, bytes } => self.made.given.count(|| {
                out.byte(7);
                out.long(*ask);
                out.slice(*slice);
                out.long(*bytes);
                out.word(docs.len() as u32);
                docs.iter().for_each(|doc| out.doc(doc));
            }),
        }
    }
}

fn read_of(from: &mut In<'_>) -> Option<message::Message<Live>> {
    Some(match from.byte()? {
        kind @ (0 | 8) => message::Message::Sub {
            query: from.long()?,
            part: from.word()?,
            slice: from.slice()?,
            question: from.bytes()?,
            again: kind == 8,
        },
        1 => {
            let (query, part) = (from.long()?, from.word()?);
            let outcome = match from.byte()? {
                0 => Outcome::Refused { epoch: from.long()? },
                1 => Outcome::Done {
                    took: Span::from_ns(from.long()?),
                    backlog: Span::from_ns(from.long()?),
                    found: Finding::Bytes(from.bytes()?),
                },
                2 => Outcome::Overloaded { backlog: Span::from_ns(from.long()?) },
                _ => return None,
            };
            message::Message::Answer { query, part, outcome }
        }
        2 => message::Message::Put { write: from.long()?, doc: from.doc()? },
        3 => {
            let (write, version) = (from.long()?, from.long()?);
            let newer = match from.truth()? {
                true => Some(from.long()?),
                false => None,
            };
            message::Message::Logged { write, version, newer }
        }
        kind @ (4 | 9) => message::Message::Beat {
            takes: if kind == 9 { Some(Span::from_ns(from.long()?)) } else { None },
            serial: from.long()?,
            epoch: from.long()?,
            complete: from.truth()?,
            stays: from.truth()?,
            life: from.long()?,
        },
        5 => {
            let serial = from.long()?;
            let map = match from.truth()? {
                true => Some(Arc::new(from.map()?)),
                false => None,
            };
            message::Message::Grant { serial, map }
        }
        6 => message::Message::Fetch {
            ask: from.long()?,
            slice: from.slice()?,
            written_only: from.truth()?,
        },
        7 => {
            let (ask, slice, bytes) = (from.long()?, from.slice()?, from.long()?);
            let count = from.count(21)?;
            let docs = (0..count).map(|_| from.doc()).collect::<Option<Vec<_>>>()?;
            message::Message::Chunk { ask, slice, docs: docs.into(), bytes }
        }
        _ => return None,
    })
}

fn read_message(from: &mut In<'_>) -> Option<Message<Live>> {
    Some(match from.byte()? {
        0 => Message::Of(from.word()?, read_of(from)?),
        1 => Message::Beat { serial: from.long()?, version: from.long()? },
        2 => {
            let serial = from.long()?;
            let catalogue = match from.truth()? {
                true => Some(Arc::new(from.catalogue()?)),
                false => None,
            };
            Message::Catalogue { serial, catalogue }
        }
        3 => {
            let serial = from.long()?;
            let wish = match from.truth()? {
                false => Wish::Change(from.change()?, from.long()?),
                true => Wish::Spread(from.word()?, from.word()?),
            };
            Message::Ask { serial, wish }
        }
        4 => Message::Told { serial: from.long()?, done: read_refusal(from.byte()?)? },
        _ => return None,
    })
}

fn read_record(from: &mut In<'_>) -> Option<Record<Live>> {
    Some(match from.byte()? {
        0 => {
            let index = from.word()?;
            let record = match from.byte()? {
                0 => message::Record::Doc(from.doc()?),
                1 => message::Record::Held(from.slice()?),
                2 => message::Record::Map(Arc::new(from.map()?)),
                3 => message::Record::Target(from.word()?),
                4 => message::Record::Left,
                5 => message::Record::Life(from.long()?),
                6 => message::Record::Known(from.word()?, from.long()?),
                kind @ (7 | 8) => message::Record::Kept {
                    held: if kind == 8 { Some(from.slice()?) } else { None },
                    wanted: from.slice()?,
                },
                _ => return None,
            };
            Record::Of(index, record)
        }
        1 => Record::Catalogue(Arc::new(from.catalogue()?)),
        _ => return None,
    })
}

fn read_request(from: &mut In<'_>) -> Option<Request<Live>> {
    Some(match from.byte()? {
        0 => {
            let index = from.word()?;
            let request = match from.byte()? {
                0 => message::Request::Search { question: from.bytes()?, within: None },
                1 => message::Request::Write {
                    id: from.long()?,
                    deleted: from.truth()?,
                    body: from.bytes()?,
                },
                2 => message::Request::Spread { p: from.word()? },
                3 => message::Request::Look { slice: from.slice()?, question: from.bytes()? },
                4 => message::Request::Everywhere(from.bytes()?),
                5 => message::Request::Stay(from.truth()?),
                7 => message::Request::Ranges(from.bytes()?),
                6 => {
                    let within = Some(Span::from_ns(from.long()?));
                    message::Request::Search { question: from.bytes()?, within }
                }
                _ => return None,
            };
            Request::Of(index, request)
        }
        1 => Request::Change(from.change()?),
        2 => Request::Spread(from.word()?, from.word()?),
        3 => Request::Read,
        4 => Request::Leave,
        _ => return None,
    })
}

/// All of the bytes, or nothing.
fn whole<'a, T>(bytes: &'a [u8], read: impl Fn(&mut In<'a>) -> Option<T>) -> Option<T> {
    let mut from = In(bytes);
    read(&mut from).filter(|_| from.0.is_empty())
}

impl Codec<Words<Live>> for Binary {
    fn message(&self, message: &Message<Live>, out: &mut Vec<u8>) {
        let mut out = Out(out);
        match message {
            Message::Of(index, message) => {
                out.byte(0);
                out.word(*index);
                self.of(*index, message, &mut out);
            }
            Message::Beat { serial, version } => {
                out.byte(1);
                out.long(*serial);
                out.long(*version);
            }
            Message::Catalogue { serial, catalogue } => {
                out.byte(2);
                out.long(*serial);
                out.byte(u8::from(catalogue.is_some()));
                catalogue.iter().for_each(|catalogue| out.catalogue(catalogue));
            }
            Message::Ask { serial, wish } => {
                out.byte(3);
                out.long(*serial);
                match wish {
                    Wish::Change(change, token) => {
                        out.byte(0);
                        out.change(change);
                        out.long(*token);
                    }
                    Wish::Spread(index, p) => {
                        out.byte(1);
                        out.word(*index);
                        out.word(*p);
                    }
                }
            }
            Message::Told { serial, done } => {
                out.byte(4);
                out.long(*serial);
                out.byte(refusal(*done));
            }
        }
    }

    fn read_message(&self, bytes: &[u8]) -> Option<Message<Live>> {
        match bytes {
            // Documents that are copied: the kind of word, the index, and what it says of it.
            [0, _, _, _, _, 7, ..] => self.made.taken.count(|| whole(bytes, read_message)),
            _ => whole(bytes, read_message),
        }
    }

    fn record(&self, record: &Record<Live>, out: &mut Vec<u8>) {
        let mut out = Out(out);
        match record {
            Record::Of(index, record) => {
                out.byte(0);
                out.word(*index);
                match record {
                    message::Record::Doc(doc) => {
                        out.byte(0);
                        out.doc(doc);
                    }
                    message::Record::Held(slice) => {
                        out.byte(1);
                        out.slice(*slice);
                    }
                    message::Record::Map(map) => {
                        out.byte(2);
                        out.map(map);
                    }
                    message::Record::Target(p) => {
                        out.byte(3);
                        out.word(*p);
                    }
                    message::Record::Left => out.byte(4),
                    message::Record::Kept { held, wanted } => {
                        out.byte(if held.is_some() { 8 } else { 7 });
                        held.iter().for_each(|held| out.slice(*held));
                        out.slice(*wanted);
                    }
                    message::Record::Life(life) => {
                        out.byte(5);
                        out.long(*life);
                    }
                    message::Record::Known(server, life) => {
                        out.byte(6);
                        out.word(*server);
                        out.long(*life);
                    }
                }
            }
            Record::Catalogue(catalogue) => {
                out.byte(1);
                out.catalogue(catalogue);
            }
        }
    }

    fn read_record(&self, bytes: &[u8]) -> Option<Record<Live>> {
        whole(bytes, read_record)
    }

    fn request(&self, request: &Request<Live>, out: &mut Vec<u8>) {
        let mut out = Out(out);
        match request {
            Request::Of(index, request) => {
                out.byte(0);
                out.word(*index);
                match request {
                    message::Request::Search { question, within } => {
                        out.byte(if within.is_some() { 6 } else { 0 });
                        within.iter().for_each(|within| out.long(within.as_ns()));
                        out.bytes(question);
                    }
                    message::Request::Write { id, deleted, body } => {
                        out.byte(1);
                        out.long(*id);
                        out.byte(u8::from(*deleted));
                        out.bytes(body);
                    }
                    message::Request::Spread { p } => {
                        out.byte(2);
                        out.word(*p);
                    }
                    message::Request::Look { slice, question } => {
                        out.byte(3);
                        out.slice(*slice);
                        out.bytes(question);
                    }
                    message::Request::Everywhere(question) => {
                        out.byte(4);
                        out.bytes(question);
                    }
                    message::Request::Ranges(question) => {
                        out.byte(7);
                        out.bytes(question);
                    }
                    message::Request::Stay(stays) => {
                        out.byte(5);
                        out.byte(u8::from(*stays));
                    }
                }
            }
            Request::Change(change) => {
                out.byte(1);
                out.change(change);
            }
            Request::Spread(index, p) => {
                out.byte(2);
                out.word(*index);
                out.word(*p);
            }
            Request::Read => out.byte(3),
            Request::Leave => out.byte(4),
        }
    }

    fn read_request(&self, bytes: &[u8]) -> Option<Request<Live>> {
        whole(bytes, read_request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavy_core::{Purpose, Stream};

    fn messages() -> Vec<Message<Live>> {
        let body: Bytes = [1, 2, 3].as_slice().into();
        let doc = Doc { id: 9, version: 1 << 50, deleted: true, body: body.clone() };
        let slice = Slice::new(u64::MAX, 7);
        let states = vec![State::Up, State::Behind(4), State::Down, State::Out];
        let map = |starts: Option<Arc<[u64]>>, what, switched| {
            let (states, moving) = (states.clone(), Some(Moving { what, switched }));
            let map = Map { epoch: 8, p: 3, stored: 2, settled: true, states, starts, moving };
            message::Message::Grant { serial: 1, map: Some(Arc::new(map)) }
        };
        let starts = || -> Arc<[u64]> { [3, 1, 1 << 60, 7].into() };
        let index = Index { number: 2, changes: 5, p: 4, about: body.clone(), token: 6 };
        let catalogue = Catalogue {
            version: 3,
            last: 2,
            indices: [("bücher".to_owned(), index)].into(),
            token: 1,
        };
        let of = |message| Message::Of(7, message);
        let outcome = Outcome::Done {
            took: Span::from_ns(5),
            backlog: Span::from_ns(6),
            found: Finding::Bytes(body.clone()),
        };
        let change = |change| Message::Ask { serial: 4, wish: Wish::Change(change, 77) };
        let name = "bücher".to_owned();
        let beat = |takes| {
            let (complete, stays, life) = (true, false, 3);
            message::Message::Beat { serial: 1, epoch: 2, complete, stays, life, takes }
        };
        let question = &body;
        let sub = |again| {
            let question = question.clone();
            message::Message::Sub { query: 1, part: 2, slice, question, again }
        };
        let busy = Outcome::Overloaded { backlog: Span::from_ns(7) };
        vec![
            of(message::Message::Answer { query: 1, part: 2, outcome: busy }),
            of(sub(false)),
            of(sub(true)),
            of(message::Message::Answer { query: 1, part: 2, outcome }),
            of(message::Message::Answer {
                query: 1,
                part: 2,
                outcome: Outcome::Refused { epoch: 3 },
            }),
            of(message::Message::Put { write: 3, doc: doc.clone() }),
            of(message::Message::Logged { write: 3, version: 4, newer: Some(5) }),
            of(beat(None)),
            of(beat(Some(Span::from_ns(9)))),
            of(map(None, Move::Joins(3), false)),
            of(map(Some(starts()), Move::Leaves(2), true)),
            of(map(Some(starts()), Move::Borders([5, 6, 7, 8].into()), false)),
            of(map(None, Move::Borders(starts()), true)),
            of(message::Message::Fetch { ask: 1, slice, written_only: true }),
            of(message::Message::Chunk { ask: 1, slice, docs: vec![doc; 2].into(), bytes: 5 }),
            Message::Beat { serial: 1, version: 2 },
            Message::Catalogue { serial: 1, catalogue: Some(Arc::new(catalogue)) },
            change(Change::Create { name: name.clone(), p: 2, about: body.clone() }),
            change(Change::Alter { name: name.clone(), number: 1, changes: 2, about: body }),
            change(Change::Delete { name }),
            Message::Ask { serial: 4, wish: Wish::Spread(1, 2) },
            Message::Told { serial: 4, done: Err(Refusal::Full) },
        ]
    }

    #[test]
    fn words_come_back_and_nothing_else_is_one() {
        let codec = Binary::default();
        let mut draws = Stream::keyed(1, 0, Purpose::Test);
        for message in messages() {
            let mut bytes = Vec::new();
            codec.message(&message, &mut bytes);
            assert_eq!(codec.read_message(&bytes).as_ref(), Some(&message));
            for end in 0..bytes.len() {
                assert_eq!(codec.read_message(&bytes[..end]), None, "{message:?} cut at {end}");
            }
            // Any other byte anywhere is another word or none, and never a panic.
            for _ in 0..2_000 {
                let at = draws.below(bytes.len() as u64) as usize;
                let before = std::mem::replace(&mut bytes[at], draws.below(256) as u8);
                let _ = codec.read_message(&bytes);
                let _ = codec.read_record(&bytes);
                let _ = codec.read_request(&bytes);
                bytes[at] = before;
            }
        }
    }

    #[test]
    fn a_server_sends_what_its_work_found() {
        let made = Arc::new(Made::default());
        let codec = Binary::new(made.clone());
        let work = cavy_core::family::message::Work(5);
        made.keep(cavy_search::cluster::many::outer(7, work), b"found".as_slice().into());
        let outcome =
            Outcome::Done { took: Span::ZERO, backlog: Span::ZERO, found: Finding::Made(work) };
        let answer = message::Message::Answer { query: 1, part: 0, outcome };
        let mut bytes = Vec::new();
        codec.message(&Message::Of(7, answer), &mut bytes);
        let Some(Message::Of(7, message::Message::Answer { outcome, .. })) =
            codec.read_message(&bytes)
        else {
            panic!("an answer");
        };
        let Outcome::Done { found, .. } = outcome else { panic!("done") };
        assert_eq!(found, Finding::Bytes(b"found".as_slice().into()));
    }
}
