//! Losses and endings: silence, RESEND, BUSY, UNKNOWN, acknowledgements, giving up ([homa 2.11],
//! [homa 2.12]).
//!
//! Ticks are counted as they are handled, not by the clock: after a stall of the host every
//! exchange is one tick older, not two hundred ([homa 2.14] case 14).

use crate::config::Recovery;
use crate::exchange::{Exchange, Owner};
use crate::finished::Ending;
use crate::machine::{ABORTS_MAX, Homa, HomaCx, Timer, Why};
use crate::packet::{ALL_SENT, Acks, Kind, Refusal};
use crate::receiver::OwedList;
use cavy_core::Instant;
use cavy_core::family::Node;
use cavy_core::family::packet::{Effect, Message};

/// Whom an exchange waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waits {
    /// For nobody, or for this host itself.
    No,
    /// For bytes that the peer may send.
    Data,
    /// For the first byte of an answer.
    Answer,
    /// For a grant.
    Grant,
    /// For an acknowledgement.
    Ack,
}

impl Exchange {
    /// Whom it waits for: the conditions under which silence is not counted ([homa 2.11]).
    pub(crate) fn waits(&self) -> Waits {
        if self.inb.live {
            let granted_all_here = self.inb.received.bytes == self.inb.granted;
            return if self.inb.no_buffer || granted_all_here { Waits::No } else { Waits::Data };
        }
        if self.serving || !self.out.live || self.out.eligible() || self.out.resends > 0 {
            return Waits::No;
        }
        match (self.mine() && self.asks, self.out.all_sent()) {
            (true, _) => Waits::Answer,
            (false, false) => Waits::Grant,
            (false, true) => Waits::Ack,
        }
    }
}

impl Recovery {
    /// Do waits for the next complaint grow?
    fn waits_grow(&self) -> bool {
        self.resend_wait_max_ticks > self.resend_interval_ticks
    }

    /// Is a complaint due after `silent` ticks, to a peer that said BUSY `busies` times and nothing
    /// else?
    fn complains(&self, silent: u32, busies: u32) -> bool {
        let grown = |ticks: u32| {
            let most = u64::from(self.resend_wait_max_ticks.max(ticks));
            (u64::from(ticks) << busies.min(31)).min(most)
        };
        let Some(late) = u64::from(silent).checked_sub(grown(self.resend_ticks)) else {
            return false;
        };
        let longest = u64::from(self.resend_wait_max_ticks.max(self.resend_interval_ticks));
        is_turn(late, grown(self.resend_interval_ticks), longest)
    }

    /// Is an acknowledgement to be asked for, so many ticks after the answer was sent?
    fn asks_for_ack(&self, sent: u32) -> bool {
        let longest = u64::from(self.ack_wait_max_ticks);
        let late = u64::from(sent).checked_sub(u64::from(self.ack_ticks));
        late.is_some_and(|late| is_turn(late, u64::from(self.ack_ticks).min(longest), longest))
    }
}

/// Is something to be done in the tick `late`, if it was done in tick 0, again after `wait`, and
/// then after waits that double up to `longest`?
fn is_turn(late: u64, mut wait: u64, longest: u64) -> bool {
    let mut due = 0;
    while due < late && wait < longest {
        due += wait;
        wait = (2 * wait).min(longest);
    }
    late >= due && (late - due).is_multiple_of(wait)
}

impl Homa {
    /// Makes sure that somebody looks for silence while there is anything to watch.
    pub(crate) fn watch(&mut self, cx: &mut HomaCx<'_>) {
        if let Some(recovery) = self.config.recovery
            && !self.tick_armed
        {
            self.tick_armed = true;
            cx.arm(Timer::Tick, cx.now() + recovery.tick);
        }
    }

    pub(crate) fn on_tick(&mut self, cx: &mut HomaCx<'_>) {
        let Some(recovery) = self.config.recovery else { return };
        self.tick_armed = false;
        self.ticks += 1;
        self.finished.expire(self.ticks.saturating_sub(recovery.remember_ticks.into()));
        let mut aborts = 0;
        let mut watched = false;
        for slot in 0..self.exchanges.slots() {
            if self.exchanges[slot].live {
                // While the application makes an answer there is nothing to watch.
                watched |= !self.exchanges[slot].serving;
                self.age(slot, &mut aborts, cx);
            }
        }
        if watched || self.finished.len() > 0 {
            self.watch(cx);
        }
    }

