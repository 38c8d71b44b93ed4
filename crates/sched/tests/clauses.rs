//! The rules of [persephone 2.5] to [persephone 2.13] as conversations: what happens, line by line,
//! and everything the machine says to it.
//!
//! `clauses/baselines.rs` has the same for [persephone 3], `clauses/ranked.rs` for the policies of
//! queueing theory, `clauses/trajectory.rs` pairs of machines that must decide alike;
//! `tests/reservation.rs` has the reservation itself, and `tests/laws.rs` what holds for all
//! policies.

#[path = "clauses/baselines.rs"]
mod baselines;
#[path = "clauses/conversation.rs"]
mod conversation;
#[path = "clauses/ranked.rs"]
mod ranked;
#[path = "clauses/trajectory.rs"]
mod trajectory;

use cavy_core::Span;
use cavy_core::family::cpu::Kind;
use cavy_sched::darc::profile::{Estimator, Profile};
use cavy_sched::darc::rehearsal::Terms;
use cavy_sched::darc::sizing::{Objective, Sizing};
use cavy_sched::darc::{self, GroupOrder};
use cavy_sched::distributed::Steering;
use cavy_sched::{Policy, TypeHint};
use conversation::{Talk, hint};

fn two_types() -> Vec<TypeHint> {
    vec![hint(1, 0.5), hint(100, 0.5)]
}

/// DARC that starts from hints: 1 worker reserved to A (1 us), the others to B (100 us).
fn hinted(config: darc::Config) -> Policy {
    Policy::Darc { config, hinted: true }
}

fn fixed(reserved: u16, workers: u16) -> Policy {
    Policy::DarcStatic {
        groups: vec![(vec![Kind(1)], reserved), (vec![Kind(2)], workers - reserved)],
    }
}

// 2.5 Enqueue and flow control

#[test]
fn clause_2_5_a_full_queue_drops_only_its_type() {
    let mut talk = Talk::new(hinted(darc::Config::default()), 2, &two_types(), 2);
    talk.script(
        "
        start        | plan 1
        0 b1:B       | run b1 on 1
        0 b2:B       |
        0 b3:B       |
        0 b4:B       | drop b4
        0 a1:A       | run a1 on 0
        0 a2:A       |
        0 a3:A       |
        0 a4:A       | drop a4
        0 u1:?       |
        0 u2:?       |
        0 u3:?       | drop u3
        1 done 0     | run a2 on 0
        1 a5:A       |
        1 b5:B       | drop b5
        ",
    );
}

#[test]
fn clause_2_5_a_ring_of_dfcfs_drops_when_full() {
    let policy = Policy::DistributedFcfs { steering: Steering::RoundRobin };
    let mut talk = Talk::new(policy, 2, &two_types(), 1);
    talk.script(
        "
        start    |
        0 b1:B   | run b1 on 0
        0 a1:A   | run a1 on 1
        0 a2:A   |
        0 a3:A   |
        0 a4:A   | drop a4
        1 done 1 | run a3 on 1
        1 a5:A   |
        ",
    );
}

#[test]
fn clause_2_5_types_beyond_the_table_are_unknown() {
    // D7: the artifact took an id equal to the length of its table for a legal one.
    let mut talk = Talk::new(hinted(darc::Config::default()), 2, &two_types(), 9);
    talk.script(
        "
        start    | plan 1
        0 u1:C   | run u1 on 1
        0 u2:?   |
        0 a1:A   | run a1 on 0
        0 a2:A   |
        1 done 0 | run a2 on 0
        2 done 0 |
        3 done 1 | run u2 on 1
        ",
    );
}

// 2.6 Profiling

