//! Studies of the method: scaling, locks, batches, coordination, shared cores
//! ([slowpoke 2.1, 2.6, 5.3, 5.4, 5.9]).

use super::measure::{id, largest, mean_absolute, value};
use cavy_kinds::services::{ServicesExperiment, ServicesPlan, ServicesResult};
use cavy_report::model::{Cell, Panel, Point, Scale, Series, Table};
use cavy_study::claim::Measured;
use cavy_study::draw::{self, axis};
use cavy_study::experiment::BASE;
use cavy_study::source::{About, Study};
use cavy_study::subject::Subject as _;

/// More capacity: figure 11.
pub static FIG11: Study<ServicesPlan> = Study {
    about: About {
        id: "fig11",
        title: "Scaling one service",
        plan: include_str!("plans/fig11.toml"),
        files: &[],
        shows: "What twice the replicas or cores of one service give, predicted as a service of \
                half the time.",
        claimed: "Errors of -2.1 % (replicas) and -9.9 % (cores; -4.2 % with a change measured \
                  before).",
    },
    measure: measure_scaling,
    found: |e| found(e, "Errors"),
    panels: |_| Vec::new(),
    tables: |e| vec![draw::points(e)],
};

/// A lock that binds.
pub static MUTEX: Study<ServicesPlan> = Study {
    about: About {
        id: "mutex",
        title: "A lock that binds",
        plan: include_str!("plans/mutex.toml"),
        files: &[],
        shows: "The same shorter section under a lock, predicted with one server and with as many \
                as cores.",
        claimed: "One server is right while the lock binds; as many as cores are wrong by -11 to \
                  -47 %.",
    },
    measure: measure_mutex,
    found: |e| found(e, "Errors"),
    panels: errors_over_swept,
    tables: |e| vec![draw::points(e)],
};

/// Batch size.
pub static BATCH: Study<ServicesPlan> = Study {
    about: About {
        id: "batch",
        title: "Batch size and concurrency",
        plan: include_str!("plans/batch.toml"),
        files: &[],
        shows: "Errors by the number of requests that make a pause and the number of clients.",
        claimed: "As many clients as three batches are enough; 400 requests of 64 clients give \
                  errors of 20 %.",
    },
    measure: measure_batch,
    found: |e| found(e, "Mean absolute errors"),
    panels: |_| Vec::new(),
    tables: by_clients,
};

/// Coordination.
pub static COORDINATION: Study<ServicesPlan> = Study {
    about: About {
        id: "coordination",
        title: "Coordinated pauses or not",
        plan: include_str!("plans/coordination.toml"),
        files: &[],
        shows: "Errors of five methods by the number of clients, on six graphs and on three larger \
                ones.",
        claimed: "Equal pauses from one place have the least error; with many clients even \
                  uncoordinated pauses do.",
    },
    measure: measure_coordination,
    found: |e| found(e, "Mean absolute errors"),
    panels: |_| Vec::new(),
    tables: by_clients,
};

/// Shared cores.
pub static DELIVERED: Study<ServicesPlan> = Study {
    about: About {
        id: "delivered",
        title: "Where all services share their cores",
        plan: include_str!("plans/delivered.toml"),
        files: &[],
        shows: "Errors of the Governor's delivered mode beside the open law, on twenty graphs \
                whose services share the cores of one host.",
        claimed: "The open law errs by -48 to +104 %; what was really delivered needs no number of \
                  servers.",
    },
    measure: measure_delivered,
    found: |e| found(e, "Mean absolute errors"),
    panels: delivered_over_gains,
    tables: |e| vec![draw::points(e)],
};

const NOT_RUN: f64 = f64::NAN;

fn errors_of(result: &ServicesResult) -> Vec<f64> {
    result.error_percent.as_ref().map_or(Vec::new(), |error| error.replications.clone())
}

/// Errors in percent of the points that are `chosen`, all replications.
fn errors(e: &ServicesExperiment, chosen: impl Fn(&ServicesResult) -> bool) -> Vec<f64> {
    e.results.iter().filter(|result| chosen(result)).flat_map(errors_of).collect()
}

fn setting(result: &ServicesResult, key: &str) -> f64 {
    result.setting(key).unwrap_or(f64::NAN)
}

fn clients(result: &ServicesResult) -> f64 {
    setting(result, "clients.population")
}

fn samples(e: &ServicesExperiment) -> u64 {
    e.results.iter().map(|result| result.work).sum()
}

fn measure_scaling(e: &ServicesExperiment) -> Vec<Measured> {
    let of = |variant: &str| -> f64 {
        let all = errors(e, |r| r.variant == variant && r.label == "Slowpoke");
        if all.is_empty() { NOT_RUN } else { all.iter().sum::<f64>() / all.len() as f64 }
    };
    let work = samples(e);
    let exact = "In the lab twice the cores are exactly twice the capacity; the source's were \
                 more, 2.12 times.";
    vec![
        value(id("fig11", "replicas"), of(BASE), work, String::new()),
        value(id("fig11", "cores"), of("cores"), work, exact.to_string()),
    ]
}

