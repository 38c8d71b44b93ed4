//! The simulator against closed forms: every row of [persephone 5.1].
//!
//! **How agreement is judged.** Each row runs at least ten independent replications and takes the
//! 95 % interval of Student's t over their means. The closed form must lie within twice the
//! half-width of the estimate: with nine degrees of freedom a true model fails that one time in
//! seven hundred. A wide interval would excuse anything, so each row also says how narrow it must
//! be. Lee and Longton's formula is an approximation, and has the tolerances that the specification
//! grants it.
//!
//! **What every run is held to besides.** Little's law per type, exactly: the time that a type's
//! requests spent in the system, integrated as the machine saw them come and go, is the sum of the
//! latencies that the observer was told. And utilization: the time workers were busy is the service
//! time that arrived, less at most what they could do after the last arrival.
//!
//! `cargo test -p cavy-lab --test closed_forms -- --nocapture --test-threads 1` prints the table.

#[path = "closed_forms/disciplines.rs"]
mod disciplines;
#[path = "closed_forms/machines.rs"]
mod machines;

use cavy_core::family::cpu::{Effect, Input, Kind, Req, Timer};
use cavy_core::{Cx, Instant, Machine, Out, Outbox, Span};
use cavy_lab::cpu::{
    Closed, Cores, Costs, Done, Observer, Recorder, Replication, Requests, Setup, run,
};
use cavy_lab::pending::Heap4;
use cavy_lab::statistics::{Histogram, Interval, quantile};
use cavy_lab::theory;
use cavy_sched::config::AnyPolicy;
use cavy_sched::distributed::Steering;
use cavy_sched::ranked::Foresight;
use cavy_sched::{Policy, TypeHint, build_foreseeing, darc};
use cavy_workload::{Arrivals, Mix, Phase, Service, Source, Type, Workload};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const US: f64 = 1e3;
const REPLICATIONS: u64 = 10;

/// The most that one run may be off in utilization with cores shared, where the requests under way
/// at the last arrival are left out whole.
const SHARED_SLACK: f64 = 0.01;

fn constant(share: f64, us: f64) -> Type {
    Type { share, service: Service::Constant { ns: (us * US) as u64 } }
}

fn mix(types: &[(f64, f64)]) -> Mix {
    let types = types.iter().map(|&(share, us)| constant(share, us)).collect();
    Mix::new(types).expect("a legal mix")
}

fn exponential() -> Mix {
    let service = Service::Exponential { mean_ns: US };
    Mix::new(vec![Type { share: 1.0, service }]).expect("a legal mix")
}

fn high_bimodal() -> Mix {
    mix(&[(0.5, 1.0), (0.5, 100.0)])
}

fn extreme_bimodal() -> Mix {
    mix(&[(0.995, 0.5), (0.005, 500.0)])
}

fn tpc_c() -> Mix {
    mix(&[(0.44, 5.7), (0.04, 6.0), (0.44, 20.0), (0.04, 88.0), (0.04, 100.0)])
}

/// One point of one row.
#[derive(Clone)]
struct Model {
    mix: Mix,
    policy: Policy,
    workers: u16,
    cores: Cores,
    load: f64,
    queue_limit: u32,
    requests: u64,
    /// Waits longer than this are counted.
    threshold: Span,
    /// How many clients, who wait for their answers, and their mean time of thinking in ns.
    clients: Option<(u32, f64)>,
}

impl Model {
    fn new(mix: Mix, policy: Policy, workers: u16, load: f64, requests: u64) -> Self {
        Model {
            mix,
            policy,
            workers,
            cores: Cores::Own,
            load,
            // No closed form but one knows a full queue.
            queue_limit: u32::MAX,
            requests,
            threshold: Span::ZERO,
            clients: None,
        }
    }

    fn rate_per_s(&self) -> f64 {
        match &self.cores {
            Cores::Own => self.load * self.mix.peak_rate_per_s(u32::from(self.workers)),
            Cores::Shared(cores) => self.load * self.mix.peak_rate_per_s(u32::from(*cores)),
            Cores::Unequal(speeds) => self.load * speeds.sum() * self.mix.peak_rate_per_s(1),
        }
    }

