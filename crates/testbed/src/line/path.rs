//! What a way between two hosts is like, and what a port of limited rate does to packets.

use cavy_core::Span;

/// What Ethernet carries beside a packet of IP: header 14, check 4, preamble 8, gap 12.
pub const BESIDE_BYTES: u32 = 38;
/// The shortest frame with all of these.
pub const FRAME_MIN_BYTES: u32 = 84;

/// Bytes of a packet of IP on an Ethernet link.
#[inline]
pub fn wire_bytes(packet_bytes: u32) -> u64 {
    u64::from((packet_bytes + BESIDE_BYTES).max(FRAME_MIN_BYTES))
}

/// Whether packets of a pair of hosts may overtake each other by jitter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// They may not: one that would is held until the one before it is due.
    #[default]
    Kept,
    /// They may.
    Free,
}

/// The way from one host to another.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Path {
    /// What a packet takes.
    pub one_way: Span,
    /// Evenly between so much less and so much more; never below zero `[dast 4.4]`.
    pub jitter: Span,
    /// Whether jitter lets packets overtake each other.
    pub order: Order,
    /// Share of packets that are lost, 0 to 1, each for itself.
    pub loss_ratio: f64,
    /// Share of packets that arrive twice, 0 to 1. The copy has a jitter of its own.
    pub copy_ratio: f64,
    /// Share of packets, 0 to 1, that take [`Path::late_by`] more, so that others overtake them.
    pub late_ratio: f64,
    /// See [`Path::late_ratio`].
    pub late_by: Span,
    /// What is sent now is lost. What was sent before arrives.
    pub cut: bool,
    /// The rate that all packets of this way share; `None`: as much as they like.
    pub port: Option<Port>,
}

/// What is changed of a way; `None` leaves what there is.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Setting {
    /// [`Path::one_way`].
    pub one_way: Option<Span>,
    /// [`Path::jitter`].
    pub jitter: Option<Span>,
    /// [`Path::order`].
    pub order: Option<Order>,
    /// [`Path::loss_ratio`].
    pub loss_ratio: Option<f64>,
    /// [`Path::copy_ratio`].
    pub copy_ratio: Option<f64>,
    /// [`Path::late_ratio`].
    pub late_ratio: Option<f64>,
    /// [`Path::late_by`].
    pub late_by: Option<Span>,
    /// [`Path::cut`].
    pub cut: Option<bool>,
    /// [`Path::port`]; `Some(None)` takes a limit away.
    pub port: Option<Option<Port>>,
}

impl Setting {
    /// Changes a way.
    pub fn apply(&self, path: &mut Path) {
        fn set<T: Copy>(to: &mut T, what: Option<T>) {
            *to = what.unwrap_or(*to);
        }
        set(&mut path.one_way, self.one_way);
        set(&mut path.jitter, self.jitter);
        set(&mut path.order, self.order);
        set(&mut path.loss_ratio, self.loss_ratio);
        set(&mut path.copy_ratio, self.copy_ratio);
        set(&mut path.late_ratio, self.late_ratio);
        set(&mut path.late_by, self.late_by);
        set(&mut path.cut, self.cut);
        set(&mut path.port, self.port);
    }
}

/// A queue of limited rate and room, first come first served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Port {
    /// Bits a second, as Ethernet counts them; at least 1000.
    pub bits_per_s: u64,
    /// Bytes on the wire that may wait, with the packet that is being sent.
    pub queue_bytes: u64,
    /// A packet that finds more than so many bytes is marked, if its transport is capable of it
    /// (ECN); `None`: none is.
    pub mark_bytes: Option<u64>,
}

/// What a port did with a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Passed {
    /// It has left at this time, in nanoseconds; was there much before it?
    Left { at_ns: u64, marked: bool },
    /// It found no room.
    Full,
}

/// A port in use.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Queue {
    /// When the last packet will have left, in nanoseconds ...
    free_at_ns: u64,
    /// ... and so many more, of which `bits_per_s` are one: rates are exact in the long run.
    rest: u64,
}

impl Queue {
    /// A packet comes at `now_ns`, not before the one before it came.
    #[inline]
    pub(super) fn pass(&mut self, port: &Port, now_ns: u64, wire_bytes: u64) -> Passed {
        if self.free_at_ns <= now_ns {
            (self.free_at_ns, self.rest) = (now_ns, 0);
        }
        let wait_ns = u128::from(self.free_at_ns - now_ns);
        let waiting = (wait_ns * u128::from(port.bits_per_s) / 8_000_000_000) as u64;
        if waiting + wire_bytes > port.queue_bytes {
            return Passed::Full;
        }
        let work = wire_bytes * 8 * 1_000_000_000 + self.rest;
        self.free_at_ns += work / port.bits_per_s;
        self.rest = work % port.bits_per_s;
        let marked = port.mark_bytes.is_some_and(|most| waiting > most);
        Passed::Left { at_ns: self.free_at_ns, marked }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIGABIT: Port =
        Port { bits_per_s: 1_000_000_000, queue_bytes: 32_768, mark_bytes: Some(10_000) };

    #[test]
    fn a_port_has_its_rate_and_its_room() {
        let mut queue = Queue::default();
        // 21 full frames of 1538 bytes fit into 32 KiB.
        let burst: Vec<Passed> =
            (0..25).map(|_| queue.pass(&GIGABIT, 5, wire_bytes(1500))).collect();
        assert_eq!(burst[0], Passed::Left { at_ns: 5 + 12_304, marked: false });
        assert_eq!(burst[20], Passed::Left { at_ns: 5 + 21 * 12_304, marked: true });
        assert!(burst[21..].iter().all(|passed| *passed == Passed::Full));
        // Seven frames wait before the eighth: 10,766 bytes are the first beyond the mark.
        let marked = burst.iter().position(|p| matches!(p, Passed::Left { marked: true, .. }));
        assert_eq!(marked, Some(7));
        // When a frame has left there is room for one.
        assert_ne!(queue.pass(&GIGABIT, 5 + 12_304, wire_bytes(1500)), Passed::Full);
        assert_eq!(queue.pass(&GIGABIT, 5 + 12_304, wire_bytes(1500)), Passed::Full);
    }

    #[test]
    fn rates_that_divide_nothing_are_exact_in_the_long_run() {
        let port = Port { bits_per_s: 7_000_003, queue_bytes: u64::MAX, mark_bytes: None };
        let mut queue = Queue::default();
        let mut last = 0;
        for _ in 0..100_000 {
            let Passed::Left { at_ns, .. } = queue.pass(&port, 0, 84) else { panic!("no room") };
            last = at_ns;
        }
        let exact = 84.0 * 8.0 * 1e5 / 7_000_003.0 * 1e9;
        assert!((last as f64 - exact).abs() < 2.0, "{last} for {exact}");
    }

    #[test]
    fn the_shortest_frame_is_ethernet_s() {
        assert_eq!((wire_bytes(28), wire_bytes(46), wire_bytes(1500)), (84, 84, 1538));
    }
}
