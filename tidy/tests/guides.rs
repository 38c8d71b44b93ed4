//! Every guide is run by `make guides`, or says why not.

use cavy_tidy::guides::{GUIDES, NOT_RUN, blocks};
use cavy_tidy::{files, none};

#[test]
fn every_guide_is_run_or_says_why_not() {
    let mut faults = Vec::new();
    let mut seen = 0;
    for file in files().iter().filter(|file| file.path.starts_with("docs/guides/")) {
        seen += 1;
        let run = GUIDES.iter().filter(|guide| guide.page == file.stem()).count();
        let not = NOT_RUN.iter().filter(|(page, _)| *page == file.stem()).count();
        if run + not != 1 {
            faults.push(format!("{}: tidy/src/guides.rs names it {} times", file.path, run + not));
        }
    }
    assert_eq!(seen, GUIDES.len() + NOT_RUN.len(), "pages that are not there are named");
    none("guides are run", &faults);
}

#[test]
fn blocks_in_lists_are_found() {
    let page = "a\n\n1. b\n\n   ```sh\n   one\n   two\n   ```\n\n```text\nthree\n```\n";
    let all = blocks(page);
    assert_eq!(all[0], ("sh".to_string(), "one\ntwo\n".to_string()));
    assert_eq!(all[1], ("text".to_string(), "three\n".to_string()));
}
