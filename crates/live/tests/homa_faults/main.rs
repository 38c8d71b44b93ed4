//! Faults, live: a server process and a client, and between them what goes wrong in networks and
//! machines. Each call ends once and in time, no server carries one out twice, nothing is left.
//!
//! All as one table:
//! `cargo test -p cavy-live --test homa_faults -- --ignored --exact table --nocapture`

#[path = "../homa_network/mod.rs"]
mod homa_network;
mod server;

use bytes::Bytes;
use cavy_core::stream::{Purpose, Ratio, Stream};
use cavy_live::homa::{CallError, Client};
use homa_network::{Faults, Relay, message, now, patient};
use server::{Left, Process};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// What is offered.
#[derive(Clone, Copy)]
struct Offer {
    calls: u32,
    /// All at once where there is none.
    per_s: Option<u32>,
    /// Longest question; most are a tenth of it at most.
    bytes: u32,
    deadline_ms: u64,
    service_us: u64,
}

const USUAL: Offer =
    Offer { calls: 1_000, per_s: Some(500), bytes: 40_000, deadline_ms: 15_000, service_us: 0 };

/// What came of it.
#[derive(Debug)]
struct Row {
    name: &'static str,
    calls: u32,
    answered: u32,
    errors: BTreeMap<String, u32>,
    /// Answers that are not the question.
    wrong: u32,
    /// Carried out twice by one server process.
    doubled: u32,
    /// Carried out by the killed server, and again by the one after it.
    again: u32,
    /// Calls that never ended.
    lost: u32,
    client: Left,
    server: Left,
    longest_ms: u128,
    /// Longest until a call failed.
    failed_ms: u128,
    /// Answers in a second, until the last one.
    answers_per_s: u128,
    deadline_ms: u64,
    last_ms: u128,
}

impl Row {
    fn failed(&self) -> u32 {
        self.errors.values().sum()
    }

    /// What must hold whatever happens.
    fn check(&self) {
        assert_eq!(self.answered + self.failed(), self.calls, "{self:?}");
        assert_eq!((self.wrong, self.doubled, self.lost), (0, 0, 0), "{self:?}");
        assert_eq!((self.client, self.server), (Left::default(), Left::default()), "{self:?}");
        // A busy machine gives notice of an end later than it came.
        assert!(self.longest_ms < u128::from(self.deadline_ms) + 1_000, "{self:?}");
    }

    fn line(&self) -> String {
        let errors: Vec<String> = self.errors.iter().map(|(why, n)| format!("{n} {why}")).collect();
        let errors = if errors.is_empty() { "0".to_string() } else { errors.join(", ") };
        let left = |left: Left| format!("{}, {} B", left.exchanges, left.bytes);
        format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            self.name,
            self.calls,
            self.answered,
            errors,
            self.doubled,
            self.again,
            self.lost,
            left(self.client),
            left(self.server),
            self.longest_ms,
            self.last_ms,
            self.answers_per_s,
        )
    }
}

const HEAD: &str = "| fault | calls | answered once | errors | doubled | again after a restart \
    | lost silently | left at the client | left at the server | longest call ms | last end ms \
    | answers a second |\n\
    |---|---|---|---|---|---|---|---|---|---|---|---|";

/// What carries packets in a case.
struct Path {
    process: Process,
    relay: Option<Relay>,
    file: tempfile::TempPath,
    service: Duration,
}

impl Path {
    fn to(&self) -> SocketAddr {
        self.relay.as_ref().map_or(self.process.at, |relay| relay.at)
    }

    /// Who carried out what: for each question, how often each process did.
    fn carried_out(&self) -> BTreeMap<[u8; 4], BTreeMap<[u8; 4], u32>> {
        let mut counts: BTreeMap<_, BTreeMap<_, u32>> = BTreeMap::new();
        let bytes = std::fs::read(&self.file).expect("a file");
        for entry in bytes.chunks_exact(8) {
            let (question, process) = entry.split_at(4);
            let key = |part: &[u8]| <[u8; 4]>::try_from(part).expect("four bytes");
            *counts.entry(key(question)).or_default().entry(key(process)).or_default() += 1;
        }
        counts
    }
}

fn question(index: u32, offer: Offer, sizes: &mut Stream) -> Bytes {
    let most = if index.is_multiple_of(10) { offer.bytes } else { offer.bytes / 10 };
    let length = 4 + sizes.below(u64::from(most)) as usize;
    let mut bytes = message(length, index.into()).to_vec();
    bytes[..4].copy_from_slice(&index.to_be_bytes());
    Bytes::from(bytes)
}

