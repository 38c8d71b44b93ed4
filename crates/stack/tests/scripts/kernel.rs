//! The kernel of this machine in the place of the machine: a script's peer speaks to a socket over
//! a TUN device.
//!
//! Time is real, and the kernel's clock is coarse: a script of less than 600 ms runs ten times as
//! slowly, so that a tick of 4 ms is little beside it.

use crate::icmp::{sum_of, unreachable};
use crate::wants::{Wants, outlook, wants};
use crate::words::{Places, Script, flags, greeting, number, range, span};
use cavy_clock::{self as clock, Wait};
use cavy_core::{Instant, Span};
use cavy_tcp::wire::{HEADERS_MAX_BYTES, Said, Writer, read};
use cavy_tcp::{Flags, Segment};
use cavy_testbed::tools;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use socket2::{Domain, Protocol, SockAddr, Socket, TcpKeepalive, Type};
use std::collections::VecDeque;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;
use tun_rs::{DeviceBuilder, SyncDevice};

/// The kernel's address and a router's. Each script has a peer of its own.
const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 89, 0, 1);
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 89, 255, 1);
const PEER_PORT: u16 = 50_000;
/// Where nobody listens.
const CLOSED_PORT: u16 = 9;
const DEVICE: &str = "seg0";
/// How late an expected segment may be, beside what timers are late by.
const GRACE: Span = Span::from_ms(150);
/// Timers of Linux are late by up to an eighth: its wheel has eight times coarser slots for each
/// eight times longer wait.
const LATE: u64 = 8;
/// How long one waits for what should not come.
const SETTLE: Span = Span::from_ms(3);
/// A few of these are not counted as time.
const BEYOND: Span = Span::from_ms(10);
/// How long a device may take to be there.
const DEVICE_SPAN: Span = Span::from_ms(5_000);
/// How far a stated time may be off beside that: two ticks, and what threads are late by.
const TIME_SPAN: Span = Span::from_ms(30);
/// `MSG_EOR | MSG_NOSIGNAL`.
const WHOLE: i32 = 0x80 | 0x4000;
const SEND_BUFFER_BYTES: usize = 1 << 20;
const NANOS: u64 = 1_000_000_000;

/// What became of a script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The kernel did what the script says; so many of its lines could not be compared.
    Agrees { uncompared: usize },
    /// It did something else.
    Differs(String),
    /// It cannot be asked.
    Impossible(String),
}

struct Left {
    at: Instant,
    segment: Segment,
    length: u32,
    ect: bool,
}

/// A row of the kernel's table of connections.
struct Row {
    state: u8,
    unacknowledged: u64,
    unread: u64,
}

struct Player {
    device: SyncDevice,
    peer: Ipv4Addr,
    wants: Wants,
    slower: u64,
    /// When the script began, put off by what the kernel was late.
    began: Instant,
    /// Time of the script.
    passed: Span,
    left: VecDeque<Left>,
    listener: Option<Socket>,
    socket: Option<Socket>,
    /// The socket was there and was given up.
    closed: bool,
    passive: bool,
    own_isn: Option<u32>,
    port: u16,
    written: u64,
    taken: u64,
    readable_told: u64,
    error: Option<i32>,
    opened: bool,
    uncompared: usize,
}

/// Plays a script in the namespace of this thread, with a peer of this number.
pub fn play(script: &Script, peer: u16) -> Verdict {
    let slower = outlook(script).slower;
    let wants = match wants(script, slower) {
        Ok(wants) => wants,
        Err(why) => return Verdict::Impossible(why),
    };
    let player = Player::new(wants, slower, peer);
    let mut player = match player {
        Ok(player) => player,
        Err(error) => return Verdict::Impossible(format!("no device: {error}")),
    };
    for (at, line) in &script.lines {
        match player.line(line) {
            Ok(()) => {}
            Err(Stop::Differs(why)) => {
                return Verdict::Differs(format!("line {at}, `{line}`: {why}"));
            }
            Err(Stop::Impossible(why)) => return Verdict::Impossible(why),
        }
    }
    Verdict::Agrees { uncompared: player.uncompared }
}

