//! What nodes say to each other `[dast 2.10]`.

use super::view::{Before, Brought, Member, View};
use crate::client::{Note, PieceResult, Request, Response};
use crate::procedure::Given;
use crate::store::Row;
use crate::txn::{Key, Shard, Ts, Txn, TxnId};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use cavy_core::family::Node;
use cavy_core::family::message::{Message as Wire, Protocol};

/// One try to commit a CRT. Retries of clients and of coordinators are different attempts of one
/// id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Attempt {
    /// Of which transaction.
    pub id: TxnId,
    /// Who coordinates it.
    #[cfg_attr(feature = "serde", serde(with = "crate::wire::node"))]
    pub coordinator: Node,
    /// Which try of that coordinator.
    pub round: u32,
}

/// A number of a proposal: round, then proposer. The coordinator's own is [`Ballot::FIRST`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Ballot {
    /// Round.
    pub round: u64,
    /// Who proposes.
    pub node: u32,
}

impl Ballot {
    /// Of whoever may propose without asking.
    pub const FIRST: Ballot = Ballot { round: 0, node: 0 };
}

/// A message, with the view that its sender is in.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Message {
    /// The sender's view of its region; of no meaning across regions.
    pub view: u64,
    /// What it says.
    pub body: Body,
}

/// A CRT as one node knows it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CrtState {
    /// Which.
    pub attempt: Attempt,
    /// Its anticipated timestamp in this region.
    pub a: Ts,
    /// Its final timestamp, if it is decided.
    pub f: Option<Ts>,
    /// The transaction, where the node has part in it.
    #[cfg_attr(feature = "serde", serde(with = "crate::wire::maybe"))]
    pub txn: Option<Arc<Txn>>,
    /// Clocks wait for a value of it.
    pub waits: bool,
}

/// An IRT as one node knows it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct IrtState {
    /// The transaction.
    #[cfg_attr(feature = "serde", serde(with = "crate::wire::arc"))]
    pub txn: Arc<Txn>,
    /// Its timestamp.
    pub ts: Ts,
    /// Who coordinates it.
    #[cfg_attr(feature = "serde", serde(with = "crate::wire::node"))]
    pub coordinator: Node,
}

/// What a node tells a steward that changes the view.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Frozen {
    /// The number of the view.
    pub number: u64,
    /// The greatest timestamp that the node has seen or given.
    pub clock: Ts,
    /// The greatest promise that it has heard.
    pub promise: u64,
    /// The greatest anticipated timestamp that it has seen.
    pub anticipated: Ts,
    /// The last view that came in force here.
    pub force: u64,
    /// The last view before this one that it was asked about: none between is in force anywhere.
    pub froze: u64,
    /// It has the rows of its shard.
    pub has_rows: bool,
    /// IRTs of nodes that are no longer in the view, and its own that are not everywhere.
    pub orphans: Vec<IrtState>,
    /// What came with the view that is in force here: others may have missed it.
    #[cfg_attr(feature = "serde", serde(with = "crate::wire::slice"))]
    pub passed_on: Arc<[IrtState]>,
    /// CRTs that may not be finished everywhere.
    pub crts: Vec<CrtState>,
}

/// What ran here.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Done {
    /// At which timestamp.
    pub at: Ts,
    /// What its pieces on this shard came to.
    #[cfg_attr(feature = "serde", serde(with = "crate::wire::slice"))]
    pub results: Arc<[PieceResult]>,
    /// What they gave.
    pub gives: Given,
    /// They took themselves back.
    pub aborted: bool,
}

/// An entry that has not run wholly, as a snapshot carries it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Pending {
    /// The transaction.
    #[cfg_attr(feature = "serde", serde(with = "crate::wire::arc"))]
    pub txn: Arc<Txn>,
    /// Its place.
    pub ts: Ts,
    /// An IRT of this coordinator, or a CRT.
    #[cfg_attr(feature = "serde", serde(with = "crate::wire::node"))]
    pub coordinator: Node,
    /// The CRT that it is.
    pub crt: Option<Attempt>,
    /// Who answers for the shard; of IRTs it follows from the view.
    #[cfg_attr(feature = "serde", serde(with = "crate::wire::node"))]
    pub leader: Node,
    /// Stable, or committed.
    pub certain: bool,
    /// It has begun to run: its place among the waiting is before all that has not.
    pub begun: bool,
    /// What those pieces that have run came to.
    pub results: Vec<PieceResult>,
    /// What is known of its variables.
    pub given: Given,
    /// A piece has said that it takes itself back.
    pub aborted: bool,
}

