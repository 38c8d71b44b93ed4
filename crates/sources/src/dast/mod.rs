//! DAST (Chen et al., EuroSys 2021): the experiments of [dast 5], beside its rivals.
//!
//! What the source says is an abstract's ranges and a README; the specification adds closed forms
//! and a model of message delays. The rivals are machines of the same family at their full
//! strength, and not what the artifact made of them.

use cavy_kinds::regions::{RegionsExperiment, RegionsPlan, RegionsResult, Side};
use cavy_report::model::{Panel, Table};
use cavy_report::number::significant;
use cavy_study::claim::{Basis, Measured};
use cavy_study::draw;
use cavy_study::experiment::BASE;
use cavy_study::outcome::Estimate;
use cavy_study::source::{About, Source, Study};

const PARITY: &str = "DAST, parity";
const SAFE: &str = "DAST";
const PAPER: &str = "DAST, paper mode";
const ARTIFACT: &str = "DAST, artifact mode";
const UNBOUNDED: &str = "artifact mode, all may wait";
const TWO_PHASE: &str = "2PL/2PC";
const JANUS: &str = "Janus";
const TAPIR: &str = "TAPIR";
const SLOG: &str = "SLOG";
/// Those that the source compares itself with.
const RIVALS: [&str; 3] = [JANUS, TAPIR, SLOG];

/// DAST and its figures.
pub fn source() -> Source {
    Source {
        id: "dast",
        title: "DAST: transactions across regions that local ones do not wait for",
        question: "What do transactions of one region pay for those that cross regions, and with \
                   which protocol?",
        summary: "Transactions within a region take the latest timestamp of their region, and \
                  transactions across regions take one in the future. So the former never wait for \
                  the latter. DAST does not give strictness across regions, it does not survive \
                  the loss of a region, and transactions across regions are not fast.",
        claims: include_str!("claims.toml"),
        live_claims: "",
        live: "cavy live txn",
        live_study: "",
        figures: vec![&CLIENTS, &CRT_RATIO, &CONFLICT, &JITTER, &REGIONS, &FAILURES],
    }
}

static CLIENTS: Study<RegionsPlan> = Study {
    about: About {
        id: "clients",
        title: "Latency and throughput, by clients",
        plan: include_str!("plans/clients.toml"),
        files: &[],
        shows: "TPC-C over four regions. Parity is what the source ran; DAST beside it stores \
                decisions and lets followers wait until a transaction is stable. The rivals are \
                at full strength: without the shortcuts of the source's versions.",
        claimed: "Tails within a region stay below 20 ms and across regions near 230 ms, 88 to 93 \
                  % and 28 to 70 % below those of Janus, TAPIR and SLOG.",
    },
    measure: |experiment| {
        let most = at(experiment, PARITY, "clients_per_shard", 25.0);
        let safe = at(experiment, SAFE, "clients_per_shard", 25.0);
        let crt = |label, clients| {
            let one = at(experiment, label, "clients_per_shard", clients)?;
            Some((one, one.crt.percentile(50)?))
        };
        let mut all = against_rivals(experiment);
        let two_phase = crt(TWO_PHASE, 5.0);
        all.push(plain("clients.two_phase_crt", two_phase));
        // 2D + 6d.
        let off = two_phase.map(|(_, median)| 100.0 * (median.value / 115.0 - 1.0));
        let samples = two_phase.map_or(0, |(one, _)| one.crt.samples);
        all.push(value("clients.two_phase_law", off, samples, String::new()));
        all.extend([
            plain("clients.irt_p99", most.and_then(|r| Some((r, r.irt.percentile(99)?)))),
            plain("clients.irt_p99_safe", safe.and_then(|r| Some((r, r.irt.percentile(99)?)))),
            plain("clients.crt_p99", most.and_then(|r| Some((r, r.crt.percentile(99)?)))),
            plain("clients.irt_median", most.and_then(|r| Some((r, r.irt.percentile(50)?)))),
            plain("clients.crt_median", most.and_then(|r| Some((r, r.crt.percentile(50)?)))),
        ]);
        all
    },
    found: |experiment| {
        let of = |label| {
            let one = at(experiment, label, "clients_per_shard", 25.0)?;
            let show = |estimate: Option<&Estimate>| match estimate {
                Some(estimate) => format!("{:.1} ms", estimate.value),
                None => "unknown (too few samples)".to_string(),
            };
            Some(format!(
                "{label}: median {} and p99 {} within a region, median {} and p99 {} across \
                 regions, {:.0} transactions/s.",
                show(one.irt.percentile(50)),
                show(one.irt.percentile(99)),
                show(one.crt.percentile(50)),
                show(one.crt.percentile(99)),
                one.throughput_per_s.value
            ))
        };
        let all = [PARITY, SAFE, TWO_PHASE, JANUS, TAPIR, SLOG];
        let all: Vec<String> = all.into_iter().filter_map(of).collect();
        format!("With 25 clients a shard, {} {NOT_GIVEN}", all.join(" "))
    },
    panels,
    tables,
};

