//! How recordings are written and read: a header, a line for each entry, and a last line.

use super::{ReplayError, Summary};
use cavy_core::Digest;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Longer lines are damage. Headers are the longest, for they name types and bounds.
const LINE_MAX_BYTES: u64 = 1 << 20;

/// Entries kept before they go to the writing thread.
const BATCH: usize = 1_024;

/// Batches that may wait for the disk; beyond a million entries the recording is given up.
const BATCHES_MAX: usize = 1_024;

/// Why a recording ends that cannot keep up.
const SLOW: &str = "the disk is slower than the run";

/// How long a disk may take nothing at all before the end of a recording is given up.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is a line of a recording.
pub(super) trait Entry: Send + 'static {
    /// Writes it, without the line's end. `sum` is that of all lines before.
    fn write(&self, line: &mut Vec<u8>, sum: u64);
}

/// The last line.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Footer {
    inputs: u64,
    digest: String,
    /// Fingerprint of the lines before; absent in recordings older than it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sum: Option<String>,
    /// Why the recording ended before the run did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stopped: Option<String>,
}

/// A fingerprint as recordings have it.
pub(super) fn hex(digest: u64) -> String {
    format!("{digest:016x}")
}

/// The fingerprint that `text` is.
pub(super) fn unhex(what: &str, text: &str) -> Result<u64, String> {
    u64::from_str_radix(text, 16).map_err(|error| format!("{what} {text:?}: {error}"))
}

/// Folds a line with its end into a sum, eight bytes at a time.
fn fold_line(sum: &mut Digest, line: &[u8]) {
    for chunk in line.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        sum.fold(u64::from_le_bytes(word));
    }
    sum.fold(line.len() as u64);
}

/// Lines on their way into a file.
struct Text<W: Write> {
    to: BufWriter<W>,
    sum: Digest,
    line: Vec<u8>,
}

impl<W: Write> Text<W> {
    fn new(to: W) -> Self {
        Text { to: BufWriter::with_capacity(1 << 16, to), sum: Digest::new(), line: Vec::new() }
    }

    fn line(&mut self, write: impl FnOnce(&mut Vec<u8>, u64)) -> io::Result<()> {
        self.line.clear();
        write(&mut self.line, self.sum.value());
        self.line.push(b'\n');
        fold_line(&mut self.sum, &self.line);
        self.to.write_all(&self.line)
    }

    fn value(&mut self, value: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_vec(value)?;
        self.line(|line, _| line.extend_from_slice(&text))
    }

    fn footer(&mut self, end: Summary, stopped: Option<&str>) -> io::Result<()> {
        let footer = Footer {
            inputs: end.inputs,
            digest: hex(end.digest),
            sum: Some(hex(self.sum.value())),
            stopped: stopped.map(str::to_string),
        };
        self.value(&footer)?;
        self.to.flush()
    }
}

enum Batch<E> {
    Entries(Vec<E>),
    End(Summary),
    Stop(Summary, &'static str),
}

struct Writing<E> {
    to: Sender<Batch<E>>,
    /// Batches that were written, to be filled again.
    back: Receiver<Vec<E>>,
    thread: JoinHandle<io::Result<()>>,
}

/// Where the entries of a recording go: into memory, and from there to a thread that writes them,
/// so that whoever holds the machine never waits for a disk.
pub(super) struct Sink<E> {
    kept: Vec<E>,
    /// Batches that were handed over and did not come back.
    waiting: usize,
    spare: Vec<Vec<E>>,
    /// What the batches handed over come to.
    handed: Summary,
    writing: Option<Writing<E>>,
    /// Why nothing is written any more.
    fault: Option<io::Error>,
    closed: bool,
}

impl<E: Entry> Sink<E> {
    /// A recording at `path` that begins with `header`.
    pub(super) fn create(path: &Path, header: &impl Serialize) -> io::Result<Sink<E>> {
        Sink::to(File::create(path)?, header)
    }

    fn to(file: impl Write + Send + 'static, header: &impl Serialize) -> io::Result<Sink<E>> {
        let mut text = Text::new(file);
        text.value(header)?;
        text.to.flush()?;
        let (to, batches) = mpsc::channel();
        let (written, back) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("cavy-record".to_string())
            .spawn(move || write(text, &batches, &written))?;
        Ok(Sink {
            kept: Vec::with_capacity(BATCH),
            waiting: 0,
            spare: Vec::new(),
            handed: Summary { inputs: 0, digest: Digest::new().value() },
            writing: Some(Writing { to, back, thread }),
            fault: None,
            closed: false,
        })
    }

