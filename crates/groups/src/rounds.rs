//! What the windows of all rounds come to: gains, costs, tails and doubts.

use crate::clients::Sample;
use crate::machine::Weather;
use crate::rank::{Estimate, Options, Row, Rule};
use crate::world::Snapshot;
use cavy_core::{Instant, Span};
use cavy_lab::statistics::Interval;
use cavy_whatif::Reading;
use cavy_whatif::governor::Doubts;

/// Busy cores above which they count as what bounds throughput.
const SATURATED: f64 = 0.85;
/// What pauses may cost, percent, before it is said.
const PAUSE_COST_MAX: f64 = 10.0;

/// One target in one round.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) readings: Vec<Reading>,
    /// Windows with as many pauses in which the target stood as well.
    pub(crate) controls: Vec<Reading>,
    pub(crate) ledger: Vec<Snapshot>,
    pub(crate) samples: Vec<Sample>,
    pub(crate) epoch: Instant,
    pub(crate) own_cpu: Span,
    pub(crate) weather: Weather,
}

impl Round {
    /// What slowed windows are compared with: controls where there are any.
    fn unchanged_per_s(&self) -> Option<f64> {
        control_rate(self).or_else(|| mean_rate(self, false))
    }

    /// The logarithm of throughput of the changed system over that of the unchanged one.
    pub(crate) fn gain_ln(&self) -> Option<f64> {
        let (slowed, unchanged) = (mean_rate(self, true)?, self.unchanged_per_s()?);
        (slowed > 0.0 && unchanged > 0.0).then(|| (slowed / unchanged).ln())
    }

    /// The logarithm of throughput without pauses over that of the controls.
    fn pause_cost_ln(&self) -> Option<f64> {
        let (control, baseline) = (control_rate(self)?, mean_rate(self, false)?);
        (control > 0.0 && baseline > 0.0).then(|| (baseline / control).ln())
    }

    /// Throughput of the changed system without any pauses.
    fn predicted_per_s(&self) -> Option<f64> {
        Some(mean_rate(self, false)? * self.gain_ln()?.exp())
    }
}

