//! TPC-A: one is added to a branch, a teller and a customer, each drawn by Zipf's law, so that the
//! share of conflicts is a matter of one exponent `[dast 4.3]`.

use crate::layout::Layout;
use crate::tpcc::PAY_HOME;
use crate::txn::{Access, Key, Piece, Shard, Txn, TxnId};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use cavy_core::Stream;

/// Rows of each table. The source has a million; what conflicts is decided by the first.
pub const ROWS: u64 = 100_000;

const BRANCH: u64 = 21;
const TELLER: u64 = 22;
const CUSTOMER: u64 = 23;
/// Of a hundred transactions, so many cross regions.
const CRT_PERCENT: u64 = 10;
const ONE: u64 = 1 << 53;

/// Draws ranks from 0, rank `r` in proportion to `1 / (r + 1)^skew`.
#[derive(Clone, Debug)]
pub struct Zipf {
    /// The probability of each rank and all before it, of [`ONE`].
    upto: Arc<[u64]>,
}

impl Zipf {
    /// Of so many ranks, at least 1.
    pub fn new(ranks: u64, skew: f64) -> Zipf {
        let weights = (1..=ranks).map(|rank| libm::pow(rank as f64, -skew));
        let weights: Vec<f64> = weights.collect();
        let all: f64 = weights.iter().sum();
        let mut sum = 0.0;
        let upto = weights.iter().map(|weight| {
            sum += weight;
            (sum / all * ONE as f64) as u64
        });
        Zipf { upto: upto.collect() }
    }

    /// One rank.
    pub fn draw(&self, draws: &mut Stream) -> u64 {
        let at = draws.below(ONE);
        let place = self.upto.partition_point(|upto| *upto <= at);
        (place as u64).min(self.upto.len() as u64 - 1)
    }
}

/// Draws again until some row is at home, and the transaction crosses regions or does not, as it
/// shall. Row `k` is on shard `k mod W`.
pub fn draw(layout: &Layout, rows: &Zipf, id: TxnId, home: Shard, draws: &mut Stream) -> Txn {
    let region = layout.region_of(home);
    let crosses = layout.regions > 1 && draws.below(100) < CRT_PERCENT;
    let shards = u64::from(layout.shards());
    loop {
        let keys: [u64; 3] = core::array::from_fn(|_| rows.draw(draws));
        let places = keys.map(|key| Shard((key % shards) as u32));
        let away = places.iter().any(|shard| layout.region_of(*shard) != region);
        if !places.contains(&home) || away != crosses {
            continue;
        }
        let tables = [BRANCH, TELLER, CUSTOMER];
        let piece = |((table, row), shard): ((u64, u64), Shard)| {
            let access = Access { key: Key::new(table, row), write: true };
            Piece::new(shard, PAY_HOME, vec![1], vec![access])
        };
        let pieces = tables.into_iter().zip(keys).zip(places).map(piece).collect();
        return Txn::new(id, 5, pieces);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavy_core::Purpose;

    #[test]
    fn clause_4_3_a_tenth_crosses_regions_and_some_row_is_at_home() {
        let layout = Layout::new(4, 2);
        let rows = Zipf::new(ROWS, 0.9);
        let mut draws = Stream::keyed(4, 0, Purpose::Test);
        let home = Shard(3);
        let mut crossed = 0;
        for number in 0..4_000 {
            let txn = draw(&layout, &rows, TxnId { client: 1, number }, home, &mut draws);
            assert!(txn.shards().contains(&home) && txn.pieces.len() == 3);
            crossed += u32::from(!layout.is_within(&txn, layout.region_of(home)));
        }
        assert!((350..450).contains(&crossed), "{crossed} of 4000");
    }

    #[test]
    fn ranks_are_as_uneven_as_asked() {
        let mut draws = Stream::keyed(5, 0, Purpose::Test);
        for (skew, least, most) in [(0.0, 0, 30), (1.0, 8_000, 8_550)] {
            // With exponent 1 the first of 100,000 ranks has 1 / 12.09 of all draws.
            let rows = Zipf::new(ROWS, skew);
            let firsts = (0..100_000).filter(|_| rows.draw(&mut draws) == 0).count();
            assert!((least..=most).contains(&firsts), "{firsts} at {skew}");
        }
    }
}
