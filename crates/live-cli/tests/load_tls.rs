//! `cavy-live load https://` and `rediss://`, against servers with certificates of all sorts.

mod cavy_live;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use cavy_live::{Server, call};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned, SupportedProtocolVersion, version};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An authority, and the file that a client is given.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    file: PathBuf,
}

impl Authority {
    fn new(folder: &Path, name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("a certificate");
        let file = pem(folder, name, issuer.der());
        Authority { issuer, file }
    }

    /// A certificate for `names`, which may have ended long ago.
    fn sign(&self, names: &[&str], ended: bool) -> Identity {
        let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        let mut params = CertificateParams::new(names).expect("parameters");
        params.distinguished_name.push(DnType::CommonName, "a server");
        if ended {
            params.not_after = rcgen::date_time_ymd(2001, 2, 3);
        }
        let key = KeyPair::generate().expect("a key");
        let signed = params.signed_by(&key, &self.issuer).expect("a certificate");
        (signed.der().clone(), key.serialize_der())
    }
}

/// What a server shows, and the key that it proves itself with.
type Identity = (CertificateDer<'static>, Vec<u8>);

/// Signed by itself: for a server, or as an authority.
fn self_signed(authority: bool) -> Identity {
    let mut params = CertificateParams::new(vec!["localhost".to_string()]).expect("parameters");
    if authority {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    }
    let key = KeyPair::generate().expect("a key");
    (params.self_signed(&key).expect("a certificate").der().clone(), key.serialize_der())
}

fn pem(folder: &Path, name: &str, certificate: &[u8]) -> PathBuf {
    let coded = BASE64_STANDARD.encode(certificate);
    let lines: Vec<&str> =
        (0..coded.len()).step_by(64).map(|at| &coded[at..coded.len().min(at + 64)]).collect();
    let text =
        format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"));
    let path = folder.join(format!("{name}.pem"));
    std::fs::write(&path, text).expect("a file");
    path
}

/// A server of HTTP and RESP by TLS: how often it was greeted, and where it is.
struct Secret {
    at: SocketAddr,
    greeted: Arc<AtomicUsize>,
}

/// Answers each request with as many bytes as its path says, and closes a connection after
/// `most` answers.
fn serve(
    (certificate, key): Identity,
    versions: &[&'static SupportedProtocolVersion],
    most: usize,
) -> Secret {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::try_from(key).expect("a key");
    let builder = ServerConfig::builder_with_provider(provider);
    let builder = builder.with_protocol_versions(versions).expect("versions");
    let mut config = builder
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("a certificate and its key");
    // It would rather speak HTTP/2.
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address");
    let greeted = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&greeted);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (config, counted) = (Arc::clone(&config), Arc::clone(&counted));
            std::thread::spawn(move || {
                let _ = stream.set_nodelay(true);
                let session = ServerConnection::new(config).expect("a session");
                let mut both = BufReader::new(StreamOwned::new(session, stream));
                for answered in 1..=most {
                    let Ok(asked) = question(&mut both) else { return };
                    if answered == 1 {
                        counted.fetch_add(1, Ordering::SeqCst);
                        let http = (asked != Asked::Ping).then_some(&b"http/1.1"[..]);
                        assert_eq!(both.get_ref().conn.alpn_protocol(), http);
                    }
                    let all = answer(&asked, answered == most);
                    if both.get_mut().write_all(&all).is_err() || both.get_mut().flush().is_err() {
                        return;
                    }
                }
                both.get_mut().conn.send_close_notify();
                let _ = both.get_mut().flush();
            });
        }
    });
    Secret { at, greeted }
}

/// What a client wants: so many bytes by HTTP, or a PONG by RESP.
#[derive(PartialEq, Eq)]
enum Asked {
    Bytes(usize),
    Ping,
}

fn answer(asked: &Asked, last: bool) -> Vec<u8> {
    let Asked::Bytes(bytes) = *asked else { return b"+PONG\r\n".to_vec() };
    let close = if last { "Connection: close\r\n" } else { "" };
    let head = format!("HTTP/1.1 200 OK\r\n{close}Content-Length: {bytes}\r\n\r\n");
    [head.as_bytes(), &vec![b'a'; bytes]].concat()
}

