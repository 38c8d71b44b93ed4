//! Reading a recording, and taking its steps again.

use super::line::{Line, fold, parse};
use super::{Header, Said as _, Steps, VERSION};
use crate::record::lines::{End, Lines};
use crate::record::{ReplayError, Summary};
use cavy_core::{Cx, Digest, Instant, Out, Outbox, Purpose, Stream};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// A recording that is read: its header, then its steps one by one.
pub struct Reader<C, R> {
    header: Header<C>,
    lines: Lines<R>,
    /// First line since the last mark.
    since: u64,
    end: Option<End>,
}

/// What is read after the header.
enum Next<S> {
    Step(Instant, S),
    Mark(Summary),
    /// The last line, or where the file breaks off.
    End,
}

impl<C: Steps> Reader<C, File> {
    /// Opens the recording at `path`.
    ///
    /// # Errors
    /// A file that cannot be read, or does not begin with the header of such a recording.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ReplayError> {
        Reader::new(File::open(path)?)
    }
}

impl<C: Steps, R: Read> Reader<C, R> {
    /// Reads a recording from `from`.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn new(from: R) -> Result<Self, ReplayError> {
        let mut lines = Lines::new(from);
        let header: Header<C> = lines.header()?;
        lines.check_version(header.version, VERSION)?;
        if header.machine != C::NAME {
            return Err(lines.fault(format!("the machine must be {:?}", C::NAME)));
        }
        Ok(Reader { header, lines, since: 1, end: None })
    }

    /// How the machine was built.
    pub fn header(&self) -> &Header<C> {
        &self.header
    }

    fn next(&mut self) -> Result<Next<C::Step>, ReplayError> {
        if self.end.is_some() || !self.lines.advance()? {
            return Ok(Next::End);
        }
        self.end = self.lines.end(self.since)?;
        if self.end.is_some() {
            return Ok(Next::End);
        }
        let read = parse(self.lines.text()).map_err(|what| self.lines.fault(what))?;
        if let Some(sum) = read.sum {
            self.lines.check_sum(sum, self.since)?;
        }
        match read.line {
            Line::Step(at, step) => Ok(Next::Step(at, step)),
            Line::Mark(_, summary) => Ok(Next::Mark(summary)),
        }
    }
}

/// The first stretch of a recording that was decided otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Differs {
    /// First and last step of it, from 1.
    pub steps: (u64, u64),
    /// First and last line of it.
    pub lines: (u64, u64),
    /// Digest of the answers in the run; `None` when it was cut off before it said so.
    pub recorded: Option<u64>,
    /// And now.
    pub replayed: u64,
    /// The step of the run that this machine could not take, and why: a timer that it had not set.
    pub untakeable: Option<(u64, String)>,
}

/// What a replay came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// Steps taken, and the digest of what the machine answered. A replay ends with the first
    /// stretch that differs.
    pub summary: Summary,
    /// Steps whose answers were compared and are the same.
    pub compared: u64,
    /// The first stretch that is decided otherwise.
    pub differs: Option<Differs>,
    /// Has the recording an end? Without one it was cut off.
    pub whole: bool,
    /// Why it ended before the run did, if it did and says so.
    pub stopped: Option<String>,
}

impl Replayed {
    /// Did the machine decide as it did in the run, as far as the recording goes?
    pub fn agrees(&self) -> bool {
        self.differs.is_none()
    }
}

/// A step that a machine has taken.
pub struct Taken<'a, C: Steps> {
    /// When.
    pub at: Instant,
    /// What it was.
    pub step: C::Step,
    /// What the machine asked for.
    pub outs: &'a [Out<C::Effect, C::Timer>],
    /// What it gave besides, such as the packet that it was asked for.
    pub given: Option<&'a C::Given>,
    /// How late this was, if it is a timer: the deadline.
    pub due: Option<Instant>,
    /// The machine, after the step.
    pub machine: &'a C::Machine,
}

/// Lets a fresh machine take the steps in `reader` again.
///
/// A timer that fires in the recording and was not set by this machine is another decision, as any
/// other answer would be. What no recorder writes, such as time that goes back, is an error and not
/// a panic: recordings come from users.
///
/// # Errors
/// A file that cannot be read, is damaged, or describes a machine that cannot be built.
pub fn replay<C: Steps, R: Read>(reader: &mut Reader<C, R>) -> Result<Replayed, ReplayError> {
    replay_watched(reader, &mut |_| {})
}

