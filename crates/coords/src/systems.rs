//! In which autonomous systems heights are corrected: not in very large ones ([htrae 2.6]).

use crate::sphere::Point;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// IPv4 addresses that a system may announce and not count as very large, 2^22.
pub const ADDRESSES_MAX: u64 = 1 << 22;
/// Radius that a system may have and not count as very large.
pub const RADIUS_MAX_KM: f64 = 1500.0;

/// The systems within which heights are corrected. How the source measures size is not known; both
/// measures of the specification are here.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Corrected {
    numbers: Vec<u32>,
}

impl Corrected {
    /// Those that announce at most `addresses_max` addresses.
    pub fn by_addresses(
        announced: impl IntoIterator<Item = (u32, u64)>,
        addresses_max: u64,
    ) -> Corrected {
        let small = announced.into_iter().filter(|(_, addresses)| *addresses <= addresses_max);
        Corrected::of(small.map(|(number, _)| number))
    }

    /// Those of whose known machines nine tenths lie within `radius_max_km` of their middle. This
    /// measure is the one with a physical meaning: a path inside a system saves its exchange
    /// points, not its ocean.
    pub fn by_radius(
        machines: impl IntoIterator<Item = (u32, Point)>,
        radius_max_km: f64,
    ) -> Corrected {
        let mut members: BTreeMap<u32, Vec<Point>> = BTreeMap::new();
        for (number, point) in machines {
            members.entry(number).or_default().push(point);
        }
        let is_small = |points: &Vec<Point>| {
            let Some(middle) = Point::centroid(points.iter().copied()) else { return false };
            let mut away: Vec<f64> = points.iter().map(|point| point.distance_km(middle)).collect();
            away.sort_unstable_by(f64::total_cmp);
            let index = libm::ceil(0.9 * away.len() as f64) as usize;
            away[index.clamp(1, away.len()) - 1] <= radius_max_km
        };
        Corrected::of(
            members.iter().filter(|(_, points)| is_small(points)).map(|(number, _)| *number),
        )
    }

    fn of(numbers: impl Iterator<Item = u32>) -> Corrected {
        let mut numbers: Vec<u32> = numbers.filter(|number| *number != 0).collect();
        numbers.sort_unstable();
        numbers.dedup();
        Corrected { numbers }
    }

    /// `number` if heights are corrected within it, else 0: what belongs in
    /// [`crate::model::Coordinate::system`].
    pub fn effective(&self, number: u32) -> u32 {
        if self.numbers.binary_search(&number).is_ok() { number } else { 0 }
    }
}
