//! Pauses that nobody coordinates: the predecessor of Slowpoke, and pauses at every request
//! ([slowpoke B5, B6]).

use crate::poker::{Poker, SELF};
use cavy_core::family::probe::{Controller, Effect, Epoch, Group, Input, Set, Timer};
use cavy_core::{Cx, Machine, Span};

/// A service that stops itself whenever its requests have cost more than a threshold.
#[derive(Clone, Debug)]
pub struct Uncoordinated {
    poker: Poker,
    delay: Span,
    threshold: Span,
    owed: Span,
    blocked: u32,
    aborted: bool,
}

type UncoordinatedCx<'a> = Cx<'a, Effect<(), ()>, Timer>;

impl Uncoordinated {
    /// The service `group`: each request costs `delay`, and it stops once it owes more than
    /// `threshold`. With a threshold of nothing it stops at every request.
    pub fn new(group: Group, delay: Span, threshold: Span) -> Self {
        Uncoordinated {
            poker: Poker::new(group, Span::MAX),
            delay,
            threshold,
            owed: Span::ZERO,
            blocked: 0,
            aborted: false,
        }
    }

    fn request(&mut self, cx: &mut UncoordinatedCx<'_>) {
        self.owed += self.delay;
        if self.owed > self.threshold {
            let owed = core::mem::replace(&mut self.owed, Span::ZERO);
            self.poker.pause(owed, cx);
        }
    }

    /// The service goes on: requests that waited for the lock are counted now.
    fn thawed(&mut self, epoch: Epoch, cx: &mut UncoordinatedCx<'_>) {
        if !self.poker.thawed(epoch) {
            return;
        }
        while self.blocked > 0 && !self.poker.stopping() {
            self.blocked -= 1;
            self.request(cx);
        }
    }
}

impl Machine for Uncoordinated {
    type Input = Input<()>;
    type Effect = Effect<(), ()>;
    type Timer = Timer;

    fn effects_max(&self) -> usize {
        4
    }

    fn start(&mut self, _: &mut UncoordinatedCx<'_>) {}

    fn handle(&mut self, input: Input<()>, cx: &mut UncoordinatedCx<'_>) {
        if self.aborted {
            return;
        }
        match input {
            Input::Visited { group, .. } if group == self.poker.group[0] => {
                if self.poker.stopping() {
                    self.blocked += 1;
                } else {
                    self.request(cx);
                }
            }
            Input::Thawed { epoch, .. } => self.thawed(epoch, cx),
            Input::Abort => {
                self.aborted = true;
                self.poker.abort(cx);
            }
            _ => {}
        }
    }

    fn expire(&mut self, _: Timer, cx: &mut UncoordinatedCx<'_>) {
        self.poker.resume(cx);
    }
}

impl Controller for Uncoordinated {
    type Message = ();
    type Finding = ();

    fn members(&self, set: Set) -> &[Group] {
        if set == SELF { &self.poker.group } else { &[] }
    }
}
