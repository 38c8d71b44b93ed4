//! Parts of documents that are generated: what the program itself says is not written a second time
//! by hand.
//!
//! A generated part stands between `<!-- generated: NAME -->` and `<!-- end -->`. `make docs`
//! writes all of them; a test compares.

use crate::root;
use cavy_study::plan::reference;
use cavy_study::registry::Registry;
use std::fmt::Write as _;
use std::fs;

/// A generated part: its name, and what it says.
pub type Part = (String, String);

/// All generated parts.
pub fn parts() -> Vec<Part> {
    let registry = Registry { kinds: cavy_kinds::all(), sources: cavy_sources::all() };
    let mut all =
        vec![("kinds".to_string(), kinds(&registry)), ("systems".to_string(), systems(&registry))];
    if let Some(any) = registry.kinds.first() {
        all.push(("keys of all plans".to_string(), reference::shared(&any.schema())));
    }
    for source in &registry.sources {
        all.push((format!("seeds of {}", source.id), seeds(source.id)));
    }
    for kind in &registry.kinds {
        all.push((format!("keys of {}", kind.about().name), reference::of_kind(&kind.schema())));
    }
    all
}

/// Systems, the question that each answers, and what came of its claims in the run that
/// `docs/claims` keeps.
fn systems(registry: &Registry) -> String {
    let mut out = String::from(
        "| system | question | claims, quick run | live claims |\n|---|---|---|---|\n",
    );
    for source in &registry.sources {
        let id = source.id;
        let page = fs::read_to_string(root().join(format!("docs/claims/{id}.md")));
        let tally = page.as_deref().ok().and_then(|page| page.trim_end().lines().last());
        let tally = tally.unwrap_or("none yet").trim_end_matches('.');
        let _ = writeln!(
            out,
            "| [{id}](docs/models/{}) | {} | [{tally}](docs/claims/{id}.md) | {} |",
            model_page(id),
            source.question,
            source.live_statements().len()
        );
    }
    out
}

/// What `docs/seeds` keeps of a system: do its verdicts depend on the seed? `make seeds` writes it.
fn seeds(id: &str) -> String {
    let page = fs::read_to_string(root().join(format!("docs/seeds/{id}.md")));
    let body = page.as_deref().ok().and_then(|page| page.split_once("\n\n"));
    body.map_or(format!("`make seeds SYSTEMS={id}` has not been run."), |(_, body)| body.into())
}

/// The page of a system's model.
fn model_page(id: &str) -> String {
    if id == "persephone" { "scheduling.md".into() } else { format!("{id}.md") }
}

/// Kinds of plans, with what is their own of what all have.
fn kinds(registry: &Registry) -> String {
    let mut out = String::from(
        "| `kind` | what it is about | what is compared | what is counted | replications, and why \
         |\n|---|---|---|---|---|\n",
    );
    for kind in &registry.kinds {
        let about = kind.about();
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {} | {}: {} |",
            about.name,
            about.says,
            about.contestant.many,
            about.work.many,
            about.replications,
            about.replications_reason
        );
    }
    out
}

/// `text` with its generated parts as they should be; `Err` names what is wrong with its marks.
pub fn renewed(text: &str, parts: &[Part]) -> Result<String, String> {
    const BEGIN: &str = "<!-- generated: ";
    const END: &str = "<!-- end -->";
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(BEGIN) {
        let head = &rest[at + BEGIN.len()..];
        let (name, after) = head.split_once(" -->\n").ok_or("a mark without an end")?;
        let (_, part) = parts
            .iter()
            .find(|(known, _)| known == name)
            .ok_or_else(|| format!("there is no generated part `{name}`"))?;
        let end = after.find(END).ok_or_else(|| format!("`{name}` has no end"))?;
        out.push_str(&rest[..at]);
        let _ = write!(out, "{BEGIN}{name} -->\n\n{}\n\n{END}", part.trim_matches('\n'));
        rest = &after[end + END.len()..];
    }
    out.push_str(rest);
    Ok(out)
}
