//! From network experiments to what a report draws.

use super::NetExperiment;
use super::plan::Pattern;
use super::rank::{NetRanking, rankings};
use super::result::{NetResult, NetSummary, Quantile, SizeSlice};
use crate::experiment::BASE;
use cavy_report::model::{Axis, Cell, Figure, Panel, Point, Rule, Scale, Series, Table};

/// A percentile of a summary.
pub type Which = fn(&NetSummary) -> Option<&Quantile>;

/// 99th percentile slowdown.
pub const P99: Which = |summary| summary.p99_slowdown.as_ref();
/// Median slowdown.
pub const P50: Which = |summary| summary.p50_slowdown.as_ref();
/// 99th percentile over the transport's own best.
pub const P99_OWN: Which = |summary| summary.p99_own.as_ref();

/// An axis as the data need it.
pub fn axis(label: &str, unit: &str, scale: Scale) -> Axis {
    let (label, unit) = (label.to_string(), unit.to_string());
    Axis { label, unit, scale, min: None, max: None }
}

fn dot(x: f64, result: &NetResult, quantile: Option<&Quantile>) -> Point {
    let drawn = quantile.filter(|_| result.stable).and_then(Quantile::supported);
    Point {
        x,
        y: drawn.map(|e| e.value),
        low: drawn.map(|e| e.low.max(e.min())),
        high: drawn.map(|e| e.high.min(e.max())),
        samples: quantile.map_or(0, |q| q.beyond),
        stable: result.stable,
    }
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

/// The swept key on the horizontal axis of a variant, if anything is swept.
fn horizontal(experiment: &NetExperiment, variant: &str) -> Option<String> {
    let settings = &experiment.results.iter().find(|r| r.variant == variant)?.settings;
    if settings.contains_key("load") {
        return Some("load".to_string());
    }
    settings.keys().next().cloned()
}

/// A key for readers: its last part, without underscores.
fn words(key: &str) -> String {
    key.rsplit('.').next().unwrap_or(key).replace('_', " ")
}

/// Swept values other than `key`, in words; empty when there are none.
fn facet(result: &NetResult, key: Option<&str>) -> String {
    let others = result.settings.iter().filter(|(k, _)| Some(k.as_str()) != key);
    let each: Vec<String> = others
        .map(|(k, value)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_string);
            format!("{} {value}", words(k))
        })
        .collect();
    each.join(", ")
}

/// A value of each result against the first swept key, a curve for each transport and further
/// setting. `None` when nothing that is a number is swept.
pub fn against_sweep(
    experiment: &NetExperiment,
    variant: &str,
    id: &str,
    y: Axis,
    value: impl Fn(&NetResult, f64) -> Point,
) -> Option<Panel> {
    let key = horizontal(experiment, variant)?;
    let mut series: Vec<Series> = Vec::new();
    for result in experiment.results.iter().filter(|r| r.variant == variant) {
        let Some(x) = result.settings.get(&key).and_then(serde_json::Value::as_f64) else {
            continue;
        };
        let facet = facet(result, Some(&key));
        let label = match facet.as_str() {
            "" => result.transport.clone(),
            facet => format!("{}, {facet}", result.transport),
        };
        let drawn = value(result, x);
        match series.iter_mut().find(|s| s.label == label) {
            Some(series) => series.points.push(drawn),
            None => series.push(Series { label, points: vec![drawn] }),
        }
    }
    if series.iter().all(|s| s.points.len() < 2) {
        return None;
    }
    for series in &mut series {
        series.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    let wide = |s: &Series| match (s.points.first(), s.points.last()) {
        (Some(first), Some(last)) => first.x > 0.0 && last.x / first.x > 30.0,
        _ => false,
    };
    let scale = if series.iter().any(wide) { Scale::Log } else { Scale::Linear };
    let label = if key == "load" { "offered load".to_string() } else { words(&key) };
    let mut title = y.label.clone();
    if let Some(first) = title.get(..1).map(str::to_uppercase) {
        title.replace_range(..1, &first);
    }
    Some(Panel {
        id: format!("{variant}-{id}"),
        title: format!("{title}{}", suffix(variant)),
        x: axis(&label, "", scale),
        y,
        series,
        rules: Vec::new(),
    })
}

fn suffix(variant: &str) -> String {
    if variant == BASE { String::new() } else { format!(" ({variant})") }
}

/// A point that is drawn when the result is stable.
fn plain(result: &NetResult, x: f64, y: f64) -> Point {
    let y = Some(y).filter(|_| result.stable);
    Point { x, y, low: None, high: None, samples: result.messages, stable: result.stable }
}

/// For each setting but the load, the results at the highest load at which most transports are
/// stable: what curves by size are drawn of.
pub fn settled<'a>(
    experiment: &'a NetExperiment,
    variant: &str,
) -> Vec<(String, Vec<&'a NetResult>)> {
    let mut facets: Vec<(String, Vec<&NetResult>)> = Vec::new();
    for result in experiment.results.iter().filter(|r| r.variant == variant) {
        let name = facet(result, Some("load"));
        match facets.iter_mut().find(|(known, _)| *known == name) {
            Some((_, results)) => results.push(result),
            None => facets.push((name, vec![result])),
        }
    }
    for (_, results) in &mut facets {
        let stable_at = |load: f64| results.iter().filter(|r| r.load == load && r.stable).count();
        let best = results
            .iter()
            .map(|r| (stable_at(r.load), r.load))
            .max_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        if let Some((_, load)) = best {
            results.retain(|r| r.load == load);
        }
    }
    facets
}

