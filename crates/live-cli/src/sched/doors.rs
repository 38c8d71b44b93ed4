//! Taking connections, no more than allowed, until the server ends.

use super::service::Counters;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

/// Says when the server begins to end.
#[derive(Clone, Debug)]
pub struct Ending(watch::Receiver<bool>);

impl Ending {
    /// An ending and what brings it about.
    pub fn new() -> (watch::Sender<bool>, Ending) {
        let (sender, receiver) = watch::channel(false);
        (sender, Ending(receiver))
    }

    /// Returns when the server begins to end.
    pub async fn wait(&mut self) {
        // An error means that whoever could end the server is gone, which is an end as well.
        let _ = self.0.wait_for(|ending| *ending).await;
    }
}

/// Why a connection was closed for the client's sake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Closed {
    /// It asked for nothing for a long time: no fault of anybody.
    Idle,
    /// It had begun with a request, or did not fetch an answer.
    TooSlow,
    /// It broke the protocol.
    NotUnderstood,
}

impl Counters {
    /// Counts a connection that was closed.
    pub fn note(&self, why: Closed) {
        let counter = match why {
            Closed::Idle => &self.idle,
            Closed::TooSlow => &self.too_slow,
            Closed::NotUnderstood => &self.not_understood,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Takes connections and has each served by a task of its own. Where there is no room, they are
/// closed at once.
pub async fn accept<S, F>(
    listener: TcpListener,
    room: Arc<Semaphore>,
    service: Arc<super::service::Service>,
    mut ending: Ending,
    serve: S,
) where
    S: Fn(TcpStream) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = ending.wait() => return,
        };
        let Ok((stream, _)) = accepted else {
            // Out of file descriptors, most likely: let some connections end first.
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let Ok(permit) = Arc::clone(&room).try_acquire_owned() else {
            service.counters.turned_away.fetch_add(1, Ordering::Relaxed);
            continue;
        };
        service.counters.connections.fetch_add(1, Ordering::Relaxed);
        let _ = stream.set_nodelay(true);
        let served = serve(stream);
        tokio::spawn(async move {
            served.await;
            drop(permit);
        });
    }
}
