//! Drives the machines of all addresses, and owns what they do not know: bytes, the device, and
//! what applications wait for.
//!
//! Everything happens under one lock: the stack's thread takes packets and timers, threads of
//! applications write, read and send what follows from that themselves.

use crate::device;
use crate::faults::Spoiler;
use crate::flow::{Flow, Stage, error};
use crate::metrics::Tally;
use crate::{Error, Options};
use cavy_clock as clock;
use cavy_core::family::Node;
use cavy_core::family::packet::{Extent, Message, Seen};
use cavy_core::family::stream::{Connection as Name, Effect, Input};
use cavy_core::{
    Cx, Instant, Machine as _, Out, Outbox, Packet, Purpose, Room, Stream, Transmit as _,
};
use cavy_tcp::wire::{Arrived, HEADERS_MAX_BYTES, Said, Writer, read};
use cavy_tcp::{Config, Facts, Flags, Segment, Timer, Why};
use parking_lot::Condvar;
use rustix::rand::{GetRandomFlags, getrandom};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::Waker;
use tun_rs::SyncDevice;

/// How long an answer may be as far as a schedule knows: nobody says.
const UNKNOWN_BYTES: u64 = 1 << 40;
/// Whatever the machine has may leave: the device takes packets at once.
const ROOM: Room = Room { packets: u32::MAX, bytes: u32::MAX };

/// What rings.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Alarm {
    Machine(Timer),
    /// The server of this connection has been silent.
    Silence(u64),
}

/// One address.
struct Host {
    address: Ipv4Addr,
    machine: cavy_tcp::Stack,
    rng: Stream,
    flows: BTreeMap<u64, Flow>,
    armed: BTreeMap<Alarm, Instant>,
    /// Where connections to a port wait.
    doors: BTreeMap<u16, usize>,
}

/// Where accepted connections wait for the application.
pub struct Door {
    /// `None`: of all addresses.
    address: Option<Ipv4Addr>,
    port: u16,
    backlog: u16,
    queue: VecDeque<(u32, Name)>,
    pub bell: Arc<Condvar>,
    pub waker: Option<Waker>,
    closed: bool,
}

pub struct Engine {
    pub device: Arc<SyncDevice>,
    pub options: Options,
    config: Config,
    hosts: Vec<Host>,
    by_address: BTreeMap<Ipv4Addr, u32>,
    doors: Vec<Door>,
    timers: BTreeSet<(Instant, u32, Alarm)>,
    pub timer: Arc<OwnedFd>,
    /// When the system's timer rings.
    rings_at: Option<Instant>,
    touched: Vec<u32>,
    out: Outbox<Effect<Why>, Timer>,
    orders: Vec<(u32, Input<Segment>)>,
    /// Whom the connection that is just opened is for, and its name.
    wish: Option<SocketAddrV4>,
    opening: Option<Name>,
    now: Instant,
    pub tally: Tally,
    /// What comes in, and what goes out, over a network that was asked to be bad.
    spoilers: Option<[Spoiler; 2]>,
    /// Why there is nothing to hope for any more.
    pub stopped: Option<io::ErrorKind>,
}

