//! The live world of the probe family: drives one controller over groups of this machine.
//!
//! One thread. It looks at the controller's timers, at the readings it asked for and at groups that
//! have not confirmed yet, and sleeps in between. Shortly before a timer it spins, since a pause of
//! 2 ms that ends 60 us late is 3 % too long.

use crate::clients::Gate;
use crate::edge::Edge;
use crate::freezer::{Freezer, Lead};
use crate::guard::Guard;
use crate::now;
use crate::usage::Meter;
use cavy_clock::{SPIN_SPAN_FIRST, Wait};
use cavy_core::family::probe::{Controller, Effect, Endpoint, Epoch, Group, Input, Timer, Usage};
use cavy_core::machine::{Out, Outbox};
use cavy_core::stream::{Purpose, Stream};
use cavy_core::{Cx, Instant, Span};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How often it looks whether a group has ended, and whether it shall stop.
const LOOK: Span = Span::from_ms(50);
/// How often it looks whether a group stands that was told to.
const CONFIRM: Span = Span::from_us(20);
/// How often the usage of all groups is written down.
const LEDGER: Span = Span::from_ms(20);

/// What a group of the world is.
#[derive(Debug)]
pub enum Member {
    /// Processes in a control group.
    Processes {
        /// Stops them.
        freezer: Freezer,
        /// Counts their CPU time.
        meter: Meter,
    },
    /// Clients inside this program, who stop sending and stop their clock.
    Clients(Arc<Gate>),
    /// Nobody: its CPU time is time on the wall. As a target it has others stand for a share of
    /// all time.
    Clock,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    Goes,
    /// Told to stand, and not confirmed.
    Stopping(Epoch),
    Stands(Epoch),
    Gone,
}

#[derive(Debug)]
struct Place {
    member: Member,
    standing: Standing,
    lease_ends: Instant,
    /// Readings that the controller asked for: how often, and when the next is due.
    watch: Option<(Span, Instant)>,
    /// What its meter showed when the world began.
    cpu_before: Span,
}

/// CPU time of all groups at a time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// When.
    pub at: Instant,
    /// By group; zero for clients.
    pub cpu: Vec<Span>,
}

/// What came of a run.
#[derive(Debug)]
pub struct Run<F> {
    /// What the controller concluded, in order.
    pub findings: Vec<F>,
    /// CPU time of all groups, every 20 ms and at the end.
    pub ledger: Vec<Snapshot>,
    /// Longest time for which a group stood beyond what its lease allowed.
    pub overdue: Span,
    /// It ended before it had all findings.
    pub stopped: bool,
}

/// What a world does with its controller.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Told<M> {
    /// Starts it.
    Start,
    /// Tells it that something happened.
    Input(Input<M>),
    /// Tells it that a timer came due.
    Expire(Timer),
}

impl<M: Copy> Told<M> {
    /// Lets `controller` hear it: worlds and replays do it here, in the same way.
    pub fn take<C: Controller<Message = M>>(
        self,
        controller: &mut C,
        cx: &mut Cx<'_, C::Effect, Timer>,
    ) {
        match self {
            Told::Start => controller.start(cx),
            Told::Input(input) => controller.handle(input, cx),
            Told::Expire(timer) => controller.expire(timer, cx),
        }
    }
}

/// Hears of each step of a controller.
pub trait Hears<C: Controller>: std::fmt::Debug {
    /// It was told something, and answered.
    fn taken(&mut self, at: Instant, told: Told<C::Message>, outs: &[Out<C::Effect, Timer>]);

    /// Nothing is to be done now.
    fn rest(&mut self, at: Instant);
}

/// Why a run ended badly. Everything goes on all the same.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorldError {
    /// A group cannot be stopped, continued or read.
    #[error("group {group}: {error}")]
    Group {
        /// Its number.
        group: u32,
        /// What the system said.
        error: io::Error,
    },
    /// Nobody would let groups go on if this program died.
    #[error("the guard is gone ({0}); nothing was stopped after that")]
    Guard(io::Error),
    /// The kernel does not tell what came in on connections.
    #[error("requests cannot be counted at the edge: {0}")]
    Edge(io::Error),
}

