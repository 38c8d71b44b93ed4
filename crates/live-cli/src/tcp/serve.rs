//! Answering on every address of a prefix.

use super::http;
use super::typed::{Serve, Service};
use super::way::{Places, apart};
use crate::faults::{FAILED, Fault};
use crate::signals::{self, Second};
use cavy_stack::Stream;
use serde_json::json;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// What is read or written at a time.
const CHUNK_BYTES: usize = 64 << 10;
/// How long the end waits for what was written.
const DRAIN: Duration = Duration::from_secs(2);

/// Runs the command.
pub fn serve(args: &Serve) -> Result<ExitCode, Fault> {
    let root = match &args.root {
        Some(root) => {
            let whole = root.canonicalize().ok().filter(|root| root.is_dir());
            Some(Arc::new(whole.ok_or_else(|| {
                let message = format!("--root {} is no folder", root.display());
                Fault::new(message).hint("name a folder that can be read")
            })?))
        }
        None => None,
    };
    let ended = signals::told(Second::Ends)?;
    let stack = args.way.open()?;
    let at = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, args.port);
    let listener = stack.bind(at, args.backlog);
    let listener = listener.map_err(|error| Fault::new(format!("--port: {error}")))?;
    let service = args.service;
    let places = Places::new(args.connections_max);
    let accepting = apart(move || {
        while let Ok((stream, _)) = listener.accept() {
            let Some(place) = places.take() else {
                stream.abort();
                continue;
            };
            let root = root.clone();
            apart(move || {
                // An end that is the client's fault is the client's to know.
                let _ = answer(service, &stream, root.as_deref());
                drop((stream, place));
            });
        }
    });
    if !accepting {
        return Err(Fault::new("the system has no more threads").code(FAILED));
    }
    let name = format!("{service:?}").to_lowercase();
    args.way.say(
        &stack,
        &format!("serves {name} at port {}:", args.port),
        json!({ "port": args.port }),
    )?;
    // Nobody sends but the signal handler, which lives as long as the program.
    let _ = ended.recv();
    drop(ended);
    stack.flush(DRAIN);
    args.way.tell(&stack)?;
    Ok(ExitCode::SUCCESS)
}

fn answer(service: Service, stream: &Stream, root: Option<&PathBuf>) -> io::Result<()> {
    let mut stream = stream;
    match service {
        Service::Echo => {
            let mut chunk = vec![0; CHUNK_BYTES];
            loop {
                match stream.read(&mut chunk)? {
                    0 => return Ok(()),
                    octets => stream.write_all(&chunk[..octets])?,
                }
            }
        }
        Service::Sink => io::copy(&mut stream, &mut io::sink()).map(|_| ()),
        Service::Source => {
            let chunk = vec![b'a'; CHUNK_BYTES];
            loop {
                stream.write_all(&chunk)?;
            }
        }
        Service::Blocks => {
            let chunk = vec![b'a'; CHUNK_BYTES];
            let mut asked = [0; 4];
            loop {
                stream.read_exact(&mut asked)?;
                let mut left = u32::from_be_bytes(asked) as usize;
                while left > 0 {
                    let length = left.min(chunk.len());
                    stream.write_all(&chunk[..length])?;
                    left -= length;
                }
            }
        }
        Service::Files => match root {
            Some(root) => http::serve(stream, root),
            None => Ok(()),
        },
    }
}
