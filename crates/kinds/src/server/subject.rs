//! A server as the subject of an experiment.

use super::draw;
use super::live;
use super::plan::{LOAD, Policy, ServerPlan, ServicePlan, TypePlan, WorkersPlan};
use super::result::{Served, TypeSummary};
use super::run::{self, Run};
use super::scenario::{self, Scenario};
use crate::types::type_name;
use cavy_lab::statistics::interval::Interval;
use cavy_lab::trail::Trail;
use cavy_report::model::{Panel, Table};
use cavy_report::number::count;
use cavy_study::draw::{Column, Curve, Spread};
use cavy_study::experiment::Experiment;
use cavy_study::objective::{self, Percentile, Quantity};
use cavy_study::outcome::{Estimate, Outcome, Summary};
use cavy_study::plan::{Files, PlanError};
use cavy_study::point::{Manner, RunError};
use cavy_study::subject::{
    AboutKind, Axis, Effort, Experience, Mark, Noun, Sense, Subject, Summed, Template, TooMuch,
};

const TEMPLATES: [Template; 3] = [
    Template {
        name: "minimal",
        says: "two types of requests, three policies, an objective",
        text: include_str!("templates/minimal.toml"),
        files: &[],
    },
    Template {
        name: "measured",
        says: "service times measured on a running service, from a CSV file",
        text: include_str!("templates/measured.toml"),
        files: &[("measured.csv", include_str!("templates/measured.csv"))],
    },
    Template {
        name: "phases",
        says: "a workload that changes over time, latency over time",
        text: include_str!("templates/phases.toml"),
        files: &[],
    },
];

/// Bytes of a timeline's histogram, of which there is one for each type and bin: the pages that the
/// latencies of one bin touch, out of 256 KB that are set aside.
const TIMELINE_BIN_BYTES: f64 = 16_384.0;

impl Subject for ServerPlan {
    const ABOUT: AboutKind = AboutKind {
        name: "server",
        says: "requests of several types on the workers of one server",
        contestant: Noun { one: "policy", many: "policies" },
        work: Noun { one: "request", many: "requests" },
        replications: 10,
        replications_reason: "a request costs a tenth of a microsecond, and ten replications give \
                              intervals of percentiles that hold",
        own_run: true,
        objectives: &[
            "write it as `p99 <= 50ms for \"get\"`, `p99_us <= 500`, `p999_slowdown <= 20` or \
             `stable`",
            "percentiles are p50, p90, p95, p99, p999, p9999; quantities are us, slowdown",
        ],
        templates: &TEMPLATES,
    };
    type Scenario = Scenario;
    type Replication = Run;
    type Data = Served;

