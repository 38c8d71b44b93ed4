//! What was answered survives: a log of changes, and now and then a snapshot.
//!
//! A folder has `snapshot-N` and `log-N`: the state is the first and then the second. Each line is
//! eight hexadecimal digits, CRC-32 of the rest, a space and JSON. What a crash tore off the end of
//! a log was not answered; it is cut off at the next start, and said. What is not whole and has
//! whole lines after it was altered by somebody: such a log is not used, and stays as it is. A
//! snapshot is written beside itself, brought to the disk and put in place, and only then is the
//! log before it removed.
//!
//! Many changes are brought to the disk by one call: whoever waits for his own waits for a round.
//! Both files are written and read a line at a time: a million nodes are in memory once.

use super::ratios::Ratios;
use super::{Change, Directory, Entry, Measured, NodeChange, Source};
use cavy_coords::start::Placed;
use cavy_coords::{Config, Coordinate, Point};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
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

/// What a snapshot says of a node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct NodeLine {
    said: NodeChange,
    place: Option<Place>,
    by_agent: bool,
    /// Peers are numbered by the order of nodes.
    measured: Vec<Measured>,
}

/// A line of a snapshot or a log.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
enum Line {
    /// A node with what it learnt.
    Node(NodeLine),
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

/// A line without its sum. Nearly all lines of a snapshot are nodes; known by how they begin, they
/// need not be held as anything else first, which took longer than all the rest.
fn parsed(json: &[u8]) -> Option<Line> {
    if json.starts_with(br#"{"line":"node","#) {
        return serde_json::from_slice(json).ok().map(Line::Node);
    }
    serde_json::from_slice(json).ok()
}

/// How much of a file is whole.
#[derive(Default)]
struct Extent {
    /// Bytes of the lines before the first that is not whole.
    good: u64,
    /// Bytes of all.
    all: u64,
    /// Whole lines after the first that is not.
    follow: u64,
}

/// Reads lines up to the first that is not whole, and looks at those after it.
fn lines(mut from: impl BufRead, mut each: impl FnMut(Line)) -> io::Result<Extent> {
    let (mut read, mut text) = (Extent::default(), Vec::new());
    loop {
        text.clear();
        let length = from.read_until(b'\n', &mut text)? as u64;
        if length == 0 {
            return Ok(read);
        }
        let line = text.strip_suffix(b"\n").and_then(|text| text.split_at_checked(9));
        let line = line.and_then(|(sum, json)| {
            let sum = std::str::from_utf8(sum).ok()?.strip_suffix(' ')?;
            let sum = u32::from_str_radix(sum, 16).ok()?;
            if sum == crc32fast::hash(json) { parsed(json) } else { None }
        });
        match line {
            Some(line) if read.good == read.all => {
                each(line);
                read.good += length;
            }
            Some(_) => read.follow += 1,
            None => {}
        }
        read.all += length;
    }
}

impl Directory {
    /// Writes a snapshot of everything.
    fn write_snapshot(&self, to: &mut impl Write) -> io::Result<()> {
        // Of numbers as they are now, those in the snapshot; of nobody for those that are gone.
        let mut numbers = vec![u32::MAX; self.nodes.len()];
        for ((node, _), number) in self.all().zip(0..) {
            numbers[node as usize] = number;
        }
        let mut count = 0;
        let mut add = |of: &Line| {
            count += 1;
            to.write_all(&line(of))
        };
        for (_, entry) in self.all() {
            let place = entry.coordinate().map(|own| Place {
                vector: own.position.vector(),
                height_ms: own.height_ms,
                error: own.error,
                system: own.system,
                updates: own.updates,
            });
            let renamed = |one: &Measured| {
                let peer = numbers.get(one.peer as usize).filter(|peer| **peer != u32::MAX)?;
                Some(Measured { peer: *peer, ..*one })
            };
            let measured = entry.measured.iter().filter_map(renamed).collect();
            let (said, by_agent) = (entry.said.clone(), entry.by_agent);
            add(&Line::Node(NodeLine { said, place, by_agent, measured }))?;
        }
        for (of, (sum, region_count)) in &self.regions {
            let ratios = self.by_region.get(of).cloned();
            add(&Line::Region { of: *of, sum: *sum, count: *region_count, ratios })?;
        }
        for (of, ratios) in &self.by_source {
            add(&Line::Ratio { of: *of, ratios: ratios.clone() })?;
        }
        for (source, last) in &self.sources {
            add(&Line::Known { source: source.clone(), last: *last })?;
        }
        to.write_all(&line(&Line::End { lines: count }))
    }

