//! Hosts, switches, links, and the shortest ways between them.

use super::clock::{Ps, Rate, ps};
use cavy_core::Span;
use cavy_core::family::Node;
use std::fmt;

/// Hosts and switches together; a packet's descriptor names one in 16 bits.
pub const NODES_MAX: u32 = 1 << 16;

/// One end of a link. Hosts count from 0, as [`Node`] does; so do switches.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Place {
    /// A host.
    Host(u32),
    /// A switch.
    Switch(u32),
}

/// A cable: both directions have the same delay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// One end.
    pub a: Place,
    /// The other end.
    pub b: Place,
    /// Bits from `a` to `b`.
    pub rate: Rate,
    /// Bits from `b` to `a`.
    pub back: Rate,
    /// Time that a bit takes from end to end.
    pub propagation: Span,
}

/// What a sending end of a link is for, in reports `[homa 5.7]`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PortClass {
    /// A host's network card.
    Nic,
    /// A switch's port to a host.
    Downlink,
    /// A port of a switch that has hosts, to another switch.
    Uplink,
    /// A port of a switch without hosts.
    Spine,
}

impl PortClass {
    /// All four.
    pub const ALL: [PortClass; 4] =
        [PortClass::Nic, PortClass::Downlink, PortClass::Uplink, PortClass::Spine];
}

/// The sending end of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Egress {
    /// Whose port.
    pub from: Place,
    /// Where it leads.
    pub to: Place,
    /// Its speed.
    pub rate: Rate,
    /// Propagation.
    pub propagation: Ps,
    /// What it is for.
    pub class: PortClass,
}

/// A network whose hosts can all reach each other.
#[derive(Clone, Debug)]
pub struct Topology {
    hosts: u32,
    switches: u32,
    /// Port h is host h's own; those of switches follow.
    ports: Vec<Egress>,
    /// `routes[switch * hosts + host]`: where in `choices` the ports on a shortest way are.
    routes: Vec<(u32, u32)>,
    choices: Vec<u32>,
    /// Links between two hosts on a shortest way, by their switches.
    hops: Vec<u16>,
}

impl Topology {
    /// `hosts` hosts around one switch; at least 2.
    pub fn star(hosts: u32, rate: Rate, propagation: Span) -> Result<Topology, TopologyError> {
        let (b, back) = (Place::Switch(0), rate);
        let links: Vec<_> = (0..hosts)
            .map(|host| Link { a: Place::Host(host), b, rate, back, propagation })
            .collect();
        Topology::new(hosts, 1, &links)
    }

    /// The same network, in which all links from a switch to a host have `rate`.
    pub fn with_downlinks(mut self, rate: Rate) -> Topology {
        let down = self.ports.iter_mut().filter(|port| port.class == PortClass::Downlink);
        down.for_each(|port| port.rate = rate);
        self
    }

    /// `racks` switches with `hosts_per_rack` hosts each, all linked to each of `spines` switches.
    /// Host h is in rack h / `hosts_per_rack`. Switches: racks first, then spines.
    pub fn leaf_spine(
        racks: u32,
        hosts_per_rack: u32,
        spines: u32,
        host_rate: Rate,
        spine_rate: Rate,
        propagation: Span,
    ) -> Result<Topology, TopologyError> {
        let count = u64::from(racks) * u64::from(hosts_per_rack);
        if count + u64::from(racks) + u64::from(spines) > u64::from(NODES_MAX) {
            return Err(TopologyError::TooLarge { nodes: count + u64::from(racks) });
        }
        let mut links = Vec::new();
        for host in 0..count as u32 {
            links.push(Link {
                a: Place::Host(host),
                b: Place::Switch(host / hosts_per_rack),
                rate: host_rate,
                back: host_rate,
                propagation,
            });
        }
        for rack in 0..racks {
            for spine in 0..spines {
                let (a, b) = (Place::Switch(rack), Place::Switch(racks + spine));
                let (rate, back) = (spine_rate, spine_rate);
                links.push(Link { a, b, rate, back, propagation });
            }
        }
        Topology::new(count as u32, racks + spines, &links)
    }

