//! What several kinds of words are made of: slices, documents, maps, the catalogue and its changes.

use super::bytes::{In, Out};
use crate::cluster::content::Bytes;
use cavy_search::cluster::catalogue::{Catalogue, Change, Index};
use cavy_search::cluster::{Doc, Map, Move, Moving, State};
use cavy_search::ring::Slice;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is added to how a map's ring moves if the map says where ranges begin.
const STARTS: u8 = 8;

impl Out<'_> {
    pub fn slice(&mut self, slice: Slice) {
        self.long(slice.lo);
        self.long(slice.hi);
    }

    pub fn doc(&mut self, doc: &Doc<Bytes>) {
        self.long(doc.id);
        self.long(doc.version);
        self.byte(u8::from(doc.deleted));
        self.bytes(&doc.body);
    }

    pub fn map(&mut self, map: &Map) {
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

    pub fn catalogue(&mut self, catalogue: &Catalogue) {
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

    pub fn change(&mut self, change: &Change) {
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

impl In<'_> {
    pub fn slice(&mut self) -> Option<Slice> {
        Some(Slice::new(self.long()?, self.long()?))
    }

    pub fn doc(&mut self) -> Option<Doc<Bytes>> {
        let (id, version, deleted) = (self.long()?, self.long()?, self.truth()?);
        Some(Doc { id, version, deleted, body: self.bytes()? })
    }

    pub fn map(&mut self) -> Option<Map> {
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

    pub fn catalogue(&mut self) -> Option<Catalogue> {
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

    pub fn change(&mut self) -> Option<Change> {
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
