//! What is not written with the key, for this endpoint, now and once, is dropped.

use super::forged::Plain;
use super::*;
use chacha20poly1305::aead::AeadInOut as _;
use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305, XNonce};
use proptest::prelude::*;

const KEY: Key = Key::new([7; 32]);
/// Bytes of a packet before its text.
const COMMON_BYTES: usize = 28;

type Seal = super::Seal<Plain>;

fn seal() -> Seal {
    Seal::new(&KEY, 100).expect("random numbers")
}

fn at(port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], port))
}

fn plain(to: SocketAddr, text: &[u8]) -> Plain {
    Plain { to, bytes: [&[0xaa; COMMON_BYTES], text].concat() }
}

fn bytes(packet: &Plain) -> Vec<u8> {
    packet.bytes.clone()
}

fn ms(ms: u64) -> Instant {
    Instant::ZERO + Span::from_ms(ms)
}

/// Opens a copy.
fn open(seal: &mut Seal, from: SocketAddr, packet: &[u8]) -> Result<Vec<u8>, &'static str> {
    match seal.open(from, &mut packet.to_vec(), ms(0)) {
        Opened::Packet(within) => Ok(within.to_vec()),
        Opened::Own => Err("own"),
        Opened::Unauthentic => Err("unauthentic"),
        Opened::Replayed => Err("replayed"),
    }
}

/// Everything that waits at `from`, whose address is `here`, to `to`; what was opened there.
fn carry(from: &mut Seal, here: SocketAddr, to: &mut Seal) -> Vec<Vec<u8>> {
    let mut opened = Vec::new();
    while let Some(packet) = from.ready() {
        opened.extend(open(to, here, &bytes(&packet)));
    }
    opened
}

/// Two endpoints that know each other's lives, and where they are.
fn acquainted() -> (Seal, Seal) {
    let (mut one, mut two) = (seal(), seal());
    assert_eq!(one.seal(plain(at(2), b"first"), ms(0)), None);
    carry(&mut one, at(1), &mut two);
    carry(&mut two, at(2), &mut one);
    assert_eq!(carry(&mut one, at(1), &mut two).len(), 1);
    (one, two)
}

fn sealed(from: &mut Seal, to: SocketAddr, text: &[u8]) -> Vec<u8> {
    bytes(&from.seal(plain(to, text), ms(9)).expect("its life is known"))
}

#[test]
fn first_packets_wait_for_the_life_of_their_receiver_and_arrive_in_order() {
    let (mut one, mut two) = (seal(), seal());
    for text in [b"a", b"b", b"c"] {
        assert_eq!(one.seal(plain(at(2), text), ms(0)), None);
    }
    let ask = one.ready().expect("it asks");
    assert_eq!(one.ready(), None, "once in a while");
    assert_eq!(open(&mut two, at(1), &bytes(&ask)), Err("own"));
    let tell = two.ready().expect("it tells");
    assert!(bytes(&tell).len() <= bytes(&ask).len(), "nobody is sent more than was sent");
    assert_eq!(open(&mut one, at(2), &bytes(&tell)), Err("own"));
    let texts = carry(&mut one, at(1), &mut two);
    assert_eq!(texts.iter().map(|t| t[COMMON_BYTES]).collect::<Vec<_>>(), b"abc");
    // The other way nothing has to be asked.
    let answer = sealed(&mut two, at(1), b"answer");
    assert_eq!(open(&mut one, at(2), &answer).expect("authentic")[COMMON_BYTES..], *b"answer");
    assert_eq!(one.seal(plain(at(3), b"x"), ms(0)), None);
    assert_eq!(one.seal(plain(at(3), b"x"), ms(1)), None);
    assert!(one.ready().is_some() && one.ready().is_some(), "asked again after a millisecond");
}

