//! Rounds: what the machine's thread does for the carrier's where distances are made here.
//!
//! A message that is held until it is due need not be read when it comes. So nobody waits for
//! connections of peers that are far enough away: the machine's thread, which wakes for what is
//! due anyway, reads them then, and at least once in four fifths of the least delay. It also writes
//! what its steps send. A cluster on one machine has many nodes, and each is told the clocks of all
//! others 200 times a second; without rounds, a report woke the carrier's thread of the sender,
//! that of the receiver, and the machine's when it was due. Times do not change, since a message
//! is stamped as it is written and held from then on.

use super::{Carrier, End, FIRST, Handled, Phase, Sending};
use crate::codec::Codec;
use crate::inbox::Event;
use cavy_core::family::message::Talker;
use cavy_core::{Instant, Span};
use mio::{Interest, Token, Waker};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Messages that are held for less are read as they come.
const HELD_MIN: Span = Span::from_ms(1);
/// Longest time between two rounds.
const ROUND_MAX: Span = Span::from_ms(5);

/// What the machine's thread hands over.
pub(crate) struct Outward {
    queue: Mutex<(Vec<Sending>, bool)>,
    waker: Waker,
    /// Between two rounds, in nanoseconds; 0: nobody's messages are held.
    round_ns: AtomicU64,
}

impl std::fmt::Debug for Outward {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Outward")
    }
}

impl Outward {
    pub fn new(waker: Waker) -> Outward {
        Outward { queue: Mutex::new((Vec::new(), false)), waker, round_ns: AtomicU64::new(0) }
    }

    pub fn wake(&self) {
        let _ = self.waker.wake();
    }

    /// True when nothing was waiting before, so that nobody was told of it.
    fn put(&self, sendings: &mut Vec<Sending>) -> bool {
        let mut queue = self.queue.lock();
        let first = queue.0.is_empty();
        queue.0.append(sendings);
        first
    }

    pub fn send(&self, sendings: &mut Vec<Sending>) {
        if !sendings.is_empty() && self.put(sendings) {
            self.wake();
        }
    }

    /// What waits, and whether the node ends.
    pub(super) fn take(&self) -> (Vec<Sending>, bool) {
        let mut queue = self.queue.lock();
        (std::mem::take(&mut queue.0), queue.1)
    }

    pub fn stop(&self) {
        self.queue.lock().1 = true;
        self.wake();
    }

    /// Time between two rounds; `None` where there are none.
    pub fn round(&self) -> Option<Span> {
        let ns = self.round_ns.load(Relaxed);
        (ns > 0).then(|| Span::from_ns(ns))
    }
}

impl<M, C> Carrier<M, C>
where
    M: Talker + 'static,
    C: Codec<M::Protocol>,
    Event<M>: Send,
{
    /// Reads what has come from peers whose messages are held. On the machine's thread.
    pub fn round(&mut self) {
        let mut events = std::mem::replace(&mut self.round_events, mio::Events::with_capacity(0));
        // What it does not find now it finds in the next round.
        if self.rounds.poll(&mut events, Some(Duration::ZERO)).is_ok() {
            for event in &events {
                self.ready(event);
            }
        }
        self.round_events = events;
        self.inbox.extend(&mut self.events);
    }

    /// Sends it after what waits already. On the machine's thread.
    pub fn send(&mut self, sendings: &mut Vec<Sending>) {
        self.outward.put(sendings);
        // If the node ends, its own thread sees so.
        let _ends = self.take_outward();
        self.inbox.extend(&mut self.events);
    }

    /// How long a message of the connection's peer is held at least.
    fn holds(&self, slot: usize) -> Option<Span> {
        let connection = self.connections.get(slot)?.as_ref()?;
        let way = self.links.way(connection.peer.filter(|_| connection.phase == Phase::Up)?);
        Some(way.one_way.saturating_sub(way.jitter)).filter(|held| *held >= HELD_MIN)
    }

    /// Decides who waits for a connection, now that it is up or its way has changed.
    pub(super) fn place(&mut self, slot: usize) -> Handled {
        let held = self.holds(slot).is_some();
        let (rounds, own) = (self.rounds.registry(), &self.registry);
        let connection = self.connections.get_mut(slot).and_then(Option::as_mut);
        let connection = connection.ok_or(End(None))?;
        if connection.held != held {
            let (from, to) = if held { (own, rounds) } else { (rounds, own) };
            let interest = Interest::READABLE | Interest::WRITABLE;
            let _ = from.deregister(&mut connection.stream);
            // What has come already is an event of the new one.
            to.register(&mut connection.stream, Token(slot + FIRST), interest)
                .map_err(|_| End(None))?;
            connection.held = held;
        }
        let least = (0..self.connections.len()).filter_map(|slot| self.holds(slot)).min();
        // A round that is itself a little late still finds what it reads before it is due.
        let round = least.map_or(0, |least| (least.as_ns() * 4 / 5).min(ROUND_MAX.as_ns()));
        if self.outward.round_ns.swap(round, Relaxed) == 0 && round > 0 {
            // The machine's thread may sleep, and knows of no rounds yet.
            self.inbox.wake();
        }
        Ok(())
    }
}

/// When rounds are made.
pub(crate) struct Rounds {
    last: Instant,
}

impl Rounds {
    pub fn new() -> Rounds {
        Rounds { last: Instant::ZERO }
    }

    /// The next one is due then at the latest.
    pub fn deadline(&self, outward: &Outward) -> Option<Instant> {
        outward.round().map(|round| self.last + round)
    }

    /// Is it time for one? Whoever has woken for something else makes it early.
    pub fn is_time(&self, outward: &Outward, now: Instant) -> bool {
        outward.round().is_some_and(|round| 2 * now.since(self.last).as_ns() >= round.as_ns())
    }

    pub fn made(&mut self, now: Instant) {
        self.last = now;
    }
}
