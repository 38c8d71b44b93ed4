//! How far a study is, and how long it will take.

use cavy_core::{Instant, Span};
use cavy_live::load::clock;

/// Runs that are to be done.
#[derive(Debug)]
pub struct Progress {
    left: usize,
    ran: usize,
    since: Instant,
    took: Span,
}

impl Progress {
    /// So many are.
    pub fn new(runs: usize) -> Progress {
        Progress { left: runs, ran: 0, since: clock::now(), took: Span::ZERO }
    }

    /// One had been done before.
    pub fn skip(&mut self) {
        self.left = self.left.saturating_sub(1);
        self.since = clock::now();
    }

    /// One was done, since the last.
    pub fn ran(&mut self) {
        self.ran += 1;
        self.left = self.left.saturating_sub(1);
        let now = clock::now();
        self.took += now.since(self.since);
        self.since = now;
    }

    /// Runs and time left, as what was done took.
    pub fn left(&self) -> String {
        match self.ran {
            0 => format!("{} runs left", self.left),
            ran => {
                let each = self.took.as_us() / 1e6 / ran as f64;
                let minutes = each * self.left as f64 / 60.0;
                format!("{} runs and {:.0} minutes left", self.left, minutes.ceil())
            }
        }
    }
}
