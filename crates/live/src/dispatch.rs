//! The one place where a machine is driven: inputs in, grants out.
//!
//! A [`Dispatch`] keeps what the machine names: the payload and the stamps of every request in the
//! system. It takes no decision. Both drivers of the pool and the slots use it, so a run of any of
//! them is recorded and replayed in the same way.

use crate::metrics::{Reservation, TypeStats, histogram};
use crate::record::pool::Recording;
use crate::setup::{BuildError, Setup};
use cavy_core::family::cpu::{Effect, Input, Kind, Req, Timer, Worker};
use cavy_core::{Cx, Instant, Machine, Out, Outbox, Purpose, Span, Stream};
use cavy_sched::config::AnyPolicy;
use hdrhistogram::Histogram;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// Reservations kept in the update log.
const UPDATES_KEPT: usize = 1_024;

/// The machine starts a request on a worker.
#[derive(Debug)]
pub(crate) struct Grant<P> {
    pub(crate) worker: Worker,
    pub(crate) req: Req,
    pub(crate) kind: Kind,
    pub(crate) arrived: Instant,
    pub(crate) payload: P,
}

/// What one step granted: one request in nearly all cases.
pub(crate) type Grants<P> = SmallVec<[Grant<P>; 1]>;

/// A request in the system; its name is its index.
#[derive(Debug)]
struct Request<P> {
    /// Until it is granted.
    payload: Option<P>,
    kind: Kind,
    arrived: Instant,
    granted: Instant,
}

/// Decisions about one type.
#[derive(Clone, Debug)]
struct Tally {
    arrivals: u64,
    starts: u64,
    stolen: u64,
    drops: u64,
    finished: u64,
    occupancy: Histogram<u64>,
}

/// A machine, the requests it knows, and the account of what it decided.
pub(crate) struct Dispatch<P> {
    machine: Box<dyn AnyPolicy>,
    rng: Stream,
    outbox: Outbox<Effect, Timer>,
    last: Instant,
    workers: u16,
    requests: Vec<Request<P>>,
    free: Vec<u32>,
    in_system: usize,
    tallies: Vec<Tally>,
    updates: VecDeque<Reservation>,
    recording: Option<Recording>,
}

/// What a step came to.
struct Step<P> {
    grants: Grants<P>,
    dropped: Option<P>,
}

impl<P> Dispatch<P> {
    pub(crate) fn new(setup: &Setup) -> Result<Self, BuildError> {
        let machine = setup.machine()?;
        let tally = Tally {
            arrivals: 0,
            starts: 0,
            stolen: 0,
            drops: 0,
            finished: 0,
            occupancy: histogram(),
        };
        let mut dispatch = Dispatch {
            rng: Stream::keyed(setup.seed, 0, Purpose::Machine),
            outbox: Outbox::with_capacity(machine.effects_max()),
            machine,
            last: Instant::ZERO,
            workers: setup.workers,
            requests: Vec::new(),
            free: Vec::new(),
            in_system: 0,
            tallies: vec![tally; setup.names.len() + 1],
            updates: VecDeque::new(),
            recording: setup.start_recording()?,
        };
        dispatch.machine.start(&mut Cx::new(
            Instant::ZERO,
            &mut dispatch.rng,
            &mut dispatch.outbox,
        ));
        if let Some(recording) = &mut dispatch.recording {
            recording.outputs(dispatch.outbox.entries());
        }
        dispatch.carry_out(Instant::ZERO);
        Ok(dispatch)
    }

    /// Requests that wait or run.
    pub(crate) fn in_system(&self) -> usize {
        self.in_system
    }

    /// Workers the machine may use.
    pub(crate) fn workers(&self) -> u16 {
        self.workers
    }

    /// A request arrives. What the step granted, and the request itself when the machine has no
    /// place for it: both at once are possible, when the arrival made the machine revise its plan.
    pub(crate) fn arrive(
        &mut self,
        now: Instant,
        arrived: Instant,
        kind: Kind,
        payload: P,
    ) -> (Grants<P>, Option<P>) {
        let kind = if (kind.0 as usize) < self.tallies.len() { kind } else { Kind::UNKNOWN };
        let request = Request { payload: Some(payload), kind, arrived, granted: now };
        let req = match self.free.pop() {
            Some(index) => {
                self.requests[index as usize] = request;
                Req(index)
            }
            None => {
                self.requests.push(request);
                Req(self.requests.len() as u32 - 1)
            }
        };
        self.tallies[kind.0 as usize].arrivals += 1;
        self.in_system += 1;
        let step = self.step(now, Input::Arrive { req, kind });
        (step.grants, step.dropped)
    }

    /// `worker` is done with `req`. `service` is what it measured itself; `None` when it ran
    /// nothing, because nobody waits for the request any more.
    pub(crate) fn finished(
        &mut self,
        now: Instant,
        worker: Worker,
        req: Req,
        service: Option<Span>,
    ) -> Grants<P> {
        if let (Some(request), Some(_)) = (self.requests.get(req.0 as usize), service) {
            let tally = &mut self.tallies[request.kind.0 as usize];
            tally.finished += 1;
            let now = now.max(self.last);
            tally.occupancy.saturating_record(now.since(request.granted).as_ns());
        }
        let input = match service {
            Some(_) => Input::Finished { worker, req, service },
            None => Input::Skipped { worker, req },
        };
        let step = self.step(now, input);
        // The name is free only now: the step must not have used it again.
        self.free.push(req.0);
        self.in_system -= 1;
        step.grants
    }

