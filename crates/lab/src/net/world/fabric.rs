//! Packets between transports: ports, switches, buffers.

use super::super::network::{Order, Routing};
use super::super::observer::Loss;
use super::super::topology::Place;
use super::*;

impl<'a, M, F, T, P, O> World<'a, M, F, T, P, O>
where
    M: Transport,
    F: FnMut(Node) -> M,
    T: Traffic,
    P: Pending,
    O: Observer<M, M::Header>,
{
    /// A packet is whole in a switch and has passed it, or has reached a transport.
    #[inline]
    pub(super) fn packet_arrives(&mut self, index: u32) {
        let arriving = u32::from(self.packets.get(index).arriving);
        match arriving.checked_sub(self.hosts.len() as u32) {
            None => self.receive(Node(arriving), index),
            Some(switch) => {
                let port = self.route(switch, index);
                self.forward(port, index);
            }
        }
    }

    /// The port of `switch` that the packet leaves by.
    #[inline]
    fn route(&mut self, switch: u32, index: u32) -> u32 {
        let packet = self.packets.get(index);
        let choices = self.setup.network.topology.choices(switch, packet.to().0);
        let count = choices.len() as u64;
        if count == 1 {
            return choices[0];
        }
        let choice = match self.setup.network.routing {
            Routing::Spray => self.switch_rngs[switch as usize].below(count),
            Routing::FlowHash => {
                let mut digest = cavy_core::Digest::new();
                digest.fold(packet.flow());
                digest.fold(u64::from(packet.to().0) << 32 | u64::from(switch));
                ((u128::from(digest.value().rotate_left(32)) * u128::from(count)) >> 64) as u64
            }
        };
        choices[choice as usize]
    }

    #[inline]
    pub(super) fn forward(&mut self, port: u32, index: u32) {
        if self.ports[port as usize].is_idle(self.now) {
            self.transmit(port, index);
        } else if let Some(index) = self.admit(port, index) {
            self.enqueue(port, index);
        }
    }

    #[inline]
    fn enqueue(&mut self, port: u32, index: u32) {
        let now = self.now;
        let state = &mut self.ports[port as usize];
        if let Some(mark_at) = self.setup.network.mark_at_bytes
            && state.class != PortClass::Nic
            && state.waiting_bytes >= u64::from(mark_at)
        {
            use cavy_core::family::packet::Header as _;
            let packet = self.packets.get_mut(index);
            if !packet.header().bears_marks() {
                // What cannot be told of congestion is dropped by it (RFC 3168).
                return self.lose(index, Loss::Full);
            }
            packet.mark();
            self.counts.marked += 1;
        }
        state.push(&mut self.packets, index, now);
        let waiting = state.waiting_bytes;
        if !state.armed {
            state.armed = true;
            let free_at = state.free_at(now);
            self.push(free_at, Class::Completion, port);
        }
        if is_shared(self.setup.network.buffer) {
            self.count_shared(port, i64::from(self.counted(index)));
        }
        let egress = &self.egress[port as usize];
        self.observer.queued(egress, self.packets.get(index), waiting, now);
    }

    /// Makes room for a packet, which may be dropped, or may come back trimmed, or may have another
    /// packet trimmed or dropped in its place.
    #[inline]
    fn admit(&mut self, port: u32, index: u32) -> Option<u32> {
        let network = &self.setup.network;
        let state = &self.ports[port as usize];
        if state.class == PortClass::Nic {
            return Some(index);
        }
        match network.order {
            Order::Trim { queue_bytes } => self.admit_or_trim(port, index, u64::from(queue_bytes)),
            Order::SmallestRank => {
                while !self.fits(port, index) {
                    let rank = self.packets.get(index).rank;
                    let now = self.now;
                    let state = &mut self.ports[port as usize];
                    let Some(victim) = state.evict_above(&self.packets, rank, now) else {
                        self.lose(index, Loss::Full);
                        return None;
                    };
                    self.uncount_shared(port, victim);
                    self.lose(victim, Loss::Full);
                }
                Some(index)
            }
            Order::Fifo | Order::Levels => {
                if self.fits(port, index) {
                    return Some(index);
                }
                self.lose(index, Loss::Full);
                None
            }
        }
    }

    /// Bytes of a packet, as buffers count them.
    #[inline]
    fn counted(&self, index: u32) -> u32 {
        self.packets.get(index).counted_bytes(self.setup.network.counting.silent_bytes)
    }

    #[inline]
    fn fits(&self, port: u32, index: u32) -> bool {
        let bytes = u64::from(self.counted(index));
        let state = &self.ports[port as usize];
        let mut waiting = state.waiting_bytes + bytes;
        let mut packets = state.waiting_packets + 1;
        if self.setup.network.counting.sending && state.busy_until > self.now {
            waiting += u64::from(state.serving_bytes);
            packets += 1;
        }
        match self.setup.network.buffer {
            Buffer::Unlimited => true,
            Buffer::PerPort { bytes: limit } => waiting <= limit,
            Buffer::PerPortPackets { packets: limit } => packets <= limit,
            Buffer::Shared { bytes: limit, alpha } => {
                let Place::Switch(switch) = self.egress[port as usize].from else { return true };
                let free = limit.saturating_sub(self.shared_bytes[switch as usize]);
                bytes <= free && waiting as f64 <= alpha * free as f64
            }
        }
    }

    fn admit_or_trim(&mut self, port: u32, index: u32, queue_bytes: u64) -> Option<u32> {
        let frame = u64::from(self.counted(index));
        let state = &mut self.ports[port as usize];
        if !self.packets.get(index).is_bare() {
            if state.data_bytes() + frame <= queue_bytes {
                return Some(index);
            }
            let Place::Switch(switch) = self.egress[port as usize].from else { return Some(index) };
            let newest = self.switch_rngs[switch as usize].below(2) == 0;
            let evicted = if newest { state.evict_newest(&self.packets, self.now) } else { None };
            if let Some(victim) = evicted {
                self.uncount_shared(port, victim);
            }
            let victim = evicted.unwrap_or(index);
            self.trim(port, victim);
            if victim != index {
                // The arriving packet takes the place of a newest one that may have been shorter.
                if let Some(victim) = self.admit_bare(port, victim, queue_bytes) {
                    self.enqueue(port, victim);
                }
                return self.admit_or_trim(port, index, queue_bytes);
            }
        }
        self.admit_bare(port, index, queue_bytes)
    }

    /// Drops a header that does not fit.
    fn admit_bare(&mut self, port: u32, index: u32, queue_bytes: u64) -> Option<u32> {
        let state = &self.ports[port as usize];
        let headers = state.waiting_bytes - state.data_bytes();
        if headers + u64::from(self.counted(index)) <= queue_bytes {
            return Some(index);
        }
        self.lose(index, Loss::Full);
        None
    }

    fn trim(&mut self, port: u32, index: u32) {
        use cavy_core::family::packet::Header as _;
        let header = self.packets.get(index).header().wire_bytes();
        let wire = self.framing.wire_bytes(header);
        self.packets.get_mut(index).trim(wire);
        self.counts.trimmed += 1;
        self.observer.trimmed(&self.egress[port as usize], self.packets.get(index), self.now);
    }

    fn uncount_shared(&mut self, port: u32, index: u32) {
        if is_shared(self.setup.network.buffer) {
            self.count_shared(port, -i64::from(self.counted(index)));
        }
    }

    fn count_shared(&mut self, port: u32, bytes: i64) {
        if let Place::Switch(switch) = self.egress[port as usize].from {
            let used = &mut self.shared_bytes[switch as usize];
            *used = used.wrapping_add_signed(bytes);
        }
    }

    /// Puts a packet on the wire of an idle port.
    #[inline]
    pub(super) fn transmit(&mut self, port: u32, index: u32) {
        let now = self.now;
        let state = &mut self.ports[port as usize];
        let left_at = state.begin(&self.packets, index, now);
        let mut arrives_at = state.arrival(left_at);
        if state.class == PortClass::Nic && !self.setup.network.sends.is_empty() {
            arrives_at = self.sent_at(port, arrives_at);
        }
        let state = &mut self.ports[port as usize];
        let packet = self.packets.get_mut(index);
        packet.arriving = state.to;
        self.counts.hops += 1;
        self.observer.began(&self.egress[port as usize], packet, now, left_at);
        if state.faulty {
            return self.transmit_by_fate(port, index, arrives_at);
        }
        self.push(arrives_at, Class::Arrival, self.first_packet + index);
    }

    /// When a packet of the host whose card `port` is arrives that would arrive at `arrives_at` if
    /// its thread took no time.
    fn sent_at(&mut self, port: u32, arrives_at: Ps) -> Ps {
        let network = &self.setup.network;
        let host = &mut self.hosts[port as usize];
        let look = if network.wakes.is_empty() { self.now } else { host.looks_at };
        if host.sending.1 != Some(look) {
            let drawn = host.thread_rng.below(network.sends.len() as u64) as usize;
            host.sending = (ps(network.sends[drawn]), Some(look));
        }
        host.sent_until = host.sent_until.max(arrives_at + host.sending.0);
        host.sent_until
    }

    fn transmit_by_fate(&mut self, port: u32, index: u32, arrives_at: Ps) {
        let mut arrives_at = arrives_at;
        match self.fate(port, index) {
            Fate::Pass => {}
            Fate::Lost => return self.lose(index, Loss::Fault),
            Fate::Late { by } => arrives_at += by,
            Fate::Held { by, alone } => {
                self.held_until.resize(self.ports.len(), 0);
                let held_until = &mut self.held_until[port as usize];
                arrives_at = (arrives_at + by).max(*held_until + 1);
                *held_until = arrives_at;
                arrives_at += alone;
            }
            Fate::Copied { after } => {
                let copy = *self.packets.get(index);
                let copy = self.packets.insert(copy);
                self.counts.sent += 1;
                self.push(arrives_at + after, Class::Arrival, self.first_packet + copy);
            }
        }
        self.push(arrives_at, Class::Arrival, self.first_packet + index);
    }

    /// The packet on the wire of `port` has left it.
    #[inline]
    pub(super) fn port_is_free(&mut self, port: u32) {
        let now = self.now;
        let state = &mut self.ports[port as usize];
        state.armed = false;
        if let Some(index) = state.pop(&mut self.packets, now) {
            if is_shared(self.setup.network.buffer) {
                self.uncount_shared(port, index);
            }
            self.transmit(port, index);
            let state = &mut self.ports[port as usize];
            if state.waiting_packets > 0 || state.class == PortClass::Nic {
                state.armed = true;
                let free_at = state.free_at(now);
                self.push(free_at, Class::Completion, port);
            }
        }
        if self.ports[port as usize].class == PortClass::Nic {
            let host = &mut self.hosts[port as usize];
            let was_full = host.at_card >= self.setup.network.hosts.nic_packets;
            host.at_card -= 1;
            if self.setup.network.wakes.is_empty() {
                self.pull(Node(port));
            } else if was_full {
                self.offer(Node(port));
            }
        }
    }

    pub(super) fn lose(&mut self, index: u32, why: Loss) {
        let packet = self.packets.get(index);
        match why {
            Loss::Full => self.counts.lost_full += 1,
            Loss::Fault => self.counts.lost_fault += 1,
            Loss::Down => self.counts.lost_down += 1,
        }
        let (to, payload) = (packet.to(), packet.payload());
        self.observer.lost(packet, why, self.now);
        self.fold(Mark::Lost, to, payload.message.0 ^ u64::from(payload.offset_bytes));
        self.packets.remove(index);
    }
}
