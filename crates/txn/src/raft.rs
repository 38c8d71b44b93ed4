//! A replicated log for rivals that have leaders: Raft, with terms, durable votes and entries.
//!
//! The log is pure: it is told of messages and time, and leaves what it wants done in
//! [`Raft::take`]. Whoever owns it sends, stores and applies. The first member leads from the
//! start, so that runs do not begin with an election. Logs are kept whole: a lab's run bounds them.
//!
//! The registry has `raft` and `openraft`. Both need `std`, and the second its own runtime, so
//! neither can be part of a machine.

use alloc::sync::Arc;
use alloc::vec::Vec;
use cavy_core::family::Node;
use cavy_core::{Instant, Span};

/// What members say to each other.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    feature = "serde",
    serde(bound(serialize = "C: serde::Serialize", deserialize = "C: serde::Deserialize<'de>"))
)]
pub enum Rpc<C> {
    /// Entries after `prev`, and how far the log is chosen.
    #[allow(missing_docs)]
    Append {
        term: u64,
        prev: u64,
        prev_term: u64,
        #[cfg_attr(feature = "serde", serde(with = "crate::wire::slice"))]
        entries: Arc<[(u64, Option<C>)]>,
        chosen: u64,
    },
    /// The log is stored as the leader has it, up to and including this.
    #[allow(missing_docs)]
    Matches { term: u64, upto: u64 },
    /// It is not: send what follows this.
    #[allow(missing_docs)]
    Differs { term: u64, after: u64 },
    /// Vote for the sender, whose log ends so.
    #[allow(missing_docs)]
    AskVote { term: u64, last: u64, last_term: u64 },
    /// A vote.
    #[allow(missing_docs)]
    Vote { term: u64 },
    /// A greater term.
    #[allow(missing_docs)]
    Outdated { term: u64 },
}

impl<C> Rpc<C> {
    /// Bytes on the wire, with `entry` bytes for an entry.
    pub fn wire_bytes(&self, entry: impl Fn(&C) -> u64) -> u64 {
        match self {
            Rpc::Append { entries, .. } => {
                let all = entries.iter().map(|(_, e)| 9 + e.as_ref().map_or(0, &entry));
                33 + all.sum::<u64>()
            }
            _ => 25,
        }
    }
}

/// What must survive a crash.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Durable<C> {
    /// The term, and who was voted for in it.
    #[allow(missing_docs)]
    Term {
        term: u64,
        #[cfg_attr(feature = "serde", serde(with = "crate::wire::somebody"))]
        voted: Option<Node>,
    },
    /// The entry at this place; whatever was there and behind is gone.
    #[allow(missing_docs)]
    Entry { index: u64, term: u64, entry: Option<C> },
}

/// What the log wants done, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Act<C> {
    /// Send now.
    Send(Node, Rpc<C>),
    /// Send when all that was recorded before is stored; perhaps to the node itself.
    SendStored(Node, Rpc<C>),
    /// Record.
    Store(Durable<C>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Follower,
    Candidate,
    Leader,
}

struct Peer {
    node: Node,
    next: u64,
    matches: u64,
    votes: bool,
}

/// A leader that says nothing for so long, and up to so much again, is taken for failed.
const SILENCE: Span = Span::from_ms(100);
const HEARTBEAT: Span = Span::from_ms(20);

/// One member's log.
pub struct Raft<C> {
    me: Node,
    peers: Vec<Peer>,
    role: Role,
    term: u64,
    voted: Option<Node>,
    leader: Option<Node>,
    log: Vec<(u64, Option<C>)>,
    chosen: u64,
    /// The first entry of the leader's own term.
    own_from: u64,
    /// Members further away need more patience.
    silence: Span,
    elect_at: Instant,
    beat_at: Instant,
    acts: Vec<Act<C>>,
}

impl<C: Clone> Raft<C> {
    /// The log of `me`, one of `members`, of which the first leads. `away`: the longest one-way
    /// time between members.
    pub fn new(me: Node, members: &[Node], away: Span) -> Raft<C> {
        let first = members.first().copied();
        let peers =
            members.iter().map(|node| Peer { node: *node, next: 1, matches: 0, votes: false });
        Raft {
            me,
            peers: peers.collect(),
            role: if first == Some(me) { Role::Leader } else { Role::Follower },
            term: 1,
            voted: first,
            leader: first,
            log: Vec::new(),
            chosen: 0,
            own_from: 0,
            silence: SILENCE + away * 4,
            elect_at: Instant::NEVER,
            beat_at: Instant::ZERO,
            acts: Vec::new(),
        }
    }

    /// It leads, as far as it knows.
    pub fn leads(&self) -> bool {
        self.role == Role::Leader
    }

