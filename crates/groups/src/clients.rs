//! Clients that stand when the rest stands.
//!
//! A closed client sends, waits for the answer, thinks if it is to, and sends again. Open ones send
//! when requests arrive, whatever became of those before: arrivals are drawn on the clients' clock,
//! and the latency of a request counts from its arrival, whether a connection was free or not.
//! While the [`Gate`] is closed nothing is sent and nothing is looked at, and the clients' clock
//! stands: they live in virtual time, in which the slowed system is the changed one ([slowpoke
//! 2.9]).

use crate::now;
use cavy_core::{Instant, Purpose, Span, Stream};
use cavy_live::load::target::Outcome;
use cavy_live::load::wire::{Http, Protocol, Reply};
use mio::net::TcpStream;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use rustix::fd::{AsRawFd as _, OwnedFd};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// A client whose connection broke tries again so much later.
const AGAIN: Duration = Duration::from_millis(10);
/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;
/// Requests that have arrived and found no connection free, at most.
const WAITING_MAX: usize = 100_000;
/// What the timer of arrivals is called among connections.
const TIMER: Token = Token(usize::MAX);
/// Answers whose latency is kept between two calls of [`Clients::take_samples`].
const SAMPLES_MAX: usize = 4_000_000;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug, Default)]
struct Clock {
    closed_since: Option<Instant>,
    stood: Span,
    /// When clients stood last, on their clock, and for how long.
    last: Option<(Instant, Span)>,
}

/// Stops and continues clients, and counts what they got.
#[derive(Debug, Default)]
pub struct Gate {
    closed: AtomicBool,
    clock: Mutex<Clock>,
    opened: Condvar,
    completed: AtomicU32,
    /// Those of the kinds that visit a target, where they are not all.
    visits: AtomicU32,
}

impl Gate {
    /// Nobody sends from `at` on.
    pub fn close(&self, at: Instant) {
        let mut clock = lock(&self.clock);
        if clock.closed_since.is_none() {
            clock.closed_since = Some(at);
            self.closed.store(true, Ordering::Release);
        }
    }

    /// Everybody goes on at `at`.
    pub fn open(&self, at: Instant) {
        let mut clock = lock(&self.clock);
        if let Some(since) = clock.closed_since.take() {
            let began = Instant::from_ns(since.as_ns() - clock.stood.as_ns());
            clock.last = Some((began, at.since(since)));
            clock.stood += at.since(since);
            self.closed.store(false, Ordering::Release);
            self.opened.notify_all();
        }
    }

    /// Requests completed since it was last asked.
    pub fn take_completed(&self) -> u32 {
        self.completed.swap(0, Ordering::AcqRel)
    }

    /// Requests completed since it was last asked, of the kinds that visit a target.
    pub fn take_visits(&self) -> u32 {
        self.visits.swap(0, Ordering::AcqRel)
    }

    /// When clients' clock showed `at`, which was not long ago: at most one pause lies between.
    fn on_the_wall(&self, at: Instant) -> Instant {
        let clock = lock(&self.clock);
        let stood = match clock.last {
            Some((began, length)) if at <= began => clock.stood.saturating_sub(length),
            _ => clock.stood,
        };
        at + stood
    }

    /// Virtual time now: time less that for which clients stood.
    fn virtual_now(&self) -> Instant {
        let clock = lock(&self.clock);
        let at = clock.closed_since.unwrap_or_else(now);
        Instant::from_ns(at.as_ns() - clock.stood.as_ns())
    }

    /// Waits while it is closed, at most 100 ms, so that a stopped program ends.
    fn wait(&self) {
        if !self.closed.load(Ordering::Acquire) {
            return;
        }
        let mut clock = lock(&self.clock);
        while clock.closed_since.is_some() {
            let waited = self.opened.wait_timeout(clock, Duration::from_millis(100));
            let (again, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            clock = again;
            if timeout.timed_out() {
                return;
            }
        }
    }
}

/// One answered request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// Whose it was.
    pub client: u32,
    /// When it was sent.
    pub sent: Instant,
    /// When it was answered.
    pub at: Instant,
    /// How long it took in virtual time.
    pub latency: Span,
    /// How long it took on the wall, pauses included.
    pub wall: Span,
}

