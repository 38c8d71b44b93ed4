//! Whether all that was answered is in the rows, once: TPC-C's consistency conditions `[dast 5.8]`,
//! and what clients were told.
//!
//! A transaction of which nobody knows whether it took place tells it by the row that it inserts.
//! A delivery inserts none, so where one is unknown the number of deliveries has two bounds.

use super::asked::{customer_row, district_row, stock_row};
use super::{
    Asked, CUSTOMER, DISTRICT_NEXT, DISTRICT_YTD, DISTRICTS, HISTORY, NewOrder, ORDER, OWED, QUEUE,
    STOCK, WAREHOUSE_YTD,
};
use crate::txn::{Key, Shard, Value};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The number of a district's first order.
const FIRST: i64 = 3_001;

/// How a transaction ended, as its client knows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ended {
    /// It took place. Of an order or a delivery: the number of the order, if there was one.
    Committed(Option<i64>),
    /// It did not.
    TakenBack,
    /// Nobody knows.
    Unknown,
}

/// What was asked for and how it ended.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    all: Vec<(Asked, Ended)>,
}

/// What rows hold: a row that is not there holds no number.
pub type Found = BTreeMap<Key, Vec<i64>>;

/// What was looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Audited {
    /// Orders that took place.
    pub orders: u64,
    /// Payments that did.
    pub payments: u64,
    /// Deliveries that delivered something.
    pub deliveries: u64,
    /// Transactions of unknown end.
    pub unknown: u64,
    /// Of these, how many took place. Deliveries are not told.
    pub unknown_took_place: u64,
    /// Rows that were compared.
    pub rows: u64,
}

/// What went wrong, in words.
#[derive(Debug, Default)]
struct Faults(Vec<String>);

impl Faults {
    fn same<T: PartialEq + core::fmt::Debug>(&mut self, what: &str, found: T, expected: T) {
        if found != expected {
            self.0.push(format!("{what}: {found:?}, not {expected:?}"));
        }
    }
}

#[derive(Default)]
struct District {
    amounts: i64,
    /// Orders by number: their names and customers.
    orders: BTreeMap<i64, (u64, i64)>,
    delivered: Vec<i64>,
    unknown_deliveries: i64,
}

impl Audit {
    /// Nothing was asked for.
    pub fn new() -> Audit {
        Audit::default()
    }

    /// One transaction, and how it ended.
    pub fn note(&mut self, asked: Asked, ended: Ended) {
        self.all.push((asked, ended));
    }

    /// Both.
    pub fn add(&mut self, other: Audit) {
        self.all.extend(other.all);
    }

    /// The rows that must be looked at, by warehouse, when nothing is under way any more.
    pub fn rows(&self, warehouses: u32) -> BTreeMap<Shard, BTreeSet<Key>> {
        let mut rows: BTreeMap<Shard, BTreeSet<Key>> = BTreeMap::new();
        let mut add = |shard: Shard, table, row| {
            rows.entry(shard).or_default().insert(Key::new(table, row));
        };
        for shard in (0..warehouses).map(Shard) {
            add(shard, WAREHOUSE_YTD, u64::from(shard.0));
            for district in 0..DISTRICTS {
                for table in [DISTRICT_YTD, DISTRICT_NEXT, QUEUE, OWED] {
                    add(shard, table, district_row(shard, district));
                }
            }
        }
        for (asked, _) in &self.all {
            match asked {
                Asked::NewOrder(order) => {
                    add(order.home, ORDER, order.name);
                    order.lines.iter().for_each(|line| add(line.supply, STOCK, stock_row(line)));
                }
                Asked::Payment(paid) => {
                    add(paid.home, HISTORY, paid.name);
                    add(paid.there, CUSTOMER, paid.customer_row());
                }
                _ => {}
            }
        }
        rows
    }