#[test]
fn what_is_sealed_shows_nothing_of_the_packet() {
    let (mut one, _) = acquainted();
    let text = b"a text that is long enough not to be there by chance";
    let packet = sealed(&mut one, at(2), text);
    assert_eq!(packet.len(), COMMON_BYTES + text.len() + SEAL_BYTES);
    assert!(!packet.windows(8).any(|part| text.windows(8).any(|other| part == other)));
    assert!(!packet.windows(8).any(|part| part == [0xaa; 8]));
}

#[test]
fn an_altered_bit_or_a_shorter_packet_is_not_authentic() {
    let (mut one, mut two) = acquainted();
    let packet = sealed(&mut one, at(2), b"twenty bytes of text");
    for bit in 0..packet.len() * 8 {
        let mut altered = packet.clone();
        altered[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(open(&mut two, at(1), &altered), Err("unauthentic"), "bit {bit}");
    }
    for length in 0..packet.len() {
        assert_eq!(open(&mut two, at(1), &packet[..length]), Err("unauthentic"), "{length}");
    }
    let longer = [&packet[..], &[0]].concat();
    assert_eq!(open(&mut two, at(1), &longer), Err("unauthentic"));
    assert!(open(&mut two, at(1), &packet).is_ok(), "and none of these spoilt it");
}

#[test]
fn another_key_opens_nothing() {
    let (mut one, _) = acquainted();
    let mut other = Seal::new(&Key::new([8; 32]), 100).expect("random numbers");
    let packet = sealed(&mut one, at(2), b"text");
    assert_eq!(open(&mut other, at(1), &packet), Err("unauthentic"));
    let _ = one.seal(plain(at(3), b"x"), ms(0));
    let ask = one.ready().expect("it asks");
    assert_eq!(open(&mut other, at(1), &bytes(&ask)), Err("unauthentic"));
    // It tells its life to whoever may have known an earlier one, and that is not believed either.
    let tell = other.ready().expect("it tells");
    assert_eq!(open(&mut one, at(2), &bytes(&tell)), Err("unauthentic"));
}

#[test]
fn a_packet_counts_once_and_not_for_others() {
    let (mut one, mut two) = acquainted();
    let packet = sealed(&mut one, at(2), b"once");
    assert!(open(&mut two, at(1), &packet).is_ok());
    assert_eq!(open(&mut two, at(1), &packet), Err("replayed"));
    assert_eq!(open(&mut two, at(9), &packet), Err("replayed"), "from elsewhere neither");
    assert_eq!(open(&mut one, at(2), &packet), Err("unauthentic"), "nor back to who wrote it");
    let mut three = seal();
    assert_eq!(open(&mut three, at(1), &packet), Err("unauthentic"), "nor at another endpoint");
}

#[test]
fn after_a_restart_nothing_counts_that_was_said_before_and_no_nonce_comes_again() {
    let (mut one, mut two) = acquainted();
    let before = sealed(&mut one, at(2), b"before");
    assert!(open(&mut two, at(1), &before).is_ok());
    let mut again = seal();
    assert_eq!(open(&mut again, at(1), &before), Err("unauthentic"));
    // It tells that it has a new life, is asked for it, and the two go on.
    carry(&mut again, at(2), &mut one);
    carry(&mut one, at(1), &mut again);
    carry(&mut again, at(2), &mut one);
    let after = sealed(&mut one, at(2), b"after");
    assert!(open(&mut again, at(1), &after).is_ok());
    assert_eq!(open(&mut again, at(1), &before), Err("unauthentic"));
    // What the earlier life told, said again, changes nothing.
    let (mut one_b, mut two_b) = (seal(), seal());
    let _ = one_b.seal(plain(at(2), b"x"), ms(0));
    carry(&mut one_b, at(1), &mut two_b);
    let old = bytes(&two_b.ready().expect("it tells"));
    assert_eq!(open(&mut one_b, at(2), &old), Err("own"));
    assert_eq!(open(&mut one_b, at(2), &old), Err("replayed"));
    assert_ne!(before[1..PREFIX_BYTES], after[1..PREFIX_BYTES]);
    assert_ne!(two.life, again.life);
}

#[test]
fn what_was_told_from_one_address_is_not_believed_from_another() {
    let (mut one, mut two) = acquainted();
    let (mut three, life) = (seal(), two.life);
    // Somebody shows what was meant for two to three, who tells its life, and says that again in
    // the name of two.
    let packet = sealed(&mut one, at(2), b"for two");
    assert_eq!(open(&mut three, at(1), &packet), Err("unauthentic"));
    let tell = bytes(&three.ready().expect("it tells"));
    assert_eq!(open(&mut one, at(3), &tell), Err("replayed"), "nobody spoke to three");
    assert_eq!(open(&mut one, at(2), &tell), Err("own"));
    assert_eq!(one.contacts[&at(2)].life, Some(life), "two is asked, and nothing believed");
    // He shows that question to three as well; the answer of two is there first.
    let ask = bytes(&one.ready().expect("it asks"));
    assert_eq!(open(&mut two, at(1), &ask), Err("own"));
    assert_eq!(open(&mut three, at(1), &ask), Err("own"));
    carry(&mut two, at(2), &mut one);
    let tell = bytes(&three.ready().expect("it tells"));
    assert_eq!(open(&mut one, at(2), &tell), Err("own"));
    assert_eq!(one.contacts[&at(2)].life, Some(life));
    assert_eq!(open(&mut two, at(1), &sealed(&mut one, at(2), b"more")).map(|_| ()), Ok(()));
}

#[test]
fn too_many_lives_are_forgotten_and_nothing_of_them_counts_again() {
    let mut two = Seal::new(&KEY, 3).expect("random numbers");
    let mut packets = Vec::new();
    for port in 10..30 {
        let mut one = seal();
        let _ = one.seal(plain(at(2), b"question"), ms(0));
        // Once more when `two` begins a new life meanwhile.
        for _ in 0..2 {
            carry(&mut one, at(port), &mut two);
            carry(&mut two, at(2), &mut one);
        }
        let packet = sealed(&mut one, at(2), b"more");
        if open(&mut two, at(port), &packet).is_ok() {
            packets.push(packet);
        }
        assert!(two.windows.len() <= 3 && two.contacts.len() <= 3);
    }
    assert!(packets.len() >= 10, "{}", packets.len());
    for packet in &packets {
        assert!(open(&mut two, at(10), packet).is_err());
    }
}

#[test]
fn counters_are_never_used_twice_in_a_life() {
    let (mut one, _) = acquainted();
    let mut seen = std::collections::BTreeSet::new();
    for round in 0..2_000 {
        let packet = sealed(&mut one, at(2), &[round as u8]);
        assert!(seen.insert(packet[1..PREFIX_BYTES].to_vec()));
    }
}

#[test]
fn keys_are_64_digits_and_not_shown() {
    let digits = "00ff".repeat(16);
    let key = Key::from_hex(&format!(" {digits}\n")).expect("a key");
    assert_eq!(key, Key::new(std::array::from_fn(|at| if at % 2 == 0 { 0 } else { 0xff })));
    assert_eq!(format!("{key:?}"), "Key(..)");
    for wrong in ["", "00", &digits[1..], &format!("{digits}0"), &"zz".repeat(32)] {
        assert_eq!(Key::from_hex(wrong), None, "{wrong}");
    }
}

proptest! {
    #[test]
    fn a_window_takes_each_counter_once_and_none_that_is_too_old(
        steps in prop::collection::vec((0_u64..3, 0_u64..6_000), 1..300)
    ) {
        let mut window = Window::new(cipher(&KEY, &[1; LIFE_BYTES]));
        let (mut seen, mut highest) = (std::collections::BTreeSet::new(), 0_u64);
        for (way, far) in steps {
            let counter = match way {
                0 => highest.saturating_sub(far),
                1 => highest + far,
                _ => highest + far % 3,
            };
            let fits = counter + WINDOW_PACKETS > highest;
            prop_assert_eq!(window.take(counter), fits && !seen.contains(&counter), "{}", counter);
            if fits {
                seen.insert(counter);
            }
            highest = highest.max(counter);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        kind in 0_u8..5,
    ) {
        let mut seal = seal();
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = kind;
        }
        prop_assert_eq!(open(&mut seal, at(1), &bytes), Err("unauthentic"));
    }
}

#[test]
fn a_sealed_packet_is_xchacha20_poly1305_with_life_and_counter_as_its_nonce() {
    let whole = XChaCha20Poly1305::new(&KEY.0.into());
    let (mut one, two) = acquainted();
    for length in [0, 1, 100] {
        let mut packet = sealed(&mut one, at(2), &vec![1; length]);
        let name = XNonce::try_from(&packet[1..PREFIX_BYTES]).expect("24 bytes");
        let (within, tag) = packet[PREFIX_BYTES..].split_at_mut(COMMON_BYTES + length);
        let tag = chacha20poly1305::Tag::try_from(&*tag).expect("16 bytes");
        let about = bound(DATA, &two.life);
        let opened = whole.decrypt_inout_detached(&name, &about, within.into(), &tag);
        assert!(opened.is_ok(), "{length}");
        assert_eq!(within[COMMON_BYTES..], vec![1; length]);
    }
}

#[test]
fn keys_of_lives_are_kept_for_those_who_have_shown_the_key() {
    let (mut one, mut two) = acquainted();
    assert_eq!(two.windows.len(), 1);
    let packet = sealed(&mut one, at(2), b"text");
    for forged in 0..100 {
        let mut packet = packet.clone();
        packet[1..=LIFE_BYTES].fill(forged);
        assert_eq!(open(&mut two, at(9), &packet), Err("unauthentic"));
    }
    assert_eq!(two.windows.len(), 1, "strangers make it keep something");
}

/// Processor time of this thread.
fn cpu_ns() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

#[test]
#[ignore = "measures; run it with --release and --nocapture"]
fn cost() {
    // Beside what is used, XChaCha20-Poly1305 in Rust.
    let other = XChaCha20Poly1305::new(&KEY.0.into());
    println!(
        "bytes of payload, ns to seal a packet, ns to open it; ns of the cipher alone to seal, and \
         of RustCrypto's (medians of 9 rounds)"
    );
    for length in [0_usize, 100, 1_375] {
        let (mut one, mut two) = acquainted();
        let payload = vec![1; length];
        let mut took = [const { Vec::new() }; 4];
        for _ in 0..9 {
            let plain: Vec<Plain> = (0..2_000).map(|_| plain(at(2), &payload)).collect();
            let start = cpu_ns();
            let sealed: Vec<_> = plain.into_iter().map(|p| one.seal(p, ms(9))).collect();
            took[0].push((cpu_ns() - start) / 2_000);
            let mut packets: Vec<Vec<u8>> = sealed.iter().flatten().map(bytes).collect();
            let start = cpu_ns();
            for packet in &mut packets {
                assert!(matches!(two.open(at(1), packet, ms(9)), Opened::Packet(_)));
            }
            took[1].push((cpu_ns() - start) / 2_000);
            let mut bytes = vec![1; COMMON_BYTES + length];
            let about = bound(DATA, &two.life);
            let start = cpu_ns();
            for count in 0..2_000_u64 {
                let name = nonce(count.to_be_bytes());
                let tag = one.cipher.seal_in_place_separate_tag(name, Aad::from(about), &mut bytes);
                assert!(tag.is_ok());
            }
            took[2].push((cpu_ns() - start) / 2_000);
            let start = cpu_ns();
            for count in 0..2_000_u64 {
                let mut name = XNonce::default();
                name[LIFE_BYTES..].copy_from_slice(&count.to_be_bytes());
                let tag = other.encrypt_inout_detached(&name, &about, (&mut bytes[..]).into());
                assert!(tag.is_ok());
            }
            took[3].push((cpu_ns() - start) / 2_000);
        }
        took.iter_mut().for_each(|took| took.sort_unstable());
        println!("{length}, {}, {}, {}, {}", took[0][4], took[1][4], took[2][4], took[3][4]);
    }
}
