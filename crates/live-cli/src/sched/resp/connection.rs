//! One connection of RESP: requests are begun as they come and answered in their order.

use super::command::{self, Answer};
use crate::sched::doors::{Closed, Ending};
use crate::sched::service::Service;
use crate::sched::store::KEY_BYTES_MAX;
use bytes::{Buf as _, BytesMut};
use cavy_resp::request::{self, Limits as Sizes, Request};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesOrdered, StreamExt as _};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

/// Answers are written at the latest when they are so long together.
const OUT_BYTES: usize = 64 << 10;

/// Limits of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Requests under way.
    pub pipeline: usize,
    /// Time for a request to come, or an answer to be fetched.
    pub patience: Duration,
}

/// How reading goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// More requests may come.
    Open,
    /// What is under way is answered, then the connection ends.
    Closed,
}

struct Connection {
    stream: TcpStream,
    service: Arc<Service>,
    limits: Limits,
    input: BytesMut,
    pending: FuturesOrdered<BoxFuture<'static, Answer>>,
    reading: Reading,
    /// A write is under way, or waits for the reads before it: nothing overtakes it. Reads may
    /// overtake each other, which no client can tell.
    held_by_write: bool,
    /// When the client must have sent a whole request.
    due: Instant,
}

/// Does it change the store, so that its place among the requests of a connection matters?
fn writes(request: &Request) -> bool {
    request.words.first().is_some_and(|name| name.eq_ignore_ascii_case(b"SET"))
}

/// Serves one connection until its end.
pub async fn serve(stream: TcpStream, service: Arc<Service>, limits: Limits, mut ending: Ending) {
    let mut connection = Connection {
        stream,
        service,
        limits,
        input: BytesMut::new(),
        pending: FuturesOrdered::new(),
        reading: Reading::Open,
        held_by_write: false,
        due: Instant::now() + limits.patience,
    };
    while connection.step(&mut ending).await {}
}

impl Connection {
    /// One event; false at the end.
    async fn step(&mut self, ending: &mut Ending) -> bool {
        self.begin_requests();
        if self.reading == Reading::Closed && self.pending.is_empty() {
            return false;
        }
        let room = self.room();
        let quiet = room && self.pending.is_empty();
        tokio::select! {
            Some(answer) = self.pending.next() => self.write(answer).await,
            read = self.stream.read_buf(&mut self.input), if room => {
                // Half a connection still takes the answers to what it asked.
                if !matches!(read, Ok(1..)) {
                    self.reading = Reading::Closed;
                }
                true
            }
            () = tokio::time::sleep_until(self.due), if quiet => {
                let asked = !self.input.is_empty();
                self.service.counters.note(if asked { Closed::TooSlow } else { Closed::Idle });
                false
            }
            () = ending.wait(), if self.reading == Reading::Open => {
                self.reading = Reading::Closed;
                true
            }
        }
    }

    /// May another request begin?
    fn room(&self) -> bool {
        self.reading == Reading::Open
            && self.pending.len() < self.limits.pipeline
            && !self.held_by_write
    }

    /// Begins all requests that have come, as far as there is room.
    fn begin_requests(&mut self) {
        let word_bytes_max = self.service.value_bytes_max.max(KEY_BYTES_MAX);
        if self.pending.is_empty() {
            self.held_by_write = false;
        }
        while self.room() {
            match request::read(&self.input, &Sizes::small(word_bytes_max)) {
                Ok(None) => return,
                Ok(Some(request)) if writes(&request) && !self.pending.is_empty() => {
                    self.held_by_write = true;
                }
                Ok(Some(request)) => {
                    self.held_by_write = writes(&request);
                    self.input.advance(request.length);
                    self.due = Instant::now() + self.limits.patience;
                    if !request.words.is_empty() {
                        let service = Arc::clone(&self.service);
                        let answer = async move { command::execute(&service, request.words).await };
                        self.pending.push_back(answer.boxed());
                    }
                }
                Err(reason) => {
                    self.service.counters.note(Closed::NotUnderstood);
                    let text = command::error(&format!("Protocol error: {reason}"));
                    self.pending.push_back(async move { Answer::Last(text) }.boxed());
                    self.reading = Reading::Closed;
                }
            }
        }
    }

    /// Writes this answer and those that are ready after it; false at the end.
    async fn write(&mut self, answer: Answer) -> bool {
        let mut out = Vec::new();
        let mut last = answer.write(&mut out);
        while !last && out.len() < OUT_BYTES {
            let Some(Some(answer)) = self.pending.next().now_or_never() else { break };
            last = answer.write(&mut out);
        }
        let written = timeout(self.limits.patience, self.stream.write_all(&out)).await;
        if written.is_err() {
            self.service.counters.note(Closed::TooSlow);
        }
        self.due = Instant::now() + self.limits.patience;
        matches!(written, Ok(Ok(()))) && !last
    }
}
