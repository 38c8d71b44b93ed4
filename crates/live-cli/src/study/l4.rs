//! L4: work that changes `[persephone 5.11, 7.7]`. The phases of Figure 8, a thousand times slower.

use super::plan::OnServer;
use super::trial::{Round, Sample, Trial, heard};
use super::work::Work;
use super::{Bench, Settings, tables};
use crate::args::{PeerName, StudyName};
use crate::faults::Fault;
use cavy_core::{Instant, Span};
use cavy_lab::statistics::quantile;
use cavy_live::Kind;
use cavy_live::load::ledger::{record, times};
use cavy_live::load::{Outcome, Schedule};
use cavy_report::model::{Axis, Cell, Figure, Panel, Point, Scale, Series, Table};
use cavy_report::number::count;
use cavy_trials::{Finding, Part};

/// The stretches of a run.
#[derive(Clone, Copy, Debug)]
struct Phases {
    /// Of each.
    length: Span,
    count: usize,
}

impl Phases {
    fn of(on: &OnServer) -> Result<Phases, Fault> {
        let length = on.phases[0].length;
        if on.types.len() != 2 || on.phases.iter().any(|phase| phase.length != length) {
            return Err(Fault::new("l4 has two types, and phases of one length"));
        }
        Ok(Phases { length, count: on.phases.len() })
    }

    fn whole(&self) -> Span {
        self.length.saturating_mul(self.count as u64)
    }
}

/// Completions between two looks at the reservation: a tenth of the first phase, as the
/// specification's 500 of 5000, and not fewer than say anything.
fn window(rate_per_s: f64, phase: Span) -> u64 {
    ((rate_per_s * phase.as_us() / 1e7) as u64).clamp(super::WINDOW_MIN, 5_000)
}

fn trial(settings: &Settings, on: &OnServer, phases: Phases) -> Result<Trial, Fault> {
    let phase = phases.length;
    let workload = on.workload()?;
    let (workers, types) = (on.workers, on.types.clone());
    let first_per_s = workload.phases().first().map_or(0.0, |first| first.rate_per_s);
    let schedule = |seed| {
        let length = phases.whole();
        let count = if phases.count == 4 { "four".into() } else { phases.count.to_string() };
        let origin = format!("{count} phases of {phase} with seed {seed}");
        Schedule::draw(&workload, seed, length, types.clone(), true, &origin)
            .map_err(|error| Fault::new(error.to_string()))
    };
    let schedules: Vec<Schedule> = settings.seeds().map(schedule).collect::<Result<_, _>>()?;
    if schedules.iter().any(|schedule| schedule.entries().is_empty()) {
        return Err(Settings::too_short());
    }
    Ok(Trial {
        id: "l4",
        bench: Bench {
            workers,
            types,
            window: window(first_per_s, phase),
            work: Work::Timed,
            split: vec![workers / 2, workers - workers / 2],
            driver: cavy_live::pool::Driver::Inline,
        },
        schedules,
        warmup: Span::ZERO,
        shortest: None,
        peers: settings.pools(),
        lines: true,
        record: false,
        wait: None,
    })
}

/// Runs it.
pub fn run(settings: &Settings) -> Result<Part, Fault> {
    let on = OnServer::of(settings, "l4")?;
    let phases = Phases::of(&on)?;
    let trial = trial(settings, &on, phases)?;
    let rounds = settings.session.run(&trial)?;
    let mut part = Part::default();
    part.heard.extend(heard(&rounds));
    let logs: Vec<Log> = rounds.iter().filter_map(|round| Log::of(&trial, round, phases)).collect();
    // Claims are about the study's own plan.
    if !on.own {
        part.findings = findings(&logs);
    }
    let mut tables = latencies(&trial, &rounds, phases);
    tables.push(log_table(&logs));
    tables.push(on.in_the_lab()?);
    tables.push(tables::environment(&rounds));
    part.figures.push(Figure {
        id: "live.l4".to_string(),
        title: on.title.clone(),
        shows: format!(
            "Phases of {} at {:.0} % load: {}. DARC is told nothing and looks every {} \
            completions. \
             Two pools have half of the workers each, the priority queue and fixed priority put {} \
             first.",
            phases.length,
            100.0 * on.phases[0].load,
            on.phases.iter().map(|phase| phase.words(&on.types)).collect::<Vec<_>>().join("; "),
            trial.bench.window,
            on.types[0]
        ),
        claimed: "The reservation follows: A has 13, 1, 2 and up to 14 workers; it settles within \
                  two windows of a change (specification 5.11)."
            .to_string(),
        found: found(&logs),
        command: settings.command(StudyName::L4),
        panels: reservation_panel(&trial, &rounds, phases).into_iter().collect(),
        maps: Vec::new(),
        tables,
    });
    Ok(part)
}

