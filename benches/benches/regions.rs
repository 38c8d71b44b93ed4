//! What a message costs in the wide-area world, beside a loop by hand that delivers the same ones
//! (`[dast 4.4]`: 2.5 ms within a region, 50 ms across).
//!
//! The loop has a heap of what is on its way and an array of the last clock that each node heard of
//! each other; it is told who sends what to whom and when, which DAST has to find out. Aims: full
//! DAST at most 3 times the loop, and at most 250 ns a message, reports included.

use cavy_bench::{in_turns, ns_per, print_machine};
use cavy_core::family::Node;
use cavy_core::family::message::Effect;
use cavy_core::{Instant, Purpose, Span, Stream};
use cavy_lab::pending::Heap4;
use cavy_lab::wan::{Ask, Clients, Ending, Observer, Parts, Report, Setup, Site, Unmetered, run};
use cavy_txn::client::{Request, Response};
use cavy_txn::dast::{Config, Dast, Mode, Words};
use cavy_txn::registers::{self, Registers};
use cavy_txn::{Key, Layout, Shard, Txn, TxnId};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

const NEAR: Span = Span::from_us(2_500);
const FAR: Span = Span::from_ms(50);
const ROWS: u64 = 1_000;

/// Closed clients, of whose transactions one in ten crosses regions.
struct Callers {
    layout: Layout,
    draws: Stream,
    numbers: Vec<u64>,
}

impl Callers {
    fn new(layout: Layout, clients_per_shard: u32) -> Callers {
        let clients = (layout.shards() * clients_per_shard) as usize;
        Callers { layout, draws: Stream::keyed(1, 0, Purpose::Test), numbers: vec![0; clients] }
    }

    fn home(&self, client: u32) -> Shard {
        Shard(client % self.layout.shards())
    }
}

impl Clients<Words> for Callers {
    fn count(&self) -> u32 {
        self.numbers.len() as u32
    }
    fn next(&mut self, client: u32, now: Instant) -> Option<(Instant, Request)> {
        self.numbers[client as usize] += 1;
        let id = TxnId { client: client + 1, number: self.numbers[client as usize] };
        let (home, shards) = (self.home(client), u64::from(self.layout.shards()));
        let mut key = |shard: Shard| Key::new(u64::from(shard.0), self.draws.below(ROWS));
        let mut pieces = vec![registers::add(home, key(home), -1)];
        let other = Shard(self.draws.below(shards) as u32);
        if self.draws.below(10) == 0 && other != home {
            let key = Key::new(u64::from(other.0), self.draws.below(ROWS));
            pieces.push(registers::add(other, key, 1));
        }
        Some((now, Request(Arc::new(Txn::new(id, 0, pieces)))))
    }
    fn target(&mut self, client: u32, _: &Request, attempt: u32) -> Node {
        let home = self.home(client);
        self.layout.replica(home, client / self.layout.shards() + attempt)
    }
    fn site(&self, client: u32) -> Option<Site> {
        Some(Site(self.layout.region_of(self.home(client)).0))
    }
    fn patience(&self, _: u32, _: u32) -> Option<Span> {
        None
    }
    fn ended(&mut self, _: &Ask<Words>, _: Instant, _: Ending<Response>) {}
}

/// Keeps who sent a message to whom, and when.
struct Sends {
    layout: Layout,
    kept: Vec<(u64, u32, u32)>,
}

impl Observer<Dast> for Sends {
    fn watches(&self) -> bool {
        true
    }
    fn says(&mut self, now: Instant, node: Node, effect: &Effect<Words>) {
        let layout = self.layout;
        match effect {
            Effect::Send { to, .. } => self.kept.push((now.as_ns(), node.0, to.0)),
            Effect::Cast { .. } => {
                let region = layout.region_of_node(node);
                let all = layout.replicas_in(region).chain(layout.stewards_of(region));
                // Nothing fails here, so everybody is in the view.
                let others = all.filter(|other| *other != node);
                self.kept.extend(others.map(|other| (now.as_ns(), node.0, other.0)));
            }
            _ => {}
        }
    }
}

fn simulated<O: Observer<Dast>>(config: &Config, setup: &Setup, observer: &mut O) -> Report {
    let parts = Parts {
        clients: &mut Callers::new(config.layout, 10),
        hardware: &mut Unmetered,
        pending: &mut Heap4::new(),
        observer,
    };
    run(setup, |node| Dast::new(config.clone(), node, Registers::default()), parts).0
}

/// Delivers the same messages.
fn by_hand(sends: &[(u64, u32, u32)], regions: &[u16]) -> u64 {
    let nodes = regions.len();
    let mut heard = vec![0u64; nodes * nodes];
    let mut under_way: BinaryHeap<Reverse<(u64, u32, u32, u32)>> = BinaryHeap::new();
    let mut sum = 0;
    let mut deliver = |heap: &mut BinaryHeap<Reverse<(u64, u32, u32, u32)>>, until: u64| {
        while heap.peek().is_some_and(|Reverse((at, ..))| *at <= until) {
            let Some(Reverse((at, _, from, to))) = heap.pop() else { return };
            let last = &mut heard[to as usize * nodes + from as usize];
            sum += at - *last;
            *last = at;
        }
    };
    for (serial, (now, from, to)) in (0..).zip(sends) {
        deliver(&mut under_way, *now);
        let same = regions[*from as usize] == regions[*to as usize];
        let way = if same { NEAR } else { FAR };
        under_way.push(Reverse((now + way.as_ns(), serial, *from, *to)));
    }
    deliver(&mut under_way, u64::MAX);
    sum
}

fn main() {
    print_machine();
    println!("regions x shards, messages: DAST, loop by hand (ns a message), ratio; events, steps");
    for (regions, shards) in [(3, 2), (10, 2), (10, 10)] {
        let layout = Layout::new(regions, shards);
        let config = Config::new(layout, Mode::Precise);
        let mut setup = Setup::regions(regions, 1, NEAR, FAR);
        let of = |node| layout.region_of_node(Node(node)).0;
        let places: Vec<u16> = (0..layout.nodes()).map(of).collect();
        setup.nodes = places.iter().map(|place| Site(*place)).collect();
        setup.duration = Span::from_ms(1_000);
        let mut sends = Sends { layout, kept: Vec::new() };
        let report = simulated(&config, &setup, &mut sends);
        let sends = sends.kept;
        let messages = report.counts.messages;
        assert_eq!(messages, sends.len() as u64, "the loop delivers the same messages");
        let mut sum = 0;
        let measured = in_turns(&mut [
            &mut || {
                ns_per(messages, || {
                    simulated(&config, &setup, &mut cavy_lab::wan::Unobserved);
                })
            },
            &mut || ns_per(messages, || sum = by_hand(&sends, &places)),
        ]);
        println!(
            "{regions} x {shards}, {messages}: {:.0}, {:.0}, {:.2}; {} events, {} steps, \
             {} answered (sum {sum})",
            measured[0],
            measured[1],
            measured[0] / measured[1],
            report.events,
            report.steps,
            report.counts.answered,
        );
    }
}
