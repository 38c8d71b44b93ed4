//! What can be typed after `cavy-live homa`.

use crate::quantity;
use cavy_core::Span;
use clap::{Args as Arguments, Subcommand, ValueEnum};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;

/// `cavy-live homa`.
#[derive(Arguments, Debug)]
#[command(after_help = "Examples:
  cavy-live homa serve --bind 127.0.0.1:7000         an echo server over UDP
  cavy-live homa call 127.0.0.1:7000 --file question.json
  cavy-live homa echo                                round trips on the loopback interface
  cavy-live load homa://127.0.0.1:7000 --rate 2000 --type small=100    load on a schedule

Messages of 1 B to 1 MB, without connections; a call ends once, with an answer or an error, within
its deadline. --raw sends IP packets of protocol 146 as the Linux module does, and needs the right
CAP_NET_RAW; otherwise packets travel in UDP. Nothing is encrypted or authenticated unless both ends
have the same --key-file (`openssl rand -hex 32 > homa.key`). `cavy live homa` is the same
command.")]
pub struct Homa {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs.
#[derive(Subcommand, Debug)]
pub enum Verb {
    /// Answer questions until Ctrl-C: with the question itself, or with a fixed number of bytes.
    Serve(Serve),
    /// Ask once, and write the answer to stdout.
    Call(Call),
    /// Measure round trips by size: one call at a time, then many at once.
    Echo(Echo),
}

/// How packets travel.
#[derive(Arguments, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// Homa port of the server; 99 when absent.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..=32767))]
    pub port: Option<u16>,
    /// IP protocol 146 instead of UDP.
    #[arg(long)]
    pub raw: bool,
    /// Rate of the link in Mb/s, by which packets are paced; 25000 when absent.
    #[arg(long, value_name = "MBPS", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub link_mbps: Option<u32>,
    /// MTU of the network in bytes, 1280 to 9000; the interface's when absent.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1280..=9000))]
    pub mtu: Option<u32>,
    /// Levels of priority that the network has; 8 when absent, and 1 turns them off.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=8))]
    pub levels: Option<u8>,
    /// What a sender may send before it is granted more; 40000 when absent.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub unscheduled_bytes: Option<u32>,
    /// Seal packets with the key in this file, 64 hexadecimal digits, and take no others.
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// How the endpoint waits for packets; hybrid when absent.
    #[arg(long, value_enum, value_name = "HOW")]
    pub polling: Option<PollingName>,
}

/// How an endpoint waits.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollingName {
    /// Sleep at once: gentle.
    Block,
    /// Look for 20 us, then sleep.
    Hybrid,
    /// Never sleep: takes a core.
    Spin,
}

/// `cavy-live homa serve`.
#[derive(Arguments, Debug)]
#[command(after_help = "Examples:
  cavy-live homa serve                               echo at 127.0.0.1:7000, Homa port 99
  cavy-live homa serve --bind 10.0.0.1:7000 --link-mbps 10000 --answer-bytes 10000
  cavy-live homa serve --service 1ms --workers 4 --queue-limit 100
                                                     an emulated slow service that can be overloaded
  cavy-live homa serve --record run.jsonl            to be decided again by `cavy-live replay`
  cavy-live homa serve --raw --bind 10.0.0.1:0       for clients of the Linux module, as root

Says where it listens on stdout, and at its end what it did. The first Ctrl-C finishes what is under
way, a second one ends at once.")]
pub struct Serve {
    /// Address to listen at; port 0 takes any that is free. IP has no ports: --raw uses the host
    /// only.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7000", value_parser = address)]
    pub bind: SocketAddr,
    #[command(flatten)]
    pub way: Way,
    /// Answer with the question; so it is when nothing else is said.
    #[arg(long, conflicts_with = "answer_bytes")]
    pub echo: bool,
    /// Answer with this many bytes instead of the question.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub answer_bytes: Option<u32>,
    /// Wait so long on a worker before each answer: a service emulated by waiting.
    #[arg(long, value_name = "SPAN", value_parser = service)]
    pub service: Option<Span>,
    /// Workers that wait, with --service.
    #[arg(long, short, value_name = "N", default_value = "1", requires = "service",
        value_parser = clap::value_parser!(u16).range(1..=256))]
    pub workers: u16,
    /// Questions that wait to be answered; more are refused, and those that wait for a second.
    #[arg(long, value_name = "N", default_value = "16384",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub queue_limit: u32,
    /// How long Ctrl-C waits for answers under way.
    #[arg(long, value_name = "SPAN", default_value = "2s", value_parser = quantity::positive_span)]
    pub drain: Span,
    /// Write every step of the endpoint's machine to this file, for `cavy-live replay`.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Say where it listens, and at the end what it did, as one JSON object each on a line.
    #[arg(long)]
    pub json: bool,
}

