//! An echo over UDP, for game clients that measure round trips themselves, as the beacons of
//! matchmaking services do.
//!
//! What comes goes back, as long as it was. Nobody is sent more than was sent in his name, no
//! address more than a hundred a second, and nothing goes to ports that other echoes have, so that
//! two of them cannot be made to talk to each other for ever.

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Echoes to one address in a second.
const PER_S: u32 = 100;
/// Addresses that are counted in a second; others get nothing.
const ADDRESSES_MAX: usize = 10_000;
/// Longer datagrams are not answered.
const BYTES_MAX: usize = 1_472;
/// Below it are the ports of services, of which some answer whatever comes.
const PORT_MIN: u16 = 1_024;

/// A running echo; it ends when this is dropped.
#[derive(Debug)]
pub struct Echo {
    address: SocketAddr,
    bell: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Echo {
    /// Listens.
    ///
    /// # Errors
    /// When the system refuses socket or thread.
    pub fn start(bind: SocketAddr) -> io::Result<Echo> {
        let socket = UdpSocket::bind(bind)?;
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let rung = Arc::clone(&bell);
        let thread = std::thread::Builder::new().name("echo".to_string());
        let thread = thread.spawn(move || run(&socket, address.port(), &rung))?;
        Ok(Echo { address, bell, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.bell, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(socket: &UdpSocket, port: u16, bell: &OwnedFd) {
    let mut bytes = [0; BYTES_MAX + 1];
    let (mut second, mut counts) = (0, BTreeMap::<IpAddr, u32>::new());
    loop {
        let mut fds = [PollFd::new(socket, PollFlags::IN), PollFd::new(bell, PollFlags::IN)];
        let _ = poll(&mut fds, None);
        if !fds[1].revents().is_empty() {
            return;
        }
        while let Ok((length, from)) = socket.recv_from(&mut bytes) {
            let now = cavy_clock::now().as_ns() / 1_000_000_000;
            if now != second {
                second = now;
                counts.clear();
            }
            let known = counts.len() < ADDRESSES_MAX || counts.contains_key(&from.ip());
            if length > BYTES_MAX || from.port() < PORT_MIN || from.port() == port || !known {
                continue;
            }
            let count = counts.entry(from.ip()).or_default();
            *count += 1;
            if *count <= PER_S {
                // What the system has no room for is lost, as datagrams may be.
                let _ = socket.send_to(&bytes[..length], from);
            }
        }
    }
}
