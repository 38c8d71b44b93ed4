//! Those that are compared `[homa 7.7]`: Homa with eight, two and one level, Basic, kernel TCP with
//! one connection for each pair of hosts and with a pool, QUIC, gRPC.
//!
//! Each has one thread a host. A message begins with the length of the answer that it wants;
//! whoever answers has read all of it before. Connections are there before the first message.

#[cfg(feature = "rpc")]
mod grpc;
mod homa;
#[cfg(feature = "rpc")]
mod quic;
mod tcp;

use super::books::Ticket;
use crate::args::HomaPeer;
use crate::faults::{FAILED, Fault};
use bytes::Bytes;
use cavy_live::homa::Lag;
use cavy_testbed::space::Space;
use cavy_testbed::{Plan, Testbed};
pub use homa::{Tuning, config};
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Runtime;

/// Port of servers.
const PORT: u16 = 4000;
/// Bytes in front of a message: the length of its answer.
const WISH_BYTES: usize = 4;
/// The longest message.
const MESSAGE_MAX_BYTES: usize = super::arrivals::BYTES.1 as usize;
/// How long peers may take to open their connections, and to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// A peer on all hosts.
pub trait Rig: Sync {
    /// Sends a message of at least 8 bytes from one host to another, whose answer ends the ticket.
    /// Returns at once.
    fn send(&self, from: u16, to: u16, message: Bytes, ticket: Ticket);
    /// What was sent again so far, in packets, where the peer itself counts that.
    fn sent_again(&self) -> Option<u64>;
    /// How late the hosts' threads were so far, where that is measured.
    fn lag(&self) -> Option<Lag> {
        None
    }
}

impl HomaPeer {
    /// All, in the order in which they run.
    pub const ALL: [HomaPeer; 12] = [
        HomaPeer::Homa,
        HomaPeer::HomaP2,
        HomaPeer::HomaP1,
        HomaPeer::Basic,
        HomaPeer::NoLevels,
        HomaPeer::NoGrants,
        HomaPeer::TcpCubic,
        HomaPeer::TcpBbr,
        HomaPeer::PoolCubic,
        HomaPeer::PoolBbr,
        HomaPeer::Quic,
        HomaPeer::Grpc,
    ];

    /// As in tables.
    pub fn label(self) -> &'static str {
        match self {
            HomaPeer::Homa => "Homa P8",
            HomaPeer::HomaP2 => "Homa P2",
            HomaPeer::HomaP1 => "Homa P1",
            HomaPeer::Basic => "Basic",
            HomaPeer::NoLevels => "Homa, switch without levels",
            HomaPeer::NoGrants => "Levels without grants",
            HomaPeer::NoIncastControl => "Homa without incast control",
            HomaPeer::TcpCubic => "TCP cubic",
            HomaPeer::TcpBbr => "TCP bbr",
            HomaPeer::PoolCubic => "TCP pool cubic",
            HomaPeer::PoolBbr => "TCP pool bbr",
            HomaPeer::Quic => "QUIC",
            HomaPeer::Grpc => "gRPC",
        }
    }

    /// As on the command line.
    pub fn name(self) -> String {
        use clap::ValueEnum as _;
        self.to_possible_value().map_or(String::new(), |value| value.get_name().to_string())
    }

    /// Is it a Homa whose network the lab has too?
    pub fn is_in_lab(self) -> bool {
        use HomaPeer::{Basic, Homa, HomaP1, HomaP2};
        matches!(self, Homa | HomaP2 | HomaP1 | Basic)
    }

    /// Is it kernel TCP, whoever speaks above it?
    pub fn is_tcp(self) -> bool {
        self.congestion_control().is_some()
    }

    /// What kernel TCP is told.
    fn congestion_control(self) -> Option<&'static str> {
        match self {
            HomaPeer::TcpCubic | HomaPeer::PoolCubic | HomaPeer::Grpc => Some("cubic"),
            HomaPeer::TcpBbr | HomaPeer::PoolBbr => Some("bbr"),
            _ => None,
        }
    }

    /// Why it cannot run here; `None` when it can.
    pub fn obstacle(self) -> Option<String> {
        if !cfg!(feature = "rpc") && matches!(self, HomaPeer::Quic | HomaPeer::Grpc) {
            return Some("this program was built without it; `make live` builds it in".to_string());
        }
        let wanted = self.congestion_control()?;
        let all = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
        let there = all.is_ok_and(|all| all.split_whitespace().any(|one| one == wanted));
        (!there).then(|| format!("this kernel has no TCP {wanted}"))
    }
}

