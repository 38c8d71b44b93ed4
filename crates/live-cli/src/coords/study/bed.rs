//! A host for each anchor on the line, and one run.

use super::anchors::{Anchors, quantile};
use super::serf;
use crate::coords::typed::StudyArgs;
use crate::faults::{FAILED, Fault, INTERRUPTED};
use cavy_agents::{Agent, Options};
use cavy_clock as clock;
use cavy_coords::{Config, Coordinate, Point, predict_ms};
use cavy_core::{Instant, Span};
use cavy_live::load::machine::Machine;
use cavy_places::Cities;
use cavy_places::write::{Row, database};
use cavy_testbed::line::{Line, Plan};
use cavy_trials::weather::Weather;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const PORT: u16 = 7_946;
/// The anchor whose row is wrong, where one is.
pub const WRONG: usize = 0;
/// All agents have probed so often after so many times as long as it should take, or the run fails.
const PATIENCE: u64 = 6;

/// Who runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Who {
    OneSided,
    BothEnds,
    /// Both ends learn, and the database puts one anchor on the other side of the world.
    WrongRow,
    Serf,
}

impl Who {
    pub fn id(self) -> &'static str {
        match self {
            Who::OneSided => "one-sided",
            Who::BothEnds => "both-ends",
            Who::WrongRow => "wrong-row",
            Who::Serf => "serf",
        }
    }

    pub fn label(self) -> &'static str {
        match self {
            Who::OneSided => "Htrae, one-sided",
            Who::BothEnds => "Htrae, both ends learn",
            Who::WrongRow => "Htrae, both ends learn, a wrong row",
            Who::Serf => "serf",
        }
    }
}

/// A round trip that an agent measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trip {
    pub from: usize,
    pub to: usize,
    pub rtt_ms: f64,
    pub at_ns: u64,
}

/// Where an agent took itself to be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Place {
    pub latitude: f64,
    pub longitude: f64,
    pub height_ms: f64,
    pub at_ns: u64,
}

impl Place {
    pub fn point(&self) -> Point {
        let point = Point::from_degrees(self.latitude, self.longitude);
        point.unwrap_or_else(|| unreachable!("an agent said it"))
    }

    fn coordinate(&self) -> Coordinate {
        let own = Coordinate::at(self.point(), 0, &Config::default());
        Coordinate { height_ms: self.height_ms, ..own }
    }
}

/// What a run gave.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    /// Errors at each mark, percentiles 50 and 90 over all pairs, milliseconds.
    pub errors: Vec<(f64, f64)>,
    /// Where each agent took itself to be, by mark; none of serf.
    pub places: Vec<Vec<Place>>,
    /// Where the database says that each one is.
    pub said: Vec<(f64, f64)>,
    /// In order of time; none of serf.
    pub measured: Vec<Trip>,
    /// Datagrams of agents that others refused.
    pub refused: u64,
    /// How late the line handed packets over, microseconds.
    pub late_p50_us: f64,
    pub late_p99_us: f64,
    pub weather: Weather,
}

impl Run {
    /// Why it should not be believed.
    pub fn doubts(&self) -> Vec<&'static str> {
        let stalled = self.weather.stalled_ratio.is_some_and(|ratio| ratio > 0.1);
        let late = self.late_p50_us > 100.0 || self.late_p99_us > 1_000.0;
        let all =
            [(stalled, "stalled"), (late, "the line was late"), (self.refused > 0, "refused")];
        all.into_iter().filter_map(|(is, what)| is.then_some(what)).collect()
    }

    /// By how much round trips were longer than told, percentile, milliseconds.
    pub fn longer_ms(&self, anchors: &Anchors, share: f64) -> f64 {
        let beyond = self.measured.iter().map(|one| one.rtt_ms - anchors.rtt_ms(one.from, one.to));
        quantile(&mut beyond.collect::<Vec<f64>>(), share)
    }
}

