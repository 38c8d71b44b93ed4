//! How long messages are: published, measured, or by a law.

use super::plan::{MessagesPlan, SizesPlan, WorkloadName};
use crate::csv::open;
use cavy_study::plan::{Files, PlanError};
use cavy_workload::normal;
use cavy_workload::sizes::{BYTES_MAX, Published, Sizes, SizesError};

/// Sizes into which a law is cut, all of the same probability.
const LAW_SIZES: usize = 200;
/// Bytes of a packet in the published table of W5 [homa 4.1].
const W5_PACKET_BYTES: u32 = 1470;

/// The sizes that `plan` asks for. It may name some of `files`.
pub fn sizes(plan: &MessagesPlan, files: &Files) -> Result<Sizes, PlanError> {
    let given = [
        ("workload", plan.workload.is_some()),
        ("cdf", plan.cdf.is_some()),
        ("trace", plan.trace.is_some()),
        ("sizes", plan.sizes.is_some()),
    ];
    let given: Vec<&str> = given.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect();
    if given.len() != 1 {
        let said = if given.is_empty() { "nothing".to_string() } else { given.join(" and ") };
        return Err(PlanError::text(format!(
            "`messages` says {said}; it must say one of workload, cdf, trace and sizes"
        ))
        .hint("`workload = \"W3\"` is the mix of a large data center"));
    }
    if plan.packet_bytes.is_some() && plan.workload != Some(WorkloadName::W5) {
        return Err(PlanError::text(
            "`messages.packet_bytes` is set, but belongs to `workload = \"W5\"`",
        )
        .hint("the other distributions are in bytes"));
    }
    if plan.column.is_some() && plan.trace.is_none() {
        return Err(PlanError::text("`messages.column` is set, but belongs to `trace`"));
    }
    let sizes = if let Some(workload) = plan.workload {
        in_packets(plan, published(workload).sizes())?
    } else if let Some(file) = &plan.cdf {
        cdf(files, file)?
    } else if let Some(file) = &plan.trace {
        let column = plan.column.as_deref().ok_or_else(|| {
            PlanError::text("`messages.trace` needs `messages.column`, the column of sizes")
        })?;
        trace(files, file, column)?
    } else {
        plan.sizes.map_or_else(|| Err(PlanError::text("`messages` is empty")), law)?
    };
    if plan.min_bytes.is_none() && plan.max_bytes.is_none() {
        return Ok(sizes);
    }
    let (least, most) = (plan.min_bytes.unwrap_or(1), plan.max_bytes.unwrap_or(BYTES_MAX));
    sizes.clamped(least, most).map_err(|error| {
        PlanError::text(format!("`messages`: {error}"))
            .hint("`min_bytes` is at least 1 and not above `max_bytes`")
    })
}

/// W5 in packets of another length, if the plan says so.
fn in_packets(plan: &MessagesPlan, sizes: Sizes) -> Result<Sizes, PlanError> {
    match plan.packet_bytes {
        None => Ok(sizes),
        Some(bytes) if (1..=10_000).contains(&bytes) => Ok(sizes.scaled(W5_PACKET_BYTES, bytes)),
        Some(bytes) => Err(PlanError::field("messages.packet_bytes", bytes, "from 1 to 10000")),
    }
}

/// The distribution called so.
pub fn published(workload: WorkloadName) -> Published {
    match workload {
        WorkloadName::W1 => Published::W1,
        WorkloadName::W2 => Published::W2,
        WorkloadName::W3 => Published::W3,
        WorkloadName::W4 => Published::W4,
        WorkloadName::W5 => Published::W5,
    }
}

/// Reads the (bytes, cumulative) rows of a file.
fn cdf(files: &Files, file: &str) -> Result<Sizes, PlanError> {
    let name = files.shown(file);
    let mut rows = Vec::new();
    let mut lines = Vec::new();
    let mut table = open(files, file)?;
    let (bytes, cumulative) = (table.column("bytes")?, table.column("cumulative")?);
    let mut row = csv::StringRecord::new();
    while table.next(&mut row)? {
        let size = table.size(&row, bytes)?;
        let share = table.number(&row, cumulative)?;
        rows.push((size, share));
        lines.push(row.position().map_or(0, csv::Position::line));
    }
    Sizes::new(&rows).map_err(|error| of_row(&error, &lines).in_file(name))
}

