//! What ICMP says: believed where it quotes what only the network can know, refuted by whatever the
//! peer sends, and otherwise counted.

mod homa_network;

use bytes::Bytes;
use cavy_core::Span;
use cavy_core::family::packet::{Extent, Message};
use cavy_homa::packet::{Data, Flags, Kind};
use cavy_homa::wire::{Dialect, HEADER_MAX_BYTES, Ports, Repr, View};
use cavy_live::homa::{CallError, Client, Options};
use homa_network::{now, patient, until};
use socket2::{Domain, Protocol, Socket, Type};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

/// As the default, and with more patience for silence than for ICMP.
fn hasty() -> Options {
    Options { unreachable_after: Some(Span::from_ms(100)), ..patient() }
}

/// An address where nobody listens.
fn nobody() -> SocketAddr {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    socket.local_addr().expect("bound")
}

#[test]
fn where_nobody_listens_a_call_ends_before_silence_would_end_it() {
    let client = Client::bind(&hasty()).expect("a socket");
    let start = now();
    let calls: Vec<_> =
        [10, 100_000].map(|bytes| client.begin(nobody(), vec![1; bytes], None)).into();
    for call in calls {
        assert_eq!(call.wait(), Err(CallError::Unreachable));
    }
    let took = start.elapsed();
    // Silence takes 2 s and more with these options.
    assert!((100..1_800).contains(&took.as_millis()), "{took:?}");
    until("it is counted", || Some(()).filter(|()| client.counters().unreachable_known > 0));
    until("nothing is left", || Some(()).filter(|()| client.counters().exchanges == 0));
}

/// Silence is noticed first here, but what it means was said.
#[test]
fn where_nobody_listens_silence_is_called_by_its_name() {
    let mut options = hasty();
    if let Some(recovery) = &mut options.config.recovery {
        recovery.timeout_ticks = 40;
    }
    let client = Client::bind(&options).expect("a socket");
    for _ in 0..20 {
        assert_eq!(client.call(nobody(), "x"), Err(CallError::Unreachable));
    }
}

/// What ICMP says of a call ends with the call: the next one has its own time.
#[test]
fn a_suspicion_does_not_outlive_its_call() {
    let client = Client::bind(&hasty()).expect("a socket");
    let at = nobody();
    for _ in 0..5 {
        let first = client.call_within(at, "x", Duration::from_millis(60));
        assert_eq!(first, Err(CallError::Deadline));
        let start = now();
        assert_eq!(client.call(at, "x"), Err(CallError::Unreachable));
        let took = start.elapsed();
        assert!(took >= Duration::from_millis(100), "{took:?}");
    }
}

#[test]
fn unread_icmp_leaves_it_to_silence() {
    let mut options = Options { unreachable_after: None, ..patient() };
    if let Some(recovery) = &mut options.config.recovery {
        recovery.timeout_ticks = 100;
    }
    let client = Client::bind(&options).expect("a socket");
    assert_eq!(client.call(nobody(), "x"), Err(CallError::Silent));
    assert_eq!(client.counters().unreachable, 0);
}

#[test]
fn other_calls_go_on_while_one_is_unreachable() {
    let echo = cavy_live::homa::Handler::inline(|question| question.into_bytes());
    let server = cavy_live::homa::Server::bind(&patient(), echo).expect("a socket");
    let client = Client::bind(&hasty()).expect("a socket");
    let dead = client.begin(nobody(), vec![1; 30_000], None);
    // Each packet to the dead address leaves an error behind that the next call of the system sees.
    for salt in 0..200 {
        let question = homa_network::message(3_000, salt);
        assert!(client.call(server.local_address(), question.clone()) == Ok(question));
    }
    assert_eq!(dead.wait(), Err(CallError::Unreachable));
    assert_eq!(client.counters().send_errors, 0);
}

/// A server by hand: it sees what a client sends, and answers when it wants to.
struct ByHand {
    socket: UdpSocket,
    at: SocketAddr,
}

impl ByHand {
    fn new() -> ByHand {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        socket.set_read_timeout(Some(Duration::from_secs(10))).expect("an option");
        let at = socket.local_addr().expect("bound");
        ByHand { socket, at }
    }

