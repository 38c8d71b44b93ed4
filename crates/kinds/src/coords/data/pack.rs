//! Machines and round trips in few bytes, exact to a microsecond and to 1e-7 degrees.
//!
//! A file is the word `cavyrtt1`; the number of machines; for each its name, the number of its
//! system, and twice latitude and longitude: where it is and where a database says it is; then for
//! each pair, by rows of the upper triangle, both directions in microseconds. Whole numbers are of
//! variable length, seven bits a byte. Zero stands for what is not known, so a round trip is
//! written as one more than it is; the second direction is written as its difference from the
//! first, which is small.
//!
//! A file with the word `cavyrtt2` says after it how many microseconds its round trips are counted
//! in, and has one number a pair: what was measured is no more exact, and both directions are one.

use super::super::world::{Machine, Matrix, Truth, World};
use cavy_coords::Point;

const WORD: &[u8; 8] = b"cavyrtt1";
const COARSE: &[u8; 8] = b"cavyrtt2";
/// Steps of a degree.
const STEPS: f64 = 1e7;

/// A place as latitude and longitude in steps of 1e-7 degrees.
pub type Place = Option<(i32, i32)>;

/// One machine, as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name, at most 255 bytes.
    pub name: String,
    /// Number of its system; 0 when not known.
    pub system: u32,
    /// Where it is.
    pub place: Place,
    /// Where a database says that it is.
    pub said: Place,
}

/// Machines, and by row and column the round trips in microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raw {
    /// The machines.
    pub rows: Vec<Row>,
    /// Both directions; `None` on the diagonal and where nothing was measured.
    pub rtt_us: Vec<Vec<Option<u32>>>,
}

/// Degrees in steps of 1e-7.
pub fn steps(latitude: f64, longitude: f64) -> (i32, i32) {
    ((latitude * STEPS).round() as i32, (longitude * STEPS).round() as i32)
}

fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

fn put_place(bytes: &mut Vec<u8>, place: Place) {
    let Some((latitude, longitude)) = place else { return put(bytes, 0) };
    put(bytes, zigzag(latitude.into()) + 1);
    put(bytes, zigzag(longitude.into()));
}

fn put_rows(bytes: &mut Vec<u8>, rows: &[Row]) {
    put(bytes, rows.len() as u64);
    for row in rows {
        put(bytes, row.name.len() as u64);
        bytes.extend_from_slice(row.name.as_bytes());
        put(bytes, row.system.into());
        put_place(bytes, row.place);
        put_place(bytes, row.said);
    }
}

/// Writes a file of round trips in steps of `unit_us`, both directions averaged; one that is
/// missing is taken for the other.
pub fn encode_coarse(raw: &Raw, unit_us: u32) -> Vec<u8> {
    let mut bytes = COARSE.to_vec();
    put(&mut bytes, unit_us.into());
    put_rows(&mut bytes, &raw.rows);
    for from in 0..raw.rows.len() {
        for to in from + 1..raw.rows.len() {
            let us = match (raw.rtt_us[from][to], raw.rtt_us[to][from]) {
                (Some(there), Some(back)) => Some((f64::from(there) + f64::from(back)) / 2.0),
                (there, back) => there.or(back).map(f64::from),
            };
            // No round trip is counted as none at all.
            let steps = us.map(|us| (us / f64::from(unit_us)).round().max(1.0) as u64);
            put(&mut bytes, steps.map_or(0, |steps| steps + 1));
        }
    }
    bytes
}

/// Writes a file.
pub fn encode(raw: &Raw) -> Vec<u8> {
    let mut bytes = WORD.to_vec();
    put_rows(&mut bytes, &raw.rows);
    for from in 0..raw.rows.len() {
        for to in from + 1..raw.rows.len() {
            let (there, back) = (raw.rtt_us[from][to], raw.rtt_us[to][from]);
            put(&mut bytes, there.map_or(0, |us| u64::from(us) + 1));
            put(
                &mut bytes,
                match (there, back) {
                    (_, None) => 0,
                    (None, Some(us)) => u64::from(us) + 1,
                    (Some(there), Some(back)) => zigzag(i64::from(back) - i64::from(there)) + 1,
                },
            );
        }
    }
    bytes
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take(&mut self, count: usize) -> Option<&[u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    fn number(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..63).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn place(&mut self) -> Option<Place> {
        let Some(latitude) = self.number()?.checked_sub(1) else { return Some(None) };
        let longitude = self.number()?;
        let of = |value| i32::try_from(unzigzag(value)).ok();
        Some(Some((of(latitude)?, of(longitude)?)))
    }
}

/// Reads a file as it is written; `None` where it is none.
pub fn decode_raw(bytes: &[u8]) -> Option<Raw> {
    let mut reader = Reader(bytes);
    let word = reader.take(WORD.len())?;
    let unit_us = match (word == WORD, word == COARSE) {
        (true, _) => None,
        (_, true) => Some(reader.number()?),
        _ => return None,
    };
    let count = usize::try_from(reader.number()?).ok().filter(|count| *count <= bytes.len())?;
    let mut rows = Vec::with_capacity(count);
    for _ in 0..count {
        let length = reader.number()? as usize;
        let name = String::from_utf8(reader.take(length)?.to_vec()).ok()?;
        let system = u32::try_from(reader.number()?).ok()?;
        let (place, said) = (reader.place()?, reader.place()?);
        rows.push(Row { name, system, place, said });
    }
    let mut rtt_us = vec![vec![None; count]; count];
    let pairs = (0..count).flat_map(|from| (from + 1..count).map(move |to| (from, to)));
    for (from, to) in pairs {
        let us = |value: Option<u64>| value.map(u32::try_from).transpose().ok();
        if let Some(unit_us) = unit_us {
            let both = reader.number()?.checked_sub(1).map(|steps| steps.saturating_mul(unit_us));
            (rtt_us[from][to], rtt_us[to][from]) = (us(both)?, us(both)?);
            continue;
        }
        let there = reader.number()?.checked_sub(1);
        let back = match (there, reader.number()?.checked_sub(1)) {
            (Some(there), Some(by)) => Some(there.checked_add_signed(unzigzag(by))?),
            (_, back) => back,
        };
        rtt_us[from][to] = us(there)?;
        rtt_us[to][from] = us(back)?;
    }
    reader.0.is_empty().then_some(Raw { rows, rtt_us })
}

/// Reads a file; directions are averaged, and one that is missing is taken for the other.
pub(super) fn decode(bytes: &[u8], credits: &'static [&'static str]) -> Option<World> {
    let raw = decode_raw(bytes)?;
    let point = |place: Place| {
        let (latitude, longitude) = place?;
        Point::from_degrees(f64::from(latitude) / STEPS, f64::from(longitude) / STEPS)
    };
    let machine = |row: &Row| Machine {
        name: row.name.clone(),
        place: point(row.place),
        said: point(row.said),
        system: row.system,
    };
    let machines: Vec<Machine> = raw.rows.iter().map(machine).collect();
    let count = machines.len() as u32;
    let mut matrix = Matrix::empty(count);
    for a in 0..count {
        for b in a + 1..count {
            let of = |from: u32, to: u32| raw.rtt_us[from as usize][to as usize].map(f64::from);
            let us = match (of(a, b), of(b, a)) {
                (Some(there), Some(back)) => (there + back) / 2.0,
                (there, back) => match there.or(back) {
                    Some(us) => us,
                    None => continue,
                },
            };
            matrix.set(a, b, us / 1e3);
        }
    }
    Some(World { machines, truth: Truth::Matrix(matrix), credits, note: String::new() })
}
