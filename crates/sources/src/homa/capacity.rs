//! The highest sustainable load, and what overcommitment has to do with it ([homa 5.4], [homa
//! 5.5]).

use super::measure::{id, missing, not_run, value};
use super::show::{self, TransportCurve};
use cavy_kinds::network::{NetExperiment, NetResult, NetworkPlan};
use cavy_report::model::{Cell, Panel, Scale, Table};
use cavy_study::claim::{Basis, Measured};
use cavy_study::experiment::BASE;
use cavy_study::outcome::Standing;
use cavy_study::source::{About, Study};

/// Capacity by workload.
pub static CAPACITY: Study<NetworkPlan> = Study {
    about: About {
        id: "capacity",
        title: "The highest load each transport sustains",
        plan: include_str!("plans/capacity.toml"),
        files: &[],
        shows: "For each load of the source's grid whether the backlog grows from one half of a \
                run to the next by more than a fifth: no up to that, yes where it grows as an \
                overload does, else the run is too short. Runs must be many times as long as the \
                largest messages live.",
        claimed: "Homa sustains 87 to 92 % on all workloads, pFabric 75 to 90 %, PIAS 75 to 85 %, \
                  NDP about 70 % and pHost 58 to 73 %.",
    },
    measure: measure_capacity,
    found: found_capacity,
    panels: panels_capacity,
    tables: tables_capacity,
};

/// Wasted bandwidth by overcommitment.
pub static WASTE: Study<NetworkPlan> = Study {
    about: About {
        id: "waste",
        title: "Bandwidth wasted for lack of overcommitment",
        plan: include_str!("plans/waste.toml"),
        files: &[],
        shows: "The share of time that links to hosts idle while the host withholds a grant, over \
                the load, by the number K of senders that are granted at once.",
        claimed: "With K=1 W4 is sustained to 63 % only, with K=7 to 89 %; withholding wastes 30 \
                  to 40 % of a link.",
    },
    measure: measure_waste,
    found: found_waste,
    panels: panels_waste,
    tables: tables_waste,
};

const WORKLOADS: [(&str, &str); 5] =
    [(BASE, "w1"), ("w2", "w2"), ("w3", "w3"), ("w4", "w4"), ("w5", "w5")];

/// The longest messages must live this much shorter than a run counts, for its halves to be alike;
/// a point whose halves cannot be is no evidence.
const BACKLOG_SHARE: f64 = 0.1;

/// The highest load of the grid up to which all are stable, and the lowest that is shown not to be:
/// between them runs may be too short to tell.
struct Sustained {
    load: f64,
    missed: Option<f64>,
    /// The lowest load between these two of which a run cannot tell, and what it says of that.
    unclear: Option<String>,
    messages: u64,
    /// Is the backlog small against what was sent, so that growth would be growth?
    is_settled: bool,
}

fn sustained(e: &NetExperiment, variant: &str, transport: &str) -> Option<Sustained> {
    let mut results: Vec<&NetResult> = e.of(variant, transport).collect();
    results.sort_by(|a, b| a.load().total_cmp(&b.load()));
    let first = results.first()?;
    let is_settled = {
        let per_run = first.payload_bytes as f64 / f64::from(first.replications.max(1));
        let hosts = first.port("downlink").map_or(1, |port| port.ports);
        first.backlog_bytes[1] < BACKLOG_SHARE * per_run / f64::from(hosts)
    };
    let stable = results.iter().take_while(|result| result.stable()).count();
    let messages = results.iter().map(|result| result.work).sum();
    let load = if stable == 0 { 0.0 } else { results[stable - 1].load() };
    let beyond = &results[stable..];
    let missed = beyond.iter().find(|result| result.standing == Standing::Unstable);
    let missed = missed.map(|result| result.load());
    let unclear = beyond.first().filter(|next| Some(next.load()) != missed);
    let unclear = unclear.map(|next| format!("At {:.2} {}.", next.load(), next.note));
    Some(Sustained { load, missed, unclear, messages, is_settled })
}

const TOO_SHORT: &str =
    "The run is not long against the life of the largest messages: its halves cannot tell.";

fn highest(name: String, e: &NetExperiment, variant: &str, transport: &str) -> Measured {
    match sustained(e, variant, transport) {
        None => not_run(name),
        Some(found) if !found.is_settled => missing(name, TOO_SHORT),
        Some(found) => Measured {
            id: name,
            value: Some(found.load),
            low: Some(found.load),
            high: found.missed.or(Some(1.0)),
            basis: basis(&[&found]),
            samples: found.messages,
            note: match (&found.unclear, found.missed) {
                (Some(why), missed) => format!(
                    "Stable at {:.2}; beyond, runs are too short to tell{}. {why}",
                    found.load,
                    missed.map_or(String::new(), |at| format!(", but at {at:.2}"))
                ),
                (None, Some(missed)) => format!("Stable at {:.2}, not at {missed:.2}.", found.load),
                (None, None) => format!("Stable up to {:.2}, the highest load tried.", found.load),
            },
        },
    }
}

fn basis(all: &[&Sustained]) -> Basis {
    match all.iter().any(|one| one.unclear.is_some()) {
        true => Basis::Unclear,
        false => Basis::Bracket,
    }
}

