//! One end of a channel: what was sent and not acknowledged, what came, and what two ends agree on
//! when they meet. No socket: [`crate::carrier`] has those.
//!
//! **Sessions.** A channel has a session, a number that grows by each break. When two ends meet,
//! each says who it is in this life, whom it knows, its session and how far it has heard. Both look
//! at the same two statements and so come to the same end: go on where they stopped, or break, with
//! a session that is greater than both. A peer that lost its memory is another life, which nobody
//! knows.

use std::collections::VecDeque;
use std::sync::Arc;

/// What one end says of itself when two meet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Standing {
    /// Names this life of the node; random and not 0.
    pub incarnation: u64,
    /// It has lived before.
    pub lived: bool,
    /// The life of the other end that it knows; 0: none.
    pub knows: u64,
    /// Its session.
    pub session: u64,
    /// The last message that it has heard.
    pub received: u64,
    /// It has given up what it kept, so the ends cannot go on where they stopped.
    pub gave_up: bool,
}

/// What two ends come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Meeting {
    /// Go on; nothing is missing.
    Resumed,
    /// The channel broke.
    Broken,
}

/// A message on the way: its number and its bytes, which receivers of a cast share.
pub(crate) type Numbered = (u64, Arc<[u8]>);

pub(crate) struct Channel {
    incarnation: u64,
    lived: bool,
    knows: u64,
    session: u64,
    next: u64,
    received: u64,
    unacknowledged: VecDeque<Numbered>,
    bytes: usize,
    bytes_max: usize,
    /// More was sent than is kept: nothing is, until the ends meet.
    overflowed: bool,
}

impl Channel {
    pub fn new(incarnation: u64, lived: bool, bytes_max: usize) -> Channel {
        Channel {
            incarnation,
            lived,
            knows: 0,
            session: 0,
            next: 1,
            received: 0,
            unacknowledged: VecDeque::new(),
            bytes: 0,
            bytes_max,
            overflowed: false,
        }
    }

    pub fn standing(&self) -> Standing {
        Standing {
            incarnation: self.incarnation,
            lived: self.lived,
            knows: self.knows,
            session: self.session,
            received: self.received,
            gave_up: self.overflowed,
        }
    }

    pub fn session(&self) -> u64 {
        self.session
    }

    pub fn received(&self) -> u64 {
        self.received
    }

    pub fn unacknowledged(&self) -> impl Iterator<Item = &Numbered> {
        self.unacknowledged.iter()
    }

    /// The message with this number, if it was sent and is not acknowledged.
    pub fn kept(&self, number: u64) -> Option<&[u8]> {
        let first = self.unacknowledged.front()?.0;
        let place = usize::try_from(number.checked_sub(first)?).ok()?;
        self.unacknowledged.get(place).map(|(_, bytes)| &**bytes)
    }

    pub fn kept_bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps a message that was sent in `session`, and gives it a number. `None` when it belongs to
    /// a session that has ended, or nothing is kept.
    pub fn send(&mut self, session: u64, bytes: &Arc<[u8]>) -> Option<u64> {
        if session != self.session || self.overflowed {
            return None;
        }
        let number = self.next;
        self.next += 1;
        self.bytes += bytes.len();
        self.unacknowledged.push_back((number, Arc::clone(bytes)));
        Some(number)
    }

    /// More is kept than may be. One message alone may be as long as it likes.
    pub fn is_too_full(&self) -> bool {
        self.bytes > self.bytes_max && self.unacknowledged.len() > 1
    }

    /// Gives up what is kept. The node is to be told now, and again when the ends meet.
    pub fn overflow(&mut self) {
        self.session += 1;
        self.forget();
        self.overflowed = true;
    }

    /// The other end has heard everything up to `number`. False when it cannot have.
    pub fn acknowledged(&mut self, number: u64) -> bool {
        while self.unacknowledged.front().is_some_and(|(kept, _)| *kept <= number) {
            if let Some((_, bytes)) = self.unacknowledged.pop_front() {
                self.bytes -= bytes.len();
            }
        }
        number < self.next
    }

    /// A message came. True when it is the next one; others are repetitions, or a fault.
    pub fn receive(&mut self, number: u64) -> bool {
        let next = number == self.received + 1;
        if next {
            self.received = number;
        }
        next
    }

