//! What plans that do not fit say: each mistake names its field, its value and a cure. All words
//! are in `mistakes.txt`; a test that fails prints what it should have.

use cavy_kinds::network::NetworkPlan;
use cavy_kinds::regions::RegionsPlan;
use cavy_kinds::search::SearchPlan;
use cavy_kinds::server::ServerPlan;
use cavy_study::plan::read::load;
use cavy_study::plan::{Files, Text};
use cavy_study::subject::Subject;
use std::fmt::Write as _;

/// The mistakes of plans of one kind, as they are said.
fn said<S: Subject>(files: &Files, plans: &[(String, String)]) -> String {
    let mut out = String::new();
    for (what, text) in plans {
        let text = Text { text, name: "plan.toml", files, overrides: &[], quick: false };
        let _ = writeln!(out, "{what}");
        match load::<S>(&text) {
            Ok(_) => out.push_str("  NO MISTAKE\n"),
            Err(fault) => {
                let _ = writeln!(out, "  error: {fault}");
                fault.hints.iter().for_each(|hint| {
                    let _ = writeln!(out, "  hint: {hint}");
                });
            }
        }
    }
    out
}

/// Holds `said` to the part of `mistakes.txt` under this head.
fn holds(head: &str, said: &str) {
    let all = include_str!("mistakes.txt");
    let part = all.split("# ").find_map(|part| part.strip_prefix(head)?.strip_prefix('\n'));
    assert_eq!(part.map(str::trim_end), Some(said.trim_end()), "{head} says:\n{said}");
    assert!(!said.contains("NO MISTAKE"), "{said}");
}

/// Lines of a plan, with one mistake each.
fn with(before: &str, lines: &[&str], after: &str) -> Vec<(String, String)> {
    let one =
        |line: &&str| (line.trim_end().replace('\n', "; "), format!("{before}\n{line}\n{after}"));
    lines.iter().map(one).collect()
}

#[test]
fn workers_and_clients() {
    let rest = "types = [{ name = \"a\", share = 1, service = { dist = \"constant\", us = 1 } }]\n\
                policies = [{ policy = \"c_fcfs\" }, { policy = \"processor_sharing\" }]";
    let many = format!("workers = [{}]", vec!["{ count = 1 }"; 17].join(", "));
    let lines = [
        "workers = 4097",
        "workers = -4",
        "workers = 4.5",
        "workers = \"four\"",
        "workers = []",
        &many,
        "workers = [{ count = 0 }]",
        "workers = [{ count = 4 }, { count = 4093 }]",
        "workers = [{ count = 4, speed_ratio = 0 }]",
        "workers = [{ count = 4, speed = 0.5 }]",
        "workers = [{ count = 4, speed_ratio = 0.5 }]",
        "workers = 4\nclients = { population = 0 }",
        "workers = 4\nclients = { think = { dist = \"constant\", us = 1 } }",
        "workers = 4\nclients = { population = 9, think = { dist = \"constant\", us = -1 } }",
        "workers = 4\nclients = { population = 9 }\nload = 0.5",
        "workers = 4\nclients = { population = 9 }\nrate_per_s = 5",
        "workers = 4\nclients = { population = 9 }\nmislabel_ratio = 0.1",
    ];
    let head = "kind = \"server\"\ntitle = \"t\"";
    holds("workers and clients", &said::<ServerPlan>(&Files::NONE, &with(head, &lines, rest)));
}

const NETWORK: &str = "kind = \"network\"\ntitle = \"t\"\ntransports = [{ transport = \"fifo\" }]";
const STAR: &str = "[network]\ntopology = \"star\"\nhosts = 4";
const W1: &str = "[messages]\nworkload = \"W1\"";

