//! What came of a run, and what may be concluded from it.

use crate::load::clock::Wait;
use crate::load::ledger::{Account, Complaint, Line, Times, Totals};
use crate::load::machine::Machine;
use crate::load::run::{Model, Options};
use crate::load::schedule::Schedule;
use crate::load::target::Outcome;
use cavy_core::Span;
use cavy_lab::statistics::quantile;
use serde::Serialize;
use std::collections::BTreeMap;

/// A request that the generator sent later than this part of the shortest service time is *late*
/// `[persephone 7.5]`.
pub const LATENESS_RATIO_MAX: f64 = 0.1;

/// Where more than a hundredth of the requests were late, only the median is given
/// `[persephone 7.5]`.
pub const LATE_SHARE_MAX: f64 = 0.01;

/// Where more than a twentieth were late, not even that. With fewer, the median lies between the
/// undisturbed one and the undisturbed 55th percentile.
pub const LATE_SHARE_MAX_MEDIAN: f64 = 0.05;

/// A single figure of which the generator's own lateness makes more than this part is not given.
pub const LATENESS_IN_FIGURE_MAX: f64 = 0.1;

/// The rate sent may differ from the one planned by this part.
pub const RATE_ERROR_MAX: f64 = 0.02;

/// Whether percentiles are given.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "verdict", content = "reasons")]
pub enum Verdict {
    /// They are.
    Published,
    /// They are not, for these reasons.
    Refused(Vec<String>),
    /// They are because the user insists, against these reasons.
    Forced(Vec<String>),
}

/// What a run came to.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Who decided when the next request is sent.
    pub model: Model,
    /// What latency is counted from, in words.
    pub latency_from: &'static str,
    /// How senders waited.
    pub wait: Wait,
    /// Whether percentiles are given, and why not.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// What else a reader should know.
    pub notes: Vec<String>,
    /// Where the schedule comes from.
    pub schedule: String,
    /// Fingerprint of the schedule, hexadecimal.
    pub schedule_digest: String,
    /// Requests of the schedule, those of the warm-up included.
    pub planned: u64,
    /// Requests sent, without those of the warm-up.
    pub sent: u64,
    /// Requests sent in the warm-up.
    pub warmup: u64,
    /// Rate of the schedule.
    pub planned_per_s: f64,
    /// Rate at which requests were sent.
    pub sent_per_s: f64,
    /// How late the sender took up requests. None of it is the server's.
    pub lateness_us: Percentiles,
    /// What lateness was held against.
    pub shortest_service: Option<Shortest>,
    /// Requests that had to wait in the generator because no connection was free.
    pub waited: u64,
    /// The longest such wait.
    pub waited_most_us: f64,
    /// By type, in the order of the schedule.
    pub types: Vec<TypeReport>,
    /// The machine before, during and after.
    pub machine: Machine,
    /// Whether the run was ended early.
    pub interrupted: bool,
    /// The histograms, by type.
    #[serde(skip)]
    pub accounts: Vec<Account>,
    /// Lateness.
    #[serde(skip)]
    pub lateness: Times,
    /// Response times by interval and type, when they were kept.
    #[serde(skip)]
    pub intervals: BTreeMap<(u32, u16), Times>,
    /// Every request, when they were kept.
    #[serde(skip)]
    pub lines: Vec<Line>,
}

/// The service time that lateness is held against.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Shortest {
    /// How long.
    pub us: f64,
    /// How it is known.
    pub source: &'static str,
}

/// What one type came to.
#[derive(Clone, Debug, Serialize)]
pub struct TypeReport {
    /// Its name.
    pub name: String,
    /// Requests sent.
    pub sent: u64,
    /// Requests answered.
    pub answered: u64,
    /// Refused by the server for lack of room.
    pub overloaded: u64,
    /// Answered with another error.
    pub server_errors: u64,
    /// The connection broke, or could not be made.
    pub connection_errors: u64,
    /// Not answered in time.
    pub timed_out: u64,
    /// Lost by the target, a defect of it.
    pub lost: u64,
    /// Why requests were not answered, the most frequent reason first.
    pub complaints: Vec<Complaint>,
    /// Requests not answered for still other reasons.
    pub other_complaints: u64,
    /// From the intended time to the answer; `None` when refused.
    pub response_us: Option<Percentiles>,
    /// From sending to the answer; `None` when refused.
    pub since_sent_us: Option<Percentiles>,
    /// Figures of `response_us` that are `None` because the generator's lateness made too much of
    /// them.
    pub withheld: Vec<&'static str>,
}

impl TypeReport {
    /// Whether fewer than half of its requests were answered.
    pub fn mostly_failed(&self) -> bool {
        self.answered * 2 < self.sent
    }

