//! What can be typed.

use clap::{Args as Arguments, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

/// Tail latency: the published remedies, made again on this machine, and tried on your own
/// workload.
#[derive(Parser, Debug)]
#[command(
    name = "cavy",
    version,
    after_help = "Examples:
  cavy reproduce                 make all figures again, in about ten minutes, and judge the claims
  cavy explain persephone.fig3   what a figure's claims say and where they come from
  cavy ask                       which of the causes of a slow tail to look at first
  cavy plan new                  write a commented plan for your own workload
  cavy run plan.toml             which policy would help it, and whom it would cost
  cavy compare before after      what differs between two reports

Exit codes: 0 success, 1 a claim or check failed, 2 wrong usage or input, 130 interrupted.
Results go to stdout, messages to stderr; NO_COLOR is respected."
)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Make published figures again and judge what their sources claim.
    Reproduce(Reproduce),
    /// Run your own experiment: a workload, the policies to compare, what is good enough.
    Run(Run),
    /// List systems, figures, kinds of plans and templates.
    List(List),
    /// Say what a claim claims, where it stands, and how it is judged.
    Explain(Explain),
    /// Write, check and describe plan files.
    Plan(Plan),
    /// Say which cause of a slow tail to look at first, and which plan to run.
    Ask(Ask),
    /// Say what differs between two reports, and whether the difference is clear.
    Compare(Compare),
    /// Judge a history of transactions: is it serializable, and if not, why not.
    Check(CheckHistory),
    /// Fit coordinates to measured round trips, and ask them who is near.
    #[command(subcommand)]
    Coords(Coords),
    /// Servers on real threads and sockets; runs the program `cavy-live`.
    #[command(disable_help_flag = true)]
    Live(Live),
    /// Send requests on a schedule and measure latency; runs `cavy-live load`.
    #[command(disable_help_flag = true)]
    Load(Live),
    /// Decide a recorded live run again and predict it in the lab; runs `cavy-live replay`.
    #[command(disable_help_flag = true)]
    Replay(Live),
    /// Say what this machine has of what live runs need; runs `cavy-live doctor`.
    #[command(disable_help_flag = true)]
    Doctor(Live),
    /// Print the completions of a shell.
    Completions(Completions),
    /// Print the manual page.
    Man,
}

/// `cavy ask`.
#[derive(Arguments, Debug)]
#[command(after_help = "Examples:
  cavy ask                                       asks on a terminal, lists the questions elsewhere
  cavy ask --yes mixed,busy --no regions         answers by key
  cavy ask access.log --workers 16 --write plan.toml
                                                 of nginx or Apache; the plan plays the log
  cavy ask traces.json --write plan.toml         of Jaeger, OpenTelemetry or Zipkin
  cavy ask answers.pcap                          packets, by tcpdump or Wireshark
  cavy ask --latencies latencies.csv --unit ms   looks for stalls that timers make
  cavy ask --busy-times busy.csv                 compares types of requests, one column a type

It ranks the causes by what speaks for them, names the questions that are open, and says which plan
measures the first cause. `--write` writes that plan. A file is known by what is in it, not by its
name. Lines of an access log must end with the time that the request took: $request_time in nginx's
log_format, %D in Apache's LogFormat.")]
pub struct Ask {
    /// Access logs, traces of requests (JSON) or captures of packets (pcap, pcapng) to look at.
    #[arg(value_name = "FILES")]
    pub files: Vec<PathBuf>,
    /// Questions whose answer is yes, by key.
    #[arg(long, value_name = "KEYS", value_delimiter = ',')]
    pub yes: Vec<String>,
    /// Questions whose answer is no, by key.
    #[arg(long, value_name = "KEYS", value_delimiter = ',')]
    pub no: Vec<String>,
    /// A CSV file of latencies that users saw; its first line names the columns.
    #[arg(long, value_name = "FILE")]
    pub latencies: Option<PathBuf>,
    /// A CSV file of the times for which a worker was busy, one column for each type of request.
    #[arg(long, value_name = "FILE")]
    pub busy_times: Option<PathBuf>,
    /// Unit of the times in CSV files and logs: in CSV files us when absent, in logs s where they
    /// have decimals and us where they have none.
    #[arg(long, value_enum, value_name = "UNIT")]
    pub unit: Option<TimeUnit>,
    /// Requests that the server of a log runs at once: its threads, connections or cores.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub workers: Option<u16>,
    /// Write the plan that measures the likeliest cause to this file.
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// Overwrite that file if it is there.
    #[arg(long)]
    pub force: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// A unit of time.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// Microseconds.
    Us,
    /// Milliseconds.
    Ms,
    /// Seconds.
    S,
}

