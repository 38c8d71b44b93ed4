//! Server plans, run: what is said of runs that cannot say what they were made for.

use cavy_kinds::server::{ServerExperiment, ServerPlan, ServerResult};
use cavy_lab::theory;
use cavy_report::model::Cell;
use cavy_report::number::count;
use cavy_study::cost::Cost;
use cavy_study::draw;
use cavy_study::outcome::{Quantile, Standing};
use cavy_study::plan::read::load;
use cavy_study::plan::{Files, Text};
use cavy_study::point::Manner;
use cavy_study::rank::{Comparison, rankings};
use cavy_study::runner::{Runner, Silent};
use cavy_study::store::Store;
use std::sync::atomic::AtomicBool;

use crate::verdict_errs_rarely;

fn run(text: &str) -> ServerExperiment {
    let text = Text { text, name: "test", files: &Files::NONE, overrides: &[], quick: false };
    let loaded = load(&text).expect("a plan");
    let (store, stop) = (Store::in_memory(), AtomicBool::new(false));
    let manner = Manner::default();
    let runner = Runner { store: &store, progress: &Silent, stop: &stop, manner, version: "test" };
    runner.experiment(&loaded).expect("results")
}

const HIGH_BIMODAL: &str = "types = [{ name = \"short\", share = 0.5, service = { dist = \
                            \"constant\", us = 1 } }, { name = \"long\", share = 0.5, service = \
                            { dist = \"constant\", us = 100 } }]";
const EXTREME_BIMODAL: &str = "types = [{ name = \"short\", share = 0.995, service = { dist = \
                               \"constant\", us = 0.5 } }, { name = \"long\", share = 0.005, \
                               service = { dist = \"constant\", us = 500 } }]";
const EXPONENTIAL: &str = "types = [{ name = \"all\", share = 1, service = { dist = \
                           \"exponential\", mean_us = 1 } }]";

fn cost(text: &str) -> Cost {
    let text = Text { text, name: "test", files: &Files::NONE, overrides: &[], quick: false };
    let loaded = load::<ServerPlan>(&text).expect("a plan");
    let mut cost = Cost::default();
    cost.add(&loaded, &Store::in_memory());
    cost
}

/// A plan of some types on `workers`, with queues that hold everything.
fn plan(workers: u16, types: &str, rest: &str) -> String {
    format!(
        "kind = \"server\"\ntitle = \"t\"\nworkers = {workers}\nqueue_limit = \
         1_000_000_000\n{types}\n{rest}"
    )
}

fn only(made: &ServerExperiment) -> &ServerResult {
    assert_eq!(made.results.len(), 1);
    &made.results[0]
}

/// M/M/7, one point.
fn mm7(load: f64, requests: u64, replications: u32, seed: u64) -> ServerExperiment {
    run(&plan(
        7,
        EXPONENTIAL,
        &format!(
            "load = {load}\npolicies = [{{ policy = \"c_fcfs\" }}]\n[run]\nseed = {seed}\nrequests \
             = {requests}\nreplications = {replications}"
        ),
    ))
}

#[test]
fn a_policy_that_never_learned_is_named_and_not_ranked() {
    let made = run(&plan(
        14,
        HIGH_BIMODAL,
        "objectives = [\"p99_slowdown <= 20\"]\npolicies = [{ policy = \"c_fcfs\" }, { policy = \
         \"darc\", window = 50_000 }, { policy = \"darc\", window = 1_000, label = \"small\" }, { \
         policy = \"darc\", hinted = true, label = \"hinted\" }]\n[sweep]\nload = [0.3, \
         0.6]\n[run]\nrequests = 20_000\nreplications = 3\ncapacity_step = 0.2",
    ));
    let of = |label: &str| made.at("base", label, 0.6).expect("a point");
    let why = of("DARC").unformed.as_deref().expect("50 000 of 20 000 is nothing");
    let said = [50_000, 20_000].map(count).iter().all(|number| why.contains(number));
    assert!(said && why.contains("c-FCFS"), "{why}");
    for label in ["c-FCFS", "small", "hinted"] {
        assert_eq!(of(label).unformed, None, "{label}");
    }
    // It was c-FCFS, request by request.
    assert_eq!(of("DARC").overall.p99_us, of("c-FCFS").overall.p99_us);
    let ranking = &rankings(&made)[0];
    let last = ranking.rows.last().expect("rows");
    assert_eq!((last.label.as_str(), last.at, last.gain_ratio), ("DARC", None, None));
    assert!(last.effects.is_empty() && last.unformed.is_some() && last.limit.starts_with("not"));
    assert!(ranking.rows[..3].iter().all(|row| row.unformed.is_none()));
    let figures = draw::figures(&made, "test");
    assert!(figures[0].found.contains("DARC is not ranked"), "{}", figures[0].found);
}

