//! The file that describes a cluster.

use crate::Fault;
use cavy_core::Span;
use cavy_core::family::Node;
use cavy_resp::Places;
use cavy_txn::dast::{self, Mode};
use cavy_txn::{Layout, Region, locking, slog};
use serde::{Deserialize, Serialize};
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::Path;
use std::str::FromStr;

/// Regions, shards of each, replicas of each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Regions.
    pub regions: u16,
    /// Shards of each region.
    pub shards: u32,
    /// Replicas of each shard.
    pub replicas: u32,
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Shape, String> {
        let parts: Vec<Option<u32>> = text.split('x').map(|part| part.parse().ok()).collect();
        let [Some(regions), Some(shards), Some(replicas)] = parts[..] else {
            return Err("three numbers, such as 3x2x3: regions, shards of each, replicas".into());
        };
        if !(1..=64).contains(&regions) || !(1..=64).contains(&shards) {
            return Err("1 to 64 regions, and 1 to 64 shards of each".into());
        }
        if !matches!(replicas, 3 | 5 | 7) {
            return Err(format!("{replicas} replicas; a majority that survives needs 3, 5 or 7"));
        }
        Ok(Shape { regions: regions as u16, shards, replicas })
    }
}

/// Who orders transactions.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// DAST.
    #[default]
    Dast,
    /// Two-phase locks and two-phase commit over replicated shards. It has no stewards.
    TwoPhase,
    /// SLOG. Its orderers are in three regions.
    Slog,
}

impl Protocol {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Dast => "DAST",
            Protocol::TwoPhase => "2PL/2PC",
            Protocol::Slog => "SLOG",
        }
    }
}

/// When what must be remembered counts as stored.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Storage {
    /// When the disk has it: what was answered survives a power cut of all nodes.
    #[default]
    On,
    /// When it is in the memory of a majority: what was answered survives the failure of a node.
    Replicated,
}

fn is_usual<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A cluster.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Its name. Nodes of another one are refused.
    pub cluster: String,
    /// A secret that its nodes share. Without it the name is all that they must know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What clients must know; without it, they connect on loopback only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// Who orders transactions.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub protocol: Protocol,
    /// When what a node must remember counts as stored.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub durable: Storage,
    /// Names of the regions, by which keys say where they are: `{eu}`.
    pub regions: Vec<String>,
    /// The region of keys that name none; the first one if this is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_region: Option<String>,
    /// Shards of each region.
    pub shards_per_region: u32,
    /// Replicas of each shard.
    pub replicas: u32,
    /// Times of the protocol.
    #[serde(default)]
    pub timing: Timing,
    /// Parts of the protocol that may be taken out, for experiments.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub controls: Controls,
    /// Distances that the carrier makes, for clusters on one machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Delay>,
    /// All nodes: the replicas of the first shard, of the second and so on, then the three stewards
    /// of each region.
    #[serde(rename = "node")]
    pub nodes: Vec<NodeConfig>,
}

/// Times of the protocol, in milliseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Timing {
    /// Between two reports of a node's clock.
    pub sync_ms: f64,
    /// How far ahead transactions across regions are anticipated: a round trip between the regions
    /// that are farthest apart, less what a message takes within one.
    pub est_ms: f64,
    /// A node that is silent for so long is taken out of its region's view. The specification has
    /// 100, which a machine whose processors are shared cannot keep.
    pub fail_after_ms: f64,
    /// A transaction across regions that is undecided for so long is resolved by its home.
    pub crt_after_ms: f64,
    /// What was not heard for so long is asked for again.
    pub retry_after_ms: f64,
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            sync_ms: 5.0,
            est_ms: 90.0,
            fail_after_ms: 500.0,
            crt_after_ms: 500.0,
            retry_after_ms: 250.0,
        }
    }
}

/// Parts of the protocol that may be taken out, to see what they are good for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Controls {
    /// Clocks stay below transactions across regions that are not decided. Without it,
    /// transactions within the region wait for those.
    pub stretch: bool,
    /// Commits go to the stewards, which tell everybody of their region in one instant, and not to
    /// replicas directly.
    pub commit_via_steward: bool,
    /// Answers to `FCALL` carry the versions that were read and written, for `cavy check`.
    pub history: bool,
}

impl Default for Controls {
    fn default() -> Self {
        Controls { stretch: true, commit_via_steward: true, history: false }
    }
}

