//! How long answers took to make, for whoever watches: from the whole question to the whole answer,
//! without the network and without the disk.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// Ends of buckets, microseconds.
const ENDS_US: [u64; 10] = [50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 100_000, 1_000_000];

/// Times by bucket; the last one has no end.
#[derive(Debug, Default)]
struct Times {
    buckets: [AtomicU64; ENDS_US.len() + 1],
    sum_ns: AtomicU64,
}

/// Times of all questions, by what was asked.
#[derive(Debug, Default)]
pub struct Took {
    nearest: Times,
    rtt: Times,
    other: Times,
}

impl Took {
    /// An answer to this path took so long.
    pub fn add(&self, path: &str, ns: u64) {
        let times = match path {
            "/v1/nearest" => &self.nearest,
            "/v1/rtt" => &self.rtt,
            _ => &self.other,
        };
        let at = ENDS_US.partition_point(|end_us| end_us * 1_000 < ns);
        times.buckets[at].fetch_add(1, Ordering::Relaxed);
        times.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// As Prometheus reads it.
    pub(super) fn write(&self, out: &mut String) {
        const NAME: &str = "cavy_coords_answer_seconds";
        let _ = writeln!(out, "# HELP {NAME} Time to make an answer, by what was asked.");
        let _ = writeln!(out, "# TYPE {NAME} histogram");
        let all = [("nearest", &self.nearest), ("rtt", &self.rtt), ("other", &self.other)];
        for (call, times) in all {
            let ends = ENDS_US.map(|end_us| (end_us as f64 / 1e6).to_string());
            let ends = ends.iter().map(String::as_str).chain(["+Inf"]);
            let mut count = 0;
            for (bucket, end) in times.buckets.iter().zip(ends) {
                count += bucket.load(Ordering::Relaxed);
                let _ = writeln!(out, "{NAME}_bucket{{call=\"{call}\",le=\"{end}\"}} {count}");
            }
            let sum_s = times.sum_ns.load(Ordering::Relaxed) as f64 / 1e9;
            let _ = writeln!(out, "{NAME}_sum{{call=\"{call}\"}} {sum_s}");
            let _ = writeln!(out, "{NAME}_count{{call=\"{call}\"}} {count}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_counts_in_its_bucket_and_in_all_above() {
        let took = Took::default();
        took.add("/v1/rtt", 1_000_000);
        took.add("/v1/rtt", 1_000_001);
        took.add("/v1/rtt", u64::MAX / 4);
        let mut text = String::new();
        took.write(&mut text);
        for line in [
            "cavy_coords_answer_seconds_bucket{call=\"rtt\",le=\"0.0005\"} 0",
            "cavy_coords_answer_seconds_bucket{call=\"rtt\",le=\"0.001\"} 1",
            "cavy_coords_answer_seconds_bucket{call=\"rtt\",le=\"0.0025\"} 2",
            "cavy_coords_answer_seconds_bucket{call=\"rtt\",le=\"1\"} 2",
            "cavy_coords_answer_seconds_bucket{call=\"rtt\",le=\"+Inf\"} 3",
            "cavy_coords_answer_seconds_count{call=\"rtt\"} 3",
            "cavy_coords_answer_seconds_count{call=\"nearest\"} 0",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} is not in\n{text}");
        }
    }
}