impl TimeUnit {
    /// Microseconds of one.
    pub fn us(self) -> f64 {
        match self {
            TimeUnit::Us => 1.0,
            TimeUnit::Ms => 1e3,
            TimeUnit::S => 1e6,
        }
    }
}

/// How to run, for all commands that simulate.
#[derive(Arguments, Debug)]
pub struct Manner {
    /// Cores to use; all when absent. Results do not depend on it.
    #[arg(long, short, value_name = "N", allow_negative_numbers = true, value_parser = jobs)]
    pub jobs: Option<u16>,
    /// Root of all random streams.
    #[arg(long, value_name = "S", allow_negative_numbers = true, value_parser = seed)]
    pub seed: Option<u64>,
    /// Folder for the report and the results.
    #[arg(long, short, value_name = "DIR", default_value = "cavy-out")]
    pub out: PathBuf,
    /// Go on with an interrupted run in the same folder.
    #[arg(long)]
    pub resume: bool,
    /// Print one JSON object instead of tables.
    #[arg(long)]
    pub json: bool,
    /// Run everything twice and fail at the first event that differs.
    #[arg(long)]
    pub twice: bool,
    /// Where pending events wait; each kind of plan has its own choice. Results do not depend on
    /// it.
    #[arg(long, value_name = "QUEUE")]
    pub queue: Option<Queue>,
    /// Shuffle simultaneous events by this seed; results must not depend on it.
    #[arg(long, value_name = "SEED", value_parser = seed)]
    pub shuffle_ties: Option<u64>,
}

/// Reads a number of cores.
fn jobs(text: &str) -> Result<u16, String> {
    let jobs = text.trim().parse().ok().filter(|jobs| (1..=1024).contains(jobs));
    jobs.ok_or_else(|| "it must be a whole number from 1 to 1024".to_string())
}

/// Reads a number of seeds.
fn seeds(text: &str) -> Result<u32, String> {
    let seeds = text.trim().parse().ok().filter(|seeds| (2..=1000).contains(seeds));
    seeds.ok_or_else(|| "it must be a whole number from 2 to 1000".to_string())
}

/// Reads a seed, as `7` or `0x7`.
fn seed(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let seed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    // A plan is TOML, whose integers end there.
    let seed = seed.ok().filter(|seed| i64::try_from(*seed).is_ok());
    seed.ok_or_else(|| "it must be a whole number from 0 to 9223372036854775807".to_string())
}

/// Where pending events wait.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// A heap of four children a node.
    Heap,
    /// A hierarchical timing wheel.
    Wheel,
}

impl From<Queue> for cavy_study::point::Queue {
    fn from(queue: Queue) -> Self {
        match queue {
            Queue::Heap => cavy_study::point::Queue::Heap,
            Queue::Wheel => cavy_study::point::Queue::Wheel,
        }
    }
}

/// `cavy reproduce`.
#[derive(Arguments, Debug)]
#[command(after_help = "Examples:
  cavy reproduce                         everything, quick
  cavy reproduce persephone --full       one system with the sample sizes of its specification
  cavy reproduce persephone.fig3         one figure; `cavy list` names them
  cavy reproduce --json > claims.json    for a program
  cavy reproduce --full --resume         go on after Ctrl-C
  cavy reproduce persephone --seeds 20   do verdicts depend on the seed? writes seeds.md as well

