//! One node: its machine, its front end and its status page.

use crate::config::{Config, Protocol, Storage};
use crate::served::{Served, Standing};
use crate::{Fault, http, say, talk};
use cavy_core::Span;
use cavy_core::family::Node;
use cavy_node::{
    Codec, Durable, Figures, Handle, Links, LogOptions, NoJobs, Options, Postcard, ReplayError,
    Replayed, Skew, record, start,
};
use cavy_resp::request::Limits;
use cavy_resp::{Front, FrontOptions, Reply};
use cavy_testbed::space::Space;
use cavy_txn::dast::Dast;
use cavy_txn::locking::Locking;
use cavy_txn::slog::Slog;
use cavy_txn::{Layout, Request};
use clap::Args;
use std::cell::Cell;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The form of the words between nodes. It grows when they change.
const FORMAT: u32 = 3;

/// Which node, and how.
#[derive(Args, Debug)]
pub struct NodeArgs {
    /// The file of the cluster.
    #[arg(long)]
    pub config: PathBuf,
    /// Which of its nodes.
    #[arg(long)]
    pub id: u32,
    /// Its folder, for what it must remember. Without it, it must not be started twice.
    #[arg(long)]
    pub data: Option<PathBuf>,
    /// It was started before and its folder is lost.
    #[arg(long)]
    pub lost: bool,
    /// Record every step in this file, for `replay`.
    #[arg(long)]
    pub record: Option<PathBuf>,
    /// Its wall clock is ahead by so much; negative: behind.
    #[arg(long, default_value_t = 0, allow_hyphen_values = true)]
    pub skew_ms: i64,
    /// Its wall clock is fast by so many parts in a million; negative: slow.
    #[arg(long, default_value_t = 0, allow_hyphen_values = true)]
    pub drift_ppm: i64,
    /// End when the process that started this one ends.
    #[arg(long, hide = true)]
    pub with_parent: bool,
}

pub(crate) fn run(args: &NodeArgs) -> Result<ExitCode, Fault> {
    let config = Config::load(&args.config)?;
    match config.protocol {
        Protocol::Dast => serve::<Dast>(args, &config),
        Protocol::TwoPhase => serve::<Locking>(args, &config),
        Protocol::Slog => serve::<Slog>(args, &config),
    }
}

fn serve<M: Served>(args: &NodeArgs, config: &Config) -> Result<ExitCode, Fault>
where
    Postcard: Codec<M::Protocol>,
{
    let Some(own) = config.node(args.id).cloned() else {
        let last = config.nodes.len() - 1;
        let text = format!("node {} is not in {}", args.id, args.config.display());
        return Err(Fault::input(text).hint(format!("--id is 0 to {last}")));
    };
    if args.with_parent {
        let signal = Some(rustix::process::Signal::KILL);
        rustix::process::set_parent_process_death_signal(signal)
            .map_err(|error| Fault::new(format!("cannot follow the parent: {error}")))?;
    }
    let node = Node(args.id);
    let links = Links::new();
    let others: Vec<Node> = config.nodes.iter().map(|node| Node(node.id)).collect();
    for from in others.iter().filter(|from| **from != node) {
        if let Some(way) = config.way(*from, node) {
            links.set(*from, way);
        }
    }
    let mut config = config.clone();
    if args.data.is_none() {
        // It has no log, so nothing is gained by waiting for one.
        config.durable = Storage::Replicated;
    }
    let config = &config;
    let mut options = Options::new(config.cluster.clone(), node, own.address);
    options.key = config.key.clone().unwrap_or_default().into_bytes();
    options.format = FORMAT;
    options.peers = config.nodes.iter().map(|node| (Node(node.id), node.address)).collect();
    let durable = match config.durable {
        Storage::On => Durable::On,
        Storage::Replicated => Durable::Replicated,
    };
    options.log = args.data.as_ref().map(|folder| LogOptions { durable, ..LogOptions::at(folder) });
    options.lost_log = args.lost;
    let offset_ns = args.skew_ms.saturating_mul(1_000_000);
    options.skew = Skew { offset_ns, drift_ppm: args.drift_ppm };
    options.links = links;
    options.record = args.record.clone();
    options.about = config.text();
    let settings = M::settings(config)?;
    let make = move || M::build(settings, node);
    let begin = move || start(options, make, Postcard, NoJobs, |_, _| {});
    let live = match &own.space {
        // Its sockets, and the threads that open more, stay where they were begun.
        Some(space) => Space::open(space)?.within(begin)?,
        None => begin(),
    };
    let live = live.map_err(|error| {
        Fault::new(&error).hint("is the node running already, or its folder another node's?")
    })?;
    let handle = live.handle().clone();
    let front = match own.clients {
        Some(listen) => Some(front(config, &handle, listen)?),
        None => None,
    };
    let looked = handle.clone();
    let page = Page {
        look: Box::new(move || looked.look(Served::standing)),
        figures: Arc::clone(handle.figures()),
        life: handle.life(),
        front: front.as_ref().map(|front| Arc::clone(&front.figures)),
        part: config.part(args.id),
    };
    if let Some(listen) = own.status {
        http::serve(listen, page)
            .map_err(|error| Fault::new(format!("cannot tell the status on {listen}: {error}")))?;
    }
    let ending = handle.clone();
    ctrlc::set_handler(move || ending.stop())
        .map_err(|error| Fault::new(format!("cannot hear signals: {error}")))?;
    let clients = own.clients.map_or(String::new(), |at| format!(", clients on {at}"));
    say(&format!("node {} ({}) on {}{clients}", args.id, config.part(args.id), own.address));
    let ended = live.join();
    if let Some(front) = front {
        front.stop();
    }
    match ended {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(fault) => Err(Fault::new(format!("node {} ended: {fault}", args.id))),
    }
}