/// `cavy-live homa call`.
#[derive(Arguments, Debug)]
#[command(after_help = "Examples:
  cavy-live homa call 127.0.0.1:7000 --file question.json
  echo hello | cavy-live homa call 127.0.0.1:7000 --file -
  cavy-live homa call 127.0.0.1:7000 --bytes 1000000 --json
  cavy-live homa call 10.0.0.2:0 --raw --port 99 --bytes 100

Exit code 1 when there is no answer within the deadline. After `silent` or `deadline` nobody knows
whether the question was carried out.")]
pub struct Call {
    /// The server.
    #[arg(value_name = "ADDRESS", value_parser = address)]
    pub address: SocketAddr,
    #[command(flatten)]
    pub way: Way,
    /// Ask with this many bytes.
    #[arg(long, value_name = "N", default_value = "100",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub bytes: u32,
    /// Ask with what is in this file; `-` is stdin.
    #[arg(long, value_name = "FILE", conflicts_with = "bytes")]
    pub file: Option<PathBuf>,
    /// How long to wait for the answer.
    #[arg(long, value_name = "SPAN", default_value = "5s", value_parser = quantity::positive_span)]
    pub deadline: Span,
    /// Write every step of the endpoint's machine to this file, for `cavy-live replay`.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Print lengths and the time it took as one JSON object, instead of the answer.
    #[arg(long)]
    pub json: bool,
}

/// `cavy-live homa echo`.
#[derive(Arguments, Debug)]
#[command(after_help = "Examples:
  cavy-live homa echo                                two endpoints of this process, loopback
  cavy-live homa echo 127.0.0.1:7000 --sizes 100,10000,1000000
  cavy-live homa echo 10.0.0.2:7000 --link-mbps 10000 --count 10000 --json

Closed: a call waits for the one before it. It shows what a call costs when nothing else is under
way; tails under load are measured by `cavy-live load homa://HOST:PORT`.")]
pub struct Echo {
    /// The server; one of its own on the loopback interface when absent.
    #[arg(value_name = "ADDRESS", value_parser = address)]
    pub address: Option<SocketAddr>,
    #[command(flatten)]
    pub way: Way,
    /// Sizes of questions.
    #[arg(long, value_name = "BYTES", value_delimiter = ',',
        default_value = "100,1000,10000,100000,1000000",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub sizes: Vec<u32>,
    /// Round trips of each size, one at a time; a tenth more before them do not count.
    #[arg(long, value_name = "N", default_value = "2000",
        value_parser = clap::value_parser!(u32).range(10..=10_000_000))]
    pub count: u32,
    /// Go on to the next size after so long, even if there were fewer round trips.
    #[arg(long, value_name = "SPAN", default_value = "2s", value_parser = quantity::positive_span)]
    pub at_most: Span,
    /// Calls at once where many are measured.
    #[arg(long, value_name = "N", default_value = "32",
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub at_once: u32,
    /// Write every step of the client's machine to this file, for `cavy-live replay`.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    pub json: bool,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let found = text.to_socket_addrs().ok().and_then(|mut all| all.next());
    found.ok_or_else(|| "it must be a host and a port, such as 127.0.0.1:7000".to_string())
}

fn service(text: &str) -> Result<Span, String> {
    let span = quantity::positive_span(text)?;
    match span > Span::from_ms(60_000) {
        true => Err("a service time is at most 60s".to_string()),
        false => Ok(span),
    }
}
