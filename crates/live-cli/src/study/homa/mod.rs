//! `cavy-live study homa`: messages of known lengths between six hosts, over Homa and over what a
//! user would take instead, on a network of this machine's own `[homa 7.5, 7.6, 7.7]`.
//!
//! **Promise.** All peers get the same messages at the same times, drawn before the run; latency
//! counts from the time a message was due. All hosts, transports and the generator are threads of
//! one process, one for each host, that share this machine's cores; links are so slow that a packet
//! takes longer than its software. What the machine was like stands beside every result.
//!
//! **Reading order.** `arrivals` (what is sent), `peers` (by whom), `trial` and `books` (one run),
//! `kept` (a run in a file), `lag` (how late threads were),
//! `slowdown` (what came of it), `incast`, `bridge` (what the lab says), `show`.

mod arrivals;
mod books;
mod bridge;
mod incast;
mod kept;
mod lag;
mod peers;
mod show;
mod slowdown;
mod trial;

use super::Settings;
use crate::args::{HomaPart, HomaPeer, StudyName, Workload};
use crate::faults::{FAILED, Fault};
use crate::terminal;
use arrivals::{Arrivals, Demand};
use bridge::Software;
use cavy_core::Span;
use cavy_lab::net::Ideal;
use cavy_lab::statistics::quantile::{BEYOND_MIN, BEYOND_MIN_IN_BIN};
use cavy_report::model::Figure;
use cavy_testbed::{self as testbed, Plan, Testbed};
use cavy_trials::kept::Shelf;
use cavy_trials::progress::Progress;
use cavy_trials::turns::in_turns;
use cavy_trials::{Heard, Part};
use cavy_workload::sizes::Published;
use kept::{KeptRound, Label};
use show::PeerResult;
use slowdown::Tally;
use trial::{Manner, Round};

/// Length of a run, and of a quick one, in seconds.
pub const SECONDS: (f64, f64) = (30.0, 6.0);
/// What a run takes beyond its length: the idle network, probes, the last answers.
const BESIDE_S: f64 = 3.0;
/// Length of each half of a run of incast, in seconds.
const INCAST_SECONDS: (f64, f64) = (3.0, 0.75);
/// Questions at once.
const INCAST: (&[u32], &[u32]) = (&[2, 4, 8, 16, 32, 64, 128, 256, 512], &[8, 64, 512]);
/// Hosts `[homa 7.6]`.
const HOSTS: u16 = 6;

/// What is run.
struct Programme {
    demands: Vec<Demand>,
    peers: Vec<HomaPeer>,
    length: Span,
    incast: Vec<u32>,
    incast_peers: Vec<HomaPeer>,
    incast_length: Span,
    resume: bool,
}

impl Programme {
    fn new(settings: &Settings, plan: &Plan) -> Result<Programme, Fault> {
        let args = &settings.args.homa;
        let (workloads, loads) = if settings.args.quick {
            (vec![Workload::W4], vec![80])
        } else {
            (vec![Workload::W3, Workload::W4, Workload::W5], vec![50, 80])
        };
        let wanted = |part| args.parts.is_empty() || args.parts.contains(&part);
        let loads = if wanted(HomaPart::Slowdown) { loads } else { Vec::new() };
        let workloads = if args.workloads.is_empty() { workloads } else { args.workloads.clone() };
        let loads = if args.loads.is_empty() || !wanted(HomaPart::Slowdown) {
            loads
        } else {
            args.loads.clone()
        };
        let mut demands = Vec::new();
        for workload in workloads {
            let published = match workload {
                Workload::W3 => Published::W3,
                Workload::W4 => Published::W4,
                Workload::W5 => Published::W5,
            };
            for &load in &loads {
                demands.push(Demand::new(published, f64::from(load) / 100.0, plan)?);
            }
        }
        let asked = |peer: HomaPeer| args.transports.is_empty() || args.transports.contains(&peer);
        let able = |peer: HomaPeer| match peer.obstacle() {
            Some(reason) if asked(peer) => {
                terminal::talk(&format!("SKIPPED: {}: {reason}", peer.label()));
                false
            }
            _ => asked(peer),
        };
        let peers: Vec<HomaPeer> = HomaPeer::ALL.into_iter().filter(|&peer| able(peer)).collect();
        let quick = settings.args.quick;
        let incast_peers: Vec<HomaPeer> = incast::PEERS
            .into_iter()
            .filter(|&peer| able(peer) && (!quick || peer != HomaPeer::TcpBbr))
            .collect();
        let incast = if quick { INCAST.1 } else { INCAST.0 };
        let seconds = if quick { INCAST_SECONDS.1 } else { INCAST_SECONDS.0 };
        Ok(Programme {
            demands,
            peers,
            length: settings.duration(SECONDS),
            incast: if wanted(HomaPart::Incast) { incast.to_vec() } else { Vec::new() },
            incast_peers,
            resume: args.resume,
            incast_length: Span::from_ns((seconds * 1e9) as u64),
        })
    }

