//! The codec against packets of Linux, against itself, and against bytes of nobody
//! ([incast 2.4], [incast 2.5]).

use cavy_core::family::stream::Unreachable;
use cavy_tcp::wire::{Damage, HEADERS_MAX_BYTES, Said, Writer, read};
use cavy_tcp::{Flags, Sacks, Segment, Stamps};
use proptest::prelude::*;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::Path;

#[path = "../../../fuzz/targets/tcp.rs"]
mod target;

const US: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);

/// A packet of the captures: its name, what it says, and its bytes.
fn captures() -> Vec<(String, String, Vec<u8>)> {
    let all = include_str!("captures/linux.txt").lines().filter(|line| !line.starts_with('#'));
    let parts = all.map(|line| line.split(" | ").collect::<Vec<_>>());
    parts.map(|parts| (parts[0].to_string(), parts[1].to_string(), unhex(parts[2]))).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let pairs = (0..text.len()).step_by(2);
    pairs.map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex")).collect()
}

/// In the words of make.py.
fn words(segment: &Segment, payload: &[u8]) -> String {
    let mut text = format!("{}>{} {:?}", segment.source, segment.destination, segment.flags);
    let letters = [(2, 'S'), (1, 'F'), (4, 'R'), (8, 'P'), (16, '.')];
    let flags = letters.iter().filter(|(bit, _)| segment.flags.0 & bit != 0);
    assert!(text.ends_with(&flags.map(|(_, letter)| letter).collect::<String>()));
    let (seq, ack, window) = (segment.seq, segment.ack, segment.window);
    write!(text, " seq {seq} ack {ack} window {window}").expect("text");
    let mut put = |said: String| text.push_str(&said);
    segment.mss.iter().for_each(|mss| put(format!(" mss {mss}")));
    if segment.sack_permitted {
        put(" sackok".to_string());
    }
    segment.stamps.iter().for_each(|one| put(format!(" stamps {},{}", one.value, one.echo)));
    segment.scale.iter().for_each(|scale| put(format!(" scale {scale}")));
    segment.sacks.blocks().iter().for_each(|(left, right)| put(format!(" sack {left}:{right}")));
    put(format!(" octets {}", payload.len()));
    text
}

#[test]
fn incast_2_5_segments_of_linux_are_read_and_written_to_the_byte() {
    let mut count = 0;
    for (name, said, bytes) in captures().iter().filter(|(_, said, _)| !said.starts_with("icmp")) {
        let packet = read(bytes).unwrap_or_else(|damage| panic!("{name}: {damage:?}"));
        assert_eq!((packet.from, packet.to), (KERNEL, US), "{name}");
        let Said::Tcp { segment, payload, marked: false } = packet.said else {
            panic!("{name}: {packet:?}")
        };
        assert_eq!(words(&segment, payload), *said, "{name}");
        // From the header of TCP on: the kernel numbers its packets, and we do not.
        let mut headers = [0; HEADERS_MAX_BYTES];
        let end = Writer { from: KERNEL, to: US }.headers(&mut headers, &segment, [payload, &[]]);
        assert_eq!([&headers[20..end], payload].concat(), bytes[20..], "{name}");
        assert_eq!(segment.options_bytes() as usize, end - 40, "{name}");
        count += 1;
    }
    assert!(count >= 24, "{count} segments");
}

#[test]
fn what_routers_say_is_understood() {
    let named = |wanted: &str| {
        let all = captures();
        let (.., bytes) = all.into_iter().find(|(name, ..)| name == wanted).expect("a capture");
        bytes
    };
    let all = [
        ("too long", Ipv4Addr::new(10, 8, 0, 9), 4242, Unreachable::TooLong { mtu_bytes: 600 }),
        ("no way", Ipv4Addr::new(10, 7, 0, 9), 4243, Unreachable::Host),
        ("forbidden", Ipv4Addr::new(10, 6, 0, 9), 4244, Unreachable::Protocol),
    ];
    for (name, to, seq, expected) in all {
        let bytes = named(name);
        let Said::Unreachable { peer, quoted, why } = read(&bytes).expect("sound").said else {
            panic!("{name}")
        };
        assert_eq!((peer, quoted.source, quoted.destination, quoted.seq), (to, 7, 8, seq));
        assert_eq!(why, expected, "{name}");
    }
    assert_eq!(read(&named("echo reply")).expect("sound").said, Said::Other);
}

