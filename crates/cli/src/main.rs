//! The `cavy` command.
fn main() {}
