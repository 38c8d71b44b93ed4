//! cavy's own calls ([htrae 7.2]).

use super::{Answer, Ask, Refusal, Service, unescaped, values};
use crate::directory::{Change, CoordChange, Entry, NodeChange, ProbesChange, Said, Source};
use crate::wire::Reach;
use cavy_places::{Found, Rung};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// Steps of positions that are published: half a degree of latitude is 56 km ([htrae 8.8]).
const PUBLISHED_DEG: f64 = 0.5;
/// Nearest nodes that are given when nobody says how many.
const NEAREST: usize = 10;
/// Text of a pair, about.
const PAIR_BYTES: usize = 128;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with `id`, and `ip` or `lat` and `lon`")]
struct NodeBody {
    id: String,
    ip: Option<IpAddr>,
    lat: Option<f64>,
    lon: Option<f64>,
    class: Option<String>,
    #[serde(default)]
    props: BTreeMap<String, String>,
    reach: Option<Reach>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with `lat`, `lon`, `height_ms` and `error`")]
struct CoordBody {
    lat: f64,
    lon: f64,
    height_ms: f64,
    error: f64,
    #[serde(default)]
    updates: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with `from`, `to` and `rtt_ms`")]
struct ProbeBody {
    from: String,
    to: String,
    rtt_ms: f64,
}

/// A question about many nodes, whose names are too long for a path.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with `from`, and `to`, a list of nodes")]
struct RttBody<'a> {
    #[serde(borrow)]
    from: Id<'a>,
    #[serde(borrow)]
    to: Vec<Id<'a>>,
}

/// An id as it stands in a body, copied only where it has escapes.
#[derive(Deserialize)]
struct Id<'a>(#[serde(borrow)] Cow<'a, str>);

/// A report: a list of probes, or one that can be repeated.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a list of {from, to, rtt_ms}, or {source, first, probes}")]
enum ProbesBody {
    Plain(Vec<ProbeBody>),
    Counted { source: String, first: u64, probes: Vec<ProbeBody> },
}

#[derive(Serialize)]
struct CoordAnswer {
    lat: f64,
    lon: f64,
    height_ms: f64,
    error: f64,
    updates: u32,
}

#[derive(Serialize)]
struct NodeAnswer<'a> {
    id: &'a str,
    class: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ip: Option<IpAddr>,
    placed_by: Rung,
    kept_by: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    coord: Option<CoordAnswer>,
    reach: Reach,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    props: &'a BTreeMap<String, String>,
}

#[derive(Serialize)]
struct PairAnswer<'a> {
    to: &'a str,
    /// Can they reach each other? Beside the round trip, and no part of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    reachable: Option<bool>,
    // Written out: to flatten them takes longer than to predict.
    #[serde(skip_serializing_if = "Option::is_none")]
    rtt_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p90_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<Source>,
}

impl<'a> PairAnswer<'a> {
    fn new(to: &'a str, reachable: Option<bool>, said: Option<Said>) -> PairAnswer<'a> {
        PairAnswer {
            to,
            reachable,
            rtt_ms: said.map(|said| said.rtt_ms),
            p90_ms: said.map(|said| said.p90_ms),
            source: said.map(|said| said.source),
        }
    }
}

#[derive(Serialize)]
struct NearAnswer<'a> {
    id: &'a str,
    #[serde(flatten)]
    said: Said,
}

fn wrong(field: &str, value: impl std::fmt::Debug, must: &str) -> Refusal {
    (400, format!("`{field}` is {value:?}, but must be {must}"))
}

fn no_parameter(name: &str, known: &str) -> Refusal {
    (400, format!("{name:?} is no parameter of this call; it has {known}"))
}

fn body<'a, T: Deserialize<'a>>(ask: &Ask<'a>) -> Result<T, Refusal> {
    serde_json::from_slice(ask.body).map_err(|error| (400, format!("the body: {error}")))
}

fn published(degrees: f64) -> f64 {
    (degrees / PUBLISHED_DEG).round() * PUBLISHED_DEG
}

fn told(entry: &Entry) -> NodeAnswer<'_> {
    let coord = entry.coordinate().map(|own| {
        let (lat, lon) = own.position.degrees();
        CoordAnswer {
            lat: published(lat),
            lon: published(lon),
            height_ms: own.height_ms,
            error: own.error,
            updates: own.updates,
        }
    });
    NodeAnswer {
        id: &entry.said.id,
        class: &entry.said.class,
        ip: entry.said.ip,
        placed_by: entry.rung(),
        kept_by: if entry.by_agent { "agent" } else { "service" },
        coord,
        reach: entry.said.reach,
        props: &entry.said.props,
    }
}

