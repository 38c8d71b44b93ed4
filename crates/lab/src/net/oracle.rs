//! The best that could be done: a scheduler that knows every message and pays for nothing.
//!
//! Whenever a message comes or ends, all unfinished ones are looked at from the fewest remaining
//! bytes to the most, and each is sent whose sender and receiver are both free: shortest remaining
//! first over the whole network, greedily, with no queue inside it and no packet of control
//! `[homa 3.10]`. Not a bound in the strict sense, since the greedy order is not always the best.
//!
//! A message occupies its two ends for its time on the wire at the slower of their links, as
//! [`Ideal::wire_bytes`] counts it, and arrives the rest of its least time later; alone it takes
//! [`Ideal::time`] exactly. One-way messages only.

use super::clock::{PS_PER_NS, Ps, instant, ps};
use super::ideal::Ideal;
use super::observer::{Done, Observer};
use super::packets::Delays;
use super::report::{ClassRecord, Ended, MessageCounts, PacketCounts, Recorder, Report};
use super::setup::Setup;
use super::traffic::{Submission, Traffic};
use crate::pending::{Class, Key, Pending, Ties};
use crate::trail::Trail;
use cavy_core::Instant;
use cavy_core::family::Node;
use std::collections::BTreeSet;

/// A message that is not finished.
#[derive(Clone, Copy)]
struct Job {
    from: u32,
    to: u32,
    length_bytes: u32,
    class: u16,
    number: u64,
    submitted_at: Ps,
    /// Time on the wire that it still needs, while it waits.
    left: Ps,
    /// When it will have been sent, while it is being sent.
    done_at: Option<Ps>,
    /// Its number among all messages.
    sequence: u64,
}

/// Runs the oracle on the traffic of a run. Of `setup` the network's times, the spans and the bins
/// matter; queues, routes and faults do not. Questions count as one-way messages. There are no
/// packets, so `observer` hears of messages that are finished, and of nothing else.
///
/// # Panics
/// When [`Setup::check`] fails.
pub fn run<T: Traffic, P: Pending>(
    setup: &Setup,
    traffic: T,
    pending: &mut P,
    observer: &mut impl Observer<(), ()>,
) -> Report {
    if let Err(error) = setup.check() {
        panic!("{error}");
    }
    pending.clear();
    let mut oracle = Oracle::new(setup, traffic, pending, observer);
    oracle.go();
    oracle.finish()
}

struct Oracle<'a, T, P, O> {
    setup: &'a Setup,
    traffic: T,
    pending: &'a mut P,
    observer: &'a mut O,
    ties: Ties,
    ideal: Ideal,
    recorder: Recorder<'a>,
    jobs: Vec<Job>,
    free: Vec<u32>,
    /// Waiting jobs by (time left, sequence, job).
    waiting: BTreeSet<(Ps, u64, u32)>,
    /// Jobs being sent by (end, sequence, job).
    running: BTreeSet<(Ps, u64, u32)>,
    /// The end of what each host sends and receives.
    sends_until: Vec<Option<Ps>>,
    receives_until: Vec<Option<Ps>>,
    /// Jobs to start and to stop, of the match being made.
    starts: Vec<u32>,
    stops: Vec<u32>,
    /// The match in which a host was last found a partner, as sender and as receiver.
    matched: Vec<(u64, u64)>,
    matches: u64,
    next: Vec<Option<Submission>>,
    numbers: Vec<u64>,
    backlog: u64,
    backlog_since: Ps,
    integrals: [f64; 2],
    finished_bytes: u64,
    counts: MessageCounts,
    now: Ps,
    events: u64,
    trail: Trail,
    ended: Ended,
}

impl<'a, T: Traffic, P: Pending, O: Observer<(), ()>> Oracle<'a, T, P, O> {
    fn new(setup: &'a Setup, traffic: T, pending: &'a mut P, observer: &'a mut O) -> Self {
        let topology = &setup.network.topology;
        let hosts = topology.hosts() as usize;
        let mut ideal = Ideal::new(&setup.network);
        if setup.ideal_without_latency_in_rack {
            ideal = ideal.without_latency_in_rack();
        }
        let own = setup.own_best.as_ref().map(|best| (best, topology));
        Oracle {
            recorder: Recorder::new(setup.bins.clone(), ideal.clone(), own, ps(setup.duration)),
            ties: setup.shuffle_ties.map_or_else(Ties::in_order, Ties::shuffled),
            ideal,
            jobs: Vec::new(),
            free: Vec::new(),
            waiting: BTreeSet::new(),
            running: BTreeSet::new(),
            sends_until: vec![None; hosts],
            receives_until: vec![None; hosts],
            starts: Vec::new(),
            stops: Vec::new(),
            matched: vec![(0, 0); hosts],
            matches: 0,
            next: vec![None; hosts],
            numbers: vec![0; hosts],
            backlog: 0,
            backlog_since: 0,
            integrals: [0.0; 2],
            finished_bytes: 0,
            counts: MessageCounts::default(),
            now: 0,
            events: 0,
            trail: Trail::new(),
            ended: Ended::Finished,
            setup,
            traffic,
            pending,
            observer,
        }
    }

