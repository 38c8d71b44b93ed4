//! Writes small databases in MaxMind's format: of addresses that no public one knows, such as one's
//! own, and for tests.

use super::systems::{MARK, prefix};
use maxminddb::Metadata;
use std::collections::BTreeMap;

/// What is said of a prefix.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Row {
    /// `192.0.2.0/24` or `2001:db8::/32`.
    pub prefix: String,
    /// Degrees.
    pub place: Option<(f64, f64)>,
    /// ISO 3166 code.
    pub country: Option<String>,
    /// Number of the autonomous system.
    pub system: Option<u32>,
}

/// Bits of one link of the tree.
const LINK_BITS: u16 = 32;
/// Bytes between tree and data.
const GAP: usize = 16;

const TEXT: u8 = 2;
const DOUBLE: u8 = 3;
const SHORT: u8 = 5;
const WORD: u8 = 6;
const MAP: u8 = 7;
/// Beyond 7, what is added to a byte of its own.
const LONG: u8 = 9;
const ARRAY: u8 = 11;

fn head(out: &mut Vec<u8>, kind: u8, size: usize) {
    // All that is written here is shorter than 29.
    debug_assert!(size < 29);
    let size = size as u8;
    if kind < 8 {
        out.push(kind << 5 | size);
    } else {
        out.extend([size, kind - 7]);
    }
}

fn text(out: &mut Vec<u8>, value: &str) {
    head(out, TEXT, value.len());
    out.extend_from_slice(value.as_bytes());
}

fn number(out: &mut Vec<u8>, kind: u8, value: u64, bytes: usize) {
    let all = value.to_be_bytes();
    let skip = all.iter().take_while(|byte| **byte == 0).count().max(8 - bytes);
    head(out, kind, 8 - skip);
    out.extend_from_slice(&all[skip..]);
}

fn record(row: &Row) -> Vec<u8> {
    let mut out = Vec::new();
    let fields = [row.place.is_some(), row.country.is_some(), row.system.is_some()];
    head(&mut out, MAP, fields.iter().filter(|there| **there).count());
    if let Some((latitude, longitude)) = row.place {
        text(&mut out, "location");
        head(&mut out, MAP, 2);
        for (name, value) in [("latitude", latitude), ("longitude", longitude)] {
            text(&mut out, name);
            head(&mut out, DOUBLE, 8);
            out.extend_from_slice(&value.to_be_bytes());
        }
    }
    if let Some(code) = &row.country {
        text(&mut out, "country");
        head(&mut out, MAP, 1);
        text(&mut out, "iso_code");
        text(&mut out, code);
    }
    if let Some(system) = row.system {
        text(&mut out, "autonomous_system_number");
        number(&mut out, WORD, system.into(), 4);
    }
    out
}

/// Writes the part in which a database describes itself, the last one of the file.
fn about(out: &mut Vec<u8>, ip_version: u16, link_bits: u16, nodes: u64) {
    out.extend_from_slice(MARK);
    head(out, MAP, 9);
    for (name, kind, value) in [
        ("binary_format_major_version", SHORT, 2),
        ("binary_format_minor_version", SHORT, 0),
        ("ip_version", SHORT, u64::from(ip_version)),
        ("record_size", SHORT, u64::from(link_bits)),
        ("node_count", WORD, nodes),
        ("build_epoch", LONG, 1),
    ] {
        text(out, name);
        number(out, kind, value, 8);
    }
    text(out, "database_type");
    text(out, "cavy-own");
    text(out, "languages");
    head(out, ARRAY, 0);
    text(out, "description");
    head(out, MAP, 1);
    text(out, "en");
    text(out, "Own addresses");
}

/// Describes a database that describes itself in no language: DB-IP's are so, and the reader's
/// verification takes them for broken.
pub(crate) fn described(bytes: &mut Vec<u8>, was: &Metadata) {
    if let Some(at) = bytes.windows(MARK.len()).rposition(|part| part == MARK) {
        bytes.truncate(at);
        about(bytes, was.ip_version, was.record_size, was.node_count.into());
    }
}

/// Where a link of the tree leads.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Link {
    Nowhere,
    Node(usize),
    Data(usize),
}

/// The bytes of a database with these rows; a later row wins within a shorter one.
///
/// # Errors
/// The prefix that is none, or the country's code that is none.
pub fn database(rows: &[Row]) -> Result<Vec<u8>, String> {
    let mut sorted: BTreeMap<(u8, u128), &Row> = BTreeMap::new();
    for row in rows {
        let (length, at) = prefix(&row.prefix)
            .ok_or_else(|| format!("{:?} is no prefix such as 192.0.2.0/24", row.prefix))?;
        if row.country.as_ref().is_some_and(|code| code.len() != 2) {
            return Err(format!("{:?} is no country's code such as JP", row.country));
        }
        // Of IPv4 at ::/96, where readers look for it.
        let mapped = length >= 96 && at >> 32 == 0xffff;
        let at = if mapped { at & 0xffff_ffff } else { at };
        sorted.insert((length, at), row);
    }
    let mut nodes = vec![[Link::Nowhere; 2]];
    let mut data = Vec::new();
    // Shorter ones first, so that longer ones are put into them.
    for ((length, at), row) in sorted {
        let place = data.len();
        data.extend(record(row));
        let bit = |depth: u8| (at >> (127 - depth) & 1) as usize;
        let mut node = 0;
        for depth in 0..length.saturating_sub(1) {
            let link = nodes[node][bit(depth)];
            node = match link {
                Link::Node(next) => next,
                // What was said of the whole still holds for the rest of it.
                other => {
                    nodes.push([other; 2]);
                    let next = nodes.len() - 1;
                    nodes[node][bit(depth)] = Link::Node(next);
                    next
                }
            };
        }
        if length == 0 {
            nodes[0] = [Link::Data(place); 2];
        } else {
            nodes[node][bit(length - 1)] = Link::Data(place);
        }
    }
    let count = nodes.len();
    let mut out = Vec::with_capacity(count * 8 + GAP + data.len() + 200);
    for link in nodes.iter().flatten() {
        let value = match link {
            Link::Nowhere => count,
            Link::Node(node) => *node,
            Link::Data(place) => count + GAP + place,
        };
        let value = u32::try_from(value).map_err(|_| "that is too much".to_string())?;
        out.extend_from_slice(&value.to_be_bytes());
    }
    out.extend_from_slice(&[0; GAP]);
    out.extend_from_slice(&data);
    about(&mut out, 6, LINK_BITS, count as u64);
    Ok(out)
}
