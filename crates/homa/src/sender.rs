//! What goes out: submitting, choosing the next packet, and being told to go on ([homa 2.4]).

use crate::config::ClassedBy;
use crate::exchange::{Outbound, Owner};
use crate::finished::Ending;
use crate::machine::{Homa, HomaCx, Pending, Resend, Why};
use crate::packet::{ALL_SENT, Data, Flags, Header, Kind, Refusal, name_difference};
use cavy_core::family::Node;
use cavy_core::family::packet::{Effect, Extent, Header as _, Message};
use cavy_core::{Packet, Room, Span};

impl Homa {
    pub(crate) fn on_submit(
        &mut self,
        to: Node,
        message: Message,
        length: u32,
        asks: bool,
        cx: &mut HomaCx<'_>,
    ) {
        let taken = self.exchanges.find(Owner::Me, message.0).is_some();
        let wrong = match self.wrong_length(length) {
            None if message.is_answer() || taken => Some(Why::Name),
            wrong => wrong,
        };
        let asks = asks && self.config.answers;
        let begun = match wrong {
            Some(why) => Err(why),
            None => self.begin(Owner::Me, message.0, to, asks, cx).ok_or(Why::NoRoom),
        };
        match begun {
            Err(why) => cx.emit(Effect::Failed { peer: to, message, why }),
            Ok(slot) => {
                self.own_names.0 = self.own_names.0.min(message.0);
                self.own_names.1 = self.own_names.1.max(message.0);
                let mut incast = false;
                if asks {
                    self.open_questions += 1;
                    incast = self.open_questions > self.incast_threshold;
                    self.counters.incast_marks += u64::from(incast);
                }
                self.begin_sending(slot, length, incast, self.config.unscheduled_bytes);
            }
        }
    }

    pub(crate) fn on_answer(
        &mut self,
        to: Node,
        question: Message,
        length: u32,
        cx: &mut HomaCx<'_>,
    ) {
        let slot = self.exchanges.find(Owner::Peer(to), question.0);
        let slot = slot.filter(|&slot| self.exchanges[slot].serving);
        let wrong = self.wrong_length(length);
        match (slot, wrong) {
            (Some(slot), None) => {
                let exchange = &mut self.exchanges[slot];
                exchange.serving = false;
                exchange.silent_ticks = 0;
                let unscheduled = match self.config.incast {
                    Some(incast) if exchange.incast => incast.marked_bytes,
                    _ => self.config.unscheduled_bytes,
                };
                self.begin_sending(slot, length, false, unscheduled);
                self.answer_bytes += u64::from(length);
                if self.keeps_answers() {
                    self.exchanges[slot].out.last_sent = cx.now();
                }
                self.watch(cx);
                self.pulse_watch(cx);
            }
            (found, wrong) => {
                let why = wrong.unwrap_or(Why::Name);
                cx.emit(Effect::Failed { peer: to, message: question.answer(), why });
                if let Some(slot) = found {
                    // Nothing will answer it any more, so it is over and is not carried out again.
                    if self.refuses() {
                        self.refuse(to, question.0, Refusal::by_length(length), cx);
                    } else {
                        self.remember(slot);
                    }
                    self.end(slot, cx);
                }
            }
        }
    }

    fn wrong_length(&self, length: u32) -> Option<Why> {
        if length == 0 && !self.config.empty_messages {
            Some(Why::Empty)
        } else if length > self.config.message_max_bytes {
            Some(Why::TooLong)
        } else {
            None
        }
    }

    pub(crate) fn begin_sending(&mut self, slot: u32, length: u32, incast: bool, limit: u32) {
        let exchange = &mut self.exchanges[slot];
        let peer = exchange.peer;
        exchange.out = Outbound {
            live: true,
            length,
            granted: limit.min(length),
            unscheduled: limit.min(length),
            empty_unsent: length == 0,
            unscheduled_priority: self.peers.level(peer, length, &self.config.cutoffs),
            cutoffs_version: self.peers.brief(peer).cutoffs_version,
            incast,
            ..Outbound::NONE
        };
        self.backlog_bytes += u64::from(exchange.out.granted);
        self.rank_outbound(slot);
    }

    /// Puts a message where it belongs in the order of those that may be sent.
    pub(crate) fn rank_outbound(&mut self, slot: u32) {
        let exchange = &self.exchanges[slot];
        if exchange.out.eligible() {
            let key = self.key(exchange.out.length - exchange.out.next, exchange, 0);
            self.eligible.set(&mut self.eligible_places, slot, key);
        } else {
            self.eligible.remove(&mut self.eligible_places, slot);
        }
    }