/// What a reader of low tails must know as well.
const NOT_GIVEN: &str = "Histories are serializable and not strict across regions; the loss of a \
                         region makes its data unavailable; a transaction across regions takes \
                         two round trips, where two-phase locks take one while nobody is in the \
                         way.";

/// How far below its rivals' tails those of DAST are, with 25 clients a shard: the least of three.
fn against_rivals(experiment: &RegionsExperiment) -> Vec<Measured> {
    let of = |label, clients| at(experiment, label, "clients_per_shard", clients);
    let own = of(PARITY, 25.0);
    let rivals: Option<Vec<_>> = RIVALS.iter().map(|rival| of(rival, 25.0)).collect();
    let samples = rivals.iter().flatten().map(|r| r.work).min().unwrap_or(0);
    type Tail = fn(&RegionsResult) -> Option<f64>;
    let irt: Tail = |r| Some(r.irt.percentile(99)?.value);
    let crt: Tail = |r| Some(r.crt.percentile(99)?.value);
    let tails = |tail: Tail| -> Option<Vec<f64>> {
        rivals.as_ref()?.iter().map(|rival| tail(rival)).collect()
    };
    let cut = |tail: Tail| {
        let (own, tails) = (own.and_then(tail)?, tails(tail)?);
        tails.iter().map(|rival| 100.0 * (1.0 - own / rival)).reduce(f64::min)
    };
    let told = |tail: Tail| {
        let each = RIVALS.iter().zip(tails(tail).unwrap_or_default());
        let each: Vec<String> = each.map(|(name, p99)| format!("{name} {p99:.1} ms")).collect();
        format!("p99: {}.", each.join(", "))
    };
    let over = tails(irt).map(|all| all.iter().filter(|p99| **p99 > 100.0).count() as f64);
    let rate = |label| Some(of(label, 5.0)?.throughput_per_s.value);
    let best = RIVALS.iter().filter_map(|rival| rate(rival)).reduce(f64::max);
    let throughput = rate(PARITY).zip(best).map(|(own, best)| own / best);
    vec![
        value("clients.irt_cut", cut(irt), samples, told(irt)),
        value("clients.baselines_over_100", over, samples, told(irt)),
        value("clients.crt_cut", cut(crt), samples, told(crt)),
        value("clients.throughput", throughput, samples, "With 5 clients a shard.".to_string()),
    ]
}

static CONFLICT: Study<RegionsPlan> = Study {
    about: About {
        id: "conflict",
        title: "More and more conflicts",
        plan: include_str!("plans/conflict.toml"),
        files: &[],
        shows: "TPC-A. The greater Zipf's exponent, the more transactions want the same rows.",
        claimed: "DAST and SLOG are indifferent to conflicts; Janus and TAPIR lose their \
                  throughput.",
    },
    measure: |experiment| {
        let rate = |r: &RegionsResult| r.throughput_per_s.value;
        let spread = |label: &str| {
            let own = experiment.results.iter().filter(|r| r.label == label).map(rate);
            let (low, high) =
                own.fold((f64::INFINITY, 0.0f64), |(low, high), v| (low.min(v), high.max(v)));
            (high > 0.0).then(|| 100.0 * (1.0 - low / high))
        };
        let lost = |label| {
            let even = at(experiment, label, "workload.skew", 0.5)?;
            let uneven = at(experiment, label, "workload.skew", 1.0)?;
            Some(100.0 * (1.0 - rate(uneven) / rate(even)))
        };
        let samples = experiment.results.iter().map(|r| r.work).min().unwrap_or(0);
        vec![
            value("conflict.dast", spread(PARITY), samples, String::new()),
            value("conflict.slog", spread(SLOG), samples, String::new()),
            value("conflict.janus", lost(JANUS), samples, String::new()),
            value("conflict.tapir", lost(TAPIR), samples, String::new()),
        ]
    },
    found: |experiment| {
        let of = |r: &RegionsResult| {
            let skew = r.setting("workload.skew");
            let skew = skew.unwrap_or(0.0);
            format!("{} at {skew:.1} {:.0}/s", r.label, r.throughput_per_s.value)
        };
        let all: Vec<String> = experiment.results.iter().map(of).collect();
        format!("Throughput by Zipf's exponent: {}.", all.join(", "))
    },
    panels,
    tables,
};

