//! How far to spread, and what failures and writes make of it: E2, E3, E5, T5, T6 of [roar 5].

use super::measure::{at, mean, panels, samples, setting, tables, value, values};
use super::plans::{DEAD, LOAD, P, PLAIN, PTN, RINGS, SW};
use cavy_kinds::search::{Loss, SearchExperiment, SearchPlan, SearchResult};
use cavy_study::claim::{Basis, Measured};
use cavy_study::experiment::BASE;
use cavy_study::source::{About, Study};

/// Delay against p.
pub static DELAY: Study<SearchPlan> = Study {
    about: About {
        id: "delay",
        title: "Delay, by how far queries are spread",
        plan: include_str!("plans/delay.toml"),
        files: &[],
        shows: "Mean and tail of latency against p at four loads. Servers are identical, so what \
                is seen is p alone, and theory has the means.",
        claimed: "The best p falls as load rises, which is why one wants to change it.",
    },
    measure: measure_delay,
    found: |e| {
        let of = |load: f64| Some(format!("{:.0} at {load}", best(e, load)?.0));
        let all: Vec<String> = values(e, BASE, LOAD).into_iter().filter_map(of).collect();
        format!("The p of the least mean, by load: {}.", all.join(", "))
    },
    panels,
    tables,
};

/// Throughput against p.
pub static THROUGHPUT: Study<SearchPlan> = Study {
    about: About {
        id: "throughput",
        title: "Throughput, by how far queries are spread",
        plan: include_str!("plans/throughput.toml"),
        files: &[],
        shows: "What is served a second when three times as much is offered as servers could scan.",
        claimed: "Each part of a query costs a fixed part, so throughput falls as p rises.",
    },
    measure: |e| {
        let of = |result: &SearchResult| {
            let (fixed, scan) = result.cost_ms;
            let law = 48.0 / (setting(result, P) * fixed / 1e3 + scan / 1e3);
            100.0 * (result.served_per_s.value / law - 1.0).abs()
        };
        let worst = e.results.iter().map(of).fold(0.0, f64::max);
        let served = |p| Some(at(e, BASE, PLAIN, &[(P, p)])?.served_per_s.value);
        let falls = served(2.0).zip(served(48.0)).map(|(few, many)| few / many);
        vec![
            value("throughput.law".to_string(), Some(worst), samples(e), String::new()),
            value("throughput.falls".to_string(), falls, samples(e), String::new()),
        ]
    },
    found: |e| {
        let own = e.results.iter().filter(|result| result.label == PLAIN);
        let of = |r: &SearchResult| format!("{:.1} at {:.0}", r.served_per_s.value, setting(r, P));
        let all: Vec<String> = own.map(of).collect();
        format!("Queries served a second, by p: {}.", all.join(", "))
    },
    panels: |_| Vec::new(),
    tables,
};

/// Servers that die at once.
pub static FAILURES: Study<SearchPlan> = Study {
    about: About {
        id: "failures",
        title: "Servers that die at once",
        plan: include_str!("plans/failures.toml"),
        files: &[],
        shows: "What any 1 to 20 of 48 servers take with them, drawn and counted exactly, and what \
                queries take when the others do the work.",
        claimed: "A query survives as long as no dead stretch is as long as an arc; ROAR loses \
                  something a little more often than PTN, and much less of it.",
    },
    measure: measure_failures,
    found: |e| {
        let of = |label, dead| {
            let one = at(e, BASE, label, &[(P, 8.0), (DEAD, dead)])?;
            let loss = one.loss.as_ref()?;
            Some(format!(
                "{label}, p = 8, {dead:.0} dead: anything lost in {:.2} % of draws, {:.4} % of \
                 documents.",
                100.0 * loss.any_ratio,
                100.0 * loss.share
            ))
        };
        let all: Vec<String> =
            [(PLAIN, 20.0), (PTN, 20.0)].into_iter().filter_map(|(l, d)| of(l, d)).collect();
        all.join(" ")
    },
    panels,
    tables,
};

/// What schemes store and write.
pub static UPDATES: Study<SearchPlan> = Study {
    about: About {
        id: "updates",
        title: "Storage and writes",
        plan: include_str!("plans/updates.toml"),
        files: &[],
        shows: "Copies of a document by scheme and p, and queries beside 5,000 writes a second to \
                every copy.",
        claimed: "ROAR stores one copy more than schemes with fixed parts.",
    },
    measure: |e| {
        let copies = |label, p| Some(at(e, BASE, label, &[(P, p)])?.copies);
        let one = |name: &str, found: Option<f64>| {
            value(format!("updates.{name}"), found, samples(e), String::new())
        };
        let ratio = copies(PLAIN, 4.0).zip(copies(PLAIN, 24.0)).map(|(few, many)| few / many);
        vec![
            one("roar", copies(PLAIN, 8.0)),
            one("rings", copies(RINGS, 8.0)),
            one("ptn", copies(PTN, 8.0)),
            one("sw", copies(SW, 8.0)),
            one("amplification", ratio),
        ]
    },
    found: |e| {
        let of = |label| {
            let one = at(e, BASE, label, &[(P, 8.0)])?;
            Some(format!("{label} {:.2} copies, {:.1} GB", one.copies, one.stored_gb))
        };
        let all: Vec<String> = [PLAIN, RINGS, PTN, SW].into_iter().filter_map(of).collect();
        format!("At p = 8: {}.", all.join("; "))
    },
    panels,
    tables,
};

/// The p of the least mean at a load, and that mean.
fn best(e: &SearchExperiment, load: f64) -> Option<(f64, f64)> {
    let here = e.results.iter().filter(|result| (setting(result, LOAD) - load).abs() < 1e-9);
    let means = here.filter_map(|result| Some((setting(result, P), mean(result)?)));
    means.min_by(|a, b| a.1.total_cmp(&b.1))
}