    /// The next packet, its sender, and which exchange it is about.
    fn receive(&self) -> (Vec<u8>, SocketAddr, u64) {
        let mut buffer = [0; 2_048];
        let (length, from) = self.socket.recv_from(&mut buffer).expect("a packet");
        let bytes = buffer[..length].to_vec();
        let id = View::new(&bytes).expect("a packet of Homa").sender_id();
        (bytes, from, id)
    }

    fn send(&self, to: SocketAddr, id: u64, kind: Kind, payload: &[u8]) {
        let ports = Ports { source: 99, destination: 0x8000 };
        let length_bytes = payload.len() as u32;
        let extent = Extent { message: Message(id).answer(), offset_bytes: 0, length_bytes };
        let mut header = [0; HEADER_MAX_BYTES];
        let repr = Repr { ports, kind, extent };
        let bytes = repr.emit(&Dialect::of(&Options::local().config), &mut header);
        self.socket.send_to(&[&header[..bytes], payload].concat(), to).expect("sent");
    }

    fn answer(&self, to: SocketAddr, id: u64, payload: &[u8]) {
        let length = payload.len() as u32;
        let data = Data {
            message_bytes: length,
            incoming_bytes: length,
            ack: 0,
            cutoffs_version: 0,
            backlog: 0,
            flags: Flags::default(),
        };
        self.send(to, id, Kind::Data(data), payload);
    }
}

/// A host that says that nobody listens at `server`, quoting `packet` of `client`.
fn forge(icmp: &Socket, client: SocketAddr, server: SocketAddr, packet: &[u8]) {
    let quoted = packet.len().min(500);
    let mut text = vec![3, 3, 0, 0, 0, 0, 0, 0, 0x45, 0];
    text.extend((28 + packet.len() as u16).to_be_bytes());
    text.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1]);
    text.extend(client.port().to_be_bytes());
    text.extend(server.port().to_be_bytes());
    text.extend((8 + packet.len() as u16).to_be_bytes());
    text.extend([0, 0]);
    text.extend(&packet[..quoted]);
    let sum: u32 = text
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let check = !(((folded & 0xffff) + (folded >> 16)) as u16);
    text[2..4].copy_from_slice(&check.to_be_bytes());
    icmp.send_to(&text, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("sent");
}

/// A socket to forge with; it takes a right.
fn forger() -> Option<Socket> {
    let icmp = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4));
    if icmp.is_err() {
        println!("skipped: forging ICMP needs CAP_NET_RAW");
    }
    icmp.ok()
}

#[test]
fn forged_icmp_that_cannot_name_the_call_is_counted_and_no_more() {
    let Some(icmp) = forger() else { return };
    let (client, server) = (Client::bind(&hasty()).expect("a socket"), ByHand::new());
    let call = client.begin(server.at, "question", None);
    let (packet, from, id) = server.receive();
    let start = now();
    // Silence for as long as would end the call if one of these were believed.
    for guess in 1..=30_u64 {
        let mut forged = packet.clone();
        forged[20..28].copy_from_slice(&(id.wrapping_add(guess << 20)).to_be_bytes());
        forge(&icmp, from, server.at, &forged);
        // The right name, at the wrong server, and too little of it to see the name.
        forge(&icmp, from, SocketAddr::from(([127, 0, 0, 1], 9)), &packet);
        forge(&icmp, from, server.at, &packet[..20]);
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(start.elapsed() > Duration::from_millis(250));
    server.answer(from, id, b"answer");
    assert_eq!(call.wait(), Ok(Bytes::from("answer")));
    until("all are counted", || Some(()).filter(|()| client.counters().unreachable >= 90));
    assert_eq!(client.counters().unreachable_known, 0);
}

#[test]
fn forged_icmp_that_names_the_call_is_refuted_by_the_server() {
    let Some(icmp) = forger() else { return };
    let (client, server) = (Client::bind(&hasty()).expect("a socket"), ByHand::new());
    let call = client.begin(server.at, "question", None);
    let (packet, from, id) = server.receive();
    let start = now();
    // Whoever can read packets says it again and again; the server is busy, and says that.
    while start.elapsed() < Duration::from_millis(500) {
        forge(&icmp, from, server.at, &packet);
        let (_, _, asked) = server.receive();
        assert_eq!(asked & !1, id);
        server.send(from, id, Kind::Busy, b"");
    }
    server.answer(from, id, b"answer");
    assert_eq!(call.wait(), Ok(Bytes::from("answer")));
    until("they are counted", || Some(()).filter(|()| client.counters().unreachable_known > 3));
}
