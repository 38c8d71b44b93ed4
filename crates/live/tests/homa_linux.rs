//! What [homa 7.3] records of a running Linux module, asked of our endpoint packet by packet. A
//! socket of the test plays the module: packets with its header, its cut-offs, its manners.
#![allow(non_snake_case)]

mod homa_network;

use bytes::Bytes;
use cavy_core::family::packet::{Extent, Message};
use cavy_homa::packet::{ALL_SENT, Acks, Data, Flags, Kind, Published};
use cavy_homa::wire::{Dialect, HEADER_MAX_BYTES, Ports, Repr, Type, View};
use cavy_homa::{Config, Cutoffs};
use cavy_live::homa::{CallError, Client, Handler, Options, Peer, Server};
use homa_network::{message, now, until};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrIn, recvmsg, setsockopt, sockopt};
use socket2::{Domain, Protocol, Socket};
use std::io::{IoSliceMut, Read as _};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::process::Command;
use std::time::{Duration, Instant};

const ID: u64 = 0x1234;
const CLIENT: u16 = 0x8005;
const SERVER: u16 = 99;

/// The module's configuration, over UDP. It trusts every address, as the module does.
fn options() -> Options {
    let mut config = Options::raw(Ipv4Addr::LOCALHOST.into()).config;
    config.recovery = Config::linux().recovery;
    Options { config, unproven_ratio: None, ..Options::local() }
}

/// The other side.
struct Module {
    socket: UdpSocket,
}

/// A packet that came.
struct Seen {
    at: Instant,
    from: SocketAddr,
    level: u8,
    bytes: Vec<u8>,
}

impl Seen {
    fn view(&self) -> View<'_> {
        View::new(&self.bytes).expect("a packet")
    }

    fn repr(&self) -> Repr {
        Repr::parse(&self.view(), &dialect()).expect("a packet with a meaning")
    }
}

fn dialect() -> Dialect {
    Dialect::of(&Config::linux())
}

impl Module {
    fn new() -> Module {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        setsockopt(&socket, sockopt::IpRecvTos, &true).expect("Linux tells the TOS");
        Module { socket }
    }

    fn send(&self, to: SocketAddr, repr: &Repr, payload: &[u8]) {
        let mut header = [0; HEADER_MAX_BYTES];
        let length = repr.emit(&dialect(), &mut header);
        let packet = [&header[..length], payload].concat();
        self.socket.send_to(&packet, to).expect("sent");
    }

    /// Sends a control packet as the client.
    fn say(&self, to: SocketAddr, id: u64, kind: Kind) {
        let extent = Extent { message: Message(id), offset_bytes: 0, length_bytes: 0 };
        let ports = Ports { source: CLIENT, destination: SERVER };
        self.send(to, &Repr { ports, kind, extent }, b"");
    }

    /// Sends a piece of a message of `length` bytes, as the client if `id` is even.
    fn data(&self, to: SocketAddr, id: u64, length: u32, piece: &[u8], version: u16) {
        self.send(to, &data(id, length, piece.len() as u32, version), piece);
    }

    /// Asks a whole question that knows the server's cut-offs.
    fn ask(&self, to: SocketAddr, id: u64, question: &[u8]) {
        self.data(to, id, question.len() as u32, question, 1);
    }

    fn next(&self, within: Duration) -> Option<Seen> {
        let mut buffer = [0; 4_096];
        let mut space = nix::cmsg_space!(u8);
        // A timeout of nothing would be none.
        let within = within.max(Duration::from_millis(1));
        self.socket.set_read_timeout(Some(within)).expect("an option");
        let mut slices = [IoSliceMut::new(&mut buffer)];
        let fd = self.socket.as_raw_fd();
        let got = recvmsg::<SockaddrIn>(fd, &mut slices, Some(&mut space), MsgFlags::empty());
        let got = got.ok()?;
        let tos = got.cmsgs().expect("whole").find_map(|message| match message {
            ControlMessageOwned::Ipv4Tos(tos) => Some(tos),
            _ => None,
        });
        let tos = tos.expect("a TOS byte");
        assert_eq!(tos & 0x1f, 0, "the low bits are zero");
        let from = got.address.expect("an address");
        let from = SocketAddr::from((from.ip(), from.port()));
        let length = got.bytes;
        Some(Seen { at: now(), from, level: tos >> 5, bytes: buffer[..length].to_vec() })
    }

