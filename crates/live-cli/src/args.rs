//! What can be typed.

use crate::expect::{Expectation, expectation};
use crate::quantity;
use cavy_core::Span;
use clap::{Args as Arguments, Parser, Subcommand, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Real servers and real load: the policies of the lab on threads and sockets.
#[derive(Parser, Debug)]
#[command(
    name = "cavy-live",
    version,
    after_help = "Examples:
  cavy-live sched --policy darc --workers 14         a server whose short requests stay short
  cavy-live load http://127.0.0.1:8080 --rate 400 --duration 5min \\
      --type get@0.9='/get/key1' --type scan@0.1='/scan'

  cavy-live homa serve                               messages without connections
  cavy-live tcp serve echo --prefix 10.77.2.0/24     TCP with timers of microseconds
  cavy-live whatif --service web=port:8080 --load http://127.0.0.1:8080/
                                                     what would a faster service buy?
  cavy-live study l1 --quick                         the live study, in minutes
  cavy-live replay run.jsonl                         decide a recorded run again

`cavy live sched`, `cavy live homa`, `cavy load`, `cavy replay` and `cavy doctor` are the same
commands.
Exit codes: 0 success, 1 what was asked for failed, 2 wrong usage or input, 3 percentiles were
measured and must not be published, 130 interrupted. Results go to stdout, messages to stderr."
)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Subcommand, Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one, and it is read once")]
pub enum Command {
    /// Serve an embedded store over HTTP and RESP, scheduled by a policy of your choice.
    Sched(Sched),
    /// Send requests on a schedule, and measure latency from the time they were due.
    Load(Load),
    /// Ask and answer in whole messages, without connections.
    Homa(crate::homa::Homa),
    /// Say who is near, before anybody has asked: agents with coordinates, and a service.
    Coords(crate::coords::Coords),
    /// Serve, fetch and relay by a TCP of one's own, with timers of microseconds.
    Tcp(crate::tcp::Tcp),
    /// Compare the pool with those a user would take instead, on this machine.
    Study(Study),
    /// Rank running services by what making each faster would buy.
    Whatif(crate::whatif::Whatif),
    /// Let the machine decide a recorded run again, and predict it in the lab.
    Replay(Replay),
    /// Say what this machine has of what live runs need, and how to get the rest.
    Doctor(Doctor),
    /// Build a network of hosts on this machine: namespaces, a switch, links of a stated rate.
    Testbed(Testbed),
    /// Build hosts whose packets take time, get lost or wait at ports, as a file says.
    Line(crate::line::Line),
    /// Run a store of transactions across regions, which clients of Redis speak to.
    Txn(cavy_txn_cli::Txn),
}

/// A policy of the server.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyName {
    /// Workers reserved for types by their measured share of the work.
    Darc,
    /// Workers reserved by hand: `--reserved` of them for the first type.
    DarcStatic,
    /// One queue for all, first come first served.
    CFcfs,
    /// The first type first, then the second and so on.
    FixedPriority,
    /// A queue for each worker; requests join one at random.
    DFcfs,
}

/// `cavy-live sched`.
#[derive(Arguments, Debug)]
#[command(after_help = "Examples:
  cavy-live sched                                    darc, one worker for each core
  cavy-live sched --policy c-fcfs --workers 2        what most thread pools do
  cavy-live sched --workers 14 --sleep-service short=1ms --sleep-service long=100ms
                                                     timed slots: service emulated by waiting

Then, from another terminal:
  redis-cli -p 6380 GET key1
  redis-benchmark -p 6380 -t get -n 100000
  curl http://127.0.0.1:8080/scan
  curl http://127.0.0.1:8080/metrics

