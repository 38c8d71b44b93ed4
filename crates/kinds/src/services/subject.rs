//! Services as the subject of an experiment.

use super::draw;
use super::plan::{MethodPlan, ServicesPlan};
use super::result::{Predicted, Verdict};
use super::run::{self, Replication};
use super::scenario::{self, Scenario};
use cavy_lab::statistics::interval::Interval;
use cavy_lab::trail::Trail;
use cavy_report::number::count;
use cavy_study::draw::{Column, Curve};
use cavy_study::experiment::Experiment;
use cavy_study::outcome::{Estimate, Outcome, Standing};
use cavy_study::plan::{Files, PlanError};
use cavy_study::point::{Manner, RunError};
use cavy_study::subject::{
    AboutKind, Axis, Effort, Experience, Mark, Noun, Subject, Summed, Template, TooMuch,
};

const TEMPLATES: [Template; 1] = [Template {
    name: "services",
    says: "a graph of services, what making one of them faster buys, methods that predict it",
    text: include_str!("templates/services.toml"),
    files: &[],
}];

impl Subject for ServicesPlan {
    const ABOUT: AboutKind = AboutKind {
        name: "services",
        says: "services that call each other, a change to one, and methods that predict its effect",
        contestant: Noun { one: "method", many: "methods" },
        work: Noun { one: "request", many: "requests" },
        replications: 5,
        replications_reason: "a method is judged by its error on several seeds, and each needs \
                              three systems",
        own_run: true,
        objectives: &["there is nothing to search in such a plan: leave `objectives` out"],
        templates: &TEMPLATES,
    };
    type Scenario = Scenario;
    type Replication = Replication;
    type Data = Predicted;

    fn contestants(&self) -> Vec<(String, ServicesPlan)> {
        let alone =
            |method: &MethodPlan| ServicesPlan { methods: vec![method.clone()], ..self.clone() };
        self.methods.iter().map(|method| (method.label(), alone(method))).collect()
    }
    #[inline]
    fn default_label(table: &toml::Value) -> Option<String> {
        let mut method: MethodPlan = table.clone().try_into().ok()?;
        *method.given_label() = None;
        Some(method.label())
    }
    fn forget_names(&mut self) {
        self.methods.iter_mut().for_each(|method| *method.given_label() = None);
    }
    fn axis(&self) -> Option<Axis> {
        None
    }
    fn check_metric(&self, metric: &str, _: Option<&str>) -> Result<(), String> {
        Err(format!("bounds `{metric}`, and plans of services have no objectives"))
    }
    fn metric(_: &Outcome<Predicted>, _: &str, _: Option<&str>) -> Option<f64> {
        None
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
        run::trail(replication)
    }
    fn summarize(&self, scenario: &Scenario, runs: &[Replication]) -> Summed<Predicted> {
        run::summarize(scenario, runs)
    }
    fn blank(&self) -> Option<Predicted> {
        let some = || Estimate::new(1.0, vec![1.0]);
        Some(Predicted {
            unchanged_per_s: some(),
            truth_per_s: some(),
            predicted_per_s: Some(some()),
            error_percent: Some(some()),
            gain_percent: some(),
            predicted_gain_percent: Some(some()),
            slowed_per_s: Some(some()),
            paused_ratio: Some(0.0),
            pause_ms: Some(0.0),
            truth: None,
            predicted: None,
            times_requests: false,
            bottleneck: String::new(),
            next_bottleneck: String::new(),
            now: None,
            then: None,
            doubts: Vec::new(),
        })
    }
    fn precision(outcome: &Outcome<Predicted>) -> Vec<(String, Option<Interval>)> {
        let predicted = outcome.predicted_per_s.as_ref();
        vec![("predicted throughput".to_string(), predicted.map(Estimate::interval))]
    }
    fn effort(&self, scenario: &Scenario, replications: u32) -> Effort {
        let systems = if matches!(
            self.methods[0],
            MethodPlan::NoChange(_)
                | MethodPlan::Utilisation(_)
                | MethodPlan::Mva(_)
                | MethodPlan::Layered(_)
        ) {
            2.0
        } else {
            3.0
        };
        let work = self.run.requests as f64 * systems * f64::from(replications);
        // Visits of a request, about; each costs a quarter of a microsecond.
        let visits: f64 = scenario.visits.iter().sum();
        let clients = f64::from(self.clients.population.unwrap_or(100));
        Effort {
            work,
            core_s: work * visits.max(1.0) * 0.3e-6,
            memory_bytes: 2e6 + clients * visits.max(1.0) * 200.0,
        }
    }
    fn too_much(&self, _: bool) -> TooMuch {
        TooMuch {
            key: "run.requests",
            value: count(self.run.requests),
            cure: "lower it, `run.replications` or the number of points, or try `--quick`",
        }
    }