    /// All that comes within this time.
    fn all(&self, within: Duration) -> Vec<Seen> {
        let end = now() + within;
        let mut seen = Vec::new();
        while let Some(left) = end.checked_duration_since(now()) {
            seen.extend(self.next(left));
        }
        seen
    }

    /// The next packet of this type, at most two seconds away.
    fn wait_for(&self, kind: Type) -> Seen {
        // Without a pause between two packets: NEED_ACKs come every tick.
        let packets = std::iter::from_fn(|| self.next(Duration::from_secs(2)));
        let mut packets = packets.take(100_000);
        packets.find(|seen| seen.view().kind() == kind).expect("a packet of the type in time")
    }
}

fn data(id: u64, length: u32, piece: u32, version: u16) -> Repr {
    let data = Data {
        message_bytes: length,
        incoming_bytes: length.min(40_000),
        ack: 0,
        cutoffs_version: version,
        backlog: 0,
        flags: Flags::default(),
    };
    let ports = Ports { source: CLIENT, destination: SERVER };
    let ports = if id & 1 == 0 { ports } else { ports.reversed() };
    let extent = Extent { message: Message(id), offset_bytes: 0, length_bytes: piece };
    Repr { ports, kind: Kind::Data(data), extent }
}

fn echo() -> Server {
    Server::bind(&options(), Handler::inline(|question| question.into_bytes())).expect("a socket")
}

/// A server that answers everything with this many bytes.
fn talkative(bytes: usize) -> Server {
    let answer = message(bytes, 3);
    Server::bind(&options(), Handler::inline(move |_| answer.clone())).expect("a socket")
}

fn only(kind: Type, seen: &[Seen]) -> Vec<&Seen> {
    seen.iter().filter(|seen| seen.view().kind() == kind).collect()
}

#[test]
fn clause_7_3_an_echo_has_the_id_plus_one_and_level_6_before_cutoffs_are_known() {
    let (module, server) = (Module::new(), echo());
    let question = message(100, 1);
    module.ask(server.local_address(), ID, &question);
    let answer = module.wait_for(Type::Data);
    let view = answer.view();
    assert_eq!(view.sender_id(), ID + 1);
    assert_eq!((view.source_port(), view.destination_port()), (SERVER, CLIENT));
    assert_eq!((answer.level, view.data_cutoffs_version()), (6, 0));
    assert_eq!((view.message_bytes(), view.incoming_bytes(), view.sequence()), (100, 100, 0));
    assert_eq!(answer.bytes[52..56], [0xff; 4], "the offset is in `sequence`");
    assert_eq!(view.payload(), &question[..]);
}

#[test]
fn clause_7_3_a_header_without_the_marks_of_the_disguise_is_accepted() {
    let (module, server) = (Module::new(), echo());
    let mut header = [0; HEADER_MAX_BYTES];
    let length = data(ID, 5, 5, 1).emit(&dialect(), &mut header);
    header[13] = 0;
    header[18..20].copy_from_slice(&[0, 0]);
    let packet = [&header[..length], b"plain"].concat();
    module.socket.send_to(&packet, server.local_address()).expect("sent");
    assert_eq!(module.wait_for(Type::Data).view().payload(), b"plain");
}

