//! Every command works for a kind of plan and a source that the project does not know.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn call(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cavy-eighth"));
    command.args(args).current_dir(folder).env("COLUMNS", "100");
    command.output().expect("the command starts")
}

/// What a successful call prints.
fn text(folder: &Path, args: &[&str]) -> String {
    let output = call(folder, args);
    let talk = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {talk}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn json(folder: &Path, args: &[&str]) -> Value {
    serde_json::from_str(&text(folder, args)).expect("one JSON object")
}

#[test]
fn it_is_listed_and_explained() {
    let folder = tempfile::tempdir().expect("a folder");
    let list = text(folder.path(), &["list"]);
    for what in ["erlang.loss", "bucket", "requests that pass a token bucket", "(2 claims)"] {
        assert!(list.contains(what), "{what} in {list}");
    }
    assert!(!list.contains("persephone"), "{list}");
    let claim = json(folder.path(), &["explain", "erlang.loss.half", "--json"]);
    assert_eq!(claim["claims"][0]["source"], "Erlang's loss formula");
    assert!(text(folder.path(), &["explain", "loss"]).contains("Loss by rate"));
}

#[test]
fn it_is_reproduced_with_the_file_that_the_program_carries() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = json(folder.path(), &["reproduce", "--json"]);
    let verdicts: Vec<&Value> =
        made["claims"].as_array().expect("claims").iter().map(|c| &c["verdict"]).collect();
    assert_eq!(verdicts, ["reproduced", "reproduced"], "{made}");
    let again = json(folder.path(), &["reproduce", "erlang.loss", "--json", "--resume"]);
    assert_eq!(made["digest"], again["digest"]);
    let report = folder.path().join("cavy-out/report.html");
    let page = std::fs::read_to_string(report).expect("a report");
    assert!(page.contains("found no token"), "the facts are the kind's own");
}

#[test]
fn a_plan_is_written_checked_run_searched_and_ranked() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    text(folder, &["plan", "new", "mine.toml", "--template", "bucket"]);
    assert!(text(folder, &["plan", "check", "mine.toml"]).contains("requests"));
    let ran = json(folder, &["run", "mine.toml", "--json", "--set", "shapers.shape.queue=8"]);
    assert_eq!(ran["points"].as_array().expect("points").len(), 8);
    assert_eq!(ran["points"][0]["shaper"], "policer");
    // The fewest tokens that will do; whoever lets requests wait needs fewer.
    let tokens = |place: usize| ran["capacity"][place]["tokens"].as_f64().expect("a number");
    assert!(tokens(1) < tokens(0) && tokens(0) <= 64.0, "{}", ran["capacity"]);
    assert_eq!(ran["ranking"][0]["rows"][0]["label"], "shaper");
    let table = text(folder, &["run", "mine.toml"]);
    assert!(table.contains("fewest tokens") && table.contains("wait"), "{table}");
    let jobs = json(folder, &["run", "mine.toml", "--json", "--jobs", "1", "--out", "one"]);
    let twice = json(folder, &["run", "mine.toml", "--json", "--twice", "--out", "two"]);
    assert_eq!(jobs["digest"], twice["digest"]);
    let resumed = json(folder, &["run", "mine.toml", "--json", "--resume", "--out", "two"]);
    assert_eq!(jobs["digest"], resumed["digest"]);
    let svg = std::fs::read_dir(folder.join("cavy-out/svg")).expect("pictures").count();
    assert_eq!(svg, 4, "a curve and a timeline, light and dark");
    // What the kind draws has the objective's line and the fewest tokens; what it does not draw
    // becomes a panel.
    let panels = |objectives: &str| -> Vec<Value> {
        text(folder, &["run", "mine.toml", "--set", objectives]);
        let report = std::fs::read_to_string(folder.join("cavy-out/report.json")).expect("there");
        let report: Value = serde_json::from_str(&report).expect("one object");
        report["figures"][0]["panels"].as_array().expect("panels").clone()
    };
    let lines = |panel: &Value| panel["rules"].to_string();
    let one = panels("objectives=['dropped_ratio <= 1%']");
    assert_eq!(one.len(), 2, "{one:?}");
    assert!(lines(&one[0]).contains("objective: 1%"), "{}", lines(&one[0]));
    assert!(lines(&one[0]).contains("meets it from"), "{}", lines(&one[0]));
    let both = panels("objectives=['dropped_ratio <= 1%', 'wait_ms <= 20']");
    assert_eq!(both.len(), 3, "{both:?}");
    assert!(!lines(&both[0]).contains("20 ms"), "{}", lines(&both[0]));
    assert!(lines(&both[1]).contains("objective: 20 ms"), "{}", lines(&both[1]));
}

#[test]
fn its_schema_and_its_mistakes_are_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let schema = json(folder, &["plan", "schema", "bucket"]);
    assert!(schema["properties"]["tokens"].is_object(), "{schema}");
    assert!(schema["properties"]["run"]["properties"]["requests"].is_object(), "{schema}");
    text(folder, &["plan", "new", "mine.toml", "--template", "bucket"]);
    for (set, says) in [
        ("tokens=0", "`tokens` is 0; it must be 1 to 1000"),
        ("objectives=['p99_us <= 3']", "has the unknown metric `p99_us`"),
        ("shapers.police.queue=3", "`queue` is a key of shape"),
    ] {
        let output = call(folder, &["run", "mine.toml", "--set", set]);
        let talk = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{set}: {talk}");
        assert!(talk.contains(says), "{set}: {talk}");
    }
    let plan = std::fs::read_to_string(folder.join("mine.toml")).expect("written above");
    std::fs::write(folder.join("other.toml"), plan.replace("\"bucket\"", "\"bukket\""))
        .expect("a file");
    let output = call(folder, &["run", "other.toml"]);
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(talk.contains("did you mean `bucket`?"), "{talk}");
}

#[test]
fn a_sweep_of_two_keys_is_drawn_as_panels_that_compare_the_contestants() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    text(folder, &["plan", "new", "mine.toml", "--template", "bucket"]);
    let rates = "sweep.rate_per_s=[70, 80, 90, 95]";
    let tokens = "sweep.tokens=[1, 4, 16, 32, 64]";
    text(folder, &["run", "mine.toml", "--set", rates, "--set", tokens, "--set", "objectives=[]"]);
    let report = std::fs::read_to_string(folder.join("cavy-out/report.json")).expect("a report");
    let report: Value = serde_json::from_str(&report).expect("one object");
    let panels = report["figures"][0]["panels"].as_array().expect("panels");
    let dropped = panels.iter().filter(|panel| panel["title"].to_string().contains("dropped"));
    let dropped: Vec<&Value> = dropped.collect();
    // Five values of tokens are more than four rates, so tokens are on the axis.
    assert_eq!(dropped.len(), 4, "one for each rate");
    for (panel, rate) in dropped.iter().zip(["70", "80", "90", "95"]) {
        assert!(panel["title"].to_string().contains(rate), "{panel}");
        assert_eq!(panel["x"]["label"], "tokens that the bucket holds");
        assert_eq!(panel["y"]["max"], dropped[0]["y"]["max"]);
        let labels: Vec<&Value> =
            panel["series"].as_array().expect("lines").iter().map(|line| &line["label"]).collect();
        assert_eq!(labels, ["policer", "shaper"]);
    }
}
