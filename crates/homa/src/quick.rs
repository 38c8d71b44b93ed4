//! Repair of losses after a few round trips instead of many milliseconds ([homa 8.2] point 3).
//!
//! Silence of a message is measured against its sender's smoothed round trip and against the largest
//! gap lately seen between two of its packets. A sender that says BUSY is left alone until it sends
//! again; a RESEND that turns out to have been needless doubles the patience with that peer. Ticks go
//! on beside this, and alone decide when to give up.

use crate::config::Quick;
use crate::exchange::Exchange;
use crate::machine::{Homa, HomaCx, Timer};
use crate::packet::{ALL_SENT, Data, Flags};
use crate::recovery::Waits;
use cavy_core::family::packet::Extent;
use cavy_core::{Instant, Span};

/// Patience is at most this many times the ordinary.
const PATIENCE_MAX: u32 = 64;

/// What one exchange's silence is measured by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pulse {
    /// Last sign of life.
    last: Instant,
    /// Recently the longest time between two packets.
    longest: Span,
    /// The last complaint.
    complained: Instant,
    /// Complaints since the last sign of life.
    complaints: u32,
    /// The peer said BUSY, and has sent nothing since.
    busy: bool,
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
        longest: Span::ZERO,
        complained: Instant::ZERO,
        complaints: 0,
        busy: false,
        sample_at: None,
        sample_from: 0,
        told: 0,
    };
}

impl Homa {
    /// A GRANT leaves now.
    pub(crate) fn pulse_granted(&mut self, slot: u32, now: Instant) {
        let Exchange { pulse, inb, .. } = &mut self.exchanges[slot];
        if pulse.sample_at.is_none() {
            pulse.sample_at = Some(now);
            pulse.sample_from = pulse.told;
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
        let pulse = &mut exchange.pulse;
        if pulse.told == 0 {
            pulse.told = exchange.inb.granted;
        } else if pulse.complaints == 0 {
            let gap = now.since(pulse.last);
            pulse.longest = gap.max(Span::from_ns(pulse.longest.as_ns() / 8 * 7));
        }
        pulse.last = now;
        pulse.complaints = 0;
        pulse.busy = false;
        let again = data.flags.has(Flags::RETRANSMIT);
        if again && new == 0 {
            peer.patience = (peer.patience * 2).min(PATIENCE_MAX);
        } else if again {
            peer.patience = (peer.patience - peer.patience / 4).max(1);
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

    /// The peer has nothing to send yet.
    pub(crate) fn pulse_busy(&mut self, slot: u32, now: Instant) {
        let pulse = &mut self.exchanges[slot].pulse;
        pulse.last = now;
        pulse.busy = true;
    }

    /// Makes sure that a look is taken when the earliest silence is too long.
    pub(crate) fn pulse_watch(&mut self, cx: &mut HomaCx<'_>) {
        let Some(quick) = self.config.quick else { return };
        if self.quick_at.is_none() {
            let at = cx.now() + quick.rtt * u64::from(quick.round_trips);
            self.quick_at = Some(at);
            cx.arm(Timer::Quick, at);
        }
    }

    /// Looks at all exchanges; those silent for too long are complained about once.
    pub(crate) fn on_quick(&mut self, cx: &mut HomaCx<'_>) {
        let Some(quick) = self.config.quick else { return };
        self.quick_at = None;
        let mut next = Instant::NEVER;
        for slot in 0..self.exchanges.slots() {
            if self.exchanges[slot].live
                && let Some(due) = self.pulse_due(slot, &quick)
            {
                let due = if due <= cx.now() { self.complain(slot, &quick, cx.now()) } else { due };
                next = next.min(due);
            }
        }
        if next != Instant::NEVER {
            // At most one look a round trip, however many messages there are.
            let at = next.max(cx.now() + quick.rtt);
            self.quick_at = Some(at);
            cx.arm(Timer::Quick, at);
        }
    }

    /// When the silence of `slot` becomes too long; `None` while it waits for nobody, or the peer said
    /// BUSY. Answers in the making are asked after ever more rarely.
    fn pulse_due(&self, slot: u32, quick: &Quick) -> Option<Instant> {
        let exchange = &self.exchanges[slot];
        let pulse = &exchange.pulse;
        let waits = exchange.waits();
        let answering = !exchange.mine() && waits != Waits::Data;
        if waits == Waits::No || pulse.busy || answering {
            return None;
        }
        let peer = &self.peers[exchange.peer];
        let rtt = peer.rtt.unwrap_or(quick.rtt).as_ns();
        let silence = (rtt * u64::from(quick.round_trips)).max(2 * pulse.longest.as_ns());
        let patience = u64::from(peer.patience) << pulse.complaints.min(10);
        let last = pulse.last.max(pulse.complained).max(exchange.out.last_sent);
        Some(last + Span::from_ns(silence.saturating_mul(patience)))
    }

    fn complain(&mut self, slot: u32, quick: &Quick, now: Instant) -> Instant {
        let exchange = &mut self.exchanges[slot];
        exchange.pulse.complained = now;
        exchange.pulse.complaints += 1;
        let granted = exchange.inb.granted;
        self.counters.quick_resends += 1;
        match exchange.waits() {
            Waits::Data => self.send_resends(slot, granted),
            Waits::Answer => self.send_resend(slot, 0, ALL_SENT),
            Waits::Grant | Waits::Ack => self.send_need_ack(slot),
            Waits::No => {}
        }
        self.pulse_due(slot, quick).unwrap_or(Instant::NEVER)
    }
}
