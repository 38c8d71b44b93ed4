//! The generator against targets whose behaviour is known.

use crate::load::ledger::Keep;
use crate::load::report::Verdict;
use crate::load::wire::{Client, ClientOptions, Http, Protocol, Resp};
use crate::load::*;
use cavy_core::Span;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// `count` requests at equal gaps, types taken in turn.
fn even(count: usize, gap: Span, types: &[&str]) -> Schedule {
    let entries = (0..count).map(|index| Entry {
        at: gap * index as u64,
        kind: (index % types.len()) as u16,
        service: Span::ZERO,
    });
    let names = types.iter().map(|name| name.to_string()).collect();
    Schedule::new(names, entries.collect(), "even").expect("a schedule")
}

/// Without probes, and published whatever this busy machine does.
fn plain() -> Options {
    Options { probe: Span::ZERO, force: true, wait: Wait::Sleep, ..Options::default() }
}

#[test]
fn senders_go_first_where_they_may_and_the_report_says_so() {
    let before = machine::scheduling_here();
    let may = std::thread::spawn(clock::go_first).join().expect("no panic");
    let schedule = even(20, Span::from_us(500), &["only"]);
    let options = Options { first: true, wait: Wait::Hybrid, ..plain() };
    let target = Stalling { at: usize::MAX, stall: Span::ZERO };
    let report = run(&schedule, vec![Box::new(target)], &options).expect("a run");
    assert_eq!(report.types[0].answered, 20);
    assert_eq!(report.machine.senders == "fifo", may, "{}", report.machine.senders);
    // Only the senders, not whoever started them.
    assert_eq!(machine::scheduling_here(), before);
}

#[test]
fn a_watcher_is_told_how_far_the_run_is() {
    use std::sync::Mutex;
    let schedule = even(300, Span::from_ms(1), &["only"]);
    let told: Arc<Mutex<Vec<Progress>>> = Arc::default();
    let hears = Arc::clone(&told);
    let tell = Arc::new(move |progress: &Progress| {
        hears.lock().expect("no panic").push(*progress);
    });
    let watch = Some(Watch { every: Duration::from_millis(20), tell });
    let target = Stalling { at: usize::MAX, stall: Span::ZERO };
    let options = Options { watch, ..plain() };
    let report = run(&schedule, vec![Box::new(target)], &options).expect("a run");
    assert_eq!(report.sent, 300);
    let told = told.lock().expect("no panic");
    // However busy the machine is, a run of 300 ms is longer than 20 ms.
    assert!(!told.is_empty());
    assert!(told.is_sorted_by_key(|progress| (progress.sent, progress.passed)));
    assert!(told.iter().all(|progress| progress.sent <= 300 && progress.failed == 0));
}

/// Answers at once, but for one request, at which it stalls the sender.
struct Stalling {
    at: usize,
    stall: Span,
}

impl Target for Stalling {
    fn submit(&mut self, ticket: Ticket) {
        if ticket.index() == self.at {
            Wait::Sleep.until(clock::now() + self.stall);
        }
        ticket.finish(Outcome::Answered);
    }
}

#[test]
fn latency_counts_from_the_intended_time_and_nothing_is_skipped() {
    // 50 ms of stall fall on 50 requests of 1 ms gaps; a generator that waited would report one.
    let schedule = even(300, Span::from_ms(1), &["only"]);
    let target = Stalling { at: 100, stall: Span::from_ms(50) };
    let options = Options { keep: Keep { lines: true, interval: None }, ..plain() };
    let report = run(&schedule, vec![Box::new(target)], &options).expect("a run");
    assert_eq!((report.sent, report.types[0].answered), (300, 300));
    let slow =
        report.lines.iter().filter(|line| line.completed.since(line.intended) > Span::from_ms(5));
    let slow = slow.count();
    assert!((45..=120).contains(&slow), "{slow} requests met the stall");
    // The stall is in the sender, so it is the generator's lateness, and known as that.
    assert!(report.lateness_us.max > Some(40_000.0), "{:?}", report.lateness_us);
    for (index, line) in report.lines.iter().enumerate() {
        assert_eq!(line.index as usize, index);
        assert!(line.intended <= line.taken && line.taken <= line.actual);
        assert!(line.actual <= line.completed);
    }
}

