//! TPC-C and its Payment alone, as one-shot transactions of pieces `[dast 4.1, 4.2]`.
//!
//! One warehouse a shard. Parameters are those of the source's generator where they differ from
//! TPC-C's own: lines 6 to 15, quantities 0 to 10, 40 % of payments by last name, Delivery of one
//! district. Effects are whole: `w_ytd` and `d_ytd` grow, orders are inserted and delivered.
//!
//! A key must be declared when a transaction is submitted, and an order's number is not known then.
//! Orders are therefore rows named after their transaction, and a district has one row for its
//! queue of undelivered orders and one for the items of its last 20. What a delivery owes a
//! customer is booked in a row of the district, because the customer is not known beforehand
//! either. One in a hundred New-Orders takes itself back.
//!
//! **Reading order.** This file draws, and runs pieces; [`asked`] is what a transaction is asked
//! for with, `artifact` what the published artifact makes of it, and [`audit`] whether all that was
//! answered is in the rows.

mod artifact;
pub mod asked;
pub mod audit;

pub use asked::{Asked, Line, NewOrder, Payment};

use crate::layout::Layout;
use crate::procedure::{Invocation, Procedures, Rows, Run};
use crate::tpca::{self, Zipf};
use crate::txn::{Access, Key, Shard, Txn, TxnId, Value};
use alloc::vec::Vec;
use cavy_core::Stream;

/// The types, as [`Txn::kind`] has them.
pub const KINDS: [&str; 5] = ["new_order", "payment", "delivery", "order_status", "stock_level"];

const DISTRICTS: u64 = 10;
const CUSTOMERS: u64 = 3_000;
const ITEMS: u64 = 100_000;

// Tables. Columns that are written apart are rows apart.
const WAREHOUSE_TAX: u64 = 1;
const WAREHOUSE_YTD: u64 = 2;
const DISTRICT_YTD: u64 = 3;
const DISTRICT_NEXT: u64 = 4;
const CUSTOMER: u64 = 5;
const HISTORY: u64 = 6;
const ORDER: u64 = 7;
const QUEUE: u64 = 8;
const RECENT: u64 = 9;
const LAST_OF_CUSTOMER: u64 = 10;
const STOCK: u64 = 11;
const OWED: u64 = 12;

// Procedures.
const ORDER_HOME: u16 = 0;
const ORDER_STOCK: u16 = 1;
pub(crate) const PAY_HOME: u16 = 2;
const PAY_CUSTOMER: u16 = 3;
const PAY_HISTORY: u16 = 4;
const DELIVER: u16 = 5;
const LOOK: u16 = 6;
const ROWS: u16 = 7;
const TAKE_NUMBER: u16 = 8;
const WRITE_BACK: u16 = 9;

/// Set in the procedures of a store that has others as well.
pub const NATIVE: u16 = 0x8000;

/// What is drawn.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Mix {
    /// 44 New-Order, 44 Payment, 4 each of the others.
    Full,
    /// The same as the published artifact has them, which leaves out most of what they write.
    Artifact,
    /// Payments, of which so many in a hundred have a customer of another region; of the others 15
    /// of another warehouse of their own.
    Payment {
        /// Percent.
        crt_percent: u32,
        /// As the published artifact has them.
        artifact: bool,
    },
    /// TPC-A `[dast 4.3]`.
    Tpca {
        /// How uneven rows are: Zipf's exponent.
        skew: f64,
    },
}

/// Draws the transactions of clients.
#[derive(Clone, Debug)]
pub struct Generator {
    layout: Layout,
    mix: Mix,
    rows: Option<Zipf>,
}

fn read(table: u64, row: u64) -> Access {
    Access { key: Key::new(table, row), write: false }
}

fn write(table: u64, row: u64) -> Access {
    Access { key: Key::new(table, row), write: true }
}

/// The name of rows that `id` inserts.
fn row_name(id: TxnId) -> u64 {
    u64::from(id.client) << 40 | id.number
}

/// TPC-C's uneven choice from `0..n`, with its constant zero.
fn uneven(draws: &mut Stream, a: u64, n: u64) -> u64 {
    (draws.below(a + 1) | draws.below(n)) % n
}

impl Generator {
    /// Transactions for the shards of `layout`.
    pub fn new(layout: Layout, mix: Mix) -> Generator {
        let rows = match mix {
            Mix::Tpca { skew } => Some(Zipf::new(tpca::ROWS, skew)),
            _ => None,
        };
        Generator { layout, mix, rows }
    }

