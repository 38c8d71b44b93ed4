//! Sizes, names and contents of files.
#![allow(non_snake_case)]

use cavy_tidy::{File, files, none, rust_files};

/// Beyond this a file must be split.
const LINES_MAX: usize = 1500;
/// Beyond this a file needs a reason.
const LINES_USUAL: usize = 800;
/// Files that are longer, and why.
const LONG: [(&str, &str); 0] = [];

/// Names that say nothing about what they name.
const EMPTY_NAMES: [&str; 8] =
    ["util", "utils", "common", "helper", "helpers", "manager", "managers", "misc"];

#[test]
fn files_are_of_a_length_to_read() {
    let mut faults = Vec::new();
    for File { path, text } in rust_files() {
        let lines = text.lines().count();
        let excused = LONG.iter().any(|(long, _)| *long == path);
        if lines > LINES_MAX || (lines > LINES_USUAL && !excused) {
            faults.push(format!("{path}: {lines} lines"));
        }
    }
    for (path, _) in LONG {
        let still = rust_files().iter().any(|f| f.path == path && f.text.lines().count() > 800);
        if !still {
            faults.push(format!("{path} needs no excuse any more"));
        }
    }
    none("split at 800 lines, or give a reason in LONG; 1500 is a defect", &faults);
}

#[test]
fn names_say_something() {
    let is_empty_name = |name: &str| words(name).iter().any(|w| EMPTY_NAMES.contains(&w.as_str()));
    let mut faults = Vec::new();
    for file in files() {
        for part in file.path.split('/').map(|part| part.split('.').next().unwrap_or("")) {
            if is_empty_name(part) {
                faults.push(file.path.clone());
            }
        }
        if !file.path.ends_with(".rs") {
            continue;
        }
        for line in file.text.lines() {
            let mut tokens = line
                .trim()
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .skip_while(|word| matches!(*word, "pub" | "crate" | "super" | "" | "in"));
            let (keyword, name) = (tokens.next(), tokens.next().unwrap_or(""));
            let names = matches!(keyword, Some("mod" | "struct" | "enum" | "trait" | "type"));
            if names && is_empty_name(name) {
                faults.push(format!("{}: {name}", file.path));
            }
        }
    }
    none("a name must say what the thing is for", &faults);
}

/// The words of `snake_case` and `CamelCase` names, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut before = ' ';
    for c in name.chars() {
        let parts = !c.is_alphanumeric() || (c.is_uppercase() && before.is_lowercase());
        if parts {
            all.push(String::new());
        }
        if c.is_alphanumeric() {
            all.last_mut().expect("never empty").extend(c.to_lowercase());
        }
        before = c;
    }
    all
}

#[test]
fn words__parts_both_kinds_of_names() {
    assert_eq!(words("PlanManager"), ["plan", "manager"]);
    assert_eq!(words("string_utils"), ["string", "utils"]);
    assert_eq!(words("utility"), ["utility"]);
}

#[test]
fn no_path_of_one_machine_is_in_a_file() {
    // Put together here, so that this file does not hold them.
    let paths =
        [["/wo", "rk/"], ["/ro", "ot/"], ["/tmp/", "wt"], ["/ho", "me/"]].map(|p| p.concat());
    let mut faults = Vec::new();
    for File { path, text } in files() {
        for (number, line) in text.lines().enumerate() {
            if paths.iter().any(|machine| line.contains(machine)) {
                faults.push(format!("{path}:{}", number + 1));
            }
        }
    }
    none("a path that exists on one machine only", &faults);
}

#[test]
fn only_the_command_prints() {
    let may_print = |path: &str| {
        let faces = ["crates/cli/", "benches/", "search-live/src/main.rs", "tidy/"];
        faces.iter().any(|face| path.starts_with(face))
            || path.contains("/examples/")
            || path.contains("/tests/")
            || path.starts_with("tests/")
            || path.ends_with("tests.rs")
    };
    let prints = ["println!(", "eprintln!(", "print!(", "eprint!("];
    let mut faults = Vec::new();
    for File { path, text } in rust_files().iter().filter(|file| !may_print(&file.path)) {
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            if prints.iter().any(|print| code.contains(print)) {
                faults.push(format!("{path}:{}", number + 1));
            }
        }
    }
    none("nothing below the command prints", &faults);
}

#[test]
fn lines_have_no_tail() {
    let mut faults = Vec::new();
    for File { path, text } in files() {
        let ours = [".rs", ".toml", ".md"].iter().any(|end| path.ends_with(end));
        if !ours || path.contains("snapshots/") {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            if line.ends_with([' ', '\t', '\r']) {
                faults.push(format!("{path}:{}", number + 1));
            }
        }
        if !text.is_empty() && !text.ends_with('\n') {
            faults.push(format!("{path}: no line feed at the end"));
        }
    }
    none("blanks at the end of a line, or none at the end of the file", &faults);
}
