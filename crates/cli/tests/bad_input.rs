//! Every mistake gives one sentence and a hint, exit code 2, no panic, and nothing half-written.

mod cavy;

use cavy::{Cavy, PLAN};

/// Snapshots what the calls print; all must fail with 2, say `error:` once, and not panic.
fn check(name: &str, cavy: &Cavy, calls: &[&[&str]]) {
    for args in calls {
        let output = cavy.call(args);
        let talk = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {talk}");
        assert_eq!(talk.matches("error:").count(), 1, "{args:?}: {talk}");
        assert!(!talk.contains("panicked"), "{args:?}: {talk}");
    }
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"requests, about .* of memory", "requests, about [COST]");
    settings.add_filter(r"about [^;,\n]* on 1 core", "about [TIME] on 1 core");
    settings.add_filter(
        r"about [^;\n]* of memory; .* are free",
        "about [SIZE] of memory; [SIZE] are free",
    );
    settings.bind(|| insta::assert_snapshot!(name, cavy.transcript(calls)));
}

/// As [`check`], for plans: the small plan with one text replaced by another.
fn check_plans(name: &str, edits: &[(&str, &str)]) {
    let cavy = Cavy::new();
    let mut files = Vec::new();
    for (index, (from, to)) in edits.iter().enumerate() {
        assert!(PLAN.contains(from), "{from}");
        let file = format!("plan{index}.toml");
        cavy.write(&file, PLAN.replacen(from, to, 1));
        files.push(file);
    }
    let calls: Vec<Vec<&str>> = files.iter().map(|file| vec!["run", file.as_str()]).collect();
    let calls: Vec<&[&str]> = calls.iter().map(Vec::as_slice).collect();
    check(name, &cavy, &calls);
    assert_eq!(cavy.files("cavy-out"), [""; 0], "a plan that is wrong writes nothing");
}

#[test]
fn files_that_cannot_be_read() {
    let cavy = Cavy::new();
    cavy.write("binary.toml", [0xff, 0xfe, 0x00]);
    cavy.write("empty.toml", "");
    std::fs::create_dir(cavy.path("folder")).expect("a folder");
    check(
        "files",
        &cavy,
        &[
            &["run", "nothing.toml"],
            &["run", "folder"],
            &["run", "binary.toml"],
            &["run", "empty.toml"],
            &["plan", "check", "nothing.toml"],
        ],
    );
}

#[test]
fn keys_and_values_that_do_not_fit() {
    check_plans(
        "keys",
        &[
            ("workers = 4", "wrokers = 4"),
            ("workers = 4", "workers ="),
            ("workers = 4", "workers = 4\nworkers = 5"),
            ("workers = 4", "workers = 0"),
            ("workers = 4", "workers = 70000"),
            ("workers = 4", "workers = \"four\""),
            ("workers = 4", "workers = 4\nload = nan"),
            ("workers = 4", "workers = 4\nload = -0.5"),
            ("window = 1000", "windwo = 1000"),
            ("window = 1000", "slice_us = 5"),
            ("\"c_fcfs\"", "\"c_fsfs\""),
            ("\"exponential\"", "\"exponental\""),
            ("mean_us = 10", "mean_us = nan"),
            ("mean_us = 10", "mean_us = -10"),
            ("mean_us = 10", "mean_us = 0"),
            ("mean_us = 10", "mean_us = 1e300"),
            ("us = 100", "us = \"100\""),
            ("share = 0.9", "share = 0.8"),
            ("share = 0.9", "share = nan"),
            ("name = \"get\"", "name = \"scan\""),
            ("p99_slowdown <= 10", "p98_slowdown <= 10"),
            ("\"p99_slowdown <= 10\"", "'p99_us <= 10 for \"gte\"'"),
            ("[0.2, 0.4, 0.6, 0.8]", "[]"),
            ("[0.2, 0.4, 0.6, 0.8]", "{ from = 0, to = 1, step = 1e-300 }"),
            ("load = [0.2, 0.4, 0.6, 0.8]", "laod = [0.2]"),
            ("requests = 20_000", "requests = 10"),
            ("replications = 2", "replications = 0"),
        ],
    );
}