#[test]
fn clause_7_3_a_stale_version_is_answered_by_cutoffs() {
    let (module, server) = (Module::new(), echo());
    module.data(server.local_address(), ID, 5, b"hello", 0);
    let cutoffs = module.wait_for(Type::Cutoffs);
    assert_eq!((cutoffs.level, cutoffs.view().sender_id()), (7, ID + 1));
    let expected = [0, 0, 0, 0, 1_000_000, 15_000, 2_800, 200];
    assert_eq!((cutoffs.view().cutoffs(), cutoffs.view().cutoffs_version()), (expected, 1));
    module.wait_for(Type::Data);
    module.ask(server.local_address(), ID + 2, b"again");
    module.wait_for(Type::Data);
    let later = module.all(Duration::from_millis(10));
    assert!(only(Type::Cutoffs, &later).is_empty(), "this one knew them");
}

#[test]
fn clause_7_3_a_long_answer_stops_at_40000_bytes_and_goes_on_at_the_granted_level() {
    let (module, server) = (Module::new(), talkative(100_000));
    let at = server.local_address();
    module.ask(at, ID, b"all of it");
    let seen = module.all(Duration::from_millis(60));
    let unscheduled = only(Type::Data, &seen);
    let sizes: Vec<usize> = unscheduled.iter().map(|s| s.view().payload().len()).collect();
    assert_eq!(sizes, [vec![1_424; 28], vec![128]].concat());
    for packet in &unscheduled {
        assert_eq!((packet.level, packet.view().incoming_bytes()), (6, 40_000));
    }
    module.say(at, ID, Kind::Grant { offset_bytes: 100_000, priority: 1 });
    let seen = module.all(Duration::from_millis(60));
    let scheduled = only(Type::Data, &seen);
    let sizes: Vec<usize> = scheduled.iter().map(|s| s.view().payload().len()).collect();
    assert_eq!(sizes, [vec![1_424; 42], vec![192]].concat());
    assert!(scheduled.iter().all(|s| s.level == 1), "TOS 0x20");
    let all = [unscheduled, scheduled].concat();
    let mut answer = vec![0; 100_000];
    for packet in all {
        let (view, start) = (packet.view(), packet.view().data_offset_bytes() as usize);
        answer[start..start + view.payload().len()].copy_from_slice(view.payload());
    }
    assert!(answer == message(100_000, 3));
}

#[test]
fn clause_7_3_a_long_question_is_granted_at_once_and_what_is_missing_asked_for_every_5_ticks() {
    let (module, server) = (Module::new(), echo());
    module.data(server.local_address(), ID, 100_000, &[7; 1_400], 1);
    let seen = module.all(Duration::from_millis(70));
    let grants = only(Type::Grant, &seen);
    assert_eq!(grants[0].repr().kind, Kind::Grant { offset_bytes: 100_000, priority: 0 });
    assert_eq!((grants[0].level, grants[0].view().sender_id()), (7, ID + 1));
    let resends = only(Type::Resend, &seen);
    assert!(resends.len() >= 3, "{}", resends.len());
    for resend in &resends {
        let all = Kind::Resend { offset_bytes: 1_400, length_bytes: 98_600, priority: 7 };
        assert_eq!((resend.repr().kind, resend.level), (all, 7));
    }
    // Ticks may come late on a busy machine, and two of them close together after that, but five of
    // them do not all vanish.
    let whole = resends[resends.len() - 1].at - resends[0].at;
    assert!(whole >= Duration::from_millis(4) * (resends.len() as u32 - 1), "{whole:?}");
}

#[test]
fn clause_7_3_resend_for_an_unknown_id_is_answered_by_unknown() {
    let (module, server) = (Module::new(), echo());
    let kind = Kind::Resend { offset_bytes: 0, length_bytes: ALL_SENT, priority: 7 };
    module.say(server.local_address(), 0x9876, kind);
    let unknown = module.wait_for(Type::Unknown);
    assert_eq!((unknown.view().sender_id(), unknown.level, unknown.bytes.len()), (0x9877, 7, 28));
}

