//! Clients that mean harm, or that cannot do better: what they cost is bounded, and others are
//! served meanwhile. Limits are those that nodes have.
#![allow(clippy::disallowed_methods, reason = "a test of sockets waits in real time")]

use cavy_core::Span;
use cavy_node::{Skew, Wall};
use cavy_resp::request::Limits;
use cavy_resp::{Engine, Front, FrontOptions, Places, Reply};
use cavy_txn::store::Store;
use cavy_txn::{Given, Layout, Outcome, PieceResult, Region, Response, Ts, Txn};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// One at a time: they look at the memory of the process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A front end whose transactions are run on the spot.
fn front(change: impl FnOnce(&mut FrontOptions)) -> Front {
    let layout = Layout { replicas: 3, ..Layout::new(1, 1) };
    let regions = vec!["here".to_string()];
    let mut options = FrontOptions {
        listen: "127.0.0.1:0".parse().unwrap(),
        password: None,
        places: Places { layout, regions, default_region: 0 },
        region: Region(0),
        client: 1,
        clients_max: 10_000,
        patience: Span::from_ms(10_000),
        slow: Span::from_ms(30_000),
        limits: Limits::of_nodes(),
        info: Box::new(String::new),
        admin: Box::new(|_| Err(Reply::err("not here"))),
        wall: Wall::new(Skew::default()),
    };
    change(&mut options);
    let state = Mutex::new((Store::new(), Engine::default()));
    let submit = move |txn: Txn, answer: Box<dyn FnOnce(Response) + Send>| {
        let mut state = state.lock().unwrap();
        let (store, engine) = &mut *state;
        let run = |piece| {
            let (run, ops) = store.run(engine, &txn, piece, &Given::new(), Ts::ZERO);
            PieceResult { piece: piece as u16, result: run.result, ops }
        };
        let pieces = (0..txn.pieces.len()).map(run).collect();
        answer(Response { id: txn.id, outcome: Outcome::Committed { at: Ts::ZERO, pieces } });
    };
    Front::start(options, Arc::new(submit)).unwrap()
}

