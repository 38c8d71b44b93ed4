//! The command `cavy-search`, which `cavy live search` becomes.
//!
//! stdout is data, stderr is talk. Exit codes: 0 success, 1 what was asked for failed, 2 wrong
//! usage or input.

use cavy_core::family::Node;
use cavy_search::cluster::many::Request;
use cavy_search_live::api;
use cavy_search_live::api::gate::Gate;
use cavy_search_live::cluster::Cluster;
use cavy_search_live::cluster::keeper::Keeper;
use cavy_search_live::cluster::local::Local;
use cavy_search_live::corpus;
use cavy_search_live::study;
use clap::{Args, Parser, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// A search cluster that changes p while it serves, and speaks as Elasticsearch does.
#[derive(Debug, Parser)]
#[command(name = "cavy live search", version, args_conflicts_with_subcommands = true)]
struct Command {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    local: LocalArgs,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Run one node of a cluster: directory, front end or server.
    Node(NodeArgs),
    /// Study a cluster on this machine under load, with every answer checked.
    Study(StudyArgs),
    /// Write documents for `_bulk`, and requests for `cavy load`, a file for each kind of query.
    Corpus(CorpusArgs),
    /// Measure what sub-queries take of a processor, by the documents they examine: tables that
    /// plans of the lab read.
    Cost(CostArgs),
}

/// A cluster on this machine.
#[derive(Debug, Args)]
struct LocalArgs {
    /// Start so many servers on this machine, with a directory and front ends; Ctrl-C ends all.
    #[arg(long, value_name = "SERVERS", value_parser = clap::value_parser!(u32).range(1..=64))]
    local: Option<u32>,
    /// Parts of a query, of an index that does not say; 1 to the number of servers of a ring.
    #[arg(long, default_value_t = 1)]
    p: u32,
    /// Rings that servers are dealt out to; each has all documents.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    rings: u32,
    /// Front ends, each with an HTTP port of its own.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=8))]
    front_ends: u32,
    /// Where the first front end hears clients; a free port of 127.0.0.1 if not given.
    #[arg(long)]
    http: Option<SocketAddr>,
    /// Where logs are kept. Not given: in a folder that is removed at the end.
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Acknowledge writes when the system has them, before they are synced.
    #[arg(long)]
    unsynced: bool,
    /// Nodes that are killed stay away.
    #[arg(long)]
    stay_away: bool,
}

/// One node.
#[derive(Debug, Args)]
struct NodeArgs {
    /// The description of the cluster, the same for all nodes.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Which node: 0 is the directory, then come front ends, then servers.
    #[arg(long)]
    node: u32,
    /// Where its log is kept.
    #[arg(long, value_name = "DIR")]
    folder: PathBuf,
    /// End when this process ends.
    #[arg(long, hide = true)]
    parent: Option<u32>,
}

/// What sub-queries take.
#[derive(Debug, Args)]
struct CostArgs {
    /// Documents: a text of UTF-8, a document each line.
    #[arg(long, value_name = "FILE")]
    texts: PathBuf,
    /// Where `cost_sealed.csv`, `cost_text.csv` and `cost_query.csv` are written.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Sub-queries of each of ten sizes, and of each sort.
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    repetitions: u32,
    /// Of words and slices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// A study.
#[derive(Debug, Args)]
struct StudyArgs {
    /// What happens while queries and writes go on.
    #[arg(value_enum)]
    which: Which,
    /// Servers.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=64))]
    servers: u32,
    /// Front ends.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=8))]
    front_ends: u32,
    /// The values of p, in turn; `kill`, `roll` and `tail` take the first.
    #[arg(long, value_delimiter = ',', default_value = "4,5,8,3,12,4")]
    p: Vec<u32>,
    /// Documents.
    #[arg(long, default_value_t = 2_000)]
    documents: u64,
    /// Queries a second.
    #[arg(long, default_value_t = 40.0)]
    queries: f64,
    /// Writes a second.
    #[arg(long, default_value_t = 20.0)]
    writes: f64,
    /// Writes of one request; above 1 they are sent as `_bulk`.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    bulk: u32,
    /// Seconds at each p; `change` stays at one that does not fall next for two at most.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Times that nodes are killed, told to end, or stand still.
    #[arg(long, default_value_t = 10)]
    cycles: u32,
    /// Queries a second that `delay` tries, in turn.
    #[arg(long, value_delimiter = ',', default_value = "10,40,80")]
    rates: Vec<f64>,
    /// Percent of a processor that each server has while `delay` measures; 10 is a millisecond of
    /// ten, and the system knows no less.
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0)]
    quota_percent: f64,
    /// A part that is so much later than predicted is sent to others as well; 0: never.
    #[arg(long, default_value_t = 0)]
    hedge_ms: u64,
    /// A part that is so much later than predicted is given to others.
    #[arg(long, default_value_t = 300)]
    margin_ms: u64,
    /// Of keys, kinds of writes and who is killed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The whole result as JSON.
    #[arg(long)]
    json: bool,
}

