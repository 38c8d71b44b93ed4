//! Percentiles that rest on few bursts, in the words of a report.
//!
//! Requests that are slow because of the same queue are one burst. Near saturation a run has few of
//! them, and replications differ less from each other than all of them from the truth.

use cavy_report::number::{count, upwards};
use cavy_study::outcome::BURSTS_MIN;

/// Nobody makes a run longer than by so much for an interval.
const TIMES_MAX: f64 = 100.0;

/// How long the runs were that rest on too few.
pub(crate) struct Run {
    /// What they do, such as `requests`.
    pub work: &'static str,
    /// The key of a plan that says how much of it.
    pub key: &'static str,
    /// What it says now.
    pub length: u64,
}

/// Says that at `points.0` of `points.1` points an interval is too narrow, that of the percentile
/// `worst` rests on the fewest, `least`, and what would help.
pub(crate) fn remark(points: (usize, usize), least: f64, worst: &str, run: &Run) -> String {
    let (points, all) = points;
    let rests = match least {
        least if least < 0.5 => "on less than one burst".to_string(),
        least if least < 1.5 => "on about one burst".to_string(),
        least => format!("on about {least:.0} bursts"),
    };
    let times = BURSTS_MIN / least;
    let Run { work, key, length } = run;
    let cure = if times > TIMES_MAX {
        format!(
            "For {worst} no run of a useful length has enough; take it as a rough value, or look \
             at a lower load."
        )
    } else {
        format!("With {key} = {} all have enough.", count(upwards(*length as f64 * times)))
    };
    format!(
        "At {points} of {all} points some percentile rests on few bursts of {work}: {worst} rests \
         {rests}, and its 95 % interval needs {BURSTS_MIN:.0}. (Those that are slow because of the \
         same queue are one burst.) Such an interval contains the true value in only 80 to 90 % of \
         cases, and its upper end is too low. {cure}"
    )
}
