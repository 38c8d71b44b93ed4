//! What is drawn of experiments on a network.

use super::NetExperiment;
use super::plan::NetworkPlan;
use super::result::{BlockResult, GOODPUT, NetResult, NetSummary, SizeSlice};
use super::traffic::TrafficPlan;
use cavy_report::model::{Axis, Cell, Panel, Point, Scale, Series, Table};
use cavy_study::draw::{self, Column, Curve, Drawn, axis, facet, headline, suffix};
use cavy_study::objective::Metric;
use cavy_study::outcome::{Quantile, Standing};

/// A percentile of a summary.
pub type Which = fn(&NetSummary) -> Option<&Quantile>;

/// 99th percentile slowdown.
pub const P99: Which = |summary| summary.p99_slowdown.as_ref();
/// Median slowdown.
pub const P50: Which = |summary| summary.p50_slowdown.as_ref();
/// 99th percentile over the transport's own best.
pub const P99_OWN: Which = |summary| summary.p99_own.as_ref();

/// A percentile as it is drawn, if it is supported.
fn drawn(quantile: Option<&Quantile>) -> Drawn {
    let estimate = quantile.and_then(Quantile::supported);
    Drawn::of(estimate, draw::Spread::Interval, quantile.map_or(0, |q| q.beyond))
}

fn dot(x: f64, result: &NetResult, quantile: Option<&Quantile>) -> Point {
    let Drawn { y, low, high, samples } = drawn(quantile.filter(|_| result.stable()));
    Point { x, y, low, high, samples, stable: result.standing != Standing::Unstable }
}

/// A percentile of some messages over what is swept.
fn curve(
    id: &str,
    y: Axis,
    metric: Metric,
    of: impl Fn(&NetResult) -> Option<&Quantile> + 'static,
) -> Curve<NetworkPlan> {
    Curve {
        id: id.to_string(),
        y,
        of: Box::new(move |result| drawn(of(result))),
        metric: Some(metric),
    }
}

/// What is drawn over the first swept key.
pub fn curves(experiment: &NetExperiment) -> Vec<Curve<NetworkPlan>> {
    let mut all = Vec::new();
    match experiment.plan.traffic {
        TrafficPlan::Echo(_) | TrafficPlan::Blocks(_) => {}
        TrafficPlan::Incast(_) => {
            let goodput = |r: &NetResult| Drawn::plain(r.answers_gbps.unwrap_or(0.0), r.work);
            all.push(Curve {
                id: "goodput".to_string(),
                y: axis("goodput of answers", "Gb/s", Scale::Linear),
                of: Box::new(goodput),
                metric: Some(Metric::of_all(GOODPUT)),
            });
            let y = axis("median latency", "us", Scale::Log);
            let median = Metric::of_all("p50_us");
            all.push(curve("latency", y, median, |r| r.overall.p50_us.as_ref()));
        }
        _ => {
            let y = axis("p99 slowdown of the smallest half", "x", Scale::Log);
            let tail = |whose: &str| Metric::of("p99_slowdown", whose);
            let short = tail("smallest 50%");
            all.push(curve("short", y, short, |r| r.short.p99_slowdown.as_ref()));
            let y = axis("p99 slowdown of the largest tenth", "x", Scale::Log);
            all.push(curve("large", y, tail("largest 10%"), |r| {
                let tenth = r.largest.iter().find(|slice| slice.share < 0.2);
                tenth.and_then(|slice| slice.summary.p99_slowdown.as_ref())
            }));
        }
    }
    for (index, class) in experiment.plan.classes.iter().enumerate() {
        let y = axis(&format!("p99 slowdown of {}", class.name), "x", Scale::Log);
        let metric = Metric::of("p99_slowdown", format!("\"{}\"", class.name));
        let of = move |r: &NetResult| {
            drawn(r.classes.get(index).and_then(|class| class.summary.p99_slowdown.as_ref()))
        };
        let id = format!("class-{index}");
        all.push(Curve { id, y, of: Box::new(of), metric: Some(metric) });
    }
    // The oracle has no queues.
    let queue = |r: &NetResult| match r.queue_max_bytes() {
        0 => Drawn::default(),
        bytes => Drawn::plain((bytes as f64 / 1e3).max(0.1), r.work),
    };
    all.push(Curve {
        id: "queue".to_string(),
        y: axis("largest queue at a switch port", "kB", Scale::Log),
        of: Box::new(queue),
        metric: None,
    });
    all
}

