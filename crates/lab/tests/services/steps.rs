//! What steps do: locks, pools, threads, caches, waits, calls at once, patience.

use super::stage::{
    alone, close, closed, exponential, line, mean_latency_us, open, throughput, us,
};
use cavy_core::Span;
use cavy_lab::services::{
    Balance, Cache, Call, Discipline, Ended, Endpoint, Host, Law, Lock, Network, Place, Pool,
    Quota, Service, Step,
};

fn one(service: Service, population: u32) -> Network {
    let clients = vec![closed(population, None)];
    Network { hosts: Vec::new(), services: vec![service], clients, hop: None }
}

#[test]
fn a_lock_is_one_server_and_spinning_burns_what_blocking_does_not() {
    for spins in [false, true] {
        for discipline in [Discipline::Fcfs, Discipline::Sharing] {
            let steps = vec![Step::Cpu(us(300)), Step::Locked { lock: 0, work: us(500) }];
            let mut service = Service::new(4, steps);
            service.locks.push(Lock { spins });
            service.place = Place::Own(Host { cores: 4, discipline });
            let network = one(service, 4);
            let rate = throughput(&network, 1, 5.0, 1.0);
            close(rate, 2_000.0, 0.002);
            let (outcome, _) = alone(&network, 1, 5.0, 1.0);
            let cores_used = outcome.groups[0].usage.cpu.as_us() / 5e6;
            close(cores_used, if spins { 4.0 } else { 1.6 }, 0.01);
        }
    }
}

#[test]
fn a_lock_with_many_who_wait_is_still_never_idle() {
    let steps = vec![Step::Cpu(us(800)), Step::Locked { lock: 0, work: us(400) }];
    let mut service = Service::new(4, steps);
    service.locks.push(Lock { spins: false });
    close(throughput(&one(service, 200), 1, 5.0, 1.0), 2_500.0, 0.002);
}

#[test]
fn pools_and_threads_bound_what_is_under_way() {
    // Three connections to a service that waits 1 ms for a disk.
    let mut front = Service::new(8, vec![Step::Cpu(us(10)), Step::Call(Call::once(1))]);
    front.pools.push(Pool { service: 1, limit: 3 });
    let back = Service::new(8, vec![Step::Wait(us(1_000))]);
    let mut network = one(front, 50);
    network.services.push(back.clone());
    close(throughput(&network, 1, 3.0, 1.0), 3_000.0, 0.002);
    // Five threads that are kept while they wait for it.
    network.services[0].pools.clear();
    network.services[0].threads = Some(5);
    close(throughput(&network, 1, 3.0, 1.0), 5e6 / 1_010.0, 0.002);
    // Threads that are not kept do not bind: 50 clients, 1.01 ms each at the least.
    network.services[0].keeps_thread = false;
    let rate = throughput(&network, 1, 3.0, 1.0);
    assert!(rate > 45_000.0, "{rate}");
}

#[test]
fn a_full_backlog_refuses_and_retries_are_counted() {
    let mut service = Service::new(1, vec![Step::Cpu(us(1_000))]);
    (service.threads, service.backlog) = (Some(1), Some(2));
    let mut network = one(service, 1);
    network.clients = vec![open(us(500))];
    let (outcome, _) = alone(&network, 1, 4.0, 0.0);
    // Twice what it can do: half of it fails.
    close(outcome.failed as f64 / (outcome.failed + outcome.completed) as f64, 0.5, 0.01);
    assert_eq!(outcome.groups[0].refused, outcome.failed);
    network.clients[0].mix[0].retries = 2;
    network.hop = Some(us(50));
    let (outcome, _) = alone(&network, 1, 4.0, 0.0);
    assert!(outcome.groups[1].retried > outcome.failed, "{:?}", outcome.groups);
    assert!(outcome.groups[0].refused > outcome.failed);
}

