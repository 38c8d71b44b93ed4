//! No input makes this crate panic, hang or yield a request without work.

use cavy_core::{Instant, Purpose, Span, Stream};
use cavy_workload::{Arrivals, Mix, Phase, Service, Source, Type, Workload};
use proptest::prelude::*;

/// Any float at all, and often one near the ranges that matter.
fn float() -> impl Strategy<Value = f64> {
    prop_oneof![any::<f64>(), 0.0..2.0, 0.9..9.0, 1.0..1e15, Just(1.0), Just(0.1), Just(1e15)]
}

fn whole() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), 0u64..10_000]
}

/// Any service, legal or not.
fn service() -> impl Strategy<Value = Service> {
    prop_oneof![
        whole().prop_map(|ns| Service::Constant { ns }),
        float().prop_map(|mean_ns| Service::Exponential { mean_ns }),
        (float(), float()).prop_map(|(mean_ns, sigma)| Service::LogNormal { mean_ns, sigma }),
        (whole(), whole(), float()).prop_map(|(short_ns, long_ns, long_ratio)| {
            Service::Bimodal { short_ns, long_ns, long_ratio }
        }),
        (float(), float(), proptest::option::of(whole()))
            .prop_map(|(mean_ns, shape, max_ns)| Service::Pareto { mean_ns, shape, max_ns }),
        (whole(), whole()).prop_map(|(low_ns, high_ns)| Service::Uniform { low_ns, high_ns }),
        (float(), float()).prop_map(|(mean_ns, shape)| Service::Weibull { mean_ns, shape }),
        (float(), float()).prop_map(|(mean_ns, shape)| Service::Gamma { mean_ns, shape }),
        (float(), float())
            .prop_map(|(mean_ns, squared_cv)| Service::Hyperexponential { mean_ns, squared_cv }),
        proptest::collection::vec(whole(), 0..9).prop_map(|all| Service::Empirical(all.into())),
    ]
}

/// A float between two powers of ten, evenly over the powers.
fn decade(from: f64, to: f64) -> impl Strategy<Value = f64> {
    (from..to).prop_map(|exponent| 10f64.powf(exponent))
}

/// Services of every law, over all of the legal ranges.
fn legal_service() -> impl Strategy<Value = Service> {
    let mean = || decade(0.0, 15.0);
    let times = || (1..=u64::MAX).prop_flat_map(|high| (1..=high, Just(high)));
    prop_oneof![
        (1..=u64::MAX).prop_map(|ns| Service::Constant { ns }),
        mean().prop_map(|mean_ns| Service::Exponential { mean_ns }),
        (mean(), 0.0..8.0).prop_map(|(mean_ns, sigma)| Service::LogNormal { mean_ns, sigma }),
        (times(), 0.0..=1.0).prop_map(|((short_ns, long_ns), long_ratio)| Service::Bimodal {
            short_ns,
            long_ns,
            long_ratio
        }),
        (mean(), decade(-9.0, 3.0), proptest::option::of(decade(0.0, 6.0))).prop_map(
            |(mean_ns, above_one, reach)| {
                let max_ns = reach.map(|reach| ((mean_ns * reach) as u64).saturating_add(1));
                Service::Pareto { mean_ns, shape: 1.0 + above_one, max_ns }
            }
        ),
        times().prop_map(|(low_ns, high_ns)| Service::Uniform { low_ns, high_ns }),
        (mean(), decade(-1.0, 3.0))
            .prop_map(|(mean_ns, shape)| Service::Weibull { mean_ns, shape: shape.max(0.1) }),
        (mean(), decade(-1.0, 3.0))
            .prop_map(|(mean_ns, shape)| Service::Gamma { mean_ns, shape: shape.clamp(0.1, 1e3) }),
        (mean(), decade(0.0, 4.0)).prop_map(|(mean_ns, squared_cv)| {
            Service::Hyperexponential { mean_ns, squared_cv: squared_cv.clamp(1.0, 1e4) }
        }),
        proptest::collection::vec(1..=u64::MAX, 1..9)
            .prop_map(|all| Service::Empirical(all.into())),
    ]
}

fn legal_phase() -> impl Strategy<Value = (Arrivals, f64, u64)> {
    // Bursts as short as the rate allows, and longer; at most the mean rate in bursts.
    let bursty = (decade(-6.0, 0.0), 0.0..=1.0, decade(-3.0, 3.0));
    let rate = || decade(-6.0, 12.0);
    prop_oneof![
        rate().prop_map(|rate| (Arrivals::Poisson, rate)),
        rate().prop_map(|rate| (Arrivals::Constant, rate)),
        (rate(), bursty).prop_map(|(rate, (share, height, length))| {
            let burst_share = (share * 0.99).max(1e-6);
            let peak_ratio = 1.0 + 1e-9 + (1.0 / burst_share - 1.0) * height * 0.999;
            let mean_burst_ns = (2.1e9 / rate * burst_share * length).clamp(1e-9, 1e15);
            (Arrivals::Bursty { peak_ratio, burst_share, mean_burst_ns }, rate)
        }),
    ]
    .prop_flat_map(|(arrivals, rate)| (Just(arrivals), Just(rate), 1..=u64::MAX))
}