/// Offers calls while `act` does its harm, and waits for the end of all of them.
fn run(
    name: &'static str,
    offer: Offer,
    faults: Option<Faults>,
    act: impl FnOnce(Path) -> Path + Send,
) -> Row {
    let file = tempfile::NamedTempFile::new().expect("a file").into_temp_path();
    let service = Duration::from_micros(offer.service_us);
    let process = Process::start(&file, SocketAddr::from(([127, 0, 0, 1], 0)), service);
    let relay = faults.map(|faults| Relay::to(process.at, faults));
    let mut path = Path { process, relay, file, service };
    let (to, client) = (path.to(), Client::bind(&patient()).expect("a socket"));
    let mut sizes = Stream::keyed(5, 0, Purpose::Sizes);
    let questions: Vec<Bytes> =
        (0..offer.calls).map(|index| question(index, offer, &mut sizes)).collect();
    let (ended, ends) = channel();
    let start = now();
    path = std::thread::scope(|scope| {
        let acting = scope.spawn(|| act(path));
        for (index, question) in questions.iter().enumerate() {
            if let Some(per_s) = offer.per_s {
                let due = Duration::from_secs(index as u64) / per_s;
                std::thread::sleep(due.saturating_sub(start.elapsed()));
            }
            let (ended, begun) = (ended.clone(), now());
            let deadline = Some(Duration::from_millis(offer.deadline_ms));
            client.begin_then(to, question.clone(), deadline, move |outcome| {
                let _ = ended.send((index, outcome, begun.elapsed()));
            });
        }
        acting.join().expect("the fault is done")
    });
    drop(ended);
    let mut row = Row {
        name,
        calls: offer.calls,
        answered: 0,
        errors: BTreeMap::new(),
        wrong: 0,
        doubled: 0,
        again: 0,
        lost: offer.calls,
        client: Left::default(),
        server: Left::default(),
        longest_ms: 0,
        failed_ms: 0,
        answers_per_s: 0,
        deadline_ms: offer.deadline_ms,
        last_ms: 0,
    };
    let patience = Duration::from_millis(offer.deadline_ms + 5_000);
    loop {
        match ends.recv_timeout(patience) {
            Ok((index, outcome, took)) => {
                row.lost -= 1;
                row.last_ms = row.last_ms.max(start.elapsed().as_millis());
                row.longest_ms = row.longest_ms.max(took.as_millis());
                match outcome {
                    Ok(answer) if answer == questions[index] => {
                        row.answered += 1;
                        let ms = start.elapsed().as_millis().max(1);
                        row.answers_per_s = u128::from(row.answered) * 1_000 / ms;
                    }
                    Ok(_) => row.wrong += 1,
                    Err(why) => {
                        row.failed_ms = row.failed_ms.max(took.as_millis());
                        *row.errors.entry(format!("{why:?}")).or_default() += 1;
                    }
                }
            }
            // Every hook has run or was dropped.
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => break,
        }
    }
    for processes in path.carried_out().values() {
        row.doubled += processes.values().map(|&count| count - 1).sum::<u32>();
        row.again += processes.len() as u32 - 1;
    }
    (row.client, row.server) = left(&client, &mut path.process);
    row
}

