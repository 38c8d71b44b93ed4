//! What was answered survives: a log of changes, and now and then a snapshot.
//!
//! A folder has `snapshot-N` and `log-N`: the state is the first and then the second. Each line is
//! eight hexadecimal digits, CRC-32 of the rest, a space and JSON. What a crash tore off the end of
//! a log was not answered; it is cut off at the next start, and said. A snapshot is written beside
//! itself, brought to the disk and put in place, and only then is the log before it removed.
//!
//! Many changes are brought to the disk by one call: whoever waits for his own waits for a round.

use super::ratios::Ratios;
use super::{Change, Directory, Entry, Measured, NodeChange, Source};
use cavy_coords::start::Placed;
use cavy_coords::{Config, Coordinate, Point};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A failed write is tried again after so long.
const AGAIN: Duration = Duration::from_millis(500);
/// Bytes that wait for a disk that does not take them, at most.
const PENDING_MAX: usize = 64 << 20;

/// A coordinate in a snapshot.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
struct Place {
    vector: [f64; 3],
    height_ms: f64,
    error: f64,
    system: u32,
    updates: u32,
}

/// A line of a snapshot or a log.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
enum Line {
    /// A node with what it learnt; peers are numbered by the order of nodes.
    Node {
        said: NodeChange,
        place: Option<Place>,
        by_agent: bool,
        measured: Vec<Measured>,
    },
    Region {
        of: (u16, u16),
        sum: f64,
        count: f64,
        ratios: Option<Ratios>,
    },
    Ratio {
        of: Source,
        ratios: Ratios,
    },
    Known {
        source: String,
        last: u64,
    },
    /// The end of a snapshot, with the lines before it.
    End {
        lines: u64,
    },
    Change {
        change: Change,
    },
}

fn line(of: &Line) -> Vec<u8> {
    // No key of these maps is anything but text.
    let json = serde_json::to_vec(of).unwrap_or_default();
    let mut bytes = format!("{:08x} ", crc32fast::hash(&json)).into_bytes();
    bytes.extend_from_slice(&json);
    bytes.push(b'\n');
    bytes
}

/// Reads lines up to the first that is not whole: how many bytes those before it have.
fn lines(bytes: &[u8], mut each: impl FnMut(Line)) -> usize {
    let mut good = 0;
    while let Some(length) = bytes[good..].iter().position(|byte| *byte == b'\n') {
        let text = &bytes[good..good + length];
        let Some((sum, json)) = text.split_at_checked(9) else { break };
        let sum = std::str::from_utf8(sum)
            .ok()
            .and_then(|sum| u32::from_str_radix(sum.strip_suffix(' ')?, 16).ok());
        if sum != Some(crc32fast::hash(json)) {
            break;
        }
        let Ok(line) = serde_json::from_slice(json) else { break };
        each(line);
        good += length + 1;
    }
    good
}

impl Directory {
    /// A snapshot of everything.
    pub fn snapshot(&self) -> Vec<u8> {
        let numbers: BTreeMap<u32, u32> =
            self.all().zip(0..).map(|((node, _), number)| (node, number)).collect();
        let (mut out, mut count) = (Vec::new(), 0);
        let mut add = |of: &Line| {
            out.extend(line(of));
            count += 1;
        };
        for (_, entry) in self.all() {
            let place = entry.coordinate().map(|own| Place {
                vector: own.position.vector(),
                height_ms: own.height_ms,
                error: own.error,
                system: own.system,
                updates: own.updates,
            });
            let renamed =
                |one: &Measured| Some(Measured { peer: *numbers.get(&one.peer)?, ..*one });
            let measured = entry.measured.iter().filter_map(renamed).collect();
            let (said, by_agent) = (entry.said.clone(), entry.by_agent);
            add(&Line::Node { said, place, by_agent, measured });
        }
        for (of, (sum, region_count)) in &self.regions {
            let ratios = self.by_region.get(of).cloned();
            add(&Line::Region { of: *of, sum: *sum, count: *region_count, ratios });
        }
        for (of, ratios) in &self.by_source {
            add(&Line::Ratio { of: *of, ratios: ratios.clone() });
        }
        for (source, last) in &self.sources {
            add(&Line::Known { source: source.clone(), last: *last });
        }
        out.extend(line(&Line::End { lines: count }));
        out
    }

