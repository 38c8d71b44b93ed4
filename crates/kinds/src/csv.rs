//! Measured data: CSV files whose first line names the columns.

use crate::moment::{Unit, time_ns};
use cavy_study::plan::{Files, PlanError};
use std::io::{BufRead, BufReader, Read};

/// A CSV file that is being read.
pub struct Table {
    /// Name for messages.
    pub name: String,
    rows: csv::Reader<Box<dyn Read>>,
    columns: Vec<String>,
}

/// Opens `file`, one of the `files` of a plan.
pub fn open(files: &Files, file: &str) -> Result<Table, PlanError> {
    let name = files.shown(file);
    let opened = files.open(file).map_err(|error| files.unreadable(file, "file", &error))?;
    let mut opened: Box<dyn BufRead> = Box::new(BufReader::new(opened));
    let begin = opened.fill_buf().map_err(|error| files.unreadable(file, "file", &error))?;
    let delimiter = delimiter(begin);
    let mut rows = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .delimiter(delimiter)
        .from_reader(Box::new(opened) as Box<dyn Read>);
    let head = rows.headers().map_err(|error| malformed(&name, &error))?;
    let columns: Vec<String> = head.iter().map(str::to_string).collect();
    if columns.iter().all(String::is_empty) {
        return Err(PlanError::text("the file is empty")
            .in_file(&name)
            .hint("the first line names the columns"));
    }
    let twice =
        |(at, column): &(usize, &String)| !column.is_empty() && columns[..*at].contains(*column);
    if let Some((_, column)) = columns.iter().enumerate().find(twice) {
        return Err(PlanError::text(format!("line 1: two columns are called `{column}`"))
            .in_file(&name)
            .hint("which of them counts is not known: rename or remove one"));
    }
    Ok(Table { name, rows, columns })
}

/// What separates the columns of a table that begins so: of comma, semicolon and tab what the first
/// line has most of. A spreadsheet writes semicolons where a comma is part of numbers.
pub fn delimiter(begin: &[u8]) -> u8 {
    let head = begin.split(|byte| *byte == b'\n').next().unwrap_or(begin);
    let count = |of: &u8| head.iter().filter(|byte| *byte == of).count();
    // Of equals the last: the comma.
    b";\t,".iter().copied().max_by_key(count).filter(|best| count(best) > 0).unwrap_or(b',')
}

fn malformed(name: &str, error: &csv::Error) -> PlanError {
    let line = error.position().map_or(0, csv::Position::line);
    let (message, hint) = match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => (
            format!("line {line} has {len} columns, the first line has {expected_len}"),
            "a cell that holds the separator is put in quotes; an empty cell keeps its separator",
        ),
        csv::ErrorKind::Io(error) => (
            format!("cannot read the file: {error}"),
            "the disk or the connection failed; try again",
        ),
        csv::ErrorKind::Utf8 { .. } => (
            format!("line {line} is not UTF-8 text"),
            "write the file as UTF-8; `iconv -f LATIN1 -t UTF-8` does that for one of Latin 1",
        ),
        _ => (format!("line {line}: {error}"), "the first line names the columns"),
    };
    PlanError::text(message).in_file(name).hint(hint)
}

impl Table {
    /// The place of a column.
    pub fn column(&self, column: &str) -> Result<usize, PlanError> {
        self.columns.iter().position(|known| known == column).ok_or_else(|| {
            PlanError::text(format!("there is no column `{column}`"))
                .in_file(&self.name)
                .hint(format!("columns are: {}", self.columns.join(", ")))
        })
    }

    /// Reads the next row; false at the end.
    pub fn next(&mut self, row: &mut csv::StringRecord) -> Result<bool, PlanError> {
        self.rows.read_record(row).map_err(|error| malformed(&self.name, &error))
    }

    /// Bytes that have been read of it.
    pub fn bytes(&self) -> u64 {
        self.rows.position().byte()
    }

    /// Reads a number from a cell.
    pub fn number(&self, row: &csv::StringRecord, index: usize) -> Result<f64, PlanError> {
        let line = row.position().map_or(0, csv::Position::line);
        let cell = row.get(index).unwrap_or("");
        cell.parse().map_err(|_| {
            let column = &self.columns[index];
            let text = format!("line {line}, column `{column}`: `{cell}` is no number");
            let fault = PlanError::text(text).in_file(&self.name);
            match cell {
                "" => fault.hint("fill it, or leave the whole line out"),
                cell if cell.contains(',') => {
                    fault.hint("write decimals with a point: 1.5 and not 1,5")
                }
                _ => fault.hint("write a number alone, without a unit"),
            }
        })
    }

    /// Reads a time of at least `least_ns` from a cell, in nanoseconds: a number in `unit`, or a
    /// moment.
    pub fn time_ns(
        &self,
        row: &csv::StringRecord,
        index: usize,
        unit: Unit,
        least_ns: u64,
    ) -> Result<u64, PlanError> {
        let cell = row.get(index).unwrap_or("");
        time_ns(cell, unit, least_ns).map_err(|what| {
            let text = format!("{}: {what}", self.place(row, index));
            let fault = PlanError::text(text).in_file(&self.name);
            match cell.contains(',') {
                true => fault.hint("write decimals with a point: 1.5 and not 1,5"),
                false => fault,
            }
        })
    }

    /// Where a cell stands, for messages.
    pub fn place(&self, row: &csv::StringRecord, index: usize) -> String {
        let line = row.position().map_or(0, csv::Position::line);
        format!("line {line}, column `{}`", self.columns[index])
    }

    /// Reads the size of a message from a cell.
    pub fn size(&self, row: &csv::StringRecord, index: usize) -> Result<u32, PlanError> {
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
}
