//! Policies that rank requests one by one, and the shortest queue, as conversations. They are no
//! part of the specification; their sources are named in `docs/models/scheduling.md`.

use crate::conversation::{Talk, hint};
use crate::two_types;
use cavy_sched::Policy;
use cavy_sched::distributed::Steering;

#[test]
fn srpt_compares_what_is_left() {
    // Types of 1, 100 and 60 us, without foresight: a request is as long as its type.
    let hints = [hint(1, 0.4), hint(100, 0.3), hint(60, 0.3)];
    Talk::new(Policy::ShortestRemaining, 1, &hints, 9).script(
        "
        start        |
        0 b1:B       | run b1 on 0
        30 c1:C      | preempt 0
        30 yield 0   | run c1 on 0
        50 a1:A      | preempt 0
        50 yield 0   | run a1 on 0
        51 done 0    | run c1 on 0
        91 done 0    | run b1 on 0
        120 c2:C     |
        121 c3:C     |
        161 done 0   | run c2 on 0
        221 done 0   | run c3 on 0
        ",
    );
}

#[test]
fn srpt_stops_the_request_with_the_most_left_of_all_that_run() {
    let hints = [hint(10, 0.4), hint(100, 0.6)];
    let mut talk = Talk::new(Policy::ShortestRemaining, 2, &hints, 9);
    talk.script(
        "
        start        |
        0 b1:B       | run b1 on 0
        40 b2:B      | run b2 on 1
        50 a1:A      | preempt 1
        51 a2:A      | preempt 0
        52 a3:A      |
        53 yield 0   | run a1 on 0
        54 yield 1   | run a2 on 1
        63 done 0    | run a3 on 0
        64 done 1    | run b1 on 1
        73 done 0    | run b2 on 0
        ",
    );
}

#[test]
fn a_request_that_ends_before_it_is_stopped_is_stopped_no_more() {
    let mut talk = Talk::new(Policy::ShortestRemaining, 1, &two_types(), 9);
    talk.script(
        "
        start        |
        0 b1:B       | run b1 on 0
        98 a1:A      | preempt 0
        100 done 0   | run a1 on 0
        101 done 0   |
        102 b2:B     | run b2 on 0
        103 a2:A     | preempt 0
        ",
    );
}

#[test]
fn preemptive_priority_goes_by_registration_and_leaves_equals_alone() {
    let hints = [hint(100, 0.4), hint(1, 0.3), hint(1, 0.3)];
    Talk::new(Policy::PreemptivePriority, 1, &hints, 9).script(
        "
        start        |
        0 c1:C       | run c1 on 0
        1 c2:C       |
        2 b1:B       | preempt 0
        2 yield 0    | run b1 on 0
        3 a1:A       | preempt 0
        3 yield 0    | run a1 on 0
        4 a2:A       |
        5 u1:?       |
        103 done 0   | run a2 on 0
        203 done 0   | run b1 on 0
        204 done 0   | run c1 on 0
        205 done 0   | run c2 on 0
        206 done 0   | run u1 on 0
        207 c3:C     | preempt 0
        ",
    );
}

#[test]
fn last_come_first_served_with_and_without_preemption() {
    Talk::new(Policy::LastCome { preempts: false }, 1, &two_types(), 2).script(
        "
        start        |
        0 a1:A       | run a1 on 0
        0 a2:A       |
        0 a3:A       |
        0 a4:A       | drop a4
        1 done 0     | run a3 on 0
        2 done 0     | run a2 on 0
        ",
    );
    Talk::new(Policy::LastCome { preempts: true }, 2, &two_types(), 9).script(
        "
        start        |
        0 b1:B       | run b1 on 0
        1 b2:B       | run b2 on 1
        2 b3:B       | preempt 0
        2 yield 0    | run b3 on 0
        3 b4:B       | preempt 1
        3 yield 1    | run b4 on 1
        102 done 0   | run b2 on 0
        103 done 1   | run b1 on 1
        ",
    );
}

#[test]
fn the_preempted_go_on_where_workers_are_left() {
    let mut talk = Talk::new(Policy::PreemptivePriority, 2, &two_types(), 9);
    talk.script(
        "
        start        |
        0 b1:B       | run b1 on 0
        0 b2:B       | run b2 on 1
        1 a1:A       | preempt 1
        1 resize 1   |
        2 yield 1    |
        100 done 0   | run a1 on 0
        101 done 0   | run b2 on 0
        101 resize 2 |
        102 b3:B     | run b3 on 1
        ",
    );
}

#[test]
fn requests_join_the_shortest_queue() {
    // Two workers: whoever has fewer requests, the one that runs included, gets the next.
    let policy = Policy::DistributedFcfs { steering: Steering::Shortest };
    let mut talk = Talk::new(policy, 2, &two_types(), 9);
    talk.say("start");
    let first = talk.say("0 b1:B");
    let (long, other) = if first == "run b1 on 0" { (0, 1) } else { (1, 0) };
    // One each; then two wait somewhere, and whoever has fewer gets the next.
    assert_eq!(talk.say("0 a1:A"), format!("run a1 on {other}"));
    assert_eq!(talk.say(&format!("1 done {other}")), "");
    assert_eq!(talk.say("2 a2:A"), format!("run a2 on {other}"));
    talk.script("2 x:A |\n 2 y:A |");
    // Each has two, so that each end of a request starts one, and nobody has two to start.
    assert!(talk.say(&format!("3 done {other}")).ends_with(&format!("on {other}")));
    assert!(talk.say(&format!("100 done {long}")).ends_with(&format!("on {long}")));
    assert_eq!(talk.say(&format!("101 done {other}")), "");
    assert_eq!(talk.say(&format!("101 done {long}")), "");
}