    /// Who asks.
    fn requests(&self, seed: u64) -> Requests {
        match self.clients {
            None => Source::new(&self.workload(), seed).into(),
            Some((population, think_ns)) => {
                let think = Some(Service::Exponential { mean_ns: think_ns });
                let mix = self.mix.clone();
                Closed { population, think, mix, round_trip: Span::ZERO }.start(seed).into()
            }
        }
    }

    /// Requests per nanosecond.
    fn arrivals(&self) -> f64 {
        self.rate_per_s() / 1e9
    }

    fn hints(&self) -> Vec<TypeHint> {
        let hint = |one: &Type| TypeHint {
            mean: Span::from_ns(one.service.mean_ns() as u64),
            ratio: one.share,
        };
        self.mix.types().iter().map(hint).collect()
    }

    fn workload(&self) -> Workload {
        let phase = Phase {
            mix: self.mix.clone(),
            arrivals: Arrivals::Poisson,
            rate_per_s: self.rate_per_s(),
            duration: None,
        };
        Workload::new(vec![phase], 0.0).expect("a legal workload")
    }

    fn replicate(&self, seed: u64) -> Sample {
        // A machine takes at most 4096 workers; slots of processor sharing come from the policy.
        let shared = matches!(self.cores, Cores::Shared(_));
        let of_policy = if shared { 1 } else { self.workers };
        let foresight = Source::new(&self.workload(), seed).map(|request| request.service);
        let (hints, limit) = (self.hints(), self.queue_limit);
        let foresight = Some(Box::new(foresight) as Foresight);
        let policy = build_foreseeing(&self.policy, of_policy, &hints, limit, foresight);
        let kinds = self.mix.types().len();
        let mut witness = Witness::new(policy.expect("a legal policy"), kinds, self);
        let setup = Setup {
            workers: self.workers,
            cores: self.cores,
            costs: Costs::default(),
            seed,
            shuffle_ties: None,
            requests: self.requests,
            check: false,
        };
        let mut recorder = Recorder::new(self.requests, kinds);
        let mut told = Told { sojourns: vec![0; kinds] };
        let source = self.requests(seed);
        let mut pending = Heap4::new();
        let mut both = (&mut recorder, &mut told);
        let outcome = run(&setup, &mut witness, source, &mut pending, &mut both);
        let record = recorder.finish(&setup, outcome);
        self.check_conservation(&record, &witness, &told);
        Sample { record, kinds: witness.kinds }
    }

    /// What holds for every run to the nanosecond, whatever it simulates.
    fn check_conservation(&self, record: &Replication, witness: &Witness, told: &Told) {
        let outcome = &record.outcome;
        assert_eq!(outcome.arrived, self.requests);
        assert_eq!(outcome.finished + outcome.dropped, outcome.arrived);
        for (seen, &sojourns) in witness.kinds.iter().zip(&told.sojourns) {
            assert_eq!(seen.present, 0, "the system is empty at the end");
            assert_eq!(seen.present_ns, sojourns, "Little: the integral of L is the sum of T");
        }
        let work: u64 = witness.kinds.iter().map(|seen| seen.work_ns).sum();
        let busy = outcome.busy_ns;
        assert!(busy <= work, "workers were busy {busy} ns with {work} ns of work");
        let left_at_most = match self.cores {
            Cores::Own | Cores::Unequal(_) => {
                outcome.ended.since(outcome.last_arrival).as_ns() * u64::from(self.workers)
            }
            Cores::Shared(_) => (work as f64 * SHARED_SLACK) as u64,
        };
        assert!(work - busy <= left_at_most, "{work} ns of work, {busy} ns busy");
    }

    fn replications(&self, salt: u64) -> Vec<Sample> {
        (0..REPLICATIONS).map(|seed| self.replicate(salt * 1000 + seed)).collect()
    }
}

/// What one replication measured.
struct Sample {
    record: Replication,
    kinds: Vec<Seen>,
}

