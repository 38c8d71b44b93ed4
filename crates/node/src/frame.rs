//! Frames: what goes over a connection, and the datagrams beside it.
//!
//! A frame is a length, a CRC32C of what follows, a kind, and its body. Integers are little-endian.
//!
//! | kind | body |
//! |---|---|
//! | greet | magic, version, sender, receiver, 16 random bytes, 32 bytes of proof or zeros |
//! | meet | 32 bytes of proof, [`Standing`] |
//! | data | number, acknowledged number, time of sending, message |
//! | pulse | acknowledged number |
//!
//! Who dials greets, the other end greets back with its proof, then both say how they stand. A
//! proof is an HMAC-SHA256 under the cluster's key of both random values and both names, so a node
//! without the key is refused. What follows is neither hidden nor sealed: networks that are not
//! trusted need a tunnel.

use crate::channel::Standing;
use cavy_core::Instant;
use cavy_core::family::Node;
use ring::hmac;

/// The version of frames. Nodes of another one are refused.
pub(crate) const VERSION: u16 = 1;
const MAGIC: [u8; 8] = *b"cavynode";
/// Longest frame of an end that has not shown who it is.
pub(crate) const STRANGER_MAX: usize = 256;

const GREET: u8 = 1;
const MEET: u8 = 2;
const DATA: u8 = 3;
const PULSE: u8 = 4;

/// Bytes that nobody can guess.
pub(crate) type Nonce = [u8; 16];
/// Shows that its maker has the key.
pub(crate) type Proof = [u8; 32];

/// The secret of a cluster.
#[derive(Clone)]
pub(crate) struct Key(hmac::Key);

impl Key {
    pub fn new(secret: &[u8]) -> Key {
        Key(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    fn tag(&self, role: u8, from: Node, to: Node, one: &Nonce, other: &Nonce) -> hmac::Tag {
        hmac::sign(&self.0, &proof_text(role, from, to, one, other))
    }

    /// The proof of `from` to `to`: `role` is 0 for who dialed, 1 for the other.
    pub fn prove(&self, role: u8, from: Node, to: Node, dialer: &Nonce, other: &Nonce) -> Proof {
        let mut proof = [0; 32];
        proof.copy_from_slice(self.tag(role, from, to, dialer, other).as_ref());
        proof
    }

    /// Is it one?
    pub fn holds(
        &self,
        proof: &Proof,
        role: u8,
        from: Node,
        to: Node,
        dialer: &Nonce,
        other: &Nonce,
    ) -> bool {
        hmac::verify(&self.0, &proof_text(role, from, to, dialer, other), proof).is_ok()
    }

    /// A short tag of a datagram.
    fn short(&self, bytes: &[u8]) -> [u8; 8] {
        let mut short = [0; 8];
        short.copy_from_slice(&hmac::sign(&self.0, bytes).as_ref()[..8]);
        short
    }
}

fn proof_text(role: u8, from: Node, to: Node, one: &Nonce, other: &Nonce) -> Vec<u8> {
    let mut text = MAGIC.to_vec();
    text.push(role);
    text.extend_from_slice(&from.0.to_le_bytes());
    text.extend_from_slice(&to.0.to_le_bytes());
    text.extend_from_slice(one);
    text.extend_from_slice(other);
    text
}

/// A frame that was read. Messages stay where they are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Frame<'a> {
    Greet { version: u16, from: Node, to: Node, nonce: Nonce, proof: Proof },
    Meet { proof: Proof, standing: Standing },
    Data { number: u64, acknowledged: u64, stamp: Instant, message: &'a [u8] },
    Pulse { acknowledged: u64 },
}

/// Reads fields off the front of some bytes.
pub(crate) struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub fn word(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn long(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}

/// Why a connection cannot go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// Longer than a frame may be.
    TooLong,
    /// The sum is another one.
    Sum,
    /// No frame.
    Shape,
}

/// Reads the frame at the front of `bytes`, with its length; `None` when more must come.
pub(crate) fn read(bytes: &[u8], most: usize) -> Result<Option<(Frame<'_>, usize)>, Fault> {
    let mut fields = Fields(bytes);
    let Some(length) = fields.word() else { return Ok(None) };
    let length = length as usize;
    if length > most {
        return Err(Fault::TooLong);
    }
    let Some(sum) = fields.word() else { return Ok(None) };
    let Some(body) = fields.take(length) else { return Ok(None) };
    if crc32c::crc32c(body) != sum {
        return Err(Fault::Sum);
    }
    match body_of(body) {
        Some(frame) => Ok(Some((frame, 8 + length))),
        None => Err(Fault::Shape),
    }
}

fn body_of(body: &[u8]) -> Option<Frame<'_>> {
    let mut fields = Fields(body);
    let frame = match fields.byte()? {
        GREET => {
            if fields.array()? != MAGIC {
                return None;
            }
            let version = u16::from_le_bytes(fields.array()?);
            let (from, to) = (Node(fields.word()?), Node(fields.word()?));
            // What a later version says beyond this is its own business.
            let (nonce, proof) = (fields.array()?, fields.array()?);
            return Some(Frame::Greet { version, from, to, nonce, proof });
        }
        MEET => {
            let proof = fields.array()?;
            let incarnation = fields.long()?;
            let flags = fields.byte()?;
            let (lived, gave_up) = (flags & 1 != 0, flags & 2 != 0);
            let (knows, session, received) = (fields.long()?, fields.long()?, fields.long()?);
            let standing = Standing { incarnation, lived, knows, session, received, gave_up };
            Frame::Meet { proof, standing }
        }
        DATA => {
            let (number, acknowledged) = (fields.long()?, fields.long()?);
            let stamp = Instant::from_ns(fields.long()?);
            let message = std::mem::take(&mut fields.0);
            Frame::Data { number, acknowledged, stamp, message }
        }
        PULSE => Frame::Pulse { acknowledged: fields.long()? },
        _ => return None,
    };
    fields.0.is_empty().then_some(frame)
}

/// Appends a frame whose body `fill` appends.
fn framed(out: &mut Vec<u8>, kind: u8, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 8]);
    out.push(kind);
    fill(out);
    let length = (out.len() - start - 8) as u32;
    let sum = crc32c::crc32c(&out[start + 8..]);
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    out[start + 4..start + 8].copy_from_slice(&sum.to_le_bytes());
}

