//! Conversations with a scheduler, written as lines of text.
//!
//! A line says what happens, then `|`, then everything that the machine answers, in order:
//! ```text
//! start        | plan 1                       the machine starts; reservation number 1
//! 0 a1:A       | run a1 on 0                  at 0 us request a1 of type A (1) arrives
//! 0 x:?        | steal x on 3                 ... of unknown type; it runs on a worker not its own
//! 5 done 0     | run b1 on 0; arm 0 at 10     worker 0 finishes what it runs; its slice ends at 10
//! 10 slice 0   | preempt 0                    the timer of worker 0 fires
//! 11 yield 0   | disarm 0; drop b2            worker 0 stops what it runs, unfinished
//! 12 resize 4  |                              nothing is said
//! ```
//! Times are in microseconds. The machine's own invariants are checked after every line.

use cavy_core::family::cpu::{Effect, Input, Kind, Req, Timer, Worker};
use cavy_core::{Cx, Instant, Machine, Out, Outbox, Purpose, Span, Stream};
use cavy_sched::config::AnyPolicy;
use cavy_sched::{Inspect, Policy, TypeHint, build};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// A type of `us` microseconds that makes up `ratio` of the requests.
pub fn hint(us: u64, ratio: f64) -> TypeHint {
    TypeHint { mean: Span::from_us(us), ratio }
}

/// A conversation under way.
pub struct Talk {
    machine: Box<dyn AnyPolicy>,
    outbox: Outbox<Effect, Timer>,
    rng: Stream,
    now: Instant,
    names: Vec<String>,
    running: BTreeMap<u16, Req>,
}

impl Talk {
    pub fn new(policy: Policy, workers: u16, hints: &[TypeHint], queue_limit: u32) -> Self {
        let machine = build(&policy, workers, hints, queue_limit).expect("a legal policy");
        Talk {
            outbox: Outbox::with_capacity(machine.effects_max()),
            machine,
            rng: Stream::keyed(1, 0, Purpose::Machine),
            now: Instant::ZERO,
            names: Vec::new(),
            running: BTreeMap::new(),
        }
    }

    /// Plays all lines of `script`.
    pub fn script(&mut self, script: &str) {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (event, expected) = line.split_once('|').expect("a line has a bar");
            let said = self.say(event.trim());
            assert_eq!(said, expected.trim(), "after: {event}");
        }
    }

    /// Tells the machine one event and returns its answer.
    pub fn say(&mut self, event: &str) -> String {
        let words: Vec<&str> = event.split_whitespace().collect();
        if let [at, ..] = words[..]
            && at != "start"
        {
            let ns = (at.parse::<f64>().expect("a time in us") * 1e3).round() as u64;
            assert!(ns >= self.now.as_ns(), "time goes back: {event}");
            self.now = Instant::from_ns(ns);
        }
        let number = |word: &str| word.parse::<u16>().expect("a number");
        let mut cx = Cx::new(self.now, &mut self.rng, &mut self.outbox);
        match words[..] {
            ["start"] => self.machine.start(&mut cx),
            [_, "slice", worker] => {
                self.machine.expire(Timer::Slice(Worker(number(worker))), &mut cx);
            }
            [_, "done", worker] => {
                let worker = number(worker);
                let req = self.running.remove(&worker).expect("it runs something");
                let input = Input::Finished { worker: Worker(worker), req, service: None };
                self.machine.handle(input, &mut cx);
            }
            [_, "skip", worker] => {
                let worker = number(worker);
                let req = self.running.remove(&worker).expect("it was given something");
                self.machine.handle(Input::Skipped { worker: Worker(worker), req }, &mut cx);
            }
            [_, "yield", worker] => {
                let worker = number(worker);
                let req = self.running.remove(&worker).expect("it runs something");
                self.machine.handle(Input::Yielded { worker: Worker(worker), req }, &mut cx);
            }
            [_, "resize", workers] => {
                self.machine.handle(Input::Resize { workers: number(workers) }, &mut cx);
            }
            [_, arrival] => {
                let (name, kind) = arrival.split_once(':').expect("name:type");
                let kind = match kind.as_bytes() {
                    [b'?'] => Kind::UNKNOWN,
                    [letter] => Kind(u16::from(letter - b'A') + 1),
                    _ => panic!("no type: {arrival}"),
                };
                let req = Req(self.names.len() as u32);
                self.names.push(name.to_owned());
                self.machine.handle(Input::Arrive { req, kind }, &mut cx);
            }
            _ => panic!("not understood: {event}"),
        }
        let said = self.answer();
        self.machine.check();
        said
    }

    fn answer(&mut self) -> String {
        let mut said = Vec::new();
        for out in self.outbox.drain() {
            said.push(match out {
                Out::Effect(Effect::Run { worker, req, stolen }) => {
                    let before = self.running.insert(worker.0, req);
                    assert_eq!(before, None, "{worker:?} is busy");
                    let verb = if stolen { "steal" } else { "run" };
                    format!("{verb} {} on {}", self.names[req.0 as usize], worker.0)
                }
                Out::Effect(Effect::Preempt { worker }) => format!("preempt {}", worker.0),
                Out::Effect(Effect::Drop { req, .. }) => {
                    format!("drop {}", self.names[req.0 as usize])
                }
                Out::Effect(Effect::Reserved { version }) => format!("plan {version}"),
                Out::Arm(Timer::Slice(worker), at) => {
                    format!("arm {} at {}", worker.0, at.as_ns() as f64 / 1e3)
                }
                Out::Disarm(Timer::Slice(worker)) => format!("disarm {}", worker.0),
            });
        }
        said.join("; ")
    }

    /// The reservation in force, as the specification writes it.
    pub fn reservation(&self) -> String {
        self.machine.reservation().expect("a reservation").to_string()
    }
}

