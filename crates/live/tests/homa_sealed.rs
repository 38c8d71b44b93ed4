//! Sealed packets over real sockets: the same promises, and nothing for those without the key.

mod homa_network;

use bytes::Bytes;
use cavy_core::stream::{Purpose, Ratio, Stream};
use cavy_live::homa::{CallError, Client, Handler, Key, Options, Server};
use homa_network::{Faults, Relay, message, patient, print_processor_time, until};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

fn sealed(key: u8) -> Options {
    let mut options = patient().sealed(Key::new([key; 32]));
    if let Some(recovery) = &mut options.config.recovery {
        recovery.timeout_ticks = 500;
    }
    options
}

fn echo() -> Handler {
    Handler::inline(|question| question.into_bytes())
}

#[test]
fn echo_of_all_sizes_with_a_key() {
    let server = Server::bind(&sealed(1), echo()).expect("a socket");
    let client = Client::bind(&sealed(1)).expect("a socket");
    for bytes in [1, 100, 1_374, 1_375, 1_376, 10_000, 40_000, 100_000, 1_000_000] {
        let question = message(bytes, 1);
        let answer = client.call(server.local_address(), question.clone());
        assert!(answer.as_ref() == Ok(&question), "{bytes}: {:?}", answer.map(|a| a.len()));
    }
    let counters = client.counters();
    assert_eq!((counters.unauthentic, counters.malformed), (0, [0; 5]));
    // An address that was told a life and used it has shown that it receives.
    assert_eq!(server.counters().withheld, 0);
}

#[test]
fn losses_doubles_and_reordering_with_a_key() {
    let carried = Arc::new(AtomicU32::new(0));
    let count = carried.clone();
    let handler = Handler::inline(move |question| {
        count.fetch_add(1, Ordering::Relaxed);
        question.into_bytes()
    });
    let options = |key| {
        let mut options = sealed(key);
        options.config.recovery = patient().config.recovery;
        options
    };
    let server = Server::bind(&options(1), handler).expect("a socket");
    let ratio = |per_cent| Ratio::new(per_cent, 100).expect("a ratio");
    let faults = Faults { seed: 3, lost: ratio(5), doubled: ratio(10), delayed: ratio(20) };
    let relay = Relay::to(server.local_address(), faults);
    let client = Client::bind(&options(1)).expect("a socket");
    let mut sizes = Stream::keyed(3, 0, Purpose::Sizes);
    let questions: Vec<Bytes> =
        (0..100).map(|salt| message(16 + sizes.below(9_000) as usize, salt)).collect();
    for batch in questions.chunks(25) {
        let calls: Vec<_> = batch.iter().map(|q| client.begin(relay.at, q.clone(), None)).collect();
        for (question, call) in batch.iter().zip(calls) {
            assert!(call.wait().as_ref() == Ok(question));
        }
    }
    assert_eq!(carried.load(Ordering::Relaxed), 100);
    until("doubles are dropped before they are read", || {
        Some(()).filter(|()| server.counters().replayed > 10)
    });
}

#[test]
fn another_key_or_none_gets_no_answer_and_is_counted() {
    let server = Server::bind(&sealed(1), echo()).expect("a socket");
    let at = server.local_address();
    let short = Some(Duration::from_millis(400));
    for options in [sealed(2), patient()] {
        let before = server.counters().unauthentic;
        let client = Client::bind(&options).expect("a socket");
        let outcome = client.begin(at, message(3_000, 1), short).wait();
        assert!(matches!(outcome, Err(CallError::Deadline | CallError::Silent)), "{outcome:?}");
        until("it is counted", || Some(()).filter(|()| server.counters().unauthentic > before));
    }
    assert_eq!((server.counters().questions, server.counters().exchanges), (0, 0));
    // Nor does one with a key talk to a server that has none.
    let open = Server::bind(&patient(), echo()).expect("a socket");
    let client = Client::bind(&sealed(1)).expect("a socket");
    assert!(client.begin(open.local_address(), "secret", short).wait().is_err());
    assert_eq!(open.counters().questions, 0);
}

/// Carries packets both ways and keeps those of the client.
fn wiretap(server: SocketAddr) -> (SocketAddr, Arc<std::sync::Mutex<Vec<Vec<u8>>>>) {
    let front = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let at = front.local_addr().expect("bound");
    let heard = Arc::new(std::sync::Mutex::new(Vec::new()));
    let book = heard.clone();
    std::thread::spawn(move || {
        let (mut buffer, mut client) = ([0; 4_096], None);
        while let Ok((length, from)) = front.recv_from(&mut buffer) {
            let to = if from == server {
                client
            } else {
                client = Some(from);
                book.lock().expect("not poisoned").push(buffer[..length].to_vec());
                Some(server)
            };
            if let Some(to) = to {
                let _ = front.send_to(&buffer[..length], to);
            }
        }
    });
    (at, heard)
}

#[test]
fn what_was_heard_and_is_said_again_is_carried_out_by_no_server() {
    let server = Server::bind(&sealed(1), echo()).expect("a socket");
    let at = server.local_address();
    let (tap, heard) = wiretap(at);
    let client = Client::bind(&sealed(1)).expect("a socket");
    let secret = "transfer all of it, and do it once";
    assert_eq!(client.call(tap, secret), Ok(Bytes::from(secret)));
    drop(client);
    until("the server forgets it", || Some(()).filter(|()| server.counters().exchanges == 0));
    let packets = heard.lock().expect("not poisoned").clone();
    let plain = packets.iter().any(|p| p.windows(8).any(|part| part == &secret.as_bytes()[..8]));
    assert!(packets.len() >= 2 && !plain, "heard, and not understood");
    let attacker = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let say_again = || {
        for packet in &packets {
            attacker.send_to(packet, at).expect("sent");
        }
    };
    say_again();
    until("replays are counted", || Some(()).filter(|()| server.counters().replayed > 0));
    assert_eq!(server.counters().questions, 1);
    // Nor by the same server, when it has started again and remembers nothing.
    drop(server);
    let again = Server::bind(&Options { bind: at, ..sealed(1) }, echo()).expect("the port is free");
    say_again();
    until("they are counted", || Some(()).filter(|()| again.counters().unauthentic > 0));
    assert_eq!((again.counters().questions, again.counters().exchanges), (0, 0));
}

#[test]
fn a_server_with_a_key_that_restarts_is_found_again() {
    let server = Server::bind(&sealed(1), echo()).expect("a socket");
    let (at, client) = (server.local_address(), Client::bind(&sealed(1)).expect("a socket"));
    assert_eq!(client.call(at, "one"), Ok(Bytes::from("one")));
    drop(server);
    let again = Server::bind(&Options { bind: at, ..sealed(1) }, echo()).expect("the port is free");
    assert_eq!(client.call(at, "two"), Ok(Bytes::from("two")));
    assert!(again.counters().unauthentic > 0, "what was said to the earlier one did not count");
}

#[test]
#[ignore = "measures; run it with --release and --nocapture"]
fn cost() {
    let options = |key: bool| {
        let mut options = patient();
        options.config.link_bits_per_s = 100_000_000_000;
        if key { options.sealed(Key::new([1; 32])) } else { options }
    };
    let pair = |key| {
        let server = Server::bind(&options(key), echo()).expect("a socket");
        (Client::bind(&options(key)).expect("a socket"), server)
    };
    let pairs = [pair(false), pair(true)];
    println!("open, sealed:");
    print_processor_time(&pairs);
}
