//! Closed forms of queueing theory, to which simulated results are held.
//!
//! Pure functions of rates and times. Any unit of time will do as long as one call uses one: with
//! rates per microsecond, answers are in microseconds. A queue without a steady state has infinite
//! waits, and the functions say so.
//!
//! **Names.** `arrivals` is the arrival rate λ, `mean` and `second_moment` are E\[S\] and E\[S²\]
//! of the service time, `servers` is N, `erlangs` is the offered load λE\[S\], and `utilization` is
//! ρ, the offered load per server. A *wait* ends when service begins, a *sojourn* when it ends.

pub mod closed;
pub mod disciplines;

/// Mean sojourn in M/M/1: 1 / (μ - λ).
pub fn mm1_mean_sojourn(arrivals: f64, mean: f64) -> f64 {
    let slack = 1.0 / mean - arrivals;
    if slack > 0.0 { 1.0 / slack } else { f64::INFINITY }
}

/// The `p`-quantile of the sojourn in M/M/1, which is exponential: -ln(1 - p) / (μ - λ).
pub fn mm1_sojourn_quantile(p: f64, arrivals: f64, mean: f64) -> f64 {
    -libm::log1p(-p) * mm1_mean_sojourn(arrivals, mean)
}

/// Mean wait in M/D/1: ρS / (2(1 - ρ)).
pub fn md1_mean_wait(arrivals: f64, service: f64) -> f64 {
    pollaczek_khinchine_mean_wait(arrivals, service, service * service)
}

/// Mean wait in M/D/N, first come first served: `servers` that all take `service`. The number
/// present at one time decides that one service time later (Crommelin), which is iterated until it
/// stands; the mean queue then gives the wait by Little's law. Infinite without a steady state.
/// Takes longer the closer the utilization is to 1: at 0.99 some tenths of a second.
pub fn mdn_mean_wait(servers: u32, arrivals: f64, service: f64) -> f64 {
    let (n, offered) = (servers as usize, arrivals * service);
    let idle = 1.0 - offered / f64::from(servers);
    if idle <= 0.0 {
        return f64::INFINITY;
    }
    if servers == 1 {
        return md1_mean_wait(arrivals, service);
    }
    // Arrivals within one service time, as far as they have any probability.
    let most = (offered + 12.0 * libm::sqrt(offered) + 30.0) as usize;
    let mut come = Vec::with_capacity(most + 1);
    let mut probability = libm::exp(-offered);
    for j in 0..=most {
        come.push(probability);
        probability *= offered / (j + 1) as f64;
    }
    // The tail of the number present falls by exp(-2 (1 - rho)) a customer, or faster.
    let states = n + most + (20.0 / idle) as usize;
    let mut present = vec![0.0; states];
    present[0] = 1.0;
    for _ in 0..200_000 {
        let mut next = vec![0.0; states];
        let all_served: f64 = present[..=n].iter().sum();
        for (from, weight) in present.iter().enumerate().skip(n) {
            let (weight, left) = if from == n { (all_served, 0) } else { (*weight, from - n) };
            if weight < 1e-18 {
                continue;
            }
            for (j, come) in come.iter().enumerate() {
                next[(left + j).min(states - 1)] += weight * come;
            }
        }
        let moved: f64 = present.iter().zip(&next).map(|(a, b)| (a - b).abs()).sum();
        present = next;
        if moved < 1e-12 {
            break;
        }
    }
    let waiting = present.iter().enumerate().skip(n).map(|(at, p)| (at - n) as f64 * p);
    waiting.sum::<f64>() / arrivals
}

/// Mean wait in M/G/1, first come first served: λE\[S²\] / (2(1 - ρ)) (Pollaczek and Khinchine).
pub fn pollaczek_khinchine_mean_wait(arrivals: f64, mean: f64, second_moment: f64) -> f64 {
    let idle = 1.0 - arrivals * mean;
    if idle > 0.0 { residual_work(arrivals, second_moment) / idle } else { f64::INFINITY }
}

/// Mean work left in the service that an arrival at a single server finds under way, zero when it
/// finds none: λE\[S²\] / 2.
fn residual_work(arrivals: f64, second_moment: f64) -> f64 {
    arrivals * second_moment / 2.0
}

/// Probability that all of `servers` are busy when nobody may wait (M/G/N/N, Erlang B). Insensitive
/// to the law of the service time.
pub fn erlang_b(servers: u32, erlangs: f64) -> f64 {
    // The recursion over servers; the factorials of the textbook form overflow at 171.
    (1..=servers).fold(1.0, |blocked, r| erlangs * blocked / (f64::from(r) + erlangs * blocked))
}

/// Probability that an arrival waits in M/M/N (Erlang C); 1 without a steady state.
pub fn erlang_c(servers: u32, erlangs: f64) -> f64 {
    let utilization = erlangs / f64::from(servers);
    if utilization >= 1.0 {
        return 1.0;
    }
    let blocked = erlang_b(servers, erlangs);
    blocked / (1.0 - utilization * (1.0 - blocked))
}

