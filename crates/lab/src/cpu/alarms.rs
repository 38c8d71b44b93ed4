//! Deadlines that move, with at most one live entry each in the queue of events.
//!
//! A deadline that moves later leaves its entry where it is; the entry, when it surfaces, is put
//! back at the new time. Only a deadline that moves earlier costs a second entry. Pushing at every
//! change and ignoring what is stale would cost two to four times as much.

use crate::pending::{Class, Key, Pending, Ties};
use cavy_core::Instant;

/// What rings when: times before classes, as in the queue of events.
type Due = (Instant, Class);

const OFF: Due = (Instant::NEVER, Class::Timer);

#[derive(Clone, Copy, Debug)]
struct Alarm {
    deadline: Due,
    /// The live entry in the queue; [`OFF`] when there is none.
    queued: Due,
}

/// Alarms numbered from 0; the number is the slot of its keys.
#[derive(Clone, Debug)]
pub struct Alarms {
    alarms: Vec<Alarm>,
}

impl Alarms {
    /// `count` alarms, all off.
    pub fn new(count: u32) -> Self {
        Alarms { alarms: vec![Alarm { deadline: OFF, queued: OFF }; count as usize] }
    }

    /// Rings `slot` at `at`, as an event of `class`, instead of whenever it was to ring.
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
        alarm.deadline = (at, class);
        if alarm.deadline < alarm.queued {
            alarm.queued = alarm.deadline;
            pending.push(Key::new(at, class, ties.next(), slot));
        }
    }

    /// `slot` does not ring.
    #[inline]
    pub fn stop(&mut self, slot: u32) {
        self.alarms[slot as usize].deadline = OFF;
    }

    /// Does `key`, just popped, mean that its alarm rings? If so the alarm is off now.
    #[inline]
    pub fn rings(&mut self, key: Key, pending: &mut impl Pending, ties: &mut Ties) -> bool {
        let alarm = &mut self.alarms[key.slot() as usize];
        let due = (key.at(), key.class());
        if alarm.queued != due {
            return false; // overtaken by an earlier entry
        }
        alarm.queued = OFF;
        if alarm.deadline == due {
            alarm.deadline = OFF;
            return true;
        }
        if alarm.deadline != OFF {
            alarm.queued = alarm.deadline;
            let (at, class) = alarm.deadline;
            pending.push(Key::new(at, class, ties.next(), key.slot()));
        }
        false
    }
}
