//! The laws of the seam that bind worlds ([`cavy_core::Machine`], laws 3 and 5), and the costs that
//! the cpu world charges ([persephone 3]), on a machine that follows a script.

use cavy_core::family::cpu::{DropReason, Effect, Input, Kind, Req, Timer, Worker};
use cavy_core::{Cx, Instant, Machine, Span};
use cavy_lab::cpu::{Cores, Costs, Done, Observer, Outcome, Setup, run};
use cavy_lab::pending::{Heap4, Pending, Wheel};
use cavy_workload::{Source, source::Request};
use std::collections::VecDeque;

/// One thing that the script asks for.
#[derive(Clone, Copy, Debug)]
enum Ask {
    /// Run the request that arrived as number so many, from 0.
    Run(u16, usize),
    /// The same, as a steal.
    Steal(u16, usize),
    Preempt(u16),
    Drop(usize),
    /// Arm the timer of this worker for a time in ns.
    Arm(u16, u64),
    Disarm(u16),
}

/// What the machine was told, in words a reader can check: "arrive 0", "finish 0 on 1", ...
type Log = Vec<(u64, String)>;

/// Answers the n-th call with the n-th line of its script, and logs the calls.
struct Scripted {
    script: VecDeque<Vec<Ask>>,
    arrived: Vec<Req>,
    log: Log,
}

impl Scripted {
    fn new(script: &[&[Ask]]) -> Self {
        let script = script.iter().map(|asks| asks.to_vec()).collect();
        Scripted { script, arrived: Vec::new(), log: Vec::new() }
    }

    fn number(&self, req: Req) -> usize {
        self.arrived.iter().rposition(|&other| other == req).expect("it has arrived")
    }

    fn play(&mut self, what: String, cx: &mut Cx<'_, Effect, Timer>) {
        self.log.push((cx.now().as_ns(), what));
        for ask in self.script.pop_front().unwrap_or_default() {
            let run = |worker, number: usize, stolen| Effect::Run {
                worker: Worker(worker),
                req: self.arrived[number],
                stolen,
            };
            match ask {
                Ask::Run(worker, number) => cx.emit(run(worker, number, false)),
                Ask::Steal(worker, number) => cx.emit(run(worker, number, true)),
                Ask::Preempt(worker) => cx.emit(Effect::Preempt { worker: Worker(worker) }),
                Ask::Drop(number) => {
                    let req = self.arrived[number];
                    cx.emit(Effect::Drop { req, why: DropReason::QueueFull });
                }
                Ask::Arm(worker, at) => cx.arm(Timer::Slice(Worker(worker)), Instant::from_ns(at)),
                Ask::Disarm(worker) => cx.disarm(Timer::Slice(Worker(worker))),
            }
        }
    }
}

impl Machine for Scripted {
    type Input = Input;
    type Effect = Effect;
    type Timer = Timer;

