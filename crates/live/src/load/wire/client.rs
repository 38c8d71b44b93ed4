//! All connections to one server, as a target.

use crate::load::clock::{self, Wait};
use crate::load::target::{Outcome, Target, Ticket};
use crate::load::wire::Protocol;
use crate::load::wire::lane::{Lane, Route};
use crate::load::wire::link::Opener;
use cavy_core::{Instant, Span};
use mio::{Events, Poll, Registry, Token, Waker};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The receiver looks this often for requests without an answer.
const EXPIRY: Duration = Duration::from_millis(20);

/// Why a request was not sent.
const NO_ROOM: &str = "no connection was free in time";

/// How to connect.
#[derive(Clone, Copy, Debug)]
pub struct ClientOptions {
    /// The server.
    pub address: SocketAddr,
    /// Connections, made before the run; at least 1.
    pub connections: usize,
    /// Requests under way on one connection at a time; 1 for HTTP.
    pub depth: usize,
    /// How long to wait for an answer.
    pub timeout: Span,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
#[error("cannot connect to {address} (connection {number} of {connections}): {reason}")]
pub struct ConnectError {
    /// The server.
    pub address: SocketAddr,
    /// The connection that failed, from 1.
    pub number: usize,
    /// Connections wanted.
    pub connections: usize,
    /// Why.
    pub reason: std::io::Error,
}

/// All connections to one server.
pub struct Client {
    shared: Arc<Shared>,
    receiver: Option<JoinHandle<()>>,
}

struct Shared {
    options: ClientOptions,
    opener: Opener,
    protocol: Arc<dyn Protocol>,
    registry: Registry,
    waker: Waker,
    lanes: Vec<Mutex<Lane>>,
    room: Mutex<Room>,
    under_way: AtomicUsize,
    stop: AtomicBool,
}

/// Where requests can go. A lock on a lane is never taken while this one is held.
struct Room {
    /// One entry for each request that a lane has room for.
    free: Vec<usize>,
    /// Requests for which there was no room.
    backlog: VecDeque<Ticket>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Client {
    /// Connects, and starts the thread that receives.
    pub fn connect(
        protocol: Arc<dyn Protocol>,
        options: ClientOptions,
    ) -> Result<Client, ConnectError> {
        Client::connect_by(Opener::Plain, protocol, options)
    }

    /// The same by TLS. Each connection has greeted the server before the run; one that breaks
    /// greets again, and its next request waits for that.
    #[cfg(feature = "tls")]
    pub fn connect_tls(
        tls: super::Tls,
        protocol: Arc<dyn Protocol>,
        options: ClientOptions,
    ) -> Result<Client, ConnectError> {
        Client::connect_by(Opener::Encrypted(tls), protocol, options)
    }

    fn connect_by(
        opener: Opener,
        protocol: Arc<dyn Protocol>,
        options: ClientOptions,
    ) -> Result<Client, ConnectError> {
        let failed = |number: usize| {
            move |reason| ConnectError {
                address: options.address,
                number,
                connections: options.connections,
                reason,
            }
        };
        let poll = Poll::new().map_err(failed(0))?;
        let registry = poll.registry().try_clone().map_err(failed(0))?;
        let waker = Waker::new(poll.registry(), Token(usize::MAX)).map_err(failed(0))?;
        let mut lanes = Vec::new();
        for place in 0..options.connections {
            let failed = failed(place + 1);
            let patience = Duration::from_nanos(options.timeout.as_ns().max(1));
            let mut lane = Lane::default();
            let opened = opener.open(options.address, patience);
            let adopted = opened.and_then(|link| lane.adopt(link, &registry, Token(place)));
            adopted.map_err(failed)?;
            lanes.push(Mutex::new(lane));
        }
        // Round by round, so that requests spread before they share a connection.
        let rounds = (0..options.depth.max(1)).flat_map(|_| 0..options.connections);
        let room = Room { free: rounds.rev().collect(), backlog: VecDeque::new() };
        let shared = Arc::new(Shared {
            options,
            opener,
            protocol,
            registry,
            waker,
            lanes,
            room: Mutex::new(room),
            under_way: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
        });
        let receiving = Arc::clone(&shared);
        let builder = std::thread::Builder::new().name("receiver".to_string());
        let receiver = builder.spawn(move || receiving.receive_all(poll)).map_err(failed(0))?;
        Ok(Client { shared, receiver: Some(receiver) })
    }

    fn end(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        let _ = self.shared.waker.wake();
        if let Some(receiver) = self.receiver.take() {
            let _ = receiver.join();
        }
        self.shared.give_up();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.end();
    }
}

impl Target for Client {
    fn submit(&mut self, ticket: Ticket) {
        self.shared.under_way.fetch_add(1, Ordering::AcqRel);
        let mut room = lock(&self.shared.room);
        let Some(place) = room.free.pop() else {
            room.backlog.push_back(ticket);
            return;
        };
        drop(room);
        self.shared.send(place, ticket);
    }

