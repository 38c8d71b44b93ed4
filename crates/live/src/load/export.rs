//! Results in the formats of other tools.

use crate::load::ledger::Times;
use crate::load::report::Report;
use cavy_core::{Instant, Span};
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use std::fmt::Write as _;
use std::time::Duration;

/// Values of the interval log are in nanoseconds; its column of maxima is in milliseconds, as other
/// tools have it.
const NS_PER_MS: f64 = 1e6;

/// The interval log (`.hlog`) that HdrHistogram's tools read: response times in nanoseconds, one
/// line for each interval and type, the type as tag.
///
/// # Errors
/// When a histogram could not be encoded.
pub fn interval_log(report: &Report, interval: Span) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let mut builder = IntervalLogWriterBuilder::new();
    builder.add_comment("cavy load: response times in ns from ");
    builder.add_comment(report.latency_from);
    builder.add_comment(&format!("schedule {}", report.schedule_digest));
    builder.with_max_value_divisor(NS_PER_MS);
    let mut log = builder.begin_log_with(&mut bytes, &mut serializer).map_err(|e| e.to_string())?;
    let length = Duration::from_nanos(interval.as_ns());
    for ((index, kind), times) in &report.intervals {
        let name = report.types.get(usize::from(*kind)).map_or("", |kind| kind.name.as_str());
        let start = length.saturating_mul(*index);
        log.write_histogram(times, start, length, Tag::new(name)).map_err(|e| format!("{e:?}"))?;
    }
    drop(log);
    Ok(bytes)
}

/// The percentile distribution that HdrHistogram's plotter reads, in microseconds.
pub fn percentile_text(times: &Times) -> String {
    let mut out = format!(
        "{:>12} {:>14} {:>10} {:>14}\n\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    );
    let mut count = 0;
    for step in times.iter_quantiles(5) {
        count += step.count_since_last_iteration();
        let ratio = step.quantile_iterated_to();
        let value = step.value_iterated_to() as f64 / 1e3;
        let _ = write!(out, "{value:12.3} {ratio:2.12} {count:10}");
        if ratio < 1.0 {
            let _ = write!(out, " {:14.2}", 1.0 / (1.0 - ratio));
        }
        out.push('\n');
    }
    let _ = writeln!(
        out,
        "#[Mean    = {:12.3}, StdDeviation   = {:12.3}]",
        times.mean() / 1e3,
        times.stdev() / 1e3
    );
    let _ = writeln!(
        out,
        "#[Max     = {:12.3}, Total count    = {:12}]",
        times.max() as f64 / 1e3,
        times.len()
    );
    let _ = writeln!(out, "#[Buckets = {:12}, SubBuckets     = {:12}]", times.buckets(), 2048);
    out
}

/// Every request that was kept, as CSV: times in nanoseconds from the first intended one.
pub fn lines(report: &Report) -> String {
    let start = report.lines.iter().map(|line| line.intended).min().unwrap_or(Instant::ZERO);
    let mut out =
        String::from("index,type,intended_ns,taken_ns,actual_ns,completed_ns,service_ns,outcome\n");
    for line in &report.lines {
        let name = report.types.get(usize::from(line.kind)).map_or("", |kind| kind.name.as_str());
        let at = |time: Instant| time.since(start).as_ns();
        let _ = writeln!(
            out,
            "{},{name},{},{},{},{},{},{:?}",
            line.index,
            at(line.intended),
            at(line.taken),
            at(line.actual),
            at(line.completed),
            line.service.as_ns(),
            line.outcome
        );
    }
    out
}
