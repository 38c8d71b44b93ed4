//! Schemes against each other: E8, E11, T1 to T4 and 2.13 of [roar], and where servers stand.

use super::measure::{at, mean, mean_of, panels, ratio, samples, tables, value, values};
use super::plans::{
    ADJUST, DOUBLE, FREE, FRONT_ENDS, LOAD, OPT, P, PLAIN, PTN, RINGS as TWO_RINGS, SPLIT, SW,
};
use cavy_kinds::search::{SearchExperiment, SearchPlan, SearchResult};
use cavy_lab::statistics::quantile;
use cavy_study::claim::{Basis, Measured};
use cavy_study::experiment::BASE;
use cavy_study::source::{About, Study};

/// Identical servers.
pub static IDENTICAL: Study<SearchPlan> = Study {
    about: About {
        id: "identical",
        title: "Identical servers",
        plan: include_str!("plans/identical.toml"),
        files: &[],
        shows: "Five schemes on 48 identical servers, beside the closed form.",
        claimed: "Four of them are one queue, and have one mean.",
    },
    measure: measure_identical,
    found: |e| found(e, "Means at half load", LOAD, 0.5),
    panels,
    tables,
};

/// Unequal servers.
pub static ALGORITHMS: Study<SearchPlan> = Study {
    about: About {
        id: "algorithms",
        title: "Schemes on unequal servers",
        plan: include_str!("plans/algorithms.toml"),
        files: &[],
        shows: "ROAR, its refinements and its rivals on servers of four speeds, in nine orders on \
                the ring.",
        claimed: "OPT before PTN before ROAR with refinements before plain ROAR before SW.",
    },
    measure: measure_algorithms,
    found: |e| found(e, "Medians of nine orders at half load", LOAD, 0.5),
    panels,
    tables,
};

/// Many orders of servers.
pub static ORDERS: Study<SearchPlan> = Study {
    about: About {
        id: "orders",
        title: "Orders of servers",
        plan: include_str!("plans/orders.toml"),
        files: &[],
        shows: "The same servers in many orders by chance on the ring, at low load: how often the \
                mean of a scheme is what the specification's one order, or median of nine, has.",
        claimed: "Cells of T1, T3 and T4 that the order decides.",
    },
    measure: measure_orders,
    found: |_| String::new(),
    panels: |_| Vec::new(),
    tables,
};

/// The order of servers on the ring.
pub static PLACEMENT: Study<SearchPlan> = Study {
    about: About {
        id: "placement",
        title: "The order of servers on the ring",
        plan: include_str!("plans/placement.toml"),
        files: &[],
        shows: "The same servers fast beside slow, by chance, and sorted by speed.",
        claimed: "Fast beside slow, the plain sweep comes close to PTN for some p.",
    },
    measure: |e| {
        let of = |variant, label, p| at(e, variant, label, &[(P, p)]);
        let mut all = Vec::new();
        for p in [4.0, 6.0, 8.0, 12.0] {
            let name = format!("placement.plain_{p:.0}");
            all.push(ratio(name, of(BASE, PLAIN, p), of(BASE, PTN, p)));
        }
        for p in [4.0, 6.0, 8.0, 12.0, 16.0, 24.0] {
            let name = format!("placement.order_{p:.0}");
            all.push(ratio(name, of(BASE, PLAIN, p), of("shuffled", PLAIN, p)));
        }
        all.push(mean_of("placement.blocks".to_string(), of("blocks", PLAIN, 8.0)));
        all
    },
    found: |e| {
        let of = |variant: &str| {
            Some(format!("{:.0} ms {variant}", mean(at(e, variant, PLAIN, &[(P, 8.0)])?)?))
        };
        let all: Vec<String> = [BASE, "shuffled", "blocks"].into_iter().filter_map(of).collect();
        format!("Plain ROAR at p = 8, half load: {} (base: fast beside slow).", all.join(", "))
    },
    panels,
    tables,
};

