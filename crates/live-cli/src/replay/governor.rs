//! The replay of the Governors of `cavy live whatif`, as a document.

use super::endpoint::{decisions, named, text};
use cavy_core::Span;
use cavy_core::family::probe::{Effect, Input};
use cavy_core::machine::Out;
use cavy_groups::record::{About, Change, Config, Reading, Step};
use cavy_groups::world::Told;
use cavy_live::record::ReplayError;
use cavy_live::record::steps::{Header, Reader, Replayed, Taken, replay_watched};
use cavy_report::model::{Cell, Document, Figure};
use cavy_report::number::count;

use std::path::Path;

/// What one Governor did.
struct One {
    config: Box<Config>,
    readings: Vec<Reading>,
    pauses: u64,
    stood_us: f64,
}

/// A recording, decided again.
pub struct Decided {
    header: Header<About>,
    replayed: Replayed,
    all: Vec<One>,
    requests: u64,
}

/// Replays the recording in `file`.
pub fn decide(file: &Path) -> Result<Decided, ReplayError> {
    let mut reader = Reader::<About, _>::open(file)?;
    let header = reader.header().clone();
    let (mut all, mut requests) = (Vec::new(), 0);
    let replayed = replay_watched(&mut reader, &mut |taken| {
        if let Step::Told(Told::Input(Input::Completed { requests: more })) = taken.step {
            requests += u64::from(more);
        }
        tell(&mut all, taken);
    })?;
    Ok(Decided { header, replayed, all, requests })
}

fn tell(all: &mut Vec<One>, taken: &Taken<'_, About>) {
    if let Step::Start(config) = &taken.step {
        let config = config.clone();
        all.push(One { config, readings: Vec::new(), pauses: 0, stood_us: 0.0 });
    }
    let Some(one) = all.last_mut() else { return };
    for out in taken.outs {
        match out {
            Out::Effect(Effect::Conclude(reading)) => {
                one.stood_us += reading.paused.as_us();
                one.readings.push(*reading);
            }
            Out::Effect(Effect::Freeze { span, .. }) if *span > Span::ZERO => one.pauses += 1,
            _ => {}
        }
    }
}

impl Decided {
    /// Did all Governors decide as they did in the run?
    pub fn agrees(&self) -> bool {
        self.replayed.agrees()
    }

    /// As a document.
    pub fn document(&self, name: &str) -> Document {
        let command = format!("cavy-live replay {name}");
        let said = decisions(&self.replayed, &self.header.program);
        let fact = |name: &str, value: String| (name.to_string(), value);
        let pauses = self.all.iter().map(|one| one.pauses).sum();
        Document {
            title: "Governors of running processes, decided again".to_string(),
            summary: format!("Decisions of fresh Governors at the recorded steps: {said}."),
            command: command.clone(),
            version: env!("CARGO_PKG_VERSION").to_string(),
            seed: self.header.seed,
            digest: format!("{:016x}", self.replayed.summary.digest),
            elapsed_s: 0.0,
            facts: vec![
                fact("decisions", said),
                fact("steps", count(self.replayed.summary.inputs)),
                fact("Governors", count(self.all.len() as u64)),
                fact("pauses", count(pauses)),
                fact("requests answered", count(self.requests)),
                fact("groups", self.header.config.groups.join(", ")),
                fact("recorded by version", self.header.program.clone()),
            ],
            plan: None,
            claims: Vec::new(),
            figures: vec![Figure {
                id: "live.whatif.replay".to_string(),
                title: "What each Governor did".to_string(),
                shows: "Each Governor in turn: whom it made faster, and the windows that it \
                        measured. A Governor without windows was cut off, or interrupted."
                    .to_string(),
                claimed: String::new(),
                found: format!(
                    "{} Governors stopped groups {} times.",
                    count(self.all.len() as u64),
                    count(pauses)
                ),
                command,
                panels: Vec::new(),
                maps: Vec::new(),
                tables: vec![named(
                    "governors",
                    &["target", "change", "windows", "pauses", "stood in windows (ms)", "answers"],
                    self.all.iter().map(|one| self.row(one)).collect(),
                )],
            }],
        }
    }

    fn row(&self, one: &One) -> Vec<Cell> {
        let name = |group: u32| {
            let known = self.header.config.groups.get(group as usize);
            known.cloned().unwrap_or_else(|| format!("group {group}"))
        };
        let targets = one.config.targets.iter().flat_map(|target| &target.groups);
        let names: Vec<String> = targets.map(|group| name(group.0)).collect();
        let change = one.config.targets.first().map(|target| match &target.change {
            Change::Delivered { share, .. } => format!("delivered {:.1} %", share * 100.0),
            Change::Clock { share, .. } => format!("clock {:.1} %", share * 100.0),
            Change::Count { saved_ns, .. } => {
                let first = saved_ns.first().copied().unwrap_or(0);
                format!("{:.1} us a visit", first as f64 / 1e3)
            }
        });
        let answers = one.readings.iter().map(|reading| reading.completions).sum();
        vec![
            text(&names.join("+")),
            text(&change.unwrap_or_default()),
            text(&count(one.readings.len() as u64)),
            text(&count(one.pauses)),
            Cell::Number(one.stood_us / 1e3),
            text(&count(answers)),
        ]
    }
}
