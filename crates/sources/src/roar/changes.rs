//! What happens while it runs: E4, E5 and E6 of [roar 5] and hedging [roar 8.2], by machines.

use super::measure::{at, panels, samples, tables, value};
use super::plans::{DISSOLVED, PLAIN, PTN, REINDEXED, SHARDS};
use cavy_kinds::Latency;
use cavy_kinds::search::{Draw, Phase, SearchExperiment, SearchPlan, SearchResult};
use cavy_study::claim::Measured;
use cavy_study::draw;
use cavy_study::experiment::BASE;
use cavy_study::outcome::Estimate;
use cavy_study::source::{About, Study};
use cavy_study::subject::Subject as _;

/// Changing p.
pub static CHANGE: Study<SearchPlan> = Study {
    about: About {
        id: "change",
        title: "Changing p while it runs",
        plan: include_str!("plans/change.toml"),
        files: &[],
        shows: "p goes down and up again under load, with copies held to a fifth of each processor \
                and without a limit. Every answer is compared with every acknowledged write.",
        claimed: "Lowering p is the costly direction, and leaves the mean delay as it was; raising \
                  moves nothing.",
    },
    measure: measure_change,
    found: |e| {
        let of = |phase: &Phase| {
            let seconds = phase.reached_s.as_ref().map_or(f64::NAN, |one| one.value);
            format!("{} {:.2} indexes in {seconds:.1} s", phase.what, phase.copied.value)
        };
        let all: Vec<String> =
            of_variant(e, BASE).map_or(Vec::new(), |result| result.phases.iter().map(of).collect());
        format!("Copied: {}.", all.join("; "))
    },
    panels: |_| Vec::new(),
    tables,
};

/// Changing p by other schemes.
pub static RIVALS_CHANGE: Study<SearchPlan> = Study {
    about: About {
        id: "rivals_change",
        title: "Changing p, beside rivals",
        plan: include_str!("plans/rivals_change.toml"),
        files: &[],
        shows: "p is halved three times and doubled three times under load: by ROAR, by clusters \
                that merge, by clusters of which half dissolve, and by fixed shards that \
                Elasticsearch shrinks and splits, or makes anew. All may copy with a fifth of a \
                processor.",
        claimed: "Merging clusters moves as much as ROAR, dissolving half of them 1.5 times as \
                  much; then their capacity is missing meanwhile, and shards take no writes.",
    },
    measure: measure_rivals,
    found: |e| {
        let of = |label: &str| {
            let first = at(e, BASE, label, &[])?.phases.first()?;
            let seconds = first.reached_s.as_ref().map_or(f64::NAN, |one| one.value);
            Some(format!(
                "{label} {:.2} indexes in {seconds:.1} s, {:.1} s without writes",
                first.copied.value, first.blocked_s
            ))
        };
        let all: Vec<String> =
            [PLAIN, PTN, DISSOLVED, SHARDS, REINDEXED].into_iter().filter_map(of).collect();
        format!("From 48 to 24: {}.", all.join("; "))
    },
    panels: |_| Vec::new(),
    tables,
};

/// Crashes.
pub static CRASHES: Study<SearchPlan> = Study {
    about: About {
        id: "crashes",
        title: "Crashes while it runs",
        plan: include_str!("plans/crashes.toml"),
        files: &[],
        shows: "Servers crash under load and come back, and every answer is checked.",
        claimed: "Late parts are sent to the neighbours, which hold the same documents.",
    },
    measure: measure_crashes,
    found: checked,
    panels,
    tables,
};

