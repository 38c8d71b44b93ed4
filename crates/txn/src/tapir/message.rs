//! What nodes say to each other `[dast 3.2]`.

use crate::client::{Note, PieceResult, Request, Response};
use crate::procedure::Given;
use crate::store::Writes;
use crate::txn::{Key, Ts, Txn, TxnId, Value};
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
    /// It took place at this timestamp, or not at all.
    #[allow(missing_docs)]
    Finish { attempt: Attempt, at: Option<Ts>, part: Arc<Part> },
    /// Heard.
    #[allow(missing_docs)]
    Finished { attempt: Attempt },
}

impl Part {
    fn wire_bytes(&self) -> u64 {
        let value = |value: &Option<Value>| value.as_ref().map_or(1, Value::wire_bytes);
        let writes: u64 = self.writes.iter().map(|(_, v)| 16 + value(v)).sum();
        36 * self.reads.len() as u64 + writes
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
            | Message::Finish { part, .. } => Ts::WIRE_BYTES + part.wire_bytes(),
            _ => Ts::WIRE_BYTES,
        }
    }
}

/// What a replica remembers through a crash.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Record {
    /// It voted for this.
    #[allow(missing_docs)]
    Prepared { attempt: Attempt, ts: Ts, part: Arc<Part> },
    /// It heard the end.
    #[allow(missing_docs)]
    Finished { attempt: Attempt, at: Option<Ts>, part: Arc<Part> },
}

impl Wire for Record {
    fn wire_bytes(&self) -> u64 {
        let (Record::Prepared { part, .. } | Record::Finished { part, .. }) = self;
        36 + part.wire_bytes()
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