#[test]
fn clause_2_6_start_up_is_cfcfs_until_the_window_is_dispatched() {
    // A window of 3: the round after the third dispatch ends start-up. Until then B takes any
    // worker and nobody overtakes; then the common queue is sorted into the queues of the types,
    // and A, although later, goes first, on a worker that is from now on B's and that A may steal.
    let config = darc::Config { window: 3, ..darc::Config::default() };
    let mut talk = Talk::new(Policy::Darc { config, hinted: false }, 2, &two_types(), 9);
    talk.script(
        "
        start          |
        0 a1:A         | run a1 on 0
        0 b1:B         | run b1 on 1
        0 b2:B         |
        0 b3:B         |
        0 a2:A         |
        2 done 0       | run b2 on 0
        100 done 1     | plan 1; steal a2 on 1
        ",
    );
    assert_eq!(talk.reservation(), "1/1+S");
    talk.script(
        "
        102 done 1     | run b3 on 1
        103 done 0     |
        ",
    );
}

#[test]
fn clause_2_6_a_switch_may_come_with_an_arrival() {
    let config = darc::Config { window: 2, ..darc::Config::default() };
    let mut talk = Talk::new(Policy::Darc { config, hinted: false }, 3, &two_types(), 9);
    talk.script(
        "
        start      |
        0 a1:A     | run a1 on 0
        2 done 0   |
        3 b1:B     | run b1 on 0
        4 b2:B     | plan 1; run b2 on 2
        ",
    );
    // Only A has been seen, so B has vanished: one last group, which gets the spillway.
    assert_eq!(talk.reservation(), "3/0+S");
    talk.script("5 b3:B |");
}

#[test]
fn clause_2_6_unknown_types_are_not_profiled() {
    // Three unknown completions fill no window; three known ones do.
    let config = darc::Config { window: 2, delay_factor: 0, ..darc::Config::default() };
    let mut talk = Talk::new(hinted(config), 2, &two_types(), 9);
    talk.script(
        "
        start      | plan 1
        0 u1:?     | run u1 on 1
        1 done 1   |
        1 u2:?     | run u2 on 1
        2 done 1   |
        2 u3:?     | run u3 on 1
        3 done 1   |
        3 b1:B     | run b1 on 1
        3 b2:B     |
        3 b3:B     |
        9 done 1   | run b2 on 1
        15 done 1  | run b3 on 1
        ",
    );
    assert_eq!(talk.reservation(), "1/1+S");
}

#[test]
fn clause_2_6_skipped_requests_are_not_profiled() {
    // B's requests are given up when their turn comes, which is no reason to take B for short, or A
    // for gone: four of them fill no window of two, although others have waited long enough.
    let config = darc::Config { window: 2, delay_factor: 0, ..darc::Config::default() };
    let mut talk = Talk::new(hinted(config), 2, &two_types(), 9);
    talk.script(
        "
        start      | plan 1
        0 b1:B     | run b1 on 1
        0 b2:B     |
        0 b3:B     |
        0 b4:B     |
        0 b5:B     |
        0 b6:B     |
        0 b7:B     |
        1 skip 1   | run b2 on 1
        1 skip 1   | run b3 on 1
        1 skip 1   | run b4 on 1
        1 skip 1   | run b5 on 1
        2 a1:A     | run a1 on 0
        ",
    );
    assert_eq!(talk.reservation(), "1/1+S");
}

#[test]
fn clause_2_6_occupancy_is_measured_from_the_last_dispatch() {
    // D4: requests left over from start-up and unknown ones did not set the dispatch stamp. Here B,
    // hinted at 1 ms, waits behind an unknown request of 100 us and then takes 10 us, as A does:
    // measured rightly the two make one group.
    let config = darc::Config {
        window: 1,
        delay_factor: 0,
        correction: Span::ZERO,
        ..darc::Config::default()
    };
    let hints = [hint(10, 0.5), hint(1_000, 0.5)];
    let mut talk = Talk::new(hinted(config), 1, &hints, 9);
    talk.script(
        "
        start       | plan 1
        0 u1:?      | run u1 on 0
        0 b1:B      |
        0 b2:B      |
        100 done 0  | run b1 on 0
        110 done 0  | run b2 on 0
        110 a1:A    |
        120 done 0  | run a1 on 0
        130 done 0  |
        130 a2:A    | run a2 on 0
        130 a3:A    |
        130 a4:A    |
        ",
    );
    assert_eq!(talk.reservation(), "1/0+S");
    talk.script("131 a5:A | plan 2");
    assert_eq!(talk.reservation(), "1");
}

