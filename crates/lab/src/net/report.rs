//! What a run says: slowdown by size, queues, losses, backlog.

use super::clock::{PS_PER_NS, Ps};
use super::ideal::{Ideal, OwnBest};
use super::observer::Done;
use super::topology::{PortClass, Topology};
use crate::statistics::Histogram;
use crate::trail::Trail;
use cavy_core::family::Node;
use cavy_workload::Sizes;

/// Slowdowns are recorded in thousandths, so that a [`Histogram`] of whole numbers keeps them:
/// exact up to 2.047, then to 0.05 %.
pub const SLOWDOWN_UNIT: f64 = 1e-3;

/// Shares of the messages at which [`Bins::deciles`] end.
const SHARES: [f64; 13] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0];

/// Sizes up to which messages count together; ascending.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bins(Vec<u32>);

impl Bins {
    /// Each bin ends at one of these sizes, inclusive; longer messages go to the last. Sorted, and
    /// each once. One bin for everything if there are none.
    pub fn up_to(mut sizes: Vec<u32>) -> Bins {
        sizes.sort_unstable();
        sizes.dedup();
        if sizes.is_empty() {
            sizes.push(u32::MAX);
        }
        Bins(sizes)
    }

    /// Deciles of the message count, with 95, 99, 99.9 and 100 % at the end `[homa 4.3]`: the
    /// source's last column is the largest messages alone, which are far worse off than the rest of
    /// their hundredth. A size that holds more than a decile makes the bins of those deciles one.
    pub fn deciles(sizes: &Sizes) -> Bins {
        Bins::up_to(SHARES.iter().map(|&share| sizes.quantile(share)).collect())
    }

    /// The same, with the last 4 % and the last 1 % of all messages before each end apart, and the
    /// largest ten-thousandth and hundred-thousandth: the source's columns are narrow bins at their
    /// sizes, of some eighty in all `[homa 4.3]`, and slowdown may change much within a tenth.
    pub fn at_deciles(sizes: &Sizes) -> Bins {
        let (before, largest) = SHARES.split_at(SHARES.len() - 2);
        let before = before.iter().flat_map(|&share| [share - 0.04, share - 0.01, share]);
        let shares = before.chain(largest.iter().copied()).chain([0.9999, 0.99999]);
        Bins::up_to(shares.map(|share| sizes.quantile(share)).collect())
    }

    /// The ends.
    pub fn ends(&self) -> &[u32] {
        &self.0
    }

    /// The bin of a message.
    #[inline]
    pub fn of(&self, length_bytes: u32) -> usize {
        self.0.partition_point(|&end| end < length_bytes).min(self.0.len() - 1)
    }
}

/// The messages of one bin that were submitted after the warm-up and arrived.
#[derive(Clone, Debug)]
pub struct BinRecord {
    /// The longest of the bin.
    pub up_to_bytes: u32,
    /// Time over [`Ideal::time`], in [`SLOWDOWN_UNIT`]. For questions the sum of both directions.
    pub slowdown: Histogram,
    /// Time over the transport's own best; empty without [`OwnBest`] or where it has no value.
    pub slowdown_own: Histogram,
    /// From submission to delivery, or of the answer, in nanoseconds.
    pub latency_ns: Histogram,
    /// Slowdowns, in [`SLOWDOWN_UNIT`], of those that ended after submissions had stopped, when
    /// less and less was in their way; as they ended.
    pub late: Vec<u64>,
}

/// The ports of one class, from the end of the warm-up to the end of submissions. Bytes are those
/// of waiting frames, without the one being sent where nothing else is said.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct ClassRecord {
    /// How many ports.
    pub ports: u32,
    /// Mean over time and ports.
    pub mean_bytes: f64,
    /// Mean over packets of what they found before them: bytes waiting, and what was left of the
    /// packet on the wire. The source's simulator records its queues so `[homa 5.7]`.
    pub found_mean_bytes: f64,
    /// The most at any port.
    pub max_bytes: u64,
    /// Share of the time that ports were sending.
    pub utilization: f64,
    /// Packets sent.
    pub sent_packets: u64,
}

