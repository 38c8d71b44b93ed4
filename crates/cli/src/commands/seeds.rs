//! Do verdicts depend on the seed? The same claims judged under several, as a page.

use cavy_report::model::{Claim, Verdict};
use cavy_report::number::significant;
use cavy_study::source::Scale;
use std::fmt::Write as _;

/// The claims that each seed judged, in the same order.
type BySeed = [(u64, Vec<Claim>)];

/// What became of one claim under all seeds.
struct Row<'a> {
    claims: Vec<&'a Claim>,
}

impl Row<'_> {
    /// Verdicts that it got, with how often.
    fn verdicts(&self) -> Vec<(Verdict, usize)> {
        let count = |verdict| self.claims.iter().filter(|claim| claim.verdict == verdict).count();
        Verdict::ALL.map(|one| (one, count(one))).into_iter().filter(|one| one.1 > 0).collect()
    }

    /// Two seeds say what cannot both be true.
    fn is_contradicted(&self) -> bool {
        let decided = |one: &&(Verdict, usize)| {
            matches!(one.0, Verdict::Reproduced | Verdict::Explained | Verdict::NotReproduced)
        };
        self.verdicts().iter().filter(decided).count() > 1
    }

    /// It varies, never for want of length: under some seeds its place is not resolved.
    fn is_coarse(&self) -> bool {
        let verdicts = self.verdicts();
        let has = |verdict| verdicts.iter().any(|one| one.0 == verdict);
        verdicts.len() > 1 && has(Verdict::NotAtThisScale) && !has(Verdict::TooShort)
    }

    /// Intervals, and how many of them do not hold the mean of the values.
    fn missed(&self) -> (usize, usize) {
        let values: Vec<f64> = self.claims.iter().filter_map(|claim| claim.value).collect();
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        // What is on a grid or in a bracket begins at its value.
        let interval = |claim: &&Claim| {
            let (value, low, high) = (claim.value?, claim.low?, claim.high?);
            (low < value && value < high).then_some((low, high))
        };
        let all: Vec<(f64, f64)> = self.claims.iter().filter_map(interval).collect();
        (all.len(), all.iter().filter(|(low, high)| mean < *low || mean > *high).count())
    }
}

fn rows(by_seed: &BySeed) -> Vec<Row<'_>> {
    let first = by_seed.first().map_or(&[][..], |(_, claims)| claims);
    let row = |claim: &Claim| {
        let same =
            |(_, claims): &'_ (u64, Vec<Claim>)| claims.iter().position(|c| c.id == claim.id);
        let found = by_seed.iter().filter_map(|one| Some(&one.1[same(one)?]));
        Row { claims: found.collect() }
    };
    first.iter().map(row).collect()
}

/// How many claims depend on the seed, in a few sentences.
pub fn sums(by_seed: &BySeed) -> String {
    let rows = rows(by_seed);
    let same = rows.iter().filter(|row| row.verdicts().len() == 1).count();
    let contradicted = rows.iter().filter(|row| row.is_contradicted()).count();
    let coarse = rows.iter().filter(|row| row.is_coarse() && !row.is_contradicted()).count();
    let coarse_words = match coarse {
        0 => String::new(),
        count => format!("{count} lie on a grid that is too coarse under some, "),
    };
    let (intervals, missed) = rows
        .iter()
        .map(Row::missed)
        .fold((0, 0), |(all, out), (intervals, missed)| (all + intervals, out + missed));
    let (first, last) = (by_seed.first().map_or(0, |s| s.0), by_seed.last().map_or(0, |s| s.0));
    format!(
        "Seeds {first} to {last}, {} claims: {same} have the same verdict under all, {} are too \
         short to judge under some, {coarse_words}{contradicted} are judged in two ways. Of \
         {intervals} intervals at 99 %, {missed} do not hold the mean of their claim over all \
         seeds.",
        rows.len(),
        rows.len() - same - contradicted - coarse
    )
}

/// Claims that a page names whose intervals are too narrow, at most.
const NAMED: usize = 12;

