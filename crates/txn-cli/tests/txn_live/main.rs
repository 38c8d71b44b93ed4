//! A cluster of real processes, spoken to by clients of Redis that nobody here wrote, and by one
//! that keeps histories for the checker.
#![allow(clippy::disallowed_methods, reason = "a test of processes waits in real time")]

mod clients;
mod cluster;
mod faults;
mod line;
mod load;
mod measure;
mod resp;
