//! The figure of a user's own plan, and what was found, in words.

use super::{panel, suffix, table};
use crate::experiment::Experiment;
use crate::outcome::Standing;
use crate::rank;
use crate::subject::Subject;
use cavy_report::model::Figure;

/// The figure of a plan.
pub fn figures<S: Subject>(experiment: &Experiment<S>, command: &str) -> Vec<Figure> {
    let (mut panels, mut maps) = (Vec::new(), Vec::new());
    let mut tables = table::rankings(experiment);
    tables.extend(table::capacities(experiment));
    for variant in experiment.variants() {
        for curve in S::curves(experiment, variant) {
            panels.extend(panel::panel(experiment, variant, &curve));
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

/// What the rankings say, in words, and where they are silent.
fn findings<S: Subject>(experiment: &Experiment<S>) -> String {
    let mut sentences: Vec<String> = Vec::new();
    let noun = S::ABOUT.contestant;
    let axis = experiment.plan.axis();
    let words = axis.map_or("value", |axis| axis.words);
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
                    format!("No {} meets {objective} at any {words} tried{of}.", noun.one)
                });
            }
            (Some(objective), Some(at)) => {
                let gain = match best.gain_ratio {
                    Some(gain) if best.label != ranking.baseline => {
                        format!(", {gain:.2} times what {} does", ranking.baseline)
                    }
                    _ => String::new(),
                };
                let at = (at * 1e3).round() / 1e3;
                sentences.push(format!(
                    "Under {objective}{of} {} has the {}: {at}{gain}.",
                    best.label,
                    table::last_good(experiment)
                ));
            }
            (None, _) => {
                let head = S::marks().first().map(|mark| mark.head);
                if let Some((head, value)) = head.zip(best.marks.first().copied().flatten()) {
                    let at =
                        best.compared_at.map_or(String::new(), |at| format!(" at {words} {at}"));
                    let value = cavy_report::number::significant(value);
                    sentences
                        .push(format!("{} has the least {}{at}{of}: {value}.", best.label, head));
                }
            }
        }
    }
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
