//! One comparison: the same arrivals for every peer, in turns, and what came of it.

use super::peers::{self, After, Bench, Go};
use crate::args::PeerName;
use crate::faults::{FAILED, Fault, INTERRUPTED};
use crate::terminal;
use cavy_core::{Instant, Span};
use cavy_live::TypeHint;
use cavy_live::load::ledger::{Keep, Times, times};
use cavy_live::load::report::quantile_ns;
use cavy_live::load::{Model, Options, Outcome, Report, Schedule, Verdict, Wait, run};
use cavy_live::record::pool::{Header, VERSION};
use cavy_report::folder::Folder;
use cavy_trials::bridge;
use cavy_trials::turns::in_turns;
use cavy_trials::weather::Weather;
use cavy_trials::{Finding, Heard};
use cavy_workload::source::Request;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How long a run waits for the last answers.
const PATIENCE: Span = Span::from_ms(120_000);

/// What all trials of a session share.
pub struct Session {
    /// Where recordings go.
    pub folder: Folder,
    /// Length of the jitter probes.
    pub probe: Span,
    /// How the generator waits.
    pub wait: Wait,
    /// The Go program, or why there is none.
    pub go: Result<Go, String>,
    /// Becomes true when the user has had enough.
    pub stop: Arc<AtomicBool>,
}

/// What is compared.
pub struct Trial {
    /// Name, such as `l1`.
    pub id: &'static str,
    /// What all peers have in common.
    pub bench: Bench,
    /// Arrivals of each repetition.
    pub schedules: Vec<Schedule>,
    /// Requests before this time are in no figure.
    pub warmup: Span,
    /// The shortest service time, where the schedule does not say it.
    pub shortest: Option<Span>,
    /// Who runs.
    pub peers: Vec<PeerName>,
    /// Keep every request.
    pub lines: bool,
    /// Record our pools in the first repetition.
    pub record: bool,
    /// How the generator waits, where that is not the user's choice.
    pub wait: Option<Wait>,
}

/// One run of one peer.
pub struct Round {
    /// Who.
    pub peer: PeerName,
    /// Which schedule.
    pub repetition: usize,
    /// What the generator says.
    pub report: Report,
    /// What the peer says.
    pub after: After,
}

impl Round {
    /// Why its percentiles should not be believed.
    pub fn doubts(&self) -> &[String] {
        match &self.report.verdict {
            Verdict::Published => &[],
            Verdict::Refused(doubts) | Verdict::Forced(doubts) => doubts,
        }
    }

    /// When the run began, on the clock of the generator; `None` without lines.
    pub fn start(&self, schedule: &Schedule) -> Option<Instant> {
        let line = self.report.lines.first()?;
        let at = schedule.entries().get(line.index as usize)?.at;
        Some(Instant::from_ns(line.intended.as_ns().saturating_sub(at.as_ns())))
    }
}

/// What the machine was like.
pub fn heard(rounds: &[Round]) -> Vec<Heard> {
    let heard = |round: &Round| Heard {
        weather: Weather::of(&round.report.machine),
        doubted: !round.doubts().is_empty(),
        schedule: u64::from_str_radix(&round.report.schedule_digest, 16).unwrap_or(0),
    };
    rounds.iter().map(heard).collect()
}

impl Session {
    /// Runs every peer on every schedule, one peer after the other before the next repetition.
    pub fn run(&self, trial: &Trial) -> Result<Vec<Round>, Fault> {
        in_turns(&trial.schedules, &trial.peers, |turn| {
            terminal::talk(&format!(
                "{} {}/{}: {}, {} requests in {:.1} s",
                trial.id,
                turn.number,
                turn.all,
                turn.peer.label(),
                turn.schedule.entries().len(),
                turn.schedule.length().as_us() / 1e6
            ));
            self.round(trial, turn.repetition, turn.schedule, turn.peer)
        })
    }

    fn round(
        &self,
        trial: &Trial,
        repetition: usize,
        schedule: &Schedule,
        peer: PeerName,
    ) -> Result<Round, Fault> {
        let ours = peer.policy(trial.bench.window).is_some();
        let record = (trial.record && ours && repetition == 0)
            .then(|| self.folder.join(&format!("{}-{}.jsonl", trial.id, peer.id())));
        let rig = peers::start(peer, &trial.bench, self.go.as_ref().ok(), record)?;
        let options = Options {
            model: Model::Open,
            wait: trial.wait.unwrap_or(self.wait),
            // All peers have started their threads by now.
            first: true,
            warmup: trial.warmup,
            patience: PATIENCE,
            shortest_service: trial.shortest,
            // Whether anything is published is decided when claims are judged.
            force: true,
            keep: Keep { interval: None, lines: trial.lines },
            probe: self.probe,
            stop: Arc::clone(&self.stop),
            watch: None,
        };
        let report = run(schedule, vec![rig.target], &options);
        let report = report.map_err(|error| Fault::new(error.to_string()).code(FAILED))?;
        let after = (rig.end)()?;
        if self.stop.load(Ordering::Relaxed) {
            return Err(Fault::new("interrupted: nothing is judged").code(INTERRUPTED));
        }
        Ok(Round { peer, repetition, report, after })
    }
}

