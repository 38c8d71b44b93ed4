//! Plans of the program's live studies.

/// Short requests beside long ones, on one server.
pub const L1: &str = include_str!("l1.toml");
/// A mix that changes.
pub const L4: &str = include_str!("l4.toml");
/// Messages between hosts.
pub const HOMA: &str = include_str!("homa.toml");
/// Many answers to one host at once.
pub const INCAST: &str = include_str!("incast.toml");
/// Blocks that collide at a port.
pub const TCP: &str = include_str!("tcp.toml");