/// Leaving and joining.
pub static MEMBERSHIP: Study<SearchPlan> = Study {
    about: About {
        id: "membership",
        title: "Servers that leave and come back",
        plan: include_str!("plans/membership.toml"),
        files: &[],
        shows: "A server hands its range over to the one that follows it on the ring, leaves, and \
                comes back, under load. Every answer is checked.",
        claimed: "Servers are added and removed live: no query fails, and queries take as long as \
                  before.",
    },
    measure: |e| {
        let Some(result) = of_variant(e, BASE) else { return Vec::new() };
        let one = |name: &str, found: Option<f64>| {
            let note = format!("{} writes were acknowledged.", result.written);
            value(format!("membership.{name}"), found, result.latency.samples, note)
        };
        let mean = |of: &dyn Fn(&Phase) -> Option<f64>| {
            let each: Option<Vec<f64>> = result.phases.iter().map(of).collect();
            each.map(|each| each.iter().sum::<f64>() / each.len() as f64)
        };
        // It is told to come back 15 s after it was told to leave.
        let back = |phase: &Phase| Some(phase.reached_s.as_ref()?.value - 15.0);
        vec![
            one("wrong", Some(result.wrong as f64)),
            one("partial", Some(result.partial as f64)),
            one("copied", mean(&|phase| Some(phase.copied.value))),
            one("back", mean(&back)),
            one("mean", mean(&|phase| Some(phase.during_ratio.as_ref()?.value))),
        ]
    },
    found: checked,
    panels,
    tables,
};

/// Borders that move by load.
pub static BALANCE: Study<SearchPlan> = Study {
    about: About {
        id: "balance",
        title: "Borders that move by load",
        plan: include_str!("plans/balance.toml"),
        files: &[],
        shows: "Servers of mild (base) and of strong differences in speed begin with equal ranges, \
                and borders move every half a minute, while queries and writes go on. Beside that, \
                ranges that stay as they are, and ranges that are fair from the first. Every \
                answer is checked.",
        claimed: "Ranges converge to speeds from an equal start, within about ten periods.",
    },
    measure: measure_balance,
    found: |e| {
        let of = |(name, variant): (&str, &str)| {
            let found = of_variant(e, variant)?.balance.as_ref()?;
            let each = found.imbalance.iter().map(|one| format!("{:.2}", one.value));
            let periods = each.collect::<Vec<_>>().join(", ");
            Some(format!("{name}, by period: {periods}"))
        };
        let all = [("Mild", BASE), ("strong", STRONG)].into_iter().filter_map(of);
        format!("{}. {}", all.collect::<Vec<_>>().join("; "), checked(e))
    },
    panels: |_| Vec::new(),
    tables: |e| {
        let variants = [BASE, STRONG, "mild_stays", "strong_stays", "mild_fair", "strong_fair"];
        let all = variants.iter().flat_map(|variant| SearchPlan::tables(e, variant));
        std::iter::once(draw::points(e)).chain(all).collect()
    },
};

const STRONG: &str = "strong";

/// What became of borders in one mix of speeds.
fn measure_mix(e: &SearchExperiment, mix: &str, variant: &str) -> Option<Vec<Measured>> {
    let result = of_variant(e, variant)?;
    let found = result.balance.as_ref()?;
    let beside = |how: &str| Some(&of_variant(e, &format!("{mix}_{how}"))?.latency);
    let (samples, none) = (result.latency.samples, String::new);
    let one = |name: &str, found: Option<f64>, note: String| {
        value(format!("balance.{mix}_{name}"), found, samples, note)
    };
    let mean = |latency: &Latency| Some(latency.get("mean_ms")?.value);
    let ratio = |name: &str, above: Option<f64>, below: Option<f64>| {
        let both = above.zip(below);
        let note = both.map_or(String::new(), |(a, b)| format!("{a:.0} and {b:.0} ms."));
        one(name, both.map(|(a, b)| a / b), note)
    };
    let below = |one: &Estimate| one.max() < 1.2;
    let periods = found.imbalance.iter().position(below).map(|at| at as f64);
    let ends = found.imbalance.last()?;
    let (steps, copied) = (found.steps.value, found.copied.value);
    Some(vec![
        one("begin", found.imbalance.first().map(|one| one.value), none()),
        one("periods", periods, "In the slowest replication.".to_string()),
        one("end", Some(ends.value), format!("From {:.3} to {:.3}.", ends.min(), ends.max())),
        one(
            "copied",
            Some(copied / found.moved.value),
            format!("{copied:.2} indexes in {steps:.1} steps."),
        ),
        ratio("moving", mean(&found.moving), beside("stays").and_then(mean)),
        ratio("after", mean(&found.after), beside("fair").and_then(mean)),
        ratio("gain", mean(&found.after), beside("stays").and_then(mean)),
    ])
}

