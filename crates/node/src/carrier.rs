//! One thread that carries for a node: all its connections, its datagrams, and what they hold.
//!
//! Two nodes share one connection; the one with the greater number dials. What is sent is kept by
//! its [`Channel`] until the other end has acknowledged it, and goes into a connection as far as
//! that takes it, so a slow peer holds up nobody but itself.
//!
//! The carrier is behind a lock, since the machine's thread carries too where distances are made
//! here: see [`rounds`].

mod datagrams;
mod rounds;
mod tend;

pub(crate) use rounds::{Outward, Rounds};

use crate::channel::{Channel, Meeting, Standing};
use crate::codec::Codec;
use crate::figures::Figures;
use crate::frame::{self, Frame, Key, Nonce, VERSION};
use crate::inbox::{Event, Inbox};
use crate::links::{Due, Links};
use cavy_core::family::Node;
use cavy_core::family::message::{Talker, Via};
use cavy_core::{Instant, Span};
use mio::event::Source as _;
use mio::net::{TcpListener, TcpStream, UdpSocket};
use mio::{Events, Interest, Poll, Registry, Token, Waker};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::Duration;

const LISTENER: Token = Token(0);
const WAKER: Token = Token(1);
const DATAGRAMS: Token = Token(2);
const FIRST: usize = 3;

/// Bytes that a connection is given ahead of what it has taken.
const AHEAD: usize = 512 << 10;
/// What is read at once.
const CHUNK: usize = 64 << 10;
/// An acknowledgement that nothing carries goes alone after this, or after so many messages.
const ACKNOWLEDGE: Span = Span::from_ms(20);
const ACKNOWLEDGE_MESSAGES: u64 = 128;
/// A connection on which nothing goes is given a pulse.
const PULSE: Span = Span::from_ms(500);
/// A connection that is silent for so long has ended.
const SILENCE: Span = Span::from_ms(3_000);
/// What time brings is looked for this often at most.
const TEND: Span = Span::from_ms(1);
/// Both ends must have said who they are after this.
const INTRODUCTION: Span = Span::from_ms(3_000);
/// Between two attempts to dial, at first and at most.
const REDIAL: Span = Span::from_ms(20);
const REDIAL_MAX: Span = Span::from_ms(500);
/// Connections of which nobody knows yet whose they are.
const STRANGERS: usize = 256;
/// With so much unread by the machine, nothing more is read from peers.
const INBOX: usize = 1 << 16;
/// Longest datagram.
const DATAGRAM: usize = 60_000;

/// One message on its way out.
pub(crate) struct Sending {
    pub to: Node,
    pub via: Via,
    /// The session that the machine knew when it sent this.
    pub session: u64,
    pub bytes: Arc<[u8]>,
}

pub(crate) struct CarrierOptions {
    pub me: Node,
    pub listen: SocketAddr,
    pub peers: Vec<(Node, SocketAddr)>,
    pub key: Key,
    pub incarnation: u64,
    pub lived: bool,
    pub seed: u64,
    pub kept_bytes_max: usize,
    pub message_bytes_max: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// The dialer waits for the connection.
    Dialing,
    /// For the first frame of the other end.
    Greeting,
    /// For how the other end stands.
    Meeting,
    Up,
}

struct Connection {
    stream: TcpStream,
    dialer: bool,
    phase: Phase,
    peer: Option<Node>,
    /// Of the dialer, and of the other end.
    nonces: [Nonce; 2],
    /// What this end said of itself.
    mine: Option<Standing>,
    input: Vec<u8>,
    output: Vec<u8>,
    written: usize,
    /// The next message that goes into the output.
    next: u64,
    acknowledged: u64,
    since: Instant,
    heard: Instant,
    spoke: Instant,
    acknowledge_at: Option<Instant>,
    /// Not read further, because the machine has too much to read already.
    paused: bool,
    /// Read in rounds.
    held: bool,
}

struct Peer {
    address: SocketAddr,
    channel: Channel,
    up: Option<usize>,
    dialing: Option<usize>,
    redial_at: Instant,
    redial: Span,
    due: Due,
}

/// What [`Carrier::start`] gives.
pub(crate) struct Started<M: Talker, C> {
    pub carrier: Arc<Mutex<Carrier<M, C>>>,
    pub outward: Arc<Outward>,
    pub address: SocketAddr,
    pub thread: JoinHandle<()>,
}

/// Why a connection ends.
struct End(Option<String>);

type Handled = Result<(), End>;

