//! What is sent when: drawn before the run, stored, and met again by every peer.

use cavy_core::{Digest, Instant, Span};
use cavy_workload::{Source, Workload};
use std::fmt::Write as _;

/// Most requests of one schedule; each takes 24 bytes of memory.
pub const ENTRIES_MAX: usize = 20_000_000;

/// Most types of one schedule.
pub const TYPES_MAX: usize = 64;

/// The first words of a stored schedule.
const MAGIC: &str = "# cavy schedule 1";

/// One request of a schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// When it is to be sent, from the start of the run.
    pub at: Span,
    /// Its type: an index into [`Schedule::types`].
    pub kind: u16,
    /// How much work it is, for targets that wait or compute that long; zero when the target's own
    /// work decides.
    pub service: Span,
}

/// Requests in the order of their times.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedule {
    types: Vec<String>,
    entries: Vec<Entry>,
    origin: String,
}

impl Schedule {
    /// Requests in the order given.
    ///
    /// `origin` is one line that says where they come from, for the reader of results.
    pub fn new(
        types: Vec<String>,
        entries: Vec<Entry>,
        origin: &str,
    ) -> Result<Schedule, ScheduleError> {
        if types.is_empty() || types.len() > TYPES_MAX {
            return Err(ScheduleError::TypeCount { count: types.len() });
        }
        for (index, name) in types.iter().enumerate() {
            let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
            if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
                return Err(ScheduleError::TypeName { name: name.clone() });
            }
            if types[..index].contains(name) {
                return Err(ScheduleError::TypeTwice { name: name.clone() });
            }
        }
        if entries.len() > ENTRIES_MAX {
            return Err(ScheduleError::TooLong);
        }
        let mut before = Span::ZERO;
        for (index, entry) in entries.iter().enumerate() {
            if entry.at < before {
                return Err(ScheduleError::Order { index });
            }
            if usize::from(entry.kind) >= types.len() {
                return Err(ScheduleError::UnknownType { index, name: entry.kind.to_string() });
            }
            before = entry.at;
        }
        let origin = origin.replace(char::is_control, " ");
        Ok(Schedule { types, entries, origin })
    }

    /// The requests that `workload` brings under `seed` until `duration`: the same that the lab
    /// meets under that seed.
    ///
    /// With `timed`, entries carry the drawn service times; without, zero.
    pub fn draw(
        workload: &Workload,
        seed: u64,
        duration: Span,
        types: Vec<String>,
        timed: bool,
        origin: &str,
    ) -> Result<Schedule, ScheduleError> {
        let mut entries = Vec::new();
        let end = Instant::ZERO + duration;
        for request in Source::new(workload, seed) {
            if request.at >= end {
                break;
            }
            if entries.len() == ENTRIES_MAX {
                return Err(ScheduleError::TooLong);
            }
            entries.push(Entry {
                at: request.at.since(Instant::ZERO),
                kind: request.kind,
                service: if timed { request.service } else { Span::ZERO },
            });
        }
        Schedule::new(types, entries, origin)
    }

    /// Names of the types, in the order of their indices.
    pub fn types(&self) -> &[String] {
        &self.types
    }

    /// The requests, in order of time.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Where the schedule comes from, one line.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Time of the last request; zero when there is none.
    pub fn length(&self) -> Span {
        self.entries.last().map_or(Span::ZERO, |entry| entry.at)
    }

    /// The fingerprint of times, types and service times: equal for two runs that met the same
    /// requests.
    pub fn digest(&self) -> u64 {
        let mut digest = Digest::new();
        for name in &self.types {
            digest.fold_value(name);
        }
        for entry in &self.entries {
            digest.fold(entry.at.as_ns());
            digest.fold(u64::from(entry.kind));
            digest.fold(entry.service.as_ns());
        }
        digest.value()
    }

    /// As text: a line with the format, one with the origin, one with the types, one of headings,
    /// then `at_ns,type,service_ns` for each request.
    pub fn to_text(&self) -> String {
        let mut text = format!("{MAGIC}\n# origin: {}\n# types: ", self.origin);
        text.push_str(&self.types.join(" "));
        text.push_str("\nat_ns,type,service_ns\n");
        for entry in &self.entries {
            let name = self.types.get(usize::from(entry.kind)).map_or("", String::as_str);
            let _ = writeln!(text, "{},{name},{}", entry.at.as_ns(), entry.service.as_ns());
        }
        text
    }

    /// Reads what [`Schedule::to_text`] wrote.
    pub fn from_text(text: &str) -> Result<Schedule, ScheduleError> {
        let mut lines = text.lines().enumerate();
        let mut header = |start: &str| {
            let line = lines.next().and_then(|(_, line)| line.strip_prefix(start));
            line.ok_or(ScheduleError::Header { expected: start.to_string() })
        };
        header(MAGIC)?;
        let origin = header("# origin: ")?.to_string();
        let types: Vec<String> =
            header("# types: ")?.split_whitespace().map(str::to_string).collect();
        header("at_ns,type,service_ns")?;
        let mut entries = Vec::new();
        for (index, line) in lines {
            if entries.len() == ENTRIES_MAX {
                return Err(ScheduleError::TooLong);
            }
            entries.push(entry(line, index + 1, &types)?);
        }
        Schedule::new(types, entries, &origin)
    }
}

