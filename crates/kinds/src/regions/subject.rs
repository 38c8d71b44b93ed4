//! Regions as the subject of an experiment.

use super::draw;
use super::plan::{ProtocolPlan, RegionsPlan};
use super::result::{Regional, THROUGHPUT};
use super::run::{self, Replication};
use super::scenario::{self, Scenario};
use crate::Latency;
use crate::types::type_name;
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

const TEMPLATES: [Template; 2] = [
    Template {
        name: "regions",
        says: "regions of your own, transactions within and across them, and what they wait for",
        text: include_str!("templates/regions.toml"),
        files: &[],
    },
    Template {
        name: "transactions",
        says: "types of transactions of your own at a rate, and who pays for whom",
        text: include_str!("templates/transactions.toml"),
        files: &[],
    },
];

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

fn experience(whose: String, latency: &Latency) -> Experience<'_> {
    let values = vec![("p99", latency.percentile(99)), ("p50", latency.percentile(50))];
    Experience { whose, unit: "ms", more_is_better: false, values }
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
            "of a type of your own: `irt_p99_ms <= 25 for order`",
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
        if let Some(rate_per_s) = self.rate_per_s {
            // A point costs in proportion to its rate, so a search ends where shards are busy.
            let shards = f64::from(self.regions) * f64::from(self.shards_per_region);
            // And it begins where three replications have a p99 of all.
            let counted_s = (self.run.duration_ms - self.run.warmup_ms) / 1e3;
            let judged = 20_000.0 / 3.0 / counted_s.max(0.001);
            return Some(Axis {
                key: "rate_per_s",
                words: "transactions a second",
                label: "transactions/s",
                at: rate_per_s,
                least: judged.clamp(shards, 500.0 * shards).round(),
                greatest: 2_000.0 * shards,
                step: 50.0 * shards,
                whole: false,
                counted: true,
                sense: Sense::Greatest,
                searchable: true,
            });
        }
        Some(Axis {
            key: "clients_per_shard",
            words: "clients of a shard",
            label: "clients of a shard",
            at: f64::from(self.clients_per_shard.unwrap_or(1)),
            least: 1.0,
            greatest: 200.0,
            step: 1.0,
            whole: true,
            counted: true,
            sense: Sense::Greatest,
            searchable: true,
        })
    }
    fn check_metric(&self, metric: &str, whose: Option<&str>) -> Result<(), String> {
        let known = metric == THROUGHPUT || percentile(metric).is_some();
        if !known {
            return Err(format!("bounds `{metric}`"));
        }
        match whose.map(type_name) {
            None => Ok(()),
            Some(_) if metric == THROUGHPUT => {
                Err("bounds the throughput of one type; it is known of all together".to_string())
            }
            Some(name) if self.types.iter().any(|own| own.name == name) => Ok(()),
            Some(name) if self.types.is_empty() => {
                Err(format!("is for `{name}`: say `irt` or `crt` in the name instead"))
            }
            Some(name) => {
                let known: Vec<&str> = self.types.iter().map(|own| own.name.as_str()).collect();
                Err(format!("names the unknown type `{name}`; types are: {}", known.join(", ")))
            }
        }
    }
    fn metric(outcome: &Outcome<Regional>, metric: &str, whose: Option<&str>) -> Option<f64> {
        if metric == THROUGHPUT {
            return Some(outcome.throughput_per_s.value);
        }
        let (crt, percent) = percentile(metric)?;
        let latency = outcome.latency(crt, whose.map(type_name))?;
        latency.percentile(percent).map(|estimate| estimate.value)
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
    fn summarize(&self, scenario: &Scenario, runs: &[Replication]) -> Summed<Regional> {
        run::summarize(scenario, runs)
    }
    fn support(section: &mut Regional, whole: &Regional) {
        section.irt.support(&whole.irt);
        section.crt.support(&whole.crt);
        if let (Some(section), Some(whole)) = (&mut section.sides, &whole.sides) {
            section.support(whole);
        }
        for (section, whole) in section.types.iter_mut().zip(&whole.types) {
            section.irt.support(&whole.irt);
            section.crt.support(&whole.crt);
        }
    }
    fn precision(outcome: &Outcome<Regional>) -> Vec<(String, Option<Interval>)> {
        let of = |name: &str, latency: &Latency| {
            (name.to_string(), latency.percentile(99).map(Estimate::interval))
        };
        vec![of("IRT p99", &outcome.irt), of("CRT p99", &outcome.crt)]
    }
    fn effort(&self, _: &Scenario, replications: u32) -> Effort {
        let shards = f64::from(self.regions) * f64::from(self.shards_per_region);
        let seconds = self.run.duration_ms / 1e3;
        let clients = shards * f64::from(self.clients_per_shard.unwrap_or(0));
        // A transaction takes about 40 ms on average, a tenth crossing regions.
        let closed = clients * seconds / (0.03 + self.think_ms / 1e3);
        let work = self.rate_per_s.map_or(closed, |rate| rate * seconds);
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
            cure: "lower it, `run.replications`, `clients_per_shard`, `rate_per_s` or `regions`, \
                   or try `--quick`",
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
    fn columns(experiment: &Experiment<RegionsPlan>) -> Vec<Column<RegionsPlan>> {
        draw::columns(&experiment.plan.types)
    }
    fn curves(_: &Experiment<RegionsPlan>, _: &str) -> Vec<Curve<RegionsPlan>> {
        draw::curves()
    }
    fn marks() -> Vec<Mark<Regional>> {
        vec![
            Mark { head: "IRT p99 (ms)", of: |r| Some(r.irt.percentile(99)?.value) },
            Mark { head: "CRT p99 (ms)", of: |r| Some(r.crt.percentile(99)?.value) },
        ]
    }
    fn experiences(outcome: &Outcome<Regional>) -> Vec<Experience<'_>> {
        if outcome.types.is_empty() {
            return vec![
                experience("within a region".to_string(), &outcome.irt),
                experience("across regions".to_string(), &outcome.crt),
            ];
        }
        // Of a type that never crosses regions there is nothing to say of crossing them.
        let each = outcome.types.iter().flat_map(|own| {
            let (within, across) = (&own.irt, &own.crt);
            let sorts = [(within, "within a region"), (across, "across regions")];
            let there = sorts.into_iter().filter(|(latency, _)| latency.samples > 0);
            there.map(move |(latency, where_it_runs)| {
                (format!("{}, {where_it_runs}", own.name), latency)
            })
        });
        each.map(|(whose, latency)| experience(whose, latency)).collect()
    }
}
