//! What a front end knows and does for its clients: indices, documents, searches.

use super::error::Error;
use super::mapping::Mapping;
use crate::cluster::Cluster;
use crate::cluster::content::{Bytes, Live};
use crate::cluster::keeper::Keeper;
use crate::engine::question::{Finding, Question};
use cavy_core::Span;
use cavy_node::Handle;
use cavy_search::cluster::catalogue::{Catalogue, Change, Refusal};
use cavy_search::cluster::many::{Request, Response};
use cavy_search::cluster::{Map, Told, message};
use cavy_search::ring::{Slice, WHOLE};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Nothing of the cluster is waited for longer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Searches that have a deadline are answered so long before that at the latest.
const MARGIN: Duration = Duration::from_secs(1);
/// Letters of a name that nothing else has, as in Elasticsearch.
pub const NAME: usize = 22;
/// Locks that keep writes of one document in order.
const LOCKS: usize = 1_024;

/// An index, as this front end knows it now.
#[derive(Clone, Debug)]
pub struct Index {
    /// Its name.
    pub name: String,
    /// Its number.
    pub number: u32,
    /// Changes of what follows, so far.
    pub changes: u64,
    /// `{"mappings": ..., "settings": ..., "created": ms}`.
    pub about: Arc<Value>,
    /// Its fields.
    pub mapping: Arc<Mapping>,
}

impl Index {
    /// The name that no other index had or will have.
    pub fn uuid(&self) -> &Value {
        &self.about["uuid"]
    }

    /// The p that is wanted.
    pub fn p(&self) -> u64 {
        self.about["settings"]["roar"]["p"].as_u64().unwrap_or(1)
    }
}

/// What became of a question.
#[derive(Debug)]
pub struct Answer {
    /// Of each part.
    pub findings: Vec<Finding>,
    /// Slices that nobody answered for.
    pub lost: Vec<Slice>,
    /// Parts that were sent.
    pub parts: u32,
    /// What became of each.
    pub told: Vec<Told>,
    /// The deadline passed before all had come.
    pub timed_out: bool,
}

impl Answer {
    /// The share of the ring that was looked at.
    pub fn covered(&self) -> f64 {
        let lost: f64 = self.lost.iter().map(|slice| slice.width() as f64).sum();
        1.0 - lost / WHOLE as f64
    }
}

/// A scroll that is open.
#[derive(Clone, Debug)]
pub struct Scroll {
    /// What it goes over.
    pub index: String,
    /// The search, with where it stopped.
    pub search: crate::engine::question::Search,
    /// Of the last page on.
    pub until: Instant,
    /// How long a page keeps it open.
    pub keep: Duration,
    /// Documents in all.
    pub total: u64,
    /// What of sources clients see.
    pub wanted: super::fetch::Wanted,
    /// In the order of the ring: the id after which the next page begins, and whether all was met.
    pub walk: Option<(u64, bool)>,
}

/// A mapping that was read, by number of index and change.
type Read = BTreeMap<(u32, u64), (Arc<Value>, Arc<Mapping>)>;

/// The front end's side of the cluster.
pub struct Gate {
    /// Who may ask.
    pub(super) keys: super::keys::Keys,
    handle: Handle<Keeper>,
    /// What the cluster was described as.
    pub cluster: Cluster,
    read: Mutex<Read>,
    /// By stripe: writes of one document are made one after the other.
    pub locks: Vec<tokio::sync::Mutex<()>>,
    /// Open scrolls.
    pub scrolls: Mutex<BTreeMap<String, Scroll>>,
    serial: AtomicU64,
    /// When it was started.
    pub since: Instant,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Gate of {:?}", self.handle.node())
    }
}

fn gone() -> Error {
    Error::unavailable("the front end has no lease from the directory, or too many calls wait")
}

impl Gate {
    /// Of a node of a cluster.
    pub fn new(handle: Handle<Keeper>, cluster: Cluster) -> Gate {
        Gate {
            keys: super::keys::Keys::new(&cluster.api_keys),
            handle,
            cluster,
            read: Mutex::default(),
            locks: (0..LOCKS).map(|_| tokio::sync::Mutex::new(())).collect(),
            scrolls: Mutex::default(),
            serial: AtomicU64::new(0),
            since: Instant::now(),
        }
    }

    /// A name of `NAME` letters that is not given twice by this process.
    pub fn name(&self) -> String {
        let mut random = [0; 16];
        let _ = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
        let serial = self.serial.fetch_add(1, Relaxed);
        let mut text = String::with_capacity(NAME);
        const LETTERS: &[u8; 64] =
            b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
        let bytes = random.iter().copied().chain(serial.to_le_bytes().into_iter().take(6));
        let letters = bytes.map(|byte| LETTERS[usize::from(byte & 63)] as char);
        text.extend(letters.map(|letter| if letter == '-' { 'x' } else { letter }));
        if text.starts_with('_') {
            text.replace_range(..1, "y");
        }
        text
    }

