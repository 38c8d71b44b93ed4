//! Plans for services: what they say is what is run, and what is wrong with them is said.

use cavy_kinds::Latency;
use cavy_kinds::services::{
    MethodPlan, ModePlan, ServicesExperiment, ServicesPlan, ServicesResult, Verdict,
};
use cavy_report::model::Cell;
use cavy_study::draw;
use cavy_study::experiment::Experiment;
use cavy_study::outcome::Standing;
use cavy_study::plan::Files;
use cavy_study::plan::read::{Loaded, Text, load};
use cavy_study::point::Manner;

const PLAN: &str = r#"
kind = "services"
title = "x"
hop = 100

[clients]
population = 96
call = "front"

[[services]]
name = "front"
cores = 2
steps = [{ cpu = 600 }, { call = "middle" }]

[[services]]
name = "middle"
cores = 2
locks = ["table"]
caches = [{ name = "rows", hit_ratio = 0.5 }]
steps = [{ cpu = 800 }, { cpu = 200 }, { call = "back" }]

[[services]]
name = "back"
cores = 2
steps = [{ cpu = 500 }]

[whatif]
service = "middle"
faster_ratio = 0.5

[[methods]]
method = "governor"
mode = "count"

[run]
requests = 3000
replications = 1
"#;

fn read(plan: &str, overrides: &[&str]) -> Result<Loaded<ServicesPlan>, String> {
    let overrides: Vec<String> = overrides.iter().map(|one| one.to_string()).collect();
    let text = Text {
        text: plan,
        name: "plan",
        files: &Files::Carried(&[]),
        overrides: &overrides,
        quick: false,
    };
    load(&text).map_err(|error| error.to_string())
}

#[test]
fn mistakes_are_named_with_field_value_and_cure() {
    read(PLAN, &[]).map(drop).expect("the plan is good");
    for (key, found) in [
        ("services.front.cores=0", "services.front.cores"),
        ("services.front.cores=0", "at least 1"),
        ("clients.population=0", "clients.population"),
        ("clients={ rate_per_s = 9, think = 5, call = \"front\" }", "does not wait for answers"),
        ("clients.call=\"nobody\"", "services are: front, middle, back"),
        ("services.front.steps=[{ call = \"nobody\" }]", "services.front.steps.0.call"),
        ("services.front.steps=[{ call = \"middle.x\" }]", "call it by its name alone"),
        ("services.front.steps=[{ cpu = 1, call = \"middle\" }]", "one thing"),
        ("services.front.steps=[{ cpu = -1 }]", "3.6e9 microseconds"),
        ("services.front.steps=[{ call = \"middle\", share = 1.5 }]", "0 to 1"),
        (
            "services.front.steps=[{ one_of = [{ call = \"middle\", share = 0.7 }, { call = \
             \"back\", share = 0.6 }] }]",
            "at most 1",
        ),
        ("services.back.steps=[{ cpu = 1 }, { call = \"front\" }]", "circle"),
        ("whatif.service=\"nobody\"", "whatif.service"),
        ("whatif.faster_ratio=1.5", "share of the service's time that is saved"),
        ("whatif={ service = \"middle\" }", "give one of faster_ratio"),
        ("whatif={ service = \"middle\", less_us = 2000 }", "takes 1000 us for a visit"),
        ("whatif={ service = \"middle\", less_us = 100, cores = 4 }", "less_us and cores"),
        ("whatif={ service = \"middle\", faster_ratio = 0.5, lock = \"no\" }", "it has: table"),
        ("whatif={ service = \"middle\", faster_ratio = 0.5, lock = \"table\" }", "no CPU time"),
        ("services.front.steps=[{ cpu = 600 }]", "no request ever visits"),
        ("run.requests=3", "100 to 1e9"),
        ("stops.lost_ratio=2.0", "stops.lost_ratio"),
        ("stops.doubled_ratio=-0.1", "stops.doubled_ratio"),
        ("stops.stall_ratio=1.1", "stops.stall_ratio"),
        ("stops.stall_us=-1", "stops.stall_us"),
        ("stops.go_cpu_per_thread_us=-8", "stops.go_cpu_per_thread_us"),
        ("stops.usage_tick_us=-1", "stops.usage_tick_us"),
        ("services.middle.host=\"h\"", "give one of them"),
        ("methods=[{ method = \"governor\", batch = 0 }]", "batch"),
        (
            "methods=[{ method = \"governor\", pause_us = 9, pause_max_us = 3 }]",
            "at least `pause_us`",
        ),
        ("methods=[{ method = \"slowpoke\", bach = 4 }]", "bach"),
    ] {
        let error = read(PLAN, &[key]).map(drop).expect_err(key);
        let whole = error.to_string();
        assert!(whole.contains(found) || hints(key).contains(found), "{key}: {whole}");
    }
}