/// Documents and requests.
#[derive(Debug, Args)]
struct CorpusArgs {
    /// `packages`: paragraphs of the descriptions that apt has; `zipf`: words by Zipf's law; a file
    /// or a folder: paragraphs of texts, `.gz` and `.dz` unpacked.
    #[arg(value_name = "SOURCE")]
    source: String,
    /// Where files are written: `documents.ndjson`, and `rare.txt`, `middle.txt`, `frequent.txt`,
    /// `and.txt`, `or.txt`, `broad.txt`.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The index that documents go to and requests ask.
    #[arg(long, default_value = "texts")]
    index: String,
    /// Documents at most.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    documents: u64,
    /// Requests of each kind.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    requests: u32,
    /// Of words by Zipf's law, and of the words of requests.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Make the index and send the documents to the front end at this address.
    #[arg(long, value_name = "ADDRESS")]
    send: Option<SocketAddr>,
}

/// Which study.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Which {
    /// p goes up and down.
    Change,
    /// Servers, the directory and a front end are killed, and come back.
    Kill,
    /// Servers are told to end, one after the other, hand over what they hold, and come back.
    Roll,
    /// Each p at each of `--rates`: which has the least mean at which. Needs root.
    Delay,
    /// A server stands still for a second every twenty, with `--hedge-ms` and without.
    Tail,
}

fn main() -> ExitCode {
    let command = Command::parse();
    let done = match command.what {
        Some(What::Node(args)) => node(&args),
        Some(What::Study(args)) => study(&args),
        Some(What::Corpus(args)) => written(&args),
        Some(What::Cost(args)) => cost(&args),
        None => local(&command.local),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Fault(code, text)) => {
            eprintln!("error: {text}");
            ExitCode::from(code)
        }
    }
}

/// An exit code and a sentence.
struct Fault(u8, String);

fn wrong(text: impl ToString) -> Fault {
    Fault(2, text.to_string())
}

fn failed(text: impl ToString) -> Fault {
    Fault(1, text.to_string())
}

/// A node builds small segments all the time, for which tantivy asks for some megabytes. glibc
/// would give them back to the system each time, and have them cleared anew: 6 ms where 1 ms is
/// work. It reads this when a program starts.
const MEMORY: (&str, &str) = (
    "GLIBC_TUNABLES",
    "glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=33554432:\
     glibc.malloc.top_pad=1048576",
);

/// Starts this program once more in its own place, if glibc was not told how to keep memory. If
/// that fails it goes on as it is.
fn keep_memory() {
    if std::env::var_os(MEMORY.0).is_none()
        && let Ok(program) = std::env::current_exe()
    {
        use std::os::unix::process::CommandExt;
        let mut again = std::process::Command::new(program);
        let _ = again.args(std::env::args_os().skip(1)).env(MEMORY.0, MEMORY.1).exec();
    }
}