/// A controller and its groups.
pub struct World<'a, C: Controller> {
    controller: C,
    rng: Stream,
    out: Outbox<Effect<C::Message, C::Finding>, Timer>,
    alarms: Vec<(Timer, Instant)>,
    places: &'a mut Places,
    mail: VecDeque<Input<C::Message>>,
    run: Run<C::Finding>,
    guard: Option<&'a mut Guard>,
    /// Groups that stand or were told to.
    standing: usize,
    told_guard: bool,
    /// How long before the end of a pause groups are told to go on.
    lead: Lead,
    /// A group that is visited so often for each answer, and the part of a visit that is due.
    visits: (Group, f64, f64),
    hears: Option<&'a mut dyn Hears<C>>,
    edge: Option<&'a mut Edge>,
    /// A window may begin or end when nobody stands any more.
    at_an_end: bool,
}

/// The groups of a world; they outlive it, so that one controller can follow another.
#[derive(Debug)]
pub struct Places {
    places: Vec<Place>,
    epoch: Instant,
}

impl Places {
    /// Group 0 first.
    pub fn new(members: Vec<Member>) -> Places {
        let place = |member| Place {
            member,
            standing: Standing::Goes,
            lease_ends: Instant::NEVER,
            watch: None,
            cpu_before: Span::ZERO,
        };
        Places { places: members.into_iter().map(place).collect(), epoch: now() }
    }

    fn now(&self) -> Instant {
        Instant::from_ns(now().since(self.epoch).as_ns())
    }

    fn on_the_machine(&self, at: Instant) -> Instant {
        self.epoch + at.since(Instant::ZERO)
    }

    /// Lets everything go on. For ends of all kinds: it tries every group, whatever fails.
    pub fn release(&mut self) {
        for place in &mut self.places {
            match &place.member {
                Member::Processes { freezer, .. } => drop(freezer.set(false)),
                Member::Clients(gate) => gate.open(now()),
                Member::Clock => {}
            }
            if place.standing != Standing::Gone {
                place.standing = Standing::Goes;
            }
            place.watch = None;
        }
    }

    /// Threads of the group with most of them.
    pub fn threads_max(&self) -> usize {
        let threads = |place: &Place| match &place.member {
            Member::Processes { freezer, .. } => freezer.threads(),
            Member::Clients(_) | Member::Clock => 0,
        };
        self.places.iter().map(threads).max().unwrap_or(0)
    }

    /// CPU time of a group since [`Places::begin`].
    fn cpu(&mut self, group: usize) -> io::Result<Span> {
        let place = &mut self.places[group];
        match &mut place.member {
            Member::Processes { meter, .. } => Ok(meter.read()?.saturating_sub(place.cpu_before)),
            Member::Clients(_) => Ok(Span::ZERO),
            Member::Clock => Ok(now().since(self.epoch)),
        }
    }

    /// CPU time of all groups since their meters were opened.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn usage(&mut self) -> Result<Vec<Span>, WorldError> {
        let each = self.places.iter_mut().enumerate().map(|(group, place)| {
            let Member::Processes { meter, .. } = &mut place.member else { return Ok(Span::ZERO) };
            meter.read().map_err(|error| WorldError::Group { group: group as u32, error })
        });
        each.collect()
    }

    /// Time and usage count from now on.
    fn begin(&mut self) -> Result<(), WorldError> {
        self.epoch = now();
        for (group, place) in self.places.iter_mut().enumerate() {
            if let Member::Processes { meter, .. } = &mut place.member {
                let group = group as u32;
                place.cpu_before =
                    meter.read().map_err(|error| WorldError::Group { group, error })?;
            }
        }
        Ok(())
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        self.release();
    }
}

