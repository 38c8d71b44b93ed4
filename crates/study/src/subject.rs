//! What an experiment can be about: a kind of plan, and what its points come to.
//!
//! Reading, sweeping, replicating, keeping, resuming, searching, ranking and drawing are the same
//! whatever is simulated. A type that implements [`Subject`] says what differs. It is the part of a
//! plan that belongs to the kind; [`crate::kind::Of`] makes of it a [`crate::kind::Kind`] for a
//! registry.

use crate::draw::{Column, Curve};
use crate::experiment::Experiment;
use crate::objective::Side;
use crate::outcome::{Estimate, Outcome, Standing};
use crate::plan::files::CarriedFile;
use crate::plan::{Files, PlanError};
use crate::point::{Manner, RunError};
use cavy_lab::statistics::interval::Interval;
use cavy_lab::trail::Trail;
use cavy_report::model::{Map, Panel, Table};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// A word in one and in many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noun {
    /// Of one.
    pub one: &'static str,
    /// Of several.
    pub many: &'static str,
}

/// A plan to start from.
#[derive(Clone, Copy, Debug)]
pub struct Template {
    /// Its name.
    pub name: &'static str,
    /// What it is for.
    pub says: &'static str,
    /// The plan.
    pub text: &'static str,
    /// The files that it names.
    pub files: &'static [CarriedFile],
}

/// What does not change from plan to plan of a kind.
#[derive(Clone, Copy, Debug)]
pub struct AboutKind {
    /// The value of `kind`, such as `server`.
    pub name: &'static str,
    /// What such a plan is about, a phrase.
    pub says: &'static str,
    /// What is compared, such as policies. The word for one is the key that names it in its table,
    /// the word for many is the key of the list.
    pub contestant: Noun,
    /// What is simulated and counted, such as requests.
    pub work: Noun,
    /// Replications when the plan does not say.
    pub replications: u32,
    /// Why so many.
    pub replications_reason: &'static str,
    /// Has the kind keys of its own in the table `run`?
    pub own_run: bool,
    /// How to write an objective, and what may stand in it: sentences for a user.
    pub objectives: &'static [&'static str],
    /// Plans to start from.
    pub templates: &'static [Template],
}

/// In which direction a value of the searched axis is worth more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sense {
    /// The greatest that will do: load, senders at once.
    Greatest,
    /// The least that will do: probes a node, workers.
    Least,
}

/// The axis along which a plan is searched for the last value that is good enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    /// The key, such as `load`.
    pub key: &'static str,
    /// In words, such as `load`.
    pub words: &'static str,
    /// Under a plot, such as `offered load`.
    pub label: &'static str,
    /// Its value in this plan.
    pub at: f64,
    /// The least value that is tried when the plan does not sweep the axis.
    pub least: f64,
    /// The greatest.
    pub greatest: f64,
    /// Distance to which it is bisected when the plan does not say.
    pub step: f64,
    /// Are its values whole numbers?
    pub whole: bool,
    /// Do its words say what is counted, as in `16 workers` or `4000 transactions a second`?
    pub counted: bool,
    /// In which direction a value is worth more.
    pub sense: Sense,
    /// May it be searched in this plan? A recorded trace, say, has a load that is not searched.
    pub searchable: bool,
}

impl Axis {
    /// `at load 0.9`, `with 16 workers`.
    pub fn place(&self, value: f64) -> String {
        if self.counted {
            format!("with {value} {}", self.words)
        } else {
            format!("at {}", self.value(value))
        }
    }

    /// `load 0.9`, `16 workers`.
    pub fn value(&self, value: f64) -> String {
        if self.counted {
            format!("{value} {}", self.words)
        } else {
            format!("{} {value}", self.words)
        }
    }
}

/// What a point costs, about.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Effort {
    /// Units of work, over all replications.
    pub work: f64,
    /// Seconds of one core.
    pub core_s: f64,
    /// Memory while it runs.
    pub memory_bytes: f64,
}

