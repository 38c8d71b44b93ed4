//! Talking in whole messages: the vocabulary of distributed protocols.
//!
//! A node is a [`Talker`]. It hears messages of its peers and calls of clients; it answers, stores
//! records, and asks for work. What its messages, records and jobs are is its own business: a
//! [`Protocol`] names those types, so that a world is written once.
//!
//! # What a world promises
//! * **Channels.** Messages that a node sends another one [`Via::Channel`] arrive once each and in
//!   the order of sending, or both ends are told [`Input::Broken`]. After that word, whatever comes
//!   over the channel was sent after the *other* end knew of the break too: nothing old comes late.
//!   A peer that lost its memory breaks its channels. The two directions break together.
//! * **Datagrams.** [`Via::Datagram`] promises nothing: lost, doubled, late, in any order.
//! * **Time of arrival.** `arrived` is when the message came in, on the node's monotonic clock. The
//!   step may be later, when the node was busy; a round trip ends at `arrived`.
//! * **Two clocks.** [`Cx::now`](crate::Cx::now) never goes back. [`Cx::wall`](crate::Cx::wall) is
//!   what the node takes for the time of day: it may be wrong, drift and step back.
//! * **Records.** [`Effect::Store`] appends to the node's own log. [`Input::Stored`] says how far
//!   the log will survive a crash. Records are stored in the order of emission, so a crash leaves a
//!   prefix. A node that comes back is started, hears each surviving record as [`Input::Replay`]
//!   and then [`Input::Recovered`], before anything else. A node that starts for the first time
//!   hears neither.
//! * **Work.** [`Effect::Work`] describes a job and does not price it: the world knows what it
//!   takes. Each work ends in exactly one [`Input::WorkDone`], a cancelled one too.
//!
//! # What a machine owes
//! * It bears every order of inputs that the above allows.
//! * It answers a call at most once, and not before it knows the answer to be final.
//! * **Recovery** (law 7): crashed at any step and told again what was stored, it contradicts
//!   nothing that it sent or answered before. What a message promises must therefore be stored
//!   before the message is sent, if the promise outlives a crash. [`crate::laws::message`] tests
//!   this.
//! * **Bounded effects** (law 4): a step that would free hundreds of entries does some of them,
//!   arms a timer for now, and goes on when it fires, in the same instant.

use super::Node;
use crate::Machine;
use crate::time::{Instant, Span};
use core::fmt::Debug;
use core::hash::Hash;

/// A call of a client, named by the world. Retries of one request are different calls: what makes
/// them one is an id inside the request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Call(pub u64);

/// A piece of work a machine asked for, named by the machine; not in use twice at a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Work(pub u64);

/// The place of a record in a node's log. The machine counts: 1, 2, 3 and so on, and after a crash
/// goes on from the last record that was replayed to it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Entry(pub u64);

/// How a message travels.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Via {
    /// In order and once, or the channel breaks.
    Channel,
    /// Perhaps, perhaps twice, in any order.
    Datagram,
}

/// What travels: it knows how long it is on the wire, because links have a rate.
pub trait Message: Clone + Eq + Hash + Debug {
    /// Bytes of an encoded message without the headers of the network, at least 1.
    fn wire_bytes(&self) -> u64;
}

/// The types of one protocol. An empty type implements it.
pub trait Protocol: Clone + Copy + Eq + Hash + Debug {
    /// What nodes say to each other. Cloned for each receiver: large parts belong behind an `Arc`.
    type Message: Message;
    /// What clients ask.
    type Request: Message;
    /// What clients get back.
    type Response: Message;
    /// What survives a crash.
    type Record: Message;
    /// A description of work. The world prices it.
    type Job: Clone + Eq + Hash + Debug;
    /// Names a set of nodes by the machine's own view, such as "all of my region".
    type Group: Clone + Copy + Eq + Hash + Debug;
    /// What only observers hear. `()` where there is nothing to tell.
    type Note: Clone + Eq + Hash + Debug;
}

/// A machine of the message family.
pub trait Talker:
    Machine<Input = Input<<Self as Talker>::Protocol>, Effect = Effect<<Self as Talker>::Protocol>>
{
    /// Its types.
    type Protocol: Protocol;

    /// The members of `group`, in the machine's view at the end of the step that named it. The
    /// world asks right after that step. A node that finds itself among them is not sent anything.
    fn members(&self, group: <Self::Protocol as Protocol>::Group) -> &[Node];
}

/// What happens to a node.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Input<P: Protocol> {
    /// A message came in.
    Rx {
        /// Who sent it.
        from: Node,
        /// How it came.
        via: Via,
        /// What it says.
        message: P::Message,
        /// When it came, on this node's clock; not after [`Cx::now`](crate::Cx::now).
        arrived: Instant,
    },
    /// The channel to and from `peer` broke. What this node sent may have been lost from some
    /// message on, and what the peer sent too. Both directions are in order again from now on.
    Broken {
        /// The other end.
        peer: Node,
    },
    /// A client asks.
    Call {
        /// Names the call.
        call: Call,
        /// What is asked.
        request: P::Request,
    },
    /// Everything up to and including `upto` survives a crash.
    Stored {
        /// The last record that does.
        upto: Entry,
    },
    /// A record of the log, at the start after a crash, in order.
    Replay {
        /// Its place.
        entry: Entry,
        /// The record.
        record: P::Record,
    },
    /// The log has been replayed whole.
    Recovered {
        /// A record was cut off at the end: it had not been stored, and is gone.
        torn: bool,
    },
    /// Work ended.
    WorkDone {
        /// Which.
        work: Work,
        /// What it took of one processor.
        took: Span,
        /// False when it was cancelled before its end.
        finished: bool,
    },
}

/// What a node wants done.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Effect<P: Protocol> {
    /// Send `message` to one other node.
    Send {
        /// The receiver; not the node itself.
        to: Node,
        /// How.
        via: Via,
        /// What to say.
        message: P::Message,
    },
    /// Send the same `message` to every node of a set: one effect, however large the set.
    Cast {
        /// The receivers, see [`Talker::members`].
        to: P::Group,
        /// How.
        via: Via,
        /// What to say.
        message: P::Message,
    },
    /// Append `record` to the log; [`Input::Stored`] will say when it is safe.
    Store {
        /// Its place: one more than the last.
        entry: Entry,
        /// The record.
        record: P::Record,
    },
    /// Records up to and including `upto` need not be replayed any more.
    Trim {
        /// The last that is not needed.
        upto: Entry,
    },
    /// Do a job, then say [`Input::WorkDone`].
    Work {
        /// Names the work.
        work: Work,
        /// What is to be done.
        job: P::Job,
    },
    /// Stop a job if it has not ended. [`Input::WorkDone`] comes either way.
    Cancel {
        /// Which.
        work: Work,
    },
    /// Answer a call.
    Reply {
        /// Which call; a call is answered at most once, by the machine that heard it.
        call: Call,
        /// The answer.
        response: P::Response,
    },
    /// Tell observers. The world carries nothing out.
    Note(P::Note),
}
