//! Sockets: batches of packets in, packets of a level out.
//!
//! The level of a packet is the upper three bits of the TOS byte (IPv4) or the traffic class (IPv6)
//! ([homa 7.2]). It is an option of the socket, set when it differs from the last packet's: the
//! same bits on the wire as ancillary data for each packet ([homa 7.4]), without building that. A
//! batch is in the order of its levels, so that it is set a few times at most.
//!
//! What ICMP says of packets that were not delivered is read from the socket's queue of errors,
//! with the beginning of the packet that it quotes; whether to believe it is not decided here.

use super::options::{Carrier, Options};
use super::protocol::Protocol;
use crate::clock;
use bytes::Bytes;
use cavy_core::Span;
use nix::errno::Errno;
use nix::sys::socket::{
    self, ControlMessage, ControlMessageOwned, MsgFlags, MultiHeaders, SockaddrLike as _,
    SockaddrStorage, setsockopt, sockopt,
};
use nix::sys::time::TimeSpec;
use smallvec::SmallVec;
use socket2::{Domain, Socket, Type};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::time::Duration;

/// The longest header that a protocol's packets may have.
pub const HEAD_BYTES: usize = 80;

/// Packets received, or sent, by one call of the system.
pub(crate) const BATCH: usize = 32;

/// Reports of packets not delivered that are read at once; more wait for the next round.
const REPORTS: usize = 64;

/// A packet that waits to be sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outgoing {
    pub(crate) to: SocketAddr,
    pub(crate) level: u8,
    /// It carries no bytes of a message.
    pub(crate) control: bool,
    pub(crate) header: [u8; HEAD_BYTES],
    pub(crate) header_bytes: usize,
    pub(crate) payload: Bytes,
}

impl Outgoing {
    /// Its place in a batch: control packets first, then the highest level ([homa 7.4]).
    pub(crate) fn rank(&self) -> (bool, u8) {
        (!self.control, u8::MAX - self.level)
    }

    fn slices(&self) -> [IoSlice<'_>; 2] {
        let header = self.header.get(..self.header_bytes).unwrap_or(&[]);
        [IoSlice::new(header), IoSlice::new(&self.payload)]
    }
}

/// Why nothing was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unsent {
    /// The system has no room now.
    Later,
    /// The system will not send the first packet.
    Refused,
}

/// Room for the heads of a batch each way. It stays on the thread that made it.
pub(crate) struct Heads {
    received: MultiHeaders<SockaddrStorage>,
    sent: MultiHeaders<SockaddrStorage>,
}

impl Heads {
    pub(crate) fn new() -> Heads {
        // All of it is filled each time or none, so that what the system says of its length stays
        // right.
        let time = nix::cmsg_space!(TimeSpec);
        let room = |control| MultiHeaders::preallocate(BATCH, control);
        Heads { received: room(Some(time)), sent: room(None) }
    }
}

/// A socket and its buffers.
pub(crate) struct Wire {
    socket: Socket,
    carrier: Carrier,
    v6: bool,
    level: Option<u8>,
    /// The system has said that there are reports of packets not delivered.
    reports: bool,
    buffers: Vec<Box<[u8]>>,
    /// How long ago the system had the first packet of the last batch, where it says so.
    waited: Option<Span>,
    /// Length and source of each packet of the last batch.
    got: Vec<(usize, Option<SocketAddr>)>,
}