Ends with the table of claims. Writes report.html, report.json, claims.json, series.csv, tables.csv,
points.jsonl and svg/ into the folder given by --out. Exit code 1 when a claim is not reproduced.")]
pub struct Reproduce {
    /// Systems or figures, such as `persephone` or `persephone.fig3`; all when absent.
    #[arg(value_name = "SYSTEM|FIGURE")]
    pub names: Vec<String>,
    /// Sizes that take a minute or two a system; the default.
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,
    /// The sample sizes of the specification.
    #[arg(long)]
    pub full: bool,
    /// Judge with so many seeds, from that of `--seed` on, and write a table of verdicts by seed.
    #[arg(long, value_name = "N", value_parser = seeds)]
    pub seeds: Option<u32>,
    /// How to run.
    #[command(flatten)]
    pub manner: Manner,
}

/// `cavy run`.
#[derive(Arguments, Debug)]
#[command(after_help = "Examples:
  cavy run plan.toml
  cavy run plan.toml --set load=0.9 --set policies.darc.window=5000
  cavy run - < plan.toml                 the plan on standard input
  cavy run plan.toml --precision 5%      replicate until every percentile is that certain
  cavy run plan.toml --quick             with the values under [quick] in the plan
  cavy run plan.toml --json | jq .ranking

Elements of a list are named by their name, label or keyword, or by number from 0:
  --set types.get.share=0.7 --set policies.0.label=ours

Prints an estimate first, and refuses what would take more than half an hour or half of the free
memory unless --accept-cost is given. Writes the same files as `cavy reproduce`.")]
pub struct Run {
    /// The plan; `-` reads it from standard input.
    #[arg(value_name = "PLAN.toml")]
    pub plan: PathBuf,
    /// Replace a value of the plan; may be given often, the last one counts.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Use the plan's `[quick]` values.
    #[arg(long)]
    pub quick: bool,
    /// Replicate until every 95 % interval is within this of its value, such as `5%`.
    #[arg(long, value_name = "RATIO", allow_negative_numbers = true, value_parser = precision)]
    pub precision: Option<f64>,
    /// Run although the estimate is large.
    #[arg(long)]
    pub accept_cost: bool,
    /// How to run.
    #[command(flatten)]
    pub manner: Manner,
}

/// Reads a time above nothing.
fn milliseconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(ms) if ms > 0.0 && ms.is_finite() => Ok(ms),
        _ => Err("write milliseconds above 0, such as 75".to_string()),
    }
}

/// Reads `5%` or `0.05`.
fn precision(text: &str) -> Result<f64, String> {
    let (number, scale) = match text.trim().strip_suffix('%') {
        Some(number) => (number.trim_end(), 0.01),
        None => (text.trim(), 1.0),
    };
    let wrong = || "write it as `5%` or `0.05`".to_string();
    let ratio = number.parse::<f64>().map_err(|_| wrong())? * scale;
    if ratio > 0.0 && ratio < 1.0 { Ok(ratio) } else { Err("it must be between 0 and 100%".into()) }
}

/// `cavy compare`.
#[derive(Arguments, Debug)]
#[command(after_help = "Examples:
  cavy run plan.toml --out before; (change something); cavy run plan.toml --out after
  cavy compare before after                what differs clearly
  cavy compare before after --all          every value of both
  cavy compare before after --out both     plots of both in one report
  cavy compare before after --same         exit code 1 if anything differs clearly

