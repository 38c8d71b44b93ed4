//! Workers that are not alike, very many of them, and clients that wait for their answers.

use super::*;
use cavy_lab::cpu::{Speed, Speeds};
use cavy_lab::theory::closed::{Station, exact, repairman};
use cavy_lab::theory::disciplines::unequal_pair_mean_sojourn;

fn speeds(groups: &[(u16, f64)]) -> Cores {
    let group = |&(count, ratio): &(u16, f64)| (count, Speed::new(ratio).expect("a speed"));
    let groups: Vec<_> = groups.iter().map(group).collect();
    Cores::Unequal(Speeds::new(&groups).expect("few groups"))
}

#[test]
fn two_unequal_workers_have_the_mean_of_their_states() {
    // Under c-FCFS the lower number goes first, whether it is the faster worker or the slower one.
    for (first, second, load, requests, narrow) in [
        (1.0, 0.25, 0.3, 200_000, 0.02),
        (1.0, 0.25, 0.8, 400_000, 0.04),
        (0.25, 1.0, 0.3, 200_000, 0.02),
        (3.0, 1.0, 0.7, 200_000, 0.03),
    ] {
        let mut model = Model::new(exponential(), Policy::CentralFcfs, 2, load, requests);
        model.cores = speeds(&[(1, first), (1, second)]);
        let samples = model.replications(30);
        let what = format!("M/M/2 of speeds {first} and {second} at {load}");
        let mean = unequal_pair_mean_sojourn(model.arrivals() * US, first, second);
        let found = each(&samples, |sample| sample.mean_sojourn_us(0));
        agrees(&format!("{what}: E[T]"), &found, mean, narrow);
    }
}

#[test]
fn slices_on_workers_of_one_speed_are_slices_of_faster_requests() {
    // A group of workers of speed 2 is a server whose requests are half as long, preempted or not.
    let policy = Policy::LastCome { preempts: true };
    let mut model = Model::new(exponential(), policy, 1, 0.7, 200_000);
    model.cores = speeds(&[(1, 2.0)]);
    let samples = model.replications(31);
    let mean = theory::mm1_mean_sojourn(model.arrivals() * US, 0.5);
    let found = each(&samples, |sample| sample.mean_sojourn_us(0));
    agrees("M/M/1 LCFS-PR of speed 2 at 0.7: E[T]", &found, mean, 0.03);
    utilization_agrees("M/M/1 LCFS-PR of speed 2 at 0.7", &model, &samples);
}

#[test]
fn a_thousand_workers_wait_as_erlang_says() {
    for (load, narrow) in [(0.95, 0.3), (0.98, 0.2)] {
        let model = Model::new(exponential(), Policy::CentralFcfs, 1_000, load, 600_000);
        let samples = model.replications(32);
        let what = format!("M/M/1000 at {load}");
        let arrivals = model.arrivals() * US;
        let waited = each(&samples, |sample| sample.over(|seen| seen.waited));
        let waits = theory::erlang_c(1_000, arrivals);
        agrees(&format!("{what}: C"), &waited, waits, narrow);
        let wait = theory::mmn_mean_wait(1_000, arrivals, 1.0);
        let found = each(&samples, Sample::mean_wait_all_us);
        agrees(&format!("{what}: E[W]"), &found, wait, 2.0 * narrow);
        utilization_agrees(&what, &model, &samples);
    }
}

/// Answers a second, of all clients.
fn throughput(sample: &Sample) -> f64 {
    let outcome = &sample.record.outcome;
    outcome.arrived as f64 / (outcome.last_arrival.as_ns() as f64 / US)
}

#[test]
fn closed_clients_are_the_machine_repairman() {
    for (workers, population, think) in
        [(1, 1, 3.0), (1, 5, 4.0), (2, 20, 10.0), (4, 40, 8.0), (16, 300, 20.0)]
    {
        let policy = Policy::CentralFcfs;
        let mut model = Model::new(exponential(), policy, workers, 0.5, 200_000);
        model.clients = Some((population, think * US));
        let samples = model.replications(33);
        let what = format!("M/M/{workers}//{population}, thinking {think}");
        let rate = repairman(population, u32::from(workers), think, 1.0);
        agrees(&format!("{what}: throughput"), &each(&samples, throughput), rate, 0.01);
        let sojourn = f64::from(population) / rate - think;
        let found = each(&samples, |sample| sample.mean_sojourn_us(0));
        agrees(&format!("{what}: E[T]"), &found, sojourn, 0.02);
        let used = each(&samples, |sample| sample.record.utilization);
        agrees(&format!("{what}: utilization"), &used, rate / f64::from(workers), 0.01);
    }
}

#[test]
fn closed_clients_of_shared_cores_need_only_the_mean() {
    // Where cores are shared the law of the service times does not matter.
    let sharing = Policy::ProcessorSharing { slots: 100 };
    let mut model = Model::new(high_bimodal(), sharing, 100, 0.5, 100_000);
    model.cores = Cores::Shared(1);
    model.clients = Some((30, 1_000.0 * US));
    let samples = model.replications(34);
    let station = [Station { demand: 50.5, servers: 1 }];
    let rate = exact(&station, 30, 1_000.0);
    agrees("closed, shared core: throughput", &each(&samples, throughput), rate, 0.02);
    let found = each(&samples, |sample| {
        let seen =
            [0, 1].map(|kind| sample.kinds[kind].counted as f64 * sample.mean_sojourn_us(kind));
        seen.iter().sum::<f64>() / sample.kinds.iter().map(|seen| seen.counted as f64).sum::<f64>()
    });
    agrees("closed, shared core: E[T]", &found, 30.0 / rate - 1_000.0, 0.04);
}