impl Wire {
    pub(crate) fn open<P: Protocol>(options: &Options<P>) -> io::Result<Wire> {
        let domain = Domain::for_address(options.bind);
        let (kind, protocol) = match options.carrier {
            Carrier::Udp => (Type::DGRAM, socket2::Protocol::UDP),
            Carrier::Raw => {
                let number = P::IP_PROTOCOL.ok_or(io::ErrorKind::Unsupported)?;
                (Type::RAW, socket2::Protocol::from(i32::from(number)))
            }
        };
        let socket = Socket::new(domain, kind, Some(protocol))?;
        socket.set_nonblocking(true)?;
        let bytes = options.socket_buffer_bytes as usize;
        // Past the system's limit with the right to it, up to the limit without.
        if setsockopt(&socket, sockopt::RcvBufForce, &bytes).is_err() {
            let _ = socket.set_recv_buffer_size(bytes);
        }
        if setsockopt(&socket, sockopt::SndBufForce, &bytes).is_err() {
            let _ = socket.set_send_buffer_size(bytes);
        }
        if options.unreachable_after.is_some() {
            // Without reports silence says the same, later.
            let _ = match options.bind.is_ipv6() {
                true => setsockopt(&socket, sockopt::Ipv6RecvErr, &true),
                false => setsockopt(&socket, sockopt::Ipv4RecvErr, &true),
            };
        }
        if options.measure_lag {
            setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        }
        socket.bind(&options.bind.into())?;
        let length = options.packet_bytes();
        Ok(Wire {
            socket,
            carrier: options.carrier,
            v6: options.bind.is_ipv6(),
            level: None,
            reports: false,
            waited: None,
            buffers: (0..BATCH).map(|_| vec![0; length].into_boxed_slice()).collect(),
            got: Vec::with_capacity(BATCH),
        })
    }

    pub(crate) fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()?.as_socket().ok_or_else(|| io::Error::other("no IP address"))
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Receives what there is, at most [`BATCH`] packets; how many.
    pub(crate) fn receive(&mut self, heads: &mut Heads) -> usize {
        self.got.clear();
        let mut buffers = self.buffers.iter_mut();
        let mut slices: [[IoSliceMut<'_>; 1]; BATCH] = std::array::from_fn(|_| {
            [IoSliceMut::new(buffers.next().map_or(&mut [], |buffer| &mut buffer[..]))]
        });
        let fd = self.socket.as_raw_fd();
        let flags = MsgFlags::MSG_DONTWAIT;
        let received = socket::recvmmsg(fd, &mut heads.received, slices.iter_mut(), flags, None);
        let received = match received {
            Ok(received) => received,
            Err(error) => {
                self.reports |= !matches!(error, Errno::EAGAIN | Errno::EINTR);
                return 0;
            }
        };
        let mut came = None;
        self.got.extend(received.map(|one| {
            // No control message but this one is asked for.
            came = came.or_else(|| one.cmsgs().ok()?.find_map(time));
            (one.bytes, one.address.as_ref().and_then(address))
        }));
        self.waited = came.map(|came| clock::wall().saturating_sub(came)).map(span);
        self.got.len()
    }

    /// How long the oldest packet of the last batch had waited when it was received; `None` the
    /// second time, without packets, and where that is not measured.
    pub(crate) fn take_waited(&mut self) -> Option<Span> {
        self.waited.take()
    }

    /// Packet `at` of the last batch, behind IP and UDP, and who sent it; `None` for one that was
    /// longer than its buffer or no packet.
    pub(crate) fn packet(&mut self, at: usize) -> Option<(SocketAddr, &mut [u8])> {
        let &(length, from) = self.got.get(at)?;
        let buffer = self.buffers.get_mut(at)?;
        if length >= buffer.len() {
            return None;
        }
        let (from, bytes) = (from?, buffer.get_mut(..length)?);
        match self.carrier {
            Carrier::Udp => Some((from, bytes)),
            Carrier::Raw => {
                // An IPv4 raw socket shows the header of IP.
                let header = usize::from(bytes.first()? & 0x0f) * 4;
                Some((SocketAddr::new(from.ip(), 0), bytes.get_mut(header..)?))
            }
        }
    }

