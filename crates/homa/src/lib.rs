//! Homa, a receiver-driven transport of messages that uses network priorities ([homa 1]), and its rivals.
#![no_std]
extern crate alloc;

pub mod rivals;
