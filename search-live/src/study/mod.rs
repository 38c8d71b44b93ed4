//! Live studies: a cluster under load whose every answer is checked.
//!
//! **Reading order.** [`check`] (what is right), [`client`], this module (the load, and studies of
//! p, kills and restarts), [`spread`] and [`quota`] (delay by p), [`stall`]; beside them [`cost`]
//! and [`sealed`], which need no cluster.

pub mod check;
pub mod client;
pub mod cost;
pub mod quota;
pub mod sealed;
pub mod spread;
pub mod stall;

use crate::cluster::local::Local;
use cavy_core::{Purpose, Stream};
use check::{Checker, Fault, Met};
use client::Client;
use hdrhistogram::Histogram;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The index of a study.
const INDEX: &str = "study";
/// Keys of a group: a query asks for one group.
const GROUP: u64 = 32;
/// A query about everything counts so often: what a slice takes of a processor is then not much
/// less than the milliseconds for which a quota lets a server go on.
const COUNTS: u32 = 200;
/// Nothing is waited for longer by a client.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a load is like.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Documents.
    pub keys: u64,
    /// Queries a second, on a schedule that does not wait for answers.
    pub queries_per_s: f64,
    /// Writes a second.
    pub writes_per_s: f64,
    /// Writes of one request: above 1 they are sent as `_bulk`.
    pub bulk: u32,
    /// Queries go through every document, and not through a group of them.
    pub broad: bool,
    /// Of keys and kinds of writes.
    pub seed: u64,
}

/// What a part of a run came to.
#[derive(Debug)]
struct Part {
    queries: Histogram<u64>,
    writes: Histogram<u64>,
    partial: u64,
    /// Sub-queries of these queries, those sent again included.
    parts: u64,
    /// When the part began, and the slowest queries: when they were due, and what they took.
    began: u64,
    slowest: Vec<(u64, u64)>,
}

/// So many of the slowest queries of a part are named.
const SLOWEST: usize = 6;

/// How many queries a second, counted anew when that changes.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Rate {
    number: u64,
    per_s: f64,
}

/// Counters of a run that goes on.
struct Shared {
    began: Instant,
    ending: AtomicBool,
    rate: Mutex<Rate>,
    /// Queries that have no answer yet.
    under_way: AtomicU64,
    checker: Mutex<Checker>,
    part: Mutex<Part>,
    answers: AtomicU64,
    refused: AtomicU64,
    faults: Mutex<Vec<(u64, Fault)>>,
    /// Requests that got no answer: their front end was killed, say.
    unanswered: AtomicU64,
    first_refusal: Mutex<Option<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Part {
    fn new(began: u64) -> Part {
        let histogram = || {
            Histogram::new_with_bounds(1, 60_000_000, 3).unwrap_or_else(|_| unreachable!("bounds"))
        };
        let (queries, writes) = (histogram(), histogram());
        Part { queries, writes, partial: 0, parts: 0, began, slowest: Vec::new() }
    }

    fn answered(&mut self, due: u64, came: u64) {
        let took = came.saturating_sub(due).max(1);
        self.queries.saturating_record(took);
        self.slowest.push((due, took));
        self.slowest.sort_unstable_by_key(|(_, took)| std::cmp::Reverse(*took));
        self.slowest.truncate(SLOWEST);
    }
}

impl Shared {
    fn now(&self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }

    fn refuse(&self, status: u16, answer: &Value) {
        self.refused.fetch_add(1, Relaxed);
        lock(&self.first_refusal).get_or_insert_with(|| format!("{status}: {answer}"));
    }
}

/// Clients at work.
pub struct Running {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// Waits until `due` microseconds after the beginning; false when the run ends first.
fn wait(shared: &Shared, due: u64) -> bool {
    loop {
        if shared.ending.load(Relaxed) {
            return false;
        }
        let left = due.saturating_sub(shared.now());
        if left == 0 {
            return true;
        }
        std::thread::sleep(Duration::from_micros(left.min(20_000)));
    }
}

/// A write that was sent.
struct Sent {
    key: u64,
    /// Among the key's writes.
    place: usize,
    /// `None` deletes.
    value: Option<u64>,
}

impl Sent {
    fn new(shared: &Shared, draws: &mut Stream, key: u64, value: u64) -> Sent {
        let value = (draws.below(10) != 0).then_some(value);
        let place = lock(&shared.checker).sent(key, value, shared.now());
        Sent { key, place, value }
    }

