//! The HTTP interface, in Elasticsearch's conventions `[roar 7.2]`.
//!
//! What is served, what differs and what is absent stands in
//! `docs/reference/search-compatibility.md`.

pub mod admin;
pub mod counting;
pub mod documents;
pub mod dsl;
pub mod error;
pub mod fetch;
pub mod gate;
pub mod keys;
pub mod mapping;
pub mod parameters;
pub mod scroll;
pub mod search;
mod words;

use bytes::Bytes;
use documents::Action;
use error::Error;
use gate::Gate;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// The parameters of a URL.
pub type Query = BTreeMap<String, String>;

/// A body is no longer, as in Elasticsearch (`http.max_content_length`).
const BODY_BYTES: usize = 100 << 20;
/// Connections at a time; more wait.
const CONNECTIONS: usize = 4_096;
/// Requests that are under way at a time; more are told to come again.
const REQUESTS: usize = 1_024;
/// The head of a request takes no longer, and neither does a connection rest between two.
const HEAD: Duration = Duration::from_secs(75);
/// The body of a request takes no longer.
const BODY: Duration = Duration::from_secs(60);

/// What goes back.
enum Reply {
    Json(u16, Value),
    Text(String),
    /// A status alone, for `HEAD`.
    Nothing(u16),
}

/// Serves clients until `ending` comes true; requests under way are finished.
///
/// # Errors
/// When the listener fails.
pub async fn serve(
    gate: Arc<Gate>,
    listener: TcpListener,
    mut ending: tokio::sync::watch::Receiver<bool>,
) -> std::io::Result<()> {
    let connections = Arc::new(Semaphore::new(CONNECTIONS));
    let requests = Arc::new(Semaphore::new(REQUESTS));
    loop {
        let Ok(permit) = connections.clone().acquire_owned().await else { return Ok(()) };
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                // Too many open files, say: others may end.
                Err(_) => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            _ = ending.changed() => return Ok(()),
        };
        let _ = stream.set_nodelay(true);
        let (gate, requests, mut ending) = (gate.clone(), requests.clone(), ending.clone());
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let (gate, requests) = (gate.clone(), requests.clone());
                async move { Ok::<_, Infallible>(handled(&gate, &requests, request).await) }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD)
                .serve_connection(TokioIo::new(stream), service);
            tokio::pin!(connection);
            tokio::select! {
                _ = connection.as_mut() => {}
                _ = ending.changed() => {
                    connection.as_mut().graceful_shutdown();
                    let _ = connection.await;
                }
            }
            drop(permit);
        });
    }
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        let hex = |byte: &u8| (*byte as char).to_digit(16);
        match (first, after) {
            (b'%', [high, low, tail @ ..]) => match (hex(high), hex(low)) {
                (Some(high), Some(low)) => {
                    bytes.push((high * 16 + low) as u8);
                    rest = tail;
                }
                _ => bytes.push(b'%'),
            },
            (b'+', _) => bytes.push(b' '),
            (byte, _) => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn handled(
    gate: &Gate,
    requests: &Semaphore,
    request: Request<Incoming>,
) -> Response<Full<Bytes>> {
    let head = request.method() == Method::HEAD;
    let reply = match requests.try_acquire() {
        Ok(_permit) => answered(gate, request).await,
        Err(_) => Err(Error::new(
            429,
            "es_rejected_execution_exception",
            format!("rejected execution: [{REQUESTS}] requests are under way"),
        )),
    };
    let (status, kind, body) = match reply {
        Ok(Reply::Json(status, value)) => (status, "application/json", value.to_string()),
        Ok(Reply::Text(text)) => (200, "text/plain; charset=UTF-8", text),
        Ok(Reply::Nothing(status)) => (status, "application/json", String::new()),
        Err(error) => (error.status, "application/json", error.body().to_string()),
    };
    let body = if head { Bytes::new() } else { Bytes::from(body) };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    // Elasticsearch's clients talk to nobody without it.
    headers.insert("X-Elastic-Product", HeaderValue::from_static("Elasticsearch"));
    if status == 401 {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"security\""));
    }
    response
}

