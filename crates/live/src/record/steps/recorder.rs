//! Recording, on the thread that has the machine: a digest is folded, and the step is kept for the
//! writer.

use super::line::{Line, fold};
use super::{MARK_EVERY, Said};
use crate::record::Summary;
use crate::record::lines::Sink;
use cavy_core::{Digest, Instant, Out, Span};
use serde::Serialize;
use std::hash::Hash;
use std::io;
use std::path::Path;

/// Steps older than this are handed to the writer when nothing is to be done, so that a log of a
/// program that is killed ends shortly before its end.
const KEPT_FOR: Span = Span::from_ms(50);

/// A recording in progress.
pub struct Recorder<S: Said> {
    digest: Digest,
    inputs: u64,
    /// When steps were last handed over.
    handed_at: Instant,
    sink: Sink<Line<S>>,
}

impl<S: Said> Recorder<S> {
    /// A recording at `path` that begins with `header`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn create(path: &Path, header: &impl Serialize) -> io::Result<Self> {
        let sink = Sink::create(path, header)?;
        Ok(Recorder { digest: Digest::new(), inputs: 0, handed_at: Instant::ZERO, sink })
    }

    /// The machine took `step` and answered.
    #[inline]
    pub fn taken<E: Hash, T: Hash, G: Hash>(
        &mut self,
        at: Instant,
        step: S,
        outs: &[Out<E, T>],
        given: Option<&G>,
    ) {
        fold(&mut self.digest, at, outs, given);
        if step.begins() {
            // Its time is another one.
            self.handed_at = Instant::ZERO;
        }
        self.inputs += 1;
        self.sink.push(Line::Step(at, step));
        if self.inputs.is_multiple_of(MARK_EVERY) {
            self.sink.push(Line::Mark(at, self.summary()));
        }
        if self.sink.is_full() {
            self.hand_over(at);
        }
    }

    /// Nothing is to be done now.
    pub fn rest(&mut self, now: Instant) {
        if self.next_time().is_some_and(|at| at <= now) {
            self.hand_over(now);
        }
    }

    /// When there is something to be done while nothing else is.
    pub fn next_time(&self) -> Option<Instant> {
        (!self.sink.is_flushed()).then(|| self.handed_at + KEPT_FOR)
    }

    /// Why nothing is recorded any more.
    pub fn fault(&self) -> Option<&io::Error> {
        self.sink.fault()
    }

    fn hand_over(&mut self, now: Instant) {
        self.handed_at = now;
        self.sink.flush(self.summary());
    }

    fn summary(&self) -> Summary {
        Summary { inputs: self.inputs, digest: self.digest.value() }
    }

    /// Writes the rest, and waits until the file is complete.
    ///
    /// # Errors
    /// Why the recording ended before the run did.
    pub fn finish(mut self) -> io::Result<Summary> {
        let summary = self.summary();
        self.sink.finish(summary)?;
        Ok(summary)
    }
}
