//! Who may send next: the active set, overcommitment, grants and their levels ([homa 2.7] to
//! [homa 2.9]).
//!
//! A grantable message is either *active*, in a short sorted list, or *waits* in the heap of its
//! sender. Senders without an active message stand in a heap of their own by their best one, so the
//! next to be admitted is found at once however many wait.

use crate::config::{Config, Granting, TailBoost};
use crate::heap::{Heap, Key, Places};
use crate::machine::{Homa, HomaCx, Pending, Timer};
use alloc::vec::Vec;
use cavy_core::family::packet::Extent;
use cavy_core::{Instant, Span};

/// An active message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Active {
    pub(crate) key: Key,
    pub(crate) slot: u32,
    /// Spaced grants only: its rung on the ladder of levels, which stays ([homa 2.7], SIM).
    pub(crate) rung: u8,
}

/// The receiver's schedule.
#[derive(Clone, Debug)]
pub(crate) struct Grants {
    /// Best first.
    pub(crate) active: Vec<Active>,
    /// Places in the heaps of all senders.
    pub(crate) places: Places,
    /// Senders with waiting messages and no active one.
    pub(crate) ready: Heap,
    pub(crate) ready_places: Places,
    /// Messages that wait.
    pub(crate) waiting: u32,
    /// Most active messages now.
    pub(crate) overcommit: u8,
    /// Deadline of the timer for spaced grants.
    pub(crate) armed_at: Option<Instant>,
    /// End of the latest DATA.
    pub(crate) last_data_at: Instant,
    /// When the oldest message is next given something.
    pub(crate) next_oldest_at: Instant,
}

impl Grants {
    pub(crate) fn new(config: &Config) -> Grants {
        let overcommit = match config.granting {
            Granting::Independent { .. } => 0,
            Granting::Arrivals { overcommit, .. }
            | Granting::Spaced { overcommit, .. }
            | Granting::Windows { overcommit, .. } => overcommit,
        };
        Grants {
            active: Vec::with_capacity(usize::from(crate::config::OVERCOMMIT_MAX) + 1),
            places: Places::default(),
            ready: Heap::default(),
            ready_places: Places::default(),
            waiting: 0,
            overcommit,
            armed_at: None,
            last_data_at: Instant::ZERO,
            next_oldest_at: Instant::ZERO,
        }
    }
}

impl Homa {
    /// DATA came in, for a message that is not complete (`slot`) or is: decide what to grant.
    #[inline]
    pub(crate) fn grant_after_arrival(&mut self, slot: Option<u32>, cx: &mut HomaCx<'_>) {
        if let Some(slot) = slot {
            if let Granting::Independent { window_bytes, increment_bytes } = self.config.granting {
                self.grant_independent(slot, window_bytes, increment_bytes);
                return;
            }
            self.offer(slot);
        }
        if self.grants.active.is_empty() {
            return;
        }
        match self.config.granting {
            Granting::Independent { .. } => {}
            Granting::Arrivals { window_bytes, increment_bytes, incoming_max_bytes, .. } => {
                let one = |homa: &mut Homa| {
                    let allowed = homa.incoming_bytes < incoming_max_bytes.into();
                    allowed && homa.grant_one(window_bytes, increment_bytes)
                };
                // What windows that shrank gave up is granted to others, two for one.
                if one(self) && self.config.informed.is_some() {
                    one(self);
                }
            }
            Granting::Spaced { .. } => self.grant_spaced(cx),
            Granting::Windows { window_bytes, incoming_max_bytes, increment_bytes, .. } => {
                self.grant_windows(window_bytes, incoming_max_bytes, increment_bytes);
            }
        }
        self.grant_oldest(cx);
    }

    /// Basic: each message by itself ([homa 3.1]).
    fn grant_independent(&mut self, slot: u32, window: u32, increment: u32) {
        let inb = &self.exchanges[slot].inb;
        if inb.grantable() && inb.outstanding() < window {
            let to = u64::from(inb.received.bytes) + u64::from(window) + u64::from(increment);
            self.grant(slot, to.min(inb.length.into()) as u32, 0);
        }
    }

