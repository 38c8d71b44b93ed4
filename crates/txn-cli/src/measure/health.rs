//! Whether a machine could keep up with what ran on it.

use crate::config::Config;
use crate::status;
use cavy_core::{Instant, Span};
use cavy_lab::statistics::quantile;
use cavy_testbed::line::{Line, Report};
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;

/// Above this share of all processors latencies tell about waiting for processors.
const BUSY_MAX: f64 = 0.6;
/// A thread that sleeps is late by no more than this at the 99th percentile.
const LATE_MAX_MS: f64 = 1.0;

/// Ticks of all processors since the machine was started.
#[derive(Clone, Copy, Debug, Default)]
struct Ticks {
    all: u64,
    idle: u64,
    stolen: u64,
}

fn ticks(stat: &str) -> Option<Ticks> {
    let line = stat.lines().find(|line| line.starts_with("cpu "))?;
    let all: Vec<u64> = line.split_whitespace().skip(1).flat_map(str::parse).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; what follows is in the first two.
    let [_, _, _, idle, waits, _, _, stolen, ..] = all[..] else { return None };
    Some(Ticks { all: all[..8].iter().sum(), idle: idle + waits, stolen })
}

fn ticks_now() -> Option<Ticks> {
    ticks(&std::fs::read_to_string("/proc/stat").ok()?)
}

/// The view of each region, as one of its nodes says.
fn views(config: &Config) -> Vec<Option<u64>> {
    let layout = config.layout();
    let regions = (0..layout.regions).map(cavy_txn::Region);
    let view = |node: cavy_core::family::Node| {
        let pairs = status::ask(config.node(node.0)?.status?).ok()?;
        pairs.iter().find(|(name, _)| name == "view")?.1.parse().ok()
    };
    regions.map(|region| layout.replicas_in(region).find_map(view)).collect()
}

/// The longest 99th percentile of how late nodes handle what has come.
fn late_nodes_ms(config: &Config) -> f64 {
    let of = |at| {
        let pairs = status::ask(at).ok()?;
        pairs.iter().find(|(name, _)| name == "late_p99_ms")?.1.parse::<f64>().ok()
    };
    let all = config.nodes.iter().filter_map(|node| node.status).filter_map(of);
    all.fold(0.0, f64::max)
}

/// Watches a machine and a cluster for a while.
pub(super) struct Watch {
    ticks: Option<Ticks>,
    views: Vec<Option<u64>>,
    over: Arc<AtomicBool>,
    sleeper: JoinHandle<Vec<u64>>,
}

/// What was seen.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Health {
    /// Share of all processors that was busy, and that others took.
    pub processors_busy: Option<f64>,
    pub processors_stolen: Option<f64>,
    /// How late a thread was that slept for a millisecond at a time.
    pub sleep_late_p50_ms: f64,
    pub sleep_late_p99_ms: f64,
    pub sleep_late_most_ms: f64,
    /// Of the node that was latest, since it was started.
    pub nodes_late_p99_ms: f64,
    /// The view of each region, before and after.
    pub views_before: Vec<Option<u64>>,
    pub views_after: Vec<Option<u64>>,
    /// What became of packets between regions, where a line carried them.
    pub line: Option<Report>,
    /// Why latencies are in doubt.
    pub in_doubt: Vec<String>,
}

impl Watch {
    pub fn begin(config: &Config, line: Option<&Line>) -> Watch {
        if let Some(line) = line {
            // A line that has ended says so in the end.
            let _ = line.forget();
        }
        let over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&over);
        let sleeper = std::thread::spawn(move || {
            let mut late = Vec::new();
            let mut due: Instant = cavy_clock::now();
            while !told.load(Relaxed) {
                due = due.max(cavy_clock::now()) + Span::from_ms(1);
                let woken = cavy_clock::Wait::Sleep.until(due);
                late.push(woken.since(due).as_ns());
            }
            late
        });
        Watch { ticks: ticks_now(), views: views(config), over, sleeper }
    }

    pub fn end(self, config: &Config, line: Option<&Line>) -> Health {
        let after = ticks_now();
        let said = line.map(Line::report);
        self.over.store(true, Relaxed);
        let mut late = self.sleeper.join().unwrap_or_default();
        late.sort_unstable();
        let ms = |p| quantile::of_sorted(&late, p).map_or(0.0, |ns| ns as f64 / 1e6);
        let shares = self.ticks.zip(after).map(|(before, after)| {
            let all = after.all.saturating_sub(before.all).max(1) as f64;
            let idle = after.idle.saturating_sub(before.idle) as f64;
            (1.0 - idle / all, after.stolen.saturating_sub(before.stolen) as f64 / all)
        });
        let views_after = views(config);
        let mut health = Health {
            processors_busy: shares.map(|(busy, _)| busy),
            processors_stolen: shares.map(|(_, stolen)| stolen),
            sleep_late_p50_ms: ms(0.5),
            sleep_late_p99_ms: ms(0.99),
            sleep_late_most_ms: ms(1.0),
            nodes_late_p99_ms: late_nodes_ms(config),
            views_before: self.views,
            views_after,
            line: None,
            in_doubt: Vec::new(),
        };
        health.in_doubt = health.doubts();
        match said {
            Some(Ok(report)) => {
                health.in_doubt.extend(doubt_of(&report));
                health.line = Some(report);
            }
            Some(Err(error)) => health.in_doubt.push(error.to_string()),
            None => {}
        }
        health
    }
}

/// Why a line should not be believed, if so.
fn doubt_of(line: &Report) -> Option<String> {
    let lost = line.all.overflowed + line.refused;
    line.in_doubt().then(|| {
        format!(
            "the line was late by {:.2} ms at p99.9, at most {} ms, and lost {lost} packets",
            line.late.p999_us / 1e3,
            Report::LATE_P999_MAX_US / 1e3
        )
    })
}

impl Health {
    fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        match self.processors_busy {
            Some(busy) if busy > BUSY_MAX => doubts.push(format!(
                "{:.0} % of all processors were busy; at most {:.0} %",
                busy * 100.0,
                BUSY_MAX * 100.0
            )),
            Some(_) => {}
            None => doubts.push("how busy the processors were is not known".into()),
        }
        if self.sleep_late_p99_ms > LATE_MAX_MS {
            doubts.push(format!(
                "a thread that slept was late by {:.2} ms at p99; at most {LATE_MAX_MS} ms",
                self.sleep_late_p99_ms
            ));
        }
        if self.views_before != self.views_after {
            doubts.push(format!(
                "views changed from {:?} to {:?}: nodes failed, or were taken to have failed",
                self.views_before, self.views_after
            ));
        }
        doubts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_read_as_the_kernel_writes_them() {
        let stat = "cpu  10 20 30 400 50 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        let ticks = ticks(stat).unwrap();
        assert_eq!((ticks.all, ticks.idle, ticks.stolen), (531, 450, 8));
        assert!(super::ticks("intr 1\n").is_none() && super::ticks("cpu 1 2\n").is_none());
    }
}
