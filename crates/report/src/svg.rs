//! One plot as a stand-alone SVG, for the README and the docs. It brings its own background, so
//! it is readable wherever it is put.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::frame::{self, Frame};
use crate::model::{Panel, Series};
use crate::number::coordinate;
use crate::palette::{self, Palette, Shape, Styles, Theme};
use crate::units;
use crate::words::escape;

const WIDTH: i32 = 720;
const PLOT_HEIGHT: i32 = 320;
const RIGHT: i32 = WIDTH - 24;
/// Height of one line of text: lanes of unstable series, rows of the legend.
const LINE: i32 = 19;
/// Curves with more points get a mark on every n-th only.
const MARKED: usize = 40;
const FAMILY: &str =
    "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Pixel = (i32, i32);

/// The plot of a panel, 720 pixels wide; the height follows from legend and notes. `styles` are
/// those of the document, so that a label looks the same in all its plots.
pub fn panel(panel: &Panel, styles: &Styles, theme: Theme) -> String {
    let panel = &*units::panel(panel);
    let frame = frame::frame(panel);
    let unstable: Vec<(usize, &Series)> = panel
        .series
        .iter()
        .enumerate()
        .filter(|(_, series)| !frame::unstable(series).is_empty())
        .collect();
    let widest = frame.y.texts.iter().map(|text| text.chars().count()).max().unwrap_or(0);
    let left = 34 + 7 * widest as i32;
    let top = 64 + LINE * unstable.len() as i32;
    let legend = Legend::arrange(panel, left);
    let sheet = Sheet {
        palette: theme.palette(),
        theme,
        styles: panel.series.iter().map(|series| styles.style(&series.label)).collect(),
        frame,
        left,
        top,
        bottom: top + PLOT_HEIGHT,
    };
    let height = sheet.bottom + 56 + LINE * legend.rows + 8;

    let mut text = String::new();
    {
        let area =
            SVGBackend::with_string(&mut text, (WIDTH as u32, height as u32)).into_drawing_area();
        let result = sheet.draw(&area, panel, &unstable, &legend).and_then(|()| area.present());
        result.expect("drawing into a string cannot fail");
    }
    label(&text, &panel.title)
}

/// Names the picture for readers who do not see it.
fn label(svg: &str, title: &str) -> String {
    let escaped = escape(title);
    svg.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{escaped}\" "), 1)
}

/// The names of the legend, and where each stands.
struct Legend {
    names: Vec<(String, Pixel)>,
    rows: i32,
}

impl Legend {
    fn arrange(panel: &Panel, left: i32) -> Self {
        let mut names = Vec::new();
        let (mut x, mut row) = (left, 0);
        for series in &panel.series {
            let name = frame::name(series);
            let width = 44 + 7 * name.chars().count() as i32 + 22;
            if x > left && x + width > RIGHT {
                (x, row) = (left, row + 1);
            }
            names.push((name, (x, row)));
            x += width;
        }
        Self { rows: if names.is_empty() { 0 } else { row + 1 }, names }
    }
}

struct Sheet {
    palette: Palette,
    theme: Theme,
    /// Of the series, in their order.
    styles: Vec<usize>,
    frame: Frame,
    left: i32,
    top: i32,
    bottom: i32,
}

/// From the middle of a published value's mark to its corners.
const SPOT: f64 = 5.0;

type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

impl Sheet {
    /// Color, dash and shape of the series with this index.
    fn look(&self, index: usize) -> (&'static str, &'static [u32], Shape) {
        palette::curve(self.theme, self.styles[index])
    }

