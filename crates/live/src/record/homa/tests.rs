//! Recordings of endpoints: fixed ones, damaged ones, and ones that nobody recorded.
#![allow(non_snake_case)]

use super::*;
use crate::record::lines::{Entry as _, hex};
use crate::record::steps::{self, MARK_EVERY, Read, Steps as _, fold, parse};
use crate::record::{ReplayError, Summary};
use cavy_core::family::Node;
use cavy_core::family::packet::{Extent, Input, Message, Seen};
use cavy_core::{Cx, Digest, Instant, Machine as _, Outbox, Purpose, Stream};
use cavy_homa::packet::{Acks, Data, Flags, Header as PacketHeader, Kind, Published, Refusal};
use cavy_homa::{Cutoffs, Timer};
use proptest::prelude::*;

type Line = steps::Line<Step>;

/// What `write_the_fixtures` in `tests/homa_record.rs` recorded.
const FIXTURES: [&str; 4] = [
    include_str!("../../../tests/recordings/homa-linux-client.jsonl"),
    include_str!("../../../tests/recordings/homa-linux-server.jsonl"),
    include_str!("../../../tests/recordings/homa-cavy-client.jsonl"),
    include_str!("../../../tests/recordings/homa-cavy-server.jsonl"),
];

fn run(text: &[u8]) -> Result<Replayed, ReplayError> {
    replay(&mut Reader::new(text)?)
}

/// The steps of a recording.
fn steps(text: &str) -> Vec<(Instant, Step)> {
    let lines = text.lines().skip(1).filter(|line| line.starts_with('['));
    let step = |line: &str| match parse::<Step>(line.as_bytes()).expect("a line").line {
        Line::Step(at, step) => Some((at, step)),
        Line::Mark(..) => None,
    };
    lines.filter_map(step).collect()
}

/// A recording with these lines between header and end, undamaged whatever they say. `digests` are
/// those of its marks and its end.
fn written(header: &Header, steps: &[(Instant, Step)], digests: &[u64]) -> Vec<u8> {
    let (folder, mut digests) = (tempfile::tempdir().expect("a folder"), digests.iter().copied());
    let path = folder.path().join("homa.jsonl");
    let mut sink = crate::record::lines::Sink::create(&path, header).expect("a file");
    let mut inputs = 0;
    let mut so_far = || digests.next().unwrap_or_default();
    for &(at, step) in steps {
        inputs += 1;
        sink.push(Line::Step(at, step));
        if inputs % MARK_EVERY == 0 {
            sink.push(Line::Mark(at, Summary { inputs, digest: so_far() }));
        }
        if sink.is_full() {
            sink.flush(Summary { inputs, digest: 0 });
        }
    }
    sink.finish(Summary { inputs, digest: so_far() }).expect("written");
    std::fs::read(path).expect("a file")
}

/// The digests that a recording's marks and its end have.
fn digests(text: &str) -> Vec<u64> {
    let of = |line: &str| {
        let part = if line.starts_with('{') { "digest\":\"" } else { "\"mark\"," };
        let (_, rest) = line.split_once(part)?;
        let digest = rest.split('"').find(|part| part.len() == 16)?;
        u64::from_str_radix(digest, 16).ok()
    };
    text.lines().skip(1).filter_map(of).collect()
}

/// A change of any decision of the machine shows here. If it is meant, record them anew:
/// `cargo test -p cavy-live --test homa_record -- --ignored --exact write_the_fixtures`
#[test]
fn fixtures__are_decided_as_they_were() {
    for (n, text) in FIXTURES.into_iter().enumerate() {
        let replayed = run(text.as_bytes()).expect("a recording");
        assert!(replayed.agrees() && replayed.whole && replayed.stopped.is_none(), "{replayed:?}");
        let count = steps(text).len() as u64;
        assert_eq!((replayed.summary.inputs, replayed.compared), (count, count), "{n}");
        assert!(count > 300, "{n}: {count}");
    }
    let all = FIXTURES.concat();
    for word in ["data", "grant", "resend", "unknown", "need_ack", "ack", "cutoffs", "cancel"] {
        assert!(all.contains(&format!("\"{word}\"")), "no {word} in any");
    }
}

