//! Prints the HTML of a made-up document, to look at. No number in it was measured.
//!
//! `cargo run -p cavy-report --example specimen > specimen.html`; with an argument `svg`,
//! `dark-svg`, `map`, `dark-map`, `claims`, `table`, `markdown`, `csv` or `json`: that drawing of
//! the same document.

use cavy_report::model::{
    Axis, Cell, Claim, Document, Figure, Form, Layer, Map, Mark, Panel, Point, Rule, Scale, Series,
    Table, Verdict, Way,
};
use cavy_report::{Styles, Theme, html, map, markdown, series, svg, terminal};

// A face like the command: it may read its arguments.
#[allow(clippy::disallowed_methods)]
fn main() {
    let document = document();
    let panel = &document.figures[0].panels[0];
    let text = match std::env::args().nth(1).as_deref() {
        Some("svg") => svg::panel(panel, &Styles::of(&document), Theme::Light),
        Some("dark-svg") => svg::panel(panel, &Styles::of(&document), Theme::Dark),
        Some("map") => map::svg(&world(), Theme::Light),
        Some("dark-map") => map::svg(&world(), Theme::Dark),
        Some("claims") => terminal::claims(&document.claims, 80, true),
        Some("wide") => terminal::claims(&document.claims, 120, false),
        Some("table") => terminal::table(&document.figures[1].tables[0], 80, false),
        Some("markdown") => markdown::claims(&document.claims),
        Some("csv") => series::csv(&document),
        Some("json") => series::json(&document),
        _ => html::render(&document),
    };
    print!("{text}");
}

fn axis(label: &str, unit: &str, scale: Scale) -> Axis {
    Axis { label: label.into(), unit: unit.into(), scale, min: None, max: None }
}

/// A queue-like curve: grows without bound towards `capacity`, unstable from there on.
fn curve(label: &str, base: f64, capacity: f64, step: usize) -> Series {
    let points = (1..=19)
        .step_by(step)
        .map(|index| {
            let x = f64::from(index) * 0.05;
            if x >= capacity - 1e-9 {
                return Point {
                    x,
                    y: None,
                    low: None,
                    high: None,
                    samples: 1_200_000,
                    stable: false,
                };
            }
            let y = base / (1.0 - x / capacity);
            let spread = 1.0 + 0.04 / (1.0 - x / capacity).sqrt();
            let (low, high) = (Some(y / spread), Some(y * spread));
            Point { x, y: Some(y), low, high, samples: 1_200_000, stable: true }
        })
        .collect();
    Series { label: label.into(), points }
}

/// Some cities, and one that a database puts elsewhere.
fn world() -> Map {
    let mark =
        |name: &str, at: (f64, f64), says: &str| Mark { name: name.into(), at, says: says.into() };
    let cities = [
        ("Frankfurt", (50.1, 8.7)),
        ("London", (51.5, -0.1)),
        ("Virginia", (38.9, -77.4)),
        ("Sao Paulo", (-23.5, -46.6)),
        ("Tokyo", (35.7, 139.7)),
        ("Seattle", (47.6, -122.3)),
        ("Sydney", (-33.9, 151.2)),
        ("Johannesburg", (-26.2, 28.0)),
        ("Singapore", (1.3, 103.8)),
    ];
    let way = |from, to, says: &str| Way { from, to, says: says.into() };
    Map {
        id: "cities".into(),
        title: "Where a database puts them".into(),
        caption: "A line leads from where an address is said to be to where its coordinate is."
            .into(),
        layers: vec![
            Layer {
                label: "cities".into(),
                form: Form::Dot,
                marks: cities.map(|(name, at)| mark(name, at, "wrong by 3 ms")).to_vec(),
                ways: vec![],
            },
            Layer {
                label: "said to be elsewhere".into(),
                form: Form::Ring,
                marks: vec![mark("Tokyo", (39.8, -98.6), "said to be here")],
                ways: vec![],
            },
            Layer {
                label: "moved".into(),
                form: Form::Square,
                marks: vec![],
                ways: vec![way((39.8, -98.6), (35.7, 139.7), "10,200 km")],
            },
            Layer {
                label: "site that is chosen".into(),
                form: Form::Square,
                marks: vec![mark("Ohio", (40.0, -83.0), "for 4 of 9")],
                ways: vec![],
            },
        ],
    }
}

fn wave(label: &str, level: f64, swing: f64, pace: f64) -> Series {
    let points = (0..240)
        .map(|index| {
            let x = f64::from(index) * 0.25;
            let gap = (150..165).contains(&index) && pace > 0.3;
            let y = level + swing * (x * pace).sin() + swing * 0.3 * (x * pace * 7.3).cos();
            let y = if gap { None } else { Some(y) };
            let low = y.map(|y| y - swing * 0.4);
            let high = y.map(|y| y + swing * 0.4);
            Point { x, y, low, high, samples: 40_000, stable: true }
        })
        .collect();
    Series { label: label.into(), points }
}

