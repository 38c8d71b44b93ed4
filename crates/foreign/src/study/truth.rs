//! What a change truly gained, and how the prediction compares.

use super::{Judged, Point, WARM_UP, over_truth, percent};
use crate::wordpress::Wordpress;
use cavy_core::Span;
use cavy_groups::machine::Weather;
use cavy_groups::pace::Pace;
use cavy_groups::rank::{Bench, Estimate, Observed, Prediction};
use cavy_groups::speed::{Evening, Rates};
use cavy_lab::statistics::Interval;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, Ordering};

/// Windows of truth of one round.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Seen {
    /// Without the change.
    pub without: Vec<Observed>,
    /// With it.
    pub with: Vec<Observed>,
}

impl Seen {
    fn rate(of: &[Observed]) -> f64 {
        of.iter().map(|one| one.per_s).sum::<f64>() / of.len().max(1) as f64
    }

    fn ratio_ln(one: f64, other: f64) -> Option<f64> {
        (one > 0.0 && other > 0.0).then(|| (one / other).ln())
    }

    /// The logarithm of throughput with the change over that without.
    pub(super) fn gain_ln(&self) -> Option<f64> {
        Seen::ratio_ln(Seen::rate(&self.with), Seen::rate(&self.without))
    }

    /// The same as if the machine had been as fast in all windows.
    fn evened_gain_ln(&self, evening: &Evening) -> Option<f64> {
        let even = |of: &[Observed]| {
            let each = of.iter().map(|one| Some(one.per_s / evening.factor(one.rates?)));
            Some(each.collect::<Option<Vec<f64>>>()?.iter().sum::<f64>() / of.len() as f64)
        };
        Seen::ratio_ln(even(&self.with)?, even(&self.without)?)
    }

    /// The logarithm of a speed of the machine with the change over that without.
    fn rates_ln(&self, get: fn(&Rates) -> f64) -> Option<f64> {
        let mean = |of: &[Observed]| {
            let each = of.iter().map(|one| Some(get(one.rates.as_ref()?)));
            Some(each.collect::<Option<Vec<f64>>>()?.iter().sum::<f64>() / of.len() as f64)
        };
        Seen::ratio_ln(mean(&self.with)?, mean(&self.without)?)
    }

    /// The same, if throughput grew as CPU time for a request shrank.
    fn by_cpu_ln(&self) -> Option<f64> {
        let us = |of: &[Observed]| of.iter().map(Observed::all_us_per_request).sum::<f64>();
        Seen::ratio_ln(us(&self.without), us(&self.with))
    }

    fn us(of: &[Observed], service: usize) -> f64 {
        of.iter().map(|one| one.cpu_us_per_request[service]).sum()
    }

    pub(super) fn weather(&self) -> Weather {
        let all: Vec<Weather> =
            self.without.iter().chain(&self.with).map(|one| one.weather).collect();
        Weather::mean(&all)
    }
}

/// All rounds of one point.
pub(super) struct Truth {
    /// Throughput of the baselines beside the pauses, and the windows of truth.
    pub(super) rounds: Vec<(Option<f64>, Seen)>,
    pub(super) digest: String,
    pub(super) left_out: u32,
    pub(super) failed: u64,
}

impl Truth {
    pub(super) fn new(failed: u64) -> Truth {
        Truth { rounds: Vec::new(), digest: String::new(), left_out: 0, failed }
    }

    /// The gain as if the machine had been as fast in all windows, percent.
    pub(super) fn evened(&self, evening: &Evening) -> Option<Estimate> {
        self.estimate(|_, seen| seen.evened_gain_ln(evening))
    }

    fn estimate(&self, of: impl Fn(&Option<f64>, &Seen) -> Option<f64>) -> Option<Estimate> {
        let each: Vec<f64> = self.rounds.iter().filter_map(|(base, seen)| of(base, seen)).collect();
        let interval = Interval::of_mean(&each)?;
        Some(Estimate {
            value: percent(interval.estimate),
            low: percent(interval.low),
            high: percent(interval.high),
        })
    }
}

