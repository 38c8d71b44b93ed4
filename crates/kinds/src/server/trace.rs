//! Measured service times and recorded requests.

use super::plan::{TracePlan, Unit};
use crate::csv::{Table, open};
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

/// Reads a time of at least `least_ns` from a cell.
fn time(
    table: &Table,
    row: &csv::StringRecord,
    index: usize,
    unit: Unit,
    least_ns: u64,
) -> Result<u64, PlanError> {
    let at = table.place(row, index);
    let cell = row.get(index).unwrap_or("");
    let value: f64 = cell.parse().map_err(|_| {
        PlanError::text(format!("{at}: `{cell}` is no number")).in_file(&table.name)
    })?;
    let ns = value * unit.ns();
    let is_time = (0.0..9e18).contains(&ns);
    if !is_time || (ns.round() as u64) < least_ns {
        let must = if least_ns > 0 { "a time above 0" } else { "a time, not negative" };
        let message = format!("{at}: {cell} must be {must}");
        return Err(PlanError::text(message).in_file(&table.name));
    }
    Ok(ns.round() as u64)
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

/// The requests in the CSV file that `plan` names.
pub fn requests(plan: &TracePlan, files: &Files) -> Result<Trace, PlanError> {
    let mut table = open(files, &plan.file)?;
    let time = table.column(&plan.time)?;
    let kind = table.column(&plan.kind)?;
    let service = table.column(&plan.service)?;
    let mut names: Vec<String> = Vec::new();
    let mut counts: Vec<u64> = Vec::new();
    let mut requests: Vec<Request> = Vec::new();
    let mut row = csv::StringRecord::new();
    while table.next(&mut row)? {
        let at = Instant::from_ns(self::time(&table, &row, time, plan.unit, 0)?);
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
        let service = Span::from_ns(self::time(&table, &row, service, plan.unit, 1)?);
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
