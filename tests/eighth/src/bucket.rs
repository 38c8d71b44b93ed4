//! A token bucket as a kind of plan: requests that find no token are dropped, or wait.
//!
//! It differs from the project's kinds where they might have been taken for all there are: it has
//! no load, it searches for the fewest tokens and not for the most of something, and its metric is
//! no percentile.

use cavy_core::{Instant, Purpose, Stream};
use cavy_lab::statistics::interval::Interval;
use cavy_lab::trail::Trail;
use cavy_report::model::{Cell, Panel, Point, Scale, Series};
use cavy_study::draw::{Column, Curve, Drawn, Spread, axis, slug};
use cavy_study::experiment::Experiment;
use cavy_study::objective::Metric;
use cavy_study::outcome::{Estimate, Outcome, Standing};
use cavy_study::plan::{Files, PlanError};
use cavy_study::point::{Manner, RunError};
use cavy_study::subject::{
    AboutKind, Axis, Effort, Experience, Mark, Noun, Sense, Subject, Summed, Template, TooMuch,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Requests that pass a token bucket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BucketPlan {
    /// Requests a second, on the average.
    pub rate_per_s: f64,
    /// Tokens a second.
    pub tokens_per_s: f64,
    /// Tokens that the bucket holds, 1 to 1000.
    pub tokens: u32,
    /// A file with gaps between requests in seconds, one a line; requests are Poisson when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gaps: Option<String>,
    /// What is done with requests that find no token.
    pub shapers: Vec<Shaper>,
    /// How long a replication is.
    #[serde(default)]
    pub run: BucketRun,
}

/// How long a replication is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BucketRun {
    /// Requests of each replication.
    pub requests: u64,
}

impl Default for BucketRun {
    fn default() -> Self {
        BucketRun { requests: 20_000 }
    }
}

/// What is done with requests that find no token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "shaper", rename_all = "snake_case")]
pub enum Shaper {
    /// They are dropped.
    Police(Police),
    /// They wait.
    Shape(Shape),
}

/// A policer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Police {
    /// Name in tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// A shaper with a queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Name in tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Requests that may wait; more are dropped.
    pub queue: u32,
}

impl Shaper {
    fn given(&mut self) -> &mut Option<String> {
        match self {
            Shaper::Police(own) => &mut own.label,
            Shaper::Shape(own) => &mut own.label,
        }
    }

    fn label(&self) -> String {
        let name = if matches!(self, Shaper::Police(_)) { "policer" } else { "shaper" };
        self.clone().given().take().unwrap_or_else(|| name.to_string())
    }

    /// Requests that may wait.
    fn queue(&self) -> f64 {
        match self {
            Shaper::Police(_) => 0.0,
            Shaper::Shape(own) => f64::from(own.queue),
        }
    }
}

/// What one replication needs.
pub struct Scenario {
    plan: BucketPlan,
    gaps_s: Option<Vec<f64>>,
}

/// What one replication came to.
pub struct Run {
    trail: Trail,
    dropped: u64,
    wait_s: f64,
    /// Tokens at the first hundred requests, and when they came.
    level: Vec<(f64, f64)>,
}

/// What a point came to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Passed {
    /// Share of requests that were dropped.
    pub dropped_ratio: Estimate,
    /// Mean time that requests waited which were not.
    pub wait_ms: Estimate,
    /// Tokens at the first requests: seconds, tokens; below zero there are requests that wait.
    pub level: Vec<(f64, f64)>,
}

