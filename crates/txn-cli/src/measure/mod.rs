//! `measure`: clients in a closed loop at every shard, how long their transactions take, and a
//! history for `cavy check`.

mod client;
mod health;
mod trade;
mod work;

use crate::config::{Config, Protocol, Shape, Storage, Wan};
use crate::local::{How, Local};
use crate::{Fault, say, talk};
use cavy_clock::Wait;
use cavy_core::family::Node;
use cavy_core::{Instant, Purpose, Span, Stream};
use cavy_lab::statistics::quantile::{self, BEYOND_MIN};
use cavy_testbed::line::Line;
use cavy_txn::tpcc;
use cavy_txn::tpcc::audit::{Audit, Audited, Ended, Found};
use cavy_txn::{Key, Shard};
use clap::Args;
use client::{Client, Reply};
use health::{Health, Watch};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use trade::{Trade, Versions};
use work::{Mix, Place, Reach, Sort, Work};

/// A client waits for a reply no longer than this; a node gives up after 10 s.
const PATIENCE: Duration = Duration::from_secs(15);
/// Keys that are read at once in the end.
const CHUNK: u64 = 500;
/// What was measured must not be published.
const IN_DOUBT: u8 = 3;

/// What is to be measured.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  cavy live txn measure --local 3x2x3 --seconds 60                 a cluster of its own
  cavy live txn measure --local 3x2x3 --jitter-ms 20               with jitter between regions
  cavy live txn measure --local 3x2x3 --work tpcc --protocol slog  another protocol, TPC-C
  cavy live txn measure --config cluster.toml --work register --history run.jsonl
  cavy check run.jsonl --model regional-serializable               what that history is")]
pub struct MeasureArgs {
    /// The file of a cluster that runs.
    #[arg(long, conflicts_with = "local", required_unless_present = "local")]
    pub config: Option<PathBuf>,
    /// Start a cluster for this: regions x shards of each x replicas of each.
    #[arg(long, value_name = "RxSxP")]
    pub local: Option<Shape>,
    /// How the local cluster is.
    #[command(flatten)]
    pub how: How,
    /// What transactions do.
    #[arg(long, value_enum, default_value = "transfer")]
    pub work: Work,
    /// Clients of each shard; each asks again when it is answered.
    #[arg(long, default_value_t = 5)]
    pub clients: u32,
    /// Of a hundred transactions, how many cross regions.
    #[arg(long, default_value_t = 10.0)]
    pub across_percent: f64,
    /// Of a hundred of the others, how many touch two shards.
    #[arg(long, default_value_t = 10.0)]
    pub two_shards_percent: f64,
    /// Keys of each shard, of names that no other run has. They stay when it is over.
    #[arg(long, default_value_t = 1_000)]
    pub keys: u64,
    /// One-way time between a client and its node, which the client sleeps; `delay.within_ms` of
    /// the cluster's file otherwise.
    #[arg(long, allow_negative_numbers = true)]
    pub hop_ms: Option<f64>,
    /// What is asked for in this time is counted, after the warm-up.
    #[arg(long, default_value_t = 30.0)]
    pub seconds: f64,
    /// Seconds before it.
    #[arg(long, default_value_t = 5.0)]
    pub warm_up: f64,
    /// Draws of clients.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Write what was asked for and answered, as `cavy check` reads it.
    #[arg(long, value_name = "FILE")]
    pub history: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
}

/// One client.
struct Seat {
    client: u32,
    home: Shard,
    /// Its place among the clients of TPC-C, from 0.
    place: u32,
    /// Its node, then the others of its shard.
    nodes: Vec<SocketAddr>,
}

/// When clients begin, and when what they ask for begins to count and no more is asked for.
#[derive(Clone, Copy)]
struct Times {
    counts: Instant,
    end: Instant,
    hop: Span,
    history: bool,
}

/// What clients draw from.
enum Business {
    Keys(Mix),
    Trade(Trade),
}

/// What a client asks for.
enum Errand {
    Keys(work::Asked),
    Trade(tpcc::Asked),
}

