//! From a plan to a network: topology, delays, routing, and the bounds on its size.

use super::plan::{CountingPlan, FabricPlan, FramingPlan, LinkPlan, RoutingPlan, TopologyName};
use super::recorded::number;
use crate::csv::open;
use cavy_core::family::Node;
use cavy_core::{Instant, Ratio, Span};
use cavy_lab::net::{
    Counting, Egress, Faults, Framing, Hosts, Ideal, Link, NODES_MAX, Network, Place, PortClass,
    Rate, Rough, Routing, Rule, Start, Topology, What, Which,
};
use cavy_study::plan::{Files, PlanError};

/// Bytes of tables that a topology may have: more is refused before it is built.
const TABLES_MAX_BYTES: f64 = 2e9;
/// The most values of a delay that was measured.
const VALUES_MAX: usize = 10_000;

/// A network and what follows from it.
#[derive(Clone, Debug)]
pub struct Fabric {
    /// As the world has it, with the queues of Homa.
    pub network: Network,
    /// Rate of the slowest link of a host, in either direction.
    pub host_bits_per_s: u64,
    /// Have the links of all hosts that rate, in both directions?
    pub hosts_alike: bool,
    /// A full packet one way and a short one back, between the hosts farthest apart.
    pub round_trip: Span,
    /// What a link of `host_bits_per_s` carries in that time.
    pub rtt_bytes: u32,
    /// Links from end to end, the mean over pairs of hosts.
    pub hops_mean: f64,
}

/// Builds the network of `plan`, which may name one of `files`.
pub fn fabric(plan: &FabricPlan, files: &Files) -> Result<Fabric, PlanError> {
    refuse_foreign(plan)?;
    let host_rate = rate("network.host_gbps", plan.host_gbps)?;
    let down_rate =
        plan.host_down_gbps.map(|gbps| rate("network.host_down_gbps", gbps)).transpose()?;
    let propagation = delay("network.propagation_us", plan.propagation_us)?;
    let topology = match plan.topology {
        TopologyName::Star => {
            let hosts = needed(plan.hosts, "hosts", 2)?;
            affordable(f64::from(hosts), 1.0)?;
            Topology::star(hosts, host_rate, propagation)
        }
        TopologyName::LeafSpine => {
            let racks = needed(plan.racks, "racks", 1)?;
            let per_rack = needed(plan.hosts_per_rack, "hosts_per_rack", 1)?;
            let spines = needed(plan.spines, "spines", u32::from(racks > 1))?;
            let spine_gbps = plan.spine_gbps.unwrap_or(4.0 * plan.host_gbps);
            let spine_rate = rate("network.spine_gbps", spine_gbps)?;
            let hosts = f64::from(racks) * f64::from(per_rack);
            if hosts < 2.0 {
                return Err(PlanError::text("`network` has 1 host; messages need at least 2"));
            }
            affordable(hosts, f64::from(racks) + f64::from(spines))?;
            Topology::leaf_spine(racks, per_rack, spines, host_rate, spine_rate, propagation)
        }
        TopologyName::Links => {
            let hosts = needed(plan.hosts, "hosts", 2)?;
            let switches = needed(plan.switches, "switches", 1)?;
            affordable(f64::from(hosts), f64::from(switches))?;
            let links: Vec<Link> = plan
                .links
                .iter()
                .enumerate()
                .map(|(index, one)| link(index, one, host_rate, propagation))
                .collect::<Result<_, _>>()?;
            Topology::new(hosts, switches, &links)
        }
    };
    let mut topology = topology.map_err(|error| {
        PlanError::text(format!("`network`: {error}"))
            .hint("links are numbered from 0 in the order of the plan; so are hosts and switches")
    })?;
    if let Some(rate) = down_rate {
        topology = topology.with_downlinks(rate);
    }
    let routing = match plan.routing {
        Some(RoutingPlan::FlowHash) => Routing::FlowHash,
        _ => Routing::Spray,
    };
    let network = Network {
        routing,
        switch_latency: delay("network.switch_latency_us", plan.switch_latency_us)?,
        hosts: Hosts {
            send: delay("network.host_send_us", plan.host_send_us)?,
            think: delay("network.host_nic_us", plan.host_nic_us)?,
            receive: delay("network.host_receive_us", plan.host_receive_us)?,
            receive_each: delay("network.host_receive_each_us", plan.host_receive_each_us)?,
            nic_packets: match plan.host_nic_packets {
                wrong @ (0 | 1_001..) => {
                    return Err(PlanError::field("network.host_nic_packets", wrong, "1 to 1000"));
                }
                packets => packets,
            },
        },
        wakes: measured_delays("network.host_wakes_us", &plan.host_wakes_us)?,
        sends: measured_delays("network.host_sends_us", &plan.host_sends_us)?,
        framing: match plan.framing {
            FramingPlan::Ethernet => Framing::default(),
            FramingPlan::RawEthernet => Framing::RAW_ETHERNET,
            FramingPlan::Ip => Framing::IP,
        },
        counting: match plan.buffer_counts {
            Some(CountingPlan::Everything) => Counting::EVERYTHING,
            _ => Counting::default(),
        },
        ..Network::new(topology)
    };
    faults(plan)?;
    let network = match &plan.round_trips {
        Some(file) => {
            let rates = [host_rate, down_rate.unwrap_or(host_rate)];
            as_far_as_measured(network, (file.as_str(), files), rates, propagation)?
        }
        None => network,
    };
    Ok(measured(network))
}

