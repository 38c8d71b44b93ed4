//! What machines of rival protocols share: one step's effects, their bound, the log, and the shell
//! of the machine.

use alloc::collections::VecDeque;
use cavy_core::family::Node;
use cavy_core::family::message::{Call, Effect, Entry, Input, Protocol, Via};
use cavy_core::{Cx, Instant, Machine, Out, Span};

/// Time between two ticks of a node.
pub const TICK: Span = Span::from_ms(10);

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

/// What a rival protocol does with what happens to its node: [`machine`] makes a machine of it. The
/// protocol has no group.
pub(crate) trait Rival: Machine {
    /// Its types.
    type Words: Protocol;

    /// Where its steps put what they say.
    fn station(&mut self) -> &mut Station<Self::Words, Self::Timer>;

    /// The node starts, for the first time or again.
    fn born(&mut self) {}

    /// A message came in; perhaps its own.
    fn hear(&mut self, from: Node, message: <Self::Words as Protocol>::Message);

    /// A client asks.
    fn called(&mut self, call: Call, request: <Self::Words as Protocol>::Request);

    /// The channel with `peer` broke.
    fn broke(&mut self, peer: Node) {
        _ = peer;
    }

    /// A record was in the log when the node came back.
    fn remember(&mut self, record: <Self::Words as Protocol>::Record);

    /// All records were remembered.
    fn back(&mut self) {}

    /// A timer came.
    fn due(&mut self, timer: Self::Timer);

    /// Does one piece of what follows from the step. False when there is none.
    fn proceed(&mut self) -> bool {
        false
    }

    /// Takes in what happened.
    fn take(&mut self, input: Input<Self::Words>) {
        match input {
            Input::Rx { from, message, .. } => self.hear(from, message),
            Input::Call { call, request } => self.called(call, request),
            Input::Broken { peer } => self.broke(peer),
            Input::Stored { upto } => self.station().stored(upto),
            Input::Replay { entry, record } => {
                self.station().replayed(entry);
                self.remember(record);
            }
            Input::Recovered { .. } => self.back(),
            Input::WorkDone { .. } => {}
        }
    }

    /// Does all that follows from the step: messages to itself go before everything else.
    fn settle(&mut self) {
        loop {
            if let Some(message) = self.station().next_local() {
                let me = self.station().me;
                self.hear(me, message);
            } else if !self.proceed() {
                return;
            }
        }
    }
}

/// Makes a machine of the message family of a [`Rival`] that runs procedures: it ticks from a
/// random moment on, and a step that says too much goes on in the same instant. Its `Timer` has
/// `Tick` and `More`.
macro_rules! machine {
    ($rival:ident) => {
        impl cavy_core::family::message::Talker for $rival {
            type Protocol = Words;

            fn members(&self, (): ()) -> &[cavy_core::family::Node] {
                &[]
            }
        }

        impl cavy_core::Machine for $rival {
            type Input = cavy_core::family::message::Input<Words>;
            type Effect = cavy_core::family::message::Effect<Words>;
            type Timer = Timer;

            fn effects_max(&self) -> usize {
                $crate::station::EFFECTS + 1
            }

            fn start(&mut self, cx: &mut cavy_core::Cx<'_, Self::Effect, Timer>) {
                self.station.begin(cx);
                self.born();
                // Ticks of different nodes do not come at one moment.
                let phase = cx.rng().below($crate::station::TICK.as_ns());
                self.station.arm(Timer::Tick, cx.now() + cavy_core::Span::from_ns(phase));
                self.station.end(Timer::More, cx);
            }

            fn handle(
                &mut self,
                input: Self::Input,
                cx: &mut cavy_core::Cx<'_, Self::Effect, Timer>,
            ) {
                self.station.begin(cx);
                self.take(input);
                self.settle();
                self.station.end(Timer::More, cx);
            }

            fn expire(&mut self, timer: Timer, cx: &mut cavy_core::Cx<'_, Self::Effect, Timer>) {
                self.station.begin(cx);
                self.due(timer);
                self.settle();
                self.station.end(Timer::More, cx);
            }
        }
    };
}
pub(crate) use machine;