/// One-way times between nodes, in milliseconds. Within a region the carrier makes them.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delay {
    /// Between nodes of one region.
    pub within_ms: f64,
    /// Between regions.
    pub across_ms: f64,
    /// Evenly so much less or more between regions.
    #[serde(default)]
    pub jitter_ms: f64,
    /// Who makes the way between regions.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub wan: Wan,
}

/// Who makes the distance between regions.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wan {
    /// The receiving node, which holds messages until they are due. TCP sees nothing of it.
    #[default]
    Carrier,
    /// A line between network namespaces, one for each region. It needs root.
    Line,
}

/// A node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeConfig {
    /// Its number.
    pub id: u32,
    /// Where it listens for other nodes, TCP and UDP.
    pub address: SocketAddr,
    /// Where a replica listens for clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<SocketAddr>,
    /// Where it tells its status and metrics, over HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<SocketAddr>,
    /// The network namespace in which it listens for other nodes and speaks to them. Clients and
    /// questions about its state come in where it was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<String>,
}

fn span(name: &str, ms: f64) -> Result<Span, Fault> {
    let fits = (0.0..=3_600_000.0).contains(&ms);
    Span::try_from_us(ms * 1e3)
        .filter(|_| fits)
        .ok_or_else(|| Fault::input(format!("{name} is {ms}; it must be 0 to 3600000")))
}

impl Config {
    /// The file of a cluster of this shape on these hosts.
    ///
    /// # Errors
    /// When names, hosts or ports do not fit.
    pub fn of(
        shape: Shape,
        regions: &[String],
        hosts: &[String],
        port: u16,
    ) -> Result<Config, Fault> {
        let many = usize::from(shape.regions);
        let regions: Vec<String> = if regions.is_empty() {
            (0..many).map(|region| format!("r{region}")).collect()
        } else {
            regions.to_vec()
        };
        if hosts.len() != 1 && hosts.len() != many {
            let text = format!("{} hosts for {many} regions", hosts.len());
            return Err(Fault::input(text).hint("name one for each region, or one for all"));
        }
        let layout = Layout {
            regions: shape.regions,
            shards_per_region: shape.shards,
            replicas: shape.replicas,
        };
        if u32::from(port) + layout.nodes() > 65_535 - 2_000 || layout.nodes() > 1_000 {
            let text = format!("{} nodes from port {port} on do not fit", layout.nodes());
            return Err(Fault::input(text).hint("choose a smaller --port"));
        }
        let of = |id: u32| {
            let node = Node(id);
            let host = &hosts[usize::from(layout.region_of_node(node).0) % hosts.len()];
            let at = |offset: u32| {
                let text = format!("{host}:{}", u32::from(port) + offset + id);
                let wrong =
                    || Fault::input(format!("{host:?} is no address")).hint("such as 10.0.0.1");
                text.parse::<SocketAddr>().map_err(|_| wrong())
            };
            let clients = layout.shard_of(node).map(|_| at(1_000)).transpose()?;
            Ok(NodeConfig { id, address: at(0)?, clients, status: Some(at(2_000)?), space: None })
        };
        let config = Config {
            cluster: "cavy".into(),
            key: None,
            password: None,
            protocol: Protocol::default(),
            durable: Storage::default(),
            regions,
            default_region: None,
            shards_per_region: shape.shards,
            replicas: shape.replicas,
            timing: Timing::default(),
            controls: Controls::default(),
            delay: None,
            nodes: (0..layout.nodes()).map(of).collect::<Result<_, Fault>>()?,
        };
        config.check()?;
        Ok(config)
    }

    /// Reads the file at `path`.
    ///
    /// # Errors
    /// One that cannot be read, or describes no cluster.
    pub fn load(path: &Path) -> Result<Config, Fault> {
        /// No cluster needs more; a device or a pipe without end describes none.
        const BYTES_MAX: u64 = 16 << 20;
        let read = || std::io::read_to_string(std::fs::File::open(path)?.take(BYTES_MAX + 1));
        let text = read()
            .map_err(|error| Fault::input(format!("cannot read {}: {error}", path.display())))?;
        if text.len() as u64 > BYTES_MAX {
            let most = BYTES_MAX >> 20;
            return Err(Fault::input(format!("{} is longer than {most} MB", path.display())));
        }
        let config = Config::read(&text).map_err(|fault| Fault {
            text: format!("{}: {}", path.display(), fault.text),
            ..fault
        })?;
        Ok(config)
    }

