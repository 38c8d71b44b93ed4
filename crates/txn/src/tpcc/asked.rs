//! What a transaction of TPC-C is asked for with, as numbers that travel, and the pieces of it.

use super::{
    CUSTOMER, CUSTOMERS, DELIVER, DISTRICT_NEXT, DISTRICT_YTD, DISTRICTS, HISTORY, ITEMS, KINDS,
    LAST_OF_CUSTOMER, LOOK, ORDER, ORDER_HOME, ORDER_STOCK, OWED, PAY_CUSTOMER, PAY_HISTORY,
    PAY_HOME, QUEUE, RECENT, ROWS, STOCK, WAREHOUSE_TAX, WAREHOUSE_YTD, read, write,
};
use crate::layout::Layout;
use crate::txn::{Access, Key, Piece, Shard, Txn, TxnId, Var};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// A line of an order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line {
    /// The warehouse that supplies it.
    pub supply: Shard,
    /// The item.
    pub item: u64,
    /// How many.
    pub quantity: u64,
}

/// An order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewOrder {
    /// The warehouse that takes it.
    pub home: Shard,
    /// The district of the warehouse, from 0.
    pub district: u64,
    /// The customer of the district, from 0.
    pub customer: u64,
    /// The name of its row, unlike that of all other orders.
    pub name: u64,
    /// Whether it names an item that does not exist, and so takes itself back.
    pub takes_back: bool,
    /// What is ordered: an item of a supplier once, 1 to 15 lines.
    pub lines: Vec<Line>,
}

/// A payment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Payment {
    /// The warehouse that takes it.
    pub home: Shard,
    /// The district of that warehouse, from 0.
    pub district: u64,
    /// The warehouse of the customer.
    pub there: Shard,
    /// The customer's district, from 0.
    pub of_customer: u64,
    /// The customer of that district, from 0.
    pub customer: u64,
    /// Whether the customer was found by name: the row of the history then waits for the number.
    pub by_name: bool,
    /// What is paid, in cents.
    pub amount: u64,
    /// The name of its row of the history, unlike that of all other payments.
    pub name: u64,
}

/// A transaction that is to be asked for. Districts are numbered from 0 in their warehouse,
/// customers from 0 in their district.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Asked {
    /// A customer orders.
    NewOrder(NewOrder),
    /// A customer pays.
    Payment(Payment),
    /// The oldest order of a district that is not delivered leaves.
    Delivery {
        /// The warehouse.
        home: Shard,
        /// The district of the warehouse.
        district: u64,
        /// Who carries it, from 1 to 10.
        carrier: u64,
    },
    /// A customer's last order is looked at.
    OrderStatus {
        /// The warehouse.
        home: Shard,
        /// The district of the warehouse.
        district: u64,
        /// The customer of the district.
        customer: u64,
    },
    /// A district's last items are looked at.
    StockLevel {
        /// The warehouse.
        home: Shard,
        /// The district of the warehouse.
        district: u64,
    },
}

/// Lines that an order may have: those that are drawn have 6 to 15.
const LINES_MAX: usize = 15;

pub(super) fn district_row(home: Shard, district: u64) -> u64 {
    u64::from(home.0) * DISTRICTS + district
}

pub(super) fn customer_row(home: Shard, district: u64, customer: u64) -> u64 {
    district_row(home, district) * CUSTOMERS + customer
}

pub(super) fn stock_row(line: &Line) -> u64 {
    u64::from(line.supply.0) * ITEMS + line.item
}

impl Asked {
    /// Its place among [`KINDS`].
    pub fn kind(&self) -> u16 {
        match self {
            Asked::NewOrder(_) => 0,
            Asked::Payment(_) => 1,
            Asked::Delivery { .. } => 2,
            Asked::OrderStatus { .. } => 3,
            Asked::StockLevel { .. } => 4,
        }
    }