#[test]
fn traffic_by_weights() {
    let files = Files::Carried(&[
        ("far.csv", "from,to,weight\nh0,h4,1\n"),
        ("own.csv", "from,to,weight\nh0,h0,1\n"),
        ("nothing.csv", "from,to,weight\nh0,h1,0\n"),
        ("less.csv", "from,to,weight\nh0,h1,-1\n"),
        ("columns.csv", "src,dst,weight\nh0,h1,1\n"),
    ]);
    let lines = [
        "pattern = \"many_to_few\"\nreceivers = 0",
        "pattern = \"many_to_few\"\nreceivers = 4",
        "pattern = \"skewed\"",
        "pattern = \"skewed\"\nzipf_exponent = 1\nmatrix = \"far.csv\"",
        "pattern = \"skewed\"\nzipf_exponent = -1",
        "pattern = \"skewed\"\nmatrix = \"missing.csv\"",
        "pattern = \"skewed\"\nmatrix = \"far.csv\"",
        "pattern = \"skewed\"\nmatrix = \"own.csv\"",
        "pattern = \"skewed\"\nmatrix = \"nothing.csv\"",
        "pattern = \"skewed\"\nmatrix = \"less.csv\"",
        "pattern = \"skewed\"\nmatrix = \"columns.csv\"",
    ];
    let before = format!("{NETWORK}\n{STAR}\n{W1}\n[traffic]");
    holds("traffic by weights", &said::<NetworkPlan>(&files, &with(&before, &lines, "")));
}

#[test]
fn recorded_messages() {
    let rows: String = (0..100).map(|n| format!("{n},h0,h1,100\n")).collect();
    let files: Vec<(&'static str, &'static str)> = [
        ("few.csv", "1,h0,h1,100\n", false),
        ("self.csv", "1,a,a,100\n", true),
        ("zero.csv", "1,a,b,0\n", true),
        ("early.csv", "-1,a,b,10\n", true),
        ("nobody.csv", "1,,b,10\n", true),
        ("crowd.csv", "1,h0,h9,10\n", true),
        ("good.csv", "", true),
    ]
    .map(|(name, first, more)| {
        let rows = if more { rows.as_str() } else { "" };
        (name, &*Box::leak(format!("time,from,to,bytes\n{first}{rows}").into_boxed_str()))
    })
    .to_vec();
    let files = Files::Carried(files.leak());
    let lines = [
        "file = \"few.csv\"",
        "file = \"self.csv\"",
        "file = \"zero.csv\"",
        "file = \"early.csv\"",
        "file = \"nobody.csv\"",
        "file = \"crowd.csv\"",
        "file = \"good.csv\"\nrate_ratio = 0",
        "file = \"good.csv\"\nform = \"x\"",
        "file = \"good.csv\"\nbytes = \"size\"",
        "file = \"good.csv\"\n[run]\nmessages = 200",
        "file = \"good.csv\"\n[run]\nwarmup_ms = 1",
        "file = \"good.csv\"\n[messages]\nworkload = \"W1\"",
        "file = \"good.csv\"\n[[phases]]\nduration_ms = 1",
    ];
    let before = format!("{NETWORK}\n{STAR}\n[traffic]\npattern = \"trace\"\nunit = \"us\"");
    holds("recorded messages", &said::<NetworkPlan>(&files, &with(&before, &lines, "")));
}

#[test]
fn links_of_two_rates() {
    let lines = [
        "topology = \"star\"\nhosts = 4\nhost_down_gbps = 0",
        "topology = \"links\"\nhosts = 2\nswitches = 1\nhost_down_gbps = 5",
        "topology = \"links\"\nhosts = 2\nswitches = 1\nlinks = [{ from = \"h0\", to = \"s0\", \
         back_gbps = 0 }]",
    ];
    let before = format!("{NETWORK}\n{W1}\n[network]");
    holds("links of two rates", &said::<NetworkPlan>(&Files::NONE, &with(&before, &lines, "")));
}