enum Stop {
    Differs(String),
    Impossible(String),
}

impl From<String> for Stop {
    fn from(why: String) -> Stop {
        Stop::Impossible(why)
    }
}

impl From<&str> for Stop {
    fn from(why: &str) -> Stop {
        Stop::Impossible(why.to_string())
    }
}

fn differs<T>(why: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Differs(why.into()))
}

fn broken(what: &str) -> impl Fn(io::Error) -> Stop + '_ {
    move |error| Stop::Impossible(format!("{what}: {error}"))
}

impl Player {
    fn new(wants: Wants, slower: u64, peer: u16) -> Result<Player, String> {
        for (name, value) in &wants.sysctls {
            let path = format!("/proc/sys/net/ipv4/{name}");
            // What this kernel does not have it does not have; a script that needs it differs.
            let _ = fs::write(path, value);
        }
        let device = open_device()?;
        let route = format!("route replace 10.89.0.0/16 dev {DEVICE} src {KERNEL} {}", wants.route);
        let words: Vec<&str> = route.split(' ').collect();
        tools::run("ip", &words).map_err(|error| error.to_string())?;
        let [high, low] = peer.to_be_bytes();
        Ok(Player {
            device,
            peer: Ipv4Addr::new(10, 89, 1 + high, low),
            wants,
            slower,
            began: clock::now(),
            passed: Span::ZERO,
            left: VecDeque::new(),
            listener: None,
            socket: None,
            closed: false,
            passive: false,
            own_isn: None,
            port: CLOSED_PORT,
            written: 0,
            taken: 0,
            readable_told: 0,
            error: None,
            opened: false,
            uncompared: 0,
        })
    }

    // ---- time and packets

    /// Takes what the kernel sends until then, or until something is there.
    fn gather(&mut self, until: Instant, stop_early: bool) -> Result<(), Stop> {
        let mut packet = vec![0; 65_535];
        loop {
            match rustix::io::read(&self.device, &mut packet[..]) {
                Ok(length) => {
                    self.heard(&packet[..length]);
                    continue;
                }
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
                Err(error) => return Err(Stop::Impossible(format!("the device: {error}"))),
            }
            let now = clock::now();
            if now >= until || (stop_early && !self.left.is_empty()) {
                return Ok(());
            }
            let wait = until.since(now).as_ns();
            let wait = Timespec { tv_sec: (wait / NANOS) as i64, tv_nsec: (wait % NANOS) as _ };
            let mut fds = [PollFd::new(&self.device, PollFlags::IN)];
            let _ = poll(&mut fds, Some(&wait));
        }
    }

    fn heard(&mut self, bytes: &[u8]) {
        let Ok(packet) = read(bytes) else { return };
        let Said::Tcp { segment, payload, .. } = packet.said else { return };
        if packet.to != self.peer {
            return;
        }
        if segment.flags.has(Flags::SYN) {
            self.own_isn.get_or_insert(segment.seq);
        }
        self.port = segment.source;
        // A packet has at most 65,535 octets.
        let length = payload.len() as u32;
        self.left.push_back(Left { at: clock::now(), segment, length, ect: bytes[1] & 3 == 2 });
    }

    /// How long one waits for what should come. All of a script's time may have been one timer's.
    fn grace(&self) -> Span {
        GRACE + Span::from_ns((self.passed * self.slower).as_ns() / LATE)
    }

    fn settle(&mut self) -> Result<(), Stop> {
        self.gather(clock::now() + SETTLE, false)
    }

    fn pass(&mut self, time: Span) -> Result<(), Stop> {
        self.passed += time;
        let until = self.began + self.passed * self.slower;
        self.gather(until, false)
    }

    /// Waits until something holds, for as long as the kernel may be late.
    fn until(&mut self, mut holds: impl FnMut(&mut Player) -> bool) -> Result<bool, Stop> {
        let most = clock::now() + self.grace();
        loop {
            if holds(self) {
                return Ok(true);
            }
            if clock::now() >= most {
                return Ok(false);
            }
            self.gather(clock::now() + Span::from_ms(1), false)?;
        }
    }

