//! The command `cavy-live`, which `cavy live` and `cavy load` run.

fn main() {}
