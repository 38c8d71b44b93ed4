//! Plans for networks, from outside: what they print, that they go on, and what a mistake says.

mod cavy;

use cavy::Cavy;

/// A star, two transports, two loads, small.
const NETWORK: &str = r#"kind = "network"
title = "Small network"
objectives = ["p50_slowdown <= 3 for smallest 50%"]

[network]
topology = "star"
hosts = 4
host_gbps = 10

[messages]
workload = "W2"
max_bytes = 50_000

[traffic]
pattern = "all_to_all"

[[transports]]
transport = "fifo"

[[transports]]
transport = "homa"
overcommit = 2

[sweep]
load = [0.3, 0.6]

[run]
messages = 2_000
replications = 2
capacity_step = 0.2
"#;

/// Links of two islands.
const ISLANDS: &str = r#"topology = "links"
hosts = 2
switches = 2
links = [{ from = "h0", to = "s0" }, { from = "h1", to = "s1" }]"#;

/// A star of links, of which some lose packets and hold them up.
const AROUND: &str = r#"topology = "links"
hosts = 4
switches = 1
links = [{ from = "h0", to = "s0", spike_ratio = 0.01, spike_us = [1, 9] },
  { from = "h1", to = "s0", loss_ratio = 0.02, jitter_us = 5 },
  { from = "h2", to = "s0" }, { from = "h3", to = "s0" }]"#;

const OVERTAKING: &str = "overtaking_ratio = 0.1, overtaking_us = 9.0";

/// A host that starts twice.
const TWICE: &str = r#"hosts = 4
starts = [{ host = "h3", at_us = 9 }, { host = "h3", at_us = 10 }]"#;

fn with(edits: &[(&str, &str)]) -> String {
    edits.iter().fold(NETWORK.to_string(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    })
}

/// Snapshots what each plan's run prints; all must fail with 2, say `error:` once, and not panic.
fn check(name: &str, cavy: &Cavy, plans: &[String]) {
    let mut calls = Vec::new();
    for (index, plan) in plans.iter().enumerate() {
        let file = format!("plan{index}.toml");
        cavy.write(&file, plan);
        calls.push(file);
    }
    let calls: Vec<Vec<&str>> = calls.iter().map(|file| vec!["run", file.as_str()]).collect();
    for args in &calls {
        let output = cavy.call(args);
        let talk = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {talk}");
        assert_eq!(talk.matches("error:").count(), 1, "{args:?}: {talk}");
        assert!(!talk.contains("panicked"), "{args:?}: {talk}");
    }
    let calls: Vec<&[&str]> = calls.iter().map(Vec::as_slice).collect();
    insta::assert_snapshot!(name, cavy.transcript(&calls));
    assert_eq!(cavy.files("cavy-out"), [""; 0], "a plan that is wrong writes nothing");
}

