//! The numbers themselves, unrounded: CSV for a spreadsheet, JSON for a program.

use csv::Writer;

use crate::model::{Cell, Document};

/// All points of all figures in long form, a row per point; an unknown value is an empty field.
pub fn csv(document: &Document) -> String {
    let mut rows =
        vec![record(["figure", "panel", "series", "x", "y", "low", "high", "samples", "stable"])];
    for figure in &document.figures {
        for panel in &figure.panels {
            for series in &panel.series {
                rows.extend(series.points.iter().map(|point| {
                    vec![
                        figure.id.clone(),
                        panel.id.clone(),
                        series.label.clone(),
                        point.x.to_string(),
                        optional(point.y),
                        optional(point.low),
                        optional(point.high),
                        point.samples.to_string(),
                        point.stable.to_string(),
                    ]
                }));
            }
        }
    }
    write(rows)
}

/// All tables of all figures in long form, a row per cell; rows count from 1.
pub fn tables_csv(document: &Document) -> String {
    let mut rows =
        vec![record(["figure", "table", "row", "column", "value", "low", "high", "text"])];
    for figure in &document.figures {
        for table in &figure.tables {
            for (index, row) in table.rows.iter().enumerate() {
                for (column, cell) in table.columns.iter().zip(row) {
                    let [value, low, high, text] = match cell {
                        Cell::Text(text) | Cell::Missing(text) => {
                            [String::new(), String::new(), String::new(), text.clone()]
                        }
                        Cell::Number(value) | Cell::Setting(value) => {
                            [value.to_string(), String::new(), String::new(), String::new()]
                        }
                        Cell::Interval { value, low, high } => {
                            [value.to_string(), low.to_string(), high.to_string(), String::new()]
                        }
                    };
                    rows.push(vec![
                        figure.id.clone(),
                        table.id.clone(),
                        (index + 1).to_string(),
                        column.clone(),
                        value,
                        low,
                        high,
                        text,
                    ]);
                }
            }
        }
    }
    write(rows)
}

/// All marks and ways of all maps; a mark has no end.
pub fn maps_csv(document: &Document) -> String {
    let mut rows =
        vec![record(["figure", "map", "layer", "name", "lat", "lon", "to_lat", "to_lon", "text"])];
    for figure in &document.figures {
        for map in &figure.maps {
            for layer in &map.layers {
                let mut row = |name: &str, at: (f64, f64), to: Option<(f64, f64)>, says: &str| {
                    rows.push(vec![
                        figure.id.clone(),
                        map.id.clone(),
                        layer.label.clone(),
                        name.to_owned(),
                        at.0.to_string(),
                        at.1.to_string(),
                        optional(to.map(|to| to.0)),
                        optional(to.map(|to| to.1)),
                        says.to_owned(),
                    ]);
                };
                layer.marks.iter().for_each(|mark| row(&mark.name, mark.at, None, &mark.says));
                layer.ways.iter().for_each(|way| row("", way.from, Some(way.to), &way.says));
            }
        }
    }
    write(rows)
}

/// Everything, indented. A number that JSON cannot say (NaN, an open end of a tolerance) is `null`.
pub fn json(document: &Document) -> String {
    let mut text =
        serde_json::to_string_pretty(document).expect("a document has only plain fields");
    text.push('\n');
    text
}

fn record<const N: usize>(fields: [&str; N]) -> Vec<String> {
    fields.map(str::to_owned).to_vec()
}

fn optional(value: Option<f64>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn write(rows: Vec<Vec<String>>) -> String {
    let mut writer = Writer::from_writer(Vec::new());
    for row in rows {
        writer.write_record(row).expect("memory takes every row, and all rows are of one length");
    }
    let bytes = writer.into_inner().expect("memory takes every row");
    String::from_utf8(bytes).expect("fields are UTF-8")
}