/// Makes and unmakes the change, and looks on: so many clients, at the pace for so many answers a
/// second. It ends without the change.
pub(super) fn windows(
    measured: &mut Wordpress,
    bench: &mut Bench,
    point: &Point,
    (clients, paced): (u32, &dyn Fn(Option<f64>) -> Pace),
    stop: &AtomicBool,
) -> Result<Seen, String> {
    let mut seen = Seen::default();
    let mut pace = None;
    for with in [false, true, true, false] {
        let wanted = if with { point.after } else { point.before };
        let same = measured.settings() == wanted;
        measured.apply(wanted)?;
        // What was under way is answered, and then some windows of the same kind adjoin.
        let pace = match pace {
            Some(pace) if same => pace,
            _ => *pace.insert(paced(bench.warm_up(Span::ZERO, WARM_UP * clients, stop))),
        };
        let observed = bench.observe(pace.window).map_err(|error| error.to_string())?;
        if with {
            seen.with.push(observed)
        } else {
            seen.without.push(observed)
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    measured.apply(point.before)?;
    Ok(seen)
}

/// Share by which a base may differ from itself, percent, before it is said.
const BASE_MAX: f64 = 3.0;

pub(super) fn judge(
    point: Point,
    service: usize,
    alone_us: [f64; 2],
    prediction: Prediction,
    truth: Truth,
) -> Judged {
    let gain = truth.estimate(|_, seen| seen.gain_ln());
    let by_cpu = truth.estimate(|_, seen| seen.by_cpu_ln());
    let base = truth.estimate(|base, seen| Seen::ratio_ln(Seen::rate(&seen.without), (*base)?));
    let loaded = |with: bool| -> f64 {
        let of = |seen: &Seen| Seen::us(if with { &seen.with } else { &seen.without }, service);
        truth.rounds.iter().map(|(_, seen)| of(seen)).sum()
    };
    let faster_loaded_percent =
        (loaded(false) > 0.0).then(|| (1.0 - loaded(true) / loaded(false)) * 100.0);
    let weather: Vec<Weather> = truth.rounds.iter().map(|(_, seen)| seen.weather()).collect();
    let weather = Weather::mean(&weather);
    // Both are gains over the same system, so errors of throughput are ratios of gains.
    let error = |predicted: Option<f64>| Some(over_truth(predicted?, gain?));
    let mut doubts = Vec::new();
    if let Some(base) = base
        && (base.low > 0.0 || base.high < 0.0)
        && base.value.abs() > BASE_MAX
    {
        doubts.push(format!(
            "the unchanged application got {:+.1} % ({:+.1} to {:+.1}) more requests done beside \
             the change than beside the pauses: something else moved",
            base.value, base.low, base.high
        ));
    }
    if !weather.quiet() {
        doubts.push(format!(
            "the machine was not idle: other programs took {:.0} % of processor time and the \
             hypervisor {:.0} % while the truth was measured",
            weather.others_ratio * 100.0,
            weather.steal_ratio * 100.0
        ));
    }
    if let Some(loaded) = faster_loaded_percent
        && (loaded - prediction.faster_percent).abs() > 3.0
    {
        doubts.push(format!(
            "the change made {} {loaded:.0} % faster under load, and {:.0} % alone, which is what \
             was predicted for",
            point.target.name(),
            prediction.faster_percent
        ));
    }
    let predicted = prediction.row.gain_percent.map(|gain| gain.value);
    let as_loaded = predicted.zip(faster_loaded_percent).map(|(gain, loaded)| {
        let saved = 1.0 - 100.0 / (100.0 + gain);
        (1.0 / (1.0 - saved * loaded / prediction.faster_percent) - 1.0) * 100.0
    });
    let core = truth.estimate(|_, seen| seen.rates_ln(|rates| rates.core));
    let memory = truth.estimate(|_, seen| seen.rates_ln(|rates| rates.memory));
    Judged {
        evened: None,
        error_evened_percent: None,
        rates_percent: core.zip(memory).map(|(core, memory)| [core, memory]),
        error_percent: error(predicted),
        error_as_loaded_percent: error(as_loaded),
        no_change_error_percent: error(Some(0.0)),
        law_error_percent: error(Some(prediction.row.law_percent)),
        point,
        alone_us,
        faster_loaded_percent,
        prediction,
        digest: truth.digest,
        truth_percent: gain,
        truth_by_cpu_percent: by_cpu,
        base_percent: base,
        weather,
        left_out: truth.left_out,
        failed: truth.failed,
        seen: truth.rounds.into_iter().map(|(_, seen)| seen).collect(),
        doubts,
    }
}
