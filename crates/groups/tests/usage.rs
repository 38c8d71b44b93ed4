//! CPU time of a control group, held against a process that knows its own.
//!
//! Needs root, cgroup v2 and performance events; where they are missing it says SKIPPED.

use cavy_core::Span;
use cavy_groups::freezer::Mechanism;
use cavy_groups::now;
use cavy_groups::refuse::Mounts;
use cavy_groups::select::Selector;
use cavy_groups::stage::Stage;
use cavy_groups::usage::Meter;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// What is asked for [whatif-live 3].
const RIGHT_US: f64 = 50.0;

fn example(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("a path");
    own.parent().and_then(|deps| deps.parent()).expect("a folder").join("examples").join(name)
}

fn duty(burn_us: u64, rest_us: u64) -> Child {
    let mut command = Command::new(example("duty"));
    command.args([burn_us.to_string(), rest_us.to_string()]);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().expect("cargo builds examples before tests")
}

/// What it had used at `at_ns` by its own log, in microseconds.
fn used_us(log: &[(u64, u64)], at_ns: u64) -> Option<f64> {
    let after = log.partition_point(|(at, _)| *at < at_ns);
    let (before, after) = (log.get(after.checked_sub(1)?)?, log.get(after)?);
    let whole = (after.0 - before.0).max(1) as f64;
    let part = (at_ns - before.0) as f64 / whole;
    Some((before.1 as f64 + (after.1 - before.1) as f64 * part) / 1e3)
}

/// Errors of all samples of 1 ms, in microseconds, smallest first.
fn errors(mechanism: Mechanism, burn_us: u64, rest_us: u64, samples: usize) -> Vec<f64> {
    let mounts = Mounts::find().expect("cgroup v2");
    let mut child = duty(burn_us, rest_us);
    let services = [("duty".to_string(), Selector::Pid(child.id() as i32))];
    let stage = Stage::set(&services, &mounts, mechanism).expect("the stage is set");
    let mut meter = Meter::open(&stage.places()[0].dir).expect("checked before");
    std::thread::sleep(Duration::from_millis(50));
    let mut read = Vec::with_capacity(samples);
    let begun = now();
    for sample in 0..samples {
        cavy_clock::Wait::Sleep.until(begun + Span::from_ms(1) * sample as u64);
        let before = now();
        let cpu = meter.read().expect("it counts");
        let took = now().since(before);
        // One during which this thread was put aside has no time of its own.
        read.push(
            (took < Span::from_us(30)).then_some((before + Span::from_ns(took.as_ns() / 2), cpu)),
        );
    }
    drop(child.stdin.take());
    let out = BufReader::new(child.stdout.take().expect("a pipe"));
    let log: Vec<(u64, u64)> = out
        .lines()
        .filter_map(|line| {
            let line = line.ok()?;
            let (at, used) = line.split_once(' ')?;
            Some((at.parse().ok()?, used.parse().ok()?))
        })
        .collect();
    child.wait().expect("it ends");
    drop(stage);
    let step = |two: &[Option<(cavy_core::Instant, Span)>]| {
        let ((from, before), (to, after)) = (two[0]?, two[1]?);
        let truth = used_us(&log, to.as_ns())? - used_us(&log, from.as_ns())?;
        Some((after.saturating_sub(before).as_us() - truth).abs())
    };
    let mut errors: Vec<f64> = read.windows(2).filter_map(step).collect();
    errors.sort_by(f64::total_cmp);
    errors
}

#[test]
fn cpu_time_is_right_to_50_us_at_samples_of_1_ms() {
    let mounts = Mounts::find();
    let missing = mounts.and_then(|mounts| {
        Meter::open(&mounts.unified).map(|_| ()).map_err(|error| error.to_string())
    });
    if let Err(why) = missing {
        println!("SKIPPED: {why}");
        return;
    }
    for (burn_us, rest_us) in [(300, 700), (900, 100), (5_000, 5_000)] {
        // A machine that is busy for a moment gives few samples.
        let mut tries = (0..5).map(|_| errors(Mechanism::Cgroup, burn_us, rest_us, 800));
        let errors = tries.find(|errors| errors.len() >= 200);
        let errors = errors.expect("200 samples in one of five tries: the machine is too busy");
        let at = |share: f64| errors[((errors.len() - 1) as f64 * share) as usize];
        let (median, p95, p99) = (at(0.5), at(0.95), at(0.99));
        println!(
            "{burn_us} of {} us: {} samples, off by {median:.1} us (median), {p95:.1} (p95), \
             {p99:.1} (p99)",
            burn_us + rest_us,
            errors.len()
        );
        assert!(p95 <= RIGHT_US, "{p95} us");
    }
}
