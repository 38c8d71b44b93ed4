//! The socket: datagrams in with the kernel's stamps, datagrams out.
//!
//! The kernel stamps a datagram when it comes in, by the clock of the day. What counts is how long
//! ago that was, so that a program that was late, or stopped, measures no longer round trips. When
//! that clock was set meanwhile, nobody can say how long ago it was, and the datagram is dropped.

use crate::world::DATAGRAM_BYTES_MAX;
use cavy_core::{Instant, Span};
use nix::sys::socket::{
    self, ControlMessageOwned, MsgFlags, SockaddrLike as _, SockaddrStorage, setsockopt, sockopt,
};
use rustix::time::{ClockId, clock_gettime};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::time::Duration;

/// How fast the clock of the day may run against the monotonic one without having been set: the
/// kernel slews by at most 500 ppm.
const SLEW: f64 = 1e-3;
/// What the difference of both clocks is known to.
const CLOCKS_NS: i128 = 1_000_000;
/// Room for datagrams that wait.
const BUFFER_BYTES: usize = 1 << 20;

/// A datagram that came.
#[derive(Debug)]
pub(crate) struct Came {
    pub(crate) from: SocketAddr,
    pub(crate) length: usize,
    pub(crate) arrived: Instant,
}

/// What the socket gave.
#[derive(Debug)]
pub(crate) enum Got {
    Datagram(Came),
    /// Too long, or with a stamp that says nothing.
    Dropped,
    Nothing,
}

/// The difference between both clocks, as it was seen last.
#[derive(Clone, Copy, Debug)]
struct Clocks {
    at: Instant,
    difference_ns: i128,
}

impl Clocks {
    fn now() -> (Clocks, Duration) {
        let at = cavy_clock::now();
        let wall = clock_gettime(ClockId::Realtime);
        let wall = Duration::new(wall.tv_sec.unsigned_abs(), wall.tv_nsec.unsigned_abs() as u32);
        let difference_ns = wall.as_nanos() as i128 - i128::from(at.as_ns());
        (Clocks { at, difference_ns }, wall)
    }

    /// Was the clock of the day set between `self` and `later`?
    fn was_set(self, later: Clocks) -> bool {
        let slewed = (later.at.since(self.at).as_ns() as f64 * SLEW) as i128;
        (later.difference_ns - self.difference_ns).abs() > CLOCKS_NS + slewed
    }
}

/// A socket and its buffer.
pub(crate) struct Carrier {
    socket: Socket,
    pub(crate) buffer: Vec<u8>,
    control: Vec<u8>,
    clocks: Clocks,
}

impl Carrier {
    pub(crate) fn open(bind: SocketAddr) -> io::Result<Carrier> {
        let socket = Socket::new(Domain::for_address(bind), Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_nonblocking(true)?;
        let _ = socket.set_recv_buffer_size(BUFFER_BYTES);
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        if bind.is_ipv6() {
            socket.set_only_v6(false)?;
        }
        socket.bind(&bind.into())?;
        Ok(Carrier {
            socket,
            buffer: vec![0; DATAGRAM_BYTES_MAX + 1],
            control: nix::cmsg_space!(nix::sys::time::TimeSpec),
            clocks: Clocks::now().0,
        })
    }

    pub(crate) fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()?.as_socket().ok_or_else(|| io::Error::other("no IP address"))
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The next datagram; its bytes are in the buffer.
    pub(crate) fn receive(&mut self) -> Got {
        let fd = self.socket.as_raw_fd();
        let mut slices = [IoSliceMut::new(&mut self.buffer)];
        let got = socket::recvmsg::<SockaddrStorage>(
            fd,
            &mut slices,
            Some(&mut self.control),
            MsgFlags::MSG_DONTWAIT,
        );
        let Ok(got) = got else { return Got::Nothing };
        let stamp = got.cmsgs().ok().and_then(|mut all| {
            all.find_map(|one| match one {
                ControlMessageOwned::ScmTimestampns(time) => Some(Duration::from(time)),
                _ => None,
            })
        });
        let (length, from) = (got.bytes, got.address.as_ref().and_then(address));
        let (clocks, wall) = Clocks::now();
        let was_set = self.clocks.was_set(clocks);
        let (Some(stamp), Some(from)) = (stamp, from) else { return Got::Dropped };
        if was_set || length > DATAGRAM_BYTES_MAX || stamp > wall {
            return Got::Dropped;
        }
        let ago = u64::try_from((wall - stamp).as_nanos()).unwrap_or(u64::MAX);
        let arrived = Instant::from_ns(clocks.at.as_ns().saturating_sub(ago));
        Got::Datagram(Came { from, length, arrived })
    }

    /// Everything was received that was there; what comes from now on is stamped from now on.
    pub(crate) fn settle(&mut self) {
        self.clocks = Clocks::now().0;
    }

    /// Sends; what the system has no room for is lost, as datagrams may be.
    pub(crate) fn send(&self, to: SocketAddr, bytes: &[u8]) -> bool {
        let to = match (to, self.socket.domain()) {
            (SocketAddr::V4(v4), Ok(domain)) if domain == Domain::IPV6 => {
                SocketAddr::new(IpAddr::V6(v4.ip().to_ipv6_mapped()), v4.port())
            }
            _ => to,
        };
        self.socket.send_to(bytes, &to.into()).is_ok_and(|sent| sent == bytes.len())
    }
}

/// The addresses of this host.
pub(crate) fn own_addresses() -> Vec<IpAddr> {
    let all = nix::ifaddrs::getifaddrs().into_iter().flatten();
    let all = all.filter_map(|one| address(&one.address?).map(|at| at.ip()));
    all.collect()
}

fn address(from: &SockaddrStorage) -> Option<SocketAddr> {
    match from.family()? {
        socket::AddressFamily::Inet => {
            let from = from.as_sockaddr_in()?;
            Some(SocketAddr::from((from.ip(), from.port())))
        }
        socket::AddressFamily::Inet6 => {
            let from = from.as_sockaddr_in6()?;
            // Peers are known by address and port; a link-local one also by its scope.
            let (ip, scope) = (IpAddr::V6(from.ip()).to_canonical(), from.scope_id());
            Some(match ip {
                IpAddr::V4(ip) => SocketAddr::from((ip, from.port())),
                IpAddr::V6(ip) => {
                    SocketAddr::V6(std::net::SocketAddrV6::new(ip, from.port(), 0, scope))
                }
            })
        }
        _ => None,
    }
}

/// How long to sleep until `at`.
pub(crate) fn until(at: Option<Instant>) -> Option<Span> {
    at.map(|at| at.since(cavy_clock::now()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_is_told_from_one_that_is_slewed() {
        let clocks = |s: u64, difference_ms: i128| Clocks {
            at: Instant::from_ns(s * 1_000_000_000),
            difference_ns: difference_ms * 1_000_000,
        };
        let before = clocks(100, 1_000_000);
        for (later, was_set) in [
            (clocks(100, 1_000_000), false),
            (clocks(110, 1_000_005), false),
            (clocks(110, 1_000_500), true),
            (clocks(100, 999_990), true),
            // By a day, forth and back.
            (clocks(101, 1_000_000 + 86_400_000), true),
            (clocks(101, 1_000_000 - 86_400_000), true),
        ] {
            assert_eq!(before.was_set(later), was_set, "{later:?}");
        }
    }
}
