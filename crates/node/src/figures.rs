//! What a node counts.

use cavy_core::Span;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Spans by powers of two of a nanosecond, four to each.
#[derive(Debug)]
pub struct Spans {
    counts: [AtomicU64; BUCKETS],
    most: AtomicU64,
    sum: AtomicU64,
}

const BUCKETS: usize = 4 * 48;

impl Default for Spans {
    fn default() -> Self {
        let counts = std::array::from_fn(|_| AtomicU64::new(0));
        Spans { counts, most: AtomicU64::new(0), sum: AtomicU64::new(0) }
    }
}

fn bucket(ns: u64) -> usize {
    let ns = ns.max(4);
    let power = 63 - ns.leading_zeros() as usize;
    (4 * power + (ns >> (power - 2) & 3) as usize).min(BUCKETS - 1)
}

impl Spans {
    /// One more.
    pub fn note(&self, span: Span) {
        self.counts[bucket(span.as_ns())].fetch_add(1, Relaxed);
        self.most.fetch_max(span.as_ns(), Relaxed);
        self.sum.fetch_add(span.as_ns(), Relaxed);
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Relaxed)).sum()
    }

    /// The longest.
    pub fn most(&self) -> Span {
        Span::from_ns(self.most.load(Relaxed))
    }

    /// All together.
    pub fn sum(&self) -> Span {
        Span::from_ns(self.sum.load(Relaxed))
    }

    /// The upper end of the bucket, at most 25 % above its lower one, that `share` of all lie
    /// below; zero when there are none.
    pub fn quantile(&self, share: f64) -> Span {
        let all = self.count();
        let below = (all as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (place, count) in self.counts.iter().enumerate() {
            seen += count.load(Relaxed);
            if seen >= below && seen > 0 {
                let (power, quarter) = (place / 4, place as u64 % 4);
                let end = (4 + quarter + 1) << power.saturating_sub(2);
                return Span::from_ns(end).min(self.most());
            }
        }
        Span::ZERO
    }
}

macro_rules! figures {
    ($($(#[$about:meta])* $name:ident,)+) => {
        /// Counters of a node, since it was started. They are read while they move.
        #[derive(Debug, Default)]
        pub struct Figures {
            $($(#[$about])* pub $name: AtomicU64,)+
            /// How late steps were: from when an input could be handled to when it was.
            pub late: Spans,
            /// How long syncs took.
            pub sync: Spans,
            /// Why a connection was refused last.
            pub refusal: parking_lot::Mutex<Option<String>>,
        }

        impl Figures {
            /// All counters by their names.
            pub fn counters(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.load(Relaxed)),)+]
            }
        }
    };
}

figures! {
    /// Steps of the machine.
    steps,
    /// Nanoseconds in steps and in carrying out what they asked for.
    step_ns,
    /// Times that the machine's thread woke: something was due, or a timer.
    wakes,
    /// Times that the carrier's thread woke.
    turns,
    /// Messages sent on channels.
    sent,
    /// Their bytes, without frames.
    sent_bytes,
    /// Messages that came on channels.
    received,
    /// Their bytes.
    received_bytes,
    /// Messages that were sent again after a connection ended.
    resent,
    /// Messages that were not sent, because their channel broke.
    dropped,
    /// Datagrams sent.
    datagrams_sent,
    /// Datagrams that came.
    datagrams_received,
    /// Datagrams that could not be sent, or were too long, or were not understood.
    datagrams_lost,
    /// Times that a channel broke.
    broken,
    /// Connections that came to stand.
    connected,
    /// Connections that were refused: another cluster, version or key, or nonsense.
    refused,
    /// Channels that broke because more was sent than is kept.
    overflowed,
    /// Calls of clients.
    calls,
    /// Answers to them.
    replies,
    /// Records appended.
    log_records,
    /// Bytes appended.
    log_bytes,
    /// Times that the disk was found full.
    disk_full,
    /// Works asked for.
    works,
    /// Bytes kept for peers that have not acknowledged them.
    kept_bytes,
    /// Peers that a connection stands with.
    peers_up,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_quarter_of_the_truth() {
        let spans = Spans::default();
        assert_eq!(spans.quantile(0.5), Span::ZERO);
        for us in 1..=1_000 {
            spans.note(Span::from_us(us));
        }
        for (share, truth) in [(0.5, 500_000.0), (0.99, 990_000.0), (1.0, 1_000_000.0)] {
            let found = spans.quantile(share).as_ns() as f64;
            assert!(found >= truth * 0.99 && found <= truth * 1.26, "{share}: {found}");
        }
        assert_eq!((spans.count(), spans.most()), (1_000, Span::from_ms(1)));
    }
}
