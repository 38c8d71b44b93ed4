//! Talking in whole messages: the vocabulary of distributed protocols.

use super::Node;
use crate::time::Span;

/// A call of a client, named by the world.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Call(pub u64);

/// A piece of work a machine asked for, named by the machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Work(pub u64);

/// What happens to a node whose peers send `M` and whose clients ask `Q`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Input<M, Q> {
    /// A message came in.
    Rx {
        /// Who sent it.
        from: Node,
        /// What it says.
        message: M,
    },
    /// A client asks.
    Call {
        /// Names the call.
        call: Call,
        /// What is asked.
        request: Q,
    },
    /// Work asked for by [`Effect::Work`] is done.
    WorkDone {
        /// Which.
        work: Work,
    },
}

/// What a node wants done. `S` names a set of nodes, `R` is what clients get back.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Effect<M, S, R> {
    /// Send `message` to one node.
    Send {
        /// The receiver.
        to: Node,
        /// What to say.
        message: M,
    },
    /// Send the same `message` to every node of a set: one effect, however large the set.
    Cast {
        /// The receivers.
        to: S,
        /// What to say.
        message: M,
    },
    /// Spend CPU time, then say [`Input::WorkDone`].
    Work {
        /// Names the work.
        work: Work,
        /// How much of one CPU it takes.
        cost: Span,
    },
    /// Answer a call.
    Reply {
        /// Which call.
        call: Call,
        /// The answer.
        response: R,
    },
}
