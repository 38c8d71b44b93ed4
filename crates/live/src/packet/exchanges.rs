//! Whose bytes are where: questions of this endpoint, messages that arrive, questions of others,
//! and answers to them.
//!
//! The machine names bytes and never sees one. Here each name has its bytes, for as long as the
//! machine wants them: a message that is sent lies where its owner left it and is handed to the
//! system from there; one that arrives is copied once, in [`Exchanges::place`], from the buffer
//! that the socket filled to its place in the message, which the handler or the caller is then
//! given as it is.

use super::client::Done;
use super::server::QuestionName;
use bytes::Bytes;
use cavy_core::Instant;
use cavy_core::family::Node;
use cavy_core::family::packet::{Extent, Message};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

/// A call under way.
pub(crate) struct Open {
    pub(crate) to: Node,
    pub(crate) bytes: Bytes,
    pub(crate) since: Instant,
    pub(crate) until: Instant,
    pub(crate) done: Done,
}

/// A question that waits for the handler.
struct Waiting {
    name: QuestionName,
    bytes: Bytes,
    since: Instant,
}

/// An answer that is kept until it is acknowledged.
struct Answer {
    to: SocketAddr,
    bytes: Bytes,
}

/// All messages of an endpoint.
#[derive(Default)]
pub(crate) struct Exchanges {
    calls: BTreeMap<u64, Open>,
    deadlines: BTreeSet<(Instant, u64)>,
    arriving: BTreeMap<(Node, Message), Vec<u8>>,
    /// With the handler.
    handled: BTreeSet<QuestionName>,
    /// Not yet.
    waiting: VecDeque<Waiting>,
    waiting_names: BTreeSet<QuestionName>,
    waiting_bytes: u64,
    answers: BTreeMap<QuestionName, Answer>,
    /// The same by the address that asked, whichever of its ports did.
    answers_at: BTreeMap<(SocketAddr, u64), Node>,
    answers_bytes: u64,
    /// Of all messages here: questions asked, messages that arrive or wait, answers.
    held_bytes: u64,
}

impl Exchanges {
    pub(crate) fn begin_call(&mut self, id: u64, call: Open) {
        self.deadlines.insert((call.until, id));
        self.held_bytes += call.bytes.len() as u64;
        self.calls.insert(id, call);
    }

    /// Takes a call out, and what has arrived of its answer.
    pub(crate) fn end_call(&mut self, id: u64) -> Option<Open> {
        let call = self.calls.remove(&id)?;
        self.deadlines.remove(&(call.until, id));
        self.held_bytes -= call.bytes.len() as u64;
        drop(self.take_arrived(call.to, Message(id).answer()));
        Some(call)
    }

    /// Whom a call asks.
    pub(crate) fn call_peer(&self, id: u64) -> Option<Node> {
        self.calls.get(&id).map(|call| call.to)
    }

    /// All calls of one peer that were under way at some time.
    pub(crate) fn calls_of(&self, to: Node, at: Instant) -> Vec<u64> {
        let calls = self.calls.iter().filter(|(_, call)| call.to == to && call.since <= at);
        calls.map(|(&id, _)| id).collect()
    }

    pub(crate) fn call_count(&self) -> usize {
        self.calls.len()
    }

    /// All calls, taken out.
    pub(crate) fn take_calls(&mut self) -> impl Iterator<Item = Open> + use<> {
        self.deadlines.clear();
        let bytes: usize = self.calls.values().map(|call| call.bytes.len()).sum();
        self.held_bytes -= bytes as u64;
        std::mem::take(&mut self.calls).into_values()
    }

