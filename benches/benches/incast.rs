//! Incast: a loop written by hand, and the lab's whole TCP beside it in the same run.
//!
//! Sixteen servers send a block of 2^20 octets at 1 Gb/s through a port of 32 kB, forty times. The
//! loop by hand is the reference simulator of [incast 5.1], no more: segments are numbered, a host
//! is the state of one sender and one receiver, ports need no event of their own, and an
//! acknowledgement is one event with a fixed delay. Its goodput is printed because a fast wrong
//! answer is no floor.
//!
//! `cargo bench --bench incast -- tcp 20` runs the lab's alone so many times, for a profile; `hand`
//! is the other that can be named.

use cavy_bench::{in_turns, ns_per, print_machine};
use cavy_core::{Purpose, Span, Stream};
use cavy_lab::net::{
    Bins, BlockTimes, Blocks, Buffer, Counting, Framing, Hosts, Network, Order, Rate, Report, Setup,
    Topology, run_to_machines,
};
use cavy_lab::pending::Wheel;
use cavy_tcp::messages::Messages;
use cavy_tcp::{Config, RtoConfig};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

const SERVERS: usize = 16;
const BLOCK_BYTES: u64 = 1 << 20;
const BLOCKS: u64 = 41;
const PAYLOAD: u64 = 1460;
const FRAGMENT: u64 = BLOCK_BYTES / SERVERS as u64;
const PORT_BYTES: u64 = 32_768;
const NS_PER_BYTE: u64 = 8;
const LINK_NS: u64 = 25_000;
const JITTER_NS: u64 = 20_000;
const RTO_MIN_NS: u64 = 200_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Out,
    Again,
    There,
    Lost,
}

/// A sender and its receiver.
struct Flow {
    una: u64,
    next: u64,
    written: u64,
    window: f64,
    threshold: f64,
    /// From `una` on: what became of each segment, and when it was sent.
    board: VecDeque<(Fate, u64)>,
    pipe: u64,
    lost: u64,
    /// Until which segment a loss is repaired, and whether a timer began it.
    repairs: Option<(u64, bool)>,
    srtt: f64,
    var: f64,
    doublings: u32,
    due: u64,
    armed: bool,
    timed_out_at: u64,
    card: u64,
    sent_at: u64,
    wanted: u64,
    came: VecDeque<bool>,
}

impl Flow {
    fn new() -> Flow {
        Flow {
            una: 0,
            next: 0,
            written: 0,
            window: 3.0,
            threshold: f64::INFINITY,
            board: VecDeque::new(),
            pipe: 0,
            lost: 0,
            repairs: None,
            // One round trip, from the handshake.
            srtt: 124_000.0,
            var: 62_000.0,
            doublings: 0,
            due: u64::MAX,
            armed: false,
            timed_out_at: u64::MAX,
            card: 0,
            sent_at: 0,
            wanted: 0,
            came: VecDeque::new(),
        }
    }

    fn timeout(&self) -> u64 {
        ((self.srtt + 4.0 * self.var) as u64).max(RTO_MIN_NS)
    }

    fn arm(&mut self, now: u64) {
        self.due = now + (self.timeout() << self.doublings.min(6));
    }

    fn sample(&mut self, ns: f64) {
        self.var += ((self.srtt - ns).abs() - self.var) / 4.0;
        self.srtt += (ns - self.srtt) / 8.0;
        self.doublings = 0;
    }

    /// Three segments above one say that it is lost.
    fn find_losses(&mut self) {
        let mut above = 0;
        for (fate, _) in self.board.iter_mut().rev() {
            match *fate {
                Fate::There => above += 1,
                Fate::Out if above >= 3 => {
                    *fate = Fate::Lost;
                    self.pipe -= 1;
                    self.lost += 1;
                }
                _ => {}
            }
        }
    }