#[test]
fn keys_and_values_that_do_not_fit() {
    let star = "topology = \"star\"\nhosts = 4";
    check(
        "network_keys",
        &Cavy::new(),
        &[
            with(&[("hosts = 4", "hots = 4")]),
            with(&[("hosts = 4", "hosts = 0")]),
            with(&[("hosts = 4", "hosts = 4\nracks = 3")]),
            with(&[(star, "topology = \"leaf_spine\"")]),
            with(&[(star, "topology = \"leafspine\"")]),
            with(&[(star, ISLANDS)]),
            with(&[(star, &ISLANDS.replace("h1", "x1"))]),
            with(&[(star, &AROUND.replace("loss_ratio = 0.02", "loss_ratio = 2.0"))]),
            with(&[(star, &AROUND.replace("[1, 9]", "[9, 1]"))]),
            with(&[(star, &AROUND.replace("spike_ratio = 0.01, ", ""))]),
            with(&[(star, &format!("loss_ratio = 0.1\n{AROUND}"))]),
            with(&[(star, &AROUND.replace("jitter_us = 5", "overtaking_us = 5"))]),
            with(&[(star, &AROUND.replace("jitter_us = 5", "overtaking_ratio = 0.1"))]),
            with(&[(star, &AROUND.replace("jitter_us = 5", OVERTAKING).replace("9.0", "-9.0"))]),
            with(&[("hosts = 4", "hosts = 4\nstarts = [{ host = \"h4\", at_us = 9 }]")]),
            with(&[("hosts = 4", "hosts = 4\nstarts = [{ host = \"h3\", at_us = 0 }]")]),
            with(&[("hosts = 4", "hosts = 4\nstarts = [{ host = \"h3\", at_us = 1e8 }]")]),
            with(&[("hosts = 4", TWICE)]),
            with(&[(
                star,
                "topology = \"leaf_spine\"\nracks = 30000\nhosts_per_rack = 1\nspines = 30000",
            )]),
            with(&[("host_gbps = 10", "host_gbps = 0")]),
            with(&[("host_gbps = 10", "host_gbps = nan")]),
            with(&[("host_gbps = 10", "buffer = \"unlimted\"")]),
            with(&[("host_gbps = 10", "buffer = { per_port_bytes = 100 }")]),
            with(&[("host_gbps = 10", "loss_ratio = 2")]),
            with(&[("host_gbps = 10", "host_wakes_us = [5, -1]")]),
            with(&[("title", "load = 0\ntitle")]),
            with(&[("title", "load = 40\ntitle")]),
            with(&[("[0.3, 0.6]", "[0.3, 60]")]),
            with(&[("\"homa\"", "\"hoam\"")]),
            with(&[("overcommit = 2", "overcomit = 2")]),
            with(&[("overcommit = 2", "overcommit = 0")]),
            with(&[("overcommit = 2", "mark_packets = 20")]),
            with(&[("overcommit = 2", "cutoffs_bytes = [500, 100]")]),
            with(&[("overcommit = 2", "label = \"FIFO\"")]),
            with(&[
                ("overcommit = 2", "variant = \"lx\"\ncutoffs_bytes = []"),
                ("max_bytes = 50_000", ""),
            ]),
            with(&[("\"all_to_all\"", "\"rpc\"\nclients = 4")]),
            with(&[("\"all_to_all\"", "\"rpc\""), ("overcommit = 2", "variant = \"sim\"")]),
            with(&[("\"all_to_all\"", "\"all_to_all\"\nconcurrent = 5")]),
            with(&[("\"all_to_all\"", "\"incast\"\nconcurrent = 5")]),
            with(&[("smallest 50%", "smallest 33%")]),
            with(&[("messages = 2_000", "messages = 2_000\nduration_ms = 5")]),
            with(&[("replications = 2", "replications = 0")]),
            blocks(STAR, "background = 3", FINE),
            with(&[("overcommit = 2", "cutoffs_ratio = 0.0")]),
            with(&[("overcommit = 2", "cutoffs_by = \"packets\"\ncutoffs_bytes = [500]")]),
        ],
    );
}

/// What one number of a plan's only point is.
fn number(ran: &serde_json::Value, path: &str) -> f64 {
    let found = ran["points"][0].pointer(path).and_then(serde_json::Value::as_f64);
    found.unwrap_or_else(|| panic!("no {path} in {}", ran["points"][0]))
}