// 2.7 When a new reservation is computed

/// Hints that are wrong: A is really 100 us and B 1 us. Whatever is evaluated changes the plan.
fn wrong(window: u64, delay_factor: u64) -> Talk {
    let config = darc::Config { window, delay_factor, ..darc::Config::default() };
    Talk::new(hinted(config), 2, &two_types(), 99)
}

#[test]
fn clause_2_7_evaluation_needs_more_than_a_window() {
    // Delay limit of A: 10 x 1 us; the second oldest has waited 100 us and more throughout.
    let mut talk = wrong(2, 10);
    talk.script(
        "
        start        | plan 1
        0 a1:A       | run a1 on 0
        0 b1:B       | run b1 on 1
        0 a2:A       |
        0 a3:A       |
        0 a4:A       |
        0 a5:A       |
        100 done 0   | run a2 on 0
        200 done 0   | run a3 on 0
        ",
    );
    // Two completions are not more than the window of two; the third is.
    talk.script("300 done 0 | plan 2; run a4 on 0");
}

#[test]
fn clause_2_7_evaluation_needs_the_second_oldest_delayed_beyond_its_limit() {
    // Full windows, and one request of A after another that waits for long, but never two at once.
    let mut talk = wrong(2, 10);
    talk.script(
        "
        start        | plan 1
        0 a1:A       | run a1 on 0
        0 b1:B       | run b1 on 1
        0 a2:A       |
        100 done 0   | run a2 on 0
        100 a3:A     |
        200 done 0   | run a3 on 0
        200 a4:A     |
        300 done 0   | run a4 on 0
        300 a5:A     |
        ",
    );
    // Two at once; the second oldest, a6, waits from 300: its limit of 10 us passes after 310.
    talk.script(
        "
        300 a6:A     |
        310 a7:A     |
        310.001 a8:A | plan 2
        ",
    );
}

#[test]
fn clause_2_7_the_limit_is_the_delay_factor_times_the_mean() {
    for (factor, on_time, late) in [(1u64, 1.0, 1.001), (10, 10.0, 10.001), (30, 30.0, 30.001)] {
        let mut talk = wrong(1, factor);
        talk.script(
            "
            start     | plan 1
            0 b1:B    | run b1 on 1
            0 a1:A    | run a1 on 0
            0 a2:A    |
            0 a3:A    |
            0 a4:A    |
            0 done 0  | run a2 on 0
            0 done 0  | run a3 on 0
            ",
        );
        talk.script(&format!("0 a5:A |\n {on_time} a6:A |\n {late} a7:A | plan 2"));
    }
}

#[test]
fn clause_2_7_a_window_is_reset_even_if_nothing_changed() {
    // The hints are right: an evaluation changes nothing, but the next needs a whole new window.
    let config = darc::Config {
        window: 3,
        delay_factor: 0,
        correction: Span::ZERO,
        ..darc::Config::default()
    };
    let mut talk = Talk::new(hinted(config), 2, &two_types(), 99);
    talk.script(
        "
        start       | plan 1
        0 a1:A      | run a1 on 0
        0 b1:B      | run b1 on 1
        1 done 0    |
        1 a2:A      | run a2 on 0
        2 done 0    |
        100 done 1  |
        100 b2:B    | run b2 on 1
        100 b3:B    |
        100 b4:B    |
        200 done 1  | run b3 on 1
        ",
    );
    // Evaluated at 200: two A of 1 us, two B of 100 us, as hinted. From here A takes 100 us too,
    // which a plan would show at once; it comes when 4 more have ended, not before.
    talk.script(
        "
        200 a3:A    | run a3 on 0
        200 b5:B    |
        201 b6:B    |
        300 done 0  |
        300 a4:A    | run a4 on 0
        300 done 1  | run b4 on 1
        400 done 0  |
        400 done 1  | plan 2; run b5 on 0; run b6 on 1
        ",
    );
}