/// The hints of the error that an override gives.
fn hints(key: &str) -> String {
    let overrides = [key.to_string()];
    let text = Text {
        text: PLAN,
        name: "plan",
        files: &Files::Carried(&[]),
        overrides: &overrides,
        quick: false,
    };
    match load::<ServicesPlan>(&text) {
        Ok(_) => String::new(),
        Err(error) => format!("{error} {}", error.hints.join(" ")),
    }
}

/// What the points of a plan came to.
fn results(overrides: &[&str]) -> Vec<ServicesResult> {
    results_of(PLAN, overrides)
}

fn results_of(plan: &str, overrides: &[&str]) -> Vec<ServicesResult> {
    results_in(plan, overrides, &Manner::default())
}

fn results_in(plan: &str, overrides: &[&str], manner: &Manner) -> Vec<ServicesResult> {
    experiment(plan, overrides, manner).results
}

fn experiment(plan: &str, overrides: &[&str], manner: &Manner) -> ServicesExperiment {
    let overrides: Vec<String> = overrides.iter().map(|one| one.to_string()).collect();
    let text = Text {
        text: plan,
        name: "plan",
        files: &Files::Carried(&[]),
        overrides: &overrides,
        quick: false,
    };
    let loaded: Loaded<ServicesPlan> = load(&text).expect("a good plan");
    let files = Files::Carried(&[]);
    let run = |point| cavy_study::point::run(point, &files, manner).expect("it runs");
    let results = loaded.points.iter().map(run).collect();
    ServicesExperiment { results, ..Experiment::blank(&loaded).expect("it has a form") }
}

#[test]
fn methods_predict_what_they_should() {
    let all = r#"methods=[
        { method = "no_change" }, { method = "utilisation" }, { method = "mva" },
        { method = "layered" }, { method = "sleep" },
        { method = "uncoordinated" }, { method = "uncoordinated", threshold_us = 0 },
        { method = "slowpoke", batch = 30 }, { method = "governor", mode = "count" },
        { method = "governor", mode = "clock" }, { method = "governor", mode = "busy" },
        { method = "governor", mode = "delivered" }]"#;
    let results = results(&[all]);
    let error = |label: &str| {
        let one = results.iter().find(|one| one.label == label).expect(label);
        assert!(one.doubts.is_empty(), "{label}: {:?}", one.doubts);
        one.error_percent.as_ref().expect(label).value
    };
    // 1000 us on two cores now, 600 then at the first service: 2000 and 3333 a second.
    let now = &results[0];
    assert!((now.unchanged_per_s.value - 2_000.0).abs() < 10.0, "{now:?}");
    assert!((now.truth_per_s.value - 3_333.0).abs() < 15.0, "{now:?}");
    assert!((error("no change") + 40.0).abs() < 0.5);
    assert_eq!(now.bottleneck, "middle (100 %)");
    assert!(now.next_bottleneck.starts_with("front"));
    for label in ["utilisation law", "MVA", "layered queueing"] {
        // Constant times queue less than the exponential ones of the theory.
        assert!(error(label).abs() < 2.0, "{label}: {}", error(label));
    }
    for label in ["Governor, count", "Governor, clock", "Governor, busy", "Governor, delivered"] {
        assert!(error(label).abs() < 1.5, "{label}: {}", error(label));
    }
    assert!(error("Slowpoke").abs() < 6.0, "{}", error("Slowpoke"));
    assert!(error("pause a request").abs() < 8.0, "{}", error("pause a request"));
    // Sleeping takes no capacity away: the slowed system is as fast as the unchanged one [slowpoke
    // B4].
    let sleep = results.iter().find(|one| one.label == "sleep").expect("it was run");
    let said = sleep.predicted_per_s.as_ref().map_or(f64::INFINITY, |one| one.value);
    assert!(said > 3_900.0, "{said}");
}