    /// Runs of all peers on all demands.
    fn runs(&self, repetitions: u16) -> usize {
        self.demands.len() * self.peers.len() * usize::from(repetitions)
    }

    /// What all runs take, in minutes.
    fn minutes(&self, repetitions: u16) -> f64 {
        let slowdown = self.runs(repetitions) as f64 * (self.length.as_us() / 1e6 + BESIDE_S);
        let incast = (self.incast.len() * self.incast_peers.len()) as f64;
        (slowdown + incast * (2.0 * self.incast_length.as_us() / 1e6 + 0.5)) / 60.0
    }
}

/// Runs it.
pub fn run(settings: &Settings) -> Result<Part, Fault> {
    let args = &settings.args.homa;
    if let Some(reason) = testbed::obstacle() {
        terminal::talk(&format!("SKIPPED: study homa: {reason}"));
        let facts = vec![("homa".to_string(), format!("skipped: {reason}"))];
        return Ok(Part { facts, ..Part::default() });
    }
    let plan = Plan { link_bits_per_s: u64::from(args.mbit) * 1_000_000, ..Plan::slow(HOSTS) };
    let programme = Programme::new(settings, &plan)?;
    terminal::talk(&format!(
        "homa: about {:.0} minutes",
        programme.minutes(settings.repetitions).ceil()
    ));
    let mut testbed = Testbed::up(plan)?;
    let mut part = Part::default();
    let ideal = Ideal::new(&slowdown::network(&plan, Span::ZERO)?);
    let mut bridged = Vec::new();
    let mut clock = Progress::new(programme.runs(settings.repetitions));
    for demand in &programme.demands {
        let drawn: Result<Vec<Arrivals>, Fault> =
            settings.seeds().map(|seed| demand.draw(HOSTS, programme.length, seed)).collect();
        let drawn = drawn?;
        let rounds = rounds(settings, &mut testbed, &programme, demand, &drawn, &mut clock)?;
        hear(&mut part, &rounds, &drawn);
        judge(settings, demand, &drawn, &rounds, &ideal, &plan, &mut part, &mut bridged)?;
    }
    part.findings.extend(show::agreement(&bridged).into_iter().filter(|_| !bridged.is_empty()));
    if !programme.incast.is_empty() && !programme.incast_peers.is_empty() {
        run_incast(settings, &mut testbed, &programme, &mut part)?;
    }
    part.facts.extend(facts(&plan));
    Ok(part)
}

fn rounds(
    settings: &Settings,
    testbed: &mut Testbed,
    programme: &Programme,
    demand: &Demand,
    drawn: &[Arrivals],
    clock: &mut Progress,
) -> Result<Vec<Round>, Fault> {
    let manner = Manner { probe: settings.session.probe, stop: &settings.session.stop };
    let folder = &settings.session.folder;
    let shelf = Shelf::new(folder, programme.resume, env!("CARGO_PKG_VERSION"))?;
    in_turns(drawn, &programme.peers, |turn| {
        let (repetition, arrivals, peer) = (turn.repetition, turn.schedule, turn.peer);
        let plan = *testbed.plan();
        let label = Label { demand, peer, repetition, arrivals, plan: &plan };
        let file = label.file()?;
        let kept = shelf.take(&file, |kept: &KeptRound| !kept.round(&label).doubts().is_empty());
        if let Some(kept) = kept {
            clock.skip();
            return Ok(kept.round(&label));
        }
        terminal::talk(&format!(
            "{}, {} {}/{}: {}, {} messages in {:.0} s",
            clock.left(),
            demand.label(),
            turn.number,
            turn.all,
            peer.label(),
            arrivals.all.len(),
            arrivals.length.as_us() / 1e6
        ));
        let round = trial::run(&manner, testbed, peer, demand, (repetition, arrivals))?;
        clock.ran(round.doubts());
        shelf
            .put(&file, &KeptRound::of(&round))
            .map_err(|error| Fault::from(error).code(FAILED))?;
        Ok(round)
    })
}

/// Notes what the machine was like.
fn hear(part: &mut Part, rounds: &[Round], drawn: &[Arrivals]) {
    part.heard.extend(rounds.iter().map(|round| Heard {
        weather: round.weather,
        doubted: !round.doubts().is_empty(),
        schedule: drawn.get(round.repetition).map_or(0, Arrivals::digest),
    }));
}