impl<'a, C: Controller> World<'a, C> {
    /// Of `controller` over `places`. Without a guard nobody lets groups go on if this program
    /// dies.
    pub fn new(controller: C, places: &'a mut Places, guard: Option<&'a mut Guard>) -> Self {
        let out = Outbox::with_capacity(controller.effects_max());
        World {
            controller,
            rng: Stream::keyed(1, 0, Purpose::Machine),
            out,
            alarms: Vec::new(),
            places,
            mail: VecDeque::new(),
            run: Run {
                findings: Vec::new(),
                ledger: Vec::new(),
                overdue: Span::ZERO,
                stopped: false,
            },
            guard,
            standing: 0,
            told_guard: false,
            lead: Lead::default(),
            visits: (Group(0), 0.0, 0.0),
            hears: None,
            edge: None,
            at_an_end: false,
        }
    }

    /// Requests are those that come in at `edge`.
    #[must_use]
    pub fn counts(mut self, edge: Option<&'a mut Edge>) -> Self {
        self.edge = edge;
        self
    }

    /// Somebody hears of each step.
    #[must_use]
    pub fn heard(mut self, hears: Option<&'a mut dyn Hears<C>>) -> Self {
        self.hears = hears;
        self
    }

    /// The controller hears of `each` visits of `group` for each answer that clients get to
    /// requests that visit it: for rules that count visits of programs which do not tell of them.
    #[must_use]
    pub fn visits(mut self, group: Group, each: f64) -> Self {
        self.visits = (group, each, 0.0);
        self
    }

    /// Drives the controller until it has concluded `findings` times or `stop` is set. All groups
    /// go on when it returns.
    ///
    /// # Errors
    /// When a group or the guard fails; all groups go on then as well.
    pub fn run(
        mut self,
        findings: usize,
        stop: &AtomicBool,
    ) -> Result<Run<C::Finding>, WorldError> {
        self.places.begin()?;
        for place in &self.places.places {
            if let Member::Clients(gate) = &place.member {
                // Those before are nobody's.
                gate.take_visits();
            }
        }
        let result = self.drive(findings, stop);
        self.places.release();
        if self.told_guard
            && let Some(guard) = self.guard.as_deref_mut()
        {
            let _ = guard.thawed();
        }
        result.map(|()| self.run)
    }

    fn drive(&mut self, findings: usize, stop: &AtomicBool) -> Result<(), WorldError> {
        let at = self.places.now();
        self.tell(at, Told::Start)?;
        let (mut looked, mut written) = (at, at);
        self.write_down(at)?;
        while self.run.findings.len() < findings {
            if stop.load(Ordering::Relaxed) {
                self.run.stopped = true;
                self.mail.push_back(Input::Abort);
                self.deliver()?;
                return Ok(());
            }
            let at = self.places.now();
            self.count();
            self.confirm(at)?;
            self.end_leases(at)?;
            self.watch(at)?;
            self.deliver()?;
            self.ring()?;
            if at.since(looked) >= LOOK {
                looked = at;
                if self.standing == 0 {
                    self.count_at_the_edge()?;
                }
                self.look()?;
            }
            if at.since(written) >= LEDGER && self.standing == 0 {
                written = at;
                self.write_down(at)?;
            }
            if let Some(hears) = self.hears.as_deref_mut() {
                hears.rest(at);
            }
            self.rest(looked + LOOK);
        }
        self.write_down(self.places.now())
    }

    /// Sleeps until something is due, at `latest`.
    fn rest(&self, latest: Instant) {
        let soonest = |until: Instant, at: Instant| if at < until { at } else { until };
        let stopping = |place: &Place| matches!(place.standing, Standing::Stopping(_));
        let places = &self.places.places;
        let mut until = places
            .iter()
            .map(|place| place.watch.map_or(Instant::NEVER, |(_, due)| due))
            .fold(latest, soonest);
        if places.iter().any(stopping) {
            until = soonest(until, self.places.now() + CONFIRM);
        }
        let alarms = self.alarms.iter().map(|(timer, at)| self.due(*timer, *at));
        let alarm = alarms.fold(Instant::NEVER, soonest);
        // Only a pause must end on the dot.
        let (until, wait) =
            if alarm <= until { (alarm, Wait::Hybrid) } else { (until, Wait::Sleep) };
        wait.until_with(self.places.on_the_machine(until), SPIN_SPAN_FIRST);
    }

