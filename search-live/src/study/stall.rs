//! R5: a server stands still for a second every twenty.

use super::{Load, begin};
use crate::cluster::local::Local;
use cavy_core::{Purpose, Stream};
use serde_json::{Value, json};
use std::time::Duration;

/// From one time to the next, and how long each time.
const EVERY: Duration = Duration::from_secs(20);
const LASTS: Duration = Duration::from_secs(1);

/// Another server in each run stands still, `cycles` times; each time is a row.
///
/// # Errors
/// When the cluster does not start.
pub fn tail(
    local: &mut Local,
    load: Load,
    (p, cycles): (u32, u32),
    mut tell: impl FnMut(&Value),
) -> Result<Value, String> {
    let (running, _) = begin(local, load, p)?;
    let layout = local.cluster.layout();
    let mut draws = Stream::keyed(load.seed, 2, Purpose::Faults);
    let node = layout.server(draws.below(u64::from(layout.servers)) as u32).0;
    let mut rows = Vec::new();
    for _ in 0..cycles {
        std::thread::sleep(EVERY - LASTS);
        local.pause(node, true);
        std::thread::sleep(LASTS);
        local.pause(node, false);
        let mut row = running.part();
        row["what"] = json!(format!("hedge {} ms", local.cluster.hedge_ms));
        row["hedge_ms"] = json!(local.cluster.hedge_ms);
        row["p"] = json!(p);
        tell(&row);
        rows.push(row);
    }
    let verdict = running.end();
    Ok(json!({ "study": "tail", "rows": rows, "checker": verdict }))
}