async fn answered(gate: &Gate, request: Request<Incoming>) -> Result<Reply, Error> {
    let (parts, body) = request.into_parts();
    // Before anything of the body is taken.
    gate.keys.admit(parts.headers.get(AUTHORIZATION).map(HeaderValue::as_bytes))?;
    let path = parts.uri.path().trim_matches('/').to_owned();
    let segments: Vec<String> =
        path.split('/').filter(|part| !part.is_empty()).map(decoded).collect();
    let mut query = Query::new();
    for pair in parts.uri.query().unwrap_or("").split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        query.insert(decoded(name), decoded(value));
    }
    // Not waited for: the client may never send what it announces.
    if body.size_hint().lower() > BODY_BYTES as u64 {
        return Err(too_long());
    }
    let collected = tokio::time::timeout(BODY, Limited::new(body, BODY_BYTES).collect()).await;
    let body = match collected {
        Ok(Ok(collected)) => collected.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => return Err(too_long()),
        Ok(Err(error)) => return Err(Error::argument(format!("cannot read the body: {error}"))),
        Err(_) => return Err(Error::new(408, "timeout_exception", "the body does not come")),
    };
    let kind = parts.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if !body.is_empty() {
        let known = |kind: &str| kind.contains("json");
        match kind {
            Some(kind) if known(kind) => {}
            other => {
                let shown = other.unwrap_or("");
                return Err(Error::new(
                    406,
                    "media_type_header_exception",
                    format!("Content-Type header [{shown}] is not supported"),
                ));
            }
        }
    }
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    parameters::check(&segments, &query)?;
    route(gate, &parts.method, &segments, &query, body).await
}

fn too_long() -> Error {
    let why = format!("a body has at most [{BODY_BYTES}] bytes");
    Error::new(413, "content_too_long_exception", why)
}

fn json_of(body: &[u8]) -> Result<Value, Error> {
    match body.is_empty() {
        true => Ok(Value::Null),
        false => serde_json::from_slice(body).map_err(|error| Error::json(&error)),
    }
}

async fn route(
    gate: &Gate,
    method: &Method,
    path: &[&str],
    query: &Query,
    body: Bytes,
) -> Result<Reply, Error> {
    let ok = |value: Value| Ok(Reply::Json(200, value));
    let is = |name: &str| method.as_str() == name;
    let get = is("GET") || is("HEAD");
    let ask = get || is("POST");
    let write = is("PUT") || is("POST");
    let arc = || -> crate::cluster::content::Bytes { body.as_ref().into() };
    match path {
        [] if get => ok(admin::root(gate)),
        ["_search"] if ask => ok(search::search(gate, "_all", query, &json_of(&body)?).await?),
        ["_search", "scroll"] if ask => ok(scroll::next(gate, query, &json_of(&body)?).await?),
        ["_search", "scroll"] if is("DELETE") => {
            let (status, told) = scroll::close(gate, &json_of(&body)?, None);
            Ok(Reply::Json(status, told))
        }
        ["_search", "scroll", id] if is("DELETE") => {
            let (status, told) = scroll::close(gate, &Value::Null, Some(id));
            Ok(Reply::Json(status, told))
        }
        ["_search", "scroll", id] if ask => {
            let body = json!({ "scroll_id": id });
            ok(scroll::next(gate, query, &body).await?)
        }
        ["_count"] if ask => ok(search::count(gate, "_all", query, &json_of(&body)?).await?),
        ["_msearch"] if ask => ok(search::msearch(gate, None, &body).await?),
        ["_mget"] if ask => ok(fetch::mget(gate, None, &json_of(&body)?).await?),
        ["_bulk"] if write => ok(documents::bulk(gate, None, query, &body).await?),
        ["_refresh"] if ask => refresh(gate, "_all").await,
        ["_stats"] if get => ok(admin::stats(gate, "_all", "_all").await?),
        ["_stats", metrics] if get => ok(admin::stats(gate, "_all", metrics).await?),
        ["_cluster", "health"] if get => ok(admin::health(gate, None, query).await?),
        ["_cluster", "health", index] if get => ok(admin::health(gate, Some(index), query).await?),
        ["_cluster", "settings"] if get => ok(json!({
            "persistent": { "roar": { "p": gate.cluster.p.to_string() } }, "transient": {},
        })),
        ["_nodes", ..] if get => nodes(gate),
        ["_cat"] if get => Ok(Reply::Text(
            "=^.^=\n/_cat/count\n/_cat/health\n/_cat/indices\n/_cat/nodes\n/_cat/recovery\n\
             /_cat/shards\n"
                .into(),
        )),
        ["_cat", what] if get => table(admin::cat(gate, what, "*").await?, query),
        ["_cat", what, index] if get => table(admin::cat(gate, what, index).await?, query),
        ["_mapping" | "_mappings"] if get => ok(admin::describe(gate, "*", "_mapping").await?),
        ["_settings"] if get => ok(admin::describe(gate, "*", "_settings").await?),
        ["_settings"] if is("PUT") => ok(admin::put_settings(gate, "*", &json_of(&body)?).await?),
        ["_license"] if get => ok(json!({
            "license": { "status": "active", "type": "basic", "uid": "cavy" },
        })),
        // A name that no index may have, and that nothing else has.
        [index] if is("PUT") && parameters::methods(path).is_none() => {
            ok(admin::create(gate, index, &json_of(&body)?).await?)
        }
        [index] if !index.starts_with('_') || *index == "_all" => match method.as_str() {
            "HEAD" => {
                let found = gate.indices(index, false).await.is_ok_and(|all| !all.is_empty());
                Ok(Reply::Nothing(if found { 200 } else { 404 }))
            }
            "GET" => ok(admin::describe(gate, index, "").await?),
            "PUT" => {
                let body = json_of(&body).map_err(|error| {
                    Error::new(400, "parse_exception", "Failed to parse content to map")
                        .because(error)
                })?;
                ok(admin::create(gate, index, &body).await?)
            }
            "DELETE" => ok(admin::delete(gate, index).await?),
            _ => Err(wrong_method(method, path)),
        },
        [index, "_search"] if ask => {
            let body = json_of(&body)?;
            ok(search::search(gate, index, query, &body).await?)
        }
        [index, "_count"] if ask => ok(search::count(gate, index, query, &json_of(&body)?).await?),
        [index, "_msearch"] if ask => ok(search::msearch(gate, Some(index), &body).await?),
        [index, "_mget"] if ask => ok(fetch::mget(gate, Some(index), &json_of(&body)?).await?),
        [index, "_bulk"] if write => ok(documents::bulk(gate, Some(index), query, &body).await?),
        [index, "_refresh" | "_flush" | "_forcemerge"] if ask => refresh(gate, index).await,
        [index, "_stats"] if get => ok(admin::stats(gate, index, "_all").await?),
        [index, "_stats", metrics] if get => ok(admin::stats(gate, index, metrics).await?),
        [index, "_mapping" | "_mappings"] if get => {
            ok(admin::describe(gate, index, "_mapping").await?)
        }
        [index, "_mapping" | "_mappings"] if write => {
            ok(admin::put_mapping(gate, index, &json_of(&body)?).await?)
        }
        [index, "_settings"] if get => ok(admin::describe(gate, index, "_settings").await?),
        [index, "_settings"] if is("PUT") => {
            ok(admin::put_settings(gate, index, &json_of(&body)?).await?)
        }
        [index, "_doc"] if is("POST") => {
            let done = documents::one(gate, index, None, Action::Index, query, arc()).await?;
            Ok(Reply::Json(done.0, done.1))
        }
        [index, "_doc", id] => {
            let (status, value) = match method.as_str() {
                "GET" | "HEAD" => fetch::get(gate, index, id, query, false).await?,
                "PUT" | "POST" => {
                    documents::one(gate, index, Some(id), Action::Index, query, arc()).await?
                }
                "DELETE" => {
                    documents::one(gate, index, Some(id), Action::Delete, query, arc()).await?
                }
                _ => return Err(wrong_method(method, path)),
            };
            Ok(Reply::Json(status, value))
        }
        [index, "_create", id] if write => {
            let done = documents::one(gate, index, Some(id), Action::Create, query, arc()).await?;
            Ok(Reply::Json(done.0, done.1))
        }
        [index, "_update", id] if is("POST") => {
            let done = documents::one(gate, index, Some(id), Action::Update, query, arc()).await?;
            Ok(Reply::Json(done.0, done.1))
        }
        [index, "_source", id] if get => {
            let done = fetch::get(gate, index, id, query, true).await?;
            Ok(Reply::Json(done.0, done.1))
        }
        _ => Err(wrong_method(method, path)),
    }
}

