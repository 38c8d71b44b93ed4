//! Parts of documents that are generated: what the program itself says is not written a second time
//! by hand.
//!
//! A generated part stands between `<!-- generated: NAME -->` and `<!-- end -->`. `make docs`
//! writes all of them; a test compares.

use crate::root;
use cavy_study::plan::reference;
use cavy_study::registry::Registry;
use cavy_study::source::Source;
use std::fmt::Write as _;
use std::fs;

/// A generated part: its name, and what it says.
pub type Part = (String, String);

/// Parts whose names begin so are there for whoever wants them; a document need not have them.
pub const OF_CLAIMS: &str = "claims of ";

/// All generated parts.
pub fn parts() -> Vec<Part> {
    let registry = Registry { kinds: cavy_kinds::all(), sources: cavy_sources::all() };
    let mut all =
        vec![("kinds".to_string(), kinds(&registry)), ("systems".to_string(), systems(&registry))];
    all.push(("answers beside OpenSearch's".to_string(), crate::conformance::table()));
    all.push(("pages of seeds".to_string(), seeds_pages(&registry)));
    if let Some(any) = registry.kinds.first() {
        all.push(("keys of all plans".to_string(), reference::shared(&any.schema())));
    }
    for source in &registry.sources {
        all.push((format!("seeds of {}", source.id), seeds(source.id)));
        let judged = judged(source.id);
        all.push((format!("figures of {}", source.id), figures(source, &judged)));
        for figure in &source.figures {
            let name = format!("{}.{}", source.id, figure.about().id);
            all.push((format!("{OF_CLAIMS}{name}"), claims(&name, &judged)));
        }
    }
    for kind in &registry.kinds {
        all.push((format!("keys of {}", kind.about().name), reference::of_kind(&kind.schema())));
    }
    all
}

/// Systems, the question that each answers, and how the run that `docs/claims` keeps judged their
/// claims.
fn systems(registry: &Registry) -> String {
    let mut out = String::from(
        "| system | question | claims | reproduced | explained | not reproduced | not judged \
         | live |\n|---|---|---|---|---|---|---|---|\n",
    );
    for source in &registry.sources {
        let id = source.id;
        let judged = judged(id);
        let count = |verdict: &str| judged.iter().filter(|one| one.verdict == verdict).count();
        let [yes, explained, no] = ["reproduced", "explained", "not reproduced"].map(count);
        let live = match (source.live, source.live_statements().len()) {
            ("", _) => "not yet".to_string(),
            (command, 0) => format!("`{command}`"),
            (command, claims) => format!("`{command}`, {claims} claims"),
        };
        let _ = writeln!(
            out,
            "| [{id}](docs/models/{}) | {} | [{}](docs/claims/{id}.md) | {yes} | {explained} | \
             {no} | {} | {live} |",
            model_page(id),
            source.question,
            judged.len(),
            judged.len() - yes - explained - no,
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

/// Links to the pages of `docs/seeds`, from `docs`.
fn seeds_pages(registry: &Registry) -> String {
    let mut out = String::new();
    for source in &registry.sources {
        let page = format!("seeds/{}.md", source.id);
        if root().join("docs").join(&page).is_file() {
            let title = source.title.split(':').next().unwrap_or(source.id);
            let _ = writeln!(out, "- [{title} under several seeds]({page})");
        }
    }
    out
}

/// A claim as the run judged it that `docs/claims` keeps.
struct Judged {
    id: String,
    published: String,
    ours: String,
    verdict: String,
}

/// The claims of a system in that run, from the table of their page.
fn judged(id: &str) -> Vec<Judged> {
    let page = fs::read_to_string(root().join(format!("docs/claims/{id}.md"))).unwrap_or_default();
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_string()).collect()
    };
    let mut rows = page.lines().filter(|line| line.starts_with('|'));
    let head = rows.next().map(cells).unwrap_or_default();
    let column = |name: &str| head.iter().position(|head| head == name);
    let Some((published, ours)) = column("Published").zip(column("Ours")) else {
        return Vec::new();
    };
    let judged = |line| {
        let row: Vec<String> = cells(line);
        let cell = |at: usize| row.get(at).cloned().unwrap_or_default();
        let (id, verdict) = (cell(0).trim_matches('`').to_string(), cell(row.len() - 1));
        Judged { id, published: cell(published), ours: cell(ours), verdict }
    };
    rows.skip(1).map(judged).collect()
}

/// Claims by verdict, the most frequent first.
fn tally(of: &[&Judged]) -> String {
    let mut counts: Vec<(usize, &str)> = Vec::new();
    for one in of {
        match counts.iter_mut().find(|(_, verdict)| *verdict == one.verdict) {
            Some((count, _)) => *count += 1,
            None => counts.push((1, &one.verdict)),
        }
    }
    counts.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let each: Vec<String> = counts.iter().map(|(count, what)| format!("{count} {what}")).collect();
    format!("{} claims: {}", of.len(), each.join(", "))
}

/// Figures of a system, and what came of their claims: values where they are few.
fn figures(source: &Source, judged: &[Judged]) -> String {
    /// So many claims are told one by one.
    const FEW: usize = 8;
    let mut out =
        String::from("| figure | what it shows | claims, quick run, seed 1 |\n|---|---|---|\n");
    for figure in &source.figures {
        let about = figure.about();
        let of = format!("{}.{}.", source.id, about.id);
        let own: Vec<&Judged> = judged.iter().filter(|one| one.id.starts_with(&of)).collect();
        let value = |one: &&Judged| {
            // Intervals stand on the page of claims.
            let ours = one.ours.split(" (").next().unwrap_or_default();
            let name = one.id[of.len()..].replace('_', " ");
            match one.verdict.as_str() {
                "reproduced" => format!("{name} {ours}"),
                verdict => format!("{name} {ours} ({verdict})"),
            }
        };
        let said = match own.len() {
            0 => "none".to_string(),
            1..=FEW => own.iter().map(value).collect::<Vec<_>>().join("; "),
            _ => tally(&own),
        };
        let _ = writeln!(out, "| `{}` | {} | {said} |", about.id, about.title);
    }
    out
}

/// The claims of one figure.
fn claims(name: &str, judged: &[Judged]) -> String {
    let mut out = String::from("| claim | published | ours | verdict |\n|---|---|---|---|\n");
    for one in judged.iter().filter(|one| one.id.starts_with(&format!("{name}."))) {
        let claim = &one.id[name.len() + 1..];
        let _ = writeln!(out, "| `{claim}` | {} | {} | {} |", one.published, one.ours, one.verdict);
    }
    out
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