    /// Is it time for [`Sink::flush`]?
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.kept.len() >= BATCH
    }

    /// One entry more.
    #[inline]
    pub(super) fn push(&mut self, entry: E) {
        self.kept.push(entry);
    }

    /// Hands over what is kept; `so_far` is what all entries come to. Nothing that the disk does
    /// makes this wait.
    pub(super) fn flush(&mut self, so_far: Summary) {
        let Some(Writing { to, back, .. }) = self.writing.as_ref().filter(|_| self.fault.is_none())
        else {
            self.kept.clear();
            return;
        };
        for mut batch in back.try_iter() {
            batch.clear();
            self.waiting -= 1;
            self.spare.push(batch);
        }
        if self.waiting >= BATCHES_MAX {
            // A writer that met an error is gone, and its error is told by `finish`.
            let _ = to.send(Batch::Stop(self.handed, SLOW));
            self.fault = Some(io::Error::other(SLOW));
            (self.kept, self.spare) = (Vec::new(), Vec::new());
            return;
        }
        let next = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(BATCH));
        let full = std::mem::replace(&mut self.kept, next);
        self.waiting += 1;
        match to.send(Batch::Entries(full)) {
            Ok(()) => self.handed = so_far,
            Err(_) => {
                let ended = || io::Error::other("the writing thread ended");
                self.fault = Some(self.join().err().unwrap_or_else(ended));
            }
        }
    }

    /// Is nothing kept that was not handed over?
    pub(super) fn is_flushed(&self) -> bool {
        self.kept.is_empty()
    }

    /// Why nothing is written any more. What was handed over before still is, as the disk allows.
    pub(super) fn fault(&self) -> Option<&io::Error> {
        self.fault.as_ref()
    }

    /// Hands over the rest and the last line.
    pub(super) fn close(&mut self, end: Summary) {
        if std::mem::replace(&mut self.closed, true) {
            return;
        }
        self.flush(end);
        if let Some(writing) = self.writing.as_ref().filter(|_| self.fault.is_none()) {
            let _ = writing.to.send(Batch::End(end));
        }
    }

    /// Closes, and waits until the file is complete.
    pub(super) fn finish(&mut self, end: Summary) -> io::Result<()> {
        self.close(end);
        let joined = self.join();
        self.fault.take().map_or(joined, Err)
    }

    fn join(&mut self) -> io::Result<()> {
        let Some(Writing { to, back, thread }) = self.writing.take() else { return Ok(()) };
        drop(to);
        loop {
            match back.recv_timeout(PATIENCE) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => return Err(io::Error::other(SLOW)),
            }
        }
        thread.join().map_err(|_| io::Error::other("the writing thread panicked"))?
    }
}

fn write<E: Entry>(
    mut text: Text<impl Write>,
    batches: &Receiver<Batch<E>>,
    written: &Sender<Vec<E>>,
) -> io::Result<()> {
    loop {
        let batch = match batches.try_recv() {
            Ok(batch) => batch,
            Err(TryRecvError::Disconnected) => return text.to.flush(),
            Err(TryRecvError::Empty) => {
                // What came until now survives the end of the process.
                text.to.flush()?;
                match batches.recv() {
                    Ok(batch) => batch,
                    Err(_) => return Ok(()),
                }
            }
        };
        match batch {
            Batch::Entries(entries) => {
                for entry in &entries {
                    text.line(|line, sum| entry.write(line, sum))?;
                }
                // Nobody takes them back from a run that has ended.
                let _ = written.send(entries);
            }
            Batch::End(end) => return text.footer(end, None),
            Batch::Stop(end, why) => return text.footer(end, Some(why)),
        }
    }
}

/// What a last line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) summary: Summary,
    /// Why the recording ended before the run did.
    pub(super) stopped: Option<String>,
}

/// The lines of a recording, one by one.
pub(super) struct Lines<R> {
    from: BufReader<R>,
    /// Of the line read last, from 1.
    number: u64,
    sum: Digest,
    /// The sum before the line read last.
    before: u64,
    text: Vec<u8>,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(from: R) -> Self {
        let sum = Digest::new();
        let before = sum.value();
        Lines { from: BufReader::new(from), number: 0, sum, before, text: Vec::new() }
    }

