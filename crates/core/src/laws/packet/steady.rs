//! Hosts in a loop, in arrays and rings: a network that allocates nothing itself, so that whatever
//! is allocated while it runs is the machines' doing (law 8).

use crate::family::Node;
use crate::family::packet::{Effect, Input, Message, Seen};
use crate::machine::{Cx, Machine, Out, Outbox, Packet, Room, Transmit};
use crate::stream::{Purpose, Stream};
use crate::time::{Instant, Span};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// What the hosts of a [`Steady`] do.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Messages at most whose senders do not know that they are over.
    pub open: u64,
    /// Are they questions, answered at once by as many bytes?
    pub asks: bool,
    /// Length of the nth message.
    pub length_bytes: fn(u64, &mut Stream) -> u32,
    /// Packets that a host may send in a microsecond, in which one can come: more than one fills
    /// queues.
    pub packets_per_us: u32,
    /// Every so many packets one is lost; 0 for none.
    pub lost_every: u64,
}

/// Room for what is under way in each place; more makes the driver allocate.
const ROOM: usize = 4_096;
/// Time that a packet takes.
const FLIGHT: Span = Span::from_us(5);

struct Host<M: Transmit> {
    machine: M,
    timers: Vec<(M::Timer, Instant)>,
    coming: VecDeque<(Instant, Node, Packet<M::Header>)>,
}

/// Hosts that send each other messages, microsecond by microsecond. A single one sends to itself.
pub struct Steady<M: Transmit> {
    hosts: Vec<Host<M>>,
    outbox: Outbox<M::Effect, M::Timer>,
    answers: VecDeque<(Node, M::Input)>,
    rng: Stream,
    draws: Stream,
    now: Instant,
    named: u64,
    open: u64,
    /// Messages delivered so far.
    pub delivered: u64,
    /// Failures that were reported.
    pub failed: u64,
    /// Packets sent so far.
    pub packets: u64,
}

impl<H: crate::family::packet::Header, W, M> Steady<M>
where
    M: Transmit<Header = H, Input = Input<H>, Effect = Effect<W>>,
{
    /// Hosts without messages.
    pub fn new(machines: Vec<M>) -> Self {
        let most = machines.iter().map(Machine::effects_max).max().unwrap_or(0);
        let host = |machine| Host {
            machine,
            timers: Vec::with_capacity(ROOM),
            coming: VecDeque::with_capacity(ROOM),
        };
        Steady {
            hosts: machines.into_iter().map(host).collect(),
            outbox: Outbox::with_capacity(most),
            answers: VecDeque::with_capacity(ROOM),
            rng: Stream::keyed(1, 0, Purpose::Machine),
            draws: Stream::keyed(2, 0, Purpose::Test),
            now: Instant::ZERO,
            named: 0,
            open: 0,
            delivered: 0,
            failed: 0,
            packets: 0,
        }
    }

    /// A microsecond: the packet that has come for each host, timers, a message if there is room
    /// for one, answers, packets.
    pub fn step(&mut self, load: &Load) {
        self.now += Span::from_us(1);
        for at in 0..self.hosts.len() {
            if let Some(&(due, from, packet)) = self.hosts[at].coming.front()
                && due <= self.now
            {
                self.hosts[at].coming.pop_front();
                let Packet { header, payload, .. } = packet;
                self.input(at, load, Input::Rx { from, header, payload, seen: Seen::default() });
            }
            while let Some(due) = self.hosts[at].timers.iter().position(|one| one.1 <= self.now) {
                let (timer, _) = self.hosts[at].timers.swap_remove(due);
                self.act(at, load, |machine, cx| machine.expire(timer, cx));
            }
        }
        self.submit(load);
        while let Some((node, input)) = self.answers.pop_front() {
            self.input(node.0 as usize, load, input);
        }
        for at in 0..self.hosts.len() {
            for _ in 0..load.packets_per_us {
                let room = Room { packets: 1, bytes: 1_472 };
                let mut packet = None;
                self.act(at, load, |machine, cx| packet = machine.pull(room, cx));
                let Some(packet) = packet else { break };
                self.packets += 1;
                if load.lost_every == 0 || !self.packets.is_multiple_of(load.lost_every) {
                    let coming = &mut self.hosts[packet.to.0 as usize].coming;
                    coming.push_back((self.now + FLIGHT, Node(at as u32), packet));
                }
            }
        }
    }

    fn submit(&mut self, load: &Load) {
        if self.open >= load.open {
            return;
        }
        let hosts = self.hosts.len() as u64;
        let from = self.draws.below(hosts);
        let to = (from + 1 + self.draws.below((hosts - 1).max(1))) % hosts;
        let length_bytes = (load.length_bytes)(self.named, &mut self.draws);
        let message = Message(2 * self.named);
        self.named += 1;
        self.open += 1;
        let (to, asks) = (Node(to as u32), load.asks);
        self.input(from as usize, load, Input::Submit { to, message, length_bytes, asks });
    }

    fn input(&mut self, at: usize, load: &Load, input: Input<H>) {
        self.act(at, load, |machine, cx| machine.handle(input, cx));
    }

    fn act(
        &mut self,
        at: usize,
        load: &Load,
        act: impl FnOnce(&mut M, &mut Cx<'_, Effect<W>, M::Timer>),
    ) {
        let Host { machine, timers, .. } = &mut self.hosts[at];
        act(machine, &mut Cx::new(self.now, &mut self.rng, &mut self.outbox));
        for out in self.outbox.drain() {
            match out {
                Out::Arm(timer, due) => {
                    timers.retain(|&(other, _)| other != timer);
                    timers.push((timer, due));
                }
                Out::Disarm(timer) => timers.retain(|&(other, _)| other != timer),
                Out::Effect(Effect::Delivered { from, message, length_bytes }) => {
                    self.delivered += 1;
                    if load.asks && !message.is_answer() {
                        let input = Input::Answer { to: from, question: message, length_bytes };
                        self.answers.push_back((Node(at as u32), input));
                    }
                }
                Out::Effect(Effect::Released { message, .. }) => {
                    self.open -= u64::from(!message.is_answer());
                }
                Out::Effect(Effect::Failed { .. }) => self.failed += 1,
                Out::Effect(_) => {}
            }
        }
    }
}
