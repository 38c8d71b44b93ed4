//! One machine on a stage: inputs by hand, outputs to look at.

use cavy_core::family::Node;
use cavy_core::family::packet::{Effect, Extent, Input, Message, Seen};
use cavy_core::{Cx, Instant, Out, Outbox, Packet, Purpose, Room, Span, Stream};
use cavy_homa::rivals::{Timer, Why, extent};
use std::collections::BTreeMap;

use crate::network::Rival;

pub struct Stage<M: Rival> {
    pub machine: M,
    pub now: Instant,
    pub effects: Vec<Effect<Why>>,
    outbox: Outbox<Effect<Why>, Timer>,
    timers: BTreeMap<Timer, Instant>,
    rng: Stream,
}

impl<M: Rival> Stage<M> {
    pub fn new(machine: M) -> Self {
        Stage {
            outbox: Outbox::with_capacity(machine.effects_max()),
            machine,
            now: Instant::ZERO,
            effects: Vec::new(),
            timers: BTreeMap::new(),
            rng: Stream::keyed(1, 0, Purpose::Machine),
        }
    }

    pub fn input(&mut self, input: Input<M::Header>) {
        self.machine.handle(input, &mut Cx::new(self.now, &mut self.rng, &mut self.outbox));
        self.settle();
    }

    pub fn submit(&mut self, to: u32, name: u64, length_bytes: u32) {
        let (to, message) = (Node(to), Message(name));
        self.input(Input::Submit { to, message, length_bytes, asks: false });
    }

    /// Packet `number` of a message comes in.
    pub fn data(&mut self, from: u32, (name, length): (u64, u32), number: u32, header: M::Header) {
        self.receive(from, header, extent(Message(name), length, number), Seen::default());
    }

    /// A packet without payload comes in, about the packet at `offset_bytes`.
    pub fn control(&mut self, from: u32, name: u64, offset_bytes: u32, header: M::Header) {
        let payload = Extent { message: Message(name), offset_bytes, length_bytes: 0 };
        self.receive(from, header, payload, Seen::default());
    }

    pub fn receive(&mut self, from: u32, header: M::Header, payload: Extent, seen: Seen) {
        self.input(Input::Rx { from: Node(from), header, payload, seen });
    }

    /// Lets time pass; timers come when they are due.
    pub fn wait(&mut self, span: Span) {
        let end = self.now + span;
        while let Some((&timer, &at)) = self.timers.iter().min_by_key(|&(timer, at)| (*at, *timer))
        {
            if at > end {
                break;
            }
            self.timers.remove(&timer);
            self.now = self.now.max(at);
            self.machine.expire(timer, &mut Cx::new(self.now, &mut self.rng, &mut self.outbox));
            self.settle();
        }
        self.now = end;
    }

    fn settle(&mut self) {
        for out in self.outbox.drain() {
            match out {
                Out::Effect(effect) => self.effects.push(effect),
                Out::Arm(timer, at) => {
                    self.timers.insert(timer, at);
                }
                Out::Disarm(timer) => {
                    self.timers.remove(&timer);
                }
            }
        }
        self.machine.check();
    }

    /// One packet, if there is one to send.
    pub fn pull(&mut self) -> Option<Packet<M::Header>> {
        let room = Room { packets: 1, bytes: 1500 };
        let mut cx = Cx::new(self.now, &mut self.rng, &mut self.outbox);
        let packet = self.machine.pull(room, &mut cx);
        self.settle();
        packet
    }

    /// All packets there are to send now.
    pub fn pull_all(&mut self) -> Vec<Packet<M::Header>> {
        std::iter::from_fn(|| self.pull()).collect()
    }
}
