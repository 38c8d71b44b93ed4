//! The machine against `smoltcp`, a TCP that shares no line with it, over a simulated link with
//! losses, copies and overtaking, in both roles. Octets have values here: both sides check them.
//!
//! `CAVY_SEEDS=1000 cargo test -p cavy-tcp --test smoltcp` runs more; `CAVY_SEED=n` one.

use cavy_core::family::Node;
use cavy_core::family::packet::{Extent, Message, Seen};
use cavy_core::family::stream::{Connection, Effect, Input};
use cavy_core::laws::packet::Stage;
use cavy_core::{Instant, Purpose, Span, Stream};
use cavy_tcp::segment::Stamps;
use cavy_tcp::{Config, Congestion, DelayedAck, Flags, RtoConfig, Segment, Stack, Why};
use smoltcp::iface::{Config as FaceConfig, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{ChecksumCapabilities, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp;
use smoltcp::time::Instant as Then;
use smoltcp::wire::{
    HardwareAddress, IpAddress, IpCidr, IpProtocol, Ipv4Address, Ipv4Packet, Ipv4Repr, TcpControl,
    TcpPacket, TcpRepr, TcpSeqNumber, TcpTimestampRepr,
};
use std::collections::{BTreeMap, VecDeque};

const OURS: Ipv4Address = Ipv4Address::new(10, 0, 0, 1);
const THEIRS: Ipv4Address = Ipv4Address::new(10, 0, 0, 2);

/// The octet at an offset of a stream.
fn octet(at: u64, theirs: bool) -> u8 {
    (at.wrapping_mul(31) ^ (at >> 8) ^ if theirs { 0x5a } else { 0 }) as u8
}

/// What `smoltcp` is given and gives.
#[derive(Default)]
struct Wire {
    inbox: VecDeque<Vec<u8>>,
    outbox: Vec<Vec<u8>>,
}

struct Taken(Vec<u8>);
struct Given<'a>(&'a mut Vec<Vec<u8>>);

impl RxToken for Taken {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl TxToken for Given<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
        let mut bytes = vec![0; length];
        let result = f(&mut bytes);
        self.0.push(bytes);
        result
    }
}

impl Device for Wire {
    type RxToken<'a> = Taken;
    type TxToken<'a> = Given<'a>;
    fn receive(&mut self, _: Then) -> Option<(Taken, Given<'_>)> {
        let bytes = self.inbox.pop_front()?;
        Some((Taken(bytes), Given(&mut self.outbox)))
    }
    fn transmit(&mut self, _: Then) -> Option<Given<'_>> {
        Some(Given(&mut self.outbox))
    }
    fn capabilities(&self) -> DeviceCapabilities {
        let mut all = DeviceCapabilities::default();
        all.medium = Medium::Ip;
        all.max_transmission_unit = 1500;
        all
    }
}

/// A segment of ours with its octets, as bytes.
fn encode(segment: &Segment, payload: &[u8]) -> Vec<u8> {
    let flags = segment.flags;
    let control = match flags {
        _ if flags.has(Flags::RST) => TcpControl::Rst,
        _ if flags.has(Flags::SYN) => TcpControl::Syn,
        _ if flags.has(Flags::FIN) => TcpControl::Fin,
        _ if flags.has(Flags::PSH) => TcpControl::Psh,
        _ => TcpControl::None,
    };
    let mut sack_ranges = [None; 3];
    for (place, block) in sack_ranges.iter_mut().zip(segment.sacks.blocks()) {
        *place = Some(*block);
    }
    let repr = TcpRepr {
        src_port: segment.source,
        dst_port: segment.destination,
        control,
        seq_number: TcpSeqNumber(segment.seq as i32),
        ack_number: flags.has(Flags::ACK).then_some(TcpSeqNumber(segment.ack as i32)),
        window_len: segment.window,
        window_scale: segment.scale,
        max_seg_size: segment.mss,
        sack_permitted: segment.sack_permitted,
        sack_ranges,
        timestamp: segment.stamps.map(|stamps| TcpTimestampRepr::new(stamps.value, stamps.echo)),
        payload,
    };
    let ip = Ipv4Repr {
        src_addr: OURS,
        dst_addr: THEIRS,
        next_header: IpProtocol::Tcp,
        payload_len: repr.buffer_len(),
        hop_limit: 64,
    };
    let checks = ChecksumCapabilities::default();
    let mut bytes = vec![0; ip.buffer_len() + repr.buffer_len()];
    let mut packet = Ipv4Packet::new_unchecked(&mut bytes);
    ip.emit(&mut packet, &checks);
    let (from, to) = (IpAddress::Ipv4(OURS), IpAddress::Ipv4(THEIRS));
    repr.emit(&mut TcpPacket::new_unchecked(packet.payload_mut()), &from, &to, &checks);
    bytes
}