#[test]
fn what_a_policy_needs_to_learn_is_warm_up() {
    let made = run(&plan(
        14,
        HIGH_BIMODAL,
        "load = 0.5\npolicies = [{ policy = \"darc\", window = 5_000 }, { policy = \"darc\", \
        window \
         = 7_000, label = \"late\" }]\n[run]\nrequests = 12_000\nreplications = 2",
    ));
    let of = |label: &str| made.at("base", label, 0.5).expect("a point");
    // Five tenths of twice 12,000.
    assert_eq!((of("DARC").overall.samples, &of("DARC").unformed), (12_000, &None));
    let why = of("late").unformed.as_deref().expect("more than half of the run");
    assert!(why.contains("after 58 %"), "{why}");
}

#[test]
fn more_than_all_workers_can_do_is_known_by_arithmetic() {
    // The issue's: p99.9 was printed at 1.02, and at 1.00 nearly always. No length is too short.
    for (load, requests, seed) in [(1.02, 20_000, 34), (1.0, 20_000, 1), (1.0, 1_000, 2)] {
        let made = mm7(load, requests, 3, seed);
        let point = only(&made);
        assert_eq!(point.standing, Standing::Unstable, "{load} {requests}");
        assert!(point.note.contains(&format!("arrives is {load} of")), "{}", point.note);
    }
    // What a request costs counts, and what the dispatcher does is serial.
    for (cost, word) in [("per_request_us = 0.12", "workers"), ("dispatch_us = 0.17", "dispatcher")]
    {
        let made = run(&plan(
            7,
            EXPONENTIAL,
            &format!(
                "load = 0.9\npolicies = [{{ policy = \"c_fcfs\", {cost} }}]\nrun.requests = 5000"
            ),
        ));
        let point = only(&made);
        let said = point.note.contains(word) && point.standing == Standing::Unstable;
        assert!(said, "{cost}: {}", point.note);
    }
}

#[test]
fn persephone_2_12_the_limit_of_a_reservation_is_arithmetic() {
    // 13 of 14 workers for long requests carry 13 / 13.861 = 0.9379.
    let of = |load: f64, policy: &str| {
        let rest = format!(
            "load = {load}\npolicies = [{policy}]\n[run]\nrequests = 30_000\nreplications = 3"
        );
        let made = run(&plan(14, HIGH_BIMODAL, &rest));
        (only(&made).standing, only(&made).note.clone())
    };
    for policy in [
        "{ policy = \"darc\", hinted = true }",
        "{ policy = \"darc\", window = 2_000 }",
        "{ policy = \"darc_static\", reserved = 1 }",
    ] {
        let (standing, note) = of(0.945, policy);
        assert_eq!(standing, Standing::Unstable, "{policy}");
        assert!(note.contains("long keeps 13.1 workers busy and may use 13"), "{note}");
        let (standing, note) = of(0.9, policy);
        assert!(standing != Standing::Unstable, "{policy}: {note}");
    }
    // Central queues have no such limit.
    assert!(of(0.945, "{ policy = \"c_fcfs\" }").0 != Standing::Unstable);
}

#[test]
fn overload_that_arithmetic_does_not_know_is_found_by_its_growth() {
    // Each preemption costs 1 us of worker time, and long requests are preempted nine times.
    let made = run(&plan(
        4,
        HIGH_BIMODAL,
        "load = 0.97\npolicies = [{ policy = \"time_sharing\", slice_us = 10, preemption_us = 1 \
         }]\n[run]\nrequests = 100_000\nreplications = 3",
    ));
    let point = only(&made);
    assert_eq!(point.standing, Standing::Unstable, "{}", point.note);
    assert!(
        point.note.contains("still grows: in the last third of the run it is 1."),
        "{}",
        point.note
    );
}