    /// Compares what clients were told with what the rows hold in the end.
    ///
    /// # Errors
    /// What does not fit, in words.
    pub fn judge(&self, warehouses: u32, found: &Found) -> Result<Audited, Vec<String>> {
        let nothing = Vec::new();
        let row = |table, row| found.get(&Key::new(table, row)).unwrap_or(&nothing);
        let (mut faults, mut audited) = (Faults::default(), Audited::default());
        let mut districts: BTreeMap<u64, District> = BTreeMap::new();
        let mut customers: BTreeMap<u64, [i64; 3]> = BTreeMap::new();
        let mut stocks: BTreeMap<u64, [i64; 2]> = BTreeMap::new();
        for (asked, ended) in &self.all {
            let unknown = *ended == Ended::Unknown;
            audited.unknown += u64::from(unknown);
            match asked {
                Asked::NewOrder(NewOrder { home, district, customer, name, lines, .. }) => {
                    let order = row(ORDER, *name);
                    let what = format!("order {name}");
                    match ended {
                        Ended::Committed(number) => {
                            faults.same(&what, order.first().copied(), *number);
                        }
                        Ended::TakenBack => faults.same(&what, order.len(), 0),
                        Ended::Unknown => {}
                    }
                    let [number, whose, _, items @ ..] = &order[..] else { continue };
                    audited.orders += 1;
                    audited.unknown_took_place += u64::from(unknown);
                    faults.same(&format!("lines of {what}"), items.len(), lines.len());
                    let customer = customer_row(*home, *district, *customer) as i64;
                    faults.same(&format!("customer of {what}"), *whose, customer);
                    let orders = &mut districts.entry(district_row(*home, *district)).or_default();
                    if let Some((other, _)) = orders.orders.insert(*number, (*name, customer)) {
                        faults.0.push(format!("{what} and order {other} are both {number}"));
                    }
                    for line in lines {
                        let stock = stocks.entry(stock_row(line)).or_default();
                        stock[0] += line.quantity as i64;
                        stock[1] += 1;
                    }
                }
                Asked::Payment(paid) => {
                    let (amount, history) = (paid.amount as i64, row(HISTORY, paid.name));
                    let customer = paid.customer_row();
                    let what = format!("payment {}", paid.name);
                    let whole = [amount, customer as i64];
                    match ended {
                        Ended::TakenBack => faults.same(&what, &history[..], &[]),
                        Ended::Unknown if history.is_empty() => {}
                        _ => faults.same(&what, &history[..], &whole),
                    }
                    if history.is_empty() {
                        continue;
                    }
                    audited.payments += 1;
                    audited.unknown_took_place += u64::from(unknown);
                    let own = district_row(paid.home, paid.district);
                    districts.entry(own).or_default().amounts += amount;
                    let row = customers.entry(customer).or_insert([-1_000, 1_000, 1]);
                    *row = [row[0] - amount, row[1] + amount, row[2] + 1];
                }
                Asked::Delivery { home, district, .. } => {
                    let district = districts.entry(district_row(*home, *district)).or_default();
                    match ended {
                        Ended::Committed(number) => district.delivered.extend(number),
                        Ended::TakenBack => {}
                        Ended::Unknown => district.unknown_deliveries += 1,
                    }
                }
                Asked::OrderStatus { .. } | Asked::StockLevel { .. } => {}
            }
        }
        for (customer, expected) in &customers {
            faults.same(&format!("customer {customer}"), &row(CUSTOMER, *customer)[..], expected);
        }
        for (item, [quantity, lines]) in &stocks {
            let stock = row(STOCK, *item);
            let what = format!("stock {item}");
            faults.same(&what, stock.get(1..), Some(&[*quantity, *lines][..]));
            // What is sent is replaced in lots of 91.
            let left = stock.first().map(|left| (left + quantity).rem_euclid(91));
            faults.same(&format!("what is left of {what}"), left, Some(0));
        }
        for shard in (0..warehouses).map(Shard) {
            let mut sum = 0;
            for nth in 0..DISTRICTS {
                let district = districts.remove(&district_row(shard, nth)).unwrap_or_default();
                let own = district_row(shard, nth);
                let ytd = row(DISTRICT_YTD, own).first().copied().unwrap_or(0);
                sum += ytd;
                faults.same(&format!("ytd of district {own}"), ytd, district.amounts);
                let rows = [row(DISTRICT_NEXT, own), row(QUEUE, own), row(OWED, own)];
                audited.deliveries += district.judge(own, rows, &mut faults);
            }
            let ytd = row(WAREHOUSE_YTD, shard.0.into()).first().copied().unwrap_or(0);
            faults.same(&format!("ytd of warehouse {}", shard.0), ytd, sum);
        }
        audited.rows = found.len() as u64;
        if faults.0.is_empty() { Ok(audited) } else { Err(faults.0) }
    }
}

impl District {
    /// Orders are numbered without a gap; those that were delivered are the first of them, each
    /// delivered once; the others are queued. Says how many were delivered.
    fn judge(mut self, own: u64, rows: [&Vec<i64>; 3], faults: &mut Faults) -> u64 {
        let [next, queue, owed] = rows;
        let next = next.first().copied().unwrap_or(FIRST);
        let numbers: Vec<i64> = self.orders.keys().copied().collect();
        let expected: Vec<i64> = (FIRST..next).collect();
        faults.same(&format!("orders of district {own}"), numbers, expected);
        let queued: Vec<i64> = queue.chunks(3).map(|order| order[0]).collect();
        let first = queued.first().copied().unwrap_or(next);
        let expected: Vec<i64> = (first..next).collect();
        faults.same(&format!("queue of district {own}"), queued, expected);
        self.delivered.sort_unstable();
        let told = self.delivered.len() as i64;
        let delivered = first - FIRST;
        let what = format!("deliveries of district {own}");
        if self.unknown_deliveries == 0 {
            let expected: Vec<i64> = (FIRST..first).collect();
            faults.same(&what, self.delivered, expected);
        } else {
            let fits = (told..=told + self.unknown_deliveries).contains(&delivered);
            let distinct = self.delivered.windows(2).all(|pair| pair[0] < pair[1]);
            let below = self.delivered.last().is_none_or(|last| *last < first);
            faults.same(&format!("{what} fit"), (fits, distinct, below), (true, true, true));
        }
        // The row of what is owed keeps the last 200.
        let customers: Vec<i64> = owed.chunks(2).map(|one| one[0]).collect();
        let from = (delivered as usize).saturating_sub(200);
        let expected = self.orders.range(FIRST..first).skip(from);
        let expected: Vec<i64> = expected.map(|(_, (_, customer))| *customer).collect();
        faults.same(&format!("customers that district {own} owes"), customers, expected);
        delivered as u64
    }
}

