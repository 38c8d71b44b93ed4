//! Sockets: batches of packets in, packets of a level out.
//!
//! The level of a packet is the upper three bits of the TOS byte (IPv4) or the traffic class (IPv6)
//! ([homa 7.2]). It is an option of the socket, set when it differs from the last packet's: the same
//! bits on the wire as ancillary data for each packet, without building that.

use super::options::{Carrier, Options};
use bytes::Bytes;
use cavy_homa::wire::{HEADER_MAX_BYTES, PROTOCOL};
use nix::errno::Errno;
use nix::sys::socket::{
    self, MsgFlags, MultiHeaders, SockaddrIn, SockaddrIn6, SockaddrLike as _, SockaddrStorage,
    setsockopt, sockopt,
};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};

/// Packets received by one call of the system.
pub(super) const BATCH: usize = 32;

/// A packet that waits to be sent.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) to: SocketAddr,
    pub(super) level: u8,
    pub(super) header: [u8; HEADER_MAX_BYTES],
    pub(super) header_bytes: usize,
    pub(super) payload: Bytes,
}

/// How sending ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sent {
    /// The system has it.
    Yes,
    /// The system has no room now.
    Later,
    /// The system will not.
    No,
}

/// Room for the heads of one batch. It stays on the thread that made it.
pub(super) struct Heads(MultiHeaders<SockaddrStorage>);

impl Heads {
    pub(super) fn new() -> Heads {
        Heads(MultiHeaders::preallocate(BATCH, None))
    }
}

/// A socket and its buffers.
pub(super) struct Wire {
    socket: Socket,
    carrier: Carrier,
    v6: bool,
    level: Option<u8>,
    buffers: Vec<Box<[u8]>>,
    /// Length and source of each packet of the last batch.
    got: Vec<(usize, Option<SocketAddr>)>,
}

impl Wire {
    pub(super) fn open(options: &Options) -> io::Result<Wire> {
        let domain = Domain::for_address(options.bind);
        let (kind, protocol) = match options.carrier {
            Carrier::Udp => (Type::DGRAM, Protocol::UDP),
            Carrier::Raw => (Type::RAW, Protocol::from(i32::from(PROTOCOL))),
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
        socket.bind(&options.bind.into())?;
        let length = options.packet_bytes();
        Ok(Wire {
            socket,
            carrier: options.carrier,
            v6: options.bind.is_ipv6(),
            level: None,
            buffers: (0..BATCH).map(|_| vec![0; length].into_boxed_slice()).collect(),
            got: Vec::with_capacity(BATCH),
        })
    }

    pub(super) fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()?.as_socket().ok_or_else(|| io::Error::other("no IP address"))
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Receives what there is, at most [`BATCH`] packets; how many.
    pub(super) fn receive(&mut self, heads: &mut Heads) -> usize {
        self.got.clear();
        let mut buffers = self.buffers.iter_mut();
        let mut slices: [[IoSliceMut<'_>; 1]; BATCH] = std::array::from_fn(|_| {
            [IoSliceMut::new(buffers.next().map_or(&mut [], |buffer| &mut buffer[..]))]
        });
        let fd = self.socket.as_raw_fd();
        let flags = MsgFlags::MSG_DONTWAIT;
        let received = socket::recvmmsg(fd, &mut heads.0, slices.iter_mut(), flags, None);
        // Nothing there, or an error that an ICMP message left behind: look again later.
        let Ok(received) = received else { return 0 };
        self.got.extend(received.map(|one| (one.bytes, one.address.as_ref().and_then(address))));
        self.got.len()
    }

    /// Packet `at` of the last batch, behind IP and UDP, and who sent it; `None` for one that was
    /// longer than its buffer or no packet.
    pub(super) fn packet(&self, at: usize) -> Option<(SocketAddr, &[u8])> {
        let &(length, from) = self.got.get(at)?;
        let buffer = self.buffers.get(at)?;
        let (from, bytes) = (from?, buffer.get(..length)?);
        if length >= buffer.len() {
            return None;
        }
        match self.carrier {
            Carrier::Udp => Some((from, bytes)),
            Carrier::Raw => {
                // An IPv4 raw socket shows the header of IP.
                let header = usize::from(bytes.first()? & 0x0f) * 4;
                Some((SocketAddr::new(from.ip(), 0), bytes.get(header..)?))
            }
        }
    }

    /// Sends one packet.
    pub(super) fn send(&mut self, packet: &Outgoing) -> Sent {
        if self.level != Some(packet.level) {
            self.level = Some(packet.level);
            let tos = i32::from(packet.level.min(7)) << 5;
            // A system that knows no levels still carries packets.
            let _ = match self.v6 {
                true => setsockopt(&self.socket, sockopt::Ipv6TClass, &tos),
                false => setsockopt(&self.socket, sockopt::Ipv4Tos, &tos),
            };
        }
        let header = packet.header.get(..packet.header_bytes).unwrap_or(&[]);
        let slices = [IoSlice::new(header), IoSlice::new(&packet.payload)];
        let fd = self.socket.as_raw_fd();
        let flags = MsgFlags::MSG_DONTWAIT;
        let sent = match packet.to {
            SocketAddr::V4(to) => {
                socket::sendmsg(fd, &slices, &[], flags, Some(&SockaddrIn::from(to)))
            }
            SocketAddr::V6(to) => {
                socket::sendmsg(fd, &slices, &[], flags, Some(&SockaddrIn6::from(to)))
            }
        };
        match sent {
            Ok(_) => Sent::Yes,
            Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::EINTR) => Sent::Later,
            Err(_) => Sent::No,
        }
    }
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
