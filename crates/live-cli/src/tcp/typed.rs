//! What can be typed after `cavy-live tcp`.

use super::study::way::WAYS;
use crate::quantity;
use cavy_core::Span;
use cavy_stack::Ipv4Net;
use clap::{Args as Arguments, Subcommand, ValueEnum};
use std::net::{SocketAddrV4, ToSocketAddrs as _};
use std::path::PathBuf;

/// `cavy-live tcp`.
#[derive(Arguments, Debug)]
#[command(after_help = "Examples:
  cavy-live tcp serve echo --prefix 10.77.2.0/24     every address of the prefix answers
  cavy-live tcp serve files --prefix 10.77.2.0/24 --root ./public --port 80
  cavy-live tcp fetch --prefix 10.77.3.0/24 --port-bytes 32000 \\
      http://10.0.0.1/big http://10.0.0.2/big        one file from two servers, which send in turn
  cavy-live tcp gate --before clients --prefix 10.77.3.0/24 --port-bytes 32000 \\
      --map 127.0.0.1:8081=10.0.0.1:80               curl http://127.0.0.1:8081/ meets it in turn

The prefix must be free, and routed to this machine by whoever is to reach it. A TUN device takes
the right CAP_NET_ADMIN, or one that root made once for you: `ip tuntap add dev cavy0 mode tun user
NAME; ip addr add 10.77.2.254/24 dev cavy0; ip link set cavy0 up`, and then `--device cavy0`.
`cavy live tcp` is the same command.")]
pub struct Tcp {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs.
#[derive(Subcommand, Debug)]
pub enum Verb {
    /// Answer on every address of a prefix, until Ctrl-C.
    Serve(Serve),
    /// Fetch one file from many HTTP servers at once, which send in turn.
    Fetch(Fetch),
    /// Stand before servers or clients that cannot be changed, until Ctrl-C.
    Gate(Gate),
    /// Measure how answers collide: the kernel's senders, ours, and our receiver.
    Study(Study),
}

/// How the window grows.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// As Linux does by default.
    Cubic,
    /// A segment a round trip.
    Newreno,
}

/// The stack.
#[derive(Arguments, Debug)]
pub struct Way {
    /// The addresses of this process, such as 10.77.2.0/24. The last one is the kernel's.
    #[arg(long, value_name = "PREFIX", value_parser = prefix)]
    pub prefix: Ipv4Net,
    /// The TUN device: one that root made for you is taken, otherwise it is made.
    #[arg(long, value_name = "NAME", value_parser = device)]
    pub device: Option<String>,
    /// MTU of the device in octets.
    #[arg(long, value_name = "OCTETS", default_value = "1500",
        value_parser = clap::value_parser!(u16).range(88..=9000))]
    pub mtu: u16,
    /// The least retransmission timeout; when absent 500us, or more where timers are later. With
    /// --port-bytes it is 5ms at least.
    #[arg(long, value_name = "SPAN", value_parser = quantity::positive_span)]
    pub floor: Option<Span>,
    /// How the window grows.
    #[arg(long, value_enum, value_name = "HOW", default_value = "cubic")]
    pub control: Control,
    /// What the narrowest port before this machine keeps, in octets: servers that it asks send in
    /// turn, so that the port holds what they send. `learned` where nobody knows.
    #[arg(long, value_name = "OCTETS", value_parser = port)]
    pub port_bytes: Option<Port>,
    /// Do not run the thread with the timers before others, even where the system lets it.
    #[arg(long)]
    pub ordinary: bool,
    /// Say where it stands, and at the end what it did, as one JSON object each on a line.
    #[arg(long)]
    pub json: bool,
}

/// What the narrowest port keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// So many octets.
    Octets(u32),
    /// It is learned from what comes.
    Learned,
}

fn port(text: &str) -> Result<Port, String> {
    let octets = || text.parse().ok().filter(|octets| (3_100..=16_000_000).contains(octets));
    match text {
        "learned" => Ok(Port::Learned),
        _ => octets().map(Port::Octets).ok_or_else(|| {
            "it is from 3100 to 16000000 octets, or `learned` where nobody knows".to_string()
        }),
    }
}

/// What is served.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// What comes goes back.
    Echo,
    /// What comes is dropped.
    Sink,
    /// Octets, as fast as the client takes them.
    Source,
    /// A question of four octets, big-endian, is answered with so many octets.
    Blocks,
    /// Files below --root, over HTTP/1.1 with ranges.
    Files,
}

/// `cavy-live tcp serve`.
#[derive(Arguments, Debug)]
#[command(after_help = "Examples:
  cavy-live tcp serve echo --prefix 10.77.2.0/24
  cavy-live tcp serve blocks --prefix 10.77.2.0/24 --port 7000 --floor 1ms
  cavy-live tcp serve files --prefix 10.77.2.0/24 --root ./public --port 80
                                                     curl http://10.77.2.1/file

