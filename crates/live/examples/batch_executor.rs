//! A batch executor: previews of milliseconds beside renders of a tenth of a second, on six slots
//! that mostly wait for something else. Run it with `cargo run --example batch_executor`.

use cavy_live::pool::JobError;
use cavy_live::{Kind, Policy, Pool, Shutdown};
use std::time::Duration;

/// Stands for a call to a renderer elsewhere.
fn render(ms: u64) -> u64 {
    std::thread::sleep(Duration::from_millis(ms));
    ms
}

fn batch(name: &str, policy: Policy) -> Result<(), Box<dyn std::error::Error>> {
    let pool = Pool::builder()
        .workers(6)
        .types(["preview", "render"])
        .hint("preview", Duration::from_millis(2), 0.8)
        .hint("render", Duration::from_millis(100), 0.2)
        .policy(policy)
        .build()?;
    let (preview, long) = (Kind(1), Kind(2));
    let handles: Vec<_> = (0..150)
        .map(|n| {
            std::thread::sleep(Duration::from_millis(4));
            if n % 30 < 6 {
                // All renders of a batch come at once.
                pool.submit(long, || render(100))
            } else {
                pool.submit(preview, || render(2))
            }
        })
        .collect();
    let done: Result<Vec<u64>, JobError> =
        handles.into_iter().map(|handle| handle.join()).collect();
    println!(
        "{name}: {} jobs, {} ms of work",
        done.as_ref().map_or(0, Vec::len),
        done?.iter().sum::<u64>()
    );
    pool.shutdown(Shutdown::Drain);
    for of in pool.stats().types.iter().skip(1) {
        let ms = |quantile| of.latency.value_at_quantile(quantile) as f64 / 1e6;
        println!(
            "  {:8} p50 {:6.1} ms   p95 {:6.1} ms   stolen {}",
            of.name,
            ms(0.5),
            ms(0.95),
            of.stolen
        );
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Policy::Darc { config, .. } = cavy_live::darc() else { return Ok(()) };
    batch("first come first served", Policy::CentralFcfs)?;
    batch("DARC", Policy::Darc { config, hinted: true })
}
