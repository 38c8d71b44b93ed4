//! The receiver of transports that acknowledge each packet: at once, cumulatively, and selectively
//! for the 64 packets up to the one that came ([homa 3.4, 3.6]).

use super::endpoint::{About, EndCx, Endpoint, HEADER_BYTES, Met, Why};
use super::flows::Reuse;
use super::packets;
use cavy_core::family::Node;
use cavy_core::family::packet::{self, Extent, Message, Seen};

/// The packets of pFabric, DCTCP and PIAS. The payload's offset names the packet an ACK answers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Header {
    /// Carries payload.
    Data(About),
    /// Answers one DATA packet.
    Ack {
        /// All packets below are there.
        next: u32,
        /// Bit k: the packet k below the one answered is there.
        bits: u64,
        /// The packet answered had met congestion (the echo of CE).
        marked: bool,
    },
    /// From the sender: its application took the message back.
    Cancel,
    /// From the receiver: the message was given up.
    Refuse,
}

impl packet::Header for Header {
    fn wire_bytes(&self) -> u32 {
        HEADER_BYTES
    }
}

/// A DATA packet came in: takes it and answers it.
pub(super) fn receive<S: Reuse, R: Reuse>(
    end: &mut Endpoint<Header, S, R>,
    (from, about): (Node, About),
    (payload, seen): (Extent, Seen),
    level: u8,
    cx: &mut EndCx<'_>,
) {
    if seen.trimmed {
        return;
    }
    let message = payload.message;
    let Some(number) = end.number(about, payload) else { return };
    let ack = |end: &mut Endpoint<_, _, _>, number, next, bits| {
        let header = Header::Ack { next, bits, marked: seen.marked };
        end.control_at(from, message, number, header, level);
    };
    match end.meet(from, message, about, cx) {
        Met::Open(slot) => {
            end.place(slot, number, cx);
            let received = &end.incoming[slot].received;
            let (next, bits) = (received.next(), received.bits_down_from(number));
            ack(end, number, next, bits);
            end.deliver(slot, cx);
        }
        Met::Delivered => {
            let count = packets(about.length_bytes);
            ack(end, count - 1, count, 1);
        }
        Met::Refused => end.control(from, message, Header::Refuse, level),
        Met::Nonsense => {}
    }
}

/// The sender took its message back.
pub(super) fn cancelled<H: Copy, S: Reuse, R: Reuse>(
    end: &mut Endpoint<H, S, R>,
    from: Node,
    message: Message,
    cx: &mut EndCx<'_>,
) {
    if let Some(slot) = end.incoming.find((from, message)) {
        end.cancelled(slot, cx);
    }
}

/// The application takes back a message that is being sent: its slot is free then.
pub(super) fn take_back<H: Copy, S: Reuse, R: Reuse>(
    end: &mut Endpoint<H, S, R>,
    slot: u32,
    (cancel, level): (H, u8),
    cx: &mut EndCx<'_>,
) {
    if let Some((to, message)) = end.outgoing.key(slot) {
        end.control(to, message, cancel, level);
        end.fail(slot, Why::Cancelled, cx);
    }
}
