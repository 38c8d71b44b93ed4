//! Many servers, one client and a small port: what the client's schedule is for ([incast 5.9]).
//!
//! The smallest star: every server has its own way to the port, which keeps a few packets and sends
//! one at a time; what the client sends is never lost.

use cavy_core::family::Node;
use cavy_core::family::packet::{Effect, Extent, Header, Input, Message, Seen};
use cavy_core::{Cx, Instant, Machine, Out, Outbox, Packet, Purpose, Room, Span, Stream, Transmit};
use cavy_tcp::messages::Messages;
use cavy_tcp::{Config, Congestion, Counts, RtoConfig, Schedule, Segment, Timer, Why};
use std::collections::{BTreeMap, VecDeque};

/// Of a packet on the wire, at 1 Gb/s: 8 ns an octet.
const NS_PER_OCTET: u64 = 8;
const WAY_NS: u64 = 50_000;
const ROOM_BYTES: u32 = 32_768;

#[derive(Clone, Copy)]
enum Event {
    Port(u32, Segment, Extent),
    Free(u32),
    Packet(u32, u32, Segment, Extent),
    Timer(u32, Timer),
    CardIsFree(u32),
}

struct Star {
    hosts: Vec<Messages>,
    rngs: Vec<Stream>,
    timers: Vec<BTreeMap<Timer, u64>>,
    card_until: Vec<u64>,
    queue: VecDeque<(u32, Segment, Extent)>,
    queued: u32,
    sending: bool,
    events: BTreeMap<(u64, u64), Event>,
    numbered: u64,
    now: Instant,
    fragment: u32,
    open: u32,
    dropped: u64,
    most: u32,
}

impl Star {
    fn new(servers: u32, fragment: u32, client: Config, server: Config) -> Star {
        let make = |host| Messages::new(if host == 0 { client } else { server }).expect("legal");
        let count = servers + 1;
        let mut star = Star {
            hosts: (0..count).map(make).collect(),
            rngs: (0..count).map(|host| Stream::keyed(1, host, Purpose::Machine)).collect(),
            timers: vec![BTreeMap::new(); count as usize],
            card_until: vec![0; count as usize],
            queue: VecDeque::new(),
            queued: 0,
            sending: false,
            events: BTreeMap::new(),
            numbered: 0,
            now: Instant::ZERO,
            fragment,
            open: 0,
            dropped: 0,
            most: 0,
        };
        for host in 0..count {
            star.step(host, |machine, cx| machine.start(cx));
        }
        star
    }

    fn push(&mut self, at: u64, event: Event) {
        self.numbered += 1;
        self.events.insert((at, self.numbered), event);
    }