#[test]
fn a_late_generator_does_not_publish() {
    let schedule = even(300, Span::from_ms(1), &["only"]);
    let options =
        |force| Options { force, shortest_service: Some(Span::from_us(1_000)), ..plain() };
    let of = |force| {
        let target = Stalling { at: 100, stall: Span::from_ms(50) };
        run(&schedule, vec![Box::new(target)], &options(force)).expect("a run")
    };
    let refused = of(false);
    let Verdict::Refused(reasons) = &refused.verdict else { panic!("{:?}", refused.verdict) };
    assert!(reasons[0].contains("the generator was late"), "{reasons:?}");
    assert_eq!(refused.types[0].response_us, None);
    assert!(refused.lateness_us.max.is_some(), "lateness itself is always given");
    let forced = of(true);
    assert!(matches!(forced.verdict, Verdict::Forced(_)));
    assert!(forced.types[0].response_us.is_some());
}

#[test]
fn what_is_sent_is_counted_per_type_and_without_the_warm_up() {
    let schedule = even(400, Span::from_us(500), &["a", "b"]);
    let options = Options { warmup: Span::from_ms(50), ..plain() };
    let target = || Box::new(Stalling { at: usize::MAX, stall: Span::ZERO }) as Box<dyn Target>;
    let report = run(&schedule, vec![target(), target()], &options).expect("a run");
    assert_eq!((report.warmup, report.sent), (100, 300));
    assert_eq!((report.types[0].sent, report.types[1].sent), (150, 150));
    assert_eq!(report.lateness_us.count, 300);
}

/// Forgets its tickets, or keeps them for ever.
struct Careless {
    kept: Option<Vec<Ticket>>,
}

impl Target for Careless {
    fn submit(&mut self, ticket: Ticket) {
        if let Some(kept) = &mut self.kept {
            kept.push(ticket);
        }
    }
}

#[test]
fn no_request_vanishes_from_the_books() {
    let schedule = even(20, Span::from_us(100), &["only"]);
    let options = Options { patience: Span::from_ms(30), ..plain() };
    let of = |kept| run(&schedule, vec![Box::new(Careless { kept })], &options).expect("a run");
    let forgotten = of(None);
    assert_eq!((forgotten.types[0].lost, forgotten.types[0].timed_out), (20, 0));
    assert!(forgotten.notes.iter().any(|note| note.contains("lost by the target")));
    let kept = of(Some(Vec::new()));
    assert_eq!((kept.types[0].lost, kept.types[0].timed_out), (0, 20));
}

/// Answers each request 2 ms later, on a thread of its own, and knows how many are under way.
struct Slow {
    under_way: Arc<AtomicU64>,
    most: Arc<AtomicU64>,
}

impl Target for Slow {
    fn submit(&mut self, ticket: Ticket) {
        let now = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        let under_way = Arc::clone(&self.under_way);
        std::thread::spawn(move || {
            Wait::Sleep.until(clock::now() + Span::from_ms(2));
            under_way.fetch_sub(1, Ordering::SeqCst);
            ticket.finish(Outcome::Answered);
        });
    }
}