impl Service {
    pub(super) fn native(&self, ask: &Ask<'_>, now_s: u64) -> Result<Answer, Refusal> {
        let parts: Vec<&str> = ask.path.split('/').filter(|part| !part.is_empty()).collect();
        match (ask.method, &parts[..]) {
            ("POST", ["v1", "nodes"]) => self.post_node(ask),
            ("GET", ["v1", "nodes", id]) => self.get_node(&unescaped(id)),
            ("DELETE", ["v1", "nodes", id]) => self.delete_node(&unescaped(id)),
            ("PUT", ["v1", "nodes", id, "coord"]) => self.put_coord(ask, unescaped(id)),
            ("POST", ["v1", "probes"]) => self.post_probes(ask, now_s),
            ("GET", ["v1", "rtt"]) => self.get_rtt(ask, now_s),
            ("POST", ["v1", "rtt"]) => {
                let RttBody { from, to } = body(ask)?;
                let to: Vec<&str> = to.iter().map(|id| id.0.as_ref()).collect();
                self.rtts(&from.0, &to, now_s)
            }
            ("GET", ["v1", "nearest"]) => self.get_nearest(ask, now_s),
            ("GET", ["metrics"]) => Ok(self.metrics()),
            ("GET", ["live"]) => Ok(text("ok\n".to_string())),
            ("GET", ["ready"]) => match self.log.as_ref().and_then(|log| log.failed()) {
                Some(why) => Err((503, why)),
                None => Ok(text("ok\n".to_string())),
            },
            (_, ["v1", "nodes" | "probes" | "rtt" | "nearest", ..]) => {
                let (method, path) = (ask.method, ask.path);
                Err((
                    405,
                    format!("{method} {path} is no call; see `cavy-live coords serve --help`"),
                ))
            }
            _ => Err((
                404,
                format!("{} is no path here; see `cavy-live coords serve --help`", ask.path),
            )),
        }
    }

    fn word(&self, field: &str, value: &str) -> Result<(), Refusal> {
        let most = self.limits.word_chars;
        let good = !value.is_empty() && value.chars().count() <= most;
        if good && !value.chars().any(char::is_control) {
            return Ok(());
        }
        let shown: String = value.chars().take(40).collect();
        Err(wrong(field, shown, &format!("1 to {most} characters, none of them a control")))
    }

    fn post_node(&self, ask: &Ask<'_>) -> Result<Answer, Refusal> {
        let said: NodeBody = body(ask)?;
        self.word("id", &said.id)?;
        let class = said.class.unwrap_or_else(|| "node".to_string());
        self.word("class", &class)?;
        if said.props.len() > self.limits.props {
            let must = format!("at most {} properties", self.limits.props);
            return Err(wrong("props", said.props.len(), &must));
        }
        for (name, value) in &said.props {
            self.word("props", name)?;
            if !value.is_empty() {
                self.word(name, value)?;
            }
        }
        let within = |field, value: f64, most: f64| match value.abs() <= most {
            true => Ok(value),
            false => Err(wrong(field, value, &format!("-{most} to {most} degrees"))),
        };
        let given = match (said.lat, said.lon) {
            (None, None) => None,
            (Some(lat), Some(lon)) => Some((within("lat", lat, 90.0)?, within("lon", lon, 180.0)?)),
            (Some(_), None) => return Err((400, "`lat` needs a `lon`: give both".to_string())),
            (None, Some(_)) => return Err((400, "`lon` needs a `lat`: give both".to_string())),
        };
        let places = self.places.read().unwrap_or_else(PoisonError::into_inner);
        let found = said.ip.map_or(Found::NOTHING, |ip| places.find(ip));
        drop(places);
        let degrees = |point: Option<cavy_coords::Point>| point.map(|point| point.degrees());
        let change = NodeChange {
            id: said.id,
            ip: said.ip,
            address: given.or_else(|| degrees(found.known.address)),
            country: degrees(found.known.country),
            system: found.system,
            class,
            props: said.props,
            reach: said.reach.unwrap_or_else(|| Reach::of(&found)),
        };
        let id = change.id.clone();
        let (outcome, after) = self.change(&Change::Node(change))?;
        let directory = self.directory();
        let entry = directory.number(&id).and_then(|node| directory.entry(node));
        let status = if outcome.new { 201 } else { 200 };
        let answer = match entry {
            Some(entry) => Answer::json(status, &told(entry)),
            // Somebody has deleted it meanwhile.
            None => Answer::json(status, &serde_json::json!({ "id": id })),
        };
        Ok(Answer { after, ..answer })
    }

