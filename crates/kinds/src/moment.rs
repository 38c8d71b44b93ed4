//! Moments as logs write them: `2026-11-23T19:54:46.123Z` and `23/Nov/2026:19:54:46 +0100`.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_counted_from_1970() {
        for (text, ns) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:00:00.5Z", 951_825_600_500_000_000),
            ("2025-11-23 06:20:20.000000225", 1_763_878_820_000_000_225),
            ("2025-11-23T07:20:20.0000002259+01:00", 1_763_878_820_000_000_225),
            ("2025-11-22T22:50:20-0730", 1_763_878_820_000_000_000),
        ] {
            assert_eq!(iso_ns(text), Some(ns), "{text}");
        }
        assert_eq!(log_ns("23/Nov/2025:07:20:20 +0100"), Some(1_763_878_820_000_000_000));
        for text in [
            "2025-02-29T00:00:00Z",
            "2025-13-01T00:00:00Z",
            "2025-11-23",
            "2025-11-23T25:00:00Z",
            "2025-11-23T00:00Z",
            "1969-12-31T23:59:59Z",
            "2025-11-23T00:00:00+1",
            "",
            "12.5",
        ] {
            assert_eq!(iso_ns(text), None, "{text}");
        }
        assert_eq!(log_ns("23/Nov/2025:07:20:20"), None);
    }
}
