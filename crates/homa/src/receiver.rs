//! What comes in: DATA ([homa 2.5]).

use crate::exchange::{Inbound, Owner};
use crate::finished::Ending;
use crate::gaps::Received;
use crate::machine::{Homa, HomaCx};
use crate::packet::{Acks, Data, Flags, Kind, Refusal, name_difference};
use crate::peers::ACKS;
use cavy_core::family::Node;
use cavy_core::family::packet::{Effect, Extent, Message};

impl Homa {
    #[inline]
    pub(crate) fn on_data(&mut self, from: Node, data: &Data, extent: Extent, cx: &mut HomaCx<'_>) {
        self.counters.data_received += 1;
        if self.nonsense(data, extent) {
            self.counters.malformed += 1;
            return;
        }
        if data.ack != 0 && !extent.message.is_answer() {
            self.acknowledged(from, extent.message.0.wrapping_add_signed(data.ack.into()), cx);
        }
        let Some(slot) = self.receiving(from, data, extent, cx) else { return };
        let peer = self.exchanges[slot].peer;
        if data.cutoffs_version != self.own_version {
            self.tell_cutoffs(peer, self.exchanges[slot].own_name(), cx.now());
        }
        self.receive(slot, data, extent, cx);
    }

    fn nonsense(&self, data: &Data, extent: Extent) -> bool {
        let end = extent.offset_bytes.checked_add(extent.length_bytes);
        let empty = data.message_bytes == 0 && extent.offset_bytes == 0;
        data.message_bytes > self.config.message_max_bytes
            || end.is_none_or(|end| end > data.message_bytes)
            || (extent.length_bytes == 0 && !(empty && self.config.empty_messages))
    }

    /// The exchange whose message `extent` is of, begun if this is the first packet of it; `None`
    /// when the packet is of no use.
    #[inline]
    fn receiving(
        &mut self,
        from: Node,
        data: &Data,
        extent: Extent,
        cx: &mut HomaCx<'_>,
    ) -> Option<u32> {
        let name = extent.message;
        let slot = match self.named(from, name) {
            Some(slot) => slot,
            None if name.is_answer() => {
                // Cancelled, or over: the server need not go on.
                self.counters.stale += 1;
                if let Some(peer) = self.peers.find(from).filter(|_| self.config.quick.is_some()) {
                    self.pulse_needless(peer);
                }
                // Of what was never asked here, the module says nothing either: somebody else at
                // this address may have asked.
                let (first, last) = self.own_names;
                if self.config.recovery.is_some() && (first..=last).contains(&name.question().0) {
                    self.send_unknown(from, name);
                }
                return None;
            }
            None => self.begin_receiving(from, data, extent, cx)?,
        };
        let exchange = &self.exchanges[slot];
        if exchange.inb.live {
            if exchange.inb.length != data.message_bytes {
                self.counters.malformed += 1;
                return None;
            }
            return Some(slot);
        }
        if !exchange.mine() {
            // The question is here in full.
            self.exchanges[slot].silent_ticks = 0;
            self.count_duplicate(data);
            return None;
        }
        if !exchange.asks || !exchange.out.live {
            self.counters.malformed += 1;
            return None;
        }
        // The answer's first packet: nobody needs the question any more.
        self.pulse_answered(slot, cx.now());
        self.stop_question(slot);
        self.open_inbound(slot, data, extent);
        Some(slot)
    }

    fn begin_receiving(
        &mut self,
        from: Node,
        data: &Data,
        extent: Extent,
        cx: &mut HomaCx<'_>,
    ) -> Option<u32> {
        let id = extent.message.0;
        if let Some(ending) = self.finished.get(from, id) {
            self.counters.stale += 1;
            self.count_duplicate(data);
            if ending == Ending::OneWay {
                self.send_ack(from, id | 1, Acks::default());
            }
            return None;
        }
        let asks = data.flags.has(Flags::ASKS) && self.config.answers;
        let Some(slot) = self.begin(Owner::Peer(from), id, from, asks, cx) else {
            self.counters.dropped_no_room += 1;
            if asks && self.refuses() {
                self.refuse(from, id, Refusal::Overloaded, cx);
            }
            return None;
        };
        self.exchanges[slot].incast = data.flags.has(Flags::INCAST);
        self.open_inbound(slot, data, extent);
        self.admit_stranger(slot, cx);
        Some(slot)
    }

