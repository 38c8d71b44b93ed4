//! Closed networks of queues: a fixed number of customers that go from station to station for ever.
//!
//! A customer's *demand* at a station is its visits times its service time there. Any unit of time
//! will do as long as one call uses one; throughput is in customers' rounds for each unit. Exact
//! results hold for product-form networks: exponential service first come, first served, or any
//! service where cores are shared.

/// A station.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Station {
    /// Demand of one customer, in time of one server.
    pub demand: f64,
    /// Servers, at least 1.
    pub servers: u32,
}

/// What a closed network does.
#[derive(Clone, PartialEq, Debug)]
pub struct Flow {
    /// Rounds for each unit of time.
    pub throughput: f64,
    /// Mean customers at each station, those in service included.
    pub customers: Vec<f64>,
}

/// The law of utilisation: no station does more than its servers can, and no customer is at two
/// places ([slowpoke B1]).
pub fn bound(stations: &[Station], population: u32, think: f64) -> f64 {
    let least: f64 = stations.iter().map(|one| one.demand).sum::<f64>() + think;
    let busiest =
        stations.iter().map(|one| one.demand / f64::from(one.servers)).fold(0.0, f64::max);
    (1.0 / busiest).min(f64::from(population) / least)
}

/// Throughput of a closed product-form network with several servers a station, exactly (Buzen's
/// convolution in logarithms, so that a thousand customers neither overflow nor vanish).
pub fn exact(stations: &[Station], population: u32, think: f64) -> f64 {
    let population = population as usize;
    if population == 0 {
        return 0.0;
    }
    // ln G of no station: one way to have nobody, none to have more.
    let mut all = vec![f64::NEG_INFINITY; population + 1];
    all[0] = 0.0;
    let delay = |n: usize| f64::from(n as u32);
    for one in stations.iter().filter(|one| one.demand > 0.0) {
        let servers = f64::from(one.servers);
        all = convolved(&all, |n| libm::log(one.demand / delay(n).min(servers)));
    }
    if think > 0.0 {
        all = convolved(&all, |n| libm::log(think / delay(n)));
    }
    libm::exp(all[population - 1] - all[population])
}

/// ln of the sums over how many are at one more station, whose term grows by `factor(n)` with its
/// nth customer.
fn convolved(all: &[f64], factor: impl Fn(usize) -> f64) -> Vec<f64> {
    let mut own = vec![0.0; all.len()];
    for n in 1..own.len() {
        own[n] = own[n - 1] + factor(n);
    }
    let sum = |n: usize| {
        let terms = (0..=n).map(|k| own[k] + all[n - k]);
        let most = terms.clone().fold(f64::NEG_INFINITY, f64::max);
        if most == f64::NEG_INFINITY {
            return most;
        }
        most + libm::log(terms.map(|term| libm::exp(term - most)).sum())
    };
    (0..all.len()).map(sum).collect()
}

/// Mean value analysis with Seidmann's stations: of `servers` servers, a queue of demand / servers
/// and a delay of the rest ([slowpoke B2]). Exact with one server a station.
pub fn seidmann(stations: &[Station], population: u32, think: f64) -> Flow {
    let queue: Vec<f64> = stations.iter().map(|one| one.demand / f64::from(one.servers)).collect();
    let delays: Vec<f64> = stations
        .iter()
        .map(|one| one.demand * f64::from(one.servers - 1) / f64::from(one.servers))
        .collect();
    let fixed: f64 = think + delays.iter().sum::<f64>();
    let mut customers = vec![0.0; stations.len()];
    let mut throughput = 0.0;
    for n in 1..=population {
        let times: Vec<f64> = queue.iter().zip(&customers).map(|(d, q)| d * (1.0 + q)).collect();
        throughput = f64::from(n) / (fixed + times.iter().sum::<f64>());
        customers = times.iter().map(|time| throughput * time).collect();
    }
    let with_delays = customers.iter().zip(&delays);
    let customers = with_delays.map(|(queued, delay)| queued + throughput * delay).collect();
    Flow { throughput, customers }
}

