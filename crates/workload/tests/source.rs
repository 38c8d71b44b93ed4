//! What a source promises: exact rates, the mix asked for, common random numbers, phase boundaries,
//! and the same requests everywhere.

use cavy_core::{Digest, Instant, Span};
use cavy_workload::{
    Arrivals, Mix, MixError, Phase, Request, Service, Source, Type, Workload, WorkloadError,
    check_trace,
};

fn constant(share: f64, ns: u64) -> Type {
    Type { share, service: Service::Constant { ns } }
}

fn mix(types: &[(f64, u64)]) -> Mix {
    Mix::new(types.iter().map(|&(share, ns)| constant(share, ns)).collect()).expect("a legal mix")
}

fn extreme_bimodal() -> Mix {
    mix(&[(0.995, 500), (0.005, 500_000)])
}

fn tpcc() -> Mix {
    mix(&[(0.44, 5_700), (0.04, 6_000), (0.44, 20_000), (0.04, 88_000), (0.04, 100_000)])
}

fn endless(mix: Mix, arrivals: Arrivals, rate_per_s: f64, mislabel: f64) -> Workload {
    let phase = Phase { mix, arrivals, rate_per_s, duration: None };
    Workload::new(vec![phase], mislabel).expect("a legal workload")
}

fn bursty(mean_burst_ns: f64) -> Arrivals {
    Arrivals::Bursty { peak_ratio: 4.0, burst_share: 0.1, mean_burst_ns }
}

fn requests(workload: &Workload, seed: u64, count: usize) -> Vec<Request> {
    Source::new(workload, seed).take(count).collect()
}

#[test]
fn mixes_have_the_moments_and_peaks_of_the_specification() {
    // [persephone 4.1]: mean us, E[S^2] us^2, squared coefficient of variation, peak krps at N =
    // 14.
    for (mix, mean, second, scv, peak) in [
        (mix(&[(0.5, 1_000), (0.5, 100_000)]), 50.5, 5000.5, 0.961, 277.2),
        (extreme_bimodal(), 2.9975, 1250.249, 138.1, 4670.6),
        (tpcc(), 19.068, 901.496, 1.479, 734.2),
        (mix(&[(0.5, 1_500), (0.5, 635_000)]), 318.25, 201_613.6, 0.991, 43.99),
    ] {
        let close = |got: f64, want: f64| assert!((got / want - 1.0).abs() < 6e-4, "{got} {want}");
        close(mix.mean_ns() / 1e3, mean);
        close(mix.second_moment_ns2() / 1e6, second);
        close(mix.squared_cv(), scv);
        close(mix.peak_rate_per_s(14) / 1e3, peak);
    }
}

#[test]
fn constant_arrivals_are_never_a_nanosecond_off() {
    let rate_per_s = 4_670_558.798_999_166;
    let workload = endless(extreme_bimodal(), Arrivals::Constant, rate_per_s, 0.0);
    for (index, request) in Source::new(&workload, 1).take(3_000_000).enumerate() {
        let exact_ns = (index + 1) as f64 * 1e9 / rate_per_s;
        assert!((request.at.as_ns() as f64 - exact_ns).abs() <= 1.0, "request {index}");
    }
}

#[test]
fn poisson_times_scale_with_the_rate_to_the_last_nanosecond() {
    // A million times slower, a nanosecond is nothing: the slow times show what the fast ones are
    // before they lose their fractions. Truncating each gap would be 0.2 % off, half a million ns.
    let fast = endless(extreme_bimodal(), Arrivals::Poisson, 4.67e6, 0.0);
    let slow = endless(extreme_bimodal(), Arrivals::Poisson, 4.67, 0.0);
    for (fast, slow) in Source::new(&fast, 5).zip(Source::new(&slow, 5)).take(1_000_000) {
        let exact_ns = slow.at.as_ns() as f64 / 1e6;
        assert!((fast.at.as_ns() as f64 - exact_ns).abs() <= 1.0 + 1e-3, "{fast:?} {slow:?}");
    }
}

