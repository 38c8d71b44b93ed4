//! A client as a tower service: for what comes as layers, such as retries, timeouts and limits.

use super::client::{Call, CallError, Client};
use super::options::Peer;
use super::protocol::Protocol;
use bytes::Bytes;
use std::task::{Context, Poll};
use tower_service::Service;

/// Calls a peer. Always ready: when there are too many calls, the one too many ends with
/// [`CallError::Full`].
impl<P: Protocol> Service<(Peer, Bytes)> for Client<P> {
    type Response = Bytes;
    type Error = CallError;
    type Future = Call;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), CallError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, (to, bytes): (Peer, Bytes)) -> Call {
        self.begin(to, bytes, None)
    }
}