/// As [`replay`], telling `watch` every step.
///
/// # Errors
/// As [`replay`].
pub fn replay_watched<C: Steps, R: Read>(
    reader: &mut Reader<C, R>,
    watch: &mut dyn FnMut(&Taken<'_, C>),
) -> Result<Replayed, ReplayError> {
    let machine = reader.header().config.fresh().map_err(|what| reader.lines.fault(what))?;
    let mut run = Run::<C>::new(machine, reader.header().seed);
    loop {
        match reader.next()? {
            Next::Step(at, step) => {
                run.take(at, step, watch).map_err(|what| reader.lines.fault(what))?;
            }
            Next::Mark(recorded) => {
                let lines = (reader.since, reader.lines.number());
                reader.since = reader.lines.number() + 1;
                run.compare(Some(recorded), lines).map_err(|what| reader.lines.fault(what))?;
                if run.differs.is_some() {
                    return Ok(run.replayed(None));
                }
            }
            Next::End => {
                let lines = (reader.since, reader.lines.number() - 1);
                let recorded = reader.end.as_ref().map(|end| end.summary);
                run.compare(recorded, lines).map_err(|what| reader.lines.fault(what))?;
                return Ok(run.replayed(reader.end.as_ref()));
            }
        }
    }
}

/// A machine that takes recorded steps.
struct Run<C: Steps> {
    machine: C::Machine,
    outbox: Outbox<C::Effect, C::Timer>,
    seed: u64,
    rng: Stream,
    timers: BTreeMap<C::Timer, Instant>,
    now: Instant,
    digest: Digest,
    inputs: u64,
    /// Machines that have begun.
    begun: u64,
    compared: u64,
    untakeable: Option<(u64, String)>,
    differs: Option<Differs>,
}

impl<C: Steps> Run<C> {
    fn new(machine: C::Machine, seed: u64) -> Self {
        Run {
            outbox: Outbox::with_capacity(C::effects_max(&machine)),
            machine,
            seed,
            rng: Stream::keyed(seed, 0, Purpose::Machine),
            timers: BTreeMap::new(),
            now: Instant::ZERO,
            digest: Digest::new(),
            inputs: 0,
            begun: 0,
            compared: 0,
            untakeable: None,
            differs: None,
        }
    }

    /// A machine begins, or goes on: one goes first, and time goes on with it.
    fn pass(&mut self, at: Instant, begins: bool) -> Result<(), String> {
        if begins {
            self.begun += 1;
            self.now = Instant::ZERO;
            self.rng = Stream::keyed(self.seed, 0, Purpose::Machine);
            self.timers.clear();
        }
        if self.begun == 0 || self.begun > C::MACHINES_MAX {
            return Err("a recording begins with one start".to_string());
        }
        if at < self.now {
            return Err(format!("time goes back from {} to {at}", self.now));
        }
        self.now = at;
        Ok(())
    }

    /// Takes a step. After one that it cannot take, the rest of the stretch is only counted.
    fn take(
        &mut self,
        at: Instant,
        step: C::Step,
        watch: &mut dyn FnMut(&Taken<'_, C>),
    ) -> Result<(), String> {
        self.pass(at, step.begins())?;
        self.inputs += 1;
        if self.untakeable.is_some() {
            return Ok(());
        }
        let due = match C::timer(&step) {
            Some(timer) => match self.due(timer) {
                Ok(due) => Some(due),
                Err(why) => {
                    self.untakeable = Some((self.inputs, why));
                    return Ok(());
                }
            },
            None => None,
        };
        let mut cx = Cx::new(at, &mut self.rng, &mut self.outbox);
        let given = C::take(step.clone(), &mut self.machine, &mut cx)?;
        let outs = self.outbox.entries();
        fold(&mut self.digest, at, outs, given.as_ref());
        watch(&Taken { at, step, outs, given: given.as_ref(), due, machine: &self.machine });
        for out in self.outbox.drain() {
            match out {
                Out::Arm(timer, at) => {
                    self.timers.insert(timer, at);
                }
                Out::Disarm(timer) => {
                    self.timers.remove(&timer);
                }
                Out::Effect(_) => {}
            }
        }
        Ok(())
    }

    /// The deadline of a timer that fires now.
    fn due(&mut self, timer: C::Timer) -> Result<Instant, String> {
        match self.timers.remove(&timer) {
            None => Err(format!("the timer {timer:?} fires and is not set")),
            Some(due) if due > self.now + C::early(timer) => {
                Err(format!("the timer {timer:?} fires at {}, due at {due}", self.now))
            }
            Some(due) => Ok(due),
        }
    }

    /// Compares with what the run came to at this point, if it says so; `lines` are those since the
    /// last time.
    fn compare(&mut self, recorded: Option<Summary>, lines: (u64, u64)) -> Result<(), String> {
        if let Some(said) = recorded.map(|of| of.inputs).filter(|&said| said != self.inputs) {
            return Err(format!("{said} steps are said, {} are there", self.inputs));
        }
        let (replayed, recorded) = (self.digest.value(), recorded.map(|of| of.digest));
        let untakeable = self.untakeable.take();
        if untakeable.is_some() || recorded.is_some_and(|recorded| recorded != replayed) {
            let steps = (self.compared + 1, self.inputs);
            self.differs = Some(Differs { steps, lines, recorded, replayed, untakeable });
        } else if recorded.is_some() {
            self.compared = self.inputs;
        }
        Ok(())
    }

    fn replayed(self, end: Option<&End>) -> Replayed {
        Replayed {
            summary: Summary { inputs: self.inputs, digest: self.digest.value() },
            compared: self.compared,
            differs: self.differs,
            whole: end.is_some(),
            stopped: end.and_then(|end| end.stopped.clone()),
        }
    }
}
