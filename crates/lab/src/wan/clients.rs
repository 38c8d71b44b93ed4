//! Who asks what: clients outside of the nodes.

use super::Site;
use cavy_core::family::Node;
use cavy_core::family::message::Protocol;
use cavy_core::{Instant, Span};

/// All clients of a run.
///
/// A client that is *closed* asks again when its request has ended; one that is *open* asks
/// whenever it is due. A request that is not answered in time is sent again, to whomever
/// [`Clients::target`] names then; the request itself carries what makes the attempts one.
pub trait Clients<P: Protocol> {
    /// How many there are.
    fn count(&self) -> u32;

    /// The next request of `client`, and when it is sent: not before `now`. `None`: no more. Called
    /// at the start; then, for closed clients, when a request has ended, and for open ones when one
    /// has been sent.
    fn next(&mut self, client: u32, now: Instant) -> Option<(Instant, P::Request)>;

    /// Clients do not wait for answers.
    fn open(&self) -> bool {
        false
    }

    /// Whom attempt number `attempt`, from 0, goes to.
    fn target(&mut self, client: u32, request: &P::Request, attempt: u32) -> Node;

    /// Where `client` is. `None`: on the node that it asks, no network in between.
    fn site(&self, client: u32) -> Option<Site>;

    /// How long an attempt waits before the next one. `None`: for ever.
    fn patience(&self, client: u32, attempt: u32) -> Option<Span>;

    /// A request has ended.
    fn ended(&mut self, ask: &Ask<P>, now: Instant, ending: Ending<P::Response>);
}

/// A request under way.
#[derive(Clone, Debug)]
pub struct Ask<P: Protocol> {
    /// Whose.
    pub client: u32,
    /// What.
    pub request: P::Request,
    /// When it was first sent.
    pub since: Instant,
    /// Attempts so far.
    pub attempts: u32,
}

/// How a request ended.
#[derive(Clone, PartialEq, Debug)]
pub enum Ending<R> {
    /// With an answer.
    Answered(R),
    /// The run ended first: whether it took effect is not known.
    Unknown,
}