/// Requests of one type and one peer, or of the lab.
#[derive(Clone)]
pub struct Sample {
    /// Latencies of those answered, all repetitions together.
    pub times: Times,
    /// Requests that were answered late beyond patience, or never.
    pub unanswered: u64,
    /// Requests refused.
    pub refused: u64,
    /// Each repetition alone.
    single: Vec<(Times, u64)>,
}

impl Sample {
    /// None yet.
    pub fn new() -> Sample {
        Sample { times: times(), unanswered: 0, refused: 0, single: Vec::new() }
    }

    /// Adds a repetition.
    pub fn add(&mut self, times: &Times, unanswered: u64, refused: u64) {
        // Histograms of one precision that resize can always be added.
        let _ = self.times.add(times);
        self.unanswered += unanswered;
        self.refused += refused;
        self.single.push((times.clone(), unanswered));
    }

    /// The percentile over all repetitions, in microseconds; `None` with fewer than 100 samples
    /// beyond it.
    pub fn us(&self, ratio: f64) -> Option<f64> {
        quantile_ns(&self.times, self.unanswered, ratio).map(|ns| ns / 1e3)
    }

    /// The smallest and the greatest percentile of one repetition; `None` where one is not known.
    pub fn spread_us(&self, ratio: f64) -> Option<(f64, f64)> {
        let each = self.single.iter();
        let each: Option<Vec<f64>> =
            each.map(|(times, lost)| quantile_ns(times, *lost, ratio).map(|ns| ns / 1e3)).collect();
        let each = each.filter(|each| each.len() > 1)?;
        Some((each.iter().copied().reduce(f64::min)?, each.iter().copied().reduce(f64::max)?))
    }

    /// Of `peer` and type `kind` among `rounds`: latency from the intended time.
    pub fn of(rounds: &[Round], peer: PeerName, kind: usize) -> Sample {
        let mut sample = Sample::new();
        for round in rounds.iter().filter(|round| round.peer == peer) {
            let account = &round.report.accounts[kind];
            let lost = [Outcome::TimedOut, Outcome::ConnectionError, Outcome::Lost];
            let unanswered = lost.map(|outcome| account.count(outcome)).iter().sum();
            let refused = account.count(Outcome::Overloaded) + account.count(Outcome::ServerError);
            sample.add(&account.response, unanswered, refused);
        }
        sample
    }
}

/// A percentile in milliseconds, to be held against a claim.
pub fn finding(id: &str, sample: &Sample, ratio: f64) -> Finding {
    let spread = sample.spread_us(ratio);
    Finding {
        value: sample.us(ratio).map(|us| us / 1e3),
        low: spread.map(|(low, _)| low / 1e3),
        high: spread.map(|(_, high)| high / 1e3),
        samples: sample.times.len(),
        ..Finding::nothing(id)
    }
}

/// What the ideal lab says of the same schedules, by type; `None` for peers that are not ours.
pub fn lab(trial: &Trial, peer: PeerName) -> Option<Vec<Sample>> {
    let policy = peer.policy(trial.bench.window)?;
    let types = trial.bench.types.len();
    let header = Header {
        version: VERSION,
        workers: trial.bench.workers,
        types: trial.bench.types.clone(),
        hints: vec![TypeHint { mean: Span::ZERO, ratio: 0.0 }; types],
        policy,
        queue_limit: peers::QUEUE_LIMIT,
        seed: 1,
    };
    let mut samples = vec![Sample::new(); types];
    for schedule in &trial.schedules {
        let entries = schedule.entries();
        let first = entries.partition_point(|entry| entry.at < trial.warmup);
        let requests: Arc<[Request]> = entries
            .iter()
            .map(|entry| Request {
                at: Instant::ZERO + entry.at,
                kind: entry.kind,
                label: entry.kind,
                service: entry.service,
            })
            .collect();
        let watched = bridge::in_the_lab(&header, requests, first as u64).ok()?;
        for (sample, (times, drops)) in samples.iter_mut().zip(&watched.types) {
            sample.add(times, 0, *drops);
        }
    }
    Some(samples)
}
