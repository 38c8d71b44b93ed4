//! A node: its machine, and what the world keeps for it.

use super::clock::Clock;
use super::link::Lanes;
use super::processors::{Benches, Processors};
use super::{Of, Setup, Site};
use crate::timers::Timers;
use cavy_core::family::Node;
use cavy_core::family::message::{Entry, Input, Protocol, Talker};
use cavy_core::{Instant, Purpose, Stream};
use std::collections::{BTreeSet, VecDeque};

pub(super) struct Host<M: Talker> {
    /// `None` while the node is down.
    pub machine: Option<M>,
    pub site: Site,
    pub clock: Clock,
    pub rng: Stream,
    pub timers: Timers<M::Timer>,
    pub lanes: Lanes,
    pub log: Log<<Of<M> as Protocol>::Record>,
    pub thread: Thread<Of<M>>,
    pub benches: Benches,
    /// Calls heard by this machine and not answered.
    pub calls: BTreeSet<u64>,
    /// When the card is free again, outward and inward.
    pub card_out: u64,
    pub card_in: u64,
}

/// What takes inputs, one at a time.
pub(super) struct Thread<P: Protocol> {
    /// What it is busy with.
    pub current: Option<Input<P>>,
    /// What waits for it.
    pub inbox: VecDeque<Input<P>>,
    /// Nothing runs before this time.
    pub frozen_until: u64,
    /// A timer came due while it was busy or frozen.
    pub timers_late: bool,
    /// What it was busy with ended while it was frozen.
    pub ended_late: bool,
}

impl<P: Protocol> Thread<P> {
    fn new() -> Self {
        Thread {
            current: None,
            inbox: VecDeque::new(),
            frozen_until: 0,
            timers_late: false,
            ended_late: false,
        }
    }

    pub fn is_free(&self, now: u64) -> bool {
        self.current.is_none() && self.frozen_until <= now
    }
}

/// A node's log and its disk.
pub(super) struct Log<R> {
    pub records: VecDeque<(Entry, R)>,
    pub appended: u64,
    pub stored: u64,
    /// What the disk is storing now, up to and including.
    pub syncing: Option<u64>,
    /// The last crash took records.
    pub torn: bool,
}

impl<R: Clone> Log<R> {
    /// A crash: what was stored stays, and of what was being stored some prefix. Returns how many
    /// records are gone.
    pub fn tear(&mut self, draws: &mut Stream) -> u64 {
        let under_way = self.syncing.take().unwrap_or(self.stored) - self.stored;
        let kept = self.stored + draws.below(under_way + 1);
        let gone = self.appended - kept;
        self.records.retain(|(entry, _)| entry.0 <= kept);
        (self.appended, self.stored) = (kept, kept);
        gone
    }

    /// The disk is gone: the next one is empty.
    pub fn wipe(&mut self) {
        self.records.clear();
        (self.appended, self.stored, self.torn) = (0, 0, false);
    }
}

/// The processors of `node`, idle, from `now` on.
pub(super) fn benches(setup: &Setup, node: Node, has: Processors, now: Instant) -> Benches {
    // The node's own machine draws as `node.0`, which is below 2^20.
    let draws = Stream::keyed(setup.seed, 1 << 31 | node.0, Purpose::Machine);
    Benches::new(has, draws, setup.faults.speed(node, now), now)
}

impl<M: Talker> Host<M> {
    pub fn new(setup: &Setup, node: Node, machine: M, has: Processors) -> Self {
        let mut clock = setup.clocks.get(node.0 as usize).cloned().unwrap_or_default();
        let steps = setup.faults.steps.iter().filter(|step| step.node == node);
        clock.steps.extend(steps.map(|step| (step.at, step.by_ns)));
        clock.steps.sort_unstable();
        Host {
            machine: Some(machine),
            site: setup.nodes[node.0 as usize],
            clock,
            rng: Stream::keyed(setup.seed, node.0, Purpose::Machine),
            timers: Timers::new(),
            lanes: Lanes::default(),
            log: Log {
                records: VecDeque::new(),
                appended: 0,
                stored: 0,
                syncing: None,
                torn: false,
            },
            thread: Thread::new(),
            benches: benches(setup, node, has, Instant::ZERO),
            calls: BTreeSet::new(),
            card_out: 0,
            card_in: 0,
        }
    }

    /// Everything that a crash takes but for the log. Returns the machine.
    pub fn fall(&mut self) -> Option<M> {
        // Anew, and not cleared: an entry of the queue that comes while the node is down is not for
        // it. Processors are new when it comes back.
        self.timers = Timers::new();
        self.thread = Thread::new();
        self.calls.clear();
        self.machine.take()
    }
}
