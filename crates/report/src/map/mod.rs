//! Maps: marks and ways on the Earth, as a part of the page and as files of their own.
//!
//! Page and file are drawn by the same code; only colors differ, which the page takes from its
//! theme and a file from one palette. Lines and marks keep their width in pixels at any size of the
//! sheet, so a map reads on a phone and when a reader zooms in.

mod earth;

use crate::model::{Form, Layer, Map, Mark, Way};
use crate::palette::{Palette, Theme};
use crate::words::escape;
use earth::{Spot, WIDTH, height, land, line, net, spot, way};
use std::fmt::Write as _;

/// Marks and ways that say who they are when pointed at; the others of a layer are one path.
const TITLED: usize = 400;
/// Room around what is shown, on the sheet.
const MARGIN: f64 = 24.0;
/// The least width that a map shows.
const WIDTH_MIN: f64 = 120.0;
/// Height over width: a phone is narrow, a screen is low.
const SHAPE: (f64, f64) = (0.42, 0.62);
/// Height of a row of the legend in a file.
const ROW: f64 = 26.0;
const HEAD: f64 = 66.0;

/// Where colors come from.
#[derive(Clone, Copy)]
enum Colors {
    /// The page's variables.
    Page,
    /// This palette.
    Fixed(Palette),
}

impl Colors {
    fn named(self, name: &str) -> String {
        match self {
            Colors::Page => format!("var(--{name})"),
            Colors::Fixed(own) => match name {
                "paper" => own.paper.to_string(),
                "ink" => own.ink.to_string(),
                "muted" => own.muted.to_string(),
                _ => own.grid.to_string(),
            },
        }
    }

    fn layer(self, index: usize) -> String {
        match self {
            Colors::Page => format!("var(--curve-{})", index % Theme::Light.palette().curves.len()),
            Colors::Fixed(own) => own.curves[index % own.curves.len()].to_string(),
        }
    }
}

/// A part of the sheet.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Frame {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

/// The part of the world in which everything lies, or all of it.
fn frame(map: &Map) -> Frame {
    let world = Frame { left: 0.0, top: 0.0, width: WIDTH, height: height() };
    let (mut low, mut high) = ((f64::INFINITY, f64::INFINITY), (0.0f64, 0.0f64));
    let mut hold = |(x, y): Spot| {
        low = (low.0.min(x), low.1.min(y));
        high = (high.0.max(x), high.1.max(y));
    };
    for layer in &map.layers {
        layer.marks.iter().for_each(|mark| hold(spot(mark.at.0, mark.at.1)));
        for one in &layer.ways {
            way(one.from, one.to).into_iter().flatten().for_each(&mut hold);
        }
    }
    if low.0 > high.0 {
        return world;
    }
    let mut width = (high.0 - low.0 + 2.0 * MARGIN).max(WIDTH_MIN);
    let mut tall = (high.1 - low.1 + 2.0 * MARGIN).max(width * SHAPE.0);
    width = width.max(tall / SHAPE.1);
    tall = tall.min(world.height);
    if width > 0.6 * WIDTH {
        return world;
    }
    let middle = ((low.0 + high.0) / 2.0, (low.1 + high.1) / 2.0);
    let left = (middle.0 - width / 2.0).clamp(0.0, WIDTH - width);
    let top = (middle.1 - tall / 2.0).clamp(0.0, world.height - tall);
    // Whole numbers, for short files.
    Frame { left: left.floor(), top: top.floor(), width: width.ceil(), height: tall.ceil() }
}

