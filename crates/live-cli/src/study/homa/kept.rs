//! Runs as they are kept in the output folder, so that a study of hours can be done in parts.

use super::arrivals::{Arrivals, Demand};
use super::health::{Health, Lateness};
use super::lag::Lag;
use super::peers;
use super::trial::{Round, Sample, Weather};
use crate::args::HomaPeer;
use crate::faults::{FAILED, Fault};
use cavy_core::{Digest, Span};
use cavy_report::folder::Folder;
use cavy_testbed::Plan;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// Where they are, within the folder.
const NAME: &str = "rounds";
/// A run in doubt is taken when so many in a row were: then it is not chance that was in its way.
const TRIES: u32 = 3;

/// What tells one run from another.
pub struct Label<'a> {
    /// What was sent.
    pub demand: &'a Demand,
    /// By whom.
    pub peer: HomaPeer,
    /// Which repetition.
    pub repetition: usize,
    /// The messages themselves.
    pub arrivals: &'a Arrivals,
    /// Between which hosts.
    pub plan: &'a Plan,
}

impl Label<'_> {
    /// Its name has all that decides what comes of it, the configuration of Homa as well, so that
    /// no run is taken for one with other settings.
    fn file(&self) -> Result<String, Fault> {
        let config = peers::config(self.peer, self.plan, self.demand.tuning())?;
        let mut digest = Digest::new();
        digest.fold(self.arrivals.digest());
        format!("{:?} {config:?}", self.plan).bytes().for_each(|byte| digest.fold(byte.into()));
        Ok(format!(
            "{}-{}-{}-{:016x}.json",
            self.demand.id(),
            self.peer.name(),
            self.repetition + 1,
            digest.value()
        ))
    }
}

/// Times are in nanoseconds.
#[derive(Serialize, Deserialize)]
struct Kept {
    version: String,
    /// How often this was run, this time included.
    #[serde(default = "once")]
    tries: u32,
    samples: Vec<(u32, u64)>,
    unanswered: Vec<u32>,
    idle: BTreeMap<u32, u64>,
    idle_median: u64,
    lateness: Lateness,
    health: Health,
    lag: Option<Lag>,
    weather: Weather,
}

fn once() -> u32 {
    1
}

/// The place where runs are kept.
pub struct Shelf {
    path: PathBuf,
    resume: bool,
}

impl Shelf {
    /// In this folder; what is there is only taken when `resume`.
    pub fn new(folder: &Folder, resume: bool) -> Result<Shelf, Fault> {
        let path = folder.join(NAME);
        fs::create_dir_all(&path).map_err(|error| unwritable(&path, &error))?;
        Ok(Shelf { path, resume })
    }

    fn read(&self, label: &Label<'_>) -> Option<Kept> {
        let file = label.file().ok().filter(|_| self.resume)?;
        let text = fs::read_to_string(self.path.join(file)).ok()?;
        let kept: Kept = serde_json::from_str(&text).ok()?;
        (kept.version == env!("CARGO_PKG_VERSION")).then_some(kept)
    }

    /// A run that was kept by this version. One in doubt is run again, whatever came of it, a few
    /// times.
    pub fn take(&self, label: &Label<'_>) -> Option<Round> {
        let kept = self.read(label)?;
        let tries = kept.tries;
        let sample = |&(bytes, ns): &(u32, u64)| Sample { bytes, latency: Span::from_ns(ns) };
        let round = Round {
            peer: label.peer,
            repetition: label.repetition,
            samples: kept.samples.iter().map(sample).collect(),
            unanswered: kept.unanswered,
            idle: kept.idle.iter().map(|(&bytes, &ns)| (bytes, Span::from_ns(ns))).collect(),
            idle_median: Span::from_ns(kept.idle_median),
            lateness: kept.lateness,
            health: kept.health,
            lag: kept.lag,
            weather: kept.weather,
        };
        (tries >= TRIES || round.doubts().is_empty()).then_some(round)
    }

