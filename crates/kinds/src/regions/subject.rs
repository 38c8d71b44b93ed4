//! Regions as the subject of an experiment.

use super::draw;
use super::plan::{ProtocolPlan, RegionsPlan};
use super::result::{Latency, Regional, THROUGHPUT};
use super::run::{self, Replication};
use super::scenario::{self, Scenario};
use cavy_lab::statistics::interval::Interval;
use cavy_lab::trail::Trail;
use cavy_study::draw::{Column, Curve};
use cavy_study::experiment::Experiment;
use cavy_study::outcome::{Estimate, Outcome};
use cavy_study::plan::{Files, PlanError};
use cavy_study::point::{Manner, RunError};
use cavy_study::subject::{
    AboutKind, Axis, Effort, Experience, Mark, Noun, Sense, Subject, Summed, Template, TooMuch,
};

const TEMPLATES: [Template; 1] = [Template {
    name: "regions",
    says: "regions of your own, transactions within and across them, and what they wait for",
    text: include_str!("templates/regions.toml"),
    files: &[],
}];

/// Which latency and percentile `irt_p99_ms` and its like are.
fn percentile(metric: &str) -> Option<(bool, u32)> {
    let (sort, rest) = metric.split_once('_')?;
    let crt = match sort {
        "irt" => false,
        "crt" => true,
        _ => return None,
    };
    let percent = match rest {
        "p50_ms" => 50,
        "p95_ms" => 95,
        "p99_ms" => 99,
        _ => return None,
    };
    Some((crt, percent))
}

impl Subject for RegionsPlan {
    const ABOUT: AboutKind = AboutKind {
        name: "regions",
        says: "transactions in regions and across them, and the protocols that order them",
        contestant: Noun { one: "protocol", many: "protocols" },
        work: Noun { one: "transaction", many: "transactions" },
        replications: 3,
        replications_reason: "a replication has tens of thousands of transactions, which differ \
                              little from seed to seed",
        own_run: true,
        objectives: &[
            "write it as `irt_p99_ms <= 25`, `crt_p99_ms <= 260` or `throughput_per_s >= 1000`",
            "percentiles are p50, p95, p99; `irt` is within a region, `crt` across regions",
        ],
        templates: &TEMPLATES,
    };
    type Scenario = Scenario;
    type Replication = Replication;
    type Data = Regional;

    fn contestants(&self) -> Vec<(String, RegionsPlan)> {
        let alone =
            |own: &ProtocolPlan| RegionsPlan { protocols: vec![own.clone()], ..self.clone() };
        self.protocols.iter().map(|own| (own.label(), alone(own))).collect()
    }
    #[inline]
    fn default_label(table: &toml::Value) -> Option<String> {
        let mut own: ProtocolPlan = table.clone().try_into().ok()?;
        *own.given_label() = None;
        Some(own.label())
    }
    fn forget_names(&mut self) {
        self.protocols.iter_mut().for_each(|own| *own.given_label() = None);
    }
    fn axis(&self) -> Option<Axis> {
        Some(Axis {
            key: "clients_per_shard",
            words: "clients of a shard",
            label: "clients of a shard",
            at: f64::from(self.clients_per_shard),
            least: 1.0,
            greatest: 200.0,
            step: 1.0,
            whole: true,
            sense: Sense::Greatest,
            searchable: true,
        })
    }
    fn check_metric(&self, metric: &str, whose: Option<&str>) -> Result<(), String> {
        if let Some(whose) = whose {
            return Err(format!("is for `{whose}`: say `irt` or `crt` in the name instead"));
        }
        if metric == THROUGHPUT || percentile(metric).is_some() {
            return Ok(());
        }
        Err(format!("bounds `{metric}`"))
    }
    fn metric(outcome: &Outcome<Regional>, metric: &str, _: Option<&str>) -> Option<f64> {
        if metric == THROUGHPUT {
            return Some(outcome.throughput_per_s.value);
        }
        let (crt, percent) = percentile(metric)?;
        let latency = if crt { &outcome.crt } else { &outcome.irt };
        latency.get(percent).map(|estimate| estimate.value)
    }

