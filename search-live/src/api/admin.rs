//! Indices, their settings and fields, and what the cluster says of itself.

use super::Query as Url;
use super::error::Error;
use super::gate::{Gate, Index, refused};
use super::mapping::{Mapping, merge};
use crate::engine::question::{Finding, Question};
use cavy_search::cluster::catalogue::{Change, Refusal};
use cavy_search::cluster::{Map as Spread, Move, State};
use cavy_search::ring::Arc as Length;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// What an index may be called.
fn check_name(name: &str) -> Result<(), Error> {
    let invalid = |why: &str| {
        Error::new(
            400,
            "invalid_index_name_exception",
            format!("Invalid index name [{name}], {why}"),
        )
        .with("index_uuid", "_na_")
        .with("index", name)
    };
    if name.is_empty() {
        return Err(invalid("must not be empty"));
    }
    if name.chars().any(char::is_uppercase) {
        return Err(invalid("must be lowercase"));
    }
    if name.starts_with(['_', '-', '+']) {
        return Err(invalid("must not start with '_', '-', or '+'"));
    }
    if name == "." || name == ".." {
        return Err(invalid("must not be '.' or '..'"));
    }
    if name.contains('#') {
        return Err(invalid("must not contain '#'"));
    }
    if name.contains(':') {
        return Err(invalid("must not contain ':'"));
    }
    if name.contains([' ', '"', '*', '\\', '<', '|', ',', '>', '/', '?']) {
        let why = "must not contain the following characters [ , \", *, \\, <, |, ,, >, /, ?]";
        return Err(invalid(why));
    }
    if name.len() > 255 {
        return Err(invalid("index name is too long, (greater than 255)"));
    }
    Ok(())
}

/// Finds p in settings, whichever way they were written: `index.roar.p`, nested, with `index` or
/// without.
fn wanted_p(settings: &Value, gate: &Gate) -> Result<Option<u32>, Error> {
    let most = gate.cluster.p_most();
    let found = settings
        .get("index.roar.p")
        .or_else(|| settings.get("roar.p"))
        .or_else(|| settings.get("index").and_then(|index| index.get("roar.p")))
        .or_else(|| settings.pointer("/index/roar/p"))
        .or_else(|| settings.pointer("/roar/p"));
    let Some(value) = found else { return Ok(None) };
    let number = value.as_i64().or_else(|| value.as_str()?.parse().ok());
    match number {
        Some(p) if (1..=i64::from(most)).contains(&p) => Ok(Some(p as u32)),
        Some(p) if p < 1 => Err(Error::argument(format!(
            "Failed to parse value [{p}] for setting [index.roar.p] must be >= 1"
        ))),
        Some(p) => Err(Error::argument(format!(
            "Failed to parse value [{p}] for setting [index.roar.p] must be <= {most}, the \
             number of servers{}",
            if gate.cluster.rings > 1 { " of a ring" } else { "" }
        ))),
        None => Err(Error::argument(format!(
            "Failed to parse value [{value}] for setting [index.roar.p]"
        ))),
    }
}

/// Beginnings of the names of settings that an index may have in Elasticsearch.
const SETTINGS: [&str; 24] = [
    "analysis.",
    "auto_expand_replicas",
    "blocks.",
    "codec",
    "default_pipeline",
    "final_pipeline",
    "gc_deletes",
    "highlight.",
    "indexing.",
    "mapping.",
    "max_",
    "merge.",
    "number_of_",
    "priority",
    "query.",
    "refresh_interval",
    "roar.p",
    "routing",
    "search.",
    "soft_deletes.",
    "sort.",
    "store.",
    "translog.",
    "unassigned.",
];

/// Settings with their whole names, `index.` first.
fn flat(path: &str, settings: &Value) -> Vec<(String, Value)> {
    match settings {
        Value::Object(map) => map
            .iter()
            .flat_map(|(name, value)| {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                flat(&path, value)
            })
            .collect(),
        value => {
            let name = path.strip_prefix("index.").unwrap_or(path);
            vec![(format!("index.{name}"), value.clone())]
        }
    }
}