    /// The simulated network of the source: 9 racks of 16 hosts at 10 Gb/s, 4 spines at 40 Gb/s, no
    /// propagation `[homa 4.4]`.
    pub fn paper() -> Topology {
        Topology::leaf_spine(9, 16, 4, Rate::gbps(10), Rate::gbps(40), Span::ZERO)
            .unwrap_or_else(|error| unreachable!("nine racks of sixteen hosts: {error}"))
    }

    /// The network of these links. Every host has exactly one, to a switch; between any two hosts
    /// there is a way. Packets take the shortest ways, counted in links.
    pub fn new(hosts: u32, switches: u32, links: &[Link]) -> Result<Topology, TopologyError> {
        if hosts < 2 {
            return Err(TopologyError::TooFewHosts { hosts });
        }
        if u64::from(hosts) + u64::from(switches) > u64::from(NODES_MAX) {
            return Err(TopologyError::TooLarge { nodes: u64::from(hosts) + u64::from(switches) });
        }
        let mut network = Topology {
            hosts,
            switches,
            ports: Vec::new(),
            routes: Vec::new(),
            choices: Vec::new(),
            hops: Vec::new(),
        };
        network.place_ports(links)?;
        network.find_routes()?;
        Ok(network)
    }

    fn place_ports(&mut self, links: &[Link]) -> Result<(), TopologyError> {
        let mut at_host: Vec<Option<Egress>> = vec![None; self.hosts as usize];
        let mut at_switch = Vec::with_capacity(2 * links.len());
        for (index, link) in links.iter().enumerate() {
            let ways = [(link.a, link.b, link.rate), (link.b, link.a, link.back)];
            for (from, to, rate) in ways {
                let propagation = ps(link.propagation);
                let class = PortClass::Spine;
                let port = Egress { from, to, rate, propagation, class };
                match (from, to) {
                    (Place::Host(_), Place::Host(_)) => {
                        return Err(TopologyError::HostToHost { link: index });
                    }
                    (Place::Host(host), _) if host < self.hosts => {
                        let slot = &mut at_host[host as usize];
                        if slot.is_some() {
                            return Err(TopologyError::TwoLinks { host });
                        }
                        *slot = Some(Egress { class: PortClass::Nic, ..port });
                    }
                    (Place::Switch(switch), _) if switch < self.switches => at_switch.push(port),
                    (place, _) => return Err(TopologyError::Unknown { link: index, place }),
                }
            }
        }
        for (host, port) in (0..).zip(at_host) {
            self.ports.push(port.ok_or(TopologyError::Unlinked { host })?);
        }
        let mut has_hosts = vec![false; self.switches as usize];
        for port in &self.ports {
            if let Place::Switch(switch) = port.to {
                has_hosts[switch as usize] = true;
            }
        }
        for mut port in at_switch {
            port.class = match (port.from, port.to) {
                (_, Place::Host(_)) => PortClass::Downlink,
                (Place::Switch(switch), _) if has_hosts[switch as usize] => PortClass::Uplink,
                _ => PortClass::Spine,
            };
            self.ports.push(port);
        }
        Ok(())
    }

    /// Breadth first from the switch of each host, once for each such switch.
    fn find_routes(&mut self) -> Result<(), TopologyError> {
        let switches = self.switches as usize;
        let mut leaving: Vec<Vec<u32>> = vec![Vec::new(); switches];
        for (index, port) in (0..).zip(&self.ports) {
            if let Place::Switch(switch) = port.from {
                leaving[switch as usize].push(index);
            }
        }
        self.routes = vec![(0, 0); switches * self.hosts as usize];
        self.hops = vec![u16::MAX; switches * switches];
        let mut ways: Vec<Option<Vec<(u32, u32)>>> = vec![None; switches];
        for host in 0..self.hosts {
            let last = self.switch_of(Node(host)) as usize;
            if ways[last].is_none() {
                ways[last] = Some(self.ways_to(last, &leaving));
            }
            for switch in 0..switches {
                let Some(way) = &ways[last] else { continue };
                let mut route = way[switch];
                if switch == last {
                    let down = leaving[last].iter().copied();
                    let down = down.filter(|&p| self.ports[p as usize].to == Place::Host(host));
                    route = (self.choices.len() as u32, 1);
                    self.choices.extend(down);
                }
                self.routes[switch * self.hosts as usize + host as usize] = route;
            }
        }
        for host in 0..self.hosts {
            if self.hops(Node(0), Node(host)) == u16::MAX {
                return Err(TopologyError::Disconnected { from: 0, to: host });
            }
        }
        Ok(())
    }

