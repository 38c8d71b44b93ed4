//! Claims: what a source says, as data, and the judgement of what we measured.
//!
//! Expected values and tolerances live in files of the sources, apart from the code that measures;
//! nothing reads them while measuring. The measured values and the claims meet here, once, in
//! [`judge`].

use cavy_report::model::{Claim, Rule, Verdict};
use cavy_report::number::significant;
use serde::Deserialize;

mod section;
mod table;

pub use section::{SECTIONS_MIN, sectioned};
pub use table::read;

/// The numbers of `47` or `47 to 64`.
fn printed(published: &str, unit: &str) -> Option<(f64, f64)> {
    // Who gave a value stands behind it in brackets.
    let bare = published.split_once(" (").map_or(published, |(value, _)| value);
    let bare = bare.strip_suffix(unit).unwrap_or(bare);
    let number = |text: &str| text.trim().parse::<f64>().ok();
    match bare.split_once(" to ") {
        Some((low, high)) => Some((number(low)?, number(high)?)),
        None => number(bare).map(|one| (one, one)),
    }
}

/// One claim of a source.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// Stable name, such as `persephone.fig3.capacity`.
    pub id: String,
    /// Where the claim stands.
    pub source: String,
    /// What is claimed, one sentence.
    pub statement: String,
    /// The published value as printed.
    pub published: String,
    /// What the artifact reviewers read.
    pub reviewers: Option<String>,
    /// Unit of the value.
    pub unit: String,
    /// Accepted range, both ends included.
    pub tolerance: (f64, f64),
    /// Why it is what it is.
    pub reason: String,
    /// Why a miss is no surprise, for claims the specification doubts.
    pub doubt: Option<String>,
    /// The claim that must hold for the doubt to count as an explanation.
    pub explained_by: Option<String>,
    /// Where published values stand in plots of its figure.
    #[serde(default, deserialize_with = "one_or_more")]
    pub plot: Vec<Plot>,
}

/// One place or a list of them.
fn one_or_more<'de, D: serde::Deserializer<'de>>(input: D) -> Result<Vec<Plot>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Places {
        One(Plot),
        More(Vec<Plot>),
    }
    Ok(match Places::deserialize(input)? {
        Places::One(plot) => vec![plot],
        Places::More(plots) => plots,
    })
}

/// Where a published value stands in a plot.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// Name of the plot within its figure.
    pub panel: String,
    /// The curve that it belongs to.
    pub series: String,
    /// Its place on the horizontal axis.
    pub x: f64,
    /// Least and most, in the unit of the plot; what is printed in `published` when absent.
    pub y: Option<(f64, f64)>,
}

impl Statement {
    /// Where its published values stand in plots of its figure, and their marks.
    pub fn spots(&self) -> impl Iterator<Item = (&str, Rule)> {
        self.plot.iter().filter_map(|plot| {
            let y = plot.y.or_else(|| printed(&self.published, &self.unit))?;
            Some((plot.panel.as_str(), Rule::published(&plot.series, plot.x, y)))
        })
    }

    /// The figure it belongs to: the middle part of its name.
    pub fn figure(&self) -> &str {
        self.id.split('.').nth(1).unwrap_or("")
    }

    /// The system it belongs to: the first part of its name.
    pub fn system(&self) -> &str {
        self.id.split('.').next().unwrap_or("")
    }
}

/// How a value was come by, which decides how it is judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Basis {
    /// Nothing that the claim is about was run: plans of this scale leave it out.
    NotRun,
    /// A value. If sections of the runs differ in it, it becomes an [`Basis::Interval`]; if they do
    /// not, it has no spread, as what arithmetic says, and is judged itself. So it is where there
    /// are fewer sections than [`SECTIONS_MIN`].
    #[default]
    Value,
    /// A random quantity, which lies between `low` and `high` with [`CONFIDENCE`]. The interval is
    /// judged.
    Interval,
    /// The last place of a grid that will do, `low`, before the first that will not, `high`; the
    /// source has its value from a grid as well. The value is judged where the grid is as fine as
    /// the tolerance.
    Grid,
    /// A place between `low`, where something was found to hold, and `high`, where it was found not
    /// to. The whole of that is judged.
    Bracket,
    /// The same, where places between these two were tried in runs that are too short to tell.
    Unclear,
}

/// Confidence of the intervals that claims are judged by. At 99 %, one value in two hundred that
/// lies right at an edge of its tolerance is called reproduced when it is not, or the other way
/// round; one well inside or outside never is.
pub const CONFIDENCE: f64 = 0.99;

