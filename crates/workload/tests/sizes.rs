//! Message sizes: the published ones, what makes a distribution, strata, loads.

use cavy_core::{Purpose, Stream};
use cavy_workload::sizes::{
    Framing, Published, Sizes, SizesError, Strata, payload_ratio, rate_per_s,
};
use proptest::prelude::*;

#[test]
fn homa_4_1_published_sizes_have_their_means_ends_and_quantiles() {
    let expected = [
        (Published::W1, 187.5, 1, 100_000, 27, 503, 1876),
        (Published::W2, 440.8, 2, 3_529_904, 269, 512, 3151),
        (Published::W3, 2927.4, 3, 15_158_197, 268, 1755, 31_013),
        (Published::W4, 127_796.6, 53, 10_000_000, 662, 120_373, 3_430_822),
        (Published::W5, 2_564_715.0, 1470, 29_400_000, 72_030, 4_900_000, 27_400_000),
    ];
    for (published, mean, min, max, median, p90, p99) in expected {
        let sizes = published.sizes();
        let name = published.name();
        assert_eq!(sizes.rows().len(), 118, "{name}");
        assert!((sizes.mean_bytes() / mean - 1.0).abs() < 3e-4, "{name}: {}", sizes.mean_bytes());
        assert_eq!((sizes.rows()[0].0, sizes.max_bytes()), (min, max), "{name}");
        // Thinning moves quantiles by at most 7.7 %; the table rounds those of W5.
        for (share, published) in [(0.5, median), (0.9, p90), (0.99, p99)] {
            let ratio = f64::from(sizes.quantile(share)) / f64::from(published);
            assert!((ratio - 1.0).abs() < 0.08, "{name} at {share}: {ratio}");
        }
    }
}

#[test]
fn homa_4_2_payload_is_this_share_of_the_wire() {
    let expected = [0.657, 0.796, 0.887, 0.898, 0.898];
    for (published, expected) in Published::ALL.into_iter().zip(expected) {
        let ratio = payload_ratio(&published.sizes(), &Framing::default());
        assert!((ratio - expected).abs() < 0.002, "{}: {ratio}", published.name());
    }
    // Messages per second and host at 80 % of 10 Gb/s.
    let rates = [3.55e6, 1.81e6, 303e3, 7.03e3, 350.0];
    for (published, expected) in Published::ALL.into_iter().zip(rates) {
        let rate = rate_per_s(&published.sizes(), &Framing::default(), 0.8, 10e9);
        assert!((rate / expected - 1.0).abs() < 0.02, "{}: {rate}", published.name());
    }
}

#[test]
fn homa_4_1_clamped_sizes_have_the_means_of_the_linux_benchmarks() {
    let expected = [189.2, 433.3, 2423.0, 60_175.0, 385_316.0];
    for (published, expected) in Published::ALL.into_iter().zip(expected) {
        let sizes = published.sizes().clamped(8, 1_000_000).unwrap();
        let ratio = sizes.mean_bytes() / expected;
        assert!((ratio - 1.0).abs() < 1e-3, "{}: {ratio}", published.name());
        assert!(sizes.rows()[0].0 >= 8 && sizes.max_bytes() <= 1_000_000);
    }
}

/// The longest W5 message has 28.84 MB in the source's simulations and 29.4 MB on its cluster.
#[test]
fn homa_4_1_w5_is_counted_in_packets() {
    let cluster = Published::W5.sizes();
    let simulated = cluster.scaled(1470, 1442);
    assert_eq!((simulated.rows()[0].0, simulated.max_bytes()), (1442, 28_840_000));
    assert_eq!(simulated.rows().len(), cluster.rows().len());
    let ratio = simulated.mean_bytes() / cluster.mean_bytes();
    assert!((ratio * 1470.0 / 1442.0 - 1.0).abs() < 1e-6, "{ratio}");
    // Sizes that meet share a row; none is empty or too long.
    let few = Sizes::new(&[(1, 0.25), (2, 0.5), (u32::MAX / 2, 1.0)]).unwrap();
    assert_eq!(few.scaled(100, 1).rows(), [(1, 0.5), (u32::MAX / 200, 1.0)]);
    assert_eq!(few.scaled(1, 100).rows(), [(100, 0.25), (200, 0.5), (1 << 31, 1.0)]);
}