#[test]
fn the_closed_model_keeps_to_its_clients_and_says_what_it_is() {
    let schedule = even(100, Span::from_ms(1), &["only"]);
    let most = Arc::new(AtomicU64::new(0));
    let target = Slow { under_way: Arc::default(), most: Arc::clone(&most) };
    let options = Options { model: Model::Closed { clients: 3 }, ..plain() };
    let report = run(&schedule, vec![Box::new(target)], &options).expect("a run");
    assert_eq!(most.load(Ordering::SeqCst), 3);
    // Three clients of 2 ms each for 99 ms, on a machine that may be slow.
    assert!((15..=150).contains(&report.sent), "{}", report.sent);
    assert!(report.notes[0].contains("closed model with 3 clients"), "{:?}", report.notes);
    assert_eq!(report.verdict, Verdict::Published, "lateness means nothing here");
}

#[test]
fn a_run_ends_when_it_is_told_to() {
    let schedule = even(10_000, Span::from_ms(10), &["only"]);
    let options = plain();
    let stop = Arc::clone(&options.stop);
    let teller = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(150));
        stop.store(true, Ordering::Relaxed);
    });
    let target = Stalling { at: usize::MAX, stall: Span::ZERO };
    let report = run(&schedule, vec![Box::new(target)], &options).expect("a run");
    teller.join().expect("the teller");
    assert!(report.interrupted && report.sent < 500, "{}", report.sent);
}

#[test]
fn what_cannot_be_run_is_an_error() {
    let schedule = even(1, Span::ZERO, &["only"]);
    let target = || Box::new(Stalling { at: 9, stall: Span::ZERO }) as Box<dyn Target>;
    assert!(run(&schedule, Vec::new(), &plain()).is_err());
    assert!(run(&even(0, Span::ZERO, &["only"]), vec![target()], &plain()).is_err());
    let closed = |clients| Options { model: Model::Closed { clients }, ..plain() };
    assert!(run(&schedule, vec![target()], &closed(0)).is_err());
    assert!(run(&schedule, vec![target(), target()], &closed(1)).is_err());
}

#[test]
fn the_interval_log_is_read_by_others_and_sums_to_the_whole() {
    let schedule = even(400, Span::from_us(500), &["a", "b"]);
    let interval = Span::from_ms(40);
    let options = Options { keep: Keep { lines: true, interval: Some(interval) }, ..plain() };
    let target = Stalling { at: usize::MAX, stall: Span::ZERO };
    let report = run(&schedule, vec![Box::new(target)], &options).expect("a run");
    let log = export::interval_log(&report, interval).expect("a log");
    let mut counts = [0, 0];
    let mut intervals = std::collections::BTreeSet::new();
    for entry in IntervalLogIterator::new(&log) {
        let Ok(LogEntry::Interval(entry)) = entry else { continue };
        let bytes = base64(entry.encoded_histogram());
        let histogram = Deserializer::new().deserialize::<u64, _>(&mut &bytes[..]);
        let histogram = histogram.expect("a histogram");
        counts[usize::from(entry.tag().map(|tag| tag.as_str()) == Some("b"))] += histogram.len();
        intervals.insert(entry.start_timestamp());
    }
    assert_eq!(counts, [200, 200]);
    assert!(intervals.len() >= 5, "{intervals:?}");
    let text = export::percentile_text(&report.accounts[0].response);
    assert!(text.contains("Total count    =          200"), "{text}");
    assert_eq!(export::lines(&report).lines().count(), 401);
}

