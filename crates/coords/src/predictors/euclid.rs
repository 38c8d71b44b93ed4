//! Points of flat spaces, as Vivaldi, Pyxida and serf have them.

use cavy_core::Stream;

pub(super) type Vector<const D: usize> = [f64; D];

pub(super) fn difference<const D: usize>(a: &Vector<D>, b: &Vector<D>) -> Vector<D> {
    core::array::from_fn(|axis| a[axis] - b[axis])
}

pub(super) fn length<const D: usize>(vector: &Vector<D>) -> f64 {
    libm::sqrt(vector.iter().map(|part| part * part).sum())
}

/// `vector`, with `factor` times `other` added.
pub(super) fn add<const D: usize>(vector: &mut Vector<D>, other: &Vector<D>, factor: f64) {
    for (part, other) in vector.iter_mut().zip(other) {
        *part += factor * other;
    }
}

/// A vector of length 1 in a random direction.
pub(super) fn random_direction<const D: usize>(rng: &mut Stream) -> Vector<D> {
    loop {
        let vector: Vector<D> = core::array::from_fn(|_| rng.unit() - 0.5);
        let long = length(&vector);
        if long > 1e-6 {
            return vector.map(|part| part / long);
        }
    }
}