    fn facts(&self) -> Vec<(&'static str, &'static str)> {
        vec![
            ("true", "throughput of the changed system, simulated with the same requests and work"),
            ("error", "predicted throughput divided by the true one, minus 1"),
            (
                "paused",
                "share of the time for which everything but the changed service was stopped",
            ),
            ("intervals", "95 %, by sectioning over independent replications"),
            (
                "predicted latency",
                "measured on the clients' own clock, which stops while clients are stopped; only \
                 for methods that stop clients as well",
            ),
        ]
    }
    fn columns(experiment: &Experiment<ServicesPlan>) -> Vec<Column<ServicesPlan>> {
        draw::columns(experiment)
    }
    fn curves(experiment: &Experiment<ServicesPlan>, variant: &str) -> Vec<Curve<ServicesPlan>> {
        draw::curves(experiment, variant)
    }
    fn marks() -> Vec<Mark<Predicted>> {
        vec![Mark {
            head: "error (%), without sign",
            of: |result| Some(result.error_percent.as_ref()?.value.abs()),
        }]
    }
    fn experiences(_: &Outcome<Predicted>) -> Vec<Experience<'_>> {
        Vec::new()
    }
    fn remarks(experiment: &Experiment<ServicesPlan>) -> Vec<String> {
        let doubtful = experiment.results.iter().filter(|one| !one.doubts.is_empty()).count();
        let silent = experiment.results.iter().filter(|one| one.predicted_per_s.is_none()).count();
        let mut sentences = Vec::new();
        if doubtful > 0 {
            sentences.push(format!(
                "{doubtful} of {} predictions are in doubt; the table of points says why.",
                experiment.results.len()
            ));
        }
        sentences.extend(overloads(experiment, "Now", |point| point.now.as_ref()));
        sentences.extend(overloads(experiment, "After the change", |point| point.then.as_ref()));
        if silent > 0 {
            sentences.push(format!("{silent} points have no prediction."));
        }
        sentences
    }
}

/// At how many points the system does not keep up, or nobody knows, `when` that `of` is about.
fn overloads(
    experiment: &Experiment<ServicesPlan>,
    when: &str,
    of: fn(&Predicted) -> Option<&Verdict>,
) -> Vec<String> {
    let all = experiment.results.len();
    let count = |standing: Standing| {
        let verdicts = experiment.results.iter().filter_map(|point| of(point));
        verdicts.filter(|verdict| verdict.standing == standing).count()
    };
    let of = [
        (Standing::Unstable, "cannot do what its clients ask for", "why"),
        (
            Standing::TooShort,
            "was run too briefly to tell whether it keeps up",
            "how long is enough",
        ),
    ];
    let said = of.into_iter().map(|(standing, what, table)| (count(standing), what, table));
    said.filter(|(points, ..)| *points > 0)
        .map(|(points, what, table)| {
            format!("{when} the system {what} at {points} of {all} points; the table says {table}.")
        })
        .collect()
}
