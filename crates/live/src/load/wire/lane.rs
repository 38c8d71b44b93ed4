//! One connection and what is under way on it.

use crate::load::clock;
use crate::load::target::{Outcome, Ticket};
use crate::load::wire::link::{Link, Opener};
use crate::load::wire::{Protocol, REPLY_BYTES_MAX, Reply};
use cavy_core::{Instant, Span};
use mio::{Interest, Registry, Token};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;

/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;

/// Memory for answers that a connection keeps between requests.
const KEPT_BYTES: usize = 256 << 10;

/// Why a request has no answer when the connection is gone.
const HANGS_UP: &str = "the server closed the connection without an answer";

/// Where a lane leads, and who hears of it.
#[derive(Clone, Copy)]
pub(super) struct Route<'a> {
    pub address: SocketAddr,
    pub opener: &'a Opener,
    pub registry: &'a Registry,
    pub token: Token,
}

/// One connection. Without a link it connects when it is next used.
#[derive(Default)]
pub(super) struct Lane {
    link: Option<Link>,
    /// What could not be written yet.
    out: VecDeque<u8>,
    input: Vec<u8>,
    flight: VecDeque<Flight>,
}

struct Flight {
    ticket: Ticket,
    sent: Instant,
}

impl Lane {
    /// Takes a connection that stands.
    pub fn adopt(
        &mut self,
        mut link: Link,
        registry: &Registry,
        token: Token,
    ) -> std::io::Result<()> {
        registry.register(link.socket(), token, Interest::READABLE | Interest::WRITABLE)?;
        self.link = Some(link);
        Ok(())
    }

    /// Sends the request of `ticket`; gives back the number of requests that ended because the
    /// connection broke.
    pub fn send(&mut self, ticket: Ticket, protocol: &dyn Protocol, route: Route<'_>) -> usize {
        let request = protocol.request(ticket.kind());
        // Before writing: the answer may be there before writing returns.
        let sent = clock::now();
        self.flight.push_back(Flight { ticket, sent });
        if self.link.is_none() {
            let begun = route.opener.begin(route.address);
            let connected = begun.and_then(|link| self.adopt(link, route.registry, route.token));
            if let Err(error) = connected {
                return self.broken("cannot connect", &error);
            }
            // A connection that is being made tells when it can be written to.
            self.out.extend(request);
            return 0;
        }
        if !self.out.is_empty() {
            self.out.extend(request);
            return 0;
        }
        let Some(link) = &mut self.link else { return 0 };
        match link.write(request) {
            Ok(written) => self.out.extend(&request[written..]),
            Err(error) if waits(error.kind()) => self.out.extend(request),
            Err(error) => return self.broken("cannot send", &error),
        }
        0
    }

    /// Writes what is left to write.
    pub fn flush(&mut self) -> usize {
        while !self.out.is_empty() {
            let Some(link) = &mut self.link else { return 0 };
            match link.write(self.out.make_contiguous()) {
                Ok(0) => return self.fail(Outcome::ConnectionError, HANGS_UP),
                Ok(written) => drop(self.out.drain(..written)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if waits(error.kind()) => return 0,
                Err(error) => return self.broken("cannot send", &error),
            }
        }
        match self.link.as_mut().map_or(Ok(()), Link::flush) {
            Ok(()) => 0,
            Err(error) => self.broken("cannot send", &error),
        }
    }

    /// Reads what is there and finishes what it answers; gives back how many requests ended.
    pub fn receive(&mut self, protocol: &dyn Protocol) -> usize {
        let mut ended = 0;
        loop {
            let Some(link) = &mut self.link else { return ended };
            let before = self.input.len();
            self.input.resize(before + READ_BYTES, 0);
            let read = link.read(&mut self.input[before..]);
            let time = clock::now();
            self.input.truncate(before + read.as_ref().map_or(0, |read| *read));
            match read {
                Ok(0) => return ended + self.fail(Outcome::ConnectionError, HANGS_UP),
                Ok(_) => ended += self.answers(protocol, time),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if waits(error.kind()) => return ended,
                Err(error) => return ended + self.broken("cannot receive", &error),
            }
        }
    }

    fn answers(&mut self, protocol: &dyn Protocol, time: Instant) -> usize {
        let mut ended = 0;
        let mut at = 0;
        while let Some(first) = self.flight.front() {
            match protocol.reply(first.ticket.kind(), &self.input[at..]) {
                Reply::Partial if self.input.len() - at > REPLY_BYTES_MAX => {
                    return ended + self.fail(Outcome::ServerError, "the answer does not end");
                }
                Reply::Partial => break,
                Reply::Broken => {
                    let why = protocol.complaint(&self.input[at..]);
                    return ended + self.fail(Outcome::ServerError, &why);
                }
                Reply::Whole { length, outcome, close } => {
                    let reply = &self.input[at..at + length];
                    at += length;
                    ended += 1;
                    match self.flight.pop_front() {
                        Some(first) if outcome == Outcome::Answered => {
                            first.ticket.finish_at(time, outcome);
                        }
                        Some(first) => {
                            first.ticket.fail_at(time, outcome, &protocol.complaint(reply));
                        }
                        None => {}
                    }
                    if close {
                        return ended + self.fail(Outcome::ConnectionError, HANGS_UP);
                    }
                }
            }
        }
        self.input.drain(..at);
        if self.flight.is_empty() && !self.input.is_empty() {
            // An answer to nothing: the next one could not be told from it.
            return ended + self.fail(Outcome::ServerError, "more than an answer came");
        }
        if self.input.is_empty() && self.input.capacity() > KEPT_BYTES {
            self.input = Vec::new();
        }
        ended
    }

    /// Closes the connection if its first request was sent longer than `timeout` ago.
    pub fn expire(&mut self, now: Instant, timeout: Span) -> usize {
        match self.flight.front() {
            Some(first) if now.since(first.sent) > timeout => {
                self.fail(Outcome::TimedOut, &format!("no answer within {timeout}"))
            }
            _ => 0,
        }
    }

    /// The same for an error of the system.
    fn broken(&mut self, what: &str, error: &std::io::Error) -> usize {
        self.fail(Outcome::ConnectionError, &format!("{what}: {error}"))
    }

    /// Closes the connection and ends all that is under way on it, for the reason `why`.
    pub fn fail(&mut self, outcome: Outcome, why: &str) -> usize {
        self.link = None;
        self.out.clear();
        self.input = Vec::new();
        let ended = self.flight.len();
        for flight in self.flight.drain(..) {
            flight.ticket.fail_at(clock::now(), outcome, why);
        }
        ended
    }
}

/// Not now, but later.
fn waits(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::NotConnected)
}
