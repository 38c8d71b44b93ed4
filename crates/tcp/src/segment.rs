//! What one segment says: header and options, without bytes ([incast 2.5]).

use cavy_core::family::packet::Header;

/// Control bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// The sender's stream ends here.
    pub const FIN: Flags = Flags(0x01);
    /// The stream begins here.
    pub const SYN: Flags = Flags(0x02);
    /// The connection is no more.
    pub const RST: Flags = Flags(0x04);
    /// Hand what is there to the application.
    pub const PSH: Flags = Flags(0x08);
    /// The acknowledgement is valid.
    pub const ACK: Flags = Flags(0x10);
    /// The urgent pointer is valid; ignored here [incast 2.4].
    pub const URG: Flags = Flags(0x20);
    /// What came was marked; in a SYN, marks are understood (RFC 3168).
    pub const ECE: Flags = Flags(0x40);
    /// The window was reduced because of a mark.
    pub const CWR: Flags = Flags(0x80);

    /// Are all bits of `other` set?
    #[inline]
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both.
    #[inline]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl core::fmt::Debug for Flags {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for (bit, letter) in [
            (0x02, "S"),
            (0x01, "F"),
            (0x04, "R"),
            (0x08, "P"),
            (0x40, "E"),
            (0x80, "W"),
            (0x10, "."),
        ] {
            if self.0 & bit != 0 {
                f.write_str(letter)?;
            }
        }
        Ok(())
    }
}

/// Most SACK blocks of a segment.
pub const SACKS_MAX: usize = 4;

/// Selective acknowledgements, in the order in which the segment has them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Sacks {
    count: u8,
    blocks: [(u32, u32); SACKS_MAX],
}

impl Sacks {
    /// None.
    pub const NONE: Sacks = Sacks { count: 0, blocks: [(0, 0); SACKS_MAX] };

    /// Adds a block, from its first sequence number to the one after its last. False when there is
    /// no room.
    pub fn push(&mut self, left: u32, right: u32) -> bool {
        let Some(place) = self.blocks.get_mut(usize::from(self.count)) else { return false };
        *place = (left, right);
        self.count += 1;
        true
    }

    /// The blocks.
    #[inline]
    pub fn blocks(&self) -> &[(u32, u32)] {
        &self.blocks[..usize::from(self.count).min(SACKS_MAX)]
    }
}

/// TSval and TSecr.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Stamps {
    /// The sender's clock.
    pub value: u32,
    /// What it heard last of the receiver's.
    pub echo: u32,
}

/// A segment without its payload.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Segment {
    /// Port of the sender.
    pub source: u16,
    /// Port of the receiver.
    pub destination: u16,
    /// Of the first octet, or of the SYN.
    pub seq: u32,
    /// The next octet wanted.
    pub ack: u32,
    /// Control bits.
    pub flags: Flags,
    /// As the header has it, not scaled.
    pub window: u16,
    /// Largest segment that the sender takes; in a SYN.
    pub mss: Option<u16>,
    /// Shift of the windows to come; in a SYN.
    pub scale: Option<u8>,
    /// The sender understands SACK; in a SYN.
    pub sack_permitted: bool,
    /// Timestamps.
    pub stamps: Option<Stamps>,
    /// What arrived out of order.
    pub sacks: Sacks,
    /// The packet may be marked by switches.
    pub ect: bool,
    /// Octets that a user of the stream puts in front of what extents name; they count on the wire.
    pub fill: u16,
}

impl Segment {
    /// An empty segment.
    pub const fn new(source: u16, destination: u16, seq: u32, flags: Flags) -> Segment {
        Segment {
            source,
            destination,
            seq,
            ack: 0,
            flags,
            window: 0,
            mss: None,
            scale: None,
            sack_permitted: false,
            stamps: None,
            sacks: Sacks::NONE,
            ect: false,
            fill: 0,
        }
    }

    /// Octets of options, padded to whole words as Linux orders them [incast 2.5].
    pub const fn options_bytes(&self) -> u32 {
        let mut bytes = 0;
        if self.mss.is_some() {
            bytes += 4;
        }
        if self.stamps.is_some() {
            // Two of padding, or SACK-permitted in their place.
            bytes += 12;
        } else if self.sack_permitted {
            bytes += 4;
        }
        if self.scale.is_some() {
            bytes += 4;
        }
        if self.sacks.count > 0 {
            bytes += 4 + 8 * self.sacks.count as u32;
        }
        bytes
    }
}

impl Header for Segment {
    #[inline]
    fn wire_bytes(&self) -> u32 {
        20 + self.options_bytes() + self.fill as u32
    }
    #[inline]
    fn bears_marks(&self) -> bool {
        self.ect
    }
}

/// The 64-bit number that a sequence number on the wire stands for: the one nearest to `near`.
///
/// Inside the machine sequence numbers never wrap: the first of a connection is 2^32 plus what the
/// wire has, so that nothing is ever below zero.
#[inline]
pub(crate) const fn widen(seq: u32, near: u64) -> u64 {
    near.wrapping_add_signed(seq.wrapping_sub(near as u32) as i32 as i64)
}

/// The first number of a stream whose initial sequence number is `isn`.
#[inline]
pub(crate) const fn first(isn: u32) -> u64 {
    (1 << 32) | isn as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incast_2_3_numbers_widen_to_the_nearest() {
        let near = (1u64 << 32) + 10;
        assert_eq!(widen(9, near), near - 1);
        assert_eq!(widen(u32::MAX, near), near - 11);
        assert_eq!(widen(0x8000_0009, near), near + 0x7fff_ffff);
        assert_eq!(widen(0, (1 << 33) - 1), 1 << 33);
    }

    #[test]
    fn incast_2_5_options_have_the_length_of_linux() {
        let mut syn = Segment::new(1, 2, 0, Flags::SYN);
        syn.mss = Some(1460);
        syn.sack_permitted = true;
        syn.scale = Some(7);
        assert_eq!(syn.options_bytes(), 12);
        syn.stamps = Some(Stamps { value: 0, echo: 0 });
        assert_eq!(syn.options_bytes(), 20);
        let mut data = Segment::new(1, 2, 0, Flags::ACK);
        data.stamps = syn.stamps;
        assert_eq!(data.options_bytes(), 12);
        data.sacks.push(1, 2);
        assert_eq!(data.options_bytes(), 24);
    }
}