fn panels_of(experiment: &NetExperiment, variant: &str) -> Vec<Panel> {
    let mut all = Vec::new();
    match experiment.plan.traffic.pattern {
        Pattern::Echo => all.extend(echo(experiment, variant)),
        Pattern::Incast => {
            let y = axis("goodput of answers", "Gb/s", Scale::Linear);
            let of = |r: &NetResult, x| plain(r, x, r.answers_gbps.unwrap_or(0.0));
            all.extend(against_sweep(experiment, variant, "goodput", y, of));
            let y = axis("median latency", "us", Scale::Log);
            let of = |r: &NetResult, x| dot(x, r, r.overall.p50_us.as_ref());
            all.extend(against_sweep(experiment, variant, "latency", y, of));
        }
        _ => {
            all.extend(sizes(experiment, variant));
            let y = axis("p99 slowdown of the smallest half", "x", Scale::Log);
            let of = |r: &NetResult, x| dot(x, r, r.short.p99_slowdown.as_ref());
            let mut panel = against_sweep(experiment, variant, "short", y, of);
            if let Some(panel) = &mut panel {
                panel.rules = rules(experiment);
            }
            all.extend(panel);
            let y = axis("p99 slowdown of the largest tenth", "x", Scale::Log);
            let of = |r: &NetResult, x| {
                let tenth = r.largest.iter().find(|slice| slice.share < 0.2);
                dot(x, r, tenth.and_then(|slice| slice.summary.p99_slowdown.as_ref()))
            };
            all.extend(against_sweep(experiment, variant, "large", y, of));
        }
    }
    let y = axis("largest queue at a switch port", "kB", Scale::Log);
    let of = |r: &NetResult, x| plain(r, x, (r.queue_max_bytes() as f64 / 1e3).max(0.1));
    // The oracle has no queues.
    let has_queue = |s: &Series| s.points.iter().any(|p| p.y.is_some_and(|y| y > 0.1));
    if let Some(mut panel) = against_sweep(experiment, variant, "queue", y, of) {
        panel.series.retain(has_queue);
        all.push(panel);
    }
    all
}

/// Objectives on the smallest half, as lines.
fn rules(experiment: &NetExperiment) -> Vec<Rule> {
    use super::objective::{NetObjective, Whose};
    use crate::plan::objective::{Percentile, Quantity};
    let line = |text: &String| match NetObjective::parse(text) {
        Ok(NetObjective::Bound {
            percentile: Percentile::P99,
            quantity: Quantity::Slowdown,
            whose: Whose::Smallest(0.5),
            limit,
        }) => Some(Rule { label: format!("objective: {limit}"), y: limit }),
        _ => None,
    };
    experiment.plan.objectives.iter().filter_map(line).collect()
}