The store has 5000 small keys, key0 to key4999. HTTP: GET /get/KEY, GET /scan, PUT /set/KEY,
GET /timed/TYPE (timed slots), /stats, /metrics, /ready, /live.
RESP: GET, SET, SCAN, KEYS *, TIMED TYPE.
A full queue answers at once: 503, or `-ERR overloaded`. Ctrl-C finishes what is under way.")]
pub struct Sched {
    /// Who goes first.
    #[arg(long, value_enum, value_name = "POLICY", default_value = "darc")]
    pub policy: PolicyName,
    /// Worker threads; one for each core when absent.
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub workers: Option<u16>,
    /// Requests that wait in one queue; more are refused.
    #[arg(long, value_name = "N", default_value = "4096",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub queue_limit: u32,
    /// Pin workers to these cores in turn, such as `0,1`.
    #[arg(long, value_name = "CORES", value_delimiter = ',')]
    pub pin: Vec<usize>,
    /// Completions between two looks at the reservation, for darc.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub window: Option<u64>,
    /// Workers kept for the first type, for darc-static.
    #[arg(long, value_name = "K", default_value = "1")]
    pub reserved: u16,
    /// Serve a type of this name by waiting so long instead of the store; may be given often.
    #[arg(long, value_name = "TYPE=SPAN", value_parser = sleep_service)]
    pub sleep_service: Vec<(String, Span)>,
    /// Address for HTTP, or `off`.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080", value_parser = door)]
    pub http: Door,
    /// Address for RESP, or `off`.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6380", value_parser = door)]
    pub resp: Door,
    /// File of the store; a temporary one when absent.
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
    /// Write every input of the policy to this file, for `cavy replay`.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Connections at once, HTTP and RESP together; more are closed at once.
    #[arg(long, value_name = "N", default_value = "1024",
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub connections: u32,
    /// Requests under way on one RESP connection; more wait in its socket.
    #[arg(long, value_name = "N", default_value = "64",
        value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub pipeline: u16,
    /// Longest value that can be set, in bytes.
    #[arg(long, value_name = "BYTES", default_value = "65536",
        value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    pub value_bytes: u32,
    /// Most keys in the store.
    #[arg(long, value_name = "N", default_value = "1000000",
        value_parser = clap::value_parser!(u64).range(5_000..=100_000_000))]
    pub keys: u64,
    /// How long a client may take over a request or its answer, or say nothing, before its
    /// connection is closed.
    #[arg(long, value_name = "SPAN", default_value = "30s", value_parser = quantity::positive_span)]
    pub patience: Span,
    /// How long Ctrl-C waits for requests under way.
    #[arg(long, value_name = "SPAN", default_value = "10s", value_parser = quantity::positive_span)]
    pub drain: Span,
    /// Say where the server listens as one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Where to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// Nowhere.
    Off,
    /// Here.
    At(SocketAddr),
}

fn door(text: &str) -> Result<Door, String> {
    if text == "off" {
        return Ok(Door::Off);
    }
    let address = text.parse().map(Door::At);
    address.map_err(|_| "it must be an address and a port such as 127.0.0.1:8080, or `off`".into())
}

fn sleep_service(text: &str) -> Result<(String, Span), String> {
    let Some((name, span)) = quantity::named(text) else {
        return Err("write it as TYPE=SPAN, such as short=1ms".to_string());
    };
    let span = quantity::positive_span(span)?;
    if span > Span::from_ms(60_000) {
        return Err("a service time is at most 60s".to_string());
    }
    Ok((name.to_string(), span))
}

/// `cavy-live load`.
#[derive(Arguments, Debug)]
#[command(after_help = "Examples:
  cavy-live load http://127.0.0.1:8080 --rate 400 --duration 5min \\
      --type get@0.9='/get/key1' --type scan@0.1='/scan'
  cavy-live load homa://127.0.0.1:7000 --rate 2000 --duration 1min \\
      --type small@0.8=100 --type large@0.2=50000
  cavy-live load redis://127.0.0.1:6380 --rate 5000 --duration 10s --type get='GET key1'
  cavy-live load tcp://10.77.2.1:7070 --rate 1000 --duration 15s --type piece='block 65536'
  cavy-live load http://127.0.0.1:8080 --rate 500 --duration 1min --type get=/get/key1 \\
      --expect 'p99 <= 5ms' --expect 'answered_ratio >= 99.9%' --html load.html
  cavy-live load https://localhost:8443 --cacert ca.pem --rate 200 --duration 1min --type get=/
  cavy-live load http://127.0.0.1:8080 --rate 250 --duration 2min --seed 7 \\
      --type short='/timed/short' --type long='/timed/long' --save-schedule l1.schedule
  cavy-live load http://127.0.0.1:8081 --schedule l1.schedule \\
      --type short='/timed/short' --type long='/timed/long'