/// A plan of 1/3 for A = 1 us and B = 3 us, half and half: demands 1 and 3 of 4 workers. Then a
/// window in which `as_` requests of A and 12 - `as_` of B complete; does a new plan come?
fn replans(threshold: f64, a_count: u64) -> bool {
    let config = darc::Config {
        window: 11,
        delay_factor: 0,
        change_threshold: threshold,
        correction: Span::ZERO,
        ..darc::Config::default()
    };
    let hints = [hint(1, 0.5), hint(3, 0.5)];
    let mut talk = Talk::new(hinted(config), 1, &hints, 99);
    talk.script("start | plan 1\n 0 x:A | run x on 0");
    // One worker: everything runs one after the other, A first.
    for index in 1..12 {
        let kind = if index < a_count { 'A' } else { 'B' };
        talk.script(&format!("0 r{index}:{kind} |"));
    }
    let mut at = 0;
    let mut said = String::new();
    talk.say("0 l1:B");
    talk.say("0 l2:B");
    for index in 0..12 {
        at += if index < a_count { 1 } else { 3 };
        said = talk.say(&format!("{at} done 0"));
    }
    said.contains("plan")
}

#[test]
fn clause_2_7_a_change_of_ten_percent_of_the_demand() {
    // Six of each: demands as planned. Seven A and five B: A's demand moves from 1/4 of the workers
    // to 7/22, by 27 %; B's from 3/4 to 15/22, by 9 %.
    assert!(!replans(0.1, 6));
    assert!(replans(0.1, 7));
    assert!(!replans(0.28, 7));
    assert!(replans(0.26, 7));
}

#[test]
fn clause_2_7_a_change_of_the_number_of_active_types() {
    // B vanished; with a threshold no demand can cross, the count of types still calls for a plan.
    assert!(replans(10.0, 12));
    assert!(!replans(10.0, 11));
}

// 2.9 Dispatch round

#[test]
fn clause_2_9_own_workers_first_then_the_next_longer() {
    // 1/1/2 of four workers: A may steal from B (worker 1) and C (2, 3), in that order.
    let groups = vec![(vec![Kind(1)], 1), (vec![Kind(2)], 1), (vec![Kind(3)], 2)];
    let hints = [hint(1, 0.4), hint(10, 0.3), hint(100, 0.3)];
    let mut talk = Talk::new(Policy::DarcStatic { groups }, 4, &hints, 9);
    talk.script(
        "
        start      | plan 1
        0 a1:A     | run a1 on 0
        0 a2:A     | steal a2 on 1
        0 a3:A     | steal a3 on 2
        0 b1:B     | steal b1 on 3
        0 a4:A     |
        0 b2:B     |
        0 c1:C     |
        1 done 0   | run a4 on 0
        2 done 3   | steal b2 on 3
        2 done 0   |
        3 done 1   |
        4 done 2   | run c1 on 2
        ",
    );
}

#[test]
fn clause_2_9_longs_never_run_on_a_worker_of_shorts() {
    let mut talk = Talk::new(fixed(1, 2), 2, &two_types(), 9);
    talk.script(
        "
        start       | plan 1
        0 b1:B      | run b1 on 1
        0 b2:B      |
        0 a1:A      | run a1 on 0
        1 done 0    |
        2 a2:A      | run a2 on 0
        3 done 0    |
        100 done 1  | run b2 on 1
        ",
    );
}

#[test]
fn clause_2_9_the_shorter_type_goes_first_fifo_within_a_type() {
    let mut talk = Talk::new(fixed(1, 2), 2, &two_types(), 9);
    talk.script(
        "
        start       | plan 1
        0 b1:B      | run b1 on 1
        0 a1:A      | run a1 on 0
        0 b2:B      |
        0 b3:B      |
        0 a2:A      |
        0 a3:A      |
        50 done 1   | steal a2 on 1
        51 done 1   | steal a3 on 1
        52 done 1   | run b2 on 1
        152 done 1  | run b3 on 1
        ",
    );
}