#[test]
fn a_question_whether_somebody_is_there_is_answered_as_the_kernel_answers() {
    let reply = captures().into_iter().find(|(name, ..)| name == "echo reply").expect("one").2;
    let mut asked = reply.clone();
    // Type 8 in place of 0; the sum changes by as much.
    asked[20] = 8;
    let sum = u16::from_be_bytes([asked[22], asked[23]]) - 0x0800;
    asked[22..24].copy_from_slice(&sum.to_be_bytes());
    let packet = read(&asked).expect("sound");
    let Said::Echo(data) = packet.said else { panic!("{packet:?}") };
    let mut answer = vec![0; reply.len()];
    let writer = Writer { from: packet.from, to: packet.to };
    assert_eq!(writer.echo(&mut answer, data), Some(reply.len()));
    assert_eq!(answer[20..], reply[20..]);
    assert_eq!(writer.echo(&mut answer[..27], data), None);
}

/// A packet with this TCP header, behind right sums.
fn sealed(tcp: &[u8]) -> Vec<u8> {
    let mut headers = [0; HEADERS_MAX_BYTES];
    let segment = Segment::new(1, 2, 3, Flags::ACK);
    let writer = Writer { from: US, to: KERNEL };
    writer.headers(&mut headers, &segment, [&tcp[20.min(tcp.len())..], &[]]);
    let mut packet = [&headers[..20], tcp].concat();
    mend(&mut packet);
    packet
}

/// Makes the sums right, whatever the rest is.
fn mend(packet: &mut [u8]) {
    let sum = |parts: &[&[u8]]| {
        let all = parts.concat();
        let pairs = all.chunks(2).map(|pair| match *pair {
            [high, low] => u32::from(high) << 8 | u32::from(low),
            [high] => u32::from(high) << 8,
            _ => 0,
        });
        let mut sum: u32 = pairs.sum();
        while sum >> 16 != 0 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    };
    let end = usize::from(packet[0] & 15) * 4;
    if (20..=packet.len().saturating_sub(18)).contains(&end) {
        packet[10..12].fill(0);
        let header = sum(&[&packet[..end]]);
        packet[10..12].copy_from_slice(&header.to_be_bytes());
        let field = if packet[9] == 1 { end + 2 } else { end + 16 };
        packet[field..field + 2].fill(0);
        let length = ((packet.len() - end) as u16).to_be_bytes();
        let pseudo = [&packet[12..20], &[0, 6], &length].concat();
        let pseudo = if packet[9] == 1 { &[][..] } else { &pseudo[..] };
        let body = sum(&[pseudo, &packet[end..]]);
        packet[field..field + 2].copy_from_slice(&body.to_be_bytes());
    }
}

fn tcp(flags: u8, options: &[u8]) -> Vec<u8> {
    let words = (20 + options.len()) / 4;
    let mut header = vec![0, 9, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, (words << 4) as u8, flags, 1, 0];
    header.extend([0; 4]);
    header.extend(options);
    header
}

fn segment_of(packet: &[u8]) -> Segment {
    match read(packet).expect("accepted").said {
        Said::Tcp { segment, .. } => segment,
        other => panic!("{other:?}"),
    }
}

#[test]
fn incast_2_5_options_that_make_no_sense_end_the_list_and_nothing_else() {
    let plain = segment_of(&sealed(&tcp(2, &[])));
    // Length 0, length 1, longer than there is, cut off after the kind.
    for bad in [[2, 0, 0, 0], [2, 1, 5, 5], [2, 5, 5, 5], [1, 1, 1, 2]] {
        assert_eq!(segment_of(&sealed(&tcp(2, &bad))), plain, "{bad:?}");
    }
    // What is behind the end, and what is not known.
    assert_eq!(segment_of(&sealed(&tcp(2, &[0, 2, 4, 5]))), plain);
    let known = segment_of(&sealed(&tcp(2, &[254, 4, 9, 9, 2, 4, 1, 2])));
    assert_eq!(known, Segment { mss: Some(0x0102), ..plain });
    // Options of the wrong length are skipped: an MSS of three, timestamps of eight.
    let odd = [2, 3, 9, 8, 8, 1, 2, 3, 4, 5, 6, 1];
    assert_eq!(segment_of(&sealed(&tcp(2, &odd))), plain);
    // What belongs into a SYN is not heard elsewhere, and the other way round.
    let data = segment_of(&sealed(&tcp(16, &[2, 4, 5, 5, 3, 3, 7, 1, 4, 2, 1, 1])));
    assert_eq!(data, Segment { flags: Flags::ACK, ..plain });
    assert_eq!(segment_of(&sealed(&tcp(2, &[5, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 1]))), plain);
    assert_eq!(segment_of(&sealed(&tcp(2, &[3, 3, 200, 1]))).scale, Some(14));
}

