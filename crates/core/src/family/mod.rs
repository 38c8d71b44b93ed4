//! The four vocabularies of inputs and effects.
//!
//! Every protocol speaks one of them, so that each world implements four bindings and not one per
//! protocol.

pub mod cpu;
pub mod message;
pub mod packet;
pub mod probe;

/// A node of the system under study: a host, a server, a data centre.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Node(pub u32);
