//! Plans for regions: every protocol runs what they say.

use cavy_kinds::Latency;
use cavy_kinds::regions::{OfType, ProtocolPlan, Regional, RegionsExperiment, RegionsPlan};
use cavy_study::outcome::{Quantile, Standing};
use cavy_study::plan::Files;
use cavy_study::point::Manner;
use cavy_study::subject::{Subject, Summed};

use crate::sections::run;
use crate::verdict_errs_rarely;

/// One replication of each protocol, twice: everything is answered, and runs repeat.
#[test]
fn every_protocol_runs_tpcc() {
    let protocols = [
        "protocol = \"dast\"",
        "protocol = \"dast\"\nmode = \"artifact\"",
        "protocol = \"dast\"\nmode = \"artifact\"\nlookahead = 1000",
        "protocol = \"dast\"\ncommit_via_steward = false",
        "protocol = \"two_phase\"",
        "protocol = \"janus\"",
        "protocol = \"janus\"\nfake_inquire_ms = 100",
        "protocol = \"tapir\"",
        "protocol = \"tapir\"\nartifact = true",
        "protocol = \"slog\"",
        "protocol = \"slog\"\norderer = \"first_region\"\nartifact = true",
    ];
    let workloads = [
        "name = \"tpcc\"",
        "name = \"payment\"\ncrt_ratio = 0.5",
        "name = \"payment\"\ncrt_ratio = 0.5\nartifact = true",
        "name = \"tpca\"\nskew = 0.9",
    ];
    for workload in workloads {
        for protocol in protocols {
            let own: ProtocolPlan = toml::from_str(protocol).expect(protocol);
            let plan = RegionsPlan {
                workload: toml::from_str(workload).expect(workload),
                ..toml::from_str(&format!(
                    "regions = 3\nshards_per_region = 1\nclients_per_shard = 3\n\
                     [workload]\nname = \"tpcc\"\n[[protocols]]\n{protocol}\n\
                     [run]\nwarmup_ms = 100\nduration_ms = 500\n"
                ))
                .expect("a plan")
            };
            assert_eq!(plan.protocols, [own]);
            let scenario = plan.scenario(&Files::Carried(&[])).expect("a scenario");
            let manner = Manner { twice: true, ..Manner::default() };
            let run = RegionsPlan::replicate(&scenario, 3, 0, &manner).expect(protocol);
            let summed = plan.summarize(&scenario, &[run]);
            assert_eq!(summed.data.unanswered, 0, "{protocol}, {workload}: {}", summed.note);
            assert!(summed.work > 15, "{protocol}, {workload}: {} were asked", summed.work);
        }
    }
}

const TYPES: &str = r#"
regions = 3
shards_per_region = 2
within_ms = 2.5
across_ms = 50
rate_per_s = 600
workload = { name = "types", rows = 1000, skew = 0.5 }
types = [
  { name = "order", share = 0.5, reads = 2, writes = 1 },
  { name = "move", share = 0.3, shards = 2, reads = 1, writes = 1, crt_ratio = 0.5,
    depends = true },
  { name = "look", share = 0.2, shards = 2, reads = 3 },
]
"#;

