//! As much of HTTP/1.1 as files and ranges of them need, on streams that block.
//!
//! hyper would need an executor for what one thread a connection does here.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom, Write};
use std::path::{Component, Path, PathBuf};

/// The longest head of a question or an answer.
const HEAD_MAX_BYTES: usize = 16 << 10;
const HEADERS_MAX: usize = 64;
const CHUNK_BYTES: usize = 64 << 10;

/// Octets that came, of which the first ones are a head.
#[derive(Default)]
pub struct Buffer {
    bytes: Vec<u8>,
}

impl Buffer {
    /// Reads until `parse` finds a head, and takes it; `None` when nothing more comes.
    fn head<T>(
        &mut self,
        mut from: impl Read,
        parse: impl Fn(&[u8]) -> io::Result<Option<(usize, T)>>,
    ) -> io::Result<Option<T>> {
        loop {
            if let Some((length, found)) = parse(&self.bytes)? {
                self.bytes.drain(..length);
                return Ok(Some(found));
            }
            if self.bytes.len() > HEAD_MAX_BYTES {
                return Err(wrong("a head is too long"));
            }
            let mut chunk = [0; 4096];
            match from.read(&mut chunk)? {
                0 if self.bytes.is_empty() => return Ok(None),
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                octets => self.bytes.extend(&chunk[..octets]),
            }
        }
    }
}

fn wrong(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// What is asked for.
struct Question {
    head_only: bool,
    path: String,
    range: Option<String>,
    close: bool,
}

fn question(bytes: &[u8]) -> io::Result<Option<(usize, Question)>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(bytes).map_err(|_| wrong("no HTTP"))? {
        httparse::Status::Partial => Ok(None),
        httparse::Status::Complete(length) => {
            let value = |name: &str| {
                let all = parsed.headers.iter();
                let mut found = all.filter(|header| header.name.eq_ignore_ascii_case(name));
                found.next().map(|header| String::from_utf8_lossy(header.value).into_owned())
            };
            let connection = value("connection").unwrap_or_default().to_ascii_lowercase();
            let (method, path) = (parsed.method.unwrap_or(""), parsed.path.unwrap_or("/"));
            if value("content-length").is_some_and(|length| length != "0")
                || value("transfer-encoding").is_some()
                || !["GET", "HEAD"].contains(&method)
            {
                return Err(wrong("only GET and HEAD"));
            }
            let old = parsed.version == Some(0) && !connection.contains("keep-alive");
            let asked = Question {
                head_only: method == "HEAD",
                path: path.to_string(),
                range: value("range"),
                close: old || connection.contains("close"),
            };
            Ok(Some((length, asked)))
        }
    }
}

/// Answers questions for files below `root` until the client has no more.
pub fn serve<S>(stream: &S, root: &Path) -> io::Result<()>
where
    for<'a> &'a S: Read + Write,
{
    let mut buffer = Buffer::default();
    loop {
        let asked = match buffer.head(stream, question) {
            Ok(Some(asked)) => asked,
            Ok(None) => return Ok(()),
            Err(error) => {
                if error.kind() == io::ErrorKind::InvalidData {
                    refuse(stream, "400 Bad Request", true)?;
                }
                return Err(error);
            }
        };
        answer(stream, root, &asked)?;
        if asked.close {
            return Ok(());
        }
    }
}

fn refuse(mut to: impl Write, status: &str, close: bool) -> io::Result<()> {
    let end = if close { "Connection: close\r\n" } else { "" };
    let text = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n{end}\r\n");
    to.write_all(text.as_bytes())
}

fn answer<S>(stream: &S, root: &Path, asked: &Question) -> io::Result<()>
where
    for<'a> &'a S: Read + Write,
{
    let found = file(root, &asked.path).and_then(|path| File::open(path).ok());
    let found = found.and_then(|file| {
        let about = file.metadata().ok().filter(|about| about.is_file())?;
        Some((file, about.len()))
    });
    let Some((mut file, whole)) = found else {
        return refuse(stream, "404 Not Found", asked.close);
    };
    let (status, start, end) = match asked.range.as_deref().map(|range| ranged(range, whole)) {
        None | Some(Ranged::All) => ("200 OK", 0, whole),
        Some(Ranged::Part(start, end)) => ("206 Partial Content", start, end),
        Some(Ranged::Beyond) => {
            let text = format!(
                "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes \
                 */{whole}\r\nContent-Length: 0\r\n\r\n"
            );
            return (&*stream).write_all(text.as_bytes());
        }
    };
    let mut head = format!(
        "HTTP/1.1 {status}\r\nAccept-Ranges: bytes\r\nContent-Type: \
         application/octet-stream\r\nContent-Length: {}\r\n",
        end - start
    );
    if status.starts_with("206") {
        head += &format!("Content-Range: bytes {start}-{}/{whole}\r\n", end - 1);
    }
    head += if asked.close { "Connection: close\r\n\r\n" } else { "\r\n" };
    if asked.head_only {
        return (&*stream).write_all(head.as_bytes());
    }
    file.seek(SeekFrom::Start(start))?;
    // The head travels with the first octets of the body.
    let mut chunk = head.into_bytes();
    let mut left = end - start;
    loop {
        let already = chunk.len();
        let length = left.min((CHUNK_BYTES - already.min(CHUNK_BYTES)) as u64) as usize;
        chunk.resize(already + length, 0);
        file.read_exact(&mut chunk[already..])?;
        (&*stream).write_all(&chunk)?;
        chunk.clear();
        left -= length as u64;
        if left == 0 {
            return Ok(());
        }
    }
}

