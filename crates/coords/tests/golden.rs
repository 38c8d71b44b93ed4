//! Predictors say the same to the bit in debug, in release and on wasm32, and as yesterday.

#[path = "../../../tests/wasm/coords.rs"]
mod golden;

#[test]
fn golden_digests() {
    let found = golden::COORDS.map(|one| golden::digest(&one));
    for (golden, found) in golden::COORDS.iter().zip(found) {
        println!("{}: 0x{found:016X}", golden.0);
    }
    for (golden, found) in golden::COORDS.iter().zip(found) {
        assert_eq!(found, golden.1, "{}: found 0x{found:016X}", golden.0);
    }
}