#[test]
fn too_short_says_so_and_how_long_would_do() {
    // One replication at 0.99 of 4,000 requests: a tenth of what M/M/7 needs to forget.
    let shorts: Vec<ServerExperiment> = (0..24).map(|seed| mm7(0.99, 4_000, 3, seed)).collect();
    let notes: Vec<&str> = shorts
        .iter()
        .map(only)
        .filter(|point| point.standing == Standing::TooShort)
        .map(|point| point.note.as_str())
        .collect();
    assert!(notes.len() >= 4, "{notes:?}");
    assert!(notes.iter().all(|note| note.contains("requests (run.requests) would tell")));
    // And nothing is called unstable that is not.
    assert!(shorts.iter().all(|made| only(made).standing != Standing::Unstable));
}

/// How often the verdict on a point errs.
fn error_rates(what: &str, types: &str, workers: u16, load: f64, policy: &str, stable: bool) {
    verdict_errs_rarely(what, 4, stable, |seed| {
        let rest = format!(
            "load = {load}\npolicies = [{policy}]\n[run]\nseed = {seed}\nrequests = \
             200_000\nreplications = 3"
        );
        only(&run(&plan(workers, types, &rest))).standing
    });
}

#[test]
fn error_rates_of_the_verdict_on_stable_queues() {
    let fcfs = "{ policy = \"c_fcfs\" }";
    for (what, types, workers, load) in [
        ("M/M/7 at .9", EXPONENTIAL, 7, 0.9),
        ("M/M/7 at .98", EXPONENTIAL, 7, 0.98),
        ("Extreme Bimodal at .95", EXTREME_BIMODAL, 14, 0.95),
    ] {
        error_rates(what, types, workers, load, fcfs, true);
    }
}

/// Long requests are preempted nine times: 55 for 50.5 us, so that 0.97 is more than can be done.
/// Arithmetic does not know that.
#[test]
fn error_rates_of_the_verdict_on_slices_on_both_sides_of_their_limit() {
    let sliced = "{ policy = \"time_sharing\", slice_us = 10, preemption_us = 1 }";
    for (what, load, stable) in
        [("sliced High Bimodal at .9", 0.9, true), ("sliced High Bimodal at .97", 0.97, false)]
    {
        error_rates(what, HIGH_BIMODAL, 4, load, sliced, stable);
    }
}

#[test]
fn the_estimate_covers_the_replications_that_a_precision_asks_for() {
    let of = |precision: &str| {
        plan(
            7,
            EXPONENTIAL,
            &format!(
                "load = 0.8\nobjectives = [\"p99_us <= 8\"]\npolicies = [{{ policy = \"c_fcfs\" \
                 }}]\n[run]\nrequests = 2_000\nreplications = 4\nrequests_max = \
                 80_000\ncapacity_step = 0.2\n{precision}"
            ),
        )
    };
    let (plain, precise) = (cost(&of("")), cost(&of("precision_ratio = 0.02")));
    assert_eq!(plain.left_core_s_max(), plain.left_core_s());
    // Ten times the 8,000 requests of four replications, of searched points as well.
    let times = precise.left_core_s_max() / plain.left_core_s();
    assert!((times - 10.0).abs() < 1e-6, "{times}");
    assert!(precise.searched > 0 && precise.searched_most_core_s > 9.0 * plain.searched_core_s);
    let made = run(&of("precision_ratio = 0.02"));
    let work = only(&made).work;
    assert!((16_000..=80_000).contains(&work), "{work}");
}

/// Requests of a run: four replications of 4,000, of which 144 lie beyond a p99. With half as many
/// there is none, and nothing to search by.
const EACH: u64 = 16_000;

