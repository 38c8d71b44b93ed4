//! What search copies when p changes, and when; and what tables say.

use crate::sections::run;
use cavy_kinds::search::SearchPlan;
use cavy_kinds::search::changes::{Change, next, stages};
use cavy_kinds::search::copier::{CHUNK, Copier};
use cavy_report::model::Cell;
use cavy_study::draw;

fn clusters(p: u32) -> Vec<Vec<u32>> {
    (0..p).map(|j| (0..48).filter(|server| server % p == j).collect()).collect()
}

/// Every change of a whole factor: what is read is what is taken in, everybody is in one new
/// cluster, and totals are those of the specification.
#[test]
fn clause_3_1_what_is_copied_is_read_somewhere() {
    for change in [Change::Merge, Change::Dissolve, Change::Shards] {
        for (p, q) in [(48, 24), (24, 6), (12, 6), (6, 12), (6, 48)] {
            let (old, new) = (clusters(p), next(&clusters(p), q as usize));
            let mut all: Vec<u32> = new.concat();
            all.sort_unstable();
            assert_eq!((new.len(), all), (q as usize, (0..48).collect::<Vec<u32>>()));
            let mut copied = 0.0;
            for stage in stages(change, 48, &old, &new) {
                let sum = |all: &[f64]| all.iter().sum::<f64>();
                let (read, merged) = (sum(&stage.read), sum(&stage.merged));
                let known = if stage.local { 0.0 } else { merged };
                assert!((read - known).abs() < 1e-9, "{change:?}, {p} to {q}: {read} {merged}");
                copied += known;
            }
            let (old_p, new_p) = (f64::from(p), f64::from(q));
            let moved = 48.0 * (1.0 / new_p - 1.0 / old_p);
            match change {
                _ if q > p && change != Change::Shards => assert_eq!(copied, 0.0),
                Change::Merge => assert!((copied - moved).abs() < 1e-9),
                // Half of the clusters dissolve: half as much again [roar 2.8].
                Change::Dissolve if p == 2 * q => {
                    assert!((copied - 1.5 * moved).abs() < 1e-9, "{copied} of {moved}");
                }
                Change::Dissolve => assert!(copied > moved),
                Change::Shards => assert!(copied > moved),
            }
        }
    }
}

#[test]
fn copies_keep_to_their_share_and_make_up_for_what_they_waited() {
    // A tenth of a processor for each track, on a server without queries.
    let mut copier = Copier::new([0, 1_000_000_000], 20, true, 0);
    let mut free_at = 0;
    let half = copier.copy(&mut free_at, 5_000_000_000);
    assert_eq!(half, 500_000_000);
    // Busy for half a second: what was not copied then is copied at once.
    free_at = 5_500_000_000;
    let more = copier.copy(&mut free_at, 5_700_000_000);
    // Pieces take half a millisecond, so that the last one is due five milliseconds before the end.
    assert_eq!((more, free_at), (70_000_000, 5_695_500_000));
    assert!(!copier.is_done());
    copier.copy(&mut free_at, 20_000_000_000);
    assert!(copier.is_done());
}

#[test]
fn copies_do_not_wait_for_ever() {
    let mut copier = Copier::new([0, 1_000_000_000], 20, true, 0);
    let mut free_at = 60_000_000_000;
    assert_eq!(copier.copy(&mut free_at, 900_000_000), 0);
    assert_eq!(copier.copy(&mut free_at, 1_100_000_000), CHUNK);
}

/// 4,000 queries have a mean and no 99th percentile. With too many there is neither.
#[test]
fn a_choice_of_p_says_why_there_is_none() {
    for (per_s, mean, tail) in
        [(100, None, "too few queries"), (5_000, Some("none keeps up"), "none keeps up")]
    {
        let made = run::<SearchPlan>(
            &format!(
                "kind = \"search\"\ntitle = \"t\"\nservers = 12\norder = \"interleaved\"\n\
                 documents = 1000\nfixed_ms = 1\ndocument_us = 10\np = 1\nqueries_per_s = {per_s}\n\
                 [[schemes]]\nscheme = \"roar\"\n[sweep]\np = [1, 2]\n\
                 [run]\nqueries = 2200\nwarmup_queries = 200\nreplications = 2\n"
            ),
            false,
        );
        let tables = &draw::figures(&made, "test")[0].tables;
        let table = tables.iter().find(|table| table.id == "choices-base").expect("a table");
        let why = |head: &str| {
            let at = table.columns.iter().position(|column| column == head).expect("a column");
            match &table.rows[0][at] {
                Cell::Missing(why) => Some(why.as_str()),
                _ => None,
            }
        };
        for head in ["p, least mean", "mean (ms)"] {
            assert_eq!(why(head), mean, "{head} at {per_s}/s");
        }
        for head in ["p, least p99", "p99 (ms)", "copies"] {
            assert_eq!(why(head), Some(tail), "{head} at {per_s}/s");
        }
    }
}