/// The star whose hosts are as far from the first one as `file` says: what links, switch and hosts
/// do not take of a round trip is on the host's own link, half of it each way.
fn as_far_as_measured(
    mut network: Network,
    (file, files): (&str, &Files),
    [rate, back]: [Rate; 2],
    propagation: Span,
) -> Result<Network, PlanError> {
    let hosts = network.topology.hosts();
    let ideal = Ideal::new(&network);
    let mut table = open(files, file)?;
    let (host, rtt) = (table.column("host")?, table.column("rtt_us")?);
    let mut farther = vec![None; hosts as usize];
    let mut row = csv::StringRecord::new();
    while table.next(&mut row)? {
        let wrong = |column, what: String| {
            PlanError::text(format!("{}: {what}", table.place(&row, column))).in_file(&table.name)
        };
        let name = row.get(host).unwrap_or("");
        let number =
            number(name).filter(|number| (1..hosts).contains(number)).ok_or_else(|| {
                let last = hosts - 1;
                wrong(host, format!("`{name}` must be h1 to h{last}"))
                    .hint("the first host, h0, is the one from which round trips were measured")
            })?;
        let place = &mut farther[number as usize];
        if place.is_some() {
            return Err(wrong(host, format!("`{name}` is there twice"))
                .hint("give each host one round trip, such as the least that was measured"));
        }
        let us = table.number(&row, rtt)?;
        if !(0.0..=1e6).contains(&us) {
            let what = format!("{us} must be a time in microseconds from 0 to 1e6");
            return Err(wrong(rtt, what).hint("ping says milliseconds: 0.1 ms are 100"));
        }
        let there = ideal.time(Node(0), Node(number), 1);
        let least_us = (there + ideal.time(Node(number), Node(0), 1)) as f64 / 1e6;
        if us < least_us {
            let what = format!("{us} is less than the {least_us:.3} of the plan's own network");
            return Err(wrong(rtt, what).hint(
                "lower `network.propagation_us`, `network.switch_latency_us` or the times of \
                 hosts, of which the round trip consists as well",
            ));
        }
        *place = Some(Span::from_ns(((us - least_us) * 500.0).round() as u64));
    }
    if farther.iter().all(Option::is_none) {
        return Err(PlanError::text("the file has no round trips")
            .in_file(&table.name)
            .hint("the first line is `host,rtt_us`; each further line is a host, from h1 on"));
    }
    let links: Vec<Link> = (0..hosts)
        .zip(farther)
        .map(|(host, farther)| {
            let (a, b) = (Place::Host(host), Place::Switch(0));
            let propagation = propagation + farther.unwrap_or(Span::ZERO);
            Link { a, b, rate, back, propagation }
        })
        .collect();
    network.topology = Topology::new(hosts, 1, &links)
        .map_err(|error| PlanError::text(format!("`network.round_trips`: {error}")))?;
    Ok(network)
}

