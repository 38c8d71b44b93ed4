use super::*;
use crate::clients::Gate;
use crate::world::{Member, Places, World};
use cavy_core::{Purpose, Stream};
use cavy_live::record::ReplayError;
use cavy_live::record::steps::{Reader, Replayed, replay, replay_watched};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A Governor over clients that nobody drives and a target that is always busy.
fn config(change: Change) -> Config {
    Config {
        targets: vec![Target { groups: vec![Group(1)], change }],
        rest: vec![Group(0)],
        limits: Limits {
            pause_min: Span::from_us(500),
            pause_max: Span::from_us(600),
            look_max: Span::from_ms(3),
            ..Limits::default()
        },
        windows: Windows {
            settle: Span::from_ms(5),
            length: Span::from_ms(60),
            pattern: vec![false, true],
        },
        hosts: 0,
    }
}

/// Text of a recording of three Governors, one after the other.
fn recorded() -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("governors.jsonl");
    let gate = Arc::new(Gate::default());
    let mut places = Places::new(vec![Member::Clients(gate), Member::Clock]);
    let names = vec!["clients".to_string(), "clock".to_string()];
    let mut record = Record::create(&path, names).expect("a file");
    for change in [
        Change::Delivered { share: 0.3, parallel: 1 },
        Change::Clock { share: 0.2, parallel: 2, busy: Busy::Cpu },
        Change::Count { saved_ns: vec![7, -3], parallel: 1 },
    ] {
        let config = config(change);
        record.next(&config);
        let governor = Governor::new(config).expect("a legal config");
        let world = World::new(governor, &mut places, None).heard(Some(&mut record));
        world.run(2, &AtomicBool::new(false)).expect("nothing can fail");
    }
    let summary = record.finish().expect("written");
    let text = std::fs::read_to_string(&path).expect("a file");
    let last = text.lines().last().expect("lines");
    assert!(last.contains(&format!("{:016x}", summary.digest)), "{last}");
    text
}

fn again(text: &str) -> Result<Replayed, ReplayError> {
    replay(&mut Reader::<About, _>::new(text.as_bytes())?)
}

#[test]
fn governors_decide_again_as_they_did() {
    let text = recorded();
    let mut reader = Reader::<About, _>::new(text.as_bytes()).expect("a header");
    let (mut started, mut stood) = (0, 0);
    let replayed = replay_watched(&mut reader, &mut |taken| {
        started += u32::from(matches!(taken.step, Step::Start(_)));
        stood += u32::from(matches!(taken.step, Step::Told(Told::Input(Input::Frozen { .. }))));
    });
    let replayed = replayed.expect("a recording");
    assert!(replayed.agrees() && replayed.whole, "{replayed:?}");
    assert_eq!((started, replayed.compared), (3, replayed.summary.inputs));
    // Beside other programs there are fewer than the fifty that a quiet machine has.
    assert!(stood > 2, "{stood} pauses");
}

#[test]
fn a_recording_cut_off_anywhere_replays_as_far_as_it_goes() {
    let text = recorded();
    let (head, mut last) = (text.find('\n').expect("lines"), 0);
    for cut in (head + 1..text.len() - 2).step_by(41) {
        let replayed = again(&text[..cut]).unwrap_or_else(|error| panic!("{cut}: {error}"));
        assert!(replayed.agrees() && !replayed.whole && replayed.summary.inputs >= last, "{cut}");
        last = replayed.summary.inputs;
    }
    assert!(last > 100, "{last}");
}

/// Without marks and end nothing tells damage before the machine meets it.
#[test]
fn damaged_recordings_never_panic() {
    let text = recorded();
    let lines = text.lines().filter(|line| !line.contains("mark") && !line.contains("\"sum\""));
    let plain: Vec<&str> = lines.collect();
    let plain = plain.join("\n").into_bytes();
    let mut draws = Stream::keyed(1, 0, Purpose::Test);
    let mut draw = |below: usize| (draws.unit() * below as f64) as usize;
    let mut taken = 0;
    for _ in 0..1_500 {
        let mut bytes = plain.clone();
        for _ in 0..=draw(4) {
            let at = draw(bytes.len());
            match draw(5) {
                0 => bytes[at] = draw(256) as u8,
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, b'0' + draw(10) as u8),
                // A number of up to twenty digits more.
                3 => drop(bytes.splice(at..at, std::iter::repeat_n(b'9', 1 + draw(20)))),
                // A line stands twice, or in another place.
                _ => {
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    let mut all: Vec<&str> = text.lines().collect();
                    let (from, to) = (draw(all.len()), draw(all.len()));
                    all.insert(to, all[from]);
                    bytes = all.join("\n").into_bytes();
                }
            }
        }
        if let Ok(mut reader) = Reader::<About, _>::new(&bytes[..]) {
            taken += u32::from(replay(&mut reader).is_ok());
        }
    }
    assert!(taken > 50, "damage must get as far as the machine: {taken}");
}

#[test]
fn another_decision_and_damage_are_told_apart() {
    let text = recorded();
    // Sums of lines say that the file was changed by hand.
    let other = text.replacen("\"share\":0.3", "\"share\":0.4", 1);
    assert!(again(&other).is_err_and(|error| error.to_string().contains("damaged")));
    // The same steps and answers by a Governor of which the recording says something else.
    let mut reader = Reader::<About, _>::new(text.as_bytes()).expect("a header");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("other.jsonl");
    let mut recorder = Recorder::create(&path, reader.header()).expect("a file");
    let replayed = replay_watched(&mut reader, &mut |taken| {
        let mut step = taken.step.clone();
        if let Step::Start(config) = &mut step {
            config.windows.settle = Span::from_ms(4);
        }
        recorder.taken(taken.at, step, taken.outs, taken.given);
    });
    assert!(replayed.is_ok_and(|replayed| replayed.agrees()));
    recorder.finish().expect("written");
    let differs = again(&std::fs::read_to_string(&path).expect("a file")).expect("undamaged");
    assert_eq!(differs.differs.map(|differs| differs.steps.0), Some(1));
    let head = text.lines().next().expect("a header");
    for (line, says) in [
        ("[1,\"window\"]", "begins with one start"),
        ("[1,\"start\",{}]", "targets"),
        ("[1,\"start\",5]", "invalid type"),
        ("[1,\"between\"]", "no step"),
        ("[1,\"frozen\",1,2]", "since when is missing"),
        ("[1,\"completed\",4294967296]", "requests is 4294967296"),
    ] {
        let said = again(&format!("{head}\n{line}\n")).expect_err(line).to_string();
        assert!(said.contains(says) && said.contains("line 2"), "{line}: {said}");
    }
    // What no Governor is made of.
    let start = text.lines().nth(1).expect("a start");
    for (from, to, says) in [
        ("\"share\":0.3", "\"share\":1.5", "share of 1 or more"),
        ("\"rest\":[0]", "\"rest\":[1]", "group named twice"),
        ("\"tick_ns\":1000000", "\"tick_ns\":4000000000000", "more than an hour"),
    ] {
        let wrong = start.replacen(from, to, 1);
        assert_ne!(wrong, start, "{from}");
        let said = again(&format!("{head}\n{wrong}\n")).expect_err(to).to_string();
        assert!(said.contains(says), "{said}");
    }
}
