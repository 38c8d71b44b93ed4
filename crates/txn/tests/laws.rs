//! The laws of the message family, for DAST and every rival: two runs of a seed agree, no step asks
//! for more than it may, and no machine contradicts what was answered before, crashes or not.

use cavy_core::family::Node;
use cavy_core::family::message::{Effect, Protocol, Talker};
use cavy_core::laws::message::{Offer, Scene, hold};
use cavy_core::{Instant, Purpose, Ratio, Stream};
use cavy_txn::client::{Outcome, Request, Response};
use cavy_txn::registers::{self, Registers};
use cavy_txn::{Key, Layout, Shard, Txn, TxnId, Value, dast, janus, locking, slog, tapir};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Two regions of one shard.
const LAYOUT: Layout = Layout::new(2, 1);
const ROWS: u64 = 2;

/// Clients that add one to rows. Whoever is answered hears the sum: no two hear the same of a row.
struct Adders<M, F, T> {
    make: F,
    target: T,
    left: u32,
    asked: BTreeMap<TxnId, Arc<Txn>>,
    sums: BTreeSet<(Key, i64)>,
    machine: std::marker::PhantomData<M>,
}

impl<M, F, T> Adders<M, F, T> {
    fn new(make: F, target: T, left: u32) -> Self {
        let (asked, sums) = (BTreeMap::new(), BTreeSet::new());
        Adders { make, target, left, asked, sums, machine: std::marker::PhantomData }
    }
}

impl<M, P, F, T> Scene for Adders<M, F, T>
where
    P: Protocol<Request = Request, Response = Response>,
    M: Talker<Protocol = P>,
    F: Fn(Node) -> M,
    T: Fn(Shard, u64) -> Node,
{
    type Machine = M;

    fn machine(&self, node: Node) -> M {
        (self.make)(node)
    }

    fn ask(&mut self, rng: &mut Stream) -> Option<(Node, Request)> {
        self.left = self.left.checked_sub(1)?;
        let home = Shard(rng.below(2) as u32);
        let id = TxnId { client: 1 + home.0, number: u64::from(self.left) + 1 };
        let mut shards = vec![home];
        if rng.below(3) == 0 {
            shards.push(Shard(1 - home.0));
        }
        let mut piece = |shard: Shard| {
            let key = Key::new(u64::from(shard.0), rng.below(ROWS));
            registers::add(shard, key, 1)
        };
        let pieces = shards.into_iter().map(&mut piece).collect();
        let txn = Arc::new(Txn::new(id, 0, pieces));
        self.asked.insert(id, txn.clone());
        Some(((self.target)(home, rng.below(3)), Request(txn)))
    }

    fn said(&mut self, _: Instant, node: Node, effect: &Effect<P>) {
        let Effect::Reply { response, .. } = effect else { return };
        let Outcome::Committed { pieces, .. } = &response.outcome else { return };
        let txn = &self.asked[&response.id];
        assert_eq!(pieces.len(), txn.pieces.len());
        for (piece, done) in txn.pieces.iter().zip(pieces) {
            let key = piece.accesses[0].key;
            let sum = done.result.first().and_then(Value::int).expect("a sum");
            let new = self.sums.insert((key, sum));
            assert!(new, "{node:?} answers {:?} with {sum} of {key:?}, as before", response.id);
        }
    }
}

const ASKED: u32 = 60;

/// Crashes of any nodes at any time, breaks, and clocks that step: for machines whose logs survive.
fn rough(nodes: u32) -> Offer {
    Offer { calm: 40_000, ..Offer::rough(nodes, 8_000) }
}

/// For DAST, whose replicas hold transactions in memory: one failure at a time, and seldom.
fn seldom(nodes: u32) -> Offer {
    let once_in = |den| Ratio { num: 1, den };
    Offer { crash: once_in(6_000), cut: Ratio::ZERO, ..rough(nodes) }
}

fn replica(home: Shard, index: u64) -> Node {
    LAYOUT.replica(home, index as u32)
}

fn front(home: Shard, _: u64) -> Node {
    LAYOUT.front(home)
}

