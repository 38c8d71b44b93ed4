//! What the sending half learns of one acknowledgement ([incast 2.8]).

use crate::connection::Sent;
use cavy_core::Instant;

/// What an acknowledgement told.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Heard {
    /// When the latest segment that was sent once was sent.
    pub(crate) sample: Option<Instant>,
    /// When one was sent last of which a timestamp shows that this copy is meant.
    pub(crate) proven: Option<Instant>,
    /// Octets and segments that are cumulatively acknowledged and were not known to be there.
    pub(crate) newly: u64,
    pub(crate) segments: u64,
    /// Something sent once, before the last timeout, is there.
    pub(crate) fresh: bool,
    pub(crate) until: u64,
}

impl Heard {
    pub(crate) fn note(&mut self, sent: &Sent) {
        if sent.sends == 1 {
            self.sample = self.sample.max(Some(sent.at));
            self.fresh |= sent.end <= self.until;
        }
    }
}