/// What became of packets, over the whole run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PacketCounts {
    /// Left a transport, and copies made by faults.
    pub sent: u64,
    /// Reached one.
    pub received: u64,
    /// Lost for want of room.
    pub lost_full: u64,
    /// Lost by a fault.
    pub lost_fault: u64,
    /// Lost because their receiver was down.
    pub lost_down: u64,
    /// Lost their payload.
    pub trimmed: u64,
    /// Marked, once for each port that marks.
    pub marked: u64,
    /// Still on the way when the run ended.
    pub in_flight: u64,
    /// Links crossed by packets.
    pub hops: u64,
}

/// What became of messages, over the whole run. A question and its answer are one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MessageCounts {
    /// Handed to transports.
    pub submitted: u64,
    /// Arrived, or were answered.
    pub finished: u64,
    /// Given up by their sender's transport.
    pub failed: u64,
    /// Given up by their receiver's transport.
    pub abandoned: u64,
    /// Their sender crashed.
    pub orphaned: u64,
    /// Not handed over, because the host was down.
    pub refused: u64,
    /// Neither arrived nor failed when the run ended.
    pub unfinished: u64,
    /// Of these, submitted after the warm-up.
    pub unfinished_counted: u64,
    /// Bytes of these that were missing.
    pub unfinished_bytes: u64,
    /// Deliveries of what had arrived or failed before.
    pub unexpected: u64,
}

/// Why a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// Everything submitted has arrived or failed.
    Finished,
    /// Time is up.
    Time,
    /// More packets were under way than the limit allows.
    PacketLimit,
    /// More messages were under way than names allow.
    MessageLimit,
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Report {
    /// By size.
    pub bins: Vec<BinRecord>,
    /// Messages.
    pub messages: MessageCounts,
    /// Packets.
    pub packets: PacketCounts,
    /// Mean bytes per host that were submitted and not placed, over each half of the time from the
    /// end of the warm-up to the end of submissions `[homa 5.4]`.
    pub backlog_bytes: [f64; 2],
    /// New payload placed at receivers per host in that time, bits per second.
    pub goodput_bits_per_s: f64,
    /// Payload that left transports, and of it what had left before; over the whole run.
    pub payload_bytes: u64,
    /// Payload sent again.
    pub retransmitted_bytes: u64,
    /// Payload sent again, by the host that sent it.
    pub retransmitted_by_host: Vec<u64>,
    /// By class of port, as [`PortClass::ALL`] lists them.
    pub classes: [ClassRecord; 4],
    /// The port to each host; empty where nothing is queued, as under the oracle.
    pub downlinks: Vec<ClassRecord>,
    /// Wire bytes that hosts sent at each level in that time `[homa 5.9]`.
    pub level_bytes: [u64; 8],
    /// Steps of all machines.
    pub steps: u64,
    /// Events of the world.
    pub events: u64,
    /// When the last event happened.
    pub ended_at: Ps,
    /// Why it was the last.
    pub ended: Ended,
    /// Fingerprint of the run.
    pub trail: Trail,
}

impl Report {
    /// The class's record.
    pub fn class(&self, class: PortClass) -> &ClassRecord {
        &self.classes[class as usize]
    }

    /// Slowdown over several bins together, at quantile `p`; `None` if nothing arrived.
    pub fn slowdown(&self, bins: std::ops::Range<usize>, p: f64) -> Option<f64> {
        merged(self.bins.get(bins)?.iter().map(|bin| &bin.slowdown), p)
    }

    /// The same over the transport's own best.
    pub fn slowdown_own(&self, bins: std::ops::Range<usize>, p: f64) -> Option<f64> {
        merged(self.bins.get(bins)?.iter().map(|bin| &bin.slowdown_own), p)
    }

