//! Does latency, or a backlog, grow from the first half of the measured time to the second one?
//!
//! For whatever comes at a rate: clients that wait for their answers let no queue grow without end.

use cavy_lab::statistics::growth::{Rule, Trend, trend};
use cavy_report::number::significant;
use cavy_study::outcome::Standing;

/// The later half over the earlier one up to which a system keeps up: a backlog [homa 5.4], and
/// latency as well.
const SETTLED_RATIO: f64 = 1.2;
/// From which on it does not. Latency that grows evenly from nothing is 2.2 times as long in the
/// second half after a warm-up of a seventh of the run, and 3 times without one; a backlog doubles.
/// Where a queue wanders, exactly at saturation, latency is 1.5 and 1.8 times as long; a backlog
/// that wanders or still fills grows by 1.41. How often this rule errs is measured (decision 25).
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

/// The standing by the latency of some replications, each of which was measured for `measured_ms`,
/// and why it is not stable. `longer` says what a run so many times as long is written as.
pub fn judge<'a>(
    runs: impl Iterator<Item = &'a Halves> + Clone,
    measured_ms: f64,
    longer: impl Fn(f64) -> String,
) -> (Standing, String) {
    let half = |half: usize| runs.clone().map(|run| run.mean_ms(half)).collect::<Vec<_>>();
    let latency = Quantity { name: "latency", unit: "ms", floor: GROWTH_SHARE * measured_ms / 2.0 };
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
}

/// The standing by the means of a quantity in both halves of some replications, and why it is not
/// stable. `cure` says what becomes clear in a run so many times as long.
pub fn judge_quantity(
    quantity: &Quantity,
    first: &[f64],
    second: &[f64],
    cure: impl Fn(f64) -> String,
) -> (Standing, String) {
    let &Quantity { name, unit, floor } = quantity;
    let rule =
        Rule { settled_ratio: SETTLED_RATIO, endless_ratio: ENDLESS_RATIO, floor, series: 1 };
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
