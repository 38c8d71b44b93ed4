//! Every clause that code or documents cite exists in the index of its specification.
//!
//! `clauses/NAME.txt` lists the clauses that `[NAME CLAUSE]` may cite, one a line; the
//! specifications themselves are not part of the repository.
#![allow(non_snake_case)]

use cavy_tidy::{files, none, root};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

#[derive(Default)]
struct Index {
    known: BTreeSet<String>,
    normative: Vec<String>,
}

/// The index of each specification, by its name.
fn indices() -> BTreeMap<String, Index> {
    let mut all = BTreeMap::new();
    let folder = fs::read_dir(root().join("tidy/clauses")).expect("the indices are there");
    for entry in folder.flatten() {
        let name = entry.file_name().to_string_lossy().replace(".txt", "");
        let text = fs::read_to_string(entry.path()).expect("an index is text");
        let mut index = Index::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split_whitespace();
            let Some(clause) = words.next() else { continue };
            index.known.insert(clause.to_string());
            if words.next() == Some("normative") {
                index.normative.push(clause.to_string());
            }
        }
        all.insert(name, index);
    }
    all
}

/// Clauses cited in `text` as `[name 2.8]`, `[name 3.3, 3.4]` or `[name 8.2 O1]`, with the line.
fn citations(text: &str, name: &str) -> Vec<(usize, String)> {
    let open = format!("[{name} ");
    // A citation may be broken between two lines of a comment.
    let broken = format!("[{name}\n");
    let mut all = Vec::new();
    for (at, _) in text.match_indices('[') {
        let rest = &text[at..];
        if !rest.starts_with(&open) && !rest.starts_with(&broken) {
            continue;
        }
        let line = text[..at].matches('\n').count() + 1;
        let inside = rest[open.len()..].split(']').next().unwrap_or("");
        let clauses = inside
            .split(|c: char| c.is_whitespace() || c == ',')
            .map(|word| word.trim_matches(|c| c == '/' || c == '!' || c == '#' || c == '*'))
            .filter(|word| !word.is_empty());
        all.extend(clauses.map(|clause| (line, clause.to_string())));
    }
    all
}

#[test]
fn every_clause_cited_exists() {
    let mut faults = Vec::new();
    for (name, index) in indices() {
        let mut cited = BTreeSet::new();
        for file in files().iter().filter(|file| !file.path.starts_with("tidy/")) {
            for (line, clause) in citations(&file.text, &name) {
                if !index.known.contains(&clause) {
                    faults.push(format!("{}:{line}: [{name} {clause}]", file.path));
                }
                cited.insert(clause);
            }
        }
        assert!(!cited.is_empty(), "nothing cites {name}: is its index misnamed?");
        let silent: Vec<&str> =
            index.normative.iter().filter(|c| !cited.contains(*c)).map(String::as_str).collect();
        if !silent.is_empty() {
            println!("note: normative clauses of {name} that nothing cites: {}", silent.join(", "));
        }
    }
    none("clauses that do not exist", &faults);
}

#[test]
fn citations__are_found_in_all_their_forms() {
    let text = "a [s 2.8] b [s 3.3, 3.4]\n// [s 8.2 O1] and [s\n/// I6] but not [t 1]";
    let found: Vec<String> = citations(text, "s").into_iter().map(|(_, clause)| clause).collect();
    assert_eq!(found, ["2.8", "3.3", "3.4", "8.2", "O1", "I6"]);
    assert_eq!(citations(text, "s")[5].0, 2);
}
