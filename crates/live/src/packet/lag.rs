//! How late an endpoint's thread is.

use cavy_core::Span;
use hdrhistogram::Histogram;

/// What takes longer counts as a minute.
const MAX_NS: u64 = 60_000_000_000;

/// How long what comes waits for an endpoint's thread, and how long the thread takes for it; in
/// nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Lag {
    /// Each time the thread looked and found something: how long the oldest of the packets and
    /// calls that it found had waited, from when the system had the one and the other was made.
    pub looked: Histogram<u64>,
    /// Each time it found calls, or questions for its handler, and one packet was all there was to
    /// send: from that look until the system had it.
    pub sent: Histogram<u64>,
}

impl Lag {
    pub(crate) fn new() -> Lag {
        let empty = || {
            let histogram = Histogram::new_with_max(MAX_NS, 3);
            histogram.unwrap_or_else(|_| unreachable!("a minute has more than two nanoseconds"))
        };
        Lag { looked: empty(), sent: empty() }
    }

    pub(crate) fn note_look(&mut self, waited: Span) {
        self.looked.saturating_record(waited.as_ns());
    }

    pub(crate) fn note_sent(&mut self, taken: Span) {
        self.sent.saturating_record(taken.as_ns());
    }
}
