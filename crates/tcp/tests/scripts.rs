//! Conversations with a scripted peer, in virtual time: every script under `scripts/` against the
//! machine. The language is in `scripts/README.md`.
//!
//! `CAVY_SCRIPT=name cargo test -p cavy-tcp --test scripts` runs those whose name contains it and
//! prints what was said.

#[path = "scripts/player.rs"]
mod player;

use player::{Script, all_of_this_room, play_with};

#[allow(clippy::disallowed_methods)] // which scripts to run is the caller's to say
fn wanted() -> Option<String> {
    std::env::var("CAVY_SCRIPT").ok()
}

#[test]
fn every_script_is_answered_as_it_says() {
    let wanted = wanted();
    let mut failed = Vec::new();
    let mut played = 0;
    for script in all_of_this_room() {
        if wanted.as_ref().is_some_and(|name| !script.name.contains(name.as_str())) {
            continue;
        }
        played += 1;
        if let Err(why) = play_with(&script, None, wanted.is_some()) {
            failed.push(format!("{}: {why}", script.name));
        }
    }
    assert!(failed.is_empty(), "{} of {played} scripts:\n{}", failed.len(), failed.join("\n"));
    assert!(wanted.is_some() || played >= 60, "{played} scripts");
}

#[test]
fn a_script_that_expects_the_wrong_thing_fails() {
    let text = "== wrong\nopen\n> S 0\n< S. 0 ack 1 win 1000\n> . 1 ack 2\n";
    let script = &Script::all("test", text)[0];
    let why = play_with(script, None, false).expect_err("the acknowledgement is 1");
    assert!(why.contains("line 5"), "{why}");
    let text = "== silent\nopen\n> S 0\n> . 1\n";
    assert!(play_with(&Script::all("test", text)[0], None, false).is_err(), "nothing else left");
    let text = "== said too much\nopen\n> nothing\n";
    assert!(play_with(&Script::all("test", text)[0], None, false).is_err(), "a SYN left");
}
