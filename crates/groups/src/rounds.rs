//! What the windows of all rounds come to: gains, costs, tails and doubts.

use crate::clients::Sample;
use crate::edge::Read;
use crate::machine::Weather;
use crate::rank::{Estimate, Options, Row, Rule};
use crate::speed::{Evening, Rates};
use crate::world::Snapshot;
use cavy_core::{Instant, Span};
use cavy_lab::statistics::{Interval, quantile};
use cavy_whatif::LongPauses;
use cavy_whatif::governor::Doubts;
use cavy_whatif::worth::{self, Bounds, Counted, SATURATED};
use serde::{Deserialize, Serialize};

/// So much more than cores can do is no error of counting.
const IMPOSSIBLE: f64 = 1.05;
/// How far segments with pauses may differ from those without, and what share of requests
/// connections may end, before it is said.
const APART_MAX: f64 = 0.02;
/// How far apart the two bounds of throughput may be, percent, before it is said.
const BETWEEN_MAX: f64 = 3.0;

/// One target in one round.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) readings: Vec<Counted>,
    /// Windows with as many pauses in which the target stood as well.
    pub(crate) controls: Vec<Counted>,
    /// Windows with more and shorter pauses.
    pub(crate) shorter: Vec<Counted>,
    /// How fast the machine was in each window of the three kinds, where somebody looked.
    pub(crate) rates: [Vec<Option<Rates>>; 3],
    pub(crate) ledger: Vec<Snapshot>,
    pub(crate) samples: Vec<Sample>,
    pub(crate) epoch: Instant,
    pub(crate) own_cpu: Span,
    pub(crate) weather: Weather,
    /// Cores of the machine.
    pub(crate) cores: f64,
    /// Do services share them? Who says that a target has cores of its own asks by another rule.
    pub(crate) shared: bool,
    /// What came in at the edge without pauses and with them, where a foreign generator drives.
    pub(crate) came: [Read; 2],
}

impl Round {
    /// Its windows as what a change is worth goes by.
    pub(crate) fn worth(&self) -> Option<worth::Round> {
        let round = worth::Round::of(&self.readings, &self.shorter, &self.controls);
        round.map(|round| self.placed(round))
    }

    fn placed(&self, round: worth::Round) -> worth::Round {
        if self.shared { round.on(self.cores) } else { round }
    }

    /// The same as if the machine had been as fast in all of them; `None` where nobody looked.
    pub(crate) fn worth_at(&self, evening: &Evening) -> Option<worth::Round> {
        let even = |counted: &[Counted], rates: &[Option<Rates>]| {
            let each = counted.iter().zip(rates).map(|(one, rates)| {
                Some(Counted { requests: one.requests / evening.factor((*rates)?), ..*one })
            });
            each.collect::<Option<Vec<Counted>>>()
        };
        let [readings, controls, shorter] = &self.rates;
        let readings = even(&self.readings, readings)?;
        let (shorter, controls) = (even(&self.shorter, shorter)?, even(&self.controls, controls)?);
        worth::Round::of(&readings, &shorter, &controls).map(|round| self.placed(round))
    }

    /// The logarithm of what it says by itself: throughput changed over unchanged.
    pub(crate) fn gain_ln(one: &worth::Round) -> f64 {
        let alone = |value| Bounds { value, low: value, high: value };
        let [measured, most] = [one.measured_ln(), one.most_ln()].map(|ln| ln.map(alone));
        let by_cpu = one.by_cpu_ln().map(|both| both.map(alone));
        worth::settle(alone(one.least_ln()), by_cpu, measured, most).value
    }

    /// CPU time that services used in its slowed windows while nobody stood, as a share of what the
    /// cores can do in that time.
    fn computed(&self) -> Option<f64> {
        let slowed = || self.readings.iter().filter(|one| one.reading.slowed);
        let outside = |one: &Counted| Some(one.cpu?.saturating_sub(one.reading.got()));
        let used_us = slowed().map(|one| Some(outside(one)?.as_us())).sum::<Option<f64>>()?;
        let passed_us: f64 = slowed().map(|one| one.reading.elapsed_virtual().as_us()).sum();
        (passed_us > 0.0).then(|| used_us / (passed_us * self.cores))
    }
}