/// Everything on the sheet.
fn sheet(map: &Map, colors: Colors) -> String {
    let mut out = String::new();
    let still = "vector-effect=\"non-scaling-stroke\"";
    let _ = write!(
        out,
        "<path d=\"{}\" style=\"fill:{grid}\"/><path d=\"{}\" {still} \
         style=\"fill:none;stroke:{grid};stroke-width:1px\"/>",
        land(),
        net(),
        grid = colors.named("grid"),
    );
    // Ways lie below marks.
    for (index, layer) in map.layers.iter().enumerate() {
        let style = format!(
            "fill:none;stroke:{};stroke-width:1.5px;stroke-opacity:.8",
            colors.layer(index)
        );
        pieces(
            &mut out,
            &layer.ways,
            |one| {
                let mut drawn = String::new();
                for piece in way(one.from, one.to) {
                    line(&mut drawn, piece, false);
                }
                drawn
            },
            |one| one.says.clone(),
            &[style],
        );
    }
    for (index, layer) in map.layers.iter().enumerate() {
        let stroke = |color: String, width: u32, cap: &str| {
            format!("fill:none;stroke:{color};stroke-width:{width}px;stroke-linecap:{cap}")
        };
        let (color, paper) = (colors.layer(index), colors.named("paper"));
        // A rim of paper keeps marks apart that lie on each other.
        let styles = match layer.form {
            Form::Dot => vec![stroke(paper, 8, "round"), stroke(color, 6, "round")],
            Form::Square => vec![stroke(paper, 10, "square"), stroke(color, 8, "square")],
            Form::Ring => vec![
                stroke(paper.clone(), 14, "round"),
                stroke(color, 12, "round"),
                stroke(paper, 6, "round"),
            ],
        };
        pieces(
            &mut out,
            &layer.marks,
            |mark| {
                let mut drawn = String::new();
                line(&mut drawn, [spot(mark.at.0, mark.at.1)], false);
                drawn + "h.01"
            },
            said,
            &styles,
        );
    }
    out
}

/// What a mark says of itself.
fn said(mark: &Mark) -> String {
    match mark.says.is_empty() {
        true => mark.name.clone(),
        false => format!("{}: {}", mark.name, mark.says),
    }
}

/// Paths of things, each in all styles one over the other.
fn pieces<T>(
    out: &mut String,
    all: &[T],
    path: impl Fn(&T) -> String,
    title: impl Fn(&T) -> String,
    styles: &[String],
) {
    let (titled, plain) = all.split_at(all.len().min(TITLED));
    let still = "vector-effect=\"non-scaling-stroke\"";
    if !plain.is_empty() {
        let together: String = plain.iter().map(&path).collect();
        for style in styles {
            let _ = write!(out, "<path d=\"{together}\" {still} style=\"{style}\"/>");
        }
    }
    for one in titled {
        let drawn = path(one);
        let _ = write!(out, "<g><title>{}</title>", escape(&title(one)));
        for style in styles {
            let _ = write!(out, "<path d=\"{drawn}\" {still} style=\"{style}\"/>");
        }
        out.push_str("</g>");
    }
}

/// A sample of a layer for the legend, 24 by 14.
fn sample(layer: &Layer, index: usize, colors: Colors) -> String {
    let (color, paper) = (colors.layer(index), colors.named("paper"));
    if layer.marks.is_empty() {
        return format!(
            "<path d=\"M2 7h20\" style=\"fill:none;stroke:{color};stroke-width:2px\"/>"
        );
    }
    match layer.form {
        Form::Dot => format!("<circle cx=\"12\" cy=\"7\" r=\"3.5\" style=\"fill:{color}\"/>"),
        Form::Square => {
            format!("<rect x=\"8\" y=\"3\" width=\"8\" height=\"8\" style=\"fill:{color}\"/>")
        }
        Form::Ring => format!(
            "<circle cx=\"12\" cy=\"7\" r=\"4.5\" \
             style=\"fill:{paper};stroke:{color};stroke-width:3px\"/>"
        ),
    }
}

/// What a layer is called in the legend.
fn legend(layer: &Layer) -> String {
    let count = layer.marks.len().max(layer.ways.len()) as u64;
    format!("{} ({})", layer.label, crate::number::count(count))
}

fn drawn(map: &Map) -> impl Iterator<Item = (usize, &Layer)> {
    map.layers.iter().enumerate().filter(|(_, layer)| !layer.is_empty())
}

