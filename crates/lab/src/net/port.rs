//! The sending end of a link: what is on the wire, what waits, and in which order it goes.

use super::clock::{Ps, Rate};
use super::network::Order;
use super::packets::{NIL, Packets};
use super::topology::PortClass;

/// Headers sent for one packet of data when both wait `[homa 3.8]`.
const HEADERS_PER_DATA: u32 = 10;

/// A packet waiting where order is more than a level.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    index: u32,
    rank: u32,
    flow: u64,
}

/// What a port saw since its record began; bytes are those of waiting frames.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QueueRecord {
    /// Sum of bytes times picoseconds.
    pub integral: u128,
    /// Over packets that found the port busy: bytes that waited, and what was left of the packet on
    /// the wire.
    pub found_bytes: u64,
    pub found_ps: u64,
    pub max_bytes: u64,
    pub sent_packets: u64,
    pub sent_bytes: u64,
    since: Ps,
}

/// In which order a port sends, without what only the switch needs to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sorting {
    Fifo,
    Levels,
    SmallestRank,
    Trim,
}

/// What a hop touches are three lines of the cache: one to see whether the port is idle and to put
/// a packet on its wire, the record, and, where packets wait, the lanes. Ports of a network are
/// more than fit in the fastest cache, so what is rare stands behind these.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Port {
    /// When the packet on the wire has left; with a bucket, when it has tokens again, which may be
    /// past.
    pub busy_until: Ps,
    pub waiting_bytes: u64,
    pub rate: Rate,
    /// From the end of sending to the arrival at the next place's queue or transport.
    pub delay: Ps,
    pub waiting_packets: u32,
    /// Of the packet on the wire, as buffers count them.
    pub serving_bytes: u32,
    /// What is on the wire and not counted.
    pub silent_bytes: u32,
    /// Where it leads, as [`super::packets::InFlight`] counts.
    pub to: u16,
    pub class: PortClass,
    /// Rules about faults may concern it.
    pub faulty: bool,
    /// An event at `busy_until` is pending.
    pub armed: bool,
    /// Level of the packet on the wire.
    serving_priority: u8,
    /// Bit n: level n is not empty.
    filled: u8,
    sorting: Sorting,
    /// A wire to somebody who takes no time for a packet.
    plain: bool,
    pub record: QueueRecord,
    heads: [u32; 8],
    tails: [u32; 8],
    /// What a host at its end spends on each packet, one after the other, and until when it does.
    each: Ps,
    taken_until: Ps,
    /// How far a bucket may be ahead of its rate; `None` for a wire.
    burst: Option<Ps>,
    /// In order of arrival: all of pFabric's packets, or the data of a trimming port.
    line: Vec<Waiting>,
    line_bytes: u64,
    headers_in_row: u32,
    /// Of the packet on the wire, where packets are sorted by it.
    serving_rank: u32,
}

impl Port {
    pub(super) fn new(rate: Rate, delay: Ps, to: u16, class: PortClass, order: Order) -> Port {
        Port {
            busy_until: 0,
            waiting_bytes: 0,
            rate,
            delay,
            waiting_packets: 0,
            serving_bytes: 0,
            silent_bytes: super::network::Framing::SILENT_BYTES,
            to,
            class,
            faulty: false,
            armed: false,
            serving_priority: 0,
            filled: 0,
            sorting: match order {
                Order::Fifo => Sorting::Fifo,
                Order::Levels => Sorting::Levels,
                Order::SmallestRank => Sorting::SmallestRank,
                Order::Trim { .. } => Sorting::Trim,
            },
            plain: true,
            record: QueueRecord::default(),
            heads: [NIL; 8],
            tails: [NIL; 8],
            each: 0,
            taken_until: 0,
            burst: None,
            line: Vec::new(),
            line_bytes: 0,
            headers_in_row: 0,
            serving_rank: 0,
        }
    }

    /// It leads to a host that spends `each` on every packet.
    pub(super) fn taken_in(&mut self, each: Ps) {
        self.each = each;
        self.plain &= each == 0;
    }