/// What a point's replications say together.
#[derive(Clone, Debug)]
pub struct Summed<D> {
    /// Does it keep up?
    pub standing: Standing,
    /// Why it does not, or why that cannot be told.
    pub note: String,
    /// Why what was run is not yet what its label says, if it is not.
    pub unformed: Option<String>,
    /// Units of work a second: offered, or for closed clients achieved. `None` where time means
    /// nothing.
    pub rate_per_s: Option<f64>,
    /// Units of work simulated, over all replications.
    pub work: u64,
    /// What only this kind has.
    pub data: D,
}

/// What somebody experienced, in a value that others can be compared by.
#[derive(Clone, Debug)]
pub struct Experience<'a> {
    /// Who, such as the name of a type.
    pub whose: String,
    /// Unit of the values.
    pub unit: &'static str,
    /// Is more better? Of latency less is.
    pub more_is_better: bool,
    /// Values by their names, the most wanted first; `None` where samples are too few.
    pub values: Vec<(&'static str, Option<&'a Estimate>)>,
}

/// A value of a point by which a ranking without capacities is ordered, and shown beside others.
#[derive(Clone, Copy)]
pub struct Mark<D> {
    /// Head of its column, with unit.
    pub head: &'static str,
    /// The value.
    pub of: fn(&Outcome<D>) -> Option<f64>,
}

/// Why a plan is refused, and what would help.
#[derive(Clone, Debug)]
pub struct TooMuch {
    /// The key that asks for so much, such as `run.requests`.
    pub key: &'static str,
    /// Its value, in words.
    pub value: String,
    /// The cure.
    pub cure: &'static str,
}

