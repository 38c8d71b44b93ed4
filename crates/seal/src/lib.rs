//! Packets that only holders of a key can write, read, or say twice.
//!
//! **Problem.** Nothing in the formats of Homa and of agents is secret: whoever can send packets
//! into the network can forge answers, grants and round trips, and whoever reads them reads all.
//! **Promise.** With a key, a packet is what a holder of the key wrote, to this endpoint, since
//! this endpoint started, and it counts once. What is not is told apart, for its receiver to count
//! and drop. **Not here.** No socket. No exchange of keys and no change of them, no secrecy of
//! lengths and times, no forward secrecy, and no telling one holder of the key from another.
//!
//! A sealed packet is a kind, the sender's *life*, a counter, and the sealed bytes with their tag
//! (XChaCha20-Poly1305). A life is 16 random bytes drawn when an endpoint starts; life and counter
//! are the nonce, so none is used twice, also by endpoints that share the key or start again.
//! XChaCha20 derives a key from the first 16 bytes of its nonce, which are the life, for ChaCha20
//! with the rest. So a key is derived once a life, kept as long as the life's window, and used by
//! ring, which has ChaCha20-Poly1305 without the X. The receiver's life is sealed in without being
//! sent: what was said to an earlier life of the same address fails. So the receiver must only
//! remember, of each life that it has heard in its own, which of the last `WINDOW_PACKETS` counters
//! it has seen. When it has heard too many lives it begins a new one itself and forgets them all.
//!
//! Who does not know a peer's life asks for it (ASK), keeps the packets meanwhile, and is told
//! (TELL), bound to its own life and to the counter of its question. A peer that started again
//! tells whoever speaks to its earlier life that there is another one, and is asked. [Decision
//! 13](../../../docs/decisions/0013-sealed-packets.md).

use cavy_core::{Instant, Span};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, Tag, UnboundKey};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use zeroize::Zeroize as _;

/// Counters of one life that are told apart; older ones are taken for replays.
pub const WINDOW_PACKETS: u64 = 4_096;

/// What sealing adds to a packet.
pub const SEAL_BYTES: usize = PREFIX_BYTES + TAG_BYTES;

const LIFE_BYTES: usize = 16;
const COUNTER_BYTES: usize = 8;
/// What stands before the sealed bytes, in the clear.
pub const PREFIX_BYTES: usize = 1 + LIFE_BYTES + COUNTER_BYTES;
const TAG_BYTES: usize = 16;

const DATA: u8 = 1;
const ASK: u8 = 2;
const TELL: u8 = 3;

/// Packets kept for a peer whose life is not known; the protocol sends others again.
const HELD_MAX: usize = 64;

/// Shortest time between the first two ASK to one address, which doubles from one to the next, and
/// between two TELL that a packet which is not authentic brings about.
const GAP: Span = Span::from_ms(1);

/// ASK to one address that may be answered, at most.
const ASKED_MAX: usize = 32;
/// The time between two ASK doubles so often at most.
const DOUBLINGS_MAX: usize = 7;

type Life = [u8; LIFE_BYTES];

/// A packet as its owner queues it.
pub trait Packet: Sized {
    /// Where it goes.
    fn to(&self) -> SocketAddr;
    /// Its bytes, in two parts.
    fn parts(&self) -> [&[u8]; 2];
    /// The same packet with these bytes instead of its own.
    fn wrapped(self, prefix: &[u8; PREFIX_BYTES], sealed: Vec<u8>) -> Self;
    /// A packet that the seal itself sends.
    fn own(to: SocketAddr, prefix: &[u8; PREFIX_BYTES], sealed: Vec<u8>) -> Self;
}

/// A key of 32 bytes that all endpoints of a service share. Whoever has it can be any of them.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; 32]);

impl Key {
    /// These bytes. They should come from a good source of random numbers, not from a person.
    pub const fn new(bytes: [u8; 32]) -> Key {
        Key(bytes)
    }