Says where it stands on stdout, and at its end what it did.")]
pub struct Serve {
    /// What is served.
    #[arg(value_enum, value_name = "SERVICE")]
    pub service: Service,
    #[command(flatten)]
    pub way: Way,
    /// The port, of every address.
    #[arg(long, value_name = "PORT", default_value = "7000",
        value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// The folder of files.
    #[arg(long, value_name = "FOLDER", required_if_eq("service", "files"))]
    pub root: Option<PathBuf>,
    /// Connections at a time; more are reset.
    #[arg(long, value_name = "N", default_value = "16384",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub connections_max: u32,
    /// Connections of an address that wait to be accepted, and as many half open; further SYNs are
    /// answered by cookies, and are not heard while nothing more may wait.
    #[arg(long, value_name = "N", default_value = "4096",
        value_parser = clap::value_parser!(u16).range(1..))]
    pub backlog: u16,
}

/// `cavy-live tcp fetch`.
#[derive(Arguments, Debug)]
#[command(after_help = "Examples:
  cavy-live tcp fetch --prefix 10.77.3.0/24 --port-bytes 32000 --out big \\
      http://10.0.0.1/big http://10.0.0.2/big
  cavy-live tcp fetch --prefix 10.77.3.0/24 --repeat 20 http://10.0.0.1/big http://10.0.0.2/big
                                                     the same without turns, to compare
  cavy-live tcp fetch --kernel --prefix 10.77.3.0/24 http://10.0.0.1/big
                                                     by the kernel's TCP, to compare

All servers must have the same file and understand ranges. Exit code 1 when one does not answer.")]
pub struct Fetch {
    /// Where the file is; each server once.
    #[arg(value_name = "URL", required = true)]
    pub urls: Vec<String>,
    #[command(flatten)]
    pub way: Way,
    /// Octets that a server is asked for at a time.
    #[arg(long, value_name = "OCTETS", default_value = "65536",
        value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub part_bytes: u64,
    /// Keep the file here; without, it is only measured.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Fetch it so often.
    #[arg(long, value_name = "N", default_value = "1",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub repeat: u32,
    /// By the kernel's TCP, to compare.
    #[arg(long)]
    pub kernel: bool,
    /// How long a server may take for a part.
    #[arg(long, value_name = "SPAN", default_value = "30s", value_parser = quantity::positive_span)]
    pub timeout: Span,
}

/// Who cannot be changed.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// The servers: their clients meet our senders.
    Servers,
    /// The clients: servers meet our receiver, and send in turn with --port-bytes.
    Clients,
}

/// `cavy-live tcp gate`.
#[derive(Arguments, Debug)]
#[command(after_help = "Examples:
  cavy-live tcp gate --before clients --prefix 10.77.3.0/24 --port-bytes 32000 \\
      --map 127.0.0.1:8081=10.0.0.1:80 --map 127.0.0.1:8082=10.0.0.2:80
                                                     programs here connect to 127.0.0.1:8081
  cavy-live tcp gate --before servers --prefix 10.77.2.0/24 --map 10.77.2.1:80=127.0.0.1:8080
                                                     others connect to 10.77.2.1:80

Whoever is behind the gate sees its address, and not that of who speaks through it.")]
pub struct Gate {
    /// Who cannot be changed.
    #[arg(long, value_enum, value_name = "WHO")]
    pub before: Before,
    #[command(flatten)]
    pub way: Way,
    /// LISTEN=TARGET, both HOST:PORT; may be given often. Before clients, the kernel listens;
    /// before servers, an address of the prefix does.
    #[arg(long, value_name = "MAP", required = true, value_parser = map)]
    pub map: Vec<Map>,
    /// Connections at a time; more are closed at once.
    #[arg(long, value_name = "N", default_value = "4096",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub connections_max: u32,
    /// Connections that wait to be accepted, at each place where the gate listens, and before
    /// servers as many half open; the kernel lets no more wait than `net.core.somaxconn`.
    #[arg(long, value_name = "N", default_value = "4096",
        value_parser = clap::value_parser!(u16).range(1..))]
    pub backlog: u16,
}

/// `cavy-live tcp study`.
#[derive(Arguments, Debug)]
#[command(after_help = "Examples:
  cavy-live tcp study --quick                        4 minutes: what the claims ask for
  cavy-live tcp study --mbit 200 --ways turns,no-turns --servers 1,8,16
  cavy-live tcp study --print-plan > blocks.toml     what is fetched: a plan with world = \"live\"
  cavy-live tcp study --plan mine.toml --ways reno   the same with blocks of your own
  cavy run blocks.toml --set world=lab               the same in the lab
  cavy-live tcp study --resume                       goes on where an earlier one was stopped