/// Panels that are not over what is swept.
pub fn panels(experiment: &NetExperiment, variant: &str) -> Vec<Panel> {
    let mut all = Vec::new();
    match experiment.plan.traffic {
        TrafficPlan::Echo(_) => all.extend(echo(experiment, variant)),
        TrafficPlan::Incast(_) | TrafficPlan::Blocks(_) => {}
        _ => all.extend(sizes(experiment, variant)),
    }
    all.extend(super::timeline::panels(experiment, variant));
    all
}

/// Tables beside rankings, capacities and points.
pub fn tables(experiment: &NetExperiment, variant: &str) -> Vec<Table> {
    let mut all = Vec::new();
    match experiment.plan.traffic {
        TrafficPlan::Echo(_) => all.extend(echo_table(experiment, variant)),
        TrafficPlan::Incast(_) | TrafficPlan::Blocks(_) => {}
        _ => all.extend(sizes_table(experiment, variant)),
    }
    all.extend(classes_table(experiment, variant));
    all.push(needs_table(experiment, variant));
    all
}

/// What messages of each class experienced at every point.
fn classes_table(experiment: &NetExperiment, variant: &str) -> Option<Table> {
    let first = experiment.of_variant(variant).next().filter(|r| !r.classes.is_empty())?;
    let keys: Vec<&String> = first.settings.keys().collect();
    let mut columns = vec!["transport".to_string()];
    columns.extend(keys.iter().map(|key| draw::words(key)));
    let heads = ["class", "messages", "p50 (x)", "p99 (x)", "p99.9 (x)", "p50 (us)", "p99 (us)"];
    columns.extend(heads.map(str::to_string));
    let mut rows = Vec::new();
    for result in experiment.of_variant(variant) {
        for class in &result.classes {
            let mut row = vec![Cell::Text(result.label.clone())];
            let setting = |key: &&String| match result.settings.get(*key) {
                Some(serde_json::Value::Number(n)) => {
                    n.as_f64().map_or(Cell::Number(0.0), Cell::Number)
                }
                Some(serde_json::Value::String(text)) => Cell::Text(text.clone()),
                Some(other) => Cell::Text(other.to_string()),
                None => Cell::Text(String::new()),
            };
            row.extend(keys.iter().map(setting));
            row.push(Cell::Text(class.name.clone()));
            row.push(Cell::Number(class.summary.samples as f64));
            let summary = &class.summary;
            let values = [
                &summary.p50_slowdown,
                &summary.p99_slowdown,
                &summary.p999_slowdown,
                &summary.p50_us,
                &summary.p99_us,
            ];
            row.extend(values.map(|value| cell(result, value.as_ref())));
            rows.push(row);
        }
    }
    Some(Table {
        id: format!("{variant}-classes"),
        title: format!("What each class experienced{}", suffix(variant)),
        columns,
        rows,
    })
}