    /// For each switch the range of ports on a shortest way to switch `last`.
    fn ways_to(&mut self, last: usize, leaving: &[Vec<u32>]) -> Vec<(u32, u32)> {
        let switches = self.switches as usize;
        let to_switch = |port: u32| match self.ports[port as usize].to {
            Place::Switch(switch) => Some(switch as usize),
            Place::Host(_) => None,
        };
        let mut distance = vec![u16::MAX; switches];
        distance[last] = 0;
        let mut reached = vec![last];
        let mut next = 0;
        while next < reached.len() {
            let at = reached[next];
            next += 1;
            for near in leaving[at].iter().filter_map(|&port| to_switch(port)) {
                if distance[near] == u16::MAX {
                    distance[near] = distance[at] + 1;
                    reached.push(near);
                }
            }
        }
        let mut ranges = Vec::with_capacity(switches);
        for switch in 0..switches {
            let begin = self.choices.len() as u32;
            if distance[switch] != u16::MAX {
                // Two more: from the first host, and to the last.
                self.hops[switch * switches + last] = distance[switch] + 2;
            }
            for &port in &leaving[switch] {
                if let Some(near) = to_switch(port)
                    && distance[switch] != u16::MAX
                    && distance[near] != u16::MAX
                    && distance[near] + 1 == distance[switch]
                {
                    self.choices.push(port);
                }
            }
            ranges.push((begin, self.choices.len() as u32 - begin));
        }
        ranges
    }

    /// How many hosts.
    pub fn hosts(&self) -> u32 {
        self.hosts
    }

    /// How many switches.
    pub fn switches(&self) -> u32 {
        self.switches
    }

    /// The sending ends of all links; those of the hosts come first, in the order of the hosts.
    pub fn ports(&self) -> &[Egress] {
        &self.ports
    }

    /// The switch that `host` is linked to.
    pub fn switch_of(&self, host: Node) -> u32 {
        match self.ports[host.0 as usize].to {
            Place::Switch(switch) => switch,
            Place::Host(_) => unreachable!("no host is linked to a host"),
        }
    }

    /// The ports of `switch` on a shortest way to `host`.
    #[inline]
    pub fn choices(&self, switch: u32, host: u32) -> &[u32] {
        let (begin, count) = self.routes[switch as usize * self.hosts as usize + host as usize];
        &self.choices[begin as usize..(begin + count) as usize]
    }

    /// Links on a shortest way between two hosts: 2 under one switch.
    pub fn hops(&self, from: Node, to: Node) -> u16 {
        let (from, to) = (self.switch_of(from), self.switch_of(to));
        self.hops[from as usize * self.switches as usize + to as usize]
    }

    /// The ports of one shortest way between two hosts, the sender's own first.
    pub fn path(&self, from: Node, to: Node) -> Vec<u32> {
        let mut path = vec![from.0];
        let mut at = self.switch_of(from);
        while let Some(&port) = self.choices(at, to.0).first() {
            path.push(port);
            match self.ports[port as usize].to {
                Place::Switch(switch) => at = switch,
                Place::Host(_) => break,
            }
        }
        path
    }
}