    fn is_artifact(&self) -> bool {
        matches!(self.mix, Mix::Artifact | Mix::Payment { artifact: true, .. })
    }

    /// A client's warehouse, for life; clients are numbered from 0.
    pub fn home(&self, client: u32) -> Shard {
        self.layout.home(client)
    }

    /// Transaction `id` of `client`.
    pub fn draw(&self, client: u32, id: TxnId, draws: &mut Stream) -> Txn {
        match &self.rows {
            Some(rows) => tpca::draw(&self.layout, rows, id, self.home(client), draws),
            None => {
                let asked = self.ask(client, row_name(id), draws);
                if self.is_artifact() { artifact::txn(&asked, id) } else { asked.txn(id) }
            }
        }
    }

    /// What `client` asks for next in TPC-C. `name` is unlike that of any other transaction: rows
    /// that it inserts are called so.
    pub fn ask(&self, client: u32, name: u64, draws: &mut Stream) -> Asked {
        let home = self.home(client);
        let district = u64::from(client / self.layout.shards()) % DISTRICTS;
        let all = matches!(self.mix, Mix::Full | Mix::Artifact);
        let drawn = if all { draws.below(100) } else { 44 };
        match drawn {
            0..44 => self.new_order(name, home, district, draws),
            44..88 => self.payment(name, home, district, draws),
            88..92 => {
                let district = draws.below(DISTRICTS);
                Asked::Delivery { home, district, carrier: 1 + draws.below(10) }
            }
            92..96 => {
                let customer = uneven(draws, 1_022, CUSTOMERS);
                Asked::OrderStatus { home, district, customer }
            }
            _ => Asked::StockLevel { home, district },
        }
    }

    /// Any other warehouse.
    fn other(&self, home: Shard, draws: &mut Stream) -> Shard {
        let shards = u64::from(self.layout.shards());
        if shards < 2 {
            return home;
        }
        let step = 1 + draws.below(shards - 1);
        Shard(((u64::from(home.0) + step) % shards) as u32)
    }

    fn new_order(&self, name: u64, home: Shard, district: u64, draws: &mut Stream) -> Asked {
        let customer = uneven(draws, 1_022, CUSTOMERS);
        let takes_back = draws.below(100) == 0;
        let mut lines: Vec<Line> = Vec::new();
        for _ in 0..6 + draws.below(10) {
            let supply = if draws.below(100) == 0 { self.other(home, draws) } else { home };
            let item = draws.below(ITEMS);
            let quantity = draws.below(11);
            // The same item twice is one line of twice the quantity.
            match lines.iter_mut().find(|line| (line.supply, line.item) == (supply, item)) {
                Some(line) => line.quantity += quantity,
                None => lines.push(Line { supply, item, quantity }),
            }
        }
        Asked::NewOrder(NewOrder { home, district, customer, name, takes_back, lines })
    }

    fn payment(&self, name: u64, home: Shard, district: u64, draws: &mut Stream) -> Asked {
        let layout = &self.layout;
        let region = layout.region_of(home);
        let elsewhere = match self.mix {
            Mix::Full | Mix::Artifact | Mix::Tpca { .. } => draws.below(100) < 15,
            Mix::Payment { crt_percent, .. } => draws.below(100) < u64::from(crt_percent),
        };
        let beyond = layout.shards() - layout.shards_per_region;
        let there = match self.mix {
            Mix::Full | Mix::Artifact if elsewhere => self.other(home, draws),
            Mix::Payment { .. } if elsewhere && beyond > 0 => {
                let first = u32::from(region.0) * layout.shards_per_region;
                let drawn = draws.below(u64::from(beyond)) as u32;
                Shard(if drawn < first { drawn } else { drawn + layout.shards_per_region })
            }
            Mix::Payment { .. } if draws.below(100) < 15 => {
                let own = layout.shards_of(region).filter(|shard| *shard != home);
                let own: Vec<Shard> = own.collect();
                match own.len() as u64 {
                    0 => home,
                    n => own[draws.below(n) as usize],
                }
            }
            _ => home,
        };
        let of_customer = if there == home { district } else { draws.below(DISTRICTS) };
        let by_name = draws.below(100) < 40;
        let customer = if by_name {
            // Names are given as customer modulo 1000, three to a name; the middle one pays. Names
            // do not change, so the row is known; its number is not, to whoever needs it elsewhere.
            1_000 + uneven(draws, 255, 1_000)
        } else {
            uneven(draws, 1_022, CUSTOMERS)
        };
        let amount = 1 + draws.below(5_000);
        Asked::Payment(Payment {
            home,
            district,
            there,
            of_customer,
            customer,
            by_name,
            amount,
            name,
        })
    }
}

