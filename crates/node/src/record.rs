//! Recordings: everything a machine was told, and when, so that a fresh one decides the same.
//!
//! A file begins with a header: who, with which seed, and words of whoever started the node that
//! say how to build the machine. Then comes a record for each step, framed as in the log, and now
//! and then the fingerprint of all that the machine asked for until then. A node that was killed
//! leaves a recording that is right up to some step. Timers need no names: a replay arms the same
//! ones, and the one that fires is the one that is due first.
//!
//! Whoever is recorded does not wait for a disk: a thread writes, and when it cannot keep up, the
//! recording ends and says so.

use crate::codec::Codec;
use crate::frame::Fields;
use crate::log::{get, put};
use crate::timers::Timers;
use cavy_core::family::Node;
use cavy_core::family::message::{Call, Entry, Input, Protocol, Talker, Via, Work};
use cavy_core::{Cx, Digest, Instant, Out, Outbox, Purpose, Span, Stream};
use std::hash::Hash;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

const MAGIC: [u8; 8] = *b"cavy rec";
const VERSION: u16 = 1;
/// A fingerprint follows so many steps.
const STEPS: u64 = 512;
const BATCH_BYTES: usize = 256 << 10;
/// What is kept reaches the file after so long, however little it is.
const FLUSH: Span = Span::from_ms(250);
/// Batches that may wait for the disk.
const BATCHES: usize = 64;

const START: u8 = 0;
const RX: u8 = 1;
const BROKEN: u8 = 2;
const CALL: u8 = 3;
const STORED: u8 = 4;
const REPLAY: u8 = 5;
const RECOVERED: u8 = 6;
const WORK_DONE: u8 = 7;
const EXPIRE: u8 = 8;
const DIGEST: u8 = 9;
const STOPPED: u8 = 10;

/// What a recording begins with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// Who was recorded.
    pub node: Node,
    /// The seed of its random stream.
    pub seed: u64,
    /// What [`Options::about`](crate::Options::about) was.
    pub about: String,
}

/// One step of a machine.
pub(crate) enum Step<P: Protocol> {
    Start,
    Input(Input<P>),
    Expire,
}

pub(crate) struct Recorder {
    kept: Vec<u8>,
    text: Vec<u8>,
    steps: u64,
    digest: Digest,
    flushed: Instant,
    to: Option<SyncSender<Vec<u8>>>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Recorder {
    pub fn create(path: &Path, header: &Header) -> io::Result<Recorder> {
        let mut file = std::fs::File::create(path)?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&header.node.0.to_le_bytes());
        bytes.extend_from_slice(&header.seed.to_le_bytes());
        bytes.extend_from_slice(&(header.about.len() as u32).to_le_bytes());
        bytes.extend_from_slice(header.about.as_bytes());
        file.write_all(&bytes)?;
        let (to, batches): (_, Receiver<Vec<u8>>) = sync_channel(BATCHES);
        let thread = std::thread::Builder::new()
            .name("cavy-record".to_string())
            .spawn(move || batches.iter().try_for_each(|batch| file.write_all(&batch)))?;
        Ok(Recorder {
            kept: Vec::with_capacity(BATCH_BYTES),
            text: Vec::new(),
            steps: 0,
            digest: Digest::new(),
            flushed: Instant::ZERO,
            to: Some(to),
            thread: Some(thread),
        })
    }

    /// Before a step.
    pub fn note<P: Protocol>(
        &mut self,
        now: Instant,
        wall: Instant,
        step: &Step<P>,
        codec: &impl Codec<P>,
    ) {
        if self.to.is_none() {
            return;
        }
        self.steps += 1;
        self.text.clear();
        write(&mut self.text, now, wall, step, codec);
        put(&mut self.kept, self.steps, &self.text);
    }

    /// After it: what the machine asked for.
    pub fn asked<E: Hash, T: Hash>(&mut self, entries: &[Out<E, T>], now: Instant) {
        if self.to.is_none() {
            return;
        }
        for entry in entries {
            self.digest.fold_value(entry);
        }
        if self.steps.is_multiple_of(STEPS) {
            self.sum();
        }
        if self.kept.len() >= BATCH_BYTES || now.since(self.flushed) >= FLUSH {
            self.flush(now);
        }
    }

    fn sum(&mut self) {
        let mut text = vec![DIGEST];
        text.extend_from_slice(&self.digest.value().to_le_bytes());
        put(&mut self.kept, self.steps, &text);
    }

    /// When something is to be written, if only time passes.
    pub fn deadline(&self) -> Instant {
        if self.kept.is_empty() { Instant::NEVER } else { self.flushed + FLUSH }
    }

    /// Writes what has been kept for long.
    pub fn tick(&mut self, now: Instant) {
        if self.deadline() <= now {
            self.flush(now);
        }
    }