/// Values of a delay, each as likely as the others.
fn measured_delays(field: &'static str, us: &[f64]) -> Result<Vec<Span>, PlanError> {
    if us.len() > VALUES_MAX {
        return Err(PlanError::field(field, us.len(), "at most 10000 values")
            .hint("a thousand quantiles of what was measured say as much"));
    }
    us.iter().map(|&us| delay(field, us)).collect()
}

/// The network with what follows from it.
fn measured(network: Network) -> Fabric {
    let topology = &network.topology;
    let hosts = topology.hosts();
    let of_hosts = |port: &&Egress| matches!(port.class, PortClass::Nic | PortClass::Downlink);
    let rates = || topology.ports().iter().filter(of_hosts).map(|port| port.rate.bits_per_s());
    let host_bits_per_s = rates().min().unwrap_or(1);
    let ideal = Ideal::new(&network);
    let full = network.framing.room_bytes();
    // From one host all distances of a leaf-spine or star are seen; in other graphs nearly all.
    let away = |to: u32| ideal.time(Node(0), Node(to), full) + ideal.time(Node(to), Node(0), 1);
    let round_trip_ps = (1..hosts).map(away).max().unwrap_or(1);
    let hops: f64 = (1..hosts).map(|to| f64::from(topology.hops(Node(0), Node(to)))).sum();
    let bytes = round_trip_ps as f64 * 1e-12 * host_bits_per_s as f64 / 8.0;
    Fabric {
        host_bits_per_s,
        hosts_alike: rates().all(|rate| rate == host_bits_per_s),
        round_trip: Span::from_ns(round_trip_ps.div_ceil(1000)),
        rtt_bytes: bytes.ceil() as u32,
        hops_mean: hops / f64::from(hosts - 1),
        network,
    }
}

/// What goes wrong by itself.
pub fn faults(plan: &FabricPlan) -> Result<Faults, PlanError> {
    let mut rules = Vec::new();
    for (index, link) in plan.links.iter().enumerate() {
        let Some(rough) = rough(index, link)? else { continue };
        if plan.loss_ratio > 0.0 {
            return Err(PlanError::field("network.loss_ratio", plan.loss_ratio, "0")
                .hint("a link says its own loss here, so say all of them at the links"));
        }
        let ends = (end(index, "from", &link.from)?, end(index, "to", &link.to)?);
        rules.extend([ends, (ends.1, ends.0)].map(|link| Rule {
            which: Which { link: Some(link), ..Which::any() },
            what: What::Rough(rough),
        }));
    }
    let all = ratio("network.loss_ratio", plan.loss_ratio)?;
    if plan.loss_ratio > 0.0 {
        return Ok(Faults::loss(all));
    }
    Ok(Faults { rules, outages: Vec::new() })
}

