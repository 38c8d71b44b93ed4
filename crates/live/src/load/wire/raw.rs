//! Questions and answers straight on TCP, for services without a protocol of their own: lines, and
//! octets whose number is known or said before them.

use crate::load::target::Outcome;
use crate::load::wire::{Protocol, REPLY_BYTES_MAX, Reply, beginning};

/// Longest line of an answer.
const LINE_BYTES_MAX: usize = 1 << 20;
/// Longest question.
const QUESTION_BYTES_MAX: usize = 16 << 20;
/// What says a length before octets: 4 octets, the highest first.
const PREFIX_BYTES: usize = 4;

/// Questions by type, and where their answers end.
#[derive(Clone, Debug)]
pub struct Raw {
    questions: Vec<Question>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Question {
    bytes: Vec<u8>,
    end: End,
}

/// Where an answer ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// Behind the first newline.
    Line,
    /// After so many octets.
    After(usize),
    /// After as many as its first four say.
    Said,
}

const FORMS: &str = "write `line TEXT`, `block BYTES`, `echo BYTES` or `framed TEXT`";

impl Raw {
    /// Reads questions:
    ///
    /// - `line TEXT` sends the text and a newline; the answer is one line.
    /// - `block BYTES` sends that number in four octets; the answer is so many octets, as `cavy
    ///   live tcp serve blocks` gives them.
    /// - `echo BYTES` sends so many octets; the answer is as many.
    /// - `framed TEXT` sends the length of the text in four octets and the text; so is the answer.
    ///
    /// Within a text `\n`, `\r`, `\t`, `\0`, `\\` and `\xHH` stand for what they usually do.
    ///
    /// # Errors
    /// A sentence about the question that cannot be sent.
    pub fn new(texts: &[String]) -> Result<Raw, String> {
        Ok(Raw { questions: texts.iter().map(|text| question(text)).collect::<Result<_, _>>()? })
    }
}

fn question(text: &str) -> Result<Question, String> {
    let trimmed = text.trim_start();
    let (form, rest) = trimmed.split_once(' ').unwrap_or((trimmed, ""));
    let number = || {
        let bytes = rest.trim().replace('_', "").parse().ok();
        let good = bytes.filter(|bytes| (1..=REPLY_BYTES_MAX).contains(bytes));
        good.ok_or_else(|| format!("`{text}`: `{form}` takes a number from 1 to {REPLY_BYTES_MAX}"))
    };
    match form {
        "line" => {
            let mut bytes = unescaped(rest)?;
            bytes.push(b'\n');
            Ok(Question { bytes, end: End::Line })
        }
        "block" => {
            let bytes = number()?;
            // At most 64 MiB.
            Ok(Question { bytes: (bytes as u32).to_be_bytes().to_vec(), end: End::After(bytes) })
        }
        "echo" => {
            let bytes = number()?;
            if bytes > QUESTION_BYTES_MAX {
                return Err(format!(
                    "`{text}`: a question has at most {QUESTION_BYTES_MAX} octets"
                ));
            }
            Ok(Question { bytes: vec![b'q'; bytes], end: End::After(bytes) })
        }
        "framed" => {
            let body = unescaped(rest)?;
            // An argument of a command is far below 4 GiB.
            let mut bytes = (body.len() as u32).to_be_bytes().to_vec();
            bytes.extend(body);
            Ok(Question { bytes, end: End::Said })
        }
        _ => Err(format!("`{text}` does not say where its answer ends; {FORMS}")),
    }
}

fn unescaped(text: &str) -> Result<Vec<u8>, String> {
    let wrong = |what: &str| format!("`{text}`: {what}; write \\\\ for a backslash");
    let mut bytes = Vec::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            bytes.extend(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        bytes.push(match chars.next() {
            Some('n') => b'\n',
            Some('r') => b'\r',
            Some('t') => b'\t',
            Some('0') => 0,
            Some('\\') => b'\\',
            Some('x') => {
                let digits: String = chars.by_ref().take(2).collect();
                let octet = u8::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 2);
                octet.ok_or_else(|| wrong("\\x takes two hexadecimal digits"))?
            }
            _ => return Err(wrong("a backslash stands before n, r, t, 0, x or a backslash")),
        });
    }
    Ok(bytes)
}

