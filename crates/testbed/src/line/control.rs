//! Telling a line of another process: one line of words, one answer.

use super::running::Line;
use crate::Error;
use crate::owner::Owner;
use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Where the sockets are.
const FOLDER: &str = "/run";
const END: &str = ".sock";
/// How often somebody who waits looks whether he should end.
const LOOK: Duration = Duration::from_millis(50);
/// How long the other side may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest line of words.
const WORDS_MAX: u64 = 10_000;

/// Where a running line can be told.
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    path: PathBuf,
}

/// Sockets of lines, with their owners.
fn all() -> Vec<(PathBuf, Owner)> {
    let entries = fs::read_dir(FOLDER).into_iter().flatten().flatten();
    let mut all: Vec<_> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let owner = Owner::of(name.strip_suffix(END)?)?;
            Some((entry.path(), owner))
        })
        .collect();
    all.sort();
    all
}

impl Control {
    /// Listens, and removes what killed processes left.
    ///
    /// # Errors
    /// When `/run` cannot be written.
    pub fn open() -> Result<Control, Error> {
        for (path, owner) in all() {
            if !owner.lives() {
                let _ = fs::remove_file(path);
            }
        }
        let path = PathBuf::from(FOLDER).join(Owner::this_process()?.line() + END);
        let listener = UnixListener::bind(&path).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        let listener = listener
            .map_err(|error| Error::new(format!("cannot listen at {}: {error}", path.display())))?;
        Ok(Control { listener, path })
    }

    /// Does what it is told until `stop`.
    pub fn serve(&self, line: &Line, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            match self.listener.accept() {
                // Who leaves early gets no answer.
                Ok((stream, _)) => drop(answer(stream, line)),
                Err(_) => std::thread::sleep(LOOK),
            }
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn answer(mut stream: UnixStream, line: &Line) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut text = String::new();
    BufReader::new((&stream).take(WORDS_MAX)).read_line(&mut text)?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let done = match words.as_slice() {
        ["report"] => line.report().and_then(|report| {
            serde_json::to_string(&report).map_err(|error| Error::new(error.to_string()))
        }),
        ["set", rest @ ..] => line.plan().rule(rest).and_then(|rule| {
            line.change(&rule)?;
            Ok(format!("{} ways", rule.pairs(&line.plan().hosts).len()))
        }),
        _ => Err(Error::new("a line is told `set KEY=VALUE ...` or `report`")),
    };
    match done {
        Ok(said) => writeln!(stream, "ok {said}"),
        Err(error) => writeln!(stream, "no {error}"),
    }
}

/// Tells a running line, that of process `of` where there are several, and gives its answer.
///
/// # Errors
/// When none runs, or several and none is named, or it does not do what it is told.
pub fn tell(of: Option<u32>, words: &[String]) -> Result<String, Error> {
    let mut running = all();
    running.retain(|(_, owner)| owner.lives() && of.is_none_or(|of| of == owner.process()));
    let path = match running.as_slice() {
        [(path, _)] => path,
        [] => {
            return Err(Error::new("no line is up here")
                .hint("`cavy live line up FILE` builds one, in another terminal"));
        }
        [..] => {
            let all: Vec<String> =
                running.iter().map(|(_, owner)| owner.process().to_string()).collect();
            return Err(Error::new(format!("several lines are up: {}", all.join(", ")))
                .hint("name one with `--of PROCESS`"));
        }
    };
    let ask = || {
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        writeln!(stream, "{}", words.join(" "))?;
        let mut said = String::new();
        stream.read_to_string(&mut said)?;
        Ok(said)
    };
    let said = ask().map_err(|error: std::io::Error| match error.kind() {
        ErrorKind::PermissionDenied => Error::new("the line is another user's"),
        _ => Error::new(format!("the line does not answer: {error}")),
    })?;
    match said.trim().split_once(' ') {
        Some(("ok", said)) => Ok(said.to_string()),
        Some(("no", why)) => Err(Error::new(why)),
        _ => Err(Error::new("the line does not answer")),
    }
}