    /// It may be so far ahead of its rate.
    pub(super) fn with_burst(&mut self, burst: Ps) {
        self.burst = Some(burst);
        self.plain = false;
    }

    /// When what leaves at `left_at` is where it leads. One link leads to a host, so packets come
    /// to its processor in the order in which they leave.
    #[inline]
    pub(super) fn arrival(&mut self, left_at: Ps) -> Ps {
        let arrives_at = left_at + self.delay;
        if self.plain || self.each == 0 {
            return arrives_at;
        }
        self.taken_until = self.taken_until.max(arrives_at) + self.each;
        self.taken_until
    }

    #[inline]
    pub(super) fn is_idle(&self, now: Ps) -> bool {
        self.busy_until <= now && self.waiting_packets == 0
    }

    /// Begins the record anew at `now`.
    pub(super) fn restart_record(&mut self, now: Ps) {
        self.record =
            QueueRecord { since: now, max_bytes: self.waiting_bytes, ..QueueRecord::default() };
    }

    /// Brings the integral of the record up to `now`.
    #[inline]
    pub(super) fn account(&mut self, now: Ps) {
        let passed = now - self.record.since;
        self.record.integral += u128::from(self.waiting_bytes) * u128::from(passed);
        self.record.since = now;
    }

    /// When it may send again, at the earliest now.
    #[inline]
    pub(super) fn free_at(&self, now: Ps) -> Ps {
        self.busy_until.max(now)
    }

    /// Puts a packet on the wire; when it has left.
    #[inline]
    pub(super) fn begin<H: Copy>(&mut self, packets: &Packets<H>, index: u32, now: Ps) -> Ps {
        let packet = packets.get(index);
        self.serving_priority = packet.priority;
        if self.sorting == Sorting::SmallestRank {
            self.serving_rank = packet.rank;
        }
        self.serving_bytes = packet.counted_bytes(self.silent_bytes);
        self.record.sent_packets += 1;
        self.record.sent_bytes += u64::from(packet.wire_bytes);
        let time = self.rate.time(u32::from(packet.wire_bytes));
        if !self.plain
            && let Some(burst) = self.burst
        {
            self.busy_until = self.busy_until.max(now.saturating_sub(burst)) + time;
            return now;
        }
        self.busy_until = now + time;
        self.busy_until
    }

    /// Puts a packet in its queue. The port is busy or has a queue.
    #[inline]
    pub(super) fn push<H: Copy>(&mut self, packets: &mut Packets<H>, index: u32, now: Ps) {
        self.account(now);
        let residual = self.busy_until.saturating_sub(now);
        self.record.found_bytes += self.waiting_bytes;
        self.record.found_ps += residual;
        let packet = packets.get_mut(index);
        packet.queued_at = now;
        let bytes = u64::from(packet.counted_bytes(self.silent_bytes));
        let lower_on_wire = match self.sorting {
            Sorting::Levels => self.serving_priority < packet.priority,
            Sorting::SmallestRank => self.serving_rank > packet.rank,
            Sorting::Fifo | Sorting::Trim => false,
        };
        if lower_on_wire {
            let lag = u32::try_from(residual).unwrap_or(u32::MAX);
            packet.lag = packet.lag.saturating_add(lag);
            // From then on it waits behind its equals and betters only.
            packet.queued_at += residual;
        }
        let lane = match self.sorting {
            Sorting::Fifo => Some(0),
            Sorting::Levels => Some(usize::from(packet.priority)),
            Sorting::SmallestRank => None,
            Sorting::Trim => packet.is_bare().then_some(1),
        };
        packet.next = NIL;
        self.waiting_bytes += bytes;
        self.waiting_packets += 1;
        self.record.max_bytes = self.record.max_bytes.max(self.waiting_bytes);
        let Some(lane) = lane else {
            let packet = packets.get(index);
            let waiting = Waiting { index, rank: packet.rank, flow: packet.flow() };
            self.line.push(waiting);
            self.line_bytes += bytes;
            return;
        };
        if self.filled & (1 << lane) == 0 {
            self.filled |= 1 << lane;
            self.heads[lane] = index;
        } else {
            packets.get_mut(self.tails[lane]).next = index;
        }
        self.tails[lane] = index;
    }