#[test]
fn packets_that_nobody_should_answer_say_why() {
    let good = sealed(&tcp(16, &[]));
    let spoilt = |at: usize, value: u8| {
        let mut packet = good.clone();
        packet[at] = value;
        packet
    };
    let mended = |at: usize, value: u8| {
        let mut packet = spoilt(at, value);
        mend(&mut packet);
        packet
    };
    let cut = |at: usize| good[..at].to_vec();
    let cases = [
        (vec![], Damage::Short),
        (cut(19), Damage::Short),
        (cut(39), Damage::Short),
        (spoilt(0, 0x65), Damage::Version),
        (spoilt(0, 0x44), Damage::Header),
        (spoilt(0, 0x4f), Damage::Header),
        (mended(6, 0x20), Damage::Fragment),
        (mended(7, 0x01), Damage::Fragment),
        (spoilt(8, 63), Damage::HeaderSum),
        (spoilt(33, 0x18), Damage::Sum),
        (mended(12, 224), Damage::Address),
        (mended(12, 0), Damage::Address),
        (mended(16, 255), Damage::Address),
        (mended(32, 0x40), Damage::Offset),
        (mended(32, 0x60), Damage::Offset),
    ];
    for (packet, expected) in cases {
        let wide = expected == Damage::Address && packet[16] == 255;
        let found = read(&packet);
        // 255.9.0.2 is no broadcast, though nobody has it.
        assert!(wide || found == Err(expected), "{packet:02x?}: {found:?}, not {expected:?}");
    }
    let mut to_itself = good.clone();
    to_itself.copy_within(12..16, 16);
    mend(&mut to_itself);
    assert_eq!(read(&to_itself), Err(Damage::Address));
    // The link may pad; the padding is not payload.
    assert_eq!(read(&[&good[..], &[7; 6]].concat()), read(&good));
}

#[test]
fn the_corpus_is_replayed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/tcp");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("the corpus") {
        let path = entry.expect("a file").path();
        println!("{}", path.display());
        target::run(&std::fs::read(path).expect("it can be read"));
        count += 1;
    }
    assert!(count >= 30, "{count} files");
}

prop_compose! {
    fn segments()(
        ports in any::<(u16, u16)>(),
        numbers in any::<(u32, u32)>(),
        window in any::<u16>(),
        flags in 0_u8..0x40,
        mss in any::<Option<u16>>(),
        scale in prop::option::of(0_u8..=14),
        sack_permitted in any::<bool>(),
        stamps in any::<Option<(u32, u32)>>(),
        blocks in prop::collection::vec(any::<(u32, u32)>(), 0..=4),
    ) -> Segment {
        let mut segment = Segment::new(ports.0, ports.1, numbers.0, Flags(flags));
        (segment.ack, segment.window) = (numbers.1, window);
        segment.stamps = stamps.map(|(value, echo)| Stamps { value, echo });
        if segment.flags.has(Flags::SYN) {
            (segment.mss, segment.scale) = (mss, scale);
            segment.sack_permitted = sack_permitted;
        } else {
            let most = if stamps.is_some() { 3 } else { 4 };
            let mut sacks = Sacks::NONE;
            blocks.iter().take(most).for_each(|&(left, right)| {
                sacks.push(left, right);
            });
            segment.sacks = sacks;
        }
        segment
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        segment in segments(),
        payload in prop::collection::vec(any::<u8>(), 0..200),
        cut in 0_usize..200,
        flip in any::<prop::sample::Index>(),
    ) {
        let (first, second) = payload.split_at(cut.min(payload.len()));
        let mut headers = [0; HEADERS_MAX_BYTES];
        let end = Writer { from: US, to: KERNEL }.headers(&mut headers, &segment, [first, second]);
        let mut packet = [&headers[..end], &payload[..]].concat();
        let read_back = read(&packet);
        let said = Said::Tcp { segment, payload: &payload, marked: false };
        prop_assert_eq!(read_back.map(|packet| packet.said), Ok(said));
        prop_assert_eq!(end, 40 + segment.options_bytes() as usize);
        // No single bit goes wrong unseen.
        let bit = flip.index(packet.len() * 8);
        packet[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(read(&packet).is_err());
    }

    #[test]
    fn bytes_of_nobody_are_borne(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
        whole in any::<bool>(),
    ) {
        let all = captures();
        let mut packet = all[which.index(all.len())].2.clone();
        if !whole {
            packet.truncate(cut.index(packet.len()) + 1);
        }
        for (at, value) in changes {
            let at = at.index(packet.len());
            packet[at] = value;
        }
        target::run(&packet);
        // Sums that are right let it through to what is behind them.
        mend(&mut packet);
        target::run(&packet);
    }
}