/// Requests of HTTP with headers of the user's, such as `Accept-Encoding: gzip`.
pub struct Headed {
    inner: Http,
    requests: Vec<Vec<u8>>,
}

impl Headed {
    /// Requests to `host`, each written as `[METHOD ]PATH[ BODY]`, with `headers` as `Name: value`.
    /// A `Host` among them replaces that of the address.
    ///
    /// # Errors
    /// A sentence about the request or header that cannot be sent.
    pub fn new(host: &str, headers: &[String], requests: &[String]) -> Result<Headed, String> {
        let (mut host, mut lines) = (host.to_string(), String::new());
        for header in headers {
            let (name, value) = header.split_once(':').unwrap_or((header, ""));
            let token = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            if name.is_empty() || !name.chars().all(token) || value.chars().any(char::is_control) {
                return Err(format!("`{header}` is no header: write `Name: value`"));
            }
            if value.trim().is_empty() {
                return Err(format!("`{header}` has no value: write `Name: value`"));
            }
            if name.eq_ignore_ascii_case("host") {
                host = value.trim().to_string();
            } else if ["content-length", "transfer-encoding", "connection"]
                .contains(&name.to_ascii_lowercase().as_str())
            {
                return Err(format!("`{name}` is set by the clients themselves: leave it out"));
            } else {
                lines.push_str(&format!("{name}: {}\r\n", value.trim()));
            }
        }
        let inner = Http::new(&host, requests)?;
        let with = |kind: usize| {
            let plain = inner.request(kind as u16);
            let first = plain.windows(2).position(|two| two == b"\r\n").map_or(0, |at| at + 2);
            [&plain[..first], lines.as_bytes(), &plain[first..]].concat()
        };
        let requests = (0..requests.len()).map(with).collect();
        Ok(Headed { inner, requests })
    }
}

impl Protocol for Headed {
    fn request(&self, kind: u16) -> &[u8] {
        self.requests.get(usize::from(kind)).map_or(&[], Vec::as_slice)
    }

    fn reply(&self, kind: u16, bytes: &[u8]) -> Reply {
        self.inner.reply(kind, bytes)
    }

    fn complaint(&self, bytes: &[u8]) -> String {
        self.inner.complaint(bytes)
    }
}

/// What to send, to whom.
pub struct Load {
    /// The server.
    pub address: SocketAddr,
    /// Clients, each with a connection of its own.
    pub clients: u32,
    /// Types of requests, which each client asks in turn.
    pub types: u16,
    /// Requests arrive so often in each second of the clients' clock, at random (a Poisson
    /// process); `None` for closed clients.
    pub rate_per_s: Option<f64>,
    /// Closed clients think for so long on average before each request but the first, on their
    /// clock, with exponential times.
    pub think: Option<Span>,
    /// How they are written and read.
    pub protocol: Box<dyn Protocol>,
}

/// Clients at work, until they are dropped.
#[derive(Debug)]
pub struct Clients {
    gate: Arc<Gate>,
    shared: Arc<Shared>,
    is_open: bool,
    thinks: bool,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    failed: AtomicU64,
    complaint: Mutex<Option<String>>,
    samples: Mutex<Vec<Sample>>,
    /// Which kinds of requests visit a target; all when nothing is said.
    visiting: OnceLock<Vec<bool>>,
}