#[test]
fn tcp_carries_every_kind_of_traffic() {
    let cavy = Cavy::new();
    let plan = |pattern: &str, messages: &str| {
        format!(
            "kind = \"network\"\ntitle = \"TCP\"\n[network]\ntopology = \"star\"\nhosts = 4\n\
             {messages}\n[traffic]\n{pattern}\n[[transports]]\ntransport = \"tcp\"\n\
             like = \"fine\"\n[run]\nreplications = 1\nown_best = false\n"
        )
    };
    let open = "duration_ms = 1\n";
    for pattern in ["all_to_all", "permutation", "many_to_few", "skewed", "rpc"] {
        for workload in ["W1", "W2", "W3", "W4", "W5"] {
            let messages = format!("[messages]\nworkload = \"{workload}\"\nmax_bytes = 100_000");
            let skew = if pattern == "skewed" { "\nzipf_exponent = 1" } else { "" };
            let traffic = format!("pattern = \"{pattern}\"{skew}");
            cavy.write("open.toml", format!("{}{open}", plan(&traffic, &messages)));
            let ran = cavy.json(&["run", "open.toml", "--json", "--set", "load=0.3"]);
            let failed = (number(&ran, "/failed"), number(&ran, "/unfinished"));
            assert_eq!(failed, (0.0, 0.0), "{pattern} {workload}");
            assert!(number(&ran, "/messages") > 0.0, "{pattern} {workload}");
        }
    }
    for pattern in ["incast\"\nconcurrent = 6", "echo\"\nsizes_bytes = [100]"] {
        let text = plan(&format!("pattern = \"{pattern}"), "");
        let text = if pattern.starts_with("incast") { format!("{text}{open}") } else { text };
        cavy.write("closed.toml", text);
        let ran = cavy.json(&["run", "closed.toml", "--json"]);
        assert_eq!(number(&ran, "/unfinished"), 0.0, "{pattern}");
    }
}

/// Blocks from three servers to the first of `hosts` hosts.
fn blocks(network: &str, traffic: &str, transport: &str) -> String {
    format!(
        "kind = \"network\"\ntitle = \"Blocks\"\n[network]\n{network}\n[traffic]\npattern = \
         \"blocks\"\nservers = 3\nblock_bytes = 300_000\nblocks = 21\n{traffic}\n[[transports]]\n\
         {transport}\n[run]\nreplications = 1\nown_best = false\n"
    )
}

const FINE: &str = "transport = \"tcp\"\nlike = \"fine\"";
const STAR: &str = "topology = \"star\"\nhosts = 6\npropagation_us = 25.0";

#[test]
fn links_lose_and_hold_up_what_they_are_told_to() {
    let cavy = Cavy::new();
    let ran = |links: &str| {
        cavy.write("links.toml", blocks(links, "", FINE));
        let ran = cavy.json(&["run", "links.toml", "--json"]);
        let lost = number(&ran, "/packets/lost");
        (lost, number(&ran, "/unfinished"), ran["points"][0]["digest"].clone())
    };
    let quiet = AROUND.replace("loss_ratio = 0.02", "loss_ratio = 0.0");
    let (rough, still) = (ran(AROUND), ran(&quiet));
    assert!(rough.0 > 10.0 && still.0 == 0.0, "{rough:?} {still:?}");
    assert_eq!((rough.1, still.1), (0.0, 0.0));
    assert_eq!(rough, ran(AROUND), "the same every time");
    // Packets that are late alone are sent again although nothing is lost.
    let ran_again = |links: &str| {
        let plan = format!("{FINE}\nundo = false\nrack = \"off\"");
        cavy.write("late.toml", blocks(links, "", &plan));
        let ran = cavy.json(&["run", "late.toml", "--json"]);
        let values = ["/unfinished", "/packets/lost", "/retransmitted_bytes"];
        values.map(|value| number(&ran, value))
    };
    let overtaken = quiet.replace("jitter_us = 5", OVERTAKING).replace("9.0", "200.0");
    let ([left, lost, again], calm) = (ran_again(&overtaken), ran_again(&quiet));
    assert_eq!((left, lost, calm[0], calm[1]), (0.0, 0.0, 0.0, 0.0));
    assert!(again > 10_000.0 && calm[2] < 1_000.0, "{again} and {}", calm[2]);
}

