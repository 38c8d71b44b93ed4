//! HashiCorp's serf agents, one a namespace, as they come.

use super::anchors::Anchors;
use super::bed::{Bed, Run, failed, sleep_until};
use crate::faults::Fault;
use cavy_clock as clock;
use cavy_core::Span;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;

const PORT: u16 = 7_946;
/// Where each agent answers, in its own namespace.
const RPC: &str = "127.0.0.1:7373";
/// Agents need this long to know each other.
const SETTLE: Span = Span::from_ms(2_000);

/// The version of the programs in `folder`, or why there are none.
///
/// # Errors
/// When a folder is named that lacks them: what was asked for cannot be done.
pub fn version(folder: Option<&Path>) -> Result<Result<String, String>, Fault> {
    let Some(folder) = folder else {
        let why = "--serf names no folder; crates/live-cli/tests/serf/README.md fills one with Go";
        return Ok(Err(why.to_string()));
    };
    let cure = "crates/live-cli/tests/serf/README.md makes `serf` and `coordinates` in it";
    if let Some(missing) = ["coordinates", "serf"].iter().find(|one| !folder.join(one).is_file()) {
        let name = folder.display();
        return Err(Fault::new(format!("--serf {name} has no program `{missing}`")).hint(cure));
    }
    // Of a serf that Go built `serf version` says 0.8.2-dev, whatever it is.
    let said =
        Command::new(folder.join("coordinates")).arg("version").output().map_err(|error| {
            Fault::new(format!("cannot run {}/coordinates: {error}", folder.display())).hint(cure)
        })?;
    let said = String::from_utf8_lossy(&said.stdout);
    Ok(Ok(said.lines().next().unwrap_or("serf of no version").to_string()))
}

/// Ends its processes when it goes.
struct Processes(Vec<Child>);

impl Drop for Processes {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What an agent says of itself: place, height, adjustment, in seconds.
struct Own {
    place: Vec<f64>,
    height: f64,
    adjustment: f64,
}

impl Own {
    /// serf's `DistanceTo`, milliseconds.
    fn distance_ms(&self, other: &Own) -> f64 {
        let squares = self.place.iter().zip(&other.place).map(|(a, b)| (a - b).powi(2));
        let raw = squares.sum::<f64>().sqrt() + self.height + other.height;
        let adjusted = raw + self.adjustment + other.adjustment;
        1e3 * if adjusted > 0.0 { adjusted } else { raw }
    }
}

fn own(bed: &Bed<'_>, folder: &Path, one: usize) -> Result<Own, Fault> {
    let name = format!("a{one}");
    let mut command = Command::new(folder.join("coordinates"));
    command.args([RPC, &name]);
    let output = bed.line().hosts()[one].within(|| command.output());
    let output = output.map_err(|error| failed("a namespace", &error))?;
    let output = output.map_err(|error| failed("coordinates", &error))?;
    let said: serde_json::Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| failed("what serf's client says", &error))?;
    let own = &said[&name];
    let number = |value: &serde_json::Value| value.as_f64();
    let parts = || {
        let place = own["Vec"].as_array()?.iter().filter_map(number).collect();
        Some(Own {
            place,
            height: number(&own["Height"])?,
            adjustment: number(&own["Adjustment"])?,
        })
    };
    parts().ok_or_else(|| failed("serf's coordinate", &said))
}

/// One run: errors after as many seconds as the marks say.
pub fn run(
    bed: &Bed<'_>,
    anchors: &Anchors,
    folder: &Path,
    marks: &[u64],
    stop: &AtomicBool,
) -> Result<Run, Fault> {
    let mut agents = Processes(Vec::new());
    for one in 0..anchors.count() {
        let mut command = Command::new(folder.join("serf"));
        command.args(["agent", "-log-level=err", "-rpc-addr", RPC]);
        command.arg(format!("-node=a{one}"));
        command.arg(format!("-bind={}:{PORT}", Anchors::address(one)));
        if one > 0 {
            command.arg(format!("-retry-join={}:{PORT}", Anchors::address(0)));
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = bed.line().hosts()[one].within(|| command.spawn());
        let child = child.map_err(|error| failed("a namespace", &error))?;
        agents.0.push(child.map_err(|error| failed("serf", &error))?);
    }
    let start = clock::now() + SETTLE;
    let mut run = Run::default();
    for mark in marks {
        sleep_until(start + Span::from_ms(1_000 * mark), stop)?;
        let all: Result<Vec<Own>, Fault> =
            (0..anchors.count()).map(|one| own(bed, folder, one)).collect();
        let all = all?;
        run.errors.push(anchors.errors(None, |a, b| all[a].distance_ms(&all[b])));
    }
    Ok(run)
}
