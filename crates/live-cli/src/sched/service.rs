//! What the server does, whichever protocol asked for it: sorts requests into types and has them
//! run by the pool.

use super::store::{KEY_BYTES_MAX, Store, StoreError};
use cavy_core::Span;
use cavy_live::pool::JobError;
use cavy_live::{Kind, Pool};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Memory for values that wait to be set and for answers that wait to be fetched, all clients
/// together.
const HELD_BYTES_MAX: usize = 64 << 20;

/// Longest answer to one scan.
const SCAN_BYTES_MAX: usize = 32 << 20;

/// Why a request has no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// There is no room for it; other requests of its type wait already.
    Overloaded(&'static str),
    /// The client asked for something that is not there or not allowed.
    Wrong(String),
    /// The server is about to end.
    Ending,
    /// Something broke.
    Failed(String),
}

/// A type whose service is emulated by waiting.
#[derive(Clone, Debug)]
pub struct Timed {
    /// Its name.
    pub name: String,
    /// Its number.
    pub kind: Kind,
    /// How long it takes.
    pub span: Span,
}

/// What requests are made of.
pub enum Work {
    /// The store, with the numbers of its types.
    Store {
        /// The store.
        store: Arc<dyn Store>,
        /// Reads one key.
        get: Kind,
        /// Reads all keys.
        scan: Kind,
        /// Writes one key.
        set: Kind,
    },
    /// Waiting.
    Timed(Vec<Timed>),
}

/// What is counted beside what the pool counts.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections taken.
    pub connections: AtomicU64,
    /// Connections closed at once because there were too many.
    pub turned_away: AtomicU64,
    /// Connections closed because the client was too slow.
    pub too_slow: AtomicU64,
    /// Connections closed because nothing was asked on them for a long time.
    pub idle: AtomicU64,
    /// Connections closed because the client did not keep to the protocol.
    pub not_understood: AtomicU64,
}

/// The service.
pub struct Service {
    /// Runs it.
    pub pool: Pool,
    /// What is run.
    pub work: Work,
    /// The most keys of the store.
    pub keys_max: u64,
    /// The longest value.
    pub value_bytes_max: usize,
    /// Events of connections.
    pub counters: Counters,
    held: Arc<AtomicUsize>,
    ending: AtomicBool,
}

/// A value or an answer whose memory is accounted for until it is dropped.
pub struct Counted {
    /// It.
    pub bytes: Vec<u8>,
    held: Arc<AtomicUsize>,
    size: usize,
}

impl Counted {
    fn new(bytes: Vec<u8>, held: Arc<AtomicUsize>) -> Self {
        let size = bytes.capacity();
        held.fetch_add(size, Ordering::Relaxed);
        Counted { bytes, held, size }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.held.fetch_sub(self.size, Ordering::Relaxed);
    }
}

/// What a scan came to.
pub struct Scanned {
    /// Keys.
    pub keys: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
    /// The keys as RESP bulk strings, if they were asked for.
    pub list: Counted,
}

impl Service {
    /// A service of `work` on `pool`.
    pub fn new(pool: Pool, work: Work, keys_max: u64, value_bytes_max: usize) -> Self {
        Service {
            pool,
            work,
            keys_max,
            value_bytes_max,
            counters: Counters::default(),
            held: Arc::default(),
            ending: AtomicBool::new(false),
        }
    }

    /// No more work should be sent here.
    pub fn begin_to_end(&self) {
        self.ending.store(true, Ordering::Relaxed);
    }

    /// Whether work should be sent here; else why not. Looks at what is known, and waits for
    /// nothing.
    pub fn ready(&self) -> Result<(), String> {
        if self.ending.load(Ordering::Relaxed) {
            return Err("the server is ending".to_string());
        }
        match &self.work {
            Work::Store { store, .. } => match store.fault() {
                Some(fault) => Err(format!("the store cannot be written: {fault}")),
                None => Ok(()),
            },
            Work::Timed(_) => Ok(()),
        }
    }

    /// The same after a store that could not be written has been tried again. Waits for the disk.
    pub fn ready_again(&self) -> Result<(), String> {
        if let Work::Store { store, .. } = &self.work {
            store.try_again();
        }
        self.ready()
    }

