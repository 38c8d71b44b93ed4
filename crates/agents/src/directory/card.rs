//! What a look-up and a prediction need of a node, in one line of the cache. Of a million nodes
//! every line that is read is waited for, and a node with all that is known of it takes six.

use super::Entry;
use super::index::region;
use crate::wire::Reach;
use cavy_coords::{Coordinate, Point};

/// Bytes of an id that stand in a card: the rest of a longer one is looked up with the node.
const ID_BYTES: usize = 21;

/// A node. It must be made anew whenever the node changes.
#[derive(Clone, Copy, PartialEq, Debug)]
#[repr(align(64))]
pub(super) struct Card {
    place: Point,
    height_ms: f64,
    system: u32,
    /// The region of its coordinate.
    pub region: u16,
    pub reach: Reach,
    state: State,
    /// Of the id, at most 255.
    length: u8,
    id: [u8; ID_BYTES],
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    /// Nobody is there.
    Gone,
    /// It has no coordinate.
    Nowhere,
    /// Its coordinate is that of its address.
    Placed,
    /// Its coordinate was moved by a round trip.
    Learnt,
}

fn begin(id: &str) -> (u8, &[u8]) {
    let bytes = id.as_bytes();
    let length = u8::try_from(bytes.len()).unwrap_or(u8::MAX);
    (length, &bytes[..bytes.len().min(ID_BYTES)])
}

impl Card {
    /// Of a number that nobody has.
    pub const NOBODY: Card = Card {
        place: Point::POLE,
        height_ms: 0.0,
        system: 0,
        region: 0,
        reach: Reach::UNKNOWN,
        state: State::Gone,
        length: 0,
        id: [0; ID_BYTES],
    };

    pub fn of(entry: &Entry) -> Card {
        let (length, some) = begin(&entry.said.id);
        let mut card = Card { reach: entry.said.reach, length, ..Card::NOBODY };
        card.id[..some.len()].copy_from_slice(some);
        card.state = State::Nowhere;
        if let Some(own) = entry.coordinate() {
            card.place = own.position;
            card.height_ms = own.height_ms;
            card.system = own.system;
            card.region = region(entry.cell);
            card.state = if own.updates > 0 { State::Learnt } else { State::Placed };
        }
        card
    }

    pub fn is_there(&self) -> bool {
        self.state != State::Gone
    }

    /// The coordinate, as far as predictions read it: they ask neither for the error nor how often
    /// it was moved.
    pub fn coordinate(&self) -> Option<Coordinate> {
        let updates = match self.state {
            State::Gone | State::Nowhere => return None,
            State::Placed => 0,
            State::Learnt => 1,
        };
        let Card { place: position, height_ms, system, .. } = *self;
        Some(Coordinate { position, height_ms, system, error: 1.0, updates })
    }

    /// Does a node with this id stand here? `None` where the card has not all of the id.
    pub fn is(&self, id: &str) -> Option<bool> {
        let (length, some) = begin(id);
        let alike = self.is_there() && self.length == length && self.id[..some.len()] == *some;
        (!alike || id.len() <= ID_BYTES).then_some(alike)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_is_one_line_of_the_cache() {
        assert_eq!((size_of::<Card>(), align_of::<Card>()), (64, 64));
    }
}