    fn get_node(&self, id: &str) -> Result<Answer, Refusal> {
        let directory = self.directory();
        let entry = directory.number(id).and_then(|node| directory.entry(node));
        let entry = entry.ok_or_else(|| unknown("id", id))?;
        Ok(Answer::json(200, &told(entry)))
    }

    fn delete_node(&self, id: &str) -> Result<Answer, Refusal> {
        let (outcome, after) = self.change(&Change::Gone { id: id.to_string() })?;
        if !outcome.found {
            return Err(unknown("id", id));
        }
        Ok(Answer { after, ..Answer::json(200, &serde_json::json!({ "deleted": id })) })
    }

    fn put_coord(&self, ask: &Ask<'_>, id: String) -> Result<Answer, Refusal> {
        let said: CoordBody = body(ask)?;
        for (field, value, low, high) in [
            ("lat", said.lat, -90.0, 90.0),
            ("lon", said.lon, -180.0, 180.0),
            ("height_ms", said.height_ms, 0.0, 10_000.0),
            ("error", said.error, 1e-9, 1e6),
        ] {
            if !(value >= low && value <= high) {
                return Err(wrong(field, value, &format!("{low} to {high}")));
            }
        }
        if self.directory().number(&id).is_none() {
            return Err(unknown("id", &id));
        }
        let CoordBody { lat, lon, height_ms, error, updates } = said;
        let change = CoordChange { id: id.clone(), lat, lon, height_ms, error, updates };
        let (outcome, after) = self.change(&Change::Coord(change))?;
        if !outcome.found {
            return Err(unknown("id", &id));
        }
        Ok(Answer { after, ..Answer::json(200, &serde_json::json!({ "placed": id })) })
    }

    fn post_probes(&self, ask: &Ask<'_>, now_s: u64) -> Result<Answer, Refusal> {
        let (source, first, probes) = match body(ask)? {
            ProbesBody::Plain(probes) => (None, 0, probes),
            ProbesBody::Counted { source, first, probes } => (Some(source), first, probes),
        };
        if let Some(source) = &source {
            self.word("source", source)?;
        }
        if probes.len() > self.limits.list {
            let must = format!("at most {} in one report", self.limits.list);
            return Err(wrong("probes", probes.len(), &must));
        }
        let probes = probes.into_iter().map(|one| (one.from, one.to, one.rtt_ms)).collect();
        let change = ProbesChange { source, first, probes, at_s: now_s };
        let (outcome, after) = self.change(&Change::Probes(change))?;
        let counts = [outcome.taken, outcome.repeated, outcome.unknown, outcome.nonsense];
        for (counter, count) in self.counted.probes.iter().zip(counts) {
            counter.fetch_add(count, Ordering::Relaxed);
        }
        let [taken, repeated, unknown, nonsense] = counts;
        let said = serde_json::json!({
            "taken": taken, "repeated": repeated, "unknown": unknown, "nonsense": nonsense
        });
        Ok(Answer { after, ..Answer::json(200, &said) })
    }

    fn get_rtt(&self, ask: &Ask<'_>, now_s: u64) -> Result<Answer, Refusal> {
        let (mut from, mut lists) = (None, Vec::new());
        for (name, value) in values(ask.query) {
            match name.as_str() {
                "from" => from = Some(value),
                "to" => lists.push(value),
                _ => return Err(no_parameter(&name, "from and to: ?from=A&to=B,C")),
            }
        }
        let from = from.ok_or_else(|| wrong("from", "", "a node: ?from=A&to=B,C"))?;
        let to: Vec<&str> = lists.iter().flat_map(|list| list.split(',')).collect();
        self.rtts(&from, &to, now_s)
    }