/// Slowdown by size, 99th percentile and median, where sizes can be told apart.
fn sizes(experiment: &NetExperiment, variant: &str) -> Vec<Panel> {
    let mut all = Vec::new();
    for (index, (name, results)) in settled(experiment, variant).into_iter().enumerate() {
        let Some(first) = results.first().filter(|r| r.bins.len() > 1) else { continue };
        let load = first.load;
        let of = if name.is_empty() { String::new() } else { format!(", {name}") };
        let curves = || results.iter().map(|r| (r.transport.clone(), *r));
        for (which, words, short) in
            [(P99, "99th percentile slowdown", "p99"), (P50, "median slowdown", "p50")]
        {
            let id = format!("{variant}-{short}-by-size-{index}");
            let mut title = format!("{words} by size at load {load}{of}{}", suffix(variant));
            if let Some(first) = title.get(..1).map(str::to_uppercase) {
                title.replace_range(..1, &first);
            }
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
            "" => result.transport.clone(),
            facet => format!("{}, {facet}", result.transport),
        };
        let points = result.bins.iter().map(|bin| {
            let median = bin.summary.p50_us.as_ref().map(|q| q.estimate.value);
            let (y, samples) = (median, bin.summary.messages);
            Point { x: f64::from(bin.bytes), y, low: None, high: None, samples, stable: true }
        });
        Series { label, points: points.collect() }
    };
    let series: Vec<Series> =
        experiment.results.iter().filter(|r| r.variant == variant).map(curve).collect();
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
    if !result.stable {
        return Cell::Missing("unstable".to_string());
    }
    match quantile {
        None => Cell::Missing("n/a: no messages".to_string()),
        Some(q) => match q.supported() {
            Some(e) => Cell::Interval {
                value: e.value,
                low: e.low.max(e.min()),
                high: e.high.min(e.max()),
            },
            None => Cell::Missing(format!("n/a: {} beyond", q.beyond)),
        },
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
        columns.extend(results.iter().map(|r| r.transport.clone()));
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
                longest.load,
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
    let results: Vec<&NetResult> =
        experiment.results.iter().filter(|r| r.variant == variant).collect();
    let first = results.first()?;
    let mut columns = vec!["bytes".to_string()];
    columns.extend(results.iter().map(|r| format!("{} median (us)", r.transport)));
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

/// Every point of an experiment.
pub fn points_table(experiment: &NetExperiment) -> Table {
    let mut columns: Vec<String> = Vec::new();
    let with_variants = experiment.variants().len() > 1;
    if with_variants {
        columns.push("variant".to_string());
    }
    columns.push("transport".to_string());
    let mut keys: Vec<String> = Vec::new();
    for result in &experiment.results {
        for key in result.settings.keys().filter(|key| *key != "load") {
            if !keys.contains(key) {
                keys.push(key.clone());
            }
        }
    }
    columns.extend(keys.iter().map(|key| words(key)));
    let with_load = experiment.results.iter().any(|r| r.load > 0.0);
    if with_load {
        columns.push("load".to_string());
    }
    columns.extend(
        ["short p50 (x)", "short p99 (x)", "all p99 (us)", "goodput (Gb/s)", "verdict"]
            .map(str::to_string),
    );
    let rows = experiment.results.iter().map(|result| {
        let mut row = Vec::new();
        if with_variants {
            row.push(Cell::Text(result.variant.clone()));
        }
        row.push(Cell::Text(result.transport.clone()));
        row.extend(keys.iter().map(|key| setting(result.settings.get(key))));
        if with_load {
            row.push(Cell::Number(result.load));
        }
        row.push(cell(result, result.short.p50_slowdown.as_ref()));
        row.push(cell(result, result.short.p99_slowdown.as_ref()));
        row.push(cell(result, result.overall.p99_us.as_ref()));
        row.push(Cell::Number(result.answers_gbps.unwrap_or(result.goodput_gbps)));
        let keeps_up = "keeps up".to_string();
        row.push(Cell::Text(if result.stable { keeps_up } else { result.note.clone() }));
        row
    });
    let rows = rows.collect();
    Table { id: "points".to_string(), title: "All points".to_string(), columns, rows }
}

fn setting(value: Option<&serde_json::Value>) -> Cell {
    match value {
        Some(serde_json::Value::Number(n)) => Cell::Number(n.as_f64().unwrap_or(f64::NAN)),
        Some(serde_json::Value::String(text)) => Cell::Text(text.clone()),
        Some(other) => Cell::Text(other.to_string()),
        None => Cell::Text(String::new()),
    }
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
    let loads: Vec<f64> = facets.iter().flat_map(|(_, all)| all).map(|r| r.load).collect();
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
        Cell::Text(result.transport.clone()),
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
        Cell::Number(value) => *value != 0.0,
        _ => true,
    };
    let keep: Vec<usize> =
        (0..N).filter(|&place| rows.iter().any(|row| says(&row[place]))).collect();
    let names = keep.iter().map(|&place| columns[place].to_string()).collect();
    let kept = |row: Vec<Cell>| keep.iter().map(|&place| row[place].clone()).collect();
    (names, rows.into_iter().map(kept).collect())
}

/// The table of capacities, when the plan has objectives.
pub fn capacities(experiment: &NetExperiment) -> Option<Table> {
    if experiment.capacities.is_empty() {
        return None;
    }
    let with_variants = experiment.variants().len() > 1;
    let with_settings = experiment.capacities.iter().any(|c| !c.settings.is_empty());
    let mut columns = Vec::new();
    if with_variants {
        columns.push("variant".to_string());
    }
    columns.extend(["objective", "transport"].map(str::to_string));
    if with_settings {
        columns.push("with".to_string());
    }
    columns.extend(["highest load", "missed at load", "what gives way"].map(str::to_string));
    let number = |value: Option<f64>| match value {
        Some(value) => Cell::Number(value),
        None => Cell::Missing("none".to_string()),
    };
    let rows = experiment.capacities.iter().map(|capacity| {
        let mut row = Vec::new();
        if with_variants {
            row.push(Cell::Text(capacity.variant.clone()));
        }
        row.push(Cell::Text(capacity.objective.clone()));
        row.push(Cell::Text(capacity.policy.clone()));
        if with_settings {
            let settings = capacity.settings.iter();
            let each: Vec<String> =
                settings.map(|(key, value)| format!("{} = {value}", words(key))).collect();
            row.push(Cell::Text(each.join(", ")));
        }
        row.push(number(capacity.load));
        row.push(number(capacity.missed_at));
        row.push(Cell::Text(capacity.limit.clone()));
        row
    });
    let rows = rows.collect();
    let title = "Highest load that meets each objective".to_string();
    Some(Table { id: "capacity".to_string(), title, columns, rows })
}

/// The ranking tables: what each transport would buy, and what it costs whom.
pub fn ranking_tables(experiment: &NetExperiment) -> Vec<Table> {
    rankings(experiment).iter().enumerate().map(|(i, one)| ranking_table(i, one)).collect()
}

fn ranking_table(index: usize, ranking: &NetRanking) -> Table {
    let with_capacity = ranking.objective.is_some();
    let mut columns = vec!["transport".to_string()];
    if with_capacity {
        columns.extend(["highest load", "buys", "what gives way"].map(str::to_string));
    }
    columns.extend(["short p99 (x)", "largest queue (kB)", "gains and costs"].map(str::to_string));
    let rows = ranking.rows.iter().map(|row| {
        let clear = row.effects.iter().filter(|effect| effect.verdict != "unclear");
        let effects: Vec<String> = clear
            .map(|effect| {
                let way = if effect.verdict == "better" { "faster" } else { "slower" };
                let factor = if effect.ratio < 1.0 { 1.0 / effect.ratio } else { effect.ratio };
                let factor = cavy_report::number::significant(factor);
                format!("{} {factor}x {way} ({})", effect.whose, effect.percentile)
            })
            .collect();
        let costs = match row.compared_at_load {
            _ if row.transport == ranking.baseline => "the baseline".to_string(),
            Some(load) => {
                let at = if load > 0.0 { format!("at load {load}: ") } else { String::new() };
                let none = "no clear difference".to_string();
                format!("{at}{}", if effects.is_empty() { none } else { effects.join(", ") })
            }
            None => "no load at which both keep up".to_string(),
        };
        let mut cells = vec![Cell::Text(row.transport.clone())];
        if with_capacity {
            cells.push(row.load.map_or(Cell::Missing("none".to_string()), Cell::Number));
            let gain = row.gain_ratio.map(|gain| Cell::Text(format!("{gain:.2}x")));
            cells.push(gain.unwrap_or(Cell::Missing("n/a".to_string())));
            cells.push(Cell::Text(row.limit.clone()));
        }
        let missing = || Cell::Missing("n/a".to_string());
        cells.push(row.short_p99_slowdown.map_or(missing(), Cell::Number));
        let queue = row.queue_max_bytes.map(|bytes| Cell::Number(bytes as f64 / 1e3));
        cells.push(queue.unwrap_or(missing()));
        cells.push(Cell::Text(costs));
        cells
    });
    let rows = rows.collect();
    let head = ranking.objective.as_deref().unwrap_or("Ranking");
    Table {
        id: format!("ranking-{index}"),
        title: format!(
            "{head}{}: what each would buy, what it costs whom",
            suffix(&ranking.variant)
        ),
        columns,
        rows,
    }
}

/// The figure of a user's own plan.
pub fn figures(experiment: &NetExperiment, command: &str) -> Vec<Figure> {
    let mut panels = Vec::new();
    let mut tables = ranking_tables(experiment);
    tables.extend(capacities(experiment));
    for variant in experiment.variants() {
        panels.extend(panels_of(experiment, variant));
        panels.extend(super::timeline::panels(experiment, variant));
        match experiment.plan.traffic.pattern {
            Pattern::Echo => tables.extend(echo_table(experiment, variant)),
            Pattern::Incast => {}
            _ => tables.extend(sizes_table(experiment, variant)),
        }
        tables.push(needs_table(experiment, variant));
    }
    tables.push(points_table(experiment));
    vec![Figure {
        id: "plan".to_string(),
        title: experiment.plan.title.clone(),
        shows: experiment.plan.summary.clone(),
        claimed: String::new(),
        found: findings(experiment),
        command: command.to_string(),
        panels,
        tables,
    }]
}

/// What the rankings say, in words, and where they are silent.
fn findings(experiment: &NetExperiment) -> String {
    let mut sentences = Vec::new();
    for ranking in rankings(experiment) {
        let Some(best) = ranking.rows.first() else { continue };
        let of = suffix(&ranking.variant);
        match (&ranking.objective, best.load) {
            (Some(objective), Some(load)) => {
                let gain = match best.gain_ratio {
                    Some(gain) if best.transport != ranking.baseline => {
                        format!(", {gain:.2} times what {} sustains", ranking.baseline)
                    }
                    _ => String::new(),
                };
                sentences.push(format!(
                    "{} sustains the highest load under {objective}{of}: {load:.3}{gain}.",
                    best.transport
                ));
            }
            (Some(objective), None) => {
                sentences.push(format!("No transport meets {objective} at any load tried{of}."));
            }
            (None, _) => {
                if let Some((load, p99)) = best.compared_at_load.zip(best.short_p99_slowdown) {
                    sentences.push(format!(
                        "{} serves the smallest half of the messages best at load {load}{of}: 99 % \
                         of them take at most {p99:.2} times their least time.",
                        best.transport
                    ));
                }
            }
        }
    }
    let unstable = experiment.results.iter().filter(|r| !r.stable).count();
    if unstable > 0 {
        sentences.push(format!(
            "{unstable} of {} points do not keep up; their slowdowns are not given.",
            experiment.results.len()
        ));
    }
    let few =
        |r: &&NetResult| r.short.p99_slowdown.as_ref().is_some_and(|q| q.supported().is_none());
    let is_open = !matches!(experiment.plan.traffic.pattern, Pattern::Echo | Pattern::Incast);
    if is_open && experiment.results.iter().filter(few).count() > 0 {
        sentences.push(
            "Some points have fewer than 100 messages beyond the 99th percentile; raise \
             run.messages, run.duration_ms or run.replications."
                .to_string(),
        );
    }
    sentences.join(" ")
}
