//! What a line is built of, as a user writes it.
//!
//! A file of TOML: sites with hosts, then rules about the ways between them. Rules are read from
//! top to bottom; a later one changes what it names and leaves the rest.

use super::path::{Order, Path, Port, Setting};
use super::schedule::{HOSTS_MAX, Room};
use crate::Error;
use cavy_core::Span;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

/// A file to begin with.
pub const EXAMPLE: &str = include_str!("example.toml");

/// The smallest and greatest MTU: IPv4 demands 68, and a tunnel takes no more than 65,535.
const MTU: (u32, u32) = (68, 65_535);

/// What is built.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// Of everything that is drawn.
    pub seed: u64,
    /// Of all tunnels.
    pub mtu: u32,
    /// What TCP uses in all hosts; `None`: what the kernel does.
    pub congestion_control: Option<String>,
    /// Other settings of the kernel in all hosts, by name.
    pub sysctls: BTreeMap<String, String>,
    /// The hosts, site by site.
    pub hosts: Vec<Host>,
    /// What ways are like.
    pub rules: Vec<Rule>,
    /// What hosts' own ports are like; later ones win.
    pub ports: Vec<(Which, Ports)>,
    /// What the line holds at most.
    pub room: Room,
}

/// A host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// Its site.
    pub site: String,
    /// Its name, such as `east-0`.
    pub name: String,
    /// Its address.
    pub address: Ipv4Addr,
}

/// Which hosts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Which {
    /// All.
    #[default]
    All,
    /// Those of a site, or one.
    Named(String),
}

impl Which {
    fn is(&self, host: &Host) -> bool {
        match self {
            Which::All => true,
            Which::Named(name) => *name == host.site || *name == host.name,
        }
    }
}

/// Ports of a host: to the line, and from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ports {
    /// What it sends passes this first.
    pub up: Option<Port>,
    /// What it gets passes this last.
    pub down: Option<Port>,
}

/// What some ways are like, from some time on.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Rule {
    /// One end.
    pub from: Which,
    /// The other.
    pub to: Which,
    /// Not the ways back.
    pub one_direction: bool,
    /// Only ways within a site, or only between sites.
    pub within: Option<bool>,
    /// From this time on, counted from the start; `None`: from the start.
    pub at: Option<Span>,
    /// What is changed.
    pub setting: Setting,
}

