//! What several measurements of one peer say together ([htrae 2.8]).

/// A moving percentile over the last measurements of a peer. Round trips are late by chance and
/// never early, so a low percentile is steadier than a mean.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Filter {
    /// Measurements kept, 1 to the room of the window; 1 is no filter.
    pub window: u8,
    /// Which of them counts: the one at `floor(percentile * count)` in order of size.
    pub percentile: f64,
}

impl Filter {
    /// The last measurement as it is: for pairs that are rarely measured twice.
    pub const NONE: Filter = Filter { window: 1, percentile: 0.0 };
    /// The 25th percentile of four.
    pub const LOW_OF_FOUR: Filter = Filter { window: 4, percentile: 0.25 };
    /// The median of three, as serf has it.
    pub const MEDIAN_OF_THREE: Filter = Filter { window: 3, percentile: 0.5 };
}

/// The last measurements of one peer, milliseconds; it has room for so many.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Window<const ROOM: usize> {
    values: [f64; ROOM],
    count: u8,
    next: u8,
}

impl<const ROOM: usize> Default for Window<ROOM> {
    fn default() -> Self {
        Window { values: [0.0; ROOM], count: 0, next: 0 }
    }
}

impl<const ROOM: usize> Window<ROOM> {
    /// Takes `rtt_ms` in and says what the window holds now, by `filter`.
    pub fn push(&mut self, rtt_ms: f64, filter: Filter) -> f64 {
        let size = filter.window.clamp(1, ROOM as u8);
        self.values[usize::from(self.next)] = rtt_ms;
        self.next = (self.next + 1) % size;
        self.count = (self.count + 1).min(size);
        let mut sorted = self.values;
        let kept = &mut sorted[..usize::from(self.count)];
        kept.sort_unstable_by(f64::total_cmp);
        let index = libm::floor(filter.percentile * f64::from(self.count)) as usize;
        kept[index.min(kept.len() - 1)]
    }

    /// Measurements in it.
    pub fn count(&self) -> u8 {
        self.count
    }
}
