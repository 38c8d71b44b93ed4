//! The loop of an endpoint's thread: what came in, what is due, what may go out, and sleep.
//!
//! Packets are pulled one by one, as late as possible, and handed to the system. Nothing is decided
//! here about who sends what when: that is the machine's, whose world is the `engine`.

use super::carrier::{BATCH, Heads, Outgoing, Unsent, Wire};
use super::endpoint::{Command, Shared};
use super::engine::{Engine, StepOf};
use super::options::{Options, Polling};
use super::protocol::{Counted, Protocol};
use super::seal::Seal;
use super::server::Handler;
use crate::record::packet::Recorder;
use crate::sync::{Arc, lock};
use cavy_core::{Instant, Span};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::num::NonZeroU64;

/// Batches sent before the thread looks for packets that came in.
const SEND_BATCHES: usize = 2;

/// The machine and its socket.
pub(crate) struct Driver<P: Protocol> {
    engine: Engine<P>,
    wire: Wire,
    /// Packets that were pulled and are to be sent, in order.
    outgoing: Vec<Outgoing>,
    commands: Vec<Command>,
    polling: Polling,
    /// The socket was empty, and nothing waits to be sent.
    settled: bool,
    /// There may be packets in the socket: false when the system has just said that there are none.
    readable: bool,
}

/// Runs an endpoint to its end.
pub(crate) fn run<P: Protocol>(mut driver: Driver<P>) {
    // The default would add 50 us to each timer. Without it timers are late, no more.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let mut heads = Heads::new();
    let mut busy_at = driver.engine.now();
    let mut rounds = 0_u32;
    loop {
        let called = driver.obey();
        let mut spoke = driver.receive(&mut heads);
        let looked_at = driver.note_look(called.flatten());
        let expired = driver.engine.expire(driver.settled);
        let mut works = called.is_some();
        while driver.engine.hand_out() {
            works = true;
            driver.obey();
        }
        let sent_before = driver.engine.counters.packets_sent;
        spoke |= driver.transmit(&mut heads) | works;
        if works && driver.engine.counters.packets_sent == sent_before + 1 {
            driver.note_sent(looked_at);
        }
        let (now, busy) = (driver.engine.now(), spoke | expired);
        if busy {
            busy_at = now;
        }
        if driver.engine.is_over(now) {
            break;
        }
        rounds = rounds.wrapping_add(1);
        if rounds.is_multiple_of(16) {
            driver.engine.publish();
        }
        if !busy || rounds.is_multiple_of(16) {
            // What was recorded is handed over in time, and nobody wakes for it twice.
            driver.engine.records.rest(now);
        }
        // Who does not poll need not look twice: the system says at once when there is more.
        let looks_twice = driver.polling != Polling::Block || !driver.settled;
        if busy && driver.outgoing.is_empty() && looks_twice {
            driver.readable = true;
            continue;
        }
        let looks_on = match driver.polling {
            Polling::Block => false,
            Polling::Hybrid(span) => now < busy_at + span,
            Polling::Spin => true,
        };
        if looks_on && driver.outgoing.is_empty() {
            std::hint::spin_loop();
            driver.readable = true;
        } else {
            driver.sleep(now);
        }
    }
    driver.engine.finish();
}

impl<P: Protocol> Driver<P> {
    pub(crate) fn new(
        options: &Options<P>,
        wire: Wire,
        handler: Option<Handler>,
        shared: Arc<Shared>,
        seed: u64,
        recorder: Option<Recorder<StepOf<P>>>,
    ) -> Result<Driver<P>, String> {
        let engine = Engine::new(options, handler, shared, seed, recorder)?;
        let polling = options.polling;
        let outgoing = Vec::with_capacity(BATCH);
        Ok(Driver {
            engine,
            wire,
            outgoing,
            commands: Vec::new(),
            polling,
            settled: true,
            readable: true,
        })
    }

    /// The same, with packets sealed if there is a seal.
    pub(crate) fn with_seal(mut self, seal: Option<Seal>) -> Driver<P> {
        self.engine.seal = seal;
        self
    }

