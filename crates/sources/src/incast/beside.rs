//! The client's schedule beside flows that it does not schedule ([incast 8]).

use super::cells;
use cavy_kinds::network::{NetExperiment, NetworkPlan};
use cavy_study::claim::Measured;
use cavy_study::experiment::BASE;
use cavy_study::source::{About, Study};

/// Blocks beside long flows.
pub static BESIDE: Study<NetworkPlan> = Study {
    about: About {
        id: "cure_beside",
        title: "The cure beside long flows",
        plan: include_str!("plans/cure_beside.toml"),
        files: &[],
        shows: "One, two or four hosts send to the client without a pause while it fetches blocks \
                from 8 or 32 servers. All are like Linux of today. The servers send in turn, and \
                the client learns how much at a time; or they send all at once.",
        claimed: "The source has no such client; these claims are our own. All servers that send \
                  in turn share the link with long flows as one connection would.",
    },
    measure,
    found,
    panels: cells::panels,
    tables: cells::tables,
};

/// Variants, and how many long flows they have.
const FLOWS: [(&str, u32); 3] = [(BASE, 1), ("two", 2), ("four", 4)];
const LEARNED: [&str; 2] = ["in turn, learned", "in turn, learned, 1 MB"];
const AT_ONCE: [&str; 2] = ["all at once", "all at once, 1 MB"];

/// What blocks have of the link, and what they leave to each long flow, over an equal share of the
/// link, where all servers count as one connection.
fn shares(e: &NetExperiment, labels: [&str; 2]) -> Vec<[f64; 2]> {
    let of = |(variant, flows): (&str, u32)| {
        let all = labels.into_iter().flat_map(|label| e.of(variant, label));
        let ratios = all.filter_map(|result| result.blocks.as_ref()?.goodput_ratio);
        let flows = f64::from(flows);
        let both = |ratio: f64| [ratio, (1.0 - ratio) / flows].map(|one| one * (1.0 + flows));
        ratios.map(both).collect::<Vec<[f64; 2]>>()
    };
    FLOWS.into_iter().flat_map(of).collect()
}

fn measure(e: &NetExperiment) -> Vec<Measured> {
    let all = shares(e, LEARNED);
    let least = |name: &str, of: usize| {
        let value = all.iter().map(|both| both[of]).reduce(f64::min);
        cells::compared(e, "cure_beside", name, (LEARNED[0], 32), value)
    };
    vec![least("blocks", 0), least("flows", 1)]
}

fn found(e: &NetExperiment) -> String {
    let of = |labels| {
        let all: Vec<f64> = shares(e, labels).into_iter().map(|both| both[0]).collect();
        let [least, most] = [f64::min, f64::max].map(|pick: fn(f64, f64) -> f64| {
            all.iter().copied().reduce(pick).map_or("?".into(), |share| format!("{share:.2}"))
        });
        format!("{least} to {most}")
    };
    format!(
        "Blocks of servers that send in turn have {} times what one connection should have, those \
         of servers that send all at once {}.",
        of(LEARNED),
        of(AT_ONCE)
    )
}