    /// When a timer rings that was set to `at`. The end of a pause takes a while, and is begun as
    /// much earlier.
    fn due(&self, timer: Timer, at: Instant) -> Instant {
        match timer {
            Timer::Thaw(_) => self.lead.before(at),
            _ => at,
        }
    }

    /// Requests that came in at the edge, before a window begins or ends and every [`LOOK`]: to ask
    /// takes a part of a millisecond, so it is not done with every look.
    fn count_at_the_edge(&mut self) -> Result<(), WorldError> {
        if let Some(edge) = self.edge.as_deref_mut() {
            let requests = edge.take().map_err(WorldError::Edge)?;
            // Before what else has happened, so that it belongs to the window that ends with that.
            self.mail.push_front(Input::Completed { requests });
        }
        Ok(())
    }

    /// Answers of clients since the last look.
    fn count(&mut self) {
        for place in &self.places.places {
            if let Member::Clients(gate) = &place.member {
                let requests = gate.take_completed();
                if requests > 0 {
                    self.mail.push_back(Input::Completed { requests });
                }
                let (group, each, due) = &mut self.visits;
                *due += f64::from(gate.take_visits()) * *each;
                while *due >= 1.0 {
                    *due -= 1.0;
                    self.mail.push_back(Input::Visited { group: *group, endpoint: Endpoint(0) });
                }
            }
        }
    }

    /// Groups that were told to stand, and now do.
    fn confirm(&mut self, at: Instant) -> Result<(), WorldError> {
        for group in 0..self.places.places.len() {
            let place = &mut self.places.places[group];
            let (Standing::Stopping(epoch), Member::Processes { freezer, .. }) =
                (place.standing, &place.member)
            else {
                continue;
            };
            let group = group as u32;
            match freezer.state() {
                Ok(state) if !state.populated => self.gone(group),
                Ok(state) if state.frozen => {
                    place.standing = Standing::Stands(epoch);
                    self.mail.push_back(Input::Frozen { group: Group(group), epoch, at });
                }
                Ok(_) => {}
                Err(_) if !freezer.dir().exists() => self.gone(group),
                Err(error) => return Err(WorldError::Group { group, error }),
            }
        }
        Ok(())
    }

    fn gone(&mut self, group: u32) {
        let place = &mut self.places.places[group as usize];
        if matches!(place.standing, Standing::Stopping(_) | Standing::Stands(_)) {
            self.standing -= 1;
        }
        place.standing = Standing::Gone;
        place.watch = None;
        self.mail.push_back(Input::Gone { group: Group(group) });
    }

    /// Groups that have ended, or whose control group was removed.
    fn look(&mut self) -> Result<(), WorldError> {
        for group in 0..self.places.places.len() {
            let place = &self.places.places[group];
            if let (Member::Processes { freezer, .. }, true) =
                (&place.member, place.standing != Standing::Gone)
                && freezer.state().map_or(true, |state| !state.populated)
            {
                self.gone(group as u32);
            }
        }
        self.deliver()
    }

    /// What stands beyond its lease goes on, whatever the controller thinks. The guard does the
    /// same when this program is late.
    fn end_leases(&mut self, at: Instant) -> Result<(), WorldError> {
        for group in 0..self.places.places.len() {
            let place = &self.places.places[group];
            if let Standing::Stopping(epoch) | Standing::Stands(epoch) = place.standing
                && at >= place.lease_ends
            {
                self.run.overdue = self.run.overdue.max(at.since(place.lease_ends));
                self.go_on(group, epoch)?;
            }
        }
        Ok(())
    }