    fn step(&mut self, host: u32, f: impl FnOnce(&mut Messages, &mut Cx<'_, Effect<Why>, Timer>)) {
        let at = host as usize;
        let mut out = Outbox::with_capacity(self.hosts[at].effects_max());
        f(&mut self.hosts[at], &mut Cx::new(self.now, &mut self.rngs[at], &mut out));
        self.hosts[at].check();
        for one in out.drain().collect::<Vec<_>>() {
            match one {
                Out::Arm(timer, due) => {
                    let due = due.max(self.now).as_ns();
                    self.timers[at].insert(timer, due);
                    self.push(due, Event::Timer(host, timer));
                }
                Out::Disarm(timer) => {
                    self.timers[at].remove(&timer);
                }
                Out::Effect(Effect::Delivered { from, message, .. }) if message.is_answer() => {
                    assert_eq!(host, 0, "{from:?}");
                    self.open -= 1;
                }
                Out::Effect(Effect::Delivered { from, message, .. }) => {
                    let length_bytes = self.fragment;
                    let input = Input::Answer { to: from, question: message, length_bytes };
                    self.input(host, input);
                }
                Out::Effect(Effect::Failed { why, .. }) => panic!("failed: {why:?}"),
                Out::Effect(_) => {}
            }
        }
        self.pull(host);
    }

    fn input(&mut self, host: u32, input: Input<Segment>) {
        self.step(host, |machine, cx| machine.handle(input, cx));
    }

    /// A card sends one packet at a time.
    fn pull(&mut self, host: u32) {
        let at = host as usize;
        if self.card_until[at] > self.now.as_ns() {
            return;
        }
        let mut out = Outbox::with_capacity(self.hosts[at].effects_max());
        let mut cx = Cx::new(self.now, &mut self.rngs[at], &mut out);
        let packet = self.hosts[at].pull(Room { packets: 1, bytes: 1480 }, &mut cx);
        for one in out.drain().collect::<Vec<_>>() {
            match one {
                Out::Arm(timer, due) => {
                    let due = due.max(self.now).as_ns();
                    self.timers[at].insert(timer, due);
                    self.push(due, Event::Timer(host, timer));
                }
                Out::Disarm(timer) => {
                    self.timers[at].remove(&timer);
                }
                Out::Effect(_) => {}
            }
        }
        let Some(Packet { to, header, payload, .. }) = packet else { return };
        let until = self.now.as_ns() + NS_PER_OCTET * u64::from(wire(&header, &payload));
        self.card_until[at] = until;
        self.push(until, Event::CardIsFree(host));
        if host == 0 {
            self.push(until + WAY_NS, Event::Packet(to.0, 0, header, payload));
        } else {
            self.push(until + WAY_NS / 2, Event::Port(host, header, payload));
        }
    }

    fn serve(&mut self) {
        let Some((from, header, payload)) = self.queue.pop_front() else {
            self.sending = false;
            return;
        };
        self.sending = true;
        let bytes = wire(&header, &payload);
        let until = self.now.as_ns() + NS_PER_OCTET * u64::from(bytes);
        self.push(until, Event::Free(bytes));
        self.push(until + WAY_NS / 2, Event::Packet(0, from, header, payload));
    }

    /// One block; how long it took.
    fn block(&mut self, number: u64) -> Span {
        let begun = self.now;
        for server in 1..self.hosts.len() as u32 {
            self.open += 1;
            let message = Message((number * 10_000 + u64::from(server)) * 2);
            let (to, length_bytes) = (Node(server), 4);
            let input = Input::Submit { to, message, length_bytes, asks: true };
            self.input(0, input);
        }
        let mut steps = 0;
        while self.open > 0 {
            let ((at, _), event) = self.events.pop_first().expect("nobody is stuck");
            steps += 1;
            assert!(steps < 3_000_000 && at < 400_000_000_000, "it goes on and on");
            self.now = self.now.max(Instant::from_ns(at));
            match event {
                Event::Port(from, header, payload) => {
                    let bytes = wire(&header, &payload);
                    if self.queued + bytes > ROOM_BYTES {
                        self.dropped += 1;
                        continue;
                    }
                    self.queued += bytes;
                    self.most = self.most.max(self.queued);
                    self.queue.push_back((from, header, payload));
                    if !self.sending {
                        self.serve();
                    }
                }
                Event::Free(bytes) => {
                    self.queued -= bytes;
                    self.serve();
                }
                Event::Packet(to, from, header, payload) => {
                    let (from, seen) = (Node(from), Seen::default());
                    let input = Input::Rx { from, header, payload, seen };
                    self.input(to, input);
                }
                Event::Timer(host, timer) => {
                    if self.timers[host as usize].get(&timer) == Some(&at) {
                        self.timers[host as usize].remove(&timer);
                        self.step(host, |machine, cx| machine.expire(timer, cx));
                    }
                }
                Event::CardIsFree(host) => self.pull(host),
            }
        }
        self.now.since(begun)
    }

    fn servers(&self) -> Counts {
        let mut all = Counts::default();
        self.hosts[1..].iter().for_each(|host| all.add(host.counts()));
        all
    }
}

fn wire(header: &Segment, payload: &Extent) -> u32 {
    20 + header.wire_bytes() + payload.length_bytes
}

fn stock() -> Config {
    let rto = RtoConfig { min: Span::from_ms(200), ..RtoConfig::FINE };
    Config::reference(rto)
}

fn scheduled() -> Config {
    let schedule = Some(Schedule { room_bytes: ROOM_BYTES, foreign: false });
    Config { schedule, receive_buffer_bytes: 65_535, ..stock() }
}

/// Goodput in Mb/s of ten blocks of a mebibyte after two, with what was dropped and timed out.
fn ten_blocks(servers: u32, client: Config) -> (f64, u64, u64) {
    let fragment = (1 << 20) / servers;
    let mut star = Star::new(servers, fragment, client, stock());
    // The first opens connections and the second learns how long answers are.
    star.block(1);
    star.block(2);
    let (dropped, timeouts) = (star.dropped, star.servers().timeouts());
    let ns: u64 = (0..10).map(|n| star.block(3 + n).as_ns()).sum();
    let octets = 10 * u64::from(fragment) * u64::from(servers);
    let goodput = 8e3 * octets as f64 / ns as f64;
    (goodput, star.dropped - dropped, star.servers().timeouts() - timeouts)
}

#[test]
fn incast_5_9_stock_servers_fill_the_link_when_the_client_schedules_them() {
    let (alone, ..) = ten_blocks(1, scheduled());
    assert!(alone > 850.0, "{alone}");
    for servers in [4, 16, 21, 40, 128] {
        let (goodput, dropped, timeouts) = ten_blocks(servers, scheduled());
        println!("{servers} servers: {goodput:.0} of {alone:.0} Mb/s, {dropped} dropped");
        assert_eq!((dropped, timeouts), (0, 0), "{servers} servers");
        assert!(goodput > 0.93 * alone, "{servers} servers: {goodput} of {alone} Mb/s");
    }
}

#[test]
fn incast_5_9_without_it_they_collapse() {
    let (goodput, dropped, timeouts) = ten_blocks(16, stock());
    assert!(goodput < 100.0 && dropped > 0 && timeouts > 0, "{goodput} {dropped} {timeouts}");
}

#[test]
fn incast_5_8_recovery_by_jiffies_does_not_help_and_by_microseconds_does() {
    let goodput = |config: Config| {
        let mut star = Star::new(16, 65_536, config, config);
        star.block(1);
        let ns: u64 = (0..10).map(|n| star.block(2 + n).as_ns()).sum();
        8e3 * 10.0 * f64::from(1 << 20) / ns as f64
    };
    let slow = [Congestion::NewReno, Congestion::Cubic].map(|rule| goodput(Config::linux(rule)));
    let fine = goodput(Config::fine(Congestion::Cubic));
    println!("jiffies {slow:.0?}, microseconds {fine:.0} Mb/s");
    assert!(slow.iter().all(|&mbps| mbps < 200.0) && fine > 700.0, "{slow:?} {fine}");
}
