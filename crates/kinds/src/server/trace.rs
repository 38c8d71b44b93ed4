//! Measured service times and recorded requests.

use super::log::{self, Logged, wrong};
use super::plan::{TraceFormat, TracePlan, Unit};
use crate::csv::open;
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

/// The times in `column` of the CSV file `file`, in ns.
pub fn column(files: &Files, file: &str, column: &str, unit: Unit) -> Result<Vec<u64>, PlanError> {
    let mut table = open(files, file)?;
    let index = table.column(column)?;
    let mut times = Vec::new();
    let mut row = csv::StringRecord::new();
    while table.next(&mut row)? {
        times.push(table.time_ns(&row, index, unit, 1)?);
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
        let at_ns = table.time_ns(&row, time, plan.unit, 0)?;
        if all.last().is_some_and(|last| at_ns < last.at_ns) {
            let line = row.position().map_or(0, csv::Position::line);
            let message = format!("line {line}: the arrival time is before that of the line above");
            return Err(
                wrong(&table.name, &message).hint(format!("sort the file by `{}`", plan.time))
            );
        }
        let service_ns = table.time_ns(&row, service, plan.unit, 1)?;
        let name = row.get(kind).unwrap_or("").to_string();
        all.push(Logged { at_ns, name, service_ns });
    }
    Ok(all)
}
