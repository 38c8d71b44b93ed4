//! Changes that are asked for by what a user would do, and what of the target's time they save.

use super::Whatif;
use crate::faults::Fault;
use cavy_core::Span;
use cavy_groups::rank::{Ranking, Row, Rule};
use cavy_live::record::Summary;
use std::fmt::Write as _;
use std::path::Path;

/// More replicas, or more cores, of one service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    from: u32,
    to: u32,
}

impl Growth {
    /// `FROM:TO`.
    pub fn read(text: &str) -> Result<Growth, String> {
        let numbers = text.trim().split_once(':').and_then(|(from, to)| {
            Some(Growth { from: from.trim().parse().ok()?, to: to.trim().parse().ok()? })
        });
        let growth = numbers.filter(|one| one.from >= 1 && one.to <= 1_024);
        let growth = growth.ok_or("write FROM:TO, such as 2:3, of 1 to 1024")?;
        if growth.to <= growth.from {
            return Err("TO must be more than FROM: fewer are for the lab to predict".to_string());
        }
        Ok(growth)
    }

    /// With m of n units a visit has 1 - m / n less to wait for: n units do in the time of m
    /// [slowpoke 2.1].
    pub fn faster(self) -> f64 {
        1.0 - f64::from(self.from) / f64::from(self.to)
    }
}

/// What was asked for besides a share of the target's time.
pub fn growth(args: &Whatif) -> Option<(&'static str, Growth)> {
    let replicas = args.replicas.map(|growth| ("replicas", growth));
    replicas.or(args.cores.map(|growth| ("cores", growth)))
}

/// How the answer is found, in a sentence for each change that is not `--faster`.
pub fn explained(args: &Whatif, ranking: &Ranking) -> String {
    let mut out = String::new();
    if let Some((what, Growth { from, to })) = growth(args) {
        let name = args.targets.join("+");
        let _ = writeln!(
            out,
            "{name} with {to} {what} for {from}: as if its work took {:.1} % less time (1 - \
             {from}/{to}). That is what it buys where {what} are what bounds {name}, and the new \
             ones have cores that nobody uses now.",
            ranking.faster_percent
        );
    }
    if let Some(less) = args.lock {
        let _ = writeln!(
            out,
            "Each request holds a lock {:.0} us less: all others stood for so long with each \
             request, since one holds it at a time.",
            less.as_us()
        );
    }
    out
}

/// What became of the recording in `file`, in a sentence.
pub fn recorded(file: &Path, came: std::io::Result<Option<Summary>>) -> String {
    let file = file.display();
    match came {
        Ok(Some(Summary { inputs, digest })) => format!(
            "recorded: {file}, {inputs} steps, digest {digest:016x}; `cavy replay` decides again"
        ),
        Ok(None) => format!("recorded: nothing in {file}"),
        Err(error) => format!("{file}: the recording ended early: {error}"),
    }
}

/// A lock that binds hides what the rest of the service can do: stopping the others helps all of
/// it. So no more can be gained than its cores allow ([slowpoke 2.1]).
pub fn beyond_its_cores(less: Span, rows: &mut [Row], cores: usize) {
    for row in rows {
        let left_us = row.cpu_us_per_request - less.as_us();
        let Some(predicted) = row.predicted_per_s.filter(|_| left_us > 0.0) else { continue };
        let most_per_s = cores as f64 * 1e6 / left_us;
        if predicted.value > most_per_s {
            row.doubts.push(format!(
                "{:.0} requests/s are predicted, and {cores} cores can do {most_per_s:.0} of its \
                 work: the lock no longer binds then",
                predicted.value
            ));
        }
    }
}

/// The rule for a lock, when one was named.
pub fn lock(args: &Whatif) -> Option<Rule> {
    let saved = args.lock?;
    Some(Rule::Count { saved, visits: 1.0, parallel: 1 })
}

/// Services that are measured, each alone, or all of them as one change.
pub fn sets(args: &Whatif, only: &[usize]) -> Result<Vec<Vec<usize>>, Fault> {
    if !args.together {
        return Ok(only.iter().map(|place| vec![*place]).collect());
    }
    let most = cavy_groups::rank::TARGETS;
    if !(2..=most).contains(&only.len()) {
        return Err(Fault::new(format!("--together: {} services are named", only.len()))
            .hint(format!("give --target NAME for 2 to {most} services")));
    }
    let mut named = only.to_vec();
    named.sort_unstable();
    named.dedup();
    if named.len() < only.len() {
        return Err(
            Fault::new("--together: a service is named twice").hint("give each --target once")
        );
    }
    Ok(vec![only.to_vec()])
}

#[cfg(test)]
mod tests {
    use super::super::plan::tests::ranking;
    use super::*;
    use cavy_groups::rank::Estimate;

    #[test]
    fn more_than_its_cores_can_do_is_doubted() {
        // 0.9 ms for a request, 0.1 of them under the lock: two cores can do 2,500 a second then.
        let doubts = |per_s| {
            let mut rows = ranking().rows;
            rows.truncate(1);
            rows[0].predicted_per_s = Some(Estimate { value: per_s, low: per_s, high: per_s });
            beyond_its_cores(Span::from_us(100), &mut rows, 2);
            rows[0].doubts.clone()
        };
        assert_eq!(doubts(2_400.0), Vec::<String>::new());
        assert!(doubts(2_600.0)[0].contains("2500 of its work"), "{:?}", doubts(2_600.0));
    }

    #[test]
    fn growth_is_what_of_the_time_is_saved() {
        let faster = |text: &str| Growth::read(text).map(Growth::faster);
        assert_eq!(faster("1:2"), Ok(0.5));
        assert!(faster("2:3").is_ok_and(|share| (share - 1.0 / 3.0).abs() < 1e-12));
        assert_eq!(faster(" 3 : 4 "), Ok(0.25));
        for wrong in ["2", "2:2", "3:2", "0:1", "1:2000", "a:b", "1:2:3", "-1:2"] {
            assert!(faster(wrong).is_err(), "{wrong}");
        }
    }
}