/// What one client saw.
#[derive(Default)]
struct Tally {
    /// How long answered transactions of the time that counts took, in nanoseconds.
    took: BTreeMap<Reach, Vec<u64>>,
    committed: u64,
    given_up: u64,
    unknown: u64,
    connected: u64,
    /// Other errors, by their words.
    errors: BTreeMap<String, u64>,
    history: String,
    versions: Versions,
    audit: Audit,
}

impl Business {
    fn draw(&self, draws: &mut Stream, seat: &Seat, value: u64) -> (Errand, Reach) {
        match self {
            Business::Keys(mix) => {
                let asked = mix.draw(draws, seat.home, value);
                let reach = asked.reach;
                (Errand::Keys(asked), reach)
            }
            Business::Trade(trade) => {
                let (asked, reach) = trade.draw(draws, seat.place, value);
                (Errand::Trade(asked), reach)
            }
        }
    }

    fn ask(&self, client: &mut Client, errand: &Errand) -> std::io::Result<Reply> {
        match (self, errand) {
            (Business::Keys(mix), Errand::Keys(asked)) => client.transaction(&mix.requests(asked)),
            (Business::Trade(_), Errand::Trade(asked)) => client.call(&trade::words(asked)),
            _ => Err(std::io::Error::other("an errand of another business")),
        }
    }
}

impl Tally {
    /// Keeps what is needed to judge a transaction; without a reply nobody knows how it ended.
    fn keep(
        &mut self,
        (seat, business, history): (&Seat, &Business, bool),
        errand: Errand,
        times: (Instant, Instant),
        reply: Option<&Reply>,
    ) {
        let client = seat.client;
        match (business, errand) {
            (Business::Keys(mix), Errand::Keys(asked)) if history => {
                let replies = match reply {
                    // It had no effect.
                    Some(Reply::Nil) => return,
                    Some(Reply::List(replies)) => Some(&replies[..]),
                    _ => None,
                };
                mix.tell(&mut self.history, client, &asked, times, replies);
            }
            (Business::Trade(trade), Errand::Trade(asked)) => {
                if let Some(reply) = reply.filter(|_| history) {
                    let (lines, versions) = (&mut self.history, &mut self.versions);
                    trade.tell(lines, versions, client, &asked, times, reply);
                }
                let ended = reply.and_then(|reply| trade::ended(&asked, reply));
                self.audit.note(asked, ended.unwrap_or(Ended::Unknown));
            }
            _ => {}
        }
    }
}

impl Seat {
    fn run(&self, business: &Business, times: Times, seed: u64, password: Option<&str>) -> Tally {
        let mut tally = Tally::default();
        let mut draws = Stream::keyed(seed, self.client, Purpose::Arrivals);
        let mut connection: Option<Client> = None;
        let (mut at, mut number) = (0, 0_u64);
        // Not all at once.
        Wait::Sleep.until(cavy_clock::now() + Span::from_us(draws.below(20_000)));
        while cavy_clock::now() < times.end {
            let Some(client) = connection.as_mut() else {
                connection = Client::connect(self.nodes[at % self.nodes.len()], password, PATIENCE)
                    .inspect(|_| tally.connected += 1)
                    .ok();
                if connection.is_none() {
                    at += 1;
                    Wait::Sleep.until(cavy_clock::now() + Span::from_ms(20));
                }
                continue;
            };
            number += 1;
            let value = u64::from(self.client) << 32 | number;
            let (errand, reach) = business.draw(&mut draws, self, value);
            let began = cavy_clock::now();
            Wait::Sleep.until(began + times.hop);
            let said = business.ask(client, &errand);
            let answered = cavy_clock::now();
            let ended = Wait::Sleep.until(answered + times.hop);
            let whole = match &said {
                Ok(Reply::List(replies)) => !replies.iter().any(Reply::is_error),
                // TPC-C's orders that take themselves back.
                Ok(Reply::Nil) => matches!(errand, Errand::Trade(_)),
                _ => false,
            };
            let given_up = matches!(&said, Ok(Reply::Error(text)) if text.starts_with("TRYAGAIN"));
            // Of other errors some took no effect; to a checker that is not worth a difference.
            let told = match &said {
                Ok(reply) if whole => Some(reply),
                // It had no effect.
                Ok(_) if given_up => Some(&Reply::Nil),
                _ => None,
            };
            tally.keep((self, business, times.history), errand, (began, ended), told);
            match said {
                Ok(_) if whole => {
                    tally.committed += 1;
                    if began >= times.counts {
                        let took = ended.since(began).as_ns();
                        tally.took.entry(reach).or_default().push(took);
                    }
                }
                Ok(_) if given_up => tally.given_up += 1,
                Ok(other) => {
                    match other {
                        Reply::Error(text) if text.starts_with("UNCERTAIN") => tally.unknown += 1,
                        other => *tally.errors.entry(other.short()).or_default() += 1,
                    }
                    Wait::Sleep.until(cavy_clock::now() + Span::from_ms(20));
                }
                Err(_) => {
                    tally.unknown += 1;
                    connection = None;
                    at += 1;
                }
            }
        }
        tally
    }
}

