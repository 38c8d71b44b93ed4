//! Points whose claims are judged: what their sections say, against closed forms and the whole.

use cavy_lab::statistics::sectioning;
use cavy_study::claim::CONFIDENCE;
use cavy_study::experiment::Experiment;
use cavy_study::plan::read::load;
use cavy_study::plan::{Files, Text};
use cavy_study::point::Manner;
use cavy_study::runner::{Runner, Silent};
use cavy_study::store::Store;
use cavy_study::subject::Subject;
use std::sync::atomic::AtomicBool;

/// Runs a plan as a figure does, or as a user does.
pub fn run<S: Subject>(text: &str, sectioned: bool) -> Experiment<S> {
    let text = Text { text, name: "test", files: &Files::NONE, overrides: &[], quick: false };
    let mut loaded = load(&text).expect("a plan");
    loaded.points.iter_mut().for_each(|point| point.sectioned = sectioned);
    let (store, stop) = (Store::in_memory(), AtomicBool::new(false));
    let manner = Manner::default();
    let runner = Runner { store: &store, progress: &Silent, stop: &stop, manner, version: "test" };
    runner.experiment(&loaded).expect("results")
}

/// One worker: the 99th percentile is 4.605 us / (1 - load), so it is 9.21 us at half load.
const ONE_WORKER: &str = r#"
kind = "server"
title = "t"
workers = 1
queue_limit = 1_000_000
objectives = ["p99_us <= 9.21"]
types = [{ name = "all", share = 1, service = { dist = "exponential", mean_us = 1 } }]
policies = [{ policy = "c_fcfs" }]
[sweep]
load = [0.3, 0.7]
[run]
requests = 30_000
replications = 8
capacity_step = 0.05
"#;

#[test]
fn the_interval_of_a_capacity_holds_the_closed_form() {
    let made: Experiment<cavy_kinds::server::ServerPlan> = run(ONE_WORKER, true);
    assert_eq!(made.sections(), [8]);
    let capacity = made.capacity("base", "c-FCFS", 0).expect("searched");
    let crossing = capacity.crossing.expect("between 0.3 and 0.7");
    let (at, missed) = (capacity.at.expect("met"), capacity.missed_at.expect("missed"));
    assert!(at <= crossing && crossing <= missed, "{at} {crossing} {missed}");
    let each: Vec<f64> = (0..8)
        .filter_map(|index| made.section(0, index).capacity("base", "c-FCFS", 0)?.crossing)
        .collect();
    assert_eq!(each.len(), 8);
    let interval = sectioning::interval(crossing, &each, CONFIDENCE).expect("eight sections");
    assert!(interval.contains(0.5) && interval.half_width() < 0.05, "{interval:?}");
    // A section is one replication, and has the support of all.
    let whole = made.results[0].overall.p99_us.as_ref().expect("samples");
    let first = made.section(0, 0);
    let section = first.results[0].overall.p99_us.as_ref().expect("samples");
    assert_eq!(section.estimate.value, whole.estimate.replications[0]);
    assert_eq!(section.beyond, whole.beyond);
}

#[test]
fn a_users_plan_keeps_no_sections_and_has_the_same_results() {
    let plain: Experiment<cavy_kinds::server::ServerPlan> = run(ONE_WORKER, false);
    let made: Experiment<cavy_kinds::server::ServerPlan> = run(ONE_WORKER, true);
    assert!(plain.sections().is_empty());
    assert_eq!(plain.digest(), made.digest());
    assert_ne!(plain.results[0].key, made.results[0].key, "a store must not mix them up");
    assert_eq!(plain.results[0].overall, made.results[0].overall);
}

#[test]
fn receivers_are_sections_of_one_run() {
    let plan = r#"
kind = "network"
title = "t"
load = 0.6
network = { topology = "star", hosts = 8 }
messages = { workload = "W2", max_bytes = 100_000 }
transports = [{ transport = "homa" }]
[run]
messages = 24_000
replications = 1
"#;
    let made: Experiment<cavy_kinds::network::NetworkPlan> = run(plan, true);
    assert_eq!(made.sections(), [8], "one for each host");
    let whole = &made.results[0];
    let value = |data: &cavy_kinds::network::Carried| {
        data.short.p99_slowdown.as_ref().expect("messages").estimate.value
    };
    let each: Vec<f64> = whole.sections[0].iter().map(value).collect();
    let interval = sectioning::interval(value(whole), &each, CONFIDENCE).expect("eight sections");
    let width = interval.half_width() / interval.estimate;
    assert!(width > 0.001 && width < 0.2, "{interval:?}");
    let (least, most) = each.iter().fold((f64::MAX, 0.0f64), |(a, b), &v| (a.min(v), b.max(v)));
    assert!(least <= interval.estimate * 1.005 && most >= interval.estimate * 0.995, "{each:?}");
    // Goodput is divided as receivers are, and their mean is that of all.
    let goodput: Vec<f64> = whole.sections[0].iter().map(|one| one.goodput_gbps).collect();
    let mean = goodput.iter().sum::<f64>() / 8.0;
    assert!((mean / whole.goodput_gbps - 1.0).abs() < 1e-9, "{goodput:?}");
    assert!(goodput.iter().any(|one| (one / mean - 1.0).abs() > 1e-3), "{goodput:?}");
}

