//! Who watches a run, and what handling takes.

use super::{Of, Processors};
use cavy_core::family::Node;
use cavy_core::family::cpu::Kind;
use cavy_core::family::message::{Effect, Input, Protocol, Talker, Via};
use cavy_core::{Instant, Span};

/// Watches a run. Times are true time.
pub trait Observer<M: Talker> {
    /// `node` is about to take a step. Not called unless [`Observer::watches`].
    fn hears(&mut self, _now: Instant, _node: Node, _input: &Input<Of<M>>) {}
    /// `node` has taken a step and asks for this. Not called unless [`Observer::watches`].
    fn says(&mut self, _now: Instant, _node: Node, _effect: &Effect<Of<M>>) {}
    /// Steps are of interest.
    fn watches(&self) -> bool {
        false
    }
    /// `node` tells this.
    fn note(&mut self, _now: Instant, _node: Node, _note: &<Of<M> as Protocol>::Note) {}
    /// A message was lost, or came from a session that has ended.
    fn lost(&mut self, _now: Instant, _from: Node, _to: Node, _via: Via) {}
    /// `node` crashes: its machine as it was.
    fn crashes(&mut self, _now: Instant, _node: Node, _machine: &M) {}
    /// `node` is back, and has heard what it had stored.
    fn is_back(&mut self, _now: Instant, _node: Node, _machine: &M) {}
}

/// Nobody watches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl<M: Talker> Observer<M> for Unobserved {}

/// What steps and jobs take on each node.
pub trait Hardware<P: Protocol> {
    /// What the thread of `node` spends on `input` before its effects are out. It takes one input
    /// at a time, in order of arrival.
    fn handling(&mut self, _node: Node, _input: &Input<P>) -> Span {
        Span::ZERO
    }

    /// What `job` takes of one of the processors of `node`.
    fn work(&mut self, node: Node, job: &P::Job) -> Span;

    /// The kind of `job`, by which schedulers tell work apart; from 1.
    fn kind(&self, _node: Node, _job: &P::Job) -> Kind {
        Kind(1)
    }

    /// What `node` has for work, asked for anew when it comes back. By default one processor, which
    /// takes work in the order of asking.
    fn processors(&mut self, _node: Node) -> Processors {
        Processors::in_order(1)
    }
}

/// Nothing takes any time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unmetered;

impl<P: Protocol> Hardware<P> for Unmetered {
    fn work(&mut self, _: Node, _: &P::Job) -> Span {
        Span::ZERO
    }
}
