//! L1: timed slots `[persephone 7.7]`. High Bimodal a thousand times slower, on 14 workers that
//! wait instead of computing, so that two cores are enough. Threads, queues and scheduling are
//! real. Its recordings are what L5 predicts.

use super::plan::OnServer;
use super::tables::{find, samples};
use super::trial::{Round, Sample, Trial, heard};
use super::work::Work;
use super::{Settings, tables, trial, windows};
use crate::args::{PeerName, StudyName};
use crate::faults::{FAILED, Fault};
use crate::replay;
use cavy_core::Span;
use cavy_report::model::{Cell, Figure, Table};
use cavy_trials::bridge;
use cavy_trials::{Finding, Part};
use cavy_workload::Phase;

/// The comparison.
pub fn trial(settings: &Settings, on: &OnServer) -> Result<Trial, Fault> {
    let [stretch] = &on.phases[..] else {
        return Err(Fault::new("l1 has no phases").hint("`cavy-live study l4` has them"));
    };
    let (workers, types) = (on.workers, on.types.clone());
    if types.len() != 2 || workers < 2 {
        return Err(Fault::new("l1 has two types, the short one first, on two workers or more"));
    }
    let Phase { mix, rate_per_s, .. } = stretch.phase(workers, None)?;
    let duration = stretch.length;
    let warmup = Span::from_ns(duration.as_ns() / 10);
    let split = stretch.split(workers);
    let schedules = settings.schedules(mix, rate_per_s, duration, &types, true)?;
    Ok(Trial {
        id: "l1",
        bench: super::Bench {
            workers,
            types,
            window: windows(rate_per_s, warmup),
            work: Work::Timed,
            split,
            driver: cavy_live::pool::Driver::Inline,
        },
        schedules,
        warmup,
        shortest: None,
        peers: settings.pools(),
        lines: false,
        record: true,
        wait: None,
    })
}

/// Runs it.
pub fn run(settings: &Settings) -> Result<Part, Fault> {
    let on = OnServer::of(settings, "l1")?;
    let trial = trial(settings, &on)?;
    let rounds = settings.session.run(&trial)?;
    let samples = samples(&trial, &rounds, true);
    let mut part = Part { heard: heard(&rounds), ..Part::default() };
    part.findings = findings(&samples);
    let mut tables = tables::latencies(&trial, &samples);
    tables.push(on.in_the_lab()?);
    tables.push(tables::environment(&rounds));
    let rate = trial.schedules.first().map_or(0.0, |schedule| {
        schedule.entries().len() as f64 * 1e6 / schedule.length().as_us().max(1.0)
    });
    part.figures.push(Figure {
        id: "live.l1".to_string(),
        title: on.title.clone(),
        shows: format!(
            "{} on {} workers at {:.0} % load, {rate:.0} requests a second. Service is emulated by \
             waiting; scheduling, queues and threads are real. Lines `lab` are the ideal lab with \
             the same arrivals; `cavy run` runs the plan there with arrivals of its own.",
            on.phases[0].words(&on.types),
            on.workers,
            100.0 * on.phases[0].load
        ),
        claimed: "c-FCFS: short p99 143 ms in the lab; DARC: under 5 ms, 1.9 ms in the lab \
                  (specification 7.7)."
            .to_string(),
        found: found(&samples, trial.bench.window, &tables::reserved(&rounds, &trial.bench.types)),
        command: settings.command(StudyName::L1),
        panels: tables::curves(&trial, &samples),
        maps: Vec::new(),
        tables,
    });
    predict(settings, &rounds, &mut part)?;
    // Claims are about the study's own plan.
    if on.own {
        part.findings.clear();
    }
    Ok(part)
}

fn found(samples: &[(String, Vec<Sample>)], window: u64, reserved: &str) -> String {
    let short = |peer| {
        let us = find(samples, peer, 0).and_then(|sample| sample.us(0.99));
        us.map_or("n/a".to_string(), |us| format!("{:.3} ms", us / 1e3))
    };
    format!(
        "Short p99: DARC {} (window {window}), c-FCFS {}, spawn_blocking {}, two pools {}. {}.",
        short(PeerName::Darc),
        short(PeerName::CFcfs),
        short(PeerName::SpawnBlocking),
        short(PeerName::TwoPools),
        reserved
    )
}