    /// From 64 hexadecimal digits, with white space around them or none.
    pub fn from_hex(text: &str) -> Option<Key> {
        let digits = text.trim().as_bytes();
        if digits.len() != 64 {
            return None;
        }
        let mut key = [0; 32];
        for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
            let [high, low] = <[u8; 2]>::try_from(pair).ok()?;
            let digit = |c: u8| char::from(c).to_digit(16);
            *byte = (digit(high)? * 16 + digit(low)?) as u8;
        }
        Some(Key(key))
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

/// What became of a packet that came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opened<'a> {
    /// The packet within.
    Packet(&'a [u8]),
    /// Something between the seals.
    Own,
    /// Not written by a holder of the key, not for this life, or altered.
    Unauthentic,
    /// Seen before, or too old to say.
    Replayed,
}

/// The cipher of all packets of one life; with [`nonce`] it is XChaCha20-Poly1305 with life and
/// counter as its nonce.
fn cipher(key: &Key, life: &Life) -> LessSafeKey {
    let mut derived = chacha20::hchacha::<chacha20::R20>((&key.0).into(), life.into());
    let cipher = UnboundKey::new(&CHACHA20_POLY1305, &derived).expect("32 bytes are a key");
    derived.as_mut_slice().zeroize();
    LessSafeKey::new(cipher)
}

/// What is known of a life: its cipher, and which of its counters were seen.
struct Window {
    cipher: LessSafeKey,
    highest: u64,
    seen: [u64; (WINDOW_PACKETS / 64) as usize],
}

impl Window {
    fn new(cipher: LessSafeKey) -> Window {
        Window { cipher, highest: 0, seen: [0; (WINDOW_PACKETS / 64) as usize] }
    }

    fn bit(&mut self, counter: u64) -> (&mut u64, u64) {
        let place = counter % WINDOW_PACKETS;
        (&mut self.seen[(place / 64) as usize], 1 << (place % 64))
    }

    /// Is this counter new? From now on it is not.
    fn take(&mut self, counter: u64) -> bool {
        if counter.saturating_add(WINDOW_PACKETS) <= self.highest {
            return false;
        }
        if counter > self.highest {
            // Places of counters that were never seen may have been those of older ones.
            let skipped = (counter - self.highest).min(WINDOW_PACKETS);
            for back in 0..skipped {
                let (word, bit) = self.bit(counter - back);
                *word &= !bit;
            }
            self.highest = counter;
        }
        let (word, bit) = self.bit(counter);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }
}

/// What is known of the endpoint at an address.
struct Contact<P> {
    life: Option<Life>,
    /// Counters of the ASK that were not answered yet, and when the last was sent.
    asked: Vec<u64>,
    asked_at: Option<Instant>,
    held: Vec<P>,
}

impl<P> Default for Contact<P> {
    fn default() -> Self {
        Contact { life: None, asked: Vec::new(), asked_at: None, held: Vec::new() }
    }
}

/// Seals and opens the packets of one endpoint.
pub struct Seal<P> {
    key: Key,
    life: Life,
    /// Of this life.
    cipher: LessSafeKey,
    /// The next packet's counter; none is used twice in a life.
    counter: u64,
    windows: BTreeMap<Life, Box<Window>>,
    contacts: BTreeMap<SocketAddr, Contact<P>>,
    most: usize,
    told: Option<Instant>,
    ready: VecDeque<P>,
}

/// Sixteen bytes that nobody had before.
fn random() -> Option<Life> {
    let mut life = [0; LIFE_BYTES];
    let flags = rustix::rand::GetRandomFlags::empty();
    let drawn = rustix::rand::getrandom(&mut life[..], flags).ok()?;
    (drawn == LIFE_BYTES).then_some(life)
}

impl<P> std::fmt::Debug for Seal<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal(..)")
    }
}

impl<P: Packet> Seal<P> {
    /// For at most so many peers at once; `None` when the system gives no random numbers.
    pub fn new(key: &Key, peers_max: u32) -> Option<Seal<P>> {
        Some(Seal::with_life(key, peers_max, random()?))
    }

    /// The same with a life that was drawn.
    fn with_life(key: &Key, peers_max: u32, life: Life) -> Seal<P> {
        Seal {
            key: key.clone(),
            cipher: cipher(key, &life),
            life,
            counter: 1,
            windows: BTreeMap::new(),
            contacts: BTreeMap::new(),
            most: (peers_max as usize).max(1),
            told: None,
            ready: VecDeque::new(),
        }
    }

    /// A packet that waits to be sent as it is.
    pub fn ready(&mut self) -> Option<P> {
        self.ready.pop_front()
    }

    /// Seals a packet; `None` when it has to wait for the life of its receiver.
    pub fn seal(&mut self, packet: P, now: Instant) -> Option<P> {
        let to = packet.to();
        let contact = self.contact(to);
        if let Some(life) = contact.life {
            return Some(self.wrap(&life, packet));
        }
        if contact.held.len() < HELD_MAX {
            contact.held.push(packet);
        }
        self.ask(to, now);
        None
    }