    fn take(&mut self, line: Line) {
        match line {
            Line::Node { said, place, by_agent, measured } => {
                let node = self.nodes.len() as u32;
                let placed = place.and_then(|place| {
                    let Place { height_ms, error, system, updates, vector } = place;
                    let position = Point::from_vector(vector)?;
                    Some(Placed::At(Coordinate { position, height_ms, error, system, updates }))
                });
                let placed = placed.unwrap_or(Placed::Nowhere {
                    probes: 0,
                    nearest: None,
                    system: said.system,
                });
                self.names.insert(said.id.clone(), node);
                self.nodes.push(Some(Entry { said, placed, by_agent, measured }));
                self.enter_index(node);
            }
            Line::Region { of, sum, count, ratios } => {
                self.regions.insert(of, (sum, count));
                if let Some(ratios) = ratios {
                    self.by_region.insert(of, ratios);
                }
            }
            Line::Ratio { of, ratios } => drop(self.by_source.insert(of, ratios)),
            Line::Known { source, last } => drop(self.sources.insert(source, last)),
            Line::Change { change } => drop(self.apply(&change)),
            Line::End { .. } => {}
        }
    }
}

/// What was found in a folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Loaded {
    /// Nodes.
    pub nodes: usize,
    /// Changes of the log.
    pub changes: u64,
    /// Bytes that a crash left of a change that was not answered.
    pub torn: u64,
}

#[derive(Debug, Default)]
struct Queue {
    pending: Vec<u8>,
    appended: u64,
    synced: u64,
    /// Changes of the log in force.
    bytes: u64,
    snapshot: Option<Vec<u8>>,
    failed: Option<String>,
    ends: bool,
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    more: Condvar,
    done: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A log that is written.
#[derive(Debug)]
pub struct Log {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

fn named(folder: &Path, kind: &str, number: u64) -> PathBuf {
    folder.join(format!("{kind}-{number}"))
}

fn numbers(folder: &Path, kind: &str) -> io::Result<Vec<u64>> {
    let mut all: Vec<u64> = fs::read_dir(folder)?
        .flatten()
        .filter_map(|entry| {
            entry.file_name().to_str()?.strip_prefix(kind)?.strip_prefix('-')?.parse().ok()
        })
        .collect();
    all.sort_unstable();
    Ok(all)
}

impl Log {
    /// Reads a folder, which is made if it is not there, and goes on with its log.
    ///
    /// # Errors
    /// When the system refuses, or a snapshot is not whole: it was put in place whole, so somebody
    /// has altered it.
    pub fn open(folder: &Path, model: Config) -> io::Result<(Log, Directory, Loaded)> {
        fs::create_dir_all(folder)?;
        let mut directory = Directory::new(model);
        let snapshots = numbers(folder, "snapshot")?;
        let number = snapshots.last().copied().unwrap_or(0);
        if number > 0 {
            let path = named(folder, "snapshot", number);
            let bytes = fs::read(&path)?;
            let (mut count, mut end) = (0_u64, None);
            let good = lines(&bytes, |line| match line {
                Line::End { lines } => end = Some(lines),
                line => {
                    count += 1;
                    directory.take(line);
                }
            });
            if end != Some(count) || good != bytes.len() {
                let why = format!("{} is not whole after byte {good}", path.display());
                return Err(io::Error::other(why));
            }
        }
        let path = named(folder, "log", number);
        let mut file = OpenOptions::new().create(true).append(true).read(true).open(&path)?;
        let bytes = fs::read(&path)?;
        let mut changes = 0;
        let good = lines(&bytes, |line| {
            changes += 1;
            directory.take(line);
        });
        let torn = (bytes.len() - good) as u64;
        if torn > 0 {
            file.set_len(good as u64)?;
        }
        file.sync_all()?;
        file.flush()?;
        File::open(folder)?.sync_all()?;
        let queue = Queue { bytes: good as u64, ..Queue::default() };
        let shared = Arc::new(Shared {
            queue: Mutex::new(queue),
            more: Condvar::new(),
            done: Condvar::new(),
        });
        let writer = Writer {
            folder: folder.to_path_buf(),
            number,
            file,
            good: good as u64,
            shared: Arc::clone(&shared),
        };
        let thread = std::thread::Builder::new().name("log".to_string());
        let thread = thread.spawn(|| writer.run())?;
        let loaded = Loaded { nodes: directory.len(), changes, torn };
        Ok((Log { shared, thread: Some(thread) }, directory, loaded))
    }

