//! The examples of textbooks, by name, each in the form in which a user would write it.

use cavy_check::read::{self, Format};
use cavy_check::{Model, Options, Verdict, judge};

fn verdict(lines: &[&str], model: Model) -> Verdict {
    let text = lines.join("\n");
    let history = read::read(text.as_bytes(), Some(Format::Json)).expect("a history");
    judge(&history, Options { model, shown: 5 }).expect("values differ")
}

fn names(lines: &[&str]) -> Vec<String> {
    let verdict = verdict(lines, Model::Serializable);
    verdict.counts.keys().map(ToString::to_string).collect()
}

/// A read-only transaction that shows the order of a list.
const SHOW_X: &str = r#"{"txn":"s","ops":[["r","x",[1,2]]]}"#;

#[test]
fn g0_dirty_write_adya_h_wcycle() {
    let found = verdict(
        &[
            r#"{"txn":"a","ops":[["append","x",1],["append","y",1]]}"#,
            r#"{"txn":"b","ops":[["append","x",2],["append","y",2]]}"#,
            SHOW_X,
            r#"{"txn":"t","ops":[["r","y",[2,1]]]}"#,
        ],
        Model::ReadUncommitted,
    );
    assert!(!found.holds);
    let first = &found.anomalies[0];
    assert_eq!((first.name.to_string().as_str(), first.pattern), ("G0", Some("dirty write")));
}

#[test]
fn g1a_aborted_read() {
    let lines = [
        r#"{"txn":"a","outcome":"aborted","ops":[["append","x",1]]}"#,
        r#"{"txn":"b","ops":[["r","x",[1]]]}"#,
    ];
    assert_eq!(names(&lines), ["G1a"]);
    assert!(verdict(&lines, Model::ReadUncommitted).holds);
    assert!(!verdict(&lines, Model::ReadCommitted).holds);
}