    /// The outbound message of `slot` is over.
    pub(crate) fn stop_sending(&mut self, slot: u32) {
        self.eligible.remove(&mut self.eligible_places, slot);
        let mine = self.exchanges[slot].mine();
        let out = &mut self.exchanges[slot].out;
        if out.live {
            self.answer_bytes -= if mine { 0 } else { u64::from(out.length) };
            self.backlog_bytes -= u64::from(out.granted - out.next);
            *out = Outbound::NONE;
        }
    }

    /// The next packet: control, then what must be sent again, then new data ([homa 2.4] rule 3).
    #[inline]
    pub(crate) fn next_packet(
        &mut self,
        room: Room,
        cx: &mut HomaCx<'_>,
    ) -> Option<Packet<Header>> {
        if let Some(packet) = self.next_control(cx) {
            return Some(self.paced(packet, cx));
        }
        if !self.resends.is_empty()
            && let Some(packet) = self.next_resend(room, cx)
        {
            return Some(self.paced(packet, cx));
        }
        let slot = self.pick(cx)?;
        let packet = self.next_data(slot, room, cx)?;
        Some(self.paced(packet, cx))
    }

    fn control_packet(&self, to: Node, name: Message, kind: Kind) -> Packet<Header> {
        Packet {
            to,
            header: Header { layout: self.config.layout, kind },
            payload: Extent { message: name, offset_bytes: 0, length_bytes: 0 },
            priority: self.top_level(),
            rank: 0,
        }
    }

    fn next_control(&mut self, cx: &mut HomaCx<'_>) -> Option<Packet<Header>> {
        loop {
            match self.control.pop_front()? {
                Pending::Packet { to, name, kind } => {
                    return Some(self.control_packet(to, name, kind));
                }
                Pending::Grant { slot, generation } => {
                    if self.exchanges.same(slot, generation).is_none_or(|e| !e.inb.live) {
                        continue;
                    }
                    let exchange = &mut self.exchanges[slot];
                    exchange.inb.grant_waits = false;
                    let kind = Kind::Grant {
                        offset_bytes: exchange.inb.granted,
                        priority: exchange.inb.priority,
                    };
                    let (to, name) = (exchange.node, exchange.own_name());
                    self.counters.grants_sent += 1;
                    if self.config.quick.is_some() {
                        self.pulse_granted(slot, cx.now());
                    }
                    return Some(self.control_packet(to, name, kind));
                }
            }
        }
    }

    fn next_resend(&mut self, room: Room, cx: &mut HomaCx<'_>) -> Option<Packet<Header>> {
        loop {
            let &Resend { slot, generation, start, end, priority } = self.resends.front()?;
            if self.exchanges.same(slot, generation).is_none_or(|e| e.out.resends == 0) {
                self.resends.pop_front();
                continue;
            }
            let out = &self.exchanges[slot].out;
            // A restart since then sends these bytes anyway.
            let end = end.min(out.next);
            let length = self.piece(slot, start, end).min(room.bytes);
            if start >= end && out.length > 0 {
                self.resends.pop_front();
                self.exchanges[slot].out.resends -= 1;
                continue;
            }
            if length == 0 && out.length > 0 {
                return None;
            }
            if start + length >= end {
                self.resends.pop_front();
                self.exchanges[slot].out.resends -= 1;
            } else if let Some(front) = self.resends.front_mut() {
                front.start = start + length;
            }
            let exchange = &mut self.exchanges[slot];
            exchange.out.last_sent = cx.now();
            self.counters.data_resent += 1;
            return Some(self.data_packet(slot, start, length, priority, Flags::RETRANSMIT));
        }
    }

    /// Length of the packet of `slot` that begins at `start`, if `end` is as far as it may go.
    /// Packets end where unscheduled bytes do ([homa 2.4] rule 7).
    #[inline]
    fn piece(&self, slot: u32, start: u32, end: u32) -> u32 {
        let unscheduled = self.exchanges[slot].out.unscheduled;
        if start < unscheduled {
            end.min(unscheduled).saturating_sub(start).min(self.config.unscheduled_packet_bytes)
        } else {
            end.saturating_sub(start).min(self.config.scheduled_packet_bytes)
        }
    }

    /// Which message sends next: the shortest, now and then the oldest; none while the interface is
    /// busy, unless it is short ([homa 2.4] rules 2, 4, 5 and 6).
    #[inline]
    fn pick(&mut self, cx: &mut HomaCx<'_>) -> Option<u32> {
        let (_, shortest) = self.eligible.peek()?;
        if let Some(pacing) = self.config.pacing
            && self.idle_at.since(cx.now()) >= pacing.backlog
            && self.idle_at > cx.now()
        {
            let out = &self.exchanges[shortest].out;
            return (out.length - out.next < pacing.bypass_bytes).then_some(shortest);
        }
        if self.config.oldest_pick > 0 && self.eligible.len() > 1 {
            self.picks += 1;
            if self.picks >= self.config.oldest_pick {
                self.picks = 0;
                let born = |&(_, slot): &(u128, u32)| self.exchanges[slot].born;
                return self.eligible.iter().min_by_key(born).map(|(_, slot)| slot);
            }
        }
        Some(shortest)
    }

