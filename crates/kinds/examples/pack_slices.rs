//! Makes a file of `coords/data` of several squares of round trips between the same machines: of
//! each pair the median over the squares, both directions averaged.
//!
//! `cargo run -p cavy-kinds --example pack_slices -- MS UNIT_US out.rtt SQUARE..`
//!
//! A square has numbers with tabs or blanks between them; a number times `MS` is milliseconds, and
//! 0 was not measured. `UNIT_US` is the step in which round trips are kept.

use cavy_kinds::coords::data::pack::{Raw, Row, encode_coarse};
use std::error::Error;

#[allow(clippy::disallowed_methods)] // A command of its own: arguments are its input.
fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [scale, unit, out, squares @ ..] = words.as_slice() else {
        return Err(
            "give milliseconds of a number, the step in microseconds, a file, squares".into()
        );
    };
    let (scale, unit): (f64, u32) = (scale.parse()?, unit.parse()?);
    let mut count = 0;
    let mut all: Vec<Vec<f64>> = Vec::new();
    for square in squares {
        let text = std::fs::read_to_string(square)?;
        let rows = text.lines().filter(|line| !line.trim().is_empty());
        for (row, line) in rows.enumerate() {
            let cells: Vec<f64> =
                line.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
            count = count.max(cells.len());
            all.resize(all.len().max(count * count), Vec::new());
            for (column, value) in cells.into_iter().enumerate() {
                if value > 0.0 && column != row {
                    all[row * count + column].push(value * scale);
                }
            }
        }
    }
    let median = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let low = values.get(middle.checked_sub(1)?).or(values.first())?;
        let high = values.get(middle)?;
        Some(if values.len() % 2 == 1 { *high } else { (low + high) / 2.0 })
    };
    let mut of = |at: usize| match all[at].len() {
        0 => None,
        1 => Some((all[at][0] * 1e3).round() as u32),
        _ => median(&mut all[at]).map(|ms| (ms * 1e3).round() as u32),
    };
    let rtt_us = (0..count).map(|row| (0..count).map(|c| of(row * count + c)).collect()).collect();
    let row = |index: usize| Row { name: format!("n{index}"), system: 0, place: None, said: None };
    let rows = (0..count).map(row).collect();
    std::fs::write(out, encode_coarse(&Raw { rows, rtt_us }, unit))?;
    Ok(())
}