/// Reads one request to its end.
fn question(from: &mut BufReader<StreamOwned<ServerConnection, TcpStream>>) -> Result<Asked, ()> {
    let (mut wanted, mut body) = (None, 0);
    loop {
        let mut line = String::new();
        if from.read_line(&mut line).map_err(|_| ())? == 0 {
            return Err(());
        }
        let line = line.trim_end();
        if line.is_empty() {
            let mut sent = vec![0; body];
            from.read_exact(&mut sent).map_err(|_| ())?;
            return wanted.map(Asked::Bytes).ok_or(());
        }
        if line == "PING" {
            return Ok(Asked::Ping);
        }
        match line.split_once(": ") {
            Some(("Content-Length", length)) => body = length.parse().map_err(|_| ())?,
            Some(_) => {}
            // The frame of a command.
            None if line.starts_with(['*', '$']) => {}
            None => {
                let path = line.split(' ').nth(1).ok_or(())?;
                wanted = Some(path.trim_start_matches('/').parse().map_err(|_| ())?);
            }
        }
    }
}

fn load(url: &str, types: &[&str], more: &[&str]) -> (Option<i32>, String, String) {
    let mut args = vec!["load", url, "--probe", "0s", "--wait", "sleep"];
    if !more.contains(&"--timeout") {
        args.extend(["--timeout", "20s"]);
    }
    args.extend(["--rate", "300", "--duration", "1s", "--connections", "8", "--json"]);
    args.extend(types.iter().flat_map(|text| ["--type", *text]));
    args.extend(more);
    let output = call(&args);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// A run in which all was answered.
fn whole(url: &str, types: &[&str], more: &[&str]) {
    let (code, said, talk) = load(url, types, &[more, &["--force-publish"]].concat());
    assert_eq!(code, Some(0), "{url}: {talk}{said}");
    let report: Value = serde_json::from_str(&said).expect("one object");
    for kind in report["types"].as_array().expect("a list") {
        assert_eq!(kind["sent"], kind["answered"], "{url}: {kind}");
        assert!(kind["sent"].as_u64() > Some(10), "{kind}");
    }
}

#[test]
fn servers_by_tls_are_driven_and_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path(), "ours");
    let trusted = authority.file.to_str().expect("a name");
    // Answers of several records, and questions of more than rustls keeps by default.
    let large = format!("put@0.2=PUT /10 {}", "b".repeat(100_000));
    let types = ["get@0.7=/100", "page@0.1=/300000", &large];
    for versions in [&[&version::TLS13][..], &[&version::TLS12]] {
        let names = ["localhost", "127.0.0.1"];
        let server = serve(authority.sign(&names, false), versions, usize::MAX);
        let port = server.at.port();
        for host in names {
            let url = format!("https://{host}:{port}");
            whole(&url, &types, &["--cacert", trusted, "--senders", "2"]);
        }
        // Eight connections each time, made before the first request and kept.
        assert!(server.greeted.load(Ordering::SeqCst) <= 16);
        let url = format!("rediss://localhost:{port}");
        whole(&url, &["ping=PING"], &["--cacert", trusted, "--pipeline", "4"]);
        // The authorities of the system are those of a file that it names.
        let url = format!("https://localhost:{port}");
        let mut command = cavy_live::command(&["load", &url, "--rate", "50", "--duration", "1s"]);
        let fixed = ["--type", "get=/100", "--probe", "0s", "--wait", "sleep", "--force-publish"];
        let output = command.args(fixed).env("SSL_CERT_FILE", trusted).output().expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
}

#[test]
fn a_connection_that_ends_is_made_and_greeted_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path(), "ours");
    let server = serve(authority.sign(&["localhost"], false), rustls::ALL_VERSIONS, 3);
    let url = format!("https://localhost:{}", server.at.port());
    let trusted = authority.file.to_str().expect("a name");
    let large = format!("put@0.1=PUT /10 {}", "b".repeat(100_000));
    whole(&url, &["get@0.9=/2000", &large], &["--cacert", trusted]);
    assert!(server.greeted.load(Ordering::SeqCst) > 50);
}

