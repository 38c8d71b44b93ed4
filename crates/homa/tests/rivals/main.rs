//! The rivals of Homa, by the clauses of their sources and over a small network.

mod allocation;
mod clauses;
mod exactly_once;
mod laws;
mod load;
mod sharing;
mod transports;
