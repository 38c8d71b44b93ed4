//! What the commands promise: help that teaches, data that parses, results that do not depend on
//! how they were made, and runs that can be interrupted.

mod cavy;

use cavy::Cavy;
use serde_json::Value;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn help_teaches() {
    let cavy = Cavy::new();
    let calls: [&[&str]; 11] = [
        &["--help"],
        &["reproduce", "--help"],
        &["run", "--help"],
        &["list", "--help"],
        &["explain", "--help"],
        &["plan", "--help"],
        &["plan", "new", "--help"],
        &["plan", "check", "--help"],
        &["check", "--help"],
        &["ask", "--help"],
        &["completions", "--help"],
    ];
    insta::assert_snapshot!("help", cavy.transcript(&calls));
}

#[test]
fn what_there_is_can_be_listed_and_explained() {
    let cavy = Cavy::new();
    let list = cavy.json(&["list", "--json"]);
    let systems = list["systems"].as_array().expect("a list");
    assert!(systems.iter().any(|system| system["id"] == "persephone"));
    for system in systems {
        for figure in system["figures"].as_array().expect("a list") {
            let id = figure["id"].as_str().expect("a name");
            let file = format!("{id}.toml");
            let made = cavy.call(&["plan", "new", &file, "--template", id]);
            assert!(made.status.success(), "{id}");
        }
        // Each claim by itself would be five hundred calls; a system's are all explained by one.
        let id = system["id"].as_str().expect("a name");
        let explained = cavy.json(&["explain", id, "--json"]);
        let explained = explained["claims"].as_array().expect("a list");
        let names = |key: &str| system[key].as_array().expect("a list").to_vec();
        for claim in names("claims") {
            let one = explained.iter().find(|one| one["id"] == claim);
            let repeat = one.and_then(|one| one["repeat"].as_str()).expect("explained");
            assert!(repeat.starts_with("cavy reproduce "), "{claim}: {repeat}");
        }
        let first = system["claims"][0].as_str().expect("a claim");
        let text = cavy.call(&["explain", first]).stdout;
        assert!(String::from_utf8_lossy(&text).contains("measured by cavy reproduce"), "{first}");
        if let Some(live) = system["live_claims"][0].as_str() {
            let text = cavy.call(&["explain", live]).stdout;
            let command = match live.split('.').nth(1) {
                Some("tcp") => "measured by cavy live tcp study\n",
                Some("coords") => "measured by cavy live coords study\n",
                _ => "measured by cavy live study ",
            };
            assert!(String::from_utf8_lossy(&text).contains(command), "{live}");
        }
    }
    let text = cavy.call(&["list"]);
    let text = String::from_utf8_lossy(&text.stdout);
    assert!(text.contains("measured") && text.contains("(`cavy live tcp study`)"));
}

#[test]
fn every_template_is_written_checked_and_run() {
    let cavy = Cavy::new();
    for template in ["minimal", "measured", "phases", "network", "incast", "answers"] {
        let file = format!("{template}.toml");
        assert!(cavy.call(&["plan", "new", &file, "--template", template]).status.success());
        assert!(cavy.call(&["plan", "check", &file]).status.success(), "{template}");
        let size = match template {
            "network" => "run.messages=1000",
            "incast" => "run.duration_ms=1",
            "answers" => "traffic.blocks=3",
            _ => "run.requests=2000",
        };
        let small = ["--set", size, "--set", "run.replications=2"];
        let mut args = vec!["run", &file, "--json", "--out", template];
        args.extend(small);
        let ran = cavy.json(&args);
        assert!(!ran["points"].as_array().expect("a list").is_empty(), "{template}");
        let repeated = cavy.call(&["plan", "new", &file, "--template", template]);
        assert_eq!(repeated.status.code(), Some(2), "nothing is overwritten unasked");
    }
}