/// What an acceptor remembers of one attempt.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Acceptor {
    /// Nothing below this is accepted.
    pub promised: Ballot,
    /// What was accepted: commit at a timestamp, or abort.
    pub accepted: Option<(Ballot, Option<Ts>)>,
    /// Its coordinator has begun another life, and will never say that it is over.
    pub orphan: bool,
}

/// The state of a replica, for one that comes back.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Snapshot {
    /// The view that it belongs to.
    pub number: u64,
    /// The rows, from one of the givers.
    pub rows: Option<Vec<(Key, Row)>>,
    /// What ran and is remembered.
    pub done: Vec<(TxnId, Done)>,
    /// What has not.
    pub pending: Vec<Pending>,
    /// CRTs of the region.
    pub crts: Vec<CrtState>,
    /// What holds clocks.
    pub holds: Vec<(Attempt, Ts)>,
    /// Decisions of the shard.
    pub decisions: Vec<(Attempt, Acceptor)>,
    /// Values of CRTs for other regions, with the place of each.
    pub given_away: Vec<(TxnId, (Ts, Given))>,
    /// The last place that was run.
    pub high: Ts,
}

impl Snapshot {
    fn wire_bytes(&self) -> u64 {
        let rows = self.rows.as_ref().map_or(0, Vec::len) as u64;
        100 + 80 * rows + 200 * (self.done.len() + self.pending.len()) as u64
    }
}

/// What a replica knows of another one of its region, as its log keeps it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[allow(missing_docs)]
pub struct PeerState {
    pub life: u64,
    pub since: u64,
    pub another_in: u64,
    pub waited_for: bool,
    pub held: Ts,
    pub recent: Vec<IrtState>,
}

/// All that a replica has, as its log keeps it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct State {
    /// In which life.
    pub life: u64,
    /// The first one whose memory that is.
    pub since: u64,
    /// It is in its view and serves.
    pub ready: bool,
    /// The last view that it was asked about.
    pub view: View,
    /// The last one that came in force here.
    pub in_force: u64,
    /// The last but one that it was asked about.
    pub froze: u64,
    /// What came with the one in force.
    #[cfg_attr(feature = "serde", serde(with = "crate::wire::slice"))]
    pub passed_on: Arc<[IrtState]>,
    /// No timestamp after this time was given.
    pub clock: u64,
    /// CRTs below this are finished everywhere.
    pub settled: u64,
    /// Replicas of the region, in order.
    pub peers: Box<[PeerState]>,
    /// Commits that came before what they commit.
    pub early: Vec<(Attempt, (Ts, bool))>,
    /// Attempts that are over.
    pub gone: Vec<Attempt>,
    /// Values, also of what has not come yet.
    pub given: Vec<(TxnId, Given)>,
    /// Rows, results, entries, decisions.
    pub snapshot: Snapshot,
}

