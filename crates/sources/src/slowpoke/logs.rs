//! The source's own measurements, as extracted from its logs.

/// Points of a curve: with 10, 20, .. 100 percent of the target's time removed.
pub const POINTS: usize = 10;

/// One line of a table of measurements.
#[derive(Clone, Debug)]
pub struct Line {
    /// The application.
    pub application: String,
    /// True throughput at each point, where it was measured.
    pub truth: [Option<f64>; POINTS],
    /// Predicted throughput at each point.
    pub predicted: [Option<f64>; POINTS],
}

/// All repetitions of the four applications.
pub fn repetitions() -> Vec<Line> {
    lines(include_str!("data/fig8.csv"))
}

/// Medians of the last run of each synthetic application.
pub fn synthetic() -> Vec<Line> {
    lines(include_str!("data/fig9.csv"))
}

/// Both tables have a name, a number, the unchanged throughput, and the values. A log that broke
/// off has none.
fn lines(text: &str) -> Vec<Line> {
    let rows = text.lines().filter(|line| !line.starts_with('#')).skip(1);
    rows.filter_map(|row| {
        let mut fields = row.split(',');
        let application = fields.next()?.to_string();
        fields.next()?;
        fields.next()?;
        let mut value = || fields.next().and_then(|field| field.parse::<f64>().ok());
        let truth = core::array::from_fn(|_| value());
        let predicted = core::array::from_fn(|_| value());
        Some(Line { application, truth, predicted })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_whole() {
        let repetitions = repetitions();
        assert_eq!(repetitions.len(), 20);
        assert!(repetitions.iter().all(|one| one.truth.iter().all(Option::is_some)));
        assert_eq!(repetitions[0].truth[0], Some(4_350.5));
        let synthetic = synthetic();
        assert_eq!(synthetic.len(), 108);
        assert_eq!(synthetic.iter().filter(|one| one.truth[9].is_some()).count(), 104);
    }
}
