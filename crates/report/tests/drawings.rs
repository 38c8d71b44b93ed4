//! What readers see: reviewed text for terminal and Markdown, and facts about the rest.
#![allow(non_snake_case)]

use cavy_report::model::{
    Axis, Cell, Claim, Document, Figure, Panel, Point, Rule, Scale, Series, Table, Verdict,
};
use cavy_report::{Styles, Theme, html, markdown, series, svg, terminal, words};

const HOSTILE: &str = "</script><script>alert(1)</script> & \"quoted\" 'too' {{style}} <!-- | `x`";

fn claim(name: &str, value: Option<f64>, verdict: Verdict) -> Claim {
    Claim {
        id: format!("specimen.fig1.{name}"),
        system: "specimen".into(),
        figure: "fig1".into(),
        source: "section 5, figure 1".into(),
        statement: "Reserving sustains more load than first come, first served.".into(),
        published: "2.35x".into(),
        reviewers: None,
        unit: "x".into(),
        value,
        low: value.map(|value| value * 0.97),
        high: value.map(|value| value * 1.04),
        tolerance: Some((2.1, 2.6)),
        tolerance_reason: "seeds differ by 6 %".into(),
        samples: 6_000_000,
        verdict,
        evidence: String::new(),
        repeat: format!("cavy reproduce specimen.fig1.{name}"),
    }
}

fn claims() -> Vec<Claim> {
    let mut claims = vec![
        claim("capacity", Some(2.283), Verdict::Reproduced),
        claim("short", Some(3.1), Verdict::Explained),
        claim("rare", None, Verdict::TooShort),
        claim("miss", Some(12_345.0), Verdict::NotReproduced),
    ];
    claims[0].reviewers = Some("2.3x to 2.4x".into());
    claims[1].evidence =
        "The published figure counts the client's time, which the lab leaves out; with it added \
         the value is 2.4x."
            .into();
    claims[2].evidence = "A quick run has 60 samples there.".into();
    claims[3].unit = "us".into();
    claims[3].tolerance = Some((100.0, f64::INFINITY));
    claims[3].published = "a | b".into();
    claims
}

fn table() -> Table {
    Table {
        id: "capacity".into(),
        title: "Load sustained within the objective".into(),
        columns: ["policy", "load (krps)", "p99.9 (us)", "note"].map(str::to_owned).to_vec(),
        rows: vec![
            vec![
                Cell::Text("reserving".into()),
                Cell::Number(4310.0),
                Cell::Interval { value: 18.42, low: 17.9, high: 19.06 },
                Cell::Text("meets *the* objective | always".into()),
            ],
            vec![
                Cell::Text("first come, first served".into()),
                Cell::Missing("n/a (40 samples)".into()),
                Cell::Missing("unstable".into()),
                Cell::Text(String::new()),
            ],
            vec![
                Cell::Text("broken".into()),
                Cell::Number(f64::NAN),
                Cell::Number(f64::INFINITY),
                Cell::Text("not a number, and no end".into()),
            ],
        ],
    }
}

/// A panel drawn alone.
fn picture(panel: &Panel, theme: Theme) -> String {
    svg::panel(panel, &Styles::of_panels([panel].into_iter()), theme)
}

fn point(x: f64, y: Option<f64>, stable: bool) -> Point {
    let (low, high) = (y.map(|y| y * 0.9), y.map(|y| y * 1.1));
    Point { x, y, low, high, samples: 1000, stable }
}

fn panel(series: Vec<Series>, scale: Scale) -> Panel {
    let axis = |label: &str, scale| Axis {
        label: label.into(),
        unit: "us".into(),
        scale,
        min: None,
        max: None,
    };
    Panel {
        id: "panel".into(),
        title: "Panel".into(),
        x: axis("load", Scale::Linear),
        y: axis("latency", scale),
        series,
        rules: vec![
            Rule::across("objective: 20 us", 20.0),
            Rule::upright("phase 2", 0.5),
            Rule::of_series("lonely", "0.93", 0.93),
            Rule::upright("nowhere", f64::NAN),
        ],
    }
}

fn line(label: &str, points: Vec<Point>) -> Series {
    Series { label: label.into(), points }
}

