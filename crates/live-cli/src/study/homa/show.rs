//! Results as tables, plots and findings.

use super::arrivals::Demand;
use super::bridge::{self, ComparedBin};
use super::incast::Point;
use super::lag::Times;
use super::slowdown::Tally;
use super::trial::Round;
use crate::args::HomaPeer;
use cavy_lab::statistics::quantile::{BEYOND_MIN, beyond};
use cavy_report::model::{Axis, Cell, Panel, Point as Dot, Scale, Series, Table};
use cavy_report::number::count;
use cavy_trials::Finding;

/// Samples of the shorter half that a claim about its tail needs.
const CLAIM_SAMPLES: u64 = BEYOND_MIN * 100;

/// All runs of one peer on one demand, and each alone.
pub struct PeerResult {
    /// Who.
    pub peer: HomaPeer,
    /// All repetitions.
    pub all: Tally,
    /// Each.
    pub single: Vec<Tally>,
    /// How many of them are in doubt.
    pub doubted: usize,
}

fn number(value: Option<f64>) -> Cell {
    value.map_or(Cell::Missing("n/a".to_string()), Cell::Number)
}

/// A percentile with its spread over repetitions.
fn cell(result: &PeerResult, of: impl Fn(&Tally) -> Option<f64>) -> Cell {
    let Some(value) = of(&result.all) else { return number(None) };
    match spread(result, of) {
        Some((low, high)) => Cell::Interval { value, low, high },
        None => Cell::Number(value),
    }
}

fn spread(result: &PeerResult, of: impl Fn(&Tally) -> Option<f64>) -> Option<(f64, f64)> {
    let each: Option<Vec<f64>> = result.single.iter().map(of).collect();
    let each = each.filter(|each| each.len() > 1)?;
    Some((each.iter().copied().reduce(f64::min)?, each.iter().copied().reduce(f64::max)?))
}

/// How many of a peer's messages lie beyond the P99 of the shorter half, where they are fewest.
pub fn beyond_short(demand: &Demand, results: &[PeerResult]) -> u64 {
    let of = |result: &PeerResult| beyond(result.all.short(demand, 0.99).1, 0.99);
    results.iter().map(of).min().unwrap_or(0)
}

/// Slowdown of the shorter half, over both denominators.
pub fn short_half(demand: &Demand, results: &[PeerResult]) -> Table {
    let columns = [
        "peer",
        "messages",
        "not answered",
        "short p50",
        "short p99",
        "p50 over own best",
        "p99 over own best",
        "all p50",
        "all p99",
    ];
    let short = demand.short_bytes();
    let row = |result: &PeerResult| {
        let tally = &result.all;
        let own = |ratio| {
            cell(result, |tally| tally.quantile(|bytes| bytes <= short, |time| time.own, ratio).0)
        };
        let all = |ratio| {
            cell(result, |tally| tally.quantile(|_| true, |time| Some(time.slowdown), ratio).0)
        };
        vec![
            Cell::Text(result.peer.label().to_string()),
            Cell::Text(count((tally.times.len() + tally.unanswered.len()) as u64)),
            Cell::Text(count(tally.unanswered.len() as u64)),
            cell(result, |tally| tally.short(demand, 0.5).0),
            cell(result, |tally| tally.short(demand, 0.99).0),
            own(0.5),
            own(0.99),
            all(0.5),
            all(0.99),
        ]
    };
    Table {
        id: format!("short-{}", demand.id()),
        title: format!(
            "{}: slowdown of the shorter half of messages, up to {short} B, over the analytic \
             ideal; {} messages lie beyond the short p99",
            demand.label(),
            beyond_short(demand, results)
        ),
        columns: columns.map(str::to_string).to_vec(),
        rows: results.iter().map(row).collect(),
    }
}

/// P50 and P99 slowdown by size.
pub fn deciles(demand: &Demand, results: &[PeerResult]) -> Table {
    let mut columns = vec!["peer".to_string()];
    columns.extend(demand.bins.ends().iter().map(|bytes| format!("to {bytes}")));
    let text = |value: Option<f64>| match value {
        None => "n/a".to_string(),
        Some(value) if value >= 100.0 => format!("{value:.0}"),
        Some(value) if value >= 10.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.2}"),
    };
    let mark = |(value, samples): (Option<f64>, u64)| {
        let few = value.is_some() && beyond(samples, 0.99) < BEYOND_MIN;
        format!("{}{}", text(value), if few { "*" } else { "" })
    };
    let row = |result: &PeerResult| {
        let mut row = vec![Cell::Text(result.peer.label().to_string())];
        row.extend((0..demand.bins.ends().len()).map(|bin| {
            let at = |ratio| result.all.bin(demand, bin, ratio);
            Cell::Text(format!("{} / {}", text(at(0.5).0), mark(at(0.99))))
        }));
        row
    };
    Table {
        id: format!("deciles-{}", demand.id()),
        title: format!(
            "{}: slowdown by length of message, p50 / p99 (*: fewer than {BEYOND_MIN} messages \
             beyond)",
            demand.label()
        ),
        columns,
        rows: results.iter().map(row).collect(),
    }
}