    /// Takes the packet that goes next out of the queue and notes how long it waited.
    #[inline]
    pub(super) fn pop<H: Copy>(&mut self, packets: &mut Packets<H>, now: Ps) -> Option<u32> {
        let index = match self.sorting {
            Sorting::Fifo | Sorting::Levels => self.pop_lane(packets)?,
            Sorting::SmallestRank => {
                let place = self.next_by_rank()?;
                self.take_line(packets, place)
            }
            Sorting::Trim => {
                let data_turn = self.headers_in_row >= HEADERS_PER_DATA || self.filled == 0;
                if data_turn && !self.line.is_empty() {
                    self.headers_in_row = 0;
                    self.take_line(packets, 0)
                } else {
                    // Only headers that data waits for count against them.
                    let row = if self.line.is_empty() { 0 } else { self.headers_in_row + 1 };
                    self.headers_in_row = row;
                    self.pop_lane(packets)?
                }
            }
        };
        self.account(now);
        let packet = packets.get_mut(index);
        self.waiting_bytes -= u64::from(packet.counted_bytes(self.silent_bytes));
        self.waiting_packets -= 1;
        let waited = u32::try_from(now.saturating_sub(packet.queued_at)).unwrap_or(u32::MAX);
        packet.queueing = packet.queueing.saturating_add(waited);
        Some(index)
    }

    #[inline]
    fn pop_lane<H: Copy>(&mut self, packets: &Packets<H>) -> Option<u32> {
        if self.filled == 0 {
            return None;
        }
        let lane = 7 - self.filled.leading_zeros() as usize;
        let index = self.heads[lane];
        self.heads[lane] = packets.get(index).next;
        if self.heads[lane] == NIL {
            self.filled &= !(1 << lane);
        }
        Some(index)
    }

    fn take_line<H: Copy>(&mut self, packets: &Packets<H>, place: usize) -> u32 {
        let index = self.line.remove(place).index;
        self.line_bytes -= u64::from(packets.get(index).counted_bytes(self.silent_bytes));
        index
    }

    /// The earliest packet of the flow that has the smallest rank.
    fn next_by_rank(&self) -> Option<usize> {
        let mut best = self.line.first()?;
        for waiting in &self.line {
            if waiting.rank < best.rank {
                best = waiting;
            }
        }
        let flow = best.flow;
        self.line.iter().position(|waiting| waiting.flow == flow)
    }

    /// Takes out the waiting packet of the largest rank, the latest of equals, if that rank is
    /// above `rank`: an arriving packet is the latest of its equals.
    pub(super) fn evict_above<H: Copy>(
        &mut self,
        packets: &Packets<H>,
        rank: u32,
        now: Ps,
    ) -> Option<u32> {
        let (place, worst) =
            self.line.iter().enumerate().max_by_key(|(place, waiting)| (waiting.rank, *place))?;
        if worst.rank <= rank {
            return None;
        }
        Some(self.evict(packets, place, now))
    }

    /// Takes out the data packet that arrived last.
    pub(super) fn evict_newest<H: Copy>(&mut self, packets: &Packets<H>, now: Ps) -> Option<u32> {
        let last = self.line.len().checked_sub(1)?;
        Some(self.evict(packets, last, now))
    }

    fn evict<H: Copy>(&mut self, packets: &Packets<H>, place: usize, now: Ps) -> u32 {
        self.account(now);
        let index = self.take_line(packets, place);
        self.waiting_bytes -= u64::from(packets.get(index).counted_bytes(self.silent_bytes));
        self.waiting_packets -= 1;
        index
    }

    /// Bytes of data waiting at a trimming port.
    pub(super) fn data_bytes(&self) -> u64 {
        self.line_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn what_a_hop_touches_are_three_lines() {
        assert_eq!(offset_of!(Port, record) % 64, 0);
        assert!(offset_of!(Port, plain) < 64 && offset_of!(Port, record) == 64);
        assert_eq!((offset_of!(Port, heads), offset_of!(Port, each)), (128, 192));
    }
}
