//! Links between sites, and lanes between nodes: when a message arrives.

use crate::net::Rate;
use cavy_core::{Span, Stream};

/// The way from one site to another, or within one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Link {
    /// What a message takes.
    pub one_way: Span,
    /// What it may take more or less.
    pub jitter: Jitter,
    /// What all messages on this link share; `None`: as much as they like.
    pub rate: Option<Rate>,
}

impl Link {
    /// A link that takes `one_way`, always.
    pub fn of(one_way: Span) -> Link {
        Link { one_way, jitter: Jitter::None, rate: None }
    }
}

/// How delays differ from message to message.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Jitter {
    /// They do not.
    None,
    /// Evenly between so much less and so much more; never below zero `[dast 4.4]`.
    Even(Span),
    /// So much more on average, exponentially distributed.
    Exponential {
        /// The mean of what is added.
        mean: Span,
    },
}

impl Jitter {
    /// A delay around `one_way`, in nanoseconds.
    #[inline]
    pub(super) fn draw(self, one_way: Span, draws: &mut Stream) -> u64 {
        let base = one_way.as_ns();
        match self {
            Jitter::None => base,
            Jitter::Even(most) => {
                let drawn = draws.below(2 * most.as_ns() + 1);
                (base + drawn).saturating_sub(most.as_ns())
            }
            Jitter::Exponential { mean } => {
                let drawn = -libm::log(draws.unit()) * mean.as_ns() as f64;
                base + libm::round(drawn) as u64
            }
        }
    }
}

/// Whether channels keep order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Messages of a channel arrive in the order of sending, as over TCP.
    PerPair,
    /// They overtake each other. This breaks the promise of channels, and is there to show what
    /// then happens.
    None,
}

/// One direction of a channel between two nodes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lane {
    /// When the last message arrives.
    pub last: u64,
    /// The session that the sender believes to be in. What comes from an older one than the
    /// receiver's is dropped.
    pub session: u32,
    /// The end of the cut that broke, or will break, this channel.
    pub breaks_at: u64,
    /// Of the messages under way from a node that crashed, those sent after this are lost.
    pub cut_since: u64,
    pub cut_until: u64,
}

/// The lanes from one node, by receiver.
#[derive(Clone, Debug, Default)]
pub(super) struct Lanes {
    to: Vec<u32>,
    lanes: Vec<Lane>,
    /// The place that was asked for last. The next question is often for the same one, or, where
    /// a message goes to a whole region, for the one after it.
    last: usize,
}

impl Lanes {
    #[inline]
    pub(super) fn get(&mut self, to: u32) -> &mut Lane {
        let near = (self.last..self.to.len()).take(2).find(|place| self.to[*place] == to);
        let place = match near.map_or_else(|| self.to.binary_search(&to), Ok) {
            Ok(place) => place,
            Err(place) => {
                self.to.insert(place, to);
                self.lanes.insert(place, Lane::default());
                place
            }
        };
        self.last = place;
        &mut self.lanes[place]
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut Lane)> {
        self.to.iter().copied().zip(self.lanes.iter_mut())
    }
}