#[test]
fn requests_are_drawn_without_allocating() {
    let types = [
        Service::Constant { ns: 5 },
        Service::LogNormal { mean_ns: 1e4, sigma: 1.5 },
        Service::Pareto { mean_ns: 1e4, shape: 1.5, max_ns: Some(1_000_000) },
        Service::Empirical([4, 900, 77].into()),
    ];
    let types = types.map(|service| Type { share: 0.25, service });
    let arrivals = Arrivals::Bursty { peak_ratio: 3.0, burst_share: 0.2, mean_burst_ns: 1e5 };
    let phase =
        Phase { mix: Mix::new(types.into()).unwrap(), arrivals, rate_per_s: 1e6, duration: None };
    let mut source = Source::new(&Workload::new(vec![phase], 0.1).unwrap(), 1);
    let counted = allocation_counter::measure(|| {
        assert_eq!(source.by_ref().take(10_000).count(), 10_000);
    });
    assert_eq!(counted.count_total, 0);
}

proptest! {
    #[test]
    fn any_service_draws_at_least_one_nanosecond(service in service(), seed: u64, bits: u64) {
        let legal = service.check().is_ok();
        let mut stream = Stream::keyed(seed, 0, Purpose::Test);
        let sampler = service.sampler();
        for _ in 0..20 {
            prop_assert!(sampler.draw(&mut stream) >= Span::from_ns(1));
        }
        for bits in [0, bits, u64::MAX] {
            let drawn = sampler.at(bits);
            prop_assert!(drawn >= Span::from_ns(1));
            if let (true, Service::Pareto { max_ns: Some(max_ns), .. }) = (legal, &service) {
                prop_assert!(drawn.as_ns() <= *max_ns);
            }
        }
        if legal {
            let (mean, second) = (service.mean_ns(), service.second_moment_ns2());
            prop_assert!(mean > 0.0 && mean.is_finite(), "mean {mean}");
            // Jensen, up to rounding.
            prop_assert!(second >= mean * mean * (1.0 - 1e-9), "mean {mean}, second {second}");
        }
    }

    #[test]
    fn legal_services_draw_finite_work_of_the_stated_moments(service in legal_service()) {
        service.check().expect("legal");
        let (mean, second) = (service.mean_ns(), service.second_moment_ns2());
        prop_assert!(mean > 0.0 && mean.is_finite(), "mean {mean}");
        prop_assert!(second >= mean * mean * (1.0 - 1e-9), "mean {mean}, second {second}");
    }

    #[test]
    fn workloads_of_any_numbers_are_refused_or_made(
        rate_per_s in float(),
        bursts in (float(), float(), float()),
        mislabel in float(),
        ns in proptest::option::of(whole()),
    ) {
        let service = Service::Constant { ns: 1 };
        let mix = Mix::new(vec![Type { share: 1.0, service }]).unwrap();
        let (peak_ratio, burst_share, mean_burst_ns) = bursts;
        let arrivals = Arrivals::Bursty { peak_ratio, burst_share, mean_burst_ns };
        let phase = Phase { mix, arrivals, rate_per_s, duration: ns.map(Span::from_ns) };
        if let Ok(workload) = Workload::new(vec![phase], mislabel) {
            prop_assert!(Source::new(&workload, 1).take(9).count() <= 9);
        }
    }

    #[test]
    fn legal_workloads_run_in_order_and_stay_inside_the_mix(
        services in proptest::collection::vec(legal_service(), 1..4),
        phases in proptest::collection::vec(legal_phase(), 1..4),
        endless: bool,
        mislabel in 0.0..=1.0,
        seed: u64,
    ) {
        let share = 1.0 / services.len() as f64;
        let types = services.into_iter().map(|service| Type { share, service }).collect();
        let mix = Mix::new(types).expect("a legal mix");
        let mut phases: Vec<Phase> = phases
            .into_iter()
            .map(|(arrivals, rate_per_s, ns)| Phase {
                mix: mix.clone(),
                arrivals,
                rate_per_s,
                duration: Some(Span::from_ns(ns)),
            })
            .collect();
        if let (true, Some(last)) = (endless, phases.last_mut()) {
            last.duration = None;
        }
        let workload = Workload::new(phases, mislabel).expect("a legal workload");
        let mut before = Instant::ZERO;
        for request in Source::new(&workload, seed).take(200) {
            prop_assert!(request.at >= before);
            prop_assert!(request.service >= Span::from_ns(1));
            prop_assert!(usize::from(request.kind) < mix.types().len());
            prop_assert!(usize::from(request.label) < mix.types().len());
            before = request.at;
        }
    }
}
