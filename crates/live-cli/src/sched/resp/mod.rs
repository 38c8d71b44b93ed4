//! The server over RESP2, the protocol of Redis, as far as unmodified clients of it need.

pub mod command;
pub mod connection;