Open model: requests are sent when they are due, whether or not earlier ones were answered, and
latency counts from that time. Nothing is skipped and nothing corrected afterwards. A p99 takes
10000 requests of a type: these examples send as many. When the generator itself was late by more
than a tenth of the shortest service time (p99), no tails are given and the exit code is 3. It is 1
when fewer than half of a type were answered. `--closed N` sends like N clients that wait for their
answers; such results are labelled, because they hide queueing.")]
pub struct Load {
    /// The server: http://HOST:PORT, https://HOST:PORT, redis://HOST:PORT, rediss://HOST:PORT,
    /// homa://HOST:PORT or tcp://HOST:PORT.
    #[arg(value_name = "URL")]
    pub url: String,
    /// A type of request: its name, its share (1 when absent; shares need not add up to 1), and
    /// what to send: `METHOD PATH BODY`, `/PATH`, the words of a command, for Homa a number of
    /// bytes, or for tcp:// `line TEXT`, `block BYTES`, `echo BYTES` or `framed TEXT`, which say
    /// where an answer ends. For http:// and https:// also `@FILE`: a request a line, sent in turn.
    /// May be given often.
    #[arg(
        long = "type",
        value_name = "NAME[@SHARE]=REQUEST",
        required = true,
        value_parser = request
    )]
    pub types: Vec<Request>,
    /// Requests per second, all types together.
    #[arg(long, value_name = "PER_S", allow_negative_numbers = true,
        value_parser = quantity::rate, required_unless_present = "schedule")]
    pub rate: Option<f64>,
    /// How long to send.
    #[arg(long, value_name = "SPAN", default_value = "10s", value_parser = quantity::positive_span,
        conflicts_with = "schedule")]
    pub duration: Span,
    /// The arrival process.
    #[arg(
        long,
        value_enum,
        value_name = "PROCESS",
        default_value = "poisson",
        conflicts_with = "schedule"
    )]
    pub arrivals: Arrivals,
    /// Root of all random streams of the schedule.
    #[arg(long, value_name = "S", default_value = "1", value_parser = quantity::seed,
        conflicts_with = "schedule")]
    pub seed: u64,
    /// Send a stored schedule.
    #[arg(long, value_name = "FILE", conflicts_with = "rate")]
    pub schedule: Option<PathBuf>,
    /// Store the schedule before it is sent.
    #[arg(long, value_name = "FILE")]
    pub save_schedule: Option<PathBuf>,
    /// Leave requests before this time out of all figures.
    #[arg(long, value_name = "SPAN", default_value = "0s", value_parser = quantity::span)]
    pub warmup: Span,
    /// A header of each request, http:// and https:// only. May be given often.
    #[arg(long = "header", short = 'H', value_name = "NAME: VALUE")]
    pub headers: Vec<String>,
    /// Trust the authorities in this file (certificates in PEM) instead of those of this system;
    /// https:// and rediss:// only.
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub cacert: Option<PathBuf>,
    /// Do not check who the server is; https:// and rediss:// only.
    #[arg(long, short = 'k')]
    pub insecure: bool,
    /// What must hold, or the exit code is 1: `p99 <= 5ms`, `p999_us <= 800 for get`,
    /// `answered_ratio >= 99.9%`, `sent_per_s >= 990`. Without `for` it must hold for every type.
    /// May be given often.
    #[arg(long = "expect", value_name = "METRIC <= LIMIT", value_parser = expectation)]
    pub expectations: Vec<Expectation>,
    /// Connections, made before the first request.
    #[arg(long, short, value_name = "N", default_value = "64",
        value_parser = clap::value_parser!(u16).range(1..=16_384))]
    pub connections: u16,
    /// Requests under way on one connection (RESP and tcp:// only).
    #[arg(long, value_name = "N", default_value = "1",
        value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub pipeline: u16,
    /// Sender threads, each with its part of the connections.
    #[arg(long, value_name = "N", default_value = "1",
        value_parser = clap::value_parser!(u16).range(1..=64))]
    pub senders: u16,
    /// How senders wait for the next request.
    #[arg(long, value_enum, value_name = "HOW", default_value = "hybrid")]
    pub wait: Wait,
    /// Let senders go before all ordinary threads (SCHED_FIFO; needs root or CAP_SYS_NICE), so that
    /// they are on time where a busy server shares their cores.
    #[arg(long)]
    pub first: bool,
    /// How long to wait for an answer.
    #[arg(long, value_name = "SPAN", default_value = "10s", value_parser = quantity::positive_span)]
    pub timeout: Span,
    /// Closed model: this many clients that wait for their answers. The rate only sizes the
    /// schedule, from which types are taken in turn.
    #[arg(long, value_name = "CLIENTS", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub closed: Option<u32>,
    /// The shortest service time, against which lateness is held; measured when absent.
    #[arg(long, value_name = "SPAN", value_parser = quantity::positive_span)]
    pub shortest_service: Option<Span>,
    /// Give percentiles even when they should not be published; they are labelled.
    #[arg(long)]
    pub force_publish: bool,
    /// Length of the jitter probes before and after the run; 0s leaves out probes and floors.
    #[arg(long, value_name = "SPAN", default_value = "200ms", value_parser = quantity::span)]
    pub probe: Span,
    /// Print one JSON object instead of tables.
    #[arg(long)]
    pub json: bool,
    /// Write the interval log of HdrHistogram's tools, one interval a second.
    #[arg(long, value_name = "FILE")]
    pub hlog: Option<PathBuf>,
    /// Write a percentile distribution for each type: FILE.TYPE.txt.
    #[arg(long, value_name = "FILE")]
    pub percentiles: Option<PathBuf>,
    /// Write every request with its intended, actual and completed time, as CSV.
    #[arg(long, value_name = "FILE")]
    pub lines: Option<PathBuf>,
    /// Write a report with plots: one HTML file.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Say every second how far the run is, a line each. On a terminal one line is kept up to date
    /// anyway.
    #[arg(long)]
    pub progress: bool,
    #[command(flatten, next_help_heading = "With homa:// only")]
    pub way: crate::homa::Way,
}