/// The file of a path, if it lies below the root.
fn file(root: &Path, path: &str) -> Option<PathBuf> {
    let path = path.split(['?', '#']).next().unwrap_or("");
    let path = Path::new(path.trim_start_matches('/'));
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    let whole = plain.then(|| root.join(path).canonicalize().ok()).flatten()?;
    whole.starts_with(root).then_some(whole)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ranged {
    /// Not understood, so that all is sent (RFC 9110).
    All,
    /// From here to before there.
    Part(u64, u64),
    Beyond,
}

fn ranged(text: &str, whole: u64) -> Ranged {
    let Some((first, last)) = text.trim().strip_prefix("bytes=").and_then(|r| r.split_once('-'))
    else {
        return Ranged::All;
    };
    let (first, last) = (first.trim().parse::<u64>().ok(), last.trim().parse::<u64>().ok());
    match (first, last) {
        (Some(first), last) if text.trim().ends_with('-') || last.is_some() => {
            let end = last.map_or(whole, |last| last.saturating_add(1).min(whole));
            if first >= whole || end <= first { Ranged::Beyond } else { Ranged::Part(first, end) }
        }
        (None, Some(0)) => Ranged::Beyond,
        (None, Some(tail)) if text.trim().starts_with("bytes=-") => {
            if whole == 0 {
                Ranged::Beyond
            } else {
                Ranged::Part(whole.saturating_sub(tail), whole)
            }
        }
        _ => Ranged::All,
    }
}

/// What a server said of a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Octets of the body.
    pub length: u64,
    /// Octets of the whole file, where it says.
    pub whole: Option<u64>,
}

fn answered(bytes: &[u8]) -> io::Result<Option<(usize, Answer)>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Response::new(&mut headers);
    match parsed.parse(bytes).map_err(|_| wrong("the server speaks no HTTP"))? {
        httparse::Status::Partial => Ok(None),
        httparse::Status::Complete(end) => {
            let value = |name: &str| {
                let all = parsed.headers.iter();
                let mut found = all.filter(|header| header.name.eq_ignore_ascii_case(name));
                found.next().and_then(|header| std::str::from_utf8(header.value).ok())
            };
            let length = value("content-length").and_then(|text| text.trim().parse().ok());
            let length = length.ok_or_else(|| wrong("the server does not say how long it is"))?;
            let whole = value("content-range").and_then(|text| text.rsplit_once('/'));
            let whole = whole.and_then(|(_, whole)| whole.trim().parse().ok());
            let status = parsed.code.unwrap_or(0);
            Ok(Some((end, Answer { status, length, whole })))
        }
    }
}

/// Asks for octets from `start` to before `end` and hands the body to `keep`, piece by piece.
pub fn ask<S>(
    stream: &S,
    buffer: &mut Buffer,
    (host, path): (&str, &str),
    (start, end): (u64, u64),
    mut keep: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<Answer>
where
    for<'a> &'a S: Read + Write,
{
    let text = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nRange: bytes={start}-{}\r\n\r\n",
        end.saturating_sub(1)
    );
    (&*stream).write_all(text.as_bytes())?;
    let answer = buffer.head(stream, answered)?;
    let answer = answer.ok_or(io::ErrorKind::UnexpectedEof)?;
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut at = 0;
    while at < answer.length {
        let left = (answer.length - at).min(chunk.len() as u64) as usize;
        let octets = if buffer.bytes.is_empty() {
            match (&*stream).read(&mut chunk[..left])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                octets => octets,
            }
        } else {
            let octets = left.min(buffer.bytes.len());
            chunk[..octets].copy_from_slice(&buffer.bytes[..octets]);
            buffer.bytes.drain(..octets);
            octets
        };
        if answer.status == 206 {
            keep(start + at, &chunk[..octets])?;
        }
        at += octets as u64;
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_rfc_9110() {
        for (text, expected) in [
            ("bytes=0-0", Ranged::Part(0, 1)),
            ("bytes=5-", Ranged::Part(5, 10)),
            ("bytes=5-99", Ranged::Part(5, 10)),
            ("bytes=-3", Ranged::Part(7, 10)),
            ("bytes=-30", Ranged::Part(0, 10)),
            ("bytes=10-", Ranged::Beyond),
            ("bytes=6-5", Ranged::Beyond),
            ("bytes=-0", Ranged::Beyond),
            ("bytes=0-1,3-4", Ranged::All),
            ("lines=1-2", Ranged::All),
            ("bytes=x-", Ranged::All),
        ] {
            assert_eq!(ranged(text, 10), expected, "{text}");
        }
    }

    #[test]
    fn nobody_leaves_the_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("public").canonicalize().unwrap_or_else(|_| {
            std::fs::create_dir(folder.path().join("public")).expect("a folder");
            folder.path().join("public").canonicalize().expect("it is there")
        });
        std::fs::write(root.join("a"), "a").expect("a file");
        std::fs::write(folder.path().join("secret"), "s").expect("a file");
        std::os::unix::fs::symlink(folder.path().join("secret"), root.join("way")).expect("a link");
        assert!(file(&root, "/a?x=1").is_some());
        for path in ["/../secret", "/way", "/a/../../secret", "/b", "//../secret", "/%2e%2e/secret"]
        {
            assert_eq!(file(&root, path), None, "{path}");
        }
    }
}
