//! What travels between agents, byte by byte ([htrae 7.1]); the same tables stand in
//! `docs/reference/coords-wire.md`.
//!
//! All integers are big-endian. PROBE and REPLY have the same length, so that nobody is sent more
//! than was sent in his name. What has another length than its kind demands is refused whole.

use cavy_coords::wire::{GOSSIP, Said};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The first two bytes of every datagram, "cv".
const MAGIC: u16 = 0x6376;
/// The version of this layout.
pub const VERSION: u8 = 1;

const HEADER: usize = 8;
const NONCE: usize = 8;
/// In PROBE and REPLY the asker's clock, in FEEDBACK and GOSSIP the token.
const WORD: usize = 16;
const COORDINATE: usize = 24;
const COORDINATE_BYTES: usize = 20;
/// Time held in REPLY, round trip in FEEDBACK.
const SPAN: usize = 44;
/// The token in REPLY.
const TOKEN: usize = 48;

/// Bytes of PROBE and of REPLY.
pub const PROBE_BYTES: usize = 64;
/// Bytes of FEEDBACK.
pub const FEEDBACK_BYTES: usize = 48;
/// Bytes of GOSSIP before the first of those heard of.
const GOSSIP_HEAD: usize = 24;
/// Bytes for each of those heard of.
const HEARD_BYTES: usize = 40;
/// Bytes of the longest datagram.
pub const LONGEST_BYTES: usize = GOSSIP_HEAD + HEARD_BYTES * GOSSIP;

const KIND_PROBE: u8 = 1;
const KIND_REPLY: u8 = 2;
const KIND_FEEDBACK: u8 = 3;
const KIND_GOSSIP: u8 = 4;

/// Bit of the header's flags: the coordinate is there.
const HAS_COORDINATE: u8 = 1;

/// What stands between a machine and those who want to reach it: no part of any prediction.
/// Whether two machines can reach each other is another question than how long it takes ([htrae
/// 6]).
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(default, deny_unknown_fields)]
pub struct Reach {
    /// How its address is translated.
    pub nat: Nat,
    /// It is reached through a relay only.
    pub relay: bool,
    /// Its address is that of several machines.
    pub anycast: bool,
}

/// How an address is translated.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Nat {
    /// Nobody said.
    #[default]
    Unknown,
    /// Not at all: anybody can send to it first.
    Open,
    /// Alike for all peers, so that two such machines can meet.
    Cone,
    /// Differently for each peer.
    Symmetric,
}

impl Reach {
    /// Of a machine of which nobody said anything.
    pub const UNKNOWN: Reach = Reach { nat: Nat::Unknown, relay: false, anycast: false };

    /// How a machine is reached, as far as a database says.
    pub fn of(found: &cavy_places::Found) -> Reach {
        Reach { anycast: found.anycast, ..Reach::default() }
    }

    fn bits(self) -> u16 {
        let nat = match self.nat {
            Nat::Unknown => 0,
            Nat::Open => 1,
            Nat::Cone => 2,
            Nat::Symmetric => 3,
        };
        nat | u16::from(self.relay) << 3 | u16::from(self.anycast) << 4
    }

    fn of_bits(bits: u16) -> Reach {
        let nat = match bits & 7 {
            1 => Nat::Open,
            2 => Nat::Cone,
            3 => Nat::Symmetric,
            // Kinds that a later version may know.
            _ => Nat::Unknown,
        };
        Reach { nat, relay: bits & 8 != 0, anycast: bits & 16 != 0 }
    }

    /// Can two machines like these send to each other without a relay? `None` when nobody knows.
    pub fn meets(self, other: Reach) -> Option<bool> {
        if self.relay || other.relay {
            return Some(false);
        }
        match (self.nat, other.nat) {
            (Nat::Open, _) | (_, Nat::Open) | (Nat::Cone, Nat::Cone) => Some(true),
            (Nat::Unknown, _) | (_, Nat::Unknown) => None,
            _ => Some(false),
        }
    }
}

/// A coordinate as it travels.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Told {
    /// The coordinate.
    pub said: Said,
    /// How often it was moved, at most 65,535.
    pub updates: u16,
    /// How its machine is reached.
    pub reach: Reach,
}

/// Somebody heard of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Heard {
    /// Where.
    pub at: SocketAddr,
    /// Seconds since it said so.
    pub age_s: u16,
    /// What it said.
    pub told: Told,
}