impl Sample {
    fn mean_wait_us(&self, kind: usize) -> f64 {
        self.kinds[kind].wait_ns as f64 / self.kinds[kind].counted as f64 / US
    }

    fn over(&self, count: impl Fn(&Seen) -> u64) -> f64 {
        let all: u64 = self.kinds.iter().map(|seen| seen.counted).sum();
        self.kinds.iter().map(count).sum::<u64>() as f64 / all as f64
    }

    fn mean_wait_all_us(&self) -> f64 {
        self.over(|seen| seen.wait_ns) / US
    }

    fn mean_sojourn_us(&self, kind: usize) -> f64 {
        self.record.types[kind].latency.mean().expect("requests of every type") / US
    }
}

/// What a [`Witness`] saw of one type. All but the first three leave out the warm-up.
#[derive(Clone, Default)]
struct Seen {
    present: u64,
    /// `present` integrated over time.
    present_ns: u128,
    /// Service time of the requests that ended.
    work_ns: u64,
    counted: u64,
    wait_ns: u64,
    /// Requests that did not start in the step in which they arrived.
    waited: u64,
    /// Requests that waited longer than the threshold.
    exceeded: u64,
    stolen: u64,
    dropped: u64,
}

/// A request that a [`Witness`] saw arrive.
#[derive(Clone, Copy)]
struct Arrived {
    at: Instant,
    kind: u16,
    counted: bool,
    started: bool,
}

/// Runs another machine and watches its inputs and effects: a second account of the run, kept apart
/// from the world's.
struct Witness {
    inner: Box<dyn AnyPolicy>,
    outbox: Outbox<Effect, Timer>,
    requests: Vec<Arrived>,
    kinds: Vec<Seen>,
    last: Instant,
    arrived: u64,
    warmup: u64,
    threshold: Span,
}

impl Witness {
    fn new(inner: Box<dyn AnyPolicy>, kinds: usize, model: &Model) -> Self {
        Witness {
            outbox: Outbox::with_capacity(inner.effects_max()),
            inner,
            requests: Vec::new(),
            kinds: vec![Seen::default(); kinds],
            last: Instant::ZERO,
            arrived: 0,
            warmup: model.requests / 10,
            threshold: model.threshold,
        }
    }

    fn advance(&mut self, now: Instant) {
        let passed = u128::from(now.since(self.last).as_ns());
        self.last = now;
        for seen in &mut self.kinds {
            seen.present_ns += u128::from(seen.present) * passed;
        }
    }

    fn note_input(&mut self, input: &Input, now: Instant) {
        match *input {
            Input::Arrive { req, kind: Kind(kind) } => {
                let counted = self.arrived >= self.warmup;
                self.arrived += 1;
                let kind = kind - 1;
                let arrived = Arrived { at: now, kind, counted, started: false };
                let index = req.0 as usize;
                if index == self.requests.len() {
                    self.requests.push(arrived);
                } else {
                    self.requests[index] = arrived;
                }
                let seen = &mut self.kinds[usize::from(kind)];
                seen.present += 1;
                seen.counted += u64::from(counted);
            }
            Input::Finished { req, service, .. } => {
                let seen = &mut self.kinds[usize::from(self.requests[req.0 as usize].kind)];
                seen.present -= 1;
                seen.work_ns += service.expect("the world measures").as_ns();
            }
            Input::Skipped { .. } | Input::Yielded { .. } | Input::Resize { .. } => {}
        }
    }

    fn note_effect(&mut self, effect: &Effect, now: Instant) {
        match *effect {
            Effect::Run { req: Req(req), stolen, .. } => {
                let arrived = &mut self.requests[req as usize];
                if arrived.started {
                    return; // resumed after a preemption
                }
                arrived.started = true;
                if arrived.counted {
                    let wait = now.since(arrived.at);
                    let seen = &mut self.kinds[usize::from(arrived.kind)];
                    seen.wait_ns += wait.as_ns();
                    seen.waited += u64::from(!wait.is_zero());
                    seen.exceeded += u64::from(wait > self.threshold);
                    seen.stolen += u64::from(stolen);
                }
            }
            Effect::Drop { req: Req(req), .. } => {
                let arrived = self.requests[req as usize];
                let seen = &mut self.kinds[usize::from(arrived.kind)];
                seen.present -= 1;
                seen.dropped += u64::from(arrived.counted);
            }
            Effect::Preempt { .. } | Effect::Reserved { .. } => {}
        }
    }

