//! How far a study is, and how long it will take.

use cavy_clock as clock;
use cavy_core::{Instant, Span};

/// Runs that are to be done.
#[derive(Debug)]
pub struct Progress {
    left: usize,
    ran: usize,
    doubted: usize,
    doubts: Vec<&'static str>,
    since: Instant,
    took: Span,
}

impl Progress {
    /// So many are.
    pub fn new(runs: usize) -> Progress {
        Progress {
            left: runs,
            ran: 0,
            doubted: 0,
            doubts: Vec::new(),
            since: clock::now(),
            took: Span::ZERO,
        }
    }

    /// One had been done before.
    pub fn skip(&mut self) {
        self.left = self.left.saturating_sub(1);
        self.since = clock::now();
    }

    /// One was done, since the last, and these are the doubts about it.
    pub fn ran(&mut self, doubts: Vec<&'static str>) {
        if !doubts.is_empty() {
            self.doubted += 1;
            self.doubts = doubts;
        }
        self.ran += 1;
        self.left = self.left.saturating_sub(1);
        let now = clock::now();
        self.took += now.since(self.since);
        self.since = now;
    }

    /// Runs and time left, as what was done took, and whether it was worth anything: who reads that
    /// all runs are in doubt need not wait for the rest.
    pub fn left(&self) -> String {
        if self.ran == 0 {
            return format!("{} runs left", self.left);
        }
        let each = self.took.as_us() / 1e6 / self.ran as f64;
        let minutes = each * self.left as f64 / 60.0;
        let left = format!("{} runs and {:.0} minutes left", self.left, minutes.ceil());
        match self.doubted {
            0 => left,
            doubted => {
                let last = self.doubts.join(", ");
                format!("{left}, {doubted} of {} in doubt (the last: {last})", self.ran)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubts_are_told_as_soon_as_there_are_some() {
        let mut progress = Progress::new(4);
        assert_eq!(progress.left(), "4 runs left");
        progress.ran(Vec::new());
        assert!(progress.left().starts_with("3 runs and ") && !progress.left().contains("doubt"));
        progress.ran(vec!["late", "busy"]);
        progress.skip();
        progress.ran(Vec::new());
        assert!(progress.left().ends_with(", 1 of 3 in doubt (the last: late, busy)"));
    }
}
