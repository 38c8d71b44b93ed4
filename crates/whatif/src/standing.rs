//! One set through one pause: who stands, since when, and for how long they stood together.

use alloc::vec::Vec;
use cavy_core::family::probe::Group;
use cavy_core::{Instant, Span};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Goes,
    Stands,
    Stood,
    Gone,
}

/// A set of groups, and the pause that it is in or was in last.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    pub(crate) members: Vec<Group>,
    states: Vec<State>,
    /// Members that live.
    live: u32,
    /// Live members that have not stood and gone on in this pause.
    open: u32,
    /// Members that stand or have stood in this pause.
    stopped: u32,
    pub(crate) asked: Span,
    began: Instant,
    last_stop: Instant,
    first_go: Instant,
    first_stop: Instant,
    last_go: Instant,
    /// Sums over members, since the pause began, of when they stopped and when they went on.
    stops_ns: u128,
    goes_ns: u128,
}

impl Standing {
    pub(crate) fn new(members: Vec<Group>) -> Self {
        Standing {
            states: members.iter().map(|_| State::Goes).collect(),
            live: members.len() as u32,
            open: 0,
            stopped: 0,
            members,
            asked: Span::ZERO,
            began: Instant::ZERO,
            last_stop: Instant::ZERO,
            first_go: Instant::NEVER,
            first_stop: Instant::NEVER,
            last_go: Instant::ZERO,
            stops_ns: 0,
            goes_ns: 0,
        }
    }

    /// A pause begins for which `asked` is wanted of this set; zero when it is not part of it.
    pub(crate) fn begin(&mut self, now: Instant, asked: Span) {
        self.asked = asked;
        self.began = now;
        self.open = if asked.is_zero() { 0 } else { self.live };
        self.stopped = 0;
        self.last_stop = now;
        self.first_go = Instant::NEVER;
        self.first_stop = Instant::NEVER;
        self.last_go = now;
        (self.stops_ns, self.goes_ns) = (0, 0);
        for state in &mut self.states {
            if *state != State::Gone {
                *state = State::Goes;
            }
        }
    }

    pub(crate) fn live(&self) -> u32 {
        self.live
    }

    /// Do all live members stand, or have they stood?
    pub(crate) fn all_stopped(&self) -> bool {
        self.stopped >= self.live
    }

    pub(crate) fn over(&self) -> bool {
        self.open == 0
    }

    pub(crate) fn frozen(&mut self, member: usize, at: Instant) {
        if self.states[member] == State::Goes && !self.asked.is_zero() {
            self.states[member] = State::Stands;
            self.stopped += 1;
            self.last_stop = self.last_stop.max(at);
            self.first_stop = self.first_stop.min(at);
            self.stops_ns += u128::from(at.since(self.began).as_ns());
        }
    }

    pub(crate) fn thawed(&mut self, member: usize, at: Instant) {
        if self.states[member] == State::Stands {
            self.states[member] = State::Stood;
            self.open -= 1;
            self.first_go = self.first_go.min(at);
            self.last_go = self.last_go.max(at);
            self.goes_ns += u128::from(at.since(self.began).as_ns());
        }
    }

    /// `member` has ended: nothing is expected of it any more.
    pub(crate) fn gone(&mut self, member: usize) {
        match core::mem::replace(&mut self.states[member], State::Gone) {
            State::Gone => return,
            State::Goes | State::Stands if self.open > 0 => self.open -= 1,
            _ => {}
        }
        self.live -= 1;
    }

    /// Gives up on members that said nothing; returns whether there were any.
    pub(crate) fn give_up(&mut self, now: Instant) -> bool {
        let missing = self.open > 0;
        for member in 0..self.states.len() {
            if self.states[member] == State::Stands {
                self.thawed(member, now);
            }
        }
        self.open = 0;
        missing
    }

    /// For how long all members stood at once.
    pub(crate) fn together(&self) -> Span {
        if self.stopped == 0 || self.first_go == Instant::NEVER {
            return Span::ZERO;
        }
        self.first_go.since(self.last_stop)
    }

    /// For how long a member stood, on average.
    pub(crate) fn mean(&self) -> Span {
        let stood = self.states.iter().filter(|state| **state == State::Stood).count() as u128;
        match self.goes_ns.checked_sub(self.stops_ns) {
            Some(ns) if stood > 0 => Span::from_ns((ns / stood) as u64),
            _ => Span::ZERO,
        }
    }

    /// From when the first stopped until the last went on.
    pub(crate) fn any(&self) -> Span {
        if self.stopped == 0 { Span::ZERO } else { self.last_go.since(self.first_stop) }
    }
}