    // ---- lines

    fn line(&mut self, line: &str) -> Result<(), Stop> {
        let mut words = line.split_whitespace();
        let first = words.next().ok_or("an empty line")?;
        let rest: Vec<&str> = words.collect();
        let arg = rest.first().copied();
        if !matches!(first, ">" | "!" | "!no" | "skip") {
            // What was waited for beyond the script's time puts all that follows off.
            let beyond = clock::now().since(self.began + self.passed * self.slower);
            if beyond > BEYOND {
                self.began += beyond;
            }
        }
        if let Some(time) = first.strip_prefix('+') {
            return self.pass(span(time)?);
        }
        match first {
            "set" => Ok(()),
            "<" => self.inject(&rest),
            ">" => self.expect(&rest),
            "!" => self.told(&rest, true),
            "!no" => self.told(&rest, false),
            "skip" => {
                self.settle()?;
                self.left.clear();
                Ok(())
            }
            "established" | "accepted" => {
                for line in greeting(first == "accepted", &rest) {
                    self.line(&line)?;
                    self.settle()?;
                }
                self.told(&["opened"], true)?;
                self.left.clear();
                Ok(())
            }
            // Counters of the machine; those of the kernel are of all its connections.
            "count" => {
                self.uncompared += 1;
                Ok(())
            }
            "state" => {
                let want: usize = number(rest.get(1).copied())?;
                if self.until(|player| player.rows().len() == want)? {
                    return Ok(());
                }
                differs(format!("the kernel has {}", self.rows().len()))
            }
            "listen" => self.listen(arg.map_or(Ok(8), |n| number(Some(n)))?),
            "open" => self.open(),
            "write" | "whole" => self.write(number(arg)?),
            "took" => self.took(number(arg)?),
            "shut" => {
                self.connection()?.shutdown(std::net::Shutdown::Write).map_err(broken("shutdown"))
            }
            "close" | "abort" => {
                let socket = self.connection()?;
                if first == "abort" {
                    socket.set_linger(Some(Duration::ZERO)).map_err(broken("linger"))?;
                }
                (self.socket, self.closed) = (None, true);
                Ok(())
            }
            "icmp" => self.icmp(number(arg)?, number(rest.get(1).copied())?),
            other => Err(Stop::Impossible(format!("`{other}` is no such line"))),
        }
    }

