//! The laws of the seam as property tests that every protocol room runs on its own machines.
//!
//! A room supplies an [`Environment`]: the smallest legal world for its machine, which makes up
//! inputs and reacts to effects. The checks here drive the machine through it and panic, naming the
//! seed and the step, when a law is broken. Laws 3 and 5 bind worlds; the rig obeys them and worlds
//! test them on themselves. Law 8 needs a counting allocator, which the test binary brings.

pub mod cpu;
pub mod message;
pub mod packet;
pub mod probe;
mod seeds;

use crate::digest::Digest;
use crate::machine::{Cx, Machine, Out, Outbox, Packet, Room, Transmit};
use crate::stream::{Purpose, Stream};
use crate::time::{Instant, Span};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::hash::Hash;

pub use seeds::{piece, seeds};

/// The smallest legal world for one machine.
pub trait Environment {
    /// The machine it is for.
    type Machine: Machine;

    /// A fresh machine.
    fn machine(&self) -> Self::Machine;
    /// The time of the next input, not before `now`; `None` when there is none to come.
    fn next_at(&mut self, now: Instant, rng: &mut Stream) -> Option<Instant>;
    /// The input due at `now`, the time [`Environment::next_at`] gave.
    fn take(&mut self, now: Instant) -> <Self::Machine as Machine>::Input;
    /// The machine wants `effect` done. Panics when that is not legal now.
    fn apply(&mut self, now: Instant, effect: &<Self::Machine as Machine>::Effect);
}

/// How the rig treats timers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Punctuality {
    /// Timers fire when due.
    Exact,
    /// Timers fire up to this much late, which law 2 allows.
    LateBy(Span),
}

/// Drives one machine through its environment.
pub struct Rig<E: Environment> {
    environment: E,
    machine: E::Machine,
    outbox: Outbox<<E::Machine as Machine>::Effect, <E::Machine as Machine>::Timer>,
    timers: BTreeMap<<E::Machine as Machine>::Timer, Instant>,
    machine_rng: Stream,
    world_rng: Stream,
    now: Instant,
    punctuality: Punctuality,
    seed: u64,
    steps: u64,
}

impl<E: Environment> Rig<E>
where
    <E::Machine as Machine>::Effect: Hash,
    <E::Machine as Machine>::Timer: Hash,
{
    /// A rig with a started machine.
    pub fn new(environment: E, seed: u64, punctuality: Punctuality) -> Self {
        let machine = environment.machine();
        let outbox = Outbox::with_capacity(machine.effects_max());
        let mut rig = Rig {
            environment,
            machine,
            outbox,
            timers: BTreeMap::new(),
            machine_rng: Stream::keyed(seed, 0, Purpose::Machine),
            world_rng: Stream::keyed(seed, 0, Purpose::Test),
            now: Instant::ZERO,
            punctuality,
            seed,
            steps: 0,
        };
        rig.machine.start(&mut Cx::new(rig.now, &mut rig.machine_rng, &mut rig.outbox));
        rig.settle();
        rig
    }

    /// Runs one step and returns the digest of what it put in the outbox; `None` at the end.
    pub fn step(&mut self) -> Option<u64> {
        let input_at = self.environment.next_at(self.now, &mut self.world_rng);
        let due = self.timers.iter().min_by_key(|&(timer, at)| (*at, *timer));
        let due = due.map(|(timer, at)| (*timer, *at));
        let late = match self.punctuality {
            Punctuality::Exact => Span::ZERO,
            Punctuality::LateBy(most) => Span::from_ns(self.world_rng.below(most.as_ns() + 1)),
        };
        let cx_now = |at: Instant, now: &mut Instant| {
            *now = (*now).max(at);
            *now
        };
        match (input_at, due) {
            // Inputs of an instant come before the timers of that instant (law 5).
            (Some(at), timer) if timer.is_none_or(|(_, due)| at <= due + late) => {
                let now = cx_now(at, &mut self.now);
                let input = self.environment.take(now);
                let mut cx = Cx::new(now, &mut self.machine_rng, &mut self.outbox);
                self.machine.handle(input, &mut cx);
            }
            (_, Some((timer, at))) => {
                // Disarmed before it fires, so that it fires once per arming (law 3).
                self.timers.remove(&timer);
                let now = cx_now(at + late, &mut self.now);
                let mut cx = Cx::new(now, &mut self.machine_rng, &mut self.outbox);
                self.machine.expire(timer, &mut cx);
            }
            (_, None) => return None,
        }
        self.steps += 1;
        Some(self.settle())
    }

    /// Checks the outbox of the step just made, applies it and returns its digest.
    fn settle(&mut self) -> u64 {
        let most = self.machine.effects_max();
        let made = self.outbox.entries().len();
        assert!(
            made <= most,
            "law 4: {made} effects in one step, at most {most} declared ({})",
            self.place()
        );
        let mut digest = Digest::new();
        for out in self.outbox.entries() {
            digest.fold_value(out);
        }
        for out in self.outbox.drain() {
            match out {
                Out::Effect(effect) => self.environment.apply(self.now, &effect),
                Out::Arm(timer, at) => {
                    self.timers.insert(timer, at);
                }
                Out::Disarm(timer) => {
                    self.timers.remove(&timer);
                }
            }
        }
        self.machine.check();
        digest.value()
    }

    /// The machine.
    pub fn machine(&self) -> &E::Machine {
        &self.machine
    }

    /// The environment.
    pub fn environment(&self) -> &E {
        &self.environment
    }

    fn place(&self) -> alloc::string::String {
        alloc::format!("seed {:#x}, step {}", self.seed, self.steps)
    }
}