    fn drain(&mut self, deadline: Instant) {
        while self.shared.under_way.load(Ordering::Acquire) > 0 && clock::now() < deadline {
            Wait::Sleep.until(clock::now() + Span::from_ms(1));
        }
        self.end();
    }
}

impl Shared {
    fn send(&self, place: usize, ticket: Ticket) {
        let ended = self.put(place, ticket);
        self.ended(place, ended);
    }

    /// Puts a request on a lane; gives back the number of requests that ended by it.
    fn put(&self, place: usize, ticket: Ticket) -> usize {
        let address = self.options.address;
        let (opener, registry, token) = (&self.opener, &self.registry, Token(place));
        let route = Route { address, opener, registry, token };
        lock(&self.lanes[place]).send(ticket, self.protocol.as_ref(), route)
    }

    /// Gives the room of `count` ended requests of a lane to requests that wait, or frees it.
    fn ended(&self, place: usize, count: usize) {
        let mut left = count;
        while left > 0 {
            left -= 1;
            self.under_way.fetch_sub(1, Ordering::AcqRel);
            let mut room = lock(&self.room);
            let Some(mut ticket) = room.backlog.pop_front() else {
                room.free.push(place);
                continue;
            };
            drop(room);
            ticket.sent_at(clock::now());
            left += self.put(place, ticket);
        }
    }

    fn receive_all(&self, mut poll: Poll) {
        clock::sharpen_timers();
        let mut events = Events::with_capacity(1024);
        let mut checked = clock::now();
        while !self.stop.load(Ordering::Acquire) {
            // Interrupted by a signal: as if nothing had come.
            let _ = poll.poll(&mut events, Some(EXPIRY));
            for event in &events {
                let Some(lane) = self.lanes.get(event.token().0) else { continue };
                let mut lane = lock(lane);
                let mut ended = 0;
                if event.is_writable() {
                    ended += lane.flush();
                }
                if event.is_readable() || event.is_read_closed() || event.is_error() {
                    ended += lane.receive(self.protocol.as_ref());
                }
                drop(lane);
                self.ended(event.token().0, ended);
            }
            let now = clock::now();
            if now.since(checked).as_ns() >= EXPIRY.as_nanos() as u64 {
                checked = now;
                self.expire(now);
            }
        }
    }

    fn expire(&self, now: Instant) {
        let timeout = self.options.timeout;
        for (place, lane) in self.lanes.iter().enumerate() {
            let ended = lock(lane).expire(now, timeout);
            self.ended(place, ended);
        }
        let late = |ticket: &Ticket| now.since(ticket.intended()) > timeout;
        loop {
            let mut room = lock(&self.room);
            if !room.backlog.front().is_some_and(late) {
                return;
            }
            let ticket = room.backlog.pop_front();
            drop(room);
            if let Some(ticket) = ticket {
                self.under_way.fetch_sub(1, Ordering::AcqRel);
                ticket.fail_at(now, Outcome::TimedOut, NO_ROOM);
            }
        }
    }

    /// Ends what is still under way; the receiver is gone.
    fn give_up(&self) {
        let backlog = std::mem::take(&mut lock(&self.room).backlog);
        for ticket in backlog {
            ticket.fail_at(clock::now(), Outcome::TimedOut, NO_ROOM);
        }
        for lane in &self.lanes {
            lock(lane).fail(Outcome::TimedOut, "no answer before the run ended");
        }
    }
}