fn load_panel() -> Panel {
    Panel {
        id: "slowdown".into(),
        title: "All requests".into(),
        x: axis("load, share of peak", "", Scale::Linear),
        y: Axis { max: Some(1000.0), ..axis("99.9th percentile slowdown", "x", Scale::Log) },
        series: vec![
            curve("reserving", 2.1, 1.02, 1),
            curve("first come, first served", 38.0, 0.8, 1),
            curve("preemptive sharing, 5 us quantum", 4.4, 0.955, 2),
        ],
        rules: vec![Rule::across("objective: 20x", 20.0)],
    }
}

fn figures() -> Vec<Figure> {
    let mut latency = load_panel();
    latency.id = "short".into();
    latency.title = "Short requests only".into();
    latency.y = axis("99.9th percentile latency", "us", Scale::Linear);
    latency.rules = vec![Rule::across("objective: 100 us", 100.0)];
    let time = Panel {
        id: "adapting".into(),
        title: "Cores reserved while the mix changes".into(),
        x: axis("time", "s", Scale::Linear),
        y: axis("throughput", "requests/s", Scale::Linear),
        series: vec![wave("short", 21_000.0, 4_000.0, 0.4), wave("long", 9_000.0, 2_500.0, 0.2)],
        rules: vec![],
    };
    let mut many = load_panel();
    many.id = "many".into();
    many.title = "Seven policies on one plot".into();
    many.y.max = None;
    many.rules.clear();
    many.series = (0..7)
        .map(|index| {
            let n = f64::from(index);
            curve(&format!("policy {}", index + 1), 1.5 + n * 1.6, 1.3 - n * 0.085, 1)
        })
        .collect();
    let single = Panel {
        id: "single".into(),
        title: "One point, with its spread".into(),
        x: axis("message size", "bytes", Scale::Log),
        y: axis("median latency", "us", Scale::Linear),
        series: vec![Series {
            label: "lonely".into(),
            points: vec![Point {
                x: 1500.0,
                y: Some(12.3),
                low: Some(11.0),
                high: Some(14.0),
                samples: 40,
                stable: true,
            }],
        }],
        rules: vec![],
    };
    let empty =
        Panel { id: "empty".into(), title: "No points".into(), series: vec![], ..load_panel() };
    vec![
        Figure {
            id: "specimen.fig1".into(),
            title: "Tail slowdown against load, when one request in two hundred is long".into(),
            shows: "Slowdown of the slowest request in a thousand as the load grows, for three \
                    ways to share fourteen cores. Lower is better; a hatched band begins where a \
                    system cannot keep up."
                .into(),
            claimed: "Reserving cores sustains 2.35 times the load of first come, first served \
                      within the objective."
                .into(),
            found:
                "It sustains 2.3 times the load. First come, first served is unstable from 0.8, \
                 earlier than published, because the specimen's numbers are made up."
                    .into(),
            command: "cavy reproduce specimen.fig1 --seed 42".into(),
            panels: vec![load_panel(), latency],
            maps: vec![],
            tables: vec![],
        },
        Figure {
            id: "specimen.fig2".into(),
            title: "Adapting to a changing mix".into(),
            shows:
                "Throughput of both kinds of requests over one minute. The gap is a window with \
                 too few samples."
                    .into(),
            claimed: "Reservations follow the mix within half a second.".into(),
            found: "They do, in all five seeds.".into(),
            command: "cavy reproduce specimen.fig2 --seed 42".into(),
            panels: vec![time],
            maps: vec![world()],
            tables: vec![Table {
                id: "capacity".into(),
                title: "Load sustained within the objective".into(),
                columns: ["policy", "load sustained (krps)", "p99.9 at 0.7 (us)", "note"]
                    .map(str::to_owned)
                    .to_vec(),
                rows: vec![
                    vec![
                        Cell::Text("reserving".into()),
                        Cell::Number(4310.0),
                        Cell::Interval { value: 18.42, low: 17.9, high: 19.06 },
                        Cell::Text("meets the objective up to 0.93".into()),
                    ],
                    vec![
                        Cell::Text("first come, first served".into()),
                        Cell::Number(1834.0),
                        Cell::Missing("unstable".into()),
                        Cell::Text(String::new()),
                    ],
                    vec![
                        Cell::Text("preemptive sharing".into()),
                        Cell::Missing("n/a (40 samples)".into()),
                        Cell::Interval { value: 31.0, low: 29.2, high: 35.5 },
                        Cell::Text("quantum of 5 us, overhead of 1 us".into()),
                    ],
                ],
            }],
        },
        Figure {
            id: "specimen.fig3".into(),
            title: "Edge cases: many curves, one point, none".into(),
            shows: "What a plot looks like when there is too much or too little to show.".into(),
            claimed: String::new(),
            found: "Labels are words, even <script>alert(\"these\")</script> & those.".into(),
            command: "cavy run plan.toml --set workload.long_ratio=0.005 --set \
                      sweep.load=0.1,0.2,0.3"
                .into(),
            panels: vec![many, single, empty],
            maps: vec![],
            tables: vec![],
        },
    ]
}

