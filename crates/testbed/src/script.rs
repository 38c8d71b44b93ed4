//! What `ip` and `tc` are told `[homa 7.5]`.

use crate::owner::Owner;
use crate::space::Space;
use crate::{Error, LEVELS, Plan, Shaped, tools};

/// What an Ethernet link carries beside the frame that the kernel counts: check 4, preamble 8, gap
/// 12.
pub const UNCOUNTED_BYTES: u32 = 24;
/// The shortest frame with all of these.
const FRAME_MIN_BYTES: u32 = 84;
/// Two packets at once, so that a timer may be a little late.
pub const BURST_BYTES: u32 = 3 << 10;
/// A full frame.
const QUANTUM_BYTES: u32 = 1514;

/// The switch's port to a host.
pub fn port(host: u16) -> String {
    format!("p{host}")
}

fn mac(host: u16) -> String {
    format!("02:00:00:00:{:02x}:{:02x}", host >> 8, host & 0xff)
}

/// Makes everything.
pub fn build(plan: &Plan, owner: &Owner) -> Result<(), Error> {
    let switch = owner.switch();
    let hosts = || 0..plan.hosts;
    let mut spaces = vec![format!("netns add {switch}")];
    spaces.extend(hosts().map(|host| format!("netns add {}", owner.host(host))));
    tools::batch("ip", None, &spaces)?;

    // No spanning tree, no snooping, no addresses of its own: it only forwards.
    let mut links = vec![
        "link add br0 type bridge stp_state 0 mcast_snooping 0 forward_delay 0".to_string(),
        "link set br0 addrgenmode none".to_string(),
        "link set br0 up".to_string(),
    ];
    for host in hosts() {
        let (port, space, mac) = (port(host), owner.host(host), mac(host));
        links.push(format!("link add {port} type veth peer name eth0 address {mac} netns {space}"));
        links.push(format!("link set {port} addrgenmode none"));
        // A train of segments would pass a port as one packet.
        links.push(format!("link set {port} gso_max_segs 1 master br0 up"));
    }
    tools::batch("ip", Some(&switch), &links)?;

    for host in hosts() {
        let address = Plan::address(host);
        let mut lines = vec![
            "link set lo up".to_string(),
            "link set eth0 addrgenmode none".to_string(),
            "link set eth0 gso_max_segs 1 up".to_string(),
            format!("addr add {address}/24 dev eth0"),
        ];
        // Nobody has to ask for addresses in the middle of a measurement.
        lines.extend(hosts().filter(|&other| other != host).map(|other| {
            let (at, mac) = (Plan::address(other), mac(other));
            format!("neigh replace {at} lladdr {mac} dev eth0 nud permanent")
        }));
        tools::batch("ip", Some(&owner.host(host)), &lines)?;
        if plan.shaped == Shaped::All {
            tools::batch("tc", Some(&owner.host(host)), &egress(plan))?;
        }
    }
    let ports: Vec<String> = shaped_ports(plan).flat_map(|port| strict_port(plan, &port)).collect();
    tools::batch("tc", Some(&switch), &ports)?;
    set_levels(plan, owner, plan.levels)
}

/// Shows packets to the tables of IP at the bridge, where the kernel can: there they leave the
/// socket that sent them. Otherwise what waits in the switch counts against the sender's buffer,
/// and TCP's limit on what waits below it keeps the switch empty, as no card and no cable would.
pub fn leave_sockets(owner: &Owner) -> Result<(), Error> {
    const TABLES: [&str; 2] = ["bridge-nf-call-iptables", "bridge-nf-call-ip6tables"];
    Space::open(&owner.switch())?.within(|| {
        for table in TABLES {
            // A kernel without has no such file.
            let _ = std::fs::write(format!("/proc/sys/net/bridge/{table}"), "1");
        }
    })
}

/// The switch's ports that keep the rate.
fn shaped_ports(plan: &Plan) -> impl Iterator<Item = String> {
    let shaped = plan.shaped;
    let is = move |&host: &u16| matches!(shaped, Shaped::All) || shaped == Shaped::PortTo(host);
    (0..plan.hosts).filter(is).map(port)
}

/// A class of htb as the link sees packets.
fn class(
    device: &str,
    parent: &str,
    id: &str,
    guaranteed: &str,
    plan: &Plan,
    rest: &str,
) -> String {
    let rate = plan.link_bits_per_s;
    format!(
        "class add dev {device} parent {parent} classid {id} htb rate {guaranteed} ceil {rate}bit \
         burst {BURST_BYTES} cburst {BURST_BYTES} quantum {QUANTUM_BYTES} overhead \
         {UNCOUNTED_BYTES} mpu {FRAME_MIN_BYTES} {rest}"
    )
}

/// A host's own interface: the rate of the link, first come first served.
fn egress(plan: &Plan) -> Vec<String> {
    let rate = format!("{}bit", plan.link_bits_per_s);
    vec![
        "qdisc add dev eth0 root handle 1: htb default 10".to_string(),
        class("eth0", "1:", "1:10", &rate, plan, ""),
        format!("qdisc add dev eth0 parent 1:10 handle 10: bfifo limit {}", Plan::HOST_QUEUE_BYTES),
    ]
}

/// A port that sends the highest level first. What is guaranteed to a class goes before what is
/// lent by priority, so next to nothing is guaranteed.
fn strict_port(plan: &Plan, port: &str) -> Vec<String> {
    let rate = format!("{}bit", plan.link_bits_per_s);
    let mut lines = vec![
        format!("qdisc add dev {port} root handle 1: htb default 10"),
        class(port, "1:", "1:1", &rate, plan, ""),
    ];
    for level in 0..LEVELS {
        let (id, first) = (format!("1:1{level}"), LEVELS - 1 - level);
        lines.push(class(port, "1:1", &id, "8kbit", plan, &format!("prio {first}")));
        lines.push(format!(
            "qdisc add dev {port} parent {id} handle 1{level}: bfifo limit {}",
            plan.level_bytes
        ));
    }
    lines
}

/// Sends packets to the class of their level, or all to the lowest.
pub fn set_levels(plan: &Plan, owner: &Owner, levels: bool) -> Result<(), Error> {
    let ports = shaped_ports(plan);
    let lines: Vec<String> = match levels {
        true => ports.flat_map(|port| (0..LEVELS).map(move |level| filter(&port, level))).collect(),
        // A port that never had filters has none to take away.
        false if plan.levels => {
            ports.map(|port| format!("filter del dev {port} parent 1:")).collect()
        }
        false => return Ok(()),
    };
    tools::batch("tc", Some(&owner.switch()), &lines)
}

fn filter(port: &str, level: usize) -> String {
    let tos = level << 5;
    format!(
        "filter add dev {port} parent 1: protocol ip prio 1 u32 match ip tos {tos:#04x} 0xe0 \
         flowid 1:1{level}"
    )
}
