//! Search that is spread over many servers, and how far to spread it.
//!
//! **Problem.** A query must meet every object once, so it goes to p servers, each of which scans a
//! p-th of the objects. A larger p makes each query faster and all queries together dearer. The
//! best p depends on the load, and classic systems fix it when they are built.
//!
//! **Promise.** ROAR keeps the objects on arcs of a ring, so that p is an arc's length and can be
//! changed while it runs. Rings, plans and schedulers are exact in integers: [`plan::verify`] says
//! of any plan whether it meets every object once, on a server that holds it. Rivals make plans of
//! the same form from the same predictions, so that they can be compared.
//!
//! **Not here.** No clock, no network, no index. To a scheduler a server is a number, and what it
//! takes is handed in as [`cost::Load`].
//!
//! **Reading order.** [`ring`], [`plan`], [`cost`], [`sweep`], [`refine`], [`place`]; then the
//! rivals in [`clusters`], [`window`], [`ideal`], [`random`]; [`scheme`] makes plans by any of
//! them, [`balance`] says where borders should be, and [`loss`] what failures take. [`cluster`] has
//! the machines that do all this while servers fail and p changes.
#![no_std]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod balance;
pub mod cluster;
pub mod clusters;
pub mod cost;
pub mod ideal;
pub mod loss;
pub mod place;
pub mod plan;
pub mod random;
pub mod refine;
pub mod ring;
pub mod scheme;
pub mod sweep;
pub mod window;

pub use cost::{Cost, Load};
pub use plan::Part;
pub use ring::{Arc, Id, Ring, Slice};
pub use scheme::{Planner, Scheme};