/// Who of a cluster answers.
pub static PICKS: Study<SearchPlan> = Study {
    about: About {
        id: "picks",
        title: "Who of a cluster answers",
        plan: include_str!("plans/picks.toml"),
        files: &[],
        shows: "The earliest finish by exact knowledge, two choices, fewest outstanding, \
                Elasticsearch's adaptive replica selection, and one after the other.",
        claimed: "The earliest finish is the best choice there is; nothing is published for the \
                  others.",
    },
    measure: |e| {
        let others =
            ["PTN, two choices", "PTN, least outstanding", "fixed shards", "PTN, round robin"];
        let ratios = values(e, BASE, LOAD).into_iter().flat_map(|load| {
            let of = move |label| mean(at(e, BASE, label, &[(LOAD, load)])?);
            others.into_iter().filter_map(move |label| Some(of(label)? / of(PTN)?))
        });
        vec![value(
            "picks.earliest".to_string(),
            ratios.reduce(f64::min),
            samples(e),
            String::new(),
        )]
    },
    found: |e| found(e, "Means at half load", LOAD, 0.5),
    panels,
    tables,
};

/// Several rings.
pub static RINGS: Study<SearchPlan> = Study {
    about: About {
        id: "rings",
        title: "Several rings",
        plan: include_str!("plans/rings.toml"),
        files: &[],
        shows: "One, two and three rings over the same servers.",
        claimed: "A further ring gives more choices for a further copy.",
    },
    measure: |e| {
        let loads = values(e, BASE, LOAD);
        let ratios = loads.iter().filter_map(|&load| {
            let two = mean(at(e, BASE, TWO_RINGS, &[(LOAD, load)])?)?;
            Some(two / mean(at(e, BASE, PLAIN, &[(LOAD, load)])?)?)
        });
        let worst = ratios.reduce(f64::max);
        let mut all = vec![value("rings.better".to_string(), worst, samples(e), String::new())];
        for (name, label) in [("1", PLAIN), ("2", TWO_RINGS), ("3", "ROAR, 3 rings")] {
            let one = e.results.iter().find(|result| result.label == label);
            let more = one.map(|result| result.copies - 6.0);
            all.push(value(format!("rings.copies_{name}"), more, samples(e), String::new()));
        }
        all
    },
    found: |e| found(e, "Means at half load", LOAD, 0.5),
    panels,
    tables,
};

/// Random placement.
pub static RECALL: Study<SearchPlan> = Study {
    about: About {
        id: "recall",
        title: "Random placement",
        plan: include_str!("plans/recall.toml"),
        files: &[],
        shows: "What queries miss when documents and queries choose servers by chance.",
        claimed: "With c = 2, 98.2 % are found at four times the work; exactly it is 99.68 %.",
    },
    measure: |e| {
        let of = |label: &str| e.results.iter().find(|result| result.label == label);
        let mut all: Vec<Measured> = [("10", "1"), ("15", "1.5"), ("20", "2")]
            .into_iter()
            .map(|(name, c)| {
                let missed = of(&format!("RAND, c = {c}")).map(|r| 1.0 - r.met_ratio.value);
                value(format!("recall.miss_{name}"), missed, 10 * samples(e) / 4, String::new())
            })
            .collect();
        let busy = |label| of(label).map(|result: &SearchResult| result.busy_ratio);
        let work = busy("RAND, c = 2").zip(busy(PTN)).map(|(rand, ptn)| rand / ptn);
        all.push(value("recall.work".to_string(), work, samples(e), String::new()));
        all
    },
    found: |e| {
        let of = |r: &SearchResult| {
            format!("{} misses {:.3} %", r.label, 100.0 * (1.0 - r.met_ratio.value))
        };
        let all: Vec<String> = e.results.iter().map(of).collect();
        format!("{}.", all.join(", "))
    },
    panels: |_| Vec::new(),
    tables,
};

