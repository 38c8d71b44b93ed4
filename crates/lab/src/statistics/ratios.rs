//! Ratios counted in places of equal width on a logarithmic scale: less exact than a histogram of
//! latencies, and small enough to have one for each receiver of a network.

use super::quantile::rank;

/// Ratios that differ by less count as the same.
const WIDTH: f64 = 0.005;
/// The place of 1: what is held against its own best may beat it by a little.
const ONE: f64 = 200.0;

/// How often each ratio was seen.
#[derive(Clone, Debug, Default)]
pub struct Ratios {
    by_place: Vec<u32>,
    total: u64,
}

impl Ratios {
    /// One more, above 0.
    #[inline]
    pub fn record(&mut self, ratio: f64) {
        let place = (libm::log(ratio) / WIDTH + ONE).clamp(0.0, 1e4) as usize;
        if self.by_place.len() <= place {
            self.by_place.resize(place + 1, 0);
        }
        self.by_place[place] += 1;
        self.total += 1;
    }

    /// Adds those of another.
    pub fn add(&mut self, other: &Ratios) {
        if self.by_place.len() < other.by_place.len() {
            self.by_place.resize(other.by_place.len(), 0);
        }
        self.by_place.iter_mut().zip(&other.by_place).for_each(|(mine, theirs)| *mine += theirs);
        self.total += other.total;
    }

    /// How many.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The `p`-quantile, whether their number supports it or not; `None` when there are none.
    pub fn quantile(&self, p: f64) -> Option<f64> {
        let wanted = rank(self.total, p);
        let mut seen = 0;
        let place = self.by_place.iter().position(|&count| {
            seen += u64::from(count);
            count > 0 && seen >= wanted
        })?;
        Some(libm::exp((place as f64 + 0.5 - ONE) * WIDTH))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_the_width_of_a_place() {
        let mut counts = Ratios::default();
        (1..=1_000).for_each(|k| counts.record(f64::from(k) / 100.0 + 1.0));
        for p in [0.1, 0.5, 0.99] {
            let found = counts.quantile(p).expect("a thousand");
            let exact = 10.0 * p + 1.0;
            assert!((found / exact - 1.0).abs() < WIDTH, "{p}: {found} for {exact}");
        }
        assert_eq!(Ratios::default().quantile(0.5), None);
        let mut twice = counts.clone();
        twice.add(&counts);
        assert_eq!(twice.quantile(0.99), counts.quantile(0.99));
    }
}
