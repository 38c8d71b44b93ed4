//! Curves over what a plan sweeps.

use super::{facet, headline, suffix, words};
use crate::experiment::Experiment;
use crate::objective::{Metric, Objective};
use crate::outcome::{Estimate, Outcome, Standing};
use crate::search::Capacity;
use crate::subject::{Sense, Subject};
use cavy_report::model::{Axis, Panel, Point, Rule, Scale, Series};
use cavy_report::number::coordinate;
use std::collections::BTreeSet;

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
    /// What of it objectives can bound: their limits become lines across.
    pub metric: Option<Metric>,
}

impl<S: Subject> Curve<S> {
    /// Does an objective bound what it shows?
    pub(super) fn is_bounded_by(&self, objective: &Objective) -> bool {
        self.metric.as_ref().is_some_and(|metric| objective.bounds(metric))
    }

    /// The limits of objectives on what it shows.
    fn rules(&self, experiment: &Experiment<S>) -> Vec<Rule> {
        let objectives = experiment.frame.objectives.iter();
        let bounding = objectives
            .filter_map(|text| Objective::parse(text).ok())
            .filter(|objective| self.is_bounded_by(objective));
        bounding.filter_map(|objective| objective.rule()).collect()
    }
}

/// An axis as the data need it.
pub fn axis(label: &str, unit: &str, scale: Scale) -> Axis {
    let (label, unit) = (label.to_string(), unit.to_string());
    Axis { label, unit, scale, min: None, max: None }
}