/// Several front ends.
pub static FRONTENDS: Study<SearchPlan> = Study {
    about: About {
        id: "frontends",
        title: "Several front ends",
        plan: include_str!("plans/frontends.toml"),
        files: &[],
        shows: "One, four and sixteen front ends that know what their own answers said, and what \
                servers report to all.",
        claimed: "Having many is no problem.",
    },
    measure: measure_front_ends,
    found: |e| {
        let of = |variant: &str, front_ends: f64| {
            mean(at(e, variant, SPLIT, &[(FRONT_ENDS, front_ends)])?)
        };
        let show = |found: Option<f64>| found.map_or("?".to_string(), |mean| format!("{mean:.0}"));
        format!(
            "With splits, 1, 4 and 16 front ends: {}, {}, {} ms without reports; {}, {}, {} ms \
             with reports each 10 ms.",
            show(of(BASE, 1.0)),
            show(of(BASE, 4.0)),
            show(of(BASE, 16.0)),
            show(of("often", 1.0)),
            show(of("often", 4.0)),
            show(of("often", 16.0))
        )
    },
    panels,
    tables,
};

/// Medians of means of all contestants at one value of a swept key.
fn found(e: &SearchExperiment, what: &str, key: &str, at_value: f64) -> String {
    let labels = e.results.iter().filter(|r| r.variant == BASE).map(|r| r.label.clone());
    let mut all: Vec<String> = labels.collect();
    all.dedup();
    let of = |label: &String| {
        let result = at(e, BASE, label, &[(key, at_value)])?;
        Some(match mean(result) {
            Some(mean) => format!("{label} {mean:.0} ms"),
            None => format!("{label} does not keep up"),
        })
    };
    let mut each: Vec<String> = Vec::new();
    for text in all.iter().filter_map(of) {
        if !each.contains(&text) {
            each.push(text);
        }
    }
    format!("{what}: {}.", each.join(", "))
}

const LOADS: [(&str, f64); 5] = [("1", 0.1), ("3", 0.3), ("5", 0.5), ("7", 0.7), ("8", 0.8)];

fn measure_identical(e: &SearchExperiment) -> Vec<Measured> {
    let pooled = |label: &str, load: f64| {
        Some(at(e, BASE, label, &[(LOAD, load)])?.latency.get("mean_ms")?.value)
    };
    let differences = values(e, BASE, LOAD).into_iter().filter_map(|load| {
        let all: Option<Vec<f64>> =
            [OPT, PTN, SW, PLAIN].into_iter().map(|label| pooled(label, load)).collect();
        let all = all?;
        let most = all.iter().copied().fold(0.0, f64::max);
        let least = all.iter().copied().fold(f64::INFINITY, f64::min);
        Some(100.0 * (most / least - 1.0))
    });
    let worst = differences.reduce(f64::max);
    let one = |name: &str, found: Option<f64>| {
        value(format!("identical.{name}"), found, samples(e), String::new())
    };
    vec![
        one("same", worst),
        one("mean_5", pooled(PLAIN, 0.5)),
        one("mean_7", pooled(PLAIN, 0.7)),
        one("double_1", pooled(DOUBLE, 0.1)),
        one("double_7", pooled(DOUBLE, 0.7)),
    ]
}

