//! Standing before servers or clients that cannot be changed.

use super::typed::{Before, Gate, Map};
use super::way::{Places, apart};
use crate::faults::{FAILED, Fault};
use crate::signals::{self, Second};
use crate::terminal;
use cavy_stack::{Stack, Stream};
use serde_json::json;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

const CHUNK_BYTES: usize = 64 << 10;
/// How long a target may take to accept.
const OPENING: Duration = Duration::from_secs(10);
const DRAIN: Duration = Duration::from_secs(2);

/// Runs the command.
pub fn gate(args: &Gate) -> Result<ExitCode, Fault> {
    let ended = signals::told(Second::Ends)?;
    let stack = Arc::new(args.way.open()?);
    let places = Places::new(args.connections_max);
    for &map in &args.map {
        match args.before {
            Before::Clients => before_clients(&stack, map, places.clone(), args.backlog)?,
            Before::Servers => before_servers(&stack, map, places.clone(), args.backlog)?,
        }
    }
    let who = if args.before == Before::Clients { "clients" } else { "servers" };
    let maps = args.map.iter().map(|map| format!("{} to {}", map.listen, map.target));
    let maps: Vec<String> = maps.collect();
    args.way.say(&stack, &format!("gate before {who}:"), json!({ "maps": maps }))?;
    let _ = ended.recv();
    drop(ended);
    stack.flush(DRAIN);
    args.way.tell(&stack)?;
    Ok(ExitCode::SUCCESS)
}

/// The kernel takes connections of programs, and ours go on to the target.
fn before_clients(stack: &Arc<Stack>, map: Map, places: Places, backlog: u16) -> Result<(), Fault> {
    let listener = listen(map.listen, backlog).map_err(|error| {
        Fault::new(format!("cannot listen at {}: {error}", map.listen))
            .hint("take an address of this machine, and a port that is free")
    })?;
    let stack = Arc::clone(stack);
    let started = apart(move || {
        for client in listener.incoming().flatten() {
            let Some(place) = places.take() else { continue };
            let stack = Arc::clone(&stack);
            apart(move || {
                let from = stack.first_address();
                match stack.connect_from(from, map.target, Some(OPENING)) {
                    Ok(server) => through(client, server),
                    Err(error) => terminal::talk(&format!("{}: {error}", map.target)),
                }
                drop(place);
            });
        }
    });
    running(started)
}

/// A listener of the kernel's; the standard library's lets no more than 128 wait.
fn listen(at: SocketAddrV4, backlog: u16) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&SockAddr::from(at))?;
    socket.listen(backlog.into())?;
    Ok(socket.into())
}

/// Ours takes connections of whoever comes, and the kernel's go on to the target.
fn before_servers(stack: &Arc<Stack>, map: Map, places: Places, backlog: u16) -> Result<(), Fault> {
    let listener = stack.bind(map.listen, backlog).map_err(|error| {
        Fault::new(format!("cannot listen at {}: {error}", map.listen))
            .hint("take an address of the prefix that is not the kernel's")
    })?;
    let started = apart(move || {
        while let Ok((client, _)) = listener.accept() {
            let Some(place) = places.take() else {
                client.abort();
                continue;
            };
            apart(move || {
                match TcpStream::connect_timeout(&map.target.into(), OPENING) {
                    Ok(server) => through(server, client),
                    Err(error) => {
                        terminal::talk(&format!("{}: {error}", map.target));
                        client.abort();
                    }
                }
                drop(place);
            });
        }
    });
    running(started)
}

fn running(started: bool) -> Result<(), Fault> {
    let none = || Fault::new("the system has no more threads").code(FAILED);
    started.then_some(()).ok_or_else(none)
}

/// Carries both directions until both have ended. An end of one is told to the other; a break of
/// one breaks the other.
fn through(kernel: TcpStream, ours: Stream) {
    let _ = kernel.set_nodelay(true);
    let (kernel, ours) = (Arc::new(kernel), Arc::new(ours));
    let (from, to) = (Arc::clone(&kernel), Arc::clone(&ours));
    let (done, other_is_done) = std::sync::mpsc::channel();
    let started = apart(move || {
        let whole = carry(&*from, &*to).is_ok();
        if whole {
            to.shutdown(Shutdown::Write);
        } else {
            to.shutdown(Shutdown::Both);
            let _ = from.shutdown(Shutdown::Both);
        }
        let _ = done.send(whole);
    });
    if started && carry(&*ours, &*kernel).is_ok() {
        let _ = kernel.shutdown(Shutdown::Write);
    } else {
        let _ = kernel.shutdown(Shutdown::Both);
        ours.shutdown(Shutdown::Both);
    }
    let _ = other_is_done.recv();
}

fn carry(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match from.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(octets) => to.write_all(&chunk[..octets])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
