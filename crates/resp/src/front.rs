//! The thread with the clients' sockets.
//!
//! Requests of one client take effect in the order in which it sent them. They are carried out side
//! by side as long as that is certain: all within the region, and on different keys.

use crate::native;
use crate::place::Places;
use crate::plan::{Words, read_versions};
use crate::reply::{Reply, Version};
use crate::request::{self, Limits};
use crate::script;
use crate::session::{Act, Scripts, Session, Then};
use cavy_core::{Instant, Span};
use cavy_node::Wall;
use cavy_txn::{Key, Outcome, Region, Response, Txn, TxnId};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

const LISTENER: Token = Token(0);
const WAKER: Token = Token(1);
const FIRST: usize = 2;
const CHUNK: usize = 64 << 10;
/// Requests of one client under way.
const PIPELINE: usize = 1_024;
/// Answers that a client does not fetch, until nothing more is read from it.
const UNREAD: usize = 4 << 20;
/// Scripts that are remembered.
const SCRIPTS: usize = 10_000;

/// Hands a transaction to the machine; the second part is called with the answer, if there is one.
pub type Submit = Arc<dyn Fn(Txn, Box<dyn FnOnce(Response) + Send>) + Send + Sync>;
/// Carries out commands of the operator: `CAVY` and its words.
pub type Admin = Box<dyn Fn(&[Vec<u8>]) -> Result<Reply, Reply> + Send + Sync>;

/// How the front end is run.
pub struct FrontOptions {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// What they must know; without it, `listen` is on loopback.
    pub password: Option<String>,
    /// Where keys are.
    pub places: Places,
    /// The region of this node.
    pub region: Region,
    /// The name of this node among clients of transactions; not 0, and no other node's.
    pub client: u32,
    /// Clients at a time.
    pub clients_max: usize,
    /// An answer that has not come after so long is given up: the transaction may take effect.
    pub patience: Span,
    /// A client that has sent the beginning of a request must send its end within this.
    pub slow: Span,
    /// What requests may be.
    pub limits: Limits,
    /// What INFO says.
    pub info: Box<dyn Fn() -> String + Send + Sync>,
    /// What `CAVY` does.
    pub admin: Admin,
    /// The node's clock.
    pub wall: Wall,
}

/// Why a front end cannot start.
#[derive(Debug, thiserror::Error)]
pub enum FrontError {
    /// Anybody could connect.
    #[error("clients of {0} would need no password; set one, or listen on loopback (127.0.0.1)")]
    Open(SocketAddr),
    /// The address cannot be had.
    #[error("cannot listen for clients on {0}: {1}")]
    Listen(SocketAddr, io::Error),
}

/// What all clients of a node share.
pub(crate) struct Shared {
    pub places: Places,
    pub password: Option<String>,
    pub scripts: Mutex<Scripts>,
    pub info: Box<dyn Fn() -> String + Send + Sync>,
    pub admin: Admin,
    pub wall: Wall,
    pub multi_commands: usize,
    pub multi_bytes: usize,
    client: u32,
    number: AtomicU64,
}

impl Shared {
    pub fn next_id(&self) -> TxnId {
        TxnId { client: self.client, number: self.number.fetch_add(1, Relaxed) }
    }

    pub fn keep_script(&self, source: &Arc<[u8]>) {
        let mut scripts = self.scripts.lock();
        if scripts.len() < SCRIPTS {
            scripts.entry(script::name(source)).or_insert_with(|| Arc::clone(source));
        }
    }
}

/// What the front end has counted.
#[derive(Debug, Default)]
pub struct FrontFigures {
    /// Clients now.
    pub clients: AtomicU64,
    /// Clients that were turned away, because there were too many.
    pub turned_away: AtomicU64,
    /// Requests.
    pub requests: AtomicU64,
    /// Transactions within the region, and how long their answers took.
    pub local: cavy_node::Spans,
    /// The same of those across regions.
    pub across: cavy_node::Spans,
    /// Answers that did not come in time.
    pub uncertain: AtomicU64,
}

/// A front end that runs.
pub struct Front {
    /// Where it listens.
    pub address: SocketAddr,
    /// What it counts.
    pub figures: Arc<FrontFigures>,
    stop: Arc<AtomicBool>,
    waker: Arc<Waker>,
    thread: JoinHandle<()>,
}

impl Front {
    /// Starts listening.
    ///
    /// # Errors
    /// When the address cannot be had, or is open to all without a password.
    pub fn start(options: FrontOptions, submit: Submit) -> Result<Front, FrontError> {
        if options.password.is_none() && !options.listen.ip().is_loopback() {
            return Err(FrontError::Open(options.listen));
        }
        let listen = options.listen;
        Front::listen(options, submit).map_err(|error| FrontError::Listen(listen, error))
    }