/// One of theirs, with its octets.
fn decode(bytes: &[u8]) -> (Segment, Vec<u8>) {
    let packet = Ipv4Packet::new_checked(bytes).expect("an IP packet");
    let checks = ChecksumCapabilities::default();
    let (from, to) = (IpAddress::Ipv4(THEIRS), IpAddress::Ipv4(OURS));
    let tcp = TcpPacket::new_checked(packet.payload()).expect("a TCP segment");
    let repr = TcpRepr::parse(&tcp, &from, &to, &checks).expect("a sound segment");
    let mut flags = match repr.control {
        TcpControl::None => Flags(0),
        TcpControl::Psh => Flags::PSH,
        TcpControl::Syn => Flags::SYN,
        TcpControl::Fin => Flags::FIN,
        TcpControl::Rst => Flags::RST,
    };
    if repr.ack_number.is_some() {
        flags = flags.with(Flags::ACK);
    }
    let seq = repr.seq_number.0 as u32;
    let mut made = Segment::new(repr.src_port, repr.dst_port, seq, flags);
    made.ack = repr.ack_number.map_or(0, |ack| ack.0 as u32);
    made.window = repr.window_len;
    made.mss = repr.max_seg_size;
    made.scale = repr.window_scale;
    made.sack_permitted = repr.sack_permitted;
    made.stamps = repr.timestamp.map(|one| Stamps { value: one.tsval, echo: one.tsecr });
    for (left, right) in repr.sack_ranges.into_iter().flatten() {
        made.sacks.push(left, right);
    }
    (made, repr.payload.to_vec())
}

enum Event {
    ToUs(Vec<u8>),
    ToThem(Vec<u8>),
    Poll,
}

struct World {
    /// Our side.
    stage: Stage<Stack>,
    air: Stream,
    connection: Option<Connection>,
    /// The octets of the packet that is being handled.
    arrived: Vec<u8>,
    to_write: u64,
    readable: u64,
    finished: bool,
    ended: Option<Why>,
    wire: Wire,
    face: Interface,
    sockets: SocketSet<'static>,
    socket: SocketHandle,
    their_to_write: u64,
    written: u64,
    read: u64,
    events: BTreeMap<(u64, u64), Event>,
    numbered: u64,
    last_there: [u64; 2],
    /// In thousandths: lost, copied, late.
    weather: [u64; 3],
    /// Print what is sent.
    loud: bool,
}

/// A packet of either side in words.
fn words(bytes: &[u8]) -> String {
    let packet = Ipv4Packet::new_unchecked(bytes);
    let tcp = TcpPacket::new_unchecked(packet.payload());
    format!("{tcp}")
}

impl World {
    fn new(config: Config, seed: u64, weather: [u64; 3], octets: [u64; 2], active: bool) -> World {
        let mut wire = Wire::default();
        let mut face_config = FaceConfig::new(HardwareAddress::Ip);
        face_config.random_seed = seed;
        let mut face = Interface::new(face_config, &mut wire, Then::ZERO);
        face.update_ip_addrs(|all| {
            all.push(IpCidr::new(IpAddress::Ipv4(THEIRS), 24)).expect("room for an address");
        });
        let buffer = |size| tcp::SocketBuffer::new(vec![0; size]);
        let mut socket = tcp::Socket::new(buffer(30_000), buffer(30_000));
        if seed.is_multiple_of(3) {
            socket.set_ack_delay(None);
        }
        let mut sockets = SocketSet::new(Vec::new());
        let socket = sockets.add(socket);
        let stack = Stack::new(config).expect("a legal configuration");
        let mut stage = Stage::new(stack, Instant::ZERO, seed);
        stage.room_bytes = 1_480;
        let mut world = World {
            stage,
            air: Stream::keyed(seed, 9, Purpose::Faults),
            connection: None,
            arrived: Vec::new(),
            to_write: octets[0],
            readable: 0,
            finished: false,
            ended: None,
            wire,
            face,
            sockets,
            socket,
            their_to_write: octets[1],
            written: 0,
            read: 0,
            events: BTreeMap::new(),
            numbered: 0,
            last_there: [0; 2],
            weather,
            loud: seeds(2).end - seeds(2).start == 1,
        };
        let context = world.face.context();
        let theirs = world.sockets.get_mut::<tcp::Socket<'_>>(socket);
        if active {
            theirs.listen(80).expect("a free port");
            world.input(Input::Open { ticket: 1, to: Node(1), port: 80 });
        } else {
            theirs.connect(context, (OURS, 80), 49_152).expect("a free port");
            world.input(Input::Listen { port: 80, backlog: 4 });
        }
        world.push(0, Event::Poll);
        world
    }