#[test]
fn overrides_that_do_not_fit() {
    let cavy = Cavy::with_plan();
    let deep = format!("{}=1", ["a"; 50_000].join("."));
    let output = cavy.call(&["run", "plan.toml", "--set", &deep]);
    assert_eq!(output.status.code(), Some(2), "a path without end is refused");
    let long = format!("load={}", "[".repeat(50_000));
    let output = cavy.call(&["run", "plan.toml", "--set", &long]);
    assert_eq!(output.status.code(), Some(2), "a value without end is refused");
    let with = |text| ["run", "plan.toml", "--set", text];
    check(
        "overrides",
        &cavy,
        &[
            &with("load"),
            &with("=1"),
            &with("load="),
            &with("load=many"),
            &with("a.b.c=1"),
            &with("plicies=1"),
            &with("types.gte.share=1"),
            &with("workers.x=1"),
            &with("…=…"),
            &with("workers=1e9"),
        ],
    );
}

#[test]
fn arguments_that_do_not_fit() {
    let cavy = Cavy::with_plan();
    check(
        "arguments",
        &cavy,
        &[
            &["reproduce", "fig99"],
            &["reproduce", "persephnoe"],
            &["reproduce", "--quick", "--full"],
            &["run"],
            &["run", ""],
            &["run", "plan.toml", "--jobs", "0"],
            &["run", "plan.toml", "--jobs", "many"],
            &["run", "plan.toml", "--seed", "-1"],
            &["run", "plan.toml", "--seed", "18446744073709551615"],
            &["run", "plan.toml", "--precision", "0"],
            &["run", "plan.toml", "--precision", "200%"],
            &["run", "plan.toml", "--precision", "fine"],
            &["run", "plan.toml", "--queue", "pile"],
            &["explain", "persephone.nothing.at.all"],
            &["plan", "new", "--template", "mesured"],
            &["plan", "new", "plan.toml"],
            &["plan", "new", "."],
            &["plan", "new", "nowhere/plan.toml"],
            &["completions", "tcsh"],
        ],
    );
}

const NODES: &str = "name,lat,lon
frankfurt,50.11,8.68
virginia,38.95,-77.45
tokyo,35.68,139.69
alice,48.85,2.35
";
const PAIRS: &str = "from,to,rtt_ms\nalice,frankfurt,14.2\nalice,virginia,95\n";

