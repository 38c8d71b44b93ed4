//! What the server did, for programs (`/stats`), scrapers (`/metrics`) and `INFO`.

use super::service::{Service, Work};
use cavy_lab::statistics::quantile;
use cavy_live::metrics::{Reservation, Stats, TypeStats, prometheus};
use hdrhistogram::Histogram;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// Events of connections: name, help, value.
fn events(service: &Service) -> [(&'static str, &'static str, u64); 6] {
    let counters = &service.counters;
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    [
        ("connections", "Connections taken", load(&counters.connections)),
        (
            "turned_away",
            "Connections closed at once, there were too many",
            load(&counters.turned_away),
        ),
        (
            "too_slow",
            "Connections closed because the client was too slow",
            load(&counters.too_slow),
        ),
        ("idle", "Connections closed because nothing was asked on them", load(&counters.idle)),
        (
            "not_understood",
            "Connections closed because the client broke the protocol",
            load(&counters.not_understood),
        ),
        ("held_bytes", "Bytes of values and answers that wait", service.held_bytes() as u64),
    ]
}

/// One JSON object.
pub fn json(service: &Service) -> Value {
    let stats = service.pool.stats();
    let connections: serde_json::Map<String, Value> = events(service)
        .into_iter()
        .map(|(name, _, value)| (name.to_string(), value.into()))
        .collect();
    json!({
        "service": kind_of_service(service),
        "ready": service.ready().is_ok(),
        "at_s": stats.at.as_ns() as f64 / 1e9,
        "workers": stats.workers,
        "waiting": stats.waiting,
        "in_system": stats.in_system,
        "workers_replaced": stats.workers_replaced,
        "types": stats.types.iter().map(type_json).collect::<Vec<_>>(),
        "reservation": stats.reservation.as_ref().map(|now| reservation(now, &stats)),
        "updates": stats.updates.len(),
        "connections": connections,
    })
}

fn kind_of_service(service: &Service) -> String {
    match &service.work {
        Work::Store { store, .. } => format!("embedded store, {}", store.name()),
        Work::Timed(_) => "emulated by waiting".to_string(),
    }
}

fn type_json(of: &TypeStats) -> Value {
    json!({
        "name": of.name,
        "arrivals": of.arrivals,
        "starts": of.starts,
        "stolen": of.stolen,
        "drops": of.drops,
        "finished": of.finished,
        "panics": of.panics,
        "cancelled": of.cancelled,
        "wait_us": times(&of.wait),
        "service_us": times(&of.service),
        "latency_us": times(&of.latency),
    })
}

fn times(times: &Histogram<u64>) -> Value {
    if times.is_empty() {
        return Value::Null;
    }
    let at = |p| quantile::of_histogram(times, p).map_or(0.0, |ns| ns as f64 / 1e3);
    json!({ "p50": at(0.5), "p99": at(0.99), "max": times.max() as f64 / 1e3 })
}

fn reservation(now: &Reservation, stats: &Stats) -> Value {
    let groups = now.table.groups.iter().map(|group| {
        let name = |kind: usize| stats.types.get(kind).map_or("", |of| of.name.as_str());
        let members = group.members.iter().map(|kind| name(usize::from(kind.0)));
        json!({
            "types": members.collect::<Vec<_>>(),
            "demand": group.demand,
            "reserved": group.reserved.iter().map(|worker| worker.0).collect::<Vec<_>>(),
            "stealable": group.stealable.iter().map(|worker| worker.0).collect::<Vec<_>>(),
        })
    });
    json!({ "version": now.version, "groups": groups.collect::<Vec<_>>() })
}

/// OpenMetrics text.
pub fn prometheus(service: &Service) -> String {
    let text = prometheus::text(service.pool.stats(), "cavy");
    let mut out = text.trim_end_matches("# EOF\n").to_string();
    for (name, help, value) in events(service) {
        let (kind, end) = if name == "held_bytes" { ("gauge", "") } else { ("counter", "_total") };
        let _ = writeln!(out, "# HELP cavy_{name} {help}.");
        let _ = writeln!(out, "# TYPE cavy_{name} {kind}");
        let _ = writeln!(out, "cavy_{name}{end} {value}");
    }
    out.push_str("# EOF\n");
    out
}

/// What the command INFO answers.
pub fn info(service: &Service) -> String {
    let stats = service.pool.stats();
    let mut out = format!(
        "# Server\r\nredis_mode:standalone\r\nserver_name:cavy-live\r\ncavy_version:{}\r\n\
         service:{}\r\nworkers:{}\r\nwaiting:{}\r\n",
        env!("CARGO_PKG_VERSION"),
        kind_of_service(service),
        stats.workers,
        stats.waiting
    );
    for of in stats.types.iter().skip(1) {
        let _ = write!(
            out,
            "type_{}:arrivals={},finished={},drops={},stolen={}\r\n",
            of.name, of.arrivals, of.finished, of.drops, of.stolen
        );
    }
    out
}
