//! What nodes say to each other `[dast 3.2]`.

use crate::client::{Note, PieceResult, Request, Response};
use crate::procedure::Given;
use crate::store::Writes;
use crate::txn::{Key, Shard, Ts, Txn, TxnId, Value};
use alloc::sync::Arc;
use alloc::vec::Vec;
use cavy_core::family::message::{Message as Wire, Protocol};

/// One try to commit a transaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Attempt {
    /// Of which transaction.
    pub id: TxnId,
    /// Which try.
    pub round: u32,
}

/// What one shard has to check and to keep.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Part {
    /// Rows that were read, with the timestamps of their versions.
    pub reads: Vec<(Key, Ts)>,
    /// Rows that are written.
    pub writes: Writes,
    /// All shards of the transaction, for whoever must end it when its front does not; none where
    /// nobody would.
    pub shards: Arc<[Shard]>,
}

/// Who may decide: a front has [`FIRST`], backups have greater ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Ballot {
    /// Round.
    pub round: u32,
    /// Who.
    pub node: u32,
}

/// Of the front.
pub const FIRST: Ballot = Ballot { round: 0, node: 0 };

/// What a replica knows of an attempt.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State {
    /// It took place at this timestamp.
    pub over: Option<Ts>,
    /// It is prepared at this one.
    pub prepared: Option<Ts>,
    /// The last that was accepted: fine at a timestamp, or not.
    pub accepted: Option<(Ballot, Option<Ts>)>,
    /// It was dropped, or a later attempt of the transaction is known.
    pub dropped: bool,
    /// What it has of it.
    pub part: Option<Arc<Part>>,
}

/// An attempt that took place.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct End {
    /// Which.
    pub attempt: Attempt,
    /// At which timestamp.
    pub at: Ts,
    /// What of it is the shard's.
    pub part: Arc<Part>,
}

/// What pieces came to at the replica that was asked.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Ran {
    /// Pieces.
    pub results: Vec<PieceResult>,
    /// What they gave.
    pub gives: Given,
    /// What they read and would write.
    pub part: Part,
    /// They take the transaction back.
    pub aborted: bool,
}

/// A replica's answer to a prepare.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Vote {
    /// It is among the prepared.
    Fine,
    /// A version that was read is no longer the one to read.
    Abort,
    /// Somebody prepared is in the way, and may go away.
    Abstain,
    /// Not at this timestamp, but perhaps above that one.
    Retry(Ts),
}

/// All that can be said.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Message {
    /// Run these pieces and apply nothing.
    #[allow(missing_docs)]
    Run { attempt: Attempt, txn: Arc<Txn>, pieces: Vec<u16>, given: Given, over: Writes },
    /// What they came to.
    #[allow(missing_docs)]
    Ran { attempt: Attempt, ran: Ran },
    /// Check this part.
    #[allow(missing_docs)]
    Prepare { attempt: Attempt, ts: Ts, part: Arc<Part> },
    /// Checked.
    #[allow(missing_docs)]
    Voted { attempt: Attempt, ts: Ts, vote: Vote },
    /// Replicas differed: it is fine.
    #[allow(missing_docs)]
    Finalize { attempt: Attempt, ts: Ts, part: Arc<Part> },
    /// So be it.
    #[allow(missing_docs)]
    Finalized { attempt: Attempt, ts: Ts },
    /// To a front that wants to finalize what is over.
    #[allow(missing_docs)]
    Dropped { attempt: Attempt },
    /// It took place at this timestamp, or not at all.
    #[allow(missing_docs)]
    Finish { attempt: Attempt, at: Option<Ts>, ballot: Ballot, part: Arc<Part> },
    /// Heard.
    #[allow(missing_docs)]
    Finished { attempt: Attempt },
    /// To a front: a backup found that this took place.
    #[allow(missing_docs)]
    Ended { attempt: Attempt, at: Ts },
    /// A backup takes over: promise to take nothing of lesser ballots, and say what you know.
    #[allow(missing_docs)]
    AskState { attempt: Attempt, ballot: Ballot, shards: Arc<[Shard]> },
    /// Promised.
    #[allow(missing_docs)]
    TellState { attempt: Attempt, ballot: Ballot, state: State },
    /// Your shard is fine with it.
    #[allow(missing_docs)]
    Settle { attempt: Attempt, ballot: Ballot, at: Ts, part: Arc<Part> },
    /// So be it.
    #[allow(missing_docs)]
    Settled { attempt: Attempt, ballot: Ballot },
    /// It cannot be: something else was committed.
    #[allow(missing_docs)]
    Refused { attempt: Attempt, ballot: Ballot },
    /// To others of the shard: commits that they may not have prepared, up to this number.
    #[allow(missing_docs)]
    Ends { upto: u64, ends: Vec<End> },
    /// Heard up to this number.
    #[allow(missing_docs)]
    EndsHeard { upto: u64 },
}

impl Part {
    fn wire_bytes(&self) -> u64 {
        let value = |value: &Option<Value>| value.as_ref().map_or(1, Value::wire_bytes);
        let writes: u64 = self.writes.iter().map(|(_, v)| 16 + value(v)).sum();
        36 * self.reads.len() as u64 + writes + 4 * self.shards.len() as u64
    }
}

impl Wire for Message {
    fn wire_bytes(&self) -> u64 {
        const HEAD: u64 = 44;
        HEAD + match self {
            Message::Run { txn, given, .. } => txn.wire_bytes() + given.wire_bytes(),
            Message::Ran { ran, .. } => {
                let results: u64 = ran.results.iter().map(PieceResult::wire_bytes).sum();
                results + ran.part.wire_bytes()
            }
            Message::Prepare { part, .. }
            | Message::Finalize { part, .. }
            | Message::Finish { part, .. }
            | Message::Settle { part, .. } => Ts::WIRE_BYTES + part.wire_bytes(),
            Message::Ends { ends, .. } => {
                ends.iter().map(|end| 16 + Ts::WIRE_BYTES + end.part.wire_bytes()).sum()
            }
            Message::TellState { state, .. } => {
                2 * Ts::WIRE_BYTES + state.part.as_ref().map_or(0, |part| part.wire_bytes())
            }
            _ => Ts::WIRE_BYTES,
        }
    }
}

/// What a replica remembers through a crash.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Record {
    /// It holds this among the prepared.
    #[allow(missing_docs)]
    Prepared { attempt: Attempt, ts: Ts, part: Arc<Part> },
    /// It heard the end.
    #[allow(missing_docs)]
    Finished { attempt: Attempt, at: Option<Ts>, part: Arc<Part> },
    /// It promised this to a backup.
    #[allow(missing_docs)]
    Promised { attempt: Attempt, ballot: Ballot, shards: Arc<[Shard]> },
    /// Its shard is fine with it.
    #[allow(missing_docs)]
    Accepted { attempt: Attempt, ballot: Ballot, at: Ts },
}

impl Wire for Record {
    fn wire_bytes(&self) -> u64 {
        match self {
            Record::Prepared { part, .. } | Record::Finished { part, .. } => 36 + part.wire_bytes(),
            Record::Promised { .. } | Record::Accepted { .. } => 48,
        }
    }
}

/// The types of TAPIR.
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
