//! One file from many HTTP servers at once.

use super::http::{self, Buffer};
use super::typed::{Fetch, place};
use crate::faults::{FAILED, Fault};
use crate::terminal;
use cavy_lab::statistics::quantile;
use cavy_stack::{Stack, Stream};
use serde_json::json;
use std::fs::File;
use std::io;
use std::net::{SocketAddrV4, TcpStream};
use std::os::unix::fs::FileExt as _;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A server.
struct Server {
    url: String,
    host: String,
    path: String,
    at: SocketAddrV4,
}

/// A connection to one.
enum Way {
    Kernel(TcpStream),
    Ours(Stream),
}

impl Way {
    fn ask(
        &self,
        buffer: &mut Buffer,
        of: &Server,
        part: (u64, u64),
        keep: impl FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> io::Result<http::Answer> {
        let what = (of.host.as_str(), of.path.as_str());
        match self {
            Way::Kernel(stream) => http::ask(stream, buffer, what, part, keep),
            Way::Ours(stream) => {
                let answer = http::ask(stream, buffer, what, part, keep);
                stream.answered();
                answer
            }
        }
    }
}

/// Runs the command.
pub fn fetch(args: &Fetch) -> Result<ExitCode, Fault> {
    let servers: Vec<Server> = args.urls.iter().map(|url| server(url)).collect::<Result<_, _>>()?;
    let out = match &args.out {
        Some(path) => Some(File::create(path).map_err(|error| {
            Fault::new(format!("--out {}: {error}", path.display())).hint("is the folder there?")
        })?),
        None => None,
    };
    let stack = if args.kernel { None } else { Some(args.way.open()?) };
    let failed = |server: &Server, error: io::Error| {
        let hint = "is the server running, and does it have a route back to the prefix?";
        Fault::new(format!("{}: {error}", server.url)).code(FAILED).hint(hint)
    };
    let mut ways = Vec::new();
    let mut whole = None;
    for server in &servers {
        let way = connect(args, stack.as_ref(), server).map_err(|error| failed(server, error))?;
        let mut buffer = Buffer::default();
        let answer = way.ask(&mut buffer, server, (0, 1), |_, _| Ok(()));
        let answer = answer.map_err(|error| failed(server, error))?;
        let length = match (answer.status, answer.whole) {
            (206, Some(length)) => length,
            (status, _) => {
                let message = format!("{} answers {status} to a range", server.url);
                let hint = "the file must be there and not empty, and the server must know ranges";
                return Err(Fault::new(message).code(FAILED).hint(hint));
            }
        };
        if *whole.get_or_insert(length) != length {
            let message = format!(
                "{} has {length} octets, and the file of another server has another length",
                server.url
            );
            return Err(Fault::new(message)
                .code(FAILED)
                .hint("all servers must have the same file"));
        }
        ways.push((way, buffer));
    }
    let whole = whole.unwrap_or(0);
    let mut seconds = Vec::new();
    for _ in 0..args.repeat {
        let began = cavy_clock::now();
        once(args, &servers, &mut ways, whole, out.as_ref())
            .map_err(|(at, error)| failed(&servers[at], error))?;
        seconds.push(cavy_clock::now().since(began).as_us() / 1e6);
    }
    tell(args, stack.as_ref(), servers.len(), whole, seconds)?;
    Ok(ExitCode::SUCCESS)
}

/// Fetches the file: whoever is free takes the next part.
fn once(
    args: &Fetch,
    servers: &[Server],
    ways: &mut [(Way, Buffer)],
    whole: u64,
    out: Option<&File>,
) -> Result<(), (usize, io::Error)> {
    let next = AtomicU64::new(0);
    let trouble = Mutex::new(None);
    std::thread::scope(|scope| {
        for (number, ((way, buffer), server)) in ways.iter_mut().zip(servers).enumerate() {
            let (next, trouble) = (&next, &trouble);
            scope.spawn(move || {
                loop {
                    let start = next.fetch_add(args.part_bytes, Ordering::Relaxed);
                    if start >= whole {
                        return;
                    }
                    let end = (start + args.part_bytes).min(whole);
                    let keep =
                        |at, bytes: &[u8]| out.map_or(Ok(()), |out| out.write_all_at(bytes, at));
                    let done = way.ask(buffer, server, (start, end), keep);
                    let done = done.and_then(|answer| match answer {
                        http::Answer { status: 206, length, .. } if length == end - start => Ok(()),
                        http::Answer { status, length, .. } => Err(io::Error::other(format!(
                            "it answers {status} with {length} octets to a range of {}",
                            end - start
                        ))),
                    });
                    if let Err(error) = done {
                        next.store(u64::MAX / 2, Ordering::Relaxed);
                        let mut trouble = trouble.lock().unwrap_or_else(PoisonError::into_inner);
                        trouble.get_or_insert((number, error));
                        return;
                    }
                }
            });
        }
    });
    trouble.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

fn connect(args: &Fetch, stack: Option<&Stack>, server: &Server) -> io::Result<Way> {
    let timeout = Duration::from_nanos(args.timeout.as_ns());
    Ok(match stack {
        None => {
            let stream = TcpStream::connect_timeout(&server.at.into(), timeout)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(timeout))?;
            Way::Kernel(stream)
        }
        Some(stack) => {
            let stream = stack.connect_from(stack.first_address(), server.at, Some(timeout))?;
            stream.set_timeout(Some(timeout));
            Way::Ours(stream)
        }
    })
}

fn tell(
    args: &Fetch,
    stack: Option<&Stack>,
    servers: usize,
    whole: u64,
    seconds: Vec<f64>,
) -> Result<(), Fault> {
    let total: f64 = seconds.iter().sum();
    let mbps = whole as f64 * 8.0 * seconds.len() as f64 / total.max(1e-9) / 1e6;
    let mut sorted = seconds;
    sorted.sort_by(f64::total_cmp);
    let ms = |p| quantile::of_sorted(&sorted, p).map_or(0.0, |seconds| seconds * 1e3);
    let (median, worst) = (ms(0.5), ms(1.0));
    let metrics = stack.map(Stack::metrics);
    if args.way.json {
        let said = json!({
            "servers": servers, "octets": whole, "times": sorted.len(), "mbps": mbps,
            "median_ms": median, "worst_ms": worst,
            "by": if args.kernel { "kernel" } else { "ours" },
            "in_turn": args.way.port_bytes.is_some() && !args.kernel, "metrics": metrics,
        });
        return terminal::print(&format!("{said}\n"));
    }
    terminal::print(&format!(
        "{whole} octets from {servers} servers, {} times: {mbps:.1} Mb/s; median {median:.1} ms, \
         worst {worst:.1} ms\n",
        sorted.len()
    ))
}

/// Reads `http://HOST[:PORT]/PATH`.
fn server(url: &str) -> Result<Server, Fault> {
    let wrong = |why: String| {
        Fault::new(format!("{url:?} is no address of a file: {why}"))
            .hint("write http://HOST/PATH or http://HOST:PORT/PATH; HTTPS cannot be fetched")
    };
    let rest = url.strip_prefix("http://").ok_or_else(|| wrong("it has no http://".into()))?;
    let (host, path) = rest.split_once('/').map_or((rest, ""), |(host, path)| (host, path));
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    if host.is_empty() || !plain(host) || !plain(path) {
        return Err(wrong("it has no host, or characters that a URL has not".into()));
    }
    let known = if host.contains(':') { host.to_string() } else { format!("{host}:80") };
    let at = place(&known).map_err(wrong)?;
    Ok(Server { url: url.to_string(), host: host.to_string(), path: format!("/{path}"), at })
}