fn whole(length: usize) -> Reply {
    Reply::Whole { length, outcome: Outcome::Answered, close: false }
}

impl Protocol for Raw {
    fn request(&self, kind: u16) -> &[u8] {
        self.questions.get(usize::from(kind)).map_or(&[], |question| question.bytes.as_slice())
    }

    fn reply(&self, kind: u16, bytes: &[u8]) -> Reply {
        let Some(question) = self.questions.get(usize::from(kind)) else { return Reply::Broken };
        let length = match question.end {
            End::Line => {
                let newline = bytes.iter().take(LINE_BYTES_MAX).position(|&byte| byte == b'\n');
                return match newline {
                    Some(place) => whole(place + 1),
                    None if bytes.len() < LINE_BYTES_MAX => Reply::Partial,
                    None => Reply::Broken,
                };
            }
            End::After(length) => length,
            End::Said => match bytes.first_chunk::<PREFIX_BYTES>() {
                None => return Reply::Partial,
                Some(prefix) => PREFIX_BYTES + u32::from_be_bytes(*prefix) as usize,
            },
        };
        match length {
            length if length > REPLY_BYTES_MAX + PREFIX_BYTES => Reply::Broken,
            length if length <= bytes.len() => whole(length),
            _ => Reply::Partial,
        }
    }

    fn complaint(&self, bytes: &[u8]) -> String {
        format!("an answer without end: `{}`", beginning(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn raw(text: &str) -> Raw {
        Raw::new(&[text.to_string()]).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn questions_are_written_as_they_say() {
        assert_eq!(raw("line GET key1").request(0), b"GET key1\n");
        assert_eq!(raw("line").request(0), b"\n");
        assert_eq!(raw(r"line a\r").request(0), b"a\r\n");
        assert_eq!(raw("block 65_536").request(0), [0, 1, 0, 0]);
        assert_eq!(raw("echo 3").request(0), b"qqq");
        assert_eq!(raw(r"framed \x00\xff\\").request(0), [0, 0, 0, 3, 0, 255, b'\\']);
        assert_eq!(raw("echo 3").request(7), b"", "no such type");
    }

    #[test]
    fn answers_end_where_the_question_says() {
        let part = |text: &str, bytes: &[u8]| raw(text).reply(0, bytes);
        assert_eq!(part("line a", b"yes\nno\n"), whole(4));
        assert_eq!(part("line a", b"yes"), Reply::Partial);
        assert_eq!(part("line a", &[b'a'; LINE_BYTES_MAX]), Reply::Broken);
        assert_eq!(part("block 4", b"123"), Reply::Partial);
        assert_eq!(part("block 4", b"12345"), whole(4));
        assert_eq!(part("echo 1", b"1"), whole(1));
        assert_eq!(part("framed a", &[0, 0, 0]), Reply::Partial);
        assert_eq!(part("framed a", &[0, 0, 0, 0]), whole(4), "an empty answer");
        assert_eq!(part("framed a", &[0, 0, 0, 2, 1]), Reply::Partial);
        assert_eq!(part("framed a", &[0, 0, 0, 2, 1, 2, 3]), whole(6));
        assert_eq!(part("framed a", &[255; 9]), Reply::Broken);
    }

    #[test]
    fn what_cannot_be_sent_is_said() {
        for (text, said) in [
            ("", "does not say where its answer ends"),
            ("GET key1", "does not say where its answer ends"),
            ("block", "takes a number from 1 to"),
            ("block 0", "takes a number from 1 to"),
            ("block 99999999999", "takes a number from 1 to"),
            ("echo 20000000", "at most 16777216 octets"),
            (r"line \q", "a backslash stands before"),
            (r"framed \x1", "two hexadecimal digits"),
        ] {
            let error = Raw::new(&[text.to_string()]).expect_err(text);
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn reading_is_total(
            bytes in proptest::collection::vec(any::<u8>(), 0..40), form in 0..4_usize,
        ) {
            let raw = raw(["line a", "block 7", "echo 7", "framed a"][form]);
            if let Reply::Whole { length, .. } = raw.reply(0, &bytes) {
                prop_assert!(length <= bytes.len());
            }
        }
    }
}
