//! The laws of service time against two independent implementations: rand_distr, draw by draw in
//! distribution, and scipy (mpmath where scipy integrates numerically), in their moments.

use cavy_core::{Purpose, Span, Stream};
use cavy_workload::{Service, ServiceError};
use rand_distr::Distribution;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

const SAMPLES: usize = 200_000;

/// Two-sample Kolmogorov-Smirnov distance that 200 000 against 200 000 draws of one law exceed with
/// probability 0.001: 1.949 sqrt(2 / 200 000). Seeds are fixed, so a test passes always or never.
const KS_LIMIT: f64 = 0.006_17;

fn ours(service: &Service) -> Vec<f64> {
    service.check().expect("a legal law");
    let mut stream = Stream::keyed(7, 0, Purpose::Test);
    let sampler = service.sampler();
    (0..SAMPLES).map(|_| sampler.draw(&mut stream).as_ns() as f64).collect()
}

fn theirs(law: impl Distribution<f64>, keep: impl Fn(f64) -> bool) -> Vec<f64> {
    let rng = Xoshiro256PlusPlus::seed_from_u64(11);
    law.sample_iter(rng).filter(|&ns| keep(ns)).take(SAMPLES).map(f64::round).collect()
}

/// The greatest distance between two empirical distributions; ties are stepped over together.
fn distance(mut a: Vec<f64>, mut b: Vec<f64>) -> f64 {
    a.sort_by(f64::total_cmp);
    b.sort_by(f64::total_cmp);
    let (mut i, mut j, mut worst) = (0, 0, 0.0f64);
    while i < a.len() && j < b.len() {
        let x = a[i].min(b[j]);
        i += a[i..].iter().take_while(|&&y| y == x).count();
        j += b[j..].iter().take_while(|&&y| y == x).count();
        worst = worst.max((i as f64 / a.len() as f64 - j as f64 / b.len() as f64).abs());
    }
    worst
}

fn assert_same_law(service: Service, law: impl Distribution<f64>) {
    let d = distance(ours(&service), theirs(law, |_| true));
    assert!(d < KS_LIMIT, "{service:?}: distance {d}");
}

#[test]
fn the_distance_tells_a_mean_off_by_two_percent() {
    let law = rand_distr::Exp::new(1.0 / 1.02e6).unwrap();
    let d = distance(ours(&Service::Exponential { mean_ns: 1e6 }), theirs(law, |_| true));
    assert!(d > KS_LIMIT, "distance {d}");
}

#[test]
fn exponential_agrees_with_rand_distr() {
    let law = rand_distr::Exp::new(1e-6).unwrap();
    assert_same_law(Service::Exponential { mean_ns: 1e6 }, law);
}

#[test]
fn log_normal_agrees_with_rand_distr() {
    for sigma in [0.3, 1.5, 3.0] {
        let mu = 1e6f64.ln() - sigma * sigma / 2.0;
        let law = rand_distr::LogNormal::new(mu, sigma).unwrap();
        assert_same_law(Service::LogNormal { mean_ns: 1e6, sigma }, law);
    }
}

#[test]
fn pareto_agrees_with_rand_distr() {
    for shape in [1.2, 1.5, 2.0, 3.5] {
        let law = rand_distr::Pareto::new(1e6 * (shape - 1.0) / shape, shape).unwrap();
        assert_same_law(Service::Pareto { mean_ns: 1e6, shape, max_ns: None }, law);
    }
}

#[test]
fn truncated_pareto_is_pareto_given_that_it_is_below_the_truncation() {
    let law = rand_distr::Pareto::new(1e6 / 3.0, 1.5).unwrap();
    let service = Service::Pareto { mean_ns: 1e6, shape: 1.5, max_ns: Some(2_000_000) };
    let d = distance(ours(&service), theirs(law, |ns| ns <= 2e6));
    assert!(d < KS_LIMIT, "distance {d}");
    assert!(ours(&service).iter().all(|&ns| (333_333.0..=2e6).contains(&ns)));
}