/// Requests that a run simulates beyond the points of its plan, and the runs and requests that the
/// estimate has for them.
fn searched(text: &str) -> (u64, usize, f64) {
    let (estimate, made) = (cost(text), run(text));
    let points: u64 = made.results.iter().map(|result| result.work).sum();
    let of_points = made.results.len() as f64 * EACH as f64;
    let estimated: f64 = estimate.work.iter().map(|(_, work)| work).sum::<f64>() - of_points;
    (made.work() - points, estimate.searched, estimated)
}

/// The estimate is two runs above what is done at most: the plan's own load is one end of what is
/// searched, so that this end is not tried again, and halves lie on a grid of the step, so that the
/// last one may be no more than a step.
#[test]
fn a_search_simulates_what_was_estimated() {
    let of = |rest: &str| {
        plan(
            7,
            EXPONENTIAL,
            &format!(
                "load = 0.05\nobjectives = [\"p99_us <= 8\"]\npolicies = [{{ policy = \
                 \"c_fcfs\" }}]\n[run]\nrequests = 4_000\nreplications = 4\ncapacity_step = \
                 0.05\n{rest}"
            ),
        )
    };
    let (done, runs, estimated) = searched(&of(""));
    assert_eq!(estimated, (runs as u64 * EACH) as f64);
    assert!(done < estimated as u64, "the estimate is not below what is done: {done}");
    assert!(done + 2 * EACH >= estimated as u64, "{done} of {estimated}");
    // With a precision each run has as many requests as it may, and a round of four replications
    // at most beyond those of the plan without.
    let (done, runs, _) = searched(&of("requests_max = 160_000\nprecision_ratio = 0.02"));
    assert!((EACH * (runs as u64 - 2)..=10 * EACH * runs as u64).contains(&done), "{done}");
    assert!(done > 2 * EACH * (runs as u64 - 2), "more than the replications of the plan: {done}");
}

/// Two objectives of two policies over a swept load: searches share runs, and each counts once.
/// Swept loads bracket a capacity, so no end is tried, but where a policy holds at all of them.
#[test]
fn searches_that_share_runs_simulate_no_more_than_was_estimated() {
    let text = plan(
        7,
        EXPONENTIAL,
        "objectives = [\"p99_us <= 8\", \"p50_us <= 2\"]\npolicies = [{ policy = \"c_fcfs\" }, { \
         policy = \"d_fcfs\" }]\n[sweep]\nload = [0.2, 0.5, 0.8, 0.95]\n[run]\nrequests = \
         4_000\nreplications = 4\ncapacity_step = 0.05",
    );
    let (done, runs, estimated) = searched(&text);
    assert_eq!(estimated, (runs as u64 * EACH) as f64);
    assert!(done <= estimated as u64, "{done} of {estimated}");
    // Of four searches each halves its bracket once at least.
    assert!(done >= 3 * EACH, "{done}");
    let apart: u64 = run(&text).capacities.iter().map(|capacity| capacity.work).sum();
    assert!(done <= apart, "{done} of {apart}");
}

/// Three policies under a sweep, of which slices with dear preemptions give way first; the third
/// type is rare.
fn compared() -> ServerExperiment {
    let kind = |name: &str, share: f64, us: f64| {
        format!(
            "{{ name = \"{name}\", share = {share}, \
             service = {{ dist = \"constant\", us = {us} }} }}"
        )
    };
    let types = [kind("short", 0.5, 1.0), kind("long", 0.499, 100.0), kind("rare", 0.001, 10.0)];
    let types = format!("types = [{}]", types.join(", "));
    run(&plan(
        4,
        &types,
        "policies = [{ policy = \"c_fcfs\" }, { policy = \"fixed_priority\" }, { policy = \
         \"time_sharing\", slice_us = 5, preemption_us = 2 }]\n[sweep]\nload = [0.4, 0.6, \
         0.85]\n[run]\nrequests = 20_000\nreplications = 4",
    ))
}

