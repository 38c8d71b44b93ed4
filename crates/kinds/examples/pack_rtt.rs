//! Makes a file of `coords/data` of two CSV files: machines, with a line of heads, and round trips
//! in milliseconds, a row for each machine and no heads.
//!
//! `cargo run -p cavy-kinds --example pack_rtt -- nodes.csv rtt_ms.csv out.rtt`
//!
//! Machines have `name`, `lat` and `lon`, where they are; `asn_v4`, `dbip_lat` and `dbip_lon` where
//! there are such columns. Without a database's answers the true places stand for them.

use cavy_kinds::coords::data::pack::{Raw, Row, encode, steps};
use std::error::Error;

#[allow(clippy::disallowed_methods)] // A command of its own: arguments are its input.
fn main() -> Result<(), Box<dyn Error>> {
    let files: Vec<String> = std::env::args().skip(1).collect();
    let [nodes, rtt, out] = files.as_slice() else {
        return Err("give a file of machines, one of round trips, and where to write".into());
    };
    let mut table = csv::Reader::from_path(nodes)?;
    let heads = table.headers()?.clone();
    let column = |name: &str| heads.iter().position(|head| head == name);
    let name = column("name").or(column("region")).ok_or("no column `name`")?;
    let system = column("asn_v4");
    let place = (column("lat").ok_or("no column `lat`")?, column("lon").ok_or("no column `lon`")?);
    let said = column("dbip_lat").zip(column("dbip_lon")).unwrap_or(place);
    let mut rows = Vec::new();
    for record in table.records() {
        let record = record?;
        let at = |(lat, lon): (usize, usize)| -> Result<_, Box<dyn Error>> {
            let (Some(lat), Some(lon)) = (record.get(lat), record.get(lon)) else {
                return Err("a short line".into());
            };
            if lat.is_empty() || lon.is_empty() {
                return Ok(None);
            }
            Ok(Some(steps(lat.parse()?, lon.parse()?)))
        };
        rows.push(Row {
            name: record[name].to_string(),
            system: system.map_or(Ok(0), |column| record[column].parse())?,
            place: at(place)?,
            said: at(said)?,
        });
    }
    let mut rtt_us = Vec::new();
    let mut matrix = csv::ReaderBuilder::new().has_headers(false).from_path(rtt)?;
    for (row, record) in matrix.records().enumerate() {
        let cell = |(column, text): (usize, &str)| -> Result<Option<u32>, Box<dyn Error>> {
            if text.is_empty() || column == row {
                return Ok(None);
            }
            let us = text.parse::<f64>()? * 1e3;
            Ok(Some(us.round() as u32))
        };
        let record = record?;
        rtt_us.push(record.iter().enumerate().map(cell).collect::<Result<Vec<_>, _>>()?);
    }
    if rtt_us.len() != rows.len() || rtt_us.iter().any(|row| row.len() != rows.len()) {
        return Err("the round trips are no square of as many rows as machines".into());
    }
    std::fs::write(out, encode(&Raw { rows, rtt_us }))?;
    Ok(())
}
