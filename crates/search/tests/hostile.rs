//! A server among liars, by bytes of chance. `CAVY_FUZZ=1000000 cargo test -p cavy-search --release
//! --test hostile` tries as many; `cargo fuzz run search` goes on from what it finds.

use cavy_core::{Purpose, Stream};

#[path = "../../../fuzz/targets/search.rs"]
mod target;

#[expect(clippy::disallowed_methods, reason = "a test may be asked for more")]
fn tries(usual: u64) -> u64 {
    std::env::var("CAVY_FUZZ").ok().and_then(|many| many.parse().ok()).unwrap_or(usual)
}

#[test]
fn a_server_among_liars_answers_for_what_it_holds_alone() {
    for seed in 0..tries(3_000) {
        let mut draws = Stream::keyed(seed, 0, Purpose::Test);
        let bytes: Vec<u8> = (0..1_500).map(|_| draws.bits() as u8).collect();
        target::run(&bytes);
    }
}