    /// The question need not be sent again, but its bytes are kept for a restart.
    fn stop_question(&mut self, slot: u32) {
        self.eligible.remove(&mut self.eligible_places, slot);
        let out = &mut self.exchanges[slot].out;
        self.backlog_bytes -= u64::from(out.granted - out.next);
        out.granted = out.length;
        out.next = out.length;
        out.empty_unsent = false;
        out.resends = 0;
    }

    fn open_inbound(&mut self, slot: u32, data: &Data, extent: Extent) {
        let wanted = self.buffered_bytes.saturating_add(data.message_bytes.into());
        let no_buffer = wanted > self.config.limits.buffer_bytes;
        if no_buffer {
            self.bufferless += 1;
        } else {
            self.buffered_bytes = wanted;
        }
        let end = extent.offset_bytes + extent.length_bytes;
        let granted = data.incoming_bytes.max(end).min(data.message_bytes);
        self.incoming_bytes += u64::from(granted);
        self.exchanges[slot].inb = Inbound {
            live: true,
            length: data.message_bytes,
            unscheduled: granted,
            granted,
            no_buffer,
            ..Inbound::NONE
        };
    }

    fn count_duplicate(&mut self, data: &Data) {
        self.counters.duplicates += 1;
        self.counters.spurious_resends += u64::from(data.flags.has(Flags::RETRANSMIT));
    }

    #[inline]
    fn receive(&mut self, slot: u32, data: &Data, extent: Extent, cx: &mut HomaCx<'_>) {
        let exchange = &mut self.exchanges[slot];
        exchange.silent_ticks = 0;
        exchange.busies = 0;
        let (from, message) = (exchange.node, exchange.peer_name());
        let inb = &mut exchange.inb;
        if inb.no_buffer {
            self.counters.dropped_no_buffer += 1;
            return;
        }
        let start = extent.offset_bytes;
        let end = start + extent.length_bytes;
        let place = |offset_bytes, length_bytes| {
            let extent = Extent { message, offset_bytes, length_bytes };
            cx.emit(Effect::Place { from, extent });
        };
        let gaps_max = self.config.limits.gaps;
        let Some(new) = self.gaps.add(&mut inb.received, start, end, gaps_max, place) else {
            self.counters.dropped_no_room += 1;
            return;
        };
        // What the sender announces, it may send; so it is on its way.
        let granted = inb.granted.max(end).max(data.incoming_bytes.min(inb.length));
        self.incoming_bytes += u64::from(granted - inb.granted);
        self.incoming_bytes -= u64::from(new);
        inb.granted = granted;
        let whole = inb.received.bytes == inb.length;
        if new == 0 && !whole {
            self.count_duplicate(data);
        }
        self.note_arrival(extent, cx);
        if self.config.quick.is_some() {
            self.pulse_data(slot, data, extent, new, cx);
        }
        self.note_backlog(slot, data.backlog);
        if whole {
            self.deliver(slot, cx);
            self.grant_after_arrival(None, cx);
        } else {
            self.grant_after_arrival(Some(slot), cx);
        }
    }

    /// All bytes of a message are there ([homa 2.5]): exactly here it is delivered.
    fn deliver(&mut self, slot: u32, cx: &mut HomaCx<'_>) {
        let exchange = &self.exchanges[slot];
        let (from, message) = (exchange.node, exchange.peer_name());
        let length_bytes = exchange.inb.length;
        self.counters.delivered += 1;
        self.counters.delivered_bytes += u64::from(length_bytes);
        self.learn(length_bytes, cx.now());
        cx.emit(Effect::Delivered { from, message, length_bytes });
        self.stop_receiving(slot, cx);
        let exchange = &mut self.exchanges[slot];
        if exchange.mine() {
            let (id, peer) = (exchange.id, exchange.peer);
            cx.emit(Effect::Released { peer: from, message: Message(id) });
            self.end(slot, cx);
            self.raise_incast_threshold();
            if self.config.recovery.is_some() && !self.config.forget_answers {
                self.owe_ack(peer, id);
            }
        } else if exchange.asks {
            exchange.serving = true;
        } else {
            if self.config.recovery.is_some() {
                let id = exchange.id;
                self.send_ack(from, id | 1, Acks::default());
            }
            self.remember(slot);
            self.end(slot, cx);
        }
    }

