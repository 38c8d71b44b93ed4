//! The server that `cavy-live load` drives: its URL, what is sent to it, and connections.

use crate::args::Load;
use crate::faults::{FAILED, Fault};
use crate::homa::{Way, target};
use crate::terminal;
use cavy_live::load::Target;
use cavy_live::load::wire::{
    Client, ClientOptions, ConnectError, Http, Protocol, Raw, Resp, Tls, TlsFault, Trust,
};
use cavy_study::plan::files;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::Path;
use std::sync::Arc;

/// What a URL may begin with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Http,
    Resp,
    Homa,
    Tcp,
}

/// What is sent for each type, in the server's language.
pub(super) enum Sends {
    Requests(Arc<dyn Protocol>),
    Questions(Vec<bytes::Bytes>),
}

/// A server as its URL names it.
pub(super) struct Server {
    scheme: Scheme,
    /// With the port, if one was given.
    host: String,
    address: SocketAddr,
    /// How it is spoken to in secret, if the URL asks for that.
    tls: Option<Tls>,
}

impl Server {
    pub(super) fn read(args: &Load) -> Result<Server, Fault> {
        let url = args.url.as_str();
        let wrong = |what: &str| {
            Fault::new(format!("URL `{url}`: {what}")).hint(
                "write http://127.0.0.1:8080, https://HOST, redis://127.0.0.1:6379, \
                 homa://127.0.0.1:7000 or tcp://127.0.0.1:7070",
            )
        };
        let (scheme, rest) = url.split_once("://").ok_or_else(|| wrong("it has no scheme"))?;
        let (scheme, port, encrypted) = match scheme {
            "http" => (Scheme::Http, Some(80), false),
            "https" => (Scheme::Http, Some(443), true),
            "redis" | "resp" => (Scheme::Resp, Some(6379), false),
            "rediss" => (Scheme::Resp, Some(6379), true),
            "homa" => (Scheme::Homa, Some(7000), false),
            "tcp" => (Scheme::Tcp, None, false),
            _ => return Err(wrong("its scheme is not http, https, redis, rediss, homa or tcp")),
        };
        let host = rest.trim_end_matches('/');
        if host.is_empty() || host.contains(['/', '@', '?', ' ']) {
            return Err(wrong("it must be a host and a port; paths are given with --type"));
        }
        let has_port = host.rsplit_once(':').is_some_and(|(before, port)| {
            port.parse::<u16>().is_ok() && (!before.contains(':') || before.ends_with(']'))
        });
        let full = match port {
            _ if has_port => host.to_string(),
            Some(port) => format!("{host}:{port}"),
            None => return Err(wrong("it must say a port")),
        };
        let address = full.to_socket_addrs().ok().and_then(|mut all| all.next());
        let address = address.ok_or_else(|| wrong("this host and port cannot be resolved"))?;
        let tls = match encrypted {
            true => Some(tls(args, scheme, &full)?),
            false if args.cacert.is_some() || args.insecure => {
                return Err(Fault::new(format!(
                    "--cacert and --insecure are for https:// and rediss://, and this is `{url}`"
                ))
                .hint("leave them out, or write https://"));
            }
            false => None,
        };
        Ok(Server { scheme, host: host.to_string(), address, tls })
    }

    pub(super) fn sends(&self, texts: &[String], headers: &[String]) -> Result<Sends, Fault> {
        if self.scheme != Scheme::Http && !headers.is_empty() {
            return Err(Fault::new("--header is for http:// and https:// only")
                .hint("RESP and Homa have no headers; leave it out"));
        }
        let protocol: Result<Arc<dyn Protocol>, String> = match self.scheme {
            Scheme::Homa => return target::questions(texts).map(Sends::Questions),
            Scheme::Http => {
                let types = texts.iter().map(|text| listed(text)).collect::<Result<Vec<_>, _>>()?;
                Http::in_turn(&self.host, headers, &types).map(|http| Arc::new(http) as _)
            }
            Scheme::Resp => Resp::new(texts).map(|resp| Arc::new(resp) as _),
            Scheme::Tcp => Raw::new(texts).map(|raw| Arc::new(raw) as _),
        };
        let option = |error: &str| if error.starts_with("header") { "--header" } else { "--type" };
        protocol
            .map(Sends::Requests)
            .map_err(|error| Fault::new(format!("{}: {error}", option(&error))))
    }
}

/// The requests of a type: itself, or the lines of the file after `@`.
fn listed(text: &str) -> Result<Vec<String>, Fault> {
    let Some(path) = text.strip_prefix('@') else { return Ok(vec![text.to_string()]) };
    let file = files::text(Path::new(path))
        .map_err(|error| Fault::new(format!("--type: cannot read {path}: {error}")))?;
    let lines = file.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<String> = lines.map(str::to_string).collect();
    match lines.is_empty() {
        true => Err(Fault::new(format!("--type: {path} has no request"))
            .hint("write one a line, such as `POST /books/_search {\"size\": 3}`")),
        false => Ok(lines),
    }
}