/// Why links make no network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TopologyError {
    /// There is nobody to talk to.
    TooFewHosts {
        /// How many hosts.
        hosts: u32,
    },
    /// More hosts and switches than [`NODES_MAX`].
    TooLarge {
        /// How many.
        nodes: u64,
    },
    /// A link joins two hosts.
    HostToHost {
        /// Its place in the list.
        link: usize,
    },
    /// A link ends at a host or switch that is not there.
    Unknown {
        /// Its place in the list.
        link: usize,
        /// Where it ends.
        place: Place,
    },
    /// A host has more than one link.
    TwoLinks {
        /// Which.
        host: u32,
    },
    /// A host has no link.
    Unlinked {
        /// Which.
        host: u32,
    },
    /// There is no way between two hosts.
    Disconnected {
        /// One.
        from: u32,
        /// The other.
        to: u32,
    },
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            TopologyError::TooFewHosts { hosts } => {
                write!(f, "hosts is {hosts}; a network has at least 2")
            }
            TopologyError::TooLarge { nodes } => {
                write!(f, "{nodes} hosts and switches; at most {NODES_MAX} together")
            }
            TopologyError::HostToHost { link } => {
                write!(f, "link {link} joins two hosts; put a switch between them")
            }
            TopologyError::Unknown { link, place } => {
                write!(f, "link {link} ends at {place:?}, which does not exist; both count from 0")
            }
            TopologyError::TwoLinks { host } => {
                write!(f, "host {host} has more than one link; a host has exactly one")
            }
            TopologyError::Unlinked { host } => {
                write!(f, "host {host} has no link; link it to a switch")
            }
            TopologyError::Disconnected { from, to } => {
                write!(f, "there is no way from host {from} to host {to}; add a link")
            }
        }
    }
}

impl std::error::Error for TopologyError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paper_network_has_every_way() {
        let paper = Topology::paper();
        assert_eq!(
            (paper.hosts(), paper.switches(), paper.ports().len()),
            (144, 13, 2 * (144 + 36))
        );
        assert_eq!(paper.choices(0, 143).len(), 4);
        assert_eq!(paper.choices(9, 143).len(), 1);
        assert_eq!(paper.choices(8, 143).len(), 1);
        assert_eq!((paper.hops(Node(0), Node(15)), paper.hops(Node(0), Node(16))), (2, 4));
        assert_eq!(paper.path(Node(0), Node(143)).len(), 4);
        let count = |class| paper.ports().iter().filter(|p| p.class == class).count();
        assert_eq!(PortClass::ALL.map(count), [144, 144, 36, 36]);
    }

    #[test]
    fn any_graph_will_do() {
        // A ring of four switches, one host each: two equal ways to the far side.
        let rate = Rate::gbps(10);
        let link = |a, b| Link { a, b, rate, back: rate, propagation: Span::ZERO };
        let mut links: Vec<_> = (0..4).map(|i| link(Place::Host(i), Place::Switch(i))).collect();
        links.extend((0..4).map(|i| link(Place::Switch(i), Place::Switch((i + 1) % 4))));
        let ring = Topology::new(4, 4, &links).unwrap();
        assert_eq!((ring.choices(0, 2).len(), ring.choices(0, 1).len()), (2, 1));
        assert_eq!((ring.hops(Node(0), Node(2)), ring.hops(Node(0), Node(1))), (4, 3));
    }

    #[test]
    fn what_is_no_network_is_refused() {
        let rate = Rate::gbps(10);
        let link = |a, b| Link { a, b, rate, back: rate, propagation: Span::ZERO };
        let (h, s) = (Place::Host, Place::Switch);
        let refused = |hosts, switches, links: &[Link]| Topology::new(hosts, switches, links).err();
        assert_eq!(
            refused(1, 1, &[link(h(0), s(0))]),
            Some(TopologyError::TooFewHosts { hosts: 1 })
        );
        assert_eq!(refused(2, 1, &[link(h(0), s(0))]), Some(TopologyError::Unlinked { host: 1 }));
        assert_eq!(
            refused(2, 2, &[link(h(0), s(0)), link(h(1), s(1))]),
            Some(TopologyError::Disconnected { from: 0, to: 1 })
        );
        assert_eq!(
            refused(2, 1, &[link(h(0), s(0)), link(h(0), s(0))]),
            Some(TopologyError::TwoLinks { host: 0 })
        );
        assert_eq!(refused(2, 1, &[link(h(0), h(1))]), Some(TopologyError::HostToHost { link: 0 }));
        assert_eq!(
            refused(2, 1, &[link(h(0), s(3))]),
            Some(TopologyError::Unknown { link: 0, place: s(3) })
        );
    }
}
