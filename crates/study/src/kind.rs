//! A kind of plan behind an interface that knows no types: what a registry holds and commands use.
//!
//! [`Of`] makes a [`Kind`] of any [`Subject`].

use crate::cost::Cost;
use crate::draw;
use crate::experiment::Experiment;
use crate::outcome::Outcome;
use crate::plan::frame::{Frame, KEYS, RUN_KEYS, World};
use crate::plan::read::{self, Loaded, Parsed, Text};
use crate::plan::{PlanError, read::schema_of};
use crate::point::RunError;
use crate::rank;
use crate::runner::{self, Job, Runner};
use crate::store::Store;
use crate::subject::{AboutKind, Subject, TooMuch};
use cavy_lab::statistics::quantile::BEYOND_MIN;
use cavy_report::model::Figure;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::any::Any;
use std::marker::PhantomData;

/// A kind of plan.
pub trait Kind: Send + Sync {
    /// What does not change from plan to plan.
    fn about(&self) -> &'static AboutKind;
    /// The JSON schema of its plans, from the structs that read them.
    fn schema(&self) -> Value;
    /// Reads, overrides, expands and checks a plan.
    fn read(&self, plan: &Text<'_>, parsed: Parsed<'_>) -> Result<Box<dyn Prepared>, PlanError>;
}

/// A plan that can be run.
pub trait Prepared: Send + Sync {
    /// Name for messages.
    fn name(&self) -> &str;
    /// Its kind.
    fn about(&self) -> &'static AboutKind;
    /// Files with measured data that it names.
    fn measured(&self) -> Vec<String>;
    /// The command that runs it, if it is a plan for the live world.
    fn live(&self) -> Option<String>;
    /// Its points.
    fn jobs(&self) -> Vec<Box<dyn Job + '_>>;
    /// Adds what it costs.
    fn add_cost(&self, cost: &mut Cost, store: &Store);
    /// What to lower when it is too much; `memory` when it is memory.
    fn too_much(&self, memory: bool) -> TooMuch;
    /// What a reader must know to judge its numbers.
    fn facts(&self) -> Vec<(&'static str, &'static str)>;
    /// Runs it.
    fn run(&self, runner: &Runner<'_>) -> Result<Box<dyn Finished>, RunError>;
    /// The plan by its type.
    fn as_any(&self) -> &dyn Any;
}

/// A plan that was run.
pub trait Finished: Send {
    /// Its frame, with title and summary.
    fn frame(&self) -> &Frame;
    /// Fingerprint of all runs.
    fn digest(&self) -> u64;
    /// Units of work simulated.
    fn work(&self) -> u64;
    /// What a report draws.
    fn figures(&self, command: &str) -> Vec<Figure>;
    /// Points, capacities and rankings, in the words of the kind.
    fn json(&self) -> Map<String, Value>;
}

/// `S` as a kind.
pub struct Of<S>(PhantomData<fn() -> S>);

impl<S> Of<S> {
    /// The kind.
    pub const fn new() -> Self {
        Of(PhantomData)
    }
}

impl<S> Default for Of<S> {
    fn default() -> Self {
        Of::new()
    }
}

impl<S: Subject> Kind for Of<S> {
    fn about(&self) -> &'static AboutKind {
        &S::ABOUT
    }
    fn schema(&self) -> Value {
        merged::<S>()
    }
    fn read(&self, plan: &Text<'_>, parsed: Parsed<'_>) -> Result<Box<dyn Prepared>, PlanError> {
        let loaded: Loaded<S> = read::load_parsed(plan, parsed)?;
        Ok(Box::new(loaded))
    }
}