#[test]
fn measurements_that_cannot_be_fitted() {
    let cavy = Cavy::new();
    cavy.write("nodes.csv", NODES);
    cavy.write("pairs.csv", PAIRS);
    let mut calls: Vec<Vec<String>> = Vec::new();
    let mut call = |words: &[&str]| {
        let words = ["coords", "fit"].iter().chain(words);
        calls.push(words.map(|word| word.to_string()).collect());
    };
    for (name, text) in [
        ("none.csv", ""),
        ("head.csv", "from,to,rtt_ms\n"),
        ("column.csv", "from,to\nalice,tokyo\n"),
        ("twice.csv", "from,to,rtt_ms,rtt_ms\nalice,tokyo,20,30\n"),
        ("nan.csv", "from,to,rtt_ms\nalice,tokyo,NaN\n"),
        ("negative.csv", "from,to,rtt_ms\nalice,tokyo,-3\n"),
        ("infinite.csv", "from,to,rtt_ms\nalice,tokyo,1e400\n"),
        ("gap.csv", "from,to,rtt_ms\nalice,tokyo,\n"),
        ("unit.csv", "from,to,rtt_ms\nalice,tokyo,20ms\n"),
        ("short.csv", "from,to,rtt_ms\nalice,tokyo\n"),
        ("stranger.csv", "from,to,rtt_ms\nalice,zed,20\n"),
        ("itself.csv", "from,to,rtt_ms\nalice,alice,20\n"),
        ("times.csv", "from,to,rtt_ms,time_s\nalice,tokyo,20,5\nalice,tokyo,20,nan\n"),
    ] {
        cavy.write(name, text);
        call(&["--nodes", "nodes.csv", "--pairs", name]);
    }
    for (name, text) in [
        ("n-none.csv", ""),
        ("n-head.csv", "name\n"),
        ("n-lat.csv", "name,lat\na,3\nb,4\n"),
        ("n-far.csv", "name,lat,lon\na,91,300\nb,0,0\n"),
        ("n-nan.csv", "name,lat,lon\na,NaN,0\nb,0,0\n"),
        ("n-asn.csv", "name,lat,lon,asn\na,1,1,AS64496\nb,0,0,\n"),
        ("n-nowhere.csv", "name\nfrankfurt\nvirginia\ntokyo\nalice\n"),
    ] {
        cavy.write(name, text);
        call(&["--nodes", name, "--pairs", "pairs.csv"]);
    }
    cavy.write("empty-cells.csv", ",,,\n,,,\n,,,\n,,,\n");
    call(&["--nodes", "nodes.csv", "--matrix", "empty-cells.csv"]);
    call(&["--nodes", "nodes.csv", "--matrix", "pairs.csv"]);
    cavy.write("broken.mmdb", [7_u8; 3_000]);
    cavy.write("ip.csv", "name,ip\nfrankfurt,192.0.2.1\nvirginia,\ntokyo,\nalice,\n");
    call(&["--nodes", "ip.csv", "--pairs", "pairs.csv", "--mmdb", "broken.mmdb"]);
    call(&["--nodes", "missing.csv", "--pairs", "pairs.csv"]);
    call(&["--nodes", "nodes.csv", "--pairs", "."]);
    call(&["--nodes", "nodes.csv"]);
    call(&["--nodes", "nodes.csv", "--pairs", "pairs.csv", "--out", "no/space.json"]);
    call(&["--nodes", "nodes.csv", "--pairs", "pairs.csv", "--seed", "-1"]);
    // A thousand million lines: refused by the size of the file. It has holes and takes no room.
    cavy.write("long.csv", PAIRS.to_string() + &"alice,tokyo,230.5\n".repeat(5_000));
    let file = std::fs::OpenOptions::new().append(true).open(cavy.path("long.csv"));
    file.and_then(|file| file.set_len(18_000_000_000)).expect("a file with a hole");
    call(&["--nodes", "nodes.csv", "--pairs", "long.csv"]);
    let calls: Vec<Vec<&str>> =
        calls.iter().map(|call| call.iter().map(String::as_str).collect()).collect();
    let calls: Vec<&[&str]> = calls.iter().map(Vec::as_slice).collect();
    check("coords_fit", &cavy, &calls);
    assert!(!cavy.path("space.json").exists(), "nothing is written for what cannot be fitted");
}

