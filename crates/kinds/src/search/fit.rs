//! What sub-queries take, fitted to measurements.

use crate::csv;
use cavy_study::plan::{Files, PlanError};

/// A straight line through measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// Milliseconds of a sub-query that scans nothing.
    pub fixed_ms: f64,
    /// Microseconds for a document.
    pub document_us: f64,
    /// Share of the variance that the line explains, 0 to 1: R^2.
    pub explained: f64,
}

/// Fits a line to the columns `examined` and `took_ms` of `file` by least squares.
pub fn line(files: &Files, file: &str) -> Result<Fit, PlanError> {
    let mut table = csv::open(files, file)?;
    let (examined, took) = (table.column("examined")?, table.column("took_ms")?);
    let mut row = ::csv::StringRecord::new();
    let mut points: Vec<(f64, f64)> = Vec::new();
    while table.next(&mut row)? {
        let point = (table.number(&row, examined)?, table.number(&row, took)?);
        if !(point.0 >= 0.0 && point.0.is_finite() && point.1 >= 0.0 && point.1.is_finite()) {
            let place = table.place(&row, examined);
            return Err(PlanError::text(format!("{place}: numbers must not be negative"))
                .in_file(&table.name));
        }
        points.push(point);
    }
    let n = points.len() as f64;
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n.max(1.0);
    let (x, y) = (mean(&|p| p.0), mean(&|p| p.1));
    let spread = mean(&|p| (p.0 - x) * (p.0 - x));
    if points.len() < 2 || spread <= 0.0 {
        let message = format!("{} measurements with one number of documents", points.len());
        return Err(PlanError::text(message)
            .in_file(&table.name)
            .hint("a line needs sub-queries over different numbers of documents: measure two p"));
    }
    let slope = mean(&|p| (p.0 - x) * (p.1 - y)) / spread;
    let fixed_ms = y - slope * x;
    if slope <= 0.0 || fixed_ms < 0.0 {
        let message = format!("fits {fixed_ms:.3} ms + {:.6} us a document", slope * 1e3);
        return Err(PlanError::text(message)
            .in_file(&table.name)
            .hint("neither part may be negative; are there measurements under load among them?"));
    }
    let off = mean(&|p| (p.1 - fixed_ms - slope * p.0).powi(2));
    let all = mean(&|p| (p.1 - y).powi(2));
    let explained = if all > 0.0 { 1.0 - off / all } else { 1.0 };
    Ok(Fit { fixed_ms, document_us: slope * 1e3, explained })
}
