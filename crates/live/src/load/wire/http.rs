//! HTTP/1.1, as much of it as a load generator needs: fixed requests, answers of all three
//! framings.

use crate::load::target::Outcome;
use crate::load::wire::{Protocol, REPLY_BYTES_MAX, Reply, beginning};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Most headers of an answer.
const HEADERS_MAX: usize = 64;

/// Requests of HTTP/1.1 by type.
#[derive(Debug)]
pub struct Http {
    types: Vec<Turns>,
}

/// Requests of one type, which are sent in turn.
#[derive(Debug)]
struct Turns {
    requests: Vec<Request>,
    sent: AtomicUsize,
}

#[derive(Clone, Debug)]
struct Request {
    bytes: Vec<u8>,
    /// The answer to HEAD has no body, whatever its headers say.
    head: bool,
}

impl Http {
    /// Requests to `host`, each written as `[METHOD ]PATH[ BODY]`.
    ///
    /// # Errors
    /// A sentence about the request that cannot be sent.
    pub fn new(host: &str, requests: &[String]) -> Result<Http, String> {
        Http::with_headers(host, &[], requests)
    }

    /// The same with headers in each request, written as `NAME: VALUE`. A `Host` among them takes
    /// the place of `host`.
    ///
    /// # Errors
    /// A sentence about the request or the header that cannot be sent.
    pub fn with_headers(
        host: &str,
        headers: &[String],
        requests: &[String],
    ) -> Result<Http, String> {
        let types: Vec<Vec<String>> = requests.iter().map(|text| vec![text.clone()]).collect();
        Http::in_turn(host, headers, &types)
    }

    /// The same with any number of requests of each type, which are sent in turn.
    ///
    /// # Errors
    /// A sentence about the request or the header that cannot be sent.
    pub fn in_turn(host: &str, headers: &[String], types: &[Vec<String>]) -> Result<Http, String> {
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|text| header(text)).collect::<Result<_, _>>()?;
        let turns = |texts: &Vec<String>| {
            let all = texts.iter().map(|text| request(host, &headers, text));
            let requests: Vec<Request> = all.collect::<Result<_, String>>()?;
            // Whose turn an answer belongs to is not kept.
            let heads = requests.iter().filter(|request| request.head).count();
            match heads == 0 || heads == requests.len() {
                true => Ok(Turns { requests, sent: AtomicUsize::new(0) }),
                false => Err("HEAD and other methods cannot be of one type".to_string()),
            }
        };
        Ok(Http { types: types.iter().map(turns).collect::<Result<_, _>>()? })
    }
}

/// Headers that say where a request ends, or whether the connection stays: those are set here.
const OWN_HEADERS: [&str; 4] = ["content-length", "transfer-encoding", "connection", "expect"];

/// Name and value of `NAME: VALUE`.
fn header(text: &str) -> Result<(&str, &str), String> {
    let wrong = |what: &str| Err(format!("header `{}` {what}", beginning(text.as_bytes())));
    let Some((name, value)) = text.split_once(':') else {
        return wrong("has no colon: write `NAME: VALUE`");
    };
    let (name, value) = (name.trim(), value.trim());
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(token) {
        return wrong("has no name that HTTP knows: letters, digits and `-`");
    }
    if !value.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte)) {
        return wrong("has a value that is not printable ASCII");
    }
    match OWN_HEADERS.iter().any(|own| name.eq_ignore_ascii_case(own)) {
        true => wrong("cannot be given: requests are framed here, and connections stay open"),
        false => Ok((name, value)),
    }
}

