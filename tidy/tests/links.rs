//! Links lead somewhere, and every page can be found.
#![allow(non_snake_case)]

use cavy_tidy::pages::{Page, anchor, target};
use cavy_tidy::{File, none, root, site};

#[test]
fn links_and_anchors_lead_somewhere() {
    let pages = site::pages();
    let mut faults = Vec::new();
    for page in &pages {
        for (_, link) in &page.links {
            let Some((path, anchor)) = target(&page.path, link) else { continue };
            if !root().join(&path).is_file() {
                faults.push(format!("{}: `{link}` is no file", page.path));
                continue;
            }
            let there = pages.iter().find(|page| page.path == path);
            if path.ends_with(".md") && there.is_none() {
                faults.push(format!("{}: `{link}` is not a page of the site", page.path));
            }
            let found = |page: &Page| page.headings.iter().any(|one| one.anchor == anchor);
            if !anchor.is_empty() && !there.is_some_and(found) {
                faults.push(format!("{}: `{link}` has no such heading", page.path));
            }
        }
    }
    none("a link leads to a file, and its anchor to a heading", &faults);
}

#[test]
fn the_contents_name_every_page() {
    let pages = site::pages();
    let summary = site::summary(&pages);
    let unlisted = |page: &&Page| !summary.contains(&format!("]({})", page.path));
    let faults: Vec<String> = pages.iter().filter(unlisted).map(|page| page.path.clone()).collect();
    none("docs/README.md lists every page of docs", &faults);
}

#[test]
fn anchor__is_what_readers_of_markdown_make() {
    assert_eq!(anchor("On real threads"), "on-real-threads");
    assert_eq!(anchor("2. Check it: `p99_us`?"), "2-check-it-p99_us");
    assert_eq!(anchor("Perséphone & DARC"), "perséphone--darc");
}

#[test]
fn a_page_is_read_with_its_links() {
    let text = "# T\n\n## A\n\n[x](b.md#c) `[no](no.md)`\n\n```text\n[no](no.md)\n```\n\n\
                <img src=\"i.svg\">\n\n## A\n";
    let page = Page::of(&File { path: "docs/a.md".into(), text: text.into() });
    let anchors: Vec<&str> = page.headings.iter().map(|one| one.anchor.as_str()).collect();
    assert_eq!(anchors, ["t", "a", "a-1"]);
    assert_eq!(page.title(), "T");
    let of = |link: &str| ("A".to_string(), link.to_string());
    assert_eq!(page.links, [of("b.md#c"), of("i.svg")]);
}

#[test]
fn target__is_relative_to_its_page() {
    let at = |path: &str, anchor: &str| Some((path.to_string(), anchor.to_string()));
    assert_eq!(target("docs/a/b.md", "../c.md#d"), at("docs/c.md", "d"));
    assert_eq!(target("docs/a/b.md", "#d"), at("docs/a/b.md", "d"));
    assert_eq!(target("README.md", "./docs/x.svg"), at("docs/x.svg", ""));
    assert_eq!(target("README.md", "https://example.org"), None);
}

#[test]
fn links_to_the_list_of_a_folder_lead_to_its_index_on_the_site() {
    let page =
        "[a](docs/README.md#b) `README.md` [c](d.md) [e](https://f/README.md) [g](README.md)";
    let made = "[a](docs/index.md#b) `README.md` [c](d.md) [e](https://f/README.md) [g](index.md)";
    assert_eq!(site::to_index(page), made);
    assert_eq!(site::to_index("![no end](README.md"), "![no end](README.md");
}