fn claim(figure: &str, name: &str, statement: &str, value: f64, verdict: Verdict) -> Claim {
    Claim {
        id: format!("specimen.{figure}.{name}"),
        system: "specimen".into(),
        figure: figure.into(),
        source: "made up; section 0, figure 0".into(),
        statement: statement.into(),
        published: format!("{value}x"),
        reviewers: None,
        unit: "x".into(),
        value: Some(value * 0.97),
        low: Some(value * 0.94),
        high: Some(value * 1.02),
        tolerance: Some((value * 0.9, value * 1.1)),
        tolerance_reason: "five seeds differ by 6 %; a tenth is twice that".into(),
        samples: 6_000_000,
        verdict,
        evidence: String::new(),
        repeat: format!("cavy reproduce specimen.{figure}.{name} --seed 42"),
    }
}

fn claims() -> Vec<Claim> {
    use Verdict::{Explained, NotReproduced, Reproduced, TooShort};
    let mut claims = vec![
        claim(
            "fig1",
            "capacity",
            "Reserving sustains more load than first come, first served.",
            2.35,
            Reproduced,
        ),
        claim(
            "fig1",
            "preemption",
            "It sustains more load than preemptive sharing.",
            1.3,
            Reproduced,
        ),
        claim(
            "fig1",
            "short",
            "Slowdown of short requests drops at a load of 0.7.",
            15.7,
            Explained,
        ),
        claim("fig1", "long", "Long requests pay for it.", 1.24, Reproduced),
        claim("fig1", "idle", "One core is idle on average.", 0.92, Reproduced),
        claim(
            "fig1",
            "miss",
            "No short request ever waits for a long one, at any load, with any seed.",
            4.0,
            NotReproduced,
        ),
        claim(
            "fig2",
            "adapting",
            "Reservations follow the mix within half a second.",
            0.5,
            Reproduced,
        ),
        claim("fig2", "steady", "A steady mix causes no change.", 0.0, Reproduced),
        claim(
            "fig2",
            "rare",
            "The slowest request in a hundred thousand improves as well.",
            8.1,
            TooShort,
        ),
        claim("fig2", "cost", "Counting types costs little.", 0.012, Reproduced),
        claim("fig3", "throughput", "Peak throughput is kept.", 5100.0, Reproduced),
        claim("fig3", "order", "The policies keep their order.", 1.0, Reproduced),
    ];
    claims[0].reviewers = Some("2.3x to 2.4x".into());
    claims[2].evidence =
        "The published figure counts the client's time, about 8 us, which the lab leaves out; \
         with it added the value is 15.2x."
            .into();
    claims[2].value = Some(19.3);
    claims[5].evidence =
        "Short requests do wait when both reserved cores serve misclassified ones.".into();
    claims[5].value = Some(7.9);
    claims[8].value = None;
    claims[8].low = None;
    claims[8].high = None;
    claims[8].evidence = "A quick run has 60 samples there; --full has 6 000.".into();
    claims[10].unit = "krps".into();
    claims[10].published = "5.1 Mrps".into();
    claims[10].tolerance = Some((5000.0, f64::INFINITY));
    claims[11].published = "same order".into();
    claims[11].unit = String::new();
    claims[11].value = Some(1.0);
    claims[11].low = Some(1.0);
    claims[11].high = Some(1.0);
    claims[11].tolerance = Some((1.0, 1.0));
    claims
}

fn document() -> Document {
    Document {
        title: "Specimen: a report with made-up numbers".into(),
        summary: "Every kind of plot, table and verdict once, to judge the drawing. Nothing here \
                  was simulated or measured."
            .into(),
        command: "cargo run -p cavy-report --example specimen".into(),
        version: "cavy 0.1.0".into(),
        seed: 42,
        digest: "9f2c77e0a1b3d845".into(),
        elapsed_s: 93.4,
        facts: [
            ("Servers", "14 workers, one dispatcher"),
            ("Arrivals", "Poisson, open loop, the same for every policy"),
            ("Service times", "0.5 us (99.5 %) and 500 us (0.5 %)"),
            (
                "Samples",
                "1.2 million requests a point after warm-up, 5 seeds; spread is smallest \
                 to largest",
            ),
            ("Left out", "network, client, cost of preemption unless said"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec(),
        plan: None,
        claims: claims(),
        figures: figures(),
    }
}