    /// Are answers kept by the clients' signs of life?
    #[inline]
    pub(crate) fn keeps_answers(&self) -> bool {
        self.config.recovery.is_some_and(|recovery| {
            !recovery.answer_kept.is_zero() || !recovery.stranger_kept.is_zero()
        })
    }

    /// A peer receives what is sent to it.
    pub(crate) fn shown(&mut self, peer: u32) {
        self.peers.brief_mut(peer).shown |= self.config.limits.strangers < u32::MAX;
    }

    /// The client of this exchange has spoken of the answer that it was given.
    pub(crate) fn shown_by(&mut self, slot: u32) {
        let exchange = &self.exchanges[slot];
        if !exchange.mine() && exchange.out.live {
            self.shown(exchange.peer);
        }
    }

    /// Is this an exchange that may be ended for others' sake: of a peer that has not shown that it
    /// receives, and not with the application?
    fn is_stranger(&self, slot: u32) -> bool {
        let exchange = &self.exchanges[slot];
        let bounded = self.config.limits.strangers < u32::MAX;
        bounded && !exchange.mine() && !exchange.serving && !self.peers.brief(exchange.peer).shown
    }

    /// Notes an exchange that a peer has begun. When those of strangers are too many, the oldest
    /// ends.
    pub(crate) fn admit_stranger(&mut self, slot: u32, cx: &mut HomaCx<'_>) {
        let most = self.config.limits.strangers;
        if most == u32::MAX || self.peers.brief(self.exchanges[slot].peer).shown {
            return;
        }
        while self.strangers.len() >= most as usize {
            let Some((oldest, generation)) = self.strangers.pop_front() else { break };
            let same = self.exchanges.same(oldest, generation).is_some();
            if same && self.is_stranger(oldest) {
                self.counters.strangers_ended += 1;
                self.abort(oldest, Why::Forgotten, cx);
            }
        }
        self.strangers.push_back((slot, self.exchanges[slot].generation));
    }

    /// When the peer of this exchange was last heard of, or was sent a part of it.
    fn last_sign(&self, slot: u32) -> Instant {
        let exchange = &self.exchanges[slot];
        self.peers[exchange.peer].heard_at.max(exchange.out.last_sent)
    }

    /// Is this an answer that is kept, however many ticks its client has been silent?
    fn is_kept(&self, slot: u32, now: Instant) -> bool {
        let exchange = &self.exchanges[slot];
        let Some(recovery) = self.config.recovery else { return false };
        if exchange.mine() || !exchange.out.live || recovery.answer_kept.is_zero() {
            return false;
        }
        let limits = &self.config.limits;
        let full = self.exchanges.count() as u64 * 4 >= u64::from(limits.exchanges) * 3;
        let short = full || self.answer_bytes >= limits.answer_bytes;
        !short && now < self.last_sign(slot) + recovery.answer_kept
    }

