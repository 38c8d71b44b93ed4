//! What both drivers share: the machine, the workers' seats, submitters that wait for room, and
//! whether the pool is closing. Always behind one mutex.
//!
//! Every method returns [`Mail`], which its caller sends after unlocking, so that nobody is woken
//! only to meet the lock.

use super::task::{JobError, Task};
use crate::dispatch::{Dispatch, Grant, Grants};
use crate::handoff::{Bell, Mailbox};
use cavy_core::family::cpu::{Kind, Req, Worker};
use cavy_core::{Instant, Span};
use parking_lot::{Condvar, Mutex};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// A job, whatever it returns.
pub(crate) type Job = Arc<dyn Task>;

/// What a worker is told.
pub(crate) enum Letter {
    /// Run this.
    Run(Grant<Job>),
    /// Go home.
    Exit,
}

/// How a letter reaches a worker.
pub(crate) enum Post {
    /// Inline driver: whoever holds a grant wakes the worker.
    Mailbox(Arc<Mailbox<Letter>>),
    /// Dedicated driver: a ring that the worker polls before it sleeps.
    Ring(rtrb::Producer<Letter>, Arc<Bell>),
}

/// A worker's place in the pool.
#[derive(Default)]
struct Seat {
    /// There while a thread sits on it.
    post: Option<Post>,
    busy: bool,
}

/// Letters to send after unlocking.
#[derive(Default)]
#[must_use = "a grant that is not sent is a slot lost"]
pub(crate) struct Mail {
    /// For the worker who asked.
    pub(crate) own: Option<Letter>,
    others: SmallVec<[(Arc<Mailbox<Letter>>, Letter); 1]>,
}

impl Mail {
    /// Sends the others' letters; what remains is the asker's own.
    pub(crate) fn send(self) -> Option<Letter> {
        for (mailbox, letter) in self.others {
            let unread = mailbox.put(letter);
            debug_assert!(unread.is_none(), "a worker was told twice");
        }
        self.own
    }
}

/// Tells a blocked submitter that it may go on.
#[derive(Debug, Default)]
pub(crate) struct Ticket {
    settled: Mutex<bool>,
    changed: Condvar,
}

impl Ticket {
    pub(crate) fn settle(&self) {
        *self.settled.lock() = true;
        self.changed.notify_one();
    }

    /// True when settled, false when the time was up before.
    pub(crate) fn wait_for(&self, timeout: Duration) -> bool {
        let mut settled = self.settled.lock();
        self.changed.wait_while_for(&mut settled, |settled| !*settled, timeout);
        *settled
    }
}

/// A job whose submitter waits until there is room.
struct Blocked {
    job: Job,
    arrived: Instant,
    ticket: Arc<Ticket>,
}

/// Ended entries tolerated in a list of blocked submitters before it is swept.
const SWEEP_AT: usize = 32;

pub(crate) struct Desk {
    pub(crate) dispatch: Dispatch<Job>,
    seats: Vec<Seat>,
    /// Who sits below this number stays. Seats are filled before the machine is told that it has
    /// more workers, and nobody may leave in between because it was one too many before.
    kept: u16,
    /// By type number.
    blocked: Vec<VecDeque<Blocked>>,
    blocked_count: usize,
    closed: bool,
}

