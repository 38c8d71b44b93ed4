//! Both pending sets give the one order there is, whatever is pushed and popped.

use cavy_core::Instant;
use cavy_lab::pending::{Class, Heap4, Key, Pending, Ties, Wheel};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// One step of a trace; times are relative, so that no trace pushes into the past.
#[derive(Clone, Copy, Debug)]
enum Step {
    Push { ahead_ns: u64, class: Class },
    Pop,
}

fn step() -> impl Strategy<Value = Step> {
    // Increments of every magnitude, with many equal times and the edges of the wheel's digits.
    let ahead_ns = prop_oneof![
        3 => Just(0u64),
        3 => 0u64..4,
        3 => 0u64..200,
        2 => (0u32..64).prop_map(|bits| 1 << bits),
        2 => (0u32..64, any::<u64>()).prop_map(|(bits, x)| x >> bits),
        1 => Just(u64::MAX),
    ];
    let class = prop_oneof![Just(Class::Completion), Just(Class::Arrival), Just(Class::Timer)];
    prop_oneof![
        3 => (ahead_ns, class).prop_map(|(ahead_ns, class)| Step::Push { ahead_ns, class }),
        2 => Just(Step::Pop),
    ]
}

/// Runs `steps` and then drains: everything that came out, in order.
fn popped(set: &mut impl Pending, steps: &[Step], mut ties: Ties) -> Vec<Key> {
    let mut now = Instant::ZERO;
    let mut out = Vec::new();
    let mut pushed = 0u32;
    let pop = |set: &mut dyn Pending, out: &mut Vec<Key>, now: &mut Instant| {
        assert_eq!(set.len().checked_sub(1).is_none(), set.is_empty());
        let peeked = set.peek();
        let key = set.pop();
        assert_eq!(peeked, key);
        let Some(key) = key else { return false };
        assert!(key.at() >= *now, "time runs backward");
        *now = key.at();
        out.push(key);
        true
    };
    for step in steps {
        match *step {
            Step::Push { ahead_ns, class } => {
                let at = Instant::from_ns(now.as_ns().saturating_add(ahead_ns));
                set.push(Key::new(at, class, ties.next(), pushed % Key::SLOTS));
                pushed += 1;
            }
            Step::Pop => {
                pop(set, &mut out, &mut now);
            }
        }
    }
    while pop(set, &mut out, &mut now) {}
    assert_eq!(out.len(), pushed as usize, "every event comes out once");
    out
}

/// The definition: a sorted set.
#[derive(Default)]
struct Sorted(BTreeSet<Key>);

impl Pending for Sorted {
    fn push(&mut self, key: Key) {
        assert!(self.0.insert(key), "no two keys are alike");
    }
    fn pop(&mut self) -> Option<Key> {
        self.0.pop_first()
    }
    fn peek(&self) -> Option<Key> {
        self.0.first().copied()
    }
    fn len(&self) -> usize {
        self.0.len()
    }
    fn clear(&mut self) {
        self.0.clear();
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn heap_and_wheel_agree_with_a_sorted_set(
        steps in prop::collection::vec(step(), 0..600),
        seed in prop::option::of(any::<u64>()),
    ) {
        let ties = seed.map_or_else(Ties::in_order, Ties::shuffled);
        let expected = popped(&mut Sorted::default(), &steps, ties.clone());
        prop_assert_eq!(&popped(&mut Heap4::new(), &steps, ties.clone()), &expected);
        let mut wheel = Wheel::new();
        prop_assert_eq!(&popped(&mut wheel, &steps, ties.clone()), &expected);
        // A wheel that was used and cleared is as good as new.
        wheel.push(Key::new(Instant::NEVER, Class::Timer, 0, 0));
        wheel.clear();
        prop_assert_eq!(&popped(&mut wheel, &steps, ties), &expected);
    }

    #[test]
    fn a_key_gives_back_what_it_was_made_of(at: u64, tie in 0..Key::TIES, slot in 0..Key::SLOTS) {
        for class in [Class::Completion, Class::Arrival, Class::Timer] {
            let key = Key::new(Instant::from_ns(at), class, tie, slot);
            prop_assert_eq!(
                (key.at().as_ns(), key.class(), key.tie(), key.slot()),
                (at, class, tie, slot)
            );
        }
    }
}

#[test]
fn completions_come_before_arrivals_and_timers_last() {
    let at = Instant::from_ns(5);
    for mut set in [Box::new(Heap4::new()) as Box<dyn Pending>, Box::new(Wheel::new())] {
        let mut ties = Ties::in_order();
        for class in [Class::Timer, Class::Arrival, Class::Completion, Class::Arrival] {
            set.push(Key::new(at, class, ties.next(), 0));
        }
        let order: Vec<_> =
            std::iter::from_fn(|| set.pop()).map(|k| (k.class(), k.tie())).collect();
        let (done, new) = (Class::Completion, Class::Arrival);
        assert_eq!(order, [(done, 2), (new, 1), (new, 3), (Class::Timer, 0)]);
    }
}

#[test]
fn many_simultaneous_events_cost_no_scan_each() {
    // 200 000 events of one nanosecond: quadratic work would take minutes.
    let mut wheel = Wheel::new();
    let mut ties = Ties::shuffled(3);
    for _ in 0..200_000 {
        wheel.push(Key::new(Instant::from_ns(70), Class::Arrival, ties.next(), 0));
    }
    let mut last = None;
    while let Some(key) = wheel.pop() {
        assert!(last < Some(key));
        last = Some(key);
    }
}
