//! Intervals of measured values, from the sections of the runs they were measured in.

use super::{Basis, CONFIDENCE, Measured};
use cavy_lab::statistics::sectioning;

/// Fewer sections say next to nothing about how far they lie apart: with four, an interval at 99 %
/// is three times as wide as twenty of the same length would make theirs.
pub const SECTIONS_MIN: usize = 5;

/// A value that fewer of the sections have says more about these than about the rest.
const KNOWN_RATIO: f64 = 0.7;

/// Gives the values among `measured` the intervals that the same values of each section say, for
/// each of the `ways` in which the runs were cut up. A value of which sections say nothing else
/// stays one without spread.
pub fn sectioned(measured: &mut [Measured], ways: &[Vec<Vec<Measured>>]) {
    if ways.first().is_none_or(|sections| sections.len() < SECTIONS_MIN) {
        return;
    }
    for one in measured.iter_mut().filter(|one| one.basis == Basis::Value) {
        let Some(value) = one.value else { continue };
        // What ends without them, such as the least and the most of replications, says less.
        (one.low, one.high) = (None, None);
        let of = |section: &Vec<Measured>| section.iter().find(|other| other.id == one.id)?.value;
        let known: Vec<Vec<f64>> =
            ways.iter().map(|sections| sections.iter().filter_map(of).collect()).collect();
        let mut counts = known.iter().zip(ways).map(|(known, all)| (known.len(), all.len()));
        if let Some((known, all)) =
            counts.find(|&(known, all)| (known as f64) < KNOWN_RATIO * all as f64)
        {
            let why = format!("Only {known} of {all} sections of the run have this value.");
            (one.value, one.note) = (None, super::join(&why, &one.note));
            continue;
        }
        let others = || known.iter().flatten();
        if others().all(|&other| other == value) {
            continue;
        }
        let known: Vec<&[f64]> = known.iter().map(Vec::as_slice).collect();
        if let Some(interval) = sectioning::crossed(value, &known, CONFIDENCE) {
            one.basis = Basis::Interval;
            // What is nowhere below zero, such as a share, cannot be.
            let positive = value >= 0.0 && others().all(|&other| other >= 0.0);
            let low = if positive { interval.low.max(0.0) } else { interval.low };
            (one.low, one.high) = (Some(low), Some(interval.high));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(id: &str, value: Option<f64>) -> Measured {
        Measured { id: id.into(), value, ..Measured::default() }
    }

    fn of(whole: f64, sections: &[Option<f64>]) -> Measured {
        of_ways(whole, &[sections])
    }

    fn of_ways(whole: f64, ways: &[&[Option<f64>]]) -> Measured {
        let mut all = vec![measured("s.f.a", Some(whole))];
        let section = |&value: &Option<f64>| vec![measured("s.f.a", value)];
        let ways: Vec<Vec<Vec<Measured>>> =
            ways.iter().map(|sections| sections.iter().map(section).collect()).collect();
        sectioned(&mut all, &ways);
        all.remove(0)
    }

    #[test]
    fn each_way_to_cut_runs_up_adds_its_spread() {
        let near = [1.99, 2.01, 2.0, 2.005, 1.995].map(Some);
        let far = [1.5, 2.5, 2.0, 2.25, 1.75].map(Some);
        let width = |found: Measured| found.high.expect("an end") - found.low.expect("an end");
        let (one, both) = (width(of(2.0, &near)), width(of_ways(2.0, &[&near, &far])));
        assert!(both > 20.0 * one, "{both} {one}");
        let same = [2.0; 5].map(Some);
        assert_eq!(width(of_ways(2.0, &[&near, &same])), one);
        let lacking = of_ways(2.0, &[&near, &[Some(2.0), None, None, Some(2.1), None]]);
        assert_eq!(lacking.value, None);
    }

    #[test]
    fn sections_that_differ_make_an_interval() {
        let found = of(2.0, &[1.9, 2.1, 2.0, 2.05, 1.95].map(Some));
        assert_eq!(found.basis, Basis::Interval);
        assert!(found.low.is_some_and(|low| low < 2.0) && found.high.is_some_and(|h| h > 2.0));
    }

    #[test]
    fn a_share_has_no_interval_below_zero() {
        let found = of(4e-6, &[0.0, 2e-5, 0.0, 0.0, 1e-6].map(Some));
        assert_eq!(found.low, Some(0.0));
        assert!(found.high.is_some_and(|high| high > 4e-6));
        let error = of(0.1, &[-1.0, 1.0, 0.5, -0.5, 0.2].map(Some));
        assert!(error.low.is_some_and(|low| low < 0.0), "{:?}", error.low);
    }

    #[test]
    fn what_has_no_spread_stays_a_value() {
        let found = of(14.0, &[Some(14.0); 10]);
        assert_eq!((found.basis, found.low, found.high), (Basis::Value, None, None));
        assert_eq!(of(14.0, &[]).basis, Basis::Value);
    }

    #[test]
    fn a_value_that_most_sections_lack_is_none() {
        let found = of(2.0, &[Some(2.0), None, None, Some(2.1), None]);
        assert_eq!(found.value, None);
        assert!(found.note.contains("Only 2 of 5 sections"), "{}", found.note);
        assert!(of(2.0, &[Some(2.0), None, Some(1.9), Some(2.1), Some(2.0)]).value.is_some());
    }

    #[test]
    fn what_a_source_has_an_interval_or_a_bracket_for_is_left_alone() {
        let bracket = Measured {
            low: Some(1.0),
            high: Some(3.0),
            basis: Basis::Bracket,
            ..measured("s.f.a", Some(2.0))
        };
        let mut all = vec![bracket.clone(), Measured::not_run("s.f.b")];
        sectioned(&mut all, &[vec![Vec::new(); SECTIONS_MIN]]);
        assert_eq!(all, [bracket, Measured::not_run("s.f.b")]);
    }
}
