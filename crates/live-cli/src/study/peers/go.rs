//! The Go runtime as a peer: a small program, built when `go` is there, driven through its pipes.
//!
//! The way to it is a pipe instead of a function call, some ten microseconds; the end of a request
//! is the time that the program itself reads from the monotonic clock of the machine.

use super::{After, Rig};
use crate::faults::{FAILED, Fault};
use cavy_core::Instant;
use cavy_live::load::{Outcome, Target, Ticket};
use std::collections::BTreeMap;
use std::io::{BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use tempfile::TempDir;

const PROGRAM: &str = include_str!("slots.go");

/// The built program; its folder goes with it.
pub struct Go {
    program: PathBuf,
    /// What `go version` says.
    pub version: String,
    _folder: TempDir,
}

impl Go {
    /// Builds the program; the reason when that cannot be.
    pub fn build() -> Result<Go, String> {
        let version = Command::new("go").arg("version").output();
        let version = version.map_err(|error| format!("`go` cannot be started: {error}"))?;
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let source = folder.path().join("slots.go");
        std::fs::write(&source, PROGRAM).map_err(|error| error.to_string())?;
        let program = folder.path().join("slots");
        let built = Command::new("go")
            .args(["build", "-o"])
            .args([&program, &source])
            .current_dir(folder.path())
            .envs([("CGO_ENABLED", "0"), ("GOTOOLCHAIN", "local"), ("GO111MODULE", "off")])
            .output()
            .map_err(|error| error.to_string())?;
        if !built.status.success() {
            let said = String::from_utf8_lossy(&built.stderr);
            return Err(format!("`go build` failed: {}", said.trim()));
        }
        let version = String::from_utf8_lossy(&version.stdout).trim().to_string();
        Ok(Go { program, version, _folder: folder })
    }

    /// Starts it with as many slots.
    pub(super) fn start(&self, slots: u16) -> Result<Rig, String> {
        let slots = slots.to_string();
        let mut child = Command::new(&self.program)
            .arg(&slots)
            .env("GOMAXPROCS", &slots)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("it has no pipes".to_string());
        };
        let open: Open = Arc::default();
        let tickets = Arc::clone(&open);
        let reader = std::thread::Builder::new().name("go-answers".to_string()).spawn(move || {
            let mut answers = BufReader::new(answers);
            let mut answer = [0; 12];
            while answers.read_exact(&mut answer).is_ok() {
                let (number, ended) = parts(&answer);
                if let Some(ticket) = lock(&tickets).remove(&number) {
                    ticket.finish_at(Instant::from_ns(ended), Outcome::Answered);
                }
            }
            // A program that died has lost what it had: the tickets say so when they are dropped.
            lock(&tickets).clear();
        });
        let reader = reader.map_err(|error| error.to_string())?;
        let end = move || {
            // The target is gone and with it the pipe: the program ends when all requests have.
            let status = child.wait();
            let _ = reader.join();
            match status {
                Ok(status) if status.success() => Ok(After::default()),
                Ok(status) => Err(Fault::new(format!("the Go program: {status}")).code(FAILED)),
                Err(error) => Err(Fault::new(format!("the Go program: {error}")).code(FAILED)),
            }
        };
        let target = Pipe { requests, open };
        Ok(Rig { target: Box::new(target), end: Box::new(end) })
    }
}

/// Requests under way by number.
type Open = Arc<Mutex<BTreeMap<u32, Ticket>>>;

fn lock(open: &Open) -> std::sync::MutexGuard<'_, BTreeMap<u32, Ticket>> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

fn parts(answer: &[u8; 12]) -> (u32, u64) {
    let [a, b, c, d, rest @ ..] = *answer;
    (u32::from_le_bytes([a, b, c, d]), u64::from_le_bytes(rest))
}

struct Pipe {
    requests: ChildStdin,
    open: Open,
}

impl Target for Pipe {
    fn submit(&mut self, ticket: Ticket) {
        // A schedule has fewer entries than that.
        let number = ticket.index() as u32;
        let mut request = [0; 12];
        request[..4].copy_from_slice(&number.to_le_bytes());
        request[4..].copy_from_slice(&ticket.service().as_ns().to_le_bytes());
        lock(&self.open).insert(number, ticket);
        if self.requests.write_all(&request).is_err() {
            // The program is gone.
            lock(&self.open).remove(&number);
        }
    }
}