#[test]
fn a_log_cut_off_anywhere_replays_as_far_as_it_goes() {
    for text in FIXTURES {
        let head = text.find('\n').expect("lines");
        let mut last = 0;
        for cut in (0..text.len() - 2).step_by(97).chain([text.len() - 2]) {
            match run(&text.as_bytes()[..cut]) {
                Ok(replayed) => {
                    assert!(replayed.agrees() && !replayed.whole, "{cut}: {replayed:?}");
                    assert!(replayed.summary.inputs - replayed.compared <= MARK_EVERY, "{cut}");
                    assert!(replayed.summary.inputs >= last, "{cut}");
                    last = replayed.summary.inputs;
                }
                Err(ReplayError::Line { line: 1, .. }) => assert!(cut <= head, "{cut}"),
                Err(error) => panic!("{cut}: {error}"),
            }
        }
        assert!(last > 300);
    }
}

#[test]
fn one_changed_input_is_another_run_and_the_stretch_is_named() {
    for text in FIXTURES {
        let header = Reader::new(text.as_bytes()).expect("a header").header().clone();
        let (steps, digests) = (steps(text), digests(text));
        let same = written(&header, &steps, &digests);
        assert_eq!(same, text.as_bytes(), "what is written again is the same to the last byte");
        // The last message but one has another length.
        let changed = |(n, &(_, step)): (usize, &(Instant, Step))| {
            let step = match step {
                Step::Input(Input::Submit { to, message, length_bytes, asks }) => {
                    let length_bytes = length_bytes + 1;
                    Step::Input(Input::Submit { to, message, length_bytes, asks })
                }
                Step::Input(Input::Answer { to, question, length_bytes }) => {
                    let length_bytes = length_bytes + 1;
                    Step::Input(Input::Answer { to, question, length_bytes })
                }
                _ => return None,
            };
            Some((n, step))
        };
        let (n, step) =
            steps.iter().enumerate().rev().filter_map(changed).nth(1).expect("a message");
        let mut others = steps.clone();
        others[n].1 = step;
        let replayed = run(&written(&header, &others, &digests)).expect("undamaged");
        assert!(!replayed.agrees());
        let (compared, differs) = (replayed.compared, replayed.differs.expect("another run"));
        assert_eq!((compared % MARK_EVERY, differs.steps.0), (0, compared + 1));
        // It shows when the next packet is asked for, which may be in the stretch after.
        assert!(
            (n as u64..n as u64 + 2 * MARK_EVERY).contains(&differs.steps.1),
            "{differs:?} {n}"
        );
        // Before it are the header and the marks; the header belongs to the first stretch.
        let marks = compared / MARK_EVERY;
        assert_eq!(differs.lines.0, if marks == 0 { 1 } else { compared + marks + 2 });
        // So is the same run with another configuration.
        let mut header = header.clone();
        header.config.unscheduled_packet_bytes -= 1;
        let replayed = run(&written(&header, &steps, &digests)).expect("undamaged");
        let steps = replayed.differs.map(|differs| differs.steps);
        assert_eq!(steps, Some((1, 256)));
    }
}

#[test]
fn a_timer_that_was_not_set_is_another_decision() {
    let head = FIXTURES[0].lines().next().expect("a header");
    for (lines, why) in [
        ("[1,\"tick\"]\n[2,\"pull\"]\n", (2, "the timer Tick fires and is not set")),
        (
            "[1,\"call\",0,2,1]\n[2,\"tick\"]\n",
            (3, "the timer Tick fires at 2 ns, due at 1.000001 ms"),
        ),
    ] {
        let text = format!("{head}\n[0,\"start\"]\n{lines}");
        let replayed = run(text.as_bytes()).expect("undamaged");
        assert_eq!((replayed.compared, replayed.whole), (0, false));
        let differs = replayed.differs.expect("another decision");
        assert_eq!((differs.steps, differs.lines, differs.recorded), ((1, 3), (1, 4), None));
        assert_eq!(differs.untakeable, Some((why.0, why.1.to_string())));
    }
}

