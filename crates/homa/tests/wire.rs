//! The wire format against the vectors of [homa 7.2], against itself, and against rubbish.
#![allow(non_snake_case)]

use cavy_core::family::packet::{Extent, Header as _, Message};
use cavy_homa::packet::{ALL_SENT, Acks, Data, Flags, Kind, Published, Refusal};
use cavy_homa::wire::{Dialect, HEADER_MAX_BYTES, Ports, Repr, Type, View, WireError};
use cavy_homa::{Config, Cutoffs};
use proptest::prelude::*;

const CLIENT: u16 = 0x8005;
const SERVER: u16 = 99;
const TO_SERVER: Ports = Ports { source: CLIENT, destination: SERVER };
const TO_CLIENT: Ports = Ports { source: SERVER, destination: CLIENT };

fn dialect() -> Dialect {
    Dialect::of(&Config::linux())
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pair = |pair: &[u8]| {
        u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("digits")
    };
    digits.chunks(2).map(pair).collect()
}

fn emit(repr: &Repr, payload: &[u8]) -> Vec<u8> {
    let mut header = [0xff; HEADER_MAX_BYTES];
    let length = repr.emit(&dialect(), &mut header);
    [&header[..length], payload].concat()
}

fn parse(bytes: &[u8]) -> Result<Repr, WireError> {
    View::new(bytes).and_then(|view| Repr::parse(&view, &dialect()))
}

fn control(ports: Ports, name: u64, kind: Kind) -> Repr {
    let extent = Extent { message: Message(name), offset_bytes: 0, length_bytes: 0 };
    Repr { ports, kind, extent }
}

/// The vectors of the specification, and what they say.
fn vectors() -> Vec<(&'static str, Vec<u8>, Repr, &'static [u8])> {
    let data = Data {
        message_bytes: 5,
        incoming_bytes: 5,
        ack: 0,
        cutoffs_version: 1,
        backlog: 0,
        flags: Flags::ASKS,
    };
    let hello = Repr {
        ports: TO_SERVER,
        kind: Kind::Data(data),
        extent: Extent { message: Message(0x1234), offset_bytes: 0, length_bytes: 5 },
    };
    let grant = Kind::Grant { offset_bytes: 41_424, priority: 2 };
    let resend = Kind::Resend { offset_bytes: 1_400, length_bytes: 2_800, priority: 7 };
    let module = Cutoffs::new(8, &[200, 2_800, 15_000]).expect("ascending");
    let cutoffs = Kind::Cutoffs(Published::new(&module, 1));
    let ack = format!(
        "800500630000000000000018500600000000b97d0000000000001234 0001 0000000000001234 0063{}",
        "0".repeat(80)
    );
    let vector = |name, text: &str, repr| (name, hex(text), repr, &b""[..]);
    vec![
        (
            "DATA",
            hex(
                "800500630000000000000010e00600000000b97d00000000000012340000000500000005000000000000000000000001000000000000000068656c6c6f",
            ),
            hello,
            b"hello",
        ),
        vector(
            "GRANT",
            "006380050000000000000011500600000000b97d00000000000012350000a1d002",
            control(TO_CLIENT, 0x1235, grant),
        ),
        vector(
            "RESEND",
            "006380050000000000000012500600000000b97d00000000000012350000057800000af007",
            control(TO_CLIENT, 0x1235, resend),
        ),
        vector(
            "CUTOFFS",
            "006380050000000000000015500600000000b97d000000000000123500000000000000000000000000000000000f424000003a9800000af0000000c80001",
            control(TO_CLIENT, 0x1235, cutoffs),
        ),
        vector(
            "NEED_ACK",
            "006380050000000000000017500600000000b97d0000000000001235",
            control(TO_CLIENT, 0x1235, Kind::NeedAck),
        ),
        vector("ACK", &ack, control(TO_SERVER, 0x1234, Kind::Ack(Acks::default()))),
    ]
}

