//! What documents say, what is asked about them and what is found. The machines carry it and look
//! at none of it: the lab's documents say nothing, those of a live world are for its index.

use super::message::Doc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use cavy_core::family::message::Work;
use core::fmt::Debug;
use core::hash::Hash;

/// What travels inside messages.
pub trait Carried: Clone + Eq + Ord + Hash + Debug {
    /// What it adds to a message.
    fn bytes(&self) -> u64;
}

impl Carried for () {
    fn bytes(&self) -> u64 {
        0
    }
}

impl Carried for Arc<[u8]> {
    fn bytes(&self) -> u64 {
        self.len() as u64
    }
}

/// The types of what is carried. An empty type implements it.
pub trait Content: Copy + Eq + Ord + Hash + Debug {
    /// What a document says.
    type Body: Carried;
    /// What a query asks for.
    type Question: Carried;
    /// What a server found in a slice.
    type Finding: Carried;
    /// What was found in all slices.
    type Found: Carried + Default;

    /// What the scan `work` found. A world that looks into documents has it already and knows it by
    /// the name of the work; `docs` are those of the slice that were written and not deleted.
    fn finding(work: Work, docs: impl Iterator<Item = Doc<Self::Body>>) -> Self::Finding;

    /// What was found in a slice comes to what was found in others.
    fn gather(found: &mut Self::Found, finding: &Self::Finding);
}

/// Documents that say nothing: what is found are the documents themselves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Ids {}

impl Carried for Arc<[Doc]> {
    fn bytes(&self) -> u64 {
        super::message::DOC * self.len() as u64
    }
}

impl Carried for Vec<Doc> {
    fn bytes(&self) -> u64 {
        super::message::DOC * self.len() as u64
    }
}

impl Content for Ids {
    type Body = ();
    type Question = ();
    type Finding = Arc<[Doc]>;
    type Found = Vec<Doc>;

    fn finding(_: Work, docs: impl Iterator<Item = Doc>) -> Arc<[Doc]> {
        docs.collect()
    }

    fn gather(found: &mut Vec<Doc>, finding: &Arc<[Doc]>) {
        found.extend_from_slice(finding);
    }
}
