//! Two indices in one cluster under faults: each keeps its own writes, its own p, and the catalogue
//! says which there are.

use cavy_core::family::Node;
use cavy_core::family::message::{Call, Effect};
use cavy_core::laws::message::{Offer, Scene, Town, hold};
use cavy_core::{Instant, Ratio, Span, Stream};
use cavy_search::cluster::catalogue::{Change, Refusal};
use cavy_search::cluster::many::{Many, Request, Response, Words};
use cavy_search::cluster::{Balance, Config, Doc, Ids, Layout, message};
use cavy_search::{Cost, Id, Ring, Slice};
use std::collections::BTreeMap;

const LAYOUT: Layout = Layout { front_ends: 2, servers: 5 };

struct Asked {
    request: Request<Ids>,
    acknowledged: BTreeMap<Id, Doc>,
}

/// Clients of two indices. Nothing is deleted but at the end of an index.
struct Clients {
    config: Config,
    calls: u64,
    asked: BTreeMap<Call, Asked>,
    /// By index.
    acknowledged: [BTreeMap<Id, Doc>; 2],
    created: usize,
    wished: usize,
    found: u64,
    spread: u64,
}

impl Clients {
    fn new(rings: u32) -> Clients {
        let ring = |ring| Ring::equal(&(ring..5).step_by(rings as usize).collect::<Vec<u32>>());
        let cost = Cost { fixed_ns: 1_000_000, scan_ns: 8_000_000 };
        let mut config = Config::new(LAYOUT, (0..rings).map(ring).collect(), 2, vec![cost; 5]);
        (config.chunk, config.piece) = (1 << 59, 1 << 57);
        config.copy_percent = 100;
        // The scene carries a few messages between two beats; leases have to outlast that.
        config.beat = Span::from_ms(400);
        config.server_lease = Span::from_ms(4_000);
        config.front_end_lease = Span::from_ms(8_000);
        // Servers are as fast as each other, and seem to differ by what little they have seen.
        config.balance = Some(Balance { every: Span::from_ms(800), percent: 1 });
        Clients {
            config,
            calls: 0,
            asked: BTreeMap::new(),
            acknowledged: [BTreeMap::new(), BTreeMap::new()],
            created: 0,
            wished: 0,
            found: 0,
            spread: 0,
        }
    }
}

impl Scene for Clients {
    type Machine = Many<Ids>;

    fn machine(&self, node: Node) -> Many<Ids> {
        Many::new(self.config.clone(), node)
    }

    fn ask(&mut self, rng: &mut Stream) -> Option<(Node, Request<Ids>)> {
        let front_end = LAYOUT.front_end(rng.below(2) as u32);
        let index = rng.below(2) as u32;
        let request = match rng.below(40) {
            // A front end that crashes forgets what it was asked for: it is asked again.
            0..4 if self.created < 2 => {
                self.wished += 1;
                let name = format!("index-{}", self.created + 1);
                Request::Change(Change::Create { name, p: 2, about: [].as_slice().into() })
            }
            4 => Request::Spread(1 + index, 1 + rng.below(u64::from(self.config.p_most())) as u32),
            5..18 => {
                let id = rng.below(6).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                Request::Of(1 + index, message::Request::Write { id, deleted: false, body: () })
            }
            18 => Request::Of(1 + index, message::Request::Everywhere(())),
            19..22 => {
                let slice = Slice::new(rng.bits(), rng.bits());
                Request::Of(1 + index, message::Request::Look { slice, question: () })
            }
            22 => Request::Read,
            23 => Request::Of(1 + index, message::Request::Ranges(())),
            _ => {
                let within = Span::from_us(rng.below(400_000));
                let within = Some(within).filter(|_| rng.below(2) == 0);
                Request::Of(1 + index, message::Request::Search { question: (), within })
            }
        };
        let known = &self.acknowledged[index as usize];
        let asked = Asked { request: request.clone(), acknowledged: known.clone() };
        self.asked.insert(Call(self.calls), asked);
        self.calls += 1;
        Some((front_end, request))
    }

