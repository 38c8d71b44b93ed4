//! From experiments to what a report draws: panels, tables and words, whatever was simulated.

pub mod figure;
pub mod panel;
pub mod table;

pub use figure::figures;
pub use panel::{Curve, Drawn, Spread, axis, horizontal, panel};
pub use table::{Column, capacities, cell, points, rankings, setting};

use crate::experiment::BASE;
use crate::outcome::Outcome;

/// A key for readers: its last part, without underscores.
pub fn words(key: &str) -> String {
    key.rsplit('.').next().unwrap_or(key).replace('_', " ")
}

/// What a title says of a variant: nothing of the plan as it is written.
pub fn suffix(variant: &str) -> String {
    if variant == BASE { String::new() } else { format!(" ({variant})") }
}

/// Swept values other than `key`, in words; empty when there are none.
pub fn facet<D>(result: &Outcome<D>, key: Option<&str>) -> String {
    let others = result.settings.iter().filter(|(k, _)| Some(k.as_str()) != key);
    let each: Vec<String> = others
        .map(|(k, value)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_string);
            format!("{} {value}", words(k))
        })
        .collect();
    each.join(", ")
}

/// `text` with a capital at its beginning.
pub fn headline(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => String::new(),
    }
}

/// `text` as a part of a name: small letters, digits and hyphens.
pub fn slug(text: &str) -> String {
    let small = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    text.chars().map(small).collect()
}