/// A measured value, by the name of the claim it answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// The claim's name.
    pub id: String,
    /// The value; `None` when there are too few samples to give one, or nothing was run.
    pub value: Option<f64>,
    /// Lower end of what `basis` says.
    pub low: Option<f64>,
    /// Upper end of it.
    pub high: Option<f64>,
    /// How the value was come by.
    pub basis: Basis,
    /// Samples behind it.
    pub samples: u64,
    /// What else there is to know.
    pub note: String,
}

impl Measured {
    /// Nothing that the claim is about was run.
    pub fn not_run(id: impl Into<String>) -> Measured {
        Measured { id: id.into(), basis: Basis::NotRun, ..Measured::default() }
    }

    /// It was run, and there is no value all the same; why.
    pub fn missing(id: impl Into<String>, why: impl Into<String>) -> Measured {
        Measured { id: id.into(), note: why.into(), ..Measured::default() }
    }
}

/// Adds claims among `statements` that nothing was measured for, so that none vanishes.
pub fn complete(statements: &[Statement], measured: &mut Vec<Measured>) {
    for statement in statements {
        if !measured.iter().any(|one| one.id == statement.id) {
            measured.push(Measured::not_run(&statement.id));
        }
    }
}

/// Judges each claim by the value measured for it. `repeat` is the command that measures a claim
/// again, given whether this scale does.
pub fn judge(
    statements: &[Statement],
    measured: &[Measured],
    repeat: &dyn Fn(&Statement, bool) -> String,
) -> Vec<Claim> {
    let measured_for = |id: &str| measured.iter().find(|m| m.id == id);
    let place_of = |id: &str| {
        let statement = statements.iter().find(|s| s.id == id)?;
        Some(place(measured_for(id)?, statement.tolerance).0)
    };
    statements
        .iter()
        .filter_map(|statement| {
            let found = measured_for(&statement.id)?;
            let (place, why) = place(found, statement.tolerance);
            let evidence = join(&why, &found.note);
            // A doubt alone is an opinion: without evidence a miss stays a miss.
            let by = statement.explained_by.as_deref();
            let explains = by.and_then(place_of);
            let explained = explains == Some(Place::Inside);
            let (verdict, evidence) = match (place, &statement.doubt) {
                (Place::NotRun | Place::Unresolved, _) => (Verdict::NotAtThisScale, evidence),
                (Place::Open, _) => (Verdict::TooShort, evidence),
                (Place::Inside, _) => (Verdict::Reproduced, evidence),
                (Place::Outside, Some(doubt)) if explained => {
                    (Verdict::Explained, join(doubt, &found.note))
                }
                (Place::Outside, Some(_)) if explains == Some(Place::Open) => {
                    let by = by.unwrap_or_default();
                    let open = format!(
                        "The claim is missed. {by} would explain that, but cannot be decided \
                         itself."
                    );
                    (Verdict::TooShort, join(&open, &found.note))
                }
                (Place::Outside, _) => (Verdict::NotReproduced, evidence),
            };
            Some(Claim {
                id: statement.id.clone(),
                system: statement.system().to_string(),
                figure: statement.figure().to_string(),
                source: statement.source.clone(),
                statement: statement.statement.clone(),
                published: statement.published.clone(),
                reviewers: statement.reviewers.clone(),
                unit: statement.unit.clone(),
                value: found.value,
                low: found.low,
                high: found.high,
                tolerance: Some(statement.tolerance),
                tolerance_reason: statement.reason.clone(),
                samples: found.samples,
                verdict,
                evidence,
                repeat: repeat(statement, verdict != Verdict::NotAtThisScale),
            })
        })
        .collect()
}

/// Where a measured value lies by its tolerance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    NotRun,
    /// On a grid that is coarser than the tolerance.
    Unresolved,
    /// There is no value, or its interval holds an edge.
    Open,
    Inside,
    Outside,
}