    /// The RAMCloud rules: one increment, to the best message with room in its window. False if
    /// none has.
    fn grant_one(&mut self, window: u32, increment: u32) -> bool {
        for rank in 0..self.grants.active.len() {
            let slot = self.grants.active[rank].slot;
            let inb = &self.exchanges[slot].inb;
            let left = inb.length - inb.received.bytes;
            let window = match self.config.informed {
                Some(informed) if left > informed.spared_bytes => {
                    window.min(self.peers[self.exchanges[slot].peer].window_bytes)
                }
                _ => window,
            };
            if inb.outstanding() < window {
                let to = inb.granted.saturating_add(increment).min(inb.length);
                let level = self.boosted(slot, self.ranked_level(rank));
                self.grant(slot, to, level);
                self.leave_if_granted(slot);
                return true;
            }
        }
        false
    }

    /// The Linux rules: fill all windows, best first, as far as the total allows.
    fn grant_windows(&mut self, fixed: u32, incoming_max: u32, increment: u32) {
        let mut rank = 0;
        while rank < self.grants.active.len() {
            let slot = self.grants.active[rank].slot;
            let window = match fixed {
                0 => incoming_max / (self.grants.active.len() as u32 + 1),
                window => window,
            };
            let inb = &self.exchanges[slot].inb;
            let to = inb.received.bytes.saturating_add(window).min(inb.length);
            let headroom = u64::from(incoming_max).saturating_sub(self.incoming_bytes);
            let mut more = u64::from(to.saturating_sub(inb.granted)).min(headroom) as u32;
            // Whoever grants several packets at a time wants whole ones: a part costs a header as
            // well.
            let packet = self.config.scheduled_packet_bytes;
            if increment > packet && inb.granted + more < inb.length {
                more -= more % packet;
            }
            if more > 0 && (more >= increment || inb.granted + more == inb.length) {
                let to = inb.granted + more;
                let level = self.boosted(slot, self.ranked_level(rank));
                self.grant(slot, to, level);
                if self.leave_if_granted(slot) {
                    // Others moved up, and windows have grown.
                    rank = 0;
                    continue;
                }
            }
            rank += 1;
        }
    }

    /// The simulator's rules: one packet, at most one a packet time for each sender, or sooner at a
    /// better level.
    pub(crate) fn grant_spaced(&mut self, cx: &mut HomaCx<'_>) {
        let Granting::Spaced { window_wire_bytes, .. } = self.config.granting else { return };
        let mut rank = 0;
        let mut earliest = Instant::NEVER;
        while rank < self.grants.active.len() {
            let Active { slot, rung, .. } = self.grants.active[rank];
            rank += 1;
            let exchange = &self.exchanges[slot];
            let inb = &exchange.inb;
            if self.wire_bytes(inb.outstanding()) >= window_wire_bytes {
                continue;
            }
            let level = self.boosted(slot, self.rung_level(rung));
            let peer = exchange.peer;
            let due = self.peers[peer].next_grant_at;
            if cx.now() < due && level <= self.peers[peer].last_level {
                earliest = earliest.min(due);
                continue;
            }
            let to = (inb.granted + self.config.scheduled_packet_bytes).min(inb.length);
            self.peers[peer].next_grant_at = cx.now() + self.packet_time();
            self.peers[peer].last_level = level;
            self.grant(slot, to, level);
            if self.leave_if_granted(slot) {
                rank = 0;
                earliest = Instant::NEVER;
            } else {
                self.rank_active(slot);
                if self.wire_bytes(self.exchanges[slot].inb.outstanding()) < window_wire_bytes {
                    earliest = earliest.min(self.peers[peer].next_grant_at);
                }
            }
        }
        if earliest < self.grants.armed_at.unwrap_or(Instant::NEVER) {
            self.grants.armed_at = Some(earliest);
            cx.arm(Timer::Grant, earliest);
        }
    }

