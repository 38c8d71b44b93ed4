//! The corpus of the fuzzers `wire` and `machine`, replayed through the functions that they run.

use std::path::Path;

#[path = "../../../fuzz/targets/machine.rs"]
mod machine;
#[path = "../../../fuzz/targets/wire.rs"]
mod wire;

fn replay(target: &str, least: usize, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("the corpus") {
        let path = entry.expect("a file").path();
        println!("{}", path.display());
        run(&std::fs::read(path).expect("it can be read"));
        count += 1;
    }
    assert!(count >= least, "{count} of {least} files of {target}");
}

#[test]
fn the_corpus_of_packets_is_replayed() {
    replay("wire", 20, wire::run);
}

#[test]
fn the_corpus_of_conversations_is_replayed() {
    replay("machine", 6, machine::run);
}
