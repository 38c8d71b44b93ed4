//! Datagrams come back as they were, and what is none is refused.

use cavy_agents::wire::{Datagram, Heard, Nat, PROBE_BYTES, Reach, Refused, Told};
use cavy_coords::wire::{GOSSIP, Said};
use proptest::prelude::*;
use std::net::{IpAddr, SocketAddr};

fn told() -> impl Strategy<Value = Told> {
    let said = (any::<i32>(), any::<i32>(), any::<u16>(), any::<u16>(), any::<u32>());
    let said = said.prop_map(|(latitude, longitude, height, error, system)| Said {
        latitude,
        longitude,
        height,
        error,
        system,
    });
    let nat =
        prop_oneof![Just(Nat::Unknown), Just(Nat::Open), Just(Nat::Cone), Just(Nat::Symmetric)];
    let reach = (nat, any::<bool>(), any::<bool>()).prop_map(|(nat, relay, anycast)| Reach {
        nat,
        relay,
        anycast,
    });
    (said, any::<u16>(), reach).prop_map(|(said, updates, reach)| Told { said, updates, reach })
}

fn heard() -> impl Strategy<Value = Heard> {
    let ip = prop_oneof![
        any::<[u8; 4]>().prop_map(IpAddr::from),
        any::<[u8; 16]>().prop_map(|ip| IpAddr::from(ip).to_canonical())
    ];
    (ip, any::<u16>(), any::<u16>(), told()).prop_map(|(ip, port, age_s, told)| Heard {
        at: SocketAddr::new(ip, port),
        age_s,
        told,
    })
}

fn datagram() -> impl Strategy<Value = Datagram> {
    let own = || proptest::option::of(told());
    prop_oneof![
        (any::<(u16, u64, u64)>(), own()).prop_map(|((space, nonce, sent_ns), told)| {
            Datagram::Probe { space, nonce, sent_ns, told }
        }),
        (any::<(u16, u64, u64, u32, u64)>(), own()).prop_map(
            |((space, nonce, sent_ns, held_us, token), told)| Datagram::Reply {
                space,
                nonce,
                sent_ns,
                held_us,
                token,
                told
            }
        ),
        (any::<(u16, u64, u64, u32)>(), told()).prop_map(
            |((space, nonce, token, rtt_us), told)| Datagram::Feedback {
                space,
                nonce,
                token,
                rtt_us,
                told
            }
        ),
        (any::<(u16, u64, u64)>(), prop::collection::vec(heard(), 1..=GOSSIP)).prop_map(
            |((space, nonce, token), all)| {
                let mut heard = [None; GOSSIP];
                heard.iter_mut().zip(all).for_each(|(place, one)| *place = Some(one));
                Datagram::Gossip { space, nonce, token, heard }
            }
        ),
    ]
}

proptest! {
    #[test]
    fn datagrams_come_back_and_none_of_another_length_is_read(datagram in datagram()) {
        let bytes = datagram.bytes();
        prop_assert_eq!(Datagram::read(&bytes), Ok(datagram));
        for length in 0..bytes.len() {
            prop_assert!(Datagram::read(&bytes[..length]).is_err());
        }
        prop_assert!(Datagram::read(&[&bytes[..], &[0]].concat()).is_err());
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..700), kind in 0_u8..6) {
        let _ = Datagram::read(&bytes);
        let mut bytes = bytes;
        if bytes.len() >= 8 {
            bytes[..4].copy_from_slice(&[0x63, 0x76, 1, kind]);
            let _ = Datagram::read(&bytes);
        }
    }
}