/// Whom to believe, and what to speak.
fn tls(args: &Load, scheme: Scheme, host_and_port: &str) -> Result<Tls, Fault> {
    let trust = match &args.cacert {
        Some(file) => Trust::File(file),
        None if args.insecure => Trust::Anybody,
        None => Trust::System,
    };
    if args.insecure {
        terminal::talk("note: with --insecure nobody checks who the server is");
    }
    // Servers that could speak HTTP/2 as well must not.
    let protocols: &[&[u8]] = if scheme == Scheme::Http { &[b"http/1.1"] } else { &[] };
    let host = host_and_port.rsplit_once(':').map_or(host_and_port, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Tls::new(host, trust, protocols).map_err(|error| {
        let option = if args.cacert.is_some() { "--cacert: " } else { "" };
        Fault::new(format!("{option}{error}")).hint(
            "--cacert FILE names the authorities to trust, in PEM (BEGIN CERTIFICATE); for a test \
             server there is --insecure",
        )
    })
}

/// Why there is no connection, and what a user can do about it.
fn unconnected(error: &ConnectError) -> Fault {
    let tls = error.reason.get_ref().and_then(|inner| inner.downcast_ref::<TlsFault>());
    let cure = match tls {
        None => "is the server running, and does it allow so many connections?",
        Some(TlsFault::Issuer) => {
            "give the certificate of the authority that signed it with --cacert FILE (PEM); for a \
             test server there is --insecure"
        }
        Some(TlsFault::Authority) => {
            "sign a certificate for the server, for example with `openssl req -x509 ... -addext \
             basicConstraints=critical,CA:FALSE -addext subjectAltName=DNS:localhost`, and give \
             that file as --cacert; for a test server there is --insecure"
        }
        Some(TlsFault::Name { .. }) => {
            "connect by a name that the certificate has; for a test server there is --insecure"
        }
        Some(TlsFault::Date(_)) => {
            "renew the certificate, or set the clock of this machine; --insecure looks at no date"
        }
        Some(TlsFault::NotTls | TlsFault::HungUp | TlsFault::Silent(_)) => {
            "is this the port for TLS? Without it, write http:// (or redis://)"
        }
        Some(TlsFault::Client) => "let the server take clients without a certificate",
        Some(TlsFault::Other(_)) => {
            "the server must speak TLS 1.2 or 1.3; `openssl s_client -connect HOST:PORT` shows \
             what it offers"
        }
    };
    Fault::new(error.to_string()).hint(cure).code(FAILED)
}

pub(super) fn connect(
    args: &Load,
    server: &Server,
    sends: &Sends,
) -> Result<Vec<Box<dyn Target>>, Fault> {
    if !matches!(server.scheme, Scheme::Resp | Scheme::Tcp) && args.pipeline > 1 {
        let fault = Fault::new(format!("--pipeline {} is for RESP and tcp:// only", args.pipeline));
        return Err(match server.scheme {
            Scheme::Http => fault.hint("raise --connections instead"),
            _ => fault.hint("calls of Homa do not wait for each other"),
        });
    }
    if args.closed.is_some() && args.senders > 1 {
        return Err(Fault::new(format!("--closed has one sender, not --senders {}", args.senders)));
    }
    let protocol = match sends {
        Sends::Requests(protocol) => protocol,
        Sends::Questions(questions) => {
            let (at, timeout) = (server.address, args.timeout);
            return target::targets(at, &args.way, questions, timeout, args.senders);
        }
    };
    if args.way != Way::default() {
        return Err(Fault::new(format!("{}: the options of Homa are for homa:// only", args.url))
            .hint(
                "leave out --port, --raw, --link-mbps, --mtu, --levels, --unscheduled-bytes, \
                 --key-file, --polling",
            ));
    }
    if args.senders > args.connections {
        return Err(Fault::new(format!(
            "--senders {} need a connection each, and there are --connections {}",
            args.senders, args.connections
        )));
    }
    let (senders, connections) = (usize::from(args.senders), usize::from(args.connections));
    let client = |place: usize| {
        let share = connections / senders + usize::from(place < connections % senders);
        let options = ClientOptions {
            address: server.address,
            connections: share,
            depth: usize::from(args.pipeline),
            timeout: args.timeout,
        };
        let client = match &server.tls {
            Some(tls) => Client::connect_tls(tls.clone(), Arc::clone(protocol), options),
            None => Client::connect(Arc::clone(protocol), options),
        };
        client
            .map(|client| Box::new(client) as Box<dyn Target>)
            .map_err(|error| unconnected(&error))
    };
    (0..senders).map(client).collect()
}
