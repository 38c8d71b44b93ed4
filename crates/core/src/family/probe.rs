//! Measuring by intervening: the vocabulary of what-if analysis.
//!
//! A *controller* stands beside one or many process groups. It is told what they do, and stops and
//! continues them. One vocabulary carries three arrangements ([slowpoke 2]):
//!
//! - **one for all**: one controller sees the target and stops all other groups;
//! - **one a service**: each controller sees its own group alone, stops it, and tells its
//!   neighbours;
//! - **a leader and a daemon a host**: the leader sees the target and tells the daemons, and each
//!   daemon stops the groups of its host.
//!
//! A group is a set of processes that stop and continue together. Freezing is a wish: the world
//! reports when each group really stood and really went on. A stopped group does nothing, but what
//! is not the group's own goes on: messages in flight, timers of the kernel, the clock on the wall.

use super::Node;
use crate::machine::Machine;
use crate::time::{Instant, Span};

/// A process group, named by the world.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Group(pub u32);

/// A set of groups, named by the controller: [`Controller::members`] says who is in it. A name and
/// not a list, so that stopping a hundred groups is one small effect.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Set(pub u16);

/// Numbers the freezes of one controller. It only grows, and what bears an older number than the
/// last one of a set means nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Epoch(pub u64);

/// A kind of request of a group, numbered from 0 within its service.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Endpoint(pub u16);

/// What a group has used since the world began. Each only grows, and stands while the group stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Usage {
    /// CPU time of all its threads.
    pub cpu: Span,
    /// Time in which at least one of its threads ran or was ready to run.
    pub busy: Span,
    /// CPU time plus the time for which threads were ready and waited for a core, of all its
    /// threads.
    pub runnable: Span,
}

/// What happens to a controller whose peers send `M`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Input<M> {
    /// What `group` has used, as [`Effect::Watch`] or [`Effect::Read`] asked.
    Used {
        /// The group.
        group: Group,
        /// When it was read: now or a little earlier.
        at: Instant,
        /// What it has used.
        usage: Usage,
    },
    /// `group` began to serve a request.
    Visited {
        /// The group.
        group: Group,
        /// What was asked.
        endpoint: Endpoint,
    },
    /// A group of this controller called the service of `peer` for the first time, so that the two
    /// can talk.
    Met {
        /// The controller of what was called.
        peer: Node,
    },
    /// All threads of `group` stand, because of freeze `epoch`.
    Frozen {
        /// The group.
        group: Group,
        /// Which freeze.
        epoch: Epoch,
        /// Since when.
        at: Instant,
    },
    /// `group` goes on; it stood because of freeze `epoch`. Sent by the end of a lease as well.
    Thawed {
        /// The group.
        group: Group,
        /// Which freeze.
        epoch: Epoch,
        /// Since when.
        at: Instant,
    },
    /// The edge answered this many more requests of clients.
    Completed {
        /// How many.
        requests: u32,
    },
    /// `group` has ended and is nobody's any more.
    Gone {
        /// The group.
        group: Group,
    },
    /// Another controller says something.
    Rx {
        /// Who.
        from: Node,
        /// What.
        message: M,
    },
    /// Let everything go on, and stop nothing more.
    Abort,
}

/// What a controller wants done. `M` is what it tells its peers, `C` what it concludes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Effect<M, C> {
    /// Stop all groups of `set`. [`Input::Frozen`] follows for each of them that lives. For a group
    /// that stands already the newer epoch counts from now on: it is confirmed, and its lease
    /// begins anew.
    Freeze {
        /// Which groups.
        set: Set,
        /// Which freeze.
        epoch: Epoch,
        /// For how long the controller means them to stand.
        span: Span,
        /// For how long they stand at most: the world lets them go on by itself then, whatever has
        /// become of the controller. Not shorter than `span`.
        lease: Span,
    },
    /// Let those groups of `set` go on that stand because of freeze `epoch`; for others it means
    /// nothing. [`Input::Thawed`] follows for each.
    Thaw {
        /// Which groups.
        set: Set,
        /// Which freeze.
        epoch: Epoch,
    },
    /// Say [`Input::Used`] of `group` every so often, [`Span::ZERO`] for never again.
    Watch {
        /// The group.
        group: Group,
        /// How often.
        every: Span,
    },
    /// Say [`Input::Used`] of `group` once, as of now: before what follows in this outbox is done.
    Read {
        /// The group.
        group: Group,
    },
    /// Tell one controller something.
    Send {
        /// Whom.
        to: Node,
        /// What.
        message: M,
    },
    /// Tell all other controllers the same thing: one effect, however many.
    Cast {
        /// What.
        message: M,
    },
    /// A finding. There may be several.
    Conclude(C),
}

/// The timers of a controller.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Timer {
    /// Time to look.
    Tick,
    /// This set has stood for long enough.
    Thaw(Set),
    /// Something should have been confirmed by now.
    Lease,
    /// A window of measurement begins or ends.
    Window,
}

/// A machine of this family.
pub trait Controller:
    Machine<Input = Input<Self::Message>, Effect = Effect<Self::Message, Self::Finding>, Timer = Timer>
{
    /// What controllers tell each other.
    type Message: Copy;
    /// What it concludes.
    type Finding;

    /// The groups of `set`. They do not change while the machine lives, and a set that the machine
    /// never named is empty.
    fn members(&self, set: Set) -> &[Group];
}
