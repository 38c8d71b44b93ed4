//! Twenty anchors of RIPE Atlas, one a country, with their measured distances, in the lab.

mod orders;

use cavy_coords::Point;

struct Anchor {
    said: Point,
    rtt_ms: Vec<f64>,
}

fn anchors() -> Vec<Anchor> {
    let text = include_str!("../data/ripe-20.csv");
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    rows.map(|row| {
        let words: Vec<&str> = row.split(',').collect();
        let number = |at: usize| words[at].parse::<f64>().expect("a number");
        Anchor {
            said: Point::from_degrees(number(2), number(3)).expect("on Earth"),
            rtt_ms: (4..words.len()).map(number).collect(),
        }
    })
    .collect()
}

/// Percentiles 50 and 90 of the absolute errors of all pairs, milliseconds.
fn errors(anchors: &[Anchor], said: impl Fn(usize, usize) -> f64) -> (f64, f64) {
    let mut all = Vec::new();
    for (a, anchor) in anchors.iter().enumerate() {
        for (b, rtt_ms) in anchor.rtt_ms.iter().enumerate().take(a) {
            all.push((said(a, b) - rtt_ms).abs());
        }
    }
    all.sort_by(f64::total_cmp);
    let at = |share: f64| all[((all.len() as f64 * share).ceil() as usize).clamp(1, all.len()) - 1];
    (at(0.5), at(0.9))
}