fn refuse(why: impl Into<String>) -> End {
    End(Some(why.into()))
}

pub(crate) struct Carrier<M: Talker, C> {
    options: CarrierOptions,
    /// Of what wakes the carrier's thread.
    registry: Registry,
    /// Of peers whose messages are held: nobody waits for it.
    rounds: Poll,
    round_events: Events,
    listener: TcpListener,
    datagrams: UdpSocket,
    outward: Arc<Outward>,
    inbox: Arc<Inbox<M>>,
    codec: Arc<C>,
    links: Links,
    links_seen: u64,
    tend_at: Instant,
    figures: Arc<Figures>,
    peers: BTreeMap<Node, Peer>,
    connections: Vec<Option<Connection>>,
    events: Vec<Event<M>>,
    scratch: Vec<u8>,
    chunk: Vec<u8>,
}

impl<M, C> Carrier<M, C>
where
    M: Talker + 'static,
    C: Codec<M::Protocol>,
    Event<M>: Send,
{
    /// Binds the sockets and starts the thread.
    pub fn start(
        options: CarrierOptions,
        inbox: Arc<Inbox<M>>,
        codec: Arc<C>,
        links: Links,
        figures: Arc<Figures>,
    ) -> io::Result<Started<M, C>> {
        let poll = Poll::new()?;
        let mut listener = TcpListener::bind(options.listen)?;
        let address = listener.local_addr()?;
        let mut datagrams = UdpSocket::bind(address)?;
        let registry = poll.registry();
        registry.register(&mut listener, LISTENER, Interest::READABLE)?;
        registry.register(&mut datagrams, DATAGRAMS, Interest::READABLE)?;
        let waker = Waker::new(registry, WAKER)?;
        let outward = Arc::new(Outward::new(waker));
        let now = cavy_clock::now();
        let of = |(node, address): &(Node, SocketAddr)| {
            let channel = Channel::new(options.incarnation, options.lived, options.kept_bytes_max);
            let due = Due::new(options.seed, options.me, *node);
            let (address, redial_at, redial) = (*address, now, REDIAL);
            (*node, Peer { address, channel, up: None, dialing: None, redial_at, redial, due })
        };
        let peers = options.peers.iter().filter(|(node, _)| *node != options.me).map(of).collect();
        links.watch(&outward);
        let carrier = Carrier {
            options,
            registry: registry.try_clone()?,
            rounds: Poll::new()?,
            round_events: Events::with_capacity(256),
            listener,
            datagrams,
            outward: Arc::clone(&outward),
            inbox,
            codec,
            links,
            links_seen: 0,
            tend_at: now,
            figures,
            peers,
            connections: Vec::new(),
            events: Vec::new(),
            scratch: Vec::new(),
            chunk: vec![0; CHUNK],
        };
        let carrier = Arc::new(Mutex::new(carrier));
        let own = Arc::clone(&carrier);
        let thread = std::thread::Builder::new()
            .name("cavy-carrier".to_string())
            .spawn(move || Carrier::run(poll, &own))?;
        Ok(Started { carrier, outward, address, thread })
    }

    /// The carrier's thread. Nobody else waits while it does.
    fn run(mut poll: Poll, carrier: &Mutex<Self>) {
        let mut events = Events::with_capacity(256);
        let mut timeout = carrier.lock().timeout();
        loop {
            if let Err(error) = poll.poll(&mut events, Some(timeout))
                && error.kind() != io::ErrorKind::Interrupted
            {
                let fault = format!("the carrier cannot wait: {error}");
                carrier.lock().inbox.push(Event::Fault(fault));
                return;
            }
            let mut carrier = carrier.lock();
            if carrier.turn(&events) {
                return;
            }
            timeout = carrier.timeout();
        }
    }

    /// Handles what has come and what time brings. True when the node ends.
    fn turn(&mut self, events: &Events) -> bool {
        self.figures.turns.fetch_add(1, Relaxed);
        for event in events {
            match event.token() {
                LISTENER => self.accept(),
                WAKER => {}
                DATAGRAMS => self.read_datagrams(),
                _ => self.ready(event),
            }
        }
        if self.take_outward() {
            return true;
        }
        // A message changes nothing of what time brings, and there may be thousands a second.
        let now = cavy_clock::now();
        if now >= self.tend_at || self.links.version() != self.links_seen {
            self.tend_at = now + TEND;
            self.tend();
        }
        self.inbox.extend(&mut self.events);
        false
    }

    /// A connection can be read or written.
    fn ready(&mut self, event: &mio::event::Event) {
        let slot = event.token().0 - FIRST;
        if event.is_writable() || event.is_write_closed() {
            self.handled(slot, |carrier| carrier.writable(slot));
        }
        let ended = event.is_read_closed() || event.is_error();
        if event.is_readable() || ended {
            self.handled(slot, |carrier| carrier.readable(slot, ended));
        }
    }

    fn timeout(&self) -> Duration {
        let connections = self.connections.iter().flatten();
        let missing = self.peers.values().any(|peer| peer.up.is_none());
        let span = |c: &Connection| match () {
            () if c.phase != Phase::Up || c.paused => 10,
            // An acknowledgement frees memory of the other end, and that can wait a little.
            () if c.acknowledge_at.is_some() || c.held => 30,
            () => 100,
        };
        let spans = connections.map(span).chain(missing.then_some(10));
        Duration::from_millis(spans.min().unwrap_or(100))
    }

    /// Carries out an act on a connection, and ends the connection where it says so.
    fn handled(&mut self, slot: usize, act: impl FnOnce(&mut Self) -> Handled) {
        if self.connections.get(slot).is_none_or(Option::is_none) {
            return;
        }
        if let Err(End(why)) = act(self) {
            if let Some(why) = why {
                self.figures.refused.fetch_add(1, Relaxed);
                *self.figures.refusal.lock() = Some(why);
            }
            self.close(slot);
        }
    }

    fn close(&mut self, slot: usize) {
        let Some(mut connection) = self.connections.get_mut(slot).and_then(Option::take) else {
            return;
        };
        let registry = if connection.held { self.rounds.registry() } else { &self.registry };
        let _ = connection.stream.deregister(registry);
        let now = cavy_clock::now();
        if let Some(peer) = connection.peer.and_then(|peer| self.peers.get_mut(&peer)) {
            if peer.up == Some(slot) {
                peer.up = None;
                peer.redial = REDIAL;
                peer.redial_at = now;
            }
            if peer.dialing == Some(slot) {
                peer.dialing = None;
                peer.redial_at = now + peer.redial;
                peer.redial = (peer.redial * 2).min(REDIAL_MAX);
            }
        }
    }

    fn add(
        &mut self,
        mut stream: TcpStream,
        dialer: bool,
        peer: Option<Node>,
    ) -> io::Result<usize> {
        let free = self.connections.iter().position(Option::is_none);
        let slot = free.unwrap_or(self.connections.len());
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.registry.register(&mut stream, Token(slot + FIRST), interest)?;
        let now = cavy_clock::now();
        let connection = Connection {
            stream,
            dialer,
            phase: if dialer { Phase::Dialing } else { Phase::Greeting },
            peer,
            nonces: [[0; 16]; 2],
            mine: None,
            input: Vec::new(),
            output: Vec::new(),
            written: 0,
            next: 1,
            acknowledged: 0,
            since: now,
            heard: now,
            spoke: now,
            acknowledge_at: None,
            paused: false,
            held: false,
        };
        if slot == self.connections.len() {
            self.connections.push(Some(connection));
        } else {
            self.connections[slot] = Some(connection);
        }
        Ok(slot)
    }

    fn accept(&mut self) {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    let strangers = self.connections.iter().flatten();
                    if strangers.filter(|c| c.phase != Phase::Up).count() >= STRANGERS {
                        self.figures.refused.fetch_add(1, Relaxed);
                        continue;
                    }
                    let _ = stream.set_nodelay(true);
                    let _ = self.add(stream, false, None);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // One that went before it was taken, or no more descriptors: others still come.
                Err(_) => return,
            }
        }
    }

    fn dial(&mut self, node: Node, now: Instant) {
        let Some(peer) = self.peers.get_mut(&node) else { return };
        peer.redial_at = now + peer.redial;
        let Ok(stream) = TcpStream::connect(peer.address) else { return };
        if let Ok(slot) = self.add(stream, true, Some(node))
            && let Some(peer) = self.peers.get_mut(&node)
        {
            peer.dialing = Some(slot);
        }
    }

    fn connection(&mut self, slot: usize) -> Result<&mut Connection, End> {
        self.connections.get_mut(slot).and_then(Option::as_mut).ok_or(End(None))
    }

    fn writable(&mut self, slot: usize) -> Handled {
        let me = self.options.me;
        let connection = self.connection(slot)?;
        if connection.phase == Phase::Dialing {
            if let Ok(Some(_)) | Err(_) = connection.stream.take_error() {
                return Err(End(None));
            }
            match connection.stream.peer_addr() {
                Err(error) if error.kind() == io::ErrorKind::NotConnected => return Ok(()),
                Err(_) => return Err(End(None)),
                Ok(_) => {}
            }
            let _ = connection.stream.set_nodelay(true);
            connection.phase = Phase::Greeting;
            connection.nonces[0] = random().map_err(|_| End(None))?;
            let (nonce, to) = (connection.nonces[0], connection.peer.ok_or(End(None))?);
            frame::greet(&mut connection.output, me, to, &nonce, &[0; 32]);
        }
        self.flush(slot)
    }

    /// Reads what is there. A stream that gives less than was asked for has no more, and what comes
    /// next is an event of its own, so nothing is asked a second time in vain; but the end of a
    /// stream comes with its last bytes, and only a read after those tells of it: `to_end`.
    fn readable(&mut self, slot: usize, to_end: bool) -> Handled {
        loop {
            if self.inbox.len() + self.events.len() > INBOX {
                self.connection(slot)?.paused = true;
                return Ok(());
            }
            let mut chunk = std::mem::take(&mut self.chunk);
            let connection = self.connection(slot)?;
            connection.paused = false;
            let read = connection.stream.read(&mut chunk);
            let more = match read {
                Ok(0) => Err(End(None)),
                Ok(bytes) => {
                    connection.input.extend_from_slice(&chunk[..bytes]);
                    connection.heard = cavy_clock::now();
                    Ok(to_end || bytes == CHUNK)
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
                Err(_) => Err(End(None)),
            };
            self.chunk = chunk;
            let more = more?;
            self.frames(slot)?;
            if !more {
                return Ok(());
            }
        }
    }

    /// Handles the whole frames that have come.
    fn frames(&mut self, slot: usize) -> Handled {
        let most = self.options.message_bytes_max + 64;
        let mut input = std::mem::take(&mut self.connection(slot)?.input);
        let mut at = 0;
        let result = loop {
            let phase = match self.connection(slot) {
                Ok(connection) => connection.phase,
                Err(end) => break Err(end),
            };
            let most = if phase == Phase::Up { most } else { frame::STRANGER_MAX };
            match frame::read(&input[at..], most) {
                Ok(None) => break Ok(()),
                Ok(Some((frame, length))) => {
                    at += length;
                    if let Err(end) = self.frame(slot, frame) {
                        break Err(end);
                    }
                }
                Err(fault) => break Err(refuse(format!("a peer sent no frame: {fault:?}"))),
            }
        };
        input.drain(..at);
        if let Ok(connection) = self.connection(slot) {
            connection.input = input;
        }
        result
    }

    fn frame(&mut self, slot: usize, frame: Frame<'_>) -> Handled {
        let (phase, dialer) = {
            let connection = self.connection(slot)?;
            (connection.phase, connection.dialer)
        };
        match (phase, frame) {
            (Phase::Greeting, Frame::Greet { version, from, to, nonce, proof }) => {
                if version != VERSION {
                    return Err(refuse(format!(
                        "node {} speaks version {version}, and this one {VERSION}",
                        from.0
                    )));
                }
                if to != self.options.me {
                    let me = self.options.me.0;
                    return Err(refuse(format!("node {} took node {me} for {}", from.0, to.0)));
                }
                if dialer {
                    self.greeted(slot, from, nonce, &proof)
                } else {
                    self.greet(slot, from, nonce)
                }
            }
            (Phase::Meeting, Frame::Meet { proof, standing }) => self.meet(slot, &proof, &standing),
            (Phase::Up, Frame::Data { number, acknowledged, stamp, message }) => {
                self.acknowledged(slot, acknowledged)?;
                self.data(slot, number, stamp, message)
            }
            (Phase::Up, Frame::Pulse { acknowledged }) => self.acknowledged(slot, acknowledged),
            _ => Err(refuse("a peer spoke out of turn")),
        }
    }

    /// Somebody dialed this node.
    fn greet(&mut self, slot: usize, from: Node, nonce: Nonce) -> Handled {
        let me = self.options.me;
        if from <= me || !self.peers.contains_key(&from) {
            return Err(refuse(format!("node {} is not one that dials node {}", from.0, me.0)));
        }
        if self.links.is_cut(from) {
            return Err(End(None));
        }
        let own = random().map_err(|_| End(None))?;
        let proof = self.options.key.prove(1, me, from, &nonce, &own);
        let connection = self.connection(slot)?;
        connection.nonces = [nonce, own];
        connection.peer = Some(from);
        connection.phase = Phase::Meeting;
        frame::greet(&mut connection.output, me, from, &own, &proof);
        self.flush(slot)
    }

    /// The node that was dialed greets back.
    fn greeted(&mut self, slot: usize, from: Node, nonce: Nonce, proof: &frame::Proof) -> Handled {
        let me = self.options.me;
        let key = self.options.key.clone();
        let connection = self.connection(slot)?;
        connection.nonces[1] = nonce;
        let [own, theirs] = connection.nonces;
        if connection.peer != Some(from) || !key.holds(proof, 1, from, me, &own, &theirs) {
            return Err(refuse(format!(
                "node {} is of another cluster or has another key",
                from.0
            )));
        }
        let standing = self.peers.get(&from).ok_or(End(None))?.channel.standing();
        let proof = key.prove(0, me, from, &own, &theirs);
        let connection = self.connection(slot)?;
        connection.mine = Some(standing);
        connection.phase = Phase::Meeting;
        frame::meet(&mut connection.output, &proof, &standing);
        self.flush(slot)
    }

    fn meet(&mut self, slot: usize, proof: &frame::Proof, theirs: &Standing) -> Handled {
        let me = self.options.me;
        let key = self.options.key.clone();
        let connection = self.connection(slot)?;
        let (node, dialer) = (connection.peer.ok_or(End(None))?, connection.dialer);
        let [one, other] = connection.nonces;
        let role = if dialer { 2 } else { 0 };
        if !key.holds(proof, role, node, me, &one, &other) {
            return Err(refuse(format!("node {} has another key", node.0)));
        }
        let said = connection.mine;
        if !dialer && let Some(old) = self.peers.get(&node).and_then(|peer| peer.up) {
            // The peer has given that one up.
            self.close(old);
        }
        let peer = self.peers.get_mut(&node).ok_or(End(None))?;
        let mine = peer.channel.standing();
        if said.is_some_and(|said| said != mine) {
            // It broke meanwhile, which the other end cannot know.
            return Err(End(None));
        }
        let meeting = peer.channel.meet(&mine, theirs);
        let session = peer.channel.session();
        peer.up = Some(slot);
        peer.dialing = None;
        (peer.redial, peer.redial_at) = (REDIAL, Instant::ZERO);
        let next = peer.channel.unacknowledged().next().map_or(u64::MAX, |(number, _)| *number);
        let resent = peer.channel.unacknowledged().count() as u64;
        let received = peer.channel.received();
        self.figures.connected.fetch_add(1, Relaxed);
        if meeting == Meeting::Broken {
            self.figures.broken.fetch_add(1, Relaxed);
            self.events.push(Event::Broken { peer: node, session });
        } else if mine.knows != 0 {
            self.figures.resent.fetch_add(resent, Relaxed);
        }
        let connection = self.connection(slot)?;
        connection.phase = Phase::Up;
        connection.next = next;
        connection.acknowledged = received;
        if !dialer {
            let proof = key.prove(2, me, node, &one, &other);
            let connection = self.connection(slot)?;
            frame::meet(&mut connection.output, &proof, &mine);
        }
        self.place(slot)?;
        self.flush(slot)
    }

    fn acknowledged(&mut self, slot: usize, number: u64) -> Handled {
        let node = self.connection(slot)?.peer.ok_or(End(None))?;
        let peer = self.peers.get_mut(&node).ok_or(End(None))?;
        if peer.channel.acknowledged(number) {
            Ok(())
        } else {
            Err(refuse(format!("node {} acknowledged what was never sent", node.0)))
        }
    }

    fn data(&mut self, slot: usize, number: u64, stamp: Instant, message: &[u8]) -> Handled {
        let connection = self.connection(slot)?;
        let (arrived, node) = (connection.heard, connection.peer.ok_or(End(None))?);
        let peer = self.peers.get_mut(&node).ok_or(End(None))?;
        if !peer.channel.receive(number) {
            return Err(refuse(format!("node {} left out a message", node.0)));
        }
        let session = peer.channel.session();
        let due = peer.due.channel(self.links.way(node), stamp);
        let received = peer.channel.received();
        let Some(word) = self.codec.read_message(message) else {
            // It would come again and again: the channel breaks instead.
            self.break_now(node);
            return Err(refuse(format!("a message of node {} cannot be read", node.0)));
        };
        self.figures.received.fetch_add(1, Relaxed);
        self.figures.received_bytes.fetch_add(message.len() as u64, Relaxed);
        let (from, via, message) = (node, Via::Channel, word);
        self.events.push(Event::Message { from, via, session, due, arrived, message });
        let connection = self.connection(slot)?;
        if received - connection.acknowledged >= ACKNOWLEDGE_MESSAGES {
            connection.acknowledged = received;
            connection.acknowledge_at = None;
            connection.spoke = arrived;
            frame::pulse(&mut connection.output, received);
            return self.flush(slot);
        }
        connection.acknowledge_at.get_or_insert(arrived + ACKNOWLEDGE);
        Ok(())
    }

    /// A channel breaks at this end; the other one hears of it when the two meet.
    fn break_now(&mut self, node: Node) {
        let Some(peer) = self.peers.get_mut(&node) else { return };
        peer.channel.overflow();
        let session = peer.channel.session();
        self.figures.overflowed.fetch_add(1, Relaxed);
        self.figures.broken.fetch_add(1, Relaxed);
        self.events.push(Event::Broken { peer: node, session });
    }

    /// Gives a connection what waits for it, and the system what the connection has.
    fn flush(&mut self, slot: usize) -> Handled {
        let now = cavy_clock::now();
        loop {
            self.fill(slot, now)?;
            let connection = self.connection(slot)?;
            if connection.written == connection.output.len() {
                connection.output.clear();
                connection.written = 0;
                return Ok(());
            }
            if connection.phase == Phase::Dialing {
                return Ok(());
            }
            match connection.stream.write(&connection.output[connection.written..]) {
                Ok(0) => return Err(End(None)),
                Ok(bytes) => {
                    connection.written += bytes;
                    connection.spoke = now;
                    if connection.written > AHEAD {
                        connection.output.drain(..connection.written);
                        connection.written = 0;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(End(None)),
            }
        }
    }

    fn fill(&mut self, slot: usize, stamp: Instant) -> Handled {
        let connection = self.connections.get_mut(slot).and_then(Option::as_mut);
        let connection = connection.ok_or(End(None))?;
        if connection.phase != Phase::Up {
            return Ok(());
        }
        let node = connection.peer.ok_or(End(None))?;
        let Some(peer) = self.peers.get(&node) else { return Ok(()) };
        let received = peer.channel.received();
        while connection.output.len() - connection.written < AHEAD
            && let Some(bytes) = peer.channel.kept(connection.next)
        {
            frame::data(&mut connection.output, connection.next, received, stamp, bytes);
            connection.next += 1;
            connection.acknowledged = received;
            connection.acknowledge_at = None;
        }
        Ok(())
    }

    /// What the machine has sent. True when the node ends.
    fn take_outward(&mut self) -> bool {
        let (sendings, stop) = self.outward.take();
        let mut touched: Vec<Node> = Vec::new();
        for sending in sendings {
            match sending.via {
                Via::Channel => {
                    let Some(peer) = self.peers.get_mut(&sending.to) else {
                        self.figures.dropped.fetch_add(1, Relaxed);
                        continue;
                    };
                    let Some(number) = peer.channel.send(sending.session, &sending.bytes) else {
                        self.figures.dropped.fetch_add(1, Relaxed);
                        continue;
                    };
                    self.figures.sent.fetch_add(1, Relaxed);
                    self.figures.sent_bytes.fetch_add(sending.bytes.len() as u64, Relaxed);
                    if peer.channel.is_too_full() {
                        let up = peer.up;
                        self.break_now(sending.to);
                        if let Some(slot) = up {
                            self.close(slot);
                        }
                        continue;
                    }
                    if let Some(slot) = peer.up
                        && let Some(Some(connection)) = self.connections.get_mut(slot)
                    {
                        connection.next = connection.next.min(number);
                    }
                    if touched.last() != Some(&sending.to) {
                        touched.push(sending.to);
                    }
                }
                Via::Datagram => self.send_datagram(&sending),
            }
        }
        touched.sort_unstable();
        touched.dedup();
        for node in touched {
            if let Some(slot) = self.peers.get(&node).and_then(|peer| peer.up) {
                self.handled(slot, |carrier| carrier.flush(slot));
            }
        }
        stop
    }
}

fn random() -> io::Result<Nonce> {
    let mut nonce = [0; 16];
    rustix::rand::getrandom(&mut nonce, rustix::rand::GetRandomFlags::empty())?;
    Ok(nonce)
}
