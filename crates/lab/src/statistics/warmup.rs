//! How much of a run's beginning to forget: MSER-5.
//!
//! A simulation starts empty, and the first requests are served too well. MSER cuts where the rest
//! of the run estimates its own mean best: keeping a biased beginning adds variance, cutting good
//! data loses degrees of freedom, and the minimum balances both (White 1997).

use super::interval::TooShort;

/// Observations in the smallest batch; the 5 of MSER-5.
const BATCH: u64 = 5;
/// Batch means kept. Merging starts here, so memory is 16 KiB whatever the length of the run.
const BATCHES: usize = 2048;
/// With fewer batch means than this, any cut is a guess.
const BATCHES_MIN: usize = 10;

/// A run's observations in order, as means of equal batches: first of five, and of twice as many
/// each time the memory for them is full.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    means: Vec<f64>,
    /// Observations in each of `means`.
    batch: u64,
    /// The batch being filled, which counts only once it is full.
    sum: f64,
    count: u64,
}

impl Default for Series {
    fn default() -> Self {
        Self::new()
    }
}

impl Series {
    /// A series of nothing.
    pub fn new() -> Self {
        Series { means: Vec::with_capacity(BATCHES), batch: BATCH, sum: 0.0, count: 0 }
    }

    /// Appends one observation. Does not allocate.
    #[inline]
    pub fn record(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
        if self.count == self.batch {
            self.close();
        }
    }

    /// Observations recorded.
    pub fn count(&self) -> u64 {
        self.means.len() as u64 * self.batch + self.count
    }

    /// Means of the full batches, in order.
    pub fn means(&self) -> &[f64] {
        &self.means
    }

    /// Observations in each batch.
    pub fn batch(&self) -> u64 {
        self.batch
    }

    /// The cut that MSER recommends. Meant for the sojourn times' series and the queue's length, of
    /// which the later cut holds; not for quantiles, which have no series.
    pub fn truncation(&self) -> Truncation {
        let m = self.means.len();
        if m < BATCHES_MIN {
            return Truncation { ratio: 0.0, too_short: true };
        }
        // z(d) is the sum of squares about the mean of the batches after d, over their number
        // squared. Walking d down adds one batch at a time, which Welford's update does without
        // the cancellation that sums of squares suffer.
        let last = m / 2;
        let (mut mean, mut squares) = (0.0, 0.0);
        let (mut best, mut cut) = (f64::INFINITY, last);
        for d in (0..m).rev() {
            let kept = (m - d) as f64;
            let off = self.means[d] - mean;
            mean += off / kept;
            squares += off * (self.means[d] - mean);
            let z = squares / (kept * kept);
            // At equal merit the earlier cut, which keeps more.
            if d <= last && z <= best {
                (best, cut) = (z, d);
            }
        }
        Truncation { ratio: cut as f64 / m as f64, too_short: cut * 10 >= last * 9 }
    }

    /// The mean of the observations after `truncation`, without an interval: for that, see
    /// [`super::batch`].
    pub fn mean_after(&self, truncation: Truncation) -> Result<f64, TooShort> {
        let kept = self.after(truncation);
        if kept.is_empty() { Err(TooShort) } else { Ok(super::interval::mean(kept)) }
    }

    /// Batch means that `truncation` leaves.
    pub(super) fn after(&self, truncation: Truncation) -> &[f64] {
        let cut = libm::ceil(truncation.ratio * self.means.len() as f64) as usize;
        &self.means[cut.min(self.means.len())..]
    }

    fn close(&mut self) {
        self.means.push(self.sum / self.batch as f64);
        (self.sum, self.count) = (0.0, 0);
        if self.means.len() == BATCHES {
            for i in 0..BATCHES / 2 {
                self.means[i] = (self.means[2 * i] + self.means[2 * i + 1]) / 2.0;
            }
            self.means.truncate(BATCHES / 2);
            self.batch *= 2;
        }
    }
}