#[test]
fn spaces_that_cannot_be_asked() {
    let cavy = Cavy::new();
    cavy.write("nodes.csv", NODES);
    cavy.write("pairs.csv", PAIRS);
    let fitted = cavy.call(&["coords", "fit", "--nodes", "nodes.csv", "--pairs", "pairs.csv"]);
    assert!(fitted.status.success(), "{fitted:?}");
    let node = |name: &str, more: &str| {
        format!("{{\"name\":\"{name}\",\"lat\":9,\"lon\":0,\"height_ms\":1,\"error\":0.3{more}}}")
    };
    let space = |nodes: &[String]| {
        let nodes = nodes.join(",");
        format!("{{\"version\":1,\"ms_per_km\":0.01,\"base_ms\":1,\"nodes\":[{nodes}]}}")
    };
    let odd = [
        ("torn.json", "{\"version\":1,".to_string()),
        ("newer.json", space(&[]).replace("\"version\":1", "\"version\":2")),
        ("nobody.json", space(&[])),
        ("slope.json", space(&[node("a", "")]).replace("0.01", "-1")),
        ("height.json", space(&[node("a", "")]).replace("\"height_ms\":1", "\"height_ms\":-1")),
        ("twins.json", space(&[node("a", ""), node("a", "")])),
        ("past.json", space(&[node("a", ",\"measured_ms\":{\"b\":-5}"), node("b", "")])),
        (
            "unseen.json",
            space(&[node("a", "")]).replace("\"nodes\"", "\"unseen\":[[5,6],[4,0]],\"nodes\""),
        ),
    ];
    for (name, text) in &odd {
        cavy.write(name, text);
    }
    let mut calls: Vec<Vec<&str>> =
        odd.iter().map(|(name, _)| vec!["coords", "predict", *name, "--from", "a"]).collect();
    for words in [
        &["predict", "missing.json", "--from", "a"][..],
        &["predict", "space.json", "--from", "zed"],
        &["predict", "space.json", "--from", "alice", "--to", "tokyo,"],
        &["rank", "space.json", "--for", "alice", "--among", "tokyo,tokyo"],
        &["rank", "space.json", "--for", "alice", "--below", "75"],
        &["rank", "space.json", "--for", "alice", "--below", "-75"],
        &["rank", "space.json", "--for", "alice", "--below", "soon"],
        &["place", "space.json", "--sites", "0"],
        &["place", "space.json", "--sites", "-1"],
        &["place", "space.json", "--sites", "5"],
        &["place", "space.json", "--sites", "1", "--map", "no/sites.svg"],
    ] {
        calls.push(["coords"].iter().chain(words).copied().collect());
    }
    let calls: Vec<&[&str]> = calls.iter().map(Vec::as_slice).collect();
    check("coords_ask", &cavy, &calls);
}