    fn acknowledged(&mut self, now: u64, segment: u64, to: u64) {
        let (advanced, mut newly, mut sent) = (to > self.una, 0, None);
        while self.una < to {
            let (fate, at) = self.board.pop_front().expect("it was sent");
            match fate {
                Fate::Out => (self.pipe, newly, sent) = (self.pipe - 1, newly + 1, Some(at)),
                Fate::Again => (self.pipe, newly) = (self.pipe - 1, newly + 1),
                Fate::Lost => (self.lost, newly) = (self.lost - 1, newly + 1),
                Fate::There => {}
            }
            self.una += 1;
        }
        if let Some((fate, _)) = self.board.get_mut(segment.wrapping_sub(self.una) as usize) {
            match *fate {
                Fate::Out | Fate::Again => self.pipe -= 1,
                Fate::Lost => self.lost -= 1,
                Fate::There => {}
            }
            *fate = Fate::There;
        }
        if let Some(at) = sent {
            self.sample((now - at) as f64);
        }
        if self.repairs.is_some_and(|(until, _)| self.una >= until) {
            if let Some((_, false)) = self.repairs {
                self.window = self.threshold;
            }
            self.repairs = None;
        }
        self.find_losses();
        if self.repairs.is_none() && self.lost > 0 {
            self.threshold = (self.window / 2.0).max(2.0);
            self.window = self.threshold;
            self.repairs = Some((self.next, false));
        } else if advanced && !matches!(self.repairs, Some((_, false))) {
            let newly = f64::from(newly);
            self.window += if self.window < self.threshold { newly } else { newly / self.window };
        }
        if self.board.is_empty() {
            self.due = u64::MAX;
        } else if advanced {
            self.arm(now);
        }
    }

    fn timed_out(&mut self, now: u64) {
        if self.timed_out_at != self.una {
            self.threshold = (self.window / 2.0).max(2.0);
            self.timed_out_at = self.una;
        }
        (self.window, self.pipe, self.lost) = (1.0, 0, 0);
        for (fate, _) in self.board.iter_mut().filter(|(fate, _)| *fate != Fate::There) {
            *fate = Fate::Lost;
            self.lost += 1;
        }
        self.repairs = Some((self.next, true));
        self.doublings += 1;
        self.arm(now);
    }

    /// A segment comes; which one is wanted next.
    fn take(&mut self, segment: u64) -> u64 {
        let Some(place) = segment.checked_sub(self.wanted) else { return self.wanted };
        let place = place as usize;
        if self.came.len() <= place {
            self.came.resize(place + 1, false);
        }
        self.came[place] = true;
        while self.came.front() == Some(&true) {
            self.came.pop_front();
            self.wanted += 1;
        }
        self.wanted
    }
}

const ASKED: u32 = 0;
const AT_PORT: u32 = 1;
const AT_CLIENT: u32 = 2;
const ACKNOWLEDGED: u32 = 3;
const TIMER: u32 = 4;

/// What the loop by hand says.
#[derive(Clone, Copy, Default)]
struct ByHand {
    hops: u64,
    mbps: f64,
}

struct Loop {
    /// When, in which order, what and whose, a segment and the one wanted.
    pending: BinaryHeap<Reverse<(u64, u64, u32, u64, u64)>>,
    sequence: u64,
    flows: Vec<Flow>,
    /// When each packet that the port has is gone, and its octets.
    port: VecDeque<(u64, u64)>,
    port_bytes: u64,
    port_until: u64,
    hops: u64,
}

impl Loop {
    fn push(&mut self, at: u64, kind: u32, flow: usize, segment: u64, wanted: u64) {
        self.sequence += 1;
        let what = kind << 16 | flow as u32;
        self.pending.push(Reverse((at, self.sequence, what, segment, wanted)));
    }

    /// Octets of a packet with this segment; the last of a fragment is shorter.
    fn wire_bytes(segment: u64) -> u64 {
        let full = FRAGMENT / PAYLOAD;
        let place = segment % (full + 1);
        40 + if place == full { FRAGMENT % PAYLOAD } else { PAYLOAD }
    }