    /// Reads one line; false when it is none, or only the beginning of one.
    fn read(&mut self) -> Result<bool, ReplayError> {
        self.text.clear();
        self.number += 1;
        let mut bounded = self.from.by_ref().take(LINE_MAX_BYTES);
        bounded.read_until(b'\n', &mut self.text)?;
        // Without the line's end, an array or an object ends with its own bracket.
        let whole = match self.text.last() {
            Some(b'\n') => true,
            Some(b']' | b'}') => serde_json::from_slice::<IgnoredAny>(&self.text).is_ok(),
            _ => false,
        };
        if !whole && self.text.len() as u64 == LINE_MAX_BYTES {
            return Err(self.fault(format!("longer than {LINE_MAX_BYTES} bytes")));
        }
        self.before = self.sum.value();
        fold_line(&mut self.sum, &self.text);
        Ok(whole)
    }

    /// The first line as a header.
    pub(super) fn header<H: DeserializeOwned>(&mut self) -> Result<H, ReplayError> {
        self.read()?;
        serde_json::from_slice(&self.text)
            .map_err(|error| self.fault(format!("no header: {error}")))
    }

    /// Is this the format that the program reads?
    pub(super) fn check_version(&self, found: u32, known: u32) -> Result<(), ReplayError> {
        match found == known {
            true => Ok(()),
            false => Err(self.fault(format!("format {found}; this program reads {known}"))),
        }
    }

    /// Goes to the next line. False at the end of the file, and at the beginning of a line: that is
    /// where a run was killed.
    pub(super) fn advance(&mut self) -> Result<bool, ReplayError> {
        self.read()
    }

    /// The line.
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Its number, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Something is wrong with it.
    pub(super) fn fault(&self, what: String) -> ReplayError {
        ReplayError::Line { line: self.number, what }
    }

    /// Are the lines before this one those whose sum was `recorded`, as far as it can tell? The
    /// first line that may differ is `since`.
    pub(super) fn check_sum(&self, recorded: u64, since: u64) -> Result<(), ReplayError> {
        match recorded == self.before {
            true => Ok(()),
            false => Err(self.fault(format!(
                "lines {since} to {} are not those that were written; the file is damaged",
                self.number - 1
            ))),
        }
    }

    /// The line as the last one, `None` if it is none; `since` as for [`Lines::check_sum`].
    pub(super) fn end(&mut self, since: u64) -> Result<Option<End>, ReplayError> {
        if self.text.first() != Some(&b'{') {
            return Ok(None);
        }
        let fault = |error: serde_json::Error| self.fault(error.to_string());
        let footer: Footer = serde_json::from_slice(&self.text).map_err(fault)?;
        let number = |what: &str, text: &str| unhex(what, text).map_err(|what| self.fault(what));
        if let Some(sum) = &footer.sum {
            self.check_sum(number("sum", sum)?, since)?;
        }
        let summary = Summary { inputs: footer.inputs, digest: number("digest", &footer.digest)? };
        if !self.from.fill_buf()?.is_empty() {
            return Err(self.fault("something after the last line".to_string()));
        }
        Ok(Some(End { summary, stopped: footer.stopped }))
    }
}

/// The values of a line that is an array, in order.
#[derive(Debug)]
pub struct Fields(std::vec::IntoIter<serde_json::Value>);

impl Fields {
    pub(super) fn of(text: &[u8]) -> Result<Fields, String> {
        let all: Vec<_> = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        Ok(Fields(all.into_iter()))
    }

    /// The next value, if there is one.
    pub(super) fn next(&mut self) -> Option<serde_json::Value> {
        self.0.next()
    }

    /// The next value.
    ///
    /// # Errors
    /// That `what` is missing.
    pub fn value(&mut self, what: &str) -> Result<serde_json::Value, String> {
        self.next().ok_or_else(|| format!("{what} is missing"))
    }

    /// The next value, an integer from 0 to `most`.
    ///
    /// # Errors
    /// What is wrong, with its name `what`.
    pub fn number(&mut self, what: &str, most: u64) -> Result<u64, String> {
        let value = self.value(what)?;
        let number = value.as_u64().filter(|&number| number <= most);
        number.ok_or_else(|| format!("{what} is {value}; it must be 0 to {most}"))
    }

    /// The next value, an integer of so many bits.
    ///
    /// # Errors
    /// What is wrong, with its name `what`.
    pub fn small<T: TryFrom<u64>>(&mut self, what: &str, bits: u32) -> Result<T, String> {
        let number = self.number(what, u64::MAX >> (64 - bits))?;
        T::try_from(number).map_err(|_| format!("{what} is {number}, which is too large"))
    }

    /// Nothing follows.
    pub(super) fn end(mut self) -> Result<(), String> {
        match self.next() {
            None => Ok(()),
            Some(_) => Err("too many values".to_string()),
        }
    }
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