/// What is not served: another method of a path that is, or a path that is not.
fn wrong_method(method: &Method, path: &[&str]) -> Error {
    let uri = path.join("/");
    match parameters::methods(path) {
        Some(allowed) => Error::plain(
            405,
            format!(
                "Incorrect HTTP method for uri [/{uri}] and method [{method}], allowed: [{allowed}]"
            ),
        ),
        None => {
            Error::plain(400, format!("no handler found for uri [/{uri}] and method [{method}]"))
        }
    }
}

fn table(table: admin::Table, query: &Query) -> Result<Reply, Error> {
    Ok(match table.write(query) {
        Ok(text) => Reply::Text(text),
        Err(json) => Reply::Json(200, json),
    })
}

async fn refresh(gate: &Gate, expression: &str) -> Result<Reply, Error> {
    let mut parts = 0;
    for index in gate.indices(expression, false).await? {
        parts += gate.refresh(&index).await?;
    }
    let shards = json!({ "total": parts, "successful": parts, "failed": 0 });
    Ok(Reply::Json(200, json!({ "_shards": shards })))
}

fn nodes(gate: &Gate) -> Result<Reply, Error> {
    let mut all = serde_json::Map::new();
    for (number, front_end) in gate.cluster.front_ends.iter().enumerate() {
        let name = format!("node-{}", gate.cluster.layout().front_end(number as u32).0);
        let address = front_end.http.to_string();
        let about = json!({
            "name": name,
            "ip": front_end.http.ip().to_string(),
            "version": "8.15.0",
            "roles": ["ingest"],
            "http": { "bound_address": [address], "publish_address": address },
        });
        all.insert(name, about);
    }
    let name = &gate.cluster.name;
    Ok(Reply::Json(200, json!({ "cluster_name": name, "nodes": all })))
}
