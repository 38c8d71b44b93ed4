//! Stats as Prometheus text.

use cavy_live::metrics::prometheus;
use cavy_live::{Kind, Policy, Pool, Shutdown};

#[test]
fn text_holds_every_figure_of_every_type() {
    let groups = vec![(vec![Kind(1)], 1), (vec![Kind(2)], 0)];
    let pool = Pool::builder().workers(3).types(["get", "scan"]);
    let pool = pool.policy(Policy::DarcStatic { groups }).build().expect("a legal pool");
    for _ in 0..5 {
        pool.submit(Kind(1), || ()).join().expect("runs");
    }
    drop(pool.submit(Kind(2), || panic!("on purpose")).join());
    pool.shutdown(Shutdown::Drain);
    let text = prometheus::text(pool.stats(), "cavy");
    for line in [
        "cavy_arrivals_total{type=\"get\"} 5",
        "cavy_panics_total{type=\"scan\"} 1",
        "cavy_panics_total{type=\"get\"} 0",
        "cavy_latency_seconds_count{type=\"get\"} 5",
        "cavy_latency_seconds_bucket{le=\"+Inf\",type=\"get\"} 5",
        "cavy_workers 3",
        "cavy_reserved_workers{type=\"get\"} 1",
        "cavy_reserved_workers{type=\"scan\"} 2",
        "# TYPE cavy_wait_seconds histogram",
    ] {
        assert!(text.lines().any(|have| have == line), "{line} is not in\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
    assert_eq!(text.matches("# EOF").count(), 1);
}