/// Mean wait in M/M/N: C / (Nμ - λ).
pub fn mmn_mean_wait(servers: u32, arrivals: f64, mean: f64) -> f64 {
    let slack = f64::from(servers) / mean - arrivals;
    if slack > 0.0 { erlang_c(servers, arrivals * mean) / slack } else { f64::INFINITY }
}

/// Probability that a wait in M/M/N is longer than `wait`: C e^{-(Nμ - λ) wait}.
pub fn mmn_wait_exceeds(servers: u32, arrivals: f64, mean: f64, wait: f64) -> f64 {
    let slack = f64::from(servers) / mean - arrivals;
    if slack > 0.0 { erlang_c(servers, arrivals * mean) * libm::exp(-slack * wait) } else { 1.0 }
}

/// Mean wait in M/G/N *approximately* (Lee and Longton): that of M/M/N scaled by (1 + SCV) / 2, as
/// for one server, where it is exact. `squared_cv` is the variance of the service time over its
/// squared mean. Off by a few percent at high load and by far more at low load.
pub fn lee_longton_mean_wait(servers: u32, arrivals: f64, mean: f64, squared_cv: f64) -> f64 {
    (1.0 + squared_cv) / 2.0 * mmn_mean_wait(servers, arrivals, mean)
}

/// One class of requests at a single server.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Class {
    /// Arrival rate.
    pub arrivals: f64,
    /// Mean service time.
    pub mean: f64,
    /// Mean squared service time.
    pub second_moment: f64,
}

/// Mean waits of two classes at one server, the first going ahead of the second without
/// interrupting it (Cobham): with R = Σ λE\[S²\] / 2, the first waits R / (1 - ρ1) and the second
/// R / ((1 - ρ1)(1 - ρ)).
pub fn cobham_mean_waits(ahead: Class, behind: Class) -> [f64; 2] {
    let left = residual_work(ahead.arrivals, ahead.second_moment)
        + residual_work(behind.arrivals, behind.second_moment);
    let idle_of_ahead = 1.0 - ahead.arrivals * ahead.mean;
    let idle = idle_of_ahead - behind.arrivals * behind.mean;
    if idle_of_ahead <= 0.0 {
        return [f64::INFINITY; 2];
    }
    let second = if idle > 0.0 { left / (idle_of_ahead * idle) } else { f64::INFINITY };
    [left / idle_of_ahead, second]
}

/// Mean sojourn of a request of length `service` at one server shared equally by all present:
/// S / (1 - ρ), whatever the law of the service times.
pub fn processor_sharing_mean_sojourn(service: f64, utilization: f64) -> f64 {
    if utilization < 1.0 { service / (1.0 - utilization) } else { f64::INFINITY }
}