fn measure_algorithms(e: &SearchExperiment) -> Vec<Measured> {
    let mut all = Vec::new();
    let schemes = [
        ("opt", OPT),
        ("ptn", PTN),
        ("plain", PLAIN),
        ("adjust", ADJUST),
        ("split", SPLIT),
        ("rings", TWO_RINGS),
        ("double", DOUBLE),
        ("free", FREE),
    ];
    for (name, label) in schemes {
        for (of, load) in LOADS {
            let result = at(e, BASE, label, &[(LOAD, load)]);
            // An idle ring has a mean that its order decides: see `orders`.
            if !(of == "1" && ["plain", "adjust", "rings", "double"].contains(&name)) {
                all.push(mean_of(format!("algorithms.t1_{name}_{of}"), result));
            }
        }
    }
    let idle = at(e, BASE, PLAIN, &[(LOAD, 0.1)]);
    let most = idle.and_then(|result| Some(result.latency.get("mean_ms")?.max()));
    let orders = idle.map_or(0, |result| result.latency.samples);
    all.push(value("algorithms.t1_plain_1_most".to_string(), most, orders, String::new()));
    for (name, label) in [("opt", OPT), ("ptn", PTN)] {
        for (of, load) in LOADS {
            let result = at(e, BASE, label, &[(LOAD, load)]).filter(|result| result.stable());
            let p99 = result.and_then(|r| Some(r.latency.get("p99_ms")?.value));
            let count = result.map_or(0, |result| result.latency.samples);
            let name = format!("algorithms.t1_{name}_p99_{of}");
            all.push(value(name, p99, count, String::new()));
        }
    }
    let others = |variant: &'static str, table: &'static str, schemes: &[&str]| {
        let names = [
            ("ptn", PTN),
            ("plain", PLAIN),
            ("adjust", ADJUST),
            ("rings", TWO_RINGS),
            ("split", SPLIT),
            ("free", FREE),
        ];
        let own = names.into_iter().filter(|(name, _)| schemes.contains(name));
        let cells = own.flat_map(|(name, label)| {
            let by_order = move |of: &str| match name {
                "ptn" | "free" => false,
                "plain" => of == "1",
                _ => of == "1" || table == "t3",
            };
            let loads = [("1", 0.1), ("7", 0.7)].into_iter().filter(move |one| !by_order(one.0));
            loads.map(move |(of, load)| {
                let result = at(e, variant, label, &[(LOAD, load)]);
                mean_of(format!("algorithms.{table}_{name}_{of}"), result)
            })
        });
        cells.collect::<Vec<_>>()
    };
    all.extend(others("strong", "t3", &["ptn", "plain", "adjust", "rings", "split", "free"]));
    all.extend(others("small", "t4", &["ptn", "plain", "adjust", "rings", "split"]));
    for (variant, table) in [(BASE, "t1"), ("strong", "t3")] {
        let of = |label: &str, load: f64| mean(at(e, variant, label, &[(LOAD, load)])?);
        let refined = |load: f64| {
            let each = [ADJUST, SPLIT, TWO_RINGS].into_iter().filter_map(|label| of(label, load));
            each.reduce(f64::min)
        };
        let least = |later: &dyn Fn(f64) -> Option<f64>, earlier: &dyn Fn(f64) -> Option<f64>| {
            let loads = values(e, variant, LOAD).into_iter();
            loads.filter_map(|load| Some(later(load)? / earlier(load)?)).reduce(f64::min)
        };
        let (opt, ptn) = (|load| of(OPT, load), |load| of(PTN, load));
        let (plain, sw) = (|load| of(PLAIN, load), |load| of(SW, load));
        let mut orders = vec![
            ("opt_ptn", least(&ptn, &opt)),
            ("ptn_refined", least(&refined, &ptn)),
            ("refined_plain", least(&plain, &refined)),
        ];
        if variant == BASE {
            orders.push(("plain_sw", least(&sw, &plain)));
        }
        let each = orders.into_iter().map(|(name, found)| {
            value(format!("algorithms.{table}_{name}"), found, samples(e), String::new())
        });
        all.extend(each);
    }
    let small = |label| at(e, "small", label, &[(LOAD, 0.7)]);
    all.push(ratio("algorithms.t4_adjust_ptn".to_string(), small(ADJUST), small(PTN)));
    let idle = |label| at(e, BASE, label, &[(LOAD, 0.1)]);
    all.push(ratio("algorithms.free_opt".to_string(), idle(FREE), idle(OPT)));
    all
}