pub(crate) fn greet(out: &mut Vec<u8>, from: Node, to: Node, nonce: &Nonce, proof: &Proof) {
    framed(out, GREET, |out| {
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&from.0.to_le_bytes());
        out.extend_from_slice(&to.0.to_le_bytes());
        out.extend_from_slice(nonce);
        out.extend_from_slice(proof);
    });
}

pub(crate) fn meet(out: &mut Vec<u8>, proof: &Proof, standing: &Standing) {
    framed(out, MEET, |out| {
        out.extend_from_slice(proof);
        out.extend_from_slice(&standing.incarnation.to_le_bytes());
        out.push(u8::from(standing.lived) | u8::from(standing.gave_up) << 1);
        for number in [standing.knows, standing.session, standing.received] {
            out.extend_from_slice(&number.to_le_bytes());
        }
    });
}

pub(crate) fn data(out: &mut Vec<u8>, number: u64, acknowledged: u64, stamp: Instant, text: &[u8]) {
    framed(out, DATA, |out| {
        for number in [number, acknowledged, stamp.as_ns()] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(text);
    });
}

pub(crate) fn pulse(out: &mut Vec<u8>, acknowledged: u64) {
    framed(out, PULSE, |out| out.extend_from_slice(&acknowledged.to_le_bytes()));
}

/// Appends a datagram: tag, sender, receiver, life of the sender, time of sending, message.
pub(crate) fn datagram(
    out: &mut Vec<u8>,
    key: &Key,
    from: Node,
    to: Node,
    stamp: Instant,
    message: &[u8],
) {
    let start = out.len();
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&from.0.to_le_bytes());
    out.extend_from_slice(&to.0.to_le_bytes());
    out.extend_from_slice(&stamp.as_ns().to_le_bytes());
    out.extend_from_slice(message);
    let tag = key.short(&out[start + 8..]);
    out[start..start + 8].copy_from_slice(&tag);
}