/// Where `found` lies, and why that cannot be told.
fn place(found: &Measured, tolerance: (f64, f64)) -> (Place, String) {
    let Some(value) = found.value else {
        return match found.basis {
            Basis::NotRun => {
                (Place::NotRun, "This run has no point that the claim is about.".to_string())
            }
            _ => (Place::Open, String::new()),
        };
    };
    let of_value = match within(value, tolerance) {
        true => (Place::Inside, String::new()),
        false => (Place::Outside, String::new()),
    };
    let (low, high) = (found.low.unwrap_or(value), found.high.unwrap_or(value));
    let whole = match (within(low, tolerance), within(high, tolerance)) {
        (true, true) => Some(Place::Inside),
        (false, false) if high < tolerance.0 || low > tolerance.1 => Some(Place::Outside),
        _ => None,
    };
    match found.basis {
        Basis::NotRun | Basis::Value => of_value,
        Basis::Interval => match whole {
            Some(place) => (place, String::new()),
            None => (Place::Open, undecided(value, (low, high), tolerance)),
        },
        Basis::Grid | Basis::Bracket | Basis::Unclear => match whole {
            Some(place) => (place, String::new()),
            None if found.basis == Basis::Grid && high - low <= tolerance.1 - tolerance.0 => {
                of_value
            }
            None => {
                let (place, between) = match found.basis {
                    Basis::Unclear => (
                        Place::Open,
                        "Places between them were tried, in runs that are too short to tell.",
                    ),
                    _ => (
                        Place::Unresolved,
                        "Nothing between them was tried, so the grid is coarser than the accepted \
                         range.",
                    ),
                };
                let (low, high) = (significant(low), significant(high));
                let why = format!("The condition holds at {low} and does not hold at {high}.");
                (place, format!("{why} {between}"))
            }
        },
    }
}

/// What an interval that holds an edge of the tolerance lacks: widths shrink with the root of the
/// length.
fn undecided(value: f64, (low, high): (f64, f64), tolerance: (f64, f64)) -> String {
    /// Beyond so many times the length nobody runs it.
    const TIMES_MAX: f64 = 1_000.0;
    // Intervals of values above zero are even in factors.
    let by_factors = low > 0.0 && value > 0.0;
    let apart = |from: f64, to: f64| if by_factors { (to / from).ln() } else { to - from };
    let reach = |edge: f64| {
        let (end, inside) = if edge < value { (low, edge > low) } else { (high, edge < high) };
        if !edge.is_finite() || !inside {
            return 1.0;
        }
        (apart(value, end) / apart(value, edge)).powi(2)
    };
    let times = reach(tolerance.0).max(reach(tolerance.1));
    let held = format!("Its 99 % interval, {} to {}", significant(low), significant(high));
    match times {
        times if times <= TIMES_MAX => {
            let times = significant((times * 1.2).max(1.5).ceil());
            format!(
                "{held}, contains an end of the accepted range; a run about {times} times as long \
                 would decide."
            )
        }
        _ => format!(
            "{held}, contains an end of the accepted range, and our value is so close to that end \
             that even a run 1 000 times as long would not decide."
        ),
    }
}

fn within(value: f64, (low, high): (f64, f64)) -> bool {
    // A value computed as 0.1 + 0.2 must not miss a bound of 0.3.
    let size = |bound: f64| if bound.is_finite() { bound.abs() } else { 0.0 };
    let slack = 1e-9 * (size(low) + size(high));
    low - slack <= value && value <= high + slack
}

