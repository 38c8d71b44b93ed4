//! Timeouts and recoveries that were for nothing, and taking them back ([incast 2.10]).
//!
//! Three ways tell: the peer echoes the timestamp of the first copy (Eifel, RFC 3522); what was
//! sent once goes on being acknowledged after a timeout (F-RTO, RFC 5682); the peer reports every
//! copy as a duplicate (RFC 3708).

use crate::connection::{Connection, Fate, Phase, Step};
use cavy_core::{Instant, Span};

/// Which of the three ways are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Undo {
    /// By timestamps. Needs [`crate::Config::stamps`] with a tick finer than the timeout.
    pub eifel: bool,
    /// By what comes after a timeout.
    pub frto: bool,
    /// By reports of duplicates. Needs selective acknowledgements.
    pub dsack: bool,
}

impl Undo {
    /// Never.
    pub const NONE: Undo = Undo { eifel: false, frto: false, dsack: false };
    /// By all three.
    pub const ALL: Undo = Undo { eifel: true, frto: true, dsack: true };

    pub(crate) fn any(self) -> bool {
        self.eifel || self.frto || self.dsack
    }
}

/// What the window was before an episode of repair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Saved {
    cwnd: u64,
    ssthresh: u64,
    by_timer: bool,
    /// When the segment that began it was sent first.
    sent_at: Instant,
    /// The timestamp of the first retransmission, once there is one.
    stamp: Option<u32>,
    /// Retransmissions that no duplicate was reported of.
    open: u32,
    any: bool,
    /// Nothing new was acknowledged since the first retransmission.
    unheard: bool,
}

/// How far a suspicion after a timeout is (RFC 5682).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Suspicion {
    /// There is none.
    #[default]
    None,
    /// The first segment was sent again, and nothing else may be.
    Repeated,
    /// The left edge moved: so many new segments may go, and what is lost waits.
    Asking(u8),
}

impl Connection {
    /// An episode begins: remembers what it may take back.
    pub(crate) fn save(&mut self, by_timer: bool, sent_at: Instant, step: &Step<'_, '_>) {
        if !step.config.undo.any() {
            return;
        }
        self.saved = Some(Saved {
            cwnd: self.cwnd,
            ssthresh: self.ssthresh,
            by_timer,
            sent_at,
            stamp: None,
            open: 0,
            any: false,
            unheard: true,
        });
        self.suspicion = Suspicion::None;
        if by_timer && step.config.undo.frto && !self.is_half_open() {
            self.suspicion = Suspicion::Repeated;
        }
    }

    /// A segment left again with this timestamp.
    pub(crate) fn repeated(&mut self, stamp: u32) {
        if let Some(saved) = &mut self.saved {
            saved.stamp.get_or_insert(stamp);
            saved.open += 1;
            saved.any = true;
        }
    }

    /// What an acknowledgement says of the episode. `fresh`: it covers something that was sent
    /// once. `reported`: of something that was sent again, a duplicate came.
    pub(crate) fn consider_undo(
        &mut self,
        (advanced, fresh, reported): (bool, bool, bool),
        echo: Option<u32>,
        step: &mut Step<'_, '_>,
    ) {
        let undo = step.config.undo;
        let Some(saved) = &mut self.saved else { return };
        let mut spurious = false;
        if undo.dsack && reported && saved.any {
            saved.open = saved.open.saturating_sub(1);
            spurious |= saved.open == 0;
        }
        if advanced && saved.any && saved.unheard {
            saved.unheard = false;
            let before = |(echo, stamp): (u32, u32)| (echo.wrapping_sub(stamp) as i32) < 0;
            // An equal tick says nothing.
            spurious |= undo.eifel && echo.zip(saved.stamp).is_some_and(before);
        }
        let all = self.queue.is_empty();
        self.suspicion = match self.suspicion {
            Suspicion::Repeated if advanced && !all && self.may_send_anew() => Suspicion::Asking(2),
            Suspicion::Asking(_) if advanced || fresh => {
                spurious |= fresh;
                Suspicion::None
            }
            Suspicion::Repeated | Suspicion::Asking(_) if !advanced && self.heard == 0 => {
                self.suspicion
            }
            _ => Suspicion::None,
        };
        if spurious {
            self.take_back(step);
        }
    }

    /// The episode was for nothing (RFC 4015).
    fn take_back(&mut self, step: &mut Step<'_, '_>) {
        let Some(saved) = self.saved.take() else { return };
        self.suspicion = Suspicion::None;
        step.counts.undone += 1;
        let flight = self.next - self.una;
        let initial = u64::from(step.config.initial_window) * self.mss;
        self.ssthresh = saved.ssthresh;
        self.cwnd = self.cwnd.max(saved.cwnd.min(flight + initial));
        self.phase = Phase::Open;
        for sent in &mut self.queue {
            if sent.fate == Fate::Lost {
                sent.fate = Fate::Out;
                self.out += sent.length();
                self.lost -= 1;
            }
        }
        self.forced = false;
        if saved.by_timer {
            step.counts.spurious += 1;
            self.rto.forget_backoff();
            let late = step.now.since(saved.sent_at);
            self.rto.raise(&step.config.rto, late.max(Span::from_ns(1)));
        }
    }

    fn may_send_anew(&self) -> bool {
        let open = (self.una + self.window).saturating_sub(self.next);
        self.next < self.written && open >= self.mss.min(self.written - self.next)
    }
}
