//! Clients, and work.

use super::super::faults::Way;
use super::super::processors::{Bell, Benches, Wish};
use super::super::{Ask, Clients, Ending, Hardware, Observer, Of};
use super::{Flight, Mark, Open, World};
use crate::pending::{Class, Pending};
use cavy_core::Instant;
use cavy_core::family::Node;
use cavy_core::family::message::{Call, Input, Protocol, Talker};

const SLOT_BITS: u32 = 24;
const ATTEMPT_BITS: u32 = 8;

/// The call of one attempt: which request, in which slot, and the attempt.
fn call_of(slot: u32, serial: u32, attempt: u32) -> Call {
    let attempt = u64::from(attempt & 0xFF);
    Call(u64::from(serial) << (SLOT_BITS + ATTEMPT_BITS) | attempt << SLOT_BITS | u64::from(slot))
}

impl<M, F, C, H, P, O> World<'_, M, F, C, H, P, O>
where
    M: Talker,
    M::Timer: core::hash::Hash,
    F: FnMut(Node) -> M,
    C: Clients<M::Protocol>,
    H: Hardware<M::Protocol>,
    P: Pending,
    O: Observer<M>,
{
    /// Asks `client` for its next request.
    pub(super) fn fetch(&mut self, client: u32) {
        let now = Instant::from_ns(self.now);
        let Some((at, request)) = self.parts.clients.next(client, now) else { return };
        if at.as_ns() >= self.setup.duration.as_ns() {
            return;
        }
        self.due[client as usize] = Some(request);
        self.clients_due += 1;
        let at = at.as_ns().max(self.now);
        self.push(at, Class::Arrival, self.first_client + client);
    }

    /// `client` sends the request that is due.
    pub(super) fn issue(&mut self, client: u32) {
        let Some(request) = self.due[client as usize].take() else { return };
        self.clients_due -= 1;
        self.asks_open += 1;
        self.counts.asked += 1;
        self.serial = self.serial.wrapping_add(1);
        let since = Instant::from_ns(self.now);
        let ask = Ask { client, request, since, attempts: 0 };
        let open = Open { ask, serial: self.serial };
        let slot = match self.free_asks.pop() {
            Some(slot) => {
                self.asks[slot as usize] = Some(open);
                slot
            }
            None => {
                self.asks.push(Some(open));
                self.asks.len() as u32 - 1
            }
        };
        assert!(slot < 1 << SLOT_BITS, "at most 2^24 requests are under way");
        self.attempt(slot);
        if self.parts.clients.open() {
            self.fetch(client);
        }
    }

    fn attempt(&mut self, slot: u32) {
        let Some(open) = self.asks[slot as usize].as_mut() else { return };
        let (attempt, serial, client) = (open.ask.attempts, open.serial, open.ask.client);
        open.ask.attempts += 1;
        let to = self.parts.clients.target(client, &open.ask.request, attempt);
        let arrives = match self.parts.clients.site(client) {
            None => Some(self.now),
            Some(from_site) => {
                let to_site = self.hosts[to.0 as usize].site;
                let way = Way { from: None, from_site, to: Some(to), to_site, via: None };
                self.beside(&way)
            }
        };
        if let Some(at) = arrives {
            self.fly(at, Class::Arrival, Flight::Request { slot, serial, attempt, to });
        }
        if let Some(patience) = self.parts.clients.patience(client, attempt) {
            let at = self.now + patience.as_ns();
            self.fly(at, Class::Timer, Flight::Patience { slot, serial, attempt });
        }
    }

    fn is_open(&self, slot: u32, serial: u32) -> bool {
        self.asks[slot as usize].as_ref().is_some_and(|open| open.serial == serial)
    }

    pub(super) fn request_lands(&mut self, slot: u32, serial: u32, attempt: u32, to: Node) {
        // A request that was answered meanwhile still arrives: the network does not know.
        let Some(open) = self.asks[slot as usize].as_ref().filter(|open| open.serial == serial)
        else {
            return;
        };
        let request = open.ask.request.clone();
        let host = &mut self.hosts[to.0 as usize];
        if host.machine.is_none() {
            return;
        }
        let call = call_of(slot, serial, attempt);
        host.calls.insert(call.0);
        self.offer(to, Input::Call { call, request });
    }

    pub(super) fn out_of_patience(&mut self, slot: u32, serial: u32, attempt: u32) {
        let current = self.asks[slot as usize].as_ref();
        if current.is_some_and(|open| open.serial == serial && open.ask.attempts == attempt + 1) {
            self.counts.retries += 1;
            self.attempt(slot);
        }
    }

    pub(super) fn reply(
        &mut self,
        node: Node,
        call: Call,
        response: <Of<M> as Protocol>::Response,
    ) {
        let open = self.hosts[node.0 as usize].calls.remove(&call.0);
        assert!(open, "{node:?} answers {call:?}, which is not open there");
        let slot = (call.0 & ((1 << SLOT_BITS) - 1)) as u32;
        let serial = (call.0 >> (SLOT_BITS + ATTEMPT_BITS)) as u32;
        let Some(ask) = self.asks[slot as usize].as_ref().filter(|open| open.serial == serial)
        else {
            return;
        };
        let at = match self.parts.clients.site(ask.ask.client) {
            None => Some(self.now),
            Some(to_site) => {
                let from_site = self.hosts[node.0 as usize].site;
                let way = Way { from: Some(node), from_site, to: None, to_site, via: None };
                self.beside(&way)
            }
        };
        if let Some(at) = at {
            self.fly(at, Class::Arrival, Flight::Response { slot, serial, response });
        }
    }

    pub(super) fn response_lands(
        &mut self,
        slot: u32,
        serial: u32,
        response: <Of<M> as Protocol>::Response,
    ) {
        if !self.is_open(slot, serial) {
            return;
        }
        let Some(open) = self.asks[slot as usize].take() else { return };
        self.free_asks.push(slot);
        self.asks_open -= 1;
        self.counts.answered += 1;
        let now = Instant::from_ns(self.now);
        self.trail.fold(now, (Mark::Answered as u64) << 56 | u64::from(open.ask.client));
        self.parts.clients.ended(&open.ask, now, Ending::Answered(response));
        if !self.parts.clients.open() {
            self.fetch(open.ask.client);
        }
        self.end_when_quiet();
    }

    /// Does something with the processors of `node`, and what they want of the world then.
    pub(super) fn work(&mut self, node: Node, does: impl FnOnce(&mut Benches, &mut Vec<Wish>)) {
        let mut wishes = std::mem::take(&mut self.wishes);
        let host = &mut self.hosts[node.0 as usize];
        if host.machine.is_some() {
            does(&mut host.benches, &mut wishes);
        }
        let life = self.lives[node.0 as usize];
        for wish in wishes.drain(..) {
            match wish {
                Wish::Ring(at, bell) => {
                    let class = bell.class();
                    self.fly(at.as_ns(), class, Flight::Bell { node, life, bell });
                }
                Wish::Done { work, took, finished: true } => {
                    self.offer(node, Input::WorkDone { work, took, finished: true });
                }
                // The node is in the step that gave it up.
                Wish::Done { work, took, finished: false } => {
                    let flight = Flight::Cancelled { node, life, work, took };
                    self.fly(self.now, Class::Completion, flight);
                }
            }
        }
        self.wishes = wishes;
    }

    pub(super) fn bell_rings(&mut self, node: Node, life: u32, bell: Bell) {
        // Otherwise the node has crashed since.
        if self.lives[node.0 as usize] == life {
            let now = Instant::from_ns(self.now);
            self.work(node, |benches, out| benches.ring(bell, now, out));
        }
    }
}
