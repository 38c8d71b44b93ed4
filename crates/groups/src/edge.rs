//! Requests that a foreign generator sends, counted where they come in.
//!
//! The generator and the servers are others' programs, and tell nothing. But the kernel counts for
//! each TCP connection how many segments with data came in (`tcp_info`, which `ss -ti` prints as
//! `data_segs_in`). A request that is written at once and fits into a segment is one of them:
//! 64 KiB on the loopback, 1.4 KB elsewhere. Requests that take more segments each are counted that
//! much too high in all windows alike, which no gain shows. It also counts bytes; that a segment
//! holds as many of them with pauses as without is what shows that segments are requests or a fixed
//! number of them ([`Edge::take_reads`]).
//!
//! **Not here.** Requests on connections that end between two looks. A generator that opens one for
//! each request is refused.

use crate::now;
use cavy_core::Instant;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd as _;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST_DUMP: u16 = 0x301;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const INET_DIAG_INFO: u16 = 2;
const TCP: u8 = 6;
/// Connections that are established, or whose client has sent its last.
const STATES: u32 = 1 << 1 | 1 << 8;
const HEAD: usize = 16;
const REQUEST: usize = 72;
/// Of a message about a socket, before its attributes.
const ABOUT: usize = 72;
/// Where a socket's name is in it, and how long that is.
const NAME: (usize, usize) = (4, 48);
/// Where `tcp_info` has bytes and segments with data that came in.
const BYTES_RECEIVED: usize = 128;
const DATA_SEGS_IN: usize = 152;

/// What came in on one connection until now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Came {
    segments: u32,
    bytes: u64,
}

/// What had come in on all connections by some time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Read {
    /// When.
    pub at: Instant,
    /// Segments with data.
    pub segments: u64,
    /// Bytes.
    pub bytes: u64,
    /// Connections that had ended.
    pub ended: u64,
}

impl Read {
    /// What came in between two times, by the last of `reads` before each.
    pub(crate) fn between(reads: &[Read], from: Instant, to: Instant) -> Read {
        let by = |at: Instant| {
            let after = reads.partition_point(|read| read.at <= at);
            after.checked_sub(1).map_or_else(Read::default, |last| reads[last])
        };
        let (first, last) = (by(from), by(to));
        Read {
            at: to,
            segments: last.segments - first.segments,
            bytes: last.bytes - first.bytes,
            ended: last.ended - first.ended,
        }
    }

    /// Of both together.
    pub(crate) fn plus(self, other: Read) -> Read {
        Read {
            at: other.at,
            segments: self.segments + other.segments,
            bytes: self.bytes + other.bytes,
            ended: self.ended + other.ended,
        }
    }
}

/// Counts requests at a port.
#[derive(Debug)]
pub struct Edge {
    socket: OwnedFd,
    port: u16,
    came: BTreeMap<Vec<u8>, Came>,
    so_far: Read,
    /// Segments that [`Edge::take`] has told of.
    told: u64,
    reads: Vec<Read>,
}