/// How likely it is that so many of these intervals at 99 %, or more, miss by chance.
fn chance(intervals: usize, missed: usize) -> f64 {
    let mut exactly = 0.99f64.powi(intervals as i32);
    let mut fewer = 0.0;
    for count in 0..missed {
        fewer += exactly;
        exactly *= (intervals - count) as f64 / (count + 1) as f64 * (0.01 / 0.99);
    }
    1.0 - fewer
}

/// The claims of which so many intervals miss that chance would do it in less than one of a
/// thousand.
fn narrow(by_seed: &BySeed) -> Option<String> {
    let missed = |row: &Row<'_>| {
        let (intervals, missed) = row.missed();
        let id = &row.claims.first()?.id;
        let rare = chance(intervals, missed) < 1e-3;
        rare.then(|| format!("`{id}` ({missed} of {intervals})"))
    };
    let all: Vec<String> = rows(by_seed).iter().filter_map(missed).collect();
    let more = match all.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named = all[..all.len().min(NAMED)].join(", ");
    (!all.is_empty()).then(|| {
        format!(
            "The intervals of these claims miss it more often than chance would have it. So they \
             are too narrow, and a verdict may be less certain than it says: {named}{more}."
        )
    })
}

/// The page: the sums, and a line for each claim whose verdict is not the same under all seeds.
pub fn page(title: &str, names: &[String], scale: Scale, by_seed: &BySeed) -> String {
    let (options, words) = match scale {
        Scale::Quick => ("", "quick"),
        Scale::Full => (" --full", "full"),
    };
    let count = by_seed.len();
    let first = match by_seed.first() {
        Some((seed, _)) if *seed != 1 => format!(" --seed {seed}"),
        _ => String::new(),
    };
    let command = format!("cavy reproduce {}{options}{first} --seeds {count}", names.join(" "));
    let made = format!("Made by `{command}`, {words}; not written by hand.");
    let mut out =
        format!("# {title}: verdicts by seed\n\n{}\n\n{}\n", lines(&made), lines(&sums(by_seed)));
    if let Some(narrow) = narrow(by_seed) {
        let _ = write!(out, "\n{}\n", lines(&narrow));
    }
    let differing: Vec<Row<'_>> =
        rows(by_seed).into_iter().filter(|row| row.verdicts().len() > 1).collect();
    if differing.is_empty() {
        return out;
    }
    out.push_str("\n| Claim | Ours, least to most | Accepted | Verdicts |\n|---|---|---|---|\n");
    for row in differing {
        let Some(claim) = row.claims.first() else { continue };
        let values = || row.claims.iter().filter_map(|claim| claim.value);
        let ours = match (values().reduce(f64::min), values().reduce(f64::max)) {
            (Some(low), Some(high)) => format!("{} to {}", significant(low), significant(high)),
            _ => "not measured".to_string(),
        };
        let verdicts: Vec<String> = row
            .verdicts()
            .into_iter()
            .map(|(verdict, times)| format!("{times} {}", verdict.words()))
            .collect();
        let mark = if row.is_contradicted() { " **in two ways**" } else { "" };
        let _ = writeln!(
            out,
            "| `{}` | {ours} | {} | {}{mark} |",
            claim.id,
            claim.accepted(),
            verdicts.join(", ")
        );
    }
    out
}

