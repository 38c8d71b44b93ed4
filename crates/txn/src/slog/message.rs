//! What nodes say to each other `[dast 3.3]`.

use crate::client::{Done, Note, PieceResult, Request, Response};
use crate::procedure::Given;
use crate::raft::{Durable, Rpc};
use crate::txn::{Shard, Txn, TxnId};
use alloc::sync::Arc;
use alloc::vec::Vec;
use cavy_core::family::Node;
use cavy_core::family::message::{Message as Wire, Protocol};

/// A transaction in a log.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Item {
    /// The transaction.
    #[cfg_attr(feature = "serde", serde(with = "crate::wire::arc"))]
    pub txn: Arc<Txn>,
    /// Who wants to hear what it came to.
    #[cfg_attr(feature = "serde", serde(with = "crate::wire::node"))]
    pub coordinator: Node,
}

/// Transactions in order.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Items(#[cfg_attr(feature = "serde", serde(with = "crate::wire::slice"))] Arc<[Item]>);

impl core::ops::Deref for Items {
    type Target = [Item];

    fn deref(&self) -> &[Item] {
        &self.0
    }
}

impl From<Vec<Item>> for Items {
    fn from(items: Vec<Item>) -> Items {
        Items(items.into())
    }
}

/// An entry of a region's log.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Batch {
    /// Transactions of the region, and the region's part of those of the global order.
    pub items: Items,
    /// The global order is in the log up to this place.
    pub global: u64,
}

/// All that can be said.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Message {
    /// To a region's sequencer: into the region's log.
    Submit(Item),
    /// To the orderer: into the global order.
    Order(Item),
    /// Among the stewards of a region.
    Sequence(Rpc<Batch>),
    /// Among the orderers.
    Agree(Rpc<Items>),
    /// To the replicas of a region: an entry of its log; from whoever leads, or from another
    /// steward.
    #[allow(missing_docs)]
    Deliver { index: u64, items: Items, leads: bool },
    /// Entries from this one on, if there are any.
    #[allow(missing_docs)]
    Fetch { from: u64 },
    /// To the stewards of all regions: an entry of the global order.
    #[allow(missing_docs)]
    Ordered { index: u64, items: Items, leads: bool },
    /// Entries of it from this one on, if there are any.
    #[allow(missing_docs)]
    FetchOrdered { from: u64 },
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
}

fn items_bytes(items: &Items) -> u64 {
    items.iter().map(|item| 4 + item.txn.wire_bytes()).sum()
}

impl Wire for Message {
    fn wire_bytes(&self) -> u64 {
        const HEAD: u64 = 40;
        HEAD + match self {
            Message::Submit(item) | Message::Order(item) => item.txn.wire_bytes(),
            Message::Sequence(rpc) => rpc.wire_bytes(|batch| 8 + items_bytes(&batch.items)),
            Message::Agree(rpc) => rpc.wire_bytes(items_bytes),
            Message::Deliver { items, .. } | Message::Ordered { items, .. } => items_bytes(items),
            Message::Output { done, .. } => {
                done.results.iter().map(PieceResult::wire_bytes).sum::<u64>()
            }
            Message::Values { given, .. } => given.wire_bytes(),
            _ => 8,
        }
    }
}

/// What a steward remembers through a crash: its logs.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Record {
    /// Of its region.
    Sequence(Durable<Batch>),
    /// Of the global order.
    Agree(Durable<Items>),
}

impl Wire for Record {
    fn wire_bytes(&self) -> u64 {
        16 + match self {
            Record::Sequence(Durable::Entry { entry: Some(batch), .. }) => {
                items_bytes(&batch.items)
            }
            Record::Agree(Durable::Entry { entry: Some(items), .. }) => items_bytes(items),
            _ => 4,
        }
    }
}

/// The types of SLOG.
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
