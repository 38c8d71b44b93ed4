//! The incast threshold that finds itself ([homa 2.10], [homa 8.2] point 1).
//!
//! A lost answer is the sign that buffers were too small for what was open: the threshold is
//! halved, once a tick. A threshold's worth of answers without loss raises it by one.

use crate::machine::Homa;

/// It is never raised above this.
const THRESHOLD_MAX: u32 = 1 << 16;

impl Homa {
    /// Something of an answer was missing.
    pub(crate) fn lower_incast_threshold(&mut self) {
        let automatic = self.config.incast.is_some_and(|incast| incast.automatic);
        if automatic && self.ticks >= self.incast_lowered {
            self.incast_lowered = self.ticks + 1;
            self.incast_threshold = (self.incast_threshold / 2).max(1);
            self.incast_answers = 0;
        }
    }

    /// An answer arrived.
    pub(crate) fn raise_incast_threshold(&mut self) {
        if self.config.incast.is_some_and(|incast| incast.automatic) {
            self.incast_answers += 1;
            if self.incast_answers >= self.incast_threshold {
                self.incast_answers = 0;
                self.incast_threshold = (self.incast_threshold + 1).min(THRESHOLD_MAX);
            }
        }
    }
}