/// What a twentieth of all orders stays below, and what a twentieth exceeds.
fn measure_orders(e: &SearchExperiment) -> Vec<Measured> {
    let (base, strong, small) = (BASE, "strong", "small");
    let cells = [
        ("t1_plain_1", base, PLAIN, 0.1),
        ("t1_adjust_1", base, ADJUST, 0.1),
        ("t1_rings_1", base, TWO_RINGS, 0.1),
        ("t1_double_1", base, DOUBLE, 0.1),
        ("t3_plain_1", strong, PLAIN, 0.1),
        ("t3_adjust_1", strong, ADJUST, 0.1),
        ("t3_rings_1", strong, TWO_RINGS, 0.1),
        ("t3_split_1", strong, SPLIT, 0.1),
        ("t3_adjust_7", strong, ADJUST, 0.7),
        ("t3_rings_7", strong, TWO_RINGS, 0.7),
        ("t3_split_7", strong, SPLIT, 0.7),
        ("t4_plain_1", small, PLAIN, 0.1),
        ("t4_adjust_1", small, ADJUST, 0.1),
        ("t4_rings_1", small, TWO_RINGS, 0.1),
        ("t4_split_1", small, SPLIT, 0.1),
    ];
    let of = |(name, variant, label, load): (&str, &str, &str, f64)| {
        // One load is swept in one variant only.
        let swept = at(e, variant, label, &[(LOAD, load)]);
        let alone = || e.results.iter().find(|r| r.variant == variant && r.label == label);
        let means = swept.or_else(alone).and_then(|result| result.latency.mean_ms.as_ref());
        let mut means = means.map_or(Vec::new(), |estimate| estimate.replications.clone());
        means.sort_by(f64::total_cmp);
        [("few", 0.05), ("most", 0.95)]
            .map(|(end, share)| rank(format!("orders.{name}_{end}"), &means, share))
    };
    cells.into_iter().flat_map(of).collect()
}

/// A quantile of ascending values, with the values between whose ranks it lies at 99 %.
fn rank(name: String, values: &[f64], share: f64) -> Measured {
    let n = values.len() as f64;
    let spread = 2.576 * (n * share * (1.0 - share)).sqrt();
    let at = |rank: f64| values.get((rank.floor().max(0.0) as usize).min(values.len().max(1) - 1));
    let quantile = quantile::of_sorted(values, share);
    let mut one = value(name, quantile, values.len() as u64, String::new());
    if one.value.is_some() {
        (one.low, one.high) = (at(n * share - spread).copied(), at(n * share + spread).copied());
        one.basis = Basis::Interval;
    }
    one
}

fn measure_front_ends(e: &SearchExperiment) -> Vec<Measured> {
    let of = |variant: &str, label: &str, many: f64| at(e, variant, label, &[(FRONT_ENDS, many)]);
    let mut all = Vec::new();
    for (name, label) in [("ptn", PTN), ("split", SPLIT), ("adjust", ADJUST), ("free", FREE)] {
        let cells = [
            ("1", BASE, 1.0),
            ("4_reports", "reports", 4.0),
            ("4", BASE, 4.0),
            ("16_reports", "reports", 16.0),
            ("16", BASE, 16.0),
        ];
        for (cell, variant, many) in cells {
            // A point that does not keep up has a mean of its length, as the source's has.
            let result = of(variant, label, many);
            let found = result.and_then(|r| Some(r.latency.get("mean_ms")?.median));
            let note = result.map_or(String::new(), |result| result.note.clone());
            let count = result.map_or(0, |result| result.latency.samples);
            all.push(value(format!("frontends.{name}_{cell}"), found, count, note));
        }
    }
    let whole =
        |variant: &str, many: f64| Some(of(variant, SPLIT, many)?.latency.get("mean_ms")?.median);
    let alone = whole(BASE, 1.0);
    let herd = whole(BASE, 16.0).zip(alone).map(|(many, one)| many / one);
    let often = whole("often", 4.0).zip(alone).map(|(many, one)| many / one);
    let four = |variant: &str| Some(of(variant, PTN, 4.0)?.latency.get("mean_ms")?.median);
    let turn = four("in_turn").zip(four(BASE)).map(|(turn, chance)| turn / chance);
    all.push(value("frontends.in_turn".to_string(), turn, samples(e), String::new()));
    all.push(value("frontends.no_problem".to_string(), herd, samples(e), String::new()));
    all.push(value("frontends.often".to_string(), often, samples(e), String::new()));
    all
}