#[test]
fn clause_2_9_members_of_a_group_by_type_or_first_come() {
    // A (10 us) and B (11 us) make a group.
    let hints = [hint(10, 0.5), hint(11, 0.5)];
    for (group_order, first, second) in
        [(GroupOrder::ByType, "a1", "b1"), (GroupOrder::Fcfs, "b1", "a1")]
    {
        let config = darc::Config { group_order, ..darc::Config::default() };
        let mut talk = Talk::new(hinted(config), 1, &hints, 9);
        talk.script(&format!(
            "
            start     | plan 1
            0 a0:A    | run a0 on 0
            1 b1:B    |
            2 a1:A    |
            10 done 0 | run {first} on 0
            20 done 0 | run {second} on 0
            "
        ));
        assert_eq!(talk.reservation(), "1");
    }
}

#[test]
fn clause_2_9_unknown_on_the_spillway_only_and_one_a_round() {
    let hints = [hint(1, 1.0)];
    let mut talk = Talk::new(hinted(darc::Config::default()), 3, &hints, 9);
    talk.script(
        "
        start      | plan 1
        0 u1:?     | run u1 on 2
        0 u2:?     |
        0 u3:?     |
        0 a1:A     | run a1 on 0
        1 done 0   |
        2 done 2   | run u2 on 2
        3 a2:A     | run a2 on 0
        3 a3:A     | run a3 on 1
        3 a4:A     |
        4 done 2   | run a4 on 2
        5 done 2   | run u3 on 2
        ",
    );
}

// 2.10 DARC-static

#[test]
fn clause_2_10_all_workers_reserved_to_shorts_starve_longs() {
    let mut talk = Talk::new(fixed(2, 2), 2, &two_types(), 9);
    talk.script(
        "
        start      | plan 1
        0 b1:B     |
        0 a1:A     | run a1 on 0
        0 a2:A     | run a2 on 1
        1 done 0   |
        1 done 1   |
        ",
    );
}

// 2.13 Defects of the artifact

fn mean_of(estimator: Estimator, samples: impl Iterator<Item = u64>) -> f64 {
    let mut profile = Profile::new(1, estimator, Span::ZERO);
    for ns in samples {
        profile.record(Kind(1), Span::from_ns(ns), None);
    }
    let mut demands = Vec::new();
    profile.demands(false, &mut demands);
    demands[0].hold_ns
}

#[test]
fn clause_2_13_d1_a_truncated_running_mean_only_goes_down() {
    let n = 25_000;
    let exponential = || conversation::exponential(2_600.0).map(|x| x as u64).take(n);
    let normal = || conversation::normal(2_600.0, 100.0).map(|x| x as u64).take(n);
    let wide = || conversation::uniform(1.65e6 * 0.95, 1.65e6 * 1.05).map(|x| x as u64).take(n);
    let truncated = Estimator::Truncated;
    let (e, normal_mean) = (mean_of(truncated, exponential()), mean_of(truncated, normal()));
    println!(
        "truncated: exponential {e}, normal {normal_mean}, wide {}",
        mean_of(truncated, wide())
    );
    // The specification's simulation: 1, 2304 and 1.645 M.
    assert!(e <= 20.0, "{e}");
    assert!((2_280.0..2_330.0).contains(&normal_mean), "{normal_mean}");
    assert!((1.640e6..1.650e6).contains(&mean_of(truncated, wide())));
    for correct in [Estimator::Window, Estimator::Weighted { weight: 0.001 }] {
        let off = |mean: f64, expected: f64| (mean / expected - 1.0).abs();
        assert!(off(mean_of(correct, exponential()), 2_600.0) < 0.1, "{correct:?}");
        assert!(off(mean_of(correct, normal()), 2_600.0) < 0.01, "{correct:?}");
        assert!(off(mean_of(correct, wide()), 1.65e6) < 0.01, "{correct:?}");
    }
    // Constant work, all the artifact was run with, hides it.
    assert_eq!(mean_of(truncated, std::iter::repeat_n(2_600, n)), 2_600.0);
}

