//! Contestants against each other: what each would buy, and what it costs whom.

use crate::experiment::Experiment;
use crate::outcome::{Estimate, Outcome};
use crate::subject::{Experience, Sense, Subject};
use cavy_lab::statistics::paired::{self, Verdict};
use serde::Serialize;

/// The contestants under one objective; by their first mark when the plan has none.
#[derive(Clone, Debug, Serialize)]
pub struct Ranking {
    /// The variant of the plan.
    pub variant: String,
    /// The objective, in words.
    pub objective: Option<String>,
    /// Label of the contestant that the others are compared with.
    pub baseline: String,
    /// The value of the searched axis at which contestants are compared: the last one run at which
    /// all that are stable anywhere are stable. `None` when there is none; rows then name their
    /// own.
    pub compared_at: Option<f64>,
    /// Contestants, the best first; those that are not ranked last.
    pub rows: Vec<Rank>,
}

/// One contestant in a ranking.
#[derive(Clone, Debug, Serialize)]
pub struct Rank {
    /// Label.
    pub label: String,
    /// Last value of the searched axis, such as the highest load, that meets the objective.
    pub at: Option<f64>,
    /// That value in units of work per second.
    pub rate_per_s: Option<f64>,
    /// How many times the baseline's value it is: what the contestant buys.
    pub gain_ratio: Option<f64>,
    /// What gives way beyond it.
    pub limit: String,
    /// Where this contestant and the baseline are compared.
    pub compared_at: Option<f64>,
    /// The marks of the kind there, in their order.
    pub marks: Vec<Option<f64>>,
    /// What everybody who is served pays or gains there.
    pub effects: Vec<Effect>,
    /// Why it is not ranked: what was run is not what its label says.
    pub unformed: Option<String>,
}

/// What a comparison says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    /// Better, and the paired 95 % interval excludes zero.
    Better,
    /// Worse, likewise.
    Worse,
    /// The interval holds zero.
    Unclear,
    /// Too few samples to compare.
    TooFew,
}

/// What a contestant does to somebody, against the baseline in the same place.
#[derive(Clone, Debug, Serialize)]
pub struct Effect {
    /// To whom.
    pub whose: String,
    /// The value compared, such as `p99.9`; empty with too few samples.
    pub value: String,
    /// Unit of both values.
    pub unit: String,
    /// The baseline's.
    pub baseline: Option<f64>,
    /// The contestant's.
    pub ours: Option<f64>,
    /// Contestant over baseline, where both are above zero.
    pub ratio: Option<f64>,
    /// What that is.
    pub change: Comparison,
}

impl Effect {
    /// In words, such as `get p99.9 2.1x faster`.
    pub fn words(&self) -> String {
        let (whose, value) = (&self.whose, &self.value);
        let (Some(ours), Some(baseline)) = (self.ours, self.baseline) else {
            return format!("{whose} too few");
        };
        let Some(ratio) = self.ratio else {
            // Nothing is any number of times as much as zero.
            if matches!(self.change, Comparison::Unclear | Comparison::TooFew) {
                return format!("{whose} {value} unclear");
            }
            let number = cavy_report::number::significant;
            return format!(
                "{whose} {value} {} for {} {}",
                number(ours),
                number(baseline),
                self.unit
            );
        };
        let factor = if ratio < 1.0 { 1.0 / ratio } else { ratio };
        let factor = cavy_report::number::significant(factor);
        let way = match (self.change, ratio < 1.0, self.unit.as_str()) {
            (Comparison::Unclear | Comparison::TooFew, _, _) => {
                return format!("{whose} {value} unclear");
            }
            (_, true, "us" | "ms" | "x") => "faster",
            (_, false, "us" | "ms" | "x") => "slower",
            (_, true, _) => "less",
            (_, false, _) => "more",
        };
        format!("{whose} {value} {factor}x {way}")
    }
}

