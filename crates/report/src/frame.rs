//! The frame of a plot: ranges, ticks, and where curves are unstable. Page and SVG draw from
//! the same frame, so they cannot disagree.

use crate::model::{Axis, Panel, Rule, Scale, Series};
use crate::number;

/// Range and ticks of one axis.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub(crate) struct Extent {
    pub min: f64,
    pub max: f64,
    pub log: bool,
    pub ticks: Vec<f64>,
    pub texts: Vec<String>,
}

impl Extent {
    /// Position from 0 (min) to 1 (max); outside for values outside; below 0 without a logarithm.
    pub(crate) fn place(&self, value: f64) -> f64 {
        if self.log {
            if value <= 0.0 {
                return -1.0;
            }
            (value.ln() - self.min.ln()) / (self.max.ln() - self.min.ln())
        } else {
            (value - self.min) / (self.max - self.min)
        }
    }
}

/// Parts between the ticks of a linear axis: few enough for a phone.
const PARTS: f64 = 5.0;

/// Both axes of a panel.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub x: Extent,
    pub y: Extent,
}

/// The frame that shows every point, spread and rule of a panel, unless its axes say otherwise.
pub(crate) fn frame(panel: &Panel) -> Frame {
    let points = || panel.series.iter().flat_map(|series| &series.points);
    let spots = || panel.rules.iter().filter_map(Rule::spot);
    let xs = points().map(|point| point.x).chain(spots().map(|(x, ..)| x));
    let ys = points()
        .flat_map(|point| [point.y, point.low, point.high])
        .flatten()
        .chain(panel.rules.iter().filter_map(Rule::height))
        .chain(spots().flat_map(|(_, low, high)| [low, high]));
    Frame { x: extent(&panel.x, xs, false), y: extent(&panel.y, ys, true) }
}

fn extent(axis: &Axis, values: impl Iterator<Item = f64>, height: bool) -> Extent {
    let log = axis.scale == Scale::Log;
    let usable = |value: &f64| value.is_finite() && (!log || *value > 0.0);
    let (mut min, mut max) = values
        .filter(usable)
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), v| (lo.min(v), hi.max(v)));
    if min > max {
        (min, max) = if log { (1.0, 10.0) } else { (0.0, 1.0) };
    }
    let fixed_min = axis.min.filter(usable);
    let fixed_max = axis.max.filter(usable);
    if log {
        (min, max) = if height {
            (floor_125(min), ceil_125(max))
        } else {
            let pad = (0.03 * (max.ln() - min.ln())).exp().max(1.02);
            (min / pad, max * pad)
        };
        // An axis needs room: at least a factor of two.
        if max / min < 2.0 {
            (min, max) = (min / 1.5, max * 1.5);
        }
    } else if height {
        // Heights are compared with zero unless that would flatten the curve.
        if min > 0.0 && min < 0.6 * max {
            min = 0.0;
        } else if min == max {
            let pad = if min == 0.0 { 1.0 } else { min.abs() * 0.1 };
            (min, max) = (min - pad, max + pad);
        }
        let step = step(max - min, PARTS);
        (min, max) = ((min / step).floor() * step, (max / step).ceil() * step);
    } else {
        let pad = match max - min {
            width if width > 0.0 => width * 0.03,
            _ if min == 0.0 => 1.0,
            _ => min.abs() * 0.1,
        };
        (min, max) = (min - pad, max + pad);
    }
    // No wider than arithmetic on the ends allows.
    let smallest = if log { 1e-290 } else { -1e300 };
    let min = fixed_min.unwrap_or(min).clamp(smallest, 1e299);
    let mut max = fixed_max.unwrap_or(max).min(1e300);
    if max <= min {
        max = if log { min * 10.0 } else { min + 1.0 };
    }
    let (ticks, step) = if log {
        log_ticks(min, max, if height { 3.2 } else { 2.2 })
    } else {
        linear_ticks(min, max, PARTS)
    };
    let largest = ticks.iter().fold(0.0_f64, |most, tick| most.max(tick.abs()));
    let texts = ticks
        .iter()
        .map(|&tick| match step {
            Some(step) => number::tick(tick, step, largest),
            None => number::tick(tick, tick, largest),
        })
        .collect();
    Extent { min, max, log, ticks, texts }
}