    fn forward(&mut self, cx: &mut Cx<'_, Effect, Timer>) {
        let mut outbox = std::mem::replace(&mut self.outbox, Outbox::with_capacity(0));
        for out in outbox.drain() {
            match out {
                Out::Effect(effect) => {
                    self.note_effect(&effect, cx.now());
                    cx.emit(effect);
                }
                Out::Arm(timer, at) => cx.arm(timer, at),
                Out::Disarm(timer) => cx.disarm(timer),
            }
        }
        self.outbox = outbox;
    }
}

impl Machine for Witness {
    type Input = Input;
    type Effect = Effect;
    type Timer = Timer;

    fn effects_max(&self) -> usize {
        self.inner.effects_max()
    }
    fn start(&mut self, cx: &mut Cx<'_, Effect, Timer>) {
        self.inner.start(&mut Cx::new(cx.now(), cx.rng(), &mut self.outbox));
        self.forward(cx);
    }
    fn handle(&mut self, input: Input, cx: &mut Cx<'_, Effect, Timer>) {
        self.advance(cx.now());
        self.note_input(&input, cx.now());
        self.inner.handle(input, &mut Cx::new(cx.now(), cx.rng(), &mut self.outbox));
        self.forward(cx);
    }
    fn expire(&mut self, timer: Timer, cx: &mut Cx<'_, Effect, Timer>) {
        self.inner.expire(timer, &mut Cx::new(cx.now(), cx.rng(), &mut self.outbox));
        self.forward(cx);
    }
}

/// Sum of the latencies told, per type.
struct Told {
    sojourns: Vec<u128>,
}

impl<M: ?Sized> Observer<M> for Told {
    fn finished(&mut self, done: &Done) {
        self.sojourns[usize::from(done.kind)] += u128::from(done.latency.as_ns());
    }
}

fn print_row(what: &str, theory: f64, found: Interval) {
    let ratio = found.estimate / theory;
    let (estimate, relative) = (found.estimate, 100.0 * found.relative());
    println!("| {what} | {theory:.5} | {estimate:.5} | {ratio:.4} | {relative:.2} % |");
}

/// `theory` lies within twice the half-width of the replications' mean, and the half-width is at
/// most `narrow` of the estimate.
fn agrees(what: &str, values: &[f64], theory: f64, narrow: f64) {
    let found = Interval::of_mean(values).expect("replications");
    judge(what, found, theory, narrow);
}

fn judge(what: &str, found: Interval, theory: f64, narrow: f64) {
    print_row(what, theory, found);
    let off = (found.estimate - theory).abs();
    assert!(found.relative() <= narrow, "{what}: {found:?} is too wide to judge by");
    assert!(off <= 2.0 * found.half_width(), "{what}: {theory} is not in {found:?}");
}

fn each(samples: &[Sample], of: impl Fn(&Sample) -> f64) -> Vec<f64> {
    samples.iter().map(of).collect()
}

/// The share of worker time in use is the load that was asked for.
fn utilization_agrees(what: &str, model: &Model, samples: &[Sample]) {
    let used = each(samples, |sample| sample.record.utilization);
    // Work that arrives is itself random: in EB one request in 200 brings most of it.
    agrees(&format!("{what}: utilization"), &used, model.load, 0.03);
}