    /// The oldest message's share ([homa 2.9]): now and then, whatever its rank.
    fn grant_oldest(&mut self, cx: &mut HomaCx<'_>) {
        let Some(share) = self.config.oldest_grants else { return };
        if cx.now() < self.grants.next_oldest_at {
            return;
        }
        let rate = self.config.link_bits_per_s * u64::from(share.share_per_mille) / 1_000;
        let interval = u64::from(share.increment_bytes) * 8_000_000_000 / rate.max(1);
        let first = self.grants.next_oldest_at == Instant::ZERO;
        self.grants.next_oldest_at = cx.now() + Span::from_ns(interval.max(1));
        if first {
            return;
        }
        let window = match self.config.granting {
            Granting::Windows { window_bytes: 0, incoming_max_bytes, .. } => {
                incoming_max_bytes / (self.grants.active.len() as u32 + 1)
            }
            Granting::Independent { window_bytes, .. }
            | Granting::Arrivals { window_bytes, .. }
            | Granting::Windows { window_bytes, .. } => window_bytes,
            Granting::Spaced { window_wire_bytes, .. } => window_wire_bytes,
        };
        let most = window.saturating_add(2 * share.increment_bytes);
        let candidates = self.exchanges.iter();
        let candidates =
            candidates.filter(|(_, e)| e.inb.grantable() && e.inb.outstanding() < most);
        let Some((slot, exchange)) = candidates.min_by_key(|(_, e)| e.born) else { return };
        let inb = &exchange.inb;
        let to = inb.granted.saturating_add(share.increment_bytes).min(inb.length);
        let level = self.boosted(slot, self.config.scheduled_levels - 1);
        self.grant(slot, to, level);
        if !self.leave_if_granted(slot) {
            self.offer(slot);
        }
    }

    /// Grants come with arrivals, and a message of which nothing is on its way has none: it is
    /// given an increment at each tick.
    pub(crate) fn grant_idle(&mut self, slot: u32) {
        let exchange = &self.exchanges[slot];
        let inb = &exchange.inb;
        if !inb.grantable() || inb.outstanding() > 0 {
            return;
        }
        let (increment, level) = match self.config.granting {
            Granting::Independent { increment_bytes, .. } => (increment_bytes, 0),
            _ => {
                let rank = self.grants.active.iter().position(|active| active.slot == slot);
                let Some(rank) = rank else { return };
                (self.config.scheduled_packet_bytes, self.boosted(slot, self.ranked_level(rank)))
            }
        };
        self.grant(slot, inb.granted.saturating_add(increment).min(inb.length), level);
        self.leave_if_granted(slot);
    }

    fn grant(&mut self, slot: u32, to: u32, level: u8) {
        let exchange = &mut self.exchanges[slot];
        let generation = exchange.generation;
        let inb = &mut exchange.inb;
        self.incoming_bytes += u64::from(to - inb.granted);
        inb.granted = to;
        inb.priority = level;
        self.counters.grants += 1;
        if !inb.grant_waits {
            inb.grant_waits = true;
            self.control.push_back(Pending::Grant { slot, generation });
        }
    }

    /// A message that is granted to its end makes place for another one. True if it was.
    fn leave_if_granted(&mut self, slot: u32) -> bool {
        if self.exchanges[slot].inb.grantable() {
            return false;
        }
        self.withdraw(slot);
        self.backfill();
        true
    }

    /// Lowest first: with one active message the level is 0, with two they are 1 and 0, so that a
    /// newcomer finds a free level above ([homa 2.7]).
    fn ranked_level(&self, rank: usize) -> u8 {
        let top = usize::from(self.config.scheduled_levels) - 1;
        (self.grants.active.len() - 1).min(top).saturating_sub(rank) as u8
    }

    /// Rungs above the number of levels are what levels there are; those below share level 0.
    fn rung_level(&self, rung: u8) -> u8 {
        let shared = self.grants.overcommit.saturating_sub(self.config.scheduled_levels);
        rung.saturating_sub(shared).min(self.config.scheduled_levels - 1)
    }

    /// The level of the next grant of `slot` ([homa 2.8]): the last bytes may go higher.
    fn boosted(&self, slot: u32, level: u8) -> u8 {
        let inb = &self.exchanges[slot].inb;
        let left = inb.length - inb.granted;
        let tail = self.config.unscheduled_bytes;
        if left > tail {
            return level;
        }
        let size = match self.config.tail_boost {
            TailBoost::Off => return level,
            // Answers to marked questions have more that is scheduled than their length says.
            TailBoost::ScheduledPart => tail.min(inb.length - inb.unscheduled.min(tail)),
            TailBoost::Length => inb.length,
            TailBoost::Remaining => left,
        };
        level.max(self.own_cutoffs.level(size))
    }

    /// The order of inbound messages: by bytes not received, or not granted where the source does
    /// so.
    fn inbound_key(&self, slot: u32) -> Key {
        let exchange = &self.exchanges[slot];
        let inb = &exchange.inb;
        match self.config.granting {
            Granting::Spaced { .. } => self.key(inb.length - inb.granted, exchange, inb.length),
            _ => self.key(inb.length - inb.received.bytes, exchange, 0),
        }
    }

