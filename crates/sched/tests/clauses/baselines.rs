//! The policies DARC was compared with ([persephone 3]), as conversations.

use crate::conversation::{Talk, hint};
use crate::two_types;
use cavy_core::Span;
use cavy_sched::Policy;
use cavy_sched::distributed::Steering;

#[test]
fn clause_3_2_cfcfs_in_order_on_the_lowest_free_worker() {
    let mut talk = Talk::new(Policy::CentralFcfs, 3, &two_types(), 9);
    talk.script(
        "
        start      |
        0 b1:B     | run b1 on 0
        0 b2:B     | run b2 on 1
        0 b3:B     | run b3 on 2
        0 b4:B     |
        0 a1:A     |
        9 done 1   | run b4 on 1
        9 done 2   | run a1 on 2
        10 done 2  |
        10 done 0  |
        10 a2:A    | run a2 on 0
        ",
    );
}

#[test]
fn clause_3_3_fixed_priority_goes_by_registration_not_by_mean() {
    // Registered longest first: A is 100 us.
    let hints = [hint(100, 0.5), hint(1, 0.5)];
    let script = |policy, first: &str, second: &str| {
        Talk::new(policy, 1, &hints, 9).script(&format!(
            "
            start      |
            0 x:A      | run x on 0
            1 b1:B     |
            2 a1:A     |
            100 done 0 | run {first} on 0
            200 done 0 | run {second} on 0
            "
        ));
    };
    script(Policy::FixedPriority, "a1", "b1");
    script(Policy::ShortestFirst, "b1", "a1");
}

#[test]
fn clause_3_3_shortest_first_ranks_again_by_what_it_measures() {
    // Hinted A = 1 us and B = 100 us, but A takes 500 us: after its first completion B goes first.
    let mut talk = Talk::new(Policy::ShortestFirst, 1, &two_types(), 9);
    talk.script(
        "
        start       |
        0 a1:A      | run a1 on 0
        0 b1:B      |
        0 a2:A      |
        0 b2:B      |
        500 done 0  | run b1 on 0
        600 done 0  | run b2 on 0
        700 done 0  | run a2 on 0
        ",
    );
}

#[test]
fn clause_3_4_earliest_deadline() {
    // 10 us for A and 1000 us for B: of a1 and b1 at 100, a1 is due first, at 60; of b1 and a2 at
    // 996, b1 is, at 1001.
    let deadlines = vec![Span::from_us(10), Span::from_us(1_000)];
    let mut talk = Talk::new(Policy::EarliestDeadline { deadlines }, 1, &two_types(), 9);
    talk.script(
        "
        start        |
        0 b0:B       | run b0 on 0
        1 b1:B       |
        50 a1:A      |
        100 done 0   | run a1 on 0
        995 a2:A     |
        996 done 0   | run b1 on 0
        1100 done 0  | run a2 on 0
        ",
    );
}

#[test]
fn clause_3_5_cycle_stealing_prefers_its_own_and_takes_the_other() {
    let mut talk = Talk::new(Policy::CycleStealing { short_workers: 1 }, 2, &two_types(), 9);
    talk.script(
        "
        start       |
        0 b1:B      | run b1 on 1
        0 b2:B      | steal b2 on 0
        0 b3:B      |
        0 a1:A      |
        0 a2:A      |
        0 b4:B      |
        50 done 0   | run a1 on 0
        51 done 1   | run b3 on 1
        52 done 1   | run b4 on 1
        53 done 1   | steal a2 on 1
        54 done 0   |
        ",
    );
}

#[test]
fn clause_3_6_a_slice_ends_even_if_nobody_waits() {
    let slice = Span::from_us(5);
    let mut talk = Talk::new(Policy::SlicedSingle { slice }, 2, &two_types(), 9);
    talk.script(
        "
        start        |
        0 b1:B       | run b1 on 0; arm 0 at 5
        5 slice 0    | preempt 0
        6 yield 0    | run b1 on 0; arm 0 at 11
        11 slice 0   | preempt 0
        12 yield 0   | run b1 on 0; arm 0 at 17
        13 done 0    | disarm 0
        ",
    );
}

