//! The search cluster: see the library.
fn main() {}