static CRT_RATIO: Study<RegionsPlan> = Study {
    about: About {
        id: "crt_ratio",
        title: "More and more transactions across regions",
        plan: include_str!("plans/crt_ratio.toml"),
        files: &[],
        shows: "Payments only, 10 to 90 % of them across regions. DAST stands beside two variants. \
                In paper mode the clocks of a region stay below a transaction that waits for a \
                value, as the source describes it. Artifact mode does what the published code \
                does, to the rows that it has.",
        claimed: "Throughput falls, and latency within regions stays low.",
    },
    measure: |experiment| {
        let key = "workload.crt_ratio";
        let (few, many) = (at(experiment, PARITY, key, 0.1), at(experiment, PARITY, key, 0.9));
        let throughput = |r| Some((r, throughput_of(r)));
        let all = || of_label(experiment, PARITY);
        let tails: Option<Vec<_>> = all().map(|r| Some((r, r.irt.percentile(99)?))).collect();
        let worst = tails
            .and_then(|tails| tails.into_iter().max_by(|a, b| a.1.value.total_cmp(&b.1.value)));
        let median = |r: &RegionsResult| Some(r.crt.percentile(50)?.value);
        let medians: Vec<f64> = all().filter_map(median).collect();
        let (low, high) = medians
            .iter()
            .fold((f64::INFINITY, 0.0f64), |(low, high), v| (low.min(*v), high.max(*v)));
        let samples = all().map(|r| r.crt.samples).min().unwrap_or(0);
        let note = format!("Medians from {low:.1} to {high:.1} ms.");
        let flat = (medians.len() == all().count() && !medians.is_empty())
            .then(|| 100.0 * (high - low) / (high + low));
        // The greatest between the ends, over the greater of the ends.
        let artifact: Option<Vec<f64>> = of_label(experiment, ARTIFACT).map(median).collect();
        let artifact = artifact.unwrap_or_default();
        let hump = match artifact.as_slice() {
            [first, inner @ .., last] if !inner.is_empty() => {
                Some(inner.iter().copied().fold(0.0, f64::max) / first.max(*last))
            }
            _ => None,
        };
        let each: Vec<String> = artifact.iter().map(|ms| format!("{ms:.1}")).collect();
        let crt = |label, share| {
            let one = at(experiment, label, key, share)?;
            Some((one, one.crt.percentile(50)?))
        };
        vec![
            ratio("crt_ratio.throughput", few.and_then(throughput), many.and_then(throughput)),
            plain("crt_ratio.irt_p99", worst),
            value("crt_ratio.crt_flat", flat, samples, note),
            value(
                "crt_ratio.rise_then_fall",
                hump,
                samples,
                format!("Medians by share: {} ms.", each.join(", ")),
            ),
            ratio("crt_ratio.lookahead", crt(ARTIFACT, 0.5), crt(UNBOUNDED, 0.5)),
            ratio("crt_ratio.convoy", crt(PAPER, 0.1), crt(PARITY, 0.1)),
        ]
    },
    found: |experiment| {
        let of = |r: &RegionsResult| {
            let share = r.setting("workload.crt_ratio");
            format!("{:.0} % {:.0}/s", share.unwrap_or(0.0) * 100.0, r.throughput_per_s.value)
        };
        let all: Vec<String> = of_label(experiment, PARITY).map(of).collect();
        format!("Throughput by the share across regions: {}.", all.join(", "))
    },
    panels,
    tables,
};

