//! Measured service times and recorded requests.

use super::log::{self, Logged};
use super::plan::{TraceFormat, TracePlan, Unit};
use crate::csv::{Table, open};
use crate::moment::iso_ns;
use cavy_core::{Instant, Span};
use cavy_study::plan::{Files, PlanError};
use cavy_workload::service::Service;
use cavy_workload::source::Request;
use std::sync::Arc;

/// A trace of whole requests.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Type names in order of first appearance.
    pub names: Vec<String>,
    /// Share of each type.
    pub shares: Vec<f64>,
    /// The requests, by arrival.
    pub requests: Arc<[Request]>,
}

impl Trace {
    /// The service times of each type, as measured.
    pub fn services(&self) -> Vec<Service> {
        (0..self.names.len() as u16)
            .map(|kind| {
                let of_kind = self.requests.iter().filter(|request| request.kind == kind);
                Service::Empirical(of_kind.map(|request| request.service.as_ns()).collect())
            })
            .collect()
    }
}

/// A fault in the file called `name`.
pub(super) fn wrong(name: &str, what: &str) -> PlanError {
    PlanError::text(what).in_file(name)
}

/// Reads a time of at least `least_ns` from a cell.
fn time(
    table: &Table,
    row: &csv::StringRecord,
    index: usize,
    unit: Unit,
    least_ns: u64,
) -> Result<u64, PlanError> {
    let cell = row.get(index).unwrap_or("");
    time_ns(cell, unit, least_ns).map_err(|what| {
        let fault = wrong(&table.name, &format!("{}: {what}", table.place(row, index)));
        match cell.contains(',') {
            true => fault.hint("write decimals with a point: 1.5 and not 1,5"),
            false => fault,
        }
    })
}

/// A number in `unit`, or a moment such as 2026-11-23T19:54:46.5Z, in ns; at least `least_ns`. What
/// is wrong, if it is none.
pub(super) fn time_ns(cell: &str, unit: Unit, least_ns: u64) -> Result<u64, String> {
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

/// The times in `column` of the CSV file `file`, in ns.
pub fn column(files: &Files, file: &str, column: &str, unit: Unit) -> Result<Vec<u64>, PlanError> {
    let mut table = open(files, file)?;
    let index = table.column(column)?;
    let mut times = Vec::new();
    let mut row = csv::StringRecord::new();
    while table.next(&mut row)? {
        times.push(time(&table, &row, index, unit, 1)?);
    }
    if times.is_empty() {
        return Err(PlanError::text("the trace has a head but no rows").in_file(&table.name));
    }
    Ok(times)
}

/// The requests in the file that `plan` names.
pub fn requests(plan: &TracePlan, files: &Files) -> Result<Trace, PlanError> {
    let logged = match plan.format {
        TraceFormat::Csv => table(plan, files)?,
        TraceFormat::Combined | TraceFormat::Json => log::requests(plan, files)?,
    };
    let shown = files.shown(&plan.file);
    if logged.len() < 100 {
        let message = format!("the trace has {} requests; at least 100 are needed", logged.len());
        return Err(wrong(&shown, &message));
    }
    let mut names: Vec<String> = Vec::new();
    let mut counts: Vec<u64> = Vec::new();
    let mut requests: Vec<Request> = Vec::with_capacity(logged.len());
    for one in logged {
        let index = names.iter().position(|known| *known == one.name).unwrap_or_else(|| {
            names.push(one.name);
            counts.push(0);
            names.len() - 1
        });
        if names.len() > cavy_sched::config::KINDS_MAX as usize {
            let message = format!("`{}` names more than 63 types", plan.kind);
            return Err(wrong(&shown, &message).hint("name something with fewer values"));
        }
        counts[index] += 1;
        let (at, service) = (Instant::from_ns(one.at_ns), Span::from_ns(one.service_ns));
        let kind = index as u16;
        requests.push(Request { at, kind, label: kind, service });
    }
    let total = requests.len() as f64;
    let shares = counts.iter().map(|&count| count as f64 / total).collect();
    Ok(Trace { names, shares, requests: requests.into() })
}

/// The rows of a CSV file, which must be sorted by arrival.
fn table(plan: &TracePlan, files: &Files) -> Result<Vec<Logged>, PlanError> {
    let mut table = open(files, &plan.file)?;
    let time = table.column(&plan.time)?;
    let kind = table.column(&plan.kind)?;
    let service = table.column(&plan.service)?;
    let mut all: Vec<Logged> = Vec::new();
    let mut row = csv::StringRecord::new();
    while table.next(&mut row)? {
        let at_ns = self::time(&table, &row, time, plan.unit, 0)?;
        if all.last().is_some_and(|last| at_ns < last.at_ns) {
            let line = row.position().map_or(0, csv::Position::line);
            let message = format!("line {line}: the arrival time is before that of the line above");
            return Err(
                wrong(&table.name, &message).hint(format!("sort the file by `{}`", plan.time))
            );
        }
        let service_ns = self::time(&table, &row, service, plan.unit, 1)?;
        let name = row.get(kind).unwrap_or("").to_string();
        all.push(Logged { at_ns, name, service_ns });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_since_1970_keep_their_nanoseconds() {
        for (cell, unit, ns) in [
            ("1763878820000000225", Unit::Ns, 1_763_878_820_000_000_225),
            ("1763878820000000.2255", Unit::Us, 1_763_878_820_000_000_226),
            ("1763878820.000000225", Unit::S, 1_763_878_820_000_000_225),
            ("0.5", Unit::Ns, 1),
            ("12", Unit::Ms, 12_000_000),
            ("3.", Unit::Us, 3_000),
        ] {
            assert_eq!(exact_ns(cell, unit), Some(ns), "{cell}");
        }
        for cell in ["", ".5", "-1", "1e3", "99999999999999999999", "9000000000000000001"] {
            assert_eq!(exact_ns(cell, Unit::Ns), None, "{cell}");
        }
    }
}
