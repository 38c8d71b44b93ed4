//! Times as files write them: numbers in a unit, and moments such as `2026-11-23T19:54:46.123Z` and
//! `23/Nov/2026:19:54:46 +0100`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Nanoseconds since 1970 of a moment by RFC 3339 or ISO 8601, with date, time and zone: `T` or a
/// space between them, `Z` or `+01:00` at the end; without a zone it is UTC. `None` if it is none.
pub fn iso_ns(text: &str) -> Option<u64> {
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let mut parts = date.splitn(3, '-');
    let year = digits(parts.next()?, 4)?;
    let month = digits(parts.next()?, 2)?;
    let day = digits(parts.next()?, 2)?;
    let zone = time.find(['Z', 'z', '+', '-', ' ']).unwrap_or(time.len());
    let (time, zone) = time.split_at(zone);
    let (whole, fraction) = time.split_once(['.', ',']).unwrap_or((time, ""));
    let second = clock_s(whole)?;
    let fraction_ns = match fraction.len() {
        0 => 0,
        1..=9 => digits(fraction, fraction.len())? * 10u64.pow(9 - fraction.len() as u32),
        // Finer than what the lab counts.
        _ => digits(fraction.get(..9)?, 9)?,
    };
    since_1970_ns(year, month, day, second, zone.trim(), fraction_ns)
}

/// Nanoseconds since 1970 of a moment as access logs of Apache and nginx have it.
pub fn log_ns(text: &str) -> Option<u64> {
    let (moment, zone) = text.split_once(' ')?;
    let (date, time) = moment.split_once(':')?;
    let mut parts = date.splitn(3, '/');
    let day = digits(parts.next()?, 2)?;
    let name = parts.next()?;
    let month = MONTHS.iter().position(|month| *month == name)? as u64 + 1;
    let year = digits(parts.next()?, 4)?;
    since_1970_ns(year, month, day, clock_s(time)?, zone, 0)
}

/// Exactly `count` digits as a number.
fn digits(text: &str, count: usize) -> Option<u64> {
    let all = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    if all { text.parse().ok() } else { None }
}

/// Seconds of the day of `19:54:46`.
fn clock_s(text: &str) -> Option<u64> {
    let mut parts = text.splitn(3, ':').map(|part| digits(part, 2));
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    // 60 is a leap second.
    (hour < 24 && minute < 60 && second <= 60).then_some(hour * 3600 + minute * 60 + second)
}

/// Seconds to subtract for `Z`, `+01:00`, `-0730`, or nothing.
fn zone_s(text: &str) -> Option<i64> {
    if matches!(text, "" | "Z" | "z") {
        return Some(0);
    }
    let (sign, rest) = match text.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = match rest.split_once(':') {
        Some(parts) => parts,
        None => rest.split_at_checked(2)?,
    };
    let minutes = if minutes.is_empty() { 0 } else { digits(minutes, 2)? };
    let hours = digits(hours, 2)?;
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60) as i64)
}

fn since_1970_ns(
    year: u64,
    month: u64,
    day: u64,
    second: u64,
    zone: &str,
    fraction_ns: u64,
) -> Option<u64> {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let length = match month {
        2 => 28 + u64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if year < 1970 || day == 0 || day > length {
        return None;
    }
    // Years that begin in March end with the day that leap years add.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leaps = year / 4 - year / 100 + year / 400;
    // Days from 0000-03-01; 1970-01-01 is day 719468.
    let days = (year * 365 + leaps + (153 * month + 2) / 5 + day - 1).checked_sub(719_468)?;
    let seconds = (days * 86_400 + second).checked_add_signed(-zone_s(zone)?)?;
    seconds.checked_mul(1_000_000_000)?.checked_add(fraction_ns)
}

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// Microseconds.
    Us,
    /// Milliseconds.
    Ms,
    /// Seconds.
    S,
}

impl Unit {
    /// Nanoseconds in one of it.
    pub fn ns(self) -> f64 {
        match self {
            Unit::Ns => 1.0,
            Unit::Us => 1e3,
            Unit::Ms => 1e6,
            Unit::S => 1e9,
        }
    }
}

/// A number in `unit`, or a moment such as 2026-11-23T19:54:46.5Z, in ns; at least `least_ns`. What
/// is wrong, if it is none.
pub fn time_ns(cell: &str, unit: Unit, least_ns: u64) -> Result<u64, String> {
    // A moment is nothing that takes long: only arrivals may be one.
    if least_ns == 0
        && let Some(ns) = iso_ns(cell)
    {
        return Ok(ns);
    }
    let value = cell.parse::<f64>().map_err(|_| format!("`{cell}` is no number"))?;
    let is_time = (0.0..9e18).contains(&(value * unit.ns()));
    let ns = match exact_ns(cell, unit) {
        Some(ns) => ns,
        // Exponents: nobody writes the time since 1970 so.
        None if is_time => (value * unit.ns()).round() as u64,
        None => 0,
    };
    if !is_time || ns < least_ns {
        let must = if least_ns > 0 { "a time above 0" } else { "a time, not negative" };
        return Err(format!("{cell} must be {must}"));
    }
    Ok(ns)
}

/// A decimal in `unit` as whole nanoseconds, rounded, without the 53 bits of a float between: a
/// time since 1970 in nanoseconds has 61. `None` for what has a sign, an exponent, or is too long.
fn exact_ns(cell: &str, unit: Unit) -> Option<u64> {
    let (whole, fraction) = cell.split_once('.').unwrap_or((cell, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || whole.len() > 19 || !digits(whole) || !digits(fraction) {
        return None;
    }
    let places = (unit.ns() as u64).ilog10() as usize;
    let mut ns: u128 = whole.parse().ok()?;
    for place in 0..places {
        let digit = fraction.as_bytes().get(place).map_or(0, |byte| byte - b'0');
        ns = ns * 10 + u128::from(digit);
    }
    let round_up = fraction.as_bytes().get(places).is_some_and(|byte| *byte >= b'5');
    u64::try_from(ns + u128::from(round_up)).ok().filter(|ns| *ns < 9_000_000_000_000_000_000)
}
