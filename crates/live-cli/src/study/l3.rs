//! L3: an embedded store, bound by processors, on two workers `[persephone 7.7]`. Once where DARC
//! gains, and once where it loses.

use super::tables::{find, samples};
use super::trial::{Trial, heard};
use super::work::{self, StoreCosts, Work};
use super::{Bench, Settings, tables, windows};
use crate::args::{PeerName, StudyName};
use crate::faults::{FAILED, Fault};
use cavy_core::Span;
use cavy_report::model::Figure;
use cavy_trials::{Finding, Part};

/// Length of the runs, and of the quick one.
pub const SECONDS: (f64, f64) = (20.0, 10.0);

/// The same where DARC loses: its requests are longer, and 10 000 are needed to know how late the
/// generator was.
const SECONDS_LIMIT: (f64, f64) = (60.0, 10.0);

/// Workers: the cores that there are, shared with the generator.
const WORKERS: u16 = 2;

/// A mix and a load on the store.
struct Case {
    id: &'static str,
    /// Share of short requests.
    short_share: f64,
    load: f64,
    /// Length of a run, and of a quick one.
    seconds: (f64, f64),
}

fn trial(settings: &Settings, case: &Case, work: &Work, cost: &StoreCosts) -> Result<Trial, Fault> {
    let span = |us: f64| Span::from_ns((us * 1e3) as u64).max(Span::from_ns(1));
    let (short, long) = (span(cost.short_us), span(cost.long_us));
    let mix = settings.mix(&[(case.short_share, short), (1.0 - case.short_share, long)])?;
    let rate_per_s = case.load * mix.peak_rate_per_s(WORKERS.into());
    let duration = settings.duration(case.seconds);
    let warmup = Span::from_ns(duration.as_ns() / 10);
    let types = ["get", "scan"].map(str::to_string).to_vec();
    // The store decides how long a request takes, not the schedule.
    let schedules = settings.schedules(mix, rate_per_s, duration, &types, false)?;
    Ok(Trial {
        id: case.id,
        bench: Bench {
            workers: WORKERS,
            types,
            window: windows(rate_per_s, warmup),
            work: work.clone(),
            split: vec![1, 1],
            driver: cavy_live::pool::Driver::Inline,
        },
        schedules,
        warmup,
        shortest: Some(short),
        // There is no such store for Go.
        peers: settings.pools().into_iter().filter(|&peer| peer != PeerName::Go).collect(),
        lines: false,
        record: true,
        wait: None,
    })
}

/// Runs both cases.
pub fn run(settings: &Settings) -> Result<Part, Fault> {
    let folder = tempfile::tempdir();
    let folder = folder.map_err(|error| {
        Fault::new(format!("cannot make a temporary folder: {error}")).code(FAILED)
    })?;
    let (work, cost) = work::open(folder.path())?;
    let mut part = Part::default();
    // Short and long ones take half of the work each.
    let even = cost.long_us / (cost.short_us + cost.long_us);
    gains(
        settings,
        &work,
        &cost,
        &Case { id: "l3", short_share: even, load: 0.45, seconds: SECONDS },
        &mut part,
    )?;
    loses(
        settings,
        &work,
        &cost,
        &Case { id: "l3_limit", short_share: 0.5, load: 0.7, seconds: SECONDS_LIMIT },
        &mut part,
    )?;
    part.facts.push(("store".to_string(), cost.words(&work)));
    Ok(part)
}

fn gains(
    settings: &Settings,
    work: &Work,
    cost: &StoreCosts,
    case: &Case,
    part: &mut Part,
) -> Result<(), Fault> {
    let trial = trial(settings, case, work, cost)?;
    let rounds = settings.session.run(&trial)?;
    let samples = samples(&trial, &rounds, false);
    part.heard.extend(heard(&rounds));
    let p99 = |peer| find(&samples, peer, 0).and_then(|sample| sample.us(0.99));
    let (ours, theirs) = (p99(PeerName::Darc), p99(PeerName::CFcfs));
    let count = find(&samples, PeerName::Darc, 0).map_or(0, |sample| sample.times.len());
    if trial.peers.contains(&PeerName::Darc) && trial.peers.contains(&PeerName::CFcfs) {
        part.findings.push(Finding::ratio("live.l3.darc_gain", theirs, ours, count));
    }
    let ms = |us: Option<f64>| us.map_or("n/a".to_string(), |us| format!("{:.3} ms", us / 1e3));
    let mut tables = tables::latencies(&trial, &samples);
    tables.push(tables::environment(&rounds));
    part.figures.push(Figure {
        id: "live.l3".to_string(),
        title: "An embedded store on two workers".to_string(),
        shows: format!(
            "{}. {:.2} % of the requests are short, so that both types take half of the work; load \
             45 %, because the generator shares the cores.",
            cost.words(work),
            100.0 * case.short_share
        ),
        claimed: "DARC keeps a worker for short requests (specification 7.7).".to_string(),
        found: format!(
            "Short p99: DARC {}, c-FCFS {}. {}.",
            ms(ours),
            ms(theirs),
            tables::reserved(&rounds, &trial.bench.types)
        ),
        command: settings.command(StudyName::L3),
        panels: tables::curves(&trial, &samples),
        maps: Vec::new(),
        tables,
    });
    Ok(())
}

fn loses(
    settings: &Settings,
    work: &Work,
    cost: &StoreCosts,
    case: &Case,
    part: &mut Part,
) -> Result<(), Fault> {
    let trial = trial(settings, case, work, cost)?;
    let rounds = settings.session.run(&trial)?;
    let samples = samples(&trial, &rounds, false);
    part.heard.extend(heard(&rounds));
    let p50 = |peer| find(&samples, peer, 1).and_then(|sample| sample.us(0.5));
    let (ours, theirs) = (p50(PeerName::Darc), p50(PeerName::CFcfs));
    let count = find(&samples, PeerName::Darc, 1).map_or(0, |sample| sample.times.len());
    if trial.peers.contains(&PeerName::Darc) && trial.peers.contains(&PeerName::CFcfs) {
        let ratio = Finding::ratio("live.l3_limit.darc_loses", ours, theirs, count);
        part.findings.push(ratio.of_median());
    }
    let long = case.load * f64::from(WORKERS) * cost.long_us / (cost.short_us + cost.long_us);
    let ms = |us: Option<f64>| us.map_or("n/a".to_string(), |us| format!("{:.1} ms", us / 1e3));
    let mut tables = tables::latencies(&trial, &samples);
    tables.push(tables::environment(&rounds));
    part.figures.push(Figure {
        id: "live.l3_limit".to_string(),
        title: "Where DARC loses".to_string(),
        shows: format!(
            "The same store and workers; half of the requests are long, load 70 %. Long requests \
             need {long:.2} workers and DARC leaves them one: their queue grows as long as the run \
             lasts."
        ),
        claimed: "With two workers and High Bimodal DARC is unstable above half load \
                  (specification 2.12)."
            .to_string(),
        found: format!(
            "Long p50: DARC {}, c-FCFS {}. {}.",
            ms(ours),
            ms(theirs),
            tables::reserved(&rounds, &trial.bench.types)
        ),
        command: settings.command(StudyName::L3),
        panels: tables::curves(&trial, &samples),
        maps: Vec::new(),
        tables,
    });
    Ok(())
}
