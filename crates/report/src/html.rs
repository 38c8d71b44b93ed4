//! One self-contained HTML file: no network, no other file, readable without scripts but for
//! the plots.
//!
//! Text and tables are written here; plots are drawn in the page by `assets/report.js` from data
//! embedded as JSON. Every string of the document is escaped on its way in.
//!
//! What is folded and long stands in `<noscript>`: with scripts it is one text until it is opened,
//! so that a report of a thousand tables opens at once; without scripts it is simply there. That
//! text is most of a large report, and a browser reads all of it before it shows the page. So rows,
//! cells and terms have no end tags, which HTML lets one leave out, and cells of numbers no class.

use std::fmt::Write as _;

use serde::Serialize;

use crate::frame::{self, Extent};
use crate::map;
use crate::model::{Cell, Claim, Document, Figure, Panel, PlanText, Rule, Series, Table, Verdict};
use crate::number::{coordinate, count, significant};
use crate::palette::{DASHES, Palette, Shape, Styles, Theme};
use crate::units;
use crate::words::{self, escape, grouped, slug, tally};

const PAGE: &str = include_str!("../assets/report.html");
const STYLE: &str = include_str!("../assets/report.css");
const SCRIPT: &str = include_str!("../assets/report.js");
const UPLOT_STYLE: &str = include_str!("../assets/uplot/uPlot.min.css");
const UPLOT_SCRIPT: &str = include_str!("../assets/uplot/uPlot.iife.min.js");
/// What a point is that has no value and is not unstable.
const NOT_ENOUGH: &str = "too few samples, or too short";

/// The page of a document.
pub fn render(document: &Document) -> String {
    let document = &units::document(document);
    let mut data = Data {
        light: Theme::Light.palette(),
        dark: Theme::Dark.palette(),
        dashes: DASHES,
        shapes: Shape::NAMES,
        panels: Vec::new(),
    };
    let styles = Styles::of(document);
    let mut figures = String::new();
    for (index, figure) in document.figures.iter().enumerate() {
        push_figure(&mut figures, figure, index + 1, &styles, &mut data.panels);
    }
    fill(
        PAGE,
        &[
            ("title", &escape(&document.title)),
            ("summary", &prose(&document.summary)),
            (
                "palette",
                &format!(
                    "{}\n@media screen and (prefers-color-scheme: dark) {{ {} }}",
                    variables(&data.light),
                    variables(&data.dark)
                ),
            ),
            ("style", STYLE),
            ("uplot_style", UPLOT_STYLE),
            ("contents", &contents(document)),
            ("claims", &claims(document)),
            ("facts", &facts(document)),
            ("figures", &figures),
            ("colophon", &colophon(document)),
            ("data", &embed(&data)),
            ("uplot_script", UPLOT_SCRIPT),
            ("script", SCRIPT),
        ],
    )
}

