//! The bytes of IPv4, TCP, and the ICMP that matters to it ([incast 2.4], [incast 2.5]).
//!
//! [`read`] takes a packet apart without copying and says what is wrong with one that nobody should
//! answer; [`Writer`] puts headers before payload that lies wherever it lies. Options are written
//! in the order of Linux, to the byte, so that a capture of one reads like one of the other.
//!
//! Not here: fragments, which a sender that sets "do not fragment" does not get; IPv6.

use crate::segment::{Flags, Sacks, Segment, Stamps};
use cavy_core::family::stream::Unreachable;
use core::net::Ipv4Addr;

/// A header of IPv4 without options.
const IPV4_BYTES: usize = 20;
/// A header of TCP without options.
const TCP_BYTES: usize = 20;
/// What [`Writer::headers`] writes at most.
pub const HEADERS_MAX_BYTES: usize = IPV4_BYTES + 60;
/// Where ICMP's own header ends.
const ICMP_BYTES: usize = 8;

const PROTOCOL_ICMP: u8 = 1;
const PROTOCOL_TCP: u8 = 6;

const END: u8 = 0;
const NOTHING: u8 = 1;
const MSS: u8 = 2;
const SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const STAMPS: u8 = 8;

/// Bits of a header that the machine knows; the two of congestion notification are not among them.
const FLAGS: u8 = 0xff;
/// The largest shift that RFC 7323 allows; a larger one counts as this.
const SCALE_MAX: u8 = 14;

/// Why a packet is not answered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Damage {
    /// It ends before its headers do, or before it says that it ends.
    Short,
    /// It is not IPv4.
    Version,
    /// The header of IPv4 is shorter than it can be, or longer than the packet.
    Header,
    /// It is a piece of a packet.
    Fragment,
    /// The sum of the header of IPv4 is wrong.
    HeaderSum,
    /// The sum of TCP or ICMP is wrong.
    Sum,
    /// Nobody can have this address: a group, everybody, nobody, or the sender itself.
    Address,
    /// The header of TCP is shorter than it can be, or longer than the packet.
    Offset,
}

impl Damage {
    /// All of them, in the order in which they are looked for.
    pub const ALL: [Damage; 8] = [
        Damage::Short,
        Damage::Version,
        Damage::Header,
        Damage::Fragment,
        Damage::HeaderSum,
        Damage::Sum,
        Damage::Address,
        Damage::Offset,
    ];

    /// In a word, for counters.
    pub const fn name(self) -> &'static str {
        match self {
            Damage::Short => "short",
            Damage::Version => "version",
            Damage::Header => "header",
            Damage::Fragment => "fragment",
            Damage::HeaderSum => "header_sum",
            Damage::Sum => "sum",
            Damage::Address => "address",
            Damage::Offset => "offset",
        }
    }
}

/// What a packet is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Said<'a> {
    /// A segment.
    Tcp {
        /// What its header says.
        segment: Segment,
        /// What it carries.
        payload: &'a [u8],
        /// A switch marked it (ECN).
        marked: bool,
    },
    /// A segment of the receiver did not get through.
    Unreachable {
        /// Whom it was for.
        peer: Ipv4Addr,
        /// Its ports and its sequence number; the rest is not quoted.
        quoted: Segment,
        /// Why.
        why: Unreachable,
    },
    /// Somebody asks whether the receiver is there: what is to be sent back, behind ICMP's type,
    /// code and sum.
    Echo(&'a [u8]),
    /// Nothing of TCP's.
    Other,
}

/// A packet that was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrived<'a> {
    /// Who sent it.
    pub from: Ipv4Addr,
    /// Whom it is for.
    pub to: Ipv4Addr,
    /// What it is.
    pub said: Said<'a>,
}

