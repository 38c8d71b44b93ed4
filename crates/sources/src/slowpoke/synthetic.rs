//! The 108 synthetic applications: figure 9 of the source [slowpoke 5.2].

use super::logs;
use super::measure::{errors, id, mean_absolute, of_sizes, points, rms, value};
use cavy_kinds::services::{ServicesExperiment, ServicesPlan, ServicesResult};
use cavy_report::model::{Cell, Panel, Point, Scale, Series, Table};
use cavy_study::claim::Measured;
use cavy_study::draw::axis;
use cavy_study::experiment::BASE;
use cavy_study::source::{About, Study};

/// Figure 9.
pub static FIG9: Study<ServicesPlan> = Study {
    about: About {
        id: "fig9",
        title: "108 synthetic applications",
        plan: include_str!("plans/fig9.toml"),
        files: &[],
        shows: "Errors of Slowpoke's predictions on chains, fan-outs, graphs and graphs that \
                depend on chance, by the share of the target's time that is removed, beside saying \
                that nothing changes.",
        claimed: "Median error 1.22 %, 95th percentile 5.9 %.",
    },
    measure,
    found,
    panels,
    tables,
};

const LABEL: &str = "Slowpoke";

/// Families, as their names begin.
const FAMILIES: [&str; 11] = [
    "chain-d2",
    "chain-d8",
    "fanout-w3",
    "fanout-w7",
    "dag-unbalanced",
    "dag-relay",
    "dag-cross",
    "dynamic-once",
    "dynamic-twice",
    "dynamic-cache",
    "dynamic-cycle",
];

/// Applications by the names of the source's table, `chain-d2-http-sync.0`, and the variants that
/// have them.
fn applications(e: &ServicesExperiment) -> Vec<(logs::Line, String)> {
    let variants = e.variants();
    let mut all = Vec::new();
    for (index, line) in logs::synthetic().into_iter().enumerate() {
        let variant = match index {
            0 => BASE.to_string(),
            _ => line.application.replace('.', " s"),
        };
        if variants.iter().any(|known| *known == variant) {
            all.push((line, variant));
        }
    }
    all
}

/// A point: which application, the share saved in percent, and what came of it.
struct At<'a> {
    line: &'a logs::Line,
    percent: f64,
    result: &'a ServicesResult,
}

fn all<'a>(e: &'a ServicesExperiment, applications: &'a [(logs::Line, String)]) -> Vec<At<'a>> {
    let of = |(line, variant): &'a (logs::Line, String)| {
        points(e, variant, LABEL).map(move |(percent, result)| At { line, percent, result })
    };
    applications.iter().flat_map(of).collect()
}

fn measure(e: &ServicesExperiment) -> Vec<Measured> {
    let applications = applications(e);
    let all = all(e, &applications);
    // As the source's table: one error a point, the median over repetitions.
    let error = |at: &At<'_>| at.result.error_percent.as_ref().map(|error| error.median);
    let every: Vec<f64> = all.iter().filter_map(error).collect();
    let work: u64 = all.iter().map(|at| at.result.work).sum();
    let name = |name: &str| id("fig9", name);
    let note = format!("{} points.", every.len());
    let count = applications.len() as f64;
    let mut values = vec![
        value(name("applications"), count, work, String::new()),
        value(name("median"), of_sizes(&every, 0.5), work, note.clone()),
        value(name("p95"), of_sizes(&every, 0.95), work, note.clone()),
        value(name("mae"), mean_absolute(&every), work, note.clone()),
        value(name("rmse"), rms(&every), work, note),
    ];
    for family in FAMILIES {
        let of = all.iter().filter(|at| at.line.application.starts_with(family));
        let errors: Vec<f64> = of.filter_map(error).collect();
        let which = format!("family_{}", family.replace('-', "_"));
        let note = format!("{} points.", errors.len());
        values.push(value(name(&which), mean_absolute(&errors), work, note));
    }
    let deviation = |at: &At<'_>| {
        let place = ((at.percent / 10.0).round() as usize).checked_sub(1)?;
        let theirs = (*at.line.truth.get(place)?)?;
        Some((at.result.truth_per_s.value / theirs - 1.0) * 100.0)
    };
    let deviations: Vec<f64> = all.iter().filter_map(deviation).collect();
    let note = format!("{} points, mean {:.2} %.", deviations.len(), mean_absolute(&deviations));
    values.push(value(name("truth"), of_sizes(&deviations, 0.5), work, note.clone()));
    values.push(value(name("truth_p95"), of_sizes(&deviations, 0.95), work, note));
    let between = |low: f64, high: f64| {
        let inside = move |at: &&At<'_>| (low..high).contains(&at.result.gain_percent.value);
        let ours: Vec<f64> = all.iter().filter(inside).filter_map(error).collect();
        let unchanged = |at: &At<'_>| {
            (at.result.unchanged_per_s.value / at.result.truth_per_s.value - 1.0) * 100.0
        };
        let theirs: Vec<f64> = all.iter().filter(inside).map(unchanged).collect();
        (mean_absolute(&ours), mean_absolute(&theirs), ours.len())
    };
    let (ours, unchanged, count) = between(f64::NEG_INFINITY, 2.0);
    let note = format!("{count} points: Slowpoke {ours:.2} %, no change {unchanged:.2} %.");
    values.push(value(name("gain_below_2"), ours / unchanged, work, note));
    let (ours, unchanged, count) = between(25.0, f64::INFINITY);
    let note = format!("{count} points.");
    values.push(value(name("gain_above_25"), ours, work, note.clone()));
    values.push(value(name("unchanged_above_25"), unchanged, work, note));
    let gainless = applications.iter().filter(|(_, variant)| {
        points(e, variant, LABEL).all(|(_, result)| result.gain_percent.value < 5.0)
    });
    values.push(value(name("gainless"), gainless.count() as f64, work, String::new()));
    values
}