#[test]
fn damage_is_an_error_that_names_the_place() {
    let text = FIXTURES[1];
    let error = |text: &str| run(text.as_bytes()).expect_err("damaged").to_string();
    // One digit of a length, somewhere in the second stretch.
    let lines: Vec<&str> = text.lines().collect();
    let (at, line) =
        (260..).map(|at| (at, lines[at])).find(|(_, l)| l.contains("data")).expect("data");
    let (head, rest) = line.rsplit_once(',').expect("values");
    let changed = text.replacen(line, &format!("{head},1{rest}"), 1);
    let said = error(&changed);
    assert!(said.contains("are not those that were written") || said.contains("flags"), "{said}");
    assert!(said.contains("lines 259 to ") || said.contains(&format!("line {}", at + 1)), "{said}");
    assert!(error(&text.replacen("[", "{", 2)).contains("line "));
    for (line, says) in [
        ("nonsense", "expected"),
        ("[1]", "name is missing"),
        ("[1,5]", "name is 5"),
        ("[1,\"dance\"]", "no step \"dance\""),
        ("[1,\"start\"]", "begins with one start"),
        ("[1,\"pull\",0]", "too many"),
        ("[9223372036854775807,\"pull\"]", "time is"),
        ("[-1,\"pull\"]", "time is -1"),
        ("[1,\"call\",4294967296,2,1]", "peer is 4294967296"),
        ("[1,\"call\",0,2]", "length is missing"),
        ("[1,\"data\",0,2,0,1,1,1,9999999999,0,0,0]", "difference of names"),
        ("[1,\"cutoffs\",0,2,1,5,4]", "not in order"),
        ("[1,\"cutoffs\",0,2,1,1,1,1,1,1,1,1]", "bound 1"),
        ("[1,\"pull\"]\n[0,\"pull\"]", "time goes back"),
        ("[1,\"mark\",7,\"0\",\"0\"]", "are not those"),
        ("[1,\"mark\",7,\"x\",\"0\"]", "digest"),
        ("{\"inputs\":7,\"digest\":\"0\"}", "7 steps are said, 1 are there"),
        ("{\"inputs\":1,\"digest\":\"0\",\"sum\":\"0\"}", "are not those"),
    ] {
        let said = error(&format!("{}\n[0,\"start\"]\n{line}\n", lines[0]));
        assert!(said.contains(says) && said.contains("line "), "{line}: {said}");
    }
}

#[test]
fn foreign_headers_are_errors() {
    let head = FIXTURES[0].lines().next().expect("a header");
    let error = |head: &str| run(format!("{head}\n[0,\"start\"]\n").as_bytes());
    let error = |head: &str| error(head).expect_err("foreign").to_string();
    assert!(error("").contains("line 1"));
    assert!(error("{}").contains("cavy_recording"));
    assert!(error(&head.replacen(":1", ":2", 1)).contains("format 2; this program reads 1"));
    assert!(error(&head.replacen("\"homa\"", "\"aloha\"", 1)).contains("machine"));
    assert!(error(&head.replacen("\"levels\":8", "\"levels\":9", 1)).contains("levels"));
    assert!(error(&head.replacen("\"linux\"", "\"simulator\"", 1)).contains("config.layout"));
    let many = head.replacen("\"exchanges\":65536", "\"exchanges\":200000000", 1);
    assert!(error(&many).contains("config.limits.exchanges"));
    assert!(error(&head.replacen("[0]", "[5,4]", 1)).contains("must ascend"));
    assert!(error(&head.replacen("\"seed\"", "\"sed\"", 1)).contains("sed"));
}

