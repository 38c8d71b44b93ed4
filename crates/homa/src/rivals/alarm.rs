//! A deadline that moves often and rarely comes: the world hears of it only when it must.

use cavy_core::{Cx, Instant};

/// One timer of a machine. Moving the deadline later costs nothing; the world's timer comes early
/// then, and is armed again for what is left.
#[derive(Clone, Copy, Debug)]
pub struct Alarm {
    due: Instant,
    /// When the world's timer comes; [`Instant::NEVER`] when it is not armed.
    armed: Instant,
}

impl Default for Alarm {
    fn default() -> Self {
        Alarm { due: Instant::NEVER, armed: Instant::NEVER }
    }
}

impl Alarm {
    /// Is there a deadline?
    pub fn is_set(&self) -> bool {
        self.due != Instant::NEVER
    }

    /// Sets or moves the deadline.
    #[inline]
    pub fn set<E, T>(&mut self, due: Instant, timer: T, cx: &mut Cx<'_, E, T>) {
        self.due = due;
        if due < self.armed {
            self.armed = due;
            cx.arm(timer, due);
        }
    }

    /// Forgets the deadline. The world's timer may still come, and will mean nothing.
    pub fn clear(&mut self) {
        self.due = Instant::NEVER;
    }

    /// The world's timer came. True when the deadline is there; it is forgotten then.
    pub fn came<E, T>(&mut self, timer: T, cx: &mut Cx<'_, E, T>) -> bool {
        self.armed = Instant::NEVER;
        if self.due == Instant::NEVER {
            return false;
        }
        if cx.now() < self.due {
            let due = self.due;
            self.set(due, timer, cx);
            return false;
        }
        self.due = Instant::NEVER;
        true
    }
}
