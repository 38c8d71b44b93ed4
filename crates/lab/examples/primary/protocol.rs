//! The smallest protocol of transactions: one node runs everything, in the order in which it comes.
//!
//! Histories are strictly serializable. Nothing survives a crash of that node, and clients of other
//! regions wait for the way to it and back.

use cavy_core::family::Node;
use cavy_core::family::message::{Call, Effect, Input, Message, Protocol, Talker, Via};
use cavy_core::{Cx, Machine};
use cavy_txn::store::Store;
use cavy_txn::{Given, Note, Outcome, PieceResult, Procedures, Request, Response, Ts, Txn, TxnId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Who runs everything.
pub const PRIMARY: Node = Node(0);

/// What nodes say to each other. A call is named by the node that asks.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Word {
    Ask(u64, Request),
    Tell(u64, Response),
}

impl Message for Word {
    fn wire_bytes(&self) -> u64 {
        match self {
            Word::Ask(_, request) => 9 + request.wire_bytes(),
            Word::Tell(_, response) => 9 + response.wire_bytes(),
        }
    }
}

/// The types of the protocol. It stores no records and describes no work.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Words;

impl Protocol for Words {
    type Message = Word;
    type Request = Request;
    type Response = Response;
    type Record = Word;
    type Job = ();
    type Group = ();
    type Note = Note;
}

/// One node.
pub struct Primary<P> {
    me: Node,
    procedures: P,
    pub store: Store,
    /// What a client that asks again is answered with. It is never forgotten.
    done: BTreeMap<TxnId, Response>,
}

impl<P: Procedures> Primary<P> {
    pub fn new(me: Node, procedures: P) -> Self {
        Primary { me, procedures, store: Store::new(), done: BTreeMap::new() }
    }

    /// Runs a transaction, unless it has run: each piece as soon as it has its values.
    fn run(&mut self, txn: &Txn, cx: &mut Cx<'_, Effect<Words>, ()>) -> Response {
        if let Some(known) = self.done.get(&txn.id) {
            return known.clone();
        }
        let (mut given, mut pieces) = (Given::new(), BTreeMap::new());
        let (mut keys, mut aborted) = (Vec::new(), false);
        // In each round at least one piece has what it needs.
        for _ in 0..txn.pieces.len() {
            for (index, piece) in txn.pieces.iter().enumerate() {
                if pieces.contains_key(&index) || !given.has_all(piece) {
                    continue;
                }
                let (run, ops) = self.store.run(&mut self.procedures, txn, index, &given, Ts::ZERO);
                keys.extend(ops.iter().filter(|op| op.wrote).map(|op| op.key));
                aborted |= run.aborted;
                for (var, value) in run.gives {
                    given.set(var, value);
                }
                pieces.insert(index, PieceResult { piece: index as u16, result: run.result, ops });
            }
        }
        if !keys.is_empty() {
            // For the checker of histories: in which order rows were written.
            cx.emit(Effect::Note(Note::Applied { id: txn.id, at: Ts::ZERO, keys }));
        }
        let pieces = pieces.into_values().collect();
        let committed = Outcome::Committed { at: Ts::ZERO, pieces };
        let outcome = if aborted { Outcome::Aborted } else { committed };
        let response = Response { id: txn.id, outcome };
        self.done.insert(txn.id, response.clone());
        response
    }
}

impl<P: Procedures> Talker for Primary<P> {
    type Protocol = Words;

    fn members(&self, (): ()) -> &[Node] {
        &[]
    }
}

impl<P: Procedures> Machine for Primary<P> {
    type Input = Input<Words>;
    type Effect = Effect<Words>;
    type Timer = ();

    fn effects_max(&self) -> usize {
        2
    }

    fn start(&mut self, _: &mut Cx<'_, Effect<Words>, ()>) {}

    fn expire(&mut self, (): (), _: &mut Cx<'_, Effect<Words>, ()>) {}

    fn handle(&mut self, input: Input<Words>, cx: &mut Cx<'_, Effect<Words>, ()>) {
        let via = Via::Channel;
        match input {
            Input::Call { call, request } if self.me == PRIMARY => {
                let response = self.run(&request.0, cx);
                cx.emit(Effect::Reply { call, response });
            }
            Input::Call { call, request } => {
                let message = Word::Ask(call.0, request);
                cx.emit(Effect::Send { to: PRIMARY, via, message });
            }
            Input::Rx { from, message: Word::Ask(call, request), .. } => {
                let message = Word::Tell(call, self.run(&request.0, cx));
                cx.emit(Effect::Send { to: from, via, message });
            }
            Input::Rx { message: Word::Tell(call, response), .. } => {
                cx.emit(Effect::Reply { call: Call(call), response });
            }
            // A broken channel may have lost an answer: the client asks again.
            _ => {}
        }
    }
}