    /// It leads, and knows all that was chosen before.
    pub fn leads_surely(&self) -> bool {
        self.leads() && self.chosen >= self.own_from
    }

    /// Who leads, as far as it knows.
    pub fn leader(&self) -> Option<Node> {
        self.leader
    }

    /// Its term.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// How far the log is chosen.
    pub fn chosen(&self) -> u64 {
        self.chosen
    }

    /// How long the log is.
    pub fn last(&self) -> u64 {
        self.log.len() as u64
    }

    /// The entry at a place, from 1; `None` for one without a command.
    pub fn entry(&self, index: u64) -> Option<&C> {
        self.log.get((index as usize).wrapping_sub(1))?.1.as_ref()
    }

    /// What it wants done.
    pub fn take(&mut self) -> Vec<Act<C>> {
        core::mem::take(&mut self.acts)
    }

    /// Appends a command. Only leaders do.
    pub fn propose(&mut self, command: C) {
        self.append(Some(command));
    }

    fn append(&mut self, entry: Option<C>) {
        self.log.push((self.term, entry.clone()));
        let (index, term) = (self.last(), self.term);
        self.acts.push(Act::Store(Durable::Entry { index, term, entry }));
    }

    /// Sends what was appended; at the end of each step.
    pub fn flush(&mut self) {
        if !self.leads() {
            return;
        }
        let last = self.last();
        for place in 0..self.peers.len() {
            let peer = &self.peers[place];
            if peer.next <= last && peer.node != self.me {
                self.send_append(place);
            } else if peer.node == self.me && peer.next <= last {
                self.peers[place].next = last + 1;
                let rpc = Rpc::Matches { term: self.term, upto: last };
                self.acts.push(Act::SendStored(self.me, rpc));
            }
        }
    }

    fn term_at(&self, index: u64) -> u64 {
        if index == 0 { 0 } else { self.log[index as usize - 1].0 }
    }

    fn send_append(&mut self, place: usize) {
        let peer = &self.peers[place];
        let prev = peer.next - 1;
        let entries: Arc<[(u64, Option<C>)]> = self.log[prev as usize..].into();
        let (to, prev_term) = (peer.node, self.term_at(prev));
        let chosen = self.chosen;
        self.peers[place].next = self.last() + 1;
        let rpc = Rpc::Append { term: self.term, prev, prev_term, entries, chosen };
        self.acts.push(Act::Send(to, rpc));
    }

    /// Time passes; called every few milliseconds. `random`: any word.
    pub fn tick(&mut self, now: Instant, random: u64) {
        if self.leads() {
            if now >= self.beat_at {
                self.beat_at = now + HEARTBEAT;
                for place in 0..self.peers.len() {
                    if self.peers[place].node != self.me {
                        self.send_append(place);
                    }
                }
            }
            return;
        }
        if self.elect_at == Instant::NEVER {
            self.wait(now, random);
        } else if now >= self.elect_at {
            self.role = Role::Candidate;
            self.leader = None;
            self.set_term(self.term + 1, Some(self.me));
            self.peers.iter_mut().for_each(|peer| peer.votes = false);
            let (last, last_term) = (self.last(), self.term_at(self.last()));
            let ask = Rpc::AskVote { term: self.term, last, last_term };
            let others = self.peers.iter().filter(|peer| peer.node != self.me);
            let others: Vec<Node> = others.map(|peer| peer.node).collect();
            for to in others {
                self.acts.push(Act::SendStored(to, ask.clone()));
            }
            self.acts.push(Act::SendStored(self.me, Rpc::Vote { term: self.term }));
            self.wait(now, random);
        }
    }

    fn wait(&mut self, now: Instant, random: u64) {
        let more = Span::from_ns(random % self.silence.as_ns());
        self.elect_at = now + self.silence + more;
    }

    fn set_term(&mut self, term: u64, voted: Option<Node>) {
        (self.term, self.voted) = (term, voted);
        self.acts.push(Act::Store(Durable::Term { term, voted }));
    }

    fn follow(&mut self, term: u64, leader: Option<Node>) {
        if term > self.term {
            self.set_term(term, None);
        }
        self.role = Role::Follower;
        if leader.is_some() {
            self.leader = leader;
        }
    }

    /// A channel broke: what was under way to that member may be lost.
    pub fn broken(&mut self, peer: Node) {
        if let Some(peer) = self.peers.iter_mut().find(|known| known.node == peer) {
            peer.next = peer.matches + 1;
        }
    }