/// A step of 1, 2 or 5 times a power of ten that makes about that many parts of `width`.
fn step(width: f64, parts: f64) -> f64 {
    let raw = width / parts;
    let power = 10f64.powf(raw.log10().floor());
    match raw / power {
        r if r < 1.5 => power,
        r if r < 3.5 => 2.0 * power,
        r if r < 7.5 => 5.0 * power,
        _ => 10.0 * power,
    }
}

fn linear_ticks(min: f64, max: f64, parts: f64) -> (Vec<f64>, Option<f64>) {
    let step = step(max - min, parts);
    let first = (min / step - 1e-9).ceil() as i64;
    let last = (max / step + 1e-9).floor() as i64;
    // Through integers and a final rounding, so that 3 * 0.1 prints as 0.3 everywhere.
    let ticks = (first..=last.min(first + 20)).map(|k| tidy(k as f64 * step)).collect();
    (ticks, Some(step))
}

fn tidy(value: f64) -> f64 {
    format!("{value:.9e}").parse().expect("printed by us")
}

/// Powers of ten; with 2 and 5 between up to `short` decades; plain steps when there are none.
fn log_ticks(min: f64, max: f64, short: f64) -> (Vec<f64>, Option<f64>) {
    let first = min.log10().floor() as i32;
    let last = max.log10().ceil() as i32;
    let inside = |tick: &f64| *tick >= min * (1.0 - 1e-9) && *tick <= max * (1.0 + 1e-9);
    let decades = max.log10() - min.log10();
    let every = ((decades / 7.0).ceil() as i32).max(1);
    let at = |mantissas: &[f64]| -> Vec<f64> {
        (first..=last)
            .filter(|exponent| exponent.rem_euclid(every) == 0)
            .flat_map(|exponent| mantissas.iter().map(move |m| tidy(m * 10f64.powi(exponent))))
            .filter(inside)
            .collect()
    };
    let fine = [1.0, 2.0, 5.0];
    let wide = if decades <= short { Vec::new() } else { at(&[1.0]) };
    // A little more than two decades may hold only two powers of ten.
    let ticks = if wide.len() >= 3 { wide } else { at(&fine) };
    if ticks.len() >= 3 {
        return (ticks, None);
    }
    linear_ticks(min, max, 3.0)
}

fn floor_125(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    match value / power + 1e-9 {
        m if m >= 5.0 => 5.0 * power,
        m if m >= 2.0 => 2.0 * power,
        _ => power,
    }
}

fn ceil_125(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    match value / power - 1e-9 {
        m if m <= 1.0 => power,
        m if m <= 2.0 => 2.0 * power,
        m if m <= 5.0 => 5.0 * power,
        _ => 10.0 * power,
    }
}

/// Stretches of a curve on which the system cannot keep up: from the first unstable x to the next
/// stable one, or without end.
pub(crate) fn unstable(series: &Series) -> Vec<(f64, Option<f64>)> {
    let mut stretches: Vec<(f64, Option<f64>)> = Vec::new();
    let mut open = false;
    for point in series.points.iter().filter(|point| point.x.is_finite()) {
        match (point.stable, open) {
            (false, false) => stretches.push((point.x, None)),
            (true, true) => {
                if let Some(stretch) = stretches.last_mut() {
                    stretch.1 = Some(point.x);
                }
            }
            _ => {}
        }
        open = !point.stable;
    }
    stretches
}