/// P99 slowdown by size, as a plot.
pub fn panel(demand: &Demand, results: &[PeerResult]) -> Panel {
    let series = |result: &PeerResult| {
        let point = |(bin, &bytes): (usize, &u32)| {
            let spread = spread(result, |tally| tally.bin(demand, bin, 0.99).0);
            let (y, samples) = result.all.bin(demand, bin, 0.99);
            Dot {
                x: bytes.into(),
                y,
                low: spread.map(|(low, _)| low),
                high: spread.map(|(_, high)| high),
                samples,
                stable: true,
            }
        };
        let points = demand.bins.ends().iter().enumerate().map(point).collect();
        Series { label: result.peer.label().to_string(), points }
    };
    let axis = |label: &str, unit: &str| Axis {
        label: label.to_string(),
        unit: unit.to_string(),
        scale: Scale::Log,
        min: None,
        max: None,
    };
    Panel {
        id: demand.id(),
        title: demand.label(),
        x: axis("messages up to", "B"),
        y: axis("p99 slowdown", ""),
        series: results.iter().map(series).collect(),
        rules: Vec::new(),
    }
}

/// The machine, the network and the generator during each run.
pub fn environment(demand: &Demand, rounds: &[&Round]) -> Table {
    let columns = [
        "peer",
        "run",
        "busy (%)",
        "this process, kernel (%)",
        "steal (%)",
        "wait for a core (us)",
        "looked p50, p99 (us)",
        "sent p50, p99 (us)",
        "met p99.9 (us)",
        "late p50 (us)",
        "late p99.9 (us)",
        "dropped: switch, hosts",
        "sent again",
        "doubts",
    ];
    let row = |round: &&Round| {
        let health = &round.health;
        vec![
            Cell::Text(round.peer.label().to_string()),
            Cell::Text((round.repetition + 1).to_string()),
            Cell::Number(100.0 * health.busy_ratio),
            Cell::Text(format!(
                "{:.0}, {:.0}",
                100.0 * health.own_ratio,
                100.0 * health.kernel_ratio
            )),
            Cell::Number(100.0 * health.steal_ratio),
            Cell::Number(health.wait_mean_us),
            times(round.lag.as_ref().map(|lag| &lag.looked)),
            times(round.lag.as_ref().map(|lag| &lag.sent)),
            number(round.weather.met_p999_us),
            Cell::Number(round.lateness.p50_us),
            Cell::Number(round.lateness.p999_us),
            Cell::Text(format!("{}, {}", health.dropped, health.dropped_at_hosts)),
            Cell::Text(health.sent_again.to_string()),
            Cell::Text(round.doubts().join(", ")),
        ]
    };
    Table {
        id: format!("machine-{}", demand.id()),
        title: format!(
            "{}: the machine, the network and the generator during each run",
            demand.label()
        ),
        columns: columns.map(str::to_string).to_vec(),
        rows: rounds.iter().map(row).collect(),
    }
}

/// How late the threads of hosts were.
fn times(times: Option<&Times>) -> Cell {
    let at = |ratio| times.and_then(|times| times.us(ratio));
    match at(0.5).zip(at(0.99)) {
        Some((p50, p99)) => Cell::Text(format!("{p50:.0}, {p99:.0}")),
        None => Cell::Missing("n/a".to_string()),
    }
}

