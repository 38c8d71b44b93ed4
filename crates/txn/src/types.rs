//! Transactions of types that a user describes: how many rows each reads and writes, on how many
//! shards, and how often those are in other regions. They are made of [`registers`] procedures.

use crate::layout::Layout;
use crate::registers;
use crate::tpca::Zipf;
use crate::txn::{Key, Piece, Shard, Txn, TxnId, Var};
use alloc::vec;
use alloc::vec::Vec;
use cavy_core::Stream;

/// Shards of one transaction, at most.
pub const SHARDS_MAX: u32 = 16;
/// Rows that a transaction touches on one shard, at most.
pub const ROWS_MAX: u32 = 64;

const TABLE: u64 = 31;
const ONE: u64 = 1 << 53;

/// A type of transaction.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Type {
    /// Its share of all transactions, 0 to 1; the shares of all types add up to 1.
    pub share: f64,
    /// How many shards it touches, its client's own included: 1 to [`SHARDS_MAX`].
    pub shards: u32,
    /// Rows of each of its shards that it reads.
    pub reads: u32,
    /// Rows of each of its shards that it reads and writes. With `reads` from 1 to [`ROWS_MAX`].
    pub writes: u32,
    /// The share of those whose other shards are in other regions, 0 to 1; of the rest they are in
    /// the client's region.
    pub crt_ratio: f64,
    /// What the first row holds that it reads at home is written into the first row that it writes
    /// on each other shard: those wait for a value.
    pub depends: bool,
}

/// Draws transactions of some types.
#[derive(Clone, Debug)]
pub struct Types {
    types: Vec<Type>,
    /// The share of each type and all before it, of [`ONE`].
    upto: Vec<u64>,
    rows: Zipf,
}

impl Types {
    /// Transactions on shards of `rows` rows, which are drawn by Zipf's law with exponent `skew`.
    /// A transaction must not touch more than half of the rows, since no row is drawn twice.
    pub fn new(types: Vec<Type>, rows: u64, skew: f64) -> Types {
        let mut sum = 0.0;
        let upto = types.iter().map(|one| {
            sum += one.share;
            (sum * ONE as f64) as u64
        });
        Types { upto: upto.collect(), types, rows: Zipf::new(rows, skew) }
    }

    /// Transaction `id` of a client of `home`. Its [`Txn::kind`] is the place of its type.
    pub fn draw(&self, layout: &Layout, id: TxnId, home: Shard, draws: &mut Stream) -> Txn {
        let at = draws.below(ONE);
        let place = self.upto.partition_point(|upto| *upto <= at).min(self.types.len() - 1);
        let one = self.types[place];
        let crosses = one.shards > 1 && draws.below(ONE) < (one.crt_ratio * ONE as f64) as u64;
        let mut shards = vec![home];
        while shards.len() < one.shards as usize {
            let shard = other(layout, home, crosses, draws);
            if !shards.contains(&shard) {
                shards.push(shard);
            }
        }
        let pieces = shards.iter().flat_map(|&shard| {
            let keys = self.keys(layout, shard, one.reads + one.writes, draws);
            let (reads, writes) = keys.split_at(one.reads as usize);
            pieces(one.depends, shard == home, shard, reads, writes)
        });
        Txn::new(id, place as u16, pieces.collect())
    }

    /// `many` rows of `shard`, each once.
    fn keys(&self, layout: &Layout, shard: Shard, many: u32, draws: &mut Stream) -> Vec<Key> {
        let mut keys = Vec::with_capacity(many as usize);
        while keys.len() < many as usize {
            let row = self.rows.draw(draws) * u64::from(layout.shards()) + u64::from(shard.0);
            let key = Key::new(TABLE, row);
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    }
}

/// Any shard of other regions, or of the region of `home`.
fn other(layout: &Layout, home: Shard, crosses: bool, draws: &mut Stream) -> Shard {
    let each = layout.shards_per_region;
    let first = home.0 - home.0 % each;
    if crosses {
        let drawn = draws.below(u64::from(layout.shards() - each)) as u32;
        Shard(if drawn < first { drawn } else { drawn + each })
    } else {
        Shard(first + draws.below(u64::from(each)) as u32)
    }
}

/// What is done on one shard.
fn pieces(depends: bool, home: bool, shard: Shard, reads: &[Key], writes: &[Key]) -> Vec<Piece> {
    let value = Var(0);
    let mut pieces = Vec::new();
    let (mut reads, mut writes) = (reads, writes);
    if depends && home {
        pieces.push(registers::read_and_give(shard, reads[0], value));
        reads = &reads[1..];
    } else if depends {
        pieces.push(registers::put_sum(shard, writes[0], &[value]));
        writes = &writes[1..];
    }
    if !reads.is_empty() {
        pieces.push(registers::read(shard, reads));
    }
    if !writes.is_empty() {
        pieces.push(registers::add_to_all(shard, writes, 1));
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Region;
    use cavy_core::Purpose;

    fn of(share: f64, shards: u32, crt_ratio: f64) -> Type {
        Type { share, shards, reads: 2, writes: 1, crt_ratio, depends: false }
    }

    #[test]
    fn types_come_as_often_and_cross_regions_as_often_as_asked() {
        let layout = Layout::new(3, 4);
        let types = Types::new(vec![of(0.7, 1, 0.0), of(0.3, 3, 0.25)], 1_000, 0.9);
        let mut draws = Stream::keyed(8, 0, Purpose::Test);
        let home = Shard(5);
        let (mut second, mut crossed) = (0u32, 0u32);
        for number in 0..20_000 {
            let txn = types.draw(&layout, TxnId { client: 1, number }, home, &mut draws);
            let shards = if txn.kind == 0 { 1 } else { 3 };
            assert_eq!(txn.shards().len(), shards);
            assert!(txn.shards().contains(&home) && !txn.read_only);
            let all: Vec<Key> =
                txn.pieces.iter().flat_map(|p| &p.accesses).map(|a| a.key).collect();
            let each: alloc::collections::BTreeSet<Key> = all.iter().copied().collect();
            assert_eq!((all.len(), each.len()), (3 * shards, 3 * shards), "no row twice");
            second += u32::from(txn.kind);
            if !layout.is_within(&txn, Region(1)) {
                crossed += 1;
                let away = txn.shards().iter().filter(|s| layout.region_of(**s) != Region(1));
                assert_eq!(away.count(), 2, "all others are in other regions");
            }
        }
        // Five standard deviations: 324 and 190.
        assert!(second.abs_diff(6_000) < 324, "{second}");
        assert!(crossed.abs_diff(1_500) < 190, "{crossed}");
    }

    #[test]
    fn other_shards_wait_for_what_is_read_at_home() {
        let layout = Layout::new(2, 2);
        let one = Type { depends: true, ..of(1.0, 2, 1.0) };
        let types = Types::new(vec![one], 100, 0.0);
        let mut draws = Stream::keyed(9, 0, Purpose::Test);
        for number in 0..100 {
            let txn = types.draw(&layout, TxnId { client: 1, number }, Shard(3), &mut draws);
            let taker = txn.shards().iter().copied().find(|shard| *shard != Shard(3));
            assert!(taker.is_some_and(|taker| txn.waits(taker)) && !txn.waits(Shard(3)));
            assert_eq!(txn.takers(Shard(3)).count(), 1);
        }
    }
}