/// An arrival process.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Independent users.
    Poisson,
    /// Equal gaps.
    Constant,
}

/// How senders wait.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Read the clock until it is time: takes a core.
    Spin,
    /// Sleep until 80 us before, then spin.
    Hybrid,
    /// Sleep: gentle, and some microseconds late.
    Sleep,
}

/// A type of request.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its name.
    pub name: String,
    /// Its share, where one was given.
    pub share: Option<f64>,
    /// What to send.
    pub text: String,
}

fn request(text: &str) -> Result<Request, String> {
    let wrong = || "write it as NAME=REQUEST or NAME@SHARE=REQUEST, such as get@0.9=/get/key1";
    let (label, rest) = text.split_once('=').ok_or_else(wrong)?;
    let (name, share) = match label.split_once('@') {
        Some((name, share)) => {
            let number = share.parse::<f64>().ok().filter(|s| *s > 0.0 && s.is_finite());
            (name, Some(number.ok_or("the share must be a number above 0")?))
        }
        None => (label, None),
    };
    let (name, _) = quantity::named(&format!("{name}="))
        .map(|_| (name.to_string(), ()))
        .ok_or("the name of a type has letters, digits, `_`, `-` and `.`")?;
    Ok(Request { name, share, text: rest.to_string() })
}

/// A study.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum StudyName {
    /// Timed slots: High Bimodal a thousand times slower, 14 workers, 90 % load.
    L1,
    /// A pool of 14 connections to a database: slots instead of threads.
    L2,
    /// An embedded store, bound by processors: 2 workers, where DARC gains and where it loses.
    L3,
    /// Work that changes four times: Figure 8 a thousand times slower.
    L4,
    /// What handing over a job costs.
    Costs,
    /// Homa beside TCP, QUIC and gRPC, between hosts on this machine. Needs root.
    Homa,
    /// A search cluster whose p changes, `cavy-search`; only when it is named. Needs root.
    Search,
}

