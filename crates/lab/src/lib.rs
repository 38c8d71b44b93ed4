//! cavy-lab
pub mod pending;