impl Clients {
    /// Connects all clients and lets them begin.
    ///
    /// # Errors
    /// A sentence, when one cannot connect.
    pub fn start(load: Load) -> Result<Clients, String> {
        let gate = Arc::new(Gate::default());
        let shared = Arc::new(Shared::default());
        let failed = |error: io::Error| format!("cannot start clients: {error}");
        let poll = Poll::new().map_err(failed)?;
        let mut connections = Vec::new();
        for number in 0..load.clients {
            let stream = connect(load.address).map_err(|error| {
                format!(
                    "client {} of {} cannot connect to {}: {error}; is the service up?",
                    number + 1,
                    load.clients,
                    load.address
                )
            })?;
            let mut connection = Connection::new((number % u32::from(load.types.max(1))) as u16);
            connection.adopt(stream, &poll, number as usize).map_err(failed)?;
            connections.push(connection);
        }
        let open = match load.rate_per_s {
            Some(rate_per_s) => Some(Open::begin(rate_per_s, &gate, &poll).map_err(failed)?),
            None => None,
        };
        let thinking = match (load.think, &open) {
            (Some(mean), None) => Some(Thinking::begin(mean, &poll).map_err(failed)?),
            _ => None,
        };
        let (is_open, thinks) = (open.is_some(), thinking.is_some());
        let at_work = AtWork {
            load,
            poll,
            connections,
            broken: Vec::new(),
            open,
            thinking,
            gate: Arc::clone(&gate),
            shared: Arc::clone(&shared),
        };
        let builder = std::thread::Builder::new().name("clients".to_string());
        let thread = builder.spawn(move || at_work.run()).map_err(failed)?;
        Ok(Clients { gate, shared, is_open, thinks, thread: Some(thread) })
    }

    /// Do requests arrive whatever became of those before?
    pub fn are_open(&self) -> bool {
        self.is_open
    }

    /// Has every client a request under way at all times?
    pub fn are_never_idle(&self) -> bool {
        !self.is_open && !self.thinks
    }

    /// Only requests of these kinds visit the target, by their numbers. It may be said once.
    pub fn count_visits_with(&self, kinds: Vec<bool>) {
        let _ = self.shared.visiting.set(kinds);
    }

    /// What stops them.
    pub fn gate(&self) -> Arc<Gate> {
        Arc::clone(&self.gate)
    }

    /// Requests that failed until now, and what the first of them said.
    pub fn failed(&self) -> (u64, Option<String>) {
        (self.shared.failed.load(Ordering::Relaxed), lock(&self.shared.complaint).clone())
    }

    /// Answers since the last call.
    pub fn take_samples(&self) -> Vec<Sample> {
        std::mem::take(&mut *lock(&self.shared.samples))
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.gate.open(now());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = std::net::TcpStream::connect_timeout(&address, CONNECT)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(TcpStream::from_std(stream))
}

#[derive(Debug)]
struct Connection {
    stream: Option<TcpStream>,
    kind: u16,
    /// What could not be written yet.
    out: Vec<u8>,
    input: Vec<u8>,
    /// Since when its latency counts, on the clients' clock.
    since: Instant,
    /// The same on the wall.
    began: Instant,
    sent: Instant,
}

impl Connection {
    fn new(kind: u16) -> Connection {
        let (stream, out, input) = (None, Vec::new(), Vec::new());
        let [since, began, sent] = [Instant::ZERO; 3];
        Connection { stream, kind, out, input, since, began, sent }
    }

