//! What Homa's packets say, in the seam's terms ([homa 2.3]); bytes are the business of a codec.
//!
//! A packet names the exchange by its own sender's name for it: an even number comes from the side
//! that asked, an odd one (the same number + 1) from the side that answers. This is the `sender_id`
//! of the Linux module, so a codec copies it. A GRANT for question 6 is therefore named 7.

use crate::cutoffs::Cutoffs;
use cavy_core::family::packet::Header as WireHeader;

/// Header lengths on the wire, behind IP (and UDP, where the source counts it apart).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Layout {
    /// The simulator's: 30 bytes on unscheduled data, 16 on all else that it has ([homa 4.4]).
    /// CUTOFFS and ACK, which it does not have, are 16 and what they carry.
    Simulator,
    /// The Linux module's ([homa 7.2]).
    Linux,
}

impl Layout {
    /// Header of data that was not granted.
    pub const fn unscheduled_header_bytes(self) -> u32 {
        match self {
            Layout::Simulator => 30,
            Layout::Linux => 56,
        }
    }
}

/// A header: 28 bytes in memory, whatever it says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Header {
    /// How long it is on the wire.
    pub layout: Layout,
    /// What it says.
    pub kind: Kind,
}

/// What a packet says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// Bytes of a message. Which, says the packet's extent.
    Data(Data),
    /// The sender may transmit up to an offset.
    Grant {
        /// First byte that may not be sent.
        offset_bytes: u32,
        /// Level for scheduled bytes.
        priority: u8,
    },
    /// Bytes did not arrive.
    Resend {
        /// First byte missing.
        offset_bytes: u32,
        /// How many; [`ALL_SENT`] for everything sent so far.
        length_bytes: u32,
        /// Level for what is sent again.
        priority: u8,
    },
    /// Nothing to send yet, but alive.
    Busy,
    /// Nothing is known of this exchange.
    Unknown,
    /// Beyond the source: this question will not be answered. To the source's peers it is UNKNOWN.
    Refused(Refusal),
    /// How the packet's sender wants unscheduled bytes that go to it sorted into levels.
    Cutoffs(Published),
    /// Is the whole message there? Then say so, that it can be forgotten.
    NeedAck,
    /// The message of the packet's own name is there, and some more.
    Ack(Acks),
}

/// Why a question is not answered.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Refusal {
    /// Too much is to be done already. It was not carried out, and is not from now on.
    Overloaded,
    /// The application has it, and gives no answer.
    Unanswered,
}

impl Refusal {
    /// The `length_bytes` of an [`Input::Answer`](cavy_core::family::packet::Input::Answer) that
    /// refuses the question: longer than any answer.
    pub const fn length_bytes(self) -> u32 {
        match self {
            Refusal::Overloaded => u32::MAX - 1,
            Refusal::Unanswered => u32::MAX,
        }
    }

    /// What an answer of an impossible length comes to.
    pub(crate) fn by_length(length_bytes: u32) -> Refusal {
        match length_bytes == Refusal::Overloaded.length_bytes() {
            true => Refusal::Overloaded,
            false => Refusal::Unanswered,
        }
    }
}

/// `length_bytes` of a RESEND that means everything sent so far.
pub const ALL_SENT: u32 = u32::MAX;

/// What DATA says beside its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Data {
    /// Length of the whole message.
    pub message_bytes: u32,
    /// The sender will transmit up to here without further grants.
    pub incoming_bytes: u32,
    /// An exchange with this receiver that is over: its name less this packet's; 0 for none.
    pub ack: i32,
    /// Version of the receiver's cut-offs that the sender used.
    pub cutoffs_version: u16,
    /// How many quarters of the unscheduled limit wait at the sender, granted, unsent; saturates.
    pub backlog: u8,
    /// Flags.
    pub flags: Flags,
}

/// The flags of DATA, a set of bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// Sent again.
    pub const RETRANSMIT: Flags = Flags(1);
    /// Sent without being granted.
    pub const UNSCHEDULED: Flags = Flags(2);
    /// A question: the receiver answers it.
    pub const ASKS: Flags = Flags(4);
    /// The one who asks expects incast, and wants a small unscheduled limit ([homa 2.10]).
    pub const INCAST: Flags = Flags(8);

    /// Are all bits of `other` set?
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets together, the second if `when`.
    #[must_use]
    pub const fn and(self, other: Flags, when: bool) -> Flags {
        if when { Flags(self.0 | other.0) } else { self }
    }
}

/// Other exchanges an ACK ends, beside the one that names the packet, which it always ends:
/// differences of names; 0 for none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Acks(pub [i32; 4]);

/// Cut-offs on their way: up to six bounds of 24 bits, which with the topmost and the unbounded
/// level serve eight levels. A bound of 16 MiB or more means none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Published {
    bounds: [[u8; 3]; 6],
    /// Number of bounds.
    count: u8,
    /// The version, never 0.
    pub version: u16,
}

impl Published {
    /// Packs `cutoffs` as `version`.
    pub fn new(cutoffs: &Cutoffs, version: u16) -> Self {
        let mut bounds = [[0; 3]; 6];
        let mut count = 0;
        for (bound, &cutoff) in bounds.iter_mut().zip(cutoffs.bounds()) {
            let [_, high, middle, low] = cutoff.min(0xff_ffff).to_be_bytes();
            *bound = [high, middle, low];
            count += 1;
        }
        Published { bounds, count, version }
    }

    /// Unpacks for a network of `levels` levels; `None` when these are no cut-offs.
    pub fn cutoffs(&self, levels: u8) -> Option<Cutoffs> {
        let mut bounds = [0; 6];
        for (to, [high, middle, low]) in bounds.iter_mut().zip(self.bounds) {
            *to = u32::from_be_bytes([0, high, middle, low]);
        }
        Cutoffs::new(levels, bounds.get(..usize::from(self.count))?)
    }
}

impl WireHeader for Header {
    #[inline]
    fn wire_bytes(&self) -> u32 {
        match (self.layout, self.kind) {
            (layout, Kind::Data(data)) if data.flags.has(Flags::UNSCHEDULED) => {
                layout.unscheduled_header_bytes()
            }
            (Layout::Simulator, Kind::Cutoffs(_)) => 16 + 34,
            (Layout::Simulator, Kind::Ack(_)) => 16 + 40,
            (Layout::Simulator, _) => 16,
            (Layout::Linux, Kind::Data(_)) => 56,
            (Layout::Linux, Kind::Grant { .. }) => 33,
            (Layout::Linux, Kind::Resend { .. }) => 37,
            (Layout::Linux, Kind::Cutoffs(_)) => 62,
            (Layout::Linux, Kind::Ack(_)) => 80,
            (Layout::Linux, Kind::Busy | Kind::Unknown | Kind::Refused(_) | Kind::NeedAck) => 28,
        }
    }
}

/// The difference of two names of exchanges, if it can be sent.
pub(crate) fn name_difference(of: u64, from: u64) -> Option<i32> {
    i32::try_from(of.wrapping_sub(from) as i64).ok().filter(|&d| d != 0)
}
