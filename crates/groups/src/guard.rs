//! The dead man's switch: processes that let everything go on when the Governor cannot.
//!
//! The Governor tells its guard of each freeze through a pipe. When a lease ends and nothing was
//! said, or the pipe breaks, the guard lets all groups go on; when the pipe broke it also brings
//! all processes back to where they came from.
//!
//! The guard has a second one behind it, which hears of no freeze and costs nothing until the first
//! is gone. So any one of the three programs is enough, whichever two are killed.

use crate::now;
use crate::stage;
use cavy_core::{Instant, Span};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// A freeze, with its lease in nanoseconds as eight bytes.
const FREEZE: u8 = b'F';
/// Everything goes on.
const THAW: u8 = b'T';
/// The Governor has brought everything back itself.
const QUIT: u8 = b'Q';
/// How often the second guard lets all go on once the first is gone.
const STAND_IN_LOOKS: std::time::Duration = std::time::Duration::from_millis(10);
/// Bytes of a message.
const MESSAGE: usize = 9;

/// The Governor's end.
#[derive(Debug)]
pub struct Guard {
    child: Child,
    pipe: Option<ChildStdin>,
}

impl Guard {
    /// Starts `command`, which is to call [`watch`] on its standard input.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(command: &mut Command) -> io::Result<Guard> {
        // A group of its own: Ctrl-C is for the Governor.
        let mut child = command.stdin(Stdio::piped()).process_group(0).spawn()?;
        let pipe = child.stdin.take();
        Ok(Guard { child, pipe })
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Groups stand from now on, for `lease` at most.
    ///
    /// # Errors
    /// When the guard is gone: nothing may be stopped then.
    pub fn frozen(&mut self, lease: Span) -> io::Result<()> {
        self.say(FREEZE, lease.as_ns())
    }

    /// Everything goes on.
    ///
    /// # Errors
    /// When the guard is gone.
    pub fn thawed(&mut self) -> io::Result<()> {
        self.say(THAW, 0)
    }

    fn say(&mut self, what: u8, lease_ns: u64) -> io::Result<()> {
        let Some(pipe) = &mut self.pipe else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let mut message = [0; MESSAGE];
        message[0] = what;
        message[1..].copy_from_slice(&lease_ns.to_le_bytes());
        pipe.write_all(&message)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.say(QUIT, 0);
        self.pipe = None;
        let _ = self.child.wait();
    }
}

/// What the guard does: watches its standard input until it ends. `second` is to call [`stand_in`].
///
/// # Errors
/// When groups stay that cannot be let go on or removed.
pub fn watch(file: &Path, second: &mut Command) -> io::Result<()> {
    let second = Guard::start(second);
    cavy_clock::sharpen_timers();
    cavy_clock::go_first();
    let watched = watch_input(file);
    // It is told that all is well, and ends.
    drop(second);
    watched
}

/// What the second guard does: nothing until the first says that all is well, or is gone.
///
/// # Errors
/// When groups stay that cannot be let go on or removed.
pub fn stand_in(file: &Path) -> io::Result<()> {
    cavy_clock::go_first();
    let mut message = [0; MESSAGE];
    if io::stdin().lock().read_exact(&mut message).is_ok() {
        return Ok(());
    }
    let kept = match stage::read(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    // The Governor stops nobody once it has found its guard gone. Until then, and until it is gone
    // itself, nobody is left standing that it may have stopped meanwhile.
    loop {
        stage::thaw(&kept)?;
        if !stage::runs(&kept) {
            return stage::recover(file);
        }
        std::thread::sleep(STAND_IN_LOOKS);
    }
}

fn watch_input(file: &Path) -> io::Result<()> {
    let kept = stage::read(file)?;
    // Unbuffered: what was read ahead would not be seen by `poll`.
    let mut input = std::fs::File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut lease_ends = Instant::NEVER;
    loop {
        let timeout = (lease_ends != Instant::NEVER).then(|| timespec(lease_ends.since(now())));
        let ready = poll(&mut [PollFd::new(&input, PollFlags::IN)], timeout.as_ref());
        match ready {
            Ok(0) => {}
            Ok(_) => {
                let mut message = [0; MESSAGE];
                if input.read_exact(&mut message).is_err() {
                    break;
                }
                let mut ns = [0; 8];
                ns.copy_from_slice(&message[1..]);
                match message[0] {
                    FREEZE => lease_ends = now() + Span::from_ns(u64::from_le_bytes(ns)),
                    THAW => lease_ends = Instant::NEVER,
                    _ => return Ok(()),
                }
                continue;
            }
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        if now() >= lease_ends {
            lease_ends = Instant::NEVER;
            stage::thaw(&kept)?;
        }
    }
    // The Governor is gone. What it wrote last about its groups is what counts.
    stage::thaw(&kept)?;
    stage::recover(file)
}

fn timespec(span: Span) -> Timespec {
    let ns = span.as_ns();
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ }
}

/// Do all groups of `kept` go on?
pub fn all_go(kept: &stage::Journal) -> bool {
    kept.places.iter().all(|place| {
        place.freezer(kept.mechanism).and_then(|one| one.state()).is_ok_and(|state| !state.frozen)
            || !place.dir.exists()
    })
}