#[test]
fn rates_are_exact_in_the_long_run() {
    // Four standard errors: sqrt(dispersion / count), where the bursts' dispersion is 19 at this
    // rate.
    let count = 4_000_000;
    for (arrivals, rate_per_s, tolerance) in [
        (Arrivals::Poisson, 4.67e6, 0.002),
        (Arrivals::Poisson, 2.2e5, 0.002),
        (Arrivals::Constant, 4.67e6, 1e-6),
        (bursty(1e4), 1e6, 0.0088),
    ] {
        let workload = endless(extreme_bimodal(), arrivals, rate_per_s, 0.0);
        let last = Source::new(&workload, 9).nth(count - 1).expect("endless");
        let rate = count as f64 / (last.at.as_ns() as f64 / 1e9);
        assert!((rate / rate_per_s - 1.0).abs() < tolerance, "{arrivals:?}: {rate}");
    }
}

/// Variance over mean of the number of arrivals in windows of 1 ms.
fn dispersion(arrivals: Arrivals, windows: usize) -> f64 {
    let workload = endless(extreme_bimodal(), arrivals, 1e6, 0.0);
    let mut counts = vec![0u32; windows];
    for request in Source::new(&workload, 21) {
        match counts.get_mut((request.at.as_ns() / 1_000_000) as usize) {
            Some(count) => *count += 1,
            None => break,
        }
    }
    let mean = counts.iter().map(|&n| f64::from(n)).sum::<f64>() / windows as f64;
    let spread: f64 = counts.iter().map(|&n| (f64::from(n) - mean).powi(2)).sum();
    spread / (windows - 1) as f64 / mean
}

#[test]
fn dispersion_is_one_for_poisson_and_that_of_the_closed_form_for_bursts() {
    // Two-state MMPP: 1 + 2 p q (a - b)^2 / (rate r) (1 - (1 - exp(-r w)) / (r w)), where p and q
    // are the shares of the levels, a and b their rates, r the sum of the switching rates, w the
    // window. 4000 windows: the variance is known within 2.2 % (one standard deviation), and a
    // little worse for bursts, whose counts have a longer tail than the normal law.
    let poisson = dispersion(Arrivals::Poisson, 4_000);
    assert!((poisson - 1.0).abs() < 0.09, "{poisson}");
    let (burst_rate, calm_rate, switching): (f64, f64, f64) = (4e-3, 2e-3 / 3.0, 1e-4 / 0.9);
    let reach = switching * 1e6;
    let closed = 1.0
        + 2.0 * 0.09 * (burst_rate - calm_rate).powi(2) / (1e-3 * switching)
            * (1.0 - (1.0 - (-reach).exp()) / reach);
    assert!((closed - 18.84).abs() < 0.01, "{closed}");
    let bursts = dispersion(bursty(1e4), 4_000);
    assert!((bursts / closed - 1.0).abs() < 0.1, "{bursts}, not {closed}");
}

#[test]
fn types_arrive_as_often_as_their_shares_say() {
    let silent = mix(&[(0.0, 1), (0.3, 2), (0.0, 3), (0.7, 4), (0.0, 5), (0.0, 6)]);
    let many = mix(&[(1.0 / 64.0, 9); 64]);
    let single = mix(&[(1.0, 9)]);
    for mix in [extreme_bimodal(), tpcc(), silent, many, single] {
        let count = 400_000;
        let mut seen = vec![0u32; mix.types().len()];
        for request in requests(&endless(mix.clone(), Arrivals::Constant, 1e6, 0.0), 2, count) {
            seen[usize::from(request.kind)] += 1;
            assert_eq!(request.label, request.kind);
        }
        for (one, &seen) in mix.types().iter().zip(&seen) {
            let expected = count as f64 * one.share;
            let sigma = (expected * (1.0 - one.share)).sqrt();
            assert!((f64::from(seen) - expected).abs() <= 4.5 * sigma, "{one:?}: {seen}");
        }
    }
}

#[test]
fn the_same_seed_brings_the_same_requests_and_another_seed_others() {
    let workload = endless(tpcc(), bursty(1e6), 1e6, 0.2);
    assert_eq!(requests(&workload, 3, 5_000), requests(&workload, 3, 5_000));
    let other = requests(&workload, 4, 5_000);
    assert!(requests(&workload, 3, 5_000).iter().zip(&other).any(|(a, b)| a.at != b.at));
}