fn measure_delay(e: &SearchExperiment) -> Vec<Measured> {
    let mut all: Vec<Measured> = [("1", 0.1), ("3", 0.3), ("5", 0.5), ("7", 0.7)]
        .into_iter()
        .map(|(name, load)| {
            let found = best(e, load);
            let note = found.map_or(String::new(), |(_, mean)| format!("{mean:.1} ms."));
            value(format!("delay.best_{name}"), found.map(|(p, _)| p), samples(e), note)
        })
        .collect();
    // An overloaded point counts here, and says so.
    let over = at(e, BASE, PLAIN, &[(P, 48.0), (LOAD, 0.5)]);
    let both = over.and_then(|r| Some(r.latency.get("mean_ms")?.value)).zip(best(e, 0.5));
    let note = over.map_or(String::new(), |result| {
        let mean = result.latency.get("mean_ms").map_or(f64::NAN, |estimate| estimate.value);
        format!("{mean:.0} ms at p = 48. {}", result.note)
    });
    let ratio = both.map(|(over, (_, best))| over / best);
    all.push(value("delay.overload".to_string(), ratio, samples(e), note));
    let deviation = |low: f64, high: f64| {
        let within = e.results.iter().filter(|r| (low..high).contains(&r.busy_ratio));
        let of = |r: &SearchResult| {
            let theory = r.theory_mean_ms?;
            Some(100.0 * (r.latency.get("mean_ms")?.value / theory - 1.0).abs())
        };
        within.filter_map(of).reduce(f64::max)
    };
    for (name, low, high) in [("theory", 0.0, 0.9), ("theory_high", 0.9, 0.95)] {
        let found = deviation(low, high);
        all.push(value(format!("delay.{name}"), found, samples(e), String::new()));
    }
    let best: Vec<f64> =
        values(e, BASE, LOAD).into_iter().filter_map(|load| Some(best(e, load)?.0)).collect();
    let rise = best.windows(2).map(|two| two[1] - two[0]).reduce(f64::max);
    all.push(value("delay.falls".to_string(), rise, samples(e), String::new()));
    all
}

fn measure_failures(e: &SearchExperiment) -> Vec<Measured> {
    let cells = [
        (8.0, 10.0),
        (8.0, 20.0),
        (16.0, 5.0),
        (16.0, 10.0),
        (16.0, 20.0),
        (24.0, 2.0),
        (24.0, 10.0),
    ];
    let mut all = Vec::new();
    let loss =
        |label: &str, p: f64, dead: f64| at(e, BASE, label, &[(P, p), (DEAD, dead)])?.loss.as_ref();
    // How many standard errors off: of something that cannot happen, none if it never did.
    let off = |drawn: f64, exact: f64, draws: f64| match exact {
        0.0 if drawn == 0.0 => 0.0,
        _ => (drawn - exact) / (exact * (1.0 - exact) / draws).sqrt(),
    };
    // In standard errors of as many draws as the specification made, so that ours, which are more,
    // lie closer together than the tolerance is wide.
    const DRAWS: f64 = 20_000.0;
    let mut add = |name: String, found: Option<&Loss>, of: fn(&Loss) -> (f64, Option<f64>)| {
        let pair = found.map(of);
        let errors = pair.and_then(|(drawn, exact)| Some(off(drawn, exact?, DRAWS)));
        let note = pair.map_or(String::new(), |(drawn, exact)| {
            format!("{drawn:.5} drawn, {:.5} exact.", exact.unwrap_or(f64::NAN))
        });
        let draws = found.map_or(0, |loss| loss.draws);
        let mut one = value(format!("failures.{name}"), errors, draws, note);
        if let Some(errors) = one.value.filter(|_| draws > 0) {
            let own = 2.576 * (DRAWS / draws as f64).sqrt();
            (one.low, one.high) = (Some(errors - own), Some(errors + own));
            one.basis = Basis::Interval;
        }
        all.push(one);
    };
    for (p, dead) in cells {
        for (name, label) in [("roar", PLAIN), ("ptn", PTN)] {
            let name = format!("{name}_{p:.0}_{dead:.0}");
            add(name, loss(label, p, dead), |loss| (loss.any_ratio, loss.any_exact));
        }
        let name = format!("more_{p:.0}_{dead:.0}");
        add(name, loss(PLAIN, p, dead), |loss| (loss.more_ratio, loss.more_exact));
    }
    let share = |label| Some(loss(label, 8.0, 20.0)?.share);
    let ratio = share(PLAIN).zip(share(PTN)).map(|(roar, ptn)| roar / ptn);
    let draws = loss(PLAIN, 8.0, 20.0).map_or(0, |loss| loss.draws);
    all.push(value("failures.share".to_string(), ratio, draws, String::new()));
    let others = cells.into_iter().filter(|cell| *cell != (8.0, 20.0));
    let ratios = others.filter_map(|(p, dead)| {
        let (roar, ptn) = (loss(PLAIN, p, dead)?, loss(PTN, p, dead)?);
        (ptn.any_ratio > 0.0).then(|| roar.more_ratio / ptn.any_ratio)
    });
    let worst = ratios.reduce(f64::max);
    all.push(value("failures.more".to_string(), worst, draws, String::new()));
    let few = e.results.iter().filter(|result| {
        setting(result, DEAD) <= 2.0 && setting(result, P) <= 16.0 && result.label == PLAIN
    });
    let whole = few.map(|result| result.met_ratio.min()).reduce(f64::min);
    all.push(value("failures.whole".to_string(), whole, samples(e), String::new()));
    all
}
