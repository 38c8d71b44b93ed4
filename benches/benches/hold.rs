//! The Hold model: pop the earliest of n pending events, push it back one increment later.
//!
//! Prints nanoseconds per hold for the lab's two pending sets and for the two things people write
//! instead: the standard heap over the same 16-byte keys, and over 48-byte events by value. All
//! four must pop the same times. Increments are drawn beforehand, so that drawing is not measured.

use cavy_bench::{in_turns, ns_per, print_machine};
use cavy_core::{Instant, Purpose, Stream};
use cavy_lab::pending::{Class, Heap4, Key, Pending, Ties, Wheel};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

const DRAWN: usize = 1 << 16;

fn exponential(stream: &mut Stream, mean_ns: f64) -> u64 {
    (-mean_ns * libm::log(stream.unit())) as u64
}

/// The increments, by name: spread evenly; mostly near with some far; and what a network has, where
/// many are constant.
fn increments(law: &str) -> Vec<u64> {
    let mut stream = Stream::keyed(1, 0, Purpose::Test);
    let draw = |s: &mut Stream| match (law, s.below(100)) {
        ("exp", _) => exponential(s, 1e6),
        ("bim", 0..90) => exponential(s, 10e3),
        ("bim", _) => exponential(s, 10e6),
        ("net", 0..45) => 1_231,
        ("net", 45..90) => 250,
        ("net", 90..98) => exponential(s, 20e3),
        ("net", _) => 1_000_000,
        (law, _) => panic!("no law is called {law}"),
    };
    (0..DRAWN).map(|_| draw(&mut stream)).collect()
}

/// A pending set as the Hold model sees it.
trait Set {
    fn push(&mut self, at: u64);
    fn pop(&mut self) -> u64;
}

struct Ours<P> {
    pending: P,
    ties: Ties,
}

impl<P: Pending> Set for Ours<P> {
    #[inline]
    fn push(&mut self, at: u64) {
        let tie = self.ties.next();
        self.pending.push(Key::new(Instant::from_ns(at), Class::Arrival, tie, tie as u32 & 0xFFFF));
    }
    #[inline]
    fn pop(&mut self) -> u64 {
        self.pending.pop().expect("n are pending").at().as_ns()
    }
}

#[derive(Default)]
struct Std {
    heap: BinaryHeap<Reverse<u128>>,
    sequence: u64,
}

impl Set for Std {
    #[inline]
    fn push(&mut self, at: u64) {
        self.heap.push(Reverse(u128::from(at) << 64 | u128::from(self.sequence)));
        self.sequence += 1;
    }
    #[inline]
    fn pop(&mut self) -> u64 {
        (self.heap.pop().expect("n are pending").0 >> 64) as u64
    }
}

/// An event that is carried through the heap whole.
struct Event {
    at: u64,
    sequence: u64,
    payload: [u64; 4],
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.sequence).cmp(&(self.at, self.sequence))
    }
}
impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Event {}

#[derive(Default)]
struct Whole {
    heap: BinaryHeap<Event>,
    sequence: u64,
    carried: u64,
}

impl Set for Whole {
    #[inline]
    fn push(&mut self, at: u64) {
        self.heap.push(Event { at, sequence: self.sequence, payload: [self.carried; 4] });
        self.sequence += 1;
    }
    #[inline]
    fn pop(&mut self) -> u64 {
        let event = self.heap.pop().expect("n are pending");
        self.carried ^= event.payload[3];
        event.at
    }
}

/// A set with n events pending, and a sum over what it popped.
struct Hold<'a, S> {
    set: S,
    increments: &'a [u64],
    drawn: usize,
    popped: u64,
}

impl<'a, S: Set> Hold<'a, S> {
    fn new(set: S, pending: usize, increments: &'a [u64]) -> Self {
        let mut hold = Hold { set, increments, drawn: 0, popped: 0 };
        for _ in 0..pending {
            let increment = hold.draw();
            hold.set.push(increment);
        }
        // Until the first events are forgotten, times are spread as increments are, and not yet as
        // residual increments.
        hold.run(pending.max(10_000));
        hold
    }

    #[inline]
    fn draw(&mut self) -> u64 {
        self.drawn = (self.drawn + 1) % DRAWN;
        self.increments[self.drawn]
    }

    #[inline]
    fn run(&mut self, holds: usize) {
        for _ in 0..holds {
            let at = self.set.pop();
            self.popped = self.popped.rotate_left(5) ^ at;
            let increment = self.draw();
            self.set.push(at + increment);
        }
    }

    fn measure(&mut self, holds: usize) -> f64 {
        ns_per(holds as u64, || self.run(holds))
    }
}

fn main() {
    print_machine();
    println!("# ns per hold");
    println!(
        "| law | pending | Wheel | Heap4 | std BinaryHeap, u128 | std BinaryHeap, 48-byte event |"
    );
    println!("|---|---|---|---|---|---|");
    for law in ["exp", "bim", "net"] {
        let increments = increments(law);
        for pending in [16, 100, 1_000, 10_000, 100_000, 1_000_000] {
            let holds = pending.max(300_000);
            let ties = Ties::in_order;
            let hold = &increments;
            let mut wheel = Hold::new(Ours { pending: Wheel::new(), ties: ties() }, pending, hold);
            let mut heap4 = Hold::new(Ours { pending: Heap4::new(), ties: ties() }, pending, hold);
            let mut std = Hold::new(Std::default(), pending, hold);
            let mut whole = Hold::new(Whole::default(), pending, hold);
            let ns = in_turns(&mut [
                &mut || wheel.measure(holds),
                &mut || heap4.measure(holds),
                &mut || std.measure(holds),
                &mut || whole.measure(holds),
            ]);
            let popped = [wheel.popped, heap4.popped, std.popped, whole.popped];
            assert!(popped.iter().all(|&p| p == popped[0]), "orders differ: {popped:?}");
            let ns: Vec<String> = ns.iter().map(|ns| format!("{ns:.0}")).collect();
            println!("| {law} | {pending} | {} |", ns.join(" | "));
        }
    }
}