/// Laws 1, 2, 4 and 7 on `steps` steps under `seed`: the checks that need nothing but the machine.
pub fn hold<E: Environment>(make: impl Fn() -> E, seed: u64, steps: u64)
where
    <E::Machine as Machine>::Effect: Hash,
    <E::Machine as Machine>::Timer: Hash,
{
    same_inputs_same_outbox(&make, seed, steps);
    late_timers_are_legal(&make, seed, steps);
    outbox_is_bounded(&make, seed, steps);
    machine_may_be_dropped(&make, seed, steps);
}

/// Law 1: two runs agree step by step.
pub fn same_inputs_same_outbox<E: Environment>(make: impl Fn() -> E, seed: u64, steps: u64)
where
    <E::Machine as Machine>::Effect: Hash,
    <E::Machine as Machine>::Timer: Hash,
{
    let mut first = Rig::new(make(), seed, Punctuality::Exact);
    let mut second = Rig::new(make(), seed, Punctuality::Exact);
    for step in 0..steps {
        let (a, b) = (first.step(), second.step());
        assert_eq!(a, b, "law 1: two runs of seed {seed:#x} part at step {step}");
        if a.is_none() {
            return;
        }
    }
}

/// Law 2: expiring late does no more harm than being late.
pub fn late_timers_are_legal<E: Environment>(make: impl Fn() -> E, seed: u64, steps: u64)
where
    <E::Machine as Machine>::Effect: Hash,
    <E::Machine as Machine>::Timer: Hash,
{
    let mut rig = Rig::new(make(), seed, Punctuality::LateBy(Span::from_us(50)));
    for _ in 0..steps {
        if rig.step().is_none() {
            return;
        }
    }
}

/// Law 4: the declared bound holds and the outbox never grows.
pub fn outbox_is_bounded<E: Environment>(make: impl Fn() -> E, seed: u64, steps: u64)
where
    <E::Machine as Machine>::Effect: Hash,
    <E::Machine as Machine>::Timer: Hash,
{
    let mut rig = Rig::new(make(), seed, Punctuality::Exact);
    let room = rig.outbox.capacity();
    for _ in 0..steps {
        if rig.step().is_none() {
            return;
        }
        assert_eq!(rig.outbox.capacity(), room, "law 4: the outbox grew ({})", rig.place());
    }
}

/// Law 7: a machine dropped anywhere leaves nothing behind that a new one could see.
pub fn machine_may_be_dropped<E: Environment>(make: impl Fn() -> E, seed: u64, steps: u64)
where
    <E::Machine as Machine>::Effect: Hash,
    <E::Machine as Machine>::Timer: Hash,
{
    let reference: Vec<_> = {
        let mut rig = Rig::new(make(), seed, Punctuality::Exact);
        (0..steps.min(64)).map_while(|_| rig.step()).collect()
    };
    for crash_after in [0, 1, 7, steps / 2] {
        let mut rig = Rig::new(make(), seed, Punctuality::Exact);
        for _ in 0..crash_after {
            if rig.step().is_none() {
                break;
            }
        }
        drop(rig);
        let mut rig = Rig::new(make(), seed, Punctuality::Exact);
        let after: Vec<_> = (0..steps.min(64)).map_while(|_| rig.step()).collect();
        assert_eq!(reference, after, "law 7: a crash at step {crash_after} left something behind");
    }
}

/// Law 6: a machine that has nothing to send says so again, without effects, however often asked.
pub fn pull_means_sending_only<M: Transmit>(
    machine: &mut M,
    now: Instant,
    room: Room,
    rng: &mut Stream,
) -> Vec<Packet<M::Header>> {
    let mut outbox = Outbox::with_capacity(machine.effects_max());
    let mut sent = Vec::new();
    while let Some(packet) = machine.pull(room, &mut Cx::new(now, rng, &mut outbox)) {
        assert!(packet.payload.length_bytes <= room.bytes, "law 6: a packet larger than the room");
        sent.push(packet);
        outbox.clear();
    }
    outbox.clear();
    for _ in 0..3 {
        let again = machine.pull(room, &mut Cx::new(now, rng, &mut outbox));
        assert!(again.is_none(), "law 6: nothing was eligible, then something was");
        assert!(outbox.entries().is_empty(), "law 6: an empty pull had effects");
    }
    sent
}