/// Columns of the table of points.
pub fn columns(experiment: &NetExperiment) -> Vec<Column<NetworkPlan>> {
    // Of blocks, the answers to many questions at once, somebody waits for the whole.
    if matches!(experiment.plan.traffic, TrafficPlan::Blocks(_)) {
        type Of = fn(&BlockResult) -> Option<f64>;
        let columns: [(&str, Of); 6] = [
            ("blocks", |blocks| Some(blocks.blocks as f64)),
            ("block p50 (ms)", |blocks| blocks.within_ms(50)),
            ("block p90 (ms)", |blocks| blocks.within_ms(90)),
            ("block p99 (ms)", |blocks| blocks.within_ms(99)),
            ("goodput (Mb/s)", |blocks| blocks.goodput_ratio.map(|_| blocks.goodput_mbps())),
            ("goodput (% of link)", |blocks| blocks.goodput_ratio.map(|ratio| ratio * 100.0)),
        ];
        let cell = |value: Option<f64>| value.map_or(Cell::Missing("n/a".into()), Cell::Number);
        return columns
            .map(|(head, of)| {
                Column::new(head, move |r: &NetResult| cell(r.blocks.as_ref().and_then(of)))
            })
            .into();
    }
    vec![
        Column::new("short p50 (x)", |r: &NetResult| cell(r, r.short.p50_slowdown.as_ref())),
        Column::new("short p99 (x)", |r: &NetResult| cell(r, r.short.p99_slowdown.as_ref())),
        Column::new("all p99 (us)", |r: &NetResult| cell(r, r.overall.p99_us.as_ref())),
        Column::new("mean (us)", |r: &NetResult| draw::cell(r, r.overall.mean_us.as_ref())),
        Column::new("goodput (Gb/s)", |r: &NetResult| {
            Cell::Number(r.answers_gbps.unwrap_or(r.goodput_gbps))
        }),
    ]
}

/// Slowdown against size, as the sources plot it: equal distances are equal numbers of messages.
/// `results` are one for each curve, under their labels.
pub fn by_size<'a>(
    id: &str,
    title: &str,
    label: &str,
    results: impl IntoIterator<Item = (String, &'a NetResult)>,
    which: Which,
) -> Panel {
    let curve = |(label, result): (String, &NetResult)| Series {
        label,
        points: result
            .bins
            .iter()
            .map(|bin| dot(bin.share * 100.0, result, which(&bin.summary)))
            .collect(),
    };
    Panel {
        id: id.to_string(),
        title: title.to_string(),
        x: Axis {
            min: Some(0.0),
            max: Some(100.0),
            ..axis("messages, the smallest first", "%", Scale::Linear)
        },
        y: axis(label, "x", Scale::Log),
        series: results.into_iter().map(curve).collect(),
        rules: Vec::new(),
    }
}

/// For each setting but the load, the results at the highest load at which most transports are
/// stable: what curves by size are drawn of.
pub fn settled<'a>(
    experiment: &'a NetExperiment,
    variant: &'a str,
) -> Vec<(String, Vec<&'a NetResult>)> {
    let mut facets: Vec<(String, Vec<&NetResult>)> = Vec::new();
    for result in experiment.of_variant(variant) {
        let name = facet(result, Some("load"));
        match facets.iter_mut().find(|(known, _)| *known == name) {
            Some((_, results)) => results.push(result),
            None => facets.push((name, vec![result])),
        }
    }
    for (_, results) in &mut facets {
        let stable_at =
            |load: f64| results.iter().filter(|r| r.load() == load && r.stable()).count();
        let best = results
            .iter()
            .map(|r| (stable_at(r.load()), r.load()))
            .max_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        if let Some((_, load)) = best {
            results.retain(|r| r.load() == load);
        }
    }
    facets
}

/// Slowdown by size, 99th percentile and median, where sizes can be told apart.
fn sizes(experiment: &NetExperiment, variant: &str) -> Vec<Panel> {
    let mut all = Vec::new();
    for (index, (name, results)) in settled(experiment, variant).into_iter().enumerate() {
        let Some(first) = results.first().filter(|r| r.bins.len() > 1) else { continue };
        let load = first.load();
        let of = if name.is_empty() { String::new() } else { format!(", {name}") };
        let curves = || results.iter().map(|r| (r.label.clone(), *r));
        for (which, words, short) in
            [(P99, "99th percentile slowdown", "p99"), (P50, "median slowdown", "p50")]
        {
            let id = format!("{variant}-{short}-by-size-{index}");
            let title = format!("{words} by size at load {load}{of}{}", suffix(variant));
            let title = headline(&title);
            all.push(by_size(&id, &title, words, curves(), which));
        }
    }
    all
}

