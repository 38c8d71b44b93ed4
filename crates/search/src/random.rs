//! Random placement: objects on c r servers by chance, queries at c p by chance `[roar 3.3]`. It
//! finds most objects and not all, at c^2 times the work.

/// The probability that a query misses an object: no one of its `asked` servers is among the
/// `copies` that hold it, of `n`. Exact `[roar 0.2]`; zero when they cannot miss each other.
pub fn miss(n: u32, copies: u32, asked: u32) -> f64 {
    if copies + asked > n {
        return 0.0;
    }
    // C(n - copies, asked) / C(n, asked), factor by factor.
    let factor = |i: u32| f64::from(n - copies - i) / f64::from(n - i);
    (0..asked).map(factor).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clause_0_2_the_exact_miss_is_far_from_its_limit() {
        assert!((miss(48, 12, 16) - 0.00324).abs() < 5e-6);
        assert!((miss(1000, 250, 16) - 0.0096).abs() < 5e-5);
        assert_eq!(miss(8, 4, 5), 0.0);
    }
}