/// The procedures; rows begin as TPC-C populates them, without being there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tpcc;

impl Procedures for Tpcc {
    fn run(&mut self, invocation: &Invocation<'_>, rows: &mut dyn Rows) -> Run {
        let piece = invocation.piece();
        let args = &piece.args;
        let arg = |index: usize| args.get(index).copied().unwrap_or_default();
        let key = |index: usize| piece.accesses[index].key;
        let mut run = Run::default();
        match piece.procedure & !NATIVE {
            ORDER_HOME if arg(0) == 1 => run.aborted = true,
            ORDER_HOME => {
                rows.read(key(0));
                let number = number(rows, key(1));
                rows.write(key(1), Some(Value::Int(number + 1)));
                rows.read(key(2));
                let items = &args[3..];
                let row = [number, arg(1), 0].iter().chain(items).copied().collect();
                rows.write(key(3), Some(Value::Ints(row)));
                extend(rows, key(4), &[number, arg(1), arg(2)], usize::MAX);
                extend(rows, key(5), items, 200);
                rows.write(key(6), Some(Value::Ints([number, arg(2)].into())));
                run.result.push(Value::Int(number));
            }
            ORDER_STOCK if arg(0) == 1 => run.aborted = true,
            ORDER_STOCK => {
                for (access, quantity) in piece.accesses.iter().zip(&args[1..]) {
                    let row = rows.read(access.key);
                    let row = row.as_ref().and_then(Value::ints).unwrap_or(&[91, 0, 0]);
                    let left = row[0] - quantity;
                    let left = if left < 10 { left + 91 } else { left };
                    let row = [left, row[1] + quantity, row[2] + 1];
                    rows.write(access.key, Some(Value::Ints(row.into())));
                }
            }
            TAKE_NUMBER => {
                rows.read(key(0));
                let number = number(rows, key(1));
                rows.write(key(1), Some(Value::Int(number + 1)));
                rows.read(key(2));
                run.result.push(Value::Int(number));
            }
            WRITE_BACK => {
                let before = number(rows, key(0));
                rows.write(key(0), Some(Value::Int(before)));
            }
            PAY_HOME => {
                for access in &piece.accesses {
                    let sum = number(rows, access.key) + arg(0);
                    rows.write(access.key, Some(Value::Int(sum)));
                }
            }
            PAY_CUSTOMER => {
                let row = rows.read(key(0));
                let row = row.as_ref().and_then(Value::ints).unwrap_or(&[-1_000, 1_000, 1]);
                let row = [row[0] - arg(0), row[1] + arg(0), row[2] + 1];
                rows.write(key(0), Some(Value::Ints(row.into())));
                run.result.push(Value::Int(row[0]));
                if let Some(var) = piece.gives.first() {
                    run.gives.push((*var, Value::Int(arg(1))));
                }
            }
            PAY_HISTORY => {
                let customer =
                    piece.needs.first().and_then(|var| invocation.int(*var)).unwrap_or(arg(1));
                rows.write(key(0), Some(Value::Ints([arg(0), customer].into())));
            }
            DELIVER => {
                let queue = rows.read(key(0));
                let queue = queue.as_ref().and_then(Value::ints).unwrap_or_default();
                if let [number, customer, _, rest @ ..] = queue {
                    run.result.push(Value::Int(*number));
                    let customer = *customer;
                    rows.write(key(0), Some(Value::Ints(rest.into())));
                    extend(rows, key(1), &[customer, arg(0)], 400);
                }
            }
            ROWS => {
                for access in &piece.accesses {
                    let row = match rows.read(access.key) {
                        Some(Value::Int(number)) => Value::Ints([number].into()),
                        Some(value) => value,
                        None => Value::Ints([].into()),
                    };
                    run.result.push(row);
                }
            }
            _ => {
                for access in &piece.accesses {
                    if let Some(value) = rows.read(access.key) {
                        run.result.push(value);
                    }
                }
            }
        }
        run
    }