impl StudyName {
    /// It compares pools of threads.
    pub fn has_pools(self) -> bool {
        !matches!(self, StudyName::Homa | StudyName::Search)
    }
}

/// A part of the study of search.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchPart {
    /// p changes while queries and writes go on.
    Change,
    /// Delay by p at three rates, beside the lab.
    Delay,
    /// A server stands still now and then, with hedging and without.
    Tail,
}

/// What only the study of search reads.
#[derive(Arguments, Clone, Debug)]
#[command(next_help_heading = "Study search")]
pub struct SearchStudy {
    /// What to measure; all three when absent.
    #[arg(long, value_enum, value_name = "PARTS", value_delimiter = ',')]
    pub search_parts: Vec<SearchPart>,
}

/// Whom the study of Homa compares.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HomaPeer {
    /// Homa with eight levels.
    Homa,
    /// With two.
    HomaP2,
    /// With one.
    HomaP1,
    /// RAMCloud's transport before Homa.
    Basic,
    /// Homa on a switch that does not look at levels: the negative control.
    NoLevels,
    /// Levels by length, and every message sent at once: what levels are without grants.
    NoGrants,
    /// Homa without incast control; for incast only.
    NoIncastControl,
    /// Kernel TCP, one connection for each pair of hosts.
    TcpCubic,
    /// The same with bbr.
    TcpBbr,
    /// A pool of connections, one message under way on each.
    PoolCubic,
    /// The same with bbr.
    PoolBbr,
    /// A stream for each message.
    Quic,
    /// Unary calls over HTTP/2.
    Grpc,
}

/// A distribution of message lengths.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// All RPCs of a Google data center.
    W3,
    /// Facebook Hadoop.
    W4,
    /// Web search.
    W5,
}

/// Length of a study's jitter probes when nothing is said.
const PROBE: Span = Span::from_ms(500);

/// What only the study of Homa reads.
#[derive(Arguments, Clone, Debug)]
#[command(next_help_heading = "Study homa")]
pub struct HomaStudy {
    /// Whom to compare, such as `homa,tcp-cubic`; all when absent.
    #[arg(long, value_enum, value_name = "PEERS", value_delimiter = ',')]
    pub transports: Vec<HomaPeer>,
    /// Which lengths; all three when absent, w4 with --quick.
    #[arg(long, value_enum, value_name = "WORKLOADS", value_delimiter = ',')]
    pub workloads: Vec<Workload>,
    /// Loads in per cent of each link; 50 and 80 when absent, 80 with --quick.
    #[arg(long, value_name = "LOADS", value_delimiter = ',',
        value_parser = clap::value_parser!(u8).range(1..=95))]
    pub loads: Vec<u8>,
    /// What to measure; both when absent.
    #[arg(long, value_enum, value_name = "PARTS", value_delimiter = ',')]
    pub parts: Vec<HomaPart>,
    /// Rate of each link in Mb/s; 100 when absent. Slower ones leave more of the processors to
    /// peers that take much of them, and need longer runs for as many messages.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(10..=1_000))]
    pub mbit: Option<u32>,
    /// Take runs that the folder of `--out` has of the same messages, instead of running them
    /// again. Every run is kept there as it ends, so that Ctrl-C costs no more than one. A run in
    /// doubt is run again, at most three times in all.
    #[arg(long)]
    pub resume: bool,
}