    fn flush(&mut self, now: Instant) {
        self.flushed = now;
        let Some(to) = &self.to else { return };
        let batch = std::mem::replace(&mut self.kept, Vec::with_capacity(BATCH_BYTES));
        if !batch.is_empty() && to.try_send(batch).is_err() {
            // What was handed over is whole; what comes after would have a gap before it.
            self.to = None;
        }
    }

    /// The last fingerprint, and the end. The error says why the recording is not whole.
    pub fn finish(mut self, now: Instant) -> io::Result<u64> {
        self.sum();
        put(&mut self.kept, self.steps, &[STOPPED]);
        self.flush(now);
        let slow = self.to.is_none();
        self.to = None;
        if let Some(thread) = self.thread.take() {
            thread.join().map_err(|_| io::Error::other("the writing thread panicked"))??;
        }
        if slow {
            return Err(io::Error::other("the disk is slower than the run"));
        }
        Ok(self.digest.value())
    }
}

fn long(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn write<P: Protocol>(
    out: &mut Vec<u8>,
    now: Instant,
    wall: Instant,
    step: &Step<P>,
    codec: &impl Codec<P>,
) {
    out.push(match step {
        Step::Start => START,
        Step::Expire => EXPIRE,
        Step::Input(Input::Rx { .. }) => RX,
        Step::Input(Input::Broken { .. }) => BROKEN,
        Step::Input(Input::Call { .. }) => CALL,
        Step::Input(Input::Stored { .. }) => STORED,
        Step::Input(Input::Replay { .. }) => REPLAY,
        Step::Input(Input::Recovered { .. }) => RECOVERED,
        Step::Input(Input::WorkDone { .. }) => WORK_DONE,
    });
    long(out, now.as_ns());
    long(out, wall.as_ns());
    let Step::Input(input) = step else { return };
    match input {
        Input::Rx { from, via, message, arrived } => {
            out.extend_from_slice(&from.0.to_le_bytes());
            out.push(u8::from(*via == Via::Datagram));
            long(out, arrived.as_ns());
            codec.message(message, out);
        }
        Input::Broken { peer } => out.extend_from_slice(&peer.0.to_le_bytes()),
        Input::Call { call, request } => {
            long(out, call.0);
            codec.request(request, out);
        }
        Input::Stored { upto } => long(out, upto.0),
        Input::Replay { entry, record } => {
            long(out, entry.0);
            codec.record(record, out);
        }
        Input::Recovered { torn } => out.push(u8::from(*torn)),
        Input::WorkDone { work, took, finished } => {
            long(out, work.0);
            long(out, took.as_ns());
            out.push(u8::from(*finished));
        }
    }
}

enum Read<P: Protocol> {
    Step(Instant, Instant, Step<P>),
    Digest(u64),
    Stopped,
}

fn read<P: Protocol>(text: &[u8], codec: &impl Codec<P>) -> Option<Read<P>> {
    let mut fields = Fields(text);
    let kind = fields.byte()?;
    if kind == DIGEST {
        return Some(Read::Digest(fields.long()?));
    }
    if kind == STOPPED {
        return Some(Read::Stopped);
    }
    let (now, wall) = (Instant::from_ns(fields.long()?), Instant::from_ns(fields.long()?));
    let input = match kind {
        START => return Some(Read::Step(now, wall, Step::Start)),
        EXPIRE => return Some(Read::Step(now, wall, Step::Expire)),
        RX => {
            let from = Node(fields.word()?);
            let via = if fields.byte()? == 0 { Via::Channel } else { Via::Datagram };
            let arrived = Instant::from_ns(fields.long()?);
            Input::Rx { from, via, message: codec.read_message(fields.0)?, arrived }
        }
        BROKEN => Input::Broken { peer: Node(fields.word()?) },
        CALL => Input::Call { call: Call(fields.long()?), request: codec.read_request(fields.0)? },
        STORED => Input::Stored { upto: Entry(fields.long()?) },
        REPLAY => {
            Input::Replay { entry: Entry(fields.long()?), record: codec.read_record(fields.0)? }
        }
        RECOVERED => Input::Recovered { torn: fields.byte()? != 0 },
        WORK_DONE => {
            let (work, took) = (Work(fields.long()?), Span::from_ns(fields.long()?));
            Input::WorkDone { work, took, finished: fields.byte()? != 0 }
        }
        _ => return None,
    };
    Some(Read::Step(now, wall, Step::Input(input)))
}

/// What a replay came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Replayed {
    /// Steps of the machine.
    pub steps: u64,
    /// Steps up to the last fingerprint, which the fresh machine's was equal to.
    pub agreed: u64,
    /// Fingerprint of all that the fresh machine asked for.
    pub digest: u64,
    /// The recording has its end: the node was not killed.
    pub whole: bool,
}