/// The manner of a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Manner {
    /// Nobody stood.
    Baseline,
    /// All but the target stood now and then.
    Slowed,
    /// All stood now and then.
    Control,
    /// Like slowed, with shorter pauses.
    Shorter,
}

/// One window as it was counted, for whoever wants to judge an answer by more than its interval.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Window {
    /// Its round, from 0.
    pub round: usize,
    /// Its manner.
    pub manner: Manner,
    /// Its length on the wall, seconds.
    pub wall_s: f64,
    /// Its length in virtual time, seconds.
    pub virtual_s: f64,
    /// Answers, those at its ends by parts.
    pub answers: f64,
    /// Pauses.
    pub pauses: u32,
    /// CPU time of the target, seconds; of wall time in a control.
    pub target_s: f64,
    /// The part of it that the target got while the others stood.
    pub target_inside_s: f64,
    /// CPU time of all services, seconds; nothing for controls and shorter pauses.
    pub cpu_s: Vec<f64>,
    /// How fast the machine was, where somebody looked.
    pub rates: Option<Rates>,
}

impl Window {
    /// All windows of `rounds`, of so many services.
    pub(crate) fn all(rounds: &[Round], services: usize) -> Vec<Window> {
        let mut all = Vec::new();
        for (number, round) in rounds.iter().enumerate() {
            let parts = [
                (&round.readings, Manner::Slowed),
                (&round.controls, Manner::Control),
                (&round.shorter, Manner::Shorter),
            ];
            for ((readings, manner), rates) in parts.into_iter().zip(&round.rates) {
                for (Counted { reading, requests, .. }, rates) in readings.iter().zip(rates) {
                    let cpu_s = |service| {
                        let at = |when| cpu_at(&round.ledger, service, when) / 1e6;
                        at(reading.to) - at(reading.from)
                    };
                    let first = manner == Manner::Slowed;
                    all.push(Window {
                        round: number,
                        manner: if reading.slowed { manner } else { Manner::Baseline },
                        wall_s: reading.elapsed().as_us() / 1e6,
                        virtual_s: reading.elapsed_virtual().as_us() / 1e6,
                        answers: *requests,
                        pauses: reading.pauses,
                        target_s: reading.used().as_us() / 1e6,
                        target_inside_s: reading.got().as_us() / 1e6,
                        cpu_s: (0..services).filter(|_| first).map(cpu_s).collect(),
                        rates: *rates,
                    });
                }
            }
        }
        all
    }
}

/// What rounds say together of the gain, as logarithms.
#[derive(Debug)]
pub(crate) struct Gain {
    /// What it is.
    pub(crate) settled: Bounds,
    /// If pauses cost nothing, and if they cost what they do in controls.
    pub(crate) between: Option<[f64; 2]>,
    /// Without the CPU time that pauses cost, and if cores were as busy as in baselines besides.
    pub(crate) by_cpu: Option<[f64; 2]>,
    /// Was what a pause costs measured?
    pub(crate) measured: bool,
}

impl Gain {
    /// Of at least two rounds.
    pub(crate) fn of(rounds: &[Round]) -> Option<Gain> {
        Gain::of_all(&rounds.iter().filter_map(Round::worth).collect::<Vec<_>>())
    }

    /// The same of what each round was worth.
    pub(crate) fn of_all(all: &[worth::Round]) -> Option<Gain> {
        let bounds = |of: &dyn Fn(&worth::Round) -> Option<f64>| {
            let each: Vec<f64> = all.iter().filter_map(of).collect();
            // A bound that some rounds lack says nothing of those.
            let known = Interval::of_mean(&each).filter(|_| each.len() == all.len())?;
            Some(Bounds { value: known.estimate, low: known.low, high: known.high })
        };
        let least = bounds(&|one| Some(one.least_ln()))?;
        let most = bounds(&worth::Round::most_ln);
        let measured = bounds(&worth::Round::measured_ln);
        let by_cpu = |place: usize| bounds(&|one| Some(one.by_cpu_ln()?[place]));
        let by_cpu = by_cpu(0).zip(by_cpu(1)).map(<[Bounds; 2]>::from);
        Some(Gain {
            settled: worth::settle(least, by_cpu, measured, most),
            by_cpu: by_cpu.map(|both| both.map(|one| one.value)),
            between: most.map(|most| [least.value, most.value.max(least.value)]),
            measured: measured.is_some(),
        })
    }
}