    fn age(&mut self, slot: u32, aborts: &mut u32, cx: &mut HomaCx<'_>) {
        let Some(recovery) = self.config.recovery else { return };
        if !recovery.stranger_kept.is_zero()
            && self.is_stranger(slot)
            && *aborts < ABORTS_MAX
            && cx.now() >= self.last_sign(slot) + recovery.stranger_kept
        {
            *aborts += 1;
            self.counters.strangers_ended += 1;
            self.abort(slot, Why::Timeout, cx);
            return;
        }
        let exchange = &mut self.exchanges[slot];
        let waits = exchange.waits();
        if waits == Waits::No {
            // Saying again what a peer does not know is no sign of life of his.
            let repeats = exchange.out.live && exchange.out.next < exchange.out.resent_below;
            if !(repeats && recovery.waits_grow()) {
                exchange.silent_ticks = 0;
            }
            self.grant_idle(slot);
            return;
        }
        exchange.silent_ticks = exchange.silent_ticks.saturating_add(1);
        let silent = exchange.silent_ticks;
        if silent >= recovery.timeout_ticks && !self.is_kept(slot, cx.now()) {
            if *aborts < ABORTS_MAX {
                *aborts += 1;
                self.counters.timeouts += 1;
                self.abort(slot, Why::Timeout, cx);
            }
            return;
        }
        let complain = recovery.complains(silent, self.exchanges[slot].busies);
        // Quick repair has tried already, unless it saw that all may still be in the downlink's
        // queue.
        let complain = complain
            && (silent >= 4 * recovery.resend_ticks || !self.may_be_queued(slot, cx.now()));
        let exchange = &mut self.exchanges[slot];
        match waits {
            Waits::Ack => {
                let out = &mut exchange.out;
                out.sent_ticks = out.sent_ticks.saturating_add(1);
                if recovery.asks_for_ack(out.sent_ticks) {
                    self.send_need_ack(slot);
                }
            }
            // Whoever waits for an answer asks for it, so its sender only makes sure, now and then,
            // that somebody does.
            Waits::Grant if exchange.asks => {
                let rarely = (recovery.timeout_ticks / 2).max(1);
                silent.is_multiple_of(rarely).then(|| self.send_need_ack(slot));
            }
            // The receiver says that it has us on its list, or what it misses.
            Waits::Grant if complain => self.send_need_ack(slot),
            Waits::Answer if complain => self.send_resend(slot, 0, ALL_SENT),
            Waits::Data if complain => {
                let granted = exchange.inb.granted;
                self.send_resends(slot, granted);
            }
            _ => {}
        }
    }

    /// Ends an exchange that will not come to its end, and says so.
    pub(crate) fn abort(&mut self, slot: u32, why: Why, cx: &mut HomaCx<'_>) {
        let exchange = &self.exchanges[slot];
        let peer = exchange.node;
        let (own, arriving) = (exchange.own_name(), exchange.inb.live);
        if exchange.mine() {
            cx.emit(Effect::Failed { peer, message: own, why });
            cx.emit(Effect::Released { peer, message: own });
        } else if exchange.out.live {
            let why = if exchange.out.all_sent() { Why::Unacknowledged } else { why };
            cx.emit(Effect::Failed { peer, message: own, why });
            cx.emit(Effect::Released { peer, message: own });
            self.remember(slot);
        } else if arriving {
            cx.emit(Effect::Failed { peer, message: exchange.peer_name(), why });
        }
        self.end(slot, cx);
    }

    pub(crate) fn on_cancel(&mut self, message: Message, cx: &mut HomaCx<'_>) {
        // Only whoever named an exchange can take it back.
        let found = self.exchanges.find(Owner::Me, message.0);
        if let Some(slot) = found.filter(|_| !message.is_answer()) {
            cx.emit(Effect::Released { peer: self.exchanges[slot].node, message });
            self.end(slot, cx);
        }
    }

    /// Keeps the name of an exchange that is over, so that it is not carried out again.
    pub(crate) fn remember(&mut self, slot: u32) {
        if self.config.recovery.is_none_or(|recovery| recovery.remember_ticks == 0) {
            return;
        }
        let exchange = &self.exchanges[slot];
        let (owner, id) = (exchange.owner, exchange.id);
        let ending = if exchange.asks { Ending::Answered } else { Ending::OneWay };
        self.finished.add(owner, id, ending, self.ticks, self.config.limits.remembered);
    }

    /// Does this machine say that it refuses? Only if it also remembers: a question that was
    /// refused and is then carried out would be the worst of both.
    pub(crate) fn refuses(&self) -> bool {
        let remembers = self.config.recovery.is_some_and(|recovery| recovery.remember_ticks > 0);
        self.config.refusals && remembers && self.config.limits.remembered > 0
    }

    /// Tells whoever asked `id` that it will not be answered, and remembers that.
    pub(crate) fn refuse(&mut self, to: Node, id: u64, refusal: Refusal, cx: &mut HomaCx<'_>) {
        let most = self.config.limits.remembered;
        self.finished.add(Owner::Peer(to), id, Ending::Refused(refusal), self.ticks, most);
        self.send_refusal(to, id, refusal);
        self.watch(cx);
    }