#[allow(clippy::too_many_arguments, reason = "called once, to keep `run` short")]
fn judge(
    settings: &Settings,
    demand: &Demand,
    drawn: &[Arrivals],
    rounds: &[Round],
    ideal: &Ideal,
    plan: &Plan,
    part: &mut Part,
    bridged: &mut Vec<show::Bridged>,
) -> Result<(), Fault> {
    let mut results: Vec<PeerResult> = Vec::new();
    for round in rounds {
        if results.iter().all(|result| result.peer != round.peer) {
            let of = || rounds.iter().filter(|other| other.peer == round.peer);
            let all = Tally::of(of(), ideal);
            let single = of().map(|round| Tally::of(std::iter::once(round), ideal)).collect();
            let doubted = of().filter(|round| !round.doubts().is_empty()).count();
            results.push(PeerResult { peer: round.peer, all, single, doubted });
        }
    }
    let advantage = |name: &str, rivals: &dyn Fn(HomaPeer) -> bool| {
        let id = format!("live.homa.{}_{name}", demand.id().replace('-', "_"));
        show::advantage(&id, demand, &results, HomaPeer::Homa, rivals)
    };
    let raw_tcp = |peer: HomaPeer| peer.is_tcp() && peer != HomaPeer::Grpc;
    part.findings.extend(advantage("tcp", &raw_tcp));
    part.findings.extend(advantage("quic", &|peer| peer == HomaPeer::Quic));
    part.findings.extend(advantage("grpc", &|peer| peer == HomaPeer::Grpc));
    part.findings.extend(advantage("control", &|peer| peer == HomaPeer::NoLevels));

    let all: Vec<&Round> = rounds.iter().collect();
    let mut tables = vec![
        show::short_half(demand, &results),
        show::deciles(demand, &results),
        show::environment(demand, &all),
    ];
    let mut shows = format!(
        "{} hosts on links of {} Mb/s. Messages of {}, cut at 1 MB, {:.1} a second and host, each \
         answered by 8 bytes when it is there; slowdown is over the least time of both on that \
         network.",
        plan.hosts,
        plan.link_bits_per_s / 1_000_000,
        demand.workload.name(),
        demand.rate_per_s
    );
    for measured in results.iter().filter(|result| result.peer.is_in_lab()) {
        let of = || rounds.iter().filter(|round| round.peer == measured.peer);
        let software: Option<Vec<Software>> = of().map(Software::of).collect();
        // Kept from before that was measured.
        let Some(software) = software else { continue };
        let mut predicted = bridge::Predicted::default();
        for (round, software) in of().zip(&software) {
            let Some(arrivals) = drawn.get(round.repetition) else { continue };
            let one = bridge::predict(measured.peer, demand, arrivals, plan, software, ideal)?;
            predicted.tally.times.extend(one.tally.times);
            predicted.sent_again += one.sent_again;
        }
        let sent_again = of().map(|round| round.health.sent_again).sum();
        let bins = bridge::compare(demand, &measured.all, &predicted.tally);
        let both = (sent_again, predicted.sent_again);
        tables.push(bridge::table(measured.peer, demand, &bins, both));
        if measured.peer == HomaPeer::Homa {
            let (runs, doubted) = (measured.single.len(), measured.doubted);
            bridged.push(show::Bridged { label: demand.label(), bins, runs, doubted });
            let send = software.iter().map(|one| one.send).min().unwrap_or(Span::ZERO);
            shows.push_str(&format!(
                " The lab takes {:.0} us to send a packet and what was measured beyond that, and \
                 as long as was measured until a thread looks at what came.",
                send.as_us()
            ));
        }
    }
    part.figures.push(Figure {
        id: format!("live.homa.{}", demand.id()),
        title: format!("Homa live, {}", demand.label()),
        shows,
        claimed:
            "Short messages have a 99th percentile that is at least five times lower than over \
             the best TCP and QUIC, at 80 % of W4 and W5 (issue 5)."
                .to_string(),
        found: found(demand, &results),
        command: settings.command(StudyName::Homa),
        panels: vec![show::panel(demand, &results)],
        maps: Vec::new(),
        tables,
    });
    Ok(())
}

fn found(demand: &Demand, results: &[PeerResult]) -> String {
    let one = |result: &PeerResult| {
        let p99 = result.all.short(demand, 0.99).0;
        let p99 = p99.map_or("n/a".to_string(), |value| format!("{value:.1}"));
        format!("{} {p99}", result.peer.label())
    };
    let all: Vec<String> = results.iter().map(one).collect();
    let beyond = show::beyond_short(demand, results);
    format!("P99 slowdown of the shorter half, {beyond} messages beyond: {}.", all.join(", "))
}