#[test]
fn g1b_intermediate_read() {
    let lines =
        [r#"{"txn":"a","ops":[["w","x",1],["w","x",2]]}"#, r#"{"txn":"b","ops":[["r","x",1]]}"#];
    assert_eq!(names(&lines), ["G1b"]);
}

#[test]
fn g1c_circular_information_flow() {
    let lines = [
        r#"{"txn":"a","ops":[["append","x",1],["r","y",[2]]]}"#,
        r#"{"txn":"b","ops":[["append","y",2],["r","x",[1]]]}"#,
    ];
    assert_eq!(names(&lines), ["G1c"]);
}

#[test]
fn g_single_lost_update() {
    let lines = [
        r#"{"txn":"a","ops":[["r","x",null],["w","x",1]]}"#,
        r#"{"txn":"b","ops":[["r","x",null],["w","x",2]]}"#,
    ];
    let found = verdict(&lines, Model::Serializable);
    assert_eq!(found.anomalies[0].pattern, Some("lost update"));
}

#[test]
fn g_single_read_skew_adya_h1_and_h2() {
    let h1 = [
        r#"{"txn":1,"ops":[["rw","x",null,11],["rw","y",null,19]]}"#,
        r#"{"txn":2,"ops":[["r","x",11],["r","y",null]]}"#,
    ];
    assert_eq!(names(&h1), ["G-single"]);
    let h2 = [
        r#"{"txn":1,"ops":[["rw","x",null,11],["rw","y",null,19]]}"#,
        r#"{"txn":2,"ops":[["r","x",null],["r","y",19]]}"#,
    ];
    assert_eq!(names(&h2), ["G-single"]);
    assert!(!verdict(&h2, Model::SnapshotIsolation).holds);
}

#[test]
fn g2_write_skew() {
    let lines = [
        r#"{"txn":"a","ops":[["r","x",null],["w","y",1]]}"#,
        r#"{"txn":"b","ops":[["r","y",null],["w","x",2]]}"#,
    ];
    assert_eq!(names(&lines), ["G2-item"]);
    assert!(verdict(&lines, Model::SnapshotIsolation).holds);
    let found = verdict(&lines, Model::Serializable);
    assert_eq!(found.anomalies[0].pattern, Some("write skew"));
    assert_eq!(found.anomalies[0].steps.len(), 2);
}

#[test]
fn g_nonadjacent_long_fork() {
    let lines = [
        r#"{"txn":"a","ops":[["w","x",1]]}"#,
        r#"{"txn":"b","ops":[["w","y",1]]}"#,
        r#"{"txn":"c","ops":[["r","x",1],["r","y",null]]}"#,
        r#"{"txn":"d","ops":[["r","x",null],["r","y",1]]}"#,
    ];
    assert_eq!(names(&lines), ["G-nonadjacent"]);
    let found = verdict(&lines, Model::SnapshotIsolation);
    assert!(!found.holds);
    assert_eq!(found.anomalies[0].pattern, Some("long fork"));
}

#[test]
fn elle_internal_incompatible_order_duplicate_and_phantom() {
    let internal = [r#"{"txn":"a","ops":[["w","x",1],["r","x",null]]}"#];
    assert_eq!(names(&internal), ["internal"]);
    let lines = [
        r#"{"txn":"a","ops":[["append","x",1],["append","y",5]]}"#,
        r#"{"txn":"b","ops":[["append","x",2]]}"#,
        SHOW_X,
        r#"{"txn":"t","ops":[["r","x",[2]],["r","y",[5,5]],["r","z",[9]]]}"#,
    ];
    assert_eq!(names(&lines), ["phantom-value", "duplicate-element", "incompatible-order"]);
}

#[test]
fn strict_order_is_an_option() {
    let lines = [
        r#"{"txn":"a","client":1,"regions":[0],"invoke_ns":0,"complete_ns":5,"ops":[["w","x",1]]}"#,
        r#"{"txn":"b","client":1,"regions":[0],"invoke_ns":6,"complete_ns":9,"ops":[["r","x"]]}"#,
    ];
    let plain = verdict(&lines, Model::Serializable);
    assert!(plain.holds, "counted, not forbidden");
    assert_eq!(plain.anomalies[0].name.to_string(), "G-single-realtime");
    for model in
        [Model::StrictSerializable, Model::SessionSerializable, Model::RegionalSerializable]
    {
        assert!(!verdict(&lines, model).holds, "{model:?}");
    }
}

#[test]
fn replicas_must_agree() {
    let lines = [
        r#"{"txn":"a","ops":[["w","x"]]}"#,
        r#"{"txn":"b","ops":[["w","x"]]}"#,
        r#"{"txn":"c","ops":[["w","x"]]}"#,
        r#"{"replica":"r1","shard":0,"applied":[["x","a"],["x","b"],["x","b"]],"state":"1f"}"#,
        r#"{"replica":"r2","shard":0,"applied":[["x","b"],["x","q"]],"state":"2e"}"#,
        r#"{"quiescent":true}"#,
    ];
    let expected = ["duplicate-write", "lost-write", "replica-divergence", "state-divergence"];
    assert_eq!(names(&lines), expected);
}

#[test]
fn jepsens_edn_reads_as_json_does() {
    let edn = "[{:type :invoke, :process 0, :f :txn, :value [[:append x 1] [:r y nil]]}\n\
               {:type :invoke, :process 1, :f :txn, :value [[:append y 2] [:r x nil]]}\n\
               #jepsen.history.Op{:type :ok, :process 0, :value [[:append x 1] [:r y [2]]]}\n\
               {:type :ok, :process 1, :f :txn, :value [[:append y 2] [:r x [1]]]}]";
    let history = read::read(edn.as_bytes(), None).expect("a history");
    let verdict = judge(&history, Options::default()).expect("values differ");
    let names: Vec<String> = verdict.counts.keys().map(ToString::to_string).collect();
    assert_eq!(names, ["G1c"]);
}

#[test]
fn what_is_no_history_is_refused_by_line_and_field() {
    let check = |text: &str, line: u64, part: &str| {
        let error = read::read(text.as_bytes(), Some(Format::Json)).expect_err(text);
        assert_eq!(error.line, line, "{error:?}");
        assert!(error.message.contains(part), "{error:?}");
        assert!(!error.hint.is_empty());
    };
    check("", 0, "no transaction");
    check("{", 1, "no JSON");
    check("[]", 1, "no object");
    check("{\"txn\":1,\"ops\":[]}\n{\"txn\":1,\"ops\":[]}", 2, "`txn` 1");
    check("{\"txn\":1,\"ops\":[[\"apend\",1,2]]}", 1, "`ops[0][0]`");
    check("{\"txn\":1,\"ops\":[],\"invoke_ns\":5,\"complete_ns\":4}", 1, "`complete_ns`");
    check("{\"type\":\"ok\",\"process\":1,\"value\":[]}", 1, "process 1");
    for edn in ["[[[[", "{:type :ok", "\"", "{:a {:b", &"[".repeat(100_000)] {
        assert!(read::read(edn.as_bytes(), Some(Format::Edn)).is_err());
    }
}