/// Reads `at_ns,type,service_ns`; the line is numbered from 1.
fn entry(text: &str, line: usize, types: &[String]) -> Result<Entry, ScheduleError> {
    let wrong = |field| ScheduleError::Line { line, field, text: text.chars().take(80).collect() };
    let number = |field: &str| field.parse::<u64>().ok().map(Span::from_ns);
    let mut fields = text.split(',');
    let at = fields.next().and_then(number).ok_or_else(|| wrong("at_ns"))?;
    let name = fields.next().ok_or_else(|| wrong("type"))?;
    let kind = types.iter().position(|known| known == name).ok_or_else(|| wrong("type"))?;
    let service = fields.next().and_then(number).ok_or_else(|| wrong("service_ns"))?;
    if fields.next().is_some() {
        return Err(wrong("a fourth field"));
    }
    Ok(Entry { at, kind: kind as u16, service })
}

/// Why something is no schedule.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// No types, or too many.
    #[error("a schedule has from 1 to {TYPES_MAX} types, not {count}")]
    TypeCount {
        /// How many were given.
        count: usize,
    },
    /// A name that could not be written to a file and read again.
    #[error("`{name}` cannot name a type: letters, digits, `_`, `-` and `.`, from 1 to 64 of them")]
    TypeName {
        /// The name.
        name: String,
    },
    /// Two types of one name.
    #[error("two types are called `{name}`")]
    TypeTwice {
        /// The name.
        name: String,
    },
    /// More requests than a schedule may have.
    #[error(
        "a schedule has at most {ENTRIES_MAX} requests: lower the rate or shorten the duration"
    )]
    TooLong,
    /// Times run backwards.
    #[error("request {index} comes before the one ahead of it")]
    Order {
        /// Index of the request, from 0.
        index: usize,
    },
    /// A type that is not listed.
    #[error("request {index} is of type {name}, which is not listed")]
    UnknownType {
        /// Index of the request, from 0.
        index: usize,
        /// The type.
        name: String,
    },
    /// A line at the beginning is missing.
    #[error("this is no stored schedule: the line `{expected}` is missing at its beginning")]
    Header {
        /// What the line should begin with.
        expected: String,
    },
    /// A line that cannot be read.
    #[error("line {line}: {field} is wrong in `{text}`; it should be `at_ns,type,service_ns`")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// The field.
        field: &'static str,
        /// The line.
        text: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavy_workload::{Arrivals, Mix, Phase, Service, Type};
    use proptest::prelude::*;

    fn drawn(seed: u64, arrivals: Arrivals) -> Schedule {
        let short = Type { share: 0.9, service: Service::Constant { ns: 1_000 } };
        let long = Type { share: 0.1, service: Service::Constant { ns: 100_000 } };
        let mix = Mix::new(vec![short, long]).expect("a mix");
        let phase = Phase { mix, arrivals, rate_per_s: 10_000.0, duration: None };
        let workload = Workload::new(vec![phase], 0.0).expect("a workload");
        let names = vec!["get".to_string(), "scan".to_string()];
        Schedule::draw(&workload, seed, Span::from_ms(2_000), names, true, "a test")
            .expect("a schedule")
    }

    #[test]
    fn one_seed_draws_one_schedule() {
        let one = drawn(7, Arrivals::Poisson);
        assert_eq!(one, drawn(7, Arrivals::Poisson));
        assert_ne!(one.digest(), drawn(8, Arrivals::Poisson).digest());
        // 4.5 standard deviations of a Poisson count of 20 000.
        assert!((one.entries().len() as f64 - 20_000.0).abs() < 4.5 * 141.4);
        let longs = one.entries().iter().filter(|entry| entry.kind == 1).count();
        assert!((longs as f64 - 2_000.0).abs() < 4.5 * 42.4);
        assert!(one.entries().iter().all(|entry| entry.service.as_ns() >= 1_000));
    }

    #[test]
    fn constant_gaps_are_equal() {
        let schedule = drawn(1, Arrivals::Constant);
        let gaps = schedule.entries().windows(2).map(|two| two[1].at - two[0].at);
        assert!(gaps.into_iter().all(|gap| gap == Span::from_us(100)));
    }

    #[test]
    fn a_stored_schedule_is_read_as_it_was() {
        let schedule = drawn(3, Arrivals::Poisson);
        let read = Schedule::from_text(&schedule.to_text()).expect("what was written");
        assert_eq!(read, schedule);
        assert_eq!(read.digest(), schedule.digest());
    }

    #[test]
    fn faults_of_a_file_are_named_with_their_line() {
        let head = "# cavy schedule 1\n# origin: me\n# types: get\nat_ns,type,service_ns\n";
        let of = |lines: &str| {
            Schedule::from_text(&format!("{head}{lines}")).map_err(|error| error.to_string())
        };
        assert!(of("5,get,0\n9,get,0\n").is_ok());
        for (lines, says) in [
            ("x,get,0", "line 5: at_ns"),
            ("1,got,0", "line 5: type"),
            ("1,get", "line 5: service_ns"),
            ("1,get,0,0", "line 5: a fourth field"),
            ("5,get,0\n4,get,0", "request 1 comes before"),
        ] {
            let error = of(lines).expect_err(lines);
            assert!(error.contains(says), "{error}");
        }
        assert!(matches!(Schedule::from_text("1,2,3"), Err(ScheduleError::Header { .. })));
    }

    proptest! {
        #[test]
        fn reading_is_total(text in "(# cavy schedule 1\n# origin: \n# types: a \
                                     b\nat_ns,type,service_ns\n)?[0-9a-b,\n#-]{0,60}") {
            let _ = Schedule::from_text(&text);
        }
    }
}
