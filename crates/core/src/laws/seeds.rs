//! Which seeds a test runs, where its caller says so.

use alloc::string::String;
use core::ops::Range;

/// The seeds to run: `usual`, as many from its first on as `CAVY_SEEDS` says, a piece of them
/// (`1000-1999`), or only `CAVY_SEED`. `said` looks a name up in the environment, which this room
/// cannot read.
///
/// # Panics
/// When one of these is no seed or no number of seeds: a test that runs others than it was told
/// proves less.
pub fn seeds(said: impl Fn(&str) -> Option<String>, usual: Range<u64>) -> Range<u64> {
    if let Some(one) = said("CAVY_SEED") {
        return number(&one)..number(&one) + 1;
    }
    match said("CAVY_SEEDS") {
        None => usual,
        Some(text) => piece(&text).unwrap_or_else(|| usual.start..usual.start + number(&text)),
    }
}

/// The seeds of a piece, `1000-1999`, both ends included; `None` of a text without a dash.
///
/// # Panics
/// When an end is no seed, or the last comes before the first.
pub fn piece(text: &str) -> Option<Range<u64>> {
    let (from, to) = text.split_once('-')?;
    let (from, to) = (number(from), number(to));
    assert!(from <= to, "a piece of seeds begins with the smaller one: {text}");
    Some(from..to + 1)
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("a seed, or a number of seeds, and not {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(one: Option<&str>, many: Option<&str>, usual: Range<u64>) -> Range<u64> {
        let said = |name: &str| match name {
            "CAVY_SEED" => one.map(String::from),
            "CAVY_SEEDS" => many.map(String::from),
            _ => panic!("{name} says no seeds"),
        };
        seeds(said, usual)
    }

    #[test]
    fn a_caller_says_one_seed_a_number_of_them_a_piece_or_nothing() {
        assert_eq!(of(None, None, 3..60), 3..60);
        assert_eq!(of(None, Some("7"), 3..60), 3..10);
        assert_eq!(of(None, Some("1000-1999"), 3..60), 1_000..2_000);
        assert_eq!(of(None, Some("5-5"), 3..60), 5..6);
        assert_eq!(of(Some("2390"), Some("7"), 3..60), 2_390..2_391);
        assert_eq!((piece("60"), piece("1-60")), (None, Some(1..61)));
    }

    #[test]
    #[should_panic(expected = "a seed, or a number of seeds, and not \"many\"")]
    fn what_is_no_number_is_not_taken_for_nothing() {
        of(None, Some("many"), 0..60);
    }

    #[test]
    #[should_panic(expected = "begins with the smaller one: 9-3")]
    fn a_piece_that_ends_before_it_begins_is_none() {
        of(None, Some("9-3"), 0..60);
    }
}
