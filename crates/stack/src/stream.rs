//! Connections and ports, as `std::io` knows them.

use crate::stack::Shared;
use cavy_clock as clock;
use cavy_core::family::stream::Connection as Name;
use cavy_core::{Instant, Span};
use cavy_tcp::Facts;
use parking_lot::{Condvar, MutexGuard};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A connection. Dropping it closes it: what was written still goes, and a peer that sends what
/// nobody will read is reset.
pub struct Stream {
    pub(crate) shared: Arc<Shared>,
    pub(crate) host: u32,
    pub(crate) name: Name,
    local: SocketAddrV4,
    peer: SocketAddrV4,
    bell: Arc<Condvar>,
    /// In nanoseconds; zero for none.
    timeout: AtomicU64,
}

impl Stream {
    pub(crate) fn new(
        shared: Arc<Shared>,
        (host, name): (u32, Name),
        (local, peer): (SocketAddrV4, SocketAddrV4),
        bell: Arc<Condvar>,
    ) -> Stream {
        Stream { shared, host, name, local, peer, bell, timeout: AtomicU64::new(0) }
    }

    /// This side's address.
    pub fn local_addr(&self) -> SocketAddrV4 {
        self.local
    }

    /// The other side's.
    pub fn peer_addr(&self) -> SocketAddrV4 {
        self.peer
    }

    /// How long a read or a write waits before it fails with [`io::ErrorKind::TimedOut`]; for ever
    /// without.
    pub fn set_timeout(&self, timeout: Option<Duration>) {
        let ns = timeout.map_or(0, |one| u64::try_from(one.as_nanos()).unwrap_or(u64::MAX).max(1));
        self.timeout.store(ns, Ordering::Relaxed);
    }

    /// How it stands; `None` when it is over.
    pub fn facts(&self) -> Option<Facts> {
        self.shared.engine.lock().facts(self.host, self.name)
    }

    /// With a schedule: all of the answer is here, so that the next server has its turn at once.
    pub fn answered(&self) {
        let mut engine = self.shared.engine.lock();
        engine.tick();
        engine.answered(self.host, self.name);
        engine.settle();
    }

    /// Writes no more, reads no more, or both.
    pub fn shutdown(&self, how: Shutdown) {
        let mut engine = self.shared.engine.lock();
        if how != Shutdown::Read {
            engine.shut(self.host, self.name);
        }
        if how != Shutdown::Write {
            engine.deafen(self.host, self.name);
        }
    }

    /// Ends it now: the peer is reset, and what it has not read is lost.
    pub fn abort(self) {
        self.shared.engine.lock().abandon(self.host, self.name, true);
    }

    fn until(&self, timeout: Option<Duration>) -> Option<Instant> {
        let own = match self.timeout.load(Ordering::Relaxed) {
            0 => None,
            ns => Some(ns),
        };
        let ns = timeout.map(|one| u64::try_from(one.as_nanos()).unwrap_or(u64::MAX)).or(own)?;
        Some(clock::now() + Span::from_ns(ns.min(u64::MAX / 4)))
    }

    fn wait(
        &self,
        engine: &mut MutexGuard<'_, crate::engine::Engine>,
        until: Option<Instant>,
    ) -> io::Result<()> {
        let Some(until) = until else {
            self.bell.wait(engine);
            return Ok(());
        };
        let now = clock::now();
        if now >= until {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the peer took too long"));
        }
        self.bell.wait_for(engine, Duration::from_nanos(until.since(now).as_ns()));
        Ok(())
    }

    pub(crate) fn wait_until_open(&self, timeout: Option<Duration>) -> io::Result<()> {
        let until = self.until(timeout);
        let mut engine = self.shared.engine.lock();
        loop {
            if let Some(done) = engine.is_open(self.host, self.name) {
                return done;
            }
            self.wait(&mut engine, until)?;
        }
    }
}

impl Read for &Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let until = self.until(None);
        let mut engine = self.shared.engine.lock();
        loop {
            if let Some(done) = engine.read(self.host, self.name, into) {
                return done;
            }
            self.wait(&mut engine, until)?;
        }
    }
}

impl Write for &Stream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let until = self.until(None);
        let mut engine = self.shared.engine.lock();
        loop {
            if let Some(done) = engine.write(self.host, self.name, from) {
                return done;
            }
            self.wait(&mut engine, until)?;
        }
    }

    /// What is written is on its way already.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (&*self).read(into)
    }
}

impl Write for Stream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        (&*self).write(from)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.shared.engine.lock().abandon(self.host, self.name, false);
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({} to {})", self.local, self.peer)
    }
}

/// An open port. Dropping it closes the port and resets connections that nobody accepted.
pub struct Listener {
    pub(crate) shared: Arc<Shared>,
    pub(crate) door: usize,
    at: SocketAddrV4,
}

impl Listener {
    pub(crate) fn new(shared: Arc<Shared>, door: usize, at: SocketAddrV4) -> Listener {
        Listener { shared, door, at }
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddrV4 {
        self.at
    }

    /// The next connection, and who opened it.
    ///
    /// # Errors
    /// When the stack has ended.
    pub fn accept(&self) -> io::Result<(Stream, SocketAddrV4)> {
        let mut engine = self.shared.engine.lock();
        loop {
            if let Some(done) = self.take(&mut engine) {
                return done;
            }
            let bell = Arc::clone(&engine.door(self.door).bell);
            bell.wait(&mut engine);
        }
    }

    /// A connection that waits; `None` when there is none.
    pub(crate) fn take(
        &self,
        engine: &mut crate::engine::Engine,
    ) -> Option<io::Result<(Stream, SocketAddrV4)>> {
        if let Some(end) = engine.end() {
            return Some(Err(end));
        }
        while let Some((host, name)) = engine.accept(self.door) {
            if let Some((local, peer, bell)) = engine.ends(host, name) {
                let shared = Arc::clone(&self.shared);
                let stream = Stream::new(shared, (host, name), (local, peer), bell);
                return Some(Ok((stream, peer)));
            }
        }
        None
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.shared.engine.lock().unbind(self.door);
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Listener({})", self.at)
    }
}