fn node(args: &NodeArgs) -> Result<(), Fault> {
    keep_memory();
    if let Some(parent) = args.parent {
        let signal = Some(rustix::process::Signal::QUIT);
        rustix::process::set_parent_process_death_signal(signal).map_err(failed)?;
        let own = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get() as u32);
        if own != Some(parent) {
            return Err(failed("whoever started this node has ended"));
        }
    }
    let path = args.config.display();
    let text = std::fs::read_to_string(&args.config).map_err(|e| wrong(format!("{path}: {e}")))?;
    let cluster = Cluster::read(&text).map_err(|error| wrong(format!("{path}: {error}")))?;
    let running = cluster.start(Node(args.node), &args.folder).map_err(failed)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(failed)?;
    let front_end = args.node.checked_sub(1).and_then(|n| cluster.front_ends.get(n as usize));
    let handle = running.live.handle().clone();
    let gate = Arc::new(Gate::new(handle.clone(), cluster.clone()));
    let (end, ending) = tokio::sync::watch::channel(false);
    let ended = runtime.block_on(async {
        use tokio::signal::unix::{SignalKind, signal};
        let mut term = signal(SignalKind::terminate()).map_err(failed)?;
        let mut quit = signal(SignalKind::quit()).map_err(failed)?;
        let serving = match front_end {
            None => None,
            Some(front_end) => {
                let listener = tokio::net::TcpListener::bind(front_end.http)
                    .await
                    .map_err(|error| failed(format!("{}: {error}", front_end.http)))?;
                Some(tokio::spawn(api::serve(gate, listener, ending)))
            }
        };
        let (tell, told) = tokio::sync::oneshot::channel::<Result<(), String>>();
        let live = running.live;
        std::thread::spawn(move || {
            let _ = tell.send(live.join().map_err(|fault| fault.to_string()));
        });
        tokio::pin!(told);
        let ended = tokio::select! {
            _ = term.recv() => {
                let server = cluster.layout().number(Node(args.node)).is_some();
                if server && cluster.leave_ms > 0 {
                    // It goes on answering until others have what it holds; told once more, or
                    // when that takes too long, it ends, and others answer by their copies.
                    let limit = Duration::from_millis(cluster.leave_ms);
                    tokio::select! {
                        () = leaves(&handle) => eprintln!("left the ring"),
                        () = tokio::time::sleep(limit) => {
                            eprintln!("ends without having left: that took longer than leave_ms");
                        }
                        _ = term.recv() => {}
                        _ = quit.recv() => {}
                    }
                }
                None
            }
            _ = quit.recv() => None,
            _ = tokio::signal::ctrl_c(), if args.parent.is_none() => None,
            ended = &mut told => ended.ok(),
        };
        if let Some(ended) = ended {
            return ended.map_err(failed);
        }
        // Requests under way are finished first, then what was stored is synced.
        let _ = end.send(true);
        if let Some(serving) = serving {
            let _ = tokio::time::timeout(Duration::from_secs(5), serving).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        handle.stop();
        match tokio::time::timeout(Duration::from_secs(5), told).await {
            Ok(Ok(ended)) => ended.map_err(failed),
            _ => Ok(()),
        }
    });
    runtime.shutdown_timeout(Duration::from_millis(200));
    ended
}

/// Waits until this server is on no ring any more.
async fn leaves(handle: &cavy_node::Handle<Keeper>) {
    let (tell, told) = tokio::sync::oneshot::channel();
    handle.call(Request::Leave, move |response| drop(tell.send(response)));
    let _ = told.await;
}

fn local(args: &LocalArgs) -> Result<(), Fault> {
    let Some(servers) = args.local else {
        return Err(wrong(
            "what should run? `--local 12 --p 4` starts a cluster on this machine; `node --config \
             FILE --node N --folder DIR` one node of any",
        ));
    };
    if args.rings > servers {
        return Err(wrong(format!("--rings is {}, and must be 1 to {servers}", args.rings)));
    }
    let most = servers / args.rings;
    if args.p == 0 || args.p > most {
        return Err(wrong(format!("--p is {}, and must be 1 to {most}", args.p)));
    }
    let (folder, temporary) = match &args.folder {
        Some(folder) => (folder.clone(), false),
        None => {
            let name = format!("cavy-search-{}", std::process::id());
            (std::env::temp_dir().join(name), true)
        }
    };
    let program = std::env::current_exe().map_err(failed)?;
    let change = |cluster: &mut Cluster| {
        (cluster.p, cluster.rings) = (args.p, args.rings);
        cluster.synced = !args.unsynced;
    };
    let mut local = Local::new(&program, &folder, (servers, args.front_ends), args.http, change)
        .map_err(wrong)?;
    local.comes_back = !args.stay_away;
    local.start_all().map_err(failed)?;
    let http = local.cluster.front_ends[0].http;
    eprintln!(
        "{servers} servers, {} front ends, a directory; logs in {}",
        local.cluster.front_ends.len(),
        folder.display()
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended = runtime.map_err(failed)?.block_on(async {
        let mut term = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
            .map_err(failed)?;
        let mut greeted = false;
        loop {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => return Ok(()),
                _ = term.recv() => return Ok(()),
                () = tokio::time::sleep(Duration::from_millis(100)) => {}
            }
            local.look().iter().for_each(|told| eprintln!("{told}"));
            if !greeted && tokio::net::TcpStream::connect(http).await.is_ok() {
                greeted = true;
                println!("http://{http}");
                eprintln!("{}", greeting(http));
            }
        }
    });
    eprintln!("ending");
    local.end();
    if temporary {
        let _ = std::fs::remove_dir_all(&folder);
    }
    ended
}

/// The first lines that somebody may want to type.
fn greeting(http: SocketAddr) -> String {
    format!(
        "try:\n  curl -XPUT 'http://{http}/books/_doc/1?refresh=true' -H 'Content-Type: \
         application/json' -d '{{\"title\": \"Rendezvous on a ring\", \"year\": 2009}}'\n  curl \
         'http://{http}/books/_search?q=title:ring'\n  curl -XPUT 'http://{http}/books/_settings' \
         -H 'Content-Type: application/json' -d '{{\"index.roar.p\": 2}}'\n  curl \
         'http://{http}/_cat/shards?v'\nCtrl-C ends all nodes"
    )
}

