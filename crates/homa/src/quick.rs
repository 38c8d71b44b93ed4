//! Repair of losses after a few round trips instead of many milliseconds ([homa 8.2] point 3).
//!
//! Silence says little under load: what is missing may wait in the queue of this host's own
//! downlink, behind others of a higher level, or at a sender that prefers shorter messages. So a
//! complaint needs more than time.
//!
//! * Bytes that later ones have overtaken are missing after a reordering window of a round trip;
//!   the end of what was granted, after some round trips of silence. Both times double with each
//!   complaint in vain, and with each repair that turns out to have been needless, for all messages
//!   of that sender; BUSY makes them eight times as long.
//! * Nothing is missing before the downlink was seen idle since, within the last round trip: until
//!   then it may be in the queue.
//! * The sender does not send again what left it less than a round trip ago.
//!
//! Ticks go on beside this, and alone decide when to give up.

use crate::config::Quick;
use crate::exchange::{Exchange, Outbound};
use crate::machine::{Homa, HomaCx, Timer};
use crate::packet::{ALL_SENT, Data, Flags};
use crate::recovery::Waits;
use cavy_core::family::packet::Extent;
use cavy_core::{Instant, Span};

/// Patience is at most this many times the ordinary.
const PATIENCE_MAX: u32 = 64;
/// A smoothed round trip counts up to this many times the idle one.
const RTT_MAX: u64 = 8;
/// How many times longer a peer that says BUSY is left alone.
const BUSY_TIMES: u64 = 8;

/// What one exchange's silence is measured by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pulse {
    /// Last sign of life.
    last: Instant,
    /// The first gap is there since, if there is one.
    gap_since: Option<Instant>,
    /// The last complaint.
    complained: Instant,
    /// Complaints since the last byte that was missing.
    complaints: u32,
    /// The peer said BUSY, and has sent nothing since.
    busy: bool,
    /// The peer has shown that it knows of the message that goes out.
    known: bool,
    /// A round trip is being measured: from the sending of a grant ...
    sample_at: Option<Instant>,
    /// ... to the first packet from here on.
    sample_from: u32,
    /// Offset of the latest GRANT sent.
    told: u32,
}

impl Pulse {
    pub(crate) const NONE: Pulse = Pulse {
        last: Instant::ZERO,
        gap_since: None,
        complained: Instant::ZERO,
        complaints: 0,
        busy: false,
        known: false,
        sample_at: None,
        sample_from: 0,
        told: 0,
    };

    /// The peer knows of the message that goes out to it.
    pub(crate) fn set_known(&mut self) {
        self.known = true;
    }
}

/// What is known of this host's downlink from what comes over it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Downlink {
    /// The latest packet was here.
    last: Instant,
    /// It was last seen idle: all that had reached its queue before has arrived.
    idle_at: Instant,
}

impl Downlink {
    pub(crate) const NEW: Downlink = Downlink { last: Instant::ZERO, idle_at: Instant::ZERO };

    /// A packet that took `time` is here. Between two of a busy link there is nothing.
    #[inline]
    pub(crate) fn note(&mut self, now: Instant, time: Span, least: Span) {
        if now.since(self.last) >= time + least {
            self.idle_at = Instant::from_ns(now.as_ns().saturating_sub(time.as_ns()));
        }
        self.last = now;
    }

    /// Was it idle at any time since `at`? `longest` is the time of a full packet.
    fn was_idle_since(&self, at: Instant, now: Instant, longest: Span) -> bool {
        self.idle_at >= at || (now >= at && now.since(self.last) > longest)
    }
}

/// How far a message had been sent a while ago, for its sender: two marks, the older of which is at
/// least a round trip old.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settled {
    /// Bytes below left at least a round trip ago.
    below: u32,
    newer: u32,
    newer_at: Instant,
}

impl Settled {
    pub(crate) const NONE: Settled = Settled { below: 0, newer: 0, newer_at: Instant::ZERO };

    #[inline]
    fn note(&mut self, next: u32, now: Instant, rtt: Span) {
        if now.since(self.newer_at) >= rtt {
            *self = Settled { below: self.newer, newer: next, newer_at: now };
        }
    }
}

impl Homa {
    /// A packet of `carried` bytes came over the downlink.
    #[inline]
    pub(crate) fn note_downlink(&mut self, carried: u32, now: Instant) {
        let wire =
            |bytes: u32| (bytes + self.config.overhead_bytes).max(self.config.frame_min_bytes);
        let time = self.link_time(wire(carried));
        let least = self.link_time(self.config.frame_min_bytes);
        self.downlink.note(now, time, least);
    }