/// The map as a part of the page: sheet, legend, and what it shows as a table. Thousands of marks
/// stand in `<noscript>` until the sheet comes near the window; see `html.rs`.
pub(crate) fn html(map: &Map, number: usize) -> String {
    let Frame { left, top, width, height } = frame(map);
    let title = escape(&map.title);
    let mut out = format!(
        "<figure class=\"panel map\"><figcaption><b>{title}</b><span class=\"y\">{}</span>\
         </figcaption><div class=\"world\" tabindex=\"0\" role=\"group\" \
         aria-label=\"Map: {title}\" style=\"--shape: {width} / {height}\"><noscript>\
         <svg viewBox=\"{left} {top} {width} {height}\" role=\"img\" \
         aria-label=\"{title}\">{}</svg></noscript></div><ul class=\"key\">",
        escape(&map.caption),
        sheet(map, Colors::Page),
    );
    for (index, layer) in drawn(map) {
        let _ = write!(
            out,
            "<li><svg width=\"24\" height=\"14\" aria-hidden=\"true\">{}</svg>{}</li>",
            sample(layer, index, Colors::Page),
            escape(&legend(layer)),
        );
    }
    out.push_str("</ul>");
    table(&mut out, map, number);
    out.push_str("</figure>");
    out
}

/// Rows of the table on the page; the rest is in the files.
const ROWS: usize = 300;

fn table(out: &mut String, map: &Map, number: usize) {
    let _ = write!(
        out,
        "<details class=\"values\"><summary>Values</summary><noscript>\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" \
         aria-label=\"Values of map {}, figure {number}\">\
         <table class=\"data\"><thead><tr><th scope=\"col\" class=\"t\">Name</th>\
         <th scope=\"col\">Latitude</th><th scope=\"col\">Longitude</th>\
         <th scope=\"col\" class=\"t\">What it says</th></tr></thead>",
        escape(&map.title),
    );
    let mut room = ROWS;
    for (_, layer) in drawn(map) {
        let _ = write!(
            out,
            "<tbody><tr><th colspan=\"4\" scope=\"rowgroup\">{}</th></tr>",
            escape(&legend(layer))
        );
        let mut row = |name: &str, (lat, lon): (f64, f64), says: &str| {
            let _ = write!(
                out,
                "<tr><td class=t>{}<td>{lat:.2}<td>{lon:.2}<td class=t>{}",
                escape(name),
                escape(says)
            );
        };
        for Mark { name, at, says } in layer.marks.iter().take(room) {
            row(name, *at, says);
        }
        room -= layer.marks.len().min(room);
        for Way { from, to, says } in layer.ways.iter().take(room) {
            row("", *from, &format!("to {:.2}, {:.2}: {says}", to.0, to.1));
        }
        room -= layer.ways.len().min(room);
        out.push_str("</tbody>");
    }
    let all: usize = map.layers.iter().map(|layer| layer.marks.len() + layer.ways.len()).sum();
    if all > ROWS {
        let more = all - ROWS;
        let _ = write!(
            out,
            "<tbody><tr><td class=\"t\" colspan=\"4\">{more} more are in \
             <code>maps.csv</code>.</td></tr></tbody>"
        );
    }
    out.push_str("</table></div></noscript></details>");
}