#[test]
fn hosts_start_at_a_time_of_their_own() {
    let cavy = Cavy::new();
    let first = |starts: &str| {
        let text = blocks(&format!("{STAR}\nstarts = [{starts}]"), "", FINE);
        cavy.write("late.toml", text);
        let ran = cavy.json(&["run", "late.toml", "--json"]);
        let values = ["/unfinished", "/failed", "/packets/lost", "/blocks/goodput_each_mbps/0"];
        values.map(|value| number(&ran, value))
    };
    let [_, _, lost, mbps] = first("");
    assert_eq!(lost, 0.0);
    // A client begins when it is there: the same blocks, only later.
    assert_eq!(first("{ host = \"h0\", at_us = 50_000 }"), [0.0, 0.0, 0.0, mbps]);
    // What a server misses is the SYN of its connection, which is sent again after a second.
    let [unfinished, failed, lost, late] = first("{ host = \"h2\", at_us = 50_000 }");
    assert_eq!((unfinished, failed, lost), (0.0, 0.0, 1.0));
    assert!((late / mbps - 1.0).abs() < 0.02, "{late} and {mbps}: blocks come after opening");
}

#[test]
fn incast_4_1_blocks_by_other_transports_on_new_connections_and_beside_a_background() {
    let cavy = Cavy::new();
    let goodput = |traffic: &str, transport: &str| {
        cavy.write("blocks.toml", blocks(STAR, traffic, transport));
        let ran = cavy.json(&["run", "blocks.toml", "--json"]);
        assert_eq!(number(&ran, "/unfinished"), 0.0, "{transport} {traffic}");
        assert_eq!(number(&ran, "/failed"), 0.0, "{transport} {traffic}");
        number(&ran, "/blocks/goodput_each_mbps/0")
    };
    let kept = goodput("", FINE);
    for other in ["homa", "ndp", "dctcp"] {
        let mbps = goodput("", &format!("transport = \"{other}\""));
        assert!((1_000.0..10_000.0).contains(&mbps), "{other}: {mbps}");
    }
    // Each piece takes one more round trip, a third of a block's time on the wire here (W5).
    let fresh = goodput("", &format!("{FINE}\nnew_connections = true"));
    assert!(fresh < 0.95 * kept && fresh > 0.1 * kept, "{fresh} of {kept}");
    // Of several connections blocks need one, since each server is asked once at a time.
    assert_eq!(goodput("", &format!("{FINE}\nconnections = 4")), kept);
    // Two long flows share the port (W6).
    let beside = goodput("background = 2", FINE);
    assert!(beside < 0.9 * kept && beside > 0.02 * kept, "{beside} of {kept}");
}

/// A pool lets short messages go around long ones that are before them.
#[test]
fn short_messages_wait_less_with_several_connections() {
    let cavy = Cavy::new();
    let plan = with(&[
        ("transport = \"fifo\"", FINE),
        ("[[transports]]\ntransport = \"homa\"\novercommit = 2", ""),
        ("objectives = [\"p50_slowdown <= 3 for smallest 50%\"]", ""),
        ("max_bytes = 50_000", "max_bytes = 5_000_000"),
        ("\"W2\"", "\"W4\""),
        ("[0.3, 0.6]", "[0.5]"),
    ]);
    let slowdown = |connections: &str| {
        cavy.write("pool.toml", plan.replacen(FINE, &format!("{FINE}\n{connections}"), 1));
        let ran = cavy.json(&["run", "pool.toml", "--json"]);
        assert_eq!((number(&ran, "/failed"), number(&ran, "/unfinished")), (0.0, 0.0));
        (number(&ran, "/short/p90_slowdown/value"), ran["points"][0]["digest"].clone())
    };
    let (one, two, eight) =
        (slowdown(""), slowdown("connections = 2"), slowdown("connections = 8"));
    assert_eq!(one, slowdown("connections = 1"));
    assert!(two.0 < 0.7 * one.0 && eight.0 < two.0, "{} {} {}", one.0, two.0, eight.0);
}