    /// Asks for the life of the endpoint at `to`, not too often.
    fn ask(&mut self, to: SocketAddr, now: Instant) {
        let counter = self.counter;
        let contact = self.contact(to);
        let doubled = contact.asked.len().saturating_sub(1).min(DOUBLINGS_MAX);
        let gap = GAP.saturating_mul(1 << doubled);
        if contact.asked_at.is_some_and(|at| at + gap > now) {
            return;
        }
        if contact.asked.len() >= ASKED_MAX {
            contact.asked.remove(0);
        }
        contact.asked.push(counter);
        contact.asked_at = Some(now);
        // As long as the answer to it, so that nobody is sent more than was sent in his name.
        let ask = self.control(ASK, &[0; LIFE_BYTES], to, [0; COUNTER_BYTES]);
        self.ready.push_back(ask);
    }

    /// Is the life of the endpoint at `at` known? Packets to it then need not wait.
    pub fn knows(&self, at: SocketAddr) -> bool {
        self.contacts.get(&at).is_some_and(|contact| contact.life.is_some())
    }

    fn contact(&mut self, at: SocketAddr) -> &mut Contact<P> {
        if self.contacts.len() >= self.most && !self.contacts.contains_key(&at) {
            // Whoever it was is asked again.
            self.contacts.pop_first();
        }
        self.contacts.entry(at).or_default()
    }

    fn control(
        &mut self,
        kind: u8,
        receiver: &Life,
        to: SocketAddr,
        about: [u8; COUNTER_BYTES],
    ) -> P {
        let (prefix, sealed) = self.sealed(kind, receiver, [&about, &[]]);
        P::own(to, &prefix, sealed)
    }

    fn wrap(&mut self, receiver: &Life, packet: P) -> P {
        let (prefix, sealed) = self.sealed(DATA, receiver, packet.parts());
        packet.wrapped(&prefix, sealed)
    }

    fn sealed(
        &mut self,
        kind: u8,
        receiver: &Life,
        parts: [&[u8]; 2],
    ) -> ([u8; PREFIX_BYTES], Vec<u8>) {
        let counter = self.counter.to_be_bytes();
        self.counter += 1;
        let mut prefix = [0; PREFIX_BYTES];
        prefix[0] = kind;
        prefix[1..=LIFE_BYTES].copy_from_slice(&self.life);
        prefix[1 + LIFE_BYTES..].copy_from_slice(&counter);
        let mut bytes = Vec::with_capacity(parts[0].len() + parts[1].len() + TAG_BYTES);
        bytes.extend_from_slice(parts[0]);
        bytes.extend_from_slice(parts[1]);
        let about = Aad::from(bound(kind, receiver));
        let tag = self.cipher.seal_in_place_separate_tag(nonce(counter), about, &mut bytes);
        // It fails for packets of 256 GB only; one without its tag would be dropped where it
        // arrives.
        if let Ok(tag) = tag {
            bytes.extend_from_slice(tag.as_ref());
        }
        (prefix, bytes)
    }