#[test]
fn a_run_prints_the_fields_it_promises_and_writes_its_files() {
    let cavy = Cavy::with_plan();
    let ran = cavy.json(&["run", "plan.toml", "--json"]);
    for field in ["points", "capacity", "ranking", "digest", "seed", "version", "elapsed_s"] {
        assert!(!ran[field].is_null(), "{field}");
    }
    let points = ran["points"].as_array().expect("a list");
    assert_eq!(points.len(), 8);
    for point in points {
        for field in ["policy", "variant", "settings", "samples", "standing", "utilization"] {
            assert!(!point[field].is_null(), "{field}");
        }
        for field in ["dropped", "drop_ratio", "rate_per_s", "digest", "types"] {
            assert!(!point[field].is_null(), "{field}");
        }
        assert!(point["settings"]["load"].is_number());
        for whose in [point, &point["types"][0]] {
            for field in ["p50_us", "p99_us", "p50_slowdown", "p99_slowdown"] {
                let estimate = &whose[field];
                let [low, value, high] =
                    ["low", "value", "high"].map(|name| estimate[name].as_f64().expect(field));
                assert!(low <= value && value <= high, "{field}: {estimate}");
            }
            // 20 000 requests are too few for this one, and so it is not given.
            assert!(whose["p999_us"]["value"].is_null());
            assert!(whose["p999_us"]["beyond"].as_u64().is_some_and(|beyond| beyond < 100));
        }
    }
    assert_eq!(ran["capacity"].as_array().expect("a list").len(), 2);
    let files = cavy.files("cavy-out");
    let expected =
        ["claims.json", "points.jsonl", "report.html", "report.json", "series.csv", "svg"];
    for file in expected {
        assert!(files.iter().any(|f| f == file), "{file} in {files:?}");
    }
    assert!(!files.iter().any(|file| file.ends_with(".part")), "{files:?}");
    assert!(!cavy.files("cavy-out/svg").is_empty());
}

#[test]
fn a_reproduction_judges_its_claims_and_its_exit_code_says_so() {
    let cavy = Cavy::new();
    let output = cavy.call(&["reproduce", "persephone.o1", "--json", "--out", "made"]);
    let made: Value = serde_json::from_slice(&output.stdout).expect("one JSON object on stdout");
    let claims = made["claims"].as_array().expect("a list");
    assert!(!claims.is_empty());
    for claim in claims {
        for field in ["id", "system", "figure", "source", "statement", "published", "repeat"] {
            assert!(claim[field].is_string(), "{field}");
        }
        for field in ["value", "low", "high", "tolerance", "samples"] {
            assert!(claim.get(field).is_some(), "{field}");
        }
        assert!(claim["repeat"].as_str().is_some_and(|r| r == "cavy reproduce persephone.o1"));
    }
    for field in ["digest", "seed", "version", "elapsed_s", "requests", "report"] {
        assert!(!made[field].is_null(), "{field}");
    }
    let missed = claims.iter().any(|claim| claim["verdict"] == "not_reproduced");
    assert_eq!(output.status.code(), Some(i32::from(missed)));
    assert_eq!(made["report"], "made/report.html");
    assert!(cavy.path("made/report.html").is_file());
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.ends_with("report: made/report.html\n"), "{told}");
}

/// Three systems, two kinds of plans: each is told by its own facts, and counted in its own unit.
#[test]
fn a_reproduction_of_several_systems_says_of_each_what_is_true_of_it() {
    let cavy = Cavy::new();
    let names = ["slowpoke.fig11", "homa.echo", "incast.cure"];
    let mut args = vec!["reproduce", "--json", "--out", "made"];
    args.extend(names);
    let output = cavy.call(&args);
    let made: Value = serde_json::from_slice(&output.stdout).expect("one JSON object on stdout");
    let amounts = ["requests", "messages"].map(|unit| made[unit].as_u64().expect(unit));
    assert!(amounts[0] > 0 && amounts[1] > 0, "{amounts:?}");
    let claims = made["claims"].as_array().expect("a list");
    for name in names {
        let system = name.split('.').next();
        let own = || claims.iter().filter(|claim| claim["system"].as_str() == system);
        assert!(own().count() > 0, "{name}");
        assert!(own().all(|claim| claim["repeat"] == format!("cavy reproduce {name}")), "{name}");
    }
    let report = std::fs::read(cavy.path("made/report.json")).expect("a report");
    let report: Value = serde_json::from_slice(&report).expect("JSON");
    let facts: Vec<&str> = report["facts"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|fact| fact[0].as_str().expect("a name"))
        .collect();
    for name in [
        "requests simulated",
        "messages simulated",
        "load (homa)",
        "block (incast)",
        "percentiles of blocks (incast)",
        "intervals",
    ] {
        assert!(facts.contains(&name), "{name} in {facts:?}");
    }
    assert!(facts.iter().any(|name| name.ends_with(" (slowpoke)")), "{facts:?}");
    // No fact of one system stands there as if it were true of all; intervals are made alike.
    let of_all =
        |name: &&str| ["scale", "intervals"].contains(name) || name.ends_with(" simulated");
    assert!(facts.iter().all(|name| of_all(name) || name.ends_with(')')), "{facts:?}");
}