    /// A message may have become grantable, or better: let it in if it belongs in.
    pub(crate) fn offer(&mut self, slot: u32) {
        if !self.exchanges[slot].inb.grantable() {
            self.leave_if_granted(slot);
            return;
        }
        if matches!(self.config.granting, Granting::Independent { .. }) {
            return;
        }
        if self.exchanges[slot].inb.active {
            self.rank_active(slot);
            return;
        }
        let key = self.inbound_key(slot);
        let peer = self.exchanges[slot].peer;
        self.wait(slot, peer, key);
        let room = self.grants.active.len() < usize::from(self.grants.overcommit);
        if self.peers[peer].active > 0 {
            // One message a sender: the better one.
            let others = &self.grants.active;
            let rival = others.iter().rposition(|a| self.exchanges[a.slot].peer == peer);
            if let Some(rank) = rival.filter(|&rank| key < self.grants.active[rank].key) {
                self.demote(rank);
                self.activate(slot);
            } else if room {
                self.backfill();
            }
        } else if room {
            self.activate(slot);
        } else if self.grants.active.last().is_some_and(|worst| key < worst.key) {
            self.demote(self.grants.active.len() - 1);
            self.activate(slot);
        }
    }

    /// Fills free places with the best messages of senders that have none.
    pub(crate) fn backfill(&mut self) {
        while self.grants.active.len() < usize::from(self.grants.overcommit) {
            let next = match self.grants.ready.peek() {
                Some((_, peer)) => self.peers[peer].waiting.peek(),
                None => self.second_helping(),
            };
            let Some((_, slot)) = next else { return };
            self.activate(slot);
        }
    }

    /// With few senders the Linux rules let one have several active messages.
    fn second_helping(&self) -> Option<(Key, u32)> {
        if !matches!(self.config.granting, Granting::Windows { .. }) || self.grants.waiting == 0 {
            return None;
        }
        let peers = self.grants.active.iter().map(|a| self.exchanges[a.slot].peer);
        peers.filter_map(|peer| self.peers[peer].waiting.peek()).min()
    }

    /// Takes a message out of the schedule. The caller calls [`Homa::backfill`].
    pub(crate) fn withdraw(&mut self, slot: u32) {
        let exchange = &mut self.exchanges[slot];
        let peer = exchange.peer;
        if exchange.inb.active {
            exchange.inb.active = false;
            self.peers[peer].active -= 1;
            self.grants.active.retain(|a| a.slot != slot);
            self.rank_peer(peer);
            self.shrink();
        } else if self.grants.places.has(slot) {
            self.unwait(slot, peer);
        }
    }

    /// The ladder of an adaptive overcommitment shrinks back as messages end.
    fn shrink(&mut self) {
        if let Granting::Spaced { overcommit, adaptive: Some(_), .. } = self.config.granting {
            self.grants.overcommit = (self.grants.overcommit - 1).max(overcommit);
        }
    }

    fn wait(&mut self, slot: u32, peer: u32, key: Key) {
        self.grants.waiting += u32::from(!self.grants.places.has(slot));
        self.peers[peer].waiting.set(&mut self.grants.places, slot, key);
        self.rank_peer(peer);
    }

    fn unwait(&mut self, slot: u32, peer: u32) {
        self.grants.waiting -= 1;
        self.peers[peer].waiting.remove(&mut self.grants.places, slot);
        self.rank_peer(peer);
    }

    fn rank_peer(&mut self, peer: u32) {
        let state = &self.peers[peer];
        match state.waiting.peek() {
            Some((key, _)) if state.active == 0 => {
                self.grants.ready.set(&mut self.grants.ready_places, peer, key);
            }
            _ => self.grants.ready.remove(&mut self.grants.ready_places, peer),
        }
    }

    fn activate(&mut self, slot: u32) {
        let peer = self.exchanges[slot].peer;
        self.exchanges[slot].inb.active = true;
        self.peers[peer].active += 1;
        self.unwait(slot, peer);
        let key = self.inbound_key(slot);
        let rank = self.grants.active.partition_point(|a| a.key < key);
        let rung = self.free_rung(rank);
        self.grants.active.insert(rank, Active { key, slot, rung });
    }

