//! Recording, on the endpoint's thread: a digest is folded, and the step is kept for the writer.

use super::step::{Line, Step, fold};
use super::{MARK_EVERY, Words};
use crate::record::Summary;
use crate::record::lines::Sink;
use cavy_core::{Digest, Instant, Out, Packet, Span};
use serde::Serialize;
use std::hash::Hash;
use std::io;
use std::path::Path;

/// Steps older than this are handed to the writer when the endpoint has nothing to do, so that a
/// log of an endpoint that is killed ends shortly before its end.
const KEPT_FOR: Span = Span::from_ms(50);

/// A recording in progress.
pub(crate) struct Recorder<H: Words> {
    digest: Digest,
    inputs: u64,
    /// When steps were last handed over.
    handed_at: Instant,
    sink: Sink<Line<H, H::Timer>>,
}

impl<H: Words> Recorder<H> {
    pub(crate) fn create(path: &Path, header: &impl Serialize) -> io::Result<Self> {
        let sink = Sink::create(path, header)?;
        Ok(Recorder { digest: Digest::new(), inputs: 0, handed_at: Instant::ZERO, sink })
    }

    /// The machine took `step` and answered.
    #[inline]
    pub(crate) fn taken<E: Hash>(
        &mut self,
        at: Instant,
        step: Step<H, H::Timer>,
        outs: &[Out<E, H::Timer>],
        pulled: Option<&Packet<H>>,
    ) {
        fold(&mut self.digest, at, outs, pulled);
        self.inputs += 1;
        self.sink.push(Line::Step(at, step));
        if self.inputs.is_multiple_of(MARK_EVERY) {
            self.sink.push(Line::Mark(at, self.summary()));
        }
        if self.sink.is_full() {
            self.hand_over(at);
        }
    }

    /// The endpoint has nothing to do.
    pub(crate) fn rest(&mut self, now: Instant) {
        if self.next_time().is_some_and(|at| at <= now) {
            self.hand_over(now);
        }
    }

    /// When there is something to be done while the endpoint rests.
    pub(crate) fn next_time(&self) -> Option<Instant> {
        (!self.sink.is_flushed()).then(|| self.handed_at + KEPT_FOR)
    }

    /// Why nothing is recorded any more.
    pub(crate) fn fault(&self) -> Option<&io::Error> {
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
    pub(crate) fn finish(mut self) -> io::Result<Summary> {
        let summary = self.summary();
        self.sink.finish(summary)?;
        Ok(summary)
    }
}