/// Round trips by size.
fn echo(experiment: &NetExperiment, variant: &str) -> Option<Panel> {
    let curve = |result: &NetResult| {
        let facet = facet(result, None);
        let label = match facet.as_str() {
            "" => result.label.clone(),
            facet => format!("{}, {facet}", result.label),
        };
        let points = result.bins.iter().map(|bin| {
            let median = bin.summary.p50_us.as_ref().map(|q| q.estimate.value);
            let (y, samples) = (median, bin.summary.samples);
            Point { x: f64::from(bin.bytes), y, low: None, high: None, samples, stable: true }
        });
        Series { label, points: points.collect() }
    };
    let series: Vec<Series> = experiment.of_variant(variant).map(curve).collect();
    (!series.is_empty()).then(|| Panel {
        id: format!("{variant}-echo"),
        title: format!("Round trip by size{}", suffix(variant)),
        x: axis("size of question and answer", "bytes", Scale::Log),
        y: axis("median round trip", "us", Scale::Log),
        series,
        rules: Vec::new(),
    })
}

/// Bytes as a cell.
fn bytes(value: u32) -> Cell {
    Cell::Text(match f64::from(value) {
        b if b >= 1e6 => format!("{:.3} MB", b / 1e6).replace(".000", ""),
        b => cavy_report::number::count(b as u64),
    })
}

fn cell(result: &NetResult, quantile: Option<&Quantile>) -> Cell {
    match quantile {
        None if result.stable() => Cell::Missing("n/a: no messages".to_string()),
        Some(q) if result.stable() && q.supported().is_none() => {
            Cell::Missing(format!("n/a: {} beyond", q.beyond))
        }
        _ => draw::cell(result, quantile.and_then(Quantile::supported)),
    }
}

/// The 99th percentile of every bin of sizes, a column for each transport.
pub fn sizes_table(experiment: &NetExperiment, variant: &str) -> Vec<Table> {
    let mut all = Vec::new();
    for (index, (name, results)) in settled(experiment, variant).into_iter().enumerate() {
        let Some(longest) = results.iter().max_by_key(|r| r.bins.len()) else { continue };
        if longest.bins.len() < 2 {
            continue;
        }
        let mut columns = vec!["messages".to_string(), "up to bytes".to_string()];
        columns.extend(results.iter().map(|r| r.label.clone()));
        let row = |(place, bin): (usize, &SizeSlice)| {
            let share = (bin.share * 1e3).round() / 10.0;
            let mut row = vec![Cell::Text(format!("{share} %")), bytes(bin.bytes)];
            row.extend(results.iter().map(|r| {
                cell(r, r.bins.get(place).and_then(|bin| bin.summary.p99_slowdown.as_ref()))
            }));
            row
        };
        let of = if name.is_empty() { String::new() } else { format!(", {name}") };
        all.push(Table {
            id: format!("{variant}-sizes-{index}"),
            title: format!(
                "99th percentile slowdown by size at load {}{of}{}",
                longest.load(),
                suffix(variant)
            ),
            columns,
            rows: longest.bins.iter().enumerate().map(row).collect(),
        });
    }
    all
}

