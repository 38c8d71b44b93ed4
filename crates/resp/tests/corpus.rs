//! The corpus of the fuzzer `resp`.

#[path = "../../../fuzz/targets/resp.rs"]
mod target;

#[test]
fn requests_of_the_corpus() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/resp");
    let mut seen = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        target::run(&std::fs::read(file.unwrap().path()).unwrap());
        seen += 1;
    }
    assert!(seen >= 3, "the corpus is thin");
}
