//! What can be typed.

use crate::quantity;
use cavy_core::Span;
use clap::{Args as Arguments, Subcommand};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// `cavy-live coords`.
#[derive(Arguments, Debug)]
pub struct Coords {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What to do with coordinates.
#[derive(Subcommand, Debug)]
pub enum Verb {
    /// Keep this machine's coordinate over one UDP port, until Ctrl-C.
    Agent(Box<AgentArgs>),
    /// Answer who is near whom over HTTP, until Ctrl-C.
    Serve(Box<ServeArgs>),
    /// Agents of ours and of serf on measured distances; claims live.coords.*.
    Study(Box<StudyArgs>),
}

/// `cavy-live coords agent`.
#[derive(Arguments, Debug)]
#[command(after_help = "Examples:
  cavy-live coords agent --at 51.5,-0.1 --peer 192.0.2.7:7946 --state coordinate
  cavy-live coords agent --bind 192.0.2.1:7946 --mmdb city.mmdb --address 192.0.2.1 \\
      --peer 192.0.2.7:7946 --key-file key --service 192.0.2.9:8500 --token-file token

It begins where --at or the database says, and every round trip moves it. Without a place it takes
that of its nearest peer after three probes. The coordinate in --state survives kill -9; a start
more than 500 km from the place it was stored at begins anew. Wire format: docs/reference/
coords-wire.md. With --service it reports its coordinate and what it measures; its node's id is
--id, where its peers reach it.")]
pub struct AgentArgs {
    /// Where to listen, UDP.
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:7946")]
    pub bind: SocketAddr,
    /// A peer to begin with; may be given often.
    #[arg(long, value_name = "ADDRESS")]
    pub peer: Vec<SocketAddr>,
    /// Where this machine is, degrees.
    #[arg(long, value_name = "LAT,LON", value_parser = place, allow_hyphen_values = true,
        conflicts_with = "mmdb")]
    pub at: Option<(f64, f64)>,
    /// Where addresses are, in MaxMind's format; looked up for --address.
    #[arg(long, value_name = "FILE", requires = "address")]
    pub mmdb: Option<PathBuf>,
    /// Autonomous systems: MaxMind's format, or lines PREFIX NUMBER; looked up for --address.
    #[arg(long, value_name = "FILE", requires = "address")]
    pub systems: Option<PathBuf>,
    /// The address by which others know this machine.
    #[arg(long, value_name = "IP")]
    pub address: Option<IpAddr>,
    /// Coordinates of another space do not compare.
    #[arg(long, value_name = "N", default_value = "0")]
    pub space: u16,
    /// Time between two probes.
    #[arg(long, value_name = "SPAN", default_value = "15s", value_parser = quantity::positive_span)]
    pub every: Span,
    /// Learn from own probes only, and give no feedback.
    #[arg(long)]
    pub one_sided: bool,
    /// File in which the coordinate survives.
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Seal datagrams with this key, 64 hexadecimal digits; drop others.
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Report to this service.
    #[arg(long, value_name = "ADDRESS")]
    pub service: Option<SocketAddr>,
    /// The service's token.
    #[arg(long, value_name = "FILE", requires = "service")]
    pub token_file: Option<PathBuf>,
    /// This node's id at the service; --bind when absent.
    #[arg(long, value_name = "ID", requires = "service")]
    pub id: Option<String>,
    /// What this node is, such as server.
    #[arg(long, value_name = "CLASS", default_value = "server")]
    pub class: String,
    /// Echo UDP datagrams here, for clients that measure themselves.
    #[arg(long, value_name = "ADDRESS")]
    pub echo: Option<SocketAddr>,
    /// Print each measurement as one line of JSON, with the coordinate after it.
    #[arg(long)]
    pub json: bool,
}

/// `cavy-live coords serve`.
#[derive(Arguments, Debug)]
#[command(after_help = "Examples:
  cavy-live coords serve --data /var/lib/cavy
  curl -X POST 127.0.0.1:8500/v1/nodes -d '{\"id\":\"alice\",\"ip\":\"192.0.2.7\"}'
  curl '127.0.0.1:8500/v1/nearest?from=alice&k=3&class=server'