/// Latencies of one kind.
#[derive(Clone, Debug, Serialize)]
struct Kind {
    reach: &'static str,
    count: u64,
    per_second: f64,
    least_ms: f64,
    p50_ms: f64,
    p95_ms: f64,
    p99_ms: f64,
    most_ms: f64,
    /// Samples beyond the 99th percentile.
    beyond_p99: u64,
}

/// All that was measured.
#[derive(Clone, Debug, Serialize)]
struct Report {
    protocol: Protocol,
    durable: Storage,
    regions: u16,
    shards_per_region: u32,
    replicas: u32,
    within_ms: Option<f64>,
    across_ms: Option<f64>,
    jitter_ms: Option<f64>,
    wan: Option<Wan>,
    sync_ms: f64,
    est_ms: f64,
    stretch: bool,
    commit_via_steward: bool,
    work: &'static str,
    clients_per_shard: u32,
    across_percent: f64,
    two_shards_percent: f64,
    keys_per_shard: u64,
    hop_ms: f64,
    seconds: f64,
    kinds: Vec<Kind>,
    committed: u64,
    given_up: u64,
    unknown: u64,
    reconnected: u64,
    errors: BTreeMap<String, u64>,
    /// The sum of all keys, of transfers: it must be 0.
    sum: Option<i64>,
    /// What TPC-C's conditions were held to: that they hold.
    books: Option<Audited>,
    health: Health,
}

/// Measures. `above`: as of the command.
pub(crate) fn measure(args: &MeasureArgs, above: &[&str]) -> Result<ExitCode, Fault> {
    let (seconds, warm_up) = check(args)?;
    let ending = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&ending);
    ctrlc::set_handler(move || told.store(true, Relaxed))
        .map_err(|error| Fault::new(format!("cannot hear signals: {error}")))?;
    let (config, local) = match (&args.config, args.local) {
        (Some(file), _) => (Config::load(file)?, None),
        (None, Some(shape)) => {
            let mut local = Local::start(shape, &args.how, above)?;
            if !local.until_ready(&ending)? {
                return Ok(ExitCode::from(130));
            }
            (local.config.clone(), Some(local))
        }
        (None, None) => return Err(Fault::input("no cluster").hint("--config or --local")),
    };
    if args.work == Work::Tpcc && args.history.is_some() && !config.controls.history {
        return Err(Fault::input("a history of TPC-C needs versions in its answers")
            .hint("add --versions, or `controls.history = true` to a cluster's file"));
    }
    let hop_ms = args.hop_ms.or(config.delay.map(|delay| delay.within_ms)).unwrap_or(0.0);
    let hop = Span::try_from_us(hop_ms * 1e3).unwrap_or(Span::ZERO);
    let business = match args.work.sort() {
        Some(sort) => Business::Keys(Mix {
            sort,
            layout: config.layout(),
            regions: config.regions.clone(),
            across: args.across_percent / 100.0,
            two_shards: args.two_shards_percent / 100.0,
            keys: args.keys,
            run: format!("measure-{:x}", cavy_clock::now().as_ns()),
        }),
        None => Business::Trade(Trade::new(config.layout())),
    };
    business.begin(&config)?;
    let seats = seats(&config, args.clients)?;
    let begin = cavy_clock::now();
    let counts = begin + warm_up;
    let times = Times { counts, end: counts + seconds, hop, history: args.history.is_some() };
    let line = local.as_ref().and_then(|local| local.line.as_deref());
    let (tallies, health) = drive(&config, line, &business, seats, times, args.seed);
    let mut tally = Tally::default();
    for one in tallies {
        tally.add(one);
    }
    let (sum, books) = business.end(&config, &mut tally, args.history.is_some())?;
    drop(local);
    if let Some(path) = &args.history {
        write(path, &tally.history)?;
    }
    let report = report(args, &config, hop_ms, tally, (sum, books), health);
    if args.json {
        let text = serde_json::to_string_pretty(&report);
        say(&text.map_err(|error| Fault::new(format!("no JSON: {error}")))?);
    } else {
        say(report.text().trim_end());
    }
    if sum.is_some_and(|sum| sum != 0) {
        return Err(Fault::new("the sum of all keys is not 0: something was lost or done twice"));
    }
    Ok(ExitCode::from(if report.health.in_doubt.is_empty() { 0 } else { IN_DOUBT }))
}

