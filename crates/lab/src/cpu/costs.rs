//! What scheduling costs ([persephone 3], [persephone 5.2]).

use super::speeds::Speeds;
use cavy_core::Span;

/// Costs that a world charges, all zero in the ideal one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Costs {
    /// Extra worker time of every request (`ow`).
    pub per_request: Span,
    /// Serial time of the dispatcher for every request, before it reaches a queue (`dc`).
    pub dispatch: Span,
    /// Worker time lost at each preemption (`cp`).
    pub preemption: Span,
    /// Extra worker time of a request that ran on a worker not its own (`cs`).
    pub steal: Span,
    /// Network round trip, added to every latency (`RTT`).
    pub round_trip: Span,
}

/// The cores behind the workers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cores {
    /// Each worker is a core.
    Own,
    /// Workers are slots, and this many cores are shared equally among the busy ones, none of which
    /// gets more than one core: processor sharing.
    Shared(u16),
    /// Each worker is a core, and they are of these speeds: all that a worker does takes it longer
    /// the slower it is.
    Unequal(Speeds),
}
