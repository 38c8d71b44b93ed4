//! A run in a file, and the name of that file.

use super::arrivals::{Arrivals, Demand};
use super::lag::Lag;
use super::peers;
use super::trial::{Round, Sample};
use crate::args::HomaPeer;
use crate::faults::Fault;
use cavy_core::{Digest, Span};
use cavy_testbed::Plan;
use cavy_trials::health::{Health, Lateness};
use cavy_trials::weather::Weather;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
    pub fn file(&self) -> Result<String, Fault> {
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

/// A run as it is kept. Times are in nanoseconds.
#[derive(Serialize, Deserialize)]
pub struct KeptRound {
    samples: Vec<(u32, u64)>,
    unanswered: Vec<u32>,
    idle: BTreeMap<u32, u64>,
    idle_median: u64,
    lateness: Lateness,
    health: Health,
    lag: Option<Lag>,
    weather: Weather,
}

impl KeptRound {
    /// To keep.
    pub fn of(round: &Round) -> KeptRound {
        KeptRound {
            samples: round.samples.iter().map(|one| (one.bytes, one.latency.as_ns())).collect(),
            unanswered: round.unanswered.clone(),
            idle: round.idle.iter().map(|(&bytes, span)| (bytes, span.as_ns())).collect(),
            idle_median: round.idle_median.as_ns(),
            lateness: round.lateness,
            health: round.health.clone(),
            lag: round.lag.clone(),
            weather: round.weather,
        }
    }

    /// As it was.
    pub fn round(&self, label: &Label<'_>) -> Round {
        let sample = |&(bytes, ns): &(u32, u64)| Sample { bytes, latency: Span::from_ns(ns) };
        Round {
            peer: label.peer,
            repetition: label.repetition,
            samples: self.samples.iter().map(sample).collect(),
            unanswered: self.unanswered.clone(),
            idle: self.idle.iter().map(|(&bytes, &ns)| (bytes, Span::from_ns(ns))).collect(),
            idle_median: Span::from_ns(self.idle_median),
            lateness: self.lateness,
            health: self.health.clone(),
            lag: self.lag.clone(),
            weather: self.weather,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::homa::lag::Times;
    use cavy_report::folder::Folder;
    use cavy_trials::kept::Shelf;
    use cavy_workload::sizes::Published;

    #[test]
    fn a_run_that_was_kept_comes_back_and_is_taken_for_no_other() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path(), "study homa", false).unwrap();
        let plan = Plan::slow(6);
        let demand = Demand::published(Published::W4, 0.5, &plan);
        let times = (Span::from_ms(50), Span::from_ms(500));
        let arrivals = |seed| demand.draw(6, times, seed).unwrap();
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
        let shelf = Shelf::new(&folder, true, "test").unwrap();
        let file = |label: &Label<'_>| label.file().unwrap();
        shelf.put(&file(&label(&here)), &KeptRound::of(&round)).unwrap();
        let take = |label: &Label<'_>| {
            let kept = shelf.take(&file(label), |_: &KeptRound| false);
            kept.map(|kept| kept.round(label))
        };
        let back = take(&label(&here)).unwrap();
        assert_eq!((back.samples[0].bytes, back.samples[0].latency), (8, Span::from_us(70)));
        assert_eq!((&back.unanswered, &back.idle), (&round.unanswered, &round.idle));
        assert_eq!((back.lateness.p999_us, back.health.sent_again), (12.5, 7));
        assert_eq!(back.lag, round.lag);
        assert_eq!(back.weather.met_p999_us, Some(1.5));
        assert!(take(&label(&other)).is_none());
        let faster = Plan { link_bits_per_s: 2 * plan.link_bits_per_s, ..plan };
        assert!(take(&Label { plan: &faster, ..label(&here) }).is_none());
    }
}