/// Looks at what was written.
fn check(args: &MeasureArgs) -> Result<(Span, Span), Fault> {
    let span = |name: &str, seconds: f64, least: f64| {
        let fits = (least..=86_400.0).contains(&seconds);
        Span::try_from_us(seconds * 1e6)
            .filter(|_| fits)
            .ok_or_else(|| Fault::input(format!("--{name} is {seconds}; {least} to 86400")))
    };
    for (name, percent) in
        [("across-percent", args.across_percent), ("two-shards-percent", args.two_shards_percent)]
    {
        if !(0.0..=100.0).contains(&percent) {
            return Err(Fault::input(format!("--{name} is {percent}; 0 to 100")));
        }
    }
    if !(1..=1_000).contains(&args.clients) {
        return Err(Fault::input(format!("--clients is {}; 1 to 1000", args.clients)));
    }
    if !(2..=1_000_000).contains(&args.keys) {
        let text = format!("--keys is {}; 2 to 1000000", args.keys);
        return Err(Fault::input(text).hint("a transaction touches two keys"));
    }
    if let Some(hop) = args.hop_ms
        && !(0.0..=10_000.0).contains(&hop)
    {
        return Err(Fault::input(format!("--hop-ms is {hop}; 0 to 10000")));
    }
    if args.history.is_some() && args.work == Work::Transfer {
        return Err(Fault::input("a history of transfers cannot be checked")
            .hint("amounts do not tell who wrote them; take --work register or append"));
    }
    Ok((span("seconds", args.seconds, 0.1)?, span("warm-up", args.warm_up, 0.0)?))
}

/// Clients of each shard, at its replicas in turn.
fn seats(config: &Config, each: u32) -> Result<Vec<Seat>, Fault> {
    let layout = config.layout();
    let mut seats = Vec::new();
    for shard in (0..layout.shards()).map(Shard) {
        let listens = |node: Node| config.node(node.0).and_then(|node| node.clients);
        let nodes: Vec<SocketAddr> = layout.replicas_of(shard).filter_map(listens).collect();
        if nodes.is_empty() {
            let text = format!("no replica of shard {} listens for clients", shard.0);
            return Err(Fault::input(text).hint("give one of them `clients` in the file"));
        }
        for nth in 0..each {
            let mut nodes = nodes.clone();
            // Where one replica leads, a client of another one would be passed on.
            let spread = config.protocol != Protocol::TwoPhase;
            let first = if spread { nth as usize % nodes.len() } else { 0 };
            nodes.rotate_left(first);
            let (client, place) = (seats.len() as u32 + 1, nth * layout.shards() + shard.0);
            seats.push(Seat { client, home: shard, place, nodes });
        }
    }
    Ok(seats)
}