/// A datagram.
#[allow(clippy::large_enum_variant)] // It is read once and taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Datagram {
    /// How far are you?
    Probe {
        /// Of another space nobody answers.
        space: u16,
        /// Names the probe; nobody can guess it.
        nonce: u64,
        /// The asker's own clock, nanoseconds; the answerer gives it back.
        sent_ns: u64,
        /// What the asker says of itself, once it knows.
        told: Option<Told>,
    },
    /// So far.
    Reply {
        /// The space.
        space: u16,
        /// The probe's.
        nonce: u64,
        /// The probe's.
        sent_ns: u64,
        /// Microseconds from the probe's arrival to this reply.
        held_us: u32,
        /// Must come back with feedback or gossip.
        token: u64,
        /// What the answerer says of itself.
        told: Option<Told>,
    },
    /// It took so long.
    Feedback {
        /// The space.
        space: u16,
        /// The probe's.
        nonce: u64,
        /// The reply's.
        token: u64,
        /// The round trip, microseconds.
        rtt_us: u32,
        /// What the asker said of itself before it learnt from this probe.
        told: Told,
    },
    /// What was heard of others.
    Gossip {
        /// The space.
        space: u16,
        /// Of a probe to the receiver.
        nonce: u64,
        /// Of its reply.
        token: u64,
        /// Who, from the front.
        heard: [Option<Heard>; GOSSIP],
    },
}

/// Why bytes are no datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// Not of this protocol, or of another version.
    Foreign,
    /// Of no known kind.
    Kind,
    /// Shorter or longer than its kind demands.
    Length,
    /// A field that must be there is not.
    Field,
}

fn at<const N: usize>(bytes: &[u8], from: usize) -> [u8; N] {
    let mut part = [0; N];
    if let Some(there) = bytes.get(from..from + N) {
        part.copy_from_slice(there);
    }
    part
}

fn told(bytes: &[u8]) -> Told {
    Told {
        said: Said {
            latitude: i32::from_be_bytes(at(bytes, 0)),
            longitude: i32::from_be_bytes(at(bytes, 4)),
            height: u16::from_be_bytes(at(bytes, 8)),
            error: u16::from_be_bytes(at(bytes, 10)),
            system: u32::from_be_bytes(at(bytes, 16)),
        },
        updates: u16::from_be_bytes(at(bytes, 12)),
        reach: Reach::of_bits(u16::from_be_bytes(at(bytes, 14))),
    }
}

fn told_bytes(told: &Told) -> [u8; COORDINATE_BYTES] {
    let mut bytes = [0; COORDINATE_BYTES];
    bytes[0..4].copy_from_slice(&told.said.latitude.to_be_bytes());
    bytes[4..8].copy_from_slice(&told.said.longitude.to_be_bytes());
    bytes[8..10].copy_from_slice(&told.said.height.to_be_bytes());
    bytes[10..12].copy_from_slice(&told.said.error.to_be_bytes());
    bytes[12..14].copy_from_slice(&told.updates.to_be_bytes());
    bytes[14..16].copy_from_slice(&told.reach.bits().to_be_bytes());
    bytes[16..20].copy_from_slice(&told.said.system.to_be_bytes());
    bytes
}

fn heard(bytes: &[u8]) -> Heard {
    let ip = IpAddr::V6(Ipv6Addr::from(at::<16>(bytes, 0))).to_canonical();
    Heard {
        at: SocketAddr::new(ip, u16::from_be_bytes(at(bytes, 16))),
        age_s: u16::from_be_bytes(at(bytes, 18)),
        told: told(bytes.get(20..).unwrap_or(&[])),
    }
}

fn heard_bytes(heard: &Heard) -> [u8; HEARD_BYTES] {
    let ip = match heard.at.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut bytes = [0; HEARD_BYTES];
    bytes[..16].copy_from_slice(&ip.octets());
    bytes[16..18].copy_from_slice(&heard.at.port().to_be_bytes());
    bytes[18..20].copy_from_slice(&heard.age_s.to_be_bytes());
    bytes[20..].copy_from_slice(&told_bytes(&heard.told));
    bytes
}