#[test]
fn clause_7_2_vectors_are_read() {
    for (name, bytes, repr, payload) in vectors() {
        let view = View::new(&bytes).expect(name);
        assert_eq!(Repr::parse(&view, &dialect()), Ok(repr), "{name}");
        assert_eq!(view.payload(), payload, "{name}");
    }
}

#[test]
fn clause_7_2_vectors_are_written_byte_for_byte() {
    for (name, bytes, repr, payload) in vectors() {
        let written = emit(&repr, payload);
        if name == "DATA" {
            // The vector has the offset in the segment; the module itself, and so do we, puts it
            // in `sequence` and says so [homa 7.3]. All else is the same.
            assert_eq!(written[..52], bytes[..52], "{name}");
            assert_eq!(written[52..56], [0xff; 4]);
            assert_eq!(written[56..], bytes[56..], "{name}");
        } else {
            assert_eq!(written, bytes, "{name}");
        }
    }
}

#[test]
fn clause_7_2_headers_are_as_long_as_the_machine_counts_them() {
    for (name, _, repr, _) in vectors() {
        assert_eq!(emit(&repr, b"").len() as u32, repr.header().wire_bytes(), "{name}");
    }
    for kind in [Kind::Busy, Kind::Unknown, Kind::Refused(Refusal::Overloaded)] {
        assert_eq!(emit(&control(TO_CLIENT, 1, kind), b"").len(), 28);
    }
}

#[test]
fn a_refusal_is_unknown_to_those_who_have_none() {
    let cavy = Dialect { says_refusals: true, ..dialect() };
    for (refusal, mark) in [(Refusal::Overloaded, 1), (Refusal::Unanswered, 2)] {
        let repr = control(TO_CLIENT, 0x1235, Kind::Refused(refusal));
        let mut header = [0xff; HEADER_MAX_BYTES];
        let length = repr.emit(&cavy, &mut header);
        let bytes = &header[..length];
        assert_eq!((bytes[8], bytes[11]), (mark, Type::Unknown as u8));
        let view = View::new(bytes).expect("whole");
        assert_eq!(Repr::parse(&view, &cavy), Ok(repr));
        // The module reads none of the bytes that differ.
        let unknown = control(TO_CLIENT, 0x1235, Kind::Unknown);
        assert_eq!(Repr::parse(&view, &dialect()), Ok(unknown));
        assert_eq!(emit(&repr, b""), emit(&unknown, b""), "nothing of it without the dialect");
    }
}

#[test]
fn clause_7_2_a_segment_offset_of_all_ones_means_the_sequence() {
    let (_, mut bytes, _, _) = vectors().remove(0);
    bytes[4..8].copy_from_slice(&1_424_u32.to_be_bytes());
    assert_eq!(parse(&bytes).map(|repr| repr.extent.offset_bytes), Ok(0), "the segment's own");
    bytes[52..56].copy_from_slice(&[0xff; 4]);
    assert_eq!(parse(&bytes).map(|repr| repr.extent.offset_bytes), Ok(1_424));
    bytes[52..56].copy_from_slice(&2_848_u32.to_be_bytes());
    assert_eq!(parse(&bytes).map(|repr| repr.extent.offset_bytes), Ok(2_848));
}

#[test]
fn clause_7_2_a_grant_of_the_draft_has_one_byte_more() {
    let (_, mut bytes, repr, _) = vectors().remove(1);
    bytes.push(1);
    assert_eq!(parse(&bytes), Ok(repr));
    bytes.truncate(32);
    assert_eq!(parse(&bytes), Err(WireError::Short { bytes: 32, least: 33 }));
}

#[test]
fn clause_7_2_marks_of_the_disguise_are_ignored() {
    for (name, mut bytes, repr, _) in vectors() {
        for at in [12, 13, 14, 15, 16, 17, 18, 19] {
            bytes[at] = 0;
        }
        assert_eq!(parse(&bytes), Ok(repr), "{name}");
    }
}

#[test]
fn clause_7_2_shorter_than_the_header_of_its_type_is_dropped() {
    for (name, bytes, _, payload) in vectors() {
        let header = bytes.len() - payload.len();
        for length in 0..header {
            let short = parse(&bytes[..length]);
            assert!(matches!(short, Err(WireError::Short { .. })), "{name} of {length}: {short:?}");
        }
        assert!(parse(&bytes[..header]).is_ok(), "{name}");
    }
}

