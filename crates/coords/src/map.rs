//! How far is how long: the line from distance to round-trip time, and two ways to fit it ([htrae
//! 2.3]).

use crate::sphere::EARTH_RADIUS_KM;
use alloc::vec::Vec;

/// Least round-trip time over a distance: light in fibre covers 200 km in a millisecond, both ways
/// are twice as long ([htrae 2.3]).
pub const FLOOR_MS_PER_KM: f64 = 0.01;

/// `rtt = ms_per_km * distance + base_ms`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Line {
    /// Slope, kappa in the source. It sets the size of the sphere in milliseconds.
    pub ms_per_km: f64,
    /// Intercept, c in the source: what even neighbours pay. Each end has half of it as its first
    /// height.
    pub base_ms: f64,
}

/// What to use where nothing was measured: servers in data centers ([htrae 2.10]).
pub const SERVERS: Line = Line { ms_per_km: 0.0188, base_ms: 8.8 };
/// What to use where nothing was measured: players at home, behind access links ([htrae 2.10]).
pub const HOMES: Line = Line { ms_per_km: 0.019, base_ms: 30.0 };

/// A measured pair.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sample {
    /// Distance along the surface of the Earth.
    pub distance_km: f64,
    /// Round-trip time.
    pub rtt_ms: f64,
}

impl Line {
    /// The round-trip time over `distance_km`.
    #[inline]
    pub fn rtt_ms(self, distance_km: f64) -> f64 {
        self.ms_per_km * distance_km + self.base_ms
    }

    /// Milliseconds for a radian of the sphere.
    #[inline]
    pub fn ms_per_radian(self) -> f64 {
        self.ms_per_km * EARTH_RADIUS_KM
    }

    /// Least squares. `None` with fewer than two different distances.
    pub fn least_squares(samples: &[Sample]) -> Option<Line> {
        let n = samples.len() as f64;
        let mean_x = samples.iter().map(|s| s.distance_km).sum::<f64>() / n;
        let mean_y = samples.iter().map(|s| s.rtt_ms).sum::<f64>() / n;
        let (mut xx, mut xy) = (0.0, 0.0);
        for s in samples {
            let x = s.distance_km - mean_x;
            xx += x * x;
            xy += x * (s.rtt_ms - mean_y);
        }
        let ms_per_km = xy / xx;
        let line = Line { ms_per_km, base_ms: mean_y - ms_per_km * mean_x };
        (xx > 0.0 && line.ms_per_km.is_finite() && line.base_ms.is_finite()).then_some(line)
    }

    /// Least absolute deviations: one absurd sample moves it by no more than one sensible one.
    /// Recommended by [htrae 2.3]. `None` with fewer than two different distances.
    ///
    /// For a given slope the best intercept is the median residual, and what remains is convex in
    /// the slope; so the slope is bisected by the sign of a subgradient, down to the last bits of a
    /// double.
    pub fn least_absolute(samples: &[Sample]) -> Option<Line> {
        let start = Line::least_squares(samples)?;
        let mut residuals: Vec<f64> = Vec::with_capacity(samples.len());
        let spread = |line: Line| {
            let apart = samples.iter().map(|s| (s.rtt_ms - line.rtt_ms(s.distance_km)).abs());
            apart.fold(0.0, f64::max)
        };
        let widest = samples.iter().map(|s| s.distance_km).fold(0.0, f64::max);
        let reach = 4.0 * spread(start).max(1e-9) / widest.max(1e-9);
        let (mut low, mut high) = (start.ms_per_km - reach, start.ms_per_km + reach);
        // The bracket must hold the best slope; it is widened until the subgradient has both signs.
        let mut at = |slope: f64| {
            residuals.clear();
            residuals.extend(samples.iter().map(|s| s.rtt_ms - slope * s.distance_km));
            let base = median(&mut residuals);
            (subgradient(samples, slope, base), base)
        };
        for _ in 0..200 {
            let (below, above) = (at(low).0 < 0.0, at(high).0 > 0.0);
            if below && above {
                break;
            }
            let width = high - low;
            low -= if below { 0.0 } else { width };
            high += if above { 0.0 } else { width };
            if !width.is_finite() {
                return None;
            }
        }
        let mut best = (low + high) / 2.0;
        for _ in 0..120 {
            best = (low + high) / 2.0;
            if best <= low || best >= high {
                break;
            }
            match at(best).0 {
                g if g > 0.0 => high = best,
                g if g < 0.0 => low = best,
                _ => break,
            }
        }
        let base_ms = at(best).1;
        Some(Line { ms_per_km: best, base_ms })
    }

    /// Sum of absolute deviations.
    pub fn deviation_ms(self, samples: &[Sample]) -> f64 {
        samples.iter().map(|s| (s.rtt_ms - self.rtt_ms(s.distance_km)).abs()).sum()
    }
}

/// A subgradient, by the slope, of the sum of absolute deviations with the best intercept. Samples
/// on the line may pull either way, as far as keeps the intercept where it is.
fn subgradient(samples: &[Sample], slope: f64, base: f64) -> f64 {
    let (mut off, mut balance, mut on, mut count) = (0.0, 0.0, 0.0, 0.0);
    for s in samples {
        let residual = s.rtt_ms - slope * s.distance_km - base;
        // Rounding keeps samples that lie on the line from lying on it exactly.
        if residual.abs() <= 1e-12 * (s.rtt_ms.abs() + base.abs() + 1.0) {
            on += s.distance_km;
            count += 1.0;
        } else {
            off -= residual.signum() * s.distance_km;
            balance += residual.signum();
        }
    }
    if count > 0.0 { off + balance / count * on } else { off }
}

/// The lower of the middle values.
fn median(values: &mut [f64]) -> f64 {
    let middle = (values.len() - 1) / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}