    /// What became of it. Deleting what is not there is right, too.
    fn ended(&self, shared: &Shared, status: u16, answer: &Value, due: u64) {
        let now = shared.now();
        match status {
            200 | 201 | 404 => {
                lock(&shared.checker).acknowledged(self.key, self.place, now);
                lock(&shared.part).writes.saturating_record(now.saturating_sub(due).max(1));
            }
            _ => {
                // It may have been carried out all the same, where a time ran out.
                if status < 500 {
                    lock(&shared.checker).refused(self.key, self.place);
                }
                shared.refuse(status, answer);
            }
        }
    }
}

fn document(key: u64, value: u64) -> Value {
    json!({"key": key, "value": value, "group": key / GROUP, "text": text(key, value)})
}

/// Writes one key, in a request of its own.
fn write(shared: &Shared, client: &mut Client, write: &Sent, due: u64) {
    let path = format!("/{INDEX}/_doc/{}?refresh=wait_for", write.key);
    let answer = match write.value {
        Some(value) => client.ask("PUT", &path, &document(write.key, value).to_string()),
        None => client.ask("DELETE", &path, ""),
    };
    match answer {
        Ok((status, answer)) => write.ended(shared, status, &answer, due),
        Err(_) => drop(shared.unanswered.fetch_add(1, Relaxed)),
    }
}

/// Writes several keys by one request. An answer has a result for each.
fn write_bulk(shared: &Shared, client: &mut Client, writes: &[Sent], due: u64) {
    let mut lines = String::new();
    for Sent { key, value, .. } in writes {
        let action = if value.is_some() { "index" } else { "delete" };
        lines.push_str(&format!("{{\"{action}\":{{\"_id\":\"{key}\"}}}}\n"));
        if let Some(value) = value {
            lines.push_str(&format!("{}\n", document(*key, *value)));
        }
    }
    match client.ask("POST", &format!("/{INDEX}/_bulk?refresh=wait_for"), &lines) {
        Ok((200, answer)) => {
            for (at, write) in writes.iter().enumerate() {
                let action = if write.value.is_some() { "index" } else { "delete" };
                let item = &answer["items"][at][action];
                match item["status"].as_u64() {
                    Some(status) => write.ended(shared, status as u16, item, due),
                    None => drop(shared.unanswered.fetch_add(1, Relaxed)),
                }
            }
        }
        // Some of them may have been carried out.
        Ok((status, answer)) => shared.refuse(status, &answer),
        Err(_) => drop(shared.unanswered.fetch_add(1, Relaxed)),
    }
}

const WORDS: [&str; 16] = [
    "ring", "arc", "slice", "server", "query", "part", "index", "search", "delay", "load", "copy",
    "lease", "map", "epoch", "front", "end",
];

fn text(key: u64, value: u64) -> String {
    let word = |at: u64| WORDS[((key * 31 + value * 7 + at * at) % 16) as usize];
    (0..24).map(word).collect::<Vec<_>>().join(" ")
}

/// Asks about one group, whose documents are looked at, or about all, which are counted.
fn query(shared: &Shared, client: &mut Client, draws: &mut Stream, load: &Load, due: u64) {
    let groups = load.keys.div_ceil(GROUP);
    let group = draws.below(groups);
    let body = match load.broad {
        false => json!({
            "size": 2 * GROUP,
            "query": {"bool": {
                "filter": [{"term": {"group": group}}],
                "should": [{"match": {"text": "ring query delay"}}],
            }},
        }),
        true => {
            // Enough to count that a slice takes more of a processor than what is around it.
            let count = |n: u32| (format!("k{n}"), json!({"stats": {"field": "key"}}));
            json!({
                "size": 10,
                "track_total_hits": true,
                "query": {"match": {"text": WORDS.join(" ")}},
                "aggs": (0..COUNTS).map(count).collect::<serde_json::Map<_, _>>(),
            })
        }
    };
    let sent = shared.now();
    shared.under_way.fetch_add(1, Relaxed);
    let answer = client.ask("POST", &format!("/{INDEX}/_search"), &body.to_string());
    shared.under_way.fetch_sub(1, Relaxed);
    let came = shared.now();
    match answer {
        Ok((200, answer)) => {
            let partial = answer["_shards"]["failed"].as_u64() != Some(0);
            let faults = match load.broad {
                true => {
                    let count = answer["hits"]["total"]["value"].as_u64().unwrap_or(0);
                    let sum = answer["aggregations"]["k0"]["sum"].as_f64().unwrap_or(0.0);
                    let fault = lock(&shared.checker).all((count, sum as u64));
                    fault.filter(|_| !partial).into_iter().collect()
                }
                false => {
                    let keys = group * GROUP..((group + 1) * GROUP).min(load.keys);
                    let met = documents(&answer);
                    lock(&shared.checker).look(keys, &met, (sent, came), partial)
                }
            };
            lock(&shared.faults).extend(faults.into_iter().map(|fault| (came, fault)));
            shared.answers.fetch_add(1, Relaxed);
            let mut part = lock(&shared.part);
            part.answered(due, came);
            part.partial += u64::from(partial);
            part.parts += answer["_shards"]["total"].as_u64().unwrap_or(0);
        }
        Ok((status, answer)) => shared.refuse(status, &answer),
        Err(_) => drop(shared.unanswered.fetch_add(1, Relaxed)),
    }
}

/// The hits of an answer.
fn documents(answer: &Value) -> Vec<Met> {
    let hit = |hit: &Value| -> Met {
        let source = &hit["_source"];
        let number = |name: &str| source[name].as_u64().unwrap_or(u64::MAX);
        (number("key"), number("value"))
    };
    answer["hits"]["hits"].as_array().into_iter().flatten().map(hit).collect()
}

/// Asks by the schedule of a client, of so many, until the run ends.
fn queries(shared: &Shared, mut client: Client, load: &Load, number: u64) {
    let mut draws = Stream::keyed(load.seed, number as u32, Purpose::Arrivals);
    let (mut rate, mut due) = (Rate { number: u64::MAX, per_s: 0.0 }, 0.0);
    loop {
        let wanted = *lock(&shared.rate);
        let gap = CLIENTS as f64 / wanted.per_s * 1e6;
        if wanted.number != rate.number {
            rate = wanted;
            due = shared.now() as f64 + gap * draws.unit();
        }
        // The rate may change meanwhile, so it is looked at now and then.
        let now = shared.now() as f64;
        let rests = wanted.per_s <= 0.0 || due > now;
        if !wait(shared, now.max(due.min(now + 20_000.0)) as u64) {
            return;
        }
        if rests {
            continue;
        }
        query(shared, &mut client, &mut draws, load, due as u64);
        due -= gap * (1.0 - draws.unit()).ln();
    }
}

/// Writes by the schedule of a client, of so many, until the run ends.
fn writes(shared: &Shared, mut client: Client, load: &Load, number: u64) {
    let mut draws = Stream::keyed(load.seed, number as u32, Purpose::Sizes);
    let bulk = u64::from(load.bulk.max(1));
    let gap = CLIENTS as f64 * bulk as f64 / load.writes_per_s * 1e6;
    let mut due = shared.now() as f64 + gap * draws.unit();
    let mut value = 0;
    while wait(shared, due as u64) {
        value += 1;
        // Each client has keys of its own, so that a key has one writer.
        let own = load.keys.div_ceil(CLIENTS);
        let first = draws.below(own);
        let keys = (first..own.min(first + bulk)).map(|n| n * CLIENTS + number);
        let keys = keys.filter(|key| *key < load.keys);
        let sent: Vec<Sent> = keys.map(|key| Sent::new(shared, &mut draws, key, value)).collect();
        match &sent[..] {
            [] => {}
            [one] => write(shared, &mut client, one, due as u64),
            _ => write_bulk(shared, &mut client, &sent, due as u64),
        }
        due -= gap * (1.0 - draws.unit()).ln();
    }
}

/// Clients of each kind.
const CLIENTS: u64 = 12;

impl Running {
    /// Writes all documents once, then begins to query and write by the schedule.
    ///
    /// # Errors
    /// When the cluster does not take the documents.
    pub fn start(fronts: &[SocketAddr], load: Load, p: u32) -> Result<Running, String> {
        let mut client = Client::new(fronts[0], PATIENCE);
        let until = Instant::now() + Duration::from_secs(60);
        let body = json!({"settings": {"index.roar.p": p}, "mappings": {"properties": {
            "key": {"type": "long"}, "value": {"type": "long"}, "group": {"type": "long"},
            "text": {"type": "text"},
        }}})
        .to_string();
        loop {
            match client.ask("PUT", &format!("/{INDEX}"), &body) {
                Ok((200, _)) => break,
                Ok((400, answer)) => return Err(answer.to_string()),
                _ if Instant::now() > until => return Err("the cluster does not answer".into()),
                _ => std::thread::sleep(Duration::from_millis(200)),
            }
        }
        let shared = Arc::new(Shared {
            began: Instant::now(),
            ending: AtomicBool::new(false),
            rate: Mutex::new(Rate { number: 0, per_s: load.queries_per_s }),
            under_way: AtomicU64::new(0),
            checker: Mutex::new(Checker::new()),
            part: Mutex::new(Part::new(0)),
            answers: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            faults: Mutex::new(Vec::new()),
            unanswered: AtomicU64::new(0),
            first_refusal: Mutex::new(None),
        });
        let keys: Vec<u64> = (0..load.keys).collect();
        for some in keys.chunks(500) {
            let mut lines = String::new();
            let mut places = Vec::new();
            for &key in some {
                places.push((key, lock(&shared.checker).sent(key, Some(0), shared.now())));
                lines.push_str(&format!("{{\"index\":{{\"_id\":\"{key}\"}}}}\n"));
                lines.push_str(&format!("{}\n", document(key, 0)));
            }
            let path = format!("/{INDEX}/_bulk?refresh=wait_for");
            match client.ask("POST", &path, &lines) {
                Ok((200, answer)) if answer["errors"] == json!(false) => {
                    let now = shared.now();
                    places.iter().for_each(|(key, place)| {
                        lock(&shared.checker).acknowledged(*key, *place, now);
                    });
                }
                other => return Err(format!("documents were not taken: {other:?}")),
            }
        }
        let mut threads = Vec::new();
        for number in 0..CLIENTS {
            let front = fronts[number as usize % fronts.len()];
            let client = || Client::new(front, PATIENCE);
            let (one, own) = (client(), shared.clone());
            threads.push(std::thread::spawn(move || queries(&own, one, &load, number)));
            if load.writes_per_s > 0.0 {
                let (one, own) = (client(), shared.clone());
                threads.push(std::thread::spawn(move || writes(&own, one, &load, number)));
            }
        }
        Ok(Running { shared, threads })
    }