    /// Two ends meet: `mine` was said to the other one, and `theirs` came from it.
    pub fn meet(&mut self, mine: &Standing, theirs: &Standing) -> Meeting {
        self.overflowed = false;
        let strangers = mine.knows == 0 && theirs.knows == 0;
        let first =
            strangers && !mine.lived && !theirs.lived && mine.session == 0 && theirs.session == 0;
        let known = mine.knows == theirs.incarnation && theirs.knows == mine.incarnation;
        // Both may have given up, each by itself, and come to the same session.
        let same = known && mine.session == theirs.session && !mine.gave_up && !theirs.gave_up;
        self.knows = theirs.incarnation;
        if (first || same) && mine.session == self.session && self.acknowledged(theirs.received) {
            return Meeting::Resumed;
        }
        self.session = self.session.max(mine.session).max(theirs.session) + 1;
        self.forget();
        Meeting::Broken
    }

    fn forget(&mut self) {
        self.unacknowledged.clear();
        self.bytes = 0;
        self.next = 1;
        self.received = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(text: &str) -> Arc<[u8]> {
        text.as_bytes().into()
    }

    fn meet(a: &mut Channel, b: &mut Channel) -> (Meeting, Meeting) {
        let (ours, theirs) = (a.standing(), b.standing());
        (a.meet(&ours, &theirs), b.meet(&theirs, &ours))
    }

    #[test]
    fn strangers_meet_without_a_break_and_keep_what_was_sent_before() {
        let (mut a, mut b) = (Channel::new(1, false, 100), Channel::new(2, false, 100));
        assert_eq!(a.send(0, &bytes("early")), Some(1));
        assert_eq!(meet(&mut a, &mut b), (Meeting::Resumed, Meeting::Resumed));
        assert!(b.receive(1) && !b.receive(1) && !b.receive(3));
        assert!(a.acknowledged(1) && a.kept_bytes() == 0);
        assert!(!a.acknowledged(2), "nobody heard what was not sent");
    }

    #[test]
    fn a_life_that_nobody_knows_breaks() {
        let (mut a, mut b) = (Channel::new(1, false, 100), Channel::new(2, false, 100));
        meet(&mut a, &mut b);
        assert_eq!(a.send(0, &bytes("lost")), Some(1));
        let mut again = Channel::new(3, true, 100);
        assert_eq!(meet(&mut a, &mut again), (Meeting::Broken, Meeting::Broken));
        assert_eq!((a.session(), again.session()), (1, 1));
        assert_eq!(a.send(0, &bytes("of the last session")), None);
        assert_eq!(a.send(1, &bytes("new")), Some(1));
        // A stranger who has lived before breaks too: what it said then may have been lost.
        let (mut c, mut d) = (Channel::new(4, false, 100), Channel::new(5, true, 100));
        assert_eq!(meet(&mut c, &mut d), (Meeting::Broken, Meeting::Broken));
    }

    #[test]
    fn too_much_breaks_now_and_when_the_ends_meet() {
        let (mut a, mut b) = (Channel::new(1, false, 10), Channel::new(2, false, 10));
        meet(&mut a, &mut b);
        a.send(0, &bytes("a long message alone"));
        assert!(!a.is_too_full());
        a.send(0, &bytes("and another"));
        assert!(a.is_too_full());
        a.overflow();
        assert_eq!((a.send(1, &bytes("x")), a.kept_bytes()), (None, 0));
        assert_eq!(meet(&mut a, &mut b), (Meeting::Broken, Meeting::Broken));
        assert_eq!((a.session(), b.session()), (2, 2));
        assert_eq!(a.send(2, &bytes("x")), Some(1));
    }

    #[test]
    fn an_end_that_does_not_hear_of_a_meeting_breaks_the_next() {
        let (mut a, mut b) = (Channel::new(1, false, 100), Channel::new(2, false, 100));
        let (ours, theirs) = (a.standing(), b.standing());
        a.meet(&ours, &theirs);
        assert_eq!(meet(&mut a, &mut b), (Meeting::Broken, Meeting::Broken));
    }

    // Two ends, connections that end at any moment with any part of what was on them, lives that
    // end, and too much: each end hears what was sent, once and in order, or both hear of a break,
    // and nothing that was sent before the other end knew of it comes after.
    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
        #[test]
        fn channels_keep_their_promise(
            acts in prop::collection::vec((0u8..12, any::<bool>(), 1usize..6), 1..120),
        ) {
            disturb(acts)?;
        }
    }

