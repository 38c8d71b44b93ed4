//! Kernel TCP: messages with their length in front, on one connection for each pair of hosts, or on
//! a pool of connections with one message under way on each.

use super::{PORT, Rig, connect, listen, on, runtime, wish};
use crate::faults::Fault;
use crate::study::homa::books::Ticket;
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use cavy_testbed::{Plan, Testbed};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Length in front of a message.
const LENGTH_BYTES: usize = 4;
/// Connections of a pair's pool at the start, and at most.
const POOL: (usize, usize) = (4, 128);
/// What a reader takes from the socket at once.
const READ_BYTES: usize = 1 << 16;

/// How connections are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// One for each pair; messages follow each other.
    Single,
    /// As many as are needed; one message under way on each.
    Pool,
}

type Job = (Bytes, Ticket);

/// Connections from each host to each other.
pub struct Connections {
    /// `pairs[from * hosts + to]`.
    pairs: Vec<Option<Pair>>,
    hosts: u16,
    /// Dropped last: they end all tasks.
    _runtimes: Vec<Runtime>,
}

enum Pair {
    Single(UnboundedSender<Job>),
    Pool(Arc<Pool>),
}

/// The connections of one pair.
struct Pool {
    to: SocketAddr,
    control: &'static str,
    runtime: Handle,
    state: Mutex<PoolState>,
}

#[derive(Default)]
struct PoolState {
    idle: Vec<UnboundedSender<Job>>,
    open: usize,
    waiting: VecDeque<Job>,
}

/// Starts servers on all hosts and connects them.
pub fn start(testbed: &Testbed, control: &'static str, way: Way) -> Result<Connections, Fault> {
    let hosts = testbed.plan().hosts;
    let runtimes: Result<Vec<Runtime>, Fault> = testbed.hosts().iter().map(runtime).collect();
    let runtimes = runtimes?;
    for (host, runtime) in (0..hosts).zip(&runtimes) {
        let listener = on(runtime, listen(host, control))?;
        runtime.spawn(accept(listener));
    }
    let mut pairs = Vec::new();
    for (from, runtime) in (0..hosts).zip(&runtimes) {
        for to in 0..hosts {
            let at = SocketAddr::from((Plan::address(to), PORT));
            let pair = match way {
                _ if from == to => None,
                Way::Single => Some(Pair::Single(on(runtime, single(at, control))?)),
                Way::Pool => {
                    let (runtime_of, state) = (runtime.handle().clone(), Mutex::default());
                    let pool = Arc::new(Pool { to: at, control, runtime: runtime_of, state });
                    on(runtime, warm(Arc::clone(&pool)))?;
                    Some(Pair::Pool(pool))
                }
            };
            pairs.push(pair);
        }
    }
    Ok(Connections { pairs, hosts, _runtimes: runtimes })
}

impl Rig for Connections {
    fn send(&self, from: u16, to: u16, message: Bytes, ticket: Ticket) {
        let place = usize::from(from) * usize::from(self.hosts) + usize::from(to);
        match self.pairs.get(place) {
            Some(Some(Pair::Single(jobs))) => {
                let _ = jobs.send((message, ticket));
            }
            Some(Some(Pair::Pool(pool))) => Pool::send(pool, (message, ticket)),
            _ => {}
        }
    }

    fn sent_again(&self) -> Option<u64> {
        None
    }
}

/// Serves all who connect.
async fn accept(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        // Whoever hangs up, or says what makes no sense, is not served any more.
        tokio::spawn(async move { serve(stream).await });
    }
}

async fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let answers = super::blank();
    let (reader, mut writer) = stream.split();
    let mut reader = BufReader::with_capacity(READ_BYTES, reader);
    let mut message = Vec::new();
    loop {
        read_message(&mut reader, &mut message).await?;
        let bytes = wish(&message).ok_or(io::ErrorKind::InvalidData)?;
        write_message(&mut writer, answers.slice(..bytes)).await?;
    }
}