    /// How its requests ended, by name, in the order of a table.
    pub fn counts(&self) -> [(&'static str, u64); 6] {
        [
            ("sent", self.sent),
            ("answered", self.answered),
            ("overloaded", self.overloaded),
            ("server errors", self.server_errors),
            ("connection errors", self.connection_errors),
            ("timed out", self.timed_out),
        ]
    }

    /// Why requests were not answered, with how many; what was not told apart comes last.
    pub fn reasons(&self) -> impl Iterator<Item = (&str, u64)> {
        let others =
            (self.other_complaints > 0).then_some(("something else", self.other_complaints));
        self.complaints.iter().map(|one| (one.text.as_str(), one.count)).chain(others)
    }
}

/// What may be given of a run's latencies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trust {
    /// All of them, as the user insists.
    All,
    /// All but single figures that the generator's lateness moved.
    Each,
    /// The median.
    Median,
    /// None.
    Nothing,
}

/// Percentiles in microseconds; `None` where there are too few samples to know, or where requests
/// without an answer reach that far down.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Percentiles {
    /// Samples.
    pub count: u64,
    /// Mean.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// 99.9th percentile.
    pub p999: Option<f64>,
    /// Greatest.
    pub max: Option<f64>,
}

impl Percentiles {
    /// Of `times`, where `unanswered` more took longer than anyone waited for them.
    pub fn of(times: &Times, unanswered: u64) -> Self {
        let count = times.len();
        let some = count > 0;
        let at = |ratio| quantile_ns(times, unanswered, ratio).map(|ns| ns / 1e3);
        Percentiles {
            count,
            mean: some.then(|| times.mean() / 1e3),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: some.then(|| times.max() as f64 / 1e3),
        }
    }