    /// Did the backlog grow by more than `ratio` from half to half `[homa 5.4]`?
    pub fn grew(&self, ratio: f64) -> bool {
        self.backlog_bytes[1] > self.backlog_bytes[0] * (1.0 + ratio)
    }
}

fn merged<'a>(parts: impl Iterator<Item = &'a Histogram>, p: f64) -> Option<f64> {
    let mut all = Histogram::new();
    parts.for_each(|part| all.merge(part));
    Some(all.quantile(p)? as f64 * SLOWDOWN_UNIT)
}

/// Slowdown by size, as messages end.
#[derive(Clone, Debug)]
pub struct Recorder<'a> {
    bins: Bins,
    records: Vec<BinRecord>,
    ideal: Ideal,
    own: Option<(&'a OwnBest, &'a Topology)>,
    /// When submissions stop.
    until: Ps,
    /// Messages that are not in the records yet.
    waiting: Vec<Noted>,
}

/// What is recorded of a message.
#[derive(Clone, Copy, Debug)]
struct Noted {
    bin: usize,
    latency_ns: u64,
    slowdown: u64,
    /// `u64::MAX` for none.
    slowdown_own: u64,
    late: bool,
}

/// So many messages are recorded together: each one's place in a histogram is a miss of the cache,
/// and in a row the processor waits for many of them at once.
const TOGETHER: usize = 64;

impl<'a> Recorder<'a> {
    /// Nothing recorded yet, of a run in which submissions stop at `until`.
    pub fn new(
        bins: Bins,
        ideal: Ideal,
        own: Option<(&'a OwnBest, &'a Topology)>,
        until: Ps,
    ) -> Self {
        let records = bins
            .ends()
            .iter()
            .map(|&up_to_bytes| BinRecord {
                up_to_bytes,
                slowdown: Histogram::new(),
                slowdown_own: Histogram::new(),
                latency_ns: Histogram::new(),
                late: Vec::new(),
            })
            .collect();
        Recorder { bins, records, ideal, own, until, waiting: Vec::with_capacity(TOGETHER) }
    }

    /// Records a message if it counts.
    #[inline]
    pub fn record(&mut self, done: &Done) {
        if !done.counted {
            return;
        }
        let Done { from, to, length_bytes, answer_bytes, .. } = *done;
        let time = done.at - done.submitted_at;
        let mut best = self.ideal.time(from, to, length_bytes);
        if answer_bytes > 0 {
            best += self.ideal.time(to, from, answer_bytes);
        }
        let own = own_time(self.own, from, to, length_bytes);
        self.waiting.push(Noted {
            bin: self.bins.of(length_bytes),
            latency_ns: time / PS_PER_NS,
            slowdown: thousandths(time, best),
            slowdown_own: own.map_or(u64::MAX, |own| thousandths(time, own)),
            late: done.at >= self.until,
        });
        if self.waiting.len() == TOGETHER {
            self.note();
        }
    }

    /// Puts what waits into the records.
    fn note(&mut self) {
        for noted in self.waiting.drain(..) {
            let record = &mut self.records[noted.bin];
            record.latency_ns.record(noted.latency_ns);
            record.slowdown.record(noted.slowdown);
            if noted.slowdown_own != u64::MAX {
                record.slowdown_own.record(noted.slowdown_own);
            }
            if noted.late {
                record.late.push(noted.slowdown);
            }
        }
    }

    /// The records by bin.
    pub fn finish(mut self) -> Vec<BinRecord> {
        self.note();
        self.records
    }
}

#[inline]
fn own_time(
    own: Option<(&OwnBest, &Topology)>,
    from: Node,
    to: Node,
    length_bytes: u32,
) -> Option<Ps> {
    let (own, topology) = own?;
    own.time(topology.hops(from, to), length_bytes)
}

#[inline]
fn thousandths(time: Ps, best: Ps) -> u64 {
    (time as f64 / best.max(1) as f64 / SLOWDOWN_UNIT).round() as u64
}
