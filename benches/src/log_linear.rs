//! The smallest exact-merge latency histogram there is, for floors: 7 bits below the leading one.

const SUB_BITS: u32 = 7;
const SUB: usize = 1 << SUB_BITS;

/// Counts by the leading eight bits of a value; a bucket is at most 1/128 of its value wide.
pub struct LogLinear {
    counts: Vec<u64>,
}

impl Default for LogLinear {
    fn default() -> Self {
        Self::new()
    }
}

impl LogLinear {
    /// Nothing recorded.
    pub fn new() -> Self {
        LogLinear { counts: vec![0; (65 - SUB_BITS as usize) * SUB] }
    }

    /// Records one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        // Values below 128 are their own index; above, the octave and the next seven bits.
        let octave = (63 - (value | SUB as u64).leading_zeros()) - SUB_BITS;
        let index = ((octave as usize) << SUB_BITS) + (value >> octave) as usize;
        self.counts[index] += 1;
    }

    /// The middle of the bucket that holds the `p`-quantile, or zero when nothing is recorded.
    pub fn quantile(&self, p: f64) -> u64 {
        let total: u64 = self.counts.iter().sum();
        let rank = ((p * total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                let octave = (index >> SUB_BITS).saturating_sub(1);
                let low = (index - (octave << SUB_BITS)) as u64;
                return (low << octave) + (1 << octave >> 1);
            }
        }
        0
    }
}
