//! Recorded requests in logs, and the moments in them.

use cavy_kinds::moment::{iso_ns, log_ns};
use cavy_kinds::server::plan::{Stamp, TraceFormat, TracePlan, Unit};
use cavy_kinds::server::{Logged, logged};
use cavy_study::plan::Files;

const SECOND_NS: u64 = 1_000_000_000;

fn plan(format: TraceFormat, stamp: Stamp, unit: Unit) -> TracePlan {
    let text = |text: &str| text.to_string();
    let (time, kind, service) = match format {
        TraceFormat::Combined => (String::new(), String::new(), String::new()),
        _ => (text("at"), text("http.route"), text("took")),
    };
    TracePlan { file: text("access.log"), format, stamp, time, kind, service, unit }
}

/// What a log of these lines has, or what is wrong with it and how to mend it.
fn read(plan: &TracePlan, lines: &str) -> Result<Vec<Logged>, String> {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("access.log"), lines).expect("a file");
    let files = Files::beside(&folder.path().join("plan.toml"));
    logged(plan, &files).map_err(|error| format!("{error} {:?}", error.hints))
}

fn one(plan: &TracePlan, line: &str) -> Result<Logged, String> {
    read(plan, line).map(|all| all.into_iter().next().expect("a request"))
}

#[test]
fn times_since_1970_keep_their_nanoseconds() {
    let at = |cell: &str, unit| {
        let line = format!(r#"{{"at":"{cell}","http":{{"route":"/a"}},"took":1}}"#);
        one(&plan(TraceFormat::Json, Stamp::Arrival, unit), &line).map(|one| one.at_ns)
    };
    for (cell, unit, ns) in [
        ("1763878820000000225", Unit::Ns, 1_763_878_820_000_000_225),
        ("1763878820000000.2255", Unit::Us, 1_763_878_820_000_000_226),
        ("1763878820.000000225", Unit::S, 1_763_878_820_000_000_225),
        ("0.5", Unit::Ns, 1),
        ("12", Unit::Ms, 12_000_000),
        ("3.", Unit::Us, 3_000),
        ("1e3", Unit::Ns, 1_000),
    ] {
        assert_eq!(at(cell, unit), Ok(ns), "{cell}");
    }
    for cell in ["", "-1", "99999999999999999999", "9000000000000000001"] {
        assert!(at(cell, Unit::Ns).is_err(), "{cell}");
    }
}

#[test]
fn an_access_log_names_type_and_time() {
    let nginx = plan(TraceFormat::Combined, Stamp::End, Unit::S);
    let line = "10.0.0.7 - - [23/Nov/2025:06:20:20 +0000] \"GET /users/7?x=1 HTTP/1.1\" 200 512 \
                \"-\" \"Mozilla/5.0 (X11)\" 0.012";
    let found = one(&nginx, line).expect("a line of nginx");
    // A request alone in its second ended in the middle of it.
    let ended_ns = 1_763_878_820 * SECOND_NS + SECOND_NS / 2;
    assert_eq!((found.at_ns, found.service_ns), (ended_ns - 12_000_000, 12_000_000));
    assert_eq!(found.name, "/users");
    let by = |kind: &str| TracePlan { kind: kind.into(), ..nginx.clone() };
    assert_eq!(one(&by("method"), line).map(|one| one.name), Ok("GET".to_string()));
    assert_eq!(one(&by("status"), line).map(|one| one.name), Ok("200".to_string()));
    assert!(one(&by("agent"), line).is_err_and(|why| why.contains("method")));
    let (short, _) = line.rsplit_once(' ').expect("a last word");
    assert!(one(&nginx, short).is_err_and(|why| why.contains("$request_time")));
    assert!(one(&nginx, "x").is_err());
    assert!(one(&nginx, "[ö\"").is_err());
}

#[test]
fn a_json_line_may_nest() {
    let plan = plan(TraceFormat::Json, Stamp::Arrival, Unit::Ms);
    let line = r#"{"at":"2025-11-23T06:20:20.5Z","http":{"route":"/a"},"took":1.5}"#;
    let found = one(&plan, line).expect("a line");
    assert_eq!(found.name, "/a");
    assert_eq!((found.at_ns, found.service_ns), (1_763_878_820_500_000_000, 1_500_000));
    assert!(one(&plan, "{}").is_err_and(|why| why.contains("`at`")));
    assert!(one(&plan, "nothing").is_err());
}

#[test]
fn requests_of_one_second_are_spread_over_it() {
    let plan = plan(TraceFormat::Json, Stamp::Arrival, Unit::S);
    let line = |at: u32| format!("{{\"at\":{at},\"http\":{{\"route\":\"/a\"}},\"took\":1}}\n");
    let all = read(&plan, &[line(0), line(0), line(1)].concat()).expect("three lines");
    let at: Vec<u64> = all.iter().map(|one| one.at_ns).collect();
    assert_eq!(at, [SECOND_NS / 4, SECOND_NS * 3 / 4, SECOND_NS * 3 / 2]);
}

#[test]
fn moments_are_counted_from_1970() {
    for (text, ns) in [
        ("1970-01-01T00:00:00Z", 0),
        ("2000-02-29T12:00:00.5Z", 951_825_600_500_000_000),
        ("2025-11-23 06:20:20.000000225", 1_763_878_820_000_000_225),
        ("2025-11-23T07:20:20.0000002259+01:00", 1_763_878_820_000_000_225),
        ("2025-11-22T22:50:20-0730", 1_763_878_820_000_000_000),
    ] {
        assert_eq!(iso_ns(text), Some(ns), "{text}");
    }
    assert_eq!(log_ns("23/Nov/2025:07:20:20 +0100"), Some(1_763_878_820_000_000_000));
    for text in [
        "2025-02-29T00:00:00Z",
        "2025-13-01T00:00:00Z",
        "2025-11-23",
        "2025-11-23T25:00:00Z",
        "2025-11-23T00:00Z",
        "1969-12-31T23:59:59Z",
        "2025-11-23T00:00:00+1",
        "",
        "12.5",
    ] {
        assert_eq!(iso_ns(text), None, "{text}");
    }
    assert_eq!(log_ns("23/Nov/2025:07:20:20"), None);
}

/// nginx writes thousandths of a second: what is faster is 0.000 there, and most requests may be.
#[test]
fn requests_faster_than_the_log_can_say_are_half_of_its_last_place() {
    let took = |cell: &str, unit| {
        let line = format!("- - - [23/Nov/2025:07:20:20 +0000] \"GET /a HTTP/1.1\" 200 1 {cell}");
        one(&plan(TraceFormat::Combined, Stamp::Arrival, unit), &line).map(|one| one.service_ns)
    };
    assert_eq!(took("0.000", Unit::S), Ok(500_000));
    assert_eq!(took("0.001", Unit::S), Ok(1_000_000));
    assert_eq!(took("0", Unit::Us), Ok(500));
    assert_eq!(took("0.000", Unit::Ms), Ok(500));
    assert_eq!(took("0", Unit::Ns), Ok(1));
    // Whole seconds (Apache's %T) say nothing of what is faster.
    for cell in ["0", "-", "", "."] {
        let wrong = took(cell, Unit::S).expect_err(cell);
        assert!(wrong.contains("is not how long the request took"), "{wrong}");
    }
}
