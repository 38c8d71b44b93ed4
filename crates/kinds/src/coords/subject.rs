//! Predictors of round trips as the subject of an experiment.

use super::draw;
use super::plan::{CoordsPlan, DataPlan, PredictorPlan};
use super::replay::Replayed;
use super::result::{Pick, Predicted};
use super::run::{self, Scenario};
use super::worst::{CAUSES, Cause, Worst};
use super::{data, replay, scenario};
use cavy_lab::statistics::interval::Interval;
use cavy_lab::trail::Trail;
use cavy_report::model::{Map, Panel, Table};
use cavy_study::draw::{Column, Curve};
use cavy_study::experiment::Experiment;
use cavy_study::outcome::{Estimate, Outcome};
use cavy_study::plan::{Files, PlanError};
use cavy_study::point::{Manner, RunError};
use cavy_study::subject::{
    AboutKind, Axis, Effort, Experience, Mark, Noun, Sense, Subject, Summed, Template, TooMuch,
};

const TEMPLATES: [Template; 1] = [Template {
    name: "coords",
    says: "machines of your own, and which predictor finds the near ones after how many probes",
    text: include_str!("templates/coords.toml"),
    files: &[
        ("nodes.csv", include_str!("templates/nodes.csv")),
        ("rtt_ms.csv", include_str!("templates/rtt_ms.csv")),
    ],
}];

/// A value that objectives bound.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Metric {
    /// Of all pairs: the percentile of the absolute error.
    Ms(u32),
    /// The percentile of the relative error.
    Ratio(u32),
    /// Before each probe.
    BeforeMs(u32),
    /// Of picks among so many.
    Hit(u32),
    Penalty(u32),
    Below(f64, u32),
    ProbedHit(u32),
}

/// Reads the name of a metric.
fn metric(name: &str) -> Option<Metric> {
    if let Some((head, candidates)) = name.rsplit_once("_of_") {
        let candidates = candidates.parse().ok()?;
        return match head {
            "hit" => Some(Metric::Hit(candidates)),
            "probed_hit" => Some(Metric::ProbedHit(candidates)),
            "penalty_p90_ms" => Some(Metric::Penalty(candidates)),
            _ => {
                let ms = head.strip_prefix("below_")?.strip_suffix("ms")?;
                Some(Metric::Below(ms.parse().ok()?, candidates))
            }
        };
    }
    let (percent, rest) = name.strip_prefix('p')?.split_once('_')?;
    let percent: u32 = percent.parse().ok()?;
    match (rest, percent) {
        ("error_ms", 50 | 90 | 95 | 99) => Some(Metric::Ms(percent)),
        ("before_ms", 50 | 90 | 95 | 99) => Some(Metric::BeforeMs(percent)),
        ("error_ratio", 50 | 90 | 99) => Some(Metric::Ratio(percent)),
        _ => None,
    }
}

impl Subject for CoordsPlan {
    const ABOUT: AboutKind = AboutKind {
        name: "coords",
        says: "predictors of round trips: which machines are near, before anybody has measured",
        contestant: Noun { one: "predictor", many: "predictors" },
        work: Noun { one: "probe", many: "probes" },
        replications: 20,
        replications_reason: "what is probed differs from seed to seed, and so does what is \
                              learnt",
        own_run: false,
        objectives: &[
            "write it as `p90_error_ms <= 40`, `hit_of_5 >= 0.65`, `penalty_p90_ms_of_5 <= 20` \
             or `below_75ms_of_10 >= 0.8`",
            "errors are p50, p90, p95, p99 over all pairs after the last probe; `p90_before_ms` \
             is of predictions made before each probe",
            "numbers of candidates are those of `picks.candidates`",
        ],
        templates: &TEMPLATES,
    };
    type Scenario = Scenario;
    type Replication = Replayed;
    type Data = Predicted;