fn front<M: Served>(
    config: &Config,
    handle: &Handle<M>,
    listen: std::net::SocketAddr,
) -> Result<Front, Fault> {
    let places = config.places();
    let (layout, node) = (places.layout, handle.node());
    let (info, admin) = (handle.clone(), handle.clone());
    let options = FrontOptions {
        listen,
        password: config.password.clone(),
        region: layout.region_of_node(node),
        places,
        client: node.0 + 1,
        clients_max: 10_000,
        patience: Span::from_ms(10_000),
        slow: Span::from_ms(30_000),
        limits: Limits::of_nodes(),
        info: Box::new(move || information(&info)),
        admin: Box::new(move |words| administer(&admin, &layout, words)),
        wall: handle.wall().clone(),
    };
    let submit = handle.clone();
    let submit = Arc::new(move |txn, answer: Box<dyn FnOnce(cavy_txn::Response) + Send>| {
        submit.call(Request(Arc::new(txn)), answer);
    });
    Front::start(options, submit).map_err(Fault::new)
}

/// What a node is asked about itself.
pub(crate) struct Page {
    look: Box<dyn Fn() -> Option<Standing> + Send + Sync>,
    figures: Arc<Figures>,
    life: u64,
    front: Option<Arc<cavy_resp::front::FrontFigures>>,
    part: String,
}

impl Page {
    /// Metrics in Prometheus's text form.
    pub fn metrics(&self) -> String {
        let mut text = String::new();
        let figures = &self.figures;
        for (name, value) in figures.counters() {
            let kind = if matches!(name, "kept_bytes" | "peers_up") { "gauge" } else { "counter" };
            let total = if kind == "counter" { "_total" } else { "" };
            let _ = writeln!(
                text,
                "# TYPE cavy_txn_{name}{total} {kind}\ncavy_txn_{name}{total} {value}"
            );
        }
        let mut spans = vec![("step_late", &figures.late), ("log_sync", &figures.sync)];
        if let Some(front) = &self.front {
            spans.push(("answer_local", &front.local));
            spans.push(("answer_across", &front.across));
            for (name, value) in [
                ("clients", &front.clients),
                ("clients_turned_away", &front.turned_away),
                ("requests", &front.requests),
                ("uncertain", &front.uncertain),
            ] {
                let value = value.load(Relaxed);
                let _ = writeln!(text, "# TYPE cavy_txn_{name} gauge\ncavy_txn_{name} {value}");
            }
        }
        for (name, spans) in spans {
            let _ = writeln!(text, "# TYPE cavy_txn_{name}_seconds summary");
            for share in [0.5, 0.95, 0.99] {
                let value = spans.quantile(share).as_us() / 1e6;
                let _ = writeln!(text, "cavy_txn_{name}_seconds{{quantile=\"{share}\"}} {value}");
            }
            let (sum, count) = (spans.sum().as_us() / 1e6, spans.count());
            let _ = writeln!(
                text,
                "cavy_txn_{name}_seconds_sum {sum}\ncavy_txn_{name}_seconds_count {count}"
            );
        }
        if let Some(standing) = (self.look)() {
            for (name, value) in [
                ("ready", u64::from(standing.ready)),
                ("view", standing.view),
                ("view_members", standing.live as u64),
                ("backlog", standing.backlog as u64),
                ("coordinating", standing.coordinating as u64),
                ("stretched", u64::from(standing.stretched)),
            ] {
                let _ = writeln!(text, "# TYPE cavy_txn_{name} gauge\ncavy_txn_{name} {value}");
            }
        }
        text
    }

