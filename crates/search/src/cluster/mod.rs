//! A cluster that searches: front ends, servers, and a directory that keeps the map.
//!
//! **Nodes.** A *front end* plans queries by what it believes, sends a slice to each server, sends
//! what is late to others, and writes documents to every server that stores them. A *server*
//! answers for slices that it holds, copies what it comes to hold, drops what it need not hold. The
//! *directory* publishes maps: who is in step, how many parts queries have, how long arcs are.
//!
//! **What holds, whatever crashes.** A query meets each id once, and says which it could not meet.
//! A write that was acknowledged is in every later answer. Three rules give that:
//! 1. A write is acknowledged when every server in step that stores the document has logged it
//!    `[roar 0.6]`, by the newest map of its front end.
//! 2. A server answers while its lease lasts and its map says that it is in step. It is put out of
//!    step only after its lease has ended; leases count from when they were asked for `[roar 0.9]`.
//! 3. What a map asks for begins when every front end goes by the map: *settled*. A copy then
//!    misses no write, because all go to both; and nobody needs what is dropped.
//!
//! A server may leave the ring, or come back to it, while all this goes on `[roar 2.9]`: who
//! follows it has its range meanwhile. A move goes like a change of p: documents are stored by both
//! rings while one is copied for, queries change to it, and what nobody needs is dropped when all
//! have heard. Borders move to where load is less in the same way `[roar 2.10]`.
//!
//! Servers may be on several rings `[roar 2.6.4]`, each on one for good. Each ring has all
//! documents, all have arcs of one length, and a write goes to those that store it on any. So a
//! part is answered for by somebody of any ring, and an id is lost when no ring has it. What asks
//! servers about their own ranges meets an id once on each ring: a client that counts asks one
//! ring, and one that wants to reach everybody asks all.
//!
//! **Reading order.** [`map`], [`content`], [`message`], `directory`, `server`, `front`; then
//! [`many`], in which each index has all of these for itself.

pub mod catalogue;
pub mod content;
mod directory;
mod front;
mod held;
pub mod many;
pub mod map;
pub mod message;
mod server;

pub use content::{Content, Ids};
pub use directory::Directory;
pub use front::FrontEnd;
pub use map::{Balance, Bugs, Config, Hedge, Layout, Map, Move, Moving, Rings, State};
pub use message::{
    Doc, Job, Message, Note, Outcome, Record, Request, Response, Told, Words, tells_all,
};
pub use server::Server;

use alloc::boxed::Box;
use cavy_core::family::Node;
use cavy_core::family::message::{Effect, Entry, Input, Talker};
use cavy_core::{Cx, Machine};

/// What a node waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Timer {
    /// The next beat, or look around.
    Tick,
    /// Parts of a query to be late.
    Query(u64),
    /// A copy to go on, or to be late.
    Copy,
    /// A slice to be read for somebody else.
    Read,
    /// What was read for somebody else to be sent.
    Send,
    /// More of the same step.
    More,
    /// Of a call that waits for a lease.
    Deadline,
}

/// The context of a step.
pub(crate) type Context<'a, C> = Cx<'a, Effect<Words<C>>, Timer>;

/// How far a node's log goes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Log {
    appended: u64,
}

impl Log {
    fn replayed(&mut self, entry: Entry) {
        self.appended = entry.0;
    }

    fn store<C: Content>(&mut self, record: Record<C>, cx: &mut Context<'_, C>) -> Entry {
        self.appended += 1;
        let entry = Entry(self.appended);
        cx.emit(Effect::Store { entry, record });
        entry
    }
}

/// One node.
#[derive(Debug)]
pub enum Member<C: Content = Ids> {
    /// Plans queries.
    FrontEnd(Box<FrontEnd<C>>),
    /// Answers for slices.
    Server(Box<Server<C>>),
    /// Keeps the map.
    Directory(Box<Directory>),
}

impl<C: Content> Member<C> {
    /// The machine of `node`.
    ///
    /// # Panics
    /// When the layout has no such node.
    pub fn new(config: &Config, node: Node) -> Member<C> {
        assert!(node.0 < config.layout.nodes(), "{node:?} is not in the layout");
        if node == Layout::DIRECTORY {
            return Member::Directory(Box::new(Directory::new(config.clone())));
        }
        match config.layout.number(node) {
            Some(number) => Member::Server(Box::new(Server::new(config.clone(), number))),
            None => Member::FrontEnd(Box::new(FrontEnd::new(config.clone(), node))),
        }
    }

    /// The directory's map, if this is the directory.
    pub fn map(&self) -> Option<&Map> {
        match self {
            Member::Directory(directory) => Some(directory.map()),
            _ => None,
        }
    }
}

impl<C: Content> Machine for Member<C> {
    type Input = Input<Words<C>>;
    type Effect = Effect<Words<C>>;
    type Timer = Timer;

    fn effects_max(&self) -> usize {
        match self {
            Member::FrontEnd(own) => own.effects_max(),
            Member::Server(_) => server::EFFECTS,
            Member::Directory(_) => 4096,
        }
    }

    fn start(&mut self, cx: &mut Context<'_, C>) {
        match self {
            Member::FrontEnd(own) => own.start(cx),
            Member::Server(own) => own.start(cx),
            Member::Directory(own) => own.start(cx),
        }
    }

    fn handle(&mut self, input: Input<Words<C>>, cx: &mut Context<'_, C>) {
        match self {
            Member::FrontEnd(own) => match input {
                Input::Rx { from, message, .. } => own.heard(from, message, cx),
                Input::Call { call, request } => own.call(call, &request, cx),
                _ => {}
            },
            Member::Server(own) => match input {
                Input::Rx { from, message, .. } => own.heard(from, message, cx),
                Input::Call { call, request } => own.call(call, &request, cx),
                Input::Stored { upto } => own.stored(upto, cx),
                Input::Replay { entry, record } => own.replay(entry, record),
                Input::WorkDone { work, took, finished } => own.done(work, took, finished, cx),
                _ => {}
            },
            Member::Directory(own) => match input {
                Input::Rx { from, message, .. } => own.heard(from, &message, cx),
                Input::Call { call, request } => own.call(call, &request, cx),
                Input::Stored { upto } => own.stored(upto, cx),
                Input::Replay { entry, record } => own.replay(entry, record),
                _ => {}
            },
        }
    }

    fn expire(&mut self, timer: Timer, cx: &mut Context<'_, C>) {
        match self {
            Member::FrontEnd(own) => own.expire(timer, cx),
            Member::Server(own) => own.expire(timer, cx),
            Member::Directory(own) => own.tick(cx),
        }
    }

    fn check(&self) {
        match self {
            Member::FrontEnd(_) => {}
            Member::Server(own) => own.check(),
            Member::Directory(own) => own.check(),
        }
    }
}

impl<C: Content> Talker for Member<C> {
    type Protocol = Words<C>;

    fn members(&self, (): ()) -> &[Node] {
        &[]
    }
}
