//! Transactions that run in one region or across several, by several protocols.
//!
//! **Problem.** A transaction of one region should not wait for one that crosses regions, and all
//! of them must be serializable, whatever crashes.
//!
//! **Promise.** Each protocol is a machine of the message family: no clock, no thread, no file. All
//! take the same transactions ([`txn`]), run the same procedures ([`procedure`]), and give the same
//! answers ([`client`]), so that they can be compared and their histories be judged alike.
//!
//! **Not here.** No workload and no network. Procedures are given by whoever runs a machine: TPC-C
//! in the lab, a script engine live.
//!
//! **Reading order.** [`txn`], [`procedure`], [`client`], [`layout`], [`store`], then a protocol.
#![no_std]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod client;
pub mod dast;
pub mod janus;
pub mod layout;
pub mod locking;
pub mod procedure;
pub mod raft;
pub mod registers;
pub mod slog;
pub mod station;
pub mod store;
pub mod tapir;
pub mod tpca;
pub mod tpcc;
pub mod txn;
pub mod types;
#[cfg(feature = "serde")]
pub(crate) mod wire;

pub use client::{Note, Op, Outcome, PieceResult, Request, Response};
pub use layout::{Layout, Region};
pub use procedure::{Given, Invocation, Procedures, Rows, Run};
pub use txn::{Access, Key, Piece, Shard, Ts, Txn, TxnId, Value, Var};