/// Throughput of the windows of one manner, in requests a second of virtual time.
pub(crate) fn mean_rate(round: &Round, slowed: bool) -> Option<f64> {
    let rates: Vec<f64> = round
        .readings
        .iter()
        .filter(|one| one.reading.slowed == slowed)
        .map(Counted::predicted_per_s)
        .collect();
    (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
}

/// A quantile of latency, by `of`, of what was answered in windows of one manner.
pub(crate) fn latency_ms(
    rounds: &[&Round],
    slowed: bool,
    p: f64,
    of: fn(&Sample) -> Span,
) -> Option<f64> {
    let mut latencies: Vec<u64> = Vec::new();
    for round in rounds {
        let windows = round.readings.iter().map(|one| one.reading);
        for window in windows.filter(|reading| reading.slowed == slowed) {
            let (from, to) = (
                round.epoch + window.from.since(Instant::ZERO),
                round.epoch + window.to.since(Instant::ZERO),
            );
            let within = |sample: &&Sample| sample.at >= from && sample.at < to;
            let found = round.samples.iter().filter(within).map(|sample| of(sample).as_ns());
            latencies.extend(found);
        }
    }
    if !quantile::supported(latencies.len() as u64, p) {
        return None;
    }
    latencies.sort_unstable();
    Some(quantile::of_sorted(&latencies, p)? as f64 / 1e6)
}

/// What requests cost in baselines.
pub(crate) struct Cost {
    /// CPU microseconds for a request, by service.
    pub(crate) us: Vec<f64>,
    /// The same for the clients, which are this program.
    pub(crate) own_us: f64,
    /// Share of all cores that was busy with all of it.
    pub(crate) busy: f64,
}

impl Cost {
    pub(crate) fn of(rounds: &[&Round], services: usize, cores: usize) -> Cost {
        let mut cpu_us = vec![0.0; services];
        let (mut completed, mut elapsed_us) = (0.0, 0.0);
        let (mut own_us, mut wall_us) = (0.0, 0.0);
        for round in rounds {
            for one in round.readings.iter().filter(|one| !one.reading.slowed) {
                let window = one.reading;
                completed += one.requests;
                elapsed_us += window.elapsed().as_us();
                for (service, sum) in cpu_us.iter_mut().enumerate() {
                    let at = |when| cpu_at(&round.ledger, service, when);
                    *sum += at(window.to) - at(window.from);
                }
            }
            own_us += round.own_cpu.as_us();
            wall_us += round.ledger.last().map_or(0.0, |last| last.at.since(Instant::ZERO).as_us());
        }
        let requests = f64::max(completed, 1.0);
        // This program is counted by ticks, so its share is taken over whole rounds.
        let own = own_us / wall_us.max(1.0) * elapsed_us;
        let busy = (cpu_us.iter().sum::<f64>() + own) / (elapsed_us.max(1.0) * cores as f64);
        let us = cpu_us.iter().map(|sum| sum / requests).collect();
        Cost { us, own_us: own / requests, busy }
    }

    /// The utilisation law where all share all cores: when these are what bounds throughput, it
    /// grows as the work of a request shrinks; when they are not, it stays.
    fn law_percent(&self, targets: &[usize], faster: f64) -> f64 {
        let all = self.us.iter().sum::<f64>() + self.own_us;
        if self.busy < SATURATED || all <= 0.0 {
            return 0.0;
        }
        (all / (all - faster * self.sum_us(targets)) - 1.0) * 100.0
    }

    /// CPU microseconds of several services for a request.
    fn sum_us(&self, targets: &[usize]) -> f64 {
        targets.iter().map(|target| self.us[*target]).sum()
    }
}

/// CPU microseconds of a service at a time, between the two snapshots about it.
pub(crate) fn cpu_at(ledger: &[Snapshot], service: usize, when: Instant) -> f64 {
    let us = |snapshot: &Snapshot| snapshot.cpu[service].as_us();
    let after = ledger.partition_point(|snapshot| snapshot.at < when);
    match (after.checked_sub(1).and_then(|before| ledger.get(before)), ledger.get(after)) {
        (Some(before), Some(after)) => {
            let whole = after.at.since(before.at).as_us().max(1e-3);
            let part = when.since(before.at).as_us() / whole;
            us(before) + (us(after) - us(before)) * part
        }
        (Some(one), None) | (None, Some(one)) => us(one),
        (None, None) => 0.0,
    }
}

/// What the rounds of one service say, or of several that are changed together.
pub(crate) fn row(
    name: &str,
    targets: &[usize],
    rounds: &[Round],
    cost: &Cost,
    options: &Options,
    open: bool,
) -> Row {
    // Requests that arrive by themselves have no gain in throughput.
    let gain = Gain::of(rounds).filter(|_| !open);
    let costs = rounds.iter().filter_map(|round| round.worth()?.control_ln());
    let costs: Vec<f64> = costs.collect();
    let baselines: Vec<f64> = rounds.iter().filter_map(|round| mean_rate(round, false)).collect();
    let unchanged_per_s = baselines.iter().sum::<f64>() / baselines.len().max(1) as f64;
    let (mut pauses, mut paused, mut elapsed) = (0_u64, Span::ZERO, Span::ZERO);
    let (mut used, mut inside) = (Span::ZERO, Span::ZERO);
    let mut bits = 0;
    for window in rounds.iter().flat_map(|round| &round.readings).map(|one| one.reading) {
        bits |= window.doubts;
        if window.slowed {
            pauses += u64::from(window.pauses);
            paused += window.paused;
            elapsed += window.elapsed();
            used += window.used();
            inside += window.got();
        }
    }
    let weather: Vec<Weather> = rounds.iter().map(|round| round.weather).collect();
    let percent = |ln: f64| (ln.exp() - 1.0) * 100.0;
    let settled = gain.as_ref().map(|gain| Estimate::from(gain.settled));
    let between = gain.as_ref().and_then(|gain| gain.between);
    let all: Vec<&Round> = rounds.iter().collect();
    let one = Row {
        service: name.to_string(),
        gain_percent: settled.map(|gain| gain.map(percent)),
        gain_between_percent: between.map(|both| both.map(percent)),
        predicted_per_s: settled.map(|gain| gain.map(|ln| unchanged_per_s * ln.exp())),
        law_percent: if open { 0.0 } else { cost.law_percent(targets, options.faster) },
        cpu_us_per_request: cost.sum_us(targets),
        paused_ratio: paused.as_us() / elapsed.as_us().max(1.0),
        pause_ms: paused.as_us() / 1e3 / (pauses.max(1) as f64),
        delivered_percent: inside.as_us() / used.as_us().max(1.0) * 100.0,
        pause_cost_percent: Interval::of_mean(&costs).map(|one| Estimate::from(one).map(percent)),
        predicted_p50_ms: latency_ms(&all, true, 0.5, |one| one.latency),
        predicted_p99_ms: latency_ms(&all, true, 0.99, |one| one.latency),
        wall_p50_ms: latency_ms(&all, true, 0.5, |one| one.wall),
        wall_p99_ms: latency_ms(&all, true, 0.99, |one| one.wall),
        rounds: baselines.len() as u32,
        weather: Weather::mean(&weather),
        doubts: words(bits),
    };
    let mut doubts = doubts(&one, &weather, pauses, options);
    doubts.extend(in_doubt_by_pauses(&one, options, open));
    let computed: Vec<f64> = rounds.iter().filter_map(Round::computed).collect();
    let computed = computed.iter().sum::<f64>() / computed.len().max(1) as f64;
    if computed > IMPOSSIBLE {
        doubts.push(format!(
            "services computed {:.0} % of what the cores can do in the time without pauses: pauses \
             were shorter than they were counted, and the gain is too high",
            computed * 100.0
        ));
    }
    doubts.extend(gain.and_then(|gain| in_doubt(&gain)));
    let came = rounds.iter().map(|round| round.came);
    doubts.extend(miscounted(
        came.fold([Read::default(); 2], |[a, b], [c, d]| [a.plus(c), b.plus(d)]),
    ));
    Row { doubts: [one.doubts.clone(), doubts].concat(), ..one }
}

/// Reasons to doubt that no single window knows.
fn doubts(row: &Row, weather: &[Weather], pauses: u64, options: &Options) -> Vec<String> {
    let mut doubts = Vec::new();
    let stolen = weather.iter().filter(|one| one.steal_ratio > Weather::STEAL_MAX).count();
    if stolen > 0 {
        doubts.push(format!(
            "in {stolen} of {} rounds the hypervisor took more than {:.0} % of processor time",
            weather.len(),
            Weather::STEAL_MAX * 100.0
        ));
    }
    if row.weather.others_ratio > Weather::OTHERS_MAX {
        doubts.push(format!(
            "other programs took {:.0} % of processor time; they get in where services stand, and \
             what has little to do while others stand then looks worse than it is: close them",
            row.weather.others_ratio * 100.0
        ));
    }
    if pauses == 0 && !weather.is_empty() {
        doubts.push("it used too little CPU time for a single pause: is it called?".to_string());
    }
    let asked = options.faster * 100.0;
    if options.rule == Rule::Delivered && pauses > 0 && (row.delivered_percent - asked).abs() > 2.0
    {
        doubts.push(format!(
            "it got {:.0} % of its CPU time while others stood, and {asked:.0} % was asked for: \
             the gain is that of {:.0} %",
            row.delivered_percent, row.delivered_percent
        ));
    }
    doubts
}

/// A doubt where the time of requests is predicted with pauses that are too long for it.
fn in_doubt_by_pauses(row: &Row, options: &Options, open: bool) -> Option<String> {
    let is_delivered = options.rule == Rule::Delivered;
    let long = LongPauses::of(is_delivered, open, row.pause_ms, row.predicted_p50_ms?)?;
    Some(format!("{}; use `--pause {:.0}us` or less", long.why, long.pause_max_us))
}

/// A doubt where what pauses cost decides more than the interval says.
fn in_doubt(gain: &Gain) -> Option<String> {
    let percent = |ln: f64| (ln.exp() - 1.0) * 100.0;
    if let Some([by_cpu, law]) = gain.by_cpu {
        let apart = percent((by_cpu - law).abs()) > BETWEEN_MAX;
        return apart.then(|| {
            format!(
                "the gain is {:.0} % as busy as cores were with pauses, and {:.0} % as busy as \
                 they are without: pauses may be why, or what the change leaves for cores to do",
                percent(by_cpu),
                percent(law)
            )
        });
    }
    let ([least, most], settled) = (gain.between?, gain.settled);
    let bounds = format!(
        "the gain is {:.0} % if pauses cost nothing, and {:.0} % if they cost as much as when all \
         stand",
        percent(least),
        percent(most)
    );
    if percent(most - least) <= BETWEEN_MAX {
        return None;
    }
    match (gain.measured, settled.high <= most) {
        (false, _) => Some(format!(
            "{bounds}: what a pause costs could not be measured, so it may be anything between"
        )),
        (true, true) => Some(format!(
            "{bounds}: the answer goes by what shorter pauses cost, which may be too little, and \
             the upper end of its interval is that bound"
        )),
        _ => None,
    }
}

/// Reasons to doubt that requests of a foreign generator were counted, from what came in without
/// pauses and with them.
fn miscounted(came: [Read; 2]) -> Vec<String> {
    let mut doubts = Vec::new();
    let [without, with] = came.map(|one| one.bytes as f64 / one.segments.max(1) as f64);
    let seen = came.iter().all(|one| one.segments > 0);
    if seen && (with / without.max(1e-9) - 1.0).abs() > APART_MAX {
        doubts.push(format!(
            "a segment of the generator has {with:.0} bytes with pauses and {without:.0} without: \
             segments are no requests here, and the gain is off by as much"
        ));
    }
    let all = came[0].plus(came[1]);
    if all.ended as f64 > APART_MAX * all.segments as f64 {
        doubts.push(format!(
            "{} connections of the generator ended while {} requests came in: some were not \
             counted; have it keep connections",
            all.ended, all.segments
        ));
    }
    doubts
}

/// What the bits of a reading's doubts mean for a reader.
fn words(bits: u8) -> Vec<String> {
    let all = [
        (Doubts::DUTY, "pauses could not keep up with what the change saves: ask for less"),
        (
            Doubts::IDLE,
            "it idled in more than half of the pauses: more clients are needed, or it is hardly \
             called",
        ),
        (Doubts::LONG, "pauses took a fifth longer than asked for: the machine is too busy"),
        (Doubts::UNCONFIRMED, "a group did not confirm that it stood, and its lease ended"),
        (Doubts::GONE, "a group ended while it was measured"),
        (Doubts::NOTHING, "a window had no answers at all"),
    ];
    all.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, text)| (*text).to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::Pace;
    use cavy_whatif::Reading;
    use cavy_whatif::governor::TARGETS;

    #[test]
    fn cpu_time_between_snapshots_is_interpolated() {
        let at = |ms: u64| Instant::from_ns(ms * 1_000_000);
        let one = |ms, us| Snapshot { at: at(ms), cpu: vec![Span::from_us(us)] };
        let ledger = [one(0, 0), one(20, 1_000), one(40, 5_000)];
        for (ms, us) in [(0, 0.0), (10, 500.0), (20, 1_000.0), (30, 3_000.0), (90, 5_000.0)] {
            let found = cpu_at(&ledger, 0, at(ms));
            assert!((found - us).abs() < 1e-6, "{ms} ms: {found}");
        }
    }

    #[test]
    fn the_law_speaks_of_saturated_cores_only() {
        let cost = |busy| Cost { us: vec![600.0, 300.0], own_us: 100.0, busy };
        assert!((cost(0.99).law_percent(&[0], 0.5) - (1000.0 / 700.0 - 1.0) * 100.0).abs() < 1e-9);
        assert_eq!(cost(0.4).law_percent(&[0], 0.5), 0.0);
    }

    /// Of one target.
    fn first(span: Span) -> [Span; TARGETS] {
        let mut all = [Span::ZERO; TARGETS];
        all[0] = span;
        all
    }

    fn reading(slowed: bool, completions: u64, paused_ms: u64) -> Reading {
        Reading {
            index: 0,
            slowed,
            from: Instant::ZERO,
            to: Instant::ZERO + Span::from_ms(1_000),
            completions,
            pauses: u32::from(slowed),
            idle: 0,
            asked: Span::from_ms(paused_ms),
            paused: Span::from_ms(paused_ms),
            paused_mean: Span::from_ms(paused_ms),
            paused_any: Span::from_ms(paused_ms),
            visits: [0; TARGETS],
            cpu: first(Span::from_ms(500)),
            cpu_inside: first(Span::from_ms(200)),
            doubts: 0,
        }
    }

    fn round(controls: Vec<Reading>, shorter: Vec<Reading>) -> Round {
        let counted = |all: Vec<Reading>| all.into_iter().map(Counted::from).collect();
        Round {
            // 1000/s; with 0.2 s of pauses 1000 in 0.8 s.
            readings: counted(vec![reading(false, 1_000, 0), reading(true, 1_000, 200)]),
            rates: [vec![None; 2], vec![None; controls.len()], vec![None; shorter.len()]],
            controls: counted(controls),
            shorter: counted(shorter),
            ledger: vec![Snapshot { at: Instant::ZERO, cpu: vec![Span::ZERO] }],
            samples: Vec::new(),
            epoch: Instant::ZERO,
            own_cpu: Span::ZERO,
            weather: Weather::default(),
            cores: 2.0,
            shared: true,
            came: [Read::default(); 2],
        }
    }

    #[test]
    fn segments_that_are_no_requests_are_said() {
        let read = |segments, bytes, ended| Read { segments, bytes, ended, at: Instant::ZERO };
        assert!(miscounted([Read::default(); 2]).is_empty());
        assert!(miscounted([read(1_000, 80_000, 2), read(700, 56_000, 0)]).is_empty());
        // What the client wrote in two pieces came as one while the server stood.
        let said = miscounted([read(2_000, 80_000, 0), read(900, 56_000, 0)]);
        assert!(said.len() == 1 && said[0].contains("62 bytes with pauses and 40"), "{said:?}");
        let said = miscounted([read(1_000, 80_000, 500), read(700, 56_000, 300)]);
        assert!(said.len() == 1 && said[0].contains("800 connections"), "{said:?}");
    }

    #[test]
    fn the_gain_lies_between_free_pauses_and_those_of_controls() {
        let of = |controls: &[Reading], shorter: &[Reading]| {
            let one = || round(controls.to_vec(), shorter.to_vec());
            Gain::of(&[one(), one()]).expect("a gain")
        };
        let ratio = |ln: f64| ln.exp();
        let plain = of(&[], &[]);
        assert!((ratio(plain.settled.value) - 1.25).abs() < 1e-9 && plain.between.is_none());
        // As many pauses with everybody standing: 950/s of virtual time instead of 1000, so that a
        // request of 0.8 ms takes 0.05 ms less without them.
        let controls = [reading(true, 760, 200)];
        let bounded = of(&controls, &[]);
        let [least, most] = bounded.between.expect("two bounds");
        assert!((ratio(least) - 1.25).abs() < 1e-9);
        let cost = (800.0 / 760.0 - 1.0) * 760.0;
        assert!((ratio(most) - 1000.0 / (800.0 - cost)).abs() < 1e-9, "{}", ratio(most));
        assert!(!bounded.measured && bounded.settled.low <= least && bounded.settled.high >= most);
        assert!(in_doubt(&bounded).is_some_and(|doubt| doubt.contains("anything between")));
        // Three pauses instead of one cost 0.04 ms more: one costs 0.02 ms.
        let shorter = Reading { pauses: 3, ..reading(true, 1_000, 160) };
        let measured = of(&controls, &[shorter]);
        assert!(measured.measured);
        assert!((ratio(measured.settled.value) - 1000.0 / 780.0).abs() < 1e-9);
        assert!(measured.settled.low > bounded.settled.low);
        assert!((ratio(measured.settled.high) - ratio(most)).abs() < 1e-9);
        assert!(in_doubt(&measured).is_some_and(|doubt| doubt.contains("is that bound")));
    }

    /// 500 ms of the target's CPU time in 1,000 requests, 40 % of it in pauses of 0.2 s.
    fn busy(slowed_ms: u64) -> Round {
        let counted = |reading: Reading, ms| {
            let cpu = Some(Span::from_ms(ms));
            Counted { cpu, ..reading.into() }
        };
        let baseline = Reading { cpu_inside: first(Span::ZERO), ..reading(false, 1_000, 0) };
        let slowed = reading(true, 1_000, 200);
        let readings = vec![counted(baseline, 1_740), counted(slowed, slowed_ms)];
        Round { readings, ..round(vec![reading(true, 760, 200)], Vec::new()) }
    }

    #[test]
    fn what_pauses_cost_in_cpu_time_is_taken_out_where_cores_are_busy() {
        let ratio = |ln: f64| ln.exp();
        // 1.74 ms less 40 % of 0.5 are 1.54; outside pauses of 0.2 s it was 1.58.
        let gain = Gain::of(&[busy(1_780), busy(1_780)]).expect("a gain");
        let (wanted, law) = (1_000.0 / 800.0 * 1_580.0 / 1_540.0, 1_740.0_f64 / 1_540.0);
        assert!((ratio(gain.settled.value) - f64::sqrt(wanted * law)).abs() < 1e-9, "{gain:?}");
        assert!((ratio(gain.settled.low) - law).abs() < 1e-9, "{gain:?}");
        assert!((ratio(gain.settled.high) - wanted).abs() < 1e-9, "{gain:?}");
        assert!(in_doubt(&gain).is_some_and(|doubt| doubt.contains("28 %")), "{gain:?}");
        // Cores that idle for a third say nothing of what the changed system could do.
        let idle = Gain::of(&[busy(1_200), busy(1_200)]).expect("a gain");
        assert!(idle.by_cpu.is_none() && ratio(idle.settled.high) > 1.25, "{idle:?}");
        let apart = || Round { shared: false, ..busy(1_780) };
        assert!(Gain::of(&[apart(), apart()]).is_some_and(|gain| gain.by_cpu.is_none()));
        // More than two cores can do in 0.8 s.
        let cost = Cost { us: vec![600.0], own_us: 100.0, busy: 0.9 };
        let said = |slowed_ms| {
            let rounds = [busy(slowed_ms), busy(slowed_ms)];
            row("x", &[0], &rounds, &cost, &options(0.4), false).doubts.join("; ")
        };
        assert!(said(2_020).contains("computed 114 %"), "{}", said(2_020));
        assert!(!said(1_780).contains("computed"), "{}", said(1_780));
    }

    fn options(faster: f64) -> Options {
        Options {
            faster,
            rule: Rule::Delivered,
            rounds: 2,
            until_percent: None,
            control: true,
            pace: Pace { window: Span::from_ms(1_000), settle: Span::from_ms(100) },
            pause_min: None,
        }
    }

    #[test]
    fn a_share_that_was_not_delivered_is_said() {
        let cost = Cost { us: vec![600.0], own_us: 100.0, busy: 0.9 };
        let rounds = [round(Vec::new(), Vec::new()), round(Vec::new(), Vec::new())];
        let said = row("x", &[0], &rounds, &cost, &options(0.6), false);
        assert!((said.delivered_percent - 40.0).abs() < 1e-9);
        assert!(said.doubts.iter().any(|doubt| doubt.contains("got 40 %")), "{said:?}");
        let fine = row("x", &[0], &rounds, &cost, &options(0.4), false);
        assert_eq!(fine.doubts, Vec::<String>::new());
    }

    /// A pause of 0.2 s in each window, and requests that take `latency_ms` on the clients' clock.
    #[test]
    fn pauses_that_are_long_beside_requests_are_said() {
        let cost = Cost { us: vec![600.0], own_us: 100.0, busy: 0.9 };
        let said = |latency_ms: u64, rule: Rule, open: bool| {
            let at = Instant::ZERO + Span::from_ms(500);
            let latency = Span::from_ms(latency_ms);
            let sample = Sample { client: 0, sent: at, at, latency, wall: latency };
            let one = || Round { samples: vec![sample; 400], ..round(Vec::new(), Vec::new()) };
            let options = Options { rule, ..options(0.4) };
            let row = row("x", &[0], &[one(), one()], &cost, &options, open);
            assert_eq!(row.predicted_p50_ms, Some(latency_ms as f64));
            row.doubts.into_iter().find(|doubt| doubt.contains("half of the requests"))
        };
        let clock = || Rule::Clock { parallel: 1 };
        assert!(said(500, Rule::Delivered, true).is_none() && said(500, clock(), false).is_none());
        let doubt = said(300, Rule::Delivered, true).expect("a doubt");
        assert!(doubt.contains("percentiles") && doubt.ends_with("use `--pause 150000us` or less"));
        let doubt = said(500, clock(), true).expect("a doubt");
        assert!(doubt.contains("change less") && doubt.ends_with("`--pause 125000us` or less"));
    }

    #[test]
    fn every_doubt_has_words() {
        for bit in 0..6 {
            assert_eq!(words(1 << bit).len(), 1, "bit {bit}");
        }
    }
}