/// Exponential samples.
pub fn exponential(mean: f64) -> impl Iterator<Item = f64> {
    let mut stream = Stream::keyed(1, 0, Purpose::Test);
    std::iter::repeat_with(move || -mean * libm::log(stream.unit()))
}

/// Normal samples (Box and Muller).
pub fn normal(mean: f64, deviation: f64) -> impl Iterator<Item = f64> {
    let mut stream = Stream::keyed(2, 0, Purpose::Test);
    std::iter::repeat_with(move || {
        let radius = libm::sqrt(-2.0 * libm::log(stream.unit()));
        mean + deviation * radius * libm::cos(std::f64::consts::TAU * stream.unit())
    })
}

/// Uniform samples.
pub fn uniform(low: f64, high: f64) -> impl Iterator<Item = f64> {
    let mut stream = Stream::keyed(3, 0, Purpose::Test);
    std::iter::repeat_with(move || low + (high - low) * stream.unit())
}

/// The first plan of `policy` on `workers` workers at `load`, for types of constant service time
/// given as (ns, share), under Poisson arrivals.
pub fn first_plan(policy: &Policy, workers: u16, load: f64, types: &[(u64, f64)]) -> String {
    let hint = |&(ns, ratio): &(u64, f64)| TypeHint { mean: Span::from_ns(ns), ratio };
    let hints: Vec<TypeHint> = types.iter().map(hint).collect();
    let mut machine = build(policy, workers, &hints, u32::MAX).expect("a legal policy");
    let mut outbox = Outbox::with_capacity(machine.effects_max());
    let mut rng = Stream::keyed(4, 0, Purpose::Machine);
    let mut draws = Stream::keyed(4, 0, Purpose::Test);
    let mean_ns: f64 = types.iter().map(|&(ns, share)| ns as f64 * share).sum();
    let gap_ns = mean_ns / f64::from(workers) / load;

    let mut kinds: Vec<usize> = Vec::new();
    let mut ends = BinaryHeap::new();
    let mut arrives_ns = 0.0;
    machine.start(&mut Cx::new(Instant::ZERO, &mut rng, &mut outbox));
    loop {
        let arrival = Instant::from_ns(arrives_ns as u64);
        let (now, input) = match ends.peek() {
            Some(&Reverse((end, worker, req))) if end <= arrival => {
                ends.pop();
                (end, Input::Finished { worker, req, service: None })
            }
            _ => {
                let point = draws.unit();
                let mut below = 0.0;
                let kind = types.iter().position(|&(_, share)| {
                    below += share;
                    point <= below
                });
                let kind = kind.unwrap_or(types.len() - 1);
                kinds.push(kind);
                arrives_ns -= gap_ns * libm::log(draws.unit());
                let req = Req(kinds.len() as u32 - 1);
                (arrival, Input::Arrive { req, kind: Kind(kind as u16 + 1) })
            }
        };
        machine.handle(input, &mut Cx::new(now, &mut rng, &mut outbox));
        for out in outbox.drain() {
            match out {
                Out::Effect(Effect::Run { worker, req, .. }) => {
                    let service = Span::from_ns(types[kinds[req.0 as usize]].0);
                    ends.push(Reverse((now + service, worker, req)));
                }
                Out::Effect(Effect::Reserved { .. }) => {
                    return machine.reservation().expect("just announced").to_string();
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
