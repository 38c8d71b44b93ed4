//! Values with units, as they are typed.

use cavy_core::Span;

/// Reads `500us`, `1.5ms`, `10s`, `2min`.
pub fn span(text: &str) -> Result<Span, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let us = match unit {
        "ns" => 1e-3,
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        "min" => 60e6,
        "h" => 3_600e6,
        _ => return Err("write a number with its unit: 500us, 1.5ms, 10s, 2min".to_string()),
    };
    let number: f64 = number.parse().map_err(|_| "it must begin with a number".to_string())?;
    // Ten days; beyond that somebody has mistyped.
    let span = Span::try_from_us(number * us).filter(|span| span.as_us() <= 864e9);
    span.ok_or_else(|| "it must be at most 240h".to_string())
}

/// As [`span`], but not zero.
pub fn positive_span(text: &str) -> Result<Span, String> {
    let span = span(text)?;
    if span.is_zero() { Err("it must be longer than 0".to_string()) } else { Ok(span) }
}

/// Reads a rate per second, above 0 and at most a million.
pub fn rate(text: &str) -> Result<f64, String> {
    let wrong =
        || "it must be a number of requests per second, above 0, at most 1000000".to_string();
    let rate: f64 = text.trim().parse().map_err(|_| wrong())?;
    if rate > 0.0 && rate <= 1e6 { Ok(rate) } else { Err(wrong()) }
}

/// Reads a number of seconds, above 0 and at most a day.
pub fn seconds(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.trim().parse().ok();
    let good = number.filter(|seconds| (0.001..=86_400.0).contains(seconds));
    good.ok_or_else(|| "it must be a number of seconds, from 0.001 to 86400".to_string())
}

/// Reads a seed, as `7` or `0x7`.
pub fn seed(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let seed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    seed.map_err(|_| "it must be a whole number from 0 to 18446744073709551615".to_string())
}

/// Splits `NAME=REST`.
pub fn named(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = text.split_once('=')?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    (!name.is_empty() && name.len() <= 64 && name.chars().all(plain)).then_some((name, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_units() {
        assert_eq!(span("500us"), Ok(Span::from_us(500)));
        assert_eq!(span("1.5ms"), Ok(Span::from_us(1_500)));
        assert_eq!(span(" 10s "), Ok(Span::from_ms(10_000)));
        assert_eq!(span("2min"), Ok(Span::from_ms(120_000)));
        for wrong in ["", "5", "ms", "-1s", "1e9s", "1.2.3s", "241h", "5 ms", "nan s"] {
            assert!(span(wrong).is_err(), "{wrong}");
        }
        assert!(positive_span("0s").is_err());
    }

    #[test]
    fn rates_and_seeds() {
        assert_eq!(rate("249.5"), Ok(249.5));
        for wrong in ["0", "-1", "nan", "inf", "1e7", "many"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
        assert_eq!((seed("7"), seed("0x10")), (Ok(7), Ok(16)));
        assert!(seed("-1").is_err());
    }
}