    async fn call(&self, request: Request<Live>) -> Result<Response<Live>, Error> {
        let (tell, told) = oneshot::channel();
        self.handle.call(request, move |response| drop(tell.send(response)));
        match tokio::time::timeout(PATIENCE, told).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(_)) => Err(Error::unavailable("the front end ends")),
            Err(_) => Err(Error::new(
                504,
                "timeout_exception",
                format!("the cluster did not answer within {} s", PATIENCE.as_secs()),
            )),
        }
    }

    /// All indices, and the maps by which they are searched.
    pub async fn all(&self) -> Result<(Arc<Catalogue>, BTreeMap<u32, Arc<Map>>), Error> {
        match self.call(Request::Read).await? {
            Response::Catalogue(catalogue, maps) => Ok((catalogue, maps)),
            _ => Err(gone()),
        }
    }

    fn index_of(&self, name: &str, known: &cavy_search::cluster::catalogue::Index) -> Index {
        let key = (known.number, known.changes);
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let (about, mapping) = read
            .entry(key)
            .or_insert_with(|| {
                let about: Value = serde_json::from_slice(&known.about).unwrap_or(json!({}));
                let mapping = Mapping::read(&about["mappings"]);
                let mapping = mapping.or_else(|_| Mapping::read(&json!({})));
                let empty = || unreachable!("an empty mapping can be read");
                (Arc::new(about), Arc::new(mapping.unwrap_or_else(|_| empty())))
            })
            .clone();
        // Older ones of the same index are not asked for again.
        read.retain(|(number, changes), _| *number != key.0 || *changes + 8 > key.1);
        let (number, changes) = key;
        Index { name: name.to_owned(), number, changes, about, mapping }
    }

    /// The index of a name.
    pub async fn index(&self, name: &str) -> Result<Index, Error> {
        let (catalogue, _) = self.all().await?;
        match catalogue.indices.get(name) {
            Some(known) => Ok(self.index_of(name, known)),
            None => Err(Error::no_index(name)),
        }
    }

    /// The indices of an expression: names, `*`, `_all`, with commas between.
    pub async fn indices(&self, expression: &str, lenient: bool) -> Result<Vec<Index>, Error> {
        let (catalogue, _) = self.all().await?;
        let mut found: BTreeMap<String, Index> = BTreeMap::new();
        for part in expression.split(',').filter(|part| !part.is_empty()) {
            let pattern = if part == "_all" { "*" } else { part };
            if pattern.contains('*') {
                for (name, known) in &catalogue.indices {
                    if like(pattern, name) {
                        found.insert(name.clone(), self.index_of(name, known));
                    }
                }
            } else if let Some(known) = catalogue.indices.get(pattern) {
                found.insert(pattern.to_owned(), self.index_of(pattern, known));
            } else if !lenient {
                return Err(Error::no_index(part));
            }
        }
        Ok(found.into_values().collect())
    }

    /// Changes the catalogue.
    pub async fn change(&self, change: Change) -> Result<Result<(), Refusal>, Error> {
        match self.call(Request::Change(change)).await? {
            Response::Told(done) => Ok(done),
            _ => Err(gone()),
        }
    }

    /// Wants another p for an index.
    pub async fn spread(&self, index: u32, p: u32) -> Result<Result<(), Refusal>, Error> {
        match self.call(Request::Spread(index, p)).await? {
            Response::Told(done) => Ok(done),
            _ => Err(gone()),
        }
    }

    /// Gives an index another mapping or other settings; `make` is asked again when somebody else
    /// was faster, and says `None` when there is nothing to change.
    pub async fn alter(
        &self,
        name: &str,
        make: impl Fn(&Index) -> Result<Option<Value>, Error>,
    ) -> Result<Index, Error> {
        for _ in 0..20 {
            let index = self.index(name).await?;
            let Some(about) = make(&index)? else { return Ok(index) };
            let about: Bytes = serde_json::to_vec(&about).unwrap_or_default().into();
            let (number, changes) = (index.number, index.changes);
            let name = name.to_owned();
            match self.change(Change::Alter { name, number, changes, about }).await? {
                Ok(()) | Err(Refusal::Changed) => {}
                Err(Refusal::Missing) => return Err(Error::no_index(&index.name)),
                Err(other) => return Err(refused(other, &index.name, self)),
            }
        }
        Err(Error::unavailable(format!("the fields of [{name}] change all the time")))
    }

    fn answer(response: Response<Live>, name: &str) -> Result<Answer, Error> {
        match response {
            Response::Of(message::Response::Found { found, lost, parts, told, timed_out }) => {
                let read = |bytes: &Bytes| {
                    serde_json::from_slice(bytes)
                        .unwrap_or_else(|error| Finding::Failed(format!("no finding: {error}")))
                };
                let findings: Vec<Finding> = found.0.iter().map(read).collect();
                let failed = findings.iter().find_map(|finding| match finding {
                    Finding::Failed(reason) => Some(reason.clone()),
                    _ => None,
                });
                match failed {
                    Some(reason) => Err(Error::of_finding(reason)),
                    None => Ok(Answer { findings, lost, parts, told, timed_out }),
                }
            }
            _ => Err(Error::no_index(name)),
        }
    }

    fn question(question: &Question) -> Bytes {
        serde_json::to_vec(question).unwrap_or_default().into()
    }

    /// Asks about all documents. With a deadline the answer says what has been met by then.
    pub async fn ask(
        &self,
        index: &Index,
        question: &Question,
        until: Option<Instant>,
    ) -> Result<Answer, Error> {
        let question = Gate::question(question);
        let within = until.map(|until| {
            let left = until.saturating_duration_since(Instant::now()).min(PATIENCE - MARGIN);
            Span::from_ns(left.as_nanos() as u64)
        });
        let request = message::Request::Search { question, within };
        Gate::answer(self.call(Request::Of(index.number, request)).await?, &index.name)
    }

    /// Asks about a slice.
    pub async fn look(
        &self,
        index: &Index,
        slice: Slice,
        question: &Question,
    ) -> Result<Answer, Error> {
        let question = Gate::question(question);
        let request = message::Request::Look { slice, question };
        Gate::answer(self.call(Request::Of(index.number, request)).await?, &index.name)
    }

    /// Asks about all documents, servers of one ring about their own ranges.
    pub async fn by_range(&self, index: &Index, question: &Question) -> Result<Answer, Error> {
        let request = message::Request::Ranges(Gate::question(question));
        Gate::answer(self.call(Request::Of(index.number, request)).await?, &index.name)
    }

    /// Asks every server, of whatever ring, about its own range.
    async fn everywhere(&self, index: &Index, question: &Question) -> Result<Answer, Error> {
        let request = message::Request::Everywhere(Gate::question(question));
        Gate::answer(self.call(Request::Of(index.number, request)).await?, &index.name)
    }

    /// Writes a document; done when every server in step that stores it has logged it.
    pub async fn write(
        &self,
        index: &Index,
        id: u64,
        deleted: bool,
        body: Bytes,
    ) -> Result<(), Error> {
        let request = message::Request::Write { id, deleted, body };
        match self.call(Request::Of(index.number, request)).await? {
            Response::Of(message::Response::Written { .. }) => Ok(()),
            Response::Of(_) => Err(gone()),
            _ => Err(Error::no_index(&index.name)),
        }
    }

    /// Every later answer has all that was acknowledged.
    pub async fn refresh(&self, index: &Index) -> Result<u32, Error> {
        // Servers that were late are asked again: all in step have to say so.
        for _ in 0..20 {
            let answer = self.everywhere(index, &Question::Refresh).await?;
            let (_, maps) = self.all().await?;
            let said = |server: u32| {
                let own = Finding::Refreshed { server };
                answer.findings.contains(&own)
            };
            let Some(map) = maps.get(&index.number) else { continue };
            if (0..map.states.len() as u32).all(|server| !map.is_up(server) || said(server)) {
                return Ok(answer.parts);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Err(Error::unavailable(format!("[{}] could not be refreshed everywhere", index.name)))
    }
}

/// Why the catalogue was not changed.
pub fn refused(refusal: Refusal, name: &str, gate: &Gate) -> Error {
    match refusal {
        Refusal::Exists => Error::new(
            400,
            "resource_already_exists_exception",
            format!("index [{name}] already exists"),
        )
        .with("index", name),
        Refusal::Missing => Error::no_index(name),
        Refusal::Changed => Error::unavailable(format!("[{name}] was changed meanwhile")),
        Refusal::Full => Error::new(
            400,
            "validation_exception",
            "this action would add an index, but this cluster currently has the maximum of 128",
        ),
        Refusal::Spread => Error::argument(format!(
            "[index.roar.p] must be 1 to the number of servers of a ring, [{}]",
            gate.cluster.p_most()
        )),
    }
}

/// Whether a name is like a pattern with stars.
pub fn like(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = name.strip_prefix(parts.next().unwrap_or("")) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::like;

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, name, is) in [
            ("*", "books", true),
            ("boo*", "books", true),
            ("*ks", "books", true),
            ("b*k*s", "books", true),
            ("b*z", "books", false),
            ("bo*oks", "books", true),
            ("books*s", "books", false),
        ] {
            assert_eq!(like(pattern, name), is, "{pattern}");
        }
    }
}
