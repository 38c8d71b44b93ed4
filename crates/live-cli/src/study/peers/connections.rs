//! Who may use one of N connections to a database next: the peers of L2 `[persephone 7.7]`. The
//! database is a process of its own, `cavy-live sched` with as many workers as there are
//! connections, so that nothing ever waits there; what waits, waits for a connection.

use super::{After, Bench, QUEUE_LIMIT, Rig};
use crate::args::PeerName;
use crate::faults::{FAILED, Fault};
use cavy_core::{Instant, Span};
use cavy_live::load::{Outcome, Target, Ticket, clock};
use cavy_live::slots::Slots;
use cavy_live::{Kind, Policy};
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// What the database answers to a query.
const ANSWER: &[u8] = b"+OK\r\n";

/// A database that answers `TIMED type` after the time of the type; it ends with this value.
pub struct Database {
    process: Child,
    address: SocketAddr,
}

impl Drop for Database {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Database {
    /// Starts it, with as many workers as there will be connections.
    pub fn start(types: &[(&str, Span)], workers: u16) -> Result<Database, Fault> {
        let failed = |what: &str, error: &dyn std::fmt::Display| {
            Fault::new(format!("the database process {what}: {error}")).code(FAILED)
        };
        let program = std::env::current_exe().map_err(|error| failed("has no program", &error))?;
        let mut command = Command::new(program);
        command.args(["sched", "--policy", "c-fcfs", "--json", "--http", "off"]);
        command.args(["--resp", "127.0.0.1:0", "--workers", &workers.to_string()]);
        for (name, span) in types {
            command.arg("--sleep-service").arg(format!("{name}={}us", span.as_ns() / 1_000));
        }
        let process = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = process.spawn().map_err(|error| failed("does not start", &error))?;
        let said = process.stdout.take();
        // From here on it ends however this function does.
        let mut database = Database { process, address: SocketAddr::from(([0; 4], 0)) };
        let mut line = String::new();
        if let Some(said) = said {
            let read = BufReader::new(said).read_line(&mut line);
            read.map_err(|error| failed("does not say where it listens", &error))?;
        }
        let said: serde_json::Value = serde_json::from_str(&line)
            .map_err(|error| failed("does not say where it listens", &error))?;
        let address = said["resp"].as_str().unwrap_or_default();
        database.address =
            address.parse().map_err(|error| failed("does not say where it listens", &error))?;
        Ok(database)
    }
}

/// Starts a peer on connections of its own.
pub(super) fn start(peer: PeerName, bench: &Bench, database: &Database) -> Result<Rig, Fault> {
    let failed = |error: &dyn std::fmt::Display| {
        Fault::new(format!("{}: {error}", peer.label())).code(FAILED)
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| failed(&error))?;
    let connect = |count: u16| -> Result<Idle, Fault> {
        let one = |_| runtime.block_on(TcpStream::connect(database.address)).and_then(ready);
        let all = (0..count).map(one).collect::<std::io::Result<Vec<_>>>();
        Ok(Arc::new(Mutex::new(all.map_err(|error| failed(&error))?)))
    };
    let gate = match peer.policy(bench.window) {
        Some(policy) => {
            let slots = slots(policy, bench).map_err(|error| failed(&error))?;
            Gate::Slots(slots, connect(bench.workers)?)
        }
        None => {
            let whole = [bench.workers];
            let split = if peer == PeerName::TwoPools { &bench.split[..] } else { &whole };
            let pool =
                |&count: &u16| Ok((Arc::new(Semaphore::new(usize::from(count))), connect(count)?));
            Gate::Semaphores(split.iter().map(pool).collect::<Result<_, Fault>>()?)
        }
    };
    let (slots, epoch) = match &gate {
        Gate::Slots(slots, _) => {
            let age = slots.stats().at;
            let epoch = clock::now().as_ns().saturating_sub(age.as_ns());
            (Some(slots.clone()), Instant::from_ns(epoch))
        }
        Gate::Semaphores(_) => (None, Instant::ZERO),
    };
    let queries: Arc<[Vec<u8>]> = bench.types.iter().map(|name| query(name)).collect();
    let target = Connections { runtime, gate, queries };
    let end = move || {
        let stats = slots.map(|slots| slots.stats());
        Ok(After { stats, epoch, recording: None })
    };
    Ok(Rig { target: Box::new(target), end: Box::new(end) })
}

fn ready(stream: TcpStream) -> std::io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn slots(policy: Policy, bench: &Bench) -> Result<Slots, cavy_live::setup::BuildError> {
    Slots::builder()
        .slots(bench.workers)
        .types(bench.types.iter().map(String::as_str))
        .policy(policy)
        .queue_limit(QUEUE_LIMIT)
        .build()
}

/// A query as RESP has it.
fn query(kind: &str) -> Vec<u8> {
    format!("*2\r\n$5\r\nTIMED\r\n${}\r\n{kind}\r\n", kind.len()).into_bytes()
}

/// Connections that nobody uses.
type Idle = Arc<Mutex<Vec<TcpStream>>>;

/// Who decides.
enum Gate {
    /// Our slots.
    Slots(Slots, Idle),
    /// A fair semaphore for all types, which is what connection pools have, or one for each type.
    Semaphores(Vec<(Arc<Semaphore>, Idle)>),
}

struct Connections {
    runtime: tokio::runtime::Runtime,
    gate: Gate,
    queries: Arc<[Vec<u8>]>,
}

impl Target for Connections {
    fn submit(&mut self, ticket: Ticket) {
        let queries = Arc::clone(&self.queries);
        match &self.gate {
            Gate::Slots(slots, idle) => {
                let turn = slots.acquire(Kind(ticket.kind() + 1));
                self.runtime.spawn(take_turn(turn, Arc::clone(idle), queries, ticket));
            }
            Gate::Semaphores(pools) => {
                let pool = pools.get(usize::from(ticket.kind())).or(pools.first());
                let Some((semaphore, idle)) = pool else { return };
                let turn = Arc::clone(semaphore).acquire_owned();
                self.runtime.spawn(take_turn(turn, Arc::clone(idle), queries, ticket));
            }
        }
    }
}

/// Waits for a permit, and holds it while the query is under way.
async fn take_turn<P, E>(
    turn: impl Future<Output = Result<P, E>>,
    idle: Idle,
    queries: Arc<[Vec<u8>]>,
    ticket: Ticket,
) {
    match turn.await {
        Ok(permit) => {
            ask(&idle, &queries, ticket).await;
            drop(permit);
        }
        Err(_) => ticket.finish(Outcome::Overloaded),
    }
}

/// One query over an idle connection. There is one for every permit.
async fn ask(idle: &Idle, queries: &[Vec<u8>], ticket: Ticket) {
    let connection = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let (Some(mut connection), Some(query)) = (connection, queries.get(usize::from(ticket.kind())))
    else {
        return ticket.finish(Outcome::ConnectionError);
    };
    let mut answer = [0; ANSWER.len()];
    let answered = match connection.write_all(query).await {
        Ok(()) => connection.read_exact(&mut answer).await,
        Err(error) => Err(error),
    };
    match answered {
        Ok(_) => {
            idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
            let right = answer == ANSWER;
            ticket.finish(if right { Outcome::Answered } else { Outcome::ServerError });
        }
        // The connection is gone, and its slot fails from now on: a run with such is not published.
        Err(_) => ticket.finish(Outcome::ConnectionError),
    }
}
