//! The main table: slowdown by size on the source's fabric, with queues, levels and the sources of
//! the tail ([homa 5.1], [homa 5.7] to [homa 5.9]).

use super::measure::{
    COLUMNS, at_column, column, id, known, missing, not_run, p50, p99, percentile, ratio, settled,
    value, words,
};
use super::show::{self, Group};
use cavy_kinds::network::{NetExperiment, NetResult, NetworkPlan};
use cavy_report::model::{Panel, Table};
use cavy_study::claim::Measured;
use cavy_study::experiment::BASE;
use cavy_study::source::{About, Study};

macro_rules! figure {
    ($name:ident, $number:literal, $plan:literal, $id:literal) => {
        /// One workload.
        pub static $name: Study<NetworkPlan> = Study {
            about: About {
                id: $id,
                title: concat!("W", $number, ": slowdown by size at 80 and 50 % load"),
                plan: include_str!(concat!("plans/", $plan)),
                files: &[],
                shows: "The 99th percentile slowdown of messages by size, over the time they would \
                        take alone, on racks of 16 hosts with four spine switches; each tenth of \
                        the axis is a tenth of the messages. pHost and NDP, which do not sustain \
                        80 %, run at loads they do.",
                claimed: "Homa's tail is within a fifth of pFabric's for the short half of the \
                          messages, half of pHost's or less, and far below PIAS and NDP where \
                          messages are long.",
            },
            measure: measure::<$number>,
            found,
            panels,
            tables,
        };
    };
}

figure!(W1, 1, "w1.toml", "w1");
figure!(W2, 2, "w2.toml", "w2");
figure!(W3, 3, "w3.toml", "w3");
figure!(W4, 4, "w4.toml", "w4");
figure!(W5, 5, "w5.toml", "w5");

/// The point that answers for a transport in the table of a load. For pHost and NDP the column "80
/// %" of the source is the highest load they sustain, which the plan's variants have. Transports of
/// which less is published are in variants with shorter runs.
fn point<'a>(e: &'a NetExperiment, transport: &'a str, load: f64) -> Option<&'a NetResult> {
    match transport {
        "pHost" if load > 0.5 => e.of("phost", transport).next(),
        "NDP" if load > 0.5 => e.of("ndp", transport).next(),
        _ => [BASE, "rivals", "half", "others"]
            .into_iter()
            .find_map(|variant| e.at(variant, transport, load)),
    }
}

/// The same as the rivals' own simulators have it: packets as IP has them, without Ethernet.
fn bare<'a>(e: &'a NetExperiment, transport: &'a str) -> Option<&'a NetResult> {
    let variant = if transport == "pHost" { "phost_ip" } else { "ip" };
    e.of(variant, transport).next()
}

/// Percentiles of a result in all columns and over the short half; their names begin with `prefix`.
fn row(e: &NetExperiment, prefix: &str, result: Option<&NetResult>) -> Vec<Measured> {
    let name = |place: &str| format!("{prefix}_{place}");
    let mut all = Vec::new();
    for (share, place) in COLUMNS {
        all.push(at_column(name(place), result, share, p99));
    }
    let short = result.map(|result| &result.short);
    all.push(percentile(name("short_p50"), short, p50));
    all.push(percentile(name("short_p99"), short, p99));
    all.into_iter().map(|measured| settled(measured, e, result)).collect()
}

/// P99 at 90 % of the messages over that at the median: how a transport's tail grows with size.
fn collapse(id: String, result: Option<&NetResult>) -> Measured {
    let tail = |share| result.and_then(|result| column(result, share)).map(|slice| &slice.summary);
    ratio(id, tail(0.9), tail(0.5), p99)
}