/// Starts a peer on all hosts of a testbed; Homa is tuned to the messages to come.
pub fn start(
    peer: HomaPeer,
    testbed: &mut Testbed,
    tuning: Tuning<'_>,
) -> Result<Box<dyn Rig>, Fault> {
    if let Some(reason) = peer.obstacle() {
        return Err(broken(format!("{}: {reason}", peer.label())));
    }
    testbed.set_levels(peer != HomaPeer::NoLevels)?;
    let Some(control) = peer.congestion_control() else {
        return Ok(match peer {
            #[cfg(feature = "rpc")]
            HomaPeer::Quic => Box::new(quic::start(testbed)?),
            _ => Box::new(homa::start(peer, testbed, tuning)?),
        });
    };
    Ok(match peer {
        #[cfg(feature = "rpc")]
        HomaPeer::Grpc => Box::new(grpc::start(testbed, control)?),
        HomaPeer::TcpCubic | HomaPeer::TcpBbr => {
            Box::new(tcp::start(testbed, control, tcp::Way::Single)?)
        }
        _ => Box::new(tcp::start(testbed, control, tcp::Way::Pool)?),
    })
}

/// A socket of kernel TCP with this congestion control, which those that it accepts have as well.
fn tcp_socket(control: &'static str) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.set_nodelay(true)?;
    socket2::SockRef::from(&socket).set_tcp_congestion(control.as_bytes())?;
    Ok(socket)
}

/// Listens on the port of servers of a host.
async fn listen(host: u16, control: &'static str) -> io::Result<TcpListener> {
    let socket = tcp_socket(control)?;
    socket.bind(SocketAddr::from((Plan::address(host), PORT)))?;
    socket.listen(1_024)
}

/// Connects to a server.
async fn connect(to: SocketAddr, control: &'static str) -> io::Result<TcpStream> {
    tcp_socket(control)?.connect(to).await
}

/// A runtime whose only worker, and so all its sockets, are in a host.
fn runtime(host: &Space) -> Result<Runtime, Fault> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let builder = builder.worker_threads(1).thread_name("peer").enable_all();
    host.within(|| builder.build())?
        .map_err(|error| broken(format!("cannot start a runtime in {}: {error}", host.name())))
}

/// Runs something on a runtime's own worker.
fn on<T: Send + 'static>(
    runtime: &Runtime,
    what: impl Future<Output = io::Result<T>> + Send + 'static,
) -> Result<T, Fault> {
    let task = runtime.spawn(async { tokio::time::timeout(PATIENCE, what).await });
    match runtime.block_on(task) {
        Ok(Ok(Ok(done))) => Ok(done),
        Ok(Ok(Err(error))) => Err(broken(format!("a peer cannot start: {error}"))),
        _ => Err(broken("a peer did not start in time")),
    }
}

/// The other hosts.
#[cfg(feature = "rpc")]
fn others(host: u16, hosts: u16) -> impl Iterator<Item = u16> {
    (0..hosts).filter(move |&other| other != host)
}

/// How long an answer a message wants; `None` when it is no message.
fn wish(message: &[u8]) -> Option<usize> {
    let wish: [u8; WISH_BYTES] = message.get(..WISH_BYTES)?.try_into().ok()?;
    Some((u32::from_be_bytes(wish) as usize).min(MESSAGE_MAX_BYTES))
}

/// The bytes of answers: the first so many of these.
fn blank() -> Bytes {
    Bytes::from(vec![0; MESSAGE_MAX_BYTES])
}

/// The bytes of messages that want an answer of this length: the first so many of these.
pub fn messages(answer_bytes: u32) -> Bytes {
    let mut bytes = vec![0; MESSAGE_MAX_BYTES];
    bytes[..WISH_BYTES].copy_from_slice(&answer_bytes.to_be_bytes());
    Bytes::from(bytes)
}

fn broken(what: impl Into<String>) -> Fault {
    Fault::new(what).code(FAILED)
}