    fn adopt(&mut self, mut stream: TcpStream, poll: &Poll, token: usize) -> io::Result<()> {
        let both = Interest::READABLE | Interest::WRITABLE;
        poll.registry().register(&mut stream, Token(token), both)?;
        self.stream = Some(stream);
        self.out.clear();
        self.input.clear();
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        while let (Some(stream), false) = (&mut self.stream, self.out.is_empty()) {
            match stream.write(&self.out) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => drop(self.out.drain(..written)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads what is there; an error at the end of the stream.
    fn fill(&mut self) -> io::Result<()> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        loop {
            let before = self.input.len();
            self.input.resize(before + READ_BYTES, 0);
            let read = stream.read(&mut self.input[before..]);
            self.input.truncate(before + read.as_ref().map_or(0, |read| *read));
            match read {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Wakes the clients' thread.
#[derive(Debug)]
struct Alarm(OwnedFd);

impl Alarm {
    fn new(poll: &Poll) -> io::Result<Alarm> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK)?;
        poll.registry().register(&mut SourceFd(&timer.as_raw_fd()), TIMER, Interest::READABLE)?;
        Ok(Alarm(timer))
    }

    fn ring_in(&self, span: Span) {
        let ns = span.as_ns().max(1);
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let once =
            Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ };
        let spec = Itimerspec { it_interval: zero, it_value: once };
        // Without a timer clients are late by the time between two looks, 20 ms.
        let _ = timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &spec);
    }
}

/// A time drawn from an exponential distribution.
fn exponential(draws: &mut Stream, mean_s: f64) -> Span {
    // Never the logarithm of zero: the draw is below 1.
    Span::from_ns((-(1.0 - draws.unit()).ln() * mean_s * 1e9) as u64)
}

/// Clients that think between an answer and the next request.
#[derive(Debug)]
struct Thinking {
    mean_s: f64,
    draws: Stream,
    /// Who thinks, and until when on the clients' clock, soonest first.
    until: BinaryHeap<Reverse<(Instant, usize)>>,
    alarm: Alarm,
}

impl Thinking {
    fn begin(mean: Span, poll: &Poll) -> io::Result<Thinking> {
        Ok(Thinking {
            mean_s: mean.as_us() / 1e6,
            draws: Stream::keyed(1, 0, Purpose::Arrivals),
            until: BinaryHeap::new(),
            alarm: Alarm::new(poll)?,
        })
    }

    fn think(&mut self, client: usize, at: Instant) {
        let span = exponential(&mut self.draws, self.mean_s);
        self.until.push(Reverse((at + span, client)));
    }

    /// One who has thought for long enough by `at`.
    fn done(&mut self, at: Instant) -> Option<usize> {
        let Reverse((until, client)) = *self.until.peek()?;
        (until <= at).then(|| {
            self.until.pop();
            client
        })
    }

    fn ring_at_next(&self, at: Instant) {
        if let Some(Reverse((until, _))) = self.until.peek() {
            self.alarm.ring_in(until.since(at));
        }
    }
}

/// Requests that arrive by themselves.
#[derive(Debug)]
struct Open {
    rate_per_s: f64,
    draws: Stream,
    /// When the next one arrives, on the clients' clock.
    due: Instant,
    /// When those arrived that found no connection free.
    waiting: VecDeque<Instant>,
    /// Clients without a request.
    idle: Vec<usize>,
    /// Rings when the next one arrives, unless clients stand by then.
    alarm: Alarm,
}

impl Open {
    fn begin(rate_per_s: f64, gate: &Gate, poll: &Poll) -> io::Result<Open> {
        let mut open = Open {
            rate_per_s,
            draws: Stream::keyed(1, 0, Purpose::Arrivals),
            due: gate.virtual_now(),
            waiting: VecDeque::new(),
            idle: Vec::new(),
            alarm: Alarm::new(poll)?,
        };
        let gap = open.gap();
        open.due += gap;
        Ok(open)
    }

    fn gap(&mut self) -> Span {
        exponential(&mut self.draws, 1.0 / self.rate_per_s)
    }

    /// What has arrived until `at`; how many found no room to wait.
    fn arrive(&mut self, at: Instant) -> u64 {
        let mut lost = 0;
        while self.due <= at {
            if self.waiting.len() < WAITING_MAX {
                self.waiting.push_back(self.due);
            } else {
                lost += 1;
            }
            let gap = self.gap();
            self.due += gap;
        }
        lost
    }

    fn ring_at_next(&self, at: Instant) {
        self.alarm.ring_in(self.due.since(at));
    }
}

struct AtWork {
    load: Load,
    poll: Poll,
    connections: Vec<Connection>,
    /// Clients without a connection.
    broken: Vec<usize>,
    open: Option<Open>,
    thinking: Option<Thinking>,
    gate: Arc<Gate>,
    shared: Arc<Shared>,
}

impl AtWork {
    fn run(mut self) {
        cavy_clock::sharpen_timers();
        let mut events = Events::with_capacity(1024);
        for client in 0..self.connections.len() {
            self.begin(client);
        }
        while !self.shared.stop.load(Ordering::Acquire) {
            let timeout = if self.broken.is_empty() { Duration::from_millis(20) } else { AGAIN };
            let _ = self.poll.poll(&mut events, Some(timeout));
            let ready = events.iter().map(|event| event.token()).filter(|token| *token != TIMER);
            let ready: Vec<usize> = ready.map(|token| token.0).collect();
            for client in ready {
                self.gate.wait();
                self.look(client);
            }
            if !self.broken.is_empty() {
                self.gate.wait();
                self.connect_again();
            }
            self.arrive();
            self.wake();
        }
    }

    /// Clients that have thought send their next requests.
    fn wake(&mut self) {
        if self.thinking.is_none() {
            return;
        }
        self.gate.wait();
        let at = self.gate.virtual_now();
        while let Some(client) = self.thinking.as_mut().and_then(|all| all.done(at)) {
            self.send(client, at);
        }
        if let Some(thinking) = &self.thinking {
            thinking.ring_at_next(at);
        }
    }

    /// Requests that have arrived meanwhile go to clients without one.
    fn arrive(&mut self) {
        if self.open.is_none() {
            return;
        }
        self.gate.wait();
        let at = self.gate.virtual_now();
        let lost = self.open.as_mut().map_or(0, |open| open.arrive(at));
        for _ in 0..lost {
            self.complain("requests arrive faster than they are answered");
        }
        while let Some(open) = &mut self.open
            && !open.idle.is_empty()
            && let Some(arrived) = open.waiting.pop_front()
            && let Some(client) = open.idle.pop()
        {
            self.send(client, arrived);
        }
        if let Some(open) = &mut self.open {
            open.ring_at_next(at);
        }
    }

    /// A client that has its answer thinks, or goes on at once.
    fn turn_to_next(&mut self, client: usize) {
        match &mut self.thinking {
            Some(thinking) => thinking.think(client, self.gate.virtual_now()),
            None => self.begin(client),
        }
    }

    /// A client takes the next request, or waits for one.
    fn begin(&mut self, client: usize) {
        let at = self.gate.virtual_now();
        match &mut self.open {
            None => self.send(client, at),
            Some(open) => match open.waiting.pop_front() {
                Some(arrived) => self.send(client, arrived),
                None => open.idle.push(client),
            },
        }
    }

    /// Sends the next request, whose latency counts from `from` on the clients' clock.
    fn send(&mut self, client: usize, from: Instant) {
        let connection = &mut self.connections[client];
        connection.kind = (connection.kind + 1) % self.load.types.max(1);
        connection.out.extend_from_slice(self.load.protocol.request(connection.kind));
        (connection.since, connection.sent) = (from, now());
        connection.began = self.gate.on_the_wall(from);
        if let Err(error) = connection.flush() {
            self.fail(client, &format!("cannot send: {error}"));
        }
    }

    fn look(&mut self, client: usize) {
        let connection = &mut self.connections[client];
        if connection.stream.is_none() {
            return;
        }
        let read = connection.flush().and_then(|()| connection.fill());
        // An answer may be whole although the server hung up after it.
        let mut closes = read.is_err();
        if !connection.input.is_empty() {
            match self.load.protocol.reply(connection.kind, &connection.input) {
                Reply::Partial => {}
                Reply::Whole { length, outcome, close } => {
                    let reply: Vec<u8> = connection.input.drain(..length).collect();
                    closes |= close;
                    self.ended(outcome, client, &reply);
                    if closes {
                        self.hang_up(client);
                    } else {
                        self.turn_to_next(client);
                    }
                    return;
                }
                Reply::Broken => {
                    let why = self.load.protocol.complaint(&connection.input);
                    self.fail(client, &why);
                    return;
                }
            }
        }
        if let Err(error) = read {
            self.fail(client, &format!("the connection broke: {error}"));
        }
    }

    fn ended(&self, outcome: Outcome, client: usize, reply: &[u8]) {
        if outcome != Outcome::Answered {
            self.complain(&self.load.protocol.complaint(reply));
            return;
        }
        let Connection { since, began, sent, kind, .. } = self.connections[client];
        self.gate.completed.fetch_add(1, Ordering::AcqRel);
        let kinds = self.shared.visiting.get();
        if kinds.is_none_or(|kinds| kinds.get(usize::from(kind)).copied().unwrap_or(false)) {
            self.gate.visits.fetch_add(1, Ordering::AcqRel);
        }
        let (latency, at) = (self.gate.virtual_now().since(since), now());
        let mut samples = lock(&self.shared.samples);
        if samples.len() < SAMPLES_MAX {
            let (client, wall) = (client as u32, at.since(began));
            samples.push(Sample { client, sent, at, latency, wall });
        }
    }

    fn complain(&self, why: &str) {
        self.shared.failed.fetch_add(1, Ordering::Relaxed);
        lock(&self.shared.complaint).get_or_insert_with(|| why.to_string());
    }

    fn fail(&mut self, client: usize, why: &str) {
        self.complain(why);
        self.hang_up(client);
    }

    fn hang_up(&mut self, client: usize) {
        if let Some(mut stream) = self.connections[client].stream.take() {
            let _ = self.poll.registry().deregister(&mut stream);
        }
        self.broken.push(client);
    }

    fn connect_again(&mut self) {
        for client in std::mem::take(&mut self.broken) {
            let adopted = connect(self.load.address)
                .and_then(|stream| self.connections[client].adopt(stream, &self.poll, client));
            match adopted {
                Ok(()) => self.turn_to_next(client),
                Err(error) => {
                    self.complain(&format!("cannot connect: {error}"));
                    self.broken.push(client);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_sent_and_wrong_ones_are_refused() {
        let header = |text: &str| vec![text.to_string()];
        let paths = ["/a".to_string(), "POST /b x".to_string()];
        let both = ["Accept-Encoding: gzip".to_string(), "Host: shop.example".to_string()];
        let headed = Headed::new("127.0.0.1:80", &both, &paths).expect("good headers");
        let sent = String::from_utf8_lossy(headed.request(1)).into_owned();
        assert!(sent.starts_with("POST /b HTTP/1.1\r\nAccept-Encoding: gzip\r\n"), "{sent}");
        assert!(sent.contains("Host: shop.example\r\n") && sent.ends_with("\r\n\r\nx"), "{sent}");
        for wrong in ["", "x", "a b: c", "x:", "x: a\r\ny: b", "Content-Length: 3"] {
            assert!(Headed::new("127.0.0.1:80", &header(wrong), &paths).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn arrivals_are_as_many_as_asked_and_wait_for_connections() {
        let (gate, poll) = (Gate::default(), Poll::new().expect("a poll"));
        let mut open = Open::begin(1_000.0, &gate, &poll).expect("a timer");
        let begun = open.due;
        assert_eq!(open.arrive(begun + Span::from_ms(20_000)), 0);
        let count = open.waiting.len() as f64;
        // 20,000 on average, with a standard deviation of 141.
        assert!((count - 20_000.0).abs() < 600.0, "{count}");
        let ordered = open.waiting.iter().zip(open.waiting.iter().skip(1)).all(|(a, b)| a <= b);
        assert!(ordered && open.due > begun + Span::from_ms(20_000));
        assert!(open.arrive(begun + Span::from_ms(200_000)) > 50_000, "there is an end to waiting");
    }

    #[test]
    fn who_thinks_does_so_for_as_long_as_asked_on_average() {
        let poll = Poll::new().expect("a poll");
        let mut thinking = Thinking::begin(Span::from_ms(20), &poll).expect("a timer");
        let at = Instant::from_ns(1_000_000_000);
        (0..4_000).for_each(|client| thinking.think(client, at));
        assert_eq!(thinking.done(Instant::ZERO), None);
        let by = |thinking: &mut Thinking, ms| {
            let until = at + Span::from_ms(ms);
            std::iter::from_fn(|| thinking.done(until)).count() as f64
        };
        // 63 % within the mean time, with a standard deviation of 31 clients; nearly all in 10 of
        // them.
        let first = by(&mut thinking, 20);
        assert!((first - 4_000.0 * (1.0 - (-1.0_f64).exp())).abs() < 130.0, "{first}");
        assert!(first + by(&mut thinking, 200) >= 3_995.0);
    }

    #[test]
    fn virtual_time_stands_while_the_gate_is_closed() {
        let gate = Gate::default();
        let before = gate.virtual_now();
        gate.close(now());
        let closed = gate.virtual_now();
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(gate.virtual_now(), closed);
        gate.close(now());
        gate.open(now());
        let after = gate.virtual_now();
        assert!(after >= closed && closed >= before);
        assert!(after.since(before) < Span::from_ms(15), "the pause counted");
        // On the wall it did.
        let took = gate.on_the_wall(after).since(gate.on_the_wall(before));
        assert!(took >= Span::from_ms(20), "{took}");
        assert!(gate.on_the_wall(after) <= now());
    }
}
