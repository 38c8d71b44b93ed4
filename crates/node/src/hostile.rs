//! Bytes of strangers and of broken disks: what the fuzzers `frames` and `log` run, and the replay
//! of their corpora as a test.

use crate::frame::{self, Key};
use crate::log::{self, Disk as _, Pretended};
use cavy_core::family::Node;

/// Longest frame that is read.
const MOST: usize = 1 << 16;

/// Reads a stream of frames, and the same bytes as a datagram. Whatever is read takes bytes, and a
/// stream that ends in the middle says so and nothing else.
pub fn frames(bytes: &[u8]) {
    let mut at = 0;
    while let Ok(Some((_, length))) = frame::read(&bytes[at..], MOST) {
        assert!(length > 0 && at + length <= bytes.len(), "a frame of {length} at {at}");
        for end in [at, at + length - 1] {
            assert_eq!(frame::read(&bytes[at..end], MOST).ok().flatten().map(|(_, n)| n), None);
        }
        at += length;
    }
    // Sums are hard to guess: the same bytes as bodies of frames whose sums are right.
    let mut framed = Vec::new();
    framed.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    framed.extend_from_slice(&crc32c::crc32c(bytes).to_le_bytes());
    framed.extend_from_slice(bytes);
    let _ = frame::read(&framed, MOST);
    let _ = frame::read_datagram(bytes, &Key::new(b""), Node(1));
}

/// Opens a log whose last segment holds these bytes, behind a header that is right and alone. What
/// opens, opens again to the same records.
pub fn log(bytes: &[u8]) {
    let mut headed = log::header(Node(1), 1, 1);
    headed.extend_from_slice(bytes);
    for content in [bytes, &headed] {
        let mut disk = Pretended::new();
        let name = log::segment_name(1);
        if disk.append(&name, content).and_then(|()| disk.sync(&name)).is_err() {
            continue;
        }
        if let Ok(first) = log::open(&mut disk, Node(1), 1) {
            let again = log::open(&mut disk, Node(1), 1).expect("it opened before");
            assert_eq!(first.records, again.records);
            assert_eq!(again.life, first.life + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn over(name: &str, run: fn(&[u8])) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
        let files = std::fs::read_dir(&folder).unwrap();
        let files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        assert!(files.len() >= 3, "the corpus in {} is thin", folder.display());
        for file in files {
            run(&std::fs::read(file).unwrap());
        }
    }

    #[test]
    fn corpus_of_frames() {
        over("frames", frames);
    }

    #[test]
    fn corpus_of_logs() {
        over("log", log);
    }

    proptest::proptest! {
        #[test]
        fn nothing_in_bytes_is_a_fault(bytes in proptest::collection::vec(0u8..=255, 0..300)) {
            frames(&bytes);
            log(&bytes);
        }
    }
}
