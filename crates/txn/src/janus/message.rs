//! What nodes say to each other `[dast 3.1]`.

use crate::client::{Done, Note, PieceResult, Request, Response};
use crate::procedure::Given;
use crate::txn::{Shard, Txn, TxnId};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use cavy_core::family::Node;
use cavy_core::family::message::{Message as Wire, Protocol};

/// Transactions that go before, with the shards that each touches.
pub type Deps = BTreeMap<TxnId, Arc<[Shard]>>;

/// Who coordinates, in which of its lives. A node that lost its memory is somebody else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Coordinator {
    /// The node.
    pub node: Node,
    /// A word that it drew when it was started.
    pub life: u64,
}

/// The number of a proposal: round, then who proposes. Nobody uses one twice: a node that lost its
/// memory does not know which it has used, and is somebody else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ballot {
    /// Round.
    pub round: u64,
    /// Who proposes.
    pub by: Coordinator,
}

impl Ballot {
    /// Of whoever may propose without asking.
    pub const FIRST: Ballot = Ballot { round: 0, by: Coordinator { node: Node(0), life: 0 } };
}

/// How far a transaction is at a replica.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Status {
    /// It was named by somebody.
    Unknown,
    /// It has its place among what conflicts with it here.
    PreAccepted,
    /// Its dependencies were accepted with a ballot.
    Accepted,
    /// Its dependencies are final.
    Committed,
    /// Its pieces of this shard have run.
    Executed,
}

/// What a replica says of a transaction that it has given its place.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct View {
    /// How far it is.
    pub status: Status,
    /// The ballot with which `deps` were accepted.
    pub accepted: Ballot,
    /// All that conflict and came here before, less what is covered; what was accepted; what is
    /// final.
    pub deps: Arc<Deps>,
    /// Some of those that one of `deps` is known to have before it, for ever. Whether a replica
    /// names such a one makes no difference.
    pub covered: Arc<BTreeSet<TxnId>>,
}

/// What an inquirer is told.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Fate {
    /// Its dependencies are final.
    Committed(Arc<Deps>),
    /// It has run, and nobody that has not run goes before it.
    Over,
}

/// All that can be said.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Message {
    /// Give it its place.
    #[allow(missing_docs)]
    PreAccept { txn: Arc<Txn>, by: Coordinator },
    /// The place. `None`: somebody else coordinates it.
    #[allow(missing_docs)]
    PreAccepted { id: TxnId, view: Option<View> },
    /// These go before it.
    #[allow(missing_docs)]
    Accept { txn: Arc<Txn>, ballot: Ballot, deps: Arc<Deps> },
    /// They do; or the greater ballot that was promised.
    #[allow(missing_docs)]
    Accepted { id: TxnId, ballot: Ballot, promised: Option<Ballot> },
    /// These go before it, for ever.
    #[allow(missing_docs)]
    Commit { txn: Arc<Txn>, deps: Arc<Deps> },
    /// What a shard's part came to.
    #[allow(missing_docs)]
    Output { id: TxnId, shard: Shard, done: Done },
    /// Say it again.
    #[allow(missing_docs)]
    PullOutput { id: TxnId },
    /// Variables.
    #[allow(missing_docs)]
    Values { id: TxnId, given: Given },
    /// Say them again.
    #[allow(missing_docs)]
    PullValues { id: TxnId },
    /// What goes before this one, which does not touch the sender's shard?
    #[allow(missing_docs)]
    Inquire { id: TxnId },
    /// This.
    #[allow(missing_docs)]
    Told { id: TxnId, fate: Fate },
    /// Somebody takes the transaction over.
    #[allow(missing_docs)]
    Recover { txn: Arc<Txn>, ballot: Ballot },
    /// What is known of it here; or the greater ballot that was promised.
    #[allow(missing_docs)]
    Recovered { id: TxnId, ballot: Ballot, view: Option<View>, promised: Ballot },
    /// A replica has come back: what has it missed?
    CatchUp,
    /// Something waits for this one, of which the sender has never heard.
    #[allow(missing_docs)]
    Need { id: TxnId },
    /// This.
    #[allow(missing_docs)]
    Missed { all: Arc<[(Arc<Txn>, Arc<Deps>)]> },
}

fn deps_bytes(deps: &Deps) -> u64 {
    deps.values().map(|shards| 13 + 2 * shards.len() as u64).sum()
}

impl Wire for Message {
    fn wire_bytes(&self) -> u64 {
        const HEAD: u64 = 40;
        let view = |view: &Option<View>| {
            view.as_ref()
                .map_or(0, |view| 20 + deps_bytes(&view.deps) + 12 * view.covered.len() as u64)
        };
        HEAD + match self {
            Message::PreAccept { txn, .. } | Message::Recover { txn, .. } => txn.wire_bytes(),
            Message::Accept { txn, deps, .. } | Message::Commit { txn, deps } => {
                txn.wire_bytes() + deps_bytes(deps)
            }
            Message::PreAccepted { view: of, .. } | Message::Recovered { view: of, .. } => view(of),
            Message::Output { done, .. } => {
                done.results.iter().map(PieceResult::wire_bytes).sum::<u64>()
            }
            Message::Values { given, .. } => given.wire_bytes(),
            Message::Told { fate: Fate::Committed(deps), .. } => deps_bytes(deps),
            Message::Missed { all } => {
                all.iter().map(|(txn, deps)| txn.wire_bytes() + deps_bytes(deps)).sum::<u64>()
            }
            _ => 8,
        }
    }
}

/// What a replica remembers through a crash.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Record {
    /// A place that was given.
    #[allow(missing_docs)]
    PreAccepted {
        txn: Arc<Txn>,
        by: Option<Coordinator>,
        deps: Arc<Deps>,
        covered: Arc<BTreeSet<TxnId>>,
    },
    /// A ballot that was promised.
    #[allow(missing_docs)]
    Promised { txn: Arc<Txn>, ballot: Ballot },
    /// Dependencies that were accepted.
    #[allow(missing_docs)]
    Accepted { txn: Arc<Txn>, ballot: Ballot, deps: Arc<Deps> },
    /// Dependencies that are final.
    #[allow(missing_docs)]
    Committed { txn: Arc<Txn>, deps: Arc<Deps> },
}

impl Wire for Record {
    fn wire_bytes(&self) -> u64 {
        let (txn, deps) = match self {
            Record::Promised { txn, .. } => (txn, 12),
            Record::PreAccepted { txn, deps, .. }
            | Record::Accepted { txn, deps, .. }
            | Record::Committed { txn, deps } => (txn, deps_bytes(deps)),
        };
        16 + txn.wire_bytes() + deps
    }
}

/// The types of Janus.
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

/// The union of what several say.
pub fn union<'a>(all: impl IntoIterator<Item = &'a Arc<Deps>>) -> Arc<Deps> {
    let mut union = Deps::new();
    for deps in all {
        union.extend(deps.iter().map(|(id, shards)| (*id, shards.clone())));
    }
    Arc::new(union)
}
