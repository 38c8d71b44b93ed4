//! The messages that are under way: who sent what to whom, when, and what is missing.

use super::clock::Ps;
use cavy_core::family::Node;
use cavy_core::family::packet::Message;

const SLOT_BITS: u32 = 24;

/// One message, or one question with its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    /// Its name; odd while the slot is free.
    pub name: u64,
    pub from: u32,
    pub to: u32,
    /// Of the question.
    pub length_bytes: u32,
    /// Of the answer, once there is one.
    pub answer_bytes: u32,
    pub submitted_at: Ps,
    /// Number among the messages of its sender.
    pub number: u64,
    /// Bytes not yet placed, of the question, then of the answer.
    pub left_bytes: u32,
    /// Bytes from the start that were handed to the network at least once.
    pub sent_bytes: u32,
    pub asks: bool,
    /// Of traffic.
    pub class: u16,
    /// The question was delivered; the answer is under way.
    pub answering: bool,
    /// Its sender crashed, so nobody waits for it any more.
    pub orphaned: bool,
    /// It counts: it was submitted after the warm-up.
    pub counted: bool,
}

/// The records, found by the name in which their place is written: (number, place, question or
/// answer). Names ascend with the number, so machines that order by name order by age.
#[derive(Debug, Default)]
pub(super) struct Messages {
    slots: Vec<Record>,
    free: Vec<u32>,
}

impl Messages {
    /// Adds a record and gives it its name. `None` when there are too many.
    pub(super) fn insert(&mut self, mut record: Record) -> Option<Message> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.slots.len() < 1 << SLOT_BITS => {
                self.slots.push(record);
                self.slots.len() as u32 - 1
            }
            None => return None,
        };
        record.name = (record.number << SLOT_BITS | u64::from(slot)) << 1;
        self.slots[slot as usize] = record;
        Some(Message(record.name))
    }

    /// The record of `message` or of the question it answers, while it is under way.
    #[inline]
    pub(super) fn get_mut(&mut self, message: Message) -> Option<&mut Record> {
        let name = message.question().0;
        let slot = (name >> 1) as usize & ((1 << SLOT_BITS) - 1);
        self.slots.get_mut(slot).filter(|record| record.name == name)
    }

    pub(super) fn remove(&mut self, message: Message) {
        let slot = (message.0 >> 1) as u32 & ((1 << SLOT_BITS) - 1);
        self.slots[slot as usize].name = u64::MAX;
        self.free.push(slot);
    }

    /// All records under way, in no meaningful order.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Record> {
        self.slots.iter_mut().filter(|record| record.name != u64::MAX)
    }
}

/// The number of a message among those of its sender.
pub fn number(message: Message) -> u64 {
    message.0 >> (SLOT_BITS + 1)
}

/// The place and direction, for checks: does this record expect `message` at `at` from `from`?
pub(super) fn expects(record: &Record, at: Node, from: Node, message: Message) -> bool {
    if message.is_answer() {
        record.answering && record.from == at.0 && record.to == from.0
    } else {
        !record.answering && record.to == at.0 && record.from == from.0
    }
}
