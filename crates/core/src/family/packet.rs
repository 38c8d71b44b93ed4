//! Moving messages as packets: the vocabulary of transports.
//!
//! A transport handles (message, offset, length) and never a byte of payload; the world keeps the
//! bytes and puts them where [`Effect::Place`] says.

use super::Node;

/// A message, named by the world that submitted it or by the machine that receives it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Message(pub u64);

/// A range of bytes of a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Extent {
    /// The message.
    pub message: Message,
    /// First byte.
    pub offset_bytes: u32,
    /// How many bytes.
    pub length_bytes: u32,
}

/// What happens to a transport whose packet header is `H`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Input<H> {
    /// A packet came in.
    Rx {
        /// Who sent it.
        from: Node,
        /// Its header.
        header: H,
        /// Bytes of payload behind the header.
        payload_bytes: u32,
        /// A switch marked it as having met congestion (ECN).
        marked: bool,
    },
    /// The application has a message to send.
    Submit {
        /// The receiver.
        to: Node,
        /// The message.
        message: Message,
        /// Its length.
        length_bytes: u32,
    },
    /// The application does not want the message any more.
    Cancel {
        /// The message.
        message: Message,
    },
}

/// What a transport wants done.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Effect<W> {
    /// The payload of the packet just received belongs here.
    Place(Extent),
    /// The whole message is there.
    Delivered {
        /// The message.
        message: Message,
    },
    /// The message will not arrive.
    Failed {
        /// The message.
        message: Message,
        /// The protocol's reason.
        why: W,
    },
}