Calls: POST /v1/nodes {id, ip?, lat?, lon?, class?, props?, reach?}, GET and DELETE /v1/nodes/ID,
PUT /v1/nodes/ID/coord {lat, lon, height_ms, error}, POST /v1/probes [{from, to, rtt_ms}] or
{source, first, probes}, GET /v1/rtt?from=A&to=B,C, GET /v1/nearest?from=A&k=10&class=server,
GET /metrics, /live, /ready. With --consul also Consul's coordinate and catalogue calls, which show
exact positions. What was answered is on the disk, with --data.")]
pub struct ServeArgs {
    /// Where to listen. Addresses that others can reach need --token-file.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8500")]
    pub bind: SocketAddr,
    /// What clients must bring, as `Authorization: Bearer TOKEN`.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Folder in which nodes and measurements survive; in memory alone when absent.
    #[arg(long, value_name = "FOLDER")]
    pub data: Option<PathBuf>,
    /// Where addresses are, in MaxMind's format; taken up anew when it changes.
    #[arg(long, value_name = "FILE")]
    pub mmdb: Option<PathBuf>,
    /// Autonomous systems: MaxMind's format, or lines PREFIX NUMBER.
    #[arg(long, value_name = "FILE")]
    pub systems: Option<PathBuf>,
    /// Answer Consul's coordinate and catalogue calls too.
    #[arg(long)]
    pub consul: bool,
    /// Most nodes.
    #[arg(long, value_name = "N", default_value = "2000000",
        value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub nodes: u32,
    /// Connections at once; more are closed at once.
    #[arg(long, value_name = "N", default_value = "1024",
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub connections: u32,
    /// How long a client may take over a request or its answer, or say nothing.
    #[arg(long, value_name = "SPAN", default_value = "30s", value_parser = quantity::positive_span)]
    pub patience: Span,
    /// Say where it listens as one line of JSON.
    #[arg(long)]
    pub json: bool,
}

/// `cavy-live coords study`.
#[derive(Arguments, Debug)]
#[command(after_help = "Examples:
  cavy-live coords study --quick                  a minute: 20 anchors, 13 probes a node
  cavy-live coords study --serf /tmp/serf         beside real serf agents, eight minutes
  cavy-live coords study --anchors 40 --seed 7    other anchors

Needs root: each anchor is a network namespace, and a tunnel holds its packets for half of a
measured round trip. Agents learn one-sided, at both ends, and with a wrong row in the database of
places; serf's own agents run where --serf names a folder with its programs
(crates/live-cli/tests/serf/README.md), and are SKIPPED elsewhere. Beside each run stands the
machine's jitter; a claim that the machine was too busy for is called too noisy. Writes report.html,
with maps, and the other files of a report into the folder given by --out. Exit code 1 when a claim
is not reproduced.")]
pub struct StudyArgs {
    /// One repetition, and 13 probes a node.
    #[arg(long)]
    pub quick: bool,
    /// Anchors, each of another country.
    #[arg(long, value_name = "N", default_value = "20",
        value_parser = clap::value_parser!(u16).range(8..=60))]
    pub anchors: u16,
    /// Which anchors.
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// Time between two probes of an agent.
    #[arg(long, value_name = "SPAN", default_value = "300ms",
        value_parser = quantity::positive_span)]
    pub every: Span,
    /// Runs of each; 3, or 1 with --quick.
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    pub repetitions: Option<u16>,
    /// Folder with the programs `serf` and `coordinates`.
    #[arg(long, value_name = "FOLDER")]
    pub serf: Option<PathBuf>,
    /// Length of the jitter probes before and after each run; 0s leaves them out, and then nothing
    /// can be published.
    #[arg(long, value_name = "SPAN", default_value = "100ms", value_parser = quantity::span)]
    pub probe: Span,
    /// Folder for the report.
    #[arg(long, short, value_name = "DIR", default_value = "cavy-out/live-coords")]
    pub out: PathBuf,
    /// Take what an earlier study left in that folder, and measure the rest.
    #[arg(long)]
    pub resume: bool,
    /// Print the report as one JSON object instead of tables.
    #[arg(long)]
    pub json: bool,
}

fn place(text: &str) -> Result<(f64, f64), String> {
    let wrong = || "write degrees as LAT,LON, such as 51.5,-0.1".to_string();
    let (latitude, longitude) = text.split_once(',').ok_or_else(wrong)?;
    let number = |text: &str| text.trim().parse::<f64>().map_err(|_| wrong());
    let (latitude, longitude) = (number(latitude)?, number(longitude)?);
    if latitude.abs() <= 90.0 && longitude.abs() <= 180.0 {
        Ok((latitude, longitude))
    } else {
        Err("latitude is -90 to 90, longitude -180 to 180".to_string())
    }
}