impl Engine {
    /// Opens the device.
    pub fn new(options: Options, late: cavy_core::Span) -> Result<Engine, Error> {
        let config = options.config(late);
        config.check().map_err(|why| Error::new(why, "see the options of TCP"))?;
        let device = device::open(&options)?;
        let broken = |error: rustix::io::Errno| {
            Error::of("cannot make a timer", error.into(), "are file descriptors exhausted?")
        };
        let spoilers =
            options.faults.map(|faults| [0, 1].map(|direction| Spoiler::new(faults, direction)));
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK);
        Ok(Engine {
            device: Arc::new(device),
            options,
            config,
            hosts: Vec::new(),
            by_address: BTreeMap::new(),
            doors: Vec::new(),
            timers: BTreeSet::new(),
            timer: Arc::new(timer.map_err(broken)?),
            rings_at: None,
            touched: Vec::new(),
            out: Outbox::with_capacity(128),
            orders: Vec::new(),
            wish: None,
            opening: None,
            now: clock::now(),
            tally: Tally::new(),
            spoilers,
            stopped: None,
        })
    }

    // ---- machines

    /// Runs one step of a machine and carries out what it wants. `payload` is that of the packet
    /// which just came.
    fn step<T>(
        &mut self,
        host: u32,
        payload: &[u8],
        f: impl FnOnce(&mut cavy_tcp::Stack, &mut Cx<'_, Effect<Why>, Timer>) -> T,
    ) -> T {
        let mut out = std::mem::replace(&mut self.out, Outbox::with_capacity(0));
        let at = &mut self.hosts[host as usize];
        let done = f(&mut at.machine, &mut Cx::new(self.now, &mut at.rng, &mut out));
        for one in out.drain() {
            match one {
                Out::Effect(effect) => self.carry_out(host, effect, payload),
                Out::Arm(timer, at) => self.arm(host, Alarm::Machine(timer), at),
                Out::Disarm(timer) => self.disarm(host, Alarm::Machine(timer)),
            }
        }
        self.out = out;
        done
    }

    fn input(&mut self, host: u32, input: Input<Segment>) {
        self.step(host, &[], |machine, cx| machine.handle(input, cx));
        self.touch(host);
    }

    fn touch(&mut self, host: u32) {
        if self.touched.last() != Some(&host) {
            self.touched.push(host);
        }
    }

    fn arm(&mut self, host: u32, alarm: Alarm, at: Instant) {
        if let Some(old) = self.hosts[host as usize].armed.insert(alarm, at) {
            self.timers.remove(&(old, host, alarm));
        }
        self.timers.insert((at, host, alarm));
    }

    fn disarm(&mut self, host: u32, alarm: Alarm) {
        if let Some(old) = self.hosts[host as usize].armed.remove(&alarm) {
            self.timers.remove(&(old, host, alarm));
        }
    }

    fn flow(&mut self, host: u32, name: Name) -> Option<&mut Flow> {
        self.hosts.get_mut(host as usize)?.flows.get_mut(&name.0)
    }

    fn carry_out(&mut self, host: u32, effect: Effect<Why>, payload: &[u8]) {
        match effect {
            Effect::Opening { connection, .. } => {
                let Some(peer) = self.wish else { return };
                let at = &mut self.hosts[host as usize];
                let port = at.machine.facts(connection).map_or(0, |facts| facts.local_port);
                let local = SocketAddrV4::new(at.address, port);
                at.flows.insert(connection.0, Flow::new(local, peer, true));
                self.opening = Some(connection);
            }
            Effect::Opened { connection, peer, port, accepted: true } => {
                self.accepted(host, connection, peer, port);
            }
            Effect::Opened { connection, .. } => {
                self.tally.opened += 1;
                if let Some(flow) = self.flow(host, connection) {
                    flow.stage = Stage::Open;
                    flow.wake();
                }
            }
            Effect::Place { connection, offset, skip_bytes, length_bytes } => {
                let part = skip_bytes as usize..(skip_bytes + length_bytes) as usize;
                if let (Some(part), Some(flow)) = (payload.get(part), self.flow(host, connection)) {
                    flow.place(offset, part);
                }
            }
            Effect::Readable { connection, to } => self.readable(host, connection, to),
            Effect::Finished { connection } => {
                if let Some(flow) = self.flow(host, connection) {
                    flow.finished = true;
                    flow.wake();
                }
            }
            Effect::Released { connection, to } => {
                if let Some(flow) = self.flow(host, connection) {
                    flow.release(to);
                    flow.wake();
                }
            }
            Effect::Ended { connection, why } => {
                self.tally.ended(why);
                self.disarm(host, Alarm::Silence(connection.0));
                let orphaned = self.flow(host, connection).is_some_and(|flow| {
                    flow.stage = Stage::Over(why);
                    flow.wake();
                    flow.orphaned
                });
                if orphaned {
                    self.hosts[host as usize].flows.remove(&connection.0);
                }
            }
            Effect::Writable { .. } => {}
        }
    }

    fn accepted(&mut self, host: u32, name: Name, peer: Node, port: u16) {
        let at = &mut self.hosts[host as usize];
        let door = at.doors.get(&port).map(|&door| &mut self.doors[door]);
        match door {
            // Those that were half open when it became full are let in as well.
            Some(door) if !door.closed && door.queue.len() < 2 * usize::from(door.backlog) => {
                let remote = at.machine.facts(name).map_or(0, |facts| facts.remote_port);
                let peer = SocketAddrV4::new(Ipv4Addr::from_bits(peer.0), remote);
                let local = SocketAddrV4::new(at.address, port);
                at.flows.insert(name.0, Flow::new(local, peer, false));
                door.queue.push_back((host, name));
                door.bell.notify_one();
                if let Some(waker) = door.waker.take() {
                    waker.wake();
                }
                self.tally.accepted += 1;
            }
            _ => {
                self.tally.overflowed += 1;
                self.orders.push((host, Input::Abort { connection: name }));
            }
        }
    }

    fn readable(&mut self, host: u32, connection: Name, to: u64) {
        let now = self.now;
        let Some(flow) = self.flow(host, connection) else { return };
        let bytes = to - flow.readable;
        flow.readable = to;
        flow.heard_at = now;
        let asks = flow.opened_here && !flow.asking;
        if flow.deaf {
            (flow.taken, flow.came) = (to, VecDeque::new());
            self.orders.push((host, Input::Took { connection, bytes }));
        } else {
            flow.wake();
        }
        if asks {
            self.ask(host, connection);
        }
    }

    // ---- the schedule

    /// Something is awaited of a server: with a schedule it gets turns.
    fn ask(&mut self, host: u32, name: Name) {
        if self.config.schedule.is_none() {
            return;
        }
        let (now, silence) = (self.now, self.options.silence);
        let Some(flow) = self.flow(host, name).filter(|flow| flow.opened_here && !flow.asking)
        else {
            return;
        };
        (flow.asking, flow.heard_at) = (true, now);
        self.hosts[host as usize].machine.expect(name, UNKNOWN_BYTES);
        self.arm(host, Alarm::Silence(name.0), now + silence);
        self.touch(host);
    }

    /// Nothing is awaited any more.
    pub fn answered(&mut self, host: u32, name: Name) {
        let Some(flow) = self.flow(host, name).filter(|flow| flow.asking) else { return };
        flow.asking = false;
        self.disarm(host, Alarm::Silence(name.0));
        self.hosts[host as usize].machine.answered(name);
        self.touch(host);
    }

    fn silent(&mut self, host: u32, name: Name) {
        let (now, silence) = (self.now, self.options.silence);
        let waits = self.hosts[host as usize].machine.waited_for_turn(name);
        let Some(flow) = self.flow(host, name).filter(|flow| flow.asking) else { return };
        if waits || !flow.out.is_empty() {
            // The server has not heard all that it is asked, or may not answer.
            flow.heard_at = now;
        }
        let due = flow.heard_at + silence;
        if due <= now {
            self.answered(host, name);
        } else {
            self.arm(host, Alarm::Silence(name.0), due);
        }
    }

    // ---- packets

    /// Looks at the clock. Nothing goes back, whoever has the lock.
    pub fn tick(&mut self) {
        self.now = self.now.max(clock::now());
    }

    /// The system's timer rang.
    pub fn rang(&mut self) {
        self.rings_at = None;
    }

    /// A packet came, just now.
    pub fn arrives(&mut self, bytes: &[u8]) {
        self.tick();
        match &mut self.spoilers {
            None => self.take(bytes),
            Some([inbound, _]) => {
                inbound.pass(bytes.to_vec()).iter().for_each(|packet| self.take(packet));
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.tally.packets_in += 1;
        let Arrived { from, to, said } = match read(bytes) {
            Ok(packet) => packet,
            Err(damage) => return self.tally.damaged(damage),
        };
        if !self.owns(to) || from == self.options.prefix.broadcast() {
            self.tally.not_ours += 1;
            return;
        }
        let peer = Node(from.to_bits());
        match said {
            Said::Tcp { segment, payload, marked } => {
                let opens = segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK);
                let Some(host) = self.host_of(to, opens.then_some(segment.destination)) else {
                    self.tally.not_ours += 1;
                    return;
                };
                if opens {
                    if self.is_full(host, segment.destination) {
                        self.tally.unheard += 1;
                        return;
                    }
                    self.reseed(host);
                }
                // A packet has at most 65,535 octets.
                let length_bytes = payload.len() as u32;
                self.tally.octets_in += payload.len() as u64;
                let extent = Extent { message: Message(0), offset_bytes: 0, length_bytes };
                let seen = Seen { marked, trimmed: false };
                let input = Input::Rx { from: peer, header: segment, payload: extent, seen };
                self.step(host, payload, |machine, cx| machine.handle(input, cx));
                self.touch(host);
            }
            Said::Unreachable { peer, quoted, why } => {
                if let Some(&host) = self.by_address.get(&to) {
                    self.tally.unreachable += 1;
                    let to = Node(peer.to_bits());
                    self.input(host, Input::Unreachable { to, header: quoted, why });
                }
            }
            Said::Echo(asked) => {
                let mut answer = vec![0; asked.len() + 24];
                if let Some(length) = (Writer { from: to, to: from }).echo(&mut answer, asked) {
                    put(&self.device, &mut self.tally, &[IoSlice::new(&answer[..length])]);
                }
            }
            Said::Other => self.tally.other += 1,
        }
    }

    /// Do as many wait to be accepted at a port as may? Then who knocks is not heard, and knocks
    /// again in a second: a reset would end what only comes too early.
    fn is_full(&self, host: u32, port: u16) -> bool {
        let door = self.hosts[host as usize].doors.get(&port).map(|&place| &self.doors[place]);
        door.is_some_and(|door| door.queue.len() >= usize::from(door.backlog))
    }

    fn owns(&self, address: Ipv4Addr) -> bool {
        let prefix = &self.options.prefix;
        let edge = prefix.prefix_len() < 31
            && (address == prefix.network() || address == prefix.broadcast());
        prefix.contains(&address) && address != self.options.kernel && !edge
    }

    /// The host of an address. One is made for who asks for a port that is open everywhere.
    fn host_of(&mut self, address: Ipv4Addr, opens: Option<u16>) -> Option<u32> {
        if let Some(&host) = self.by_address.get(&address) {
            return Some(host);
        }
        let open = |door: &Door| !door.closed && door.address.is_none() && Some(door.port) == opens;
        self.doors.iter().any(open).then(|| self.make_host(address))
    }

    fn make_host(&mut self, address: Ipv4Addr) -> u32 {
        // There are at most as many as there are addresses.
        let host = self.hosts.len() as u32;
        let mut machine = cavy_tcp::Stack::new(self.config).expect("it was checked");
        let mut rng = Stream::keyed(secret(), address.to_bits(), Purpose::Machine);
        machine.open_from_port(32_768 | rng.bits() as u16);
        let (flows, armed, doors) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        self.hosts.push(Host { address, machine, rng, flows, armed, doors });
        self.by_address.insert(address, host);
        let everywhere = self.doors.iter().enumerate();
        let everywhere = everywhere.filter(|(_, door)| door.address.is_none() && !door.closed);
        for (place, port, backlog) in
            everywhere.map(|(place, door)| (place, door.port, door.backlog)).collect::<Vec<_>>()
        {
            self.hosts[host as usize].doors.insert(port, place);
            self.input(host, Input::Listen { port, backlog });
        }
        host
    }

    /// Initial numbers must not be guessed from those before (RFC 6528).
    fn reseed(&mut self, host: u32) {
        let at = &mut self.hosts[host as usize];
        at.rng = Stream::keyed(secret(), at.address.to_bits(), Purpose::Machine);
    }

    fn send(&mut self, host: u32, packet: &Packet<Segment>) {
        let Extent { message, offset_bytes, length_bytes } = packet.payload;
        let at = &self.hosts[host as usize];
        let flow = at.flows.get(&message.0).filter(|_| length_bytes > 0);
        let parts = flow.map_or([&[][..]; 2], |flow| flow.bytes(offset_bytes, length_bytes));
        let there = parts[0].len() + parts[1].len();
        debug_assert_eq!(there, length_bytes as usize, "the machine names bytes that there are");
        let mut headers = [0; HEADERS_MAX_BYTES];
        let writer = Writer { from: at.address, to: Ipv4Addr::from_bits(packet.to.0) };
        let end = writer.headers(&mut headers, &packet.header, parts);
        let [first, second] = parts;
        self.tally.octets_out += there as u64;
        let Some([_, outbound]) = &mut self.spoilers else {
            let all = [IoSlice::new(&headers[..end]), IoSlice::new(first), IoSlice::new(second)];
            return put(&self.device, &mut self.tally, &all);
        };
        for packet in outbound.pass([&headers[..end], first, second].concat()) {
            put(&self.device, &mut self.tally, &[IoSlice::new(&packet)]);
        }
    }

    /// Sends what is to be sent, runs timers that are due, and sets the system's timer.
    pub fn settle(&mut self) {
        loop {
            while let Some((host, input)) = self.orders.pop() {
                self.input(host, input);
            }
            if let Some(host) = self.touched.pop() {
                while let Some(packet) = self.step(host, &[], |machine, cx| machine.pull(ROOM, cx))
                {
                    self.send(host, &packet);
                }
                continue;
            }
            self.tick();
            match self.timers.first() {
                Some(&(at, host, alarm)) if at <= self.now => {
                    self.timers.pop_first();
                    self.hosts[host as usize].armed.remove(&alarm);
                    match alarm {
                        Alarm::Machine(timer) => {
                            if timer != Timer::Rest {
                                self.tally.late(self.now.since(at));
                            }
                            self.step(host, &[], |machine, cx| machine.expire(timer, cx));
                            self.touch(host);
                        }
                        Alarm::Silence(name) => self.silent(host, Name(name)),
                    }
                }
                _ => break,
            }
        }
        let first = self.timers.first().map(|&(at, ..)| at);
        if let Some(at) = first.filter(|&at| self.rings_at.is_none_or(|rings| at < rings)) {
            // A timer that cannot be set would be a kernel's bug; packets still wake the thread.
            let _ = ring(&self.timer, at);
            self.rings_at = Some(at);
        }
    }

    // ---- applications

    /// Why nothing can be done any more.
    pub fn end(&self) -> Option<io::Error> {
        self.stopped.map(|kind| io::Error::new(kind, "the stack has ended"))
    }

    /// Opens a connection from an address.
    pub fn connect(&mut self, from: Ipv4Addr, to: SocketAddrV4) -> io::Result<(u32, Name)> {
        self.end().map_or(Ok(()), Err)?;
        if !self.owns(from) {
            let text = format!("{from} is not an address of this stack");
            return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, text));
        }
        self.tick();
        let host = self.by_address.get(&from).copied().unwrap_or_else(|| self.make_host(from));
        self.reseed(host);
        self.wish = Some(to);
        let peer = Node(to.ip().to_bits());
        self.input(host, Input::Open { ticket: 0, to: peer, port: to.port() });
        self.wish = None;
        let name = self.opening.take().ok_or(io::ErrorKind::ConnectionRefused)?;
        self.settle();
        Ok((host, name))
    }

    /// Opens a port, of one address or of all.
    pub fn bind(&mut self, at: SocketAddrV4, backlog: u16) -> io::Result<usize> {
        self.end().map_or(Ok(()), Err)?;
        let address = (!at.ip().is_unspecified()).then_some(*at.ip());
        if let Some(address) = address.filter(|&address| !self.owns(address)) {
            let text = format!("{address} is not an address of this stack");
            return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, text));
        }
        let same = |door: &Door| {
            let meets = door.address.is_none() || address.is_none() || door.address == address;
            !door.closed && door.port == at.port() && meets
        };
        if self.doors.iter().any(same) {
            let text = format!("port {} is taken", at.port());
            return Err(io::Error::new(io::ErrorKind::AddrInUse, text));
        }
        self.tick();
        let port = at.port();
        let (queue, bell) = (VecDeque::new(), Arc::new(Condvar::new()));
        let door = Door { address, port, backlog, queue, bell, waker: None, closed: false };
        let free = self.doors.iter().position(|door| door.closed && door.queue.is_empty());
        let place = free.unwrap_or(self.doors.len());
        match free {
            Some(place) => self.doors[place] = door,
            None => self.doors.push(door),
        }
        let hosts: Vec<u32> = match address {
            None => (0..self.hosts.len() as u32).collect(),
            Some(one) => {
                vec![self.by_address.get(&one).copied().unwrap_or_else(|| self.make_host(one))]
            }
        };
        for host in hosts {
            self.hosts[host as usize].doors.insert(port, place);
            self.input(host, Input::Listen { port, backlog });
        }
        self.settle();
        Ok(place)
    }

    /// Closes a port, and resets what nobody accepted.
    pub fn unbind(&mut self, place: usize) {
        self.tick();
        let door = &mut self.doors[place];
        door.closed = true;
        let (port, waiting) = (door.port, std::mem::take(&mut door.queue));
        for host in 0..self.hosts.len() as u32 {
            let doors = &mut self.hosts[host as usize].doors;
            if doors.get(&port) == Some(&place) {
                doors.remove(&port);
                self.input(host, Input::Unlisten { port });
            }
        }
        for (host, connection) in waiting {
            self.abandon(host, connection, true);
        }
        self.settle();
    }

    /// Where connections wait.
    pub fn door(&mut self, place: usize) -> &mut Door {
        &mut self.doors[place]
    }

    /// A connection that waits at a door, and its two ends.
    pub fn accept(&mut self, place: usize) -> Option<(u32, Name)> {
        self.doors[place].queue.pop_front()
    }

    /// The two ends of a connection: ours and the peer's, and what wakes who waits.
    pub fn ends(
        &mut self,
        host: u32,
        name: Name,
    ) -> Option<(SocketAddrV4, SocketAddrV4, Arc<Condvar>)> {
        self.flow(host, name).map(|flow| (flow.local, flow.peer, Arc::clone(&flow.bell)))
    }

    /// Is it open? `None`: not yet.
    pub fn is_open(&mut self, host: u32, name: Name) -> Option<io::Result<()>> {
        if let Some(end) = self.end() {
            return Some(Err(end));
        }
        match self.flow(host, name).map(|flow| flow.stage) {
            Some(Stage::Opening) => None,
            Some(Stage::Open) => Some(Ok(())),
            Some(Stage::Over(why)) => Some(Err(error(why))),
            None => Some(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    /// Reads; `None`: nothing is there yet.
    pub fn read(&mut self, host: u32, name: Name, into: &mut [u8]) -> Option<io::Result<usize>> {
        if let Some(end) = self.end() {
            return Some(Err(end));
        }
        let Some(flow) = self.flow(host, name) else {
            return Some(Err(io::ErrorKind::NotConnected.into()));
        };
        let done = flow.read(into)?;
        if let Ok(bytes @ 1..) = done {
            self.tick();
            self.input(host, Input::Took { connection: name, bytes: bytes as u64 });
            self.settle();
        }
        Some(done)
    }

    /// Writes; `None`: there is no room yet.
    pub fn write(&mut self, host: u32, name: Name, from: &[u8]) -> Option<io::Result<usize>> {
        if let Some(end) = self.end() {
            return Some(Err(end));
        }
        let most = self.options.send_buffer_bytes;
        let Some(flow) = self.flow(host, name) else {
            return Some(Err(io::ErrorKind::NotConnected.into()));
        };
        let done = flow.write(from, most)?;
        if let Ok(bytes @ 1..) = done {
            self.tick();
            self.ask(host, name);
            let bytes = bytes as u64;
            self.input(host, Input::Write { connection: name, bytes, whole: false });
            self.settle();
        }
        Some(done)
    }

    /// Writes no more.
    pub fn shut(&mut self, host: u32, name: Name) {
        self.tick();
        if let Some(flow) = self.flow(host, name).filter(|flow| !flow.shut) {
            flow.shut = true;
            self.input(host, Input::Shut { connection: name });
            self.settle();
        }
    }

    /// Reads no more: what comes is dropped.
    pub fn deafen(&mut self, host: u32, name: Name) {
        self.tick();
        let Some(flow) = self.flow(host, name).filter(|flow| !flow.deaf) else { return };
        let bytes = flow.readable - flow.taken;
        flow.deaf = true;
        (flow.taken, flow.came) = (flow.readable, VecDeque::new());
        flow.wake();
        self.input(host, Input::Took { connection: name, bytes });
        self.settle();
    }

    /// The application is done with a connection. What it wrote still goes, unless it is reset.
    pub fn abandon(&mut self, host: u32, name: Name, reset: bool) {
        self.tick();
        let Some(flow) = self.flow(host, name) else { return };
        flow.orphaned = true;
        flow.deaf = true;
        flow.came = VecDeque::new();
        if let Stage::Over(_) = flow.stage {
            self.hosts[host as usize].flows.remove(&name.0);
        } else {
            self.answered(host, name);
            let connection = name;
            let input =
                if reset { Input::Abort { connection } } else { Input::Close { connection } };
            self.input(host, input);
        }
        self.settle();
    }

    /// How a connection stands.
    pub fn facts(&self, host: u32, name: Name) -> Option<Facts> {
        self.hosts[host as usize].machine.facts(name)
    }

    /// Who waits for reading or writing.
    #[cfg(feature = "tokio")]
    pub fn wait(&mut self, host: u32, name: Name, waker: &Waker, reads: bool) {
        if let Some(flow) = self.flow(host, name) {
            let place = if reads { &mut flow.reader } else { &mut flow.writer };
            *place = Some(waker.clone());
        }
    }

    /// Nothing goes on; whoever waits is told.
    pub fn stop(&mut self, why: io::ErrorKind) {
        if self.stopped.is_some() {
            return;
        }
        self.tick();
        let flows = (0..).zip(&self.hosts);
        let all: Vec<(u32, Name)> = flows
            .flat_map(|(host, of)| of.flows.keys().map(move |&name| (host, Name(name))))
            .collect();
        for (host, connection) in all {
            self.input(host, Input::Abort { connection });
        }
        self.settle();
        self.stopped = Some(why);
        let flows = self.hosts.iter_mut().flat_map(|host| host.flows.values_mut());
        flows.for_each(Flow::wake);
        for door in &mut self.doors {
            door.bell.notify_all();
            if let Some(waker) = door.waker.take() {
                waker.wake();
            }
        }
    }

    /// Connections that are not over, in any state.
    pub fn live(&self) -> u64 {
        self.hosts.iter().map(|host| u64::from(host.machine.connections())).sum()
    }

    /// Flows that have something of an application's.
    pub fn unfinished(&self) -> u64 {
        let unsent = |flow: &&Flow| !flow.out.is_empty() && flow.stage == Stage::Open;
        self.hosts.iter().map(|host| host.flows.values().filter(unsent).count() as u64).sum()
    }

    /// What all machines counted.
    pub fn counts(&self) -> cavy_tcp::Counts {
        let mut all = cavy_tcp::Counts::default();
        self.hosts.iter().for_each(|host| all.add(host.machine.counts()));
        all
    }

    /// Addresses that are in use.
    pub fn addresses(&self) -> usize {
        self.hosts.len()
    }
}

/// Gives a packet to the kernel.
fn put(device: &SyncDevice, tally: &mut Tally, parts: &[IoSlice<'_>]) {
    match rustix::io::writev(device, parts) {
        Ok(_) => tally.packets_out += 1,
        // The kernel has no room: for TCP that is a loss like another.
        Err(_) => tally.refused += 1,
    }
}

/// What nobody can guess.
fn secret() -> u64 {
    let mut bytes = [0; 8];
    // A system that has booted has randomness.
    let _ = getrandom(&mut bytes, GetRandomFlags::empty());
    u64::from_ne_bytes(bytes)
}

/// Rings at this time.
fn ring(timer: &OwnedFd, at: Instant) -> rustix::io::Result<()> {
    // Zero would disarm it, and a time that has passed rings at once.
    let ns = at.as_ns().max(1);
    let it_value = Timespec {
        tv_sec: (ns / 1_000_000_000).try_into().unwrap_or(i64::MAX),
        tv_nsec: (ns % 1_000_000_000) as _,
    };
    let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
    timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &Itimerspec { it_interval, it_value })?;
    Ok(())
}