static JITTER: Study<RegionsPlan> = Study {
    about: About {
        id: "jitter",
        title: "Jitter between regions",
        plan: include_str!("plans/jitter.toml"),
        files: &[],
        shows: "Each message between regions takes up to X less or more. DAST stands beside a \
                variant in which a coordinator sends commits to each replica directly, as the \
                artifact does.",
        claimed: "Latency within regions is roughly stable, across them it grows with the jitter.",
    },
    measure: |experiment| {
        let of = |label, ms| at(experiment, label, "jitter_ms", ms);
        let (none, all) = (of(PARITY, 0.0), of(PARITY, 80.0));
        let irt = |r: &RegionsResult| Some(r.irt.percentile(99)?.value);
        let both = none.and_then(irt).zip(all.and_then(irt));
        let change = both.map(|(a, b)| 100.0 * (b / a - 1.0));
        let samples = all.map_or(0, |r| r.irt.samples);
        let slope = |ms: f64| {
            let (quiet, loud) = (none?.crt.percentile(99)?, of(PARITY, ms)?.crt.percentile(99)?);
            Some((loud.value - quiet.value) / ms)
        };
        let crts = |ms| of(PARITY, ms).map_or(0, |r| r.crt.samples);
        let tail = |label| of(label, 20.0).and_then(|r| Some((r, r.irt.percentile(99)?)));
        let throughput = |r| Some((r, throughput_of(r)));
        vec![
            value("jitter.irt", change, samples, "From 0 to 80 ms.".to_string()),
            value("jitter.crt_slope_20", slope(20.0), crts(20.0), String::new()),
            value("jitter.crt_slope_80", slope(80.0), crts(80.0), String::new()),
            ratio("jitter.direct", tail("commit direct"), tail(PARITY)),
            ratio("jitter.throughput", all.and_then(throughput), none.and_then(throughput)),
        ]
    },
    found: |experiment| {
        let of = |r: &RegionsResult| {
            let jitter = r.setting("jitter_ms").unwrap_or(0.0);
            let show = |e: Option<&Estimate>| match e {
                Some(e) => format!("{:.0} ms", e.value),
                None => "unknown (too few samples)".to_string(),
            };
            let (within, across) = (show(r.irt.percentile(99)), show(r.crt.percentile(99)));
            format!("{within} and {across} with {jitter:.0} ms of jitter")
        };
        let own = experiment.results.iter().filter(|r| r.label == PARITY);
        let all: Vec<String> = own.map(of).collect();
        format!("The p99 within a region and across regions: {}.", all.join("; "))
    },
    panels,
    tables,
};