    /// Sends what the window of a flow allows.
    fn send(&mut self, now: u64, number: usize) {
        loop {
            let flow = &mut self.flows[number];
            if flow.pipe as f64 + 1.0 > flow.window.max(1.0) {
                break;
            }
            let segment = if flow.lost > 0 {
                let place = flow.board.iter().position(|(fate, _)| *fate == Fate::Lost);
                let place = place.expect("one is lost");
                flow.board[place] = (Fate::Again, now);
                flow.lost -= 1;
                flow.una + place as u64
            } else if flow.next < flow.written {
                if flow.board.is_empty() && now - flow.sent_at > flow.timeout() {
                    flow.window = flow.window.min(3.0);
                }
                flow.board.push_back((Fate::Out, now));
                flow.next += 1;
                flow.next - 1
            } else {
                break;
            };
            flow.pipe += 1;
            flow.sent_at = now;
            flow.card = flow.card.max(now) + Loop::wire_bytes(segment) * NS_PER_BYTE;
            let there = flow.card + LINK_NS;
            if flow.due == u64::MAX {
                flow.arm(now);
            }
            self.hops += 1;
            self.push(there, AT_PORT, number, segment, 0);
        }
        let flow = &mut self.flows[number];
        if !flow.armed && flow.due < u64::MAX {
            flow.armed = true;
            let due = flow.due;
            self.push(due, TIMER, number, 0, 0);
        }
    }

    /// A packet comes to the port; when its last bit has left, if there is room for it.
    fn over_port(&mut self, now: u64, bytes: u64) -> Option<u64> {
        while self.port.front().is_some_and(|&(gone, _)| gone <= now) {
            self.port_bytes -= self.port.pop_front().map_or(0, |(_, bytes)| bytes);
        }
        if self.port_bytes + bytes > PORT_BYTES {
            return None;
        }
        self.port_until = self.port_until.max(now) + bytes * NS_PER_BYTE;
        self.port.push_back((self.port_until, bytes));
        self.port_bytes += bytes;
        self.hops += 1;
        Some(self.port_until)
    }
}

fn by_hand(seed: u64) -> ByHand {
    let mut draws = Stream::keyed(seed, 0, Purpose::Destinations);
    let mut world = Loop {
        pending: BinaryHeap::new(),
        sequence: 0,
        flows: (0..SERVERS).map(|_| Flow::new()).collect(),
        port: VecDeque::new(),
        port_bytes: 0,
        port_until: 0,
        hops: 0,
    };
    let segments = FRAGMENT.div_ceil(PAYLOAD);
    let (mut begun, mut open, mut first, mut last) = (0, 0, 0, 0);
    loop {
        if open == 0 {
            if begun == BLOCKS {
                break;
            }
            begun += 1;
            open = SERVERS;
            if begun == 2 {
                first = last;
            }
            for flow in 0..SERVERS {
                let at = last + 2 * LINK_NS + draws.below(JITTER_NS + 1);
                world.push(at, ASKED, flow, 0, 0);
                world.hops += 2;
            }
        }
        let Some(Reverse((now, _, what, segment, wanted))) = world.pending.pop() else { break };
        let number = (what & 0xffff) as usize;
        match what >> 16 {
            ASKED => {
                world.flows[number].written += segments;
                world.send(now, number);
            }
            AT_PORT => {
                if let Some(gone) = world.over_port(now, Loop::wire_bytes(segment)) {
                    world.push(gone + LINK_NS, AT_CLIENT, number, segment, 0);
                }
            }
            AT_CLIENT => {
                let flow = &mut world.flows[number];
                let before = flow.wanted;
                let wanted = flow.take(segment);
                if wanted > before && wanted.is_multiple_of(segments) {
                    open -= 1;
                    last = now;
                }
                world.hops += 2;
                let back = now + 2 * LINK_NS + 2 * 40 * NS_PER_BYTE;
                world.push(back, ACKNOWLEDGED, number, segment, wanted);
            }
            ACKNOWLEDGED => {
                world.flows[number].acknowledged(now, segment, wanted);
                world.send(now, number);
            }
            _ => {
                let flow = &mut world.flows[number];
                flow.armed = false;
                if flow.due <= now {
                    flow.timed_out(now);
                }
                world.send(now, number);
            }
        }
    }
    let ns = (last - first) as f64;
    ByHand { hops: world.hops, mbps: 8e3 * ((BLOCKS - 1) * BLOCK_BYTES) as f64 / ns }
}