    async fn run<T: Send + 'static>(
        &self,
        kind: Kind,
        job: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        // Answers that clients do not fetch fill the memory; then nothing new is begun.
        if self.held.load(Ordering::Relaxed) > HELD_BYTES_MAX {
            return Err(Refusal::Overloaded("too much waits to be set or fetched"));
        }
        match self.pool.run(kind, job).await {
            Ok(done) => done,
            Err(JobError::Rejected) => Err(Refusal::Overloaded("the queue of its type is full")),
            Err(JobError::Shutdown) => Err(Refusal::Ending),
            Err(error) => Err(Refusal::Failed(error.to_string())),
        }
    }

    fn store(&self) -> Result<(&Arc<dyn Store>, [Kind; 3]), Refusal> {
        match &self.work {
            Work::Store { store, get, scan, set } => Ok((store, [*get, *scan, *set])),
            Work::Timed(_) => Err(Refusal::Wrong(
                "this server emulates service by waiting and has no store; use TIMED TYPE".into(),
            )),
        }
    }

    /// Reads a key.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Counted>, Refusal> {
        let (store, [get, _, _]) = self.store()?;
        check_key(key)?;
        let (store, key, held) = (Arc::clone(store), key.to_vec(), Arc::clone(&self.held));
        let job = move || {
            let found = store.get(&key).map_err(refusal)?;
            Ok(found.map(|value| Counted::new(value, held)))
        };
        self.run(get, job).await
    }

    /// Writes a key.
    pub async fn set(&self, key: &[u8], value: &[u8]) -> Result<(), Refusal> {
        let (store, [_, _, set]) = self.store()?;
        check_key(key)?;
        if value.len() > self.value_bytes_max {
            return Err(Refusal::Wrong(format!(
                "the value has {} bytes, at most {} are allowed",
                value.len(),
                self.value_bytes_max
            )));
        }
        let (store, key) = (Arc::clone(store), key.to_vec());
        let value = Counted::new(value.to_vec(), Arc::clone(&self.held));
        let keys_max = self.keys_max;
        self.run(set, move || store.set(&key, &value.bytes, keys_max).map_err(refusal)).await
    }

    /// Reads all keys; with `list`, gives them.
    pub async fn scan(&self, list: bool) -> Result<Scanned, Refusal> {
        let (store, [_, scan, _]) = self.store()?;
        let (store, held) = (Arc::clone(store), Arc::clone(&self.held));
        let job = move || {
            if held.load(Ordering::Relaxed) > HELD_BYTES_MAX {
                return Err(Refusal::Overloaded("too much waits to be set or fetched"));
            }
            let (mut keys, mut bytes, mut text) = (0, 0, Vec::new());
            let mut visit = |key: &[u8], value: &[u8]| {
                keys += 1;
                bytes += (key.len() + value.len()) as u64;
                if list {
                    text.extend_from_slice(format!("${}\r\n", key.len()).as_bytes());
                    text.extend_from_slice(key);
                    text.extend_from_slice(b"\r\n");
                }
                text.len() <= SCAN_BYTES_MAX
            };
            store.scan(&mut visit).map_err(refusal)?;
            if text.len() > SCAN_BYTES_MAX {
                return Err(Refusal::Failed("the list of keys is longer than 32 MiB".into()));
            }
            Ok(Scanned { keys, bytes, list: Counted::new(text, held) })
        };
        self.run(scan, job).await
    }

    /// Waits as long as the type `name` takes, on a worker.
    pub async fn work(&self, name: &str) -> Result<Span, Refusal> {
        let Work::Timed(types) = &self.work else {
            return Err(Refusal::Wrong(
                "this server does real work; start it with --sleep-service to emulate".into(),
            ));
        };
        let Some(timed) = types.iter().find(|timed| timed.name == name) else {
            let known: Vec<&str> = types.iter().map(|timed| timed.name.as_str()).collect();
            return Err(Refusal::Wrong(format!(
                "there is no such type; there are {}",
                known.join(", ")
            )));
        };
        let span = timed.span;
        let job = move || {
            std::thread::sleep(Duration::from_nanos(span.as_ns()));
            Ok(span)
        };
        self.run(timed.kind, job).await
    }

    /// How many keys there are.
    pub fn len(&self) -> Result<u64, Refusal> {
        self.store()?.0.len().map_err(refusal)
    }

    /// Bytes of values and answers that wait.
    pub fn held_bytes(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}

fn check_key(key: &[u8]) -> Result<(), Refusal> {
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        return Err(Refusal::Wrong(format!(
            "the key has {} bytes, it must have from 1 to {KEY_BYTES_MAX}",
            key.len()
        )));
    }
    Ok(())
}

fn refusal(error: StoreError) -> Refusal {
    match error {
        StoreError::Full => Refusal::Wrong("the store has as many keys as it may have".into()),
        StoreError::Library(reason) => Refusal::Failed(reason),
    }
}