    /// Appends a change; what to wait for. `None` when the disk has not kept up and there is no
    /// room.
    pub fn append(&self, change: &Change) -> Option<u64> {
        let bytes = line(&Line::Change { change: change.clone() });
        let mut queue = self.shared.lock();
        if queue.pending.len() + bytes.len() > PENDING_MAX {
            return None;
        }
        queue.pending.extend_from_slice(&bytes);
        queue.bytes += bytes.len() as u64;
        queue.appended += 1;
        self.shared.more.notify_one();
        Some(queue.appended)
    }

    /// Is there room for a change of about so many bytes?
    pub fn has_room(&self, bytes: usize) -> bool {
        self.shared.lock().pending.len() + 2 * bytes < PENDING_MAX
    }

    /// Returns when everything up to `number` is on the disk.
    ///
    /// # Errors
    /// When it could not be written; it is tried again, so whether it survives is not known.
    pub fn wait(&self, number: u64) -> Result<(), String> {
        let mut queue = self.shared.lock();
        loop {
            if queue.synced >= number {
                return Ok(());
            }
            if let Some(why) = &queue.failed {
                return Err(why.clone());
            }
            queue = self.shared.done.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Why nothing can be written at present, if so.
    pub fn failed(&self) -> Option<String> {
        self.shared.lock().failed.clone()
    }

    /// Bytes of the log since the last snapshot.
    pub fn bytes(&self) -> u64 {
        self.shared.lock().bytes
    }

    /// Puts a snapshot in the place of the log. Nothing may be appended between its taking and
    /// this call.
    pub fn compact(&self, snapshot: Vec<u8>) {
        let mut queue = self.shared.lock();
        if queue.snapshot.is_none() && queue.failed.is_none() && queue.pending.is_empty() {
            queue.snapshot = Some(snapshot);
            queue.bytes = 0;
            self.shared.more.notify_one();
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.shared.lock().ends = true;
        self.shared.more.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Writer {
    folder: PathBuf,
    number: u64,
    file: File,
    /// Bytes of the log that are whole.
    good: u64,
    shared: Arc<Shared>,
}

impl Writer {
    fn run(mut self) {
        loop {
            let mut queue = self.shared.lock();
            while queue.pending.is_empty() && queue.snapshot.is_none() && !queue.ends {
                queue = self.shared.more.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            if queue.pending.is_empty() && queue.snapshot.is_none() {
                return;
            }
            let ends = queue.ends;
            let (snapshot, pending) = (queue.snapshot.take(), std::mem::take(&mut queue.pending));
            let upto = queue.appended;
            drop(queue);
            let done = match &snapshot {
                Some(snapshot) => self.rotate(snapshot),
                None => Ok(()),
            };
            let done = done.and_then(|()| self.write(&pending));
            let mut queue = self.shared.lock();
            match done {
                Ok(()) => {
                    queue.synced = upto;
                    queue.failed = None;
                }
                Err(error) => {
                    queue.failed = Some(format!("cannot write the log: {error}"));
                    // Before what came meanwhile; the snapshot is not tried again, as the log that
                    // it would have replaced is still there.
                    let later = std::mem::replace(&mut queue.pending, pending);
                    queue.pending.extend(later);
                }
            }
            let failed = queue.failed.is_some();
            drop(queue);
            self.shared.done.notify_all();
            if failed {
                if ends {
                    return;
                }
                std::thread::sleep(AGAIN);
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = self.file.write_all(bytes).and_then(|()| self.file.sync_data());
        match written {
            Ok(()) => self.good += bytes.len() as u64,
            // Half a line must not stand before the next one.
            Err(_) => self.file.set_len(self.good)?,
        }
        written
    }

    fn rotate(&mut self, snapshot: &[u8]) -> io::Result<()> {
        let next = self.number + 1;
        let beside = self.folder.join("snapshot.new");
        let mut file = File::create(&beside)?;
        file.write_all(snapshot)?;
        file.sync_all()?;
        let path = named(&self.folder, "log", next);
        let log = OpenOptions::new().create(true).append(true).open(path)?;
        log.set_len(0)?;
        log.sync_all()?;
        fs::rename(&beside, named(&self.folder, "snapshot", next))?;
        File::open(&self.folder)?.sync_all()?;
        for (kind, number) in [("snapshot", self.number), ("log", self.number)] {
            // Left behind it does no harm: the highest number counts.
            let _ = fs::remove_file(named(&self.folder, kind, number));
        }
        (self.number, self.file, self.good) = (next, log, 0);
        Ok(())
    }
}
