//! The command `cavy live txn`: nodes of DAST as processes, which clients of Redis speak to.
//!
//! `node` runs one node of a cluster that a file describes; `--local` starts them all on this
//! machine, with distances between regions; `config` writes such a file for several hosts; `status`
//! asks nodes how they are; `measure` runs clients and says how long their transactions take;
//! `replay` lets a fresh machine decide what a node recorded. [`config`] is the file, `node` a
//! process, `local` a cluster of them, `line` the distance between its regions.

pub mod config;
mod http;
mod line;
mod local;
mod measure;
mod node;
mod served;
mod status;

pub use config::{Config, Shape};

use clap::{Args, Subcommand};
use std::fmt;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Why the command failed.
#[derive(Debug)]
pub struct Fault {
    text: String,
    hints: Vec<String>,
    /// The exit code.
    pub code: u8,
}

impl Fault {
    /// Something that was asked for failed.
    pub fn new(text: impl fmt::Display) -> Fault {
        Fault { text: text.to_string(), hints: Vec::new(), code: 1 }
    }

    /// Something that was written is wrong.
    pub fn input(text: impl fmt::Display) -> Fault {
        Fault { code: 2, ..Fault::new(text) }
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl fmt::Display) -> Fault {
        self.hints.push(hint.to_string());
        self
    }

    /// What is wrong, without the hints.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What to do about it.
    pub fn hints(&self) -> &[String] {
        &self.hints
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.text)?;
        self.hints.iter().try_for_each(|hint| write!(f, "\n  hint: {hint}"))
    }
}

/// Says something on stderr. If nobody can hear it, so be it.
pub fn talk(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Prints a line of data.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}");
    let _ = out.flush();
}

/// A store of transactions across regions, which clients of Redis speak to.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  cavy live txn --local 3x2x3                        three regions, two shards each, three replicas
  cavy live txn --local 3x2x3 --wan line             as root: TCP sees the distance as well
  redis-cli -p 7000 set '{r0}:a' 1                   a transaction of one region
  redis-cli -p 7000 mset '{r0}:a' 1 '{r2}:b' 2       one across regions
  cavy live txn config 3x1x3 --hosts 10.0.0.1,10.0.0.2,10.0.0.3 > cluster.toml
  cavy live txn node --config cluster.toml --id 4    one node of it
  cavy live txn status --config cluster.toml         how all of them are
  cavy live txn measure --local 3x2x3                how long transactions take"
)]
pub struct Txn {
    /// Start a whole cluster on this machine: regions x shards of each x replicas of each.
    #[arg(long, value_name = "RxSxP")]
    pub local: Option<Shape>,
    /// How the local cluster is.
    #[command(flatten)]
    pub how: local::How,
    /// What to do instead.
    #[command(subcommand)]
    pub what: Option<What>,
}

/// What to do.
#[derive(Subcommand, Debug)]
pub enum What {
    /// Run one node of a cluster.
    Node(node::NodeArgs),
    /// Print the file of a cluster.
    Config(ConfigArgs),
    /// Ask the nodes of a cluster how they are.
    Status(StatusArgs),
    /// Run clients at every shard, and say how long their transactions take.
    Measure(Box<measure::MeasureArgs>),
    /// Let a fresh machine decide what a node has recorded.
    Replay {
        /// Recordings, which `node --record` has written.
        files: Vec<PathBuf>,
    },
}

/// What the file of a cluster is to say.
#[derive(Args, Debug)]
pub struct ConfigArgs {
    /// Regions x shards of each x replicas of each.
    pub shape: Shape,
    /// A host for each region, in order, or one for all.
    #[arg(long, value_delimiter = ',', default_value = "127.0.0.1")]
    pub hosts: Vec<String>,
    /// Names of the regions, in order.
    #[arg(long, value_delimiter = ',')]
    pub regions: Vec<String>,
    /// The first port between nodes; clients and status have those 1,000 and 2,000 above.
    #[arg(long, default_value_t = 16_000)]
    pub port: u16,
}

/// Whom to ask.
#[derive(Args, Debug)]
pub struct StatusArgs {
    /// The file of the cluster.
    #[arg(long)]
    pub config: PathBuf,
}

/// Does what was asked for. `above`: the words before the command's own, by which this program
/// starts itself again for each node.
///
/// # Errors
/// What is wrong with what was written, or failed.
pub fn txn(args: &Txn, above: &[&str]) -> Result<ExitCode, Fault> {
    match (&args.what, args.local) {
        (Some(What::Node(args)), _) => node::run(args),
        (Some(What::Config(args)), _) => {
            let config = Config::of(args.shape, &args.regions, &args.hosts, args.port)?;
            say(&config.text());
            Ok(ExitCode::SUCCESS)
        }
        (Some(What::Status(args)), _) => status::status(&Config::load(&args.config)?),
        (Some(What::Measure(args)), _) => measure::measure(args, above),
        (Some(What::Replay { files }), _) => node::replay(files),
        (None, Some(shape)) => local::local(shape, &args.how, above),
        (None, None) => Err(Fault::input("nothing to do")
            .hint("`--local 3x2x3` starts a cluster on this machine")
            .hint("`node --config FILE --id N` runs one node of a cluster")),
    }
}