/// All that can be said.
///
/// What is rare and long stands in a box: nearly all messages are reports, and a world moves each
/// of them several times.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Body {
    /// An IRT, to every replica of every shard it touches.
    #[allow(missing_docs)]
    PrepareIrt {
        #[cfg_attr(feature = "serde", serde(with = "crate::wire::arc"))]
        txn: Arc<Txn>,
        ts: Ts,
    },
    /// It is stored here.
    #[allow(missing_docs)]
    AckIrt { id: TxnId, ts: Ts, clock: Ts },
    /// A majority of each shard has it.
    #[allow(missing_docs)]
    Stable { id: TxnId, ts: Ts },
    /// A node's clock. All its IRTs below `stable` are stable, all below `held` are at every
    /// replica.
    #[allow(missing_docs)]
    Report { clock: Ts, stable: Ts, held: Ts },
    /// What a shard's part came to.
    #[allow(missing_docs)]
    Output { id: TxnId, shard: Shard, done: Box<Done> },
    /// Variables.
    #[allow(missing_docs)]
    Values { id: TxnId, given: Given },
    /// Ask for [`Body::Values`] again.
    #[allow(missing_docs)]
    PullValues { id: TxnId },
    /// Ask for [`Body::Output`] again.
    #[allow(missing_docs)]
    PullOutput { id: TxnId },
    /// To the steward of each region that a CRT touches.
    #[allow(missing_docs)]
    PrepareRemote {
        #[cfg_attr(feature = "serde", serde(with = "crate::wire::arc"))]
        txn: Arc<Txn>,
        attempt: Attempt,
        source: u64,
    },
    /// To the replicas of shards that a CRT touches.
    #[allow(missing_docs)]
    PrepareCrt {
        #[cfg_attr(feature = "serde", serde(with = "crate::wire::arc"))]
        txn: Arc<Txn>,
        attempt: Attempt,
        a: Ts,
        #[cfg_attr(feature = "serde", serde(with = "crate::wire::node"))]
        leader: Node,
    },
    /// To all others of the region.
    #[allow(missing_docs)]
    NoteCrt { attempt: Attempt, a: Ts },
    /// It is stored here.
    #[allow(missing_docs)]
    CrtAck { attempt: Attempt, shard: Shard, a: Ts, leads: bool },
    /// It came too late for its timestamp.
    #[allow(missing_docs)]
    CrtNack { attempt: Attempt },
    /// Accept this decision.
    #[allow(missing_docs)]
    Decide { attempt: Attempt, ballot: Ballot, value: Option<Ts> },
    /// It is accepted, or a greater ballot was promised.
    #[allow(missing_docs)]
    Decided { attempt: Attempt, ballot: Ballot, accepted: bool },
    /// Promise to accept nothing below.
    #[allow(missing_docs)]
    AskDecision { attempt: Attempt, ballot: Ballot },
    /// Promised; and what was accepted before.
    #[allow(missing_docs)]
    TellDecision { attempt: Attempt, ballot: Ballot, state: Box<Acceptor> },
    /// Coordinator, or home steward, to stewards.
    #[allow(missing_docs)]
    Commit { attempt: Attempt, f: Ts },
    /// Steward, or coordinator, to replicas that have part.
    #[allow(missing_docs)]
    CommitCrt { attempt: Attempt, f: Ts, waits: bool },
    /// Steward to all others: hold the clock at this, or no longer.
    #[allow(missing_docs)]
    Release { attempt: Attempt, hold: Option<Ts> },
    /// A replica has the commit.
    #[allow(missing_docs)]
    CommitAck { attempt: Attempt },
    /// All replicas of a region have it.
    #[allow(missing_docs)]
    RegionDone { attempt: Attempt },
    /// Take the attempt back.
    #[allow(missing_docs)]
    Abort { attempt: Attempt },
    /// Steward to nodes.
    #[allow(missing_docs)]
    AbortCrt { attempt: Attempt },
    /// A CRT has been pending for long: decide it.
    #[allow(missing_docs)]
    Resolve {
        #[cfg_attr(feature = "serde", serde(with = "crate::wire::arc"))]
        txn: Arc<Txn>,
        attempt: Attempt,
    },
    /// The decision that was found, for a coordinator that may be alive.
    #[allow(missing_docs)]
    Outcome { attempt: Attempt, value: Option<Ts> },
    /// The value that a region waited for is there.
    #[allow(missing_docs)]
    ValueIn { attempt: Attempt },
    /// Every CRT of this region with a timestamp up to `promise` has been sent to you, and all
    /// below `settled` are finished everywhere.
    #[allow(missing_docs)]
    StewardReport { promise: u64, settled: u64 },
    /// Who is steward of the sender's region.
    NewSteward,
    /// Among stewards: promise this ballot.
    #[allow(missing_docs)]
    AskLead { ballot: Ballot },
    /// Promised, with the last view and one that may have been chosen; and, from the one that led
    /// in the last view, which views may be in force.
    #[allow(missing_docs)]
    GrantLead {
        ballot: Ballot,
        chosen: Box<View>,
        accepted: Option<Box<(Ballot, View)>>,
        led: Option<Vec<Before>>,
    },
    /// A greater ballot was promised.
    #[allow(missing_docs)]
    DenyLead { promised: Ballot },
    /// Accept this view.
    #[allow(missing_docs)]
    Propose { ballot: Ballot, view: Box<View> },
    /// Accepted.
    #[allow(missing_docs)]
    Accepted { ballot: Ballot, number: u64 },
    /// Chosen.
    #[allow(missing_docs)]
    Chosen { view: Box<View> },
    /// A new view: say what you know.
    #[allow(missing_docs)]
    Freeze { view: Box<View> },
    /// What is known.
    Thaw(#[cfg_attr(feature = "serde", serde(with = "crate::wire::arc"))] Arc<Frozen>),
    /// All of it together: go on. Nobody who joins gives a timestamp at or below `floor`.
    #[allow(missing_docs)]
    Install {
        number: u64,
        #[cfg_attr(feature = "serde", serde(with = "crate::wire::slice"))]
        orphans: Arc<[IrtState]>,
        floor: Ts,
    },
    /// You are not in this view.
    #[allow(missing_docs)]
    Outside { number: u64 },
    /// Something between you and others is lost, and you cannot be spared: come in again, with what
    /// your log has.
    #[allow(missing_docs)]
    ComeAgain { life: u64 },
    /// Take me in, in this life, with what I have. It was taken out `given_up` times since it was
    /// started though it had not failed.
    #[allow(missing_docs)]
    Join { life: u64, given_up: u32, brought: Brought },
    /// The channel between the sender and this member broke.
    #[allow(missing_docs)]
    Lost { member: Member },
    /// The state of a replica.
    Snapshot(#[cfg_attr(feature = "serde", serde(with = "crate::wire::arc"))] Arc<Snapshot>),
    /// I have my state.
    #[allow(missing_docs)]
    Ready { life: u64 },
    /// To the replicas of the sender's shard: of the CRTs that it coordinates these may not be
    /// finished everywhere, and all others are.
    #[allow(missing_docs)]
    Open { attempts: Box<[Attempt]> },
}

impl Wire for Message {
    fn wire_bytes(&self) -> u64 {
        const HEAD: u64 = 28;
        HEAD + self.body.wire_bytes()
    }
}

impl Body {
    fn wire_bytes(&self) -> u64 {
        const ATTEMPT: u64 = 18;
        match self {
            Body::PrepareIrt { txn, .. } => 40 + txn.wire_bytes(),
            Body::PrepareRemote { txn, .. } | Body::PrepareCrt { txn, .. } => 50 + txn.wire_bytes(),
            Body::Resolve { txn, .. } => ATTEMPT + txn.wire_bytes(),
            Body::Output { done, .. } => {
                40 + done.results.iter().map(PieceResult::wire_bytes).sum::<u64>()
            }
            Body::Values { given, .. } => 12 + given.wire_bytes(),
            Body::Thaw(frozen) => {
                let all = frozen.orphans.iter().chain(frozen.passed_on.iter());
                let orphans: u64 = all.map(|o| 24 + o.txn.wire_bytes()).sum();
                60 + orphans + 60 * frozen.crts.len() as u64
            }
            Body::Install { orphans, .. } => {
                28 + orphans.iter().map(|o| 24 + o.txn.wire_bytes()).sum::<u64>()
            }
            Body::Open { attempts } => 4 + ATTEMPT * attempts.len() as u64,
            Body::Snapshot(snapshot) => snapshot.wire_bytes(),
            _ => 2 * Ts::WIRE_BYTES,
        }
    }
}

/// How much of what a replica heard is in its log.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Keeps {
    /// Nothing: it is in memory only.
    Nothing,
    /// All of this life, which began with nothing.
    FromNow,
    /// All of this life, and of those before whose memory it has.
    All,
}

