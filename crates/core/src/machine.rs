//! What a protocol is: a [`Machine`] that turns inputs into effects, and, for transports, a
//! [`Transmit`] that is asked for packets.
//!
//! Effects and timers are pushed to an [`Outbox`]: they are data, which can be asserted, logged,
//! digested and replayed. Packets are pulled, because which packet goes next must be decided as
//! late as possible: only when the port has room.

use crate::stream::Stream;
use crate::time::Instant;
use alloc::vec::Vec;

/// A deterministic state machine.
///
/// # Laws
/// Checked by `cavy_core::laws`, which every protocol room runs:
/// 1. same inputs, times and stream give the same outbox, step by step;
/// 2. the time of one machine never goes back, and a late `expire` is legal;
/// 3. the world calls `expire` only for a timer that is armed and due, once per arming;
/// 4. one step emits at most [`Machine::effects_max`], and the outbox does not grow after warm-up;
/// 5. effects apply in the order in which they were emitted; a timer armed for the past fires in
///    the same instant, after the pending inputs of that instant;
/// 6. [`Transmit::pull`] is called only with room, and means nothing beyond sending;
/// 7. a machine may be dropped at any step; what must survive a crash is an explicit effect, and a
///    new machine that is told again what was stored contradicts nothing that the old one said;
/// 8. machines of the packet, cpu and probe families do not allocate per step after warm-up.
pub trait Machine {
    /// What happens to it: a small owned value.
    type Input;
    /// What it wants done: a small value.
    type Effect;
    /// Names a timer. Arming a key again replaces its deadline.
    type Timer: Copy + Ord;

    /// The most entries one step puts in the outbox, from the configuration.
    fn effects_max(&self) -> usize;
    /// Called once, before anything else.
    fn start(&mut self, cx: &mut Cx<'_, Self::Effect, Self::Timer>);
    /// Something happened now.
    fn handle(&mut self, input: Self::Input, cx: &mut Cx<'_, Self::Effect, Self::Timer>);
    /// `timer` came due; it is disarmed already.
    fn expire(&mut self, timer: Self::Timer, cx: &mut Cx<'_, Self::Effect, Self::Timer>);
    /// Asserts the invariants of the whole state. Tests call it after each step.
    fn check(&self) {}
}

/// Declares an enum of timers without data and its `ALL`, from one list: whoever has to look at
/// each of them, as worlds with clocks do, cannot forget one.
///
/// ```
/// cavy_core::timers! {
///     /// The timers of a machine.
///     pub enum Timer {
///         /// Look for silence.
///         Tick,
///         /// Send the next packet.
///         Pace,
///     }
/// }
/// assert_eq!(Timer::ALL, [Timer::Tick, Timer::Pace]);
/// ```
#[macro_export]
macro_rules! timers {
    ($(#[$about:meta])* $visible:vis enum $name:ident { $($(#[$of:meta])* $timer:ident,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        $visible enum $name { $($(#[$of])* $timer,)+ }

        impl $name {
            /// All of them, in the order in which they fire when several are due.
            $visible const ALL: [$name; [$(stringify!($timer)),+].len()] = [$($name::$timer),+];
        }
    };
}

/// One entry of an outbox.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Out<E, T> {
    /// The world carries this out.
    Effect(E),
    /// The world calls `expire(T)` at this time or later; replaces an earlier deadline of T.
    Arm(T, Instant),
    /// Forget T's deadline. Legal when T is not armed.
    Disarm(T),
}

/// What one step asked for, in order. Worlds reuse it, so that a step allocates nothing.
#[derive(Debug)]
pub struct Outbox<E, T> {
    items: Vec<Out<E, T>>,
}

impl<E, T> Outbox<E, T> {
    /// An outbox with room for `max` entries, as [`Machine::effects_max`] gives it.
    pub fn with_capacity(max: usize) -> Self {
        Outbox { items: Vec::with_capacity(max) }
    }

    /// Takes all entries out, in the order of emission.
    pub fn drain(&mut self) -> impl Iterator<Item = Out<E, T>> + '_ {
        self.items.drain(..)
    }

    /// The entries, in the order of emission.
    pub fn entries(&self) -> &[Out<E, T>] {
        &self.items
    }

    /// Entries that fit without allocating.
    pub fn capacity(&self) -> usize {
        self.items.capacity()
    }

    /// Forgets all entries.
    pub fn clear(&mut self) {
        self.items.clear();
    }
}

/// What a machine may touch during a step: the time, its random stream and its outbox.
#[derive(Debug)]
pub struct Cx<'a, E, T> {
    now: Instant,
    wall: Instant,
    rng: &'a mut Stream,
    out: &'a mut Outbox<E, T>,
}

impl<'a, E, T> Cx<'a, E, T> {
    /// A context for one step at `now`, on a node whose wall clock shows the same. For worlds.
    #[inline]
    pub fn new(now: Instant, rng: &'a mut Stream, out: &'a mut Outbox<E, T>) -> Self {
        Cx { now, wall: now, rng, out }
    }

    /// The same step on a node that takes `wall` for the time of day. For worlds.
    #[inline]
    pub fn with_wall(self, wall: Instant) -> Self {
        Cx { wall, ..self }
    }

    /// The time of this step on the node's own monotonic clock (law 2): for spans and timers.
    #[inline]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// What the node takes for the time of day, since an epoch that all nodes share. It may be
    /// wrong, run fast or slow, and step back: no law holds for it. Only machines of the message
    /// family may be given one that differs from [`Cx::now`].
    #[inline]
    pub fn wall(&self) -> Instant {
        self.wall
    }

    /// The machine's own random stream.
    #[inline]
    pub fn rng(&mut self) -> &mut Stream {
        self.rng
    }

    /// Asks the world to carry out `effect`.
    #[inline]
    pub fn emit(&mut self, effect: E) {
        self.out.items.push(Out::Effect(effect));
    }

    /// Asks for `expire(timer)` at `at` or later, instead of at any earlier deadline of `timer`.
    #[inline]
    pub fn arm(&mut self, timer: T, at: Instant) {
        self.out.items.push(Out::Arm(timer, at));
    }

    /// Takes back the deadline of `timer`, if it has one.
    #[inline]
    pub fn disarm(&mut self, timer: T) {
        self.out.items.push(Out::Disarm(timer));
    }
}

/// What a port can take now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// Packets, at least 1 when [`Transmit::pull`] is called.
    pub packets: u32,
    /// Payload bytes.
    pub bytes: u32,
}

/// A packet that leaves a machine: a header and the *name* of some payload bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Packet<H> {
    /// The node it goes to.
    pub to: crate::family::Node,
    /// The protocol's header.
    pub header: H,
    /// Which bytes of which message it carries; zero length for control packets.
    pub payload: crate::family::packet::Extent,
    /// Priority level in the network, 0 lowest.
    pub priority: u8,
    /// For networks that sort by more than a level: the smaller goes first. pFabric's remaining
    /// bytes.
    pub rank: u32,
}

/// The pull side of transports: asked for a packet when the port has room, never before.
pub trait Transmit: Machine {
    /// The protocol's packet header.
    type Header: crate::family::packet::Header;

    /// The packet to send now, or `None` when nothing is eligible *now*. The world asks again after
    /// each step and whenever room returns.
    fn pull(
        &mut self,
        room: Room,
        cx: &mut Cx<'_, Self::Effect, Self::Timer>,
    ) -> Option<Packet<Self::Header>>;
}
