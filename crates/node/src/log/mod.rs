//! What survives a crash: records, appended in order, stored in groups, read back at the start.
//!
//! **Files.** Segments, each named by its first record: a header, then records. A record is a
//! length, a CRC32C, its number and its bytes. Beside them `lives` counts how often the node was
//! started, and `stored` remembers up to where the log was synced.
//!
//! **Torn or damaged.** A crash may leave a part of what was not synced; such a record is cut off,
//! and all that follow it. A record that was synced must be there: where it is not, or others
//! follow it, the log is damaged, and the node does not start. `stored` is what tells the two apart
//! at the end of the log. It is written without a sync, after the sync that it speaks of, so it
//! never promises too much.
//!
//! **A disk that is full** is waited for: nothing is told to be stored meanwhile. A sync that fails
//! ends the node, because nobody knows what such a disk still has.

pub mod disk;
mod writer;

pub use disk::{Disk, Folder, Pretended};
pub(crate) use writer::{Writer, WriterOptions};

use crate::frame::Fields;
use cavy_core::family::Node;
use cavy_core::family::message::Entry;
use std::io;
use std::path::PathBuf;

const MAGIC: [u8; 8] = *b"cavy log";
/// The version of the log. Later ones are refused.
const VERSION: u16 = 1;
const HEADER: usize = 30;
/// Length and sum of a record.
const FRAME: usize = 8;
const STORED: &str = "stored";
const LIVES: &str = "lives";

/// When a record counts as stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durable {
    /// When it has been synced: it survives a power cut.
    #[default]
    On,
    /// When the system has it: it survives the end of the process, and a power cut only at others.
    Replicated,
}

/// Where the log of a node is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogOptions {
    /// Its folder, made if it is not there.
    pub folder: PathBuf,
    /// When a record counts as stored.
    pub durable: Durable,
    /// A segment is closed when it is so long.
    pub segment_bytes: u64,
}

impl LogOptions {
    /// A log in `folder`, synced, in segments of 64 MiB.
    pub fn at(folder: impl Into<PathBuf>) -> LogOptions {
        let (folder, durable) = (folder.into(), Durable::On);
        LogOptions { folder, durable, segment_bytes: 64 << 20 }
    }
}

/// Why a log cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The system says no.
    #[error("the log cannot be read or written: {0}")]
    Io(#[from] io::Error),
    /// A segment is not one.
    #[error("{file} is no segment of this log: {what}")]
    Segment {
        /// Its name.
        file: String,
        /// Why.
        what: String,
    },
    /// A record that was stored is not there.
    #[error(
        "record {} of the log is damaged: {file}, byte {at}; bring the file back from a backup, or \
         remove the folder and let the node come back by a snapshot of its peers",
        entry.0
    )]
    Damaged {
        /// Which.
        entry: Entry,
        /// In which file.
        file: String,
        /// Where in it.
        at: usize,
    },
    /// Records at the end are missing as a whole.
    #[error("records {} to {} were stored and are not there", from.0, to.0)]
    Missing {
        /// The first.
        from: Entry,
        /// The last.
        to: Entry,
    },
}

/// A log that was read.
pub(crate) struct Opened {
    pub records: Vec<(Entry, Vec<u8>)>,
    /// Something was cut off at the end.
    pub torn: bool,
    /// The life that begins, from 1.
    pub life: u64,
    pub segments: Vec<Segment>,
}

/// A file of records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    pub name: String,
    pub first: u64,
    /// Its last record; `first - 1` when it has none.
    pub last: u64,
    pub bytes: u64,
}

/// Appends a record as it stands in files.
pub(crate) fn put(out: &mut Vec<u8>, entry: u64, bytes: &[u8]) {
    let start = out.len();
    out.extend_from_slice(&(8 + bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&entry.to_le_bytes());
    out.extend_from_slice(bytes);
    let sum = crc32c::crc32c(&out[start + FRAME..]);
    out[start + 4..start + FRAME].copy_from_slice(&sum.to_le_bytes());
}

/// The record at the front of `bytes` and how long it is; `None`: there is no whole one.
pub(crate) fn get(bytes: &[u8]) -> Option<(u64, &[u8], usize)> {
    let mut fields = Fields(bytes);
    let (length, sum) = (fields.word()? as usize, fields.word()?);
    let body = fields.take(length)?;
    let (entry, text) = body.split_first_chunk::<8>()?;
    (crc32c::crc32c(body) == sum).then(|| (u64::from_le_bytes(*entry), text, FRAME + length))
}

pub(crate) fn header(node: Node, format: u32, first: u64) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&node.0.to_le_bytes());
    bytes.extend_from_slice(&format.to_le_bytes());
    bytes.extend_from_slice(&first.to_le_bytes());
    let sum = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

