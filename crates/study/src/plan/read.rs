//! Reading a plan: TOML, overrides, and errors that name the nearest known key.
//!
//! A plan has two readers: [`Frame`] takes the keys that all plans share, the kind takes the
//! others. Each refuses what it does not know.

use super::frame::{Frame, KEYS, RUN_KEYS, World};
use super::mistake::{Known, from_toml};
use super::path::{Names, check_depth, parse_override, set};
use super::{Files, PlanError};
use crate::experiment::{self, Point};
use crate::subject::Subject;
use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use std::path::Path;
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

/// What is read of a plan: its text, where it comes from, and what replaces its values.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    /// TOML.
    pub text: &'a str,
    /// Name for messages.
    pub name: &'a str,
    /// The files it may name.
    pub files: &'a Files,
    /// `key=value`, applied in order.
    pub overrides: &'a [String],
    /// With the plan's `[quick]` values.
    pub quick: bool,
}

/// The text of the plan in `file`, or on standard input if that is `-`.
pub fn text_of(file: &Path) -> Result<String, PlanError> {
    /// No plan is longer; a device or a pipe without end is none.
    const BYTES_MAX: u64 = 16 << 20;
    let name = file.display().to_string();
    let read = || {
        use std::io::Read as _;
        let mut text = String::new();
        match file.as_os_str() == "-" {
            true => std::io::stdin().lock().take(BYTES_MAX + 1).read_to_string(&mut text)?,
            false => std::fs::File::open(file)?.take(BYTES_MAX + 1).read_to_string(&mut text)?,
        };
        Ok(text)
    };
    let text = read().map_err(|error: std::io::Error| {
        let mut wrong = PlanError::text(format!("cannot read the plan: {error}")).in_file(&name);
        if error.kind() == std::io::ErrorKind::NotFound {
            wrong = wrong.hint("`cavy plan new` writes one to start from");
        }
        wrong
    })?;
    if text.len() as u64 > BYTES_MAX {
        let message = format!("the plan is longer than {} MB", BYTES_MAX >> 20);
        return Err(PlanError::text(message).in_file(name));
    }
    Ok(text)
}

/// The keys of a plan with their places in its text, before anybody knows which kind it is of.
pub struct Parsed<'a>(Spanned<DeTable<'a>>);