/// A kind of plan: the part of it that is not [`crate::plan::Frame`].
///
/// It refuses keys that it does not know (`deny_unknown_fields`), and names none that the frame
/// has.
pub trait Subject:
    Clone + Debug + PartialEq + Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static
{
    /// What does not change from plan to plan.
    const ABOUT: AboutKind;
    /// What one replication needs, apart from its seed.
    type Scenario: Send + Sync;
    /// What one replication came to.
    type Replication: Send + Sync;
    /// What a point came to, beside what all outcomes have.
    type Data: Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static;

    /// A plan for each of those that are compared, under its label.
    fn contestants(&self) -> Vec<(String, Self)>;
    /// The label that the contestant in `table` has when it is not given one. It reads a plan, so
    /// kinds inline it: see `kinds::all`.
    fn default_label(table: &toml::Value) -> Option<String>;
    /// Clears what does not change results: labels.
    fn forget_names(&mut self);
    /// Files with measured data that decide results.
    fn files(&self) -> Vec<&str> {
        Vec::new()
    }
    /// The axis that is searched, if this plan has one.
    fn axis(&self) -> Option<Axis>;
    /// Checks what no scenario of a single contestant would find.
    fn check(&self) -> Result<(), PlanError> {
        Ok(())
    }
    /// The command that runs this plan live, without the plan's file; `None` where there is none.
    fn live(&self) -> Option<&'static str> {
        None
    }
    /// Checks what only a plan for the live world must keep to.
    fn check_live(&self) -> Result<(), PlanError> {
        Ok(())
    }
    /// Can objectives bound `metric`, for `whose` if that is said? If not, what is wrong with it.
    fn check_metric(&self, metric: &str, whose: Option<&str>) -> Result<(), String>;
    /// Can this limit of `metric` be met at all? If not, why.
    fn check_limit(&self, _metric: &str, _side: Side, _limit: f64) -> Result<(), String> {
        Ok(())
    }
    /// The value that an objective bounds; `None` with too few samples.
    fn metric(outcome: &Outcome<Self::Data>, metric: &str, whose: Option<&str>) -> Option<f64>;

    /// What is run for this plan, which has one contestant. Finds every mistake in it.
    fn scenario(&self, files: &Files) -> Result<Self::Scenario, PlanError>;
    /// Measures what all replications share, once for a point.
    fn prepare(scenario: &mut Self::Scenario, manner: &Manner) {
        let _ = (scenario, manner);
    }
    /// Runs one replication. Equal seeds give equal results.
    fn replicate(
        scenario: &Self::Scenario,
        seed: u64,
        replication: u32,
        manner: &Manner,
    ) -> Result<Self::Replication, RunError>;
    /// The fingerprint of a replication.
    fn trail(replication: &Self::Replication) -> &Trail;
    /// What replications say together.
    fn summarize(
        &self,
        scenario: &Self::Scenario,
        runs: &[Self::Replication],
    ) -> Summed<Self::Data>;
    /// What each section of the runs says alone, for each way to cut them up; sections of one way
    /// say little about each other, and the same number of runs gives the same sections whoever is
    /// served. By default there is one way: each replication is a section, if there are two or
    /// more. `whole` is what all say together.
    fn sections(
        &self,
        scenario: &Self::Scenario,
        runs: &[Self::Replication],
        whole: &Self::Data,
    ) -> Vec<Vec<Self::Data>> {
        if runs.len() < 2 {
            return Vec::new();
        }
        let alone = |run| {
            let mut data = self.summarize(scenario, std::slice::from_ref(run)).data;
            Self::support(&mut data, whole);
            data
        };
        vec![runs.iter().map(alone).collect()]
    }
    /// Lets values of a section be given where those of the `whole` are, however few samples the
    /// section has. By default a kind withholds nothing.
    fn support(section: &mut Self::Data, whole: &Self::Data) {
        let _ = (section, whole);
    }
    /// What a point of this plan comes to in form, with nothing measured: what a figure's claims
    /// measure is found out by it, and nothing is run. `None` where the kind has no such thing.
    fn blank(&self) -> Option<Self::Data> {
        None
    }
    /// Intervals that `run.precision_ratio` is about, by name.
    fn precision(outcome: &Outcome<Self::Data>) -> Vec<(String, Option<Interval>)>;
    /// Units of work of one point at most, when `run.precision_ratio` is set.
    fn work_max(&self) -> u64 {
        1_000_000_000
    }
    /// What `replications` of this point cost, whose scenario is `scenario`.
    fn effort(&self, scenario: &Self::Scenario, replications: u32) -> Effort;
    /// What to lower when a plan is too much; `memory` when it is memory.
    fn too_much(&self, memory: bool) -> TooMuch;

    /// What a reader must know to judge the numbers of this plan: name and value.
    fn facts(&self) -> Vec<(&'static str, &'static str)>;
    /// Columns of the table of points, beside those that every table has.
    fn columns(experiment: &Experiment<Self>) -> Vec<Column<Self>>;
    /// Curves over the first swept key, a panel each.
    fn curves(experiment: &Experiment<Self>, variant: &str) -> Vec<Curve<Self>>;
    /// Panels that are no curves over what is swept: maps, timelines, distributions.
    fn panels(experiment: &Experiment<Self>, variant: &str) -> Vec<Panel> {
        let _ = (experiment, variant);
        Vec::new()
    }
    /// Maps of places on the Earth.
    fn maps(experiment: &Experiment<Self>, variant: &str) -> Vec<Map> {
        let _ = (experiment, variant);
        Vec::new()
    }
    /// Tables beside rankings, capacities and points.
    fn tables(experiment: &Experiment<Self>, variant: &str) -> Vec<Table> {
        let _ = (experiment, variant);
        Vec::new()
    }
    /// Values that rankings show, the one that orders them first; of that one less is better.
    fn marks() -> Vec<Mark<Self::Data>>;
    /// What everybody who is served experiences: who pays for what a contestant buys.
    fn experiences(outcome: &Outcome<Self::Data>) -> Vec<Experience<'_>>;
    /// Sentences about results that only this kind can say.
    fn remarks(experiment: &Experiment<Self>) -> Vec<String> {
        let _ = experiment;
        Vec::new()
    }
}