/// `text` in lines as pages have them.
fn lines(text: &str) -> String {
    const COLUMNS: usize = 100;
    let mut out = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if column > 0 {
            let fits = column + 1 + length <= COLUMNS;
            out.push(if fits { ' ' } else { '\n' });
            column = if fits { column + 1 } else { 0 };
        }
        out.push_str(word);
        column += length;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(id: &str, value: f64, verdict: Verdict) -> Claim {
        Claim {
            id: id.into(),
            system: "s".into(),
            figure: "f".into(),
            source: String::new(),
            statement: String::new(),
            published: String::new(),
            reviewers: None,
            unit: "x".into(),
            value: Some(value),
            low: Some(value - 0.1),
            high: Some(value + 0.1),
            tolerance: Some((1.0, 2.0)),
            tolerance_reason: String::new(),
            samples: 1,
            verdict,
            evidence: String::new(),
            repeat: String::new(),
        }
    }

    #[test]
    fn intervals_that_are_too_narrow_are_named() {
        // The mean is 1.5, which neither 1.2 nor 1.8 has in its interval.
        let of = |value| {
            vec![claim("a", 1.5, Verdict::Reproduced), claim("b", value, Verdict::Reproduced)]
        };
        let by_seed = [(1, of(1.2)), (2, of(1.5)), (3, of(1.8))];
        let page = page("T", &["s".to_string()], Scale::Quick, &by_seed);
        assert!(page.contains("Of 6 intervals at 99 %, 2 do not hold"), "{page}");
        assert!(page.contains(" `b` (2 of 3)."), "{page}");
        assert!(!page.contains("`a`"), "{page}");
        let many: Vec<_> = (0..14).map(|at| format!("c{at}")).collect();
        let of = |value| many.iter().map(|id| claim(id, value, Verdict::Reproduced)).collect();
        let narrow = narrow(&[(1, of(1.2)), (2, of(1.8))]).expect("all miss");
        assert!(narrow.contains("`c11` (2 of 2) and 2 more."), "{narrow}");
        // 1 - 0.99^3 and so on: two of three are rare, two of twelve are not, three are.
        assert!((chance(3, 1) - 0.029_701).abs() < 1e-9 && chance(3, 2) < 1e-3);
        assert!(chance(12, 2) > 1e-3 && chance(12, 3) < 1e-3 && chance(12, 0) == 1.0);
    }

    #[test]
    fn what_depends_on_the_seed_is_told_apart() {
        use Verdict::{NotReproduced, Reproduced, TooShort};
        let of = |a, b, c| vec![claim("a", 1.5, a), claim("b", 1.95, b), claim("c", 2.05, c)];
        let mut by_seed = vec![
            (1, of(Reproduced, Reproduced, Reproduced)),
            (2, of(Reproduced, TooShort, NotReproduced)),
            (3, of(Reproduced, Reproduced, TooShort)),
        ];
        by_seed[2].1[0].value = Some(1.7);
        by_seed[2].1[0].low = Some(1.6);
        by_seed[2].1[0].high = Some(1.8);
        let sums = sums(&by_seed);
        assert!(sums.contains("3 claims: 1 have the same verdict under all, 1 are too"), "{sums}");
        assert!(sums.contains("1 are judged in two ways"), "{sums}");
        // The mean of 1.5, 1.5 and 1.7 is 1.57: the third interval does not hold it.
        assert!(sums.contains("Of 9 intervals at 99 %, 1 do not hold"), "{sums}");
        let page = page("T", &["s".to_string()], Scale::Quick, &by_seed);
        assert!(!page.contains("more often than chance"), "one of nine may be: {page}");
        assert!(page.contains("Made by `cavy reproduce s --seeds 3`, quick"), "{page}");
        let text = page.lines().filter(|line| !line.starts_with('|'));
        assert!(text.clone().all(|line| line.chars().count() <= 100), "{page}");
        assert!(!page.contains("| `a` |"), "{page}");
        by_seed[1].1[2].verdict = Verdict::NotAtThisScale;
        by_seed[2].1[2].verdict = Reproduced;
        let sums = super::sums(&by_seed[1..]);
        assert!(sums.contains("1 are too short to judge under some, 1 lie on a grid"), "{sums}");
        let later = super::page("T", &["s".to_string()], Scale::Quick, &by_seed[1..]);
        assert!(later.contains("`cavy reproduce s --seed 2 --seeds 2`, quick"), "{later}");
        let b = "| `b` | 1.95 to 1.95 | 1 to 2x | 2 reproduced, 1 too short to judge |";
        assert!(page.contains(b), "{page}");
        assert!(
            page.contains("1 not reproduced, 1 too short to judge **in two ways** |"),
            "{page}"
        );
    }
}
