//! The wide-area world: nodes in regions that talk in whole messages.
//!
//! **Problem.** What a protocol across regions costs is decided by delays between them, and what it
//! is worth by what happens when links, nodes and clocks fail. Both must be the same for all
//! rivals.
//!
//! **Promise.** Delays come from a matrix of one-way times, with jitter, loss, cuts and rates;
//! nodes crash, freeze and come back with exactly what they had stored; clocks are wrong as told. A
//! run ends with a digest that depends on the seed and nothing else. Channels and logs keep the
//! promises of [`cavy_core::family::message`], but where [`Order::None`] is asked for, to show what
//! breaks.
//!
//! **Not here.** No protocol. No packets: a message that is lost on a channel comes one round trip
//! later, as one that is resent does. A node's thread takes inputs in order; who of its processors
//! does which work is decided by a machine of the cpu family, in order of asking if none is given.
//!
//! **Reading order.** [`Setup`] (sites, nodes, links, clocks), [`Faults`], [`Clients`] (who asks
//! what), [`Hardware`] (what handling and work take), [`Processors`] (who decides on work),
//! [`run`], [`Report`], [`Observer`].

mod clients;
mod clock;
mod faults;
mod link;
mod node;
mod observer;
mod processors;
mod report;
mod setup;
mod world;

pub use clients::{Ask, Clients, Ending};
pub use clock::Clock;
pub use faults::{ClockStep, End, Faults, Rule, Slow, Which};
pub use link::{Jitter, Link, Order};
pub use observer::{Hardware, Observer, Unmetered, Unobserved};
pub use processors::Processors;
pub use report::{Counts, Ended, Report};
pub use setup::{Disk, Setup, SetupError};

use crate::pending::Pending;
use cavy_core::family::Node;
use cavy_core::family::message::Talker;

/// A node's site: a region, a data centre, a city. An index of the matrix of links.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Site(pub u16);

/// The protocol that `M` speaks.
pub(crate) type Of<M> = <M as Talker>::Protocol;

/// What drives a run, besides the machines.
pub struct Parts<'a, C, H, P, O> {
    /// Who asks what.
    pub clients: &'a mut C,
    /// What handling and work take.
    pub hardware: &'a mut H,
    /// The queue of events.
    pub pending: &'a mut P,
    /// Who watches.
    pub observer: &'a mut O,
}

/// Runs one machine of `make` on each node until the clients have nothing more to ask and all is
/// answered, or until time is up. `make` is called again for a node that comes back from a crash.
/// Returns what it came to, and the machines of the nodes that are up in the end.
///
/// # Panics
/// When [`Setup::check`] fails, or a machine breaks a rule of its family.
pub fn run<M, C, H, P, O>(
    setup: &Setup,
    make: impl FnMut(Node) -> M,
    parts: Parts<'_, C, H, P, O>,
) -> (Report, Vec<Option<M>>)
where
    M: Talker,
    M::Timer: core::hash::Hash,
    C: Clients<M::Protocol>,
    H: Hardware<M::Protocol>,
    P: Pending,
    O: Observer<M>,
{
    if let Err(error) = setup.check() {
        panic!("{error}");
    }
    let mut world = world::World::new(setup, make, parts);
    world.go();
    world.finish()
}
