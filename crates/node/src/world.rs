//! The thread that steps the machine.

use crate::carrier::{Carrier, Outward, Rounds, Sending};
use crate::codec::Codec;
use crate::figures::Figures;
use crate::inbox::{Answer, Event, Inbox};
use crate::log::Writer;
use crate::record::{Recorder, Step};
use crate::timers::Timers;
use crate::wall::Wall;
use crate::work::Bench;
use cavy_core::family::Node;
use cavy_core::family::message::{Call, Effect, Entry, Input, Protocol, Talker, Via};
use cavy_core::{Cx, Instant, Out, Outbox, Span, Stream};
use parking_lot::Mutex;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Timers that fire before new inputs are looked at.
const TIMERS: usize = 256;

type Of<M> = <M as Talker>::Protocol;

/// What an earlier life stored, and whether its end was torn off.
pub(crate) type Replay<P> = (Vec<(Entry, <P as Protocol>::Record)>, bool);

/// A message that is not due.
struct Held<P: Protocol> {
    due: Instant,
    serial: u64,
    session: u64,
    from: Node,
    via: Via,
    message: P::Message,
}

impl<P: Protocol> PartialEq for Held<P> {
    fn eq(&self, other: &Self) -> bool {
        (self.due, self.serial) == (other.due, other.serial)
    }
}

impl<P: Protocol> Eq for Held<P> {}

impl<P: Protocol> PartialOrd for Held<P> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<P: Protocol> Ord for Held<P> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due, self.serial).cmp(&(other.due, other.serial))
    }
}

/// Told what machines tell observers.
pub(crate) type Observe<P> = Box<dyn FnMut(Instant, &<P as Protocol>::Note) + Send>;

/// What a node is made of, beside its machine.
pub(crate) struct World<M: Talker, C> {
    pub me: Node,
    pub codec: Arc<C>,
    pub rng: Stream,
    pub wall: Wall,
    pub inbox: Arc<Inbox<M>>,
    pub outward: Arc<Outward>,
    pub carrier: Arc<Mutex<Carrier<M, C>>>,
    pub writer: Option<Writer>,
    pub recorder: Option<Recorder>,
    pub bench: Option<Bench<<Of<M> as Protocol>::Job>>,
    pub figures: Arc<Figures>,
    pub observe: Observe<Of<M>>,
}

pub(crate) struct Stepper<M: Talker, C> {
    machine: M,
    world: World<M, C>,
    outbox: Outbox<Effect<Of<M>>, M::Timer>,
    timers: Timers<M::Timer>,
    now: Instant,
    /// Sessions of channels, as the machine has been told.
    sessions: BTreeMap<Node, u64>,
    held: BinaryHeap<Reverse<Held<Of<M>>>>,
    serial: u64,
    calls: BTreeMap<u64, Answer<Of<M>>>,
    next_call: u64,
    sendings: Vec<Sending>,
    records: Vec<(u64, Vec<u8>)>,
    members: Vec<Node>,
    /// Without a log, records are stored when they are appended.
    unlogged: Option<u64>,
    rounds: Rounds,
}