#[test]
fn clause_5_1_mm1_mean_and_percentiles() {
    for (load, requests, narrow) in
        [(0.5, 200_000, [0.01, 0.03, 0.06]), (0.8, 400_000, [0.02, 0.05, 0.08])]
    {
        let model = Model::new(exponential(), Policy::CentralFcfs, 1, load, requests);
        let samples = model.replications(1);
        let what = format!("M/M/1 at {load}");
        let mean = theory::mm1_mean_sojourn(load, 1.0);
        agrees(
            &format!("{what}: E[T]"),
            &each(&samples, |s| s.mean_sojourn_us(0)),
            mean,
            narrow[0],
        );
        let mut pooled = Histogram::new();
        samples.iter().for_each(|sample| pooled.merge(&sample.record.types[0].latency));
        for (p, narrow) in [(0.99, narrow[1]), (0.999, narrow[2])] {
            let of = |latency: &Histogram| latency.quantile(p).expect("requests") as f64 / US;
            let own = each(&samples, |sample| of(&sample.record.types[0].latency));
            let found = quantile::sectioned(&own, of(&pooled)).expect("replications");
            let quantile = theory::mm1_sojourn_quantile(p, load, 1.0);
            judge(&format!("{what}: T at {p}"), found, quantile, narrow);
        }
        utilization_agrees(&what, &model, &samples);
    }
}

#[test]
fn clause_5_1_md1_mean_wait() {
    for (load, requests) in [(0.5, 100_000), (0.8, 200_000)] {
        let model = Model::new(mix(&[(1.0, 1.0)]), Policy::CentralFcfs, 1, load, requests);
        let samples = model.replications(2);
        let what = format!("M/D/1 at {load}");
        let wait = theory::md1_mean_wait(load, 1.0);
        agrees(&format!("{what}: E[W]"), &each(&samples, Sample::mean_wait_all_us), wait, 0.02);
        utilization_agrees(&what, &model, &samples);
    }
}

fn pollaczek_khinchine_us(mix: &Mix, load: f64) -> f64 {
    let arrivals = load / mix.mean_ns();
    theory::pollaczek_khinchine_mean_wait(arrivals, mix.mean_ns(), mix.second_moment_ns2()) / US
}

#[test]
fn clause_5_1_pollaczek_khinchine_mean_wait() {
    for (load, requests) in [(0.5, 200_000), (0.8, 400_000)] {
        let model = Model::new(high_bimodal(), Policy::CentralFcfs, 1, load, requests);
        let samples = model.replications(3);
        let what = format!("HB on 1 worker at {load}");
        let wait = pollaczek_khinchine_us(&model.mix, load);
        agrees(&format!("{what}: E[W]"), &each(&samples, Sample::mean_wait_all_us), wait, 0.03);
        utilization_agrees(&what, &model, &samples);
    }
}

#[test]
fn clause_5_1_random_dfcfs_is_n_queues() {
    let policy = Policy::DistributedFcfs { steering: Steering::Random };
    for (name, mix, workers, requests, narrow) in [
        ("HB", high_bimodal(), 14, 200_000, 0.02),
        ("HB", high_bimodal(), 4, 100_000, 0.03),
        // One request in 200 makes all the waiting.
        ("EB", extreme_bimodal(), 14, 300_000, 0.06),
    ] {
        let model = Model::new(mix, policy.clone(), workers, 0.5, requests);
        let samples = model.replications(4);
        let what = format!("{name}, random d-FCFS on {workers} at 0.5");
        let wait = pollaczek_khinchine_us(&model.mix, model.load);
        agrees(&format!("{what}: E[W]"), &each(&samples, Sample::mean_wait_all_us), wait, narrow);
        utilization_agrees(&what, &model, &samples);
    }
}

