//! Colors, dashes and shapes: a curve differs from its neighbors in all three, so that it can be
//! told apart in gray, by color-blind readers and on both backgrounds.
//!
//! The hues follow Okabe and Ito's set; lightness is adapted to each background for a contrast
//! of at least 3:1.

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
    pub curves: [&'static str; 7],
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
                    "#0067a5", "#c8500a", "#00805d", "#a2457c", "#a87400", "#3f8fc4", "#4a4a48",
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

/// Color, dash and shape of the curve with this index.
pub(crate) fn curve(theme: Theme, index: usize) -> (&'static str, &'static [u32], Shape) {
    let curves = theme.palette().curves;
    (
        curves[index % curves.len()],
        DASHES[index % DASHES.len()],
        Shape::ALL[index % Shape::ALL.len()],
    )
}