    /// One line of words and values.
    pub fn status(&self) -> String {
        let figures = &self.figures;
        let Some(standing) = (self.look)() else { return "the node has ended\n".into() };
        let late = figures.late.quantile(0.99).as_us() / 1e3;
        let mut text = format!(
            "part={}\nlife={}\nready={}\nview={}\nlive={}\nsteward={}\nbacklog={}\n\
             coordinating={}\nstretched={}\npeers_up={}\nbroken={}\nsteps={}\n\
             late_p99_ms={late:.3}\n",
            self.part,
            self.life,
            standing.ready,
            standing.view,
            standing.live,
            standing.steward,
            standing.backlog,
            standing.coordinating,
            standing.stretched,
            figures.peers_up.load(Relaxed),
            figures.broken.load(Relaxed),
            figures.steps.load(Relaxed),
        );
        if !standing.waits_for.is_empty() {
            let _ = writeln!(text, "waits_for={:?}", standing.waits_for);
        }
        if let Some(what) = standing.blocked {
            let _ = writeln!(text, "first={what}");
        }
        if let Some(why) = figures.refusal.lock().as_ref() {
            let _ = writeln!(text, "refused={why}");
        }
        text
    }
}

fn information<M: Served>(handle: &Handle<M>) -> String {
    let mut text = String::from("# Server\r\nredis_version:7.0.0\r\nredis_mode:standalone\r\n");
    let _ = write!(text, "cavy_node:{}\r\ncavy_life:{}\r\n", handle.node().0, handle.life());
    text += "# Replication\r\nrole:master\r\n# Stats\r\n";
    for (name, value) in handle.figures().counters() {
        let _ = write!(text, "{name}:{value}\r\n");
    }
    text
}

/// `CAVY CUT n`, `MEND n`, `CLOCK ms` and so on, for experiments.
fn administer<M: Served>(
    handle: &Handle<M>,
    layout: &Layout,
    words: &[Vec<u8>],
) -> Result<Reply, Reply> {
    let text: Vec<String> =
        words.iter().map(|word| String::from_utf8_lossy(word).to_ascii_uppercase()).collect();
    let text: Vec<&str> = text.iter().map(String::as_str).collect();
    let number = |word: &str| -> Result<i64, Reply> {
        word.parse().map_err(|_| Reply::err("value is not an integer or out of range"))
    };
    let node = |word: &str| {
        let node = u32::try_from(number(word)?).ok().filter(|node| *node < layout.nodes());
        let last = layout.nodes() - 1;
        node.map(Node).ok_or_else(|| Reply::err(format!("nodes are 0 to {last}")))
    };
    match text[..] {
        ["CUT", peer] => handle.links().cut(node(peer)?),
        ["MEND", peer] => handle.links().mend(node(peer)?),
        ["CLOCK", by_ms] => handle.wall().step(number(by_ms)?.saturating_mul(1_000_000)),
        ["STATUS"] => {
            let standing = handle.look(Served::standing);
            let standing = standing.ok_or_else(|| Reply::err("the node has ended"))?;
            let pairs = [
                ("ready", i64::from(standing.ready)),
                ("view", standing.view as i64),
                ("live", standing.live as i64),
                ("steward", standing.steward.into()),
                ("backlog", standing.backlog as i64),
                ("stretched", i64::from(standing.stretched)),
            ];
            let pairs = pairs.map(|(name, value)| (Reply::bulk(name), Reply::Int(value)));
            return Ok(Reply::Map(pairs.to_vec()));
        }
        _ => return Err(Reply::err("CAVY knows CUT n, MEND n, CLOCK ms and STATUS")),
    }
    Ok(Reply::ok())
}

pub(crate) fn replay(files: &[PathBuf]) -> Result<ExitCode, Fault> {
    let mut parted = false;
    for path in files {
        // The recording says what its cluster was; every protocol reads its own words.
        let replayed = [again::<Dast>, again::<Locking>, again::<Slog>]
            .into_iter()
            .find_map(|again| again(path).transpose());
        match replayed {
            Some(Ok(done)) => {
                let end = if done.whole { "to its end" } else { "up to where it was killed" };
                say(&format!(
                    "{}: {} steps {end}, equal up to step {}, digest {:016x}",
                    path.display(),
                    done.steps,
                    done.agreed,
                    done.digest
                ));
            }
            Some(Err(error)) => {
                parted = true;
                talk(&format!("{}: {error}", path.display()));
            }
            None => {
                parted = true;
                talk(&format!("{}: of no protocol that is known", path.display()));
            }
        }
    }
    Ok(if parted { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// Lets a fresh machine of one protocol decide; `None` for a recording of another one.
fn again<M: Served>(path: &Path) -> Result<Option<Replayed>, ReplayError>
where
    Postcard: Codec<M::Protocol>,
{
    let other = Cell::new(false);
    let make = |header: &record::Header| {
        let config = Config::read(&header.about).map_err(|fault| fault.to_string())?;
        if config.protocol != M::PROTOCOL {
            other.set(true);
            return Err("of another protocol".to_string());
        }
        let settings = M::settings(&config).map_err(|fault| fault.to_string())?;
        Ok(M::build(settings, header.node))
    };
    match cavy_node::replay::<M>(path, &Postcard, make) {
        Err(_) if other.get() => Ok(None),
        replayed => replayed.map(Some),
    }
}
