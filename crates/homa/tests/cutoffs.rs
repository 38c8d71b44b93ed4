//! Cut-offs against the published vectors ([homa 2.6]).

use cavy_homa::config::ClassedBy;
use cavy_homa::cutoffs::{Cutoffs, Packing, Shared, Shares, static_cutoffs};

/// One workload of the source's benchmark: (bytes, probability).
fn workload(name: &str) -> Vec<(u32, f64)> {
    let mut before = 0.0;
    let rows =
        include_str!("data/homa-workloads.csv").lines().filter(|line| line.starts_with(name));
    rows.map(|row| {
        let mut fields = row.split(',').skip(1);
        let bytes = fields.next().and_then(|f| f.parse().ok()).expect("bytes");
        let cumulative: f64 = fields.next().and_then(|f| f.parse().ok()).expect("cumulative");
        let probability = cumulative - before;
        before = cumulative;
        (bytes, probability)
    })
    .collect()
}

/// W1 as the simulator has it: 15 steps, then a generalised Pareto tail in a thousand steps of
/// equal probability up to .999, the last of which its sums lose to rounding; what is beyond falls
/// on the last that is left.
fn etc_model() -> Vec<(u32, f64)> {
    const HEAD: [f64; 15] = [
        0.00583, 0.18403, 0.27642, 0.27660, 0.30400, 0.30465, 0.31071, 0.31094, 0.31931, 0.32768,
        0.41757, 0.41849, 0.42175, 0.44155, 0.47,
    ];
    const K: f64 = 0.348238;
    const SIGMA: f64 = 214.476;
    let mut cumulative: Vec<(u32, f64)> = (1..).zip(HEAD).collect();
    for step in 1..=999 {
        let u = 0.47 + f64::from(step) * (0.999 - 0.47) / 1000.0;
        let size = 15.0 + ((0.53 / (1.0 - u)).powf(K) - 1.0) * SIGMA / K;
        cumulative.push((size.round() as u32, if step == 999 { 1.0 } else { u }));
    }
    let mut before = 0.0;
    let step = |(size, u)| {
        let probability = u - before;
        before = u;
        (size, probability)
    };
    cumulative.into_iter().map(step).collect()
}

fn bounds(sizes: &[(u32, f64)], unscheduled: u8, by: ClassedBy) -> Vec<u32> {
    shared(sizes, unscheduled, by, Shares::EVEN).expect("legal").bounds().to_vec()
}

fn shared(sizes: &[(u32, f64)], levels: u8, by: ClassedBy, shares: Shares) -> Option<Cutoffs> {
    static_cutoffs(sizes, 8, levels, by, &Packing::SIMULATOR, shares)
}

#[test]
fn clause_2_6_uniform_vectors() {
    let uniform = |sizes: &[(u32, f64)], levels| bounds(sizes, levels, ClassedBy::Length);
    assert_eq!(uniform(&etc_model(), 7), [11, 126, 279, 484, 820, 1543]);
    assert_eq!(
        uniform(&workload("W1"), 7),
        [11, 129, 293, 511, 865, 1645],
        "from the thinned table"
    );
    assert_eq!(uniform(&workload("W2"), 5), [269, 366, 512, 2156]);
    assert_eq!(uniform(&workload("W3"), 4), [469, 5521, 15267]);
    assert!(uniform(&workload("W4"), 1).is_empty());
    assert!(uniform(&workload("W5"), 1).is_empty());
}

#[test]
fn clause_2_6_graduated_vectors() {
    let graduated = |sizes: &[(u32, f64)], levels| bounds(sizes, levels, ClassedBy::Remaining);
    assert_eq!(graduated(&etc_model(), 7), [11, 125, 273, 468, 764, 1275]);
    assert_eq!(graduated(&workload("W2"), 5), [269, 366, 512, 1463]);
    // Published for the unthinned table: 433, 2339, 6756. The thinned one moves quantiles by up to
    // 7.7 % [homa 4.1].
    let w3 = graduated(&workload("W3"), 4);
    for (ours, published) in w3.iter().zip([433.0, 2339.0, 6756.0]) {
        assert!((f64::from(*ours) / published - 1.0).abs() < 0.077, "{w3:?}");
    }
}