#[test]
fn other_changes_are_predicted_as_well() {
    for change in [
        "whatif={ service = \"middle\", less_us = 300 }",
        "whatif={ service = \"middle\", faster_ratio = 0.9, step = 1 }",
        "whatif={ service = \"middle\", replicas = 2 }",
        "whatif={ service = \"middle\", cores = 3 }",
        "whatif={ service = \"back\", faster_ratio = -1.5 }",
        "whatif={ service = \"front\", faster_ratio = 0.5, also = [{ service = \"middle\", less_us \
         = 700 }] }",
    ] {
        for one in results(&[change]) {
            let error = one.error_percent.as_ref().expect("it predicts").value;
            assert!(error.abs() < 2.0, "{change}: {error} % {one:?}");
        }
    }
}

#[test]
fn a_plan_says_what_it_is_and_one_seed_gives_one_result() {
    let governor = MethodPlan::Governor(cavy_kinds::services::Governor {
        label: None,
        mode: ModePlan::Delivered,
        batch: None,
        pause_us: None,
        pause_max_us: None,
        tick_us: None,
        freezes_clients: true,
        parallel: None,
    });
    assert_eq!(governor.label(), "Governor, delivered");
    let once = results(&["run.seed=9"]);
    assert_eq!(once[0].digest, results(&["run.seed=9"])[0].digest);
    assert_ne!(
        once[0].digest,
        results(&["services.middle.steps=[{ cpu = { dist = \"exponential\", \
                   mean_us = 900 } }, { call = \"back\" }]"])[0]
            .digest
    );
}

/// Two tiers whose threads are held while they wait; the first becomes twice as fast.
const POOLS: &str = r#"
kind = "services"
title = "pools"
hop = 0

[[services]]
name = "front"
cores = 4
threads = 4
steps = [{ cpu = { dist = "exponential", mean_us = 800 } }, { call = "back", repeat = 1 }]

[[services]]
name = "back"
cores = 4
threads = 10
steps = [{ cpu = { dist = "exponential", mean_us = 600 } }]

[clients]
population = 20
call = "front"
[whatif]
service = "front"
faster_ratio = 0.5
[run]
requests = 60000
replications = 1
[[methods]]
method = "layered"
[[methods]]
method = "mva"
"#;

#[test]
fn layers_know_of_pools_that_bind() {
    // LINE 3.0.8 (`SolverLN` over `SolverMVA`) has 3855.2 and 2000 requests a second for the first
    // two models.
    let more = |text: &str| text.to_string();
    let cpu = |us: u32| format!("{{ cpu = {{ dist = \"exponential\", mean_us = {us} }} }}");
    let front = |us: u32, calls: u32| {
        let cpu = cpu(us);
        format!("services.front.steps=[{cpu}, {{ call = \"back\", repeat = {calls} }}]")
    };
    let back = |us: u32| format!("services.back.steps=[{}]", cpu(us));
    let mut layered_is_better = 0;
    for (name, overrides, line) in [
        ("threads of the first", vec![], Some(3_855.2)),
        (
            "threads of the second",
            vec![
                more("services.front.threads=20"),
                more("services.back.threads=2"),
                front(1_000, 2),
                back(500),
                more("clients.population=30"),
            ],
            Some(2_000.0),
        ),
        (
            "few threads, many calls",
            vec![
                more("services.front.threads=6"),
                more("services.front.cores=8"),
                more("services.back.cores=2"),
                front(600, 3),
                back(200),
                more("clients.population=40"),
            ],
            None,
        ),
        ("cores", vec![more("services.front.threads=100"), more("services.front.cores=1")], None),
        ("nobody waits", vec![more("clients.population=2")], None),
    ] {
        let overrides: Vec<&str> = overrides.iter().map(String::as_str).collect();
        let results = results_of(POOLS, &overrides);
        let error = |label: &str| {
            let one = results.iter().find(|one| one.label == label).expect(label);
            one.error_percent.as_ref().expect(label).value
        };
        let (layered, mva) = (error("layered queueing"), error("MVA"));
        println!("{name}: layered off by {layered:.1} %, MVA by {mva:.1} %");
        assert!(layered.abs() <= 5.0, "{name}: {layered} %");
        layered_is_better += u32::from(layered.abs() + 5.0 < mva.abs());
        if let Some(line_per_s) = line {
            let said = results[0].predicted_per_s.as_ref().expect("a prediction").value;
            assert!((said / line_per_s - 1.0).abs() <= 0.05, "{name}: {said}, LINE {line_per_s}");
        }
    }
    assert!(layered_is_better >= 2, "pools that bind are what it is for");
}

/// Three services on two cores, the last of which is asked often.
const SHARED: &str = r#"
kind = "services"
title = "shared"
hosts = [{ name = "h", cores = 2 }]
hop = 20

