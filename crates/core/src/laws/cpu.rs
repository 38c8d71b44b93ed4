//! A legal world for machines of the cpu family, with the oracles that hold for all of them.

use super::Environment;
use crate::family::cpu::{Effect, Input, Kind, Req, Scheduler, Worker};
use crate::stream::{Purpose, Stream};
use crate::time::{Instant, Span};
use alloc::collections::{BTreeMap, BTreeSet};
use core::marker::PhantomData;

/// What the world offers.
#[derive(Clone, Debug)]
pub struct Offer {
    /// Workers, or slots for policies that run each request on its own.
    pub workers: u16,
    /// Mean gap between arrivals.
    pub gap: Span,
    /// Service time of each type; type `i` of this slice is `Kind(i + 1)`.
    pub services: &'static [Span],
    /// Send now and then a type that nobody registered.
    pub unknown: bool,
    /// Change the number of workers now and then, between 1 and `workers`.
    pub resize: bool,
    /// Requests in all; then the queues drain.
    pub requests: u32,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    since: Instant,
    left: Span,
    kind: Kind,
}

/// Runs what it is told to run, and panics when told something illegal.
///
/// Oracles: a request starts once and ends once, or is dropped once, never both ([persephone I1]);
/// no worker runs two requests ([persephone I2]); only workers that exist start anything.
pub struct Cpu<M, F> {
    offer: Offer,
    make: F,
    draws: Stream,
    next_arrival: Option<(Instant, Kind)>,
    next_resize: Option<Instant>,
    workers: u16,
    sent: u32,
    running: BTreeMap<Worker, (Req, Instant)>,
    held: BTreeMap<Req, Held>,
    yielding: BTreeMap<Worker, (Req, Instant)>,
    waiting: BTreeSet<Req>,
    /// Requests that ran to their end.
    pub finished: u32,
    /// Requests that were dropped.
    pub dropped: u32,
    /// Starts, in order: time, worker, request.
    pub starts: alloc::vec::Vec<(Instant, Worker, Req)>,
    /// The type each request was sent as, by its number.
    pub kinds: alloc::vec::Vec<Kind>,
    machine: PhantomData<M>,
}

impl<M: Scheduler, F: Fn() -> M> Cpu<M, F> {
    /// A world that offers `offer` to machines from `make`; draws depend on `seed` alone.
    pub fn new(offer: Offer, seed: u64, make: F) -> Self {
        Cpu {
            workers: offer.workers,
            next_resize: offer.resize.then_some(Instant::from_ns(50_000)),
            offer,
            make,
            draws: Stream::keyed(seed, 1, Purpose::Test),
            next_arrival: None,
            sent: 0,
            running: BTreeMap::new(),
            held: BTreeMap::new(),
            yielding: BTreeMap::new(),
            waiting: BTreeSet::new(),
            finished: 0,
            dropped: 0,
            starts: alloc::vec::Vec::new(),
            kinds: alloc::vec::Vec::new(),
            machine: PhantomData,
        }
    }

    /// Requests that neither finished nor were dropped.
    pub fn unresolved(&self) -> usize {
        self.held.len()
    }

    fn draw_arrival(&mut self, now: Instant) {
        if self.next_arrival.is_none() && self.sent < self.offer.requests {
            let gap = self.draws.below(2 * self.offer.gap.as_ns() + 1);
            let kinds = self.offer.services.len() as u64;
            let kind = match self.draws.below(kinds + u64::from(self.offer.unknown)) {
                k if k < kinds => Kind(k as u16 + 1),
                _ if self.draws.below(2) == 0 => Kind::UNKNOWN,
                _ => Kind(kinds as u16 + 7),
            };
            self.next_arrival = Some((now + Span::from_ns(gap), kind));
        }
    }

    fn service_of(&self, kind: Kind) -> Span {
        let index = (kind.0 as usize).wrapping_sub(1);
        self.offer.services.get(index).copied().unwrap_or(Span::from_us(3))
    }
}

impl<M: Scheduler, F: Fn() -> M> Environment for Cpu<M, F> {
    type Machine = M;

    fn machine(&self) -> M {
        (self.make)()
    }

    fn next_at(&mut self, now: Instant, _: &mut Stream) -> Option<Instant> {
        self.draw_arrival(now);
        let finish = self.running.values().map(|&(_, at)| at).min();
        let yielded = self.yielding.values().map(|&(_, at)| at).min();
        let arrival = self.next_arrival.map(|(at, _)| at);
        let resize = self.next_resize.filter(|_| self.sent < self.offer.requests);
        [finish, yielded, arrival, resize].into_iter().flatten().min()
    }

    fn take(&mut self, now: Instant) -> Input {
        if let Some((&worker, &(req, _))) = self.running.iter().find(|(_, (_, at))| *at <= now) {
            self.running.remove(&worker);
            let held = self.held.remove(&req).expect("a running request is held");
            self.finished += 1;
            if req.0 % 13 == 12 {
                return Input::Skipped { worker, req };
            }
            return Input::Finished { worker, req, service: Some(self.service_of(held.kind)) };
        }
        if let Some((&worker, &(req, _))) = self.yielding.iter().find(|(_, (_, at))| *at <= now) {
            self.yielding.remove(&worker);
            self.waiting.insert(req);
            return Input::Yielded { worker, req };
        }
        if self.next_resize.is_some_and(|at| at <= now) {
            self.next_resize = Some(now + Span::from_us(200));
            self.workers = 1 + self.draws.below(u64::from(self.offer.workers)) as u16;
            return Input::Resize { workers: self.workers };
        }
        let (_, kind) = self.next_arrival.take().expect("next_at promised an input");
        let req = Req(self.sent);
        self.sent += 1;
        self.kinds.push(kind);
        self.held.insert(req, Held { since: now, left: self.service_of(kind), kind });
        self.waiting.insert(req);
        Input::Arrive { req, kind }
    }

    fn apply(&mut self, now: Instant, effect: &Effect) {
        match *effect {
            Effect::Run { worker, req, .. } => {
                assert!(worker.0 < self.workers, "{worker:?} of {} runs {req:?}", self.workers);
                assert!(self.waiting.remove(&req), "I1: {req:?} runs but is not waiting");
                let busy =
                    self.running.contains_key(&worker) || self.yielding.contains_key(&worker);
                assert!(!busy, "I2: {worker:?} is busy and should run {req:?}");
                let held = self.held.get_mut(&req).expect("a waiting request is held");
                held.since = now;
                self.running.insert(worker, (req, now + held.left));
                self.starts.push((now, worker, req));
            }
            Effect::Preempt { worker } => {
                let Some((req, _)) = self.running.remove(&worker) else { return };
                let held = self.held.get_mut(&req).expect("a running request is held");
                held.left = held.left.saturating_sub(now.since(held.since));
                self.yielding.insert(worker, (req, now + Span::from_us(1)));
            }
            Effect::Drop { req, .. } => {
                assert!(self.waiting.remove(&req), "I1: {req:?} dropped but not waiting");
                self.held.remove(&req);
                self.dropped += 1;
            }
            Effect::Reserved { .. } => {}
        }
    }
}
