//! Moving messages as packets: the vocabulary of transports.
//!
//! A transport handles (message, offset, length) and never a byte of payload; the world keeps the
//! bytes and puts them where [`Effect::Place`] says.
//!
//! A message is named by the node that submits it. Names of one node are unique and even; the
//! answer to message n bears the name n + 1, so that (source of the question, name) is enough to
//! tell any two messages apart, and both directions of one exchange share all but the lowest bit.

use super::Node;

/// A message, named by the world that submits it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Message(pub u64);

impl Message {
    /// The name of the answer to this message.
    pub const fn answer(self) -> Message {
        Message(self.0 | 1)
    }

    /// The name of the question this message answers, or of the message itself.
    pub const fn question(self) -> Message {
        Message(self.0 & !1)
    }

    /// Is it an answer?
    pub const fn is_answer(self) -> bool {
        self.0 & 1 == 1
    }
}

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

/// A protocol's packet header.
pub trait Header: Copy {
    /// Its length on the wire, behind the headers of the network below the protocol.
    fn wire_bytes(&self) -> u32;
    /// May switches mark it instead of dropping it? A packet that says no is dropped where it would
    /// be marked (RFC 3168). Yes for protocols that do not say.
    #[inline]
    fn bears_marks(&self) -> bool {
        true
    }
}

/// What switches did to a packet on its way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Seen {
    /// It met congestion: the mark of ECN.
    pub marked: bool,
    /// Its payload was cut off; the extent says what is missing.
    pub trimmed: bool,
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
        /// Which bytes of which message it carries; zero length for control packets.
        payload: Extent,
        /// What happened to it on its way.
        seen: Seen,
    },
    /// The application has a message to send.
    Submit {
        /// The receiver.
        to: Node,
        /// The message; even.
        message: Message,
        /// Its length.
        length_bytes: u32,
        /// Is it a question, which the receiver answers by [`Input::Answer`]? Transports of one-way
        /// messages ignore this.
        asks: bool,
    },
    /// The application answers a question that was delivered to it.
    Answer {
        /// Who asked.
        to: Node,
        /// The question.
        question: Message,
        /// Length of the answer.
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
    /// The payload of the packet just received belongs here, and is new.
    Place {
        /// Who sent it.
        from: Node,
        /// Where it belongs. It may be a part of what the packet carried.
        extent: Extent,
    },
    /// The whole message is there. Once per message.
    Delivered {
        /// Who sent it.
        from: Node,
        /// The message.
        message: Message,
        /// Its length.
        length_bytes: u32,
    },
    /// The bytes of a message this node sent are not needed any more.
    Released {
        /// Whom it was for. An answer bears the name that its receiver chose, and two may choose
        /// the same.
        peer: Node,
        /// The message.
        message: Message,
    },
    /// The message will not arrive, or its answer will not. Also ends a message that was arriving.
    Failed {
        /// The other side.
        peer: Node,
        /// The message.
        message: Message,
        /// The protocol's reason.
        why: W,
    },
}