impl<'a> Parsed<'a> {
    /// Parses a text, the one time that this is done.
    pub fn of(plan: &Text<'a>) -> Result<Parsed<'a>, PlanError> {
        let parsed = DeTable::parse(plan.text);
        parsed.map(Parsed).map_err(|e| from_toml(e, Known::default()).in_file(plan.name))
    }

    /// The value of `kind`, if there is one.
    pub fn kind(&self, plan: &Text<'_>) -> Result<Option<&str>, PlanError> {
        let Some(value) = self.0.get_ref().get("kind") else { return Ok(None) };
        let DeValue::String(kind) = value.get_ref() else {
            let said = &plan.text[value.span()];
            return Err(PlanError::text(format!("`kind` is {said}; it must be text"))
                .in_file(plan.name)
                .hint("write it as `kind = \"server\"`"));
        };
        Ok(Some(kind))
    }

    /// Is `key` at its top?
    pub fn has(&self, key: &str) -> bool {
        self.0.get_ref().contains_key(key)
    }
}

/// A plan with where it came from, spread out into its points.
#[derive(Clone, Debug)]
pub struct Loaded<S: Subject> {
    /// Name for messages.
    pub name: String,
    /// What all plans have.
    pub frame: Frame,
    /// What this kind has.
    pub body: S,
    /// The files it may name.
    pub files: Files,
    /// All points: variants, then swept values, then contestants.
    pub points: Vec<Point<S>>,
}

/// Reads a plan of kind `S`, applies what replaces its values, and checks it.
pub fn load<S: Subject>(plan: &Text<'_>) -> Result<Loaded<S>, PlanError> {
    load_parsed(plan, Parsed::of(plan)?)
}

/// The same of a text that is parsed already.
pub(crate) fn load_parsed<S: Subject>(
    plan: &Text<'_>,
    Parsed(parsed): Parsed<'_>,
) -> Result<Loaded<S>, PlanError> {
    let named = |error: PlanError| error.in_file(plan.name);
    let mut table = Table::deserialize(toml::de::Deserializer::from(parsed.clone()))
        .map_err(|e| named(from_toml(e, Known::default())))?;
    // Checked against the text first, so that a mistake in the file is shown in the file.
    let frame = read_spanned::<S>(plan.text, parsed).map_err(named)?;
    let keys = frame.sweep.keys().chain(frame.quick.keys());
    for key in keys.chain(frame.variants.values().flat_map(Table::keys)) {
        check_depth(key).map_err(named)?;
    }
    if plan.quick {
        for (key, value) in &frame.quick {
            set(&mut table, key, value.clone(), names::<S>()).map_err(named)?;
        }
    }
    for text in plan.overrides {
        let (key, value) = parse_override(text)?;
        set(&mut table, &key, value, names::<S>())?;
        // Who sets a key that the plan varies wants that one value.
        if let Some(Value::Table(sweep)) = table.get_mut("sweep") {
            sweep.remove(&key);
        }
    }
    let (frame, body) = from_table::<S>(&table).map_err(named)?;
    frame.run.check().map_err(named)?;
    check_world(&frame, &body).map_err(named)?;
    let points = experiment::points(&frame, &body, table, plan.files).map_err(named)?;
    let loaded =
        Loaded { name: plan.name.to_string(), frame, body, files: plan.files.clone(), points };
    experiment::check(&loaded).map_err(named)?;
    Ok(loaded)
}

/// Can this plan be run in the world that it says?
fn check_world<S: Subject>(frame: &Frame, body: &S) -> Result<(), PlanError> {
    match (frame.world, body.live()) {
        (World::Lab, _) => Ok(()),
        (World::Live, Some(_)) => body.check_live(),
        (World::Live, None) => {
            let name = S::ABOUT.name;
            let must = format!("`lab`: there is no live study for such a plan of kind `{name}`");
            Err(PlanError::field("world", "live", &must).hint("leave `world` out"))
        }
    }
}

/// The frame and the body that a table describes.
pub(crate) fn from_table<S: Subject>(table: &Table) -> Result<(Frame, S), PlanError> {
    let mut body = table.clone();
    let mut frame = Table::new();
    for key in KEYS {
        let Some(value) = body.remove(key) else { continue };
        match value {
            Value::Table(run) if key == "run" && S::ABOUT.own_run => {
                let (shared, own): (Table, Table) =
                    run.into_iter().partition(|(key, _)| RUN_KEYS.contains(&key.as_str()));
                frame.insert(key.to_string(), Value::Table(shared));
                if !own.is_empty() {
                    body.insert(key.to_string(), Value::Table(own));
                }
            }
            value => {
                frame.insert(key.to_string(), value);
            }
        }
    }
    let known = known::<S>();
    let frame = of_table(frame, Known { schema: None, ..known })?;
    Ok((frame, of_table(body, known)?))
}

fn of_table<T: DeserializeOwned>(table: Table, known: Known<'_>) -> Result<T, PlanError> {
    Value::Table(table).try_into().map_err(|mut error: toml::de::Error| {
        error.set_input(None);
        from_toml(error, known)
    })
}

/// Reads the text alone, whose mistakes have a place in it.
fn read_spanned<S: Subject>(text: &str, parsed: Spanned<DeTable<'_>>) -> Result<Frame, PlanError> {
    let span = parsed.span();
    let mut body = parsed.into_inner();
    let mut frame = DeTable::new();
    for key in KEYS {
        let Some((name, value)) = body.remove_entry(key) else { continue };
        if key != "run" || !S::ABOUT.own_run {
            frame.insert(name, value);
            continue;
        }
        let place = value.span();
        match value.into_inner() {
            DeValue::Table(run) => {
                let (shared, own): (DeTable<'_>, DeTable<'_>) = run
                    .into_iter()
                    .partition(|(key, _)| RUN_KEYS.contains(&key.get_ref().as_ref()));
                frame.insert(name.clone(), Spanned::new(place.clone(), DeValue::Table(shared)));
                if !own.is_empty() {
                    body.insert(name, Spanned::new(place, DeValue::Table(own)));
                }
            }
            other => {
                frame.insert(name, Spanned::new(place, other));
            }
        }
    }
    let known = Known { text: Some(text), ..known::<S>() };
    let frame = Frame::deserialize(toml::de::Deserializer::from(Spanned::new(span.clone(), frame)))
        .map_err(|error| from_toml(error, Known { schema: None, ..known }))?;
    S::deserialize(toml::de::Deserializer::from(Spanned::new(span, body)))
        .map_err(|error| from_toml(error, known))?;
    Ok(frame)
}

fn known<S: Subject>() -> Known<'static> {
    let run: &[&str] = if S::ABOUT.own_run { &RUN_KEYS } else { &[] };
    Known { top: &KEYS, run, text: None, schema: Some(schema_of::<S>) }
}

/// The JSON schema of the keys that kind `S` has beside those of [`Frame`].
pub(crate) fn schema_of<S: Subject>() -> serde_json::Value {
    schemars::schema_for!(S).to_value()
}

/// What elements of lists are called in plans of kind `S`: their `label` or `name`, contestants
/// also by the label that they have by default and by their keyword.
pub(crate) fn names<S: Subject>() -> Names {
    |item| {
        let text = |key: &str| item.get(key).and_then(Value::as_str).map(str::to_string);
        let keyword = text(S::ABOUT.contestant.one);
        let default = keyword.as_ref().and_then(|_| S::default_label(item));
        [text("label"), text("name"), default, keyword].into_iter().flatten().collect()
    }
}
