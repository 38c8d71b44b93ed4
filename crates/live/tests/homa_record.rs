//! Endpoints that are recorded, over a network that loses, and what replays say of them.
#![allow(non_snake_case)]

mod homa_network;

use cavy_core::Span;
use cavy_core::family::packet::Input;
use cavy_core::stream::{Purpose, Ratio, Stream};
use cavy_homa::config::{Informed, Learning, Publish, Quick};
use cavy_homa::{Config, Cutoffs};
use cavy_live::homa::{Client, Handler, Key, OpenError, Options, Recording, Server};
use cavy_live::record::homa::{Reader, Replayed, Step, replay_watched};
use cavy_live::record::{Recorded, ReplayError, Summary, pool};
use homa_network::{Faults, Relay, message, patient, print_processor_time, until};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Our own configuration with all that it can have: more state than the Linux module's.
fn full() -> Options {
    let linux = patient();
    let cutoffs = Cutoffs::new(8, &[300, 2_000, 8_000]).expect("ascending");
    let own = Config::cavy(cutoffs, 3, 1_000_000_000, 20_000);
    let config = Config {
        unscheduled_packet_bytes: linux.config.unscheduled_packet_bytes,
        scheduled_packet_bytes: linux.config.scheduled_packet_bytes,
        overhead_bytes: linux.config.overhead_bytes,
        message_max_bytes: linux.config.message_max_bytes,
        pacing: linux.config.pacing,
        recovery: linux.config.recovery,
        cutoffs_known: false,
        quick: Some(Quick { rtt: Span::from_ms(2), round_trips: 5 }),
        informed: Some(Informed { backlog_min: 2, spared_bytes: 10_000 }),
        learning: Some(Learning {
            interval: Span::from_ms(5),
            messages_min: 20,
            bytes_min: u64::MAX,
            keep_per_mille: 500,
            memory_bytes: 0,
            publish: Publish::Imbalance { per_mille: 20 },
        }),
        limits: linux.config.limits,
        ..own
    };
    Options { config, ..linux }
}

fn recorded(options: &Options, path: &Path) -> Options {
    Options { record: Some(path.to_path_buf()), ..options.clone() }
}

/// Many calls through a relay that loses; each end's recording, and what it came to.
fn conversation(
    options: &Options,
    folder: &Path,
    calls: u64,
    largest: u64,
) -> [(PathBuf, Summary); 2] {
    let (asks, answers) = (folder.join("client.jsonl"), folder.join("server.jsonl"));
    let echo = Handler::inline(|question| question.into_bytes());
    let server = Server::bind(&recorded(options, &answers), echo).expect("a socket");
    let rare = |num| Ratio::new(num, 100).expect("a ratio");
    let faults = Faults { seed: 5, lost: rare(3), doubled: rare(2), delayed: rare(10) };
    let relay = Relay::to(server.local_address(), faults);
    let client = Client::bind(&recorded(options, &asks)).expect("a socket");
    assert_eq!(client.recording(), Recording::Running);
    let mut sizes = Stream::keyed(calls, 0, Purpose::Sizes);
    for round in 0..calls / 20 {
        let begin = |n| {
            let most = if n % 5 == 0 { largest } else { 1 + largest / 50 };
            let question = message(1 + sizes.below(most) as usize, round * 100 + n);
            (question.clone(), client.begin(relay.at, question, None))
        };
        let mut open: Vec<_> = (0..20).map(begin).collect();
        // One is not wanted any more.
        open.pop().expect("twenty").1.cancel();
        for (question, call) in open {
            assert_eq!(call.wait(), Ok(question));
        }
    }
    assert!(relay.lost.load(std::sync::atomic::Ordering::Relaxed) > 0, "nothing was lost");
    let asking = server.client();
    let counters = |of: &Client| {
        of.shutdown(Duration::from_secs(5));
        let Recording::Complete(summary) = of.recording() else { panic!("{:?}", of.recording()) };
        (summary, of.counters())
    };
    // The server first, while the client can still acknowledge.
    let ends = [(answers, counters(&asking)), (asks, counters(&client))];
    ends.map(|(path, (summary, counters))| {
        let mut counted = None;
        let replayed = replayed(&path, |taken| counted = Some(*taken.machine.counters()));
        assert!(replayed.agrees() && replayed.whole, "{replayed:?}");
        assert_eq!((replayed.summary, replayed.compared), (summary, summary.inputs));
        assert_eq!(counted, Some(counters.machine), "the machine counts the same");
        (path, summary)
    })
}