/// Refuses what is no setting, and what is no value of one.
fn check_setting(name: &str, value: &Value) -> Result<(), Error> {
    let own = name.strip_prefix("index.").unwrap_or(name);
    if !SETTINGS.iter().any(|known| own.starts_with(known)) {
        return Err(Error::argument(format!(
            "unknown setting [{name}] please check that any required plugins are installed, or \
             check the breaking changes documentation for removed settings"
        )));
    }
    if let ("refresh_interval", Some(text)) = (own, value.as_str())
        && text != "-1"
    {
        super::scroll::span(name, text)?;
    }
    Ok(())
}

fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

/// `PUT /{index}`.
pub async fn create(gate: &Gate, name: &str, body: &Value) -> Result<Value, Error> {
    check_name(name)?;
    let known = |key: &&String| !matches!(key.as_str(), "settings" | "mappings" | "aliases");
    if let Some(key) = body.as_object().and_then(|body| body.keys().find(known)) {
        let reason = format!("unknown key [{key}] for create index");
        return Err(Error::new(400, "parse_exception", reason));
    }
    if body.get("aliases").and_then(Value::as_object).is_some_and(|all| !all.is_empty()) {
        return Err(Error::argument("[aliases] are not served"));
    }
    let empty = json!({});
    let settings = body.get("settings").unwrap_or(&empty);
    let p = wanted_p(settings, gate)?.unwrap_or(gate.cluster.p);
    let mappings = body.get("mappings").unwrap_or(&empty);
    let mapping = Mapping::read(mappings).map_err(|error| match error.kind {
        "mapper_parsing_exception" => {
            let reason = format!("Failed to parse mapping [_doc]: {}", error.reason);
            Error::new(400, error.kind, reason).because(error)
        }
        _ => error,
    })?;
    let mut kept = json!({ "roar": { "p": p } });
    let index = settings.get("index").unwrap_or(settings);
    for key in ["number_of_shards", "number_of_replicas", "refresh_interval"] {
        if let Some(value) = index.get(key).or_else(|| settings.get(format!("index.{key}"))) {
            kept[key] = value.clone();
        }
    }
    let about = json!({
        "mappings": mapping.tree(), "settings": kept, "created": now_ms(), "uuid": gate.name(),
    });
    let about = serde_json::to_vec(&about).unwrap_or_default().into();
    match gate.change(Change::Create { name: name.to_owned(), p, about }).await? {
        Ok(()) => Ok(json!({ "acknowledged": true, "shards_acknowledged": true, "index": name })),
        Err(Refusal::Exists) => {
            let uuid = match gate.index(name).await {
                Ok(index) => index.uuid().clone(),
                Err(_) => json!("_na_"),
            };
            let shown = uuid.as_str().unwrap_or_default();
            let reason = format!("index [{name}/{shown}] already exists");
            Err(Error::new(400, "resource_already_exists_exception", reason)
                .with("index", name)
                .with("index_uuid", uuid))
        }
        Err(refusal) => Err(refused(refusal, name, gate)),
    }
}

fn settings_of(index: &Index) -> Value {
    let about = &index.about;
    let mut settings = json!({
        "creation_date": about["created"].to_string(),
        "number_of_shards": index.p().to_string(),
        "number_of_replicas": "0",
        "uuid": about["uuid"],
        "provided_name": index.name,
        "version": { "created": "8150099" },
        "roar": { "p": index.p().to_string() },
    });
    for key in ["number_of_replicas", "refresh_interval"] {
        if let Some(value) = about["settings"].get(key) {
            settings[key] = match value {
                Value::String(text) => json!(text),
                value => json!(value.to_string()),
            };
        }
    }
    settings
}