fn request(host: &str, headers: &[(&str, &str)], text: &str) -> Result<Request, String> {
    let text = text.trim();
    let (method, rest) = match text.split_once(' ') {
        Some((method, rest)) if !method.starts_with('/') => (method, rest.trim_start()),
        _ => ("GET", text),
    };
    let (path, body) = rest.split_once(' ').unwrap_or((rest, ""));
    if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_uppercase()) {
        return Err(format!("`{method}` is no HTTP method: write `GET /path` or `/path`"));
    }
    if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!("`{path}` is no path: it must begin with `/` and hold no blanks"));
    }
    let given = |name: &str| headers.iter().any(|(other, _)| name.eq_ignore_ascii_case(other));
    let mut head = format!("{method} {path} HTTP/1.1\r\n");
    if !given("host") {
        head.push_str(&format!("Host: {host}\r\n"));
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() || matches!(method, "POST" | "PUT" | "PATCH") {
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    if !given("user-agent") {
        head.push_str("User-Agent: cavy-load\r\n");
    }
    head.push_str("\r\n");
    Ok(Request { bytes: [head.as_bytes(), body.as_bytes()].concat(), head: method == "HEAD" })
}

impl Protocol for Http {
    fn request(&self, kind: u16) -> &[u8] {
        let Some(turns) = self.types.get(usize::from(kind)) else { return &[] };
        let turn = match turns.requests.len() {
            0 | 1 => 0,
            many => turns.sent.fetch_add(1, Relaxed) % many,
        };
        turns.requests.get(turn).map_or(&[], |request| &request.bytes)
    }

    fn reply(&self, kind: u16, bytes: &[u8]) -> Reply {
        let turns = self.types.get(usize::from(kind));
        let head = turns.is_some_and(|turns| turns.requests.iter().any(|request| request.head));
        reply(bytes, head)
    }

    fn complaint(&self, bytes: &[u8]) -> String {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut headers);
        // How TLS begins its complaint about a request that is not encrypted.
        if bytes.starts_with(&[0x15, 3]) {
            return "the server speaks TLS on this port: write https://".to_string();
        }
        let Ok(httparse::Status::Complete(start)) = response.parse(bytes) else {
            return format!("no HTTP: `{}`", beginning(bytes));
        };
        let status = response.code.unwrap_or(0);
        let body = bytes.get(start..).unwrap_or(&[]);
        if (100..200).contains(&status) {
            return self.complaint(body);
        }
        if (200..400).contains(&status) {
            return format!("{status}, and where the answer ends cannot be told");
        }
        let reason = response.reason.unwrap_or("");
        match beginning(body).as_str() {
            "" => format!("{status} {reason}"),
            text => format!("{status} {reason}: {text}"),
        }
    }
}

/// How an answer ends.
enum Framing {
    Length(usize),
    Chunked,
    /// With the connection, which this client takes for a fault: where the answer ends is not
    /// known.
    Connection,
}

fn reply(bytes: &[u8], head: bool) -> Reply {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let start = match response.parse(bytes) {
        Ok(httparse::Status::Complete(start)) => start,
        Ok(httparse::Status::Partial) if bytes.len() < 64 << 10 => return Reply::Partial,
        _ => return Reply::Broken,
    };
    let status = response.code.unwrap_or(0);
    // "100 Continue" and its like come before the answer.
    if (100..200).contains(&status) {
        return match reply(bytes.get(start..).unwrap_or(&[]), head) {
            Reply::Whole { length, outcome, close } => {
                Reply::Whole { length: length + start, outcome, close }
            }
            other => other,
        };
    }
    let outcome = match status {
        200..400 => Outcome::Answered,
        429 | 503 => Outcome::Overloaded,
        _ => Outcome::ServerError,
    };
    let mut framing = Framing::Connection;
    let mut close = response.version == Some(0);
    for header in response.headers.iter() {
        let value = std::str::from_utf8(header.value).unwrap_or("").trim();
        if header.name.eq_ignore_ascii_case("content-length") {
            match value.parse() {
                Ok(length) if length <= REPLY_BYTES_MAX => framing = Framing::Length(length),
                _ => return Reply::Broken,
            }
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            framing = Framing::Chunked;
        } else if header.name.eq_ignore_ascii_case("connection") {
            close = value.eq_ignore_ascii_case("close");
        }
    }
    if head || status == 204 || status == 304 {
        framing = Framing::Length(0);
    }
    let body = bytes.get(start..).unwrap_or(&[]);
    let length = match framing {
        Framing::Length(length) if body.len() >= length => length,
        Framing::Length(_) => return Reply::Partial,
        Framing::Connection => return Reply::Broken,
        Framing::Chunked => match chunked(body) {
            Ok(Some(length)) => length,
            Ok(None) => return Reply::Partial,
            Err(()) => return Reply::Broken,
        },
    };
    Reply::Whole { length: start + length, outcome, close }
}

/// Length of a chunked body with its end; `None` when it is not all there.
fn chunked(body: &[u8]) -> Result<Option<usize>, ()> {
    let mut at = 0;
    loop {
        let rest = body.get(at..).unwrap_or(&[]);
        let (start, size) = match httparse::parse_chunk_size(rest) {
            Ok(httparse::Status::Complete((start, size))) => (start, size as usize),
            Ok(httparse::Status::Partial) if rest.len() < 1024 => return Ok(None),
            _ => return Err(()),
        };
        if size > REPLY_BYTES_MAX || at > REPLY_BYTES_MAX {
            return Err(());
        }
        at += start;
        if size == 0 {
            return trailers(body, at);
        }
        at += size + 2;
        match body.get(at - 2..at) {
            Some(b"\r\n") => {}
            Some(_) => return Err(()),
            None => return Ok(None),
        }
    }
}