/// Why a recording cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The file cannot be read.
    #[error("cannot read the recording: {0}")]
    Io(#[from] io::Error),
    /// It is none, or of another program.
    #[error("no recording of a node: {0}")]
    Header(String),
    /// The machine cannot be built.
    #[error("the recording's machine cannot be built: {0}")]
    Machine(String),
    /// A step cannot be read.
    #[error("step {0} of the recording is damaged")]
    Step(u64),
    /// The fresh machine decided something else.
    #[error("the fresh machine parts from the recorded one between steps {after} and {before}")]
    Parted {
        /// Equal up to this step.
        after: u64,
        /// Different at this one.
        before: u64,
    },
}

/// The header of the recording at `path`.
///
/// # Errors
/// A file that cannot be read or is no recording.
pub fn header(path: &Path) -> Result<Header, ReplayError> {
    header_of(&bytes_of(path)?).map(|(header, _)| header)
}

/// All of the recording at `path`. A file that begins otherwise is not read any further: it may be
/// a device without an end.
fn bytes_of(path: &Path) -> Result<Vec<u8>, ReplayError> {
    let file = std::fs::File::open(path)?;
    let mut bytes = Vec::new();
    (&file).take(MAGIC.len() as u64).read_to_end(&mut bytes)?;
    if bytes != MAGIC {
        return Err(ReplayError::Header("it begins with something else".into()));
    }
    bytes.clear();
    (&file).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The header of a recording, and what follows; `bytes` is what stands behind the magic number.
fn header_of(bytes: &[u8]) -> Result<(Header, &[u8]), ReplayError> {
    let mut fields = Fields(bytes);
    let short = || ReplayError::Header("it is too short".into());
    let version = fields.array().map(u16::from_le_bytes).ok_or_else(short)?;
    if version != VERSION {
        let what = format!("it has version {version}, and this program reads {VERSION}");
        return Err(ReplayError::Header(what));
    }
    let node = Node(fields.word().ok_or_else(short)?);
    let seed = fields.long().ok_or_else(short)?;
    let length = fields.word().ok_or_else(short)? as usize;
    let about = String::from_utf8_lossy(fields.take(length).ok_or_else(short)?).into_owned();
    Ok((Header { node, seed, about }, fields.0))
}

/// Lets a fresh machine decide what a recorded one was told.
///
/// # Errors
/// A file that is damaged, or of another program, and a machine that parts from the recorded one.
pub fn replay<M>(
    path: &Path,
    codec: &impl Codec<M::Protocol>,
    make: impl FnOnce(&Header) -> Result<M, String>,
) -> Result<Replayed, ReplayError>
where
    M: Talker,
    M::Timer: Hash,
{
    let bytes = bytes_of(path)?;
    let (header, mut rest) = header_of(&bytes)?;
    let mut machine = make(&header).map_err(ReplayError::Machine)?;
    let mut rng = Stream::keyed(header.seed, header.node.0, Purpose::Machine);
    let mut outbox = Outbox::with_capacity(machine.effects_max());
    let mut timers = Timers::new();
    let mut digest = Digest::new();
    let mut done = Replayed { steps: 0, agreed: 0, digest: digest.value(), whole: false };
    // Half a record at the end is where the node was killed.
    while let Some((number, text, length)) = get(rest) {
        rest = &rest[length..];
        let (now, wall, step) = match read::<M::Protocol>(text, codec) {
            None => return Err(ReplayError::Step(number)),
            Some(Read::Stopped) => {
                done.whole = true;
                break;
            }
            Some(Read::Digest(recorded)) if recorded == digest.value() => {
                done.agreed = number;
                continue;
            }
            Some(Read::Digest(_)) => {
                return Err(ReplayError::Parted { after: done.agreed, before: number });
            }
            Some(Read::Step(now, wall, step)) => (now, wall, step),
        };
        done.steps = number;
        let mut cx = Cx::new(now, &mut rng, &mut outbox).with_wall(wall);
        match step {
            Step::Start => machine.start(&mut cx),
            Step::Input(input) => machine.handle(input, &mut cx),
            Step::Expire => match timers.take() {
                Some(timer) => machine.expire(timer, &mut cx),
                None => {
                    return Err(ReplayError::Parted { after: done.agreed, before: number });
                }
            },
        }
        for entry in outbox.drain() {
            digest.fold_value(&entry);
            match entry {
                Out::Effect(_) => {}
                Out::Arm(timer, at) => timers.arm(timer, at),
                Out::Disarm(timer) => timers.disarm(timer),
            }
        }
        done.digest = digest.value();
    }
    Ok(done)
}
