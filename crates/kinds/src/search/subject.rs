//! Search as the subject of an experiment.

use super::draw;
use super::plan::{SchemePlan, SearchPlan};
use super::result::Searched;
use super::run::{self, Replication};
use super::scenario::{self, Scenario};
use cavy_lab::statistics::interval::Interval;
use cavy_lab::trail::Trail;
use cavy_report::model::Table;
use cavy_report::number::count;
use cavy_study::draw::{Column, Curve};
use cavy_study::experiment::Experiment;
use cavy_study::outcome::{Estimate, Outcome};
use cavy_study::plan::{Files, PlanError};
use cavy_study::point::{Manner, RunError};
use cavy_study::subject::{
    AboutKind, Axis, Effort, Experience, Mark, Noun, Sense, Subject, Summed, Template, TooMuch,
};

const TEMPLATES: [Template; 1] = [Template {
    name: "search",
    says: "a search cluster of your own: over how many servers to spread a query, at which load",
    text: include_str!("templates/search.toml"),
    files: &[],
}];

const METRICS: [&str; 5] = ["mean_ms", "p50_ms", "p95_ms", "p99_ms", "p999_ms"];

impl Subject for SearchPlan {
    const ABOUT: AboutKind = AboutKind {
        name: "search",
        says: "queries that are spread over servers: how far to spread them, and by which scheme",
        contestant: Noun { one: "scheme", many: "schemes" },
        work: Noun { one: "query", many: "queries" },
        replications: 5,
        replications_reason: "servers are ordered by chance in each, and the order matters more \
                              than the queries",
        own_run: true,
        objectives: &[
            "write it as `p99_ms <= 300`, `mean_ms <= 150` or `stable`",
            "metrics are mean_ms, p50_ms, p95_ms, p99_ms, p999_ms",
        ],
        templates: &TEMPLATES,
    };
    type Scenario = Scenario;
    type Replication = Replication;
    type Data = Searched;

    fn contestants(&self) -> Vec<(String, SearchPlan)> {
        let alone = |own: &SchemePlan| SearchPlan { schemes: vec![own.clone()], ..self.clone() };
        self.schemes.iter().map(|own| (own.label(), alone(own))).collect()
    }
    #[inline]
    fn default_label(table: &toml::Value) -> Option<String> {
        let mut own: SchemePlan = table.clone().try_into().ok()?;
        *own.given_label() = None;
        Some(own.label())
    }
    fn forget_names(&mut self) {
        self.schemes.iter_mut().for_each(|own| *own.given_label() = None);
    }
    fn files(&self) -> Vec<&str> {
        let all = [&self.speeds_file, &self.measured];
        all.into_iter().filter_map(|file| file.as_deref()).collect()
    }
    fn axis(&self) -> Option<Axis> {
        let by_rate = self.queries_per_s.is_some();
        let at = self.queries_per_s.or(self.load).unwrap_or(0.0);
        Some(Axis {
            key: if by_rate { "queries_per_s" } else { "load" },
            words: if by_rate { "queries a second" } else { "load" },
            label: if by_rate { "queries a second" } else { "load, fixed parts not counted" },
            at,
            least: if by_rate { at.max(0.01) / 20.0 } else { 0.02 },
            greatest: if by_rate { at.max(0.01) * 20.0 } else { 1.2 },
            step: if by_rate { at.max(0.01) / 20.0 } else { 0.02 },
            whole: false,
            counted: by_rate,
            sense: Sense::Greatest,
            searchable: true,
        })
    }
    fn check_metric(&self, metric: &str, whose: Option<&str>) -> Result<(), String> {
        if let Some(whose) = whose {
            return Err(format!("is for `{whose}`, and queries are all of one sort here"));
        }
        if METRICS.contains(&metric) {
            return Ok(());
        }
        Err(format!("bounds `{metric}`"))
    }
    fn metric(outcome: &Outcome<Searched>, metric: &str, _: Option<&str>) -> Option<f64> {
        outcome.latency.get(metric).map(|estimate| estimate.value)
    }