fn measure<const W: u8>(e: &NetExperiment) -> Vec<Measured> {
    let figure = format!("w{W}");
    let name = |name: &str| id(&figure, name);
    let mut all = Vec::new();
    for (load, label) in [(0.8, "80"), (0.5, "50")] {
        for (transport, key) in [
            ("Homa", "homa"),
            ("pFabric", "pfabric"),
            ("pHost", "phost"),
            ("PIAS", "pias"),
            ("NDP", "ndp"),
            ("oracle", "oracle"),
        ] {
            all.extend(row(e, &name(&format!("{key}_{label}")), point(e, transport, load)));
        }
    }
    // The largest messages need longer runs than the rest; a plan may have one for them alone.
    if let Some(longest) = e.at("longest", "Homa", 0.8) {
        let largest = at_column(name("homa_80_d100"), Some(longest), 1.0, p99);
        let largest = settled(largest, e, Some(longest));
        all.iter_mut().filter(|one| one.id == largest.id).for_each(|one| *one = largest.clone());
    }
    for (transport, key) in [("pFabric", "pfabric"), ("pHost", "phost"), ("PIAS", "pias")] {
        all.extend(row(e, &name(&format!("{key}_ip")), bare(e, transport)));
    }
    for (variant, prefix) in [("data", "pfabric_data"), ("between", "pfabric_between")] {
        all.extend(row(e, &name(prefix), e.of(variant, "pFabric").next()));
    }
    let short = |transport| point(e, transport, 0.8).map(|result| &result.short);
    all.push(ratio(name("pfabric_order"), short("Homa"), short("pFabric"), p99));
    all.push(ratio(name("phost_order"), short("pHost"), short("Homa"), p99));
    all.push(ratio(name("ndp_order"), short("NDP"), short("Homa"), p99));
    let bare_short = bare(e, "pHost").map(|result| &result.short);
    all.push(ratio(name("phost_ip_order"), bare_short, short("Homa"), p99));
    let one_level = e.of("phost", "pHost, one level").next().map(|result| &result.short);
    all.push(ratio(name("phost_one_level_order"), one_level, short("Homa"), p99));
    for (variant, label) in [("phost", "80"), ("half", "50")] {
        let result = e.of(variant, "pHost, one level").next();
        let id = name(&format!("phost_one_level_{label}_short_p99"));
        let tail = percentile(id, result.map(|result| &result.short), p99);
        all.push(settled(tail, e, result));
    }
    all.push(collapse(name("pias_collapse"), point(e, "PIAS", 0.8)));
    all.push(collapse(name("pias_one_step_collapse"), e.of("one_step", "PIAS").next()));
    // Means of queues need longer runs than tails do; where a plan has none, one run answers for
    // both.
    let homa = e.at("queue", "Homa", 0.8).or(e.at(BASE, "Homa", 0.8));
    all.extend(queues(&figure, homa).map(|measured| settled(measured, e, homa)));
    all.push(lag(name("lag_share"), homa));
    all.extend(levels(&figure, e));
    all
}

/// Queues at the ports to hosts ([homa 5.7]). The source's simulator records at each packet what it
/// finds before it, so its mean is one over packets, and the packet on the wire counts.
fn queues(figure: &str, homa: Option<&NetResult>) -> [Measured; 2] {
    let (mean, max) = (id(figure, "queue_mean_kb"), id(figure, "queue_max_kb"));
    let Some((homa, port)) = homa.and_then(|homa| Some((homa, homa.port("downlink")?))) else {
        return [not_run(mean), not_run(max)];
    };
    let note = format!("Ports to hosts, {:.0} % utilized.", port.utilization * 100.0);
    let found = format!("{note} {:.2} kB as a mean over time.", port.mean_bytes / 1e3);
    [
        value(mean, port.found_mean_bytes / 1e3, homa.work, found),
        value(max, port.max_bytes as f64 / 1e3, homa.work, note),
    ]
}

/// Share of preemption lag in what short messages near the 99th percentile wait for ([homa 5.8]).
fn lag(id: String, homa: Option<&NetResult>) -> Measured {
    match homa.and_then(|homa| homa.tail_sources.as_ref()) {
        Some(sources) if sources.messages >= 100 => {
            let share = sources.lag_us / (sources.lag_us + sources.queueing_us);
            let note =
                format!("{:.2} us lag, {:.2} us queueing.", sources.lag_us, sources.queueing_us);
            value(id, share, sources.messages, note)
        }
        Some(sources) => missing(id, &format!("Only {} messages near it.", sources.messages)),
        None => not_run(id),
    }
}

/// Use of levels ([homa 5.9]): the source has four for unscheduled bytes and four for scheduled
/// ones.
fn levels(figure: &str, e: &NetExperiment) -> Vec<Measured> {
    let at = |load| e.at("levels", "Homa", load).or(e.at(BASE, "Homa", load));
    let mut all = Vec::new();
    let name = id(figure, "levels_unscheduled");
    all.push(match at(0.8) {
        Some(result) => {
            let top = &result.level_bytes[4..];
            let most = top.iter().max().copied().unwrap_or(0) as f64;
            let least = top.iter().min().copied().unwrap_or(0).max(1) as f64;
            value(name, most / least, result.work, "The fullest over the emptiest.".to_string())
        }
        None => not_run(name),
    });
    let low = |load| {
        at(load).map(|result: &NetResult| {
            let scheduled: u64 = result.level_bytes[..4].iter().sum();
            (result.level_bytes[0] as f64 / scheduled.max(1) as f64, result.work)
        })
    };
    let name = id(figure, "levels_low_50");
    all.push(match low(0.5) {
        Some((share, messages)) => value(name, share, messages, String::new()),
        None => not_run(name),
    });
    let name = id(figure, "levels_low_50_alone");
    all.push(match (low(0.5), at(0.5).and_then(alone)) {
        (Some((share, messages)), Some(alone)) => {
            let note = format!("{:.0} % of it, {:.0} % by theory.", share * 100.0, alone * 100.0);
            value(name, share / alone, messages, note)
        }
        _ => not_run(name),
    });
    let name = id(figure, "levels_spread");
    all.push(match (low(0.5), low(0.9)) {
        (Some((half, n)), Some((full, m))) => {
            let note = format!(
                "{:.0} % of scheduled bytes at the lowest level at 50 %, {:.0} % at 90 %.",
                half * 100.0,
                full * 100.0
            );
            value(name, full / half, n.min(m), note)
        }
        _ => not_run(name),
    });
    all
}

