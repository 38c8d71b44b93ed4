//! What a router says of a packet that it did not carry on, written by hand: a stack writes no such
//! packets.

use std::net::Ipv4Addr;

/// A packet of ICMP, of the kind *destination unreachable*, that quotes the beginning of the packet
/// it is about. The MTU counts with code 4 only (RFC 1191).
pub fn unreachable(router: Ipv4Addr, to: Ipv4Addr, code: u8, mtu: u16, about: &[u8]) -> Vec<u8> {
    let mut body = vec![3, code, 0, 0, 0, 0];
    body.extend(mtu.to_be_bytes());
    body.extend(&about[..28]);
    let sum = sum_of(&body);
    body[2..4].copy_from_slice(&sum);
    let mut packet = vec![0x45, 0, 0, (20 + body.len()) as u8, 0, 0, 0x40, 0, 64, 1, 0, 0];
    packet.extend(router.octets());
    packet.extend(to.octets());
    let sum = sum_of(&packet);
    packet[10..12].copy_from_slice(&sum);
    packet.extend(body);
    packet
}

/// The sum of the Internet (RFC 1071) over octets in which its own field is zero.
pub fn sum_of(bytes: &[u8]) -> [u8; 2] {
    let pair = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
    let mut sum: u32 = bytes.chunks(2).map(pair).sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}