#[test]
fn wrong_labels_change_neither_times_nor_types_nor_services() {
    let law = Service::Exponential { mean_ns: 5e3 };
    let types = vec![constant(0.5, 100), Type { share: 0.25, service: law }, constant(0.25, 7)];
    let at = |mislabel| {
        let mix = Mix::new(types.clone()).unwrap();
        requests(&endless(mix, Arrivals::Poisson, 1e6, mislabel), 8, 50_000)
    };
    let (none, some, all) = (at(0.0), at(0.3), at(1.0));
    let mut wrong = [0.0; 2];
    for ((none, some), all) in none.iter().zip(&some).zip(&all) {
        let same = |other: &Request| Request { label: none.label, ..*other } == *none;
        assert!(same(some) && same(all));
        assert_eq!(none.label, none.kind);
        // What is mislabeled at 0.3 is mislabeled at 1, and in the same way.
        assert!(some.label == some.kind || some.label == all.label);
        wrong[0] += f64::from(some.label != some.kind);
        wrong[1] += f64::from(all.label != all.kind);
    }
    // A random label of three types hits the true one every third time.
    for (wrong, ratio) in wrong.iter().zip([0.3, 1.0]) {
        let share: f64 = ratio * 2.0 / 3.0;
        let sigma = (50_000.0 * share * (1.0 - share)).sqrt();
        assert!((wrong - 50_000.0 * share).abs() < 4.5 * sigma, "{ratio}: {wrong}");
    }
}

#[test]
fn another_service_law_or_arrival_process_shifts_nothing_else() {
    let with = |service, arrivals| {
        let first = Type { share: 0.6, service: Service::Exponential { mean_ns: 1e3 } };
        let mix = Mix::new(vec![first, Type { share: 0.4, service }]).unwrap();
        requests(&endless(mix, arrivals, 1e6, 0.1), 8, 20_000)
    };
    let base = with(Service::Constant { ns: 10 }, Arrivals::Poisson);
    let other_law = with(Service::LogNormal { mean_ns: 1e6, sigma: 2.0 }, Arrivals::Poisson);
    let other_times = with(Service::Constant { ns: 10 }, bursty(1e5));
    for ((base, law), times) in base.iter().zip(&other_law).zip(&other_times) {
        assert_eq!((base.at, base.kind, base.label), (law.at, law.kind, law.label));
        if base.kind == 0 {
            assert_eq!(base.service, law.service);
        }
        assert_eq!(Request { at: base.at, ..*times }, *base);
    }
}

#[test]
fn golden_digest_of_the_first_ten_thousand_requests() {
    // The same on every target and in every build. A change here changes every published result:
    // say so in the commit that does it.
    let mut digest = Digest::new();
    for request in requests(&endless(extreme_bimodal(), Arrivals::Poisson, 4.67e6, 0.1), 42, 10_000)
    {
        digest.fold(request.at.as_ns());
        digest.fold(u64::from(request.kind) << 16 | u64::from(request.label));
        digest.fold(request.service.as_ns());
    }
    assert_eq!(format!("{:#018x}", digest.value()), "0x210aef4d10c4bdb6");
}

#[test]
fn golden_digest_of_every_law_and_bursts() {
    let laws = vec![
        Service::Constant { ns: 5 },
        Service::Exponential { mean_ns: 1e4 },
        Service::LogNormal { mean_ns: 1e4, sigma: 1.5 },
        Service::Bimodal { short_ns: 500, long_ns: 500_000, long_ratio: 0.005 },
        Service::Pareto { mean_ns: 1e4, shape: 1.5, max_ns: None },
        Service::Pareto { mean_ns: 1e4, shape: 1.5, max_ns: Some(1_000_000) },
        Service::Uniform { low_ns: 10, high_ns: 20_000 },
        Service::Weibull { mean_ns: 1e4, shape: 0.5 },
        Service::Empirical([4, 900, 77].into()),
    ];
    let share = 1.0 / laws.len() as f64;
    let mix = Mix::new(laws.into_iter().map(|service| Type { share, service }).collect()).unwrap();
    let mut digest = Digest::new();
    for request in requests(&endless(mix, bursty(1e5), 1e6, 0.1), 42, 100_000) {
        digest.fold(request.at.as_ns());
        digest.fold(u64::from(request.kind) << 16 | u64::from(request.label));
        digest.fold(request.service.as_ns());
    }
    assert_eq!(format!("{:#018x}", digest.value()), "0x19d0e30eeadf751a");
}

