//! Endpoints, recordings and replays for a second machine of the packet family: nothing of them is
//! Homa's. The same machine keeps the laws of messages in the laboratory's toy network.
#![allow(non_snake_case)]

#[path = "../homa_network/mod.rs"]
mod homa_network;
mod turns;
mod wire;

use cavy_core::family::packet::Message;
use cavy_core::laws::packet::{Ledger, Network, Weather};
use cavy_core::stream::Ratio;
use cavy_core::{Instant, Span};
use cavy_live::packet::{self, CallError, Carrier, Handler, OpenError, Polling, Recording};
use cavy_live::record::Recorded;
use cavy_live::record::packet::{Reader, replay_watched};
use homa_network::{Faults, Relay, message};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use turns::Turns;
use wire::Pace;

type Options = packet::Options<Pace>;
type Client = packet::Client<Pace>;
type Server = packet::Server<Pace>;

fn options() -> Options {
    let pace = Pace { piece_bytes: 1_000, tick_us: 2_000, patience_ticks: 1_000 };
    let mut options = Options::new(pace, Carrier::Udp, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    options.polling = Polling::Block;
    options.deadline = Span::from_ms(20_000);
    options
}

fn recorded(path: &std::path::Path) -> Options {
    Options { record: Some(path.to_path_buf()), ..options() }
}

#[test]
fn the_machine__keeps_the_laws_in_the_lab() {
    for seed in 0..40 {
        let machine = || Turns::new(1_000, Span::from_us(300), 400);
        let mut network =
            Network::new((0..3).map(|_| machine()).collect(), Ledger::default(), seed);
        let until = Instant::ZERO + Span::from_ms(20);
        let delay = Span::from_us(400);
        network.weather =
            Weather { lost: 50, doubled: 30, delayed: 100, delay, until, outages: Vec::new() };
        for n in 0..60_u64 {
            let ends = ((n % 3) as u32, ((n + 1 + n % 2) % 3) as u32);
            let at = Instant::ZERO + Span::from_us(n * 50);
            network.submit(at, ends, 2 * n + 2, 1 + (n as u32 * 977) % 4_000, Some(1_500));
        }
        network.run(Instant::ZERO + Span::from_ms(100));
        for n in 0..60_u64 {
            let (from, to) = ((n % 3) as u32, ((n + 1 + n % 2) % 3) as u32);
            let question = Message(2 * n + 2);
            assert_eq!(network.fate(from, to, question).delivered, 1, "seed {seed}, {n}");
            assert_eq!(network.fate(to, from, question.answer()).delivered, 1, "seed {seed}, {n}");
        }
    }
}

#[test]
fn another_machine__is_run_live__recorded__and_decides_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let paths = ["client", "server"].map(|end| folder.path().join(end));
    let echo = Handler::inline(|question| question.into_bytes());
    let server = Server::bind(&recorded(&paths[1]), echo).expect("a socket");
    let rare = |num| Ratio::new(num, 100).expect("a ratio");
    let faults = Faults { seed: 3, lost: rare(5), doubled: rare(3), delayed: rare(10) };
    let relay = Relay::to(server.local_address(), faults);
    let clients = [recorded(&paths[0]), options(), options()]
        .map(|options| Client::bind(&options).expect("a socket"));
    for round in 0..10 {
        let begin = |(n, client): (usize, &Client)| {
            let question = message(1 + (n * 7_919 + round * 3_001) % 20_000, round as u64);
            (question.clone(), client.begin(relay.at, question, None))
        };
        let open: Vec<_> = clients.iter().cycle().take(12).enumerate().map(begin).collect();
        for (question, call) in open {
            assert_eq!(call.wait(), Ok(question));
        }
    }
    assert!(relay.lost.load(std::sync::atomic::Ordering::Relaxed) > 0, "nothing was lost");
    let counters = server.counters();
    assert_eq!((counters.questions, counters.malformed), (120, [0, 0]), "each once");
    let server_too = server.client();
    for (path, end) in paths.iter().zip([&clients[0], &server_too]) {
        end.shutdown(Duration::from_secs(5));
        let Recording::Complete(summary) = end.recording() else { panic!("{:?}", end.recording()) };
        let mut reader = Reader::<Pace, _>::open(path).expect("a header");
        assert_eq!(reader.header().config, options().config);
        let mut exchanges = 0;
        let replayed = replay_watched(&mut reader, &mut |taken| {
            exchanges = exchanges.max(taken.machine.exchange_count());
        });
        let replayed = replayed.expect("a recording");
        assert!(replayed.agrees() && replayed.whole, "{replayed:?}");
        assert_eq!((replayed.summary, replayed.compared), (summary, summary.inputs));
        assert!(exchanges > 0 && summary.inputs > 500, "{summary:?}");
    }
    // The command that replays knows which machines it has, and says so.
    let unknown = Recorded::in_file(&paths[0]).expect("a recording");
    assert_eq!(unknown, Recorded::Other("turns".to_string()));
}

#[test]
fn another_machine__says_how_its_calls_end() {
    let lost = Handler::new(|_, reply| drop(reply));
    let server = Server::bind(&options(), lost).expect("a socket");
    let client = Client::bind(&options()).expect("a socket");
    assert_eq!(client.call(server.local_address(), "who"), Err(CallError::Unanswered));
    assert_eq!(client.call(server.local_address(), ""), Err(CallError::Empty));
    let long = vec![0; 1 + (1 << 20)];
    assert_eq!(
        client.call(server.local_address(), long),
        Err(CallError::TooLong { most: 1 << 20 })
    );
    let nobody = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
    assert_eq!(client.call(nobody, "who"), Err(CallError::Unreachable), "ICMP is believed");
    let junk = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    for bytes in [&[0; 5][..], &[9; 40][..]] {
        junk.send_to(bytes, server.local_address()).expect("sent");
    }
    homa_network::until("two packets that are none", || {
        (server.counters().malformed == [1, 1]).then_some(())
    });
    // Nor is the answer sent to anybody who did not ask, or a carrier taken that it does not have.
    let raw = Options { carrier: Carrier::Raw, ..options() };
    let Err(OpenError::Option { field, what }) = Client::bind(&raw) else { panic!("raw") };
    assert_eq!((field, &what[..]), ("carrier", "it must be Udp: the protocol has no number in IP"));
    let none = Options { config: Pace { piece_bytes: 0, ..options().config }, ..options() };
    let Err(OpenError::Option { field, what }) = Client::bind(&none) else { panic!("no bytes") };
    assert_eq!((field, &what[..]), ("config", "piece_bytes is 0; it must be at least 1"));
}