impl Edge {
    /// Of connections to `port` in the network of process `pid`.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn open(port: u16, pid: i32) -> io::Result<Edge> {
        let space = std::fs::File::open(format!("/proc/{pid}/ns/net"))?;
        // A socket stays in the network in which it was made, and this program in its own.
        let made = std::thread::spawn(move || -> io::Result<OwnedFd> {
            move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))?;
            let flags = SocketFlags::CLOEXEC;
            let (family, kind) = (AddressFamily::NETLINK, SocketType::DGRAM);
            Ok(socket_with(family, kind, flags, Some(netlink::SOCK_DIAG))?)
        });
        let socket = made.join().map_err(|_| io::Error::other("a thread panicked"))??;
        let so_far = Read::default();
        let mut edge =
            Edge { socket, port, came: BTreeMap::new(), so_far, told: 0, reads: Vec::new() };
        // What came before is nobody's.
        edge.look()?;
        (edge.so_far, edge.reads) = (so_far, Vec::new());
        Ok(edge)
    }

    /// Connections that are open now, as of the last look.
    pub fn connections(&self) -> usize {
        self.came.len()
    }

    /// Connections that have ended since this was opened.
    pub fn ended(&self) -> u64 {
        self.so_far.ended
    }

    /// Requests that have come in since this was opened.
    pub fn total(&self) -> u64 {
        self.so_far.segments
    }

    /// Looks, and tells of requests since it last told.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn take(&mut self) -> io::Result<u32> {
        self.look()?;
        let requests = self.so_far.segments - self.told;
        self.told = self.so_far.segments;
        Ok(u32::try_from(requests).unwrap_or(u32::MAX))
    }

    /// What was found at each look since this was last called.
    pub fn take_reads(&mut self) -> Vec<Read> {
        std::mem::take(&mut self.reads)
    }

    fn look(&mut self) -> io::Result<()> {
        let mut came = BTreeMap::new();
        for family in [AddressFamily::INET, AddressFamily::INET6] {
            self.ask(family.as_raw() as u8)?;
            while !self.hear(&mut came)? {}
        }
        for (name, now) in &came {
            let before = self.came.get(name).copied().unwrap_or_default();
            self.so_far.segments += u64::from(now.segments.wrapping_sub(before.segments));
            self.so_far.bytes += now.bytes.saturating_sub(before.bytes);
        }
        self.so_far.ended +=
            self.came.keys().filter(|name| !came.contains_key(*name)).count() as u64;
        self.so_far.at = now();
        self.came = came;
        self.reads.push(self.so_far);
        Ok(())
    }

    fn ask(&self, family: u8) -> io::Result<()> {
        let mut request = [0_u8; REQUEST];
        request[..4].copy_from_slice(&(REQUEST as u32).to_ne_bytes());
        request[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        request[6..8].copy_from_slice(&NLM_F_REQUEST_DUMP.to_ne_bytes());
        let about = &mut request[HEAD..];
        (about[0], about[1], about[2]) = (family, TCP, 1 << (INET_DIAG_INFO - 1));
        about[4..8].copy_from_slice(&STATES.to_ne_bytes());
        about[8..10].copy_from_slice(&self.port.to_be_bytes());
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(&self.socket, &request, SendFlags::empty(), &kernel)?;
        Ok(())
    }

    /// Reads what the kernel has to say next; true at the end.
    fn hear(&self, came: &mut BTreeMap<Vec<u8>, Came>) -> io::Result<bool> {
        let mut bytes = vec![0_u8; 64 << 10];
        let length = loop {
            match recv(&self.socket, &mut bytes[..], RecvFlags::empty()) {
                Err(Errno::INTR) => {}
                other => break other?.0,
            }
        };
        messages(&bytes[..length], self.port, came)
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Reads messages about sockets of `port`; true when the last one was among them.
fn messages(mut rest: &[u8], port: u16, came: &mut BTreeMap<Vec<u8>, Came>) -> io::Result<bool> {
    while let Some(length) = u32_at(rest, 0).map(|length| length as usize) {
        if length < HEAD || length > rest.len() {
            break;
        }
        let body = &rest[HEAD..length];
        match u16_at(rest, 4) {
            Some(NLMSG_DONE) => return Ok(true),
            Some(NLMSG_ERROR) => {
                let code = u32_at(body, 0).unwrap_or(0) as i32;
                return Err(io::Error::from_raw_os_error(-code));
            }
            _ => {
                if let Some((name, one)) = connection(body, port) {
                    came.insert(name, one);
                }
            }
        }
        rest = &rest[length.next_multiple_of(4).min(rest.len())..];
    }
    Ok(false)
}

/// A connection's name, and what came in on it.
fn connection(body: &[u8], port: u16) -> Option<(Vec<u8>, Came)> {
    let name = body.get(NAME.0..NAME.0 + NAME.1)?;
    // Kernels that know no filter tell of all ports.
    if name[..2] != port.to_be_bytes() {
        return None;
    }
    let mut rest = body.get(ABOUT..)?;
    loop {
        let (length, kind) = (usize::from(u16_at(rest, 0)?), u16_at(rest, 2)?);
        let value = rest.get(4..length)?;
        if kind == INET_DIAG_INFO {
            let segments = u32_at(value, DATA_SEGS_IN)?;
            let bytes = value.get(BYTES_RECEIVED..BYTES_RECEIVED + 8)?.try_into().ok()?;
            return Some((name.to_vec(), Came { segments, bytes: u64::from_ne_bytes(bytes) }));
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_between_two_times_goes_by_the_looks_before_them() {
        let at = |ms: u64| Instant::from_ns(ms * 1_000_000);
        let read =
            |ms, segments| Read { at: at(ms), segments, bytes: segments * 9, ended: ms / 20 };
        let reads = [read(10, 5), read(20, 7), read(40, 30)];
        let found = Read::between(&reads, at(20), at(55));
        assert_eq!((found.segments, found.bytes, found.ended), (23, 207, 1));
        assert_eq!(Read::between(&reads, at(5), at(15)).segments, 5);
        assert_eq!(Read::between(&[], at(5), at(15)).segments, 0);
    }

    #[test]
    fn what_is_not_whole_is_left_out() {
        let mut came = BTreeMap::new();
        for length in 0..100 {
            let mut bytes = vec![0_u8; length];
            if length >= 4 {
                bytes[..4].copy_from_slice(&(length as u32).to_ne_bytes());
            }
            assert!(messages(&bytes, 0, &mut came).is_ok());
        }
        assert!(came.is_empty());
        let mut error = [0_u8; 36];
        error[0] = 36;
        error[4] = NLMSG_ERROR as u8;
        error[HEAD..HEAD + 4].copy_from_slice(&(-13_i32).to_ne_bytes());
        let said = messages(&error, 0, &mut came).expect_err("an error");
        assert_eq!(said.raw_os_error(), Some(13));
    }
}
