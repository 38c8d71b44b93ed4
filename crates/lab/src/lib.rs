//! cavy-lab
pub mod pending;
pub mod statistics;