#[test]
fn clause_5_1_erlang_c() {
    // (workers, load, requests, width of P(W > 0))
    for (workers, load, requests, narrow) in [
        (14, 0.3, 300_000, 0.4),
        (14, 0.38, 200_000, 0.15),
        (14, 0.4, 300_000, 0.12),
        (16, 0.4, 300_000, 0.2),
        (16, 0.45, 300_000, 0.1),
        (14, 0.5, 300_000, 0.06),
        (14, 0.7, 200_000, 0.04),
        (14, 0.8, 200_000, 0.03),
        (14, 0.9, 400_000, 0.03),
    ] {
        let mut model = Model::new(exponential(), Policy::CentralFcfs, workers, load, requests);
        model.threshold = Span::from_ns(200);
        let samples = model.replications(5);
        let what = format!("M/M/{workers} at {load}");
        let servers = u32::from(workers);
        let arrivals = model.arrivals() * US;
        let waits = theory::erlang_c(servers, arrivals);
        let waited = each(&samples, |sample| sample.over(|seen| seen.waited));
        agrees(&format!("{what}: C"), &waited, waits, narrow);
        if load >= 0.5 {
            // Waits vary about as much again as their number does.
            let wait = theory::mmn_mean_wait(servers, arrivals, 1.0);
            let found = each(&samples, Sample::mean_wait_all_us);
            agrees(&format!("{what}: E[W]"), &found, wait, 2.0 * narrow);
            let beyond = theory::mmn_wait_exceeds(servers, arrivals, 1.0, 0.2);
            let found = each(&samples, |sample| sample.over(|seen| seen.exceeded));
            agrees(&format!("{what}: P(W > 0.2 us)"), &found, beyond, 2.0 * narrow);
            utilization_agrees(&what, &model, &samples);
        }
    }
}

/// Holds the mean wait under c-FCFS to Lee and Longton's approximation within the specification's
/// 40 % at load .5 and 15 % above, the sampling error of our estimate aside; and to the reference
/// simulation that the specification quotes with two digits.
fn lee_longton(name: &str, mix: &Mix, rows: [(f64, u64, f64, f64); 4]) {
    for (load, requests, reference, narrow) in rows {
        let model = Model::new(mix.clone(), Policy::CentralFcfs, 14, load, requests);
        let samples = model.replications(6);
        let what = format!("{name} on 14 at {load}");
        let wait = theory::lee_longton_mean_wait(
            14,
            model.arrivals() * US,
            mix.mean_ns() / US,
            mix.squared_cv(),
        );
        let found = Interval::of_mean(&each(&samples, Sample::mean_wait_all_us));
        let found = found.expect("replications");
        print_row(&format!("{what}: E[W], Lee-Longton"), wait, found);
        assert!(found.relative() <= narrow, "{what}: {found:?} is too wide to judge by");
        let tolerance = if load < 0.7 { 0.4 } else { 0.15 };
        let within = |value: f64, part: f64| {
            found.high >= value * (1.0 - part) && found.low <= value * (1.0 + part)
        };
        assert!(within(wait, tolerance), "{what}: {wait} approximates {found:?} too badly");
        // Two digits leave 4 % open at 0.13, and the reference has a sampling error of its own.
        assert!(within(reference, 0.1), "{what}: the reference simulation has {reference}");
        utilization_agrees(&what, &model, &samples);
    }
}

#[test]
fn clause_5_1_lee_longton_high_bimodal() {
    let rows = [
        (0.5, 200_000, 0.13, 0.15),
        (0.7, 200_000, 2.07, 0.06),
        (0.8, 200_000, 6.38, 0.06),
        (0.9, 300_000, 22.5, 0.06),
    ];
    lee_longton("HB", &high_bimodal(), rows);
}

#[test]
fn clause_5_1_lee_longton_tpc_c() {
    // Deviation: the specification's reference simulation has 0.053 at .5, which its own sampling
    // error must have made: the recursion of Kiefer and Wolfowitz, below and in another language,
    // has 0.0385.
    let rows = [
        (0.5, 200_000, 0.0385, 0.15),
        (0.7, 200_000, 0.79, 0.06),
        (0.8, 200_000, 2.66, 0.06),
        (0.9, 300_000, 10.1, 0.06),
    ];
    lee_longton("TPC-C", &tpc_c(), rows);
}

#[test]
fn clause_5_1_lee_longton_extreme_bimodal() {
    // Waits need 14 requests in the system of which one in 200 makes the trouble, so a million
    // requests hold few independent episodes. These intervals are wide; that the simulation itself
    // is right is what the recursion of Kiefer and Wolfowitz, below, tests exactly.
    let rows = [
        (0.5, 300_000, 0.29, 0.9),
        (0.7, 700_000, 6.8, 0.2),
        (0.8, 400_000, 23.1, 0.25),
        (0.9, 600_000, 88.0, 0.25),
    ];
    lee_longton("EB", &extreme_bimodal(), rows);
}