#[test]
fn results_do_not_depend_on_how_they_were_made() {
    let cavy = Cavy::with_plan();
    let digest = |how: &[&str]| {
        let mut args = vec!["run", "plan.toml", "--json"];
        args.extend(how);
        let ran = cavy.json(&args);
        ran["digest"].as_str().expect("a digest").to_string()
    };
    let plain = digest(&["--jobs", "1"]);
    assert_eq!(plain, digest(&["--jobs", "2"]));
    assert_eq!(plain, digest(&["--queue", "wheel"]));
    assert_eq!(plain, digest(&["--twice"]));
    assert_eq!(plain, digest(&["--resume"]), "kept results are the same results");
    assert_ne!(plain, digest(&["--seed", "2"]));
    assert_ne!(plain, digest(&["--set", "run.requests=20001"]));
}

#[test]
fn load_above_capacity_runs_and_says_so() {
    let cavy = Cavy::with_plan();
    let output = cavy.call(&["run", "plan.toml", "--set", "sweep.load=[1.5]"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stdout).contains("unstable"));
    assert!(String::from_utf8_lossy(&output.stderr).ends_with("report: cavy-out/report.html\n"));
}

#[test]
fn tables_fit_the_terminal_and_have_no_color_in_a_pipe() {
    let cavy = Cavy::with_plan();
    let output = cavy.call(&["run", "plan.toml"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("what each would buy"));
    assert!(!text.contains('\u{1b}'), "{text}");
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn completions_and_manual_are_printed() {
    let cavy = Cavy::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = cavy.call(&["completions", shell]).stdout;
        assert!(String::from_utf8_lossy(&text).contains("reproduce"), "{shell}");
    }
    let page = cavy.call(&["man"]).stdout;
    let page = String::from_utf8_lossy(&page);
    assert!(page.starts_with(".ie") || page.contains(".TH cavy"), "{page}");
    assert!(page.contains("CAVY PLAN NEW"), "{page}");
    let schema = cavy.json(&["plan", "schema", "server"]);
    for key in ["kind", "title", "workers", "policies", "sweep"] {
        assert!(schema["properties"][key].is_object(), "{key}");
    }
    let run = &schema["properties"]["run"]["properties"];
    assert!(run["seed"].is_object() && run["requests"].is_object(), "{run}");
    let all = cavy.json(&["plan", "schema"]);
    assert_eq!(
        all["properties"]["kind"]["enum"],
        serde_json::json!(["server", "network", "services", "regions", "coords", "search"])
    );
}

/// Long enough to be caught in the act.
const LONG: [&str; 8] = [
    "run",
    "plan.toml",
    "--json",
    "--jobs=1",
    "--set=run.requests=400000",
    "--set=sweep.load=[0.1,0.2,0.3,0.4,0.5,0.6,0.7]",
    "--set=objectives=[]",
    "--out=long",
];

fn begin(cavy: &Cavy) -> Child {
    let child = cavy
        .command(&LONG)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    // Until the first points are kept.
    for _ in 0..3000 {
        if finished(cavy) >= 2 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

/// Points that are kept.
fn finished(cavy: &Cavy) -> usize {
    let bytes = std::fs::read(cavy.path("long/points.jsonl")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).lines().filter(|line| line.ends_with('}')).count()
}

fn resume(cavy: &Cavy) -> Value {
    let mut args = LONG.to_vec();
    args.push("--resume");
    cavy.json(&args)
}

#[test]
fn an_interrupted_run_goes_on_to_the_same_result() {
    let cavy = Cavy::with_plan();
    let child = begin(&cavy);
    let id = child.id().to_string();
    let sent = std::process::Command::new("kill").args(["-INT", &id]).status();
    assert!(sent.is_ok_and(|status| status.success()));
    let output = child.wait_with_output().expect("it ends");
    let talk = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{talk}");
    assert!(output.stdout.is_empty());
    assert!(talk.contains("interrupted after") && talk.contains("of 14 points"), "{talk}");
    assert!(talk.contains("go on with: cavy run plan.toml"), "{talk}");
    assert!(talk.trim_end().ends_with("--resume"), "{talk}");
    assert!(!cavy.path("long/report.html").exists(), "no report without its points");

    let kept = finished(&cavy);
    assert!((2..14).contains(&kept), "{kept}");
    let resumed = resume(&cavy);
    assert_eq!(finished(&cavy), 14, "what was kept is not run again");
    let whole = cavy.json(&LONG);
    assert_eq!(resumed["digest"], whole["digest"]);
    assert_eq!(resumed["points"], whole["points"]);
}

#[test]
fn a_killed_run_goes_on_to_the_same_result() {
    let cavy = Cavy::with_plan();
    let mut child = begin(&cavy);
    child.kill().expect("it is running");
    child.wait().expect("it ends");
    // As if killed in the middle of a line, and of a character.
    let file = cavy.path("long/points.jsonl");
    let mut bytes = std::fs::read(&file).expect("points were kept");
    bytes.extend_from_slice(b"{\"version\":\"0.1.0\",\"result\":{\"key\":\"caf\xc3");
    std::fs::write(&file, bytes).expect("the file can be written");
    let kept = finished(&cavy);
    assert!((2..14).contains(&kept), "{kept}");

    let resumed = resume(&cavy);
    assert_eq!(finished(&cavy), 14);
    assert_eq!(resumed["digest"], cavy.json(&LONG)["digest"]);
}

#[test]
fn two_runs_do_not_share_a_folder() {
    let cavy = Cavy::with_plan();
    let mut child = begin(&cavy);
    let second = cavy.call(&LONG);
    let talk = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(2), "{talk}");
    assert!(talk.contains("another cavy is writing to `long`"), "{talk}");
    child.kill().expect("it is running");
    child.wait().expect("it ends");
}

/// A point may take minutes; who stops a run waits for none.
#[test]
fn another_plan_does_not_write_over_a_report_in_silence() {
    let cavy = Cavy::with_plan();
    let run = |plan: &str| {
        let output = cavy.call(&["run", plan]);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    run("plan.toml");
    let report = |file: &str| {
        let text = std::fs::read(cavy.path(file)).expect("a report");
        let mut report: Value = serde_json::from_slice(&text).expect("JSON");
        let elapsed = report.as_object_mut().and_then(|report| report.remove("elapsed_s"));
        assert!(elapsed.is_some(), "a report says how long it took");
        report
    };
    let first = report("cavy-out/report.json");
    let text = std::fs::read_to_string(cavy.path("plan.toml")).expect("the plan");
    cavy.write("other.toml", text.replace("workers = ", "workers = 1"));
    assert!(!run("plan.toml").contains("note:"), "its own report is made anew");
    let said = run("other.toml");
    assert!(said.contains("the results of `run plan.toml` are in `cavy-out/earlier-1`"), "{said}");
    let kept = report("cavy-out/earlier-1/report.json");
    assert_eq!(kept, first, "the same report, but for how long it took");
    assert!(cavy.path("cavy-out/earlier-1/points.jsonl").exists());
}

/// How long the program lives after a request to end in the middle of a point of hours.
#[expect(clippy::disallowed_methods, reason = "how long a program takes to end is what is tested")]
fn time_to_stop(cavy: &Cavy) -> Duration {
    let mut args = vec!["run", "plan.toml", "--accept-cost", "--jobs=1", "--out=long"];
    args.extend(["--set=run.requests=1_000_000_000", "--set=load=0.5", "--set=objectives=[]"]);
    let mut child = cavy.command(&args).stderr(Stdio::piped()).spawn().expect("it starts");
    let folder = cavy.path("long/points.jsonl");
    let until = |done: &mut dyn FnMut() -> bool| {
        (0..3_000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            done()
        })
    };
    assert!(until(&mut || folder.exists()), "the run begins");
    std::thread::sleep(Duration::from_millis(200));
    let id = child.id().to_string();
    let asked = Instant::now();
    let sent = std::process::Command::new("kill").args(["-TERM", &id]).status();
    assert!(sent.is_ok_and(|status| status.success()));
    let mut code = None;
    let ended = until(&mut || {
        code = child.try_wait().expect("a child").map(|status| status.code());
        code.is_some()
    });
    let passed = asked.elapsed();
    assert!(ended, "it does not end");
    assert_eq!(code, Some(Some(130)));
    let output = child.wait_with_output().expect("it has ended");
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(talk.contains("interrupted after 0 of 2 points"), "{talk}");
    std::fs::remove_dir_all(cavy.path("long")).expect("its folder");
    passed
}

/// A busy machine makes a program end later, never sooner: the fastest of a few is its own time.
#[test]
fn a_long_point_is_cut_within_a_second() {
    let cavy = Cavy::with_plan();
    let fastest = (0..5).map(|_| time_to_stop(&cavy)).find(|passed| *passed < SECOND);
    assert!(fastest.is_some(), "none of five ended within a second");
}

#[test]
fn a_history_is_judged_and_a_bad_one_is_named() {
    let cavy = Cavy::new();
    let skew = "{\"txn\":\"a\",\"ops\":[[\"r\",\"x\",null],[\"w\",\"y\",1]]}\n\
                {\"txn\":\"b\",\"ops\":[[\"r\",\"y\",null],[\"w\",\"x\",2]]}\n";
    cavy.write("skew.jsonl", skew);
    cavy.write("wrong.jsonl", "{\"txn\":1,\"ops\":[[\"apend\",\"x\",1]]}\n");
    let calls: [&[&str]; 4] = [
        &["check", "skew.jsonl"],
        &["check", "skew.jsonl", "--model", "snapshot-isolation", "--show", "0"],
        &["check", "wrong.jsonl"],
        &["check", "nothing.jsonl"],
    ];
    insta::assert_snapshot!("check", cavy.transcript(&calls));
    let judged = cavy.json(&["check", "skew.jsonl", "--model", "snapshot-isolation", "--json"]);
    assert_eq!(judged["counts"]["G2-item"], 1);
}

#[test]
fn ask_ranks_causes_by_answers_and_writes_the_plan_that_measures_the_first() {
    let cavy = Cavy::new();
    let asked = ["ask", "--yes", "mixed,busy", "--no", "regions,spread", "--write", "asked.toml"];
    let said = cavy.call(&asked);
    let text = String::from_utf8_lossy(&said.stdout).to_string();
    assert!(said.status.success(), "{said:?}");
    assert!(text.starts_with("1. Short requests wait behind long ones"), "{text}");
    assert!(text.contains("ruled out: Transactions of one region wait"), "{text}");
    assert!(cavy.call(&["plan", "check", "asked.toml"]).status.success());
    let unasked = ["ask", "--no", "mixed", "--write", "none.toml"];
    assert_eq!(cavy.call(&unasked).status.code(), Some(2), "nothing points to a plan");

    let all = cavy.json(&["ask", "--json"]);
    let systems = all["causes"].as_array().expect("a list").len();
    assert!(systems >= 6, "every cause has a template: {all}");

    let wrong = cavy.call(&["ask", "--yes", "mixd"]);
    let text = String::from_utf8_lossy(&wrong.stderr).to_string();
    assert!(wrong.status.code() == Some(2) && text.contains("did you mean `mixed`?"), "{text}");
}

#[test]
fn ask_looks_at_a_log_and_writes_the_plan_that_plays_it() {
    let cavy = Cavy::new();
    let line = |n: usize| {
        let (path, took) =
            if n.is_multiple_of(10) { ("report", "0.400") } else { ("get", "0.010") };
        let (minute, second) = (n / 600, n / 10 % 60);
        format!(
            "10.0.0.7 - - [23/Nov/2026:19:{minute:02}:{second:02} +0000] \"GET /{path}/{n} \
             HTTP/1.1\" 200 512 \"-\" \"curl\" {took}\n"
        )
    };
    let log: String = (0..2_000).map(line).collect();
    cavy.write("access.log", &log);
    let said = cavy.call(&["ask", "access.log", "--workers", "1", "--write", "log.toml"]);
    let text = String::from_utf8_lossy(&said.stdout).to_string();
    assert!(said.status.success(), "{said:?}");
    for part in [
        "read access.log: 2 000 requests of 2 types",
        "1. Short requests wait behind long ones",
        "the median of `/report` takes 40.0 times as long",
        "of 1 workers are busy",
    ] {
        assert!(text.replace('\u{a0}', " ").contains(part), "{part}: {text}");
    }
    let run = cavy.json(&["run", "log.toml", "--json"]);
    assert_eq!(run["points"][0]["policy"], "c-FCFS", "the plan runs: {run}");

    let idle = cavy.call(&["ask", "access.log", "--workers", "64"]);
    let text = String::from_utf8_lossy(&idle.stdout).to_string();
    assert!(text.contains("ruled out: Short requests wait behind long ones"), "{text}");

    cavy.write("table.csv", "get_us,scan_us\n1,2\n");
    let unsaid = cavy.call(&["ask", "table.csv"]);
    let text = String::from_utf8_lossy(&unsaid.stderr).to_string();
    assert!(unsaid.status.code() == Some(2) && text.contains("--busy-times table.csv"), "{text}");
}

/// A rate instead of a load, and limits with units.
const RATE: &str = r#"kind = "server"
title = "A rate"
workers = 12
rate_per_s = 1200
objectives = ["p99 <= 40ms"]
types = [{ name = "get", share = 1, service = { dist = "exponential", mean_us = 4000 } }]
policies = [{ policy = "c_fcfs" }, { policy = "d_fcfs" }]
run = { requests = 20_000, replications = 2 }
"#;

#[test]
fn a_rate_asks_for_workers_and_a_plan_may_come_from_standard_input() {
    use std::io::Write as _;
    let cavy = Cavy::new();
    let mut child = cavy
        .command(&["run", "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command starts");
    child.stdin.take().expect("piped").write_all(RATE.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let ran: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let capacity = ran["capacity"].as_array().expect("a list");
    // 4.8 workers are busy; one queue needs a few more, a queue for each worker many more.
    let workers = |index: usize| capacity[index]["workers"].as_f64().expect("found");
    assert!((5.0..=7.0).contains(&workers(0)), "{capacity:?}");
    assert!(workers(1) > workers(0), "{capacity:?}");
    assert_eq!(capacity[0]["objective"], "p99 <= 40ms");
    let point = &ran["points"][0];
    assert_eq!(point["rate_per_s"].as_f64(), Some(1200.0));
    for field in ["p90_us", "p95_us"] {
        assert!(point[field]["value"].is_number(), "{field}: {}", point[field]);
    }
    // The report has the plan, as it was written.
    let report = std::fs::read_to_string(cavy.path("cavy-out/report.json")).expect("written");
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["plan"]["text"], RATE);
    let page = std::fs::read_to_string(cavy.path("cavy-out/report.html")).expect("written");
    assert!(page.contains("The plan that was run") && page.contains("rate_per_s = 1200"));
    let both = ["run", "-", "--set", "load=0.5"];
    cavy.write("rate.toml", RATE);
    let output = cavy.call(&["run", "rate.toml", both[2], both[3]]);
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && talk.contains("say the same thing twice"), "{talk}");
}

#[test]
fn reports_are_compared_value_by_value() {
    let cavy = Cavy::with_plan();
    for (out, more) in [("one", "run.seed=1"), ("two", "run.seed=1"), ("slow", "workers=3")] {
        let ran = cavy.call(&["run", "plan.toml", "--set", more, "--out", out]);
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    }
    let same = cavy.json(&["compare", "one", "two/report.json", "--same", "--json"]);
    assert_eq!(same["same_events"], true);
    let differences = same["differences"].as_array().expect("a list");
    assert!(differences.len() > 50 && differences.iter().all(|one| one["clear"] == false));
    let other = cavy.call(&["compare", "one", "slow", "--same", "--out", "both"]);
    assert_eq!(other.status.code(), Some(1), "fewer workers make a clear difference");
    let text = String::from_utf8_lossy(&other.stdout);
    assert!(text.contains("c-FCFS") && text.contains("clear"), "{text}");
    let page = std::fs::read_to_string(cavy.path("both/report.html")).expect("written");
    assert!(page.contains("c-FCFS, before") && page.contains("c-FCFS, after"));
    cavy.write("nothing.json", "{}");
    assert_eq!(cavy.call(&["compare", "one", "nothing.json"]).status.code(), Some(2));
    assert_eq!(cavy.call(&["compare", "one", "nowhere"]).status.code(), Some(2));
}