    fn take(&mut self, line: Line) {
        match line {
            Line::Node(NodeLine { said, place, by_agent, measured }) => {
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
                let latest = measured.iter().map(|one| one.at_s).max();
                self.latest_s = self.latest_s.max(latest.unwrap_or(0));
                self.add(Entry { said, placed, by_agent, measured, cell: 0 });
            }
            Line::Region { of, sum, count, ratios } => {
                self.regions.insert(of, (sum, count));
                if let Some(ratios) = ratios {
                    self.by_region.insert(of, ratios);
                }
                self.note(of);
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
    /// The log that comes after the one in force, where a snapshot has taken its place.
    next: Option<File>,
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
    folder: PathBuf,
    /// Of the snapshot and the log in force.
    number: Mutex<u64>,
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
    /// When the system refuses; when a snapshot is not whole: it was put in place whole, so
    /// somebody has altered it; and when a log is not whole before its end.
    pub fn open(folder: &Path, model: Config) -> io::Result<(Log, Directory, Loaded)> {
        fs::create_dir_all(folder)?;
        let mut directory = Directory::new(model);
        let snapshots = numbers(folder, "snapshot")?;
        let number = snapshots.last().copied().unwrap_or(0);
        if number > 0 {
            let path = named(folder, "snapshot", number);
            let (mut count, mut end) = (0_u64, None);
            let read = lines(BufReader::new(File::open(&path)?), |line| match line {
                Line::End { lines } => end = Some(lines),
                line => {
                    count += 1;
                    directory.take(line);
                }
            })?;
            if end != Some(count) || read.good != read.all {
                let why = format!("{} is not whole after byte {}", path.display(), read.good);
                return Err(io::Error::other(why));
            }
        }
        let path = named(folder, "log", number);
        let mut file = OpenOptions::new().create(true).append(true).read(true).open(&path)?;
        let mut changes = 0;
        let Extent { good, all, follow } = lines(BufReader::new(File::open(&path)?), |line| {
            changes += 1;
            directory.take(line);
        })?;
        if follow > 0 {
            let path = path.display();
            return Err(io::Error::other(format!(
                "{path} is damaged at byte {good}, and {follow} whole changes follow; put the file \
                 back as it was, or give them up with `truncate -s {good} {path}`"
            )));
        }
        let torn = all - good;
        if torn > 0 {
            file.set_len(good)?;
        }
        file.sync_all()?;
        file.flush()?;
        File::open(folder)?.sync_all()?;
        let queue = Queue { bytes: good, ..Queue::default() };
        let shared = Arc::new(Shared {
            queue: Mutex::new(queue),
            more: Condvar::new(),
            done: Condvar::new(),
        });
        let writer = Writer { file, good, shared: Arc::clone(&shared) };
        let thread = std::thread::Builder::new().name("log".to_string());
        let thread = thread.spawn(|| writer.run())?;
        let loaded = Loaded { nodes: directory.len(), changes, torn };
        let (folder, number) = (folder.to_path_buf(), Mutex::new(number));
        Ok((Log { folder, number, shared, thread: Some(thread) }, directory, loaded))
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

    /// Puts a snapshot in the place of the log. Nothing may be appended meanwhile; whoever only
    /// reads the directory need not wait.
    ///
    /// # Errors
    /// When the disk does not take it. The log that it would have replaced stays.
    pub fn compact(&self, directory: &Directory) -> io::Result<()> {
        let mut number = self.number.lock().unwrap_or_else(PoisonError::into_inner);
        let appended = self.shared.lock().appended;
        self.wait(appended).map_err(io::Error::other)?;
        let next = *number + 1;
        let beside = self.folder.join("snapshot.new");
        let mut file = BufWriter::with_capacity(1 << 16, File::create(&beside)?);
        directory.write_snapshot(&mut file)?;
        file.into_inner()?.sync_all()?;
        let path = named(&self.folder, "log", next);
        let log = OpenOptions::new().create(true).append(true).open(path)?;
        log.set_len(0)?;
        log.sync_all()?;
        fs::rename(&beside, named(&self.folder, "snapshot", next))?;
        File::open(&self.folder)?.sync_all()?;
        let mut queue = self.shared.lock();
        queue.next = Some(log);
        queue.bytes = 0;
        drop(queue);
        for kind in ["snapshot", "log"] {
            // Left behind it does no harm: the highest number counts.
            let _ = fs::remove_file(named(&self.folder, kind, *number));
        }
        *number = next;
        Ok(())
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
    file: File,
    /// Bytes of the log that are whole.
    good: u64,
    shared: Arc<Shared>,
}

impl Writer {
    fn run(mut self) {
        loop {
            let mut queue = self.shared.lock();
            while queue.pending.is_empty() && !queue.ends {
                queue = self.shared.more.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            if queue.pending.is_empty() {
                return;
            }
            let ends = queue.ends;
            if let Some(next) = queue.next.take() {
                (self.file, self.good) = (next, 0);
            }
            let pending = std::mem::take(&mut queue.pending);
            let upto = queue.appended;
            drop(queue);
            let done = self.write(&pending);
            let mut queue = self.shared.lock();
            match done {
                Ok(()) => {
                    queue.synced = upto;
                    queue.failed = None;
                }
                Err(error) => {
                    queue.failed = Some(format!("cannot write the log: {error}"));
                    // Before what came meanwhile.
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
}
