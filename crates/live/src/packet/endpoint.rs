//! What the threads of an endpoint share: a queue of commands, and the bell for it.

use super::client::{CallError, Done};
use super::driver::{self, Driver};
use super::lag::Lag;
use super::options::{Carrier, Options, Peer};
use super::ports::Held;
use super::protocol::{Counted, Protocol, Refusal};
use super::recording::Recording;
use super::seal::Seal;
use super::server::{Handler, QuestionName};
use crate::clock::Clock;
use crate::record::packet::{Header, Recorder};
use crate::sync::{Arc, Mutex, Ordering, lock};
use bytes::Bytes;
use cavy_core::{Instant, Span};
use rustix::event::{EventfdFlags, eventfd};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, fence};
use std::thread::JoinHandle;

/// Why an endpoint cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A field of the options is out of its range.
    #[error("{field}: {what}")]
    Option {
        /// Which.
        field: &'static str,
        /// What it must be.
        what: String,
    },
    /// The socket cannot be opened or bound.
    #[error("cannot open a socket at {at}: {source}{hint}")]
    Socket {
        /// The address.
        at: SocketAddr,
        /// What may help.
        hint: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The recording cannot be begun.
    #[error("cannot record to {path}: {source}")]
    Record {
        /// The file.
        path: std::path::PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The system gives no random numbers, no events or no thread.
    #[error("cannot start an endpoint: {0}")]
    System(#[from] std::io::Error),
}

/// What other threads want of the endpoint's own.
pub(crate) enum Command {
    Call { id: u64, to: Peer, bytes: Bytes, until: Instant, done: Done },
    Cancel { id: u64 },
    Answer { question: QuestionName, answer: Result<Bytes, Refusal> },
    Close { until: Instant },
}

/// What other threads want, in order.
#[derive(Default)]
struct Queue {
    commands: Vec<Command>,
    /// When the first of them came, where lag is measured.
    since: Option<Instant>,
}

/// What the threads share.
pub(crate) struct Shared {
    queue: Mutex<Queue>,
    /// Nothing more is taken.
    closed: AtomicBool,
    asleep: AtomicBool,
    event: OwnedFd,
    next_id: AtomicU64,
    pub(crate) clock: Clock,
    pub(crate) recording: Mutex<Recording>,
    /// How late the endpoint's thread is; `None` when nobody asks.
    pub(crate) lag: Option<Mutex<Lag>>,
    pub(crate) deadline: Span,
    pub(crate) at: SocketAddr,
}

impl Shared {
    /// Of an endpoint at `at`, whose names of exchanges begin at a random number.
    pub(crate) fn new(deadline: Span, at: SocketAddr, random: u64) -> std::io::Result<Shared> {
        Ok(Shared {
            queue: Mutex::new(Queue::default()),
            closed: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            event: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
            // Nobody who has not seen a packet can name an exchange; nor does a restarted process
            // use the names of the one before. The topmost bits are left for counting up.
            next_id: AtomicU64::new((random >> 2) & !1),
            clock: Clock::start(),
            recording: Mutex::new(Recording::Off),
            lag: None,
            deadline,
            at,
        })
    }

    /// How late the endpoint's thread has been so far, if that is measured.
    pub(crate) fn lag(&self) -> Option<Lag> {
        self.lag.as_ref().map(|lag| lock(lag).clone())
    }

    /// A name for a question: even, and never used before.
    pub(crate) fn name(&self) -> u64 {
        self.next_id.fetch_add(2, Ordering::Relaxed)
    }

    /// Queues a command. One that comes after the end is given back.
    pub(crate) fn send(&self, command: Command) -> Result<(), Command> {
        {
            let mut queue = lock(&self.queue);
            if self.closed.load(Ordering::Relaxed) {
                return Err(command);
            }
            if self.lag.is_some() && queue.commands.is_empty() {
                queue.since = Some(self.clock.now());
            }
            queue.commands.push(command);
        }
        // Orders "queue, ask whether it sleeps" against "say that it sleeps, look": at least one of
        // the two threads sees the other.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            // A counter of 64 bits has room.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
        Ok(())
    }

    /// Takes all commands, in order; when the first of them came, where lag is measured.
    pub(crate) fn take(&self, into: &mut Vec<Command>) -> Option<Instant> {
        let mut queue = lock(&self.queue);
        into.append(&mut queue.commands);
        queue.since.take()
    }

    /// Says that the endpoint's thread goes to sleep; false when there are commands.
    pub(crate) fn doze(&self) -> bool {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        lock(&self.queue).commands.is_empty()
    }

    /// Says that it is awake.
    pub(crate) fn wake(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Empties the bell.
    pub(crate) fn quiet(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.event, &mut count);
    }

    pub(crate) fn event(&self) -> &OwnedFd {
        &self.event
    }

    /// Takes nothing more; what was queued comes back.
    pub(crate) fn close(&self) -> Vec<Command> {
        let mut queue = lock(&self.queue);
        self.closed.store(true, Ordering::Relaxed);
        std::mem::take(&mut queue.commands)
    }
}

/// Keeps the endpoint's thread running; ends it when the last owner goes.
pub(crate) struct Endpoint {
    pub(crate) shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Its ports, where the host's endpoints must not share them.
    _held: Held,
}

impl Endpoint {
    /// The endpoint, and what it counts.
    pub(crate) fn open<P: Protocol>(
        options: &Options<P>,
        handler: Option<Handler>,
    ) -> Result<(Arc<Endpoint>, Counted<P>), OpenError> {
        options.check().map_err(|(field, what)| OpenError::Option { field, what })?;
        let mut random = [0; 24];
        let flags = rustix::rand::GetRandomFlags::empty();
        rustix::rand::getrandom(&mut random[..], flags).map_err(std::io::Error::from)?;
        let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, &b| sum << 8 | u64::from(b));
        let [name, seed, port] = [0, 8, 16].map(|at| number(&random[at..at + 8]));
        let mut options = P::settled(options);
        let held = super::ports::take(&mut options, handler.is_some(), port);
        let held = held.map_err(|source| OpenError::Socket {
            at: options.bind,
            hint: "; each raw endpoint of a host needs ports of its own",
            source,
        })?;
        let options = &options;
        let wire = super::carrier::Wire::open(options).and_then(|wire| {
            let at = wire.local_address()?;
            Ok((wire, at))
        });
        let (wire, at) = wire.map_err(|source| OpenError::Socket {
            at: options.bind,
            hint: match (options.carrier, source.kind()) {
                (Carrier::Raw, std::io::ErrorKind::PermissionDenied) => {
                    "; raw IP needs the right CAP_NET_RAW, UDP needs none"
                }
                (_, std::io::ErrorKind::AddrInUse) => "; port 0 takes any that is free",
                _ => "",
            },
            source,
        })?;
        let mut shared = Shared::new(options.deadline, at, name)?;
        shared.lag = options.measure_lag.then(|| Mutex::new(Lag::new()));
        let shared = Arc::new(shared);
        let seal = options.key.as_ref().map(|key| {
            let seal = Seal::new(key, options.config.terms().peers);
            seal.ok_or_else(|| std::io::Error::other("no random numbers"))
        });
        let recorder = options.record.as_ref().map(|path| {
            let header = Header::new(&options.config, seed);
            let failed = |source| OpenError::Record { path: path.clone(), source };
            Recorder::create(path, &header).map_err(failed)
        });
        let recorder = recorder.transpose()?;
        let driver = Driver::new(options, wire, handler, shared.clone(), seed, recorder)
            .map_err(|what| OpenError::Option { field: "config", what })?;
        let driver = driver.with_seal(seal.transpose()?);
        let thread = std::thread::Builder::new().name(format!("{}-{}", P::MACHINE, at.port()));
        let counters = driver.counters();
        let thread = thread.spawn(move || driver::run(driver))?;
        let endpoint = Endpoint { shared, thread: Mutex::new(Some(thread)), _held: held };
        Ok((Arc::new(endpoint), counters))
    }

    /// Ends the endpoint: at once, or when all that is under way is over, at most after `patience`.
    /// Returns when its thread has ended.
    pub(crate) fn close(&self, patience: Span) {
        let until = self.shared.clock.now() + patience;
        let _ = self.shared.send(Command::Close { until });
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            // It does not panic; a handler that does is caught.
            let _ = thread.join();
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.close(Span::ZERO);
    }
}

/// Ends what a command asked for when nobody will carry it out.
pub(crate) fn refuse(command: Command) {
    if let Command::Call { done, .. } = command {
        done.end(Err(CallError::Closed));
    }
}