    fn push(&mut self, at: u64, event: Event) {
        self.numbered += 1;
        self.events.insert((at, self.numbered), event);
    }

    fn carry(&mut self, to_us: bool, bytes: Vec<u8>) {
        let [lost, copied, late] = self.weather;
        let is_lost = self.air.below(1000) < lost;
        if self.loud {
            let whose = if to_us { "smoltcp" } else { "we" };
            let fate = if is_lost { " (lost)" } else { "" };
            println!("{:?} {whose}: {}{fate}", self.stage.now, words(&bytes));
        }
        if is_lost {
            return;
        }
        for _ in 0..1 + u64::from(self.air.below(1000) < copied) {
            let way = usize::from(to_us);
            let mut at = (self.stage.now.as_ns() + 200_000).max(self.last_there[way]);
            if self.air.below(1000) < late {
                at += self.air.below(3_000_000);
            } else {
                self.last_there[way] = at;
            }
            let copy = bytes.clone();
            self.push(at, if to_us { Event::ToUs(copy) } else { Event::ToThem(copy) });
        }
    }

    fn input(&mut self, input: Input<Segment>) {
        self.stage.input(input);
        self.settle();
    }

    /// Does what the stack wants done, and takes the packets that it may send then.
    fn settle(&mut self) {
        loop {
            for effect in std::mem::take(&mut self.stage.effects) {
                self.apply(effect);
            }
            let Some(packet) = self.stage.pull() else { break };
            let Extent { offset_bytes, length_bytes, .. } = packet.payload;
            let all = 0..u64::from(length_bytes);
            let payload: Vec<u8> = all.map(|n| octet(u64::from(offset_bytes) + n, false)).collect();
            let bytes = encode(&packet.header, &payload);
            self.carry(false, bytes);
        }
        for effect in std::mem::take(&mut self.stage.effects) {
            self.apply(effect);
        }
    }

    fn apply(&mut self, effect: Effect<Why>) {
        match effect {
            Effect::Opening { connection, .. } => self.connection = Some(connection),
            Effect::Opened { connection, .. } => {
                self.connection = Some(connection);
                let bytes = self.to_write;
                self.input(Input::Write { connection, bytes, whole: false });
                self.input(Input::Shut { connection });
            }
            Effect::Place { offset, skip_bytes, length_bytes, .. } => {
                let from = skip_bytes as usize;
                let part = &self.arrived[from..from + length_bytes as usize];
                for (place, &have) in part.iter().enumerate() {
                    assert_eq!(have, octet(offset + place as u64, true), "a wrong octet for us");
                }
            }
            Effect::Readable { connection, to } => {
                let bytes = to - self.readable;
                self.readable = to;
                self.input(Input::Took { connection, bytes });
            }
            Effect::Finished { connection } => {
                self.finished = true;
                self.input(Input::Close { connection });
            }
            Effect::Ended { why, .. } => self.ended = Some(why),
            Effect::Writable { .. } | Effect::Released { .. } => {}
        }
    }