static REGIONS: Study<RegionsPlan> = Study {
    about: About {
        id: "regions",
        title: "More regions",
        plan: include_str!("plans/regions.toml"),
        files: &[],
        shows: "TPC-C with the same load in each of more and more regions.",
        claimed: "Throughput is proportional to regions and latency roughly stable, up to 100.",
    },
    measure: |experiment| {
        let count = |r: &RegionsResult| r.setting("regions");
        let three = at(experiment, PARITY, "regions", 3.0);
        let most = experiment
            .results
            .iter()
            .max_by(|a, b| count(a).unwrap_or(0.0).total_cmp(&count(b).unwrap_or(0.0)));
        let each = |r: &RegionsResult| Some(r.throughput_per_s.value / count(r)?);
        let percent = |a: f64, b: f64| 100.0 * (b / a - 1.0);
        let both = three.zip(most);
        let note = most.and_then(count).map_or(String::new(), |n| format!("{n:.0} regions."));
        let throughput = both.and_then(|(a, b)| Some(percent(each(a)?, each(b)?)));
        let p99 = |r: &RegionsResult| Some(r.crt.percentile(99)?.value);
        let crt = both.and_then(|(a, b)| Some(percent(p99(a)?, p99(b)?)));
        let irt = |percent: u32| {
            let of = |r: &RegionsResult| Some(r.irt.percentile(percent)?.value);
            both.and_then(|(a, b)| Some(of(b)? - of(a)?))
        };
        // Clients wait for answers, so throughput is clients over the mean latency. What is left of
        // its change when only the share of transactions across regions is taken to have changed?
        let share = |r: &RegionsResult| {
            let all = r.irt.samples + r.crt.samples;
            (all > 0).then(|| r.crt.samples as f64 / all as f64)
        };
        let mean = |r: &RegionsResult, share: f64| {
            let [crt, irt] = [&r.crt, &r.irt].map(|one| Some(one.mean_ms.as_ref()?.value));
            Some(share * crt? + (1.0 - share) * irt?)
        };
        let left = both.and_then(|(a, b)| {
            let by_share = percent(mean(a, share(b)?)?, mean(a, share(a)?)?);
            Some(throughput? - by_share)
        });
        let law = most.and_then(|r| {
            let plan = &experiment.plan;
            let of_shard = plan.clients_per_shard.unwrap_or(0);
            let clients = f64::from(of_shard * plan.shards_per_region);
            Some(each(r)? * mean(r, share(r)?)? / 1e3 / clients)
        });
        vec![
            value("regions.clients", law, most.map_or(0, |r| r.work), note.clone()),
            value("regions.share", left, most.map_or(0, |r| r.work), note.clone()),
            value("regions.throughput", throughput, most.map_or(0, |r| r.work), note.clone()),
            value("regions.crt_p99", crt, most.map_or(0, |r| r.crt.samples), note.clone()),
            value("regions.irt_p95", irt(95), most.map_or(0, |r| r.irt.samples), note.clone()),
            value("regions.irt_p99", irt(99), most.map_or(0, |r| r.irt.samples), note),
        ]
    },
    found: |experiment| {
        let of = |r: &RegionsResult| {
            let regions = r.setting("regions").unwrap_or(0.0);
            format!("{regions:.0}: {:.0}/s", r.throughput_per_s.value)
        };
        let all: Vec<String> = experiment.results.iter().map(of).collect();
        format!("Throughput by regions: {}.", all.join(", "))
    },
    panels,
    tables,
};

static FAILURES: Study<RegionsPlan> = Study {
    about: About {
        id: "failures",
        title: "What failures cost",
        plan: include_str!("plans/failures.toml"),
        files: &[],
        shows: "A replica, a steward, or all links of a region fail, each in runs of their own. \
                Latencies are those of the region where it happens and of the others.",
        claimed: "The source says nothing of failures; the bounds are the specification's.",
    },
    measure: |experiment| {
        let of = |variant: &str| experiment.results.iter().find(|r| r.variant == variant);
        let sides = |variant: &str| of(variant)?.sides.as_ref();
        // The bound is one of the longest, so the worst run counts.
        let longest = |name: &str, stalls: Option<&Vec<f64>>, variant: &str| {
            let stalls = stalls.map_or(&[][..], Vec::as_slice);
            let worst = stalls.iter().copied().reduce(f64::max);
            let each: Vec<String> = stalls.iter().map(|ms| format!("{ms:.0}")).collect();
            let note = format!("Longest less median, of each run: {} ms.", each.join(", "));
            let found = value(name, worst, of(variant).map_or(0, |r| r.work), note);
            Measured { low: worst, high: worst, basis: Basis::Bracket, ..found }
        };
        let calm = of(BASE).and_then(|r| Some(r.irt.percentile(99)?.value));
        let faults = ["replica", "steward", "cut_off"];
        let change = |variant: &str| {
            let now = sides(variant)?.elsewhere.irt.percentile(99)?.value;
            Some((variant.to_string(), 100.0 * (now / calm? - 1.0)))
        };
        let changes: Option<Vec<(String, f64)>> = faults.iter().map(|name| change(name)).collect();
        let changes = changes.unwrap_or_default();
        let most = changes.iter().map(|(_, change)| *change);
        let most = most.reduce(|a, b| if b.abs() > a.abs() { b } else { a });
        let each = changes.iter().map(|(name, change)| format!("{name} {change:.1} %"));
        let each: Vec<String> = each.collect();
        let samples = experiment.results.iter().map(|r| r.work).min().unwrap_or(0);
        let struck = |variant: &str| sides(variant).map(|sides| &sides.struck);
        let elsewhere = |variant: &str| sides(variant).map(|sides| &sides.elsewhere);
        vec![
            longest("failures.replica_irt", struck("replica").map(|s| &s.irt_stalls_ms), "replica"),
            longest("failures.steward_irt", struck("steward").map(|s| &s.irt_stalls_ms), "steward"),
            longest("failures.steward_crt", struck("steward").map(|s| &s.crt_stalls_ms), "steward"),
            longest(
                "failures.coordinator_crt",
                elsewhere("replica").map(|s| &s.crt_stalls_ms),
                "replica",
            ),
            value("failures.elsewhere", most, samples, format!("{}.", each.join(", "))),
        ]
    },
    found: |experiment| {
        let of = |r: &RegionsResult| {
            let sides = r.sides.as_ref()?;
            let worst = |all: &[f64]| all.iter().copied().fold(0.0, f64::max);
            let says = |words: &str, side: &Side| {
                format!(
                    "{words} {:.0} ms within a region and {:.0} ms across",
                    worst(&side.irt_stalls_ms),
                    worst(&side.crt_stalls_ms)
                )
            };
            let what = match r.variant.as_str() {
                "replica" => "A replica fails",
                "steward" => "A steward fails",
                _ => "A region is cut off",
            };
            let (here, there) = (says("there", &sides.struck), says("elsewhere", &sides.elsewhere));
            Some(format!("{what}: the longest takes longer than the median by, {here}; {there}."))
        };
        let all: Vec<String> = experiment.results.iter().filter_map(of).collect();
        format!(
            "{} Transactions across regions that do not touch a region which is cut off may wait \
             for it too, when they come after one that does.",
            all.join(" ")
        )
    },
    panels,
    tables,
};

