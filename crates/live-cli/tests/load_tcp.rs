//! `cavy-live load tcp://` against services without a protocol: lines, blocks, echoes, frames.

mod cavy_live;

use cavy_live::call;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

/// Answers what is asked, on every connection, until the test ends.
fn service(answer: fn(&mut BufReader<TcpStream>) -> std::io::Result<Vec<u8>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let _ = stream.set_nodelay(true);
                let Ok(mut out) = stream.try_clone() else { return };
                let mut from = BufReader::new(stream);
                while let Ok(said) = answer(&mut from) {
                    if said.is_empty() || out.write_all(&said).is_err() {
                        return;
                    }
                }
            });
        }
    });
    at
}

fn line(from: &mut BufReader<TcpStream>) -> std::io::Result<Vec<u8>> {
    let mut asked = String::new();
    from.read_line(&mut asked)?;
    Ok(asked.to_uppercase().into_bytes())
}

fn octets(from: &mut impl Read) -> std::io::Result<usize> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    Ok(u32::from_be_bytes(length) as usize)
}

/// What `cavy live tcp serve blocks` answers.
fn block(from: &mut BufReader<TcpStream>) -> std::io::Result<Vec<u8>> {
    Ok(vec![b'a'; octets(from)?])
}

fn frame(from: &mut BufReader<TcpStream>) -> std::io::Result<Vec<u8>> {
    let length = octets(from)?;
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    Ok([&(length as u32 * 2).to_be_bytes()[..], &body, &body].concat())
}

fn load(at: SocketAddr, types: &[&str], more: &[&str]) -> (Option<i32>, String, String) {
    let url = format!("tcp://{at}");
    let mut args = vec!["load", &url, "--probe", "0s", "--wait", "sleep", "--timeout", "20s"];
    args.extend(["--rate", "300", "--duration", "1s", "--connections", "8"]);
    args.extend(types.iter().flat_map(|text| ["--type", *text]));
    args.extend(more);
    let output = call(&args);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn services_without_a_protocol_are_driven_and_counted() {
    let cases: [(SocketAddr, &[&str]); 3] = [
        (service(line), &["get@0.9=line get key1", r"put@0.1=line put\tkey1 value\r"]),
        (service(block), &["small@0.8=block 100", "large@0.2=block 300_000"]),
        (service(frame), &[r"one=framed \x01\x02"]),
    ];
    for (at, types) in cases {
        for more in [&["--json", "--force-publish"][..], &["--json", "--pipeline", "4"]] {
            let (code, said, talk) = load(at, types, more);
            assert!(matches!(code, Some(0 | 3)), "{types:?}: {talk}");
            let report: Value = serde_json::from_str(&said).expect("one object");
            assert_eq!(report["model"]["name"], "open");
            for kind in report["types"].as_array().expect("a list") {
                assert_eq!(kind["sent"], kind["answered"], "{types:?}: {kind}");
                assert!(kind["sent"].as_u64() > Some(10), "{kind}");
            }
        }
    }
}

#[test]
fn answers_that_do_not_come_as_they_should_are_failures_and_not_times() {
    // It says that 4 GiB follow.
    let endless = service(|from| octets(from).map(|_| vec![255; 8]));
    let (code, said, _) = load(endless, &["one=framed"], &["--json"]);
    assert_eq!(code, Some(1), "{said}");
    let report: Value = serde_json::from_str(&said).expect("one object");
    assert_eq!(report["types"][0]["answered"], 0, "{}", report["types"][0]);
    assert!(said.contains("an answer without end"), "{}", report["types"][0]);
    // One that hangs up.
    let none = service(|_| Ok(Vec::new()));
    let (code, said, _) = load(none, &["one=echo 5"], &["--json"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("closed the connection") || said.contains("reset"), "{said}");
}

#[test]
fn what_cannot_be_sent_is_one_sentence_and_a_cure() {
    let cases = [
        ("tcp://127.0.0.1", "one=line a", "a port"),
        ("tcp://127.0.0.1:9", "one=GET /", "line TEXT"),
        ("tcp://127.0.0.1:9", "one=block 0", "from 1 to"),
    ];
    for (url, kind, wanted) in cases {
        let output = call(&["load", url, "--rate", "1", "--type", kind, "--probe", "0s"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{url} {kind}: {said}");
        assert!(said.contains(wanted) && !said.contains("panicked"), "{url} {kind}: {said}");
    }
}
