//! Moving streams of bytes as packets: the vocabulary of connections.
//!
//! The packets are those of [`super::packet`]: the same headers, extents, marks and pulls, and so
//! the same networks. What differs is what an application says. It writes so many bytes and reads
//! so many, opens and closes, and there is no message that arrives whole.
//!
//! Offsets count the bytes of one direction of one connection from 0, in 64 bits. The extent of a
//! packet has the lowest 32 of them; the protocol's header says which the others are.

use super::Node;
use super::packet::{Extent, Seen};

/// A connection, named by the machine whose end it is. A name is never used again while anybody may
/// remember it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Connection(pub u64);

/// Why a packet did not reach whom it was for, as the network says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Unreachable {
    /// No way to the host now. It may come back.
    Host,
    /// The host has nobody who speaks this protocol, or forbids it.
    Protocol,
    /// The packet was longer than a link on its way carries.
    TooLong {
        /// What that link carries, from the IP header on; 0 if the network does not say.
        mtu_bytes: u16,
    },
}

/// What happens to a machine of streams whose packet header is `H`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Input<H> {
    /// A packet came in. `cx.now()` is when it reached the host, and not when the world found time
    /// to look: round trips are measured by it.
    Rx {
        /// Who sent it.
        from: Node,
        /// Its header.
        header: H,
        /// Which bytes it carries, in the sender's names.
        payload: Extent,
        /// What happened to it on its way.
        seen: Seen,
    },
    /// The network could not deliver a packet of this machine.
    Unreachable {
        /// Whom it was for.
        to: Node,
        /// Its header, as the network quotes it.
        header: H,
        /// Why.
        why: Unreachable,
    },
    /// Connections to this port are welcome.
    Listen {
        /// Which port.
        port: u16,
        /// Connections that may be half open at a time.
        backlog: u16,
    },
    /// They are not any more. Those there are go on.
    Unlisten {
        /// Which port.
        port: u16,
    },
    /// The application wants a connection. [`Effect::Opening`] names it in the same step.
    Open {
        /// Names the wish, chosen by the world.
        ticket: u64,
        /// The other side.
        to: Node,
        /// Its port.
        port: u16,
    },
    /// The application wrote so many bytes.
    Write {
        /// To which connection.
        connection: Connection,
        /// How many.
        bytes: u64,
        /// Nothing that is written later shares a packet with their end.
        whole: bool,
    },
    /// The application took so many readable bytes, which makes room for others.
    Took {
        /// From which connection.
        connection: Connection,
        /// How many.
        bytes: u64,
    },
    /// The application writes no more. It still reads.
    Shut {
        /// Which connection.
        connection: Connection,
    },
    /// The application is done with the connection in both directions.
    Close {
        /// Which connection.
        connection: Connection,
    },
    /// The connection is to end now, whatever is under way.
    Abort {
        /// Which connection.
        connection: Connection,
    },
}

/// What a machine of streams wants done.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Effect<W> {
    /// The name of a connection that the application wants to open.
    Opening {
        /// Which wish.
        ticket: u64,
        /// Its name from now on.
        connection: Connection,
    },
    /// The connection is open: one that was wished for, or a new one from a peer.
    Opened {
        /// Its name.
        connection: Connection,
        /// The other side.
        peer: Node,
        /// The port of the side that listened.
        port: u16,
        /// The peer opened it.
        accepted: bool,
    },
    /// A part of the payload just received is new and belongs here.
    Place {
        /// The connection.
        connection: Connection,
        /// The first byte of that part in the stream.
        offset: u64,
        /// Payload of the packet that lies before that part.
        skip_bytes: u32,
        /// How long the part is.
        length_bytes: u32,
    },
    /// All bytes before this offset are there.
    Readable {
        /// The connection.
        connection: Connection,
        /// How far.
        to: u64,
    },
    /// The peer writes no more: what is readable is all there will be.
    Finished {
        /// The connection.
        connection: Connection,
    },
    /// The application may write up to this offset.
    Writable {
        /// The connection.
        connection: Connection,
        /// How far.
        to: u64,
    },
    /// The peer has all bytes before this offset: they are not needed any more.
    Released {
        /// The connection.
        connection: Connection,
        /// How far.
        to: u64,
    },
    /// The connection is no more, and neither is its name.
    Ended {
        /// The connection.
        connection: Connection,
        /// The protocol's reason; which of them are good ends it says itself.
        why: W,
    },
}