/// Takes a packet of IPv4 apart.
///
/// # Errors
/// What is wrong with it; such a packet is counted and dropped.
pub fn read(bytes: &[u8]) -> Result<Arrived<'_>, Damage> {
    let header = bytes.get(..IPV4_BYTES).ok_or(Damage::Short)?;
    if header[0] >> 4 != 4 {
        return Err(Damage::Version);
    }
    let header_bytes = usize::from(header[0] & 15) * 4;
    let whole = usize::from(u16_at(header, 2));
    if header_bytes < IPV4_BYTES || header_bytes > whole {
        return Err(Damage::Header);
    }
    // A link may pad what is short.
    let packet = bytes.get(..whole).ok_or(Damage::Short)?;
    let (header, body) = packet.split_at(header_bytes);
    if u16_at(header, 6) & 0x3fff != 0 {
        return Err(Damage::Fragment);
    }
    if Sum::of(header).value() != 0 {
        return Err(Damage::HeaderSum);
    }
    let (from, to) = (address_at(header, 12), address_at(header, 16));
    let said = match header[9] {
        PROTOCOL_TCP => {
            if body.len() < TCP_BYTES {
                return Err(Damage::Short);
            }
            let mut sum = pseudo(from, to, body.len());
            sum.add(body);
            if sum.value() != 0 {
                return Err(Damage::Sum);
            }
            let (segment, payload) = read_tcp(body)?;
            Said::Tcp { segment, payload, marked: header[1] & 3 == 3 }
        }
        PROTOCOL_ICMP => {
            if body.len() < ICMP_BYTES {
                return Err(Damage::Short);
            }
            if Sum::of(body).value() != 0 {
                return Err(Damage::Sum);
            }
            read_icmp(body, to)
        }
        _ => Said::Other,
    };
    // Whoever answered such a sender would answer to many, or to nobody, or to itself for ever.
    let nobody = from.is_multicast() || from.is_broadcast() || from.octets()[0] == 0;
    if nobody || from == to || to.is_multicast() || to.is_broadcast() {
        return Err(Damage::Address);
    }
    Ok(Arrived { from, to, said })
}

fn read_tcp(body: &[u8]) -> Result<(Segment, &[u8]), Damage> {
    let header_bytes = usize::from(body[12] >> 4) * 4;
    if header_bytes < TCP_BYTES || header_bytes > body.len() {
        return Err(Damage::Offset);
    }
    let (header, payload) = body.split_at(header_bytes);
    let flags = Flags(header[13] & FLAGS);
    let mut segment = Segment::new(u16_at(header, 0), u16_at(header, 2), u32_at(header, 4), flags);
    segment.ack = u32_at(header, 8);
    segment.window = u16_at(header, 14);
    read_options(&header[TCP_BYTES..], &mut segment);
    Ok((segment, payload))
}

/// What is not understood is skipped; what has an impossible length ends the list [incast 2.5].
fn read_options(mut options: &[u8], segment: &mut Segment) {
    let opens = segment.flags.has(Flags::SYN);
    loop {
        let (kind, body) = match *options {
            [] | [END, ..] => return,
            [NOTHING, ref rest @ ..] => {
                options = rest;
                continue;
            }
            [kind, length, ..] if length >= 2 && usize::from(length) <= options.len() => {
                let (option, rest) = options.split_at(usize::from(length));
                options = rest;
                (kind, &option[2..])
            }
            _ => return,
        };
        match (kind, body.len()) {
            (MSS, 2) if opens => segment.mss = Some(u16_at(body, 0)),
            (SCALE, 1) if opens => segment.scale = Some(body[0].min(SCALE_MAX)),
            (SACK_PERMITTED, 0) if opens => segment.sack_permitted = true,
            (STAMPS, 8) => {
                segment.stamps = Some(Stamps { value: u32_at(body, 0), echo: u32_at(body, 4) });
            }
            (SACK, length) if !opens && length % 8 == 0 => {
                segment.sacks = Sacks::NONE;
                for edges in body.chunks_exact(8) {
                    segment.sacks.push(u32_at(edges, 0), u32_at(edges, 4));
                }
            }
            _ => {}
        }
    }
}