/// Short-half P99 of the best of `rivals` over that of `ours`.
pub fn advantage(
    id: &str,
    demand: &Demand,
    results: &[PeerResult],
    ours: HomaPeer,
    rivals: &dyn Fn(HomaPeer) -> bool,
) -> Option<Finding> {
    let ours = results.iter().find(|result| result.peer == ours)?;
    let all: Vec<&PeerResult> = results.iter().filter(|result| rivals(result.peer)).collect();
    if all.is_empty() {
        return None;
    }
    let p99 = |tally: &Tally| tally.short(demand, 0.99);
    let best = all
        .iter()
        .filter_map(|result| p99(&result.all).0.map(|value| (value, *result)))
        .min_by(|a, b| a.0.total_cmp(&b.0));
    let (own, samples) = p99(&ours.all);
    let mut finding = Finding { samples, ..Finding::nothing(id) };
    let (Some((theirs, rival)), Some(own)) = (best, own) else {
        finding.note = format!("{samples} short messages are too few for their p99.");
        return Some(finding);
    };
    finding.note = format!(
        "{}: {theirs:.2} over {own:.2}, of {} and {samples} short messages in {} runs each, on \
         links of {} Mb/s.",
        rival.peer.label(),
        p99(&rival.all).1,
        ours.single.len(),
        demand.link_bits_per_s / 1_000_000
    );
    if samples < CLAIM_SAMPLES {
        finding.note.push_str(&format!(" A claim needs {CLAIM_SAMPLES}."));
        return Some(finding);
    }
    finding.value = Some(theirs / own);
    let runs = ours.single.len() + rival.single.len();
    finding.doubted_ratio = Some((ours.doubted + rival.doubted) as f64 / runs.max(1) as f64);
    let singles = rival.single.iter().zip(&ours.single);
    let ratios: Option<Vec<f64>> =
        singles.map(|(theirs, ours)| Some(p99(theirs).0? / p99(ours).0?)).collect();
    if let Some(ratios) = ratios.filter(|ratios| ratios.len() > 1) {
        finding.low = ratios.iter().copied().reduce(f64::min);
        finding.high = ratios.iter().copied().reduce(f64::max);
    }
    let short = demand.short_bytes();
    finding.scale_us = ours.all.quantile(|bytes| bytes <= short, |time| Some(time.us), 0.99).0;
    Some(finding)
}

/// The worst share of the line rate over all numbers of questions.
pub fn incast(points: &[Point], peer: HomaPeer) -> Option<Finding> {
    let of = points.iter().filter(|point| point.peer == peer);
    let worst = of.min_by(|a, b| a.goodput_ratio.total_cmp(&b.goodput_ratio))?;
    Some(Finding {
        value: Some(worst.goodput_ratio),
        samples: points.len() as u64,
        note: format!("Least with {} questions at once.", worst.concurrent),
        ..Finding::nothing("live.homa.incast")
    })
}

/// What the lab says of one load beside what was measured of Homa P8.
pub struct Bridged {
    /// Workload and load.
    pub label: String,
    /// Tenths of the messages.
    pub bins: Vec<ComparedBin>,
    /// Runs behind them.
    pub runs: usize,
    /// Those of them that are in doubt.
    pub doubted: usize,
}

/// How far the lab is off at its worst.
pub fn agreement(bridged: &[Bridged]) -> Vec<Finding> {
    let runs: usize = bridged.iter().map(|one| one.runs).sum();
    let doubted: usize = bridged.iter().map(|one| one.doubted).sum();
    let worst = |id: &str, tail: bool, of: fn(&ComparedBin) -> Option<(f64, f64)>| {
        let all = bridged.iter().flat_map(|one| one.bins.iter().map(move |bin| (&one.label, bin)));
        let pairs = all.filter_map(|(label, bin)| Some((label, bin, of(bin)?)));
        let worst =
            pairs.max_by(|a, b| bridge::error(a.2).abs().total_cmp(&bridge::error(b.2).abs()));
        let samples = bridged.iter().flat_map(|one| &one.bins).map(|bin| bin.messages);
        Finding {
            value: worst.map(|(_, _, pair)| bridge::error(pair).abs()),
            samples: samples.sum(),
            note: worst.map_or("No bin has enough messages.".to_string(), |(label, bin, pair)| {
                let ratio = if tail { 0.99 } else { 0.5 };
                format!(
                    "Worst: {label}, up to {} B: measured {:.0} us, {} messages beyond it, \
                     predicted {:.0} us.",
                    bin.up_to_bytes,
                    pair.0,
                    beyond(bin.messages, ratio),
                    pair.1
                )
            }),
            scale_us: worst.map(|(_, _, pair)| pair.0),
            tail,
            doubted_ratio: Some(doubted as f64 / runs.max(1) as f64),
            ..Finding::nothing(id)
        }
    };
    vec![
        worst("live.homa.bridge_p50", false, |bin| bin.p50),
        worst("live.homa.bridge_p99", true, |bin| bin.p99),
    ]
}
