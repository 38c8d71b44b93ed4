//! What measurements say: latencies that stall by equal times, work that differs between types.

use super::{Answers, question};
use cavy_lab::statistics::quantile;

/// Stalls that timers make, in microseconds, with whose timer it is.
const STALLS_US: [(f64, &str); 3] = [
    (40_000.0, "40 ms, Linux's delayed acknowledgement"),
    (200_000.0, "200 ms, the least retransmission timeout of Linux"),
    (1_000_000.0, "1 s, the first timeout of a handshake"),
];
/// Values that a stall must have, to be no accident.
const STALLED_MIN: usize = 20;
/// How much denser than around it values must lie.
const DENSER: f64 = 5.0;
/// Means that differ by as much are of mixed types.
const MIXED: f64 = 10.0;

/// Columns of numbers by name.
pub type Columns = Vec<(String, Vec<f64>)>;

/// Reads a CSV file whose first line names its columns.
///
/// # Errors
/// A sentence that names line and column.
pub fn columns(text: &str, us_per_unit: f64) -> Result<Columns, String> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let heads = reader.headers().map_err(|error| error.to_string())?.clone();
    let mut columns: Columns = heads.iter().map(|name| (name.to_string(), Vec::new())).collect();
    if columns.is_empty() {
        return Err("it is empty; its first line must name its columns".to_string());
    }
    for (row, record) in reader.records().enumerate() {
        let record = record.map_err(|error| error.to_string())?;
        for (column, cell) in columns.iter_mut().zip(&record) {
            if cell.is_empty() {
                continue;
            }
            let number = cell.parse::<f64>().ok().filter(|value| value.is_finite());
            let number = number.filter(|value| *value >= 0.0).ok_or_else(|| {
                format!("line {}, column `{}`: `{cell}` is no time", row + 2, column.0)
            })?;
            column.1.push(number * us_per_unit);
        }
    }
    match columns.iter().find(|(_, values)| values.len() < 100) {
        Some((name, values)) => Err(format!(
            "column `{name}` has {} values; at least 100 are needed to say anything",
            values.len()
        )),
        None => Ok(columns),
    }
}

/// What latencies say: do some of them stall for a timer?
pub fn latencies(columns: &Columns, file: &str, answers: &mut Answers) {
    let Some(asked) = question("stalls") else { return };
    for (name, values) in columns {
        for (stall_us, whose) in STALLS_US {
            if let Some(count) = stalled(values, stall_us) {
                let share = count as f64 * 100.0 / values.len() as f64;
                let says = format!(
                    "column `{name}` of {file}: {share:.2} % of the values lie just above {whose}"
                );
                answers.note(asked, true, says);
                return;
            }
        }
    }
}

/// How many values lie from the median plus `stall_us` to a fifth more, if far more than around.
fn stalled(values: &[f64], stall_us: f64) -> Option<usize> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let median = quantile::of_sorted(&sorted, 0.5)?;
    if median > stall_us / 4.0 {
        return None;
    }
    let within = |low: f64, high: f64| {
        let at = |edge: f64| sorted.partition_point(|value| *value < edge);
        at(high) - at(low)
    };
    // A timer is late and never early. Below and above are as wide together as what is between.
    let count = within(stall_us * 0.98, stall_us * 1.18 + median);
    let around = within(stall_us * 0.85, stall_us * 0.98)
        + within(stall_us * 1.18 + median, stall_us * 1.35 + median);
    (count >= STALLED_MIN && count as f64 > DENSER * around as f64).then_some(count)
}

/// What busy times by type say: does one type need ten times the work of another?
pub fn busy_times(columns: &Columns, file: &str, answers: &mut Answers) {
    let Some(asked) = question("mixed") else { return };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let means: Vec<(&str, f64)> =
        columns.iter().map(|(name, values)| (name.as_str(), mean(values))).collect();
    let by = |one: &&(&str, f64), other: &&(&str, f64)| one.1.total_cmp(&other.1);
    let (Some(least), Some(most)) = (means.iter().min_by(by), means.iter().max_by(by)) else {
        return;
    };
    let times = most.1 / least.1.max(1e-9);
    let says = format!("{file}: `{}` takes {times:.1} times as long as `{}`", most.0, least.0);
    if means.len() > 1 {
        answers.note(asked, times >= MIXED, says);
        return;
    }
    // One column: types are not told apart, but the spread shows that there must be some.
    let mut sorted = columns[0].1.clone();
    sorted.sort_by(f64::total_cmp);
    let at = |p| quantile::of_sorted(&sorted, p).unwrap_or(0.0);
    let (median, p99) = (at(0.5), at(0.99));
    let times = p99 / median.max(1e-9);
    let says = format!("{file}: the 99th percentile of busy time is {times:.1} times the median");
    answers.note(asked, times >= MIXED, says);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(from_us: f64, to_us: f64, count: usize) -> impl Iterator<Item = f64> {
        (0..count).map(move |i| from_us + (to_us - from_us) * i as f64 / count as f64)
    }

    #[test]
    fn stalls_are_told_from_a_long_tail() {
        let tail: Vec<f64> = spread(100.0, 5_000.0, 5_000).chain(spread(5e3, 4e5, 200)).collect();
        let mut answers = Answers::default();
        latencies(&vec![("us".to_string(), tail.clone())], "x.csv", &mut answers);
        assert!(answers.is_empty(), "{answers:?}");
        let stalls: Vec<f64> = tail.into_iter().chain(spread(2.0e5, 2.1e5, 300)).collect();
        latencies(&vec![("us".to_string(), stalls)], "x.csv", &mut answers);
        let answer = answers.of("stalls").expect("an answer");
        assert!(answer.yes && answer.says.contains("200 ms"), "{answer:?}");
    }

    #[test]
    fn types_that_differ_are_mixed() {
        let column = |name: &str, us: f64| (name.to_string(), vec![us; 200]);
        let mut answers = Answers::default();
        busy_times(&vec![column("get", 3.0), column("scan", 60.0)], "x.csv", &mut answers);
        let answer = answers.of("mixed").expect("an answer").clone();
        assert!(answer.yes && answer.says.contains("`scan` takes 20.0 times"), "{answer:?}");
        let mut answers = Answers::default();
        busy_times(&vec![column("get", 3.0), column("scan", 6.0)], "x.csv", &mut answers);
        assert_eq!(answers.of("mixed").map(|answer| answer.yes), Some(false));
    }

    #[test]
    fn bad_files_are_refused_in_words() {
        for (text, says) in [
            ("", "empty"),
            ("us\n1\nx\n", "line 3, column `us`: `x` is no time"),
            ("us\n1\n-2\n", "no time"),
            ("us\n1\n2\n", "at least 100"),
        ] {
            let said = columns(text, 1.0).expect_err(text);
            assert!(said.contains(says), "{text:?}: {said}");
        }
    }
}
