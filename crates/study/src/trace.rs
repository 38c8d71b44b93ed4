//! Measured data: CSV files of service times or of whole requests.

use crate::plan::{PlanError, TracePlan, Unit};
use cavy_core::{Instant, Span};
use cavy_workload::service::Service;
use cavy_workload::source::Request;
use std::path::Path;
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

pub(crate) struct Table {
    name: String,
    rows: csv::Reader<std::fs::File>,
    columns: Vec<String>,
}

/// Opens a CSV file whose first line names the columns.
pub(crate) fn open(file: &Path) -> Result<Table, PlanError> {
    let name = file.display().to_string();
    let mut rows =
        csv::ReaderBuilder::new().trim(csv::Trim::All).from_path(file).map_err(|error| {
            PlanError::text(format!("cannot read the trace: {error}"))
                .in_file(&name)
                .hint("the path is relative to the plan")
        })?;
    let head = rows.headers().map_err(|error| malformed(&name, &error))?;
    let columns: Vec<String> = head.iter().map(str::to_string).collect();
    if columns.iter().all(String::is_empty) {
        return Err(PlanError::text("the trace is empty")
            .in_file(&name)
            .hint("the first line names the columns"));
    }
    Ok(Table { name, rows, columns })
}

fn malformed(name: &str, error: &csv::Error) -> PlanError {
    let line = error.position().map_or(0, csv::Position::line);
    let message = match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("line {line} has {len} columns, the first line has {expected_len}")
        }
        csv::ErrorKind::Io(error) => format!("cannot read the trace: {error}"),
        csv::ErrorKind::Utf8 { .. } => format!("line {line} is not UTF-8 text"),
        _ => format!("line {line}: {error}"),
    };
    PlanError::text(message).in_file(name)
}

impl Table {
    pub(crate) fn column(&self, column: &str) -> Result<usize, PlanError> {
        self.columns.iter().position(|known| known == column).ok_or_else(|| {
            PlanError::text(format!("there is no column `{column}`"))
                .in_file(&self.name)
                .hint(format!("columns are: {}", self.columns.join(", ")))
        })
    }

    /// Reads the next row; false at the end.
    pub(crate) fn next(&mut self, row: &mut csv::StringRecord) -> Result<bool, PlanError> {
        self.rows.read_record(row).map_err(|error| malformed(&self.name, &error))
    }

    /// Reads a number from a cell.
    pub(crate) fn number(&self, row: &csv::StringRecord, index: usize) -> Result<f64, PlanError> {
        let line = row.position().map_or(0, csv::Position::line);
        let cell = row.get(index).unwrap_or("");
        cell.parse().map_err(|_| {
            let column = &self.columns[index];
            PlanError::text(format!("line {line}, column `{column}`: `{cell}` is no number"))
                .in_file(&self.name)
        })
    }

    /// Reads the size of a message from a cell.
    pub(crate) fn size(&self, row: &csv::StringRecord, index: usize) -> Result<u32, PlanError> {
        let bytes = self.number(row, index)?;
        if bytes.fract() == 0.0 && (1.0..=f64::from(1u32 << 31)).contains(&bytes) {
            return Ok(bytes as u32);
        }
        let line = row.position().map_or(0, csv::Position::line);
        let column = &self.columns[index];
        let must = "must be a whole number of bytes from 1 to 2147483648";
        let message = format!("line {line}, column `{column}`: {bytes} {must}");
        Err(PlanError::text(message).in_file(&self.name).hint("a message has at least one byte"))
    }

    /// Reads a time of at least `least_ns` from a cell.
    fn time(
        &self,
        row: &csv::StringRecord,
        index: usize,
        unit: Unit,
        least_ns: u64,
    ) -> Result<u64, PlanError> {
        let line = row.position().map_or(0, csv::Position::line);
        let cell = row.get(index).unwrap_or("");
        let column = &self.columns[index];
        let at = format!("line {line}, column `{column}`");
        let value: f64 = cell.parse().map_err(|_| {
            PlanError::text(format!("{at}: `{cell}` is no number")).in_file(&self.name)
        })?;
        let ns = value * unit.ns();
        let is_time = (0.0..9e18).contains(&ns);
        if !is_time || (ns.round() as u64) < least_ns {
            let must = if least_ns > 0 { "a time above 0" } else { "a time, not negative" };
            let message = format!("{at}: {cell} must be {must}");
            return Err(PlanError::text(message).in_file(&self.name));
        }
        Ok(ns.round() as u64)
    }
}

/// The times in `column` of the CSV file `file`, in ns.
pub fn column(file: &Path, column: &str, unit: Unit) -> Result<Vec<u64>, PlanError> {
    let mut table = open(file)?;
    let index = table.column(column)?;
    let mut times = Vec::new();
    let mut row = csv::StringRecord::new();
    while table.next(&mut row)? {
        times.push(table.time(&row, index, unit, 1)?);
    }
    if times.is_empty() {
        return Err(PlanError::text("the trace has a head but no rows").in_file(&table.name));
    }
    Ok(times)
}

/// The requests in the CSV file that `plan` names.
pub fn requests(plan: &TracePlan, folder: &Path) -> Result<Trace, PlanError> {
    let mut table = open(&folder.join(&plan.file))?;
    let time = table.column(&plan.time)?;
    let kind = table.column(&plan.kind)?;
    let service = table.column(&plan.service)?;
    let mut names: Vec<String> = Vec::new();
    let mut counts: Vec<u64> = Vec::new();
    let mut requests: Vec<Request> = Vec::new();
    let mut row = csv::StringRecord::new();
    while table.next(&mut row)? {
        let at = Instant::from_ns(table.time(&row, time, plan.unit, 0)?);
        if requests.last().is_some_and(|last| at < last.at) {
            let line = row.position().map_or(0, csv::Position::line);
            let message = format!("line {line}: the arrival time is before that of the line above");
            return Err(PlanError::text(message)
                .in_file(&table.name)
                .hint(format!("sort the file by `{}`", plan.time)));
        }
        let name = row.get(kind).unwrap_or("");
        let index = names.iter().position(|known| known == name).unwrap_or_else(|| {
            names.push(name.to_string());
            counts.push(0);
            names.len() - 1
        });
        if names.len() > cavy_sched::config::KINDS_MAX as usize {
            let message = format!("column `{}` names more than 63 types", plan.kind);
            return Err(PlanError::text(message).in_file(&table.name));
        }
        counts[index] += 1;
        let service = Span::from_ns(table.time(&row, service, plan.unit, 1)?);
        let kind = index as u16;
        requests.push(Request { at, kind, label: kind, service });
    }
    if requests.len() < 100 {
        let message = format!("the trace has {} requests; at least 100 are needed", requests.len());
        return Err(PlanError::text(message).in_file(&table.name));
    }
    let total = requests.len() as f64;
    let shares = counts.iter().map(|&count| count as f64 / total).collect();
    Ok(Trace { names, shares, requests: requests.into() })
}
