//! The vocabularies of inputs and effects.
//!
//! Every protocol speaks one of them, so that a world implements a binding for each and not one per
//! protocol. Messages ([`packet`]) and streams ([`stream`]) move over the same packets.

pub mod cpu;
pub mod message;
pub mod packet;
pub mod probe;
pub mod stream;

/// A node of the system under study: a host, a server, a data centre.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Node(pub u32);