#[test]
fn weibull_agrees_with_rand_distr() {
    // Gamma(1 + 1 / shape), from scipy.special.gamma.
    for (shape, gamma) in [(0.5, 2.0), (1.0, 1.0), (1.7, 0.892_244_273_315_656)] {
        let law = rand_distr::Weibull::new(1e6 / gamma, shape).unwrap();
        assert_same_law(Service::Weibull { mean_ns: 1e6, shape }, law);
    }
}

#[test]
fn gamma_agrees_with_rand_distr() {
    // Less shape has times below a nanosecond too often, which are 1 here and 0 there.
    for shape in [0.5, 1.0, 4.0, 250.0] {
        let law = rand_distr::Gamma::new(shape, 1e6 / shape).unwrap();
        assert_same_law(Service::Gamma { mean_ns: 1e6, shape }, law);
    }
}

#[test]
fn hyperexponential_agrees_with_a_mixture_of_rand_distr() {
    // squared_cv 9: shares (1 +- sqrt(8 / 10)) / 2, each with half of the mean over its share.
    let share = (1.0 + 0.8f64.sqrt()) / 2.0;
    let exponential = |share: f64| rand_distr::Exp::new(2.0 * share / 1e6).unwrap();
    let (short, long) = (exponential(share), exponential(1.0 - share));
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(11);
    let which = rand_distr::Bernoulli::new(share).unwrap();
    let draw = |_| {
        let of = if which.sample(&mut rng) { short } else { long };
        of.sample(&mut rng).round()
    };
    let theirs: Vec<f64> = (0..SAMPLES).map(draw).collect();
    let d = distance(ours(&Service::Hyperexponential { mean_ns: 1e6, squared_cv: 9.0 }), theirs);
    assert!(d < KS_LIMIT, "distance {d}");
}

#[test]
fn uniform_agrees_with_rand_distr() {
    let law = rand_distr::Uniform::new(1e3 - 0.5, 1e6 + 0.5).unwrap();
    assert_same_law(Service::Uniform { low_ns: 1_000, high_ns: 1_000_000 }, law);
}

#[test]
fn uniform_reaches_both_ends_equally_often() {
    let draws = ours(&Service::Uniform { low_ns: 3, high_ns: 5 });
    for ns in [3.0, 4.0, 5.0] {
        let count = draws.iter().filter(|&&x| x == ns).count() as f64;
        // 4.5 standard deviations of a binomial count.
        assert!((count - SAMPLES as f64 / 3.0).abs() < 4.5 * 210.9, "{ns}: {count}");
    }
    assert!(draws.iter().all(|ns| (3.0..=5.0).contains(ns)));
}

#[test]
fn bimodal_is_long_as_often_as_asked() {
    let draws = ours(&Service::Bimodal { short_ns: 500, long_ns: 500_000, long_ratio: 0.005 });
    let long = draws.iter().filter(|&&ns| ns == 500_000.0).count();
    let short = draws.iter().filter(|&&ns| ns == 500.0).count();
    assert_eq!(long + short, SAMPLES);
    assert!((long as f64 - 1000.0).abs() < 4.5 * 31.5, "{long}");
    for (long_ratio, only) in [(0.0, 500.0), (1.0, 500_000.0)] {
        let law = Service::Bimodal { short_ns: 500, long_ns: 500_000, long_ratio };
        assert!(ours(&law).iter().all(|&ns| ns == only));
    }
}

#[test]
fn empirical_draws_each_measured_time_equally_often() {
    let draws = ours(&Service::Empirical([70, 10, 10, 90].into()));
    for (ns, share) in [(10.0, 0.5), (70.0, 0.25), (90.0, 0.25)] {
        let count = draws.iter().filter(|&&x| x == ns).count() as f64;
        let sigma = (SAMPLES as f64 * share * (1.0 - share)).sqrt();
        assert!((count - SAMPLES as f64 * share).abs() < 4.5 * sigma, "{ns}: {count}");
    }
}

