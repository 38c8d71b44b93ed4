//! What the machines carry here: documents, questions and findings as bytes.

use crate::engine::aside::processor_ns;
use cavy_core::family::message::Work;
use cavy_search::cluster::content::{Carried, Content};
use cavy_search::cluster::{Doc, many};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that travel.
pub type Bytes = Arc<[u8]>;

/// What a server found: on the server a name, elsewhere the thing itself. The machine of a server
/// never sees it; the codec puts it in its place when the answer is sent.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Finding {
    /// The work that found it.
    Made(Work),
    /// It.
    Bytes(Bytes),
}

impl Carried for Finding {
    fn bytes(&self) -> u64 {
        match self {
            Finding::Made(_) => 8,
            Finding::Bytes(bytes) => bytes.len() as u64,
        }
    }
}

/// What was found in all slices.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Findings(pub Vec<Bytes>);

impl Carried for Findings {
    fn bytes(&self) -> u64 {
        self.0.iter().map(|bytes| bytes.len() as u64).sum()
    }
}

/// Documents that say something.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Live {}

impl Content for Live {
    type Body = Bytes;
    type Question = Bytes;
    type Finding = Finding;
    type Found = Findings;

    fn finding(work: Work, _: impl Iterator<Item = Doc<Bytes>>) -> Finding {
        Finding::Made(work)
    }

    fn gather(found: &mut Findings, finding: &Finding) {
        if let Finding::Bytes(bytes) = finding {
            found.0.push(bytes.clone());
        }
    }
}

/// Findings that a server has made and not sent, by the name of the work; and what copies take
/// beside the jobs that the machine asks for.
#[derive(Debug, Default)]
pub struct Made {
    table: Mutex<Table>,
    /// Pieces that are given to others.
    pub given: Spent,
    /// Pieces that are taken in.
    pub taken: Spent,
}

/// Nanoseconds of a processor that no job has been charged with.
#[derive(Debug, Default)]
pub struct Spent(AtomicU64);

impl Spent {
    /// So many more.
    pub fn add(&self, ns: u64) {
        self.0.fetch_add(ns, Relaxed);
    }

    /// Does something, which counts.
    pub fn count<T>(&self, work: impl FnOnce() -> T) -> T {
        let began = processor_ns();
        let done = work();
        self.add(processor_ns().saturating_sub(began));
        done
    }

    /// All of them, for the job that is charged with them.
    pub fn take(&self) -> u64 {
        self.0.swap(0, Relaxed)
    }
}

#[derive(Debug, Default)]
struct Table {
    found: BTreeMap<u64, Bytes>,
    /// In the order in which they were made: answers that are not sent after all go at last.
    order: VecDeque<u64>,
}

/// Findings that are kept at most.
const KEPT: usize = 1_024;

impl Made {
    /// Keeps what a work found until it is sent.
    pub fn keep(&self, work: Work, found: Bytes) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.found.insert(work.0, found);
        table.order.push_back(work.0);
        while table.order.len() > KEPT {
            if let Some(oldest) = table.order.pop_front() {
                table.found.remove(&oldest);
            }
        }
    }

    /// What a machine's work found; empty when that was forgotten.
    pub fn take(&self, index: u32, work: Work) -> Bytes {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let found = table.found.remove(&many::outer(index, work).0);
        found.unwrap_or_else(|| [].as_slice().into())
    }
}