impl<M, C> Stepper<M, C>
where
    M: Talker + 'static,
    M::Timer: Hash,
    C: Codec<M::Protocol>,
    Event<M>: Send,
    <Of<M> as Protocol>::Job: Send + 'static,
{
    pub fn new(machine: M, world: World<M, C>) -> Self {
        let outbox = Outbox::with_capacity(machine.effects_max());
        Stepper {
            machine,
            world,
            outbox,
            timers: Timers::new(),
            now: Instant::ZERO,
            sessions: BTreeMap::new(),
            held: BinaryHeap::new(),
            serial: 0,
            calls: BTreeMap::new(),
            next_call: 0,
            sendings: Vec::new(),
            records: Vec::new(),
            members: Vec::new(),
            unlogged: None,
            rounds: Rounds::new(),
        }
    }

    /// Steps until it is told to stop, or cannot go on. `replayed`: what an earlier life stored.
    pub fn run(mut self, replayed: Option<Replay<Of<M>>>) -> Result<(), String> {
        cavy_clock::sharpen_timers();
        self.step(Step::Start);
        if let Some((records, torn)) = replayed {
            for (entry, record) in records {
                self.input(Input::Replay { entry, record });
            }
            self.input(Input::Recovered { torn });
        }
        self.hand_over();
        let mut events = VecDeque::new();
        let ended = loop {
            let deadline = self.deadline();
            self.world.inbox.wait(deadline);
            self.round();
            self.world.inbox.take(&mut events);
            self.world.figures.wakes.fetch_add(1, Relaxed);
            let mut ended = None;
            let came = cavy_clock::now();
            while let Some(event) = events.pop_front() {
                // Only steps take time, and each reads the clock.
                self.release(came.max(self.now));
                if let Some(end) = self.event(event) {
                    ended = Some(end);
                    break;
                }
            }
            if let Some(end) = ended {
                break end;
            }
            let now = cavy_clock::now();
            self.release(now);
            self.fire(now);
            self.hand_over();
            if let Some(recorder) = &mut self.world.recorder {
                recorder.tick(now);
            }
        };
        self.hand_over();
        if let Some(mut bench) = self.world.bench.take() {
            bench.finish();
        }
        if let Some(writer) = self.world.writer.take() {
            writer.finish();
        }
        if let Some(recorder) = self.world.recorder.take() {
            // A recording that is not whole says so itself.
            let _ = recorder.finish(self.now);
        }
        self.world.outward.stop();
        ended
    }

    fn deadline(&self) -> Option<Instant> {
        let held = self.held.peek().map(|Reverse(held)| held.due);
        let record = self.world.recorder.as_ref().map(|recorder| recorder.deadline());
        let round = self.rounds.deadline(&self.world.outward);
        [held, self.timers.next(), record, round].into_iter().flatten().min()
    }

    /// Reads what peers have sent whose messages are held.
    fn round(&mut self) {
        let now = cavy_clock::now();
        if self.rounds.is_time(&self.world.outward, now) {
            self.rounds.made(now);
            // Whoever has it carries; what is not read now is read in the next round.
            if let Some(mut carrier) = self.world.carrier.try_lock() {
                carrier.round();
            }
        }
    }

    /// Handles what was held until now.
    fn release(&mut self, now: Instant) {
        while self.held.peek().is_some_and(|Reverse(held)| held.due <= now) {
            let Some(Reverse(held)) = self.held.pop() else { return };
            self.world.figures.late.note(now.since(held.due));
            self.message(held.from, held.via, held.session, held.due, held.message);
        }
    }

    fn message(
        &mut self,
        from: Node,
        via: Via,
        session: u64,
        arrived: Instant,
        message: <Of<M> as Protocol>::Message,
    ) {
        let known = self.sessions.get(&from).copied().unwrap_or(0);
        // Of a session that has ended: the machine was told that it is lost.
        if via == Via::Channel && session < known {
            return;
        }
        self.input(Input::Rx { from, via, message, arrived });
    }

    fn fire(&mut self, now: Instant) {
        for _ in 0..TIMERS {
            let Some(at) = self.timers.next().filter(|at| *at <= now) else { return };
            self.world.figures.late.note(now.since(at));
            self.step(Step::Expire);
        }
    }

    /// One event; what ends the node.
    fn event(&mut self, event: Event<M>) -> Option<Result<(), String>> {
        match event {
            Event::Message { from, via, session, due, arrived, message } => {
                if due == Instant::ZERO {
                    self.world.figures.late.note(cavy_clock::now().since(arrived));
                    self.message(from, via, session, arrived, message);
                } else {
                    // In order of when they are due, whichever peer they come from.
                    self.serial += 1;
                    let (due, serial) = (due.max(arrived), self.serial);
                    self.held.push(Reverse(Held { due, serial, session, from, via, message }));
                }
            }
            Event::Broken { peer, session } => {
                let known = self.sessions.entry(peer).or_insert(0);
                *known = session.max(*known);
                // What is held of the last session is dropped when it is due.
                self.input(Input::Broken { peer });
            }
            Event::Call { request, answer, came } => {
                self.world.figures.calls.fetch_add(1, Relaxed);
                self.world.figures.late.note(cavy_clock::now().since(came));
                self.next_call += 1;
                let call = Call(self.next_call);
                self.calls.insert(call.0, answer);
                self.input(Input::Call { call, request });
            }
            Event::Stored { upto } => self.input(Input::Stored { upto: Entry(upto) }),
            Event::Worked(done) => {
                let (work, took, finished) = (done.work, done.took, done.finished);
                self.input(Input::WorkDone { work, took, finished });
            }
            Event::Look(look) => look(&self.machine),
            Event::Stop => return Some(Ok(())),
            Event::Fault(why) => return Some(Err(why)),
        }
        None
    }

    fn input(&mut self, input: Input<Of<M>>) {
        self.step(Step::Input(input));
    }

    fn step(&mut self, step: Step<Of<M>>) {
        self.now = self.now.max(cavy_clock::now());
        let (now, wall) = (self.now, self.world.wall.now());
        if let Some(recorder) = &mut self.world.recorder {
            recorder.note(now, wall, &step, &*self.world.codec);
        }
        let mut cx = Cx::new(now, &mut self.world.rng, &mut self.outbox).with_wall(wall);
        match step {
            Step::Start => self.machine.start(&mut cx),
            Step::Input(input) => self.machine.handle(input, &mut cx),
            Step::Expire => {
                if let Some(timer) = self.timers.take() {
                    self.machine.expire(timer, &mut cx);
                }
            }
        }
        if let Some(recorder) = &mut self.world.recorder {
            recorder.asked(self.outbox.entries(), now);
        }
        let mut outbox = std::mem::replace(&mut self.outbox, Outbox::with_capacity(0));
        for entry in outbox.drain() {
            match entry {
                Out::Effect(effect) => self.carry_out(effect),
                Out::Arm(timer, at) => self.timers.arm(timer, at),
                Out::Disarm(timer) => self.timers.disarm(timer),
            }
        }
        self.outbox = outbox;
        if let Some(upto) = self.unlogged.take() {
            self.world.inbox.push(Event::Stored { upto });
        }
        self.world.figures.steps.fetch_add(1, Relaxed);
        self.world.figures.step_ns.fetch_add(cavy_clock::now().since(now).as_ns(), Relaxed);
    }

    fn carry_out(&mut self, effect: Effect<Of<M>>) {
        match effect {
            Effect::Send { to, via, message } => {
                let mut bytes = Vec::new();
                self.world.codec.message(&message, &mut bytes);
                self.put_out(to, via, &bytes.into());
            }
            Effect::Cast { to, via, message } => {
                let mut bytes = Vec::new();
                self.world.codec.message(&message, &mut bytes);
                let bytes: Arc<[u8]> = bytes.into();
                let mut members = std::mem::take(&mut self.members);
                members.clear();
                members.extend_from_slice(self.machine.members(to));
                let me = self.world.me;
                for member in members.iter().filter(|member| **member != me) {
                    self.put_out(*member, via, &bytes);
                }
                self.members = members;
            }
            Effect::Store { entry, record } => {
                let mut bytes = Vec::new();
                if self.world.writer.is_some() {
                    self.world.codec.record(&record, &mut bytes);
                    self.records.push((entry.0, bytes));
                } else {
                    self.unlogged = Some(entry.0);
                }
            }
            Effect::Trim { upto } => {
                if let Some(writer) = &self.world.writer {
                    writer.append(self.records.drain(..));
                    writer.trim(upto.0);
                }
            }
            Effect::Work { work, job } => {
                self.world.figures.works.fetch_add(1, Relaxed);
                match &self.world.bench {
                    Some(bench) => bench.ask(work, job),
                    None => {
                        let (took, finished) = (Span::ZERO, false);
                        let done = crate::work::Done { work, took, finished };
                        self.world.inbox.push(Event::Worked(done));
                    }
                }
            }
            Effect::Cancel { work } => {
                if let Some(bench) = &self.world.bench {
                    bench.cancel(work);
                }
            }
            Effect::Reply { call, response } => {
                if let Some(answer) = self.calls.remove(&call.0) {
                    self.world.figures.replies.fetch_add(1, Relaxed);
                    answer(response);
                }
            }
            Effect::Note(note) => (self.world.observe)(self.now, &note),
        }
    }

    fn put_out(&mut self, to: Node, via: Via, bytes: &Arc<[u8]>) {
        let session = self.sessions.get(&to).copied().unwrap_or(0);
        self.sendings.push(Sending { to, via, session, bytes: Arc::clone(bytes) });
    }

    /// Gives the carrier and the log what the steps since the last time have for them.
    fn hand_over(&mut self) {
        let world = &self.world;
        if !self.sendings.is_empty() {
            let carrier = world.outward.round().and_then(|_| world.carrier.try_lock());
            match carrier {
                Some(mut carrier) => carrier.send(&mut self.sendings),
                None => world.outward.send(&mut self.sendings),
            }
        }
        if let Some(writer) = self.world.writer.as_ref().filter(|_| !self.records.is_empty()) {
            writer.append(self.records.drain(..));
        }
    }
}
