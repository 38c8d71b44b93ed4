//! Curves over what a plan sweeps.

use super::{facet, headline, suffix, words};
use crate::experiment::Experiment;
use crate::outcome::{Estimate, Outcome};
use crate::subject::Subject;
use cavy_report::model::{Axis, Panel, Point, Rule, Scale, Series};

/// Which spread is drawn around which value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// The median over replications, from the smallest to the largest ([persephone 5.3]).
    Replications,
    /// The pooled value with its 95 % interval.
    Interval,
}

/// A value of a point, as it is drawn.
#[derive(Clone, Copy, Debug, Default)]
pub struct Drawn {
    /// The value; `None` when there is none to draw.
    pub y: Option<f64>,
    /// Lower end of its spread.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Samples behind it.
    pub samples: u64,
}

impl Drawn {
    /// A value without a spread.
    pub fn plain(y: f64, samples: u64) -> Drawn {
        Drawn { y: Some(y), low: None, high: None, samples }
    }

    /// An estimate, if there is one.
    pub fn of(estimate: Option<&Estimate>, spread: Spread, samples: u64) -> Drawn {
        let (y, low, high) = match (estimate, spread) {
            (None, _) => (None, None, None),
            (Some(e), Spread::Interval) => (Some(e.value), Some(e.low), Some(e.high)),
            (Some(e), Spread::Replications) => (Some(e.median), Some(e.min()), Some(e.max())),
        };
        Drawn { y, low, high, samples }
    }
}

/// How a value is taken from a point.
pub type ValueOf<S> = Box<dyn Fn(&Outcome<<S as Subject>::Data>) -> Drawn>;

/// One value over what is swept: a panel with a line for each contestant.
pub struct Curve<S: Subject> {
    /// Part of the panel's name.
    pub id: String,
    /// What the value is.
    pub y: Axis,
    /// The value of a point. It is drawn where the point is stable.
    pub of: ValueOf<S>,
    /// Lines across, such as an objective.
    pub rules: Vec<Rule>,
}

/// An axis as the data need it.
pub fn axis(label: &str, unit: &str, scale: Scale) -> Axis {
    let (label, unit) = (label.to_string(), unit.to_string());
    Axis { label, unit, scale, min: None, max: None }
}

/// The swept key on the horizontal axis of a variant, if anything is swept: the searched axis, else
/// the first key.
pub fn horizontal<S: Subject>(experiment: &Experiment<S>, variant: &str) -> Option<String> {
    let settings = &experiment.of_variant(variant).next()?.settings;
    let searched = experiment.plan.axis().map(|axis| axis.key);
    match searched.filter(|key| settings.contains_key(*key)) {
        Some(key) => Some(key.to_string()),
        None => settings.keys().next().cloned(),
    }
}

/// A swept value as a number to plot against.
fn abscissa<D>(result: &Outcome<D>, key: &str) -> Option<f64> {
    match result.settings.get(key)? {
        serde_json::Value::Number(number) => number.as_f64(),
        serde_json::Value::Bool(flag) => Some(f64::from(u8::from(*flag))),
        _ => None,
    }
}

/// What stands under a plot over `key`.
fn x_label<S: Subject>(experiment: &Experiment<S>, variant: &str, key: &str) -> String {
    let Some(searched) = experiment.plan.axis().filter(|axis| axis.key == key) else {
        return words(key);
    };
    let work = S::ABOUT.work.many;
    let ratio = |r: &Outcome<S::Data>| match (r.at, r.rate_per_s) {
        (Some(at), Some(rate)) if at > 0.0 && searched.key == "load" => Some(rate / at),
        _ => None,
    };
    match experiment.of_variant(variant).find_map(ratio) {
        Some(rate) if rate >= 1e6 => {
            format!("{} (1 = {:.2} million {work}/s)", searched.label, rate / 1e6)
        }
        Some(rate) if rate >= 1e3 => {
            format!("{} (1 = {:.1} thousand {work}/s)", searched.label, rate / 1e3)
        }
        Some(rate) => format!("{} (1 = {rate:.1} {work}/s)", searched.label),
        None => searched.label.to_string(),
    }
}

/// A panel of `curve` for every contestant of a variant over the first swept key. Further swept
/// keys become further lines. `None` when nothing that is a number is swept.
pub fn panel<S: Subject>(
    experiment: &Experiment<S>,
    variant: &str,
    curve: &Curve<S>,
) -> Option<Panel> {
    let key = horizontal(experiment, variant)?;
    let mut series: Vec<Series> = Vec::new();
    for result in experiment.of_variant(variant) {
        let Some(x) = abscissa(result, &key) else { continue };
        let label = match facet(result, Some(&key)).as_str() {
            "" => result.label.clone(),
            facet => format!("{}, {facet}", result.label),
        };
        let Drawn { y, low, high, samples } = (curve.of)(result);
        let stable = result.stable();
        let [y, low, high] = [y, low, high].map(|value| value.filter(|_| stable));
        let drawn = Point { x, y, low, high, samples, stable };
        match series.iter_mut().find(|s| s.label == label) {
            Some(series) => series.points.push(drawn),
            None => series.push(Series { label, points: vec![drawn] }),
        }
    }
    if series.iter().all(|s| s.points.len() < 2) {
        return None;
    }
    for series in &mut series {
        series.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    // A contestant that no further key concerns gives the same line many times; one is enough.
    series.dedup_by(|b, a| {
        let base = |label: &str| label.split(',').next().unwrap_or("").to_string();
        base(&a.label) == base(&b.label)
            && a.points.len() == b.points.len()
            && a.points.iter().zip(&b.points).all(|(p, q)| p.y == q.y && p.x == q.x)
    });
    let wide = |s: &Series| match (s.points.first(), s.points.last()) {
        (Some(first), Some(last)) => first.x > 0.0 && last.x / first.x > 30.0,
        _ => false,
    };
    let scale = if series.iter().any(wide) { Scale::Log } else { Scale::Linear };
    Some(Panel {
        id: format!("{variant}-{}", curve.id),
        title: format!("{}{}", headline(&curve.y.label), suffix(variant)),
        x: axis(&x_label(experiment, variant, &key), "", scale),
        y: curve.y.clone(),
        series,
        rules: curve.rules.clone(),
    })
}