#[test]
fn clause_3_6_the_preempted_goes_to_the_tail() {
    let slice = Span::from_us(5);
    let mut talk = Talk::new(Policy::SlicedSingle { slice }, 1, &two_types(), 9);
    talk.script(
        "
        start        |
        0 b1:B       | run b1 on 0; arm 0 at 5
        1 a1:A       |
        2 b2:B       |
        5 slice 0    | preempt 0
        5 yield 0    | run a1 on 0; arm 0 at 10
        6 done 0     | disarm 0; run b2 on 0; arm 0 at 11
        11 slice 0   | preempt 0
        11 yield 0   | run b1 on 0; arm 0 at 16
        ",
    );
}

#[test]
fn clause_3_6_multi_queue_picks_the_largest_wait_per_objective() {
    // Objectives 10 us for A and 1000 us for B.
    let objectives = vec![Span::from_us(10), Span::from_us(1_000)];
    let policy = Policy::SlicedMulti { slice: Span::from_us(5), objectives };
    let mut talk = Talk::new(policy, 1, &two_types(), 9);
    talk.script(
        "
        start        |
        0 b1:B       | run b1 on 0; arm 0 at 5
        1 b2:B       |
        4 a1:A       |
        5 slice 0    | preempt 0
        ",
    );
    // At 5: b2 has 4/1000 of its objective, a1 1/10.
    talk.script(
        "5 yield 0 | run a1 on 0; arm 0 at 10\n 6 done 0 | disarm 0; run b2 on 0; arm 0 at 11",
    );
    // b1 kept its arrival at 0 though it is at the tail: at 106 it has 106/1000 and a2 1/10.
    talk.script(
        "
        10 b3:B      |
        11 slice 0   | preempt 0
        11 yield 0   | run b1 on 0; arm 0 at 16
        ",
    );
    let mut talk = Talk::new(
        Policy::SlicedMulti {
            slice: Span::from_us(5),
            objectives: vec![Span::from_us(10), Span::from_us(1_000)],
        },
        1,
        &two_types(),
        9,
    );
    // A tie (1/10 each) goes to the first queue; and a preempted request keeps its arrival time.
    talk.script(
        "
        start        |
        0 b1:B       | run b1 on 0; arm 0 at 5
        5 slice 0    | preempt 0
        99 a1:A      |
        100 yield 0  | run a1 on 0; arm 0 at 105
        101 done 0   | disarm 0; run b1 on 0; arm 0 at 106
        106 slice 0  | preempt 0
        107 a2:A     |
        108 yield 0  | run b1 on 0; arm 0 at 113
        ",
    );
}

#[test]
fn clause_3_7_thieves_take_half_rounded_up_and_keep_the_rest() {
    // One flow: all requests are at home on worker 0.
    let policy = Policy::Stealing { steering: Steering::Flows(1) };
    let mut talk = Talk::new(policy, 3, &two_types(), 9);
    talk.script(
        "
        start       |
        0 b1:B      | run b1 on 0
        0 b2:B      | steal b2 on 1
        0 b3:B      | steal b3 on 2
        0 r1:A      |
        0 r2:A      |
        0 r3:A      |
        0 r4:A      |
        0 r5:A      |
        ",
    );
    // Worker 1 takes three of five, runs the oldest and keeps two; worker 0 has r4 and r5.
    talk.script(
        "
        9 done 1    | steal r1 on 1
        10 done 0   | run r4 on 0
        11 done 1   | run r2 on 1
        12 done 0   | run r5 on 0
        13 done 2   | steal r3 on 2
        14 done 1   |
        ",
    );
}

/// [persephone 3.7] says that idle workers notice work at once, and not which of them; that the
/// home worker goes first is our choice.
#[test]
fn clause_3_7_an_idle_home_worker_goes_before_other_idle_ones() {
    // Homes in turn: 0, 1, 2, 0, 1.
    let policy = Policy::Stealing { steering: Steering::RoundRobin };
    let mut talk = Talk::new(policy, 3, &two_types(), 9);
    talk.script(
        "
        start       |
        0 b1:B      | run b1 on 0
        5 done 0    |
        6 b2:B      | run b2 on 1
        7 b3:B      | run b3 on 2
        8 done 2    |
        9 b4:B      | run b4 on 0
        10 b5:B     | steal b5 on 2
        ",
    );
}