/// The paired verdict of two estimates over the same replications.
pub fn change(ours: &Estimate, theirs: &Estimate, more_is_better: bool) -> Comparison {
    if ours.replications.len() != theirs.replications.len() {
        return Comparison::Unclear;
    }
    let verdict = paired::compare(&ours.replications, &theirs.replications).map(|p| p.verdict);
    match (verdict, more_is_better) {
        (Some(Verdict::Better), false) | (Some(Verdict::Worse), true) => Comparison::Better,
        (Some(Verdict::Worse), false) | (Some(Verdict::Better), true) => Comparison::Worse,
        _ => Comparison::Unclear,
    }
}

/// `ours` over `theirs`; `None` where one of them is not above zero, so that no factor tells them
/// apart.
fn ratio(ours: f64, theirs: f64) -> Option<f64> {
    (ours > 0.0 && theirs > 0.0).then(|| ours / theirs)
}

/// What `ours` does to everybody, against `theirs`. Everybody is named.
pub fn effects<S: Subject>(ours: &Outcome<S::Data>, theirs: &Outcome<S::Data>) -> Vec<Effect> {
    let others = S::experiences(theirs);
    let effect = |mine: Experience<'_>| {
        let other = others.iter().find(|other| other.whose == mine.whose);
        let both = mine.values.iter().find_map(|(name, ours)| {
            let (_, theirs) = other?.values.iter().find(|(known, _)| known == name)?;
            Some((*name, (*ours)?, (*theirs)?))
        });
        let Experience { whose, unit, more_is_better, .. } = &mine;
        let (whose, unit) = (whose.clone(), unit.to_string());
        match both {
            None => Effect {
                whose,
                value: String::new(),
                unit,
                baseline: None,
                ours: None,
                ratio: None,
                change: Comparison::TooFew,
            },
            Some((name, ours, theirs)) => Effect {
                whose,
                value: name.to_string(),
                unit,
                baseline: Some(theirs.value),
                ours: Some(ours.value),
                ratio: ratio(ours.value, theirs.value),
                change: change(ours, theirs, *more_is_better),
            },
        }
    };
    S::experiences(ours).into_iter().map(effect).collect()
}

/// A ranking for each variant and objective of a plan that varies nothing but the searched axis.
pub fn rankings<S: Subject>(experiment: &Experiment<S>) -> Vec<Ranking> {
    let mut all = Vec::new();
    let axis = experiment.plan.axis().map(|axis| axis.key);
    for variant in experiment.variants() {
        let keys = experiment.of_variant(variant).flat_map(|result| result.settings.keys());
        let others = keys.into_iter().any(|key| Some(key.as_str()) != axis);
        if others || experiment.labels(variant).len() < 2 {
            continue;
        }
        let of_variant = experiment.capacities.iter().filter(|c| c.variant == variant);
        match of_variant.map(|c| c.objective_index).max() {
            Some(last) => {
                all.extend((0..=last).filter_map(|index| ranking(experiment, variant, Some(index))))
            }
            None => all.extend(ranking(experiment, variant, None)),
        }
    }
    all
}