#[test]
fn clause_5_1_cobham_priority() {
    let model = Model::new(high_bimodal(), Policy::FixedPriority, 1, 0.8, 300_000);
    let samples = model.replications(7);
    let class = |us: f64| theory::Class {
        arrivals: model.arrivals() * US / 2.0,
        mean: us,
        second_moment: us * us,
    };
    let waits = theory::cobham_mean_waits(class(1.0), class(100.0));
    for (kind, wait) in waits.into_iter().enumerate() {
        let what = format!("HB, fixed priority on 1 at 0.8: E[W{}]", kind + 1);
        agrees(&what, &each(&samples, |s| s.mean_wait_us(kind)), wait, 0.03);
    }
    utilization_agrees("HB, fixed priority on 1 at 0.8", &model, &samples);
}

fn shared_equally(what: &str, model: &Model, salt: u64, narrow: f64) {
    let samples = model.replications(salt);
    for (kind, service) in [1.0, 100.0].into_iter().enumerate() {
        let sojourn = theory::processor_sharing_mean_sojourn(service, model.load);
        let found = each(&samples, |sample| sample.mean_sojourn_us(kind));
        agrees(&format!("{what}: E[T | S = {service} us]"), &found, sojourn, narrow);
    }
}

#[test]
fn clause_5_1_processor_sharing() {
    let sharing = Policy::ProcessorSharing { slots: 4096 };
    for (load, requests) in [(0.5, 200_000), (0.8, 400_000)] {
        let mut model = Model::new(high_bimodal(), sharing.clone(), 4096, load, requests);
        model.cores = Cores::Shared(1);
        shared_equally(&format!("HB, shared core at {load}"), &model, 8, 0.03);
    }
}

#[test]
fn clause_5_1_processor_sharing_by_short_slices() {
    // A long request takes a thousand slices, so the runs are short. Slices of 0.1 us are not
    // infinitely short either: a request waits for the rest of a slice it finds under way, about
    // 0.05 us times the load, and whole slices of the others; that is 2 % of 2 us at most.
    let slice = Span::from_ns(100);
    let model = Model::new(high_bimodal(), Policy::SlicedSingle { slice }, 1, 0.5, 3_000);
    shared_equally("HB, slices of 0.1 us at 0.5", &model, 9, 0.06);
}

#[test]
fn clause_5_1_erlang_b_stolen_shorts() {
    let policy = Policy::DarcStatic { groups: vec![(vec![Kind(1)], 1), (vec![Kind(2)], 13)] };
    for load in [0.3, 0.5] {
        let model = Model::new(high_bimodal(), policy.clone(), 14, load, 200_000);
        let samples = model.replications(10);
        let what = format!("HB, DARC-static 1/13 at {load}");
        let stolen = each(&samples, |s| s.kinds[0].stolen as f64 / s.kinds[0].counted as f64);
        let found = Interval::of_mean(&stolen).expect("replications");
        // Shorts alone, in Erlangs: 0.0693 at .5.
        let shorts = model.arrivals() * US / 2.0;
        let blocked = theory::erlang_b(1, shorts);
        print_row(&format!("{what}: stolen shorts"), blocked, found);
        // Exact while a worker is free to be stolen; a short that finds all 13 busy waits instead,
        // and may then run on its own. At .3 that is one in 10 000, at .5 one in 40.
        let all_busy = theory::erlang_c(13, 100.0 * shorts + blocked * shorts);
        assert!(found.relative() < 0.02, "{what}: {found:?} is too wide to judge by");
        let slack = 2.0 * found.half_width();
        let expected = blocked * (1.0 - all_busy)..=blocked;
        assert!(found.estimate >= expected.start() - slack, "{what}: {expected:?}, {found:?}");
        assert!(found.estimate <= expected.end() + slack, "{what}: {expected:?}, {found:?}");
        assert!(samples.iter().all(|sample| sample.kinds[1].stolen == 0), "longs never steal");
        utilization_agrees(&what, &model, &samples);
    }
}

