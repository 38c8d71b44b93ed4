//! The figure of a user's own plan, and what was found, in words.

use super::panel::{Curve, Drawn};
use super::{panel, suffix, table};
use crate::experiment::Experiment;
use crate::objective::{Metric, Objective, unit_of};
use crate::outcome::Standing;
use crate::rank;
use crate::search;
use crate::subject::Subject;
use cavy_report::model::{Figure, Scale};

/// The figure of a plan.
pub fn figures<S: Subject>(experiment: &Experiment<S>, command: &str) -> Vec<Figure> {
    let (mut panels, mut maps) = (Vec::new(), Vec::new());
    let mut tables = table::rankings(experiment);
    tables.extend(table::capacities(experiment));
    for variant in experiment.variants() {
        let mut curves = S::curves(experiment, variant);
        curves.extend(bounded(experiment, &curves));
        for curve in curves {
            panels.extend(panel::panels(experiment, variant, &curve));
        }
        panels.extend(S::panels(experiment, variant));
        maps.extend(S::maps(experiment, variant));
        tables.extend(S::tables(experiment, variant));
    }
    tables.push(table::points(experiment));
    vec![Figure {
        id: "plan".to_string(),
        title: experiment.frame.title.clone(),
        shows: experiment.frame.summary.clone(),
        claimed: String::new(),
        found: findings(experiment),
        command: command.to_string(),
        panels,
        maps,
        tables,
    }]
}

/// Curves of the metrics that objectives bound and no curve shows.
fn bounded<S: Subject>(experiment: &Experiment<S>, shown: &[Curve<S>]) -> Vec<Curve<S>> {
    let mut all: Vec<Curve<S>> = Vec::new();
    for text in &experiment.frame.objectives {
        let Ok(objective) = Objective::parse(text) else { continue };
        if shown.iter().chain(&all).any(|curve| curve.is_bounded_by(&objective)) {
            continue;
        }
        let Objective::Bound { metric, whose, .. } = &objective else { continue };
        let bounded = Metric { name: metric.clone(), whose: whose.clone() };
        let unit = unit_of(metric);
        let suffix = format!("_{unit}");
        let name = metric.strip_suffix(&suffix).unwrap_or(metric).replace('_', " ");
        let label = match whose {
            Some(whose) => format!("{name} of {whose}"),
            None => name,
        };
        let scale = if matches!(unit, "" | "Gb/s") { Scale::Linear } else { Scale::Log };
        all.push(Curve {
            id: super::slug(&label),
            y: panel::axis(&label, unit, scale),
            of: Box::new(move |outcome| match objective.value::<S>(outcome) {
                Some(value) => Drawn::plain(value, outcome.work),
                None => Drawn::default(),
            }),
            metric: Some(bounded),
        });
    }
    all
}

/// What was seen where searches ended, where more is known than that an objective is missed; once
/// for all objectives. What did not become what its label says is named where it is not ranked.
fn limits<S: Subject>(experiment: &Experiment<S>) -> Vec<String> {
    let axis = experiment.plan.axis();
    let mut all: Vec<String> = Vec::new();
    for capacity in &experiment.capacities {
        let Some(why) = capacity.why.as_ref().filter(|_| capacity.limit != search::NOT_JUDGED)
        else {
            continue;
        };
        let label = &capacity.label;
        let place = table::place(axis.as_ref(), capacity.missed_at);
        let of = suffix(&capacity.variant);
        let sentence = format!("{label} {place}{of} is {}: {why}.", capacity.limit);
        if !all.contains(&sentence) {
            all.push(sentence);
        }
    }
    all
}

/// What the rankings say, in words, and where they are silent.
fn findings<S: Subject>(experiment: &Experiment<S>) -> String {
    let mut sentences: Vec<String> = Vec::new();
    let noun = S::ABOUT.contestant;
    let axis = experiment.plan.axis();
    let tried = match axis {
        Some(axis) if axis.counted => format!("with any number of {} tried", axis.words),
        Some(axis) => format!("at any {} tried", axis.words),
        None => "at any value tried".to_string(),
    };
    for ranking in rank::rankings(experiment) {
        let of = suffix(&ranking.variant);
        for row in &ranking.rows {
            if let Some(why) = &row.unformed {
                sentences.push(format!("{} is not ranked{of}: {why}.", row.label));
            }
        }
        let Some(best) = ranking.rows.first().filter(|row| row.unformed.is_none()) else {
            continue;
        };
        match (&ranking.objective, best.at) {
            (Some(objective), None) => {
                let short = |row: &rank::Rank| row.limit.starts_with("too ");
                sentences.push(if ranking.rows.iter().any(short) {
                    format!("The runs are too short to judge {objective}{of}.")
                } else {
                    format!("No {} meets {objective} {tried}{of}.", noun.one)
                });
            }
            (Some(objective), Some(at)) => {
                let gain = match best.gain_ratio {
                    Some(gain) if best.label != ranking.baseline => {
                        format!(", {gain:.2} times that of {}", ranking.baseline)
                    }
                    _ => String::new(),
                };
                let at = (at * 1e3).round() / 1e3;
                sentences.push(format!(
                    "With the objective {objective}{of}, {} has the {}: {at}{gain}.",
                    best.label,
                    table::last_good(experiment)
                ));
            }
            (None, _) => {
                let head = S::marks().first().map(|mark| mark.head);
                if let Some((head, value)) = head.zip(best.marks.first().copied().flatten()) {
                    let place = |at| format!(" {}", table::place(axis.as_ref(), Some(at)));
                    let at = best.compared_at.map_or(String::new(), place);
                    let value = cavy_report::number::significant(value);
                    sentences
                        .push(format!("{} has the least {}{at}{of}: {value}.", best.label, head));
                }
            }
        }
    }
    sentences.extend(limits(experiment));
    let count = |standing| experiment.results.iter().filter(|r| r.standing == standing).count();
    let (unstable, short) = (count(Standing::Unstable), count(Standing::TooShort));
    let all = experiment.results.len();
    if unstable > 0 {
        let are = if unstable == 1 { "is" } else { "are" };
        sentences.push(format!(
            "{unstable} of {all} points {are} unstable, so no latency is given: queues grow \
             without end, or too much is lost. The table of points says why."
        ));
    }
    if short > 0 {
        let are = if short == 1 { "is" } else { "are" };
        sentences.push(format!(
            "{short} of {all} points {are} too short to tell whether they keep up; the table of \
             points says how long they must be."
        ));
    }
    sentences.extend(S::remarks(experiment));
    sentences.join(" ")
}