/// [homa 2.5], [homa 2.6]: which level a size gets; the Linux module's defaults.
#[test]
fn clause_2_6_levels_of_sizes() {
    let linux = Cutoffs::new(8, &[200, 2_800, 15_000]).expect("ascending");
    let sizes = [1, 200, 201, 2_800, 2_801, 15_000, 15_001, 1_000_000];
    assert_eq!(sizes.map(|size| linux.level(size)), [7, 7, 6, 6, 5, 5, 4, 4]);
    let unknown = Cutoffs::new(8, &[0]).expect("one bound");
    assert_eq!([1, 1_000_000].map(|size| unknown.level(size)), [6, 6]);
    assert_eq!(Cutoffs::none(8).level(1), 7);
    assert_eq!(Cutoffs::none(1).level(1), 0);
    assert_eq!(linux.unscheduled_levels(), 4);
}

/// [homa 2.6]: with 4 levels the artifact keeps the first bounds, with 2 and 1 none.
#[test]
fn clause_2_6_fewer_levels() {
    let w1 = Cutoffs::new(8, &[11, 126, 279, 484, 820, 1543]).expect("ascending");
    assert_eq!(w1.fewer(4, 3).map(|c| c.bounds().to_vec()), Some(vec![11, 126]));
    assert_eq!(w1.fewer(2, 1).map(|c| c.bounds().to_vec()), Some(vec![]));
    assert_eq!(w1.fewer(1, 1).map(|c| c.level(5)), Some(0));
    assert!(w1.fewer(4, 5).is_none());
}

#[test]
fn cutoffs_that_are_none_are_refused() {
    assert!(Cutoffs::new(8, &[5, 4]).is_none(), "descending");
    assert!(Cutoffs::new(0, &[]).is_none(), "no levels");
    assert!(Cutoffs::new(9, &[]).is_none(), "too many levels");
    assert!(Cutoffs::new(3, &[1, 2, 3]).is_none(), "more bounds than levels");
    assert!(shared(&[], 2, ClassedBy::Length, Shares::EVEN).is_none(), "no sizes");
    for ratio in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let shares = Shares { ratio, ..Shares::EVEN };
        assert!(shared(&[(1, 1.0)], 2, ClassedBy::Length, shares).is_none(), "{ratio}");
    }
}

/// [homa 5.6]: weights and counts. Four sizes of one packet each, 100 and 200 bytes on the link
/// beside 1000 and 1500.
#[test]
fn clause_5_6_levels_divide_unevenly() {
    let sizes = [(4, 0.25), (104, 0.25), (904, 0.25), (1404, 0.25)];
    let bounds = |of, ratio, levels| {
        let cutoffs = shared(&sizes, levels, ClassedBy::Length, Shares { of, ratio });
        cutoffs.expect("legal").bounds().to_vec()
    };
    assert_eq!(bounds(Shared::Packets, 1.0, 2), [104]);
    assert_eq!(bounds(Shared::Packets, 3.0, 2), [4], "a quarter above");
    assert_eq!(bounds(Shared::Packets, 1.0 / 3.0, 2), [904], "three quarters above");
    assert_eq!(bounds(Shared::Packets, 1.0, 4), [4, 104, 904]);
    assert_eq!(bounds(Shared::Packets, 2.0, 3), [4, 104], "1, 2 and 4 sevenths");
    assert_eq!(bounds(Shared::Bytes, 1.0, 2), [1404], "1300 of 2800 are not yet half");
    assert_eq!(bounds(Shared::Bytes, 2.0, 2), [904], "a third is 933");
    assert_eq!(bounds(Shared::Bytes, 9.0, 2), [104], "a tenth is 280");
}

#[test]
fn cutoffs_travel_unchanged() {
    use cavy_homa::packet::Published;
    for list in [&[][..], &[469, 5521, 15267], &[11, 126, 279, 484, 820, 1543]] {
        let cutoffs = Cutoffs::new(8, list).expect("ascending");
        assert_eq!(Published::new(&cutoffs, 3).cutoffs(8), Some(cutoffs));
    }
}
