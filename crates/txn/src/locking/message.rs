//! What nodes say to each other.

use crate::client::{Note, Outcome, PieceResult, Request, Response};
use crate::procedure::Given;
use crate::raft::{Durable, Rpc};
use crate::store::Writes;
use crate::txn::{Shard, Txn, TxnId, Value};
use alloc::sync::Arc;
use cavy_core::family::message::{Message as Wire, Protocol};

/// One try to commit a transaction, named so that only one leader can have made it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Attempt {
    /// Of which transaction.
    pub id: TxnId,
    /// The shard that decides.
    pub home: Shard,
    /// The term of its leader that does.
    pub term: u64,
    /// Counts that leader's attempts.
    pub round: u64,
}

/// How old a transaction is; it keeps that when it is tried again. The older is the lesser.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Rank {
    /// Wall clock of the first attempt's leader, nanoseconds.
    pub since: u64,
    /// Of two of one moment.
    pub id: TxnId,
}

/// A participant's part, with its locks and what it will write.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Prepared {
    /// Which attempt.
    pub attempt: Attempt,
    /// The transaction.
    #[cfg_attr(feature = "serde", serde(with = "crate::wire::arc"))]
    pub txn: Arc<Txn>,
    /// Its age.
    pub rank: Rank,
    /// What it writes here.
    pub writes: Writes,
    /// What its pieces here came to.
    #[cfg_attr(feature = "serde", serde(with = "crate::wire::slice"))]
    pub results: Arc<[PieceResult]>,
    /// Variables that its pieces here gave.
    pub gives: Given,
}

/// A transaction is committed.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Decision {
    /// Which attempt.
    pub attempt: Attempt,
    /// The transaction.
    #[cfg_attr(feature = "serde", serde(with = "crate::wire::arc"))]
    pub txn: Arc<Txn>,
    /// What the client hears.
    pub outcome: Outcome,
    /// What it writes at home.
    pub writes: Writes,
    /// When, by the leader's wall clock.
    pub at_ns: u64,
}

/// An entry of a shard's log.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Command {
    /// At home.
    Decide(#[cfg_attr(feature = "serde", serde(with = "crate::wire::arc"))] Arc<Decision>),
    /// At a participant.
    Prepare(#[cfg_attr(feature = "serde", serde(with = "crate::wire::arc"))] Arc<Prepared>),
    /// At a participant, when it has heard.
    #[allow(missing_docs)]
    Finish { attempt: Attempt, commit: bool },
}

/// All that can be said.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Message {
    /// Among the replicas of a shard.
    Raft(Rpc<Command>),
    /// To whoever leads: a client has asked for this.
    Forward(#[cfg_attr(feature = "serde", serde(with = "crate::wire::arc"))] Arc<Txn>),
    /// And back.
    Answer(Response),
    /// Lock, run and prepare your part.
    #[allow(missing_docs)]
    Prepare {
        attempt: Attempt,
        #[cfg_attr(feature = "serde", serde(with = "crate::wire::arc"))]
        txn: Arc<Txn>,
        rank: Rank,
    },
    /// Variables for another part.
    #[allow(missing_docs)]
    Values { attempt: Attempt, given: Given },
    /// Say them again.
    #[allow(missing_docs)]
    PullValues { attempt: Attempt },
    /// A part is prepared, or takes itself back.
    #[allow(missing_docs)]
    Vote {
        attempt: Attempt,
        shard: Shard,
        #[cfg_attr(feature = "serde", serde(with = "crate::wire::slice"))]
        results: Arc<[PieceResult]>,
        aborted: bool,
    },
    /// Somebody older needs a lock of it.
    #[allow(missing_docs)]
    Wounded { attempt: Attempt },
    /// It is over.
    #[allow(missing_docs)]
    Decided { attempt: Attempt, commit: bool },
    /// Is it?
    #[allow(missing_docs)]
    Ask { attempt: Attempt },
}

fn results_bytes(results: &[PieceResult]) -> u64 {
    results.iter().map(PieceResult::wire_bytes).sum()
}

fn writes_bytes(writes: &Writes) -> u64 {
    writes.iter().map(|(_, value)| 17 + value.as_ref().map_or(0, Value::wire_bytes)).sum()
}

impl Command {
    fn wire_bytes(&self) -> u64 {
        const ATTEMPT: u64 = 32;
        ATTEMPT
            + match self {
                Command::Decide(decision) => {
                    decision.txn.wire_bytes() + writes_bytes(&decision.writes)
                }
                Command::Prepare(part) => {
                    part.txn.wire_bytes()
                        + writes_bytes(&part.writes)
                        + results_bytes(&part.results)
                }
                Command::Finish { .. } => 1,
            }
    }
}

impl Wire for Message {
    fn wire_bytes(&self) -> u64 {
        const HEAD: u64 = 40;
        HEAD + match self {
            Message::Raft(rpc) => rpc.wire_bytes(Command::wire_bytes),
            Message::Forward(txn) | Message::Prepare { txn, .. } => txn.wire_bytes(),
            Message::Answer(response) => response.wire_bytes(),
            Message::Values { given, .. } => given.wire_bytes(),
            Message::Vote { results, .. } => results_bytes(results),
            _ => 8,
        }
    }
}

/// What a replica remembers through a crash: its log.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Record(pub Durable<Command>);

impl Wire for Record {
    fn wire_bytes(&self) -> u64 {
        16 + match &self.0 {
            Durable::Entry { entry: Some(command), .. } => command.wire_bytes(),
            _ => 4,
        }
    }
}

/// The types of two-phase locks with two-phase commit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Words;

impl Protocol for Words {
    type Message = Message;
    type Request = Request;
    type Response = Response;
    type Record = Record;
    type Job = ();
    type Group = ();
    type Note = Note;
}