/// `GET /{index}`, and its parts.
pub async fn describe(gate: &Gate, expression: &str, part: &str) -> Result<Value, Error> {
    let mut map = Map::new();
    for index in gate.indices(expression, false).await? {
        let mappings = json!(index.mapping.tree());
        let settings = json!({ "index": settings_of(&index) });
        let value = match part {
            "_mapping" => json!({ "mappings": mappings }),
            "_settings" => json!({ "settings": settings }),
            _ => json!({ "aliases": {}, "mappings": mappings, "settings": settings }),
        };
        map.insert(index.name, value);
    }
    Ok(Value::Object(map))
}

/// `PUT /{index}/_mapping`.
pub async fn put_mapping(gate: &Gate, expression: &str, body: &Value) -> Result<Value, Error> {
    for index in gate.indices(expression, false).await? {
        gate.alter(&index.name, |index| {
            let next = index.mapping.with(body)?;
            let mut about = (*index.about).clone();
            about["mappings"] = next.tree().clone();
            Ok((about != *index.about).then_some(about))
        })
        .await?;
    }
    Ok(json!({ "acknowledged": true }))
}

/// `PUT /{index}/_settings`: p among them, at any time.
pub async fn put_settings(gate: &Gate, expression: &str, body: &Value) -> Result<Value, Error> {
    let body = body.get("settings").unwrap_or(body);
    if body.as_object().is_none_or(Map::is_empty) {
        return Err(Error::invalid("no settings to update"));
    }
    let p = wanted_p(body, gate)?;
    let names = flat("", body);
    for (name, value) in &names {
        check_setting(name, value)?;
    }
    let indices = gate.indices(expression, false).await?;
    if let Some((key, _)) = names.iter().find(|(name, _)| name.ends_with("number_of_shards")) {
        let open = indices
            .iter()
            .map(|index| format!("[{}/{}]", index.name, index.uuid().as_str().unwrap_or_default()));
        let open = open.collect::<Vec<_>>().join(", ");
        return Err(Error::argument(format!(
            "Can't update non dynamic settings [[{key}]] for open indices [{open}]"
        )));
    }
    for index in indices {
        let altered = gate
            .alter(&index.name, |index| {
                let mut about = (*index.about).clone();
                if let Some(p) = p {
                    about["settings"]["roar"]["p"] = json!(p);
                }
                let inner = body.get("index").unwrap_or(body);
                for key in ["number_of_replicas", "refresh_interval"] {
                    let value = inner.get(key).or_else(|| body.get(format!("index.{key}")));
                    if let Some(value) = value {
                        merge(&mut about["settings"], &json!({ key: value }));
                    }
                }
                Ok((about != *index.about).then_some(about))
            })
            .await?;
        if let Some(p) = p
            && let Err(refusal) = gate.spread(altered.number, p).await?
        {
            return Err(refused(refusal, &index.name, gate));
        }
    }
    Ok(json!({ "acknowledged": true }))
}

/// `DELETE /{index}`.
pub async fn delete(gate: &Gate, expression: &str) -> Result<Value, Error> {
    if expression.contains('*') || expression == "_all" {
        return Err(Error::argument("Wildcard expressions or all indices are not allowed"));
    }
    for index in gate.indices(expression, false).await? {
        super::documents::forget(gate, &index.name).await?;
    }
    Ok(json!({ "acknowledged": true }))
}

/// How an index stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Health {
    Green,
    Yellow,
    Red,
}

impl Health {
    /// By the directory. Red: ids on no server in step. Yellow: a server is away, or arcs are
    /// shorter than wanted.
    fn of(gate: &Gate, map: Option<&Arc<Spread>>, p: u64) -> Health {
        let Some(map) = map else { return Health::Red };
        let config = gate.cluster.config();
        let (rings, up) = (config.rings(map).now, |server: u32| map.is_up(server));
        let lost = cavy_search::loss::unheld(&rings, Length::of(map.p), up);
        if lost > 0 {
            return Health::Red;
        }
        // One that has left is missed by nobody, and borders that move take nothing from anybody.
        let fine = |state: &State| matches!(state, State::Up | State::Out);
        let whole = map.states.iter().all(fine);
        let there = match &map.moving {
            Some(moving) => matches!(moving.what, Move::Borders(_)),
            None => map.settled,
        };
        if whole && there && map.p == map.stored && u64::from(map.p) == p {
            Health::Green
        } else {
            Health::Yellow
        }
    }