    fn initial(&self, key: Key) -> Option<Value> {
        match key.table {
            DISTRICT_NEXT => Some(Value::Int(3_001)),
            _ => None,
        }
    }
}

fn number(rows: &mut dyn Rows, key: Key) -> i64 {
    rows.read(key).as_ref().and_then(Value::int).unwrap_or(0)
}

/// Appends to a list that keeps its last `most`.
fn extend(rows: &mut dyn Rows, key: Key, items: &[i64], most: usize) {
    let before = rows.read(key);
    let before = before.as_ref().and_then(Value::ints).unwrap_or_default();
    let all = before.iter().chain(items);
    let skipped = (before.len() + items.len()).saturating_sub(most);
    rows.write(key, Some(Value::Ints(all.skip(skipped).copied().collect())));
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavy_core::Purpose;

    /// The table of `[dast 4.1]`: shares of CRTs by layout.
    #[test]
    fn clause_4_1_shares_of_crts() {
        for (mix, regions, shards, orders, payments, all) in [
            (Mix::Full, 10, 10, 9.1, 13.6, 10.0),
            (Mix::Full, 4, 2, 8.6, 12.9, 9.5),
            (Mix::Artifact, 4, 2, 8.6, 12.9, 9.5),
            (Mix::Full, 3, 2, 8.1, 12.0, 8.8),
        ] {
            let layout = Layout::new(regions, shards);
            let generator = Generator::new(layout, mix);
            let mut draws = Stream::keyed(5, 0, Purpose::Test);
            let (mut crts, mut of) = ([0u32; 5], [0u32; 5]);
            const N: u32 = 60_000;
            for number in 0..N {
                let client = number % (10 * layout.shards());
                let id = TxnId { client: client + 1, number: u64::from(number) };
                let txn = generator.draw(client, id, &mut draws);
                let home = layout.region_of(generator.home(client));
                of[usize::from(txn.kind)] += 1;
                crts[usize::from(txn.kind)] += u32::from(!layout.is_within(&txn, home));
            }
            let percent = |part: u32, whole: u32| 100.0 * f64::from(part) / f64::from(whole);
            let found = [
                (percent(crts[0], of[0]), orders),
                (percent(crts[1], of[1]), payments),
                (percent(crts.iter().sum(), N), all),
            ];
            for (found, expected) in found {
                assert!((found - expected).abs() < 0.6, "{found} for {expected} at {regions}");
            }
        }
    }

    /// What the artifact leaves out `[dast 4.1]`: of all that a warehouse writes, only the counter
    /// of orders, the sum that is written back, stock, customers and one row of history are left.
    #[test]
    fn clause_4_1_the_artifact_inserts_nothing_and_has_no_hottest_row() {
        let layout = Layout::new(4, 2);
        let generator = Generator::new(layout, Mix::Artifact);
        let mut draws = Stream::keyed(7, 0, Purpose::Test);
        let mut written = alloc::collections::BTreeSet::new();
        let mut history = alloc::collections::BTreeSet::new();
        for number in 0..5_000 {
            let id = TxnId { client: 1, number };
            let txn = generator.draw(0, id, &mut draws);
            let all = txn.pieces.iter().flat_map(|piece| &piece.accesses);
            for access in all.filter(|access| access.write) {
                written.insert(access.key.table);
                if access.key.table == HISTORY {
                    history.insert(access.key.row);
                }
            }
        }
        let kept = [DISTRICT_YTD, DISTRICT_NEXT, CUSTOMER, HISTORY, STOCK];
        assert_eq!(written.into_iter().collect::<Vec<_>>(), kept);
        assert_eq!(history.into_iter().collect::<Vec<_>>(), [0], "that of the warehouse");
    }

    #[test]
    fn clause_4_2_payments_cross_regions_as_often_as_asked() {
        let layout = Layout::new(4, 2);
        let mut draws = Stream::keyed(6, 0, Purpose::Test);
        for (crt_percent, artifact) in [(10, false), (50, true), (90, false)] {
            let generator = Generator::new(layout, Mix::Payment { crt_percent, artifact });
            let crosses = |number: u64| {
                let id = TxnId { client: 3, number };
                !layout.is_within(&generator.draw(2, id, &mut draws), crate::Region(1))
            };
            let crossed = (0..10_000u64).map(crosses).filter(|crosses| *crosses).count();
            assert!(crossed.abs_diff(100 * crt_percent as usize) < 200, "{crossed}");
        }
    }
}