    fn push(&mut self, at: Ps, class: Class, slot: u32) {
        self.pending.push(Key::new(Instant::from_ns(at), class, self.ties.next(), slot));
    }

    fn go(&mut self) {
        for host in 0..self.next.len() as u32 {
            self.fetch(Node(host));
        }
        let end = ps(self.setup.duration) + ps(self.setup.drain);
        while let Some(key) = self.pending.pop() {
            let at = key.at().as_ns();
            let over = at > end || self.jobs.len() >= Key::SLOTS as usize;
            self.account(at.min(end));
            self.now = at.min(end);
            if over {
                self.ended = if at > end { Ended::Time } else { Ended::MessageLimit };
                return;
            }
            self.events += 1;
            match key.class() {
                Class::Arrival => self.arrive(Node(key.slot())),
                _ => self.complete(key.slot()),
            }
        }
    }

    fn fetch(&mut self, host: Node) {
        if self.next[host.0 as usize].is_some() {
            return;
        }
        if let Some(submission) = self.traffic.next(host, self.now) {
            let at = submission.at.max(self.now);
            if at < ps(self.setup.duration) {
                self.next[host.0 as usize] = Some(submission);
                self.push(at, Class::Arrival, host.0);
            }
        }
    }

    fn arrive(&mut self, host: Node) {
        let Some(submission) = self.next[host.0 as usize].take() else { return };
        let Submission { at, to, length_bytes, class, .. } = submission;
        let job = Job {
            from: host.0,
            to: to.0,
            length_bytes,
            class,
            number: self.numbers[host.0 as usize],
            submitted_at: at,
            left: self.wire_time(host, to, length_bytes),
            done_at: None,
            sequence: self.counts.submitted,
        };
        self.numbers[host.0 as usize] += 1;
        self.counts.submitted += 1;
        self.backlog += u64::from(length_bytes);
        self.trail.fold(instant(self.now), u64::from(host.0) << 40 ^ job.number);
        let slot = match self.free.pop() {
            Some(slot) => {
                self.jobs[slot as usize] = job;
                slot
            }
            None => {
                self.jobs.push(job);
                self.jobs.len() as u32 - 1
            }
        };
        self.waiting.insert((job.left, job.sequence, slot));
        self.fetch(host);
        // Where either end is busy with less than this, it could not be sent, and then all the
        // others go on as they did.
        let done_at = self.now + job.left;
        let busy = |until: Option<Ps>| until.is_some_and(|until| until <= done_at);
        if !busy(self.sends_until[host.0 as usize]) && !busy(self.receives_until[to.0 as usize]) {
            self.match_anew();
        }
    }

    /// The job in `slot` has been sent, unless it was stopped since and this is not its end.
    fn complete(&mut self, slot: u32) {
        let job = self.jobs[slot as usize];
        if job.done_at != Some(self.now) {
            return;
        }
        self.running.remove(&(self.now, job.sequence, slot));
        self.sends_until[job.from as usize] = None;
        self.receives_until[job.to as usize] = None;
        self.jobs[slot as usize].done_at = None;
        self.free.push(slot);
        self.counts.finished += 1;
        self.backlog -= u64::from(job.length_bytes);
        if self.now >= ps(self.setup.warmup) && self.now < ps(self.setup.duration) {
            self.finished_bytes += u64::from(job.length_bytes);
        }
        let (from, to) = (Node(job.from), Node(job.to));
        let alone = self.ideal.time(from, to, job.length_bytes);
        let rest = alone - self.wire_time(from, to, job.length_bytes);
        let done = Done {
            from,
            to,
            number: job.number,
            length_bytes: job.length_bytes,
            answer_bytes: 0,
            submitted_at: job.submitted_at,
            at: self.now + rest,
            delays: Delays::default(),
            counted: job.submitted_at >= ps(self.setup.warmup),
            class: job.class,
        };
        self.recorder.record(&done);
        self.observer.finished(&done);
        self.trail.fold(instant(self.now), 1 << 63 ^ u64::from(job.from) << 40 ^ job.number);
        self.traffic.ended(from);
        self.fetch(from);
        self.match_anew();
    }