    fn said(&mut self, now: Instant, _: Node, effect: &Effect<Words<Ids>>) {
        let Effect::Reply { call, response } = effect else { return };
        let asked = self.asked.remove(call).expect("a call is answered once");
        match (response, &asked.request) {
            (Response::Gone, _) => assert!(self.created < 2, "{now}: both are there"),
            (Response::Told(done), Request::Change(Change::Create { name, .. })) => {
                // Asked for twice by clients, the second is told that it exists.
                let number: usize = name[6..].parse().expect("a number");
                assert!(matches!(done, Ok(()) | Err(Refusal::Exists)), "{now}: {done:?}");
                self.created = self.created.max(number);
            }
            (Response::Told(_), _) => self.spread += 1,
            (Response::Catalogue(catalogue, _), _) => {
                assert!(catalogue.indices.len() >= self.created, "{now}: acknowledged, not there");
            }
            (Response::Of(message::Response::Written { doc }), Request::Of(index, _)) => {
                let known = &mut self.acknowledged[*index as usize - 1];
                let newest = known.entry(doc.id).or_insert(*doc);
                if newest.version < doc.version {
                    *newest = *doc;
                }
            }
            (
                Response::Of(message::Response::Found { found, lost, .. }),
                Request::Of(_, request),
            ) => {
                self.found += 1;
                let asked_for = |id: Id| match request {
                    message::Request::Look { slice, .. } => slice.contains(id),
                    _ => true,
                };
                // On every ring it is in some server's own range.
                let most = match request {
                    message::Request::Everywhere(()) => self.config.ranges.len(),
                    _ => 1,
                };
                for doc in found {
                    assert!(asked_for(doc.id), "{now}: {doc:?} is outside of the slice");
                    let times = found.iter().filter(|other| other.id == doc.id).count();
                    assert!(times <= most, "{now}: {:#x} is met {times} times", doc.id);
                }
                for (id, known) in asked.acknowledged.iter().filter(|(id, _)| asked_for(**id)) {
                    let met = found.iter().filter(|doc| doc.id == *id);
                    let met = met.min_by_key(|doc| doc.version);
                    let gone = lost.iter().any(|slice| slice.contains(*id));
                    assert!(
                        gone || met.is_some_and(|doc| doc.version >= known.version),
                        "{now}: {known:?} was acknowledged; found is {met:?}"
                    );
                }
            }
            (response, request) => panic!("{now}: {request:?} was answered {response:?}"),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "which seeds to run is the caller's to say")]
fn seeds(few: u64) -> std::ops::Range<u64> {
    cavy_core::laws::seeds(|name| std::env::var(name).ok(), 0..few)
}

#[test]
fn laws_hold_where_nothing_fails() {
    for rings in [1, 2] {
        let offer = Offer::calm(LAYOUT.nodes(), 12_000);
        let answered = hold(|| Clients::new(rings), offer, seeds(2));
        assert!(answered > 100, "only {answered} calls were answered");
    }
}

#[test]
fn every_index_keeps_what_was_acknowledged_whatever_fails() {
    let offer = Offer { clock_step: Ratio::ZERO, ..Offer::rough(LAYOUT.nodes(), 12_000) };
    let (mut found, mut spread, mut crashes, mut created) = (0, 0, 0, 0);
    for seed in seeds(12) {
        // On one ring and on two.
        let mut town = Town::new(Clients::new(1 + seed as u32 % 2), offer, seed);
        town.run();
        found += town.scene.found;
        spread += town.scene.spread;
        crashes += town.crashes;
        created += town.scene.created;
    }
    println!("{found} answers, {spread} changes of p, {created} indices, {crashes} crashes");
    assert!(found > 0 && spread > 0 && crashes > 0 && created > 0);
}