#[test]
fn clause_7_3_an_answer_without_ack_is_asked_about_every_tick_until_it_has_one() {
    let (module, server) = (Module::new(), echo());
    let at = server.local_address();
    module.ask(at, ID, b"x");
    module.wait_for(Type::Data);
    let seen = module.all(Duration::from_millis(50));
    let asked = only(Type::NeedAck, &seen);
    assert!(asked.len() > 10, "{}", asked.len());
    assert!(asked.len() <= 50, "{}", asked.len());
    assert!(asked.iter().all(|s| s.view().sender_id() == ID + 1 && s.level == 7));
    module.say(at, ID, Kind::Ack(Acks::default()));
    until("it is forgotten", || Some(()).filter(|()| server.counters().exchanges == 0));
    module.all(Duration::from_millis(5));
    assert!(module.all(Duration::from_millis(30)).is_empty(), "the ACK silences it");
}

/// Bytes of the common header of the module: ports, type, exchange.
fn module_header(source: u16, destination: u16, kind: u8, id: u64) -> Vec<u8> {
    let ports = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    let middle = [0, 0, 0, 0, 0, 0, 0, kind, 0x50, 6, 0, 0, 0, 0, 0xb9, 0x7d];
    [&ports[..], &middle, &id.to_be_bytes()].concat()
}

/// Asks three questions from two ports and waits for their answers, which stay unacknowledged.
fn three_answers(module: &Module, server: &Server) {
    for (id, port) in [(0x490c, 0x800a), (0x490e, 0x800a), (0x4910, 0x800b)] {
        let mut repr = data(id, 1, 1, 1);
        repr.ports.source = port;
        module.send(server.local_address(), &repr, b"x");
        module.wait_for(Type::Data);
    }
    until("three answers", || Some(()).filter(|()| server.counters().exchanges == 3));
}

/// The module's own bytes: it answers NEED_ACK with an ACK whose header names the exchange and
/// whose list is empty, or is full of others, from whichever of its ports.
#[test]
fn clause_2_12_an_ack_ends_the_exchange_of_its_header_and_those_of_all_ports() {
    let (module, server) = (Module::new(), echo());
    three_answers(&module, &server);
    let at = server.local_address();
    let asked = module.wait_for(Type::NeedAck);
    assert_eq!(asked.bytes.len(), 28);
    let mut empty = module_header(0x800a, SERVER, 0x18, 0x490c);
    empty.resize(80, 0);
    module.socket.send_to(&empty, at).expect("sent");
    until("one is forgotten", || Some(()).filter(|()| server.counters().exchanges == 2));
    let mut full = module_header(0x800a, SERVER, 0x18, 0x490c);
    full.extend(5_u16.to_be_bytes());
    for (id, port) in [(2_u64, 98_u16), (4, 98), (6, 98), (0x4910, SERVER), (0x490e, SERVER)] {
        full.extend(id.to_be_bytes());
        full.extend(port.to_be_bytes());
    }
    module.socket.send_to(&full, at).expect("sent");
    until("all are forgotten", || Some(()).filter(|()| server.counters().exchanges == 0));
    let counters = server.counters();
    assert_eq!((counters.malformed, counters.answers_failed), ([0; 5], 0));
}