    /// It, as numbers: [`Asked::read`] reads them.
    pub fn numbers(&self) -> Vec<u64> {
        match self {
            Asked::NewOrder(order) => {
                let NewOrder { home, district, customer, name, takes_back, lines } = order;
                let head = [home.0.into(), *district, *customer, *name, u64::from(*takes_back)];
                let lines = lines.iter();
                let lines = lines.flat_map(|l| [l.supply.0.into(), l.item, l.quantity]);
                head.into_iter().chain(lines).collect()
            }
            Asked::Payment(paid) => vec![
                paid.home.0.into(),
                paid.district,
                paid.there.0.into(),
                paid.of_customer,
                paid.customer,
                u64::from(paid.by_name),
                paid.amount,
                paid.name,
            ],
            Asked::Delivery { home, district, carrier } => vec![home.0.into(), *district, *carrier],
            Asked::OrderStatus { home, district, customer } => {
                vec![home.0.into(), *district, *customer]
            }
            Asked::StockLevel { home, district } => vec![home.0.into(), *district],
        }
    }

    /// Reads what a client asks for: one of [`KINDS`], and its numbers.
    ///
    /// # Errors
    /// What is wrong with them, in words.
    pub fn read(kind: &str, numbers: &[u64], layout: &Layout) -> Result<Asked, String> {
        let shards = u64::from(layout.shards());
        let within = |what: &str, value: u64, below: u64| {
            if value < below {
                return Ok(value);
            }
            Err(format!("{what} is {value}; it must be 0 to {}", below - 1))
        };
        let shard = |what, value| within(what, value, shards).map(|shard| Shard(shard as u32));
        let district = |value| within("district", value, DISTRICTS);
        let customer = |value| within("customer", value, CUSTOMERS);
        let name = |value| within("name", value, 1 << 62);
        Ok(match (kind, numbers) {
            ("new_order", [home, of, who, called, back, rest @ ..]) => {
                let mut lines: Vec<Line> = Vec::new();
                for line in rest.chunks(3) {
                    let [supply, item, quantity] = line else {
                        return Err("a line is a supplier, an item and a quantity".into());
                    };
                    let line = Line {
                        supply: shard("supplier", *supply)?,
                        item: within("item", *item, ITEMS)?,
                        quantity: within("quantity", *quantity, 10 * LINES_MAX as u64 + 1)?,
                    };
                    if lines.iter().any(|l| (l.supply, l.item) == (line.supply, line.item)) {
                        return Err(format!("item {item} of supplier {supply} has two lines"));
                    }
                    lines.push(line);
                }
                if lines.is_empty() || lines.len() > LINES_MAX {
                    let many = lines.len();
                    return Err(format!(
                        "an order has {many} lines; it must have 1 to {LINES_MAX}"
                    ));
                }
                Asked::NewOrder(NewOrder {
                    home: shard("warehouse", *home)?,
                    district: district(*of)?,
                    customer: customer(*who)?,
                    name: name(*called)?,
                    takes_back: within("takes_back", *back, 2)? == 1,
                    lines,
                })
            }
            ("payment", [home, of, there, of_customer, who, by_name, amount, called]) => {
                Asked::Payment(Payment {
                    home: shard("warehouse", *home)?,
                    district: district(*of)?,
                    there: shard("warehouse of the customer", *there)?,
                    of_customer: within("district of the customer", *of_customer, DISTRICTS)?,
                    customer: customer(*who)?,
                    by_name: within("by_name", *by_name, 2)? == 1,
                    amount: within("amount", *amount, 1_000_000)?,
                    name: name(*called)?,
                })
            }
            ("delivery", [home, of, carrier]) => Asked::Delivery {
                home: shard("warehouse", *home)?,
                district: district(*of)?,
                carrier: within("carrier", *carrier, 11)?,
            },
            ("order_status", [home, of, who]) => Asked::OrderStatus {
                home: shard("warehouse", *home)?,
                district: district(*of)?,
                customer: customer(*who)?,
            },
            ("stock_level", [home, of]) => {
                Asked::StockLevel { home: shard("warehouse", *home)?, district: district(*of)? }
            }
            _ if KINDS.contains(&kind) => {
                return Err(format!("{} numbers are not what {kind} takes", numbers.len()));
            }
            _ => return Err(format!("{kind} is none of {}", KINDS.join(", "))),
        })
    }

    /// The transaction.
    pub fn txn(&self, id: TxnId) -> Txn {
        Txn::new(id, self.kind(), self.pieces())
    }

