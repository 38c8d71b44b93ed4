//! What the messages of a run say beyond the world's own report: answers, and what short ones wait
//! for.

use super::sections::{group_of, waits};
use cavy_lab::net::{Done, Observer, PS_PER_NS, Ps, Setup, ps};
use serde::{Deserialize, Serialize};

/// Messages of which the delays are kept; beyond, every second, fourth and so on.
const KEPT_MAX: usize = 1 << 19;

/// What short messages near the 99th percentile wait for [homa 5.8], means in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TailSources {
    /// Behind packets that had the right to go first.
    pub queueing_us: f64,
    /// Behind the rest of a packet of a lower level that was being sent already.
    pub lag_us: f64,
    /// Messages they are means over: those between the 98th and the 99.8th percentile.
    pub messages: u64,
}

/// Watches messages end.
#[derive(Clone, Debug)]
pub struct Watch {
    /// Messages up to this size are short; zero keeps no delays.
    short_bytes: u32,
    from: Ps,
    to: Ps,
    short: Vec<Short>,
    seen: u64,
    every: u64,
    answered_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Short {
    time_ns: u32,
    queueing_ns: u32,
    lag_ns: u32,
    /// That of the host which waits for it.
    group: u8,
}

impl Watch {
    /// For a run of `setup`; keeps the delays of messages of at most `short_bytes`.
    pub fn new(setup: &Setup, short_bytes: u32) -> Self {
        Watch {
            short_bytes,
            from: ps(setup.warmup),
            to: ps(setup.duration),
            short: Vec::new(),
            seen: 0,
            every: 1,
            answered_bytes: 0,
        }
    }

    /// Bits of answers that arrived per second, all askers together.
    pub fn answers_bits_per_s(&self) -> f64 {
        let seconds = (self.to - self.from) as f64 * 1e-12;
        self.answered_bytes as f64 * 8.0 / seconds
    }

    /// What short messages near the 99th percentile waited for: of all, or of those that hosts of
    /// these groups wait for.
    pub fn sources(&self, groups: Option<&[usize]>) -> Option<TailSources> {
        let mut sorted = self.short.clone();
        if let Some(groups) = groups {
            sorted.retain(|short| groups.contains(&usize::from(short.group)));
        }
        sorted.sort_unstable_by_key(|short| short.time_ns);
        let at = |share: f64| (sorted.len() as f64 * share) as usize;
        let near = &sorted[at(0.98)..at(0.998)];
        if near.is_empty() {
            return None;
        }
        let mean = |of: fn(&Short) -> u32| {
            near.iter().map(|short| f64::from(of(short))).sum::<f64>() / near.len() as f64 / 1e3
        };
        Some(TailSources {
            queueing_us: mean(|short| short.queueing_ns),
            lag_us: mean(|short| short.lag_ns),
            messages: near.len() as u64,
        })
    }
}

impl<M: ?Sized, H> Observer<M, H> for Watch {
    #[inline]
    fn finished(&mut self, done: &Done) {
        if (self.from..self.to).contains(&done.at) {
            self.answered_bytes += u64::from(done.answer_bytes);
        }
        if done.length_bytes > self.short_bytes || !done.counted {
            return;
        }
        self.seen += 1;
        if !self.seen.is_multiple_of(self.every) {
            return;
        }
        if self.short.len() == KEPT_MAX {
            let mut index = 0;
            self.short.retain(|_| {
                index += 1;
                index % 2 == 0
            });
            self.every *= 2;
        }
        let ns = |ps: Ps| u32::try_from(ps / PS_PER_NS).unwrap_or(u32::MAX);
        self.short.push(Short {
            time_ns: ns(done.at - done.submitted_at),
            queueing_ns: ns(done.delays.queueing),
            lag_ns: ns(done.delays.lag),
            group: group_of(waits(done)) as u8,
        });
    }
}
