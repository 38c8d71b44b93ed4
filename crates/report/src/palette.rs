//! Colors, dashes and shapes: a curve differs from its neighbors in all three, so that it can be
//! told apart in gray, by color-blind readers and on both backgrounds.
//!
//! The hues follow Okabe and Ito's set; lightness is adapted to each background for a contrast
//! of at least 3:1.
//!
//! [`Styles`] gives a label the same color, dash and shape in all plots of a document.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Document, Panel};

/// Colors of curves in a theme.
const COLORS: usize = 7;

/// Light or dark background.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Theme {
    /// Dark ink on white.
    Light,
    /// Light ink on near-black.
    Dark,
}

/// The colors of one theme, as `#rrggbb`.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(crate) struct Palette {
    pub paper: &'static str,
    pub ink: &'static str,
    /// Axis text.
    pub muted: &'static str,
    pub grid: &'static str,
    /// Objectives and other rules.
    pub rule: &'static str,
    pub curves: [&'static str; COLORS],
}

impl Theme {
    pub(crate) const fn palette(self) -> Palette {
        match self {
            Self::Light => Palette {
                paper: "#ffffff",
                ink: "#1c1c1a",
                muted: "#5d5d57",
                grid: "#e6e5df",
                rule: "#55554f",
                curves: [
                    "#0067a5", "#c8500a", "#00805d", "#a2457c", "#a87400", "#7463d3", "#4a4a48",
                ],
            },
            Self::Dark => Palette {
                paper: "#161718",
                ink: "#e7e5df",
                muted: "#a3a29b",
                grid: "#2e3032",
                rule: "#b8b6ae",
                curves: [
                    "#5ab0ee", "#f5884a", "#33c39b", "#e08fc0", "#e6bd4a", "#9a9cf5", "#c9c8c3",
                ],
            },
        }
    }
}

/// Dash patterns in pixels, drawn and left out in turn; empty is solid.
pub(crate) const DASHES: [&[u32]; 5] = [&[], &[7, 3], &[2, 3], &[9, 3, 2, 3], &[14, 4]];

/// Marks on the points of a curve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    Circle,
    Square,
    Triangle,
    Diamond,
    Wedge,
}

impl Shape {
    const ALL: [Self; 5] = [Self::Circle, Self::Square, Self::Triangle, Self::Diamond, Self::Wedge];

    /// Names for the page's script, in the order of the curves.
    pub(crate) const NAMES: [&'static str; 5] =
        ["circle", "square", "triangle", "diamond", "wedge"];

    /// Corners around the origin for a mark of half-width `r`; none for the circle.
    pub(crate) fn corners(self, r: f64) -> Vec<(f64, f64)> {
        match self {
            Self::Circle => Vec::new(),
            Self::Square => vec![(-r, -r), (r, -r), (r, r), (-r, r)],
            Self::Triangle => vec![(0.0, -r * 1.25), (r * 1.15, r * 0.9), (-r * 1.15, r * 0.9)],
            Self::Diamond => {
                vec![(0.0, -r * 1.35), (r * 1.35, 0.0), (0.0, r * 1.35), (-r * 1.35, 0.0)]
            }
            Self::Wedge => vec![(0.0, r * 1.25), (r * 1.15, -r * 0.9), (-r * 1.15, -r * 0.9)],
        }
    }
}

/// Color, dash and shape of a style.
pub(crate) fn curve(theme: Theme, style: usize) -> (&'static str, &'static [u32], Shape) {
    let curves = theme.palette().curves;
    let (dash, shape) = dash_and_shape(style);
    (curves[style % curves.len()], DASHES[dash], Shape::ALL[shape])
}

/// Numbers of a style's dash and shape. After each round they step on by different amounts, so that
/// no two of 25 styles share both; `assets/report.js` does the same.
fn dash_and_shape(style: usize) -> (usize, usize) {
    let (count, round) = (DASHES.len(), style / DASHES.len());
    ((style + round) % count, (style + 2 * round) % count)
}

/// How many styles differ in color, or in dash and shape.
const STYLES: usize = COLORS * DASHES.len();

/// Which style each label has, wherever in a document it is drawn.
///
/// Labels that share a plot differ in color as long as there are colors. No two labels share a
/// style until all are taken, and then only labels that share no plot do.
#[derive(Clone, Debug, Default)]
pub struct Styles {
    by_label: BTreeMap<String, usize>,
}

impl Styles {
    /// Styles for all plots of a document.
    pub fn of(document: &Document) -> Self {
        Self::of_panels(document.figures.iter().flat_map(|figure| &figure.panels))
    }

