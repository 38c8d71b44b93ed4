//! The log of a run: everything a machine was told, and when; enough to let it decide again.
//!
//! The format is JSON lines: a header with the configuration, one short array an input, and a
//! footer with the number of inputs and the digest of the machine's decisions. [`replay`] feeds a
//! log to a fresh machine; equal digests mean that it decided the same at every step.
//!
//! ```text
//! {"cavy_recording":1,"workers":14,"types":["get","scan"],...}
//! [1201833,"a",0,1]              arrival of request 0, type 1, at 1 201 833 ns
//! [2208114,"f",3,0,1000210]      worker 3 finished request 0, which took it 1 000 210 ns
//! [5000000,"r",12]               there are 12 workers now
//! {"inputs":3,"digest":"91d2..."}
//! ```

mod policy;

use cavy_core::family::cpu::{Effect, Input, Kind, Req, Timer, Worker};
use cavy_core::{Cx, Digest, Instant, Machine, Out, Outbox, Purpose, Span, Stream};
use cavy_sched::{Policy, PolicyError, TypeHint};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::sync::mpsc;
use std::thread::JoinHandle;

/// The format this code writes, and the only one it reads.
pub const VERSION: u32 = 1;

/// Inputs kept before they go to the writing thread.
const BATCH: usize = 4_096;

/// How the machine of a recording was built.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// [`VERSION`].
    #[serde(rename = "cavy_recording")]
    pub version: u32,
    /// Workers at the start.
    pub workers: u16,
    /// Names of types 1 and up.
    pub types: Vec<String>,
    /// What was known of each type beforehand.
    #[serde(with = "policy::hints")]
    pub hints: Vec<TypeHint>,
    /// The policy.
    #[serde(with = "policy::PolicyForm")]
    pub policy: Policy,
    /// Requests a queue of the machine holds.
    pub queue_limit: u32,
    /// Seed of the machine's random stream.
    pub seed: u64,
}

/// The last line of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Footer {
    inputs: u64,
    digest: String,
}

/// What a recording came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Inputs of the machine.
    pub inputs: u64,
    /// Fingerprint of all its decisions.
    pub digest: u64,
}

/// Why a recording cannot be read or replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The file cannot be read.
    #[error("cannot read the recording: {0}")]
    Io(#[from] io::Error),
    /// A line is not what it should be.
    #[error("line {line} of the recording: {what}")]
    Line {
        /// Counted from 1.
        line: u64,
        /// What is wrong.
        what: String,
    },
    /// The header describes a machine that cannot be built.
    #[error("the recording's machine cannot be built: {0}")]
    Policy(#[from] PolicyError),
}

enum Batch {
    Inputs(Vec<(Instant, Input)>),
    End(Summary),
}

/// A recording in progress. Inputs are kept in memory and written by a thread of its own, so that
/// whoever holds the machine never waits for a disk.
pub(crate) struct Recording {
    digest: Digest,
    inputs: u64,
    kept: Vec<(Instant, Input)>,
    writer: Option<(mpsc::Sender<Batch>, JoinHandle<io::Result<()>>)>,
}

impl Recording {
    pub(crate) fn create(path: &Path, header: &Header) -> io::Result<Recording> {
        let mut file = BufWriter::new(File::create(path)?);
        serde_json::to_writer(&mut file, header)?;
        file.write_all(b"\n")?;
        let (sender, batches) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("cavy-record".to_string())
            .spawn(move || write(file, &batches))?;
        Ok(Recording {
            digest: Digest::new(),
            inputs: 0,
            kept: Vec::with_capacity(BATCH),
            writer: Some((sender, thread)),
        })
    }

    /// The machine is about to be told `input`.
    #[inline]
    pub(crate) fn input(&mut self, now: Instant, input: Input) {
        self.inputs += 1;
        self.digest.fold(now.as_ns());
        self.kept.push((now, input));
        if self.kept.len() == BATCH {
            self.flush();
        }
    }

    /// The machine answered.
    #[inline]
    pub(crate) fn outputs(&mut self, outputs: &[Out<Effect, Timer>]) {
        for out in outputs {
            self.digest.fold_value(out);
        }
    }

    fn flush(&mut self) {
        let batch = std::mem::replace(&mut self.kept, Vec::with_capacity(BATCH));
        if let Some((writer, _)) = &self.writer {
            // A writer that met an error is gone; `finish` reports it.
            let _ = writer.send(Batch::Inputs(batch));
        }
    }

    /// Writes the rest and the footer, and waits until the file is complete.
    pub(crate) fn finish(mut self) -> io::Result<Summary> {
        let summary = self.close();
        match self.writer.take() {
            None => Ok(summary),
            Some((sender, thread)) => {
                drop(sender);
                let gone = || io::Error::other("the writing thread panicked");
                thread.join().map_err(|_| gone())??;
                Ok(summary)
            }
        }
    }

    fn close(&mut self) -> Summary {
        self.flush();
        let summary = Summary { inputs: self.inputs, digest: self.digest.value() };
        if let Some((writer, _)) = &self.writer {
            let _ = writer.send(Batch::End(summary));
        }
        summary
    }
}

impl Drop for Recording {
    /// A pool that is dropped leaves a complete file, though nobody waits for it.
    fn drop(&mut self) {
        if self.writer.is_some() {
            self.close();
        }
    }
}

fn write(mut file: BufWriter<File>, batches: &mpsc::Receiver<Batch>) -> io::Result<()> {
    for batch in batches {
        match batch {
            Batch::Inputs(inputs) => {
                for (at, input) in inputs {
                    write_input(&mut file, at, input)?;
                }
            }
            Batch::End(Summary { inputs, digest }) => {
                let footer = Footer { inputs, digest: format!("{digest:016x}") };
                serde_json::to_writer(&mut file, &footer)?;
                file.write_all(b"\n")?;
                file.flush()?;
                return Ok(());
            }
        }
    }
    file.flush()
}

fn write_input(file: &mut impl Write, at: Instant, input: Input) -> io::Result<()> {
    let at = at.as_ns();
    match input {
        Input::Arrive { req, kind } => writeln!(file, "[{at},\"a\",{},{}]", req.0, kind.0),
        Input::Finished { worker, req, service: Some(service) } => {
            writeln!(file, "[{at},\"f\",{},{},{}]", worker.0, req.0, service.as_ns())
        }
        Input::Finished { worker, req, service: None } => {
            writeln!(file, "[{at},\"f\",{},{}]", worker.0, req.0)
        }
        Input::Skipped { worker, req } => writeln!(file, "[{at},\"s\",{},{}]", worker.0, req.0),
        Input::Yielded { worker, req } => writeln!(file, "[{at},\"y\",{},{}]", worker.0, req.0),
        Input::Resize { workers } => writeln!(file, "[{at},\"r\",{workers}]"),
    }
}

/// A line of a recording after its header.
enum Line {
    Input(Instant, Input),
    Footer(Footer),
}

/// A recording that is read: its header, then its inputs one by one.
pub struct Reader<R> {
    header: Header,
    lines: io::Lines<BufReader<R>>,
    line: u64,
    footer: Option<Summary>,
}

impl Reader<File> {
    /// Opens the recording at `path`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ReplayError> {
        Reader::new(File::open(path)?)
    }
}

