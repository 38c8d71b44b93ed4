//! Asking: a call and how it ends.

use super::endpoint::{Command, Endpoint, OpenError, refuse};
use super::lag::Lag;
use super::options::{Options, Peer};
use super::protocol::{Counted, CountersOf, Protocol};
use super::recording::Recording;
use crate::sync::{Arc, Condvar, Mutex, lock, wait};
use bytes::Bytes;
use cavy_core::Span;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Why a call has no answer.
///
/// After [`CallError::Silent`], [`CallError::Unreachable`], [`CallError::Unanswered`],
/// [`CallError::Deadline`] and [`CallError::Closed`] the question may have been carried out, once;
/// after the others it was not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The server said nothing for as long as the protocol waits.
    #[error("the server is silent")]
    Silent,
    /// ICMP said that nobody listens there, and nothing has come from there since
    /// ([`Options::unreachable_after`]).
    #[error("nobody listens there")]
    Unreachable,
    /// The server refuses: too much waits there, or waited for too long. Known after a round trip
    /// or after the server's [`Options::refused_after`], if both ends say refusals
    /// ([`Terms::refusals`](super::Terms::refusals)).
    #[error("the server is overloaded and has not carried it out; ask again later")]
    Overloaded,
    /// The server has begun with the question and gives no answer: its handler dropped the reply or
    /// panicked, or what it answered may not be sent.
    #[error("the server has begun and gives no answer")]
    Unanswered,
    /// The call's deadline passed.
    #[error("no answer within the deadline")]
    Deadline,
    /// The message is empty, which the configuration (such as that of Homa's Linux module) does not
    /// allow.
    #[error("the message is empty; `empty_messages` of the configuration would allow it")]
    Empty,
    /// The message is longer than the configuration allows.
    #[error("the message is longer than the {most} bytes that `message_max_bytes` allows")]
    TooLong {
        /// The longest that is allowed.
        most: u32,
    },
    /// There are as many calls, exchanges or peers as there may be.
    #[error("too many calls are under way; wait for some, or raise `calls_max`")]
    Full,
    /// The endpoint is closed, or was before the answer came.
    #[error("the endpoint is closed")]
    Closed,
    /// The address is of another family of IP than the endpoint's.
    #[error("an endpoint bound to an IPv4 address does not reach an IPv6 address, nor the reverse")]
    Family,
}

/// What becomes of a call.
pub type Outcome = Result<Bytes, CallError>;

/// Where the outcome goes.
pub(crate) enum Done {
    Slot(Arc<Slot>),
    Hook(Box<dyn FnOnce(Outcome) + Send>),
}

impl Done {
    /// The call is over. Foreign code may run here; if it panics, that is its own affair.
    pub(crate) fn end(self, outcome: Outcome) {
        match self {
            Done::Slot(slot) => slot.put(outcome),
            Done::Hook(hook) => {
                let run = std::panic::AssertUnwindSafe(|| hook(outcome));
                let _ = std::panic::catch_unwind(run);
            }
        }
    }
}

#[derive(Debug, Default)]
struct State {
    outcome: Option<Outcome>,
    waker: Option<Waker>,
}

/// Room for one outcome.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    state: Mutex<State>,
    arrived: Condvar,
}

impl Slot {
    fn put(&self, outcome: Outcome) {
        let waker = {
            let mut state = lock(&self.state);
            state.outcome = Some(outcome);
            state.waker.take()
        };
        self.arrived.notify_one();
        if let Some(waker) = waker {
            let run = std::panic::AssertUnwindSafe(|| waker.wake());
            let _ = std::panic::catch_unwind(run);
        }
    }
}

/// Asks servers. Clones are the same endpoint; when the last one goes (and the
/// [`Server`](super::Server) it came from, if any), calls under way end with [`CallError::Closed`].
///
/// ```
/// use cavy_live::homa::{Client, Handler, Options, Server};
///
/// let echo = Handler::inline(|question| question.bytes().clone());
/// let server = Server::bind(&Options::local(), echo).unwrap();
/// let client = Client::bind(&Options::local()).unwrap();
/// let answer = client.call(server.local_address(), "hello").unwrap();
/// assert_eq!(answer, "hello");
/// ```
pub struct Client<P: Protocol> {
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) counters: Counted<P>,
}

impl<P: Protocol> Clone for Client<P> {
    fn clone(&self) -> Client<P> {
        Client { endpoint: self.endpoint.clone(), counters: self.counters.clone() }
    }
}

impl<P: Protocol> Client<P> {
    /// Opens an endpoint that asks and does not answer.
    ///
    /// # Errors
    /// Options out of range, or a socket that the system refuses.
    pub fn bind(options: &Options<P>) -> Result<Client<P>, OpenError> {
        let (endpoint, counters) = Endpoint::open(options, None)?;
        Ok(Client { endpoint, counters })
    }