fn phase(arrivals: Arrivals, rate_per_s: f64, ns: Option<u64>) -> Phase {
    let mix = mix(&[(0.5, 1), (0.5, 2)]);
    Phase { mix, arrivals, rate_per_s, duration: ns.map(Span::from_ns) }
}

#[test]
fn phases_end_at_their_absolute_end_and_the_next_starts_there() {
    // Gaps of 30, then 50, then 20 ns. A request due exactly at an end belongs to no phase but the
    // next, which starts a gap of its own.
    let phases = vec![
        phase(Arrivals::Constant, 1e9 / 30.0, Some(100)),
        phase(Arrivals::Constant, 2e7, Some(100)),
        phase(Arrivals::Constant, 5e7, Some(50)),
    ];
    let mut source = Source::new(&Workload::new(phases, 0.0).unwrap(), 1);
    let times: Vec<u64> = source.by_ref().map(|request| request.at.as_ns()).collect();
    assert_eq!(times, [30, 60, 90, 150, 220, 240]);
    assert_eq!(source.next(), None);
    assert_eq!(source.next(), None);
}

#[test]
fn clause_5_11_four_phases_keep_their_rates_and_mixes() {
    // Figure 8: types A and B swap, then A becomes common and B rare, then only A is left.
    let two = |a, b, share| mix(&[(share, a), (1.0 - share, b)]);
    let rows = [
        (two(100_000, 1_000, 0.5), 221_782.0),
        (two(1_000, 100_000, 0.5), 221_782.0),
        (two(1_000, 100_000, 0.95), 1_882_353.0),
        (two(3_500, 1, 1.0), 3_200_000.0),
    ];
    let span_ns = 500_000_000;
    let phases = rows.iter().map(|(mix, rate_per_s)| Phase {
        mix: mix.clone(),
        arrivals: Arrivals::Poisson,
        rate_per_s: *rate_per_s,
        duration: Some(Span::from_ns(span_ns)),
    });
    let workload = Workload::new(phases.collect(), 0.0).unwrap();
    let mut seen = [[0u32; 2]; 4];
    let mut before = Instant::ZERO;
    for request in Source::new(&workload, 77) {
        assert!(request.at >= before);
        before = request.at;
        let index = (request.at.as_ns() / span_ns) as usize;
        let one = &rows[index].0.types()[usize::from(request.kind)];
        assert_eq!(one.service, Service::Constant { ns: request.service.as_ns() });
        seen[index][usize::from(request.kind)] += 1;
    }
    for ((mix, rate_per_s), seen) in rows.iter().zip(seen) {
        for (one, seen) in mix.types().iter().zip(seen) {
            // Counts of a split Poisson process are Poisson themselves.
            let expected = rate_per_s * one.share * span_ns as f64 / 1e9;
            assert!((f64::from(seen) - expected).abs() <= 4.5 * expected.sqrt(), "{one:?} {seen}");
        }
    }
}

#[test]
fn phases_too_short_for_a_request_are_passed_over() {
    let mut phases = vec![phase(Arrivals::Poisson, 1.0, Some(1)); 100];
    phases.push(phase(Arrivals::Constant, 1e9, None));
    let workload = Workload::new(phases, 0.0).unwrap();
    assert_eq!(requests(&workload, 1, 1)[0].at, Instant::from_ns(101));
}

#[test]
fn sources_end_with_time_itself() {
    let workload = endless(extreme_bimodal(), Arrivals::Constant, 1e-6, 0.0);
    let mut source = Source::new(&workload, 1);
    // 2^64 ns hold 18 446 gaps of 10^15 ns.
    assert_eq!(source.by_ref().count(), 18_446);
    assert_eq!(source.next(), None);
}