fn join(a: &str, b: &str) -> String {
    if a.is_empty() || b.is_empty() { format!("{a}{b}") } else { format!("{a} {b}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAIMS: &str = r#"
        [[claim]]
        id = "s.f.a"
        source = "x"
        statement = "x"
        published = "1"
        unit = "x"
        tolerance = [0.9, 1.1]
        reason = "x"
        doubt = "The source is doubtful."
        explained_by = "s.f.b"
        [[claim]]
        id = "s.f.b"
        source = "x"
        statement = "x"
        published = "2"
        unit = "x"
        tolerance = [1.9, 2.1]
        reason = "x"
    "#;

    #[test]
    fn a_bound_that_is_open_leaves_the_other_in_force() {
        assert!(within(0.9, (0.9, f64::INFINITY)) && within(1e9, (0.9, f64::INFINITY)));
        assert!(!within(0.57, (0.9, f64::INFINITY)));
        assert!(within(0.1 + 0.2, (0.0, 0.3)));
    }

    fn verdicts(a: Option<f64>, b: Option<f64>) -> Vec<Verdict> {
        let measured = |id: &str, value| Measured { id: id.into(), value, ..Measured::default() };
        let repeat = |_: &Statement, _| String::new();
        let claims = judge(&read(CLAIMS), &[measured("s.f.a", a), measured("s.f.b", b)], &repeat);
        claims.iter().map(|claim| claim.verdict).collect()
    }

    #[test]
    fn a_doubt_explains_a_miss_only_when_its_evidence_holds() {
        use Verdict::*;
        assert_eq!(verdicts(Some(1.1), Some(2.0)), [Reproduced, Reproduced]);
        assert_eq!(verdicts(Some(1.5), Some(2.0)), [Explained, Reproduced]);
        assert_eq!(verdicts(Some(1.5), Some(3.0)), [NotReproduced, NotReproduced]);
        assert_eq!(verdicts(None, None), [TooShort, TooShort]);
    }
    /// The verdict on a value of `s.f.b`, which is accepted from 1.9 to 2.1, and why.
    fn of(basis: Basis, value: f64, low: f64, high: f64) -> (Verdict, String) {
        let found = Measured {
            id: "s.f.b".into(),
            value: Some(value),
            low: Some(low),
            high: Some(high),
            basis,
            ..Measured::default()
        };
        let claims = judge(&read(CLAIMS), &[found], &|_, _| String::new());
        (claims[0].verdict, claims[0].evidence.clone())
    }

    #[test]
    fn an_interval_is_judged_and_not_the_value_in_it() {
        let verdict = |value, low, high| of(Basis::Interval, value, low, high).0;
        assert_eq!(verdict(2.0, 1.91, 2.09), Verdict::Reproduced);
        assert_eq!(verdict(2.0, 1.89, 2.09), Verdict::TooShort);
        assert_eq!(verdict(2.2, 2.05, 2.35), Verdict::TooShort);
        assert_eq!(verdict(2.3, 2.11, 2.5), Verdict::NotReproduced);
        assert_eq!(verdict(1.0, 0.5, 3.0), Verdict::TooShort);
        // An interval by factors: a factor of 1.1025 must become one of 1.05, half of it, which
        // takes four times the length, and a fifth more.
        let (verdict, why) = of(Basis::Interval, 2.0, 2.0 / 1.1025, 2.0 * 1.1025);
        assert_eq!(verdict, Verdict::TooShort);
        assert!(why.contains("about 5 times as long would decide"), "{why}");
        // The other edge, 1.9, is the nearer one here, and decides how much is needed.
        let (_, why) = of(Basis::Interval, 1.95, 1.45, 1.95 * 1.95 / 1.45);
        assert!(why.contains("about 157 times as long"), "{why}");
        let (_, why) = of(Basis::Interval, 2.1, 1.45, 2.65);
        assert!(why.contains("even a run 1 000 times as long"), "{why}");
    }

    #[test]
    fn a_place_on_a_grid_is_judged_where_the_grid_is_fine_enough() {
        let grid = |low, high| of(Basis::Grid, low, low, high).0;
        assert_eq!(grid(2.0, 2.15), Verdict::Reproduced);
        assert_eq!(grid(2.0, 2.5), Verdict::NotAtThisScale);
        assert_eq!(grid(2.5, 5.0), Verdict::NotReproduced, "all of it is outside");
        assert_eq!(grid(1.0, 1.8), Verdict::NotReproduced);
        let bracket = |low, high| of(Basis::Bracket, low, low, high).0;
        assert_eq!(bracket(2.0, 2.05), Verdict::Reproduced);
        assert_eq!(bracket(2.0, 2.15), Verdict::NotAtThisScale);
        assert_eq!(bracket(2.2, 2.5), Verdict::NotReproduced);
        let unclear = |low, high| of(Basis::Unclear, low, low, high);
        assert_eq!(unclear(2.0, 2.05).0, Verdict::Reproduced);
        assert_eq!(unclear(2.2, 2.5).0, Verdict::NotReproduced);
        let (verdict, why) = unclear(2.0, 2.15);
        assert_eq!(verdict, Verdict::TooShort);
        assert!(why.ends_with("were tried, in runs that are too short to tell."), "{why}");
    }

    #[test]
    fn no_claim_vanishes() {
        let statements = read(CLAIMS);
        let value = Some(2.0);
        let mut all = vec![Measured { id: "s.f.b".into(), value, ..Measured::default() }];
        complete(&statements, &mut all);
        let scales = std::cell::RefCell::new(Vec::new());
        let repeat = |_: &Statement, at_this_scale| {
            scales.borrow_mut().push(at_this_scale);
            String::new()
        };
        let claims = judge(&statements, &all, &repeat);
        let verdicts: Vec<Verdict> = claims.iter().map(|claim| claim.verdict).collect();
        assert_eq!(verdicts, [Verdict::NotAtThisScale, Verdict::Reproduced]);
        assert_eq!(scales.into_inner(), [false, true]);
    }
}
