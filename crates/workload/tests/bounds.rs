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
        proptest::collection::vec(whole(), 0..9).prop_map(|all| Service::Empirical(all.into())),
    ]
}

fn arrivals() -> impl Strategy<Value = Arrivals> {
    let bursty = (float(), float(), float(), 1e-6..1.0).prop_map(
        |(peak_ratio, burst_share, mean_burst_ns, near)| {
            // Half the cases legal in their first two parameters.
            let share = if near < 0.5 { near / peak_ratio } else { burst_share };
            Arrivals::Bursty { peak_ratio, burst_share: share, mean_burst_ns }
        },
    );
    prop_oneof![Just(Arrivals::Poisson), Just(Arrivals::Constant), bursty]
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
    fn any_workload_is_refused_or_runs(
        services in proptest::collection::vec(service(), 1..4),
        phases in proptest::collection::vec((arrivals(), float(), proptest::option::of(whole())), 1..4),
        mislabel in float(),
        seed: u64,
    ) {
        let share = 1.0 / services.len() as f64;
        let types = services.into_iter().map(|service| Type { share, service }).collect();
        if let Ok(mix) = Mix::new(types) {
            let phases = phases.into_iter().map(|(arrivals, rate_per_s, ns)| Phase {
                mix: mix.clone(),
                arrivals,
                rate_per_s,
                duration: ns.map(Span::from_ns),
            });
            if let Ok(workload) = Workload::new(phases.collect(), mislabel) {
                let mut before = Instant::ZERO;
                for request in Source::new(&workload, seed).take(50) {
                    prop_assert!(request.at >= before);
                    prop_assert!(request.service >= Span::from_ns(1));
                    prop_assert!(usize::from(request.kind) < mix.types().len());
                    prop_assert!(usize::from(request.label) < mix.types().len());
                    before = request.at;
                }
            }
        }
    }
}