/// Law, mean, second moment. From scipy 1.x (`lognorm`, `weibull_min`, `pareto`, `randint`); the
/// truncated Pareto laws from their integrals in mpmath with 40 digits.
fn golden_moments() -> Vec<(Service, f64, f64)> {
    let pareto = |shape, max_ns| Service::Pareto { mean_ns: 1e4, shape, max_ns };
    vec![
        (Service::Constant { ns: 500 }, 500.0, 250_000.0),
        (Service::Exponential { mean_ns: 1e4 }, 1e4, 2e8),
        (Service::LogNormal { mean_ns: 1e4, sigma: 1.5 }, 1e4, 948_773_583.635_854_5),
        (Service::LogNormal { mean_ns: 1e4, sigma: 0.0 }, 1e4, 1e8),
        (
            Service::Bimodal { short_ns: 500, long_ns: 500_000, long_ratio: 0.005 },
            2997.5,
            1_250_248_750.0,
        ),
        (pareto(3.5, None), 1e4, 119_047_619.047_619_04),
        (pareto(2.0, None), 1e4, f64::INFINITY),
        (pareto(1.5, None), 1e4, f64::INFINITY),
        (pareto(1.5, Some(1_000_000)), 9_424.463_469_650_764, 544_121_652.117_066_3),
        (pareto(2.0, Some(1_000_000)), 9_950.248_756_218_905, 264_922_491.389_686_58),
        (pareto(3.5, Some(50_000)), 9_933.810_829_342_39, 112_743_888.508_799_07),
        // 1 + 2^-13, so that shape - 1 is exact.
        (pareto(1.000_122_070_312_5, Some(1_000_000_000)), 25.022305099477066, 1217797301.2904384),
        (Service::Uniform { low_ns: 10, high_ns: 20_000 }, 10_005.0, 133_403_365.0),
        (Service::Weibull { mean_ns: 1e4, shape: 0.5 }, 1e4, 6e8),
        (Service::Weibull { mean_ns: 1e4, shape: 1.7 }, 1e4, 136_660_562.086_817_53),
        // Mean squared times 1 + 1 / shape, and times 1 + squared_cv.
        (Service::Gamma { mean_ns: 1e4, shape: 0.25 }, 1e4, 5e8),
        (Service::Gamma { mean_ns: 1e4, shape: 4.0 }, 1e4, 1.25e8),
        (Service::Hyperexponential { mean_ns: 1e4, squared_cv: 1.0 }, 1e4, 2e8),
        (Service::Hyperexponential { mean_ns: 1e4, squared_cv: 9.0 }, 1e4, 1e9),
        (Service::Empirical([10, 10, 70, 90].into()), 45.0, 3300.0),
    ]
}

fn assert_close(got: f64, want: f64, tolerance: f64, what: &Service) {
    let close = got == want || (got - want).abs() <= tolerance * want.abs();
    assert!(close, "{what:?}: {got}, not {want}");
}

#[test]
fn moments_agree_with_golden_values() {
    for (service, mean_ns, second_moment_ns2) in golden_moments() {
        assert_close(service.mean_ns(), mean_ns, 1e-13, &service);
        assert_close(service.second_moment_ns2(), second_moment_ns2, 1e-13, &service);
    }
}

#[test]
fn sample_means_agree_with_the_stated_means() {
    for (service, mean_ns, second_moment_ns2) in golden_moments() {
        // Where the second moment is infinite the sample mean has no standard error to test with.
        if second_moment_ns2.is_finite() && mean_ns > 100.0 {
            let variance = (second_moment_ns2 - mean_ns * mean_ns).max(0.0);
            let error = (variance / SAMPLES as f64).sqrt();
            let mean = ours(&service).iter().sum::<f64>() / SAMPLES as f64;
            assert!((mean - mean_ns).abs() < 4.0 * error + 0.01, "{service:?}: {mean}");
        }
    }
}