    /// Keeps a run.
    pub fn put(&self, label: &Label<'_>, round: &Round) -> Result<(), Fault> {
        let kept = Kept {
            version: env!("CARGO_PKG_VERSION").to_string(),
            tries: 1 + self.read(label).map_or(0, |before| before.tries),
            samples: round.samples.iter().map(|one| (one.bytes, one.latency.as_ns())).collect(),
            unanswered: round.unanswered.clone(),
            idle: round.idle.iter().map(|(&bytes, span)| (bytes, span.as_ns())).collect(),
            idle_median: round.idle_median.as_ns(),
            lateness: round.lateness,
            health: round.health.clone(),
            lag: round.lag.clone(),
            weather: round.weather,
        };
        let file = self.path.join(label.file()?);
        let part = file.with_extension("part");
        let text = serde_json::to_string(&kept)
            .map_err(|error| Fault::new(format!("cannot keep a run: {error}")).code(FAILED))?;
        // Beside it first, so that no run is ever half kept.
        let written = fs::write(&part, text).and_then(|()| fs::rename(&part, &file));
        written.map_err(|error| unwritable(&file, &error))
    }
}

fn unwritable(path: &std::path::Path, error: &std::io::Error) -> Fault {
    Fault::new(format!("cannot write `{}`: {error}", path.display())).code(FAILED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::homa::lag::Times;
    use cavy_workload::sizes::Published;

    #[test]
    fn a_run_that_was_kept_comes_back_and_is_taken_for_no_other() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path(), "study homa", false).unwrap();
        let plan = Plan::slow(6);
        let demand = Demand::new(Published::W4, 0.5, &plan).unwrap();
        let arrivals = |seed| demand.draw(6, Span::from_ms(500), seed).unwrap();
        let (here, other) = (arrivals(1), arrivals(2));
        let peer = HomaPeer::Homa;
        let label =
            |arrivals| Label { demand: &demand, peer, repetition: 0, arrivals, plan: &plan };
        let round = Round {
            peer: HomaPeer::Homa,
            repetition: 0,
            samples: vec![Sample { bytes: 8, latency: Span::from_us(70) }],
            unanswered: vec![9],
            idle: BTreeMap::from([(8, Span::from_us(60))]),
            idle_median: Span::from_us(65),
            lateness: Lateness { p999_us: 12.5, ..Lateness::default() },
            health: Health { sent_again: 7, ..Health::default() },
            lag: Some(Lag {
                looked: Times { idle_p50_ns: 5, values_ns: vec![6] },
                ..Lag::default()
            }),
            weather: Weather { met_p999_us: Some(1.5), ..Weather::default() },
        };
        let shelf = Shelf::new(&folder, true).unwrap();
        assert!(shelf.take(&label(&here)).is_none());
        shelf.put(&label(&here), &round).unwrap();
        let back = shelf.take(&label(&here)).unwrap();
        assert_eq!((back.samples[0].bytes, back.samples[0].latency), (8, Span::from_us(70)));
        assert_eq!((&back.unanswered, &back.idle), (&round.unanswered, &round.idle));
        assert_eq!((back.lateness.p999_us, back.health.sent_again), (12.5, 7));
        assert_eq!(back.lag, round.lag);
        assert_eq!(back.weather.met_p999_us, Some(1.5));
        assert!(shelf.take(&label(&other)).is_none());
        let faster = Plan { link_bits_per_s: 2 * plan.link_bits_per_s, ..plan };
        assert!(shelf.take(&Label { plan: &faster, ..label(&here) }).is_none());
        // One in doubt is tried three times.
        let late = Lateness { late_ratio: 0.5, p999_us: 1e6, ..Lateness::default() };
        let doubted = Round { lateness: late, unanswered: Vec::new(), ..back };
        for _ in 1..TRIES {
            shelf.put(&label(&other), &doubted).unwrap();
            assert!(shelf.take(&label(&other)).is_none());
        }
        shelf.put(&label(&other), &doubted).unwrap();
        assert!(shelf.take(&label(&other)).is_some());
        assert!(Shelf::new(&folder, false).unwrap().take(&label(&here)).is_none());
    }
}