impl Datagram {
    /// Reads one.
    ///
    /// # Errors
    /// When the bytes are none; nothing of them is of use then.
    pub fn read(bytes: &[u8]) -> Result<Datagram, Refused> {
        let head: [u8; HEADER] = at(bytes, 0);
        let magic = u16::from_be_bytes([head[0], head[1]]);
        if bytes.len() < HEADER || magic != MAGIC || head[2] != VERSION {
            return Err(Refused::Foreign);
        }
        let space = u16::from_be_bytes([head[4], head[5]]);
        let (flags, count) = (head[6], usize::from(head[7]));
        let length = match head[3] {
            KIND_PROBE | KIND_REPLY => PROBE_BYTES,
            KIND_FEEDBACK => FEEDBACK_BYTES,
            KIND_GOSSIP if (1..=GOSSIP).contains(&count) => GOSSIP_HEAD + HEARD_BYTES * count,
            KIND_GOSSIP => return Err(Refused::Field),
            _ => return Err(Refused::Kind),
        };
        if bytes.len() != length {
            return Err(Refused::Length);
        }
        let nonce = u64::from_be_bytes(at(bytes, NONCE));
        let word = u64::from_be_bytes(at(bytes, WORD));
        let span = u32::from_be_bytes(at(bytes, SPAN));
        let own = || (flags & HAS_COORDINATE != 0).then(|| told(&bytes[COORDINATE..]));
        Ok(match head[3] {
            KIND_PROBE => Datagram::Probe { space, nonce, sent_ns: word, told: own() },
            KIND_REPLY => {
                let token = u64::from_be_bytes(at(bytes, TOKEN));
                let told = own();
                Datagram::Reply { space, nonce, sent_ns: word, held_us: span, token, told }
            }
            KIND_FEEDBACK => {
                let told = own().ok_or(Refused::Field)?;
                Datagram::Feedback { space, nonce, token: word, rtt_us: span, told }
            }
            _ => {
                let mut all = [None; GOSSIP];
                let parts = bytes[GOSSIP_HEAD..].chunks_exact(HEARD_BYTES);
                for (place, part) in all.iter_mut().zip(parts) {
                    *place = Some(heard(part));
                }
                Datagram::Gossip { space, nonce, token: word, heard: all }
            }
        })
    }

    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let head = |kind, space: u16, told: bool, count, nonce: u64, word: u64, length| {
            let mut bytes = vec![0; length];
            bytes[..2].copy_from_slice(&MAGIC.to_be_bytes());
            (bytes[2], bytes[3]) = (VERSION, kind);
            bytes[4..6].copy_from_slice(&space.to_be_bytes());
            (bytes[6], bytes[7]) = (if told { HAS_COORDINATE } else { 0 }, count);
            bytes[NONCE..NONCE + 8].copy_from_slice(&nonce.to_be_bytes());
            bytes[WORD..WORD + 8].copy_from_slice(&word.to_be_bytes());
            bytes
        };
        let write = |bytes: &mut Vec<u8>, told: &Option<Told>| {
            if let Some(told) = told {
                bytes[COORDINATE..COORDINATE + COORDINATE_BYTES].copy_from_slice(&told_bytes(told));
            }
        };
        match self {
            Datagram::Probe { space, nonce, sent_ns, told } => {
                let has = told.is_some();
                let mut bytes = head(KIND_PROBE, *space, has, 0, *nonce, *sent_ns, PROBE_BYTES);
                write(&mut bytes, told);
                bytes
            }
            Datagram::Reply { space, nonce, sent_ns, held_us, token, told } => {
                let has = told.is_some();
                let mut bytes = head(KIND_REPLY, *space, has, 0, *nonce, *sent_ns, PROBE_BYTES);
                write(&mut bytes, told);
                bytes[SPAN..SPAN + 4].copy_from_slice(&held_us.to_be_bytes());
                bytes[TOKEN..TOKEN + 8].copy_from_slice(&token.to_be_bytes());
                bytes
            }
            Datagram::Feedback { space, nonce, token, rtt_us, told } => {
                let mut bytes =
                    head(KIND_FEEDBACK, *space, true, 0, *nonce, *token, FEEDBACK_BYTES);
                write(&mut bytes, &Some(*told));
                bytes[SPAN..SPAN + 4].copy_from_slice(&rtt_us.to_be_bytes());
                bytes
            }
            Datagram::Gossip { space, nonce, token, heard } => {
                // At most 16 of them.
                let count = heard.iter().flatten().count() as u8;
                let mut bytes =
                    head(KIND_GOSSIP, *space, false, count, *nonce, *token, GOSSIP_HEAD);
                for one in heard.iter().flatten() {
                    bytes.extend_from_slice(&heard_bytes(one));
                }
                bytes
            }
        }
    }

    /// Its space.
    pub fn space(&self) -> u16 {
        match self {
            Datagram::Probe { space, .. }
            | Datagram::Reply { space, .. }
            | Datagram::Feedback { space, .. }
            | Datagram::Gossip { space, .. } => *space,
        }
    }
}