    fn scenario(&self, _: &Files) -> Result<Scenario, PlanError> {
        scenario::scenario(self)
    }
    fn replicate(
        scenario: &Scenario,
        seed: u64,
        _: u32,
        manner: &Manner,
    ) -> Result<Replication, RunError> {
        run::replicate(scenario, seed, manner)
    }
    fn trail(replication: &Replication) -> &Trail {
        &replication.report.trail
    }
    fn summarize(&self, _: &Scenario, runs: &[Replication]) -> Summed<Regional> {
        run::summarize(runs)
    }
    fn support(section: &mut Regional, whole: &Regional) {
        section.irt.support(&whole.irt);
        section.crt.support(&whole.crt);
        if let (Some(section), Some(whole)) = (&mut section.sides, &whole.sides) {
            section.support(whole);
        }
    }
    fn precision(outcome: &Outcome<Regional>) -> Vec<(String, Option<Interval>)> {
        let of = |name: &str, latency: &Latency| {
            (name.to_string(), latency.get(99).map(Estimate::interval))
        };
        vec![of("IRT p99", &outcome.irt), of("CRT p99", &outcome.crt)]
    }
    fn effort(&self, _: &Scenario, replications: u32) -> Effort {
        let shards = f64::from(self.regions) * f64::from(self.shards_per_region);
        let seconds = self.run.duration_ms / 1e3;
        let clients = shards * f64::from(self.clients_per_shard);
        // A transaction takes about 40 ms on average, a tenth crossing regions.
        let work = clients * seconds / (0.03 + self.think_ms / 1e3);
        let nodes = f64::from(self.shards_per_region) * 3.0;
        let reports = shards * 3.0 * nodes * seconds * 200.0;
        let replications = f64::from(replications);
        Effort {
            work: work * replications,
            core_s: (work * 40.0 + reports) * 250e-9 * replications,
            memory_bytes: 20e6 + work * 3_000.0,
        }
    }
    fn too_much(&self, _: bool) -> TooMuch {
        TooMuch {
            key: "run.duration_ms",
            value: self.run.duration_ms.to_string(),
            cure: "lower it, `run.replications`, `clients_per_shard` or `regions`, or try \
                   `--quick`",
        }
    }

    fn facts(&self) -> Vec<(&'static str, &'static str)> {
        vec![
            (
                "IRT",
                "a transaction that touches one region; CRT: a transaction that touches several",
            ),
            ("latency", "from the first attempt to the answer, retries included"),
            ("intervals", "95 %, by sectioning over independent replications"),
            ("percentiles", "given if at least 100 transactions of all replications lie beyond"),
            (
                "serializable, not strict",
                "across regions a client may read an older state than another client has seen \
                 already",
            ),
        ]
    }
    fn columns(_: &Experiment<RegionsPlan>) -> Vec<Column<RegionsPlan>> {
        draw::columns()
    }
    fn curves(_: &Experiment<RegionsPlan>, _: &str) -> Vec<Curve<RegionsPlan>> {
        draw::curves()
    }
    fn marks() -> Vec<Mark<Regional>> {
        vec![
            Mark { head: "IRT p99 (ms)", of: |r| Some(r.irt.get(99)?.value) },
            Mark { head: "CRT p99 (ms)", of: |r| Some(r.crt.get(99)?.value) },
        ]
    }
    fn experiences(outcome: &Outcome<Regional>) -> Vec<Experience<'_>> {
        let of = |whose: &str, latency: &'static str| (whose.to_string(), latency);
        let sorts = [of("within a region", "irt"), of("across regions", "crt")];
        let experience = |(whose, sort): (String, &'static str)| {
            let latency = if sort == "irt" { &outcome.irt } else { &outcome.crt };
            let values = vec![("p99", latency.get(99)), ("p50", latency.get(50))];
            Experience { whose, unit: "ms", more_is_better: false, values }
        };
        sorts.into_iter().map(experience).collect()
    }
}