    fn listen(options: FrontOptions, submit: Submit) -> io::Result<Front> {
        let poll = Poll::new()?;
        let mut listener = TcpListener::bind(options.listen)?;
        let address = listener.local_addr()?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let figures = Arc::new(FrontFigures::default());
        let stop = Arc::new(AtomicBool::new(false));
        // Numbers of an earlier life of this node are never used again.
        let since_ms = options.wall.now().as_ns() / 1_000_000;
        let shared = Shared {
            places: options.places,
            password: options.password,
            scripts: Mutex::default(),
            info: options.info,
            admin: options.admin,
            wall: options.wall,
            multi_commands: 10_000,
            multi_bytes: options.limits.bytes,
            client: options.client,
            number: AtomicU64::new(since_ms << 22 | 1),
        };
        let mut desk = Desk {
            poll,
            listener,
            shared,
            submit,
            region: options.region,
            limits: options.limits,
            clients_max: options.clients_max,
            patience: options.patience,
            slow: options.slow,
            answers: Arc::default(),
            waker: Arc::clone(&waker),
            figures: Arc::clone(&figures),
            clients: Vec::new(),
            generation: 0,
            chunk: vec![0; CHUNK],
            stop: Arc::clone(&stop),
        };
        let thread =
            std::thread::Builder::new().name("cavy-front".to_string()).spawn(move || desk.run())?;
        Ok(Front { address, figures, stop, waker, thread })
    }

    /// Closes all connections.
    pub fn stop(self) {
        self.stop.store(true, Relaxed);
        let _ = self.waker.wake();
        let _ = self.thread.join();
    }
}

/// The place of an answer among those of a connection.
enum Slot {
    Ready(Vec<u8>),
    Waiting(Waiting),
}

struct Waiting {
    ticket: u64,
    then: Then,
    rows: Vec<Key>,
    across: bool,
    since: Instant,
    version: Version,
}

struct Client {
    stream: TcpStream,
    generation: u64,
    session: Session,
    input: Vec<u8>,
    output: Vec<u8>,
    written: usize,
    slots: VecDeque<Slot>,
    ticket: u64,
    /// Asked for, and not to be carried out before what is under way.
    held: Option<(Txn, Then, Vec<Key>)>,
    /// The next request needs the answer to a WATCH.
    watching: bool,
    /// Nothing more is read; the rest is answered.
    closing: bool,
    /// When the beginning of the request that is incomplete came.
    partial_since: Option<Instant>,
}

type Answers = Arc<Mutex<Vec<(usize, u64, u64, Response)>>>;

struct Desk {
    poll: Poll,
    listener: TcpListener,
    shared: Shared,
    submit: Submit,
    region: Region,
    limits: Limits,
    clients_max: usize,
    patience: Span,
    slow: Span,
    answers: Answers,
    waker: Arc<Waker>,
    figures: Arc<FrontFigures>,
    clients: Vec<Option<Client>>,
    generation: u64,
    chunk: Vec<u8>,
    stop: Arc<AtomicBool>,
}

impl Desk {
    fn run(&mut self) {
        let mut events = Events::with_capacity(1_024);
        let mut swept = cavy_clock::now();
        while !self.stop.load(Relaxed) {
            // An interrupted wait has no events.
            let _ = self.poll.poll(&mut events, Some(Duration::from_millis(200)));
            for event in &events {
                match event.token() {
                    LISTENER => self.accept(),
                    WAKER => {}
                    Token(token) => {
                        let slot = token - FIRST;
                        if event.is_readable() || event.is_read_closed() || event.is_error() {
                            self.read(slot);
                        }
                        self.go_on(slot);
                    }
                }
            }
            let answers = std::mem::take(&mut *self.answers.lock());
            for (slot, generation, ticket, response) in answers {
                self.answered(slot, generation, ticket, &response);
            }
            let now = cavy_clock::now();
            if now.since(swept) >= Span::from_ms(200) {
                swept = now;
                self.sweep(now);
            }
        }
    }

    fn accept(&mut self) {
        while let Ok((mut stream, _)) = self.listener.accept() {
            let _ = stream.set_nodelay(true);
            let there = self.figures.clients.load(Relaxed) as usize;
            if there >= self.clients_max {
                self.figures.turned_away.fetch_add(1, Relaxed);
                let _ = stream.write(b"-ERR max number of clients reached\r\n");
                continue;
            }
            let free = self.clients.iter().position(Option::is_none);
            let slot = free.unwrap_or(self.clients.len());
            let interest = Interest::READABLE | Interest::WRITABLE;
            let token = Token(slot + FIRST);
            if self.poll.registry().register(&mut stream, token, interest).is_err() {
                continue;
            }
            self.generation += 1;
            let client = Client {
                stream,
                generation: self.generation,
                session: Session::new(self.generation, &self.shared),
                input: Vec::new(),
                output: Vec::new(),
                written: 0,
                slots: VecDeque::new(),
                ticket: 0,
                held: None,
                watching: false,
                closing: false,
                partial_since: None,
            };
            self.figures.clients.fetch_add(1, Relaxed);
            match self.clients.get_mut(slot) {
                Some(place) => *place = Some(client),
                None => self.clients.push(Some(client)),
            }
        }
    }