/// A part of the study of Homa.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum HomaPart {
    /// How much longer messages take than they must.
    Slowdown,
    /// What one host gets when all answer it at once.
    Incast,
}

/// Whom the study compares.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PeerName {
    /// Our pool with DARC.
    Darc,
    /// Our pool, first come first served.
    CFcfs,
    /// Our pool, types in a fixed order.
    FixedPriority,
    /// tokio's `spawn_blocking` with a limit of as many threads.
    SpawnBlocking,
    /// A rayon pool.
    Rayon,
    /// Threads that share a channel.
    Channel,
    /// A pool for each type, sized by its share of the work.
    TwoPools,
    /// Threads that share a priority queue.
    PriorityPool,
    /// The Go runtime: a goroutine a request, a semaphore of as many slots.
    Go,
    /// tokio's semaphore: what connection pools have (l2 only).
    Semaphore,
}

/// `cavy-live study`.
#[derive(Arguments, Clone, Debug)]
#[command(after_help = "Examples:
  cavy-live study                                    everything, hours
  cavy-live study l1 --quick                         three minutes, one repetition
  cavy-live study l1 --repetitions 5                 as the specification asks: an hour and a half
  cavy-live study l4 --seconds 30 --peers darc,c-fcfs,spawn-blocking
  cavy-live study l2 --peers darc,semaphore          a pool of connections
  cavy-live study l3 --json > l3.json
  cavy-live study l1 --print-plan > l1.toml          what l1 runs: a plan with world = \"live\"
  cavy-live study --plan mine.toml                   the same with a workload of your own
  cavy run l1.toml --set world=lab                   the same in the lab
  cavy-live study homa --quick                       two minutes; as root
  cavy-live study homa --workloads w5 --loads 80 --transports homa,pool-cubic,quic
  cavy-live study homa --workloads w3 --mbit 25      where 100 Mb/s are too much for the machine

All peers meet the same arrivals, in turns, so that a busy minute of the machine hits all of them.
Every run records load average, stolen time, a jitter probe and the lateness of the generator. A
claim that the machine was too busy for is called too noisy to publish, whatever its value.
Writes report.html, report.json, claims.json, series.csv, tables.csv and the recordings of the first
repetition into the folder given by --out. Exit code 1 when a claim is not reproduced.")]
pub struct Study {
    /// Which; all but search when absent.
    #[arg(value_enum, value_name = "STUDY")]
    pub studies: Vec<StudyName>,
    /// Length of one run, for l4 of each phase; 120 (l1), 60 (l2), 20 and 60 (l3), 20 (l4), 10
    /// (costs) or 30 (homa) when absent.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = quantity::seconds)]
    pub seconds: Option<f64>,
    /// Runs of each peer, each with arrivals of its own; 5 when absent.
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    pub repetitions: Option<u16>,
    /// Short: 20 s (l1), 15 s (l2), 10 s (l3), 5 s (l4, each phase), 5 s (costs) or 6 s (homa), one
    /// repetition.
    #[arg(long)]
    pub quick: bool,
    /// A plan with `world = "live"` to run instead of that of the study: homa for plans of kind
    /// network, l4 for plans of kind server with phases, else l1. `cavy run FILE --set world=lab`
    /// runs the same in the lab, and what it says stands in the report. No claim is about it.
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Print the plan of the study (l1, l4 or homa; of homa with `--parts incast` that of incast)
    /// and do nothing else.
    #[arg(long)]
    pub print_plan: bool,
    /// Whom to compare, such as `darc,spawn-blocking`; all when absent.
    #[arg(long, value_enum, value_name = "PEERS", value_delimiter = ',')]
    pub peers: Vec<PeerName>,
    /// Root of all random streams of the schedules.
    #[arg(long, value_name = "S", default_value = "1", value_parser = quantity::seed)]
    pub seed: u64,
    /// How the generator waits for the next request.
    #[arg(long, value_enum, value_name = "HOW", default_value = "hybrid")]
    pub wait: Wait,
    /// Length of the jitter probes before and after each run; 0s leaves them out, and then nothing
    /// can be published.
    #[arg(long, value_name = "SPAN", default_value = "500ms", value_parser = quantity::span)]
    pub probe: Span,
    /// Folder for the report and the recordings.
    #[arg(long, short, value_name = "DIR", default_value = "cavy-out/live")]
    pub out: PathBuf,
    /// Print the report as one JSON object instead of tables.
    #[arg(long)]
    pub json: bool,
    /// What only the study of Homa reads.
    #[command(flatten)]
    pub homa: HomaStudy,
    /// What only the study of search reads.
    #[command(flatten)]
    pub search: SearchStudy,
}

