//! What machines of rival protocols share: one step's effects, their bound, and the log.

use alloc::collections::VecDeque;
use cavy_core::family::Node;
use cavy_core::family::message::{Call, Effect, Entry, Protocol, Via};
use cavy_core::{Cx, Instant, Out};

/// Effects that a step emits at most; what is more goes out at once in the next one (law 4).
pub const EFFECTS: usize = 512;

/// A node's desk: what a step says is put here, and leaves in order at its end.
#[derive(Debug)]
pub struct Station<P: Protocol, T> {
    /// Whose.
    pub me: Node,
    /// The time of the step.
    pub now: Instant,
    /// What the node takes for the time of day.
    pub wall: Instant,
    /// A random word of this step.
    pub random: u64,
    local: VecDeque<P::Message>,
    out: VecDeque<Out<Effect<P>, T>>,
    appended: u64,
    stored: u64,
    after_store: VecDeque<(u64, Node, P::Message)>,
}

impl<P: Protocol, T: Copy + Ord> Station<P, T> {
    /// The station of `me`.
    pub fn new(me: Node) -> Self {
        Station {
            me,
            now: Instant::ZERO,
            wall: Instant::ZERO,
            random: 0,
            local: VecDeque::new(),
            out: VecDeque::new(),
            appended: 0,
            stored: 0,
            after_store: VecDeque::new(),
        }
    }

    /// A step begins.
    pub fn begin(&mut self, cx: &mut Cx<'_, Effect<P>, T>) {
        self.now = cx.now();
        self.wall = cx.wall();
        self.random = cx.rng().bits();
    }

    /// What goes out of a step goes out; `more` is armed when something is left.
    pub fn end(&mut self, more: T, cx: &mut Cx<'_, Effect<P>, T>) {
        for _ in 0..EFFECTS {
            match self.out.pop_front() {
                None => return,
                Some(Out::Effect(effect)) => cx.emit(effect),
                Some(Out::Arm(timer, at)) => cx.arm(timer, at),
                Some(Out::Disarm(timer)) => cx.disarm(timer),
            }
        }
        cx.arm(more, cx.now());
    }

    /// Sends over the channel; to itself within the step.
    pub fn send(&mut self, to: Node, message: P::Message) {
        if to == self.me {
            self.local.push_back(message);
        } else {
            let via = Via::Channel;
            self.out.push_back(Out::Effect(Effect::Send { to, via, message }));
        }
    }

    /// Sends when everything that was recorded so far is stored.
    pub fn send_stored(&mut self, to: Node, message: P::Message) {
        if self.stored >= self.appended {
            self.send(to, message);
        } else {
            self.after_store.push_back((self.appended, to, message));
        }
    }

    /// The next message that this node has sent itself.
    pub fn next_local(&mut self) -> Option<P::Message> {
        self.local.pop_front()
    }

    /// Appends to the log.
    pub fn record(&mut self, record: P::Record) {
        self.appended += 1;
        let entry = Entry(self.appended);
        self.out.push_back(Out::Effect(Effect::Store { entry, record }));
    }

    /// Records up to `upto` are stored: what has waited for them goes out.
    pub fn stored(&mut self, upto: Entry) {
        self.stored = upto.0;
        while self.after_store.front().is_some_and(|(entry, ..)| *entry <= upto.0) {
            if let Some((_, to, message)) = self.after_store.pop_front() {
                self.send(to, message);
            }
        }
    }

    /// A record was replayed.
    pub fn replayed(&mut self, entry: Entry) {
        (self.appended, self.stored) = (entry.0, entry.0);
    }

    /// Answers a call.
    pub fn reply(&mut self, call: Call, response: P::Response) {
        self.out.push_back(Out::Effect(Effect::Reply { call, response }));
    }

    /// Tells observers.
    pub fn note(&mut self, note: P::Note) {
        self.out.push_back(Out::Effect(Effect::Note(note)));
    }

    /// Arms a timer.
    pub fn arm(&mut self, timer: T, at: Instant) {
        self.out.push_back(Out::Arm(timer, at));
    }
}