fn read_icmp(body: &[u8], to: Ipv4Addr) -> Said<'_> {
    let why = match (body[0], body[1]) {
        (8, 0) => return Said::Echo(&body[4..]),
        (3, 4) => Unreachable::TooLong { mtu_bytes: u16_at(body, 6) },
        // No protocol, no port, or forbidden (RFC 1122, RFC 1812).
        (3, 2 | 3 | 9 | 10 | 13) => Unreachable::Protocol,
        (3, 0..=15) | (11, 0) => Unreachable::Host,
        _ => return Said::Other,
    };
    // The header of the lost packet, and at least eight octets behind it.
    let lost = &body[ICMP_BYTES..];
    let header_bytes = lost.first().map_or(0, |&first| usize::from(first & 15) * 4);
    let is_ours = lost.len() >= IPV4_BYTES
        && lost[0] >> 4 == 4
        && lost[9] == PROTOCOL_TCP
        && address_at(lost, 12) == to
        && u16_at(lost, 6) & 0x1fff == 0
        && header_bytes >= IPV4_BYTES;
    match lost.get(header_bytes..header_bytes + 8).filter(|_| is_ours) {
        Some(begin) => {
            let (source, destination) = (u16_at(begin, 0), u16_at(begin, 2));
            let quoted = Segment::new(source, destination, u32_at(begin, 4), Flags(0));
            Said::Unreachable { peer: address_at(lost, 16), quoted, why }
        }
        None => Said::Other,
    }
}

/// Writes packets from one address to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Writer {
    /// Who sends.
    pub from: Ipv4Addr,
    /// To whom.
    pub to: Ipv4Addr,
}

impl Writer {
    /// Writes the headers of a packet with this payload, which may lie in two parts, and says how
    /// long they are. The packet must not be cut on its way.
    ///
    /// # Panics
    /// When headers and payload are longer than a packet can be.
    pub fn headers(
        &self,
        out: &mut [u8; HEADERS_MAX_BYTES],
        segment: &Segment,
        payload: [&[u8]; 2],
    ) -> usize {
        let end =
            IPV4_BYTES + TCP_BYTES + write_options(&mut out[IPV4_BYTES + TCP_BYTES..], segment);
        let tcp = &mut out[IPV4_BYTES..end];
        put_u16(tcp, 0, segment.source);
        put_u16(tcp, 2, segment.destination);
        put_u32(tcp, 4, segment.seq);
        put_u32(tcp, 8, segment.ack);
        // At most 60 octets.
        tcp[12] = ((tcp.len() / 4) << 4) as u8;
        tcp[13] = segment.flags.0 & FLAGS;
        put_u16(tcp, 14, segment.window);
        put_u32(tcp, 16, 0);
        let octets = payload.iter().map(|part| part.len()).sum::<usize>();
        let mut sum = pseudo(self.from, self.to, tcp.len() + octets);
        sum.add(tcp);
        payload.iter().for_each(|part| sum.add(part));
        sum.write(&mut tcp[16..18]);
        self.ip(&mut out[..IPV4_BYTES], PROTOCOL_TCP, end + octets, segment.ect);
        end
    }

    /// Writes the answer to [`Said::Echo`] into `out` and says how long it is; `None` when there is
    /// no room.
    pub fn echo(&self, out: &mut [u8], asked: &[u8]) -> Option<usize> {
        let end = IPV4_BYTES + 4 + asked.len();
        let packet = out.get_mut(..end)?;
        let (header, body) = packet.split_at_mut(IPV4_BYTES);
        put_u32(body, 0, 0);
        body[4..].copy_from_slice(asked);
        let sum = Sum::of(body);
        sum.write(&mut body[2..4]);
        self.ip(header, PROTOCOL_ICMP, end, false);
        Some(end)
    }

