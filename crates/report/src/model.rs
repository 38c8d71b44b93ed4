//! What can be drawn: documents of claims, figures and tables. No protocol, no world.

use serde::{Deserialize, Serialize};

/// A whole report.
#[derive(Clone, Debug, Serialize)]
pub struct Document {
    /// Headline, such as `Perséphone: when idling is ideal`.
    pub title: String,
    /// One or two sentences under the headline.
    pub summary: String,
    /// The command that makes this document again.
    pub command: String,
    /// Version of the program.
    pub version: String,
    /// Root seed of all random streams.
    pub seed: u64,
    /// Fingerprint of all runs, in hex.
    pub digest: String,
    /// Wall time it took, seconds.
    pub elapsed_s: f64,
    /// What a reader must know to judge the numbers: name and value.
    pub facts: Vec<(String, String)>,
    /// Claims of the source, judged; empty for a user's own plan.
    pub claims: Vec<Claim>,
    /// Figures in reading order.
    pub figures: Vec<Figure>,
    /// The plan that was run, so that somebody else can run it again; `None` for plans that the
    /// program has itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanText>,
}

/// A plan as it was run.
#[derive(Clone, Debug, Serialize)]
pub struct PlanText {
    /// Its file, or `-`.
    pub name: String,
    /// What was written in it.
    pub text: String,
    /// What replaced its values, as `key=value`, in order.
    pub overrides: Vec<String>,
    /// Files with measured data that it names, which are not in the report.
    pub files: Vec<String>,
}

/// How a claim fared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Our value lies within the tolerance.
    Reproduced,
    /// It does not, or the source is doubtful, and the evidence says why.
    Explained,
    /// It does not, and we do not know why.
    NotReproduced,
    /// Too few samples to judge; a longer run would.
    TooShort,
    /// The machine that measured it was too busy with other things; a quiet one would do.
    TooNoisy,
    /// Nothing that the claim is about was run: plans of this scale leave it out.
    NotAtThisScale,
}

/// One claim of a source beside what we measured.
#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    /// Stable name, such as `persephone.fig3.capacity`.
    pub id: String,
    /// `persephone`.
    pub system: String,
    /// `fig3`.
    pub figure: String,
    /// Where the claim stands: paper section, artifact review, spec clause.
    pub source: String,
    /// What is claimed, one sentence.
    pub statement: String,
    /// The published value as printed, with its unit.
    pub published: String,
    /// What the artifact reviewers read, if anybody did.
    pub reviewers: Option<String>,
    /// Unit of `value`, `low`, `high` and the tolerance: `x`, `us`, `krps`, or empty.
    pub unit: String,
    /// Our value; `None` when it could not be measured.
    pub value: Option<f64>,
    /// Smallest value over seeds, or lower end of the interval.
    pub low: Option<f64>,
    /// Largest value over seeds, or upper end of the interval.
    pub high: Option<f64>,
    /// Accepted range of `value`.
    pub tolerance: Option<(f64, f64)>,
    /// Why the tolerance is what it is.
    pub tolerance_reason: String,
    /// Samples behind the value.
    pub samples: u64,
    /// The judgement.
    pub verdict: Verdict,
    /// Why, when the verdict is not plain; evidence for `explained`.
    pub evidence: String,
    /// The command that measures this claim again.
    pub repeat: String,
}

/// One figure: what it shows, and its panels and tables.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Stable name, such as `persephone.fig3`; used as anchor and file name.
    pub id: String,
    /// Headline.
    pub title: String,
    /// What it shows, two sentences at most.
    pub shows: String,
    /// What the source claims; empty for a user's own plan.
    pub claimed: String,
    /// What we found.
    pub found: String,
    /// The command that makes this figure again.
    pub command: String,
    /// Plots, in order.
    pub panels: Vec<Panel>,
    /// Maps, in order.
    pub maps: Vec<Map>,
    /// Tables, in order.
    pub tables: Vec<Table>,
}

/// Marks and ways on the Earth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Map {
    /// Stable name within the figure; used in file names.
    pub id: String,
    /// Headline.
    pub title: String,
    /// What it shows, one sentence.
    pub caption: String,
    /// What is drawn, each layer in a color of its own; the last one lies on top.
    pub layers: Vec<Layer>,
}

/// Marks and ways of one sort.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Layer {
    /// Name in the legend, such as `nodes`.
    pub label: String,
    /// What a mark looks like.
    pub form: Form,
    /// Places.
    pub marks: Vec<Mark>,
    /// Lines between places, along great circles.
    pub ways: Vec<Way>,
}

impl Layer {
    /// Is there nothing to draw?
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty() && self.ways.is_empty()
    }
}

/// What a mark looks like: forms differ without color, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// A small disc.
    Dot,
    /// A larger square.
    Square,
    /// A large ring.
    Ring,
}

/// A place that is marked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    /// Its name.
    pub name: String,
    /// Latitude and longitude, degrees.
    pub at: (f64, f64),
    /// What is to be said of it; may be empty.
    pub says: String,
}