impl Study {
    /// The command that makes one of these studies again: `study` with every option that decides
    /// what is measured. Where the report goes and what may be taken from earlier runs is not among
    /// them.
    pub fn again(&self, study: Option<StudyName>) -> String {
        let mut words = vec!["cavy-live study".to_string()];
        let studies = study.map_or(self.studies.clone(), |study| vec![study]);
        words.extend(studies.into_iter().map(name));
        let mut say = |option: &str, value: Option<String>| {
            words.extend(value.map(|value| format!("--{option} {value}")));
        };
        let given = |is: bool, value: String| is.then_some(value);
        say("plan", self.plan.as_ref().map(|file| file.display().to_string()));
        say("seconds", self.seconds.map(|seconds| seconds.to_string()));
        say("repetitions", self.repetitions.map(|number| number.to_string()));
        say("seed", given(self.seed != 1, self.seed.to_string()));
        if study.is_none_or(StudyName::has_pools) {
            say("peers", names(&self.peers));
            say("wait", given(self.wait != Wait::Hybrid, name(self.wait)));
        }
        say("probe", given(self.probe != PROBE, format!("{}ns", self.probe.as_ns())));
        if study.is_none_or(|study| study == StudyName::Homa) {
            let homa = &self.homa;
            let loads: Vec<String> = homa.loads.iter().map(u8::to_string).collect();
            say("transports", names(&homa.transports));
            say("workloads", names(&homa.workloads));
            say("loads", given(!loads.is_empty(), loads.join(",")));
            say("parts", names(&homa.parts));
            say("mbit", homa.mbit.map(|mbit| mbit.to_string()));
        }
        if study == Some(StudyName::Search) {
            say("search-parts", names(&self.search.search_parts));
        }
        if self.quick {
            words.push("--quick".to_string());
        }
        words.join(" ")
    }
}

/// How a value is written on the command line.
pub fn name<T: ValueEnum>(value: T) -> String {
    value.to_possible_value().map_or(String::new(), |value| value.get_name().to_string())
}

/// How a list is, unless it is empty.
fn names<T: ValueEnum>(values: &[T]) -> Option<String> {
    let names: Vec<String> = values.iter().cloned().map(name).collect();
    (!names.is_empty()).then(|| names.join(","))
}

/// `cavy-live replay`.
#[derive(Arguments, Debug)]
#[command(after_help = "Examples:
  cavy-live sched --record run.jsonl                 record a server; Ctrl-C ends it
  cavy-live replay run.jsonl                         the same decisions? what would the lab say?
  cavy-live replay run.jsonl --out report            the same as report.html
  cavy-live homa serve --record homa.jsonl           record an endpoint
  cavy-live replay homa.jsonl                        the same decisions? what was sent, what waited?
  cavy-live replay whatif.jsonl                      the same for what `cavy live whatif` recorded