    fn contestants(&self) -> Vec<(String, CoordsPlan)> {
        let has_rivals = self.predictors.len() > 1;
        let alone = |own: &PredictorPlan| CoordsPlan {
            predictors: vec![own.clone()],
            has_rivals,
            ..self.clone()
        };
        self.predictors.iter().map(|own| (own.label(), alone(own))).collect()
    }
    #[inline]
    fn default_label(table: &toml::Value) -> Option<String> {
        let mut own: PredictorPlan = table.clone().try_into().ok()?;
        *own.given_label() = None;
        Some(own.label())
    }
    fn forget_names(&mut self) {
        self.predictors.iter_mut().for_each(|own| *own.given_label() = None);
    }
    fn files(&self) -> Vec<&str> {
        match &self.data {
            DataPlan::Matrix { file, nodes, mmdb } | DataPlan::Pairs { file, nodes, mmdb } => {
                [file, nodes].into_iter().chain(mmdb).map(String::as_str).collect()
            }
            _ => Vec::new(),
        }
    }
    fn axis(&self) -> Option<Axis> {
        Some(Axis {
            key: "probes_per_node",
            words: "probes a node",
            label: "probes a node",
            at: f64::from(self.probes_per_node),
            least: 0.0,
            greatest: 512.0,
            step: 1.0,
            whole: true,
            counted: true,
            sense: Sense::Least,
            searchable: true,
        })
    }
    fn check_metric(&self, name: &str, whose: Option<&str>) -> Result<(), String> {
        if let Some(whose) = whose {
            return Err(format!("is for `{whose}`: errors are those of all nodes together"));
        }
        let candidates = match metric(name) {
            None => return Err(format!("bounds `{name}`")),
            Some(Metric::Below(ms, _)) if (ms - self.picks.below_ms).abs() > 1e-9 => {
                return Err(format!(
                    "bounds picks below {ms} ms, but `picks.below_ms` is {}",
                    self.picks.below_ms
                ));
            }
            Some(
                Metric::Hit(candidates)
                | Metric::Penalty(candidates)
                | Metric::Below(_, candidates)
                | Metric::ProbedHit(candidates),
            ) => candidates,
            Some(_) => return Ok(()),
        };
        match self.picks.candidates.contains(&candidates) {
            true => Ok(()),
            false => Err(format!(
                "is about {candidates} candidates, but `picks.candidates` is {:?}",
                self.picks.candidates
            )),
        }
    }
    fn metric(outcome: &Outcome<Predicted>, name: &str, _: Option<&str>) -> Option<f64> {
        let pick = |candidates: u32| outcome.pick(candidates);
        let value = |estimate: Option<&Estimate>| estimate.map(|estimate| estimate.value);
        match metric(name)? {
            Metric::Ms(percent) => value(outcome.after.ms(percent)),
            Metric::BeforeMs(percent) => value(outcome.before.ms(percent)),
            Metric::Ratio(percent) => value(outcome.after.ratio(percent)),
            Metric::Hit(candidates) => Some(pick(candidates)?.hit_ratio.value),
            Metric::ProbedHit(candidates) => Some(pick(candidates)?.probed_hit_ratio.value),
            Metric::Below(_, candidates) => Some(pick(candidates)?.below_ratio.value),
            Metric::Penalty(candidates) => {
                value(pick(candidates)?.penalty_p90_ms.as_ref()?.supported())
            }
        }
    }

    fn scenario(&self, files: &Files) -> Result<Scenario, PlanError> {
        scenario::scenario(self, files)
    }
    fn prepare(scenario: &mut Scenario, _: &Manner) {
        scenario::prepare(scenario);
    }
    fn replicate(
        scenario: &Scenario,
        seed: u64,
        replication: u32,
        manner: &Manner,
    ) -> Result<Replayed, RunError> {
        Ok(run::replicate(scenario, seed, replication, manner))
    }
    fn trail(replication: &Replayed) -> &Trail {
        &replication.trail
    }
    fn summarize(&self, scenario: &Scenario, runs: &[Replayed]) -> Summed<Predicted> {
        run::summarize(scenario, runs)
    }
    fn support(section: &mut Predicted, whole: &Predicted) {
        section.support(whole);
    }
    fn blank(&self) -> Option<Predicted> {
        let empty = || Estimate::new(0.0, Vec::new());
        let pick = |candidates: &u32| Pick {
            candidates: *candidates,
            choices: 0,
            hit_ratio: empty(),
            below_ratio: empty(),
            penalty_p90_ms: None,
            penalty_p95_ms: None,
            probed_hit_ratio: empty(),
            probed_penalty_p95_ms: None,
        };
        Some(Predicted {
            before: Default::default(),
            before_cdf_ms: Vec::new(),
            after: Default::default(),
            covered: Default::default(),
            same_system: Default::default(),
            landmark_probes: 0,
            picks: self.picks.candidates.iter().map(pick).collect(),
            worst: self.worst_ratio.map(|ratio| Worst {
                ratio,
                of_error: empty(),
                causes: CAUSES
                    .map(|name| Cause {
                        name: name.to_string(),
                        among_worst: empty(),
                        among_all: empty(),
                    })
                    .to_vec(),
            }),
            sketch: None,
        })
    }
    fn precision(outcome: &Outcome<Predicted>) -> Vec<(String, Option<Interval>)> {
        let of = |name: &str, percent: u32| {
            (name.to_string(), outcome.after.ms(percent).map(Estimate::interval))
        };
        vec![of("error p50", 50), of("error p90", 90)]
    }
    fn effort(&self, scenario: &Scenario, replications: u32) -> Effort {
        let nodes = f64::from(scenario.count());
        let probes = nodes * f64::from(self.probes_per_node);
        let most = self.picks.candidates.iter().copied().max().unwrap_or(0);
        let choices = nodes.min(10_000.0) * f64::from(self.picks.each);
        let pairs = (nodes * nodes / 2.0).min(50_000.0);
        let peers = f64::from(self.probes_per_node);
        let each_s = match &self.predictors[0] {
            // All neighbours pull at every probe.
            PredictorPlan::Pyxida(_) => 10e-9 * peers.min(512.0) + 1e-6,
            _ => 1e-6,
        };
        // What a machine keeps of its peers, and is itself.
        let machine_bytes = match &self.predictors[0] {
            PredictorPlan::Serf(_) => 600.0 + 40.0 * peers,
            PredictorPlan::Pyxida(_) => 400.0 + 200.0 * peers.min(512.0),
            PredictorPlan::Survey(_) => 700.0 + 48.0 * (2.0 * peers).min(64.0),
            _ => 400.0 + 24.0 * peers.min(64.0),
        };
        let core_s = probes * each_s + (choices * f64::from(most) + pairs) * 0.2e-6;
        let kept = probes.min(replay::BEFORE_MAX as f64);
        let samples = kept + choices * self.picks.candidates.len() as f64 + pairs;
        Effort {
            work: probes * f64::from(replications),
            core_s: core_s * f64::from(replications),
            memory_bytes: 8.0 * samples * f64::from(replications)
                + nodes * machine_bytes
                + match &self.data {
                    DataPlan::Players(_) => 0.0,
                    _ => 8.0 * nodes * nodes.min(8e3),
                },
        }
    }
    fn too_much(&self, memory: bool) -> TooMuch {
        match (&self.data, memory) {
            (DataPlan::Players(own), true) => TooMuch {
                key: "data.count",
                value: own.count.to_string(),
                cure: "lower it, `probes_per_node` or `run.replications`",
            },
            _ => TooMuch {
                key: "probes_per_node",
                value: self.probes_per_node.to_string(),
                cure: "lower it, `picks.each` or `run.replications`, or try `--quick`",
            },
        }
    }