#[test]
fn sample_variances_of_gamma_and_hyperexponential_are_the_closed_forms() {
    // Of 200 000 draws the sample variance has a relative standard error of
    // sqrt((kurtosis - 1) / 200 000), of which four are allowed. The kurtosis of gamma is
    // 3 + 6 / shape; that of two exponentials comes from their first four moments.
    for (service, variance, kurtosis) in [
        (Service::Gamma { mean_ns: 1e6, shape: 0.5 }, 2e12, 15.0),
        (Service::Gamma { mean_ns: 1e6, shape: 3.0 }, 1e12 / 3.0, 5.0),
        (Service::Hyperexponential { mean_ns: 1e6, squared_cv: 9.0 }, 9e12, 113.30),
    ] {
        let draws = ours(&service);
        let n = draws.len() as f64;
        let mean = draws.iter().sum::<f64>() / n;
        let found = draws.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (n - 1.0);
        let error = ((kurtosis - 1.0) / n).sqrt();
        assert!((found / variance - 1.0).abs() < 4.0 * error, "{service:?}: {found}");
    }
}

#[test]
fn every_law_takes_exactly_one_number_a_draw() {
    for (service, ..) in golden_moments() {
        let mut used = Stream::keyed(3, 0, Purpose::Test);
        let mut counted = used.clone();
        service.draw(&mut used);
        counted.bits();
        assert_eq!(used, counted, "{service:?}");
    }
}

#[test]
fn no_law_yields_zero_or_panics_at_the_extremes_of_the_random_number() {
    for (service, ..) in golden_moments() {
        for bits in [0, 1, 1 << 11, 1 << 12, 1 << 63, u64::MAX - (1 << 11), u64::MAX] {
            assert!(service.sampler().at(bits) >= Span::from_ns(1), "{service:?} at {bits}");
        }
    }
}

#[test]
fn errors_name_the_field_the_value_and_the_rule() {
    let nan = f64::NAN;
    let pareto = |shape, max_ns| Service::Pareto { mean_ns: 300.0, shape, max_ns };
    for (service, message) in [
        (Service::Constant { ns: 0 }, "ns is 0, must be at least 1"),
        (Service::Exponential { mean_ns: 0.0 }, "mean_ns is 0, must be from 1 to 1e15"),
        (Service::Exponential { mean_ns: nan }, "mean_ns is NaN, must be from 1 to 1e15"),
        (Service::Exponential { mean_ns: f64::INFINITY }, "mean_ns is inf, must be from 1 to 1e15"),
        (Service::LogNormal { mean_ns: -4.0, sigma: 1.0 }, "mean_ns is -4, must be from 1 to 1e15"),
        (Service::LogNormal { mean_ns: 4.0, sigma: -0.5 }, "sigma is -0.5, must be from 0 to 8"),
        (
            Service::Bimodal { short_ns: 9, long_ns: 8, long_ratio: 0.5 },
            "long_ns is 8, below short_ns 9",
        ),
        (
            Service::Bimodal { short_ns: 1, long_ns: 8, long_ratio: 1.5 },
            "long_ratio is 1.5, must be from 0 to 1",
        ),
        (pareto(1.0, None), "shape is 1, must be finite and above 1"),
        (pareto(1.5, Some(100)), "max_ns is 100, not above the least service time 100"),
        (Service::Uniform { low_ns: 0, high_ns: 8 }, "low_ns is 0, must be at least 1"),
        (Service::Uniform { low_ns: 9, high_ns: 8 }, "high_ns is 8, below low_ns 9"),
        (
            Service::Weibull { mean_ns: 5.0, shape: 0.01 },
            "shape is 0.01, must be finite and at least 0.1",
        ),
        (Service::Gamma { mean_ns: 5.0, shape: 0.01 }, "shape is 0.01, must be from 0.1 to 1000"),
        (
            Service::Hyperexponential { mean_ns: 5.0, squared_cv: 0.5 },
            "squared_cv is 0.5, must be from 1 to 10000",
        ),
        (Service::Empirical([].into()), "there are 0 measured service times"),
        (Service::Empirical([4, 0].into()), "measured service time 1 is 0, must be at least 1"),
    ] {
        let error: ServiceError = service.check().expect_err(message);
        assert_eq!(error.to_string(), message);
    }
}