/// Queues by the port to a host, levels and what is sent again by who sends, time by who waits.
#[test]
fn queues_levels_and_time_have_sections() {
    let plan = r#"
kind = "network"
title = "t"
load = 0.7
network = { topology = "star", hosts = 8, loss_ratio = 0.001 }
messages = { workload = "W3", max_bytes = 200_000 }
transports = [{ transport = "homa", learning_ms = 1.0 }, { transport = "oracle" }]
[run]
duration_ms = 30.0
timeline_ms = 10.0
replications = 1
"#;
    let made: Experiment<cavy_kinds::network::NetworkPlan> = run(plan, true);
    assert_eq!(made.sections(), [8], "one for each host");
    let whole = &made.results[0];
    let each = |of: &dyn Fn(&cavy_kinds::network::Carried) -> f64| -> Vec<f64> {
        whole.sections[0].iter().map(of).collect()
    };
    let differ = |all: &[f64]| all.iter().any(|one| (one / all[0] - 1.0).abs() > 1e-3);
    let near = |all: &[f64], whole: f64, what: &str| {
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        assert!((mean / whole - 1.0).abs() < 0.02, "{what}: {mean} for {whole}");
        assert!(differ(all), "{what}: {all:?}");
    };
    let queue = |data: &cavy_kinds::network::Carried| data.port("downlink").expect("ports").clone();
    near(&each(&|data| queue(data).mean_bytes), queue(whole).mean_bytes, "mean over time");
    near(&each(&|data| queue(data).utilization), queue(whole).utilization, "utilization");
    let most = each(&|data| queue(data).max_bytes as f64);
    let greatest = most.iter().copied().fold(0.0, f64::max);
    assert_eq!(greatest, queue(whole).max_bytes as f64, "{most:?}");
    assert!(differ(&most));
    let found = each(&|data| queue(data).found_mean_bytes);
    assert!(differ(&found), "{found:?}");
    // What hosts send adds up to what all send.
    for level in 0..8 {
        let sent: u64 = whole.sections[0].iter().map(|data| data.level_bytes[level]).sum();
        assert_eq!(sent, whole.level_bytes[level], "level {level}");
    }
    let again: u64 = whole.sections[0].iter().map(|data| data.retransmitted_bytes).sum();
    assert_eq!(again, whole.retransmitted_bytes);
    assert!(again > 0 && differ(&each(&|data| data.retransmitted_ratio())));
    near(
        &each(&|data| data.waste_ratio.expect("grants")),
        whole.waste_ratio.expect("grants"),
        "waste",
    );
    let share = |data: &cavy_kinds::network::Carried| {
        let sources = data.tail_sources.as_ref().expect("short messages");
        sources.lag_us / (sources.lag_us + sources.queueing_us)
    };
    assert!(differ(&each(&share)));
    for place in 0..whole.timeline.len() {
        let seen: u64 = whole.sections[0].iter().map(|data| data.timeline[place].messages).sum();
        assert_eq!(seen, whole.timeline[place].messages, "step {place}");
        let changes: u64 = whole.sections[0].iter().map(|data| data.timeline[place].changes).sum();
        assert_eq!(changes, whole.timeline[place].changes, "step {place}");
        let of = |data: &cavy_kinds::network::Carried| data.timeline[place].unscheduled_levels;
        let mean = each(&|data| of(data).expect("Homa")).iter().sum::<f64>() / 8.0;
        assert!((mean - of(whole).expect("Homa")).abs() < 1e-9, "step {place}");
    }
    assert!(differ(&each(&|data| data.timeline[1].p50_slowdown.expect("messages"))));
    // The oracle is told apart as the others are.
    let best = &made.results[1];
    let tails: Vec<f64> = best.sections[0]
        .iter()
        .map(|data| data.short.p99_slowdown.as_ref().expect("messages").estimate.value)
        .collect();
    assert!(differ(&tails), "{tails:?}");
}