/// Decodes base64, so that the test does not trust what the log was written with.
fn base64(text: &str) -> Vec<u8> {
    let value = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let mut bytes = Vec::new();
    let (mut bits, mut held) = (0u32, 0);
    for c in text.bytes().filter(|c| *c != b'=') {
        bits = bits << 6 | u32::from(value(c));
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    bytes
}

/// A server that answers each connection by `serve`, until the listener is dropped with the test.
fn server(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = Arc::clone(&serve);
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

fn drive(protocol: impl Protocol + 'static, at: SocketAddr, schedule: &Schedule) -> Report {
    drive_by(protocol, at, schedule, 2, 1)
}

fn drive_by(
    protocol: impl Protocol + 'static,
    address: SocketAddr,
    schedule: &Schedule,
    connections: usize,
    depth: usize,
) -> Report {
    let timeout = Span::from_ms(150);
    let options = ClientOptions { address, connections, depth, timeout };
    let client = Client::connect(Arc::new(protocol), options).expect("a server");
    let options = Options { patience: Span::from_ms(1_000), ..plain() };
    run(schedule, vec![Box::new(client)], &options).expect("a run")
}

fn http(paths: &[&str]) -> Http {
    let paths: Vec<String> = paths.iter().map(|path| path.to_string()).collect();
    Http::new("test", &paths).expect("requests")
}

/// Reads requests and answers them by their path; `/stop` closes, `/silent` never answers.
fn answer(mut stream: TcpStream) {
    let mut held = Vec::new();
    let mut bytes = [0; 4096];
    loop {
        while let Some(end) = held.windows(4).position(|four| four == b"\r\n\r\n") {
            let head: Vec<u8> = held.drain(..end + 4).collect();
            let head = String::from_utf8_lossy(&head);
            let status = match head.split(' ').nth(1) {
                Some("/stop") => return,
                Some("/silent") => continue,
                Some("/full") => "503 Service Unavailable",
                Some("/wrong") => "500 Internal Server Error",
                _ => "200 OK",
            };
            let text = format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nok");
            if stream.write_all(text.as_bytes()).is_err() {
                return;
            }
        }
        match stream.read(&mut bytes) {
            Ok(0) | Err(_) => return,
            Ok(read) => held.extend(&bytes[..read]),
        }
    }
}

#[test]
fn http_outcomes_are_counted_apart() {
    let at = server(answer);
    let schedule = even(120, Span::from_ms(1), &["fine", "full", "wrong"]);
    let report = drive(http(&["/", "/full", "/wrong"]), at, &schedule);
    let [fine, full, wrong] = &report.types[..] else { panic!("three types") };
    assert_eq!((fine.answered, full.overloaded, wrong.server_errors), (40, 40, 40));
    assert_eq!(fine.response_us.map(|p| p.count), Some(40));
    assert_eq!(full.response_us.map(|p| p.count), Some(0), "errors have no latency");
    let said = |kind: &report::TypeReport| {
        kind.complaints.iter().map(|one| (one.count, one.text.clone())).collect::<Vec<_>>()
    };
    assert_eq!(said(fine), []);
    assert_eq!(said(full), [(40, "503 Service Unavailable: ok".to_string())]);
    assert_eq!(said(wrong), [(40, "500 Internal Server Error: ok".to_string())]);
    assert!(wrong.mostly_failed() && !fine.mostly_failed());
}

#[test]
fn a_server_that_hangs_up_costs_its_requests_only() {
    let at = server(answer);
    let schedule = even(100, Span::from_ms(2), &["fine", "stop"]);
    let report = drive(http(&["/", "/stop"]), at, &schedule);
    let [fine, stop] = &report.types[..] else { panic!("two types") };
    assert_eq!(stop.connection_errors, 50);
    assert!(fine.answered >= 40, "{fine:?}");
}

#[test]
fn a_server_that_does_not_answer_is_given_up_on() {
    let at = server(answer);
    let schedule = even(8, Span::from_ms(1), &["silent"]);
    let started = clock::now();
    let report = drive(http(&["/silent"]), at, &schedule);
    assert_eq!(report.types[0].timed_out, 8);
    assert!(report.waited <= 8 && clock::now().since(started) < Span::from_ms(3_000));
}

#[test]
fn requests_wait_for_a_connection_and_it_shows() {
    let at = server(|mut stream| {
        let mut bytes = [0; 4096];
        while stream.read(&mut bytes).is_ok_and(|read| read > 0) {
            std::thread::sleep(Duration::from_millis(5));
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let schedule = even(20, Span::from_us(100), &["only"]);
    let report = drive(http(&["/"]), at, &schedule);
    assert_eq!(report.types[0].answered, 20);
    assert!(report.waited >= 16, "{}", report.waited);
    // The last of ten on one connection waits for the nine before it.
    let max = report.accounts[0].response.max();
    assert!(max >= 45_000_000, "{max} ns");
    assert!(report.notes.iter().any(|note| note.contains("for a free connection")));
}

#[test]
fn what_is_not_http_is_an_error_of_the_server() {
    let at = server(|mut stream| {
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n");
        std::thread::sleep(Duration::from_millis(300));
    });
    let report = drive(http(&["/"]), at, &even(4, Span::from_ms(1), &["only"]));
    assert_eq!(report.types[0].server_errors, 4, "{:?}", report.types[0]);
    assert_eq!(report.types[0].complaints[0].text, "no HTTP: `SSH-2.0-OpenSSH_9.2`");
}

#[test]
fn resp_commands_share_a_connection() {
    let at = server(|mut stream| {
        let mut bytes = [0; 65536];
        let mut held = 0;
        // Each command is `*1\r\n$4\r\nPING\r\n`, 14 bytes; what is torn is kept.
        while let Ok(read @ 1..) = stream.read(&mut bytes) {
            held += read;
            let whole = held / 14;
            held %= 14;
            if stream.write_all("+PONG\r\n".repeat(whole).as_bytes()).is_err() {
                return;
            }
        }
    });
    let resp = Resp::new(&["PING".to_string()]).expect("a command");
    let report = drive_by(resp, at, &even(2_000, Span::from_us(50), &["ping"]), 1, 64);
    assert_eq!(report.types[0].answered, 2_000);
}

#[test]
fn nobody_there_is_an_error_before_the_run() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let options = ClientOptions { address, connections: 2, depth: 1, timeout: Span::from_ms(200) };
    let error = Client::connect(Arc::new(http(&["/"])), options).err().expect("nobody is there");
    assert!(error.to_string().contains("cannot connect to 127.0.0.1:"), "{error}");
}

#[test]
fn a_server_that_goes_away_ends_in_errors_and_not_in_waiting() {
    let gone = Arc::new(AtomicBool::new(false));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address");
    std::thread::spawn({
        let gone = Arc::clone(&gone);
        move || {
            let mut streams: Vec<TcpStream> = Vec::new();
            streams.extend(listener.incoming().take(2).flatten());
            std::thread::sleep(Duration::from_millis(100));
            gone.store(true, Ordering::SeqCst);
        }
    });
    let report = drive(http(&["/"]), at, &even(200, Span::from_ms(2), &["only"]));
    let only = &report.types[0];
    assert!(gone.load(Ordering::SeqCst));
    assert_eq!(only.connection_errors + only.timed_out, 200, "{only:?}");
    assert!(only.connection_errors > 100, "{only:?}");
    let told: u64 = only.complaints.iter().map(|one| one.count).sum();
    assert_eq!(told + only.other_complaints, 200, "{only:?}");
}

#[test]
fn complaints_are_bounded_whatever_a_server_invents() {
    let next = AtomicU64::new(0);
    let at = server(move |mut stream| {
        let mut bytes = [0; 4096];
        while stream.read(&mut bytes).is_ok_and(|read| read > 0) {
            let number = next.fetch_add(1, Ordering::SeqCst);
            let body = format!("{number} {}", "x".repeat(5_000));
            let head = format!("HTTP/1.1 400 No\r\nContent-Length: {}\r\n\r\n", body.len());
            let _ = stream.write_all((head + &body).as_bytes());
        }
    });
    let report = drive(http(&["/"]), at, &even(100, Span::from_ms(2), &["only"]));
    let only = &report.types[0];
    assert_eq!((only.server_errors, only.complaints.len()), (100, 8), "{only:?}");
    assert!(only.complaints.iter().all(|one| one.text.len() <= 200), "{only:?}");
    assert_eq!(only.other_complaints, 92);
}