/// What the script needs.
#[derive(Serialize)]
struct Data {
    light: Palette,
    dark: Palette,
    dashes: [&'static [u32]; 5],
    shapes: [&'static str; 5],
    panels: Vec<Plot>,
}

/// One plot, framed and worded; the script neither rounds nor chooses ticks.
#[derive(Serialize)]
struct Plot {
    title: String,
    x: Extent,
    x_name: String,
    x_unit: String,
    x_caption: String,
    y: Extent,
    y_unit: String,
    rules: Vec<(String, f64)>,
    /// Upright lines: name, x, and the series that it belongs to.
    marks: Vec<(String, f64, Option<usize>)>,
    /// What the source gives: x, the least, the most, and the series.
    spots: Vec<(f64, f64, f64, Option<usize>)>,
    series: Vec<Curve>,
}

#[derive(Serialize)]
struct Curve {
    label: String,
    style: usize,
    x: Vec<f64>,
    x_text: Vec<String>,
    y: Vec<Option<f64>>,
    low: Vec<Option<f64>>,
    high: Vec<Option<f64>>,
    /// What the legend says at this point: value and spread.
    text: Vec<(String, String)>,
    /// From, until, and from in words.
    unstable: Vec<(f64, Option<f64>, String)>,
}

impl Plot {
    fn new(panel: &Panel, styles: &Styles) -> Self {
        let frame = frame::frame(panel);
        let across = panel.rules.iter().filter_map(|rule| Some((rule, rule.height()?)));
        let upright = panel.rules.iter().filter_map(|rule| Some((rule, rule.place()?)));
        let spots = panel.rules.iter().filter_map(|rule| Some((rule, rule.spot()?)));
        let place = |rule: &Rule| {
            panel.series.iter().position(|series| Some(&series.label) == rule.series.as_ref())
        };
        Self {
            title: panel.title.clone(),
            x_name: panel.x.label.clone(),
            x_unit: panel.x.unit.clone(),
            x_caption: frame::caption(&panel.x),
            y_unit: panel.y.unit.clone(),
            rules: across.map(|(rule, y)| (rule.label.clone(), y)).collect(),
            marks: upright.map(|(rule, x)| (rule.label.clone(), x, place(rule))).collect(),
            spots: spots.map(|(rule, (x, low, high))| (x, low, high, place(rule))).collect(),
            series: panel
                .series
                .iter()
                .map(|series| Curve::new(series, styles.style(&series.label), panel, &frame.y))
                .collect(),
            x: frame.x,
            y: frame.y,
        }
    }
}

impl Curve {
    fn new(series: &Series, style: usize, panel: &Panel, y: &Extent) -> Self {
        // A logarithmic axis has no place for zero and below; the table of values still has them.
        let drawn = |value: Option<f64>| value.filter(|v| v.is_finite() && (!y.log || *v > 0.0));
        let mut curve = Self {
            label: frame::name(series),
            style,
            x: Vec::new(),
            x_text: Vec::new(),
            y: Vec::new(),
            low: Vec::new(),
            high: Vec::new(),
            text: Vec::new(),
            unstable: frame::unstable(series)
                .into_iter()
                .map(|(from, until)| (from, until, coordinate(from)))
                .collect(),
        };
        for point in series.points.iter().filter(|point| point.x.is_finite()) {
            let value = if point.stable { drawn(point.y) } else { None };
            curve.x.push(point.x);
            curve.x_text.push(coordinate(point.x));
            curve.y.push(value);
            curve.low.push(value.and(point.low.filter(|low| low.is_finite())));
            curve.high.push(value.and(drawn(point.high)));
            curve.text.push(match (point.stable, point.y) {
                (false, _) => ("unstable".into(), String::new()),
                (true, None) => (NOT_ENOUGH.into(), String::new()),
                (true, Some(value)) => (
                    words::with_unit(value, &panel.y.unit),
                    match (point.low, point.high) {
                        (Some(low), Some(high)) if low != high => words::range(low, high),
                        _ => String::new(),
                    },
                ),
            });
        }
        curve
    }
}

/// JSON that cannot end the script element it stands in: every `<` is written as an escape.
fn embed(data: &Data) -> String {
    serde_json::to_string(data).expect("plain fields").replace('<', "\\u003c")
}

/// Replaces `{{name}}` in one pass, so that a document may contain such words itself.
fn fill(template: &str, parts: &[(&str, &str)]) -> String {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").expect("the template closes its braces");
        let (_, part) = parts.iter().find(|(known, _)| *known == name).expect("a known part");
        out.push_str(before);
        out.push_str(part);
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Escaped text in which what stands between two backticks is code.
fn prose(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, code, after)) = quoted(rest) {
        let _ = write!(out, "{}<code>{}</code>", escape(before), escape(code));
        rest = after;
    }
    out + &escape(rest)
}

/// The first stretch between two backticks, with what stands before and after it.
fn quoted(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('`')?;
    let (code, after) = rest.split_once('`').filter(|(code, _)| !code.is_empty())?;
    Some((before, code, after))
}

fn variables(palette: &Palette) -> String {
    let mut out = format!(
        ":root {{ --paper: {}; --ink: {}; --muted: {}; --grid: {}; }}",
        palette.paper, palette.ink, palette.muted, palette.grid
    );
    out.truncate(out.len() - 2);
    for (index, color) in palette.curves.iter().enumerate() {
        let _ = write!(out, " --curve-{index}: {color};");
    }
    out.push_str(" }");
    out
}

fn anchor(figure: &Figure) -> String {
    format!("figure-{}", slug(&figure.id))
}

fn contents(document: &Document) -> String {
    if document.figures.len() < 2 {
        return String::new();
    }
    let mut out = String::from("<nav id=\"contents\" aria-label=\"Contents\"><h2>Contents</h2>");
    let part = |name: &str, id: &str| format!("<p><a href=\"#{id}\">{name}</a></p>");
    if !document.claims.is_empty() {
        out.push_str(&part("Claims", "claims"));
    }
    out.push_str("<ol>");
    for figure in &document.figures {
        let _ =
            write!(out, "<li><a href=\"#{}\">{}</a></li>", anchor(figure), escape(&figure.title));
    }
    out.push_str("</ol>");
    if !document.facts.is_empty() {
        out.push_str(&part("How it was measured", "facts"));
    }
    out.push_str("</nav><a class=\"up\" href=\"#top\">Top</a>");
    out
}

fn claims(document: &Document) -> String {
    if document.claims.is_empty() {
        return String::new();
    }
    let reviewed = document.claims.iter().any(|claim| claim.reviewers.is_some());
    let mut out = format!(
        "<section id=\"claims\"><h2>Claims</h2><p class=\"tally\">{}.</p>\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Claims\">\
         <table class=\"claims\"><thead><tr><th scope=\"col\">Claim</th>\
         <th scope=\"col\">Published</th>",
        escape(&tally(&document.claims))
    );
    if reviewed {
        out.push_str("<th scope=\"col\">Reviewers</th>");
    }
    out.push_str(
        "<th scope=\"col\">Ours</th><th scope=\"col\">Accepted</th>\
         <th scope=\"col\">Verdict</th></tr></thead>",
    );
    let columns = if reviewed { 6 } else { 5 };
    let measured = document.claims.iter().filter(|claim| !claim.is_unmeasured()).count();
    let is_folded = |claim: &Claim| {
        claim.is_unmeasured() || measured > SHOWN_CLAIMS && claim.verdict == Verdict::Reproduced
    };
    for (heading, group) in grouped(&document.claims, Claim::heading) {
        let figure = document.figures.iter().find(|figure| group[0].is_about(figure));
        let heading = match figure {
            Some(figure) => format!(
                "<a href=\"#{}\">{}</a> <span>{}</span>",
                anchor(figure),
                escape(&figure.title),
                escape(&heading)
            ),
            None => escape(&heading),
        };
        let _ = write!(
            out,
            "<tbody><tr class=\"group\"><th colspan=\"{columns}\" \
             scope=\"rowgroup\">{heading}</th></tr>"
        );
        let (folded, shown): (Vec<&Claim>, Vec<&Claim>) =
            group.into_iter().partition(|claim| is_folded(claim));
        for claim in shown {
            push_claim(&mut out, claim, reviewed, columns, true);
        }
        for (verdict, claims) in grouped(folded, |claim| claim.verdict) {
            push_folded(&mut out, verdict, &claims, reviewed, columns);
        }
        out.push_str("</tbody>");
    }
    out.push_str("</table></div></section>");
    out
}

/// In a report with more measured claims than this, those that are reproduced are folded, figure by
/// figure. A reader looks for the others first, and with all claims unfolded the largest report
/// would have more than the 15,000 nodes that it may have. (How long it takes to open depends more
/// on the figures; see `.figure` in `report.css`.)
const SHOWN_CLAIMS: usize = 400;

/// Claims that need not be seen at once, folded where they are many: those without a value, and in
/// long reports those that are reproduced.
fn push_folded(
    out: &mut String,
    verdict: Verdict,
    claims: &[&Claim],
    reviewed: bool,
    columns: usize,
) {
    const SHOWN: usize = 3;
    if claims.len() <= SHOWN {
        return claims.iter().for_each(|claim| push_claim(out, claim, reviewed, columns, true));
    }
    let _ = write!(
        out,
        "<tr class=\"unjudged\"><td colspan=\"{columns}\"><details><summary>{} {}</summary>\
         <noscript><table class=\"claims\"><tbody>",
        claims.len(),
        verdict.words()
    );
    // Their own folded parts cannot be held back a second time.
    claims.iter().for_each(|claim| push_claim(out, claim, reviewed, columns, false));
    out.push_str("</tbody></table></noscript></details></td></tr>");
}

/// A claim; `held` when its folded part may wait until it is opened.
fn push_claim(out: &mut String, claim: &Claim, reviewed: bool, columns: usize, held: bool) {
    let _ = write!(
        out,
        "<tr class=claim id=\"claim-{}\"><td class=statement>{}<td data-name=Published>{}",
        slug(&claim.id),
        prose(&claim.statement),
        escape(&claim.published)
    );
    if reviewed {
        let _ = match &claim.reviewers {
            Some(reviewers) => {
                write!(out, "<td data-name=Reviewers>{}", escape(reviewers))
            }
            None => write!(out, "<td data-name=Reviewers class=none>–"),
        };
    }
    let spread = claim.spread();
    let spread =
        if spread.is_empty() { spread } else { format!("<small>{}</small>", escape(&spread)) };
    let accepted = match claim.accepted() {
        none if none.is_empty() => "–".into(),
        some => escape(&some),
    };
    let _ = write!(
        out,
        "<td data-name=Ours><b>{}</b>{spread}<td data-name=Accepted>{accepted}\
         <td data-name=Verdict><span class=\"verdict {}\">{}</span>\
         <tr class=evidence><td colspan={columns}>",
        escape(&claim.ours()),
        claim.verdict.slug(),
        claim.verdict.words(),
    );
    if !claim.evidence.is_empty() {
        let _ = write!(out, "<p>{}</p>", prose(&claim.evidence));
    }
    let (hold, release) = if held { ("<noscript>", "</noscript>") } else { ("", "") };
    let _ = write!(out, "<details><summary>{}</summary>{hold}<dl>", escape(&claim.id));
    for (name, value) in [
        ("Source", escape(&claim.source)),
        ("Tolerance", prose(&claim.tolerance_reason)),
        ("Samples", count(claim.samples)),
    ] {
        if !value.is_empty() {
            let _ = write!(out, "<dt>{name}<dd>{value}");
        }
    }
    if !claim.repeat.is_empty() {
        let _ = write!(out, "<dt>Repeat<dd>{}", command(&claim.repeat));
    }
    let _ = write!(out, "</dl>{release}</details>");
}

fn command(text: &str) -> String {
    format!("<span class=command><code>{}</code></span>", escape(text))
}

fn facts(document: &Document) -> String {
    if document.facts.is_empty() {
        return String::new();
    }
    let mut out =
        String::from("<section id=\"facts\"><details><summary>How it was measured</summary><dl>");
    for (name, value) in &document.facts {
        let _ = write!(out, "<dt>{}</dt><dd>{}</dd>", escape(name), prose(value));
    }
    out.push_str("</dl></details></section>");
    out
}

fn push_figure(
    out: &mut String,
    figure: &Figure,
    number: usize,
    styles: &Styles,
    plots: &mut Vec<Plot>,
) {
    let _ = write!(
        out,
        "<section class=\"figure\" id=\"{}\"><h2><span class=\"number\">{number}</span> {}</h2>",
        anchor(figure),
        escape(&figure.title)
    );
    if !figure.shows.is_empty() {
        let _ = write!(out, "<p class=\"shows\">{}</p>", prose(&figure.shows));
    }
    if !figure.claimed.is_empty() || !figure.found.is_empty() {
        out.push_str("<dl class=\"findings\">");
        for (name, text) in [("The source", &figure.claimed), ("We found", &figure.found)] {
            if !text.is_empty() {
                let _ = write!(out, "<div><dt>{name}</dt><dd>{}</dd></div>", prose(text));
            }
        }
        out.push_str("</dl>");
    }
    // What a reader came for stands before how it was found.
    let (answers, others): (Vec<&Table>, Vec<&Table>) =
        figure.tables.iter().partition(|table| table.id.starts_with("ranking"));
    let (long, short): (Vec<&Table>, Vec<&Table>) =
        others.into_iter().partition(|table| is_folded(table));
    answers.into_iter().for_each(|table| push_table(out, table, number));
    if !figure.maps.is_empty() {
        out.push_str("<div class=\"panels only maps\">");
        figure.maps.iter().for_each(|map| out.push_str(&map::html(map, number)));
        out.push_str("</div>");
    }
    push_panels(out, figure, styles, plots);
    short.into_iter().chain(long).for_each(|table| push_table(out, table, number));
    if !figure.command.is_empty() {
        let _ = write!(out, "<p class=\"repeat\">Repeat: {}</p>", command(&figure.command));
    }
    out.push_str("</section>");
}

/// The command that gives a figure of a source the samples that a quick run lacks.
fn longer(figure: &Figure) -> String {
    let quick = figure.command.contains(" reproduce ") && !figure.command.contains("--full");
    match quick {
        true => format!(" It needs {}.", command(&format!("{} --full", figure.command))),
        false => String::new(),
    }
}

/// The panels that have something to show, and the names of those that do not.
fn push_panels(out: &mut String, figure: &Figure, styles: &Styles, plots: &mut Vec<Plot>) {
    let (drawn, empty): (Vec<&Panel>, Vec<&Panel>) =
        figure.panels.iter().partition(|panel| shows_something(panel));
    if !drawn.is_empty() {
        let only = if drawn.len() == 1 { " only" } else { "" };
        let _ = write!(out, "<div class=\"panels{only}\">");
        for panel in drawn {
            let index = is_plot(panel).then_some(plots.len());
            push_panel(out, panel, index);
            plots.extend(index.map(|_| Plot::new(panel, styles)));
        }
        out.push_str("</div>");
    }
    if !empty.is_empty() {
        let titles: Vec<String> = empty.iter().map(|panel| escape(&panel.title)).collect();
        let _ = write!(
            out,
            "<p class=\"undrawn\">Not drawn, because this run measured no point of it: {}.{}</p>",
            titles.join("; "),
            longer(figure),
        );
    }
}

/// Where there is a point to draw, or a stretch to call unstable.
fn places(panel: &Panel) -> impl Iterator<Item = f64> {
    let points = panel.series.iter().flat_map(|series| &series.points);
    let seen = points.filter(|point| !point.stable || point.y.is_some_and(f64::is_finite));
    seen.map(|point| point.x).filter(|x| x.is_finite())
}

fn shows_something(panel: &Panel) -> bool {
    places(panel).next().is_some()
}

/// Are there points at several x? Of one, a table says more than a plot.
fn is_plot(panel: &Panel) -> bool {
    let spots = panel.rules.iter().filter_map(Rule::spot).map(|(x, ..)| x);
    let mut all = places(panel).chain(spots);
    let first = all.next();
    all.any(|x| Some(x) != first)
}

/// A plot with its values, or the values alone where it has no `index` among the plots.
fn push_panel(out: &mut String, panel: &Panel, index: Option<usize>) {
    let title = escape(&panel.title);
    let _ = write!(
        out,
        "<figure class=\"panel\"><figcaption><b>{title}</b><span class=\"y\">{}</span>\
         </figcaption>",
        escape(&frame::head(panel)),
    );
    let name = match index {
        Some(index) => {
            let _ = write!(
                out,
                "<div class=\"plot\" data-plot=\"{index}\"></div>\
                 <details class=\"values\"><summary>Values</summary><noscript>"
            );
            format!("Values of plot {}", index + 1)
        }
        None => "Values".to_string(),
    };
    let _ = write!(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{name}: {title}\">\
         <table class=\"data\"><thead><tr>",
    );
    push_values(out, panel);
    out.push_str("</table></div>");
    out.push_str(if index.is_some() { "</noscript></details></figure>" } else { "</figure>" });
}

/// Head and rows of the table of a panel's points.
fn push_values(out: &mut String, panel: &Panel) {
    let x = if panel.x.unit.is_empty() {
        panel.x.label.clone()
    } else {
        format!("{} ({})", panel.x.label, panel.x.unit)
    };
    let unit = if panel.y.unit.is_empty() { String::new() } else { format!(" ({})", panel.y.unit) };
    let unit = escape(&unit);
    let _ = write!(
        out,
        "<th scope=\"col\">{}</th><th scope=\"col\">Value{unit}</th><th scope=\"col\">Low</th>\
         <th scope=\"col\">High</th><th scope=\"col\">Samples</th>\
         <th scope=\"col\" class=\"t\">State</th></tr></thead>",
        escape(&x),
    );
    for series in &panel.series {
        let _ = write!(
            out,
            "<tbody><tr><th colspan=\"6\" scope=\"rowgroup\">{}</th></tr>",
            escape(&series.label)
        );
        for point in &series.points {
            let number = |value: Option<f64>| value.map(significant).unwrap_or_default();
            let state = match (point.stable, point.y) {
                (false, _) => "unstable",
                (true, None) => NOT_ENOUGH,
                (true, Some(_)) => "stable",
            };
            let _ = write!(
                out,
                "<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td class=t>{state}",
                coordinate(point.x),
                number(point.y),
                number(point.low),
                number(point.high),
                count(point.samples),
            );
        }
        out.push_str("</tbody>");
    }
}

/// Longer tables are folded.
const SHOWN_ROWS: usize = 12;

/// Is it folded: because it has all points or is long, or because most of it has no value?
fn is_folded(table: &Table) -> bool {
    let cells = || table.rows.iter().flatten().filter(|cell| !matches!(cell, Cell::Text(_)));
    let missing = cells().filter(|cell| matches!(cell, Cell::Missing(_))).count();
    let hollow = table.rows.len() > 1 && missing * 2 > cells().count();
    // Whoever has a handful of points looks at them at once.
    const FEW: usize = 3;
    let points = table.id == "points" && table.rows.len() > FEW;
    !table.title.is_empty() && (points || table.rows.len() > SHOWN_ROWS || hollow)
}

/// `number` is that of the figure: many figures have a table of all points, and whoever jumps from
/// region to region hears which one it is.
fn push_table(out: &mut String, table: &Table, number: usize) {
    let class: Vec<&str> = (0..table.columns.len())
        .map(|column| if words::is_numeric(&table.rows, column) { "" } else { " class=t" })
        .collect();
    let class = |column: usize| class.get(column).copied().unwrap_or("");
    let title = escape(&table.title);
    let folded = is_folded(table);
    if folded {
        let what = match table.rows.len() {
            rows if rows > SHOWN_ROWS || table.id == "points" => format!("{rows} rows"),
            _ => "mostly without values".to_string(),
        };
        let _ =
            write!(out, "<details class=\"long\"><summary>{title} ({what})</summary><noscript>");
    }
    // On a narrow screen each row of a short table becomes a card.
    let cards = if folded { "" } else { " cards" };
    let _ = write!(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}, figure {number}\">\
         <table class=\"data{cards}\">",
        if title.is_empty() { "Table" } else { &title }
    );
    if !folded && !title.is_empty() {
        let _ = write!(out, "<caption>{title}</caption>");
    }
    out.push_str("<thead><tr>");
    for (column, head) in table.columns.iter().enumerate() {
        let _ = write!(out, "<th scope=\"col\"{}>{}</th>", class(column), escape(head));
    }
    out.push_str("</tr></thead><tbody>");
    for row in &table.rows {
        out.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            let content = match cell {
                Cell::Text(text) => prose(text),
                Cell::Number(value) => significant(*value),
                Cell::Setting(value) => coordinate(*value),
                Cell::Interval { value, low, high } => {
                    format!("{}<small>{}</small>", significant(*value), words::range(*low, *high))
                }
                Cell::Missing(why) => format!("<i>{}</i>", escape(why)),
            };
            let name = match table.columns.get(column).filter(|_| !folded) {
                Some(name) => format!(" data-name=\"{}\"", escape(name)),
                None => String::new(),
            };
            let _ = write!(out, "<td{}{name}>{content}", class(column));
        }
    }
    out.push_str("</tbody></table></div>");
    if folded {
        out.push_str("</noscript></details>");
    }
}