#[test]
fn messages_that_do_not_fit() {
    let cavy = Cavy::new();
    cavy.write("zero.csv", "bytes,cumulative\n0,0.5\n10,1\n");
    cavy.write("unsorted.csv", "bytes,cumulative\n10,0.5\n5,0.7\n20,1\n");
    cavy.write("falling.csv", "bytes,cumulative\n10,0.5\n20,0.4\n30,1\n");
    cavy.write("shares.csv", "bytes,cumulative\n10,0.5\n20,0.5\n");
    cavy.write("words.csv", "bytes,cumulative\n10,half\n");
    cavy.write("empty.csv", "bytes,cumulative\n");
    cavy.write("log.csv", "size\n100\n0\n");
    let sizes = |text: &str| with(&[("workload = \"W2\"\nmax_bytes = 50_000", text)]);
    check(
        "network_messages",
        &cavy,
        &[
            sizes(""),
            sizes("workload = \"W7\""),
            sizes("workload = \"W1\"\ncdf = \"zero.csv\""),
            sizes("cdf = \"nothing.csv\""),
            sizes("cdf = \"zero.csv\""),
            sizes("cdf = \"unsorted.csv\""),
            sizes("cdf = \"falling.csv\""),
            sizes("cdf = \"shares.csv\""),
            sizes("cdf = \"words.csv\""),
            sizes("cdf = \"empty.csv\""),
            sizes("trace = \"log.csv\""),
            sizes("trace = \"log.csv\"\ncolumn = \"bytes\""),
            sizes("trace = \"log.csv\"\ncolumn = \"size\""),
            sizes("sizes = { dist = \"constant\", bytes = 0 }"),
            sizes("sizes = { dist = \"pareto\", mean_bytes = 100, shape = 1 }"),
            sizes("sizes = { dist = \"normal\", mean_bytes = 100 }"),
            sizes("workload = \"W2\"\nmin_bytes = 100\nmax_bytes = 10"),
            sizes("workload = \"W2\"\npacket_bytes = 1442"),
            sizes("workload = \"W5\"\npacket_bytes = 0"),
        ],
    );
}

#[test]
fn a_run_prints_the_fields_it_promises() {
    let cavy = Cavy::new();
    cavy.write("plan.toml", NETWORK);
    let ran = cavy.json(&["run", "plan.toml", "--json"]);
    let points = ran["points"].as_array().expect("a list");
    assert_eq!(points.len(), 4);
    for point in points {
        for field in [
            "transport",
            "variant",
            "settings",
            "load",
            "rate_per_s",
            "standing",
            "note",
            "messages",
            "unfinished",
            "failed",
            "p99_slowdown",
            "p50_own",
            "short",
            "bins",
            "edges",
            "smallest",
            "largest",
            "longest",
            "goodput_gbps",
            "ports",
            "level_bytes",
            "packets",
            "backlog_bytes",
            "digest",
        ] {
            assert!(point.get(field).is_some(), "{field}");
        }
        let all: u64 = point["bins"]
            .as_array()
            .expect("bins")
            .iter()
            .filter_map(|b| b["samples"].as_u64())
            .sum();
        // Two replications of 2000, within chance of Poisson arrivals.
        assert!((3_700..4_300).contains(&all), "{all}");
        assert_eq!(point["unfinished"], 0, "nothing is lost and there is time to drain");
        assert!(point["p50_slowdown"]["value"].as_f64().expect("a number") >= 1.0);
    }
    assert_eq!(ran["capacity"].as_array().expect("a list").len(), 2);
    assert_eq!(ran["capacity"][1]["transport"], "Homa");
    assert_eq!(ran["ranking"][0]["rows"].as_array().expect("rows").len(), 2);
    assert!(ran["messages"].as_u64().expect("a count") > 16_000);
    let report = std::fs::read_to_string(cavy.path("cavy-out/report.html")).expect("a report");
    assert!(report.contains("smallest half"), "the report draws what it is about");
}

