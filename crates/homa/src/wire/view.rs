//! Reading a packet where it lies.

use super::{ACKS_MAX, COMMON_BYTES, DATA_BYTES, Type, WireError};

/// A packet's bytes, behind IP (and UDP), known to hold the whole header of their type.
///
/// Accessors of one type's fields mean something for that type only; for others they give whatever
/// lies there, or zero beyond the packet's end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct View<'a> {
    bytes: &'a [u8],
    kind: Type,
}

impl<'a> View<'a> {
    /// Looks at `bytes`.
    ///
    /// # Errors
    /// [`WireError::Short`] and [`WireError::Type`].
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        let short = |least| WireError::Short { bytes: bytes.len(), least };
        if bytes.len() < COMMON_BYTES {
            return Err(short(COMMON_BYTES));
        }
        let byte = bytes[11];
        let kind = Type::from_byte(byte).ok_or(WireError::Type(byte))?;
        if bytes.len() < kind.header_bytes() {
            return Err(short(kind.header_bytes()));
        }
        Ok(View { bytes, kind })
    }

    #[inline]
    fn take<const N: usize>(&self, at: usize) -> [u8; N] {
        let found = self.bytes.get(at..at + N).and_then(|found| found.try_into().ok());
        found.unwrap_or([0; N])
    }

    #[inline]
    fn u16(&self, at: usize) -> u16 {
        u16::from_be_bytes(self.take(at))
    }

    #[inline]
    fn u32(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.take(at))
    }

    #[inline]
    fn u64(&self, at: usize) -> u64 {
        u64::from_be_bytes(self.take(at))
    }

    /// What it is.
    pub fn kind(&self) -> Type {
        self.kind
    }

    /// Port of whoever sent it.
    pub fn source_port(&self) -> u16 {
        self.u16(0)
    }

    /// Port it is for.
    pub fn destination_port(&self) -> u16 {
        self.u16(2)
    }

    /// DATA: offset of the first byte, where the segment does not say so itself.
    pub fn sequence(&self) -> u32 {
        self.u32(4)
    }

    /// UNKNOWN: the first of three bytes that the module leaves zero and does not read.
    pub fn mark(&self) -> u8 {
        self.take::<1>(8)[0]
    }

    /// The exchange, by its sender's name for it.
    pub fn sender_id(&self) -> u64 {
        self.u64(20)
    }

    /// DATA: length of the whole message.
    pub fn message_bytes(&self) -> u32 {
        self.u32(28)
    }

    /// DATA: the sender will transmit up to here without further grants.
    pub fn incoming_bytes(&self) -> u32 {
        self.u32(32)
    }

    /// DATA: an exchange that may be forgotten, by its client's name, and the port of its server;
    /// `None` for none.
    pub fn piggybacked_ack(&self) -> Option<(u64, u16)> {
        Some((self.u64(36), self.u16(44))).filter(|&(id, _)| id != 0)
    }

    /// DATA: version of the receiver's cut-offs that the sender used.
    pub fn data_cutoffs_version(&self) -> u16 {
        self.u16(46)
    }

    /// DATA: sent again.
    pub fn is_retransmit(&self) -> bool {
        self.take::<1>(48) != [0]
    }

    /// DATA: three bytes that the module leaves zero and does not read.
    pub fn pad(&self) -> [u8; 3] {
        self.take(49)
    }

    /// DATA: offset of the first byte in the message. The segment's own offset, unless that says
    /// that `sequence` is right.
    pub fn data_offset_bytes(&self) -> u32 {
        match self.u32(52) {
            u32::MAX => self.sequence(),
            own => own,
        }
    }

    /// DATA: bytes of the message.
    pub fn payload(&self) -> &'a [u8] {
        match self.kind {
            Type::Data => self.bytes.get(DATA_BYTES..).unwrap_or(&[]),
            _ => &[],
        }
    }

    /// GRANT: first byte that may not be sent. RESEND: first byte missing.
    pub fn offset_bytes(&self) -> u32 {
        self.u32(28)
    }

    /// GRANT: level of scheduled bytes.
    pub fn grant_priority(&self) -> u8 {
        self.take::<1>(32)[0]
    }

    /// RESEND: how many bytes; `u32::MAX` for all that was sent.
    pub fn resend_bytes(&self) -> u32 {
        self.u32(32)
    }

    /// RESEND: level of what is sent again.
    pub fn resend_priority(&self) -> u8 {
        self.take::<1>(36)[0]
    }

    /// CUTOFFS: for each level the longest message that uses it.
    pub fn cutoffs(&self) -> [u32; 8] {
        core::array::from_fn(|level| self.u32(28 + 4 * level))
    }

    /// CUTOFFS: their version.
    pub fn cutoffs_version(&self) -> u16 {
        self.u16(60)
    }

    /// ACK and DATA: exchanges that may be forgotten, by their client's name, and the port of their
    /// server; that of an ACK's header, which may be forgotten too, is not among them unless it is
    /// listed.
    pub fn acknowledged(&self) -> impl Iterator<Item = (u64, u16)> + 'a {
        let view = *self;
        let (count, first) = match self.kind {
            Type::Ack => (usize::from(self.ack_count()).min(ACKS_MAX), 30),
            Type::Data if self.piggybacked_ack().is_some() => (1, 36),
            _ => (0, 0),
        };
        (0..count).map(move |at| (view.u64(first + 10 * at), view.u16(first + 8 + 10 * at)))
    }

    /// ACK: how many it says it has.
    pub fn ack_count(&self) -> u16 {
        self.u16(28)
    }
}
