//! How exactly this machine stops and continues: the table of [slowpoke 7.2] for itself.
//!
//! A victim spins and writes down every gap in its own time. What was held is what the Governor
//! saw between stop and continue, the gap is what the victim saw.

use crate::freezer::{Freezer, Lead};
use crate::now;
use crate::usage::Meter;
use cavy_clock::{SPIN_SPAN_FIRST, Wait};
use cavy_core::Span;
use cavy_lab::statistics::quantile;
use serde::Serialize;
use std::io::{self, BufRead as _, Write as _};

/// Pauses that are tried, in microseconds.
pub const ASKED_US: [u64; 7] = [100, 250, 500, 1_000, 2_000, 5_000, 10_000];
/// Pauses of each length before those that count: as many as a [`Lead`] needs.
const LEARNED: u32 = 80;
/// Gaps shorter than this are the clock's own.
const GAP_MIN_NS: u64 = 50_000;

/// One row of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What was asked for, microseconds.
    pub asked_us: u64,
    /// Median of what the Governor held, microseconds.
    pub hold_p50_us: f64,
    /// 99th percentile, of 100 pauses: the longest but one.
    pub hold_p99_us: f64,
    /// Median of the gaps that the victim saw, microseconds.
    pub gap_p50_us: f64,
    /// 90th percentile.
    pub gap_p90_us: f64,
}

/// What the victim says when it is asked: one line `gap NS` for each gap, then `cpu NS`.
///
/// # Errors
/// When nobody reads.
pub fn victim() -> io::Result<()> {
    let mut lines = io::stdin().lock().lines();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let spinner = scope.spawn(|| {
            let mut gaps = Vec::with_capacity(1 << 16);
            let mut last = now();
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let at = now();
                if at.since(last).as_ns() >= GAP_MIN_NS && gaps.len() < gaps.capacity() {
                    gaps.push((last, at.since(last)));
                }
                last = at;
            }
            gaps
        });
        // The first line, or the end of the input.
        drop(lines.next());
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let gaps = spinner.join().unwrap_or_default();
        let mut out = io::BufWriter::new(io::stdout().lock());
        for (at, gap) in gaps {
            writeln!(out, "gap {} {}", at.as_ns(), gap.as_ns())?;
        }
        out.flush()
    })
}

/// What was asked for in microseconds, from when, and what was held.
pub type Held = (u64, cavy_core::Instant, Span);

/// Holds the group of `freezer` for each of [`ASKED_US`], `repeats` times each; what was asked,
/// from when, and what was held. On a thread that goes before all ordinary ones, as the Governor's
/// does.
///
/// # Errors
/// When the group cannot be stopped; it goes on.
pub fn hold(freezer: &Freezer, repeats: u32) -> io::Result<Vec<Held>> {
    let measure = || {
        cavy_clock::sharpen_timers();
        cavy_clock::go_first();
        hold_here(freezer, repeats)
    };
    std::thread::scope(|scope| {
        let thread = scope.spawn(measure);
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn hold_here(freezer: &Freezer, repeats: u32) -> io::Result<Vec<Held>> {
    let mut held = Vec::new();
    for asked_us in ASKED_US {
        let mut lead = Lead::default();
        for pause in 0..LEARNED + repeats {
            let from = now();
            let stopped = freezer.set(true);
            let end = lead.before(from + Span::from_us(asked_us));
            let told = Wait::Hybrid.until_with(end, SPIN_SPAN_FIRST);
            freezer.set(false)?;
            let to = now();
            stopped?;
            lead.took(to.since(told));
            if pause >= LEARNED {
                held.push((asked_us, from, to.since(from)));
            }
            Wait::Sleep.until(now() + Span::from_ms(3));
        }
    }
    Ok(held)
}

/// Puts together what was held and which gaps the victim saw, each given by when it began.
pub fn table(held: &[Held], gaps: &[(cavy_core::Instant, Span)]) -> Vec<Row> {
    ASKED_US
        .iter()
        .map(|&asked_us| {
            let of: Vec<_> = held.iter().filter(|(asked, ..)| *asked == asked_us).collect();
            let mut holds: Vec<f64> = of.iter().map(|(_, _, span)| span.as_us()).collect();
            // The gap of a pause begins while it is held: the longest of them.
            let seen = |from: cavy_core::Instant, span: Span| {
                let within = gaps.iter().filter(|(at, gap)| *at < from + span && *at + *gap > from);
                within.map(|(_, gap)| gap.as_us()).fold(0.0, f64::max)
            };
            let mut gaps: Vec<f64> = of.iter().map(|(_, from, span)| seen(*from, *span)).collect();
            holds.sort_by(f64::total_cmp);
            gaps.sort_by(f64::total_cmp);
            let at = |values: &[f64], p| quantile::of_sorted(values, p).unwrap_or(0.0);
            Row {
                asked_us,
                hold_p50_us: at(&holds, 0.5),
                hold_p99_us: at(&holds, 0.99),
                gap_p50_us: at(&gaps, 0.5),
                gap_p90_us: at(&gaps, 0.9),
            }
        })
        .collect()
}

/// Of samples taken each millisecond from a spinning victim: the share that stood still, and the
/// longest step, in microseconds.
///
/// # Errors
/// When CPU time cannot be read.
pub fn steps(meter: &mut Meter, samples: u32) -> io::Result<(f64, f64)> {
    let mut last = meter.read()?;
    let (mut still, mut longest) = (0_u32, 0.0_f64);
    for _ in 0..samples {
        Wait::Sleep.until(now() + Span::from_ms(1));
        let cpu = meter.read()?;
        let step = cpu.saturating_sub(last);
        still += u32::from(step.is_zero());
        longest = longest.max(step.as_us());
        last = cpu;
    }
    Ok((f64::from(still) / f64::from(samples.max(1)), longest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavy_core::Instant;

    #[test]
    fn gaps_are_matched_to_pauses() {
        let at = Instant::from_ns;
        let held =
            [(100, at(1_000_000), Span::from_us(105)), (100, at(5_000_000), Span::from_us(103))];
        let gaps = [(at(1_010_000), Span::from_us(120)), (at(9_000_000), Span::from_us(900))];
        let rows = table(&held, &gaps);
        assert_eq!((rows[0].gap_p50_us, rows[0].gap_p90_us), (0.0, 120.0));
        assert_eq!((rows[0].hold_p50_us, rows[0].hold_p99_us), (103.0, 105.0));
    }
}
