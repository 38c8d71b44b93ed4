//! R3: delay by p, at several rates of queries, with servers that have a share of a processor each.

use super::quota::Quotas;
use super::{INDEX, Load, PATIENCE, Running, begin, not_green, settled};
use crate::cluster::local::Local;
use serde_json::{Value, json};
use std::time::Duration;

/// What is under way while p changes is over after so long.
const PAUSE: Duration = Duration::from_millis(500);
/// What servers use of processors without any query is measured for so long.
const IDLE: Duration = Duration::from_secs(3);
/// A cell is told in so many rows, one after the other, so that one sees how far its mean varies.
const SECTIONS: u32 = 6;

/// Which p, at which rates of queries, how long each, and which share of a processor a server has.
#[derive(Clone, Copy, Debug)]
pub struct Spreads<'a> {
    /// The values of p, in turn; a rising p copies nothing.
    pub p: &'a [u32],
    /// Queries a second.
    pub rates: &'a [f64],
    /// At each p and rate.
    pub rest: Duration,
    /// Percent.
    pub quota_percent: f64,
}

/// Each p at each rate, on one index that is not written to. Servers are held back while queries
/// are measured, and not while documents are written or p changes.
///
/// # Errors
/// When the cluster does not start, or the system cannot hold servers back.
pub fn delay(
    local: &mut Local,
    load: Load,
    spreads: Spreads<'_>,
    mut tell: impl FnMut(&Value),
) -> Result<Value, String> {
    let first = *spreads.p.first().ok_or("no p is given")?;
    let layout = local.cluster.layout();
    let servers = (0..layout.servers).map(|number| layout.server(number).0);
    let pids: Vec<u32> = servers.filter_map(|node| local.pid(node)).collect();
    let quotas = Quotas::new(&pids)?;
    let load = Load { queries_per_s: 0.0, writes_per_s: 0.0, broad: true, ..load };
    let (running, mut client) = begin(local, load, first)?;
    let mut rows = Vec::new();
    for &p in spreads.p {
        let body = json!({"index.roar.p": p}).to_string();
        let answer = client.ask("PUT", &format!("/{INDEX}/_settings"), &body);
        if !matches!(answer, Ok((200, _))) {
            return Err(format!("p was not taken: {answer:?}"));
        }
        if settled(local, &mut client, PATIENCE * 3).is_none() {
            return Err(not_green(&mut client));
        }
        // Plans learn, segments are merged.
        warm(&running, spreads.rates);
        quotas.set(Some(spreads.quota_percent))?;
        let before = quotas.used_ns();
        std::thread::sleep(IDLE);
        let idle_ns_per_s = (quotas.used_ns() - before) as f64 / IDLE.as_secs_f64();
        for &rate in spreads.rates {
            let (before, began) = (quotas.used_ns(), std::time::Instant::now());
            running.part();
            running.pace(rate);
            let mut cell: Vec<Value> = Vec::new();
            for section in 1..=SECTIONS {
                std::thread::sleep(spreads.rest / SECTIONS);
                if section == SECTIONS {
                    running.calm();
                }
                let mut row = running.part();
                row["p"] = json!(p);
                row["queries_per_s"] = json!(rate);
                row["what"] = json!(format!("p {p}, {rate}/s"));
                cell.push(row);
            }
            let used = quotas.used_ns().saturating_sub(before) as f64;
            let own = used - idle_ns_per_s * began.elapsed().as_secs_f64();
            let asked: u64 = cell.iter().filter_map(|row| row["queries"].as_u64()).sum();
            if let Some(last) = cell.last_mut() {
                // Of the whole cell.
                last["processor_ms"] = json!(own / asked.max(1) as f64 / 1e6);
                tell(last);
            }
            rows.extend(cell);
        }
        quotas.set(None)?;
        client.rest();
    }
    let verdict = running.end();
    Ok(json!({
        "study": "delay",
        "servers": layout.servers,
        "documents": load.keys,
        "quota_percent": spreads.quota_percent,
        "rows": rows,
        "checker": verdict,
    }))
}

/// Queries at the first rate until front ends know what sub-queries take.
fn warm(running: &Running, rates: &[f64]) {
    std::thread::sleep(PAUSE);
    running.pace(rates.first().copied().unwrap_or(1.0));
    std::thread::sleep(4 * PAUSE);
    running.calm();
}
