//! What handing over a job costs: empty jobs at a rate that keeps no thread busy, so that each one
//! wakes a thread `[persephone 7.3]`. Throughput, contention and memory are in `benches/live`.

use super::trial::{Round, Trial, heard};
use super::work::Work;
use super::{Bench, Settings, tables};
use crate::args::{PeerName, StudyName};
use crate::faults::Fault;
use cavy_core::Span;
use cavy_live::load::Wait;
use cavy_live::load::ledger::{Times, times};
use cavy_live::load::report::quantile_ns;
use cavy_live::pool::Driver;
use cavy_report::model::{Cell, Figure, Table};
use cavy_report::number::count;
use cavy_trials::{Finding, Part};
use std::time::Duration;

/// Length of the runs, and of the quick one.
pub const SECONDS: (f64, f64) = (10.0, 5.0);

/// Jobs a second: each finds the pool idle.
const RATE_PER_S: f64 = 2_000.0;

/// Those whose hand-over can be compared; policies do not matter when nothing waits.
const PEERS: [PeerName; 4] =
    [PeerName::CFcfs, PeerName::SpawnBlocking, PeerName::Rayon, PeerName::Channel];

fn trial(settings: &Settings, driver: Driver, peers: Vec<PeerName>) -> Result<Trial, Fault> {
    let mix = settings.mix(&[(1.0, Span::from_ns(1))])?;
    let types = vec!["job".to_string()];
    let duration = settings.duration(SECONDS);
    let workers = if driver == Driver::Inline { 2 } else { 1 };
    Ok(Trial {
        id: "costs",
        schedules: settings.schedules(mix, RATE_PER_S, duration, &types, false)?,
        bench: Bench { workers, types, window: 5_000, work: Work::Nothing, split: vec![2], driver },
        warmup: Span::from_ns(duration.as_ns() / 10),
        // What lateness is held against: a request a user would send.
        shortest: Some(Span::from_ms(1)),
        peers,
        lines: false,
        record: false,
        // A generator that polls as well would leave the two others one core.
        wait: (driver != Driver::Inline).then_some(Wait::Sleep),
    })
}

/// From sending to the end of the job, all repetitions together.
fn since_sent(rounds: &[Round], peer: PeerName) -> Times {
    let mut all = times();
    for round in rounds.iter().filter(|round| round.peer == peer) {
        let _ = all.add(&round.report.accounts[0].since_sent);
    }
    all
}

/// Runs it.
pub fn run(settings: &Settings) -> Result<Part, Fault> {
    let chosen = PEERS.into_iter().filter(|peer| settings.peers.contains(peer)).collect();
    let inline = trial(settings, Driver::Inline, chosen)?;
    let rounds = settings.session.run(&inline)?;
    // Dispatcher and worker poll and take a core each.
    let polling = Driver::Dedicated { spin: Duration::from_millis(2) };
    let dedicated = trial(settings, polling, vec![PeerName::CFcfs])?;
    let polled = settings.session.run(&dedicated)?;

    let mut all: Vec<(String, Times)> = Vec::new();
    for &peer in &inline.peers {
        let label = match peer {
            PeerName::CFcfs => "our pool, inline driver, 2 workers",
            other => other.label(),
        };
        all.push((label.to_string(), since_sent(&rounds, peer)));
    }
    let label = "our pool, dedicated dispatcher that polls, 1 worker";
    all.push((label.to_string(), since_sent(&polled, PeerName::CFcfs)));

    let mut part = Part::default();
    part.heard.extend(heard(&rounds));
    part.heard.extend(heard(&polled));
    part.findings = findings(&rounds, &inline.peers);
    let mut machine = tables::environment(&rounds);
    machine.rows.extend(tables::environment(&polled).rows);
    part.figures.push(Figure {
        id: "live.costs".to_string(),
        title: "Handing over a job".to_string(),
        shows: format!(
            "Empty jobs, {RATE_PER_S:.0} a second, from the call that submits to the end of the \
             job on another thread. Every job finds the pool idle and wakes a thread."
        ),
        claimed: "The inline driver takes at most 1.5 times what spawn_blocking takes.".to_string(),
        found: found(&all),
        command: settings.command(StudyName::Costs),
        panels: Vec::new(),
        maps: Vec::new(),
        tables: vec![table(&all), machine],
    });
    Ok(part)
}

fn us(times: &Times, ratio: f64) -> Option<f64> {
    quantile_ns(times, 0, ratio).map(|ns| ns / 1e3)
}

fn table(all: &[(String, Times)]) -> Table {
    let row = |(label, times): &(String, Times)| {
        let at = |ratio| us(times, ratio).map_or(Cell::Missing("n/a".to_string()), Cell::Number);
        let head = [Cell::Text(label.clone()), Cell::Text(count(times.len()))];
        head.into_iter().chain([0.5, 0.9, 0.99, 0.999].map(at)).collect()
    };
    let columns = ["pool", "jobs", "p50 (us)", "p90 (us)", "p99 (us)", "p99.9 (us)"];
    Table {
        id: "dispatch".to_string(),
        title: "From submitting to the end of an empty job".to_string(),
        columns: columns.map(str::to_string).to_vec(),
        rows: all.iter().map(row).collect(),
    }
}

fn found(all: &[(String, Times)]) -> String {
    let one = |(label, times): &(String, Times)| {
        let p50 = us(times, 0.5).map_or("n/a".to_string(), |us| format!("{us:.1} us"));
        format!("{label} {p50}")
    };
    let all: Vec<String> = all.iter().map(one).collect();
    format!("Medians: {}.", all.join(", "))
}

fn findings(rounds: &[Round], peers: &[PeerName]) -> Vec<Finding> {
    let mut all = Vec::new();
    if peers.contains(&PeerName::CFcfs) && peers.contains(&PeerName::SpawnBlocking) {
        let ours = since_sent(rounds, PeerName::CFcfs);
        let theirs = us(&since_sent(rounds, PeerName::SpawnBlocking), 0.5);
        let ratio = Finding::ratio("live.costs.inline", us(&ours, 0.5), theirs, ours.len());
        all.push(ratio.of_median());
    }
    if rounds.is_empty() {
        return all;
    }
    let mut late = times();
    for round in rounds {
        let _ = late.add(&round.report.lateness);
    }
    for (id, ratio) in [("live.costs.lateness_p50", 0.5), ("live.costs.lateness_p99", 0.99)] {
        let value = us(&late, ratio);
        let tail = ratio > 0.5;
        all.push(Finding { value, samples: late.len(), tail, ..Finding::nothing(id) });
    }
    all
}