fn ranking<S: Subject>(
    experiment: &Experiment<S>,
    variant: &str,
    objective: Option<usize>,
) -> Option<Ranking> {
    let labels = experiment.labels(variant);
    let baseline = experiment.baseline(variant)?;
    let sense = experiment.plan.axis().map_or(Sense::Greatest, |axis| axis.sense);
    let capacity = |label: &str| experiment.capacity(variant, label, objective?);
    let base_at = capacity(baseline).and_then(|c| c.at);
    let common = common(experiment, variant, &labels);
    let row = |label: &&str| {
        let pair = match common {
            Some(at) => experiment
                .at(variant, label, at)
                .zip(experiment.at(variant, baseline, at))
                .filter(|(ours, theirs)| ours.stable() && theirs.stable()),
            None => common_place(experiment, variant, label, baseline),
        };
        let unformed = experiment.of(variant, label).find_map(|result| result.unformed.clone());
        let of_baseline =
            experiment.of(variant, baseline).find_map(|result| result.unformed.clone());
        let comparable = unformed.is_none() && of_baseline.is_none();
        let at = capacity(label).and_then(|c| c.at);
        let gain = |(ours, theirs): (f64, f64)| match sense {
            Sense::Greatest => ratio(ours, theirs),
            Sense::Least => ratio(theirs, ours),
        };
        Rank {
            label: label.to_string(),
            at,
            rate_per_s: capacity(label).and_then(|c| c.rate_per_s),
            gain_ratio: at.zip(base_at).and_then(gain).filter(|_| comparable),
            limit: capacity(label).map_or(String::new(), |c| c.limit.clone()),
            compared_at: pair.and_then(|(ours, _)| ours.at),
            marks: S::marks().iter().map(|mark| (mark.of)(pair?.0)).collect(),
            effects: match pair {
                Some((ours, theirs)) if *label != baseline && comparable => {
                    effects::<S>(ours, theirs)
                }
                _ => Vec::new(),
            },
            unformed,
        }
    };
    let mut rows: Vec<Rank> = labels.iter().map(row).collect();
    let worth = |row: &Rank| match sense {
        Sense::Greatest => row.at.unwrap_or(f64::NEG_INFINITY),
        Sense::Least => -row.at.unwrap_or(f64::INFINITY),
    };
    let first_mark = |row: &Rank| row.marks.first().copied().flatten().unwrap_or(f64::INFINITY);
    rows.sort_by(|a, b| {
        let by_form = a.unformed.is_some().cmp(&b.unformed.is_some());
        let by_worth = worth(b).total_cmp(&worth(a));
        by_form.then(by_worth).then(first_mark(a).total_cmp(&first_mark(b)))
    });
    let objective = labels.first().and_then(|label| capacity(label)).map(|c| c.objective.clone());
    let (variant, baseline) = (variant.to_string(), baseline.to_string());
    Some(Ranking { variant, objective, baseline, compared_at: common, rows })
}

/// The last swept value at which every contestant that is stable anywhere is stable.
fn common<S: Subject>(experiment: &Experiment<S>, variant: &str, labels: &[&str]) -> Option<f64> {
    let stable_anywhere: Vec<&&str> = labels
        .iter()
        .filter(|label| experiment.of(variant, label).any(|result| result.stable()))
        .collect();
    let all_stable = |at: &f64| {
        stable_anywhere
            .iter()
            .all(|label| experiment.at(variant, label, *at).is_some_and(|r| r.stable()))
    };
    let first = stable_anywhere.first()?;
    let places = experiment.of(variant, first).map(|result| result.load());
    places.filter(all_stable).reduce(f64::max)
}

/// Results of two contestants in one place.
pub type OutcomePair<'a, S> =
    (&'a Outcome<<S as Subject>::Data>, &'a Outcome<<S as Subject>::Data>);

/// Results of two contestants at the greatest swept value at which both are stable.
pub fn common_place<'a, S: Subject>(
    experiment: &'a Experiment<S>,
    variant: &'a str,
    first: &'a str,
    second: &'a str,
) -> Option<OutcomePair<'a, S>> {
    experiment
        .of(variant, first)
        .filter(|result| result.stable())
        .filter_map(|ours| {
            let theirs = experiment.at(variant, second, ours.load())?;
            theirs.stable().then_some((ours, theirs))
        })
        .max_by(|a, b| a.0.load().total_cmp(&b.0.load()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(ours: f64, baseline: f64, change: Comparison) -> Effect {
        Effect {
            whose: "get".to_string(),
            value: "p99".to_string(),
            unit: "us".to_string(),
            baseline: Some(baseline),
            ours: Some(ours),
            ratio: ratio(ours, baseline),
            change,
        }
    }

    #[test]
    fn nothing_is_a_number_of_times_zero() {
        assert_eq!(effect(20.0, 10.0, Comparison::Worse).words(), "get p99 2x slower");
        assert_eq!(effect(5.0, 10.0, Comparison::Better).words(), "get p99 2x faster");
        assert_eq!(effect(68.8, 0.0, Comparison::Worse).words(), "get p99 68.8 for 0 us");
        assert_eq!(effect(0.0, 0.0, Comparison::Unclear).words(), "get p99 unclear");
        for (ours, theirs) in [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (f64::NAN, 1.0)] {
            assert_eq!(ratio(ours, theirs), None);
        }
    }
}