/// The same network, and the machine with the same habits.
fn tcp(seed: u64) -> (Report, f64) {
    let star = Topology::star(SERVERS as u32 + 1, Rate::gbps(1), Span::from_us(25));
    let nothing = Span::ZERO;
    let network = Network {
        order: Order::Fifo,
        buffer: Buffer::PerPort { bytes: PORT_BYTES },
        counting: Counting::EVERYTHING,
        switch_latency: nothing,
        hosts: Hosts { send: nothing, think: nothing, receive: nothing, ..Hosts::default() },
        framing: Framing::IP.without_udp(),
        ..Network::new(star.expect("a star"))
    };
    let bins = Bins::up_to(vec![4, FRAGMENT as u32]);
    let setup = Setup::new(network, seed, Span::from_ms(60_000), bins);
    let blocks = Blocks {
        servers: SERVERS as u32,
        question_bytes: 4,
        fragment_bytes: FRAGMENT as u32,
        blocks: BLOCKS,
        jitter: Span::from_ns(JITTER_NS),
        outstanding: SERVERS as u32,
        background: 0,
    };
    let rto = RtoConfig { min: Span::from_ns(RTO_MIN_NS), ..RtoConfig::FINE };
    let config = Config::reference(rto);
    let mut times = BlockTimes::new(SERVERS as u32);
    let make = |_| Messages::new(config).expect("legal");
    let (report, _) =
        run_to_machines(&setup, make, blocks.start(seed), &mut Wheel::new(), &mut times);
    let bits = times.goodput_bits_per_s(BLOCK_BYTES).expect("several blocks");
    (report, bits / 1e6)
}

/// Runs one contender alone, as a profiler wants it. False when the arguments name none.
fn alone() -> bool {
    let mut words = std::env::args().skip(1).filter(|word| !word.starts_with('-'));
    let Some(name) = words.next() else { return false };
    let times: u64 = words.next().and_then(|word| word.parse().ok()).unwrap_or(1);
    for seed in 1..=times {
        let hops = match name.as_str() {
            "tcp" => tcp(seed).0.packets.hops,
            "hand" => by_hand(seed).hops,
            _ => return false,
        };
        std::hint::black_box(hops);
    }
    true
}

fn main() {
    if alone() {
        return;
    }
    print_machine();
    let (mut hand, mut lab) = (ByHand::default(), None);
    let ns = in_turns(&mut [
        &mut || {
            let total = ns_per(1, || hand = by_hand(1));
            total / hand.hops as f64
        },
        &mut || {
            let total = ns_per(1, || lab = Some(tcp(1)));
            total / lab.as_ref().map_or(1.0, |(report, _)| report.packets.hops as f64)
        },
    ]);
    let (report, mbps) = lab.expect("it has run");
    println!("| how | ns/packet-hop | over the loop by hand | hops | events/hop | Mb/s |");
    println!("|---|---|---|---|---|---|");
    println!("| loop by hand | {:.0} | 1 | {} | | {:.0} |", ns[0], hand.hops, hand.mbps);
    println!(
        "| lab, whole TCP | {:.0} | {:.2} | {} | {:.2} | {mbps:.0} |",
        ns[1],
        ns[1] / ns[0],
        report.packets.hops,
        report.events as f64 / report.packets.hops as f64
    );
}
