//! Incast with and without control ([homa 5.10]).

use super::measure::{id, missing, not_run, value, with};
use super::show::{self, TransportCurve};
use cavy_kinds::network::{NetExperiment, NetResult, NetworkPlan};
use cavy_report::model::{Panel, Scale, Table};
use cavy_study::claim::{Basis, Measured};
use cavy_study::experiment::BASE;
use cavy_study::source::{About, Study};

/// Goodput of one client over the number of questions it keeps open.
pub static INCAST: Study<NetworkPlan> = Study {
    about: About {
        id: "incast",
        title: "Incast: one client, 15 servers, answers of 10 kB",
        plan: include_str!("plans/incast.toml"),
        files: &[],
        shows: "What one client receives while it keeps so many questions open to 15 servers, \
                through a port with 3 MB of buffer. Control marks questions beyond 25 open ones; \
                the answers to those send 300 bytes unasked. `marks only` leaves it at that; \
                `control` also grants nothing while 40 kB, overcommitment times a round trip, are \
                on their way.",
        claimed: "Without control goodput collapses beyond about 300 questions, when their blind \
                  bytes fill the buffer; with control it stays near the line rate for thousands. \
                  No public code has the control; this is our own design after the source's \
                  description.",
    },
    measure,
    found,
    panels,
    tables,
};

const KEY: &str = "traffic.concurrent";
/// Share of a 10 Gb/s link that full packets of RC leave for payload, in Gb/s.
const LINE_GBPS: f64 = 10.0 * 1442.0 / 1538.0;
/// Goodput below this share of the line is a collapse.
const COLLAPSE: f64 = 0.9;
/// What a marked answer may send unasked, and what the grants of the plan allow in all.
const MARKED_BYTES: f64 = 300.0;
const GRANTED_BYTES: f64 = 4.0 * 7.0 * 1442.0;

fn open(result: &NetResult) -> f64 {
    result.setting(KEY).unwrap_or(0.0)
}

/// The last number of questions of the grid, from `least` on, up to which something `holds` without
/// control, with the first where it does not.
fn last(
    e: &NetExperiment,
    name: String,
    least: f64,
    holds: fn(&NetResult) -> bool,
    note: &str,
) -> Measured {
    let results: Vec<&NetResult> = e.of(BASE, "no control").filter(|r| open(r) >= least).collect();
    if results.is_empty() {
        return not_run(name);
    }
    let good = results.iter().take_while(|result| holds(result)).count();
    let Some(last) = good.checked_sub(1).map(|index| results[index]) else {
        return missing(name, "It holds at no place of the grid.");
    };
    Measured {
        low: Some(open(last)),
        high: Some(results.get(good).map_or(f64::INFINITY, |missed| open(missed))),
        basis: Basis::Grid,
        ..value(name, open(last), results.iter().map(|r| r.work).sum(), note.to_string())
    }
}

/// Goodput near the line rate.
fn is_full(result: &NetResult) -> bool {
    result.answers_gbps.unwrap_or(0.0) >= COLLAPSE * LINE_GBPS
}

/// The smallest share of the line rate from 16 open questions on, and at how many that was.
fn least(e: &NetExperiment, label: &str) -> Option<(f64, f64, u64)> {
    let results = e.of(BASE, label).filter(|result| open(result) >= 16.0);
    let share = |r: &NetResult| (r.answers_gbps.unwrap_or(0.0) / LINE_GBPS, open(r), r.work);
    results.map(share).min_by(|a, b| a.0.total_cmp(&b.0))
}

fn measure(e: &NetExperiment) -> Vec<Measured> {
    let name = |name: &str| id("incast", name);
    let overflow = last(
        e,
        name("overflow"),
        1.0,
        |result| result.packets.dropped == 0,
        "The most open questions on this grid without a lost packet.",
    );
    let knee = last(
        e,
        name("knee"),
        16.0,
        is_full,
        "The most open questions on this grid with 90 % of the line rate.",
    );
    let at = |label| with(e, BASE, label, KEY, "4096");
    let share = |claim: &str, label| match at(label) {
        Some(result) => {
            let gbps = result.answers_gbps.unwrap_or(0.0);
            let note = format!("{gbps:.2} of {LINE_GBPS:.2} Gb/s.");
            value(name(claim), gbps / LINE_GBPS, result.work, note)
        }
        None => not_run(name(claim)),
    };
    let least = least(e, "control");
    let queue = match at("control") {
        Some(result) => {
            let bound = 4096.0 * MARKED_BYTES + GRANTED_BYTES;
            let most = result.queue_max_bytes() as f64;
            let note = format!("{:.0} kB against {:.0} kB.", most / 1e3, bound / 1e3);
            value(name("queue"), most / bound, result.work, note)
        }
        None => not_run(name("queue")),
    };
    vec![
        overflow,
        knee,
        share("uncontrolled_4096", "no control"),
        share("marks_4096", "marks only"),
        share("control_4096", "control"),
        share("automatic_4096", "automatic"),
        match least {
            Some((share, at, messages)) => {
                let note = format!("At {at:.0} open questions.");
                value(name("control_least"), share, messages, note)
            }
            None => not_run(name("control_least")),
        },
        queue,
    ]
}

fn found(e: &NetExperiment) -> String {
    let one = |label: &str| {
        let last = e.of(BASE, label).max_by(|a, b| open(a).total_cmp(&open(b)))?;
        let gbps = last.answers_gbps?;
        Some(format!(
            "{label} {gbps:.2} Gb/s and a queue of {:.0} kB",
            last.queue_max_bytes() as f64 / 1e3
        ))
    };
    let all: Vec<String> = e.labels(BASE).into_iter().filter_map(one).collect();
    let grid = e.of(BASE, "no control").filter(|result| open(result) >= 16.0);
    let knee = grid.take_while(|result| is_full(result)).last();
    let knee = knee.map_or("none".to_string(), |result| format!("{:.0}", open(result)));
    format!(
        "Without control the last grid point near the line rate is {knee} open questions. At the \
         most questions tried: {}.",
        all.join("; ")
    )
}

fn panels(e: &NetExperiment) -> Vec<Panel> {
    let curve = |id, title, y, of| TransportCurve {
        id,
        title,
        key: KEY,
        x: ("open questions", Scale::Log),
        y,
        of,
    };
    let goodput =
        curve("goodput", "Goodput of the client", ("Gb/s", Scale::Linear), |r| r.answers_gbps);
    let queue = curve("queue", "Largest queue", ("kB", Scale::Log), |result| {
        Some(result.queue_max_bytes() as f64 / 1e3)
    });
    vec![show::curve(e, BASE, &goodput), show::curve(e, BASE, &queue)]
}

fn tables(e: &NetExperiment) -> Vec<Table> {
    vec![show::points(e)]
}
