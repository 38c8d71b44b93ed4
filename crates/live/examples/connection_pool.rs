//! Fourteen connections to a database, shared by gets of a millisecond and reports of a tenth of a
//! second. A slot is a connection; no thread waits for one. Run it with
//! `cargo run --features tower --example connection_pool`.

use cavy_live::slots::{SlotError, Slots};
use cavy_live::tower::SlotsLayer;
use cavy_live::{Kind, Policy};
use std::time::Duration;
use tower::{Layer, Service, ServiceExt};

const GET: Kind = Kind(1);
const REPORT: Kind = Kind(2);

/// A database on the other side of a network: it takes its time, and no CPU of ours.
async fn query(kind: Kind) -> Result<(), SlotError> {
    let ms = if kind == REPORT { 100 } else { 1 };
    tokio::time::sleep(Duration::from_millis(ms)).await;
    Ok(())
}

async fn serve(name: &str, policy: Policy) -> Result<(), Box<dyn std::error::Error>> {
    let connections = Slots::builder()
        .slots(14)
        .types(["get", "report"])
        .hint("get", Duration::from_millis(1), 0.5)
        .hint("report", Duration::from_millis(100), 0.5)
        .policy(policy)
        .queue_limit(1_000)
        .build()?;
    let layer = SlotsLayer::new(connections.clone(), |kind: &Kind| *kind, Err);
    let mut service = layer.layer(tower::service_fn(query));
    let mut requests = Vec::new();
    // About 80 % of what 14 connections can serve, in bursts that are more than they can hold.
    for n in 0..400_u32 {
        if n % 40 == 0 {
            tokio::time::sleep(Duration::from_millis(180)).await;
        }
        let kind = if n % 2 == 0 { REPORT } else { GET };
        requests.push(tokio::spawn(service.ready().await?.call(kind)));
    }
    for request in requests {
        request.await??;
    }
    println!("{name}");
    let stats = connections.stats();
    for of in stats.types.iter().skip(1) {
        let ms = |quantile| of.latency.value_at_quantile(quantile) as f64 / 1e6;
        println!("  {:8} p50 {:6.1} ms   p99 {:6.1} ms", of.name, ms(0.5), ms(0.99));
    }
    if let Some(reservation) = stats.reservation {
        println!("  connections reserved: {}", reservation.table);
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Policy::Darc { config, .. } = cavy_live::darc() else { return Ok(()) };
    serve("first come first served", Policy::CentralFcfs).await?;
    serve("DARC", Policy::Darc { config, hinted: true }).await
}
