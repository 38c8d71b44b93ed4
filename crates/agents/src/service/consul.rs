//! What Consul's HTTP clients ask about coordinates and nodes, so that tools which know Consul read
//! this service unchanged ([htrae 7.2]).
//!
//! Consul's coordinates are flat and in seconds, a sphere is not: what is published is the place as
//! a vector of the globe in the space of chords. A chord is shorter than its arc, by less than 1 %
//! below 3,100 km and by 36 % between antipodes. Lists sorted by `?near=` are in the order of our
//! own coordinates and not of chords. Positions are exact here, so these calls are off unless asked
//! for.

use super::{Answer, Ask, Refusal, Service, unescaped, values};
use crate::directory::{Directory, Entry};
use serde_json::{Value, json};

/// Dimensions of Consul's coordinates.
const DIMENSIONS: usize = 8;
const DATACENTER: &str = "dc1";
/// What Consul's clients look for in an answer.
const HEADERS: &[(&str, &str)] =
    &[("X-Consul-Index", "1"), ("X-Consul-KnownLeader", "true"), ("X-Consul-LastContact", "0")];

fn coordinate(directory: &Directory, entry: &Entry) -> Option<Value> {
    let own = entry.coordinate()?;
    let radius_s = directory.model().line.ms_per_radian() / 1e3;
    let mut vector = [0.0; DIMENSIONS];
    for (part, of) in vector.iter_mut().zip(own.position.vector()) {
        *part = radius_s * of;
    }
    Some(json!({
        "Node": entry.said.id,
        "Segment": "",
        "Coord": {
            "Vec": vector,
            "Error": own.error,
            "Adjustment": 0.0,
            "Height": own.height_ms / 1e3,
        },
    }))
}

/// Those of all nodes that have one, by id.
fn coordinates(directory: &Directory) -> Vec<Value> {
    let all = directory.by_id().into_iter();
    all.filter_map(|(_, entry)| coordinate(directory, entry)).collect()
}

fn address(entry: &Entry) -> String {
    entry.said.ip.map(|ip| ip.to_string()).unwrap_or_default()
}

/// The port among the properties; 0 without one.
fn port(entry: &Entry) -> u16 {
    entry.said.props.get("port").and_then(|port| port.parse().ok()).unwrap_or(0)
}

fn node(entry: &Entry) -> Value {
    json!({
        "ID": "",
        "Node": entry.said.id,
        "Address": address(entry),
        "Datacenter": DATACENTER,
        "TaggedAddresses": {},
        "Meta": entry.said.props,
        "CreateIndex": 1,
        "ModifyIndex": 1,
    })
}

fn service(entry: &Entry) -> Value {
    let mut all = node(entry);
    let more = json!({
        "ServiceID": entry.said.id,
        "ServiceName": entry.said.class,
        "ServiceAddress": address(entry),
        "ServiceTags": [],
        "ServiceMeta": {},
        "ServicePort": port(entry),
        "NodeMeta": entry.said.props,
    });
    if let (Some(all), Value::Object(more)) = (all.as_object_mut(), more) {
        all.extend(more);
    }
    all
}

fn answer(value: &Value) -> Answer {
    Answer { headers: HEADERS, ..Answer::json(200, value) }
}

impl Service {
    /// An answer to one of Consul's calls; `None` when it is none of them.
    pub(super) fn consul(&self, ask: &Ask<'_>) -> Option<Result<Answer, Refusal>> {
        let parts: Vec<&str> = ask.path.split('/').filter(|part| !part.is_empty()).collect();
        if ask.method != "GET" {
            return None;
        }
        let directory = self.directory();
        let near = values(ask.query).into_iter().find(|(name, _)| name == "near").map(|(_, of)| of);
        Some(Ok(match &parts[..] {
            ["v1", "coordinate", "nodes"] => answer(&coordinates(&directory).into()),
            ["v1", "coordinate", "node", name] => {
                let name = unescaped(name);
                let of = directory.number(&name).and_then(|node| directory.entry(node));
                match of.and_then(|entry| coordinate(&directory, entry)) {
                    Some(one) => answer(&json!([one])),
                    None => return Some(Err((404, format!("no coordinate of {name:?}")))),
                }
            }
            ["v1", "coordinate", "datacenters"] => {
                let all = coordinates(&directory);
                answer(&json!([{ "Datacenter": DATACENTER, "AreaID": "wan", "Coordinates": all }]))
            }
            ["v1", "catalog", "datacenters"] => answer(&json!([DATACENTER])),
            ["v1", "catalog", "nodes"] => {
                answer(&sorted(&directory, near.as_deref(), None).map(node).collect())
            }
            ["v1", "catalog", "services"] => {
                let classes = directory.classes().map(|class| (class.to_string(), json!([])));
                answer(&Value::Object(classes.collect()))
            }
            ["v1", "catalog", "service", class] => {
                let class = unescaped(class);
                let all = sorted(&directory, near.as_deref(), Some(&class));
                answer(&all.map(service).collect())
            }
            ["v1", "status", "leader"] => answer(&json!("127.0.0.1:8300")),
            _ => return None,
        }))
    }
}

/// Nodes by their distance from one of them, as coordinates have it, those without one last; by
/// name when that one is not known.
fn sorted<'a>(
    directory: &'a Directory,
    near: Option<&str>,
    class: Option<&'a str>,
) -> impl Iterator<Item = &'a Entry> {
    let from = near.and_then(|id| directory.number(id));
    let all = directory.by_id().into_iter();
    let all = all.filter(move |(_, entry)| class.is_none_or(|class| class == entry.said.class));
    let mut all: Vec<(f64, &Entry)> = all
        .map(|(node, entry)| {
            let apart = from.filter(|from| *from != node);
            let ms = match (from, apart) {
                (Some(_), None) | (None, _) => Some(0.0),
                (Some(_), Some(from)) => directory.published_ms(from, node),
            };
            (ms.unwrap_or(f64::INFINITY), entry)
        })
        .collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all.into_iter().map(|(_, entry)| entry)
}