    /// What the endpoint has counted, as of a moment ago.
    pub(crate) fn counters(&self) -> Counted<P> {
        self.engine.published()
    }

    /// Carries out what other threads want; how long the first of it waited, where lag is measured.
    /// `None` if there was nothing.
    fn obey(&mut self) -> Option<Option<Span>> {
        let since = self.engine.shared.take(&mut self.commands);
        let waited = since.map(|since| self.engine.now().since(since));
        let any = !self.commands.is_empty();
        for command in self.commands.drain(..) {
            self.engine.obey(command);
        }
        any.then_some(waited)
    }

    /// Where lag is measured: keeps how long the oldest of what this look found has waited. When it
    /// was.
    fn note_look(&mut self, called: Option<Span>) -> Option<Instant> {
        let lag = self.engine.shared.lag.as_ref()?;
        if let Some(oldest) = called.max(self.wire.take_waited()) {
            lock(lag).note_look(oldest);
        }
        Some(self.engine.now())
    }

    /// Keeps how long it took to send the packet that came of a look.
    fn note_sent(&mut self, looked_at: Option<Instant>) {
        if let Some((lag, looked_at)) = self.engine.shared.lag.as_ref().zip(looked_at) {
            lock(lag).note_sent(self.engine.now().since(looked_at));
        }
    }

    fn receive(&mut self, heads: &mut Heads) -> bool {
        let got = if self.readable { self.wire.receive(heads) } else { 0 };
        self.settled &= got < BATCH;
        for at in 0..got {
            self.engine.counters.packets_received += 1;
            match self.wire.packet(at) {
                Some((from, bytes)) => self.engine.on_bytes(from, bytes),
                None => self.engine.counters.too_long += 1,
            }
        }
        let engine = &mut self.engine;
        self.wire.undelivered(|to, quote| engine.on_undelivered(to, quote));
        got > 0
    }

    fn transmit(&mut self, heads: &mut Heads) -> bool {
        let mut any = false;
        for _ in 0..SEND_BATCHES {
            if self.outgoing.is_empty() {
                // How many may be sent ahead of the link is the machine's to say: it paces.
                let pulled = std::iter::from_fn(|| self.engine.pull()).take(BATCH);
                self.outgoing.extend(pulled);
                self.outgoing.sort_by_key(Outgoing::rank);
            }
            if self.outgoing.is_empty() {
                self.settled = true;
                return any;
            }
            while !self.outgoing.is_empty() {
                let done = match self.wire.send(heads, &self.outgoing) {
                    Ok(sent) => {
                        self.engine.counters.packets_sent += sent as u64;
                        sent
                    }
                    Err(Unsent::Refused) => {
                        self.engine.counters.send_errors += 1;
                        1
                    }
                    Err(Unsent::Later) => {
                        self.settled = false;
                        return any;
                    }
                };
                self.outgoing.drain(..done);
                any = true;
            }
        }
        self.settled = false;
        true
    }

    /// Waits for a packet, a command, a timer, or room in the socket.
    fn sleep(&mut self, now: Instant) {
        self.readable = true;
        if !self.engine.shared.doze() {
            self.engine.shared.wake();
            return;
        }
        let timeout = self.engine.next_time().map(|at| at.since(now).as_ns());
        self.engine.publish();
        let timeout = timeout.map(|ns| Timespec {
            tv_sec: (ns / 1_000_000_000) as i64,
            tv_nsec: (ns % 1_000_000_000) as i64,
        });
        let room = if self.outgoing.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        let (socket, event) = (self.wire.as_fd(), self.engine.shared.event());
        let mut fds = [
            PollFd::from_borrowed_fd(socket, PollFlags::IN | room),
            PollFd::new(event, PollFlags::IN),
        ];
        // Interrupted or not, the loop looks at everything.
        let _ = poll(&mut fds, timeout.as_ref());
        let rung = !fds[1].revents().is_empty();
        self.readable = !fds[0].revents().is_empty();
        if fds[0].revents().contains(PollFlags::ERR) {
            self.wire.has_reports();
        }
        self.engine.shared.wake();
        if rung {
            self.engine.shared.quiet();
        }
    }
}