#[test]
fn patience_ends_and_what_was_called_goes_on() {
    let mut network = line(&[(us(10), 1), (us(3_000), 1)], closed(1, None));
    let Step::Call(call) = &mut network.services[0].endpoints[0].steps[1] else { panic!() };
    call.timeout = Some(Span::from_us(1_000));
    let (outcome, log) = alone(&network, 1, 1.0, 0.0);
    assert_eq!(outcome.completed, 0);
    assert!(log.done.iter().all(|done| done.failed && done.latency == Span::from_us(1_010)));
    assert_eq!(outcome.groups[0].timed_out, outcome.failed);
    // The callee is busy all the time with what nobody waits for.
    close(outcome.groups[1].usage.cpu.as_us(), 1e6, 0.01);
}

#[test]
fn calls_at_once_take_as_long_as_the_longest_and_tell_does_not_wait() {
    let mut network = line(&[(us(100), 1), (us(700), 1), (us(200), 1)], closed(1, None));
    network.services[1].endpoints[0].steps.truncate(1);
    network.hop = Some(us(50));
    let latency = |steps: Vec<Step>, network: &mut Network| {
        network.services[0].endpoints[0].steps = steps;
        mean_latency_us(&alone(network, 1, 1.0, 0.0).1)
    };
    let (first, second) = (Call::once(1), Call::once(2));
    let cpu = || Step::Cpu(us(100));
    let together = vec![cpu(), Step::Together(vec![first, second])];
    close(latency(together, &mut network), 100.0 + 100.0 + 700.0 + 100.0, 1e-9);
    let in_turn = vec![cpu(), Step::Call(first), Step::Call(Call { repeat: 2, ..second })];
    close(latency(in_turn, &mut network), 100.0 + 100.0 + 800.0 + 2.0 * 300.0, 1e-9);
    let tell = vec![cpu(), Step::Tell(first), Step::Call(second)];
    close(latency(tell, &mut network), 100.0 + 100.0 + 300.0, 1e-9);
}

#[test]
fn shares_choices_and_caches_have_their_frequencies() {
    let mut network = line(&[(us(100), 4), (us(10), 4), (us(10), 4), (us(10), 4)], closed(8, None));
    for service in &mut network.services {
        service.endpoints[0].steps.truncate(1);
    }
    network.services[0].caches.push(Cache::Ratio(0.9));
    let call = |service, share| Call { share, ..Call::once(service) };
    network.services[0].endpoints[0].steps.extend([
        Step::Call(call(1, 0.25)),
        Step::OneOf(vec![call(1, 0.2), call(2, 0.3)]),
        Step::Cached { cache: 0, miss: vec![Step::Call(call(3, 1.0)), Step::Cpu(us(50))] },
        Step::Together(vec![call(2, 0.5), call(3, 0.75)]),
    ]);
    let demands = network.demands().expect("it ends");
    let visits: Vec<f64> = demands.iter().map(|one| one.visits).collect();
    assert_eq!(visits.len(), 4);
    for (found, expected) in visits.iter().zip([1.0, 0.45, 0.8, 0.85]) {
        close(*found, expected, 1e-9);
    }
    close(demands[0].cpu_ns, 105_000.0, 1e-9);
    let (outcome, _) = alone(&network, 9, 10.0, 0.0);
    for (group, expected) in visits.iter().enumerate() {
        let found = outcome.groups[group].visits as f64 / outcome.completed as f64;
        close(found, *expected, 0.01);
    }
}

#[test]
fn what_is_cached_by_age_grows_old_on_the_wall() {
    let mut service = Service::new(1, Vec::new());
    service.caches.push(Cache::Ttl { ttl: Span::from_ms(100), keys: 1 });
    let miss = vec![Step::Cpu(us(400))];
    service.endpoints[0].steps = vec![Step::Cpu(us(600)), Step::Cached { cache: 0, miss }];
    let (outcome, _) = alone(&one(service, 1), 1, 10.0, 0.0);
    // One miss in 100 ms and a little: 0.4 ms of 100.
    close(outcome.groups[0].usage.cpu.as_us(), 1e7, 1e-3);
    close(outcome.completed as f64, (1e7 - 100.0 * 400.0) / 600.0, 0.002);
}