    /// Is it certain that what reached the queue of the downlink before `at` has arrived?
    pub(crate) fn is_drained_since(&self, at: Instant, now: Instant) -> bool {
        self.downlink.was_idle_since(at, now, self.packet_time() * 2)
    }

    /// Some of a message was sent: notes what left long enough ago to be sent again.
    #[inline]
    pub(crate) fn pulse_sent(&mut self, slot: u32, start: u32, now: Instant) {
        if let Some(quick) = self.config.quick {
            self.exchanges[slot].out.settled.note(start, now, quick.rtt);
        }
    }

    /// Up to where `out` may be sent again.
    pub(crate) fn settled_end(&self, out: &Outbound, now: Instant) -> u32 {
        match self.config.quick {
            Some(quick) if now < out.last_sent + quick.rtt => {
                let settled = &out.settled;
                let newer = now.since(settled.newer_at) >= quick.rtt;
                if newer { settled.newer } else { settled.below }
            }
            _ => out.next,
        }
    }

    /// A GRANT leaves now.
    pub(crate) fn pulse_granted(&mut self, slot: u32, now: Instant) {
        let Exchange { pulse, inb, .. } = &mut self.exchanges[slot];
        if pulse.sample_at.is_none() {
            pulse.sample_at = Some(now);
            pulse.sample_from = pulse.told;
        }
        if inb.received.bytes == pulse.told {
            // There was nothing to wait for until now.
            pulse.last = now;
        }
        pulse.told = inb.granted;
    }

    /// DATA came in for `slot`, of which `new` bytes were missing.
    pub(crate) fn pulse_data(
        &mut self,
        slot: u32,
        data: &Data,
        extent: Extent,
        new: u32,
        cx: &mut HomaCx<'_>,
    ) {
        let Some(quick) = self.config.quick else { return };
        let now = cx.now();
        let exchange = &mut self.exchanges[slot];
        let peer = &mut self.peers[exchange.peer];
        let (pulse, inb) = (&mut exchange.pulse, &exchange.inb);
        if pulse.told == 0 {
            pulse.told = inb.granted;
        }
        pulse.last = now;
        pulse.busy = false;
        let again = data.flags.has(Flags::RETRANSMIT);
        // Whichever of the two came first, one was needless.
        if new == 0 && (again || pulse.complaints > 0) {
            peer.patience = (peer.patience * 2).min(PATIENCE_MAX);
        } else if again {
            peer.patience = (peer.patience - peer.patience / 4).max(1);
        }
        if new > 0 {
            pulse.complaints = 0;
        }
        // A packet below the end has filled a gap; another one may be younger.
        let filled = extent.offset_bytes + extent.length_bytes < inb.received.end;
        if inb.received.gaps == 0 {
            pulse.gap_since = None;
        } else if pulse.gap_since.is_none() || filled {
            pulse.gap_since = Some(now);
        }
        if let Some(at) = pulse.sample_at.filter(|_| extent.offset_bytes >= pulse.sample_from) {
            pulse.sample_at = None;
            if !again {
                let old = peer.rtt.unwrap_or(quick.rtt).as_ns();
                peer.rtt = Some(Span::from_ns(old / 8 * 7 + now.since(at).as_ns() / 8));
            }
        }
        self.pulse_watch(cx);
    }

    /// The peer has nothing to send yet, or sent it just now.
    pub(crate) fn pulse_busy(&mut self, slot: u32, now: Instant) {
        let pulse = &mut self.exchanges[slot].pulse;
        pulse.last = now;
        pulse.busy = true;
        pulse.known = true;
    }

    /// What was sent last to the peer of `slot` has brought its answer: so long does that take.
    pub(crate) fn pulse_answered(&mut self, slot: u32, now: Instant) {
        if self.config.quick.is_none() {
            return;
        }
        let exchange = &self.exchanges[slot];
        if exchange.pulse.complaints > 0 {
            // Of losses this would say more than of the way.
            return;
        }
        let took = now.since(exchange.out.last_sent).as_ns();
        let peer = &mut self.peers[exchange.peer];
        let faded = peer.answer_longest.as_ns() / 8 * 7;
        peer.answer_longest = Span::from_ns(took.max(faded));
    }

    /// Something of `node` came a second time, of a message that is over.
    pub(crate) fn pulse_needless(&mut self, peer: u32) {
        let peer = &mut self.peers[peer];
        peer.patience = (peer.patience * 2).min(PATIENCE_MAX);
    }