    fn ip(&self, out: &mut [u8], protocol: u8, whole: usize, ect: bool) {
        let whole = u16::try_from(whole).expect("a packet has at most 65535 octets");
        out[0] = 0x45;
        out[1] = if ect { 2 } else { 0 };
        put_u16(out, 2, whole);
        // No number: nobody may cut it (RFC 6864).
        put_u32(out, 4, 0x4000);
        (out[8], out[9]) = (64, protocol);
        put_u16(out, 10, 0);
        out[12..16].copy_from_slice(&self.from.octets());
        out[16..20].copy_from_slice(&self.to.octets());
        let sum = Sum::of(out);
        sum.write(&mut out[10..12]);
    }
}

/// In the order of Linux: largest segment, leave to acknowledge selectively beside timestamps or in
/// place of padding, shift of windows, selective acknowledgements [incast 2.5]. Says how many
/// octets.
fn write_options(out: &mut [u8], segment: &Segment) -> usize {
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        out[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    if let Some(mss) = segment.mss {
        let [high, low] = mss.to_be_bytes();
        put(&[MSS, 4, high, low]);
    }
    let padding = if segment.sack_permitted { [SACK_PERMITTED, 2] } else { [NOTHING; 2] };
    if let Some(stamps) = segment.stamps {
        put(&padding);
        put(&[STAMPS, 10]);
        put(&stamps.value.to_be_bytes());
        put(&stamps.echo.to_be_bytes());
    } else if segment.sack_permitted {
        put(&[NOTHING, NOTHING]);
        put(&padding);
    }
    if let Some(scale) = segment.scale {
        put(&[NOTHING, SCALE, 3, scale]);
    }
    // With timestamps there is room for three.
    let most = if segment.stamps.is_some() { 3 } else { 4 };
    let blocks = segment.sacks.blocks();
    let blocks = &blocks[..blocks.len().min(most)];
    if !blocks.is_empty() {
        put(&[NOTHING, NOTHING, SACK, 2 + 8 * blocks.len() as u8]);
        for (left, right) in blocks {
            put(&left.to_be_bytes());
            put(&right.to_be_bytes());
        }
    }
    at
}

/// The sum of the Internet (RFC 1071): of 16-bit words, with what overflows added below.
#[derive(Clone, Copy, Debug)]
struct Sum {
    total: u64,
    /// So far it has an odd number of octets.
    odd: bool,
}

impl Sum {
    fn of(bytes: &[u8]) -> Sum {
        let mut sum = Sum { total: 0, odd: false };
        sum.add(bytes);
        sum
    }

    /// In the order of this machine, which does not change the sum but for its octets' order.
    fn add(&mut self, bytes: &[u8]) {
        let words = bytes.chunks_exact(4);
        let mut last = [0; 4];
        let rest = words.remainder();
        last[..rest.len()].copy_from_slice(rest);
        let word =
            |word: &[u8]| u64::from(u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
        let sum = words.map(word).sum::<u64>() + word(&last);
        let folded = fold(sum);
        self.total += u64::from(if self.odd { folded.swap_bytes() } else { folded });
        self.odd ^= bytes.len() % 2 == 1;
    }

    /// What the header's field must be for the whole to be right; zero when it is.
    fn value(self) -> u16 {
        !fold(self.total)
    }

    fn write(self, field: &mut [u8]) {
        field.copy_from_slice(&self.value().to_ne_bytes());
    }
}

fn fold(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// What TCP adds to its sum from below.
fn pseudo(from: Ipv4Addr, to: Ipv4Addr, octets: usize) -> Sum {
    let mut sum = Sum::of(&from.octets());
    sum.add(&to.octets());
    sum.add(&[0, PROTOCOL_TCP]);
    // A body of IPv4 has at most 65515 octets.
    sum.add(&(octets as u16).to_be_bytes());
    sum
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn address_at(bytes: &[u8], at: usize) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32_at(bytes, at))
}

fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}