/// What a header says, held against what it should: the first record.
fn read_header(bytes: &[u8], node: Node, format: u32) -> Result<u64, String> {
    let mut fields = Fields(bytes);
    let text = fields.take(HEADER - 4).ok_or("it is shorter than a header")?;
    let sum = fields.word().ok_or("it is shorter than a header")?;
    let mut parts = Fields(text);
    if parts.array() != Some(MAGIC) {
        return Err("it begins with something else".into());
    }
    let version = parts.array().map(u16::from_le_bytes).unwrap_or_default();
    if version != VERSION {
        return Err(format!("it has version {version}, and this program reads {VERSION}"));
    }
    if crc32c::crc32c(text) != sum {
        return Err("the sum of its header is another one".into());
    }
    let (owner, words) = (parts.word().unwrap_or_default(), parts.word().unwrap_or_default());
    if owner != node.0 {
        return Err(format!("it belongs to node {owner}, and this is node {}", node.0));
    }
    if words != format {
        return Err(format!("its records have format {words}, and this program writes {format}"));
    }
    Ok(parts.long().unwrap_or_default())
}

pub(crate) fn segment_name(first: u64) -> String {
    format!("{first:020}.log")
}

/// Reads a number that is kept with its sum; `None` when it is not whole.
fn read_number(disk: &impl Disk, name: &str) -> Option<u64> {
    let bytes = disk.read(name).ok()?;
    let mut fields = Fields(&bytes);
    let (number, sum) = (fields.array::<8>()?, fields.word()?);
    (crc32c::crc32c(&number) == sum).then(|| u64::from_le_bytes(number))
}

fn write_number(disk: &mut impl Disk, name: &str, number: u64, durably: bool) -> io::Result<()> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    disk.replace(name, &bytes, durably)
}

pub(crate) fn mark_stored(disk: &mut impl Disk, upto: u64) -> io::Result<()> {
    write_number(disk, STORED, upto, false)
}

/// Reads the log of `node` and begins a new life.
pub(crate) fn open(disk: &mut impl Disk, node: Node, format: u32) -> Result<Opened, LogError> {
    let life = read_number(disk, LIVES).unwrap_or(0) + 1;
    let stored = read_number(disk, STORED).unwrap_or(0);
    let mut names: Vec<String> = disk.names()?;
    names.retain(|name| name.ends_with(".log"));
    let mut opened = Opened { records: Vec::new(), torn: false, life, segments: Vec::new() };
    let mut expected = None;
    for (place, name) in names.iter().enumerate() {
        let is_last = place + 1 == names.len();
        let bytes = disk.read(name)?;
        let first = match read_header(&bytes, node, format) {
            Ok(first) => first,
            // A segment that was begun and not synced: none of it was told to be stored.
            Err(_) if is_last && bytes.len() < HEADER && expected.is_none_or(|e| stored < e) => {
                disk.remove(name)?;
                opened.torn = true;
                continue;
            }
            Err(what) => return Err(LogError::Segment { file: name.clone(), what }),
        };
        if let Some(next) = expected.filter(|next| *next != first) {
            return Err(LogError::Missing { from: Entry(next), to: Entry(first - 1) });
        }
        let mut next = first;
        let mut at = HEADER;
        while at < bytes.len() {
            match get(&bytes[at..]) {
                Some((entry, text, length)) if entry == next => {
                    opened.records.push((Entry(entry), text.to_vec()));
                    next += 1;
                    at += length;
                }
                _ if is_last && next > stored && !follows(&bytes[at..], next) => {
                    disk.cut(name, at as u64)?;
                    opened.torn = true;
                    break;
                }
                _ => {
                    let (entry, file) = (Entry(next), name.clone());
                    return Err(LogError::Damaged { entry, file, at });
                }
            }
        }
        let name = name.clone();
        opened.segments.push(Segment { name, first, last: next - 1, bytes: at as u64 });
        expected = Some(next);
    }
    let last = expected.map_or(0, |next| next - 1);
    if stored > last {
        return Err(LogError::Missing { from: Entry(last + 1), to: Entry(stored) });
    }
    write_number(disk, LIVES, life, true)?;
    Ok(opened)
}

/// Is there a whole record after `missing` somewhere in `bytes`?
fn follows(bytes: &[u8], missing: u64) -> bool {
    (1..bytes.len().saturating_sub(FRAME + 8)).any(|at| {
        // The number is looked at first: it is cheap, and a sum over each place is not.
        let number = &bytes[at + FRAME..at + FRAME + 8];
        let number = u64::from_le_bytes(number.try_into().unwrap_or_default());
        number > missing && number - missing < 1 << 32 && get(&bytes[at..]).is_some()
    })
}

#[cfg(test)]
mod tests;