/// Issue 14, B3: types that are unclear or too few stand beside those that are better and worse.
#[test]
fn costs_whom_names_every_type_better_worse_unclear_or_too_few() {
    let made = compared();
    let ranking = &rankings(&made)[0];
    let changes: Vec<Comparison> = ranking
        .rows
        .iter()
        .filter(|row| row.label != ranking.baseline)
        .flat_map(|row| {
            let named: Vec<&str> = row.effects.iter().map(|one| one.whose.as_str()).collect();
            assert_eq!(named, ["short", "long", "rare"], "{}", row.label);
            let words: Vec<String> = row.effects.iter().map(|one| one.words()).collect();
            assert!(words[2].contains("too few"), "{words:?}");
            row.effects.iter().map(|one| one.change)
        })
        .collect();
    assert!(
        changes.contains(&Comparison::TooFew) && changes.contains(&Comparison::Better),
        "{changes:?}"
    );
    // What the page says is made of them.
    let table = &draw::rankings(&made)[0];
    let costs = format!("{:?}", table.rows);
    for whose in ["short p99", "long p99", "rare too few"] {
        assert!(costs.contains(whose), "{whose}: {costs}");
    }
}

/// Issue 14, B6: all rows are compared at the last load that all sustain.
#[test]
fn a_ranking_compares_all_at_one_load_that_all_sustain() {
    let made = compared();
    let sliced = made.labels("base")[2].to_string();
    let standing = |load: f64| made.at("base", &sliced, load).expect("a point").standing;
    assert_eq!([standing(0.6), standing(0.85)], [Standing::Stable, Standing::Unstable]);
    let ranking = &rankings(&made)[0];
    assert_eq!(ranking.compared_at, Some(0.6));
    for row in &ranking.rows {
        assert_eq!(row.compared_at, Some(0.6), "{}", row.label);
        let there = made.at("base", &row.label, 0.6).expect("a point");
        assert_eq!(row.marks[0], there.slowdown().map(|estimate| estimate.value), "{}", row.label);
    }
}

/// Issue 14, E4: where few bursts decide a percentile, its interval says so wherever it is printed.
#[test]
fn intervals_of_few_bursts_are_named_in_tables_remarks_and_json() {
    // The run of docs/concepts/how-sure.md: 11 bursts for the p99.9 at 0.9, 111 for the p99.
    let near = mm7(0.9, 400_000, 10, 1);
    let p999 = only(&near).overall.p999_us.as_ref().expect("samples");
    let p99 = only(&near).overall.p99_us.as_ref().expect("samples");
    let bursts = |quantile: &Quantile| quantile.bursts.expect("one queue, one load");
    assert!((bursts(p999) - 11.1).abs() < 0.2 && (bursts(p99) - 111.0).abs() < 2.0);
    assert!(p999.few_bursts().is_some() && p99.few_bursts().is_none());
    let figure = &draw::figures(&near, "test")[0];
    // 1.1 bursts for the p99.99, so that 27 times the requests have thirty.
    for said in [
        "At 1 of 1 points some percentile rests on few bursts of requests: the p99.99",
        "at load 0.9 rests on about one burst, and its 95 % interval needs 30.",
        "With run.requests = 11\u{a0}000\u{a0}000 all have enough.",
    ] {
        assert!(figure.found.contains(said), "{}", figure.found);
    }
    let named = [("base-types", "p99.9 (11), p99.99 (1)"), ("points", "p99.9 (11)")];
    for (id, expected) in named {
        let table = figure.tables.iter().find(|table| table.id == id).expect("a table");
        let column = table.columns.iter().position(|head| head.starts_with("intervals too narrow"));
        let cell = &table.rows[0][column.expect("a column that names them")];
        assert!(matches!(cell, Cell::Text(text) if text == expected), "{id}: {cell:?}");
    }
    let json = serde_json::to_value(only(&near)).expect("a result");
    assert!(json["overall"]["p999_us"]["bursts"].as_f64().is_some_and(|bursts| bursts < 30.0));
    // Away from saturation nothing is said.
    let far = mm7(0.5, 400_000, 10, 1);
    let figure = &draw::figures(&far, "test")[0];
    assert!(!figure.found.contains("bursts"), "{}", figure.found);
    let heads = figure.tables.iter().flat_map(|table| &table.columns);
    assert!(heads.into_iter().all(|head| !head.contains("narrow")));
}