/// What is left at both ends when they have had time to forget.
fn left(client: &Client, process: &mut Process) -> (Left, Left) {
    let start = now();
    loop {
        let counters = client.counters();
        let client = Left {
            exchanges: counters.exchanges,
            messages: counters.messages,
            bytes: counters.message_bytes,
        };
        let server = process.left();
        let clean = (client, server) == (Left::default(), Left::default());
        if clean || start.elapsed() > Duration::from_secs(20) {
            return (client, server);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn faults(lost: u32, doubled: u32, delayed: u32) -> Option<Faults> {
    let ratio = |per_cent| Ratio::new(per_cent, 100).expect("a ratio");
    let (lost, doubled, delayed) = (ratio(lost), ratio(doubled), ratio(delayed));
    Some(Faults { seed: 9, lost, doubled, delayed })
}

fn wait_ms(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

fn loss() -> Row {
    run("loss, 5 % of packets", USUAL, faults(5, 0, 0), |path| path)
}

fn reordering() -> Row {
    run("reordering, 30 % late by up to 3 ms", USUAL, faults(0, 0, 30), |path| path)
}

fn duplication() -> Row {
    run("duplication, 30 % of packets", USUAL, faults(0, 30, 0), |path| path)
}

fn killed() -> Row {
    run("server killed -9, back after 0.3 s", USUAL, None, |path| {
        wait_ms(700);
        let Path { process, relay, file, service } = path;
        let at = process.kill();
        wait_ms(300);
        Path { process: Process::start(&file, at, service), relay, file, service }
    })
}

fn killed_for_good() -> Row {
    run("server killed -9, back after 5 s", USUAL, None, |path| {
        wait_ms(700);
        let Path { process, relay, file, service } = path;
        let at = process.kill();
        wait_ms(5_000);
        Path { process: Process::start(&file, at, service), relay, file, service }
    })
}

fn stopped() -> Row {
    run("server stopped for 200 ms, five times", USUAL, None, |path| {
        for _ in 0..5 {
            wait_ms(150);
            path.process.signal("STOP");
            wait_ms(200);
            path.process.signal("CONT");
        }
        path
    })
}

const SLOW: Offer =
    Offer { calls: 2_000, per_s: Some(1_000), bytes: 2_000, service_us: 2_500, ..USUAL };

fn overload() -> Row {
    run("overload, 2.5 times what it can do", SLOW, None, |path| path)
}

fn full_load() -> Row {
    // All that fit at once: one with the handler, the others in its queue.
    let offer = Offer { calls: 51, per_s: None, ..SLOW };
    run("the same server, with as much as it takes", offer, None, |path| path)
}

fn ten_thousand() -> Row {
    let offer = Offer { calls: 10_000, per_s: None, bytes: 5_000, ..USUAL };
    run("10,000 calls at once", offer, None, |path| path)
}

fn path_down() -> Row {
    let offer = Offer { calls: 700, per_s: Some(100), ..USUAL };
    run("path down for 5 s", offer, faults(0, 0, 0), |path| {
        wait_ms(500);
        if let Some(relay) = &path.relay {
            relay.down.store(true, Ordering::Relaxed);
            wait_ms(5_000);
            relay.down.store(false, Ordering::Relaxed);
        }
        path
    })
}

fn all_answered(row: &Row) {
    row.check();
    assert_eq!((row.answered, row.again), (row.calls, 0), "{row:?}");
}

#[test]
fn loss_costs_no_call() {
    all_answered(&loss());
}

#[test]
fn reordering_costs_no_call() {
    all_answered(&reordering());
}

#[test]
fn duplication_costs_no_call() {
    all_answered(&duplication());
}

#[test]
fn a_server_killed_and_restarted_answers_or_its_calls_fail() {
    let row = killed();
    row.check();
    // The new server is asked again by those whose question or answer the old one took along.
    assert!(row.answered > row.calls / 2, "{row:?}");
}

#[test]
fn a_server_gone_for_long_fails_calls_in_time_and_serves_those_after() {
    let row = killed_for_good();
    row.check();
    assert!(row.answered > 300 && row.failed() > 0, "{row:?}");
    let known = ["Silent", "Unreachable"];
    assert!(row.errors.keys().all(|why| known.contains(&why.as_str())), "{row:?}");
}

#[test]
fn a_server_that_stands_still_costs_no_call() {
    all_answered(&stopped());
}

#[test]
fn an_overloaded_server_answers_what_it_can_and_refuses_the_rest() {
    let (able, row) = (full_load(), overload());
    all_answered(&able);
    row.check();
    assert!(row.answers_per_s * 10 >= able.answers_per_s * 9, "{able:?}\n{row:?}");
    // The refused ones know it in a fraction of their deadline of 15 s.
    let refused = row.errors.get(&format!("{:?}", CallError::Overloaded));
    assert_eq!(refused, Some(&(row.calls - row.answered)), "{row:?}");
    assert!(row.failed() > 500 && row.failed_ms < 1_000, "{row:?}");
}

#[test]
fn ten_thousand_calls_at_once_are_all_answered() {
    all_answered(&ten_thousand());
}

#[test]
fn a_path_that_is_down_fails_calls_in_time_and_serves_those_after() {
    let row = path_down();
    row.check();
    // Silence ends a call after two seconds with these options.
    assert!(row.answered >= 150 && row.failed() > 100, "{row:?}");
}

#[test]
#[ignore = "prints a table, for the performance notebook; takes a minute"]
fn table() {
    println!("{HEAD}");
    let cases = [
        loss,
        reordering,
        duplication,
        killed,
        killed_for_good,
        stopped,
        full_load,
        overload,
        ten_thousand,
        path_down,
    ];
    for case in cases {
        let row = case();
        println!("{}", row.line());
        row.check();
    }
}

#[test]
#[ignore = "the server of the other tests, which start it as a process"]
fn server_process() {
    server::serve();
}