#[test]
fn homa_4_1_the_analytic_w1_is_the_listed_one() {
    let (analytic, listed) = (Sizes::analytic_w1(1 << 20).unwrap(), Published::W1.sizes());
    for share in [0.1, 0.3, 0.5, 0.9, 0.99] {
        let ratio = f64::from(analytic.quantile(share)) / f64::from(listed.quantile(share));
        assert!((ratio - 1.0).abs() < 0.08, "{share}: {ratio}");
    }
    assert!((analytic.mean_bytes() / 185.0 - 1.0).abs() < 0.05, "{}", analytic.mean_bytes());
}

#[test]
fn what_is_no_distribution_is_refused_with_its_row() {
    let refused = |rows: &[(u32, f64)]| Sizes::new(rows).unwrap_err();
    assert_eq!(refused(&[]), SizesError::Empty);
    assert_eq!(refused(&[(0, 1.0)]), SizesError::Bytes { row: 0, bytes: 0 });
    assert_eq!(
        refused(&[(5, 0.5), (5, 1.0)]),
        SizesError::Unsorted { row: 1, bytes: 5, before: 5 }
    );
    assert_eq!(
        refused(&[(5, 0.5), (6, 0.4)]),
        SizesError::Cumulative { row: 1, cumulative: 0.4, before: 0.5 }
    );
    assert!(matches!(refused(&[(5, f64::NAN)]), SizesError::Cumulative { row: 0, .. }));
    assert_eq!(refused(&[(5, 0.5)]), SizesError::Incomplete { cumulative: 0.5 });
    let clamp = Sizes::constant(5).unwrap().clamped(9, 8);
    assert_eq!(clamp, Err(SizesError::Clamp { min_bytes: 9, max_bytes: 8 }));
    assert!(refused(&[(5, 0.5)]).to_string().contains("must be 1"));
}

#[test]
fn homa_4_4_strata_are_hit_once_each() {
    for (hosts, block) in [(1, 1), (3, 7), (16, 64), (5, 1000)] {
        let strata = Strata::new(9, hosts, block);
        let count = u64::from(hosts) * u64::from(block);
        for repeat in 0..3u64 {
            let mut hit = vec![0; count as usize];
            for host in 0..hosts {
                for number in 0..u64::from(block) {
                    let number = repeat * u64::from(block) + number;
                    let unit =
                        strata.unit(host, number, number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
                    assert!(unit > 0.0 && unit <= 1.0);
                    hit[((unit * count as f64).ceil() as usize).clamp(1, count as usize) - 1] += 1;
                }
            }
            assert!(hit.iter().all(|&times| times == 1), "{hosts} {block}: {hit:?}");
        }
    }
}

#[test]
fn homa_4_4_strata_bring_short_runs_to_their_load() {
    let sizes = Published::W3.sizes();
    let mean = |strata: Option<Strata>| {
        let mut sum = 0.0;
        for host in 0..48 {
            let mut stream = Stream::keyed(1, host, Purpose::Sizes);
            for number in 0..10_000 {
                let unit = match &strata {
                    None => stream.unit(),
                    Some(strata) => strata.unit(host, number, stream.bits()),
                };
                sum += f64::from(sizes.at(unit));
            }
        }
        sum / 480_000.0 / sizes.mean_bytes()
    };
    let stratified = mean(Some(Strata::new(1, 48, 10_000)));
    assert!((stratified - 1.0).abs() < 0.01, "{stratified}");
    assert!((mean(None) - 1.0).abs() > (stratified - 1.0).abs());
}

proptest! {
    /// The guide is only a shortcut: the first row whose probability is at least u.
    #[test]
    fn draws_take_the_first_row_that_reaches_u(
        weights in prop::collection::vec(1u32..1000, 1..40), u in 0.0f64..=1.0,
    ) {
        let total: u32 = weights.iter().sum();
        let mut sum = 0;
        let rows: Vec<(u32, f64)> = weights.iter().enumerate().map(|(i, weight)| {
            sum += weight;
            (10 * (i as u32 + 1), f64::from(sum) / f64::from(total))
        }).collect();
        let sizes = Sizes::new(&rows).unwrap();
        for u in [u, rows[0].1, 1.0, (u * 1024.0).ceil() / 1024.0] {
            let expected = rows.iter().find(|row| row.1 >= u).unwrap().0;
            prop_assert_eq!(sizes.at(u), expected);
        }
    }
}