fn of_types(protocol: &str, run: &str) -> RegionsPlan {
    let text = format!("{TYPES}\n[[protocols]]\n{protocol}\n[run]\n{run}");
    toml::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn summed(plan: &RegionsPlan, seeds: std::ops::Range<u64>) -> Summed<Regional> {
    let scenario = plan.scenario(&Files::Carried(&[])).expect("a scenario");
    let run = |seed| RegionsPlan::replicate(&scenario, seed, 0, &Manner::default()).expect("a run");
    plan.summarize(&scenario, &seeds.map(run).collect::<Vec<_>>())
}

/// A region whose nodes all lose their power comes back where replicas keep logs, and where they do
/// not everything that it had is gone. With logs a transaction waits for disks.
#[test]
fn a_power_cut_is_survived_by_those_who_keep_logs() {
    let plan = |protocol: &str, fault: &str| -> RegionsPlan {
        let text = format!(
            "regions = 3\nshards_per_region = 1\nclients_per_shard = 3\ndisk_sync_ms = 1\n\
             patience_ms = 400\nworkload = {{ name = \"tpcc\" }}\nfaults = [{fault}]\n\
             [[protocols]]\n{protocol}\n[run]\nwarmup_ms = 100\nduration_ms = 2500\n"
        );
        toml::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    };
    let cut = "{ fault = \"power_cut\", region = 1, from_ms = 900, until_ms = 1100 }";
    let (logs, memory) = ("protocol = \"dast\"\ndurable = true", "protocol = \"dast\"");
    for protocol in [logs, "protocol = \"two_phase\"", "protocol = \"slog\""] {
        let found = summed(&plan(protocol, cut), 0..3);
        assert_eq!(found.data.unanswered, 0, "{protocol}: {}", found.note);
    }
    assert!(summed(&plan(memory, cut), 0..3).data.unanswered > 0);
    // A replica stores a transaction before it says that it has it.
    let mean = |own| summed(&plan(own, ""), 0..3).data.irt.mean_ms.map(|mean| mean.value);
    let [with, without] = [logs, memory].map(mean);
    let added = with.zip(without).map(|(with, without)| with - without);
    assert!(added.is_some_and(|ms| (0.2..2.0).contains(&ms)), "{with:?} {without:?}");
}

#[test]
fn faults_that_end_before_they_begin_are_named() {
    for fault in [
        "{ fault = \"power_cut\", region = 0, from_ms = 500, until_ms = 400 }",
        "{ fault = \"crash_steward\", region = 0, from_ms = 500, until_ms = 500 }",
        "{ fault = \"cut_off\", region = 0, from_ms = 500, until_ms = 100 }",
    ] {
        let text = format!(
            "regions = 3\nshards_per_region = 1\nclients_per_shard = 3\nfaults = [{fault}]\n\
             workload = {{ name = \"tpcc\" }}\n[[protocols]]\nprotocol = \"dast\"\n[run]\n\
             duration_ms = 900\nwarmup_ms = 100\n"
        );
        let plan: RegionsPlan = toml::from_str(&text).expect("a plan");
        let error = plan.scenario(&Files::Carried(&[])).map(drop).expect_err(fault).to_string();
        let found = error.contains("`faults.until_ms` is ") && error.contains("after from_ms");
        assert!(found, "{fault}: {error}");
    }
}

/// Each type has its share of what comes at the rate, the same under all protocols, and each is
/// where its kind of transaction is: within a region below a way across, beyond it above one.
#[test]
fn types_of_ones_own_come_at_the_rate_and_are_told_apart() {
    let mut met = Vec::new();
    for protocol in ["dast", "two_phase", "janus", "tapir", "slog"] {
        let own = format!("protocol = \"{protocol}\"");
        let summed = summed(&of_types(&own, "warmup_ms = 0\nduration_ms = 2000"), 0..2);
        assert_eq!(summed.standing, Standing::Stable, "{protocol}: {}", summed.note);
        // 600 a second for 2 x 2 s: five standard deviations of 2,400 are 245.
        assert!(summed.work.abs_diff(2_400) < 245, "{protocol}: {} were asked", summed.work);
        met.push(summed.work);
        let [order, moved, look] = &summed.data.types[..] else { panic!("three types") };
        let count = |own: &OfType| own.irt.samples + own.crt.samples;
        let all: u64 = summed.data.types.iter().map(count).sum();
        assert_eq!(all + summed.data.given_up, summed.work, "{protocol}: each is of one type");
        for (own, share) in [(order, 0.5), (moved, 0.3), (look, 0.2)] {
            let found = count(own) as f64 / all as f64;
            assert!((found - share).abs() < 0.06, "{protocol}: {found} of {share}");
        }
        assert_eq!((order.crt.samples, look.crt.samples), (0, 0));
        let across = moved.crt.samples as f64 / count(moved) as f64;
        assert!((0.4..0.6).contains(&across), "{protocol}: {across} of 0.5");
        let median = |latency: &Latency| latency.percentile(50).map_or(0.0, |p50| p50.value);
        assert!(median(&order.irt) < 50.0, "{protocol}: {} ms", median(&order.irt));
        assert!(median(&moved.crt) > 100.0, "{protocol}: {} ms", median(&moved.crt));
    }
    assert!(met.iter().all(|work| *work == met[0]), "all meet the same ones: {met:?}");
}

/// What comes at a rate above what processors can do is called an overload, and a tenth of it is
/// not: a leader has some ten messages for each transaction of its shard, 300 us each.
#[test]
fn a_rate_above_what_processors_do_is_an_overload() {
    let own = "protocol = \"two_phase\"";
    let base = of_types(own, "warmup_ms = 500\nduration_ms = 4500");
    let at = |rate_per_s: f64| {
        let plan = RegionsPlan {
            rate_per_s: Some(rate_per_s),
            message_us: 300.0,
            patience_ms: 60_000.0,
            ..base.clone()
        };
        summed(&plan, 0..3)
    };
    let (half, over) = (at(300.0), at(3_000.0));
    assert_eq!(half.standing, Standing::Stable, "{}", half.note);
    assert_eq!(over.standing, Standing::Unstable, "{}", over.note);
    let rates = [half.rate_per_s, over.rate_per_s].map(|rate| rate.map(f64::round));
    assert_eq!(rates, [Some(300.0), Some(3_000.0)], "what is offered, not what is answered");
}

/// Few clients have too few samples of a p99 in so short a run, and more have enough: the few say
/// nothing against the many.
#[test]
fn too_few_samples_at_a_low_load_hide_no_capacity() {
    let of = |limit_ms: u32| {
        let text = format!(
            "kind = \"regions\"\ntitle = \"t\"\nregions = 2\nshards_per_region = 1\n\
             objectives = [\"irt_p99_ms <= {limit_ms}\"]\nthink_ms = 5.0\n\
             workload = {{ name = \"tpcc\" }}\n[[protocols]]\nprotocol = \"dast\"\n\
             [sweep]\nclients_per_shard = [5, 40]\n\
             [run]\nwarmup_ms = 500\nduration_ms = 3000\nreplications = 3\n"
        );
        let made: RegionsExperiment = run(&text, false);
        let few = made.results[0].irt.p99_ms.as_ref().and_then(Quantile::supported).cloned();
        assert!(few.is_none(), "5 clients have enough samples: {few:?}");
        let [capacity] = &made.capacities[..] else { panic!("one search") };
        capacity.clone()
    };
    let met = of(100);
    assert_eq!((met.at, met.limit.as_str()), (Some(200.0), "holds up to 200 clients of a shard"));
    assert_eq!(met.crossing, met.at);
    // Nothing is promised where even the many miss it, and nothing denied that was not seen.
    let missed = of(1);
    assert_eq!((missed.at, missed.missed_at), (None, Some(5.0)));
    assert_eq!((missed.limit.as_str(), missed.decided), ("too few samples to judge", false));
}

/// A leader spends 300 us on each of four messages of a transaction, and on its followers' signs of
/// life. So six leaders do about 4,850 transactions a second. `CAVY_SEEDS=200 cargo test -p
/// cavy-kinds-tests error_rates -- --nocapture` measures how often the verdict errs.
#[test]
fn error_rates_of_the_verdict_on_both_sides_of_what_leaders_do() {
    let one = "types = [{ name = \"order\", share = 1, reads = 2, writes = 1 }]";
    let types = &TYPES[TYPES.find("types = [").expect("types")..];
    let text = TYPES.replace(types, one).replace("rows = 1000", "rows = 100_000");
    let text = format!(
        "{text}\n[[protocols]]\nprotocol = \"two_phase\"\n[run]\nwarmup_ms = 500\n\
         duration_ms = 4500"
    );
    let base: RegionsPlan = toml::from_str(&text).expect("a plan");
    for (rate_per_s, stable) in [(4_500.0, true), (4_800.0, true), (5_250.0, false)] {
        let rate = Some(rate_per_s);
        let plan = RegionsPlan {
            rate_per_s: rate,
            message_us: 300.0,
            patience_ms: 60_000.0,
            ..base.clone()
        };
        let what = format!("two-phase locks at {rate_per_s}/s");
        verdict_errs_rarely(&what, 2, stable, |seed| {
            summed(&plan, 3 * seed..3 * seed + 3).standing
        });
    }
}