/// The same, with the approximation of Bard and Schweitzer in place of the recursion: a customer
/// finds the others as they are on average. For populations too large to count up to ([slowpoke
/// B2]).
pub fn bard_schweitzer(stations: &[Station], population: u32, think: f64) -> Flow {
    let n = f64::from(population);
    let queue: Vec<f64> = stations.iter().map(|one| one.demand / f64::from(one.servers)).collect();
    let fixed: f64 = think
        + stations
            .iter()
            .map(|one| one.demand * f64::from(one.servers - 1) / f64::from(one.servers))
            .sum::<f64>();
    let mut customers = vec![n / stations.len().max(1) as f64; stations.len()];
    let mut throughput = 0.0;
    for _ in 0..100_000 {
        let times: Vec<f64> =
            queue.iter().zip(&customers).map(|(d, q)| d * (1.0 + (n - 1.0) / n * q)).collect();
        throughput = n / (fixed + times.iter().sum::<f64>());
        let next: Vec<f64> = times.iter().map(|time| throughput * time).collect();
        let moved = next.iter().zip(&customers).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        customers = next;
        if moved < 1e-9 * n {
            break;
        }
    }
    Flow { throughput, customers }
}

/// Throughput of `machines` that run for `up` on average and then wait for one of `repairers`, who
/// take `repair`: the machine repairman (M/M/c//K).
pub fn repairman(machines: u32, repairers: u32, up: f64, repair: f64) -> f64 {
    // Probabilities of how many are broken, by the balance of births and deaths, scaled by the
    // largest.
    let (mut weights, mut log) = (vec![0.0], 0.0);
    for broken in 0..machines {
        let breaks = f64::from(machines - broken) / up;
        let repairs = f64::from((broken + 1).min(repairers)) / repair;
        log += libm::log(breaks / repairs);
        weights.push(log);
    }
    let most = weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = weights.iter().map(|log| libm::exp(log - most)).sum();
    let rate = |(broken, log): (usize, &f64)| {
        libm::exp(log - most) / sum * f64::from((broken as u32).min(repairers)) / repair
    };
    weights.iter().enumerate().map(rate).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64, relative: f64) {
        assert!((found / expected - 1.0).abs() <= relative, "{found} against {expected}");
    }

    const ONE: [Station; 3] = [
        Station { demand: 0.6, servers: 1 },
        Station { demand: 1.0, servers: 1 },
        Station { demand: 0.5, servers: 1 },
    ];

    #[test]
    fn single_servers_agree_with_the_recursion() {
        for (population, think) in [(1, 0.0), (2, 0.0), (7, 3.0), (64, 10.0), (800, 0.0)] {
            let exact = exact(&ONE, population, think);
            close(seidmann(&ONE, population, think).throughput, exact, 1e-9);
        }
        close(exact(&ONE, 1, 0.0), 1.0 / 2.1, 1e-12);
        // A balanced network of M stations: n / (n + M - 1).
        let balanced = [Station { demand: 1.0, servers: 1 }; 4];
        close(exact(&balanced, 13, 0.0), 13.0 / 16.0, 1e-12);
    }

    #[test]
    fn several_servers_agree_with_the_repairman() {
        for (machines, repairers) in [(1, 1), (5, 2), (40, 4), (300, 8)] {
            let station = [Station { demand: 2.0, servers: repairers }];
            close(
                exact(&station, machines, 30.0),
                repairman(machines, repairers, 30.0, 2.0),
                1e-10,
            );
        }
    }

    #[test]
    fn approximations_are_near_and_the_bound_is_above() {
        let two = ONE.map(|one| Station { servers: 2, ..one });
        for population in [1, 4, 16, 128] {
            let truth = exact(&two, population, 1.0);
            close(seidmann(&two, population, 1.0).throughput, truth, 0.08);
            close(bard_schweitzer(&two, population, 1.0).throughput, truth, 0.15);
            assert!(bound(&two, population, 1.0) >= truth * (1.0 - 1e-12));
        }
        close(bard_schweitzer(&two, 5_000, 0.0).throughput, 2.0, 1e-3);
        let flow = seidmann(&two, 16, 1.0);
        close(flow.customers.iter().sum::<f64>() + flow.throughput, 16.0, 1e-9);
    }
}