fn run_incast(
    settings: &Settings,
    testbed: &mut Testbed,
    programme: &Programme,
    part: &mut Part,
) -> Result<(), Fault> {
    let stop = &settings.session.stop;
    let (numbers, chosen) = (&programme.incast, &programme.incast_peers);
    let points = incast::run(testbed, numbers, chosen, programme.incast_length, stop)?;
    part.findings.extend(show::incast(&points, HomaPeer::Homa));
    part.figures.push(Figure {
        id: "live.homa.incast".to_string(),
        title: "Incast: all answer one".to_string(),
        shows: format!(
            "One host keeps so many questions of 16 B under way to {} others, which answer {} B \
             each. With headers, {:.1} % of the link's rate is what can be reached. The switch \
             keeps {} kB a level and port.",
            HOSTS - 1,
            incast::ANSWER_BYTES,
            100.0 * most_goodput(),
            testbed.plan().level_bytes / 1_000
        ),
        claimed: "At least 90 % of the line rate at every number (issue 5).".to_string(),
        found: show::incast(&points, HomaPeer::Homa).map_or(String::new(), |finding| {
            let value = 100.0 * finding.value.unwrap_or(0.0);
            format!("Homa at its worst: {value:.1} % of the line rate. {}", finding.note)
        }),
        command: settings.command(StudyName::Homa),
        panels: Vec::new(),
        maps: Vec::new(),
        tables: vec![incast::table(&points)],
    });
    Ok(())
}

/// Bytes of answers of incast over what they take on the wire.
fn most_goodput() -> f64 {
    let beside = arrivals::FRAME_MAX_BYTES - arrivals::PACKET_BYTES;
    let packets = incast::ANSWER_BYTES.div_ceil(arrivals::PACKET_BYTES);
    f64::from(incast::ANSWER_BYTES) / f64::from(incast::ANSWER_BYTES + packets * beside)
}

fn facts(plan: &Plan) -> Vec<(String, String)> {
    let fact = |name: &str, value: String| (name.to_string(), value);
    vec![
        fact(
            "testbed",
            format!(
                "{} namespaces around a bridge, links of {} Mb/s with Ethernet's own costs, eight \
                 strict levels of {} kB at each port, {} kB at each host; no trains of segments",
                plan.hosts,
                plan.link_bits_per_s / 1_000_000,
                plan.level_bytes / 1_000,
                Plan::HOST_QUEUE_BYTES / 1_000
            ),
        ),
        fact("warm-up of messages", "those of the first tenth of each run are not counted".into()),
        fact(
            "percentiles of messages",
            format!(
                "over all repetitions together, given where {BEYOND_MIN_IN_BIN} messages lie \
                 beyond; where fewer than {BEYOND_MIN} do, tables say so and \
                 no advantage is claimed"
            ),
        ),
        fact(
            "doubts about a run",
            format!(
                "late: more than {} % of the messages were late by more than a packet's time and \
                 more than {} % of the short half's P99; stolen: more than {} % of the time; busy: \
                 more than {} % of it was used, where this process went before all others by it \
                 and by the kernel for packets",
                100.0 * trial::LATE_RATIO_MAX,
                100.0 * trial::LATE_PART_MAX,
                100.0 * trial::STEAL_RATIO_MAX,
                100.0 * trial::BUSY_RATIO_MAX
            ),
        ),
        fact(
            "looked, sent",
            "how long the oldest packet or message that a thread of Homa found had waited for it, \
             and how long it took from there to send the packet of a message or answer that has \
             one"
            .into(),
        ),
        fact(
            "threads",
            "one for each host and peer, and the generator, which goes before the others, and \
             sleeps until at most 250 us before each message"
                .into(),
        ),
        fact(
            "Homa over UDP",
            format!(
                "{} B unscheduled, the configuration `cavy` with windows of the Linux rules and at \
                 most ten times that on its way, no boost for the ends of messages (with it for \
                 incast), complaints after a thousand times what these take, {:.1} s (Basic, \
                 without grants and without incast control a quarter of it), no polling",
                arrivals::RTT_BYTES,
                8e3 * f64::from(arrivals::RTT_BYTES) / plan.link_bits_per_s as f64
            ),
        ),
        fact(
            "negative control",
            "the switch puts all packets into one level, as if all TOS were 0".into(),
        ),
        fact(
            "TCP",
            "the kernel's defaults, TCP_NODELAY; a pool has 4 to 128 connections a pair".into(),
        ),
        fact(
            "QUIC",
            "quinn, encrypted, cubic, no segmentation offload; gRPC: tonic, cubic, windows of 2 \
             and 64 MiB"
                .into(),
        ),
    ]
}