/// Panels at the edges of what can be drawn.
fn edges() -> Vec<Panel> {
    let unstable = line("lost", vec![point(0.1, None, false), point(0.2, None, false)]);
    let broken = Point { low: Some(f64::NEG_INFINITY), ..point(f64::NAN, Some(f64::NAN), true) };
    let mut panels = Vec::new();
    for scale in [Scale::Linear, Scale::Log] {
        panels.extend([
            panel(vec![], scale),
            panel(vec![line("empty", vec![])], scale),
            panel(vec![unstable.clone()], scale),
            panel(vec![line("lonely", vec![point(1.0, Some(3.0), true)])], scale),
            panel(vec![line("zero", vec![point(0.0, Some(0.0), true)])], scale),
            panel(vec![line("negative", vec![point(-1.0, Some(-5.0), true)])], scale),
            panel(vec![line("broken", vec![broken, point(0.5, Some(1e300), true)])], scale),
        ]);
    }
    panels
}

fn document(panels: Vec<Panel>, tables: Vec<Table>, claims: Vec<Claim>) -> Document {
    Document {
        title: "Specimen".into(),
        summary: "Made up.".into(),
        command: "cavy reproduce specimen".into(),
        version: "cavy 0.1.0".into(),
        seed: 42,
        digest: "9f2c".into(),
        elapsed_s: 3.0,
        facts: vec![("Servers".into(), "14".into())],
        plan: None,
        claims,
        figures: vec![Figure {
            id: "specimen.fig1".into(),
            title: "Figure".into(),
            shows: "It shows.".into(),
            claimed: "They say.".into(),
            found: "We found.".into(),
            command: "cavy reproduce specimen.fig1".into(),
            panels,
            maps: Vec::new(),
            tables,
        }],
    }
}

/// The embedded data of a page, as a browser would read it.
fn data(page: &str) -> serde_json::Value {
    let (_, rest) = page.split_once("<script id=\"data\" type=\"application/json\">").unwrap();
    let (text, _) = rest.split_once("</script>").unwrap();
    serde_json::from_str(text).unwrap()
}

#[test]
fn terminal_claims__at_80_columns() {
    insta::assert_snapshot!(terminal::claims(&claims(), 80, false));
}

#[test]
fn terminal_claims__at_120_columns() {
    insta::assert_snapshot!(terminal::claims(&claims(), 120, false));
}

/// What could not be judged takes a line for each reason, not a row for each claim.
#[test]
fn terminal_claims__many_that_are_too_short() {
    let rare = claims().into_iter().find(|claim| claim.verdict == Verdict::TooShort).unwrap();
    let many = |count: usize| {
        let one = |at| Claim { id: format!("specimen.fig1.rare{at}"), ..rare.clone() };
        terminal::claims(&(1..=count).map(one).collect::<Vec<_>>(), 80, false)
    };
    insta::assert_snapshot!(many(2) + "\n" + &many(9));
}

#[test]
fn page_claims__many_that_are_too_short_are_folded() {
    let rare = claims().into_iter().find(|claim| claim.verdict == Verdict::TooShort).unwrap();
    let one = |at| Claim { id: format!("specimen.fig1.rare{at}"), ..rare.clone() };
    let mut all = claims();
    all.extend((1..=9).map(one));
    let page = html::render(&document(vec![], vec![], all));
    assert!(page.contains("<summary>10 too short to judge</summary>"));
    assert_eq!(page.matches("id=\"claim-specimen.fig1.rare").count(), 10, "all are there");
}

#[test]
fn page_claims__in_long_reports_those_that_are_reproduced_are_folded() {
    let good = |at| claim(&format!("good{at}"), Some(2.283), Verdict::Reproduced);
    // Rows that a browser makes when it opens the page: what is folded is one text until then.
    let rows = |count| {
        let mut all = claims();
        all.extend((0..count).map(good));
        let page = html::render(&document(vec![], vec![], all));
        let unheld = page.split("<noscript>").enumerate().map(|(at, part)| match at {
            0 => part,
            _ => part.split_once("</noscript>").expect("it ends").1,
        });
        (unheld.map(|part| part.matches("<tr class=claim").count()).sum::<usize>(), page)
    };
    let (few, page) = rows(300);
    assert_eq!(few, 304, "all are seen");
    assert!(!page.contains("<summary>301 reproduced"));
    let (many, page) = rows(900);
    assert_eq!(many, 3, "what is not reproduced is seen");
    assert!(page.contains("<summary>901 reproduced</summary>"));
    assert_eq!(page.matches("id=\"claim-specimen.fig1.good").count(), 900, "all are there");
}

