//! The bytes of one connection, which the machine names and never sees.

use cavy_tcp::Why;
use parking_lot::Condvar;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::task::Waker;

/// Room that an idle connection may keep.
const KEPT_BYTES: usize = 1 << 10;

/// How far a connection is, for its application.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    Opening,
    Open,
    Over(Why),
}

#[derive(Debug)]
pub struct Flow {
    pub local: SocketAddrV4,
    pub peer: SocketAddrV4,
    pub stage: Stage,
    /// This side opened it.
    pub opened_here: bool,
    /// What the peer has not acknowledged, from `released` on.
    pub out: VecDeque<u8>,
    pub released: u64,
    pub shut: bool,
    /// What came, from `taken` on; before `readable` it has no holes.
    pub came: VecDeque<u8>,
    pub taken: u64,
    pub readable: u64,
    pub finished: bool,
    /// The application reads no more, whatever comes.
    pub deaf: bool,
    /// No application has it any more.
    pub orphaned: bool,
    /// An answer is awaited, and something came last at that time.
    pub asking: bool,
    pub heard_at: cavy_core::Instant,
    pub bell: Arc<Condvar>,
    pub reader: Option<Waker>,
    pub writer: Option<Waker>,
}

impl Flow {
    pub fn new(local: SocketAddrV4, peer: SocketAddrV4, opened_here: bool) -> Flow {
        Flow {
            local,
            peer,
            stage: if opened_here { Stage::Opening } else { Stage::Open },
            opened_here,
            out: VecDeque::new(),
            released: 0,
            shut: false,
            came: VecDeque::new(),
            taken: 0,
            readable: 0,
            finished: false,
            deaf: false,
            orphaned: false,
            asking: false,
            heard_at: cavy_core::Instant::ZERO,
            bell: Arc::new(Condvar::new()),
            reader: None,
            writer: None,
        }
    }

    /// Whoever waits looks again.
    pub fn wake(&mut self) {
        self.bell.notify_all();
        for waker in [self.reader.take(), self.writer.take()].into_iter().flatten() {
            waker.wake();
        }
    }

    /// A part of a packet belongs at this offset of the stream.
    pub fn place(&mut self, offset: u64, part: &[u8]) {
        if self.deaf || offset < self.taken {
            return;
        }
        // The machine places nothing beyond the buffer.
        let at = (offset - self.taken) as usize;
        if at == self.came.len() {
            self.came.extend(part);
            return;
        }
        let end = at + part.len();
        if end > self.came.len() {
            self.came.resize(end, 0);
        }
        let (first, second) = self.came.as_mut_slices();
        let cut = first.len();
        if at >= cut {
            second[at - cut..end - cut].copy_from_slice(part);
        } else {
            let (left, right) = part.split_at(part.len().min(cut - at));
            first[at..at + left.len()].copy_from_slice(left);
            second[..right.len()].copy_from_slice(right);
        }
    }

    /// Takes what is readable; `None` when nothing is, yet.
    pub fn read(&mut self, into: &mut [u8]) -> Option<io::Result<usize>> {
        let there = (self.readable - self.taken) as usize;
        let length = there.min(into.len());
        if into.is_empty() || (there == 0 && (self.finished || self.deaf)) {
            return Some(Ok(0));
        }
        if length == 0 {
            return match self.stage {
                Stage::Over(Why::Closed) => Some(Ok(0)),
                Stage::Over(why) => Some(Err(error(why))),
                Stage::Opening | Stage::Open => None,
            };
        }
        let (first, second) = self.came.as_slices();
        let left = length.min(first.len());
        into[..left].copy_from_slice(&first[..left]);
        into[left..length].copy_from_slice(&second[..length - left]);
        self.came.drain(..length);
        self.taken += length as u64;
        if self.came.is_empty() && self.came.capacity() > KEPT_BYTES {
            self.came = VecDeque::new();
        }
        Some(Ok(length))
    }