/// What a replica was told, and has kept.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Heard {
    /// Who told it.
    #[cfg_attr(feature = "serde", serde(with = "crate::wire::node"))]
    pub from: Node,
    /// What.
    pub body: Body,
}

/// What a node remembers through a crash: that it lived, what stewards promised each other, and
/// what replicas that keep a log were told. Others hold transactions in memory, at a majority.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Record {
    /// A replica begins a life: it was started, or gave up what it had.
    #[allow(missing_docs)]
    Life { life: u64, keeps: Keeps },
    /// A steward's part in choosing views.
    #[allow(missing_docs)]
    Vote { promised: Ballot, accepted: Option<Box<(Ballot, View)>>, chosen: Box<View> },
    /// A message.
    Heard(Box<Heard>),
    /// No timestamp after the time `clock` was given; all up to `high` has run; all CRTs below
    /// `settled` are finished everywhere, and of each replica of the region all IRTs below `held`
    /// are at every replica that they touch.
    #[allow(missing_docs)]
    Progress { clock: u64, high: Ts, settled: u64, held: Box<[Ts]> },
    /// Everything: what was stored before is not needed.
    State(Box<State>),
}

impl Wire for Record {
    fn wire_bytes(&self) -> u64 {
        match self {
            Record::Life { .. } => 10,
            Record::Heard(heard) => 4 + heard.body.wire_bytes(),
            Record::State(state) => 200 + state.snapshot.wire_bytes(),
            Record::Progress { held, .. } => 16 + Ts::WIRE_BYTES * (1 + held.len() as u64),
            Record::Vote { chosen, .. } => {
                let before = chosen.before.iter().map(|view| view.members.len()).sum::<usize>();
                60 + 12 * (chosen.live.len() + before) as u64
            }
        }
    }
}

/// The types of DAST.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Words;

/// Sets of nodes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Group {
    /// Replicas in the view, and the three stewards.
    Region,
    /// The same without stewards.
    Replicas,
}

impl Protocol for Words {
    type Message = Message;
    type Request = Request;
    type Response = Response;
    type Record = Record;
    type Job = ();
    type Group = Group;
    type Note = Note;
}