/// What a link does to packets, where it says any of it.
fn rough(index: usize, plan: &LinkPlan) -> Result<Option<Rough>, PlanError> {
    let field = |key: &str| format!("network.links.{index}.{key}");
    let absent = |key: &str, why| Err(PlanError::field(field(key), "absent", "above 0").hint(why));
    let LinkPlan { loss_ratio, jitter_us, spike_ratio, spike_us, .. } = plan;
    let LinkPlan { overtaking_ratio, overtaking_us, .. } = plan;
    if spike_ratio.is_none() && spike_us.is_some() {
        let why = "`spike_us` says how long spikes are, and `spike_ratio` how often they come";
        return absent("spike_ratio", why);
    }
    let why = "`overtaking_us` says how late a packet is, and `overtaking_ratio` how often one is";
    match (overtaking_ratio, overtaking_us) {
        (None, Some(_)) => return absent("overtaking_ratio", why),
        (Some(_), None) => return absent("overtaking_us", why),
        _ => {}
    }
    let ratios = [loss_ratio, jitter_us, spike_ratio, overtaking_ratio];
    if ratios.iter().all(|one| one.is_none()) {
        return Ok(None);
    }
    let [least, most] = spike_us.unwrap_or_default();
    let (spike_least, spike_most) =
        (delay(&field("spike_us.0"), least)?, delay(&field("spike_us.1"), most)?);
    if spike_least > spike_most {
        return Err(PlanError::field(field("spike_us.1"), most, &format!("{least} or more")));
    }
    Ok(Some(Rough {
        lost: ratio(&field("loss_ratio"), loss_ratio.unwrap_or(0.0))?,
        jitter: delay(&field("jitter_us"), jitter_us.unwrap_or(0.0))?,
        spiked: ratio(&field("spike_ratio"), spike_ratio.unwrap_or(0.0))?,
        spike_least,
        spike_most,
        overtaken: ratio(&field("overtaking_ratio"), overtaking_ratio.unwrap_or(0.0))?,
        overtaken_by: delay(&field("overtaking_us"), overtaking_us.unwrap_or(0.0))?,
    }))
}

/// The hosts of a network of `hosts` that start later than others, before `end`.
pub fn starts(plan: &FabricPlan, hosts: u32, end: Span) -> Result<Vec<Start>, PlanError> {
    let mut starts: Vec<Start> = Vec::with_capacity(plan.starts.len());
    for (index, one) in plan.starts.iter().enumerate() {
        let field = |key: &str| format!("network.starts.{index}.{key}");
        let name = format!("`{}`", one.host);
        let host = number(&one.host).filter(|&host| host < hosts).map(Node).ok_or_else(|| {
            let last = hosts - 1;
            PlanError::field(field("host"), &name, &format!("a host, `h0` to `h{last}`"))
        })?;
        if starts.iter().any(|other| other.host == host) {
            return Err(PlanError::field(field("host"), name, "none of the hosts before it")
                .hint("a host starts once: keep one of its entries"));
        }
        let range = one.at_us > 0.0 && one.at_us <= 1e8;
        let at = if range { Span::try_from_us(one.at_us) } else { None };
        let at = at.filter(|at| *at < end).ok_or_else(|| {
            let must = format!("a time in microseconds, above 0, at most 1e8, and before {end}");
            PlanError::field(field("at_us"), one.at_us, &must).hint(
                "no message is sent later; a host that is there from the beginning needs no \
                       entry",
            )
        })?;
        starts.push(Start { host, at: Instant::ZERO + at });
    }
    Ok(starts)
}

/// A share of packets.
fn ratio(field: &str, share: f64) -> Result<Ratio, PlanError> {
    const BILLION: u32 = 1_000_000_000;
    let billionths = (share * f64::from(BILLION)).round();
    let ratio = (0.0..=0.5).contains(&share).then(|| Ratio::new(billionths as u32, BILLION));
    ratio.flatten().ok_or_else(|| {
        PlanError::field(field, share, "from 0 to 0.5")
            .hint("1e-4 loses one packet of ten thousand")
    })
}

/// Keys that belong to another shape.
fn refuse_foreign(plan: &FabricPlan) -> Result<(), PlanError> {
    let of = |shapes: &[TopologyName]| shapes.contains(&plan.topology);
    use TopologyName::{LeafSpine, Links, Star};
    let keys = [
        ("hosts", plan.hosts.is_some(), of(&[Star, Links]), "star and links"),
        ("switches", plan.switches.is_some(), of(&[Links]), "links"),
        ("racks", plan.racks.is_some(), of(&[LeafSpine]), "leaf_spine"),
        ("hosts_per_rack", plan.hosts_per_rack.is_some(), of(&[LeafSpine]), "leaf_spine"),
        ("spines", plan.spines.is_some(), of(&[LeafSpine]), "leaf_spine"),
        ("spine_gbps", plan.spine_gbps.is_some(), of(&[LeafSpine]), "leaf_spine"),
        (
            "host_down_gbps",
            plan.host_down_gbps.is_some(),
            of(&[Star, LeafSpine]),
            "star and leaf_spine; `links` have `back_gbps`",
        ),
        ("links", !plan.links.is_empty(), of(&[Links]), "links"),
        (
            "round_trips",
            plan.round_trips.is_some(),
            of(&[Star]),
            "star; other shapes have `propagation_us` of each link",
        ),
    ];
    match keys.iter().find(|(_, set, fits, _)| *set && !*fits) {
        None => Ok(()),
        Some((key, _, _, shape)) => {
            Err(PlanError::text(format!("`network.{key}` is set, but belongs to {shape}")))
        }
    }
}