/// The offsets of docs/reference/coords-wire.md, byte by byte.
#[test]
fn a_probe_and_a_reply_are_laid_out_as_the_reference_says() {
    let said = Said { latitude: 1, longitude: -2, height: 3, error: 4, system: 5 };
    let reach = Reach { nat: Nat::Symmetric, relay: true, anycast: true };
    let told = Some(Told { said, updates: 6, reach });
    let probe = Datagram::Probe { space: 0x0102, nonce: 7, sent_ns: 8, told }.bytes();
    let expected = [
        &[0x63, 0x76, 1, 1, 1, 2, 1, 0][..],
        &[0, 0, 0, 0, 0, 0, 0, 7],
        &[0, 0, 0, 0, 0, 0, 0, 8],
        &[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xfe, 0, 3, 0, 4, 0, 6, 0, 0b11011, 0, 0, 0, 5],
        &[0; 20],
    ];
    assert_eq!(probe, expected.concat());
    let reply =
        Datagram::Reply { space: 0x0102, nonce: 7, sent_ns: 8, held_us: 9, token: 10, told };
    let reply = reply.bytes();
    assert_eq!((probe.len(), reply.len()), (PROBE_BYTES, PROBE_BYTES));
    assert_eq!((reply[3], &reply[4..44]), (2, &probe[4..44]));
    assert_eq!(reply[44..48], [0, 0, 0, 9]);
    assert_eq!(reply[48..56], [0, 0, 0, 0, 0, 0, 0, 10]);
    assert_eq!(reply[56..], [0; 8]);
    let mut other = probe.clone();
    other[2] = 2;
    assert_eq!(Datagram::read(&other), Err(Refused::Foreign), "another version");
    other.clone_from(&probe);
    other[3] = 9;
    assert_eq!(Datagram::read(&other), Err(Refused::Kind));
}

/// As above.
#[test]
fn feedback_and_gossip_are_laid_out_as_the_reference_says() {
    let said = Said { latitude: 1, longitude: -2, height: 3, error: 4, system: 5 };
    let told = Told { said, updates: 6, reach: Reach::default() };
    let coordinate = [0, 0, 0, 1, 0xff, 0xff, 0xff, 0xfe, 0, 3, 0, 4, 0, 6, 0, 0, 0, 0, 0, 5];
    let nonce_and_token = [[0, 0, 0, 0, 0, 0, 0, 7], [0, 0, 0, 0, 0, 0, 0, 8]].concat();
    let feedback = Datagram::Feedback { space: 0x0102, nonce: 7, token: 8, rtt_us: 9, told };
    let expected =
        [&[0x63, 0x76, 1, 3, 1, 2, 1, 0][..], &nonce_and_token, &coordinate, &[0, 0, 0, 9]];
    assert_eq!(feedback.bytes(), expected.concat());
    let mut heard = [None; GOSSIP];
    let [four, six] = ["192.0.2.1:258", "[2001:db8::1]:259"].map(|a| a.parse().expect("one"));
    heard[0] = Some(Heard { at: four, age_s: 10, told });
    heard[1] = Some(Heard { at: six, age_s: 11, told });
    let gossip = Datagram::Gossip { space: 0x0102, nonce: 7, token: 8, heard }.bytes();
    let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1];
    let long = [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let expected = [
        &[0x63, 0x76, 1, 4, 1, 2, gossip[6], 2][..],
        &nonce_and_token,
        &mapped,
        &[1, 2, 0, 10],
        &coordinate,
        &long,
        &[1, 3, 0, 11],
        &coordinate,
    ];
    assert_eq!(gossip, expected.concat());
    assert_eq!(gossip.len(), 24 + 40 * 2);
}

#[test]
fn who_can_meet_whom_is_told_apart_from_distance() {
    let nat = |nat| Reach { nat, ..Reach::default() };
    let relay = Reach { relay: true, ..nat(Nat::Open) };
    assert_eq!(nat(Nat::Open).meets(nat(Nat::Symmetric)), Some(true));
    assert_eq!(nat(Nat::Cone).meets(nat(Nat::Cone)), Some(true));
    assert_eq!(nat(Nat::Cone).meets(nat(Nat::Symmetric)), Some(false));
    assert_eq!(nat(Nat::Unknown).meets(nat(Nat::Cone)), None);
    assert_eq!(relay.meets(nat(Nat::Open)), Some(false));
}
