//! Answers, and how both versions of the protocol write them.

use serde::{Deserialize, Serialize};

/// An answer. Pieces of transactions give them, so they travel between nodes too.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// A status, such as OK.
    Status(String),
    /// An error: its code and its words.
    Error(String),
    /// A number.
    Int(i64),
    /// Bytes.
    Bulk(Vec<u8>),
    /// Nothing.
    Nil,
    /// A transaction that was not carried out.
    NilArray,
    /// Several.
    Array(Vec<Reply>),
    /// Pairs; in the older version one list.
    Map(Vec<(Reply, Reply)>),
    /// Members; in the older version a list.
    Set(Vec<Reply>),
}

/// Which protocol a connection speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Version {
    /// The one all clients know.
    #[default]
    Two,
    /// The one after `HELLO 3`.
    Three,
}

impl Reply {
    /// OK.
    pub fn ok() -> Reply {
        Reply::Status("OK".into())
    }

    /// An error with the common code.
    pub fn err(words: impl AsRef<str>) -> Reply {
        Reply::Error(format!("ERR {}", words.as_ref()))
    }

    /// Bytes.
    pub fn bulk(bytes: impl AsRef<[u8]>) -> Reply {
        Reply::Bulk(bytes.as_ref().to_vec())
    }

    /// Is it an error?
    pub fn is_error(&self) -> bool {
        matches!(self, Reply::Error(_))
    }

    /// Appends it as `version` writes it.
    pub fn write(&self, version: Version, out: &mut Vec<u8>) {
        let three = version == Version::Three;
        match self {
            Reply::Status(text) => line(b'+', text, out),
            Reply::Error(text) => line(b'-', text, out),
            Reply::Int(number) => line(b':', &number.to_string(), out),
            Reply::Bulk(bytes) => {
                line(b'$', &bytes.len().to_string(), out);
                out.extend_from_slice(bytes);
                out.extend_from_slice(b"\r\n");
            }
            Reply::Nil | Reply::NilArray if three => out.extend_from_slice(b"_\r\n"),
            Reply::Nil => out.extend_from_slice(b"$-1\r\n"),
            Reply::NilArray => out.extend_from_slice(b"*-1\r\n"),
            Reply::Array(items) => many(b'*', items, version, out),
            Reply::Set(items) => many(if three { b'~' } else { b'*' }, items, version, out),
            Reply::Map(pairs) => {
                let (kind, length) =
                    if three { (b'%', pairs.len()) } else { (b'*', 2 * pairs.len()) };
                line(kind, &length.to_string(), out);
                for (name, value) in pairs {
                    name.write(version, out);
                    value.write(version, out);
                }
            }
        }
    }
}

fn many(kind: u8, items: &[Reply], version: Version, out: &mut Vec<u8>) {
    line(kind, &items.len().to_string(), out);
    for item in items {
        item.write(version, out);
    }
}

/// One line. What clients sent is not repeated in it unescaped.
fn line(kind: u8, text: &str, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend(text.bytes().map(|byte| if byte < b' ' { b' ' } else { byte }));
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_written_as_specified() {
        let all = Reply::Array(vec![
            Reply::ok(),
            Reply::err("no\r\nlines"),
            Reply::Int(-3),
            Reply::bulk("a\r\nb"),
            Reply::Nil,
            Reply::NilArray,
            Reply::Map(vec![(Reply::bulk("k"), Reply::Int(1))]),
            Reply::Set(vec![Reply::bulk("m")]),
        ]);
        let write = |version| {
            let mut out = Vec::new();
            all.write(version, &mut out);
            String::from_utf8(out).unwrap()
        };
        let head = "*8\r\n+OK\r\n-ERR no  lines\r\n:-3\r\n$4\r\na\r\nb\r\n";
        let two = "$-1\r\n*-1\r\n*2\r\n$1\r\nk\r\n:1\r\n*1\r\n$1\r\nm\r\n";
        let three = "_\r\n_\r\n%1\r\n$1\r\nk\r\n:1\r\n~1\r\n$1\r\nm\r\n";
        assert_eq!(write(Version::Two), format!("{head}{two}"));
        assert_eq!(write(Version::Three), format!("{head}{three}"));
    }
}