    /// Lets a group go on. It goes on while it is told: the kernel wakes its threads one by one,
    /// and where this thread is an ordinary one they run before it does, for milliseconds. So it
    /// stood until the telling began; until it was over would count what was worked meanwhile as
    /// done in no time.
    fn go_on(&mut self, group: usize, epoch: Epoch) -> Result<(), WorldError> {
        let (told, at) = (now(), self.places.now());
        let place = &mut self.places.places[group];
        match &place.member {
            Member::Processes { freezer, .. } => {
                if let Err(error) = freezer.set(false)
                    && freezer.dir().exists()
                {
                    return Err(WorldError::Group { group: group as u32, error });
                }
                self.lead.took(now().since(told));
            }
            Member::Clients(gate) => gate.open(now()),
            Member::Clock => {}
        }
        place.standing = Standing::Goes;
        self.standing -= 1;
        self.mail.push_back(Input::Thawed { group: Group(group as u32), epoch, at });
        Ok(())
    }

    fn watch(&mut self, at: Instant) -> Result<(), WorldError> {
        for group in 0..self.places.places.len() {
            let Some((every, due)) = self.places.places[group].watch else { continue };
            if due <= at {
                // A late look does not make the next ones come at once.
                let next = (due + every).max(at);
                self.places.places[group].watch = Some((every, next));
                self.read(group, self.places.now())?;
            }
        }
        Ok(())
    }

    /// Reads a group for the controller, as of `at`: when it is due, or when the controller asked.
    /// A reading that is asked for at the end of a pause belongs to the pause, because others go on
    /// only after it. With the time at which it was taken, some microseconds later, it would come
    /// after the pause, and nobody would count what the target got since the reading before.
    fn read(&mut self, group: usize, at: Instant) -> Result<(), WorldError> {
        let cpu = self.places.cpu(group);
        let cpu = cpu.map_err(|error| WorldError::Group { group: group as u32, error })?;
        // This world counts CPU time alone: rules that want more are refused before they run.
        let usage = Usage { cpu, busy: cpu, runnable: cpu };
        self.mail.push_back(Input::Used { group: Group(group as u32), at, usage });
        Ok(())
    }

    fn write_down(&mut self, at: Instant) -> Result<(), WorldError> {
        let mut cpu = Vec::with_capacity(self.places.places.len());
        for group in 0..self.places.places.len() {
            let read = self.places.cpu(group);
            cpu.push(read.map_err(|error| WorldError::Group { group: group as u32, error })?);
        }
        self.run.ledger.push(Snapshot { at, cpu });
        Ok(())
    }

    fn deliver(&mut self) -> Result<(), WorldError> {
        while let Some(input) = self.mail.pop_front() {
            let at = self.places.now();
            self.tell(at, Told::Input(input))?;
        }
        Ok(())
    }

    /// Calls what is due, earliest first.
    fn ring(&mut self) -> Result<(), WorldError> {
        loop {
            let at = self.places.now();
            let due = |(timer, when): &(Timer, Instant)| self.due(*timer, *when) <= at;
            let due = self.alarms.iter().enumerate().filter(|(_, alarm)| due(alarm));
            let Some((index, _)) = due.min_by_key(|(_, (timer, when))| (*when, *timer)) else {
                return Ok(());
            };
            let (timer, _) = self.alarms.swap_remove(index);
            if timer == Timer::Window && self.edge.is_some() {
                self.at_an_end = true;
                self.count_at_the_edge()?;
                self.deliver()?;
            }
            let at = self.places.now();
            self.tell(at, Told::Expire(timer))?;
            self.deliver()?;
        }
    }

    /// Tells the controller something, and does what it wants.
    fn tell(&mut self, at: Instant, told: Told<C::Message>) -> Result<(), WorldError> {
        told.take(&mut self.controller, &mut Cx::new(at, &mut self.rng, &mut self.out));
        if let Some(hears) = self.hears.as_deref_mut() {
            hears.taken(at, told, self.out.entries());
        }
        self.carry_out(at)
    }