    fn draw<'a>(
        &self,
        area: &Area<'a>,
        panel: &Panel,
        unstable: &[(usize, &Series)],
        legend: &Legend,
    ) -> Drawn<'a> {
        area.fill(&rgb(self.palette.paper))?;
        self.text(area, &panel.title, (16, 20), 16, self.palette.ink, HPos::Left)?;
        self.text(area, &frame::head(panel), (16, 42), 13, self.palette.muted, HPos::Left)?;
        self.axes(area, panel)?;
        for &(index, series) in unstable {
            self.shade(area, index, series)?;
        }
        for (index, series) in panel.series.iter().enumerate() {
            self.spread(area, index, series)?;
        }
        self.uprights(area, panel)?;
        for (rule, y) in panel.rules.iter().filter_map(|rule| Some((rule, rule.height()?))) {
            let y = self.y(y).round() as i32;
            if (self.top..=self.bottom).contains(&y) {
                let line = [(f64::from(self.left), f64::from(y)), (f64::from(RIGHT), f64::from(y))];
                self.dashed(area, &line, &[6, 4], rgb(self.palette.rule).stroke_width(1))?;
                let above = if y < self.top + 20 { y + 10 } else { y - 10 };
                self.text(
                    area,
                    &rule.label,
                    (self.left + 6, above),
                    12,
                    self.palette.rule,
                    HPos::Left,
                )?;
            }
        }
        for (index, series) in panel.series.iter().enumerate() {
            self.curve(area, index, series)?;
        }
        self.spots(area, panel)?;
        for (lane, &(index, series)) in unstable.iter().enumerate() {
            // A little higher than the topmost tick's text.
            let y = self.top - 4 - LINE * (unstable.len() - lane) as i32 + LINE / 2;
            self.lane(area, index, series, y)?;
        }
        for (index, &(ref name, (x, row))) in legend.names.iter().enumerate() {
            let y = self.bottom + 56 + LINE * row + LINE / 2;
            let (color, dash, shape) = self.look(index);
            let line = [(f64::from(x), f64::from(y)), (f64::from(x + 34), f64::from(y))];
            self.dashed(area, &line, dash, rgb(color).stroke_width(2))?;
            self.mark(area, (f64::from(x + 17), f64::from(y)), shape, color)?;
            self.text(area, name, (x + 44, y), 13, self.palette.ink, HPos::Left)?;
        }
        if panel.series.iter().all(|series| series.points.is_empty()) {
            let middle = ((self.left + RIGHT) / 2, (self.top + self.bottom) / 2);
            self.text(area, "No points to draw.", middle, 13, self.palette.muted, HPos::Center)?;
        }
        Ok(())
    }

    fn axes<'a>(&self, area: &Area<'a>, panel: &Panel) -> Drawn<'a> {
        let grid = rgb(self.palette.grid).stroke_width(1);
        let ink = rgb(self.palette.muted).stroke_width(1);
        let muted = self.palette.muted;
        for (&tick, text) in self.frame.x.ticks.iter().zip(&self.frame.x.texts) {
            let x = self.x(tick).round() as i32;
            area.draw(&PathElement::new(vec![(x, self.top), (x, self.bottom)], grid))?;
            area.draw(&PathElement::new(vec![(x, self.bottom), (x, self.bottom + 4)], ink))?;
            self.text(area, text, (x, self.bottom + 15), 12, muted, HPos::Center)?;
        }
        for (&tick, text) in self.frame.y.ticks.iter().zip(&self.frame.y.texts) {
            let y = self.y(tick).round() as i32;
            area.draw(&PathElement::new(vec![(self.left, y), (RIGHT, y)], grid))?;
            area.draw(&PathElement::new(vec![(self.left - 4, y), (self.left, y)], ink))?;
            self.text(area, text, (self.left - 8, y), 12, muted, HPos::Right)?;
        }
        let corner = vec![(self.left, self.top), (self.left, self.bottom), (RIGHT, self.bottom)];
        area.draw(&PathElement::new(corner, ink))?;
        let middle = ((self.left + RIGHT) / 2, self.bottom + 37);
        self.text(area, &frame::caption(&panel.x), middle, 13, muted, HPos::Center)
    }

    /// Upright lines: in the color of their series, if they belong to one. Names stand at the top,
    /// those of series at the bottom, each a line above the one before it.
    fn uprights<'a>(&self, area: &Area<'a>, panel: &Panel) -> Drawn<'a> {
        let mut lines = 0;
        for (rule, x) in panel.rules.iter().filter_map(|rule| Some((rule, rule.place()?))) {
            let x = self.x(x).round();
            if !(f64::from(self.left)..=f64::from(RIGHT)).contains(&x) {
                continue;
            }
            let series = panel.series.iter().position(|s| Some(&s.label) == rule.series.as_ref());
            let color = series.map_or(self.palette.rule, |index| self.look(index).0);
            let line = [(x, f64::from(self.top)), (x, f64::from(self.bottom))];
            self.dashed(area, &line, &[2, 3], rgb(color).stroke_width(1))?;
            let y = match series {
                Some(_) => self.bottom - 10 - LINE * lines,
                None => self.top + 10,
            };
            lines += i32::from(series.is_some());
            let right = x > f64::from(RIGHT) - 8.0 * rule.label.chars().count() as f64;
            let (at, anchor) = match right {
                true => (x as i32 - 5, HPos::Right),
                false => (x as i32 + 5, HPos::Left),
            };
            self.text(area, &rule.label, (at, y), 12, color, anchor)?;
        }
        Ok(())
    }

    /// What the source gives: a hollow diamond, on a bar where it gives a range.
    fn spots<'a>(&self, area: &Area<'a>, panel: &Panel) -> Drawn<'a> {
        for (rule, (x, low, high)) in
            panel.rules.iter().filter_map(|rule| Some((rule, rule.spot()?)))
        {
            let (x, low, high) = (self.x(x), self.y(low), self.y(high));
            let middle = (low + high) / 2.0;
            if !self.holds((x, middle)) {
                continue;
            }
            let series = panel.series.iter().position(|s| Some(&s.label) == rule.series.as_ref());
            let color = series.map_or(self.palette.rule, |index| self.look(index).0);
            let pixel = |x: f64, y: f64| (x.round() as i32, y.round() as i32);
            let inside = |y: f64| y.clamp(f64::from(self.top), f64::from(self.bottom));
            let bar = vec![pixel(x, inside(low)), pixel(x, inside(high))];
            area.draw(&PathElement::new(bar, rgb(color).stroke_width(1)))?;
            let corners = vec![
                pixel(x, middle - SPOT),
                pixel(x + SPOT, middle),
                pixel(x, middle + SPOT),
                pixel(x - SPOT, middle),
            ];
            area.draw(&Polygon::new(corners.clone(), rgb(self.palette.paper)))?;
            let outline = [&corners[..], &corners[..1]].concat();
            area.draw(&PathElement::new(outline, rgb(color).stroke_width(2)))?;
        }
        Ok(())
    }

    /// The band in which a system cannot keep up.
    fn shade<'a>(&self, area: &Area<'a>, index: usize, series: &Series) -> Drawn<'a> {
        let (color, ..) = self.look(index);
        for (from, until) in frame::unstable(series) {
            let from = self.x(from).max(f64::from(self.left));
            let until = until.map_or(f64::from(RIGHT), |x| self.x(x)).min(f64::from(RIGHT));
            if until <= from {
                continue;
            }
            let (a, b) = (from.round() as i32, until.round() as i32);
            let fill = rgb(color).mix(0.06).filled();
            area.draw(&Rectangle::new([(a, self.top), (b, self.bottom)], fill))?;
            // Hatches of two series lean to different sides.
            let height = self.bottom - self.top;
            let leans_right = index.is_multiple_of(2);
            for start in (a - height..b).step_by(10) {
                let (first, last) = (start.max(a), (start + height).min(b));
                if first >= last {
                    continue;
                }
                let (high, low) = (first - start, last - start);
                let ends = if leans_right {
                    vec![(first, self.bottom - high), (last, self.bottom - low)]
                } else {
                    vec![(first, self.top + high), (last, self.top + low)]
                };
                area.draw(&PathElement::new(ends, rgb(color).mix(0.16).stroke_width(1)))?;
            }
        }
        Ok(())
    }

    fn spread<'a>(&self, area: &Area<'a>, index: usize, series: &Series) -> Drawn<'a> {
        let (color, ..) = self.look(index);
        let ends = |point: &crate::model::Point| {
            let finite = |value: Option<f64>| value.filter(|v| v.is_finite());
            finite(point.y).filter(|_| point.stable && point.x.is_finite())?;
            Some((self.x(point.x), self.y(finite(point.low)?), self.y(finite(point.high)?)))
        };
        let inside = |y: f64| y.clamp(f64::from(self.top), f64::from(self.bottom)).round() as i32;
        for run in series.points.split(|point| ends(point).is_none()) {
            let run: Vec<_> = run.iter().filter_map(ends).collect();
            match run.as_slice() {
                [] => {}
                [(x, low, high)] => {
                    let x = x.round() as i32;
                    let whisker = vec![(x, inside(*low)), (x, inside(*high))];
                    area.draw(&PathElement::new(whisker, rgb(color).mix(0.5).stroke_width(2)))?;
                }
                run => {
                    let lows = run.iter().map(|&(x, low, _)| (x.round() as i32, inside(low)));
                    let highs =
                        run.iter().rev().map(|&(x, _, high)| (x.round() as i32, inside(high)));
                    let outline: Vec<Pixel> = lows.chain(highs).collect();
                    area.draw(&Polygon::new(outline, rgb(color).mix(0.18)))?;
                }
            }
        }
        Ok(())
    }

    fn curve<'a>(&self, area: &Area<'a>, index: usize, series: &Series) -> Drawn<'a> {
        let (color, dash, shape) = self.look(index);
        let places: Vec<Option<(f64, f64)>> = series
            .points
            .iter()
            .map(|point| {
                let log = self.frame.y.log;
                let drawn = |y: &f64| y.is_finite() && (!log || *y > 0.0);
                let y = point.y.filter(drawn).filter(|_| point.stable && point.x.is_finite())?;
                Some((self.x(point.x), self.y(y)))
            })
            .collect();
        for run in places.split(Option::is_none) {
            let run: Vec<(f64, f64)> = run.iter().flatten().copied().collect();
            for piece in self.clip(&run) {
                self.dashed(area, &piece, dash, rgb(color).stroke_width(2))?;
            }
        }
        let every = if places.len() <= MARKED { 1 } else { places.len().div_ceil(12) };
        for (number, place) in places.iter().enumerate() {
            if let Some(place) = place
                && (number + index).is_multiple_of(every)
                && self.holds(*place)
            {
                self.mark(area, *place, shape, color)?;
            }
        }
        Ok(())
    }

    /// The line above the plot that says from where on a system cannot keep up.
    fn lane<'a>(&self, area: &Area<'a>, index: usize, series: &Series, y: i32) -> Drawn<'a> {
        let (color, ..) = self.look(index);
        for (number, (from, until)) in frame::unstable(series).into_iter().enumerate() {
            let x = (self.x(from).round() as i32).max(self.left);
            if x > RIGHT {
                continue;
            }
            let style = rgb(color).stroke_width(2);
            area.draw(&PathElement::new(vec![(x - 4, y - 4), (x + 4, y + 4)], style))?;
            area.draw(&PathElement::new(vec![(x - 4, y + 4), (x + 4, y - 4)], style))?;
            let drop = [(f64::from(x), f64::from(y + 5)), (f64::from(x), f64::from(self.bottom))];
            self.dashed(area, &drop, &[1, 3], rgb(color).mix(0.7).stroke_width(1))?;
            // Before the cross if there is room, else after it; with the name if it fits.
            let mut start = x + 7;
            let short = format!("unstable from {}", coordinate(from));
            let long = format!("{} {short}", series.label);
            for text in [long, short].into_iter().filter(|_| number == 0) {
                let room = 7 * text.chars().count() as i32;
                if x - room > 16 {
                    self.text(area, &text, (x - 9, y), 12, color, HPos::Right)?;
                } else if x + room < WIDTH {
                    self.text(area, &text, (x + 9, y), 12, color, HPos::Left)?;
                    start += room;
                } else {
                    continue;
                }
                break;
            }
            let end = until.map_or(RIGHT, |x| self.x(x).round() as i32).min(RIGHT);
            if end > start {
                area.draw(&PathElement::new(
                    vec![(start, y), (end, y)],
                    rgb(color).stroke_width(1),
                ))?;
            }
        }
        Ok(())
    }

    fn x(&self, value: f64) -> f64 {
        f64::from(self.left) + self.frame.x.place(value) * f64::from(RIGHT - self.left)
    }

    fn y(&self, value: f64) -> f64 {
        f64::from(self.bottom) - self.frame.y.place(value) * f64::from(self.bottom - self.top)
    }

    fn holds(&self, (x, y): (f64, f64)) -> bool {
        (f64::from(self.left) - 2.0..=f64::from(RIGHT) + 2.0).contains(&x)
            && (f64::from(self.top) - 2.0..=f64::from(self.bottom) + 2.0).contains(&y)
    }

    /// The parts of a line inside the plot (Liang and Barsky).
    fn clip(&self, line: &[(f64, f64)]) -> Vec<Vec<(f64, f64)>> {
        let (left, right) = (f64::from(self.left), f64::from(RIGHT));
        let (top, bottom) = (f64::from(self.top), f64::from(self.bottom));
        let mut pieces: Vec<Vec<(f64, f64)>> = Vec::new();
        for ends in line.windows(2) {
            let (a, b) = (ends[0], ends[1]);
            let (dx, dy) = (b.0 - a.0, b.1 - a.1);
            let (mut enter, mut leave) = (0.0_f64, 1.0_f64);
            let sides =
                [(-dx, a.0 - left), (dx, right - a.0), (-dy, a.1 - top), (dy, bottom - a.1)];
            for (toward, room) in sides {
                if toward < 0.0 {
                    enter = enter.max(room / toward);
                } else if toward > 0.0 {
                    leave = leave.min(room / toward);
                } else if room < 0.0 {
                    leave = -1.0;
                }
            }
            if enter > leave {
                continue;
            }
            let at = |t: f64| (a.0 + t * dx, a.1 + t * dy);
            match pieces.last_mut() {
                Some(piece) if enter == 0.0 && piece.last() == Some(&a) => piece.push(at(leave)),
                _ => pieces.push(vec![at(enter), at(leave)]),
            }
        }
        pieces
    }

    /// A line drawn and left out in turn; the pattern runs on across corners.
    fn dashed<'a>(
        &self,
        area: &Area<'a>,
        line: &[(f64, f64)],
        pattern: &[u32],
        style: ShapeStyle,
    ) -> Drawn<'a> {
        let pixel = |(x, y): (f64, f64)| (x.round() as i32, y.round() as i32);
        if pattern.is_empty() {
            let line: Vec<Pixel> = line.iter().copied().map(pixel).collect();
            return area.draw(&PathElement::new(line, style));
        }
        let (mut index, mut left) = (0, f64::from(pattern[0]));
        let mut piece: Vec<Pixel> = line.first().copied().map(pixel).into_iter().collect();
        for ends in line.windows(2) {
            let (mut a, b) = (ends[0], ends[1]);
            loop {
                let length = (b.0 - a.0).hypot(b.1 - a.1);
                let drawing = index % 2 == 0;
                if length < left {
                    left -= length;
                    if drawing {
                        piece.push(pixel(b));
                    }
                    break;
                }
                let t = left / length;
                a = (a.0 + t * (b.0 - a.0), a.1 + t * (b.1 - a.1));
                if drawing {
                    piece.push(pixel(a));
                    area.draw(&PathElement::new(std::mem::take(&mut piece), style))?;
                } else {
                    piece = vec![pixel(a)];
                }
                index = (index + 1) % pattern.len();
                left = f64::from(pattern[index]);
            }
        }
        if piece.len() > 1 {
            area.draw(&PathElement::new(piece, style))?;
        }
        Ok(())
    }

    fn mark<'a>(&self, area: &Area<'a>, at: (f64, f64), shape: Shape, color: &str) -> Drawn<'a> {
        let fill = rgb(color).filled();
        let pixel = |x: f64, y: f64| (x.round() as i32, y.round() as i32);
        if shape == Shape::Circle {
            return area.draw(&Circle::new(pixel(at.0, at.1), 4, fill));
        }
        let corners: Vec<Pixel> =
            shape.corners(4.0).into_iter().map(|(x, y)| pixel(at.0 + x, at.1 + y)).collect();
        area.draw(&Polygon::new(corners, fill))
    }

    fn text<'a>(
        &self,
        area: &Area<'a>,
        text: &str,
        at: Pixel,
        size: i32,
        color: &str,
        anchor: HPos,
    ) -> Drawn<'a> {
        let color = rgb(color);
        // Plotters writes 1/1.24 of the size it is given.
        let size = f64::from(size) * 1.24;
        let weight = if size > 18.0 { FontStyle::Bold } else { FontStyle::Normal };
        let style = TextStyle::from((FAMILY, size, weight).into_font())
            .color(&color)
            .pos(Pos::new(anchor, VPos::Center));
        area.draw(&Text::new(text.to_owned(), at, style))
    }
}

fn rgb(hex: &str) -> RGBColor {
    let channel = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("a palette color");
    RGBColor(channel(1), channel(3), channel(5))
}
