//! A message to many that arrives at all of them in the same instant is one entry of the queue.
//!
//! Nodes of a region tell everybody their clock all the time: of a hundred regions with thirty
//! replicas each, 97 messages of 100 are such reports. Results do not depend on it: each message is
//! counted, and is an event, as if it had an entry of its own.

use super::super::{Clients, Hardware, Observer, Of};
use super::{Flight, World};
use crate::pending::{Class, Key, Pending};
use cavy_core::Instant;
use cavy_core::family::Node;
use cavy_core::family::message::{Input, Message, Protocol, Talker, Via};

/// A message that is on its way to several nodes.
pub(super) struct Cast<P: Protocol> {
    from: Node,
    /// Where it still is to arrive, last first.
    to: Vec<Node>,
    /// The tie of the next one's event; those after it follow.
    tie: u64,
    at: u64,
    message: P::Message,
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
    /// Sends `message` to `members` in order.
    pub(super) fn cast(
        &mut self,
        from: Node,
        members: &[Node],
        via: Via,
        message: <Of<M> as Protocol>::Message,
    ) {
        // Where something may fail or wait for a card, each message has a fate of its own; and
        // shuffled ties would part them.
        let alone = self.lanes_break || self.setup.card.is_some();
        if alone || via == Via::Datagram || self.setup.shuffle_ties.is_some() {
            for &to in members {
                self.send(from, to, via, message.clone());
            }
            return;
        }
        let bytes = message.wire_bytes();
        let (mut since, mut together) = (0, None);
        for (place, &to) in members.iter().enumerate() {
            let at = self.arrives(from, to, bytes);
            if let Some(before) = together.filter(|before| *before != at) {
                self.fly_together(before, from, &members[since..place], &message);
                since = place;
            }
            together = Some(at);
        }
        if let Some(at) = together {
            self.fly_together(at, from, &members[since..], &message);
        }
    }

    fn fly_together(
        &mut self,
        at: u64,
        from: Node,
        members: &[Node],
        message: &<Of<M> as Protocol>::Message,
    ) {
        let tie = self.ties.next();
        for _ in 1..members.len() {
            self.ties.next();
        }
        let to = members.iter().rev().copied().collect();
        self.fly_on(Cast { from, to, tie, at, message: message.clone() });
    }

    fn fly_on(&mut self, cast: Cast<Of<M>>) {
        let (at, tie) = (Instant::from_ns(cast.at), cast.tie);
        let slot = self.first_flight + self.place(Flight::Cast(cast));
        self.parts.pending.push(Key::new(at, Class::Arrival, tie, slot));
    }

    /// A message to many arrives.
    pub(super) fn cast_lands(&mut self, mut cast: Cast<Of<M>>) {
        let from = cast.from;
        while let Some(to) = cast.to.pop() {
            cast.tie += 1;
            let arrived = self.hosts[to.0 as usize].clock.monotonic(self.now);
            let message = cast.message.clone();
            self.ends_now = false;
            self.offer(to, Input::Rx { from, via: Via::Channel, message, arrived });
            if cast.to.is_empty() {
                return;
            }
            if self.ends_now {
                // Something ends in this very instant, and that comes before what arrives.
                return self.fly_on(cast);
            }
            self.events += 1;
        }
    }
}