/// Points at which the lock still bounds the changed system: its rate is that of the section.
fn lock_binds(result: &ServicesResult) -> bool {
    let section_us = 600.0 * (1.0 - setting(result, super::measure::RATIO));
    result.truth_per_s.value > 0.97e6 / section_us
}

fn measure_mutex(e: &ServicesExperiment) -> Vec<Measured> {
    let of = |label: &str| errors(e, |r| r.label == label && lock_binds(r));
    let (one, many) = (of("one server"), of("as many as cores"));
    let lowest = many.iter().copied().fold(f64::INFINITY, f64::min);
    let off: Vec<f64> = e
        .results
        .iter()
        .filter(|result| result.label == "as many as cores" && lock_binds(result))
        .flat_map(|result| {
            let share = setting(result, super::measure::RATIO);
            let cores = if result.variant == BASE { 4.0 } else { 8.0 };
            let expected = ((1.0 - share) / (1.0 - share / cores) - 1.0) * 100.0;
            errors_of(result).into_iter().map(move |error| error - expected)
        })
        .collect();
    let arithmetic = if off.is_empty() { NOT_RUN } else { largest(&off) };
    let note = |errors: &[f64]| format!("{} predictions while the lock binds.", errors.len());
    vec![
        value(id("mutex", "k1"), largest(&one), samples(e), note(&one)),
        value(id("mutex", "kq"), lowest, samples(e), note(&many)),
        value(id("mutex", "kq_arithmetic"), arithmetic, samples(e), note(&off)),
    ]
}

fn measure_batch(e: &ServicesExperiment) -> Vec<Measured> {
    let of = |name: &str, label: &str, population: f64| {
        let all = errors(e, |r| r.label == label && clients(r) == population);
        value(
            id("batch", name),
            mean_absolute(&all),
            samples(e),
            format!("{} predictions.", all.len()),
        )
    };
    vec![
        of("flooded_400_64", "flooded, N = 400", 64.0),
        of("central_400_64", "central, N = 400", 64.0),
        of("flooded_100_256", "flooded, N = 100", 256.0),
        of("central_100_256", "central, N = 100", 256.0),
    ]
}

/// What variants are of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Graphs {
    /// Three or four services, constant times.
    Constant,
    /// The same with exponential times.
    Exponential,
    /// Eight to eleven services, constant times.
    Large,
}

impl Graphs {
    const ALL: [(Graphs, &str, &str); 3] = [
        (Graphs::Constant, "constant", "constant times"),
        (Graphs::Exponential, "exponential", "exponential times"),
        (Graphs::Large, "large", "graphs of eight services and more"),
    ];

    fn of(result: &ServicesResult) -> Graphs {
        match result.variant.as_str() {
            name if name.starts_with("exp") => Graphs::Exponential,
            name if name.starts_with("long") => Graphs::Large,
            _ => Graphs::Constant,
        }
    }
}

/// The five methods of the table, by the names of their claims.
const COORDINATED: [(&str, &str); 5] = [
    ("no_change", "no change"),
    ("uncoordinated_mae", "uncoordinated"),
    ("slowpoke", "Slowpoke"),
    ("central", "central, N = 100"),
    ("clock", "clock, clients frozen"),
];

fn measure_coordination(e: &ServicesExperiment) -> Vec<Measured> {
    let mae = |label: &str, population: f64, graphs: Graphs| {
        mean_absolute(&errors(e, |r| {
            r.label == label && clients(r) == population && Graphs::of(r) == graphs
        }))
    };
    let mut all = Vec::new();
    for (name, label) in COORDINATED {
        for population in [16.0, 64.0, 128.0, 512.0] {
            for (graphs, end) in [(Graphs::Constant, ""), (Graphs::Exponential, "_exp")] {
                let name = format!("{name}_{population}{end}");
                let found = mae(label, population, graphs);
                all.push(value(id("coordination", &name), found, samples(e), String::new()));
            }
        }
    }
    let [_, (_, apart), (_, flooded), (_, together), _] = COORDINATED;
    let constant = |label: &str, population: f64| mae(label, population, Graphs::Constant);
    for population in [64.0, 128.0] {
        let large = mae(apart, population, Graphs::Large);
        let name = format!("uncoordinated_large_{population}");
        all.push(value(id("coordination", &name), large, samples(e), String::new()));
        let (apart, together) = (constant(apart, population), constant(together, population));
        let note = format!("{apart:.2} % over {together:.2} %.");
        let name = format!("uncoordinated_{population}");
        all.push(value(id("coordination", &name), apart / together, samples(e), note));
    }
    let (flooded, apart) = (constant(flooded, 512.0), constant(apart, 512.0));
    let note = format!("{flooded:.2} % over {apart:.2} %.");
    all.push(value(id("coordination", "crossover"), flooded / apart, samples(e), note));
    all
}