#[test]
fn a_server_that_cannot_be_believed_is_said_with_a_cure_before_anything_is_sent() {
    let folder = tempfile::tempdir().expect("a folder");
    let (ours, theirs) =
        (Authority::new(folder.path(), "ours"), Authority::new(folder.path(), "theirs"));
    let trusted = ours.file.to_str().expect("a name");
    let named = ["other.example", "10.1.2.3"];
    let cases: [(Identity, &[&str]); 4] = [
        (theirs.sign(&["localhost"], false), &["is signed by nobody", "--cacert FILE"]),
        (
            ours.sign(&named, false),
            &["is not for `localhost`; it is for other.example, 10.1.2.3", "connect by a name"],
        ),
        (ours.sign(&["localhost"], true), &["certificate expired", "renew"]),
        (self_signed(true), &["that of an authority (CA:TRUE)", "CA:FALSE"]),
    ];
    for (identity, words) in cases {
        let server = serve(identity, rustls::ALL_VERSIONS, usize::MAX);
        let url = format!("https://localhost:{}", server.at.port());
        let (code, said, talk) = load(&url, &["get=/100"], &["--cacert", trusted]);
        assert_eq!(code, Some(1), "{talk}");
        assert!(said.is_empty(), "{said}");
        for word in words {
            assert!(talk.contains(word), "{word}: {talk}");
        }
        assert_eq!(server.greeted.load(Ordering::SeqCst), 0, "nothing was asked");
        // Whoever it is.
        whole(&url, &["get=/100"], &["--insecure"]);
    }
    // Signed by itself, and given as what to trust.
    let own = self_signed(false);
    let file = pem(folder.path(), "own", &own.0);
    let server = serve(own, rustls::ALL_VERSIONS, usize::MAX);
    let url = format!("https://localhost:{}", server.at.port());
    whole(&url, &["get=/100"], &["--cacert", file.to_str().expect("a name")]);
}

#[test]
fn ports_that_speak_something_else_are_said_with_a_cure() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path(), "ours");
    // One that answers in HTTP, one that hangs up, one that says nothing.
    let plain = Server::start(&[]);
    let rude = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mute = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = |listener: &TcpListener| listener.local_addr().expect("an address");
    let cases = [
        (plain.http, "does not speak TLS on this port"),
        (at(&rude), "closed the connection instead of speaking TLS"),
        (at(&mute), "did not answer in TLS within 1s"),
    ];
    std::thread::spawn(move || {
        for stream in rude.incoming().flatten() {
            // Reads first: what is unread would make the end a reset.
            let _ = (&stream).read(&mut [0; 4096]);
        }
    });
    for (at, words) in cases {
        let url = format!("https://{at}");
        let (code, _, talk) = load(&url, &["get=/"], &["--insecure", "--timeout", "1s"]);
        assert_eq!(code, Some(1), "{talk}");
        assert!(talk.contains(words) && talk.contains("hint: is this the port for TLS?"), "{talk}");
    }
    // The reverse: a port for TLS, and http.
    let server = serve(authority.sign(&["localhost"], false), rustls::ALL_VERSIONS, usize::MAX);
    let (code, said, _) = load(&format!("http://{}", server.at), &["get=/100"], &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("the server speaks TLS on this port: write https://"), "{said}");
}

#[test]
fn wrong_options_are_one_sentence_and_a_cure() {
    let folder = tempfile::tempdir().expect("a folder");
    let none = folder.path().join("none.pem");
    std::fs::write(&none, "no certificate\n").expect("a file");
    let (none, missing) = (none.to_str().expect("a name"), "/no/such/file.pem");
    let cases: [(&str, &[&str], &str); 6] = [
        ("https://127.0.0.1:9", &["--cacert", missing], "cannot take authorities from /no/such"),
        ("https://127.0.0.1:9", &["--cacert", none], "no certificate in PEM (BEGIN CERTIFICATE)"),
        ("https://127.0.0.1:9", &["--cacert", none, "--insecure"], "cannot be used with"),
        ("http://127.0.0.1:9", &["--insecure"], "are for https:// and rediss://"),
        ("homa://127.0.0.1:9", &["--cacert", none], "are for https:// and rediss://"),
        ("https://127.0.0.1:9/path", &[], "paths are given with --type"),
    ];
    for (url, more, wanted) in cases {
        let (code, _, talk) = load(url, &["get=/"], more);
        assert_eq!(code, Some(2), "{url} {more:?}: {talk}");
        assert!(talk.contains(wanted) && !talk.contains("panicked"), "{url} {more:?}: {talk}");
    }
}
