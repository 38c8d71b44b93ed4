//! What an endpoint does about recording its machine.

use super::endpoint::Shared;
use super::engine::StepOf;
use super::protocol::Protocol;
use crate::record::Summary;
use crate::record::packet::{Recorder, TimerOf};
use crate::sync::{Arc, lock};
use cavy_core::family::packet::Effect;
use cavy_core::{Instant, Out, Packet};

/// What has become of an endpoint's recording ([`Options::record`](super::Options::record)).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Recording {
    /// None was asked for.
    #[default]
    Off,
    /// It goes on.
    Running,
    /// The endpoint is closed, and the file is complete.
    Complete(Summary),
    /// It ended before the endpoint did, for this reason. The file holds what was written until
    /// then.
    Stopped(String),
}

/// The recorder of an endpoint, if it has one.
pub(crate) struct Records<P: Protocol> {
    recorder: Option<Recorder<StepOf<P>>>,
    shared: Arc<Shared>,
}

impl<P: Protocol> Records<P> {
    pub(crate) fn new(recorder: Option<Recorder<StepOf<P>>>, shared: Arc<Shared>) -> Records<P> {
        if recorder.is_some() {
            *lock(&shared.recording) = Recording::Running;
        }
        Records { recorder, shared }
    }

    /// The machine took a step.
    #[inline]
    pub(crate) fn taken(
        &mut self,
        at: Instant,
        step: StepOf<P>,
        outs: &[Out<Effect<P::Why>, TimerOf<P>>],
        pulled: Option<&Packet<P::Words>>,
    ) {
        if let Some(recorder) = &mut self.recorder {
            recorder.taken(at, step, outs, pulled);
        }
    }

    /// The endpoint has nothing to do.
    pub(crate) fn rest(&mut self, now: Instant) {
        let Some(recorder) = &mut self.recorder else { return };
        recorder.rest(now);
        if let Some(fault) = recorder.fault() {
            *lock(&self.shared.recording) = Recording::Stopped(fault.to_string());
            // Not waited for: the endpoint goes on.
            self.recorder = None;
        }
    }

    /// When [`Records::rest`] has something to do.
    pub(crate) fn next_time(&self) -> Option<Instant> {
        self.recorder.as_ref().and_then(Recorder::next_time)
    }

    /// Nothing follows. Waits for the file.
    pub(crate) fn finish(&mut self) {
        let Some(recorder) = self.recorder.take() else { return };
        *lock(&self.shared.recording) = match recorder.finish() {
            Ok(summary) => Recording::Complete(summary),
            Err(error) => Recording::Stopped(error.to_string()),
        };
    }
}
