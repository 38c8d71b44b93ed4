//! Blocks: one client asks many servers at once for a piece of each block, and goes on when it has
//! the last piece ([incast 4.1]).

use super::clock::{PS_PER_NS, Ps, ps};
use super::observer::{Done, Observer};
use super::traffic::{Submission, Traffic};
use cavy_core::family::Node;
use cavy_core::family::packet::Message;
use cavy_core::{Purpose, Span, Stream};

/// One client and its servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Blocks {
    /// Hosts 1 to `servers` answer host 0; at least 1.
    pub servers: u32,
    /// Length of a question.
    pub question_bytes: u32,
    /// Length of an answer: the server request unit.
    pub fragment_bytes: u32,
    /// Blocks in all. Before the first, every server is asked once for as little as it is asked
    /// with, one after the other: what a transport has to open is open when the blocks begin.
    pub blocks: u64,
    /// Questions of a block leave at random within this time.
    pub jitter: Span,
    /// Questions under way at a time; `servers` for all.
    pub outstanding: u32,
    /// So many hosts after the servers send to the client without a pause until the last block is
    /// there, each [`Blocks::BACKGROUND_BYTES`] at a time.
    pub background: u32,
}

impl Blocks {
    /// The client.
    pub const CLIENT: Node = Node(0);
    /// What a host of the background sends at a time: 16 MiB, longer than most blocks.
    pub const BACKGROUND_BYTES: u32 = 16 << 20;

    /// The traffic under `seed`.
    pub fn start(self, seed: u64) -> BlocksTraffic {
        BlocksTraffic {
            what: self,
            draws: Stream::keyed(seed, 0, Purpose::Destinations),
            order: (1..=self.servers).collect(),
            delays: vec![0; self.servers as usize],
            begun_at: 0,
            begun: 0,
            opening: true,
            asked: 0,
            open: 0,
            sends: vec![false; self.background as usize],
        }
    }
}

/// [`Blocks`] as it runs.
#[derive(Clone, Debug)]
pub struct BlocksTraffic {
    what: Blocks,
    draws: Stream,
    /// Servers in the order of the block.
    order: Vec<u32>,
    /// When their questions leave, from its begin; ascending.
    delays: Vec<Ps>,
    begun_at: Ps,
    begun: u64,
    /// Servers are asked once before the first block.
    opening: bool,
    /// Questions of the block that were submitted, and those not answered yet.
    asked: u32,
    open: u32,
    /// Which hosts of the background have something under way.
    sends: Vec<bool>,
}

impl BlocksTraffic {
    /// The place of a host in the background.
    fn behind(&self, host: Node) -> Option<usize> {
        let place = host.0.checked_sub(self.what.servers + 1)? as usize;
        (place < self.sends.len()).then_some(place)
    }
}

impl Traffic for BlocksTraffic {
    fn next(&mut self, host: Node, now: Ps) -> Option<Submission> {
        let Blocks { servers, outstanding, question_bytes, blocks, jitter, .. } = self.what;
        let most = if self.opening && self.asked < servers { 1 } else { outstanding };
        if let Some(place) = self.behind(host) {
            let over = self.begun == blocks && self.open == 0 && self.asked == servers;
            if over || core::mem::replace(&mut self.sends[place], true) {
                return None;
            }
            let (to, length_bytes) = (Blocks::CLIENT, Blocks::BACKGROUND_BYTES);
            return Some(Submission { at: now, to, length_bytes, asks: false, class: 0 });
        }
        if host != Blocks::CLIENT || self.open >= most {
            return None;
        }
        if self.asked == servers {
            // The barrier: nothing of the next block before the last of this one.
            if self.open > 0 || self.begun == blocks {
                return None;
            }
            self.begun += 1;
            self.opening = false;
            self.begun_at = now;
            self.asked = 0;
            for place in (1..self.order.len()).rev() {
                let other = self.draws.below(place as u64 + 1) as usize;
                self.order.swap(place, other);
            }
            for delay in &mut self.delays {
                *delay = self.draws.below(ps(jitter) + 1);
            }
            self.delays.sort_unstable();
        }
        let place = self.asked as usize;
        self.asked += 1;
        self.open += 1;
        let begun_at = if self.opening { now } else { self.begun_at };
        let (to, at) = (Node(self.order[place]), begun_at + self.delays[place]);
        Some(Submission { at, to, length_bytes: question_bytes, asks: true, class: 0 })
    }
    fn answer_bytes(&mut self, question_bytes: u32) -> u32 {
        if self.opening { question_bytes } else { self.what.fragment_bytes }
    }
    fn ended(&mut self, host: Node) {
        if host == Blocks::CLIENT {
            self.open -= 1;
        } else if let Some(place) = self.behind(host) {
            self.sends[place] = false;
        }
    }
}

