//! The world is held to queueing theory ([slowpoke 3]).

use super::stage::{
    alone, close, closed, exponential, line, mean_latency_us, open, throughput, us,
};
use cavy_lab::services::{Discipline, Host, Law, Place};
use cavy_lab::theory::closed::{Station, exact, repairman};
use cavy_lab::theory::{mmn_mean_wait, processor_sharing_mean_sojourn};

#[test]
fn closed_networks_have_the_throughput_of_exact_mean_value_analysis() {
    for (times, population, think) in [
        (vec![(600, 1), (1_000, 1), (500, 1)], 1, 0),
        (vec![(600, 1), (1_000, 1), (500, 1)], 6, 0),
        (vec![(600, 1), (1_000, 1), (500, 1)], 20, 9_000),
        (vec![(900, 2), (1_000, 4), (500, 1)], 5, 0),
        (vec![(900, 2), (1_900, 4), (430, 1)], 24, 5_000),
    ] {
        let laws: Vec<_> = times.iter().map(|&(time, cores)| (exponential(time), cores)).collect();
        let thinks = (think > 0).then(|| exponential(think));
        let network = line(&laws, closed(population, thinks));
        let stations: Vec<Station> = times
            .iter()
            .map(|&(time, cores)| Station { demand: time as f64 / 1e6, servers: u32::from(cores) })
            .collect();
        let expected = exact(&stations, population, think as f64 / 1e6);
        close(throughput(&network, 3, 205.0, 5.0), expected, 0.01);
    }
}

#[test]
fn machines_wait_for_repairmen() {
    for (machines, repairers) in [(4, 1), (12, 3), (40, 4)] {
        let network =
            line(&[(exponential(1_000), repairers)], closed(machines, Some(exponential(9_000))));
        let expected = repairman(machines, u32::from(repairers), 9e-3, 1e-3);
        close(throughput(&network, 11, 120.0, 2.0), expected, 0.01);
    }
}

#[test]
fn open_arrivals_wait_as_in_mmn() {
    for (cores, load) in [(1u16, 0.5), (1, 0.8), (4, 0.8)] {
        let gap_ns = 1e6 / (f64::from(cores) * load);
        let network =
            line(&[(exponential(1_000), cores)], open(Law::Exponential { mean_ns: gap_ns }));
        let (_, log) = alone(&network, 5, 300.0, 5.0);
        let wait = mmn_mean_wait(u32::from(cores), 1e3 / gap_ns, 1_000.0);
        close(mean_latency_us(&log), 1_000.0 + wait, 0.04);
    }
}

#[test]
fn shared_cores_do_not_mind_the_law_of_work() {
    let gap = Law::Exponential { mean_ns: 1.25e6 };
    let expected = processor_sharing_mean_sojourn(1_000.0, 0.8);
    for law in [us(1_000), exponential(1_000), Law::LogNormal { mean_ns: 1e6, sigma: 1.0 }] {
        let mut network = line(&[(law, 1)], open(gap.clone()));
        let shared = Host { cores: 1, discipline: Discipline::Sharing };
        network.services[0].place = Place::Own(shared);
        let (_, log) = alone(&network, 6, 400.0, 5.0);
        close(mean_latency_us(&log), expected, 0.06);
    }
}

#[test]
fn services_on_one_host_are_one_station() {
    // Product form holds where cores are shared, with services of different length.
    let host = Host { cores: 2, discipline: Discipline::Sharing };
    let laws = [(us(700), 1), (exponential(1_500), 1), (exponential(400), 1)];
    let mut network = line(&laws, closed(9, Some(exponential(4_000))));
    network.hosts.push(host);
    network.services[0].place = Place::On(0);
    network.services[1].place = Place::On(0);
    let stations = [Station { demand: 2.2e-3, servers: 2 }, Station { demand: 0.4e-3, servers: 1 }];
    close(throughput(&network, 8, 205.0, 5.0), exact(&stations, 9, 4e-3), 0.01);
    // First come, first served with equal exponential times is one as well.
    let laws = [(exponential(800), 1), (exponential(800), 1)];
    let mut network = line(&laws, closed(7, None));
    network.hosts.push(Host { cores: 3, discipline: Discipline::Fcfs });
    for service in &mut network.services {
        service.place = Place::On(0);
    }
    let station = [Station { demand: 1.6e-3, servers: 3 }];
    close(throughput(&network, 8, 105.0, 5.0), exact(&station, 7, 0.0), 0.01);
}

#[test]
fn a_saturated_service_of_constant_time_is_as_fast_as_its_cores() {
    for cores in [1, 2, 8] {
        let network = line(&[(us(300), 2), (us(1_600), cores), (us(200), 1)], closed(64, None));
        let expected = (f64::from(cores) / 1.6e-3).min(5_000.0);
        close(throughput(&network, 1, 12.0, 2.0), expected, 1e-3);
    }
}