    #[inline]
    fn next_data(&mut self, slot: u32, room: Room, cx: &mut HomaCx<'_>) -> Option<Packet<Header>> {
        let out = &self.exchanges[slot].out;
        let start = out.next;
        let length = self.piece(slot, start, out.granted).min(room.bytes);
        if length == 0 && !out.empty_unsent {
            return None;
        }
        let priority = if start >= out.unscheduled && out.length > 0 {
            out.scheduled_priority
        } else {
            match self.config.classed_by {
                ClassedBy::Length => out.unscheduled_priority,
                ClassedBy::Remaining => {
                    let peer = self.exchanges[slot].peer;
                    self.peers.level(peer, out.length - start, &self.config.cutoffs)
                }
            }
        };
        let again = start < out.resent_below;
        self.pulse_sent(slot, start, cx.now());
        let flags = Flags::default().and(Flags::RETRANSMIT, again);
        self.counters.data_sent += 1;
        self.counters.data_sent_bytes += u64::from(length);
        self.backlog_bytes -= u64::from(length);
        let exchange = &mut self.exchanges[slot];
        exchange.out.next = start + length;
        exchange.out.empty_unsent = false;
        exchange.out.last_sent = cx.now();
        let packet = self.data_packet(slot, start, length, priority, flags);
        self.rank_outbound(slot);
        if self.exchanges[slot].out.all_sent() {
            self.on_all_sent(slot, cx);
        }
        Some(packet)
    }

    #[inline]
    fn data_packet(
        &mut self,
        slot: u32,
        start: u32,
        length: u32,
        priority: u8,
        flags: Flags,
    ) -> Packet<Header> {
        let exchange = &self.exchanges[slot];
        let out = &exchange.out;
        let message = exchange.own_name();
        let mut ack = 0;
        if exchange.mine() && self.peers.brief(exchange.peer).acks_len > 0 {
            let owed = self.peers.brief(exchange.peer).acks_len;
            let oldest = self.peers[exchange.peer].acks[usize::from(owed) - 1];
            if let Some(difference) = name_difference(oldest, message.0) {
                ack = difference;
                self.peers.brief_mut(exchange.peer).acks_len -= 1;
            }
        }
        let backlog = 4 * self.backlog_bytes / u64::from(self.config.unscheduled_bytes);
        let data = Data {
            message_bytes: out.length,
            incoming_bytes: out.granted,
            ack,
            cutoffs_version: out.cutoffs_version,
            backlog: backlog.min(u8::MAX.into()) as u8,
            flags: flags
                .and(Flags::UNSCHEDULED, start < out.unscheduled || out.length == 0)
                .and(Flags::ASKS, exchange.asks && exchange.mine())
                .and(Flags::INCAST, out.incast),
        };
        Packet {
            to: exchange.node,
            header: Header { layout: self.config.layout, kind: Kind::Data(data) },
            payload: Extent { message, offset_bytes: start, length_bytes: length },
            priority,
            rank: out.length - start,
        }
    }

    /// Books `packet` on the estimate of the interface's queue ([homa 2.4] rule 4).
    #[inline]
    fn paced(&mut self, packet: Packet<Header>, cx: &mut HomaCx<'_>) -> Packet<Header> {
        let Some(pacing) = self.config.pacing else { return packet };
        let bytes = packet.header.wire_bytes() + packet.payload.length_bytes;
        let bytes = (bytes + self.config.overhead_bytes).max(self.config.frame_min_bytes);
        let rate = self.config.link_bits_per_s * u64::from(pacing.rate_per_cent) / 100;
        let time = Span::from_ns((u64::from(bytes) * 8_000_000_000).div_ceil(rate.max(1)));
        self.idle_at = self.idle_at.max(cx.now()) + time;
        let drained = self.idle_at.as_ns().saturating_sub(pacing.backlog.as_ns());
        // The first moment at which the queue is below its limit again.
        let free_at = cavy_core::Instant::from_ns(drained + 1);
        if free_at > cx.now() {
            cx.arm(crate::machine::Timer::Pace, free_at);
        }
        packet
    }