    /// A member says this. True when it has begun to lead.
    pub fn hear(&mut self, from: Node, rpc: Rpc<C>, now: Instant, random: u64) -> bool {
        let term = match &rpc {
            Rpc::Append { term, .. }
            | Rpc::Matches { term, .. }
            | Rpc::Differs { term, .. }
            | Rpc::AskVote { term, .. }
            | Rpc::Vote { term }
            | Rpc::Outdated { term } => *term,
        };
        if term < self.term {
            if matches!(rpc, Rpc::Append { .. } | Rpc::AskVote { .. }) {
                self.acts.push(Act::Send(from, Rpc::Outdated { term: self.term }));
            }
            return false;
        }
        if term > self.term {
            self.follow(term, None);
            self.leader = None;
        }
        match rpc {
            Rpc::Append { prev, prev_term, entries, chosen, .. } => {
                self.follow(term, Some(from));
                self.wait(now, random);
                self.take_entries(from, prev, prev_term, &entries, chosen);
            }
            Rpc::Matches { upto, .. } => self.matches(from, upto),
            Rpc::Differs { after, .. } => {
                if self.leads()
                    && let Some(peer) = self.peers.iter_mut().find(|peer| peer.node == from)
                {
                    peer.next = (after + 1).min(peer.next).max(peer.matches + 1);
                }
            }
            Rpc::AskVote { last, last_term, .. } => {
                let mine = (self.term_at(self.last()), self.last());
                let fits = (last_term, last) >= mine;
                if fits && self.voted.is_none_or(|voted| voted == from) && !self.leads() {
                    if self.voted.is_none() {
                        self.set_term(term, Some(from));
                    }
                    self.wait(now, random);
                    self.acts.push(Act::SendStored(from, Rpc::Vote { term }));
                }
            }
            Rpc::Vote { .. } => return self.vote(from),
            Rpc::Outdated { .. } => {}
        }
        false
    }

    fn take_entries(
        &mut self,
        from: Node,
        prev: u64,
        prev_term: u64,
        entries: &[(u64, Option<C>)],
        chosen: u64,
    ) {
        let term = self.term;
        if prev > self.last() || self.term_at(prev) != prev_term {
            let after = self.chosen.min(prev.saturating_sub(1));
            let after = if prev > self.last() { self.last() } else { after };
            self.acts.push(Act::Send(from, Rpc::Differs { term, after }));
            return;
        }
        let mut index = prev;
        for (its, entry) in entries {
            index += 1;
            if index <= self.last() {
                if self.term_at(index) == *its {
                    continue;
                }
                assert!(index > self.chosen, "a chosen entry is overwritten");
                self.log.truncate(index as usize - 1);
            }
            self.log.push((*its, entry.clone()));
            let entry = entry.clone();
            self.acts.push(Act::Store(Durable::Entry { index, term: *its, entry }));
        }
        self.chosen = self.chosen.max(chosen.min(index));
        self.acts.push(Act::SendStored(from, Rpc::Matches { term, upto: index }));
    }

    fn matches(&mut self, from: Node, upto: u64) {
        if !self.leads() {
            return;
        }
        if let Some(peer) = self.peers.iter_mut().find(|peer| peer.node == from) {
            peer.matches = peer.matches.max(upto);
            peer.next = peer.next.max(peer.matches + 1);
        }
        let mut all: Vec<u64> = self.peers.iter().map(|peer| peer.matches).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        let most = all[self.peers.len() / 2];
        // Of an earlier term only together with one of this term.
        if most > self.chosen && self.term_at(most) == self.term {
            self.chosen = most;
        }
    }

    fn vote(&mut self, from: Node) -> bool {
        if self.role != Role::Candidate {
            return false;
        }
        if let Some(peer) = self.peers.iter_mut().find(|peer| peer.node == from) {
            peer.votes = true;
        }
        let votes = self.peers.iter().filter(|peer| peer.votes).count();
        if votes <= self.peers.len() / 2 {
            return false;
        }
        self.role = Role::Leader;
        self.leader = Some(self.me);
        let last = self.last();
        for peer in &mut self.peers {
            (peer.next, peer.matches) = (last + 1, 0);
        }
        self.own_from = last + 1;
        // Chooses whatever earlier terms have left.
        self.append(None);
        true
    }

    /// A record of before the crash.
    pub fn replay(&mut self, durable: Durable<C>) {
        match durable {
            Durable::Term { term, voted } => (self.term, self.voted) = (term, voted),
            Durable::Entry { index, term, entry } => {
                self.log.truncate(index as usize - 1);
                self.log.push((term, entry));
            }
        }
    }

    /// It is back after a crash: it leads nobody.
    pub fn recovered(&mut self) {
        (self.role, self.leader) = (Role::Follower, None);
        self.elect_at = Instant::NEVER;
    }
}