/// A cut between warm-up and the rest of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Truncation {
    /// Share of the run that is warm-up, 0 to 0.5.
    pub ratio: f64,
    /// The best cut lies so near the latest one allowed (in its last tenth) that the run most
    /// likely was still warming up when it ended.
    pub too_short: bool,
}

impl Truncation {
    /// No warm-up.
    pub const NONE: Truncation = Truncation { ratio: 0.0, too_short: false };

    /// The later of two cuts; too short when either is.
    pub fn later(self, other: Truncation) -> Truncation {
        Truncation {
            ratio: self.ratio.max(other.ratio),
            too_short: self.too_short || other.too_short,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavy_core::{Purpose, Stream};

    fn series(values: impl IntoIterator<Item = f64>) -> Series {
        let mut series = Series::new();
        values.into_iter().for_each(|v| series.record(v));
        series
    }

    fn noise(seed: u64) -> impl Iterator<Item = f64> {
        let mut stream = Stream::keyed(seed, 0, Purpose::Test);
        std::iter::repeat_with(move || stream.unit() - 0.5)
    }

    #[test]
    fn constant_needs_no_cut() {
        let truncation = series(std::iter::repeat_n(3.0, 1_000)).truncation();
        assert_eq!(truncation, Truncation::NONE);
    }

    #[test]
    fn a_step_is_cut_where_it_is() {
        // 10 % of the run sits ten noise widths too low; at several lengths, so that batches of
        // several sizes are covered.
        for n in [1_000, 10_000, 300_000] {
            let low = noise(1).take(n).enumerate();
            let truncation =
                series(low.map(|(i, x)| if i < n / 10 { x } else { x + 10.0 })).truncation();
            assert!(!truncation.too_short);
            assert!((0.099..0.15).contains(&truncation.ratio), "{n}: {truncation:?}");
        }
    }

    #[test]
    fn an_exponential_approach_is_cut_after_a_few_time_constants() {
        let rise = noise(2).take(50_000).enumerate();
        let rising = rise.map(|(i, x)| x + 10.0 * (1.0 - libm::exp(-(i as f64) / 1_000.0)));
        let ratio = series(rising).truncation().ratio;
        assert!((0.06..0.2).contains(&ratio), "{ratio}");
    }

    #[test]
    fn a_trend_is_too_short() {
        let truncation = series((0..5_000).map(f64::from)).truncation();
        assert!(truncation.too_short);
        assert!(series([1.0; 40]).truncation().too_short, "eight batches are too few to judge");
    }

    #[test]
    fn suffix_sums_agree_with_the_definition() {
        let s =
            series(noise(3).take(600).enumerate().map(|(i, x)| x + 1e6 - 40.0 / (i + 1) as f64));
        let y = s.means();
        let z = |d: usize| {
            let mean = crate::statistics::interval::mean(&y[d..]);
            let kept = (y.len() - d) as f64;
            y[d..].iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / (kept * kept)
        };
        let best = (0..=y.len() / 2).min_by(|&a, &b| z(a).total_cmp(&z(b))).unwrap();
        assert_eq!(s.truncation().ratio, best as f64 / y.len() as f64);
    }

    #[test]
    fn memory_is_flat_and_nothing_is_lost() {
        let s = series((0..1_000_003).map(f64::from));
        assert_eq!(s.count(), 1_000_003);
        assert!(s.means().len() < BATCHES && s.means.capacity() == BATCHES);
        assert_eq!(s.batch() % BATCH, 0);
        // Batches are equal, so the mean of means is the mean of what they cover.
        let covered = s.means().len() as f64 * s.batch() as f64;
        let mean = s.mean_after(Truncation::NONE).unwrap();
        assert!((mean - (covered - 1.0) / 2.0).abs() < 1e-6);
    }

    #[test]
    fn the_later_cut_holds() {
        let early = Truncation { ratio: 0.1, too_short: false };
        let late = Truncation { ratio: 0.2, too_short: true };
        assert_eq!(early.later(late), late);
        assert_eq!(late.later(early), late);
    }
}