    fn fresh(&self) -> Result<Socket, Stop> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP));
        let socket = socket.map_err(broken("a socket"))?;
        let control = self.wants.congestion;
        socket.set_tcp_congestion(control.as_bytes()).map_err(broken(control))?;
        socket.set_nonblocking(true).map_err(broken("a socket"))?;
        socket.set_reuse_address(true).map_err(broken("a socket"))?;
        socket.set_send_buffer_size(SEND_BUFFER_BYTES).map_err(broken("a buffer"))?;
        socket.set_tcp_nodelay(self.wants.nodelay).map_err(broken("an option"))?;
        if let Some((idle, interval, probes)) = self.wants.keepalive {
            let alive = TcpKeepalive::new();
            let alive = alive.with_time(idle).with_interval(interval).with_retries(probes);
            socket.set_tcp_keepalive(&alive).map_err(broken("keepalive"))?;
        }
        Ok(socket)
    }

    fn listen(&mut self, backlog: i32) -> Result<(), Stop> {
        let socket = self.fresh()?;
        socket.bind(&SockAddr::from(SocketAddrV4::new(KERNEL, 80))).map_err(broken("bind"))?;
        socket.listen(backlog).map_err(broken("listen"))?;
        (self.listener, self.passive, self.port) = (Some(socket), true, 80);
        Ok(())
    }

    fn open(&mut self) -> Result<(), Stop> {
        let socket = self.fresh()?;
        let to = SockAddr::from(SocketAddrV4::new(self.peer, 80));
        match socket.connect(&to) {
            Err(error) if error.raw_os_error() != Some(115) => return Err(broken("open")(error)),
            _ => self.socket = Some(socket),
        }
        Ok(())
    }

    /// The connection, accepted if need be.
    fn connection(&mut self) -> Result<&Socket, Stop> {
        if self.socket.is_none() && !self.closed {
            self.until(|player| player.accept())?;
        }
        Ok(self.socket.as_ref().ok_or("there is no connection")?)
    }

    fn accept(&mut self) -> bool {
        if let (None, Some(listener)) = (&self.socket, &self.listener)
            && let Ok((socket, _)) = listener.accept()
        {
            let _ = socket.set_nonblocking(true);
            self.socket = Some(socket);
        }
        self.socket.is_some()
    }

    fn write(&mut self, bytes: u64) -> Result<(), Stop> {
        let chunk = vec![b'a'; bytes as usize];
        match self.connection()?.send_with_flags(&chunk, WHOLE) {
            Ok(sent) if sent as u64 == bytes => self.written += bytes,
            Ok(sent) => return Err(Stop::Impossible(format!("the kernel took {sent} octets"))),
            // Writing after the end: the machine ignores it, and so does whoever ignores this.
            Err(_) => {}
        }
        Ok(())
    }

    fn took(&mut self, bytes: u64) -> Result<(), Stop> {
        let mut chunk = vec![std::mem::MaybeUninit::uninit(); bytes as usize];
        let taken = self.connection()?.recv(&mut chunk).map_err(broken("reading"))?;
        self.taken += taken as u64;
        if taken as u64 == bytes { Ok(()) } else { differs(format!("it gave {taken} octets")) }
    }

    // ---- segments

    fn inject(&mut self, rest: &[&str]) -> Result<(), Stop> {
        let (source, destination) = if self.passive { (PEER_PORT, 80) } else { (80, self.port) };
        let told = Places {
            own_isn: self.own_isn.unwrap_or(0),
            peer_isn: self.wants.peer_isn,
            source,
            destination,
            first: self.left.front().and_then(|one| one.segment.stamps),
            last: self.left.back().and_then(|one| one.segment.stamps),
        }
        .segment(rest)?;
        let payload = vec![b'p'; told.length as usize];
        let mut packet = self.packet(self.peer, &told.segment, &payload);
        if told.marked {
            packet[1] = 3;
            packet[10..12].copy_from_slice(&[0, 0]);
            let sum = sum_of(&packet[..20]);
            packet[10..12].copy_from_slice(&sum);
        }
        self.put(&packet)
    }

    fn packet(&self, from: Ipv4Addr, segment: &Segment, payload: &[u8]) -> Vec<u8> {
        let mut headers = [0; HEADERS_MAX_BYTES];
        let end = Writer { from, to: KERNEL }.headers(&mut headers, segment, [payload, &[]]);
        [&headers[..end], payload].concat()
    }

    fn put(&mut self, packet: &[u8]) -> Result<(), Stop> {
        rustix::io::write(&self.device, packet).map_err(|error| error.to_string())?;
        self.settle()
    }

    /// A router says that what the kernel sent at `seq` was too long.
    fn icmp(&mut self, mtu: u16, seq: u32) -> Result<(), Stop> {
        let own = self.own_isn.unwrap_or(0);
        let (source, destination) = if self.passive { (80, PEER_PORT) } else { (self.port, 80) };
        let lost = Segment::new(source, destination, own.wrapping_add(seq), Flags::ACK);
        let mut headers = [0; HEADERS_MAX_BYTES];
        Writer { from: KERNEL, to: self.peer }.headers(&mut headers, &lost, [&[], &[]]);
        let packet = unreachable(ROUTER, KERNEL, 4, mtu, &headers);
        self.put(&packet)
    }

    fn expect(&mut self, rest: &[&str]) -> Result<(), Stop> {
        if rest == ["nothing"] {
            self.settle()?;
            return match self.left.front() {
                None => Ok(()),
                Some(left) => differs(format!("the kernel sent {}", self.words(left))),
            };
        }
        self.gather(clock::now() + self.grace(), true)?;
        let Some(left) = self.left.pop_front() else { return differs("the kernel sent nothing") };
        let said = self.words(&left);
        let wrong = |what: &str| differs(format!("{what} differs; the kernel sent {said}"));
        let (own, peer) = (self.own_isn.unwrap_or(0), self.wants.peer_isn);
        let (want, any) = flags(rest.first().copied().unwrap_or(""))?;
        let mask = if want.has(Flags::PSH) { 0xdf } else { 0xd7 };
        if !any && left.segment.flags.0 & mask != want.0 & mask {
            return wrong("flags");
        }
        if let Some(word) = rest.get(1).filter(|word| **word != "*") {
            let (seq, length) = range(word)?;
            if left.segment.seq.wrapping_sub(own) != seq && left.segment.seq != seq {
                return wrong("seq");
            }
            if left.length != length {
                return wrong("length");
            }
        }
        let mut words = rest.iter().skip(2).copied();
        while let Some(word) = words.next() {
            if let Some(at) = word.strip_prefix('@') {
                let due = self.began + span(at)? * self.slower;
                let apart = left.at.since(due).max(due.since(left.at));
                let part = Span::from_ns((span(at)? * self.slower).as_ns() / LATE);
                if apart > TIME_SPAN + part {
                    let ms = left.at.since(self.began).as_ns() / self.slower / 1_000_000;
                    return wrong(&format!("time, {ms} ms,"));
                }
                continue;
            }
            let stamps = left.segment.stamps;
            let same = match word {
                "ack" => left.segment.ack.wrapping_sub(peer) == number::<u32>(words.next())?,
                // Windows and their shifts follow from buffers that a kernel sizes itself.
                "win" | "ws" => {
                    self.uncompared += 1;
                    words.next();
                    true
                }
                "mss" => left.segment.mss == Some(number(words.next())?),
                "sackok" => left.segment.sack_permitted,
                "ect" => left.ect,
                "noect" => !left.ect,
                "nosackok" => !left.segment.sack_permitted,
                "nows" => left.segment.scale.is_none(),
                "nots" => stamps.is_none(),
                "nosack" => left.segment.sacks.blocks().is_empty(),
                "ts" => {
                    let echo: u32 = number(words.next())?;
                    stamps.is_some_and(|stamps| stamps.echo == echo)
                }
                "sack" => {
                    let relative = |&(left, right): &(u32, u32)| {
                        format!("{}-{}", left.wrapping_sub(peer), right.wrapping_sub(peer))
                    };
                    let have: Vec<String> =
                        left.segment.sacks.blocks().iter().map(relative).collect();
                    have.join(",") == words.next().unwrap_or("")
                }
                other => return Err(Stop::Impossible(format!("no part of a segment: `{other}`"))),
            };
            if !same {
                return wrong(word);
            }
        }
        Ok(())
    }

    fn words(&self, left: &Left) -> String {
        let seq = left.segment.seq.wrapping_sub(self.own_isn.unwrap_or(0));
        let ack = left.segment.ack.wrapping_sub(self.wants.peer_isn);
        let mut said = format!("{:?} {seq}", left.segment.flags);
        if left.length > 0 {
            said += &format!(":{}", seq.wrapping_add(left.length));
        }
        if left.segment.flags.has(Flags::ACK) {
            said += &format!(" ack {ack}");
        }
        for &(from, to) in left.segment.sacks.blocks() {
            let isn = self.wants.peer_isn;
            said += &format!(" sack {}-{}", from.wrapping_sub(isn), to.wrapping_sub(isn));
        }
        said
    }

    // ---- what the application can see

    /// Connections of the kernel with the peer, by its own table.
    fn rows(&self) -> Vec<Row> {
        let text = fs::read_to_string("/proc/thread-self/net/tcp").unwrap_or_default();
        let peer = format!("{:08X}", u32::from_ne_bytes(self.peer.octets()));
        let row = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (remote, state) = (words.get(2)?, words.get(3)?);
            let (out, inward) = words.get(4)?.split_once(':')?;
            let hex = |word: &str| u64::from_str_radix(word, 16).ok();
            remote.starts_with(&peer).then_some(Row {
                state: hex(state)? as u8,
                unacknowledged: hex(out)?,
                unread: hex(inward)?,
            })
        };
        text.lines().skip(1).filter_map(row).collect()
    }

    fn events(&self) -> PollFlags {
        let Some(socket) = &self.socket else { return PollFlags::empty() };
        let asked = PollFlags::IN | PollFlags::OUT | PollFlags::RDHUP;
        let mut fds = [PollFd::new(socket, asked)];
        let _ = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        fds[0].revents()
    }

    /// What the socket says went wrong, which it says once.
    fn error(&mut self) -> Option<i32> {
        if let (None, Some(socket)) = (self.error, &self.socket) {
            let said = socket.take_error().ok().flatten();
            self.error = said.and_then(|error| error.raw_os_error());
        }
        self.error
    }

    fn holds(&mut self, name: &str, arg: Option<&str>) -> Result<bool, String> {
        Ok(match name {
            "opened" => {
                if self.passive && !self.closed {
                    self.accept();
                }
                self.opened |= self.socket.is_some()
                    && self.rows().iter().any(|row| !matches!(row.state, 2 | 3));
                if let (true, true, Some(socket)) = (self.opened, self.wants.unquick, &self.socket)
                {
                    let _ = socket.set_tcp_quickack(false);
                }
                self.opened
            }
            "finished" => self.events().contains(PollFlags::RDHUP),
            "readable" => {
                let end = u64::from(self.events().contains(PollFlags::RDHUP));
                let unread = self.rows().iter().map(|row| row.unread).sum::<u64>();
                let there = self.taken + unread;
                match arg {
                    None => there > self.readable_told,
                    Some(word) => {
                        let to: u64 = number(Some(word))?;
                        let holds = there == to || there == to + end;
                        if holds {
                            self.readable_told = to;
                        }
                        holds
                    }
                }
            }
            "released" => {
                let left: u64 = self.rows().iter().map(|row| row.unacknowledged).sum();
                arg.is_none_or(|word| number(Some(word)) == Ok(self.written - left))
            }
            "ended" => {
                // ECONNRESET, ECONNREFUSED, ETIMEDOUT, EPIPE.
                let said = match self.error() {
                    Some(104 | 32) => Some("Reset"),
                    Some(111) => Some("Refused"),
                    Some(110) => Some("TimedOut"),
                    _ => None,
                };
                let gone = self.closed && self.rows().is_empty();
                match arg {
                    None => said.is_some() || gone,
                    Some("Closed" | "Aborted") => gone,
                    Some(why) => said == Some(why) || (gone && why != "Refused"),
                }
            }
            other => return Err(format!("`{other}` is nothing that an application is told")),
        })
    }

    fn told(&mut self, rest: &[&str], wanted: bool) -> Result<(), Stop> {
        let name = rest.first().copied().unwrap_or("");
        let arg = rest.get(1).copied();
        if self.closed && name == "finished" {
            // Who has closed a socket is told nothing.
            self.uncompared += 1;
            return Ok(());
        }
        if !wanted {
            self.settle()?;
            return match self.holds(name, arg)? {
                false => Ok(()),
                true => differs("the application was told"),
            };
        }
        self.holds(name, arg)?;
        if self.until(|player| player.holds(name, arg) == Ok(true))? {
            return Ok(());
        }
        differs("the application was not told")
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        if let Some(socket) = self.socket.take() {
            let _ = socket.set_linger(Some(Duration::ZERO));
        }
        Wait::Sleep.until(clock::now() + SETTLE);
    }
}

/// The one of the script before may still be on its way out.
fn open_device() -> Result<SyncDevice, String> {
    let until = clock::now() + DEVICE_SPAN;
    loop {
        let builder = DeviceBuilder::new().name(DEVICE).mtu(1500).ipv4(KERNEL, 16, None);
        let made = builder.build_sync();
        match made.and_then(|device| device.set_nonblocking(true).map(|()| device)) {
            Ok(device) => return Ok(device),
            Err(error) if clock::now() > until => return Err(error.to_string()),
            Err(_) => drop(Wait::Sleep.until(clock::now() + SETTLE)),
        }
    }
}
