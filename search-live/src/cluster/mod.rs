//! A cluster of processes: what each is given, and how each is started.

pub mod codec;
pub mod content;
pub mod keeper;
pub mod local;

use crate::engine::Engine;
use cavy_core::Span;
use cavy_core::family::Node;
use cavy_node::{Durable, LogOptions, Options};
use cavy_search::Cost;
use cavy_search::cluster::{Balance, Config, Hedge, Layout};
use cavy_search::ring::Ring;
use codec::Binary;
use content::Made;
use keeper::{Hands, Keeper};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A server takes what comes in a window at one go, while queries wait: two milliseconds.
const WINDOW_DOCUMENTS: u32 = 128;

/// A front end.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrontEnd {
    /// Where it hears other nodes.
    pub address: SocketAddr,
    /// Where it hears clients.
    pub http: SocketAddr,
}

/// A server.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Where it hears other nodes.
    pub address: SocketAddr,
    /// Its share of the ring, beside others'.
    #[serde(default = "one")]
    pub speed: f64,
}

fn one() -> f64 {
    1.0
}

/// A cluster, as all its nodes are given it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cluster {
    /// Nodes of a cluster of another name are refused.
    pub name: String,
    /// The secret of the cluster's nodes.
    pub key: String,
    /// Clients show one of these, each `name:secret`, as API key or as name and password. None:
    /// nobody is asked, and clients are heard on loopback addresses alone.
    pub api_keys: Vec<String>,
    /// p of an index that does not say.
    pub p: u32,
    /// Rings, to which servers are dealt out in turn. Each has all documents, so that all servers
    /// of a ring may be away.
    pub rings: u32,
    /// `true`: a write is acknowledged after it is synced; `false`: after the system has it.
    pub synced: bool,
    /// Between two beats of a node, in milliseconds.
    pub beat_ms: u64,
    /// A server answers for so long after the directory heard it, in milliseconds.
    pub server_lease_ms: u64,
    /// A front end goes by a map for so long, in milliseconds.
    pub front_end_lease_ms: u64,
    /// A part of a query that is so much later than predicted goes to others, in milliseconds.
    pub margin_ms: u64,
    /// Share of a processor and of a card that copies may have, in percent.
    pub copy_percent: u32,
    /// What a server's card sends, in Mb/s.
    pub card_mbit_per_s: u64,
    /// A server that is told to end (SIGTERM) hands over what it holds, for so long at most, in
    /// milliseconds; 0: it ends at once.
    pub leave_ms: u64,
    /// A part of a query that is so much later than predicted is sent to others as well, in
    /// milliseconds; 0: none is before `margin_ms`.
    pub hedge_ms: u64,
    /// Of all parts so many at most are sent again so, in percent.
    pub hedge_percent: u32,
    /// A server that has more than that before it refuses a part that was sent nowhere before, and
    /// says what it has, in milliseconds; 0: none does.
    pub bounce_ms: u64,
    /// Borders between servers move to where load is less, by what servers are seen to take; it is
    /// looked at so often, in milliseconds. 0: ranges stay as `speed` says.
    pub balance_ms: u64,
    /// Nothing moves unless a server has so much more than a fair load, or others than it, in
    /// percent.
    pub balance_percent: u32,
    /// Where the directory hears other nodes.
    pub directory: SocketAddr,
    /// Front ends.
    pub front_ends: Vec<FrontEnd>,
    /// Servers, in the order of the ring.
    pub servers: Vec<Server>,
}

impl Default for Cluster {
    fn default() -> Self {
        Cluster {
            name: "cavy".into(),
            key: String::new(),
            api_keys: Vec::new(),
            p: 1,
            rings: 1,
            synced: true,
            beat_ms: 200,
            server_lease_ms: 3_000,
            front_end_lease_ms: 6_000,
            margin_ms: 300,
            copy_percent: 20,
            card_mbit_per_s: 1_000,
            leave_ms: 30_000,
            hedge_ms: 0,
            hedge_percent: 5,
            bounce_ms: 0,
            balance_ms: 0,
            balance_percent: 10,
            directory: SocketAddr::from(([127, 0, 0, 1], 9_400)),
            front_ends: Vec::new(),
            servers: Vec::new(),
        }
    }
}

impl Cluster {
    /// Reads a description.
    ///
    /// # Errors
    /// A sentence that names what is wrong.
    pub fn read(text: &str) -> Result<Cluster, String> {
        let cluster: Cluster = toml::from_str(text).map_err(|error| error.to_string())?;
        cluster.check()?;
        Ok(cluster)
    }