    pub(crate) fn send_refusal(&mut self, to: Node, id: u64, refusal: Refusal) {
        self.counters.refusals_sent += 1;
        self.send(to, Message(id).answer(), Kind::Refused(refusal));
    }

    /// The peer will not answer.
    pub(crate) fn on_refused(
        &mut self,
        from: Node,
        name: Message,
        refusal: Refusal,
        cx: &mut HomaCx<'_>,
    ) {
        if !self.config.refusals {
            self.on_unknown(from, name, cx);
            return;
        }
        let asked = self.named(from, name).filter(|&slot| {
            let exchange = &self.exchanges[slot];
            // Who has begun to answer does not refuse.
            exchange.mine() && exchange.asks && !exchange.inb.live
        });
        let Some(slot) = asked else {
            self.counters.stale += 1;
            return;
        };
        self.counters.refusals_received += 1;
        let why = match refusal {
            Refusal::Overloaded => Why::Overloaded,
            Refusal::Unanswered => Why::Unanswered,
        };
        self.abort(slot, why, cx);
    }

    pub(crate) fn on_busy(&mut self, from: Node, name: Message, now: Instant) {
        match self.named(from, name) {
            Some(slot) => {
                let exchange = &mut self.exchanges[slot];
                exchange.silent_ticks = 0;
                exchange.busies = exchange.busies.saturating_add(1);
                self.pulse_busy(slot, now);
            }
            None => self.counters.stale += 1,
        }
    }

    /// [homa 2.11], UNKNOWN received. Silence is not reset: a peer that knows nothing time and
    /// again is no better than one that says nothing.
    pub(crate) fn on_unknown(&mut self, from: Node, name: Message, cx: &mut HomaCx<'_>) {
        self.counters.unknown_received += 1;
        let Some(slot) = self.named(from, name) else {
            self.counters.stale += 1;
            return;
        };
        let exchange = &self.exchanges[slot];
        if exchange.mine() {
            let always = self.config.recovery.is_some_and(|r| r.restart_always);
            if exchange.inb.live && !always {
                // Sent before the answer began; it has begun, so somebody knows.
                self.counters.stale += 1;
            } else {
                self.restart(slot, cx);
            }
        } else if exchange.out.live && exchange.out.all_sent() {
            // Whoever asked has no use for the answer, most likely because it has it.
            let message = exchange.own_name();
            cx.emit(Effect::Released { peer: from, message });
            self.remember(slot);
            self.end(slot, cx);
        } else if !exchange.serving {
            self.abort(slot, Why::Forgotten, cx);
        }
    }

    /// Sends a message again from its start, because the peer knows nothing of it.
    ///
    /// Deviation: the source sends again all that was sent before, at once. A peer without state
    /// has granted nothing, so this begins as any message does: with the unscheduled bytes.
    fn restart(&mut self, slot: u32, cx: &mut HomaCx<'_>) {
        if !self.exchanges[slot].out.live {
            return;
        }
        self.counters.restarts += 1;
        self.stop_receiving(slot, cx);
        let exchange = &mut self.exchanges[slot];
        let out = &mut exchange.out;
        self.backlog_bytes -= u64::from(out.granted - out.next);
        out.resent_below = out.resent_below.max(out.next);
        out.next = 0;
        out.granted = out.unscheduled;
        out.empty_unsent = out.length == 0;
        out.sent_ticks = 0;
        out.resends = 0;
        exchange.generation = exchange.generation.wrapping_add(1);
        self.backlog_bytes += u64::from(exchange.out.granted);
        self.rank_outbound(slot);
    }

    /// [homa 2.12]: the sender of a message wants to know whether all of it is here.
    pub(crate) fn on_need_ack(&mut self, from: Node, name: Message) {
        let Some(slot) = self.named(from, name) else {
            if name.is_answer() {
                self.ack_with_others(from, name.question().0);
            } else if self.finished.get(from, name.0) == Some(Ending::OneWay) {
                self.send_ack(from, name.answer().0, Acks::default());
            } else {
                self.send_unknown(from, name);
            }
            return;
        };
        self.exchanges[slot].silent_ticks = 0;
        let exchange = &self.exchanges[slot];
        let inb = &exchange.inb;
        if inb.live {
            let granted = inb.granted;
            if inb.no_buffer || inb.received.bytes == granted {
                self.send_busy(slot);
            } else {
                self.send_resends(slot, granted);
            }
        } else if exchange.mine() && exchange.asks {
            self.send_resend(slot, 0, ALL_SENT);
        } else {
            self.counters.malformed += 1;
        }
    }