    /// There are now `workers` workers.
    pub(crate) fn resize(&mut self, now: Instant, workers: u16) -> Grants<P> {
        self.workers = workers;
        self.step(now, Input::Resize { workers }).grants
    }

    fn step(&mut self, now: Instant, input: Input) -> Step<P> {
        // Two threads may read the clock in one order and get here in the other ([law 2]).
        let now = now.max(self.last);
        self.last = now;
        if let Some(recording) = &mut self.recording {
            recording.input(now, input);
        }
        self.machine.handle(input, &mut Cx::new(now, &mut self.rng, &mut self.outbox));
        if let Some(recording) = &mut self.recording {
            recording.outputs(self.outbox.entries());
        }
        self.carry_out(now)
    }

    fn carry_out(&mut self, now: Instant) -> Step<P> {
        let mut step = Step { grants: SmallVec::new(), dropped: None };
        for out in self.outbox.drain() {
            match out {
                Out::Effect(Effect::Run { worker, req, stolen }) => {
                    let request = &mut self.requests[req.0 as usize];
                    let tally = &mut self.tallies[request.kind.0 as usize];
                    tally.starts += 1;
                    tally.stolen += u64::from(stolen);
                    request.granted = now;
                    let Some(payload) = request.payload.take() else { continue };
                    let (kind, arrived) = (request.kind, request.arrived);
                    step.grants.push(Grant { worker, req, kind, arrived, payload });
                }
                Out::Effect(Effect::Drop { req, .. }) => {
                    let request = &mut self.requests[req.0 as usize];
                    self.tallies[request.kind.0 as usize].drops += 1;
                    step.dropped = request.payload.take();
                    self.free.push(req.0);
                    self.in_system -= 1;
                }
                Out::Effect(Effect::Reserved { version }) => {
                    if let Some(table) = self.machine.reservation() {
                        if self.updates.len() == UPDATES_KEPT {
                            self.updates.pop_front();
                        }
                        let table = table.clone();
                        self.updates.push_back(Reservation { at: now, version, table });
                    }
                }
                // Only preemptive policies preempt and arm the family's one timer, the slice, and
                // `Setup` refuses those.
                Out::Effect(Effect::Preempt { .. }) | Out::Arm(..) | Out::Disarm(..) => {
                    debug_assert!(false, "a preemptive machine in a pool");
                }
            }
        }
        step
    }

    /// Hands what was recorded to the writing thread; false when nothing is recorded any more.
    pub(crate) fn flush_recording(&mut self) -> bool {
        let Some(recording) = &mut self.recording else { return false };
        recording.flush();
        true
    }

    /// Ends the recording, if there is one.
    pub(crate) fn take_recording(&mut self) -> Option<Recording> {
        self.recording.take()
    }

    /// Requests that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.machine.waiting()
    }

    /// Reservations applied, oldest first.
    pub(crate) fn updates(&self) -> Vec<Reservation> {
        self.updates.iter().cloned().collect()
    }

    /// Payloads that were not granted yet.
    pub(crate) fn ungranted(&self) -> impl Iterator<Item = &P> {
        self.requests.iter().filter_map(|request| request.payload.as_ref())
    }

    /// Fills in what the dispatcher knows of each type.
    pub(crate) fn account(&self, types: &mut [TypeStats]) {
        for (tally, stats) in self.tallies.iter().zip(types) {
            stats.arrivals = tally.arrivals;
            stats.starts = tally.starts;
            stats.stolen = tally.stolen;
            stats.drops = tally.drops;
            stats.finished = tally.finished;
            stats.occupancy = tally.occupancy.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavy_sched::{Policy, darc};
    use std::time::Duration;

    const A: Kind = Kind(1);
    const B: Kind = Kind(2);
    const C: Kind = Kind(3);

    #[test]
    #[allow(non_snake_case)]
    fn arrive__may_grant_and_drop_in_one_step() {
        let config = darc::Config { window: 5, correction: Span::ZERO, ..darc::Config::default() };
        let mut setup = Setup {
            workers: 3,
            names: ["a", "b", "c"].map(String::from).to_vec(),
            policy: Policy::Darc { config, hinted: true },
            queue_limit: 2,
            ..Setup::default()
        };
        for (name, ms) in [("a", 1), ("b", 10), ("c", 100)] {
            setup.hint(name, Duration::from_millis(ms), 1.0 / 3.0);
        }
        let mut dispatch = Dispatch::<()>::new(&setup).expect("legal");
        let mut now = Instant::ZERO;
        // The window sees that b is the short type in truth.
        for (kind, ms) in [(A, 50), (B, 1), (C, 100)].into_iter().cycle().take(6) {
            let (grants, dropped) = dispatch.arrive(now, now, kind, ());
            assert!(dropped.is_none());
            now += Span::from_ms(ms);
            let service = Some(Span::from_ms(ms));
            dispatch.finished(now, grants[0].worker, grants[0].req, service);
        }
        // c fills its worker and its queue, b its worker; the worker reserved to a stays idle.
        for (kind, granted) in [(C, 1), (C, 0), (C, 0), (B, 1), (B, 0), (B, 0)] {
            let (grants, dropped) = dispatch.arrive(now, now, kind, ());
            assert_eq!((grants.len(), dropped), (granted, None), "{kind:?}");
        }
        now += Span::from_ms(1_000);
        let (grants, dropped) = dispatch.arrive(now, now, C, ());
        assert_eq!(dropped, Some(()), "c's queue is full");
        assert_eq!(grants.iter().map(|grant| grant.kind).collect::<Vec<_>>(), [B]);
    }
}
