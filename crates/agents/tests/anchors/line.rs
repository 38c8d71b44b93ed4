//! A network namespace for each anchor, at their measured distances: agents learn on real sockets
//! what the lab's learn in a replay. Needs root; skipped with a reason elsewhere.
//!
//! `CAVY_SERF=FOLDER cargo test -p cavy-agents --test anchors line -- --nocapture` prints the table
//! of docs/performance.md, beside serf's own agents where FOLDER has `serf` and `coordinates`
//! (tests/serf/README.md). The machine should do nothing else.

use super::{Anchor, anchors, errors};
use cavy_agents::{Agent, Options};
use cavy_coords::history::Memory;
use cavy_coords::predictors::survey::{Parts, Survey};
use cavy_coords::predictors::{Predictor as _, Probe};
use cavy_coords::start::Known;
use cavy_coords::{Config, Coordinate, Point, predict_ms};
use cavy_core::{Instant, Purpose, Span, Stream};
use cavy_testbed::line::{Line, Plan};
use cavy_testbed::obstacle;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const PORT: u16 = 7_946;
/// Probes of a node after which errors are taken.
const MARKS: [u64; 4] = [4, 8, 13, 32];
/// Time between two probes of a node.
const EVERY: Span = Span::from_ms(300);

fn line(anchors: &[Anchor]) -> Option<Line> {
    if let Some(reason) = obstacle() {
        eprintln!("SKIPPED: {reason}");
        return None;
    }
    let mut text = String::from("seed = 1\n");
    for (number, anchor) in anchors.iter().enumerate() {
        text += &format!("[[site]]\nname = \"a{number}\"\nhosts = [\"{}\"]\n", anchor.address);
    }
    for (a, anchor) in anchors.iter().enumerate() {
        for (b, rtt_ms) in anchor.rtt_ms.iter().enumerate().take(a) {
            let half = rtt_ms / 2.0;
            text += &format!("[[path]]\nfrom = \"a{a}\"\nto = \"a{b}\"\none_way_ms = {half}\n");
        }
    }
    match Line::up(Plan::read(&text).expect("a plan")) {
        Ok(line) => Some(line),
        Err(error) if error.message().contains("/dev/net/tun") => {
            eprintln!("SKIPPED: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// What a run saw.
struct Seen {
    /// Coordinates when each agent had made so many probes, by mark.
    marks: Vec<Vec<Coordinate>>,
    /// Measurements in the order in which they were made: from, to, milliseconds.
    measured: Vec<(usize, usize, f64)>,
    forged: u64,
}

/// Runs the agents until each has measured 32 round trips; `said` is where they are told they are.
fn run(line: &Line, anchors: &[Anchor], said: &[Point], symmetric: bool) -> Seen {
    let at = |anchor: &Anchor| SocketAddr::from((anchor.address, PORT));
    let agents: Vec<Agent> = anchors
        .iter()
        .enumerate()
        .map(|(number, anchor)| {
            let others = anchors.iter().filter(|other| other.address != anchor.address);
            let mut options = Options::new(at(anchor)).seeds(others.map(at));
            options.known = Known { address: Some(said[number]), country: None };
            options.every = Some(EVERY);
            (options.symmetric, options.gossip_every) = (symmetric, 0);
            // The socket and its thread stay in the anchor's namespace.
            let started = line.hosts()[number].within(|| Agent::start(&options));
            started.expect("a namespace").expect("an agent")
        })
        .collect();
    let mut marks = vec![vec![None; anchors.len()]; MARKS.len()];
    let mut measured = Vec::new();
    let number = |peer: SocketAddr| anchors.iter().position(|anchor| at(anchor) == peer);
    for _ in 0..6_000 {
        let mut done = true;
        for (from, agent) in agents.iter().enumerate() {
            for one in agent.measurements().try_iter() {
                measured.push((from, number(one.peer).expect("an anchor"), one.rtt.ms()));
            }
            let status = agent.status().expect("it runs");
            let (latitude, longitude) = status.place.expect("a place");
            let coordinate = Coordinate {
                position: Point::from_degrees(latitude, longitude).expect("on Earth"),
                height_ms: status.height_ms.expect("a height"),
                error: status.error.expect("an error"),
                system: 0,
                updates: status.updates,
            };
            for (mark, of) in MARKS.iter().zip(&mut marks) {
                if status.counters.measured >= *mark && of[from].is_none() {
                    of[from] = Some(coordinate);
                }
            }
            done &= status.counters.measured >= MARKS[MARKS.len() - 1];
        }
        if done {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let status = agents.iter().map(|agent| agent.status().expect("it runs").counters);
    let forged =
        status.map(|counted| counted.unproven + counted.repeated + counted.malformed).sum();
    let whole = |of: Vec<Option<Coordinate>>| of.into_iter().collect::<Option<Vec<_>>>();
    let marks = marks.into_iter().map(|of| whole(of).expect("all have probed")).collect();
    Seen { marks, measured, forged }
}

fn of_coordinates(anchors: &[Anchor], of: &[Coordinate]) -> (f64, f64) {
    let config = Config::default();
    errors(anchors, None, |a, b| predict_ms(&of[a], &of[b], &config))
}

/// The lab's flagship, told the same measurements in the same order, until each had made so many.
fn flagship(anchors: &[Anchor], said: &[Point], seen: &Seen, history: bool) -> Vec<(f64, f64)> {
    let known = said.iter().map(|point| (Known { address: Some(*point), country: None }, 0));
    let (parts, memory) = (Parts { history, ..Parts::default() }, Memory::default());
    let known: Vec<(Known, u32)> = known.collect();
    let all = |mark: u64| {
        let mut survey = Survey::new(Config::default(), parts, memory, known.iter().copied());
        let mut rng = Stream::keyed(1, 0, Purpose::Machine);
        let (mut made, mut now) = (vec![0; anchors.len()], Instant::ZERO);
        for (from, to, rtt_ms) in &seen.measured {
            made[*from] += 1;
            now += Span::from_ms(20);
            if made[*from] <= mark {
                let (from, to, rtt_ms, at) = (*from as u32, *to as u32, *rtt_ms, now);
                survey.learn(&Probe { from, to, rtt_ms, at }, &mut rng);
            }
        }
        errors(anchors, None, |a, b| {
            survey.predict_ms(a as u32, b as u32, now).expect("everybody has a place")
        })
    };
    MARKS.iter().map(|mark| all(*mark)).collect()
}

/// Ends its processes with the test.
struct Processes(Vec<Child>);

impl Drop for Processes {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Real serf agents on the same line, one a namespace, as they come: one probe a second each. The
/// errors after so many seconds; `None` where the programs are not there.
fn serf(line: &Line, anchors: &[Anchor]) -> Option<Vec<(f64, f64)>> {
    #[allow(clippy::disallowed_methods)] // programs that were built before
    let Ok(folder) = std::env::var("CAVY_SERF") else {
        println!("serf SKIPPED: CAVY_SERF names no folder; tests/serf/README.md fills one");
        return None;
    };
    let folder = std::path::PathBuf::from(folder);
    const RPC: &str = "127.0.0.1:7373";
    let mut agents = Processes(Vec::new());
    for (number, anchor) in anchors.iter().enumerate() {
        let mut command = Command::new(folder.join("serf"));
        command.args(["agent", "-log-level=err", "-rpc-addr", RPC]);
        command.arg(format!("-node=a{number}")).arg(format!("-bind={}:7946", anchor.address));
        if number > 0 {
            command.arg(format!("-retry-join={}:7946", anchors[0].address));
        }
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = line.hosts()[number].within(|| command.spawn()).expect("a namespace");
        agents.0.push(child.expect("serf starts"));
    }
    let start = cavy_clock::now() + Span::from_ms(2_000);
    let mut all = Vec::new();
    for mark in MARKS {
        cavy_clock::Wait::Sleep.until(start + Span::from_ms(1_000 * mark));
        let ask = |number: usize| {
            let mut command = Command::new(folder.join("coordinates"));
            command.args([RPC, &format!("a{number}")]);
            let output = line.hosts()[number].within(|| command.output()).expect("a namespace");
            let said: serde_json::Value =
                serde_json::from_slice(&output.expect("it runs").stdout).expect("an object");
            let own = &said[format!("a{number}")];
            let parts = |at: &str| own[at].as_f64().expect("a number");
            let vector: Vec<f64> = own["Vec"]
                .as_array()
                .expect("a vector")
                .iter()
                .filter_map(|v| v.as_f64())
                .collect();
            (vector, parts("Height"), parts("Adjustment"))
        };
        let known: Vec<(Vec<f64>, f64, f64)> = (0..anchors.len()).map(ask).collect();
        all.push(errors(anchors, None, |a, b| {
            // serf's DistanceTo.
            let ((a, ha, ja), (b, hb, jb)) = (&known[a], &known[b]);
            let flat = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
            let (raw, adjusted) = (flat + ha + hb, flat + ha + hb + ja + jb);
            1e3 * if adjusted > 0.0 { adjusted } else { raw }
        }));
    }
    Some(all)
}

#[test]
fn twenty_anchors_learn_their_distances_and_repair_a_wrong_place() {
    let anchors = anchors();
    let Some(line) = line(&anchors) else { return };
    let said: Vec<Point> = anchors.iter().map(|anchor| anchor.said).collect();
    let start: Vec<Coordinate> =
        said.iter().map(|point| Coordinate::at(*point, 0, &Config::default())).collect();
    let geo = of_coordinates(&anchors, &start);
    println!("p50 / p90 of absolute errors over all {} pairs, ms", anchors.len() * 19 / 2);
    println!("geolocation            {:5.1} / {:5.1}", geo.0, geo.1);
    let mut last = geo;
    for symmetric in [false, true] {
        let seen = run(&line, &anchors, &said, symmetric);
        assert_eq!(seen.forged, 0, "no datagram of an agent is refused by another");
        let name = if symmetric { "Htrae, both ends learn" } else { "Htrae, one-sided" };
        for (mark, of) in MARKS.iter().zip(&seen.marks) {
            last = of_coordinates(&anchors, of);
            println!("{name}, {mark:2} probes  {:5.1} / {:5.1}", last.0, last.1);
        }
        let mut late: Vec<f64> =
            seen.measured.iter().map(|(a, b, ms)| ms - anchors[*a].rtt_ms[*b]).collect();
        late.sort_by(f64::total_cmp);
        let (p50, p90) = (late[late.len() / 2], late[late.len() * 9 / 10]);
        println!(
            "  {} round trips are {p50:.2} ms longer than told at p50, {p90:.2} at p90",
            late.len()
        );
        if symmetric {
            for (history, name) in [(false, "flagship"), (true, "the same and history")] {
                for (mark, of) in MARKS.iter().zip(flagship(&anchors, &said, &seen, history)) {
                    println!("{name}, {mark:2} probes  {:5.1} / {:5.1}", of.0, of.1);
                }
            }
        }
    }
    if let Some(all) = serf(&line, &anchors) {
        for (mark, of) in MARKS.iter().zip(all) {
            println!("serf 0.10.1, {mark:2} s      {:5.1} / {:5.1}", of.0, of.1);
        }
    }
    assert!(last.0 < geo.0 && last.1 < geo.1, "{last:?} after 32 probes, {geo:?} by place alone");
    // The database puts one anchor on the other side of the world.
    let wrong = 0;
    let mut moved = said.clone();
    let [x, y, z] = said[wrong].vector();
    moved[wrong] = Point::from_vector([-x, -y, -z]).expect("the antipode");
    let start: Vec<Coordinate> =
        moved.iter().map(|point| Coordinate::at(*point, 0, &Config::default())).collect();
    let config = Config::default();
    let of = |all: &[Coordinate]| {
        errors(&anchors, Some(wrong), |a, b| predict_ms(&all[a], &all[b], &config))
    };
    let before = of(&start);
    let seen = run(&line, &anchors, &moved, true);
    println!("one wrong place, its pairs: {:5.1} / {:5.1} before", before.0, before.1);
    let mut after = before;
    for (mark, all) in MARKS.iter().zip(&seen.marks) {
        after = of(all);
        println!("  after {mark:2} probes  {:5.1} / {:5.1}", after.0, after.1);
    }
    assert!(after.0 <= before.0 / 2.0, "{after:?} of {before:?}");
    let report = line.report().expect("an answer");
    println!(
        "the line was {:.0} us late at p50, {:.0} at p99",
        report.late.p50_us, report.late.p99_us
    );
}