async fn read_message(
    reader: &mut (impl tokio::io::AsyncRead + Unpin),
    into: &mut Vec<u8>,
) -> io::Result<()> {
    let bytes = reader.read_u32().await? as usize;
    if bytes > super::MESSAGE_MAX_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    into.resize(bytes, 0);
    reader.read_exact(into).await?;
    Ok(())
}

async fn write_message(
    writer: &mut (impl tokio::io::AsyncWrite + Unpin),
    message: Bytes,
) -> io::Result<()> {
    let mut head = BytesMut::with_capacity(LENGTH_BYTES);
    head.put_u32(message.len() as u32);
    writer.write_all_buf(&mut head.chain(message)).await
}

/// A connection on which messages follow each other; answers come in the same order.
async fn single(to: SocketAddr, control: &'static str) -> io::Result<UnboundedSender<Job>> {
    let stream = connect(to, control).await?;
    let (reader, mut writer) = stream.into_split();
    let (jobs, mut queue) = unbounded_channel::<Job>();
    let (sent, mut expected) = unbounded_channel::<Ticket>();
    tokio::spawn(async move {
        while let Some((message, ticket)) = queue.recv().await {
            // Before the answer can come.
            if sent.send(ticket).is_err() || write_message(&mut writer, message).await.is_err() {
                return;
            }
        }
    });
    tokio::spawn(async move {
        let mut reader = BufReader::with_capacity(READ_BYTES, reader);
        let mut answer = Vec::new();
        while read_message(&mut reader, &mut answer).await.is_ok() {
            match expected.recv().await {
                Some(ticket) => ticket.answered(),
                None => return,
            }
        }
    });
    Ok(jobs)
}

/// Opens a pool's first connections.
async fn warm(pool: Arc<Pool>) -> io::Result<()> {
    for _ in 0..POOL.0 {
        let stream = connect(pool.to, pool.control).await?;
        let (jobs, queue) = unbounded_channel();
        let mut state = pool.lock();
        state.open += 1;
        state.idle.push(jobs.clone());
        drop(state);
        tokio::spawn(one_by_one(Arc::clone(&pool), stream, jobs, queue));
    }
    Ok(())
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// On a connection that is idle, or else on a new one while there may be more.
    fn send(pool: &Arc<Pool>, job: Job) {
        let mut state = pool.lock();
        if let Some(idle) = state.idle.pop() {
            let _ = idle.send(job);
        } else if state.open < POOL.1 {
            state.open += 1;
            let own = Arc::clone(pool);
            pool.runtime.spawn(async move {
                let (jobs, queue) = unbounded_channel();
                let _ = jobs.send(job);
                match connect(own.to, own.control).await {
                    Ok(stream) => one_by_one(Arc::clone(&own), stream, jobs, queue).await,
                    Err(_) => own.lock().open -= 1,
                }
            });
        } else {
            state.waiting.push_back(job);
        }
    }

    /// A connection has nothing to do: the job that waits for longest, or it is idle.
    fn next(&self, jobs: &UnboundedSender<Job>) {
        let mut state = self.lock();
        match state.waiting.pop_front() {
            Some(job) => {
                let _ = jobs.send(job);
            }
            None => state.idle.push(jobs.clone()),
        }
    }
}

/// A connection with one message under way.
async fn one_by_one(
    pool: Arc<Pool>,
    stream: TcpStream,
    jobs: UnboundedSender<Job>,
    mut queue: UnboundedReceiver<Job>,
) {
    let serve = async {
        let (reader, mut writer) = stream.into_split();
        let mut reader = BufReader::with_capacity(READ_BYTES, reader);
        let mut answer = Vec::new();
        while let Some((message, ticket)) = queue.recv().await {
            write_message(&mut writer, message).await?;
            read_message(&mut reader, &mut answer).await?;
            ticket.answered();
            pool.next(&jobs);
        }
        io::Result::Ok(())
    };
    if serve.await.is_err() {
        pool.lock().open -= 1;
    }
}
