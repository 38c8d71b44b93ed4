//! Where a steward puts transactions across regions `[dast 2.6]`.

use super::Steward;
use crate::dast::Dast;
use crate::dast::message::Attempt;
use crate::txn::Ts;

/// The low bits of a timestamp that name the region.
const REGION_BITS: u32 = 10;

impl Dast {
    /// The steward's clock, which replicas do not hear of, is held like theirs where it is what
    /// anticipates.
    pub(super) fn hold_own_clock(&mut self, attempt: Attempt, below: Option<Ts>) {
        match below {
            Some(ts) if !self.config.physical_est && self.config.stretch => {
                self.clock.hold(attempt, ts);
            }
            _ => self.clock.let_go(attempt),
        }
    }

    /// What is anticipated from: the artifact takes a clock that is held back, at coordinators and
    /// at stewards.
    pub(in crate::dast) fn anticipation_base(&self) -> u64 {
        if self.config.physical_est { self.clock.physical(self.wall) } else { self.peek_ts().t }
    }

    /// When the CRT will have been decided, probably: a time that no other CRT of any region has.
    pub(super) fn anticipate(&mut self, steward: &mut Steward, source: u64) -> Ts {
        let own = self.anticipation_base();
        // As with clocks of the region: all later CRTs would have to be behind this one.
        let trusted = source.saturating_sub(own) <= self.config.jump_max.as_ns();
        let base = if trusted { own.max(source) } else { own };
        let wanted = (base + self.config.est.as_ns()).max(steward.last + 1);
        let wanted = wanted.max(steward.promise + 1);
        let t = if self.config.unique_t {
            let region = u64::from(self.region.0);
            let rounded = wanted >> REGION_BITS << REGION_BITS | region;
            if rounded < wanted { rounded + (1 << REGION_BITS) } else { rounded }
        } else {
            // Ties happen.
            wanted.next_multiple_of(self.config.grain.as_ns().max(1))
        };
        steward.last = t;
        Ts { t, k: 0, n: self.me.0 }
    }
}