    /// Does what the controller wanted at `at`.
    fn carry_out(&mut self, at: Instant) -> Result<(), WorldError> {
        let mut out = std::mem::replace(&mut self.out, Outbox::with_capacity(0));
        for item in out.drain() {
            match item {
                Out::Arm(timer, when) => {
                    self.alarms.retain(|(armed, _)| *armed != timer);
                    self.alarms.push((timer, when));
                }
                Out::Disarm(timer) => self.alarms.retain(|(armed, _)| *armed != timer),
                Out::Effect(effect) => self.apply(effect, at)?,
            }
        }
        self.out = out;
        Ok(())
    }

    fn apply(
        &mut self,
        effect: Effect<C::Message, C::Finding>,
        at: Instant,
    ) -> Result<(), WorldError> {
        match effect {
            Effect::Freeze { set, epoch, lease, .. } => {
                if let Some(guard) = self.guard.as_deref_mut() {
                    guard.frozen(lease).map_err(WorldError::Guard)?;
                    self.told_guard = true;
                }
                for index in 0..self.controller.members(set).len() {
                    let Group(group) = self.controller.members(set)[index];
                    self.stop(group as usize, epoch, lease)?;
                }
            }
            Effect::Thaw { set, epoch } => {
                for index in 0..self.controller.members(set).len() {
                    let group = self.controller.members(set)[index].0 as usize;
                    let standing = self.places.places[group].standing;
                    if standing == Standing::Stands(epoch) || standing == Standing::Stopping(epoch)
                    {
                        self.go_on(group, epoch)?;
                    }
                }
                if self.standing == 0
                    && let Some(guard) = self.guard.as_deref_mut()
                {
                    guard.thawed().map_err(WorldError::Guard)?;
                }
                if self.standing == 0 && std::mem::take(&mut self.at_an_end) {
                    self.count_at_the_edge()?;
                }
            }
            Effect::Watch { group, every } => {
                let due = self.places.now() + every;
                self.places.places[group.0 as usize].watch =
                    (!every.is_zero()).then_some((every, due));
            }
            Effect::Read { group } => self.read(group.0 as usize, at)?,
            Effect::Conclude(finding) => self.run.findings.push(finding),
            // One controller alone: there is nobody to tell.
            Effect::Send { .. } | Effect::Cast { .. } => {}
        }
        Ok(())
    }

    fn stop(&mut self, group: usize, epoch: Epoch, lease: Span) -> Result<(), WorldError> {
        let at = self.places.now();
        let place = &mut self.places.places[group];
        place.lease_ends = at + lease;
        match (place.standing, &place.member) {
            (Standing::Gone, _) => return Ok(()),
            (Standing::Stands(_), _) => {
                place.standing = Standing::Stands(epoch);
                self.mail.push_back(Input::Frozen { group: Group(group as u32), epoch, at });
                return Ok(());
            }
            (Standing::Stopping(_), _) => {
                place.standing = Standing::Stopping(epoch);
                return Ok(());
            }
            (Standing::Goes, Member::Processes { freezer, .. }) => {
                place.standing = Standing::Stopping(epoch);
                if let Err(error) = freezer.set(true)
                    && freezer.dir().exists()
                {
                    return Err(WorldError::Group { group: group as u32, error });
                }
                if freezer.stands_at_once() {
                    place.standing = Standing::Stands(epoch);
                    let at = self.places.now();
                    self.mail.push_back(Input::Frozen { group: Group(group as u32), epoch, at });
                }
            }
            // It never stands: that would be time which does not pass.
            (Standing::Goes, Member::Clock) => return Ok(()),
            (Standing::Goes, Member::Clients(gate)) => {
                gate.close(now());
                place.standing = Standing::Stands(epoch);
                self.mail.push_back(Input::Frozen { group: Group(group as u32), epoch, at });
            }
        }
        self.standing += 1;
        Ok(())
    }
}