/// One replication: the level of the bucket is all there is, below zero it is a queue.
fn replicate(scenario: &Scenario, seed: u64) -> Run {
    let plan = &scenario.plan;
    let mut draws = Stream::keyed(seed, 0, Purpose::Arrivals);
    let mut run = Run { trail: Trail::new(), dropped: 0, wait_s: 0.0, level: Vec::new() };
    let (mut now, mut level) = (0.0, f64::from(plan.tokens));
    for request in 0..plan.run.requests {
        let gap = match &scenario.gaps_s {
            Some(gaps) => gaps[draws.below(gaps.len() as u64) as usize],
            None => -draws.unit().ln() / plan.rate_per_s,
        };
        now += gap;
        level = (level + gap * plan.tokens_per_s).min(f64::from(plan.tokens));
        if request < 100 {
            run.level.push((now, level));
        }
        let passes = level - 1.0 >= -plan.shapers[0].queue();
        if passes {
            level -= 1.0;
            run.wait_s += (-level).max(0.0) / plan.tokens_per_s;
        } else {
            run.dropped += 1;
        }
        run.trail.fold(Instant::from_ns((now * 1e9) as u64), u64::from(passes));
    }
    run
}

impl Subject for BucketPlan {
    const ABOUT: AboutKind = AboutKind {
        name: "bucket",
        says: "requests that pass a token bucket",
        contestant: Noun { one: "shaper", many: "shapers" },
        work: Noun { one: "request", many: "requests" },
        replications: 5,
        replications_reason: "five tell chance from effect, and a request costs nothing",
        own_run: true,
        objectives: &["write it as `dropped_ratio <= 0.01` or `wait_ms <= 5`"],
        templates: &[Template {
            name: "bucket",
            says: "how many tokens requests of a known rate need",
            text: include_str!("../plans/template.toml"),
            files: &[],
        }],
    };
    type Scenario = Scenario;
    type Replication = Run;
    type Data = Passed;

    fn contestants(&self) -> Vec<(String, Self)> {
        let alone = |one: &Shaper| BucketPlan { shapers: vec![one.clone()], ..self.clone() };
        self.shapers.iter().map(|one| (one.label(), alone(one))).collect()
    }
    fn default_label(table: &toml::Value) -> Option<String> {
        let mut shaper: Shaper = table.clone().try_into().ok()?;
        *shaper.given() = None;
        Some(shaper.label())
    }
    fn forget_names(&mut self) {
        self.shapers.iter_mut().for_each(|one| *one.given() = None);
    }
    fn files(&self) -> Vec<&str> {
        self.gaps.as_deref().into_iter().collect()
    }
    fn axis(&self) -> Option<Axis> {
        Some(Axis {
            key: "tokens",
            words: "tokens",
            label: "tokens that the bucket holds",
            at: f64::from(self.tokens),
            least: 1.0,
            greatest: 256.0,
            step: 1.0,
            whole: true,
            counted: true,
            sense: Sense::Least,
            searchable: true,
        })
    }
    fn check_metric(&self, metric: &str, whose: Option<&str>) -> Result<(), String> {
        match (metric, whose) {
            ("dropped_ratio" | "wait_ms", None) => Ok(()),
            (_, Some(whose)) => Err(format!("is for `{whose}`, but all requests are alike")),
            (metric, None) => Err(format!("has the unknown metric `{metric}`")),
        }
    }
    fn metric(outcome: &Outcome<Passed>, metric: &str, _: Option<&str>) -> Option<f64> {
        match metric {
            "dropped_ratio" => Some(outcome.dropped_ratio.value),
            _ => Some(outcome.wait_ms.value),
        }
    }