fn colophon(document: &Document) -> String {
    let mut out = String::from("<dl>");
    for (name, value) in [
        ("Command", command(&document.command)),
        ("Version", escape(&document.version)),
        ("Seed", format!("{:#x}", document.seed)),
        ("Digest", format!("<code>{}</code>", escape(&document.digest))),
        ("Elapsed", words::duration(document.elapsed_s)),
    ] {
        let _ = write!(out, "<dt>{name}</dt><dd>{value}</dd>");
    }
    out.push_str("</dl>");
    if let Some(plan) = &document.plan {
        push_plan(&mut out, plan);
    }
    out
}

/// The plan, folded, and what else somebody needs to run it again.
fn push_plan(out: &mut String, plan: &PlanText) {
    let _ = write!(
        out,
        "<details class=\"plan\"><summary>The plan that was run</summary><p>Save it as \
         <code>{}</code> and repeat the command above.",
        escape(if plan.name == "-" { "plan.toml" } else { &plan.name })
    );
    if !plan.files.is_empty() {
        let files: Vec<String> =
            plan.files.iter().map(|file| format!("<code>{}</code>", escape(file))).collect();
        let _ = write!(
            out,
            " It reads measured data that is not in this report: {}.",
            files.join(", ")
        );
    }
    out.push_str("</p>");
    if !plan.overrides.is_empty() {
        let each: Vec<String> =
            plan.overrides.iter().map(|one| format!("<code>{}</code>", escape(one))).collect();
        let _ = write!(out, "<p>Values that were replaced: {}.</p>", each.join(", "));
    }
    let _ = write!(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Plan\">\
         <pre><code>{}</code></pre></div></details>",
        escape(&plan.text)
    );
}
