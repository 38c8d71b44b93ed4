//! Packets as bytes: the wire format of the Linux module ([homa 7.2]).
//!
//! **Problem.** The machine speaks of names and extents; a network carries bytes, and some of those
//! come from people who mean no good.
//!
//! **Promise.** Every field of the format has one accessor ([`View`], over borrowed bytes, without
//! a copy) and one place in what the machine understands ([`Repr`]). A packet that is accepted is
//! whole; one that is not is refused with a [`WireError`], never with a panic. What [`Repr`]
//! writes, the module reads: the vectors of [homa 7.2] come out byte for byte.
//!
//! **Not here.** No socket, no port that is open: whoever owns the endpoint compares ports. No
//! meaning beyond one packet: offsets that contradict each other are the machine's to refuse. No
//! checksum, which the module neither fills in nor verifies, no segmentation offload, and no
//! disguise as TCP.
//!
//! **Reading order.** This file for the numbers, [`View`] for reading, [`Repr`] for both ways.

mod repr;
mod view;

pub use repr::{Dialect, Ports, Repr};
pub use view::View;

use core::fmt;

/// IP protocol number of Homa.
pub const PROTOCOL: u8 = 146;
/// Length of the header that all packets have.
pub const COMMON_BYTES: usize = 28;
/// Length of the longest header, that of ACK.
pub const HEADER_MAX_BYTES: usize = 80;
/// Length of the header of DATA.
pub const DATA_BYTES: usize = 56;
/// Ports from here on are given to clients; servers bind those below ([homa 2.1]).
pub const CLIENT_PORT_MIN: u16 = 0x8000;
/// Acknowledgements in one ACK.
pub const ACKS_MAX: usize = 5;

/// What a packet is, by the byte at offset 11.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Type {
    /// Bytes of a message.
    Data = 0x10,
    /// Permission to send.
    Grant = 0x11,
    /// Bytes are missing.
    Resend = 0x12,
    /// The exchange is not known.
    Unknown = 0x13,
    /// Alive, nothing to send.
    Busy = 0x14,
    /// Levels for unscheduled bytes.
    Cutoffs = 0x15,
    /// For debugging the module; no part of the protocol.
    Freeze = 0x16,
    /// Has the answer arrived?
    NeedAck = 0x17,
    /// Answers have arrived.
    Ack = 0x18,
}

impl Type {
    /// All of them.
    pub const ALL: [Type; 9] = [
        Type::Data,
        Type::Grant,
        Type::Resend,
        Type::Unknown,
        Type::Busy,
        Type::Cutoffs,
        Type::Freeze,
        Type::NeedAck,
        Type::Ack,
    ];

    /// The type with this value.
    pub fn from_byte(byte: u8) -> Option<Type> {
        Type::ALL.into_iter().find(|&kind| kind as u8 == byte)
    }

    /// Length of its header. Longer packets are accepted: what follows is payload in DATA and
    /// ignored in the others, such as the one byte more that the 2025 draft gives to GRANT.
    pub const fn header_bytes(self) -> usize {
        match self {
            Type::Data => DATA_BYTES,
            Type::Grant => 33,
            Type::Resend => 37,
            Type::Cutoffs => 62,
            Type::Ack => HEADER_MAX_BYTES,
            Type::Unknown | Type::Busy | Type::Freeze | Type::NeedAck => COMMON_BYTES,
        }
    }
}

/// Why bytes are no packet that the machine understands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum WireError {
    /// Shorter than the header that all packets have, or than that of its type.
    Short {
        /// How many bytes there are.
        bytes: usize,
        /// How many there must be at least.
        least: usize,
    },
    /// No type has this value.
    Type(u8),
    /// FREEZE, which is not carried out.
    Freeze,
    /// An ACK that lists more than five exchanges.
    Acks,
    /// CUTOFFS of version 0, which is what those say who have none.
    Version,
}

impl WireError {
    /// Number of kinds of errors.
    pub const KINDS: usize = 5;

    /// The place of this kind among all: for counting.
    pub const fn kind(self) -> usize {
        match self {
            WireError::Short { .. } => 0,
            WireError::Type(_) => 1,
            WireError::Freeze => 2,
            WireError::Acks => 3,
            WireError::Version => 4,
        }
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireError::Short { bytes, least } => {
                write!(f, "the packet has {bytes} bytes; its header has {least}")
            }
            WireError::Type(byte) => write!(f, "no packet has type {byte:#04x}"),
            WireError::Freeze => write!(f, "FREEZE is not carried out"),
            WireError::Acks => write!(f, "the ACK lists more than {ACKS_MAX} exchanges"),
            WireError::Version => write!(f, "cut-offs of version 0"),
        }
    }
}

impl core::error::Error for WireError {}
