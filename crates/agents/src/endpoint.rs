//! An agent that runs: a thread, a socket, a file.

use crate::carrier::{Carrier, Got, own_addresses, until};
use crate::kept;
use crate::options::Options;
use crate::wire::Told;
use crate::world::{Counters, Measured, World};
use cavy_coords::agent::{Answer, Ignored, Kept};
use cavy_coords::wire::Rtt;
use cavy_core::Instant;
use cavy_core::family::message::{Call, Entry};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

/// Datagrams that are received before any is sent.
const BATCH: usize = 64;
/// Measurements that wait for somebody to read them; beyond that the oldest stay and new ones are
/// counted as dropped.
const MEASUREMENTS_MAX: usize = 4_096;

/// Why an agent did not start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// An option cannot be.
    #[error("{0}")]
    Option(String),
    /// The socket could not be opened.
    #[error("cannot listen on {0}: {1}")]
    Socket(SocketAddr, io::Error),
    /// The file of the coordinate cannot be read.
    #[error("cannot read {0}: {1}")]
    Kept(String, io::Error),
    /// The system gave no thread, or no random numbers.
    #[error("cannot start: {0}")]
    System(io::Error),
}

/// The agent has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the agent has ended")]
pub struct Ended;

/// Where an agent is and how it is doing.
#[derive(Clone, PartialEq, Debug)]
pub struct Status {
    /// Degrees, once it has a place.
    pub place: Option<(f64, f64)>,
    /// Milliseconds.
    pub height_ms: Option<f64>,
    /// Relative.
    pub error: Option<f64>,
    /// How often it was moved.
    pub updates: u32,
    /// Peers whose address is known.
    pub peers: usize,
    /// What was counted around the machine.
    pub counters: Counters,
    /// What the machine did not take.
    pub ignored: Ignored,
    /// Why the coordinate was not stored the last time, if it was not.
    pub not_stored: Option<String>,
    /// Measurements that nobody read in time.
    pub unread: u64,
}

enum Order {
    Probe(SocketAddr, SyncSender<Option<Rtt>>),
    Predict(SocketAddr, SyncSender<Option<f64>>),
    Told(SocketAddr, SyncSender<Option<Told>>),
    Status(SyncSender<Status>),
    Stop,
}

/// A running agent. It ends when this is dropped.
///
/// ```no_run
/// use cavy_agents::{Agent, Options};
///
/// let options = Options::new("0.0.0.0:7946".parse()?)
///     .at(51.5, -0.1)
///     .seeds(["192.0.2.7:7946".parse()?]);
/// let agent = Agent::start(&options)?;
/// let peer = "192.0.2.7:7946".parse()?;
/// println!("measured {:?} ms", agent.probe(peer)?);
/// println!("predicted {:?} ms", agent.predict(peer)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Agent {
    address: SocketAddr,
    orders: Sender<Order>,
    bell: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    measured: Receiver<Measured>,
}

impl Agent {
    /// Opens the socket, takes up what was kept of the coordinate, and begins to probe.
    ///
    /// # Errors
    /// When an option cannot be, or the system refuses socket, file or thread. A file that is torn
    /// is no error.
    pub fn start(options: &Options) -> Result<Agent, OpenError> {
        if let Some(wrong) = options.wrong() {
            return Err(OpenError::Option(wrong));
        }
        let kept = match &options.kept {
            Some(path) => kept::load(path, options.space)
                .map_err(|error| OpenError::Kept(path.display().to_string(), error))?,
            None => None,
        };
        let failed = |error| OpenError::Socket(options.bind, error);
        let carrier = Carrier::open(options.bind).map_err(failed)?;
        let address = carrier.local_address().map_err(failed)?;
        let mut secret = [0; 32];
        let flags = rustix::rand::GetRandomFlags::empty();
        let drawn = rustix::rand::getrandom(&mut secret[..], flags);
        let system = |error: rustix::io::Errno| OpenError::System(error.into());
        if drawn.map_err(system)? < secret.len() {
            return Err(OpenError::System(io::Error::other("no random numbers")));
        }
        let now = cavy_clock::now();
        let world = World::new(options, address.port(), own_addresses(), &secret, kept, now);
        let world =
            world.ok_or_else(|| OpenError::System(io::Error::other("no random numbers")))?;
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(system)?;
        let bell = Arc::new(bell);
        let (orders, received) = channel();
        let (measured, measurements) = sync_channel(MEASUREMENTS_MAX);
        let driver = Driver {
            options: options.clone(),
            world,
            carrier,
            orders: received,
            bell: Arc::clone(&bell),
            measured,
            calls: BTreeMap::new(),
            next_call: 0,
            not_stored: None,
            unread: 0,
        };
        let thread = std::thread::Builder::new().name("agent".to_string());
        let thread = thread.spawn(|| driver.run()).map_err(OpenError::System)?;
        Ok(Agent { address, orders, bell, thread: Some(thread), measured: measurements })
    }