fn replayed(path: &Path, mut watch: impl FnMut(&cavy_live::record::homa::Taken<'_>)) -> Replayed {
    let mut reader = Reader::open(path).expect("a header");
    replay_watched(&mut reader, &mut watch).expect("a recording")
}

#[test]
fn replay__decides_as_both_ends_did_over_a_network_that_loses() {
    for options in [patient(), full()] {
        let folder = tempfile::tempdir().expect("a folder");
        for (path, summary) in conversation(&options, folder.path(), 400, 60_000) {
            assert!(summary.inputs > 5_000, "{summary:?}");
            assert_eq!(Recorded::in_file(&path).expect("a recording"), Recorded::Homa);
            assert!(matches!(pool::Reader::open(&path), Err(ReplayError::Line { line: 1, .. })));
        }
        let (mut calls, mut packets) = (0, 0);
        replayed(&folder.path().join("client.jsonl"), |taken| {
            calls += u64::from(matches!(taken.step, Step::Input(Input::Submit { .. })));
            packets += u64::from(taken.given.is_some());
            assert!(taken.due.is_none_or(|due| due <= taken.at));
        });
        assert_eq!(calls, 400);
        assert!(packets > 1_000, "{packets}");
    }
}

#[test]
fn a_sealed_endpoint_is_recorded_without_its_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let key = [0xa7; 32];
    let options = patient().sealed(Key::new(key));
    let [(path, _), _] = conversation(&options, folder.path(), 40, 5_000);
    let text = std::fs::read_to_string(path).expect("a file");
    assert!(!text.contains("a7a7a7a7") && !text.contains("127.0.0.1"));
}

#[test]
fn a_recording_that_cannot_begin_is_an_error_that_names_the_file() {
    let said = |options: &Options| match Client::bind(options) {
        Err(error @ OpenError::Record { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let error = said(&recorded(&patient(), Path::new("/nowhere/at/all.jsonl")));
    assert!(error.contains("/nowhere/at/all.jsonl"), "{error}");
    let error = said(&recorded(&patient(), Path::new("/dev/full")));
    assert!(error.contains("/dev/full"), "{error}");
    let mut options = recorded(&patient(), Path::new("/nowhere"));
    options.config.limits.exchanges = 1 << 21;
    match Client::bind(&options) {
        Err(OpenError::Option { field: "record", what }) => {
            assert!(what.contains("limits.exchanges") && what.contains("1048576"), "{what}");
        }
        other => panic!("{other:?}"),
    }
}

/// The reader of a pipe goes away, as a disk does that is full.
#[test]
fn a_recording_that_fails_ends_and_the_endpoint_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo runs").success());
    let (path, header) = (pipe.clone(), std::sync::mpsc::channel());
    let reading = std::thread::spawn(move || {
        let mut line = String::new();
        let file = std::fs::File::open(path).expect("a pipe");
        BufReader::new(file).read_line(&mut line).expect("a header");
        header.0.send(line).expect("somebody waits");
    });
    let echo = Handler::inline(|question| question.into_bytes());
    let server = Server::bind(&patient(), echo).expect("a socket");
    let client = Client::bind(&recorded(&patient(), &pipe)).expect("a socket");
    assert!(header.1.recv().expect("a line").contains("\"machine\":\"homa\""));
    reading.join().expect("no panic");
    let why = until("the recording has stopped", || {
        assert_eq!(client.call(server.local_address(), "x").as_deref(), Ok(&b"x"[..]));
        match client.recording() {
            Recording::Stopped(why) => Some(why),
            _ => None,
        }
    });
    assert!(why.contains("Broken pipe"), "{why}");
    for salt in 0..50 {
        let question = message(3_000, salt);
        assert_eq!(client.call(server.local_address(), question.clone()), Ok(question));
    }
}

/// Writes the recordings that `record::homa`'s own tests replay.
/// `cargo test -p cavy-live --test homa_record -- --ignored --exact write_the_fixtures`
#[test]
#[ignore = "writes into the source tree; after a change of the machine's decisions"]
fn write_the_fixtures() {
    let to = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings");
    std::fs::create_dir_all(&to).expect("a folder");
    for (name, options) in [("linux", patient()), ("cavy", full())] {
        let folder = tempfile::tempdir().expect("a folder");
        for (path, _) in conversation(&options, folder.path(), 40, 30_000) {
            let end = path.file_name().and_then(|end| end.to_str()).expect("a name");
            std::fs::copy(&path, to.join(format!("homa-{name}-{end}"))).expect("copied");
        }
    }
}

#[test]
#[ignore = "measures; run it with --nocapture"]
fn cost() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = |record: Option<&str>| {
        let mut options = patient();
        options.config.link_bits_per_s = 100_000_000_000;
        Options { record: record.map(|name| folder.path().join(name)), ..options }
    };
    let pair = |names: [Option<&str>; 2]| {
        let echo = Handler::inline(|question| question.into_bytes());
        let server = Server::bind(&options(names[0]), echo).expect("a socket");
        (Client::bind(&options(names[1])).expect("a socket"), server)
    };
    let pairs = [pair([None, None]), pair([Some("server"), Some("client")])];
    println!("not recorded, recorded at both ends:");
    print_processor_time(&pairs);
}