/// A line between two places.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Way {
    /// Latitude and longitude, degrees.
    pub from: (f64, f64),
    /// Latitude and longitude, degrees.
    pub to: (f64, f64),
    /// What is to be said of it.
    pub says: String,
}

/// One plot.
#[derive(Clone, Debug, Serialize)]
pub struct Panel {
    /// Stable name within the figure; used in file names.
    pub id: String,
    /// Headline.
    pub title: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Curves.
    pub series: Vec<Series>,
    /// Lines with names, such as an objective.
    pub rules: Vec<Rule>,
}

/// One axis.
#[derive(Clone, Debug, Serialize)]
pub struct Axis {
    /// What it measures, such as `99.9th percentile slowdown`.
    pub label: String,
    /// Unit, empty when there is none.
    pub unit: String,
    /// Linear or logarithmic.
    pub scale: Scale,
    /// Smallest value shown; `None` for "as the data needs".
    pub min: Option<f64>,
    /// Largest value shown; curves are clipped there.
    pub max: Option<f64>,
}

/// Scale of an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Equal steps are equal distances.
    Linear,
    /// Equal factors are equal distances.
    Log,
}

/// One curve.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// Name in the legend, such as `DARC`.
    pub label: String,
    /// Points by ascending x.
    pub points: Vec<Point>,
}

/// One point of a curve.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Point {
    /// Horizontal position.
    pub x: f64,
    /// Median or pooled value; `None` when there is none to print (unstable, too short a run, or
    /// too few samples).
    pub y: Option<f64>,
    /// Lower end of the spread.
    pub low: Option<f64>,
    /// Upper end of the spread.
    pub high: Option<f64>,
    /// Samples behind the point.
    pub samples: u64,
    /// False where the system cannot keep up; nothing is drawn there but the fact itself.
    pub stable: bool,
}

/// A line with a name: across, such as `objective: 20x`, or upright, such as the beginning of a
/// phase or the load that a policy bears. Or a mark where the source gives a value.
#[derive(Clone, Debug, Serialize)]
pub struct Rule {
    /// Its name.
    pub label: String,
    /// Where it is.
    #[serde(flatten)]
    pub at: Line,
    /// The series that it belongs to, by its label; `None` if it belongs to the whole plot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub series: Option<String>,
}

/// Where a line is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// Across, at this height.
    Y(f64),
    /// Upright, at this x.
    X(f64),
    /// No line but a mark: what the source gives at this x, from `low` to `high`, which are equal
    /// where it gives one number.
    Spot {
        /// Horizontal position.
        x: f64,
        /// The least of what it gives.
        low: f64,
        /// The most.
        high: f64,
    },
}

impl Rule {
    /// A line across at height `y`.
    pub fn across(label: impl Into<String>, y: f64) -> Self {
        Rule { label: label.into(), at: Line::Y(y), series: None }
    }

    /// An upright line at `x`.
    pub fn upright(label: impl Into<String>, x: f64) -> Self {
        Rule { label: label.into(), at: Line::X(x), series: None }
    }

    /// An upright line at `x` that belongs to one series.
    pub fn of_series(series: impl Into<String>, label: impl Into<String>, x: f64) -> Self {
        Rule { series: Some(series.into()), ..Rule::upright(label, x) }
    }

    /// What the source gives at `x` for one series.
    pub fn published(series: impl Into<String>, x: f64, (low, high): (f64, f64)) -> Self {
        let at = Line::Spot { x, low, high };
        Rule { label: "published".to_string(), at, series: Some(series.into()) }
    }

    /// Place and ends, if it is a mark.
    pub(crate) fn spot(&self) -> Option<(f64, f64, f64)> {
        match self.at {
            Line::Spot { x, low, high } if (x + low + high).is_finite() => Some((x, low, high)),
            _ => None,
        }
    }

    /// Its height, if it lies across the plot.
    pub(crate) fn height(&self) -> Option<f64> {
        match self.at {
            Line::Y(y) if y.is_finite() => Some(y),
            _ => None,
        }
    }

    /// Its x, if it stands upright.
    pub(crate) fn place(&self) -> Option<f64> {
        match self.at {
            Line::X(x) if x.is_finite() => Some(x),
            _ => None,
        }
    }
}

/// A table.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// Stable name within the figure; used in file names.
    pub id: String,
    /// Headline.
    pub title: String,
    /// Column heads with units, such as `p99.9 (us)`.
    pub columns: Vec<String>,
    /// Rows of as many cells.
    pub rows: Vec<Vec<Cell>>,
}

/// One cell of a table.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A number; printed with three significant digits.
    Number(f64),
    /// A number that was set; printed with six significant digits.
    Setting(f64),
    /// A number with the ends of its interval.
    Interval {
        /// Point estimate.
        value: f64,
        /// Lower end.
        low: f64,
        /// Upper end.
        high: f64,
    },
    /// No number, and why: `unstable`, `n/a (40 samples)`.
    Missing(String),
}