    /// Styles for some plots; labels get theirs in the order in which they appear.
    pub fn of_panels<'a>(panels: impl Iterator<Item = &'a Panel> + Clone) -> Self {
        let mut beside: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let mut order = Vec::new();
        for panel in panels {
            for series in &panel.series {
                if !beside.contains_key(series.label.as_str()) {
                    order.push(series.label.as_str());
                }
                let others = panel.series.iter().map(|other| other.label.as_str());
                beside.entry(&series.label).or_default().extend(others);
            }
        }
        let mut styles = Self::default();
        for label in order {
            let near: BTreeSet<usize> = beside[label]
                .iter()
                .filter_map(|other| styles.by_label.get(*other))
                .copied()
                .collect();
            let taken: BTreeSet<usize> = styles.by_label.values().copied().collect();
            let free = |style: &usize| !taken.contains(style);
            let apart = |style: &usize| !near.contains(style);
            let other_color = |style: &usize| near.iter().all(|one| one % COLORS != style % COLORS);
            let all = || 0..STYLES;
            let style = (all().find(|s| free(s) && other_color(s)))
                .or_else(|| all().find(free))
                .or_else(|| all().find(|s| apart(s) && other_color(s)))
                .or_else(|| all().find(apart))
                .unwrap_or(styles.by_label.len() % STYLES);
            styles.by_label.insert(label.to_owned(), style);
        }
        styles
    }

    /// The number of a label's style, below 35.
    pub(crate) fn style(&self, label: &str) -> usize {
        self.by_label.get(label).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Axis, Scale, Series};

    fn panel(labels: &[&str]) -> Panel {
        let axis = || Axis {
            label: String::new(),
            unit: String::new(),
            scale: Scale::Linear,
            min: None,
            max: None,
        };
        let series = |label: &&str| Series { label: (*label).to_owned(), points: Vec::new() };
        Panel {
            id: String::new(),
            title: String::new(),
            x: axis(),
            y: axis(),
            series: labels.iter().map(series).collect(),
            rules: Vec::new(),
        }
    }

    #[test]
    fn no_two_of_25_styles_share_dash_and_shape() {
        let all: BTreeSet<(usize, usize)> = (0..25).map(dash_and_shape).collect();
        assert_eq!(all.len(), 25);
        let same = |(a, b): (usize, usize)| dash_and_shape(a) == dash_and_shape(b);
        let colors = (0..35).flat_map(|a| (0..a).map(move |b| (a, b)));
        assert!(!colors.filter(|(a, b)| a % COLORS == b % COLORS).any(same));
    }

    #[test]
    fn a_label_looks_the_same_in_all_plots() {
        let panels = [panel(&["a", "b"]), panel(&["b"]), panel(&["c", "a"])];
        let styles = Styles::of_panels(panels.iter());
        assert_eq!(["a", "b", "c"].map(|label| styles.style(label)), [0, 1, 2]);
    }

    #[test]
    fn labels_of_one_plot_differ_in_color_while_there_are_colors() {
        let names: Vec<String> = (0..60).map(|n| format!("s{n}")).collect();
        let few = |from: usize| -> Vec<&str> {
            names[from..from + 5].iter().map(String::as_str).collect()
        };
        let panels: Vec<Panel> = (0..55).step_by(5).map(|from| panel(&few(from))).collect();
        let styles = Styles::of_panels(panels.iter());
        for panel in &panels {
            let colors: BTreeSet<usize> =
                panel.series.iter().map(|series| styles.style(&series.label) % COLORS).collect();
            assert_eq!(colors.len(), panel.series.len());
        }
        let first: BTreeSet<usize> = names[..35].iter().map(|name| styles.style(name)).collect();
        assert_eq!(first.len(), 35, "no style twice before all are taken");
    }

    #[test]
    fn more_labels_in_one_plot_than_styles_still_have_one_each() {
        let names: Vec<String> = (0..50).map(|n| format!("s{n}")).collect();
        let crowd = panel(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let styles = Styles::of_panels([crowd].iter());
        assert!(names.iter().all(|name| styles.style(name) < STYLES));
    }
}
