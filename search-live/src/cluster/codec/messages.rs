//! What travels between nodes.

use super::bytes::{In, Out};
use crate::cluster::content::{Finding, Live, Made};
use cavy_core::Span;
use cavy_search::cluster::catalogue::Refusal;
use cavy_search::cluster::many::{Message, Wish};
use cavy_search::cluster::{Outcome, message};
use std::sync::Arc;

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

/// Writes a message of a node whose findings are in `made`.
pub fn write(made: &Made, message: &Message<Live>, out: &mut Out<'_>) {
    match message {
        Message::Of(index, message) => {
            out.byte(0);
            out.word(*index);
            of(made, *index, message, out);
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

fn of(made: &Made, index: u32, message: &message::Message<Live>, out: &mut Out<'_>) {
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
                        Finding::Made(work) => out.bytes(&made.take(index, *work)),
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
        message::Message::Chunk { ask, slice, docs, bytes } => made.given.count(|| {
            out.byte(7);
            out.long(*ask);
            out.slice(*slice);
            out.long(*bytes);
            out.word(docs.len() as u32);
            docs.iter().for_each(|doc| out.doc(doc));
        }),
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

/// Reads a message.
pub fn read(from: &mut In<'_>) -> Option<Message<Live>> {
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
