//! Numbers and strings: little-endian, strings behind their length.

use crate::cluster::content::Bytes;

/// Writes.
pub struct Out<'a>(pub &'a mut Vec<u8>);

impl Out<'_> {
    pub fn byte(&mut self, value: u8) {
        self.0.push(value);
    }

    pub fn word(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub fn long(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub fn bytes(&mut self, value: &[u8]) {
        self.word(value.len() as u32);
        self.0.extend_from_slice(value);
    }
}

/// Reads.
pub struct In<'a>(pub &'a [u8]);

impl<'a> In<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub fn truth(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub fn word(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    pub fn long(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    pub fn bytes(&mut self) -> Option<Bytes> {
        let length = self.word()? as usize;
        Some(self.take(length)?.into())
    }

    pub fn name(&mut self) -> Option<String> {
        let length = self.word()? as usize;
        String::from_utf8(self.take(length)?.to_vec()).ok()
    }

    /// How many follow, each of `least` bytes at least.
    pub fn count(&mut self, least: usize) -> Option<usize> {
        let count = self.word()? as usize;
        (count.checked_mul(least)? <= self.0.len()).then_some(count)
    }
}
