//! Cut-offs: which level an unscheduled byte gets, by the size of its message ([homa 2.6]).

/// Most levels a network has.
pub const LEVELS_MAX: u8 = 8;

/// Upper bounds of message sizes for the unscheduled levels, topmost level first. The lowest
/// unscheduled level has none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Cutoffs {
    levels: u8,
    count: u8,
    bounds: [u32; LEVELS_MAX as usize - 1],
}

impl Cutoffs {
    /// Cut-offs for a network of `levels` levels (1 to 8), `bounds` in ascending order, fewer than
    /// there are levels. `None` otherwise. An equal neighbour leaves a level empty, which is legal.
    pub fn new(levels: u8, bounds: &[u32]) -> Option<Cutoffs> {
        let fits = (1..=LEVELS_MAX).contains(&levels) && bounds.len() < usize::from(levels);
        if !fits || !bounds.is_sorted() {
            return None;
        }
        let mut kept = [0; LEVELS_MAX as usize - 1];
        kept[..bounds.len()].copy_from_slice(bounds);
        Some(Cutoffs { levels, count: bounds.len() as u8, bounds: kept })
    }

    /// All unscheduled bytes at the topmost of `levels` levels.
    pub fn none(levels: u8) -> Cutoffs {
        let levels = levels.clamp(1, LEVELS_MAX);
        Cutoffs { levels, count: 0, bounds: [0; LEVELS_MAX as usize - 1] }
    }

    /// The level of a message of `size_bytes`: sizes up to and including a cut-off belong to it.
    #[inline]
    pub fn level(&self, size_bytes: u32) -> u8 {
        let above = self.bounds().iter().position(|&bound| size_bytes <= bound);
        self.levels - 1 - above.map_or(self.count, |index| index as u8)
    }

    /// The bounds, topmost level first.
    pub fn bounds(&self) -> &[u32] {
        &self.bounds[..usize::from(self.count)]
    }

    /// Levels for unscheduled bytes.
    pub fn unscheduled_levels(&self) -> u8 {
        self.count + 1
    }

    /// Levels of the network.
    pub fn levels(&self) -> u8 {
        self.levels
    }
}