[[services]]
name = "web"
host = "h"
threads = 12
steps = [{ cpu = 400 }, { call = "php" }]

[[services]]
name = "php"
host = "h"
threads = 12
steps = [{ cpu = 8000 }, { call = "db", repeat = 10 }]

[[services]]
name = "db"
host = "h"
threads = 27
steps = [{ cpu = { dist = "exponential", mean_us = 600 } }]

[clients]
population = 24
call = "web"
[whatif]
service = "db"
faster_ratio = 0.5
[run]
requests = 2000
replications = 1
[[methods]]
method = "governor"
mode = "delivered"
pause_us = 500
"#;

#[test]
fn what_a_pause_costs_is_said_by_the_plan_and_missing_in_the_prediction() {
    let error = |overrides: &[&str]| {
        let all = results_of(SHARED, overrides);
        all[0].error_percent.as_ref().expect("a prediction").value
    };
    let free = error(&[]);
    assert!(free.abs() < 2.0, "{free} %");
    // The threads of all that stood wake up: the cores do that meanwhile, and nothing else.
    let costly = error(&[
        "stops.go={ dist = \"exponential\", mean_us = 60 }",
        "stops.go_cpu_per_thread_us=8",
        "stops.told_early=true",
    ]);
    assert!((-25.0..-3.0).contains(&costly), "{costly} %");
    let less = error(&["stops.go_cpu_per_thread_us=4"]);
    assert!(costly < less && less < free, "{costly}, {less}, {free} %");
    // The other keys reach the world as well: each changes the run.
    let digest = |overrides: &[&str]| results_of(SHARED, overrides)[0].digest.clone();
    let plain = digest(&[]);
    for change in
        [&["stops.usage_tick_us=4000"][..], &["stops.stall_ratio=0.1", "stops.stall_us=5000"]]
    {
        assert_ne!(digest(change), plain, "{change:?}");
    }
    let flooded = "methods=[{ method = \"slowpoke\", batch = 8 }]";
    assert_ne!(digest(&[flooded, "stops.doubled_ratio=0.5"]), digest(&[flooded]));
}

#[test]
fn a_system_that_is_known_already_is_as_if_it_ran() {
    let methods = r#"methods=[{ method = "no_change" }, { method = "governor", mode = "count" }]"#;
    let overrides = [methods, "run.replications=2"];
    let first = results_of(PLAN, &overrides);
    let again = results_of(PLAN, &overrides);
    // Everything twice is everything anew.
    let anew = results_in(PLAN, &overrides, &Manner { twice: true, ..Manner::default() });
    for ((first, again), anew) in first.iter().zip(&again).zip(&anew) {
        let of = |one: &ServicesResult| (one.digest.clone(), one.work, one.data.clone());
        assert_eq!(of(first), of(again), "{}", first.label);
        assert_eq!(of(first), of(anew), "{}", first.label);
    }
    let others = results_of(PLAN, &[methods, "run.seed=7"]);
    assert_ne!(first[0].digest, others[0].digest, "another seed is another system");
}

/// Two services that take turns: while one works, the other waits for it. Nothing is ever queued,
/// so a request takes the sum of both, and what is saved at the second is saved in all.
const TURNS: &str = r#"
kind = "services"
title = "x"
hop = 1

[clients]
population = 1
call = "caller"

[[services]]
name = "caller"
cores = 1
steps = [{ cpu = 1000 }, { call = "called" }]

[[services]]
name = "called"
cores = 1
steps = [{ cpu = 1000 }]

[whatif]
service = "called"
faster_ratio = 0.5

[[methods]]
method = "coz"

[[methods]]
method = "coz"
credits = false

[run]
requests = 4000
replications = 1
"#;

/// The method, the true gain and the predicted one, in percent.
fn gains(plan: &str, overrides: &[&str]) -> [(String, f64, f64); 2] {
    let of = |one: &ServicesResult| {
        let predicted = one.predicted_gain_percent.as_ref().expect("a prediction").value;
        (one.label.clone(), one.gain_percent.value, predicted)
    };
    let all = results_of(plan, overrides);
    [of(&all[0]), of(&all[1])]
}