    /// Lets `smoltcp` work, and its application write, read and close.
    fn poll(&mut self) {
        let then = Then::from_micros((self.stage.now.as_ns() / 1_000) as i64);
        for _ in 0..8 {
            let before = (self.written, self.read);
            self.face.poll(then, &mut self.wire, &mut self.sockets);
            let socket = self.sockets.get_mut::<tcp::Socket<'_>>(self.socket);
            while socket.can_recv() {
                let mut buffer = [0; 4_096];
                let count = socket.recv_slice(&mut buffer).expect("readable");
                for (place, &have) in buffer[..count].iter().enumerate() {
                    let at = self.read + place as u64;
                    assert_eq!(have, octet(at, false), "a wrong octet for smoltcp");
                }
                self.read += count as u64;
            }
            while socket.can_send() && self.written < self.their_to_write {
                let most = (self.their_to_write - self.written).min(1_000);
                let bytes: Vec<u8> = (0..most).map(|n| octet(self.written + n, true)).collect();
                let count = socket.send_slice(&bytes).expect("writable");
                self.written += count as u64;
                if count == 0 {
                    break;
                }
            }
            if self.written == self.their_to_write && socket.may_send() {
                socket.close();
            }
            if before == (self.written, self.read) {
                break;
            }
        }
        self.face.poll(then, &mut self.wire, &mut self.sockets);
        for bytes in std::mem::take(&mut self.wire.outbox) {
            self.carry(true, bytes);
        }
        if let Some(at) = self.face.poll_at(then, &self.sockets) {
            let at = (at.total_micros().max(0) as u64 * 1_000).max(self.stage.now.as_ns() + 1_000);
            self.push(at, Event::Poll);
        }
    }

    /// When something happens next: our timers, and what is on its way or up to `smoltcp`.
    fn next_at(&self) -> Option<(u64, bool)> {
        let timer = self.stage.timers.values().min().map(|at| (at.as_ns(), false));
        let event = self.events.keys().next().map(|&(at, _)| (at, true));
        [timer, event].into_iter().flatten().min()
    }

    fn run(&mut self) {
        let mut steps = 0;
        while let Some((at, is_event)) = self.next_at() {
            // Five minutes: floors of a second double a few times.
            if at > 300_000_000_000 || self.is_done() {
                return;
            }
            steps += 1;
            assert!(steps < 2_000_000, "it goes on and on");
            self.stage.now = self.stage.now.max(Instant::from_ns(at));
            if is_event {
                let (_, event) = self.events.pop_first().expect("there is one");
                self.meet(event);
            } else {
                self.stage.expire_next();
                self.settle();
            }
        }
    }

    fn meet(&mut self, event: Event) {
        match event {
            Event::ToUs(bytes) => {
                let (header, payload) = decode(&bytes);
                let length_bytes = payload.len() as u32;
                self.arrived = payload;
                let payload = Extent { message: Message(0), offset_bytes: 0, length_bytes };
                let from = Node(1);
                self.input(Input::Rx { from, header, payload, seen: Seen::default() });
            }
            Event::ToThem(bytes) => {
                self.wire.inbox.push_back(bytes);
                self.poll();
            }
            Event::Poll => self.poll(),
        }
    }

    fn is_done(&self) -> bool {
        self.finished && self.readable == self.their_to_write && self.read == self.to_write
    }
}

#[allow(clippy::disallowed_methods)] // which seeds to run is the caller's to say
fn seeds(few: u64) -> std::ops::Range<u64> {
    cavy_core::laws::seeds(|name| std::env::var(name).ok(), 0..few)
}

fn configs() -> [Config; 6] {
    let plain = Config::reference(RtoConfig::FINE);
    let quick = Span::from_ms(20);
    [
        Config { persist_min: quick, ..plain },
        Config { persist_min: quick, ..Config::fine(Congestion::Cubic) },
        Config { stamps: None, persist_min: quick, ..Config::fine(Congestion::NewReno) },
        Config::linux(Congestion::NewReno),
        Config { sack: false, delayed_ack: DelayedAck::Fixed(Span::from_ms(5)), ..plain },
        Config { receive_buffer_bytes: 4_000, mss_bytes: 536, ..Config::fine(Congestion::Cubic) },
    ]
}

fn both_arrive(seed: u64, active: bool) {
    let config = configs()[(seed % 6) as usize];
    let weather = [seed * 37 % 120, seed * 11 % 80, seed * 53 % 200];
    let mut world = World::new(config, seed, weather, [20_000, 15_000], active);
    world.run();
    let role = if active { "we open" } else { "smoltcp opens" };
    assert!(
        world.is_done(),
        "{role}: we read {} of {}, smoltcp {} of {}, ended {:?}, {weather:?}; CAVY_SEED={seed}",
        world.readable,
        world.their_to_write,
        world.read,
        world.to_write,
        world.ended,
    );
}

#[test]
fn incast_3_b13_smoltcp_listens_and_every_octet_is_right() {
    seeds(60).for_each(|seed| both_arrive(seed, true));
}

#[test]
fn incast_3_b13_smoltcp_opens_and_every_octet_is_right() {
    seeds(60).for_each(|seed| both_arrive(seed, false));
}