fn written(args: &CorpusArgs) -> Result<(), Fault> {
    let source = corpus::Source::read(&args.source).map_err(wrong)?;
    let many = (args.documents, args.requests as usize, args.seed);
    let count = corpus::write(&args.out, &source, &args.index, many).map_err(failed)?;
    let folder = args.out.display();
    eprintln!("{count} documents, and {} requests of each kind, in {folder}", args.requests);
    if let Some(to) = args.send {
        let sent = corpus::send(&args.out, &args.index, to).map_err(failed)?;
        eprintln!("{sent} documents are in [{}] of {to}", args.index);
    }
    Ok(())
}

fn cost(args: &CostArgs) -> Result<(), Fault> {
    let path = args.texts.display();
    let text =
        std::fs::read_to_string(&args.texts).map_err(|error| wrong(format!("{path}: {error}")))?;
    let texts: Vec<String> = text.lines().map(str::to_owned).collect();
    let costs = study::cost::measure(&texts, args.repetitions, args.seed)
        .map_err(|error| wrong(format!("{path}: {error}")))?;
    let of = [("sealed", &costs.sealed), ("text", &costs.text), ("query", &costs.query)];
    for (name, samples) in of {
        let file = args.out.join(format!("cost_{name}.csv"));
        std::fs::write(&file, study::cost::csv(samples))
            .map_err(|error| failed(format!("{}: {error}", file.display())))?;
        println!("{}", file.display());
    }
    Ok(())
}

fn study(args: &StudyArgs) -> Result<(), Fault> {
    if let Some(p) = args.p.iter().find(|p| **p == 0 || **p > args.servers) {
        return Err(wrong(format!("--p has {p}, and must be 1 to {}", args.servers)));
    }
    let folder = std::env::temp_dir().join(format!("cavy-search-study-{}", std::process::id()));
    let program = std::env::current_exe().map_err(failed)?;
    let change = |cluster: &mut Cluster| {
        // One disk has the logs of all nodes here.
        cluster.synced = false;
        (cluster.hedge_ms, cluster.margin_ms) = (args.hedge_ms, args.margin_ms);
    };
    if let Some(rate) = args.rates.iter().find(|rate| !(**rate > 0.0 && **rate <= 1e6)) {
        return Err(wrong(format!("--rates has {rate}, and must be above 0")));
    }
    if !(10.0..=100.0).contains(&args.quota_percent) {
        let percent = args.quota_percent;
        return Err(wrong(format!("--quota-percent is {percent}, and must be 10 to 100")));
    }
    let many = (args.servers, args.front_ends);
    let mut local = Local::new(&program, &folder, many, None, change).map_err(wrong)?;
    local.start_all().map_err(failed)?;
    let load = study::Load {
        keys: args.documents,
        queries_per_s: args.queries,
        writes_per_s: args.writes,
        bulk: args.bulk,
        broad: false,
        seed: args.seed,
    };
    let tell = |row: &serde_json::Value| {
        let number = |name: &str| row[name].as_f64().unwrap_or(f64::NAN);
        eprintln!(
            "{:<14} {:>6} queries  mean {:>8.1} ms  p50 {:>8.1}  p99 {:>8.1}  writes {:>5}  p99 \
             {:>8.1} ms  partial {}  settled {:.1} s",
            row["what"].as_str().unwrap_or(""),
            row["queries"],
            number("mean_ms"),
            number("p50_ms"),
            number("p99_ms"),
            row["writes"],
            number("writes_p99_ms"),
            row["partial"],
            row["settled_s"].as_f64().or(row["green_after_s"].as_f64()).unwrap_or(f64::NAN),
        );
    };
    let done = match args.which {
        Which::Change => {
            study::change(&mut local, load, &args.p, Duration::from_secs(args.seconds), tell)
        }
        Which::Kill => study::kill(&mut local, load, (args.p[0], args.cycles), tell),
        Which::Roll => study::roll(&mut local, load, (args.p[0], args.cycles), tell),
        Which::Delay => {
            let spreads = study::spread::Spreads {
                p: &args.p,
                rates: &args.rates,
                rest: Duration::from_secs(args.seconds),
                quota_percent: args.quota_percent,
            };
            study::spread::delay(&mut local, load, spreads, tell)
        }
        Which::Tail => study::stall::tail(&mut local, load, (args.p[0], args.cycles), tell),
    };
    local.end();
    let _ = std::fs::remove_dir_all(&folder);
    let result = done.map_err(failed)?;
    match args.json {
        true => println!("{result:#}"),
        false => println!("{:#}", result["checker"]),
    }
    match result["checker"]["faults"] == serde_json::json!(0) {
        true => Ok(()),
        false => Err(failed("the checker found faults")),
    }
}