/// The phase that a request of the schedule belongs to.
fn phase_of(schedule: &Schedule, index: u32, phases: Phases) -> usize {
    let at = schedule.entries().get(index as usize).map_or(0, |entry| entry.at.as_ns());
    ((at / phases.length.as_ns().max(1)) as usize).min(phases.count - 1)
}

/// A table for each type: percentiles by phase and peer.
fn latencies(trial: &Trial, rounds: &[Round], phases: Phases) -> Vec<Table> {
    // By type, phase and peer.
    let types = trial.bench.types.len();
    let mut samples = vec![vec![vec![Sample::new(); trial.peers.len()]; phases.count]; types];
    for round in rounds {
        let Some(place) = trial.peers.iter().position(|&peer| peer == round.peer) else { continue };
        let schedule = &trial.schedules[round.repetition];
        let mut books = vec![vec![(times(), 0, 0); phases.count]; types];
        for line in &round.report.lines {
            let part = phase_of(schedule, line.index, phases);
            let book = &mut books[usize::from(line.kind)][part];
            match line.outcome {
                Outcome::Answered => record(&mut book.0, line.completed.since(line.intended)),
                Outcome::Overloaded | Outcome::ServerError => book.2 += 1,
                _ => book.1 += 1,
            }
        }
        for (samples, books) in samples.iter_mut().zip(books) {
            for (samples, (times, unanswered, refused)) in samples.iter_mut().zip(books) {
                samples[place].add(&times, unanswered, refused);
            }
        }
    }
    let table = |(name, samples): (&String, Vec<Vec<Sample>>)| {
        let mut rows = Vec::new();
        for (index, samples) in samples.iter().enumerate() {
            for (peer, sample) in trial.peers.iter().zip(samples) {
                if sample.times.is_empty() && sample.unanswered + sample.refused == 0 {
                    continue;
                }
                let texts = [
                    format!("P{}", index + 1),
                    peer.label().to_string(),
                    count(sample.times.len()),
                    count(sample.unanswered + sample.refused),
                ];
                let numbers = [0.5, 0.9, 0.99, 0.999].map(|ratio| tables::cell(sample, ratio));
                rows.push(texts.map(Cell::Text).into_iter().chain(numbers).collect());
            }
        }
        let columns = [
            "phase",
            "peer",
            "answered",
            "not answered",
            "p50 (ms)",
            "p90 (ms)",
            "p99 (ms)",
            "p99.9 (ms)",
        ];
        Table {
            id: format!("latency-{name}"),
            title: format!("Latency of type {name} by phase, from the intended time"),
            columns: columns.map(str::to_string).to_vec(),
            rows,
        }
    };
    trial.bench.types.iter().zip(samples).map(table).collect()
}

/// What DARC did in one run, by phase.
struct Log {
    repetition: usize,
    phases: Vec<Entry>,
}

/// What DARC did in one phase.
#[derive(Default)]
struct Entry {
    /// Times of new reservations, from the start of the phase.
    updates: Vec<Span>,
    /// Own workers of A and B at the end of the phase.
    own: Option<(u16, u16)>,
    /// Completions from the start of the phase to its last update, in windows.
    windows: Option<f64>,
    /// Completions of the phase, in windows.
    length: f64,
}

impl Log {
    /// The log of a run under DARC.
    fn of(trial: &Trial, round: &Round, stretches: Phases) -> Option<Log> {
        let phase = stretches.length;
        let stats = (round.peer == PeerName::Darc).then_some(round.after.stats.as_ref()?)?;
        let start = round.start(&trial.schedules[round.repetition])?;
        let mut completed: Vec<Instant> =
            round.report.lines.iter().map(|line| line.completed).collect();
        completed.sort();
        let mut phases: Vec<Entry> = Vec::new();
        let mut own = None;
        for index in 0..stretches.count as u64 {
            let from = start + phase.saturating_mul(index);
            let to = start + phase.saturating_mul(index + 1);
            let before = |time| completed.partition_point(|&at| at < time) as f64;
            let passed = |time| (before(time) - before(from)) / trial.bench.window as f64;
            let mut entry = Entry { length: passed(to), ..Entry::default() };
            for update in &stats.updates {
                let at = round.after.epoch + update.at.since(Instant::ZERO);
                if at < from || at >= to {
                    continue;
                }
                let of = |kind| update.table.group_of(Kind(kind)).map_or(0, |group| group.own);
                own = Some((of(1), of(2)));
                entry.updates.push(at.since(from));
                entry.windows = Some(passed(at));
            }
            entry.own = own;
            phases.push(entry);
        }
        Some(Log { repetition: round.repetition, phases })
    }
}