    fn facts(&self) -> Vec<(&'static str, &'static str)> {
        let mut all = vec![
            (
                "error before",
                "error of the prediction that is made before the round trip of a probe is revealed",
            ),
            ("error", "over all pairs, after the last probe"),
            (
                "a pick",
                "the candidate with the smallest prediction, without probing any candidate first",
            ),
            ("intervals", "95 %, by sectioning over independent replications"),
            ("percentiles", "given if at least 100 samples of all replications lie beyond"),
        ];
        for credit in data::credits().map(|credit| ("data", credit)) {
            if !all.contains(&credit) {
                all.push(credit);
            }
        }
        all
    }
    fn columns(experiment: &Experiment<CoordsPlan>) -> Vec<Column<CoordsPlan>> {
        draw::columns(experiment)
    }
    fn curves(experiment: &Experiment<CoordsPlan>, _: &str) -> Vec<Curve<CoordsPlan>> {
        draw::curves(experiment)
    }
    fn panels(experiment: &Experiment<CoordsPlan>, variant: &str) -> Vec<Panel> {
        draw::panels(experiment, variant)
    }
    fn maps(experiment: &Experiment<CoordsPlan>, variant: &str) -> Vec<Map> {
        draw::maps(experiment, variant)
    }
    fn tables(experiment: &Experiment<CoordsPlan>, variant: &str) -> Vec<Table> {
        draw::tables(experiment, variant)
    }
    fn marks() -> Vec<Mark<Predicted>> {
        vec![
            Mark { head: "error p90 (ms)", of: |r| Some(r.after.ms(90)?.value) },
            Mark { head: "error p50 (ms)", of: |r| Some(r.after.ms(50)?.value) },
        ]
    }
    fn experiences(outcome: &Outcome<Predicted>) -> Vec<Experience<'_>> {
        let errors = Experience {
            whose: "error".to_string(),
            unit: "ms of error",
            more_is_better: false,
            values: vec![("p90", outcome.after.ms(90)), ("p50", outcome.after.ms(50))],
        };
        let picks = outcome.picks.iter().filter(|pick| [5, 20].contains(&pick.candidates));
        let of = |pick: &'_ Pick| {
            let penalty = |q: &'_ Option<cavy_study::outcome::Quantile>| {
                q.as_ref().is_some_and(|q| q.supported().is_some())
            };
            penalty(&pick.penalty_p90_ms)
        };
        let picking = picks.filter(|pick| of(pick)).map(|pick| Experience {
            whose: format!("penalty of picks among {}", pick.candidates),
            unit: "ms of penalty",
            more_is_better: false,
            values: vec![("p90", pick.penalty_p90_ms.as_ref().and_then(|q| q.supported()))],
        });
        std::iter::once(errors).chain(picking).collect()
    }
}