    /// Makes sure that a look is taken when the earliest silence is too long.
    pub(crate) fn pulse_watch(&mut self, cx: &mut HomaCx<'_>) {
        let Some(quick) = self.config.quick else { return };
        if self.quick_at.is_none() {
            let at = cx.now() + quick.rtt;
            self.quick_at = Some(at);
            cx.arm(Timer::Quick, at);
        }
    }

    /// Looks at all exchanges; those that miss something for too long are complained about once.
    pub(crate) fn on_quick(&mut self, cx: &mut HomaCx<'_>) {
        let Some(quick) = self.config.quick else { return };
        self.quick_at = None;
        let now = cx.now();
        let mut next = Instant::NEVER;
        for slot in 0..self.exchanges.slots() {
            if self.exchanges[slot].live
                && let Some(mut due) = self.pulse_due(slot, &quick)
            {
                if due <= now && !self.may_be_queued(slot, now) {
                    self.complain(slot, now);
                    due = self.pulse_due(slot, &quick).unwrap_or(Instant::NEVER);
                }
                next = next.min(due);
            }
        }
        if next != Instant::NEVER {
            // At most one look a round trip, however many messages there are.
            let at = next.max(now + quick.rtt);
            self.quick_at = Some(at);
            cx.arm(Timer::Quick, at);
        }
    }

    /// May what `slot` misses be in the queue of the downlink? False when nobody watches that.
    pub(crate) fn may_be_queued(&self, slot: u32, now: Instant) -> bool {
        let Some(quick) = self.config.quick else { return false };
        // What its sender sent since may have come after an idle time that is longer ago; what it
        // sent in the last round trip it does not send again.
        let recent = Instant::from_ns(now.as_ns().saturating_sub(quick.rtt.as_ns()));
        !self.is_drained_since(self.suspected(slot, &quick).max(recent), now)
    }

    /// From when on an idle downlink means that what `slot` misses is not in its queue.
    fn suspected(&self, slot: u32, quick: &Quick) -> Instant {
        let exchange = &self.exchanges[slot];
        let pulse = &exchange.pulse;
        match (exchange.waits(), pulse.gap_since) {
            (Waits::Data, Some(since)) => since,
            (Waits::Data, None) => pulse.last + quick.rtt,
            _ => exchange.out.last_sent + quick.rtt,
        }
    }

    /// When the silence of `slot` becomes too long; `None` while it waits for nobody.
    fn pulse_due(&self, slot: u32, quick: &Quick) -> Option<Instant> {
        let exchange = &self.exchanges[slot];
        let pulse = &exchange.pulse;
        let peer = &self.peers[exchange.peer];
        let waits = exchange.waits();
        let rtt = peer.rtt.unwrap_or(quick.rtt).as_ns().max(quick.rtt.as_ns());
        let rtt = rtt.min(quick.rtt.as_ns() * RTT_MAX);
        let silence = rtt * u64::from(quick.round_trips);
        let (since, silence) = match waits {
            Waits::No => return None,
            Waits::Data => match pulse.gap_since {
                Some(since) if !pulse.busy => (since, rtt),
                _ => (pulse.last, silence),
            },
            // Answers are asked for by those who wait for them.
            _ if !exchange.mine() => return None,
            // Whoever knows of it grants it, and asks for what gets lost.
            _ if !exchange.out.all_sent() && pulse.known => return None,
            _ => (exchange.out.last_sent, silence.max(2 * peer.answer_longest.as_ns())),
        };
        let busy = if pulse.busy { BUSY_TIMES } else { 1 };
        let patience = (u64::from(peer.patience) * busy) << pulse.complaints.min(10);
        let wait = Span::from_ns(silence.saturating_mul(patience));
        let complained = match pulse.complaints {
            0 => Instant::ZERO,
            _ => pulse.complained.max(if pulse.busy { pulse.last } else { Instant::ZERO }),
        };
        Some(since.max(complained) + wait)
    }

    fn complain(&mut self, slot: u32, now: Instant) {
        let exchange = &mut self.exchanges[slot];
        exchange.pulse.complained = now;
        exchange.pulse.complaints += 1;
        let flowing = exchange.pulse.gap_since.is_some();
        let end = if flowing { exchange.inb.received.end } else { exchange.inb.granted };
        self.counters.quick_resends += 1;
        match self.exchanges[slot].waits() {
            Waits::Data => self.send_resends(slot, end),
            Waits::Answer => self.send_resend(slot, 0, ALL_SENT),
            Waits::Grant | Waits::Ack => self.send_need_ack(slot),
            Waits::No => {}
        }
    }
}