A recording holds every input of a machine and its time. A fresh machine is fed the same inputs;
equal digests mean that it decided the same at every step. For a pool's policy the lab then meets
the recorded arrivals, types and service times, and predicts latencies, which stand beside the
measured ones. For an endpoint of Homa a summary tells calls, packets, levels and what waited, for
`cavy live whatif` whom each Governor stopped and what its windows came to.
Exit code 1 when the decisions differ.")]
pub struct Replay {
    /// The recording.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Write a report into this folder.
    #[arg(long, short, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print one JSON object instead of tables.
    #[arg(long)]
    pub json: bool,
}

/// `cavy-live doctor`.
#[derive(Arguments, Debug)]
#[command(after_help = "Examples:
  cavy-live doctor                                   what is there, what is missing, and its cure
  cavy-live doctor --json

Exit code 1 when something that live runs need is missing.")]
pub struct Doctor {
    /// Length of the jitter probe; 0s leaves it out.
    #[arg(long, value_name = "SPAN", default_value = "500ms", value_parser = quantity::span)]
    pub probe: Span,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// `cavy-live testbed`.
#[derive(Arguments, Debug)]
pub struct Testbed {
    /// What to do.
    #[command(subcommand)]
    pub what: TestbedDo,
}

/// What to do with a testbed.
#[derive(Subcommand, Debug)]
pub enum TestbedDo {
    /// Build one, which stands until Ctrl-C. Needs root.
    Up(TestbedUp),
    /// Remove what is left of builders that are no more.
    Down(TestbedDown),
    /// List the namespaces that were built, and whether their builder still runs.
    List,
}

/// `cavy-live testbed up`.
#[derive(Arguments, Debug)]
#[command(after_help = "Examples:
  cavy-live testbed up                               6 hosts at 100 Mb/s
  cavy-live testbed up --hosts 2 --mbit 1000

Then, from another terminal, for a host that is listed:
  ip netns exec cavy-4711-815-h0 sh

A port of the switch sends the highest of eight levels first: the upper three bits of TOS. Rates are
those of Ethernet, with preamble, gap and shortest frame. The builder's name is in those of the
namespaces; what a killed one leaves is removed by `cavy-live testbed down` or the next builder.")]
pub struct TestbedUp {
    /// Hosts around the switch.
    #[arg(long, value_name = "N", default_value = "6",
        value_parser = clap::value_parser!(u16).range(2..=64))]
    pub hosts: u16,
    /// Rate of each link in Mb/s.
    #[arg(long, value_name = "N", default_value = "100",
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub mbit: u32,
    /// Room of each level at each port of the switch, in kB.
    #[arg(long, value_name = "N", default_value = "256",
        value_parser = clap::value_parser!(u32).range(2..=100_000))]
    pub level_kb: u32,
    /// All packets share one level.
    #[arg(long)]
    pub no_levels: bool,
    /// Say where the hosts are as one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `cavy-live testbed down`.
#[derive(Arguments, Debug)]
pub struct TestbedDown {
    /// Also those whose builder still runs.
    #[arg(long)]
    pub all: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn study(line: &str) -> Study {
        match Args::try_parse_from(line.split_whitespace()).map(|args| args.command) {
            Ok(Command::Study(study)) => study,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn the_command_that_a_report_names_measures_the_same_again() {
        for line in [
            "cavy-live study",
            "cavy-live study l1 l4 --seconds 2.5 --repetitions 3 --seed 7 --peers darc,c-fcfs \
             --wait sleep",
            "cavy-live study costs --probe 0ns --quick",
            "cavy-live study homa --seconds 9 --repetitions 5 --seed 18446744073709551615 \
             --transports homa,pool-bbr --workloads w3,w5 --loads 50,80 --parts slowdown --mbit 25 \
             --quick",
        ] {
            let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(study(&line).again(None), line);
        }
        let both =
            study("cavy-live study l2 homa --peers darc --mbit 50 --out here --json --resume");
        assert_eq!(both.again(Some(StudyName::L2)), "cavy-live study l2 --peers darc");
        assert_eq!(both.again(Some(StudyName::Homa)), "cavy-live study homa --mbit 50");
    }
}
