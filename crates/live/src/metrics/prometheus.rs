//! [`Stats`] as Prometheus metrics: text for an endpoint, or a collector for a registry that a
//! program has already.

use super::{Stats, TypeStats};
use hdrhistogram::Histogram;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;

/// Upper bounds of the exported buckets, in microseconds: three a decade, 10 us to 100 s.
const BOUNDS_US: [u64; 22] = [
    10,
    20,
    50,
    100,
    200,
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
];

/// OpenMetrics text, which Prometheus reads, of one snapshot. Names begin with `prefix` and an
/// underscore.
pub fn text(stats: Stats, prefix: &str) -> String {
    let mut registry = Registry::with_prefix(prefix);
    registry.register_collector(Box::new(Scrape::new(move || stats.clone())));
    let mut text = String::new();
    // Writing to a string fails only where a metric encodes itself wrongly.
    let written = encode(&mut text, &registry);
    debug_assert!(written.is_ok());
    text
}

/// A collector that takes a snapshot at each scrape; give it `move || pool.stats()`.
pub struct Scrape<F> {
    stats: F,
}

impl<F: Fn() -> Stats> Scrape<F> {
    /// A collector of what `stats` returns.
    pub fn new(stats: F) -> Self {
        Scrape { stats }
    }
}

impl<F> fmt::Debug for Scrape<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scrape")
    }
}

/// A counter of a type: name, help, and where it is in the stats.
type Count = (&'static str, &'static str, fn(&TypeStats) -> u64);
/// A histogram of a type, likewise.
type Times = (&'static str, &'static str, fn(&TypeStats) -> &Histogram<u64>);

const COUNTS: [Count; 7] = [
    ("arrivals", "Requests that came", |of| of.arrivals),
    ("starts", "Requests handed to a worker", |of| of.starts),
    ("stolen", "Requests started on a worker of a longer type", |of| of.stolen),
    ("drops", "Requests the policy had no place for", |of| of.drops),
    ("finished", "Requests that ran to their end", |of| of.finished),
    ("panics", "Jobs that panicked", |of| of.panics),
    ("cancelled", "Requests cancelled while they waited", |of| of.cancelled),
];

const TIMES: [Times; 4] = [
    ("wait", "Submission to start", |of| &of.wait),
    ("service", "Start to end, as the worker saw it", |of| &of.service),
    ("occupancy", "Hand-over to completion, as the dispatcher saw it", |of| &of.occupancy),
    ("latency", "Submission to end", |of| &of.latency),
];

impl<F: Fn() -> Stats + Send + Sync + 'static> Collector for Scrape<F> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let stats = (self.stats)();
        for (name, help, count) in COUNTS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for of in &stats.types {
                let labels = [("type", of.name.as_str())];
                ConstCounter::new(count(of)).encode(family.encode_family(&labels)?)?;
            }
        }
        for (name, help, times) in TIMES {
            let unit = Some(&Unit::Seconds);
            let mut family = encoder.encode_descriptor(name, help, unit, MetricType::Histogram)?;
            for of in &stats.types {
                let (sum_s, count, buckets) = buckets(times(of));
                let labels = [("type", of.name.as_str())];
                let mut one = family.encode_family(&labels)?;
                one.encode_histogram::<NoLabelSet>(sum_s, count, &buckets, None)?;
            }
        }
        let gauges = [
            ("workers", "Workers in force", i64::from(stats.workers)),
            ("waiting", "Requests that wait", stats.waiting as i64),
            ("in_system", "Requests that wait or run", stats.in_system as i64),
        ];
        for (name, help, value) in gauges {
            let family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value).encode(family)?;
        }
        let replaced = encoder.encode_descriptor(
            "workers_replaced",
            "Worker threads that died and were replaced",
            None,
            MetricType::Counter,
        )?;
        ConstCounter::new(stats.workers_replaced).encode(replaced)?;
        reservation(&stats, &mut encoder)
    }
}

/// The table in force: workers of each type's group, and the group's demand.
fn reservation(stats: &Stats, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
    let updates = encoder.encode_descriptor(
        "reservation_version",
        "Reservations applied",
        None,
        MetricType::Gauge,
    )?;
    let version = stats.reservation.as_ref().map_or(0, |reservation| reservation.version);
    ConstGauge::new(i64::from(version)).encode(updates)?;
    let Some(reservation) = &stats.reservation else { return Ok(()) };
    let members = || {
        reservation.table.groups.iter().flat_map(|group| {
            let names = group.members.iter().filter_map(|kind| stats.types.get(kind.0 as usize));
            names.map(move |of| (group, of))
        })
    };
    let mut family = encoder.encode_descriptor(
        "reserved_workers",
        "Workers reserved to the type's group",
        None,
        MetricType::Gauge,
    )?;
    for (group, of) in members() {
        let labels = [("type", of.name.as_str())];
        ConstGauge::new(i64::from(group.own)).encode(family.encode_family(&labels)?)?;
    }
    let mut family = encoder.encode_descriptor(
        "demand_workers",
        "Demand of the type's group, in workers",
        None,
        MetricType::Gauge,
    )?;
    for (group, of) in members() {
        let labels = [("type", of.name.as_str())];
        ConstGauge::new(group.demand).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

/// Sum in seconds, count, and counts per bucket (not cumulated; the encoder does that).
fn buckets(times: &Histogram<u64>) -> (f64, u64, Vec<(f64, u64)>) {
    let mut counts = [0_u64; BOUNDS_US.len() + 1];
    let mut sum_ns = 0.0;
    for value in times.iter_recorded() {
        let (ns, count) = (value.value_iterated_to(), value.count_since_last_iteration());
        let bucket = BOUNDS_US.partition_point(|bound_us| bound_us * 1_000 < ns);
        counts[bucket] += count;
        sum_ns += times.median_equivalent(ns) as f64 * count as f64;
    }
    let bounds_s = BOUNDS_US.iter().map(|&us| us as f64 / 1e6).chain([f64::INFINITY]);
    (sum_ns / 1e9, times.len(), bounds_s.zip(counts).collect())
}
