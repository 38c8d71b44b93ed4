//! Deadlines that move, with at most one live entry each in the queue of events.
//!
//! A deadline that moves later leaves its entry where it is; the entry, when it surfaces, is put
//! back at the new time. Only a deadline that moves earlier costs a second entry. Pushing at every
//! change and ignoring what is stale would cost two to four times as much.

use crate::pending::{Class, Key, Pending, Ties};
use cavy_core::Instant;

#[derive(Clone, Copy, Debug)]
struct Alarm {
    /// When to ring; never when off.
    deadline: Instant,
    /// Time of the live entry in the queue; never when there is none.
    queued: Instant,
}

const OFF: Alarm = Alarm { deadline: Instant::NEVER, queued: Instant::NEVER };

/// Alarms numbered from 0; the number is the slot of its keys.
#[derive(Clone, Debug)]
pub struct Alarms {
    alarms: Vec<Alarm>,
}

impl Alarms {
    /// `count` alarms, all off.
    pub fn new(count: u32) -> Self {
        Alarms { alarms: vec![OFF; count as usize] }
    }

    /// Rings `slot` at `at` instead of whenever it was to ring.
    #[inline]
    pub fn set(
        &mut self,
        slot: u32,
        class: Class,
        at: Instant,
        pending: &mut impl Pending,
        ties: &mut Ties,
    ) {
        let alarm = &mut self.alarms[slot as usize];
        alarm.deadline = at;
        if at < alarm.queued {
            alarm.queued = at;
            pending.push(Key::new(at, class, ties.next(), slot));
        }
    }

    /// `slot` does not ring.
    #[inline]
    pub fn stop(&mut self, slot: u32) {
        self.alarms[slot as usize].deadline = Instant::NEVER;
    }

    /// Does `key`, just popped, mean that its alarm rings? If so the alarm is off now.
    #[inline]
    pub fn rings(&mut self, key: Key, pending: &mut impl Pending, ties: &mut Ties) -> bool {
        let alarm = &mut self.alarms[key.slot() as usize];
        if alarm.queued != key.at() {
            return false; // overtaken by an earlier entry
        }
        alarm.queued = Instant::NEVER;
        if alarm.deadline == key.at() {
            alarm.deadline = Instant::NEVER;
            return true;
        }
        if alarm.deadline != Instant::NEVER {
            alarm.queued = alarm.deadline;
            pending.push(Key::new(alarm.deadline, key.class(), ties.next(), key.slot()));
        }
        false
    }
}
