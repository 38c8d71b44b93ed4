//! Erlang's loss formula as a source: one figure, two claims.

use crate::bucket::{BucketPlan, Passed};
use cavy_study::claim::Measured;
use cavy_study::draw;
use cavy_study::experiment::{BASE, Experiment};
use cavy_study::outcome::Outcome;
use cavy_study::source::{About, Source, Study};
use cavy_study::subject::Subject;

/// The source.
pub fn source() -> Source {
    Source {
        id: "erlang",
        title: "Erlang's loss formula",
        question: "How large a bucket lets a burst pass?",
        summary: "A bucket of one token loses what a telephone line does.",
        claims: include_str!("../claims.toml"),
        live_claims: "",
        live: "",
        live_study: "",
        figures: vec![&LOSS],
    }
}

static LOSS: Study<BucketPlan> = Study {
    about: About {
        id: "loss",
        title: "Loss by rate",
        plan: include_str!("../plans/loss.toml"),
        files: &[("gaps.txt", include_str!("../plans/gaps.txt"))],
        shows: "The share of requests that one token loses.",
        claimed: "rate / (rate + tokens).",
    },
    measure,
    found: |e| format!("{} points.", e.results.len()),
    panels: |e| {
        let curves = BucketPlan::curves(e, BASE);
        curves.iter().filter_map(|curve| draw::panel(e, BASE, curve)).collect()
    },
    tables: |e| vec![draw::points(e)],
};

fn measure(e: &Experiment<BucketPlan>) -> Vec<Measured> {
    let of = |claim: &str, result: Option<&Outcome<Passed>>| {
        let dropped = result.map(|result| &result.dropped_ratio);
        Measured {
            id: format!("erlang.loss.{claim}"),
            value: dropped.map(|one| one.value),
            low: dropped.map(|one| one.low),
            high: dropped.map(|one| one.high),
            samples: result.map_or(0, |result| result.work),
            ..Measured::default()
        }
    };
    let half = |r: &&Outcome<Passed>| r.setting("rate_per_s") == Some(50.0);
    vec![
        of("half", e.of(BASE, "policer").find(half)),
        of("measured", e.of("measured", "policer").next()),
    ]
}
