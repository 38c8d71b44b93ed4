//! The poker: stops and continues its own group, and carries what was too long or too short
//! ([slowpoke 2.4]).

use cavy_core::family::probe::{Effect, Epoch, Group, Set, Timer};
use cavy_core::{Cx, Instant, Span};

/// The set of a machine that stops itself alone.
pub const SELF: Set = Set(0);

/// The state of a poker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Poker {
    /// The group, as the members of [`SELF`].
    pub group: [Group; 1],
    /// Requested and not yet stood; below zero when it stood for longer.
    debt_ns: i64,
    since: Instant,
    epoch: Epoch,
    stopping: bool,
    lease: Span,
}

impl Poker {
    /// The poker of `group`. `lease` is how long the group stands at most, whatever becomes of the
    /// poker; the source has none ([slowpoke S4]), which is [`Span::MAX`].
    pub fn new(group: Group, lease: Span) -> Self {
        Poker {
            group: [group],
            debt_ns: 0,
            since: Instant::ZERO,
            epoch: Epoch(0),
            stopping: false,
            lease,
        }
    }

    /// Does the group stand, or is it about to?
    pub fn stopping(&self) -> bool {
        self.stopping
    }

    /// Stops the group for `span` and what is owed. A pause that is nothing or less still stops and
    /// continues.
    pub fn pause<M, C>(&mut self, span: Span, cx: &mut Cx<'_, Effect<M, C>, Timer>) {
        self.debt_ns += span.as_ns() as i64;
        self.since = cx.now();
        self.stopping = true;
        self.epoch.0 += 1;
        let span = Span::from_ns(self.debt_ns.max(0) as u64);
        let lease = if self.lease < span { span } else { self.lease };
        cx.emit(Effect::Freeze { set: SELF, epoch: self.epoch, span, lease });
        cx.arm(Timer::Thaw(SELF), cx.now() + span);
    }

    /// The pause is over. What the clock says between the two signals counts; how long the second
    /// takes does not ([slowpoke S5]).
    pub fn resume<M, C>(&mut self, cx: &mut Cx<'_, Effect<M, C>, Timer>) {
        self.debt_ns -= cx.now().since(self.since).as_ns() as i64;
        cx.emit(Effect::Thaw { set: SELF, epoch: self.epoch });
    }

    /// Lets the group go on now and for good.
    pub fn abort<M, C>(&mut self, cx: &mut Cx<'_, Effect<M, C>, Timer>) {
        if self.stopping {
            cx.disarm(Timer::Thaw(SELF));
            cx.emit(Effect::Thaw { set: SELF, epoch: self.epoch });
        }
    }

    /// The group goes on, because of `epoch`. Is the pause over?
    pub fn thawed(&mut self, epoch: Epoch) -> bool {
        let over = self.stopping && epoch == self.epoch;
        self.stopping &= !over;
        over
    }
}