    /// Acknowledges `id` and what else waits to be acknowledged to this peer.
    fn ack_with_others(&mut self, to: Node, id: u64) {
        let mut names = OwedList::default();
        if let Some(peer) = self.peers.find(to) {
            let owed = core::mem::replace(&mut self.peers.brief_mut(peer).acks_len, 0);
            let others = self.peers[peer].acks[..usize::from(owed)]
                .iter()
                .copied()
                .filter(|&other| other != id);
            names = core::iter::once(id).chain(others).collect();
        }
        if names.names().is_empty() {
            names = core::iter::once(id).collect();
        }
        self.send_owed(to, &names);
    }

    pub(crate) fn on_ack(&mut self, from: Node, name: Message, acks: Acks, cx: &mut HomaCx<'_>) {
        if name.is_answer() {
            // A message without answer has arrived.
            let slot = self.named(from, name);
            match slot.filter(|&slot| !self.exchanges[slot].asks) {
                Some(slot) => {
                    self.pulse_answered(slot, cx.now());
                    cx.emit(Effect::Released { peer: from, message: name.question() });
                    self.end(slot, cx);
                }
                None => self.counters.stale += 1,
            }
            return;
        }
        self.acknowledged(from, name.0, cx);
        for difference in acks.0 {
            if difference != 0 {
                self.acknowledged(from, name.0.wrapping_add_signed(difference.into()), cx);
            }
        }
    }

    /// The peer has the whole answer to its question `id`.
    pub(crate) fn acknowledged(&mut self, from: Node, id: u64, cx: &mut HomaCx<'_>) {
        let found = self.exchanges.find(Owner::Peer(from), id);
        let Some(slot) = found.filter(|&slot| self.exchanges[slot].out.live) else {
            self.counters.stale += 1;
            return;
        };
        self.shown_by(slot);
        let message = self.exchanges[slot].own_name();
        cx.emit(Effect::Released { peer: from, message });
        self.remember(slot);
        self.end(slot, cx);
    }

    /// Asks for all that is missing below `end`.
    pub(crate) fn send_resends(&mut self, slot: u32, end: u32) {
        let received = self.exchanges[slot].inb.received;
        let mut at = received.first;
        while let Some((start, stop, next)) = self.gaps.at(at) {
            self.send_resend(slot, start, stop - start);
            at = next;
        }
        if end > received.end {
            self.send_resend(slot, received.end, end - received.end);
        }
    }

    pub(crate) fn send_resend(&mut self, slot: u32, offset_bytes: u32, length_bytes: u32) {
        let priority = self.top_level();
        let (to, name) = self.addressed(slot);
        self.counters.resends_sent += 1;
        if self.exchanges[slot].mine() {
            self.lower_incast_threshold();
        }
        self.send(to, name, Kind::Resend { offset_bytes, length_bytes, priority });
    }

    pub(crate) fn send_need_ack(&mut self, slot: u32) {
        let (to, name) = self.addressed(slot);
        self.counters.need_acks_sent += 1;
        self.send(to, name, Kind::NeedAck);
    }

    pub(crate) fn send_busy(&mut self, slot: u32) {
        let (to, name) = self.addressed(slot);
        self.counters.busy_sent += 1;
        self.send(to, name, Kind::Busy);
    }

    /// Says to `to` that its `name` means nothing here.
    pub(crate) fn send_unknown(&mut self, to: Node, name: Message) {
        self.counters.unknown_sent += 1;
        self.send(to, Message(name.0 ^ 1), Kind::Unknown);
    }

    fn addressed(&self, slot: u32) -> (Node, Message) {
        let exchange = &self.exchanges[slot];
        (exchange.node, exchange.own_name())
    }
}
