//! Rooms and arrows: who may depend on whom, and what every room promises.

use cavy_tidy::{none, rooms, root};
use std::fs;
use toml::Table;

/// What each room may depend on. Arrows point down: no protocol knows another, a world or a face;
/// worlds know no protocol; `report` knows nobody.
const ARROWS: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("clock", &["core"]),
    ("sched", &["core"]),
    ("homa", &["core"]),
    ("tcp", &["core"]),
    ("coords", &["core"]),
    ("txn", &["core"]),
    ("search", &["core"]),
    ("whatif", &["core"]),
    ("workload", &["core"]),
    ("lab", &["core", "workload"]),
    ("report", &[]),
    ("check", &[]),
    ("seal", &["core"]),
    ("places", &["coords"]),
    ("agents", &["clock", "coords", "core", "places", "seal"]),
    ("live", &["clock", "core", "homa", "lab", "sched", "seal", "workload"]),
    ("node", &["clock", "core"]),
    ("stack", &["clock", "core", "tcp"]),
    ("resp", &["clock", "core", "node", "txn"]),
    ("txn-cli", &["clock", "core", "lab", "node", "resp", "testbed", "txn"]),
    ("traces", &[]),
    ("testbed", &["clock", "core"]),
    ("groups", &["clock", "core", "lab", "live", "whatif"]),
    ("foreign", &["core", "groups", "lab", "live"]),
    ("study", &["core", "lab", "report"]),
    (
        "trials",
        &["clock", "core", "lab", "live", "report", "sched", "study", "testbed", "workload"],
    ),
    (
        "kinds",
        &[
            "coords", "core", "homa", "lab", "places", "report", "sched", "search", "study", "tcp",
            "txn", "whatif", "workload",
        ],
    ),
    ("sources", &["core", "homa", "kinds", "lab", "report", "study", "workload"]),
    ("cli", &["check", "kinds", "lab", "report", "sources", "study", "traces"]),
    (
        "live-cli",
        &[
            "agents", "clock", "coords", "core", "foreign", "groups", "homa", "kinds", "lab",
            "live", "places", "report", "resp", "sched", "sources", "stack", "study", "tcp",
            "testbed", "trials", "txn-cli", "workload",
        ],
    ),
];

/// Protocol rooms, whose tests know no world either.
const PROTOCOLS: &[&str] = &["sched", "homa", "tcp", "coords", "txn", "whatif", "search"];
/// Worlds.
const WORLDS: [&str; 3] = ["lab", "live", "node"];
/// Rooms without the standard library: no clock, socket, thread or randomly ordered map.
const NO_STD: &[&str] =
    &["core", "coords", "homa", "sched", "search", "tcp", "txn", "whatif", "workload"];

fn manifest(room: &str) -> Table {
    let file = root().join("crates").join(room).join("Cargo.toml");
    let text = fs::read_to_string(file).expect("a room has a manifest");
    toml::from_str(&text).expect("a manifest is TOML")
}

/// Rooms named in one table of dependencies.
fn dependencies(manifest: &Table, table: &str) -> Vec<String> {
    let of = |table: &Table| {
        let keys = table.keys().filter_map(|key| key.strip_prefix("cavy-"));
        keys.map(str::to_string).collect::<Vec<_>>()
    };
    let plain = manifest.get(table).and_then(|t| t.as_table()).map(of).unwrap_or_default();
    let targets = manifest.get("target").and_then(|t| t.as_table());
    let of_targets = targets.into_iter().flat_map(|targets| targets.values()).flat_map(|target| {
        target.get(table).and_then(|t| t.as_table()).map(of).unwrap_or_default()
    });
    plain.into_iter().chain(of_targets).collect()
}

#[test]
fn arrows_only_point_down() {
    let mut faults = Vec::new();
    for room in rooms() {
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == room) else {
            faults.push(format!("{room} has no row in ARROWS of this test"));
            continue;
        };
        let manifest = manifest(&room);
        for table in ["dependencies", "build-dependencies"] {
            for other in dependencies(&manifest, table) {
                if !allowed.contains(&other.as_str()) {
                    faults.push(format!("{room} must not depend on {other}"));
                }
            }
        }
        for other in dependencies(&manifest, "dev-dependencies") {
            if PROTOCOLS.contains(&room.as_str()) && WORLDS.contains(&other.as_str()) {
                faults.push(format!("the tests of {room} must not depend on {other}, a world"));
            }
        }
    }
    none("only the arrows of ARCHITECTURE are allowed", &faults);
}