Builds a network of 16 servers and a client on this machine, which takes root, and removes it at the
end. On it 1 MiB in equal parts is asked of 1 to 64 servers at once, through a port that keeps few
packets. Every run records drops, timers that ran out, the shares of the processors and a jitter
probe; a claim that the machine was too busy for is called too noisy. Writes report.html, report.json,
claims.json, series.csv and tables.csv into the folder given by --out. Exit code 1 when a claim is not
reproduced.")]
pub struct Study {
    /// The plan's short form: the 38 cells that claims ask for, two repetitions of 1.2 s each; 2.4
    /// s where timers of 200 ms are waited for.
    #[arg(long)]
    pub quick: bool,
    /// A plan of kind network with `world = "live"` and blocks, to run instead of the study's own.
    /// `cavy run FILE --set world=lab` runs the same in the lab, and what it says stands in the
    /// report. No claim is about it.
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Print the study's plan and do nothing else.
    #[arg(long)]
    pub print_plan: bool,
    /// Rates of the links in Mb/s; 200 and 1000 when absent.
    #[arg(long, value_name = "MBIT", value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(10..=10_000))]
    pub mbit: Vec<u32>,
    /// What the port to the client keeps, in octets; 32000 and 64000 when absent.
    #[arg(long, value_name = "OCTETS", value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(3_100..=16_000_000))]
    pub port_bytes: Vec<u32>,
    /// Numbers of servers; those of `live.cells` of the plan when absent.
    #[arg(long, value_name = "N", value_delimiter = ',',
        value_parser = clap::value_parser!(u16).range(1..=256))]
    pub servers: Vec<u16>,
    /// Who sends and who receives; those of `live.cells` of the plan when absent.
    #[arg(long, value_name = "WAY", value_delimiter = ',',
        value_parser = clap::builder::PossibleValuesParser::new(WAYS.map(|way| way.name)))]
    pub ways: Vec<String>,
    /// Length of a measurement, twice that where timers of 200 ms are waited for; `live.seconds` of
    /// the plan when absent.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = quantity::seconds)]
    pub seconds: Option<f64>,
    /// Measurements of each cell; 3, or 2 with --quick.
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    pub repetitions: Option<u16>,
    /// Length of the jitter probes before and after each measurement; 0s leaves them out, and then
    /// nothing can be published.
    #[arg(long, value_name = "SPAN", default_value = "100ms", value_parser = quantity::span)]
    pub probe: Span,
    /// Folder for the report.
    #[arg(long, short, value_name = "DIR", default_value = "cavy-out/live-tcp")]
    pub out: PathBuf,
    /// Take what an earlier study left in that folder, and measure the rest.
    #[arg(long)]
    pub resume: bool,
    /// Print the report as one JSON object instead of tables.
    #[arg(long)]
    pub json: bool,
}

/// From where to where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Map {
    /// Where clients connect.
    pub listen: SocketAddrV4,
    /// Where they mean.
    pub target: SocketAddrV4,
}

fn prefix(text: &str) -> Result<Ipv4Net, String> {
    let net: Ipv4Net = text
        .parse()
        .map_err(|_| "write an IPv4 network with its length, such as 10.77.2.0/24".to_string())?;
    if net.addr() != net.network() {
        return Err(format!("did you mean {}?", net.trunc()));
    }
    if !(8..=30).contains(&net.prefix_len()) {
        return Err("its length must be from /8 to /30".to_string());
    }
    let address = net.network();
    if address.is_loopback() || address.is_multicast() || address.octets()[0] == 0 {
        return Err("no host can have these addresses; use some of 10.0.0.0/8".to_string());
    }
    Ok(net)
}

fn device(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let good = (1..=15).contains(&text.len()) && text.chars().all(plain);
    good.then(|| text.to_string()).ok_or_else(|| {
        "a device has a name of 1 to 15 letters and digits, such as cavy0".to_string()
    })
}

fn map(text: &str) -> Result<Map, String> {
    let wrong = || "write LISTEN=TARGET, such as 127.0.0.1:8081=10.0.0.1:80".to_string();
    let (listen, target) = text.split_once('=').ok_or_else(wrong)?;
    Ok(Map { listen: place(listen)?, target: place(target)? })
}

/// HOST:PORT, of IPv4.
pub fn place(text: &str) -> Result<SocketAddrV4, String> {
    let all = text.to_socket_addrs().map_err(|error| format!("{text}: {error}"))?;
    let mut v4 = all.filter_map(|at| match at {
        std::net::SocketAddr::V4(at) => Some(at),
        std::net::SocketAddr::V6(_) => None,
    });
    v4.next().ok_or_else(|| format!("{text} has no address of IPv4"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_whole_and_somebody_can_have_them() {
        assert_eq!(prefix("10.77.2.0/24").map(|net| net.to_string()), Ok("10.77.2.0/24".into()));
        assert_eq!(prefix("10.77.2.5/24"), Err("did you mean 10.77.2.0/24?".into()));
        for wrong in ["", "10.77.2.0", "10.0.0.0/33", "10.0.0.0/31", "127.0.0.0/8", "::/64"] {
            assert!(prefix(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn maps_have_two_places() {
        let read = map("127.0.0.1:1=10.0.0.1:80").expect("a map");
        assert_eq!(read.target.to_string(), "10.0.0.1:80");
        for wrong in ["", "127.0.0.1:1", "127.0.0.1=10.0.0.1:80", "127.0.0.1:1=10.0.0.1:99999"] {
            assert!(map(wrong).is_err(), "{wrong}");
        }
        assert!(device("cavy0").is_ok() && device("a/b").is_err() && device("").is_err());
    }
}