    fn wire_time(&self, from: Node, to: Node, length_bytes: u32) -> Ps {
        let wire = self.ideal.wire_bytes(length_bytes);
        let [up, down] = self.ideal.rates(from, to);
        up.time_long(wire).max(down.time_long(wire))
    }

    /// Goes through all jobs, least time left first, and sends those whose ends are both free.
    fn match_anew(&mut self) {
        self.matches += 1;
        let mut free_ends = self.matched.len();
        let mut waiting = self.waiting.iter().peekable();
        let mut running = self.running.iter().peekable();
        loop {
            let left = |&&(done_at, sequence, _): &&(Ps, u64, u32)| (done_at - self.now, sequence);
            let runs = match (waiting.peek(), running.peek()) {
                (Some(&&(wait, sequence, _)), Some(run)) => left(run) < (wait, sequence),
                (None, Some(_)) => true,
                (Some(_), None) if free_ends > 0 => false,
                _ => break,
            };
            let next = if runs { running.next() } else { waiting.next() };
            let Some(&(_, _, slot)) = next else { break };
            let job = &self.jobs[slot as usize];
            let free = self.matched[job.from as usize].0 != self.matches
                && self.matched[job.to as usize].1 != self.matches;
            if free {
                self.matched[job.from as usize].0 = self.matches;
                self.matched[job.to as usize].1 = self.matches;
                free_ends -= 1;
            }
            match (free, runs) {
                (true, false) => self.starts.push(slot),
                (false, true) => self.stops.push(slot),
                _ => {}
            }
        }
        self.stop_and_start();
    }

    fn stop_and_start(&mut self) {
        while let Some(slot) = self.stops.pop() {
            let job = &mut self.jobs[slot as usize];
            let Some(done_at) = job.done_at.take() else { continue };
            job.left = done_at - self.now;
            self.running.remove(&(done_at, job.sequence, slot));
            self.waiting.insert((job.left, job.sequence, slot));
            self.sends_until[job.from as usize] = None;
            self.receives_until[job.to as usize] = None;
        }
        let mut starts = core::mem::take(&mut self.starts);
        for slot in starts.drain(..) {
            let job = &mut self.jobs[slot as usize];
            let done_at = self.now + job.left;
            job.done_at = Some(done_at);
            self.waiting.remove(&(job.left, job.sequence, slot));
            self.running.insert((done_at, job.sequence, slot));
            self.sends_until[job.from as usize] = Some(done_at);
            self.receives_until[job.to as usize] = Some(done_at);
            self.push(done_at, Class::Completion, slot);
        }
        self.starts = starts;
    }

    fn account(&mut self, to: Ps) {
        let (warm, until) = (ps(self.setup.warmup), ps(self.setup.duration));
        let middle = warm + (until - warm) / 2;
        let halves = [(warm, middle), (middle, until)];
        for (integral, (from, end)) in self.integrals.iter_mut().zip(halves) {
            let passed = to.min(end).saturating_sub(self.backlog_since.max(from));
            *integral += self.backlog as f64 * passed as f64;
        }
        self.backlog_since = to;
    }

    fn finish(mut self) -> Report {
        let hosts = self.matched.len() as f64;
        let jobs = self.waiting.iter().chain(&self.running).map(|entry| entry.2);
        for job in jobs.map(|slot| &self.jobs[slot as usize]) {
            self.counts.unfinished += 1;
            let counted = job.submitted_at >= ps(self.setup.warmup);
            self.counts.unfinished_counted += u64::from(counted);
        }
        self.counts.unfinished_bytes = self.backlog;
        let time = (ps(self.setup.duration) - ps(self.setup.warmup)) as f64;
        let time_s = time / (PS_PER_NS as f64 * 1e9);
        Report {
            bins: self.recorder.finish(),
            messages: self.counts,
            packets: PacketCounts::default(),
            backlog_bytes: self.integrals.map(|integral| integral / (time / 2.0) / hosts),
            goodput_bits_per_s: 8.0 * self.finished_bytes as f64 / time_s / hosts,
            payload_bytes: 0,
            retransmitted_bytes: 0,
            retransmitted_by_host: Vec::new(),
            classes: [ClassRecord::default(); 4],
            downlinks: Vec::new(),
            level_bytes: [0; 8],
            steps: 0,
            events: self.events,
            ended_at: self.now,
            ended: self.ended,
            trail: self.trail,
        }
    }
}
