//! What a sub-query takes: E1 of [roar 5], from measurements on a server of `cavy live search`.

use super::measure::{mean, samples, setting, tables, value};
use super::plans::P;
use cavy_kinds::search::{SearchExperiment, SearchPlan, SearchResult};
use cavy_report::model::{Panel, Point, Scale, Series};
use cavy_study::claim::Measured;
use cavy_study::draw::axis;
use cavy_study::experiment::BASE;
use cavy_study::source::{About, Study};

/// Tables of `cavy live search cost`, by the variant whose costs they are.
const TABLES: [(&str, &str, &str); 3] = [
    (BASE, "cost_sealed.csv", include_str!("plans/cost_sealed.csv")),
    ("text", "cost_text.csv", include_str!("plans/cost_text.csv")),
    ("query", "cost_query.csv", include_str!("plans/cost_query.csv")),
];

/// Time by documents.
pub static COST: Study<SearchPlan> = Study {
    about: About {
        id: "cost",
        title: "What a sub-query takes",
        plan: include_str!("plans/cost.toml"),
        files: &[
            (TABLES[0].1, TABLES[0].2),
            (TABLES[1].1, TABLES[1].2),
            (TABLES[2].1, TABLES[2].2),
        ],
        shows: "Processor time of sub-queries on one server of `cavy live search`, by the \
                documents that they examine: search over encrypted records, broad searches of \
                words, and one of these over and over. The lines are what the lab goes by.",
        claimed: "A fixed part, and one in proportion to the documents.",
    },
    measure,
    found: |e| {
        let of = |(variant, ..): &(&str, &str, &str)| {
            let one = of_variant(e, variant).next()?;
            let (fixed, scan) = one.cost_ms;
            Some(format!(
                "{}: {fixed:.3} ms and {scan:.2} ms for everything, R^2 {:.4}",
                words(variant),
                one.explained?
            ))
        };
        let all: Vec<String> = TABLES.iter().filter_map(of).collect();
        format!("{}.", all.join("; "))
    },
    panels: |e| TABLES.iter().filter_map(|table| panel(e, table)).collect(),
    tables,
};

fn words(variant: &str) -> &'static str {
    match variant {
        "text" => "broad searches",
        "query" => "one broad search",
        _ => "encrypted records",
    }
}

/// Documents examined, and milliseconds.
fn measured(table: &str) -> Vec<(f64, f64)> {
    let row = |line: &str| {
        let (examined, took) = line.split_once(',')?;
        Some((examined.parse().ok()?, took.parse().ok()?))
    };
    table.lines().skip(1).filter_map(row).collect()
}

fn of_variant<'a>(
    e: &'a SearchExperiment,
    variant: &str,
) -> impl Iterator<Item = &'a SearchResult> {
    e.results.iter().filter(move |result| result.variant == variant)
}

/// How far the line is from the mean of some sub-queries, in percent of a whole scan.
fn apart(e: &SearchExperiment, variant: &str, of: &[(f64, f64)]) -> Option<f64> {
    let (fixed, scan) = of_variant(e, variant).next()?.cost_ms;
    let documents = e.plan.documents as f64;
    let off = |(examined, took): &(f64, f64)| took - fixed - scan * examined / documents;
    let mean = of.iter().map(off).sum::<f64>() / of.len() as f64;
    Some(100.0 * mean.abs() / scan)
}

/// Sub-queries that examined nothing.
fn empty(table: &str) -> Vec<(f64, f64)> {
    measured(table).into_iter().filter(|one| one.0 == 0.0).collect()
}

/// Of the others the tenth that examined least.
fn smallest(table: &str) -> Vec<(f64, f64)> {
    let mut all: Vec<_> = measured(table).into_iter().filter(|one| one.0 > 0.0).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all.truncate(all.len() / 10);
    all
}

fn measure(e: &SearchExperiment) -> Vec<Measured> {
    let count = |table: &str| measured(table).len() as u64;
    let line = |(name, of): (&str, usize)| {
        let (variant, _, table) = TABLES[of];
        let found = of_variant(e, variant).next();
        let note = found.map_or(String::new(), |result| {
            format!("{:.4} ms + {:.3} ms for everything.", result.cost_ms.0, result.cost_ms.1)
        });
        let found = found.and_then(|result| result.explained);
        value(format!("cost.{name}"), found, count(table), note)
    };
    let meets = |name: &str, of: usize, which: fn(&str) -> Vec<(f64, f64)>| {
        let (variant, _, table) = TABLES[of];
        let some = which(table);
        let found = apart(e, variant, &some);
        value(format!("cost.{name}"), found, some.len() as u64, String::new())
    };
    let off = e.results.iter().filter_map(|result| {
        let (fixed, scan) = result.cost_ms;
        Some(100.0 * (mean(result)? / (fixed + scan / setting(result, P)) - 1.0).abs())
    });
    let delay = value("cost.delay".to_string(), off.reduce(f64::max), samples(e), String::new());
    let lines = [("sealed", 0), ("text", 1), ("query", 2)].map(line);
    let ends = [
        meets("intercept", 0, empty),
        meets("intercept_text", 1, empty),
        meets("smallest_text", 1, smallest),
    ];
    lines.into_iter().chain(ends).chain([delay]).collect()
}

/// Sizes of slices that were measured, as often each.
const SIZES: usize = 10;

/// Measured sub-queries, by size the median and what nine of ten lie between, and the line through
/// them all.
fn panel(e: &SearchExperiment, (variant, _, table): &(&str, &str, &str)) -> Option<Panel> {
    let (fixed, scan) = of_variant(e, variant).next()?.cost_ms;
    let mut all = measured(table);
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let point = |of: &[(f64, f64)]| {
        let mut took: Vec<f64> = of.iter().map(|one| one.1).collect();
        took.sort_by(f64::total_cmp);
        let at = |share: f64| took[(share * (took.len() - 1) as f64).round() as usize];
        let x = of.iter().map(|one| one.0).sum::<f64>() / of.len() as f64;
        let (low, high) = (Some(at(0.05)), Some(at(0.95)));
        Point { x, y: Some(at(0.5)), low, high, samples: of.len() as u64, stable: true }
    };
    let points: Vec<Point> = all.chunks((all.len() / SIZES).max(1)).map(point).collect();
    let end = |(x, y): (f64, f64)| Point {
        x,
        y: Some(y),
        low: None,
        high: None,
        samples: all.len() as u64,
        stable: true,
    };
    let line = [(0.0, fixed), (e.plan.documents as f64, fixed + scan)].map(end).to_vec();
    Some(Panel {
        id: format!("cost-{variant}"),
        title: format!("What a sub-query takes: {}", words(variant)),
        x: axis("documents examined", "", Scale::Linear),
        y: axis("processor time", "ms", Scale::Linear),
        series: vec![
            Series { label: "measured".to_string(), points },
            Series { label: "line".to_string(), points: line },
        ],
        rules: Vec::new(),
    })
}
