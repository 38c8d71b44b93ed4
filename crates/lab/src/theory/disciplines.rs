//! Closed forms for orders of service and for queues that requests choose.
//!
//! As in the parent: any unit of time, as long as one call uses one.

use super::Class;

/// Mean sojourns of classes at a single server, the first class first; an arrival of a class before
/// stops a request of a class behind, which goes on later from where it was (M/G/1, preemptive
/// resume): E\[S\] / (1 - σ') + Σλ E\[S²\] / (2(1 - σ')(1 - σ)), where σ is the load of the class
/// and those before, σ' of those before only.
pub fn preemptive_priority_mean_sojourns(classes: &[Class]) -> Vec<f64> {
    let (mut load, mut residual) = (0.0, 0.0);
    let mut each = Vec::with_capacity(classes.len());
    for class in classes {
        let before = 1.0 - load;
        load += class.arrivals * class.mean;
        residual += class.arrivals * class.second_moment / 2.0;
        let idle = 1.0 - load;
        let stable = idle > 0.0;
        let sojourn = class.mean / before + residual / (before * idle);
        each.push(if stable { sojourn } else { f64::INFINITY });
    }
    each
}

/// Mean sojourn at a single server that always runs the request with the least work left (M/G/1
/// SRPT; Schrage and Miller 1966), for a continuous law of which `tail` is P(S > x), and beyond
/// `most` nothing that counts.
///
/// A request of length x sojourns E\[T(x)\] = λ ∫₀ˣ t P(S > t) dt / (1 - ρ(x))² + ∫₀ˣ dt / (1 -
/// ρ(t)), where ρ(x) is the load of requests up to x; both are summed over `steps` equal steps.
pub fn srpt_mean_sojourn(arrivals: f64, tail: impl Fn(f64) -> f64, most: f64, steps: u32) -> f64 {
    let width = most / f64::from(steps);
    let (mut of_tail, mut of_t_tail, mut residence, mut mean) = (0.0, 0.0, 0.0, 0.0);
    let mut above = tail(0.0);
    for step in 0..steps {
        let (from, to) = (f64::from(step) * width, f64::from(step + 1) * width);
        let middle = (from + to) / 2.0;
        let at_middle = tail(middle);
        // Half of the step on each side of its middle, where the request of this step ends.
        of_tail += at_middle * width / 2.0;
        of_t_tail += middle * at_middle * width / 2.0;
        let idle = 1.0 - arrivals * (of_tail - middle * at_middle);
        if idle <= 0.0 {
            return f64::INFINITY;
        }
        residence += width / 2.0 / idle;
        let next = tail(to);
        mean += (above - next) * (arrivals * of_t_tail / (idle * idle) + residence);
        above = next;
        of_tail += at_middle * width / 2.0;
        of_t_tail += middle * at_middle * width / 2.0;
        residence += width / 2.0 / idle;
    }
    mean
}

/// Mean sojourn, in mean service times, where requests join the shortest of `choices` queues drawn
/// at random from very many (the limit of Vvedenskaya, Dobrushin and Karpelevich, and Mitzenmacher;
/// exponential service): Σ ρ^((dⁱ - d) / (d - 1)) over i from 1. One choice is M/M/1.
pub fn supermarket_mean_sojourn(choices: u32, utilization: f64) -> f64 {
    if utilization >= 1.0 {
        return f64::INFINITY;
    }
    let (mut exponent, mut sum) = (0.0, 0.0);
    loop {
        let term = libm::pow(utilization, exponent);
        sum += term;
        if term < 1e-15 {
            return sum;
        }
        // From (dⁱ - d) / (d - 1) to the next i.
        exponent = exponent * f64::from(choices) + f64::from(choices);
        if choices == 1 {
            return 1.0 / (1.0 - utilization);
        }
    }
}

/// Mean sojourn, in mean service times, at two servers where each request joins the shorter queue,
/// exponential service. The balance of all states with up to `most` requests at a server, iterated
/// (Gauss and Seidel) until it stands; there is no short closed form.
pub fn shorter_of_two_mean_sojourn(utilization: f64, most: usize) -> f64 {
    if utilization >= 1.0 {
        return f64::INFINITY;
    }
    let arrivals = 2.0 * utilization;
    // p[i][j] for i <= j, both queues taken together with their mirror image.
    let mut p: Vec<Vec<f64>> = (0..=most)
        .map(|i| (0..=most).map(|j| libm::pow(utilization, (i + j) as f64)).collect())
        .collect();
    for _ in 0..20_000 {
        let mut moved = 0.0f64;
        for j in 0..=most {
            for i in 0..=j {
                // Out: an arrival, if it has room, and the end of each request in service.
                let room = i < most;
                let out = if room { arrivals } else { 0.0 }
                    + f64::from(u8::from(i > 0))
                    + f64::from(u8::from(j > 0));
                let mut into = 0.0;
                // An arrival joins the shorter queue: from (i - 1, j), and from (i, j - 1) where
                // both were i long.
                if i > 0 {
                    into += arrivals * p[i - 1][j];
                }
                if j == i + 1 {
                    into += arrivals * p[i][i];
                }
                // The end of a request: at the longer queue from (i, j + 1), at the shorter one
                // from (i + 1, j); from equal lengths both lead to the same state.
                if j < most {
                    into += p[i][j + 1];
                }
                if i < j {
                    into += p[i + 1][j] * if i + 1 == j { 2.0 } else { 1.0 };
                }
                let now = into / out;
                moved = moved.max((now - p[i][j]).abs());
                p[i][j] = now;
            }
        }
        let states = p.iter().enumerate().flat_map(|(i, row)| &row[i..]);
        let total: f64 = states.sum();
        p.iter_mut().flatten().for_each(|one| *one /= total);
        if moved < 1e-13 {
            break;
        }
    }
    let present: f64 = (0..=most)
        .flat_map(|j| (0..=j).map(move |i| (i, j)))
        .map(|(i, j)| (i + j) as f64 * p[i][j])
        .sum();
    present / arrivals
}