    fn name(self) -> &'static str {
        match self {
            Health::Green => "green",
            Health::Yellow => "yellow",
            Health::Red => "red",
        }
    }
}

/// `_cluster/health`; waits for a status if it is asked to.
pub async fn health(gate: &Gate, expression: Option<&str>, url: &Url) -> Result<Value, Error> {
    let wanted = match url.get("wait_for_status").map(String::as_str) {
        Some("green") => Some(Health::Green),
        Some("yellow") => Some(Health::Yellow),
        Some("red") | None => None,
        Some(other) => {
            return Err(Error::constant("cluster.health.ClusterHealthStatus", other));
        }
    };
    let until = std::time::Instant::now() + std::time::Duration::from_secs(25);
    loop {
        let indices = gate.indices(expression.unwrap_or("*"), false).await?;
        let (_, maps) = gate.all().await?;
        let mut worst = Health::Green;
        let mut active = 0;
        let mut up = gate.cluster.servers.len();
        for index in &indices {
            let map = maps.get(&index.number);
            worst = worst.max(Health::of(gate, map, index.p()));
            // The map takes servers for what they were: those that have just been started may have
            // no lease yet, and answer nothing.
            if worst < Health::Red && !gate.by_range(index, &Question::Size).await?.lost.is_empty()
            {
                worst = Health::Red;
            }
            if let Some(map) = map {
                active += map.p;
                up = up.min(map.states.iter().filter(|state| **state == State::Up).count());
            }
        }
        let late = std::time::Instant::now() >= until;
        let percent = 100.0 * up as f64 / gate.cluster.servers.len() as f64;
        if wanted.is_none_or(|wanted| worst <= wanted) || late {
            return Ok(json!({
                "cluster_name": gate.cluster.name,
                "status": worst.name(),
                "timed_out": wanted.is_some_and(|wanted| worst > wanted),
                "number_of_nodes": gate.cluster.layout().nodes(),
                "number_of_data_nodes": up,
                "active_primary_shards": active,
                "active_shards": active,
                "relocating_shards": 0,
                "initializing_shards": 0,
                "unassigned_shards": 0,
                "delayed_unassigned_shards": 0,
                "number_of_pending_tasks": 0,
                "number_of_in_flight_fetch": 0,
                "task_max_waiting_in_queue_millis": 0,
                "active_shards_percent_as_number": percent,
            }));
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// Rows and their columns, for `_cat`.
pub struct Table {
    columns: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Keeps the columns that are named, in that order.
    fn keep(&mut self, wanted: &str) {
        let place = |name: &str| self.columns.iter().position(|column| *column == name);
        let places: Vec<usize> = wanted.split(',').filter_map(|name| place(name.trim())).collect();
        self.columns = places.iter().map(|at| self.columns[*at]).collect();
        for row in &mut self.rows {
            *row = places.iter().map(|at| row[*at].clone()).collect();
        }
    }

    /// As text, or as JSON.
    pub fn write(mut self, url: &Url) -> Result<String, Value> {
        if let Some(wanted) = url.get("h") {
            self.keep(wanted);
        }
        if url.get("format").is_some_and(|format| format == "json") {
            let row = |row: &Vec<String>| {
                let pairs = self.columns.iter().zip(row).map(|(c, v)| ((*c).to_owned(), json!(v)));
                Value::Object(pairs.collect())
            };
            return Err(self.rows.iter().map(row).collect());
        }
        let head = self.columns.iter().map(|column| (*column).to_owned()).collect::<Vec<_>>();
        let named = url.contains_key("v");
        let all: Vec<&Vec<String>> = named.then_some(&head).into_iter().chain(&self.rows).collect();
        let wide = |column: usize| all.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.columns.len()).map(wide).collect();
        let mut text = String::new();
        for row in all {
            let cells: Vec<String> =
                row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            text.push_str(cells.join(" ").trim_end());
            text.push('\n');
        }
        Ok(text)
    }
}

/// Seconds since 1970, and the time of the day.
fn clock() -> (String, String) {
    let ms = now_ms();
    let of_day = crate::date::write(ms as i64);
    ((ms / 1_000).to_string(), of_day.get(11..19).unwrap_or("").to_owned())
}

async fn size(gate: &Gate, index: &Index) -> Result<(u64, u64), Error> {
    let mut sum = (0, 0);
    for finding in gate.ask(index, &Question::Size, None).await?.findings {
        if let Finding::Size { documents, bytes } = finding {
            sum = (sum.0 + documents, sum.1 + bytes);
        }
    }
    Ok(sum)
}

/// `_cat/{what}`.
pub async fn cat(gate: &Gate, what: &str, expression: &str) -> Result<Table, Error> {
    let (_, maps) = gate.all().await?;
    let indices = gate.indices(expression, false).await?;
    let servers = gate.cluster.servers.len();
    let state = |state: State| match state {
        State::Up => "STARTED",
        State::Behind(_) => "INITIALIZING",
        State::Down => "UNASSIGNED",
        State::Out => "LEFT",
    };
    Ok(match what {
        "indices" => {
            let mut rows = Vec::new();
            for index in &indices {
                let health = Health::of(gate, maps.get(&index.number), index.p());
                let (documents, bytes) = size(gate, index).await?;
                rows.push(vec![
                    health.name().into(),
                    "open".into(),
                    index.name.clone(),
                    index.about["uuid"].as_str().unwrap_or("").into(),
                    index.p().to_string(),
                    "0".into(),
                    documents.to_string(),
                    "0".into(),
                    format!("{bytes}b"),
                    format!("{bytes}b"),
                ]);
            }
            let columns = vec![
                "health",
                "status",
                "index",
                "uuid",
                "pri",
                "rep",
                "docs.count",
                "docs.deleted",
                "store.size",
                "pri.store.size",
            ];
            Table { columns, rows }
        }
        "count" => {
            let mut all = 0;
            for index in &indices {
                all += size(gate, index).await?.0;
            }
            let (epoch, timestamp) = clock();
            Table {
                columns: vec!["epoch", "timestamp", "count"],
                rows: vec![vec![epoch, timestamp, all.to_string()]],
            }
        }
        "health" => {
            let health = health(gate, None, &Url::new()).await?;
            let text = |name: &str| match &health[name] {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let (epoch, timestamp) = clock();
            let columns = vec![
                "epoch",
                "timestamp",
                "cluster",
                "status",
                "node.total",
                "node.data",
                "shards",
                "pri",
                "relo",
                "init",
                "unassign",
                "pending_tasks",
                "max_task_wait_time",
                "active_shards_percent",
            ];
            let percent = health["active_shards_percent_as_number"].as_f64().unwrap_or(0.0);
            let row = vec![
                epoch,
                timestamp,
                text("cluster_name"),
                text("status"),
                text("number_of_nodes"),
                text("number_of_data_nodes"),
                text("active_shards"),
                text("active_primary_shards"),
                text("relocating_shards"),
                text("initializing_shards"),
                text("unassigned_shards"),
                text("number_of_pending_tasks"),
                "-".into(),
                format!("{percent:.1}%"),
            ];
            Table { columns, rows: vec![row] }
        }
        "nodes" => {
            let mut rows = Vec::new();
            for (node, address) in gate.cluster.addresses() {
                let role = match (node.0, gate.cluster.layout().number(node)) {
                    (0, _) => "m",
                    (_, None) => "c",
                    (_, Some(_)) => "d",
                };
                let port = address.port().to_string();
                rows.push(vec![
                    address.ip().to_string(),
                    role.into(),
                    format!("node-{}", node.0),
                    port,
                ]);
            }
            Table { columns: vec!["ip", "node.role", "name", "port"], rows }
        }
        "shards" => {
            let mut rows = Vec::new();
            let config = gate.cluster.config();
            for index in &indices {
                let Some(map) = maps.get(&index.number) else { continue };
                let rings = config.rings(map);
                for server in 0..servers as u32 {
                    // One that has left has no arc.
                    let Some(held) = rings.wants(server, map.p) else { continue };
                    rows.push(vec![
                        index.name.clone(),
                        server.to_string(),
                        state(map.states[server as usize]).into(),
                        format!("{:016x}", held.lo.wrapping_add(1)),
                        format!("{:016x}", held.hi),
                        format!("{:.4}", held.share()),
                        format!("node-{}", gate.cluster.layout().server(server).0),
                    ]);
                }
            }
            let columns =
                vec!["index", "shard", "state", "arc.from", "arc.to", "arc.share", "node"];
            Table { columns, rows }
        }
        "recovery" => {
            let mut rows = Vec::new();
            for index in &indices {
                let Some(map) = maps.get(&index.number) else { continue };
                let behind = map.states.iter().filter(|s| matches!(s, State::Behind(_))).count();
                let copying = map.p != map.stored || behind > 0 || map.moving.is_some();
                rows.push(vec![
                    index.name.clone(),
                    if copying { "index" } else { "done" }.into(),
                    map.p.to_string(),
                    map.stored.to_string(),
                    index.p().to_string(),
                    behind.to_string(),
                    map.epoch.to_string(),
                ]);
            }
            let columns = vec!["index", "stage", "p", "p.stored", "p.wanted", "behind", "epoch"];
            Table { columns, rows }
        }
        other => {
            let what = format!("no handler found for uri [/_cat/{other}] and method [GET]");
            return Err(Error::plain(400, what));
        }
    })
}

/// `GET /`.
pub fn root(gate: &Gate) -> Value {
    json!({
        "name": "cavy-search",
        "cluster_name": gate.cluster.name,
        "cluster_uuid": "cavy-search-cluster-1",
        "version": {
            "number": "8.15.0",
            "build_flavor": "default",
            "build_type": "cavy",
            "build_hash": env!("CARGO_PKG_VERSION"),
            "build_date": "2026-11-23T00:00:00.000Z",
            "build_snapshot": false,
            "lucene_version": "9.11.1",
            "minimum_wire_compatibility_version": "7.17.0",
            "minimum_index_compatibility_version": "7.0.0",
        },
        "tagline": "You Know, for Search",
    })
}

/// `_stats` and `/{index}/_stats`: `docs`, `store` or `_all`.
pub async fn stats(gate: &Gate, expression: &str, metrics: &str) -> Result<Value, Error> {
    let mut map = Map::new();
    let (mut all_documents, mut all_bytes, mut parts) = (0, 0, 0);
    let wanted = |name: &str| metrics.split(',').any(|one| one == name || one == "_all");
    let of = |documents: u64, bytes: u64| {
        let mut of = Map::new();
        if wanted("docs") {
            of.insert("docs".into(), json!({ "count": documents, "deleted": 0 }));
        }
        if wanted("store") {
            of.insert("store".into(), json!({ "size_in_bytes": bytes }));
        }
        Value::Object(of)
    };
    for index in gate.indices(expression, false).await? {
        let (documents, bytes) = size(gate, &index).await?;
        all_documents += documents;
        all_bytes += bytes;
        let own = of(documents, bytes);
        parts += index.p();
        let about = json!({ "uuid": index.uuid(), "primaries": own, "total": own });
        map.insert(index.name, about);
    }
    let own = of(all_documents, all_bytes);
    let shards = json!({ "total": parts, "successful": parts, "failed": 0 });
    Ok(json!({ "_shards": shards, "_all": { "primaries": own, "total": own }, "indices": map }))
}
