//! Answers of a window, counting those at its ends by parts.
//!
//! Services that work on several requests at once often finish them together. Answers then come in
//! waves, and a window has a wave more or less, as it happens: of 60 answers to 24 clients that was
//! a fifth. So a request that was under way when a window began or ended counts for the part of its
//! time that lies in the window. A client without think time always has a request under way, and
//! all that is left of the waves is how far progress is from even.

use crate::clients::Sample;
use cavy_core::Instant;
use std::collections::BTreeMap;

/// Answers between `from` and `to`. A request that has no answer among `samples` yet is taken to
/// need as long as others in the window did.
pub fn answers(samples: &[Sample], from: Instant, to: Instant) -> f64 {
    let us = |from: Instant, to: Instant| to.since(from).as_us();
    let (mut answers, mut took_us, mut seen) = (0.0, 0.0, 0_u32);
    // When each client sent what it waits for at the end.
    let mut last: BTreeMap<u32, Instant> = BTreeMap::new();
    for one in samples.iter().filter(|one| one.sent < to) {
        let sent = last.entry(one.client).or_insert(one.at);
        *sent = (*sent).max(one.at);
        if one.at > from {
            let whole = us(one.sent, one.at).max(1e-3);
            answers += us(one.sent.max(from), one.at.min(to)) / whole;
            took_us += whole;
            seen += 1;
        }
    }
    let mean_us = took_us / f64::from(seen.max(1));
    let open = last.values().filter(|sent| **sent < to && seen > 0);
    answers + open.map(|sent| (us((*sent).max(from), to) / mean_us).min(1.0)).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavy_core::Span;

    fn ms(ms: u64) -> Instant {
        Instant::from_ns(ms * 1_000_000)
    }

    /// Clients who are all answered at once, every 200 ms, until `end`.
    fn waves(clients: u32, end: u64) -> Vec<Sample> {
        let wave = |number: u64| {
            let (sent, at) = (ms(200 * number), ms(200 * (number + 1)));
            (0..clients).map(move |client| {
                let latency = at.since(sent);
                Sample { client, sent, at, latency, wall: latency }
            })
        };
        (0..end / 200).flat_map(wave).collect()
    }

    #[test]
    fn waves_do_not_matter() {
        let samples = waves(24, 10_000);
        // 120 a second, wherever the window begins and ends.
        for (from, to) in [(1_000, 2_000), (1_199, 2_199), (1_201, 2_201), (1_350, 3_410)] {
            let found = answers(&samples, ms(from), ms(to));
            let wanted = (to - from) as f64 * 0.12;
            assert!((found - wanted).abs() < 0.01, "{from} to {to}: {found}, not {wanted}");
        }
        let counted =
            |from, to| samples.iter().filter(|one| one.at > ms(from) && one.at <= ms(to)).count();
        assert_eq!((counted(1_201, 2_199), counted(1_199, 2_201)), (96, 144), "whole answers");
    }

    #[test]
    fn what_is_under_way_at_the_end_counts_as_well() {
        // Nothing is known of what was sent after 1 s.
        let samples = waves(24, 1_000);
        let found = answers(&samples, ms(300), ms(1_150));
        assert!((found - 850.0 * 0.12).abs() < 0.01, "{found}");
        // A request that takes for ever is one request at most.
        assert!((answers(&samples, ms(0), ms(9_000)) - 6.0 * 24.0).abs() < 0.01);
        assert_eq!(answers(&[], ms(0), ms(1_000)), 0.0);
    }

    #[test]
    fn a_request_longer_than_the_window_counts_by_its_part() {
        let (sent, at) = (ms(0), ms(4_000));
        let latency = Span::from_ms(4_000);
        let one = Sample { client: 0, sent, at, latency, wall: latency };
        assert!((answers(&[one], ms(1_000), ms(2_000)) - 0.25).abs() < 1e-9);
    }
}