impl<R: io::Read> Reader<R> {
    /// Reads a recording from `from`.
    pub fn new(from: R) -> Result<Self, ReplayError> {
        let mut lines = BufReader::new(from).lines();
        let first = lines.next().transpose()?.unwrap_or_default();
        let header: Header = serde_json::from_str(&first)
            .map_err(|error| ReplayError::Line { line: 1, what: format!("no header: {error}") })?;
        if header.version != VERSION {
            let what = format!("format {}; this program reads {VERSION}", header.version);
            return Err(ReplayError::Line { line: 1, what });
        }
        Ok(Reader { header, lines, line: 1, footer: None })
    }

    /// How the machine was built.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// What the footer says; `None` until the last input was read, and for a run that was cut off.
    pub fn footer(&self) -> Option<Summary> {
        self.footer
    }

    /// The next input and its time.
    pub fn next_input(&mut self) -> Result<Option<(Instant, Input)>, ReplayError> {
        let Some(text) = self.lines.next().transpose()? else { return Ok(None) };
        self.line += 1;
        let fault = |what: String| ReplayError::Line { line: self.line, what };
        match parse(&text).map_err(fault)? {
            Line::Input(at, input) => Ok(Some((at, input))),
            Line::Footer(Footer { inputs, digest }) => {
                let digest = u64::from_str_radix(&digest, 16)
                    .map_err(|error| fault(format!("digest {digest:?}: {error}")))?;
                self.footer = Some(Summary { inputs, digest });
                Ok(None)
            }
        }
    }
}

