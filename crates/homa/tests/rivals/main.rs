//! The rivals of Homa, by the clauses of their sources and over a small network.

mod exactly_once;
mod network;
mod transports;
