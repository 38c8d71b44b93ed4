//! TPC-C as the published artifact has it `[dast 4.1]`.
//!
//! It does not book what a warehouse takes in, which would be the hottest row, and writes the sum
//! of a district back as it was. It inserts no order, so that there is none to deliver, and no
//! order takes itself back. All payments of a warehouse write one row of history. What is left to
//! conflict are the counters of orders, the sums of districts, stock, customers and history.

use super::asked::{Asked, NewOrder, Payment, customer_row, district_row};
use super::{
    CUSTOMER, DISTRICT_NEXT, DISTRICT_YTD, HISTORY, LOOK, PAY_CUSTOMER, PAY_HISTORY, TAKE_NUMBER,
    WAREHOUSE_TAX, WRITE_BACK, read, write,
};
use crate::txn::{Piece, Shard, Txn, TxnId, Var};
use alloc::vec;
use alloc::vec::Vec;

/// What the artifact makes of it.
pub(super) fn txn(asked: &Asked, id: TxnId) -> Txn {
    let look = |home: Shard, accesses| vec![Piece::new(home, LOOK, Vec::new(), accesses)];
    let pieces = match asked {
        Asked::NewOrder(order) => new_order(order),
        Asked::Payment(paid) => payment(paid),
        // Without orders it finds nothing to deliver.
        Asked::Delivery { home, district, .. } | Asked::StockLevel { home, district } => {
            look(*home, vec![read(DISTRICT_NEXT, district_row(*home, *district))])
        }
        Asked::OrderStatus { home, district, customer } => {
            look(*home, vec![read(CUSTOMER, customer_row(*home, *district, *customer))])
        }
    };
    Txn::new(id, asked.kind(), pieces)
}

fn new_order(order: &NewOrder) -> Vec<Piece> {
    let (home, own) = (order.home, district_row(order.home, order.district));
    let accesses = vec![
        read(WAREHOUSE_TAX, u64::from(home.0)),
        write(DISTRICT_NEXT, own),
        read(CUSTOMER, customer_row(home, order.district, order.customer)),
    ];
    let mut pieces = vec![Piece::new(home, TAKE_NUMBER, Vec::new(), accesses)];
    pieces.extend(order.stock(0));
    pieces
}

fn payment(paid: &Payment) -> Vec<Piece> {
    let home = paid.home;
    let args = vec![paid.amount as i64, paid.customer_row() as i64];
    let sum = vec![write(DISTRICT_YTD, district_row(home, paid.district))];
    let written_back = Piece::new(home, WRITE_BACK, Vec::new(), sum);
    let customer = vec![write(CUSTOMER, paid.customer_row())];
    let mut pay = Piece::new(paid.there, PAY_CUSTOMER, args.clone(), customer);
    let history = vec![write(HISTORY, u64::from(home.0))];
    let mut insert = Piece::new(home, PAY_HISTORY, args, history);
    if paid.by_name {
        pay.gives.push(Var(0));
        insert.needs.push(Var(0));
    }
    vec![written_back, pay, insert]
}