fn parse(text: &str) -> Result<Line, String> {
    if text.starts_with('{') {
        return serde_json::from_str(text).map(Line::Footer).map_err(|error| error.to_string());
    }
    let mut values: std::vec::IntoIter<serde_json::Value> =
        serde_json::from_str::<Vec<_>>(text).map_err(|error| error.to_string())?.into_iter();
    let mut number = |what: &str, max: u64| {
        let value = values.next().ok_or_else(|| format!("{what} is missing"))?;
        let number = value.as_u64().filter(|&number| number <= max);
        number.ok_or_else(|| format!("{what} is {value}; it must be 0 to {max}"))
    };
    let at = Instant::from_ns(number("time", u64::MAX)?);
    let tag = values.next().ok_or("the input's letter is missing")?;
    let mut number = |what: &str, max: u64| {
        let value = values.next().ok_or_else(|| format!("{what} is missing"))?;
        let number = value.as_u64().filter(|&number| number <= max);
        number.ok_or_else(|| format!("{what} is {value}; it must be 0 to {max}"))
    };
    let (half, word) = (u64::from(u16::MAX), u64::from(u32::MAX));
    let input = match tag.as_str() {
        Some("a") => Input::Arrive {
            req: Req(number("request", word)? as u32),
            kind: Kind(number("type", half)? as u16),
        },
        Some("f") => Input::Finished {
            worker: Worker(number("worker", half)? as u16),
            req: Req(number("request", word)? as u32),
            service: match values.next() {
                None => None,
                Some(value) => Some(Span::from_ns(value.as_u64().ok_or("service is no number")?)),
            },
        },
        Some("s") => Input::Skipped {
            worker: Worker(number("worker", half)? as u16),
            req: Req(number("request", word)? as u32),
        },
        Some("y") => Input::Yielded {
            worker: Worker(number("worker", half)? as u16),
            req: Req(number("request", word)? as u32),
        },
        Some("r") => Input::Resize { workers: number("workers", half)? as u16 },
        _ => return Err(format!("input {tag}; it must be \"a\", \"f\", \"s\", \"y\" or \"r\"")),
    };
    if values.next().is_some() {
        return Err("too many values".to_string());
    }
    Ok(Line::Input(at, input))
}

/// What a replay came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// Inputs fed and the digest of the decisions.
    pub summary: Summary,
    /// What the recording says of itself; `None` when it was cut off.
    pub recorded: Option<Summary>,
}

impl Replayed {
    /// Did the machine decide as it did in the run?
    pub fn agrees(&self) -> bool {
        self.recorded == Some(self.summary)
    }
}

/// Lets a fresh machine decide the recording in `reader` again.
///
/// Inputs that no recorder writes, such as a worker that finishes what it does not run, are errors
/// and not panics: recordings come from users.
pub fn replay<R: io::Read>(reader: &mut Reader<R>) -> Result<Replayed, ReplayError> {
    replay_watched(reader, &mut |_, _, _| {})
}

/// What is told of each step: the time, the input, and what the machine answered.
pub type Watch<'a> = dyn FnMut(Instant, Input, &[Out<Effect, Timer>]) + 'a;

/// As [`replay`], telling `watch` every step.
pub fn replay_watched<R: io::Read>(
    reader: &mut Reader<R>,
    watch: &mut Watch<'_>,
) -> Result<Replayed, ReplayError> {
    let header = reader.header().clone();
    crate::setup::check_policy(&header.policy)?;
    let mut machine =
        cavy_sched::build(&header.policy, header.workers, &header.hints, header.queue_limit)?;
    let mut outbox = Outbox::with_capacity(machine.effects_max());
    let mut rng = Stream::keyed(header.seed, 0, Purpose::Machine);
    let mut running: Vec<Option<Req>> = Vec::new();
    let mut digest = Digest::new();
    let mut inputs = 0;
    let mut last = Instant::ZERO;
    machine.start(&mut Cx::new(Instant::ZERO, &mut rng, &mut outbox));
    fold(&mut digest, &mut outbox, &mut running);
    while let Some((at, input)) = reader.next_input()? {
        let fault = |what: String| ReplayError::Line { line: reader.line, what };
        if at < last {
            return Err(fault(format!("time goes back from {last} to {at}")));
        }
        last = at;
        legal(input, &mut running).map_err(fault)?;
        digest.fold(at.as_ns());
        inputs += 1;
        machine.handle(input, &mut Cx::new(at, &mut rng, &mut outbox));
        watch(at, input, outbox.entries());
        fold(&mut digest, &mut outbox, &mut running);
    }
    let summary = Summary { inputs, digest: digest.value() };
    Ok(Replayed { summary, recorded: reader.footer() })
}

fn fold(digest: &mut Digest, outbox: &mut Outbox<Effect, Timer>, running: &mut Vec<Option<Req>>) {
    for out in outbox.drain() {
        digest.fold_value(&out);
        if let Out::Effect(Effect::Run { worker, req, .. }) = out {
            let index = worker.0 as usize;
            if running.len() <= index {
                running.resize(index + 1, None);
            }
            running[index] = Some(req);
        }
    }
}

/// Would a pool say this now?
fn legal(input: Input, running: &mut [Option<Req>]) -> Result<(), String> {
    match input {
        Input::Arrive { .. } => Ok(()),
        Input::Finished { worker, req, .. } | Input::Skipped { worker, req } => {
            let runs = running.get_mut(worker.0 as usize).and_then(Option::take);
            if runs == Some(req) {
                Ok(())
            } else {
                Err(format!("worker {} finishes request {} without running it", worker.0, req.0))
            }
        }
        Input::Yielded { .. } => Err("a pool's workers do not yield".to_string()),
        Input::Resize { workers } if (1..=256).contains(&workers) => Ok(()),
        Input::Resize { workers } => Err(format!("{workers} workers; it must be 1 to 256")),
    }
}