/// Label, unit and scale of an axis in one line.
pub(crate) fn caption(axis: &Axis) -> String {
    let mut text = axis.label.clone();
    if !axis.unit.is_empty() {
        text.push_str(&format!(" ({})", axis.unit));
    }
    if axis.scale == Scale::Log {
        text.push_str(", log scale");
    }
    text
}

/// What stands above the vertical axis. The scale is last: a page changes it there.
pub(crate) fn head(panel: &Panel) -> String {
    let text = caption(&panel.y);
    if panel.rules.iter().all(|rule| rule.spot().is_none()) {
        return text;
    }
    const SCALE: &str = ", log scale";
    let (text, scale) = match text.strip_suffix(SCALE) {
        Some(text) => (text, SCALE),
        None => (text.as_str(), ""),
    };
    format!("{text}, \u{25c7} value of the source{scale}")
}

/// What the legend calls a curve: whoever looks for one that has nothing to show should not look
/// long.
pub(crate) fn name(series: &Series) -> String {
    let shown = series.points.iter().any(|point| point.y.is_some() || !point.stable);
    match shown {
        true => series.label.clone(),
        false => format!("{} (no points)", series.label),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Point;

    fn axis(scale: Scale) -> Axis {
        Axis { label: "load".into(), unit: String::new(), scale, min: None, max: None }
    }

    fn ticks(scale: Scale, low: f64, high: f64) -> Vec<String> {
        extent(&axis(scale), [low, high].into_iter(), true).texts
    }

    #[test]
    fn extent__log_ticks_suit_the_range() {
        assert_eq!(ticks(Scale::Log, 1.0, 90.0), ["1", "2", "5", "10", "20", "50", "100"]);
        assert_eq!(ticks(Scale::Log, 1.3, 9_000.0), ["1", "10", "100", "1k", "10k"]);
        assert_eq!(ticks(Scale::Log, 15.0, 19.0), ["10", "12", "14", "16", "18", "20"]);
        assert_eq!(log_ticks(16.0, 4096.0, 2.2).0.len(), 7, "20, 50, 100 and so on to 2000");
        assert!(ticks(Scale::Log, 1e-9, 1e12).len() <= 9);
    }

    #[test]
    fn extent__linear_ticks_are_round() {
        assert_eq!(ticks(Scale::Linear, 0.05, 0.95), ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(ticks(Scale::Linear, -3.0, 3.0), ["-3", "-2", "-1", "0", "1", "2", "3"]);
    }

    #[test]
    fn extent__is_total() {
        for scale in [Scale::Linear, Scale::Log] {
            for values in [
                vec![],
                vec![0.0],
                vec![-5.0],
                vec![7.0],
                vec![f64::NAN, f64::INFINITY],
                vec![0.0, 1e300],
                vec![1e-300, 1e300],
            ] {
                for height in [true, false] {
                    let extent = extent(&axis(scale), values.iter().copied(), height);
                    assert!(extent.min < extent.max, "{values:?} {extent:?}");
                    assert!((1..=30).contains(&extent.ticks.len()), "{values:?} {extent:?}");
                }
            }
        }
    }

    #[test]
    fn extent__keeps_the_limits_it_was_given() {
        let axis = Axis { min: Some(0.0), max: Some(40.0), ..axis(Scale::Linear) };
        let extent = extent(&axis, [3.0, 900.0].into_iter(), true);
        assert_eq!((extent.min, extent.max), (0.0, 40.0));
    }

    #[test]
    fn unstable__ends_at_the_next_stable_point() {
        let point =
            |x: f64, stable| Point { x, y: None, low: None, high: None, samples: 1, stable };
        let series = Series {
            label: "a".into(),
            points: vec![
                point(1.0, true),
                point(2.0, false),
                point(3.0, false),
                point(4.0, true),
                point(5.0, false),
            ],
        };
        assert_eq!(unstable(&series), [(2.0, Some(4.0)), (5.0, None)]);
    }
}