/// The numbers of a row.
pub fn numbers(value: Option<&Value>) -> Vec<i64> {
    match value {
        Some(Value::Int(number)) => [*number].into(),
        Some(value) => value.ints().unwrap_or_default().to_vec(),
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;
    use crate::procedure::Given;
    use crate::store::Store;
    use crate::tpcc::{Generator, Mix, Tpcc};
    use crate::txn::{Ts, TxnId};
    use cavy_core::{Purpose, Stream};

    const LAYOUT: (u16, u32) = (2, 1);

    /// Runs transactions one after the other on one store, as if all shards were one.
    fn run(store: &mut Store, asked: &Asked, number: u64) -> Ended {
        let txn = asked.txn(TxnId { client: 9, number });
        let (mut given, mut results) = (Given::new(), Vec::new());
        let mut aborted = false;
        for place in 0..txn.pieces.len() {
            assert!(given.has_all(&txn.pieces[place]), "pieces are in an order that runs");
            let at = Ts { t: number, k: 0, n: 0 };
            let (run, _) = store.run(&mut Tpcc, &txn, place, &given, at);
            run.gives.into_iter().for_each(|(var, value)| given.set(var, value));
            aborted |= run.aborted;
            results.push(run.result);
        }
        match aborted {
            true => Ended::TakenBack,
            false => Ended::Committed(results[0].first().and_then(Value::int)),
        }
    }

    fn day(many: u64) -> (Store, Audit) {
        let layout = Layout::new(LAYOUT.0, LAYOUT.1);
        let generator = Generator::new(layout, Mix::Full);
        let mut draws = Stream::keyed(3, 0, Purpose::Test);
        let (mut store, mut audit) = (Store::new(), Audit::new());
        for number in 1..=many {
            let asked = generator.ask((number % 40) as u32, number, &mut draws);
            let numbers = asked.numbers();
            let kind = crate::tpcc::KINDS[usize::from(asked.kind())];
            assert_eq!(Asked::read(kind, &numbers, &layout).as_ref(), Ok(&asked));
            let ended = run(&mut store, &asked, number);
            audit.note(asked, ended);
        }
        (store, audit)
    }

    fn found(store: &Store, audit: &Audit) -> Found {
        let keys = audit.rows(2).into_values().flatten();
        let of = |key| {
            let value = store.row(key).and_then(|row| row.value.as_ref());
            (key, numbers(value))
        };
        keys.map(of).collect()
    }

    #[test]
    fn a_day_one_after_the_other_stands_and_its_numbers_travel() {
        let (store, audit) = day(6_000);
        let audited = audit.judge(2, &found(&store, &audit)).expect("it stands");
        assert!(audited.orders > 2_000 && audited.payments > 2_000, "{audited:?}");
        assert!(audited.deliveries > 100 && audited.rows > 10_000, "{audited:?}");
    }

    #[test]
    fn whatever_is_lost_or_done_twice_is_found() {
        let (store, audit) = day(3_000);
        let right = found(&store, &audit);
        for table in [
            WAREHOUSE_YTD,
            DISTRICT_YTD,
            DISTRICT_NEXT,
            CUSTOMER,
            HISTORY,
            ORDER,
            QUEUE,
            STOCK,
            OWED,
        ] {
            let of_table = |(key, row): &(&Key, &Vec<i64>)| key.table == table && !row.is_empty();
            let (key, row) = right.iter().find(of_table).expect("a row of each table");
            let mut more = right.clone();
            more.insert(*key, row.iter().map(|number| number + 1).collect());
            assert!(audit.judge(2, &more).is_err(), "one more in table {table}");
            let mut gone = right.clone();
            gone.insert(*key, Vec::new());
            assert!(audit.judge(2, &gone).is_err(), "a row of table {table} is gone");
        }
    }

    #[test]
    fn an_unknown_end_is_told_by_the_row_that_was_inserted() {
        let (store, audit) = day(2_000);
        let mut doubtful = Audit::new();
        for (nth, (asked, ended)) in audit.all.into_iter().enumerate() {
            doubtful.note(asked, if nth % 50 == 0 { Ended::Unknown } else { ended });
        }
        let found = found(&store, &doubtful);
        let audited = doubtful.judge(2, &found).expect("it stands");
        assert!(audited.unknown == 40 && audited.unknown_took_place > 20, "{audited:?}");
    }
}
