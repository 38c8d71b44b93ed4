//! The groups of one host, stopped as a leader on another host says ([slowpoke 2.7]).
//!
//! Clocks of hosts differ, so orders and reports have spans and no times. An order is obeyed once:
//! one that is not newer than the last does nothing. A newer one that comes while groups stand
//! makes them stand on.

use crate::governor::{Reading, TARGETS};
use crate::standing::Standing;
use alloc::vec::Vec;
use cavy_core::family::Node;
use cavy_core::family::probe::{Controller, Effect, Epoch, Group, Input, Set, Timer};
use cavy_core::{Cx, Machine, Span};

/// Sets of a Governor: all others, then each target.
pub const SETS: usize = TARGETS + 1;

/// What a Governor and its daemons tell each other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Order {
    /// Stop these sets for these spans, zero for not at all.
    Freeze {
        /// Which pause.
        epoch: Epoch,
        /// By set.
        spans: [Span; SETS],
        /// For how long they stand at most.
        lease: Span,
    },
    /// Let everything go on, and stop nothing more.
    Release,
    /// For how long the groups of this host stood together in a pause.
    Stood {
        /// Which pause.
        epoch: Epoch,
        /// By set; zero for sets that have no group here.
        together: [Span; SETS],
        /// Has the host groups of each set that were asked to stand?
        here: [bool; SETS],
    },
}

/// One host.
#[derive(Clone, Debug)]
pub struct Daemon {
    leader: Node,
    sets: Vec<Standing>,
    epoch: Epoch,
    pausing: bool,
    released: bool,
}

type DaemonCx<'a> = Cx<'a, Effect<Order, Reading>, Timer>;

impl Daemon {
    /// The daemon of a host that obeys `leader`, with its groups by the leader's sets.
    pub fn new(leader: Node, groups: [Vec<Group>; SETS]) -> Self {
        Daemon {
            leader,
            sets: groups.into_iter().map(Standing::new).collect(),
            epoch: Epoch(0),
            pausing: false,
            released: false,
        }
    }

    fn place(&self, group: Group) -> Option<(usize, usize)> {
        let find = |(set, standing): (usize, &Standing)| {
            Some((set, standing.members.iter().position(|one| *one == group)?))
        };
        self.sets.iter().enumerate().find_map(find)
    }

    fn freeze(&mut self, epoch: Epoch, spans: [Span; SETS], lease: Span, cx: &mut DaemonCx<'_>) {
        if epoch <= self.epoch || self.released {
            return;
        }
        if self.pausing {
            self.report(cx);
        }
        self.epoch = epoch;
        self.pausing = true;
        for (index, span) in spans.into_iter().enumerate() {
            let one = &mut self.sets[index];
            let was = one.asked;
            let span = if one.live() == 0 { Span::ZERO } else { span };
            one.begin(cx.now(), span);
            let set = Set(index as u16);
            if !span.is_zero() {
                let lease = if lease < span { span } else { lease };
                cx.emit(Effect::Freeze { set, epoch, span, lease });
                cx.arm(Timer::Thaw(set), cx.now() + span);
            } else if !was.is_zero() {
                // It stood for the pause before, and this one is not for it: it goes on by its own
                // timer.
                one.asked = Span::ZERO;
            }
        }
        self.finish(cx);
    }

    fn report(&mut self, cx: &mut DaemonCx<'_>) {
        let mut together = [Span::ZERO; SETS];
        let mut here = [false; SETS];
        for (index, one) in self.sets.iter().enumerate() {
            together[index] = one.together();
            here[index] = !one.asked.is_zero();
        }
        let message = Order::Stood { epoch: self.epoch, together, here };
        cx.emit(Effect::Send { to: self.leader, message });
        self.pausing = false;
    }

    fn finish(&mut self, cx: &mut DaemonCx<'_>) {
        if self.pausing && self.sets.iter().all(Standing::over) {
            self.report(cx);
        }
    }

    fn release(&mut self, cx: &mut DaemonCx<'_>) {
        self.released = true;
        for (index, one) in self.sets.iter().enumerate() {
            let set = Set(index as u16);
            if self.pausing && !one.asked.is_zero() {
                cx.disarm(Timer::Thaw(set));
                cx.emit(Effect::Thaw { set, epoch: self.epoch });
            }
        }
    }
}

impl Machine for Daemon {
    type Input = Input<Order>;
    type Effect = Effect<Order, Reading>;
    type Timer = Timer;

    fn effects_max(&self) -> usize {
        2 * SETS + 2
    }

    fn start(&mut self, _: &mut DaemonCx<'_>) {}

    fn handle(&mut self, input: Input<Order>, cx: &mut DaemonCx<'_>) {
        match input {
            Input::Rx { from, message } if from == self.leader => match message {
                Order::Freeze { epoch, spans, lease } => self.freeze(epoch, spans, lease, cx),
                Order::Release => self.release(cx),
                Order::Stood { .. } => {}
            },
            Input::Abort => self.release(cx),
            Input::Frozen { group, epoch, at } if epoch == self.epoch => {
                if let Some((set, member)) = self.place(group) {
                    self.sets[set].frozen(member, at);
                }
            }
            Input::Thawed { group, epoch, at } if epoch == self.epoch => {
                if let Some((set, member)) = self.place(group) {
                    self.sets[set].thawed(member, at);
                    self.finish(cx);
                }
            }
            Input::Gone { group } => {
                if let Some((set, member)) = self.place(group) {
                    self.sets[set].gone(member);
                    self.finish(cx);
                }
            }
            _ => {}
        }
    }

    fn expire(&mut self, timer: Timer, cx: &mut DaemonCx<'_>) {
        if let Timer::Thaw(set) = timer {
            cx.emit(Effect::Thaw { set, epoch: self.epoch });
        }
    }
}

impl Controller for Daemon {
    type Message = Order;
    /// That of its leader, so that one world runs both. A daemon concludes nothing.
    type Finding = Reading;

    fn members(&self, set: Set) -> &[Group] {
        self.sets.get(usize::from(set.0)).map_or(&[], |one| &one.members)
    }
}
