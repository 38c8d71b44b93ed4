//! Numbers as words. Every number a reader sees in a table goes through [`significant`].
//!
//! Thousands are parted by a no-break space, so that a table never wraps inside a number. CSV and
//! JSON do not come here: they carry the value itself.

/// Three significant digits, for what was measured.
///
/// A value that three digits give exactly is printed as short as it is (`14`, `0.8`), so that a
/// setting looks as it was set; any other value keeps its trailing zeros (`20.04` is `20.0`),
/// because they are information. From ten million up and below a thousandth the form is
/// `1.23e-5`.
///
/// ```
/// use cavy_report::number::significant;
/// assert_eq!(significant(0.01234), "0.0123");
/// assert_eq!(significant(20.04), "20.0");
/// assert_eq!(significant(1234.0), "1\u{a0}230");
/// assert_eq!(significant(f64::NAN), "n/a");
/// ```
pub fn significant(value: f64) -> String {
    digits(value, 3)
}

/// Six significant digits, for what was set: the x of a point, where `10.25` must not become
/// `10.3`.
pub fn coordinate(value: f64) -> String {
    digits(value, 6)
}

/// A count in full.
pub fn count(value: u64) -> String {
    group(&value.to_string())
}

/// Two digits of a length, rounded up: for what would be enough.
///
/// ```
/// assert_eq!(cavy_report::number::upwards(101.0), 110);
/// ```
pub fn upwards(value: f64) -> u64 {
    let unit = 10f64.powi((value.max(1.0).log10().floor() as i32 - 1).max(0));
    ((value / unit).ceil() * unit) as u64
}

/// A share that is told from 1, such as that of a limit: four decimals.
pub fn beside_one(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

fn digits(value: f64, significant: usize) -> String {
    if value.is_nan() {
        return "n/a".into();
    }
    let sign = if value < 0.0 { "-" } else { "" };
    let magnitude = value.abs();
    if magnitude.is_infinite() {
        return format!("{sign}∞");
    }
    if magnitude == 0.0 {
        return "0".into();
    }
    let scientific = format!("{magnitude:.*e}", significant - 1);
    let (mantissa, exponent) = scientific.split_once('e').expect("the e form has an e");
    let exponent: i32 = exponent.parse().expect("the exponent is an integer");
    // Through the text, because rounding may carry into the next power of ten.
    let rounded: f64 = scientific.parse().expect("printed by us");
    let exact = (rounded - magnitude).abs() <= magnitude * 1e-9;
    if !(-3..7).contains(&exponent) {
        return format!("{sign}{}e{exponent}", trim(mantissa, exact));
    }
    let decimals = (significant as i32 - 1 - exponent).max(0) as usize;
    let plain = format!("{rounded:.decimals$}");
    let plain = trim(&plain, exact);
    let (whole, fraction) = plain.split_once('.').map_or((plain, None), |(w, f)| (w, Some(f)));
    match fraction {
        Some(fraction) => format!("{sign}{}.{fraction}", group(whole)),
        None => format!("{sign}{}", group(whole)),
    }
}

/// Drops zeros after the decimal point when they say nothing.
fn trim(text: &str, exact: bool) -> &str {
    if exact && text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text
    }
}

fn group(whole: &str) -> String {
    let mut out = String::with_capacity(whole.len() + whole.len() / 3 * 2);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            out.push('\u{a0}');
        }
        out.push(digit);
    }
    out
}

/// A tick of an axis whose steps are `step` wide and whose largest tick is `largest`.
///
/// Axes that reach ten thousand count in k, M and G, as narrow screens have no room for zeros.
pub(crate) fn tick(value: f64, step: f64, largest: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    if largest < 1e4 {
        if step >= 1e-4 {
            let decimals = (-(step * 1.000_001).log10().floor()).max(0.0) as usize;
            let sign = if value < 0.0 { "-" } else { "" };
            let plain = format!("{:.decimals$}", value.abs());
            return match plain.split_once('.') {
                Some((whole, fraction)) => format!("{sign}{}.{fraction}", group(whole)),
                None => format!("{sign}{}", group(&plain)),
            };
        }
        return coordinate(value);
    }
    let (divisor, suffix) = match value.abs() {
        a if a >= 1e15 => return coordinate(value),
        a if a >= 1e12 => (1e12, "T"),
        a if a >= 1e9 => (1e9, "G"),
        a if a >= 1e6 => (1e6, "M"),
        a if a >= 1e3 => (1e3, "k"),
        _ => (1.0, ""),
    };
    format!("{}{suffix}", coordinate(value / divisor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn significant__three_digits_at_every_size() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (0.0123, "0.0123"),
            (0.012345, "0.0123"),
            (0.001, "0.001"),
            (0.00012345, "1.23e-4"),
            (1.234, "1.23"),
            (12.34, "12.3"),
            (123.4, "123"),
            (1234.0, "1\u{a0}230"),
            (999.7, "1\u{a0}000"),
            (9.999, "10.0"),
            (1_234_567.0, "1\u{a0}230\u{a0}000"),
            (12_345_678.0, "1.23e7"),
            (-12.34, "-12.3"),
            (0.1 + 0.2, "0.3"),
            (0.8, "0.8"),
            (0.8003, "0.800"),
            (14.0, "14"),
            (20.04, "20.0"),
        ] {
            assert_eq!(significant(value), text, "{value}");
        }
    }

    #[test]
    fn significant__is_total() {
        assert_eq!(significant(f64::NAN), "n/a");
        assert_eq!(significant(f64::INFINITY), "∞");
        assert_eq!(significant(f64::NEG_INFINITY), "-∞");
        assert_eq!(significant(f64::MAX), "1.80e308");
        assert_eq!(significant(f64::MIN_POSITIVE), "2.23e-308");
        assert_eq!(significant(5e-324), "4.94e-324");
    }

    #[test]
    fn coordinate__keeps_what_was_set() {
        assert_eq!(coordinate(10.25), "10.25");
        assert_eq!(coordinate(1250.0), "1\u{a0}250");
        assert_eq!(coordinate(1.0 / 3.0), "0.333333");
    }

    #[test]
    fn upwards__has_two_digits() {
        assert_eq!([1.0, 99.0, 101.0, 123_456.0].map(upwards), [1, 99, 110, 130_000]);
    }

    #[test]
    fn beside_one__tells_from_one() {
        assert_eq!([1.0, 1.02, 1.0004].map(beside_one), ["1", "1.02", "1.0004"]);
    }

    #[test]
    fn count__is_in_full() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1\u{a0}234\u{a0}567");
    }

    #[test]
    fn tick__is_short() {
        assert_eq!(tick(0.2, 0.2, 0.8), "0.2");
        assert_eq!(tick(1.0, 0.5, 2.0), "1.0");
        assert_eq!(tick(2000.0, 1000.0, 5000.0), "2\u{a0}000");
        assert_eq!(tick(20_000.0, 10_000.0, 50_000.0), "20k");
        assert_eq!(tick(100.0, 100.0, 1e6), "100");
        assert_eq!(tick(1e6, 100.0, 1e6), "1M");
        assert_eq!(tick(-0.5, 0.5, 0.5), "-0.5");
    }
}
