//! What happens over time, for runs whose workload changes ([persephone 5.11]).

use super::observer::{Done, Observer};
use crate::statistics::histogram::Histogram;
use cavy_core::{Instant, Span};

/// One stretch of time.
#[derive(Clone, Debug)]
pub struct Bin {
    /// Latency in ns of the requests that ended in it, per type.
    pub latency: Vec<Histogram>,
    /// Requests dropped in it, per type.
    pub dropped: Vec<u64>,
}

/// Latency per type in bins of equal length, and every change of the reservation.
///
/// `F` reads a value out of the machine whenever its reservation changes.
#[derive(Clone, Debug)]
pub struct Timeline<T, F> {
    width: Span,
    kinds: usize,
    bins: Vec<Bin>,
    read: F,
    /// When the reservation changed, and what was read then.
    pub changes: Vec<(Instant, T)>,
}

impl<T, F> Timeline<T, F> {
    /// Bins of `width` for `kinds` types; `read` is asked at every change of the reservation.
    pub fn new(width: Span, kinds: usize, read: F) -> Self {
        Timeline { width, kinds, bins: Vec::new(), read, changes: Vec::new() }
    }

    /// The bins, from time zero on.
    pub fn bins(&self) -> &[Bin] {
        &self.bins
    }

    fn bin(&mut self, at: Instant) -> &mut Bin {
        let index = (at.as_ns() / self.width.as_ns().max(1)) as usize;
        while self.bins.len() <= index {
            let latency = (0..self.kinds).map(|_| Histogram::new()).collect();
            self.bins.push(Bin { latency, dropped: vec![0; self.kinds] });
        }
        &mut self.bins[index]
    }
}

impl<M: ?Sized, T, F: FnMut(&M) -> T> Observer<M> for Timeline<T, F> {
    fn finished(&mut self, done: &Done) {
        let kind = done.kind as usize;
        self.bin(done.at).latency[kind].record(done.latency.as_ns());
    }

    fn dropped(&mut self, _: u64, kind: u16, at: Instant) {
        self.bin(at).dropped[kind as usize] += 1;
    }

    fn reserved(&mut self, at: Instant, machine: &M) {
        let read = (self.read)(machine);
        self.changes.push((at, read));
    }
}
