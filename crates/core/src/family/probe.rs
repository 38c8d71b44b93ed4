//! Measuring by intervening: the vocabulary of what-if analysis.

use super::Node;
use crate::time::Span;

/// What happens to a prober. `S` is what one measurement yields.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Input<S> {
    /// A measurement is there.
    Measured {
        /// What was measured.
        target: Node,
        /// What it gave.
        sample: S,
    },
    /// The measurement window is over.
    WindowEnd,
}

/// What a prober wants done. `C` is what it concludes in the end.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Effect<C> {
    /// Hold `target` for `span`.
    Pause {
        /// Whom.
        target: Node,
        /// How long.
        span: Span,
    },
    /// Let `target` go on.
    Resume {
        /// Whom.
        target: Node,
    },
    /// Measure `target` over `window`.
    Measure {
        /// Whom.
        target: Node,
        /// How long.
        window: Span,
    },
    /// The result.
    Conclude(C),
}