    /// Its address.
    pub fn local_address(&self) -> SocketAddr {
        self.endpoint.shared.at
    }

    /// How late the endpoint's thread has been so far, as [`Server::lag`](super::Server::lag).
    pub fn lag(&self) -> Option<Lag> {
        self.endpoint.shared.lag()
    }

    /// What the endpoint has counted, as of a moment ago.
    pub fn counters(&self) -> CountersOf<P> {
        *lock(&self.counters)
    }

    /// What has become of the recording; complete when the endpoint was shut down.
    pub fn recording(&self) -> Recording {
        lock(&self.endpoint.shared.recording).clone()
    }

    /// Asks and waits for the answer, as long as the options' deadline says.
    ///
    /// # Errors
    /// All of [`CallError`].
    pub fn call(&self, to: impl Into<Peer>, bytes: impl Into<Bytes>) -> Outcome {
        self.begin(to, bytes, None).wait()
    }

    /// Asks and waits for the answer, at most `deadline`.
    ///
    /// # Errors
    /// All of [`CallError`].
    pub fn call_within(
        &self,
        to: impl Into<Peer>,
        bytes: impl Into<Bytes>,
        deadline: Duration,
    ) -> Outcome {
        self.begin(to, bytes, Some(deadline)).wait()
    }

    /// Asks and returns at once. The call is a future for any executor, and can be waited for or
    /// cancelled; dropping it cancels it.
    pub fn begin(
        &self,
        to: impl Into<Peer>,
        bytes: impl Into<Bytes>,
        deadline: Option<Duration>,
    ) -> Call {
        let slot = Arc::new(Slot::default());
        let id = self.send(to.into(), bytes.into(), deadline, Done::Slot(slot.clone()));
        Call { endpoint: self.endpoint.clone(), id, slot, ended: false }
    }

    /// Asks and returns at once; `hook` gets the outcome, on the endpoint's thread, which it should
    /// not keep for long.
    pub fn begin_then(
        &self,
        to: impl Into<Peer>,
        bytes: impl Into<Bytes>,
        deadline: Option<Duration>,
        hook: impl FnOnce(Outcome) + Send + 'static,
    ) {
        self.send(to.into(), bytes.into(), deadline, Done::Hook(Box::new(hook)));
    }

    fn send(&self, to: Peer, bytes: Bytes, deadline: Option<Duration>, done: Done) -> u64 {
        let shared = &self.endpoint.shared;
        let id = shared.name();
        let deadline = deadline.map_or(shared.deadline, |deadline| {
            Span::from_ns(u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX))
        });
        let until = shared.clock.now() + deadline;
        if let Err(command) = shared.send(Command::Call { id, to, bytes, until, done }) {
            refuse(command);
        }
        id
    }

    /// Takes no more calls, lets those under way end, at most `patience` long, and closes the
    /// endpoint. For all clones.
    pub fn shutdown(&self, patience: Duration) {
        self.endpoint.close(Span::from_ns(u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX)));
    }
}

impl<P: Protocol> std::fmt::Debug for Client<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("at", &self.local_address()).finish_non_exhaustive()
    }
}

/// A call under way. Dropping it before its end cancels it: the server may carry it out or not.
pub struct Call {
    endpoint: Arc<Endpoint>,
    id: u64,
    slot: Arc<Slot>,
    ended: bool,
}

impl Call {
    /// Waits for the outcome.
    ///
    /// # Errors
    /// All of [`CallError`].
    pub fn wait(mut self) -> Outcome {
        let mut state = lock(&self.slot.state);
        let outcome = loop {
            match state.outcome.take() {
                Some(outcome) => break outcome,
                None => state = wait(&self.slot.arrived, state),
            }
        };
        drop(state);
        self.ended = true;
        outcome
    }

    /// The outcome, if it is there.
    pub fn try_take(&mut self) -> Option<Outcome> {
        let outcome = lock(&self.slot.state).outcome.take()?;
        self.ended = true;
        Some(outcome)
    }

    /// Does not want the answer any more.
    pub fn cancel(self) {}
}

impl Future for Call {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let found = {
            let mut state = lock(&self.slot.state);
            let found = state.outcome.take();
            if found.is_none() {
                state.waker = Some(cx.waker().clone());
            }
            found
        };
        match found {
            Some(outcome) => {
                self.ended = true;
                Poll::Ready(outcome)
            }
            None => Poll::Pending,
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.endpoint.shared.send(Command::Cancel { id: self.id });
        }
    }
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call").field("id", &self.id).finish_non_exhaustive()
    }
}