/// The swept key on the horizontal axis of a variant, if anything is swept: the key of the most
/// numbers; among several the searched axis, else the first.
pub fn horizontal<S: Subject>(experiment: &Experiment<S>, variant: &str) -> Option<String> {
    let settings = &experiment.of_variant(variant).next()?.settings;
    let searched = experiment.plan.axis().map(|axis| axis.key);
    let numbers = |key: &String| {
        let of_key = experiment.of_variant(variant).filter_map(|result| abscissa(result, key));
        of_key.map(f64::to_bits).collect::<BTreeSet<u64>>().len()
    };
    let order = |key: &&String| (numbers(key), searched == Some(key.as_str()));
    // The first of the greatest, where `max_by_key` gives the last.
    settings.keys().rev().max_by_key(order).cloned()
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

/// More lines than these in one panel cannot be told apart.
const LINES_MOST: usize = 6;

/// A panel of `curve` for every contestant of a variant over one swept key. Further swept keys
/// become further lines. `None` when nothing that is a number is swept.
pub fn panel<S: Subject>(
    experiment: &Experiment<S>,
    variant: &str,
    curve: &Curve<S>,
) -> Option<Panel> {
    let key = horizontal(experiment, variant)?;
    let label = |result: &Outcome<S::Data>| match facet(result, Some(&key)).as_str() {
        "" => result.label.clone(),
        facet => format!("{}, {facet}", result.label),
    };
    let mut series = lines(experiment.of_variant(variant), &key, curve, label);
    // A contestant that no further key concerns gives the same line many times; one is enough.
    series.dedup_by(|b, a| {
        let base = |label: &str| label.split(',').next().unwrap_or("").to_string();
        base(&a.label) == base(&b.label)
            && a.points.len() == b.points.len()
            && a.points.iter().zip(&b.points).all(|(p, q)| p.y == q.y && p.x == q.x)
    });
    whole(experiment, variant, curve, &key, series)
}

/// Panels of `curve`: one, or where its lines would be too many to tell apart, one for each setting
/// of the further keys, so that each compares the contestants.
pub fn panels<S: Subject>(
    experiment: &Experiment<S>,
    variant: &str,
    curve: &Curve<S>,
) -> Vec<Panel> {
    let Some(one) = panel(experiment, variant, curve) else { return Vec::new() };
    let key = horizontal(experiment, variant).unwrap_or_default();
    let mut facets: Vec<String> = Vec::new();
    let mut labels = BTreeSet::new();
    for result in experiment.of_variant(variant) {
        labels.insert(&result.label);
        let facet = facet(result, Some(&key));
        if !facets.contains(&facet) {
            facets.push(facet);
        }
    }
    if one.series.len() <= LINES_MOST || labels.len() < 2 || facets.len() < 2 {
        return vec![one];
    }
    let ends = {
        let points = one.series.iter().flat_map(|series| &series.points);
        let of = |point: &Point| [point.y, point.low, point.high];
        // A logarithmic scale has no place for zero.
        let shown = |value: &f64| curve.y.scale == Scale::Linear || *value > 0.0;
        points.flat_map(of).flatten().filter(shown).collect::<Vec<f64>>()
    };
    // One scale for all, so that panels can be compared.
    let greatest = ends.iter().copied().reduce(f64::max);
    let flat =
        |least: &f64| curve.y.scale == Scale::Log || greatest.is_some_and(|g| *least > 0.6 * g);
    let least = ends.iter().copied().reduce(f64::min).filter(flat);
    let of_facet = |(at, of): (usize, &String)| {
        let results = experiment.of_variant(variant).filter(|one| facet(one, Some(&key)) == **of);
        let series = lines(results, &key, curve, |result| result.label.clone());
        let mut panel = whole(experiment, variant, curve, &key, series)?;
        panel.id = format!("{}-{at}", panel.id);
        panel.title = format!("{}, {of}", panel.title);
        panel.y.min = panel.y.min.or(least);
        panel.y.max = panel.y.max.or(greatest);
        Some(panel)
    };
    facets.iter().enumerate().filter_map(of_facet).collect()
}

/// Lines over `key`, one for each label, in the order in which labels come.
fn lines<'a, S: Subject>(
    results: impl Iterator<Item = &'a Outcome<S::Data>>,
    key: &str,
    curve: &Curve<S>,
    label: impl Fn(&Outcome<S::Data>) -> String,
) -> Vec<Series>
where
    S::Data: 'a,
{
    let mut series: Vec<Series> = Vec::new();
    for result in results {
        let Some(x) = abscissa(result, key) else { continue };
        let label = label(result);
        let Drawn { y, low, high, samples } = (curve.of)(result);
        let [y, low, high] = [y, low, high].map(|value| value.filter(|_| result.stable()));
        let stable = result.standing != Standing::Unstable;
        let drawn = Point { x, y, low, high, samples, stable };
        match series.iter_mut().find(|s| s.label == label) {
            Some(series) => series.points.push(drawn),
            None => series.push(Series { label, points: vec![drawn] }),
        }
    }
    for series in &mut series {
        series.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    series
}

/// A panel of lines; `None` where no line has two points.
fn whole<S: Subject>(
    experiment: &Experiment<S>,
    variant: &str,
    curve: &Curve<S>,
    key: &str,
    series: Vec<Series>,
) -> Option<Panel> {
    if series.iter().all(|s| s.points.len() < 2) {
        return None;
    }
    let wide = |s: &Series| match (s.points.first(), s.points.last()) {
        (Some(first), Some(last)) => first.x > 0.0 && last.x / first.x > 30.0,
        _ => false,
    };
    let scale = if series.iter().any(wide) { Scale::Log } else { Scale::Linear };
    let mut panel = Panel {
        id: format!("{variant}-{}", curve.id),
        title: format!("{}{}", headline(&curve.y.label), suffix(variant)),
        x: axis(&x_label(experiment, variant, key), "", scale),
        y: curve.y.clone(),
        series,
        rules: curve.rules(experiment),
    };
    mark_capacities(experiment, variant, curve, &mut panel);
    Some(panel)
}

/// Marks the last value of the searched axis that meets each objective, on plots of what the
/// objective bounds.
fn mark_capacities<S: Subject>(
    experiment: &Experiment<S>,
    variant: &str,
    curve: &Curve<S>,
    panel: &mut Panel,
) {
    let searched = experiment.plan.axis().map(|axis| axis.key.to_string());
    if searched.is_none() || horizontal(experiment, variant) != searched {
        return;
    }
    // A capacity under further settings belongs to one of several panels or lines.
    let whole = |one: &&Capacity| one.variant == variant && one.settings.is_empty();
    for capacity in experiment.capacities.iter().filter(whole) {
        let objective = Objective::parse(&capacity.objective).ok();
        let drawn = panel.series.iter().any(|series| series.label == capacity.label);
        if let Some(at) = capacity.at
            && drawn
            && objective.is_some_and(|objective| curve.is_bounded_by(&objective))
        {
            let words = format!("meets it up to {}", coordinate(at));
            let words = match experiment.plan.axis().map(|axis| axis.sense) {
                Some(Sense::Least) => words.replace("up to", "from"),
                _ => words,
            };
            panel.rules.push(Rule::of_series(&capacity.label, words, at));
        }
    }
}