fn needed(value: Option<u32>, key: &str, least: u32) -> Result<u32, PlanError> {
    let field = format!("network.{key}");
    match value {
        None => Err(PlanError::text(format!("`{field}` is missing")).hint(
            "star needs hosts; leaf_spine needs racks, hosts_per_rack, spines; links needs \
             hosts, switches, links",
        )),
        Some(value) if value < least || value > NODES_MAX => {
            Err(PlanError::field(field, value, &format!("{least} to {NODES_MAX}")))
        }
        Some(value) => Ok(value),
    }
}

/// Refuses a topology whose tables would not fit, before they are made.
fn affordable(hosts: f64, switches: f64) -> Result<(), PlanError> {
    let bytes = hosts * switches * 8.0 + switches * switches * 10.0 + hosts * 4e3;
    if bytes <= TABLES_MAX_BYTES {
        return Ok(());
    }
    let message = format!(
        "`network` has {hosts} hosts and {switches} switches, whose tables alone need {:.0} GB of \
         memory",
        bytes / 1e9
    );
    Err(PlanError::text(message).hint("simulate a part of it: slowdowns hardly depend on its size"))
}

/// A rate in Gb/s.
fn rate(field: &str, gbps: f64) -> Result<Rate, PlanError> {
    let bits = gbps * 1e9;
    let rate = if bits.is_finite() && bits >= 0.0 { Rate::new(bits.round() as u64) } else { None };
    rate.ok_or_else(|| PlanError::field(field, gbps, "a rate in Gb/s from 0.001 to 8000"))
}

/// A delay of at most a second.
fn delay(field: &str, us: f64) -> Result<Span, PlanError> {
    let span = if (0.0..=1e6).contains(&us) { Span::try_from_us(us) } else { None };
    span.ok_or_else(|| PlanError::field(field, us, "a time in microseconds from 0 to 1e6"))
}

/// One end of a link.
fn end(index: usize, key: &str, text: &str) -> Result<Place, PlanError> {
    let number = text.get(1..).and_then(|digits| digits.parse().ok());
    match (text.as_bytes().first(), number) {
        (Some(b'h'), Some(number)) => Ok(Place::Host(number)),
        (Some(b's'), Some(number)) => Ok(Place::Switch(number)),
        _ => {
            let field = format!("network.links.{index}.{key}");
            Err(PlanError::field(field, format!("`{text}`"), "a host or a switch")
                .hint("hosts are `h0`, `h1` and so on, switches `s0`, `s1` and so on"))
        }
    }
}

fn link(index: usize, plan: &LinkPlan, host: Rate, along: Span) -> Result<Link, PlanError> {
    let field = |key: &str| format!("network.links.{index}.{key}");
    let propagation = match plan.propagation_us {
        Some(us) => delay(&field("propagation_us"), us)?,
        None => along,
    };
    let there = plan.gbps.map_or(Ok(host), |gbps| rate(&field("gbps"), gbps))?;
    Ok(Link {
        a: end(index, "from", &plan.from)?,
        b: end(index, "to", &plan.to)?,
        rate: there,
        back: plan.back_gbps.map_or(Ok(there), |gbps| rate(&field("back_gbps"), gbps))?,
        propagation,
    })
}