/// Runs the clients, and watches while what they ask for counts.
fn drive(
    config: &Config,
    line: Option<&Line>,
    business: &Business,
    seats: Vec<Seat>,
    times: Times,
    seed: u64,
) -> (Vec<Tally>, Health) {
    std::thread::scope(|scope| {
        let run = |seat: Seat| {
            scope.spawn(move || {
                cavy_clock::sharpen_timers();
                seat.run(business, times, seed, config.password.as_deref())
            })
        };
        let threads: Vec<_> = seats.into_iter().map(run).collect();
        Wait::Sleep.until(times.counts);
        let watch = Watch::begin(config, line);
        Wait::Sleep.until(times.end);
        let health = watch.end(config, line);
        let tallies = threads.into_iter().map(|thread| thread.join().unwrap_or_default());
        (tallies.collect(), health)
    })
}

impl Tally {
    fn add(&mut self, other: Tally) {
        for (reach, took) in other.took {
            self.took.entry(reach).or_default().extend(took);
        }
        self.committed += other.committed;
        self.given_up += other.given_up;
        self.unknown += other.unknown;
        self.connected += other.connected.saturating_sub(1);
        for (text, count) in other.errors {
            *self.errors.entry(text).or_default() += count;
        }
        self.history.push_str(&other.history);
        self.versions.add(other.versions);
        self.audit.add(other.audit);
    }
}

fn connect(config: &Config, seat: &Seat) -> Result<Client, Fault> {
    let client = Client::connect(seat.nodes[0], config.password.as_deref(), PATIENCE);
    client.map_err(|error| Fault::new(format!("node {} does not answer: {error}", seat.nodes[0])))
}

impl Business {
    /// Looks whether it can begin.
    fn begin(&self, config: &Config) -> Result<(), Fault> {
        let Business::Trade(trade) = self else { return Ok(()) };
        for seat in seats(config, 1)? {
            let untouched = trade.untouched(&mut connect(config, &seat)?, seat.home);
            let untouched =
                untouched.map_err(|error| Fault::new(format!("the first read failed: {error}")))?;
            if !untouched {
                let text = format!("warehouse {} has had orders before", seat.home.0);
                return Err(Fault::input(text)
                    .hint("what is in it could not be judged; start a cluster that is empty"));
            }
        }
        Ok(())
    }

    /// Reads what is there in the end, and judges it.
    fn end(
        &self,
        config: &Config,
        tally: &mut Tally,
        history: bool,
    ) -> Result<(Option<i64>, Option<Audited>), Fault> {
        let trade = match self {
            Business::Keys(mix) => return Ok((read_all(config, mix, tally, history)?, None)),
            Business::Trade(trade) => trade,
        };
        if tally.unknown > 0 {
            // What nobody was told of may still be under way; a node gives up after 10 s.
            Wait::Sleep.until(cavy_clock::now() + Span::from_ms(12_000));
        }
        let warehouses = config.layout().shards();
        let mut found = Found::new();
        for (seat, keys) in seats(config, 1)?.iter().zip(tally.audit.rows(warehouses).into_values())
        {
            let keys: Vec<Key> = keys.into_iter().collect();
            let looked = trade.look(&mut connect(config, seat)?, seat.home, &keys, &mut found);
            looked.map_err(|error| Fault::new(format!("the last read failed: {error}")))?;
        }
        tally.versions.unanswered(&mut tally.history, config.layout().regions);
        match tally.audit.judge(warehouses, &found) {
            Ok(audited) => Ok((None, Some(audited))),
            Err(faults) => {
                let text = format!("{} of TPC-C's conditions do not hold", faults.len());
                Err(faults.into_iter().take(5).fold(Fault::new(text), Fault::hint))
            }
        }
    }
}