fn measure_balance(e: &SearchExperiment) -> Vec<Measured> {
    let mixes = [("mild", BASE), ("strong", STRONG)].into_iter();
    let mut all: Vec<Measured> =
        mixes.filter_map(|(mix, variant)| measure_mix(e, mix, variant)).flatten().collect();
    let sum = |of: fn(&SearchResult) -> u64| e.results.iter().map(of).sum::<u64>();
    let note = format!("{} writes were acknowledged.", sum(|result| result.written));
    for (name, found) in [("wrong", sum(|one| one.wrong)), ("partial", sum(|one| one.partial))] {
        let name = format!("balance.{name}");
        all.push(value(name, Some(found as f64), samples(e), note.clone()));
    }
    all
}

/// A server that stands still now and then.
pub static TAIL: Study<SearchPlan> = Study {
    about: About {
        id: "tail",
        title: "A server that stands still now and then",
        plan: include_str!("plans/tail.toml"),
        files: &[],
        shows: "One of 48 servers stands still for a second every ten. Late parts are waited for \
                (base), sent to others as well with a budget of 5 % (hedged), or given to others \
                after 20 ms (timers).",
        claimed: "Any part may be sent to other servers that hold the same documents; the first \
                  answer counts.",
    },
    measure: |e| {
        let p999 = |variant: &str| {
            Some(of_variant(e, variant)?.latency.p999_ms.as_ref()?.supported()?.value)
        };
        let over = |above: Option<f64>, below: Option<f64>| Some(above? / below?);
        let parts = |variant: &str| Some(of_variant(e, variant)?.parts);
        let samples = of_variant(e, BASE).map_or(0, |result| result.latency.samples);
        let note = format!(
            "p99.9: {:.0} ms waiting, {:.0} hedged, {:.0} with timers.",
            p999(BASE).unwrap_or(f64::NAN),
            p999("hedged").unwrap_or(f64::NAN),
            p999("timers").unwrap_or(f64::NAN)
        );
        let one = |name: &str, found: Option<f64>| {
            value(format!("tail.{name}"), found, samples, note.clone())
        };
        let wrong: u64 = e.results.iter().map(|result| result.wrong).sum();
        vec![
            one("hedged", over(p999("hedged"), p999(BASE))),
            one("extra", over(parts("hedged"), parts(BASE))),
            one("timers", over(p999("timers"), p999("hedged"))),
            one("wrong", Some(wrong as f64)),
        ]
    },
    found: checked,
    panels,
    tables,
};

fn of_variant<'a>(e: &'a SearchExperiment, variant: &str) -> Option<&'a SearchResult> {
    e.results.iter().find(|result| result.variant == variant)
}

fn checked(e: &SearchExperiment) -> String {
    of_variant(e, BASE).map_or(String::new(), |result| {
        format!(
            "{} answers, {} wrong, {} partial; {} writes acknowledged.",
            result.latency.samples, result.wrong, result.partial, result.written
        )
    })
}