    fn check(&self) -> Result<(), String> {
        let wrong = |what: String| Err(what);
        if self.servers.is_empty() {
            return wrong("a cluster needs a [[servers]] at least".into());
        }
        if self.front_ends.is_empty() {
            return wrong("a cluster needs a [[front_ends]] at least".into());
        }
        if self.servers.len() > 1_000 || self.front_ends.len() > 64 {
            return wrong("a cluster has at most 1000 servers and 64 front ends".into());
        }
        if self.rings == 0 || self.rings as usize > self.servers.len() {
            let (rings, most) = (self.rings, self.servers.len());
            return wrong(format!("rings is {rings}, and must be 1 to {most}"));
        }
        if self.p == 0 || self.p > self.p_most() {
            return wrong(format!("p is {}, and must be 1 to {}", self.p, self.p_most()));
        }
        if let Some(server) = self.servers.iter().find(|s| !(s.speed > 0.0 && s.speed < 1e6)) {
            let (address, speed) = (server.address, server.speed);
            return wrong(format!("the speed of {address} is {speed}, and must be above 0"));
        }
        if !(1..=100).contains(&self.copy_percent) {
            return wrong(format!("copy_percent is {}, and must be 1 to 100", self.copy_percent));
        }
        if !(1..=10_000_000).contains(&self.card_mbit_per_s) {
            let rate = self.card_mbit_per_s;
            return wrong(format!("card_mbit_per_s is {rate}, and must be 1 to 10000000"));
        }
        if !(1..=100).contains(&self.hedge_percent) {
            return wrong(format!("hedge_percent is {}, and must be 1 to 100", self.hedge_percent));
        }
        if !(1..=1_000).contains(&self.balance_percent) {
            let percent = self.balance_percent;
            return wrong(format!("balance_percent is {percent}, and must be 1 to 1000"));
        }
        if self.beat_ms == 0
            || self.server_lease_ms < 3 * self.beat_ms
            || self.front_end_lease_ms < self.server_lease_ms
        {
            return wrong(
                "server_lease_ms must be at least three times beat_ms, and front_end_lease_ms no \
                 less than server_lease_ms"
                    .into(),
            );
        }
        let mut all: Vec<SocketAddr> = self.addresses().map(|(_, address)| address).collect();
        all.extend(self.front_ends.iter().map(|front_end| front_end.http));
        all.sort_unstable();
        if let Some(two) = all.windows(2).find(|two| two[0] == two[1]) {
            return wrong(format!("two nodes listen on {}", two[0]));
        }
        self.api_keys.iter().try_for_each(|key| crate::api::keys::check(key))?;
        // Whoever reaches a port without a key may do anything.
        let open = all.iter().find(|address| !address.ip().is_loopback());
        if let Some(address) = open.filter(|_| self.key.is_empty()) {
            return wrong(format!(
                "{address} can be reached by others, and the cluster has no key: set `key`, or \
                 listen on a loopback address"
            ));
        }
        if let Some(http) =
            self.front_ends.iter().map(|f| f.http).find(|http| !http.ip().is_loopback())
            && self.api_keys.is_empty()
        {
            return wrong(format!(
                "clients are heard on {http}, and are not asked who they are: set `api_keys`, or \
                 listen on a loopback address"
            ));
        }
        Ok(())
    }

    /// The greatest p that an index can have: servers of the smallest ring.
    pub fn p_most(&self) -> u32 {
        self.servers.len() as u32 / self.rings.max(1)
    }

    /// Who is who.
    pub fn layout(&self) -> Layout {
        Layout { front_ends: self.front_ends.len() as u32, servers: self.servers.len() as u32 }
    }