/// A row of the drawing: a room, the rooms that its arrow names, and whether there are others.
fn drawn(row: &str) -> Option<(&str, Vec<&str>, bool)> {
    /// Names of layers stand before their first room.
    const NAMES_END: usize = 13;
    let row = row.get(NAMES_END..)?;
    let (room, rest) = row.split_once(' ')?;
    let Some(arrows) = rest.trim_start().strip_prefix("──► ") else {
        return Some((room, Vec::new(), false));
    };
    let arrows = arrows.split("  ").next()?;
    let (names, others) = match arrows.strip_suffix("..") {
        Some(names) => (names.trim_end().trim_end_matches(','), true),
        None => (arrows, false),
    };
    Some((room, names.split(", ").map(str::trim).collect(), others))
}

#[test]
fn the_drawing_is_of_this_house() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("it is there");
    let drawing = text.split("```text\n").nth(1).and_then(|rest| rest.split("```").next());
    let rows: Vec<_> = drawing.expect("a drawing").lines().filter_map(drawn).collect();
    let mut faults = Vec::new();
    for room in rooms() {
        if !text.contains(&format!("\n**{room}** ")) {
            faults.push(format!("ARCHITECTURE.md has no paragraph about {room}"));
        }
        let Some((_, named, others)) = rows.iter().find(|(name, ..)| *name == room) else {
            faults.push(format!("the drawing has no row for {room}"));
            continue;
        };
        let own = dependencies(&manifest(&room), "dependencies");
        let wrong = named.iter().filter(|name| !own.iter().any(|other| other == *name));
        faults.extend(wrong.map(|name| format!("{room} has no arrow to {name}, and is drawn so")));
        let hidden = own.iter().filter(|other| !others && !named.contains(&other.as_str()));
        faults.extend(hidden.map(|other| format!("the arrow from {room} to {other} is not drawn")));
    }
    none("ARCHITECTURE draws the rooms and arrows that are there", &faults);
}

#[test]
fn every_room_takes_the_lints_of_the_workspace() {
    let takes = |room: &String| {
        let lints = manifest(room).get("lints").and_then(|l| l.get("workspace")?.as_bool());
        (lints != Some(true)).then(|| format!("crates/{room}/Cargo.toml"))
    };
    let faults: Vec<String> = rooms().iter().filter_map(takes).collect();
    none("`[lints] workspace = true` is missing", &faults);
}

#[test]
fn no_room_has_a_clippy_file_of_its_own() {
    // It would replace the one at the root, with its bans of clocks and random order.
    let has = |room: &String| {
        let folder = root().join("crates").join(room);
        let mut names = ["clippy.toml", ".clippy.toml"].iter();
        names.any(|name| folder.join(name).exists()).then(|| format!("crates/{room}"))
    };
    let faults: Vec<String> = rooms().iter().filter_map(has).collect();
    none("a clippy.toml in a room replaces the shared bans", &faults);
}

#[test]
fn core_protocols_and_workload_are_no_std() {
    let mut faults = Vec::new();
    for room in NO_STD {
        let file = root().join("crates").join(room).join("src/lib.rs");
        let text = fs::read_to_string(file).expect("a room has a lib.rs");
        if !text.lines().any(|line| line.trim() == "#![no_std]") {
            faults.push(format!("crates/{room}/src/lib.rs"));
        }
    }
    none("`#![no_std]` is missing", &faults);
}

/// Folders of the room `kinds` or `sources`: each is a kind or a source, and none knows another
/// one.
fn neighbours(room: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join("crates").join(room).join("src")).expect("a room");
    let folders = entries.flatten().filter(|entry| entry.path().is_dir());
    folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn no_kind_knows_another_and_no_source_either() {
    let mut faults = Vec::new();
    for room in ["kinds", "sources"] {
        let all = neighbours(room);
        assert!(all.len() > 1, "crates/{room}/src has no folders");
        for file in cavy_tidy::rust_files() {
            let Some(rest) = file.path.strip_prefix(&format!("crates/{room}/src/")) else {
                continue;
            };
            let Some((own, _)) = rest.split_once('/') else { continue };
            for other in all.iter().filter(|other| other.as_str() != own) {
                if file.text.contains(&format!("crate::{other}")) {
                    faults.push(format!("{} must not use `{other}`", file.path));
                }
            }
        }
    }
    none("kinds and sources are independent of each other", &faults);
}