    fn scenario(&self, files: &Files) -> Result<Scenario, PlanError> {
        scenario::scenario(self, files)
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
        &replication.trail
    }
    fn summarize(&self, scenario: &Scenario, runs: &[Replication]) -> Summed<Searched> {
        run::summarize(scenario, runs)
    }
    fn support(section: &mut Searched, whole: &Searched) {
        section.latency.support(&whole.latency);
    }
    fn precision(outcome: &Outcome<Searched>) -> Vec<(String, Option<Interval>)> {
        let of = |metric: &str| outcome.latency.get(metric).map(Estimate::interval);
        vec![("mean".to_string(), of("mean_ms")), ("p99".to_string(), of("p99_ms"))]
    }
    fn effort(&self, scenario: &Scenario, replications: u32) -> Effort {
        let work = self.run.queries as f64 * f64::from(replications);
        if !self.events.is_empty() || self.scheduler.is_some() || self.balance_s.is_some() {
            // Machines: each part is a handful of messages and work of a server.
            let queries =
                (self.run.duration_s * 1e9 / scenario.gap_ns()).min(self.run.queries as f64);
            let core_s = queries * run::parts_of(scenario) * 12e-6 * f64::from(replications);
            return Effort { work: queries * f64::from(replications), core_s, memory_bytes: 3e7 };
        }
        let each = 0.3e-6 + 20e-9 * run::looks(scenario) + 60e-9 * run::parts_of(scenario);
        let draws = f64::from(self.loss_draws) * f64::from(self.servers) * 20e-9;
        Effort {
            work,
            core_s: work * each + draws * f64::from(replications),
            memory_bytes: 1e6 + f64::from(self.servers) * 1e3 * f64::from(self.front_ends),
        }
    }
    fn too_much(&self, _: bool) -> TooMuch {
        TooMuch {
            key: "run.queries",
            value: count(self.run.queries),
            cure: "lower it, `run.replications` or the number of points, or try `--quick`",
        }
    }

    fn facts(&self) -> Vec<(&'static str, &'static str)> {
        vec![
            ("latency", "from the arrival of a query to the end of its last part"),
            (
                "servers",
                "serve one sub-query a processor at a time, in order of arrival unless `scheduler` \
                 says otherwise; without it, `balance_s` and events there is no network between",
            ),
            (
                "load",
                "queries per second, times the time that scanning all documents takes, over the \
                 sum of all speeds",
            ),
            (
                "knowledge",
                "a single front end knows how busy each server is; several front ends know what \
                 answers and reports have told them",
            ),
            ("writes", "take a constant share of each processor"),
            ("intervals", "95 %, over independent replications"),
        ]
    }
    fn columns(experiment: &Experiment<SearchPlan>) -> Vec<Column<SearchPlan>> {
        draw::columns(experiment)
    }
    fn curves(_: &Experiment<SearchPlan>, _: &str) -> Vec<Curve<SearchPlan>> {
        draw::curves()
    }
    fn tables(experiment: &Experiment<SearchPlan>, variant: &str) -> Vec<Table> {
        let choices = draw::choices(experiment, variant);
        let events = draw::phases(experiment, variant);
        choices.into_iter().chain(events).chain(draw::balanced(experiment, variant)).collect()
    }
    fn marks() -> Vec<Mark<Searched>> {
        vec![
            Mark { head: "p99 (ms)", of: |r| Some(r.latency.get("p99_ms")?.value) },
            Mark { head: "mean (ms)", of: |r| Some(r.latency.get("mean_ms")?.value) },
            Mark { head: "copies", of: |r| Some(r.copies) },
        ]
    }
    fn experiences(outcome: &Outcome<Searched>) -> Vec<Experience<'_>> {
        let values =
            vec![("p99", outcome.latency.get("p99_ms")), ("p50", outcome.latency.get("p50_ms"))];
        vec![Experience { whose: "queries".to_string(), unit: "ms", more_is_better: false, values }]
    }
    fn remarks(experiment: &Experiment<SearchPlan>) -> Vec<String> {
        draw::remarks(experiment)
    }
}