/// The module puts acknowledgements into any DATA to a host, of its answers as well, and names the
/// port of the server that each is for.
#[test]
fn clause_2_12_an_acknowledgement_rides_in_the_data_of_an_answer() {
    let (module, server) = (Module::new(), echo());
    three_answers(&module, &server);
    let client = server.client();
    for (left, done) in [(2, 0x490c_u64), (1, 0x490e), (0, 0x4910)] {
        let to = Peer { at: module.socket.local_addr().expect("bound"), port: 77 };
        let call = client.begin(to, "question", None);
        let question = module.wait_for(Type::Data);
        let (view, ours) = (question.view(), question.view().source_port());
        let mut answer = module_header(77, ours, 0x10, view.sender_id() | 1);
        answer.extend(hex(&format!("00000002 00000002 {done:016x} 0063 0001 00000000 ffffffff")));
        answer.extend(b"ok");
        module.socket.send_to(&answer, server.local_address()).expect("sent");
        assert_eq!(call.wait(), Ok(Bytes::from("ok")));
        until("it is forgotten", || Some(()).filter(|()| server.counters().exchanges == left));
    }
    let counters = server.counters();
    assert_eq!((counters.wrong_port, counters.answers_failed), (0, 0));
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.bytes().filter_map(|b| char::from(b).to_digit(16)).map(|d| d as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

#[test]
fn clause_2_11_a_server_that_computes_says_busy() {
    let (to, replies) = std::sync::mpsc::channel();
    let handler = Handler::new(move |_, reply| drop(to.send(reply)));
    let server = Server::bind(&options(), handler).expect("a socket");
    let (module, at) = (Module::new(), server.local_address());
    module.ask(at, ID, b"x");
    let reply = replies.recv().expect("the question comes");
    let kind = Kind::Resend { offset_bytes: 0, length_bytes: ALL_SENT, priority: 7 };
    module.say(at, ID, kind);
    assert_eq!(module.wait_for(Type::Busy).view().sender_id(), ID + 1);
    reply.send("done");
    assert_eq!(module.wait_for(Type::Data).view().payload(), b"done");
}

#[test]
fn clause_2_11_what_is_asked_for_again_is_sent_again_at_the_level_of_the_request() {
    let (module, server) = (Module::new(), talkative(10_000));
    let at = server.local_address();
    module.ask(at, ID, b"x");
    for _ in 0..8 {
        assert!(!module.wait_for(Type::Data).view().is_retransmit());
    }
    let kind = Kind::Resend { offset_bytes: 1_424, length_bytes: 2_848, priority: 5 };
    module.say(at, ID, kind);
    let seen = module.all(Duration::from_millis(30));
    let again: Vec<_> = only(Type::Data, &seen)
        .iter()
        .map(|s| (s.view().data_offset_bytes(), s.level, s.view().is_retransmit()))
        .collect();
    assert_eq!(again, [(1_424, 5, true), (2_848, 5, true)]);
}

#[test]
fn clause_2_14_a_name_from_the_wrong_side_is_dropped() {
    let (module, server) = (Module::new(), echo());
    let mut repr = data(ID + 1, 5, 5, 1);
    repr.ports = Ports { source: CLIENT, destination: SERVER };
    module.send(server.local_address(), &repr, b"wrong");
    assert!(module.next(Duration::from_millis(20)).is_none());
    until("it is counted", || Some(()).filter(|()| server.counters().wrong_port == 1));
}

#[test]
fn clause_2_6_a_client_uses_level_6_until_it_has_cutoffs_and_then_those() {
    let module = Module::new();
    let client = Client::bind(&options()).expect("a socket");
    let at = Peer::from(module.socket.local_addr().expect("bound"));
    let mut last = None;
    // Before CUTOFFS and after: level of a question of this length, and the version it names.
    for (bytes, level, version) in
        [(100, 6, 0), (100, 7, 1), (200, 7, 1), (201, 6, 1), (2_801, 5, 1), (15_001, 4, 1)]
    {
        let call = client.begin(at, message(bytes, 5), Some(Duration::from_secs(5)));
        let question = module.wait_for(Type::Data);
        let (view, id) = (question.view(), question.view().sender_id());
        assert_eq!(id & 1, 0, "even");
        assert!(view.source_port() >= 0x8000 && view.destination_port() == SERVER);
        assert_eq!((question.level, view.data_cutoffs_version()), (level, version), "{bytes}");
        assert_eq!(view.message_bytes() as usize, bytes);
        // The last answer is acknowledged on the way [homa 2.12].
        assert_eq!(view.piggybacked_ack(), last.map(|id| (id, SERVER)));
        let ports = Ports { source: SERVER, destination: view.source_port() };
        if version == 0 {
            let own = Cutoffs::new(8, &[200, 2_800, 15_000]).expect("ascending");
            let kind = Kind::Cutoffs(Published::new(&own, 1));
            let extent = Extent { message: Message(id | 1), offset_bytes: 0, length_bytes: 0 };
            module.send(question.from, &Repr { ports, kind, extent }, b"");
        }
        let answer = Repr { ports, ..data(id | 1, 2, 2, 1) };
        module.send(question.from, &answer, b"ok");
        assert_eq!(call.wait(), Ok(Bytes::from("ok")));
        module.all(Duration::from_millis(2));
        last = Some(id);
    }
}

#[test]
fn clause_2_12_a_client_answers_need_ack_with_all_that_it_owes() {
    let module = Module::new();
    let client = Client::bind(&options()).expect("a socket");
    let at = Peer::from(module.socket.local_addr().expect("bound"));
    let mut ids = Vec::new();
    let calls: Vec<_> = (0..3).map(|_| client.begin(at, "x", None)).collect();
    let mut from = None;
    for _ in 0..3 {
        let question = module.wait_for(Type::Data);
        ids.push((question.view().sender_id(), question.view().source_port()));
        from = Some(question.from);
    }
    let from = from.expect("three questions");
    for &(id, port) in &ids {
        let ports = Ports { source: SERVER, destination: port };
        module.send(from, &Repr { ports, ..data(id | 1, 2, 2, 1) }, b"ok");
    }
    for call in calls {
        assert_eq!(call.wait(), Ok(Bytes::from("ok")));
    }
    let (id, port) = ids[1];
    let ports = Ports { source: SERVER, destination: port };
    let extent = Extent { message: Message(id | 1), offset_bytes: 0, length_bytes: 0 };
    module.send(from, &Repr { ports, kind: Kind::NeedAck, extent }, b"");
    let ack = module.wait_for(Type::Ack);
    let mut named: Vec<u64> = ack.view().acknowledged().map(|(id, _)| id).collect();
    named.sort_unstable();
    let mut expected: Vec<u64> = ids.iter().map(|&(id, _)| id).collect();
    expected.sort_unstable();
    assert_eq!((named, ack.view().ack_count()), (expected, 3));
    assert!(ack.view().acknowledged().all(|(_, port)| port == SERVER));
}

/// A network namespace, removed when it goes.
struct Namespace {
    name: String,
}

impl Namespace {
    fn ip(args: &[&str]) -> bool {
        let output = Command::new("ip").args(args).output();
        output.is_ok_and(|output| output.status.success())
    }

    fn make(of: &str) -> Option<Namespace> {
        let name = format!("cavy-homa-{}-{of}", std::process::id());
        let made = Namespace::ip(&["netns", "add", &name]).then_some(Namespace { name })?;
        Namespace::ip(&["-n", &made.name, "link", "set", "lo", "up"]).then_some(made)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        Namespace::ip(&["netns", "delete", &self.name]);
    }
}

#[test]
fn clause_7_1_raw_ip_in_a_namespace_of_its_own() {
    run_in_namespace("raw_ip_between_two_addresses");
}

#[test]
#[ignore = "needs CAP_NET_RAW; another test runs it in a network namespace"]
fn raw_ip_between_two_addresses() {
    let patient = homa_network::patient();
    let options = |last| {
        let mut options = Options::raw(Ipv4Addr::new(127, 0, 0, last).into());
        options.config.recovery = patient.config.recovery;
        options
    };
    let server = Server::bind(&options(1), Handler::inline(|question| question.into_bytes()));
    let server = server.expect("a raw socket");
    let client = Client::bind(&options(2)).expect("a raw socket");
    for bytes in [1, 1_424, 1_425, 100_000, 1_000_000] {
        let question = message(bytes, 8);
        let answer = client.call(server.local_address(), question.clone());
        assert!(answer == Ok(question), "{bytes}");
    }
    // Both sockets see every packet of the protocol that is for their address, and nothing else.
    let counters = server.counters();
    assert_eq!((counters.wrong_port, counters.malformed.iter().sum::<u64>()), (0, 0));
}

#[test]
fn clause_2_1_raw_endpoints_of_one_host_leave_each_other_alone() {
    run_in_namespace("raw_endpoints_at_one_address");
}

#[test]
#[ignore = "needs CAP_NET_RAW; another test runs it in a network namespace"]
fn raw_endpoints_at_one_address() {
    let at = Ipv4Addr::new(127, 0, 0, 1);
    let options = || Options::raw(at.into());
    let server = Server::bind(&options(), Handler::inline(|question| question.into_bytes()));
    let server = server.expect("a raw socket");
    let taken = Server::bind(&options(), Handler::inline(|question| question.into_bytes()));
    assert!(taken.expect_err("one port, two servers").to_string().contains("ports of its own"));
    let clients = [(); 2].map(|()| Client::bind(&options()).expect("a raw socket"));
    let question = message(60_000, 4);
    for _ in 0..50 {
        let ask = |client: &Client| client.begin(server.local_address(), question.clone(), None);
        for call in clients.each_ref().map(ask) {
            assert!(call.wait().as_ref() == Ok(&question));
        }
    }
    for client in &clients {
        let counters = until("50 answers", || {
            Some(client.counters()).filter(|counted| counted.answered == 50)
        });
        assert_eq!(counters.machine.unknown_sent, 0);
        assert!(counters.wrong_port > 0, "it saw the other's packets");
    }
}

#[test]
fn clause_2_1_a_server_at_all_addresses_and_one_at_a_single_one_share_a_host() {
    run_in_namespace("raw_servers_at_all_addresses_and_at_one");
}

#[test]
#[ignore = "needs CAP_NET_RAW; another test runs it in a network namespace"]
fn raw_servers_at_all_addresses_and_at_one() {
    let options = |ip: [u8; 4], port| {
        let options = Options::raw(Ipv4Addr::from(ip).into());
        Options { server_port: port, ..options }
    };
    let serve = |ip, port, said: &'static str| {
        Server::bind(&options(ip, port), Handler::inline(move |_| Bytes::from(said)))
    };
    let (all, one) = ([0, 0, 0, 0], [127, 0, 0, 1]);
    let everywhere = serve(all, 99, "everywhere").expect("a raw socket");
    // The same port in one place of all, and all places where one is taken: both would answer.
    let single = serve(one, 98, "here").expect("another port");
    for (ip, port) in [(one, 99), (all, 98)] {
        let taken = serve(ip, port, "twice").expect_err("a port that is taken").to_string();
        assert!(taken.contains("ports of its own"), "{taken}");
    }
    let client = Client::bind(&options([127, 0, 0, 2], 97)).expect("a raw socket");
    for _ in 0..50 {
        for (port, said) in [(99, "everywhere"), (98, "here")] {
            let to = Peer { at: SocketAddr::from((one, 0)), port };
            let answer = client.call(to, message(3_000, 6));
            assert_eq!(answer, Ok(Bytes::from(said)), "port {port}");
        }
    }
    for (server, answered) in [(&everywhere, 50), (&single, 50)] {
        let counters = until("all are counted", || {
            Some(server.counters()).filter(|counters| counters.questions == answered)
        });
        assert_eq!(counters.machine.unknown_sent, 0);
        assert!(counters.wrong_port > 0, "it saw the other's packets");
    }
    drop(everywhere);
    until("its port is free", || serve(one, 99, "later").ok());
}

#[test]
fn clause_7_1_a_call_to_a_closed_raw_port_ends_by_icmp() {
    run_in_namespace("raw_calls_where_nobody_listens");
}

/// The system answers for a protocol that nobody takes; a module answers for a port of its own that
/// is closed, and a test plays it here.
#[test]
#[ignore = "needs CAP_NET_RAW; another test runs it in a network namespace"]
fn raw_calls_where_nobody_listens() {
    let client = Client::bind(&Options::raw(Ipv4Addr::new(127, 0, 0, 2).into()));
    let client = client.expect("a raw socket");
    let nobody = SocketAddr::from(([127, 0, 0, 1], 0));
    let ends_by_icmp = || {
        let start = now();
        assert_eq!(client.call(nobody, "x"), Err(CallError::Unreachable));
        // Silence takes 100 ms.
        assert!(start.elapsed() >= Duration::from_millis(50), "{:?}", start.elapsed());
    };
    (0..20).for_each(|_| ends_by_icmp());
    assert!(client.counters().unreachable_known >= 20);
    let raw = |protocol: i32| {
        let socket = Socket::new(Domain::IPV4, socket2::Type::RAW, Some(Protocol::from(protocol)));
        let socket = socket.expect("a raw socket");
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("an address");
        socket.set_read_timeout(Some(Duration::from_secs(5))).expect("an option");
        socket
    };
    let (mut module, icmp) = (raw(146), raw(1));
    let known = client.counters().unreachable_known;
    let call = client.begin(nobody, "x", None);
    let mut packet = [0; 2_048];
    let length = module.read(&mut packet).expect("the question");
    let mut text = [&[3, 3, 0, 0, 0, 0, 0, 0], &packet[..length]].concat();
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| low.into());
    let sum: u32 = text.chunks(2).map(word).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    text[2..4].copy_from_slice(&(!((folded & 0xffff) + (folded >> 16)) as u16).to_be_bytes());
    icmp.send_to(&text, &SocketAddr::from(([127, 0, 0, 2], 0)).into()).expect("sent");
    assert_eq!(call.wait(), Err(CallError::Unreachable));
    assert_eq!(client.counters().unreachable_known, known + 1);
}