    /// Opens a packet in its place.
    pub fn open<'a>(&mut self, from: SocketAddr, bytes: &'a mut [u8], now: Instant) -> Opened<'a> {
        let Some(Parts { kind, life, counter, sealed, tag }) = Parts::of(bytes) else {
            return Opened::Unauthentic;
        };
        let receiver = if kind == ASK { [0; LIFE_BYTES] } else { self.life };
        let about = Aad::from(bound(kind, &receiver));
        let number = u64::from_be_bytes(counter);
        // Of a life that is not known a key is kept only when a packet has opened with it.
        let mut fresh = None;
        let cipher = match self.windows.get(&life) {
            Some(window) => &window.cipher,
            None => fresh.insert(cipher(&self.key, &life)),
        };
        let opened = cipher.open_in_place_separate_tag(nonce(counter), about, tag, sealed, 0..);
        if opened.is_err() || life == self.life {
            // It may be a holder of the key who speaks to an earlier life of this endpoint.
            // What he is told is no longer than what he said.
            let spoke = kind == DATA && life != self.life && sealed.len() >= COUNTER_BYTES;
            if spoke && self.told.is_none_or(|at| at + GAP <= now) {
                self.told = Some(now);
                let tell = self.control(TELL, &life, from, counter);
                self.ready.push_back(tell);
            }
            return Opened::Unauthentic;
        }
        match kind {
            ASK => {
                let tell = self.control(TELL, &life, from, counter);
                self.ready.push_back(tell);
                Opened::Own
            }
            TELL => match <[u8; COUNTER_BYTES]>::try_from(&*sealed) {
                Ok(about) => self.learn(from, life, u64::from_be_bytes(about), now),
                Err(_) => Opened::Unauthentic,
            },
            _ => {
                if !self.window(life, fresh).is_some_and(|window| window.take(number)) {
                    return Opened::Replayed;
                }
                let contact = self.contact(from);
                if contact.life != Some(life) {
                    contact.life = Some(life);
                    contact.asked.clear();
                    contact.asked_at = None;
                    self.release(from);
                }
                Opened::Packet(sealed)
            }
        }
    }

    /// Somebody tells a life, and which of our packets made him.
    ///
    /// Only the answer to an ASK is believed, and the first one: it is of whoever is there. What is
    /// told about another packet may be of somebody else, to whom a stranger has shown that packet;
    /// it is a reason to ask.
    fn learn(&mut self, from: SocketAddr, life: Life, about: u64, now: Instant) -> Opened<'static> {
        let Some(contact) = self.contacts.get_mut(&from) else { return Opened::Replayed };
        if contact.asked.contains(&about) {
            contact.life = Some(life);
            contact.asked.clear();
            contact.asked_at = None;
            self.release(from);
            return Opened::Own;
        }
        if contact.life == Some(life) {
            return Opened::Replayed;
        }
        self.ask(from, now);
        Opened::Own
    }

    /// Sends what was kept until the life of its receiver is known.
    fn release(&mut self, to: SocketAddr) {
        let Some(contact) = self.contacts.get_mut(&to) else { return };
        let Some(life) = contact.life else { return };
        for packet in std::mem::take(&mut contact.held) {
            let packet = self.wrap(&life, packet);
            self.ready.push_back(packet);
        }
    }

    /// The window of `life`, with its cipher if that was made just now.
    fn window(&mut self, life: Life, fresh: Option<LessSafeKey>) -> Option<&mut Window> {
        if self.windows.len() >= self.most && !self.windows.contains_key(&life) {
            // What is forgotten could be said again; so it was said to somebody else.
            (self.life, self.counter) = (random()?, 1);
            self.cipher = cipher(&self.key, &self.life);
            for contact in self.contacts.values_mut() {
                contact.asked.clear();
                contact.asked_at = None;
            }
            self.windows.clear();
        }
        let key = &self.key;
        let cipher = || fresh.unwrap_or_else(|| cipher(key, &life));
        Some(self.windows.entry(life).or_insert_with(|| Box::new(Window::new(cipher()))))
    }
}

/// A sealed packet, taken apart.
struct Parts<'a> {
    kind: u8,
    life: Life,
    counter: [u8; COUNTER_BYTES],
    sealed: &'a mut [u8],
    tag: Tag,
}

impl<'a> Parts<'a> {
    fn of(bytes: &'a mut [u8]) -> Option<Parts<'a>> {
        let (prefix, rest) = bytes.split_at_mut_checked(PREFIX_BYTES)?;
        let (sealed, tag) = rest.split_at_mut_checked(rest.len().checked_sub(TAG_BYTES)?)?;
        let (&mut kind, names) = prefix.split_first_mut()?;
        let (life, counter) = names.split_at(LIFE_BYTES);
        let tag = <[u8; TAG_BYTES]>::try_from(&*tag).ok()?;
        let known = matches!(kind, DATA | ASK | TELL);
        known.then_some(Parts {
            kind,
            life: life.try_into().ok()?,
            counter: counter.try_into().ok()?,
            sealed,
            tag: tag.into(),
        })
    }
}

/// What XChaCha20 makes of the rest of its nonce, for the cipher of a life.
fn nonce(counter: [u8; COUNTER_BYTES]) -> Nonce {
    const ZEROS: usize = 4;
    let mut nonce = [0; ZEROS + COUNTER_BYTES];
    nonce[ZEROS..].copy_from_slice(&counter);
    Nonce::assume_unique_for_key(nonce)
}

/// What is sealed in without being sent.
fn bound(kind: u8, receiver: &Life) -> [u8; 1 + LIFE_BYTES] {
    let mut about = [kind; 1 + LIFE_BYTES];
    about[1..].copy_from_slice(receiver);
    about
}

#[cfg(any(test, feature = "fuzz"))]
pub mod forged;

#[cfg(test)]
mod tests;
