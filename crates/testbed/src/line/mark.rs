//! Marks of congestion in the header of IP (RFC 3168), and what else is read there.

use std::net::Ipv4Addr;

/// The two bits of congestion: capable, either way, and met.
const ECN: u8 = 0b11;

/// Where a packet of IPv4 wants to go; `None` for anything else.
pub fn destination(packet: &[u8]) -> Option<Ipv4Addr> {
    let header = packet.first_chunk::<20>()?;
    (header[0] >> 4 == 4).then(|| Ipv4Addr::new(header[16], header[17], header[18], header[19]))
}

/// Marks a packet of IPv4 whose transport is capable of it, and keeps its checksum right: true when
/// it bears the mark now.
pub fn congestion(packet: &mut [u8]) -> bool {
    let Some(header) = packet.first_chunk_mut::<20>() else { return false };
    let old = header[1];
    match old & ECN {
        _ if header[0] >> 4 != 4 => false,
        0 => false,
        ECN => true,
        _ => {
            header[1] = old | ECN;
            // RFC 1624: the sum changes by what the word has changed.
            let sum = u16::from_be_bytes([header[10], header[11]]);
            let words = [!sum, !u16::from(old), u16::from(old | ECN)];
            let sum: u32 = words.into_iter().map(u32::from).sum();
            let folded = (sum & 0xffff) + (sum >> 16);
            let folded = (folded & 0xffff) + (folded >> 16);
            [header[10], header[11]] = (!(folded as u16)).to_be_bytes();
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(header: &[u8]) -> u16 {
        let words = header.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
        let sum: u32 = words.sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        ((folded & 0xffff) + (folded >> 16)) as u16
    }

    fn header(tos: u8, id: u16) -> [u8; 20] {
        let mut header = [0x45, tos, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        [header[4], header[5]] = id.to_be_bytes();
        let check = !sum(&header);
        [header[10], header[11]] = check.to_be_bytes();
        header
    }

    #[test]
    fn a_mark_keeps_the_checksum_and_spares_those_that_know_no_marks() {
        for id in (0..=u16::MAX).step_by(7) {
            for (tos, marked) in [(0, false), (1, true), (2, true), (3, true), (0xe2, true)] {
                let mut packet = header(tos, id);
                assert_eq!(congestion(&mut packet), marked);
                assert_eq!(packet[1] & ECN, if marked { ECN } else { 0 });
                assert_eq!(packet[1] & !ECN, tos & !ECN);
                assert_eq!(sum(&packet), 0xffff, "tos {tos}, id {id}");
            }
        }
    }

    #[test]
    fn what_is_no_ipv4_goes_nowhere() {
        assert_eq!(destination(&header(0, 0)), Some(Ipv4Addr::new(10, 0, 0, 2)));
        assert_eq!(destination(&header(0, 0)[..19]), None);
        assert_eq!(destination(&[0x60; 40]), None);
        assert_eq!(destination(&[]), None);
        assert!(!congestion(&mut [0x62; 40]) && !congestion(&mut [0x45, 2]));
    }
}