#[test]
fn quotas_hold_and_background_work_is_done() {
    let mut service = Service::new(2, vec![Step::Cpu(us(700))]);
    service.quota = Some(Quota { cpu: Span::from_ms(25), period: Span::from_ms(100) });
    let (outcome, _) = alone(&one(service.clone(), 16), 1, 10.0, 0.0);
    close(outcome.groups[0].usage.cpu.as_us(), 2.5e6, 0.002);
    // 2 cores use 25 ms up in 12.5 ms, and then it stands.
    close(outcome.groups[0].throttled.as_us(), 0.875e7, 0.002);
    service.quota = None;
    service.endpoints.push(Endpoint { steps: vec![Step::Cpu(us(5_000))] });
    service.background.push((Span::from_ms(50), 1));
    let (outcome, _) = alone(&one(service, 16), 1, 10.0, 0.0);
    close(outcome.completed as f64, (2e7 - 200.0 * 5_000.0) / 700.0, 0.002);
}

#[test]
fn replicas_share_the_load_however_they_are_chosen() {
    for balance in [Balance::Turns, Balance::Random, Balance::Least] {
        let mut network = line(&[(us(10), 4), (exponential(900), 1)], closed(60, None));
        network.services[1].replicas = 3;
        network.services[1].balance = balance;
        let rate = throughput(&network, 2, 20.0, 1.0);
        let lost = if balance == Balance::Least { 0.01 } else { 0.06 };
        close(rate, 3e6 / 900.0, lost);
    }
}

#[test]
fn a_client_with_a_capacity_is_a_bottleneck() {
    let mut network = line(&[(us(100), 8)], closed(32, None));
    network.clients[0].capacity = Some((1, us(250)));
    close(throughput(&network, 2, 4.0, 1.0), 4_000.0, 1e-3);
}

#[test]
fn a_faster_service_meets_the_same_work() {
    // One client: latency is the sum of what is drawn, so that half of a service's time is half the
    // way.
    let of = |scale: f64| {
        let target = Law::Exponential { mean_ns: 1e6 * scale };
        let laws = [(exponential(600), 1), (target, 1), (exponential(500), 1)];
        let (_, log) = alone(&line(&laws, closed(1, None)), 77, 2.0, 0.0);
        log.done.iter().map(|done| done.latency.as_us()).collect::<Vec<f64>>()
    };
    let (full, half, none) = (of(1.0), of(0.5), of(1e-5));
    for request in 0..500 {
        let (saved, rest) = (full[request] - half[request], half[request] - none[request]);
        assert!((saved - rest).abs() < 0.2, "request {request}: {saved} and {rest} us");
    }
}

#[test]
fn mistakes_are_told_and_nothing_hangs() {
    let mut circle = line(&[(us(10), 1), (us(10), 1)], closed(1, None));
    circle.services[1].endpoints[0].steps.push(Step::Call(Call::once(0)));
    let mistake = circle.check().expect_err("it never ends").to_string();
    assert!(mistake.contains("circle"), "{mistake}");
    // A circle that ends by chance is none.
    let again = Call { share: 0.4, ..Call::once(0) };
    circle.services[1].endpoints[0].steps[1] = Step::Call(again);
    circle.check().expect("it ends");
    let nobody = line(&[(us(10), 1)], closed(0, None));
    assert!(nobody.check().is_err());
    let mut lost = line(&[(us(10), 1)], closed(1, None));
    lost.services[0].endpoints[0].steps.push(Step::Call(Call::once(7)));
    assert_eq!(lost.check().expect_err("nobody is there").service, 0);
    // Two services with one thread each that call each other stand for ever, and the run says so.
    let mut stuck = line(&[(us(10), 1), (us(10), 1)], closed(4, None));
    let back = Call { share: 0.9, ..Call::once(0) };
    stuck.services[1].endpoints[0].steps.push(Step::Call(back));
    for service in &mut stuck.services {
        service.threads = Some(1);
    }
    assert_eq!(alone(&stuck, 1, 1.0, 0.0).0.ended, Ended::Stuck);
}