    /// Keeps what is to be sent; `None` when there is no room, yet.
    pub fn write(&mut self, from: &[u8], most: usize) -> Option<io::Result<usize>> {
        match self.stage {
            Stage::Over(Why::Closed) => return Some(Err(io::ErrorKind::BrokenPipe.into())),
            Stage::Over(why) => return Some(Err(error(why))),
            Stage::Opening => return None,
            Stage::Open => {}
        }
        if self.shut {
            return Some(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let length = most.saturating_sub(self.out.len()).min(from.len());
        if length == 0 && !from.is_empty() {
            return None;
        }
        self.out.extend(&from[..length]);
        Some(Ok(length))
    }

    /// The peer has all before this offset.
    pub fn release(&mut self, to: u64) {
        let octets = to.saturating_sub(self.released) as usize;
        self.out.drain(..octets.min(self.out.len()));
        self.released = self.released.max(to);
        if self.out.is_empty() && self.out.capacity() > KEPT_BYTES {
            self.out = VecDeque::new();
        }
    }

    /// The bytes of a segment: `offset` has the lowest 32 bits of where they begin.
    pub fn bytes(&self, offset: u32, length: u32) -> [&[u8]; 2] {
        let at = offset.wrapping_sub(self.released as u32) as i32;
        let Ok(at) = usize::try_from(at) else {
            // A question whether the peer is there has an octet that it has already, whichever.
            return [&[0; 1][..length.min(1) as usize], &[]];
        };
        let end = at + length as usize;
        let (first, second) = self.out.as_slices();
        let cut = first.len();
        let part = |from: usize, to: usize, of: &'_ [u8]| from.min(of.len())..to.min(of.len());
        let (left, right) =
            (part(at, end, first), part(at.saturating_sub(cut), end.saturating_sub(cut), second));
        [&first[left], &second[right]]
    }
}

/// An end that was none of the application's making.
pub fn error(why: Why) -> io::Error {
    let (kind, text) = match why {
        Why::Closed => (io::ErrorKind::BrokenPipe, "the connection is closed"),
        Why::Reset => (io::ErrorKind::ConnectionReset, "the peer reset the connection"),
        Why::Refused => (io::ErrorKind::ConnectionRefused, "nobody listens there"),
        Why::TimedOut => (io::ErrorKind::TimedOut, "the peer did not answer for too long"),
        Why::Aborted => (io::ErrorKind::ConnectionAborted, "this side aborted the connection"),
    };
    io::Error::new(kind, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn flow() -> Flow {
        let at = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1);
        Flow { stage: Stage::Open, ..Flow::new(at, at, true) }
    }

    #[test]
    fn what_comes_out_of_order_is_read_in_order() {
        let mut flow = flow();
        flow.place(0, b"ab");
        flow.readable = 2;
        let mut into = [0; 8];
        assert_eq!(flow.read(&mut into).expect("readable").expect("fine"), 2);
        flow.place(7, b"hij");
        flow.place(2, b"cd");
        flow.readable = 4;
        flow.place(4, b"efg");
        flow.readable = 10;
        assert_eq!(flow.read(&mut into).expect("readable").expect("fine"), 8);
        assert_eq!(&into, b"cdefghij");
        assert!(flow.read(&mut into).is_none());
        flow.finished = true;
        assert_eq!(flow.read(&mut into).expect("the end").expect("fine"), 0);
    }

    #[test]
    fn segments_are_taken_from_wherever_the_ring_has_them() {
        let mut flow = flow();
        let all: Vec<u8> = (0..200).map(|n| n as u8).collect();
        flow.released = (1 << 32) - 50;
        let start = flow.released;
        flow.out = VecDeque::with_capacity(64);
        let mut written = 0;
        while written < all.len() {
            let room = flow.write(&all[written..], 64).map_or(0, |done| done.expect("fine"));
            for from in 0..flow.out.len() {
                let at = flow.released - start + from as u64;
                let offset = (flow.released + from as u64) as u32;
                let length = (flow.out.len() - from).min(7) as u32;
                let bytes = flow.bytes(offset, length).concat();
                assert_eq!(bytes, all[at as usize..at as usize + length as usize]);
            }
            written += room;
            let released = flow.released + 5;
            flow.release(released);
        }
        assert_eq!(flow.bytes((flow.released - 1) as u32, 1).concat(), [0]);
    }

    #[test]
    fn what_came_before_a_reset_is_read_before_it() {
        let mut flow = flow();
        flow.place(0, b"x");
        flow.readable = 1;
        flow.stage = Stage::Over(Why::Reset);
        let mut into = [0; 4];
        assert_eq!(flow.read(&mut into).expect("readable").expect("fine"), 1);
        let end = flow.read(&mut into).expect("an end").expect_err("a reset");
        assert_eq!(end.kind(), io::ErrorKind::ConnectionReset);
        let end = flow.write(b"y", 9).expect("an end").expect_err("a reset");
        assert_eq!(end.kind(), io::ErrorKind::ConnectionReset);
    }
}