/// Reads every key when all is over: the last transaction of a history, or the sum of transfers.
fn read_all(
    config: &Config,
    mix: &Mix,
    tally: &mut Tally,
    history: bool,
) -> Result<Option<i64>, Fault> {
    let transfers = mix.sort == Sort::Transfer;
    if !history && !transfers {
        return Ok(None);
    }
    let failed = |error: std::io::Error| Fault::new(format!("the last read failed: {error}"));
    let (mut sum, mut reads) = (0_i64, Vec::new());
    let began = cavy_clock::now().as_ns();
    for seat in seats(config, 1)? {
        let mut client =
            Client::connect(seat.nodes[0], config.password.as_deref(), PATIENCE).map_err(failed)?;
        let mut row = 0;
        while row < mix.keys {
            let rows = row..mix.keys.min(row + CHUNK);
            let said = client.transaction(&mix.reads(seat.home, rows.clone())).map_err(failed)?;
            let Reply::List(replies) = said else {
                return Err(Fault::new(format!("the last read failed: {}", said.short())));
            };
            for (row, reply) in rows.clone().zip(&replies) {
                let place = Place { shard: seat.home, row };
                let strange = || Fault::new(format!("{} holds {}", mix.key(place), reply.short()));
                if transfers {
                    sum += match reply {
                        Reply::Nil => 0,
                        Reply::Text(text) => text.parse().map_err(|_| strange())?,
                        _ => return Err(strange()),
                    };
                } else {
                    reads.push(mix.read_last(place, reply).ok_or_else(strange)?);
                }
            }
            row = rows.end;
        }
    }
    if history {
        let (reads, ended) = (reads.join(","), cavy_clock::now().as_ns());
        let regions: Vec<u16> = (0..mix.layout.regions).collect();
        // Into a string, which does not fail.
        let _ = writeln!(
            tally.history,
            "{{\"txn\":\"last\",\"type\":\"last read\",\"regions\":{regions:?},\
             \"invoke_ns\":{began},\"complete_ns\":{ended},\"ops\":[{reads}]}}"
        );
    }
    Ok(transfers.then_some(sum))
}

fn write(path: &Path, text: &str) -> Result<(), Fault> {
    std::fs::write(path, text)
        .map_err(|error| Fault::new(format!("cannot write {}: {error}", path.display())))?;
    talk(&format!("wrote {}; cavy check {} judges it", path.display(), path.display()));
    Ok(())
}

fn report(
    args: &MeasureArgs,
    config: &Config,
    hop_ms: f64,
    mut tally: Tally,
    (sum, books): (Option<i64>, Option<Audited>),
    health: Health,
) -> Report {
    let ms = |ns: Option<u64>| ns.map_or(0.0, |ns| ns as f64 / 1e6);
    let mut kinds = Vec::new();
    for reach in Reach::ALL {
        let Some(took) = tally.took.get_mut(&reach) else { continue };
        took.sort_unstable();
        let at = |p| ms(quantile::of_sorted(took, p));
        let count = took.len() as u64;
        kinds.push(Kind {
            reach: reach.name(),
            count,
            per_second: count as f64 / args.seconds,
            least_ms: ms(took.first().copied()),
            p50_ms: at(0.5),
            p95_ms: at(0.95),
            p99_ms: at(0.99),
            most_ms: ms(took.last().copied()),
            beyond_p99: quantile::beyond(count, 0.99),
        });
    }
    let (delay, timing, controls) = (config.delay, config.timing, config.controls);
    Report {
        protocol: config.protocol,
        durable: config.durable,
        regions: config.layout().regions,
        shards_per_region: config.shards_per_region,
        replicas: config.replicas,
        within_ms: delay.map(|delay| delay.within_ms),
        across_ms: delay.map(|delay| delay.across_ms),
        jitter_ms: delay.map(|delay| delay.jitter_ms),
        wan: delay.map(|delay| delay.wan),
        sync_ms: timing.sync_ms,
        est_ms: timing.est_ms,
        stretch: controls.stretch,
        commit_via_steward: controls.commit_via_steward,
        work: args.work.name(),
        clients_per_shard: args.clients,
        across_percent: args.across_percent,
        two_shards_percent: args.two_shards_percent,
        keys_per_shard: args.keys,
        hop_ms,
        seconds: args.seconds,
        kinds,
        committed: tally.committed,
        given_up: tally.given_up,
        unknown: tally.unknown,
        reconnected: tally.connected,
        errors: tally.errors,
        sum,
        books,
        health,
    }
}