fn measure_delivered(e: &ServicesExperiment) -> Vec<Measured> {
    let of = |label: &str| errors(e, |r| r.label == label);
    let ours = of("Governor, delivered");
    let (cores, one) = (of("open law, k = cores"), of("open law, k = 1"));
    let note = format!("{} predictions.", ours.len());
    let low = cores.iter().copied().fold(f64::INFINITY, f64::min);
    let high = one.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    vec![
        value(id("delivered", "mae"), mean_absolute(&ours), samples(e), note.clone()),
        value(id("delivered", "worst"), largest(&ours), samples(e), note.clone()),
        value(id("delivered", "open_cores"), low, samples(e), note.clone()),
        value(id("delivered", "open_one"), high, samples(e), note),
    ]
}

/// Predicted over true gains of all cases: the truth is the diagonal, and the open laws leave it to
/// either side.
fn delivered_over_gains(e: &ServicesExperiment) -> Vec<Panel> {
    let point = |result: &ServicesResult, y: f64| Point {
        x: result.gain_percent.value,
        y: Some(y),
        low: None,
        high: None,
        samples: result.work,
        stable: true,
    };
    let sorted = |mut points: Vec<Point>| {
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        points
    };
    let of = |label: String| {
        let own = e.results.iter().filter(|result| result.label == label);
        let gain = |result: &ServicesResult| {
            Some(point(result, result.predicted_gain_percent.as_ref()?.value))
        };
        Series { points: sorted(own.filter_map(gain).collect()), label }
    };
    let all = labels(e);
    let truth = all.first().map(|label| Series {
        label: "true".to_string(),
        points: sorted(
            e.results
                .iter()
                .filter(|result| result.label == *label)
                .map(|result| point(result, result.gain_percent.value))
                .collect(),
        ),
    });
    vec![Panel {
        id: "delivered-gains".to_string(),
        title: "Delivered mode against the open law".to_string(),
        x: axis("true gain", "%", Scale::Linear),
        y: axis("predicted gain", "%", Scale::Linear),
        series: truth.into_iter().chain(all.into_iter().map(of)).collect(),
        rules: Vec::new(),
    }]
}

fn labels(e: &ServicesExperiment) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for result in &e.results {
        if !all.contains(&result.label) {
            all.push(result.label.clone());
        }
    }
    all
}

fn found(e: &ServicesExperiment, what: &str) -> String {
    let one = |label: String| {
        let errors = errors(e, |result| result.label == label);
        format!("{label} {:.2} % (worst {:.1})", mean_absolute(&errors), largest(&errors))
    };
    let all: Vec<String> = labels(e).into_iter().map(one).collect();
    format!("{what}: {}.", all.join(", "))
}

fn errors_over_swept(e: &ServicesExperiment) -> Vec<Panel> {
    let variants = e.variants();
    let panels = variants.iter().flat_map(|variant| {
        let curves = ServicesPlan::curves(e, variant);
        let errors: Vec<_> = curves.into_iter().filter(|curve| curve.id == "error").collect();
        errors.iter().filter_map(|curve| draw::panel(e, variant, curve)).collect::<Vec<_>>()
    });
    panels.collect()
}

/// Mean absolute errors by method and number of clients, a table for each kind of graphs.
fn by_clients(e: &ServicesExperiment) -> Vec<Table> {
    let mut populations: Vec<f64> = e.results.iter().map(clients).collect();
    populations.sort_by(f64::total_cmp);
    populations.dedup();
    let table = |(graphs, name, title): (Graphs, &str, &str)| {
        let row = |label: String| {
            let mut row = vec![Cell::Text(label.clone())];
            for &population in &populations {
                let errors = errors(e, |r| {
                    r.label == label && clients(r) == population && Graphs::of(r) == graphs
                });
                row.push(match errors.is_empty() {
                    true => Cell::Missing("none".to_string()),
                    false => Cell::Number(mean_absolute(&errors)),
                });
            }
            row
        };
        let heads = populations.iter().map(|population| format!("{population} clients (%)"));
        Table {
            id: format!("errors-{name}"),
            title: format!("Mean absolute errors, {title}"),
            columns: std::iter::once("method".to_string()).chain(heads).collect(),
            rows: labels(e).into_iter().map(row).collect(),
        }
    };
    let there = |graphs: Graphs| e.results.iter().any(|result| Graphs::of(result) == graphs);
    Graphs::ALL.into_iter().filter(|(graphs, ..)| there(*graphs)).map(table).collect()
}