A difference is clear if the 95 % intervals do not overlap; of values without an interval, if they
are not equal. Two runs of one seed meet the same requests, so that small differences may be real
although they are not clear; the ranking of one plan with both as policies finds those.")]
pub struct Compare {
    /// The folder of a report, or its `report.json`.
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,
    /// The other one.
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,
    /// Show values that may differ by chance as well.
    #[arg(long)]
    pub all: bool,
    /// Exit with code 1 if a value differs clearly.
    #[arg(long)]
    pub same: bool,
    /// Write a report with the curves of both.
    #[arg(long, short, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `cavy list`.
#[derive(Arguments, Debug)]
pub struct List {
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `cavy explain`.
#[derive(Arguments, Debug)]
#[command(after_help = "Examples:
  cavy explain persephone.fig3            all claims of a figure
  cavy explain persephone.fig3.capacity   one claim")]
pub struct Explain {
    /// A claim, or a figure or system for all of theirs.
    #[arg(value_name = "CLAIM")]
    pub name: String,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `cavy plan`.
#[derive(Arguments, Debug)]
pub struct Plan {
    /// What to do with plans.
    #[command(subcommand)]
    pub command: PlanCommand,
}

/// The commands about plans.
#[derive(Subcommand, Debug)]
pub enum PlanCommand {
    /// Write a commented plan to start from.
    New(New),
    /// Write a plan of services from traces of their requests.
    FromTraces(FromTraces),
    /// Check plans and say what they would cost.
    Check(Check),
    /// Print the JSON schema of plans, for editors.
    Schema(Schema),
    /// Print what keys there are, for readers: Markdown.
    Keys(Keys),
}

/// `cavy plan new`.
#[derive(Arguments, Debug)]
#[command(after_help = "Examples:
  cavy plan new                                       writes plan.toml
  cavy plan new mine.toml --template measured         starts from service times in a CSV file
  cavy plan new net.toml --template network           message sizes, a network, transports
  cavy plan new fig3.toml --template persephone.fig3  the plan of a published figure
  cavy plan new -                                     prints it")]
pub struct New {
    /// The file to write; `-` prints it.
    #[arg(value_name = "FILE", default_value = "plan.toml")]
    pub file: PathBuf,
    /// A template or a figure; `cavy list` names them.
    #[arg(long, value_name = "NAME", default_value = "minimal")]
    pub template: String,
    /// Overwrite files that are there.
    #[arg(long)]
    pub force: bool,
}

/// `cavy plan from-traces`.
#[derive(Arguments, Debug)]
#[command(after_help = "Examples:
  cavy plan from-traces traces.json                     writes plan.toml
  cavy plan from-traces traces.json shop.toml --clients 64 --cores 2
  cavy plan from-traces spans.jsonl - --host-cores 8    prints it; all services share 8 cores

It reads what Jaeger, OpenTelemetry (also one object a line) and Zipkin write as JSON. Visits, calls
in turn or at once, and times come from the traces; CPU time, clients and cores do not, and the plan
says so where they stand.")]
pub struct FromTraces {
    /// The traces.
    #[arg(value_name = "TRACES")]
    pub traces: PathBuf,
    /// The plan to write; `-` prints it.
    #[arg(value_name = "FILE", default_value = "plan.toml")]
    pub file: PathBuf,
    /// Clients that ask, get an answer, and ask again; as many as requests were under way if
    /// absent.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub clients: Option<u32>,
    /// Cores of each service, its own.
    #[arg(long, value_name = "N", default_value = "1",
        value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub cores: u16,
    /// Cores of one host that all services share.
    #[arg(long, value_name = "N", conflicts_with = "cores",
        value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub host_cores: Option<u16>,
    /// Overwrite a file that is there.
    #[arg(long)]
    pub force: bool,
}

/// `cavy plan schema`.
#[derive(Arguments, Debug)]
#[command(after_help = "Examples:
  cavy plan schema > cavy-plan.json   for an editor: what `kind` says decides which keys there are
  cavy plan schema server             of one kind of plan")]
pub struct Schema {
    /// The kind of plan, such as `server`; all when absent.
    #[arg(value_name = "KIND")]
    pub kind: Option<String>,
}

/// `cavy plan keys`.
#[derive(Arguments, Debug)]
#[command(after_help = "Examples:
  cavy plan keys            the keys that all plans share
  cavy plan keys network    those of one kind of plan")]
pub struct Keys {
    /// The kind of plan, such as `server`; the keys that all share when absent.
    #[arg(value_name = "KIND")]
    pub kind: Option<String>,
}

/// `cavy plan check`.
#[derive(Arguments, Debug)]
pub struct Check {
    /// The plans.
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Replace a value, as for `cavy run`.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Check the plan with its `[quick]` values.
    #[arg(long)]
    pub quick: bool,
}

/// `cavy coords`.
#[derive(Subcommand, Debug)]
pub enum Coords {
    /// Fit coordinates to measured round trips, say how good they are, and write them to a file.
    Fit(CoordsFit),
    /// Say how long round trips from one node take.
    Predict(CoordsPredict),
    /// Rank servers for a player or a party.
    Rank(CoordsRank),
    /// Choose sites.
    Place(CoordsPlace),
}

/// `cavy coords fit`.
#[derive(Arguments, Debug)]
#[command(after_help = "Examples:
  cavy coords fit --nodes nodes.csv --pairs pairs.csv      from measured pairs, in their order
  cavy coords fit --nodes nodes.csv --matrix rtt_ms.csv    from a square of round trips

A file of nodes has the column name, and where they are known lat and lon, or with --mmdb ip. A
file of pairs has from, to, rtt_ms, and if known time_s. A square has a row and a column for each
node, in their order.")]
pub struct CoordsFit {
    /// The nodes, a CSV file.
    #[arg(long, value_name = "FILE")]
    pub nodes: PathBuf,
    /// Measured pairs, a CSV file.
    #[arg(long, value_name = "FILE", conflicts_with = "matrix")]
    pub pairs: Option<PathBuf>,
    /// A square of round trips in milliseconds, a CSV file without heads.
    #[arg(long, value_name = "FILE")]
    pub matrix: Option<PathBuf>,
    /// A database of cities in MaxMind's format: where nodes with an ip, but no lat and lon, are.
    #[arg(long, value_name = "FILE")]
    pub mmdb: Option<PathBuf>,
    /// Where coordinates are written.
    #[arg(long, value_name = "FILE", default_value = "space.json")]
    pub out: PathBuf,
    /// Also draw where nodes ended: a page if the name ends in .html, else a drawing (SVG).
    #[arg(long, value_name = "FILE")]
    pub map: Option<PathBuf>,
    /// Which pairs are hidden, and who probes whom in a square.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true,
        value_parser = seed)]
    pub seed: u64,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `cavy coords predict`.
#[derive(Arguments, Debug)]
pub struct CoordsPredict {
    /// What `cavy coords fit` wrote.
    #[arg(value_name = "SPACE")]
    pub space: PathBuf,
    /// From whom.
    #[arg(long, value_name = "NODE")]
    pub from: String,
    /// To whom, by commas; everybody when absent.
    #[arg(long, value_name = "NODES", value_delimiter = ',')]
    pub to: Vec<String>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `cavy coords rank`.
#[derive(Arguments, Debug)]
#[command(after_help = "Examples:
  cavy coords rank space.json --for alice,bob --among frankfurt,virginia
  cavy coords rank space.json --for alice,bob --below 75   who is most likely below 75 ms for both

The chance that a round trip is below a limit comes from the pairs that `cavy coords fit` hid from
itself. cavy takes the hidden pairs with about the same prediction, and counts how many would be
below the limit if this prediction were wrong by the same factor as theirs. That needs 30 hidden
pairs, so 150 measured ones. The chance of a party is the product of the chances of its players, as
if their errors were independent. If a round trip was measured, its measured value decides.")]
pub struct CoordsRank {
    /// What `cavy coords fit` wrote.
    #[arg(value_name = "SPACE")]
    pub space: PathBuf,
    /// The player, or all of a party, by commas.
    #[arg(long, value_name = "NODES", value_delimiter = ',', required = true)]
    pub r#for: Vec<String>,
    /// The servers, by commas; all nodes when absent.
    #[arg(long, value_name = "NODES", value_delimiter = ',')]
    pub among: Vec<String>,
    /// Rank by how likely everybody's round trip is below so many milliseconds.
    #[arg(long, value_name = "MS", allow_negative_numbers = true, value_parser = milliseconds)]
    pub below: Option<f64>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `cavy coords place`.
#[derive(Arguments, Debug)]
#[command(after_help = "Example:
  cavy coords place space.json --sites 3 --goal majority    where to put three replicas")]
pub struct CoordsPlace {
    /// What `cavy coords fit` wrote.
    #[arg(value_name = "SPACE")]
    pub space: PathBuf,
    /// Sites to choose.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub sites: usize,
    /// Who uses them, by commas; all nodes when absent.
    #[arg(long, value_name = "NODES", value_delimiter = ',')]
    pub r#for: Vec<String>,
    /// Places that can be chosen, by commas; all nodes when absent.
    #[arg(long, value_name = "NODES", value_delimiter = ',')]
    pub among: Vec<String>,
    /// What is to be small.
    #[arg(long, value_name = "GOAL", default_value = "mean")]
    pub goal: PlaceGoal,
    /// Also draw sites and who goes to which: a page if the name ends in .html, else a drawing
    /// (SVG).
    #[arg(long, value_name = "FILE")]
    pub map: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// What sites are to make small.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub enum PlaceGoal {
    /// The mean round trip to the nearest site.
    Mean,
    /// The longest round trip to the nearest site.
    Worst,
    /// The mean time until a majority of sites has answered.
    Majority,
}

/// `cavy check`.
#[derive(Arguments, Debug)]
#[command(after_help = "Examples:
  cavy check history.jsonl                             is it serializable?
  cavy check history.edn --model strict-serializable   a history of Jepsen; real time counts too
  cavy check run.jsonl --json | jq .counts             for a program

A history has what clients asked for and what they were answered, one JSON object a line:
  {\"txn\":\"a\",\"ops\":[[\"append\",\"x\",1],[\"r\",\"y\",[2]]]}
or Jepsen's events, as JSON or EDN; docs/reference/histories.md describes all lines. Anomalies are
counted by class and shown as the smallest cycle. Exit code 1 when the model forbids one.")]
pub struct CheckHistory {
    /// The history; `-` reads standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// What the store promises.
    #[arg(long, value_name = "MODEL", default_value = "serializable")]
    pub model: PromisedModel,
    /// The format; told from the first characters when absent.
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<HistoryFormat>,
    /// Anomalies to describe of each name; all are counted.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub show: usize,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// What a store promises.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub enum PromisedModel {
    /// No dirty writes.
    ReadUncommitted,
    /// No reads of what was rolled back or half done.
    ReadCommitted,
    /// No lost updates and no read skew.
    SnapshotIsolation,
    /// As if one after another.
    Serializable,
    /// And each client in its own order.
    SessionSerializable,
    /// And in real time within each region.
    RegionalSerializable,
    /// And in real time.
    StrictSerializable,
}

/// How a history is written.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub enum HistoryFormat {
    /// One JSON object a line.
    Json,
    /// Jepsen's EDN.
    Edn,
}

/// `cavy live`, `cavy load`, `cavy replay` and `cavy doctor`, whose arguments another program
/// reads.
#[derive(Arguments, Debug)]
pub struct Live {
    /// Arguments of `cavy-live`; `--help` lists them.
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub args: Vec<OsString>,
}

/// `cavy completions`.
#[derive(Arguments, Debug)]
#[command(after_help = "Example:
  cavy completions bash > ~/.local/share/bash-completion/completions/cavy")]
pub struct Completions {
    /// The shell.
    pub shell: clap_complete::Shell,
}
