//! Does latency, or a backlog, grow from the first half of the measured time to the second one?
//!
//! For whatever comes at a rate: clients that wait for their answers let no queue grow without end.

use cavy_lab::statistics::growth::{Rule, Trend, trend};
use cavy_report::number::significant;
use cavy_study::outcome::Standing;

/// The later half over the earlier one up to which a system keeps up: a backlog [homa 5.4], and
/// latency as well.
const SETTLED_RATIO: f64 = 1.2;
/// From which on it does not, after a warm-up of at most a quarter of the measured time. What grows
/// evenly from nothing is then twice as large in the second half (latency after a warm-up of a
/// seventh of the run 2.2 times, without one 3 times). Where a queue wanders, exactly at
/// saturation, latency is 1.5 and 1.8 times as long; a backlog that wanders or still fills grows by
/// 1.41. How often this rule errs is measured (decision 25).
const ENDLESS_RATIO: f64 = 1.7;
/// Growth of latency, as a share of half the time, that is none: an overload by so much makes it.
const GROWTH_SHARE: f64 = 0.005;

/// Sums of latencies in the two halves of the measured time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Halves {
    sum_ns: [f64; 2],
    count: [u64; 2],
}

impl Halves {
    /// One unit of work that came in half 0 or 1.
    pub fn add(&mut self, half: usize, latency_ns: u64) {
        self.sum_ns[half] += latency_ns as f64;
        self.count[half] += 1;
    }

    fn mean_ms(&self, half: usize) -> f64 {
        self.sum_ns[half] / 1e6 / self.count[half].max(1) as f64
    }
}

/// The standing by the latency of some replications, each of which was measured for `measured_ms`
/// after `warmup_ms`, and why it is not stable. `longer` says what a run so many times as long is
/// written as.
pub fn judge<'a>(
    runs: impl Iterator<Item = &'a Halves> + Clone,
    (warmup_ms, measured_ms): (f64, f64),
    longer: impl Fn(f64) -> String,
) -> (Standing, String) {
    let half = |half: usize| runs.clone().map(|run| run.mean_ms(half)).collect::<Vec<_>>();
    let latency = Quantity {
        name: "latency",
        unit: "ms",
        floor: GROWTH_SHARE * measured_ms / 2.0,
        warmup_ratio: warmup_ms / measured_ms,
    };
    let cure = |times| format!("which may be chance; {}, about, would tell", longer(times));
    judge_quantity(&latency, &half(0), &half(1), cure)
}

/// What may grow.
pub struct Quantity {
    pub name: &'static str,
    /// Of its values.
    pub unit: &'static str,
    /// Growth that is none.
    pub floor: f64,
    /// The warm-up, as a share of the measured time.
    pub warmup_ratio: f64,
}

/// [`ENDLESS_RATIO`] after a warm-up. The longer it is, the less the halves of what grows evenly
/// differ: by 1.67 where the warm-up is half of the measured time. What wanders grows by the root
/// of that. The limit lies between both, in logarithms always in the same place.
fn endless_ratio(warmup_ratio: f64) -> f64 {
    let even = (warmup_ratio + 0.75) / (warmup_ratio + 0.25);
    ENDLESS_RATIO.min(even.powf(ENDLESS_RATIO.log2()))
}

/// The standing by the means of a quantity in both halves of some replications, and why it is not
/// stable. `cure` says what becomes clear in a run so many times as long.
pub fn judge_quantity(
    quantity: &Quantity,
    first: &[f64],
    second: &[f64],
    cure: impl Fn(f64) -> String,
) -> (Standing, String) {
    let &Quantity { name, unit, floor, warmup_ratio } = quantity;
    let endless_ratio = endless_ratio(warmup_ratio);
    let rule = Rule { settled_ratio: SETTLED_RATIO, endless_ratio, floor, series: 1 };
    let mean = |half: &[f64]| significant(half.iter().sum::<f64>() / half.len().max(1) as f64);
    let grows = |ratio: f64| {
        format!(
            "{name} grows: in the second half of the run it is {ratio:.2} times that of the first \
             half ({} to {} {unit})",
            mean(first),
            mean(second)
        )
    };
    match trend(first, second, rule) {
        Trend::Settled => (Standing::Stable, String::new()),
        Trend::Endless { ratio } => (Standing::Unstable, grows(ratio)),
        Trend::Unclear { ratio, times } => {
            (Standing::TooShort, format!("{}, {}", grows(ratio), cure(times)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a backlog that is `of(t)` at time t has on average in the halves of a run.
    fn judged(warmup: f64, measured: f64, of: impl Fn(f64) -> f64) -> Standing {
        let mean = |half: f64| {
            let steps = (0..1_000).map(|step| (f64::from(step) + 0.5) / 1e3);
            let at = |part: f64| of(warmup + (half + part) * measured / 2.0);
            steps.map(at).sum::<f64>() / 1e3
        };
        let backlog = Quantity {
            name: "the backlog",
            unit: "kB",
            floor: 0.02 * measured,
            warmup_ratio: warmup / measured,
        };
        // Three replications that differ by a hundredth.
        let of = |half: f64| [0.99, 1.0, 1.01].map(|factor| factor * mean(half));
        judge_quantity(&backlog, &of(0.0), &of(1.0), |_| String::new()).0
    }

    #[test]
    fn what_grows_without_end_is_told_from_what_wanders_after_any_warm_up() {
        for warmup in [0.0, 10.0, 25.0, 50.0, 100.0] {
            assert_eq!(judged(warmup, 100.0, |t| t), Standing::Unstable, "{warmup}");
            assert_eq!(judged(warmup, 100.0, |_| 80.0), Standing::Stable, "{warmup}");
            // After a shorter warm-up only chance tells it: no two runs wander alike.
            if warmup >= 25.0 {
                assert_ne!(judged(warmup, 100.0, f64::sqrt), Standing::Unstable, "{warmup}");
            }
        }
    }
}
