//! Commands and their answers.

use crate::sched::figures;
use crate::sched::service::{Counted, Refusal, Scanned, Service};

/// An answer, ready to be written.
pub enum Answer {
    /// These bytes.
    Bytes(Vec<u8>),
    /// A value as a bulk string, or nothing.
    Value(Option<Counted>),
    /// All keys, for SCAN (with a cursor before them) or for KEYS.
    Keys(Scanned, bool),
    /// These bytes, then the end of the connection.
    Last(Vec<u8>),
}

impl Answer {
    fn ok() -> Answer {
        Answer::Bytes(b"+OK\r\n".to_vec())
    }

    fn error(reason: &str) -> Answer {
        Answer::Bytes(error(reason))
    }

    fn bulk(text: &[u8]) -> Answer {
        let mut bytes = format!("${}\r\n", text.len()).into_bytes();
        bytes.extend_from_slice(text);
        bytes.extend_from_slice(b"\r\n");
        Answer::Bytes(bytes)
    }

    /// Writes it to `out`; true when it is the last one.
    pub fn write(self, out: &mut Vec<u8>) -> bool {
        match self {
            Answer::Bytes(bytes) => out.extend_from_slice(&bytes),
            Answer::Value(None) => out.extend_from_slice(b"$-1\r\n"),
            Answer::Value(Some(value)) => {
                out.extend_from_slice(format!("${}\r\n", value.bytes.len()).as_bytes());
                out.extend_from_slice(&value.bytes);
                out.extend_from_slice(b"\r\n");
            }
            Answer::Keys(found, with_cursor) => {
                if with_cursor {
                    // The whole range in one step; a cursor of 0 says that nothing follows.
                    out.extend_from_slice(b"*2\r\n$1\r\n0\r\n");
                }
                out.extend_from_slice(format!("*{}\r\n", found.keys).as_bytes());
                out.extend_from_slice(&found.list.bytes);
            }
            Answer::Last(bytes) => {
                out.extend_from_slice(&bytes);
                return true;
            }
        }
        false
    }
}

/// An error on one line; what clients sent is not repeated in it unescaped.
pub fn error(reason: &str) -> Vec<u8> {
    let line: String = reason.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("-ERR {line}\r\n").into_bytes()
}

/// What Redis does for a client before it asks for anything real.
fn courtesy(name: &str, words: &[Vec<u8>]) -> Option<Answer> {
    let first = words.get(1).map(Vec::as_slice);
    Some(match (name, words.len()) {
        ("PING", 1) => Answer::Bytes(b"+PONG\r\n".to_vec()),
        ("PING" | "ECHO", 2) => Answer::bulk(first.unwrap_or_default()),
        // redis-benchmark asks for two settings before it starts.
        ("CONFIG", 3) if words[1].eq_ignore_ascii_case(b"GET") => {
            let name = &words[2];
            let mut bytes = format!("*2\r\n${}\r\n", name.len()).into_bytes();
            bytes.extend_from_slice(name);
            bytes.extend_from_slice(b"\r\n$0\r\n\r\n");
            Answer::Bytes(bytes)
        }
        ("COMMAND" | "CONFIG", _) => Answer::Bytes(b"*0\r\n".to_vec()),
        ("CLIENT", _) => Answer::ok(),
        ("SELECT", 2) if first == Some(b"0") => Answer::ok(),
        ("SELECT", 2) => Answer::error("DB index is out of range: there is only 0"),
        ("HELLO", 1) => hello(),
        ("HELLO", _) if first == Some(b"2") => hello(),
        ("HELLO", _) => Answer::Bytes(b"-NOPROTO this server speaks RESP2\r\n".to_vec()),
        ("QUIT", _) => Answer::Last(b"+OK\r\n".to_vec()),
        _ => return None,
    })
}

fn hello() -> Answer {
    let pairs = "$6\r\nserver\r\n$4\r\ncavy\r\n$7\r\nversion\r\n$5\r\n0.1.0\r\n\
                 $5\r\nproto\r\n:2\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n";
    Answer::Bytes(format!("*8\r\n{pairs}").into_bytes())
}

/// Carries out a request of at least one word.
pub async fn execute(service: &Service, words: Vec<Vec<u8>>) -> Answer {
    let name = String::from_utf8_lossy(&words[0]).to_ascii_uppercase();
    if let Some(answer) = courtesy(&name, &words) {
        return answer;
    }
    let done = match (name.as_str(), &words[1..]) {
        ("GET", [key]) => service.get(key).await.map(Answer::Value),
        ("SET", [key, value]) => service.set(key, value).await.map(|()| Answer::ok()),
        ("SET", [_, _, ..]) => return Answer::error("SET takes a key and a value, no options"),
        ("SCAN", [_, options @ ..]) => match only_all(options) {
            true => service.scan(true).await.map(|found| Answer::Keys(found, true)),
            false => return Answer::error("SCAN knows MATCH * and COUNT only, and goes over all"),
        },
        ("KEYS", [pattern]) if pattern == b"*" => {
            service.scan(true).await.map(|found| Answer::Keys(found, false))
        }
        ("KEYS", [_]) => return Answer::error("KEYS knows the pattern * only"),
        ("DBSIZE", []) => service.len().map(|keys| Answer::Bytes(format!(":{keys}\r\n").into())),
        ("INFO", _) => return Answer::bulk(figures::info(service).as_bytes()),
        ("TIMED", [kind]) => {
            service.work(&String::from_utf8_lossy(kind)).await.map(|_| Answer::ok())
        }
        ("GET" | "SET" | "SCAN" | "KEYS" | "DBSIZE" | "TIMED" | "PING" | "ECHO" | "SELECT", _) => {
            return Answer::error(&format!("wrong number of arguments for '{name}' command"));
        }
        _ => {
            let shown: String = name.chars().take(64).collect();
            return Answer::error(&format!("unknown command '{shown}'"));
        }
    };
    done.unwrap_or_else(|refusal| match refusal {
        Refusal::Overloaded(reason) => Answer::error(&format!("overloaded: {reason}")),
        Refusal::Wrong(reason) => Answer::error(&reason),
        Refusal::Ending => Answer::error("the server is ending"),
        Refusal::Failed(reason) => Answer::error(&format!("failed: {reason}")),
    })
}

/// Do the options of a SCAN leave nothing out?
fn only_all(options: &[Vec<u8>]) -> bool {
    options.chunks(2).all(|pair| match pair {
        [name, _] if name.eq_ignore_ascii_case(b"COUNT") => true,
        [name, pattern] => name.eq_ignore_ascii_case(b"MATCH") && pattern == b"*",
        _ => false,
    })
}
