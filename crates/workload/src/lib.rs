//! What arrives, when, and how much work it is.
#![no_std]
extern crate alloc;