fn findings(samples: &[(String, Vec<Sample>)]) -> Vec<Finding> {
    let mut all = Vec::new();
    for peer in [PeerName::CFcfs, PeerName::Darc, PeerName::TwoPools] {
        if let Some(sample) = find(samples, peer, 0) {
            all.push(trial::finding(&format!("live.l1.{}_short_p99", peer.id()), sample, 0.99));
        }
    }
    for peer in [PeerName::SpawnBlocking, PeerName::Channel] {
        if let (Some(theirs), Some(ours)) =
            (find(samples, peer, 0), find(samples, PeerName::CFcfs, 0))
        {
            let id = format!("live.l1.{}_is_c_fcfs", peer.id());
            all.push(Finding::ratio(&id, theirs.us(0.99), ours.us(0.99), ours.times.len()));
        }
    }
    all
}

/// L5: what was recorded, decided again and predicted `[persephone 7.7]`.
fn predict(settings: &Settings, rounds: &[Round], part: &mut Part) -> Result<(), Fault> {
    let (mut tables, mut found, mut same) = (Vec::new(), Vec::new(), Vec::new());
    let mut requests = 0;
    for round in rounds {
        let Some(file) = &round.after.recording else { continue };
        let bridge = bridge::examine(file)
            .map_err(|error| Fault::new(format!("{}: {error}", file.display())).code(FAILED))?;
        let (id, label) = (round.peer.id(), round.peer.label());
        same.push(bridge.replayed.agrees());
        requests += bridge.arrivals;
        match &bridge.prediction {
            Ok(types) => {
                tables.push(replay::table(&format!("agreement-{id}"), label, types));
                found.push(format!("{label}: {}", replay::found(types)));
                part.findings.extend(agreement(id, types));
            }
            Err(reason) => found.push(format!("{label}: no prediction, {reason}.")),
        }
    }
    if same.is_empty() {
        return Ok(());
    }
    let identical = same.iter().filter(|&&same| same).count();
    part.findings.push(Finding {
        value: Some(identical as f64 / same.len() as f64),
        samples: requests,
        ..Finding::nothing("live.l5.identical")
    });
    found.insert(0, format!("{identical} of {} recordings decided identically.", same.len()));
    tables.insert(0, recordings(rounds, &same));
    part.figures.push(Figure {
        id: "live.l5".to_string(),
        title: "The lab's prediction of the live run".to_string(),
        shows: replay::SHOWS.to_string(),
        claimed: "Identical decisions; agreement within 20 % at p50 and 35 % at p99.".to_string(),
        found: found.join(" "),
        command: settings.command(StudyName::L1),
        panels: Vec::new(),
        maps: Vec::new(),
        tables,
    });
    Ok(())
}

fn recordings(rounds: &[Round], same: &[bool]) -> Table {
    let recorded = rounds.iter().filter(|round| round.after.recording.is_some());
    let row = |(round, same): (&Round, &bool)| {
        let file = round.after.recording.as_ref().map_or(String::new(), |file| {
            file.file_name().unwrap_or_default().to_string_lossy().into_owned()
        });
        let decisions = if *same { "identical" } else { "DIFFERENT" };
        [round.peer.label(), &file, decisions].map(|text| Cell::Text(text.to_string())).to_vec()
    };
    Table {
        id: "recordings".to_string(),
        title: "Recordings, decided again by a fresh machine".to_string(),
        columns: ["policy", "file", "decisions"].map(str::to_string).to_vec(),
        rows: recorded.zip(same).map(row).collect(),
    }
}

/// How far the lab is off at its worst over the types.
fn agreement(id: &str, types: &[bridge::Compared]) -> Vec<Finding> {
    let worst = |(name, ratio): (&str, f64)| {
        let pairs: Option<Vec<_>> = types.iter().map(|of| of.at(ratio)).collect();
        let worst = pairs.and_then(|pairs| {
            pairs.into_iter().max_by(|a, b| a.error().abs().total_cmp(&b.error().abs()))
        });
        let samples = types.iter().map(|of| of.measured.len()).sum();
        Finding {
            value: worst.map(|pair| pair.error().abs()),
            samples,
            note: worst.map_or(String::new(), |pair| {
                format!(
                    "Measured {:.3} ms, predicted {:.3} ms; from the time workers were held \
                     instead of their service times {:.3} ms.",
                    pair.measured_us / 1e3,
                    pair.predicted_us / 1e3,
                    pair.held_us / 1e3
                )
            }),
            scale_us: worst.map(|pair| pair.measured_us),
            tail: ratio > 0.5,
            ..Finding::nothing(&format!("live.l5.{id}_{name}"))
        }
    };
    [("p50", 0.5), ("p99", 0.99)].map(worst).to_vec()
}
