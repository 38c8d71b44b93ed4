//! Answering: a handler, and what it is given.

use super::client::Client;
use super::endpoint::{Command, Endpoint, OpenError, Shared};
use super::lag::Lag;
use super::options::{Options, Peer};
use super::protocol::{Counted, CountersOf, Protocol, Refusal};
use super::recording::Recording;
use crate::pool::Pool;
use crate::sync::{Arc, lock};
use bytes::Bytes;
use cavy_core::Span;
use cavy_core::family::Node;
use cavy_core::family::cpu::Kind;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// Which question of whom.
pub(crate) type QuestionName = (Node, u64);

/// A question that came in whole.
#[derive(Clone, Debug)]
pub struct Question {
    from: Peer,
    bytes: Bytes,
}

impl Question {
    pub(crate) fn new(from: Peer, bytes: Bytes) -> Question {
        Question { from, bytes }
    }

    /// Who asks.
    pub fn from(&self) -> Peer {
        self.from
    }

    /// What is asked.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// What is asked, taken out.
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }
}

/// The way back for one answer, from any thread. Dropped without an answer it gives the question
/// up: the call ends with [`CallError::Unanswered`](super::CallError::Unanswered).
pub struct Reply {
    shared: Arc<Shared>,
    question: QuestionName,
    sent: bool,
}

impl Reply {
    pub(crate) fn new(shared: Arc<Shared>, question: QuestionName) -> Reply {
        Reply { shared, question, sent: false }
    }

    /// Answers. An answer that is empty or too long for the configuration is none.
    pub fn send(mut self, bytes: impl Into<Bytes>) {
        self.end(Ok(bytes.into()));
    }

    /// Refuses a question that was not begun: the call ends with
    /// [`CallError::Overloaded`](super::CallError::Overloaded), after which it may be made again.
    /// For handlers with queues of their own.
    pub fn refuse(mut self) {
        self.end(Err(Refusal::Overloaded));
    }

    /// Which question it answers.
    #[cfg(any(test, feature = "fuzz"))]
    pub(crate) fn question(&self) -> QuestionName {
        self.question
    }

    fn end(&mut self, answer: Result<Bytes, Refusal>) {
        self.sent = true;
        let _ = self.shared.send(Command::Answer { question: self.question, answer });
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.sent {
            self.end(Err(Refusal::Unanswered));
        }
    }
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reply").field("question", &self.question.1).finish_non_exhaustive()
    }
}

/// What answers questions. It is called on the endpoint's thread and must not keep it: what takes
/// long goes to a [`Pool`] ([`Handler::pooled`]) or elsewhere with its [`Reply`]
/// ([`Handler::new`]).
pub struct Handler {
    answer: Box<dyn FnMut(Question, Reply) + Send>,
}

impl Handler {
    /// Calls `answer` for each question; the reply may be sent later and from any thread.
    pub fn new(answer: impl FnMut(Question, Reply) + Send + 'static) -> Handler {
        Handler { answer: Box::new(answer) }
    }

    /// Answers at once, on the endpoint's thread: for what takes a few microseconds.
    pub fn inline(mut answer: impl FnMut(Question) -> Bytes + Send + 'static) -> Handler {
        Handler::new(move |question, reply| reply.send(answer(question)))
    }

    /// Answers on a worker of `pool`, as the type that `kind` says. A question that the pool
    /// refuses, or drops before a worker takes it, is refused.
    pub fn pooled(
        pool: Pool,
        kind: impl Fn(&Question) -> Kind + Send + 'static,
        answer: impl Fn(Question) -> Bytes + Send + Sync + 'static,
    ) -> Handler {
        let answer = Arc::new(answer);
        Handler::new(move |question, reply| {
            let kind = kind(&question);
            let answer = answer.clone();
            let unbegun = Unbegun(Some(reply));
            // Without a handle nobody waits; a job that is refused drops its reply.
            drop(pool.submit(kind, move || {
                if let Some(reply) = unbegun.begin() {
                    reply.send(answer(question));
                }
            }));
        })
    }

    pub(crate) fn answer(&mut self, question: Question, reply: Reply) {
        // A handler that panics has dropped its reply.
        let _ = catch_unwind(AssertUnwindSafe(|| (self.answer)(question, reply)));
    }
}

/// The reply to a question of a pool's queue.
struct Unbegun(Option<Reply>);

impl Unbegun {
    fn begin(mut self) -> Option<Reply> {
        self.0.take()
    }
}

impl Drop for Unbegun {
    fn drop(&mut self) {
        if let Some(reply) = self.0.take() {
            reply.refuse();
        }
    }
}

impl std::fmt::Debug for Handler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Handler")
    }
}

/// Answers questions until it is dropped or shut down.
pub struct Server<P: Protocol> {
    endpoint: Arc<Endpoint>,
    counters: Counted<P>,
}

impl<P: Protocol> Server<P> {
    /// Opens an endpoint that answers with `handler`, and can ask as well ([`Server::client`]).
    ///
    /// # Errors
    /// Options out of range, or a socket that the system refuses.
    pub fn bind(options: &Options<P>, handler: Handler) -> Result<Server<P>, OpenError> {
        let (endpoint, counters) = Endpoint::open(options, Some(handler))?;
        Ok(Server { endpoint, counters })
    }

    /// Where it listens. With a server port other than the default, clients need a [`Peer`].
    pub fn local_address(&self) -> SocketAddr {
        self.endpoint.shared.at
    }

    /// What the endpoint has counted, as of a moment ago.
    pub fn counters(&self) -> CountersOf<P> {
        *lock(&self.counters)
    }

    /// How late the endpoint's thread has been so far; `None` without [`Options::measure_lag`].
    pub fn lag(&self) -> Option<Lag> {
        self.endpoint.shared.lag()
    }

    /// What has become of the recording; complete when the endpoint was shut down.
    pub fn recording(&self) -> Recording {
        lock(&self.endpoint.shared.recording).clone()
    }

    /// A client that asks from the same endpoint.
    pub fn client(&self) -> Client<P> {
        Client { endpoint: self.endpoint.clone(), counters: self.counters.clone() }
    }

    /// Lets the questions under way be answered and the answers arrive, at most `patience` long,
    /// and closes the endpoint. New questions are refused, as
    /// [`CallError::Overloaded`](super::CallError::Overloaded) if both ends say refusals.
    pub fn shutdown(self, patience: Duration) {
        self.endpoint.close(Span::from_ns(u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX)));
    }
}

impl<P: Protocol> std::fmt::Debug for Server<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("at", &self.local_address()).finish_non_exhaustive()
    }
}