/// The hosts.
pub struct Bed<'a> {
    anchors: &'a Anchors,
    line: Line,
}

pub fn failed(what: &str, error: &dyn std::fmt::Display) -> Fault {
    Fault::new(format!("{what}: {error}")).code(FAILED)
}

/// What the lab and an agent predict by places.
pub fn of_places(anchors: &Anchors, of: Option<usize>, places: &[Place]) -> (f64, f64) {
    let config = Config::default();
    let own: Vec<Coordinate> = places.iter().map(Place::coordinate).collect();
    anchors.errors(of, |a, b| predict_ms(&own[a], &own[b], &config))
}

/// Those that begin where a database says that they are.
pub fn at_start(said: &[(f64, f64)]) -> Vec<Place> {
    let place = |(latitude, longitude): &(f64, f64)| {
        let at = Place { latitude: *latitude, longitude: *longitude, height_ms: 0.0, at_ns: 0 };
        let height_ms = Coordinate::at(at.point(), 0, &Config::default()).height_ms;
        Place { height_ms, ..at }
    };
    said.iter().map(place).collect()
}

impl<'a> Bed<'a> {
    pub fn up(anchors: &'a Anchors) -> Result<Bed<'a>, Fault> {
        let mut text = String::from("seed = 1\n");
        for a in 0..anchors.count() {
            let address = Anchors::address(a);
            text += &format!("[[site]]\nname = \"a{a}\"\nhosts = [\"{address}\"]\n");
        }
        for a in 0..anchors.count() {
            for b in 0..a {
                let half = anchors.rtt_ms(a, b) / 2.0;
                text += &format!("[[path]]\nfrom = \"a{a}\"\nto = \"a{b}\"\none_way_ms = {half}\n");
            }
        }
        let plan = Plan::read(&text).map_err(|error| failed("the line's plan", &error))?;
        let line = Line::up(plan).map_err(|error| failed("the line", &error))?;
        Ok(Bed { anchors, line })
    }

    pub fn line(&self) -> &Line {
        &self.line
    }

    /// One run, with the machine's jitter before and after it.
    pub fn run(
        &self,
        who: Who,
        marks: &[u64],
        args: &StudyArgs,
        stop: &AtomicBool,
    ) -> Result<Run, Fault> {
        let mut machine = Machine::before(args.probe);
        self.line.forget().map_err(|error| failed("the line", &error))?;
        let mut run = match (who, &args.serf) {
            (Who::Serf, Some(folder)) => serf::run(self, self.anchors, folder, marks, stop)?,
            (Who::Serf, None) => unreachable!("it is skipped without its programs"),
            (ours, _) => self.agents(ours, marks, args, stop)?,
        };
        let report = self.line.report().map_err(|error| failed("the line", &error))?;
        (run.late_p50_us, run.late_p99_us) = (report.late.p50_us, report.late.p99_us);
        machine.after(args.probe);
        run.weather = Weather::of(&machine);
        Ok(run)
    }

    /// A database of all anchors, in MaxMind's format, and what it says of each.
    fn places(&self, who: Who) -> Result<Vec<Point>, Fault> {
        let row = |one: usize| {
            let said = match who == Who::WrongRow && one == WRONG {
                true => self.anchors.opposite(one),
                false => self.anchors.said(one),
            };
            let prefix = format!("{}/32", Anchors::address(one));
            Row { prefix, place: Some(said.degrees()), ..Row::default() }
        };
        let rows: Vec<Row> = (0..self.anchors.count()).map(row).collect();
        let bytes = database(&rows).map_err(|why| failed("a database of places", &why))?;
        let cities = Cities::read(bytes).map_err(|why| failed("a database of places", &why))?;
        let find = |one| {
            let found = cities.find(Anchors::address(one).into()).known.address;
            found.ok_or_else(|| Fault::new("the database lost an anchor").code(FAILED))
        };
        (0..self.anchors.count()).map(find).collect()
    }

    fn agents(
        &self,
        who: Who,
        marks: &[u64],
        args: &StudyArgs,
        stop: &AtomicBool,
    ) -> Result<Run, Fault> {
        let anchors = self.anchors;
        let places = self.places(who)?;
        let at = |one: usize| SocketAddr::from((Anchors::address(one), PORT));
        let start = |one: usize| {
            let others = (0..anchors.count()).filter(|other| *other != one);
            let mut options = Options::new(at(one)).seeds(others.map(at));
            options.known.address = Some(places[one]);
            options.every = Some(args.every);
            (options.symmetric, options.gossip_every) = (who != Who::OneSided, 0);
            // The socket and its thread stay in the anchor's namespace.
            let started = self.line.hosts()[one].within(|| Agent::start(&options));
            let started = started.map_err(|error| failed("a namespace", &error))?;
            started.map_err(|error| failed("an agent", &error))
        };
        let agents: Vec<Agent> = (0..anchors.count()).map(start).collect::<Result<_, _>>()?;
        let most = marks.last().copied().unwrap_or(0);
        let deadline = clock::now() + args.every.saturating_mul(PATIENCE * (most + 10));
        let mut run =
            Run { said: places.iter().map(|place| place.degrees()).collect(), ..Run::default() };
        let mut by_mark: Vec<Vec<Option<Place>>> = vec![vec![None; agents.len()]; marks.len()];
        loop {
            let mut done = true;
            for (from, agent) in agents.iter().enumerate() {
                let status = agent.status().map_err(|error| failed("an agent", &error))?;
                let at_ns = clock::now().as_ns();
                let (Some((latitude, longitude)), Some(height_ms)) =
                    (status.place, status.height_ms)
                else {
                    continue;
                };
                let place = Place { latitude, longitude, height_ms, at_ns };
                for (mark, of) in marks.iter().zip(&mut by_mark) {
                    if status.counters.measured >= *mark && of[from].is_none() {
                        of[from] = Some(place);
                    }
                }
                done &= status.counters.measured >= most;
                for one in agent.measurements().try_iter() {
                    let Some(to) = anchors.of_address(one.peer.ip()) else { continue };
                    let (rtt_ms, at_ns) = (one.rtt.ms(), one.at.as_ns());
                    run.measured.push(Trip { from, to, rtt_ms, at_ns });
                }
            }
            if done {
                break;
            }
            if stop.load(Ordering::Relaxed) {
                return Err(Fault::new("interrupted").code(INTERRUPTED));
            }
            if clock::now() > deadline {
                return Err(Fault::new("agents did not probe in time: is the machine too busy?")
                    .code(FAILED)
                    .hint("raise --every"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        run.measured.sort_by_key(|one| one.at_ns);
        for agent in &agents {
            let counted = agent.status().map_err(|error| failed("an agent", &error))?.counters;
            // Not those without a time: two clocks are read, and a busy machine may come between.
            run.refused += counted.unproven + counted.repeated;
        }
        // What is still on the line would reach the sockets of the next run, whose agents would
        // refuse it: they have the same addresses.
        drop(agents);
        let longest_ms = anchors.longest_ms().ceil() as u64;
        sleep_until(clock::now() + Span::from_ms(longest_ms + 100), stop)?;
        run.places = by_mark.into_iter().map(|of| of.into_iter().flatten().collect()).collect();
        run.errors = run.places.iter().map(|of| of_places(anchors, None, of)).collect();
        Ok(run)
    }
}

/// Sleeps until then, or until somebody wants the end.
pub fn sleep_until(then: Instant, stop: &AtomicBool) -> Result<(), Fault> {
    while clock::now() < then {
        if stop.load(Ordering::Relaxed) {
            return Err(Fault::new("interrupted").code(INTERRUPTED));
        }
        let left = then.since(clock::now()).min(Span::from_ms(50));
        std::thread::sleep(Duration::from_nanos(left.as_ns()));
    }
    Ok(())
}
