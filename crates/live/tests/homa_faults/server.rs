//! A server that is a process of its own, so that it can be stopped and killed: this file of tests,
//! started again. What it carries out it writes to a file, which outlives it.

use cavy_live::homa::{Handler, Options, Reply, Server};
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

const FILE: &str = "CAVY_TEST_HOMA_FILE";
const BIND: &str = "CAVY_TEST_HOMA_BIND";
const SERVICE_US: &str = "CAVY_TEST_HOMA_SERVICE_US";

/// The process, seen from the test.
pub struct Process {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    pub at: SocketAddr,
}

/// What a server still holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Left {
    pub exchanges: u64,
    pub messages: u64,
    pub bytes: u64,
}

impl Process {
    /// Starts a server at `bind` that answers after `service`, one question at a time if it takes
    /// any.
    pub fn start(file: &Path, bind: SocketAddr, service: Duration) -> Process {
        let mut command = Command::new(std::env::current_exe().expect("a test has a file"));
        let mut child = command
            .args(["--exact", "server_process", "--ignored", "--nocapture"])
            .env(FILE, file)
            .env(BIND, bind.to_string())
            .env(SERVICE_US, service.as_micros().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let stdin = child.stdin.take().expect("a pipe");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut process = Process { child, stdin, stdout, at: bind };
        process.at = process.line("at").parse().expect("an address");
        process
    }

    /// The rest of the next line that begins with `word`.
    fn line(&mut self, word: &str) -> String {
        loop {
            let mut line = String::new();
            let length = self.stdout.read_line(&mut line).expect("text");
            assert!(length > 0, "the server ended");
            if let Some((_, rest)) = line.split_once(&format!("<{word}> ")) {
                return rest.trim().to_string();
            }
        }
    }

    /// What it holds now.
    pub fn left(&mut self) -> Left {
        self.stdin.write_all(b"left\n").expect("it reads");
        let line = self.line("left");
        let mut numbers = line.split(' ').map(|n| n.parse().expect("a number"));
        let mut next = || numbers.next().expect("three of them");
        Left { exchanges: next(), messages: next(), bytes: next() }
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status().expect("kill runs");
        assert!(sent.success());
    }

    /// kill -9; its address is free again.
    pub fn kill(mut self) -> SocketAddr {
        self.signal("KILL");
        let _ = self.child.wait();
        self.at
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a server until stdin ends, if this process is to be one.
#[allow(clippy::disallowed_methods, reason = "how a test's process learns what it is to be")]
pub fn serve() {
    let read = |name: &str| std::env::var(name).ok();
    let (Some(file), Some(bind), Some(service_us)) = (read(FILE), read(BIND), read(SERVICE_US))
    else {
        return;
    };
    let service = Duration::from_micros(service_us.parse().expect("a number"));
    let file = OpenOptions::new().append(true).open(file).expect("the test's file");
    let mut options =
        Options { bind: bind.parse().expect("an address"), ..super::homa_network::patient() };
    let handler = if service.is_zero() {
        let mut book = Book(file);
        Handler::inline(move |question| {
            book.note(question.bytes());
            question.into_bytes()
        })
    } else {
        options.handling_max = 1;
        options.waiting_max = 50;
        slow(Book(file), service)
    };
    let server = Server::bind(&options, handler).expect("a socket");
    println!("\n<at> {}", server.local_address());
    for _ in std::io::stdin().lines() {
        let counters = server.counters();
        let (exchanges, messages) = (counters.exchanges, counters.messages);
        println!("<left> {exchanges} {messages} {}", counters.message_bytes);
    }
}

fn slow(mut book: Book, service: Duration) -> Handler {
    let (to, from) = channel::<(bytes::Bytes, Reply)>();
    std::thread::spawn(move || {
        for (question, reply) in from {
            book.note(&question);
            std::thread::sleep(service);
            reply.send(question);
        }
    });
    Handler::new(move |question, reply| {
        let _ = to.send((question.into_bytes(), reply));
    })
}

/// What was carried out: the number of each question and this process's.
struct Book(File);

impl Book {
    fn note(&mut self, question: &[u8]) {
        let mut entry = [0; 8];
        entry[..4].copy_from_slice(&question[..4]);
        entry[4..].copy_from_slice(&std::process::id().to_be_bytes());
        self.0.write_all(&entry).expect("it is written");
    }
}