#[test]
fn clause_2_13_d2_the_correction_saturates() {
    let mut profile = Profile::new(1, Estimator::Window, Span::from_ns(600));
    profile.record(Kind(1), Span::from_ns(200), None);
    for by_occupancy in [false, true] {
        let mut demands = Vec::new();
        profile.demands(by_occupancy, &mut demands);
        assert!((0.0..=200.0).contains(&demands[0].order_ns), "{:?}", demands[0]);
        assert!((0.0..=200.0).contains(&demands[0].hold_ns), "{:?}", demands[0]);
    }
}

#[test]
fn clause_2_13_d9_round_robin_does_not_wrap_at_256() {
    // 7 workers: 256 mod 7 = 4, so an 8-bit counter would jump back by four at the first wrap.
    let policy = Policy::DistributedFcfs { steering: Steering::RoundRobin };
    let mut talk = Talk::new(policy, 7, &two_types(), 9);
    talk.script("start |");
    for request in 0..1_000 {
        let worker = request % 7;
        talk.script(&format!("{request} r{request}:A | run r{request} on {worker}"));
        talk.script(&format!("{request} done {worker} |"));
    }
}

// Resizing

#[test]
fn resize_makes_a_new_plan_and_uses_new_workers_at_once() {
    let mut talk = Talk::new(hinted(darc::Config::default()), 2, &two_types(), 9);
    talk.script(
        "
        start        | plan 1
        0 b1:B       | run b1 on 1
        0 b2:B       |
        0 b3:B       |
        1 resize 4   | plan 2; run b2 on 2; run b3 on 3
        ",
    );
    assert_eq!(talk.reservation(), "1/3+S");
    // Workers that go finish what they run and get nothing more.
    talk.script(
        "
        2 b4:B       |
        3 resize 2   | plan 3
        102 done 3   |
        103 done 2   |
        104 done 1   | run b4 on 1
        ",
    );
    assert_eq!(talk.reservation(), "1/1+S");
}

#[test]
fn resize_hands_the_queues_of_lost_workers_over() {
    let policy = Policy::DistributedFcfs { steering: Steering::RoundRobin };
    let mut talk = Talk::new(policy, 2, &two_types(), 9);
    talk.script(
        "
        start       |
        0 a1:A      | run a1 on 0
        0 a2:A      | run a2 on 1
        0 a3:A      |
        0 a4:A      |
        1 resize 1  |
        2 done 1    |
        3 done 0    | run a3 on 0
        4 done 0    | run a4 on 0
        ",
    );
}

// 8.2 Opportunities

/// The first plan for (Extreme Bimodal, High Bimodal) on 14 workers at load .9. The window is long
/// because Extreme Bimodal has one long request in 200: a window of 50 000 misjudges its load by 6
/// %.
fn plans(sizing: Sizing) -> [String; 2] {
    let config =
        darc::Config { sizing, window: 600_000, correction: Span::ZERO, ..darc::Config::default() };
    let policy = Policy::Darc { config, hinted: false };
    let extreme = [(500, 0.995), (500_000, 0.005)];
    let high = [(1_000, 0.5), (100_000, 0.5)];
    [&extreme, &high].map(|types| conversation::first_plan(&policy, 14, 0.9, types))
}

#[test]
fn clause_8_2_sizing_by_demand_takes_two_for_extreme_bimodal() {
    assert_eq!(plans(Sizing::Demand), ["2/12", "1/13+S"]);
}

#[test]
fn clause_8_2_o5_load_aware_sizing_takes_three_for_extreme_bimodal() {
    assert_eq!(plans(Sizing::LoadAware(Objective::default())), ["3/11", "1/13"]);
}

#[test]
fn clause_8_2_o7_rehearsal_takes_three_for_extreme_bimodal() {
    let terms = Terms { trace: 600_000, ..Terms::default() };
    assert_eq!(plans(Sizing::Rehearsed(terms)), ["3/11", "1/13"]);
}