#[test]
fn classes_of_traffic() {
    let one = |name: &str, rest: &str| format!("[[classes]]\nname = \"{name}\"\n{rest}\n");
    let half = "load_share = 0.5\nmessages = { workload = \"W1\" }";
    let pattern = |text: &str| format!("{half}\ntraffic = {{ {text} }}");
    let (search, backup) = (one("search", half), one("backup", half));
    let lines = [
        search.clone(),
        format!("{search}{search}"),
        format!("{}{backup}", one("search", &half.replace("0.5", "0"))),
        format!("{}{backup}", one("search", &half.replace("load_share", "share"))),
        format!("{W1}\n{search}{backup}"),
        format!("{}{backup}", one("search", &half.replace("W1", "W9"))),
        format!(
            "{}{backup}",
            one("search", &half.replace("workload = \"W1\"", "cdf = \"no.csv\""))
        ),
        format!("{}{backup}", one("search", &pattern("pattern = \"echo\", sizes_bytes = [1]"))),
        format!("{}{backup}", one("search", &pattern("pattern = \"rpc\""))),
        format!("{}{backup}", one("search", &pattern("pattern = \"many_to_few\", receivers = 9"))),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let before = format!("{NETWORK}\n{STAR}");
    let mut said = said::<NetworkPlan>(&Files::NONE, &with(&before, &lines, ""));
    let objective = "objectives = ['p99_slowdown <= 4 for \"find\"']";
    let plan = format!("{objective}\n{NETWORK}\n{STAR}\n{search}{backup}");
    said += &self::said::<NetworkPlan>(&Files::NONE, &[(objective.to_string(), plan)]);
    holds("classes of traffic", &said);
}

#[test]
fn blocks_from_many_servers() {
    let files = Files::Carried(&[
        ("far.csv", "host,rtt_us\nh4,100\n"),
        ("own.csv", "host,rtt_us\nh0,100\n"),
        ("twice.csv", "host,rtt_us\nh1,100\nh1,120\n"),
        ("near.csv", "host,rtt_us\nh1,1\n"),
        ("late.csv", "host,rtt_us\nh1,-1\n"),
        ("none.csv", "host,rtt_us\n"),
        ("columns.csv", "server,rtt_us\nh1,100\n"),
    ]);
    let tcp = "kind = \"network\"\ntitle = \"t\"";
    let blocks = "[traffic]\npattern = \"blocks\"";
    let one = "servers = 2\nblock_bytes = 1_000";
    let plan = |traffic: &str, transport: &str, star: &str, after: &str| {
        format!(
            "{tcp}\n{after}\n{STAR}\n{star}\n{blocks}\n{traffic}\n[[transports]]\n\
             transport = \"tcp\"\n{transport}"
        )
    };
    let traffic = [
        "servers = 0\nblock_bytes = 1_000",
        "servers = 4\nblock_bytes = 1_000",
        "servers = 2\nfragment_bytes = 0",
        "servers = 2\nblock_bytes = 0",
        "servers = 3\nblock_bytes = 2",
        "servers = 2",
        "servers = 2\nblock_bytes = 1_000\nblocks = 1",
        "servers = 2\nfragment_bytes = 256_000\nblocks = 1_000_000_000",
        "servers = 2\nblock_bytes = 1_000\n[sweep]\n\"traffic.servers\" = [1, 3, 100]",
        "servers = 2\nblock_bytes = 2\n[sweep]\n\"traffic.servers\" = [1, 3]",
    ];
    let transports = [
        "congestion = \"tahoe\"",
        "congestion = \"reno\"\nsack = true",
        "congestion = \"reno\"\nrack = \"fine\"",
        "congestion = \"cubic\"\nloss_halves_window = true",
        "rto_min_us = 2_000\nrto_max_ms = 1",
        "connections = 0",
        "connections = 2\nnew_connections = true",
        "window_bytes = 9",
    ];
    let objectives = [
        "objectives = [\"goodput_ratio >= 1.5\"]",
        "objectives = [\"goodput_ratio >= 100%\"]",
        "objectives = [\"goodput_ratio >= 0\"]",
        "objectives = [\"goodput >= 0.9\"]",
    ];
    let round_trips = ["missing", "far", "own", "twice", "near", "late", "none", "columns"]
        .map(|name| format!("round_trips = \"{name}.csv\""));
    let mut plans: Vec<(String, String)> = Vec::new();
    let words = |text: &str| text.replace('\n', "; ");
    plans.extend(traffic.iter().map(|text| (words(text), plan(text, "", "", ""))));
    plans.extend(transports.iter().map(|text| (words(text), plan(one, text, "", ""))));
    plans.extend(objectives.iter().map(|text| (words(text), plan(one, "", "", text))));
    plans.extend(round_trips.iter().map(|text| (words(text), plan(one, "", text, ""))));
    holds("blocks from many servers", &said::<NetworkPlan>(&files, &plans));
}

#[test]
fn processors_of_servers_that_search() {
    let head = "kind = \"search\"\ntitle = \"t\"\nservers = 4\np = 2\nload = 0.5";
    let roar = "[[schemes]]\nscheme = \"roar\"";
    let lines = [
        "cores = 0",
        "cores = 65",
        "cores = 2\nevents = [{ event = \"slow\", at_s = 1, until_s = 2, speed_ratio = 2 }]",
        "events = [{ event = \"slow\", at_s = 1, until_s = 2, speed_ratio = 0 }]",
        "events = [{ event = \"slow\", at_s = 2, until_s = 1, speed_ratio = 0.5 }]",
        "events = [{ event = \"slow\", at_s = 1, until_s = 2, speed_ratio = 0.5, servers = 5 }]",
        "costs = \"learned\"",
        "deadline_ms = 100",
        "deadline_ms = 0\nscheduler = { policy = \"c_fcfs\" }",
        "bounce_ms = 100",
        "balance_s = 0",
        "balance_s = 30\nbalance_percent = 0",
        "balance_s = 30\ndead_servers = 1",
        "costs = \"guessed\"",
        "scheduler = { policy = \"fastest\" }",
        "scheduler = { policy = \"c_fcfs\", dispatch_us = 1 }",
        "scheduler = { policy = \"c_fcfs\", service_tax_ratio = { query = 1 } }",
        "scheduler = { policy = \"edf\", deadlines_us = { query = 100 } }",
        "scheduler = { policy = \"time_sharing\", slice_us = 0 }",
        "cores = 2\nscheduler = { policy = \"cscq\", short_workers = 3 }",
        "scheduler = { policy = \"c_fcfs\" }\ndead_servers = 1",
    ];
    let plans = with(head, &lines, roar);
    let rival = "[[schemes]]\nscheme = \"ptn\"";
    let rivals = [
        "balance_s = 30",
        "scheduler = { policy = \"c_fcfs\" }",
        "cores = 2\nevents = [{ event = \"spread\", at_s = 1, p = 1 }]",
        "events = [{ event = \"spread\", at_s = 1, p = 3 }]",
    ];
    let rings = [
        "events = [{ event = \"spread\", at_s = 1, p = 3 }]",
        "events = [{ event = \"crash\", at_s = 1 }]",
        "events = [{ event = \"crash\", at_s = 1, ring = 3 }]",
        "events = [{ event = \"crash\", at_s = 1, ring = 1, servers = 1 }]",
    ];
    let alone = ["events = [{ event = \"leave\", at_s = 1, until_s = 2 }]"];
    let two = "[[schemes]]\nscheme = \"roar\"\nrings = 2";
    let few = head.replace("servers = 4\np = 2", "servers = 2\np = 1");
    let of_rings = [with(head, &rings, two), with(&few, &alone, two)].concat();
    let anew = ["events = [{ event = \"spread\", at_s = 1, p = 3 }]"];
    let shards = "[[schemes]]\nscheme = \"shards\"\nchange = \"reindex\"";
    let plans = [plans, with(head, &rivals, rival), with(head, &anew, shards), of_rings].concat();
    holds("processors of servers that search", &said::<SearchPlan>(&Files::NONE, &plans));
}

#[test]
fn transactions_across_regions() {
    let plan = |regions: &str, rest: &str, protocol: &str| {
        format!(
            "kind = \"regions\"\ntitle = \"t\"\n{regions}\n{rest}\n[[protocols]]\n{protocol}\n\
             [run]\nduration_ms = 2_000\n"
        )
    };
    let (three, dast) = ("regions = 3\nshards_per_region = 2", "protocol = \"dast\"");
    let tpcc = "workload = { name = \"tpcc\" }\nclients_per_shard = 1";
    let own = |types: &str| {
        format!("rate_per_s = 100\nworkload = {{ name = \"types\" }}\ntypes = [{types}]")
    };
    let regions = [
        "regions = 0\nshards_per_region = 2",
        "regions = 1025\nshards_per_region = 2",
        "regions = 3\nshards_per_region = 0",
        "regions = 3\nshards_per_region = 2\none_way_ms = [[1, 2], [2, 1]]",
        "regions = 3\nshards_per_region = 2\nacross_ms = -1",
    ];
    let asked = [
        "workload = { name = \"tpcc\" }",
        "workload = { name = \"tpcc\" }\nclients_per_shard = 1\nrate_per_s = 1",
        "workload = { name = \"tpcc\" }\nrate_per_s = 0",
        "workload = { name = \"tpcc\" }\nrate_per_s = 1\nthink_ms = 5",
        "workload = { name = \"tpcc\" }\nclients_per_shard = 0",
        "workload = { name = \"payment\", crt_ratio = 1.5 }\nclients_per_shard = 1",
        "workload = { name = \"tpca\", skew = 3 }\nclients_per_shard = 1",
        "workload = { name = \"tpcc\" }\nrate_per_s = 1\ntypes = [{ name = \"a\", share = 1 }]",
        "workload = { name = \"types\" }\nrate_per_s = 1",
        "workload = { name = \"types\", rows = 1 }\nrate_per_s = 1\n\
         types = [{ name = \"a\", share = 1, reads = 1 }]",
    ];
    let types = [
        "{ name = \"a\", share = 0.5, reads = 1 }, { name = \"b\", share = 0.6, reads = 1 }",
        "{ name = \"a\", share = 0.5, reads = 1 }, { name = \"a\", share = 0.5, reads = 1 }",
        "{ name = \"a\", share = 1 }",
        "{ name = \"a\", share = 1, reads = 60, writes = 5 }",
        "{ name = \"a\", share = 1, reads = 1, shards = 17 }",
        "{ name = \"a\", share = 1, reads = 1, shards = 3 }",
        "{ name = \"a\", share = 1, reads = 1, shards = 6, crt_ratio = 1 }",
        "{ name = \"a\", share = 1, reads = 1, crt_ratio = 0.1 }",
        "{ name = \"a\", share = 1, reads = 1, shards = 2, crt_ratio = 2 }",
        "{ name = \"a\", share = 1, writes = 1, shards = 2, depends = true }",
        "{ name = \"a\", share = 1, writes = 1, keys = 3 }",
    ];
    let faults = [
        "fault = \"cut_off\", region = 0, from_ms = 3_000, until_ms = 4_000",
        "fault = \"cut_off\", region = 3, from_ms = 1_000, until_ms = 4_000",
        "fault = \"crash_replica\", region = 0, shard = 2, replica = 0, from_ms = 1",
        "fault = \"crash_replica\", region = 0, shard = 0, replica = 3, from_ms = 1",
    ];
    let objectives = ["irt_p99_ms <= 25 for b", "throughput_per_s >= 1 for a", "irt_p90_ms <= 1"];
    let words = |text: &str| text.replace('\n', "; ");
    let mut plans: Vec<(String, String)> = Vec::new();
    plans.extend(regions.map(|text| (words(text), plan(text, tpcc, dast))));
    plans.extend(asked.map(|text| (words(text), plan(three, text, dast))));
    plans.extend(types.map(|text| (words(text), plan(three, &own(text), dast))));
    plans.extend(faults.map(|text| {
        let faulty = format!("{tpcc}\nfaults = [{{ {text} }}]");
        (words(text), plan(three, &faulty, dast))
    }));
    plans.extend(objectives.map(|text| {
        let types = own("{ name = \"a\", share = 1, reads = 1 }");
        (words(text), plan(three, &format!("objectives = [\"{text}\"]\n{types}"), dast))
    }));
    let two = "regions = 2\nshards_per_region = 2";
    plans.push(("slog with two regions".into(), plan(two, tpcc, "protocol = \"slog\"")));
    holds("transactions across regions", &said::<RegionsPlan>(&Files::NONE, &plans));
}