/// Throughput of the windows of one manner, in requests a second of virtual time.
pub(crate) fn mean_rate(round: &Round, slowed: bool) -> Option<f64> {
    let rates: Vec<f64> = round
        .readings
        .iter()
        .filter(|reading| reading.slowed == slowed)
        .map(Reading::predicted_per_s)
        .collect();
    (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
}

/// Throughput of the controls, in requests a second of virtual time.
fn control_rate(round: &Round) -> Option<f64> {
    let rates: Vec<f64> = round.controls.iter().map(Reading::predicted_per_s).collect();
    (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
}

/// A quantile of latency in virtual time of what was answered in windows of one manner.
pub(crate) fn latency_ms(rounds: &[&Round], slowed: bool, p: f64) -> Option<f64> {
    let mut latencies: Vec<u64> = Vec::new();
    for round in rounds {
        let windows = round.readings.iter().filter(|reading| reading.slowed == slowed);
        for window in windows {
            let (from, to) = (
                round.epoch + window.from.since(Instant::ZERO),
                round.epoch + window.to.since(Instant::ZERO),
            );
            let within = |sample: &&Sample| sample.at >= from && sample.at < to;
            let found = round.samples.iter().filter(within).map(|sample| sample.latency.as_ns());
            latencies.extend(found);
        }
    }
    let count = latencies.len() as u64;
    if !cavy_lab::statistics::quantile::supported(count, p) {
        return None;
    }
    latencies.sort_unstable();
    let rank = cavy_lab::statistics::quantile::rank(count, p);
    Some(latencies[rank as usize - 1] as f64 / 1e6)
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
        let (mut completions, mut elapsed_us) = (0_u64, 0.0);
        let (mut own_us, mut wall_us) = (0.0, 0.0);
        for round in rounds {
            for window in round.readings.iter().filter(|reading| !reading.slowed) {
                completions += window.completions;
                elapsed_us += window.elapsed().as_us();
                for (service, sum) in cpu_us.iter_mut().enumerate() {
                    let at = |when| cpu_at(&round.ledger, service, when);
                    *sum += at(window.to) - at(window.from);
                }
            }
            own_us += round.own_cpu.as_us();
            wall_us += round.ledger.last().map_or(0.0, |last| last.at.since(Instant::ZERO).as_us());
        }
        let requests = (completions as f64).max(1.0);
        // This program is counted by ticks, so its share is taken over whole rounds.
        let own = own_us / wall_us.max(1.0) * elapsed_us;
        let busy = (cpu_us.iter().sum::<f64>() + own) / (elapsed_us.max(1.0) * cores as f64);
        let us = cpu_us.iter().map(|sum| sum / requests).collect();
        Cost { us, own_us: own / requests, busy }
    }

    /// The utilisation law where all share all cores: when these are what bounds throughput, it
    /// grows as the work of a request shrinks; when they are not, it stays.
    fn law_percent(&self, target: usize, faster: f64) -> f64 {
        let all = self.us.iter().sum::<f64>() + self.own_us;
        if self.busy < SATURATED || all <= 0.0 {
            return 0.0;
        }
        (all / (all - faster * self.us[target]) - 1.0) * 100.0
    }
}

/// CPU microseconds of a service at a time, between the two snapshots about it.
fn cpu_at(ledger: &[Snapshot], service: usize, when: Instant) -> f64 {
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

/// What the rounds of one service say.
pub(crate) fn row(
    name: &str,
    target: usize,
    rounds: &[Round],
    cost: &Cost,
    options: &Options,
) -> Row {
    let ratios: Vec<f64> = rounds.iter().filter_map(Round::gain_ln).collect();
    let costs: Vec<f64> = rounds.iter().filter_map(Round::pause_cost_ln).collect();
    let predicted: Vec<f64> = rounds.iter().filter_map(Round::predicted_per_s).collect();
    let (mut pauses, mut paused, mut elapsed) = (0_u64, Span::ZERO, Span::ZERO);
    let (mut used, mut inside) = (Span::ZERO, Span::ZERO);
    let mut bits = 0;
    for window in rounds.iter().flat_map(|round| &round.readings) {
        bits |= window.doubts;
        if window.slowed {
            pauses += u64::from(window.pauses);
            paused += window.paused;
            elapsed += window.elapsed();
            used += window.cpu[0];
            inside += window.cpu_inside[0];
        }
    }
    let weather: Vec<Weather> = rounds.iter().map(|round| round.weather).collect();
    let percent = |interval: Interval| Estimate::from(interval).map(|ln| (ln.exp() - 1.0) * 100.0);
    let all: Vec<&Round> = rounds.iter().collect();
    let one = Row {
        service: name.to_string(),
        gain_percent: Interval::of_mean(&ratios).map(percent),
        predicted_per_s: Interval::of_mean(&predicted).map(Estimate::from),
        law_percent: cost.law_percent(target, options.faster),
        cpu_us_per_request: cost.us[target],
        paused_ratio: paused.as_us() / elapsed.as_us().max(1.0),
        pause_ms: paused.as_us() / 1e3 / (pauses.max(1) as f64),
        delivered_percent: inside.as_us() / used.as_us().max(1.0) * 100.0,
        pause_cost_percent: Interval::of_mean(&costs).map(percent),
        predicted_p50_ms: latency_ms(&all, true, 0.5),
        predicted_p99_ms: latency_ms(&all, true, 0.99),
        rounds: ratios.len() as u32,
        weather: Weather::mean(&weather),
        doubts: words(bits),
    };
    let doubts = doubts(&one, &weather, pauses, options);
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
    if let Some(cost) = row.pause_cost_percent
        && cost.value > PAUSE_COST_MAX
    {
        doubts.push(format!(
            "the pauses alone cost {:.0} % of throughput, which was taken out by controls: fewer \
             and longer pauses cost less",
            cost.value
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
        assert!((cost(0.99).law_percent(0, 0.5) - (1000.0 / 700.0 - 1.0) * 100.0).abs() < 1e-9);
        assert_eq!(cost(0.4).law_percent(0, 0.5), 0.0);
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
            visits: [0; cavy_whatif::governor::TARGETS],
            cpu: [Span::from_ms(500); cavy_whatif::governor::TARGETS],
            cpu_inside: [Span::from_ms(200); cavy_whatif::governor::TARGETS],
            doubts: 0,
        }
    }

    fn round(controls: Vec<Reading>) -> Round {
        Round {
            // 1000/s; with 0.2 s of pauses 1000 in 0.8 s.
            readings: vec![reading(false, 1_000, 0), reading(true, 1_000, 200)],
            controls,
            ledger: vec![Snapshot { at: Instant::ZERO, cpu: vec![Span::ZERO] }],
            samples: Vec::new(),
            epoch: Instant::ZERO,
            own_cpu: Span::ZERO,
            weather: Weather::default(),
        }
    }

    #[test]
    fn what_pauses_cost_is_taken_out_by_controls() {
        let plain = round(Vec::new());
        assert!((plain.gain_ln().expect("a gain").exp() - 1.25).abs() < 1e-9);
        assert_eq!(plain.pause_cost_ln(), None);
        // As many pauses with everybody standing: 950/s of virtual time instead of 1000.
        let controlled = round(vec![reading(true, 760, 200), reading(true, 760, 200)]);
        let gain = controlled.gain_ln().expect("a gain").exp();
        assert!((gain - 1_250.0 / 950.0).abs() < 1e-9, "{gain}");
        assert!((controlled.pause_cost_ln().expect("a cost").exp() - 1.0 / 0.95).abs() < 1e-9);
        assert!((controlled.predicted_per_s().expect("a rate") - 1_000.0 * gain).abs() < 1e-6);
    }

    #[test]
    fn a_share_that_was_not_delivered_is_said() {
        let options = Options {
            faster: 0.6,
            rule: Rule::Delivered,
            rounds: 2,
            until_percent: None,
            control: true,
            window: Span::from_ms(1_000),
            settle: Span::from_ms(100),
            pause_min: None,
        };
        let cost = Cost { us: vec![600.0], own_us: 100.0, busy: 0.9 };
        let rounds = [round(Vec::new()), round(Vec::new())];
        let said = row("x", 0, &rounds, &cost, &options);
        assert!((said.delivered_percent - 40.0).abs() < 1e-9);
        assert!(said.doubts.iter().any(|doubt| doubt.contains("got 40 %")), "{said:?}");
        let fine = row("x", 0, &rounds, &cost, &Options { faster: 0.4, ..options });
        assert_eq!(fine.doubts, Vec::<String>::new());
    }

    #[test]
    fn every_doubt_has_words() {
        for bit in 0..6 {
            assert_eq!(words(1 << bit).len(), 1, "bit {bit}");
        }
    }
}