#[test]
fn coz_needs_credits_where_services_wait_for_each_other() {
    let [within, across] = gains(TURNS, &[]);
    // 2 ms become 1.5.
    let third = 100.0 / 3.0;
    assert!((within.1 - third).abs() < 0.2, "{within:?}");
    assert!(within.0 == "Coz" && (within.2 - third).abs() < 1.0, "{within:?}");
    // The caller stands for the delay that it has already waited for: nothing seems to be gained.
    assert!(across.0 == "Coz, no credits" && across.2.abs() < 1.0, "{across:?}");
}

/// One core, a millisecond of work for each request, and a change that takes 0.4 of it away.
const AT_A_RATE: &str = r#"
kind = "services"
title = "x"
hop = 0
clients = { rate_per_s = 600, call = "a" }
whatif = { service = "a", faster_ratio = 0.4 }

[[services]]
name = "a"
cores = 1
steps = [{ cpu = { dist = "exponential", mean_us = 1000 } }]

[[methods]]
method = "slowpoke"

[[methods]]
method = "governor"
mode = "delivered"

[run]
requests = 20_000
replications = 3
"#;

#[test]
fn services_that_cannot_do_what_comes_have_no_latency() {
    let at = |per_s: u32| {
        let all = results_of(AT_A_RATE, &[&format!("clients.rate_per_s={per_s}")]);
        for one in &all {
            assert_eq!((&one.now, &one.then), (&all[0].now, &all[0].then), "{}", one.label);
            let rate = "requests come at a rate";
            let doubts = one.doubts.iter().filter(|doubt| doubt.starts_with(rate)).count();
            assert_eq!(doubts, usize::from(one.label == "Slowpoke"), "{}", one.label);
            let then = one.then.as_ref().expect("a rate");
            assert_eq!(one.truth.is_some(), then.standing == Standing::Stable, "{per_s}/s");
        }
        let of = |verdict: &Option<Verdict>| verdict.clone().expect("a rate");
        [of(&all[0].now), of(&all[0].then)]
    };
    let yes = || Verdict { standing: Standing::Stable, note: String::new() };
    let no = |load: &str| Verdict {
        standing: Standing::Unstable,
        note: format!("a would have to do {load} of what it can do"),
    };
    assert_eq!(at(600), [yes(), yes()]);
    assert_eq!(at(1_200), [no("1.2"), yes()]);
    assert_eq!(at(1_700), [no("1.7"), no("1.02")]);
    // Clients that wait for their answers let no queue grow.
    let closed = results(&[]);
    assert!(closed.iter().all(|one| one.now.is_none() && one.then.is_none()));
    // A result that says nothing of latency is of an older program, and no result.
    let mut older = serde_json::to_value(&closed[0]).expect("JSON");
    assert!(serde_json::from_value::<ServicesResult>(older.clone()).is_ok());
    older.as_object_mut().expect("an object").remove("truth").expect("a field");
    assert!(serde_json::from_value::<ServicesResult>(older).is_err());
}

/// A method that times no requests never has a latency, so its cells have nothing to say of load.
#[test]
fn only_a_method_that_times_requests_calls_their_time_unstable() {
    let made = experiment(AT_A_RATE, &["clients.rate_per_s=1700"], &Manner::default());
    let table = draw::points(&made);
    let place = |head: &str| table.columns.iter().position(|one| one == head).expect(head);
    let missing = |head: &str| -> Vec<&str> {
        let cells = table.rows.iter().map(|row| &row[place(head)]);
        cells.map(|cell| if let Cell::Missing(why) = cell { why } else { "a number" }).collect()
    };
    assert_eq!(missing("predicted p50 (ms)"), ["none", "unstable"]);
    assert_eq!(missing("true p50 (ms)"), ["unstable", "unstable"]);
}