#[test]
fn clause_5_1_finite_queue() {
    for (load, places, narrow) in [(0.5, 4, 0.03), (0.8, 5, 0.02), (0.9, 20, 0.08), (1.3, 8, 0.02)]
    {
        let mut model = Model::new(exponential(), Policy::CentralFcfs, 1, load, 100_000);
        // K counts the server.
        model.queue_limit = places - 1;
        let samples = model.replications(11);
        let what = format!("M/M/1/{places} at {load}");
        let dropped = each(&samples, |sample| sample.over(|seen| seen.dropped));
        agrees(&format!("{what}: drops"), &dropped, theory::mm1k_drop_ratio(load, places), narrow);
        let used = each(&samples, |sample| sample.record.utilization);
        let carried = load * (1.0 - theory::mm1k_drop_ratio(load, places));
        agrees(&format!("{what}: utilization"), &used, carried, 0.02);
    }
}

#[test]
fn clause_5_1_little_and_arrivals_see_time_averages() {
    // `check_conservation` holds every run to Little's law exactly. Here its second half, that what
    // Poisson arrivals find is the time average: M/M/1 holds rho / (1 - rho) requests.
    let model = Model::new(exponential(), Policy::CentralFcfs, 1, 0.8, 300_000);
    let samples = model.replications(12);
    let present = each(&samples, |sample| {
        let ended = sample.record.outcome.ended.as_ns() as f64;
        sample.kinds[0].present_ns as f64 / ended
    });
    agrees("M/M/1 at 0.8: E[L]", &present, 4.0, 0.03);
}

#[test]
fn central_fcfs_is_the_recursion_of_kiefer_and_wolfowitz() {
    // Not a row of the table but sharper than any: under c-FCFS request n starts when it is there
    // and the first of the workers is free, which a dozen lines say without events, queues or
    // machines. The two must agree to the nanosecond, whatever the mix and the load.
    for (mix, workers, load) in [
        (high_bimodal(), 14, 0.8),
        (tpc_c(), 14, 0.5),
        (extreme_bimodal(), 3, 0.7),
        (exponential(), 1, 0.99),
    ] {
        let model = Model::new(mix, Policy::CentralFcfs, workers, load, 100_000);
        let found = model.replicate(14);
        let mut free = BinaryHeap::from(vec![Reverse(0u64); usize::from(workers)]);
        let (mut wait_ns, mut waited) = (0, 0);
        let requests = Source::new(&model.workload(), 14).take(model.requests as usize);
        for (number, request) in requests.enumerate() {
            let Reverse(idle_from) = free.pop().expect("workers");
            let start = idle_from.max(request.at.as_ns());
            free.push(Reverse(start + request.service.as_ns()));
            if number as u64 >= model.requests / 10 {
                wait_ns += start - request.at.as_ns();
                waited += u64::from(start > request.at.as_ns());
            }
        }
        assert_eq!(found.kinds.iter().map(|seen| seen.wait_ns).sum::<u64>(), wait_ns);
        assert_eq!(found.kinds.iter().map(|seen| seen.waited).sum::<u64>(), waited);
        assert!(waited > 500, "{waited} waited");
    }
}

#[test]
fn clause_2_12_static_stability() {
    // 13 workers for longs that bring 13.861 rho Erlangs: the limit is .938, and shorts that steal
    // take a little of the 13. So near it a queue grows by luck as well as by law: the excess of
    // 0.04 workers at .94 takes a few million requests to outgrow chance, and a steady state at .93
    // about as many to be sure of.
    let ratio = |load, requests| {
        let policy = Policy::Darc { config: darc::Config::default(), hinted: true };
        let model = Model::new(high_bimodal(), policy, 14, load, requests);
        let record = model.replicate(13).record;
        let [_, middle, last] = record.thirds_ns;
        println!("HB, DARC on 14 at {load}: last third / middle third {:.3}", last / middle);
        last / middle
    };
    assert!(ratio(0.94, 6_000_000) > 1.5, "0.94 is over the limit");
    assert!(ratio(0.93, 3_000_000) < 1.5, "0.93 is below it");
}
