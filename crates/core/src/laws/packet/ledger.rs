//! Applications that send messages and answer questions, and the oracle that watches every one:
//! bytes are placed once, a message is delivered whole and once, and what was submitted ends.

use super::network::{Application, Deeds, Network};
use crate::family::Node;
use crate::family::packet::{Effect, Extent, Header, Input, Message};
use crate::machine::{Machine, Transmit};
use crate::time::{Instant, Span};
use alloc::collections::BTreeMap;

/// A message: who sends it, who receives it, and its name.
pub type Name = (Node, Node, Message);

/// What became of a message, seen from outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fate<W> {
    /// Its length.
    pub length_bytes: u32,
    /// When its sender was given it.
    pub submitted: Instant,
    /// Times it was delivered.
    pub delivered: u32,
    /// When it was delivered first.
    pub delivered_at: Option<Instant>,
    /// Times its sender was told that its bytes are not needed any more.
    pub released: u32,
    /// Times its sender was told that it failed.
    pub failed_at_sender: u32,
    /// Times its receiver was told that it will not come.
    pub failed_at_receiver: u32,
    /// Why it failed, as its sender was told last.
    pub why: Option<W>,
}

/// The applications of all hosts, and the oracle.
#[derive(Clone, Debug)]
pub struct Ledger<W> {
    /// Every message that was given to a machine.
    pub fates: BTreeMap<Name, Fate<W>>,
    /// Time until a question is answered.
    pub serve: Span,
    /// Delivered twice is no defect: the transport says at least once, or a host lost its memory.
    pub repeats: bool,
    /// The transport releases a message when it knows that the receiver has it and never otherwise,
    /// and of each message it says one end.
    pub releases_prove: bool,
    /// Length of the answer to each question.
    asked: BTreeMap<Name, u32>,
    /// Parts that were placed of messages under way: the end of each by its start.
    placed: BTreeMap<Name, BTreeMap<u32, u32>>,
}

impl<W> Default for Ledger<W> {
    fn default() -> Self {
        Ledger {
            fates: BTreeMap::new(),
            serve: Span::ZERO,
            repeats: false,
            releases_prove: false,
            asked: BTreeMap::new(),
            placed: BTreeMap::new(),
        }
    }
}

impl<W: Copy> Ledger<W> {
    fn begin(&mut self, name: Name, length_bytes: u32, now: Instant) {
        let fate = Fate {
            length_bytes,
            submitted: now,
            delivered: 0,
            delivered_at: None,
            released: 0,
            failed_at_sender: 0,
            failed_at_receiver: 0,
            why: None,
        };
        let before = self.fates.get(&name).copied();
        assert!(before.is_none() || self.repeats, "{name:?} submitted twice");
        self.fates.insert(name, before.unwrap_or(fate));
    }

    fn fate(&mut self, name: Name) -> &mut Fate<W> {
        self.fates.get_mut(&name).unwrap_or_else(|| panic!("{name:?} was never submitted"))
    }

    fn place(&mut self, name: Name, extent: Extent) {
        let repeats = self.repeats;
        let fate = self.fate(name);
        assert!(repeats || fate.delivered == 0, "{name:?} grows after it was delivered");
        let (start, end) = (extent.offset_bytes, extent.offset_bytes + extent.length_bytes);
        assert!(end <= fate.length_bytes, "{name:?}: bytes {start}..{end} are beyond its end");
        if start == end {
            return;
        }
        let parts = self.placed.entry(name).or_default();
        let clear = parts.range(..end).next_back().is_none_or(|(_, &before)| before <= start);
        assert!(clear || repeats, "{name:?}: bytes {start}..{end} placed twice");
        parts.insert(start, end);
    }

    fn deliver(&mut self, name: Name, length_bytes: u32, now: Instant) {
        let parts = self.placed.remove(&name).unwrap_or_default();
        let placed: u32 = parts.iter().map(|(start, end)| end - start).sum();
        let (repeats, ends) = (self.repeats, self.releases_prove);
        let fate = self.fate(name);
        assert_eq!(fate.length_bytes, length_bytes, "{name:?} delivered with another length");
        assert!(repeats || placed == length_bytes, "{name:?} delivered with holes");
        fate.delivered += 1;
        assert!(repeats || fate.delivered == 1, "{name:?} delivered twice");
        assert!(!ends || fate.failed_at_receiver == 0, "{name:?} failed, then came");
        fate.delivered_at = fate.delivered_at.or(Some(now));
    }

    fn release(&mut self, name: Name) {
        let (repeats, proves) = (self.repeats, self.releases_prove);
        // An answer that could not be sent was never begun.
        let Some(fate) = self.fates.get_mut(&name) else { return };
        fate.released += 1;
        assert!(repeats || fate.released == 1, "{name:?} released twice");
        let proven = fate.delivered > 0 && fate.failed_at_sender == 0;
        assert!(!proves || proven, "{name:?} released and not delivered");
    }

    fn fail(&mut self, here: Node, peer: Node, message: Message, why: W) {
        let (sent, came) = ((here, peer, message), (peer, here, message));
        let ends = self.releases_prove;
        let fate = match self.fates.contains_key(&sent) {
            true => {
                let fate = self.fate(sent);
                fate.failed_at_sender += 1;
                fate.why = Some(why);
                fate.failed_at_sender
            }
            false => {
                // What comes of it later begins anew.
                self.placed.remove(&came);
                let fate = self.fate(came);
                fate.failed_at_receiver += 1;
                fate.failed_at_receiver
            }
        };
        assert!(!ends || fate == 1, "{message:?} failed twice at {here:?}");
    }
}

impl<H, W: Copy, M: Machine<Input = Input<H>, Effect = Effect<W>>> Application<M> for Ledger<W> {
    fn effect(&mut self, here: Node, now: Instant, effect: Effect<W>, deeds: &mut Deeds<Input<H>>) {
        match effect {
            Effect::Place { from, extent } => self.place((from, here, extent.message), extent),
            Effect::Delivered { from, message, length_bytes } => {
                self.deliver((from, here, message), length_bytes, now);
                if let Some(&length_bytes) = self.asked.get(&(from, here, message)) {
                    self.begin((here, from, message.answer()), length_bytes, now);
                    let input = Input::Answer { to: from, question: message, length_bytes };
                    deeds.tell(self.serve, here, input);
                }
            }
            Effect::Released { peer, message } => self.release((here, peer, message)),
            Effect::Failed { peer, message, why } => self.fail(here, peer, message, why),
        }
    }
}

/// Networks of messages.
impl<H: Header, W: Copy, M> Network<M, Ledger<W>>
where
    M: Transmit<Header = H, Input = Input<H>, Effect = Effect<W>>,
{
    /// Gives a host a message to send at `at`; with `answer_bytes` it is a question that its
    /// receiver answers. Its name is even and new.
    pub fn submit(
        &mut self,
        at: Instant,
        (from, to): (u32, u32),
        name: u64,
        length_bytes: u32,
        answer_bytes: Option<u32>,
    ) {
        let (from, to, message) = (Node(from), Node(to), Message(name));
        self.application.begin((from, to, message), length_bytes, at);
        if let Some(bytes) = answer_bytes {
            self.application.asked.insert((from, to, message), bytes);
        }
        let asks = answer_bytes.is_some();
        self.tell(at, from.0, Input::Submit { to, message, length_bytes, asks });
    }

    /// What became of the message that `from` sent to `to`. Panics when there is none.
    pub fn fate(&self, from: u32, to: u32, message: Message) -> Fate<W> {
        self.application.fates[&(Node(from), Node(to), message)]
    }
}