    fn contestants(&self) -> Vec<(String, ServerPlan)> {
        let alone = |policy: &Policy| ServerPlan { policies: vec![policy.clone()], ..self.clone() };
        self.policies.iter().map(|policy| (policy.label(), alone(policy))).collect()
    }
    #[inline]
    fn default_label(table: &toml::Value) -> Option<String> {
        let mut policy: Policy = table.clone().try_into().ok()?;
        policy.forget_label();
        Some(policy.label())
    }
    fn forget_names(&mut self) {
        self.policies.iter_mut().for_each(Policy::forget_label);
    }
    fn files(&self) -> Vec<&str> {
        let of_types = self.types.iter().filter_map(|kind| match &kind.service {
            ServicePlan::Trace { file, .. } => Some(file.as_str()),
            _ => None,
        });
        let of_clients = match self.clients.as_ref().and_then(|clients| clients.think.as_ref()) {
            Some(ServicePlan::Trace { file, .. }) => Some(file.as_str()),
            _ => None,
        };
        let traces = self.trace.iter().map(|trace| trace.file.as_str());
        traces.chain(of_types).chain(of_clients).collect()
    }
    fn axis(&self) -> Option<Axis> {
        let searchable = self.trace.is_none() && self.phases.is_empty();
        let is_number = matches!(self.workers, WorkersPlan::Count(_));
        if let Some(clients) = &self.clients {
            return Some(Axis {
                key: "clients.population",
                words: "clients",
                label: "clients",
                at: f64::from(clients.population),
                least: 1.0,
                greatest: 100_000.0,
                step: 1.0,
                whole: true,
                counted: true,
                sense: Sense::Greatest,
                searchable: true,
            });
        }
        // Of a rate that is given one asks how many workers it takes.
        if self.rate_per_s.is_some() {
            return Some(Axis {
                key: "workers",
                words: "workers",
                label: "workers",
                at: f64::from(self.workers.count()),
                least: 1.0,
                greatest: f64::from(cavy_sched::workers::WORKERS_MAX),
                step: 1.0,
                whole: true,
                counted: true,
                sense: Sense::Least,
                searchable: searchable && is_number,
            });
        }
        Some(Axis {
            key: "load",
            words: "load",
            label: "offered load",
            at: self.load.unwrap_or(LOAD),
            least: 0.05,
            greatest: 0.99,
            step: 0.005,
            whole: false,
            counted: false,
            sense: Sense::Greatest,
            searchable,
        })
    }
    fn check(&self) -> Result<(), PlanError> {
        scenario::check(self)
    }
    fn live(&self) -> Option<&'static str> {
        Some("cavy live study --plan")
    }
    fn check_live(&self) -> Result<(), PlanError> {
        live::check(self)
    }
    fn check_metric(&self, metric: &str, whose: Option<&str>) -> Result<(), String> {
        objective::percentile(metric)?;
        let Some(name) = whose.map(type_name).filter(|name| !scenario::has_type(self, name)) else {
            return Ok(());
        };
        let known: Vec<&str> = self.types.iter().map(|t| t.name.as_str()).collect();
        Err(format!("names the unknown type `{name}`; types are: {}", known.join(", ")))
    }
    fn metric(outcome: &Outcome<Served>, metric: &str, whose: Option<&str>) -> Option<f64> {
        let (percentile, quantity) = objective::percentile(metric).ok()?;
        Some(outcome.summary(whose.map(type_name))?.get(percentile, quantity)?.value)
    }

    fn scenario(&self, files: &Files) -> Result<Scenario, PlanError> {
        scenario::scenario(self, files)
    }
    fn replicate(
        scenario: &Scenario,
        seed: u64,
        replication: u32,
        manner: &Manner,
    ) -> Result<Run, RunError> {
        Ok(run::replicate(scenario, seed, replication, manner))
    }
    fn trail(run: &Run) -> &Trail {
        &run.replication.outcome.trail
    }
    fn summarize(&self, scenario: &Scenario, runs: &[Run]) -> Summed<Served> {
        run::summarize(scenario, runs)
    }
    fn support(section: &mut Served, whole: &Served) {
        section.overall.support(&whole.overall);
        for (section, whole) in section.types.iter_mut().zip(&whole.types) {
            section.summary.support(&whole.summary);
        }
    }
    fn blank(&self) -> Option<Served> {
        let of = |kind: &TypePlan| TypeSummary {
            name: kind.name.clone(),
            dropped: 0,
            summary: Summary::default(),
        };
        Some(Served {
            too_short: false,
            utilization: 0.0,
            dropped: 0,
            drop_ratio: 0.0,
            overall: Summary::default(),
            types: self.types.iter().map(of).collect(),
            reservation: None,
            timeline: None,
        })
    }
    fn precision(outcome: &Outcome<Served>) -> Vec<(String, Option<Interval>)> {
        let types = outcome.types.iter().map(|t| (t.name.as_str(), &t.summary));
        let all: Vec<(&str, &Summary)> =
            std::iter::once(("all", &outcome.overall)).chain(types).collect();
        let of = |(name, summary): &(&str, &Summary), p: Percentile| {
            // A percentile without support cannot converge, and must not keep the others waiting.
            let known = summary.get(p, Quantity::Us);
            let interval = known.map_or(Interval::around(1.0, 0.0), Estimate::interval);
            (format!("{} of {name}", p.title()), Some(interval))
        };
        all.iter().flat_map(|one| Percentile::MAIN.into_iter().map(move |p| of(one, p))).collect()
    }
    fn work_max(&self) -> u64 {
        self.run.requests_max
    }
    fn effort(&self, scenario: &Scenario, replications: u32) -> Effort {
        // A trace or phases may have fewer than the plan allows.
        let work = scenario.requests as f64 * f64::from(replications);
        // Histograms of six slices a type, for the replications of one point.
        let histograms = 6.0 * self.types.len().max(1) as f64 * 262_144.0;
        Effort {
            work,
            core_s: work * request_ns(self) / 1e9,
            memory_bytes: histograms * f64::from(replications.min(16))
                + timeline_bytes(self, scenario),
        }
    }
    fn too_much(&self, memory: bool) -> TooMuch {
        match (memory, self.run.timeline_ms) {
            (true, Some(ms)) => TooMuch {
                key: "run.timeline_ms",
                value: ms.to_string(),
                cure: "raise `run.timeline_ms`: every bin keeps a histogram of each type",
            },
            _ => TooMuch {
                key: "run.requests",
                value: count(self.run.requests),
                cure: "lower it, `run.replications` or the number of points, or try `--quick`",
            },
        }
    }

    fn facts(&self) -> Vec<(&'static str, &'static str)> {
        vec![
            (
                "model",
                "open: requests arrive on schedule, whether or not earlier ones are done. With \
                 `clients` it is closed: each client waits for its answer before it sends again",
            ),
            ("latency", "from the intended arrival to the reply, waiting included"),
            ("slowdown", "latency over the mean service time of the request's type"),
            (
                "intervals",
                "95 %, by sectioning over independent replications. If fewer than thirty bursts \
                 of requests decide a percentile, its interval contains the true value in only 80 \
                 to 90 % of cases; tables name such percentiles",
            ),
            (
                "percentiles",
                "given if at least 100 samples of all replications lie beyond; histograms are \
                 exact to 3 digits",
            ),
            ("waiting", "latency minus the request's own work and the round trip"),
            (
                "warm-up",
                "the first tenth of the requests, or more if a policy needs more to learn; MSER-5 \
                 says whether that is enough",
            ),
            (
                "unstable",
                "more than 0.1 % of the requests are dropped; or more work arrives than can be \
                 done; or latency in the last third of a run is more than 1.5 times that of the \
                 middle third, by a test that is wrong for at most one stable point in a hundred",
            ),
            ("too short", "latency grows by as much, but perhaps by chance"),
        ]
    }
    fn columns(experiment: &Experiment<ServerPlan>) -> Vec<Column<ServerPlan>> {
        draw::columns(experiment)
    }
    fn curves(experiment: &Experiment<ServerPlan>, variant: &str) -> Vec<Curve<ServerPlan>> {
        draw::curves(experiment, variant, Spread::Interval)
    }
    fn panels(experiment: &Experiment<ServerPlan>, variant: &str) -> Vec<Panel> {
        draw::timelines(experiment, variant)
    }
    fn tables(experiment: &Experiment<ServerPlan>, variant: &str) -> Vec<Table> {
        draw::types_table(experiment, variant).into_iter().collect()
    }
    fn marks() -> Vec<Mark<Served>> {
        vec![Mark { head: "p99.9 slowdown", of: |result| Some(result.slowdown()?.value) }]
    }
    fn experiences(outcome: &Outcome<Served>) -> Vec<Experience<'_>> {
        let of = |kind: &'_ super::result::TypeSummary| kind.name.clone();
        let types = outcome.types.iter().map(|kind| Experience {
            whose: of(kind),
            unit: "us",
            more_is_better: false,
            values: kind.summary.tails(Quantity::Us),
        });
        types.collect()
    }
    fn remarks(experiment: &Experiment<ServerPlan>) -> Vec<String> {
        let mut sentences = Vec::new();
        if experiment.plan.clients.is_some() {
            sentences.push(
                "The clients wait for their answers (closed loop): a slow server is asked less. \
                 This latency is not that of an open loop, whose tail is longer at the same rate."
                    .to_string(),
            );
        }
        let stable = || experiment.results.iter().filter(|result| result.stable());
        if stable().any(|result| result.slowdown().is_none()) {
            sentences.push(
                "At some points fewer than 100 samples lie beyond a percentile. Such a percentile \
                 is not given; raise run.requests to see it."
                    .to_string(),
            );
        }
        sentences.extend(draw::remark_of_bursts(experiment));
        if stable().any(|result| result.too_short) {
            sentences.push(
                "Some runs end before their warm-up does, so their values may be those of a \
                 start; raise run.requests."
                    .to_string(),
            );
        }
        sentences
    }
}