/// Share of its scheduled bytes that a downlink carries while one message is granted there, if it
/// is a queue that shares its link among messages and serves unscheduled bytes before: of the time
/// with any customer, there is one for 1 less the load, whatever the sizes. With the shortest first
/// there are fewer at once, so the share is a little larger.
fn alone(result: &NetResult) -> Option<f64> {
    let scheduled: u64 = result.level_bytes[..4].iter().sum();
    let all: u64 = result.level_bytes.iter().sum();
    let busy = result.port("downlink")?.utilization;
    let scheduled = busy * scheduled as f64 / all.max(1) as f64;
    Some(1.0 - scheduled / (1.0 - (busy - scheduled)))
}

fn found(e: &NetExperiment) -> String {
    let pair = |transport: &str| {
        let short = point(e, transport, 0.8).map(|result| &result.short);
        let both = (known(short, p50), known(short, p99));
        match both {
            (None, None) => None,
            (median, tail) => Some(format!("{transport} {}/{}", words(median), words(tail))),
        }
    };
    let labels = [
        "Homa",
        "Homa-P4",
        "Homa-P2",
        "Homa-P1",
        "pFabric",
        "pHost",
        "NDP",
        "PIAS",
        "DCTCP",
        "Basic",
        "SRPT sender",
        "FIFO",
        "oracle",
    ];
    let all: Vec<String> = labels.iter().filter_map(|label| pair(label)).collect();
    if all.is_empty() {
        return "These runs are too short for percentiles of this workload.".to_string();
    }
    format!(
        "Median and 99th percentile slowdown of the short half of the messages: {}.",
        all.join(", ")
    )
}

/// What is shown side by side; rows come from several variants, and a quick run has not all.
fn groups(e: &NetExperiment) -> Vec<Group<'_>> {
    let at = |load: f64, labels: &[&'static str]| -> Vec<(String, &NetResult)> {
        let found = |label: &&'static str| {
            let result = point(e, label, load).filter(|one| (one.load() - load).abs() < 1e-6)?;
            Some(((*label).to_string(), result))
        };
        labels.iter().filter_map(found).collect()
    };
    let of = |wanted: &[(&'static str, &'static str)]| -> Vec<(String, &NetResult)> {
        let found = |&(variant, label): &(&'static str, &'static str)| {
            let result = e.of(variant, label).next()?;
            Some((format!("{label}, {}", show::per_cent(result.load())), result))
        };
        wanted.iter().filter_map(found).collect()
    };
    let compared = ["Homa", "pFabric", "PIAS", "pHost", "NDP", "oracle"];
    let others = ["Homa-P4", "Homa-P2", "Homa-P1", "Basic", "DCTCP", "SRPT sender", "FIFO"];
    let sustained = [
        ("phost", "pHost"),
        ("phost", "pHost, one level"),
        ("half", "pHost, one level"),
        ("ndp", "NDP"),
    ];
    let bare = [("ip", "pFabric"), ("ip", "PIAS"), ("phost_ip", "pHost")];
    let all = [
        ("80", "load 80 %", at(0.8, &compared)),
        ("50", "load 50 %", at(0.5, &compared)),
        ("others", "fewer levels and other transports, load 80 %", at(0.8, &others)),
        ("sustained", "at loads they sustain", of(&sustained)),
        ("ip", "on links without Ethernet framing", of(&bare)),
        ("one-step", "PIAS with one threshold of one packet", of(&[("one_step", "PIAS")])),
    ];
    all.into_iter()
        .filter(|(_, _, rows)| !rows.is_empty())
        .map(|(id, title, rows)| Group { id: id.to_string(), title: title.to_string(), rows })
        .collect()
}

fn panels(e: &NetExperiment) -> Vec<Panel> {
    groups(e).iter().map(show::by_size).collect()
}

fn tables(e: &NetExperiment) -> Vec<Table> {
    let mut all: Vec<Table> = groups(e).iter().flat_map(show::size_tables).collect();
    all.push(show::queues(e, BASE));
    all.push(show::levels(e));
    all.push(show::points(e));
    all
}
