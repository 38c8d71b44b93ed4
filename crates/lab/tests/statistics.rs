//! Coverage: of two hundred 95 % intervals, 91 to 99 % hold the closed form of M/M/1.
//!
//! The band is what two hundred trials of a true 95 % allow (four standard deviations below, three
//! above). A failure here is a defect of the method and is not mended by moving the band.

use cavy_core::{Purpose, Stream};
use cavy_lab::statistics::{Histogram, Interval, Series, Truncation, batch, quantile, sequential};

/// Mean service time. Long, so that rounding sojourn times to nanoseconds is no part of the error.
const SERVICE_NS: f64 = 1e6;
const SEEDS: u64 = 200;
const REPLICATIONS: u32 = 10;

/// Sojourn times of a single server by Lindley's recursion, starting empty.
fn sojourns(seed: u64, node: u32, load: f64) -> impl Iterator<Item = f64> {
    let mut arrivals = Stream::keyed(seed, node, Purpose::Arrivals);
    let mut services = Stream::keyed(seed, node, Purpose::Services);
    let mut wait = 0.0f64;
    std::iter::repeat_with(move || {
        let sojourn = wait - SERVICE_NS * libm::log(services.unit());
        let gap = -SERVICE_NS / load * libm::log(arrivals.unit());
        wait = (sojourn - gap).max(0.0);
        sojourn
    })
}

/// Closed forms: the sojourn time of M/M/1 is exponential with rate mu - lambda.
fn mean_ns(load: f64) -> f64 {
    SERVICE_NS / (1.0 - load)
}
fn quantile_ns(load: f64, p: f64) -> f64 {
    -libm::log(1.0 - p) * mean_ns(load)
}

fn assert_covers(what: &str, covered: u64, of: u64) {
    let ratio = covered as f64 / of as f64;
    println!("{what}: {covered} of {of} = {ratio:.3}");
    assert!((0.91..=0.99).contains(&ratio), "{what}: covered {covered} of {of} times");
}

fn replications_cover(load: f64, warmup: usize, requests: usize) {
    const PS: [f64; 2] = [0.5, 0.99];
    assert!(PS.iter().all(|&p| quantile::supported(requests as u64, p)));
    let mut mean_covered = 0;
    let mut quantile_covered = [0; PS.len()];
    let (mut one, mut pooled) = (Histogram::new(), Histogram::new());
    for seed in 0..SEEDS {
        pooled.clear();
        let mut means = Vec::new();
        let mut quantiles = PS.map(|_| Vec::new());
        for replication in 0..REPLICATIONS {
            one.clear();
            for sojourn in sojourns(seed, replication, load).skip(warmup).take(requests) {
                one.record(sojourn as u64);
            }
            means.push(one.mean().unwrap());
            for (p, quantiles) in PS.iter().zip(&mut quantiles) {
                quantiles.push(one.quantile(*p).unwrap() as f64);
            }
            pooled.merge(&one);
        }
        mean_covered += u64::from(Interval::of_mean(&means).unwrap().contains(mean_ns(load)));
        for (i, p) in PS.into_iter().enumerate() {
            let center = pooled.quantile(p).unwrap() as f64;
            let interval = quantile::sectioned(&quantiles[i], center).unwrap();
            quantile_covered[i] += u64::from(interval.contains(quantile_ns(load, p)));
        }
    }
    assert_covers(&format!("load {load} mean"), mean_covered, SEEDS);
    for (p, covered) in PS.into_iter().zip(quantile_covered) {
        assert_covers(&format!("load {load} p{}", 100.0 * p), covered, SEEDS);
    }
}

#[test]
fn replications_cover_mm1_at_load_one_half() {
    replications_cover(0.5, 300, 10_000);
}

#[test]
fn replications_cover_mm1_at_load_four_fifths() {
    replications_cover(0.8, 2_000, 20_000);
}

#[test]
fn batch_means_after_mser_cover_mm1() {
    let (load, requests, seeds) = (0.5, 60_000, 3 * SEEDS);
    let (mut given, mut covered) = (0, 0);
    for seed in 0..seeds {
        let mut series = Series::new();
        sojourns(seed, 0, load).take(requests).for_each(|sojourn| series.record(sojourn));
        if let Ok(interval) = batch::interval(&series, series.truncation()) {
            given += 1;
            covered += u64::from(interval.contains(mean_ns(load)));
        }
    }
    assert!(given >= seeds * 99 / 100, "{given} of {seeds} runs were long enough");
    assert_covers("batch means", covered, given);
}

#[test]
fn mser_removes_the_bias_of_a_bad_start() {
    // A server that starts two hundred mean services behind: the plain mean is far too high.
    let load = 0.5;
    let (mut plain, mut cut) = (Vec::new(), Vec::new());
    for seed in 0..50 {
        let mut series = Series::new();
        let mut backlog = 200.0 * SERVICE_NS;
        let mut gaps = Stream::keyed(seed, 1, Purpose::Test);
        for sojourn in sojourns(seed, 0, load).take(20_000) {
            series.record(sojourn + backlog);
            backlog = (backlog + SERVICE_NS * libm::log(gaps.unit())).max(0.0);
        }
        let truncation = series.truncation();
        assert!(!truncation.too_short && truncation.ratio < 0.4, "{truncation:?}");
        plain.push(series.mean_after(Truncation::NONE).unwrap());
        cut.push(series.mean_after(truncation).unwrap());
    }
    let off =
        |values: &[f64]| (Interval::of_mean(values).unwrap().estimate / mean_ns(load) - 1.0).abs();
    assert!(off(&plain) > 0.3 && off(&cut) < 0.03, "{} {}", off(&plain), off(&cut));
}

#[test]
fn replicating_until_precise_covers_too() {
    // Rounds of ten until the mean is known to 4 %: stopping by looking must not cost coverage.
    let (load, requests) = (0.5, 2_000);
    let mut covered = 0;
    for seed in 0..SEEDS {
        let target = sequential::Target { metric: "mean".into(), relative_max: 0.04 };
        let mut precision = sequential::Precision::new(vec![target]);
        let mut means = Vec::new();
        let interval = loop {
            for _ in 0..10 {
                let run = sojourns(seed, means.len() as u32, load).skip(200).take(requests);
                means.push(run.sum::<f64>() / requests as f64);
            }
            let interval = Interval::of_mean(&means);
            if precision.round(&[interval]) {
                break interval.unwrap();
            }
            assert!(precision.rounds() < 100, "does not converge");
        };
        covered += u64::from(interval.contains(mean_ns(load)));
    }
    assert_covers("sequential mean", covered, SEEDS);
}