    fn close(&mut self, slot: usize) {
        if let Some(mut client) = self.clients.get_mut(slot).and_then(Option::take) {
            let _ = self.poll.registry().deregister(&mut client.stream);
            self.figures.clients.fetch_sub(1, Relaxed);
        }
    }

    fn client(&mut self, slot: usize) -> Option<&mut Client> {
        self.clients.get_mut(slot).and_then(Option::as_mut)
    }

    /// Reads what has come, as far as there is room for it.
    fn read(&mut self, slot: usize) {
        let most = self.limits.bytes + CHUNK;
        let mut chunk = std::mem::take(&mut self.chunk);
        let mut gone = false;
        while let Some(client) = self.client(slot) {
            let idle = client.output.len() - client.written < UNREAD;
            if client.closing || !idle || client.input.len() > most || client.is_full() {
                break;
            }
            match client.stream.read(&mut chunk) {
                Ok(0) => {
                    client.closing = true;
                    break;
                }
                Ok(bytes) => {
                    client.input.extend_from_slice(&chunk[..bytes]);
                    self.requests(slot);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    gone = true;
                    break;
                }
            }
        }
        self.chunk = chunk;
        if gone {
            self.close(slot);
        }
    }

    /// Begins the whole requests that have come, as far as their order lets them.
    fn requests(&mut self, slot: usize) {
        let limits = self.limits;
        let Some(mut client) = self.clients.get_mut(slot).and_then(Option::take) else { return };
        if let Some((txn, then, rows)) = client.held.take() {
            self.ask(slot, &mut client, txn, then, rows);
        }
        let mut input = std::mem::take(&mut client.input);
        let mut at = 0;
        while client.held.is_none() && !client.watching && !client.is_full() && !client.ended() {
            match request::read(&input[at..], &limits) {
                Ok(None) => break,
                Ok(Some(request)) => {
                    at += request.length;
                    if request.words.is_empty() {
                        continue;
                    }
                    self.figures.requests.fetch_add(1, Relaxed);
                    match client.session.act(&request.words, &self.shared) {
                        Act::Reply(reply) => client.put(&reply),
                        Act::Last(reply) => {
                            client.put(&reply);
                            client.end();
                        }
                        Act::Ask { txn, then, rows } => {
                            self.ask(slot, &mut client, txn, then, rows);
                        }
                    }
                }
                Err(reason) => {
                    client.put(&Reply::err(format!("Protocol error: {reason}")));
                    client.end();
                }
            }
        }
        input.drain(..at);
        client.partial_since = match (input.is_empty(), client.partial_since) {
            (true, _) => None,
            (false, Some(since)) if at == 0 => Some(since),
            (false, _) => Some(cavy_clock::now()),
        };
        client.input = input;
        self.clients[slot] = Some(client);
    }

    /// Hands over a transaction, or holds it back.
    fn ask(&mut self, slot: usize, client: &mut Client, txn: Txn, then: Then, rows: Vec<Key>) {
        let layout = &self.shared.places.layout;
        let across = !layout.is_within(&txn, self.region);
        let blocks = |other: &Slot| match other {
            Slot::Ready(_) => false,
            Slot::Waiting(other) => {
                across || other.across || other.rows.iter().any(|row| rows.contains(row))
            }
        };
        if client.slots.iter().any(blocks) {
            client.held = Some((txn, then, rows));
            return;
        }
        client.ticket += 1;
        let (ticket, generation) = (client.ticket, client.generation);
        client.watching = matches!(then, Then::Watch(_));
        let (since, version) = (cavy_clock::now(), client.session.version);
        client.slots.push_back(Slot::Waiting(Waiting {
            ticket,
            then,
            rows,
            across,
            since,
            version,
        }));
        let (answers, waker) = (Arc::clone(&self.answers), Arc::clone(&self.waker));
        let answer = move |response| {
            let mut answers = answers.lock();
            let first = answers.is_empty();
            answers.push((slot, generation, ticket, response));
            drop(answers);
            if first {
                let _ = waker.wake();
            }
        };
        (self.submit)(txn, Box::new(answer));
    }

