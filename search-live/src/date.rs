//! Dates as Elasticsearch reads them by default, `strict_date_optional_time||epoch_millis`, in
//! milliseconds since 1970, UTC.

/// Days since 1970 of a date of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that the day that is added now and then is the last.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The date of a day since 1970.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

/// Reads a date; `None` when it is none.
pub fn read(text: &str) -> Option<i64> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) && text.len() != 4 {
        return text.parse().ok();
    }
    let (day, time) = match text.split_once('T') {
        Some((day, time)) => (day, Some(time)),
        None => (text, None),
    };
    let mut parts = day.split('-');
    let number = |text: &str, digits: usize| -> Option<i64> {
        let right = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
        right.then(|| text.parse().ok()).flatten()
    };
    let year = number(parts.next()?, 4)?;
    let month = parts.next().map_or(Some(1), |part| number(part, 2))?;
    let on = parts.next().map_or(Some(1), |part| number(part, 2))?;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if parts.next().is_some() || !(1..=last).contains(&on) {
        return None;
    }
    let mut millis = days(year, month, on) * 86_400_000;
    let Some(time) = time.filter(|time| !time.is_empty()) else { return Some(millis) };
    let (clock, zone) = match time.find(['Z', '+', '-']) {
        Some(at) => time.split_at(at),
        None => (time, "Z"),
    };
    let (clock, part) = match clock.split_once(['.', ',']) {
        Some((clock, part)) => (clock, part),
        None => (clock, ""),
    };
    let mut parts = clock.split(':');
    for (unit, most) in [(3_600_000, 24), (60_000, 60), (1_000, 60)] {
        let Some(part) = parts.next() else { break };
        millis += number(part, 2).filter(|value| *value < most)? * unit;
    }
    if parts.next().is_some() || part.len() > 9 {
        return None;
    }
    if !part.is_empty() {
        let digits = format!("{part:0<3}");
        millis += number(digits.get(..3)?, 3)?;
    }
    let offset = match zone {
        "Z" => 0,
        zone => {
            let (sign, rest) = zone.split_at(1);
            let rest = rest.replace(':', "");
            let hours = number(rest.get(..2)?, 2)?;
            let minutes = match rest.get(2..)? {
                "" => 0,
                minutes => number(minutes, 2)?,
            };
            (hours * 60 + minutes) * if sign == "-" { -60_000 } else { 60_000 }
        }
    };
    Some(millis - offset)
}

/// Writes a date as `yyyy-MM-ddTHH:mm:ss.SSSZ`.
pub fn write(millis: i64) -> String {
    let (year, month, day) = date(millis.div_euclid(86_400_000));
    let of_day = millis.rem_euclid(86_400_000);
    let (hours, minutes) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (seconds, rest) = (of_day / 1_000 % 60, of_day % 1_000);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{rest:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_and_written() {
        for (text, millis) in [
            ("1970-01-01", 0),
            ("2009-08-17", 1_250_467_200_000),
            ("2024-02-29T12:30:15.5Z", 1_709_209_815_500),
            ("2024-02-29T14:30:15.500+02:00", 1_709_209_815_500),
            ("1969-12-31T23:59:59.999Z", -1),
            ("2024", 1_704_067_200_000),
            ("1709209815500", 1_709_209_815_500),
        ] {
            assert_eq!(read(text), Some(millis), "{text}");
        }
        assert_eq!(write(1_709_209_815_500), "2024-02-29T12:30:15.500Z");
        for wrong in ["", "yesterday", "2023-02-29", "2024-13-01", "2024-01-01T25:00", "24-1-1"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        (-800_000..800_000).step_by(1_237).for_each(|day: i64| {
            let (y, m, d) = date(day);
            assert_eq!(days(y, m, d), day);
        });
    }
}