    /// Reads what a file says.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn read(text: &str) -> Result<Config, Fault> {
        let config: Config =
            toml::from_str(text).map_err(|error| Fault::input(error.to_string().trim_end()))?;
        config.check()?;
        Ok(config)
    }

    /// The file.
    pub fn text(&self) -> String {
        toml::to_string(self).unwrap_or_default()
    }

    fn check(&self) -> Result<(), Fault> {
        if self.regions.is_empty() || self.regions.len() > 64 {
            let text = format!("{} regions; there must be 1 to 64", self.regions.len());
            return Err(Fault::input(text));
        }
        for (place, name) in self.regions.iter().enumerate() {
            if name.is_empty() || name.contains(['{', '}', ' ']) {
                return Err(Fault::input(format!("{name:?} is no name of a region"))
                    .hint("keys say it in braces, so it has none, and no blanks"));
            }
            if self.regions[..place].contains(name) {
                return Err(Fault::input(format!("two regions have the name {name:?}")));
            }
        }
        if let Some(name) = &self.default_region
            && !self.regions.contains(name)
        {
            let text = format!("default_region is {name:?}, which is none of the regions");
            return Err(Fault::input(text).hint(format!("one of {}", self.regions.join(", "))));
        }
        if !(1..=64).contains(&self.shards_per_region) {
            let text = format!("shards_per_region is {}; 1 to 64", self.shards_per_region);
            return Err(Fault::input(text));
        }
        if !matches!(self.replicas, 3 | 5 | 7) {
            let text = format!("replicas is {}; it must be 3, 5 or 7", self.replicas);
            return Err(Fault::input(text).hint("of two replicas, no majority survives a failure"));
        }
        let (layout, nodes) = (self.layout(), self.node_count());
        for id in 0..nodes {
            let many = self.nodes.iter().filter(|node| node.id == id).count();
            if many != 1 {
                let what = if many == 0 { "no [[node]] has" } else { "several [[node]] have" };
                let last = nodes - 1;
                let hint = format!("there must be one for each id from 0 to {last}");
                return Err(Fault::input(format!("{what} the id {id}")).hint(hint));
            }
        }
        if let Some(node) = self.nodes.iter().find(|node| node.id >= nodes) {
            let text = format!("node {} is beyond the {nodes} of this cluster", node.id);
            return Err(Fault::input(text));
        }
        let mut addresses: Vec<SocketAddr> = Vec::new();
        for node in &self.nodes {
            for address in [Some(node.address), node.clients, node.status].into_iter().flatten() {
                if addresses.contains(&address) {
                    return Err(Fault::input(format!("two listeners have the address {address}")));
                }
                addresses.push(address);
            }
            if node.clients.is_some() && layout.shard_of(Node(node.id)).is_none() {
                return Err(Fault::input(format!(
                    "node {} is a steward and takes no clients",
                    node.id
                ))
                .hint(format!("replicas are the nodes 0 to {}", layout.replica_nodes() - 1)));
            }
            if let Some(clients) = node.clients
                && self.password.is_none()
                && !clients.ip().is_loopback()
            {
                let text =
                    format!("clients of node {} on {clients} would need no password", node.id);
                return Err(Fault::input(text).hint("set `password`, or listen on 127.0.0.1"));
            }
        }
        if self.protocol == Protocol::Slog && self.regions.len() < 3 {
            let text = format!("{} regions; slog needs three for its orderers", self.regions.len());
            return Err(Fault::input(text).hint("add regions, or choose another `protocol`"));
        }
        let controls = self.controls;
        for (part, there) in
            [("stretch", controls.stretch), ("commit_via_steward", controls.commit_via_steward)]
        {
            if !there && self.protocol != Protocol::Dast {
                let text =
                    format!("controls.{part} is false; {} has no such part", self.protocol.name());
                return Err(Fault::input(text).hint("leave it out; it is a part of DAST alone"));
            }
        }
        self.dast().map(|_| ())?;
        if let Some(delay) = self.delay {
            span("delay.within_ms", delay.within_ms)?;
            span("delay.across_ms", delay.across_ms)?;
            span("delay.jitter_ms", delay.jitter_ms)?;
        }
        Ok(())
    }

    /// Who is where.
    pub fn layout(&self) -> Layout {
        let (shards_per_region, replicas) = (self.shards_per_region, self.replicas);
        Layout { regions: self.regions.len() as u16, shards_per_region, replicas }
    }

    /// Where keys are.
    pub fn places(&self) -> Places {
        let named = self.default_region.as_ref();
        let default_region = named.and_then(|name| self.regions.iter().position(|r| r == name));
        let (layout, regions) = (self.layout(), self.regions.clone());
        Places { layout, regions, default_region: default_region.unwrap_or(0) }
    }

    /// Its nodes: replicas, and stewards where the protocol has some.
    pub fn node_count(&self) -> u32 {
        match self.protocol {
            Protocol::Dast | Protocol::Slog => self.layout().nodes(),
            Protocol::TwoPhase => self.layout().replica_nodes(),
        }
    }

    /// How late a leader's words may be, so that it is replaced after `timing.fail_after_ms`.
    fn leader_late(&self) -> Result<Span, Fault> {
        let fail_after = span("timing.fail_after_ms", self.timing.fail_after_ms)?;
        Ok(Span::from_ns(fail_after.as_ns().saturating_sub(100_000_000) / 4))
    }

    /// How machines of two-phase locks are set.
    ///
    /// # Errors
    /// A time that is none.
    pub fn two_phase(&self) -> Result<locking::Config, Fault> {
        let (leader_late, history) = (self.leader_late()?, self.controls.history);
        Ok(locking::Config { leader_late, history, ..locking::Config::new(self.layout()) })
    }

    /// How machines of SLOG are set.
    ///
    /// # Errors
    /// A time that is none.
    pub fn slog(&self) -> Result<slog::Config, Fault> {
        // Where the network itself makes the distances, the file does not know them: 50 ms each way
        // is what the regions of the specification have between them `[dast 4.4]`.
        let across_ms = self.delay.map_or(50.0, |delay| delay.across_ms + delay.jitter_ms);
        Ok(slog::Config {
            orderers_away: span("delay.across_ms", across_ms)?,
            batch: span("timing.sync_ms", self.timing.sync_ms)?,
            leader_late: self.leader_late()?,
            history: self.controls.history,
            ..slog::Config::new(self.layout())
        })
    }

    /// How DAST's machines are set.
    ///
    /// # Errors
    /// A time that is none.
    pub fn dast(&self) -> Result<dast::Config, Fault> {
        let timing = self.timing;
        let sync = span("timing.sync_ms", timing.sync_ms)?;
        if sync < Span::from_us(500) {
            let text = format!("timing.sync_ms is {}; it must be at least 0.5", timing.sync_ms);
            return Err(Fault::input(text));
        }
        let fail_after = span("timing.fail_after_ms", timing.fail_after_ms)?;
        if fail_after < sync * 3 {
            let text = format!("timing.fail_after_ms is {}", timing.fail_after_ms);
            return Err(Fault::input(text).hint("at least three reports must fit into it"));
        }
        let est = span("timing.est_ms", timing.est_ms)?;
        // Ten reports that a steward should hear must be missing before it suspects anybody, and
        // of four that it makes the last is in time.
        let stewards_every = (fail_after.as_ns() / 10).min(est.as_ns() / 4) / sync.as_ns();
        Ok(dast::Config {
            sync,
            stewards_every: stewards_every.max(1) as u32,
            fail_after,
            est,
            crt_after: span("timing.crt_after_ms", timing.crt_after_ms)?,
            retry_after: span("timing.retry_after_ms", timing.retry_after_ms)?,
            fenced_reads: true,
            durable: self.durable == Storage::On,
            stretch: self.controls.stretch,
            commit_via_steward: self.controls.commit_via_steward,
            history: self.controls.history,
            ..dast::Config::new(self.layout(), Mode::Precise)
        })
    }

    /// The way from `from` to `to`, if the carrier makes one.
    pub fn way(&self, from: Node, to: Node) -> Option<cavy_node::Way> {
        let delay = self.delay?;
        let layout = self.layout();
        let ms = |ms: f64| Span::try_from_us(ms * 1e3).unwrap_or(Span::ZERO);
        let here: Region = layout.region_of_node(to);
        if layout.region_of_node(from) == here {
            return Some(cavy_node::Way { one_way: ms(delay.within_ms), jitter: Span::ZERO });
        }
        let way = cavy_node::Way { one_way: ms(delay.across_ms), jitter: ms(delay.jitter_ms) };
        (delay.wan == Wan::Carrier).then_some(way)
    }

    /// The node with this number.
    pub fn node(&self, id: u32) -> Option<&NodeConfig> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// Its part: "replica 2 of shard 1, region eu".
    pub fn part(&self, id: u32) -> String {
        let layout = self.layout();
        let node = Node(id);
        let region = &self.regions[usize::from(layout.region_of_node(node).0)];
        match layout.shard_of(node) {
            Some(shard) => {
                let within = shard.0 % layout.shards_per_region;
                format!("{region} shard {within} replica {}", layout.index_of(node))
            }
            None => format!("{region} steward {}", (id - layout.replica_nodes()) % 3),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config::of("2x1x3".parse().unwrap(), &[], &["127.0.0.1".into()], 16_000).unwrap()
    }

    #[test]
    fn a_file_without_end_describes_no_cluster() {
        let fault = Config::load(Path::new("/dev/zero")).map(drop).expect_err("no end");
        assert_eq!(fault.text, "/dev/zero is longer than 16 MB");
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let mut config = config();
        let wan = Wan::Carrier;
        config.delay = Some(Delay { within_ms: 2.5, across_ms: 50.0, jitter_ms: 20.0, wan });
        assert!(!config.text().contains("controls"));
        config.controls.stretch = false;
        assert!(!Config::read(&config.text()).unwrap().dast().unwrap().stretch);
        assert_eq!(Config::read(&config.text()).unwrap(), config);
        assert_eq!(config.nodes.len(), 12);
        assert_eq!(config.part(4), "r1 shard 0 replica 1");
        assert_eq!(config.part(9), "r1 steward 0");
        let (across, within) = (config.way(Node(0), Node(3)), config.way(Node(9), Node(3)));
        assert_eq!(across.map(|way| way.one_way), Some(Span::from_ms(50)));
        assert_eq!(across.map(|way| way.jitter), Some(Span::from_ms(20)));
        assert_eq!(within.unwrap().one_way, Span::from_us(2_500));
        // A line makes the way between regions, and the carrier that within one.
        config.delay =
            Some(Delay { within_ms: 2.5, across_ms: 50.0, jitter_ms: 20.0, wan: Wan::Line });
        config.nodes[3].space = Some("a".into());
        assert_eq!(Config::read(&config.text()).unwrap(), config);
        assert_eq!(config.way(Node(0), Node(3)), None);
        assert_eq!(config.way(Node(9), Node(3)), within);
    }

    #[test]
    fn what_is_wrong_is_said_in_a_sentence_with_a_hint() {
        let wrong = |change: &dyn Fn(&mut Config)| {
            let mut config = config();
            change(&mut config);
            Config::read(&config.text()).expect_err("it is wrong").to_string()
        };
        for (found, expected) in [
            (wrong(&|c| c.nodes[3].id = 2), "several [[node]] have the id 2"),
            (wrong(&|c| c.nodes.truncate(11)), "no [[node]] has the id 11"),
            (wrong(&|c| c.shards_per_region = 0), "shards_per_region is 0; 1 to 64"),
            (wrong(&|c| c.replicas = 2), "replicas is 2; it must be 3, 5 or 7"),
            (wrong(&|c| c.regions.clear()), "0 regions; there must be 1 to 64"),
            (wrong(&|c| c.protocol = Protocol::Slog), "2 regions; slog needs three"),
            (wrong(&|c| c.protocol = Protocol::TwoPhase), "node 6 is beyond the 6"),
            (
                wrong(&|c| {
                    c.protocol = Protocol::TwoPhase;
                    c.nodes.truncate(6);
                    c.controls.stretch = false;
                }),
                "controls.stretch is false; 2PL/2PC has no such part",
            ),
            (wrong(&|c| c.regions[1] = "r0".into()), "two regions have the name \"r0\""),
            (wrong(&|c| c.default_region = Some("x".into())), "default_region is \"x\""),
            (wrong(&|c| c.nodes[1].address = c.nodes[0].address), "two listeners have the address"),
            (wrong(&|c| c.nodes[11].clients = "127.0.0.1:9".parse().ok()), "takes no clients"),
            (wrong(&|c| c.nodes[0].clients = "10.0.0.1:9".parse().ok()), "would need no password"),
            (wrong(&|c| c.timing.sync_ms = f64::NAN), "timing.sync_ms is NaN"),
            (wrong(&|c| c.timing.fail_after_ms = 5.0), "timing.fail_after_ms is 5"),
        ] {
            assert!(found.starts_with("error: ") && found.contains(expected), "{found}");
        }
        let unknown = Config::read("cluster = \"x\"\nsurprise = 1\n").unwrap_err().to_string();
        assert!(unknown.contains("surprise"), "{unknown}");
        for shape in ["3x2", "3x2x2", "0x1x3", "x", "3x2x3x1"] {
            assert!(shape.parse::<Shape>().is_err(), "{shape}");
        }
    }
}
