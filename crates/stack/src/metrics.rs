//! What a stack counted.

use cavy_core::Span;
use cavy_tcp::wire::Damage;
use cavy_tcp::{Counts, Why};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;

/// Latenesses beyond this count as this, in nanoseconds.
const LATE_MAX_NS: u64 = 60_000_000_000;

/// How late timers were, in microseconds; zeros without any.
#[derive(Clone, Copy, PartialEq, Debug, Default, serde::Serialize)]
pub struct Late {
    /// Timers that rang.
    pub timers: u64,
    /// Median.
    pub p50_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// The greatest.
    pub max_us: f64,
}

/// What happened since the stack was opened.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub struct Metrics {
    /// Addresses in use.
    pub addresses: usize,
    /// Connections there are, those that are only remembered included.
    pub connections: u64,
    /// Connections that this side opened.
    pub opened: u64,
    /// Connections that applications here were offered.
    pub accepted: u64,
    /// Connections that were reset because nobody accepted those before.
    pub overflowed: u64,
    /// SYNs that were not heard because as many connections as may waited to be accepted: who sends
    /// them asks again.
    pub unheard: u64,
    /// Connections that ended, by why.
    pub ended: BTreeMap<&'static str, u64>,
    /// Packets taken from the device.
    pub packets_in: u64,
    /// Packets given to it.
    pub packets_out: u64,
    /// Packets that it did not take.
    pub refused: u64,
    /// Payload that came, repetitions included.
    pub octets_in: u64,
    /// Payload that left, repetitions included.
    pub octets_out: u64,
    /// Packets that made no sense, by why.
    pub damaged: BTreeMap<&'static str, u64>,
    /// Packets for addresses where nobody is.
    pub not_ours: u64,
    /// Packets of other protocols.
    pub other: u64,
    /// Packets that the network says it could not deliver.
    pub unreachable: u64,
    /// Segments with data that were sent.
    pub segments: u64,
    /// Of them such as were sent before.
    pub retransmitted: u64,
    /// Timers of retransmission that ran out.
    pub timeouts: u64,
    /// Of them such as were found to be for nothing.
    pub spurious: u64,
    /// Losses repaired without a timer.
    pub fast_recoveries: u64,
    /// Probes at the ends of flights.
    pub probes: u64,
    /// SYNs that were answered by cookies, since a port had enough half-open connections.
    pub cookies: u64,
    /// Acknowledgements that told of marks.
    pub marks: u64,
    /// Segments that made no sense to TCP, or that it had no room for.
    pub dropped: u64,
    /// Answers held back, so that nobody is flooded in our name.
    pub unanswered: u64,
    /// Timers.
    pub late: Late,
}

/// What the engine counts itself.
pub(crate) struct Tally {
    pub opened: u64,
    pub accepted: u64,
    pub overflowed: u64,
    pub unheard: u64,
    pub packets_in: u64,
    pub packets_out: u64,
    pub refused: u64,
    pub octets_in: u64,
    pub octets_out: u64,
    pub not_ours: u64,
    pub other: u64,
    pub unreachable: u64,
    damaged: [u64; Damage::ALL.len()],
    ended: [u64; WHYS.len()],
    late: Option<Histogram<u64>>,
}

const WHYS: [(Why, &str); 5] = [
    (Why::Closed, "closed"),
    (Why::Reset, "reset"),
    (Why::Refused, "refused"),
    (Why::TimedOut, "timed_out"),
    (Why::Aborted, "aborted"),
];

impl Tally {
    pub fn new() -> Tally {
        Tally {
            opened: 0,
            accepted: 0,
            overflowed: 0,
            unheard: 0,
            packets_in: 0,
            packets_out: 0,
            refused: 0,
            octets_in: 0,
            octets_out: 0,
            not_ours: 0,
            other: 0,
            unreachable: 0,
            damaged: [0; Damage::ALL.len()],
            ended: [0; WHYS.len()],
            late: Histogram::new_with_max(LATE_MAX_NS, 2).ok(),
        }
    }

    pub fn damaged(&mut self, damage: Damage) {
        let place = Damage::ALL.iter().position(|&one| one == damage);
        place.into_iter().for_each(|place| self.damaged[place] += 1);
    }

    pub fn ended(&mut self, why: Why) {
        let place = WHYS.iter().position(|&(one, _)| one == why);
        place.into_iter().for_each(|place| self.ended[place] += 1);
    }

    pub fn late(&mut self, by: Span) {
        if let Some(late) = &mut self.late {
            late.saturating_record(by.as_ns());
        }
    }

    pub fn metrics(&self, counts: &Counts, addresses: usize, connections: u64) -> Metrics {
        let at = |late: &Histogram<u64>, ratio| late.value_at_quantile(ratio) as f64 / 1e3;
        let late = self.late.as_ref().filter(|late| !late.is_empty()).map(|late| Late {
            timers: late.len(),
            p50_us: at(late, 0.5),
            p99_us: at(late, 0.99),
            max_us: late.max() as f64 / 1e3,
        });
        let some = |(&name, &count): (&&'static str, &u64)| (count > 0).then_some((name, count));
        let named = Damage::ALL.map(Damage::name);
        Metrics {
            addresses,
            connections,
            opened: self.opened,
            accepted: self.accepted,
            overflowed: self.overflowed,
            unheard: self.unheard,
            ended: WHYS.map(|(_, name)| name).iter().zip(&self.ended).filter_map(some).collect(),
            packets_in: self.packets_in,
            packets_out: self.packets_out,
            refused: self.refused,
            octets_in: self.octets_in,
            octets_out: self.octets_out,
            damaged: named.iter().zip(&self.damaged).filter_map(some).collect(),
            not_ours: self.not_ours,
            other: self.other,
            unreachable: self.unreachable,
            segments: counts.data_segments,
            retransmitted: counts.retransmitted,
            timeouts: counts.timeouts(),
            spurious: counts.spurious,
            fast_recoveries: counts.fast_recoveries,
            probes: counts.probes,
            cookies: counts.cookies,
            marks: counts.marks,
            dropped: counts.dropped,
            unanswered: counts.unanswered,
            late: late.unwrap_or_default(),
        }
    }
}