/// Something is answered in spite of everything; a share of calls is lost with their nodes, and
/// these clients do not ask again.
fn enough(answered: u64, seeds: u64) {
    let asked = u64::from(ASKED) * seeds;
    assert!(answered * 4 > asked, "{answered} of {asked} were answered");
}

#[test]
fn laws_of_dast() {
    let config = dast::Config::new(LAYOUT, dast::Mode::Precise);
    let make = |node| dast::Dast::new(config.clone(), node, Registers::default());
    enough(hold(|| Adders::new(make, replica, ASKED), seldom(LAYOUT.nodes()), 0..4), 4);
}

/// With logs many may fail at once, and channels break though nobody has failed.
#[test]
fn laws_of_dast_with_logs() {
    let config = dast::Config { durable: true, ..dast::Config::new(LAYOUT, dast::Mode::Precise) };
    let make = |node| dast::Dast::new(config.clone(), node, Registers::default());
    let crash = Ratio { num: 1, den: 2_000 };
    let offer = Offer { crash, ..rough(LAYOUT.nodes()) };
    enough(hold(|| Adders::new(make, replica, ASKED), offer, 0..20), 20);
}

#[test]
fn laws_of_two_phase_locks() {
    let config = locking::Config::new(LAYOUT);
    let make = |node| locking::Locking::new(config.clone(), node, Registers::default());
    enough(hold(|| Adders::new(make, replica, ASKED), rough(LAYOUT.replica_nodes()), 0..4), 4);
}

#[test]
fn laws_of_janus() {
    let config = janus::Config::new(LAYOUT);
    let make = |node| janus::Janus::new(config.clone(), node, Registers::default());
    // Calls are lost with their fronts, so fewer crash.
    let offer = seldom(LAYOUT.nodes_with_fronts());
    enough(hold(|| Adders::new(make, front, ASKED), offer, 0..4), 4);
}

#[test]
fn laws_of_tapir() {
    // A call is lost with its front, so fewer crash; what it has prepared is ended by backups.
    let offer = || seldom(LAYOUT.nodes_with_fronts());
    for backup_after in [None, Some(cavy_core::Span::from_ms(400))] {
        let config = tapir::Config { backup_after, ..tapir::Config::new(LAYOUT) };
        let make = |node| tapir::Tapir::new(config.clone(), node, Registers::default());
        enough(hold(|| Adders::new(make, front, ASKED), offer(), 0..4), 4);
    }
}

#[test]
fn laws_of_slog() {
    let orderer = slog::Orderer::FirstRegion;
    let config = slog::Config { orderer, ..slog::Config::new(LAYOUT) };
    let make = |node| slog::Slog::new(config.clone(), node, Registers::default());
    enough(hold(|| Adders::new(make, replica, ASKED), rough(LAYOUT.nodes()), 0..4), 4);
}

/// The oracle bites: a store that forgets in a crash what it has answered is found out.
#[test]
fn the_oracle_hears_a_contradiction() {
    let config = dast::Config::new(LAYOUT, dast::Mode::Precise);
    let make = |node| dast::Dast::new(config.clone(), node, Registers::default());
    let mut adders = Adders::new(make, replica, 1);
    let mut rng = Stream::keyed(1, 0, Purpose::Test);
    let (node, Request(txn)) = adders.ask(&mut rng).expect("one");
    let result = vec![Value::Int(1)];
    let piece = |place| cavy_txn::PieceResult { piece: place, result: result.clone(), ops: vec![] };
    let pieces = (0..txn.pieces.len() as u16).map(piece).collect();
    let outcome = Outcome::Committed { at: cavy_txn::Ts::ZERO, pieces };
    let response = Response { id: txn.id, outcome };
    let effect = Effect::Reply { call: cavy_core::family::message::Call(0), response };
    adders.said(Instant::ZERO, node, &effect);
    let again = std::panic::AssertUnwindSafe(|| adders.said(Instant::ZERO, node, &effect));
    assert!(std::panic::catch_unwind(again).is_err());
}
