//! Requests as they come over the wire: an array of bulk strings, or words on a line.
//!
//! Everything is limited before it is stored, so that a client decides about no memory but the
//! bytes it sends, and those are limited too.

/// What a request may be. More is refused before it is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Words.
    pub words: usize,
    /// Bytes of one word.
    pub word_bytes: usize,
    /// Bytes of all.
    pub bytes: usize,
}

impl Limits {
    /// Those of a node's clients.
    pub const fn of_nodes() -> Limits {
        Limits { words: 65_536, word_bytes: 64 << 20, bytes: 80 << 20 }
    }

    /// Few words, one of which is long.
    pub const fn small(word_bytes: usize) -> Limits {
        Limits { words: 64, word_bytes, bytes: word_bytes + REST_BYTES_MAX }
    }
}

/// Longest line: words typed by hand, or the length of a bulk string.
const LINE_BYTES_MAX: usize = 4_096;

/// Bytes of a request beside its longest word.
const REST_BYTES_MAX: usize = 8_192;

/// A request and the bytes it takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// Its words; none for an empty line.
    pub words: Vec<Vec<u8>>,
    /// Bytes of it.
    pub length: usize,
}

/// Looks for a whole request at the beginning of `bytes`; `None` when more must come.
///
/// # Errors
/// What the client did that no client should.
pub fn read(bytes: &[u8], limits: &Limits) -> Result<Option<Request>, &'static str> {
    match bytes.first() {
        None => Ok(None),
        Some(b'*') => array(bytes, limits),
        Some(_) => typed(bytes, limits),
    }
}

/// The line at `at` without its end, and where the next begins.
fn line(bytes: &[u8], at: usize) -> Result<Option<(&[u8], usize)>, &'static str> {
    let rest = bytes.get(at..).unwrap_or(&[]);
    let looked = &rest[..rest.len().min(LINE_BYTES_MAX)];
    match looked.iter().position(|byte| *byte == b'\n') {
        Some(end) => {
            let text = &looked[..end];
            Ok(Some((text.strip_suffix(b"\r").unwrap_or(text), at + end + 1)))
        }
        None if rest.len() >= LINE_BYTES_MAX => Err("too big inline request"),
        None => Ok(None),
    }
}

fn typed(bytes: &[u8], limits: &Limits) -> Result<Option<Request>, &'static str> {
    let Some((text, length)) = line(bytes, 0)? else { return Ok(None) };
    let words = text.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let words: Vec<Vec<u8>> = words.map(<[u8]>::to_vec).collect();
    if words.len() > limits.words {
        return Err("too many words");
    }
    Ok(Some(Request { words, length }))
}

fn array(bytes: &[u8], limits: &Limits) -> Result<Option<Request>, &'static str> {
    let Some((text, mut at)) = line(bytes, 0)? else { return Ok(None) };
    let count = number(&text[1..]).ok_or("invalid multibulk length")?;
    if count > limits.words as i64 {
        return Err("invalid multibulk length");
    }
    let mut spans = Vec::new();
    // Redis takes a length of 0 or less as nothing asked.
    for _ in 0..count.max(0) {
        let Some((text, start)) = line(bytes, at)? else { return Ok(None) };
        let Some((b'$', digits)) = text.split_first() else { return Err("expected '$'") };
        let length = number(digits).and_then(|length| usize::try_from(length).ok());
        let length = length.filter(|length| *length <= limits.word_bytes);
        let end = start + length.ok_or("invalid bulk length")?;
        if end > limits.bytes {
            return Err("too big request");
        }
        match bytes.get(end..end + 2) {
            Some(b"\r\n") => {}
            Some(_) => return Err("expected CRLF after a bulk string"),
            None => return Ok(None),
        }
        spans.push(start..end);
        at = end + 2;
    }
    let words = spans.into_iter().map(|span| bytes[span].to_vec()).collect();
    Ok(Some(Request { words, length: at }))
}

fn number(digits: &[u8]) -> Option<i64> {
    if digits.len() > 12 {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(words: &[&str]) -> Vec<Vec<u8>> {
        words.iter().map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn requests_are_found_whole_and_in_parts() {
        for (text, expected) in [
            ("*2\r\n$3\r\nGET\r\n$4\r\nkey1\r\n", words(&["GET", "key1"])),
            ("*1\r\n$4\r\na\r\nb\r\n", words(&["a\r\nb"])),
            ("*2\r\n$0\r\n\r\n$1\r\nx\r\n", words(&["", "x"])),
            ("*0\r\n", words(&[])),
            ("*-1\r\n", words(&[])),
            ("PING\r\n", words(&["PING"])),
            ("  get  key1 \n", words(&["get", "key1"])),
            ("\r\n", words(&[])),
        ] {
            let more = format!("{text}PING\r\n");
            let found = read(more.as_bytes(), &Limits::small(100));
            assert_eq!(found, Ok(Some(Request { words: expected, length: text.len() })), "{text}");
            for end in 0..text.len() {
                assert_eq!(
                    read(&text.as_bytes()[..end], &Limits::small(100)),
                    Ok(None),
                    "{text} {end}"
                );
            }
        }
    }

    #[test]
    fn nothing_beyond_the_limits_is_waited_for() {
        for text in [
            "*65\r\n",
            "*9999999999999\r\n",
            "*x\r\n",
            "*1\r\n$101\r\n",
            "*1\r\n$-1\r\n",
            "*1\r\n$99999999999999999999\r\n",
            "*1\r\n+OK\r\n",
            "*1\r\n$1\r\nabc",
        ] {
            assert!(read(text.as_bytes(), &Limits::small(100)).is_err(), "{text}");
        }
        assert!(read(&[b'a'; LINE_BYTES_MAX], &Limits::small(100)).is_err());
        assert!(read(&[b'*'; LINE_BYTES_MAX], &Limits::small(100)).is_err());
        let long = format!("*3\r\n{}", "$5000\r\n".to_string() + &"x".repeat(5_000) + "\r\n");
        let long = long.clone() + &long[4..];
        assert_eq!(
            read(long.as_bytes(), &Limits::small(5_000)),
            Ok(None),
            "10 000 bytes and 8 192 more"
        );
        let longer = long.clone() + &long[4..];
        assert!(read(longer.as_bytes(), &Limits::small(5_000)).is_err());
    }

    proptest! {
        #[test]
        fn reading_is_total(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(Some(request)) = read(&bytes, &Limits::small(50)) {
                prop_assert!(request.length <= bytes.len() && request.length > 0);
            }
        }

        #[test]
        fn what_is_nearly_right_is_read_without_fault(text in "[*$0-9\r\n a-]{0,60}") {
            if let Ok(Some(request)) = read(text.as_bytes(), &Limits::small(50)) {
                prop_assert!(request.length <= text.len());
                prop_assert!(request.words.iter().all(|word| word.len() <= LINE_BYTES_MAX));
            }
        }

        #[test]
        fn what_a_client_writes_is_read_back(
            words in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..8),
        ) {
            let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
            for word in &words {
                bytes.extend(format!("${}\r\n", word.len()).as_bytes());
                bytes.extend(word);
                bytes.extend(b"\r\n");
            }
            let length = bytes.len();
            prop_assert_eq!(read(&bytes, &Limits::small(40)), Ok(Some(Request { words, length })));
        }
    }
}
