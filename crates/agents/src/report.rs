//! What an agent tells the service: where it is, and what it measured.
//!
//! Reports are numbered, so that one that is sent again because its answer was lost counts once.
//! While the service is away they wait in bounded memory, the oldest make room, and the agent goes
//! on.

use crate::endpoint::Status;
use crate::wire::Reach;
use crate::world::Measured;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

/// Measurements that wait, at most.
const WAITING_MAX: usize = 4_096;
/// Measurements of one report.
const REPORT_MAX: usize = 500;
/// An answer that takes longer is none.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Who reports to whom.
#[derive(Clone, Debug)]
pub struct Options {
    /// The service.
    pub service: SocketAddr,
    /// Its token.
    pub token: Option<String>,
    /// The node's id: where its peers reach it, such as `192.0.2.1:7946`.
    pub id: String,
    /// The address of which the service looks up the place.
    pub ip: Option<std::net::IpAddr>,
    /// Where the node is, if the agent was told, degrees.
    pub place: Option<(f64, f64)>,
    /// What the node is, such as `server`.
    pub class: String,
    /// How it is reached.
    pub reach: Reach,
}

/// Reports that wait, and what became of the others.
pub struct Reporter {
    options: Options,
    runtime: tokio::runtime::Runtime,
    source: String,
    first: u64,
    waiting: VecDeque<(SocketAddr, f64)>,
    is_known: bool,
    placed: Option<Value>,
    /// Measurements that made room for later ones.
    pub dropped: u64,
    /// Measurements that the service has.
    pub told: u64,
}

impl Reporter {
    /// A reporter whose reports are told apart from those of an earlier process by `life`.
    ///
    /// # Errors
    /// When the system refuses what asking over the network takes.
    pub fn new(options: Options, life: u64) -> std::io::Result<Reporter> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let source = format!("{}/{life:016x}", options.id);
        let (waiting, is_known, placed) = (VecDeque::new(), false, None);
        let (first, dropped, told) = (0, 0, 0);
        Ok(Reporter { options, runtime, source, first, waiting, is_known, placed, dropped, told })
    }

    /// Notes a measurement.
    pub fn note(&mut self, measured: &Measured) {
        if self.waiting.len() >= WAITING_MAX {
            self.waiting.pop_front();
            self.first += 1;
            self.dropped += 1;
        }
        self.waiting.push_back((measured.peer, measured.rtt.ms()));
    }

    /// Measurements that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Tells the service what it does not know yet.
    ///
    /// # Errors
    /// Why it was not told; what waits goes on waiting.
    pub fn tell(&mut self, status: &Status) -> Result<(), String> {
        if !self.is_known {
            let mut node = json!({
                "id": self.options.id, "class": self.options.class, "reach": self.options.reach,
            });
            if let Some(ip) = self.options.ip {
                node["ip"] = json!(ip);
            }
            if let Some((lat, lon)) = self.options.place {
                (node["lat"], node["lon"]) = (json!(lat), json!(lon));
            }
            self.ask("POST", "/v1/nodes", &node)?;
            self.is_known = true;
        }
        if let (Some((lat, lon)), Some(height_ms), Some(error)) =
            (status.place, status.height_ms, status.error)
        {
            let updates = status.updates;
            let coord = json!({
                "lat": lat, "lon": lon, "height_ms": height_ms, "error": error, "updates": updates,
            });
            if self.placed.as_ref() != Some(&coord) {
                let path = format!("/v1/nodes/{}/coord", escaped(&self.options.id));
                self.ask("PUT", &path, &coord)?;
                self.placed = Some(coord);
            }
        }
        while !self.waiting.is_empty() {
            let batch = self.waiting.iter().take(REPORT_MAX);
            let probes: Vec<Value> = batch
                .map(|(to, rtt_ms)| {
                    json!({ "from": self.options.id, "to": to.to_string(), "rtt_ms": rtt_ms })
                })
                .collect();
            let count = probes.len();
            let report = json!({ "source": self.source, "first": self.first, "probes": probes });
            self.ask("POST", "/v1/probes", &report)?;
            self.waiting.drain(..count);
            self.first += count as u64;
            self.told += count as u64;
        }
        Ok(())
    }

    fn ask(&mut self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let asked = ask(&self.options, method, path, body.to_string());
        let answer = self.runtime.block_on(async {
            tokio::time::timeout(PATIENCE, asked).await.map_err(|_| "no answer in 10 s".to_string())
        })?;
        let (status, body) = answer?;
        if status < 300 {
            return Ok(body);
        }
        if status == 404 {
            // It has forgotten us.
            (self.is_known, self.placed) = (false, None);
        }
        Err(format!("{method} {path}: {status}, {body}"))
    }
}

fn escaped(id: &str) -> String {
    form_urlencoded::byte_serialize(id.as_bytes()).collect::<String>().replace('+', "%20")
}

async fn ask(
    options: &Options,
    method: &str,
    path: &str,
    body: String,
) -> Result<(u16, Value), String> {
    let say = |error: &dyn std::fmt::Display| format!("{}: {error}", options.service);
    let stream = tokio::net::TcpStream::connect(options.service).await.map_err(|e| say(&e))?;
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|e| say(&e))?;
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", options.service.to_string())
        .header("content-type", "application/json");
    let request = match &options.token {
        Some(token) => request.header("authorization", format!("Bearer {token}")),
        None => request,
    };
    let request = request.body(Full::<Bytes>::from(body)).map_err(|e| say(&e))?;
    let connection = tokio::spawn(connection);
    let answered = async {
        let response = sender.send_request(request).await.map_err(|e| say(&e))?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|e| say(&e))?.to_bytes();
        Ok((status, serde_json::from_slice(&body).unwrap_or(Value::Null)))
    };
    let answered = answered.await;
    connection.abort();
    answered
}