fn connect(front: &Front) -> TcpStream {
    let stream = TcpStream::connect(front.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// How long an honest client waits for an answer.
fn served(front: &Front) -> Duration {
    let mut stream = connect(front);
    let began = Instant::now();
    stream.write_all(b"PING\r\n").unwrap();
    let mut said = [0; 7];
    stream.read_exact(&mut said).unwrap();
    assert_eq!(&said, b"+PONG\r\n");
    began.elapsed()
}

fn memory_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// Sends as long as the other end takes it, and says what came back before it hung up.
fn pour(mut stream: TcpStream, bytes: u64) -> (u64, String) {
    let chunk = vec![b'x'; 1 << 20];
    let mut sent = 0;
    while sent < bytes {
        match stream.write(&chunk) {
            Ok(many) => sent += many as u64,
            Err(_) => break,
        }
    }
    let mut said = Vec::new();
    // What was not read when it hung up may take the answer with it.
    let _ = stream.read_to_end(&mut said);
    (sent, String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn a_value_of_512_mb_is_refused_at_its_length_and_costs_no_memory() {
    let _alone = alone();
    let front = front(|_| ());
    let before = memory_bytes();
    let mut stream = connect(&front);
    stream.write_all(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\n").unwrap();
    let mut line = String::new();
    BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "-ERR Protocol error: invalid bulk length\r\n");
    let (sent, _) = pour(stream, 512 << 20);
    assert!(sent < 64 << 20, "{sent} bytes were taken after the refusal");
    // The same in words that are short enough, but too many: what is kept is bounded.
    let mut stream = connect(&front);
    let word = Limits::of_nodes().word_bytes;
    stream.write_all(b"*64\r\n").unwrap();
    let text = vec![b'x'; word];
    for _ in 0..64 {
        let sent = write!(stream, "${word}\r\n").and_then(|()| stream.write_all(&text));
        if sent.and_then(|()| stream.write_all(b"\r\n")).is_err() {
            break;
        }
    }
    let grown = memory_bytes().saturating_sub(before);
    let most = 4 * Limits::of_nodes().bytes as u64;
    assert!(grown < most, "{grown} bytes more than before, of {most}");
    assert!(served(&front) < Duration::from_secs(2));
    front.stop();
}

#[test]
fn a_multi_of_a_million_commands_is_refused_whole_and_costs_no_memory() {
    let _alone = alone();
    let front = front(|_| ());
    let before = memory_bytes();
    let stream = connect(&front);
    let mut writer = stream.try_clone().unwrap();
    let sending = std::thread::spawn(move || -> io::Result<()> {
        writer.write_all(b"MULTI\r\n")?;
        let thousand = b"SET k 1\r\n".repeat(1_000);
        for _ in 0..1_000 {
            writer.write_all(&thousand)?;
        }
        writer.write_all(b"EXEC\r\nGET k\r\n")
    });
    let mut lines = BufReader::new(stream).lines();
    let mut next = || lines.next().expect("an answer").expect("an answer");
    assert_eq!(next(), "+OK");
    let (mut queued, mut refused, mut slowest) = (0, 0, Duration::ZERO);
    for number in 0..1_000_000 {
        match next().as_str() {
            "+QUEUED" => queued += 1,
            error if error.starts_with("-ERR") => refused += 1,
            other => panic!("{other} after {number}"),
        }
        if number % 100_000 == 0 {
            slowest = slowest.max(served(&front));
        }
    }
    assert_eq!((queued, refused), (10_000, 990_000));
    let end = next();
    assert!(end.starts_with("-EXECABORT"), "{end}");
    assert_eq!(next(), "$-1", "nothing took effect");
    sending.join().unwrap().unwrap();
    let grown = memory_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more than before");
    assert!(slowest < Duration::from_secs(2), "another client waited for {slowest:?}");
    front.stop();
}

#[test]
fn clients_that_never_finish_a_request_are_ended_and_idle_ones_are_not() {
    let _alone = alone();
    let front = front(|options| {
        (options.slow, options.clients_max) = (Span::from_ms(700), 1_000);
    });
    let slow: Vec<TcpStream> = (0..150).map(|_| connect(&front)).collect();
    let mut idle: Vec<TcpStream> = (0..150).map(|_| connect(&front)).collect();
    let began = Instant::now();
    for mut stream in &slow {
        stream.write_all(b"*2\r\n$300\r\nGE").unwrap();
    }
    assert!(served(&front) < Duration::from_secs(2));
    // They go on byte by byte, and are ended all the same: their end must come in time.
    let mut first = &slow[0];
    while began.elapsed() < Duration::from_secs(10) && first.write_all(b"T").is_ok() {
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(began.elapsed() > Duration::from_millis(500), "it was not given its time");
    for mut stream in &slow {
        let ended = stream.read(&mut [0; 64]);
        assert!(!matches!(ended, Ok(1..)), "{ended:?}");
    }
    // Who asks for nothing takes a place and no time, and is served when it asks.
    for stream in &mut idle {
        stream.write_all(b"PING\r\n").unwrap();
        let mut said = [0; 7];
        stream.read_exact(&mut said).unwrap();
    }
    assert!(served(&front) < Duration::from_secs(2));
    front.stop();
}

#[test]
fn one_client_too_many_is_told_so() {
    let _alone = alone();
    let front = front(|options| options.clients_max = 10);
    let all: Vec<TcpStream> = (0..10).map(|_| connect(&front)).collect();
    for mut stream in &all {
        stream.write_all(b"PING\r\n").unwrap();
        stream.read_exact(&mut [0; 7]).unwrap();
    }
    let mut said = String::new();
    connect(&front).read_to_string(&mut said).unwrap();
    assert_eq!(said, "-ERR max number of clients reached\r\n");
    drop(all);
    front.stop();
}