#[test]
fn means_have_intervals_by_type_and_over_all_and_so_has_waiting() {
    let made = mm7(0.8, 100_000, 10, 3);
    let point = only(&made);
    // Mean wait by Erlang's formula, in service times of a microsecond.
    let wait = theory::erlang_c(7, 0.8 * 7.0) / (7.0 - 0.8 * 7.0);
    for summary in [&point.overall, &point.types[0].summary] {
        let (mean, waited) = (summary.mean_us.as_ref(), summary.mean_wait_us.as_ref());
        let (mean, waited) = (mean.expect("samples"), waited.expect("samples"));
        assert!(mean.low < 1.0 + wait && 1.0 + wait < mean.high, "{mean:?}");
        assert!(waited.low < wait && wait < waited.high, "{waited:?}, not {wait}");
        assert!((mean.value - waited.value - 1.0).abs() < 0.01 && mean.replications.len() == 10);
    }
    // In JSON, and in the tables, which are the page and the CSV.
    let json = serde_json::to_value(point).expect("a result");
    for of in [&json["overall"], &json["types"][0]] {
        for key in ["mean_us", "mean_wait_us"] {
            assert!(of[key]["low"].as_f64() < of[key]["high"].as_f64(), "{key}");
        }
    }
    let tables = &draw::figures(&made, "test")[0].tables;
    let types = tables.iter().find(|table| table.id == "base-types").expect("a table of types");
    for head in ["mean (us)", "mean wait (us)", "p99.9 (us)"] {
        assert!(types.columns.iter().any(|column| column == head), "{:?}", types.columns);
    }
}

/// One worker at load 0.7, service times of squared cv 4.
fn orders() -> ServerExperiment {
    run(&plan(
        1,
        "types = [{ name = \"all\", share = 1, service = { dist = \"hyperexponential\", mean_us = \
         10, squared_cv = 4 } }]",
        "load = 0.7\npolicies = [{ policy = \"c_fcfs\" }, { policy = \"srpt\" }, { policy = \
         \"lcfs\" }, { policy = \"lcfs\", preemptive = true }, { policy = \
         \"preemptive_priority\" }, { policy = \"jsq\" }, { policy = \"jsq\", choices = 2 }, { \
         policy = \"srpt\", label = \"SRPT, 2 us\", preemption_us = 2 }]\n[run]\nrequests = \
         100_000\nreplications = 5",
    ))
}

#[test]
fn plans_say_orders_of_service_by_their_names() {
    let made = orders();
    let mean = |label: &str| {
        let point = made.at("base", label, 0.7).expect("a point");
        point.overall.mean_us.as_ref().expect("samples").clone()
    };
    let first_come = mean("c-FCFS");
    // On one worker one type of priority, and one queue to choose, are first come first served.
    for label in ["preemptive priority", "JSQ", "JSQ(2)"] {
        assert_eq!(mean(label).value, first_come.value, "{label}");
    }
    // Pollaczek and Khinchine, for both orders that do not look at times; and LCFS-PR.
    let arrivals = 0.7 / 10.0;
    let wait = theory::pollaczek_khinchine_mean_wait(arrivals, 10.0, 500.0);
    for (label, expected) in [
        ("c-FCFS", 10.0 + wait),
        ("LCFS", 10.0 + wait),
        ("LCFS-PR", theory::processor_sharing_mean_sojourn(10.0, 0.7)),
    ] {
        let found = mean(label);
        let slack = found.high - found.low;
        assert!((found.value - expected).abs() < slack, "{label}: {found:?}, not {expected}");
    }
    // What a preemption costs is lost.
    let (free, dear) = (mean("SRPT").value, mean("SRPT, 2 us").value);
    assert!(free < mean("LCFS-PR").value && free < 0.5 * first_come.value, "{free}");
    assert!(dear > free * 1.02, "{dear} against {free}");
}

