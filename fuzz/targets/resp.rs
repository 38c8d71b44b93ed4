//! Requests of clients, as they come in parts. Whatever is read takes bytes and keeps the limits,
//! and what was read whole is not read from a part.

use cavy_resp::request::{Limits, read};

pub fn run(bytes: &[u8]) {
    let limits = Limits { words: 16, word_bytes: 64, bytes: 512 };
    let mut at = 0;
    while let Ok(Some(request)) = read(&bytes[at..], &limits) {
        assert!(request.length > 0 && at + request.length <= bytes.len());
        assert!(request.words.len() <= limits.words);
        assert_eq!(read(&bytes[at..at + request.length - 1], &limits), Ok(None));
        at += request.length;
    }
}