/// When each block was whole.
#[derive(Clone, Debug)]
pub struct BlockTimes {
    pieces: u64,
    ended: u64,
    ends: Vec<Ps>,
}

impl BlockTimes {
    /// For blocks of so many pieces; of 0 nothing is noted.
    pub fn new(pieces: u32) -> BlockTimes {
        BlockTimes { pieces: u64::from(pieces), ended: 0, ends: Vec::new() }
    }

    fn piece(&mut self, at: Ps) {
        self.ended += 1;
        if self.pieces > 0 && self.ended.is_multiple_of(self.pieces) {
            self.ends.push(at);
        }
    }

    /// How long each block after the first took, in nanoseconds. The first finds every window and
    /// estimate as opening left it.
    pub fn latencies_ns(&self) -> impl Iterator<Item = u64> + '_ {
        self.ends.windows(2).skip(1).map(|pair| (pair[1] - pair[0]) / PS_PER_NS)
    }

    /// Payload a second of the blocks after the first, bits; `None` with fewer than two blocks.
    pub fn goodput_bits_per_s(&self, block_bytes: u64) -> Option<f64> {
        let (first, last) = (self.ends.get(1)?, self.ends.last()?);
        let blocks = (self.ends.len() - 2) as f64;
        let seconds = (last - first) as f64 * 1e-12;
        (seconds > 0.0).then(|| 8.0 * blocks * block_bytes as f64 / seconds)
    }
}

impl<M: ?Sized, H> Observer<M, H> for BlockTimes {
    fn finished(&mut self, done: &Done) {
        if done.from == Blocks::CLIENT {
            self.piece(done.at);
        }
    }
    fn failed(&mut self, at_host: Node, _: Node, _: Message, at: Ps) {
        if at_host == Blocks::CLIENT {
            self.piece(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incast_4_1_a_block_asks_every_server_once_and_waits_for_all() {
        let what = Blocks {
            servers: 5,
            question_bytes: 100,
            fragment_bytes: 1000,
            blocks: 2,
            jitter: Span::from_us(20),
            outstanding: 5,
            background: 0,
        };
        let mut traffic = what.start(3);
        for server in 1..=5 {
            let next = traffic.next(Node(0), 7).expect("a question");
            assert_eq!((next.to.0, next.at), (server, 7), "one after the other");
            assert_eq!(traffic.next(Node(0), 7), None);
            assert_eq!(traffic.answer_bytes(100), 100);
            traffic.ended(Node(0));
        }
        let mut last = 0;
        for block in 0..2 {
            let now = block * 1_000_000_000;
            let mut asked: Vec<u32> = (0..5)
                .map(|_| {
                    let next = traffic.next(Node(0), now).expect("a question");
                    assert!((now..=now + 20_000_000).contains(&next.at) && next.at >= last);
                    last = next.at;
                    next.to.0
                })
                .collect();
            asked.sort_unstable();
            assert_eq!(asked, [1, 2, 3, 4, 5]);
            for _ in 0..5 {
                assert_eq!(traffic.next(Node(0), now), None, "the barrier holds");
                traffic.ended(Node(0));
            }
        }
        assert_eq!(traffic.next(Node(0), 3_000_000_000), None, "two blocks are all");
        assert_eq!(traffic.answer_bytes(100), 1000);
        let mut few = Blocks { outstanding: 2, ..what }.start(3);
        for _ in 0..5 {
            assert!(few.next(Node(0), 0).is_some());
            few.ended(Node(0));
        }
        let asked = std::iter::from_fn(|| few.next(Node(0), 0)).count();
        assert_eq!(asked, 2);
    }

    #[test]
    fn incast_4_1_the_background_sends_until_the_last_block_is_there() {
        let what = Blocks {
            servers: 1,
            question_bytes: 4,
            fragment_bytes: 1000,
            blocks: 1,
            jitter: Span::ZERO,
            outstanding: 1,
            background: 2,
        };
        let mut traffic = what.start(1);
        let sent = traffic.next(Node(2), 9).expect("a long message");
        assert_eq!((sent.to, sent.asks), (Blocks::CLIENT, false));
        assert_eq!(traffic.next(Node(2), 9), None, "one at a time");
        assert!(traffic.next(Node(3), 9).is_some());
        assert_eq!(traffic.next(Node(4), 9), None, "two hosts are the background");
        // The opening, and the block.
        for _ in 0..2 {
            traffic.ended(Node(2));
            assert!(traffic.next(Node(2), 9).is_some(), "and then the next");
            assert!(traffic.next(Node(0), 9).is_some());
            traffic.ended(Node(0));
        }
        traffic.ended(Node(2));
        assert_eq!(traffic.next(Node(2), 9), None, "no more after the last block");
    }
}
