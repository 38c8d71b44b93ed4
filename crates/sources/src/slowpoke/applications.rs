//! The four applications: figure 8 of the source [slowpoke 5.1].

use super::logs::{self, Line, POINTS};
use super::measure::{errors, id, largest, mean_absolute, points, rms, value};
use cavy_core::{Purpose, Stream};
use cavy_kinds::services::{ServicesExperiment, ServicesPlan};
use cavy_report::model::{Panel, Point, Scale, Series};
use cavy_study::claim::Measured;
use cavy_study::draw::{self, axis};
use cavy_study::experiment::BASE;
use cavy_study::source::{About, Study};

/// Figure 8.
pub static FIG8: Study<ServicesPlan> = Study {
    about: About {
        id: "fig8",
        title: "Four applications: true and predicted throughput",
        plan: include_str!("plans/fig8.toml"),
        files: &[],
        shows: "Throughput of an online shop, a hotel service, a social network and a movie \
                service when a share of the time of one service is removed: true, and as Slowpoke \
                predicts it. Dots are the source's means.",
        claimed: "The root mean square error is 2.07 %.",
    },
    measure,
    found,
    panels,
    tables: |e| vec![draw::points(e)],
};

/// Applications, the variants that have them, and those with noise.
const APPLICATIONS: [(&str, &str, &str); 4] = [
    ("boutique", BASE, "boutique_noisy"),
    ("hotel", "hotel", "hotel_noisy"),
    ("social", "social", "social_noisy"),
    ("movie", "movie", "movie_noisy"),
];

const LABEL: &str = "Slowpoke";

/// Means over the source's repetitions.
fn means(application: &str) -> [f64; POINTS] {
    let all: Vec<Line> =
        logs::repetitions().into_iter().filter(|line| line.application == application).collect();
    core::array::from_fn(|point| {
        let values: Vec<f64> = all.iter().filter_map(|line| line.truth[point]).collect();
        values.iter().sum::<f64>() / values.len() as f64
    })
}

/// Index of a point of the source, from percent.
fn place(percent: f64) -> Option<usize> {
    ((percent / 10.0).round() as usize).checked_sub(1).filter(|place| *place < POINTS)
}

fn measure(e: &ServicesExperiment) -> Vec<Measured> {
    let mut all = Vec::new();
    let mut noisy = Vec::new();
    for (application, variant, with_noise) in APPLICATIONS {
        let source = means(application);
        // The last point fixed a constant, and so did the throughput of the unchanged system.
        let deviations: Vec<f64> = points(e, variant, LABEL)
            .filter_map(|(percent, result)| {
                let place = place(percent).filter(|place| place + 1 < POINTS)?;
                Some((result.truth_per_s.value / source[place] - 1.0) * 100.0)
            })
            .collect();
        let errors: Vec<f64> =
            points(e, variant, LABEL).flat_map(|(_, result)| errors(result).to_vec()).collect();
        let work: u64 = points(e, variant, LABEL).map(|(_, result)| result.work).sum();
        let of = |name: &str| id("fig8", &format!("{application}_{name}"));
        let count = format!("{} points.", deviations.len());
        all.push(value(of("truth"), mean_absolute(&deviations), work, count.clone()));
        all.push(value(of("truth_worst"), largest(&deviations), work, count));
        let count = format!("{} predictions.", errors.len());
        all.push(value(of("mae"), mean_absolute(&errors), work, count.clone()));
        let sign = errors.iter().sum::<f64>() / errors.len() as f64;
        all.push(value(of("sign"), sign, work, count.clone()));
        all.push(value(of("seed"), largest(&errors), work, count));
        noisy.extend(
            points(e, with_noise, LABEL).flat_map(|(_, r)| super::measure::errors(r).to_vec()),
        );
    }
    all.extend(of_the_source());
    let count = format!("{} predictions.", noisy.len());
    all.push(value(id("fig8", "noise_lab"), rms(&noisy), noisy.len() as u64, count));
    all
}

