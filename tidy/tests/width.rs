//! What CONTRIBUTING promises of lines and of commits.

use cavy_tidy::{File, files, none, root};
use std::process::Command;

/// Columns of a line of code or prose.
const COLUMNS: usize = 100;
/// Columns of the subject of a commit.
const SUBJECT_COLUMNS: usize = 72;
/// Commits after this one keep the rule for subjects; older ones were written before there was one.
const RULED_SINCE: &str = "82726871610e138238cae52532a473fcb7ad6b3f";

#[test]
fn code_and_prose_have_100_columns() {
    let mut faults = Vec::new();
    for File { path, text } in files() {
        let is_code = path.ends_with(".rs");
        // Pages of claims are written by runs.
        if !(is_code || path.ends_with(".md")) || path.starts_with("docs/claims/") {
            continue;
        }
        let mut fenced = false;
        for (number, line) in text.lines().enumerate() {
            fenced ^= !is_code && line.trim_start().starts_with("```");
            if line.chars().count() > COLUMNS && !(fenced || cannot_be_broken(line, is_code)) {
                faults.push(format!("{path}:{}", number + 1));
            }
        }
    }
    none("a line of code or prose has at most 100 columns", &faults);
}

/// Rows of tables, addresses, a text without a space, such as the bytes of a packet, and code that
/// is no text: where `rustfmt` leaves it longer, it knows no place to break it.
fn cannot_be_broken(line: &str, is_code: bool) -> bool {
    let line = line.trim_start();
    let row = !is_code && line.starts_with('|');
    let word = line.split(' ').map(|word| word.chars().count()).max().unwrap_or(0);
    let plain = is_code && !line.contains('"') && !line.contains("//");
    row || plain || line.contains("https://") || word > COLUMNS - 20
}

#[test]
fn a_long_line_is_seen() {
    let prose = "word ".repeat(30);
    assert!(!cannot_be_broken(&prose, false));
    assert!(cannot_be_broken(&format!("| {prose} |"), false));
    assert!(!cannot_be_broken(&format!("// {prose}"), true));
    assert!(!cannot_be_broken(&format!("let a = \"{prose}\";"), true));
    assert!(cannot_be_broken(&"0123456789".repeat(11), true));
}

#[test]
fn subjects_of_commits_are_short_and_imperative() {
    let range = format!("{RULED_SINCE}..HEAD");
    let log = Command::new("git").args(["log", "--format=%s", &range]).current_dir(root()).output();
    // An export or a shallow clone has no such commit, and so no history to hold to anything.
    let Some(log) = log.ok().filter(|log| log.status.success()) else {
        eprintln!("SKIPPED: commit {RULED_SINCE} is not in this checkout's history");
        return;
    };
    let subjects = String::from_utf8_lossy(&log.stdout);
    let faults: Vec<String> =
        subjects.lines().filter_map(|s| Some(format!("{s}: {}", fault_of(s)?))).collect();
    none("`room: do this`, in 72 columns", &faults);
}

/// What is wrong with the subject of a commit.
fn fault_of(subject: &str) -> Option<&'static str> {
    let Some((rooms, act)) = subject.split_once(": ") else {
        return Some("it begins with no room");
    };
    let first = act.split(' ').next().unwrap_or("");
    let is_room = |room: &str| {
        !room.is_empty() && room.chars().all(|c| c.is_ascii_lowercase() || "-_./".contains(c))
    };
    const NO_VERBS: [&str; 22] = [
        "a", "all", "an", "and", "by", "every", "for", "how", "in", "its", "no", "not", "of",
        "one", "that", "the", "this", "what", "when", "where", "who", "with",
    ];
    if subject.chars().count() > SUBJECT_COLUMNS {
        Some("it is longer than 72 columns")
    } else if !rooms.split(", ").all(is_room) {
        Some("what stands before the colon is no room")
    } else if NO_VERBS.contains(&first) || first.ends_with("ed") && !KEPT.contains(&first) {
        Some("its first word is no imperative")
    } else if subject.ends_with('.') {
        Some("it ends in a full stop")
    } else {
        None
    }
}

/// Imperatives that end as a past tense does.
const KEPT: [&str; 5] = ["embed", "feed", "need", "seed", "speed"];

#[test]
fn subjects_are_judged() {
    assert_eq!(fault_of("sched: reserve by occupancy"), None);
    assert_eq!(fault_of("docs, live-cli: say what is lost"), None);
    assert!(fault_of("reserve by occupancy").is_some());
    assert!(fault_of("sched: reserved by occupancy").is_some());
    assert!(fault_of("lab: the slice of a request").is_some());
    assert!(fault_of("Some words: reserve").is_some());
    assert!(fault_of(&format!("sched: reserve {}", "x".repeat(60))).is_some());
}