fn any_packet() -> impl Strategy<Value = (Kind, u32, u32)> {
    let small = || prop_oneof![0..100_000_u32, any::<u32>()];
    let data = (small(), small(), any::<i32>(), any::<u16>(), any::<u8>(), any::<u8>());
    let data = data.prop_map(|(message_bytes, incoming_bytes, ack, version, backlog, flags)| {
        let flags = Flags(flags);
        let cutoffs_version = version;
        Kind::Data(Data { message_bytes, incoming_bytes, ack, cutoffs_version, backlog, flags })
    });
    let cutoffs = (proptest::collection::vec(0..1_u32 << 24, 0..=6), any::<u16>());
    let cutoffs = cutoffs.prop_map(|(mut bounds, version)| {
        bounds.sort_unstable();
        Kind::Cutoffs(Published::new(&Cutoffs::new(8, &bounds).expect("sorted"), version))
    });
    let bare = |kind| (Just(kind), Just(0), Just(0));
    prop_oneof![
        4 => (data, small(), 0..2_000_u32),
        2 => (small(), any::<u8>())
            .prop_map(|(offset_bytes, priority)| (Kind::Grant { offset_bytes, priority }, 0, 0)),
        2 => (small(), small(), any::<u8>()).prop_map(|(offset_bytes, length_bytes, priority)| {
            (Kind::Resend { offset_bytes, length_bytes, priority }, 0, 0)
        }),
        1 => bare(Kind::Busy),
        1 => bare(Kind::Unknown),
        1 => bare(Kind::Refused(Refusal::Overloaded)),
        1 => bare(Kind::Refused(Refusal::Unanswered)),
        1 => bare(Kind::NeedAck),
        1 => any::<[i32; 4]>().prop_map(|all| (Kind::Ack(Acks(all)), 0, 0)),
        1 => (cutoffs, Just(0), Just(0)),
    ]
}

/// Few peers and names, so that steps meet each other.
fn any_step() -> impl Strategy<Value = Step> {
    let node = || prop_oneof![9 => 0..3_u32, 1 => any::<u32>()].prop_map(Node);
    let name = || prop_oneof![9 => 0..8_u64, 1 => any::<u64>()].prop_map(Message);
    let length = || prop_oneof![0..3_000_u32, 0..200_000_u32, any::<u32>()];
    prop_oneof![
        3 => (node(), name(), length()).prop_map(|(to, message, length_bytes)| {
            Step::Input(Input::Submit { to, message, length_bytes, asks: true })
        }),
        2 => (node(), name(), length()).prop_map(|(to, question, length_bytes)| {
            Step::Input(Input::Answer { to, question, length_bytes })
        }),
        1 => name().prop_map(|message| Step::Input(Input::Cancel { message })),
        6 => (node(), name(), any_packet()).prop_map(|(from, message, (kind, offset, length))| {
            let header = PacketHeader { layout: Layout::Linux, kind };
            let payload = Extent { message, offset_bytes: offset, length_bytes: length };
            Step::Input(Input::Rx { from, header, payload, seen: Seen::default() })
        }),
        4 => prop::sample::select(Timer::ALL.to_vec())
            .prop_map(Step::Expire),
        8 => Just(Step::Pull),
        1 => Just(Step::Start),
    ]
}

/// Takes those steps that an endpoint would take, and gives their digests as a recorder has them.
fn play(header: &Header, steps: &[(u64, Step)]) -> (Vec<(Instant, Step)>, Vec<u64>) {
    let mut machine = header.config.fresh().expect("a machine");
    let mut outbox = Outbox::with_capacity(machine.effects_max());
    let mut rng = Stream::keyed(header.seed, 0, Purpose::Machine);
    let mut timers = std::collections::BTreeMap::new();
    let (mut now, mut digest) = (Instant::ZERO, Digest::new());
    let (mut taken, mut digests) = (Vec::new(), Vec::new());
    for &(gap, step) in [(0, Step::Start)].iter().chain(steps) {
        match step {
            Step::Start if !taken.is_empty() => continue,
            Step::Expire(timer) => match timers.remove(&timer) {
                None => continue,
                Some(due) => now = now.max(due),
            },
            _ => now += cavy_core::Span::from_ns(gap),
        }
        let pulled = step.take(&mut machine, &mut Cx::new(now, &mut rng, &mut outbox));
        machine.check();
        fold(&mut digest, now, outbox.entries(), pulled.as_ref());
        for out in outbox.drain() {
            match out {
                cavy_core::Out::Arm(timer, at) => drop(timers.insert(timer, at)),
                cavy_core::Out::Disarm(timer) => drop(timers.remove(&timer)),
                cavy_core::Out::Effect(_) => {}
            }
        }
        taken.push((now, step));
        if (taken.len() as u64).is_multiple_of(MARK_EVERY) {
            digests.push(digest.value());
        }
    }
    digests.push(digest.value());
    (taken, digests)
}