    /// Sends packets of one level from the beginning of `packets`, at most [`BATCH`]; how many.
    pub(crate) fn send(
        &mut self,
        heads: &mut Heads,
        packets: &[Outgoing],
    ) -> Result<usize, Unsent> {
        let Some(level) = packets.first().map(|first| first.level) else { return Ok(0) };
        self.set_level(level);
        let same = packets.iter().take(BATCH).take_while(|packet| packet.level == level).count();
        let (fd, flags) = (self.socket.as_raw_fd(), MsgFlags::MSG_DONTWAIT);
        let none: [ControlMessage<'_>; 0] = [];
        let packets = packets.iter().take(same);
        let slices: SmallVec<[[IoSlice<'_>; 2]; BATCH]> =
            packets.clone().map(Outgoing::slices).collect();
        let to: SmallVec<[Option<SockaddrStorage>; BATCH]> =
            packets.map(|packet| Some(SockaddrStorage::from(packet.to))).collect();
        // The first refusal may be that of a packet sent long ago, which the system reports here.
        for _ in 0..2 {
            let sent = match (&slices[..], &to[..]) {
                // The usual case where little is to be done, and cheaper so.
                ([one], [Some(to)]) => socket::sendmsg(fd, one, &none, flags, Some(to)).map(|_| 1),
                _ => socket::sendmmsg(fd, &mut heads.sent, slices.iter(), &to, none, flags)
                    .map(Iterator::count),
            };
            match sent {
                Ok(sent) => return Ok(sent),
                Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::EINTR) => return Err(Unsent::Later),
                Err(_) => self.reports = true,
            }
        }
        Err(Unsent::Refused)
    }

    fn set_level(&mut self, level: u8) {
        if self.level == Some(level) {
            return;
        }
        self.level = Some(level);
        let tos = i32::from(level.min(7)) << 5;
        // A system that knows no levels still carries packets.
        let _ = match self.v6 {
            true => setsockopt(&self.socket, sockopt::Ipv6TClass, &tos),
            false => setsockopt(&self.socket, sockopt::Ipv4Tos, &tos),
        };
    }

    /// Notes that the system has reports.
    pub(crate) fn has_reports(&mut self) {
        self.reports = true;
    }

    /// Reads what the system was told of packets that found no socket: where each went, and how it
    /// began. Other errors are left out: a route that is missing may come back.
    pub(crate) fn undelivered(&mut self, mut tell: impl FnMut(SocketAddr, &[u8])) {
        if !self.reports {
            return;
        }
        let fd = self.socket.as_raw_fd();
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        for _ in 0..REPORTS {
            let (mut quote, mut control) = ([0; 128], [0; 256]);
            let mut slices = [IoSliceMut::new(&mut quote)];
            let report =
                socket::recvmsg::<SockaddrStorage>(fd, &mut slices, Some(&mut control), flags);
            let Ok(report) = report else {
                self.reports = false;
                return;
            };
            let about = report.cmsgs().ok().and_then(|mut all| all.find_map(no_socket));
            let to = report.address.as_ref().and_then(address);
            let length = report.bytes.min(128);
            if let (Some(()), Some(to)) = (about, to) {
                let to = match self.carrier {
                    Carrier::Udp => to,
                    Carrier::Raw => SocketAddr::new(to.ip(), 0),
                };
                tell(to, quote.get(..length).unwrap_or(&[]));
            }
        }
    }
}

/// Does a report say that nobody listens there: port or protocol unreachable?
fn no_socket(control: ControlMessageOwned) -> Option<()> {
    const ICMP: u8 = 2;
    const ICMP6: u8 = 3;
    let error = match control {
        ControlMessageOwned::Ipv4RecvErr(error, _) => error,
        ControlMessageOwned::Ipv6RecvErr(error, _) => error,
        _ => return None,
    };
    let kind = (error.ee_origin, error.ee_type, error.ee_code);
    matches!(kind, (ICMP, 3, 2 | 3) | (ICMP6, 1, 4) | (ICMP6, 4, 1)).then_some(())
}

/// When the system had a packet, since 1970.
fn time(control: ControlMessageOwned) -> Option<Duration> {
    match control {
        ControlMessageOwned::ScmTimestampns(time) => Some(time.into()),
        _ => None,
    }
}

fn span(duration: Duration) -> Span {
    Span::from_ns(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

fn address(from: &SockaddrStorage) -> Option<SocketAddr> {
    match from.family()? {
        socket::AddressFamily::Inet => {
            let from = from.as_sockaddr_in()?;
            Some(SocketAddr::from((from.ip(), from.port())))
        }
        socket::AddressFamily::Inet6 => {
            let from = from.as_sockaddr_in6()?;
            let (flow, scope) = (from.flowinfo(), from.scope_id());
            let address = std::net::SocketAddrV6::new(from.ip(), from.port(), flow, scope);
            Some(SocketAddr::V6(address))
        }
        _ => None,
    }
}