fn log_table(logs: &[Log]) -> Table {
    let mut rows = Vec::new();
    for log in logs {
        for (index, entry) in log.phases.iter().enumerate() {
            let times = entry.updates.iter().map(|at| format!("{:.2}", at.as_us() / 1e6));
            let times: Vec<String> = times.collect();
            let own = |which: fn((u16, u16)) -> u16| match entry.own {
                Some(own) => Cell::Text(which(own).to_string()),
                None => Cell::Missing("profiling".to_string()),
            };
            rows.push(vec![
                Cell::Text((log.repetition + 1).to_string()),
                Cell::Text(format!("P{}", index + 1)),
                Cell::Text(if times.is_empty() { "none".to_string() } else { times.join(", ") }),
                own(|(a, _)| a),
                own(|(_, b)| b),
                entry.windows.map_or(Cell::Missing("no update".to_string()), Cell::Number),
            ]);
        }
    }
    let columns = [
        "run",
        "phase",
        "new reservations (s after the change)",
        "A's workers at its end",
        "B's workers at its end",
        "settled after (windows)",
    ];
    Table {
        id: "reservations".to_string(),
        title: "DARC's reservation log".to_string(),
        columns: columns.map(str::to_string).to_vec(),
        rows,
    }
}

/// A's workers over time, in the first run.
fn reservation_panel(trial: &Trial, rounds: &[Round], phases: Phases) -> Option<Panel> {
    let round = rounds.iter().find(|round| round.peer == PeerName::Darc)?;
    let stats = round.after.stats.as_ref()?;
    let start = round.start(&trial.schedules[round.repetition])?;
    let series = |(kind, name): (u16, &String)| {
        let point = |x: f64, y: f64| Point {
            x,
            y: Some(y),
            low: None,
            high: None,
            samples: round.report.sent,
            stable: true,
        };
        let mut points: Vec<Point> = Vec::new();
        for update in &stats.updates {
            let at = round.after.epoch + update.at.since(Instant::ZERO);
            let x = at.since(start).as_us() / 1e6;
            let own = update.table.group_of(Kind(kind)).map_or(0, |group| group.own);
            if let Some(y) = points.last().and_then(|last| last.y) {
                points.push(point(x, y));
            }
            points.push(point(x, own.into()));
        }
        if let Some(y) = points.last().and_then(|last| last.y) {
            points.push(point(phases.whole().as_us() / 1e6, y));
        }
        Series { label: format!("own workers of {name}"), points }
    };
    let axis = |label: &str, unit: &str| Axis {
        label: label.to_string(),
        unit: unit.to_string(),
        scale: Scale::Linear,
        min: Some(0.0),
        max: None,
    };
    Some(Panel {
        id: "reservation".to_string(),
        title: "Reserved workers over time".to_string(),
        x: axis("time", "s"),
        y: axis("workers", ""),
        series: (1..).zip(&trial.bench.types).map(series).collect(),
        rules: Vec::new(),
    })
}

fn found(logs: &[Log]) -> String {
    let Some(log) = logs.first() else { return "DARC did not run.".to_string() };
    let phase = |(index, entry): (usize, &Entry)| {
        let own = entry.own.map_or("none yet".to_string(), |(a, b)| format!("A {a}, B {b}"));
        let settled = entry
            .updates
            .last()
            .map_or(String::new(), |at| format!(" after {:.2} s", at.as_us() / 1e6));
        format!("P{}: {own}{settled}", index + 1)
    };
    let all: Vec<String> = log.phases.iter().enumerate().map(phase).collect();
    format!("Workers in the first run: {}.", all.join("; "))
}

/// A phase of fewer windows gives the reservation no time to settle.
const WINDOWS_MIN: f64 = 4.0;

fn findings(logs: &[Log]) -> Vec<Finding> {
    let mut all = Vec::new();
    if logs.is_empty() {
        return all;
    }
    let over = |id: &str, values: Vec<Option<f64>>| {
        let known = || values.iter().copied().flatten();
        let value = quantile::median(known()).filter(|_| known().count() == values.len());
        Finding {
            value,
            low: value.and(known().reduce(f64::min)),
            high: value.and(known().reduce(f64::max)),
            samples: values.len() as u64,
            note: match value {
                None => "A phase was shorter than four windows, or nothing was reserved.".into(),
                Some(_) => String::new(),
            },
            ..Finding::nothing(id)
        }
    };
    for index in 0..3 {
        let own = |log: &Log| {
            let entry = &log.phases[index];
            entry.own.filter(|_| entry.length >= WINDOWS_MIN).map(|(a, _)| f64::from(a))
        };
        let id = format!("live.l4.reserved_p{}", index + 1);
        all.push(over(&id, logs.iter().map(own).collect()));
    }
    let settled = |log: &Log| {
        let entry = &log.phases[1];
        entry.windows.filter(|_| entry.length >= WINDOWS_MIN)
    };
    all.push(over("live.l4.settled", logs.iter().map(settled).collect()));
    all
}