/// What a Governor by the clock predicts changes too little where its pauses are longer than a
/// request; in delivered mode means hold, and percentiles do not.
#[test]
fn pauses_longer_than_requests_leave_latency_in_doubt() {
    let methods = r#"methods=[
        { method = "governor", mode = "clock", label = "long", pause_us = 5000 },
        { method = "governor", mode = "clock", label = "short", pause_us = 100 },
        { method = "governor", mode = "delivered", label = "delivered", pause_us = 5000 },
        { method = "governor", mode = "delivered", label = "short, delivered", pause_us = 100 },
    ]"#
    .replace('\n', "");
    let steps = "services.a.steps=[{ cpu = 1000 }]";
    let all = results_of(AT_A_RATE, &[&methods, steps]);
    let of = |one: &ServicesResult| {
        let (truth, predicted) =
            (one.truth.as_ref().expect("it keeps up"), one.predicted.as_ref().expect("a time"));
        let error_percent = |metric: &str| {
            let value = |latency: &Latency| latency.get(metric).expect("samples").value;
            (value(predicted) / value(truth) - 1.0) * 100.0
        };
        let in_doubt = one.doubts.iter().any(|doubt| doubt.contains("give `pause_us` of at most"));
        (in_doubt, error_percent("mean_ms").abs(), error_percent("p50_ms").abs())
    };
    let [long, short] = [of(&all[0]), of(&all[1])];
    assert!(long.0 && long.1 > 50.0 && long.2 > 50.0, "{long:?}");
    assert!(!short.0 && short.1 < 5.0 && short.2 < 12.0, "{short:?}");
    let [long, short] = [of(&all[2]), of(&all[3])];
    assert!(long.0 && long.1 < 10.0 && long.2 > 25.0, "{long:?}");
    assert!(!short.0 && short.1 < 2.0 && short.2 < 12.0, "{short:?}");
}

/// A message is under way, and a disk works, while services stand.
#[test]
fn what_goes_on_in_pauses_leaves_the_mean_in_doubt() {
    let governor = r#"methods=[{ method = "governor", mode = "delivered", pause_us = 100 }]"#;
    let of = |hop_us: u32, wait_us: u32| {
        let hop = format!("hop={hop_us}");
        let steps = format!("services.a.steps=[{{ cpu = 1000 }}, {{ wait = {wait_us} }}]");
        let one = &results_of(AT_A_RATE, &[governor, &hop, &steps])[0];
        let mean = |latency: &Option<Latency>| {
            latency.as_ref().expect("it keeps up").mean_ms.as_ref().expect("samples").value
        };
        let doubt = one.doubts.iter().find_map(|doubt| {
            let percent = doubt.split("too short, by some ").nth(1)?.split(' ').next()?;
            percent.parse::<f64>().ok()
        });
        (doubt, (1.0 - mean(&one.predicted) / mean(&one.truth)) * 100.0)
    };
    let (doubt, short_percent) = of(0, 0);
    assert!(doubt.is_none() && short_percent.abs() < 2.0, "{doubt:?} {short_percent}");
    for (hop_us, wait_us) in [(1_000, 0), (0, 2_000), (500, 1_000)] {
        let (doubt, short_percent) = of(hop_us, wait_us);
        let ratio = short_percent / doubt.expect("a doubt");
        assert!((0.5..1.1).contains(&ratio), "{hop_us} {wait_us} {doubt:?} {short_percent}");
    }
}

/// Two services on a host of one core, and a lock, of which arithmetic knows nothing.
#[test]
fn services_wait_for_cores_and_locks_they_share() {
    let shared = AT_A_RATE
        .replace("cores = 1\n", "host = \"h\"\n")
        .replace("whatif =", "hosts = [{ name = \"h\", cores = 1 }]\nwhatif =")
        .replace("rate_per_s = 600", "rate_per_s = 1010");
    let [one, _] = &results_of(&shared, &[])[..] else { panic!("two methods") };
    let note = "the host of a would have to do 1.01 of what it can do";
    assert_eq!(one.now.as_ref().expect("a rate").note, note);
    let locked = AT_A_RATE
        .replace("cores = 1\n", "cores = 4\nlocks = [\"l\"]\n")
        .replace("mean_us = 1000 } }", "mean_us = 1000 }, lock = \"l\" }")
        .replace("rate_per_s = 600", "rate_per_s = 1100");
    let [one, _] = &results_of(&locked, &[])[..] else { panic!("two methods") };
    let now = one.now.as_ref().expect("a rate");
    assert_eq!(now.standing, Standing::Unstable, "{}", now.note);
    assert!(now.note.starts_with("latency grows: "), "{}", now.note);
    assert_eq!(one.then.as_ref().expect("a rate").standing, Standing::Stable);
}

#[test]
fn coz_needs_no_credits_where_all_have_work() {
    // Throughput is bounded by the second service, and then by the first: 1 / 1.4 ms becomes 1 / 1.
    let longer = TURNS.replace("steps = [{ cpu = 1000 }]\n", "steps = [{ cpu = 1400 }]\n");
    assert_ne!(longer, TURNS);
    for (label, truth, predicted) in gains(&longer, &["clients.population=64"]) {
        assert!((truth - 40.0).abs() < 0.5, "{label}: {truth}");
        assert!((predicted - 40.0).abs() < 2.0, "{label}: {predicted}");
    }
}