    /// The lowest free rung between the neighbours of a newcomer of `rank`. If there is none, the
    /// better ones move up; only if they cannot, the worse ones are pushed down.
    fn free_rung(&mut self, rank: usize) -> u8 {
        let top = self.grants.overcommit.max(1) - 1;
        let active = &mut self.grants.active;
        let lowest = active.get(rank).map_or(0, |below| below.rung + 1);
        let mut wanted = lowest;
        for above in (0..rank).rev() {
            if active[above].rung > wanted {
                break;
            }
            wanted += 1;
        }
        if wanted <= top {
            // Those from here up to the gap move up by one.
            let mut next = lowest;
            for above in (0..rank).rev() {
                if active[above].rung > next {
                    break;
                }
                next += 1;
                active[above].rung = next;
            }
            return lowest;
        }
        let mut next = lowest.saturating_sub(1);
        for entry in active[rank..].iter_mut() {
            if entry.rung < next {
                break;
            }
            next = next.saturating_sub(1);
            entry.rung = next;
        }
        lowest.saturating_sub(1)
    }

    pub(crate) fn demote(&mut self, rank: usize) {
        let Active { slot, .. } = self.grants.active.remove(rank);
        let peer = self.exchanges[slot].peer;
        self.exchanges[slot].inb.active = false;
        self.peers[peer].active -= 1;
        let key = self.inbound_key(slot);
        self.wait(slot, peer, key);
    }

    /// The key of an active message changed.
    fn rank_active(&mut self, slot: u32) {
        let key = self.inbound_key(slot);
        let active = &mut self.grants.active;
        let Some(mut rank) = active.iter().position(|a| a.slot == slot) else { return };
        active[rank].key = key;
        while rank > 0 && active[rank - 1].key > key {
            active.swap(rank - 1, rank);
            // Rungs belong to ranks: the two exchange them.
            let rung = active[rank].rung;
            active[rank].rung = active[rank - 1].rung;
            active[rank - 1].rung = rung;
            rank -= 1;
        }
        while rank + 1 < active.len() && active[rank + 1].key < key {
            active.swap(rank, rank + 1);
            let rung = active[rank].rung;
            active[rank].rung = active[rank + 1].rung;
            active[rank + 1].rung = rung;
            rank += 1;
        }
    }

    /// Length on the link of `bytes` of payload in scheduled packets.
    fn wire_bytes(&self, bytes: u32) -> u32 {
        let packets = bytes.div_ceil(self.config.scheduled_packet_bytes);
        bytes.saturating_add(packets.saturating_mul(self.config.overhead_bytes + 16))
    }

    /// Time of a full scheduled packet on the link.
    pub(crate) fn packet_time(&self) -> Span {
        self.link_time(self.wire_bytes(self.config.scheduled_packet_bytes))
    }

    pub(crate) fn link_time(&self, wire_bytes: u32) -> Span {
        Span::from_ns(u64::from(wire_bytes) * 8_000_000_000 / self.config.link_bits_per_s)
    }

    /// A sender says how much it has to send already ([homa 8.2] point 5): the window of one that
    /// is behind shrinks by 1/16 a packet and grows back by 1/8 of a packet a packet.
    #[inline]
    pub(crate) fn note_backlog(&mut self, slot: u32, backlog: u8) {
        let Some(informed) = self.config.informed else { return };
        let packet = self.config.scheduled_packet_bytes;
        let peer = &mut self.peers[self.exchanges[slot].peer];
        let window = peer.window_bytes.min(self.config.unscheduled_bytes.max(packet));
        peer.window_bytes = if backlog >= informed.backlog_min {
            (window - window / 16).max(packet)
        } else {
            window.saturating_add((packet / 8).max(1))
        };
    }

    /// Watches the downlink for idle time that more overcommitment would fill ([homa 2.7]).
    #[inline]
    pub(crate) fn note_arrival(&mut self, extent: Extent, cx: &mut HomaCx<'_>) {
        let Granting::Spaced { adaptive: Some(adaptive), .. } = self.config.granting else {
            return;
        };
        let busy = self.link_time(self.wire_bytes(extent.length_bytes));
        let idle = cx.now().since(self.grants.last_data_at).saturating_sub(busy);
        self.grants.last_data_at = cx.now();
        if self.grants.waiting > 0 && idle >= self.link_time(adaptive.idle_bytes) {
            self.grants.overcommit = (self.grants.overcommit + 1).min(adaptive.most);
            self.backfill();
        }
    }
}
