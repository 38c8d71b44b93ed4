//! Makes `assets/land-110m.txt` of `land-110m.json`, which npm's package `world-atlas` 2.0.2 has:
//! Natural Earth's land at 1:110 million, in the public domain, as TopoJSON.
//!
//! `npm pack world-atlas@2.0.2`, unpack it, then
//! `cargo run -p cavy-report --example pack_land -- package/land-110m.json > land-110m.txt`

use serde_json::Value;
use std::error::Error;

/// Points nearer than this to the line without them are left out, degrees.
const COARSE_DEG: f64 = 0.2;
/// Land that lies wholly south of this is left out.
const SOUTH_DEG: f64 = -60.0;
const COLUMNS: usize = 100;

type Place = (f64, f64);

fn pair(value: &Value) -> Option<Place> {
    Some((value.get(0)?.as_f64()?, value.get(1)?.as_f64()?))
}

/// What is left of a line (Douglas and Peucker).
fn coarse(line: &[Place]) -> Vec<Place> {
    let (Some(first), Some(last)) = (line.first(), line.last()) else { return Vec::new() };
    let (dx, dy) = (last.0 - first.0, last.1 - first.1);
    let long = dx.hypot(dy);
    let off = |at: &Place| {
        let (x, y) = (at.0 - first.0, at.1 - first.1);
        if long > 1e-9 { (dy * x - dx * y).abs() / long } else { x.hypot(y) }
    };
    let farthest = (1..line.len().saturating_sub(1))
        .map(|index| (off(&line[index]), index))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match farthest {
        Some((far, index)) if far > COARSE_DEG => {
            let mut all = coarse(&line[..=index]);
            all.pop();
            all.extend(coarse(&line[index..]));
            all
        }
        _ => vec![*first, *last],
    }
}

/// Longitudes without jumps at the edge of the sheet.
fn unwound(line: &mut [Place]) {
    let mut turn = 0.0;
    for index in 1..line.len() {
        let step = line[index].0 + turn - line[index - 1].0;
        turn -= 360.0 * (step / 360.0).round();
        line[index].0 += turn;
    }
}

/// The part of an outline on one side of a longitude (Sutherland and Hodgman).
fn side(ring: &[Place], edge: f64, east: bool) -> Vec<Place> {
    let inside = |place: &Place| (place.0 >= edge) == east;
    let mut out = Vec::new();
    for (a, b) in ring.iter().zip(ring.iter().cycle().skip(1)) {
        if inside(a) {
            out.push(*a);
        }
        if inside(a) != inside(b) {
            out.push((edge, a.1 + (edge - a.0) / (b.0 - a.0) * (b.1 - a.1)));
        }
    }
    out
}

/// What lies on the sheet of an outline that may reach over its edge.
fn on_sheet(ring: &[Place]) -> Vec<Vec<Place>> {
    let of = |turn: f64| {
        let moved: Vec<Place> = ring.iter().map(|place| (place.0 + turn, place.1)).collect();
        side(&side(&moved, -180.0, true), 180.0, false)
    };
    [-360.0, 0.0, 360.0].map(of).into_iter().filter(|part| part.len() >= 3).collect()
}

#[allow(clippy::disallowed_methods)] // A command of its own: arguments are its input.
fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("give land-110m.json")?;
    let topology: Value = serde_json::from_str(&std::fs::read_to_string(file)?)?;
    let transform = &topology["transform"];
    let (scale, shift) = (
        pair(&transform["scale"]).ok_or("a scale")?,
        pair(&transform["translate"]).ok_or("shift")?,
    );
    let arcs: Vec<Vec<Place>> = topology["arcs"]
        .as_array()
        .ok_or("arcs")?
        .iter()
        .map(|arc| {
            let mut sum = (0.0, 0.0);
            let steps = arc.as_array().into_iter().flatten().filter_map(pair);
            steps
                .map(|step| {
                    sum = (sum.0 + step.0, sum.1 + step.1);
                    (sum.0 * scale.0 + shift.0, sum.1 * scale.1 + shift.1)
                })
                .collect()
        })
        .collect();
    let rings = topology["objects"]["land"]["geometries"]
        .as_array()
        .ok_or("land")?
        .iter()
        .flat_map(|shape| shape["arcs"].as_array().into_iter().flatten())
        .flat_map(|polygon| polygon.as_array().into_iter().flatten());
    let mut out = Vec::new();
    for ring in rings {
        let mut line: Vec<Place> = Vec::new();
        for index in ring.as_array().into_iter().flatten().filter_map(Value::as_i64) {
            let arc = arcs.get(if index < 0 { !index } else { index } as usize).ok_or("an arc")?;
            let mut arc = arc.clone();
            if index < 0 {
                arc.reverse();
            }
            line.extend(arc.into_iter().skip(usize::from(!line.is_empty())));
        }
        let mut line = coarse(&line);
        line.pop();
        if line.len() < 3 || line.iter().all(|place| place.1 < SOUTH_DEG) {
            continue;
        }
        unwound(&mut line);
        out.extend(on_sheet(&line).into_iter().map(|part| written(&part)));
    }
    println!("{}", out.join("\n\n"));
    Ok(())
}

/// An outline as the file has it.
fn written(line: &[Place]) -> String {
    let (mut text, mut columns) = (String::new(), 0);
    let mut last = (0, 0);
    for (lon, lat) in line {
        let here = ((lon * 10.0).round() as i32, (lat * 10.0).round() as i32);
        let step = format!("{} {}", here.0 - last.0, here.1 - last.1);
        last = here;
        if columns > 0 {
            let fits = columns + 1 + step.len() <= COLUMNS;
            text.push(if fits { ' ' } else { '\n' });
            columns = if fits { columns + 1 } else { 0 };
        }
        columns += step.len();
        text += &step;
    }
    text
}