#[test]
fn clause_2_3_freeze_and_unknown_types_are_refused() {
    let mut bytes = vectors()[4].1.clone();
    for byte in 0..=u8::MAX {
        bytes[11] = byte;
        bytes.resize(HEADER_MAX_BYTES, 0);
        match Type::from_byte(byte) {
            None => assert_eq!(parse(&bytes), Err(WireError::Type(byte))),
            Some(Type::Freeze) => assert_eq!(parse(&bytes), Err(WireError::Freeze)),
            Some(Type::Cutoffs) => assert_eq!(parse(&bytes), Err(WireError::Version)),
            Some(_) => assert!(parse(&bytes).is_ok(), "{byte:#x}"),
        }
    }
}

#[test]
fn clause_2_12_acknowledgements_name_their_server_port() {
    // What the module sends for a full list: five names, none of which needs to be the packet's
    // own.
    let ids: [(u64, u16); 5] =
        [(10, SERVER), (20, 98), (6, SERVER), (1 << 40, SERVER), (12, SERVER)];
    let mut bytes = vectors()[5].1.clone();
    bytes[28..30].copy_from_slice(&5_u16.to_be_bytes());
    for (at, (id, port)) in ids.into_iter().enumerate() {
        bytes[30 + 10 * at..38 + 10 * at].copy_from_slice(&id.to_be_bytes());
        bytes[38 + 10 * at..40 + 10 * at].copy_from_slice(&port.to_be_bytes());
    }
    // The header's name is the first; another port's is left out, and one that is too far away.
    let near = |ids: [u64; 3]| ids.map(|id| (id as i64 - 0x1234) as i32);
    let [first, second, third] = near([10, 6, 12]);
    let acks = Acks([first, second, third, 0]);
    assert_eq!(parse(&bytes), Ok(control(TO_SERVER, 0x1234, Kind::Ack(acks))));
    // Whoever owns the endpoint sees all of them.
    let all: Vec<_> = View::new(&bytes).expect("whole").acknowledged().collect();
    assert_eq!(all, ids);
    bytes[29] = 6;
    assert_eq!(parse(&bytes), Err(WireError::Acks), "more than five");
}

/// Bytes of the module, of 2026-11: it answers NEED_ACK by an ACK whose header names the exchange,
/// and whose list has only others, or nobody.
#[test]
fn clause_2_12_an_ack_ends_the_exchange_of_its_header() {
    let need_ack = hex("0063800a 00000000 000000 17 50 06 0000 0000 b97d 0000 0000 0000 490d");
    let asked = Ports { source: SERVER, destination: 0x800a };
    assert_eq!(emit(&control(asked, 0x490d, Kind::NeedAck), b""), need_ack);
    let empty = format!(
        "800a0063 00000000 000000 18 50 06 0000 0000 b97d 0000 0000 0000 490c 0000 {}",
        "0".repeat(100)
    );
    let mut bytes = hex(&empty);
    let ack = |acks| Ok(control(asked.reversed(), 0x490c, Kind::Ack(Acks(acks))));
    assert_eq!(parse(&bytes), ack([0; 4]), "an empty list");
    // Five others fill the list.
    bytes[28..30].copy_from_slice(&5_u16.to_be_bytes());
    for (at, id) in (0..5).zip([0x4902_u64, 0x4904, 0x4906, 0x4908, 0x490a]) {
        bytes[30 + 10 * at..38 + 10 * at].copy_from_slice(&id.to_be_bytes());
        bytes[38 + 10 * at..40 + 10 * at].copy_from_slice(&SERVER.to_be_bytes());
    }
    assert_eq!(parse(&bytes), ack([-10, -8, -6, -4]), "a full one");
    assert_eq!(View::new(&bytes).expect("whole").acknowledged().count(), 5);
}