#[test]
fn clause_7_2_packets_are_as_long_as_the_interface_carries() {
    run_in_namespace("raw_ip_with_the_mtu_of_an_interface");
}

#[test]
#[ignore = "needs CAP_NET_RAW; another test runs it in a network namespace"]
fn raw_ip_with_the_mtu_of_an_interface() {
    let ip = |args: &str| assert!(Namespace::ip(&args.split(' ').collect::<Vec<_>>()), "{args}");
    ip("link add jumbo mtu 9000 type veth peer name other mtu 9000");
    ip("link add small mtu 1280 type veth peer name last mtu 1280");
    for (last, (name, mtu)) in [("jumbo", 9_000), ("small", 1_280)].into_iter().enumerate() {
        ip(&format!("address add 10.9.{last}.1/32 dev {name}"));
        ip(&format!("link set {name} up"));
        let at = Ipv4Addr::new(10, 9, last as u8, 1);
        let echo = Handler::inline(|question| question.into_bytes());
        let mut options = Options::raw(at.into());
        options.config.recovery = homa_network::patient().config.recovery;
        let server = Server::bind(&options, echo).expect("a raw socket");
        let client = Client::bind(&options).expect("a raw socket");
        let question = message(500_000, 4);
        assert!(client.call(server.local_address(), question.clone()).as_ref() == Ok(&question));
        let counters = client.counters();
        let full = counters.machine.data_sent_bytes / counters.machine.data_sent;
        let most = mtu - 20 - 56;
        assert!((most * 9 / 10..=most).contains(&full), "{name}: {full} B a packet");
        assert_eq!((counters.too_long, server.counters().too_long), (0, 0));
        // Who says how long packets are is not told by the interface.
        let options = Options::raw(at.into()).with_mtu(1_500);
        let client = Client::bind(&options).expect("a raw socket");
        assert!(client.call(server.local_address(), question.clone()).as_ref() == Ok(&question));
        let counters = client.counters();
        let full = counters.machine.data_sent_bytes / counters.machine.data_sent;
        assert!((1_300..=1_424).contains(&full), "{name}: {full} B a packet");
    }
}

/// Runs another test of this file in a network namespace of its own.
fn run_in_namespace(test: &str) {
    let Some(namespace) = Namespace::make(test) else {
        println!("skipped: no right to make a network namespace, or no `ip`");
        return;
    };
    let itself = std::env::current_exe().expect("a test has a file");
    let output = Command::new("ip")
        .args(["netns", "exec", &namespace.name])
        .arg(itself)
        .args(["--exact", test, "--ignored"])
        .output()
        .expect("`ip` runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}
