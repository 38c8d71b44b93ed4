//! The lab alone, as `cavy run --set world=lab` has it.

use cavy_study::plan::{Files, Text};
use cavy_study::registry::Registry;
use cavy_study::runner::{Runner, Silent};
use cavy_study::store::Store;
use serde_json::Value;
use std::path::Path;

/// What the lab says of the points of a plan for the live world, which stands in `file`.
pub fn points(text: &str, file: &Path) -> Value {
    let (files, name) = (Files::beside(file), file.display().to_string());
    let overrides = ["world=lab".to_string()];
    let text = Text { text, name: &name, files: &files, overrides: &overrides, quick: false };
    let registry = Registry { kinds: cavy_kinds::all(), sources: Vec::new() };
    let plan = registry.read(&text).expect("a plan");
    assert_eq!(plan.live(), None);
    let (store, stop) = (Store::in_memory(), Default::default());
    let (progress, manner) = (&Silent, Default::default());
    let runner = Runner { store: &store, progress, stop: &stop, manner, version: "test" };
    let Ok(finished) = plan.run(&runner) else { panic!("it runs") };
    finished.json()["points"].clone()
}
