//! What was measured, meets what was claimed.

use cavy_report::model::{Claim, Verdict};
use cavy_study::claim::{self, Measured, Statement};

/// A tenth of what is claimed is as much as the machine may add `measurements.md 3.5`.
const NOISE_RATIO_MAX: f64 = 0.1;

/// A machine that keeps a thread from running for more of the time disturbs medians as well.
const STALLED_RATIO_MAX: f64 = 0.1;

/// Runs of a study whose generator may have been late before its claims are in doubt.
const DOUBTED_RATIO_MAX: f64 = 0.1;

/// A measured value, by the name of the claim it answers.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The claim's name.
    pub id: String,
    /// The value.
    pub value: Option<f64>,
    /// Smallest over repetitions.
    pub low: Option<f64>,
    /// Greatest over repetitions.
    pub high: Option<f64>,
    /// Samples behind it.
    pub samples: u64,
    /// What else there is to know.
    pub note: String,
    /// The latency that the value speaks of, where it is a ratio of latencies; what the machine
    /// adds is held against it.
    pub scale_us: Option<f64>,
    /// It is a tail, and not a median that rare stalls leave alone.
    pub tail: bool,
    /// Share of the runs behind the value that are in doubt; `None` where all runs of the study
    /// are.
    pub doubted_ratio: Option<f64>,
}

/// What the machine was like while a study ran.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet {
    /// What one request in a thousand meets; `None` when nobody looked.
    pub noise_us: Option<f64>,
    /// Share of the time that a spinning thread was kept from running; `None` likewise.
    pub stalled_ratio: Option<f64>,
    /// Share of the runs whose generator was in doubt.
    pub doubted_ratio: f64,
}

impl Quiet {
    /// In words.
    pub fn words(&self) -> String {
        let Quiet { noise_us: Some(noise), stalled_ratio: Some(stalled), .. } = *self else {
            return "not known: no jitter probe was taken".to_string();
        };
        format!(
            "one request in a thousand meets {noise:.0} us of this machine's own, and a spinning \
             thread was stalled {:.1} % of the time (medians over the runs, worse probe of each): \
             tails above {:.1} ms may be published{}",
            100.0 * stalled,
            noise / NOISE_RATIO_MAX / 1e3,
            if stalled > STALLED_RATIO_MAX { ", medians may not" } else { "" }
        )
    }
}

impl Finding {
    /// No value yet.
    pub fn nothing(id: &str) -> Finding {
        Finding {
            id: id.to_string(),
            value: None,
            low: None,
            high: None,
            samples: 0,
            note: String::new(),
            scale_us: None,
            tail: true,
            doubted_ratio: None,
        }
    }

    /// The same of a median.
    pub fn of_median(self) -> Finding {
        Finding { tail: false, ..self }
    }

    /// One latency over another.
    pub fn ratio(id: &str, over: Option<f64>, under: Option<f64>, samples: u64) -> Finding {
        let both = over.zip(under);
        Finding {
            value: both.map(|(over, under)| over / under.max(1e-3)),
            samples,
            note: both.map_or(String::new(), |(over, under)| {
                format!("{:.3} ms over {:.3} ms.", over / 1e3, under / 1e3)
            }),
            scale_us: both.map(|(over, under)| over.min(under)),
            ..Finding::nothing(id)
        }
    }
}

/// Judges the findings of one study, which meet the statements here and nowhere else; `repeat` is
/// the command that makes them again.
pub fn judge(
    statements: &[Statement],
    findings: &[Finding],
    quiet: Quiet,
    repeat: &str,
) -> Vec<Claim> {
    let measured = |finding: &Finding| Measured {
        id: finding.id.clone(),
        value: finding.value,
        low: finding.low,
        high: finding.high,
        samples: finding.samples,
        note: finding.note.clone(),
        ..Measured::default()
    };
    let measured: Vec<Measured> = findings.iter().map(measured).collect();
    let mut claims = claim::judge(statements, &measured, &|_, _| repeat.to_string());
    for claim in &mut claims {
        let finding = findings.iter().find(|finding| finding.id == claim.id);
        let doubted_ratio = finding.and_then(|finding| finding.doubted_ratio);
        let doubted_ratio = doubted_ratio.unwrap_or(quiet.doubted_ratio);
        let quiet = Quiet { doubted_ratio, ..quiet };
        let limit = limit_us(claim).or(finding.and_then(|finding| finding.scale_us));
        if let (Some(limit), true) = (limit, claim.verdict != Verdict::TooShort)
            && let Some(why) = noisy(limit, finding.is_none_or(|finding| finding.tail), quiet)
        {
            claim.verdict = Verdict::TooNoisy;
            claim.evidence = format!("{why} {}", claim.evidence).trim_end().to_string();
        }
    }
    claims
}

