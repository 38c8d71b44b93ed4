//! Who is near, before anybody has asked: network coordinates on the globe ([htrae 1]).
//!
//! **Problem.** A player, a client or a replica should be served from near by. Measuring every
//! candidate takes time that nobody has; a database of addresses is at once, and for some wrong for
//! ever; coordinates that are learnt from nothing need more probes than a player ever makes.
//!
//! **Promise.** A machine begins where its address is said to be, on a sphere, and every round trip
//! moves it. A prediction is a function of two coordinates and costs tens of nanoseconds. What
//! makes no sense is refused and changes nothing; all state stays in its range after every step.
//!
//! **Not here.** No socket, no clock, no database of places, no data. Who is probed, and when, is a
//! world's or a study's affair.
//!
//! **Reading order.** [`sphere`] and [`map`], the space; [`config`] and [`model`], coordinates in
//! it; [`start`], [`filter`], [`history`] and [`systems`], what surrounds them; then
//! [`predictors`], Htrae among those it is compared with; and [`agent`], the machine that keeps a
//! coordinate on a network, with what it says in [`wire`].
#![no_std]
extern crate alloc;

pub mod agent;
mod arc;
pub mod config;
pub mod filter;
pub mod history;
pub mod map;
pub mod model;
pub mod predictors;
pub mod sphere;
pub mod start;
pub mod systems;
pub mod wire;

pub use config::{Config, ConfigError, Detours};
pub use map::Line;
pub use model::{Coordinate, Learnt, predict_each, predict_ms, update};
pub use sphere::Point;