    /// Keeps an acknowledgement for the next packet to `peer`; five wait, the sixth forces a packet
    /// ([homa 2.12]).
    fn owe_ack(&mut self, peer: u32, id: u64) {
        let owed = usize::from(self.peers.brief(peer).acks_len);
        let state = &mut self.peers[peer];
        if owed < ACKS {
            state.acks[owed] = id;
            self.peers.brief_mut(peer).acks_len += 1;
            return;
        }
        let node = state.node;
        self.peers.brief_mut(peer).acks_len = 0;
        let state = &self.peers[peer];
        let owed = &state.acks[..owed].iter().copied().collect::<OwedList>();
        self.send_owed(node, owed);
        self.owe_ack(peer, id);
    }

    /// Sends ACKs for all of `owed`, up to five in one packet.
    pub(crate) fn send_owed(&mut self, to: Node, owed: &OwedList) {
        let mut rest = owed.names();
        while let Some((&first, others)) = rest.split_first() {
            let mut acks = Acks::default();
            let mut taken = 0;
            for (place, &other) in acks.0.iter_mut().zip(others) {
                let Some(difference) = name_difference(other, first) else { break };
                *place = difference;
                taken += 1;
            }
            self.send_ack(to, first, acks);
            rest = &others[taken..];
        }
    }

    pub(crate) fn send_ack(&mut self, to: Node, name: u64, acks: Acks) {
        self.counters.acks_sent += 1;
        self.send(to, Message(name), Kind::Ack(acks));
    }

    /// The inbound message of `slot` is over: its gaps, its grants and its buffer are free.
    pub(crate) fn stop_receiving(&mut self, slot: u32, cx: &mut HomaCx<'_>) {
        if !self.exchanges[slot].inb.live {
            return;
        }
        self.withdraw(slot);
        let inb = &mut self.exchanges[slot].inb;
        self.incoming_bytes -= u64::from(inb.outstanding());
        self.gaps.clear(&mut inb.received);
        let freed = !inb.no_buffer;
        if freed {
            self.buffered_bytes -= u64::from(inb.length);
        } else {
            self.bufferless -= 1;
        }
        *inb = Inbound::NONE;
        self.backfill();
        if freed && self.bufferless > 0 {
            self.wake_bufferless(cx);
        }
    }

    /// Gives freed buffers to the shortest messages that wait for one. Their bytes were dropped, so
    /// what they may send, at the least the unscheduled bytes, is asked for at once ([homa 2.11]).
    fn wake_bufferless(&mut self, _: &mut HomaCx<'_>) {
        loop {
            let waiting = self.exchanges.iter().filter(|(_, e)| e.inb.live && e.inb.no_buffer);
            let shortest = waiting.min_by_key(|(_, e)| (e.inb.length, e.born));
            let Some((slot, exchange)) = shortest else { return };
            let length = exchange.inb.length;
            let wanted = self.buffered_bytes.saturating_add(length.into());
            if wanted > self.config.limits.buffer_bytes {
                return;
            }
            self.buffered_bytes = wanted;
            self.bufferless -= 1;
            let unscheduled = self.config.unscheduled_bytes.min(length);
            let inb = &mut self.exchanges[slot].inb;
            inb.no_buffer = false;
            inb.received = Received::NOTHING;
            let granted = inb.granted.max(unscheduled);
            self.incoming_bytes += u64::from(granted - inb.granted);
            inb.granted = granted;
            self.send_resends(slot, granted);
            self.offer(slot);
        }
    }
}

/// A few names on the stack.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OwedList {
    names: [u64; ACKS],
    len: usize,
}

impl OwedList {
    pub(crate) fn names(&self) -> &[u64] {
        &self.names[..self.len]
    }
}

impl FromIterator<u64> for OwedList {
    fn from_iter<I: IntoIterator<Item = u64>>(names: I) -> Self {
        let mut list = OwedList::default();
        for (place, name) in list.names.iter_mut().zip(names) {
            *place = name;
            list.len += 1;
        }
        list
    }
}