    /// All nodes and where they hear each other.
    pub fn addresses(&self) -> impl Iterator<Item = (Node, SocketAddr)> + '_ {
        let front_ends = self.front_ends.iter().map(|front_end| front_end.address);
        let servers = self.servers.iter().map(|server| server.address);
        let all = std::iter::once(self.directory).chain(front_ends).chain(servers);
        all.enumerate().map(|(number, address)| (Node(number as u32), address))
    }

    /// What the machines are given.
    pub fn config(&self) -> Config {
        let layout = self.layout();
        let ring = |ring: u32| {
            let own: Vec<u32> = (ring..layout.servers).step_by(self.rings as usize).collect();
            Ring::proportional(&own, |server| self.servers[server as usize].speed)
        };
        let ranges: Vec<Ring> = (0..self.rings).map(ring).collect();
        // A first guess; front ends learn from what sub-queries take.
        let cost = Cost { fixed_ns: 300_000, scan_ns: 20_000_000 };
        let costs = vec![cost; self.servers.len()];
        let mut config = Config::new(layout, ranges, self.p, costs);
        config.backlog_is_learned = true;
        // All documents are written ones: there is no bulk beside them.
        config.documents = 0;
        config.document_bytes = 0;
        config.beat = Span::from_ms(self.beat_ms);
        config.server_lease = Span::from_ms(self.server_lease_ms);
        config.front_end_lease = Span::from_ms(self.front_end_lease_ms);
        config.margin = Span::from_ms(self.margin_ms);
        config.copy_percent = self.copy_percent;
        let (after, percent) = (Span::from_ms(self.hedge_ms), self.hedge_percent);
        config.hedge = (self.hedge_ms > 0).then_some(Hedge { after, percent });
        let (every, percent) = (Span::from_ms(self.balance_ms), self.balance_percent);
        config.balance = (self.balance_ms > 0).then_some(Balance { every, percent });
        config.bounce = (self.bounce_ms > 0).then_some(Span::from_ms(self.bounce_ms));
        // A window is asked for at once: a segment of what came takes milliseconds, however small.
        (config.chunk, config.piece, config.window) = (1 << 59, 1 << 58, 1 << 59);
        config.window_documents = Some(WINDOW_DOCUMENTS);
        config.card_bytes_per_s = Some(self.card_mbit_per_s * 1_000_000 / 8);
        config
    }

    /// Starts a node in this process, with its log in `folder`.
    ///
    /// # Errors
    /// A sentence: its address or its log cannot be had.
    pub fn start(&self, node: Node, folder: &Path) -> Result<Running, String> {
        self.check()?;
        let layout = self.layout();
        let address = self.addresses().find(|(other, _)| *other == node);
        let Some((_, listen)) = address else {
            return Err(format!("the cluster has no node {}: it has {}", node.0, layout.nodes()));
        };
        let mut options = Options::new(self.name.clone(), node, listen);
        options.key = self.key.clone().into_bytes();
        options.peers = self.addresses().collect();
        options.message_bytes_max = 256 << 20;
        let server = layout.number(node);
        if server.is_some() || node == Layout::DIRECTORY {
            let mut log = LogOptions::at(folder);
            log.durable = if self.synced { Durable::On } else { Durable::Replicated };
            options.log = Some(log);
        }
        options.workers = usize::from(server.is_some());
        let mut seed = [0; 8];
        rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| error.to_string())?;
        options.seed = u64::from_le_bytes(seed);
        let config = self.config();
        let made = Arc::new(Made::default());
        let engine = Arc::new(Engine::new(server.unwrap_or(u32::MAX)));
        let own = server.map(|_| (engine.clone(), made.clone()));
        let make = move || Keeper::new(config, node, own);
        let hands = Hands::new(engine.clone(), made.clone());
        let live = cavy_node::start(options, make, Binary::new(made), hands, |_, _| {})
            .map_err(|error| error.to_string())?;
        if let Some(server) = server {
            tend(&engine, server);
        }
        Ok(Running { live, engine })
    }
}

/// A node that runs in this process.
pub struct Running {
    /// The node.
    pub live: cavy_node::Live<Keeper>,
    /// Its index; empty unless it is a server.
    pub engine: Arc<Engine>,
}

/// How often what was written is indexed.
const REFRESH: Duration = Duration::from_secs(1);

/// Indexes what is pending now and then, and merges segments, as long as somebody has the index.
/// Servers of one machine that were started together do not all do so at one moment.
fn tend(engine: &Arc<Engine>, server: u32) {
    let engine = Arc::downgrade(engine);
    std::thread::spawn(move || {
        // Fractions of the golden ratio lie far apart, whatever their number.
        std::thread::sleep(REFRESH.mul_f64((f64::from(server) * 0.618_034).fract()));
        loop {
            std::thread::sleep(REFRESH);
            let Some(engine) = engine.upgrade() else { return };
            for index in engine.all() {
                // A segment that cannot be built is tried again; searches say why it fails.
                let _ = index.refresh_held();
                let _ = index.merge();
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_description_is_a_sentence() {
        let text = |p: u32, more: &str, server: &str| {
            format!(
                "p = {p}\n{more}\n[[front_ends]]\naddress = \"127.0.0.1:1\"\nhttp = \
                 \"127.0.0.1:2\"\n[[servers]]\naddress = \"127.0.0.1:3\"\n[[servers]]\naddress = \
                 \"{server}\"\n"
            )
        };
        let right = "127.0.0.1:4";
        assert!(Cluster::read(&text(2, "", right)).is_ok());
        let wrong = |text: String| Cluster::read(&text).expect_err("wrong");
        assert_eq!(wrong(text(3, "", right)), "p is 3, and must be 1 to 2");
        assert_eq!(wrong(text(1, "rings = 3", right)), "rings is 3, and must be 1 to 2");
        assert_eq!(wrong(text(2, "rings = 2", right)), "p is 2, and must be 1 to 1");
        assert_eq!(wrong(text(1, "", "127.0.0.1:3")), "two nodes listen on 127.0.0.1:3");
        assert!(wrong(text(1, "", "10.0.0.1:4")).contains("has no key"));
        assert!(wrong(text(1, "copy_percent = 0", right)).contains("copy_percent is 0"));
        assert!(wrong(text(1, "api_keys = [\"a:b\"]", right)).contains("16 characters"));
        assert!(wrong(text(1, "hedge_percent = 0", right)).contains("hedge_percent is 0"));
        let percent = wrong(text(1, "balance_percent = 0", right));
        assert!(percent.contains("balance_percent is 0"), "{percent}");
        assert!(wrong(text(1, "colour = 3", right)).contains("colour"));
        assert!(wrong(text(1, "beat_ms = 5000", right)).contains("server_lease_ms"));
    }
}