/// Reads a datagram to `me`: its sender, its time of sending, its message.
pub(crate) fn read_datagram<'a>(
    bytes: &'a [u8],
    key: &Key,
    me: Node,
) -> Option<(Node, Instant, &'a [u8])> {
    let (tag, rest) = bytes.split_at_checked(8)?;
    if key.short(rest) != *tag {
        return None;
    }
    let mut fields = Fields(rest);
    let version = u16::from_le_bytes(fields.array()?);
    let (from, to) = (Node(fields.word()?), Node(fields.word()?));
    let stamp = Instant::from_ns(fields.long()?);
    (version == VERSION && to == me).then_some((from, stamp, fields.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn frames_are_read_as_they_were_written_whole_and_in_parts() {
        let key = Key::new(b"secret");
        let (one, other) = ([1; 16], [2; 16]);
        let proof = key.prove(0, Node(3), Node(4), &one, &other);
        assert!(key.holds(&proof, 0, Node(3), Node(4), &one, &other));
        assert!(!key.holds(&proof, 1, Node(3), Node(4), &one, &other));
        assert!(!Key::new(b"guess").holds(&proof, 0, Node(3), Node(4), &one, &other));
        let standing = Standing {
            incarnation: 9,
            lived: true,
            knows: 8,
            session: 7,
            received: 6,
            gave_up: true,
        };
        let mut bytes = Vec::new();
        greet(&mut bytes, Node(3), Node(4), &one, &proof);
        meet(&mut bytes, &proof, &standing);
        data(&mut bytes, 5, 4, Instant::from_ns(3), b"words");
        pulse(&mut bytes, 2);
        let expected = [
            Frame::Greet { version: 1, from: Node(3), to: Node(4), nonce: one, proof },
            Frame::Meet { proof, standing },
            Frame::Data {
                number: 5,
                acknowledged: 4,
                stamp: Instant::from_ns(3),
                message: b"words",
            },
            Frame::Pulse { acknowledged: 2 },
        ];
        let mut rest = &bytes[..];
        for frame in expected {
            let (found, length) = read(rest, STRANGER_MAX).unwrap().unwrap();
            assert_eq!(found, frame);
            for end in 0..length {
                assert_eq!(read(&rest[..end], STRANGER_MAX), Ok(None));
            }
            rest = &rest[length..];
        }
        assert!(rest.is_empty());
        assert_eq!(read(&[255, 255, 0, 0], STRANGER_MAX), Err(Fault::TooLong));
    }

    #[test]
    fn a_flipped_bit_is_found_wherever_it_is() {
        let mut bytes = Vec::new();
        data(&mut bytes, 5, 4, Instant::from_ns(3), b"words");
        for bit in 32..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&bytes, 1 << 20), Err(Fault::Sum), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn datagrams_are_for_whom_they_name_and_of_who_has_the_key() {
        let key = Key::new(b"secret");
        let mut bytes = Vec::new();
        datagram(&mut bytes, &key, Node(1), Node(2), Instant::from_ns(7), b"hello");
        let read = |bytes: &[u8], key: &Key, me| {
            read_datagram(bytes, key, me).map(|(from, at, text)| (from, at, text.to_vec()))
        };
        let expected = Some((Node(1), Instant::from_ns(7), b"hello".to_vec()));
        assert_eq!(read(&bytes, &key, Node(2)), expected);
        assert_eq!(read(&bytes, &key, Node(3)), None);
        assert_eq!(read(&bytes, &Key::new(b"guess"), Node(2)), None);
        assert_eq!(read(&bytes[..20], &key, Node(2)), None);
    }

    proptest! {
        #[test]
        fn reading_is_total(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(Some((_, length))) = read(&bytes, 1 << 20) {
                prop_assert!(length <= bytes.len());
            }
            // With a sum that is right, so that bodies are looked at.
            let mut framed = (bytes.len() as u32).to_le_bytes().to_vec();
            framed.extend(crc32c::crc32c(&bytes).to_le_bytes());
            framed.extend(&bytes);
            let _ = read(&framed, 1 << 20);
            let _ = read_datagram(&bytes, &Key::new(b""), Node(0));
        }
    }
}
