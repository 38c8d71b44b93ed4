//! A stack and its thread.

use crate::engine::Engine;
use crate::metrics::Metrics;
use crate::stream::{Listener, Stream};
use crate::{Error, Options};
use cavy_clock::{self as clock, Wait};
use cavy_core::Span;
use parking_lot::Mutex;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, read, write};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Packets taken before timers and applications have their turn.
const BATCH: usize = 64;
/// The longest packet of IPv4.
const PACKET_MAX_BYTES: usize = 65_535;
/// How lateness of timers is measured at the start.
const TRIES: usize = 40;
const TRY: Span = Span::from_us(200);
/// What is measured on a machine that is busy just then must not decide for hours.
const LATE_MAX: Span = Span::from_ms(2);

pub(crate) struct Shared {
    pub engine: Mutex<Engine>,
    bell: OwnedFd,
}

/// The TCP of a prefix. When it is dropped its connections are reset and the device goes.
pub struct Stack {
    shared: Arc<Shared>,
    first: Ipv4Addr,
    thread: Option<JoinHandle<()>>,
}

/// How late a sleeping thread is woken here: the 95th percentile of a few tries, at most 2 ms.
pub fn timers_are_late() -> Span {
    clock::sharpen_timers();
    let once = |_| {
        let due = clock::now() + TRY;
        Wait::Sleep.until(due).since(due)
    };
    let mut all: Vec<Span> = (0..TRIES).map(once).collect();
    all.sort();
    all[TRIES * 95 / 100].min(LATE_MAX)
}

impl Stack {
    /// Makes the device and starts the thread that serves it.
    ///
    /// # Errors
    /// Without the right to make a device, where the prefix is in use, or when a value of the
    /// options is out of its range.
    pub fn open(options: Options) -> Result<Stack, Error> {
        let late = timers_are_late();
        let first = options.prefix.hosts().find(|&address| address != options.kernel);
        let first = first.ok_or_else(|| {
            let message = format!("{} has no address besides the kernel's", options.prefix);
            Error::new(message, "take a longer prefix, such as a /24")
        })?;
        let go_first = options.go_first;
        let engine = Engine::new(options, late)?;
        let broken = |error: io::Error| {
            Error::of("cannot start the stack", error, "are file descriptors exhausted?")
        };
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
        let bell = bell.map_err(|error| broken(error.into()))?;
        let shared = Arc::new(Shared { engine: Mutex::new(engine), bell });
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("tcp".to_string()).spawn(move || {
            if go_first {
                clock::go_first();
            }
            clock::sharpen_timers();
            if drive(&of_thread).is_err() {
                of_thread.engine.lock().stop(io::ErrorKind::NetworkDown);
            }
        });
        let thread = thread.map_err(broken)?;
        Ok(Stack { shared, first, thread: Some(thread) })
    }

    /// The first address of the prefix that is not the kernel's.
    pub fn first_address(&self) -> Ipv4Addr {
        self.first
    }

    /// The device's name.
    ///
    /// # Errors
    /// When it is gone.
    pub fn device(&self) -> io::Result<String> {
        let device = Arc::clone(&self.shared.engine.lock().device);
        device.name()
    }

    /// Opens a port: of one address, or of all with `0.0.0.0`. At most `backlog` connections of an
    /// address are half open; one more takes the place of the oldest of them. While as many wait to
    /// be accepted, nobody else is heard; who asks repeats it in a second.
    ///
    /// # Errors
    /// When the address is not of the prefix, or the port is taken.
    pub fn bind(&self, at: SocketAddrV4, backlog: u16) -> io::Result<Listener> {
        let door = self.shared.engine.lock().bind(at, backlog)?;
        Ok(Listener::new(Arc::clone(&self.shared), door, at))
    }

    /// Opens a connection from the first address, and waits until it is open.
    ///
    /// # Errors
    /// When nobody listens there, or nobody answers.
    pub fn connect(&self, to: SocketAddrV4) -> io::Result<Stream> {
        self.connect_from(self.first, to, None)
    }

    /// The same from an address of one's choice, and for so long at most.
    ///
    /// # Errors
    /// As [`Stack::connect`], and when it takes longer.
    pub fn connect_from(
        &self,
        from: Ipv4Addr,
        to: SocketAddrV4,
        timeout: Option<Duration>,
    ) -> io::Result<Stream> {
        let stream = self.start(from, to)?;
        stream.wait_until_open(timeout)?;
        Ok(stream)
    }

    /// Begins to open a connection.
    pub(crate) fn start(&self, from: Ipv4Addr, to: SocketAddrV4) -> io::Result<Stream> {
        let mut engine = self.shared.engine.lock();
        let (host, name) = engine.connect(from, to)?;
        let ends = engine.ends(host, name);
        drop(engine);
        let (local, peer, bell) = ends.ok_or(io::ErrorKind::ConnectionRefused)?;
        Ok(Stream::new(Arc::clone(&self.shared), (host, name), (local, peer), bell))
    }

    /// What happened so far.
    pub fn metrics(&self) -> Metrics {
        let engine = self.shared.engine.lock();
        engine.tally.metrics(&engine.counts(), engine.addresses(), engine.live())
    }

    /// Waits until all that was written is acknowledged, at most for so long; true when it is.
    pub fn flush(&self, most: Duration) -> bool {
        let most = Span::from_ns(u64::try_from(most.as_nanos()).unwrap_or(u64::MAX));
        let until = clock::now() + most;
        loop {
            if self.shared.engine.lock().unfinished() == 0 {
                return true;
            }
            if clock::now() >= until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        self.shared.engine.lock().stop(io::ErrorKind::ConnectionAborted);
        let _ = write(&self.shared.bell, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Takes packets and runs timers until the stack is stopped or the device is gone.
fn drive(shared: &Shared) -> io::Result<()> {
    let (device, timer) = {
        let engine = shared.engine.lock();
        (Arc::clone(&engine.device), Arc::clone(&engine.timer))
    };
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let add = |fd: std::os::fd::BorrowedFd<'_>, number| {
        epoll::add(&epoll, fd, EventData::new_u64(number), EventFlags::IN)
    };
    add(shared.bell.as_fd(), 0)?;
    add(timer.as_fd(), 1)?;
    add(device.as_fd(), 2)?;
    let mut events = Vec::with_capacity(4);
    let mut packet = vec![0; PACKET_MAX_BYTES];
    loop {
        events.clear();
        match epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut engine = shared.engine.lock();
        if engine.stopped.is_some() {
            return Ok(());
        }
        if events.iter().any(|event| event.data.u64() == 1) {
            let _ = read(&*timer, &mut [0_u8; 8]);
            engine.rang();
        }
        for _ in 0..BATCH {
            match read(&*device, &mut packet[..]) {
                Ok(length) => engine.arrives(&packet[..length]),
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(error) => return Err(error.into()),
            }
        }
        engine.settle();
    }
}