/// What the source's own repetitions say, whoever simulates.
fn of_the_source() -> Vec<Measured> {
    let repetitions = logs::repetitions();
    let (mut raw, mut paired, mut of_truth, mut of_predictions) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (application, ..) in APPLICATIONS {
        for point in 0..POINTS {
            let lines = repetitions.iter().filter(|line| line.application == application);
            let both: Vec<(f64, f64)> = lines
                .filter_map(|line| Some((line.truth[point]?, line.predicted[point]?)))
                .collect();
            raw.extend(both.iter().map(|(truth, said)| (said / truth - 1.0) * 100.0));
            let truth: Vec<f64> = both.iter().map(|pair| pair.0).collect();
            let said: Vec<f64> = both.iter().map(|pair| pair.1).collect();
            of_truth.push(variation(&truth));
            of_predictions.push(variation(&said));
            paired.extend(middle_three(&truth, &said));
        }
    }
    let (truth, said) = (rms(&of_truth), rms(&of_predictions));
    let together = (truth * truth + said * said).sqrt();
    let count = raw.len() as u64;
    let note = |text: &str| text.to_string();
    vec![
        value(id("fig8", "rmse_raw"), rms(&raw), count, note("Of the source's repetitions.")),
        value(id("fig8", "rmse_published"), rms(&paired), paired.len() as u64, String::new()),
        value(id("fig8", "aggregation"), of_noise(), 1_000_000, String::new()),
        value(id("fig8", "aggregation_source"), rms(&paired) / rms(&raw), count, String::new()),
        value(
            id("fig8", "noise"),
            together,
            count,
            format!("{truth:.2} % of truths, {said:.2} % of predictions."),
        ),
    ]
}

/// Coefficient of variation, in percent.
fn variation(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let square = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    square.sqrt() / mean * 100.0
}

/// Errors in percent as the source pairs them: both sorted, the middle three kept, paired by rank
/// ([slowpoke S11]).
fn middle_three(truth: &[f64], said: &[f64]) -> Vec<f64> {
    let sorted = |values: &[f64]| {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        values
    };
    let pairs = sorted(truth).into_iter().zip(sorted(said)).collect::<Vec<(f64, f64)>>();
    let edge = pairs.len().saturating_sub(3) / 2;
    let kept = pairs[edge..].iter().take(3);
    kept.map(|(truth, said)| (said / truth - 1.0) * 100.0).collect()
}

/// What that pairing makes of Gaussian noise alone: the share of its root mean square that is left.
fn of_noise() -> f64 {
    let mut stream = Stream::keyed(1, 0, Purpose::Labels);
    let mut normal = || {
        let (u, v) = (stream.unit(), stream.unit());
        libm::sqrt(-2.0 * libm::log(u)) * libm::cos(core::f64::consts::TAU * v)
    };
    let (mut raw, mut kept) = ((0.0, 0u32), (0.0, 0u32));
    for _ in 0..100_000 {
        let mut truth: [f64; 5] = core::array::from_fn(|_| normal());
        let mut said: [f64; 5] = core::array::from_fn(|_| normal());
        for (truth, said) in truth.iter().zip(&said) {
            raw = (raw.0 + (said - truth) * (said - truth), raw.1 + 1);
        }
        truth.sort_by(f64::total_cmp);
        said.sort_by(f64::total_cmp);
        for place in 1..4 {
            kept = (kept.0 + (said[place] - truth[place]).powi(2), kept.1 + 1);
        }
    }
    libm::sqrt(kept.0 / f64::from(kept.1)) / libm::sqrt(raw.0 / f64::from(raw.1))
}

fn found(e: &ServicesExperiment) -> String {
    let one = |(application, variant, _): (&str, &str, &str)| {
        let errors: Vec<f64> =
            points(e, variant, LABEL).flat_map(|(_, result)| errors(result).to_vec()).collect();
        format!(
            "{application}: mean absolute error {:.2} %, worst {:.1} %",
            mean_absolute(&errors),
            largest(&errors)
        )
    };
    let all: Vec<String> = APPLICATIONS.into_iter().map(one).collect();
    format!("{}.", all.join("; "))
}

fn panels(e: &ServicesExperiment) -> Vec<Panel> {
    let panel = |(application, variant, _): (&str, &str, &str)| {
        let dot = |x: f64, y: Option<f64>| Point {
            x,
            y,
            low: None,
            high: None,
            samples: 1,
            stable: true,
        };
        let source = means(application);
        let with = |result: &cavy_kinds::services::ServicesResult, x: f64, truth: bool| {
            let estimate =
                if truth { Some(&result.truth_per_s) } else { result.predicted_per_s.as_ref() };
            Point {
                low: estimate.map(|one| one.min()),
                high: estimate.map(|one| one.max()),
                ..dot(x, estimate.map(|one| one.value))
            }
        };
        let of = |label: &str, truth: bool| Series {
            label: label.to_string(),
            points: points(e, variant, LABEL).map(|(x, r)| with(r, x, truth)).collect(),
        };
        let theirs = Series {
            label: "the source's truth".to_string(),
            points: (0..POINTS).map(|p| dot((p as f64 + 1.0) * 10.0, Some(source[p]))).collect(),
        };
        Panel {
            id: format!("fig8-{application}"),
            title: application.to_string(),
            x: axis("share of the target's time removed", "%", Scale::Linear),
            y: axis("throughput", "requests/s", Scale::Linear),
            series: vec![of("true", true), of("predicted by Slowpoke", false), theirs],
            rules: Vec::new(),
        }
    };
    APPLICATIONS.into_iter().map(panel).collect()
}