/// Bytes of one run's timeline.
fn timeline_bytes(plan: &ServerPlan, scenario: &Scenario) -> f64 {
    let Some(bin_ms) = plan.run.timeline_ms else { return 0.0 };
    // Above capacity the queue is worked off after the last arrival.
    let duration_s =
        scenario.requests as f64 / scenario.rate_per_s * plan.load.unwrap_or(1.0).max(1.0);
    duration_s * 1e3 / bin_ms * scenario.names.len() as f64 * TIMELINE_BIN_BYTES
}

/// What a request costs on one core, within a factor of two on machines of this decade.
fn request_ns(plan: &ServerPlan) -> f64 {
    match &plan.policies[0] {
        Policy::TimeSharing(own) => {
            // Each slice costs an expiry and a yield.
            let mean_us: f64 = plan.types.iter().map(|t| t.share * mean_us(&t.service)).sum();
            120.0 + 160.0 * mean_us / own.slice_us.max(0.01)
        }
        Policy::ProcessorSharing(_) => 220.0,
        Policy::DFcfs(_) | Policy::Stealing(_) => 160.0,
        // Each arrival looks at all workers.
        Policy::Srpt(_) | Policy::PreemptivePriority(_) | Policy::Lcfs(_) | Policy::Jsq(_) => {
            200.0 + 2.0 * f64::from(plan.workers.count())
        }
        _ => 130.0,
    }
}

fn mean_us(service: &ServicePlan) -> f64 {
    use ServicePlan as S;
    match service {
        S::Constant { us } => *us,
        S::Exponential { mean_us }
        | S::Lognormal { mean_us, .. }
        | S::Pareto { mean_us, .. }
        | S::Weibull { mean_us, .. }
        | S::Gamma { mean_us, .. }
        | S::Erlang { mean_us, .. }
        | S::Hyperexponential { mean_us, .. } => *mean_us,
        S::Bimodal { short_us, long_us, long_ratio } => {
            short_us * (1.0 - long_ratio) + long_us * long_ratio
        }
        S::Uniform { low_us, high_us } => (low_us + high_us) / 2.0,
        S::Trace { .. } => 100.0,
    }
}