fn measure_change(e: &SearchExperiment) -> Vec<Measured> {
    let Some(result) = of_variant(e, BASE) else { return Vec::new() };
    let steps = ["20", "10", "5", "up_10", "up_20", "up_40"];
    let mut all = Vec::new();
    for (name, phase) in steps.iter().zip(&result.phases) {
        let count = phase.during_queries;
        let mut one = |what: &str, found: Option<&Estimate>| {
            let name = format!("change.{what}_{name}");
            all.push(value(name, found.map(|one| one.value), count, String::new()));
        };
        one("copied", Some(&phase.copied));
        if name.starts_with("up") {
            one("usable", phase.usable_s.as_ref());
        } else {
            one("time", phase.reached_s.as_ref());
            one("mean", phase.during_ratio.as_ref());
        }
    }
    let worst = of_variant(e, "unlimited").and_then(|result| {
        let ratios = result.phases.iter().take(3);
        ratios.filter_map(|phase| Some(phase.during_ratio.as_ref()?.value)).reduce(f64::max)
    });
    let samples = result.latency.samples;
    all.push(value("change.unlimited".to_string(), worst, samples, String::new()));
    let wrong = e.results.iter().map(|result| result.wrong).sum::<u64>() as f64;
    let partial = e.results.iter().map(|result| result.partial).sum::<u64>() as f64;
    let note = format!("{} writes were acknowledged.", result.written);
    all.push(value("change.wrong".to_string(), Some(wrong), samples, note));
    all.push(value("change.partial".to_string(), Some(partial), samples, String::new()));
    all
}

fn measure_crashes(e: &SearchExperiment) -> Vec<Measured> {
    let Some(result) = of_variant(e, BASE) else { return Vec::new() };
    let one = |name: &str, found: Option<f64>| {
        let note = format!("{} writes were acknowledged.", result.written);
        value(format!("crashes.{name}"), found, result.latency.samples, note)
    };
    let reached = result.phases.iter().all(|phase| phase.reached_s.is_some());
    let slower = result.phases.iter().filter_map(|phase| Some(phase.during_ratio.as_ref()?.value));
    let spike = result.phases.first().map(|one| one.during_most_ms - one.before_most_ms);
    // Of each crash those draws that left at least three of the six servers with the same document.
    let kept: Vec<Vec<&Draw>> = result
        .phases
        .iter()
        .map(|phase| phase.draws.iter().filter(|draw| draw.holders_least >= 3).collect())
        .collect();
    let reached_kept = kept.iter().flatten().all(|draw| draw.reached_s.is_some());
    let slower_kept = kept.iter().filter_map(|draws| {
        let ratios: Vec<f64> = draws.iter().filter_map(|draw| draw.during_ratio).collect();
        (!ratios.is_empty()).then(|| ratios.iter().sum::<f64>() / ratios.len() as f64)
    });
    vec![
        one("wrong", Some(result.wrong as f64)),
        one("partial", Some(result.partial as f64)),
        one("back", Some(f64::from(u8::from(reached)))),
        one("slower", slower.reduce(f64::max)),
        one("spike", spike),
        one("back_kept", Some(f64::from(u8::from(reached_kept)))),
        one("slower_kept", slower_kept.reduce(f64::max)),
    ]
}

fn measure_rivals(e: &SearchExperiment) -> Vec<Measured> {
    let steps = ["24", "12", "6", "up_12", "up_24", "up_48"];
    let mut all = Vec::new();
    let labels = [
        ("roar", PLAIN),
        ("merge", PTN),
        ("dissolve", DISSOLVED),
        ("shards", SHARDS),
        ("reindex", REINDEXED),
    ];
    for (who, label) in labels {
        let Some(result) = at(e, BASE, label, &[]) else { continue };
        for (name, phase) in steps.iter().zip(&result.phases) {
            let count = phase.during_queries;
            let mut one = |what: &str, found: Option<f64>| {
                let name = format!("rivals_change.{who}_{what}_{name}");
                all.push(value(name, found, count, String::new()));
            };
            one("copied", Some(phase.copied.value));
            let of = |found: &Option<Estimate>| found.as_ref().map(|one| one.value);
            if [SHARDS, REINDEXED].contains(&label) {
                one("blocked", Some(phase.blocked_s));
            }
            if !name.starts_with("up") {
                one("time", of(&phase.reached_s));
                one("mean", of(&phase.during_ratio));
            }
        }
    }
    all
}