/// Results of one contestant, in the order of the sweep.
fn of_label<'a>(
    experiment: &'a RegionsExperiment,
    label: &'a str,
) -> impl Iterator<Item = &'a RegionsResult> {
    experiment.results.iter().filter(move |result| result.label == label)
}

/// The result of `label` where the swept `key` is `value`.
fn at<'a>(
    experiment: &'a RegionsExperiment,
    label: &str,
    key: &str,
    value: f64,
) -> Option<&'a RegionsResult> {
    experiment.results.iter().find(|result| {
        let set = result.setting(key);
        result.label == label && set.is_some_and(|set| (set - value).abs() < 1e-9)
    })
}

fn throughput_of(result: &RegionsResult) -> &Estimate {
    &result.throughput_per_s
}

fn value(name: &str, value: Option<f64>, samples: u64, note: String) -> Measured {
    let id = format!("dast.{name}");
    let note = if value.is_some() { note } else { "Too few samples.".to_string() };
    Measured { id, value, samples, note, ..Measured::default() }
}

fn plain(name: &str, found: Option<(&RegionsResult, &Estimate)>) -> Measured {
    let Some((result, estimate)) = found else { return value(name, None, 0, String::new()) };
    Measured {
        id: format!("dast.{name}"),
        value: Some(estimate.value),
        low: Some(estimate.low),
        high: Some(estimate.high),
        samples: result.work,
        note: result.note.clone(),
        ..Measured::default()
    }
}

fn ratio(
    name: &str,
    above: Option<(&RegionsResult, &Estimate)>,
    below: Option<(&RegionsResult, &Estimate)>,
) -> Measured {
    let (Some((a_result, a)), Some((b_result, b))) = (above, below) else {
        return value(name, None, 0, String::new());
    };
    let each: Vec<f64> = a.replications.iter().zip(&b.replications).map(|(a, b)| a / b).collect();
    Measured {
        id: format!("dast.{name}"),
        value: Some(a.value / b.value),
        low: each.iter().copied().reduce(f64::min),
        high: each.iter().copied().reduce(f64::max),
        samples: a_result.work.min(b_result.work),
        note: format!(
            "{} with {}, {} with {}.",
            significant(a.value),
            a_result.label,
            significant(b.value),
            b_result.label
        ),
        ..Measured::default()
    }
}

fn panels(experiment: &RegionsExperiment) -> Vec<Panel> {
    draw::figures(experiment, "").into_iter().flat_map(|figure| figure.panels).collect()
}

fn tables(experiment: &RegionsExperiment) -> Vec<Table> {
    vec![draw::points(experiment)]
}
