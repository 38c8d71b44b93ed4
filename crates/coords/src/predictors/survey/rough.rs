//! How badly a place explains what was measured, at least: in half the digits and without an exact
//! arc, so that four distances take about as long as one otherwise. Nearly all places that are
//! tried are told to be worse by this alone; the others are looked at exactly.

use super::{BEATEN_MAX_MS, HEIGHTS_MS, Near, PLACE_CLIP_MS};
use crate::map::{FLOOR_MS_PER_KM, Line};
use crate::sphere::{EARTH_RADIUS_KM, Point};
use alloc::vec::Vec;
use core::f32::consts::PI;

/// Distances are wrong by less than this: most between antipodes, where rounding counts most.
const OFF_KM: f64 = 10.0;
/// More than rounding takes from a misfit besides, milliseconds.
const ROUNDED_MS: f64 = 0.05;

/// The series of `asin(x) / x` by powers of `x * x`.
const ARC: [f32; 8] = [
    1.0,
    1.0 / 6.0,
    3.0 / 40.0,
    15.0 / 336.0,
    105.0 / 3_456.0,
    945.0 / 42_240.0,
    10_395.0 / 599_040.0,
    135_135.0 / 9_676_800.0,
];

/// What a machine measured, a list for each part, so that a processor takes several at a time.
#[derive(Clone, Debug, Default)]
pub struct Rough {
    x: Vec<f32>,
    y: Vec<f32>,
    z: Vec<f32>,
    rtt_ms: Vec<f32>,
    /// What heights and the base of the line leave of it.
    rest_ms: Vec<f32>,
    ms_per_km: f32,
    slack_ms: f64,
    // Filled anew for each place.
    squares: Vec<f32>,
    km: Vec<f32>,
}

impl Rough {
    /// Begins with other measurements.
    pub fn fill(&mut self, near: &[Near], line: Line) {
        let Rough { x, y, z, rtt_ms, rest_ms, .. } = self;
        [&mut *x, y, z, rtt_ms, rest_ms].into_iter().for_each(Vec::clear);
        for one in near {
            let at = one.there.point.vector();
            x.push(at[0] as f32);
            y.push(at[1] as f32);
            z.push(at[2] as f32);
            rtt_ms.push(one.rtt_ms as f32);
            rest_ms.push((one.rtt_ms - line.base_ms - one.height_ms) as f32);
        }
        self.ms_per_km = line.ms_per_km as f32;
        // When no error is wrong by more, the height is not, and their distance by twice as much.
        self.slack_ms = OFF_KM * (2.0 * line.ms_per_km.abs() + FLOOR_MS_PER_KM) + ROUNDED_MS;
    }

    /// The misfit is at least this.
    pub fn misfit_min_ms(&mut self, place: Point) -> f64 {
        self.measure_up(place);
        let mut beaten = 0.0;
        let errors = &mut self.km;
        for ((error, rtt_ms), rest_ms) in errors.iter_mut().zip(&self.rtt_ms).zip(&self.rest_ms) {
            let early = FLOOR_MS_PER_KM as f32 * *error - rtt_ms;
            beaten += early.clamp(0.0, BEATEN_MAX_MS as f32);
            *error = rest_ms - self.ms_per_km * *error;
        }
        if errors.is_empty() {
            return 0.0;
        }
        let count = errors.len() as f32;
        let middle = (errors.len() - 1) / 2;
        let height = *errors.select_nth_unstable_by(middle, f32::total_cmp).1;
        let height = height.clamp(HEIGHTS_MS.0 as f32, HEIGHTS_MS.1 as f32) * count / (count + 1.0);
        let off = |error: &f32| (error - height).abs().min(PLACE_CLIP_MS as f32);
        let sum: f32 = errors.iter().map(off).sum();
        f64::from((sum + beaten) / count) - self.slack_ms
    }

    /// Distances from `place`.
    fn measure_up(&mut self, place: Point) {
        let [x, y, z] = place.vector().map(|part| part as f32);
        let Rough { squares, km, .. } = self;
        squares.clear();
        km.clear();
        // The sine of half the angle, squared.
        squares.extend(self.x.iter().zip(&self.y).zip(&self.z).map(|((a, b), c)| {
            let (x, y, z) = (a - x, b - y, c - z);
            ((x * x + y * y + z * z) * 0.25).min(1.0)
        }));
        // The angle or, where that is nearer, what it lacks to a half turn: over the root below.
        km.extend(squares.iter().map(|square| {
            let t = square.min(1.0 - square);
            let t2 = t * t;
            let low = (ARC[0] + t * ARC[1]) + t2 * (ARC[2] + t * ARC[3]);
            let high = (ARC[4] + t * ARC[5]) + t2 * (ARC[6] + t * ARC[7]);
            2.0 * (low + t2 * t2 * high)
        }));
        for (km, square) in km.iter_mut().zip(&*squares) {
            *km *= libm::sqrtf(square.min(1.0 - square));
        }
        for (km, square) in km.iter_mut().zip(&*squares) {
            *km = EARTH_RADIUS_KM as f32 * if *square > 0.5 { PI - *km } else { *km };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Parts, Site, Survey};
    use super::*;
    use crate::{Config, history::Memory};
    use cavy_core::{Purpose, Stream};

    /// Near every place, at its antipode, and everywhere.
    fn places(near: &[Near], rng: &mut Stream) -> Vec<Point> {
        let of = |one: &Near| {
            let [x, y, z] = one.there.point.vector();
            let other = Point::from_vector([-x, -y, -z]).expect("a direction");
            let away = [1e-9, 1e-6, 1e-3].map(|angle| {
                let back = other.moved_away(Point::random(rng), angle, rng);
                [back, one.there.point.moved_away(Point::random(rng), angle, rng)]
            });
            [[one.there.point, other], away[0], away[1], away[2]].concat()
        };
        let mut all: Vec<Point> = near.iter().flat_map(of).collect();
        all.extend((0..20).map(|_| Point::random(rng)));
        all
    }

    #[test]
    fn no_place_is_better_than_is_told_at_least_nor_much_worse() {
        let mut rng = Stream::keyed(1, 0, Purpose::Test);
        let (mut errors, mut rough) = (Vec::new(), Rough::default());
        for (ms_per_km, base_ms) in [(0.02, 30.0), (0.0155, 24.8), (0.01, 0.0), (1.0, 5_000.0)] {
            let config = Config::with_line(Line { ms_per_km, base_ms });
            let survey = Survey::new(config, Parts::default(), Memory::default(), []);
            for _ in 0..200 {
                let peers = rng.below(64) as u32;
                let measured = |peer: u32| Near {
                    peer,
                    rtt_ms: 400.0 * rng.unit() * rng.unit(),
                    there: Site::new(Point::random(&mut rng)),
                    height_ms: 80.0 * rng.unit() - 20.0,
                    km: 0.0,
                };
                let near: Vec<Near> = (0..=peers).map(measured).collect();
                rough.fill(&near, config.line);
                for place in places(&near, &mut rng) {
                    let km = |one: &Near| place.distance_km(one.there.point);
                    let exact = survey.misfit_ms(&near, &mut errors, km);
                    let (least, slack) = (rough.misfit_min_ms(place), rough.slack_ms);
                    assert!(least <= exact, "{least} {exact}");
                    assert!(least >= exact - 2.0 * slack, "{least} {exact}");
                }
            }
        }
        rough.fill(&[], Config::default().line);
        assert_eq!(rough.misfit_min_ms(Point::POLE), 0.0);
    }
}