#[test]
fn terminal_table__every_kind_of_cell() {
    insta::assert_snapshot!(terminal::table(&table(), 80, false));
}

#[test]
fn terminal__stays_within_the_width() {
    for width in [40, 60, 80, 100, 120, 160] {
        let text =
            terminal::claims(&claims(), width, false) + &terminal::table(&table(), width, false);
        for line in text.lines() {
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
    }
}

#[test]
fn terminal__color_only_when_asked() {
    assert!(!terminal::claims(&claims(), 80, false).contains('\u{1b}'));
    assert!(!terminal::table(&table(), 80, false).contains('\u{1b}'));
    assert!(terminal::claims(&claims(), 80, true).contains('\u{1b}'));
}

#[test]
fn markdown_claims__is_one_table() {
    insta::assert_snapshot!(markdown::claims(&claims()));
}

#[test]
fn markdown_table__every_kind_of_cell() {
    insta::assert_snapshot!(markdown::table(&table()));
}

#[test]
fn tally__counts_every_verdict() {
    assert_eq!(
        words::tally(&claims()),
        "4 claims: 1 reproduced, 1 explained, 1 not reproduced, 1 too short to judge"
    );
    assert_eq!(words::tally(&[]), "0 claims: 0 reproduced, 0 explained, 0 not reproduced");
}

#[test]
fn html__escapes_every_string() {
    let mut claim = claim("capacity", Some(1.0), Verdict::Explained);
    for field in [
        &mut claim.source,
        &mut claim.statement,
        &mut claim.published,
        &mut claim.tolerance_reason,
        &mut claim.evidence,
        &mut claim.repeat,
        &mut claim.unit,
        &mut claim.id,
    ] {
        *field = HOSTILE.into();
    }
    claim.reviewers = Some(HOSTILE.into());
    let points = vec![point(1.0, Some(2.0), true), point(2.0, Some(2.0), true)];
    let mut panel = panel(vec![line(HOSTILE, points)], Scale::Linear);
    panel.title = HOSTILE.into();
    panel.rules[0].label = HOSTILE.into();
    for axis in [&mut panel.x, &mut panel.y] {
        axis.label = HOSTILE.into();
        axis.unit = HOSTILE.into();
    }
    let table = Table {
        id: HOSTILE.into(),
        title: HOSTILE.into(),
        columns: vec![HOSTILE.into(), HOSTILE.into()],
        rows: vec![vec![Cell::Text(HOSTILE.into()), Cell::Missing(HOSTILE.into())]],
    };
    let mut document = document(vec![panel.clone()], vec![table], vec![claim]);
    for field in [
        &mut document.title,
        &mut document.summary,
        &mut document.command,
        &mut document.version,
        &mut document.digest,
    ] {
        *field = HOSTILE.into();
    }
    document.facts = vec![(HOSTILE.into(), HOSTILE.into())];
    let figure = &mut document.figures[0];
    for field in [
        &mut figure.id,
        &mut figure.title,
        &mut figure.shows,
        &mut figure.claimed,
        &mut figure.found,
        &mut figure.command,
    ] {
        *field = HOSTILE.into();
    }
    let page = html::render(&document);
    assert!(!page.contains("<script>alert"));
    assert_eq!(page.matches("</script>").count(), 3, "data, uPlot, ours");
    assert!(!page.contains("<!-- |"));
    assert!(page.contains("&lt;script&gt;alert(1)"));
    assert_eq!(data(&page)["panels"][0]["series"][0]["label"], HOSTILE);

    let picture = picture(&panel, Theme::Dark);
    assert!(!picture.contains("<script") && !picture.contains("</script"));
}

#[test]
fn legend__says_who_has_no_points() {
    let none = line("absent", vec![point(1.0, None, true)]);
    let there = line("there", vec![point(1.0, Some(2.0), true)]);
    let lost = line("lost", vec![point(2.0, None, false)]);
    let panel = panel(vec![none, there, lost], Scale::Linear);
    let picture = picture(&panel, Theme::Light);
    assert!(picture.contains("absent (no points)"));
    assert!(picture.contains("there") && !picture.contains("there (no points)"));
    assert!(picture.contains("lost") && !picture.contains("lost (no points)"));
    let page = html::render(&document(vec![panel], vec![], vec![]));
    let labels = [0, 1, 2].map(|i| data(&page)["panels"][0]["series"][i]["label"].clone());
    assert_eq!(labels, ["absent (no points)", "there", "lost"]);
}

#[test]
fn html__loads_nothing() {
    let page = html::render(&document(edges(), vec![table()], claims()));
    for reference in [" src=", "@import", "url(", "<link rel=\"stylesheet"] {
        assert!(!page.contains(reference), "{reference}");
    }
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn html__empty_document_is_a_page() {
    let mut empty = document(vec![], vec![], vec![]);
    empty.figures.clear();
    empty.facts.clear();
    let page = html::render(&empty);
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    assert!(!page.contains("{{") && !page.contains("id=\"claims\""));
    assert_eq!(data(&page)["panels"].as_array().unwrap().len(), 0);
}

#[test]
fn html__values_and_states_are_in_the_page_without_scripts() {
    let points = vec![
        point(0.5, Some(12.34), true),
        point(0.7, None, true),
        point(0.8, Some(9999.0), false),
    ];
    let page =
        html::render(&document(vec![panel(vec![line("a", points)], Scale::Log)], vec![], vec![]));
    for text in ["12.3", "too few samples", "unstable", "<noscript>"] {
        assert!(page.contains(text), "{text}");
    }
    let curve = &data(&page)["panels"][0]["series"][0];
    assert!(curve["y"][2].is_null(), "an unstable point is never drawn");
    assert_eq!(curve["unstable"][0][0], 0.8);
}

#[test]
fn html__an_empty_panel_is_named_and_not_drawn() {
    let mut none = panel(vec![line("a", vec![point(1.0, None, true)])], Scale::Linear);
    none.title = "nothing <here>".into();
    let points = vec![point(1.0, None, false), point(2.0, None, false)];
    let lost = panel(vec![line("a", points)], Scale::Linear);
    let page = html::render(&document(vec![none, lost], vec![], vec![]));
    assert_eq!(data(&page)["panels"].as_array().unwrap().len(), 1, "unstable is something to show");
    assert!(page.contains("measured no point of it: nothing &lt;here&gt;. It needs "));
    assert!(page.contains("--full</code>"));
}

#[test]
fn html__points_at_one_x_are_a_table() {
    let at = |x| panel(vec![line("a", vec![point(1.0, Some(2.0), true), x])], Scale::Linear);
    let one = at(point(2.0, None, true));
    let page = html::render(&document(vec![one, at(point(2.0, Some(3.0), true))], vec![], vec![]));
    assert_eq!(data(&page)["panels"].as_array().unwrap().len(), 1);
    assert_eq!(page.matches("data-plot=").count(), 1);
    assert!(page.contains("aria-label=\"Values: Panel\"><table"), "shown at once");
    assert!(page.contains(
        "<noscript><div class=\"scroll\" tabindex=\"0\" role=\"region\" \
                           aria-label=\"Values of plot 1: Panel\">"
    ));
}

#[test]
fn html__a_label_has_one_style() {
    let of = |labels: [&str; 2]| {
        let one =
            |label| line(label, vec![point(1.0, Some(2.0), true), point(2.0, Some(2.0), true)]);
        panel(labels.map(one).to_vec(), Scale::Linear)
    };
    let page = html::render(&document(vec![of(["a", "b"]), of(["b", "c"])], vec![], vec![]));
    let style = |panel: usize, series: usize| {
        data(&page)["panels"][panel]["series"][series]["style"].as_u64().unwrap()
    };
    assert_eq!(style(0, 1), style(1, 0), "b looks the same in both");
    assert!(style(0, 0) != style(1, 1), "a and c share no plot and differ all the same");
}

#[test]
fn html__code_has_no_backticks() {
    let mut document = document(vec![], vec![], vec![]);
    document.summary = "`--full` runs <all>; a lone ` stays".into();
    let page = html::render(&document);
    assert!(page.contains("<code>--full</code> runs &lt;all&gt;; a lone ` stays"));
}

#[test]
fn html__the_ranking_comes_first_and_long_tables_are_folded() {
    let mut ranking = table();
    (ranking.id, ranking.title) = ("ranking-0".into(), "who is best".into());
    let mut long = table();
    long.title = "all of it".into();
    long.rows = std::iter::repeat_n(long.rows[0].clone(), 40).collect();
    let panels = vec![panel(vec![line("a", vec![point(1.0, Some(2.0), true)])], Scale::Linear)];
    let page = html::render(&document(panels, vec![long, ranking], vec![]));
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} is in the page"));
    assert!(at("<caption>who is best") < at("class=\"panels"));
    assert!(at("class=\"panels") < at("<summary>all of it (40 rows)</summary>"));
}

#[test]
fn html__a_claim_links_to_its_figure() {
    let page = html::render(&document(vec![], vec![], claims()));
    assert!(page.contains("<a href=\"#figure-specimen.fig1\">Figure</a>"));
    assert!(page.contains("<section class=\"figure\" id=\"figure-specimen.fig1\">"));
}

#[test]
fn plots__are_total() {
    let panels = edges();
    for panel in &panels {
        for theme in [Theme::Light, Theme::Dark] {
            let picture = picture(panel, theme);
            assert!(picture.starts_with("<svg ") && picture.trim_end().ends_with("</svg>"));
            assert!(!picture.contains("NaN") && !picture.contains("2147483647"), "{picture}");
        }
    }
    let page = html::render(&document(panels, vec![], vec![]));
    let drawn = data(&page)["panels"].as_array().unwrap().len();
    assert_eq!(drawn, 2, "of 14 four have nothing to show, and eight a table of one x");
}

#[test]
fn svg__says_what_is_unstable() {
    let lost = line("lost", vec![point(0.1, Some(2.0), true), point(0.8, None, false)]);
    let picture = picture(&panel(vec![lost], Scale::Log), Theme::Light);
    assert!(picture.contains("lost unstable from 0.8"));
    assert!(picture.contains("objective: 20 us"));
    assert!(picture.contains("latency (us), log scale"));
}

#[test]
fn published_values__stand_beside_ours() {
    let mut panel = panel(vec![line("ours", vec![point(0.2, Some(30.0), true)])], Scale::Log);
    let without = picture(&panel, Theme::Light);
    panel.rules.push(Rule::published("ours", 0.9, (2_000.0, 8_000.0)));
    let with = picture(&panel, Theme::Light);
    assert!(with.contains("value of the source") && !without.contains("value of the source"));
    assert!(with.matches("<polygon").count() > without.matches("<polygon").count());
    // The axes reach to it, and times have the unit that suits both.
    let page = html::render(&document(vec![panel], Vec::new(), Vec::new()));
    let plot = &data(&page)["panels"][0];
    assert_eq!(plot["spots"], serde_json::json!([[0.9, 2_000.0, 8_000.0, 0]]));
    assert!(plot["y"]["max"].as_f64() >= Some(8_000.0) && plot["x"]["max"].as_f64() >= Some(0.9));
    assert!(page.contains("value of the source"));
}

#[test]
fn csv__is_long_and_unrounded() {
    let points = vec![point(0.1, Some(2.0 / 3.0), true), point(0.8, None, false)];
    let text =
        series::csv(&document(vec![panel(vec![line("a, b", points)], Scale::Log)], vec![], vec![]));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "figure,panel,series,x,y,low,high,samples,stable");
    assert!(lines[1].starts_with("specimen.fig1,panel,\"a, b\",0.1,0.6666666666666666,"));
    assert_eq!(lines[2], "specimen.fig1,panel,\"a, b\",0.8,,,,1000,false");
}

#[test]
fn tables_csv__has_a_row_per_cell() {
    let text = series::tables_csv(&document(vec![], vec![table()], vec![]));
    assert_eq!(text.lines().count(), 1 + 12);
    assert!(text.contains("specimen.fig1,capacity,1,p99.9 (us),18.42,17.9,19.06,\n"));
    assert!(text.contains("specimen.fig1,capacity,2,load (krps),,,,n/a (40 samples)\n"));
}

#[test]
fn json__says_everything() {
    let text = series::json(&document(edges(), vec![table()], claims()));
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["claims"][3]["verdict"], "not_reproduced");
    assert!(value["claims"][3]["tolerance"][1].is_null(), "an open end");
    assert_eq!(value["figures"][0]["tables"][0]["rows"][0][2]["low"], 17.9);
}

#[test]
fn same_document__same_bytes() {
    let document = document(edges(), vec![table()], claims());
    assert_eq!(html::render(&document), html::render(&document));
    let panel = &edges()[3];
    assert_eq!(picture(panel, Theme::Light), picture(panel, Theme::Light));
}