impl Rule {
    /// The pairs of hosts that it is about. Nobody is on a way to himself.
    pub fn pairs(&self, hosts: &[Host]) -> Vec<(u16, u16)> {
        let mut pairs = Vec::new();
        for (i, a) in (0..).zip(hosts) {
            for (j, b) in (0..).zip(hosts) {
                let there = self.from.is(a) && self.to.is(b);
                let back = !self.one_direction && self.from.is(b) && self.to.is(a);
                let within = self.within.is_none_or(|within| within == (a.site == b.site));
                if i != j && (there || back) && within {
                    pairs.push((i, j));
                }
            }
        }
        pairs
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    seed: Option<u64>,
    mtu: Option<u32>,
    congestion_control: Option<String>,
    packets_max: Option<usize>,
    #[serde(default)]
    site: Vec<SiteTable>,
    #[serde(default)]
    path: Vec<PathTable>,
    #[serde(default)]
    port: Vec<PortTable>,
    #[serde(default)]
    sysctl: BTreeMap<String, toml::Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SiteTable {
    name: String,
    hosts: Hosts,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a number of hosts, or a list of their addresses")]
enum Hosts {
    Count(u16),
    Addresses(Vec<Ipv4Addr>),
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct PathTable {
    from: Option<String>,
    to: Option<String>,
    #[serde(default)]
    one_direction: bool,
    within: Option<bool>,
    at_s: Option<f64>,
    one_way_ms: Option<f64>,
    jitter_ms: Option<f64>,
    order: Option<Order>,
    loss_ratio: Option<f64>,
    copy_ratio: Option<f64>,
    late_ratio: Option<f64>,
    late_ms: Option<f64>,
    cut: Option<bool>,
    mbit: Option<f64>,
    queue_kb: Option<f64>,
    mark_kb: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PortTable {
    host: String,
    up_mbit: Option<f64>,
    down_mbit: Option<f64>,
    queue_kb: Option<f64>,
    mark_kb: Option<f64>,
}

/// Room of a port where nothing is said: what 100 Mb/s carry in 20 ms.
const QUEUE_KB: f64 = 250.0;

impl Plan {
    /// Reads a file's text.
    ///
    /// # Errors
    /// One sentence that names the key and the value, and what would help.
    pub fn read(text: &str) -> Result<Plan, Error> {
        let file: File = toml::from_str(text)
            .map_err(|error| Error::new(error.to_string()).hint(EXAMPLE_HINT))?;
        if let Some(name) = &file.congestion_control
            && (name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
        {
            let name = format!("{name:?}");
            return Err(wrong("congestion_control", name, "a name such as cubic"));
        }
        let mtu = file.mtu.unwrap_or(1_500);
        if !(MTU.0..=MTU.1).contains(&mtu) {
            return Err(wrong("mtu", mtu, "from 68, which IPv4 demands, to 65535"));
        }
        let packets = file.packets_max.unwrap_or(Room::default().packets);
        if packets == 0 {
            return Err(wrong("packets_max", packets, "at least 1"));
        }
        let hosts = hosts(&file.site)?;
        let rules: Result<Vec<Rule>, Error> =
            file.path.iter().map(|table| rule(table, &hosts)).collect();
        let ports: Result<Vec<(Which, Ports)>, Error> =
            file.port.iter().map(|table| ports(table, &hosts)).collect();
        let mut sysctls = BTreeMap::new();
        for (name, value) in file.sysctl {
            let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            if !name.starts_with("net.") || name.contains("..") || !name.chars().all(plain) {
                return Err(wrong("sysctl", name, "a name such as net.ipv4.tcp_sack"));
            }
            let value = match value {
                toml::Value::String(text) => text,
                other => other.to_string(),
            };
            sysctls.insert(name, value);
        }
        Ok(Plan {
            seed: file.seed.unwrap_or(1),
            mtu,
            congestion_control: file.congestion_control,
            sysctls,
            hosts,
            rules: rules?,
            ports: ports?,
            room: Room { packets, ..Room::default() },
        })
    }

    /// Reads one rule as it is typed: `from=east to=west one_way_ms=80`.
    ///
    /// # Errors
    /// As [`Plan::read`].
    pub fn rule(&self, words: &[&str]) -> Result<Rule, Error> {
        let mut text = String::new();
        for word in words {
            let Some((key, value)) = word.split_once('=') else {
                return Err(Error::new(format!("`{word}` is not of the form key=value"))
                    .hint("for example: from=east to=west one_way_ms=80"));
            };
            let bare = value.parse::<f64>().is_ok() || ["true", "false"].contains(&value);
            let value = if bare { value.to_string() } else { format!("{value:?}") };
            text.push_str(&format!("{key} = {value}\n"));
        }
        let table: PathTable = toml::from_str(&text)
            .map_err(|error| Error::new(error.message().to_string()).hint(EXAMPLE_HINT))?;
        if table.at_s.is_some() {
            return Err(Error::new(
                "at_s stands in files only: what is typed takes effect at once",
            ));
        }
        rule(&table, &self.hosts)
    }

    /// The number of the host of this name or address.
    pub fn host(&self, name: &str) -> Option<u16> {
        let is = |host: &Host| host.name == name || host.address.to_string() == name;
        // There are at most 256.
        self.hosts.iter().position(is).map(|place| place as u16)
    }

    /// What all ways are like when the line starts, by sender and receiver.
    pub fn paths(&self) -> BTreeMap<(u16, u16), Path> {
        let mut paths = BTreeMap::new();
        for rule in self.rules.iter().filter(|rule| rule.at.is_none()) {
            for pair in rule.pairs(&self.hosts) {
                rule.setting.apply(paths.entry(pair).or_default());
            }
        }
        paths
    }

    /// What the ports of a host are.
    pub fn ports(&self, host: &Host) -> Ports {
        let of = self.ports.iter().filter(|(which, _)| which.is(host));
        of.fold(Ports::default(), |all, (_, ports)| Ports {
            up: ports.up.or(all.up),
            down: ports.down.or(all.down),
        })
    }
}

const EXAMPLE_HINT: &str = "`cavy live line example` prints a file with every key";

fn wrong(key: &str, value: impl std::fmt::Display, range: &str) -> Error {
    Error::new(format!("{key} is {value}: it must be {range}")).hint(EXAMPLE_HINT)
}

fn hosts(sites: &[SiteTable]) -> Result<Vec<Host>, Error> {
    let mut hosts: Vec<Host> = Vec::new();
    let (mut names, mut addresses) = (BTreeSet::new(), BTreeSet::new());
    for (number, site) in (0_u8..=255).zip(sites) {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if site.name.is_empty() || !site.name.chars().all(plain) {
            let name = format!("{:?}", site.name);
            return Err(wrong("site.name", name, "of letters, digits, - and _"));
        }
        let of: Vec<Ipv4Addr> = match &site.hosts {
            Hosts::Addresses(all) => all.clone(),
            Hosts::Count(count @ 1..=250) => {
                // At most 250.
                (1..=*count as u8).map(|host| Ipv4Addr::new(10, 78, number, host)).collect()
            }
            Hosts::Count(count) => return Err(wrong("site.hosts", count, "from 1 to 250")),
        };
        if of.is_empty() {
            return Err(Error::new(format!("the site {} has no hosts", site.name)));
        }
        if !names.insert(site.name.clone()) {
            return Err(Error::new(format!("two sites or hosts have the name {}", site.name)));
        }
        for (place, address) in of.into_iter().enumerate() {
            let name = format!("{}-{place}", site.name);
            if !names.insert(name.clone()) {
                return Err(Error::new(format!("two sites or hosts have the name {name}")));
            }
            if !addresses.insert(address) {
                return Err(Error::new(format!("two hosts have the address {address}")));
            }
            if address.is_loopback() || address.is_multicast() || address.is_unspecified() {
                return Err(wrong("site.hosts", address, "addresses that hosts may have"));
            }
            hosts.push(Host { site: site.name.clone(), name, address });
        }
    }
    if !(2..=usize::from(HOSTS_MAX)).contains(&hosts.len()) {
        return Err(wrong("the number of hosts", hosts.len(), "from 2 to 256"));
    }
    Ok(hosts)
}

fn which(key: &str, name: Option<&str>, hosts: &[Host]) -> Result<Which, Error> {
    let which = match name {
        None | Some("*") => return Ok(Which::All),
        Some(name) => Which::Named(name.to_string()),
    };
    if hosts.iter().any(|host| which.is(host)) {
        return Ok(which);
    }
    let mut sites: Vec<&str> = hosts.iter().map(|host| host.site.as_str()).collect();
    sites.dedup();
    let range = format!("a site ({}), a host such as {}, or *", sites.join(", "), hosts[0].name);
    Err(wrong(key, format!("{:?}", name.unwrap_or_default()), &range))
}

fn span(key: &str, value: Option<f64>, unit_ns: f64) -> Result<Option<Span>, Error> {
    /// Far beyond what anybody waits for.
    const MOST_NS: f64 = 3_600e9;
    let Some(value) = value else { return Ok(None) };
    let ns = value * unit_ns;
    if !(0.0..=MOST_NS).contains(&ns) {
        return Err(wrong(key, value, "from 0 to an hour"));
    }
    Ok(Some(Span::from_ns(ns.round() as u64)))
}

fn ratio(key: &str, ratio: Option<f64>) -> Result<Option<f64>, Error> {
    match ratio {
        Some(ratio) if !(0.0..=1.0).contains(&ratio) => Err(wrong(key, ratio, "from 0 to 1")),
        ratio => Ok(ratio),
    }
}

/// A port of `mbit`, or none where that is 0.
fn port(
    key: &str,
    mbit: Option<f64>,
    (queue_kb, mark_kb): (Option<f64>, Option<f64>),
) -> Result<Option<Option<Port>>, Error> {
    let bytes = |key: &str, kb: Option<f64>| match kb {
        Some(kb) if !(0.1..=1e6).contains(&kb) => Err(wrong(key, kb, "from 0.1 to 1000000")),
        kb => Ok(kb.map(|kb| (kb * 1e3).round() as u64)),
    };
    let (queue, mark) = (bytes("queue_kb", queue_kb)?, bytes("mark_kb", mark_kb)?);
    match mbit {
        None if queue.is_some() || mark.is_some() => {
            let what = format!("queue_kb and mark_kb need {key}: what has no rate has no queue");
            Err(Error::new(what).hint(EXAMPLE_HINT))
        }
        None => Ok(None),
        Some(0.0) => Ok(Some(None)),
        Some(mbit) if (0.001..=1e6).contains(&mbit) => Ok(Some(Some(Port {
            bits_per_s: (mbit * 1e6).round() as u64,
            queue_bytes: queue.unwrap_or((QUEUE_KB * 1e3) as u64),
            mark_bytes: mark,
        }))),
        Some(mbit) => Err(wrong(key, mbit, "0 for no limit, or from 0.001 to 1000000")),
    }
}

fn rule(table: &PathTable, hosts: &[Host]) -> Result<Rule, Error> {
    let setting = Setting {
        one_way: span("one_way_ms", table.one_way_ms, 1e6)?,
        jitter: span("jitter_ms", table.jitter_ms, 1e6)?,
        order: table.order,
        loss_ratio: ratio("loss_ratio", table.loss_ratio)?,
        copy_ratio: ratio("copy_ratio", table.copy_ratio)?,
        late_ratio: ratio("late_ratio", table.late_ratio)?,
        late_by: span("late_ms", table.late_ms, 1e6)?,
        cut: table.cut,
        port: port("mbit", table.mbit, (table.queue_kb, table.mark_kb))?,
    };
    let rule = Rule {
        from: which("from", table.from.as_deref(), hosts)?,
        to: which("to", table.to.as_deref(), hosts)?,
        one_direction: table.one_direction,
        within: table.within,
        at: span("at_s", table.at_s, 1e9)?,
        setting,
    };
    if rule.setting == Setting::default() {
        return Err(Error::new("a rule about ways changes nothing").hint(EXAMPLE_HINT));
    }
    if rule.pairs(hosts).is_empty() {
        return Err(Error::new("a rule is about no pair of hosts")
            .hint("`within = true` leaves out all ways between sites"));
    }
    Ok(rule)
}

fn ports(table: &PortTable, hosts: &[Host]) -> Result<(Which, Ports), Error> {
    let rest = (table.queue_kb, table.mark_kb);
    let of = |key, mbit: Option<f64>| match mbit {
        None => Ok(None),
        mbit => port(key, mbit, rest).map(Option::flatten),
    };
    let ports =
        Ports { up: of("up_mbit", table.up_mbit)?, down: of("down_mbit", table.down_mbit)? };
    if ports == Ports::default() {
        return Err(Error::new("a port needs up_mbit or down_mbit").hint(EXAMPLE_HINT));
    }
    Ok((which("host", Some(&table.host), hosts)?, ports))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SITES: &str = "[[site]]\nname='a'\nhosts=2\n[[site]]\nname='b'\nhosts=1\n";

    fn read(rest: &str) -> Result<Plan, String> {
        Plan::read(&format!("{SITES}{rest}")).map_err(|error| error.to_string())
    }

    #[test]
    fn the_example_is_a_plan_and_so_is_all_that_it_mentions() {
        let plan = Plan::read(EXAMPLE).unwrap();
        assert_eq!(plan.hosts.len(), 6);
        let paths = plan.paths();
        // Hosts 0 and 1 are in the east, 4 and 5 in Asia.
        let one_way = |pair| paths[&pair].one_way.as_us() / 1e3;
        assert_eq!([(0, 1), (0, 2), (0, 4), (5, 1)].map(one_way), [2.5, 50.0, 90.0, 90.0]);
        assert_eq!(paths[&(0, 1)].jitter, Span::ZERO);
        assert_eq!(paths[&(4, 0)].loss_ratio, 0.001);
        assert_eq!((plan.host("west-1"), plan.host("10.78.1.2")), (Some(3), Some(3)));
        // What stands behind `# ` is a key as well, but for the first line.
        let keys = EXAMPLE.lines().skip(1).map(|line| line.trim_start_matches("# "));
        let plan = Plan::read(&keys.collect::<Vec<_>>().join("\n")).unwrap();
        assert_eq!(plan.rules.iter().filter(|rule| rule.at.is_some()).count(), 2);
        assert_eq!(plan.sysctls["net.ipv4.tcp_rto_min_us"], "200000");
        let down = plan.ports(&plan.hosts[0]).down.unwrap();
        assert_eq!((down.bits_per_s, down.queue_bytes), (1_000_000_000, 32_000));
        assert_eq!(plan.ports(&plan.hosts[1]), Ports::default());
    }

    #[test]
    fn later_rules_change_what_they_name_and_leave_the_rest() {
        let later = "[[path]]\nfrom='b'\nto='a-1'\none_direction=true\none_way_ms=7";
        let plan = read(&format!("[[path]]\none_way_ms=50\nloss_ratio=0.1\n{later}")).unwrap();
        let paths = plan.paths();
        let of = |pair| (paths[&pair].one_way.as_us() / 1e3, paths[&pair].loss_ratio);
        assert_eq!([(2, 1), (1, 2), (2, 0)].map(of), [(7.0, 0.1), (50.0, 0.1), (50.0, 0.1)]);
        let rule = plan.rule(&["from=a", "to=b", "cut=true"]).unwrap();
        assert_eq!(rule.pairs(&plan.hosts), [(0, 2), (1, 2), (2, 0), (2, 1)]);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_value() {
        for (rest, said) in [
            (
                "[[path]]\nfrom='c'\ncut=true",
                "from is \"c\": it must be a site (a, b), a host such as a-0, or *",
            ),
            ("[[path]]\nloss_ratio=1.5", "loss_ratio is 1.5: it must be from 0 to 1"),
            ("[[path]]\none_way_ms=-1", "one_way_ms is -1: it must be from 0 to an hour"),
            ("[[path]]\none_way_ms=nan", "one_way_ms is NaN: it must be from 0 to an hour"),
            ("[[path]]\nwithin=true", "a rule about ways changes nothing"),
            ("[[path]]\nfrom='b'\nto='b'\ncut=true", "a rule is about no pair of hosts"),
            (
                "[[path]]\nqueue_kb=3",
                "queue_kb and mark_kb need mbit: what has no rate has no queue",
            ),
            ("[[port]]\nhost='*'", "a port needs up_mbit or down_mbit"),
            ("[[site]]\nname='a'\nhosts=1", "two sites or hosts have the name a"),
            ("[[site]]\nname='c'\nhosts=['10.78.0.1']", "two hosts have the address 10.78.0.1"),
            ("[[site]]\nname='c'\nhosts=[]", "the site c has no hosts"),
            (
                "[sysctl]\n'net/../../x'='1'",
                "sysctl is net/../../x: it must be a name such as net.ipv4.tcp_sack",
            ),
        ] {
            assert_eq!(read(rest), Err(said.to_string()));
        }
        let mtu = Plan::read("mtu = 40").map_err(|error| error.to_string());
        assert_eq!(mtu, Err("mtu is 40: it must be from 68, which IPv4 demands, to 65535".into()));
        let unknown = read("[[path]]\ndelay=3").unwrap_err();
        assert!(unknown.contains("unknown field `delay`"), "{unknown}");
        let none = Plan::read("").map_err(|error| error.to_string());
        assert_eq!(none, Err("the number of hosts is 0: it must be from 2 to 256".to_string()));
    }
}