#[test]
fn results_do_not_depend_on_cores_queue_or_ties_and_can_be_resumed() {
    let cavy = Cavy::new();
    cavy.write("plan.toml", NETWORK);
    let first = cavy.json(&["run", "plan.toml", "--json"]);
    let digest = &first["digest"];
    for more in [&["--jobs", "1"][..], &["--queue", "wheel"], &["--twice"], &["--resume"]] {
        let args: Vec<&str> = ["run", "plan.toml", "--json"].iter().chain(more).copied().collect();
        assert_eq!(&cavy.json(&args)["digest"], digest, "{more:?}");
    }
    let seed = cavy.json(&["run", "plan.toml", "--json", "--seed", "2"]);
    assert_ne!(&seed["digest"], digest);
}

#[test]
fn a_question_waits_for_its_answer_under_every_transport() {
    let cavy = Cavy::new();
    let echo = r#"kind = "network"
title = "Echo"
[network]
topology = "star"
hosts = 3
[traffic]
pattern = "echo"
sizes_bytes = [100, 20_000]
repeats = 3
[[transports]]
transport = "homa"
[[transports]]
transport = "basic"
[[transports]]
transport = "fifo"
[[transports]]
transport = "srpt"
[[transports]]
transport = "pfabric"
[[transports]]
transport = "phost"
[[transports]]
transport = "dctcp"
[[transports]]
transport = "pias"
[[transports]]
transport = "ndp"
[[transports]]
transport = "tcp"
"#;
    cavy.write("echo.toml", echo);
    let ran = cavy.json(&["run", "echo.toml", "--json"]);
    for point in ran["points"].as_array().expect("a list") {
        let bins = point["bins"].as_array().expect("bins");
        // Three replications of three questions each, all answered.
        assert_eq!(bins[0]["samples"], 9, "{}", point["transport"]);
        assert_eq!(bins[1]["samples"], 9, "{}", point["transport"]);
        let slowdown = bins[0]["p50_slowdown"]["value"].as_f64().expect("a number");
        assert!((1.0..3.0).contains(&slowdown), "{} {slowdown}", point["transport"]);
    }
}

#[test]
fn the_table_of_points_tells_of_blocks_where_blocks_were_asked_for() {
    let cavy = Cavy::new();
    assert!(cavy.call(&["plan", "new", "answers.toml", "--template", "answers"]).status.success());
    let mut args = vec!["run", "answers.toml"];
    for set in ["traffic.blocks=3", "sweep.traffic.servers=[4]", "objectives=[]"] {
        args.extend(["--set", set]);
    }
    let ran = cavy.call(&args);
    let text = String::from_utf8_lossy(&ran.stdout);
    let points = text.split("All points").nth(1).expect("a table of points");
    // Heads may fold.
    for head in ["block p50", "block p90", "block p99", "goodput (Mb/s)", "goodput (% of"] {
        assert!(points.contains(head), "{head} in\n{points}");
    }
}

#[test]
fn what_gives_way_is_short_and_its_reason_stands_below() {
    let cavy = Cavy::new();
    // So few messages cannot tell whether a backlog grows.
    cavy.write("plan.toml", with(&[("messages = 2_000", "messages = 3_000")]));
    let sweep = "sweep.load=[0.3,0.85]";
    let ran = cavy.json(&["run", "plan.toml", "--json", "--set", sweep]);
    let short = |one: &&serde_json::Value| one["limit"] == "too short to judge";
    let capacity = ran["capacity"].as_array().expect("a list").iter().find(short).expect("one");
    let why = capacity["why"].as_str().expect("a reason");
    assert!(why.contains("would tell"), "{why}");
    let ran = cavy.call(&["run", "plan.toml", "--resume", "--set", sweep]);
    // Lines break, and not within numbers.
    let plain = |text: &str| text.replace(['\n', '\u{a0}'], " ");
    let said = plain(&String::from_utf8_lossy(&ran.stdout));
    assert!(said.contains(&plain(&format!("is too short to judge: {why}."))), "{said}");
}
