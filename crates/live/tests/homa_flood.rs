//! What a flood of forged questions leaves behind: how soon an endpoint without a key answers again
//! as it did before.
//!
//! `cargo test --release -p cavy-live --test homa_flood -- --ignored --nocapture`

mod homa_network;

use cavy_core::family::packet::{Extent, Message};
use cavy_homa::packet::{Data, Flags, Kind};
use cavy_homa::wire::{Dialect, HEADER_MAX_BYTES, Ports, Repr};
use cavy_live::homa::{Client, Handler, Options, Server};
use homa_network::{message, now};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

/// Forged packets a second, for ten seconds, each with this payload, from so many addresses.
const PER_S: u64 = 71_000;
const BYTES: u32 = 1_400;
const ADDRESSES: u8 = 64;

/// A question in one packet.
fn question(id: u64) -> Vec<u8> {
    let data = Data {
        message_bytes: BYTES,
        incoming_bytes: BYTES,
        ack: 0,
        cutoffs_version: 1,
        backlog: 0,
        flags: Flags::default(),
    };
    let ports = Ports { source: 0x8005, destination: 99 };
    let extent = Extent { message: Message(id), offset_bytes: 0, length_bytes: BYTES };
    let mut header = [0; HEADER_MAX_BYTES];
    let repr = Repr { ports, kind: Kind::Data(data), extent };
    let length = repr.emit(&Dialect::of(&Options::local().config), &mut header);
    [&header[..length], &message(BYTES as usize, 1)].concat()
}

/// Sends them; how many went.
fn flood(to: SocketAddr, length: Duration) -> u64 {
    let socket = |last| UdpSocket::bind((Ipv4Addr::new(127, 0, 1, last), 0)).expect("a socket");
    let sockets: Vec<UdpSocket> = (1..=ADDRESSES).map(socket).collect();
    let mut packet = question(2);
    let (start, mut sent) = (now(), 0_u64);
    while start.elapsed() < length {
        let due = start.elapsed().as_micros() as u64 * PER_S / 1_000_000;
        while sent < due {
            packet[20..28].copy_from_slice(&(2 * sent + 2).to_be_bytes());
            let from = &sockets[(sent % u64::from(ADDRESSES)) as usize];
            // What the system drops was sent all the same.
            let _ = from.send_to(&packet, to);
            sent += 1;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    sent
}

/// Times of calls, one after the other, for so long; microseconds, sorted.
fn calls(client: &Client, to: SocketAddr, length: Duration) -> Vec<u64> {
    let (start, mut times) = (now(), Vec::new());
    while start.elapsed() < length {
        let began = now();
        client.call(to, message(100, 2)).expect("an answer");
        times.push(began.elapsed().as_micros() as u64);
    }
    times.sort_unstable();
    times
}

fn p50(times: &[u64]) -> u64 {
    times[times.len() / 2]
}

#[test]
#[ignore = "takes 20 s and whole cores; prints a table"]
fn a_second_after_a_flood_an_endpoint_answers_as_before() {
    let options = Options::local();
    let server = Server::bind(&options, Handler::inline(|question| question.into_bytes()));
    let server = server.expect("a socket");
    let client = Client::bind(&options).expect("a socket");
    let to = server.local_address();
    calls(&client, to, Duration::from_millis(500));
    let before = p50(&calls(&client, to, Duration::from_secs(2)));
    let at = server.local_address();
    let sending = std::thread::spawn(move || flood(at, Duration::from_secs(10)));
    let during = calls(&client, to, Duration::from_secs(9));
    let sent = sending.join().expect("it ends");
    let end = now();
    println!("{sent} forged packets in 10 s; p50 before {before} us");
    println!("during: p50 {} us, longest {} us", p50(&during), during[during.len() - 1]);
    let mut late = before;
    for _ in 0..12 {
        let times = calls(&client, to, Duration::from_millis(250));
        let since = end.elapsed().as_millis();
        let exchanges = server.counters().exchanges;
        println!("{since} ms after: p50 {} us, {exchanges} exchanges", p50(&times));
        late = p50(&times);
    }
    let counters = server.counters();
    println!(
        "questions {}, strangers ended {}",
        counters.questions, counters.machine.strangers_ended
    );
    assert!(counters.questions > sent / 10, "the flood was taken for questions");
    assert!(counters.exchanges < 10, "{} exchanges stay", counters.exchanges);
    assert!(late < 2 * before + 50, "{late} us three seconds after, {before} us before");
}