/// What each class saw has a spread of its own, by those who wait for its messages.
#[test]
fn classes_of_traffic_have_sections() {
    let plan = r#"
kind = "network"
title = "t"
load = 0.6
network = { topology = "star", hosts = 8 }
transports = [{ transport = "homa" }]
[[classes]]
name = "search"
load_share = 0.2
messages = { sizes = { dist = "constant", bytes = 500 } }
[[classes]]
name = "backup"
load_share = 0.8
messages = { sizes = { dist = "constant", bytes = 2_000 } }
[run]
messages = 40_000
replications = 1
"#;
    let made: Experiment<cavy_kinds::network::NetworkPlan> = run(plan, true);
    assert_eq!(made.sections(), [8], "one for each host");
    let whole = &made.results[0];
    for class in 0..2 {
        let of = |data: &cavy_kinds::network::Carried| {
            let quantile = data.classes[class].summary.p99_slowdown.clone().expect("messages");
            assert!(quantile.supported().is_some(), "as that of all");
            quantile.estimate.value
        };
        let each: Vec<f64> = whole.sections[0].iter().map(of).collect();
        let interval = sectioning::interval(of(whole), &each, CONFIDENCE).expect("eight sections");
        let width = interval.half_width() / interval.estimate;
        assert!(width > 0.001 && width < 0.3, "class {class}: {interval:?} of {each:?}");
        let (least, most) = each.iter().fold((f64::MAX, 0.0f64), |(a, b), &v| (a.min(v), b.max(v)));
        assert!(least <= interval.estimate * 1.005 && most >= interval.estimate * 0.995);
    }
    // All messages are of one of them, so neither can be what all saw.
    let all = whole.overall.p99_slowdown.as_ref().expect("messages").estimate.value;
    assert_ne!(all, whole.classes[0].summary.p99_slowdown.as_ref().expect("some").estimate.value);
}

fn asked(servers: u32, seed: u64) -> Experiment<cavy_kinds::network::NetworkPlan> {
    let plan = format!(
        r#"
kind = "network"
title = "t"
load = 0.857
network = {{ topology = "star", hosts = 16 }}
messages = {{ workload = "W3", max_bytes = 1_000_000 }}
traffic = {{ pattern = "rpc", servers = {servers}, arrivals = "near_periodic" }}
transports = [{{ transport = "basic" }}]
[run]
seed = {seed}
duration_ms = 60.0
warmup_ms = 20.0
replications = 1
"#
    );
    run(&plan, true)
}

/// Under Basic a long question delays those of all askers behind it at who answers: that is noise
/// which sections by asker share. With them alone, intervals at 99 % missed more than half of the
/// time in runs of half a second.
#[test]
fn askers_share_the_noise_of_who_answers() {
    let made: Vec<_> = (1..=12).map(|seed| asked(8, seed)).collect();
    let value = |data: &cavy_kinds::network::Carried| {
        data.short.p99_slowdown.as_ref().expect("messages").estimate.value
    };
    let mean = made.iter().map(|one| value(&one.results[0])).sum::<f64>() / 12.0;
    let (mut by_asker_missed, mut both_missed) = (0, 0);
    for one in &made {
        assert_eq!(one.sections(), [8, 8], "by who asks and by who answers");
        let whole = &one.results[0];
        let ways: Vec<Vec<f64>> =
            whole.sections.iter().map(|way| way.iter().map(value).collect()).collect();
        let ways: Vec<&[f64]> = ways.iter().map(Vec::as_slice).collect();
        let missed = |ways: &[&[f64]]| {
            let found = sectioning::crossed(value(whole), ways, CONFIDENCE).expect("sections");
            usize::from(!found.contains(mean))
        };
        by_asker_missed += missed(&ways[..1]);
        both_missed += missed(&ways);
        // What hosts did is told apart once, and is that of all in the other way.
        assert!(whole.sections[1].iter().all(|one| one.goodput_gbps == whole.goodput_gbps));
    }
    assert!(both_missed <= 1 && by_asker_missed >= 4, "{both_missed}, {by_asker_missed} of 12");
}

/// All askers share the one who answers, so hosts tell nothing apart, and replications have to.
#[test]
fn one_who_answers_leaves_replications() {
    assert!(asked(1, 1).sections().is_empty());
}
