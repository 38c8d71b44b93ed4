//! The smallest transport: send everything at once, and hope.
//!
//! No grants, no acknowledgments, no recovery. With unlimited buffers nothing is lost, and then
//! this is what a network does when nobody is in charge.

use cavy_core::family::Node;
use cavy_core::family::packet::{Effect, Extent, Header, Input, Message};
use cavy_core::{Cx, Machine, Packet, Room, Transmit};
use std::collections::VecDeque;

/// What a packet says besides which bytes it carries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BlastHeader {
    /// Length of the whole message.
    pub length_bytes: u32,
    /// Ask for an answer when it is whole.
    pub asks: bool,
}

impl Header for BlastHeader {
    fn wire_bytes(&self) -> u32 {
        12
    }
}

/// A message to be sent, from `next` on.
#[derive(Clone, Copy)]
struct Outbound {
    to: Node,
    message: Message,
    header: BlastHeader,
    next: u32,
}

/// One host's transport.
#[derive(Default)]
pub struct Blast {
    /// In the order of submission.
    outbound: VecDeque<Outbound>,
    /// (sender, message, bytes missing) of messages of which a part has come, sorted.
    pub inbound: Vec<(Node, Message, u32)>,
}

impl Machine for Blast {
    type Input = Input<BlastHeader>;
    type Effect = Effect<()>;
    type Timer = ();

    fn effects_max(&self) -> usize {
        2 // one packet in: a place, and perhaps a delivery
    }

    fn start(&mut self, _: &mut Cx<'_, Effect<()>, ()>) {}

    fn handle(&mut self, input: Input<BlastHeader>, cx: &mut Cx<'_, Effect<()>, ()>) {
        match input {
            Input::Submit { to, message, length_bytes, asks } => {
                let header = BlastHeader { length_bytes, asks };
                self.outbound.push_back(Outbound { to, message, header, next: 0 });
            }
            Input::Answer { to, question, length_bytes } => {
                let header = BlastHeader { length_bytes, asks: false };
                let message = question.answer();
                self.outbound.push_back(Outbound { to, message, header, next: 0 });
            }
            Input::Rx { from, header, payload, .. } => self.receive(from, header, payload, cx),
            Input::Cancel { message } => self.outbound.retain(|out| out.message != message),
        }
    }

    fn expire(&mut self, (): (), _: &mut Cx<'_, Effect<()>, ()>) {}
}

impl Blast {
    fn receive(
        &mut self,
        from: Node,
        header: BlastHeader,
        extent: Extent,
        cx: &mut Cx<'_, Effect<()>, ()>,
    ) {
        let Extent { message, length_bytes, .. } = extent;
        let place = self.inbound.binary_search_by_key(&(from, message), |m| (m.0, m.1));
        let place = place.unwrap_or_else(|place| {
            self.inbound.insert(place, (from, message, header.length_bytes));
            place
        });
        cx.emit(Effect::Place { from, extent });
        let missing = &mut self.inbound[place].2;
        *missing = missing.saturating_sub(length_bytes);
        if *missing == 0 {
            self.inbound.remove(place);
            cx.emit(Effect::Delivered { from, message, length_bytes: header.length_bytes });
        }
    }
}

impl Transmit for Blast {
    type Header = BlastHeader;

    fn pull(&mut self, room: Room, _: &mut Cx<'_, Effect<()>, ()>) -> Option<Packet<BlastHeader>> {
        let out = self.outbound.front_mut()?;
        let Outbound { to, message, header, next: offset_bytes } = *out;
        let most = room.bytes - header.wire_bytes();
        let length_bytes = most.min(header.length_bytes - offset_bytes);
        out.next += length_bytes;
        if out.next == header.length_bytes {
            self.outbound.pop_front();
        }
        let payload = Extent { message, offset_bytes, length_bytes };
        // Messages of one packet overtake the others in the network.
        let priority = if header.length_bytes <= most { 7 } else { 0 };
        Some(Packet { to, header, payload, priority, rank: header.length_bytes - offset_bytes })
    }
}