/// An error about a row as one about a line.
fn of_row(error: &SizesError, lines: &[u64]) -> PlanError {
    let line = |row: usize| lines.get(row).copied().unwrap_or(0);
    match *error {
        SizesError::Empty => PlanError::text("there are no sizes in the file")
            .hint("the first line names the columns: `bytes,cumulative`; rows follow"),
        SizesError::Unsorted { row, bytes, before } => PlanError::text(format!(
            "line {}: bytes is {bytes} after {before}; sizes must rise, each once",
            line(row)
        ))
        .hint("sort the rows by size"),
        SizesError::Cumulative { row, cumulative, before } => PlanError::text(format!(
            "line {}: cumulative is {cumulative}; it must be from {before}, the line before, to 1",
            line(row)
        ))
        .hint("`cumulative` is the share of messages of at most so many bytes"),
        SizesError::Incomplete { cumulative } => {
            PlanError::text(format!("the last cumulative is {cumulative}; it must be 1")).hint(
                "`cumulative` adds up the shares of all sizes so far; are these shares of single \
                 sizes?",
            )
        }
        ref other => PlanError::text(other.to_string()),
    }
}

/// Reads the sizes of messages from a column.
fn trace(files: &Files, file: &str, column: &str) -> Result<Sizes, PlanError> {
    let mut table = open(files, file)?;
    let index = table.column(column)?;
    let mut sizes = Vec::new();
    let mut row = csv::StringRecord::new();
    while table.next(&mut row)? {
        sizes.push(table.size(&row, index)?);
    }
    if sizes.is_empty() {
        return Err(PlanError::text("there are no messages in the file")
            .in_file(files.shown(file))
            .hint("the first line names the columns; each further line is a message"));
    }
    of_list(sizes)
}

/// The distribution of measured sizes, which are not none.
pub fn of_list(mut sizes: Vec<u32>) -> Result<Sizes, PlanError> {
    sizes.sort_unstable();
    let count = sizes.len() as f64;
    let mut rows: Vec<(u32, f64)> = Vec::new();
    for (before, &size) in sizes.iter().enumerate() {
        let share = (before + 1) as f64 / count;
        match rows.last_mut() {
            Some(last) if last.0 == size => last.1 = share,
            _ => rows.push((size, share)),
        }
    }
    Sizes::new(&rows).map_err(|error| PlanError::text(error.to_string()))
}

/// The sizes of a law, as the middles of equal parts.
pub fn law(plan: SizesPlan) -> Result<Sizes, PlanError> {
    let positive = |field: &str, value: f64| {
        if value.is_finite() && value >= 1.0 && value <= f64::from(BYTES_MAX) {
            Ok(value)
        } else {
            let field = format!("messages.sizes.{field}");
            Err(PlanError::field(field, value, "a number of bytes from 1 to 2147483648")
                .hint("a message has at least one byte"))
        }
    };
    match plan {
        SizesPlan::Constant { bytes } => {
            positive("bytes", f64::from(bytes))?;
            Sizes::constant(bytes).map_err(|error| PlanError::text(error.to_string()))
        }
        SizesPlan::Uniform { low_bytes, high_bytes } => {
            let low = positive("low_bytes", f64::from(low_bytes))?;
            let high = positive("high_bytes", f64::from(high_bytes))?;
            if high < low {
                let must = format!("at least low_bytes, {low_bytes}");
                return Err(PlanError::field("messages.sizes.high_bytes", high_bytes, &must));
            }
            cut(|u| low + u * (high - low))
        }
        SizesPlan::Lognormal { mean_bytes, sigma } => {
            let mean = positive("mean_bytes", mean_bytes)?;
            if !(0.0..=8.0).contains(&sigma) {
                return Err(PlanError::field("messages.sizes.sigma", sigma, "from 0 to 8"));
            }
            cut(|u| mean * libm::exp(sigma * normal::quantile(u) - sigma * sigma / 2.0))
        }
        SizesPlan::Pareto { mean_bytes, shape } => {
            let mean = positive("mean_bytes", mean_bytes)?;
            if !(shape > 1.0 && shape <= 100.0) {
                return Err(PlanError::field(
                    "messages.sizes.shape",
                    shape,
                    "above 1, at most 100",
                ));
            }
            let least = mean * (shape - 1.0) / shape;
            cut(|u| least * libm::pow(1.0 - u, -1.0 / shape))
        }
    }
}

/// The middle sizes of equal parts of a law, given by its quantiles.
fn cut(quantile: impl Fn(f64) -> f64) -> Result<Sizes, PlanError> {
    let mut rows: Vec<(u32, f64)> = Vec::new();
    for part in 0..LAW_SIZES {
        let u = (part as f64 + 0.5) / LAW_SIZES as f64;
        let size = quantile(u).round().clamp(1.0, f64::from(BYTES_MAX)) as u32;
        let share = (part + 1) as f64 / LAW_SIZES as f64;
        match rows.last_mut() {
            Some(last) if last.0 == size => last.1 = share,
            _ => rows.push((size, share)),
        }
    }
    Sizes::new(&rows).map_err(|error| PlanError::text(error.to_string()))
}
