//! Runs the smallest protocol in the wide-area world of the lab, and prints how long transactions
//! of each region take.

mod protocol;

use cavy_core::family::Node;
use cavy_core::{Instant, Span};
use cavy_lab::pending::Heap4;
use cavy_lab::statistics::quantile;
use cavy_lab::wan::{Ask, Clients, Ending, Parts, Setup, Site, Unmetered, Unobserved, run};
use cavy_txn::registers::{Registers, add};
use cavy_txn::{Key, Request, Response, Shard, Txn, TxnId};
use protocol::{Primary, Words};
use std::sync::Arc;

/// A client in each region: it moves a coin from its own row to that of the next region.
#[derive(Default)]
struct Movers {
    asked: [u64; 3],
    took: [Vec<u64>; 3],
}

impl Clients<Words> for Movers {
    fn count(&self) -> u32 {
        3
    }
    fn next(&mut self, client: u32, now: Instant) -> Option<(Instant, Request)> {
        self.asked[client as usize] += 1;
        let id = TxnId { client: client + 1, number: self.asked[client as usize] };
        let (from, to) = (u64::from(client), u64::from((client + 1) % 3));
        let pieces = vec![
            add(Shard(from as u32), Key::new(0, from), -1),
            add(Shard(to as u32), Key::new(0, to), 1),
        ];
        Some((now, Request(Arc::new(Txn::new(id, 0, pieces)))))
    }
    fn target(&mut self, client: u32, _: &Request, _: u32) -> Node {
        Node(client)
    }
    fn site(&self, client: u32) -> Option<Site> {
        Some(Site(client as u16))
    }
    fn patience(&self, _: u32, _: u32) -> Option<Span> {
        Some(Span::from_ms(1_000))
    }
    fn ended(&mut self, ask: &Ask<Words>, now: Instant, ending: Ending<Response>) {
        if matches!(ending, Ending::Answered(_)) {
            self.took[ask.client as usize].push(now.since(ask.since).as_ns());
        }
    }
}

fn main() {
    // Three regions of one node, 2.5 ms within each and 50 ms between any two.
    let setup = Setup {
        duration: Span::from_ms(10_000),
        ..Setup::regions(3, 1, Span::from_us(2_500), Span::from_ms(50))
    };
    let mut movers = Movers::default();
    let parts = Parts {
        clients: &mut movers,
        hardware: &mut Unmetered,
        pending: &mut Heap4::new(),
        observer: &mut Unobserved,
    };
    let (report, _) = run(&setup, |node| Primary::new(node, Registers::default()), parts);
    println!("region | transactions | median ms");
    for (region, took) in movers.took.iter_mut().enumerate() {
        took.sort_unstable();
        let median = quantile::of_sorted(took, 0.5).map_or(0.0, |ns| ns as f64 / 1e6);
        println!("{region:>6} | {:>12} | {median:>9.1}", took.len());
    }
    println!("{} messages; digest {:016x}", report.counts.messages, report.trail.digest());
}
