//! The engine of experiments: plans, points, runs, searches, rankings, drawings, claims.
//!
//! **Problem.** A figure is only worth something if anybody can make it again, and vary it.
//!
//! **Promise.** Every figure is a [`plan`], the same kind of file a user writes for their own
//! workload; plans become [`experiment`]s of independent points, which the [`runner`] spreads over
//! cores; results do not depend on how many. A [`claim`] is data with its source, judged by values
//! that were measured without looking at it.
//!
//! **Not here.** No kind of plan and no source of figures: the room `kinds` says what plans can be
//! about, the room `sources` has what was published. This room knows neither. It has no printing,
//! no arguments and no clock: those are the command's.
//!
//! **Reading order.** [`plan`] and [`subject`], what a kind supplies; [`experiment`], [`point`],
//! [`runner`], [`search`], [`rank`] and [`draw`], what is done with it; [`kind`], [`source`] and
//! [`registry`], what commands see.

pub mod claim;
pub mod cost;
pub mod draw;
pub mod experiment;
pub mod kind;
pub mod objective;
pub mod outcome;
pub mod plan;
pub mod point;
pub mod rank;
pub mod registry;
pub mod runner;
pub mod search;
pub mod source;
pub mod store;
pub mod subject;