/// The map as a file of its own, with title and legend.
pub fn svg(map: &Map, theme: Theme) -> String {
    let Palette { paper, ink, muted, .. } = theme.palette();
    let colors = Colors::Fixed(theme.palette());
    let Frame { left, top, width, height } = frame(map);
    // The sheet is shown a thousand pixels wide.
    let tall = 1000.0 * height / width;
    let layers: Vec<(usize, &Layer)> = drawn(map).collect();
    let whole = HEAD + tall + 12.0 + ROW * layers.len() as f64 + 8.0;
    let text = "font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', \
                Arial, sans-serif\"";
    let title = escape(&map.title);
    let mut out = format!(
        "<svg role=\"img\" aria-label=\"{title}\" width=\"1000\" height=\"{whole:.0}\" \
         viewBox=\"0 0 1000 {whole:.0}\" xmlns=\"http://www.w3.org/2000/svg\">\
         <rect width=\"1000\" height=\"{whole:.0}\" fill=\"{paper}\"/>\
         <text x=\"16\" y=\"28\" {text} font-size=\"18\" font-weight=\"600\" \
         fill=\"{ink}\">{title}</text>\
         <text x=\"16\" y=\"50\" {text} font-size=\"14\" fill=\"{muted}\">{}</text>\
         <svg x=\"0\" y=\"{HEAD}\" width=\"1000\" height=\"{tall:.1}\" \
         viewBox=\"{left} {top} {width} {height}\">{}</svg>",
        escape(&map.caption),
        sheet(map, colors),
    );
    for (row, (index, layer)) in layers.into_iter().enumerate() {
        let y = HEAD + tall + 12.0 + ROW * row as f64;
        let _ = write!(
            out,
            "<g transform=\"translate(16 {:.1})\">{}</g><text x=\"48\" y=\"{:.1}\" {text} \
             font-size=\"14\" fill=\"{ink}\">{}</text>",
            y,
            sample(layer, index, colors),
            y + 12.0,
            escape(&legend(layer)),
        );
    }
    out + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(name: &str, at: (f64, f64)) -> Mark {
        Mark { name: name.into(), at, says: "3 ms".into() }
    }

    fn map(marks: Vec<Mark>, ways: Vec<Way>) -> Map {
        let layer =
            |label: &str, form, marks, ways| Layer { label: label.into(), form, marks, ways };
        Map {
            id: "nodes".into(),
            title: "Nodes & <where> they are".into(),
            caption: "Made up.".into(),
            layers: vec![
                layer("nodes", Form::Dot, marks, Vec::new()),
                layer("moved", Form::Ring, Vec::new(), ways),
                layer("nothing", Form::Square, Vec::new(), Vec::new()),
            ],
        }
    }

    #[test]
    fn page_and_files_show_the_same_and_escape_it() {
        let way = Way { from: (50.0, 8.0), to: (35.0, 139.0), says: "a\"b".into() };
        let map = map(vec![mark("<b>", (50.0, 8.0))], vec![way]);
        let page = html(&map, 1);
        for text in [&page, &svg(&map, Theme::Light), &svg(&map, Theme::Dark)] {
            assert!(text.contains("Nodes &amp; &lt;where&gt;") && !text.contains("<b>:"), "{text}");
            assert!(text.contains("&lt;b&gt;: 3 ms") && text.contains("a&quot;b"));
            assert!(!text.contains("nothing"), "a layer without anything has no legend");
        }
        assert!(page.contains("tabindex=\"0\"") && page.contains("var(--curve-0)"));
        assert!(svg(&map, Theme::Light) != svg(&map, Theme::Dark));
        assert!(!svg(&map, Theme::Light).contains("var("), "a file knows its colors");
    }

    #[test]
    fn a_crowd_costs_the_page_few_elements() {
        let crowd = (0..20_000).map(|n| mark(&n.to_string(), (f64::from(n % 80), 10.0))).collect();
        let page = html(&map(crowd, Vec::new()), 1);
        let elements = page.matches('<').count() - page.matches("</").count();
        assert!(elements < 4_000, "{elements}");
        assert!(page.contains("19700 more are in"), "and says so");
    }

    #[test]
    fn what_lies_together_is_shown_large() {
        let europe = frame(&map(vec![mark("a", (50.0, 8.0)), mark("b", (41.0, 2.0))], Vec::new()));
        assert!(europe.width < 0.3 * WIDTH, "{europe:?}");
        let (x, y) = spot(50.0, 8.0);
        assert!((europe.left..europe.left + europe.width).contains(&x));
        assert!((europe.top..europe.top + europe.height).contains(&y));
        let world =
            frame(&map(vec![mark("a", (35.0, 139.0)), mark("b", (47.0, -122.0))], Vec::new()));
        assert_eq!((world.left, world.width), (0.0, WIDTH));
        assert_eq!(frame(&map(Vec::new(), Vec::new())).width, WIDTH);
    }
}