impl Report {
    fn text(&self) -> String {
        let mut text = String::new();
        let _ = self.render(&mut text);
        text
    }

    fn render(&self, text: &mut String) -> std::fmt::Result {
        writeln!(
            text,
            "{}, {}x{}x{}, {} clients a shard, {}, {} s{}{}{}",
            self.protocol.name(),
            self.regions,
            self.shards_per_region,
            self.replicas,
            self.clients_per_shard,
            self.work,
            self.seconds,
            match self.protocol {
                Protocol::Dast => format!("; reports every {} ms", self.sync_ms),
                Protocol::Slog => format!("; batches every {} ms", self.sync_ms),
                Protocol::TwoPhase => String::new(),
            },
            if self.stretch { "" } else { ", clocks do not stretch" },
            if self.commit_via_steward { "" } else { ", commits go to replicas directly" },
        )?;
        if let (Some(within), Some(across)) = (self.within_ms, self.across_ms) {
            let jitter = self.jitter_ms.unwrap_or(0.0);
            writeln!(
                text,
                "one way {within} ms within a region, {across} ms across{}, jitter {jitter} ms; \
                 {} ms from a client to its node",
                if self.wan == Some(Wan::Line) { " by a line" } else { "" },
                self.hop_ms
            )?;
        }
        writeln!(
            text,
            "\n{:<15}{:>9}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}",
            "touches", "count", "per s", "least ms", "p50", "p95", "p99", "most"
        )?;
        let mut few = false;
        for kind in &self.kinds {
            let mark = if kind.beyond_p99 < BEYOND_MIN { "*" } else { " " };
            few |= mark == "*";
            writeln!(
                text,
                "{:<15}{:>9}{:>10.1}{:>10.2}{:>10.2}{:>10.2}{:>9.2}{mark}{:>10.2}",
                kind.reach,
                kind.count,
                kind.per_second,
                kind.least_ms,
                kind.p50_ms,
                kind.p95_ms,
                kind.p99_ms,
                kind.most_ms
            )?;
        }
        if few {
            writeln!(text, "* fewer than {BEYOND_MIN} samples are beyond it")?;
        }
        writeln!(
            text,
            "\ncommitted {}, given up {}, unknown {}, connected again {}",
            self.committed, self.given_up, self.unknown, self.reconnected
        )?;
        for (error, count) in &self.errors {
            writeln!(text, "{count} x {error}")?;
        }
        if let Some(sum) = self.sum {
            writeln!(text, "sum of all keys {sum}")?;
        }
        if let Some(books) = &self.books {
            writeln!(
                text,
                "TPC-C's conditions hold: {} orders, {} payments, {} deliveries in {} rows; of {} \
                 unknown transactions {} took place",
                books.orders,
                books.payments,
                books.deliveries,
                books.rows,
                books.unknown,
                books.unknown_took_place
            )?;
        }
        let health = &self.health;
        let percent = |share: Option<f64>| match share {
            Some(share) => format!("{:.0} %", share * 100.0),
            None => "an unknown share".into(),
        };
        writeln!(
            text,
            "processors busy {}, taken by others {}; a sleeper late by {:.2} ms at p50, {:.2} at \
             p99, {:.2} at most;\nnodes late by up to {:.2} ms at p99 since they were started",
            percent(health.processors_busy),
            percent(health.processors_stolen),
            health.sleep_late_p50_ms,
            health.sleep_late_p99_ms,
            health.sleep_late_most_ms,
            health.nodes_late_p99_ms
        )?;
        if let Some(line) = &health.line {
            writeln!(
                text,
                "the line late by {:.2} ms at p50, {:.2} at p99, {:.2} at p99.9; {} packets, {:.0} \
                 % of a processor",
                line.late.p50_us / 1e3,
                line.late.p99_us / 1e3,
                line.late.p999_us / 1e3,
                line.all.offered,
                line.processor_ratio * 100.0
            )?;
        }
        for doubt in &health.in_doubt {
            writeln!(text, "in doubt: {doubt}")?;
        }
        Ok(())
    }
}
