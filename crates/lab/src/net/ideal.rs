//! The time a message takes on a network that has nothing else to do.

use super::clock::{Ps, Rate, ps};
use super::network::Network;
use super::topology::Place;
use cavy_core::family::Node;

/// Least times of messages: the common denominator of slowdown `[homa 4.3]`.
///
/// Packets are full but for the last and have no protocol header. The first is stored and forwarded
/// at each switch; the others follow at the speed of the slowest link.
#[derive(Clone, Debug)]
pub struct Ideal {
    hosts: Vec<End>,
    switches: usize,
    /// Between the switches of two hosts.
    middles: Vec<Middle>,
    payload_bytes: u32,
    framing: super::network::Framing,
    fixed: Ps,
    latency: Ps,
    without_latency_in_rack: bool,
}

/// A host's own link.
#[derive(Clone, Copy, Debug)]
struct End {
    switch: usize,
    /// To the switch, and from it.
    up: Rate,
    down: Rate,
    propagation: Ps,
}

/// The links between two switches.
#[derive(Clone, Debug, Default)]
struct Middle {
    rates: Vec<Rate>,
    propagation: Ps,
}

impl Ideal {
    /// Least times on `network`.
    pub fn new(network: &Network) -> Ideal {
        let topology = &network.topology;
        let switches = topology.switches() as usize;
        let mut ends: Vec<End> = (0..topology.hosts())
            .map(|host| {
                let port = &topology.ports()[host as usize];
                let switch = topology.switch_of(Node(host)) as usize;
                End { switch, up: port.rate, down: port.rate, propagation: port.propagation }
            })
            .collect();
        for port in topology.ports() {
            if let Place::Host(host) = port.to {
                ends[host as usize].down = port.rate;
            }
        }
        let mut middles = vec![Middle::default(); switches * switches];
        let mut known = vec![false; switches * switches];
        let mut first_at = vec![None; switches];
        for (host, end) in (0..).zip(&ends) {
            first_at[end.switch].get_or_insert(host);
        }
        for from in first_at.iter().flatten().copied() {
            for to in first_at.iter().flatten().copied() {
                let place = ends[from as usize].switch * switches + ends[to as usize].switch;
                if known[place] || from == to {
                    continue;
                }
                known[place] = true;
                let path = topology.path(Node(from), Node(to));
                for &port in &path[1..path.len() - 1] {
                    let port = &topology.ports()[port as usize];
                    middles[place].rates.push(port.rate);
                    middles[place].propagation += port.propagation;
                }
            }
        }
        let hosts = &network.hosts;
        Ideal {
            hosts: ends,
            switches,
            middles,
            payload_bytes: network.framing.room_bytes(),
            framing: network.framing,
            fixed: ps(hosts.send) + ps(hosts.think) + ps(hosts.receive) + ps(hosts.receive_each),
            latency: ps(network.switch_latency),
            without_latency_in_rack: false,
        }
    }

    /// As the source's simulator computes it: without the switch's latency between hosts of one
    /// rack `[homa 4.3]`.
    pub fn without_latency_in_rack(mut self) -> Ideal {
        self.without_latency_in_rack = true;
        self
    }

    /// Bytes on the wire of a message without protocol headers.
    pub fn wire_bytes(&self, length_bytes: u32) -> u64 {
        let full = length_bytes / self.payload_bytes;
        let last = length_bytes % self.payload_bytes;
        let rest = if last > 0 || full == 0 { self.framing.wire_bytes(last) } else { 0 };
        u64::from(full) * u64::from(self.framing.wire_bytes(self.payload_bytes)) + u64::from(rest)
    }

    /// The rates of the links by which a message leaves `from` and comes to `to`.
    pub(super) fn rates(&self, from: Node, to: Node) -> [Rate; 2] {
        [self.hosts[from.0 as usize].up, self.hosts[to.0 as usize].down]
    }

    /// From the submission of a message of `length_bytes` to its delivery.
    pub fn time(&self, from: Node, to: Node, length_bytes: u32) -> Ps {
        let (from, to) = (self.hosts[from.0 as usize], self.hosts[to.0 as usize]);
        let middle = &self.middles[from.switch * self.switches + to.switch];
        let wire = self.wire_bytes(length_bytes);
        let first = wire.min(u64::from(self.framing.wire_bytes(self.payload_bytes))) as u32;
        let mut forwarded = from.up.time(first) + to.down.time(first);
        let mut slowest =
            if from.up.bits_per_s() < to.down.bits_per_s() { from.up } else { to.down };
        for &rate in &middle.rates {
            forwarded += rate.time(first);
            if rate.bits_per_s() < slowest.bits_per_s() {
                slowest = rate;
            }
        }
        let in_rack = from.switch == to.switch;
        let switches = middle.rates.len() as u64 + 1;
        let latency =
            if in_rack && self.without_latency_in_rack { 0 } else { switches * self.latency };
        let propagation = from.propagation + middle.propagation + to.propagation;
        let rest = slowest.time_long(wire - u64::from(first));
        self.fixed + latency + propagation + forwarded + rest
    }
}

/// A transport's own least time for each size and number of links, measured on an idle network: the
/// other denominator of slowdown `[homa 4.3]`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OwnBest {
    /// (links, bytes, picoseconds), ascending.
    times: Vec<(u16, u32, Ps)>,
}

impl OwnBest {
    /// Keeps `time` if it is the least so far for messages of `length_bytes` over `hops` links.
    pub fn add(&mut self, hops: u16, length_bytes: u32, time: Ps) {
        match self.times.binary_search_by_key(&(hops, length_bytes), |&(h, b, _)| (h, b)) {
            Ok(place) => self.times[place].2 = self.times[place].2.min(time),
            Err(place) => self.times.insert(place, (hops, length_bytes, time)),
        }
    }

    /// The least time; `None` for a size or distance that was not measured.
    pub fn time(&self, hops: u16, length_bytes: u32) -> Option<Ps> {
        let place =
            self.times.binary_search_by_key(&(hops, length_bytes), |&(h, b, _)| (h, b)).ok()?;
        Some(self.times[place].2)
    }
}
