//! Calls that wait for a lease, in the order in which they came.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use cavy_core::Instant;
use cavy_core::family::message::Call;

/// Calls whose deadline has passed that one step answers.
const BATCH: usize = 16;

/// A call, what it asks for, and until when it waits for an answer.
#[derive(Clone, Debug)]
pub(super) struct Waiting<R> {
    pub(super) call: Call,
    pub(super) request: R,
    pub(super) until: Option<Instant>,
}

/// Calls that wait.
#[derive(Debug)]
pub(super) struct Held<R> {
    calls: VecDeque<Waiting<R>>,
}

impl<R> Held<R> {
    pub(super) fn new() -> Held<R> {
        Held { calls: VecDeque::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    pub(super) fn push(&mut self, call: Waiting<R>) {
        self.calls.push_back(call);
    }

    pub(super) fn pop(&mut self) -> Option<Waiting<R>> {
        self.calls.pop_front()
    }

    /// The first deadline of those that wait.
    pub(super) fn wakes(&self) -> Option<Instant> {
        self.calls.iter().filter_map(|call| call.until).min()
    }

    /// Some of those whose deadline has passed: they wait no longer.
    pub(super) fn over(&mut self, now: Instant) -> Vec<Waiting<R>> {
        let mut over = Vec::new();
        let is_over = |call: &Waiting<R>| call.until.is_some_and(|until| until <= now);
        while over.len() < BATCH
            && let Some(at) = self.calls.iter().position(is_over)
        {
            over.extend(self.calls.remove(at));
        }
        over
    }
}