proptest! {
    #[test]
    fn a_step_is_read_as_it_was_written(at in 0..1_u64 << 62, step in any_step(), sum: u64) {
        let mut text = Vec::new();
        let line = Line::Step(Instant::from_ns(at), step);
        line.write(&mut text, sum);
        prop_assert_eq!(parse(&text), Ok(Read { line, sum: None }));
        let line = Line::Mark(Instant::from_ns(at), Summary { inputs: at, digest: !sum });
        text.clear();
        line.write(&mut text, sum);
        prop_assert_eq!(parse(&text), Ok(Read { line, sum: Some(sum) }));
        prop_assert!(String::from_utf8(text).is_ok_and(|text| text.contains(&hex(sum))));
    }

    #[test]
    fn random_bytes_are_errors(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse::<Step>(&bytes);
        prop_assert!(run(&bytes).is_err());
        let head = FIXTURES[0].lines().next().expect("a header").as_bytes();
        let _ = run(&[head, b"\n[0,\"start\"]\n", &bytes, b"\n"].concat());
    }

    /// Text that nearly is a recording: bytes are changed, cut out and doubled.
    #[test]
    fn damaged_recordings_never_panic(
        which in 0..4_usize,
        hits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3), 1..6),
    ) {
        let mut bytes = FIXTURES[which].as_bytes().to_vec();
        for (place, byte, how) in hits {
            let at = place.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, b'0' + byte % 10),
            }
        }
        let _ = run(&bytes);
    }

    /// Steps that no endpoint would take in this order: the machine bears them, and a recording of
    /// them replays.
    #[test]
    fn whatever_the_steps_a_replay_decides_the_same(
        which in 0..4_usize,
        steps in proptest::collection::vec((0..3_000_000_u64, any_step()), 0..700),
    ) {
        let header = Reader::new(FIXTURES[which].as_bytes()).expect("a header").header().clone();
        let (taken, digests) = play(&header, &steps);
        let replayed = run(&written(&header, &taken, &digests)).expect("undamaged");
        prop_assert!(replayed.agrees() && replayed.whole);
        prop_assert_eq!(replayed.compared, taken.len() as u64);
    }
}

/// Processor time of this thread.
fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Processor time of all threads.
fn process_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// What a step costs the endpoint's thread, and with the writer's.
/// `cargo test -p cavy-live --lib record::homa::tests::cost -- --ignored --nocapture`
#[test]
#[ignore = "measures"]
fn cost() {
    let text = FIXTURES[3];
    let header = Reader::new(text.as_bytes()).expect("a header").header().clone();
    let steps = steps(text);
    let folder = tempfile::tempdir().expect("a folder");
    let (mut alone, mut recorded, mut written) = (Vec::new(), Vec::new(), Vec::new());
    let rounds = 400;
    for _ in 0..9 {
        for record in [false, true] {
            let path = folder.path().join("homa.jsonl");
            let mut recorder =
                record.then(|| packet::Recorder::create(&path, &header).expect("a file"));
            let (start, all) = (cpu_ns(), process_ns());
            for _ in 0..rounds {
                let mut machine = header.config.fresh().expect("a machine");
                let mut outbox = Outbox::with_capacity(machine.effects_max());
                let mut rng = Stream::keyed(header.seed, 0, Purpose::Machine);
                for &(at, step) in &steps {
                    let mut cx = Cx::new(at, &mut rng, &mut outbox);
                    let pulled = step.take(&mut machine, &mut cx);
                    if let Some(recorder) = &mut recorder {
                        recorder.taken(at, step, outbox.entries(), pulled.as_ref());
                    }
                    outbox.clear();
                }
            }
            let each = |ns: u64| ns / (rounds * steps.len() as u64);
            let took = each(cpu_ns() - start);
            match recorder {
                None => alone.push(took),
                Some(recorder) => {
                    recorded.push(took);
                    let summary = recorder.finish().expect("written");
                    assert_eq!(summary.inputs, rounds * steps.len() as u64);
                    written.push(each(process_ns() - all));
                }
            }
        }
    }
    let median = |mut of: Vec<u64>| {
        of.sort_unstable();
        of[of.len() / 2]
    };
    println!("{} bytes a step in memory", std::mem::size_of::<Line>());
    println!(
        "processor ns a step: the machine {}, recorded {}, with the writer {}",
        median(alone),
        median(recorded),
        median(written)
    );
}