fn found(e: &ServicesExperiment) -> String {
    let applications = applications(e);
    let all = all(e, &applications);
    let largest = all.iter().flat_map(|at| {
        errors(at.result).iter().map(|error| (error, &at.line.application, at.percent))
    });
    let worst = largest.max_by(|a, b| a.0.abs().total_cmp(&b.0.abs()));
    let worst = worst.map_or(String::new(), |(error, application, percent)| {
        format!(" The largest error is {error:.1} %, on {application} with {percent:.0} % removed.")
    });
    format!("{} points of {} applications.{worst}", all.len(), applications.len())
}

fn panels(e: &ServicesExperiment) -> Vec<Panel> {
    let applications = applications(e);
    let all = all(e, &applications);
    // Errors over gains: where somebody gains is where a prediction is worth something.
    let dot =
        |x: f64, y: f64| Point { x, y: Some(y), low: None, high: None, samples: 1, stable: true };
    let series = |label: &str, of: &dyn Fn(&At<'_>) -> Option<f64>| {
        let mut points: Vec<Point> =
            all.iter().filter_map(|at| Some(dot(at.result.gain_percent.value, of(at)?))).collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        Series { label: label.to_string(), points }
    };
    let ours = series(LABEL, &|at| Some(at.result.error_percent.as_ref()?.median));
    let unchanged = series("no change", &|at| {
        Some((at.result.unchanged_per_s.value / at.result.truth_per_s.value - 1.0) * 100.0)
    });
    vec![Panel {
        id: "fig9-errors".to_string(),
        title: "Errors over true gains".to_string(),
        x: axis("true gain", "%", Scale::Linear),
        y: axis("error", "%", Scale::Linear),
        series: vec![ours, unchanged],
        rules: Vec::new(),
    }]
}

fn tables(e: &ServicesExperiment) -> Vec<Table> {
    let applications = applications(e);
    let all = all(e, &applications);
    let row = |family: &str| {
        let of = || all.iter().filter(|at| at.line.application.starts_with(family));
        let errors: Vec<f64> =
            of().filter_map(|at| Some(at.result.error_percent.as_ref()?.median)).collect();
        let deviations: Vec<f64> = of()
            .filter_map(|at| {
                let place = ((at.percent / 10.0).round() as usize).checked_sub(1)?;
                let theirs = (*at.line.truth.get(place)?)?;
                Some((at.result.truth_per_s.value / theirs - 1.0) * 100.0)
            })
            .collect();
        vec![
            Cell::Text(family.to_string()),
            Cell::Number(errors.len() as f64),
            Cell::Number(mean_absolute(&errors)),
            Cell::Number(super::measure::largest(&errors)),
            Cell::Number(mean_absolute(&deviations)),
        ]
    };
    vec![Table {
        id: "fig9-families".to_string(),
        title: "Errors by family".to_string(),
        columns: [
            "family",
            "points",
            "mean error (%)",
            "worst (%)",
            "our truth against theirs (%)",
        ]
        .map(str::to_string)
        .to_vec(),
        rows: FAMILIES.into_iter().map(row).collect(),
    }]
}
