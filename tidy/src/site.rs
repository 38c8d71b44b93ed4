//! The documentation as a book: `make site` gives what this writes to mdBook.
//!
//! The contents are those of `docs/README.md`, section by section, so that there is one list. Pages
//! keep their folders, and so their links.

use crate::pages::{Page, target};
use crate::{File, files, rooms, root};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// The page whose sections are the chapters.
const CONTENTS: &str = "docs/README.md";
/// Pages outside `docs`, after the others.
const PROJECT: [&str; 3] = ["ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];
/// The page that leads to the documentation of the code.
const API: &str = "docs/api.md";

/// A section of the book, with the paths of its pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its name.
    pub name: String,
    /// Paths of its pages, in order.
    pub pages: Vec<String>,
}

/// All Markdown pages of the repository that a reader may be sent to.
pub fn pages() -> Vec<Page> {
    let is_page = |file: &&File| {
        let path = file.path.as_str();
        path.ends_with(".md") && (path.starts_with("docs/") || !path.contains('/'))
    };
    files().iter().filter(is_page).map(Page::of).collect()
}

/// The sections of the book.
///
/// A page of a folder that the contents name only by its own list (`decisions/README.md`) follows
/// that list, in the order of names.
pub fn sections(pages: &[Page]) -> Vec<Section> {
    let mut seen: BTreeSet<String> = BTreeSet::from([CONTENTS.to_string(), "README.md".into()]);
    let mut all: Vec<Section> = Vec::new();
    let contents = pages.iter().find(|page| page.path == CONTENTS);
    for (name, link) in contents.iter().flat_map(|page| &page.links) {
        let Some((path, _)) = target(CONTENTS, link) else { continue };
        if !pages.iter().any(|page| page.path == path) || !seen.insert(path.clone()) {
            continue;
        }
        let mut listed = vec![path.clone()];
        if let Some(folder) = path.strip_suffix("README.md") {
            let inside = pages.iter().filter(|page| page.path.starts_with(folder));
            listed.extend(
                inside.map(|page| page.path.clone()).filter(|one| seen.insert(one.clone())),
            );
        }
        match all.last_mut().filter(|section| section.name == *name) {
            Some(section) => section.pages.extend(listed),
            None => all.push(Section { name: name.clone(), pages: listed }),
        }
    }
    all
}

/// The book's table of contents, as mdBook reads it.
pub fn summary(pages: &[Page]) -> String {
    let title = |path: &str| {
        let page = pages.iter().find(|page| page.path == path);
        page.map_or(path, Page::title).replace('[', "\\[").replace(']', "\\]")
    };
    let mut out = format!("# Summary\n\n[cavy](README.md)\n[Contents]({CONTENTS})\n");
    for section in sections(pages) {
        let _ = writeln!(out, "\n# {}\n", section.name);
        let mut level = "";
        for path in section.pages {
            let _ = writeln!(out, "{level}- [{}]({path})", title(&path));
            if path.ends_with("/README.md") {
                level = "  ";
            }
        }
    }
    let _ = writeln!(out, "\n# Code\n\n- [Documentation of the code]({API})");
    for path in PROJECT {
        let _ = writeln!(out, "- [{}]({path})", title(path));
    }
    out
}

/// The page that leads to what `cargo doc` wrote into `api/`.
fn api() -> String {
    let mut out = String::from(
        "# Documentation of the code\n\nOne crate for each room of [the \
         architecture](../ARCHITECTURE.md), with all public items.\n\n| crate | what it is \
         |\n|---|---|\n",
    );
    for room in rooms() {
        let manifest = root().join("crates").join(&room).join("Cargo.toml");
        let manifest = fs::read_to_string(manifest).unwrap_or_default();
        let says = manifest.lines().find_map(|line| line.strip_prefix("description = "));
        let says = says.unwrap_or_default().trim_matches('"');
        let folder = format!("cavy_{}", room.replace('-', "_"));
        // Programs without a library have no documentation of code.
        if root().join("crates").join(&room).join("src/lib.rs").is_file() {
            let _ = writeln!(out, "| [`{folder}`](../api/{folder}/index.html) | {says} |");
        }
    }
    out
}

/// A page whose links to a `README.md` lead to `index.md`: mdBook makes `index.html` of such a
/// page, and leaves links to it as they are.
pub fn to_index(page: &str) -> String {
    let mut parts = page.split("](");
    let mut out = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let end = part.find(')').unwrap_or(0);
        let (link, rest) = part.split_at(end);
        let path = link.split('#').next().unwrap_or(link);
        let link = match path.ends_with("README.md") && !path.contains("://") {
            true => link.replacen("README.md", "index.md", 1),
            false => link.to_string(),
        };
        let _ = write!(out, "]({link}{rest}");
    }
    out
}

/// Writes the folder that mdBook reads: pages, what they show or link to, contents, settings.
pub fn write(folder: &Path) -> std::io::Result<usize> {
    let source = folder.join("src");
    if source.exists() {
        fs::remove_dir_all(&source)?;
    }
    let pages = pages();
    let mut wanted: BTreeSet<String> = BTreeSet::new();
    for page in &pages {
        wanted.insert(page.path.clone());
        let targets = page.links.iter().filter_map(|(_, link)| target(&page.path, link));
        wanted.extend(targets.map(|(path, _)| path));
    }
    let mut count = 0;
    for path in wanted.iter().filter(|path| root().join(path).is_file()) {
        let to = source.join(path);
        fs::create_dir_all(to.parent().unwrap_or(&source))?;
        if pages.iter().any(|page| page.path == *path) {
            fs::write(to, to_index(&fs::read_to_string(root().join(path))?))?;
        } else {
            fs::copy(root().join(path), to)?;
        }
        count += 1;
    }
    fs::write(source.join("SUMMARY.md"), summary(&pages))?;
    fs::write(source.join(API), api())?;
    for name in ["book.toml", "site.css", "site.js"] {
        fs::copy(root().join("docs").join(name), folder.join(name))?;
    }
    Ok(count)
}