fn measure_capacity(e: &NetExperiment) -> Vec<Measured> {
    let mut all = Vec::new();
    for (variant, key) in WORKLOADS {
        for (transport, short) in [
            ("Homa", "homa"),
            ("pFabric", "pfabric"),
            ("pHost", "phost"),
            ("NDP", "ndp"),
            ("PIAS", "pias"),
        ] {
            let name = id("capacity", &format!("{key}_{short}"));
            all.push(highest(name, e, variant, transport));
        }
        let name = id("capacity", &format!("{key}_lead"));
        let pair = (sustained(e, variant, "Homa"), sustained(e, variant, "pHost"));
        all.push(match pair {
            (Some(homa), Some(phost)) if homa.is_settled && phost.is_settled => {
                let mut note = format!("{:.2} against {:.2}.", homa.load, phost.load);
                for (label, one) in [("Homa", &homa), ("pHost", &phost)] {
                    let why = one.unclear.as_ref().map(|why| format!(" {label}: {why}"));
                    note.extend(why);
                }
                Measured {
                    // The least and the most that the loads between those tried may make of it.
                    low: Some(homa.load - phost.missed.unwrap_or(1.0)),
                    high: Some(homa.missed.unwrap_or(1.0) - phost.load),
                    basis: basis(&[&homa, &phost]),
                    ..value(name, homa.load - phost.load, homa.messages.min(phost.messages), note)
                }
            }
            (Some(_), Some(_)) => missing(name, TOO_SHORT),
            _ => not_run(name),
        });
    }
    all
}

fn found_capacity(e: &NetExperiment) -> String {
    let mut parts = Vec::new();
    for (variant, key) in WORKLOADS {
        let one = |label: &str| {
            let found = sustained(e, variant, label).filter(|found| found.is_settled)?;
            let more = if found.missed.is_none() { " or more" } else { "" };
            Some(format!("{label} {:.0} %{more}", found.load * 100.0))
        };
        let labels: Vec<String> = e.labels(variant).into_iter().filter_map(one).collect();
        if !labels.is_empty() {
            parts.push(format!("{}: {}", key.to_uppercase(), labels.join(", ")));
        }
    }
    if parts.is_empty() {
        return "The runs are too short to tell.".to_string();
    }
    format!("Sustained on this grid: {}. Other workloads need longer runs.", parts.join("; "))
}

fn panels_capacity(e: &NetExperiment) -> Vec<Panel> {
    vec![show::curve(
        e,
        BASE,
        &TransportCurve {
            id: "backlog",
            title: "W1: growth of the backlog from half to half",
            key: "load",
            x: ("load", Scale::Linear),
            y: ("second half over first", Scale::Log),
            of: |result| Some(result.backlog_bytes[1] / result.backlog_bytes[0].max(1.0)),
        },
    )]
}

fn tables_capacity(e: &NetExperiment) -> Vec<Table> {
    let row = |result: &NetResult| {
        vec![
            Cell::Text(result.variant.clone()),
            Cell::Text(result.label.clone()),
            Cell::Number(result.load()),
            Cell::Text(match result.standing {
                Standing::Stable => "yes".to_string(),
                Standing::Unstable => "no".to_string(),
                Standing::TooShort => "too short".to_string(),
            }),
            Cell::Number(result.backlog_bytes[0] / 1e3),
            Cell::Number(result.backlog_bytes[1] / 1e3),
            Cell::Number(result.goodput_gbps),
        ]
    };
    let columns = [
        "variant",
        "transport",
        "load",
        "stable",
        "backlog, first half (kB a host)",
        "second half",
        "goodput (Gb/s)",
    ];
    vec![Table {
        id: "stability".to_string(),
        title: "Does the backlog grow?".to_string(),
        columns: columns.map(String::from).to_vec(),
        rows: e.results.iter().map(row).collect(),
    }]
}

/// The largest share that is wasted at any load.
fn most_wasted<'a>(e: &'a NetExperiment, transport: &'a str) -> Option<(f64, &'a NetResult)> {
    let of = |result: &'a NetResult| Some((result.waste_ratio?, result));
    e.of(BASE, transport).filter_map(of).max_by(|a, b| a.0.total_cmp(&b.0))
}

fn measure_waste(e: &NetExperiment) -> Vec<Measured> {
    let capacity = |name: &str, label| highest(id("waste", name), e, BASE, label);
    let wasted = |name: &str, label| match most_wasted(e, label) {
        None => not_run(id("waste", name)),
        Some((share, result)) => {
            let note = format!("At load {:.2}.", result.load());
            value(id("waste", name), share, result.work, note)
        }
    };
    vec![
        capacity("k1", "K=1"),
        capacity("k7", "K=7"),
        wasted("wasted_k1", "K=1"),
        wasted("wasted_k7", "K=7"),
    ]
}

fn found_waste(e: &NetExperiment) -> String {
    let one = |label: &str| {
        let (share, result) = most_wasted(e, label)?;
        Some(format!("{label} {:.0} % at load {:.2}", share * 100.0, result.load()))
    };
    let all: Vec<String> = e.labels(BASE).into_iter().filter_map(one).collect();
    format!("The most that is wasted at any load: {}.", all.join(", "))
}

fn panels_waste(e: &NetExperiment) -> Vec<Panel> {
    let curve = |id, title, y, of| TransportCurve {
        id,
        title,
        key: "load",
        x: ("load", Scale::Linear),
        y,
        of,
    };
    let wasted = curve("wasted", "Wasted share of the link", ("share", Scale::Linear), |result| {
        result.waste_ratio
    });
    let goodput = curve("goodput", "Goodput", ("Gb/s a host", Scale::Linear), |result| {
        Some(result.goodput_gbps)
    });
    vec![show::curve(e, BASE, &wasted), show::curve(e, BASE, &goodput)]
}

fn tables_waste(e: &NetExperiment) -> Vec<Table> {
    let mut all = tables_capacity(e);
    all.push(show::points(e));
    all
}