    /// When the next call is to end.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|&(at, _)| at)
    }

    /// A call whose deadline has passed.
    pub(crate) fn overdue(&self, now: Instant) -> Option<u64> {
        self.deadlines.first().filter(|&&(at, _)| at <= now).map(|&(_, id)| id)
    }

    /// The bytes of a message that this endpoint sends to `to`.
    pub(crate) fn outgoing(&self, to: Node, message: Message) -> Option<&Bytes> {
        match message.is_answer() {
            true => self.answers.get(&(to, message.question().0)).map(|answer| &answer.bytes),
            false => self.calls.get(&message.0).map(|call| &call.bytes),
        }
    }

    /// Puts new bytes where they belong in a message of `length` bytes.
    pub(crate) fn place(&mut self, from: Node, extent: Extent, length: usize, bytes: &[u8]) {
        let key = (from, extent.message);
        let held = &mut self.held_bytes;
        if bytes.len() == length {
            *held += length as u64;
            let before = self.arriving.insert(key, bytes.to_vec());
            *held -= before.map_or(0, |before| before.len() as u64);
            return;
        }
        let message = self.arriving.entry(key).or_insert_with(|| {
            *held += length as u64;
            vec![0; length]
        });
        let start = extent.offset_bytes as usize;
        if let Some(place) = message.get_mut(start..start + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    /// A message that is there in full, or is not wanted any more.
    pub(crate) fn take_arrived(&mut self, from: Node, message: Message) -> Option<Bytes> {
        let bytes = self.arriving.remove(&(from, message))?;
        self.held_bytes -= bytes.len() as u64;
        Some(Bytes::from(bytes))
    }

    /// Does a packet with this name of `from` belong to a question that is known here?
    pub(crate) fn knows_question(&self, name: QuestionName) -> bool {
        self.handled.contains(&name)
            || self.answers.contains_key(&name)
            || self.waiting_names.contains(&name)
            || self.arriving.contains_key(&(name.0, Message(name.1)))
    }

    /// Questions of which a part is here.
    pub(crate) fn questions_arriving(&self) -> BTreeSet<QuestionName> {
        let questions = self.arriving.keys().filter(|(_, message)| !message.is_answer());
        questions.map(|&(from, message)| (from, message.0)).collect()
    }

    /// Is nothing left but questions that arrive and are not among the `welcome`?
    pub(crate) fn are_over(&self, welcome: &BTreeSet<QuestionName>) -> bool {
        let arriving = |name: &QuestionName| self.arriving.contains_key(&(name.0, Message(name.1)));
        let left = self.calls.len() + self.handled.len() + self.waiting.len() + self.answers.len();
        left == 0 && !welcome.iter().any(arriving)
    }

    /// Has the answer to this question been given?
    pub(crate) fn has_answer(&self, name: QuestionName) -> bool {
        self.answers.contains_key(&name)
    }

    /// Whose question `id` of the host at `at` was answered here.
    ///
    /// A host names its questions once for all its ports ([homa 2.1]); of two that chose the same
    /// name, the later one is found.
    pub(crate) fn answered_at(&self, at: SocketAddr, id: u64) -> Option<Node> {
        self.answers_at.get(&(at, id)).copied()
    }

    pub(crate) fn wait(&mut self, name: QuestionName, bytes: Bytes, since: Instant) {
        self.waiting_bytes += bytes.len() as u64;
        self.held_bytes += bytes.len() as u64;
        self.waiting_names.insert(name);
        self.waiting.push_back(Waiting { name, bytes, since });
    }

    pub(crate) fn waiting(&self) -> (usize, u64) {
        (self.waiting.len(), self.waiting_bytes)
    }

    /// The question that waits for longest, now with the handler, if fewer than `most` are and the
    /// answers that are kept have less than `answers_bytes_max`.
    pub(crate) fn handle_next(
        &mut self,
        most: u32,
        answers_bytes_max: u64,
    ) -> Option<(QuestionName, Bytes)> {
        if self.handled.len() >= most as usize || self.answers_bytes >= answers_bytes_max {
            return None;
        }
        let Waiting { name, bytes, .. } = self.take_waiting()?;
        self.handled.insert(name);
        Some((name, bytes))
    }

    /// Since when the question waits that waits for longest.
    pub(crate) fn waiting_since(&self) -> Option<Instant> {
        self.waiting.front().map(|first| first.since)
    }

    /// The question that waits for longest, which the handler does not get any more.
    pub(crate) fn give_up_waiting(&mut self) -> Option<QuestionName> {
        self.take_waiting().map(|first| first.name)
    }

    fn take_waiting(&mut self) -> Option<Waiting> {
        let first = self.waiting.pop_front()?;
        self.waiting_bytes -= first.bytes.len() as u64;
        self.held_bytes -= first.bytes.len() as u64;
        self.waiting_names.remove(&first.name);
        Some(first)
    }

    /// The handler is done with a question; false if it was not with it.
    pub(crate) fn handled(&mut self, name: QuestionName) -> bool {
        self.handled.remove(&name)
    }

    pub(crate) fn keep_answer(&mut self, name: QuestionName, to: SocketAddr, bytes: Bytes) {
        self.drop_answer(name);
        self.held_bytes += bytes.len() as u64;
        self.answers_bytes += bytes.len() as u64;
        self.answers_at.insert((to, name.1), name.0);
        self.answers.insert(name, Answer { to, bytes });
    }

    pub(crate) fn drop_answer(&mut self, name: QuestionName) -> bool {
        let Some(Answer { to, bytes }) = self.answers.remove(&name) else { return false };
        if self.answers_at.get(&(to, name.1)) == Some(&name.0) {
            self.answers_at.remove(&(to, name.1));
        }
        self.held_bytes -= bytes.len() as u64;
        self.answers_bytes -= bytes.len() as u64;
        true
    }

    /// Bytes of messages that are arriving, as long as they will be.
    #[cfg(any(test, feature = "fuzz"))]
    pub(crate) fn arriving_bytes(&self) -> u64 {
        self.arriving.values().map(|bytes| bytes.len() as u64).sum()
    }

    /// Bytes of the answers that are kept.
    #[cfg(any(test, feature = "fuzz"))]
    pub(crate) fn answers_bytes(&self) -> u64 {
        self.answers_bytes
    }

    /// Bytes of the messages that are kept here.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Messages that arrive, questions here, and answers kept.
    pub(crate) fn message_count(&self) -> usize {
        self.arriving.len() + self.handled.len() + self.waiting.len() + self.answers.len()
    }
}