    /// From now on there are so many queries a second.
    fn pace(&self, queries_per_s: f64) {
        let mut rate = lock(&self.shared.rate);
        *rate = Rate { number: rate.number + 1, per_s: queries_per_s };
    }

    /// No query comes any more, and all that came are answered.
    fn calm(&self) {
        self.pace(0.0);
        // A client that has just looked at the rate may still begin one.
        std::thread::sleep(Duration::from_millis(5));
        while self.shared.under_way.load(Relaxed) > 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// What came since the last call: queries, p50, mean and p99 in ms, writes' p99, partial ones.
    pub fn part(&self) -> Value {
        let part = std::mem::replace(&mut *lock(&self.shared.part), Part::new(self.shared.now()));
        let ms = |us: u64| us as f64 / 1e3;
        json!({
            "queries": part.queries.len(),
            "mean_ms": part.queries.mean() / 1e3,
            "p50_ms": ms(part.queries.value_at_quantile(0.5)),
            "p99_ms": ms(part.queries.value_at_quantile(0.99)),
            "p999_ms": ms(part.queries.value_at_quantile(0.999)),
            "max_ms": ms(part.queries.max()),
            "writes": part.writes.len(),
            "writes_p99_ms": ms(part.writes.value_at_quantile(0.99)),
            "partial": part.partial,
            "parts": part.parts,
            // Milliseconds since this part began, and what a query took that was due then.
            "slowest": part
                .slowest
                .iter()
                .map(|(due, took)| (ms(due.saturating_sub(part.began)), ms(*took)))
                .collect::<Vec<_>>(),
            // Microseconds, and how many queries took that: so that runs can be put together.
            "took": part
                .queries
                .iter_recorded()
                .map(|one| (one.value_iterated_to(), one.count_at_value()))
                .collect::<Vec<_>>(),
        })
    }

    /// Ends the clients; what the checker says.
    pub fn end(self) -> Value {
        self.shared.ending.store(true, Relaxed);
        for thread in self.threads {
            let _ = thread.join();
        }
        let shared = &self.shared;
        let faults = lock(&shared.faults);
        let shown: Vec<String> =
            faults.iter().take(20).map(|(us, fault)| format!("{us} us: {fault:?}")).collect();
        json!({
            "answers_checked": shared.answers.load(Relaxed),
            "writes_acknowledged": lock(&shared.checker).count(),
            "faults": faults.len(),
            "first_faults": shown,
            "refused": shared.refused.load(Relaxed),
            "first_refusal": *lock(&shared.first_refusal),
            "unanswered": shared.unanswered.load(Relaxed),
        })
    }
}

/// Waits until an index has the p that is wanted and all servers; how long that took. Nodes that
/// ended come back meanwhile.
fn settled(local: &mut Local, client: &mut Client, patience: Duration) -> Option<Duration> {
    let began = Instant::now();
    while began.elapsed() < patience {
        local.look();
        if let Ok((200, answer)) = client.ask("GET", "/_cluster/health", "")
            && answer["status"] == "green"
        {
            return Some(began.elapsed());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    None
}

/// Why a study does not begin.
fn not_green(client: &mut Client) -> String {
    let recovery = client.ask("GET", "/_cat/recovery?format=json", "");
    let shards = client.ask("GET", "/_cat/shards?format=json", "");
    format!("the cluster does not become green: {recovery:?} {shards:?}")
}

/// Begins a load on a cluster that has an index at this p and all servers in step: the clients at
/// work, and one to ask beside them.
fn begin(local: &mut Local, load: Load, p: u32) -> Result<(Running, Client), String> {
    let fronts: Vec<SocketAddr> = local.cluster.front_ends.iter().map(|f| f.http).collect();
    let running = Running::start(&fronts, load, p)?;
    let mut client = Client::new(fronts[0], PATIENCE);
    if settled(local, &mut client, PATIENCE * 3).is_none() {
        return Err(not_green(&mut client));
    }
    running.part();
    Ok((running, client))
}

/// A p that does not fall next is looked at for so long at most: nothing is compared with it.
const BETWEEN: Duration = Duration::from_secs(2);

/// R1: p goes through `steps` under load, and stays for `rest` where it falls next.
///
/// # Errors
/// When the cluster does not start.
pub fn change(
    local: &mut Local,
    load: Load,
    steps: &[u32],
    rest: Duration,
    mut tell: impl FnMut(&Value),
) -> Result<Value, String> {
    let first = *steps.first().ok_or("no p is given")?;
    let (running, mut client) = begin(local, load, first)?;
    let mut rows = Vec::new();
    let rest = |at: usize| match steps.get(at + 1).is_some_and(|next| *next < steps[at]) {
        true => rest,
        false => rest.min(BETWEEN),
    };
    std::thread::sleep(rest(0));
    let mut row = running.part();
    row["p"] = json!(first);
    row["what"] = json!("before");
    tell(&row);
    rows.push(row);
    let mut before = first;
    for (at, &p) in steps.iter().enumerate().skip(1) {
        let body = json!({"index.roar.p": p}).to_string();
        let began = Instant::now();
        let answer = client.ask("PUT", &format!("/{INDEX}/_settings"), &body);
        let told_ms = began.elapsed().as_secs_f64() * 1e3;
        if !matches!(answer, Ok((200, _))) {
            return Err(format!("p was not taken: {answer:?}"));
        }
        let took = settled(local, &mut client, PATIENCE * 6);
        let mut row = running.part();
        row["p"] = json!(p);
        row["what"] = json!(format!("{before} to {p}"));
        row["told_ms"] = json!(told_ms);
        row["settled_s"] = json!(took.map(|took| took.as_secs_f64()));
        tell(&row);
        rows.push(row);
        std::thread::sleep(rest(at));
        let mut row = running.part();
        row["p"] = json!(p);
        row["what"] = json!(format!("at {p}"));
        tell(&row);
        rows.push(row);
        before = p;
    }
    let verdict = running.end();
    Ok(json!({ "study": "change", "rows": rows, "checker": verdict }))
}

/// R4: nodes are killed as by `kill -9` under load, and come back; `cycles` times.
///
/// # Errors
/// When the cluster does not start.
pub fn kill(
    local: &mut Local,
    load: Load,
    (p, cycles): (u32, u32),
    mut tell: impl FnMut(&Value),
) -> Result<Value, String> {
    let (running, mut client) = begin(local, load, p)?;
    let layout = local.cluster.layout();
    let mut draws = Stream::keyed(load.seed, 1, Purpose::Faults);
    let mut rows = Vec::new();
    for cycle in 0..cycles {
        let servers = u64::from(layout.servers);
        let first = draws.below(servers);
        // One, two side by side, two apart, the directory, a front end.
        let (what, nodes): (&str, Vec<u32>) = match cycle % 5 {
            0 => ("one", vec![layout.server(first as u32).0]),
            1 => {
                let next = (first + 1) % servers;
                ("side by side", vec![layout.server(first as u32).0, layout.server(next as u32).0])
            }
            2 => {
                let far = (first + servers / 2) % servers;
                ("apart", vec![layout.server(first as u32).0, layout.server(far as u32).0])
            }
            3 => ("directory", vec![0]),
            _ => ("front end", vec![layout.front_end(layout.front_ends - 1).0]),
        };
        nodes.iter().for_each(|node| local.kill(*node));
        let began = Instant::now();
        let mut back = false;
        while began.elapsed() < PATIENCE * 3 {
            local.look();
            std::thread::sleep(Duration::from_millis(100));
            let all = nodes.iter().all(|node| local.pid(*node).is_some());
            if all && began.elapsed() > Duration::from_secs(4) {
                back = settled(local, &mut client, PATIENCE * 2).is_some();
                break;
            }
        }
        let mut row = running.part();
        row["cycle"] = json!(cycle);
        row["what"] = json!(what);
        row["nodes"] = json!(nodes);
        row["green_after_s"] = json!(back.then(|| began.elapsed().as_secs_f64()));
        tell(&row);
        rows.push(row);
    }
    let verdict = running.end();
    Ok(json!({ "study": "kill", "rows": rows, "checker": verdict }))
}

/// Waits until all servers are on the ring, in step.
fn whole(local: &mut Local, client: &mut Client, patience: Duration) -> Option<Duration> {
    let began = Instant::now();
    while began.elapsed() < patience {
        local.look();
        if let Ok((200, answer)) = client.ask("GET", "/_cluster/health", "")
            && answer["status"] == "green"
            && answer["active_shards_percent_as_number"].as_f64() == Some(100.0)
        {
            return Some(began.elapsed());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    None
}

/// Servers are told to end, one after the other, and come back: a rolling restart under load.
///
/// # Errors
/// When the cluster does not start.
pub fn roll(
    local: &mut Local,
    load: Load,
    (p, cycles): (u32, u32),
    mut tell: impl FnMut(&Value),
) -> Result<Value, String> {
    let fronts: Vec<SocketAddr> = local.cluster.front_ends.iter().map(|f| f.http).collect();
    let running = Running::start(&fronts, load, p)?;
    let mut client = Client::new(fronts[0], PATIENCE);
    if whole(local, &mut client, PATIENCE * 3).is_none() {
        return Err(not_green(&mut client));
    }
    running.part();
    std::thread::sleep(Duration::from_secs(2));
    let mut row = running.part();
    row["what"] = json!("before");
    tell(&row);
    let mut rows = vec![row];
    let layout = local.cluster.layout();
    for cycle in 0..cycles {
        let node = layout.server(cycle % layout.servers).0;
        let began = Instant::now();
        let pid = local.pid(node);
        local.dismiss(node);
        let mut left = None;
        while began.elapsed() < PATIENCE * 3 {
            let told = local.look();
            if told.iter().any(|one| one.starts_with(&format!("node {node} ended"))) {
                left = Some(began.elapsed());
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        while local.pid(node).is_none() || local.pid(node) == pid {
            local.look();
            std::thread::sleep(Duration::from_millis(50));
            if began.elapsed() > PATIENCE * 4 {
                return Err(format!("node {node} does not come back"));
            }
        }
        let back = whole(local, &mut client, PATIENCE * 4).map(|_| began.elapsed());
        let mut row = running.part();
        row["what"] = json!(format!("server {}", cycle % layout.servers));
        row["left_s"] = json!(left.map(|took| took.as_secs_f64()));
        row["green_after_s"] = json!(back.map(|took| took.as_secs_f64()));
        tell(&row);
        rows.push(row);
    }
    let verdict = running.end();
    Ok(json!({ "study": "roll", "rows": rows, "checker": verdict }))
}