/// The latency that is claimed, for claims that are latencies.
fn limit_us(claim: &Claim) -> Option<f64> {
    let (_, high) = claim.tolerance?;
    match claim.unit.as_str() {
        "ms" => Some(1e3 * high),
        "us" => Some(high),
        _ => None,
    }
}

/// Why a latency of `limit_us` cannot be told on such a machine.
fn noisy(limit_us: f64, tail: bool, quiet: Quiet) -> Option<String> {
    let most = NOISE_RATIO_MAX * limit_us;
    let (Some(noise), Some(stalled)) = (quiet.noise_us, quiet.stalled_ratio) else {
        return Some("No jitter probe was taken.".to_string());
    };
    match noise {
        _ if stalled > STALLED_RATIO_MAX => Some(format!(
            "A spinning thread was kept from running {:.0} % of the time.",
            100.0 * stalled
        )),
        noise if tail && noise > most => Some(format!(
            "The jitter probe says that one request in a thousand meets {noise:.0} us of this \
             machine's own, more than a tenth of {limit_us:.0} us."
        )),
        _ if quiet.doubted_ratio > DOUBTED_RATIO_MAX => Some(format!(
            "{:.0} % of the runs are in doubt: see what the machine was like.",
            100.0 * quiet.doubted_ratio
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATEMENTS: &str = r#"
[[claim]]
id = "live.l1.darc_short_p99"
source = "7.7"
statement = "The short type's p99 is under 5 ms."
published = "1.9 ms"
unit = "ms"
tolerance = [0.0, 5.0]
reason = "stated"

[[claim]]
id = "live.l1.channel_is_c_fcfs"
source = "7.7"
statement = "A channel is first come first served."
published = "1"
unit = "ratio"
tolerance = [0.8, 1.25]
reason = "stated"

[[claim]]
id = "live.costs.inline"
source = "7.7"
statement = "Handing over costs as much."
published = "1"
unit = "ratio"
tolerance = [0.0, 2.0]
reason = "stated"

[[claim]]
id = "live.l5.identical"
source = "7.7"
statement = "A fresh machine decides the same."
published = "1"
unit = "share"
tolerance = [1.0, 1.0]
reason = "stated"

[[claim]]
id = "live.coords.worse"
source = "7.7"
statement = "Errors are smaller."
published = "below"
unit = "x"
tolerance = [0.0, 1.0]
reason = "stated"
doubt = "The lab misses it as well."
explained_by = "live.coords.worse_in_lab"

[[claim]]
id = "live.coords.worse_in_lab"
source = "cavy's own"
statement = "The lab has such values."
published = "at least 0.05"
unit = "share"
tolerance = [0.05, 1.0]
reason = "stated"
"#;

    fn judge(findings: &[Finding], quiet: Quiet, repeat: &str) -> Vec<Claim> {
        super::judge(&claim::read(STATEMENTS), findings, quiet, repeat)
    }

    #[test]
    fn what_a_busy_machine_measures_is_not_published() {
        let finding = |value| Finding {
            value: Some(value),
            samples: 10_000,
            ..Finding::nothing("live.l1.darc_short_p99")
        };
        let verdict = |value, noise_us, doubted_ratio| {
            let claims = judge(
                &[finding(value)],
                Quiet { noise_us, stalled_ratio: noise_us.map(|_| 0.01), doubted_ratio },
                "again",
            );
            assert_eq!(claims.len(), 1);
            claims[0].verdict
        };
        // Under 5 ms is claimed, so that half a millisecond is the limit.
        assert_eq!(verdict(2.0, Some(499.0), 0.0), Verdict::Reproduced);
        assert_eq!(verdict(6.0, Some(499.0), 0.0), Verdict::NotReproduced);
        assert_eq!(verdict(2.0, Some(501.0), 0.0), Verdict::TooNoisy);
        assert_eq!(verdict(6.0, Some(501.0), 0.0), Verdict::TooNoisy);
        assert_eq!(verdict(2.0, None, 0.0), Verdict::TooNoisy);
        assert_eq!(verdict(2.0, Some(1.0), 0.2), Verdict::TooNoisy);
    }

    /// A peer that keeps the machine busy is no reason to doubt the others.
    #[test]
    fn a_value_answers_for_its_own_runs() {
        let finding = Finding::ratio("live.l1.channel_is_c_fcfs", Some(150e3), Some(140e3), 1);
        let quiet = Quiet { noise_us: Some(1.0), stalled_ratio: Some(0.01), doubted_ratio: 0.6 };
        let verdict = |doubted_ratio| {
            let finding = Finding { doubted_ratio, ..finding.clone() };
            judge(&[finding], quiet, "again")[0].verdict
        };
        assert_eq!(verdict(None), Verdict::TooNoisy);
        assert_eq!(verdict(Some(0.0)), Verdict::Reproduced);
        assert_eq!(verdict(Some(0.2)), Verdict::TooNoisy);
    }

    #[test]
    fn ratios_are_held_against_the_smaller_latency() {
        let finding = Finding::ratio("live.l1.channel_is_c_fcfs", Some(150e3), Some(140e3), 1);
        assert_eq!(finding.scale_us, Some(140e3));
        let verdict = |noise| {
            let quiet =
                Quiet { noise_us: Some(noise), stalled_ratio: Some(0.01), doubted_ratio: 0.0 };
            judge(std::slice::from_ref(&finding), quiet, "again")[0].verdict
        };
        assert_eq!(verdict(13e3), Verdict::Reproduced);
        assert_eq!(verdict(15e3), Verdict::TooNoisy);
    }

    #[test]
    fn rare_stalls_leave_medians_alone() {
        let finding = Finding::ratio("live.costs.inline", Some(9.0), Some(8.0), 1).of_median();
        let verdict = |stalled| {
            let quiet =
                Quiet { noise_us: Some(400.0), stalled_ratio: Some(stalled), doubted_ratio: 0.0 };
            judge(std::slice::from_ref(&finding), quiet, "again")[0].verdict
        };
        assert_eq!(verdict(0.05), Verdict::Reproduced);
        assert_eq!(verdict(0.3), Verdict::TooNoisy);
    }

    /// A live claim is explained as one of the lab is: by another claim, which this study measures.
    #[test]
    fn a_miss_is_explained_only_while_its_evidence_holds() {
        let finding = |id: &str, value| Finding { value: Some(value), ..Finding::nothing(id) };
        let verdict = |value, in_lab: Option<f64>| {
            let missed = finding("live.coords.worse", value).of_median();
            let in_lab = in_lab.map(|share| finding("live.coords.worse_in_lab", share));
            let findings: Vec<Finding> = [missed].into_iter().chain(in_lab).collect();
            let quiet =
                Quiet { noise_us: Some(1.0), stalled_ratio: Some(0.01), doubted_ratio: 0.0 };
            let claims = judge(&findings, quiet, "again");
            (claims[0].verdict, claims[0].evidence.clone())
        };
        let (explained, why) = verdict(1.01, Some(0.5));
        assert_eq!((explained, why.as_str()), (Verdict::Explained, "The lab misses it as well."));
        assert_eq!(verdict(1.3, Some(0.0)).0, Verdict::NotReproduced);
        assert_eq!(verdict(1.01, None).0, Verdict::NotReproduced);
        assert_eq!(verdict(0.9, Some(0.0)).0, Verdict::Reproduced);
    }

    #[test]
    fn decisions_do_not_depend_on_noise() {
        let finding = Finding { value: Some(1.0), ..Finding::nothing("live.l5.identical") };
        let quiet = Quiet { noise_us: Some(1e9), stalled_ratio: Some(0.9), doubted_ratio: 1.0 };
        assert_eq!(judge(&[finding], quiet, "again")[0].verdict, Verdict::Reproduced);
    }
}
