//! A rolling 64-bit fingerprint of a run: equal seeds must give equal digests, on any machine.

use core::hash::{Hash, Hasher};

/// Folds words into one; order matters. Not cryptographic: it finds divergence, not tampering.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self::new()
    }
}

impl Digest {
    /// The digest of nothing.
    pub const fn new() -> Self {
        Digest(0x9E37_79B9_7F4A_7C15)
    }

    /// Folds one word in.
    #[inline]
    pub fn fold(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        self.0 = (mixed ^ (mixed >> 32)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    }

    /// Folds any hashable value in, the same on every target because integers are widened first.
    pub fn fold_value(&mut self, value: &impl Hash) {
        value.hash(&mut Words(self));
    }

    /// The fingerprint so far.
    pub const fn value(self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }
}

/// A `Hasher` whose integer methods do not depend on the target's word size or byte order.
struct Words<'a>(&'a mut Digest);

impl Hasher for Words<'_> {
    fn finish(&self) -> u64 {
        self.0.value()
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0.fold(u64::from(byte));
        }
    }
    fn write_u8(&mut self, x: u8) {
        self.0.fold(u64::from(x));
    }
    fn write_u16(&mut self, x: u16) {
        self.0.fold(u64::from(x));
    }
    fn write_u32(&mut self, x: u32) {
        self.0.fold(u64::from(x));
    }
    fn write_u64(&mut self, x: u64) {
        self.0.fold(x);
    }
    fn write_usize(&mut self, x: usize) {
        self.0.fold(x as u64);
    }
    fn write_isize(&mut self, x: isize) {
        // Enum discriminants arrive here; i64 first, so that 32-bit targets agree.
        self.0.fold(x as i64 as u64);
    }
}