#[test]
fn a_recorded_trace_is_replayed_as_it_is() {
    let request = |at, service| Request {
        at: Instant::from_ns(at),
        kind: 0,
        label: 1,
        service: Span::from_ns(service),
    };
    let trace = [request(4, 9), request(4, 2), request(7, 1)];
    assert_eq!(check_trace(&trace), Ok(()));
    let mut source = Source::recorded(trace.into());
    assert_eq!(source.by_ref().collect::<Vec<_>>(), trace);
    assert_eq!(source.next(), None);
    let message = |trace: &[Request]| check_trace(trace).unwrap_err().to_string();
    assert_eq!(
        message(&[request(7, 9), request(6, 9)]),
        "request 1 arrives at 6 ns, before request 0 at 7 ns"
    );
    assert_eq!(message(&[request(7, 0)]), "service of request 0 is 0 ns, must be at least 1");
}

#[test]
fn errors_of_mixes_name_the_type_and_the_value() {
    let types = |shares: &[f64]| shares.iter().map(|&share| constant(share, 5)).collect();
    for (shares, message) in [
        (&[][..], "there are 0 types, must be at least 1"),
        (&[1.0 / 65.0; 65], "there are 65 types, must be at most 64"),
        (&[0.6, 0.5, -0.1], "share of type 2 is -0.1, must be from 0 to 1"),
        (&[f64::NAN], "share of type 0 is NaN, must be from 0 to 1"),
        (&[0.5, f64::INFINITY], "share of type 1 is inf, must be from 0 to 1"),
        (&[0.5, 0.25], "sum of the shares is 0.75, must be 1"),
        (&[0.0, 0.0], "sum of the shares is 0, must be 1"),
    ] {
        let error: MixError = Mix::new(types(shares)).expect_err(message);
        assert_eq!(error.to_string(), message);
    }
    let error = Mix::new(vec![constant(1.0, 0)]).unwrap_err();
    assert_eq!(error.to_string(), "service of type 0: ns is 0, must be at least 1");
    assert!(Mix::new(types(&[0.333_333_3; 3])).is_ok());
}

#[test]
fn errors_of_workloads_name_the_phase_and_the_value() {
    let steady = |rate_per_s, ns| phase(Arrivals::Poisson, rate_per_s, ns);
    let burst = |peak_ratio, burst_share, mean_burst_ns| {
        vec![phase(Arrivals::Bursty { peak_ratio, burst_share, mean_burst_ns }, 1e3, None)]
    };
    let three_types = Phase { mix: mix(&[(1.0, 1), (0.0, 1), (0.0, 1)]), ..steady(1.0, None) };
    for (phases, mislabel, message) in [
        (vec![], 0.0, "there are 0 phases, must be at least 1"),
        (vec![steady(1.0, None)], 1.5, "mislabel is 1.5, must be from 0 to 1"),
        (vec![steady(1.0, None)], f64::NAN, "mislabel is NaN, must be from 0 to 1"),
        (
            vec![steady(1.0, Some(5)), steady(0.0, None)],
            0.0,
            "rate_per_s of phase 1 is 0, must be from 1e-6 to 1e12",
        ),
        (
            vec![steady(f64::INFINITY, None)],
            0.0,
            "rate_per_s of phase 0 is inf, must be from 1e-6 to 1e12",
        ),
        (
            vec![steady(1.0, None), steady(1.0, None)],
            0.0,
            "phase 0 has no duration, which only the last phase may lack",
        ),
        (vec![steady(1.0, Some(0))], 0.0, "duration of phase 0 is 0, must be above 0"),
        (
            vec![steady(1.0, Some(5)), three_types],
            0.0,
            "phase 1 has 3 types, must be 2 as in phase 0",
        ),
        (
            burst(1.0, 0.5, 1e6),
            0.0,
            "arrivals of phase 0: peak_ratio is 1, must be finite and above 1",
        ),
        (
            burst(4.0, 0.5, 1e6),
            0.0,
            "arrivals of phase 0: peak_ratio 4 times burst_share 0.5 is 2, must be at most 1",
        ),
        (
            burst(2.0, 0.25, 10.0),
            0.0,
            "arrivals of phase 0: mean_burst_ns is 10, must be at least 500 at this rate",
        ),
        (
            burst(2.0, 0.25, f64::NAN),
            0.0,
            "arrivals of phase 0: mean_burst_ns is NaN, must be above 0 and at most 1e15",
        ),
    ] {
        let error: WorkloadError = Workload::new(phases, mislabel).expect_err(message);
        assert_eq!(error.to_string(), message);
    }
}