impl Desk {
    pub(crate) fn new(dispatch: Dispatch<Job>, types: usize) -> Self {
        let blocked = (0..=types).map(|_| VecDeque::new()).collect();
        Desk { dispatch, seats: Vec::new(), kept: 0, blocked, blocked_count: 0, closed: false }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Nothing is left to do, and nothing will come.
    pub(crate) fn is_over(&self) -> bool {
        self.closed && self.dispatch.in_system() == 0
    }

    /// Seats below `count` that nobody sits on. Until the next [`Self::resize`], who sits on one
    /// of the others stays.
    pub(crate) fn vacant(&mut self, count: u16) -> Vec<Worker> {
        self.kept = count;
        let sits = |w: u16| self.seats.get(w as usize).is_some_and(|seat| seat.post.is_some());
        (0..count).filter(|&w| !sits(w)).map(Worker).collect()
    }

    /// A thread sits down.
    pub(crate) fn seat(&mut self, worker: Worker, post: Post) {
        let index = worker.0 as usize;
        if self.seats.len() <= index {
            self.seats.resize_with(index + 1, Seat::default);
        }
        self.seats[index] = Seat { post: Some(post), busy: false };
    }

    /// A job arrives; it comes back with the reason when it is refused. With a ticket it waits for
    /// room instead.
    pub(crate) fn arrive(
        &mut self,
        now: Instant,
        arrived: Instant,
        kind: Kind,
        job: Job,
        ticket: Option<Arc<Ticket>>,
    ) -> (Mail, Option<(Job, JobError)>) {
        if self.closed {
            if let Some(ticket) = ticket {
                ticket.settle();
            }
            return (Mail::default(), Some((job, JobError::Shutdown)));
        }
        let kind = if (kind.0 as usize) < self.blocked.len() { kind } else { Kind::UNKNOWN };
        let Some(ticket) = ticket else {
            let (grants, dropped) = self.dispatch.arrive(now, arrived, kind, job);
            let refused = dropped.map(|job| (job, JobError::Rejected));
            return (self.address(grants, None), refused);
        };
        if !self.blocked[kind.0 as usize].is_empty() {
            // Behind those who came before.
            self.block(kind, Blocked { job, arrived, ticket });
            return (Mail::default(), None);
        }
        let (grants, dropped) = self.dispatch.arrive(now, arrived, kind, job);
        match dropped {
            None => ticket.settle(),
            Some(job) => self.block(kind, Blocked { job, arrived, ticket }),
        }
        (self.address(grants, None), None)
    }

    fn block(&mut self, kind: Kind, blocked: Blocked) {
        let list = &mut self.blocked[kind.0 as usize];
        if list.len() >= SWEEP_AT {
            let before = list.len();
            list.retain(|blocked| !blocked.job.ended());
            self.blocked_count -= before - list.len();
        }
        list.push_back(blocked);
        self.blocked_count += 1;
    }

    /// `worker` ended a job, or skipped it when `service` is `None`. Its own letter is there when
    /// it goes on at once or goes home.
    pub(crate) fn finished(
        &mut self,
        now: Instant,
        worker: Worker,
        req: Req,
        service: Option<Span>,
    ) -> Mail {
        let mut grants = self.dispatch.finished(now, worker, req, service);
        if let Some(seat) = self.seats.get_mut(worker.0 as usize) {
            seat.busy = false;
        }
        self.readmit(now, &mut grants);
        let mut mail = self.address(grants, Some(worker));
        let staying = self.dispatch.workers().max(self.kept);
        let leaves = mail.own.is_none() && worker.0 >= staying;
        if self.is_over() {
            self.send_home(0, Some(worker), &mut mail);
        } else if leaves {
            self.send_home(worker.0, Some(worker), &mut mail);
        }
        mail
    }

    /// Lets blocked submitters try again, in their order within a type, until there is no room.
    fn readmit(&mut self, now: Instant, grants: &mut Grants<Job>) {
        if self.blocked_count == 0 {
            return;
        }
        for list in 0..self.blocked.len() {
            while let Some(Blocked { job, arrived, ticket }) = self.blocked[list].pop_front() {
                self.blocked_count -= 1;
                if job.ended() {
                    continue;
                }
                let (more, dropped) = self.dispatch.arrive(now, arrived, Kind(list as u16), job);
                grants.extend(more);
                match dropped {
                    None => ticket.settle(),
                    Some(job) => {
                        self.blocked[list].push_front(Blocked { job, arrived, ticket });
                        self.blocked_count += 1;
                        break;
                    }
                }
            }
        }
    }

    /// There are now `workers` workers; each below that number sits on its seat already.
    pub(crate) fn resize(&mut self, now: Instant, workers: u16) -> Mail {
        self.kept = 0;
        let mut grants = self.dispatch.resize(now, workers);
        self.readmit(now, &mut grants);
        let mut mail = self.address(grants, None);
        self.send_home(workers, None, &mut mail);
        mail
    }

    /// No job is taken any more. Returns those to refuse: submitters that wait for room and, unless
    /// the pool drains, all that wait.
    pub(crate) fn close(&mut self, drain: bool) -> (Mail, Vec<Job>) {
        self.closed = true;
        let mut refused: Vec<Job> = Vec::new();
        for blocked in self.blocked.iter_mut().flat_map(|list| list.drain(..)) {
            blocked.ticket.settle();
            refused.push(blocked.job);
        }
        self.blocked_count = 0;
        if !drain {
            refused.extend(self.dispatch.ungranted().cloned());
        }
        let mut mail = Mail::default();
        if self.is_over() {
            self.send_home(0, None, &mut mail);
        }
        (mail, refused)
    }

    /// Writes the letters of `grants`; that of `asker` becomes its own.
    fn address(&mut self, grants: Grants<Job>, asker: Option<Worker>) -> Mail {
        let mut mail = Mail::default();
        for grant in grants {
            let worker = grant.worker;
            self.seats[worker.0 as usize].busy = true;
            self.write(worker, Letter::Run(grant), asker, &mut mail);
        }
        mail
    }

    /// Workers numbered `from` and up that do nothing leave their seats.
    fn send_home(&mut self, from: u16, asker: Option<Worker>, mail: &mut Mail) {
        for index in from as usize..self.seats.len() {
            let seat = &self.seats[index];
            if seat.post.is_some() && !seat.busy {
                self.write(Worker(index as u16), Letter::Exit, asker, mail);
                self.seats[index].post = None;
            }
        }
    }

    fn write(&mut self, to: Worker, letter: Letter, asker: Option<Worker>, mail: &mut Mail) {
        match &mut self.seats[to.0 as usize].post {
            Some(Post::Mailbox(_)) if asker == Some(to) => mail.own = Some(letter),
            Some(Post::Mailbox(mailbox)) => mail.others.push((mailbox.clone(), letter)),
            Some(Post::Ring(ring, bell)) => {
                // A ring holds a job and an exit, which is all a worker can be told at once.
                let full = ring.push(letter).is_err();
                debug_assert!(!full, "a worker was told three times");
                bell.ring();
            }
            None => debug_assert!(false, "{to:?} has no thread"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::task::Ran;
    use crate::setup::Setup;
    use cavy_sched::config::Policy;

    /// Is never run: the test plays the workers.
    struct Idle;

    impl Task for Idle {
        fn run(&self) -> Ran {
            unreachable!("nobody runs it")
        }
        fn deliver(&self) {}
        fn refuse(&self, _: JobError) -> bool {
            true
        }
        fn ended(&self) -> bool {
            false
        }
    }

    fn runs(letter: &Option<Letter>) -> bool {
        matches!(letter, Some(Letter::Run(_)))
    }

    #[test]
    fn nobody_goes_home_whose_seat_a_growth_counts_on() {
        let setup = Setup { workers: 3, policy: Policy::CentralFcfs, ..Setup::default() };
        let mut desk = Desk::new(Dispatch::new(&setup).expect("a legal setup"), 1);
        let boxes: Vec<Arc<Mailbox<Letter>>> = (0..5).map(|_| Arc::default()).collect();
        let sit = |desk: &mut Desk, worker: Worker| {
            desk.seat(worker, Post::Mailbox(boxes[worker.0 as usize].clone()));
        };
        for worker in desk.vacant(3) {
            sit(&mut desk, worker);
        }
        let mut at = 0;
        let mut now = || {
            at += 1_000;
            Instant::from_ns(at)
        };
        let mut given = Vec::new();
        for _ in 0..3 {
            let time = now();
            let (mail, refused) = desk.arrive(time, time, Kind(1), Arc::new(Idle), None);
            assert!(refused.is_none());
            for (_, letter) in &mail.others {
                let Letter::Run(grant) = letter else { panic!("a job") };
                given.push((grant.worker, grant.req));
            }
            mail.send();
        }
        assert_eq!(given.len(), 3, "all three are busy");
        let mail = desk.resize(now(), 1);
        assert!(mail.others.is_empty(), "who is busy stays until he has finished");
        // The pool grows again: two seats are vacant, and 1 and 2 are counted on.
        for worker in desk.vacant(5) {
            sit(&mut desk, worker);
        }
        for (worker, req) in given {
            let own = desk.finished(now(), worker, req, None).send();
            assert!(own.is_none() || runs(&own), "{worker:?} must not go home");
        }
        let _ = desk.resize(now(), 5).send();
        assert!(desk.seats.iter().all(|seat| seat.post.is_some()), "all five have a thread");
    }
}
