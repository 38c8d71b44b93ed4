//! L2: a pool of connections `[persephone 7.7]`. High Bimodal a thousand times slower, as queries
//! over 14 connections to a database in a process of its own. A slot is a connection; no thread of
//! ours waits for one.

use super::peers::Database;
use super::plan::OnServer;
use super::tables::{find, samples};
use super::trial::{Sample, Trial, heard};
use super::work::Work;
use super::{Bench, Settings, tables, trial, windows};
use crate::args::{PeerName, StudyName};
use crate::faults::Fault;
use cavy_core::Span;
use cavy_report::model::Figure;
use cavy_trials::{Finding, Part};
use cavy_workload::Phase;
use std::sync::Arc;

/// Length of the runs, and of the quick one.
pub const SECONDS: (f64, f64) = (60.0, 15.0);

/// Those who can hand out connections.
const PEERS: [PeerName; 5] = [
    PeerName::Darc,
    PeerName::CFcfs,
    PeerName::FixedPriority,
    PeerName::Semaphore,
    PeerName::TwoPools,
];

/// Those asked for who can.
pub fn peers(settings: &Settings) -> Vec<PeerName> {
    PEERS.into_iter().filter(|peer| settings.peers.contains(peer)).collect()
}

fn trial(settings: &Settings, on: &OnServer, database: &Arc<Database>) -> Result<Trial, Fault> {
    let stretch = &on.phases[0];
    let Phase { mix, rate_per_s, .. } = stretch.phase(on.workers, None)?;
    let duration = settings.duration(SECONDS);
    let warmup = Span::from_ns(duration.as_ns() / 10);
    let types = ["get", "report"].map(str::to_string).to_vec();
    let schedules = settings.schedules(mix, rate_per_s, duration, &types, true)?;
    Ok(Trial {
        id: "l2",
        bench: Bench {
            workers: on.workers,
            types,
            window: windows(rate_per_s, warmup),
            work: Work::Query(Arc::clone(database)),
            split: stretch.split(on.workers),
            driver: cavy_live::pool::Driver::Inline,
        },
        schedules,
        warmup,
        shortest: None,
        peers: peers(settings),
        lines: false,
        record: false,
        wait: None,
    })
}

/// Runs it.
pub fn run(settings: &Settings) -> Result<Part, Fault> {
    // The workload of l1, over connections.
    let on = OnServer::built_in("l1", false)?;
    let times = &on.phases[0].types;
    let types = [("get", times[0].1), ("report", times[1].1)];
    let database = Arc::new(Database::start(&types, on.workers)?);
    let trial = trial(settings, &on, &database)?;
    let rounds = settings.session.run(&trial)?;
    let samples = samples(&trial, &rounds, true);
    let mut part = Part { heard: heard(&rounds), ..Part::default() };
    part.findings = findings(&samples);
    let mut tables = tables::latencies(&trial, &samples);
    tables.push(tables::environment(&rounds));
    part.figures.push(Figure {
        id: "live.l2".to_string(),
        title: "A pool of connections".to_string(),
        shows: format!(
            "Queries of 1 ms and 100 ms, half each, over {} connections to a database in a process \
             of its own, at 90 % load. The database waits instead of computing and has a worker \
             for each connection; what waits here, waits for a connection. Lines `lab` are the \
             ideal lab with the same arrivals.",
            trial.bench.workers
        ),
        claimed: "As for timed slots: DARC keeps short p99 under 5 ms (specification 7.7)."
            .to_string(),
        found: found(&samples, &tables::reserved(&rounds, &trial.bench.types)),
        command: settings.command(StudyName::L2),
        panels: tables::curves(&trial, &samples),
        maps: Vec::new(),
        tables,
    });
    Ok(part)
}

fn found(samples: &[(String, Vec<Sample>)], reserved: &str) -> String {
    let short = |peer| {
        let us = find(samples, peer, 0).and_then(|sample| sample.us(0.99));
        us.map_or("n/a".to_string(), |us| format!("{:.2} ms", us / 1e3))
    };
    format!(
        "Short p99: slots with DARC {}, slots with c-FCFS {}, a semaphore {}, a semaphore for each \
         type {}. {reserved}.",
        short(PeerName::Darc),
        short(PeerName::CFcfs),
        short(PeerName::Semaphore),
        short(PeerName::TwoPools),
    )
}

fn findings(samples: &[(String, Vec<Sample>)]) -> Vec<Finding> {
    let mut all = Vec::new();
    for peer in [PeerName::Darc, PeerName::TwoPools] {
        if let Some(sample) = find(samples, peer, 0) {
            all.push(trial::finding(&format!("live.l2.{}_short_p99", peer.id()), sample, 0.99));
        }
    }
    let p99 = |peer| find(samples, peer, 0).map(|sample| (sample.us(0.99), sample.times.len()));
    if let (Some((theirs, _)), Some((ours, count))) =
        (p99(PeerName::Semaphore), p99(PeerName::CFcfs))
    {
        all.push(Finding::ratio("live.l2.semaphore_is_c_fcfs", theirs, ours, count));
    }
    all
}