/// The end of the trailers that begin at `at`: an empty line.
fn trailers(body: &[u8], mut at: usize) -> Result<Option<usize>, ()> {
    loop {
        let rest = body.get(at..).unwrap_or(&[]);
        match rest.windows(2).position(|two| two == b"\r\n") {
            Some(0) => return Ok(Some(at + 2)),
            Some(end) => at += end + 2,
            None if rest.len() < 8192 => return Ok(None),
            None => return Err(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn whole(length: usize, outcome: Outcome, close: bool) -> Reply {
        Reply::Whole { length, outcome, close }
    }

    #[test]
    fn requests_of_a_type_are_sent_in_turn() {
        let texts = |all: &[&str]| all.iter().map(|text| text.to_string()).collect::<Vec<_>>();
        let types = [texts(&["/a", "/b", "/c"]), texts(&["HEAD /d"])];
        let http = Http::in_turn("h:1", &[], &types).expect("requests");
        let path = |kind| {
            let bytes = http.request(kind).to_vec();
            String::from_utf8(bytes).expect("text").split(' ').nth(1).map(str::to_string)
        };
        let paths: Vec<String> = [0, 0, 1, 0, 0, 1].iter().filter_map(|kind| path(*kind)).collect();
        assert_eq!(paths, ["/a", "/b", "/d", "/c", "/a", "/d"]);
        assert_eq!(http.request(2), b"");
        let mixed = [texts(&["/a", "HEAD /a"])];
        assert!(Http::in_turn("h:1", &[], &mixed).expect_err("mixed").contains("HEAD"));
    }

    #[test]
    fn requests_are_written_as_http() {
        let of = |text: &str| {
            request("h:1", &[], text).map(|r| String::from_utf8(r.bytes).expect("text"))
        };
        let end = "Host: h:1\r\nUser-Agent: cavy-load\r\n\r\n";
        assert_eq!(of("/a"), Ok(format!("GET /a HTTP/1.1\r\n{end}")));
        assert_eq!(of("DELETE /a"), Ok(format!("DELETE /a HTTP/1.1\r\n{end}")));
        let put = of("PUT /a two words").expect("a request");
        assert!(
            put.contains("Content-Length: 9\r\n") && put.ends_with("\r\n\r\ntwo words"),
            "{put}"
        );
        for wrong in ["", "get /a", "GET a", "/a\u{e9}", "GET"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn headers_are_sent_with_each_request_and_checked() {
        let of = |headers: &[&str]| {
            let headers: Vec<String> = headers.iter().map(|text| text.to_string()).collect();
            let http = Http::with_headers("h:1", &headers, &["/a".to_string()])?;
            Ok::<_, String>(String::from_utf8(http.request(0).to_vec()).expect("text"))
        };
        assert_eq!(
            of(&["Authorization: Bearer a:b", "x-trace:1"]),
            Ok("GET /a HTTP/1.1\r\nHost: h:1\r\nAuthorization: Bearer a:b\r\nx-trace: \
                1\r\nUser-Agent: cavy-load\r\n\r\n"
                .to_string())
        );
        assert_eq!(
            of(&["HOST: other", "user-agent: mine"]),
            Ok("GET /a HTTP/1.1\r\nHOST: other\r\nuser-agent: mine\r\n\r\n".to_string())
        );
        for wrong in
            ["plain", ": x", "a b: x", "a: x\r\nb: y", "Content-Length: 3", "connection: close"]
        {
            assert!(of(&[wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn answers_of_all_framings_are_found() {
        let answers: [(&str, Outcome, bool); 6] = [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", Outcome::Answered, false),
            (
                "HTTP/1.1 503 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
                Outcome::Overloaded,
                true,
            ),
            ("HTTP/1.1 404 No\r\nContent-Length: 1\r\n\r\nx", Outcome::ServerError, false),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
                Outcome::Answered,
                false,
            ),
            ("HTTP/1.1 204 No Content\r\n\r\n", Outcome::Answered, false),
            (
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
                Outcome::Answered,
                false,
            ),
        ];
        for (text, outcome, close) in answers {
            let twice = format!("{text}HTTP/1.1");
            assert_eq!(reply(twice.as_bytes(), false), whole(text.len(), outcome, close), "{text}");
            for end in 0..text.len() {
                assert_eq!(reply(&text.as_bytes()[..end], false), Reply::Partial, "{text} {end}");
            }
        }
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        assert_eq!(reply(head.as_bytes(), true), whole(head.len(), Outcome::Answered, false));
    }

    #[test]
    fn what_is_no_answer_is_broken() {
        for text in [
            "SSH-2.0-OpenSSH\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc",
        ] {
            assert_eq!(reply(text.as_bytes(), false), Reply::Broken, "{text}");
        }
    }

    proptest! {
        #[test]
        fn reading_is_total(
            start in prop::sample::select(vec![
                "",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n",
            ]),
            bytes in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let all = [start.as_bytes(), &bytes].concat();
            if let Reply::Whole { length, .. } = reply(&all, false) {
                prop_assert!(length <= all.len());
            }
        }
    }
}
