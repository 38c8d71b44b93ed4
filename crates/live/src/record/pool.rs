//! The log of a pool or of slots: the inputs of their policy.
//!
//! [`replay`] feeds a log to a fresh machine; equal digests mean that it decided the same at every
//! step.
//!
//! ```text
//! {"cavy_recording":1,"workers":14,"types":["get","scan"],...}
//! [1201833,"a",0,1]              arrival of request 0, type 1, at 1 201 833 ns
//! [2208114,"f",3,0,1000210]      worker 3 finished request 0, which took it 1 000 210 ns
//! [5000000,"r",12]               there are 12 workers now
//! {"inputs":3,"digest":"91d2...","sum":"07aa..."}
//! ```
//!
//! `sum` is the fingerprint of the lines before it, by which damage is told from other decisions.

use super::lines::{End, Entry, Fields, Lines, Sink};
use super::{ReplayError, Summary};
use cavy_core::family::cpu::{Effect, Input, Kind, Req, Timer, Worker};
use cavy_core::{Cx, Digest, Instant, Machine, Out, Outbox, Purpose, Span, Stream};
use cavy_sched::workers::WORKERS_MAX;
use cavy_sched::{Policy, TypeHint};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

/// The format this code writes, and the only one it reads.
pub const VERSION: u32 = 1;

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
    pub hints: Vec<TypeHint>,
    /// The policy.
    pub policy: Policy,
    /// Requests a queue of the machine holds.
    pub queue_limit: u32,
    /// Seed of the machine's random stream.
    pub seed: u64,
}

/// A recording in progress.
pub(crate) struct Recording {
    digest: Digest,
    inputs: u64,
    sink: Sink<(Instant, Input)>,
}

impl Recording {
    pub(crate) fn create(path: &Path, header: &Header) -> io::Result<Recording> {
        Ok(Recording { digest: Digest::new(), inputs: 0, sink: Sink::create(path, header)? })
    }

    /// The machine is about to be told `input`.
    #[inline]
    pub(crate) fn input(&mut self, now: Instant, input: Input) {
        let before = self.summary();
        if self.sink.is_full() {
            self.sink.flush(before);
        }
        self.inputs += 1;
        self.digest.fold(now.as_ns());
        self.sink.push((now, input));
    }

    /// The machine answered.
    #[inline]
    pub(crate) fn outputs(&mut self, outputs: &[Out<Effect, Timer>]) {
        for out in outputs {
            self.digest.fold_value(out);
        }
    }

    /// Hands over what is kept, so that it is in the file soon.
    pub(crate) fn flush(&mut self) {
        if !self.sink.is_flushed() {
            self.sink.flush(self.summary());
        }
    }

    fn summary(&self) -> Summary {
        Summary { inputs: self.inputs, digest: self.digest.value() }
    }

    /// Writes the rest and the footer, and waits until the file is complete.
    pub(crate) fn finish(mut self) -> io::Result<Summary> {
        let summary = self.summary();
        self.sink.finish(summary)?;
        Ok(summary)
    }
}

impl Drop for Recording {
    /// A pool that is dropped leaves a complete file, though nobody waits for it.
    fn drop(&mut self) {
        self.sink.close(self.summary());
    }
}

impl Entry for (Instant, Input) {
    fn write(&self, line: &mut Vec<u8>, _: u64) {
        let (at, input) = (self.0.as_ns(), self.1);
        // Memory takes all that is written.
        let _ = match input {
            Input::Arrive { req, kind } => write!(line, "[{at},\"a\",{},{}]", req.0, kind.0),
            Input::Finished { worker, req, service: Some(service) } => {
                write!(line, "[{at},\"f\",{},{},{}]", worker.0, req.0, service.as_ns())
            }
            Input::Finished { worker, req, service: None } => {
                write!(line, "[{at},\"f\",{},{}]", worker.0, req.0)
            }
            Input::Skipped { worker, req } => write!(line, "[{at},\"s\",{},{}]", worker.0, req.0),
            Input::Yielded { worker, req } => write!(line, "[{at},\"y\",{},{}]", worker.0, req.0),
            Input::Resize { workers } => write!(line, "[{at},\"r\",{workers}]"),
        };
    }
}

/// A recording that is read: its header, then its inputs one by one.
pub struct Reader<R> {
    header: Header,
    lines: Lines<R>,
    end: Option<End>,
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
        let mut lines = Lines::new(from);
        let header: Header = lines.header()?;
        lines.check_version(header.version, VERSION)?;
        Ok(Reader { header, lines, end: None })
    }

    /// How the machine was built.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// What the footer says; `None` until the last input was read, and for a run that was cut off.
    pub fn footer(&self) -> Option<Summary> {
        self.end.as_ref().map(|end| end.summary)
    }

    /// Why the recording ended before the run did, if it did and says so.
    pub fn stopped(&self) -> Option<&str> {
        self.end.as_ref()?.stopped.as_deref()
    }

    /// The next input and its time.
    pub fn next_input(&mut self) -> Result<Option<(Instant, Input)>, ReplayError> {
        if self.end.is_some() || !self.lines.advance()? {
            return Ok(None);
        }
        self.end = self.lines.end(1)?;
        if self.end.is_some() {
            return Ok(None);
        }
        parse(self.lines.text()).map(Some).map_err(|what| self.lines.fault(what))
    }
}

fn parse(text: &[u8]) -> Result<(Instant, Input), String> {
    let mut fields = Fields::of(text)?;
    let at = Instant::from_ns(fields.number("time", u64::MAX)?);
    let tag = fields.next().ok_or("the input's letter is missing")?;
    let input = match tag.as_str() {
        Some("a") => Input::Arrive {
            req: Req(fields.small("request", 32)?),
            kind: Kind(fields.small("type", 16)?),
        },
        Some("f") => Input::Finished {
            worker: Worker(fields.small("worker", 16)?),
            req: Req(fields.small("request", 32)?),
            service: match fields.next() {
                None => None,
                Some(value) => Some(Span::from_ns(value.as_u64().ok_or("service is no number")?)),
            },
        },
        Some("s") => Input::Skipped {
            worker: Worker(fields.small("worker", 16)?),
            req: Req(fields.small("request", 32)?),
        },
        Some("y") => Input::Yielded {
            worker: Worker(fields.small("worker", 16)?),
            req: Req(fields.small("request", 32)?),
        },
        Some("r") => Input::Resize { workers: fields.small("workers", 16)? },
        _ => return Err(format!("input {tag}; it must be \"a\", \"f\", \"s\", \"y\" or \"r\"")),
    };
    fields.end()?;
    Ok((at, input))
}

/// What a replay came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// Inputs fed and the digest of the decisions.
    pub summary: Summary,
    /// What the recording says of itself; `None` when it was cut off.
    pub recorded: Option<Summary>,
    /// Why it ended before the run did, if it did and says so.
    pub stopped: Option<String>,
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
        let fault = |what: String| reader.lines.fault(what);
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
    let stopped = reader.stopped().map(str::to_string);
    Ok(Replayed { summary, recorded: reader.footer(), stopped })
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
        Input::Resize { workers } if (1..=WORKERS_MAX).contains(&workers) => Ok(()),
        Input::Resize { workers } => {
            Err(format!("{workers} workers; it must be 1 to {WORKERS_MAX}"))
        }
    }
}