    fn disturb(acts: Vec<(u8, bool, usize)>) -> Result<(), TestCaseError> {
        let mut lives = 3u64;
        let mut ends = [Channel::new(1, false, 64), Channel::new(2, false, 64)];
        // What each machine knows as its session; what it has heard in it; what it sent in it.
        let mut knows = [0u64; 2];
        let mut said: [Vec<(u64, u64)>; 2] = [Vec::new(), Vec::new()];
        let mut serial = 0u64;
        let mut heard: [Vec<(u64, u64)>; 2] = [Vec::new(), Vec::new()];
        // Frames under way to each end, of the connection that is.
        let mut under_way: [VecDeque<(u64, Arc<[u8]>)>; 2] = Default::default();
        let mut connected = false;
        for (act, second, many) in acts {
            let me = usize::from(second);
            let you = 1 - me;
            match act {
                0..=4 => {
                    for _ in 0..many {
                        serial += 1;
                        let text: Arc<[u8]> =
                            format!("{:08}{:08}", knows[me], serial).into_bytes().into();
                        said[me].push((knows[me], serial));
                        if let Some(number) = ends[me].send(knows[me], &text) {
                            if ends[me].is_too_full() {
                                ends[me].overflow();
                                knows[me] = ends[me].session();
                                connected = false;
                                under_way = Default::default();
                            } else if connected {
                                under_way[you].push_back((number, text));
                            }
                        }
                    }
                }
                5..=7 => {
                    for _ in 0..many {
                        let Some((number, text)) = under_way[me].pop_front() else { break };
                        if ends[me].receive(number) {
                            let text = String::from_utf8_lossy(&text).to_string();
                            let said: (u64, u64) =
                                (text[..8].parse().unwrap(), text[8..].parse().unwrap());
                            prop_assert!(said.0 >= knows[me], "old words came late");
                            heard[me].push((knows[me], said.1));
                        }
                        let upto = ends[me].received();
                        prop_assert!(ends[you].acknowledged(upto));
                    }
                }
                8 => {
                    connected = false;
                    under_way = Default::default();
                }
                9 => {
                    connected = false;
                    under_way = Default::default();
                    lives += 1;
                    ends[me] = Channel::new(lives, true, 64);
                    knows[me] = 0;
                    said[me].clear();
                    heard[me].clear();
                }
                _ => {
                    under_way = Default::default();
                    let standings = [ends[0].standing(), ends[1].standing()];
                    let one = ends[me].meet(&standings[me], &standings[you]);
                    if one == Meeting::Broken {
                        knows[me] = ends[me].session();
                    }
                    // The other end may never hear of the meeting.
                    connected = many > 1;
                    if connected {
                        let other = ends[you].meet(&standings[you], &standings[me]);
                        prop_assert_eq!(one, other);
                        if other == Meeting::Broken {
                            knows[you] = ends[you].session();
                        }
                        prop_assert_eq!(ends[0].session(), ends[1].session());
                        for end in 0..2 {
                            let kept: Vec<_> = ends[end].unacknowledged().cloned().collect();
                            under_way[1 - end].extend(kept);
                        }
                    }
                }
            }
            for end in 0..2 {
                // In one session: a prefix of what the other end said in it, without gaps.
                // An end that was born again has nothing to do with what the last one said.
                let met =
                    ends[0].knows == ends[1].incarnation && ends[1].knows == ends[0].incarnation;
                let session = ends[end].session();
                if met
                    && ends[1 - end].session() == session
                    && knows[1 - end] == session
                    && knows[end] == session
                {
                    let got: Vec<u64> =
                        heard[end].iter().filter(|h| h.0 == session).map(|h| h.1).collect();
                    let sent: Vec<u64> =
                        said[1 - end].iter().filter(|s| s.0 == session).map(|s| s.1).collect();
                    prop_assert!(
                        got.len() <= sent.len() && got[..] == sent[..got.len()],
                        "{got:?} {sent:?}"
                    );
                }
            }
        }
        Ok(())
    }
}