    /// A message has been sent to its end. What nobody will ask for again is forgotten.
    fn on_all_sent(&mut self, slot: u32, cx: &mut HomaCx<'_>) {
        self.pulse_watch(cx);
        let exchange = &self.exchanges[slot];
        let answer = !exchange.mine();
        let forget = if answer {
            self.config.forget_answers || self.config.recovery.is_none()
        } else {
            !exchange.asks && self.config.recovery.is_none()
        };
        if forget {
            let message = exchange.own_name();
            cx.emit(Effect::Released { peer: exchange.node, message });
            if answer {
                self.remember(slot);
            }
            self.end(slot, cx);
        }
    }

    /// [homa 2.4] rule 8: a grant that does not advance changes nothing, not even the level.
    pub(crate) fn on_grant(&mut self, from: Node, name: Message, offset: u32, priority: u8) {
        let Some(slot) = self.named(from, name) else {
            self.counters.stale += 1;
            return;
        };
        self.shown_by(slot);
        let exchange = &mut self.exchanges[slot];
        exchange.silent_ticks = 0;
        exchange.busies = 0;
        let out = &mut exchange.out;
        if !out.live {
            self.counters.stale += 1;
            return;
        }
        let offset = offset.min(out.length);
        if offset <= out.granted {
            self.counters.grants_stale += 1;
            return;
        }
        self.backlog_bytes += u64::from(offset - out.granted);
        out.granted = offset;
        out.scheduled_priority = priority.min(self.config.levels - 1);
        if self.config.quick.is_some() {
            exchange.pulse.set_known();
        }
        self.rank_outbound(slot);
    }

    /// [homa 2.11], RESEND received.
    pub(crate) fn on_resend(
        &mut self,
        from: Node,
        name: Message,
        offset: u32,
        length: u32,
        priority: u8,
        cx: &mut HomaCx<'_>,
    ) {
        self.counters.resends_received += 1;
        let Some(slot) = self.named(from, name) else {
            match self.finished.get(from, name.0) {
                // The first time it was lost.
                Some(Ending::Refused(refusal)) => self.send_refusal(from, name.0, refusal),
                _ => self.send_unknown(from, name),
            }
            return;
        };
        let exchange = &mut self.exchanges[slot];
        let out = &mut exchange.out;
        if !out.live {
            // The answer does not exist yet, or the question has not arrived. For the question's
            // sake this counts as silence: two who only complain would wait for each other for
            // ever.
            self.send_busy(slot);
            return;
        }
        exchange.silent_ticks = 0;
        if self.config.quick.is_some() {
            exchange.pulse.set_known();
        }
        self.shown_by(slot);
        let out = &mut self.exchanges[slot].out;
        let everything = length == ALL_SENT;
        let asked_end = if everything { out.next } else { offset.saturating_add(length) };
        if asked_end > out.length || offset > out.length {
            self.counters.malformed += 1;
        }
        let asked_end = asked_end.min(out.length);
        if asked_end > out.granted {
            // The GRANT for these bytes was lost.
            self.backlog_bytes += u64::from(asked_end - out.granted);
            out.granted = asked_end;
            self.rank_outbound(slot);
        }
        let out = &self.exchanges[slot].out;
        let guard = self.config.recovery.map_or(Span::ZERO, |r| r.resend_guard);
        let recent = match self.config.quick {
            // What left just now is taken out below.
            Some(_) => false,
            None => !guard.is_zero() && cx.now() < out.last_sent + guard,
        };
        let end = asked_end.min(self.settled_end(out, cx.now()));
        let empty_again = out.length == 0 && !out.empty_unsent;
        let nothing = offset >= end && !empty_again;
        if recent || nothing {
            self.send_busy(slot);
            return;
        }
        if asked_end > end {
            self.send_busy(slot);
        }
        let priority = priority.min(self.config.levels - 1);
        self.queue_resend(slot, offset, end, priority);
    }

    fn queue_resend(&mut self, slot: u32, start: u32, end: u32, priority: u8) {
        let generation = self.exchanges[slot].generation;
        let full = self.resends.len() >= self.config.limits.waiting as usize;
        let mut start = start;
        if self.exchanges[slot].out.resends > 0 {
            // Never more than once in the queue, whatever the peer asks for.
            let queued =
                self.resends.iter().filter(|r| r.slot == slot && r.generation == generation);
            for other in queued {
                if other.start <= start && other.end > start {
                    start = other.end;
                }
            }
        }
        let out = &mut self.exchanges[slot].out;
        if start >= end && out.length > 0 {
            return;
        }
        if full {
            self.counters.dropped_control += 1;
            return;
        }
        out.resends += 1;
        self.resends.push_back(Resend { slot, generation, start, end, priority });
    }
}