    /// Where it listens.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    fn ask<T>(&self, order: impl FnOnce(SyncSender<T>) -> Order) -> Result<T, Ended> {
        let (to, answer) = sync_channel(1);
        self.tell(order(to))?;
        answer.recv().map_err(|_| Ended)
    }

    fn tell(&self, order: Order) -> Result<(), Ended> {
        self.orders.send(order).map_err(|_| Ended)?;
        let _ = rustix::io::write(&*self.bell, &1_u64.to_ne_bytes());
        Ok(())
    }

    /// Measures the round trip to `peer` now, milliseconds; `None` when too little came back.
    ///
    /// # Errors
    /// When the agent has ended.
    pub fn probe(&self, peer: SocketAddr) -> Result<Option<f64>, Ended> {
        Ok(self.ask(|to| Order::Probe(peer, to))?.map(Rtt::ms))
    }

    /// How long a round trip to `peer` will take, milliseconds, without asking it: as measured in
    /// the last hour, else by its coordinate. `None` when neither is known.
    ///
    /// # Errors
    /// When the agent has ended.
    pub fn predict(&self, peer: SocketAddr) -> Result<Option<f64>, Ended> {
        self.ask(|to| Order::Predict(peer, to))
    }

    /// What `peer` last told of itself: coordinate, and how it is reached.
    ///
    /// # Errors
    /// When the agent has ended.
    pub fn told(&self, peer: SocketAddr) -> Result<Option<Told>, Ended> {
        self.ask(|to| Order::Told(peer, to))
    }

    /// How it is doing.
    ///
    /// # Errors
    /// When the agent has ended.
    pub fn status(&self) -> Result<Status, Ended> {
        self.ask(Order::Status)
    }

    /// The round trips that it measures, as they come.
    pub fn measurements(&self) -> &Receiver<Measured> {
        &self.measured
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.tell(Order::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread's own.
struct Driver {
    options: Options,
    world: World,
    carrier: Carrier,
    orders: Receiver<Order>,
    bell: Arc<OwnedFd>,
    measured: SyncSender<Measured>,
    calls: BTreeMap<u64, SyncSender<Option<Rtt>>>,
    next_call: u64,
    not_stored: Option<String>,
    unread: u64,
}

impl Driver {
    fn run(mut self) {
        loop {
            let more = self.receive();
            self.world.expire(cavy_clock::now());
            if !self.obey() {
                return;
            }
            // Each datagram is made when it is sent: its stamp is as old as the call of the system.
            while let Some(packet) = self.world.pull(cavy_clock::now()) {
                self.carrier.send(packet.to, &packet.bytes);
            }
            self.settle();
            if !more {
                self.sleep();
            }
        }
    }

    /// Takes in what has come; whether there may be more.
    fn receive(&mut self) -> bool {
        for _ in 0..BATCH {
            match self.carrier.receive() {
                Got::Datagram(came) => {
                    let now = cavy_clock::now();
                    let arrived = came.arrived.min(now);
                    let bytes = &mut self.carrier.buffer[..came.length];
                    self.world.on_datagram(came.from, bytes, arrived, now);
                }
                Got::Dropped => self.world.counters.malformed += 1,
                Got::Nothing => {
                    self.carrier.settle();
                    return false;
                }
            }
        }
        true
    }

    /// Does what others ask; false at the end.
    fn obey(&mut self) -> bool {
        while let Ok(order) = self.orders.try_recv() {
            let now = cavy_clock::now();
            match order {
                Order::Probe(at, answer) => {
                    self.next_call += 1;
                    self.calls.insert(self.next_call, answer);
                    self.world.probe(Call(self.next_call), at, now);
                }
                // Whoever asked may be gone.
                Order::Predict(at, answer) => {
                    let _ = answer.send(self.world.predict_ms(at, now));
                }
                Order::Told(at, answer) => {
                    let _ = answer.send(self.world.told(at));
                }
                Order::Status(answer) => {
                    let _ = answer.send(self.status());
                }
                Order::Stop => return false,
            }
        }
        true
    }

    fn status(&self) -> Status {
        let agent = self.world.agent();
        let own = agent.coordinate();
        Status {
            place: own.map(|own| own.position.degrees()),
            height_ms: own.map(|own| own.height_ms),
            error: own.map(|own| own.error),
            updates: agent.updates(),
            peers: self.world.peers(),
            counters: self.world.counters,
            ignored: agent.ignored(),
            not_stored: self.not_stored.clone(),
            unread: self.unread,
        }
    }

    /// Hands out answers and measurements, and stores the coordinate.
    fn settle(&mut self) {
        while let Some((Call(call), answer)) = self.world.take_answer() {
            if let (Some(to), Answer::Measured(rtt)) = (self.calls.remove(&call), answer) {
                let _ = to.send(rtt);
            }
        }
        while let Some(measured) = self.world.take_measured() {
            if self.measured.try_send(measured).is_err() {
                self.unread += 1;
            }
        }
        if let Some((entry, kept)) = self.world.take_kept() {
            self.store(entry, &kept);
        }
    }

    fn store(&mut self, entry: Entry, kept: &Kept) {
        let Some(path) = &self.options.kept else {
            return self.world.stored(entry, cavy_clock::now());
        };
        match kept::store(path, self.options.space, kept) {
            Ok(()) => {
                self.not_stored = None;
                self.world.stored(entry, cavy_clock::now());
            }
            // A full disk is no reason to stop probing; the next coordinate is tried again.
            Err(error) => {
                self.not_stored = Some(format!("cannot write {}: {error}", path.display()));
            }
        }
    }

    fn sleep(&mut self) {
        let next: Option<Instant> = self.world.next_time();
        let timeout = until(next).map(|span| Timespec {
            tv_sec: (span.as_ns() / 1_000_000_000) as i64,
            tv_nsec: (span.as_ns() % 1_000_000_000) as i64,
        });
        let socket = self.carrier.as_fd();
        let mut fds = [
            PollFd::from_borrowed_fd(socket, PollFlags::IN),
            PollFd::new(&*self.bell, PollFlags::IN),
        ];
        // Interrupted or not, the loop looks at everything.
        let _ = poll(&mut fds, timeout.as_ref());
        let rung = !fds[1].revents().is_empty();
        if rung {
            let _ = rustix::io::read(&*self.bell, &mut [0; 8]);
        }
    }
}