impl<S: Subject> Prepared for Loaded<S> {
    fn name(&self) -> &str {
        &self.name
    }
    fn about(&self) -> &'static AboutKind {
        &S::ABOUT
    }
    fn measured(&self) -> Vec<String> {
        let mut files: Vec<String> =
            self.body.files().iter().map(|file| file.to_string()).collect();
        files.sort();
        files.dedup();
        files
    }
    fn live(&self) -> Option<String> {
        let command = self.body.live().filter(|_| self.frame.world == World::Live)?;
        Some(format!("{command} {}", self.name))
    }
    fn jobs(&self) -> Vec<Box<dyn Job + '_>> {
        runner::jobs(self)
    }
    fn add_cost(&self, cost: &mut Cost, store: &Store) {
        cost.add(self, store);
    }
    fn too_much(&self, memory: bool) -> TooMuch {
        self.body.too_much(memory)
    }
    fn facts(&self) -> Vec<(&'static str, &'static str)> {
        self.body.facts()
    }
    fn run(&self, runner: &Runner<'_>) -> Result<Box<dyn Finished>, RunError> {
        Ok(Box::new(runner.experiment(self)?))
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl<S: Subject> Finished for Experiment<S> {
    fn frame(&self) -> &Frame {
        &self.frame
    }
    fn digest(&self) -> u64 {
        Experiment::digest(self)
    }
    fn work(&self) -> u64 {
        Experiment::work(self)
    }
    fn figures(&self, command: &str) -> Vec<Figure> {
        draw::figures(self, command)
    }
    fn json(&self) -> Map<String, Value> {
        let mut all = Map::new();
        let axis = self.plan.axis().map(|axis| axis.key.rsplit('.').next().unwrap_or(axis.key));
        let points: Vec<Value> = self.results.iter().map(|r| point::<S>(r, axis)).collect();
        let capacities: Vec<Value> =
            self.capacities.iter().map(|c| in_words::<S>(c, axis)).collect();
        all.insert("points".to_string(), points.into());
        all.insert("capacity".to_string(), capacities.into());
        all.insert("ranking".to_string(), json!(rank::rankings(self)));
        all.insert(S::ABOUT.work.many.to_string(), Experiment::work(self).into());
        all
    }
}

/// A point with its overall values beside its other fields, in the words of its kind.
fn point<S: Subject>(result: &Outcome<S::Data>, axis: Option<&str>) -> Value {
    let mut value = in_words::<S>(result, axis);
    if let Some(fields) = value.as_object_mut()
        && let Some(Value::Object(overall)) = fields.remove("overall")
    {
        for (key, value) in overall {
            fields.entry(key).or_insert(value);
        }
    }
    withhold(&mut value);
    value
}

/// Takes the values out of percentiles with too few samples beyond them: how many there are stays.
/// A median of few samples says something, and how few they are stands beside it.
fn withhold(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let beyond = value.get("beyond").and_then(Value::as_u64);
                if beyond.is_some_and(|beyond| beyond < BEYOND_MIN) && !key.starts_with("p50") {
                    *value = json!({ "beyond": beyond });
                }
                withhold(value);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(withhold),
        _ => {}
    }
}

/// A point or a capacity in the words of its kind. `axis` is what the searched axis is called.
fn in_words<S: Subject>(result: &impl Serialize, axis: Option<&str>) -> Value {
    let mut value = json!(result);
    if let Some(fields) = value.as_object_mut() {
        rename(fields, "label", S::ABOUT.contestant.one);
        rename(fields, "work", S::ABOUT.work.many);
        rename(fields, "at", axis.unwrap_or("at"));
    }
    value
}

fn rename(fields: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = fields.remove(from) {
        fields.insert(to.to_string(), value);
    }
}

/// The schema of whole plans: what all have, and what kind `S` has.
fn merged<S: Subject>() -> Value {
    let mut frame = schemars::schema_for!(Frame).to_value();
    let mut own = schema_of::<S>();
    let mut defs = take_object(&mut frame, "$defs");
    let own_run = own.pointer("/$defs").cloned();
    defs.extend(take_object(&mut own, "$defs"));
    let shared = take_object(&mut frame, "properties");
    let mut properties = Map::new();
    for key in KEYS {
        if let Some(value) = shared.get(key) {
            properties.insert(key.to_string(), value.clone());
        }
    }
    properties.insert(
        "kind".to_string(),
        json!({ "const": S::ABOUT.name, "description": "What the plan is about." }),
    );
    let mut own_properties = take_object(&mut own, "properties");
    if S::ABOUT.own_run
        && let (Some(mine), Some(theirs)) = (properties.remove("run"), own_properties.remove("run"))
    {
        let run = merged_run(&mine, &theirs, &defs, own_run.as_ref());
        properties.insert("run".to_string(), run);
    }
    properties.extend(own_properties);
    let mut required = strings(&frame, "required");
    required.extend(strings(&own, "required"));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": format!("plan of kind {}", S::ABOUT.name),
        "description": S::ABOUT.says,
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
        "$defs": defs,
    })
}

/// The table `run`: shared keys, then the kind's own.
fn merged_run(
    shared: &Value,
    own: &Value,
    defs: &Map<String, Value>,
    mine: Option<&Value>,
) -> Value {
    let referred = |value: &Value| {
        let name = value.get("$ref")?.as_str()?.strip_prefix("#/$defs/")?.to_string();
        Some(name)
    };
    let of = |value: &Value, defs: Option<&Value>| match (referred(value), defs) {
        (Some(name), Some(defs)) => defs.get(&name).cloned().unwrap_or_default(),
        _ => value.clone(),
    };
    // Both are called `Run` or the like; each is looked up where it came from.
    let frame_defs = schemars::schema_for!(Frame).to_value().get("$defs").cloned();
    let mut run = of(shared, frame_defs.as_ref());
    let theirs = of(own, mine.or(Some(&json!(defs))));
    if let (Some(properties), Some(more)) = (
        run.get_mut("properties").and_then(Value::as_object_mut),
        theirs.get("properties").and_then(Value::as_object),
    ) {
        debug_assert!(RUN_KEYS.iter().all(|key| !more.contains_key(*key)), "a key of two readers");
        properties.extend(more.clone());
    }
    run
}

fn take_object(value: &mut Value, key: &str) -> Map<String, Value> {
    match value.as_object_mut().and_then(|fields| fields.remove(key)) {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

fn strings(value: &Value, key: &str) -> Vec<Value> {
    value.get(key).and_then(Value::as_array).cloned().unwrap_or_default()
}
