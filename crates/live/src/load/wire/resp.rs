//! RESP, the protocol of Redis: commands as arrays of bulk strings, answers of RESP2 and RESP3.

use crate::load::target::Outcome;
use crate::load::wire::{Protocol, REPLY_BYTES_MAX, Reply, beginning};

/// Longest line within an answer, apart from bulk strings.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Commands of RESP by type.
#[derive(Clone, Debug)]
pub struct Resp {
    commands: Vec<Vec<u8>>,
}

impl Resp {
    /// Commands, each written as words such as `GET key1`.
    ///
    /// # Errors
    /// A sentence about the command that cannot be sent.
    pub fn new(commands: &[String]) -> Result<Resp, String> {
        let command = |text: &String| {
            let words: Vec<&str> = text.split_whitespace().collect();
            if words.is_empty() {
                return Err("a command has at least one word, such as `PING`".to_string());
            }
            let mut bytes = format!("*{}\r\n", words.len());
            for word in words {
                bytes.push_str(&format!("${}\r\n{word}\r\n", word.len()));
            }
            Ok(bytes.into_bytes())
        };
        Ok(Resp { commands: commands.iter().map(command).collect::<Result<_, _>>()? })
    }
}

impl Protocol for Resp {
    fn request(&self, kind: u16) -> &[u8] {
        self.commands.get(usize::from(kind)).map_or(&[], Vec::as_slice)
    }

    fn reply(&self, _kind: u16, bytes: &[u8]) -> Reply {
        match walk(bytes) {
            Ok(Some(length)) => {
                Reply::Whole { length, outcome: outcome(&bytes[..length]), close: false }
            }
            Ok(None) if bytes.len() < REPLY_BYTES_MAX => Reply::Partial,
            _ => Reply::Broken,
        }
    }

    fn complaint(&self, bytes: &[u8]) -> String {
        match bytes.first() {
            Some(b'-') => beginning(bytes),
            _ => format!("no RESP: `{}`", beginning(bytes)),
        }
    }
}

fn outcome(reply: &[u8]) -> Outcome {
    if reply.first() != Some(&b'-') {
        return Outcome::Answered;
    }
    let text = String::from_utf8_lossy(reply).to_ascii_lowercase();
    if text.contains("overloaded") { Outcome::Overloaded } else { Outcome::ServerError }
}

/// Length of the answer at the beginning of `bytes`; `None` when it is not all there. Nested
/// answers are counted and not followed, so their depth does not matter.
fn walk(bytes: &[u8]) -> Result<Option<usize>, ()> {
    let mut left: u64 = 1;
    let mut at = 0;
    while left > 0 {
        let rest = &bytes[at..];
        let Some(end) = rest.windows(2).position(|two| two == b"\r\n") else {
            return if rest.len() > LINE_BYTES_MAX { Err(()) } else { Ok(None) };
        };
        let Some((kind, line)) = rest[..end].split_first() else { return Err(()) };
        at += end + 2;
        left -= 1;
        match kind {
            b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => {}
            b'$' | b'=' | b'!' => {
                let Some(length) = number(line)? else { continue };
                at += length + 2;
                if at > REPLY_BYTES_MAX {
                    return Err(());
                }
                match bytes.get(at - 2..at) {
                    Some(b"\r\n") => {}
                    Some(_) => return Err(()),
                    None => return Ok(None),
                }
            }
            b'*' | b'~' | b'>' => left += number(line)?.unwrap_or(0) as u64,
            b'%' => left += 2 * number(line)?.unwrap_or(0) as u64,
            _ => return Err(()),
        }
        // Each element takes at least three bytes.
        if left > REPLY_BYTES_MAX as u64 / 3 {
            return Err(());
        }
    }
    Ok(Some(at))
}

/// A length; `None` is -1, "nothing".
fn number(line: &[u8]) -> Result<Option<usize>, ()> {
    let text = std::str::from_utf8(line).map_err(|_| ())?;
    match text.parse::<i64>() {
        Ok(-1) => Ok(None),
        Ok(length) if (0..=REPLY_BYTES_MAX as i64).contains(&length) => Ok(Some(length as usize)),
        _ => Err(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn answers_are_found_whole_and_in_parts() {
        for text in [
            "+OK\r\n",
            ":5\r\n",
            "$-1\r\n",
            "$5\r\na\r\nbc\r\n",
            "*0\r\n",
            "*-1\r\n",
            "*2\r\n$1\r\n0\r\n*2\r\n$4\r\nkey0\r\n$4\r\nkey1\r\n",
            "%1\r\n+a\r\n:1\r\n",
        ] {
            let more = format!("{text}+OK\r\n");
            assert_eq!(walk(more.as_bytes()), Ok(Some(text.len())), "{text}");
            for end in 0..text.len() {
                assert_eq!(walk(&text.as_bytes()[..end]), Ok(None), "{text} {end}");
            }
        }
    }

    #[test]
    fn what_is_no_answer_is_broken() {
        for text in
            ["HTTP/1.1 400\r\n", "$x\r\n", "$-2\r\n", "*99999999999\r\n", "$1\r\nabc", "\r\n"]
        {
            assert_eq!(walk(text.as_bytes()), Err(()), "{text}");
        }
    }

    #[test]
    fn errors_are_told_apart() {
        assert_eq!(outcome(b"+OK\r\n"), Outcome::Answered);
        assert_eq!(outcome(b"-ERR overloaded: type get has 4096 queued\r\n"), Outcome::Overloaded);
        assert_eq!(outcome(b"-ERR unknown command\r\n"), Outcome::ServerError);
    }

    #[test]
    fn commands_are_written_as_arrays() {
        let resp = Resp::new(&["GET key1".to_string()]).expect("a command");
        assert_eq!(resp.request(0), b"*2\r\n$3\r\nGET\r\n$4\r\nkey1\r\n");
        assert!(Resp::new(&["  ".to_string()]).is_err());
    }

    proptest! {
        #[test]
        fn reading_is_total(text in "[*$+:%-]?[0-9*$\r\n-]{0,40}") {
            if let Ok(Some(length)) = walk(text.as_bytes()) {
                prop_assert!(length <= text.len());
            }
        }
    }
}