/// Share of arrivals that find M/M/1/K full: (1 - ρ)ρ^K / (1 - ρ^{K+1}). `places` is K, the server
/// included; 1 / (K + 1) at ρ = 1.
pub fn mm1k_drop_ratio(utilization: f64, places: u32) -> f64 {
    // As 1 / (1 + 1/ρ + ... + 1/ρ^K): no 0/0 at ρ = 1, no overflow above it.
    let (mut sum, mut term) = (1.0, 1.0);
    for _ in 0..places {
        term /= utilization;
        sum += term;
    }
    1.0 / sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, printed: f64, half_digit: f64) {
        assert!((found - printed).abs() <= half_digit, "{found} against {printed}");
    }

    #[test]
    fn single_servers_give_the_values_of_clause_5_1() {
        for (load, mean, p99, p999) in [(0.5, 2.0, 9.21, 13.82), (0.8, 5.0, 23.03, 34.54)] {
            close(mm1_mean_sojourn(load, 1.0), mean, 5e-10);
            close(mm1_sojourn_quantile(0.99, load, 1.0), p99, 5e-3);
            close(mm1_sojourn_quantile(0.999, load, 1.0), p999, 5e-3);
        }
        close(1.0 + md1_mean_wait(0.5, 1.0), 1.5, 1e-12);
        close(1.0 + md1_mean_wait(0.8, 1.0), 3.0, 1e-12);
        for (load, wait) in [(0.5, 49.510), (0.8, 198.040)] {
            close(pollaczek_khinchine_mean_wait(load / 50.5, 50.5, 5000.5), wait, 5e-4);
        }
        let extreme = pollaczek_khinchine_mean_wait(0.5 / 2.9975, 2.9975, 1250.24875);
        close(extreme, 208.5, 0.06);
    }

    #[test]
    fn many_alike_servers_give_the_values_of_roar_0_12() {
        // n = 48, c0 = 20 ms, c1 D = 1 s: p, load, mean sojourn in ms. And T2, where c0 = 5 ms.
        for (p, fixed, load, mean) in [
            (8u32, 0.020, 0.7, 181.5),
            (16, 0.020, 0.7, 239.4),
            (48, 0.020, 0.1, 45.8),
            (8, 0.005, 0.5, 133.10),
            (8, 0.005, 0.7, 146.41),
        ] {
            let service = fixed + 1.0 / f64::from(p);
            let wait = mdn_mean_wait(48 / p, 48.0 * load, service);
            close(1e3 * (service + wait), mean, 0.06);
        }
        assert_eq!(mdn_mean_wait(2, 48.0 * 0.7, 0.020 + 1.0 / 24.0), f64::INFINITY);
    }

    #[test]
    fn erlang_gives_the_values_of_clause_5_1() {
        for (servers, load, waits) in [
            (14, 0.3, 0.00013),
            (14, 0.38, 0.00132),
            (14, 0.4, 0.00211),
            (14, 0.5, 0.01417),
            (14, 0.7, 0.15388),
            (14, 0.8, 0.33453),
            (14, 0.9, 0.61447),
            (16, 0.4, 0.00105),
            (16, 0.45, 0.00338),
        ] {
            close(erlang_c(servers, f64::from(servers) * load), waits, 5e-6);
        }
        for (load, sojourn) in [(0.5, 1.00202), (0.8, 1.11948), (0.9, 1.43890)] {
            close(1.0 + mmn_mean_wait(14, 14.0 * load, 1.0), sojourn, 5e-6);
        }
        close(erlang_b(1, 0.0693), 0.0648, 5e-5);
        close(mmn_wait_exceeds(14, 12.6, 1.0, 0.0), 0.61447, 5e-6);
    }

    #[test]
    fn erlang_agrees_with_the_textbook_sums() {
        for servers in [1u32, 3, 14, 100] {
            for load in [0.1, 0.5, 0.93] {
                let erlangs = f64::from(servers) * load;
                let term =
                    |k: u32| (1..=k).fold(1.0, |product, i| product * erlangs / f64::from(i));
                let below: f64 = (0..servers).map(term).sum();
                let b = term(servers) / (below + term(servers));
                let last = term(servers) / (1.0 - load);
                close(erlang_b(servers, erlangs) / b, 1.0, 1e-12);
                close(erlang_c(servers, erlangs) / (last / (below + last)), 1.0, 1e-12);
            }
        }
    }

    #[test]
    fn lee_longton_gives_the_values_of_clause_5_1() {
        // (E[S], SCV, waits at .5, .7, .8, .9)
        let rows = [
            (50.5, 5000.5 / (50.5 * 50.5) - 1.0, [0.100, 1.814, 5.915, 21.73]),
            (19.068, 901.496 / (19.068 * 19.068) - 1.0, [0.048, 0.866, 2.824, 10.38]),
            (2.9975, 1250.24875 / (2.9975 * 2.9975) - 1.0, [0.42, 7.64, 24.9, 91.5]),
        ];
        for (mean, squared_cv, waits) in rows {
            for (load, wait) in [0.5, 0.7, 0.8, 0.9].into_iter().zip(waits) {
                let found = lee_longton_mean_wait(14, 14.0 * load / mean, mean, squared_cv);
                close(found / wait, 1.0, 0.012);
            }
        }
        // One server is Pollaczek and Khinchine's case, and exact.
        let exact = pollaczek_khinchine_mean_wait(0.5 / 50.5, 50.5, 5000.5);
        close(lee_longton_mean_wait(1, 0.5 / 50.5, 50.5, rows[0].1) / exact, 1.0, 1e-12);
    }

    #[test]
    fn disciplines_give_the_values_of_clause_5_1() {
        let arrivals = 0.8 / 50.5 / 2.0;
        let short = Class { arrivals, mean: 1.0, second_moment: 1.0 };
        let long = Class { arrivals, mean: 100.0, second_moment: 1e4 };
        let [first, second] = cobham_mean_waits(short, long);
        close(first, 39.92, 5e-3);
        close(second, 199.62, 0.05);
        // Conservation (Kleinrock): the order of service does not change the work that waits.
        let work = arrivals * (first * 1.0 + second * 100.0);
        let in_order = pollaczek_khinchine_mean_wait(2.0 * arrivals, 50.5, 5000.5);
        close(work / (in_order * 0.8), 1.0, 1e-12);
        close(processor_sharing_mean_sojourn(100.0, 0.5), 200.0, 1e-9);
        close(mm1k_drop_ratio(0.8, 5), 0.2 * 0.32768 / (1.0 - 0.262144), 1e-12);
        close(mm1k_drop_ratio(1.0, 4), 0.2, 1e-12);
        close(mm1k_drop_ratio(2.0, 1), 2.0 / 3.0, 1e-12);
    }

    #[test]
    fn no_steady_state_is_an_infinite_wait() {
        for load in [1.0, 1.5] {
            assert_eq!(mm1_mean_sojourn(load, 1.0), f64::INFINITY);
            assert_eq!(md1_mean_wait(load, 1.0), f64::INFINITY);
            assert_eq!(mmn_mean_wait(4, 4.0 * load, 1.0), f64::INFINITY);
            assert_eq!(erlang_c(4, 4.0 * load), 1.0);
            assert_eq!(mmn_wait_exceeds(4, 4.0 * load, 1.0, 3.0), 1.0);
            assert_eq!(processor_sharing_mean_sojourn(1.0, load), f64::INFINITY);
        }
        let half = Class { arrivals: 0.5, mean: 1.0, second_moment: 1.0 };
        assert_eq!(cobham_mean_waits(half, half), [1.0, f64::INFINITY]);
    }
}