/// The module puts an acknowledgement into any DATA to a host, of an answer too, and says which
/// server's it is.
#[test]
fn clause_2_12_an_acknowledgement_rides_in_the_data_of_an_answer() {
    let mut bytes = vectors()[0].1.clone();
    bytes[0..4].copy_from_slice(&hex("0063 8005"));
    bytes[27] = 0x35;
    bytes[36..46].copy_from_slice(&hex("0000 0000 0000 490c 0063"));
    let view = View::new(&bytes).expect("whole");
    assert_eq!(view.acknowledged().collect::<Vec<_>>(), [(0x490c, SERVER)]);
    let Ok(Repr { kind: Kind::Data(data), extent, .. }) = parse(&bytes) else { panic!("DATA") };
    assert_eq!((data.ack, extent.message), (0, Message(0x1235)), "it is for another port");
}

#[test]
fn clause_2_6_cutoffs_of_any_peer_choose_the_level_that_it_would() {
    // Not ascending, all different, with a hole: whatever the eight numbers are, the highest level
    // whose bound is not below the length is taken.
    let cases: [[u32; 8]; 5] = [
        [0, 0, 0, 0, 1_000_000, 15_000, 2_800, 200],
        [0, 0, 0, 0, 0, 0, 1_000_000, 0],
        [0, 0, 1_000_000, 900_000, 80_000, 100, 2_000, 300],
        [u32::MAX; 8],
        [7, 1_000_000, 6_000, 5_000, 4_000, 3_000, 2_000, 1_000],
    ];
    for bounds in cases {
        let mut bytes = vectors()[3].1.clone();
        for (level, bound) in bounds.into_iter().enumerate() {
            bytes[28 + 4 * level..32 + 4 * level].copy_from_slice(&bound.to_be_bytes());
        }
        let Ok(Repr { kind: Kind::Cutoffs(published), .. }) = parse(&bytes) else {
            panic!("cut-offs");
        };
        let cutoffs = published.cutoffs(8).expect("cut-offs");
        for size in [1, 99, 100, 101, 200, 300, 301, 2_800, 2_801, 15_001, 80_001, 999_999] {
            let module = (1..8).rev().find(|&level| bounds[level] >= size).unwrap_or(0);
            assert_eq!(usize::from(cutoffs.level(size)), module, "{size} in {bounds:?}");
        }
    }
}

/// One line a packet: what becomes of it, then its bytes. Grown by hand from what broke a parser
/// somewhere, and from what [homa 6] reports.
#[test]
fn corpus_of_odd_packets_is_replayed() {
    let mut kinds = [0; WireError::KINDS];
    let mut accepted = 0;
    for line in include_str!("data/wire-corpus.txt").lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (expected, bytes) = line.split_once(' ').expect("a verdict and bytes");
        let found = parse(&hex(bytes));
        let name = match &found {
            Ok(_) => "ok",
            Err(WireError::Short { .. }) => "short",
            Err(WireError::Type(_)) => "type",
            Err(WireError::Freeze) => "freeze",
            Err(WireError::Acks) => "acks",
            Err(WireError::Version) => "version",
            Err(other) => panic!("{other}"),
        };
        assert_eq!(name, expected, "{line}: {found:?}");
        match found {
            Ok(_) => accepted += 1,
            Err(error) => kinds[error.kind()] += 1,
        }
    }
    assert!(accepted > 5 && kinds.iter().all(|&count| count > 0), "{accepted} {kinds:?}");
}

fn name() -> impl Strategy<Value = u64> {
    prop_oneof![0..100_u64, any::<u64>(), Just(u64::MAX)]
}

fn near(name: u64) -> impl Strategy<Value = i32> {
    let range = prop_oneof![Just(0), -100..100_i32, any::<i32>()];
    // A piggybacked name of zero means none.
    range.prop_map(move |d| if name.wrapping_add_signed(d.into()) == 0 { 0 } else { d })
}