    /// Names of the figures, in the order of a table.
    pub const NAMES: [&'static str; 6] = ["mean", "p50", "p90", "p99", "p99.9", "max"];

    /// The figures, in the order of their names.
    pub fn figures(&self) -> [(&'static str, Option<f64>); 6] {
        let mut copy = *self;
        copy.figures_mut().map(|(name, figure)| (name, *figure))
    }

    fn figures_mut(&mut self) -> [(&'static str, &mut Option<f64>); 6] {
        let Percentiles { count: _, mean, p50, p90, p99, p999, max } = self;
        let mut names = Self::NAMES.into_iter();
        [mean, p50, p90, p99, p999, max].map(|figure| (names.next().unwrap_or_default(), figure))
    }

    /// The median alone.
    fn median(self) -> Self {
        Percentiles { mean: None, p90: None, p99: None, p999: None, max: None, ..self }
    }

    /// Takes away the figures of which lateness makes too much, and names them; `undisturbed` are
    /// the same without lateness.
    fn without_lateness(&mut self, undisturbed: Percentiles) -> Vec<&'static str> {
        let mut withheld = Vec::new();
        let figures = self.figures_mut().into_iter().zip(undisturbed.figures());
        for ((name, figure), (_, without)) in figures {
            let (Some(all), Some(without)) = (*figure, without) else { continue };
            if all - without > LATENESS_IN_FIGURE_MAX * all {
                *figure = None;
                withheld.push(name);
            }
        }
        withheld
    }
}

/// The `ratio` quantile over answered and unanswered requests together, as far as it is known:
/// enough samples lie beyond it ([`quantile::supported`]) and it falls among answered ones.
pub fn quantile_ns(times: &Times, unanswered: u64, ratio: f64) -> Option<f64> {
    let all = times.len() + unanswered;
    let value = quantile::at_rank(times, quantile::rank(all, ratio))?;
    quantile::supported(all, ratio).then_some(value as f64)
}

/// The lateness that a share of `share` of the requests exceeds, in microseconds. This is a gate
/// and no result, so the rank alone decides, however few they are.
fn late_us(lateness: &Times, share: f64) -> f64 {
    quantile::of_histogram(lateness, 1.0 - share).map_or(0.0, |ns| ns as f64 / 1e3)
}

fn type_report(name: &str, sent: u64, account: &Account, trust: Trust) -> TypeReport {
    let count = |outcome| account.count(outcome);
    let unanswered = account.unanswered();
    let percentiles = |times| match trust {
        Trust::All | Trust::Each => Some(Percentiles::of(times, unanswered)),
        Trust::Median => Some(Percentiles::of(times, unanswered).median()),
        Trust::Nothing => None,
    };
    let mut response_us = percentiles(&account.response);
    let withheld = match &mut response_us {
        Some(response) if trust != Trust::All => {
            response.without_lateness(Percentiles::of(&account.since_taken, unanswered))
        }
        _ => Vec::new(),
    };
    TypeReport {
        name: name.to_string(),
        sent,
        answered: count(Outcome::Answered),
        overloaded: count(Outcome::Overloaded),
        server_errors: count(Outcome::ServerError),
        connection_errors: count(Outcome::ConnectionError),
        timed_out: count(Outcome::TimedOut),
        lost: count(Outcome::Lost),
        complaints: account.complaints.list(),
        other_complaints: account.complaints.others(),
        response_us,
        since_sent_us: percentiles(&account.since_sent),
        withheld,
    }
}

/// The service time to hold lateness against.
fn shortest(schedule: &Schedule, options: &Options, accounts: &[Account]) -> Option<Shortest> {
    let of = |us, source| Some(Shortest { us, source });
    if let Some(span) = options.shortest_service {
        return of(span.as_us(), "as given");
    }
    let told = schedule.entries().iter().map(|entry| entry.service).filter(|s| !s.is_zero()).min();
    if let Some(span) = told {
        return of(span.as_us(), "the shortest in the schedule");
    }
    let medians = accounts.iter().filter_map(|of| quantile::of_histogram(&of.since_sent, 0.5));
    let least = medians.min()?;
    of(least as f64 / 1e3, "the shortest median from sending to answer")
}

/// Why percentiles should not be believed, and what may be given all the same.
fn doubts(report: &Report) -> (Vec<String>, Trust) {
    let mut doubts = Vec::new();
    if report.model != Model::Open {
        return (doubts, Trust::All);
    }
    let mut trust = Trust::Each;
    if let Some(shortest) = &report.shortest_service {
        let most = LATENESS_RATIO_MAX * shortest.us;
        let late = late_us(&report.lateness, LATE_SHARE_MAX);
        if late > most {
            let many = late_us(&report.lateness, LATE_SHARE_MAX_MEDIAN) > most;
            trust = if many { Trust::Nothing } else { Trust::Median };
            doubts.push(format!(
                "the generator was late: lateness p99 is {late:.1} us, more than {:.0} % of the \
                 shortest service time, {:.1} us ({})",
                LATENESS_RATIO_MAX * 100.0,
                shortest.us,
                shortest.source
            ));
        }
    }
    let error = report.sent_per_s / report.planned_per_s - 1.0;
    if !report.interrupted && error.abs() > RATE_ERROR_MAX {
        doubts.push(format!(
            "the rate was not reached: {:.1} requests per second were sent, {:.1} were planned",
            report.sent_per_s, report.planned_per_s
        ));
        trust = Trust::Nothing;
    }
    (doubts, trust)
}

fn notes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    if let Model::Closed { clients } = report.model {
        notes.push(format!(
            "closed model with {clients} clients: latency counts from sending, and requests that a \
             stalled server was not sent are missing; do not compare it with open results"
        ));
    }
    if report.interrupted {
        notes.push("interrupted: these are the requests until then".to_string());
    }
    if report.waited > 0 {
        notes.push(format!(
            "{} requests waited in the generator for a free connection, at most {:.0} us; that \
             counts as latency, but the server saw a smoother load than the schedule",
            report.waited, report.waited_most_us
        ));
    }
    let tails = report.types.iter().filter_map(|kind| kind.response_us.and_then(|p| p.p999));
    if let (Some(met), Some(least)) = (report.machine.met_p999_us(), tails.reduce(f64::min))
        && met > least / 10.0
    {
        notes.push(format!(
            "one request in a thousand meets a stall of {met:.0} us on this machine, more than a \
             tenth of the lowest p99.9: that tail is not the server's alone"
        ));
    }
    for kind in report.types.iter().filter(|kind| !kind.withheld.is_empty()) {
        notes.push(format!(
            "{} of type {} not given: more than a tenth of it is the lateness of the generator",
            kind.withheld.join(", "),
            kind.name
        ));
    }
    let lost: u64 = report.types.iter().map(|kind| kind.lost).sum();
    if lost > 0 {
        notes.push(format!("{lost} requests were lost by the target: a defect of it"));
    }
    notes
}

/// Draws the conclusions; `length` is the time of the last request sent.
pub(crate) fn conclude(
    schedule: &Schedule,
    options: &Options,
    machine: Machine,
    totals: Totals,
    length: Span,
    interrupted: bool,
) -> Report {
    let sent: u64 = totals.sent.iter().sum();
    let planned = schedule.entries().len() as u64;
    let rate = |count: u64, span: Span| count as f64 * 1e6 / span.as_us().max(1e-3);
    let latency_from = match options.model {
        Model::Open => "the intended time",
        Model::Closed { .. } => "sending (closed model)",
    };
    let mut report = Report {
        model: options.model,
        latency_from,
        wait: options.wait,
        verdict: Verdict::Published,
        notes: Vec::new(),
        schedule: schedule.origin().to_string(),
        schedule_digest: format!("{:016x}", schedule.digest()),
        planned,
        sent,
        warmup: totals.warmup,
        planned_per_s: rate(planned, schedule.length()),
        sent_per_s: rate(sent + totals.warmup, length),
        lateness_us: Percentiles::of(&totals.lateness, 0),
        shortest_service: shortest(schedule, options, &totals.accounts),
        waited: totals.waited,
        waited_most_us: totals.waited_most.as_us(),
        types: Vec::new(),
        machine,
        interrupted,
        accounts: totals.accounts,
        lateness: totals.lateness,
        intervals: totals.intervals,
        lines: totals.lines,
    };
    let (doubts, trust) = doubts(&report);
    let trust = if options.force { Trust::All } else { trust };
    report.verdict = match (doubts.is_empty(), options.force) {
        (true, _) => Verdict::Published,
        (false, true) => Verdict::Forced(doubts),
        (false, false) => Verdict::Refused(doubts),
    };
    let rows = schedule.types().iter().zip(&totals.sent).zip(&report.accounts);
    report.types =
        rows.map(|((name, sent), account)| type_report(name, *sent, account, trust)).collect();
    report.notes = notes(&report);
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Times {
        let mut times = crate::load::ledger::times();
        for value in values {
            crate::load::ledger::record(&mut times, Span::from_ns(value));
        }
        times
    }

    #[test]
    fn a_percentile_needs_a_hundred_samples_beyond_it() {
        let times = of(1..=10_000);
        assert!(quantile_ns(&times, 0, 0.99).is_some());
        assert_eq!(quantile_ns(&times, 0, 0.999), None);
        assert_eq!(quantile_ns(&of(1..=9_900), 0, 0.99), None);
    }

    #[test]
    fn requests_without_an_answer_take_longest() {
        let times = of((0..9_000).map(|_| 1_000));
        assert_eq!(quantile_ns(&times, 0, 0.9), Some(1_000.0));
        // One in ten without an answer: the p90 is the last that was answered, beyond nothing is.
        assert_eq!(quantile_ns(&times, 1_000, 0.9), Some(1_000.0));
        assert_eq!(quantile_ns(&times, 1_000, 0.91), None);
    }

    #[test]
    fn lateness_takes_away_only_what_it_made() {
        // One request of 4,941 was 24 ms late; the server always took 1 ms.
        let undisturbed = || (0..4_940u64).map(|n| 1_000_000 + n);
        let mut account =
            crate::load::ledger::Ledger::new(1, cavy_core::Instant::ZERO, Default::default())
                .close()
                .accounts
                .remove(0);
        account.response = of(undisturbed().chain([25_000_000]));
        account.since_taken = of(undisturbed().chain([1_000_000]));
        account.since_sent = account.since_taken.clone();
        let report = |trust| type_report("only", 4_941, &account, trust);
        let given = report(Trust::Each);
        assert_eq!(given.withheld, ["max"]);
        let response = given.response_us.expect("given");
        assert!(response.p50.is_some() && response.p90.is_some() && response.mean.is_some());
        assert_eq!((response.p99, response.max), (None, None), "too few for a p99");
        assert_eq!(report(Trust::All).response_us.and_then(|all| all.max), Some(25_001.983));
        let median = report(Trust::Median).response_us.expect("a median");
        assert!(median.p50.is_some() && median.p90.is_none() && median.mean.is_none());
        assert_eq!(report(Trust::Nothing).response_us, None);
    }

    #[test]
    fn the_gate_on_lateness_looks_at_its_rank_and_not_at_one_event() {
        let late = |slow: u64, all: u64| {
            late_us(&of((0..all).map(|n| if n < slow { 24_000_000 } else { 1_000 })), 0.01)
        };
        assert!(late(1, 4_941) < 1.1, "one event");
        assert!(late(49, 4_941) < 1.1, "a little under a hundredth");
        assert!(late(50, 4_941) > 20_000.0, "a little over");
        // Where a hundredth is less than one request, one is more than a hundredth.
        assert!(late(1, 50) > 20_000.0);
        assert_eq!(late_us(&of([]), 0.01), 0.0);
    }

    proptest! {
        #[test]
        fn quantiles_agree_with_a_sorted_list(
            mut values in prop::collection::vec(1u64..1_000_000, 1_000..3_000),
            unanswered in 0u64..200,
        ) {
            let times = of(values.iter().copied());
            values.sort();
            for ratio in [0.5, 0.9] {
                let all = values.len() as u64 + unanswered;
                let rank = (all as f64 * ratio).ceil() as usize;
                let known = quantile_ns(&times, unanswered, ratio);
                if (all as f64 * (1.0 - ratio)) < 99.9999 || rank > values.len() {
                    prop_assert_eq!(known, None);
                } else {
                    let exact = values[rank - 1] as f64;
                    let known = known.expect("enough samples");
                    prop_assert!((known / exact - 1.0).abs() < 2e-3, "{} {}", known, exact);
                }
            }
        }
    }
}
