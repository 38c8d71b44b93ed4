//! Where messages sink by a level as they send more ([homa 3.7]).

use super::endpoint::{ConfigError, LEVEL_TOP, require};

/// The unit in which thresholds are published.
const UNIT_BYTES: u32 = 1460;

/// Where a message sinks by a level: the first entry ends level 7, the last one level 1. Ascending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thresholds(pub [u32; 7]);

impl Thresholds {
    /// For the web-search workload at 80 % load, as published with PIAS ([homa 3.7]).
    pub const WEB_SEARCH_80: Thresholds =
        Thresholds::units([909, 1329, 1648, 1960, 2143, 2337, 2484]);

    /// For the web-search workload at 90 % load, as published with PIAS ([homa 3.7]).
    pub const WEB_SEARCH_90: Thresholds =
        Thresholds::units([759, 1132, 1456, 1737, 2010, 2199, 2325]);

    const fn units(mut packets: [u32; 7]) -> Thresholds {
        let mut at = 0;
        while at < 7 {
            packets[at] *= UNIT_BYTES;
            at += 1;
        }
        Thresholds(packets)
    }

    /// Our estimate for other workloads: thresholds that give each level the same share of all
    /// bytes. `steps` are sizes in bytes, ascending, each with the share of messages not longer.
    /// The source minimises mean completion time over such splits; it publishes the result for web
    /// search only.
    ///
    /// # Errors
    /// When there is no step, or sizes or shares do not ascend to 1.
    pub fn equal_bytes(steps: &[(u32, f64)]) -> Result<Thresholds, ConfigError> {
        let (mut size, mut share) = (0, 0.0);
        for &(next, up_to) in steps {
            require("size_bytes", f64::from(next), next > size, "above the one before")?;
            require("cumulative", up_to, up_to >= share && up_to <= 1.0, "ascending, up to 1")?;
            (size, share) = (next, up_to);
        }
        require("cumulative", share, share >= 1.0, "1 at the last step")?;
        // Between two sizes, each further byte is sent by the share of messages that are longer.
        let mut total = 0.0;
        let (mut size, mut longer) = (0, 1.0);
        for &(next, up_to) in steps {
            total += longer * f64::from(next - size);
            (size, longer) = (next, 1.0 - up_to);
        }
        let mut thresholds = [0; 7];
        let mut found = 0;
        let mut before = 0.0;
        let (mut size, mut longer) = (0, 1.0);
        for &(next, up_to) in steps {
            let bytes = longer * f64::from(next - size);
            while found < 7 && before + bytes >= total * (found + 1) as f64 / 8.0 {
                let inside = (total * (found + 1) as f64 / 8.0 - before) / longer;
                thresholds[found] = (size + libm::round(inside) as u32).max(1);
                found += 1;
            }
            before += bytes;
            (size, longer) = (next, 1.0 - up_to);
        }
        Ok(Thresholds(thresholds))
    }

    /// The level of a packet that begins at this byte of its message.
    pub fn level(&self, offset_bytes: u32) -> u8 {
        LEVEL_TOP - self.0.iter().filter(|&&threshold| offset_bytes >= threshold).count() as u8
    }
}