/// Mean sojourn at two servers of different rates in front of which all wait in one queue, by the
/// balance of their states; exponential service. A request that finds both free goes to the first.
pub fn unequal_pair_mean_sojourn(arrivals: f64, first: f64, second: f64) -> f64 {
    let both = first + second;
    let utilization = arrivals / both;
    if utilization >= 1.0 {
        return f64::INFINITY;
    }
    // Probabilities over that of both being busy with nobody waiting, which is 1.
    let second_alone = first / (arrivals + second);
    let first_alone = both / arrivals - second_alone;
    let empty = (first * first_alone + second * second_alone) / arrivals;
    let crowded = 1.0 / (1.0 - utilization);
    let all = empty + first_alone + second_alone + crowded;
    let present = first_alone + second_alone + crowded * (2.0 + utilization * crowded);
    present / all / arrivals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theory::{mm1_mean_sojourn, mmn_mean_wait};

    fn close(found: f64, expected: f64, relative: f64) {
        assert!((found / expected - 1.0).abs() <= relative, "{found} against {expected}");
    }

    #[test]
    fn one_class_with_preemption_is_mm1_and_all_classes_conserve_work() {
        let class = |arrivals| Class { arrivals, mean: 1.0, second_moment: 2.0 };
        close(preemptive_priority_mean_sojourns(&[class(0.8)])[0], 5.0, 1e-12);
        // Exponential times of one mean: whoever is stopped, as many are in the system as in M/M/1.
        let [first, second] = preemptive_priority_mean_sojourns(&[class(0.3), class(0.5)])[..]
        else {
            panic!("two classes")
        };
        close(first, mm1_mean_sojourn(0.3, 1.0), 1e-12);
        close((0.3 * first + 0.5 * second) / 0.8, 5.0, 1e-12);
        assert_eq!(preemptive_priority_mean_sojourns(&[class(1.2)]), [f64::INFINITY]);
    }

    #[test]
    fn srpt_has_the_limits_of_theory() {
        let exponential = |x: f64| libm::exp(-x);
        let of = |load| srpt_mean_sojourn(load, exponential, 45.0, 200_000);
        close(of(1e-6), 1.0, 1e-4);
        // No policy has less; first come first served has more.
        for load in [0.3, 0.5, 0.8, 0.95] {
            assert!(of(load) > 1.0 && of(load) < mm1_mean_sojourn(load, 1.0), "{load}");
        }
        // Steps that are twice as wide change the seventh digit.
        close(of(0.8), srpt_mean_sojourn(0.8, exponential, 45.0, 100_000), 1e-6);
        // Nearly constant times: SRPT does not preempt, and the mean is that of M/D/1.
        let narrow = |x: f64| ((1.001 - x) / 0.002).clamp(0.0, 1.0);
        close(srpt_mean_sojourn(0.5, narrow, 1.001, 400_000), 1.5, 2e-3);
        assert_eq!(srpt_mean_sojourn(1.5, exponential, 45.0, 1_000), f64::INFINITY);
    }

    #[test]
    fn more_choices_wait_less() {
        close(supermarket_mean_sojourn(1, 0.9), 10.0, 1e-12);
        // 1 + 0.9^2 + 0.9^6 + 0.9^14 + 0.9^30 + 0.9^62 + ...
        let two: f64 = [0, 2, 6, 14, 30, 62, 126].iter().map(|&e| 0.9f64.powi(e)).sum();
        close(supermarket_mean_sojourn(2, 0.9), two, 1e-9);
        assert!(supermarket_mean_sojourn(5, 0.9) < supermarket_mean_sojourn(2, 0.9));
    }

    #[test]
    fn the_shorter_of_two_lies_between_one_queue_and_two() {
        for load in [0.2, 0.5, 0.8] {
            let found = shorter_of_two_mean_sojourn(load, 60);
            let one_queue = 1.0 + mmn_mean_wait(2, 2.0 * load, 1.0);
            assert!(found > one_queue && found < mm1_mean_sojourn(load, 1.0), "{load}: {found}");
        }
        close(shorter_of_two_mean_sojourn(0.8, 60), shorter_of_two_mean_sojourn(0.8, 80), 1e-9);
    }

    #[test]
    fn a_pair_of_equal_servers_is_a_server_of_two() {
        for arrivals in [0.2, 1.0, 1.9] {
            let known = crate::theory::mmn_mean_wait(2, arrivals, 1.0) + 1.0;
            let found = unequal_pair_mean_sojourn(arrivals, 1.0, 1.0);
            close(found, known, 1e-12);
        }
        assert_eq!(unequal_pair_mean_sojourn(1.3, 1.0, 0.3), f64::INFINITY);
        // With next to nobody there each request is the first server's.
        close(unequal_pair_mean_sojourn(1e-6, 0.5, 3.0), 2.0, 1e-5);
    }
}
