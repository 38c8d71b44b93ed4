//! The cluster under faults: no acknowledged write is missing from a later answer, none that was
//! deleted comes back, no document is met twice.
//!
//! `CAVY_SEEDS=1000 cargo test -p cavy-search --test cluster` runs more seeds; `CAVY_SEED=n` runs
//! one.

use cavy_core::family::Node;
use cavy_core::family::message::{Call, Effect};
use cavy_core::laws::message::{Offer, Scene, Town, hold};
use cavy_core::{Instant, Ratio, Span, Stream};
use cavy_search::cluster::{Config, Doc, Layout, Member, Request, Response, Words, tells_all};
use cavy_search::{Cost, Id, Ring, Slice};
use std::collections::BTreeMap;

const LAYOUT: Layout = Layout { front_ends: 2, servers: 5 };
const IDS: u64 = 8;

/// What a client asked, and what it must therefore find.
struct Asked {
    request: Request,
    /// By id: the newest version that was acknowledged when the query was sent.
    acknowledged: BTreeMap<Id, Doc>,
}

/// Clients that write few ids, search, and change p.
struct Clients {
    config: Config,
    calls: u64,
    asked: BTreeMap<Call, Asked>,
    acknowledged: BTreeMap<Id, Doc>,
    found: u64,
    partial: u64,
    timed_out: u64,
}

impl Clients {
    fn new(rings: usize) -> Clients {
        // Uneven ranges, so that arcs end in the middle of some.
        let starts = [0u64, 1 << 61, 3 << 61, 5 << 61, 13 << 60];
        let ring = |ring: usize| {
            let ranges = starts.into_iter().zip(0..).skip(ring).step_by(rings);
            Ring::new(ranges.collect()).expect("a ring")
        };
        let cost = Cost { fixed_ns: 1_000_000, scan_ns: 8_000_000 };
        let ranges = (0..rings).map(ring).collect();
        let mut config = Config::new(LAYOUT, ranges, 2, vec![cost; 5]);
        (config.chunk, config.piece, config.window) = (1 << 59, 1 << 57, 1 << 61);
        config.copy_percent = 100;
        Clients {
            config,
            calls: 0,
            asked: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            found: 0,
            partial: 0,
            timed_out: 0,
        }
    }
}