/// Round trips by size, a column for each transport.
fn echo_table(experiment: &NetExperiment, variant: &str) -> Option<Table> {
    let results: Vec<&NetResult> = experiment.of_variant(variant).collect();
    let first = results.first()?;
    let mut columns = vec!["bytes".to_string()];
    columns.extend(results.iter().map(|r| format!("{} median (us)", r.label)));
    let row = |(place, bin): (usize, &SizeSlice)| {
        let median = |r: &&NetResult| {
            let quantile = r.bins.get(place).and_then(|bin| bin.summary.p50_us.as_ref());
            quantile.map_or(Cell::Missing("n/a".to_string()), |q| Cell::Number(q.estimate.value))
        };
        std::iter::once(bytes(bin.bytes)).chain(results.iter().map(median)).collect()
    };
    Some(Table {
        id: format!("{variant}-echo"),
        title: format!("Round trip by size{}", suffix(variant)),
        columns,
        rows: first.bins.iter().enumerate().map(row).collect(),
    })
}

/// What each transport needs of the network: queues, losses, repetitions, where it was settled.
pub fn needs_table(experiment: &NetExperiment, variant: &str) -> Table {
    let columns = [
        "transport",
        "with",
        "downlink queue (kB)",
        "largest (kB)",
        "fabric queue (kB)",
        "largest there (kB)",
        "dropped (%)",
        "trimmed (%)",
        "marked (%)",
        "sent again (%)",
        "downlinks busy (%)",
        "wasted (%)",
    ];
    let facets = settled(experiment, variant);
    let loads: Vec<f64> = facets.iter().flat_map(|(_, all)| all).map(|r| r.load()).collect();
    let at = match loads.first() {
        Some(first) if *first > 0.0 && loads.iter().all(|load| load == first) => {
            format!(" at load {first}")
        }
        _ => String::new(),
    };
    let rows = facets
        .iter()
        .flat_map(|(name, results)| results.iter().map(move |result| needs(name, result)))
        .collect();
    let (columns, rows) = telling(columns, rows);
    Table {
        id: format!("{variant}-needs"),
        title: format!("What each needs of the network{at}{}", suffix(variant)),
        columns,
        rows,
    }
}

fn needs(facet: &str, result: &NetResult) -> Vec<Cell> {
    let kb = |bytes: f64| Cell::Number(bytes / 1e3);
    let none = || Cell::Text(String::new());
    let sent = result.packets.sent.max(1) as f64;
    let share = |count: u64| Cell::Number(count as f64 / sent * 100.0);
    let down = result.port("downlink");
    let of_fabric = |of: fn(&super::result::PortResult) -> f64| {
        let between = result.ports.iter().filter(|p| p.class == "uplink" || p.class == "spine");
        between.map(of).reduce(f64::max).map_or(none(), kb)
    };
    vec![
        Cell::Text(result.label.clone()),
        Cell::Text(facet.to_string()),
        down.map_or(none(), |port| kb(port.mean_bytes)),
        down.map_or(none(), |port| kb(port.max_bytes as f64)),
        of_fabric(|port| port.mean_bytes),
        of_fabric(|port| port.max_bytes as f64),
        share(result.packets.dropped + result.packets.lost),
        share(result.packets.trimmed),
        share(result.packets.marked),
        Cell::Number(result.retransmitted_ratio() * 100.0),
        down.map_or(none(), |port| Cell::Number(port.utilization * 100.0)),
        result.waste_ratio.map_or(none(), |ratio| Cell::Number(ratio * 100.0)),
    ]
}

/// Columns, and their cells, in which any row has something to say.
fn telling<const N: usize>(
    columns: [&str; N],
    rows: Vec<Vec<Cell>>,
) -> (Vec<String>, Vec<Vec<Cell>>) {
    let says = |cell: &Cell| match cell {
        Cell::Text(text) => !text.is_empty(),
        Cell::Number(value) | Cell::Setting(value) => *value != 0.0,
        _ => true,
    };
    let keep: Vec<usize> =
        (0..N).filter(|&place| rows.iter().any(|row| says(&row[place]))).collect();
    let names = keep.iter().map(|&place| columns[place].to_string()).collect();
    let kept = |row: Vec<Cell>| keep.iter().map(|&place| row[place].clone()).collect();
    (names, rows.into_iter().map(kept).collect())
}