fn data_kind(name: u64) -> impl Strategy<Value = Kind> {
    (any::<[u32; 2]>(), near(name), any::<u16>(), any::<[bool; 2]>()).prop_map(
        move |([message_bytes, incoming_bytes], ack, cutoffs_version, [again, incast])| {
            let flags = Flags::default()
                .and(Flags::RETRANSMIT, again)
                .and(Flags::INCAST, incast)
                .and(Flags::ASKS, name & 1 == 0);
            let backlog = 0;
            Kind::Data(Data { message_bytes, incoming_bytes, ack, cutoffs_version, backlog, flags })
        },
    )
}

fn acks() -> impl Strategy<Value = Acks> {
    prop::collection::vec(1..1_000_i32, 0..=4).prop_map(|some| {
        let mut acks = Acks::default();
        acks.0[..some.len()].copy_from_slice(&some);
        acks
    })
}

fn cutoffs() -> impl Strategy<Value = Published> {
    (prop::collection::vec(0..999_999_u32, 0..=6), 1..=u16::MAX).prop_map(
        |(mut bounds, version)| {
            bounds.sort_unstable();
            Published::new(&Cutoffs::new(8, &bounds).expect("ascending"), version)
        },
    )
}

fn repr() -> impl Strategy<Value = Repr> {
    let kind = |name| {
        prop_oneof![
            data_kind(name),
            any::<(u32, u8)>()
                .prop_map(|(offset_bytes, priority)| Kind::Grant { offset_bytes, priority }),
            (any::<u32>(), prop_oneof![any::<u32>(), Just(ALL_SENT)], any::<u8>()).prop_map(
                |(offset_bytes, length_bytes, priority)| Kind::Resend {
                    offset_bytes,
                    length_bytes,
                    priority
                }
            ),
            Just(Kind::Busy),
            Just(Kind::Unknown),
            Just(Kind::Refused(Refusal::Unanswered)),
            Just(Kind::NeedAck),
            cutoffs().prop_map(Kind::Cutoffs),
            acks().prop_map(Kind::Ack),
        ]
    };
    let all = name().prop_flat_map(move |name| (Just(name), kind(name)));
    (all, any::<[u16; 2]>(), any::<u32>(), 0..200_u32).prop_map(
        |((name, kind), [source, destination], offset, length)| {
            let data = matches!(kind, Kind::Data(_));
            let (offset_bytes, length_bytes) = if data { (offset, length) } else { (0, 0) };
            Repr {
                ports: Ports { source, destination },
                kind,
                extent: Extent { message: Message(name), offset_bytes, length_bytes },
            }
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(repr in repr()) {
        let payload = vec![0xa5; repr.extent.length_bytes as usize];
        let cavy = Dialect::of(&Config { refusals: true, ..Config::linux() });
        let mut header = [0xff; HEADER_MAX_BYTES];
        let length = repr.emit(&cavy, &mut header);
        let bytes = [&header[..length], &payload].concat();
        prop_assert_eq!(View::new(&bytes).and_then(|view| Repr::parse(&view, &cavy)), Ok(repr));
        prop_assert_eq!(View::new(&bytes).map(|view| view.payload().len()), Ok(payload.len()));
    }

    #[test]
    fn rubbish_is_refused_or_read_but_never_fatal(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        kind in 0x0f..0x1a_u8,
        levels in 0..=9_u8,
    ) {
        let mut bytes = bytes;
        if let Some(place) = bytes.get_mut(11) {
            *place = kind;
        }
        let dialect = Dialect { levels, ..dialect() };
        if let Ok(view) = View::new(&bytes)
            && let Ok(repr) = Repr::parse(&view, &dialect)
        {
            let mut header = [0; HEADER_MAX_BYTES];
            let length = repr.emit(&dialect, &mut header);
            prop_assert_eq!(length, view.kind().header_bytes());
        }
    }

    #[test]
    fn a_flipped_bit_is_never_fatal(repr in repr(), bit in 0..8_usize * 80, cut in 0..80_usize) {
        let mut bytes = emit(&repr, b"payload");
        let at = (bit / 8) % bytes.len();
        bytes[at] ^= 1 << (bit % 8);
        let _ = parse(&bytes);
        let _ = parse(&bytes[..cut.min(bytes.len())]);
    }
}
