//! Points of the unit sphere, and moves along great circles.

use crate::arc;
use cavy_core::Stream;

/// Mean radius of the Earth.
pub const EARTH_RADIUS_KM: f64 = 6371.0;

/// Angles nearer than this to zero or to a half turn name no direction.
const DIRECTIONLESS_RAD: f64 = 1e-9;

/// A point of the unit sphere, as a unit vector: north pole at `z`, longitude zero at `x`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    x: f64,
    y: f64,
    z: f64,
}

impl Point {
    /// The north pole.
    pub const POLE: Point = Point { x: 0.0, y: 0.0, z: 1.0 };

    /// The point at a latitude in -90 to 90 degrees and a longitude in -180 to 180 degrees; `None`
    /// when either is beyond that or no number.
    pub fn from_degrees(latitude: f64, longitude: f64) -> Option<Point> {
        let on_earth = latitude.abs() <= 90.0 && longitude.abs() <= 180.0;
        let (phi, lambda) = (latitude.to_radians(), longitude.to_radians());
        let across = libm::cos(phi);
        let point = Point {
            x: across * libm::cos(lambda),
            y: across * libm::sin(lambda),
            z: libm::sin(phi),
        };
        on_earth.then(|| point.normalized()).flatten()
    }

    /// The direction of a vector; `None` when it has none.
    pub fn from_vector([x, y, z]: [f64; 3]) -> Option<Point> {
        Point { x, y, z }.normalized()
    }

    /// The unit vector.
    pub fn vector(self) -> [f64; 3] {
        [self.x, self.y, self.z]
    }

    /// Latitude and longitude in degrees.
    pub fn degrees(self) -> (f64, f64) {
        let latitude = libm::atan2(self.z, libm::hypot(self.x, self.y));
        (latitude.to_degrees(), libm::atan2(self.y, self.x).to_degrees())
    }

    /// A uniformly random point.
    pub fn random(rng: &mut Stream) -> Point {
        loop {
            let mut draw = || 2.0 * rng.unit() - 1.0;
            let point = Point { x: draw(), y: draw(), z: draw() };
            let square = point.dot(point);
            if square <= 1.0
                && square > 1e-6
                && let Some(point) = point.normalized()
            {
                return point;
            }
        }
    }

    /// The angle to `other` in radians, 0 to pi, the same to the bit from either end.
    ///
    /// By the arc tangent of cross and dot product: the arc cosine loses half of its digits between
    /// near points, and between near antipodes ([htrae 2.2]).
    #[inline]
    pub fn angle(self, other: Point) -> f64 {
        arc::angle(self.cross_length(other), self.dot(other))
    }

    /// The distance to `other` along the surface of the Earth.
    #[inline]
    pub fn distance_km(self, other: Point) -> f64 {
        EARTH_RADIUS_KM * self.angle(other)
    }

    /// The square of the straight distance to `other`, in radii: nearly that of the angle where it
    /// is small, and much cheaper.
    #[inline]
    pub fn chord_squared(self, other: Point) -> f64 {
        let (x, y, z) = (self.x - other.x, self.y - other.y, self.z - other.z);
        x * x + y * y + z * z
    }

    /// This point moved by `radians` along the great circle through `from`, away from it; towards
    /// it when negative. From a point on top of it nothing is "away", so the point stays; from its
    /// antipode every direction leads back, and one is drawn at random ([htrae 2.4]).
    pub fn moved_away(self, from: Point, radians: f64, rng: &mut Stream) -> Point {
        let rotated = self.rotated(from, self.angle(from), radians, rng);
        rotated.and_then(Point::normalized).unwrap_or(self)
    }

    /// [`Point::moved_away`] from a point that is `angle` away, as rounding leaves it: over
    /// thousands of moves the vector would grow or shrink. `None` where the point stays.
    #[inline]
    pub(crate) fn rotated(
        self,
        from: Point,
        angle: f64,
        radians: f64,
        rng: &mut Stream,
    ) -> Option<Point> {
        if radians == 0.0 || angle < DIRECTIONLESS_RAD {
            return None;
        }
        let away = if angle > core::f64::consts::PI - DIRECTIONLESS_RAD {
            self.random_tangent(rng)
        } else {
            let dot = self.dot(from);
            let towards = Point {
                x: from.x - dot * self.x,
                y: from.y - dot * self.y,
                z: from.z - dot * self.z,
            };
            match towards.normalized() {
                Some(towards) => Point { x: -towards.x, y: -towards.y, z: -towards.z },
                None => return None,
            }
        };
        let (sin, cos) = (libm::sin(radians), libm::cos(radians));
        Some(Point {
            x: cos * self.x + sin * away.x,
            y: cos * self.y + sin * away.y,
            z: cos * self.z + sin * away.z,
        })
    }

    /// A unit vector at a right angle to this one.
    fn random_tangent(self, rng: &mut Stream) -> Point {
        loop {
            let other = Point::random(rng);
            let dot = self.dot(other);
            let tangent = Point {
                x: other.x - dot * self.x,
                y: other.y - dot * self.y,
                z: other.z - dot * self.z,
            };
            if let Some(tangent) = tangent.normalized() {
                return tangent;
            }
        }
    }

    /// The point in the middle of `points`; `None` when there is none, as of antipodes.
    pub fn centroid(points: impl Iterator<Item = Point>) -> Option<Point> {
        let zero = Point { x: 0.0, y: 0.0, z: 0.0 };
        let sum =
            points.fold(zero, |sum, p| Point { x: sum.x + p.x, y: sum.y + p.y, z: sum.z + p.z });
        sum.normalized()
    }

    #[inline]
    fn dot(self, other: Point) -> f64 {
        self.x * other.x + self.y * other.y + self.z * other.z
    }

    /// Length of the cross product.
    #[inline]
    fn cross_length(self, other: Point) -> f64 {
        let x = self.y * other.z - self.z * other.y;
        let y = self.z * other.x - self.x * other.z;
        let z = self.x * other.y - self.y * other.x;
        libm::sqrt(x * x + y * y + z * z)
    }

    #[inline]
    pub(crate) fn normalized(self) -> Option<Point> {
        let length = libm::sqrt(self.dot(self));
        let point = Point { x: self.x / length, y: self.y / length, z: self.z / length };
        (length.is_finite() && length > 1e-12).then_some(point)
    }
}