fn id_of(number: u64) -> Id {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl Scene for Clients {
    type Machine = Member;

    fn machine(&self, node: Node) -> Member {
        Member::new(&self.config, node)
    }

    fn ask(&mut self, rng: &mut Stream) -> Option<(Node, Request)> {
        let front_end = LAYOUT.front_end(rng.below(2) as u32);
        let (node, request) = match rng.below(40) {
            0 => {
                let p = 1 + rng.below(u64::from(self.config.p_most())) as u32;
                (Layout::DIRECTORY, Request::Spread { p })
            }
            15 => {
                let server = LAYOUT.server(rng.below(u64::from(LAYOUT.servers)) as u32);
                (server, Request::Stay(rng.below(2) == 0))
            }
            1..15 => {
                let (id, deleted) = (id_of(rng.below(IDS)), rng.below(3) == 0);
                (front_end, Request::Write { id, deleted, body: () })
            }
            16 => (front_end, Request::Ranges(())),
            // Every other query has a deadline, by which some parts have come.
            _ => {
                let within = Span::from_us(rng.below(400_000));
                let within = Some(within).filter(|_| rng.below(2) == 0);
                (front_end, Request::Search { question: (), within })
            }
        };
        // The world counts calls from zero, in the order of asking.
        let asked = Asked { request: request.clone(), acknowledged: self.acknowledged.clone() };
        self.asked.insert(Call(self.calls), asked);
        self.calls += 1;
        Some((node, request))
    }

    fn said(&mut self, now: Instant, _: Node, effect: &Effect<Words>) {
        let Effect::Reply { call, response } = effect else { return };
        let asked = self.asked.remove(call).expect("a call is answered once");
        match response {
            Response::Written { doc } => {
                assert!(matches!(asked.request, Request::Write { .. }));
                let newest = self.acknowledged.entry(doc.id).or_insert(*doc);
                if newest.version < doc.version {
                    *newest = *doc;
                }
            }
            Response::Found { found: docs, lost, told, timed_out, .. } => {
                self.found += 1;
                self.timed_out += u64::from(*timed_out);
                assert!(tells_all(lost, told), "{now}: lost are {lost:?} beside {told:?}");
                let hurries = matches!(asked.request, Request::Search { within: Some(_), .. });
                assert!(hurries || !timed_out, "{now}: it has no deadline");
                self.partial += u64::from(!lost.is_empty());
                let gone = |id: Id| lost.iter().any(|slice: &Slice| slice.contains(id));
                for (at, doc) in docs.iter().enumerate() {
                    let twice = docs[..at].iter().any(|other| other.id == doc.id);
                    assert!(!twice, "{now}: {:#x} is met twice", doc.id);
                }
                for (id, known) in &asked.acknowledged {
                    let met = docs.iter().find(|doc| doc.id == *id);
                    match met {
                        Some(doc) => assert!(
                            doc.version >= known.version
                                && *doc != Doc { deleted: false, ..*known }
                                || *doc == *known,
                            "{now}: {doc:?} is older than {known:?}, or was deleted"
                        ),
                        None if gone(*id) || known.deleted => {}
                        // A delete that is under way may have taken it.
                        None => assert!(
                            self.deleting(*id),
                            "{now}: {known:?} was acknowledged and is not found"
                        ),
                    }
                }
            }
            Response::Spread { accepted } => assert!(accepted),
            Response::Stays => assert!(matches!(asked.request, Request::Stay(_))),
        }
    }
}

impl Clients {
    /// Some delete of the id was ever asked for and not acknowledged before; it may have come into
    /// effect.
    fn deleting(&self, id: Id) -> bool {
        let is = |request: &Request| matches!(request, Request::Write { id: other, deleted: true, .. } if *other == id);
        let under_way = self.asked.values().any(|asked| is(&asked.request));
        let since = self.acknowledged.get(&id).is_some_and(|doc| doc.deleted);
        under_way || since
    }
}

#[expect(clippy::disallowed_methods, reason = "which seeds to run is the caller's to say")]
fn seeds(few: u64) -> std::ops::Range<u64> {
    cavy_core::laws::seeds(|name| std::env::var(name).ok(), 0..few)
}

fn rough() -> Offer {
    Offer { clock_step: Ratio::ZERO, ..Offer::rough(LAYOUT.nodes(), 4_000) }
}

#[test]
fn laws_hold_where_nothing_fails() {
    let offer = Offer::calm(LAYOUT.nodes(), 3_000);
    for rings in [1, 2] {
        let answered = hold(|| Clients::new(rings), offer, seeds(4));
        assert!(answered > 100, "only {answered} calls were answered");
    }
}

/// On `rings` rings.
fn finds_what_was_written(rings: usize, few: u64) {
    let (mut found, mut partial, mut late, mut crashes) = (0, 0, 0, 0);
    for seed in seeds(few) {
        let mut town = Town::new(Clients::new(rings), rough(), seed);
        town.run();
        found += town.scene.found;
        partial += town.scene.partial;
        late += town.scene.timed_out;
        crashes += town.crashes;
    }
    println!("{found} answers, {partial} partial, {late} at a deadline, {crashes} crashes");
    assert!(found > late && late > 0 && crashes > 0);
}

#[test]
fn clause_2_8_acknowledged_writes_are_found_whatever_fails() {
    finds_what_was_written(1, 24);
}

#[test]
fn clause_2_6_4_acknowledged_writes_are_found_on_either_ring_whatever_fails() {
    finds_what_was_written(2, 24);
}