    fn effects_max(&self) -> usize {
        8
    }
    fn start(&mut self, _: &mut Cx<'_, Effect, Timer>) {}
    fn handle(&mut self, input: Input, cx: &mut Cx<'_, Effect, Timer>) {
        let what = match input {
            Input::Arrive { req, kind } => {
                assert_eq!(kind, Kind(1));
                self.arrived.push(req);
                format!("arrive {}", self.arrived.len() - 1)
            }
            Input::Finished { worker, req, .. } => {
                format!("finish {} on {}", self.number(req), worker.0)
            }
            Input::Yielded { worker, req } => {
                format!("yield {} on {}", self.number(req), worker.0)
            }
            Input::Skipped { .. } | Input::Resize { .. } => {
                unreachable!("nobody gives up or resizes")
            }
        };
        self.play(what, cx);
    }
    fn expire(&mut self, Timer::Slice(Worker(worker)): Timer, cx: &mut Cx<'_, Effect, Timer>) {
        self.play(format!("timer {worker}"), cx);
    }
}

/// Latency in ns by number of the request; `None` for those that were dropped.
#[derive(Default)]
struct Latencies(Vec<Option<u64>>);

impl<M: ?Sized> Observer<M> for Latencies {
    fn arrived(&mut self, _: u64, _: u16, _: u64) {
        self.0.push(None);
    }
    fn finished(&mut self, done: &Done) {
        self.0[done.number as usize] = Some(done.latency.as_ns());
    }
}

struct Played {
    log: Log,
    latencies: Vec<Option<u64>>,
    outcome: Outcome,
}

impl Played {
    fn said(&self) -> Vec<(u64, &str)> {
        self.log.iter().map(|(at, what)| (*at, what.as_str())).collect()
    }
}

const WORKERS: u16 = 3;

fn play_on(
    pending: &mut impl Pending,
    costs: Costs,
    requests: &[(u64, u64)],
    script: &[&[Ask]],
) -> Played {
    let request = |&(at, service): &(u64, u64)| Request {
        at: Instant::from_ns(at),
        kind: 0,
        label: 0,
        service: Span::from_ns(service),
    };
    let trace: Vec<Request> = requests.iter().map(request).collect();
    let setup = Setup {
        workers: WORKERS,
        cores: Cores::Own,
        costs,
        seed: 1,
        shuffle_ties: None,
        requests: requests.len() as u64,
        check: false,
    };
    let mut machine = Scripted::new(script);
    let mut latencies = Latencies::default();
    let source = Source::recorded(trace.into());
    let outcome = run(&setup, &mut machine, source, pending, &mut latencies);
    assert!(machine.script.is_empty(), "calls that never came: {:?}", machine.script);
    Played { log: machine.log, latencies: latencies.0, outcome }
}

/// Plays `script` against `requests`, given as (arrival, service) in ns, on both queues of events.
fn play(costs: Costs, requests: &[(u64, u64)], script: &[&[Ask]]) -> Played {
    let played = play_on(&mut Heap4::new(), costs, requests, script);
    let again = play_on(&mut Wheel::new(), costs, requests, script);
    assert_eq!(played.log, again.log, "the two queues of events disagree");
    assert_eq!(played.outcome, again.outcome);
    played
}

const FREE: Costs = Costs {
    per_request: Span::ZERO,
    dispatch: Span::ZERO,
    preemption: Span::ZERO,
    steal: Span::ZERO,
    round_trip: Span::ZERO,
};

#[test]
fn law_3_a_timer_fires_once_per_arming() {
    let played = play(
        FREE,
        &[(10, 500)],
        &[&[Ask::Run(0, 0), Ask::Arm(1, 50)], &[Ask::Arm(1, 70)], &[], &[]],
    );
    assert_eq!(
        played.said(),
        [(10, "arrive 0"), (50, "timer 1"), (70, "timer 1"), (510, "finish 0 on 0")]
    );
}

#[test]
fn law_3_a_disarmed_timer_never_fires() {
    let played = play(
        FREE,
        &[(10, 500), (20, 5)],
        &[&[Ask::Run(0, 0), Ask::Arm(1, 50)], &[Ask::Disarm(1), Ask::Drop(1)], &[]],
    );
    assert_eq!(played.said(), [(10, "arrive 0"), (20, "arrive 1"), (510, "finish 0 on 0")]);
    // Disarming what is not armed is legal, and armed again after that it fires.
    let played = play(
        FREE,
        &[(10, 500)],
        &[
            &[Ask::Disarm(1), Ask::Run(0, 0), Ask::Arm(1, 50), Ask::Disarm(1), Ask::Arm(1, 60)],
            &[],
            &[],
        ],
    );
    assert_eq!(played.said(), [(10, "arrive 0"), (60, "timer 1"), (510, "finish 0 on 0")]);
}

#[test]
fn law_3_a_timer_armed_again_fires_at_the_new_time_only() {
    // Later, earlier, and back to where an entry of the queue was left behind.
    for (first, second) in [(50, 80), (80, 50)] {
        let played = play(
            FREE,
            &[(10, 500), (20, 5)],
            &[
                &[Ask::Run(0, 0), Ask::Arm(1, first)],
                &[Ask::Drop(1), Ask::Arm(1, second)],
                &[],
                &[],
            ],
        );
        let said = played.said();
        assert_eq!(said[2..], [(second, "timer 1"), (510, "finish 0 on 0")], "{first}, {second}");
    }
    let played = play(
        FREE,
        &[(10, 500), (20, 5)],
        &[
            &[Ask::Run(0, 0), Ask::Arm(1, 80), Ask::Arm(1, 50)],
            &[Ask::Drop(1)],
            &[Ask::Arm(1, 80)],
            &[],
            &[],
        ],
    );
    assert_eq!(played.said()[2..], [(50, "timer 1"), (80, "timer 1"), (510, "finish 0 on 0")]);
}

#[test]
fn law_3_timers_of_different_workers_are_different_timers() {
    let played = play(
        FREE,
        &[(10, 500)],
        &[
            &[Ask::Run(0, 0), Ask::Arm(0, 60), Ask::Arm(1, 50), Ask::Arm(2, 55)],
            &[Ask::Disarm(2)],
            &[],
            &[],
        ],
    );
    assert_eq!(played.said()[1..3], [(50, "timer 1"), (60, "timer 0")]);
}

#[test]
fn law_5_a_timer_armed_for_the_past_fires_now_after_the_inputs_of_now() {
    // Two requests arrive at 20; the first arms a timer for 3, which is past.
    let played = play(
        FREE,
        &[(10, 10), (20, 5), (20, 5)],
        &[
            &[Ask::Run(0, 0)],
            &[],
            &[Ask::Run(0, 1), Ask::Arm(2, 3)],
            &[Ask::Run(1, 2)],
            &[],
            &[],
            &[],
        ],
    );
    assert_eq!(
        played.said()[1..5],
        [(20, "finish 0 on 0"), (20, "arrive 1"), (20, "arrive 2"), (20, "timer 2")]
    );
}

#[test]
fn law_5_completions_then_arrivals_then_timers() {
    // All at 100: the timer is armed first, the request that ends then starts second.
    let played = play(
        FREE,
        &[(40, 60), (100, 5)],
        &[&[Ask::Arm(2, 100), Ask::Run(0, 0)], &[], &[Ask::Run(0, 1)], &[], &[]],
    );
    assert_eq!(played.said()[1..4], [(100, "finish 0 on 0"), (100, "arrive 1"), (100, "timer 2")]);
}

#[test]
fn law_5_effects_apply_in_the_order_of_emission() {
    // A worker can be stopped and a request dropped only after it was started and before: the world
    // would refuse either order reversed. Simultaneous ends come in the order in which they
    // started.
    let played = play(
        FREE,
        &[(10, 5), (10, 30), (10, 30)],
        &[&[], &[], &[Ask::Run(2, 2), Ask::Run(0, 1), Ask::Drop(0)], &[], &[]],
    );
    assert_eq!(played.said()[3..], [(40, "finish 2 on 2"), (40, "finish 1 on 0")]);
    assert_eq!(played.latencies, [None, Some(30), Some(30)]);
    assert_eq!((played.outcome.finished, played.outcome.dropped), (2, 1));
    // Started and preempted in one step: it has run for no time.
    let played =
        play(FREE, &[(10, 30)], &[&[Ask::Run(0, 0), Ask::Preempt(0)], &[Ask::Run(1, 0)], &[]]);
    assert_eq!(played.said()[1..], [(10, "yield 0 on 0"), (40, "finish 0 on 1")]);
}

#[test]
#[should_panic(expected = "is busy and should run")]
fn a_worker_runs_one_request() {
    play(FREE, &[(10, 5), (11, 5)], &[&[Ask::Run(0, 0)], &[Ask::Run(0, 1)]]);
}

#[test]
fn a_preempted_request_keeps_what_it_has_left() {
    // 100 ns of work: 40 before the timer, a pause until 80, the other 60 elsewhere.
    let played = play(
        FREE,
        &[(0, 100), (80, 5)],
        &[
            &[Ask::Run(0, 0), Ask::Arm(0, 40)],
            &[Ask::Preempt(0)],
            &[],
            &[Ask::Run(0, 1), Ask::Run(1, 0)],
            &[],
            &[],
        ],
    );
    assert_eq!(played.said()[1..3], [(40, "timer 0"), (40, "yield 0 on 0")]);
    assert_eq!(played.latencies, [Some(140), Some(5)]);
}

#[test]
fn preemption_is_charged_to_the_worker() {
    let costs = Costs { preemption: Span::from_ns(7), ..FREE };
    let played = play(
        costs,
        &[(0, 100), (200, 1)],
        &[
            &[Ask::Run(0, 0), Ask::Arm(0, 40)],
            &[Ask::Preempt(0)],
            &[Ask::Run(0, 0)],
            &[],
            &[Ask::Run(0, 1)],
            &[],
        ],
    );
    assert_eq!(
        played.said()[1..4],
        [(40, "timer 0"), (47, "yield 0 on 0"), (107, "finish 0 on 0")]
    );
    // The overhead is worker time: 100 of work and 7 of preemption, until the last arrival.
    assert_eq!(played.outcome.busy_ns, 107);
}

#[test]
fn preempting_nobody_is_harmless() {
    let played = play(
        FREE,
        &[(0, 10), (50, 10)],
        &[&[Ask::Run(0, 0), Ask::Preempt(1)], &[], &[Ask::Preempt(0), Ask::Run(0, 1)], &[]],
    );
    assert_eq!(played.latencies, [Some(10), Some(10)]);
}

#[test]
fn steals_and_hand_overs_are_charged() {
    let costs = Costs { per_request: Span::from_ns(3), steal: Span::from_ns(20), ..FREE };
    let played = play(
        costs,
        &[(0, 100), (0, 100), (1_000, 1)],
        &[&[Ask::Run(0, 0)], &[Ask::Steal(1, 1)], &[], &[], &[Ask::Run(0, 2)], &[]],
    );
    assert_eq!(played.latencies, [Some(103), Some(123), Some(4)]);
    assert_eq!(played.outcome.busy_ns, 103 + 123);
}

#[test]
fn hand_over_is_charged_once_however_often_a_request_resumes() {
    let costs = Costs { per_request: Span::from_ns(3), ..FREE };
    let played = play(
        costs,
        &[(0, 100)],
        &[
            &[Ask::Run(0, 0), Ask::Arm(0, 40)],
            &[Ask::Preempt(0)],
            &[Ask::Run(0, 0), Ask::Arm(0, 80)],
            &[Ask::Preempt(0)],
            &[Ask::Run(0, 0)],
            &[],
        ],
    );
    assert_eq!(played.latencies, [Some(103)]);
}

#[test]
fn a_slice_is_time_of_the_requests_own() {
    // [persephone 3.6]: a request of 4.9 us that costs 0.3 us ends within a slice of 5 us. The
    // machine counts the slice from when it starts the request.
    let costs = Costs { per_request: Span::from_ns(300), steal: Span::from_ns(20), ..FREE };
    let played =
        play(costs, &[(0, 4_900)], &[&[Ask::Run(0, 0), Ask::Arm(0, 5_000)], &[Ask::Disarm(0)]]);
    assert_eq!(played.said(), [(0, "arrive 0"), (5_200, "finish 0 on 0")]);
    // The first slice of a longer one ends after its cost, later ones do not pay it again, and a
    // steal delays the slice in which it happens.
    let played = play(
        costs,
        &[(0, 12_000)],
        &[
            &[Ask::Run(0, 0), Ask::Arm(0, 5_000)],
            &[Ask::Preempt(0)],
            &[Ask::Run(0, 0), Ask::Arm(0, 10_300)],
            &[Ask::Preempt(0)],
            &[Ask::Steal(0, 0), Ask::Arm(0, 15_300)],
            &[Ask::Disarm(0)],
        ],
    );
    let said = played.said();
    assert_eq!(said[1], (5_300, "timer 0"));
    assert_eq!(said[3], (10_300, "timer 0"));
    assert_eq!(said[5], (12_320, "finish 0 on 0"));
}

#[test]
fn the_dispatcher_handles_one_request_after_another() {
    // Lindley: 10 ns each. Sent at 0, 4, 8 and 100, they reach the machine at 10, 20, 30 and 110,
    // and latency counts from when they were sent.
    let costs = Costs { dispatch: Span::from_ns(10), ..FREE };
    let played = play(
        costs,
        &[(0, 5), (4, 5), (8, 5), (100, 5)],
        &[
            &[Ask::Run(0, 0)],
            &[],
            &[Ask::Run(0, 1)],
            &[],
            &[Ask::Run(0, 2)],
            &[],
            &[Ask::Run(0, 3)],
            &[],
        ],
    );
    let arrivals: Vec<u64> =
        played.log.iter().filter(|(_, what)| what.starts_with("arrive")).map(|l| l.0).collect();
    assert_eq!(arrivals, [10, 20, 30, 110]);
    assert_eq!(played.latencies, [Some(15), Some(21), Some(27), Some(15)]);
    // The dispatcher's time is not the workers'.
    assert_eq!(played.outcome.busy_ns, 15);
}

#[test]
fn the_round_trip_is_added_to_latency_and_to_nothing_else() {
    let costs = Costs { round_trip: Span::from_us(10), ..FREE };
    let played = play(costs, &[(0, 5), (7, 5)], &[&[Ask::Run(0, 0)], &[], &[Ask::Run(0, 1)], &[]]);
    assert_eq!(played.said()[1..3], [(5, "finish 0 on 0"), (7, "arrive 1")]);
    assert_eq!(played.latencies, [Some(10_005), Some(10_005)]);
    assert_eq!(played.outcome.busy_ns, 5);
}

#[test]
fn utilization_counts_until_the_last_arrival() {
    // Busy from 0 to 50 and from 30 on; the last arrival is at 40: 40 + 10 of worker time.
    let played = play(
        FREE,
        &[(0, 50), (30, 100), (40, 1)],
        &[&[Ask::Run(0, 0)], &[Ask::Run(1, 1)], &[Ask::Drop(2)], &[], &[]],
    );
    assert_eq!(played.outcome.busy_ns, 50);
    assert_eq!(played.outcome.last_arrival, Instant::from_ns(40));
    assert_eq!(played.outcome.ended, Instant::from_ns(130));
}