    fn rtts(&self, from: &str, to: &[&str], now_s: u64) -> Result<Answer, Refusal> {
        if to.is_empty() || to.len() > self.limits.list {
            let must = format!("1 to {} nodes: ?from=A&to=B,C", self.limits.list);
            return Err(wrong("to", to.len(), &must));
        }
        let directory = self.directory();
        let start = directory.number(from).and_then(|node| directory.asker(node, now_s));
        let asker = start.ok_or_else(|| unknown("from", from))?;
        let pair = |(to, node): (&&str, Option<u32>)| {
            let node = node.ok_or_else(|| unknown("to", to))?;
            let reachable = asker.meets(node);
            // No milliseconds for those who cannot meet.
            let said = (reachable != Some(false)).then(|| asker.said(node));
            Ok((reachable, said.flatten()))
        };
        let nodes = directory.numbers(to);
        let all = to.iter().zip(nodes).map(pair).collect::<Result<Vec<_>, Refusal>>()?;
        // Changes need not wait for the text.
        drop(asker);
        drop(directory);
        let pairs = to.iter().zip(all);
        let pairs = pairs.map(|(to, (reachable, said))| PairAnswer::new(to, reachable, said));
        Ok(Answer::list(to.len() * PAIR_BYTES, pairs))
    }

    fn get_nearest(&self, ask: &Ask<'_>, now_s: u64) -> Result<Answer, Refusal> {
        let (mut from, mut k, mut class) = (None, NEAREST, None);
        for (name, value) in values(ask.query) {
            match name.as_str() {
                "from" => from = Some(value),
                "class" => class = Some(value),
                "k" => {
                    let most = self.limits.list.min(1_000);
                    let must = format!("a number from 1 to {most}");
                    let number = value.parse().ok().filter(|k| (1..=most).contains(k));
                    k = number.ok_or_else(|| wrong("k", value, &must))?;
                }
                _ => return Err(no_parameter(&name, "from, k and class")),
            }
        }
        let from = from.ok_or_else(|| wrong("from", "", "a node: ?from=A&k=10&class=server"))?;
        let directory = self.directory();
        let start = directory.number(&from).and_then(|node| directory.asker(node, now_s));
        let found = start.ok_or_else(|| unknown("from", &from))?.nearest(k, class.as_deref());
        let near = |(node, said): (u32, Said)| {
            Some(NearAnswer { id: &directory.entry(node)?.said.id, said })
        };
        let all: Vec<NearAnswer<'_>> = found.into_iter().filter_map(near).collect();
        Ok(Answer::json(200, &all))
    }

    fn metrics(&self) -> Answer {
        let mut out = String::new();
        let mut add = |name: &str, kind: &str, help: &str, rows: &[(&str, u64)]| {
            let _ =
                writeln!(out, "# HELP cavy_coords_{name} {help}\n# TYPE cavy_coords_{name} {kind}");
            for (label, value) in rows {
                let _ = writeln!(out, "cavy_coords_{name}{label} {value}");
            }
        };
        let nodes = self.directory().len() as u64;
        let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let counted = &self.counted;
        add("nodes", "gauge", "Nodes that are known.", &[("", nodes)]);
        add(
            "requests_total",
            "counter",
            "Requests, by whether they were refused.",
            &[
                ("{outcome=\"answered\"}", load(&counted.answered)),
                ("{outcome=\"refused\"}", load(&counted.refused)),
            ],
        );
        let [taken, repeated, unknown, nonsense] = &counted.probes;
        add(
            "probes_total",
            "counter",
            "Reported round trips, by what became of them.",
            &[
                ("{outcome=\"taken\"}", load(taken)),
                ("{outcome=\"repeated\"}", load(repeated)),
                ("{outcome=\"unknown\"}", load(unknown)),
                ("{outcome=\"nonsense\"}", load(nonsense)),
            ],
        );
        if let Some(log) = &self.log {
            let stuck = u64::from(log.failed().is_some());
            add(
                "log_bytes",
                "gauge",
                "Bytes of the log since the last snapshot.",
                &[("", log.bytes())],
            );
            add("log_failed", "gauge", "1 while nothing can be written.", &[("", stuck)]);
        }
        counted.took.write(&mut out);
        Answer { kind: "text/plain; version=0.0.4", ..text(out) }
    }
}

fn unknown(field: &str, id: &str) -> Refusal {
    let shown: String = id.chars().take(140).collect();
    (404, format!("`{field}` is {shown:?}, which is no node here; POST /v1/nodes makes one"))
}

fn text(body: String) -> Answer {
    Answer { status: 200, kind: "text/plain", body, headers: &[], after: None }
}