#[test]
fn clients_that_wait_have_the_throughput_of_the_repairman() {
    let made = run(&format!(
        "kind = \"server\"\ntitle = \"t\"\nworkers = 2\n{EXPONENTIAL}\nclients = {{ population = \
         20, think = {{ dist = \"exponential\", mean_us = 10 }} }}\nobjectives = [\"p99 <= \
         9us\"]\npolicies = [{{ policy = \"c_fcfs\" }}, {{ policy = \"srpt\" }}, {{ policy = \
         \"jsq\" }}]\n[run]\nrequests = 50_000\nreplications = 5"
    ));
    let of = |label: &str| made.results.iter().find(|one| one.label == label).expect("a point");
    let central = of("c-FCFS");
    assert_eq!((central.standing, central.at), (Standing::Stable, Some(20.0)));
    let known = theory::closed::repairman(20, 2, 10.0, 1.0) * 1e6;
    let rate = central.rate_per_s.expect("a rate");
    assert!((rate / known - 1.0).abs() < 0.01, "{rate} for {known}");
    // Whoever answers sooner is asked more. SRPT is told the work of each request as it comes.
    let (srpt, jsq) = (of("SRPT"), of("JSQ"));
    let mean = |one: &ServerResult| one.overall.mean_us.as_ref().expect("samples").value;
    assert!(mean(srpt) < 0.9 * mean(central) && mean(central) < mean(jsq));
    assert!(srpt.rate_per_s > central.rate_per_s && central.rate_per_s > jsq.rate_per_s);
    let sojourn = 20.0 / (known / 1e6) - 10.0;
    assert!((mean(central) / sojourn - 1.0).abs() < 0.02, "{} for {sojourn}", mean(central));
    // More clients wait longer, so there is a greatest number that will do.
    let searched = made.capacities.iter().find(|one| one.label == "c-FCFS").expect("a search");
    assert!(searched.at.is_some_and(|at| (10.0..40.0).contains(&at)), "{:?}", searched.at);
    let figures = draw::figures(&made, "test");
    let said = format!("{:?}", figures[0]);
    assert!(said.contains("closed loop") && said.contains("requests/s"), "{said}");
}

#[test]
fn clients_that_hardly_ask_are_too_few_to_judge() {
    let made = run(&format!(
        "kind = \"server\"\ntitle = \"t\"\nworkers = 2\n{EXPONENTIAL}\nclients = {{ population = \
         400 }}\npolicies = [{{ policy = \"c_fcfs\" }}]\n[run]\nrequests = \
         4_000\nreplications = 2"
    ));
    let point = only(&made);
    assert_eq!(point.standing, Standing::TooShort);
    assert!(point.note.contains("each client sends only 10 requests"), "{}", point.note);
}

#[test]
fn load_on_unequal_workers_is_over_the_sum_of_their_speeds() {
    let made = run(&format!(
        "kind = \"server\"\ntitle = \"t\"\nworkers = [{{ count = 1 }}, {{ count = 1, speed_ratio = \
         0.25 }}]\nload = 0.7\n{EXPONENTIAL}\npolicies = [{{ policy = \"c_fcfs\" \
         }}]\n[run]\nrequests = 200_000\nreplications = 5"
    ));
    let point = only(&made);
    assert_eq!(point.rate_per_s, Some(0.7 * 1.25e6));
    let mean = point.overall.mean_us.as_ref().expect("samples");
    let known = theory::disciplines::unequal_pair_mean_sojourn(0.7 * 1.25, 1.0, 0.25);
    assert!((mean.value / known - 1.0).abs() < 0.03, "{mean:?} for {known}");
    // Waiting is what is left beside the time that the request ran, wherever it did.
    let wait = point.overall.mean_wait_us.as_ref().expect("samples").value;
    assert!(wait > 0.2 * mean.value && wait < mean.value - 1.0, "{wait} of {}", mean.value);
    // The same more than can be done is known by arithmetic, whatever DARC reserves.
    let made = run(&format!(
        "kind = \"server\"\ntitle = \"t\"\nworkers = [{{ count = 1 }}, {{ count = 1, speed_ratio = \
         0.25 }}]\nload = 1.02\n{EXPONENTIAL}\npolicies = [{{ policy = \"darc\", hinted = true \
         }}]\n[run]\nrequests = 5_000\nreplications = 2"
    ));
    assert!(only(&made).note.contains("is 1.02 of"), "{}", only(&made).note);
}