#[test]
fn traces_that_cannot_be_used() {
    let cavy = Cavy::new();
    let good: String = (0..200).map(|i| format!("{i},get,1\n")).collect();
    let rows = |head: &str, rest: &str| format!("{head}\n{rest}");
    for (name, text) in [
        ("empty.csv", String::new()),
        ("head.csv", rows("at,kind,busy", "")),
        ("short.csv", rows("at,kind,busy", "1,get,1\n")),
        ("ragged.csv", rows("at,kind,busy", "1,get,1\n2,get\n")),
        ("word.csv", rows("at,kind,busy", "1,get,1\n2,get,soon\n")),
        ("negative.csv", rows("at,kind,busy", "1,get,1\n2,get,-3\n")),
        ("nan.csv", rows("at,kind,busy", "1,get,1\n2,get,NaN\n")),
        ("huge.csv", rows("at,kind,busy", "1,get,1\n2,get,1e300\n")),
        ("unsorted.csv", rows("at,kind,busy", "1,get,1\n3,get,1\n2,get,1\n")),
        ("column.csv", rows("at,type,busy", &good)),
        ("good.csv", rows("at,kind,busy", &good)),
    ] {
        cavy.write(name, text);
        let plan = format!(
            "kind = \"server\"\ntitle = \"Trace\"\nworkers = 2\n[[policies]]\npolicy = \
             \"c_fcfs\"\n[trace]\nfile = \"{name}\"\ntime = \"at\"\ntype = \"kind\"\nservice = \
             \"busy\"\nunit = \"us\"\n"
        );
        cavy.write(&name.replace("csv", "toml"), plan);
    }
    cavy.write("latin.csv", b"at,kind,busy\n1,caf\xe9,1\n");
    let plan = std::fs::read_to_string(cavy.path("good.toml")).expect("written above");
    cavy.write("latin.toml", plan.replace("good.csv", "latin.csv"));
    cavy.write("missing.toml", plan.replace("good.csv", "missing.csv"));
    // What a trace says itself cannot be said again, and is not ignored in silence.
    cavy.write(
        "typed.toml",
        format!(
            "{plan}[[types]]\nname = \"a\"\nshare = 1\nservice = {{ dist \
             = \"constant\", us = 1 }}\n"
        ),
    );
    cavy.write("arrivals.toml", format!("{plan}[arrivals]\nprocess = \"constant\"\n"));
    cavy.write("objective.toml", format!("objectives = [\"p99_us <= 5\"]\n{plan}"));
    let names = [
        "typed",
        "arrivals",
        "objective",
        "missing",
        "empty",
        "head",
        "short",
        "ragged",
        "word",
        "negative",
        "nan",
        "huge",
        "unsorted",
        "column",
        "latin",
    ];
    let files: Vec<String> = names.iter().map(|name| format!("{name}.toml")).collect();
    let calls: Vec<[&str; 2]> = files.iter().map(|file| ["run", file.as_str()]).collect();
    let calls: Vec<&[&str]> = calls.iter().map(<[&str; 2]>::as_slice).collect();
    check("traces", &cavy, &calls);
    let output = cavy.call(&["run", "good.toml"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn runs_that_would_take_too_long_or_too_much() {
    let cavy = Cavy::with_plan();
    check(
        "cost",
        &cavy,
        &[
            &["run", "plan.toml", "--jobs", "1", "--set", "run.requests=1_000_000_000"],
            &["run", "plan.toml", "--jobs", "1", "--set", "run.timeline_ms=0.000001"],
        ],
    );
    assert_eq!(cavy.files("cavy-out"), [""; 0], "a run that is refused writes nothing");
}

#[test]
fn folders_that_cannot_be_written() {
    let cavy = Cavy::with_plan();
    std::fs::create_dir_all(cavy.path("taken/report.html")).expect("a folder");
    check(
        "folders",
        &cavy,
        &[
            &["run", "plan.toml", "--jobs", "1", "--out", "plan.toml"],
            &["run", "plan.toml", "--jobs", "1", "--out", "plan.toml/deeper"],
            &["run", "plan.toml", "--jobs", "1", "--out", "taken"],
            &["reproduce", "--out", "plan.toml"],
        ],
    );
    let plan = std::fs::read_to_string(cavy.path("plan.toml")).expect("the plan is still there");
    assert_eq!(plan, PLAN);
}

#[test]
fn a_reader_that_leaves_early_is_no_mistake() {
    let cavy = Cavy::new();
    let mut child = cavy
        .command(&["plan", "schema"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the command starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"));
    assert!(output.status.success());
}

/// A device has no end; no plan is that long.
#[test]
fn a_file_without_end_is_no_plan() {
    let cavy = Cavy::new();
    let output = cavy.call(&["plan", "check", "/dev/zero"]);
    let talk = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{talk}");
    assert!(talk.contains("longer than 16 MB"), "{talk}");
}

/// Nor is it a history, a report, a log, traces, measurements or the data of a plan.
#[test]
fn a_file_without_end_is_nothing_to_read() {
    let cavy = Cavy::new();
    let plan = "kind = \"coords\"\ntitle = \"t\"\nprobes_per_node = 1\n\
                data = { name = \"matrix\", file = \"/dev/zero\", nodes = \"/dev/zero\" }\n\
                [[predictors]]\npredictor = \"serf\"\n";
    std::fs::write(cavy.path("endless.toml"), plan).expect("a plan");
    for command in [
        &["check", "/dev/zero"][..],
        &["compare", "/dev/zero", "/dev/zero"],
        &["ask", "/dev/zero"],
        &["ask", "--latencies", "/dev/zero"],
        &["ask", "--busy-times", "/dev/zero"],
        &["plan", "from-traces", "/dev/zero"],
        &["coords", "fit", "--nodes", "/dev/zero", "--pairs", "/dev/zero"],
        &["plan", "check", "endless.toml"],
    ] {
        let output = cavy.call(command);
        let talk = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{command:?}: {talk}");
        assert!(talk.contains("it is a device, which may have no end"), "{command:?}: {talk}");
    }
}

#[test]
fn a_check_says_what_a_run_would_refuse() {
    let cavy = Cavy::with_plan();
    let output = cavy.call(&["plan", "check", "plan.toml", "--set", "run.requests=10_000_000_000"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("ok: ") && said.contains("`cavy run` refuses it"), "{said}");
    assert!(said.contains("`run.requests` is 10"), "{said}");
}

#[test]
fn damaged_results_are_named_and_made_again() {
    let cavy = Cavy::with_plan();
    let whole = cavy.json(&["run", "plan.toml", "--json"]);
    let file = cavy.path("cavy-out/points.jsonl");
    let kept = std::fs::read_to_string(&file).expect("results");
    let other =
        kept.lines().last().expect("a line").replacen("\"version\":\"", "\"version\":\"9", 1);
    let first: Vec<&str> = kept.lines().take(4).collect();
    std::fs::write(&file, format!("{}\nnonsense\n{other}\n", first.join("\n"))).expect("a file");
    let output = cavy.call(&["run", "plan.toml", "--json", "--resume"]);
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(talk.contains("1 line of cavy-out/points.jsonl cannot be read"), "{talk}");
    assert!(talk.contains("1 line of cavy-out/points.jsonl come from another version"), "{talk}");
    let resumed: serde_json::Value = serde_json::from_slice(&output.stdout).expect("an object");
    assert_eq!(resumed["digest"], whole["digest"]);
}

/// A plan says its world: the wrong one, one that its kind does not have, what threads cannot do,
/// and the lab beside a plan for threads.
#[test]
fn worlds_that_do_not_fit() {
    let cavy = Cavy::new();
    let live = PLAN.replacen("kind = \"server\"", "kind = \"server\"\nworld = \"live\"", 1);
    cavy.write("cloud.toml", live.replace("\"live\"", "\"cloud\""));
    cavy.write("late.toml", live.replacen("\nworkers", "\nround_trip_us = 5\nworkers", 1));
    for (file, template) in [("net.toml", "network"), ("regions.toml", "regions")] {
        let made = cavy.call(&["plan", "new", file, "--template", template]);
        assert!(made.status.success(), "{made:?}");
        let plan = std::fs::read_to_string(cavy.path(file)).expect("a plan");
        cavy.write(file, format!("world = \"live\"\n{plan}"));
    }
    cavy.write("live.toml", &live);
    let refused = |args: &[&str], words: &[&str]| {
        let output = cavy.call(args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        for word in words {
            assert!(said.contains(word), "{args:?}: {said}");
        }
    };
    refused(&["run", "cloud.toml"], &["unknown value `cloud`", "known here: lab, live"]);
    refused(
        &["plan", "check", "late.toml"],
        &["`round_trip_us` is for the lab", "take `world = \"lab\"`"],
    );
    refused(
        &["run", "regions.toml"],
        &[
            "`world` is live",
            "no live study for such a plan of kind `regions`",
            "leave `world` out",
        ],
    );
    // What its ports keep is not said, which a testbed must know.
    refused(&["run", "net.toml"], &["`network.buffer`", "per_port_bytes"]);
    refused(&["plan", "check", "live.toml"], &["the type `get` has no constant service time"]);
    let fixed = FIXED.replacen("kind = \"server\"", "kind = \"server\"\nworld = \"live\"", 1);
    cavy.write("live.toml", fixed);
    refused(
        &["run", "live.toml"],
        &[
            "the plan is for the world `live`, not for the lab",
            "`cavy live study --plan live.toml` runs it",
            "`cavy run live.toml --set world=lab` runs the same in the lab",
        ],
    );
    let checked = cavy.call(&["plan", "check", "live.toml"]);
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(
        said.contains("ok: for the world `live`: `cavy live study --plan live.toml`"),
        "{said}"
    );
    let beside = cavy.json(&["run", "live.toml", "--set", "world=lab", "--json"]);
    cavy.write("lab.toml", FIXED);
    let alone = cavy.json(&["run", "lab.toml", "--json"]);
    assert_eq!(beside["digest"], alone["digest"], "the same runs");
}

/// A plan that threads can run.
const FIXED: &str = r#"kind = "server"
title = "Fixed times"
workers = 4
load = 0.3
types = [{ name = "get", share = 1.0, service = { dist = "constant", us = 1000 } }]
policies = [{ policy = "c_fcfs" }]
run = { requests = 2000, replications = 2 }
"#;