    fn pieces(&self) -> Vec<Piece> {
        match self {
            Asked::NewOrder(order) => order.pieces(),
            Asked::Payment(paid) => paid.pieces(),
            Asked::Delivery { home, district, carrier } => {
                let own = district_row(*home, *district);
                let accesses = vec![write(QUEUE, own), write(OWED, own)];
                vec![Piece::new(*home, DELIVER, vec![*carrier as i64], accesses)]
            }
            Asked::OrderStatus { home, district, customer } => {
                let customer = customer_row(*home, *district, *customer);
                let accesses = vec![read(CUSTOMER, customer), read(LAST_OF_CUSTOMER, customer)];
                vec![Piece::new(*home, LOOK, Vec::new(), accesses)]
            }
            Asked::StockLevel { home, district } => {
                let own = district_row(*home, *district);
                let accesses = vec![read(DISTRICT_NEXT, own), read(RECENT, own)];
                vec![Piece::new(*home, LOOK, Vec::new(), accesses)]
            }
        }
    }
}

impl NewOrder {
    fn pieces(&self) -> Vec<Piece> {
        let NewOrder { home, district, customer, name, takes_back, ref lines } = *self;
        let own = district_row(home, district);
        let customer = customer_row(home, district, customer);
        let takes_back = i64::from(takes_back);
        let accesses = vec![
            read(WAREHOUSE_TAX, u64::from(home.0)),
            write(DISTRICT_NEXT, own),
            read(CUSTOMER, customer),
            write(ORDER, name),
            write(QUEUE, own),
            write(RECENT, own),
            write(LAST_OF_CUSTOMER, customer),
        ];
        let mut args = vec![takes_back, customer as i64, name as i64];
        args.extend(lines.iter().map(|line| line.item as i64));
        let mut pieces = vec![Piece::new(home, ORDER_HOME, args, accesses)];
        pieces.extend(self.stock(takes_back));
        pieces
    }

    /// What it takes from the stock of each of its suppliers.
    pub(super) fn stock(&self, takes_back: i64) -> Vec<Piece> {
        let mut shards: Vec<Shard> = self.lines.iter().map(|line| line.supply).collect();
        shards.sort_unstable();
        shards.dedup();
        let piece = |shard: Shard| {
            let here = || self.lines.iter().filter(move |line| line.supply == shard);
            let accesses: Vec<Access> = here().map(|line| write(STOCK, stock_row(line))).collect();
            let quantities = here().map(|line| line.quantity as i64);
            let args = [takes_back].into_iter().chain(quantities).collect();
            Piece::new(shard, ORDER_STOCK, args, accesses)
        };
        shards.into_iter().map(piece).collect()
    }
}

impl Payment {
    /// The row of its customer.
    pub(super) fn customer_row(&self) -> u64 {
        customer_row(self.there, self.of_customer, self.customer)
    }

    fn pieces(&self) -> Vec<Piece> {
        let own = district_row(self.home, self.district);
        let customer = self.customer_row();
        let amount = self.amount as i64;
        let accesses = vec![write(WAREHOUSE_YTD, u64::from(self.home.0)), write(DISTRICT_YTD, own)];
        let pay_home = Piece::new(self.home, PAY_HOME, vec![amount], accesses);
        let accesses = vec![write(CUSTOMER, customer)];
        let args = vec![amount, customer as i64];
        let mut pay = Piece::new(self.there, PAY_CUSTOMER, args.clone(), accesses);
        let accesses = vec![write(HISTORY, self.name)];
        let mut insert = Piece::new(self.home, PAY_HISTORY, args, accesses);
        if self.by_name {
            pay.gives.push(Var(0));
            insert.needs.push(Var(0));
        }
        vec![pay_home, pay, insert]
    }
}

/// A transaction that says what rows of one shard hold: numbers, or none for a row that is not
/// there. At most [`ROWS_MAX`], each once.
pub fn look_at(id: TxnId, shard: Shard, keys: &[Key]) -> Txn {
    let accesses = keys.iter().map(|key| Access { key: *key, write: false }).collect();
    Txn::new(id, KINDS.len() as u16, vec![Piece::new(shard, ROWS, Vec::new(), accesses)])
}

/// Rows that are looked at together, at most.
pub const ROWS_MAX: usize = 1_000;
