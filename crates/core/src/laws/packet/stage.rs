//! A conversation with one machine: inputs in, effects and packets out.

use super::Arrival;
use crate::family::Node;
use crate::family::packet::{Extent, Input, Message, Seen};
use crate::machine::{Cx, Machine, Out, Outbox, Packet, Room, Transmit};
use crate::stream::{Purpose, Stream};
use crate::time::{Instant, Span};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// One machine, and what it has done so far. Time passes when the test says so.
pub struct Stage<M: Machine> {
    /// The machine.
    pub machine: M,
    /// Now. Tests may move it forward.
    pub now: Instant,
    /// What the machine wanted done since the test last cleared this.
    pub effects: Vec<M::Effect>,
    /// Timers that are armed.
    pub timers: BTreeMap<M::Timer, Instant>,
    /// Payload that a packet may have.
    pub room_bytes: u32,
    rng: Stream,
    outbox: Outbox<M::Effect, M::Timer>,
}

impl<M: Machine + Clone> Clone for Stage<M>
where
    M::Effect: Clone,
{
    fn clone(&self) -> Self {
        Stage {
            machine: self.machine.clone(),
            effects: self.effects.clone(),
            timers: self.timers.clone(),
            rng: self.rng.clone(),
            outbox: Outbox::with_capacity(self.machine.effects_max()),
            ..*self
        }
    }
}

impl<M: Machine> Stage<M> {
    /// The machine, started at `now`; its random numbers follow from `seed`.
    pub fn new(machine: M, now: Instant, seed: u64) -> Self {
        let mut stage = Stage {
            outbox: Outbox::with_capacity(machine.effects_max()),
            machine,
            now,
            effects: Vec::new(),
            timers: BTreeMap::new(),
            room_bytes: 9_000,
            rng: Stream::keyed(seed, 0, Purpose::Machine),
        };
        stage.step(|machine, cx| machine.start(cx));
        stage
    }

    /// One step of the machine. Panics when its invariants do not hold after it, or when it has
    /// done more than it declares (law 4).
    pub fn step<R>(
        &mut self,
        act: impl FnOnce(&mut M, &mut Cx<'_, M::Effect, M::Timer>) -> R,
    ) -> R {
        let mut cx = Cx::new(self.now, &mut self.rng, &mut self.outbox);
        let result = act(&mut self.machine, &mut cx);
        let (made, most) = (self.outbox.entries().len(), self.machine.effects_max());
        assert!(made <= most, "law 4: {made} effects in one step, at most {most} declared");
        for out in self.outbox.drain() {
            match out {
                Out::Effect(effect) => self.effects.push(effect),
                Out::Arm(timer, at) => _ = self.timers.insert(timer, at),
                Out::Disarm(timer) => _ = self.timers.remove(&timer),
            }
        }
        self.machine.check();
        result
    }

    /// Something happens.
    pub fn input(&mut self, input: M::Input) {
        self.step(|machine, cx| machine.handle(input, cx));
    }

    /// Lets `timer` fire, which must be armed: when it is due, or now if that has passed.
    pub fn expire(&mut self, timer: M::Timer) {
        let due = self.timers.remove(&timer);
        let due = due.unwrap_or_else(|| panic!("law 3: a timer fires that is not armed"));
        self.now = self.now.max(due);
        self.step(|machine, cx| machine.expire(timer, cx));
    }

    /// Lets the timer fire that is due first. False when none is armed.
    pub fn expire_next(&mut self) -> bool {
        let next = self.timers.iter().min_by_key(|&(timer, at)| (*at, *timer));
        let Some((&timer, _)) = next else { return false };
        self.expire(timer);
        true
    }

    /// Lets time pass; timers fire when they are due.
    pub fn wait(&mut self, span: Span) {
        let end = self.now + span;
        while self.timers.values().any(|&at| at <= end) {
            self.expire_next();
        }
        self.now = end;
    }
}

impl<M: Transmit> Stage<M> {
    /// A packet comes in.
    pub fn receive(&mut self, from: u32, header: M::Header, payload: Extent, seen: Seen)
    where
        M::Input: Arrival<M::Header>,
    {
        self.input(M::Input::arrival(Node(from), header, payload, seen));
    }

    /// One packet, if there is one to send.
    pub fn pull(&mut self) -> Option<Packet<M::Header>> {
        let room = Room { packets: 1, bytes: self.room_bytes };
        self.step(|machine, cx| machine.pull(room, cx))
    }

    /// All packets there are to send now.
    pub fn pull_all(&mut self) -> Vec<Packet<M::Header>> {
        core::iter::from_fn(|| self.pull()).collect()
    }
}

/// What applications of messages say.
impl<M: Transmit<Input = Input<<M as Transmit>::Header>>> Stage<M> {
    /// The application sends a message.
    pub fn submit(&mut self, to: u32, name: u64, length_bytes: u32, asks: bool) {
        let (to, message) = (Node(to), Message(name));
        self.input(Input::Submit { to, message, length_bytes, asks });
    }

    /// The application answers a question.
    pub fn answer(&mut self, to: u32, name: u64, length_bytes: u32) {
        self.input(Input::Answer { to: Node(to), question: Message(name), length_bytes });
    }
}