    fn scenario(&self, files: &Files) -> Result<Scenario, PlanError> {
        if !(1..=1000).contains(&self.tokens) {
            return Err(PlanError::field("tokens", self.tokens, "1 to 1000"));
        }
        for (field, value) in [("rate_per_s", self.rate_per_s), ("tokens_per_s", self.tokens_per_s)]
        {
            if !(value.is_finite() && value > 0.0) {
                return Err(PlanError::field(field, value, "a rate above 0"));
            }
        }
        let read = |file: &String| {
            let bytes = files.read(file).map_err(|e| files.unreadable(file, "gaps", &e))?;
            let text = String::from_utf8_lossy(&bytes);
            let gaps: Result<Vec<f64>, _> = text.lines().map(str::parse).collect();
            gaps.ok()
                .filter(|gaps| !gaps.is_empty())
                .ok_or_else(|| PlanError::text("a line is no number").in_file(files.shown(file)))
        };
        let gaps_s = self.gaps.as_ref().map(read).transpose()?;
        Ok(Scenario { plan: self.clone(), gaps_s })
    }
    fn replicate(scenario: &Scenario, seed: u64, _: u32, _: &Manner) -> Result<Run, RunError> {
        Ok(replicate(scenario, seed))
    }
    fn trail(run: &Run) -> &Trail {
        &run.trail
    }
    fn summarize(&self, _: &Scenario, runs: &[Run]) -> Summed<Passed> {
        let requests = self.run.requests as f64;
        let estimate = |of: &dyn Fn(&Run) -> f64| {
            let each: Vec<f64> = runs.iter().map(of).collect();
            Estimate::new(each.iter().sum::<f64>() / each.len() as f64, each)
        };
        let passed = |run: &Run| (requests - run.dropped as f64).max(1.0);
        Summed {
            standing: Standing::Stable,
            note: String::new(),
            unformed: None,
            rate_per_s: Some(self.rate_per_s),
            work: self.run.requests * runs.len() as u64,
            data: Passed {
                dropped_ratio: estimate(&|run| run.dropped as f64 / requests),
                wait_ms: estimate(&|run| run.wait_s / passed(run) * 1e3),
                level: runs.first().map_or(Vec::new(), |run| run.level.clone()),
            },
        }
    }
    fn precision(outcome: &Outcome<Passed>) -> Vec<(String, Option<Interval>)> {
        vec![("dropped".to_string(), Some(outcome.dropped_ratio.interval()))]
    }
    fn effort(&self, _: &Self::Scenario, replications: u32) -> Effort {
        let work = self.run.requests as f64 * f64::from(replications);
        Effort { work, core_s: work * 30e-9, memory_bytes: 1e5 }
    }
    fn too_much(&self, _: bool) -> TooMuch {
        let value = self.run.requests.to_string();
        TooMuch { key: "run.requests", value, cure: "lower it" }
    }

    fn facts(&self) -> Vec<(&'static str, &'static str)> {
        vec![("dropped", "share of the requests that found no token and no room to wait")]
    }
    fn columns(_: &Experiment<Self>) -> Vec<Column<Self>> {
        vec![
            Column::new("dropped (%)", |r: &Outcome<Passed>| {
                Cell::Number(r.dropped_ratio.value * 100.0)
            }),
            Column::new("wait (ms)", |r: &Outcome<Passed>| Cell::Number(r.wait_ms.value)),
        ]
    }
    fn curves(_: &Experiment<Self>, _: &str) -> Vec<Curve<Self>> {
        vec![Curve {
            id: "dropped".to_string(),
            y: axis("share of requests dropped", "", Scale::Linear),
            of: Box::new(|r| Drawn::of(Some(&r.dropped_ratio), Spread::Interval, r.work)),
            metric: Some(Metric::of_all("dropped_ratio")),
        }]
    }
    fn panels(experiment: &Experiment<Self>, variant: &str) -> Vec<Panel> {
        let dot = |&(x, y): &(f64, f64)| Point {
            x,
            y: Some(y),
            low: None,
            high: None,
            samples: 1,
            stable: true,
        };
        let of = |result: &Outcome<Passed>| Series {
            label: format!("{}, {} tokens", result.label, result.load()),
            points: result.level.iter().map(dot).collect(),
        };
        vec![Panel {
            id: format!("{}-level", slug(variant)),
            title: "Tokens over time".to_string(),
            x: axis("time", "s", Scale::Linear),
            y: axis("tokens", "", Scale::Linear),
            series: experiment.of_variant(variant).map(of).collect(),
            rules: Vec::new(),
        }]
    }
    fn marks() -> Vec<Mark<Passed>> {
        vec![Mark { head: "dropped (%)", of: |r| Some(r.dropped_ratio.value * 100.0) }]
    }
    fn experiences(outcome: &Outcome<Passed>) -> Vec<Experience<'_>> {
        vec![Experience {
            whose: "all".to_string(),
            unit: "ms",
            more_is_better: false,
            values: vec![("wait", Some(&outcome.wait_ms))],
        }]
    }
}