    fn answered(&mut self, slot: usize, generation: u64, ticket: u64, response: &Response) {
        let Some(mut client) = self.clients.get_mut(slot).and_then(Option::take) else { return };
        let mine = |place: &Slot| matches!(place, Slot::Waiting(w) if w.ticket == ticket);
        if client.generation == generation
            && let Some(place) = client.slots.iter().position(mine)
            && let Slot::Waiting(waiting) = &client.slots[place]
        {
            let took = cavy_clock::now().since(waiting.since);
            let spans = if waiting.across { &self.figures.across } else { &self.figures.local };
            spans.note(took);
            if let Outcome::Committed { at, .. } = &response.outcome {
                client.session.saw(*at);
            }
            let version = waiting.version;
            let reply = match &waiting.then {
                Then::One(assembly) => match assembly.read(response) {
                    Ok(Some(mut replies)) => replies.pop().unwrap_or(Reply::Nil),
                    Ok(None) => Reply::Nil,
                    Err(error) => error,
                },
                Then::Exec(assembly) => match assembly.read(response) {
                    Ok(Some(replies)) => Reply::Array(replies),
                    Ok(None) => Reply::NilArray,
                    Err(error) => error,
                },
                Then::Native => native::answer(response),
                Then::Watch(keys) => {
                    watch(&self.shared.places, &mut client.session, keys, response)
                }
            };
            client.watching = false;
            let mut bytes = Vec::new();
            reply.write(version, &mut bytes);
            client.slots[place] = Slot::Ready(bytes);
        }
        self.clients[slot] = Some(client);
        self.go_on(slot);
    }

    /// Writes what is ready, and reads on, for as long as that gives more to write: the system says
    /// once that there is something to read.
    fn go_on(&mut self, slot: usize) {
        loop {
            let Some(client) = self.client(slot) else { return };
            if !client.write() || client.is_over() {
                return self.close(slot);
            }
            // What was held back may go now; what was not read for lack of room is read.
            self.requests(slot);
            self.read(slot);
            match self.client(slot) {
                Some(client) if client.can_write() || client.is_over() => {}
                _ => return,
            }
        }
    }

    /// Gives up what has waited too long.
    fn sweep(&mut self, now: Instant) {
        for slot in 0..self.clients.len() {
            let (patience, slow) = (self.patience, self.slow);
            let Some(client) = self.client(slot) else { continue };
            if client.partial_since.is_some_and(|since| now.since(since) > slow)
                && client.slots.is_empty()
            {
                self.close(slot);
                continue;
            }
            let mut late = 0;
            for place in &mut client.slots {
                if let Slot::Waiting(waiting) = place
                    && now.since(waiting.since) > patience
                {
                    late += 1;
                    let mut bytes = Vec::new();
                    let text = format!("UNCERTAIN no answer after {patience}; it may take effect");
                    Reply::Error(text).write(waiting.version, &mut bytes);
                    client.watching &= !matches!(waiting.then, Then::Watch(_));
                    *place = Slot::Ready(bytes);
                }
            }
            if late > 0 {
                self.figures.uncertain.fetch_add(late, Relaxed);
                self.go_on(slot);
            }
        }
    }
}

fn watch(places: &Places, session: &mut Session, keys: &Words, response: &Response) -> Reply {
    match read_versions(places, keys, response) {
        None => Reply::Error("TRYAGAIN the keys cannot be watched now".into()),
        Some(watched) => {
            for (key, version) in watched {
                // The first WATCH of a key counts.
                session.watched.entry(key).or_insert(version);
            }
            Reply::ok()
        }
    }
}

impl Client {
    fn put(&mut self, reply: &Reply) {
        let mut bytes = Vec::new();
        reply.write(self.session.version, &mut bytes);
        self.slots.push_back(Slot::Ready(bytes));
    }

    fn is_full(&self) -> bool {
        self.slots.len() >= PIPELINE
    }

    /// The connection ends with what was answered last.
    fn end(&mut self) {
        self.closing = true;
        self.input.clear();
        self.ticket = u64::MAX;
    }

    fn ended(&self) -> bool {
        self.ticket == u64::MAX
    }

    /// Nothing will come and nothing is to be said.
    fn is_over(&self) -> bool {
        let said = self.slots.is_empty() && self.written == self.output.len();
        let rest = self.held.is_some() || self.watching;
        self.closing && said && !rest
    }

    /// An answer is ready, and the system has taken all before it.
    fn can_write(&self) -> bool {
        matches!(self.slots.front(), Some(Slot::Ready(_))) && self.output.is_empty()
    }

    /// False when the client is gone.
    fn write(&mut self) -> bool {
        while let Some(Slot::Ready(_)) = self.slots.front()
            && self.output.len() - self.written < UNREAD
        {
            if let Some(Slot::Ready(bytes)) = self.slots.pop_front() {
                self.output.extend_from_slice(&bytes);
            }
        }
        while self.written < self.output.len() {
            match self.stream.write(&self.output[self.written..]) {
                Ok(0) => return false,
                Ok(bytes) => self.written += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        self.output.clear();
        self.written = 0;
        true
    }
}
