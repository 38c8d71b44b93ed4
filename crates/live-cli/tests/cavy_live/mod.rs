//! The built command, watched from outside.

use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// A call of the command.
#[allow(dead_code, reason = "each file of tests uses its part")]
pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cavy-live"));
    command.args(args).stdin(Stdio::null()).env("COLUMNS", "100");
    command
}

/// Calls the command to its end.
#[allow(dead_code, reason = "each file of tests uses its part")]
pub fn call(args: &[&str]) -> Output {
    command(args).output().expect("the command starts")
}

/// A server on free ports, which ends with the test.
pub struct Server {
    child: Child,
    pub http: SocketAddr,
    pub resp: SocketAddr,
}

#[allow(dead_code, reason = "each file of tests uses its part")]
impl Server {
    /// Starts it and waits until it listens.
    pub fn start(args: &[&str]) -> Server {
        let doors = ["sched", "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--json"];
        let args: Vec<&str> = doors.iter().chain(args).copied().collect();
        let mut command = command(&args);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let said: Value = serde_json::from_str(&line).expect("where it listens");
        let at = |door: &str| said[door].as_str().and_then(|at| at.parse().ok()).expect("a door");
        Server { http: at("http"), resp: at("resp"), child }
    }

    /// A connection to its HTTP door.
    pub fn http(&self) -> TcpStream {
        connect(self.http)
    }

    /// A connection to its RESP door.
    pub fn resp(&self) -> TcpStream {
        connect(self.resp)
    }

    /// Sends one HTTP request on a connection of its own; status and body.
    pub fn ask(&self, head: &str, body: &str) -> (u16, String) {
        let mut stream = self.http();
        let length = body.len();
        let text = format!(
            "{head} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: \
             {length}\r\n\r\n{body}"
        );
        stream.write_all(text.as_bytes()).expect("the server reads");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        parse(&answer)
    }

    /// The figures of `/stats`.
    pub fn stats(&self) -> Value {
        let (status, body) = self.ask("GET /stats", "");
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).expect("an object")
    }

    /// Waits until nothing waits or runs, and gives the figures.
    pub fn quiet(&self) -> Value {
        until("all requests have ended", || {
            let stats = self.stats();
            (stats["in_system"] == 0).then_some(stats)
        })
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status().expect("kill runs");
        assert!(sent.success());
    }

    /// Waits for the end; what it said on stderr.
    pub fn end(mut self) -> (ExitStatus, String) {
        let status = until("the server has ended", || self.child.try_wait().expect("a child"));
        let mut said = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            let _ = stderr.read_to_string(&mut said);
        }
        (status, said)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Status and body of an answer with `Connection: close`.
pub fn parse(answer: &[u8]) -> (u16, String) {
    let text = String::from_utf8_lossy(answer);
    let status = text.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status, body.to_string())
}

fn connect(at: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(at).expect("the server listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    stream.set_nodelay(true).expect("an option");
    stream
}

/// Now: these tests watch a program from outside, in real time.
#[allow(clippy::disallowed_methods)]
pub fn now() -> Instant {
    Instant::now()
}

/// Asks again until there is an answer, at most a minute.
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = now();
    loop {
        if let Some(found) = ask() {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
