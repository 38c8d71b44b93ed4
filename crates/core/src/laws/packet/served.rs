//! A transport whose port is a part of it, so that a pull is an input like any other and the rig of
//! the laws can drive it.

use crate::machine::{Cx, Machine, Out, Outbox, Packet, Room, Transmit};
use core::fmt;
use core::hash::{Hash, Hasher};

/// What happens to a served machine.
#[derive(Clone, Copy, Debug)]
pub enum Turn<I> {
    /// Something happens to the machine.
    Input(I),
    /// Its port has room for so many packets.
    Pull(u32),
}

/// What a served machine does.
#[derive(Clone, Copy, Debug)]
pub enum Done<E, H> {
    /// The machine wants this done.
    Effect(E),
    /// The machine sent this.
    Sent(Packet<H>),
}

/// Headers are left out: not all can be hashed, and what decides shows in the rest.
impl<E: Hash, H> Hash for Done<E, H> {
    fn hash<S: Hasher>(&self, state: &mut S) {
        match self {
            Done::Effect(effect) => effect.hash(state),
            Done::Sent(packet) => {
                (packet.to, packet.payload, packet.priority, packet.rank).hash(state);
            }
        }
    }
}

/// Most packets of one [`Turn::Pull`].
const PULLS_MAX: u32 = 16;

/// A transport and its port.
pub struct Served<M: Transmit> {
    /// The transport.
    pub machine: M,
    room_bytes: u32,
    outbox: Outbox<M::Effect, M::Timer>,
}

impl<M: Transmit + fmt::Debug> fmt::Debug for Served<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.machine.fmt(f)
    }
}

type ServedCx<'a, M> =
    Cx<'a, Done<<M as Machine>::Effect, <M as Transmit>::Header>, <M as Machine>::Timer>;

impl<M: Transmit> Served<M> {
    /// The transport behind a port whose packets have at most so much payload.
    pub fn new(machine: M, room_bytes: u32) -> Self {
        Served { outbox: Outbox::with_capacity(machine.effects_max()), machine, room_bytes }
    }

    fn step<R>(
        &mut self,
        cx: &mut ServedCx<'_, M>,
        act: impl FnOnce(&mut M, &mut Cx<'_, M::Effect, M::Timer>) -> R,
    ) -> R {
        let now = cx.now();
        let result = act(&mut self.machine, &mut Cx::new(now, cx.rng(), &mut self.outbox));
        let (made, most) = (self.outbox.entries().len(), self.machine.effects_max());
        assert!(made <= most, "law 4: {made} effects in one step, at most {most} declared");
        for out in self.outbox.drain() {
            match out {
                Out::Effect(effect) => cx.emit(Done::Effect(effect)),
                Out::Arm(timer, at) => cx.arm(timer, at),
                Out::Disarm(timer) => cx.disarm(timer),
            }
        }
        result
    }
}

impl<M: Transmit> Machine for Served<M> {
    type Input = Turn<M::Input>;
    type Effect = Done<M::Effect, M::Header>;
    type Timer = M::Timer;

    fn effects_max(&self) -> usize {
        // A step of the machine, or pulls, each of which may have effects of its own.
        (self.machine.effects_max() + 1) * PULLS_MAX as usize
    }

    fn start(&mut self, cx: &mut ServedCx<'_, M>) {
        self.step(cx, |machine, cx| machine.start(cx));
    }

    fn handle(&mut self, input: Turn<M::Input>, cx: &mut ServedCx<'_, M>) {
        match input {
            Turn::Input(input) => self.step(cx, |machine, cx| machine.handle(input, cx)),
            Turn::Pull(packets) => {
                let room = Room { packets: 1, bytes: self.room_bytes };
                for _ in 0..packets.min(PULLS_MAX) {
                    let packet = self.step(cx, |machine, cx| machine.pull(room, cx));
                    let Some(packet) = packet else { return };
                    cx.emit(Done::Sent(packet));
                }
            }
        }
    }

    fn expire(&mut self, timer: M::Timer, cx: &mut ServedCx<'_, M>) {
        self.step(cx, |machine, cx| machine.expire(timer, cx));
    }

    fn check(&self) {
        self.machine.check();
    }
}
